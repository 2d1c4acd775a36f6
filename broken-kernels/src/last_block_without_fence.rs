//! Each block writes a partial sum and takes a number; the block with the last number adds the partial sums up. The
//! atomic counter tells who is last, but it's a fence that makes the others' sums visible before it.

use core::sync::atomic::{AtomicU32, Ordering::Relaxed};

use crate::*;

/// Blocks that have written their sums; zero again after the launch.
static FINISHED: AtomicU32 = AtomicU32::new(0);

/// What is wrong here.
pub const MISTAKE: Mistake = Mistake {
    name: "last_block_without_fence",
    right: "last_block_without_fence_right",
    title: "the last block reads partial sums without a fence",
    launch: Launch::Tiles,
    before: Before::Unwritten,
    factors: ElementType::F32,
    is_product: false,
    shows: Shows::Always,
    found: &[Found::between(Kind::ReadAfterWrite, "write", "read")],
};

entries!(last_block_without_fence, last_block_without_fence_right);

#[inline(always)]
unsafe fn work<const BROKEN: bool>(_a: *const f32, b: *const f32, c: *mut f32, m: usize, n: usize, k: usize) {
    let Here { x, y, row, column } = here();
    // One thread a block, at the left edge of its tile.
    if x != 0 || y != 0 || row >= m || column >= n {
        return;
    }
    *c.add(row * n + column) = if row < k { *b.add(row * n + column) } else { 0.0 }; // <- write
    if !BROKEN {
        thread::device_fence();
    }
    let blocks = thread::grid_dim_x() * thread::grid_dim_y();
    if FINISHED.fetch_add(1, Relaxed) + 1 == blocks {
        if !BROKEN {
            thread::device_fence();
        }
        let mut sum = 0.0;
        for row in (0..m).step_by(TILE) {
            for column in (0..n).step_by(TILE) {
                sum += *c.add(row * n + column); // <- read
            }
        }
        *c.add(1) = sum;
        FINISHED.store(0, Relaxed);
    }
}
