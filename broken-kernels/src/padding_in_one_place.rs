//! Somebody pads the rows of A's tile against bank conflicts, and changes only the place that reads. The array and the
//! place that writes still have rows of 16, so the last rows are read past its end.

use crate::*;

/// What is wrong here.
pub const MISTAKE: Mistake = Mistake {
    name: "padding_in_one_place",
    right: "padding_in_one_place_right",
    title: "padded rows where the tile is read, and nowhere else",
    launch: Launch::Tiles,
    before: Before::Unwritten,
    factors: ElementType::F32,
    is_product: true,
    shows: Shows::Always,
    found: &[Found::at(Kind::OutsideArray, "read")],
};

entries!(padding_in_one_place, padding_in_one_place_right);

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
        *tile_a.add(y * TILE + x) = a_element;
        *tile_b.add(y * TILE + x) = b_element;
        thread::sync_threads();
        let row_length = if BROKEN { TILE + 1 } else { TILE };
        for i in 0..TILE {
            let a_element = *tile_a.add(y * row_length + i); // <- read
            sum = a_element.mul_add(*tile_b.add(i * TILE + x), sum);
        }
        thread::sync_threads();
    }
    if row < m && column < n {
        *c.add(row * n + column) = sum;
    }
}
