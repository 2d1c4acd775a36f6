//! Threads whose element lies outside C leave at once, as they may where no barrier follows. Here they are missed: at
//! the barriers, and for the elements of the tiles that they should have carried.

use crate::*;

/// What is wrong here.
pub const MISTAKE: Mistake = Mistake {
    name: "early_return",
    right: "early_return_right",
    title: "threads outside C leave before the barriers",
    launch: Launch::Tiles,
    before: Before::Unwritten,
    factors: ElementType::F32,
    is_product: true,
    shows: Shows::AtEdges,
    found: &[Found::at(Kind::DivergentBarrier, "barrier")],
};

entries!(early_return, early_return_right);

#[inline(always)]
unsafe fn work<const BROKEN: bool>(a: *const f32, b: *const f32, c: *mut f32, m: usize, n: usize, k: usize) {
    let tile_a = shared_array![f32; TILE * TILE];
    let tile_b = shared_array![f32; TILE * TILE];
    let Here { x, y, row, column } = here();
    if BROKEN && (row >= m || column >= n) {
        return;
    }
    let mut sum = 0.0;
    for step in 0..k.div_ceil(TILE) {
        let (a_column, b_row) = (step * TILE + x, step * TILE + y);
        let a_element = if row < m && a_column < k { *a.add(row * k + a_column) } else { 0.0 };
        let b_element = if b_row < k && column < n { *b.add(b_row * n + column) } else { 0.0 };
        *tile_a.add(y * TILE + x) = a_element;
        *tile_b.add(y * TILE + x) = b_element;
        thread::sync_threads(); // <- barrier
        for i in 0..TILE {
            let a_element = *tile_a.add(y * TILE + i);
            let b_element = *tile_b.add(i * TILE + x);
            sum = a_element.mul_add(b_element, sum);
        }
        thread::sync_threads();
    }
    if row < m && column < n {
        *c.add(row * n + column) = sum;
    }
}
