//! Threads past an edge of A or B skip the load, and leave in the tiles what was there: nothing at first, the last
//! step's elements later. Both tiles together then add products that don't exist.

use crate::*;

/// What is wrong here.
pub const MISTAKE: Mistake = Mistake {
    name: "edge_zeros_missing",
    right: "edge_zeros_missing_right",
    title: "elements past the edges are left as they were instead of being zero",
    launch: Launch::Tiles,
    before: Before::Unwritten,
    factors: ElementType::F32,
    is_product: true,
    shows: Shows::AtEdges,
    found: &[Found::at(Kind::Uninitialised, "read a"), Found::at(Kind::Uninitialised, "read b")],
};

entries!(edge_zeros_missing, edge_zeros_missing_right);

#[inline(always)]
unsafe fn work<const BROKEN: bool>(a: *const f32, b: *const f32, c: *mut f32, m: usize, n: usize, k: usize) {
    let tile_a = shared_array![f32; TILE * TILE];
    let tile_b = shared_array![f32; TILE * TILE];
    let Here { x, y, row, column } = here();
    let mut sum = 0.0;
    for step in 0..k.div_ceil(TILE) {
        let (a_column, b_row) = (step * TILE + x, step * TILE + y);
        if row < m && a_column < k {
            *tile_a.add(y * TILE + x) = *a.add(row * k + a_column);
        } else if !BROKEN {
            *tile_a.add(y * TILE + x) = 0.0;
        }
        if b_row < k && column < n {
            *tile_b.add(y * TILE + x) = *b.add(b_row * n + column);
        } else if !BROKEN {
            *tile_b.add(y * TILE + x) = 0.0;
        }
        thread::sync_threads();
        for i in 0..TILE {
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
