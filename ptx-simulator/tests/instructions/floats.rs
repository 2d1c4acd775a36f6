//! Floating-point arithmetic in single and double precision, rounded to nearest even.

use crate::support::family::Family;
use crate::support::values::{Random, f32s, f64s};

/// PTX's single-precision arithmetic gives one NaN only.
pub fn canonical(value: f32) -> f32 {
    // By its bits: the optimiser may take one NaN of a square root for as good as another.
    let bits = value.to_bits();
    f32::from_bits(if bits & 0x7fff_ffff > 0x7f80_0000 { 0x7fff_ffff } else { bits })
}

/// `.ftz`: a subnormal number becomes a zero of the same sign.
pub fn flush(value: f32) -> f32 {
    if value.is_subnormal() { 0.0f32.copysign(value) } else { value }
}

/// A product with `.ftz`: what counts is the exact product, before it is rounded.
fn flushed_product(a: f32, b: f32) -> f32 {
    let exact = f64::from(a) * f64::from(b);
    if exact.abs() < f64::from(f32::MIN_POSITIVE) { 0.0f32.copysign(exact as f32) } else { canonical(a * b) }
}

/// `.sat`: clamped to 0 to 1, NaN becomes 0.
fn saturate(value: f32) -> f32 {
    if value > 0.0 { value.min(1.0) } else { 0.0 }
}

#[test]
fn single_precision_arithmetic_rounds_to_nearest_even() {
    let mut family = Family::new();
    let values = f32s();
    for suffix in ["f32", "rn.f32"] {
        family.binary(&format!("add.{suffix} %r, %a, %b;"), &values, &values, |a: f32, b| canonical(a + b));
        family.binary(&format!("sub.{suffix} %r, %a, %b;"), &values, &values, |a: f32, b| canonical(a - b));
        family.binary(&format!("mul.{suffix} %r, %a, %b;"), &values, &values, |a: f32, b| canonical(a * b));
    }
    family.binary("div.rn.f32 %r, %a, %b;", &values, &values, |a: f32, b| canonical(a / b));
    family.ternary("fma.rn.f32 %r, %a, %b, %c;", &values, &values, &values, |a: f32, b, c| canonical(a.mul_add(b, c)));
    family.ternary("mad.rn.f32 %r, %a, %b, %c;", &values, &values, &values, |a: f32, b, c| canonical(a.mul_add(b, c)));
    family.unary("sqrt.rn.f32 %r, %a;", &values, |a: f32| canonical(a.sqrt()));
    family.unary("rcp.rn.f32 %r, %a;", &values, |a: f32| canonical(1.0 / a));
}

#[test]
fn subnormal_numbers_flush_only_when_asked() {
    let mut family = Family::new();
    let mut values = f32s();
    values.extend([1.2e-38, -1.3e-38, 2e-39, -5e-40, 3e-20, 1e-19, -2e-25].map(|x: f32| x));
    family.binary("add.ftz.f32 %r, %a, %b;", &values, &values, |a, b| canonical(flush(flush(a) + flush(b))));
    family.binary("mul.rn.ftz.f32 %r, %a, %b;", &values, &values, |a, b| flushed_product(flush(a), flush(b)));
    family.ternary("fma.rn.ftz.f32 %r, %a, %b, %c;", &values, &values, &[0.0f32, -0.0], |a, b, c: f32| {
        let (a, b) = (flush(a), flush(b));
        if a == 0.0 || b == 0.0 { canonical(a * b + c) } else { flushed_product(a, b) }
    });
    family.binary("mul.rn.f32 %r, %a, %b;", &values, &values, |a: f32, b| canonical(a * b));
    family.ternary("fma.rn.ftz.f32 %r, %a, %b, %c;", &values, &values, &values, |a, b, c| {
        canonical(flush(flush(a).mul_add(flush(b), flush(c))))
    });
    family.binary("div.rn.ftz.f32 %r, %a, %b;", &values, &values, |a, b| canonical(flush(flush(a) / flush(b))));
    family.unary("sqrt.rn.ftz.f32 %r, %a;", &values, |a| canonical(flush(flush(a).sqrt())));
}

