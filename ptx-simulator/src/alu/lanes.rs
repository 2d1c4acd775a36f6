//! The loop over the 32 lanes of a warp, written once for all instructions.
//!
//! An instruction is a type without values that implements [`Operation`] (or a more special trait of this module); the
//! [`lanes!`] macro makes one from something that looks like a closure. [`Kernel::run`] is always inlined into one of
//! the three shells at the end, each compiled for other processor features, so that the same source becomes
//! plain, AVX2 or AVX-512 code.

pub(super) use crate::processor::Level;

use super::{LaneFunction, Operands, Row, Selected, Type, Types, negate_source};

/// A value as it lies in a lane of a row.
pub(super) trait Lane: Copy + Default {
    /// `new` in a lane that is active, else `old`, without a branch.
    fn blend(old: Self, new: Self, active: u32, lane: usize) -> Self;
}

impl Lane for u32 {
    #[inline(always)]
    fn blend(old: u32, new: u32, active: u32, lane: usize) -> u32 {
        let keep = 0_u32.wrapping_sub((active >> lane) & 1);
        old ^ ((old ^ new) & keep)
    }
}

impl Lane for u64 {
    #[inline(always)]
    fn blend(old: u64, new: u64, active: u32, lane: usize) -> u64 {
        let keep = 0_u64.wrapping_sub(((active >> lane) & 1) as u64);
        old ^ ((old ^ new) & keep)
    }
}

/// A value in a row register.
pub(super) trait Element: Copy {
    const TYPE: Type;
    type Lane: Lane;
    fn from_lane(lane: Self::Lane) -> Self;
    fn into_lane(self) -> Self::Lane;
}

macro_rules! element {
    ($($name:ty: $lane:ty as $kind:ident, |$raw:ident| $from:expr, |$value:ident| $into:expr;)*) => {$(
        impl Element for $name {
            const TYPE: Type = Type::$kind;
            type Lane = $lane;
            #[inline(always)]
            fn from_lane($raw: $lane) -> Self { $from }
            #[inline(always)]
            fn into_lane(self) -> $lane { let $value = self; $into }
        }
    )*};
}

/// Sixteen bits that are a binary16 number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct F16(pub(super) u16);
/// Sixteen bits that are a bfloat16 number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct BF16(pub(super) u16);
/// Two binary16 numbers in 32 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct F16x2(pub(super) u32);
/// Two bfloat16 numbers in 32 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct BF16x2(pub(super) u32);
/// Two unsigned 16-bit integers in 32 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct U16x2(pub(super) u32);
/// Two signed 16-bit integers in 32 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct S16x2(pub(super) u32);

/// Two 8-bit floats with 4 bits of exponent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct E4M3x2(pub(super) u16);
/// Two 8-bit floats with 5 bits of exponent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct E5M2x2(pub(super) u16);

element! {
    u8: u32 as U8, |raw| raw as u8, |value| value as u32;
    i8: u32 as S8, |raw| raw as i8, |value| value as i32 as u32;
    u16: u32 as U16, |raw| raw as u16, |value| value as u32;
    i16: u32 as S16, |raw| raw as i16, |value| value as u16 as u32;
    u32: u32 as U32, |raw| raw, |value| value;
    i32: u32 as S32, |raw| raw as i32, |value| value as u32;
    u64: u64 as U64, |raw| raw, |value| value;
    i64: u64 as S64, |raw| raw as i64, |value| value as u64;
    f32: u32 as F32, |raw| f32::from_bits(raw), |value| value.to_bits();
    f64: u64 as F64, |raw| f64::from_bits(raw), |value| value.to_bits();
    F16: u32 as F16, |raw| F16(raw as u16), |value| value.0 as u32;
    BF16: u32 as BF16, |raw| BF16(raw as u16), |value| value.0 as u32;
    F16x2: u32 as F16x2, |raw| F16x2(raw), |value| value.0;
    BF16x2: u32 as BF16x2, |raw| BF16x2(raw), |value| value.0;
    E4M3x2: u32 as E4M3x2, |raw| E4M3x2(raw as u16), |value| value.0 as u32;
    E5M2x2: u32 as E5M2x2, |raw| E5M2x2(raw as u16), |value| value.0 as u32;
    U16x2: u32 as U16x2, |raw| U16x2(raw), |value| value.0;
    S16x2: u32 as S16x2, |raw| S16x2(raw), |value| value.0;
}

