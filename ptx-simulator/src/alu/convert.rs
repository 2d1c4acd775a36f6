//! `cvt`: conversions between integers and floats of all widths.
//!
//! Conversions of integers among themselves share a few functions that read widths and signs from `extra`. Those
//! between floats that the processor does in one step are functions of their own; the rest goes through [`exact`].

use super::exact::{self, Format, Number, Rounding};
use super::float;
use super::fp8;
use super::half::HalfFormat;
use super::lanes::{BF16, BF16x2, F16, F16x2, Level, lanes, with_type};
use super::modifiers::{Modifiers, wrong_type};
use super::{Choice, Selected, Type, Types, Widths};

/// Parts of `extra` for conversions that end in a float.
const ROUNDING: u32 = 7;
const FTZ: u32 = 1 << 3;
const SAT: u32 = 1 << 4;
const RELU: u32 = 1 << 5;
const SATURATE_FINITE: u32 = 1 << 6;
const FROM_SHIFT: u32 = 8;
const TO_SHIFT: u32 = 12;

/// Parts of `extra` for conversions of integers: widths in the low bits, then the flags.
const TARGET_SHIFT: u32 = 8;
const WIDTH: u32 = 0x7f;
const SOURCE_SIGNED: u32 = 1 << 16;
const TARGET_SIGNED: u32 = 1 << 17;
const CLAMP: u32 = 1 << 18;

pub(super) fn select(level: Level, modifiers: &mut Modifiers, widths: Widths) -> Choice {
    if modifiers.take("pack") {
        return pack(modifiers);
    }
    let (to, from) = (modifiers.take_type()?, modifiers.take_type()?);
    for found in [to, from] {
        if matches!(found, Type::Pred | Type::B8 | Type::B16 | Type::B32 | Type::B64 | Type::U16x2 | Type::S16x2) {
            return Err(wrong_type(found));
        }
    }
    if [to, from].iter().any(|found| matches!(found, Type::E4M3x2 | Type::E5M2x2)) {
        return fp8::select(to, from, modifiers);
    }
    let to_integer = to.is_integer();
    let from_integer = from.is_integer();
    // A register wider than its type is common for integers (sign extension inside a register), else refused.
    let wide_to = widths.destination_is_64 && to.bits() < 64;
    let wide_from = widths.source_is_64 && from.bits() < 64;
    if (wide_to || wide_from) && !(to_integer && from_integer) {
        return Err("a 64-bit register for a narrower type is done for integers only".to_owned());
    }
    match (to_integer, from_integer) {
        (true, true) => integers(level, to, from, wide_to, wide_from, modifiers),
        (true, false) => float_to_integer(level, to, from, modifiers),
        (false, true) => integer_to_float(level, to, from, modifiers),
        (false, false) => floats(level, to, from, modifiers),
    }
}

/// The low `width` bits, extended with the sign or with zeros.
#[inline(always)]
fn extend(value: u64, width: u32, signed: bool) -> u64 {
    let unused = (64 - width) & 63;
    let shifted = value << unused;
    if signed { ((shifted as i64) >> unused) as u64 } else { shifted >> unused }
}

/// Any conversion of integers, by the widths and signs in `extra`.
#[inline(always)]
fn convert_integer(value: u64, extra: u32) -> u64 {
    let source_width = extra & WIDTH;
    let target_width = (extra >> TARGET_SHIFT) & WIDTH;
    let (source_signed, target_signed) = (extra & SOURCE_SIGNED != 0, extra & TARGET_SIGNED != 0);
    let mut value = extend(value, source_width, source_signed);
    if extra & CLAMP != 0 {
        let largest = u64::MAX >> ((64 - target_width) & 63) >> target_signed as u32;
        let smallest = if target_signed { !(largest as i64) } else { 0 };
        value = if source_signed && (value as i64) < smallest {
            smallest as u64
        } else if source_signed && (value as i64) < 0 {
            value
        } else {
            value.min(largest)
        };
    }
    extend(value, target_width, target_signed)
}

