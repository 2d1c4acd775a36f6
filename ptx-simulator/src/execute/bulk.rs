//! Bulk copies between global and shared memory (PTX ISA, "Data Movement and Conversion Instructions: Bulk copy" and
//! "… Tensor copy").
//!
//! Like `cp.async` (see [`super::copies`]), a bulk copy happens as late as it may, so that a wait that is missing shows:
//!
//! - A load reads and writes when somebody asks the mbarrier whose phase lacks nothing but bytes. Then the mbarrier's
//!   loads happen in the order of their instructions until the phase is complete. A phase that wasn't told to expect the
//!   bytes is complete without them.
//! - A store reads shared memory when its thread waits for that (`wait_group.read`, `wait_group`), and writes global memory
//!   when its thread waits for the whole of it, or exits. A store whose source was never waited for doesn't happen: its
//!   block's shared memory may be gone before it's read.
//!
//! In a cluster, a load that is multicast is one load for each block that gets the bytes, with the mbarrier at the same place
//! of that block's shared memory.
//!
//! Where the elements of a box go is said in [`crate::tensor_map`]. What lies outside of the tensor is zero, counts among
//! the bytes that the mbarrier is told of, and isn't stored, but for this: a store writes whole chunks of 16 bytes. So behind a row that ends inside of one
//! it overwrites what is there, up to the next multiple of 16 bytes. PTX ISA doesn't say so; an H200 does it (and others have seen it:
//! triton-lang/triton, issue 11583). Addresses are checked when the instruction is executed.

use std::collections::HashMap;

use super::access::{lane_addresses, lanes};
use super::async_stores::AsyncStores;
use super::coordination::Coordination;
use super::fault::Fault;
use super::run::{Executor, Result, read_row};
use super::warp::Warp;
use crate::alu::nearest_tf32;
use crate::decode::program::*;
use crate::error::{AccessKind, BulkCopyProblem, LaunchErrorKind, MemorySpace};
use crate::memory::{POISON, load, store};
use crate::observe::{self, BulkPiece, MbarrierEvent, Watch};
use crate::tensor_map::{self, Swizzle, TENSOR_MAP_BYTES, Tensor, TensorElement};

/// Bytes that a swizzle keeps together; a copy of bytes moves multiples of it, and its addresses are some.
const CHUNK: u32 = 16;
/// What the address of a box in shared memory must be a multiple of.
const BOX_ALIGNMENT: u64 = 128;

/// The bulk copies of a cluster that aren't done, and what else mbarriers count the bytes of.
#[derive(Default)]
pub(super) struct BulkCopies {
    /// With asynchronous stores of threads, in the order of their instructions.
    loads: Vec<Load>,
    stores: Vec<Store>,
    /// Bulk groups that each thread has committed; none where there is no entry.
    committed: HashMap<u32, u32>,
}

struct Load {
    what: Arriving,
    /// Address in the cluster of the mbarrier that counts the bytes.
    mbarrier: u64,
}

/// What an mbarrier waits for.
enum Arriving {
    Copy(Transfer),
    Stores(Box<AsyncStores>),
}

struct Store {
    transfer: Transfer,
    /// Groups that the thread had committed before.
    group: u32,
    /// The bytes of the runs, once they're read.
    data: Option<Vec<u8>>,
}

/// What one thread moves.
#[derive(Clone)]
struct Transfer {
    warp: u32,
    lane: u32,
    instruction: u32,
    direction: BulkDirection,
    /// Address in shared memory of the cluster.
    shared: u32,
    /// All bytes in shared memory, those outside of the tensor included.
    bytes: u32,
    swizzle: Swizzle,
    /// Whether numbers of f32 are rounded to tf32 on their way into shared memory.
    rounds: bool,
    runs: Vec<Run>,
    /// Shared memory doesn't have the bytes: nothing moves.
    lost: bool,
    /// Another transfer has the same bytes, which come from global memory only once.
    again: bool,
    /// For an observer.
    pieces: Vec<BulkPiece>,
}

