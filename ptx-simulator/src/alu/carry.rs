//! Extended-precision arithmetic: sums, differences and products that pass a carry on in the condition code.

use super::lanes::{
    Element, Kernel, Level, Source, Sources, answer_byte, choose, pack, with_type, write_predicate, write_row,
};
use super::modifiers::Modifiers;
use super::{CARRY, Choice, Operands, Row, Selected, Types};

/// Takes a carry in; the result has one in its second part.
trait CarryOperation {
    type Sources: Sources;
    type Destination: Element;
    fn apply(sources: Self::Sources, carry: bool) -> (Self::Destination, bool);
}

/// Bits of `extra`: whether the carry is read, whether it is written.
const READS: u32 = 1;
const WRITES: u32 = 2;

struct Carrying<O>(O);

impl<O: CarryOperation> Kernel for Carrying<O> {
    #[inline(always)]
    unsafe fn run(rows: *mut Row, masks: *mut u32, operands: &Operands, active: u32) {
        // SAFETY: passed on to the caller, who vouches for mask CARRY too.
        unsafe {
            let carry_in = if operands.extra & READS != 0 { *masks.add(CARRY as usize) } else { 0 };
            let views = O::Sources::views(rows, masks, operands);
            let mut result = [<O::Destination as Element>::Lane::default(); 32];
            let mut carry_out = [0; 32];
            for (lane, result) in result.iter_mut().enumerate() {
                let (value, carry) = O::apply(O::Sources::lane(views, lane), <bool as Source>::lane(carry_in, lane));
                *result = value.into_lane();
                carry_out[lane] = answer_byte(carry);
            }
            write_row(rows, operands.destination, &result, active);
            if operands.extra & WRITES != 0 {
                write_predicate(masks, CARRY, pack(&carry_out), active);
            }
        }
    }
}

macro_rules! carrying {
    (|$($name:ident : $source:ty),+; $carry:ident| -> $destination:ty $body:block) => {{
        struct Instruction;
        impl CarryOperation for Instruction {
            type Sources = ($($source,)+);
            type Destination = $destination;
            #[inline(always)]
            fn apply(($($name,)+): Self::Sources, $carry: bool) -> ($destination, bool) $body
        }
        Selected {
            function: choose::<Carrying<Instruction>>(Level::Portable),
            destinations: Types::new(&[<$destination as Element>::TYPE]),
            sources: Types::new(<($($source,)+) as Sources>::TYPES),
            extra: 0,
        }
    }};
}

pub(super) fn select(opcode: &str, modifiers: &mut Modifiers) -> Choice {
    let reads_carry = matches!(opcode, "addc" | "subc" | "madc");
    let writes_carry = modifiers.take("cc");
    let half = modifiers.take_one_of(&["lo", "hi"]);
    let found = modifiers.take_type()?;
    let selected = match (opcode, half) {
        ("add" | "addc", None) => with_type!(found, T in [U32 | S32 => u32, U64 | S64 => u64], {
            carrying!(|a: T, b: T; carry| -> T { a.carrying_add(b, carry) })
        }),
        // The condition code of a difference is its borrow.
        ("sub" | "subc", None) => with_type!(found, T in [U32 | S32 => u32, U64 | S64 => u64], {
            carrying!(|a: T, b: T; carry| -> T { a.borrowing_sub(b, carry) })
        }),
        ("mad" | "madc", Some("lo")) => with_type!(found, T in [U32 | S32 => u32, U64 | S64 => u64], {
            carrying!(|a: T, b: T, c: T; carry| -> T { a.wrapping_mul(b).carrying_add(c, carry) })
        }),
        ("mad" | "madc", Some(_)) => with_type!(found, T in [U32 => u32, U64 => u64, S32 => i32, S64 => i64], {
            carrying!(|a: T, b: T, c: T; carry| -> T {
                let high = ((a as i128).wrapping_mul(b as i128) >> T::BITS) as u64;
                let (sum, carry) = add_with_carry(high, c as u64, carry, T::BITS);
                (sum as T, carry)
            })
        }),
        _ => Err("it is not one of the forms with a carry: add, sub, mad.lo, mad.hi".to_owned()),
    };
    selected.map(|selected| Selected {
        extra: if reads_carry { READS } else { 0 } | if writes_carry { WRITES } else { 0 },
        ..selected
    })
}

/// The sum of the low `bits` bits and whether it went beyond them.
#[inline(always)]
fn add_with_carry(a: u64, b: u64, carry: bool, bits: u32) -> (u64, bool) {
    let mask = u64::MAX >> (64 - bits);
    let sum = (a & mask) as u128 + (b & mask) as u128 + carry as u128;
    (sum as u64 & mask, sum >> bits != 0)
}