#[test]
fn saturation_clamps_to_zero_and_one() {
    let mut family = Family::new();
    let values = f32s();
    family.binary("add.sat.f32 %r, %a, %b;", &values, &values, |a: f32, b| saturate(a + b));
    family.binary("mul.sat.f32 %r, %a, %b;", &values, &values, |a: f32, b| saturate(a * b));
    family
        .ternary("fma.rn.sat.f32 %r, %a, %b, %c;", &values, &values, &values, |a: f32, b, c| saturate(a.mul_add(b, c)));
    family.unary("cvt.sat.f32.f32 %r, %a;", &values, saturate);
}

#[test]
fn double_precision_arithmetic_rounds_to_nearest_even() {
    let mut family = Family::new();
    let values = f64s();
    family.binary("add.f64 %r, %a, %b;", &values, &values, |a: f64, b| a + b);
    family.binary("sub.rn.f64 %r, %a, %b;", &values, &values, |a: f64, b| a - b);
    family.binary("mul.f64 %r, %a, %b;", &values, &values, |a: f64, b| a * b);
    family.binary("div.rn.f64 %r, %a, %b;", &values, &values, |a: f64, b| a / b);
    family.ternary("fma.rn.f64 %r, %a, %b, %c;", &values, &values, &values, f64::mul_add);
    family.unary("sqrt.rn.f64 %r, %a;", &values, f64::sqrt);
    family.unary("rcp.rn.f64 %r, %a;", &values, |a: f64| 1.0 / a);
    family.unary("neg.f64 %r, %a;", &values, |a: f64| -a);
    family.unary("abs.f64 %r, %a;", &values, f64::abs);
}

/// Minimum and maximum as IEEE 754-2019's minimumNumber: a NaN loses, and -0 is below +0.
fn lesser(a: f32, b: f32) -> f32 {
    match (a.is_nan(), b.is_nan()) {
        (true, true) => canonical(f32::NAN),
        (true, false) => b,
        (false, true) => a,
        _ if a == b => f32::from_bits(a.to_bits() | b.to_bits()),
        _ => a.min(b),
    }
}

fn greater(a: f32, b: f32) -> f32 {
    match (a.is_nan(), b.is_nan()) {
        (true, true) => canonical(f32::NAN),
        (true, false) => b,
        (false, true) => a,
        _ if a == b => f32::from_bits(a.to_bits() & b.to_bits()),
        _ => a.max(b),
    }
}

#[test]
fn minimum_and_maximum_ignore_nan_unless_told() {
    let mut family = Family::new();
    let values = f32s();
    family.binary("min.f32 %r, %a, %b;", &values, &values, lesser);
    family.binary("max.f32 %r, %a, %b;", &values, &values, greater);
    let nan_wins = |f: fn(f32, f32) -> f32| {
        move |a: f32, b: f32| if a.is_nan() || b.is_nan() { canonical(f32::NAN) } else { f(a, b) }
    };
    family.binary("min.NaN.f32 %r, %a, %b;", &values, &values, nan_wins(lesser));
    family.binary("max.NaN.f32 %r, %a, %b;", &values, &values, nan_wins(greater));
    family.binary("min.ftz.f32 %r, %a, %b;", &values, &values, |a, b| lesser(flush(a), flush(b)));
    let doubles = f64s();
    family.binary("min.f64 %r, %a, %b;", &doubles, &doubles, |a: f64, b: f64| {
        if a == b { f64::from_bits(a.to_bits() | b.to_bits()) } else { a.min(b) }
    });
    family.binary("max.f64 %r, %a, %b;", &doubles, &doubles, |a: f64, b: f64| {
        if a == b { f64::from_bits(a.to_bits() & b.to_bits()) } else { a.max(b) }
    });
    let plain: Vec<f32> = values.iter().copied().filter(|value| !value.is_nan()).collect();
    family.binary("min.xorsign.abs.f32 %r, %a, %b;", &plain, &plain, |a: f32, b: f32| {
        f32::from_bits(lesser(a.abs(), b.abs()).to_bits() | ((a.to_bits() ^ b.to_bits()) & 0x8000_0000))
    });
}