fn integers(level: Level, to: Type, from: Type, wide_to: bool, wide_from: bool, modifiers: &mut Modifiers) -> Choice {
    let clamp = modifiers.take("sat");
    let extra = from.bits()
        | to.bits() << TARGET_SHIFT
        | if from.is_signed() { SOURCE_SIGNED } else { 0 }
        | if to.is_signed() { TARGET_SIGNED } else { 0 }
        | if clamp { CLAMP } else { 0 };
    // Without a clamp only the narrower of the two types matters, and its sign if it is the source.
    let simple = !clamp && !wide_from;
    let selected = match (to.bits(), from) {
        (64, Type::U32) if simple => lanes!(level, |a: u32| -> u64 { a as u64 }),
        (64, Type::S32) if simple => lanes!(level, |a: i32| -> i64 { a as i64 }),
        (64, Type::U16) if simple => lanes!(level, |a: u16| -> u64 { a as u64 }),
        (64, Type::S16) if simple => lanes!(level, |a: i16| -> i64 { a as i64 }),
        (64, Type::U8) if simple => lanes!(level, |a: u8| -> u64 { a as u64 }),
        (64, Type::S8) if simple => lanes!(level, |a: i8| -> i64 { a as i64 }),
        (32, Type::U64 | Type::S64) if simple && !wide_to => lanes!(level, |a: u64| -> u32 { a as u32 }),
        (32, Type::U16) if simple && !wide_to => lanes!(level, |a: u16| -> u32 { a as u32 }),
        (32, Type::S16) if simple && !wide_to => lanes!(level, |a: i16| -> i32 { a as i32 }),
        (32, Type::U8) if simple && !wide_to => lanes!(level, |a: u8| -> u32 { a as u32 }),
        (32, Type::S8) if simple && !wide_to => lanes!(level, |a: i8| -> i32 { a as i32 }),
        _ => match (to.bits() == 64 || wide_to, from.bits() == 64 || wide_from) {
            (true, true) => lanes!(level, |a: u64; extra| -> u64 { convert_integer(a, extra) }),
            (true, false) => lanes!(level, |a: u32; extra| -> u64 { convert_integer(a as u64, extra) }),
            (false, true) => lanes!(level, |a: u64; extra| -> u32 { convert_integer(a, extra) as u32 }),
            (false, false) => lanes!(level, |a: u32; extra| -> u32 { convert_integer(a as u64, extra) as u32 }),
        },
    };
    Ok(Selected { extra, destinations: Types::new(&[to]), sources: Types::new(&[from]), ..selected })
}

/// How a float is rounded to an integer.
fn take_integer_rounding(modifiers: &mut Modifiers) -> Option<Rounding> {
    modifiers.take_one_of(&["rni", "rzi", "rmi", "rpi"]).map(|mode| match mode {
        "rni" => Rounding::NearestEven,
        "rzi" => Rounding::Zero,
        "rmi" => Rounding::Down,
        _ => Rounding::Up,
    })
}

/// A float that becomes an integer of the same type. The mode is the same for all lanes.
trait ToInteger: Copy {
    const IS_F64: bool;
    fn integral(self, extra: u32) -> f64;
}

#[inline(always)]
fn integral64(a: f64, extra: u32) -> f64 {
    match Rounding::from_code(extra & ROUNDING) {
        Rounding::Zero => a.trunc(),
        Rounding::Down => a.floor(),
        Rounding::Up => a.ceil(),
        _ => a.round_ties_even(),
    }
}

impl ToInteger for f32 {
    const IS_F64: bool = false;
    #[inline(always)]
    fn integral(self, extra: u32) -> f64 {
        let a = if extra & FTZ != 0 { float::flush(self) } else { self };
        integral64(a as f64, extra)
    }
}

impl ToInteger for f64 {
    const IS_F64: bool = true;
    #[inline(always)]
    fn integral(self, extra: u32) -> f64 {
        integral64(self, extra)
    }
}

impl ToInteger for F16 {
    const IS_F64: bool = false;
    #[inline(always)]
    fn integral(self, extra: u32) -> f64 {
        integral64(self.to_f32() as f64, extra)
    }
}

