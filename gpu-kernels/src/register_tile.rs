//! # Lesson 11: 8 x 8 outputs for each thread
//!
//! [`tiled_64`](crate::tiled_64) has 8 x 2 outputs per thread, and reads 10 elements of shared memory for 16
//! multiply-adds. With r x s outputs it's r + s for r s: the nearer to a square, and the larger, the better. Here a
//! block of 256 threads computes a tile of 128 x 128, each thread 8 x 8:
//!
//! | outputs of a thread | elements read for one i | multiply-adds | for each element |
//! |---|---|---|---|
//! | 1 | 2 | 1 | 0.5 |
//! | 8 x 1 | 9 | 8 | 0.9 |
//! | 8 x 2 | 10 | 16 | 1.6 |
//! | 8 x 8 | 16 | 64 | **4** |
//!
//! For one i the thread takes 8 elements of a column of A's tile and 8 of a row of B's into registers, and multiplies
//! each with each: an *outer product*. This is the tile's idea once more, one level further in. As a block reads global
//! memory once for its whole tile, a thread reads shared memory once for its 64 outputs, and its registers are to
//! shared memory what that is to global memory.
//!
//! The block's tile has grown as well, to 128 x 128: 2 k / 128 loads from global memory for each element of C. 8 places
//! of k at a time keep the tiles at 8 KiB together.
//!
//! ## Who touches what
//!
//! Thread (y, x) of 16 x 16 has the rows y + 16 r and the columns x + 16 s. A warp has 16 x and two y, so it reads 16
//! neighbours of B's tile at a time, and stores 16 neighbours of C, 64 bytes, in two rows. Of A's tile it reads two
//! different words; the compiler joins the reads for four i along a row into one of 16 bytes. No bank conflicts.
//!
//! ## What it costs
//!
//! Registers: 64 sums, 8 elements of B, and 32 of A, since each of A's reads brings elements for four i. With addresses
//! and the rest it's 168 on an H200. 256 threads need 43,008 of a multiprocessor's 65,536, so one block fits, and 8
//! warps of a possible 64. That's less of a loss than it seems: what many warps are for is to have something to do
//! while others wait, and a thread with 64 independent sums rarely has to wait for one of its own multiply-adds.
//!
//! ## What limits it next
//!
//! Of the instructions in the loop on an H200, 76 of 100 are multiply-adds; a multiprocessor issues 4 instructions a
//! cycle, whatever they are, so the other 24 are lost. 80 of the 677 are reads of shared memory, 8 single ones and 2 of
//! 16 bytes for one i: [`vector_loads`](crate::vector_loads) makes 4 of these 10, and needs fewer registers.
//!
//! ## Measured
//!
//! On an H200 22.4 TFLOP/s at N = 4096 and 13.7 at N = 1024, 45 % and 37 % of cuBLAS (f32 without TF32) in the same
//! run; [tiles of 64 x 64](crate::tiled_64), which take eight times as many steps of k between two barriers and put
//! four times as many blocks on the GPU, 30.4 and 29.1.

use crate::launch::{Architecture, Kernel, LaunchShape, Precision, Registers, Signature, Tile};
use crate::register_column::{first_element, load_tile};
use cuda_std::*;

/// Rows and columns of a block's tile of C.
pub const TILE: usize = 128;
/// Columns of A's tile and rows of B's: the products of one step.
pub const DEPTH: usize = 8;
/// A thread has OUTPUTS x OUTPUTS elements of C.
pub const OUTPUTS: usize = 8;
/// Threads along each side of the tile; a thread's outputs are so many rows and columns apart.
const SIDE: usize = TILE / OUTPUTS;
/// Threads of a block.
pub const THREADS: usize = SIDE * SIDE;

/// What the host needs to know to launch [`register_tile`].
pub const KERNEL: Kernel = Kernel {
    name: "register_tile",
    title: "8 x 8 outputs for each thread, in registers",
    entry: "register_tile",
    architecture: Architecture::Compute70,
    precision: Precision::F32,
    signature: Signature::Plain,
    tile: Tile { m: TILE as u32, n: TILE as u32, k: DEPTH as u32 },
    block: [THREADS as u32, 1, 1],
    registers: Registers::Any,
    shared_bytes: (2 * TILE * DEPTH * size_of::<f32>()) as u32,
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
#[allow(clippy::needless_range_loop)] // r and s number rows and columns of C as well
pub unsafe fn register_tile(a: *const f32, b: *const f32, c: *mut f32, m: usize, n: usize, k: usize) {
    let tile_a = shared_array![f32; TILE * DEPTH];
    let tile_b = shared_array![f32; DEPTH * TILE];

    let (first_row, first_column) = first_element(TILE, TILE);
    let thread = thread::thread_idx_x() as usize;
    let (x, y) = (thread % SIDE, thread / SIDE);

    let mut sums = [[0.0; OUTPUTS]; OUTPUTS];
    for step in 0..k.div_ceil(DEPTH) {
        load_tile::<TILE, DEPTH, THREADS>(a, (m, k), (first_row, step * DEPTH), tile_a);
        load_tile::<DEPTH, TILE, THREADS>(b, (k, n), (step * DEPTH, first_column), tile_b);
        thread::sync_threads();

        for i in 0..DEPTH {
            let (mut a_column, mut b_row) = ([0.0; OUTPUTS], [0.0; OUTPUTS]);
            for r in 0..OUTPUTS {
                a_column[r] = *tile_a.add((y + SIDE * r) * DEPTH + i);
                b_row[r] = *tile_b.add(i * TILE + x + SIDE * r);
            }
            add_outer_product(&a_column, &b_row, &mut sums);
        }
        thread::sync_threads();
    }

    for r in 0..OUTPUTS {
        for s in 0..OUTPUTS {
            let (row, column) = (first_row + y + SIDE * r, first_column + x + SIDE * s);
            if row < m && column < n {
                *c.add(row * n + column) = sums[r][s];
            }
        }
    }
}

/// Adds the product of a column of A by a row of B, each element with each, to the sums.
#[inline(always)]
#[allow(clippy::needless_range_loop)] // r also says which way the row is gone through
pub(crate) fn add_outer_product<const ROWS: usize, const COLUMNS: usize>(
    a_column: &[f32; ROWS],
    b_row: &[f32; COLUMNS],
    sums: &mut [[f32; COLUMNS]; ROWS],
) {
    for r in 0..ROWS {
        for turn in 0..COLUMNS {
            // Every other row backwards, so that each multiply-add shares an operand with the one before it: the
            // processor keeps the last operands at hand, and registers have two banks that give one value each at a
            // time.
            let s = if r % 2 == 0 { turn } else { COLUMNS - 1 - turn };
            sums[r][s] = a_column[r].mul_add(b_row[s], sums[r][s]);
        }
    }
}
