//! Directed rounding: towards zero, down and up.

use super::floats::canonical;
use crate::support::family::Family;
use crate::support::values::{Random, f32s};

const MODES: [&str; 4] = ["rn", "rz", "rm", "rp"];

/// Rounds the number that lies at `nearest`, or just beside it on the side of `error`'s sign, to single precision.
pub fn to_single(mode: &str, nearest: f64, error: f64) -> f32 {
    let mut single = nearest as f32;
    if single.is_infinite() && nearest.is_infinite() || single.is_nan() {
        return single;
    }
    let beside = nearest - f64::from(single);
    let side = if beside != 0.0 { beside } else { error };
    // Rounding twice goes wrong at a tie of the first rounding: then the rest decides.
    if mode == "rn" {
        let next = if side > 0.0 { single.next_up() } else { single.next_down() };
        let middle = (f64::from(single) + f64::from(next)) / 2.0;
        if nearest == middle && next.is_finite() && error != 0.0 {
            let towards_next = (error > 0.0) == (side > 0.0);
            return if towards_next { next } else { single };
        }
        return single;
    }
    let down = side < 0.0 && (mode == "rm" || mode == "rz" && nearest > 0.0);
    let up = side > 0.0 && (mode == "rp" || mode == "rz" && nearest < 0.0);
    if down {
        single = single.next_down();
    } else if up {
        single = single.next_up();
    }
    single
}

/// A sum of doubles and what rounding it to the nearest double lost.
pub fn two_sum(a: f64, b: f64) -> (f64, f64) {
    let sum = a + b;
    if !sum.is_finite() {
        return (sum, 0.0);
    }
    let other = sum - a;
    (sum, (a - (sum - other)) + (b - other))
}

/// The sum of two singles; a zero from opposite numbers is negative only when rounding down.
fn add(mode: &str, a: f32, b: f32) -> f32 {
    let (sum, error) = two_sum(a.into(), b.into());
    if sum == 0.0 && !(a == 0.0 && b == 0.0 && a.is_sign_negative() == b.is_sign_negative()) {
        return if mode == "rm" { -0.0 } else { 0.0 };
    }
    canonical(to_single(mode, sum, error))
}

fn fused(mode: &str, a: f32, b: f32, c: f32) -> f32 {
    let product = f64::from(a) * f64::from(b);
    let (sum, error) = two_sum(product, c.into());
    let both_negative = product.is_sign_negative() && c.is_sign_negative();
    if sum == 0.0 && !(product == 0.0 && c == 0.0 && product.is_sign_negative() == c.is_sign_negative()) {
        return if mode == "rm" && !both_negative { -0.0 } else { 0.0 };
    }
    canonical(to_single(mode, sum, error))
}

fn divide(mode: &str, a: f32, b: f32) -> f32 {
    let (a, b) = (f64::from(a), f64::from(b));
    let quotient = a / b;
    let rest = if quotient.is_finite() && b.is_finite() { (-quotient).mul_add(b, a) * b.signum() } else { 0.0 };
    canonical(to_single(mode, quotient, rest))
}

fn square_root(mode: &str, a: f32) -> f32 {
    let a = f64::from(a);
    let root = a.sqrt();
    let rest = if root.is_finite() { (-root).mul_add(root, a) } else { 0.0 };
    canonical(to_single(mode, root, rest))
}

fn values() -> Vec<f32> {
    let mut values = f32s();
    let mut random = Random::new(77);
    values.extend((0..12).map(|_| random.unit() * 4.0));
    values.extend([1.1754944e-38, 3e-39, 3.4e38, -3.3e38, 8_388_607.5]);
    values
}

#[test]
fn single_precision_sums_and_products_round_as_told() {
    let mut family = Family::new();
    let values = values();
    for mode in MODES {
        family.binary(&format!("add.{mode}.f32 %r, %a, %b;"), &values, &values, |a, b| add(mode, a, b));
        family.binary(&format!("sub.{mode}.f32 %r, %a, %b;"), &values, &values, |a, b: f32| add(mode, a, -b));
        family.binary(&format!("mul.{mode}.f32 %r, %a, %b;"), &values, &values, |a, b| {
            canonical(to_single(mode, f64::from(a) * f64::from(b), 0.0))
        });
        family.ternary(&format!("fma.{mode}.f32 %r, %a, %b, %c;"), &values, &values, &values, |a, b, c| {
            fused(mode, a, b, c)
        });
    }
}

#[test]
fn single_precision_quotients_and_roots_round_as_told() {
    let mut family = Family::new();
    let values = values();
    for mode in MODES {
        family.binary(&format!("div.{mode}.f32 %r, %a, %b;"), &values, &values, |a, b| divide(mode, a, b));
        family.unary(&format!("rcp.{mode}.f32 %r, %a;"), &values, |a| divide(mode, 1.0, a));
        family.unary(&format!("sqrt.{mode}.f32 %r, %a;"), &values, |a| square_root(mode, a));
    }
}

/// Moves a double that was rounded to nearest to where `mode` wants it; `error` is what the rounding lost.
fn direct(mode: &str, nearest: f64, error: f64) -> f64 {
    let down = error < 0.0 && (mode == "rm" || mode == "rz" && nearest > 0.0);
    let up = error > 0.0 && (mode == "rp" || mode == "rz" && nearest < 0.0);
    match (down, up) {
        (true, _) => nearest.next_down(),
        (_, true) => nearest.next_up(),
        _ => nearest,
    }
}

#[test]
fn double_precision_rounds_as_told() {
    let mut family = Family::new();
    let mut random = Random::new(99);
    // Far from overflow and underflow, where the error of a rounding is itself a double.
    let values: Vec<f64> = (0..40)
        .map(|_| f64::from_bits(random.next() & 0x800f_ffff_ffff_ffff | u64::from(1000 + random.below(50)) << 52))
        .chain([1.0, -1.0, 0.1, 1.0 / 3.0, 1e10, -1e-10, 3.0])
        .collect();
    for mode in MODES {
        family.binary(&format!("add.{mode}.f64 %r, %a, %b;"), &values, &values, |a, b| {
            let (sum, error) = two_sum(a, b);
            if sum == 0.0 && mode == "rm" { -0.0 } else { direct(mode, sum, error) }
        });
        family.binary(&format!("mul.{mode}.f64 %r, %a, %b;"), &values, &values, |a: f64, b: f64| {
            direct(mode, a * b, a.mul_add(b, -(a * b)))
        });
        family.binary(&format!("div.{mode}.f64 %r, %a, %b;"), &values, &values, |a: f64, b: f64| {
            direct(mode, a / b, (-(a / b)).mul_add(b, a) * b.signum())
        });
        family.unary(&format!("sqrt.{mode}.f64 %r, %a;"), &values, |a: f64| {
            let root = a.sqrt();
            if root.is_nan() { root } else { direct(mode, root, (-root).mul_add(root, a)) }
        });
    }
}
