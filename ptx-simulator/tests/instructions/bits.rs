//! Logic, shifts, bit fields, counting, permuting.

use crate::support::family::Family;
use crate::support::values::{i16s, i32s, i64s, u16s, u32s, u64s};

#[test]
fn logic_works_bit_by_bit() {
    let mut family = Family::new();
    family.binary("and.b16 %r, %a, %b;", &u16s(), &u16s(), |a: u16, b| a & b);
    family.binary("or.b32 %r, %a, %b;", &u32s(), &u32s(), |a: u32, b| a | b);
    family.binary("xor.b64 %r, %a, %b;", &u64s(), &u64s(), |a: u64, b| a ^ b);
    family.binary("and.b64 %r, %a, %b;", &u64s(), &u64s(), |a: u64, b| a & b);
    family.unary("not.b16 %r, %a;", &u16s(), |a: u16| !a);
    family.unary("not.b32 %r, %a;", &u32s(), |a: u32| !a);
    family.unary("not.b64 %r, %a;", &u64s(), |a: u64| !a);
    family.unary("cnot.b32 %r, %a;", &u32s(), |a| u32::from(a == 0));
    family.unary("cnot.b64 %r, %a;", &u64s(), |a| u64::from(a == 0));
    family.unary("cnot.b16 %r, %a;", &u16s(), |a| u16::from(a == 0));
}

#[test]
fn predicates_have_logic_too() {
    let mut family = Family::new();
    let text = |line: &str| {
        format!(
            "{{ .reg .pred %p, %q, %s; setp.gt.s32 %p, %a, 7; setp.lt.s32 %q, %b, 100; {line} selp.s32 %r, 1, 0, %s; }}"
        )
    };
    let (p, q) = (|a: i32| a > 7, |b: i32| b < 100);
    family.binary(&text("and.pred %s, %p, %q;"), &i32s(), &i32s(), |a, b| i32::from(p(a) & q(b)));
    family.binary(&text("or.pred %s, %p, %q;"), &i32s(), &i32s(), |a, b| i32::from(p(a) | q(b)));
    family.binary(&text("xor.pred %s, %p, %q;"), &i32s(), &i32s(), |a, b| i32::from(p(a) ^ q(b)));
    family.binary(&text("not.pred %s, %p;"), &i32s(), &i32s(), |a, _| i32::from(!p(a)));
    family.binary(&text("mov.pred %s, %q;"), &i32s(), &i32s(), |_, b| i32::from(q(b)));
    family.binary(&text("and.pred %s, %p, !%q;"), &i32s(), &i32s(), |a, b| i32::from(p(a) & !q(b)));
    family.binary(&text("mov.pred %s, %p; @!%q mov.pred %s, %q;"), &i32s(), &i32s(), |a, b| i32::from(p(a) && q(b)));
}

#[test]
fn lop3_follows_every_look_up_table() {
    let mut family = Family::new();
    for table in [0x00u32, 0xff, 0xc0, 0x96, 0xe8, 0xca, 0x1a, 0x55, 0xf0, 0x80, 0x7f, 0x2d] {
        family.ternary(
            &format!("lop3.b32 %r, %a, %b, %c, {table:#x};"),
            &u32s(),
            &u32s(),
            &u32s(),
            |a: u32, b: u32, c: u32| {
                (0..32).fold(0, |result, bit| {
                    let index = (a >> bit & 1) << 2 | (b >> bit & 1) << 1 | (c >> bit & 1);
                    result | (table >> index & 1) << bit
                })
            },
        );
    }
}

