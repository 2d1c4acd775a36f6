//! The sum is kept in C itself instead of a register, and nobody has set it to zero. Fresh memory often is zero, until
//! it is memory that was in use before.

use crate::*;

/// What is wrong here.
pub const MISTAKE: Mistake = Mistake {
    name: "sum_in_c_unset",
    right: "sum_in_c_unset_right",
    title: "sums are added up in C without its having been set",
    launch: Launch::Tiles,
    before: Before::Unwritten,
    factors: ElementType::F32,
    is_product: true,
    shows: Shows::Always,
    found: &[Found::at(Kind::Uninitialised, "add")],
};

entries!(sum_in_c_unset, sum_in_c_unset_right);

#[inline(always)]
unsafe fn work<const BROKEN: bool>(a: *const f32, b: *const f32, c: *mut f32, m: usize, n: usize, k: usize) {
    let Here { row, column, .. } = here();
    if row >= m || column >= n {
        return;
    }
    let sum = c.add(row * n + column);
    if !BROKEN {
        *sum = 0.0;
    }
    for i in 0..k {
        *sum = (*a.add(row * k + i)).mul_add(*b.add(i * n + column), *sum); // <- add
    }
}
