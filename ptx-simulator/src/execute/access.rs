//! Loads and stores of a warp.
//!
//! Every access is resolved first, for all its lanes: space, bounds, alignment. Only then is anything read or written,
//! so that a store which fails in one lane leaves memory as it was.

use super::fault::Fault;
use super::pattern::{AddressPattern, total_bytes};
use super::run::{Executor, Result, list_range, read_row, read_wide_row};
use super::warp::{ALL, Warp};
use crate::alu::Row;
use crate::decode::program::*;
use crate::error::{AccessKind, LaunchErrorKind, MemorySpace, Nearest};
use crate::memory::{load, store};
use crate::observe::{Access as AccessEvent, Stored, Watch};

/// Bytes from one word of a lane's local memory to its next.
const LOCAL_STRIDE: usize = 128;

/// Where a generic address leads.
#[inline(always)]
fn target_at(address: u64) -> Target {
    match AddressSpace::of(address) {
        AddressSpace::Global | AddressSpace::Constant => Target::Global,
        AddressSpace::Shared => Target::Shared,
        AddressSpace::Local => Target::Local,
        AddressSpace::Parameter => Target::Parameter,
    }
}

fn window_of(target: Target) -> u64 {
    match target {
        Target::Shared | Target::Cluster => SHARED_WINDOW,
        Target::Local => LOCAL_WINDOW,
        Target::Parameter => PARAMETER_WINDOW,
        Target::Global | Target::Generic => 0,
    }
}

/// Where the lanes of an access find their bytes.
pub(super) struct Resolved {
    /// The host's address for each lane that takes part.
    pub pointers: [*mut u8; 32],
    /// The lanes whose bytes are in local memory, where a lane's words are [`LOCAL_STRIDE`] apart.
    pub local: u32,
}

/// What an access is, apart from its addresses.
#[derive(Clone, Copy)]
pub(super) struct Request<'r> {
    pub target: Target,
    pub kind: AccessKind,
    /// All bytes of a lane.
    pub bytes: u32,
    /// What a store of an observed launch writes.
    pub stored: Option<Stored<'r>>,
    /// The observer learns of it in another way.
    pub quiet: bool,
}

impl Request<'_> {
    /// A request of which no observer is told, but for faults.
    pub fn quiet(target: Target, kind: AccessKind, bytes: u32) -> Self {
        Request { target, kind, bytes, stored: None, quiet: true }
    }
}

/// The lanes of `mask`, lowest first.
#[inline(always)]
pub(crate) fn lanes(mask: u32) -> impl Iterator<Item = usize> {
    let mut rest = mask;
    std::iter::from_fn(move || {
        (rest != 0).then(|| {
            let lane = rest.trailing_zeros() as usize;
            rest &= rest - 1;
            lane
        })
    })
}

/// The address of every lane, before any window is taken off.
#[inline(always)]
pub(super) fn lane_addresses(rows: *const Row, address: &Address) -> [u64; 32] {
    let offset = address.offset as u64;
    // SAFETY: the decoder allocated the base's rows.
    unsafe {
        if address.base == NONE {
            [offset; 32]
        } else if address.wide {
            read_wide_row(rows, address.base).map(|base| base.wrapping_add(offset))
        } else {
            // Addresses of 32 bits stay so.
            read_row(rows, address.base).map(|base| u64::from(base.wrapping_add(offset as u32)))
        }
    }
}

/// Why there is nothing at an address in shared memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unreachable {
    /// It's in no block's.
    Outside,
    /// It's in that of the block of this rank, which the instruction doesn't reach.
    OtherBlock(u32),
    /// All threads of the block of this rank have exited.
    Exited(u32),
}

