//! The seam through which analyses watch execution.
//!
//! The executor is compiled twice: once for an [`Observer`], once for none, in which case every call below compiles to
//! nothing. An observed launch runs its blocks one after the other in index order, so that what is observed doesn't
//! depend on the machine; a second time in reverse order if the observer asks for both. The blocks of a cluster run together,
//! and what they do comes mixed. In shared memory they have addresses [`CLUSTER_BLOCK_BYTES`] apart, in the order of their
//! ranks.
//!
//! Two analyses come with the crate, each an observer like any other: [`hazards`] finds races, reads of memory that
//! nobody wrote and accesses outside an array; [`costs`] counts what instructions, shared memory and global memory cost.

pub mod costs;
pub mod hazards;

use crate::alu::Row;
pub use crate::decode::program::BLOCK_WINDOW as CLUSTER_BLOCK_BYTES;
use crate::error::{AccessKind, LaunchError, MemorySpace};

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
    /// What a store writes. `None` for loads and atomics.
    pub stored: Option<Stored<'a>>,
}

/// The values that a store is about to write.
#[derive(Clone, Copy)]
pub struct Stored<'a> {
    rows: &'a [Row],
    /// The row of each element.
    elements: &'a [u32],
    element_bytes: u8,
    wide: bool,
}

impl<'a> Stored<'a> {
    pub(crate) fn new(rows: &'a [Row], elements: &'a [u32], element_bytes: u8, wide: bool) -> Stored<'a> {
        Stored { rows, elements, element_bytes, wide }
    }

    /// The bytes that a lane writes, in the order of memory: as many as [`Access::bytes`] says. Lanes that don't take
    /// part hold anything; lanes are 0 to 31.
    pub fn lane(&self, lane: usize) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.elements.len() * usize::from(self.element_bytes));
        for row in self.elements {
            let row = *row as usize;
            let value = if self.wide {
                // Two rows are 32 doublewords.
                let word = |index: usize| u64::from(self.rows[row + index / 32].0[index % 32]);
                word(2 * lane) | word(2 * lane + 1) << 32
            } else {
                u64::from(self.rows[row].0[lane])
            };
            bytes.extend_from_slice(&value.to_le_bytes()[..usize::from(self.element_bytes)]);
        }
        bytes
    }
}

impl std::fmt::Debug for Stored<'_> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Stored").field("elements", &self.elements.len()).finish_non_exhaustive()
    }
}

/// Asynchronous copies of a warp from global to shared memory: the lanes in `lanes`, each at its own addresses.
#[derive(Clone, Copy, Debug)]
pub struct AsyncCopy<'a> {
    /// The lanes that copy.
    pub lanes: u32,
    /// The address of each lane's source in global memory; lanes that don't take part hold anything.
    pub sources: &'a [u64; 32],
    /// Bytes that each lane reads. The others that it writes are zeros.
    pub source_bytes: &'a [u8; 32],
    /// The lanes that read: not those of 0 bytes, nor those whose source was a fault.
    pub readable: u32,
    /// The address of each lane's destination in shared memory.
    pub destinations: &'a [u64; 32],
    /// Bytes that each lane writes: 4, 8 or 16.
    pub bytes: u32,
    /// The copies go past L1 (`.cg`).
    pub bypasses_l1: bool,
    /// How the instruction says what is read, which its cost depends on.
    pub size: SourceSize,
}

/// How an asynchronous copy says how many bytes it reads; the others that it writes are zeros.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum SourceSize {
    /// Not at all: it reads as many as it writes.
    #[default]
    Whole,
    /// A predicate says for each lane whether it reads all or nothing: an ignored source, or a size that the code
    /// selects from 0 and all.
    AllOrNothing,
    /// A number, of which nothing is known before the kernel runs.
    Number,
}

