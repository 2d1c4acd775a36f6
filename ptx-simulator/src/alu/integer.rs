//! Integer arithmetic: sums, products, quotients, extrema and dot products of bytes.

use super::lanes::{Level, S16x2, U16x2, lanes, with_flags, with_type};
use super::modifiers::{Modifiers, wrong_type};
use super::{Choice, Type};

/// Arithmetic that differs between the integer types only in width.
pub(super) trait Integer: Copy + PartialOrd {
    /// The type with twice the bits.
    type Wide: Copy;
    fn add(self, other: Self) -> Self;
    fn subtract(self, other: Self) -> Self;
    fn multiply(self, other: Self) -> Self;
    /// The upper half of the product.
    fn multiply_high(self, other: Self) -> Self;
    /// The whole product.
    fn multiply_wide(self, other: Self) -> Self::Wide;
    fn difference(self, other: Self) -> Self;
}

macro_rules! integer {
    ($($name:ident, $wide:ident);*) => {$(
        impl Integer for $name {
            type Wide = $wide;
            #[inline(always)]
            fn add(self, other: Self) -> Self { self.wrapping_add(other) }
            #[inline(always)]
            fn subtract(self, other: Self) -> Self { self.wrapping_sub(other) }
            #[inline(always)]
            fn multiply(self, other: Self) -> Self { self.wrapping_mul(other) }
            #[inline(always)]
            fn multiply_high(self, other: Self) -> Self {
                ((self as $wide).wrapping_mul(other as $wide) >> $name::BITS) as $name
            }
            #[inline(always)]
            fn multiply_wide(self, other: Self) -> $wide { (self as $wide).wrapping_mul(other as $wide) }
            #[inline(always)]
            fn difference(self, other: Self) -> Self {
                if self < other { other.wrapping_sub(self) } else { self.wrapping_sub(other) }
            }
        }
    )*};
}
integer!(u16, u32; i16, i32; u32, u64; i32, i64; u64, u128; i64, i128);

/// The lower 24 bits as a number, with or without sign.
trait TwentyFour: Copy {
    fn product(self, other: Self) -> u64;
}

impl TwentyFour for u32 {
    #[inline(always)]
    fn product(self, other: u32) -> u64 {
        (self & 0xff_ffff) as u64 * (other & 0xff_ffff) as u64
    }
}

impl TwentyFour for i32 {
    #[inline(always)]
    fn product(self, other: i32) -> u64 {
        (((self << 8) >> 8) as i64 * ((other << 8) >> 8) as i64) as u64
    }
}

/// Sum of `a` and the product's upper half, held inside the range.
#[inline(always)]
fn saturating_sum(a: i32, b: i32) -> i32 {
    (a as i64 + b as i64).clamp(i32::MIN as i64, i32::MAX as i64) as i32
}

/// Applies a function to both 16-bit halves.
#[inline(always)]
fn halves(a: u32, b: u32, function: impl Fn(u16, u16) -> u16) -> u32 {
    function(a as u16, b as u16) as u32 | (function((a >> 16) as u16, (b >> 16) as u16) as u32) << 16
}

#[inline(always)]
fn signed_halves(a: u32, b: u32, function: impl Fn(i16, i16) -> i16) -> u32 {
    halves(a, b, |a, b| function(a as i16, b as i16) as u16)
}

pub(super) fn select(level: Level, opcode: &str, modifiers: &mut Modifiers) -> Choice {
    if matches!(opcode, "dp4a" | "dp2a") {
        return dot_product(level, opcode, modifiers);
    }
    let found = modifiers.take_type()?;
    arithmetic(level, opcode, found, modifiers).map(|selected| selected.typed(found))
}

