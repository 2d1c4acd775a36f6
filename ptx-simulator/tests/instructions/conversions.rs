//! cvt: between whole numbers, between floating-point formats, and across.

use super::floats::{canonical, flush};
use super::rounding::to_single;
use crate::support::family::Family;
use crate::support::values::{Random, bf16s, f16_from, f16s, f32s, f64s, i16s, i32s, i64s, u16s, u32s, u64s};
use half::{bf16, f16};

#[test]
fn whole_numbers_truncate_and_extend() {
    let mut family = Family::new();
    family.unary("cvt.u16.u32 %r, %a;", &u32s(), |a| a as u16);
    family.unary("cvt.s16.s32 %r, %a;", &i32s(), |a| a as i16);
    family.unary("cvt.u32.u16 %r, %a;", &u16s(), u32::from);
    family.unary("cvt.s32.s16 %r, %a;", &i16s(), i32::from);
    family.unary("cvt.u32.s16 %r, %a;", &i16s(), |a| a as u32);
    family.unary("cvt.u64.u32 %r, %a;", &u32s(), u64::from);
    family.unary("cvt.s64.s32 %r, %a;", &i32s(), i64::from);
    family.unary("cvt.u64.s32 %r, %a;", &i32s(), |a| a as u64);
    family.unary("cvt.s64.u32 %r, %a;", &u32s(), i64::from);
    family.unary("cvt.u32.u64 %r, %a;", &u64s(), |a| a as u32);
    family.unary("cvt.s32.s64 %r, %a;", &i64s(), |a| a as i32);
    family.unary("cvt.s64.s16 %r, %a;", &i16s(), i64::from);
    family.unary("cvt.u16.u64 %r, %a;", &u64s(), |a| a as u16);
    // The low byte of a wider register.
    family.unary("cvt.u32.u8 %r, %a;", &u32s(), |a| u32::from(a as u8));
    family.unary("cvt.s32.s8 %r, %a;", &u32s(), |a| i32::from(a as i8));
    family.unary("cvt.s64.s8 %r, %a;", &u64s(), |a| i64::from(a as i8));
    family.unary("cvt.s16.s8 %r, %a;", &u16s(), |a| i16::from(a as i8));
    family.unary("cvt.u8.u32 %r, %a;", &u32s(), |a| u16::from(a as u8));
    family.unary("cvt.s32.s16 %r, %a;", &i16s(), i32::from);
}

#[test]
fn whole_numbers_saturate_when_asked() {
    let mut family = Family::new();
    family.unary("cvt.sat.u8.s32 %r, %a;", &i32s(), |a| a.clamp(0, 255) as u16);
    family.unary("cvt.sat.s8.s32 %r, %a;", &i32s(), |a| a.clamp(-128, 127) as i16);
    family.unary("cvt.sat.u16.s32 %r, %a;", &i32s(), |a| a.clamp(0, 65535) as u16);
    family.unary("cvt.sat.s16.s32 %r, %a;", &i32s(), |a| a.clamp(-32768, 32767) as i16);
    family.unary("cvt.sat.u32.s32 %r, %a;", &i32s(), |a| a.max(0) as u32);
    family.unary("cvt.sat.s32.u32 %r, %a;", &u32s(), |a| a.min(i32::MAX as u32) as i32);
    family.unary("cvt.sat.s32.s64 %r, %a;", &i64s(), |a| a.clamp(i32::MIN.into(), i32::MAX.into()) as i32);
    family.unary("cvt.sat.u32.s64 %r, %a;", &i64s(), |a| a.clamp(0, u32::MAX.into()) as u32);
    family.unary("cvt.sat.u32.u64 %r, %a;", &u64s(), |a| a.min(u32::MAX.into()) as u32);
    family.unary("cvt.sat.s64.u64 %r, %a;", &u64s(), |a| a.min(i64::MAX as u64) as i64);
    family.unary("cvt.sat.u64.s64 %r, %a;", &i64s(), |a| a.max(0) as u64);
}

