//! The interpreter's loop: straight through the code of a group of lanes, until control flow or a barrier stops it.

use std::ops::Range;

use super::cluster::{BARRIERS, Cluster};
use super::coordination::Coordination;
use super::fault::Fault;
use super::launch::Launch;
use super::mbarrier::{Turn, pending_count};
use super::pattern::AddressPattern;
use super::warp::{ALL, Group, State, Warp};
use crate::decode::program::*;
use crate::error::{ClusterBarrierProblem, LaunchErrorKind};
use crate::observe::{Place, Watch};
use crate::processor::Level;

/// Instructions of a warp before the next one gets its turn, where warps may wait for each other.
const WARP_SLICE: u64 = 1 << 14;
/// Instructions of a group of lanes before another one gets its turn, where lanes may wait for each other.
const GROUP_SLICE: u64 = 1 << 11;

pub(super) type Result<T> = std::result::Result<T, Box<Fault>>;

/// How far a cluster came in its turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Progress {
    Finished,
    /// It has more to do.
    Waiting,
    /// A fault has ended the launch, and the observer has taken it.
    LaunchEnded,
}

/// Why a warp or a group stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stop {
    /// The scheduler must look again: groups split, ended, or may merge.
    Reschedule,
    /// No group of the warp can run.
    Blocked,
    /// The warp's turn is over.
    TurnOver,
    /// All threads arrived at this barrier of the block.
    BarrierComplete(u32),
    /// Lanes asked an mbarrier in vain.
    Polled,
}

/// Threads that wait for ever.
struct Waiting<'w> {
    warp: &'w Warp,
    lanes: u32,
    state: State,
    at: u32,
    /// The mbarrier that they ask, if they do.
    mbarrier: Option<u64>,
    /// How much it says of the mistake.
    rank: u32,
}

/// What one worker needs to run blocks of a launch.
pub(super) struct Executor<'a, W> {
    pub launch: &'a Launch<'a>,
    pub watch: W,
    /// The running block's shared memory.
    pub shared: *mut u8,
    /// The running block's index.
    pub block: u64,
    /// The running block's rank in its cluster.
    pub rank: u32,
    /// Index and shared memory of each block of the running cluster, by rank.
    pub blocks: Vec<(u64, *mut u8)>,
    /// The blocks of the running cluster whose threads have all exited, a bit each.
    pub exited: u32,
    /// The allocation that each instruction hit last.
    pub recent: Vec<u32>,
    /// Address patterns of the basic block at hand.
    pub patterns: [AddressPattern; PATTERN_SLOTS as usize],
    pub level: Level,
    /// Instructions of a warp in its turn.
    slice: u64,
    /// Where bad accesses of an observed launch lead: a place for each lane.
    pub dropped: Vec<[u128; 2]>,
}

impl<'a, W: Watch> Executor<'a, W> {
    pub fn new(launch: &'a Launch<'a>, watch: W) -> Self {
        Executor {
            launch,
            watch,
            shared: std::ptr::null_mut(),
            block: 0,
            rank: 0,
            blocks: Vec::new(),
            exited: 0,
            recent: vec![0; launch.program.code.len()],
            patterns: [AddressPattern::NONE; PATTERN_SLOTS as usize],
            level: Level::detected(),
            slice: WARP_SLICE,
            dropped: if W::ACTIVE { vec![[u128::MAX; 2]; 32] } else { Vec::new() },
        }
    }

    pub fn fault<T>(&self, warp: &Warp, lanes: u32, instruction: u32, kind: LaunchErrorKind) -> Result<T> {
        let lane = lanes.trailing_zeros().min(31);
        Err(self.fault_of_lane(warp, lane, instruction, kind))
    }

    pub fn fault_of_lane(&self, warp: &Warp, lane: u32, instruction: u32, kind: LaunchErrorKind) -> Box<Fault> {
        let callers = warp.callers(lane);
        let Place { block, warp, .. } = self.place(warp, instruction);
        Box::new(Fault { kind, block, warp, lane, instruction, callers })
    }

    /// Gives a fault to the observer; it's an error unless the observer takes it.
    #[cold]
    pub fn report(&mut self, fault: Box<Fault>) -> Result<()> {
        if !W::ACTIVE {
            return Err(fault);
        }
        let place = Place { block: fault.block, warp: fault.warp, instruction: fault.instruction };
        let again = Fault { kind: fault.kind.clone(), callers: fault.callers.clone(), ..*fault };
        let error = self.launch.describe(again);
        if self.watch.observer().fault(place, &error) { Ok(()) } else { Err(fault) }
    }

    /// What a fault that ended a block, and its cluster with it, means for the launch.
    #[cold]
    pub fn end_cluster(&mut self, fault: Box<Fault>) -> Result<Progress> {
        let block = fault.block;
        let last = matches!(fault.kind, LaunchErrorKind::InstructionLimit { .. } | LaunchErrorKind::OutOfMemory(_));
        self.report(fault)?;
        let launch = self.launch;
        launch.cluster_of(block).for_each(|block| self.watch.observer().block_ends(block));
        Ok(if last { Progress::LaunchEnded } else { Progress::Finished })
    }

    pub fn place(&self, warp: &Warp, instruction: u32) -> Place {
        Place { block: self.blocks[warp.rank as usize].0, warp: warp.index, instruction }
    }

