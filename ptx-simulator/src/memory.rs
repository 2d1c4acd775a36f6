//! The device's global memory: allocations at 64-bit addresses with gaps between them.
//!
//! Blocks on several cores read and write this memory at the same time, and a kernel with a race must not become
//! undefined behaviour of the simulator: all access goes through relaxed atomics of the access's own size.

use std::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering::Relaxed};

use crate::error::{AllocateError, MemoryError, Nearest, VariableName};

/// Address of the first allocation. Everything below is never valid, so that null pointers with any sensible index are
/// found.
const FIRST_ADDRESS: u64 = 0x10_0000_0000;
/// Allocations start at multiples of this.
const ALIGNMENT: u64 = 256;
/// At least this many bytes lie between two allocations.
const GAP: u64 = 1 << 20;
/// No address that was ever used passes this: the windows of other spaces lie above.
const LAST_ADDRESS: u64 = 0x7000_0000_0000;
/// Address of the first constant variable; [`CONSTANT_WINDOW`] is above what `allocate` ever reaches.
pub const CONSTANT_WINDOW: u64 = 0x7f40_0000_0000;
/// Freed allocations that are remembered for error messages.
const REMEMBERED: usize = 256;
/// What memory holds before anything is written to it: as a float it's a NaN, as an index it's far out of bounds.
pub const POISON: u8 = 0xff;

/// One live allocation.
pub struct Allocation {
    start: u64,
    bytes: u64,
    name: Option<Box<str>>,
    /// The memory, in 16-byte units so that it's aligned for every access.
    storage: Vec<Unit>,
    host: *mut u8,
}

/// Sixteen aligned bytes.
#[repr(C, align(16))]
#[derive(Clone, Copy)]
struct Unit([u8; 16]);

// SAFETY: `host` points into `storage`, which the allocation owns and never resizes; it's accessed through atomics only
// while shared.
unsafe impl Send for Allocation {}
// SAFETY: as above.
unsafe impl Sync for Allocation {}

impl Allocation {
    pub fn start(&self) -> u64 {
        self.start
    }

    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The module variable that the allocation belongs to.
    pub fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    /// The host's address of the allocation's first byte.
    pub fn host(&self) -> *mut u8 {
        self.host
    }
}

/// What the memory held at some time, allocation by allocation; nothing of constants, which stay.
pub struct Snapshot(Vec<Vec<Unit>>);

/// All allocations of a device.
#[derive(Default)]
pub struct GlobalMemory {
    /// Sorted by address.
    allocations: Vec<Allocation>,
    freed: Vec<(u64, u64)>,
    next: u64,
    next_constant: u64,
    used: u64,
    limit: u64,
}

impl GlobalMemory {
    pub fn new(limit: u64) -> Self {
        GlobalMemory { next: FIRST_ADDRESS, next_constant: CONSTANT_WINDOW, limit, ..Self::default() }
    }

    pub fn limit(&self) -> u64 {
        self.limit
    }

    pub fn free_bytes(&self) -> u64 {
        self.limit - self.used
    }

    pub fn allocations(&self) -> &[Allocation] {
        &self.allocations
    }

    /// Allocates `bytes` of poisoned memory; zero bytes give an address that nothing may be read from.
    pub fn allocate(&mut self, bytes: u64, name: Option<&str>) -> Result<u64, AllocateError> {
        if bytes >= LAST_ADDRESS - self.next {
            return Err(AllocateError::OutOfMemory { needed: bytes, free: self.free_bytes() });
        }
        self.place(self.next, bytes, name)?;
        let start = self.next;
        self.next = (start + bytes + GAP).next_multiple_of(ALIGNMENT);
        Ok(start)
    }

    /// Allocates a constant variable, which isn't counted against the addresses of other memory.
    pub fn allocate_constant(&mut self, bytes: u64, name: &str) -> Result<u64, AllocateError> {
        let start = self.next_constant;
        self.place(start, bytes, Some(name))?;
        self.next_constant = (start + bytes + GAP).next_multiple_of(ALIGNMENT);
        Ok(start)
    }