#[test]
fn cvt_pack_saturates_two_numbers_into_one_register() {
    let mut family = Family::new();
    let join = |a: u32, b: u32| a << 16 | b & 0xffff;
    family.binary("cvt.pack.sat.s16.s32 %r, %a, %b;", &i32s(), &i32s(), |a, b| {
        join(a.clamp(-32768, 32767) as u32, b.clamp(-32768, 32767) as u32)
    });
    family.binary("cvt.pack.sat.u16.s32 %r, %a, %b;", &i32s(), &i32s(), |a, b| {
        join(a.clamp(0, 65535) as u32, b.clamp(0, 65535) as u32)
    });
    family.ternary("cvt.pack.sat.u8.s32.b32 %r, %a, %b, %c;", &i32s(), &i32s(), &u32s(), |a, b, c: u32| {
        c << 16 | (a.clamp(0, 255) as u32) << 8 | b.clamp(0, 255) as u32
    });
}

/// A double with no fraction, rounded as the mode says.
fn integral(mode: &str, value: f64) -> f64 {
    match mode {
        "rni" => value.round_ties_even(),
        "rzi" => value.trunc(),
        "rmi" => value.floor(),
        "rpi" => value.ceil(),
        other => unreachable!("{other} is no integer rounding"),
    }
}

const INTEGER_MODES: [&str; 4] = ["rni", "rzi", "rmi", "rpi"];

fn singles() -> Vec<f32> {
    let mut values = f32s();
    values.extend([0.49999997, 2.5, -3.5, 127.5, 128.0, -128.5, 255.5, 32767.5, 65535.5, 8388609.0, -0.7]);
    values.extend([2147483520.0, 4294967040.0, 9.223372e18, 1.8446744e19, -9.223372e18, 9.2233715e18]);
    values
}

fn doubles() -> Vec<f64> {
    let mut values = f64s();
    values.extend([0.5, -1.5, 2147483646.5, -2147483648.5, 4294967294.5, 9223372036854774784.0, -0.4999]);
    values
}

#[test]
fn floating_point_becomes_whole_numbers_clamped_to_the_range() {
    let mut family = Family::new();
    for mode in INTEGER_MODES {
        family.unary(&format!("cvt.{mode}.s32.f32 %r, %a;"), &singles(), |a| integral(mode, a.into()) as i32);
        family.unary(&format!("cvt.{mode}.u32.f32 %r, %a;"), &singles(), |a| integral(mode, a.into()) as u32);
        family.unary(&format!("cvt.{mode}.s16.f32 %r, %a;"), &singles(), |a| integral(mode, a.into()) as i16);
        family.unary(&format!("cvt.{mode}.u16.f32 %r, %a;"), &singles(), |a| integral(mode, a.into()) as u16);
        family.unary(&format!("cvt.{mode}.s32.f64 %r, %a;"), &doubles(), |a: f64| {
            // In double precision a NaN gives the number with only the top bit set.
            if a.is_nan() { i32::MIN } else { integral(mode, a) as i32 }
        });
        family.unary(&format!("cvt.{mode}.u32.f64 %r, %a;"), &doubles(), |a: f64| {
            if a.is_nan() { 0x8000_0000 } else { integral(mode, a) as u32 }
        });
        family.unary(&format!("cvt.{mode}.s64.f32 %r, %a;"), &singles(), |a: f32| {
            if a.is_nan() { i64::MIN } else { integral(mode, a.into()) as i64 }
        });
        family.unary(&format!("cvt.{mode}.u64.f32 %r, %a;"), &singles(), |a: f32| {
            if a.is_nan() { 1 << 63 } else { integral(mode, a.into()) as u64 }
        });
        family.unary(&format!("cvt.{mode}.s64.f64 %r, %a;"), &doubles(), |a: f64| {
            if a.is_nan() { i64::MIN } else { integral(mode, a) as i64 }
        });
        family.unary(&format!("cvt.{mode}.u64.f64 %r, %a;"), &doubles(), |a: f64| {
            if a.is_nan() { 1 << 63 } else { integral(mode, a) as u64 }
        });
        family.unary(&format!("cvt.{mode}.s32.f16 %r, %a;"), &f16s(), |a| integral(mode, a.to_f64()) as i32);
        family.unary(&format!("cvt.{mode}.u16.f16 %r, %a;"), &f16s(), |a| integral(mode, a.to_f64()) as u16);
    }
}

