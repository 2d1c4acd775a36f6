//! # Lesson 18: a barrier in two halves
//!
//! A barrier is two things in one. A thread *arrives*, which says: I'm through with what came before. And it *waits*
//! until everybody has arrived. `sync_threads` has nothing between the two. But there may well be something to do that
//! needs neither: in [`wide_tile`](crate::wide_tile) a warp that is through with its copies still has products to
//! compute before it needs the next tiles.
//!
//! GPUs of compute capability 8.0 and later have barriers in two halves, as objects in shared memory (`mbarrier`). One
//! counts arrivals; when as many have come as it was made for, its *phase* is complete and the next begins. Whoever
//! waits, waits for a phase, and names it by its parity: 0, 1, 0, 1.
//!
//! ## One step
//!
//! ```text
//!   place   0  2  4  6   start copies of the next tiles
//!          10            wait_group: my copies are here           -> arrive
//!          11 .. 14      multiply
//!          15            wait for the phase: everybody's are here -> read the first operands of the next step, multiply
//! ```
//!
//! Between place 10 and 15 lie 640 multiply-adds of each warp: one that is so far behind the others still holds nobody
//! up. And operands are read across the step's end. There is no beginning of a step any more at which all warps first
//! have to read; only the loop's branch.
//!
//! ## Why it's right
//!
//! A thread that arrives in step s says two things: its copies of tiles s + 1 are here, and it's through with step s - 1.
//! Take the stages in turn, three of them:
//!
//! - Tiles s + 1 are read from place 15 of step s on, after the wait: everybody's copies are here.
//! - Tiles s + 2 are copied from step s + 1 on, after the same wait, into the stage that step s - 1 has read. Everybody
//!   is through with it.
//! - Tiles s may still be read by a slow warp, at places 11 to 15, while a fast one is in step s + 1. Nobody copies
//!   into their stage before step s + 2.
//!
//! The third stage is the distance between fast and slow. With two, the copies of step s + 1 would go into the stage
//! that the slow one is reading; and with arrival at place 15 there's nothing left to do before the wait.
//!
//! One barrier serves all steps. A thread can't arrive for a phase before it has waited for the one before, so nobody is
//! ever two phases ahead, and the parity is enough to tell two phases apart. A thread that waits with the wrong parity
//! waits for the phase before, which is complete, and goes on at once.
//!
//! ## Who arrives
//!
//! Every thread, 256 arrivals for a phase. What a thread has read and copied before its own arrival is done when the phase
//! is complete. One lane could arrive for its whole warp, after a `sync_warp` that makes the others' copies and reads
//! come before: 8 arrivals instead of 256, and not faster, since a warp's arrivals are one instruction either way. And
//! compute-sanitizer's racecheck believes only threads that arrive themselves. A barrier has to be made before it can be
//! used: thread 0 does it, and an ordinary barrier, before the first step, shows it to all.
//!
//! Copies are only one step ahead now, started at places 0 to 6 and waited for at place 10. With two warps for each
//! scheduler a place takes 256 cycles, so the last of them has 1000 cycles, and the steps are long enough.
//!
//! Waiting is a loop that asks again and again. It's one piece of assembly text ([`barriers::wait`]), so that to the
//! compiler the step is still one piece without a branch.
//!
//! ## What limits it next
//!
//! Not the barrier, as is seen below: the instructions that aren't multiply-adds, 9 of 100, and now and then a
//! multiply-add whose three operands come from two banks of registers. More than this a kernel can only gain in what it
//! knows of the product: which tiles are computed at the same time ([`block_order`](crate::block_order)), and what to do with a small one
//! ([`k_slices`](crate::k_slices)).
//!
//! ## Measured
//!
//! On an H200 49.6 TFLOP/s at N = 4096 and 12.0 at N = 1024, 97 % and 34 % of cuBLAS (f32 without TF32) in the same run;
//! [with barriers in one piece](crate::wide_tile): 49.6 and 12.1. So it gains nothing: 0.1 % less, 1.1 % less, and 0.3 %
//! more at N = 8192. A step is at least 4096 cycles long, two warps a scheduler with 2048 multiply-adds each, and eight
//! warps with the same work aren't far apart at its end: there was hardly any waiting to fill. If a barrier in halves pays,
//! then where steps are shorter, or where warps have different work.

