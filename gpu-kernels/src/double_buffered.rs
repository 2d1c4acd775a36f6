//! # Lesson 13: load the next tiles while multiplying these
//!
//! So far every step goes through the same motions: load, wait until global memory has answered, barrier, multiply,
//! barrier. A load from global memory takes hundreds of cycles, and all warps of a block come to it together; with two
//! blocks in a multiprocessor there is often nobody left who could compute meanwhile. This lesson asks for the next
//! tiles before it multiplies the present ones:
//!
//! ```text
//!   before:   load 0 ... | multiply 0 | load 1 ... | multiply 1 |         ... is waiting
//!   here:     load 0 ... | load 1     | load 2     | load 3     |
//!                        | multiply 0 | multiply 1 | multiply 2 |
//! ```
//!
//! The loads of step s + 1 go to registers, 8 of each thread. Nobody needs them until the 512 multiply-adds of step s
//! are through, 128 cycles for a warp that has its scheduler to itself and longer for those that share it, and only
//! then are they stored to shared memory.
//!
//! ## Two stages, one barrier
//!
//! Stored where? Others may still be reading the tiles of step s. So there are two pairs of tiles, *stages*, and step s
//! reads stage s mod 2 and writes the other one. Take a fast thread and a slow one again:
//!
//! - The fast one is through with step s and stores tiles s + 1 in stage (s + 1) mod 2. That stage was last read in
//!   step s - 1, and between lies the barrier at the end of step s - 1, so the slow thread has read it.
//! - The fast one may read what the slow one stores only after the barrier at the end of step s.
//!
//! One barrier a step keeps both, where one stage needs two.
//!
//! ## What it costs
//!
//! 16,640 bytes of shared memory instead of 8,320, and 8 registers for what is on its way. Two blocks of 256 threads
//! leave each thread 128 registers, and the assembler alone would take more on some GPUs: then a multiprocessor holds
//! one block, and one block's barrier leaves it idle. So this file says that two must fit ([`Registers::ForBlocks`]).
//! It's a promise to keep an eye on: what doesn't fit into registers goes to local memory, in the innermost loop.
//!
//! The last step loads nothing: the tile after the last lies past the edge of A and of B, and elements past an edge are
//! zeros that nobody asks memory for.
//!
//! ## What limits it next
//!
//! The reads of shared memory: 12 passes over the banks for 16 cycles of multiply-adds, as in the lesson before, which
//! [`warp_tiled`](crate::warp_tiled) brings down to 8.
//!
//! ## Measured
//!
//! On an H200 46.4 TFLOP/s at N = 4096 and 21.6 at N = 1024, 93 % and 58 % of cuBLAS (f32 without TF32) in the same
//! run; [without](crate::vector_loads): 37.7 and 15.8.

use crate::launch::{Architecture, Kernel, LaunchShape, Precision, Registers, Signature, Tile};
use crate::register_column::first_element;
use crate::vector_loads::{multiply, Matrices, Share, DEPTH, GROUP, OUTPUTS, ROW_A, THREADS, TILE};
use cuda_std::*;

/// Pairs of tiles in shared memory: one to read from, one to write to.
pub const STAGES: usize = 2;
/// Words of A's tiles in all stages.
pub(crate) const WORDS_A: usize = STAGES * DEPTH * ROW_A;
/// Words of B's tiles in all stages.
pub(crate) const WORDS_B: usize = STAGES * DEPTH * TILE;
/// Threads along each side of the tile.
const SIDE: usize = TILE / OUTPUTS;
/// Rows, and columns, from a thread's first four to its second four.
const APART: usize = TILE / 2;

/// What the host needs to know to launch [`double_buffered`].
pub const KERNEL: Kernel = Kernel {
    name: "double_buffered",
    title: "the next tiles are loaded during the products, one barrier a step",
    entry: "double_buffered",
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

/// C = A B, a TILE x TILE tile of C per block and OUTPUTS x OUTPUTS elements of it per thread.
///
/// # Safety
///
/// `a`, `b` and `c` must point to `m * k`, `k * n` and `m * n` elements in memory that the GPU can reach, `c` apart
/// from the other two, and the launch must have the shape that [`launch_shape`] gives.
#[kernel]
pub unsafe fn double_buffered(a: *const f32, b: *const f32, c: *mut f32, m: usize, n: usize, k: usize) {
    let tiles = (shared_array![f32; WORDS_A], shared_array![f32; WORDS_B]);
    let thread = thread::thread_idx_x() as usize;
    let place = (thread / SIDE * GROUP, thread % SIDE * GROUP);
    product::<APART, APART>(&Matrices { a, b, c, m, n, k }, tiles, place);
}

/// The kernel's work, for a thread whose outputs begin at `place`, row and column, of the block's tile and are in
/// groups so far apart; [`warp_tiled`](crate::warp_tiled) is this too.
///
/// # Safety
///
/// As for [`double_buffered`], with shared arrays of WORDS_A and WORDS_B.
#[inline(always)]
pub(crate) unsafe fn product<const ROWS_APART: usize, const COLUMNS_APART: usize>(
    matrices: &Matrices,
    tiles: (*mut f32, *mut f32),
    place: (usize, usize),
) {
    if matrices.are_aligned() {
        pipeline::<true, ROWS_APART, COLUMNS_APART>(matrices, tiles, place);
    } else {
        pipeline::<false, ROWS_APART, COLUMNS_APART>(matrices, tiles, place);
    }
}

/// The steps, with 16-byte loads and stores in global memory or without.
#[inline(always)]
unsafe fn pipeline<const ALIGNED: bool, const ROWS_APART: usize, const COLUMNS_APART: usize>(
    matrices: &Matrices,
    (tiles_a, tiles_b): (*mut f32, *mut f32),
    (y, x): (usize, usize),
) {
    let first = first_element(TILE, TILE);
    let stage = |step: usize| (tiles_a.add(step % STAGES * DEPTH * ROW_A), tiles_b.add(step % STAGES * DEPTH * TILE));

    // The first tiles: nothing to compute meanwhile.
    let (tile_a, tile_b) = stage(0);
    Share::load::<ALIGNED>(matrices, first, 0).store::<ALIGNED>(tile_a, tile_b);
    thread::sync_threads();

    let mut sums = [[0.0; OUTPUTS]; OUTPUTS];
    for step in 0..matrices.k.div_ceil(DEPTH) {
        // On its way while the products are computed. After the last step it lies past the edge: nothing is loaded.
        let next = Share::load::<ALIGNED>(matrices, first, step + 1);

        let (tile_a, tile_b) = stage(step);
        multiply::<ROWS_APART, COLUMNS_APART>(tile_a.add(y), tile_b.add(x), &mut sums);

        // Into the other stage, which was read last before the last barrier.
        let (tile_a, tile_b) = stage(step + 1);
        next.store::<ALIGNED>(tile_a, tile_b);
        thread::sync_threads();
    }
    matrices.store::<ALIGNED, ROWS_APART, COLUMNS_APART, _, _>((first.0 + y, first.1 + x), &sums);
}
