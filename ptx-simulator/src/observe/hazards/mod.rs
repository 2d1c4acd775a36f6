//! Finds what a kernel does wrong without its result showing it.
//!
//! [`Hazards`] watches one launch. A *hazard* is two accesses of different threads to the same bytes, one of them a
//! write, with nothing that orders them. What orders accesses is in `clocks`: barriers of the block, of some of its
//! threads and of a warp, and fences with strong accesses; votes, shuffles and the lock-step in which lanes of a warp
//! may happen to run order nothing. Whether the two accesses met in this run doesn't matter: where barriers alone order
//! accesses, all pairs of instructions that race in any order of the same accesses are found, whatever order the
//! simulator runs warps in.
//!
//! Fences and strong accesses are another matter, since what they order depends on who came first. Values aren't looked
//! at: a strong read that comes after a strong write of the same place counts as having seen it, whether the program
//! tests what it read or not. So the launch of a kernel that has any of them runs twice, on the same memory: blocks,
//! and warps within a block, in index order and in reverse ([`Observer::both_orders`]); the findings of both are
//! united. A flag that nobody tests, or the block of the highest index taken for the last to come, is clean in one order
//! and not in the other. What isn't found: a hazard that needs a third order, such as a mistake between lanes of one
//! warp that pass a flag on untested; and what code would do that no thread came to in either run. The second run ends
//! at the instruction limit without a finding, as waiting in reverse may be long without being endless.
//!
//! An asynchronous copy (`cp.async`) reads global and writes shared memory for its thread, but at any time between its
//! instruction and the thread's wait. Whatever touches the same bytes meanwhile is a hazard, the thread's own accesses
//! included, and no barrier helps. After the wait it's like any other access: other threads need a barrier as well. What
//! a [`CopyState`] says of the copy tells the two mistakes apart. A copy that its thread never waits for is a finding of
//! its own, whether anybody reads it or not.
//!
//! An mbarrier's arrivals and the tests that see their phase complete order accesses like a barrier of those threads.
//! Arriving and asking are strong; the initialisation is an ordinary store, which a barrier must make known. Kernels with
//! mbarriers run in both orders as well.
//!
//! Bulk copies and products of warpgroups access shared memory through the async proxy. A bulk load is under way until
//! somebody asks the mbarrier that counts its bytes, and whoever sees that phase complete knows what it wrote; its own thread
//! does only if it asks, too. A bulk store reads its source until its thread waits for that, and a product until the warps of
//! its warpgroup wait for it. What threads wrote by ordinary stores, the async proxy sees only past a fence between the
//! proxies, of the writing thread after the write or of the reading one after it knew of the write; other threads' fences in
//! between aren't looked at. Registers of products are followed as `warpgroups` says. What isn't looked at: a fence after
//! an mbarrier's initialisation (`fence.mbarrier_init`) for what happens in one block, and fences before a bulk load over what
//! threads wrote.
//!
//! An asynchronous store (`st.async`) is under way like a bulk load, and goes the way of ordinary stores: threads that have waited
//! for its mbarrier's phase need no fence to read it, and the async proxy needs one after such a wait. What isn't looked at: that a
//! fence of the storing thread, which may come before the bytes do, is none for them; and that whoever sees the phase complete
//! needn't know what the storing thread did before. Bulk loads count as telling that, too.
//!
//! The blocks of a cluster are one block to all of this: their threads race in each other's shared memory as threads of one
//! block do, and the cluster's barrier and mbarriers order them. Two mistakes are theirs alone. Whoever uses an mbarrier of
//! another block has to know that it's initialised: its initialiser must come to the cluster's barrier afterwards, past a
//! `fence.mbarrier_init` if its arrival there is `.relaxed` or if what uses the mbarrier is a bulk copy. And a block must stay
//! until it knows that the others are through with its shared memory. Such kernels run in both orders. What isn't looked
//! at: a scope of a block alone (`.cta`) for accesses that concern several.
//!
//! Two *strong* accesses are no hazard: atomics, `ld`/`st` with `.relaxed`, `.acquire` or `.release`, and volatile
//! accesses to global memory. In shared memory a volatile store counts as strong only after a fence: with one it's a
//! flag, without one it's the old way to let lanes of a warp work in lock-step, which isn't right any more. A flag in
//! shared memory that guards no data ("stop") and has no fence can't be told from that and is reported as well; set by an
//! atomic, it's none.
//!
//! An access outside its array is reported only where the address can't be of anything else: not if it may have been
//! loaded, or made from another array. It takes part in hazards where it really is.
//!
//! The kind of a hazard says what the program means and not what the simulator ran first: if the code leads from one
//! access to the other without a barrier, and not the other way round, then that is their order; in a loop without any
//! barrier both ways exist and the thread that has done fewer rounds counts as first (`table`).
//!
//! `shadow` remembers who accessed each word, and says what that costs; `findings` keeps each finding once.

mod clocks;
mod findings;
mod quick;
mod shadow;
mod table;
mod warpgroups;

use std::cmp::Ordering;
use std::collections::HashMap;

use super::{
    Access, AsyncCopy, BulkCopy, BulkDirection, CLUSTER_BLOCK_BYTES, GlobalRange, MbarrierEvent, Observer, Place,
    SourceSize, WarpgroupProduct,
};
use crate::decode::Module;
use crate::decode::program::Scope;
use crate::error::{AccessKind, LaunchError, LaunchErrorKind, MemorySpace, SourceLocation};
use crate::memory::CONSTANT_WINDOW;
use crate::simulator::{DevicePointer, LaunchConfig};
use clocks::{CLUSTER_BARRIER, Clocks, Published, Stamp};
use findings::Findings;
use shadow::{Cursor, Keep, Key, Proxy, Racing, Shadow, Unwritten};
pub use table::Agent;
use table::{Between, Info, NOWHERE, Step, Table};
use warpgroups::{Mistake, Product, Warpgroups};

/// What is wrong.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum FindingKind {
    /// A thread reads what another wrote, and nothing makes the read come after the write.
    ReadAfterWrite,
    /// A thread overwrites what another reads, and nothing makes the write come after the read.
    WriteAfterRead,
    /// Two threads write the same place, and nothing says whose value stays.
    WriteAfterWrite,
    /// A read of memory that nobody has written.
    Uninitialised,
    /// An access past the end of an array in shared memory, in another array or in the padding between two.
    OutsideArray,
    /// An asynchronous copy under way when its thread exits, or an asynchronous store when its cluster ends: nobody has waited
    /// for it.
    CopyNeverAwaited,
    /// A bulk copy or a product of a warpgroup reads what a thread wrote, and no fence between the proxies
    /// (`fence.proxy.async`) makes it see that.
    MissingProxyFence,
    /// A thread, or a bulk copy of it, uses an mbarrier of another block of the cluster, and nothing tells it that the mbarrier is
    /// initialised: a `fence.mbarrier_init` and a barrier of the cluster are missing behind the initialisation.
    MbarrierNotShown,
    /// A thread accesses the shared memory of another block of the cluster, and nothing keeps that block from exiting before.
    BlockExitsEarly,
    /// A product of a warpgroup uses registers that were written otherwise, without a `wgmma.fence` in between.
    MissingWarpgroupFence,
    /// A register is used that a product of a warpgroup may still write: its group isn't waited for.
    ProductNotAwaited,
    /// Threads of a block arrive at different barrier instructions for the same barrier.
    DifferentBarriers,
    /// Anything for which a launch without an observer stops: accesses outside every allocation, misaligned ones,
    /// barriers that some threads never reach, traps, endless loops.
    Fault(LaunchErrorKind),
}

/// One thread's access or arrival.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Incident {
    /// Position of the block in the grid.
    pub block: [u32; 3],
    /// Position of the thread in the block.
    pub thread: [u32; 3],
    /// The source line, where the PTX has line directives.
    pub source: Option<SourceLocation>,
    /// The line in the PTX text.
    pub ptx_line: u32,
    /// Who accesses memory for the thread.
    pub agent: Agent,
    /// How far it is, if it's asynchronous: a copy, or a product of a warpgroup.
    pub copy: Option<CopyState>,
}

impl Incident {
    /// Whether it's something asynchronous that its thread hasn't waited for.
    fn is_under_way(&self) -> bool {
        matches!(self.copy, Some(CopyState::UnderWay { .. }))
    }
}

