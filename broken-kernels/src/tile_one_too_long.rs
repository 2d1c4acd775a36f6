//! The product loop runs to TILE instead of to the last element before it. Of A's tile it mostly reads the first
//! element of the next row, which is only wrong, and in the last row an element of B's tile; of B's tile it reads past
//! all shared memory.

use crate::*;

/// What is wrong here.
pub const MISTAKE: Mistake = Mistake {
    name: "tile_one_too_long",
    right: "tile_one_too_long_right",
    title: "the product loop does one step too many",
    launch: Launch::Tiles,
    before: Before::Unwritten,
    factors: ElementType::F32,
    is_product: true,
    shows: Shows::Always,
    found: &[Found::at(Kind::OutsideArray, "read a"), Found::at(Kind::OutOfBounds, "read b")],
};

entries!(tile_one_too_long, tile_one_too_long_right);

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
        let end = if BROKEN { TILE + 1 } else { TILE };
        for i in 0..end {
            let a_element = *tile_a.add(y * TILE + i); // <- read a
            let b_element = *tile_b.add(i * TILE + x); // <- read b
            sum = a_element.mul_add(b_element, sum);
        }
        thread::sync_threads();
    }
    if row < m && column < n {
        *c.add(row * n + column) = sum;
    }
}
