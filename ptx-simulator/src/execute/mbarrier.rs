//! mbarriers: barriers that are objects in shared memory, at which arriving and waiting are two things.
//!
//! An mbarrier goes from phase to phase. A phase is complete when as many arrivals have come as it was initialised for, and
//! all bytes that it was told to expect ("tx-count" in the manual); the next one begins at once. Whoever waits asks whether a phase is over, naming it by its parity or by the state that
//! an arrival gave, and asks again if it isn't. A warp that asks in vain gives its turn to the others; if all that could
//! let the phase end are asking, too, or wait at barriers, or have exited, then it never ends.
//!
//! The object's 64 bits are PTX's own business. Here the truth is in a table of the cluster; the bits in shared memory are
//! a copy of it, so that an ordinary store to an mbarrier is noticed at the next use.

use super::access::{lane_addresses, lanes};
use super::coordination::Coordination;
use super::fault::Fault;
use super::run::{Executor, Result, read_row, read_wide_row, write_predicate, write_wide_lanes};
use super::warp::Warp;
use crate::decode::program::*;
use crate::error::{AccessKind, LaunchErrorKind, MbarrierProblem, MbarrierWait, MemorySpace};
use crate::memory::{load, store};
use crate::observe::{MbarrierEvent, Place, Watch};

/// Arrivals that a phase can expect: 2^20 - 1, by PTX's definition.
const MOST_ARRIVALS: u32 = (1 << 20) - 1;
/// Bytes that a phase can lack, or have too many: 2^20 - 1, by PTX's definition.
const MOST_BYTES: i64 = (1 << 20) - 1;
/// Bytes of an mbarrier, which are also its alignment.
const BYTES: u64 = 8;
/// Marks the bits of an mbarrier.
const MARK: u64 = 0xb << 60;
/// Failed tests of every thread that could do anything, with nothing happening in the block meanwhile, after which it
/// counts as certain that nothing will: programs may give up after some tests.
const POLLS: u32 = 1 << 9;

/// An mbarrier.
#[derive(Clone, Copy, Debug)]
pub(super) struct MbarrierState {
    /// In shared memory of the cluster.
    pub address: u64,
    /// Arrivals of each later phase.
    expected: u32,
    /// Arrivals that the phase at hand lacks.
    pending: u32,
    /// Bytes that the phase at hand lacks: those that it was told to expect less those that have come.
    bytes: i64,
    phase: u64,
    /// Arrivals of the phase at hand that wait for copies.
    deferred: u32,
    /// Where it was initialised.
    initialised: u32,
}

impl MbarrierState {
    /// Number of the phase at hand.
    pub fn phase(&self) -> u64 {
        self.phase
    }

    /// The 64 bits of the object, which are also the state that arrivals give.
    fn bits(&self) -> u64 {
        MARK | u64::from(self.expected) << 40 | u64::from(self.pending) << 20 | self.phase & 0xf_ffff
    }
}

/// The number of arrivals that a phase lacked, from its state.
pub(super) fn pending_count(state: u64) -> u32 {
    (state >> 20) as u32 & MOST_ARRIVALS
}

/// What the lanes of a warp asked in vain.
#[derive(Clone, Copy, Debug)]
pub(super) struct Polls {
    /// How often, without anything happening in the block.
    times: [u32; 32],
    /// Where, and about which mbarrier, last.
    instruction: [u32; 32],
    address: [u64; 32],
    /// The block's events so far.
    events: u64,
}

impl Polls {
    const NONE: Polls = Polls { times: [0; 32], instruction: [0; 32], address: [0; 32], events: 0 };
}

/// What an instruction for mbarriers means for the warp's turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Turn {
    GoesOn,
    /// Lanes asked whether a phase is over, and it wasn't.
    AskedInVain,
    /// A phase is complete, and others may wait for that.
    Completed,
}

/// What to do to an mbarrier.
#[derive(Clone, Copy)]
struct Arrival {
    count: u32,
    drop: bool,
    incomplete: bool,
}

