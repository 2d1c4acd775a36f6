//! Two blocks share each tile of C, and each goes through one half of k. Both add their sums to the same elements: with
//! plain additions one half may be lost.

use crate::*;

/// What is wrong here.
pub const MISTAKE: Mistake = Mistake {
    name: "split_k_without_atomics",
    right: "split_k_without_atomics_right",
    title: "two blocks add their halves of a product to C without atomics",
    launch: Launch::TilesTwice,
    before: Before::Zeros,
    factors: ElementType::F32,
    is_product: true,
    shows: Shows::Always,
    found: &[Found::between(Kind::WriteAfterRead, "add", "add"), Found::between(Kind::WriteAfterWrite, "add", "add")],
};

entries!(split_k_without_atomics, split_k_without_atomics_right);

#[inline(always)]
unsafe fn work<const BROKEN: bool>(a: *const f32, b: *const f32, c: *mut f32, m: usize, n: usize, k: usize) {
    let Here { row, column, .. } = here();
    if row >= m || column >= n {
        return;
    }
    let half = k.div_ceil(2);
    let first = thread::block_idx_z() as usize * half;
    let mut sum = 0.0;
    for i in first..k.min(first + half) {
        sum = (*a.add(row * k + i)).mul_add(*b.add(i * n + column), sum);
    }
    if BROKEN {
        *c.add(row * n + column) += sum; // <- add
    } else {
        atomic_add!("f32", c.add(row * n + column), sum);
    }
}
