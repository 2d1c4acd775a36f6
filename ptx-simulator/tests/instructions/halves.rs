//! Arithmetic in f16 and bf16, alone and in pairs.

use super::conversions::{canonical_bf16, canonical_f16};
use super::rounding::two_sum;
use crate::support::family::Family;
use crate::support::values::{bf16_from, bf16s, f16_from, f16s, u32s};
use half::{bf16, f16};

/// `a * b + c` with a last bit that remembers whether anything was lost, so that a second rounding can't go wrong.
fn sticky_fma(a: f64, b: f64, c: f64) -> f64 {
    let (sum, error) = two_sum(a * b, c);
    if error == 0.0 || sum.to_bits() & 1 == 1 {
        return sum;
    }
    if (error > 0.0) == (sum > 0.0) { f64::from_bits(sum.to_bits() + 1) } else { f64::from_bits(sum.to_bits() - 1) }
}

fn fma_f16(a: f16, b: f16, c: f16) -> f16 {
    canonical_f16(f16_from(sticky_fma(a.to_f64(), b.to_f64(), c.to_f64())))
}

fn fma_bf16(a: bf16, b: bf16, c: bf16) -> bf16 {
    canonical_bf16(bf16_from(sticky_fma(a.to_f64(), b.to_f64(), c.to_f64())))
}

fn add_f16(a: f16, b: f16) -> f16 {
    canonical_f16(f16_from(a.to_f64() + b.to_f64()))
}

fn mul_f16(a: f16, b: f16) -> f16 {
    canonical_f16(f16_from(a.to_f64() * b.to_f64()))
}

fn relu_f16(a: f16) -> f16 {
    if a.is_nan() || a > f16::ZERO { a } else { f16::ZERO }
}

fn lesser_f16(a: f16, b: f16) -> f16 {
    match (a.is_nan(), b.is_nan()) {
        (true, true) => canonical_f16(f16::NAN),
        (true, false) => b,
        (false, true) => a,
        _ if a == b => f16::from_bits(a.to_bits() | b.to_bits()),
        _ => f16::min(a, b),
    }
}

fn greater_f16(a: f16, b: f16) -> f16 {
    match (a.is_nan(), b.is_nan()) {
        (true, true) => canonical_f16(f16::NAN),
        (true, false) => b,
        (false, true) => a,
        _ if a == b => f16::from_bits(a.to_bits() & b.to_bits()),
        _ => f16::max(a, b),
    }
}

#[test]
fn f16_arithmetic_rounds_once() {
    let mut family = Family::new();
    let values = f16s();
    family.binary("add.f16 %r, %a, %b;", &values, &values, add_f16);
    family.binary("add.rn.f16 %r, %a, %b;", &values, &values, add_f16);
    family.binary("sub.f16 %r, %a, %b;", &values, &values, |a: f16, b: f16| {
        canonical_f16(f16_from(a.to_f64() - b.to_f64()))
    });
    family.binary("mul.f16 %r, %a, %b;", &values, &values, mul_f16);
    family.ternary("fma.rn.f16 %r, %a, %b, %c;", &values, &values, &values, fma_f16);
    family.ternary("fma.rn.relu.f16 %r, %a, %b, %c;", &values, &values, &values, |a, b, c| relu_f16(fma_f16(a, b, c)));
    family.ternary("fma.rn.sat.f16 %r, %a, %b, %c;", &values, &values, &values, |a, b, c| {
        let value = fma_f16(a, b, c);
        if value > f16::ZERO { value.min(f16::ONE) } else { f16::ZERO }
    });
    family.binary("min.f16 %r, %a, %b;", &values, &values, lesser_f16);
    family.binary("max.f16 %r, %a, %b;", &values, &values, greater_f16);
    family.binary("max.NaN.f16 %r, %a, %b;", &values, &values, |a: f16, b: f16| {
        if a.is_nan() || b.is_nan() { canonical_f16(f16::NAN) } else { greater_f16(a, b) }
    });
    let plain: Vec<f16> = values.iter().copied().filter(|value| !value.is_nan()).collect();
    family.unary("neg.f16 %r, %a;", &plain, |a: f16| f16::from_bits(a.to_bits() ^ 0x8000));
    family.unary("abs.f16 %r, %a;", &plain, |a: f16| f16::from_bits(a.to_bits() & 0x7fff));
}