    /// The place of an instruction of the warp of that number in the cluster.
    pub fn place_of(&self, number: u32, instruction: u32) -> Place {
        let warps = self.launch.warps;
        Place { block: self.blocks[(number / warps) as usize].0, warp: number % warps, instruction }
    }

    /// Makes the block of that rank the one that runs.
    fn enter(&mut self, rank: u32) {
        self.rank = rank;
        (self.block, self.shared) = self.blocks[rank as usize];
    }

    /// Runs a cluster until it ends or has executed about `quantum` instructions.
    pub fn run_cluster(&mut self, cluster: &mut Cluster, quantum: u64) -> Result<Progress> {
        self.blocks.clear();
        self.blocks.extend(cluster.blocks.iter().enumerate().map(|(rank, block)| (*block, cluster.shared(rank))));
        let gone = cluster.coordination.running.iter().enumerate().filter(|(_, threads)| **threads == 0);
        self.exited = gone.fold(0, |gone, (rank, _)| gone | 1 << rank);
        self.enter(0);
        self.slice = WARP_SLICE.min(quantum);
        if W::ACTIVE && cluster.warps.iter().all(|warp| warp.executed == 0) {
            let threads = self.launch.threads;
            cluster.blocks.iter().for_each(|block| self.watch.observer().block_begins(*block, threads));
        }
        let executed = |cluster: &Cluster| cluster.warps.iter().map(|warp| warp.executed).sum::<u64>();
        let end = executed(cluster).saturating_add(quantum);
        loop {
            let mut finished = true;
            let mut progressed = false;
            // Whether all that any warp did was to ask mbarriers in vain.
            let mut stalled = true;
            for turn in 0..cluster.warps.len() {
                let index = if self.launch.reversed { cluster.warps.len() - 1 - turn } else { turn };
                if cluster.warps[index].is_finished() {
                    continue;
                }
                finished = false;
                let rank = cluster.warps[index].rank;
                if rank != self.rank {
                    self.enter(rank);
                }
                while cluster.warps[index].can_run() {
                    progressed = true;
                    let stop = self.run_warp(&mut cluster.warps[index], &mut cluster.coordination)?;
                    self.release_cluster(cluster);
                    match stop {
                        Stop::BarrierComplete(number) => {
                            stalled = false;
                            if number >= BARRIERS {
                                let first = ((number - BARRIERS) * WarpgroupProduct::WARPS) as usize;
                                let warps = &cluster.warps_of(rank)[first..first + WarpgroupProduct::WARPS as usize];
                                self.warpgroup_product(warps)?;
                            } else if W::ACTIVE {
                                self.watch.observer().barrier_completes(self.block, number);
                            }
                            cluster.release(rank, number);
                            // The others first: this warp has done its part up to the barrier.
                            break;
                        }
                        Stop::Polled => break,
                        Stop::TurnOver => {
                            stalled = false;
                            break;
                        }
                        Stop::Reschedule | Stop::Blocked => stalled = false,
                    }
                }
            }
            if finished {
                self.abandon_all(cluster);
                if W::ACTIVE {
                    cluster.blocks.iter().for_each(|block| self.watch.observer().block_ends(*block));
                }
                return Ok(Progress::Finished);
            }
            if !progressed || stalled && self.all_ask_in_vain(&cluster.warps, &cluster.coordination) {
                return self.stuck(cluster);
            }
            if quantum != u64::MAX && executed(cluster) >= end {
                return Ok(Progress::Waiting);
            }
        }
    }