#[test]
fn shifts_clamp_their_amount() {
    let mut family = Family::new();
    let amounts = [0u32, 1, 7, 15, 16, 17, 31, 32, 33, 63, 64, 65, 255, 256, 0x8000_0000, u32::MAX];
    let left = |value: u64, bits: u32, amount: u32| if amount >= bits { 0 } else { value << amount };
    family.binary("shl.b16 %r, %a, %b;", &u16s(), &amounts, |a, n| left(a.into(), 16, n) as u16);
    family.binary("shl.b32 %r, %a, %b;", &u32s(), &amounts, |a, n| left(a.into(), 32, n) as u32);
    family.binary("shl.b64 %r, %a, %b;", &u64s(), &amounts, |a, n| left(a, 64, n));
    let right = |value: u64, bits: u32, amount: u32| if amount >= bits { 0 } else { value >> amount };
    family.binary("shr.u16 %r, %a, %b;", &u16s(), &amounts, |a, n| right(a.into(), 16, n) as u16);
    family.binary("shr.u32 %r, %a, %b;", &u32s(), &amounts, |a, n| right(a.into(), 32, n) as u32);
    family.binary("shr.b32 %r, %a, %b;", &u32s(), &amounts, |a, n| right(a.into(), 32, n) as u32);
    family.binary("shr.u64 %r, %a, %b;", &u64s(), &amounts, |a, n| right(a, 64, n));
    family.binary("shr.s16 %r, %a, %b;", &i16s(), &amounts, |a: i16, n| a >> n.min(15));
    family.binary("shr.s32 %r, %a, %b;", &i32s(), &amounts, |a: i32, n| a >> n.min(31));
    family.binary("shr.s64 %r, %a, %b;", &i64s(), &amounts, |a: i64, n| a >> n.min(63));
    family.unary("shl.b64 %r, %a, 3;", &u64s(), |a: u64| a << 3);
    family.unary("shr.s32 %r, %a, 40;", &i32s(), |a: i32| a >> 31);
}

#[test]
fn funnel_shifts_wrap_or_clamp() {
    let mut family = Family::new();
    let amounts = [0u32, 1, 5, 16, 31, 32, 33, 63, 64, 0xffff_ffff];
    let join = |low: u32, high: u32| u64::from(high) << 32 | u64::from(low);
    family.ternary("shf.l.wrap.b32 %r, %a, %b, %c;", &u32s(), &u32s(), &amounts, |a, b, n: u32| {
        (join(a, b) << (n & 31) >> 32) as u32
    });
    family.ternary("shf.r.wrap.b32 %r, %a, %b, %c;", &u32s(), &u32s(), &amounts, |a, b, n: u32| {
        (join(a, b) >> (n & 31)) as u32
    });
    family.ternary("shf.l.clamp.b32 %r, %a, %b, %c;", &u32s(), &u32s(), &amounts, |a, b, n: u32| {
        (join(a, b) << n.min(32) >> 32) as u32
    });
    family.ternary("shf.r.clamp.b32 %r, %a, %b, %c;", &u32s(), &u32s(), &amounts, |a, b, n: u32| {
        (join(a, b) >> n.min(32)) as u32
    });
}

#[test]
fn bits_are_counted_found_and_reversed() {
    let mut family = Family::new();
    family.unary("popc.b32 %r, %a;", &u32s(), u32::count_ones);
    family.unary("popc.b64 %r, %a;", &u64s(), u64::count_ones);
    family.unary("clz.b32 %r, %a;", &u32s(), u32::leading_zeros);
    family.unary("clz.b64 %r, %a;", &u64s(), u64::leading_zeros);
    family.unary("brev.b32 %r, %a;", &u32s(), u32::reverse_bits);
    family.unary("brev.b64 %r, %a;", &u64s(), u64::reverse_bits);
    family.unary("bfind.u32 %r, %a;", &u32s(), |a| a.checked_ilog2().unwrap_or(u32::MAX));
    family.unary("bfind.u64 %r, %a;", &u64s(), |a| a.checked_ilog2().unwrap_or(u32::MAX));
    // Signed: the highest bit that differs from the sign.
    let signed = |a: i64| (if a < 0 { !a } else { a } as u64).checked_ilog2().unwrap_or(u32::MAX);
    family.unary("bfind.s32 %r, %a;", &i32s(), |a| signed(a.into()));
    family.unary("bfind.s64 %r, %a;", &i64s(), signed);
    family.unary("bfind.shiftamt.u32 %r, %a;", &u32s(), |a: u32| if a == 0 { u32::MAX } else { a.leading_zeros() });
    family.unary("bfind.shiftamt.u64 %r, %a;", &u64s(), |a: u64| if a == 0 { u32::MAX } else { a.leading_zeros() });
}