impl ToInteger for BF16 {
    const IS_F64: bool = false;
    #[inline(always)]
    fn integral(self, extra: u32) -> f64 {
        integral64(self.to_f32() as f64, extra)
    }
}

/// An integral f64 as an integer: out of range gives the nearest end, NaN zero.
trait Saturating: Copy {
    fn from_integral(a: f64) -> Self;
}

macro_rules! saturating {
    ($($name:ident by $step:ident),*) => {$(
        impl Saturating for $name {
            #[inline(always)]
            fn from_integral(a: f64) -> $name {
                let number = if a.is_nan() { 0.0 } else { a };
                let inside = number.max($name::MIN as f64).min($name::MAX as f64);
                // SAFETY: the ends of the range are exact in f64, so the number fits the type and the step to it.
                unsafe { inside.to_int_unchecked::<$step>() as $name }
            }
        }
    )*};
}
// Vector code, unlike the saturating cast of the language.
saturating!(u8 by i32, i8 by i32, u16 by i32, i16 by i32, i32 by i32, u32 by u32);

impl Saturating for u64 {
    #[inline(always)]
    fn from_integral(a: f64) -> u64 {
        a as u64
    }
}

impl Saturating for i64 {
    #[inline(always)]
    fn from_integral(a: f64) -> i64 {
        a as i64
    }
}

/// Out of range gives the nearest end of the range. NaN gives zero, except from f64 or to 64 bits, where it gives the
/// pattern with only the top bit set.
fn float_to_integer(level: Level, to: Type, from: Type, modifiers: &mut Modifiers) -> Choice {
    let rounding = take_integer_rounding(modifiers).ok_or("it needs a rounding mode such as `.rzi`")?;
    let ftz = modifiers.take("ftz");
    if ftz && from != Type::F32 {
        return Err("`.ftz` goes with f32 only".to_owned());
    }
    // Saturation happens anyway.
    modifiers.take("sat");
    macro_rules! from {
        ($level:expr, $Source:ident) => {
            with_type!(to, T in [
                U8 => u8, S8 => i8, U16 => u16, S16 => i16, U32 => u32, S32 => i32, U64 => u64, S64 => i64,
            ], {
                lanes!($level, |a: $Source; extra| -> T {
                    let value = a.integral(extra);
                    if value.is_nan() && (<$Source as ToInteger>::IS_F64 || T::BITS == 64) {
                        (1 as T) << (T::BITS - 1)
                    } else {
                        T::from_integral(value)
                    }
                })
            })
        };
    }
    let selected = match (from, to) {
        (Type::F32, Type::S32) if rounding == Rounding::Zero && !ftz => {
            Ok(lanes!(level, |a: f32| -> i32 { i32::from_integral((a as f64).trunc()) }))
        }
        (Type::F32, Type::U32) if rounding == Rounding::Zero && !ftz => {
            Ok(lanes!(level, |a: f32| -> u32 { u32::from_integral((a as f64).trunc()) }))
        }
        (Type::F32, _) => from!(level, f32),
        (Type::F64, _) => from!(level, f64),
        (Type::F16, _) => from!(Level::Portable, F16),
        (Type::BF16, _) => from!(Level::Portable, BF16),
        _ => Err(wrong_type(from)),
    }?;
    Ok(Selected { extra: rounding.code() | if ftz { FTZ } else { 0 }, ..selected })
}

/// The formats by the code that stands in `extra`.
const FORMATS: [Format; 4] = [exact::F16, exact::BF16, exact::F32, exact::F64];

fn format_code(found: Type) -> Result<u32, String> {
    Ok(match found {
        Type::F16 => 0,
        Type::BF16 => 1,
        Type::F32 => 2,
        Type::F64 => 3,
        _ => return Err(wrong_type(found)),
    })
}

