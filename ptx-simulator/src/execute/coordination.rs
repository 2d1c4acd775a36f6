//! What the warps of a cluster coordinate their work with: barriers, mbarriers, and copies that aren't done yet.

use super::bulk::BulkCopies;
use super::cluster::{ALL_BARRIERS, BarrierState};
use super::cluster_barrier::ClusterBarrier;
use super::copies::Copies;
use super::mbarrier::{MbarrierState, Polls};

/// The state that all warps of a cluster share, apart from shared memory's bytes. Warps have their numbers in the cluster
/// here, and mbarriers their addresses there.
pub(super) struct Coordination {
    /// Those of every block.
    barriers: Vec<BarrierState>,
    /// The cluster's own.
    pub cluster_barrier: ClusterBarrier,
    /// The mbarriers that are initialised, in the order in which they were.
    pub mbarriers: Vec<MbarrierState>,
    /// The copies of each warp that aren't done.
    pub copies: Vec<Copies>,
    /// Bulk copies that aren't done.
    pub bulk: BulkCopies,
    /// What each warp asked in vain; nobody's before the first who did.
    pub polls: Vec<Polls>,
    /// Arrivals, exits and whatever else may let somebody go on who asks an mbarrier again and again.
    pub events: u64,
    /// Phases of mbarriers that are complete.
    pub completed: u64,
    /// The registers that each warp's threads have, once somebody has set them; 0 for warps that haven't.
    pub registers: Vec<u32>,
    /// Threads of each block that haven't exited.
    pub running: Vec<u32>,
    threads: u32,
}

impl Coordination {
    pub fn new(blocks: u32, warps: u32, threads: u32) -> Self {
        let warps = blocks * warps;
        Coordination {
            barriers: vec![BarrierState::default(); (blocks * ALL_BARRIERS) as usize],
            cluster_barrier: ClusterBarrier::new(warps),
            mbarriers: Vec::new(),
            copies: (0..warps).map(|_| Copies::default()).collect(),
            bulk: BulkCopies::default(),
            polls: Vec::new(),
            events: 0,
            completed: 0,
            registers: Vec::new(),
            running: vec![threads; blocks as usize],
            threads,
        }
    }

    /// As if nothing had happened in the cluster.
    pub fn restart(&mut self) {
        self.barriers.fill(BarrierState::default());
        self.cluster_barrier.restart();
        self.mbarriers.clear();
        self.copies.iter_mut().for_each(Copies::clear);
        self.bulk.clear();
        self.polls.clear();
        self.events = 0;
        self.completed = 0;
        self.registers.clear();
        self.running.fill(self.threads);
    }

    /// The barrier of that number of the block of that rank.
    pub fn barrier(&mut self, rank: u32, number: u32) -> &mut BarrierState {
        &mut self.barriers[(rank * ALL_BARRIERS + number) as usize]
    }

    /// How far that barrier is.
    pub fn barrier_state(&self, rank: u32, number: u32) -> BarrierState {
        self.barriers[(rank * ALL_BARRIERS + number) as usize]
    }
}