impl<W: Watch> Executor<'_, W> {
    // ---- shared memory ------------------------------------------------------------------------------------

    /// Where the running block's shared memory begins in the cluster.
    pub fn own_window(&self) -> u64 {
        u64::from(self.rank) * BLOCK_WINDOW
    }

    /// What an address in the shared memory of a block that is there must be added to.
    pub fn shared_base(&self, address: u64) -> *mut u8 {
        let rank = address / BLOCK_WINDOW;
        self.blocks[rank as usize].1.wrapping_sub((rank * BLOCK_WINDOW) as usize)
    }

    /// Where the host has some bytes of shared memory that an instruction for `target` accesses.
    pub fn shared_place(&self, target: Target, address: u64, bytes: u64) -> std::result::Result<*mut u8, Unreachable> {
        let size = u64::from(self.launch.shared_bytes);
        let fits = |offset: u64| offset <= size && bytes <= size - offset;
        let own = address.wrapping_sub(self.own_window());
        if fits(own) {
            return Ok(self.shared.wrapping_add(own as usize));
        }
        let (rank, offset) = (address / BLOCK_WINDOW, address % BLOCK_WINDOW);
        match self.blocks.get(rank as usize) {
            Some((_, shared)) if fits(offset) => {
                if target != Target::Cluster {
                    Err(Unreachable::OtherBlock(rank as u32))
                } else if self.exited >> rank & 1 != 0 {
                    Err(Unreachable::Exited(rank as u32))
                } else {
                    Ok(shared.wrapping_add(offset as usize))
                }
            }
            _ => Err(Unreachable::Outside),
        }
    }

    /// The fault of an access to what isn't reachable.
    #[cold]
    pub fn unreachable(&self, problem: Unreachable, address: u64, bytes: u32, access: AccessKind) -> LaunchErrorKind {
        let space = MemorySpace::Shared;
        let nearest = match problem {
            Unreachable::Outside => Nearest::Space { bytes: self.launch.shared_bytes.into() },
            Unreachable::OtherBlock(rank) => Nearest::OtherBlock { rank },
            Unreachable::Exited(rank) => {
                let block = self.launch.block_position(self.blocks[rank as usize].0);
                return LaunchErrorKind::BlockExited { block, address: address % BLOCK_WINDOW, bytes, access };
            }
        };
        LaunchErrorKind::OutOfBounds { space, address, bytes, access, nearest }
    }

    // ---- finding the bytes --------------------------------------------------------------------------------

    /// Checks all lanes in `active` and finds their bytes.
    pub fn resolve(
        &mut self,
        warp: &Warp,
        pc: u32,
        addresses: &mut [u64; 32],
        active: u32,
        request: Request<'_>,
    ) -> Result<Resolved> {
        let mut resolved = Resolved { pointers: [std::ptr::null_mut(); 32], local: 0 };
        if request.target != Target::Generic {
            self.resolve_space(warp, pc, addresses, active, request, &mut resolved)?;
            return Ok(resolved);
        }
        let mut rest = active;
        while rest != 0 {
            let target = target_at(addresses[rest.trailing_zeros() as usize]);
            let mut same = 0;
            for lane in lanes(rest) {
                same |= u32::from(target_at(addresses[lane]) == target) << lane;
            }
            for lane in lanes(same) {
                addresses[lane] -= window_of(target);
            }
            rest &= !same;
            // Generic addresses reach the shared memory of other blocks as well.
            let target = if target == Target::Shared && self.blocks.len() > 1 { Target::Cluster } else { target };
            let request = Request { target, ..request };
            self.resolve_space(warp, pc, addresses, same, request, &mut resolved)?;
        }
        Ok(resolved)
    }

    fn resolve_space(
        &mut self,
        warp: &Warp,
        pc: u32,
        addresses: &[u64; 32],
        active: u32,
        request: Request<'_>,
        resolved: &mut Resolved,
    ) -> Result<()> {
        let active = if W::ACTIVE { self.good_lanes(warp, pc, addresses, active, request, resolved)? } else { active };
        if W::ACTIVE && active == 0 {
            return Ok(());
        }
        let bytes = u64::from(request.bytes);
        let (mut low, mut high, mut bits) = (u64::MAX, 0, 0);
        if active == ALL {
            for address in addresses {
                low = low.min(*address);
                high = high.max(*address);
                bits |= address;
            }
        } else {
            for lane in lanes(active) {
                low = low.min(addresses[lane]);
                high = high.max(addresses[lane]);
                bits |= addresses[lane];
            }
        }
        if bits & (bytes - 1) != 0 {
            let lane = lanes(active).find(|lane| addresses[*lane] & (bytes - 1) != 0).unwrap_or(0);
            return Err(self.misaligned(warp, pc, lane, addresses[lane], request));
        }
        match request.target {
            Target::Global | Target::Generic => {
                let allocations = self.launch.memory.allocations();
                let slot = &mut self.recent[pc as usize];
                let hit = |index: usize| {
                    allocations.get(index).is_some_and(|allocation| {
                        low >= allocation.start()
                            && high - allocation.start() <= allocation.bytes()
                            && allocation.bytes() - (high - allocation.start()) >= bytes
                    })
                };
                if !hit(*slot as usize) {
                    *slot = self.launch.memory.find(low, bytes).map_or(u32::MAX, |index| index as u32);
                }
                if hit(*slot as usize) {
                    let allocation = &allocations[*slot as usize];
                    let (host, start) = (allocation.host(), allocation.start());
                    if active == ALL {
                        for (pointer, address) in resolved.pointers.iter_mut().zip(addresses) {
                            *pointer = host.wrapping_add(address.wrapping_sub(start) as usize);
                        }
                    } else {
                        for lane in lanes(active) {
                            resolved.pointers[lane] = host.wrapping_add((addresses[lane] - start) as usize);
                        }
                    }
                } else {
                    // Lanes in different allocations, or outside all.
                    for lane in lanes(active) {
                        let Some(index) = self.launch.memory.find(addresses[lane], bytes) else {
                            let nearest = self.launch.memory.nearest(addresses[lane]);
                            return Err(self.out_of_bounds(warp, pc, lane, addresses[lane], request, nearest));
                        };
                        let allocation = &allocations[index];
                        resolved.pointers[lane] =
                            allocation.host().wrapping_add((addresses[lane] - allocation.start()) as usize);
                    }
                }
            }
            Target::Shared | Target::Cluster if self.blocks.len() > 1 => {
                for lane in lanes(active) {
                    resolved.pointers[lane] = match self.shared_place(request.target, addresses[lane], bytes) {
                        Ok(place) => place,
                        Err(problem) => {
                            let kind = self.unreachable(problem, addresses[lane], request.bytes, request.kind);
                            return Err(self.fault_of_lane(warp, lane as u32, pc, kind));
                        }
                    };
                }
            }
            Target::Shared | Target::Cluster | Target::Parameter => {
                let (base, size) = match request.target {
                    Target::Shared | Target::Cluster => (self.shared, self.launch.shared_bytes),
                    _ => (self.launch.parameters.as_ptr().cast_mut().cast(), self.launch.parameter_bytes),
                };
                self.check_size(warp, pc, addresses, active, request, high, u64::from(size))?;
                if active == ALL {
                    for (pointer, address) in resolved.pointers.iter_mut().zip(addresses) {
                        *pointer = base.wrapping_add(*address as usize);
                    }
                } else {
                    for lane in lanes(active) {
                        resolved.pointers[lane] = base.wrapping_add(addresses[lane] as usize);
                    }
                }
            }
            Target::Local => {
                let size = u64::from(self.launch.program.local_words) * 4;
                self.check_size(warp, pc, addresses, active, request, high, size)?;
                let base: *mut u8 = warp.local.cast();
                for lane in lanes(active) {
                    let address = addresses[lane] as usize;
                    resolved.pointers[lane] = base.wrapping_add(address / 4 * LOCAL_STRIDE + lane * 4 + address % 4);
                }
                resolved.local |= active;
            }
        }
        if W::ACTIVE && !request.quiet {
            let event = AccessEvent {
                space: space(request.target),
                kind: request.kind,
                lanes: active,
                addresses,
                bytes: request.bytes,
                stored: request.stored,
            };
            let place = self.place(warp, pc);
            self.watch.observer().access(place, event);
        }
        Ok(())
    }

    /// The lanes whose accesses are good; the others' faults go to the observer, and their accesses to where they do
    /// no harm.
    fn good_lanes(
        &mut self,
        warp: &Warp,
        pc: u32,
        addresses: &[u64; 32],
        active: u32,
        request: Request<'_>,
        resolved: &mut Resolved,
    ) -> Result<u32> {
        let bytes = u64::from(request.bytes);
        let memory = self.launch.memory;
        let size = match request.target {
            Target::Shared | Target::Cluster => u64::from(self.launch.shared_bytes),
            Target::Parameter => u64::from(self.launch.parameter_bytes),
            Target::Local => u64::from(self.launch.program.local_words) * 4,
            Target::Global | Target::Generic => u64::MAX,
        };
        let global = size == u64::MAX;
        let mut known = 0..0;
        let mut good = active;
        for lane in lanes(active) {
            let address = addresses[lane];
            let fault = if address & (bytes - 1) != 0 {
                self.misaligned(warp, pc, lane, address, request)
            } else if global {
                if known.contains(&address) && bytes <= known.end - address {
                    continue;
                }
                if let Some(index) = memory.find(address, bytes) {
                    let allocation = &memory.allocations()[index];
                    known = allocation.start()..allocation.start() + allocation.bytes();
                    continue;
                }
                self.out_of_bounds(warp, pc, lane, address, request, memory.nearest(address))
            } else if matches!(request.target, Target::Shared | Target::Cluster) {
                match self.shared_place(request.target, address, bytes) {
                    Ok(_) => continue,
                    Err(problem) => {
                        let kind = self.unreachable(problem, address, request.bytes, request.kind);
                        self.fault_of_lane(warp, lane as u32, pc, kind)
                    }
                }
            } else if address <= size && bytes <= size - address {
                continue;
            } else {
                self.out_of_bounds(warp, pc, lane, address, request, Nearest::Space { bytes: size })
            };
            self.report(fault)?;
            good &= !(1 << lane);
            resolved.pointers[lane] = self.dropped(lane);
        }
        Ok(good)
    }

    /// Where a bad access of a lane goes: bytes of `0xff`.
    pub fn dropped(&mut self, lane: usize) -> *mut u8 {
        let place = &mut self.dropped[lane];
        *place = [u128::MAX; 2];
        place.as_mut_ptr().cast()
    }

    #[allow(clippy::too_many_arguments)]
    fn check_size(
        &self,
        warp: &Warp,
        pc: u32,
        addresses: &[u64; 32],
        active: u32,
        request: Request<'_>,
        high: u64,
        size: u64,
    ) -> Result<()> {
        let bytes = u64::from(request.bytes);
        let fits = |address: u64| address <= size && bytes <= size - address;
        if fits(high) {
            return Ok(());
        }
        let lane = lanes(active).find(|lane| !fits(addresses[*lane])).unwrap_or(0);
        let nearest = Nearest::Space { bytes: size };
        Err(self.out_of_bounds(warp, pc, lane, addresses[lane], request, nearest))
    }

    #[cold]
    fn misaligned(&self, warp: &Warp, pc: u32, lane: usize, address: u64, request: Request<'_>) -> Box<Fault> {
        let Request { target, kind: access, bytes, .. } = request;
        let kind = LaunchErrorKind::Misaligned { space: space(target), address, bytes, access };
        self.fault_of_lane(warp, lane as u32, pc, kind)
    }

    #[cold]
    fn out_of_bounds(
        &self,
        warp: &Warp,
        pc: u32,
        lane: usize,
        address: u64,
        request: Request<'_>,
        nearest: Nearest,
    ) -> Box<Fault> {
        let Request { target, kind: access, bytes, .. } = request;
        let kind = LaunchErrorKind::OutOfBounds { space: space(target), address, bytes, access, nearest };
        self.fault_of_lane(warp, lane as u32, pc, kind)
    }

    // ---- patterns -----------------------------------------------------------------------------------------

    /// The slot of an access's address pattern, and where the host would have address 0 of the access's memory; null if
    /// the access has no pattern, or anything about it isn't right.
    #[inline(always)]
    fn patterned(&mut self, warp: &Warp, pc: u32, access: &Access, active: u32) -> (usize, *mut u8) {
        let slot = match access.pattern {
            Pattern::None => return (0, std::ptr::null_mut()),
            Pattern::Known(slot) => usize::from(slot),
            Pattern::New(slot) => {
                let slot = usize::from(slot);
                if active == ALL {
                    self.patterns[slot].find(warp, &access.address);
                } else {
                    self.patterns[slot] = AddressPattern::NONE;
                }
                slot
            }
        };
        let bytes = total_bytes(access);
        let Some((low, high)) = self.patterns[slot].span(access.address.offset, bytes, active) else {
            return (0, std::ptr::null_mut());
        };
        let host = if access.target == Target::Shared {
            let (size, window) = (u64::from(self.launch.shared_bytes), self.own_window());
            let high = high.wrapping_sub(window);
            let inside = low >= window && high < size && bytes <= size - high;
            if inside { self.shared.wrapping_sub(window as usize) } else { std::ptr::null_mut() }
        } else {
            let allocations = self.launch.memory.allocations();
            let host = |index: u32| match allocations.get(index as usize) {
                Some(allocation)
                    if low >= allocation.start()
                        && high - allocation.start() < allocation.bytes()
                        && bytes <= allocation.bytes() - (high - allocation.start()) =>
                {
                    allocation.host().wrapping_sub(allocation.start() as usize)
                }
                _ => std::ptr::null_mut(),
            };
            let recent = host(self.recent[pc as usize]);
            if recent.is_null() {
                // Another allocation than last time; the lanes' own way deals with what isn't inside one.
                let found = self.launch.memory.find(low, bytes).map_or(u32::MAX, |index| index as u32);
                self.recent[pc as usize] = found;
                host(found)
            } else {
                recent
            }
        };
        (slot, host)
    }

    /// Where each active lane of a load or store finds its bytes.
    #[inline(always)]
    fn resolve_lanes(
        &mut self,
        warp: &Warp,
        pc: u32,
        access: &Access,
        active: u32,
        kind: AccessKind,
    ) -> Result<Resolved> {
        let mut addresses = lane_addresses(warp.rows, &access.address);
        let bytes = u32::from(access.bytes) * u32::from(access.count);
        let stored = (W::ACTIVE && kind == AccessKind::Write).then(|| {
            let program = self.launch.program;
            let elements = match access.count {
                1 => std::slice::from_ref(&access.data),
                count => &program.lists[list_range(access.data, count)],
            };
            // SAFETY: the warp has that many rows, and nothing writes to them while the access is resolved.
            let rows = unsafe { std::slice::from_raw_parts(warp.rows, program.rows as usize) };
            Stored::new(rows, elements, access.bytes, access.wide)
        });
        self.resolve(
            warp,
            pc,
            &mut addresses,
            active,
            Request { target: access.target, kind, bytes, stored, quiet: false },
        )
    }

    // ---- loads --------------------------------------------------------------------------------------------

    #[inline(always)]
    pub fn load(&mut self, warp: &Warp, pc: u32, access: &Access, active: u32) -> Result<()> {
        if !W::ACTIVE && access.pattern != Pattern::None {
            let (slot, host) = self.patterned(warp, pc, access, active);
            if !host.is_null() {
                let pattern = &self.patterns[slot];
                for element in 0..usize::from(access.count) {
                    let row = self.data_row(access, element);
                    if row != NONE {
                        let offset = access.address.offset.wrapping_add(element as i64 * 4);
                        // SAFETY: `patterned` found all bytes of all lanes at `host`; shared memory is this worker's.
                        unsafe {
                            match access.target {
                                Target::Shared => pattern.load::<true>(warp, host, offset, row),
                                _ => pattern.load::<false>(warp, host, offset, row),
                            }
                        }
                    }
                }
                return Ok(());
            }
        }
        self.load_lanes(warp, pc, access, active)
    }

    #[inline(never)]
    fn load_lanes(&mut self, warp: &Warp, pc: u32, access: &Access, active: u32) -> Result<()> {
        let resolved = self.resolve_lanes(warp, pc, access, active, AccessKind::Read)?;
        for element in 0..usize::from(access.count) {
            let row = self.data_row(access, element);
            if row == NONE {
                continue;
            }
            // SAFETY: `resolve` found all bytes of every active lane; the decoder allocated the data rows.
            unsafe {
                match access.bytes {
                    1 => load_element::<1>(warp, access, row, element, &resolved, active),
                    2 => load_element::<2>(warp, access, row, element, &resolved, active),
                    4 => load_element::<4>(warp, access, row, element, &resolved, active),
                    _ => load_element::<8>(warp, access, row, element, &resolved, active),
                }
            }
        }
        Ok(())
    }

    #[inline(always)]
    fn data_row(&self, access: &Access, element: usize) -> u32 {
        if access.count == 1 { access.data } else { self.launch.program.lists[access.data as usize + element] }
    }

    // ---- stores -------------------------------------------------------------------------------------------

    #[inline(always)]
    pub fn store(&mut self, warp: &Warp, pc: u32, access: &Access, active: u32) -> Result<()> {
        // Lanes store in order, so patterns in which vectors of several lanes overlap would come out differently.
        if !W::ACTIVE && access.pattern != Pattern::None && access.count == 1 {
            let (slot, host) = self.patterned(warp, pc, access, active);
            if !host.is_null() {
                let pattern = &self.patterns[slot];
                // SAFETY: as in `load`.
                unsafe {
                    match access.target {
                        Target::Shared => pattern.store::<true>(warp, host, access.address.offset, access.data),
                        _ => pattern.store::<false>(warp, host, access.address.offset, access.data),
                    }
                }
                return Ok(());
            }
        }
        self.store_lanes(warp, pc, access, active)
    }

    #[inline(never)]
    fn store_lanes(&mut self, warp: &Warp, pc: u32, access: &Access, active: u32) -> Result<()> {
        let resolved = self.resolve_lanes(warp, pc, access, active, AccessKind::Write)?;
        for element in 0..usize::from(access.count) {
            let row = self.data_row(access, element);
            // SAFETY: as in `load`.
            unsafe {
                match access.bytes {
                    1 => store_element::<1>(warp, access, row, element, &resolved, active),
                    2 => store_element::<2>(warp, access, row, element, &resolved, active),
                    4 => store_element::<4>(warp, access, row, element, &resolved, active),
                    _ => store_element::<8>(warp, access, row, element, &resolved, active),
                }
            }
        }
        Ok(())
    }
}