/// A finished number of any format with the flags of `extra` applied.
#[inline(never)]
fn finish(number: Number, extra: u32) -> u64 {
    let format = FORMATS[(extra >> TO_SHIFT) as usize & 3];
    let rounding = Rounding::from_code(extra & ROUNDING);
    let bits = if extra & FTZ != 0 && format == exact::F32 {
        number.into_flushed_bits(format, rounding)
    } else {
        number.into_bits(format, rounding)
    };
    let magnitude_bits = format.sign_bit() - 1;
    let negative = bits & format.sign_bit() != 0;
    let nan = bits & magnitude_bits > format.infinity();
    if extra & SAT != 0 {
        let one = Number::from_integer(1).into_bits(format, Rounding::NearestEven);
        return if nan || negative { 0 } else { bits.min(one) };
    }
    let bits = if extra & SATURATE_FINITE != 0 && bits & magnitude_bits == format.infinity() { bits - 1 } else { bits };
    if extra & RELU != 0 && negative && !nan {
        return 0;
    }
    bits
}

fn take_float_flags(modifiers: &mut Modifiers) -> u32 {
    let mut extra = 0;
    for (name, bit) in [("ftz", FTZ), ("sat", SAT), ("relu", RELU), ("satfinite", SATURATE_FINITE)] {
        if modifiers.take(name) {
            extra |= bit;
        }
    }
    extra
}

fn integer_to_float(level: Level, to: Type, from: Type, modifiers: &mut Modifiers) -> Choice {
    let rounding = modifiers.take_rounding().ok_or("it needs a rounding mode such as `.rn`")?;
    let flags = take_float_flags(modifiers);
    if flags & (RELU | SATURATE_FINITE) != 0 || flags & FTZ != 0 && to != Type::F32 {
        return Err("of the flags only `.sat` goes with integers".to_owned());
    }
    // No integer is subnormal.
    let flags = flags & SAT;
    if flags == 0 && rounding == Rounding::NearestEven && matches!(to, Type::F32 | Type::F64) {
        return with_type!(from, T in [
            U8 => u8, S8 => i8, U16 => u16, S16 => i16, U32 => u32, S32 => i32, U64 => u64, S64 => i64,
        ], {
            if to == Type::F32 {
                lanes!(level, |a: T| -> f32 { a as f32 })
            } else {
                lanes!(level, |a: T| -> f64 { a as f64 })
            }
        });
    }
    let extra = rounding.code() | flags | format_code(to)? << TO_SHIFT;
    let selected = with_type!(from, T in [
        U8 => u8, S8 => i8, U16 => u16, S16 => i16, U32 => u32, S32 => i32, U64 => u64, S64 => i64,
    ], {
        if to == Type::F64 {
            lanes!(Level::Portable, |a: T; extra| -> u64 { finish(Number::from_integer(a as i128), extra) })
        } else {
            lanes!(Level::Portable, |a: T; extra| -> u32 { finish(Number::from_integer(a as i128), extra) as u32 })
        }
    })?;
    Ok(Selected { extra, destinations: Types::new(&[to]), ..selected })
}

