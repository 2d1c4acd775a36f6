//! # What a library's product has to take
//!
//! The kernels of this book compute C = A B of matrices without gaps. Whoever calls a library wants more, and has since
//! BLAS wrote it down in 1990:
//!
//! ```text
//! C = alpha op(A) op(B) + beta C          op(X) is X or its transpose
//! ```
//!
//! with matrices that are parts of larger ones, and many small products at a time. None of it needs another algorithm.
//! This is a plain tiled kernel, 64 x 64 outputs to a block and 4 x 4 to a thread, with every wish granted:
//!
//! | wish | what it takes |
//! |---|---|
//! | a part of a larger matrix | rows begin a *leading dimension* apart, not a width |
//! | a transpose | exchange the two distances: from row to row, and from column to column |
//! | alpha, beta | one multiplication and one multiply-add for each element of C, after all those of the sums |
//! | beta = 0 | C isn't read at all: 0 times what was there would keep its NaN |
//! | K = 0, or alpha = 0 (the host says K = 0 then) | no loop, so A and B aren't read either: C = beta C |
//! | many products | one more dimension of the grid, z; A, B and C each by a distance or from a list of addresses |
//!
//! It all comes in one struct, [`Call`], which a launch passes by value as it passes a number.
//!
//! ## Loading a matrix either way round
//!
//! One thing does change with a transpose: which neighbours in the tile are neighbours in memory. A warp that loads
//! along the wrong direction touches 32 sectors for 32 elements. So each tile is loaded along the direction in which its
//! matrix is contiguous: [`load_tile`] asks once a tile, and every thread of the launch gets the same answer, so that
//! no warp diverges.
//!
//! (A pointer that came in a struct, or from a list, could point to any of a GPU's memories as far as the compiler knows,
//! and every load would have to find out. So addresses are numbers here, and the loads and stores of
//! [`vectors`](kernel_common::vectors) say that they mean global memory.)
//!
//! In shared memory both tiles lie the same way, a row for every place along K, whichever way they came in. Loads along
//! K write down a column: 16 places of two outputs by a warp. Rows of 66 words make them 32 different banks: place p
//! of output o is in bank 2 p + o (mod 32), and o is one of two neighbours.
//!
//! ## Where it serves
//!
//! On GPUs before compute capability 8.0 this is the library's kernel for everything that isn't a plain product. Later
//! ones have the production kernels, which take the same [`Call`] and a pipeline of asynchronous copies.

use crate::launch::{Architecture, Kernel, LaunchShape, Precision, Registers, Signature, Tile, MAX_GRID_X};
use cuda_std::*;
use kernel_common::{vectors, Call};

/// Rows and columns of a block's tile of C.
pub const TILE: usize = 64;
/// Places along K between two loads.
pub const DEPTH: usize = 16;
/// A thread has OUTPUTS x OUTPUTS elements of C, SIDE apart.
const OUTPUTS: usize = 4;
/// Threads along each side of the tile.
const SIDE: usize = TILE / OUTPUTS;
/// Threads of a block.
const THREADS: usize = SIDE * SIDE;
/// Words of a row in shared memory.
const ROW: usize = TILE + 2;
/// Elements of each tile that a thread loads.
const LOADS: usize = TILE * DEPTH / THREADS;

/// What the host needs to know to launch [`general_tiled`].
pub const KERNEL: Kernel = Kernel {
    name: "general_tiled",
    title: "any strides, transposes, alpha, beta and batches",
    entry: "general_tiled",
    architecture: Architecture::Compute70,
    precision: Precision::F32,
    signature: Signature::Call,
    tile: Tile { m: TILE as u32, n: TILE as u32, k: DEPTH as u32 },
    block: [THREADS as u32, 1, 1],
    registers: Registers::Any,
    shared_bytes: (2 * ROW * DEPTH * size_of::<f32>()) as u32,
    launch_shape,
};

/// One block of THREADS threads per tile of C, all along x, block row after block row. A batch goes on along z.
pub fn launch_shape(m: usize, n: usize, _k: usize) -> Option<LaunchShape> {
    let blocks = (m as u64).div_ceil(TILE as u64).checked_mul((n as u64).div_ceil(TILE as u64))?;
    let fits = 0 < blocks && blocks <= MAX_GRID_X;
    fits.then_some(LaunchShape { grid: [blocks as u32, 1, 1], block: KERNEL.block, dynamic_shared_bytes: 0 })
}

