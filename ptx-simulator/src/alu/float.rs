//! Arithmetic of `f32` and `f64`.
//!
//! Round to nearest even is the processor's own arithmetic; the other modes go through [`exact`].

use super::exact::{self, Number, Rounding};
use super::lanes::{Level, lanes, with_flags, with_type};
use super::modifiers::{Modifiers, wrong_type};
use super::{Choice, Selected, Type};

/// The NaN that f32 instructions give.
const NAN32: u32 = 0x7fff_ffff;
/// The NaN that f64 instructions make, when no operand is one.
const NAN64: u64 = 0xfff8_0000_0000_0000;

/// The NaN of the coarse f64 approximations.
const NAN64_COARSE: u64 = 0x7fff_ffff_0000_0000;

/// A subnormal number becomes a zero of its sign.
#[inline(always)]
pub(super) fn flush(a: f32) -> f32 {
    let bits = a.to_bits();
    f32::from_bits(if bits & 0x7f80_0000 == 0 { bits & 0x8000_0000 } else { bits })
}

#[inline(always)]
fn flush_if(ftz: bool, a: f32) -> f32 {
    if ftz { flush(a) } else { a }
}

/// A result in PTX's form: one NaN, subnormals flushed if asked for, held between 0 and 1 if asked for (NaN gives 0).
#[inline(always)]
pub(super) fn finish(a: f32, ftz: bool, sat: bool) -> f32 {
    let a = flush_if(ftz, a);
    if sat {
        // Comparisons with a NaN are false; -0.0 becomes +0.0.
        let positive = if a > 0.0 { a } else { 0.0 };
        if positive < 1.0 { positive } else { 1.0 }
    } else {
        // On integers: to the optimiser all NaNs of an f32 are alike, and it may drop the choice between two of them.
        let bits = a.to_bits();
        f32::from_bits(if bits & 0x7fff_ffff > 0x7f80_0000 { NAN32 } else { bits })
    }
}

/// A result whose NaN is that of the first of `operands` that is one, or a fresh one.
///
/// The order of several NaNs is not written down anywhere; it is that of the H200.
#[inline(always)]
pub(super) fn finish64<const COUNT: usize>(result: f64, operands: [f64; COUNT]) -> f64 {
    // On integers, for the reason that `finish` gives.
    let bits = operands.map(f64::to_bits);
    let nan = bits.iter().rev().fold(NAN64, |nan, &bits| if is_nan64(bits) { bits | 1 << 51 } else { nan });
    f64::from_bits(if is_nan64(result.to_bits()) { nan } else { result.to_bits() })
}

#[inline(always)]
fn is_nan64(bits: u64) -> bool {
    bits & (u64::MAX >> 1) > 0x7ff0_0000_0000_0000
}

/// The smallest normal number, which a result with `.ftz` may have reached by rounding alone.
#[inline(always)]
fn is_smallest_normal(a: f32) -> bool {
    a.to_bits() & 0x7fff_ffff == 0x0080_0000
}

/// Parts of `extra` for the functions that decide at run time.
const ROUNDING: u32 = 7;
pub(super) const FTZ: u32 = 1 << 3;
pub(super) const SAT: u32 = 1 << 4;
const NAN: u32 = 1 << 5;
const XOR_SIGN: u32 = 1 << 6;
/// Of several NaNs the first operand's counts.
const FIRST_NAN: u32 = 1 << 7;

/// An f32 instruction in any rounding mode.
#[inline(never)]
fn rounded32(extra: u32, instruction: exact::Instruction, operands: [f32; 3]) -> f32 {
    let ftz = extra & FTZ != 0;
    let rounding = Rounding::from_code(extra & ROUNDING);
    let numbers = operands.map(|a| Number::from_bits(flush_if(ftz, a).to_bits() as u64, exact::F32));
    let result = instruction(numbers, rounding);
    let bits =
        if ftz { result.into_flushed_bits(exact::F32, rounding) } else { result.into_bits(exact::F32, rounding) };
    finish(f32::from_bits(bits as u32), ftz, extra & SAT != 0)
}

