//! # Your page: write the tiled kernel yourself
//!
//! Below is the tiled kernel of [lesson 3](crate::tiled) with its four decisive places left empty. Fill them in, in this
//! order, and after each one run
//!
//! ```console
//! cargo run -p host -- exercise
//! ```
//!
//! which builds this file, runs the kernel on the simulator, and says what is wrong first. `exercise --hint` says more
//! about it, `exercise --solution` shows a solution, `exercise --reset` brings this page back as it was.
//!
//! To keep to the point, the kernel may assume that all sizes are multiples of TILE, so it needs no guards at the edges.
//!
//! What you have: `step` counts the tiles along the inner dimension. In each step the block needs the TILE x TILE tile of
//! A that starts at column `step * TILE` of its rows, and the tile of B that starts at row `step * TILE` of its columns.
//! Element (i, j) of a tile belongs at index `i * TILE + j` of its shared array. A pointer `p` is read by `*p.add(index)`
//! and written by `*p.add(index) = value;`.

#![allow(unused, reason = "a page to be filled in has names that nobody uses yet")]

use crate::launch::{Architecture, Kernel, LaunchShape, Precision, Registers, Signature, Tile};
use cuda_std::*;

/// Rows and columns of a tile; a block has TILE x TILE threads.
pub const TILE: usize = 16;

/// What the host needs to know to launch [`exercise`].
pub const KERNEL: Kernel = Kernel {
    name: "exercise",
    title: "the reader's own tiled kernel, for whole tiles",
    entry: "exercise",
    architecture: Architecture::Compute70,
    precision: Precision::F32,
    signature: Signature::Plain,
    tile: Tile { m: TILE as u32, n: TILE as u32, k: TILE as u32 },
    block: [TILE as u32, TILE as u32, 1],
    registers: Registers::Any,
    shared_bytes: (2 * TILE * TILE * size_of::<f32>()) as u32,
    launch_shape,
};

/// One block of TILE x TILE threads per tile of C; `None` unless all sizes are multiples of TILE.
pub fn launch_shape(m: usize, n: usize, k: usize) -> Option<LaunchShape> {
    let whole = [m, n, k].iter().all(|size| size.is_multiple_of(TILE));
    if whole {
        LaunchShape::over_tiles(m, n, KERNEL.tile, KERNEL.block)
    } else {
        None
    }
}

/// C = A B, a TILE x TILE tile of C per block, for sizes that are multiples of TILE.
///
/// # Safety
///
/// `a`, `b` and `c` must point to `m * k`, `k * n` and `m * n` elements in memory that the GPU can reach, `c` apart
/// from the other two, and the launch must have the shape that [`launch_shape`] gives.
#[kernel]
pub unsafe fn exercise(a: *const f32, b: *const f32, c: *mut f32, m: usize, n: usize, k: usize) {
    let tile_a = shared_array![f32; TILE * TILE];
    let tile_b = shared_array![f32; TILE * TILE];

    let x = thread::thread_idx_x() as usize;
    let y = thread::thread_idx_y() as usize;
    let block_row = thread::block_idx_z() as usize * thread::grid_dim_y() as usize + thread::block_idx_y() as usize;
    let row = block_row * TILE + y;
    let column = thread::block_idx_x() as usize * TILE + x;

    let mut sum: f32 = 0.0;
    for step in 0..k / TILE {
        // TODO 1: load. This thread copies one element of A into tile_a and one element of B into tile_b, each to
        // element (y, x) of the tile.

        // TODO 2: nobody may read the tiles before everybody has written them.

        // TODO 3: multiply. Add to `sum` the TILE products of this thread's row of tile_a and column of tile_b.

        // TODO 4: nobody may overwrite the tiles before everybody has read them.
    }

    if row < m && column < n {
        *c.add(row * n + column) = sum;
    }
}
