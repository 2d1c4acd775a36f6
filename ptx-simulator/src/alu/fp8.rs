//! Conversions to and from the two 8-bit float formats, which exist only in pairs.
//!
//! `e5m2` is a binary16 number cut short. `e4m3` has no infinities: its top exponent holds ordinary numbers up to 448
//! and one NaN.

use super::exact::{self, Format, Number, Rounding};
use super::lanes::{E4M3x2, E5M2x2, F16x2, Level, lanes};
use super::modifiers::{Modifiers, wrong_type};
use super::{Choice, Selected, Type};

/// Negative numbers become zero.
const RELU: u32 = 1;

/// `e4m3` with one more bit of exponent: after a shift by the difference of the biases, the patterns are the same.
const WIDER_E4M3: Format = Format { precision: 4, exponent_bits: 5, nan: 0x7f };
const BIAS_DIFFERENCE: i32 = 8;
const E5M2: Format = Format { precision: 3, exponent_bits: 5, nan: 0x7f };

/// The largest finite magnitudes.
const LARGEST_E4M3: u64 = 0x7e;
const LARGEST_E5M2: u64 = 0x7b;
/// The NaN of both formats.
const NAN: u64 = 0x7f;

/// The nearest 8-bit number, out of range the largest.
#[inline(never)]
fn shorten(number: Number, e4m3: bool, relu: bool) -> u32 {
    if number == Number::Nan {
        return NAN as u32;
    }
    let (format, shift, largest) =
        if e4m3 { (WIDER_E4M3, -BIAS_DIFFERENCE, LARGEST_E4M3) } else { (E5M2, 0, LARGEST_E5M2) };
    let bits = number.scale(shift).into_bits(format, Rounding::NearestEven);
    let negative = bits & format.sign_bit() != 0;
    let magnitude = (bits & (format.sign_bit() - 1)).min(largest) as u32;
    match (negative, relu) {
        (true, true) => 0,
        (true, false) => magnitude | 0x80,
        (false, _) => magnitude,
    }
}

/// The same number as binary16.
#[inline(never)]
fn lengthen(bits: u32, e4m3: bool, relu: bool) -> u32 {
    let (sign, magnitude) = (bits as u64 & 0x80, bits as u64 & 0x7f);
    let number = if !e4m3 {
        Number::from_bits(magnitude, E5M2)
    } else if magnitude == NAN {
        Number::Nan
    } else {
        Number::from_bits(magnitude, WIDER_E4M3).scale(BIAS_DIFFERENCE)
    };
    let half = number.into_bits(exact::F16, Rounding::NearestEven) as u32;
    match (number == Number::Nan || sign == 0, relu) {
        (true, _) => half,
        (false, true) => 0,
        (false, false) => half | 0x8000,
    }
}

fn from_f32(a: f32) -> Number {
    Number::from_bits(a.to_bits() as u64, exact::F32)
}

/// The two binary16 numbers of a register, the lower one first.
fn from_halves(pair: F16x2) -> [Number; 2] {
    [pair.0 & 0xffff, pair.0 >> 16].map(|bits| Number::from_bits(bits as u64, exact::F16))
}

pub(super) fn select(to: Type, from: Type, modifiers: &mut Modifiers) -> Choice {
    if !modifiers.take("rn") {
        return Err("it needs the rounding mode `.rn`".to_owned());
    }
    let shortens = matches!(to, Type::E4M3x2 | Type::E5M2x2);
    if shortens && !modifiers.take("satfinite") {
        return Err("it needs `.satfinite`".to_owned());
    }
    let extra = if modifiers.take("relu") { RELU } else { 0 };
    macro_rules! shortening {
        ($pair:ident, $e4m3:literal) => {
            match from {
                Type::F32 => lanes!(Level::Portable, |a: f32, b: f32; extra| -> $pair {
                    let relu = extra & RELU != 0;
                    $pair((shorten(from_f32(a), $e4m3, relu) << 8 | shorten(from_f32(b), $e4m3, relu)) as u16)
                }),
                Type::F16x2 => lanes!(Level::Portable, |a: F16x2; extra| -> $pair {
                    let [low, high] = from_halves(a).map(|number| shorten(number, $e4m3, extra & RELU != 0));
                    $pair((high << 8 | low) as u16)
                }),
                _ => return Err(wrong_type(from)),
            }
        };
    }
    macro_rules! lengthening {
        ($pair:ident, $e4m3:literal) => {
            lanes!(Level::Portable, |a: $pair; extra| -> F16x2 {
                let [low, high] =
                    [a.0 & 0xff, a.0 >> 8].map(|bits| lengthen(bits as u32, $e4m3, extra & RELU != 0));
                F16x2(high << 16 | low)
            })
        };
    }
    let selected = match (to, from) {
        (Type::E4M3x2, _) => shortening!(E4M3x2, true),
        (Type::E5M2x2, _) => shortening!(E5M2x2, false),
        (Type::F16x2, Type::E4M3x2) => lengthening!(E4M3x2, true),
        (Type::F16x2, Type::E5M2x2) => lengthening!(E5M2x2, false),
        _ => return Err(wrong_type(to)),
    };
    Ok(Selected { extra, ..selected })
}