#[test]
fn floating_point_rounds_to_integral_values() {
    let mut family = Family::new();
    for mode in INTEGER_MODES {
        family.unary(
            &format!("cvt.{mode}.f32.f32 %r, %a;"),
            &singles(),
            |a| canonical(integral(mode, a.into()) as f32),
        );
        family.unary(&format!("cvt.{mode}.f64.f64 %r, %a;"), &doubles(), |a| integral(mode, a));
        family.unary(&format!("cvt.{mode}.ftz.f32.f32 %r, %a;"), &singles(), |a| {
            canonical(integral(mode, flush(a).into()) as f32)
        });
    }
}

/// A whole number as single precision in any rounding mode.
fn single_from(mode: &str, value: i128) -> f32 {
    let nearest = value as f64;
    to_single(mode, nearest, (value - nearest as i128) as f64)
}

#[test]
fn whole_numbers_become_floating_point_rounded_as_told() {
    let mut family = Family::new();
    for mode in ["rn", "rz", "rm", "rp"] {
        family.unary(&format!("cvt.{mode}.f32.s32 %r, %a;"), &i32s(), |a| single_from(mode, a.into()));
        family.unary(&format!("cvt.{mode}.f32.u32 %r, %a;"), &u32s(), |a| single_from(mode, a.into()));
        family.unary(&format!("cvt.{mode}.f32.s64 %r, %a;"), &i64s(), |a| single_from(mode, a.into()));
        family.unary(&format!("cvt.{mode}.f32.u64 %r, %a;"), &u64s(), |a| single_from(mode, a.into()));
        family.unary(&format!("cvt.{mode}.f32.s16 %r, %a;"), &i16s(), f32::from);
        family.unary(&format!("cvt.{mode}.f32.u8 %r, %a;"), &u32s(), |a| f32::from(a as u8));
        family.unary(&format!("cvt.{mode}.f64.s32 %r, %a;"), &i32s(), f64::from);
        family.unary(&format!("cvt.{mode}.f64.u32 %r, %a;"), &u32s(), f64::from);
        let double_from = |value: i128| {
            let nearest = value as f64;
            let error = value - nearest as i128;
            match mode {
                "rz" if error < 0 && nearest > 0.0 => nearest.next_down(),
                "rz" if error > 0 && nearest < 0.0 => nearest.next_up(),
                "rm" if error < 0 => nearest.next_down(),
                "rp" if error > 0 => nearest.next_up(),
                _ => nearest,
            }
        };
        family.unary(&format!("cvt.{mode}.f64.s64 %r, %a;"), &i64s(), |a| double_from(a.into()));
        family.unary(&format!("cvt.{mode}.f64.u64 %r, %a;"), &u64s(), |a| double_from(a.into()));
    }
    family.unary("cvt.rn.f16.s32 %r, %a;", &i32s(), |a| f16_from(a.into()));
    family.unary("cvt.rn.f16.u16 %r, %a;", &u16s(), |a| f16_from(a.into()));
}

#[test]
fn single_and_double_precision_convert_both_ways() {
    let mut family = Family::new();
    family.unary("cvt.f64.f32 %r, %a;", &f32s(), f64::from);
    // Which NaN a double's NaN becomes is open; that it becomes one isn't.
    family.unary(
        "{ .reg .f32 %x; .reg .pred %p; cvt.rn.f32.f64 %x, %a; testp.notanumber.f32 %p, %x; selp.u32 %r, 1, 0, %p; }",
        &f64s(),
        |a: f64| u32::from(a.is_nan()),
    );
    let mut values: Vec<f64> = f64s().into_iter().filter(|value| !value.is_nan()).collect();
    values.extend([
        1.0 + f64::EPSILON,
        1.0 + 2f64.powi(-24),
        1.0 + 3.0 * 2f64.powi(-24),
        1e39,
        -1e39,
        1e-46,
        3.4028235677973366e38,
    ]);
    for mode in ["rn", "rz", "rm", "rp"] {
        family.unary(&format!("cvt.{mode}.f32.f64 %r, %a;"), &values, |a| canonical(to_single(mode, a, 0.0)));
    }
    family.unary("cvt.rn.ftz.f32.f64 %r, %a;", &values, |a| canonical(flush(a as f32)));
    family.unary("cvt.rn.sat.f32.f64 %r, %a;", &values, |a| if a > 0.0 { (a as f32).min(1.0) } else { 0.0f32 });
}

/// PTX's NaN of the half formats.
pub fn canonical_f16(value: f16) -> f16 {
    if value.is_nan() { f16::from_bits(0x7fff) } else { value }
}