/// How far an asynchronous copy or store, or a product of a warpgroup, is when something else touches its bytes. A bulk load
/// or a store is under way until somebody asks the mbarrier that counts its bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[cfg_attr(feature = "serde", serde(tag = "state", rename_all = "kebab-case"))]
pub enum CopyState {
    /// It begins, and what it races with came before in this run; or that comes first in the program.
    Begins,
    /// It's under way: its thread hasn't waited for it.
    UnderWay {
        /// A wait of its thread that left it open, for instance one that lets too many groups go on.
        left_open_at: Option<SourceLocation>,
    },
    /// Its thread has waited for it, but nothing orders others after that wait.
    Awaited {
        /// Where the thread waited.
        at: Option<SourceLocation>,
    },
}

/// The memory that an access was to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Touched {
    /// Shared or global.
    pub space: MemorySpace,
    /// The address within its space.
    pub address: u64,
    /// Bytes of the access.
    pub bytes: u32,
    /// What the first thread's instruction does to it.
    pub access: AccessKind,
    /// The shared array or module variable that the kernel's address was made from, by its name in the PTX.
    pub array: Option<String>,
    /// First address of that array, or of the allocation that the address is in.
    pub start: Option<u64>,
    /// Length of the array or allocation in bytes.
    pub length: Option<u64>,
    /// Where the kernel takes the array's address, that is, the source line that declares it.
    pub declared: Option<SourceLocation>,
    /// The first thread's instruction uses it as an mbarrier.
    pub mbarrier: bool,
    /// Position of the block whose shared memory it is, in clusters of several.
    pub owner: Option<[u32; 3]>,
}

/// A mistake, with the first of its occurrences.
#[derive(Clone, Debug, PartialEq)]
pub struct Finding {
    /// What is wrong.
    pub kind: FindingKind,
    /// The access that comes first in the program, for hazards; the only one otherwise.
    pub first: Incident,
    /// The other access of a hazard, or the other barrier.
    pub second: Option<Incident>,
    /// The memory, if it's about memory.
    pub touched: Option<Touched>,
    /// How often the same kind was found at the same pair of lines: bytes accessed wrongly for memory (words of four
    /// bytes), threads for barriers.
    pub count: u64,
}

/// Watches a launch for mistakes.
///
/// Make one for each launch, say which memory nobody has written yet, launch with
/// [`crate::Simulator::launch_observed`], and ask for the findings. If the kernel has fences, the launch runs in two
/// orders; a finding of both counts as often as in the run that had more of it. Memory is left as the first run left it. Faults are findings too: the launch goes on after
/// them and gives `Ok`, but for what keeps it from beginning.
#[derive(Debug)]
pub struct Hazards {
    launch: Launch,
    global: Shadow,
    published: Published,
    /// The block at hand, and others that wait for their turn.
    block: Block,
    waiting: HashMap<u64, Block>,
    idle: Vec<Block>,
    /// Of the run at hand, and of those before.
    findings: Findings,
    united: Findings,
    /// Memory that nobody had written before the launch: address and length.
    unwritten: Vec<(u64, u64)>,
    /// A fault has ended the launch.
    ended: bool,
    runs: u32,
}

/// What is known of the launch: enough to tell people about its threads and its memory.
#[derive(Debug)]
struct Launch {
    table: Table,
    memory: Vec<GlobalRange>,
    grid: [u32; 3],
    shape: [u32; 3],
    /// Blocks of a cluster along x, y and z, and all of them.
    cluster: [u32; 3],
    blocks: u32,
    /// Numbers for the warps of a block, in clusters whole warpgroups.
    warps: u32,
    /// From the shared memory of a block to that of the next one of the cluster, as it's kept here.
    stride: u64,
}

/// What is known of a block while it runs, or of the blocks of a cluster. Threads and warps are numbered through, and shared
/// memory's addresses as well.
#[derive(Debug)]
struct Block {
    /// It has begun and not ended.
    running: bool,
    clocks: Clocks,
    shared: Shadow,
    warpgroups: Warpgroups,
    /// The mbarriers of clusters of several blocks, by address.
    initialised: HashMap<u64, Initialised>,
    /// The last access of each thread to the shared memory of each other block: instruction, address, bytes.
    reached: HashMap<(u32, u32), (Stamp, u32, u64, u32)>,
}

/// How far an mbarrier is known to the blocks of its cluster.
#[derive(Clone, Copy, Debug)]
struct Initialised {
    thread: u32,
    stamp: Stamp,
    instruction: u32,
    /// Its thread has executed a fence after that.
    fenced: bool,
    /// Its thread has come to the cluster's barrier with it.
    arrived: bool,
    /// That barrier is complete.
    shown: bool,
}

impl Hazards {
    /// Ready to watch a launch of `kernel` with that shape.
    pub fn new(module: &Module, kernel: &str, config: &LaunchConfig) -> Hazards {
        let table = Table::new(module, kernel, config.dynamic_shared_bytes);
        let threads = config.block.iter().fold(1u32, |product, extent| product.saturating_mul(*extent)).clamp(1, 1024);
        let info = module.kernel(kernel);
        let cluster = info.and_then(|info| info.cluster).unwrap_or([1; 3]);
        let blocks: u32 = cluster.iter().product();
        let shared_bytes = info.map_or(0, |info| info.static_shared_bytes) + config.dynamic_shared_bytes;
        let page = 4 * shadow::PAGE_WORDS as u64;
        let launch = Launch {
            table,
            memory: Vec::new(),
            grid: config.grid,
            shape: config.block.map(|extent| extent.max(1)),
            cluster,
            blocks,
            warps: threads.div_ceil(32).next_multiple_of(crate::decode::program::WarpgroupProduct::WARPS),
            stride: u64::from(shared_bytes).max(1).next_multiple_of(page),
        };
        Hazards {
            global: Shadow::new(false, launch.table.instructions.len()),
            published: Published::default(),
            block: Block::new(&launch, threads),
            waiting: HashMap::new(),
            idle: Vec::new(),
            findings: Findings::default(),
            united: Findings::default(),
            unwritten: Vec::new(),
            ended: false,
            runs: 0,
            launch,
        }
    }

    /// Says that nobody has written these bytes of global memory yet. All memory that isn't named here counts as
    /// written.
    pub fn unwritten(&mut self, pointer: DevicePointer, bytes: u64) {
        self.unwritten.push((pointer.0, bytes));
    }

    /// What was found, in the order in which it was found first; at most a thousand different findings.
    pub fn findings(mut self) -> Vec<Finding> {
        self.end_run();
        let mut findings = self.united.into_list();
        // Copies of a thread into a place where one of its copies is still under way: where somebody reads what is under
        // way, the wait that is missing there is the mistake.
        let read: Vec<Incident> = findings
            .iter()
            .filter(|finding| finding.kind == FindingKind::ReadAfterWrite && finding.first.is_under_way())
            .map(|finding| finding.first.clone())
            .collect();
        findings.retain(|Finding { kind, first, second, .. }| {
            let own = second.as_ref().is_some_and(|second| {
                second.copy.is_some() && (second.block, second.thread) == (first.block, first.thread)
            });
            let known = || read.iter().any(|read| (&read.source, read.ptx_line) == (&first.source, first.ptx_line));
            !(*kind == FindingKind::WriteAfterWrite && own && first.is_under_way() && known())
        });
        findings
    }

    /// Adds what this run has found to what others have.
    fn end_run(&mut self) {
        for read in self.global.take_reads() {
            self.unwritten_read(read, MemorySpace::Global);
        }
        self.united.unite(std::mem::take(&mut self.findings));
    }

    /// Makes the block, or the cluster, of a place the one at hand; gives the place in it.
    #[inline(always)]
    fn enter(&mut self, place: Place) -> Place {
        let place = self.launch.in_cluster(place);
        if self.block.clocks.block != place.block
            && let Some(block) = self.waiting.remove(&place.block)
        {
            self.switch(block);
        }
        place
    }

    /// As [`enter`](Hazards::enter), for what concerns all of a block; gives its rank in the cluster.
    fn enter_block(&mut self, block: u64) -> u32 {
        self.enter(Place { block, warp: 0, instruction: 0 }).warp / self.launch.warps
    }

