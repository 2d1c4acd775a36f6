//! Each block writes its part of C, waits at a barrier, and reads the next block's part. The barrier is one for the
//! threads of a block: whether the next block has even started is left to chance.

use crate::*;

/// What is wrong here.
pub const MISTAKE: Mistake = Mistake {
    name: "block_barrier_for_the_grid",
    right: "block_barrier_for_the_grid_right",
    title: "a barrier of the block is taken for one of the grid",
    launch: Launch::Lines,
    before: Before::Unwritten,
    factors: ElementType::F32,
    is_product: false,
    shows: Shows::Always,
    found: &[Found::between(Kind::ReadAfterWrite, "write", "read")],
};

entries!(block_barrier_for_the_grid, block_barrier_for_the_grid_right);

#[inline(always)]
unsafe fn work<const BROKEN: bool>(a: *const f32, _b: *const f32, c: *mut f32, m: usize, n: usize, k: usize) {
    // The first half of C takes elements of A, the second half copies of the first.
    let half = m * n / 2;
    let t = thread::thread_idx_x() as usize;
    let first = thread::block_idx_x() as usize * LINE;
    let at = first + t;
    if at < half {
        *c.add(at) = if at < m * k { *a.add(at) } else { 0.0 }; // <- write
    }
    thread::sync_threads();
    if at < half {
        let length = LINE.min(half - first);
        let other = if BROKEN { (at + LINE) % half } else { first + (t + 1) % length };
        *c.add(half + at) = *c.add(other); // <- read
    }
}
