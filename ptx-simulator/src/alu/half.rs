//! Arithmetic of the 16-bit formats, alone and in pairs.
//!
//! Sums, products and roots are computed in `f32` and rounded once more, which gives the same result as one rounding
//! because `f32` has more than twice the bits and two. A fused multiply-add isn't safe that way: its first rounding is
//! to odd, which keeps the information that the second one needs.

use super::float::{self, FTZ, SAT};
use super::lanes::{BF16, BF16x2, F16, F16x2, Level, lanes};
use super::modifiers::{Modifiers, wrong_type};
use super::{Choice, Selected, Type};

const RELU: u32 = 1 << 5;
const PROPAGATE_NAN: u32 = 1 << 6;
const XOR_SIGN: u32 = 1 << 7;

/// The NaN that instructions on both formats give.
const NAN: u16 = 0x7fff;

/// What the two formats have in common.
pub(super) trait HalfFormat: Copy {
    /// The bits of positive infinity.
    const INFINITY: u16;
    /// The number one.
    const ONE: u16;
    fn new(bits: u16) -> Self;
    fn bits(self) -> u16;
    /// The same number; exact.
    fn to_f32(self) -> f32;
    /// The nearest number, halfway to even.
    fn from_f32(a: f32) -> Self;
    /// The bound below which a result, rounded with an unlimited exponent, is subnormal.
    const FLUSH_BELOW: f32;
    /// `a * b + c` rounded to odd, so that [`HalfFormat::from_f32`] gives the result as if rounded once.
    fn multiply_add(a: Self, b: Self, c: Self) -> f32;

    #[inline(always)]
    fn is_nan(self) -> bool {
        self.bits() & 0x7fff > Self::INFINITY
    }

    /// A subnormal number becomes a zero of its sign.
    #[inline(always)]
    fn flush(self) -> Self {
        if self.bits() & Self::INFINITY == 0 { Self::new(self.bits() & 0x8000) } else { self }
    }
}

/// The sum `high + low` of a rounded result and its exact error, rounded to odd instead: where something was cut off,
/// the last bit is set, and the value lies between the same neighbours as the true sum.
#[inline(always)]
fn odd32(high: f32, low: f32) -> f32 {
    let bits = high.to_bits();
    let adjust = (low != 0.0) & high.is_finite() & (bits & 1 == 0);
    let toward_zero = (low < 0.0) != (high < 0.0);
    let adjusted = if toward_zero { bits.wrapping_sub(1) } else { bits.wrapping_add(1) };
    f32::from_bits(if adjust { adjusted } else { bits })
}

#[inline(always)]
fn odd64(high: f64, low: f64) -> f64 {
    let bits = high.to_bits();
    let adjust = (low != 0.0) & high.is_finite() & (bits & 1 == 0);
    let toward_zero = (low < 0.0) != (high < 0.0);
    let adjusted = if toward_zero { bits.wrapping_sub(1) } else { bits.wrapping_add(1) };
    f64::from_bits(if adjust { adjusted } else { bits })
}

/// An f64 as f32, rounded to odd.
#[inline(always)]
pub(super) fn narrow_to_odd(a: f64) -> f32 {
    let nearest = a as f32;
    let back = nearest as f64;
    // Beyond the largest f32, infinity rounds on as the largest odd number would: to infinity, in both formats.
    let bits = nearest.to_bits();
    let adjust = (back != a) & nearest.is_finite() & (bits & 1 == 0);
    // |nearest| too large means one step toward zero.
    let toward_zero = back.abs() > a.abs();
    let adjusted = if toward_zero { bits.wrapping_sub(1) } else { bits.wrapping_add(1) };
    f32::from_bits(if adjust { adjusted } else { bits })
}

impl HalfFormat for F16 {
    const INFINITY: u16 = 0x7c00;
    const ONE: u16 = 0x3c00;
    // 2^-14 less half of the last place below it.
    const FLUSH_BELOW: f32 = f32::from_bits(0x387f_f000);

