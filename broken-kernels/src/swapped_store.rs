//! A's tile is 16 rows of 8 here, and its elements are stored with row and column exchanged. With a square tile that
//! would only give a wrong product; with this one some places are written twice and others never.

use crate::*;

/// Columns of A's tile and rows of B's.
const DEPTH: usize = 8;

/// What is wrong here.
pub const MISTAKE: Mistake = Mistake {
    name: "swapped_store",
    right: "swapped_store_right",
    title: "row and column exchanged in a store to a tile that isn't square",
    launch: Launch::Tiles,
    before: Before::Unwritten,
    factors: ElementType::F32,
    is_product: true,
    shows: Shows::Always,
    found: &[Found::between(Kind::WriteAfterWrite, "write", "write"), Found::at(Kind::Uninitialised, "read")],
};

entries!(swapped_store, swapped_store_right);

#[inline(always)]
unsafe fn work<const BROKEN: bool>(a: *const f32, b: *const f32, c: *mut f32, m: usize, n: usize, k: usize) {
    let tile_a = shared_array![f32; TILE * DEPTH];
    let tile_b = shared_array![f32; DEPTH * TILE];
    let Here { x, y, row, column } = here();
    let mut sum = 0.0;
    for step in 0..k.div_ceil(DEPTH) {
        let (a_column, b_row) = (step * DEPTH + x, step * DEPTH + y);
        if x < DEPTH {
            let place = if BROKEN { x * DEPTH + y } else { y * DEPTH + x };
            let a_element = if row < m && a_column < k { *a.add(row * k + a_column) } else { 0.0 };
            *tile_a.add(place) = a_element; // <- write
        }
        if y < DEPTH {
            *tile_b.add(y * TILE + x) = if b_row < k && column < n { *b.add(b_row * n + column) } else { 0.0 };
        }
        thread::sync_threads();
        for i in 0..DEPTH {
            let a_element = *tile_a.add(y * DEPTH + i); // <- read
            sum = a_element.mul_add(*tile_b.add(i * TILE + x), sum);
        }
        thread::sync_threads();
    }
    if row < m && column < n {
        *c.add(row * n + column) = sum;
    }
}
