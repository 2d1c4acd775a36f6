//! # Lesson 5: the largest tile for one thread per element
//!
//! [`tiled`] with tiles of 32 x 32: the same code with another number. A block is 1024 threads, the most that a block
//! may have, and its two tiles take 8 KiB of shared memory.
//!
//! ## What 32 gains and costs
//!
//! Half the loads from global memory of T = 16 and half the steps, each with 32 multiply-adds per thread between its
//! barriers. An element of A is loaded n / 32 times: once per block of its row, not once. And half the loads aren't
//! twice the speed: the two reads of shared memory per multiply-add stay as they were.
//!
//! A multiprocessor of an H200 has places for 2048 threads and 65,536 registers: two blocks of 1024, if a thread needs
//! no more than 32 registers, as here. With 33 it's one block, and whenever its 32 warps wait at a barrier for the last
//! of them, there is no other block to go on with. A kernel whose threads need more than 64 couldn't be launched with
//! such a block at all.
//!
//! ## Who touches what
//!
//! A row of the block is a whole warp: 32 neighbours in memory, 128 bytes, four sectors where they begin at one. In
//! shared memory the warp writes 32 words in a row; it reads `tile_a[32 y + i]`, one word for all 32 threads, and
//! `tile_b[32 i + x]`, 32 words in a row. This is the case that is usually meant when a tiled product is said to have
//! no bank conflicts. For [16](crate::tiled) and [8](crate::tiled_8), where a warp covers several rows of the block,
//! it's true as well, but for another reason: those rows lie in different banks.

use crate::launch::{Architecture, Kernel, LaunchShape, Precision, Registers, Signature, Tile};
use crate::tiled;
use cuda_std::*;

/// Rows and columns of a tile; a block has TILE x TILE threads.
pub const TILE: usize = 32;

/// What the host needs to know to launch [`tiled_32`].
pub const KERNEL: Kernel = Kernel {
    name: "tiled_32",
    title: "tiled with tiles of 32 x 32",
    entry: "tiled_32",
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
pub unsafe fn tiled_32(a: *const f32, b: *const f32, c: *mut f32, m: usize, n: usize, k: usize) {
    let tile_a = shared_array![f32; TILE * TILE];
    let tile_b = shared_array![f32; TILE * TILE];
    tiled::product::<TILE>(a, b, c, (m, n, k), tile_a, tile_b);
}
