//! Asynchronous copies from global to shared memory (`cp.async`).
//!
//! A copy may happen at any time between its instruction and the moment at which its thread waits for it. Here it
//! happens as late as it may, all of it: nothing is read and nothing written before the wait (`cp.async.wait_group`,
//! `wait_all`, or the test of an mbarrier that an arrival after the copies completes). Then the result shows what real
//! hardware mostly hides. Hardware copies soon, so that on it a wait that was forgotten or lets one group too many go on
//! often has no effect, and a source that is overwritten too early was mostly read before. Here the reader finds the old
//! bytes in shared memory, and the copy finds the new ones in global memory. The opposite mistake, a copy that begins
//! before its source is there, shows on hardware by itself; [`crate::observe::hazards`] finds it as well as the others.
//!
//! Addresses are checked when the instruction is executed. What nobody ever waits for never happens.

use std::collections::VecDeque;

use super::access::{Request, lane_addresses, lanes};
use super::coordination::Coordination;
use super::run::{Executor, Result, guard_mask, lanes_where, read_row};
use super::warp::Warp;
use crate::decode::program::*;
use crate::error::{AccessKind, LaunchErrorKind, MemorySpace};
use crate::memory::{POISON, load, store};
use crate::observe::{AsyncCopy as CopyEvent, Place, SourceSize, Watch};

/// The copies of a warp that aren't done, and what is to happen when they are.
#[derive(Default)]
pub(super) struct Copies {
    /// In the order of their instructions.
    pending: VecDeque<Pending>,
    /// Arrivals that wait for copies, in the order of their instructions.
    deferred: Vec<Deferred>,
    /// Groups that each lane has committed.
    committed: [u32; 32],
    /// Counts instructions, to tell which copies come before an arrival.
    sequence: u64,
}

/// One instruction's copies.
struct Pending {
    instruction: u32,
    /// Lanes whose copies aren't done.
    lanes: u32,
    /// Groups that these lanes had committed before.
    group: u32,
    sequence: u64,
    /// Bytes that each lane writes.
    bytes: u8,
    /// Bytes that each lane reads; the others it writes are zeros.
    sizes: [u8; 32],
    /// Where the host has the bytes; null for a source that isn't there.
    sources: [*const u8; 32],
    /// Addresses in shared memory.
    destinations: [u32; 32],
    /// The addresses that an observer knows the sources by.
    observed: Option<Box<[u64; 32]>>,
    bypasses_l1: bool,
    size: SourceSize,
}

/// An arrival at an mbarrier by lanes whose copies aren't done.
struct Deferred {
    instruction: u32,
    lanes: u32,
    sequence: u64,
    addresses: [u64; 32],
}

// SAFETY: the pointers are into global memory, which all workers share; they're only used with its own accessors, while
// the launch runs.
unsafe impl Send for Pending {}

impl Copies {
    pub fn clear(&mut self) {
        self.pending.clear();
        self.deferred.clear();
        self.committed = [0; 32];
        self.sequence = 0;
    }

    /// Makes a group of the copies of these lanes that are in none.
    pub fn commit(&mut self, lanes_: u32) {
        for lane in lanes(lanes_) {
            self.committed[lane] += 1;
        }
    }

    /// Lanes of `among` that have copies before `sequence`.
    fn open(&self, among: u32, sequence: u64) -> u32 {
        let before = self.pending.iter().take_while(|pending| pending.sequence < sequence);
        before.fold(0, |open, pending| open | pending.lanes) & among
    }
}

impl Pending {
    /// Copies the bytes of some lanes.
    ///
    /// # Safety
    /// `shared` must be the memory of the block that the destinations were checked for, and nobody else may use it now.
    unsafe fn land(&self, shared: *mut u8, mask: u32) {
        // SAFETY: passed on to the caller.
        unsafe {
            match self.bytes {
                4 => self.land_words::<1>(shared, mask),
                8 => self.land_words::<2>(shared, mask),
                _ => self.land_words::<4>(shared, mask),
            }
        }
    }

