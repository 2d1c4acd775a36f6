//! Matrix products of a warp: `mma` (PTX ISA, "Multiply-and-accumulate instruction: mma").
//!
//! # Which lane has what
//! With g = lane / 4 and t = lane % 4 (the manual's `groupID` and `threadID_in_group`):
//!
//! ```text
//!   A, 16 x K   16 bits: register r has row g + 8 (r % 2), columns 2 t + 8 (r / 2) and the next, that one above
//!               tf32:    register r has row g + 8 (r % 2), column t + 4 (r / 2)
//!   B, K x 8    16 bits: register r has rows 2 t + 8 r and the next, that one above, column g
//!               tf32:    register r has row t + 4 r, column g
//!   C, D, 16 x 8         register r has row g + 8 (r / 2), column 2 t + r % 2
//! ```
//!
//! # What comes out
//! PTX promises sums "with at least single precision" and leaves their order and rounding open. Here each element is a
//! chain of fused multiply-adds of `f32`, in ascending order of k and beginning with C's element: every product is
//! exact, and every sum is rounded to nearest. Hardware adds the exact products of several places of k and the element
//! of C in one go: all are shifted to the largest exponent among them, with a few bits more than `f32` has, what is
//! beyond is cut off, and the sum is cut off to `f32`. Results differ in the last bits; the hardware's err towards zero
//! and, over a long chain of instructions with sums of one sign, by more. Subnormal factors and sums count, and a NaN is
//! `0x7fffffff`, as on hardware.
//!
//! Of a tf32 factor the 13 lowest bits of its register are ignored.

use super::run::{Executor, list_range, read_row};
use super::warp::Warp;
use crate::alu::{Row, f16_to_f32};
use crate::decode::program::*;
use crate::observe::Watch;
use crate::processor::Level;

/// Rows of A, C and D.
const M: usize = 16;
/// Columns of B, C and D.
const N: usize = 8;
/// The most columns of A.
const MOST_K: usize = 16;

/// The bits of a tf32 register that count.
pub(super) const TF32: u32 = !0x1fff;
/// The NaN that a product gives.
pub(super) const NAN: f32 = f32::from_bits(0x7fff_ffff);

/// Factors and sums as matrices, row by row.
struct Matrices {
    a: [[f32; MOST_K]; M],
    b: [[f32; N]; MOST_K],
    d: [[f32; N]; M],
}

impl<W: Watch> Executor<'_, W> {
    /// Multiplies and adds for a whole warp.
    pub fn matrix_product(&self, warp: &Warp, product: &MatrixProduct) {
        let registers = &self.launch.program.lists[list_range(product.registers, product.of_all())];
        match self.level {
            // SAFETY: `Level::detected` found the features. The decoder allocated all registers, and the warp belongs to
            // this thread.
            #[cfg(target_arch = "x86_64")]
            Level::Avx2 | Level::Avx512 => unsafe { multiply_avx2(warp.rows, product, registers) },
            // SAFETY: as above.
            Level::Portable => unsafe { multiply(warp.rows, product, registers) },
        }
    }
}

/// # Safety
/// As [`multiply`], and the processor must have the features.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma,bmi1,bmi2,lzcnt,popcnt")]
unsafe fn multiply_avx2(rows: *mut Row, product: &MatrixProduct, registers: &[u32]) {
    // SAFETY: passed on to the caller.
    unsafe { multiply(rows, product, registers) }
}