    /// Puts another block at hand, and the last one aside.
    fn switch(&mut self, block: Block) {
        let last = std::mem::replace(&mut self.block, block);
        if last.running {
            self.waiting.insert(last.clocks.block, last);
        } else {
            self.idle.push(last);
        }
    }

    /// Reports what the block at hand read unwritten, now that nothing can race with it any more.
    fn settle(&mut self) {
        for read in self.block.shared.take_reads() {
            self.unwritten_read(read, MemorySpace::Shared);
        }
    }

    fn unwritten_read(&mut self, read: Unwritten, space: MemorySpace) {
        let lines = (self.launch.table.instructions[read.instruction as usize].line, NOWHERE);
        let address = read.address + u64::from(read.bytes.trailing_zeros());
        self.findings.add(FindingKind::Uninitialised, lines, read.count, true, |kind| Finding {
            kind,
            first: self.launch.incident(read.stamp.actor, read.instruction),
            second: None,
            touched: Some(self.launch.touched(
                space,
                address,
                read.bytes.count_ones(),
                read.instruction,
                read.stamp.actor,
            )),
            count: 0,
        });
    }

    /// Takes note of an access of one lane, which is a whole number of words or a part of one.
    #[inline(always)]
    fn lane_access(&mut self, lane: Lane, cursor: &mut Cursor, address: u64, bytes: u32, key: Key, keep: Keep) {
        let Hazards { launch, block, global, findings, .. } = self;
        let Lane { thread, stamp, .. } = lane;
        if lane.shared && launch.blocks > 1 {
            let (owner, own) = ((address / launch.stride) as u32, thread / (32 * launch.warps));
            if owner != own && !stamp.is_in_flight() {
                block.reached.insert((owner, thread), (stamp, key.instruction, address, bytes));
            }
        }
        let Block { clocks, shared, .. } = block;
        let (shadow, space) = if lane.shared { (shared, MemorySpace::Shared) } else { (global, MemorySpace::Global) };
        let mut word = address / 4;
        let mut rest = bytes;
        loop {
            let mask = if bytes >= 4 { 0xf } else { (((1u32 << bytes) - 1) << (address % 4)) as u8 };
            let access = shadow::Access { thread, stamp, word, key: Key { bytes: mask, ..key }, outside: lane.outside };
            shadow.access(clocks, cursor, &access, keep, &mut |racing| {
                if lane.known != Some(racing.stamp) {
                    add_race(launch, clocks, findings, racing, &access, space);
                }
            });
            if rest <= 4 {
                return;
            }
            rest -= 4;
            word += 1;
        }
    }

    /// Takes note of what an instruction of a warp means for the products of its warpgroup.
    fn note_registers(&mut self, place: Place, step: Step) {
        let place = self.enter(place);
        let Hazards { launch, block: Block { clocks, shared, warpgroups, .. }, findings, .. } = self;
        let (table, first_thread) = (&launch.table, place.warp * 32);
        let actor = clocks.first_actor.wrapping_add(first_thread);
        let incident = |instruction: u32| launch.incident(actor, instruction);
        let line = |instruction: u32| table.instructions[instruction as usize].line;
        let mut mistake = |mistake: Mistake| {
            let (kind, first, second) = match mistake {
                Mistake::NotAwaited { product, user } => (FindingKind::ProductNotAwaited, product, Some(user)),
                Mistake::NotFenced { product, writer: Some(writer) } => {
                    (FindingKind::MissingWarpgroupFence, writer, Some(product))
                }
                Mistake::NotFenced { product, writer: None } => (FindingKind::MissingWarpgroupFence, product, None),
            };
            let lines = (line(first), second.map_or(NOWHERE, line));
            findings.add(kind, lines, 1, true, |kind| Finding {
                kind,
                first: incident(first),
                second: second.map(incident),
                touched: None,
                count: 0,
            });
        };
        match step {
            Step::Product => warpgroups.begins(place.warp, place.instruction, table, &mut mistake),
            Step::Warpgroup(step) => {
                if place.warp.is_multiple_of(crate::decode::program::WarpgroupProduct::WARPS)
                    && matches!(step, crate::decode::program::WarpgroupStep::Wait(_))
                {
                    clocks.wait_for_copies(first_thread, place.instruction);
                }
                warpgroups.step(place.warp, step, table, |product| {
                    end_product(clocks, shared, product);
                    clocks.learn_position(first_thread..first_thread + 32, product.warp * 32, product.positions[1]);
                });
            }
            _ => warpgroups.uses(place.warp, place.instruction, table, &mut mistake),
        }
    }

    /// Takes note that a bulk copy is done on one side.
    fn land_bulk(&mut self, place: Place, copy: BulkCopy<'_>, space: MemorySpace) {
        let Hazards { launch, block: Block { clocks, shared, .. }, global, .. } = self;
        let actor = clocks.first_actor.wrapping_add(place.warp * 32 + copy.lane);
        let key = bulk_key(place.instruction, copy.direction, space);
        if space == MemorySpace::Global && copy.again {
            return;
        }
        let shadow = if space == MemorySpace::Shared { shared } else { global };
        let mut cursor = Cursor::NONE;
        for piece in copy.pieces {
            let address = if space == MemorySpace::Shared { Some(launch.kept(piece.shared)) } else { piece.global };
            let Some(address) = address.filter(|address| *address < CONSTANT_WINDOW) else { continue };
            for (word, bytes) in words_of(address, piece.bytes) {
                shadow.land(clocks, &mut cursor, actor, word, Key { bytes, ..key });
            }
        }
    }

    /// The way in which the accesses of a kernel are kept.
    fn keep(&self) -> Keep {
        match (self.launch.table.fences, self.launch.table.partial) {
            (true, _) => Keep::All,
            (false, true) => Keep::OfBlock,
            (false, false) => Keep::Two,
        }
    }

    /// First address and length of the array that an instruction's address was made from.
    fn bounds(&self, instruction: u32) -> Option<(u64, u64)> {
        let array = self.launch.table.instructions[instruction as usize].array;
        let array = self.launch.table.arrays.get(array as usize)?;
        Some((u64::from(array.offset), u64::from(array.bytes)))
    }

    /// An access in shared memory whose address was made from one array and isn't inside it.
    #[cold]
    fn outside(&mut self, lane: Lane, instruction: u32, address: u64, bytes: u32) {
        let lines = (self.launch.table.instructions[instruction as usize].line, NOWHERE);
        self.findings.add(FindingKind::OutsideArray, lines, u64::from(bytes.div_ceil(4)), true, |kind| Finding {
            kind,
            first: self.launch.incident(lane.stamp.actor, instruction),
            second: None,
            touched: Some(self.launch.touched(MemorySpace::Shared, address, bytes, instruction, lane.stamp.actor)),
            count: 0,
        });
    }

    /// What a thread of another block, or a copy of it, must know of an mbarrier that it uses. Gives the access that
    /// initialised it, if the ordinary rules needn't look at that any more.
    fn look_at_mbarrier(&mut self, place: Place, thread: u32, stamp: Stamp, address: u64) -> Option<Stamp> {
        let known = *self.block.initialised.get(&address)?;
        let of_block = 32 * self.launch.warps;
        let copies = self.launch.table.instructions[place.instruction as usize].agent == Agent::BulkLoad;
        let foreign = known.thread / of_block != thread / of_block;
        let ordered = known.shown || self.block.clocks.is_before(known.stamp, thread);
        if foreign && (!ordered || copies && !known.fenced) {
            let Hazards { launch, findings, .. } = self;
            let lines = [known.instruction, place.instruction].map(|at| launch.table.instructions[at as usize].line);
            findings.add(FindingKind::MbarrierNotShown, (lines[0], lines[1]), 1, true, |kind| Finding {
                kind,
                first: launch.incident(known.stamp.actor, known.instruction),
                second: Some(launch.incident(stamp.actor, place.instruction)),
                touched: Some(launch.touched(MemorySpace::Shared, address, 8, known.instruction, known.stamp.actor)),
                count: 0,
            });
        }
        (foreign || known.shown).then_some(known.stamp)
    }

