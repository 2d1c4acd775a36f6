//! Whole-number arithmetic.

use crate::support::family::Family;
use crate::support::values::{i16s, i32s, i64s, u16s, u32s, u64s};

#[test]
fn sums_and_differences_wrap() {
    let mut family = Family::new();
    family.binary("add.u16 %r, %a, %b;", &u16s(), &u16s(), u16::wrapping_add);
    family.binary("add.s16 %r, %a, %b;", &i16s(), &i16s(), i16::wrapping_add);
    family.binary("add.u32 %r, %a, %b;", &u32s(), &u32s(), u32::wrapping_add);
    family.binary("add.s32 %r, %a, %b;", &i32s(), &i32s(), i32::wrapping_add);
    family.binary("add.u64 %r, %a, %b;", &u64s(), &u64s(), u64::wrapping_add);
    family.binary("add.s64 %r, %a, %b;", &i64s(), &i64s(), i64::wrapping_add);
    family.binary("sub.u16 %r, %a, %b;", &u16s(), &u16s(), u16::wrapping_sub);
    family.binary("sub.s32 %r, %a, %b;", &i32s(), &i32s(), i32::wrapping_sub);
    family.binary("sub.u32 %r, %a, %b;", &u32s(), &u32s(), u32::wrapping_sub);
    family.binary("sub.s64 %r, %a, %b;", &i64s(), &i64s(), i64::wrapping_sub);
    family.binary("sub.u64 %r, %a, %b;", &u64s(), &u64s(), u64::wrapping_sub);
    family.binary("add.sat.s32 %r, %a, %b;", &i32s(), &i32s(), i32::saturating_add);
    family.binary("sub.sat.s32 %r, %a, %b;", &i32s(), &i32s(), i32::saturating_sub);
}

#[test]
fn immediates_stand_for_any_operand() {
    let mut family = Family::new();
    family.unary("add.s32 %r, %a, -7;", &i32s(), |a: i32| a.wrapping_sub(7));
    family.unary("add.u32 %r, 0xffffffff, %a;", &u32s(), |a: u32| a.wrapping_sub(1));
    family.unary("add.u32 %r, %a, 017;", &u32s(), |a: u32| a.wrapping_add(15));
    family.unary("add.u32 %r, %a, 0b101;", &u32s(), |a: u32| a.wrapping_add(5));
    family.unary("add.u32 %r, %a, 4000000000U;", &u32s(), |a: u32| a.wrapping_add(4_000_000_000));
    family.unary("add.s64 %r, %a, -9223372036854775808;", &i64s(), |a: i64| a.wrapping_add(i64::MIN));
    family.unary("sub.s16 %r, 5, %a;", &i16s(), |a: i16| 5i16.wrapping_sub(a));
    family.unary("mad.lo.s32 %r, %a, 3, 4;", &i32s(), |a: i32| a.wrapping_mul(3).wrapping_add(4));
    family.unary("mov.u32 %r, 12345; xor.b32 %r, %r, %a;", &u32s(), |a: u32| a ^ 12345);
    family.unary("add.f32 %r, %a, 0f3FC00000;", &[1.0f32, -1.5, 1e10], |a: f32| a + 1.5);
    family.unary("add.f64 %r, %a, 0d3FF8000000000000;", &[1.0f64, -1.5, 1e300], |a: f64| a + 1.5);
    family.unary("mul.f64 %r, %a, 2.5;", &[1.0f64, -1.5], |a: f64| a * 2.5);
    family.unary("add.u32 %r, %a, (3 + 4) * 2;", &u32s(), |a: u32| a.wrapping_add(14));
    family.unary("and.b32 %r, %a, ~15;", &u32s(), |a: u32| a & !15);
}

