//! Two pairs of tiles take turns, which does away with one of the two barriers of a step. Here both are gone: a pair is
//! read before it's filled, and filled before it's read.

use crate::*;

/// What is wrong here.
pub const MISTAKE: Mistake = Mistake {
    name: "double_buffer_barrier_missing",
    right: "double_buffer_barrier_missing_right",
    title: "two stages without a barrier between the steps",
    launch: Launch::Tiles,
    before: Before::Unwritten,
    factors: ElementType::F32,
    is_product: true,
    shows: Shows::Always,
    found: &[
        Found::between(Kind::ReadAfterWrite, "write a", "read a"),
        Found::between(Kind::ReadAfterWrite, "write b", "read b"),
        Found::between(Kind::WriteAfterRead, "read a", "write a"),
        Found::between(Kind::WriteAfterRead, "read b", "write b"),
    ],
};

entries!(double_buffer_barrier_missing, double_buffer_barrier_missing_right);

#[inline(always)]
unsafe fn work<const BROKEN: bool>(a: *const f32, b: *const f32, c: *mut f32, m: usize, n: usize, k: usize) {
    let tiles_a = shared_array![f32; 2 * TILE * TILE];
    let tiles_b = shared_array![f32; 2 * TILE * TILE];
    let Here { x, y, row, column } = here();
    let fetch = |step: usize| {
        let (a_column, b_row) = (step * TILE + x, step * TILE + y);
        let a_element = if row < m && a_column < k { *a.add(row * k + a_column) } else { 0.0 };
        let b_element = if b_row < k && column < n { *b.add(b_row * n + column) } else { 0.0 };
        let stage = step % 2 * TILE * TILE;
        *tiles_a.add(stage + y * TILE + x) = a_element; // <- write a
        *tiles_b.add(stage + y * TILE + x) = b_element; // <- write b
    };
    let steps = k.div_ceil(TILE);
    fetch(0);
    let mut sum = 0.0;
    for step in 0..steps {
        if !BROKEN {
            thread::sync_threads();
        }
        if step + 1 < steps {
            fetch(step + 1);
        }
        let stage = step % 2 * TILE * TILE;
        for i in 0..TILE {
            let a_element = *tiles_a.add(stage + y * TILE + i); // <- read a
            let b_element = *tiles_b.add(stage + i * TILE + x); // <- read b
            sum = a_element.mul_add(b_element, sum);
        }
    }
    if row < m && column < n {
        *c.add(row * n + column) = sum;
    }
}