impl<'a> AsyncCopy<'a> {
    /// What the copies write, as a store of unknown values.
    pub fn writes(&self) -> Access<'a> {
        let (space, kind) = (MemorySpace::Shared, AccessKind::Write);
        Access { space, kind, lanes: self.lanes, addresses: self.destinations, bytes: self.bytes, stored: None }
    }

    /// What the copies read, as a load of as many bytes as they write; lanes that read fewer are shown as if they read
    /// all.
    pub fn reads(&self) -> Access<'a> {
        let (space, kind) = (MemorySpace::Global, AccessKind::Read);
        Access { space, kind, lanes: self.readable, addresses: self.sources, bytes: self.bytes, stored: None }
    }
}

/// Which way a bulk copy goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BulkDirection {
    /// From global to shared memory.
    Load,
    /// From shared to global memory.
    Store,
}

/// Some of the bytes of a bulk copy, which are neighbours on both sides: 16 at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BulkPiece {
    /// Address in shared memory.
    pub shared: u64,
    /// Address in global memory; `None` for what is outside of the tensor, which a load fills with zeros.
    pub global: Option<u64>,
    /// Bytes.
    pub bytes: u32,
}

/// A bulk copy of one thread (`cp.async.bulk`, `cp.async.bulk.tensor`). Unlike `cp.async` it accesses memory in a way of
/// its own, the *async proxy*, which the accesses of threads are ordered with by fences only.
#[derive(Clone, Copy, Debug)]
pub struct BulkCopy<'a> {
    /// The lane whose copy it is.
    pub lane: u32,
    /// Which way it goes.
    pub direction: BulkDirection,
    /// Its bytes in the order of shared memory before any swizzle; those of a store without what is outside of the tensor.
    pub pieces: &'a [BulkPiece],
    /// A multicast's copy to another block than the first, of the same bytes of global memory, which are read once.
    pub again: bool,
}

impl BulkCopy<'_> {
    /// The accesses of one side, each as if the lane itself did it.
    pub fn accesses(&self, space: MemorySpace, mut each: impl FnMut(Access<'_>)) {
        let to_shared = self.direction == BulkDirection::Load;
        let kind = if to_shared == (space == MemorySpace::Shared) { AccessKind::Write } else { AccessKind::Read };
        for piece in self.pieces.iter().filter(|_| !self.again || space == MemorySpace::Shared) {
            let address = match space {
                MemorySpace::Shared => Some(piece.shared),
                _ => piece.global,
            };
            let Some(address) = address else { continue };
            let addresses = &[address; 32];
            each(Access { space, kind, lanes: 1 << self.lane, addresses, bytes: piece.bytes, stored: None });
        }
    }
}

/// Matrices of 8 x 8 elements of 16 bits that a warp moves between shared memory and its registers: `ldmatrix` and
/// `stmatrix`. Every row of 16 bytes has an address of its own.
#[derive(Clone, Copy, Debug)]
pub struct MatrixAccess<'a> {
    /// Load or store.
    pub kind: AccessKind,
    /// Matrices: 1, 2 or 4.
    pub matrices: u32,
    /// The address in shared memory of row `i` of matrix `j` at `8 j + i`; the others hold anything.
    pub addresses: &'a [u64; 32],
    /// The rows that are accessed, a bit each: all but those whose address was a fault.
    pub rows: u32,
    /// Lanes hold pieces of columns instead of rows.
    pub transposed: bool,
}

impl MatrixAccess<'_> {
    /// What the lanes access, each the elements that its registers hold: of every matrix, lane `l` has elements
    /// `2 (l % 4)` and the next of row `l / 4`, or of column `l / 4` if it's transposed.
    pub fn by_lanes(&self, mut each: impl FnMut(Access<'_>)) {
        for matrix in 0..self.matrices as usize {
            let rows = &self.addresses[8 * matrix..8 * matrix + 8];
            let good = self.rows >> (8 * matrix);
            let (bytes, pieces) = if self.transposed { (2, 2) } else { (4, 1) };
            for piece in 0..pieces {
                let place = |lane: usize| match self.transposed {
                    true => (2 * (lane % 4) + piece, 2 * (lane / 4)),
                    false => (lane / 4, 4 * (lane % 4)),
                };
                let lanes =
                    (0..32).filter(|lane| good >> place(*lane).0 & 1 != 0).fold(0, |mask, lane| mask | 1 << lane);
                if lanes == 0 {
                    continue;
                }
                let addresses = &std::array::from_fn(|lane| {
                    let (row, offset) = place(lane);
                    rows[row].wrapping_add(offset as u64)
                });
                each(Access { space: MemorySpace::Shared, kind: self.kind, lanes, addresses, bytes, stored: None });
            }
        }
    }

    /// What is accessed row by row: lane `8 j + i` stands for row `i` of matrix `j`.
    pub fn by_rows(&self) -> Access<'_> {
        let MatrixAccess { kind, rows, addresses, .. } = *self;
        Access { space: MemorySpace::Shared, kind, lanes: rows, addresses, bytes: 16, stored: None }
    }
}