fn arithmetic(level: Level, opcode: &str, found: Type, modifiers: &mut Modifiers) -> Choice {
    // Rarely hot: one portable version each keeps the build small.
    let cold = Level::Portable;
    match opcode {
        "add" | "sub" if modifiers.take("sat") => match (opcode, found) {
            ("add", Type::S32) => Ok(lanes!(level, |a: i32, b: i32| -> i32 { saturating_sum(a, b) })),
            (_, Type::S32) => Ok(lanes!(level, |a: i32, b: i32| -> i32 {
                (a as i64 - b as i64).clamp(i32::MIN as i64, i32::MAX as i64) as i32
            })),
            _ => Err(wrong_type(found)),
        },
        "add" => match found {
            Type::U16x2 => Ok(lanes!(level, |a: U16x2, b: U16x2| -> U16x2 { U16x2(halves(a.0, b.0, Integer::add)) })),
            Type::S16x2 => Ok(lanes!(level, |a: S16x2, b: S16x2| -> S16x2 { S16x2(halves(a.0, b.0, Integer::add)) })),
            _ => with_type!(found, T in [U16 | S16 => u16, U32 | S32 => u32, U64 | S64 => u64], {
                lanes!(level, |a: T, b: T| -> T { a.add(b) })
            }),
        },
        "sub" => with_type!(found, T in [U16 | S16 => u16, U32 | S32 => u32, U64 | S64 => u64], {
            lanes!(level, |a: T, b: T| -> T { a.subtract(b) })
        }),
        "mul" => match modifiers.take_one_of(&["lo", "hi", "wide"]) {
            Some("lo") => with_type!(found, T in [U16 | S16 => u16, U32 | S32 => u32, U64 | S64 => u64], {
                lanes!(level, |a: T, b: T| -> T { a.multiply(b) })
            }),
            Some("hi") if found.bits() == 64 => with_type!(found, T in [U64 => u64, S64 => i64], {
                lanes!(cold, |a: T, b: T| -> T { a.multiply_high(b) })
            }),
            Some("hi") => with_type!(found, T in [U16 => u16, S16 => i16, U32 => u32, S32 => i32], {
                lanes!(level, |a: T, b: T| -> T { a.multiply_high(b) })
            }),
            Some(_) => with_type!(found, T in [U16 => u16, S16 => i16, U32 => u32, S32 => i32], {
                lanes!(level, |a: T, b: T| -> <T as Integer>::Wide { a.multiply_wide(b) })
            }),
            None => Err("an integer product needs `.lo`, `.hi` or `.wide`".to_owned()),
        },
        "mad" => match modifiers.take_one_of(&["lo", "hi", "wide"]) {
            Some("lo") => with_type!(found, T in [U16 | S16 => u16, U32 | S32 => u32, U64 | S64 => u64], {
                lanes!(level, |a: T, b: T, c: T| -> T { a.multiply(b).add(c) })
            }),
            Some("hi") if modifiers.take("sat") => with_type!(found, T in [S32 => i32], {
                lanes!(cold, |a: T, b: T, c: T| -> T { saturating_sum(a.multiply_high(b), c) })
            }),
            Some("hi") => {
                with_type!(found, T in [U16 => u16, S16 => i16, U32 => u32, S32 => i32, U64 => u64, S64 => i64], {
                    lanes!(cold, |a: T, b: T, c: T| -> T { a.multiply_high(b).add(c) })
                })
            }
            Some(_) => with_type!(found, T in [U16 => u16, S16 => i16, U32 => u32, S32 => i32], {
                lanes!(level, |a: T, b: T, c: <T as Integer>::Wide| -> <T as Integer>::Wide {
                    a.multiply_wide(b).add(c)
                })
            }),
            None => Err("an integer product needs `.lo`, `.hi` or `.wide`".to_owned()),
        },
        "mul24" => match modifiers.take_one_of(&["lo", "hi"]) {
            Some("lo") => with_type!(found, T in [U32 => u32, S32 => i32], {
                lanes!(cold, |a: T, b: T| -> u32 { a.product(b) as u32 })
            }),
            Some(_) => with_type!(found, T in [U32 => u32, S32 => i32], {
                lanes!(cold, |a: T, b: T| -> u32 { (a.product(b) >> 16) as u32 })
            }),
            None => Err("it needs `.lo` or `.hi`".to_owned()),
        },
        "mad24" => match modifiers.take_one_of(&["lo", "hi"]) {
            Some("lo") => with_type!(found, T in [U32 => u32, S32 => i32], {
                lanes!(cold, |a: T, b: T, c: u32| -> u32 { (a.product(b) as u32).add(c) })
            }),
            Some(_) if modifiers.take("sat") => with_type!(found, T in [S32 => i32], {
                lanes!(cold, |a: T, b: T, c: i32| -> i32 { saturating_sum((a.product(b) >> 16) as i32, c) })
            }),
            Some(_) => with_type!(found, T in [U32 => u32, S32 => i32], {
                lanes!(cold, |a: T, b: T, c: u32| -> u32 { ((a.product(b) >> 16) as u32).add(c) })
            }),
            None => Err("it needs `.lo` or `.hi`".to_owned()),
        },
        "sad" => with_type!(found, T in [U16 => u16, S16 => i16, U32 => u32, S32 => i32, U64 => u64, S64 => i64], {
            lanes!(cold, |a: T, b: T, c: T| -> T { c.add(a.difference(b)) })
        }),
        "div" | "rem" => quotient(level, opcode == "div", found),
        "abs" => with_type!(found, T in [S16 => i16, S32 => i32, S64 => i64], {
            lanes!(level, |a: T| -> T { a.wrapping_abs() })
        }),
        "neg" => with_type!(found, T in [S16 => i16, S32 => i32, S64 => i64], {
            lanes!(level, |a: T| -> T { a.wrapping_neg() })
        }),
        "min" | "max" => extremum(level, opcode == "min", found, modifiers.take("relu")),
        _ => Err("it has no integer form".to_owned()),
    }
}