    #[inline(always)]
    fn new(bits: u16) -> F16 {
        F16(bits)
    }

    #[inline(always)]
    fn bits(self) -> u16 {
        self.0
    }

    #[inline(always)]
    fn to_f32(self) -> f32 {
        let sign = (self.0 as u32 & 0x8000) << 16;
        let magnitude = self.0 as u32 & 0x7fff;
        // The exponent moves from bias 15 to 127; infinity and NaN to the top.
        let normal = (magnitude << 13) + ((127 - 15) << 23);
        let special = (magnitude << 13) | 0x7f80_0000;
        let subnormal = (magnitude as i32 as f32 * f32::from_bits((127 - 24) << 23)).to_bits();
        let bits = if magnitude >= 0x7c00 { special } else { normal };
        let bits = if magnitude < 0x0400 { subnormal } else { bits };
        f32::from_bits(sign | bits)
    }

    #[inline(always)]
    fn from_f32(a: f32) -> F16 {
        let bits = a.to_bits();
        let sign = (bits >> 16) as u16 & 0x8000;
        let magnitude = bits & 0x7fff_ffff;
        let odd = (magnitude >> 13) & 1;
        let normal = (magnitude.wrapping_sub((127 - 15) << 23).wrapping_add(0xfff + odd) >> 13) as u16;
        // Beside 0.5, the last place of an f32 is that of a subnormal half: the sum does the rounding.
        let subnormal = (f32::from_bits(magnitude) + 0.5).to_bits().wrapping_sub(0.5_f32.to_bits()) as u16;
        let rounded = if magnitude < 0x3880_0000 { subnormal } else { normal };
        let rounded = if magnitude >= 0x477f_f000 { 0x7c00 } else { rounded };
        F16(if magnitude > 0x7f80_0000 { NAN } else { sign | rounded })
    }

    #[inline(always)]
    fn multiply_add(a: F16, b: F16, c: F16) -> f32 {
        // 22 bits: exact in f32, as is the error of the sum.
        let product = a.to_f32() * b.to_f32();
        let c = c.to_f32();
        let sum = product + c;
        let other = sum - product;
        let error = (product - (sum - other)) + (c - other);
        odd32(sum, error)
    }
}

/// The number that the bits of an `f16` stand for; exact.
#[inline(always)]
pub fn f16_to_f32(bits: u16) -> f32 {
    F16(bits).to_f32()
}

impl HalfFormat for BF16 {
    const INFINITY: u16 = 0x7f80;
    const ONE: u16 = 0x3f80;
    // 2^-126 less half of the last place below it.
    const FLUSH_BELOW: f32 = f32::from_bits(0x007f_c000);

    #[inline(always)]
    fn new(bits: u16) -> BF16 {
        BF16(bits)
    }

    #[inline(always)]
    fn bits(self) -> u16 {
        self.0
    }

    #[inline(always)]
    fn to_f32(self) -> f32 {
        f32::from_bits((self.0 as u32) << 16)
    }

    #[inline(always)]
    fn from_f32(a: f32) -> BF16 {
        let bits = a.to_bits();
        let odd = (bits >> 16) & 1;
        let rounded = (bits.wrapping_add(0x7fff + odd) >> 16) as u16;
        BF16(if bits & 0x7fff_ffff > 0x7f80_0000 { NAN } else { rounded })
    }

    #[inline(always)]
    fn multiply_add(a: BF16, b: BF16, c: BF16) -> f32 {
        // The product's exponent may leave f32, so in f64, where it and the error of the sum are exact.
        let product = a.to_f32() as f64 * b.to_f32() as f64;
        let c = c.to_f32() as f64;
        let sum = product + c;
        let other = sum - product;
        let error = (product - (sum - other)) + (c - other);
        narrow_to_odd(odd64(sum, error))
    }
}