/// A source operand: an [`Element`] of a row, or `bool` for a predicate.
pub(super) trait Source: Copy {
    const TYPE: Type;
    type View: Copy;
    /// Finds the operand at `position`.
    ///
    /// # Safety
    /// As [`LaneFunction`].
    unsafe fn view(rows: *const Row, masks: *const u32, operands: &Operands, position: usize) -> Self::View;
    /// Reads one lane below 32.
    ///
    /// # Safety
    /// As [`LaneFunction`].
    unsafe fn lane(view: Self::View, lane: usize) -> Self;
}

impl<E: Element> Source for E {
    const TYPE: Type = E::TYPE;
    type View = *const E::Lane;

    #[inline(always)]
    unsafe fn view(rows: *const Row, _: *const u32, operands: &Operands, position: usize) -> Self::View {
        // SAFETY: the caller's operands name rows inside the register file.
        unsafe { rows.add(operands.sources[position] as usize).cast() }
    }

    #[inline(always)]
    unsafe fn lane(view: Self::View, lane: usize) -> Self {
        // SAFETY: a register has 32 lanes of this size (one row of words or two of doublewords), aligned as Row.
        E::from_lane(unsafe { *view.add(lane) })
    }
}

impl Source for bool {
    const TYPE: Type = Type::Pred;
    type View = u32;

    #[inline(always)]
    unsafe fn view(_: *const Row, masks: *const u32, operands: &Operands, position: usize) -> u32 {
        // SAFETY: passed on to the caller.
        unsafe { predicate_source(masks, operands, position) }
    }

    #[inline(always)]
    unsafe fn lane(view: u32, lane: usize) -> bool {
        (view >> lane) & 1 != 0
    }
}

/// The mask of a predicate source, negated where the text says so.
///
/// # Safety
/// As [`LaneFunction`].
#[inline(always)]
pub(super) unsafe fn predicate_source(masks: *const u32, operands: &Operands, position: usize) -> u32 {
    let negated = if operands.extra & negate_source(position) != 0 { u32::MAX } else { 0 };
    // SAFETY: the caller's operands name masks inside the predicate file.
    unsafe { *masks.add(operands.sources[position] as usize) ^ negated }
}

/// Writes the active lanes of a predicate, if it is there.
///
/// # Safety
/// As [`LaneFunction`].
#[inline(always)]
pub(super) unsafe fn write_predicate(masks: *mut u32, index: u32, value: u32, active: u32) {
    if index != super::UNUSED {
        // SAFETY: the caller's operands name masks inside the predicate file.
        unsafe {
            let mask = masks.add(index as usize);
            *mask = (*mask & !active) | (value & active);
        }
    }
}

/// Writes the active lanes of a row register.
///
/// # Safety
/// As [`LaneFunction`].
#[inline(always)]
pub(super) unsafe fn write_row<L: Lane>(rows: *mut Row, index: u32, result: &[L; 32], active: u32) {
    // SAFETY: the caller's operands name rows inside the register file; 32 lanes of this size fill the register.
    unsafe {
        let destination = rows.add(index as usize).cast::<L>();
        if active == u32::MAX {
            destination.cast::<[L; 32]>().write(*result);
        } else {
            for (lane, &new) in result.iter().enumerate() {
                let old = *destination.add(lane);
                *destination.add(lane) = L::blend(old, new, active, lane);
            }
        }
    }
}

/// The sources of an instruction as a tuple.
pub(super) trait Sources: Copy {
    const TYPES: &'static [Type];
    type Views: Copy;
    /// # Safety
    /// As [`LaneFunction`].
    unsafe fn views(rows: *const Row, masks: *const u32, operands: &Operands) -> Self::Views;
    /// # Safety
    /// As [`LaneFunction`].
    unsafe fn lane(views: Self::Views, lane: usize) -> Self;
}

macro_rules! sources {
    ($($name:ident $position:tt),+) => {
        impl<$($name: Source),+> Sources for ($($name,)+) {
            const TYPES: &'static [Type] = &[$($name::TYPE),+];
            type Views = ($($name::View,)+);

            #[inline(always)]
            unsafe fn views(rows: *const Row, masks: *const u32, operands: &Operands) -> Self::Views {
                // SAFETY: passed on to the caller.
                unsafe { ($($name::view(rows, masks, operands, $position),)+) }
            }

            #[inline(always)]
            unsafe fn lane(views: Self::Views, lane: usize) -> Self {
                // SAFETY: passed on to the caller.
                unsafe { ($($name::lane(views.$position, lane),)+) }
            }
        }
    };
}
sources!(A 0);
sources!(A 0, B 1);
sources!(A 0, B 1, C 2);
sources!(A 0, B 1, C 2, D 3);