/// bfe as the PTX manual defines it, bit by bit.
fn extract(value: u64, bits: u32, signed: bool, position: u32, length: u32) -> u64 {
    let (position, length) = (position & 255, length & 255);
    let top = bits - 1;
    let sign_at = (position + length).saturating_sub(1).min(top);
    let sign = signed && length > 0 && value >> sign_at & 1 == 1;
    (0..bits).fold(0, |result, bit| {
        let set = if bit < length && position + bit <= top { value >> (position + bit) & 1 == 1 } else { sign };
        result | u64::from(set) << bit
    })
}

#[test]
fn bit_fields_are_extracted_and_inserted() {
    let mut family = Family::new();
    let places = [0u32, 1, 5, 8, 16, 31, 32, 33, 60, 63, 64, 200, 255];
    family.ternary("bfe.u32 %r, %a, %b, %c;", &u32s(), &places, &places, |a, p, n| {
        extract(a.into(), 32, false, p, n) as u32
    });
    family.ternary("bfe.s32 %r, %a, %b, %c;", &u32s(), &places, &places, |a, p, n| {
        extract(a.into(), 32, true, p, n) as u32
    });
    family.ternary("bfe.u64 %r, %a, %b, %c;", &u64s(), &places, &places, |a, p, n| extract(a, 64, false, p, n));
    family.ternary("bfe.s64 %r, %a, %b, %c;", &u64s(), &places, &places, |a, p, n| extract(a, 64, true, p, n));
    let insert = |field: u64, base: u64, bits: u32, position: u32, length: u32| {
        (0..length & 255).fold(base, |result, bit| {
            let place = (position & 255) + bit;
            if place >= bits { result } else { result & !(1 << place) | (field >> bit & 1) << place }
        })
    };
    for (position, length) in [(0, 8), (4, 12), (16, 16), (31, 1), (28, 9), (0, 32), (5, 0), (40, 4)] {
        family.binary(&format!("bfi.b32 %r, %a, %b, {position}, {length};"), &u32s(), &u32s(), |a, b| {
            insert(a.into(), b.into(), 32, position, length) as u32
        });
        family.binary(&format!("bfi.b64 %r, %a, %b, {position}, {length};"), &u64s(), &u64s(), |a, b| {
            insert(a, b, 64, position, length)
        });
    }
    family.ternary("bfi.b32 %r, %a, 0x5a5a5a5a, %b, %c;", &u32s(), &places, &places, |a, p, n| {
        insert(a.into(), 0x5a5a_5a5a, 32, p, n) as u32
    });
}

#[test]
fn masks_and_sign_extensions_of_any_width() {
    let mut family = Family::new();
    let amounts = [0u32, 1, 7, 16, 31, 32, 33, 64, 255];
    let mask = |position: u32, length: u32| ((((1u64 << length.min(32)) - 1) << position.min(32)) & 0xffff_ffff) as u32;
    family.binary("bmsk.clamp.b32 %r, %a, %b;", &amounts, &amounts, mask);
    family.binary("bmsk.wrap.b32 %r, %a, %b;", &amounts, &amounts, |p, n| mask(p & 31, n & 31));
    family.binary(
        "szext.clamp.u32 %r, %a, %b;",
        &u32s(),
        &amounts,
        |a: u32, n| {
            if n >= 32 { a } else { a & ((1 << n) - 1) }
        },
    );
    family.binary("szext.clamp.s32 %r, %a, %b;", &i32s(), &amounts, |a: i32, n| match n {
        0 => 0,
        1..32 => a << (32 - n) >> (32 - n),
        _ => a,
    });
    family.binary("szext.wrap.s32 %r, %a, %b;", &i32s(), &amounts, |a: i32, n| match n & 31 {
        0 => 0,
        n => a << (32 - n) >> (32 - n),
    });
}