/// Bytes that are neighbours in global memory, and in shared memory before any swizzle.
#[derive(Clone, Copy)]
struct Run {
    /// From the start of the box.
    offset: u32,
    bytes: u32,
    /// Where the host has them; null for what isn't there.
    host: *mut u8,
    global: u64,
}

impl Run {
    /// Goes on to the end of its last chunk in global memory, inside of a box with rows of so many bytes.
    fn end_with_a_chunk(&mut self, row: u32) {
        let end = self.global.wrapping_add(self.bytes.into());
        let missing = (end.next_multiple_of(CHUNK.into()) - end) as u32;
        self.bytes += missing.min(row - self.offset % row - self.bytes);
    }
}

// SAFETY: the pointers are into global memory, which all workers share; they're only used with its own accessors, while
// the launch runs.
unsafe impl Send for Run {}

impl BulkCopies {
    pub fn clear(&mut self) {
        self.loads.clear();
        self.stores.clear();
        self.committed.clear();
    }

    /// Makes a group of these lanes' stores that are in none.
    pub fn commit(&mut self, warp: u32, mask: u32) {
        for lane in lanes(mask) {
            *self.committed.entry(warp * 32 + lane as u32).or_default() += 1;
        }
    }

    /// Adds stores of threads whose bytes an mbarrier counts.
    pub fn expect_stores(&mut self, stores: AsyncStores, mbarrier: u64) {
        self.loads.push(Load { what: Arriving::Stores(Box::new(stores)), mbarrier });
    }

    pub fn has_stores(&self) -> bool {
        !self.stores.is_empty()
    }

    fn committed(&self, transfer: &Transfer) -> u32 {
        self.committed.get(&(transfer.warp * 32 + transfer.lane)).copied().unwrap_or(0)
    }
}

impl Transfer {
    fn is_of(&self, warp: u32, mask: u32) -> bool {
        self.warp == warp && mask >> self.lane & 1 != 0
    }

    /// The parts of a run that stay together: address in shared memory, offset in the run, bytes.
    fn chunks(&self, offset: u32, bytes: u32) -> impl Iterator<Item = (u64, u32, u32)> + use<> {
        let (start, swizzle) = (u64::from(self.shared) + u64::from(offset), self.swizzle);
        let mut done = 0;
        std::iter::from_fn(move || {
            let address = start + u64::from(done);
            let part = (CHUNK - address as u32 % CHUNK).min(bytes - done);
            let chunk = (swizzle.apply(address), done, part);
            done += part;
            (part > 0).then_some(chunk)
        })
    }

    /// What an observer is shown of it.
    fn observed(&self) -> Vec<BulkPiece> {
        let mut pieces = Vec::new();
        let mut add = |offset: u32, bytes: u32, global: Option<u64>| {
            pieces.extend(self.chunks(offset, bytes).map(|(shared, done, bytes)| BulkPiece {
                shared,
                global: global.map(|global| global + u64::from(done)),
                bytes,
            }));
        };
        let zeros = self.direction == BulkDirection::Load;
        let mut next = 0;
        for run in self.runs.iter().filter(|_| !self.lost) {
            if zeros {
                add(next, run.offset - next, None);
            }
            if !run.host.is_null() || zeros {
                add(run.offset, run.bytes, (!run.host.is_null()).then_some(run.global));
            }
            next = run.offset + run.bytes;
        }
        if zeros && !self.lost {
            add(next, self.bytes - next, None);
        }
        pieces
    }

    /// Moves a load's bytes.
    ///
    /// # Safety
    /// `shared` plus the copy's addresses must be in the memory of the block that it was checked for, and nobody else may use
    /// that now.
    unsafe fn land(&self, shared: *mut u8) {
        if self.lost {
            return;
        }
        // SAFETY: the whole box was checked to be inside shared memory, and every run inside global memory.
        unsafe {
            if self.runs.iter().map(|run| run.bytes).sum::<u32>() < self.bytes {
                for (address, _, bytes) in self.chunks(0, self.bytes) {
                    std::ptr::write_bytes(shared.wrapping_add(address as usize), 0, bytes as usize);
                }
            }
            for run in &self.runs {
                for (address, done, bytes) in self.chunks(run.offset, run.bytes) {
                    let to = shared.wrapping_add(address as usize);
                    if run.host.is_null() {
                        std::ptr::write_bytes(to, POISON, bytes as usize);
                    } else {
                        move_bytes(run.host.wrapping_add(done as usize), to, bytes);
                        if self.rounds {
                            round_to_tf32(to, bytes);
                        }
                    }
                }
            }
        }
    }