fn floats(level: Level, to: Type, from: Type, modifiers: &mut Modifiers) -> Choice {
    if matches!(to, Type::F16x2 | Type::BF16x2) {
        return pair(level, to, from, modifiers);
    }
    if to == Type::TF32 {
        return tensor_float(from, modifiers);
    }
    if let Some(rounding) = take_integer_rounding(modifiers) {
        return to_integral(level, to, from, rounding, modifiers);
    }
    let rounding = if modifiers.take("rna") { Some(Rounding::NearestAway) } else { modifiers.take_rounding() };
    let flags = take_float_flags(modifiers);
    let narrows = match (to, from) {
        (Type::F16, Type::BF16) | (Type::BF16, Type::F16) => true,
        _ => to.bits() < from.bits(),
    };
    if narrows && rounding.is_none() {
        return Err("a conversion to fewer bits needs a rounding mode such as `.rn`".to_owned());
    }
    if !narrows && rounding.is_some() {
        return Err("a conversion that is exact takes no rounding mode".to_owned());
    }
    if flags & FTZ != 0 && to != Type::F32 && from != Type::F32 {
        return Err("`.ftz` goes with f32 only".to_owned());
    }
    if flags & (RELU | SATURATE_FINITE) != 0 && !(matches!(to, Type::F16 | Type::BF16) && from == Type::F32) {
        return Err("`.relu` and `.satfinite` go with f16 and bf16 from f32 only".to_owned());
    }
    let rounding = rounding.unwrap_or(Rounding::NearestEven);
    match (to, from) {
        (Type::F32, Type::F64) if rounding == Rounding::NearestEven && flags == 0 => {
            return Ok(lanes!(level, |a: f64| -> f32 {
                let nan = narrow_nan(a.to_bits(), exact::F32) as u32;
                if a.is_nan() { f32::from_bits(nan) } else { a as f32 }
            }));
        }
        (Type::F64, Type::F32) if flags == 0 => {
            return Ok(lanes!(level, |a: f32| -> f64 { widen(a) }));
        }
        (Type::F32, Type::F16) if flags == 0 => {
            return Ok(lanes!(level, |a: F16| -> f32 { float::finish(a.to_f32(), false, false) }));
        }
        (Type::F32, Type::BF16) if flags == 0 => {
            return Ok(lanes!(level, |a: BF16| -> f32 { a.to_f32() }));
        }
        (Type::F64, Type::F16) if flags == 0 => return Ok(lanes!(level, |a: F16| -> f64 { widen(a.to_f32()) })),
        (Type::F64, Type::BF16) if flags == 0 => return Ok(lanes!(level, |a: BF16| -> f64 { widen(a.to_f32()) })),
        (Type::F32, Type::F32) if flags == 0 => return Ok(lanes!(level, |a: u32| -> u32 { a }).typed(to)),
        (Type::F64, Type::F64) if flags == 0 => return Ok(lanes!(level, |a: u64| -> u64 { a }).typed(to)),
        (Type::F16, Type::F32) if rounding == Rounding::NearestEven && flags == 0 => {
            return Ok(lanes!(level, |a: f32| -> F16 { F16::from_f32(a) }));
        }
        (Type::BF16, Type::F32) if rounding == Rounding::NearestEven && flags == 0 => {
            return Ok(lanes!(level, |a: f32| -> BF16 { BF16::from_f32(a) }));
        }
        _ => {}
    }
    let extra = rounding.code() | flags | format_code(from)? << FROM_SHIFT | format_code(to)? << TO_SHIFT;
    let cold = Level::Portable;
    let selected = match (to == Type::F64, from == Type::F64) {
        (true, true) => lanes!(cold, |a: u64; extra| -> u64 { convert(a, extra) }),
        (true, false) => lanes!(cold, |a: u32; extra| -> u64 { convert(a as u64, extra) }),
        (false, true) => lanes!(cold, |a: u64; extra| -> u32 { convert(a, extra) as u32 }),
        (false, false) => lanes!(cold, |a: u32; extra| -> u32 { convert(a as u64, extra) as u32 }),
    };
    Ok(Selected { extra, destinations: Types::new(&[to]), sources: Types::new(&[from]), ..selected })
}

/// An f32 as f64, a NaN with its payload.
#[inline(always)]
fn widen(a: f32) -> f64 {
    let bits = a.to_bits() as u64;
    let nan = (bits & 0x8000_0000) << 32 | 0x7ff8_0000_0000_0000 | (bits & 0x007f_ffff) << 29;
    if a.is_nan() { f64::from_bits(nan) } else { a as f64 }
}

/// What a conversion makes of the bits of an f64 NaN: the sign and the upper part of the payload stay.
#[inline(always)]
fn narrow_nan(bits: u64, to: Format) -> u64 {
    let fraction_bits = to.precision - 1;
    let sign = if bits >> 63 != 0 { to.sign_bit() } else { 0 };
    let payload = (bits & (u64::MAX >> 12)) >> (52 - fraction_bits);
    sign | to.infinity() | 1 << (fraction_bits - 1) | payload
}

/// Any conversion of floats, by the formats and flags in `extra`.
#[inline(never)]
fn convert(bits: u64, extra: u32) -> u64 {
    let from = FORMATS[(extra >> FROM_SHIFT) as usize & 3];
    // A 16-bit register may have anything above its 16 bits.
    let bits = bits & (from.sign_bit() << 1).wrapping_sub(1);
    let bits = if extra & FTZ != 0 && from == exact::F32 && bits & from.infinity() == 0 {
        bits & from.sign_bit()
    } else {
        bits
    };
    let number = Number::from_bits(bits, from);
    if number == Number::Nan && extra & SAT == 0 {
        let to = FORMATS[(extra >> TO_SHIFT) as usize & 3];
        if from == exact::F64 {
            return narrow_nan(bits, to);
        }
        if to == exact::F64 {
            return widen(f32::from_bits(exact::F32.nan as u32)).to_bits();
        }
    }
    finish(number, extra)
}

