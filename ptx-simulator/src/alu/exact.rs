//! Binary floating point on integers: any format, any rounding mode, one rounding at the end.
//!
//! The processor rounds to nearest even only, so the instructions that round otherwise, and the conversions between
//! formats that it lacks, come here. Clarity before speed: hot instructions don't.

/// How a number that lies between two neighbours of a format is rounded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rounding {
    /// To the nearer neighbour, halfway to the even one (`.rn`).
    NearestEven,
    /// Toward zero (`.rz`).
    Zero,
    /// Toward negative infinity (`.rm`).
    Down,
    /// Toward positive infinity (`.rp`).
    Up,
    /// To the nearer neighbour, halfway away from zero (`.rna`).
    NearestAway,
}

impl Rounding {
    const ALL: [Rounding; 5] =
        [Rounding::NearestEven, Rounding::Zero, Rounding::Down, Rounding::Up, Rounding::NearestAway];

    /// The mode as a small number, to travel in [`super::Operands::extra`].
    pub(super) const fn code(self) -> u32 {
        self as u32
    }

    /// The mode of a number that [`Rounding::code`] gave.
    pub(super) fn from_code(code: u32) -> Rounding {
        Rounding::ALL.get(code as usize).copied().unwrap_or(Rounding::NearestEven)
    }
}

/// A binary interchange format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Format {
    /// Bits of the significand, the implicit one counted in.
    pub(super) precision: u32,
    /// Bits of the exponent field.
    pub(super) exponent_bits: u32,
    /// What an instruction gives for "not a number".
    pub(super) nan: u64,
}

pub(super) const F16: Format = Format { precision: 11, exponent_bits: 5, nan: 0x7fff };
pub(super) const BF16: Format = Format { precision: 8, exponent_bits: 8, nan: 0x7fff };
pub(super) const F32: Format = Format { precision: 24, exponent_bits: 8, nan: 0x7fff_ffff };
pub(super) const F64: Format = Format { precision: 53, exponent_bits: 11, nan: 0xfff8_0000_0000_0000 };

impl Format {
    const fn bias(self) -> i32 {
        (1 << (self.exponent_bits - 1)) - 1
    }

    pub(super) const fn sign_bit(self) -> u64 {
        1 << (self.precision - 1 + self.exponent_bits)
    }

    pub(super) const fn infinity(self) -> u64 {
        ((1 << self.exponent_bits) - 1) << (self.precision - 1)
    }
}

/// The value of a bit pattern: (-1)^negative * significand * 2^exponent.
///
/// A result that isn't exact has the lowest bit of a long significand set in place of the rest that was cut off: the
/// rounding below can't tell it from the true value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Number {
    Nan,
    Infinite { negative: bool },
    Finite { negative: bool, exponent: i32, significand: u128 },
}

use Number::{Finite, Infinite, Nan};

impl Number {
    pub(super) fn from_bits(bits: u64, format: Format) -> Number {
        let negative = bits & format.sign_bit() != 0;
        let fraction_bits = format.precision - 1;
        let fraction = bits & ((1 << fraction_bits) - 1);
        let field = ((bits & format.infinity()) >> fraction_bits) as i32;
        let smallest = 1 - format.bias() - fraction_bits as i32;
        if bits & format.infinity() == format.infinity() {
            return if fraction == 0 { Infinite { negative } } else { Nan };
        }
        if field == 0 {
            return Finite { negative, exponent: smallest, significand: fraction as u128 };
        }
        Finite { negative, exponent: smallest + field - 1, significand: (fraction | 1 << fraction_bits) as u128 }
    }

    pub(super) fn from_integer(value: i128) -> Number {
        Finite { negative: value < 0, exponent: 0, significand: value.unsigned_abs() }
    }

    pub(super) fn into_bits(self, format: Format, rounding: Rounding) -> u64 {
        let fraction_bits = format.precision - 1;
        match self {
            Nan => format.nan,
            Infinite { negative } => signed(negative, format.infinity(), format),
            Finite { negative, significand: 0, .. } => signed(negative, 0, format),
            Finite { negative, exponent, significand } => {
                let top = exponent + 127 - significand.leading_zeros() as i32;
                let smallest = 1 - format.bias() - fraction_bits as i32;
                let last_place = (top - fraction_bits as i32).max(smallest);
                let (kept, rest) = split(significand, last_place - exponent);
                let rounded = kept as u64 + rounds_away(rounding, negative, kept & 1 != 0, rest) as u64;
                // A carry out of the significand runs into the exponent field, just as it should.
                let field = (last_place - smallest) as u64;
                let normal = rounded >> fraction_bits != 0;
                let magnitude = if normal { (field << fraction_bits) + rounded } else { rounded };
                if magnitude < format.infinity() {
                    return signed(negative, magnitude, format);
                }
                let stays_finite = match rounding {
                    Rounding::Zero => true,
                    Rounding::Down => !negative,
                    Rounding::Up => negative,
                    _ => false,
                };
                signed(negative, if stays_finite { format.infinity() - 1 } else { format.infinity() }, format)
            }
        }
    }

