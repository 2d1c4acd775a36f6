//! # Lesson 6: one bank, asked 32 times
//!
//! [`tiled_32`](crate::tiled_32) with one change: B's tile is held *transposed* in shared memory, column x of B as row
//! x of the array. The idea comes from CPU code and looks like a gain: in the product loop both operands now lie along
//! rows, `tile_a[y, i]` and `tile_b[x, i]`, and a thread that walks along a row reads one word after the other. But
//! what matters on a GPU is what the 32 threads of a warp do *at the same time*.
//!
//! ## The degree of each access
//!
//! Shared memory has 32 banks, word w lives in bank w mod 32, and a bank serves one word at a time. A block is 32 wide,
//! so a warp is one of its rows: y is the same for all, x = 0..31. A row of an array has 32 words too, so that all of a
//! column lies in one bank:
//!
//! | access | words of a warp | banks | turns |
//! |---|---|---|---|
//! | write `tile_a[y, x]` | 32 y + x | each once | 1, the fewest |
//! | write `tile_b` (element y of column x) | 32 x + y | all in bank y | **32**, the fewest is 1 |
//! | read `tile_a[y, i]` | 32 y + i | one word for all: a broadcast | 1, the fewest |
//! | read `tile_b` (element i of column x) | 32 x + i | all in bank i | **32** |
//!
//! The compiler joins four reads of the loop whose words are neighbours (i to i + 3) into one of 16 bytes, for both
//! arrays. 32 threads with 16 bytes each take 4 turns at least, 8 threads a turn; here any two of them want different
//! words of the same four banks, and each thread needs a turn of its own. So the joined read takes 32 turns instead of
//! 4, for four steps of the loop. (That of A's tile, one address for all, takes 2.) A step of the kernel thus takes 32
//! turns for writing and 8 x 32 for reading B's tile, 288 per warp, where `tiled_32` takes 1 + 32.
//!
//! No answer shows this: every sum is right, and the kernel is only slow. [`padded`](crate::padded) and
//! [`swizzled`](crate::swizzled) are two cures.

use crate::launch::{Architecture, Kernel, LaunchShape, Precision, Registers, Signature, Tile};
use cuda_std::*;

/// Rows and columns of a tile; a block has TILE x TILE threads.
pub const TILE: usize = 32;

/// What the host needs to know to launch [`conflicted`].
pub const KERNEL: Kernel = Kernel {
    name: "conflicted",
    title: "B's tile transposed in shared memory: 32-way bank conflicts",
    entry: "conflicted",
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

/// Where element (i, x) of B's tile is held: row x of the array is column x of the tile.
#[inline(always)]
const fn place(i: usize, x: usize) -> usize {
    x * TILE + i
}

/// C = A B, a TILE x TILE tile of C per block, B's tile transposed in shared memory.
///
/// # Safety
///
/// `a`, `b` and `c` must point to `m * k`, `k * n` and `m * n` elements in memory that the GPU can reach, `c` apart
/// from the other two, and the launch must have the shape that [`launch_shape`] gives.
#[kernel]
pub unsafe fn conflicted(a: *const f32, b: *const f32, c: *mut f32, m: usize, n: usize, k: usize) {
    let tile_a = shared_array![f32; TILE * TILE];
    let tile_b = shared_array![f32; TILE * TILE];
    product(a, b, c, (m, n, k), tile_a, tile_b, place);
}

/// The kernel's work, wherever element (i, x) of B's tile is held: [`padded`](crate::padded) and
/// [`swizzled`](crate::swizzled) are this too.
///
/// # Safety
///
/// As for [`conflicted`], with `place` different for each element and inside `tile_b`.
#[inline(always)]
pub(crate) unsafe fn product(
    a: *const f32,
    b: *const f32,
    c: *mut f32,
    (m, n, k): (usize, usize, usize),
    tile_a: *mut f32,
    tile_b: *mut f32,
    place: impl Fn(usize, usize) -> usize,
) {
    let x = thread::thread_idx_x() as usize;
    let y = thread::thread_idx_y() as usize;
    let block_row = thread::block_idx_z() as usize * thread::grid_dim_y() as usize + thread::block_idx_y() as usize;
    let row = block_row * TILE + y;
    let column = thread::block_idx_x() as usize * TILE + x;

    let mut sum = 0.0;
    for step in 0..k.div_ceil(TILE) {
        let a_column = step * TILE + x;
        let b_row = step * TILE + y;
        *tile_a.add(y * TILE + x) = if row < m && a_column < k { *a.add(row * k + a_column) } else { 0.0 };
        *tile_b.add(place(y, x)) = if b_row < k && column < n { *b.add(b_row * n + column) } else { 0.0 };
        thread::sync_threads();

        for i in 0..TILE {
            sum = (*tile_a.add(y * TILE + i)).mul_add(*tile_b.add(place(i, x)), sum);
        }
        thread::sync_threads();
    }

    if row < m && column < n {
        *c.add(row * n + column) = sum;
    }
}