/// An f64 instruction in any rounding mode.
#[inline(never)]
fn rounded64(extra: u32, instruction: exact::Instruction, operands: [f64; 3]) -> f64 {
    let rounding = Rounding::from_code(extra & ROUNDING);
    let result = instruction(operands.map(|a| Number::from_bits(a.to_bits(), exact::F64)), rounding);
    let result = f64::from_bits(result.into_bits(exact::F64, rounding));
    let [a, b, c] = operands;
    if extra & FIRST_NAN != 0 { finish64(result, [a, b]) } else { finish64(result, [b, c, a]) }
}

/// An instruction in the rounding mode of `extra`, by its number of operands.
macro_rules! rounded {
    ($rust:ident, $runner:ident, $instruction:ident, 1) => {
        lanes!(Level::Portable, |a: $rust; extra| -> $rust { $runner(extra, exact::$instruction, [a, 0.0, 0.0]) })
    };
    ($rust:ident, $runner:ident, $instruction:ident, 2) => {
        lanes!(Level::Portable, |a: $rust, b: $rust; extra| -> $rust {
            $runner(extra, exact::$instruction, [a, b, 0.0])
        })
    };
    ($rust:ident, $runner:ident, $instruction:ident, 3) => {
        lanes!(Level::Portable, |a: $rust, b: $rust, c: $rust; extra| -> $rust {
            $runner(extra, exact::$instruction, [a, b, c])
        })
    };
}