    /// All threads wait: names the first of them, but one that waits at an mbarrier before the others, and says where
    /// the others are.
    fn stuck<T>(&self, cluster: &Cluster) -> Result<T> {
        let mut exited = 0;
        let mut places: Vec<(u32, Option<u64>, u32)> = Vec::new();
        let mut first: Option<Waiting<'_>> = None;
        for warp in &cluster.warps {
            exited += (warp.existing & !warp.live).count_ones();
            let mut groups: Vec<&Group> = warp.groups.iter().collect();
            groups.sort_by_key(|group| group.mask.trailing_zeros());
            for group in groups {
                let mut rest = group.mask;
                while rest != 0 {
                    let lane = rest.trailing_zeros();
                    let poll = match group.state {
                        State::Runnable => Self::last_poll(&cluster.coordination, warp.number, lane as usize),
                        _ => None,
                    };
                    // Behind a barrier the counter has moved on.
                    let behind = !matches!(group.state, State::Gathering { .. } | State::Runnable);
                    let at = poll.map_or(group.pc - u32::from(behind), |(at, _)| at);
                    let same = match poll {
                        Some(poll) => lanes_where(rest, |lane| {
                            Self::last_poll(&cluster.coordination, warp.number, lane) == Some(poll)
                        }),
                        None => rest,
                    };
                    rest &= !same;
                    let mbarrier = poll.map(|(_, address)| address);
                    match places.iter_mut().find(|(place, asked, _)| *place == at && *asked == mbarrier) {
                        Some((_, _, count)) => *count += same.count_ones(),
                        None => places.push((at, mbarrier, same.count_ones())),
                    }
                    // An mbarrier that somebody has arrived at says most.
                    let rank = match mbarrier {
                        Some(address) if Self::is_partly_complete(address, &cluster.coordination) => 2,
                        Some(_) => 1,
                        None => 0,
                    };
                    if first.as_ref().is_none_or(|first| first.rank < rank) {
                        first = Some(Waiting { warp, lanes: same, state: group.state, at, mbarrier, rank });
                    }
                }
            }
        }
        let Some(Waiting { warp, lanes, state, at, mbarrier, .. }) = first else {
            unreachable!("a cluster without waiting threads has finished");
        };
        let mut others: Vec<String> = places
            .iter()
            .filter(|(place, asked, _)| *place != at || *asked != mbarrier)
            .map(|(place, asked, count)| {
                let why = asked.map(|address| format!(" {}", self.missing_at(address, &cluster.coordination)));
                format!("{count} wait at {}{}", self.describe(*place), why.unwrap_or_default())
            })
            .collect();
        if exited > 0 {
            others.push(format!("{exited} have exited"));
        }
        if others.is_empty() {
            others.push("there are no others".to_owned());
        }
        let others = others.join(", ");
        let kind = match (mbarrier, state) {
            (Some(address), _) => self.mbarrier_deadlock(address, others, &cluster.coordination),
            (None, State::AtBarrier { number: BARRIERS.., .. }) => {
                // Threads of the warpgroup wait one warp at a time.
                let there = |other: &&Warp| {
                    (other.rank, other.index / WarpgroupProduct::WARPS)
                        == (warp.rank, warp.index / WarpgroupProduct::WARPS)
                        && other
                            .groups
                            .iter()
                            .any(|group| matches!(group.state, State::AtBarrier { number: BARRIERS.., .. }))
                };
                let arrived = cluster.warps.iter().filter(there).count() as u32;
                LaunchErrorKind::DivergentWarpgroup { arrived, others }
            }
            (None, State::AtBarrier { number, .. }) => {
                let barrier = cluster.coordination.barrier_state(warp.rank, number);
                LaunchErrorKind::DivergentBarrier {
                    barrier: number,
                    arrived: barrier.arrived,
                    expected: barrier.expected,
                    others,
                }
            }
            (None, State::Gathering { members } | State::AtWarpBarrier { members }) => {
                LaunchErrorKind::DivergentWarp { members, others }
            }
            (None, State::AtClusterBarrier) => {
                let expected = cluster.warps.iter().map(|warp| warp.live.count_ones()).sum();
                let arrived = cluster.coordination.cluster_barrier.arrivals();
                LaunchErrorKind::ClusterBarrier(ClusterBarrierProblem::WaitsForEver { arrived, expected, others })
            }
            (None, State::Runnable) => unreachable!("a group that can run isn't stuck"),
        };
        self.fault(warp, lanes, at, kind)
    }

    /// Forgets copies that nobody waited for before the cluster's end.
    fn abandon_all(&mut self, cluster: &mut Cluster) {
        self.abandon_loads(&mut cluster.coordination);
        for warp in 0..cluster.warps.len() as u32 {
            if Self::has_copies(&cluster.coordination, warp) {
                self.abandon(warp, ALL, true, &mut cluster.coordination);
            }
        }
    }

    pub fn describe(&self, instruction: u32) -> String {
        let place = self.launch.program.places[instruction as usize];
        match self.launch.module.source(place) {
            Some(source) => source.to_string(),
            None => format!("PTX line {}", place.ptx_line),
        }
    }

    fn run_warp(&mut self, warp: &mut Warp, coordination: &mut Coordination) -> Result<Stop> {
        let limit = self.launch.instruction_limit;
        let fair = self.launch.program.communicates;
        let turn_end = if fair { warp.executed + self.slice } else { u64::MAX };
        let mut slice_end = warp.executed + GROUP_SLICE;
        // Lanes that asked an mbarrier in vain.
        let mut polled = 0;
        loop {
            let Some((index, stop)) = warp.schedule(&self.launch.program.turns) else { return Ok(Stop::Blocked) };
            if warp.executed >= limit {
                let group = warp.groups[index];
                return self.fault(warp, group.mask, group.pc, LaunchErrorKind::InstructionLimit { limit });
            }
            if warp.executed >= turn_end {
                return Ok(Stop::TurnOver);
            }
            if fair && warp.groups.len() > 1 && warp.executed >= slice_end {
                warp.rotate(index, GROUP_SLICE);
                slice_end = warp.executed + GROUP_SLICE;
                continue;
            }
            match self.run_group(warp, index, stop, limit.min(turn_end), coordination)? {
                Stop::Reschedule => {}
                Stop::Polled => {
                    polled |= warp.groups[index].mask;
                    if warp.runnable() & !polled == 0 {
                        return Ok(Stop::Polled);
                    }
                    // Other lanes may be the ones that it waits for.
                    warp.rotate(index, GROUP_SLICE);
                    slice_end = warp.executed + GROUP_SLICE;
                }
                stop => return Ok(stop),
            }
        }
    }

    /// Runs one group until it must give way. `stop` is the place of another group that it may merge with, `u32::MAX`
    /// if it's the only group, which then needn't come back at branches before `check_at` instructions are executed.
    fn run_group(
        &mut self,
        warp: &mut Warp,
        index: usize,
        stop: u32,
        check_at: u64,
        coordination: &mut Coordination,
    ) -> Result<Stop> {
        // The same loop, compiled for what the processor has.
        match self.level {
            // SAFETY: `Level::detected` found the features.
            #[cfg(target_arch = "x86_64")]
            Level::Avx512 => unsafe { self.run_group_avx512(warp, index, stop, check_at, coordination) },
            // SAFETY: as above.
            #[cfg(target_arch = "x86_64")]
            Level::Avx2 => unsafe { self.run_group_avx2(warp, index, stop, check_at, coordination) },
            Level::Portable => self.run_group_inline(warp, index, stop, check_at, coordination),
        }
    }

