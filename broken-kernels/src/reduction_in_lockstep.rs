//! The last rounds of a sum are done by one warp alone, which is why there is no barrier in them: a warp's threads were
//! once sure to do every instruction together. They no longer are.

use crate::*;

/// What is wrong here.
pub const MISTAKE: Mistake = Mistake {
    name: "reduction_in_lockstep",
    right: "reduction_in_lockstep_right",
    title: "the last warp of a sum relies on lock-step",
    launch: Launch::Lines,
    before: Before::Unwritten,
    factors: ElementType::F32,
    is_product: false,
    shows: Shows::Always,
    found: &[Found::between(Kind::ReadAfterWrite, "write", "read")],
};

entries!(reduction_in_lockstep, reduction_in_lockstep_right);

#[inline(always)]
unsafe fn work<const BROKEN: bool>(a: *const f32, _b: *const f32, c: *mut f32, m: usize, _n: usize, k: usize) {
    let line = shared_array![f32; LINE];
    let t = thread::thread_idx_x() as usize;
    let at = thread::block_idx_x() as usize * LINE + t;
    *line.add(t) = if at < m * k { *a.add(at) } else { 0.0 };
    thread::sync_threads();
    if t < 32 {
        let mut sum = 0.0;
        for warp in 0..LINE / 32 {
            sum += *line.add(warp * 32 + t);
        }
        warp::sync_warp(u32::MAX);
        *line.add(t) = sum;
        warp::sync_warp(u32::MAX);
        let mut distance = 16;
        while distance > 0 {
            if t < distance {
                sum += *line.add(t + distance); // <- read
                *line.add(t) = sum; // <- write
            }
            if !BROKEN {
                warp::sync_warp(u32::MAX);
            }
            distance /= 2;
        }
        if t == 0 {
            *c.add(thread::block_idx_x() as usize) = sum;
        }
    }
}
