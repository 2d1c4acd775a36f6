//! Each block counts the elements of A by sign. `+= 1` is a read, an addition and a write, and threads that count at
//! the same time overwrite each other's.

use crate::*;

/// What is wrong here.
pub const MISTAKE: Mistake = Mistake {
    name: "counted_without_atomics",
    right: "counted_without_atomics_right",
    title: "threads count in shared memory without atomics",
    launch: Launch::Lines,
    before: Before::Unwritten,
    factors: ElementType::F32,
    is_product: false,
    shows: Shows::Always,
    found: &[
        Found::between(Kind::WriteAfterRead, "count", "count"),
        Found::between(Kind::WriteAfterWrite, "count", "count"),
    ],
};

entries!(counted_without_atomics, counted_without_atomics_right);

#[inline(always)]
unsafe fn work<const BROKEN: bool>(a: *const f32, _b: *const f32, c: *mut f32, m: usize, n: usize, k: usize) {
    let counters = shared_array![u32; 2];
    let t = thread::thread_idx_x() as usize;
    let at = thread::block_idx_x() as usize * LINE + t;
    if t < 2 {
        *counters.add(t) = 0;
    }
    thread::sync_threads();
    let negative = at < m * k && *a.add(at) < 0.0;
    if BROKEN {
        *counters.add(negative as usize) += 1; // <- count
    } else {
        atomic_add!("u32", counters.add(negative as usize), 1);
    }
    thread::sync_threads();
    if at < m * n {
        *c.add(at) = *counters.add(t % 2) as f32;
    }
}