    /// Takes note that a thread's mbarriers are fenced.
    fn fence_mbarriers(&mut self, first_thread: u32, lanes: u32) {
        for known in self.block.initialised.values_mut() {
            let lane = known.thread.wrapping_sub(first_thread);
            known.fenced |= lane < 32 && lanes >> lane & 1 != 0;
        }
    }

    /// An access to the shared memory of a block that has exited, or may have.
    fn early_exit(&mut self, stamp: Stamp, instruction: u32, address: u64, bytes: u32) {
        let lines = (self.launch.table.instructions[instruction as usize].line, NOWHERE);
        self.findings.add(FindingKind::BlockExitsEarly, lines, u64::from(bytes.div_ceil(4)), true, |kind| Finding {
            kind,
            first: self.launch.incident(stamp.actor, instruction),
            second: None,
            touched: Some(self.launch.touched(MemorySpace::Shared, address, bytes, instruction, stamp.actor)),
            count: 0,
        });
    }

    /// Threads wait at barriers that others don't come to: one finding for each line where some wait.
    fn divergent(&mut self, error: &LaunchError) -> bool {
        let mut places: Vec<(u32, u32, u32)> = Vec::new();
        for (instruction, thread, count) in self.block.clocks.arrivals.iter().flat_map(|arrivals| &arrivals.places) {
            let line = |instruction: u32| self.launch.table.instructions[instruction as usize].line;
            match places.iter_mut().find(|(known, _, _)| line(*known) == line(*instruction)) {
                Some((_, _, known)) => *known += count,
                None => places.push((*instruction, *thread, *count)),
            }
        }
        let first_actor = self.block.clocks.first_actor;
        let incident =
            |(instruction, thread, _): (u32, u32, u32)| self.launch.incident(first_actor + thread, instruction);
        for place in &places {
            let other = places.iter().find(|other| *other != place).copied();
            let lines = (self.launch.table.instructions[place.0 as usize].line, NOWHERE);
            let kind = FindingKind::Fault(error.kind.clone());
            self.findings.add(kind, lines, u64::from(place.2), true, |kind| Finding {
                kind,
                first: incident(*place),
                second: other.map(incident),
                touched: None,
                count: 0,
            });
        }
        !places.is_empty()
    }
}

impl Block {
    fn new(launch: &Launch, threads: u32) -> Block {
        let Launch { table, blocks, .. } = launch;
        Block {
            running: false,
            clocks: Clocks::new(launch.numbered(threads), *blocks, table.partial, table.fences),
            shared: Shadow::new(true, table.instructions.len()),
            warpgroups: Warpgroups::default(),
            initialised: HashMap::new(),
            reached: HashMap::new(),
        }
    }
}

/// A lane that accesses memory.
#[derive(Clone, Copy)]
struct Lane {
    thread: u32,
    stamp: Stamp,
    shared: bool,
    /// Outside the array that its address was made from.
    outside: bool,
    /// An earlier access that it's known not to race with.
    known: Option<Stamp>,
}

/// The place of an index, counted along x, then y, then z.
fn position(index: u32, [width, height, _]: [u32; 3]) -> [u32; 3] {
    [index % width, index / width % height, (u64::from(index) / (u64::from(width) * u64::from(height))) as u32]
}

impl Launch {
    /// A place as it's kept here: the cluster's index in the place of the block's, and the number of the warp in the cluster.
    #[inline(always)]
    fn in_cluster(&self, place: Place) -> Place {
        if self.blocks == 1 { place } else { self.number(place) }
    }

    #[inline(never)]
    fn number(&self, place: Place) -> Place {
        let [width, height, _] = self.grid.map(u64::from);
        let at = [place.block % width, place.block / width % height, place.block / width / height];
        let cluster: [u64; 3] = std::array::from_fn(|axis| at[axis] / u64::from(self.cluster[axis]));
        let inside: [u32; 3] = std::array::from_fn(|axis| (at[axis] % u64::from(self.cluster[axis])) as u32);
        let clusters: [u64; 3] = std::array::from_fn(|axis| u64::from(self.grid[axis] / self.cluster[axis]));
        let rank = (inside[2] * self.cluster[1] + inside[1]) * self.cluster[0] + inside[0];
        let block = (cluster[2] * clusters[1] + cluster[1]) * clusters[0] + cluster[0];
        Place { block, warp: rank * self.warps + place.warp, ..place }
    }

    /// Numbers for the threads of a cluster whose blocks have so many.
    fn numbered(&self, threads: u32) -> u32 {
        if self.blocks == 1 { threads } else { self.blocks * self.warps * 32 }
    }

    /// Where an address in shared memory is kept here.
    #[inline(always)]
    fn kept(&self, address: u64) -> u64 {
        let (rank, offset) = (address / CLUSTER_BLOCK_BYTES, address % CLUSTER_BLOCK_BYTES);
        if rank < u64::from(self.blocks) { rank * self.stride + offset } else { address }
    }

    /// Positions of the block with that rank in the cluster of an actor, and of that actor's own rank and thread.
    fn block_of(&self, actor: u32, rank: Option<u32>) -> ([u32; 3], u32) {
        let threads: u32 = self.shape.iter().product();
        let numbered = self.numbered(threads);
        let (cluster, thread) = (actor.wrapping_sub(1) / numbered, actor.wrapping_sub(1) % numbered);
        if self.blocks == 1 {
            return (position(cluster, self.grid), thread);
        }
        let clusters = std::array::from_fn(|axis| self.grid[axis] / self.cluster[axis]);
        let (own, thread) = (thread / (32 * self.warps), thread % (32 * self.warps));
        let (at, inside) = (position(cluster, clusters), position(rank.unwrap_or(own), self.cluster));
        (std::array::from_fn(|axis| at[axis] * self.cluster[axis] + inside[axis]), thread)
    }

    /// What the thread of that actor did at `instruction`.
    fn incident(&self, actor: u32, instruction: u32) -> Incident {
        let (block, thread) = self.block_of(actor, None);
        let info = &self.table.instructions[instruction as usize];
        Incident {
            block,
            thread: position(thread, self.shape),
            source: info.source.clone(),
            ptx_line: info.ptx_line,
            agent: info.agent,
            copy: None,
        }
    }

    /// How far something asynchronous is; nothing of other accesses.
    fn copy_state(&self, clocks: &Clocks, access: Racing) -> Option<CopyState> {
        if self.table.instructions[access.key.instruction as usize].agent == Agent::Thread {
            return None;
        }
        let wait = clocks.last_wait(access.stamp);
        let at = wait.and_then(|wait| self.table.instructions[wait as usize].source.clone());
        Some(match access.stamp.is_in_flight() {
            true => CopyState::UnderWay { left_open_at: at },
            false => CopyState::Awaited { at },
        })
    }

    /// The memory that `instruction` accessed, at an address as it's kept here, for an actor.
    fn touched(&self, space: MemorySpace, address: u64, bytes: u32, instruction: u32, actor: u32) -> Touched {
        let (mut address, mut owner) = (address, None);
        if space == MemorySpace::Shared && self.blocks > 1 && address < self.stride * u64::from(self.blocks) {
            owner = Some(self.block_of(actor, Some((address / self.stride) as u32)).0);
            address %= self.stride;
        }
        let access = self.table.instructions[instruction as usize].access;
        let mbarrier = self.table.instructions[instruction as usize].mbarrier;
        let (array, start, length, declared) = Default::default();
        let mut touched = Touched { space, address, bytes, access, array, start, length, declared, mbarrier, owner };
        if space == MemorySpace::Shared {
            let made_from = self.table.instructions[instruction as usize].array as usize;
            let inside = |array: &crate::SharedArray| address.wrapping_sub(array.offset.into()) < array.bytes.into();
            let index = match self.table.arrays.get(made_from) {
                Some(_) => Some(made_from),
                None => self.table.arrays.iter().position(inside),
            };
            let dynamic = || self.table.dynamic.as_ref().filter(|array| inside(array));
            if let Some(array) = index.map(|index| &self.table.arrays[index]).or_else(dynamic) {
                touched.array = Some(array.name.clone());
                touched.start = Some(array.offset.into());
                touched.length = Some(array.bytes.into());
            }
            touched.declared = index.and_then(|index| self.table.declared.get(index).cloned().flatten());
        } else if space == MemorySpace::Global {
            let after = self.memory.partition_point(|range| range.start <= address);
            let range = after.checked_sub(1).map(|index| &self.memory[index]);
            if let Some(range) = range.filter(|range| address - range.start < range.bytes) {
                touched.array = range.name.clone();
                touched.start = Some(range.start);
                touched.length = Some(range.bytes);
            }
        }
        touched
    }
}