    /// The bytes of a store's runs.
    ///
    /// # Safety
    /// As [`Transfer::land`].
    unsafe fn read(&self, shared: *mut u8) -> Vec<u8> {
        let mut data = vec![0; self.runs.iter().map(|run| run.bytes as usize).sum()];
        let mut start = 0;
        for run in self.runs.iter().filter(|_| !self.lost) {
            for (address, done, bytes) in self.chunks(run.offset, run.bytes) {
                let to = &mut data[start + done as usize..start + (done + bytes) as usize];
                // SAFETY: the whole box was checked to be inside shared memory.
                unsafe { move_bytes(shared.wrapping_add(address as usize), to.as_mut_ptr(), bytes) };
            }
            start += run.bytes as usize;
        }
        data
    }

    /// Writes what was read to global memory.
    fn write(&self, data: &[u8]) {
        let mut start = 0;
        for run in self.runs.iter().filter(|_| !self.lost) {
            if !run.host.is_null() {
                // SAFETY: every run was checked to be inside global memory, and the data has as many bytes.
                unsafe { move_bytes(data[start..].as_ptr().cast_mut(), run.host, run.bytes) };
            }
            start += run.bytes as usize;
        }
    }
}

/// Rounds numbers of f32 to the nearest with 11 bits of significand, halfway to even. (Which of the two nearest it is halfway isn't said by
/// NVIDIA; an H200 does this.)
///
/// # Safety
/// As for [`move_bytes`], for the bytes at `at`, which is a multiple of 4, as is their number.
unsafe fn round_to_tf32(at: *mut u8, bytes: u32) {
    for word in (0..bytes as usize).step_by(4).map(|offset| at.wrapping_add(offset)) {
        // SAFETY: passed on to the caller.
        unsafe { store::<4>(word, nearest_tf32(load::<4>(word) as u32).into()) };
    }
}

/// Copies bytes, in words where both sides are aligned for them.
///
/// # Safety
/// Both sides must have the bytes, don't overlap, and be accessed by others through atomics only.
#[inline(always)]
unsafe fn move_bytes(from: *mut u8, to: *mut u8, bytes: u32) {
    let bytes = bytes as usize;
    let bits = from.addr() | to.addr() | bytes;
    // SAFETY: passed on to the caller; the alignment was looked at.
    unsafe {
        let (from, to) = (|at: usize| from.wrapping_add(at), |at: usize| to.wrapping_add(at));
        if bits.is_multiple_of(8) {
            (0..bytes).step_by(8).for_each(|at| store::<8>(to(at), load::<8>(from(at))));
        } else if bits.is_multiple_of(2) {
            (0..bytes).step_by(2).for_each(|at| store::<2>(to(at), load::<2>(from(at))));
        } else {
            (0..bytes).for_each(|at| store::<1>(to(at), load::<1>(from(at))));
        }
    }
}

