//! Logic, shifts, moves and everything else that treats a register as bits.

use super::lanes::{Kernel, Level, Source, choose, lanes, with_type, write_row};
use super::modifiers::{Modifiers, wrong_type};
use super::{Choice, Operands, Row, Selected, Type, Types};

pub(super) fn select(level: Level, opcode: &str, modifiers: &mut Modifiers) -> Choice {
    if opcode == "lop3" {
        return ternary_logic(level, modifiers);
    }
    if opcode == "prmt" {
        return permute(level, modifiers);
    }
    let found = modifiers.take_type()?;
    plain(level, opcode, found, modifiers).map(|selected| selected.typed(found))
}

fn plain(level: Level, opcode: &str, found: Type, modifiers: &mut Modifiers) -> Choice {
    // Rarely hot: one portable version each keeps the build small.
    let cold = Level::Portable;
    match opcode {
        "mov" => with_type!(found, T in [
            B16 | U16 | S16 | F16 | BF16 => u16,
            B32 | U32 | S32 | F32 | F16x2 | BF16x2 | U16x2 | S16x2 => u32,
            B64 | U64 | S64 | F64 => u64,
        ], {
            lanes!(level, |a: T| -> T { a })
        }),
        "and" => with_type!(found, T in [B16 => u16, B32 => u32, B64 => u64], {
            lanes!(level, |a: T, b: T| -> T { a & b })
        }),
        "or" => with_type!(found, T in [B16 => u16, B32 => u32, B64 => u64], {
            lanes!(level, |a: T, b: T| -> T { a | b })
        }),
        "xor" => with_type!(found, T in [B16 => u16, B32 => u32, B64 => u64], {
            lanes!(level, |a: T, b: T| -> T { a ^ b })
        }),
        "not" => with_type!(found, T in [B16 => u16, B32 => u32, B64 => u64], lanes!(level, |a: T| -> T { !a })),
        "cnot" => with_type!(found, T in [B16 => u16, B32 => u32, B64 => u64], {
            lanes!(cold, |a: T| -> T { (a == 0) as T })
        }),
        // Amounts beyond the width count as the width: zeros, or copies of the sign.
        "shl" => with_type!(found, T in [B16 => u16, B32 => u32, B64 => u64], {
            lanes!(level, |a: T, amount: u32| -> T { if amount < T::BITS { a << (amount & (T::BITS - 1)) } else { 0 } })
        }),
        "shr" => match found {
            Type::S16 | Type::S32 | Type::S64 => with_type!(found, T in [S16 => i16, S32 => i32, S64 => i64], {
                lanes!(level, |a: T, amount: u32| -> T { a >> amount.min(T::BITS - 1) })
            }),
            _ => with_type!(found, T in [B16 | U16 => u16, B32 | U32 => u32, B64 | U64 => u64], {
                lanes!(level, |a: T, amount: u32| -> T {
                    if amount < T::BITS { a >> (amount & (T::BITS - 1)) } else { 0 }
                })
            }),
        },
        "shf" => funnel_shift(level, found, modifiers),
        "popc" => {
            with_type!(found, T in [B32 => u32, B64 => u64], lanes!(level, |a: T| -> u32 { a.count_ones() }))
        }
        "clz" => {
            with_type!(found, T in [B32 => u32, B64 => u64], lanes!(level, |a: T| -> u32 { a.leading_zeros() }))
        }
        "brev" => with_type!(found, T in [B32 => u32, B64 => u64], lanes!(cold, |a: T| -> T { a.reverse_bits() })),
        "bfind" if modifiers.take("shiftamt") => {
            with_type!(found, T in [U32 => u32, S32 => i32, U64 => u64, S64 => i64], {
                lanes!(cold, |a: T| -> u32 {
                    let zeros = significant(a as i128, T::BITS, T::MIN != 0).leading_zeros() - (128 - T::BITS);
                    if zeros == T::BITS { u32::MAX } else { zeros }
                })
            })
        }
        "bfind" => with_type!(found, T in [U32 => u32, S32 => i32, U64 => u64, S64 => i64], {
            lanes!(cold, |a: T| -> u32 {
                127_u32.wrapping_sub(significant(a as i128, T::BITS, T::MIN != 0).leading_zeros())
            })
        }),
        "fns" => match found {
            Type::B32 => Ok(lanes!(cold, |mask: u32, base: u32, offset: i32| -> u32 { nth_set(mask, base, offset) })),
            _ => Err(wrong_type(found)),
        },
        "bfe" => with_type!(found, T in [U32 => u32, S32 => i32, U64 => u64, S64 => i64], {
            lanes!(level, |a: T, position: u32, length: u32| -> T {
                let (position, length) = (position & 0xff, length & 0xff);
                // Bits above the register read as its sign, or as zero: an arithmetic shift of the register's type.
                let field = if position < T::BITS {
                    a >> (position & (T::BITS - 1))
                } else if T::MIN == 0 {
                    0
                } else {
                    a >> (T::BITS - 1)
                };
                let unused = T::BITS - length.clamp(1, T::BITS);
                if length == 0 { 0 } else { (field << unused) >> unused }
            })
        }),
        "bfi" => with_type!(found, T in [B32 => u32, B64 => u64], {
            lanes!(level, |a: T, b: T, position: u32, length: u32| -> T {
                let (position, length) = (position & 0xff, length & 0xff);
                let ones = if length == 0 { 0 } else { T::MAX >> (T::BITS - length.min(T::BITS)) };
                let inside = position < T::BITS;
                let shift = position & (T::BITS - 1);
                let field = if inside { ones << shift } else { 0 };
                (b & !field) | ((a << shift) & field)
            })
        }),
        "bmsk" => match (found, modifiers.take_one_of(&["clamp", "wrap"])) {
            (Type::B32, Some("clamp")) => Ok(lanes!(cold, |position: u32, width: u32| -> u32 {
                ones_below(position.saturating_add(width)) & !ones_below(position)
            })),
            (Type::B32, Some(_)) => Ok(lanes!(cold, |position: u32, width: u32| -> u32 {
                let (position, width) = (position & 31, width & 31);
                ones_below(position + width) & !ones_below(position)
            })),
            (Type::B32, None) => Err("it needs `.clamp` or `.wrap`".to_owned()),
            _ => Err(wrong_type(found)),
        },
        "szext" => match modifiers.take_one_of(&["clamp", "wrap"]) {
            Some("clamp") => with_type!(found, T in [U32 => u32, S32 => i32], {
                lanes!(cold, |a: T, width: u32| -> T {
                    let unused = 32 - width.clamp(1, 32);
                    if width == 0 { 0 } else { (a << unused) >> unused }
                })
            }),
            Some(_) => with_type!(found, T in [U32 => u32, S32 => i32], {
                lanes!(cold, |a: T, width: u32| -> T {
                    let unused = 32 - (width & 31).max(1);
                    if width & 31 == 0 { 0 } else { (a << unused) >> unused }
                })
            }),
            None => Err("it needs `.clamp` or `.wrap`".to_owned()),
        },
        _ => Err("it has no form on bits".to_owned()),
    }
}