#[test]
fn prmt_picks_bytes_in_every_mode() {
    let mut family = Family::new();
    let bytes = |a: u32, b: u32| (u64::from(b) << 32 | u64::from(a)).to_le_bytes();
    family.ternary("prmt.b32 %r, %a, %b, %c;", &u32s(), &u32s(), &u32s(), |a, b, selector: u32| {
        let bytes = bytes(a, b);
        u32::from_le_bytes(std::array::from_fn(|i| {
            let nibble = selector >> (4 * i) & 15;
            let byte = bytes[(nibble & 7) as usize];
            if nibble & 8 == 0 { byte } else { (byte as i8 >> 7) as u8 }
        }))
    });
    let by_table = |table: [[usize; 4]; 4]| {
        move |a, b, selector: u32| {
            let bytes = bytes(a, b);
            u32::from_le_bytes(table[(selector & 3) as usize].map(|i| bytes[i]))
        }
    };
    let selectors = [0u32, 1, 2, 3, 4, 0xffff_fffe];
    let modes: [(&str, [[usize; 4]; 4]); 6] = [
        ("f4e", [[0, 1, 2, 3], [1, 2, 3, 4], [2, 3, 4, 5], [3, 4, 5, 6]]),
        ("b4e", [[0, 7, 6, 5], [1, 0, 7, 6], [2, 1, 0, 7], [3, 2, 1, 0]]),
        ("rc8", [[0, 0, 0, 0], [1, 1, 1, 1], [2, 2, 2, 2], [3, 3, 3, 3]]),
        ("ecl", [[0, 1, 2, 3], [1, 1, 2, 3], [2, 2, 2, 3], [3, 3, 3, 3]]),
        ("ecr", [[0, 0, 0, 0], [0, 1, 1, 1], [0, 1, 2, 2], [0, 1, 2, 3]]),
        ("rc16", [[0, 1, 0, 1], [2, 3, 2, 3], [0, 1, 0, 1], [2, 3, 2, 3]]),
    ];
    for (mode, table) in modes {
        family.ternary(&format!("prmt.b32.{mode} %r, %a, %b, %c;"), &u32s(), &u32s(), &selectors, by_table(table));
    }
}

#[test]
fn moves_pack_and_unpack_registers() {
    let mut family = Family::new();
    family.binary("mov.b64 %r, {%a, %b};", &u32s(), &u32s(), |a, b| u64::from(b) << 32 | u64::from(a));
    family.binary("mov.b32 %r, {%a, %b};", &u16s(), &u16s(), |a, b| u32::from(b) << 16 | u32::from(a));
    family.unary("{ .reg .b32 %lo, %hi; mov.b64 {%lo, %hi}, %a; sub.u32 %r, %hi, %lo; }", &u64s(), |a: u64| {
        ((a >> 32) as u32).wrapping_sub(a as u32)
    });
    family.unary("{ .reg .b32 %hi; mov.b64 {_, %hi}, %a; mov.b32 %r, %hi; }", &u64s(), |a: u64| (a >> 32) as u32);
    family.unary(
        "{ .reg .b16 %h<4>; mov.b64 {%h0, %h1, %h2, %h3}, %a; mov.b64 %r, {%h3, %h2, %h1, %h0}; }",
        &u64s(),
        |a: u64| {
            let [b0, b1, b2, b3, b4, b5, b6, b7] = a.to_le_bytes();
            u64::from_le_bytes([b6, b7, b4, b5, b2, b3, b0, b1])
        },
    );
    family.unary("mov.b32 %r, %a;", &[1.5f32, -0.0, f32::INFINITY], f32::to_bits);
    family.unary("mov.b64 %r, %a;", &u64s(), f64::from_bits);
}
