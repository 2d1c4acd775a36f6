//! Tensor cores: products of small matrices whose elements the 32 lanes of a warp hold together, for compute capability
//! 8.0 and later.
//!
//! A product is D = A B + C with A of 16 x 16, B of 16 x 8 and C and D of 16 x 8 elements. A lane holds a few elements of
//! each, its *fragment*. With g = lane / 4 and t = lane % 4 (PTX ISA, "Matrix fragments for mma.m16n8k16"):
//!
//! ```text
//!   A   register 0   row g       columns 2 t, 2 t + 1            B   register 0   rows 2 t, 2 t + 1       column g
//!       register 1   row g + 8   columns 2 t, 2 t + 1                register 1   rows 2 t + 8, 2 t + 9   column g
//!       register 2   row g       columns 2 t + 8, 2 t + 9
//!       register 3   row g + 8   columns 2 t + 8, 2 t + 9        C   elements 0, 1   row g       columns 2 t, 2 t + 1
//!                                                                D   elements 2, 3   row g + 8   columns 2 t, 2 t + 1
//! ```
//!
//! A register has two elements, the first one in its lower half.
//!
//! All 32 lanes of a warp must come to these functions together.

/// A number of 16 bits with the exponent of an `f32` and 8 bits of its significand: its upper half. Tensor cores multiply
/// such numbers; a thread does no arithmetic with them.
#[repr(transparent)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bf16(pub u16);

/// Adds the product of `a`, 16 x 16, and `b`, 16 x 8, to `sums`, 16 x 8: products are exact, and sums are formed in f32.
///
/// `mma.sync.aligned.m16n8k16` with bf16 factors (PTX ISA, "Multiply-and-accumulate instruction: mma").
///
/// # Safety
///
/// All lanes of the warp must come here together.
#[cfg_attr(not(feature = "lines-of-callers"), inline(always))]
pub unsafe fn multiply_add_bf16(a: [u32; 4], b: [u32; 2], sums: [f32; 4]) -> [f32; 4] {
    #[allow(unused_mut)]
    let [mut x, mut y, mut z, mut w] = sums;
    #[cfg(target_arch = "nvptx64")]
    core::arch::asm!(
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32",
        "{{ {x}, {y}, {z}, {w} }}, {{ {a0}, {a1}, {a2}, {a3} }}, {{ {b0}, {b1} }}, {{ {x}, {y}, {z}, {w} }};",
        x = inout(reg32) x, y = inout(reg32) y, z = inout(reg32) z, w = inout(reg32) w,
        a0 = in(reg32) a[0], a1 = in(reg32) a[1], a2 = in(reg32) a[2], a3 = in(reg32) a[3],
        b0 = in(reg32) b[0], b1 = in(reg32) b[1], options(nomem, nostack)
    );
    #[cfg(not(target_arch = "nvptx64"))]
    let _ = (a, b);
    [x, y, z, w]
}

/// Loads four matrices of 8 x 8 elements of 16 bits from shared memory, a register of each: lane 8 j + i gives the
/// address of row i of matrix j, and every lane gets of each matrix the elements 2 t and 2 t + 1 of row g.
///
/// Those are A's fragment if the matrices are A's upper left, lower left, upper right and lower right quarter.
///
/// `ldmatrix.sync.aligned.m8n8.x4` (PTX ISA, "Warp-level matrix load instruction: ldmatrix").
///
/// # Safety
///
/// All lanes of the warp must come here together, and `row` be a multiple of 16 and the address, as
/// [`vectors`](crate::vectors) has them, of 16 bytes of this block's shared memory.
#[cfg_attr(not(feature = "lines-of-callers"), inline(always))]
pub unsafe fn load_matrices(row: u32) -> [u32; 4] {
    #[allow(unused_mut)]
    let [mut x, mut y, mut z, mut w] = [0; 4];
    #[cfg(target_arch = "nvptx64")]
    core::arch::asm!(
        "ldmatrix.sync.aligned.m8n8.x4.shared.b16 {{ {}, {}, {}, {} }}, [{}];",
        out(reg32) x, out(reg32) y, out(reg32) z, out(reg32) w, in(reg32) row, options(nostack)
    );
    #[cfg(not(target_arch = "nvptx64"))]
    let _ = row;
    [x, y, z, w]
}

/// Loads four matrices of 8 x 8 elements of 16 bits from shared memory and transposes them: as [`load_matrices`], but
/// every lane gets of each matrix the elements of rows 2 t and 2 t + 1 in column g.
///
/// Those are B's fragment, if the matrices are B's upper and its lower half and B lies row by row; two matrices of four
/// are one B, the other two another.
///
/// `ldmatrix.sync.aligned.m8n8.x4.trans` (PTX ISA, "Warp-level matrix load instruction: ldmatrix").
///
/// # Safety
///
/// As for [`load_matrices`].
#[cfg_attr(not(feature = "lines-of-callers"), inline(always))]
pub unsafe fn load_matrices_transposed(row: u32) -> [u32; 4] {
    #[allow(unused_mut)]
    let [mut x, mut y, mut z, mut w] = [0; 4];
    #[cfg(target_arch = "nvptx64")]
    core::arch::asm!(
        "ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {{ {}, {}, {}, {} }}, [{}];",
        out(reg32) x, out(reg32) y, out(reg32) z, out(reg32) w, in(reg32) row, options(nostack)
    );
    #[cfg(not(target_arch = "nvptx64"))]
    let _ = row;
    [x, y, z, w]
}
