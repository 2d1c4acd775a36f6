//! Four elements of a row of A are read at once, as 16 bytes. That needs an address that is a multiple of 16, and rows
//! begin at one only if k is a multiple of 4. On the CPU it would merely be slow; a GPU faults.

use crate::*;

/// Four neighbours, read by one instruction.
#[derive(Clone, Copy)]
#[repr(C, align(16))]
struct Four([f32; 4]);

/// What is wrong here.
pub const MISTAKE: Mistake = Mistake {
    name: "misaligned_vector",
    right: "misaligned_vector_right",
    title: "16 bytes are read where a row begins at any multiple of 4",
    launch: Launch::Tiles,
    before: Before::Unwritten,
    factors: ElementType::F32,
    is_product: true,
    shows: Shows::AtEdges,
    found: &[Found::at(Kind::Misaligned, "load")],
};

entries!(misaligned_vector, misaligned_vector_right);

#[inline(always)]
unsafe fn work<const BROKEN: bool>(a: *const f32, b: *const f32, c: *mut f32, m: usize, n: usize, k: usize) {
    let Here { row, column, .. } = here();
    if row >= m || column >= n {
        return;
    }
    let mut sum = 0.0;
    let mut i = 0;
    if BROKEN || k.is_multiple_of(4) {
        while i + 4 <= k {
            let Four([a_0, a_1, a_2, a_3]) = *a.add(row * k + i).cast::<Four>(); // <- load
            sum = a_0.mul_add(*b.add(i * n + column), sum);
            sum = a_1.mul_add(*b.add((i + 1) * n + column), sum);
            sum = a_2.mul_add(*b.add((i + 2) * n + column), sum);
            sum = a_3.mul_add(*b.add((i + 3) * n + column), sum);
            i += 4;
        }
    }
    while i < k {
        sum = (*a.add(row * k + i)).mul_add(*b.add(i * n + column), sum);
        i += 1;
    }
    *c.add(row * n + column) = sum;
}
