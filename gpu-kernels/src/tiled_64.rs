//! # Lesson 10: outputs in two columns
//!
//! The tile of [`register_column`](crate::register_column), with half its threads: a block is 32 x 8 threads, and each
//! computes 16 elements of C, in 8 rows and 2 columns. And 64 places of k at a time instead of 8, which takes more
//! shared memory and fewer barriers:
//!
//! ```text
//!                   columns:  x              x + 32
//!   rows:  y             [ .  0  .  .  . | .  0  .  .  . ]       thread (y, x) computes the 16 elements marked 0:
//!          y + 8         [ .  0  .  .  . | .  0  .  .  . ]       8 rows, 8 apart, and 2 columns, 32 apart
//!          ...
//!          y + 56        [ .  0  .  .  . | .  0  .  .  . ]
//! ```
//!
//! ## What that gains
//!
//! - Fewer reads of shared memory: for one i a thread reads 8 elements of A's tile and 2 of B's, keeps them in
//!   registers, and does 16 multiply-adds with them. That is 10 reads for 16, where a column of 8 needs 18 and one
//!   output per thread 32: two reads for each multiply-add, whatever the tile. (The compiler joins four
//!   reads along a row of A's tile into one of 16 bytes, here as there: 4 instructions for 16 multiply-adds instead of
//!   20.)
//! - Two barriers for 64 x 16 multiply-adds of each thread.
//!
//! ## What it costs
//!
//! The tiles take 32 KiB, of the 48 KiB that a kernel may declare. Six such blocks would fit into the 228 KiB of shared
//! memory of an H200's multiprocessor (each takes 1 KiB more for the system). But 16 sums and their operands live in
//! registers: a thread needs 96 there, so that its 65,536 are enough for two blocks, 512 threads of a possible 2048.
//! And a C of 128 x 128 is only four blocks: small matrices leave most of the GPU idle.
//!
//! ## Who touches what
//!
//! Everything a warp does lies in one row, since a row of the block is a whole warp. Loads from A and B and stores to C
//! are 32 neighbours in memory, 128 bytes. In shared memory a warp writes 32 words in a row; it reads `tile_a[r, i]`,
//! one word for all (a broadcast), and `tile_b[i, x]` and `tile_b[i, x + 32]`, 32 words in a row each. No conflicts.
//!
//! A block of 16 x 16 threads with 4 x 4 outputs each would read less still, 8 elements for 16 multiply-adds. But then
//! a warp would cover two rows of A's tile, and rows that are 64 words apart begin in the same bank: every 4-byte read
//! of `tile_a` would take two turns, and so would every write to either tile.
//!
//! ## Measured
//!
//! On an H200 30.4 TFLOP/s at N = 4096 and 29.1 at N = 1024, 61 % and 79 % of cuBLAS (f32 without TF32) in the same
//! run; [the column](crate::register_column): 17.7 and 16.7.

use crate::launch::{Architecture, Kernel, LaunchShape, Precision, Registers, Signature, Tile};
use cuda_std::*;

/// Rows and columns of a tile.
pub const TILE: usize = 64;
/// Threads of a block along x.
pub const WIDTH: usize = 32;
/// Threads of a block along y.
pub const HEIGHT: usize = 8;
/// Outputs of a thread along the rows of C, HEIGHT apart.
const ROWS: usize = TILE / HEIGHT;
/// Outputs of a thread along the columns of C, WIDTH apart.
const COLUMNS: usize = TILE / WIDTH;

/// What the host needs to know to launch [`tiled_64`].
pub const KERNEL: Kernel = Kernel {
    name: "tiled_64",
    title: "tiles of 64 x 64, 16 outputs for each thread",
    entry: "tiled_64",
    architecture: Architecture::Compute70,
    precision: Precision::F32,
    signature: Signature::Plain,
    tile: Tile { m: TILE as u32, n: TILE as u32, k: TILE as u32 },
    block: [WIDTH as u32, HEIGHT as u32, 1],
    registers: Registers::Any,
    shared_bytes: (2 * TILE * TILE * size_of::<f32>()) as u32,
    launch_shape,
};

/// One block of WIDTH x HEIGHT threads per tile of C.
pub fn launch_shape(m: usize, n: usize, _k: usize) -> Option<LaunchShape> {
    LaunchShape::over_tiles(m, n, KERNEL.tile, KERNEL.block)
}

/// C = A B, a TILE x TILE tile of C per block and ROWS x COLUMNS elements of it per thread.
///
/// # Safety
///
/// `a`, `b` and `c` must point to `m * k`, `k * n` and `m * n` elements in memory that the GPU can reach, `c` apart
/// from the other two, and the launch must have the shape that [`launch_shape`] gives.
#[kernel]
#[allow(clippy::needless_range_loop)] // r and s number rows and columns of C as well
pub unsafe fn tiled_64(a: *const f32, b: *const f32, c: *mut f32, m: usize, n: usize, k: usize) {
    let tile_a = shared_array![f32; TILE * TILE];
    let tile_b = shared_array![f32; TILE * TILE];

    let x = thread::thread_idx_x() as usize;
    let y = thread::thread_idx_y() as usize;
    let block_row = thread::block_idx_z() as usize * thread::grid_dim_y() as usize + thread::block_idx_y() as usize;
    // Where this block's tile of C begins.
    let first_row = block_row * TILE;
    let first_column = thread::block_idx_x() as usize * TILE;

    let mut sums = [[0.0; COLUMNS]; ROWS];
    for step in 0..k.div_ceil(TILE) {
        // Load: ROWS x COLUMNS elements of each tile, spread like the outputs; zeros past an edge.
        for r in 0..ROWS {
            for s in 0..COLUMNS {
                let (tile_row, tile_column) = (y + HEIGHT * r, x + WIDTH * s);
                let at = tile_row * TILE + tile_column;
                let (row, a_column) = (first_row + tile_row, step * TILE + tile_column);
                let (b_row, column) = (step * TILE + tile_row, first_column + tile_column);
                *tile_a.add(at) = if row < m && a_column < k { *a.add(row * k + a_column) } else { 0.0 };
                *tile_b.add(at) = if b_row < k && column < n { *b.add(b_row * n + column) } else { 0.0 };
            }
        }
        thread::sync_threads();

        // Multiply: ROWS elements of A's tile by COLUMNS of B's, each with each.
        for i in 0..TILE {
            let mut b_elements = [0.0; COLUMNS];
            for s in 0..COLUMNS {
                b_elements[s] = *tile_b.add(i * TILE + x + WIDTH * s);
            }
            for r in 0..ROWS {
                let a_element = *tile_a.add((y + HEIGHT * r) * TILE + i);
                for s in 0..COLUMNS {
                    sums[r][s] = a_element.mul_add(b_elements[s], sums[r][s]);
                }
            }
        }
        thread::sync_threads();
    }

    for r in 0..ROWS {
        for s in 0..COLUMNS {
            let (row, column) = (first_row + y + HEIGHT * r, first_column + x + WIDTH * s);
            if row < m && column < n {
                *c.add(row * n + column) = sums[r][s];
            }
        }
    }
}
