//! The first row of threads fetches a factor for each column and puts it into shared memory; all rows read it at once.
//! The first warp is likely to be right, the rest get whatever was there.

use crate::*;

/// What is wrong here.
pub const MISTAKE: Mistake = Mistake {
    name: "broadcast_without_barrier",
    right: "broadcast_without_barrier_right",
    title: "values of a few threads are read by all without a barrier",
    launch: Launch::Tiles,
    before: Before::Unwritten,
    factors: ElementType::F32,
    is_product: false,
    shows: Shows::Always,
    found: &[Found::between(Kind::ReadAfterWrite, "write", "read")],
};

entries!(broadcast_without_barrier, broadcast_without_barrier_right);

#[inline(always)]
unsafe fn work<const BROKEN: bool>(a: *const f32, b: *const f32, c: *mut f32, m: usize, n: usize, k: usize) {
    let factors = shared_array![f32; TILE];
    let Here { x, y, row, column } = here();
    if y == 0 {
        *factors.add(x) = if column < k { *a.add(column) } else { 0.0 }; // <- write
    }
    if !BROKEN {
        thread::sync_threads();
    }
    let factor = *factors.add(x); // <- read
    if row < m && column < n {
        let element = if row < k { *b.add(row * n + column) } else { 0.0 };
        *c.add(row * n + column) = factor * element;
    }
}