/// An f32 function computed in f64.
macro_rules! approximation {
    (|$a:ident| $body:expr) => {
        lanes!(Level::Portable, |operand: f32; extra| -> f32 {
            let ftz = extra & FTZ != 0;
            let $a = flush_if(ftz, operand) as f64;
            finish($body as f32, ftz, false)
        })
    };
}
pub(super) fn select(level: Level, opcode: &str, modifiers: &mut Modifiers) -> Choice {
    let found = modifiers.take_type()?;
    let rounding = modifiers.take_rounding();
    let ftz = modifiers.take("ftz");
    let sat = modifiers.take("sat");
    let approximate = modifiers.take_one_of(&["approx", "full"]);
    if found == Type::F64 && sat {
        return Err("`.sat` goes with f32 only".to_owned());
    }
    if found == Type::F64 && ftz && !(approximate == Some("approx") && matches!(opcode, "rcp" | "rsqrt")) {
        return Err("`.ftz` goes with f32 only".to_owned());
    }
    if sat && !matches!(opcode, "add" | "sub" | "mul" | "fma" | "mad") {
        return Err("it does not take `.sat`".to_owned());
    }
    match opcode {
        "add" | "sub" | "mul" | "fma" | "mad" => {
            if approximate.is_some() {
                return Err("it has no approximate form".to_owned());
            }
            if rounding.is_none() && matches!(opcode, "fma" | "mad") {
                return Err("it needs a rounding mode such as `.rn`".to_owned());
            }
            let rounding = rounding.unwrap_or(Rounding::NearestEven);
            match (found, rounding) {
                (Type::F32, Rounding::NearestEven) => Ok(nearest32(level, opcode, ftz, sat)),
                (Type::F64, Rounding::NearestEven) => Ok(nearest64(level, opcode)),
                (Type::F32, _) => {
                    let selected = match opcode {
                        "add" => rounded!(f32, rounded32, sum, 2),
                        "sub" => rounded!(f32, rounded32, difference, 2),
                        "mul" => rounded!(f32, rounded32, product, 2),
                        _ => rounded!(f32, rounded32, fused_product_sum, 3),
                    };
                    Ok(with_extra(selected, Some(rounding), ftz, sat))
                }
                _ => {
                    let selected = match opcode {
                        "add" => rounded!(f64, rounded64, sum, 2),
                        "sub" => rounded!(f64, rounded64, difference, 2),
                        "mul" => rounded!(f64, rounded64, product, 2),
                        _ => rounded!(f64, rounded64, fused_product_sum, 3),
                    };
                    Ok(with_extra(selected, Some(rounding), ftz, sat))
                }
            }
        }
        "div" | "rcp" | "sqrt" => root_or_quotient(level, opcode, found, rounding, ftz, approximate),
        _ if rounding.is_some() => Err("it takes no rounding mode".to_owned()),
        "abs" | "neg" | "copysign" | "min" | "max" if approximate.is_some() => {
            Err("it has no approximate form".to_owned())
        }
        "abs" => match found {
            Type::F32 => {
                Ok(with_flags!(ftz, false, F, _S, lanes!(level, |a: f32| -> f32 { finish(a.abs(), F, false) })))
            }
            _ => Ok(lanes!(level, |a: f64| -> f64 { finish64(if a.is_nan() { a } else { a.abs() }, [a]) })),
        },
        "neg" => match found {
            Type::F32 => Ok(with_flags!(ftz, false, F, _S, lanes!(level, |a: f32| -> f32 { finish(-a, F, false) }))),
            _ => Ok(lanes!(level, |a: f64| -> f64 { finish64(if a.is_nan() { a } else { -a }, [a]) })),
        },
        // The sign is the first operand's, the magnitude the second's.
        "copysign" if !ftz => with_type!(found, T in [F32 => u32, F64 => u64], {
            lanes!(Level::Portable, |a: T, b: T| -> T { (a & !(T::MAX >> 1)) | (b & (T::MAX >> 1)) }).typed(found)
        }),
        "copysign" => Err("it does not take `.ftz`".to_owned()),
        "min" | "max" => extremum(level, opcode == "min", found, ftz, modifiers),
        "rsqrt" | "ex2" | "lg2" | "sin" | "cos" | "tanh" if approximate != Some("approx") => {
            Err("only the form `.approx` exists".to_owned())
        }
        "rsqrt" if found == Type::F64 && ftz => {
            Ok(lanes!(Level::Portable, |a: f64| -> f64 { coarse(a, |a| 1.0 / a.sqrt()) }))
        }
        "rsqrt" if found == Type::F64 => Ok(lanes!(Level::Portable, |a: f64| -> f64 { finish64(1.0 / a.sqrt(), [a]) })),
        "rsqrt" => Ok(with_extra(approximation!(|a| 1.0 / a.sqrt()), None, ftz, false)),
        _ if found != Type::F32 => Err(wrong_type(found)),
        "ex2" => Ok(with_extra(approximation!(|a| a.exp2()), None, ftz, false)),
        "lg2" => Ok(with_extra(approximation!(|a| a.log2()), None, ftz, false)),
        // PTX gives a zero for a subnormal operand even without `.ftz`.
        "sin" => Ok(with_extra(approximation!(|a| a.sin()), None, true, false)),
        "cos" => Ok(with_extra(approximation!(|a| a.cos()), None, ftz, false)),
        "tanh" if !ftz => Ok(with_extra(approximation!(|a| a.tanh()), None, ftz, false)),
        _ => Err("it has no form on f32 and f64".to_owned()),
    }
}

fn with_extra(selected: Selected, rounding: Option<Rounding>, ftz: bool, sat: bool) -> Selected {
    let extra = rounding.map_or(0, Rounding::code) | if ftz { FTZ } else { 0 } | if sat { SAT } else { 0 };
    Selected { extra, ..selected }
}

fn nearest32(level: Level, opcode: &str, ftz: bool, sat: bool) -> Selected {
    with_flags!(
        ftz,
        sat,
        F,
        S,
        match opcode {
            "add" => lanes!(level, |a: f32, b: f32| -> f32 { finish(flush_if(F, a) + flush_if(F, b), F, S) }),
            "sub" => lanes!(level, |a: f32, b: f32| -> f32 { finish(flush_if(F, a) - flush_if(F, b), F, S) }),
            "mul" => lanes!(level, |a: f32, b: f32; _extra| -> f32 {
                finish(flush_if(F, a) * flush_if(F, b), F, S)
            } doubtful |result| { F && is_smallest_normal(result) } revise {
                rounded32(FTZ | if S { SAT } else { 0 }, exact::product, [a, b, 0.0])
            }),
            _ => lanes!(level, |a: f32, b: f32, c: f32; _extra| -> f32 {
                finish(flush_if(F, a).mul_add(flush_if(F, b), flush_if(F, c)), F, S)
            } doubtful |result| { F && is_smallest_normal(result) } revise {
                rounded32(FTZ | if S { SAT } else { 0 }, exact::fused_product_sum, [a, b, c])
            }),
        }
    )
}