    /// # Safety
    /// The processor must have the features.
    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt,avx512f,avx512bw,avx512dq,avx512vl")]
    unsafe fn run_group_avx512(
        &mut self,
        warp: &mut Warp,
        index: usize,
        stop: u32,
        check_at: u64,
        coordination: &mut Coordination,
    ) -> Result<Stop> {
        self.run_group_inline(warp, index, stop, check_at, coordination)
    }

    /// # Safety
    /// The processor must have the features.
    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
    unsafe fn run_group_avx2(
        &mut self,
        warp: &mut Warp,
        index: usize,
        stop: u32,
        check_at: u64,
        coordination: &mut Coordination,
    ) -> Result<Stop> {
        self.run_group_inline(warp, index, stop, check_at, coordination)
    }

    #[inline(always)]
    fn run_group_inline(
        &mut self,
        warp: &mut Warp,
        index: usize,
        stop: u32,
        check_at: u64,
        coordination: &mut Coordination,
    ) -> Result<Stop> {
        let code = &self.launch.program.code[..];
        let alone = stop == u32::MAX;
        let (rows, predicates) = (warp.rows, warp.predicates);
        let mut pc = warp.groups[index].pc;
        let mask = warp.groups[index].mask;
        let mut start = pc;
        macro_rules! leave {
            ($pc:expr) => {{
                warp.executed += u64::from(pc + 1 - start);
                warp.groups[index].pc = $pc;
                return Ok(Stop::Reschedule);
            }};
        }
        macro_rules! jump {
            ($label:lifetime, $pc:expr) => {{
                warp.executed += u64::from(pc + 1 - start);
                pc = $pc;
                start = pc;
                if !alone || warp.executed >= check_at {
                    warp.groups[index].pc = pc;
                    return Ok(Stop::Reschedule);
                }
                continue $label;
            }};
        }
        'run: loop {
            if pc == stop {
                warp.executed += u64::from(pc - start);
                warp.groups[index].pc = pc;
                return Ok(Stop::Reschedule);
            }
            let instruction = &code[pc as usize];
            let active = if instruction.guard == Guard::NONE {
                mask
            } else {
                // SAFETY: the decoder allocated the mask.
                mask & unsafe { guard_mask(predicates, instruction.guard) }
            };
            if W::ACTIVE && active != 0 {
                self.watch
                    .observer()
                    .instruction(Place { block: self.block, warp: warp.index, instruction: pc }, active);
            }
            match &instruction.operation {
                Operation::Alu { function, operands } => {
                    if active != 0 {
                        // SAFETY: the decoder checked every operand against the types that the function wants and
                        // allocated its rows; the warp belongs to this thread.
                        unsafe { function(rows, predicates, operands, active) };
                    }
                    pc += 1;
                }
                _ if active == 0 => pc += 1,
                Operation::Load(access) => {
                    self.load(warp, pc, access, active)?;
                    pc += 1;
                }
                Operation::Store(access) => {
                    self.store(warp, pc, access, active)?;
                    pc += 1;
                }
                Operation::Branch { target } => {
                    if active == mask {
                        jump!('run, *target);
                    }
                    warp.split(index, active, *target, State::Runnable);
                    leave!(pc + 1);
                }
                Operation::BranchIndexed { index: row, list, count } => {
                    // SAFETY: the decoder allocated the row.
                    let indices = unsafe { read_row(rows, *row) };
                    let mut rest = active;
                    while rest != 0 {
                        let choice = indices[rest.trailing_zeros() as usize];
                        let lanes = lanes_where(rest, |lane| indices[lane] == choice);
                        if choice >= *count {
                            let kind = LaunchErrorKind::BranchIndex { index: choice, entries: *count };
                            return self.fault(warp, lanes, pc, kind);
                        }
                        let target = self.launch.program.lists[(list + choice) as usize];
                        if lanes == mask {
                            jump!('run, target);
                        }
                        rest &= !lanes;
                        if rest == 0 && active == mask {
                            // What is left of the group takes the last choice.
                            leave!(target);
                        }
                        warp.split(index, lanes, target, State::Runnable);
                    }
                    leave!(pc + 1);
                }
                Operation::Call { target } => {
                    let frame = warp.enter(index, pc + 1);
                    if active == mask {
                        warp.groups[index].frame = frame;
                        jump!('run, *target);
                    }
                    warp.split(index, active, *target, State::Runnable);
                    if let Some(group) = warp.groups.last_mut() {
                        group.frame = frame;
                    }
                    leave!(pc + 1);
                }
                Operation::Return => {
                    let (frame, target) = warp.leave(warp.groups[index].frame);
                    if active == mask {
                        warp.groups[index].frame = frame;
                        jump!('run, target);
                    }
                    warp.split(index, active, target, State::Runnable);
                    if let Some(group) = warp.groups.last_mut() {
                        group.frame = frame;
                    }
                    leave!(pc + 1);
                }
                Operation::Exit => {
                    warp.executed += u64::from(pc + 1 - start);
                    warp.groups[index].pc = pc + 1;
                    warp.exit(index, active);
                    coordination.events += 1;
                    coordination.cluster_barrier.exited();
                    if Self::has_copies(coordination, warp.number) {
                        self.abandon(warp.number, active, false, coordination);
                    }
                    if coordination.bulk.has_stores() {
                        self.end_stores(warp.number, active, coordination);
                    }
                    self.exit_block(warp, active, coordination);
                    self.release_warp_barriers(warp);
                    return Ok(Stop::Reschedule);
                }
                Operation::Barrier(barrier) => {
                    warp.executed += u64::from(pc + 1 - start);
                    let complete = self.arrive(warp, index, pc, barrier, active, coordination)?;
                    return Ok(complete.map_or(Stop::Reschedule, Stop::BarrierComplete));
                }
                Operation::ClusterArrive { releases } => {
                    self.arrive_at_cluster(warp, pc, active, *releases, coordination)?;
                    pc += 1;
                }
                Operation::ClusterWait => {
                    warp.executed += u64::from(pc + 1 - start);
                    self.wait_for_cluster(warp, index, pc, active, coordination)?;
                    return Ok(Stop::Reschedule);
                }
                Operation::MapAddress(map) => {
                    self.map_address(warp, pc, map, active)?;
                    pc += 1;
                }
                Operation::WarpBarrier { members } => {
                    // SAFETY: the decoder allocated the row.
                    let members = unsafe { read_row(rows, *members) };
                    if active == mask && lanes_where(active, |lane| members[lane] & warp.live & !active != 0) == 0 {
                        if W::ACTIVE {
                            let place = self.place(warp, pc);
                            self.watch.observer().warp_synchronises(place, active);
                        }
                        pc += 1;
                        continue;
                    }
                    let mut rest = active;
                    while rest != 0 {
                        let wanted = members[rest.trailing_zeros() as usize];
                        let lanes = lanes_where(rest, |lane| members[lane] == wanted);
                        warp.split(index, lanes, pc + 1, State::AtWarpBarrier { members: wanted });
                        rest &= !lanes;
                    }
                    warp.executed += u64::from(pc + 1 - start);
                    warp.groups[index].pc = pc + 1;
                    if warp.groups[index].mask == 0 {
                        warp.groups.swap_remove(index);
                    }
                    self.release_warp_barriers(warp);
                    return Ok(Stop::Reschedule);
                }
                Operation::Vote { members, .. }
                | Operation::Match { members, .. }
                | Operation::Shuffle { members, .. }
                | Operation::Reduce { members, .. }
                | Operation::Elect { members, .. } => {
                    let ready = self.gather(warp, index, pc, *members, active)?;
                    if ready == 0 {
                        warp.executed += u64::from(pc + 1 - start);
                        return Ok(Stop::Reschedule);
                    }
                    self.collective(warp, &instruction.operation, ready);
                    if warp.groups[index].mask != mask {
                        leave!(pc + 1);
                    }
                    pc += 1;
                }
                Operation::Matrices(access) => {
                    if !self.gather_warp(warp, index, pc, active)? {
                        warp.executed += u64::from(pc + 1 - start);
                        return Ok(Stop::Reschedule);
                    }
                    self.matrices(warp, pc, access)?;
                    pc += 1;
                }
                Operation::MatrixProduct(product) => {
                    if !self.gather_warp(warp, index, pc, active)? {
                        warp.executed += u64::from(pc + 1 - start);
                        return Ok(Stop::Reschedule);
                    }
                    self.matrix_product(warp, product);
                    pc += 1;
                }
                Operation::WarpgroupProduct(_) => {
                    warp.executed += u64::from(pc + 1 - start);
                    if !self.gather_warp(warp, index, pc, active)? {
                        return Ok(Stop::Reschedule);
                    }
                    let complete = self.arrive_at_warpgroup(warp, index, pc, coordination)?;
                    return Ok(complete.map_or(Stop::Reschedule, Stop::BarrierComplete));
                }
                Operation::WarpgroupStep(_) => {
                    if !self.gather_warp(warp, index, pc, active)? {
                        warp.executed += u64::from(pc + 1 - start);
                        return Ok(Stop::Reschedule);
                    }
                    pc += 1;
                }
                Operation::Atomic(atomic) => {
                    self.atomic(warp, pc, atomic, active)?;
                    pc += 1;
                }
                Operation::AsyncCopy(copy) => {
                    self.copy(warp, pc, copy, active, &mut coordination.copies[warp.number as usize])?;
                    pc += 1;
                }
                Operation::CommitCopies => {
                    coordination.copies[warp.number as usize].commit(active);
                    pc += 1;
                }
                Operation::WaitForCopies { open } => {
                    self.wait_for_copies(warp.number, pc, active, *open, coordination)?;
                    pc += 1;
                }
                Operation::BulkCopy(copy) => {
                    self.bulk_copy(warp, pc, copy, active, coordination)?;
                    pc += 1;
                }
                Operation::AsyncStore(store) => {
                    self.async_store(warp, pc, store, active, coordination)?;
                    pc += 1;
                }
                Operation::CommitStores => {
                    coordination.bulk.commit(warp.number, active);
                    pc += 1;
                }
                Operation::WaitForStores { open, only_read } => {
                    self.wait_for_stores(warp.number, pc, active, *open, *only_read, coordination);
                    pc += 1;
                }
                Operation::SetRegisters { count } => {
                    self.set_registers(warp, pc, *count, coordination)?;
                    pc += 1;
                }
                Operation::Mbarrier(mbarrier) => {
                    let turn = self.mbarrier(warp, pc, mbarrier, active, coordination)?;
                    if turn != Turn::GoesOn {
                        warp.executed += u64::from(pc + 1 - start);
                        warp.groups[index].pc = pc + 1;
                        return Ok(if turn == Turn::Completed { Stop::TurnOver } else { Stop::Polled });
                    }
                    pc += 1;
                }
                Operation::PendingCount { destination, source } => {
                    // SAFETY: the decoder allocated the rows, two for a state.
                    unsafe {
                        let states = read_wide_row(rows, *source);
                        write_lanes(rows, *destination, active, |lane| pending_count(states[lane]));
                    }
                    pc += 1;
                }
                Operation::CopyLocal { from, to, words } => {
                    for word in 0..*words {
                        // SAFETY: the decoder allocated both places in local memory.
                        unsafe { copy_row(warp.local, from + word, to + word, active) };
                    }
                    pc += 1;
                }
                Operation::Pack { destination, list, count, bits } => {
                    let parts = &self.launch.program.lists[list_range(*list, *count)];
                    // SAFETY: the decoder allocated all rows.
                    unsafe { pack(rows, *destination, parts, u32::from(*bits), active) };
                    pc += 1;
                }
                Operation::Unpack { source, list, count, bits } => {
                    let parts = &self.launch.program.lists[list_range(*list, *count)];
                    // SAFETY: the decoder allocated all rows.
                    unsafe { unpack(rows, *source, parts, u32::from(*bits), active) };
                    pc += 1;
                }
                Operation::ReadCounter { destination, counter } => {
                    let count = warp.executed + u64::from(pc - start);
                    // SAFETY: the decoder allocated one row or two, as the counter needs.
                    unsafe {
                        match counter {
                            Counter::Low => write_lanes(rows, *destination, active, |_| count as u32),
                            Counter::High => write_lanes(rows, *destination, active, |_| (count >> 32) as u32),
                            Counter::Wide => write_wide_lanes(rows, *destination, active, |_| count),
                        }
                    }
                    pc += 1;
                }
                Operation::IsSpace { destination, source, space } => {
                    // SAFETY: the decoder allocated rows and mask.
                    unsafe {
                        let addresses = read_wide_row(rows, *source);
                        let inside = lanes_where(ALL, |lane| AddressSpace::of(addresses[lane]) == *space);
                        write_predicate(predicates, *destination, active, inside);
                    }
                    pc += 1;
                }
                Operation::ActiveMask { destination } => {
                    // SAFETY: the decoder allocated the row.
                    unsafe { write_lanes(rows, *destination, active, |_| active) };
                    pc += 1;
                }
                Operation::Nothing | Operation::ProxyFence | Operation::MbarrierFence => pc += 1,
                Operation::Trap => return self.fault(warp, active, pc, LaunchErrorKind::Trap),
                Operation::AssertionFailed { parameters } => {
                    let message = self.assertion(warp, *parameters, active);
                    return self.fault(warp, active, pc, LaunchErrorKind::Assertion { message });
                }
            }
        }
    }

    /// Takes note of threads that exit. With the last of its block goes the block's shared memory.
    fn exit_block(&mut self, warp: &Warp, lanes: u32, coordination: &mut Coordination) {
        let running = &mut coordination.running[warp.rank as usize];
        *running -= lanes.count_ones();
        if *running > 0 {
            return;
        }
        self.exited |= 1 << warp.rank;
        if W::ACTIVE && self.blocks.len() > 1 {
            self.watch.observer().block_exits(self.block);
        }
    }

    /// Finds the addresses that addresses in shared memory have in another block of the cluster.
    fn map_address(&self, warp: &Warp, pc: u32, map: &MapAddress, active: u32) -> Result<()> {
        // SAFETY: the decoder allocated the rows, two for addresses of 64 bits.
        let (ranks, addresses) = unsafe {
            let addresses = match map.wide {
                true => read_wide_row(warp.rows, map.source),
                false => read_row(warp.rows, map.source).map(u64::from),
            };
            (read_row(warp.rows, map.rank), addresses)
        };
        let blocks = self.blocks.len() as u32;
        let strangers = lanes_where(active, |lane| ranks[lane] >= blocks);
        if strangers != 0 {
            let rank = ranks[strangers.trailing_zeros() as usize];
            return self.fault(warp, strangers, pc, LaunchErrorKind::NoSuchRank { rank, blocks });
        }
        let window = if map.generic { SHARED_WINDOW } else { 0 };
        let mapped = |lane: usize| {
            let offset = addresses[lane].wrapping_sub(window) % BLOCK_WINDOW;
            window + u64::from(ranks[lane]) * BLOCK_WINDOW + offset
        };
        // SAFETY: as above.
        unsafe {
            match map.wide {
                true => write_wide_lanes(warp.rows, map.destination, active, mapped),
                false => write_lanes(warp.rows, map.destination, active, |lane| mapped(lane) as u32),
            }
        }
        Ok(())
    }

    /// Lets groups at warp barriers go on whose members are all there.
    fn release_warp_barriers(&mut self, warp: &mut Warp) {
        while let Some((lanes, pc)) = warp.release_warp_barrier() {
            if W::ACTIVE {
                let place = self.place(warp, pc - 1);
                self.watch.observer().warp_synchronises(place, lanes);
            }
        }
    }

    /// The lanes that may execute a `.sync` instruction now; 0 if the group must wait for others.
    fn gather(&mut self, warp: &mut Warp, index: usize, pc: u32, members: u32, active: u32) -> Result<u32> {
        if members == NONE {
            return Ok(active);
        }
        // SAFETY: the decoder allocated the row.
        let members = unsafe { read_row(warp.rows, members) };
        let strangers = lanes_where(active, |lane| members[lane] >> lane & 1 == 0);
        if strangers != 0 {
            let kind = LaunchErrorKind::NotAMember { members: members[strangers.trailing_zeros() as usize] };
            return self.fault(warp, strangers, pc, kind);
        }
        let live = warp.live;
        let ready = lanes_where(active, |lane| members[lane] & live & !active == 0);
        if ready == active {
            return Ok(active);
        }
        let waiting = active & !ready;
        let state = State::Gathering { members: members[waiting.trailing_zeros() as usize] };
        if waiting == warp.groups[index].mask {
            warp.groups[index].pc = pc;
            warp.groups[index].state = state;
        } else {
            warp.split(index, waiting, pc, state);
            if ready == 0 {
                warp.groups[index].pc = pc + 1;
            }
        }
        Ok(ready)
    }

    /// Whether all lanes of the warp are here for an `.aligned` instruction; otherwise the group must wait for others.
    fn gather_warp(&mut self, warp: &mut Warp, index: usize, pc: u32, active: u32) -> Result<bool> {
        if active == ALL {
            return Ok(true);
        }
        if warp.live != ALL {
            let (exited, missing) = ((warp.existing & !warp.live).count_ones(), (!warp.existing).count_ones());
            let reasons = [(exited, "have exited"), (missing, "are missing, as the block ends within the warp")];
            let others: Vec<String> = reasons
                .into_iter()
                .filter(|(count, _)| *count > 0)
                .map(|(count, reason)| format!("{count} {reason}"))
                .collect();
            let kind = LaunchErrorKind::DivergentWarp { members: ALL, others: others.join(", ") };
            return self.fault(warp, active, pc, kind);
        }
        let state = State::Gathering { members: ALL };
        if active == warp.groups[index].mask {
            warp.groups[index].pc = pc;
            warp.groups[index].state = state;
        } else {
            warp.split(index, active, pc, state);
            warp.groups[index].pc = pc + 1;
        }
        Ok(false)
    }

    /// Arrives at a barrier of the block; gives its number if it's complete.
    fn arrive(
        &mut self,
        warp: &mut Warp,
        index: usize,
        pc: u32,
        barrier: &Barrier,
        active: u32,
        coordination: &mut Coordination,
    ) -> Result<Option<u32>> {
        let explicit = barrier.count != NONE;
        let truths = match barrier.predicate {
            Guard::NONE => 0,
            // SAFETY: the decoder allocated the mask.
            predicate => unsafe { guard_mask(warp.predicates, predicate) },
        };
        let (number, count) = match barrier.fixed {
            Some(number) if !explicit && u32::from(number) < BARRIERS => (u32::from(number), 0),
            _ => {
                // SAFETY: the decoder allocated the row.
                let numbers = unsafe { read_row(warp.rows, barrier.number) };
                // SAFETY: as above.
                let counts = if explicit { unsafe { read_row(warp.rows, barrier.count) } } else { [0; 32] };
                let first = active.trailing_zeros() as usize;
                let (number, count) = (numbers[first], counts[first]);
                let disagree = lanes_where(active, |lane| numbers[lane] != number || counts[lane] != count);
                let possible = number < BARRIERS && (!explicit || count > 0 && count.is_multiple_of(32));
                if !possible || disagree != 0 {
                    return self.fault(warp, active, pc, LaunchErrorKind::BadBarrier { barrier: number, count });
                }
                (number, count)
            }
        };
        let bad = LaunchErrorKind::BadBarrier { barrier: number, count };
        // Counted barriers count whole warps, the missing lanes of a block's last warp included.
        let arriving = if explicit && active == warp.live { 32 } else { active.count_ones() };
        let expected = if explicit { count } else { self.launch.threads };
        coordination.events += 1;
        let state = coordination.barrier(warp.rank, number);
        if state.arrived > 0 && state.expected != expected {
            return self.fault(warp, active, pc, bad);
        }
        state.expected = expected;
        state.arrived += arriving;
        state.trues += (truths & active).count_ones();
        state.falses += (!truths & active).count_ones();
        let (arrived, complete) = (state.arrived, state.arrived >= expected);
        if arrived > expected {
            return self.fault(warp, active, pc, bad);
        }
        if W::ACTIVE {
            let place = self.place(warp, pc);
            self.watch.observer().barrier_arrives(place, number, active);
        }
        if barrier.kind == BarrierKind::Arrive {
            warp.groups[index].pc = pc + 1;
        } else {
            let waiting = State::AtBarrier { number, kind: barrier.kind, destination: barrier.destination };
            if active == warp.groups[index].mask {
                warp.groups[index].pc = pc + 1;
                warp.groups[index].state = waiting;
            } else {
                warp.groups[index].pc = pc + 1;
                warp.split(index, active, pc + 1, waiting);
            }
        }
        Ok(complete.then_some(number))
    }

    /// The text of a failed `assert`.
    fn assertion(&self, warp: &Warp, parameters: u32, active: u32) -> String {
        let words = &self.launch.program.lists[list_range(parameters, 4)];
        let lane = active.trailing_zeros() as usize;
        // SAFETY: the decoder allocated the words; three parameters are pointers of two words.
        let word = |index: u32| unsafe { (*warp.local.add(index as usize)).0[lane] };
        let text = |index: u32| self.string(u64::from(word(index)) | u64::from(word(index + 1)) << 32);
        format!("`{}` in `{}` at {}:{}", text(words[0]), text(words[3]), text(words[1]), word(words[2]))
    }

    /// A NUL-terminated string in global memory, as far as it can be read.
    fn string(&self, mut address: u64) -> String {
        let mut bytes = Vec::new();
        let mut byte = [0];
        while bytes.len() < 512 && self.launch.memory.read(address, &mut byte).is_ok() && byte[0] != 0 {
            bytes.push(byte[0]);
            address += 1;
        }
        String::from_utf8_lossy(&bytes).into_owned()
    }
}

// ---- rows ---------------------------------------------------------------------------------------------------------

use crate::alu::Row;

pub(super) fn list_range(start: u32, count: u8) -> Range<usize> {
    start as usize..start as usize + usize::from(count)
}

/// The lanes of `among` for which `test` holds.
#[inline(always)]
pub(super) fn lanes_where(among: u32, test: impl Fn(usize) -> bool) -> u32 {
    let mut found = 0;
    let mut rest = among;
    while rest != 0 {
        let lane = rest.trailing_zeros();
        rest &= rest - 1;
        found |= u32::from(test(lane as usize)) << lane;
    }
    found
}

/// # Safety
/// The guard's mask must exist.
#[inline(always)]
pub(super) unsafe fn guard_mask(predicates: *const u32, guard: Guard) -> u32 {
    // SAFETY: passed on to the caller.
    unsafe { *predicates.add((guard.0 >> 1) as usize) ^ (guard.0 & 1).wrapping_neg() }
}

/// # Safety
/// The mask must exist.
#[inline(always)]
pub(super) unsafe fn write_predicate(predicates: *mut u32, index: u32, active: u32, value: u32) {
    // SAFETY: passed on to the caller.
    unsafe {
        let mask = predicates.add(index as usize);
        *mask = *mask & !active | value & active;
    }
}

/// # Safety
/// The row must exist.
#[inline(always)]
pub(super) unsafe fn read_row(rows: *const Row, row: u32) -> [u32; 32] {
    // SAFETY: passed on to the caller.
    unsafe { (*rows.add(row as usize)).0 }
}

/// # Safety
/// The row and the one after it must exist.
#[inline(always)]
pub(super) unsafe fn read_wide_row(rows: *const Row, row: u32) -> [u64; 32] {
    // SAFETY: two rows are 32 aligned doublewords.
    unsafe { *rows.add(row as usize).cast::<[u64; 32]>() }
}

/// # Safety
/// The row must exist.
#[inline(always)]
pub(super) unsafe fn write_lanes(rows: *mut Row, row: u32, active: u32, value: impl Fn(usize) -> u32) {
    let mut rest = active;
    while rest != 0 {
        let lane = rest.trailing_zeros() as usize;
        rest &= rest - 1;
        // SAFETY: passed on to the caller.
        unsafe { (*rows.add(row as usize)).0[lane] = value(lane) };
    }
}

/// # Safety
/// The row and the one after it must exist.
#[inline(always)]
pub(super) unsafe fn write_wide_lanes(rows: *mut Row, row: u32, active: u32, value: impl Fn(usize) -> u64) {
    let mut rest = active;
    while rest != 0 {
        let lane = rest.trailing_zeros() as usize;
        rest &= rest - 1;
        // SAFETY: passed on to the caller.
        unsafe { (*rows.add(row as usize).cast::<[u64; 32]>())[lane] = value(lane) };
    }
}

/// # Safety
/// Both rows must exist.
unsafe fn copy_row(rows: *mut Row, from: u32, to: u32, active: u32) {
    // SAFETY: passed on to the caller.
    unsafe {
        let source = *rows.add(from as usize);
        if active == ALL {
            *rows.add(to as usize) = source;
        } else {
            write_lanes(rows, to, active, |lane| source.0[lane]);
        }
    }
}

/// # Safety
/// All rows must exist: `parts` have one each, the destination as many as the bits need.
unsafe fn pack(rows: *mut Row, destination: u32, parts: &[u32], bits: u32, active: u32) {
    let mut wide = [0u64; 32];
    for (position, part) in parts.iter().enumerate() {
        // SAFETY: passed on to the caller.
        let source = unsafe { read_row(rows, *part) };
        for (joined, word) in wide.iter_mut().zip(source) {
            let word = u64::from(word) & ((1 << bits) - 1);
            *joined |= word << (bits * position as u32);
        }
    }
    // SAFETY: passed on to the caller.
    unsafe {
        if bits * parts.len() as u32 == 64 {
            write_wide_lanes(rows, destination, active, |lane| wide[lane]);
        } else {
            write_lanes(rows, destination, active, |lane| wide[lane] as u32);
        }
    }
}

/// # Safety
/// As [`pack`], with the source in place of the destination; parts may be [`NONE`].
unsafe fn unpack(rows: *mut Row, source: u32, parts: &[u32], bits: u32, active: u32) {
    // SAFETY: passed on to the caller.
    let wide = unsafe {
        if bits * parts.len() as u32 == 64 {
            read_wide_row(rows, source)
        } else {
            read_row(rows, source).map(u64::from)
        }
    };
    for (position, part) in parts.iter().enumerate().filter(|(_, part)| **part != NONE) {
        let shift = bits * position as u32;
        let keep = ((1u64 << bits) - 1) as u32;
        // SAFETY: passed on to the caller.
        unsafe { write_lanes(rows, *part, active, |lane| (wide[lane] >> shift) as u32 & keep) };
    }
}
