//! # Lesson 2: the same work, asked for in the wrong order
//!
//! The [naive kernel](crate::naive) with one change: x, along which the threads of a warp are numbered first, runs down
//! the rows of C instead of along its columns. Every thread does what some thread did before, and every sum is the same
//! bit for bit. Only who stands next to whom has changed.
//!
//! ```text
//!   naive: a warp covers                      here: a warp covers
//!   2 rows of 16 columns of C                 16 rows of 2 columns of C
//!
//!   [ 0  1  2  3 ... 15 ]                     [ 0 16 ]
//!   [16 17 18 19 ... 31 ]                     [ 1 17 ]
//!                                             [ ...  ]
//!                                             [15 31 ]
//! ```
//!
//! ## What it costs
//!
//! Memory is moved in sectors of 32 bytes, 8 floats. What counts is how many sectors an instruction of a warp touches,
//! not how many bytes its threads want. For matrices whose rows begin at a sector (n and k multiples of 8):
//!
//! | instruction of a warp | naive | here |
//! |---|---|---|
//! | load of `A[row, i]` | 2 rows, one element each: 2 sectors | 16 rows, one element each: **16 sectors** |
//! | load of `B[i, column]` | 16 neighbours: 2 sectors | 2 neighbours: 1 sector |
//! | store to `C[row, column]` | 2 rows of 16 neighbours: 4 sectors | 16 rows of 2 neighbours: **16 sectors** |
//!
//! So 17 sectors per multiply-add of a warp instead of 4, and 4 times the sectors for the result. The 16 sectors of A
//! carry 512 bytes, of which the instruction uses 64. The other seven eighths aren't lost for good: they are the next 7
//! elements of the same rows, which the loop comes to in its next steps, and where L1 still holds them they needn't
//! come from further away. But every step asks L1 again for 16 sectors in 16 different places, and L1 answers only so
//! many at a time. In the store nothing comes later: each of the 16 sectors is written a quarter full, and filled by
//! four warps at different times.
//!
//! ## How to see it coming
//!
//! Look at what the index is multiplied with: neighbouring threads differ in x by one. If x stands alone in the address
//! (`i * n + x`), they touch neighbours; if it is multiplied by the length of a row (`x * k + i`), they touch elements
//! a whole row apart.

use crate::launch::{Architecture, Kernel, LaunchShape, Precision, Registers, Signature, Tile};
use cuda_std::*;

/// A block has BLOCK x BLOCK threads, one for each element of its piece of C.
pub const BLOCK: usize = 16;

/// What the host needs to know to launch [`uncoalesced`].
pub const KERNEL: Kernel = Kernel {
    name: "uncoalesced",
    title: "naive with neighbouring threads in neighbouring rows",
    entry: "uncoalesced",
    architecture: Architecture::Compute70,
    precision: Precision::F32,
    signature: Signature::Plain,
    tile: Tile { m: BLOCK as u32, n: BLOCK as u32, k: 1 },
    block: [BLOCK as u32, BLOCK as u32, 1],
    registers: Registers::Any,
    shared_bytes: 0,
    launch_shape,
};

/// One thread per element of C, in blocks of BLOCK x BLOCK.
pub fn launch_shape(m: usize, n: usize, _k: usize) -> Option<LaunchShape> {
    LaunchShape::over_tiles(m, n, KERNEL.tile, KERNEL.block)
}

/// C = A B with one thread per element of C, x along its rows.
///
/// # Safety
///
/// `a`, `b` and `c` must point to `m * k`, `k * n` and `m * n` elements in memory that the GPU can reach, `c` apart
/// from the other two, and the launch must have the shape that [`launch_shape`] gives.
#[kernel]
pub unsafe fn uncoalesced(a: *const f32, b: *const f32, c: *mut f32, m: usize, n: usize, k: usize) {
    let block_row = thread::block_idx_z() as usize * thread::grid_dim_y() as usize + thread::block_idx_y() as usize;
    // The one change: x and y have changed places.
    let row = block_row * BLOCK + thread::thread_idx_x() as usize;
    let column = thread::block_idx_x() as usize * BLOCK + thread::thread_idx_y() as usize;

    if row >= m || column >= n {
        return;
    }

    let mut sum = 0.0;
    for i in 0..k {
        sum = (*a.add(row * k + i)).mul_add(*b.add(i * n + column), sum);
    }
    *c.add(row * n + column) = sum;
}
