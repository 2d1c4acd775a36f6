//! # Lesson 14: which lanes share what they read
//!
//! [`double_buffered`](crate::double_buffered) with other places for its threads, and nothing else: what a thread
//! computes, loads and stores to shared memory stays the same, but not *where* its 8 x 8 outputs lie.
//!
//! ## Pairs
//!
//! Four 16-byte reads make 64 multiply-adds, and in the two lessons before they take 12 passes over the banks. A read
//! of 16 bytes is served a quarter of a warp at a time, four passes for a warp, unless the lanes come in pairs: if
//! throughout the warp lane l reads what lane l ^ 1 reads, or throughout what lane l ^ 2 reads, half a warp goes at a
//! time and two passes do. (So an H200 counts. Other GPUs may have other rules.) There, lanes 0 to 15 had 16 different
//! columns: no pairs in B, four passes for each of its two reads, and two for each of A's.
//!
//! With the bits of the lane's number shared out, every read has its pairs:
//!
//! ```text
//!   bits of a lane's number                            the lanes of a warp, 4 rows and 8 columns:
//!     4 3     2 1     0                                   0  1 |  8  9 | 16 17 | 24 25
//!    column   row   column                                2  3 | 10 11 | 18 19 | 26 27
//!                                                         4  5 | 12 13 | 20 21 | 28 29
//!   A's elements depend on the row: l and l ^ 1 agree     6  7 | 14 15 | 22 23 | 30 31
//!   B's depend on the column: l and l ^ 2 agree
//! ```
//!
//! | for one i, a warp | `double_buffered` | here |
//! |---|---|---|
//! | reads of A's tile | 2, of 2 passes | 2, of 2 passes |
//! | reads of B's tile | 2, of **4** passes | 2, of 2 passes |
//! | passes for 64 multiply-adds | 12 | **8** |
//!
//! A multiprocessor issues 4 multiply-adds of a warp per cycle and makes one pass, so 64 of them take 16 cycles: the
//! banks are busy in half of these instead of three quarters, and a read waits less often for another warp's.
//!
//! ## The warp's tile
//!
//! 4 x 8 lanes with 8 x 8 outputs each are a tile of 32 x 64. For one i the warp reads 32 + 64 different elements for
//! its 2048 multiply-adds, where the same lanes in 2 rows and 16 columns need 16 + 128. The nearer a tile is to a
//! square, the less it needs, as with the block's tile in global memory: the third level of the same idea, after
//! blocks and threads.
//!
//! Within the half of a warp that is served at a time, the different vectors lie side by side in the tile's row: at
//! most 4 of them, in 16 banks. No conflict.
//!
//! ## What limits it next
//!
//! Of the loop's instructions on an H200, 86 of 100 are multiply-adds. The rest are 32 reads of shared memory a step,
//! and some 50 that move the tiles on: loads, stores, addresses, edges, the barrier. A deeper tile has fewer steps, and
//! copies from global to shared memory without a detour through registers, as GPUs of compute capability 8.0 and later
//! have them, take their instructions and their registers away.
//!
//! ## Measured
//!
//! On an H200 46.4 TFLOP/s at N = 4096 and 21.7 at N = 1024, 93 % and 59 % of cuBLAS (f32 without TF32) in the same
//! run; [without](crate::double_buffered): 46.4 and 21.6. The passes saved were not what limited it.

use crate::double_buffered::{product, WORDS_A, WORDS_B};
use crate::launch::{Architecture, Kernel, LaunchShape, Precision, Registers, Signature, Tile};
use crate::vector_loads::{Matrices, DEPTH, GROUP, OUTPUTS, THREADS, TILE};
use cuda_std::*;

/// Lanes of a warp from top to bottom of its tile.
const LANE_ROWS: usize = 4;
/// Lanes of a warp from left to right of its tile.
const LANE_COLUMNS: usize = 8;
/// Rows of a warp's tile of C.
pub const WARP_ROWS: usize = LANE_ROWS * OUTPUTS;
/// Columns of a warp's tile of C.
pub const WARP_COLUMNS: usize = LANE_COLUMNS * OUTPUTS;
/// Rows from a thread's first four to its second four.
pub(crate) const ROWS_APART: usize = WARP_ROWS / 2;
/// Columns from a thread's first four to its second four.
pub(crate) const COLUMNS_APART: usize = WARP_COLUMNS / 2;
/// Warps of a block from left to right of its tile.
const WARPS_WIDE: usize = TILE / WARP_COLUMNS;

/// What the host needs to know to launch [`warp_tiled`].
pub const KERNEL: Kernel = Kernel {
    name: "warp_tiled",
    title: "a tile of 32 x 64 for each warp, its lanes in pairs both ways",
    entry: "warp_tiled",
    architecture: Architecture::Compute70,
    precision: Precision::F32,
    signature: Signature::Plain,
    tile: Tile { m: TILE as u32, n: TILE as u32, k: DEPTH as u32 },
    block: [THREADS as u32, 1, 1],
    registers: Registers::ForBlocks(2),
    shared_bytes: ((WORDS_A + WORDS_B) * size_of::<f32>()) as u32,
    launch_shape,
};

/// One block of THREADS threads per tile of C.
pub fn launch_shape(m: usize, n: usize, _k: usize) -> Option<LaunchShape> {
    LaunchShape::over_tiles(m, n, KERNEL.tile, KERNEL.block)
}

/// C = A B, a TILE x TILE tile of C per block, WARP_ROWS x WARP_COLUMNS of it per warp and OUTPUTS x OUTPUTS per
/// thread.
///
/// # Safety
///
/// `a`, `b` and `c` must point to `m * k`, `k * n` and `m * n` elements in memory that the GPU can reach, `c` apart
/// from the other two, and the launch must have the shape that [`launch_shape`] gives.
#[kernel]
pub unsafe fn warp_tiled(a: *const f32, b: *const f32, c: *mut f32, m: usize, n: usize, k: usize) {
    let tiles = (shared_array![f32; WORDS_A], shared_array![f32; WORDS_B]);
    product::<ROWS_APART, COLUMNS_APART>(&Matrices { a, b, c, m, n, k }, tiles, place());
}

/// Where this thread's outputs begin, row and column, in the block's tile.
#[inline(always)]
pub(crate) fn place() -> (usize, usize) {
    let thread = thread::thread_idx_x() as usize;
    let (warp, lane) = (thread / 32, thread % 32);
    // Bits 1 and 2 of the lane's number are its row, bits 0, 3 and 4 its column.
    let (lane_row, lane_column) = (lane / 2 % 4, lane % 2 + lane / 8 * 2);
    (warp / WARPS_WIDE * WARP_ROWS + lane_row * GROUP, warp % WARPS_WIDE * WARP_COLUMNS + lane_column * GROUP)
}
