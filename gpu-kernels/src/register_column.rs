//! # Lesson 9: a column of outputs for each thread
//!
//! In the kernels so far a multiply-add costs two reads of shared memory, one of A's tile and one of B's, whatever the
//! tile's size; that two reads along a row are sometimes joined doesn't change how many bytes they are. Those reads are
//! what now keeps the kernel busy. Here a thread computes 8 elements of C, one above the other:
//!
//! ```text
//!                       B: one element of row i
//!                          |
//!   A: 8 elements of    [  0  ]
//!   column i       -->  [  0  ]     8 sums in 8 registers; the element of B is read once,
//!                       [ ... ]     and used 8 times from a register
//!                       [  0  ]
//! ```
//!
//! For one i that's 8 + 1 reads for 8 multiply-adds, where 8 threads with one output each need 16. The sums live in an
//! array, `sums`, which is no memory at all: since every loop over it has a fixed length, the compiler unrolls them,
//! and each element becomes a register.
//!
//! ## Flat tiles
//!
//! Nothing says that tiles of A and B must be square. The block's tile of C is 64 x 64, and of A and B it takes 64 x 8
//! and 8 x 64 at a time. How often an element is loaded from global memory depends on the tile of C alone, n / 64 times
//! for A; 8 places of k at a time instead of 64 only mean more steps, with less to do between two barriers, and less
//! shared memory: 4 KiB instead of 32.
//!
//! ## Loading is another division of labour
//!
//! 512 threads have 4096 outputs, but either tile has 512 elements, one for each thread. Which element a thread loads
//! has nothing to do with which outputs it has: thread t takes the t-th element of the tile, counted along its rows. So
//! a warp reads 4 rows of 8 floats of A, a sector each if rows begin at one, and 32 neighbours of B. Only the barrier
//! makes what one thread loads another one's.
//!
//! ## Who touches what in shared memory
//!
//! A warp has 32 neighbouring columns of C and the same 8 rows. It writes 32 words in a row to either tile, reads 32
//! words in a row of B's, and one word for all of A's. No conflicts. Four reads along a row of A's tile become one of
//! 16 bytes (two passes over the banks): for 8 places of k, 16 such reads and 8 of B, 40 passes for 64 multiply-adds.
//!
//! ## What limits it next
//!
//! Still the same unit, with 40 passes for 64: a multiprocessor makes one pass a cycle and could do 4 multiply-adds of
//! a warp in it. A column shares the element of B only. [`tiled_64`](crate::tiled_64) has two columns, which share A's
//! elements as well.
//!
//! ## Measured
//!
//! On an H200 17.7 TFLOP/s at N = 4096 and 16.7 at N = 1024, 35 % and 45 % of cuBLAS (f32 without TF32) in the same
//! run; one output a thread, in [tiled_32](crate::tiled_32): 8.5 and 8.8.

use crate::launch::{Architecture, Kernel, LaunchShape, Precision, Registers, Signature, Tile};
use cuda_std::*;

/// Rows and columns of a block's tile of C.
pub const TILE: usize = 64;
/// Columns of A's tile and rows of B's: the products of one step.
pub const DEPTH: usize = 8;
/// Outputs of a thread: a column, OUTPUTS rows from top to bottom.
pub const OUTPUTS: usize = 8;
/// Threads of a block.
const THREADS: usize = TILE * TILE / OUTPUTS;

/// What the host needs to know to launch [`register_column`].
pub const KERNEL: Kernel = Kernel {
    name: "register_column",
    title: "a column of 8 outputs for each thread, in registers",
    entry: "register_column",
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

/// C = A B, a TILE x TILE tile of C per block and a column of OUTPUTS elements of it per thread.
///
/// # Safety
///
/// `a`, `b` and `c` must point to `m * k`, `k * n` and `m * n` elements in memory that the GPU can reach, `c` apart
/// from the other two, and the launch must have the shape that [`launch_shape`] gives.
#[kernel]
pub unsafe fn register_column(a: *const f32, b: *const f32, c: *mut f32, m: usize, n: usize, k: usize) {
    let tile_a = shared_array![f32; TILE * DEPTH];
    let tile_b = shared_array![f32; DEPTH * TILE];

    let (first_row, first_column) = first_element(TILE, TILE);
    let thread = thread::thread_idx_x() as usize;
    // Where this thread's outputs begin in the block's tile: a warp has 32 columns and one y.
    let (x, y) = (thread % TILE, thread / TILE * OUTPUTS);

    let mut sums = [0.0; OUTPUTS];
    for step in 0..k.div_ceil(DEPTH) {
        load_tile::<TILE, DEPTH, THREADS>(a, (m, k), (first_row, step * DEPTH), tile_a);
        load_tile::<DEPTH, TILE, THREADS>(b, (k, n), (step * DEPTH, first_column), tile_b);
        thread::sync_threads();

        // Multiply: one element of B's tile by OUTPUTS of A's.
        for i in 0..DEPTH {
            let b_element = *tile_b.add(i * TILE + x);
            for (r, sum) in sums.iter_mut().enumerate() {
                *sum = (*tile_a.add((y + r) * DEPTH + i)).mul_add(b_element, *sum);
            }
        }
        thread::sync_threads();
    }

    let column = first_column + x;
    for (r, &sum) in sums.iter().enumerate() {
        let row = first_row + y + r;
        if row < m && column < n {
            *c.add(row * n + column) = sum;
        }
    }
}

/// Row and column of C where this block's tile of `rows` x `columns` elements begins.
#[inline(always)]
pub(crate) fn first_element(rows: usize, columns: usize) -> (usize, usize) {
    let block_row = thread::block_idx_z() as usize * thread::grid_dim_y() as usize + thread::block_idx_y() as usize;
    (block_row * rows, thread::block_idx_x() as usize * columns)
}

/// Copies a tile of ROWS x COLUMNS elements, which begins at (`first_row`, `first_column`) of a matrix of `rows` x
/// `columns`, to shared memory, row after row; zeros past an edge. A block of THREADS threads does it together, and in
/// every turn thread t takes the t-th of the next THREADS elements: neighbours in a row of the tile go to neighbours
/// among the threads, whatever outputs those have later.
///
/// # Safety
///
/// `matrix` must have `rows` x `columns` elements, `tile` ROWS x COLUMNS, and the block THREADS threads along x.
#[inline(always)]
pub(crate) unsafe fn load_tile<const ROWS: usize, const COLUMNS: usize, const THREADS: usize>(
    matrix: *const f32,
    (rows, columns): (usize, usize),
    (first_row, first_column): (usize, usize),
    tile: *mut f32,
) {
    let thread = thread::thread_idx_x() as usize;
    for turn in 0..ROWS * COLUMNS / THREADS {
        let at = turn * THREADS + thread;
        let (row, column) = (first_row + at / COLUMNS, first_column + at % COLUMNS);
        *tile.add(at) = if row < rows && column < columns { *matrix.add(row * columns + column) } else { 0.0 };
    }
}
