//! # Lesson 20: k shared out over the warps
//!
//! The best of tiles is of no use if there are only a few of them. N = 512 has 8 tiles of 128 x 256, for 132
//! multiprocessors. To keep 132 of them busy a tile must be small, 32 x 64 for instance:
//!
//! | N = 512 | tiles | multiprocessors at work | outputs of each of 256 threads | reads for a multiply-add |
//! |---|---|---|---|---|
//! | 128 x 256 | 8 | 6 % | 16 x 8 | 6 / 128 |
//! | 32 x 64 | 128 | 97 % | 8 x 1 | 3 / 8 |
//! | 32 x 64, k shared out | 128 | 97 % | **8 x 8** | 4 / 64 |
//!
//! In the second row a thread has next to nothing to do, and reads shared memory for every third multiply-add: with
//! small tiles we're back where [`tiled_32`](crate::tiled_32) was. Unless there's something else to share out among
//! warps than the tile's area. There is: k. Every warp computes the *whole* tile, 8 x 8 outputs for each lane, for its
//! own places of k. A step has 32 of them, warp w has places 4 w to 4 w + 3, and at the end there are eight sums for
//! every output, to be added up:
//!
//! ```text
//!   C tile = A columns 0..3 by B rows 0..3    warp 0
//!          + A columns 4..7 by B rows 4..7    warp 1
//!            ...
//!          + A columns 28..31 by B rows 28..31   warp 7,      and so on for the next 32 places
//! ```
//!
//! Copies, stages and barriers are those of [`multi_stage`](crate::multi_stage); all warps need the same tiles, so one
//! copy serves them all.
//!
//! ## Adding up
//!
//! Eight warps times 32 x 64 sums are 64 KiB, more than the three stages have, and after the last step these are free.
//! So it's done in two halves: every lane stores four of its eight rows, 8 vectors; warp v adds up what the eight warps
//! have stored for vector v of each lane, and stores the totals in C. Lanes keep their places all the way, so vectors
//! stand side by side in shared memory, and there are no bank conflicts.
//!
//! The order is always that of the warps. Sums in floating point depend on the order, and adding with atomics, whoever
//! comes first, would give other last bits in every run; this gives the same.
//!
//! One thing is easily forgotten: the copies after the last tiles. They bring zeros that nobody wants, but they are on
//! their way, and what is stored under them is lost. So they are waited for before the sums are stored.
//!
//! ## What it costs
//!
//! Adding up takes 64 stores and 64 reads of 4 bytes for each thread, whatever k is: little beside k / 8 times 64
//! multiply-adds, unless k is small. A step is short, 256 multiply-adds of a thread between two barriers, and of its
//! instructions 79 of 100 are multiply-adds on an H200. And C's tile is small: k / 32 + k / 64 elements loaded for each
//! output, four times as many as with 128 x 256. The matrices are small as well, so they come from the second-level
//! cache.
//!
//! ## What comes after
//!
//! Sharing k out goes on above the block. A deep product with a small C, 64 x 64 with k = 65,536, has two tiles here:
//! then several *blocks* have to take a part of k each, and a second kernel adds up. And between this and
//! [`wide_tile`](crate::wide_tile) lie many shapes of tile, each the best for some products. No file of this book is
//! the fastest for all of them. `gpu-kernels/production` is all of these ideas in one generic body, made into a kernel
//! for every shape that is worth it, and `gemm` picks.
//!
//! ## Measured
//!
//! On an H200 25.4 TFLOP/s at N = 512, 30.2 at N = 1024 and 33.3 at N = 4096, 121 %, 85 % and 65 % of cuBLAS (f32 without
//! TF32) in the same run; [`split_barrier`](crate::split_barrier): 2.98, 12.0 and 49.6. At N = 512 that's 8.5 times as much,
//! at N = 1024 2.5 times, and a third less where there are tiles enough for large ones.

use crate::async_copies::{Copies, WORD};
use crate::launch::{Architecture, Kernel, LaunchShape, Precision, Registers, Signature, Tile};
use crate::multi_stage::after;
use crate::register_column::first_element;
use crate::register_tile::add_outer_product;
use crate::vector_loads::{Matrices, Vector, GROUP, OUTPUTS, THREADS};
use crate::wide_tile::{place_in_warp, vectors};
use cuda_std::*;
use kernel_common::copies::wait_group;
use kernel_common::vectors::{load_shared, shared_address};

/// Rows of a block's tile of C, which is every warp's tile too.
pub const ROWS: usize = 4 * OUTPUTS;
/// Columns of a block's tile of C.
pub const COLUMNS: usize = 8 * OUTPUTS;
/// Columns of A's tile and rows of B's: the products of one step, of all warps together.
pub const DEPTH: usize = 32;
/// Pairs of tiles in shared memory: one that is read, the others to copy to.
pub const STAGES: usize = 3;
/// Warps of a block.
const WARPS: usize = THREADS / 32;
/// Places of k, in every step, that are one warp's.
const SLICE: usize = DEPTH / WARPS;
/// Rows, and columns, from a thread's first four to its second four.
const ROWS_APART: usize = ROWS / 2;
const COLUMNS_APART: usize = COLUMNS / 2;