/// An instruction that gives one row register from its sources.
pub(super) trait Operation {
    type Sources: Sources;
    type Destination: Element;
    fn apply(sources: Self::Sources, extra: u32) -> Self::Destination;

    /// Whether this result is one of the rare ones that [`Operation::revise`] has to compute again.
    #[inline(always)]
    fn is_doubtful(_: Self::Destination) -> bool {
        false
    }

    /// The slow and sure way to a doubtful result.
    #[inline(always)]
    fn revise(sources: Self::Sources, extra: u32) -> Self::Destination {
        Self::apply(sources, extra)
    }
}

/// A test that gives one bit from its sources; comparisons build on it.
pub(super) trait Test {
    type Sources: Sources;
    fn apply(sources: Self::Sources, extra: u32) -> bool;

    /// The answers of all lanes as a mask.
    ///
    /// # Safety
    /// As [`LaneFunction`].
    #[inline(always)]
    unsafe fn mask(rows: *const Row, masks: *const u32, operands: &Operands) -> u32 {
        // SAFETY: passed on to the caller.
        let views = unsafe { Self::Sources::views(rows, masks, operands) };
        let mut answers = [0; 32];
        for (lane, answer) in answers.iter_mut().enumerate() {
            // SAFETY: as above.
            *answer = answer_byte(Self::apply(unsafe { Self::Sources::lane(views, lane) }, operands.extra));
        }
        pack(&answers)
    }
}

/// A yes or no as a byte of [`pack`].
#[inline(always)]
pub(super) fn answer_byte(answer: bool) -> u8 {
    0_u8.wrapping_sub(answer as u8)
}

/// Makes a mask of 32 bytes that are all ones or all zeros.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
pub(super) fn pack(answers: &[u8; 32]) -> u32 {
    use std::arch::x86_64::{_mm_loadu_si128, _mm_movemask_epi8};
    // SAFETY: both loads stay inside the array; SSE2 is part of every x86-64 processor.
    unsafe {
        let low = _mm_movemask_epi8(_mm_loadu_si128(answers.as_ptr().cast()));
        let high = _mm_movemask_epi8(_mm_loadu_si128(answers.as_ptr().add(16).cast()));
        low as u32 | (high as u32) << 16
    }
}

/// Makes a mask of 32 bytes that are all ones or all zeros.
#[cfg(not(target_arch = "x86_64"))]
#[inline(always)]
pub(super) fn pack(answers: &[u8; 32]) -> u32 {
    answers.iter().enumerate().fold(0, |mask, (lane, &answer)| mask | (answer as u32 & 1) << lane)
}

/// Something that can run on a warp: the body that the shells below are made from.
pub(super) trait Kernel {
    /// # Safety
    /// As [`LaneFunction`].
    unsafe fn run(rows: *mut Row, masks: *mut u32, operands: &Operands, active: u32);
}

/// Runs an [`Operation`] on all lanes.
struct Map<O>(O);

impl<O: Operation> Kernel for Map<O> {
    #[inline(always)]
    unsafe fn run(rows: *mut Row, masks: *mut u32, operands: &Operands, active: u32) {
        // SAFETY: passed on to the caller.
        unsafe {
            let views = O::Sources::views(rows, masks, operands);
            let mut result = [<O::Destination as Element>::Lane::default(); 32];
            for (lane, result) in result.iter_mut().enumerate() {
                *result = O::apply(O::Sources::lane(views, lane), operands.extra).into_lane();
            }
            let doubtful =
                result.iter().fold(false, |any, &lane| any | O::is_doubtful(O::Destination::from_lane(lane)));
            if doubtful {
                for (lane, result) in result.iter_mut().enumerate() {
                    if O::is_doubtful(O::Destination::from_lane(*result)) {
                        *result = O::revise(O::Sources::lane(views, lane), operands.extra).into_lane();
                    }
                }
            }
            write_row(rows, operands.destination, &result, active);
        }
    }
}

/// The function and the types of an [`Operation`].
pub(super) fn mapped<O: Operation>(level: Level) -> Selected {
    Selected {
        function: choose::<Map<O>>(level),
        destinations: Types::new(&[<O::Destination as Element>::TYPE]),
        sources: Types::new(O::Sources::TYPES),
        extra: 0,
    }
}

/// The shell of a kernel for the level.
pub(super) fn choose<K: Kernel>(level: Level) -> LaneFunction {
    match level {
        Level::Portable => run_portable::<K>,
        #[cfg(target_arch = "x86_64")]
        Level::Avx2 => run_avx2::<K>,
        #[cfg(target_arch = "x86_64")]
        Level::Avx512 => run_avx512::<K>,
    }
}

