//! # Lesson 18: a barrier in two halves

use crate::async_copies::Copies;
use crate::launch::Kernel;
use crate::register_column::first_element;
use crate::register_tile::add_outer_product;
use crate::vector_loads::{Matrices, THREADS};
use crate::wide_tile::{
    self, after, place, vectors, COLUMNS, COLUMNS_APART, DEPTH, OUTPUT_COLUMNS, OUTPUT_ROWS, PORTIONS, ROWS, ROWS_APART,
    ROW_A, ROW_B, STAGE, STAGES, TILE_A, WARP_COLUMNS, WARP_ROWS,
};
use cuda_std::*;
use kernel_common::barriers;
use kernel_common::copies::wait_group;
use kernel_common::vectors::{dynamic_shared_memory, shared_address};

/// The place of k, in each step, at which a warp arrives at the barrier.
const ARRIVE_AT: usize = DEPTH - 6;
/// Warps of a block.
const WARPS: u32 = THREADS as u32 / 32;

/// What the host needs to know to launch [`split_barrier`].
pub const KERNEL: Kernel = Kernel {
    name: "split_barrier",
    title: "warps arrive at the barrier early and wait late",
    entry: "split_barrier",
    shared_bytes: size_of::<u64>() as u32,
    ..wide_tile::KERNEL
};

/// C = A B, a ROWS x COLUMNS tile of C per block and OUTPUT_ROWS x OUTPUT_COLUMNS elements of it per thread.
///
/// # Safety
///
/// As for [`wide_tile`](wide_tile::wide_tile).
#[kernel]
pub unsafe fn split_barrier(a: *const f32, b: *const f32, c: *mut f32, m: usize, n: usize, k: usize) {
    product(&Matrices { a, b, c, m, n, k }, first_element(ROWS, COLUMNS));
}

#[inline(always)]
pub(crate) unsafe fn product(matrices: &Matrices, first: (usize, usize)) {
    let barrier = shared_address(shared_array![u64; 1]);
    if matrices.are_aligned() {
        pipeline::<true>(matrices, first, barrier);
    } else {
        pipeline::<false>(matrices, first, barrier);
    }
}

/// The kernel's work, with 16-byte copies and stores in global memory or without.
#[inline(always)]
unsafe fn pipeline<const ALIGNED: bool>(matrices: &Matrices, first: (usize, usize), barrier: u32) {
    let thread = thread::thread_idx_x();
    let (y, x) = place::<WARP_ROWS, WARP_COLUMNS>(thread as usize / 32, COLUMNS / WARP_COLUMNS);
    let stages = dynamic_shared_memory();
    let mut copies = Copies::<ROWS, COLUMNS, DEPTH, ALIGNED>::new(matrices, first);

    if thread == 0 {
        barriers::initialise(barrier, WARPS);
    }
    copies.start(stages);
    wait_group::<0>();
    thread::sync_threads();

    let mut sums = [[0.0; OUTPUT_COLUMNS]; OUTPUT_ROWS];
    let (offset_a, offset_b) = (y as u32 * 4, TILE_A + x as u32 * 4);
    let mut a_column = vectors::<OUTPUT_ROWS, ROWS_APART>(stages + offset_a);
    let mut b_row = vectors::<OUTPUT_COLUMNS, COLUMNS_APART>(stages + offset_b);
    let (mut present, mut phase) = (stages, 0);
    while copies.had_more(1) {
        let next = after::<STAGES, STAGE>(present, stages);
        for i in 0..DEPTH {
            if i % 2 == 0 && i / 2 < PORTIONS {
                copies.start_portion::<PORTIONS>(i / 2, next);
            }
            if i == ARRIVE_AT {
                copies.advance();
                wait_group::<0>();
                barriers::sync_warp();
                if thread.is_multiple_of(32) {
                    barriers::arrive(barrier);
                }
            }
            if i + 1 == DEPTH {
                barriers::wait(barrier, phase);
                phase = 1 - phase;
            }
            let (a_now, b_now) = (a_column, b_row);
            let (stage, row) = if i + 1 < DEPTH { (present, i as u32 + 1) } else { (next, 0) };
            a_column = vectors::<OUTPUT_ROWS, ROWS_APART>(stage + offset_a + row * ROW_A);
            b_row = vectors::<OUTPUT_COLUMNS, COLUMNS_APART>(stage + offset_b + row * ROW_B);
            add_outer_product(&a_now, &b_now, &mut sums);
        }
        present = next;
    }
    matrices.store::<ALIGNED, ROWS_APART, COLUMNS_APART, _, _>((first.0 + y, first.1 + x), &sums);
}