    /// # Safety
    /// As [`Pending::land`]; `WORDS` must be a quarter of the bytes.
    unsafe fn land_words<const WORDS: usize>(&self, shared: *mut u8, mask: u32) {
        for lane in lanes(mask) {
            let (source, size) = (self.sources[lane].cast_mut(), usize::from(self.sizes[lane]));
            let destination = shared.wrapping_add(self.destinations[lane] as usize);
            // SAFETY: source and destination were checked for their sizes and for the copy's alignment.
            unsafe {
                if size == 4 * WORDS && !source.is_null() {
                    let mut words = [0; WORDS];
                    for (index, word) in words.iter_mut().enumerate() {
                        *word = load::<4>(source.wrapping_add(4 * index));
                    }
                    for (index, word) in words.into_iter().enumerate() {
                        store::<4>(destination.wrapping_add(4 * index), word);
                    }
                    continue;
                }
                for index in 0..4 * WORDS {
                    let byte = match index < size {
                        true if source.is_null() => u64::from(POISON),
                        true => load::<1>(source.wrapping_add(index)),
                        false => 0,
                    };
                    store::<1>(destination.wrapping_add(index), byte);
                }
            }
        }
    }

    fn destinations(&self) -> [u64; 32] {
        self.destinations.map(u64::from)
    }
}

