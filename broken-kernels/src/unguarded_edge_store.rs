//! The store to C has no guard. Right of C's edge it writes into the beginning of the next row, which another thread
//! writes too; below C it writes past the end.

use crate::*;

/// What is wrong here.
pub const MISTAKE: Mistake = Mistake {
    name: "unguarded_edge_store",
    right: "unguarded_edge_store_right",
    title: "elements past the edges of C are stored",
    launch: Launch::Tiles,
    before: Before::Unwritten,
    factors: ElementType::F32,
    is_product: true,
    shows: Shows::AtEdges,
    found: &[Found::between(Kind::WriteAfterWrite, "store", "store"), Found::at(Kind::OutOfBounds, "store")],
};

entries!(unguarded_edge_store, unguarded_edge_store_right);

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
    if BROKEN || row < m && column < n {
        *c.add(row * n + column) = sum; // <- store
    }
}
