//! Without the barrier between reading the tiles and the next step's writing, a fast warp overwrites elements that a
//! slow one still needs. With a single step (k up to 16) nothing is wrong, so tests with small matrices don't see it.

use crate::*;

/// What is wrong here.
pub const MISTAKE: Mistake = Mistake {
    name: "second_barrier_missing",
    right: "second_barrier_missing_right",
    title: "the tiles are overwritten before everybody has read them",
    launch: Launch::Tiles,
    before: Before::Unwritten,
    factors: ElementType::F32,
    is_product: true,
    shows: Shows::Always,
    found: &[
        Found::between(Kind::WriteAfterRead, "read a", "write a"),
        Found::between(Kind::WriteAfterRead, "read b", "write b"),
    ],
};

entries!(second_barrier_missing, second_barrier_missing_right);

#[inline(always)]
unsafe fn work<const BROKEN: bool>(a: *const f32, b: *const f32, c: *mut f32, m: usize, n: usize, k: usize) {
    let tile_a = shared_array![f32; TILE * TILE];
    let tile_b = shared_array![f32; TILE * TILE];
    let Here { x, y, row, column } = here();
    let mut sum = 0.0;
    for step in 0..k.div_ceil(TILE) {
        let (a_column, b_row) = (step * TILE + x, step * TILE + y);
        let a_element = if row < m && a_column < k { *a.add(row * k + a_column) } else { 0.0 };
        let b_element = if b_row < k && column < n { *b.add(b_row * n + column) } else { 0.0 };
        *tile_a.add(y * TILE + x) = a_element; // <- write a
        *tile_b.add(y * TILE + x) = b_element; // <- write b
        thread::sync_threads();
        for i in 0..TILE {
            let a_element = *tile_a.add(y * TILE + i); // <- read a
            let b_element = *tile_b.add(i * TILE + x); // <- read b
            sum = a_element.mul_add(b_element, sum);
        }
        if !BROKEN {
            thread::sync_threads();
        }
    }
    if row < m && column < n {
        *c.add(row * n + column) = sum;
    }
}