#[test]
fn products_give_low_high_or_both_halves() {
    let mut family = Family::new();
    family.binary("mul.lo.u16 %r, %a, %b;", &u16s(), &u16s(), u16::wrapping_mul);
    family.binary("mul.lo.s32 %r, %a, %b;", &i32s(), &i32s(), i32::wrapping_mul);
    family.binary("mul.lo.u64 %r, %a, %b;", &u64s(), &u64s(), u64::wrapping_mul);
    family.binary("mul.lo.s64 %r, %a, %b;", &i64s(), &i64s(), i64::wrapping_mul);
    family.binary("mul.hi.u16 %r, %a, %b;", &u16s(), &u16s(), |a, b| ((u32::from(a) * u32::from(b)) >> 16) as u16);
    family.binary("mul.hi.s16 %r, %a, %b;", &i16s(), &i16s(), |a, b| ((i32::from(a) * i32::from(b)) >> 16) as i16);
    family.binary("mul.hi.u32 %r, %a, %b;", &u32s(), &u32s(), |a, b| ((u64::from(a) * u64::from(b)) >> 32) as u32);
    family.binary("mul.hi.s32 %r, %a, %b;", &i32s(), &i32s(), |a, b| ((i64::from(a) * i64::from(b)) >> 32) as i32);
    family.binary("mul.hi.u64 %r, %a, %b;", &u64s(), &u64s(), |a, b| ((u128::from(a) * u128::from(b)) >> 64) as u64);
    family.binary("mul.hi.s64 %r, %a, %b;", &i64s(), &i64s(), |a, b| ((i128::from(a) * i128::from(b)) >> 64) as i64);
    family.binary("mul.wide.u16 %r, %a, %b;", &u16s(), &u16s(), |a, b| u32::from(a) * u32::from(b));
    family.binary("mul.wide.s16 %r, %a, %b;", &i16s(), &i16s(), |a, b| i32::from(a) * i32::from(b));
    family.binary("mul.wide.u32 %r, %a, %b;", &u32s(), &u32s(), |a, b| u64::from(a) * u64::from(b));
    family.binary("mul.wide.s32 %r, %a, %b;", &i32s(), &i32s(), |a, b| i64::from(a) * i64::from(b));
}

#[test]
fn products_with_sums() {
    let mut family = Family::new();
    family.ternary("mad.lo.s16 %r, %a, %b, %c;", &i16s(), &i16s(), &i16s(), |a: i16, b, c| {
        a.wrapping_mul(b).wrapping_add(c)
    });
    family.ternary("mad.lo.u32 %r, %a, %b, %c;", &u32s(), &u32s(), &u32s(), |a: u32, b, c| {
        a.wrapping_mul(b).wrapping_add(c)
    });
    family.ternary("mad.hi.s32 %r, %a, %b, %c;", &i32s(), &i32s(), &i32s(), |a, b, c: i32| {
        (((i64::from(a) * i64::from(b)) >> 32) as i32).wrapping_add(c)
    });
    family.ternary("mad.hi.u32 %r, %a, %b, %c;", &u32s(), &u32s(), &u32s(), |a, b, c: u32| {
        (((u64::from(a) * u64::from(b)) >> 32) as u32).wrapping_add(c)
    });
    family.ternary("mad.hi.sat.s32 %r, %a, %b, %c;", &i32s(), &i32s(), &i32s(), |a, b, c: i32| {
        (((i64::from(a) * i64::from(b)) >> 32) as i32).saturating_add(c)
    });
    family.ternary("mad.lo.s64 %r, %a, %b, %c;", &i64s(), &i64s(), &i64s(), |a: i64, b, c| {
        a.wrapping_mul(b).wrapping_add(c)
    });
    family.ternary("mad.hi.u64 %r, %a, %b, %c;", &u64s(), &u64s(), &u64s(), |a, b, c: u64| {
        (((u128::from(a) * u128::from(b)) >> 64) as u64).wrapping_add(c)
    });
    family.ternary("mad.wide.u16 %r, %a, %b, %c;", &u16s(), &u16s(), &u32s(), |a, b, c: u32| {
        (u32::from(a) * u32::from(b)).wrapping_add(c)
    });
    family.ternary("mad.wide.s32 %r, %a, %b, %c;", &i32s(), &i32s(), &i64s(), |a, b, c: i64| {
        (i64::from(a) * i64::from(b)).wrapping_add(c)
    });
    family.ternary("mad.wide.u32 %r, %a, %b, %c;", &u32s(), &u32s(), &u64s(), |a, b, c: u64| {
        (u64::from(a) * u64::from(b)).wrapping_add(c)
    });
}

/// The low 24 bits of `value`, sign-extended.
fn signed_24(value: i32) -> i64 {
    i64::from(value << 8 >> 8)
}