/// A result with the flags applied.
#[inline(always)]
fn finish<H: HalfFormat>(a: H, extra: u32) -> H {
    let a = if extra & FTZ != 0 { a.flush() } else { a };
    let bits = a.bits();
    let negative = bits & 0x8000 != 0;
    let bits = if extra & SAT != 0 {
        // NaN and negative numbers give zero.
        if a.is_nan() || negative { 0 } else { bits.min(H::ONE) }
    } else {
        bits
    };
    let bits = if extra & RELU != 0 && negative && !a.is_nan() { 0 } else { bits };
    H::new(if extra & SAT == 0 && a.is_nan() { NAN } else { bits })
}

#[inline(always)]
fn flush_if<H: HalfFormat>(extra: u32, a: H) -> H {
    if extra & FTZ != 0 { a.flush() } else { a }
}

/// Rounds a result once more, or flushes it.
#[inline(always)]
fn narrow<H: HalfFormat>(extra: u32, a: f32) -> H {
    let flushed = extra & FTZ != 0 && a.abs() < H::FLUSH_BELOW;
    finish(if flushed { H::new((a.to_bits() >> 16) as u16 & 0x8000) } else { H::from_f32(a) }, extra)
}

#[inline(always)]
fn unary<H: HalfFormat>(extra: u32, a: H, function: impl Fn(f32) -> f32) -> H {
    narrow(extra, function(flush_if(extra, a).to_f32()))
}

#[inline(always)]
fn binary<H: HalfFormat>(extra: u32, a: H, b: H, function: impl Fn(f32, f32) -> f32) -> H {
    narrow(extra, function(flush_if(extra, a).to_f32(), flush_if(extra, b).to_f32()))
}

#[inline(always)]
fn fused<H: HalfFormat>(extra: u32, a: H, b: H, c: H) -> H {
    narrow(extra, H::multiply_add(flush_if(extra, a), flush_if(extra, b), flush_if(extra, c)))
}

#[inline(always)]
fn pick<H: HalfFormat>(minimum: bool, extra: u32, a: H, b: H) -> H {
    let (a, b) = (flush_if(extra, a), flush_if(extra, b));
    let xor_sign = extra & XOR_SIGN != 0;
    let magnitude = |a: H| if xor_sign { H::new(a.bits() & 0x7fff) } else { a };
    // Exact in both directions, so that rounding changes nothing.
    let picked = H::from_f32(float::pick32(minimum, magnitude(a).to_f32(), magnitude(b).to_f32()));
    let nan = picked.is_nan() || extra & PROPAGATE_NAN != 0 && (a.is_nan() || b.is_nan());
    let sign = if xor_sign { (a.bits() ^ b.bits()) & 0x8000 } else { 0 };
    H::new(if nan { NAN } else { picked.bits() | sign })
}

/// The function for one number and for a pair of numbers, from one expression.
macro_rules! for_halves {
    ($level:expr, $found:expr, |$($name:ident),+; $extra:ident| $body:expr) => {
        match $found {
            Type::F16 => Ok(lanes!($level, |$($name: F16),+; $extra| -> F16 { $body })),
            Type::BF16 => Ok(lanes!($level, |$($name: BF16),+; $extra| -> BF16 { $body })),
            Type::F16x2 => Ok(lanes!($level, |$($name: F16x2),+; $extra| -> F16x2 {
                let low = { $(let $name = F16($name.0 as u16);)+ $body };
                let high = { $(let $name = F16(($name.0 >> 16) as u16);)+ $body };
                F16x2(low.0 as u32 | (high.0 as u32) << 16)
            })),
            Type::BF16x2 => Ok(lanes!($level, |$($name: BF16x2),+; $extra| -> BF16x2 {
                let low = { $(let $name = BF16($name.0 as u16);)+ $body };
                let high = { $(let $name = BF16(($name.0 >> 16) as u16);)+ $body };
                BF16x2(low.0 as u32 | (high.0 as u32) << 16)
            })),
            other => Err(wrong_type(other)),
        }
    };
}

