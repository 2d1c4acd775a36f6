//! # Lesson 3: tiles through shared memory
//!
//! The [naive kernel](crate::naive) loads each element of A n times and each element of B m times. Here the threads of
//! a block share what they load.
//!
//! ## Why tile
//!
//! A block of 16 x 16 threads computes a 16 x 16 tile of C. For that it needs 16 rows of A and 16 columns of B, and it
//! goes through them in steps of 16: a 16 x 16 tile of A and a 16 x 16 tile of B at a time, held in *shared memory*, a
//! small store inside the multiprocessor that all threads of a block can reach.
//!
//! ```text
//!                    +------+                        For each step s:
//!            step 0  | B 0  |                          1. load: thread (y, x) copies one element of tile A s and
//!                    +------+                             one of tile B s from global to shared memory
//!            step 1  | B 1  |                          2. barrier
//!                    +------+                          3. multiply: sum += A[y, i] * B[i, x] for the 16 values of i,
//!   step 0  1                                             all from shared memory
//!   +-----+-----+    +------+                          4. barrier
//!   | A 0 | A 1 | -> |  C   |
//!   +-----+-----+    +------+
//! ```
//!
//! Each thread loads 2 elements per step and uses 32: every element in shared memory is read by 16 threads. Bytes
//! loaded from global memory per element of C:
//!
//! | kernel | loads per element of C | k = 1024 |
//! |---|---|---|
//! | naive | 2 k elements, 8 k bytes | 8192 bytes |
//! | tiled, tile of 16 | 2 k / 16 elements, 8 k / 16 bytes | 512 bytes |
//!
//! Put the other way round: an element of A is loaded n / 16 times instead of n times (not once: blocks don't share). A
//! tile of T divides the traffic by T. It does not make the kernel T times as fast: the caches already served most of
//! the naive kernel's loads, and the tiled kernel still reads shared memory for every multiply-add.
//!
//! ## Who loads what
//!
//! In step s thread (y, x) loads A[row, 16 s + x] and B[16 s + y, column]. In both, neighbours in x read neighbours in
//! memory: 16 floats in a row, 64 bytes, whole sectors where the rows start at one. Elements past an edge of A or B are
//! replaced by zeros, which add nothing to any sum, so the product loop needs no guards and all threads of the block do
//! the same work.
//!
//! ## What each barrier prevents
//!
//! A barrier (`thread::sync_threads()`, CUDA's `__syncthreads()`) holds every thread of the block until all have
//! arrived; what they wrote to shared memory before it is visible to all after it. Warps of one block run at their own
//! pace, and nothing else orders them. Take two threads, one in a fast warp and one in a slow one.
//!
//! **Without the first barrier: reading before the write (a read-after-write hazard).**
//!
//! | time | fast thread | slow thread |
//! |---|---|---|
//! | 1 | writes its elements of both tiles | still waits for its load from global memory |
//! | 2 | reads the slow thread's element of the tile: **not written yet**, it gets the last step's value or garbage | |
//! | 3 | adds the wrong product | writes its element, too late |
//!
//! **Without the second barrier: overwriting before the read (a write-after-read hazard).**
//!
//! | time | fast thread | slow thread |
//! |---|---|---|
//! | 1 | finishes its 16 products | is at the 5th of its 16 |
//! | 2 | begins the next step, **overwrites** its elements of both tiles | |
//! | 3 | | reads the fast thread's element for its 6th product: a value of the next step |
//!
//! Both mistakes give wrong sums only when warps happen to drift apart, so a program without them can look right for a
//! long time.
//!
//! A thread whose element of C lies outside the matrix may not leave early, as it could in the naive kernel. Its
//! neighbours need what it loads: right of C's edge it still has an element of A to carry, below it one of B. And a
//! barrier is for all threads of the block: PTX leaves open what happens when some never come (today's GPUs go on
//! without threads that have exited; the simulator calls it an error). So it loads its share (or zeros), takes part in
//! both barriers, and only its final store is skipped.
//!
//! ## Why there is no bank conflict
//!
//! Shared memory has 32 banks, each 4 bytes wide: word w lives in bank w mod 32. In one pass each bank serves one word
//! to any number of threads; if a warp asks for two different words of one bank, the accesses take turns. A warp covers
//! two rows of the block, y and y + 1 with y even, and x = 0..15. What it touches:
//!
//! - writing either tile: words 16 y + x for both rows, 32 words in a row, every bank once;
//! - reading `tile_a[16 y + i]`: two different words, i and i + 16 modulo 32, in two different banks, each handed to 16
//!   threads (*broadcast*);
//! - reading `tile_b[16 i + x]`: 16 words in a row, in 16 banks, each handed to two threads.
//!
//! No pass has two words of one bank, so every access takes a single pass. (The compiler goes one better: it joins four
//! reads of `tile_a`, whose words are neighbours, into one 16-byte read, which takes two passes instead of four.)
//!
//! ## How many tiles fit
//!
//! The two tiles take 2 x 16 x 16 x 4 = 2048 bytes of shared memory per block. A multiprocessor of an H200 holds 2048
//! threads, so 8 blocks of 256 (if a thread needs no more than 32 of its 65,536 registers, as here), and these use 16
//! KiB of its 228: shared memory is no limit here. A larger tile would load less and reuse more:
//! [`tiled_8`](crate::tiled_8), [`tiled_32`](crate::tiled_32) and [`tiled_64`](crate::tiled_64) try other sizes.

