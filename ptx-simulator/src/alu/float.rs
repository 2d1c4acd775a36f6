//! Arithmetic of `f32` and `f64`.
//!
//! Round to nearest even is the processor's own arithmetic; the other modes go through [`exact`](super::exact).

use super::exact::{self, Rounding};
use super::lanes::{Level, lanes, with_type};
use super::modifiers::{Modifiers, wrong_type};
use super::{Choice, Selected, Type};

/// The NaN that f32 instructions give.
const NAN32: u32 = 0x7fff_ffff;
/// The NaN that f64 instructions give here.
const NAN64: u64 = 0xfff8_0000_0000_0000;

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
    } else if a.is_nan() {
        f32::from_bits(NAN32)
    } else {
        a
    }
}

#[inline(always)]
pub(super) fn finish64(a: f64) -> f64 {
    if a.is_nan() { f64::from_bits(NAN64) } else { a }
}

/// Binds two names to the constants that the flags are, so that each combination becomes a function of its own.
macro_rules! with_flags {
    ($ftz:expr, $sat:expr, $F:ident, $S:ident, $body:expr) => {
        match ($ftz, $sat) {
            (false, false) => { const $F: bool = false; const $S: bool = false; $body }
            (true, false) => { const $F: bool = true; const $S: bool = false; $body }
            (false, true) => { const $F: bool = false; const $S: bool = true; $body }
            (true, true) => { const $F: bool = true; const $S: bool = true; $body }
        }
    };
}

/// Parts of `extra` for the functions that decide at run time.
const ROUNDING: u32 = 7;
pub(super) const FTZ: u32 = 1 << 3;
pub(super) const SAT: u32 = 1 << 4;
const NAN: u32 = 1 << 5;
const XOR_SIGN: u32 = 1 << 6;

/// An f32 instruction in any rounding mode, on bit patterns.
#[inline(never)]
fn rounded32(extra: u32, operation: fn([u64; 3], Rounding) -> u64, operands: [f32; 3]) -> f32 {
    let ftz = extra & FTZ != 0;
    let bits = operands.map(|a| flush_if(ftz, a).to_bits() as u64);
    let result = operation(bits, Rounding::from_code(extra & ROUNDING));
    finish(f32::from_bits(result as u32), ftz, extra & SAT != 0)
}

#[inline(never)]
fn rounded64(extra: u32, operation: fn([u64; 3], Rounding) -> u64, operands: [f64; 3]) -> f64 {
    let result = operation(operands.map(f64::to_bits), Rounding::from_code(extra & ROUNDING));
    finish64(f64::from_bits(result))
}

