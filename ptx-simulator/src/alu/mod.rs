//! Exact arithmetic of one warp: every PTX instruction whose result in a lane depends on that lane's operands alone.
//!
//! The decoder hands an opcode and its modifiers to [`select`] and gets back the operand types and one function
//! pointer; the executor calls that pointer with the warp's register rows, its predicate masks and the lanes that are
//! active. Nothing here touches memory spaces, control flow or other lanes.
//!
//! # Registers
//! A register of 32 bits or fewer is one [`Row`]: lane `i` is word `i`. An 8-bit or 16-bit register uses the low bits
//! of its lane; **readers must ignore the bits above**, because a converting write may leave sign bits there.
//! A 64-bit register is two consecutive rows seen as `[u64; 32]`. A predicate is a `u32` mask with bit `i` for lane
//! `i`. Mask [`CARRY`] holds the condition code of `add.cc` and its relatives, mask [`ALWAYS`] is all ones and is for
//! the executor's use.
//!
//! A destination may be the very register of a source: all lanes are computed before any is written. Two registers that
//! are different must not overlap. Lanes that aren't active keep what they held.
//!
//! # How exact
//! Everything that PTX defines exactly is exact to the bit: integer operations, IEEE arithmetic in all rounding modes,
//! fused multiply-add with one rounding, conversions, comparisons. Where PTX leaves room, the choices are:
//! - a NaN made or passed on by `f32` arithmetic is `0x7fffffff`, by `f16` and `bf16` arithmetic `0x7fff`, as PTX says;
//!   `f64` arithmetic passes an operand's NaN on, quiet, and makes `0xfff8000000000000`, as Hopper does;
//! - `.approx` functions (`rcp`, `sqrt`, `rsqrt`, `ex2`, `lg2`, `sin`, `cos`, `tanh`, `div`) give the value computed in
//!   `f64` and rounded to the type, which is inside PTX's error bound; hardware differs in the last bits;
//! - integer division by zero gives all ones, quotient and remainder alike, as hardware does;
//! - with `.ftz` a result is flushed if it would be subnormal after rounding with an unlimited exponent, as hardware
//!   does: a result just below the smallest normal number is zero even where rounding would reach that number;
//! - bit-field positions and lengths count in their low eight bits, which is the range that PTX allows.
//!
//! # Speed
//! A function is a loop over 32 lanes that the compiler turns into vector code. Hot instructions exist three times: for
//! the baseline of the target, for AVX2 with FMA and for AVX-512. [`select`] picks by what the processor has; all
//! give the same bits.

mod bits;
mod carry;
mod compare;
mod convert;
mod exact;
mod float;
mod fp8;
mod half;
mod integer;
mod lanes;
mod modifiers;
mod predicate;
#[cfg(test)]
mod tests;

use std::ops::Deref;

pub(crate) use convert::nearest_tf32;
pub use half::f16_to_f32;

use lanes::Level;
use modifiers::Modifiers;

/// One 32-bit register of a warp: a word for each of the 32 lanes.
#[repr(C, align(128))]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row(pub [u32; 32]);

/// Index of the predicate mask that holds the carry (condition code) of `add.cc`, `subc`, `madc` and the like.
pub const CARRY: u32 = 0;
/// Index of the predicate mask that is all ones by convention of the register file.
pub const ALWAYS: u32 = 1;
/// Index that says that an operand isn't there.
pub const UNUSED: u32 = u32::MAX;

/// Bit in [`Operands::extra`] that negates the predicate source at `position` (`!p` in the text).
///
/// Toggle it into the value that [`Selected::extra`] holds.
pub const fn negate_source(position: usize) -> u32 {
    1 << (28 + position)
}

/// What an instruction works on: row indices, or mask indices for operands of type [`Type::Pred`].
///
/// A 64-bit register is named by its first row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Operands {
    /// The first destination.
    pub destination: u32,
    /// The second destination (`|q` of `setp`), or [`UNUSED`].
    pub destination2: u32,
    /// The sources in the order of the instruction's text; the rest is not read.
    pub sources: [u32; 4],
    /// [`Selected::extra`], with [`negate_source`] bits toggled for negated predicates.
    pub extra: u32,
}

/// Computes one instruction for the lanes in `active`.
///
/// # Safety
/// `rows` and `predicates` must be valid for reads and writes at every index that the operands name, by the types of
/// the [`Selected`] that the function comes from (two rows for 64-bit types; mask [`CARRY`] for carry instructions),
/// rows aligned as [`Row`] is, different registers not overlapping, and no other thread may access them meanwhile.
pub type LaneFunction = unsafe fn(rows: *mut Row, predicates: *mut u32, operands: &Operands, active: u32);

