//! B's tile is held transposed in rows of 17, against bank conflicts, and written as if they had 16. All stays inside
//! the array, but the end of it is read without having been written, and what comes before is in the wrong places.

use crate::*;

/// What is wrong here.
pub const MISTAKE: Mistake = Mistake {
    name: "transposed_wrong_stride",
    right: "transposed_wrong_stride_right",
    title: "a transposed tile is written with another row length than it's read with",
    launch: Launch::Tiles,
    before: Before::Unwritten,
    factors: ElementType::F32,
    is_product: true,
    shows: Shows::Always,
    found: &[Found::at(Kind::Uninitialised, "read")],
};

entries!(transposed_wrong_stride, transposed_wrong_stride_right);

#[inline(always)]
unsafe fn work<const BROKEN: bool>(a: *const f32, b: *const f32, c: *mut f32, m: usize, n: usize, k: usize) {
    let tile_a = shared_array![f32; TILE * TILE];
    let tile_b = shared_array![f32; TILE * (TILE + 1)];
    let Here { x, y, row, column } = here();
    let mut sum = 0.0;
    for step in 0..k.div_ceil(TILE) {
        let (a_column, b_row) = (step * TILE + x, step * TILE + y);
        let a_element = if row < m && a_column < k { *a.add(row * k + a_column) } else { 0.0 };
        let b_element = if b_row < k && column < n { *b.add(b_row * n + column) } else { 0.0 };
        let written_length = if BROKEN { TILE } else { TILE + 1 };
        *tile_a.add(y * TILE + x) = a_element;
        *tile_b.add(x * written_length + y) = b_element;
        thread::sync_threads();
        for i in 0..TILE {
            let b_element = *tile_b.add(x * (TILE + 1) + i); // <- read
            sum = (*tile_a.add(y * TILE + i)).mul_add(b_element, sum);
        }
        thread::sync_threads();
    }
    if row < m && column < n {
        *c.add(row * n + column) = sum;
    }
}