use crate::async_copies::Copies;
use crate::launch::Kernel;
use crate::multi_stage::after;
use crate::register_column::first_element;
use crate::register_tile::add_outer_product;
use crate::vector_loads::{Matrices, THREADS};
use crate::wide_tile::{
    self, place, Operands, COLUMNS, COLUMNS_APART, DEPTH, OUTPUT_COLUMNS, OUTPUT_ROWS, PORTIONS, ROWS, ROWS_APART,
    STAGE, STAGES,
};
use cuda_std::*;
use kernel_common::barriers;
use kernel_common::copies::wait_group;
use kernel_common::vectors::{dynamic_shared_memory, shared_address};

/// The place of k, in each step, at which a thread arrives at the barrier; at the last one it waits.
const ARRIVE_AT: usize = DEPTH - 6;

/// What the host needs to know to launch [`split_barrier`].
pub const KERNEL: Kernel = Kernel {
    name: "split_barrier",
    title: "warps arrive at the barrier early and wait late",
    entry: "split_barrier",
    // The barrier has 8 bytes, and dynamic shared memory begins at the next multiple of 128.
    shared_bytes: 128,
    ..wide_tile::KERNEL
};

/// C = A B, a ROWS x COLUMNS tile of C per block and OUTPUT_ROWS x OUTPUT_COLUMNS elements of it per thread.
///
/// # Safety
///
/// `a`, `b` and `c` must point to `m * k`, `k * n` and `m * n` elements in memory that the GPU can reach, `c` apart
/// from the other two, and the launch must have the shape that [`wide_tile::launch_shape`] gives.
#[kernel]
pub unsafe fn split_barrier(a: *const f32, b: *const f32, c: *mut f32, m: usize, n: usize, k: usize) {
    product(&Matrices { a, b, c, m, n, k }, first_element(ROWS, COLUMNS));
}

/// The kernel's work for the tile that begins at that row and column of C.
///
/// # Safety
///
/// As for [`split_barrier`], and the tile must begin inside.
#[inline(always)]
pub(crate) unsafe fn product(matrices: &Matrices, first: (usize, usize)) {
    let barrier = shared_address(shared_array![u64; 1]);
    if matrices.are_aligned() {
        pipeline::<true>(matrices, first, barrier);
    } else {
        pipeline::<false>(matrices, first, barrier);
    }
}

/// The same, with 16-byte copies of B and stores of C or without, and room for a barrier.
#[inline(always)]
unsafe fn pipeline<const ALIGNED: bool>(matrices: &Matrices, first: (usize, usize), barrier: u32) {
    let thread = thread::thread_idx_x();
    let place = place();
    let first_stage = dynamic_shared_memory();
    let mut copies = Copies::<ROWS, COLUMNS, DEPTH, ALIGNED>::new(matrices, first);

    // The first tiles, and the barrier.
    if thread == 0 {
        barriers::initialise(barrier, THREADS as u32);
    }
    copies.start(first_stage);
    wait_group::<0>();
    thread::sync_threads();

    let mut sums = [[0.0; OUTPUT_COLUMNS]; OUTPUT_ROWS];
    let mut ahead = Operands::load(first_stage, place, 0);
    let (mut present, mut parity) = (first_stage, 0);
    while copies.had_more(1) {
        let next = after::<STAGES, STAGE>(present, first_stage);
        for i in 0..DEPTH {
            if i % 2 == 0 && i / 2 < PORTIONS {
                copies.start_portion::<PORTIONS>(i / 2, next);
            }
            if i == ARRIVE_AT {
                // This thread's copies of the next tiles are here, and it's through with the step before.
                copies.advance();
                wait_group::<0>();
                barriers::arrive(barrier);
            }
            let operands = ahead;
            if i + 1 < DEPTH {
                ahead = Operands::load(present, place, i + 1);
            } else {
                // Everybody's copies are here, and everybody is through with the step before.
                barriers::wait(barrier, parity);
                parity = 1 - parity;
                ahead = Operands::load(next, place, 0);
            }
            add_outer_product(&operands.a_column, &operands.b_row, &mut sums);
        }
        present = next;
    }
    matrices.store::<ALIGNED, ROWS_APART, COLUMNS_APART, _, _>((first.0 + place.0, first.1 + place.1), &sums);
}