/// A float rounded to an integer that stays a float; zeros keep the sign.
fn to_integral(level: Level, to: Type, from: Type, rounding: Rounding, modifiers: &mut Modifiers) -> Choice {
    if to != from {
        return Err("rounding to an integer keeps the type of the float".to_owned());
    }
    let (ftz, sat) = (modifiers.take("ftz"), modifiers.take("sat"));
    if ftz && to != Type::F32 {
        return Err("`.ftz` goes with f32 only".to_owned());
    }
    let extra = rounding.code() | if ftz { FTZ } else { 0 } | if sat { SAT } else { 0 };
    let selected = match to {
        Type::F32 => lanes!(level, |a: f32; extra| -> f32 {
            let a = if extra & FTZ != 0 { float::flush(a) } else { a };
            let rounded = match Rounding::from_code(extra & ROUNDING) {
                Rounding::Zero => a.trunc(),
                Rounding::Down => a.floor(),
                Rounding::Up => a.ceil(),
                _ => a.round_ties_even(),
            };
            float::finish(rounded, false, extra & SAT != 0)
        }),
        Type::F64 => lanes!(level, |a: f64; extra| -> f64 {
            let rounded = integral64(a, extra);
            if extra & SAT != 0 {
                let positive = if rounded > 0.0 { rounded } else { 0.0 };
                if positive < 1.0 { positive } else { 1.0 }
            } else {
                float::finish64(rounded, [a])
            }
        }),
        Type::F16 | Type::BF16 if sat => return Err("`.sat` goes with f32 and f64 only".to_owned()),
        Type::F16 => lanes!(Level::Portable, |a: F16; extra| -> F16 { F16::from_f32(a.integral(extra) as f32) }),
        Type::BF16 => lanes!(Level::Portable, |a: BF16; extra| -> BF16 { BF16::from_f32(a.integral(extra) as f32) }),
        _ => return Err(wrong_type(to)),
    };
    Ok(Selected { extra, ..selected })
}

/// Two f32 into one register of halves: the first operand goes to the upper half.
fn pair(level: Level, to: Type, from: Type, modifiers: &mut Modifiers) -> Choice {
    if from != Type::F32 {
        return Err(wrong_type(from));
    }
    let rounding = modifiers.take_rounding().ok_or("it needs a rounding mode such as `.rn`")?;
    if !matches!(rounding, Rounding::NearestEven | Rounding::Zero) {
        return Err("only `.rn` and `.rz` exist".to_owned());
    }
    let flags = take_float_flags(modifiers);
    if flags & (SAT | FTZ) != 0 {
        return Err("of the flags only `.relu` and `.satfinite` go with a pair".to_owned());
    }
    if rounding == Rounding::NearestEven && flags == 0 {
        return Ok(if to == Type::F16x2 {
            lanes!(level, |a: f32, b: f32| -> F16x2 {
                F16x2((F16::from_f32(a).0 as u32) << 16 | F16::from_f32(b).0 as u32)
            })
        } else {
            lanes!(level, |a: f32, b: f32| -> BF16x2 {
                BF16x2((BF16::from_f32(a).0 as u32) << 16 | BF16::from_f32(b).0 as u32)
            })
        });
    }
    let half = if to == Type::F16x2 { Type::F16 } else { Type::BF16 };
    let extra = rounding.code() | flags | format_code(from)? << FROM_SHIFT | format_code(half)? << TO_SHIFT;
    let selected = lanes!(Level::Portable, |a: u32, b: u32; extra| -> u32 {
        (convert(a as u64, extra) as u32) << 16 | convert(b as u64, extra) as u32
    });
    Ok(Selected { extra, destinations: Types::new(&[to]), sources: Types::new(&[from, from]), ..selected })
}

