//! What the warps of a block coordinate their work with: barriers, mbarriers, and copies that aren't done yet.

use super::block::{ALL_BARRIERS, BarrierState};
use super::bulk::BulkCopies;
use super::copies::Copies;
use super::mbarrier::{MbarrierState, Polls};

/// The state that all warps of a block share, apart from shared memory's bytes.
pub(super) struct Coordination {
    pub barriers: [BarrierState; ALL_BARRIERS as usize],
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
}

impl Coordination {
    pub fn new(warps: u32) -> Self {
        Coordination {
            barriers: Default::default(),
            mbarriers: Vec::new(),
            copies: (0..warps).map(|_| Copies::default()).collect(),
            bulk: BulkCopies::default(),
            polls: Vec::new(),
            events: 0,
            completed: 0,
            registers: Vec::new(),
        }
    }

    /// As if nothing had happened in the block.
    pub fn restart(&mut self) {
        self.barriers = Default::default();
        self.mbarriers.clear();
        self.copies.iter_mut().for_each(Copies::clear);
        self.bulk.clear();
        self.polls.clear();
        self.events = 0;
        self.completed = 0;
        self.registers.clear();
    }
}