/// # Safety
/// All registers must exist, and nobody else may use the warp's.
#[inline(always)]
unsafe fn multiply(rows: *mut Row, product: &MatrixProduct, registers: &[u32]) {
    let (d, rest) = registers.split_at(MatrixProduct::OF_SUMS.into());
    let (a, rest) = rest.split_at(product.of_a().into());
    let (b, c) = rest.split_at(usize::from(product.of_a()) / 2);
    let mut matrices = Matrices { a: [[0.0; MOST_K]; M], b: [[0.0; N]; MOST_K], d: [[0.0; N]; M] };
    // SAFETY: passed on to the caller.
    unsafe {
        match product.factors {
            Factors::F16 => take_halves(rows, a, b, &mut matrices, f16_to_f32),
            Factors::BF16 => take_halves(rows, a, b, &mut matrices, |bits| f32::from_bits(u32::from(bits) << 16)),
            Factors::TF32 => take_words(rows, a, b, &mut matrices),
        }
        for (number, register) in c.iter().enumerate() {
            for (lane, bits) in read_row(rows, *register).into_iter().enumerate() {
                let (row, column) = place_of_sum(lane, number);
                matrices.d[row][column] = f32::from_bits(bits);
            }
        }
    }
    match product.k {
        16 => matrices.multiply::<16>(),
        8 => matrices.multiply::<8>(),
        _ => matrices.multiply::<4>(),
    }
    for (number, register) in d.iter().enumerate() {
        let words = std::array::from_fn(|lane| {
            let (row, column) = place_of_sum(lane, number);
            let sum = matrices.d[row][column];
            if sum.is_nan() { NAN.to_bits() } else { sum.to_bits() }
        });
        // SAFETY: passed on to the caller.
        unsafe { *rows.add(*register as usize) = Row(words) };
    }
}

impl Matrices {
    /// D += A B, of K columns of A and rows of B.
    #[inline(always)]
    fn multiply<const K: usize>(&mut self) {
        for (sums, a) in self.d.iter_mut().zip(&self.a) {
            for (a, b) in a[..K].iter().zip(&self.b) {
                for (sum, b) in sums.iter_mut().zip(b) {
                    *sum = a.mul_add(*b, *sum);
                }
            }
        }
    }
}

/// Row and column of an element of C or D.
#[inline(always)]
fn place_of_sum(lane: usize, register: usize) -> (usize, usize) {
    (lane / 4 + register / 2 * 8, lane % 4 * 2 + register % 2)
}

/// Takes factors of 16 bits from their registers.
///
/// # Safety
/// All registers must exist.
#[inline(always)]
unsafe fn take_halves(rows: *const Row, a: &[u32], b: &[u32], matrices: &mut Matrices, number: impl Fn(u16) -> f32) {
    for (register, row) in a.iter().enumerate() {
        // SAFETY: passed on to the caller.
        for (lane, pair) in unsafe { read_row(rows, *row) }.into_iter().enumerate() {
            let (row, column) = (lane / 4 + register % 2 * 8, lane % 4 * 2 + register / 2 * 8);
            matrices.a[row][column] = number(pair as u16);
            matrices.a[row][column + 1] = number((pair >> 16) as u16);
        }
    }
    for (register, row) in b.iter().enumerate() {
        // SAFETY: as above.
        for (lane, pair) in unsafe { read_row(rows, *row) }.into_iter().enumerate() {
            let (row, column) = (lane % 4 * 2 + register * 8, lane / 4);
            matrices.b[row][column] = number(pair as u16);
            matrices.b[row + 1][column] = number((pair >> 16) as u16);
        }
    }
}

/// Takes factors of tf32 from their registers.
///
/// # Safety
/// All registers must exist.
#[inline(always)]
unsafe fn take_words(rows: *const Row, a: &[u32], b: &[u32], matrices: &mut Matrices) {
    for (register, row) in a.iter().enumerate() {
        // SAFETY: passed on to the caller.
        for (lane, bits) in unsafe { read_row(rows, *row) }.into_iter().enumerate() {
            matrices.a[lane / 4 + register % 2 * 8][lane % 4 + register / 2 * 4] = f32::from_bits(bits & TF32);
        }
    }
    for (register, row) in b.iter().enumerate() {
        // SAFETY: as above.
        for (lane, bits) in unsafe { read_row(rows, *row) }.into_iter().enumerate() {
            matrices.b[lane % 4 + register * 4][lane / 4] = f32::from_bits(bits & TF32);
        }
    }
}