/// f32 with its significand rounded to the 11 bits that tensor cores read; the other bits become zero.
/// The bits of an `f32` that a number of tf32 hasn't.
const TF32_CUT: u32 = 0x1fff;

/// The bits of the nearest number of tf32, halfway to even, as an `f32`; of what isn't finite, itself.
pub(crate) fn nearest_tf32(bits: u32) -> u32 {
    if f32::from_bits(bits).is_finite() { cut_to_tf32(bits, up_to_even(bits)) } else { bits }
}

/// What is added before the cut, so that it rounds to the nearest, halfway to even.
#[inline(always)]
fn up_to_even(bits: u32) -> u32 {
    0xfff + ((bits >> 13) & 1)
}

#[inline(always)]
fn cut_to_tf32(bits: u32, up: u32) -> u32 {
    // A NaN must not run into the sign.
    let magnitude = ((bits & 0x7fff_ffff) + up).min(0x7fff_ffff);
    bits & 0x8000_0000 | magnitude & !TF32_CUT
}

fn tensor_float(from: Type, modifiers: &mut Modifiers) -> Choice {
    if from != Type::F32 {
        return Err(wrong_type(from));
    }
    let rounding = match modifiers.take_one_of(&["rna", "rn", "rz"]) {
        Some("rna") => Rounding::NearestAway,
        Some("rn") => Rounding::NearestEven,
        Some(_) => Rounding::Zero,
        None => return Err("it needs `.rna`, `.rn` or `.rz`".to_owned()),
    };
    let relu = modifiers.take("relu");
    if relu && rounding == Rounding::NearestAway {
        return Err("`.relu` goes with `.rn` and `.rz` only".to_owned());
    }
    let selected = lanes!(Level::Portable, |a: f32; extra| -> u32 {
        let bits = a.to_bits();
        let up = match Rounding::from_code(extra & ROUNDING) {
            Rounding::NearestAway => 0x1000,
            Rounding::NearestEven => up_to_even(bits),
            _ => 0,
        };
        let rounded = cut_to_tf32(bits, up);
        if a.is_nan() && extra & ROUNDING != Rounding::NearestAway.code() {
            0x7fff_ffff & !TF32_CUT
        } else if extra & RELU != 0 && bits >> 31 != 0 {
            0
        } else {
            rounded
        }
    });
    let extra = rounding.code() | if relu { RELU } else { 0 };
    Ok(Selected { extra, destinations: Types::new(&[Type::B32]), ..selected })
}

/// `cvt.pack.sat`: two 32-bit integers clamped to a narrow type, side by side, the first one above; what is above the
/// two comes from a third operand.
fn pack(modifiers: &mut Modifiers) -> Choice {
    if !modifiers.take("sat") {
        return Err("it needs `.sat`".to_owned());
    }
    let to = modifiers.take_type()?;
    let from = modifiers.take_type()?;
    if from != Type::S32 {
        return Err(wrong_type(from));
    }
    let narrow = match to {
        Type::U8 | Type::S8 => {
            let rest = modifiers.take_type()?;
            if rest != Type::B32 {
                return Err(wrong_type(rest));
            }
            true
        }
        Type::U16 | Type::S16 => false,
        _ => return Err(wrong_type(to)),
    };
    let extra = 32 | to.bits() << TARGET_SHIFT | SOURCE_SIGNED | if to.is_signed() { TARGET_SIGNED } else { 0 } | CLAMP;
    let selected = if narrow {
        lanes!(Level::Portable, |a: i32, b: i32, c: u32; extra| -> u32 {
            let (a, b) = (convert_integer(a as u64, extra), convert_integer(b as u64, extra));
            c << 16 | (a as u8 as u32) << 8 | b as u8 as u32
        })
    } else {
        lanes!(Level::Portable, |a: i32, b: i32; extra| -> u32 {
            let (a, b) = (convert_integer(a as u64, extra), convert_integer(b as u64, extra));
            (a as u16 as u32) << 16 | b as u16 as u32
        })
    };
    Ok(Selected { extra, ..selected })
}