fn space(target: Target) -> MemorySpace {
    match target {
        Target::Global | Target::Generic => MemorySpace::Global,
        Target::Shared | Target::Cluster => MemorySpace::Shared,
        Target::Local => MemorySpace::Local,
        Target::Parameter => MemorySpace::Parameter,
    }
}

/// Where byte `offset` of a lane's access lies.
#[inline(always)]
fn byte_at(pointer: *mut u8, offset: usize, local: bool) -> *mut u8 {
    pointer.wrapping_add(if local { offset / 4 * LOCAL_STRIDE + offset % 4 } else { offset })
}

/// # Safety
/// `resolved` must hold valid pointers for all active lanes, aligned for the access; `row` must exist.
#[inline(always)]
unsafe fn load_element<const BYTES: usize>(
    warp: &Warp,
    access: &Access,
    row: u32,
    element: usize,
    resolved: &Resolved,
    active: u32,
) {
    let offset = element * BYTES;
    let extend = |value: u64| {
        if access.signed {
            let unused = 64 - 8 * BYTES as u32;
            ((value << unused) as i64 >> unused) as u64
        } else {
            value
        }
    };
    // SAFETY: passed on to the caller.
    unsafe {
        let fetch = |lane: usize| {
            let local = resolved.local >> lane & 1 != 0;
            let pointer = resolved.pointers[lane];
            if BYTES == 8 && local {
                let low = load::<4>(byte_at(pointer, offset, true));
                return low | load::<4>(byte_at(pointer, offset + 4, true)) << 32;
            }
            extend(load::<BYTES>(byte_at(pointer, offset, local)))
        };
        if access.wide {
            let destination = warp.rows.add(row as usize).cast::<u64>();
            for lane in lanes(active) {
                *destination.add(lane) = fetch(lane);
            }
        } else if active == ALL && resolved.local == 0 {
            let mut values = [0; 32];
            for (value, pointer) in values.iter_mut().zip(&resolved.pointers) {
                *value = extend(load::<BYTES>(pointer.wrapping_add(offset))) as u32;
            }
            (*warp.rows.add(row as usize)).0 = values;
        } else {
            let destination = warp.rows.add(row as usize).cast::<u32>();
            for lane in lanes(active) {
                *destination.add(lane) = fetch(lane) as u32;
            }
        }
    }
}

/// # Safety
/// As [`load_element`].
#[inline(always)]
unsafe fn store_element<const BYTES: usize>(
    warp: &Warp,
    access: &Access,
    row: u32,
    element: usize,
    resolved: &Resolved,
    active: u32,
) {
    let offset = element * BYTES;
    for lane in lanes(active) {
        let local = resolved.local >> lane & 1 != 0;
        let pointer = resolved.pointers[lane];
        // SAFETY: passed on to the caller.
        unsafe {
            let value = if access.wide {
                *warp.rows.add(row as usize).cast::<u64>().add(lane)
            } else {
                u64::from((*warp.rows.add(row as usize)).0[lane])
            };
            if BYTES == 8 && local {
                store::<4>(byte_at(pointer, offset, true), value);
                store::<4>(byte_at(pointer, offset + 4, true), value >> 32);
            } else {
                store::<BYTES>(byte_at(pointer, offset, local), value);
            }
        }
    }
}