/// One of the three-operand-or-fewer instructions in the rounding mode of `extra`.
macro_rules! rounded {
    ($function:ident, $format:ident, $rust:ident, $runner:ident, 1) => {
        lanes!(Level::Portable, |a: $rust; extra| -> $rust {
            $runner(extra, |[a, _, _], mode| exact::$function(a, exact::$format, mode), [a, 0.0, 0.0])
        })
    };
    ($function:ident, $format:ident, $rust:ident, $runner:ident, 2) => {
        lanes!(Level::Portable, |a: $rust, b: $rust; extra| -> $rust {
            $runner(extra, |[a, b, _], mode| exact::$function(a, b, exact::$format, mode), [a, b, 0.0])
        })
    };
    ($function:ident, $format:ident, $rust:ident, $runner:ident, 3) => {
        lanes!(Level::Portable, |a: $rust, b: $rust, c: $rust; extra| -> $rust {
            $runner(extra, |[a, b, c], mode| exact::$function(a, b, c, exact::$format, mode), [a, b, c])
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
                        "add" => rounded!(add, F32, f32, rounded32, 2),
                        "sub" => rounded!(subtract, F32, f32, rounded32, 2),
                        "mul" => rounded!(multiply, F32, f32, rounded32, 2),
                        _ => rounded!(fused_multiply_add, F32, f32, rounded32, 3),
                    };
                    Ok(with_extra(selected, Some(rounding), ftz, sat))
                }
                _ => {
                    let selected = match opcode {
                        "add" => rounded!(add, F64, f64, rounded64, 2),
                        "sub" => rounded!(subtract, F64, f64, rounded64, 2),
                        "mul" => rounded!(multiply, F64, f64, rounded64, 2),
                        _ => rounded!(fused_multiply_add, F64, f64, rounded64, 3),
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
            Type::F32 => Ok(with_flags!(ftz, false, F, _S, {
                lanes!(level, |a: f32| -> f32 { f32::from_bits(flush_if(F, a).to_bits() & 0x7fff_ffff) })
            })),
            _ => Ok(lanes!(level, |a: u64| -> u64 { a & (u64::MAX >> 1) })),
        },
        "neg" => match found {
            Type::F32 => Ok(with_flags!(ftz, false, F, _S, {
                lanes!(level, |a: f32| -> f32 { f32::from_bits(flush_if(F, a).to_bits() ^ 0x8000_0000) })
            })),
            _ => Ok(lanes!(level, |a: u64| -> u64 { a ^ (1 << 63) })),
        },
        // The sign is the first operand's, the magnitude the second's.
        "copysign" if !ftz => with_type!(found, T in [F32 => u32, F64 => u64], {
            lanes!(Level::Portable, |a: T, b: T| -> T { (a & !(T::MAX >> 1)) | (b & (T::MAX >> 1)) })
        }),
        "copysign" => Err("it does not take `.ftz`".to_owned()),
        "min" | "max" => extremum(level, opcode == "min", found, ftz, modifiers),
        "rsqrt" | "ex2" | "lg2" | "sin" | "cos" | "tanh" if approximate != Some("approx") => {
            Err("only the form `.approx` exists".to_owned())
        }
        "rsqrt" if found == Type::F64 && ftz => Ok(lanes!(Level::Portable, |a: f64| -> f64 {
            coarse(a, |a| 1.0 / a.sqrt())
        })),
        "rsqrt" if found == Type::F64 => {
            Ok(lanes!(Level::Portable, |a: f64| -> f64 { finish64(1.0 / a.sqrt()) }))
        }
        "rsqrt" => Ok(with_extra(approximation!(|a| 1.0 / a.sqrt()), None, ftz, false)),
        _ if found != Type::F32 => Err(wrong_type(found)),
        "ex2" => Ok(with_extra(approximation!(|a| a.exp2()), None, ftz, false)),
        "lg2" => Ok(with_extra(approximation!(|a| a.log2()), None, ftz, false)),
        "sin" => Ok(with_extra(approximation!(|a| a.sin()), None, ftz, false)),
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
    with_flags!(ftz, sat, F, S, match opcode {
        "add" => lanes!(level, |a: f32, b: f32| -> f32 { finish(flush_if(F, a) + flush_if(F, b), F, S) }),
        "sub" => lanes!(level, |a: f32, b: f32| -> f32 { finish(flush_if(F, a) - flush_if(F, b), F, S) }),
        "mul" => lanes!(level, |a: f32, b: f32| -> f32 { finish(flush_if(F, a) * flush_if(F, b), F, S) }),
        _ => lanes!(level, |a: f32, b: f32, c: f32| -> f32 {
            finish(flush_if(F, a).mul_add(flush_if(F, b), flush_if(F, c)), F, S)
        }),
    })
}

fn nearest64(level: Level, opcode: &str) -> Selected {
    match opcode {
        "add" => lanes!(level, |a: f64, b: f64| -> f64 { finish64(a + b) }),
        "sub" => lanes!(level, |a: f64, b: f64| -> f64 { finish64(a - b) }),
        "mul" => lanes!(level, |a: f64, b: f64| -> f64 { finish64(a * b) }),
        _ => lanes!(level, |a: f64, b: f64, c: f64| -> f64 { finish64(a.mul_add(b, c)) }),
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
        return f64::from_bits(NAN64);
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
        (Type::F32, true) => Ok(with_flags!(ftz, false, F, _S, match opcode {
            "div" => lanes!(level, |a: f32, b: f32| -> f32 { finish(flush_if(F, a) / flush_if(F, b), F, false) }),
            "rcp" => lanes!(level, |a: f32| -> f32 { finish(1.0 / flush_if(F, a), F, false) }),
            _ => lanes!(level, |a: f32| -> f32 { finish(flush_if(F, a).sqrt(), F, false) }),
        })),
        (Type::F32, false) => {
            let selected = match opcode {
                "div" => rounded!(divide, F32, f32, rounded32, 2),
                "rcp" => lanes!(Level::Portable, |a: f32; extra| -> f32 {
                    rounded32(extra, |[a, b, _], mode| exact::divide(b, a, exact::F32, mode), [a, 1.0, 0.0])
                }),
                _ => rounded!(square_root, F32, f32, rounded32, 1),
            };
            Ok(with_extra(selected, rounding, ftz, false))
        }
        (_, true) => Ok(match opcode {
            "div" => lanes!(level, |a: f64, b: f64| -> f64 { finish64(a / b) }),
            "rcp" => lanes!(level, |a: f64| -> f64 { finish64(1.0 / a) }),
            _ => lanes!(level, |a: f64| -> f64 { finish64(a.sqrt()) }),
        }),
        (_, false) => {
            let selected = match opcode {
                "div" => rounded!(divide, F64, f64, rounded64, 2),
                "rcp" => lanes!(Level::Portable, |a: f64; extra| -> f64 {
                    rounded64(extra, |[a, b, _], mode| exact::divide(b, a, exact::F64, mode), [a, 1.0, 0.0])
                }),
                _ => rounded!(square_root, F64, f64, rounded64, 1),
            };
            Ok(with_extra(selected, rounding, false, false))
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
    let picked = if a == b { equal } else if ordered { a_bits } else { b_bits };
    let picked = if a.is_nan() { b_bits } else { picked };
    let picked = if b.is_nan() { a_bits } else { picked };
    finish(f32::from_bits(picked), false, false)
}

#[inline(always)]
fn pick64(minimum: bool, a: f64, b: f64) -> f64 {
    let (a_bits, b_bits) = (a.to_bits(), b.to_bits());
    let ordered = if minimum { a < b } else { a > b };
    let equal = if minimum { a_bits | b_bits } else { a_bits & b_bits };
    let picked = if a == b { equal } else if ordered { a_bits } else { b_bits };
    let picked = if a.is_nan() { b_bits } else { picked };
    let picked = if b.is_nan() { a_bits } else { picked };
    finish64(f64::from_bits(picked))
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