/// # Safety
/// As [`LaneFunction`].
unsafe fn run_portable<K: Kernel>(rows: *mut Row, masks: *mut u32, operands: &Operands, active: u32) {
    // SAFETY: passed on to the caller.
    unsafe { K::run(rows, masks, operands, active) }
}

/// # Safety
/// As [`LaneFunction`], and the processor must have the features, which [`Level::detected`] saw to.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma,f16c,bmi1,bmi2,lzcnt,popcnt")]
unsafe fn run_avx2<K: Kernel>(rows: *mut Row, masks: *mut u32, operands: &Operands, active: u32) {
    // SAFETY: passed on to the caller.
    unsafe { K::run(rows, masks, operands, active) }
}

/// # Safety
/// As [`LaneFunction`], and the processor must have the features, which [`Level::detected`] saw to.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma,f16c,bmi1,bmi2,lzcnt,popcnt,avx512f,avx512bw,avx512dq,avx512vl,avx512cd")]
unsafe fn run_avx512<K: Kernel>(rows: *mut Row, masks: *mut u32, operands: &Operands, active: u32) {
    // SAFETY: passed on to the caller.
    unsafe { K::run(rows, masks, operands, active) }
}

/// Makes an [`Operation`] and gives its [`Selected`]: `lanes!(level, |a: u32, b: u32| -> u32 { a & b })`.
///
/// A name after a semicolon, `|a: f32; extra|`, is bound to [`Operands::extra`]. With `doubtful |result| { .. } revise
/// { .. }` behind the body, lanes whose result is doubtful are computed again the slow way.
macro_rules! lanes {
    ($level:expr, |$($name:ident : $source:ty),+| -> $destination:ty $body:block) => {
        $crate::alu::lanes::lanes!($level, |$($name : $source),+; _extra| -> $destination $body)
    };
    ($level:expr, |$($name:ident : $source:ty),+; $extra:ident| -> $destination:ty $body:block) => {{
        struct Instruction;
        impl $crate::alu::lanes::Operation for Instruction {
            type Sources = ($($source,)+);
            type Destination = $destination;
            #[inline(always)]
            fn apply(($($name,)+): Self::Sources, $extra: u32) -> $destination $body
        }
        $crate::alu::lanes::mapped::<Instruction>($level)
    }};
    ($level:expr, |$($name:ident : $source:ty),+; $extra:ident| -> $destination:ty $body:block
        doubtful |$result:ident| $doubtful:block revise $revised:block) => {{
        struct Instruction;
        impl $crate::alu::lanes::Operation for Instruction {
            type Sources = ($($source,)+);
            type Destination = $destination;
            #[inline(always)]
            fn apply(($($name,)+): Self::Sources, $extra: u32) -> $destination $body
            #[inline(always)]
            fn is_doubtful($result: $destination) -> bool $doubtful
            #[inline(always)]
            fn revise(($($name,)+): Self::Sources, $extra: u32) -> $destination $revised
        }
        $crate::alu::lanes::mapped::<Instruction>($level)
    }};
}
pub(super) use lanes;

/// Evaluates an expression with a name bound to the Rust type of a [`Type`]:
/// `with_type!(found, T in [U32 => u32, S32 => i32], lanes!(level, |a: T| -> T { a }))`. Gives `Err` for other types.
macro_rules! with_type {
    ($found:expr, $alias:ident in [$($($variant:ident)|+ => $rust:ty),* $(,)?], $body:expr) => {{
        let found: $crate::alu::Type = $found;
        match found {
            $($($crate::alu::Type::$variant)|+ => { type $alias = $rust; Ok($body) })*
            #[allow(unreachable_patterns)]
            _ => Err($crate::alu::modifiers::wrong_type(found)),
        }
    }};
}
pub(super) use with_type;

/// Binds two names to the constants that the flags are, so that each combination becomes a function of its own.
macro_rules! with_flags {
    ($ftz:expr, $sat:expr, $F:ident, $S:ident, $body:expr) => {
        match ($ftz, $sat) {
            (false, false) => {
                const $F: bool = false;
                const $S: bool = false;
                $body
            }
            (true, false) => {
                const $F: bool = true;
                const $S: bool = false;
                $body
            }
            (false, true) => {
                const $F: bool = false;
                const $S: bool = true;
                $body
            }
            (true, true) => {
                const $F: bool = true;
                const $S: bool = true;
                $body
            }
        }
    };
}
pub(super) use with_flags;