/// A matrix product of a warpgroup, four warps whose first is a multiple of four: `wgmma.mma_async`. It reads shared memory
/// through the async proxy, and is done when its warps have waited for it.
#[derive(Clone, Copy, Debug)]
pub struct WarpgroupProduct<'a> {
    /// Addresses of the 16-byte chunks of A that are read: a quarter for each warp in order. None if A is in registers.
    pub a: &'a [u64],
    /// Those of B, which all warps read.
    pub b: &'a [u64],
}

/// What happens to an mbarrier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MbarrierEvent {
    /// A thread initialised it.
    Initialised,
    /// A thread ended its being one.
    Invalidated,
    /// A thread arrived.
    Arrives,
    /// A thread asked for an arrival once its copies so far are done.
    ArrivesAfterCopies,
    /// Such an arrival happens.
    CopiesArrive,
    /// A thread changed the number of bytes that its phase waits for, and didn't arrive.
    BytesCounted,
    /// Its phase is complete, by the thread's arrival, or by bytes of a copy of the thread.
    Completed,
    /// A thread asked whether a phase is over.
    Tested {
        /// The answer.
        over: bool,
    },
}

/// Global memory that is there when a launch begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GlobalRange {
    /// First address.
    pub start: u64,
    /// Length in bytes.
    pub bytes: u64,
    /// The module variable that it belongs to, if it's one's.
    pub name: Option<String>,
}

/// Watches a launch. Every method does nothing unless it's overridden.
pub trait Observer {
    /// A launch begins; `memory` is all global memory, sorted by address.
    fn launch_begins(&mut self, _memory: &[GlobalRange]) {}

    /// Whether blocks are to run in index order and then, on the same memory as before, in reverse; the warps of a block
    /// as well. Asked before the first run and, where that went on to its end, once more before the second, which has
    /// a [`launch_begins`](Observer::launch_begins) of its own.
    fn both_orders(&self) -> bool {
        false
    }

    /// A block begins; `threads` is its number of threads.
    fn block_begins(&mut self, _block: u64, _threads: u32) {}

    /// All threads of a block of a cluster of several have exited; the other blocks may still run.
    fn block_exits(&mut self, _block: u64) {}

    /// All threads of the block's cluster have exited, or a fault that the observer took has ended it.
    fn block_ends(&mut self, _block: u64) {}

    /// A warp executes an instruction for `lanes`.
    fn instruction(&mut self, _place: Place, _lanes: u32) {}

