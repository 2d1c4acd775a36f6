//! One launch: what all its blocks share, and how its clusters are spread over the cores.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use super::cluster::Cluster;
use super::fault::Fault;
use super::run::{Executor, Progress};
use crate::decode::Module;
use crate::decode::program::Program;
use crate::error::{AllocateError, LaunchError, LaunchErrorKind};
use crate::memory::{Allocation, GlobalMemory};
use crate::observe::{GlobalRange, Observer, Unwatched, Watch, Watched};

/// Instructions of a block in its turn at least, where turns are shorter since many blocks wait: enough for several
/// groups of a warp.
const LEAST_QUANTUM: u64 = 1 << 12;
/// Instructions of a block before the next resident block gets its turn, where blocks may wait for each other.
const BLOCK_QUANTUM: u64 = 1 << 16;
/// Blocks that are resident at most where blocks may wait for each other: more than any GPU holds.
const MAX_RESIDENT: usize = 4096;
/// Memory that resident blocks may take together.
const RESIDENT_BYTES: u64 = 256 << 20;

/// What the blocks of a launch have in common.
pub(crate) struct Launch<'a> {
    pub module: &'a Module,
    /// The kernel's name.
    pub kernel: &'a str,
    pub program: &'a Program,
    pub memory: &'a GlobalMemory,
    /// The kernel's parameters, in units that keep them aligned.
    pub parameters: &'a [u128],
    pub parameter_bytes: u32,
    pub grid: [u32; 3],
    pub block: [u32; 3],
    /// Blocks of a cluster along x, y and z, of which the grid has multiples.
    pub cluster: [u32; 3],
    /// Threads and warps of a block.
    pub threads: u32,
    pub warps: u32,
    pub dynamic_shared_bytes: u32,
    /// Static and dynamic.
    pub shared_bytes: u32,
    /// Addresses of the module's variables.
    pub variables: &'a [u64],
    pub instruction_limit: u64,
    /// Blocks, and warps of a block, get their turns from the last to the first.
    pub reversed: bool,
    /// Counts blocks as they finish, for whoever watches.
    pub finished_blocks: &'a AtomicU64,
}