#[test]
fn bf16_arithmetic_rounds_once() {
    let mut family = Family::new();
    let values = bf16s();
    family.binary("add.bf16 %r, %a, %b;", &values, &values, |a: bf16, b: bf16| fma_bf16(a, bf16::ONE, b));
    family.binary("sub.rn.bf16 %r, %a, %b;", &values, &values, |a: bf16, b: bf16| fma_bf16(b, bf16::NEG_ONE, a));
    family.binary("mul.bf16 %r, %a, %b;", &values, &values, |a: bf16, b: bf16| {
        canonical_bf16(bf16_from(a.to_f64() * b.to_f64()))
    });
    family.ternary("fma.rn.bf16 %r, %a, %b, %c;", &values, &values, &values, fma_bf16);
    family.ternary("fma.rn.relu.bf16 %r, %a, %b, %c;", &values, &values, &values, |a, b, c| {
        let value = fma_bf16(a, b, c);
        if value.is_nan() || value > bf16::ZERO { value } else { bf16::ZERO }
    });
    let plain: Vec<bf16> = values.iter().copied().filter(|value| !value.is_nan()).collect();
    family.binary("min.bf16 %r, %a, %b;", &plain, &plain, |a: bf16, b: bf16| {
        if a == b { bf16::from_bits(a.to_bits() | b.to_bits()) } else { bf16::min(a, b) }
    });
    family.binary("max.bf16 %r, %a, %b;", &plain, &plain, |a: bf16, b: bf16| {
        if a == b { bf16::from_bits(a.to_bits() & b.to_bits()) } else { bf16::max(a, b) }
    });
    family.unary("neg.bf16 %r, %a;", &plain, |a: bf16| bf16::from_bits(a.to_bits() ^ 0x8000));
    family.unary("abs.bf16 %r, %a;", &plain, |a: bf16| bf16::from_bits(a.to_bits() & 0x7fff));
}

fn halves_of(word: u32) -> [f16; 2] {
    [f16::from_bits(word as u16), f16::from_bits((word >> 16) as u16)]
}

fn word_of([low, high]: [f16; 2]) -> u32 {
    u32::from(high.to_bits()) << 16 | u32::from(low.to_bits())
}

/// Registers with two halves each, of every edge value.
fn pairs() -> Vec<u32> {
    let values = f16s();
    let mut words: Vec<u32> =
        (0..values.len()).map(|i| word_of([values[i], values[(i * 7 + 3) % values.len()]])).collect();
    words.extend(u32s());
    words
}

#[test]
fn pairs_of_halves_compute_apart() {
    let mut family = Family::new();
    let words = pairs();
    let each = |a: u32, b: u32, f: fn(f16, f16) -> f16| {
        let ([a0, a1], [b0, b1]) = (halves_of(a), halves_of(b));
        word_of([f(a0, b0), f(a1, b1)])
    };
    family.binary("add.f16x2 %r, %a, %b;", &words, &words, |a, b| each(a, b, add_f16));
    family.binary("mul.rn.f16x2 %r, %a, %b;", &words, &words, |a, b| each(a, b, mul_f16));
    family.binary("min.f16x2 %r, %a, %b;", &words, &words, |a, b| each(a, b, lesser_f16));
    family.binary("max.f16x2 %r, %a, %b;", &words, &words, |a, b| each(a, b, greater_f16));
    family.ternary("fma.rn.f16x2 %r, %a, %b, %c;", &words, &words, &words, |a, b, c| {
        let ([a0, a1], [b0, b1], [c0, c1]) = (halves_of(a), halves_of(b), halves_of(c));
        word_of([fma_f16(a0, b0, c0), fma_f16(a1, b1, c1)])
    });
    let bfloats = |word: u32| [bf16::from_bits(word as u16), bf16::from_bits((word >> 16) as u16)];
    family.ternary("fma.rn.bf16x2 %r, %a, %b, %c;", &words, &words, &words, |a, b, c| {
        let ([a0, a1], [b0, b1], [c0, c1]) = (bfloats(a), bfloats(b), bfloats(c));
        u32::from(fma_bf16(a1, b1, c1).to_bits()) << 16 | u32::from(fma_bf16(a0, b0, c0).to_bits())
    });
}

#[test]
fn halves_compare_into_predicates_and_masks() {
    let mut family = Family::new();
    let words = pairs();
    family.binary(
        "{ .reg .pred %p, %q; .reg .u32 %x, %y; setp.lt.f16x2 %p|%q, %a, %b;
        selp.u32 %x, 1, 0, %p; selp.u32 %y, 2, 0, %q; or.b32 %r, %x, %y; }",
        &words,
        &words,
        |a, b| {
            let ([a0, a1], [b0, b1]) = (halves_of(a), halves_of(b));
            u32::from(a0 < b0) + 2 * u32::from(a1 < b1)
        },
    );
    family.binary("set.gt.u32.f16x2 %r, %a, %b;", &words, &words, |a, b| {
        let ([a0, a1], [b0, b1]) = (halves_of(a), halves_of(b));
        (if a1 > b1 { 0xffff_0000 } else { 0 }) + (if a0 > b0 { 0xffffu32 } else { 0 })
    });
    family.binary("set.le.f16x2.f16x2 %r, %a, %b;", &words, &words, |a, b| {
        let ([a0, a1], [b0, b1]) = (halves_of(a), halves_of(b));
        let one = |truth: bool| if truth { f16::ONE } else { f16::ZERO };
        word_of([one(a0 <= b0), one(a1 <= b1)])
    });
}
