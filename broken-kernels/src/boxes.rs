//! What the kernels for Hopper have in common: who copies what, who multiplies, and where everything lies. No mistake is in
//! here.
//!
//! A and B are of bf16 and have tensor maps, C has one as well and a pointer. A block is one warpgroup. It has a tile of
//! [`SIDE`] x [`SIDE`] elements of C and takes [`SIDE`] places of k at a time, with two stages in shared memory and a barrier for
//! each. Its thread 0 asks for the copies.
//!
//! In those with clusters ([`Launch::Pairs`](crate::Launch::Pairs)) two blocks whose tiles of C stand side by side have the same tiles of A. They fetch these in turns, for
//! both, and have a second barrier for each stage, at which both say that they are through with it.

use cuda_std::*;
use kernel_common::barriers;
use kernel_common::vectors::dynamic_shared_memory;
use kernel_common::warpgroups::{across_k, along_k};

/// Rows and columns of a tile of C, and places of k in a step.
pub const SIDE: usize = 64;
/// Threads of a block.
pub const THREADS: usize = 128;
/// Columns of a box of C.
pub const C_COLUMNS: usize = 32;

/// Pairs of tiles in shared memory.
pub const STAGES: u32 = 2;
/// Bytes of a tile of A or B, and of a box of C: 64 rows of 128 bytes.
pub const BOX: u32 = 64 * 128;
/// Bytes of a stage: A's tile, then B's.
pub const STAGE: u32 = 2 * BOX;
/// Bytes of both boxes of a tile of C.
const STAGING: u32 = 2 * BOX;
/// What dynamic shared memory may lack of a multiple of 1024 at its beginning, where tiles begin.
const ALIGNMENT: u32 = 1024;
/// Dynamic shared memory of a block.
pub const SHARED_BYTES: u32 = STAGES * STAGE + STAGING + STAGES * 16 + ALIGNMENT;

/// The addresses of the tensor maps.
pub struct Maps {
    /// A's: boxes of 64 columns and 64 rows, chunks exchanged within 128 bytes.
    pub a: u64,
    /// B's: the same.
    pub b: u64,
    /// C's: boxes of 32 columns and 64 rows, chunks exchanged within 128 bytes.
    pub c: u64,
}

/// One thread of a block.
pub struct Worker {
    thread: u32,
    /// The first row and column of the block's tile.
    pub row: u32,
    pub column: u32,
    first: u32,
}

impl Worker {
    /// This thread, with the block's barriers made.
    ///
    /// # Safety
    ///
    /// All threads of the block must come here.
    #[inline(always)]
    pub unsafe fn new() -> Worker {
        let worker = Worker::here();
        if worker.copies() {
            for stage in 0..STAGES {
                barriers::initialise(worker.full(stage), 1);
            }
            barriers::show_to_copies();
        }
        thread::sync_threads();
        worker
    }

    /// This thread, of a block that has no barriers yet.
    #[inline(always)]
    pub fn here() -> Worker {
        let thread = thread::thread_idx_x();
        let first = dynamic_shared_memory().next_multiple_of(ALIGNMENT);
        let [column, row] = [thread::block_idx_x(), thread::block_idx_y()].map(|block| block * SIDE as u32);
        Worker { thread, row, column, first }
    }

    /// Whether it asks for copies.
    #[inline(always)]
    pub fn copies(&self) -> bool {
        self.thread == 0
    }

    /// The stage of a step: A's tile. B's is behind it.
    #[inline(always)]
    pub fn stage(&self, step: u32) -> u32 {
        self.first + step % STAGES * STAGE
    }

    /// The barrier of a step's stage.
    #[inline(always)]
    pub fn full(&self, step: u32) -> u32 {
        self.first + STAGES * STAGE + STAGING + step % STAGES * 8
    }

    /// The other barrier of a step's stage, in kernels that have one.
    #[inline(always)]
    pub fn empty(&self, step: u32) -> u32 {
        self.full(step) + STAGES * 8
    }

    /// The parity of the phase of a step.
    #[inline(always)]
    pub fn parity(&self, step: u32) -> u32 {
        step / STAGES % 2
    }

    /// The descriptors of a step's tiles.
    #[inline(always)]
    pub fn descriptors(&self, step: u32) -> (u64, u64) {
        (along_k(self.stage(step)), across_k(self.stage(step) + BOX, BOX))
    }

    /// The box for the columns of C from [`C_COLUMNS`] times `number` on.
    #[inline(always)]
    pub fn staging(&self, number: u32) -> u32 {
        self.first + STAGES * STAGE + number * BOX
    }

    /// The row of the tile, and its first column, where sum `at` of this thread is and, in the next column, its next.
    #[inline(always)]
    pub fn place(&self, at: usize) -> (u32, u32) {
        let (warp, lane) = (self.thread / 32, self.thread % 32);
        (warp * 16 + lane / 4 + (at % 4 / 2 * 8) as u32, (at / 4 * 8) as u32 + lane % 4 * 2)
    }

    /// The address in its box of the sum at that row and column of the tile.
    #[inline(always)]
    pub fn staged(&self, (row, column): (u32, u32)) -> u32 {
        let (number, within) = (column / C_COLUMNS as u32, column % C_COLUMNS as u32 * 4);
        self.staging(number) + row * 128 + ((within / 16) ^ (row % 8)) * 16 + within % 16
    }

    /// Where in C the sum at that row and column of the tile belongs, if it's inside.
    #[inline(always)]
    pub fn index(&self, (row, column): (u32, u32), m: usize, n: usize) -> Option<usize> {
        let (row, column) = ((self.row + row) as usize, (self.column + column) as usize);
        (row < m && column < n).then_some(row * n + column)
    }
}

/// Starts sums = A B, or sums += A B if `add` isn't 0, as a group of its own: the step of
/// [`Bf16x64`](kernel_common::warpgroups::Bf16x64), at the line of whoever writes this.
#[collapse_debuginfo(yes)]
macro_rules! multiply {
    ($sums:expr, $descriptors:expr, $add:expr) => {{
        let (sums, (a, b), add): (&mut [f32; 32], (u64, u64), u32) = ($sums, $descriptors, $add);
        kernel_common::step_of_a_warpgroup!(
            sums, a, b, add, "m64n64k16.f32.bf16.bf16", "2", "128", ", 0, 1",
            0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31
        );
    }};
}
pub(crate) use multiply;