impl<W: Watch> Executor<'_, W> {
    /// Begins a bulk copy of each lane.
    pub fn bulk_copy(
        &mut self,
        warp: &Warp,
        pc: u32,
        copy: &BulkCopy,
        active: u32,
        coordination: &mut Coordination,
    ) -> Result<()> {
        let shared = lane_addresses(warp.rows, &copy.shared.into());
        let global = lane_addresses(warp.rows, &copy.global.into());
        let mbarriers = lane_addresses(warp.rows, &copy.mbarrier.into());
        for lane in lanes(active) {
            if copy.direction == BulkDirection::Load {
                let blocks = self.destinations(warp, pc, lane, copy, shared[lane], mbarriers[lane])?;
                self.bulk_load(warp, pc, lane, copy, &blocks, global[lane], coordination)?;
                continue;
            }
            let mut transfer = self.transfer(warp, pc, lane, copy, shared[lane], global[lane])?;
            self.begin(warp, &mut transfer);
            let group = coordination.bulk.committed(&transfer);
            coordination.bulk.stores.push(Store { transfer, group, data: None });
        }
        Ok(())
    }

    /// Where the bytes of a load go, and which mbarriers learn of it: one of each, or one in each block of a multicast.
    fn destinations(
        &self,
        warp: &Warp,
        pc: u32,
        lane: usize,
        copy: &BulkCopy,
        shared: u64,
        mbarrier: u64,
    ) -> Result<Vec<(u64, u64)>> {
        let wrong = |problem: BulkCopyProblem| {
            Err(self.fault_of_lane(warp, lane as u32, pc, LaunchErrorKind::BulkCopy(problem)))
        };
        if shared / BLOCK_WINDOW != mbarrier / BLOCK_WINDOW {
            return wrong(BulkCopyProblem::MbarrierElsewhere);
        }
        let Some(mask) = copy.mask_row() else { return Ok(vec![(shared, mbarrier)]) };
        let blocks = self.blocks.len() as u32;
        // SAFETY: the decoder allocated the row.
        let mask = unsafe { read_row(warp.rows, self.launch.program.lists[mask]) }[lane] & 0xffff;
        if mask == 0 || mask >> blocks != 0 {
            return wrong(BulkCopyProblem::Multicast { mask: mask as u16, blocks });
        }
        let at = |address: u64, rank: usize| rank as u64 * BLOCK_WINDOW + address % BLOCK_WINDOW;
        Ok(lanes(mask).map(|rank| (at(shared, rank), at(mbarrier, rank))).collect())
    }

    #[allow(clippy::too_many_arguments)]
    fn bulk_load(
        &mut self,
        warp: &Warp,
        pc: u32,
        lane: usize,
        copy: &BulkCopy,
        destinations: &[(u64, u64)],
        global: u64,
        coordination: &mut Coordination,
    ) -> Result<()> {
        for (_, mbarrier) in destinations {
            self.check_mbarrier_address(warp, pc, lane, Target::Cluster, *mbarrier, AccessKind::Atomic)?;
            self.find(warp, pc, lane, *mbarrier, coordination)?;
        }
        let [(first, _), ..] = destinations else { return Ok(()) };
        let once = self.transfer(warp, pc, lane, copy, *first, global)?;
        for (shared, mbarrier) in destinations.iter().copied() {
            // Blocks have shared memory of the same size.
            let place = if once.lost { 0 } else { shared as u32 };
            let mut transfer = Transfer { shared: place, again: shared != *first, ..once.clone() };
            self.begin(warp, &mut transfer);
            self.tell(warp.number, lane, pc, mbarrier, MbarrierEvent::ArrivesAfterCopies);
            coordination.bulk.loads.push(Load { what: Arriving::Copy(transfer), mbarrier });
        }
        coordination.events += 1;
        Ok(())
    }

    /// Tells the observer that a copy begins.
    fn begin(&mut self, warp: &Warp, transfer: &mut Transfer) {
        if W::ACTIVE {
            transfer.pieces = transfer.observed();
            let place = self.place(warp, transfer.instruction);
            tell(self.watch.observer(), transfer, |observer, event| observer.bulk_copy_begins(place, event));
        }
    }

    /// What one lane is to move, checked.
    fn transfer(
        &mut self,
        warp: &Warp,
        pc: u32,
        lane: usize,
        copy: &BulkCopy,
        shared: u64,
        global: u64,
    ) -> Result<Transfer> {
        let wrong = |executor: &Self, problem: BulkCopyProblem| {
            executor.fault_of_lane(warp, lane as u32, pc, LaunchErrorKind::BulkCopy(problem))
        };
        let misaligned = |executor: &Self, what: &'static str, address: u64, alignment: u64| {
            wrong(executor, BulkCopyProblem::Misaligned { what, address, alignment })
        };
        let rows = &self.launch.program.lists[copy.extent_rows()];
        let mut rounds = false;
        let (mut runs, bytes, swizzle, alignment) = match copy.extent {
            BulkExtent::Bytes { .. } => {
                // SAFETY: the decoder allocated the row.
                let bytes = unsafe { read_row(warp.rows, rows[0]) }[lane];
                if !bytes.is_multiple_of(CHUNK) {
                    return Err(wrong(self, BulkCopyProblem::Size { bytes }));
                }
                if !global.is_multiple_of(CHUNK.into()) {
                    return Err(misaligned(self, "its side in global memory", global, CHUNK.into()));
                }
                let run = Run { offset: 0, bytes, host: std::ptr::null_mut(), global };
                (vec![run], bytes, Swizzle::None, u64::from(CHUNK))
            }
            BulkExtent::Box { .. } => {
                if !global.is_multiple_of(tensor_map::ALIGNMENT) {
                    return Err(misaligned(self, "its tensor map", global, tensor_map::ALIGNMENT));
                }
                let Some(tensor) = self.tensor_at(global) else {
                    return Err(wrong(self, BulkCopyProblem::NoTensorMap { address: global }));
                };
                rounds = tensor.element == TensorElement::TF32;
                if rows.len() != tensor.dimensions {
                    let (coordinates, dimensions) = (rows.len(), tensor.dimensions);
                    return Err(wrong(self, BulkCopyProblem::Dimensions { coordinates, dimensions }));
                }
                let mut first = [0; tensor_map::MOST_DIMENSIONS];
                for (first, row) in first.iter_mut().zip(rows) {
                    // SAFETY: the decoder allocated the rows.
                    *first = i64::from(unsafe { read_row(warp.rows, *row) }[lane] as i32);
                }
                let mut runs = runs_of_box(&tensor, first);
                if copy.direction == BulkDirection::Store {
                    let row = tensor.box_sizes[0] * tensor.element.bytes();
                    runs.iter_mut().for_each(|run| run.end_with_a_chunk(row));
                }
                (runs, tensor.box_bytes(), tensor.swizzle, BOX_ALIGNMENT)
            }
        };
        if !shared.is_multiple_of(alignment) {
            return Err(misaligned(self, "its side in shared memory", shared, alignment));
        }
        let (of_shared, of_global) = match copy.direction {
            BulkDirection::Load => (AccessKind::Write, AccessKind::Read),
            BulkDirection::Store => (AccessKind::Read, AccessKind::Write),
        };
        // A swizzle stays within its lines.
        let line = u64::from(swizzle.span().unwrap_or(1));
        let end = (shared.saturating_add(bytes.into())).next_multiple_of(line);
        let reach = match copy.direction {
            BulkDirection::Load => Target::Cluster,
            BulkDirection::Store => Target::Shared,
        };
        let problem = self.shared_place(reach, shared, end - shared).err();
        let lost = problem.is_some();
        if let Some(problem) = problem {
            let kind = self.unreachable(problem, shared, bytes, of_shared);
            let fault = self.fault_of_lane(warp, lane as u32, pc, kind);
            self.report(fault)?;
        }
        let mut recent = usize::MAX;
        let mut fault: Option<Box<Fault>> = None;
        let memory = self.launch.memory;
        for run in &mut runs {
            let inside = |index: usize| {
                memory.allocations().get(index).filter(|allocation| {
                    let offset = run.global.wrapping_sub(allocation.start());
                    offset <= allocation.bytes() && u64::from(run.bytes) <= allocation.bytes() - offset
                })
            };
            if inside(recent).is_none() {
                recent = memory.find(run.global, run.bytes.into()).unwrap_or(usize::MAX);
            }
            if let Some(allocation) = inside(recent) {
                run.host = allocation.host().wrapping_add((run.global - allocation.start()) as usize);
            } else if fault.is_none() {
                let (space, nearest) = (MemorySpace::Global, memory.nearest(run.global));
                let (address, bytes, access) = (run.global, run.bytes, of_global);
                let kind = LaunchErrorKind::OutOfBounds { space, address, bytes, access, nearest };
                fault = Some(self.fault_of_lane(warp, lane as u32, pc, kind));
            }
        }
        if let Some(fault) = fault {
            self.report(fault)?;
        }
        Ok(Transfer {
            warp: warp.number,
            lane: lane as u32,
            instruction: pc,
            direction: copy.direction,
            shared: if lost { 0 } else { shared as u32 },
            bytes,
            swizzle,
            rounds,
            runs,
            lost,
            again: false,
            pieces: Vec::new(),
        })
    }

    /// The tensor map at a generic address.
    fn tensor_at(&self, address: u64) -> Option<Tensor> {
        let mut map = [0; TENSOR_MAP_BYTES];
        match AddressSpace::of(address) {
            AddressSpace::Parameter => {
                let offset = usize::try_from(address - PARAMETER_WINDOW).ok()?;
                let parameters = self.launch.parameters;
                let end = offset.checked_add(TENSOR_MAP_BYTES)?;
                if end > self.launch.parameter_bytes as usize {
                    return None;
                }
                for (to, index) in map.iter_mut().zip(offset..end) {
                    *to = parameters[index / 16].to_le_bytes()[index % 16];
                }
            }
            AddressSpace::Global | AddressSpace::Constant => self.launch.memory.read(address, &mut map).ok()?,
            AddressSpace::Shared | AddressSpace::Local => return None,
        }
        Tensor::decode(&map)
    }

    // ---- loads --------------------------------------------------------------------------------------------

    /// Lets loads happen that an mbarrier waits for, until its phase is complete or there are none left.
    pub fn land_loads(&mut self, mbarrier: u64, coordination: &mut Coordination) -> Result<()> {
        let Some(state) = coordination.mbarriers.iter().position(|known| known.address == mbarrier) else {
            return Ok(());
        };
        let phase = coordination.mbarriers[state].phase();
        while coordination.mbarriers[state].phase() == phase {
            let next = coordination.bulk.loads.iter().position(|load| load.mbarrier == mbarrier);
            let Some(next) = next else { return Ok(()) };
            let loads = &mut coordination.bulk.loads;
            let (done, (warp, lane, pc, bytes)) = match &mut loads[next].what {
                Arriving::Copy(transfer) => (true, self.land_load(transfer)),
                Arriving::Stores(stores) => {
                    let landed = self.land_store(stores);
                    (stores.lanes == 0, landed)
                }
            };
            if done {
                loads.remove(next);
            }
            self.tell(warp, lane, pc, mbarrier, MbarrierEvent::CopiesArrive);
            self.complete_bytes(warp, lane, pc, state, bytes.into(), coordination)?;
        }
        Ok(())
    }

    /// Lets a load happen; gives warp, lane, instruction and bytes.
    fn land_load(&mut self, transfer: &Transfer) -> (u32, usize, u32, u32) {
        // SAFETY: the copy was checked for the cluster's shared memory, which this worker alone uses.
        unsafe { transfer.land(self.shared_base(transfer.shared.into())) };
        if W::ACTIVE {
            let place = self.place_of(transfer.warp, transfer.instruction);
            tell(self.watch.observer(), transfer, |observer, event| observer.bulk_copy_completes(place, event));
        }
        (transfer.warp, transfer.lane as usize, transfer.instruction, transfer.bytes)
    }

    /// Forgets loads that nobody waited for before the block's end.
    pub fn abandon_loads(&mut self, coordination: &mut Coordination) {
        for Load { what, .. } in std::mem::take(&mut coordination.bulk.loads) {
            match what {
                Arriving::Copy(transfer) => self.abandon_transfer(&transfer),
                Arriving::Stores(stores) => self.abandon_stores(&stores),
            }
        }
    }

    fn abandon_transfer(&mut self, transfer: &Transfer) {
        if W::ACTIVE {
            let place = self.place_of(transfer.warp, transfer.instruction);
            tell(self.watch.observer(), transfer, |observer, event| observer.bulk_copy_abandoned(place, event));
        }
    }

    // ---- stores -------------------------------------------------------------------------------------------

    /// Waits until at most `open` groups of each lane aren't done, or haven't read their sources.
    pub fn wait_for_stores(
        &mut self,
        warp: u32,
        pc: u32,
        active: u32,
        open: u32,
        only_read: bool,
        coordination: &mut Coordination,
    ) {
        if W::ACTIVE {
            let place = self.place_of(warp, pc);
            self.watch.observer().bulk_stores_awaited(place, active);
        }
        for mut store in std::mem::take(&mut coordination.bulk.stores) {
            let committed = coordination.bulk.committed(&store.transfer);
            let due = u64::from(store.group) + u64::from(open) < u64::from(committed);
            if !store.transfer.is_of(warp, active) || !due {
                coordination.bulk.stores.push(store);
                continue;
            }
            let place = self.place_of(warp, store.transfer.instruction);
            if store.data.is_none() {
                // SAFETY: the copy was checked for this block's shared memory, which this worker alone uses.
                store.data = Some(unsafe { store.transfer.read(self.shared_base(store.transfer.shared.into())) });
                if W::ACTIVE {
                    tell(self.watch.observer(), &store.transfer, |observer, event| {
                        observer.bulk_store_has_read(place, event);
                    });
                }
            }
            if only_read {
                coordination.bulk.stores.push(store);
            } else {
                self.complete_store(&store);
            }
        }
    }

    fn complete_store(&mut self, Store { transfer, data, .. }: &Store) {
        let Some(data) = data else { return };
        transfer.write(data);
        if W::ACTIVE {
            let place = self.place_of(transfer.warp, transfer.instruction);
            tell(self.watch.observer(), transfer, |observer, event| observer.bulk_copy_completes(place, event));
        }
    }

    /// Ends the stores of lanes that exit: those that have read are written, the others don't happen.
    #[cold]
    pub fn end_stores(&mut self, warp: u32, mask: u32, coordination: &mut Coordination) {
        for store in std::mem::take(&mut coordination.bulk.stores) {
            if !store.transfer.is_of(warp, mask) {
                coordination.bulk.stores.push(store);
            } else if store.data.is_some() {
                self.complete_store(&store);
            } else {
                self.abandon_transfer(&store.transfer);
            }
        }
    }
}