/// C = alpha op(A) op(B) + beta C, a TILE x TILE tile of C per block and OUTPUTS x OUTPUTS elements of it per thread.
/// K is never split.
///
/// # Safety
///
/// The matrices must lie where `call` says, in memory that the GPU can reach, every C apart from all else, and the
/// launch must have the shape that [`launch_shape`] gives, with a z for each product of the batch.
#[kernel]
#[allow(clippy::needless_range_loop)] // r and s number rows and columns of C as well
pub unsafe fn general_tiled(call: Call) {
    let tile_a = shared_array![f32; DEPTH * ROW];
    let tile_b = shared_array![f32; DEPTH * ROW];

    let (m, n, k) = (call.m, call.n, call.k);
    let block_columns = n.div_ceil(TILE as u32);
    // There are as many blocks as tiles, so that there are columns. The compiler needs to hear that before a division.
    core::hint::assert_unchecked(block_columns != 0);
    let block = thread::block_idx_x();
    let first_row = block / block_columns * TILE as u32;
    let first_column = block % block_columns * TILE as u32;
    let (a, b, c) = call.matrices(thread::block_idx_z());
    let (a, b, c) = (a as u64, b as u64, c as u64);

    let thread = thread::thread_idx_x() as usize;
    let (x, y) = (thread % SIDE, thread / SIDE);
    let mut sums = [[0.0; OUTPUTS]; OUTPUTS];
    let mut place = 0;
    while place < k {
        load_tile(a, [call.a_row, call.a_column], [m - first_row, k - place], [first_row, place], tile_a);
        load_tile(b, [call.b_column, call.b_row], [n - first_column, k - place], [first_column, place], tile_b);
        thread::sync_threads();
        for i in 0..DEPTH {
            let (mut a_column, mut b_row) = ([0.0; OUTPUTS], [0.0; OUTPUTS]);
            for r in 0..OUTPUTS {
                a_column[r] = *tile_a.add(i * ROW + y + SIDE * r);
                b_row[r] = *tile_b.add(i * ROW + x + SIDE * r);
            }
            crate::register_tile::add_outer_product(&a_column, &b_row, &mut sums);
        }
        thread::sync_threads();
        place += DEPTH as u32;
    }

    for r in 0..OUTPUTS {
        for s in 0..OUTPUTS {
            let (row, column) = (first_row + (y + SIDE * r) as u32, first_column + (x + SIDE * s) as u32);
            if row < m && column < n {
                let element = c + (row as u64 * call.c_row + column as u64) * 4;
                let mut value = call.alpha * sums[r][s];
                if call.beta != 0.0 {
                    value = call.beta.mul_add(vectors::load_global_word(element), value);
                }
                vectors::store_global_word(element, value);
            }
        }
    }
}

/// Loads a tile of TILE outputs (rows of A, or columns of B) by DEPTH places along K, with zeros where the matrix has no
/// element: row p, word o of the tile is place p of output o.
///
/// Each pair is of outputs and of places: how far elements are apart in memory, how many there are left, and where the
/// tile begins.
#[inline(always)]
unsafe fn load_tile(from: u64, distance: [u64; 2], left: [u32; 2], first: [u32; 2], tile: *mut f32) {
    let thread = thread::thread_idx_x();
    let from = from + (first[0] as u64 * distance[0] + first[1] as u64 * distance[1]) * 4;
    // Neighbouring threads take what is contiguous.
    let along_k = distance[1] == 1;
    for load in 0..LOADS as u32 {
        let element = thread + load * THREADS as u32;
        let (output, place) = if along_k {
            (element / DEPTH as u32, element % DEPTH as u32)
        } else {
            (element % TILE as u32, element / TILE as u32)
        };
        let inside = output < left[0] && place < left[1];
        let at = from + (output as u64 * distance[0] + place as u64 * distance[1]) * 4;
        let element = if inside { vectors::load_global_word(at) } else { 0.0 };
        *tile.add(place as usize * ROW + output as usize) = element;
    }
}
