//! # Lesson 16: several steps ahead
//!
//! In [`async_copies`](crate::async_copies) a copy is started in one step and must be there for the next: it has one
//! step's time. That's 512 multiply-adds of each warp, and a scheduler with two warps of one block needs at least 1024
//! cycles for theirs. A load from memory takes several hundred if nobody else loads, and everybody does; and whoever
//! waits, waits at a barrier, and all others of the block with it.
//!
//! More stages give a copy more time. With S of them, one is read while S - 1 are on their way, and a copy that is
//! started in step s is needed in step s + S - 1. Here S is 4:
//!
//! ```text
//!   step   reads stage   copies tiles   to stage
//!     0         0             3            3
//!     1         1             4            0        which step 0 has read
//!     2         2             5            1
//!     3         3             6            2
//! ```
//!
//! It costs shared memory only, 8,320 bytes a stage, and no register: that is what copies that pass none are good for.
//! Two blocks take 66,560 bytes of a multiprocessor's.
//!
//! ## What `wait_group::<N>` means
//!
//! Groups end in the order in which they were committed, as far as waiting is concerned: `wait_group::<N>` returns when
//! at most the N *latest* are still on their way. Which N is right? Count the groups at the beginning of step s. S - 1
//! were committed before the first step, and one in every step since. The step needs group s, so those behind it may be
//! missing:
//!
//! ```text
//!   step   committed so far    needed    may be on their way
//!     0    0 1 2                  0       1 2
//!     1    0 1 2 3                1       2 3
//!     2    0 1 2 3 4              2       3 4
//! ```
//!
//! N = S - 2 = 2. With 3 the kernel reads tiles that may not be there, and often gets away with it. With 1 it's right,
//! but waits for copies that have had two steps' time instead of three.
//!
//! The count must go on to the end. After the last tiles a thread still starts a group in every step, of zeros, for
//! which no memory is read; if it stopped, the latest groups would be those that the last steps need.
//!
//! ## One barrier
//!
//! As before it says two things: everybody's copies of this step's tiles are here, since everybody has waited for them,
//! and everybody is through with the step before, whose stage is now the next to be filled. This is why the copies come
//! after the barrier and not before it.
//!
//! ## What limits it next
//!
//! Two stages were enough here, as is seen below: a step's 1024 cycles are long beside a load. The loop is as long as it
//! was, and of 100 instructions 85 are multiply-adds on an H200. 5 of the others are reads of shared memory, 4 for 64
//! multiply-adds, and the rest is done once a step whatever the tile's size. [`wide_tile`](crate::wide_tile) makes more
//! of both.
//!
//! ## Measured
//!
//! On an H200 46.0 TFLOP/s at N = 4096 and 21.1 at N = 1024, 90 % and 59 % of cuBLAS (f32 without TF32) in the same run;
//! [two stages](crate::async_copies): 46.3 and 20.9. Three steps' time for a copy instead of one are worth 1.0 % where a
//! block has its multiprocessor to itself, and cost 0.7 % where two share it: here a copy has time enough anyway. It has
//! less in shorter steps, such as those of [`k_slices`](crate::k_slices).

use crate::async_copies::{multiply_stage, Copies, STAGE};
use crate::launch::{Architecture, Kernel, LaunchShape, Precision, Registers, Signature, Tile};
use crate::register_column::first_element;
use crate::vector_loads::{Matrices, DEPTH, OUTPUTS, THREADS, TILE};
use crate::warp_tiled::{place, COLUMNS_APART, ROWS_APART};
use cuda_std::*;
use kernel_common::copies::wait_group;
use kernel_common::vectors::shared_address;

/// Pairs of tiles in shared memory: one that is read, the others to copy to.
pub const STAGES: usize = 4;

/// What the host needs to know to launch [`multi_stage`].
pub const KERNEL: Kernel = Kernel {
    name: "multi_stage",
    title: "four stages, copies three steps ahead",
    entry: "multi_stage",
    architecture: Architecture::Compute80,
    precision: Precision::F32,
    signature: Signature::Plain,
    tile: Tile { m: TILE as u32, n: TILE as u32, k: DEPTH as u32 },
    block: [THREADS as u32, 1, 1],
    registers: Registers::ForBlocks(2),
    shared_bytes: STAGES as u32 * STAGE,
    launch_shape,
};

/// One block of THREADS threads per tile of C.
pub fn launch_shape(m: usize, n: usize, _k: usize) -> Option<LaunchShape> {
    LaunchShape::over_tiles(m, n, KERNEL.tile, KERNEL.block)
}

/// C = A B, a TILE x TILE tile of C per block and OUTPUTS x OUTPUTS elements of it per thread.
///
/// # Safety
///
/// `a`, `b` and `c` must point to `m * k`, `k * n` and `m * n` elements in memory that the GPU can reach, `c` apart
/// from the other two, and the launch must have the shape that [`launch_shape`] gives.
#[kernel]
pub unsafe fn multi_stage(a: *const f32, b: *const f32, c: *mut f32, m: usize, n: usize, k: usize) {
    let stages = shared_array![f32; STAGES * STAGE as usize / size_of::<f32>()];
    let matrices = Matrices { a, b, c, m, n, k };
    if matrices.are_aligned() {
        pipeline::<true>(&matrices, stages);
    } else {
        pipeline::<false>(&matrices, stages);
    }
}

/// The kernel's work, with 16-byte copies of B and stores of C or without.
#[inline(always)]
unsafe fn pipeline<const ALIGNED: bool>(matrices: &Matrices, stages: *mut f32) {
    let first = first_element(TILE, TILE);
    let place = place();
    let first_stage = shared_address(stages);
    let mut copies = Copies::<TILE, TILE, DEPTH, ALIGNED>::new(matrices, first);
    for stage in 0..STAGES as u32 - 1 {
        copies.start(first_stage + stage * STAGE);
    }

    let mut sums = [[0.0; OUTPUTS]; OUTPUTS];
    let (mut present, mut next) = (first_stage, first_stage + (STAGES as u32 - 1) * STAGE);
    while copies.had_more(STAGES - 1) {
        // This thread's copies of this step's tiles are here, those of the next STAGES - 2 steps needn't be; after the
        // barrier, everybody's.
        wait_group::<{ STAGES - 2 }>();
        thread::sync_threads();

        // Into the stage that everybody has read before the barrier, for STAGES - 1 steps from now.
        copies.start(next);

        multiply_stage(stages.add((present - first_stage) as usize / size_of::<f32>()), place, &mut sums);
        present = after::<STAGES, STAGE>(present, first_stage);
        next = after::<STAGES, STAGE>(next, first_stage);
    }
    // No copy may still be on its way when the block's shared memory becomes another block's.
    wait_group::<0>();
    matrices.store::<ALIGNED, ROWS_APART, COLUMNS_APART, _, _>((first.0 + place.0, first.1 + place.1), &sums);
}

/// The stage after `stage`, of STAGES with BYTES each; after the last comes the first.
#[inline(always)]
pub(crate) fn after<const STAGES: usize, const BYTES: u32>(stage: u32, first: u32) -> u32 {
    if stage == first + (STAGES as u32 - 1) * BYTES {
        first
    } else {
        stage + BYTES
    }
}
