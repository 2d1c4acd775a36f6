//! # Lesson 17: a wide tile

use crate::async_copies::Copies;
use crate::launch::{Architecture, Kernel, LaunchShape, Precision, Registers, Signature, Tile};
use crate::register_column::first_element;
use crate::register_tile::add_outer_product;
use crate::vector_loads::{Matrices, GROUP, THREADS};
use cuda_std::*;
use kernel_common::copies::wait_group;
use kernel_common::vectors::{dynamic_shared_memory, load_shared};

/// Rows of a block's tile of C.
pub const ROWS: usize = 128;
/// Columns of a block's tile of C.
pub const COLUMNS: usize = 256;
/// Columns of A's tile and rows of B's: the products of one step.
pub const DEPTH: usize = 16;
/// Pairs of tiles in shared memory.
pub const STAGES: usize = 3;
/// Rows of C that a thread has elements of.
pub const OUTPUT_ROWS: usize = 16;
/// Columns of C that a thread has elements of.
pub const OUTPUT_COLUMNS: usize = 8;
/// In how many portions a thread starts a step's copies.
pub(crate) const PORTIONS: usize = 4;

pub(crate) const WARP_ROWS: usize = 4 * OUTPUT_ROWS;
pub(crate) const WARP_COLUMNS: usize = 8 * OUTPUT_COLUMNS;
/// Rows from one of a thread's groups of four to the next, and columns.
pub(crate) const ROWS_APART: usize = WARP_ROWS * GROUP / OUTPUT_ROWS;
pub(crate) const COLUMNS_APART: usize = WARP_COLUMNS * GROUP / OUTPUT_COLUMNS;

/// Bytes from one row of A's transposed tile to the next.
pub(crate) const ROW_A: u32 = ((ROWS + GROUP) * size_of::<f32>()) as u32;
pub(crate) const ROW_B: u32 = (COLUMNS * size_of::<f32>()) as u32;
/// Bytes of a stage: A's tile, and B's behind it.
pub(crate) const TILE_A: u32 = DEPTH as u32 * ROW_A;
pub(crate) const STAGE: u32 = TILE_A + DEPTH as u32 * ROW_B;

/// What the host needs to know to launch [`wide_tile`].
pub const KERNEL: Kernel = Kernel {
    name: "wide_tile",
    title: "16 x 8 outputs for each thread, one block for each multiprocessor",
    entry: "wide_tile",
    architecture: Architecture::Compute80,
    precision: Precision::F32,
    signature: Signature::Plain,
    tile: Tile { m: ROWS as u32, n: COLUMNS as u32, k: DEPTH as u32 },
    block: [THREADS as u32, 1, 1],
    registers: Registers::ForBlocks(1),
    shared_bytes: 0,
    launch_shape,
};

/// One block of THREADS threads per tile of C.
pub fn launch_shape(m: usize, n: usize, _k: usize) -> Option<LaunchShape> {
    let shape = LaunchShape::over_tiles(m, n, KERNEL.tile, KERNEL.block)?;
    Some(LaunchShape { dynamic_shared_bytes: STAGES as u32 * STAGE, ..shape })
}

/// C = A B, a ROWS x COLUMNS tile of C per block and OUTPUT_ROWS x OUTPUT_COLUMNS elements of it per thread.
///
/// # Safety
///
/// `a`, `b` and `c` must point to `m * k`, `k * n` and `m * n` elements in memory that the GPU can reach, `c` apart
/// from the other two, and the launch must have the shape that [`launch_shape`] gives.
#[kernel]
pub unsafe fn wide_tile(a: *const f32, b: *const f32, c: *mut f32, m: usize, n: usize, k: usize) {
    let matrices = Matrices { a, b, c, m, n, k };
    if matrices.are_aligned() {
        pipeline::<true>(&matrices);
    } else {
        pipeline::<false>(&matrices);
    }
}

/// The kernel's work, with 16-byte copies and stores in global memory or without.
#[inline(always)]
unsafe fn pipeline<const ALIGNED: bool>(matrices: &Matrices) {
    let first = first_element(ROWS, COLUMNS);
    let (y, x) = place::<WARP_ROWS, WARP_COLUMNS>(thread::thread_idx_x() as usize / 32, COLUMNS / WARP_COLUMNS);
    let stages = dynamic_shared_memory();
    let mut copies = Copies::<ROWS, COLUMNS, DEPTH, ALIGNED>::new(matrices, first);
    for stage in 0..STAGES as u32 - 1 {
        copies.start(stages + stage * STAGE);
    }

    let mut sums = [[0.0; OUTPUT_COLUMNS]; OUTPUT_ROWS];
    let (mut present, mut next) = (stages, stages + (STAGES as u32 - 1) * STAGE);
    while copies.had_more(STAGES - 1) {
        wait_group::<{ STAGES - 2 }>();
        thread::sync_threads();

        let (from_a, from_b) = (present + y as u32 * 4, present + TILE_A + x as u32 * 4);
        let mut a_column = vectors::<OUTPUT_ROWS, ROWS_APART>(from_a);
        let mut b_row = vectors::<OUTPUT_COLUMNS, COLUMNS_APART>(from_b);
        for i in 0..DEPTH {
            if i % 2 == 0 && i / 2 < PORTIONS {
                copies.start_portion::<PORTIONS>(i / 2, next);
            }
            let (a_now, b_now) = (a_column, b_row);
            if i + 1 < DEPTH {
                a_column = vectors::<OUTPUT_ROWS, ROWS_APART>(from_a + (i as u32 + 1) * ROW_A);
                b_row = vectors::<OUTPUT_COLUMNS, COLUMNS_APART>(from_b + (i as u32 + 1) * ROW_B);
            }
            add_outer_product(&a_now, &b_now, &mut sums);
        }
        copies.advance();
        present = after::<STAGES, STAGE>(present, stages);
        next = after::<STAGES, STAGE>(next, stages);
    }
    wait_group::<0>();
    matrices.store::<ALIGNED, ROWS_APART, COLUMNS_APART, _, _>((first.0 + y, first.1 + x), &sums);
}

/// The stage after one, around the ring.
#[inline(always)]
pub(crate) fn after<const STAGES: usize, const BYTES: u32>(stage: u32, first: u32) -> u32 {
    if stage == first + (STAGES as u32 - 1) * BYTES { first } else { stage + BYTES }
}

/// Where the outputs of this thread's lane begin, row and column, in the tile of C of a block whose warps have tiles of
/// ROWS x COLUMNS, `wide` side by side.
#[inline(always)]
pub(crate) fn place<const ROWS: usize, const COLUMNS: usize>(warp: usize, wide: usize) -> (usize, usize) {
    let lane = thread::thread_idx_x() as usize % 32;
    let (lane_row, lane_column) = (lane / 2 % 4, lane % 2 + lane / 8 * 2);
    (warp / wide * ROWS + lane_row * GROUP, warp % wide * COLUMNS + lane_column * GROUP)
}

/// Elements of a row of a tile: vectors that begin APART words from each other, from an address in shared memory on.
#[inline(always)]
pub(crate) unsafe fn vectors<const ELEMENTS: usize, const APART: usize>(from: u32) -> [f32; ELEMENTS] {
    let mut elements = [0.0; ELEMENTS];
    for vector in 0..ELEMENTS / GROUP {
        let four = load_shared(from + (vector * APART * size_of::<f32>()) as u32);
        for j in 0..GROUP {
            elements[vector * GROUP + j] = four[j];
        }
    }
    elements
}