/// Adds a race between an earlier access and one now, in the order that the program means.
#[cold]
fn add_race(
    launch: &mut Launch,
    clocks: &Clocks,
    findings: &mut Findings,
    earlier: Racing,
    access: &shadow::Access,
    space: MemorySpace,
) {
    let shadow::Access { key, stamp, word, .. } = *access;
    let between = match (clocks.thread_of(earlier.stamp), clocks.thread_of(stamp)) {
        (Some(one), Some(other)) if one / 32 == other / 32 => Between::Lanes,
        (Some(_), _) => Between::Threads,
        (None, _) => Between::Blocks,
    };
    let mut done = earlier.stamp.round().cmp(&stamp.round());
    let loads = |key: Key| launch.table.instructions[key.instruction as usize].agent == Agent::BulkLoad;
    if done.is_eq() && loads(earlier.key) != loads(key) {
        // Who loads in bulk does so for others, which is in other branches of the code. For readers of another block it
        // comes second: where these wait for what they read, it's the loading block that has to know when they have done so.
        let rank = |stamp| clocks.thread_of(stamp).map(|thread| thread / (32 * launch.warps));
        let foreign = launch.blocks > 1 && rank(earlier.stamp) != rank(stamp);
        done = if loads(earlier.key) != foreign { Ordering::Less } else { Ordering::Greater };
    }
    // A copy that began before for sure, only isn't done. A product that is done for those who waited began just before.
    let product = launch.table.instructions[earlier.key.instruction as usize].agent == Agent::WarpgroupProduct;
    let begun = earlier.stamp.begun();
    let begun = if product && begun == earlier.stamp {
        Stamp { position: begun.position.saturating_sub(1), ..begun }
    } else {
        begun
    };
    let began = (product || earlier.stamp.is_in_flight())
        && (earlier.stamp.actor == stamp.actor || clocks.is_before(begun, access.thread));
    let in_order = began || launch.table.comes_first(earlier.key.instruction, key.instruction, between, done);
    let now = Racing { key, stamp };
    let (first, second) = if in_order { (earlier, now) } else { (now, earlier) };
    let state = |racing: Racing, comes_first: bool| match launch.copy_state(clocks, racing) {
        // What comes second, or happens now, begins.
        Some(_) if !comes_first || !in_order => Some(CopyState::Begins),
        state => state,
    };
    let states = [state(first, true), state(second, false)];
    let kind = match (first.key.writes, second.key.writes) {
        (true, true) => FindingKind::WriteAfterWrite,
        (true, false) => FindingKind::ReadAfterWrite,
        _ => FindingKind::WriteAfterRead,
    };
    let line = |racing: Racing| launch.table.instructions[racing.key.instruction as usize].line;
    // Two warps show a race better than two lanes of one, of which readers may think that they run in step.
    let threads = launch.numbered(launch.shape.iter().product::<u32>().max(1));
    // Actors are numbered from 1.
    let thread = |racing: Racing| racing.stamp.actor.wrapping_sub(1);
    let warp = |racing: Racing| (thread(racing) / threads, thread(racing) % threads / 32);
    // Of a copy it should be known whether it was waited for.
    let unclear = kind == FindingKind::ReadAfterWrite && states[0] == Some(CopyState::Begins);
    let telling = (warp(first) != warp(second) || states[0].is_some()) && !unclear;
    let [first_state, second_state] = states;
    findings.add(kind, (line(first), line(second)), 1, telling, |kind| {
        let bytes = first.key.bytes & second.key.bytes;
        let address = word * 4 + u64::from(bytes.trailing_zeros());
        Finding {
            kind,
            first: Incident { copy: first_state, ..launch.incident(first.stamp.actor, first.key.instruction) },
            second: Some(Incident {
                copy: second_state,
                ..launch.incident(second.stamp.actor, second.key.instruction)
            }),
            touched: Some(launch.touched(space, address, bytes.count_ones(), first.key.instruction, first.stamp.actor)),
            count: 0,
        }
    });
}

/// Takes note that a product has read shared memory, if it's the first who waited for it.
fn end_product(clocks: &Clocks, shared: &mut Shadow, product: &Product) {
    if !product.is_under_way() {
        return;
    }
    let Product { instruction, positions: [begun, done], .. } = *product;
    let actor = clocks.first_actor.wrapping_add(product.warp * 32);
    let key = Key { instruction, bytes: 0xf, strength: 0, reads: true, writes: false, proxy: Proxy::Async };
    let mut cursor = Cursor::NONE;
    for word in product.chunks.iter().flat_map(|chunk| chunk / 4..chunk / 4 + 4) {
        shared.land_as(&mut cursor, actor, word, key, |stamp| match stamp.begun().position == begun {
            true => Stamp { position: done, ..stamp },
            // A later one that isn't done.
            false => stamp,
        });
    }
}

/// How the reads and the writes of copies are kept.
fn copy_keys(instruction: u32) -> [Key; 2] {
    let key = Key { instruction, bytes: 0, strength: 0, reads: true, writes: false, proxy: Proxy::Generic };
    [key, Key { reads: false, writes: true, ..key }]
}

/// Asynchronous stores as copies that read nothing: these write by the same way, and later, too.
fn as_copies<'a>(stores: &Access<'a>) -> AsyncCopy<'a> {
    let Access { lanes, addresses, bytes, .. } = *stores;
    AsyncCopy {
        lanes,
        sources: addresses,
        source_bytes: &[0; 32],
        readable: 0,
        destinations: addresses,
        bytes,
        bypasses_l1: false,
        size: SourceSize::Whole,
    }
}

/// How the accesses of a bulk copy on one side are kept.
fn bulk_key(instruction: u32, direction: BulkDirection, space: MemorySpace) -> Key {
    let writes = (direction == BulkDirection::Load) == (space == MemorySpace::Shared);
    Key { instruction, bytes: 0, strength: 0, reads: !writes, writes, proxy: Proxy::Async }
}

/// The words that some bytes are in, and which of each word's bytes they are.
fn words_of(address: u64, bytes: u32) -> impl Iterator<Item = (u64, u8)> {
    let end = address + u64::from(bytes);
    (address / 4..end.div_ceil(4)).map(move |word| {
        let (from, to) = (address.max(word * 4) - word * 4, end.min(word * 4 + 4) - word * 4);
        (word, ((1u32 << to) - (1 << from)) as u8)
    })
}

/// Adds what an access of the async proxy reads that a thread wrote without a fence after it.
#[cold]
fn add_unfenced(launch: &Launch, findings: &mut Findings, writer: Racing, access: &shadow::Access) {
    let lines = [writer.key, access.key].map(|key| launch.table.instructions[key.instruction as usize].line);
    findings.add(FindingKind::MissingProxyFence, (lines[0], lines[1]), 1, true, |kind| {
        let bytes = writer.key.bytes & access.key.bytes;
        let address = access.word * 4 + u64::from(bytes.trailing_zeros());
        Finding {
            kind,
            first: launch.incident(writer.stamp.actor, writer.key.instruction),
            second: Some(launch.incident(access.stamp.actor, access.key.instruction)),
            touched: Some(launch.touched(
                MemorySpace::Shared,
                address,
                bytes.count_ones(),
                writer.key.instruction,
                writer.stamp.actor,
            )),
            count: 0,
        }
    });
}

/// Whether an access isn't inside an array.
fn is_outside(address: u64, bytes: u64, start: u64, length: u64) -> bool {
    let offset = address.wrapping_sub(start);
    offset >= length || length - offset < bytes
}

/// The lanes of a mask, lowest first.
fn lanes_of(mask: u32) -> impl Iterator<Item = u32> {
    (0..32).filter(move |lane| mask >> lane & 1 != 0)
}

impl Observer for Hazards {
    fn launch_begins(&mut self, memory: &[GlobalRange]) {
        self.end_run();
        self.runs += 1;
        self.launch.memory = memory.to_vec();
        self.published = Published::default();
        self.block.running = false;
        self.waiting.clear();
        self.global = Shadow::new(false, self.launch.table.instructions.len());
        for (start, bytes) in &self.unwritten {
            self.global.mark_unwritten(*start, *bytes);
        }
    }