    fn place(&mut self, start: u64, bytes: u64, name: Option<&str>) -> Result<(), AllocateError> {
        let out_of_memory = AllocateError::OutOfMemory { needed: bytes, free: self.free_bytes() };
        let units = bytes.div_ceil(16) as usize;
        let mut storage = Vec::new();
        if bytes > self.free_bytes() || storage.try_reserve_exact(units).is_err() {
            return Err(out_of_memory);
        }
        storage.resize(units, Unit([POISON; 16]));
        let host = storage.as_mut_ptr().cast();
        self.used += bytes;
        let index = self.allocations.partition_point(|allocation| allocation.start < start);
        self.allocations.insert(index, Allocation { start, bytes, name: name.map(Box::from), storage, host });
        Ok(())
    }

    pub fn free(&mut self, address: u64) -> Result<(), MemoryError> {
        match self.allocations.binary_search_by_key(&address, |allocation| allocation.start) {
            Ok(index) if self.allocations[index].name.is_none() => {
                let allocation = self.allocations.remove(index);
                self.used -= allocation.bytes;
                debug_assert!(allocation.storage.len() as u64 * 16 >= allocation.bytes);
                if self.freed.len() == REMEMBERED {
                    self.freed.remove(0);
                }
                self.freed.push((allocation.start, allocation.bytes));
                Ok(())
            }
            _ => Err(MemoryError::NotAllocated { address }),
        }
    }

    /// The index of the allocation that holds all of `bytes` at `address`.
    pub fn find(&self, address: u64, bytes: u64) -> Option<usize> {
        let index = self.allocations.partition_point(|allocation| allocation.start <= address).checked_sub(1)?;
        let allocation = &self.allocations[index];
        let offset = address - allocation.start;
        (offset <= allocation.bytes && bytes <= allocation.bytes - offset).then_some(index)
    }

    /// What lies nearest to an address, for error messages.
    pub fn nearest(&self, address: u64) -> Nearest {
        if let Some(&(start, bytes)) =
            self.freed.iter().rev().find(|(start, bytes)| address >= *start && address - start < *bytes)
        {
            return Nearest::Freed { start, bytes };
        }
        let after = self.allocations.partition_point(|allocation| allocation.start <= address);
        let distance = |allocation: &Allocation| {
            if address < allocation.start {
                -((allocation.start - address).min(i64::MAX as u64) as i64)
            } else {
                address.saturating_sub(allocation.start + allocation.bytes).min(i64::MAX as u64) as i64
            }
        };
        let candidates = self.allocations[after.saturating_sub(1)..].iter().take(2);
        match candidates.min_by_key(|allocation| distance(allocation).unsigned_abs()) {
            Some(allocation) => Nearest::Allocation {
                start: allocation.start,
                bytes: allocation.bytes,
                name: allocation.name.as_deref().map(|name| Box::new(VariableName(name.to_owned()))),
                distance: distance(allocation),
            },
            None => Nearest::None,
        }
    }

    fn host_range(&self, address: u64, bytes: u64) -> Result<*mut u8, MemoryError> {
        match self.find(address, bytes) {
            Some(index) => {
                let allocation = &self.allocations[index];
                Ok(allocation.host.wrapping_add((address - allocation.start) as usize))
            }
            None => Err(MemoryError::OutOfBounds { address, bytes, nearest: self.nearest(address) }),
        }
    }

    /// Copies from the host. No kernel runs meanwhile: the caller has the memory to itself.
    pub fn write(&mut self, address: u64, data: &[u8]) -> Result<(), MemoryError> {
        let host = self.host_range(address, data.len() as u64)?;
        // SAFETY: `host_range` found the whole range inside one allocation; `&mut self` keeps everyone else away.
        unsafe { std::ptr::copy_nonoverlapping(data.as_ptr(), host, data.len()) };
        Ok(())
    }

    /// Fills a range with one byte value.
    pub fn fill(&mut self, address: u64, value: u8, bytes: u64) -> Result<(), MemoryError> {
        let host = self.host_range(address, bytes)?;
        // SAFETY: as in `write`.
        unsafe { std::ptr::write_bytes(host, value, bytes as usize) };
        Ok(())
    }

    /// A copy of all that kernels can write, or `None` if the machine doesn't give the memory for it.
    pub fn snapshot(&self) -> Option<Snapshot> {
        let mut copies = Vec::new();
        for allocation in &self.allocations {
            let mut copy: Vec<Unit> = Vec::new();
            if allocation.start < CONSTANT_WINDOW {
                let units = allocation.storage.len();
                copy.try_reserve_exact(units).ok()?;
                copy.resize(units, Unit([POISON; 16]));
                // SAFETY: both are of `units` units and don't overlap. The caller holds the device, and no kernel runs.
                unsafe { std::ptr::copy_nonoverlapping(allocation.host.cast(), copy.as_mut_ptr(), units) };
            }
            copies.push(copy);
        }
        Some(Snapshot(copies))
    }

