//! Each thread adds its right neighbour's element, and the last thread has none. The array ends with it, and so does
//! the block's shared memory: on a GPU the next bytes may well be there, for another block.

use crate::*;

/// What is wrong here.
pub const MISTAKE: Mistake = Mistake {
    name: "neighbour_past_the_end",
    right: "neighbour_past_the_end_right",
    title: "the last thread reads its neighbour past the end of the array",
    launch: Launch::Lines,
    before: Before::Unwritten,
    factors: ElementType::F32,
    is_product: false,
    shows: Shows::Always,
    found: &[Found::at(Kind::OutOfBounds, "read")],
};

entries!(neighbour_past_the_end, neighbour_past_the_end_right);

#[inline(always)]
unsafe fn work<const BROKEN: bool>(a: *const f32, _b: *const f32, c: *mut f32, m: usize, n: usize, k: usize) {
    let line = shared_array![f32; LINE];
    let t = thread::thread_idx_x() as usize;
    let at = thread::block_idx_x() as usize * LINE + t;
    let element = if at < m * k { *a.add(at) } else { 0.0 };
    *line.add(t) = element;
    thread::sync_threads();
    let mut sum = element;
    if BROKEN || t + 1 < LINE {
        sum += *line.add(t + 1); // <- read
    }
    if at < m * n {
        *c.add(at) = sum;
    }
}