impl<W: Watch> Executor<'_, W> {
    /// Begins copies.
    pub fn copy(&mut self, warp: &Warp, pc: u32, copy: &AsyncCopy, active: u32, copies: &mut Copies) -> Result<()> {
        let full = u32::from(copy.bytes);
        let mut sizes = [full; 32];
        if copy.size != NONE {
            // SAFETY: the decoder allocated the row.
            sizes = unsafe { read_row(warp.rows, copy.size) };
            let beyond = lanes_where(active, |lane| sizes[lane] > full);
            if beyond != 0 {
                let bytes = sizes[beyond.trailing_zeros() as usize];
                return self.fault(warp, beyond, pc, LaunchErrorKind::BadCopySize { bytes, limit: full });
            }
        }
        if copy.ignored != Guard::NONE {
            // SAFETY: the decoder allocated the mask.
            let ignored = unsafe { guard_mask(warp.predicates, copy.ignored) };
            lanes(ignored).for_each(|lane| sizes[lane] = 0);
        }
        let mut destinations = lane_addresses(warp.rows, &copy.destination.into());
        let request = Request::quiet(Target::Shared, AccessKind::Write, full);
        let written = self.resolve(warp, pc, &mut destinations, active, request)?;
        let active = active & !self.lost(&written.pointers, active);

        let mut sources = lane_addresses(warp.rows, &copy.source.into());
        let whole = lanes_where(active, |lane| sizes[lane] == full);
        let mut pointers = [std::ptr::null_mut(); 32];
        if whole != 0 {
            let request = Request::quiet(Target::Global, AccessKind::Read, full);
            pointers = self.resolve(warp, pc, &mut sources, whole, request)?.pointers;
            lanes(self.lost(&pointers, whole)).for_each(|lane| pointers[lane] = std::ptr::null_mut());
        }
        for lane in lanes(active & !whole).filter(|lane| sizes[*lane] != 0) {
            let pointer = self.part_of_source(warp, pc, lane, sources[lane], sizes[lane], full);
            pointers[lane] = match pointer {
                Ok(pointer) => pointer,
                Err(fault) => {
                    self.report(fault)?;
                    std::ptr::null_mut()
                }
            };
        }
        let sizes = sizes.map(|size| size as u8);
        if W::ACTIVE && active != 0 {
            let event = CopyEvent {
                lanes: active,
                sources: &sources,
                source_bytes: &sizes,
                // Bad ones have been reported, and read nothing.
                readable: lanes_where(active, |lane| sizes[lane] != 0 && !pointers[lane].is_null()),
                destinations: &destinations,
                bytes: full,
                bypasses_l1: copy.bypasses_l1,
                size: copy.kind,
            };
            let place = self.place(warp, pc);
            self.watch.observer().copy_begins(place, event);
        }
        copies.sequence += 1;
        let mut rest = active;
        while rest != 0 {
            // Mostly all lanes have committed equally often.
            let group = copies.committed[rest.trailing_zeros() as usize];
            let same = lanes_where(rest, |lane| copies.committed[lane] == group);
            rest &= !same;
            copies.pending.push_back(Pending {
                instruction: pc,
                lanes: same,
                group,
                sequence: copies.sequence,
                bytes: copy.bytes,
                sizes,
                sources: pointers.map(<*mut u8>::cast_const),
                destinations: destinations.map(|address| address as u32),
                observed: W::ACTIVE.then(|| Box::new(sources)),
                bypasses_l1: copy.bypasses_l1,
                size: copy.kind,
            });
        }
        Ok(())
    }

    /// Where the host has the part of a source that is read.
    fn part_of_source(&self, warp: &Warp, pc: u32, lane: usize, address: u64, size: u32, full: u32) -> Result<*mut u8> {
        let (space, access) = (MemorySpace::Global, AccessKind::Read);
        let kind = if !address.is_multiple_of(u64::from(full)) {
            LaunchErrorKind::Misaligned { space, address, bytes: full, access }
        } else if let Some(index) = self.launch.memory.find(address, u64::from(size)) {
            let allocation = &self.launch.memory.allocations()[index];
            return Ok(allocation.host().wrapping_add((address - allocation.start()) as usize));
        } else {
            let nearest = self.launch.memory.nearest(address);
            LaunchErrorKind::OutOfBounds { space, address, bytes: size, access, nearest }
        };
        Err(self.fault_of_lane(warp, lane as u32, pc, kind))
    }

    /// The lanes whose pointers lead to where bad accesses go.
    pub fn lost(&self, pointers: &[*mut u8; 32], active: u32) -> u32 {
        if !W::ACTIVE {
            return 0;
        }
        lanes_where(active, |lane| pointers[lane].cast_const() == self.dropped[lane].as_ptr().cast())
    }

    /// Waits until at most `open` groups of each lane aren't done, or, with [`NONE`], no copies at all.
    pub fn wait_for_copies(
        &mut self,
        warp: u32,
        pc: u32,
        active: u32,
        open: u32,
        coordination: &mut Coordination,
    ) -> Result<()> {
        if W::ACTIVE {
            let place = self.place_of(warp, pc);
            self.watch.observer().copies_awaited(place, active);
        }
        let committed = coordination.copies[warp as usize].committed;
        let due = move |pending: &Pending| match open {
            NONE => u32::MAX,
            // Copies in no group have the number of the group to come.
            _ => lanes_where(pending.lanes & active, |lane| {
                u64::from(pending.group) + u64::from(open) < u64::from(committed[lane])
            }),
        };
        self.land(warp, active, due, coordination)
    }

    /// Lets copies of `active` happen, as far as they are due, and the arrivals that waited for them.
    fn land(
        &mut self,
        warp: u32,
        active: u32,
        due: impl Fn(&Pending) -> u32,
        coordination: &mut Coordination,
    ) -> Result<()> {
        let copies = &mut coordination.copies[warp as usize];
        for pending in &mut copies.pending {
            let landing = pending.lanes & active;
            if landing == 0 {
                continue;
            }
            let landing = landing & due(pending);
            // SAFETY: the copy was checked for this block's shared memory, which this worker alone uses.
            unsafe { pending.land(self.shared_base(self.own_window()), landing) };
            pending.lanes &= !landing;
            if W::ACTIVE && landing != 0 {
                self.event(pending, warp, landing, |observer, place, event| observer.copy_completes(place, event));
            }
        }
        while copies.pending.front().is_some_and(|pending| pending.lanes == 0) {
            copies.pending.pop_front();
        }
        if copies.deferred.is_empty() { Ok(()) } else { self.arrive_deferred(warp, coordination) }
    }

    /// Tells the observer about copies.
    fn event(
        &mut self,
        pending: &Pending,
        warp: u32,
        mask: u32,
        tell: impl FnOnce(&mut dyn crate::observe::Observer, Place, CopyEvent<'_>),
    ) {
        let Some(sources) = &pending.observed else { return };
        let event = CopyEvent {
            lanes: mask,
            sources,
            source_bytes: &pending.sizes,
            readable: lanes_where(mask, |lane| pending.sizes[lane] != 0 && !pending.sources[lane].is_null()),
            destinations: &pending.destinations(),
            bytes: u32::from(pending.bytes),
            bypasses_l1: pending.bypasses_l1,
            size: pending.size,
        };
        let place = self.place_of(warp, pending.instruction);
        tell(self.watch.observer(), place, event);
    }

    /// Lets arrivals of a warp happen whose copies are done.
    fn arrive_deferred(&mut self, warp: u32, coordination: &mut Coordination) -> Result<()> {
        let mut index = 0;
        while let Some(deferred) = coordination.copies[warp as usize].deferred.get(index) {
            let Deferred { instruction, lanes: waiting, sequence, addresses } = *deferred;
            let ready = waiting & !coordination.copies[warp as usize].open(waiting, sequence);
            let deferred = &mut coordination.copies[warp as usize].deferred;
            deferred[index].lanes &= !ready;
            if deferred[index].lanes == 0 {
                deferred.remove(index);
            } else {
                index += 1;
            }
            for lane in lanes(ready) {
                self.arrive_late(warp, lane, instruction, addresses[lane], coordination)?;
            }
        }
        Ok(())
    }

    /// Arrives at mbarriers for lanes that still have copies, once these are done; gives the others.
    pub fn defer_arrivals(
        &mut self,
        warp: u32,
        pc: u32,
        addresses: &[u64; 32],
        active: u32,
        coordination: &mut Coordination,
    ) -> u32 {
        let copies = &mut coordination.copies[warp as usize];
        let waiting = copies.open(active, u64::MAX);
        if waiting != 0 {
            let sequence = copies.sequence + 1;
            copies.deferred.push(Deferred { instruction: pc, lanes: waiting, sequence, addresses: *addresses });
        }
        active & !waiting
    }

    /// Lets all arrivals happen that wait for copies to arrive at this mbarrier, and the copies before them.
    pub fn flush(&mut self, address: u64, coordination: &mut Coordination) -> Result<()> {
        for warp in 0..coordination.copies.len() {
            let deferred = &coordination.copies[warp].deferred;
            let of_barrier =
                |deferred: &Deferred| lanes_where(deferred.lanes, |lane| deferred.addresses[lane] == address);
            // Each lane's copies before its last arrival here.
            let mut until = [0; 32];
            let mut arriving = 0;
            for deferred in deferred {
                for lane in lanes(of_barrier(deferred)) {
                    until[lane] = deferred.sequence;
                    arriving |= 1 << lane;
                }
            }
            if arriving != 0 {
                let due = move |pending: &Pending| {
                    lanes_where(pending.lanes & arriving, |lane| pending.sequence < until[lane])
                };
                self.land(warp as u32, arriving, due, coordination)?;
            }
        }
        Ok(())
    }

    /// Forgets the copies of lanes that exit: those that no arrival waits for, or, at the block's end, all.
    #[cold]
    pub fn abandon(&mut self, warp: u32, mask: u32, all: bool, coordination: &mut Coordination) {
        let copies = &mut coordination.copies[warp as usize];
        let mut until = [0; 32];
        if !all {
            for deferred in &copies.deferred {
                lanes(deferred.lanes).for_each(|lane| until[lane] = deferred.sequence);
            }
        }
        let mut pending = std::mem::take(&mut copies.pending);
        for pending in &mut pending {
            let lost = lanes_where(pending.lanes & mask, |lane| pending.sequence >= until[lane]);
            pending.lanes &= !lost;
            if W::ACTIVE && lost != 0 {
                self.event(pending, warp, lost, |observer, place, event| observer.copy_abandoned(place, event));
            }
        }
        pending.retain(|pending| pending.lanes != 0);
        coordination.copies[warp as usize].pending = pending;
    }

    /// Whether a warp has copies that aren't done.
    pub fn has_copies(coordination: &Coordination, warp: u32) -> bool {
        !coordination.copies[warp as usize].pending.is_empty()
    }
}
