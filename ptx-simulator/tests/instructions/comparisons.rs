//! setp, set, selp, slct.

use crate::support::family::Family;
use crate::support::values::{bf16s, f16s, f32s, f64s, i16s, i32s, i64s, u16s, u32s, u64s};

/// Every comparison of ordered numbers by its PTX name.
fn ordered<T: PartialOrd>(name: &str, a: T, b: T) -> bool {
    match name {
        "eq" => a == b,
        "ne" => a != b,
        "lt" | "lo" => a < b,
        "le" | "ls" => a <= b,
        "gt" | "hi" => a > b,
        "ge" | "hs" => a >= b,
        other => unreachable!("{other} is no comparison of this table"),
    }
}

/// Floating-point comparisons: plain ones are false when an operand is NaN, those with `u` true.
fn floating<T: PartialOrd>(name: &str, a: T, b: T) -> bool {
    let unordered = a.partial_cmp(&b).is_none();
    match name {
        "num" => !unordered,
        "nan" => unordered,
        "ne" => !unordered && a != b,
        "equ" | "neu" | "ltu" | "leu" | "gtu" | "geu" => unordered || ordered(&name[..2], a, b),
        _ => ordered(name, a, b),
    }
}

const SIGNED: [&str; 6] = ["eq", "ne", "lt", "le", "gt", "ge"];
const UNSIGNED: [&str; 10] = ["eq", "ne", "lt", "le", "gt", "ge", "lo", "ls", "hi", "hs"];
const FLOATING: [&str; 14] =
    ["eq", "ne", "lt", "le", "gt", "ge", "equ", "neu", "ltu", "leu", "gtu", "geu", "num", "nan"];

fn setp(name: &str, class: &str) -> String {
    format!("{{ .reg .pred %p; setp.{name}.{class} %p, %a, %b; selp.u32 %r, 1, 0, %p; }}")
}

#[test]
fn whole_numbers_compare_with_and_without_sign() {
    let mut family = Family::new();
    for name in SIGNED {
        family.binary(&setp(name, "s16"), &i16s(), &i16s(), |a, b| u32::from(ordered(name, a, b)));
        family.binary(&setp(name, "s32"), &i32s(), &i32s(), |a, b| u32::from(ordered(name, a, b)));
        family.binary(&setp(name, "s64"), &i64s(), &i64s(), |a, b| u32::from(ordered(name, a, b)));
    }
    for name in UNSIGNED {
        family.binary(&setp(name, "u16"), &u16s(), &u16s(), |a, b| u32::from(ordered(name, a, b)));
        family.binary(&setp(name, "u32"), &u32s(), &u32s(), |a, b| u32::from(ordered(name, a, b)));
        family.binary(&setp(name, "u64"), &u64s(), &u64s(), |a, b| u32::from(ordered(name, a, b)));
    }
    family.binary(&setp("eq", "b32"), &u32s(), &u32s(), |a, b| u32::from(a == b));
    family.binary(&setp("ne", "b64"), &u64s(), &u64s(), |a, b| u32::from(a != b));
    family.binary(&setp("eq", "b16"), &u16s(), &u16s(), |a, b| u32::from(a == b));
}

#[test]
fn floating_point_comparisons_know_nan() {
    let mut family = Family::new();
    for name in FLOATING {
        family.binary(&setp(name, "f32"), &f32s(), &f32s(), |a, b| u32::from(floating(name, a, b)));
        family.binary(&setp(name, "f64"), &f64s(), &f64s(), |a, b| u32::from(floating(name, a, b)));
        family.binary(&setp(name, "f16"), &f16s(), &f16s(), |a, b| u32::from(floating(name, a, b)));
        family.binary(&setp(name, "bf16"), &bf16s(), &bf16s(), |a, b| u32::from(floating(name, a, b)));
    }
    // With .ftz a subnormal number counts as zero.
    let flush = |x: f32| if x.is_subnormal() { 0.0 } else { x };
    family.binary(&setp("lt.ftz", "f32"), &f32s(), &f32s(), |a, b| u32::from(flush(a) < flush(b)));
}