/// The `count` lowest bits set.
#[inline(always)]
fn ones_below(count: u32) -> u32 {
    if count >= 32 { u32::MAX } else { (1 << count) - 1 }
}

/// The bits of `a` that differ from its sign, or all bits of an unsigned number, in the low `bits` bits.
#[inline(always)]
fn significant(a: i128, bits: u32, signed: bool) -> u128 {
    let a = if signed && a < 0 { !a } else { a };
    a as u128 & (u128::MAX >> (128 - bits))
}

/// Position of the n-th set bit of `mask` from `base` (below 32) on: upwards for positive `offset`, downwards for
/// negative, the base itself for 0; all ones if there is none.
fn nth_set(mask: u32, base: u32, offset: i32) -> u32 {
    let set = |position: i64| (0..32).contains(&position) && (mask >> position) & 1 != 0;
    let base = base as i64;
    if offset == 0 {
        return if set(base) { base as u32 } else { u32::MAX };
    }
    let step = offset.signum() as i64;
    let mut left = offset.unsigned_abs();
    let mut position = base;
    while (0..32).contains(&position) {
        if set(position) {
            left -= 1;
            if left == 0 {
                return position as u32;
            }
        }
        position += step;
    }
    u32::MAX
}

fn funnel_shift(level: Level, found: Type, modifiers: &mut Modifiers) -> Choice {
    #[inline(always)]
    fn pair(low: u32, high: u32) -> u64 {
        (high as u64) << 32 | low as u64
    }
    let direction = modifiers.take_one_of(&["l", "r"]);
    let mode = modifiers.take_one_of(&["clamp", "wrap"]);
    if found != Type::B32 {
        return Err(wrong_type(found));
    }
    match (direction, mode) {
        (Some("l"), Some("clamp")) => Ok(lanes!(level, |low: u32, high: u32, amount: u32| -> u32 {
            ((pair(low, high) << amount.min(32)) >> 32) as u32
        })),
        (Some("l"), Some(_)) => Ok(lanes!(level, |low: u32, high: u32, amount: u32| -> u32 {
            ((pair(low, high) << (amount & 31)) >> 32) as u32
        })),
        (Some(_), Some("clamp")) => {
            Ok(lanes!(level, |low: u32, high: u32, amount: u32| -> u32 { (pair(low, high) >> amount.min(32)) as u32 }))
        }
        (Some(_), Some(_)) => {
            Ok(lanes!(level, |low: u32, high: u32, amount: u32| -> u32 { (pair(low, high) >> (amount & 31)) as u32 }))
        }
        _ => Err("it needs `.l` or `.r` and `.clamp` or `.wrap`".to_owned()),
    }
}