/// Quotients and remainders. PTX leaves division by zero to the machine: all ones in both.
fn quotient(level: Level, quotient: bool, found: Type) -> Choice {
    /// The quotient rounded toward zero, by way of f64 so that it vectorises: operands of 32 bits are exact there, and
    /// a quotient that isn't an integer is further from the next integer than the rounding error.
    #[inline(always)]
    fn unsigned(a: u32, b: u32) -> u32 {
        let quotient = a as f64 / b.max(1) as f64;
        // SAFETY: a / b with b at least 1 lies in the range of u32.
        let quotient = unsafe { quotient.to_int_unchecked::<u32>() };
        if b == 0 { u32::MAX } else { quotient }
    }
    #[inline(always)]
    fn signed(a: i32, b: i32) -> i32 {
        let special = b == 0 || b == -1;
        let quotient = a as f64 / if special { 1.0 } else { b as f64 };
        // SAFETY: the quotient's magnitude is at most that of a, and i32::MIN / -1 was taken out.
        let quotient = unsafe { quotient.to_int_unchecked::<i32>() };
        if b == 0 {
            -1
        } else if b == -1 {
            a.wrapping_neg()
        } else {
            quotient
        }
    }
    let cold = Level::Portable;
    match (quotient, found) {
        (true, Type::U32) => Ok(lanes!(level, |a: u32, b: u32| -> u32 { unsigned(a, b) })),
        (true, Type::S32) => Ok(lanes!(level, |a: i32, b: i32| -> i32 { signed(a, b) })),
        (false, Type::U32) => Ok(lanes!(level, |a: u32, b: u32| -> u32 {
            if b == 0 { u32::MAX } else { a.wrapping_sub(unsigned(a, b).wrapping_mul(b)) }
        })),
        (false, Type::S32) => Ok(lanes!(level, |a: i32, b: i32| -> i32 {
            if b == 0 { -1 } else { a.wrapping_sub(signed(a, b).wrapping_mul(b)) }
        })),
        (true, _) => with_type!(found, T in [U16 => u16, S16 => i16, U64 => u64, S64 => i64], {
            lanes!(cold, |a: T, b: T| -> T { if b == 0 { !0 } else { a.wrapping_div(b) } })
        }),
        (false, _) => with_type!(found, T in [U16 => u16, S16 => i16, U64 => u64, S64 => i64], {
            lanes!(cold, |a: T, b: T| -> T { if b == 0 { !0 } else { a.wrapping_rem(b) } })
        }),
    }
}