#[test]
fn products_of_24_bits() {
    let mut family = Family::new();
    let unsigned = |a: u32, b: u32| u64::from(a & 0xff_ffff) * u64::from(b & 0xff_ffff);
    family.binary("mul24.lo.u32 %r, %a, %b;", &u32s(), &u32s(), |a, b| unsigned(a, b) as u32);
    family.binary("mul24.hi.u32 %r, %a, %b;", &u32s(), &u32s(), |a, b| (unsigned(a, b) >> 16) as u32);
    family.binary("mul24.lo.s32 %r, %a, %b;", &i32s(), &i32s(), |a, b| (signed_24(a) * signed_24(b)) as i32);
    family.binary("mul24.hi.s32 %r, %a, %b;", &i32s(), &i32s(), |a, b| ((signed_24(a) * signed_24(b)) >> 16) as i32);
    family.ternary("mad24.lo.s32 %r, %a, %b, %c;", &i32s(), &i32s(), &i32s(), |a, b, c: i32| {
        ((signed_24(a) * signed_24(b)) as i32).wrapping_add(c)
    });
    family.ternary("mad24.lo.u32 %r, %a, %b, %c;", &u32s(), &u32s(), &u32s(), |a, b, c: u32| {
        (unsigned(a, b) as u32).wrapping_add(c)
    });
}

#[test]
fn division_truncates_and_by_zero_gives_all_ones() {
    let mut family = Family::new();
    family.binary("div.u32 %r, %a, %b;", &u32s(), &u32s(), |a, b| a.checked_div(b).unwrap_or(u32::MAX));
    family.binary("div.u64 %r, %a, %b;", &u64s(), &u64s(), |a, b| a.checked_div(b).unwrap_or(u64::MAX));
    let nonzero: Vec<i32> = i32s().into_iter().filter(|&b| b != 0).collect();
    family.binary("div.s32 %r, %a, %b;", &i32s(), &nonzero, i32::wrapping_div);
    let nonzero: Vec<i64> = i64s().into_iter().filter(|&b| b != 0).collect();
    family.binary("div.s64 %r, %a, %b;", &i64s(), &nonzero, i64::wrapping_div);
    let nonzero: Vec<u16> = u16s().into_iter().filter(|&b| b != 0).collect();
    family.binary("div.u16 %r, %a, %b;", &u16s(), &nonzero, |a, b| a / b);
    let nonzero: Vec<i16> = i16s().into_iter().filter(|&b| b != 0).collect();
    family.binary("div.s16 %r, %a, %b;", &i16s(), &nonzero, i16::wrapping_div);
}

#[test]
fn remainder_has_the_sign_of_the_dividend_and_by_zero_is_all_ones() {
    let mut family = Family::new();
    family.binary("rem.u32 %r, %a, %b;", &u32s(), &u32s(), |a, b| a.checked_rem(b).unwrap_or(u32::MAX));
    family.binary("rem.u64 %r, %a, %b;", &u64s(), &u64s(), |a, b| a.checked_rem(b).unwrap_or(u64::MAX));
    let nonzero: Vec<i32> = i32s().into_iter().filter(|&b| b != 0).collect();
    family.binary("rem.s32 %r, %a, %b;", &i32s(), &nonzero, i32::wrapping_rem);
    let nonzero: Vec<i64> = i64s().into_iter().filter(|&b| b != 0).collect();
    family.binary("rem.s64 %r, %a, %b;", &i64s(), &nonzero, i64::wrapping_rem);
    let nonzero: Vec<u16> = u16s().into_iter().filter(|&b| b != 0).collect();
    family.binary("rem.u16 %r, %a, %b;", &u16s(), &nonzero, |a, b| a % b);
}

#[test]
fn absolute_value_negation_minimum_maximum_and_distance() {
    let mut family = Family::new();
    family.unary("abs.s16 %r, %a;", &i16s(), i16::wrapping_abs);
    family.unary("abs.s32 %r, %a;", &i32s(), i32::wrapping_abs);
    family.unary("abs.s64 %r, %a;", &i64s(), i64::wrapping_abs);
    family.unary("neg.s16 %r, %a;", &i16s(), i16::wrapping_neg);
    family.unary("neg.s32 %r, %a;", &i32s(), i32::wrapping_neg);
    family.unary("neg.s64 %r, %a;", &i64s(), i64::wrapping_neg);
    family.binary("min.u16 %r, %a, %b;", &u16s(), &u16s(), u16::min);
    family.binary("max.s16 %r, %a, %b;", &i16s(), &i16s(), i16::max);
    family.binary("min.u32 %r, %a, %b;", &u32s(), &u32s(), u32::min);
    family.binary("max.u32 %r, %a, %b;", &u32s(), &u32s(), u32::max);
    family.binary("min.s32 %r, %a, %b;", &i32s(), &i32s(), i32::min);
    family.binary("max.s32 %r, %a, %b;", &i32s(), &i32s(), i32::max);
    family.binary("min.u64 %r, %a, %b;", &u64s(), &u64s(), u64::min);
    family.binary("max.u64 %r, %a, %b;", &u64s(), &u64s(), u64::max);
    family.binary("min.s64 %r, %a, %b;", &i64s(), &i64s(), i64::min);
    family.binary("max.s64 %r, %a, %b;", &i64s(), &i64s(), i64::max);
    family.binary("max.relu.s32 %r, %a, %b;", &i32s(), &i32s(), |a, b| a.max(b).max(0));
    family.binary("min.relu.s32 %r, %a, %b;", &i32s(), &i32s(), |a, b| a.min(b).max(0));
    family.ternary("sad.u32 %r, %a, %b, %c;", &u32s(), &u32s(), &u32s(), |a, b, c: u32| c.wrapping_add(a.abs_diff(b)));
    family.ternary("sad.s32 %r, %a, %b, %c;", &i32s(), &i32s(), &i32s(), |a, b, c: i32| {
        c.wrapping_add(a.abs_diff(b) as i32)
    });
    family.ternary("sad.u64 %r, %a, %b, %c;", &u64s(), &u64s(), &u64s(), |a, b, c: u64| c.wrapping_add(a.abs_diff(b)));
}