    fn both_orders(&self) -> bool {
        (self.launch.table.fences || self.launch.table.mbarriers || self.launch.blocks > 1) && !self.ended
    }

    fn block_begins(&mut self, block: u64, threads: u32) {
        let cluster = self.launch.in_cluster(Place { block, warp: 0, instruction: 0 }).block;
        if self.block.running {
            if self.block.clocks.block == cluster {
                // It's not the first of its cluster.
                return;
            }
            let next = self.idle.pop().unwrap_or_else(|| Block::new(&self.launch, threads));
            self.switch(next);
        }
        self.block.running = true;
        self.block.clocks.restart(cluster);
        self.block.shared.restart();
        self.block.warpgroups.restart();
        self.block.initialised.clear();
        self.block.reached.clear();
    }

    fn block_exits(&mut self, block: u64) {
        let rank = self.enter_block(block);
        let of_block = 32 * self.launch.warps;
        let own = rank * of_block..(rank + 1) * of_block;
        let Block { clocks, reached, .. } = &self.block;
        let unknown = |stamp: Stamp| !own.clone().any(|thread| clocks.is_before(stamp, thread));
        let mut early: Vec<_> = reached
            .iter()
            .filter(|((owner, _), (stamp, ..))| *owner == rank && unknown(*stamp))
            .map(|((_, thread), access)| (*thread, *access))
            .collect();
        early.sort_unstable_by_key(|(thread, _)| *thread);
        for (_, (stamp, instruction, address, bytes)) in early {
            self.early_exit(stamp, instruction, address, bytes);
        }
    }

    fn block_ends(&mut self, block: u64) {
        self.enter_block(block);
        self.settle();
        self.block.running = false;
    }

    #[inline(always)]
    fn instruction(&mut self, place: Place, lanes: u32) {
        let step = self.launch.table.steps[place.instruction as usize];
        if !self.launch.table.uses.is_empty() {
            self.note_registers(place, step);
        }
        match step {
            Step::None | Step::Product | Step::Warpgroup(_) => {}
            Step::MbarrierFence => {
                let place = self.enter(place);
                self.fence_mbarriers(place.warp * 32, lanes);
            }
            Step::ProxyFence => {
                let place = self.enter(place);
                self.fence_mbarriers(place.warp * 32, lanes);
                lanes_of(lanes).for_each(|lane| self.block.clocks.proxy_fence(place.warp * 32 + lane));
            }
            Step::Back => {
                let place = self.enter(place);
                self.block.clocks.next_round(place.warp, lanes);
            }
            Step::Fence => {
                let place = self.enter(place);
                let semantics = self.launch.table.instructions[place.instruction as usize].semantics;
                if semantics.release {
                    self.fence_mbarriers(place.warp * 32, lanes);
                }
                for lane in lanes_of(lanes) {
                    let thread = place.warp * 32 + lane;
                    self.block.clocks.fence(thread, semantics.scope, semantics.acquire, semantics.release);
                }
            }
        }
    }

    fn access(&mut self, place: Place, access: Access<'_>) {
        let shared = match access.space {
            MemorySpace::Shared => true,
            MemorySpace::Global => false,
            MemorySpace::Local | MemorySpace::Parameter => return,
        };
        let place = self.enter(place);
        let Info { semantics, .. } = self.launch.table.instructions[place.instruction as usize];
        let bounds = self.bounds(place.instruction).filter(|_| shared);
        let (reads, writes) = (access.kind != AccessKind::Write, access.kind != AccessKind::Read);
        let strength = semantics.scope as u8;
        let key = Key { instruction: place.instruction, bytes: 0, strength, reads, writes, proxy: Proxy::Generic };
        let keep = self.keep();
        let bytes = u64::from(access.bytes);
        let mut cursor = Cursor::NONE;
        let mut rest = access.lanes;
        while rest != 0 {
            let lane = rest.trailing_zeros();
            rest &= rest - 1;
            let thread = place.warp * 32 + lane;
            let clocks = &mut self.block.clocks;
            let position = &mut clocks.positions[thread as usize];
            *position += 1;
            let stamp = Stamp { actor: clocks.first_actor.wrapping_add(thread), position: *position };
            let mut address = access.addresses[lane as usize];
            let mut lane = Lane { thread, stamp, shared, outside: false, known: None };
            let outside =
                bounds.is_some_and(|(start, length)| is_outside(address % CLUSTER_BLOCK_BYTES, bytes, start, length));
            if shared {
                address = self.launch.kept(address);
            }
            if outside {
                lane.outside = true;
                self.outside(lane, place.instruction, address, access.bytes);
            }
            // Constants are never written.
            if !shared && address >= CONSTANT_WINDOW {
                continue;
            }
            let mut key = key;
            if semantics.volatile && shared && writes {
                if !self.block.clocks.has_fenced(thread) {
                    key.strength = 0;
                }
                // The next lane may be of another strength.
                cursor = Cursor::NONE;
            }
            self.lane_access(lane, &mut cursor, address, access.bytes, key, keep);
            if self.launch.table.fences && semantics.scope != Scope::None {
                self.block.clocks.strong_access(
                    &mut self.published,
                    thread,
                    shared,
                    address,
                    (reads, writes),
                    (semantics.acquire, semantics.release),
                    semantics.scope,
                );
            }
        }
    }

    fn copy_begins(&mut self, place: Place, copy: AsyncCopy<'_>) {
        let place = self.enter(place);
        let bounds = self.bounds(place.instruction);
        let keep = self.keep();
        let [read, write] = copy_keys(place.instruction);
        let mut cursors = [Cursor::NONE; 2];
        for lane in lanes_of(copy.lanes) {
            let thread = place.warp * 32 + lane;
            let clocks = &mut self.block.clocks;
            clocks.positions[thread as usize] += 1;
            let position = clocks.positions[thread as usize];
            let stamp = Stamp { actor: clocks.first_actor.wrapping_add(thread), position }.in_flight();
            let (source, destination) = (copy.sources[lane as usize], copy.destinations[lane as usize]);
            let outside = bounds.is_some_and(|(start, length)| {
                is_outside(destination % CLUSTER_BLOCK_BYTES, copy.bytes.into(), start, length)
            });
            let destination = self.launch.kept(destination);
            if copy.readable >> lane & 1 != 0 && source < CONSTANT_WINDOW {
                let bytes = u32::from(copy.source_bytes[lane as usize]);
                let (whole, rest) = (bytes & !3, bytes & 3);
                let lane = Lane { thread, stamp, shared: false, outside: false, known: None };
                if whole > 0 {
                    self.lane_access(lane, &mut cursors[0], source, whole, read, keep);
                }
                if rest > 0 {
                    self.lane_access(lane, &mut cursors[0], source + u64::from(whole), rest, read, keep);
                }
            }
            let mut lane = Lane { thread, stamp, shared: true, outside: false, known: None };
            if outside {
                lane.outside = true;
                self.outside(lane, place.instruction, destination, copy.bytes);
            }
            self.lane_access(lane, &mut cursors[1], destination, copy.bytes, write, keep);
        }
    }

    fn copies_awaited(&mut self, place: Place, lanes: u32) {
        let place = self.enter(place);
        for lane in lanes_of(lanes) {
            self.block.clocks.wait_for_copies(place.warp * 32 + lane, place.instruction);
        }
    }

    fn copy_completes(&mut self, place: Place, copy: AsyncCopy<'_>) {
        let place = self.enter(place);
        let [read, write] = copy_keys(place.instruction);
        let mut cursors = [Cursor::NONE; 2];
        let Hazards { launch, block: Block { clocks, shared, .. }, global, .. } = self;
        for lane in lanes_of(copy.lanes) {
            let actor = clocks.first_actor.wrapping_add(place.warp * 32 + lane);
            let (source, destination) = (copy.sources[lane as usize], launch.kept(copy.destinations[lane as usize]));
            if copy.readable >> lane & 1 != 0 && source < CONSTANT_WINDOW {
                let bytes = u64::from(copy.source_bytes[lane as usize]);
                for word in 0..bytes.div_ceil(4) {
                    let mask = if bytes - word * 4 >= 4 { 0xf } else { (1u8 << (bytes % 4)) - 1 };
                    let key = Key { bytes: mask, ..read };
                    global.land(clocks, &mut cursors[0], actor, source / 4 + word, key);
                }
            }
            let key = Key { bytes: 0xf, ..write };
            for word in 0..u64::from(copy.bytes / 4) {
                shared.land(clocks, &mut cursors[1], actor, destination / 4 + word, key);
            }
        }
    }