/// The type of an operand, as the instruction reads or writes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum Type {
    B8,
    U8,
    S8,
    B16,
    U16,
    S16,
    B32,
    U32,
    S32,
    B64,
    U64,
    S64,
    U16x2,
    S16x2,
    F16,
    F16x2,
    BF16,
    BF16x2,
    TF32,
    E4M3x2,
    E5M2x2,
    F32,
    F64,
    /// A predicate register: a mask.
    Pred,
}

impl Type {
    /// The type that a modifier names (`"s32"`, `"f16x2"`, `"pred"`), if it names one.
    pub fn from_modifier(modifier: &str) -> Option<Type> {
        Some(match modifier {
            "b8" => Type::B8,
            "u8" => Type::U8,
            "s8" => Type::S8,
            "b16" => Type::B16,
            "u16" => Type::U16,
            "s16" => Type::S16,
            "b32" => Type::B32,
            "u32" => Type::U32,
            "s32" => Type::S32,
            "b64" => Type::B64,
            "u64" => Type::U64,
            "s64" => Type::S64,
            "u16x2" => Type::U16x2,
            "s16x2" => Type::S16x2,
            "f16" => Type::F16,
            "f16x2" => Type::F16x2,
            "bf16" => Type::BF16,
            "bf16x2" => Type::BF16x2,
            "tf32" => Type::TF32,
            "e4m3x2" => Type::E4M3x2,
            "e5m2x2" => Type::E5M2x2,
            "f32" => Type::F32,
            "f64" => Type::F64,
            "pred" => Type::Pred,
            _ => return None,
        })
    }

    /// Width in bits; 1 for a predicate.
    pub const fn bits(self) -> u32 {
        match self {
            Type::Pred => 1,
            Type::B8 | Type::U8 | Type::S8 => 8,
            Type::B16 | Type::U16 | Type::S16 | Type::F16 | Type::BF16 | Type::E4M3x2 | Type::E5M2x2 => 16,
            Type::B64 | Type::U64 | Type::S64 | Type::F64 => 64,
            _ => 32,
        }
    }

    /// Rows that a register of this type takes: none for a predicate, 2 for 64 bits, else 1.
    #[cfg(test)]
    pub const fn rows(self) -> u32 {
        match self.bits() {
            1 => 0,
            64 => 2,
            _ => 1,
        }
    }

    /// Whether an immediate for this operand is a floating-point number (`f16` and packed types take integer bits).
    pub const fn is_float(self) -> bool {
        matches!(self, Type::F32 | Type::F64)
    }

    /// Whether the type is a signed integer.
    pub const fn is_signed(self) -> bool {
        matches!(self, Type::S8 | Type::S16 | Type::S32 | Type::S64)
    }

    /// Whether the type is an integer or plain bits, not packed.
    pub const fn is_integer(self) -> bool {
        matches!(
            self,
            Type::B8
                | Type::U8
                | Type::S8
                | Type::B16
                | Type::U16
                | Type::S16
                | Type::B32
                | Type::U32
                | Type::S32
                | Type::B64
                | Type::U64
                | Type::S64
        )
    }
}

/// Up to four operand types; a slice in all but name.
#[derive(Clone, Copy, Debug)]
pub struct Types {
    list: [Type; 4],
    length: u8,
}

impl Types {
    /// The types of `list`, at most four of them.
    pub(crate) const fn new(types: &[Type]) -> Types {
        assert!(types.len() <= 4);
        let mut list = [Type::Pred; 4];
        let mut index = 0;
        while index < types.len() {
            list[index] = types[index];
            index += 1;
        }
        Types { list, length: types.len() as u8 }
    }
}

impl Deref for Types {
    type Target = [Type];

    fn deref(&self) -> &[Type] {
        &self.list[..self.length as usize]
    }
}

/// What [`select`] found: the function and the operands that it expects.
#[derive(Clone, Copy, Debug)]
pub struct Selected {
    /// Computes the instruction.
    pub function: LaneFunction,
    /// Types of the destinations in the order of the text. The second one of `setp` (`p|q`) is optional in the text:
    /// leave [`Operands::destination2`] at [`UNUSED`] without it. A predicate destination `_` is [`UNUSED`] as well.
    pub destinations: Types,
    /// Types of the sources in the order of the text.
    pub sources: Types,
    /// Start value for [`Operands::extra`]: what the function needs to know of the modifiers.
    pub extra: u32,
}