#[test]
fn signs_are_negated_dropped_and_copied() {
    let mut family = Family::new();
    let values: Vec<f32> = f32s().into_iter().filter(|value| !value.is_nan()).collect();
    family.unary("neg.f32 %r, %a;", &values, |a: f32| -a);
    family.unary("abs.f32 %r, %a;", &values, f32::abs);
    family.unary("abs.ftz.f32 %r, %a;", &values, |a| flush(a).abs());
    family.unary("neg.ftz.f32 %r, %a;", &values, |a| -flush(a));
    // The first operand gives the sign, the second the magnitude.
    family.binary("copysign.f32 %r, %a, %b;", &values, &values, |a: f32, b: f32| b.copysign(a));
    let doubles: Vec<f64> = f64s();
    family.binary("copysign.f64 %r, %a, %b;", &doubles, &doubles, |a: f64, b: f64| b.copysign(a));
}

#[test]
fn testp_classifies_numbers() {
    let mut family = Family::new();
    let text =
        |name: &str, class: &str| format!("{{ .reg .pred %p; testp.{name}.{class} %p, %a; selp.u32 %r, 1, 0, %p; }}");
    let values = f32s();
    family.unary(&text("finite", "f32"), &values, |a: f32| u32::from(a.is_finite()));
    family.unary(&text("infinite", "f32"), &values, |a: f32| u32::from(a.is_infinite()));
    family.unary(&text("number", "f32"), &values, |a: f32| u32::from(!a.is_nan()));
    family.unary(&text("notanumber", "f32"), &values, |a: f32| u32::from(a.is_nan()));
    // Zeros count as normal.
    family.unary(&text("normal", "f32"), &values, |a: f32| u32::from(a.is_normal() || a == 0.0));
    family.unary(&text("subnormal", "f32"), &values, |a: f32| u32::from(a.is_subnormal()));
    let values = f64s();
    family.unary(&text("normal", "f64"), &values, |a: f64| u32::from(a.is_normal() || a == 0.0));
    family.unary(&text("finite", "f64"), &values, |a: f64| u32::from(a.is_finite()));
}

#[test]
fn approximations_stay_within_their_documented_error() {
    let mut family = Family::new();
    let mut random = Random::new(5);
    let small: Vec<f32> = (0..200).map(|_| random.unit() * 3.0).collect();
    let positive: Vec<f32> =
        (0..200).map(|_| f32::from_bits(0x0080_0000 + random.below(0x7e80_0000))).chain([1.0, 4.0, 0.25]).collect();
    let specials = [0.0f32, -0.0, f32::INFINITY, f32::NEG_INFINITY, f32::NAN, 1.0, -1.0];
    let ulp = f64::from(f32::EPSILON);
    family.approximate("rcp.approx.f32 %r, %a;", &small, 2.0 * ulp, 0.0, |a| 1.0 / a);
    family.approximate("rcp.approx.f32 %r, %a;", &specials, 0.0, 0.0, |a| 1.0 / a);
    family.approximate("sqrt.approx.f32 %r, %a;", &positive, 4.0 * ulp, 0.0, f64::sqrt);
    family.approximate("rsqrt.approx.f32 %r, %a;", &positive, 4.0 * ulp, 0.0, |a| 1.0 / a.sqrt());
    family.approximate("rsqrt.approx.f32 %r, %a;", &specials, 0.0, 0.0, |a| 1.0 / a.sqrt());
    family.approximate("ex2.approx.f32 %r, %a;", &small, 4.0 * ulp, 0.0, f64::exp2);
    family.approximate("ex2.approx.f32 %r, %a;", &specials, 4.0 * ulp, 0.0, f64::exp2);
    family.approximate("lg2.approx.f32 %r, %a;", &positive, 4.0 * ulp, 1e-6, f64::log2);
    family.approximate("lg2.approx.f32 %r, %a;", &specials, 0.0, 1e-6, f64::log2);
    family.approximate("sin.approx.f32 %r, %a;", &small, 0.0, 1e-6, f64::sin);
    family.approximate("cos.approx.f32 %r, %a;", &small, 0.0, 1e-6, f64::cos);
    family.approximate("tanh.approx.f32 %r, %a;", &small, 1e-3, 0.0, f64::tanh);
    family.approximate("div.approx.f32 %r, 3.0, %a;", &small, 3.0 * ulp, 0.0, |a| 3.0 / a);
    family.approximate("div.full.f32 %r, 3.0, %a;", &small, 3.0 * ulp, 0.0, |a| 3.0 / a);
    family.approximate("ex2.approx.ftz.f32 %r, %a;", &[-127.0, -130.0, -126.0], 4.0 * ulp, 0.0, |a| {
        if a < -126.0 { 0.0 } else { a.exp2() }
    });
}
