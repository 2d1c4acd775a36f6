//! Logic on predicate registers: a warp's predicate is a mask, so each instruction is one operation on words.

use super::lanes::{Kernel, Level, choose, predicate_source, write_predicate};
use super::modifiers::Modifiers;
use super::{Choice, Operands, Row, Selected, Type, Types};

/// The function of two bits whose values for `a b` = 00, 01, 10, 11 are the low four bits of `extra`.
struct Logic;

const AND: u32 = 0b1000;
const OR: u32 = 0b1110;
const XOR: u32 = 0b0110;

impl Kernel for Logic {
    #[inline(always)]
    unsafe fn run(_: *mut Row, masks: *mut u32, operands: &Operands, active: u32) {
        // SAFETY: passed on to the caller.
        unsafe {
            let a = predicate_source(masks, operands, 0);
            let b = predicate_source(masks, operands, 1);
            let entry = |index: u32| 0_u32.wrapping_sub((operands.extra >> index) & 1);
            let result = (!a & !b & entry(0)) | (!a & b & entry(1)) | (a & !b & entry(2)) | (a & b & entry(3));
            write_predicate(masks, operands.destination, result, active);
        }
    }
}

/// `mov.pred`, and `not.pred` with the negation of its source toggled.
struct Copy;

impl Kernel for Copy {
    #[inline(always)]
    unsafe fn run(_: *mut Row, masks: *mut u32, operands: &Operands, active: u32) {
        // SAFETY: passed on to the caller.
        unsafe {
            let a = predicate_source(masks, operands, 0);
            write_predicate(masks, operands.destination, a, active);
        }
    }
}

pub(super) fn select(level: Level, opcode: &str, modifiers: &mut Modifiers) -> Choice {
    modifiers.take_type()?;
    let (function, sources, extra) = match opcode {
        "and" => (choose::<Logic>(level), 2, AND),
        "or" => (choose::<Logic>(level), 2, OR),
        "xor" => (choose::<Logic>(level), 2, XOR),
        "not" => (choose::<Copy>(level), 1, super::negate_source(0)),
        "mov" => (choose::<Copy>(level), 1, 0),
        _ => return Err("it has no form on predicates".to_owned()),
    };
    Ok(Selected {
        function,
        destinations: Types::new(&[Type::Pred]),
        sources: Types::new(&[Type::Pred, Type::Pred][..sources]),
        extra,
    })
}