/// The function of three bits that bit `a b c` of the table gives, on all bits at once: three levels of choices, by
/// `c`, then `b`, then `a`. The table is an immediate, so lane 0 of its row is as good as any.
struct TernaryLogic;

#[inline(always)]
fn choose_bits(by: u32, if_set: u32, if_clear: u32) -> u32 {
    ((if_set ^ if_clear) & by) ^ if_clear
}

impl TernaryLogic {
    /// # Safety
    /// As [`super::LaneFunction`].
    #[inline(always)]
    unsafe fn result(rows: *const Row, masks: *const u32, operands: &Operands) -> [u32; 32] {
        // SAFETY: passed on to the caller.
        unsafe {
            let a = <u32 as Source>::view(rows, masks, operands, 0);
            let b = <u32 as Source>::view(rows, masks, operands, 1);
            let c = <u32 as Source>::view(rows, masks, operands, 2);
            let table = <u32 as Source>::lane(<u32 as Source>::view(rows, masks, operands, 3), 0);
            let entry = |index: u32| 0_u32.wrapping_sub((table >> index) & 1);
            let entries = [entry(0), entry(1), entry(2), entry(3), entry(4), entry(5), entry(6), entry(7)];
            let mut result = [0; 32];
            for (lane, result) in result.iter_mut().enumerate() {
                let (a, b, c) =
                    (<u32 as Source>::lane(a, lane), <u32 as Source>::lane(b, lane), <u32 as Source>::lane(c, lane));
                let without_a =
                    choose_bits(b, choose_bits(c, entries[3], entries[2]), choose_bits(c, entries[1], entries[0]));
                let with_a =
                    choose_bits(b, choose_bits(c, entries[7], entries[6]), choose_bits(c, entries[5], entries[4]));
                *result = choose_bits(a, with_a, without_a);
            }
            result
        }
    }
}

impl Kernel for TernaryLogic {
    #[inline(always)]
    unsafe fn run(rows: *mut Row, masks: *mut u32, operands: &Operands, active: u32) {
        // SAFETY: passed on to the caller.
        unsafe {
            let result = Self::result(rows, masks, operands);
            write_row(rows, operands.destination, &result, active);
        }
    }
}

fn ternary_logic(level: Level, modifiers: &mut Modifiers) -> Choice {
    if modifiers.has("and") || modifiers.has("or") {
        return Err("the form with a predicate result is not done: use lop3.b32 and setp".to_owned());
    }
    let found = modifiers.take_type()?;
    if found != Type::B32 {
        return Err(wrong_type(found));
    }
    Ok(Selected {
        function: choose::<TernaryLogic>(level),
        destinations: Types::new(&[Type::B32]),
        sources: Types::new(&[Type::B32, Type::B32, Type::B32, Type::U32]),
        extra: 0,
    })
}

/// `prmt`: four bytes out of eight, each chosen by a nibble of the selector, or by one of the fixed patterns.
fn permute(level: Level, modifiers: &mut Modifiers) -> Choice {
    /// Byte `selector & 7` of the pair; with bit 3 its sign in all bits.
    #[inline(always)]
    fn byte(low: u32, high: u32, selector: u32) -> u32 {
        let word = if selector & 4 != 0 { high } else { low };
        let byte = (word >> (8 * (selector & 3))) & 0xff;
        if selector & 8 != 0 { 0xff * (byte >> 7) } else { byte }
    }

    #[inline(always)]
    fn bytes(low: u32, high: u32, selector: u32) -> u32 {
        byte(low, high, selector)
            | byte(low, high, selector >> 4) << 8
            | byte(low, high, selector >> 8) << 16
            | byte(low, high, selector >> 12) << 24
    }

    /// The selectors of the fixed patterns, by pattern and by the low two bits of the third operand.
    const PATTERNS: [[u16; 4]; 6] = [
        [0x3210, 0x4321, 0x5432, 0x6543],
        [0x5670, 0x6701, 0x7012, 0x0123],
        [0x0000, 0x1111, 0x2222, 0x3333],
        [0x3210, 0x3211, 0x3222, 0x3333],
        [0x0000, 0x1110, 0x2210, 0x3210],
        [0x1010, 0x3232, 0x1010, 0x3232],
    ];
    const NAMES: [&str; 6] = ["f4e", "b4e", "rc8", "ecl", "ecr", "rc16"];

    let pattern = NAMES.iter().position(|name| modifiers.take(name));
    let found = modifiers.take_type()?;
    if found != Type::B32 {
        return Err(wrong_type(found));
    }
    let Some(pattern) = pattern else {
        return Ok(lanes!(level, |low: u32, high: u32, selector: u32| -> u32 { bytes(low, high, selector) }));
    };
    let mut selected = lanes!(Level::Portable, |low: u32, high: u32, selector: u32; extra| -> u32 {
        bytes(low, high, PATTERNS[(extra % 6) as usize][(selector & 3) as usize] as u32)
    });
    selected.extra = pattern as u32;
    Ok(selected)
}
