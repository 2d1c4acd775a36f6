//! # Lesson 8: conflict-free without an extra byte
//!
//! The second cure for the [conflicts](crate::conflicted): rows stay 32 words long, but in row x the words change
//! places. Element i of column x stands at place `i ^ x` (exclusive or) of row x. For any one x that's a permutation of
//! the 32 places, so nothing is lost or overwritten, and for any one i the places of the 32 columns are all different:
//!
//! ```text
//!             bank  0  1  2  3  4 ...
//!   column 0        0  1  2  3  4 ...        the numbers are the element's place in its column
//!   column 1        1  0  3  2  5 ...
//!   column 2        2  3  0  1  6 ...
//!   column 3        3  2  1  0  7 ...
//! ```
//!
//! | access to `tile_b`, for a warp (x = 0..31) | words | banks | turns |
//! |---|---|---|---|
//! | write element y of column x | 32 x + (y ^ x) | y ^ x: each once | 1 instead of 32 |
//! | read element i of column x | 32 x + (i ^ x) | i ^ x: each once | 1 |
//!
//! ## What it costs
//!
//! No memory: the two tiles take 8,192 bytes. But `i ^ x` can't be folded into a load's constant offset as `+ i` can.
//! The compiler computes the 32 addresses once, before the first step, and keeps them: 64 registers per thread on an
//! H200 (ptxas 13.0) where [padding](crate::padded) takes 32, so that one block of 1024 threads fits into a
//! multiprocessor instead of two. (64 is the most that such a block may have.) And as with padding the reads stay 4
//! bytes wide, since a thread's next word is no longer its neighbour. Exchanging whole groups of four words, `(i / 4) ^
//! (x % 8)`, would keep 16-byte reads and leave them free of conflicts; the writes would then take 4 turns.

use crate::conflicted;
use crate::launch::{Architecture, Kernel, LaunchShape, Precision, Registers, Signature, Tile};
use cuda_std::*;

/// Rows and columns of a tile; a block has TILE x TILE threads.
pub const TILE: usize = 32;

/// What the host needs to know to launch [`swizzled`].
pub const KERNEL: Kernel = Kernel {
    name: "swizzled",
    title: "transposed tile with its words exchanged by exclusive or",
    entry: "swizzled",
    architecture: Architecture::Compute70,
    precision: Precision::F32,
    signature: Signature::Plain,
    tile: Tile { m: TILE as u32, n: TILE as u32, k: TILE as u32 },
    block: [TILE as u32, TILE as u32, 1],
    registers: Registers::Any,
    shared_bytes: (2 * TILE * TILE * size_of::<f32>()) as u32,
    launch_shape,
};

/// One block of TILE x TILE threads per tile of C.
pub fn launch_shape(m: usize, n: usize, _k: usize) -> Option<LaunchShape> {
    LaunchShape::over_tiles(m, n, KERNEL.tile, KERNEL.block)
}

/// Where element (i, x) of B's tile is held: row x of the array is column x of the tile, its words exchanged.
#[inline(always)]
const fn place(i: usize, x: usize) -> usize {
    x * TILE + (i ^ x)
}

/// C = A B, a TILE x TILE tile of C per block, B's tile transposed and swizzled in shared memory.
///
/// # Safety
///
/// `a`, `b` and `c` must point to `m * k`, `k * n` and `m * n` elements in memory that the GPU can reach, `c` apart
/// from the other two, and the launch must have the shape that [`launch_shape`] gives.
#[kernel]
pub unsafe fn swizzled(a: *const f32, b: *const f32, c: *mut f32, m: usize, n: usize, k: usize) {
    let tile_a = shared_array![f32; TILE * TILE];
    let tile_b = shared_array![f32; TILE * TILE];
    conflicted::product(a, b, c, (m, n, k), tile_a, tile_b, place);
}
