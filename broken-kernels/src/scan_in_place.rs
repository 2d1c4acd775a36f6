//! A running sum in shared memory: each thread adds the element `distance` before its own. One barrier after each round
//! is not enough: within the round, a thread may change its element before its neighbour has read it.

use crate::*;

/// What is wrong here.
pub const MISTAKE: Mistake = Mistake {
    name: "scan_in_place",
    right: "scan_in_place_right",
    title: "a running sum changes elements that neighbours are about to read",
    launch: Launch::Lines,
    before: Before::Unwritten,
    factors: ElementType::F32,
    is_product: false,
    shows: Shows::Always,
    found: &[Found::between(Kind::WriteAfterRead, "read", "write")],
};

entries!(scan_in_place, scan_in_place_right);

#[inline(always)]
unsafe fn work<const BROKEN: bool>(a: *const f32, _b: *const f32, c: *mut f32, m: usize, n: usize, k: usize) {
    let line = shared_array![f32; LINE];
    let t = thread::thread_idx_x() as usize;
    let at = thread::block_idx_x() as usize * LINE + t;
    *line.add(t) = if at < m * k { *a.add(at) } else { 0.0 };
    thread::sync_threads();
    let mut distance = 1;
    while distance < LINE {
        let before = if t >= distance { *line.add(t - distance) } else { 0.0 }; // <- read
        if !BROKEN {
            thread::sync_threads();
        }
        *line.add(t) += before; // <- write
        thread::sync_threads();
        distance *= 2;
    }
    if at < m * n {
        *c.add(at) = *line.add(t);
    }
}