/// Bytes from one row of A's transposed tile to the next, and of B's tile.
const ROW_A: u32 = (ROWS + GROUP) as u32 * WORD;
const ROW_B: u32 = COLUMNS as u32 * WORD;
/// Bytes of A's tile, from the beginning of a stage.
const BYTES_A: u32 = DEPTH as u32 * ROW_A;
/// Bytes of a stage: A's tile, and B's behind it.
const STAGE: u32 = BYTES_A + DEPTH as u32 * ROW_B;

/// What the host needs to know to launch [`k_slices`].
pub const KERNEL: Kernel = Kernel {
    name: "k_slices",
    title: "small tiles, with k shared out over the warps of a block",
    entry: "k_slices",
    architecture: Architecture::Compute80,
    precision: Precision::F32,
    signature: Signature::Plain,
    tile: Tile { m: ROWS as u32, n: COLUMNS as u32, k: DEPTH as u32 },
    block: [THREADS as u32, 1, 1],
    registers: Registers::ForBlocks(1),
    shared_bytes: STAGES as u32 * STAGE,
    launch_shape,
};

/// One block of THREADS threads per tile of C.
pub fn launch_shape(m: usize, n: usize, _k: usize) -> Option<LaunchShape> {
    LaunchShape::over_tiles(m, n, KERNEL.tile, KERNEL.block)
}

/// C = A B, a ROWS x COLUMNS tile of C per block.
///
/// # Safety
///
/// `a`, `b` and `c` must point to `m * k`, `k * n` and `m * n` elements in memory that the GPU can reach, `c` apart
/// from the other two, and the launch must have the shape that [`launch_shape`] gives.
#[kernel]
pub unsafe fn k_slices(a: *const f32, b: *const f32, c: *mut f32, m: usize, n: usize, k: usize) {
    let stages = shared_array![f32; STAGES * STAGE as usize / size_of::<f32>()];
    let matrices = Matrices { a, b, c, m, n, k };
    if matrices.are_aligned() {
        pipeline::<true>(&matrices, stages);
    } else {
        pipeline::<false>(&matrices, stages);
    }
}

/// The kernel's work, with 16-byte copies of B and stores of C or without.
#[inline(always)]
unsafe fn pipeline<const ALIGNED: bool>(matrices: &Matrices, stages: *mut f32) {
    let first = first_element(ROWS, COLUMNS);
    let warp = thread::thread_idx_x() as usize / 32;
    let (y, x) = place_in_warp();
    let first_stage = shared_address(stages);
    let mut copies = Copies::<ROWS, COLUMNS, DEPTH, ALIGNED>::new(matrices, first);
    for stage in 0..STAGES as u32 - 1 {
        copies.start(first_stage + stage * STAGE);
    }

    // Where this thread's elements begin in a stage: those of its outputs, in its warp's slice.
    let slice = (warp * SLICE) as u32;
    let (from_a, from_b) = (slice * ROW_A + y as u32 * WORD, BYTES_A + slice * ROW_B + x as u32 * WORD);
    let mut sums = [[0.0; OUTPUTS]; OUTPUTS];
    let (mut present, mut next) = (first_stage, first_stage + (STAGES as u32 - 1) * STAGE);
    while copies.had_more(STAGES - 1) {
        wait_group::<{ STAGES - 2 }>();
        thread::sync_threads();
        copies.start(next);
        for i in 0..SLICE as u32 {
            let a_column = vectors::<OUTPUTS, ROWS_APART>(present + from_a + i * ROW_A);
            let b_row = vectors::<OUTPUTS, COLUMNS_APART>(present + from_b + i * ROW_B);
            add_outer_product(&a_column, &b_row, &mut sums);
        }
        present = after::<STAGES, STAGE>(present, first_stage);
        next = after::<STAGES, STAGE>(next, first_stage);
    }
    // The zeros after the last tiles are on their way to where the sums are going to be.
    wait_group::<0>();

    let lane = thread::thread_idx_x() as usize % 32;
    let sums_of = |warp: usize, vector: usize| stages.cast::<Vector>().add((warp * VECTORS + vector) * 32 + lane);
    for half in 0..OUTPUTS / GROUP {
        // Everybody is through with the tiles, or with the first half.
        thread::sync_threads();
        for vector in 0..VECTORS {
            let (r, group) = (vector / 2, vector % 2);
            let mut own = [0.0; GROUP];
            for s in 0..GROUP {
                own[s] = sums[half * GROUP + r][group * GROUP + s];
            }
            *sums_of(warp, vector) = Vector(own);
        }
        thread::sync_threads();

        // There are as many vectors as warps: vector `warp` of this lane, added up in the order of the warps.
        let mut totals = [0.0; GROUP];
        for of_warp in 0..WARPS {
            // Whole, though not all four may be inside C: through the pointer the compiler would read some of them only
            // where they are.
            let part = load_shared(shared_address(sums_of(of_warp, warp)));
            for s in 0..GROUP {
                totals[s] += part[s];
            }
        }
        let (r, group) = (warp / 2, warp % 2);
        let place = (first.0 + y + half * ROWS_APART + r, first.1 + x + group * COLUMNS_APART);
        matrices.store::<ALIGNED, 0, 0, _, _>(place, &[totals]);
    }
}

/// Vectors in half of a thread's sums: GROUP rows, two in each.
const VECTORS: usize = GROUP * OUTPUTS / GROUP;