impl<W: Watch> Executor<'_, W> {
    /// Executes an instruction for mbarriers; says whether the warp should let others run.
    pub fn mbarrier(
        &mut self,
        warp: &Warp,
        pc: u32,
        mbarrier: &Mbarrier,
        active: u32,
        coordination: &mut Coordination,
    ) -> Result<Turn> {
        let addresses = self.mbarrier_addresses(warp, pc, mbarrier, active)?;
        let operands = match (mbarrier.kind, mbarrier.operand) {
            (_, NONE) => [1; 32],
            // SAFETY: the decoder allocated the rows, two for a state.
            (MbarrierKind::TestState, row) => unsafe { read_wide_row(warp.rows, row) },
            // SAFETY: as above.
            (_, row) => unsafe { read_row(warp.rows, row) }.map(u64::from),
        };
        let completed = coordination.completed;
        match mbarrier.kind {
            MbarrierKind::Initialise => {
                for lane in lanes(active) {
                    self.initialise(warp, pc, lane, addresses[lane], operands[lane], coordination)?;
                }
            }
            MbarrierKind::Invalidate => {
                for lane in lanes(active) {
                    let index = self.find(warp, pc, lane, addresses[lane], coordination)?;
                    coordination.mbarriers.remove(index);
                    self.tell(warp.number, lane, pc, addresses[lane], MbarrierEvent::Invalidated);
                }
                coordination.events += 1;
            }
            MbarrierKind::Arrive { drop, incomplete, expects } => {
                for lane in lanes(active) {
                    let count = if expects { 1 } else { operands[lane] };
                    let index = self.find(warp, pc, lane, addresses[lane], coordination)?;
                    let state = coordination.mbarriers[index].bits();
                    if count == 0 || count > u64::from(MOST_ARRIVALS) {
                        let problem = MbarrierProblem::BadCount { count };
                        return Err(self.misuse(warp, pc, lane, addresses[lane], problem));
                    }
                    if expects {
                        self.expect(warp, pc, lane, index, operands[lane], coordination)?;
                    }
                    let arrival = Arrival { count: count as u32, drop, incomplete };
                    self.arrive_at(warp.number, lane, pc, index, arrival, false, coordination)?;
                    if mbarrier.destination != NONE {
                        // SAFETY: the decoder allocated two rows.
                        unsafe { write_wide_lanes(warp.rows, mbarrier.destination, 1 << lane, |_| state) };
                    }
                }
            }
            MbarrierKind::Expect | MbarrierKind::CompleteBytes => {
                for lane in lanes(active) {
                    let index = self.find(warp, pc, lane, addresses[lane], coordination)?;
                    let bytes = operands[lane];
                    self.tell(warp.number, lane, pc, addresses[lane], MbarrierEvent::BytesCounted);
                    if mbarrier.kind == MbarrierKind::Expect {
                        self.expect(warp, pc, lane, index, bytes, coordination)?;
                    } else {
                        self.complete_bytes(warp.number, lane, pc, index, bytes, coordination)?;
                    }
                }
            }
            MbarrierKind::ArriveAfterCopies { counted } => {
                for lane in lanes(active) {
                    let index = self.find(warp, pc, lane, addresses[lane], coordination)?;
                    let state = &mut coordination.mbarriers[index];
                    if !counted {
                        state.pending += 1;
                        if state.pending > MOST_ARRIVALS {
                            let problem = MbarrierProblem::BadCount { count: u64::from(state.pending) };
                            return Err(self.misuse(warp, pc, lane, addresses[lane], problem));
                        }
                    }
                    state.deferred += 1;
                    self.write_bits(index, coordination);
                    self.tell(warp.number, lane, pc, addresses[lane], MbarrierEvent::ArrivesAfterCopies);
                }
                let now = self.defer_arrivals(warp.number, pc, &addresses, active, coordination);
                for lane in lanes(now) {
                    self.arrive_late(warp.number, lane, pc, addresses[lane], coordination)?;
                }
                coordination.events += 1;
            }
            MbarrierKind::TestState | MbarrierKind::TestParity => {
                let parity = mbarrier.kind == MbarrierKind::TestParity;
                let mut over = 0;
                for lane in lanes(active) {
                    let index = self.find(warp, pc, lane, addresses[lane], coordination)?;
                    let state = coordination.mbarriers[index];
                    if state.deferred > 0 && state.deferred == state.pending {
                        self.flush(addresses[lane], coordination)?;
                    }
                    let named = operands[lane];
                    let is_over = |phase: u64| match parity {
                        true => phase & 1 != named & 1,
                        false => (phase ^ named) & 0xf_ffff != 0,
                    };
                    let MbarrierState { phase, pending, .. } = coordination.mbarriers[index];
                    if pending == 0 && !is_over(phase) {
                        self.land_loads(addresses[lane], coordination)?;
                    }
                    let is_over = is_over(coordination.mbarriers[index].phase);
                    over |= u32::from(is_over) << lane;
                    self.tell(warp.number, lane, pc, addresses[lane], MbarrierEvent::Tested { over: is_over });
                }
                // SAFETY: the decoder allocated the mask.
                unsafe { write_predicate(warp.predicates, mbarrier.destination, active, over) };
                let vain = active & !over;
                self.note_polls(warp.number, pc, active, vain, &addresses, coordination);
                return Ok(if vain == 0 { Turn::GoesOn } else { Turn::AskedInVain });
            }
        }
        // Whoever waits sees a phase complete before the next one is: if nothing else keeps the arriving warp from
        // overtaking the others, then not the order in which warps happen to get their turns either.
        Ok(if coordination.completed == completed { Turn::GoesOn } else { Turn::Completed })
    }

    /// Addresses within shared memory, checked.
    fn mbarrier_addresses(&self, warp: &Warp, pc: u32, mbarrier: &Mbarrier, active: u32) -> Result<[u64; 32]> {
        let mut addresses = lane_addresses(warp.rows, &mbarrier.address);
        let access = match mbarrier.kind {
            MbarrierKind::Initialise => AccessKind::Write,
            MbarrierKind::TestState | MbarrierKind::TestParity => AccessKind::Read,
            _ => AccessKind::Atomic,
        };
        for lane in lanes(active) {
            if mbarrier.target == Target::Generic {
                // Whatever isn't in the window is far outside.
                addresses[lane] = addresses[lane].wrapping_sub(SHARED_WINDOW);
            }
            self.check_mbarrier_address(warp, pc, lane, mbarrier.target, addresses[lane], access)?;
        }
        Ok(addresses)
    }

    /// Whether an mbarrier can be at an address.
    pub fn check_mbarrier_address(
        &self,
        warp: &Warp,
        pc: u32,
        lane: usize,
        target: Target,
        address: u64,
        access: AccessKind,
    ) -> Result<()> {
        let (space, bytes) = (MemorySpace::Shared, BYTES as u32);
        let kind = if let Err(problem) = self.shared_place(target, address, BYTES) {
            self.unreachable(problem, address, bytes, access)
        } else if !address.is_multiple_of(BYTES) {
            LaunchErrorKind::Misaligned { space, address, bytes, access }
        } else {
            return Ok(());
        };
        Err(self.fault_of_lane(warp, lane as u32, pc, kind))
    }

    fn initialise(
        &mut self,
        warp: &Warp,
        pc: u32,
        lane: usize,
        address: u64,
        count: u64,
        coordination: &mut Coordination,
    ) -> Result<()> {
        if count == 0 || count > u64::from(MOST_ARRIVALS) {
            return Err(self.misuse(warp, pc, lane, address, MbarrierProblem::BadCount { count }));
        }
        if coordination.mbarriers.iter().any(|known| known.address == address) {
            return Err(self.misuse(warp, pc, lane, address, MbarrierProblem::InitialisedTwice));
        }
        let (expected, pending) = (count as u32, count as u32);
        let state = MbarrierState { address, expected, pending, bytes: 0, phase: 0, deferred: 0, initialised: pc };
        coordination.mbarriers.push(state);
        coordination.events += 1;
        self.write_bits(coordination.mbarriers.len() - 1, coordination);
        self.tell(warp.number, lane, pc, address, MbarrierEvent::Initialised);
        Ok(())
    }

    /// The mbarrier at an address, if there is one and nobody has written over it.
    pub fn find(&self, warp: &Warp, pc: u32, lane: usize, address: u64, coordination: &Coordination) -> Result<usize> {
        let index = coordination.mbarriers.iter().position(|known| known.address == address);
        let problem = match index {
            // SAFETY: mbarriers are inside shared memory of this cluster, and aligned.
            Some(index) => match unsafe { load::<8>(self.shared_base(address).wrapping_add(address as usize)) } {
                bits if bits == coordination.mbarriers[index].bits() => return Ok(index),
                _ => MbarrierProblem::Overwritten,
            },
            None => MbarrierProblem::NotInitialised,
        };
        Err(self.misuse(warp, pc, lane, address, problem))
    }

    fn write_bits(&self, index: usize, coordination: &Coordination) {
        let state = &coordination.mbarriers[index];
        let place = self.shared_base(state.address).wrapping_add(state.address as usize);
        // SAFETY: mbarriers are inside shared memory of this cluster, and aligned.
        unsafe { store::<8>(place, state.bits()) };
    }

    /// Arrivals at the mbarrier of that index. Those that are `late` were told to the observer before.
    #[allow(clippy::too_many_arguments)]
    fn arrive_at(
        &mut self,
        warp: u32,
        lane: usize,
        pc: u32,
        index: usize,
        arrival: Arrival,
        late: bool,
        coordination: &mut Coordination,
    ) -> Result<()> {
        let Arrival { count, drop, incomplete } = arrival;
        let state = &mut coordination.mbarriers[index];
        let address = state.address;
        let problem = if count > state.pending {
            Some(MbarrierProblem::TooManyArrivals { pending: state.pending, count })
        } else if count == state.pending && incomplete {
            Some(MbarrierProblem::CompletedUnawares)
        } else {
            None
        };
        if let Some(problem) = problem {
            return Err(self.misuse_at(warp, pc, lane, address, problem));
        }
        state.pending -= count;
        if drop {
            state.expected = state.expected.saturating_sub(count);
        }
        coordination.events += 1;
        if !late {
            self.tell(warp, lane, pc, address, MbarrierEvent::Arrives);
        }
        self.complete_phase(warp, lane, pc, index, coordination);
        Ok(())
    }

    /// Begins the next phase if the one at hand lacks nothing any more.
    fn complete_phase(&mut self, warp: u32, lane: usize, pc: u32, index: usize, coordination: &mut Coordination) {
        let state = &mut coordination.mbarriers[index];
        let address = state.address;
        let complete = state.pending == 0 && state.bytes == 0;
        if complete {
            state.phase += 1;
            state.pending = state.expected;
            coordination.completed += 1;
        }
        self.write_bits(index, coordination);
        if complete {
            self.tell(warp, lane, pc, address, MbarrierEvent::Completed);
        }
    }

    /// The phase at hand is to wait for so many bytes more.
    fn expect(
        &mut self,
        warp: &Warp,
        pc: u32,
        lane: usize,
        index: usize,
        bytes: u64,
        coordination: &mut Coordination,
    ) -> Result<()> {
        let state = &mut coordination.mbarriers[index];
        state.bytes = state.bytes.saturating_add(bytes as i64);
        if state.bytes > MOST_BYTES {
            let (address, bytes) = (state.address, state.bytes as u64);
            return Err(self.misuse(warp, pc, lane, address, MbarrierProblem::ExpectsTooMuch { bytes }));
        }
        coordination.events += 1;
        Ok(())
    }

    /// Bytes that the phase at hand waits for have come.
    pub fn complete_bytes(
        &mut self,
        warp: u32,
        lane: usize,
        pc: u32,
        index: usize,
        bytes: u64,
        coordination: &mut Coordination,
    ) -> Result<()> {
        let state = &mut coordination.mbarriers[index];
        let lacking = state.bytes;
        if bytes as i64 > lacking && state.pending == 0 || bytes as i64 - lacking > MOST_BYTES {
            let (address, lacking) = (state.address, lacking.max(0) as u64);
            return Err(self.misuse_at(warp, pc, lane, address, MbarrierProblem::TooManyBytes { lacking, bytes }));
        }
        state.bytes -= bytes as i64;
        coordination.events += 1;
        self.complete_phase(warp, lane, pc, index, coordination);
        Ok(())
    }

    /// An arrival whose copies are done.
    pub fn arrive_late(
        &mut self,
        warp: u32,
        lane: usize,
        pc: u32,
        address: u64,
        coordination: &mut Coordination,
    ) -> Result<()> {
        let Some(index) = coordination.mbarriers.iter().position(|known| known.address == address) else {
            return Err(self.misuse_at(warp, pc, lane, address, MbarrierProblem::NotInitialised));
        };
        coordination.mbarriers[index].deferred -= 1;
        self.tell(warp, lane, pc, address, MbarrierEvent::CopiesArrive);
        let arrival = Arrival { count: 1, drop: false, incomplete: false };
        self.arrive_at(warp, lane, pc, index, arrival, true, coordination)
    }

    #[inline(always)]
    pub fn tell(&mut self, warp: u32, lane: usize, pc: u32, address: u64, event: MbarrierEvent) {
        if W::ACTIVE {
            let place = self.place_of(warp, pc);
            self.watch.observer().mbarrier(place, lane as u32, address, event);
        }
    }

    #[cold]
    pub fn misuse(&self, warp: &Warp, pc: u32, lane: usize, address: u64, problem: MbarrierProblem) -> Box<Fault> {
        let kind = LaunchErrorKind::Mbarrier { mbarrier: self.name_of(address), problem };
        self.fault_of_lane(warp, lane as u32, pc, kind)
    }

    #[cold]
    fn misuse_at(&self, warp: u32, pc: u32, lane: usize, address: u64, problem: MbarrierProblem) -> Box<Fault> {
        let kind = LaunchErrorKind::Mbarrier { mbarrier: self.name_of(address), problem };
        let Place { block, warp, .. } = self.place_of(warp, pc);
        Box::new(Fault { kind, block, warp, lane: lane as u32, instruction: pc, callers: Vec::new() })
    }

    /// What people call the mbarrier at an address.
    fn name_of(&self, address: u64) -> String {
        let (rank, address) = (address / BLOCK_WINDOW, address % BLOCK_WINDOW);
        let of_block = match self.blocks.get(rank as usize) {
            Some((block, _)) if self.blocks.len() > 1 => {
                let [x, y, z] = self.launch.block_position(*block);
                format!(" of block ({x}, {y}, {z})")
            }
            _ => String::new(),
        };
        let info = self.launch.module.kernel(self.launch.kernel);
        let statics = info.iter().flat_map(|info| &info.shared_arrays);
        let mut arrays = statics.map(|array| (array.name.as_str(), u64::from(array.offset), u64::from(array.bytes)));
        let dynamic = info.and_then(|info| {
            let (start, end) = (u64::from(info.static_shared_bytes), u64::from(self.launch.shared_bytes));
            Some((info.dynamic_shared.as_deref()?, start, end - start))
        });
        let inside = |(_, start, bytes): &(&str, u64, u64)| address.wrapping_sub(*start) < *bytes;
        match arrays.find(inside).or(dynamic.filter(inside)) {
            Some((name, start, _)) if start == address => format!("`{name}`{of_block}"),
            Some((name, start, _)) => format!("`{name}` + {} bytes{of_block}", address - start),
            None => format!("at {address:#x}{of_block}"),
        }
    }

    // ---- asking in vain -----------------------------------------------------------------------------------

    fn note_polls(
        &self,
        warp: u32,
        pc: u32,
        asked: u32,
        vain: u32,
        addresses: &[u64; 32],
        coordination: &mut Coordination,
    ) {
        if coordination.polls.is_empty() {
            if vain == 0 {
                return;
            }
            coordination.polls = vec![Polls::NONE; coordination.copies.len()];
        }
        let polls = &mut coordination.polls[warp as usize];
        if polls.events != coordination.events {
            polls.events = coordination.events;
            polls.times = [0; 32];
        }
        for lane in lanes(asked) {
            polls.times[lane] = if vain >> lane & 1 != 0 { polls.times[lane] + 1 } else { 0 };
            polls.instruction[lane] = pc;
            polls.address[lane] = addresses[lane];
        }
    }

    /// Whether all threads that aren't at barriers have asked mbarriers in vain for long.
    pub fn all_ask_in_vain(&self, warps: &[Warp], coordination: &Coordination) -> bool {
        warps.iter().zip(&coordination.polls).all(|(warp, polls)| {
            let current = polls.events == coordination.events;
            lanes(warp.runnable()).all(|lane| current && polls.times[lane] >= POLLS)
        })
    }

    /// Where a lane that can run last asked in vain.
    pub fn last_poll(coordination: &Coordination, warp: u32, lane: usize) -> Option<(u32, u64)> {
        let polls = coordination.polls.get(warp as usize)?;
        (polls.times[lane] > 0).then(|| (polls.instruction[lane], polls.address[lane]))
    }

    /// Whether some have arrived in the phase at hand of an mbarrier.
    pub fn is_partly_complete(address: u64, coordination: &Coordination) -> bool {
        let state = coordination.mbarriers.iter().find(|known| known.address == address);
        state.is_some_and(|state| state.pending < state.expected || state.bytes != 0)
    }

    /// What an mbarrier waits for, in words.
    pub fn missing_at(&self, address: u64, coordination: &Coordination) -> String {
        let state = coordination.mbarriers.iter().find(|known| known.address == address);
        let (pending, expected, bytes) = state.map_or((0, 0, 0), |state| (state.pending, state.expected, state.bytes));
        let bytes = MbarrierWait::bytes_in_words(bytes);
        format!("for {} ({pending} of {expected} arrivals missing{bytes})", self.name_of(address))
    }

    /// Why nobody can ever leave an mbarrier.
    pub fn mbarrier_deadlock(&self, address: u64, others: String, coordination: &Coordination) -> LaunchErrorKind {
        let state = coordination.mbarriers.iter().find(|known| known.address == address);
        LaunchErrorKind::MbarrierDeadlock(Box::new(MbarrierWait {
            mbarrier: self.name_of(address),
            initialised: state.map_or_else(String::new, |state| self.describe(state.initialised)),
            phase: state.map_or(0, |state| state.phase),
            missing: state.map_or(0, |state| state.pending),
            expected: state.map_or(0, |state| state.expected),
            bytes: state.map_or(0, |state| state.bytes),
            others,
        }))
    }
}
