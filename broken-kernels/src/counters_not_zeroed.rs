//! Each block counts the elements of A by sign, with atomic additions in shared memory. But nobody has set the counters
//! to zero: fresh shared memory holds whatever the last block left there, often zeros.

use crate::*;

/// What is wrong here.
pub const MISTAKE: Mistake = Mistake {
    name: "counters_not_zeroed",
    right: "counters_not_zeroed_right",
    title: "shared counters are counted up without having been set",
    launch: Launch::Lines,
    before: Before::Unwritten,
    factors: ElementType::F32,
    is_product: false,
    shows: Shows::Always,
    found: &[Found::at(Kind::Uninitialised, "count")],
};

entries!(counters_not_zeroed, counters_not_zeroed_right);

#[inline(always)]
unsafe fn work<const BROKEN: bool>(a: *const f32, _b: *const f32, c: *mut f32, m: usize, n: usize, k: usize) {
    let counters = shared_array![u32; 2];
    let t = thread::thread_idx_x() as usize;
    let at = thread::block_idx_x() as usize * LINE + t;
    if !BROKEN {
        if t < 2 {
            *counters.add(t) = 0;
        }
        thread::sync_threads();
    }
    let negative = at < m * k && *a.add(at) < 0.0;
    atomic_add!("u32", counters.add(negative as usize), 1); // <- count
    thread::sync_threads();
    if at < m * n {
        *c.add(at) = *counters.add(t % 2) as f32;
    }
}
