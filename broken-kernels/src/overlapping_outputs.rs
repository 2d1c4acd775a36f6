//! Each thread computes two neighbouring columns, but threads are placed one column apart instead of two. Neighbours
//! write the same elements, with the same values, and the right half of the tile isn't written at all.

use crate::*;

/// What is wrong here.
pub const MISTAKE: Mistake = Mistake {
    name: "overlapping_outputs",
    right: "overlapping_outputs_right",
    title: "two threads write one element, and half of them aren't written",
    launch: Launch::Tiles,
    before: Before::Unwritten,
    factors: ElementType::F32,
    is_product: true,
    shows: Shows::Always,
    found: &[Found::between(Kind::WriteAfterWrite, "store", "store")],
};

entries!(overlapping_outputs, overlapping_outputs_right);

#[inline(always)]
unsafe fn work<const BROKEN: bool>(a: *const f32, b: *const f32, c: *mut f32, m: usize, n: usize, k: usize) {
    let Here { x, row, .. } = here();
    let first = thread::block_idx_x() as usize * TILE + if BROKEN { x } else { 2 * x };
    if row >= m || x >= TILE / 2 {
        return;
    }
    for column in first..n.min(first + 2) {
        let mut sum = 0.0;
        for i in 0..k {
            sum = (*a.add(row * k + i)).mul_add(*b.add(i * n + column), sum);
        }
        *c.add(row * n + column) = sum; // <- store
    }
}
