//! The guard of the store compares the row with the number of columns and the column with the number of rows. With a
//! square C, which most tests have, nothing is wrong.

use crate::*;

/// What is wrong here.
pub const MISTAKE: Mistake = Mistake {
    name: "guard_sizes_exchanged",
    right: "guard_sizes_exchanged_right",
    title: "rows and columns exchanged in the guard of the store",
    launch: Launch::Tiles,
    before: Before::Unwritten,
    factors: ElementType::F32,
    is_product: true,
    shows: Shows::AtEdges,
    found: &[Found::at(Kind::OutOfBounds, "store")],
};

entries!(guard_sizes_exchanged, guard_sizes_exchanged_right);

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
        for i in 0..TILE {
            let a_element = *tile_a.add(y * TILE + i);
            let b_element = *tile_b.add(i * TILE + x);
            sum = a_element.mul_add(b_element, sum);
        }
        thread::sync_threads();
    }
    let (rows, columns) = if BROKEN { (n, m) } else { (m, n) };
    if row < rows && column < columns {
        *c.add(row * n + column) = sum; // <- store
    }
}