    /// Puts a snapshot in place of what memory holds, and the other way round. Nothing was allocated or freed since the
    /// snapshot, and no kernel runs.
    pub fn exchange(&self, snapshot: &mut Snapshot) {
        for (allocation, copy) in self.allocations.iter().zip(&mut snapshot.0) {
            let units = copy.len().min(allocation.storage.len());
            // SAFETY: both hold `units` units and don't overlap. The caller holds the device, and no kernel runs.
            unsafe { std::ptr::swap_nonoverlapping(allocation.host.cast(), copy.as_mut_ptr(), units) };
        }
    }

    /// Copies to the host.
    pub fn read(&self, address: u64, data: &mut [u8]) -> Result<(), MemoryError> {
        let host = self.host_range(address, data.len() as u64)?;
        // SAFETY: as in `write`; launches need `&mut` of the device, so nobody writes meanwhile.
        unsafe { std::ptr::copy_nonoverlapping(host, data.as_mut_ptr(), data.len()) };
        Ok(())
    }
}

/// Reads `BYTES` bytes (1, 2, 4 or 8) as an integer.
///
/// # Safety
/// `host` must be valid for an aligned access of that size, and other threads may access it only through atomics.
#[inline(always)]
pub unsafe fn load<const BYTES: usize>(host: *mut u8) -> u64 {
    // SAFETY: passed on to the caller.
    unsafe {
        match BYTES {
            1 => u64::from(AtomicU8::from_ptr(host).load(Relaxed)),
            2 => u64::from(AtomicU16::from_ptr(host.cast()).load(Relaxed)),
            4 => u64::from(AtomicU32::from_ptr(host.cast()).load(Relaxed)),
            _ => AtomicU64::from_ptr(host.cast()).load(Relaxed),
        }
    }
}

/// Writes the low `BYTES` bytes (1, 2, 4 or 8) of `value`.
///
/// # Safety
/// As [`load`].
#[inline(always)]
pub unsafe fn store<const BYTES: usize>(host: *mut u8, value: u64) {
    // SAFETY: passed on to the caller.
    unsafe {
        match BYTES {
            1 => AtomicU8::from_ptr(host).store(value as u8, Relaxed),
            2 => AtomicU16::from_ptr(host.cast()).store(value as u16, Relaxed),
            4 => AtomicU32::from_ptr(host.cast()).store(value as u32, Relaxed),
            _ => AtomicU64::from_ptr(host.cast()).store(value, Relaxed),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_found_only_inside_one_allocation() {
        let mut memory = GlobalMemory::new(1 << 20);
        let first = memory.allocate(100, None).unwrap();
        let second = memory.allocate(8, None).unwrap();
        assert_eq!(memory.find(first, 100), Some(0));
        assert_eq!(memory.find(first + 1, 100), None);
        assert_eq!(memory.find(second - 1, 1), None);
        assert_eq!(memory.find(0, 1), None);
        assert_eq!(memory.find(u64::MAX, 1), None);
        assert!(matches!(memory.nearest(first + 104), Nearest::Allocation { distance: 4, .. }));
        assert!(matches!(memory.nearest(second - 4), Nearest::Allocation { distance: -4, .. }));
    }

    #[test]
    fn freed_memory_is_remembered_and_its_bytes_are_free_again() {
        let mut memory = GlobalMemory::new(100);
        let address = memory.allocate(100, None).unwrap();
        assert_eq!(memory.allocate(1, None), Err(AllocateError::OutOfMemory { needed: 1, free: 0 }));
        memory.free(address).unwrap();
        assert_eq!(memory.free(address), Err(MemoryError::NotAllocated { address }));
        assert_eq!(memory.nearest(address + 4), Nearest::Freed { start: address, bytes: 100 });
        memory.allocate(100, None).unwrap();
    }

    #[test]
    fn new_memory_is_poisoned() {
        let mut memory = GlobalMemory::new(100);
        let address = memory.allocate(5, None).unwrap();
        let mut data = [0; 5];
        memory.read(address, &mut data).unwrap();
        assert_eq!(data, [POISON; 5]);
    }
}
