//! # Lesson 20: k shared out over the warps

use crate::async_copies::Copies;
use crate::launch::{Architecture, Kernel, LaunchShape, Precision, Registers, Signature, Tile};
use crate::register_column::first_element;
use crate::register_tile::add_outer_product;
use crate::vector_loads::{Matrices, Vector, GROUP, OUTPUTS, THREADS};
use crate::wide_tile::{after, place, vectors};
use cuda_std::*;
use kernel_common::copies::wait_group;
use kernel_common::vectors::shared_address;

/// Rows of a block's tile of C, which is every warp's tile too.
pub const ROWS: usize = 4 * OUTPUTS;
/// Columns of a block's tile of C.
pub const COLUMNS: usize = 8 * OUTPUTS;
/// Columns of A's tile and rows of B's: the products of one step.
pub const DEPTH: usize = 32;
/// Pairs of tiles in shared memory.
pub const STAGES: usize = 3;
/// Warps of a block.
const WARPS: usize = THREADS / 32;
/// Places of k, in every step, that are a warp's own.
const SLICE: usize = DEPTH / WARPS;
/// Rows from a thread's first four to its second four, and columns.
const ROWS_APART: usize = ROWS / 2;
const COLUMNS_APART: usize = COLUMNS / 2;

/// Bytes from one row of A's transposed tile to the next, and of B's.
const ROW_A: u32 = ((ROWS + GROUP) * size_of::<f32>()) as u32;
const ROW_B: u32 = (COLUMNS * size_of::<f32>()) as u32;
/// Bytes of a stage: A's tile, and B's behind it.
const TILE_A: u32 = DEPTH as u32 * ROW_A;
const STAGE: u32 = TILE_A + DEPTH as u32 * ROW_B;
/// Words of all stages.
const WORDS: usize = STAGES * STAGE as usize / size_of::<f32>();

/// What the host needs to know to launch [`k_slices`].
pub const KERNEL: Kernel = Kernel {
    name: "k_slices",
    title: "small tiles, and every warp of a block has its own eighth of k",
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
    let memory = shared_array![f32; WORDS];
    let matrices = Matrices { a, b, c, m, n, k };
    if matrices.are_aligned() {
        pipeline::<true>(&matrices, memory);
    } else {
        pipeline::<false>(&matrices, memory);
    }
}

/// The kernel's work, with 16-byte copies and stores in global memory or without.
#[inline(always)]
unsafe fn pipeline<const ALIGNED: bool>(matrices: &Matrices, memory: *mut f32) {
    let first = first_element(ROWS, COLUMNS);
    let (y, x) = place::<ROWS, COLUMNS>(0, 1);
    let warp = thread::thread_idx_x() as usize / 32;
    let stages = shared_address(memory);
    let mut copies = Copies::<ROWS, COLUMNS, DEPTH, ALIGNED>::new(matrices, first);
    for stage in 0..STAGES as u32 - 1 {
        copies.start(stages + stage * STAGE);
    }

    let own = (warp * SLICE) as u32;
    let (offset_a, offset_b) = (own * ROW_A + y as u32 * 4, TILE_A + own * ROW_B + x as u32 * 4);
    let mut sums = [[0.0; OUTPUTS]; OUTPUTS];
    let (mut present, mut next) = (stages, stages + (STAGES as u32 - 1) * STAGE);
    while copies.had_more(STAGES - 1) {
        wait_group::<{ STAGES - 2 }>();
        thread::sync_threads();
        copies.start(next);
        for i in 0..SLICE as u32 {
            let a_column = vectors::<OUTPUTS, ROWS_APART>(present + offset_a + i * ROW_A);
            let b_row = vectors::<OUTPUTS, COLUMNS_APART>(present + offset_b + i * ROW_B);
            add_outer_product(&a_column, &b_row, &mut sums);
        }
        (present, next) = (after::<STAGES, STAGE>(present, stages), after::<STAGES, STAGE>(next, stages));
    }
    // The copies after the last tiles bring zeros, and may still be on their way to what is now used for the sums.
    wait_group::<0>();

    for half in 0..2 {
        // Everybody is through with the tiles, or with the first half.
        thread::sync_threads();
        let sums = &sums[half * GROUP..][..GROUP];
        for r in 0..GROUP {
            for group in 0..OUTPUTS / GROUP {
                let mut vector = Vector([0.0; GROUP]);
                for s in 0..GROUP {
                    vector.0[s] = sums[r][group * GROUP + s];
                }
                *part(memory, warp, r * 2 + group) = vector;
            }
        }
        thread::sync_threads();

        let (r, group) = (warp / 2, warp % 2);
        let mut total = [0.0; GROUP];
        for of_warp in 0..WARPS {
            let Vector(elements) = *part(memory, of_warp, warp);
            for s in 0..GROUP {
                total[s] += elements[s];
            }
        }
        let (row, column) = (half * ROWS_APART + r, group * COLUMNS_APART);
        matrices.store::<ALIGNED, 0, 0, _, _>((first.0 + y + row, first.1 + x + column), &[total]);
    }
}

/// Where the sums of warp `warp` for this lane's vector of that number are.
#[inline(always)]
unsafe fn part(memory: *mut f32, warp: usize, number: usize) -> *mut Vector {
    let lane = thread::thread_idx_x() as usize % 32;
    memory.cast::<Vector>().add((warp * WARPS + number) * 32 + lane)
}
