//! Several small numbers in one register.

use crate::support::family::Family;
use crate::support::values::{i32s, u32s};

fn signed_bytes(word: u32) -> [i32; 4] {
    word.to_le_bytes().map(|byte| i32::from(byte as i8))
}

fn unsigned_bytes(word: u32) -> [i32; 4] {
    word.to_le_bytes().map(i32::from)
}

#[test]
fn dot_products_of_four_bytes() {
    let mut family = Family::new();
    let dot = |a: [i32; 4], b: [i32; 4], c: i32| a.iter().zip(b).fold(c, |sum, (&x, y)| sum.wrapping_add(x * y));
    family.ternary("dp4a.s32.s32 %r, %a, %b, %c;", &u32s(), &u32s(), &i32s(), |a, b, c| {
        dot(signed_bytes(a), signed_bytes(b), c)
    });
    family.ternary("dp4a.u32.u32 %r, %a, %b, %c;", &u32s(), &u32s(), &i32s(), |a, b, c| {
        dot(unsigned_bytes(a), unsigned_bytes(b), c)
    });
    family.ternary("dp4a.u32.s32 %r, %a, %b, %c;", &u32s(), &u32s(), &i32s(), |a, b, c| {
        dot(unsigned_bytes(a), signed_bytes(b), c)
    });
    family.ternary("dp4a.s32.u32 %r, %a, %b, %c;", &u32s(), &u32s(), &i32s(), |a, b, c| {
        dot(signed_bytes(a), unsigned_bytes(b), c)
    });
}

#[test]
fn dot_products_of_two_halfwords_and_two_bytes() {
    let mut family = Family::new();
    let signed_words = |word: u32| [i32::from(word as i16), i32::from((word >> 16) as i16)];
    let unsigned_words = |word: u32| [i32::from(word as u16), i32::from((word >> 16) as u16)];
    let dot = |a: [i32; 2], b: [i32; 2], c: i32| {
        c.wrapping_add(a[0].wrapping_mul(b[0])).wrapping_add(a[1].wrapping_mul(b[1]))
    };
    family.ternary("dp2a.lo.s32.s32 %r, %a, %b, %c;", &u32s(), &u32s(), &i32s(), |a, b, c| {
        let b = signed_bytes(b);
        dot(signed_words(a), [b[0], b[1]], c)
    });
    family.ternary("dp2a.hi.u32.u32 %r, %a, %b, %c;", &u32s(), &u32s(), &i32s(), |a, b, c| {
        let b = unsigned_bytes(b);
        dot(unsigned_words(a), [b[2], b[3]], c)
    });
    family.ternary("dp2a.hi.s32.u32 %r, %a, %b, %c;", &u32s(), &u32s(), &i32s(), |a, b, c| {
        let b = unsigned_bytes(b);
        dot(signed_words(a), [b[2], b[3]], c)
    });
}

#[test]
fn pairs_of_halfwords_add_and_compare_apart() {
    let mut family = Family::new();
    let each = |a: u32, b: u32, f: fn(u16, u16) -> u16| {
        u32::from(f((a >> 16) as u16, (b >> 16) as u16)) << 16 | u32::from(f(a as u16, b as u16))
    };
    family.binary("add.u16x2 %r, %a, %b;", &u32s(), &u32s(), |a, b| each(a, b, u16::wrapping_add));
    family.binary("add.s16x2 %r, %a, %b;", &u32s(), &u32s(), |a, b| each(a, b, u16::wrapping_add));
    family.binary("min.u16x2 %r, %a, %b;", &u32s(), &u32s(), |a, b| each(a, b, u16::min));
    family.binary("max.u16x2 %r, %a, %b;", &u32s(), &u32s(), |a, b| each(a, b, u16::max));
    family.binary("min.s16x2 %r, %a, %b;", &u32s(), &u32s(), |a, b| each(a, b, |x, y| (x as i16).min(y as i16) as u16));
    family.binary("max.s16x2 %r, %a, %b;", &u32s(), &u32s(), |a, b| each(a, b, |x, y| (x as i16).max(y as i16) as u16));
    family.binary("max.relu.s16x2 %r, %a, %b;", &u32s(), &u32s(), |a, b| {
        each(a, b, |x, y| (x as i16).max(y as i16).max(0) as u16)
    });
}