fn nearest64(level: Level, opcode: &str) -> Selected {
    match opcode {
        "add" => lanes!(level, |a: f64, b: f64| -> f64 { finish64(a + b, [b, a]) }),
        "sub" => lanes!(level, |a: f64, b: f64| -> f64 { finish64(a - b, [b, a]) }),
        "mul" => lanes!(level, |a: f64, b: f64| -> f64 { finish64(a * b, [b, a]) }),
        _ => lanes!(level, |a: f64, b: f64, c: f64| -> f64 { finish64(a.mul_add(b, c), [b, c, a]) }),
    }
}

/// The coarse f64 forms: only the upper half of operand and result counts, subnormals are zeros.
#[inline(always)]
fn coarse(a: f64, function: impl Fn(f64) -> f64) -> f64 {
    const UPPER: u64 = 0xffff_ffff_0000_0000;
    let flushed = |a: f64| if a.is_subnormal() { 0.0_f64.copysign(a) } else { a };
    let upper = if a.is_nan() { a } else { f64::from_bits(a.to_bits() & UPPER) };
    let result = flushed(function(flushed(upper)));
    if result.is_nan() {
        return f64::from_bits(NAN64_COARSE);
    }
    // Half a unit of the last place kept, then the rest goes; an infinity has nothing to carry.
    let bits = if result.is_finite() { result.to_bits() + 0x8000_0000 } else { result.to_bits() };
    f64::from_bits(bits & UPPER)
}

fn root_or_quotient(
    level: Level,
    opcode: &str,
    found: Type,
    rounding: Option<Rounding>,
    ftz: bool,
    approximate: Option<&str>,
) -> Choice {
    let nearest = match (approximate, rounding) {
        (Some("full"), None) if opcode == "div" && found == Type::F32 => true,
        (Some("approx"), None) if found == Type::F32 => true,
        (Some("approx"), None) if opcode == "rcp" && ftz => {
            return Ok(lanes!(Level::Portable, |a: f64| -> f64 { coarse(a, |a| 1.0 / a) }));
        }
        (None, Some(rounding)) => rounding == Rounding::NearestEven,
        _ => return Err("it needs either a rounding mode such as `.rn` or, for f32, `.approx`".to_owned()),
    };
    match (found, nearest) {
        (Type::F32, true) => Ok(with_flags!(
            ftz,
            false,
            F,
            _S,
            match opcode {
                "div" if approximate == Some("approx") => lanes!(level, |a: f32, b: f32| -> f32 {
                    let (a, b) = (flush_if(F, a), flush_if(F, b));
                    // Beyond 2^126 the reciprocal is flushed: PTX gives zero, and NaN for an infinite dividend.
                    let reciprocal_is_zero = b.abs() > f32::from_bits(0x7e80_0000) && b.is_finite();
                    let quotient = if reciprocal_is_zero { a * 0.0_f32.copysign(b) } else { a / b };
                    finish(quotient, F, false)
                }),
                "div" => lanes!(level, |a: f32, b: f32; _extra| -> f32 {
                    finish(flush_if(F, a) / flush_if(F, b), F, false)
                } doubtful |result| { F && is_smallest_normal(result) } revise {
                    rounded32(FTZ, exact::quotient, [a, b, 0.0])
                }),
                "rcp" => lanes!(level, |a: f32| -> f32 { finish(1.0 / flush_if(F, a), F, false) }),
                _ => lanes!(level, |a: f32| -> f32 { finish(flush_if(F, a).sqrt(), F, false) }),
            }
        )),
        (Type::F32, false) => {
            let selected = match opcode {
                "div" => rounded!(f32, rounded32, quotient, 2),
                "rcp" => rounded!(f32, rounded32, reciprocal, 1),
                _ => rounded!(f32, rounded32, root, 1),
            };
            Ok(with_extra(selected, rounding, ftz, false))
        }
        (_, true) => Ok(match opcode {
            "div" => lanes!(level, |a: f64, b: f64| -> f64 { finish64(a / b, [a, b]) }),
            "rcp" => lanes!(level, |a: f64| -> f64 { finish64(1.0 / a, [a]) }),
            _ => lanes!(level, |a: f64| -> f64 { finish64(a.sqrt(), [a]) }),
        }),
        (_, false) => {
            let selected = match opcode {
                "div" => rounded!(f64, rounded64, quotient, 2),
                "rcp" => rounded!(f64, rounded64, reciprocal, 1),
                _ => rounded!(f64, rounded64, root, 1),
            };
            let selected = with_extra(selected, rounding, false, false);
            Ok(Selected { extra: selected.extra | FIRST_NAN, ..selected })
        }
    }
}

