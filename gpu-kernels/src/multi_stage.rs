//! # Lesson 16: several steps ahead

use crate::async_copies::Copies;
use crate::launch::{Architecture, Kernel, LaunchShape, Precision, Registers, Signature, Tile};
use crate::register_column::first_element;
use crate::vector_loads::{multiply, Matrices, DEPTH, OUTPUTS, ROW_A, THREADS, TILE};
use crate::warp_tiled::{place, COLUMNS_APART, ROWS_APART};
use cuda_std::*;
use kernel_common::copies::wait_group;
use kernel_common::vectors::shared_address;

/// Pairs of tiles in shared memory: one that is read, the others being filled.
pub const STAGES: usize = 4;
/// Words of one stage's tile of A.
const WORDS_A: usize = DEPTH * ROW_A;
/// Words of one stage's tile of B.
const WORDS_B: usize = DEPTH * TILE;

/// What the host needs to know to launch [`multi_stage`].
pub const KERNEL: Kernel = Kernel {
    name: "multi_stage",
    title: "four stages, copies three steps ahead",
    entry: "multi_stage",
    architecture: Architecture::Compute80,
    precision: Precision::F32,
    signature: Signature::Plain,
    tile: Tile { m: TILE as u32, n: TILE as u32, k: DEPTH as u32 },
    block: [THREADS as u32, 1, 1],
    registers: Registers::ForBlocks(2),
    shared_bytes: (STAGES * (WORDS_A + WORDS_B) * size_of::<f32>()) as u32,
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
pub unsafe fn multi_stage(a: *const f32, b: *const f32, c: *mut f32, m: usize, n: usize, k: usize) {
    let tiles = shared_array![f32; STAGES * (WORDS_A+WORDS_B)];
    let matrices = Matrices { a, b, c, m, n, k };
    if matrices.are_aligned() {
        pipeline::<true>(&matrices, tiles);
    } else {
        pipeline::<false>(&matrices, tiles);
    }
}

/// The kernel's work, with 16-byte copies and stores in global memory or without.
#[inline(always)]
unsafe fn pipeline<const ALIGNED: bool>(matrices: &Matrices, tiles: *mut f32) {
    let first = first_element(TILE, TILE);
    let (y, x) = place();
    let mut copies = Copies::<TILE, TILE, DEPTH, ALIGNED>::new(matrices, first);
    let stages = shared_address(tiles);

    // All stages but one are on their way before the first product: each a group of its own.
    for stage in 0..STAGES as u32 - 1 {
        copies.start(stages + stage * STAGE);
    }

    let mut sums = [[0.0; OUTPUTS]; OUTPUTS];
    let (mut present, mut next) = (stages, stages + (STAGES as u32 - 1) * STAGE);
    while copies.had_more(STAGES - 1) {
        // STAGES - 1 groups are on their way; all but the last STAGES - 2 of them have to be here.
        wait_group::<{ STAGES - 2 }>();
        thread::sync_threads();

        // The stage that everybody has just finished with is the next to be filled.
        copies.start(next);

        let tile_a = tiles.add((present - stages) as usize / 4);
        let tile_b = tile_a.add(WORDS_A);
        multiply::<ROWS_APART, COLUMNS_APART>(tile_a.add(y), tile_b.add(x), &mut sums);
        (present, next) = (after::<STAGES, STAGE>(present, stages), after::<STAGES, STAGE>(next, stages));
    }
    wait_group::<0>();
    matrices.store::<ALIGNED, ROWS_APART, COLUMNS_APART, _, _>((first.0 + y, first.1 + x), &sums);
}
const TILE_A: u32 = (WORDS_A * 4) as u32;
const STAGE: u32 = TILE_A+(WORDS_B * 4) as u32;
use crate::wide_tile::after;