    fn copy_abandoned(&mut self, place: Place, copy: AsyncCopy<'_>) {
        let place = self.enter(place);
        let first_actor = self.block.clocks.first_actor;
        let lines = (self.launch.table.instructions[place.instruction as usize].line, NOWHERE);
        for lane in lanes_of(copy.lanes) {
            let actor = first_actor.wrapping_add(place.warp * 32 + lane);
            let address = self.launch.kept(copy.destinations[lane as usize]);
            let words = u64::from(copy.bytes / 4);
            self.findings.add(FindingKind::CopyNeverAwaited, lines, words, true, |kind| Finding {
                kind,
                first: Incident {
                    copy: Some(CopyState::UnderWay { left_open_at: None }),
                    ..self.launch.incident(actor, place.instruction)
                },
                second: None,
                touched: Some(self.launch.touched(MemorySpace::Shared, address, copy.bytes, place.instruction, actor)),
                count: 0,
            });
        }
    }

    fn async_stores_begin(&mut self, place: Place, stores: Access<'_>) {
        self.copy_begins(place, as_copies(&stores));
    }

    fn async_stores_complete(&mut self, place: Place, stores: Access<'_>) {
        self.copy_completes(place, as_copies(&stores));
    }

    fn async_stores_abandoned(&mut self, place: Place, stores: Access<'_>) {
        self.copy_abandoned(place, as_copies(&stores));
    }

    fn bulk_copy_begins(&mut self, place: Place, copy: BulkCopy<'_>) {
        let place = self.enter(place);
        let keep = self.keep();
        let thread = place.warp * 32 + copy.lane;
        let clocks = &mut self.block.clocks;
        clocks.positions[thread as usize] += 1;
        let position = clocks.positions[thread as usize];
        let stamp = Stamp { actor: clocks.first_actor.wrapping_add(thread), position }.in_flight();
        if let Some((start, length)) = self.bounds(place.instruction) {
            let is_outside = |piece: &&super::BulkPiece| {
                is_outside(piece.shared % CLUSTER_BLOCK_BYTES, piece.bytes.into(), start, length)
            };
            if let Some(piece) = copy.pieces.iter().find(is_outside) {
                let lane = Lane { thread, stamp, shared: true, outside: true, known: None };
                self.outside(lane, place.instruction, self.launch.kept(piece.shared), piece.bytes);
            }
        }
        let Hazards { launch, block: Block { clocks, shared, .. }, global, findings, .. } = self;
        let mut cursors = [Cursor::NONE; 2];
        let key = bulk_key(place.instruction, copy.direction, MemorySpace::Shared);
        let of_shared = copy.pieces.iter().map(|piece| (launch.kept(piece.shared), piece.bytes));
        let of_shared: Vec<_> = of_shared.flat_map(|(address, bytes)| words_of(address, bytes)).collect();
        for (word, bytes) in of_shared {
            let access = shadow::Access { thread, stamp, word, key: Key { bytes, ..key }, outside: false };
            let mut race = |racing: Racing| {
                add_race(launch, clocks, &mut *findings, racing, &access, MemorySpace::Shared);
            };
            if copy.direction == BulkDirection::Load {
                shared.access(clocks, &mut cursors[0], &access, keep, &mut race);
                continue;
            }
            let mut writer = None;
            shared.peek(clocks, &mut cursors[0], &access, &mut race, &mut |racing| writer = Some(racing));
            shared.note(clocks, &mut cursors[0], &access, keep);
            if let Some(writer) = writer {
                add_unfenced(launch, findings, writer, &access);
            }
        }
        let key = bulk_key(place.instruction, copy.direction, MemorySpace::Global);
        let pieces = copy.pieces.iter().filter(|_| !copy.again).filter_map(|piece| Some((piece.global?, piece.bytes)));
        for (word, bytes) in
            pieces.filter(|piece| piece.0 < CONSTANT_WINDOW).flat_map(|piece| words_of(piece.0, piece.1))
        {
            let access = shadow::Access { thread, stamp, word, key: Key { bytes, ..key }, outside: false };
            global.access(clocks, &mut cursors[1], &access, keep, &mut |racing| {
                add_race(launch, clocks, findings, racing, &access, MemorySpace::Global);
            });
        }
    }

    fn bulk_stores_awaited(&mut self, place: Place, lanes: u32) {
        self.copies_awaited(place, lanes);
    }

    fn bulk_store_has_read(&mut self, place: Place, copy: BulkCopy<'_>) {
        let place = self.enter(place);
        self.land_bulk(place, copy, MemorySpace::Shared);
    }

    fn bulk_copy_completes(&mut self, place: Place, copy: BulkCopy<'_>) {
        let place = self.enter(place);
        if copy.direction == BulkDirection::Load {
            self.land_bulk(place, copy, MemorySpace::Shared);
        }
        self.land_bulk(place, copy, MemorySpace::Global);
    }

    fn bulk_copy_abandoned(&mut self, place: Place, copy: BulkCopy<'_>) {
        let place = self.enter(place);
        let actor = self.block.clocks.first_actor.wrapping_add(place.warp * 32 + copy.lane);
        let lines = (self.launch.table.instructions[place.instruction as usize].line, NOWHERE);
        let address = self.launch.kept(copy.pieces.iter().map(|piece| piece.shared).min().unwrap_or(0));
        let bytes: u32 = copy.pieces.iter().map(|piece| piece.bytes).sum();
        self.findings.add(FindingKind::CopyNeverAwaited, lines, u64::from(bytes / 4).max(1), true, |kind| Finding {
            kind,
            first: Incident {
                copy: Some(CopyState::UnderWay { left_open_at: None }),
                ..self.launch.incident(actor, place.instruction)
            },
            second: None,
            touched: Some(self.launch.touched(MemorySpace::Shared, address, bytes, place.instruction, actor)),
            count: 0,
        });
    }

    fn warpgroup_product(&mut self, place: Place, product: WarpgroupProduct<'_>) {
        let place = self.enter(place);
        let keep = self.keep();
        let Hazards { launch, block: Block { clocks, shared, warpgroups, .. }, findings, .. } = self;
        let [a, b] = [product.a, product.b]
            .map(|chunks| chunks.iter().map(|address| launch.kept(*address)).collect::<Vec<u64>>());
        // All of it counts as done by the warpgroup's first thread, and each warp must know what it reads.
        let leader = place.warp * 32;
        let position = clocks.positions[leader as usize] + 1;
        clocks.positions[leader as usize] = position + 1;
        let stamp = Stamp { actor: clocks.first_actor.wrapping_add(leader), position }.in_flight();
        let key = Key {
            instruction: place.instruction,
            bytes: 0xf,
            strength: 0,
            reads: true,
            writes: false,
            proxy: Proxy::Async,
        };
        let mut cursor = Cursor::NONE;
        let warps = crate::decode::program::WarpgroupProduct::WARPS;
        for warp in 0..warps {
            let thread = leader + 32 * warp;
            let own =
                Stamp { actor: clocks.first_actor.wrapping_add(thread), position: clocks.positions[thread as usize] };
            let quarter = a.len() / warps as usize;
            let of_a = &a[quarter * warp as usize..quarter * (warp as usize + 1)];
            for word in of_a.iter().chain(&b).flat_map(|chunk| chunk / 4..chunk / 4 + 4) {
                let access = shadow::Access { thread, stamp: own.in_flight(), word, key, outside: false };
                let mut writer = None;
                let mut race = |racing: Racing| {
                    add_race(launch, clocks, &mut *findings, racing, &access, MemorySpace::Shared);
                };
                shared.peek(clocks, &mut cursor, &access, &mut race, &mut |racing| writer = Some(racing));
                if let Some(writer) = writer {
                    add_unfenced(launch, findings, writer, &access);
                }
            }
        }
        let mut chunks = [a, b].concat();
        chunks.sort_unstable();
        chunks.dedup();
        for word in chunks.iter().flat_map(|chunk| chunk / 4..chunk / 4 + 4) {
            let access = shadow::Access { thread: leader, stamp, word, key, outside: false };
            shared.note(clocks, &mut cursor, &access, keep);
        }
        warpgroups.reads(place.warp, place.instruction, chunks, [position, position + 1]);
        // The warps have come to it together: whoever any of them tells knows that it has begun.
        clocks.learn_position(leader..leader + 32 * warps, leader, position);
    }