impl Launch<'_> {
    pub fn block_count(&self) -> u64 {
        self.grid.iter().map(|extent| u64::from(*extent)).product()
    }

    /// Blocks of a cluster.
    pub fn cluster_blocks(&self) -> u32 {
        self.cluster.iter().product()
    }

    /// Clusters of the grid along x, y and z.
    pub fn cluster_grid(&self) -> [u32; 3] {
        std::array::from_fn(|axis| self.grid[axis] / self.cluster[axis])
    }

    fn cluster_count(&self) -> u64 {
        self.block_count() / u64::from(self.cluster_blocks())
    }

    /// Where the cluster of that index is among the clusters.
    pub fn cluster_position(&self, index: u64) -> [u32; 3] {
        position(index, self.cluster_grid())
    }

    /// Where the block of that rank is in its cluster.
    pub fn place_in_cluster(&self, rank: u32) -> [u32; 3] {
        position(u64::from(rank), self.cluster)
    }

    /// The index in the grid of the block of that rank in a cluster.
    pub fn block_of(&self, cluster: [u32; 3], rank: u32) -> u64 {
        let place = self.place_in_cluster(rank);
        let [x, y, z] = std::array::from_fn(|axis| u64::from(cluster[axis] * self.cluster[axis] + place[axis]));
        let [width, height, _] = self.grid.map(u64::from);
        (z * height + y) * width + x
    }

    /// All blocks of the cluster that a block is in.
    pub fn cluster_of(&self, block: u64) -> impl Iterator<Item = u64> {
        let place = self.block_position(block);
        let cluster = std::array::from_fn(|axis| place[axis] / self.cluster[axis]);
        (0..self.cluster_blocks()).map(move |rank| self.block_of(cluster, rank))
    }

    pub fn block_position(&self, index: u64) -> [u32; 3] {
        position(index, self.grid)
    }

    /// A fault in the caller's terms.
    pub fn describe(&self, fault: Fault) -> LaunchError {
        let thread = fault.warp * 32 + fault.lane;
        let [width, height, _] = self.block;
        let place_of = |instruction: u32| self.program.places.get(instruction as usize).copied();
        let place = place_of(fault.instruction);
        // A function without lines of its own, such as a panic's, is shown at the line that called it.
        let trail = std::iter::once(fault.instruction).chain(fault.callers);
        let source = trail.filter_map(place_of).find_map(|place| self.module.source(place));
        LaunchError {
            kind: fault.kind,
            kernel: self.kernel.to_owned(),
            block: self.block_position(fault.block),
            thread: [thread % width, thread / width % height, thread / width / height],
            source: source.map(Box::new),
            ptx_line: place.map_or(0, |place| place.ptx_line),
        }
    }

    /// Runs all blocks on the threads of `pool`, or on this one without a pool. The error is the one of the lowest
    /// block that has one, or with clusters the one of the lowest cluster.
    pub fn run(&self, pool: Option<&rayon::ThreadPool>) -> Result<(), Fault> {
        if self.program.ordered {
            return self.run_ordered(Unwatched);
        }
        let workers = pool.map_or(1, |pool| pool.current_num_threads() as u64).min(self.cluster_count());
        let (Some(pool), 2..) = (pool, workers) else {
            return self.run_in_order(Unwatched);
        };
        let next = AtomicU64::new(0);
        let failed_at = AtomicU64::new(u64::MAX);
        let failure: Mutex<Option<(u64, Fault)>> = Mutex::new(None);
        let fail = |cluster: u64, fault: Fault| {
            failed_at.fetch_min(cluster, Ordering::Relaxed);
            let mut failure = failure.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
            if failure.as_ref().is_none_or(|(known, _)| cluster < *known) {
                *failure = Some((cluster, fault));
            }
        };
        pool.scope(|scope| {
            for _ in 0..workers {
                scope.spawn(|_| {
                    let Some(mut cluster) = Cluster::new(self) else {
                        return fail(0, self.out_of_memory());
                    };
                    let mut executor = Executor::new(self, Unwatched);
                    loop {
                        let index = next.fetch_add(1, Ordering::Relaxed);
                        // Clusters before a failed one still run: one of them may fail, too, and come first.
                        if index >= self.cluster_count() || index > failed_at.load(Ordering::Relaxed) {
                            return;
                        }
                        cluster.restart(self, index);
                        if let Err(fault) = executor.run_cluster(&mut cluster, u64::MAX) {
                            fail(index, *fault);
                        }
                        self.count_finished();
                    }
                });
            }
        });
        match failure.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner()) {
            Some((_, fault)) => Err(fault),
            None => Ok(()),
        }
    }

    /// Runs the blocks one after the other, watched; twice if the observer wants to see both orders.
    pub fn run_observed(&self, observer: &mut dyn Observer) -> Result<(), Fault> {
        let range = |allocation: &Allocation| GlobalRange {
            start: allocation.start(),
            bytes: allocation.bytes(),
            name: allocation.name().map(str::to_owned),
        };
        let memory: Vec<GlobalRange> = self.memory.allocations().iter().map(range).collect();
        observer.launch_begins(&memory);
        let before = match observer.both_orders() {
            true => Some(self.memory.snapshot().ok_or_else(|| self.out_of_memory())?),
            false => None,
        };
        self.run_watched(Watched(observer))?;
        let Some(mut before) = before.filter(|_| observer.both_orders()) else { return Ok(()) };
        // The first run's results stay.
        self.memory.exchange(&mut before);
        self.finished_blocks.store(0, Ordering::Relaxed);
        observer.launch_begins(&memory);
        let result = Launch { reversed: true, ..*self }.run_watched(Watched(observer));
        self.memory.exchange(&mut before);
        result
    }

    fn run_watched<W: Watch>(&self, watch: W) -> Result<(), Fault> {
        if self.program.ordered { self.run_ordered(watch) } else { self.run_in_order(watch) }
    }

    /// The cluster whose turn comes after `started` others. In reverse, windows of `window` clusters come in order and only
    /// their clusters in reverse: if no more than that are resident at a time, a block may rely on earlier ones being so.
    fn cluster_in_turn(&self, started: u64, window: u64) -> u64 {
        if !self.reversed {
            return started;
        }
        let first = started / window * window;
        let last = (first.saturating_add(window)).min(self.cluster_count()) - 1;
        last - (started - first)
    }

    fn run_in_order<W: Watch>(&self, watch: W) -> Result<(), Fault> {
        let mut cluster = Cluster::new(self).ok_or_else(|| self.out_of_memory())?;
        let mut executor = Executor::new(self, watch);
        for index in 0..self.cluster_count() {
            cluster.restart(self, self.cluster_in_turn(index, u64::MAX));
            match executor.run_cluster(&mut cluster, u64::MAX).or_else(|fault| executor.end_cluster(fault)) {
                Ok(Progress::LaunchEnded) => return Ok(()),
                Ok(_) => self.count_finished(),
                Err(fault) => return Err(*fault),
            }
        }
        Ok(())
    }

    /// Runs blocks that may communicate: in index order or in reverse, one at a time, but so that a block which waits for
    /// another doesn't keep it from running. In reverse many may wait for the last to come, so turns get shorter then.
    fn run_ordered<W: Watch>(&self, watch: W) -> Result<(), Fault> {
        let most = (RESIDENT_BYTES / Cluster::bytes(self).max(1)).clamp(1, MAX_RESIDENT as u64) as usize;
        let mut executor = Executor::new(self, watch);
        let mut resident: Vec<Cluster> = Vec::new();
        let mut idle: Vec<Cluster> = Vec::new();
        let mut next = 0;
        // Every round gives each resident block a turn, and then new blocks until one of them doesn't finish in its
        // turn.
        loop {
            let quantum = match self.reversed {
                true => (BLOCK_QUANTUM / (resident.len() as u64 + 1)).max(LEAST_QUANTUM),
                false => BLOCK_QUANTUM,
            };
            let mut index = 0;
            while index < resident.len() {
                let turn = executor.run_cluster(&mut resident[index], quantum);
                match turn.or_else(|fault| executor.end_cluster(fault)).map_err(|fault| *fault)? {
                    Progress::LaunchEnded => return Ok(()),
                    Progress::Finished => {
                        self.count_finished();
                        idle.push(resident.remove(index));
                    }
                    Progress::Waiting => index += 1,
                }
            }
            while next < self.cluster_count() && resident.len() < most {
                let mut cluster = match idle.pop() {
                    Some(cluster) => cluster,
                    None => Cluster::new(self).ok_or_else(|| self.out_of_memory())?,
                };
                cluster.restart(self, self.cluster_in_turn(next, most as u64));
                next += 1;
                let turn = executor.run_cluster(&mut cluster, quantum);
                match turn.or_else(|fault| executor.end_cluster(fault)).map_err(|fault| *fault)? {
                    Progress::LaunchEnded => return Ok(()),
                    Progress::Finished => {
                        self.count_finished();
                        idle.push(cluster);
                    }
                    Progress::Waiting => {
                        resident.push(cluster);
                        break;
                    }
                }
            }
            if resident.is_empty() && next == self.cluster_count() {
                return Ok(());
            }
        }
    }

    fn count_finished(&self) {
        self.finished_blocks.fetch_add(u64::from(self.cluster_blocks()), Ordering::Relaxed);
    }

    fn out_of_memory(&self) -> Fault {
        let needed = Cluster::bytes(self);
        let kind = LaunchErrorKind::OutOfMemory(AllocateError::OutOfMemory { needed, free: 0 });
        Fault { kind, block: 0, warp: 0, lane: 0, instruction: u32::MAX, callers: Vec::new() }
    }
}

/// The place of an index, counted along x, then y, then z.
fn position(index: u64, shape: [u32; 3]) -> [u32; 3] {
    let [width, height, _] = shape.map(u64::from);
    [(index % width) as u32, (index / width % height) as u32, (index / width / height) as u32]
}
