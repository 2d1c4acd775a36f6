//! Each thread goes through the elements in strides of a block, with barriers on the way. If the number of elements
//! isn't a multiple of the block, some threads have one turn fewer and miss the last turn's barriers.

use crate::*;

/// What is wrong here.
pub const MISTAKE: Mistake = Mistake {
    name: "barrier_in_uneven_loop",
    right: "barrier_in_uneven_loop_right",
    title: "a barrier in a loop with fewer turns for some threads",
    launch: Launch::OneLine,
    before: Before::Unwritten,
    factors: ElementType::F32,
    is_product: false,
    shows: Shows::AtEdges,
    found: &[Found::at(Kind::DivergentBarrier, "barrier")],
};

entries!(barrier_in_uneven_loop, barrier_in_uneven_loop_right);

#[inline(always)]
unsafe fn work<const BROKEN: bool>(a: *const f32, _b: *const f32, c: *mut f32, m: usize, n: usize, k: usize) {
    let buffer = shared_array![f32; LINE];
    let t = thread::thread_idx_x() as usize;
    let elements = m * k;
    // Turns of this thread; the right number of turns is the same for all.
    let turns = if BROKEN { (elements + LINE - 1 - t) / LINE } else { elements.div_ceil(LINE) };
    let mut sum = 0.0;
    for turn in 0..turns {
        let at = turn * LINE + t;
        *buffer.add(t) = if at < elements { *a.add(at) } else { 0.0 };
        thread::sync_threads(); // <- barrier
        sum += *buffer.add(LINE - 1 - t);
        thread::sync_threads();
    }
    if t < m * n {
        *c.add(t) = sum;
    }
}