    fn mbarrier(&mut self, place: Place, lane: u32, address: u64, event: MbarrierEvent) {
        let place = self.enter(place);
        let address = self.launch.kept(address);
        let thread = place.warp * 32 + lane;
        let keep = self.keep();
        let clocks = &mut self.block.clocks;
        let access = match event {
            MbarrierEvent::Initialised | MbarrierEvent::Invalidated => {
                clocks.renew_mbarrier(address);
                Some((Scope::None, false, true))
            }
            MbarrierEvent::Arrives | MbarrierEvent::ArrivesAfterCopies | MbarrierEvent::BytesCounted => {
                Some((Scope::Block, true, true))
            }
            MbarrierEvent::Tested { .. } => Some((Scope::Block, true, false)),
            MbarrierEvent::CopiesArrive | MbarrierEvent::Completed => None,
        };
        if let Some((scope, reads, writes)) = access {
            clocks.positions[thread as usize] += 1;
            let position = clocks.positions[thread as usize];
            let stamp = Stamp { actor: clocks.first_actor.wrapping_add(thread), position };
            let known = match self.launch.blocks > 1 && scope != Scope::None {
                true => self.look_at_mbarrier(place, thread, stamp, address),
                false => None,
            };
            match event {
                MbarrierEvent::Initialised if self.launch.blocks > 1 => {
                    let (fenced, arrived, shown) = (false, false, false);
                    let instruction = place.instruction;
                    let initialised = Initialised { thread, stamp, instruction, fenced, arrived, shown };
                    self.block.initialised.insert(address, initialised);
                }
                MbarrierEvent::Invalidated => drop(self.block.initialised.remove(&address)),
                _ => {}
            }
            let lane = Lane { thread, stamp, shared: true, outside: false, known };
            let strength = scope as u8;
            let key = Key { instruction: place.instruction, bytes: 0, strength, reads, writes, proxy: Proxy::Generic };
            self.lane_access(lane, &mut Cursor::NONE.clone(), address, 8, key, keep);
        }
        let clocks = &mut self.block.clocks;
        match event {
            MbarrierEvent::Arrives => clocks.arrive_at_mbarrier(address, thread),
            MbarrierEvent::ArrivesAfterCopies => clocks.promise_arrival(address, thread),
            MbarrierEvent::CopiesArrive => clocks.keep_promise(address, thread),
            MbarrierEvent::Completed => clocks.complete_mbarrier(address),
            MbarrierEvent::Tested { over: true } => clocks.pass_mbarrier(address, thread),
            _ => {}
        }
    }

    fn barrier_arrives(&mut self, place: Place, barrier: u32, lanes: u32) {
        let place = self.enter(place);
        if let Some(info) = self.launch.table.instructions[place.instruction as usize].barrier {
            let threads = lanes_of(lanes).map(|lane| place.warp * 32 + lane);
            let number = place.warp / self.launch.warps * clocks::BARRIERS + barrier;
            self.block.clocks.arrive(number, place.instruction, info, threads);
        }
    }

    fn barrier_completes(&mut self, block: u64, barrier: u32) {
        let rank = self.enter_block(block);
        let (places, full) = self.block.clocks.complete(rank * clocks::BARRIERS + barrier);
        if !full {
            return;
        }
        if self.launch.blocks == 1 {
            self.settle();
        }
        let line = |instruction: u32| self.launch.table.instructions[instruction as usize].line;
        let Some(first) = places.first().copied() else { return };
        let first_actor = self.block.clocks.first_actor;
        for other in places.iter().filter(|other| line(other.0) != line(first.0)) {
            let lines = (line(first.0), line(other.0));
            self.findings.add(FindingKind::DifferentBarriers, lines, u64::from(other.2), true, |kind| Finding {
                kind,
                first: self.launch.incident(first_actor.wrapping_add(first.1), first.0),
                second: Some(self.launch.incident(first_actor.wrapping_add(other.1), other.0)),
                touched: None,
                count: 0,
            });
        }
    }

    fn cluster_barrier_arrives(&mut self, place: Place, lanes: u32, releases: bool) {
        let place = self.enter(place);
        let threads = || lanes_of(lanes).map(|lane| place.warp * 32 + lane);
        if releases {
            threads().for_each(|thread| self.block.clocks.arrive_at_mbarrier(CLUSTER_BARRIER, thread));
        }
        for known in self.block.initialised.values_mut() {
            known.arrived |= (known.fenced || releases) && threads().any(|thread| thread == known.thread);
        }
    }

    fn cluster_barrier_completes(&mut self, block: u64) {
        self.enter_block(block);
        self.block.clocks.complete_mbarrier(CLUSTER_BARRIER);
        self.block.initialised.values_mut().for_each(|known| known.shown |= known.arrived);
    }

    fn cluster_barrier_waited(&mut self, place: Place, lanes: u32) {
        let place = self.enter(place);
        lanes_of(lanes).for_each(|lane| self.block.clocks.pass_mbarrier(CLUSTER_BARRIER, place.warp * 32 + lane));
    }

    fn warp_synchronises(&mut self, place: Place, lanes: u32) {
        let place = self.enter(place);
        let threads: Vec<u32> = lanes_of(lanes).map(|lane| place.warp * 32 + lane).collect();
        self.block.clocks.meet_lanes(&threads);
    }

    fn fault(&mut self, place: Place, error: &LaunchError) -> bool {
        let place = self.enter(place);
        let [width, height, _] = self.launch.shape;
        let [x, y, z] = error.thread;
        let of_block = 32 * self.launch.warps;
        let thread = place.warp / self.launch.warps * of_block + (z * height + y) * width + x;
        let actor = self.block.clocks.first_actor.wrapping_add(thread);
        if let LaunchErrorKind::BlockExited { block, address, bytes, .. } = error.kind {
            let [width, height, _] = self.launch.grid.map(u64::from);
            let [x, y, z] = block.map(u64::from);
            let rank = self.enter_block((z * height + y) * width + x);
            self.block.shared.forget_reads();
            let address = u64::from(rank) * self.launch.stride + address;
            self.early_exit(Stamp { actor, position: 0 }, place.instruction, address, bytes);
            return true;
        }
        let memory = match &error.kind {
            LaunchErrorKind::OutOfBounds { space, address, bytes, .. }
            | LaunchErrorKind::Misaligned { space, address, bytes, .. } => Some((*space, *address, *bytes)),
            _ => None,
        };
        let last = matches!(error.kind, LaunchErrorKind::InstructionLimit { .. } | LaunchErrorKind::OutOfMemory(_));
        self.ended |= last;
        if last && self.runs > 1 {
            // It may be no more than long waiting, for blocks that are usually there before.
            return true;
        }
        if memory.is_none() {
            // The block ends: what would have raced with its reads may not have come to run.
            self.block.shared.forget_reads();
            if matches!(error.kind, LaunchErrorKind::DivergentBarrier { .. }) && self.divergent(error) {
                return true;
            }
        }
        let Some(info) = self.launch.table.instructions.get(place.instruction as usize) else { return false };
        let count = memory.map_or(1, |(_, _, bytes)| u64::from(bytes.div_ceil(4)));
        self.findings.add(FindingKind::Fault(error.kind.clone()), (info.line, NOWHERE), count, true, |kind| Finding {
            kind,
            first: Incident {
                block: error.block,
                thread: error.thread,
                source: error.source.as_deref().cloned(),
                ptx_line: error.ptx_line,
                agent: info.agent,
                copy: None,
            },
            second: None,
            touched: memory.map(|(space, address, bytes)| {
                let address = if space == MemorySpace::Shared { self.launch.kept(address) } else { address };
                self.launch.touched(space, address, bytes, place.instruction, actor)
            }),
            count: 0,
        });
        true
    }
}