impl Selected {
    /// Names the operands that are as wide as `found` by that type, where the function only knows their bits.
    fn typed(mut self, found: Type) -> Selected {
        for types in [&mut self.destinations, &mut self.sources] {
            for operand in &mut types.list[..types.length as usize] {
                if operand.bits() == found.bits() {
                    *operand = found;
                }
            }
        }
        self
    }
}

/// The instruction is not one that this module computes.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{instruction}` is not supported: {reason}")]
pub struct Unsupported {
    /// Opcode and modifiers as PTX writes them.
    pub instruction: String,
    /// What exactly is not understood.
    pub reason: String,
}

/// Widths in bits of the registers that stand in the text, for conversions.
///
/// PTX lets `cvt` read from and write to registers wider than the type it names. Only a 64-bit register changes how
/// lanes lie in the rows, so only that matters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Widths {
    /// The destination is a 64-bit register though the instruction's type may be narrower.
    pub destination_is_64: bool,
    /// The source is a 64-bit register though the instruction's type may be narrower.
    pub source_is_64: bool,
}

/// Finds the function for an instruction such as `("fma", ["rn", "f32"])` or `("setp", ["lt", "and", "s32"])`.
///
/// # Errors
/// [`Unsupported`] names the instruction and what about it isn't understood: an opcode of another part of the
/// simulator, a modifier that the opcode doesn't take, or a type that it doesn't take.
pub fn select(opcode: &str, modifiers: &[&str]) -> Result<Selected, Unsupported> {
    select_for(Level::detected(), opcode, modifiers, Widths::default())
}

/// Like [`select`], for `cvt` with a register wider than the type that the instruction names.
///
/// # Errors
/// As [`select`]; instructions other than `cvt` ignore `widths`, because PTX wants their registers to have the type's
/// width.
pub fn select_with_widths(opcode: &str, modifiers: &[&str], widths: Widths) -> Result<Selected, Unsupported> {
    select_for(Level::detected(), opcode, modifiers, widths)
}

fn select_for(level: Level, opcode: &str, modifiers: &[&str], widths: Widths) -> Result<Selected, Unsupported> {
    let mut rest = Modifiers::new(modifiers);
    let found = match opcode {
        "and" | "or" | "xor" | "not" | "mov" if rest.last_type() == Some(Type::Pred) => {
            predicate::select(level, opcode, &mut rest)
        }
        "add" | "addc" | "sub" | "subc" | "mad" | "madc"
            if matches!(opcode, "addc" | "subc" | "madc") || rest.has("cc") =>
        {
            carry::select(opcode, &mut rest)
        }
        "add" | "sub" | "mul" | "mad" | "fma" | "div" | "abs" | "neg" | "min" | "max" | "rcp" | "sqrt" | "rsqrt"
        | "ex2" | "lg2" | "sin" | "cos" | "tanh" | "copysign"
            if rest.is_half() =>
        {
            half::select(level, opcode, &mut rest)
        }
        "add" | "sub" | "mul" | "mad" | "fma" | "div" | "abs" | "neg" | "min" | "max" | "rcp" | "sqrt" | "rsqrt"
        | "ex2" | "lg2" | "sin" | "cos" | "tanh" | "copysign"
            if rest.is_real() =>
        {
            float::select(level, opcode, &mut rest)
        }
        "add" | "sub" | "mul" | "mad" | "mul24" | "mad24" | "sad" | "div" | "rem" | "abs" | "neg" | "min" | "max"
        | "dp4a" | "dp2a" => integer::select(level, opcode, &mut rest),
        "and" | "or" | "xor" | "not" | "cnot" | "lop3" | "shl" | "shr" | "shf" | "popc" | "clz" | "brev" | "bfind"
        | "fns" | "bfe" | "bfi" | "bmsk" | "szext" | "prmt" | "mov" => bits::select(level, opcode, &mut rest),
        "setp" | "set" | "selp" | "slct" | "testp" => compare::select(level, opcode, &mut rest),
        "cvt" => convert::select(level, &mut rest, widths),
        _ => Err("it is not a lane-wise instruction that the simulator knows".to_owned()),
    };
    found.and_then(|selected| rest.finish().map(|()| selected)).map_err(|reason| Unsupported {
        instruction: modifiers.iter().fold(opcode.to_owned(), |text, modifier| text + "." + modifier),
        reason,
    })
}

/// What a room of this module answers: the reason of a refusal is put together with the instruction by [`select`].
type Choice = Result<Selected, String>;
