//! # Lesson 4: a smaller tile
//!
//! [`tiled`] with tiles of 8 x 8: the same code with another number. A block is 64 threads, two warps, and its two
//! tiles take 512 bytes of shared memory.
//!
//! ## What a tile's size decides
//!
//! With one thread per element of C and tiles of T x T:
//!
//! | T | threads of a block | shared memory | loads per element of C | times an element of A is loaded | steps |
//! |---|---|---|---|---|---|
//! | 8 | 64 | 512 bytes | 2 k / 8 | n / 8 | k / 8 |
//! | 16 | 256 | 2 KiB | 2 k / 16 | n / 16 | k / 16 |
//! | 32 | 1024 | 8 KiB | 2 k / 32 | n / 32 | k / 32 |
//! | 64 | 4096: **no block is that large** | 32 KiB | 2 k / 64 | n / 64 | k / 64 |
//!
//! Shared memory is 2 T x T floats, 8 T x T bytes. (Tables that give 1 KB for T = 8 and 4 KB for T = 16 beside 8 KB for
//! T = 32 have the first two twice too large.) It is never what limits the first three.
//!
//! ## What 8 costs
//!
//! - Twice the loads from global memory of T = 16, and twice the steps, each with two barriers. A step does only 8
//!   multiply-adds per thread between them.
//! - Blocks. A multiprocessor holds a limited number at a time, however small they are: 32 on an H200, just enough for
//!   its 2048 threads. With the 16 of compute capability 8.6, blocks of 64 threads fill 1024 of its 1536 places.
//!
//! ## Who touches what
//!
//! A warp covers 4 rows of 8. A row of 8 floats is 32 bytes, one whole sector where it begins at one. In shared memory
//! a warp writes 32 words in a row; it reads `tile_a[8 y + i]` in 4 words of 4 banks, 8 apart, each handed to 8
//! threads; and `tile_b[8 i + x]` in 8 words of 8 banks, each handed to 4. So no bank is asked for two words here
//! either.

use crate::launch::{Architecture, Kernel, LaunchShape, Precision, Registers, Signature, Tile};
use crate::tiled;
use cuda_std::*;

/// Rows and columns of a tile; a block has TILE x TILE threads.
pub const TILE: usize = 8;

/// What the host needs to know to launch [`tiled_8`].
pub const KERNEL: Kernel = Kernel {
    name: "tiled_8",
    title: "tiled with tiles of 8 x 8",
    entry: "tiled_8",
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

/// C = A B, a TILE x TILE tile of C per block.
///
/// # Safety
///
/// `a`, `b` and `c` must point to `m * k`, `k * n` and `m * n` elements in memory that the GPU can reach, `c` apart
/// from the other two, and the launch must have the shape that [`launch_shape`] gives.
#[kernel]
pub unsafe fn tiled_8(a: *const f32, b: *const f32, c: *mut f32, m: usize, n: usize, k: usize) {
    let tile_a = shared_array![f32; TILE * TILE];
    let tile_b = shared_array![f32; TILE * TILE];
    tiled::product::<TILE>(a, b, c, (m, n, k), tile_a, tile_b);
}
