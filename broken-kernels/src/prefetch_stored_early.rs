//! The next step's elements are fetched into registers while the tile is being multiplied, then stored over it.
//! Fetching early is fine; storing needs a barrier first, since others are still multiplying.

use crate::*;

/// What is wrong here.
pub const MISTAKE: Mistake = Mistake {
    name: "prefetch_stored_early",
    right: "prefetch_stored_early_right",
    title: "prefetched elements are stored over a tile still in use",
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

entries!(prefetch_stored_early, prefetch_stored_early_right);

#[inline(always)]
unsafe fn work<const BROKEN: bool>(a: *const f32, b: *const f32, c: *mut f32, m: usize, n: usize, k: usize) {
    let tile_a = shared_array![f32; TILE * TILE];
    let tile_b = shared_array![f32; TILE * TILE];
    let Here { x, y, row, column } = here();
    let fetch = |step: usize| {
        let (a_column, b_row) = (step * TILE + x, step * TILE + y);
        let a_element = if row < m && a_column < k { *a.add(row * k + a_column) } else { 0.0 };
        let b_element = if b_row < k && column < n { *b.add(b_row * n + column) } else { 0.0 };
        (a_element, b_element)
    };
    let mut next = fetch(0);
    let mut sum = 0.0;
    for step in 0..k.div_ceil(TILE) {
        if !BROKEN {
            thread::sync_threads();
        }
        *tile_a.add(y * TILE + x) = next.0; // <- write a
        *tile_b.add(y * TILE + x) = next.1; // <- write b
        thread::sync_threads();
        next = fetch(step + 1);
        for i in 0..TILE {
            let a_element = *tile_a.add(y * TILE + i); // <- read a
            let b_element = *tile_b.add(i * TILE + x); // <- read b
            sum = a_element.mul_add(b_element, sum);
        }
    }
    if row < m && column < n {
        *c.add(row * n + column) = sum;
    }
}
