//! The seam through which analyses watch execution.
//!
//! The executor is compiled twice: once for an [`Observer`], once for none, in which case every call below compiles to
//! nothing. An observed launch runs its blocks one after the other in index order, so that what is observed doesn't
//! depend on the machine.
//!
//! Two analyses come with the crate, each an observer like any other: [`hazards`] finds races, reads of memory that
//! nobody wrote and accesses outside an array; [`costs`] counts what instructions, shared memory and global memory cost.

pub mod costs;
pub mod hazards;

use crate::error::{AccessKind, MemorySpace};

/// Where in the launch something happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Index of the block in the grid, counted along x, then y, then z.
    pub block: u64,
    /// Index of the warp in the block.
    pub warp: u32,
    /// Index of the instruction in the kernel's code; [`crate::Module`] names its source line.
    pub instruction: u32,
}

/// One access of a warp to memory: the lanes in `lanes`, each at its own address.
#[derive(Clone, Copy, Debug)]
pub struct Access<'a> {
    /// The memory.
    pub space: MemorySpace,
    /// Load, store or atomic.
    pub kind: AccessKind,
    /// The lanes that take part.
    pub lanes: u32,
    /// The address of each lane within its space; lanes that don't take part hold anything.
    pub addresses: &'a [u64; 32],
    /// Bytes per lane.
    pub bytes: u32,
}

/// Watches a launch. Every method does nothing unless it's overridden.
pub trait Observer {
    /// A block begins; `threads` is its number of threads.
    fn block_begins(&mut self, _block: u64, _threads: u32) {}

    /// All threads of the block have exited.
    fn block_ends(&mut self, _block: u64) {}

    /// A warp executes an instruction for `lanes`.
    fn instruction(&mut self, _place: Place, _lanes: u32) {}

    /// A warp accesses memory; the access has been found valid and is about to happen.
    fn access(&mut self, _place: Place, _access: Access<'_>) {}

    /// The lanes of a warp arrive at a barrier of the block.
    fn barrier_arrives(&mut self, _place: Place, _barrier: u32, _lanes: u32) {}

    /// A barrier of the block is complete and its threads go on.
    fn barrier_completes(&mut self, _block: u64, _barrier: u32) {}

    /// The lanes of a warp have synchronised with each other (`bar.warp.sync` and the `.sync` collectives).
    fn warp_synchronises(&mut self, _place: Place, _lanes: u32) {}
}

/// What the executor is generic over: whether anybody watches, and who.
pub(crate) trait Watch {
    const ACTIVE: bool;
    fn observer(&mut self) -> &mut dyn Observer;
}

/// Nobody watches, and it costs nothing.
pub(crate) struct Unwatched;

impl Observer for Unwatched {}

impl Watch for Unwatched {
    const ACTIVE: bool = false;

    fn observer(&mut self) -> &mut dyn Observer {
        self
    }
}

/// Somebody watches. The observer is behind a pointer so that the executor is compiled here, optimised as this crate
/// is.
pub(crate) struct Watched<'a>(pub &'a mut dyn Observer);

impl Watch for Watched<'_> {
    const ACTIVE: bool = true;

    fn observer(&mut self) -> &mut dyn Observer {
        self.0
    }
}