#[test]
fn carries_and_borrows_run_through_chains() {
    let mut family = Family::new();
    // 64-bit sums and differences from 32-bit halves.
    let halves = ".reg .u32 %al, %ah, %bl, %bh, %rl, %rh; mov.b64 {%al, %ah}, %a; mov.b64 {%bl, %bh}, %b;";
    let text = |lines: &str| format!("{{ {halves} {lines} mov.b64 %r, {{%rl, %rh}}; }}");
    family.binary(&text("add.cc.u32 %rl, %al, %bl; addc.u32 %rh, %ah, %bh;"), &u64s(), &u64s(), u64::wrapping_add);
    family.binary(&text("sub.cc.u32 %rl, %al, %bl; subc.u32 %rh, %ah, %bh;"), &u64s(), &u64s(), u64::wrapping_sub);
    // The low 64 bits of a product, row by row.
    family.binary(
        &text("mul.lo.u32 %rl, %al, %bl; mul.hi.u32 %rh, %al, %bl; mad.lo.u32 %rh, %al, %bh, %rh; mad.lo.u32 %rh, %ah, %bl, %rh;"),
        &u64s(),
        &u64s(),
        u64::wrapping_mul,
    );
    // The high 64 bits need the carries of every column.
    family.binary(
        "{ .reg .u32 %al, %ah, %bl, %bh, %r1, %r2, %r3;
        mov.b64 {%al, %ah}, %a; mov.b64 {%bl, %bh}, %b;
        mul.hi.u32 %r1, %al, %bl;
        mad.lo.cc.u32 %r1, %al, %bh, %r1;
        madc.hi.u32 %r2, %al, %bh, 0;
        mad.lo.cc.u32 %r1, %ah, %bl, %r1;
        madc.hi.cc.u32 %r2, %ah, %bl, %r2;
        madc.hi.u32 %r3, %ah, %bh, 0;
        mad.lo.cc.u32 %r2, %ah, %bh, %r2;
        addc.u32 %r3, %r3, 0;
        mov.b64 %r, {%r2, %r3}; }",
        &u64s(),
        &u64s(),
        |a, b| ((u128::from(a) * u128::from(b)) >> 64) as u64,
    );
    // 64-bit carries: the high half of a 128-bit sum, and of a difference.
    family.binary("{ .reg .u64 %low; add.cc.u64 %low, %a, %b; addc.u64 %r, %a, %b; }", &u64s(), &u64s(), |a, b| {
        ((u128::from(a) << 64 | u128::from(a)).wrapping_add(u128::from(b) << 64 | u128::from(b)) >> 64) as u64
    });
    family.binary(
        "{ .reg .s64 %low; sub.cc.s64 %low, %a, %b; subc.cc.s64 %r, %b, %a; subc.s64 %r, %r, 0; }",
        &u64s(),
        &u64s(),
        |a, b| {
            let borrow = u64::from(a < b);
            let (first, one) = b.overflowing_sub(a);
            let (second, two) = first.overflowing_sub(borrow);
            second.wrapping_sub(u64::from(one || two))
        },
    );
    // An instruction between the two leaves the carry alone.
    family.binary(
        "{ .reg .u32 %low; add.cc.u32 %low, %a, %b; add.u32 %low, %low, 77; sub.u32 %low, 0, 1; addc.u32 %r, 0, 0; }",
        &u32s(),
        &u32s(),
        |a: u32, b| u32::from(a.checked_add(b).is_none()),
    );
}