    /// Like [`Number::into_bits`], with zero in place of a number that is subnormal after rounding with an unlimited
    /// exponent.
    pub(super) fn into_flushed_bits(self, format: Format, rounding: Rounding) -> u64 {
        if let Finite { negative, exponent, significand } = self
            && significand != 0
        {
            let top = exponent + 127 - significand.leading_zeros() as i32;
            let fraction_bits = format.precision as i32 - 1;
            let (kept, rest) = split(significand, top - fraction_bits - exponent);
            let rounded = kept + rounds_away(rounding, negative, kept & 1 != 0, rest) as u128;
            // A carry makes the next power of two.
            let top = top + (rounded >> format.precision) as i32;
            if top < 1 - format.bias() {
                return signed(negative, 0, format);
            }
        }
        self.into_bits(format, rounding)
    }

    pub(super) fn negate(self) -> Number {
        match self {
            Nan => Nan,
            Infinite { negative } => Infinite { negative: !negative },
            Finite { negative, exponent, significand } => Finite { negative: !negative, exponent, significand },
        }
    }

    /// The sum. Significands of up to 106 bits beside one of up to 53 keep their exactness, which serves fma.
    pub(super) fn add(self, other: Number, rounding: Rounding) -> Number {
        match (self, other) {
            (Nan, _) | (_, Nan) => Nan,
            (Infinite { negative: a }, Infinite { negative: b }) => {
                if a == b {
                    self
                } else {
                    Nan
                }
            }
            (Infinite { .. }, _) => self,
            (_, Infinite { .. }) => other,
            (
                Finite { negative: a_negative, exponent: a_exponent, significand: a },
                Finite { negative: b_negative, exponent: b_exponent, significand: b },
            ) => {
                if a == 0 && b == 0 {
                    let negative = if a_negative == b_negative { a_negative } else { rounding == Rounding::Down };
                    return Finite { negative, exponent: 0, significand: 0 };
                }
                if a == 0 {
                    return other;
                }
                if b == 0 {
                    return self;
                }
                // Both with the top bit at 125, so that a sum fits; then the smaller goes down to the larger's place.
                let (a_shift, b_shift) = (a.leading_zeros() as i32 - 2, b.leading_zeros() as i32 - 2);
                let (a, a_exponent) = (shift_left(a, a_shift), a_exponent - a_shift);
                let (b, b_exponent) = (shift_left(b, b_shift), b_exponent - b_shift);
                let exponent = a_exponent.max(b_exponent);
                let (a, b) = (jam(a, exponent - a_exponent), jam(b, exponent - b_exponent));
                if a_negative == b_negative {
                    return Finite { negative: a_negative, exponent, significand: a + b };
                }
                match a.cmp(&b) {
                    std::cmp::Ordering::Equal => {
                        Finite { negative: rounding == Rounding::Down, exponent: 0, significand: 0 }
                    }
                    std::cmp::Ordering::Greater => Finite { negative: a_negative, exponent, significand: a - b },
                    std::cmp::Ordering::Less => Finite { negative: b_negative, exponent, significand: b - a },
                }
            }
        }
    }

    /// The exact product of numbers with up to 64 bits of significand.
    pub(super) fn multiply(self, other: Number) -> Number {
        match (self, other) {
            (Nan, _) | (_, Nan) => Nan,
            (Infinite { negative: a }, Infinite { negative: b }) => Infinite { negative: a != b },
            (Infinite { negative: a }, Finite { negative: b, significand, .. })
            | (Finite { negative: a, significand, .. }, Infinite { negative: b }) => {
                if significand == 0 {
                    Nan
                } else {
                    Infinite { negative: a != b }
                }
            }
            (
                Finite { negative: a_negative, exponent: a_exponent, significand: a },
                Finite { negative: b_negative, exponent: b_exponent, significand: b },
            ) => Finite { negative: a_negative != b_negative, exponent: a_exponent + b_exponent, significand: a * b },
        }
    }