    /// A warp accesses memory; the access has been found valid and is about to happen.
    fn access(&mut self, _place: Place, _access: Access<'_>) {}

    /// A warp moves matrices between shared memory and its registers. Unless it's overridden, it's shown as the lanes'
    /// loads and stores.
    fn matrices(&mut self, place: Place, matrices: MatrixAccess<'_>) {
        matrices.by_lanes(|access| self.access(place, access));
    }

    /// A warpgroup begins a product; the place names its first warp. Fences, commits and waits of products are
    /// [`instruction`](Observer::instruction)s.
    fn warpgroup_product(&mut self, _place: Place, _product: WarpgroupProduct<'_>) {}

    /// The lanes of a warp arrive at a barrier of the block.
    fn barrier_arrives(&mut self, _place: Place, _barrier: u32, _lanes: u32) {}

    /// A barrier of the block is complete and its threads go on.
    fn barrier_completes(&mut self, _block: u64, _barrier: u32) {}

    /// The lanes of a warp arrive at the barrier of their cluster; unless it `releases`, what they did before needn't be done
    /// for those who wait there.
    fn cluster_barrier_arrives(&mut self, _place: Place, _lanes: u32, _releases: bool) {}

    /// The barrier of the cluster that the block is in is complete.
    fn cluster_barrier_completes(&mut self, _block: u64) {}

    /// The lanes of a warp go on that have waited at the barrier of their cluster.
    fn cluster_barrier_waited(&mut self, _place: Place, _lanes: u32) {}

    /// The lanes of a warp have synchronised with each other: `bar.warp.sync`. Votes, shuffles and the other `.sync`
    /// instructions exchange registers and order no memory, so they aren't named here.
    fn warp_synchronises(&mut self, _place: Place, _lanes: u32) {}

    /// A warp begins asynchronous copies. They happen later. Unless it's overridden, they're shown as loads and stores.
    fn copy_begins(&mut self, place: Place, copy: AsyncCopy<'_>) {
        if copy.readable != 0 {
            self.access(place, copy.reads());
        }
        self.access(place, copy.writes());
    }

    /// The lanes of a warp wait for copies, at `place`; the copies that are done by that follow.
    fn copies_awaited(&mut self, _place: Place, _lanes: u32) {}

    /// Copies that began at `place` are done: their threads have waited for them, or the mbarrier that they arrive at is
    /// being asked.
    fn copy_completes(&mut self, _place: Place, _copy: AsyncCopy<'_>) {}

    /// Copies that began at `place` were still under way when their threads exited, or when the block ended.
    fn copy_abandoned(&mut self, _place: Place, _copy: AsyncCopy<'_>) {}

    /// A lane begins a bulk copy. It happens later. Unless it's overridden, it's shown as loads and stores.
    fn bulk_copy_begins(&mut self, place: Place, copy: BulkCopy<'_>) {
        copy.accesses(MemorySpace::Shared, |access| self.access(place, access));
        copy.accesses(MemorySpace::Global, |access| self.access(place, access));
    }

    /// The lanes of a warp wait for bulk stores, at `place`; what is done by that follows.
    fn bulk_stores_awaited(&mut self, _place: Place, _lanes: u32) {}

    /// A bulk store that began at `place` has read its source: its thread has waited for that.
    fn bulk_store_has_read(&mut self, _place: Place, _copy: BulkCopy<'_>) {}

    /// A bulk copy that began at `place` is done. A load is, because the mbarrier that counts its bytes is being asked; the
    /// mbarrier learns of it next.
    fn bulk_copy_completes(&mut self, _place: Place, _copy: BulkCopy<'_>) {}

    /// A bulk copy that began at `place` was still under way when its thread exited, or when the block ended.
    fn bulk_copy_abandoned(&mut self, _place: Place, _copy: BulkCopy<'_>) {}

    /// The lanes of a warp begin asynchronous stores to shared memory of the cluster. They happen later. Unless it's
    /// overridden, they're shown as a store.
    fn async_stores_begin(&mut self, place: Place, stores: Access<'_>) {
        self.access(place, stores);
    }

    /// An asynchronous store that began at `place` is done, as the mbarrier that counts its bytes is being asked; the
    /// mbarrier learns of it next. What is stored isn't shown again.
    fn async_stores_complete(&mut self, _place: Place, _stores: Access<'_>) {}

    /// Asynchronous stores that began at `place` were still under way when their cluster ended.
    fn async_stores_abandoned(&mut self, _place: Place, _stores: Access<'_>) {}

    /// Something happens to the mbarrier at an address in shared memory, by one lane of a warp.
    fn mbarrier(&mut self, _place: Place, _lane: u32, _address: u64, _event: MbarrierEvent) {}

    /// An instruction did what it mustn't; the error names one lane. An observer that answers `true` has taken note, and
    /// the launch goes on as well as it can: a bad access is left out for that lane alone (a load gives bytes of
    /// `0xff`), any other fault ends its block, and a warp at its instruction limit ends the launch, which then counts
    /// as successful. With `false`, the default, the fault ends the launch as it does without an observer.
    fn fault(&mut self, _place: Place, _error: &LaunchError) -> bool {
        false
    }
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