/// The smaller or larger of two numbers: of a NaN and a number the number, and -0.0 is below +0.0.
#[inline(always)]
pub(super) fn pick32(minimum: bool, a: f32, b: f32) -> f32 {
    let (a_bits, b_bits) = (a.to_bits(), b.to_bits());
    let ordered = if minimum { a < b } else { a > b };
    // Equal numbers differ at most in the sign of a zero.
    let equal = if minimum { a_bits | b_bits } else { a_bits & b_bits };
    let picked = if a == b {
        equal
    } else if ordered {
        a_bits
    } else {
        b_bits
    };
    let picked = if a.is_nan() { b_bits } else { picked };
    let picked = if b.is_nan() { a_bits } else { picked };
    finish(f32::from_bits(picked), false, false)
}

#[inline(always)]
fn pick64(minimum: bool, a: f64, b: f64) -> f64 {
    let (a_bits, b_bits) = (a.to_bits(), b.to_bits());
    let ordered = if minimum { a < b } else { a > b };
    let equal = if minimum { a_bits | b_bits } else { a_bits & b_bits };
    let picked = if a == b {
        equal
    } else if ordered {
        a_bits
    } else {
        b_bits
    };
    let picked = if b.is_nan() { a_bits } else { picked };
    let picked = if a.is_nan() { b_bits } else { picked };
    finish64(f64::from_bits(picked), [b])
}

fn extremum(level: Level, minimum: bool, found: Type, ftz: bool, modifiers: &mut Modifiers) -> Choice {
    let propagate = modifiers.take("NaN");
    let xor_sign = modifiers.take("xorsign");
    if xor_sign && !modifiers.take("abs") {
        return Err("`.xorsign` needs `.abs`".to_owned());
    }
    if found == Type::F64 {
        if propagate || xor_sign {
            return Err("`.NaN` and `.xorsign.abs` go with f32 only".to_owned());
        }
        return Ok(if minimum {
            lanes!(level, |a: f64, b: f64| -> f64 { pick64(true, a, b) })
        } else {
            lanes!(level, |a: f64, b: f64| -> f64 { pick64(false, a, b) })
        });
    }
    if !propagate && !xor_sign {
        return Ok(with_flags!(ftz, minimum, F, MINIMUM, {
            lanes!(level, |a: f32, b: f32| -> f32 { pick32(MINIMUM, flush_if(F, a), flush_if(F, b)) })
        }));
    }
    let mut selected = with_flags!(ftz, minimum, F, MINIMUM, {
        lanes!(Level::Portable, |a: f32, b: f32; extra| -> f32 {
            let (a, b) = (flush_if(F, a), flush_if(F, b));
            let sign = (a.to_bits() ^ b.to_bits()) & 0x8000_0000;
            let (x, y) = if extra & XOR_SIGN != 0 { (a.abs(), b.abs()) } else { (a, b) };
            let picked = pick32(MINIMUM, x, y);
            if extra & NAN != 0 && (a.is_nan() || b.is_nan()) || picked.is_nan() {
                f32::from_bits(NAN32)
            } else if extra & XOR_SIGN != 0 {
                f32::from_bits(picked.to_bits() | sign)
            } else {
                picked
            }
        })
    });
    selected.extra = if propagate { NAN } else { 0 } | if xor_sign { XOR_SIGN } else { 0 };
    Ok(selected)
}