    /// The quotient of numbers with up to 53 bits of significand, to more than 64 bits.
    pub(super) fn divide(self, other: Number) -> Number {
        match (self, other) {
            (Nan, _) | (_, Nan) | (Infinite { .. }, Infinite { .. }) => Nan,
            (Infinite { negative: a }, Finite { negative: b, .. }) => Infinite { negative: a != b },
            (Finite { negative: a, .. }, Infinite { negative: b }) => {
                Finite { negative: a != b, exponent: 0, significand: 0 }
            }
            (
                Finite { negative: a_negative, exponent: a_exponent, significand: a },
                Finite { negative: b_negative, exponent: b_exponent, significand: b },
            ) => {
                let negative = a_negative != b_negative;
                if b == 0 {
                    return if a == 0 { Nan } else { Infinite { negative } };
                }
                if a == 0 {
                    return Finite { negative, exponent: 0, significand: 0 };
                }
                let shift = a.leading_zeros() as i32;
                let a = a << shift;
                let quotient = (a / b) | !a.is_multiple_of(b) as u128;
                Finite { negative, exponent: a_exponent - shift - b_exponent, significand: quotient }
            }
        }
    }

    /// The square root of a number with up to 53 bits of significand, to 63 bits.
    pub(super) fn square_root(self) -> Number {
        match self {
            Nan | Infinite { negative: true } => Nan,
            Infinite { negative: false } | Finite { significand: 0, .. } => self,
            Finite { negative: true, .. } => Nan,
            Finite { negative: false, exponent, significand } => {
                let mut shift = significand.leading_zeros() as i32 - 1;
                if (exponent - shift) % 2 != 0 {
                    shift -= 1;
                }
                let radicand = significand << shift;
                let root = radicand.isqrt();
                Finite {
                    negative: false,
                    exponent: (exponent - shift) / 2,
                    significand: root << 1 | (root * root != radicand) as u128,
                }
                .scale(-1)
            }
        }
    }

    /// The number times a power of two.
    pub(super) fn scale(self, by: i32) -> Number {
        match self {
            Finite { negative, exponent, significand } => Finite { negative, exponent: exponent + by, significand },
            other => other,
        }
    }
}

fn signed(negative: bool, magnitude: u64, format: Format) -> u64 {
    if negative { magnitude | format.sign_bit() } else { magnitude }
}

/// What was cut off, against half a unit of the last place kept.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Rest {
    Nothing,
    BelowHalf,
    Half,
    AboveHalf,
}

/// Cuts `count` bits off, or appends zeros if it is negative.
fn split(significand: u128, count: i32) -> (u128, Rest) {
    if count <= 0 {
        return (shift_left(significand, -count), Rest::Nothing);
    }
    if count > 128 {
        return (0, if significand == 0 { Rest::Nothing } else { Rest::BelowHalf });
    }
    let kept = significand.checked_shr(count as u32).unwrap_or(0);
    let cut = if count == 128 { significand } else { significand & ((1 << count) - 1) };
    let half = 1_u128 << (count - 1);
    let rest = if cut == 0 {
        Rest::Nothing
    } else if cut < half {
        Rest::BelowHalf
    } else if cut == half {
        Rest::Half
    } else {
        Rest::AboveHalf
    };
    (kept, rest)
}

fn rounds_away(rounding: Rounding, negative: bool, odd: bool, rest: Rest) -> bool {
    match rounding {
        _ if rest == Rest::Nothing => false,
        Rounding::NearestEven => rest == Rest::AboveHalf || rest == Rest::Half && odd,
        Rounding::NearestAway => rest != Rest::BelowHalf,
        Rounding::Zero => false,
        Rounding::Down => negative,
        Rounding::Up => !negative,
    }
}

/// `value << count`, or to the right for a negative count with no bits lost (the callers' significands are short).
fn shift_left(value: u128, count: i32) -> u128 {
    if count >= 0 { value.checked_shl(count as u32).unwrap_or(0) } else { jam(value, -count) }
}

/// `value >> count` with the lowest bit set if anything was cut off.
fn jam(value: u128, count: i32) -> u128 {
    let (kept, rest) = split(value, count);
    kept | (rest != Rest::Nothing) as u128
}

/// An instruction before its rounding: operands as bit patterns of the format, unused ones zero.
pub(super) type Instruction = fn([Number; 3], Rounding) -> Number;

pub(super) fn sum([a, b, _]: [Number; 3], rounding: Rounding) -> Number {
    a.add(b, rounding)
}

pub(super) fn difference([a, b, _]: [Number; 3], rounding: Rounding) -> Number {
    a.add(b.negate(), rounding)
}

pub(super) fn product([a, b, _]: [Number; 3], _: Rounding) -> Number {
    a.multiply(b)
}

pub(super) fn fused_product_sum([a, b, c]: [Number; 3], rounding: Rounding) -> Number {
    a.multiply(b).add(c, rounding)
}

pub(super) fn quotient([a, b, _]: [Number; 3], _: Rounding) -> Number {
    a.divide(b)
}

pub(super) fn reciprocal([a, _, _]: [Number; 3], _: Rounding) -> Number {
    Number::from_integer(1).divide(a)
}

pub(super) fn root([a, _, _]: [Number; 3], _: Rounding) -> Number {
    a.square_root()
}