fn extremum(level: Level, minimum: bool, found: Type, relu: bool) -> Choice {
    match (minimum, relu, found) {
        (true, false, Type::U16x2) => {
            Ok(lanes!(level, |a: U16x2, b: U16x2| -> U16x2 { U16x2(halves(a.0, b.0, Ord::min)) }))
        }
        (false, false, Type::U16x2) => {
            Ok(lanes!(level, |a: U16x2, b: U16x2| -> U16x2 { U16x2(halves(a.0, b.0, Ord::max)) }))
        }
        (true, false, Type::S16x2) => {
            Ok(lanes!(level, |a: S16x2, b: S16x2| -> S16x2 { S16x2(signed_halves(a.0, b.0, Ord::min)) }))
        }
        (false, false, Type::S16x2) => {
            Ok(lanes!(level, |a: S16x2, b: S16x2| -> S16x2 { S16x2(signed_halves(a.0, b.0, Ord::max)) }))
        }
        (true, true, Type::S16x2) => {
            Ok(lanes!(level, |a: S16x2, b: S16x2| -> S16x2 { S16x2(signed_halves(a.0, b.0, |a, b| a.min(b).max(0))) }))
        }
        (false, true, Type::S16x2) => {
            Ok(lanes!(level, |a: S16x2, b: S16x2| -> S16x2 { S16x2(signed_halves(a.0, b.0, |a, b| a.max(b).max(0))) }))
        }
        (true, true, Type::S32) => Ok(lanes!(level, |a: i32, b: i32| -> i32 { a.min(b).max(0) })),
        (false, true, Type::S32) => Ok(lanes!(level, |a: i32, b: i32| -> i32 { a.max(b).max(0) })),
        (_, true, _) => Err(wrong_type(found)),
        (true, false, _) => {
            with_type!(found, T in [U16 => u16, S16 => i16, U32 => u32, S32 => i32, U64 => u64, S64 => i64], {
                lanes!(level, |a: T, b: T| -> T { a.min(b) })
            })
        }
        (false, false, _) => {
            with_type!(found, T in [U16 => u16, S16 => i16, U32 => u32, S32 => i32, U64 => u64, S64 => i64], {
                lanes!(level, |a: T, b: T| -> T { a.max(b) })
            })
        }
    }
}

/// `dp4a` and `dp2a`: products of bytes with bytes, or of 16-bit halves with two of the four bytes, summed onto `c`.
fn dot_product(level: Level, opcode: &str, modifiers: &mut Modifiers) -> Choice {
    #[inline(always)]
    fn byte(word: u32, index: u32, signed: bool) -> u32 {
        let upper = word << (24 - 8 * index);
        if signed { (upper as i32 >> 24) as u32 } else { upper >> 24 }
    }

    #[inline(always)]
    fn half(word: u32, index: u32, signed: bool) -> u32 {
        let upper = word << (16 - 16 * index);
        if signed { (upper as i32 >> 16) as u32 } else { upper >> 16 }
    }

    let first = modifiers.take_type()?;
    let second = modifiers.take_type()?;
    for found in [first, second] {
        if !matches!(found, Type::U32 | Type::S32) {
            return Err(wrong_type(found));
        }
    }
    let (first, second) = (first == Type::S32, second == Type::S32);
    if opcode == "dp4a" {
        return Ok(with_flags!(
            first,
            second,
            A,
            B,
            lanes!(level, |a: u32, b: u32, c: u32| -> u32 {
                let product = |index| byte(a, index, A).wrapping_mul(byte(b, index, B));
                c.wrapping_add(product(0)).wrapping_add(product(1)).wrapping_add(product(2)).wrapping_add(product(3))
            })
        ));
    }
    match modifiers.take_one_of(&["lo", "hi"]) {
        Some("lo") => Ok(with_flags!(
            first,
            second,
            A,
            B,
            lanes!(level, |a: u32, b: u32, c: u32| -> u32 {
                let product = |index| half(a, index, A).wrapping_mul(byte(b, index, B));
                c.wrapping_add(product(0)).wrapping_add(product(1))
            })
        )),
        Some(_) => Ok(with_flags!(
            first,
            second,
            A,
            B,
            lanes!(level, |a: u32, b: u32, c: u32| -> u32 {
                let product = |index| half(a, index, A).wrapping_mul(byte(b, index + 2, B));
                c.wrapping_add(product(0)).wrapping_add(product(1))
            })
        )),
        None => Err("it needs `.lo` or `.hi`".to_owned()),
    }
}
