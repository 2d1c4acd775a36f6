//! # Lesson 7: a word of padding
//!
//! The first cure for the [conflicts](crate::conflicted): every row of B's transposed tile gets one more word, which
//! nobody uses. Rows are then 33 words apart, and since 33 mod 32 is 1, each begins one bank further on than the row
//! before:
//!
//! ```text
//!            bank  0  1  2  3 ... 31         the numbers are an element's place in its column, - is padding
//!   words  0 - 31   0  1  2  3 ... 31         column 0
//!   words 32 - 63   -  0  1  2 ... 30         column 1, from bank 1 on
//!   words 64 - 95  31  -  0  1 ... 29         the end of column 1, then column 2 from bank 2 on
//!   words 96 - 127 30 31  -  0 ... 28         the end of column 2, then column 3 from bank 3 on
//! ```
//!
//! Element i of the 32 columns stands in 32 different banks.
//!
//! | access to `tile_b`, for a warp (x = 0..31) | words | banks | turns |
//! |---|---|---|---|
//! | write element y of column x | 33 x + y | x + y mod 32: each once | 1 instead of 32 |
//! | read element i of column x | 33 x + i | x + i mod 32: each once | 1 |
//!
//! ## What it costs
//!
//! - 32 words, 128 bytes of shared memory: 8,320 instead of 8,192 for the two tiles.
//! - Alignment. Rows begin at multiples of 132 bytes, which aren't multiples of 16, so the compiler can no longer join
//!   four reads along a row into one of 16 bytes: `tile_b` takes 32 reads of one turn each per step where
//!   [`conflicted`] had 8 reads of 32 turns. (Four more words per row instead of one would keep rows
//!   aligned: for 16-byte reads, which serve 8 threads a turn, that is enough; for the writes it would be 4 turns.)

use crate::conflicted;
use crate::launch::{Architecture, Kernel, LaunchShape, Precision, Registers, Signature, Tile};
use cuda_std::*;

/// Rows and columns of a tile; a block has TILE x TILE threads.
pub const TILE: usize = 32;

/// Words from one row of B's transposed tile to the next: one more than it needs.
pub const ROW: usize = TILE + 1;

/// What the host needs to know to launch [`padded`].
pub const KERNEL: Kernel = Kernel {
    name: "padded",
    title: "transposed tile with rows of 33 words",
    entry: "padded",
    architecture: Architecture::Compute70,
    precision: Precision::F32,
    signature: Signature::Plain,
    tile: Tile { m: TILE as u32, n: TILE as u32, k: TILE as u32 },
    block: [TILE as u32, TILE as u32, 1],
    registers: Registers::Any,
    shared_bytes: ((TILE * TILE + TILE * ROW) * size_of::<f32>()) as u32,
    launch_shape,
};

/// One block of TILE x TILE threads per tile of C.
pub fn launch_shape(m: usize, n: usize, _k: usize) -> Option<LaunchShape> {
    LaunchShape::over_tiles(m, n, KERNEL.tile, KERNEL.block)
}

/// Where element (i, x) of B's tile is held: row x of the array is column x of the tile, and rows are ROW apart.
#[inline(always)]
const fn place(i: usize, x: usize) -> usize {
    x * ROW + i
}

/// C = A B, a TILE x TILE tile of C per block, B's tile transposed in shared memory with padded rows.
///
/// # Safety
///
/// `a`, `b` and `c` must point to `m * k`, `k * n` and `m * n` elements in memory that the GPU can reach, `c` apart
/// from the other two, and the launch must have the shape that [`launch_shape`] gives.
#[kernel]
pub unsafe fn padded(a: *const f32, b: *const f32, c: *mut f32, m: usize, n: usize, k: usize) {
    let tile_a = shared_array![f32; TILE * TILE];
    let tile_b = shared_array![f32; TILE * ROW];
    conflicted::product(a, b, c, (m, n, k), tile_a, tile_b, place);
}