fn tell(
    observer: &mut dyn observe::Observer,
    transfer: &Transfer,
    tell: impl FnOnce(&mut dyn observe::Observer, observe::BulkCopy<'_>),
) {
    let direction = match transfer.direction {
        BulkDirection::Load => observe::BulkDirection::Load,
        BulkDirection::Store => observe::BulkDirection::Store,
    };
    let Transfer { lane, again, ref pieces, .. } = *transfer;
    tell(observer, observe::BulkCopy { lane, direction, pieces, again });
}

/// The part of each row of a box that is inside of the tensor, in the order of shared memory.
fn runs_of_box(tensor: &Tensor, first: [i64; tensor_map::MOST_DIMENSIONS]) -> Vec<Run> {
    let element = tensor.element.bytes();
    let row_bytes = tensor.box_sizes[0] * element;
    // Along the innermost dimension all rows are alike.
    let size = i64::try_from(tensor.sizes[0]).unwrap_or(i64::MAX);
    let width = i64::from(tensor.box_sizes[0]);
    let (skip, end) = ((-first[0]).clamp(0, width), (size - first[0]).clamp(0, width));
    let mut runs = Vec::new();
    if skip >= end {
        return runs;
    }
    let mut index = [0u32; tensor_map::MOST_DIMENSIONS];
    let mut offset = 0;
    loop {
        let mut address = tensor.address.wrapping_add((first[0] + skip) as u64 * u64::from(element));
        let mut inside = true;
        for dimension in 1..tensor_map::MOST_DIMENSIONS {
            let place = first[dimension] + i64::from(index[dimension]);
            inside &= place >= 0 && (place as u64) < tensor.sizes[dimension];
            address = address.wrapping_add((place as u64).wrapping_mul(tensor.strides[dimension]));
        }
        if inside {
            let bytes = (end - skip) as u32 * element;
            let host = std::ptr::null_mut();
            runs.push(Run { offset: offset + skip as u32 * element, bytes, host, global: address });
        }
        offset += row_bytes;
        let Some(dimension) = (1..tensor_map::MOST_DIMENSIONS).find(|at| index[*at] + 1 < tensor.box_sizes[*at]) else {
            return runs;
        };
        index[1..dimension].fill(0);
        index[dimension] += 1;
    }
}