pub(super) fn select(level: Level, opcode: &str, modifiers: &mut Modifiers) -> Choice {
    let found = modifiers.take_type()?;
    let binary16 = matches!(found, Type::F16 | Type::F16x2);
    let mut extra = 0;
    let mut flag = |modifiers: &mut Modifiers, name: &str, bit: u32, allowed: bool| {
        if allowed && modifiers.take(name) {
            extra |= bit;
        }
    };
    let arithmetic = matches!(opcode, "add" | "sub" | "mul" | "fma");
    flag(modifiers, "ftz", FTZ, if opcode == "ex2" { true } else { binary16 && opcode != "tanh" });
    flag(modifiers, "sat", SAT, arithmetic && binary16);
    flag(modifiers, "relu", RELU, opcode == "fma");
    flag(modifiers, "NaN", PROPAGATE_NAN, matches!(opcode, "min" | "max"));
    if matches!(opcode, "min" | "max") && modifiers.take("xorsign") {
        if !modifiers.take("abs") {
            return Err("`.xorsign` needs `.abs`".to_owned());
        }
        extra |= XOR_SIGN;
    }
    if arithmetic {
        let rounded = modifiers.take("rn");
        if opcode == "fma" && !rounded {
            return Err("it needs the rounding mode `.rn`".to_owned());
        }
    }
    if matches!(opcode, "ex2" | "tanh") {
        if !modifiers.take("approx") {
            return Err("only the form `.approx` exists".to_owned());
        }
        if opcode == "ex2" && !binary16 && extra & FTZ == 0 {
            return Err("on bf16 only the form `.approx.ftz` exists".to_owned());
        }
    }
    let cold = Level::Portable;
    // Without flags, the flags' code goes away.
    let plain = extra == 0;
    let selected: Result<Selected, String> = match opcode {
        "add" if plain => for_halves!(level, found, |a, b; _extra| binary(0, a, b, |a, b| a + b)),
        "sub" if plain => for_halves!(level, found, |a, b; _extra| binary(0, a, b, |a, b| a - b)),
        "mul" if plain => for_halves!(level, found, |a, b; _extra| binary(0, a, b, |a, b| a * b)),
        "fma" if plain => for_halves!(level, found, |a, b, c; _extra| fused(0, a, b, c)),
        "add" => for_halves!(cold, found, |a, b; extra| binary(extra, a, b, |a, b| a + b)),
        "sub" => for_halves!(cold, found, |a, b; extra| binary(extra, a, b, |a, b| a - b)),
        "mul" => for_halves!(cold, found, |a, b; extra| binary(extra, a, b, |a, b| a * b)),
        "fma" => for_halves!(cold, found, |a, b, c; extra| fused(extra, a, b, c)),
        "min" if plain => for_halves!(level, found, |a, b; _extra| pick(true, 0, a, b)),
        "max" if plain => for_halves!(level, found, |a, b; _extra| pick(false, 0, a, b)),
        "min" => for_halves!(cold, found, |a, b; extra| pick(true, extra, a, b)),
        "max" => for_halves!(cold, found, |a, b; extra| pick(false, extra, a, b)),
        "neg" => for_halves!(cold, found, |a; extra| finish(toggle_sign(a), extra)),
        "abs" => for_halves!(cold, found, |a; extra| finish(clear_sign(a), extra)),
        "ex2" => for_halves!(cold, found, |a; extra| unary(extra, a, |a| (a as f64).exp2() as f32)),
        "tanh" => for_halves!(cold, found, |a; extra| unary(extra, a, |a| (a as f64).tanh() as f32)),
        _ => Err("it has no form on 16-bit floats".to_owned()),
    };
    selected.map(|selected| Selected { extra, ..selected })
}

#[inline(always)]
fn toggle_sign<H: HalfFormat>(a: H) -> H {
    H::new(a.bits() ^ 0x8000)
}

#[inline(always)]
fn clear_sign<H: HalfFormat>(a: H) -> H {
    H::new(a.bits() & 0x7fff)
}