#[test]
fn comparisons_combine_with_a_predicate_and_give_the_opposite_beside() {
    let mut family = Family::new();
    let text = |operation: &str, third: &str| {
        format!(
            "{{ .reg .pred %p, %q, %s; .reg .u32 %x, %y; setp.gt.s32 %s, %b, 100;
            setp.lt.{operation}.s32 %p|%q, %a, %b, {third};
            selp.u32 %x, 1, 0, %p; selp.u32 %y, 2, 0, %q; or.b32 %r, %x, %y; }}"
        )
    };
    type Combine = fn(bool, bool) -> bool;
    let operations: [(&str, Combine); 3] = [("and", |x, y| x & y), ("or", |x, y| x | y), ("xor", |x, y| x ^ y)];
    for (name, combine) in operations {
        for (third, negate) in [("%s", false), ("!%s", true)] {
            family.binary(&text(name, third), &i32s(), &i32s(), |a, b| {
                let third = (b > 100) ^ negate;
                u32::from(combine(a < b, third)) + 2 * u32::from(combine(a >= b, third))
            });
        }
    }
    family.binary(
        "{ .reg .pred %q; .reg .u32 %x; setp.eq.u32 _|%q, %a, %b; selp.u32 %r, 5, 6, %q; }",
        &u32s(),
        &u32s(),
        |a, b| if a == b { 6u32 } else { 5 },
    );
}

#[test]
fn set_gives_all_ones_or_one_point_zero() {
    let mut family = Family::new();
    family.binary("set.lt.u32.s32 %r, %a, %b;", &i32s(), &i32s(), |a, b| if a < b { u32::MAX } else { 0 });
    family.binary("set.ge.s32.f32 %r, %a, %b;", &f32s(), &f32s(), |a, b| if a >= b { -1i32 } else { 0 });
    family.binary("set.neu.u32.f64 %r, %a, %b;", &f64s(), &f64s(), |a, b| if a != b { u32::MAX } else { 0 });
    family.binary("set.gt.f32.u32 %r, %a, %b;", &u32s(), &u32s(), |a, b| if a > b { 1.0f32 } else { 0.0 });
    family.binary("set.le.f32.f32 %r, %a, %b;", &f32s(), &f32s(), |a, b| if a <= b { 1.0f32 } else { 0.0 });
    family.binary("set.eq.u32.u64 %r, %a, %b;", &u64s(), &u64s(), |a, b| if a == b { u32::MAX } else { 0 });
    family.binary(
        "{ .reg .pred %s; setp.gt.u32 %s, %b, 50; set.lt.and.u32.u32 %r, %a, %b, %s; }",
        &u32s(),
        &u32s(),
        |a, b| if a < b && b > 50 { u32::MAX } else { 0 },
    );
}

#[test]
fn selections_take_one_of_two() {
    let mut family = Family::new();
    let text = |class: &str| format!("{{ .reg .pred %p; setp.lt.s32 %p, %c, 9; selp.{class} %r, %a, %b, %p; }}");
    family.ternary(&text("b16"), &u16s(), &u16s(), &i32s(), |a, b, c| if c < 9 { a } else { b });
    family.ternary(&text("u32"), &u32s(), &u32s(), &i32s(), |a, b, c| if c < 9 { a } else { b });
    family.ternary(&text("b64"), &u64s(), &u64s(), &i32s(), |a, b, c| if c < 9 { a } else { b });
    family.ternary(&text("f32"), &f32s(), &f32s(), &i32s(), |a, b, c| if c < 9 { a } else { b });
    family.ternary(&text("f64"), &f64s(), &f64s(), &i32s(), |a, b, c| if c < 9 { a } else { b });
    family.ternary("slct.u32.s32 %r, %a, %b, %c;", &u32s(), &u32s(), &i32s(), |a, b, c| if c >= 0 { a } else { b });
    family.ternary("slct.u64.s32 %r, %a, %b, %c;", &u64s(), &u64s(), &i32s(), |a, b, c| if c >= 0 { a } else { b });
    family.ternary("slct.f32.f32 %r, %a, %b, %c;", &f32s(), &f32s(), &f32s(), |a, b, c| if c >= 0.0 { a } else { b });
}