use crate::launch::{Architecture, Kernel, LaunchShape, Precision, Registers, Signature, Tile};
use cuda_std::*;

/// Rows and columns of a tile; a block has TILE x TILE threads.
pub const TILE: usize = 16;

/// What the host needs to know to launch [`tiled`].
pub const KERNEL: Kernel = Kernel {
    name: "tiled",
    title: "square tiles through shared memory, two barriers a step",
    entry: "tiled",
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
pub unsafe fn tiled(a: *const f32, b: *const f32, c: *mut f32, m: usize, n: usize, k: usize) {
    let tile_a = shared_array![f32; TILE * TILE];
    let tile_b = shared_array![f32; TILE * TILE];
    product::<TILE>(a, b, c, (m, n, k), tile_a, tile_b);
}

/// The kernel's work, for any size of tile: [`tiled_8`](crate::tiled_8) and [`tiled_32`](crate::tiled_32) are this too.
///
/// # Safety
///
/// As for [`tiled`], with shared arrays of TILE x TILE elements and blocks of TILE x TILE threads.
#[inline(always)]
pub(crate) unsafe fn product<const TILE: usize>(
    a: *const f32,
    b: *const f32,
    c: *mut f32,
    (m, n, k): (usize, usize, usize),
    tile_a: *mut f32,
    tile_b: *mut f32,
) {
    let x = thread::thread_idx_x() as usize;
    let y = thread::thread_idx_y() as usize;
    let block_row = thread::block_idx_z() as usize * thread::grid_dim_y() as usize + thread::block_idx_y() as usize;
    let row = block_row * TILE + y;
    let column = thread::block_idx_x() as usize * TILE + x;

    let mut sum = 0.0;
    for step in 0..k.div_ceil(TILE) {
        // Load: one element of each tile, or zero past an edge.
        let a_column = step * TILE + x;
        let b_row = step * TILE + y;
        *tile_a.add(y * TILE + x) = if row < m && a_column < k { *a.add(row * k + a_column) } else { 0.0 };
        *tile_b.add(y * TILE + x) = if b_row < k && column < n { *b.add(b_row * n + column) } else { 0.0 };

        // Nobody reads the tiles until everybody has written them.
        thread::sync_threads();

        // Multiply: this thread's row of A's tile by its column of B's tile.
        for i in 0..TILE {
            sum = (*tile_a.add(y * TILE + i)).mul_add(*tile_b.add(i * TILE + x), sum);
        }

        // Nobody overwrites the tiles until everybody has read them.
        thread::sync_threads();
    }

    if row < m && column < n {
        *c.add(row * n + column) = sum;
    }
}
