//! # Lesson 1: one thread per element, straight from global memory
//!
//! Every element of C is a dot product of one row of A and one column of B. Nothing in one depends on another, so the
//! simplest GPU program gives each its own thread:
//!
//! ```text
//!              B (k x n)                 thread (row, column):
//!                 column                     sum = 0
//!                   |                        for i in 0..k:
//!                   v                            sum += A[row, i] * B[i, column]
//!   A  row -> [ . . . . ]  = C[row, column]  C[row, column] = sum
//! ```
//!
//! ## What it costs
//!
//! Per multiply-add the thread loads one element of A and one of B: 8 bytes for 2 floating-point operations. Over its
//! whole life it loads 2 k elements, 8 k bytes, to produce one output of 4 bytes. For k = 1024 that is 8 KiB *per
//! element of C*, and 8 GiB for a 1024 x 1024 product whose three matrices have only 12 MiB between them: each element
//! of A is loaded n times, each element of B m times.
//!
//! An H200 moves about 4.3 TB/s to and from its memory (measured with a large copy). If every one of those loads went
//! there, 8 bytes per multiply-add would hold it to about 1 TFLOP/s of the 67 it can compute. It does better than that,
//! since neighbouring threads ask for the same data at nearly the same time and the caches (L1 in every multiprocessor,
//! L2 for the whole chip) answer most of them. But every load still costs an instruction and a trip to L1, two of them
//! for each multiply-add, and that is what limits this kernel.
//!
//! ## Who loads what
//!
//! A warp is 32 threads that execute an instruction together, numbered along x first: in a block of 16 x 16 threads a
//! warp covers two rows of 16 columns.
//! - `B[i, column]`: 16 neighbours in memory, 64 bytes, two sectors of 32 bytes where a row of B starts at a sector (n
//!   a multiple of 8; else three). Threads next to each other in x load elements next to each other in memory: the load
//!   is *coalesced*.
//! - `A[row, i]`: the same element for all 16 threads of a row, so two elements for the warp. One load serves all that
//!   ask for the same address.
//!
//! With x along the rows of C instead, it would be A whose elements lie far apart: 16 threads would touch 16 sectors
//! for one element each, in the loads of A as in the stores to C. [`uncoalesced`](crate::uncoalesced) does it that way,
//! to be compared with this.
//!
//! ## What comes next
//!
//! All 16 threads of a row of the block read the same row of A, and all 16 of a column the same column of B. The block
//! as a whole needs each of these elements once. [`tiled`](crate::tiled) has it fetched once.

use crate::launch::{Architecture, Kernel, LaunchShape, Precision, Registers, Signature, Tile};
use cuda_std::*;

/// A block has BLOCK x BLOCK threads, one for each element of its piece of C.
pub const BLOCK: usize = 16;

/// What the host needs to know to launch [`naive`].
pub const KERNEL: Kernel = Kernel {
    name: "naive",
    title: "one thread per element, straight from global memory",
    entry: "naive",
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

/// C = A B with one thread per element of C.
///
/// # Safety
///
/// `a`, `b` and `c` must point to `m * k`, `k * n` and `m * n` elements in memory that the GPU can reach, `c` apart
/// from the other two, and the launch must have the shape that [`launch_shape`] gives.
#[kernel]
pub unsafe fn naive(a: *const f32, b: *const f32, c: *mut f32, m: usize, n: usize, k: usize) {
    let block_row = thread::block_idx_z() as usize * thread::grid_dim_y() as usize + thread::block_idx_y() as usize;
    let row = block_row * BLOCK + thread::thread_idx_y() as usize;
    let column = thread::block_idx_x() as usize * BLOCK + thread::thread_idx_x() as usize;

    // Blocks at the right and lower edges hang over C. No barrier follows, so the surplus threads may simply leave.
    if row >= m || column >= n {
        return;
    }

    let mut sum = 0.0;
    for i in 0..k {
        // mul_add is one fused instruction, rounded once. Rust never fuses `x * y + sum` by itself: that would be two.
        sum = (*a.add(row * k + i)).mul_add(*b.add(i * n + column), sum);
    }
    *c.add(row * n + column) = sum;
}