pub fn canonical_bf16(value: bf16) -> bf16 {
    if value.is_nan() { bf16::from_bits(0x7fff) } else { value }
}

fn near_halves() -> Vec<f32> {
    let mut values = f32s();
    let mut random = Random::new(2048);
    values.extend((0..60).map(|_| random.unit() * 8.0));
    // Ties between neighbours, subnormal halves, the border to infinity.
    values.extend([1.0 + 1.0 / 2048.0, 1.0 + 3.0 / 2048.0, 65519.0, 65520.0, 65519.996, 5.9604645e-8, 2.9802322e-8]);
    values.extend([2.980233e-8, 6.1e-5, 1.0 + 1.0 / 256.0, 1.0 + 3.0 / 256.0, 3.3895314e38, 3.3961e38, 9.2e-41]);
    values
}

#[test]
fn halves_convert_to_and_from_wider_formats() {
    let mut family = Family::new();
    let values = near_halves();
    family.unary("cvt.rn.f16.f32 %r, %a;", &values, |a| canonical_f16(f16::from_f32(a)));
    family.unary("cvt.rn.bf16.f32 %r, %a;", &values, |a| canonical_bf16(bf16::from_f32(a)));
    family.unary("cvt.f32.f16 %r, %a;", &f16s(), |a: f16| canonical(a.to_f32()));
    family.unary("cvt.f64.f16 %r, %a;", &f16s(), |a: f16| a.to_f64());
    family.unary("cvt.f32.bf16 %r, %a;", &bf16s(), |a: bf16| {
        // The bits move up as they are.
        f32::from_bits(u32::from(a.to_bits()) << 16)
    });
    // Just beside ties: rounding by way of single precision would go wrong.
    let tie = 1.0 + 2f64.powi(-11);
    let beside =
        [tie, tie.next_up(), tie.next_down(), 65_520.0f64.next_down(), 2f64.powi(-25).next_up(), 2f64.powi(-25)];
    let doubles: Vec<f64> = f64s().into_iter().filter(|value| !value.is_nan()).chain(beside).collect();
    family.unary("cvt.rn.f16.f64 %r, %a;", &doubles, f16_from);
    // Towards zero: the bits below the half's are dropped, and nothing rounds up to infinity.
    family.unary("cvt.rz.f16.f32 %r, %a;", &values, |a: f32| {
        let nearest = f16::from_f32(a);
        if a.is_finite() && nearest.to_f32().abs() > a.abs() {
            f16::from_bits(nearest.to_bits() - 1)
        } else {
            canonical_f16(nearest)
        }
    });
    family.unary("cvt.rz.bf16.f32 %r, %a;", &values, |a: f32| {
        if a.is_nan() { bf16::from_bits(0x7fff) } else { bf16::from_bits((a.to_bits() >> 16) as u16) }
    });
}

#[test]
fn two_singles_pack_into_one_register_of_halves() {
    let mut family = Family::new();
    let values = near_halves();
    let relu = |a: f32| if a > 0.0 || a.is_nan() { a } else { 0.0 };
    family.binary("cvt.rn.f16x2.f32 %r, %a, %b;", &values, &values, |a, b| {
        let half = |x| u32::from(canonical_f16(f16::from_f32(x)).to_bits());
        half(a) << 16 | half(b)
    });
    family.binary("cvt.rn.bf16x2.f32 %r, %a, %b;", &values, &values, |a, b| {
        let half = |x| u32::from(canonical_bf16(bf16::from_f32(x)).to_bits());
        half(a) << 16 | half(b)
    });
    family.binary("cvt.rn.relu.f16x2.f32 %r, %a, %b;", &values, &values, |a, b| {
        let half = |x| u32::from(canonical_f16(f16::from_f32(relu(x))).to_bits());
        half(a) << 16 | half(b)
    });
}

#[test]
fn tf32_keeps_ten_bits_of_fraction() {
    let mut family = Family::new();
    let values: Vec<f32> = near_halves().into_iter().filter(|value| value.is_finite()).collect();
    // To nearest, ties away from zero; the low thirteen bits are cleared.
    family.unary("cvt.rna.tf32.f32 %r, %a;", &values, |a: f32| (a.to_bits() + 0x1000) & !0x1fff);
}
