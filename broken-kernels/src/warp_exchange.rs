//! Neighbouring threads of a warp exchange values through shared memory. Before 2017 a warp ran in lock-step and this
//! was safe; since Volta its threads may drift apart, and `sync_warp` (or a barrier) has to come between.

use crate::*;

/// What is wrong here.
pub const MISTAKE: Mistake = Mistake {
    name: "warp_exchange",
    right: "warp_exchange_right",
    title: "two threads of a warp exchange values without synchronising",
    launch: Launch::Lines,
    before: Before::Unwritten,
    factors: ElementType::F32,
    is_product: false,
    shows: Shows::Always,
    found: &[Found::between(Kind::ReadAfterWrite, "write", "read")],
};

entries!(warp_exchange, warp_exchange_right);

#[inline(always)]
unsafe fn work<const BROKEN: bool>(a: *const f32, _b: *const f32, c: *mut f32, m: usize, n: usize, k: usize) {
    let line = shared_array![f32; LINE];
    let t = thread::thread_idx_x() as usize;
    let at = thread::block_idx_x() as usize * LINE + t;
    *line.add(t) = if at < m * k { *a.add(at) } else { 0.0 }; // <- write
    if !BROKEN {
        warp::sync_warp(u32::MAX);
    }
    let neighbour = *line.add(t ^ 1); // <- read
    if at < m * n {
        *c.add(at) = neighbour;
    }
}
