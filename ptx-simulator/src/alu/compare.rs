//! Comparisons, tests, and the selections that use their results.

use std::marker::PhantomData;

use super::half::HalfFormat;
use super::lanes::{
    BF16, BF16x2, F16, F16x2, Kernel, Level, Source, Test, choose, lanes, predicate_source, with_type, write_predicate,
    write_row,
};
use super::modifiers::{Modifiers, wrong_type};
use super::{Choice, Operands, Row, Selected, Type, Types, UNUSED};

/// The test's answers are turned around.
const INVERT: u32 = 1;
/// How the answers are combined with the predicate that is the last source.
const COMBINE_AND: u32 = 1 << 1;
const COMBINE_OR: u32 = 2 << 1;
const COMBINE_XOR: u32 = 3 << 1;
const COMBINE: u32 = 3 << 1;
/// Which relations of two numbers count as true, for [`RelationTest`].
const LESS: u32 = 1 << 4;
const EQUAL: u32 = 1 << 5;
const GREATER: u32 = 1 << 6;
const UNORDERED: u32 = 1 << 7;
/// Subnormal operands count as zeros.
const FLUSH: u32 = 1 << 8;
/// Where the code of the value for "true" is, for `set`.
const TRUTH_SHIFT: u32 = 10;
/// All bits, 1.0 of f32, f16 and bf16, and all 16 bits.
const TRUTHS: [u32; 5] = [u32::MAX, 0x3f80_0000, 0x3c00, 0x3f80, 0xffff];

/// Which of less, equal, greater and unordered two numbers are.
trait Relation: Source {
    fn relation(self, other: Self, flush: bool) -> [bool; 4];
}

macro_rules! integer_relation {
    ($($name:ty),*) => {$(
        impl Relation for $name {
            #[inline(always)]
            fn relation(self, other: Self, _: bool) -> [bool; 4] {
                [self < other, self == other, self > other, false]
            }
        }
    )*};
}
integer_relation!(u16, i16, u32, i32, u64, i64);

impl Relation for f32 {
    #[inline(always)]
    fn relation(self, other: f32, flush: bool) -> [bool; 4] {
        let (a, b) = if flush { (super::float::flush(self), super::float::flush(other)) } else { (self, other) };
        [a < b, a == b, a > b, a.is_nan() | b.is_nan()]
    }
}

impl Relation for f64 {
    #[inline(always)]
    fn relation(self, other: f64, _: bool) -> [bool; 4] {
        [self < other, self == other, self > other, self.is_nan() | other.is_nan()]
    }
}

macro_rules! half_relation {
    ($($name:ident),*) => {$(
        impl Relation for $name {
            #[inline(always)]
            fn relation(self, other: Self, flush: bool) -> [bool; 4] {
                let (a, b) = if flush { (self.flush(), other.flush()) } else { (self, other) };
                a.to_f32().relation(b.to_f32(), false)
            }
        }
    )*};
}
half_relation!(F16, BF16);

/// Any comparison of two numbers: the relations that count as true stand in `extra`.
struct RelationTest<T>(PhantomData<T>);

#[inline(always)]
fn relation_holds<T: Relation>(a: T, b: T, extra: u32) -> bool {
    let [less, equal, greater, unordered] = a.relation(b, extra & FLUSH != 0);
    (less & (extra & LESS != 0))
        | (equal & (extra & EQUAL != 0))
        | (greater & (extra & GREATER != 0))
        | (unordered & (extra & UNORDERED != 0))
}

impl<T: Relation> Test for RelationTest<T> {
    type Sources = (T, T);
    #[inline(always)]
    fn apply((a, b): (T, T), extra: u32) -> bool {
        relation_holds(a, b, extra)
    }
}

/// The lower or upper halves of two packed registers.
struct LowTest<T>(PhantomData<T>);
struct HighTest<T>(PhantomData<T>);

macro_rules! packed_test {
    ($($packed:ident of $half:ident),*) => {$(
        impl Test for LowTest<$packed> {
            type Sources = ($packed, $packed);
            #[inline(always)]
            fn apply((a, b): Self::Sources, extra: u32) -> bool {
                relation_holds($half(a.0 as u16), $half(b.0 as u16), extra)
            }
        }
        impl Test for HighTest<$packed> {
            type Sources = ($packed, $packed);
            #[inline(always)]
            fn apply((a, b): Self::Sources, extra: u32) -> bool {
                relation_holds($half((a.0 >> 16) as u16), $half((b.0 >> 16) as u16), extra)
            }
        }
    )*};
}
packed_test!(F16x2 of F16, BF16x2 of BF16);

/// The answers after `and`, `or` or `xor` with the predicate at `position`.
///
/// # Safety
/// As [`super::LaneFunction`].
#[inline(always)]
unsafe fn combine(answers: u32, masks: *const u32, operands: &Operands, position: usize) -> u32 {
    let how = operands.extra & COMBINE;
    if how == 0 {
        return answers;
    }
    // SAFETY: passed on to the caller.
    let other = unsafe { predicate_source(masks, operands, position) };
    match how {
        COMBINE_AND => answers & other,
        COMBINE_OR => answers | other,
        _ => answers ^ other,
    }
}

/// `setp`: the answers into one predicate, their opposites into another.
struct SetPredicates<T>(T);

impl<T: Test> Kernel for SetPredicates<T> {
    #[inline(always)]
    unsafe fn run(rows: *mut Row, masks: *mut u32, operands: &Operands, active: u32) {
        // SAFETY: passed on to the caller.
        unsafe {
            let inverted = 0_u32.wrapping_sub(operands.extra & INVERT);
            let answers = T::mask(rows, masks, operands) ^ inverted;
            let first = combine(answers, masks, operands, 2);
            // Both before any is written: the third source may be a destination.
            if operands.destination2 != UNUSED {
                let second = combine(!answers, masks, operands, 2);
                write_predicate(masks, operands.destination2, second, active);
            }
            write_predicate(masks, operands.destination, first, active);
        }
    }
}

/// `setp` of packed halves: the lower halves' answer and the upper halves' answer.
struct SetPackedPredicates<L, H>(L, H);

impl<L: Test, H: Test> Kernel for SetPackedPredicates<L, H> {
    #[inline(always)]
    unsafe fn run(rows: *mut Row, masks: *mut u32, operands: &Operands, active: u32) {
        // SAFETY: passed on to the caller.
        unsafe {
            let low = combine(L::mask(rows, masks, operands), masks, operands, 2);
            let high = combine(H::mask(rows, masks, operands), masks, operands, 2);
            write_predicate(masks, operands.destination, low, active);
            write_predicate(masks, operands.destination2, high, active);
        }
    }
}

/// `set`: a register holds the destination type's "true" or zero.
struct SetRegister<T>(T);

impl<T: Test> Kernel for SetRegister<T> {
    #[inline(always)]
    unsafe fn run(rows: *mut Row, masks: *mut u32, operands: &Operands, active: u32) {
        // SAFETY: passed on to the caller.
        unsafe {
            let answers = combine(T::mask(rows, masks, operands), masks, operands, 2);
            let truth = TRUTHS[(operands.extra >> TRUTH_SHIFT & 7) as usize % TRUTHS.len()];
            let result = std::array::from_fn(|lane| if (answers >> lane) & 1 != 0 { truth } else { 0_u32 });
            write_row(rows, operands.destination, &result, active);
        }
    }
}

/// `set` of packed halves.
struct SetPackedRegister<L, H>(L, H);

impl<L: Test, H: Test> Kernel for SetPackedRegister<L, H> {
    #[inline(always)]
    unsafe fn run(rows: *mut Row, masks: *mut u32, operands: &Operands, active: u32) {
        // SAFETY: passed on to the caller.
        unsafe {
            let low = combine(L::mask(rows, masks, operands), masks, operands, 2);
            let high = combine(H::mask(rows, masks, operands), masks, operands, 2);
            let truth = TRUTHS[(operands.extra >> TRUTH_SHIFT & 7) as usize % TRUTHS.len()];
            let result = std::array::from_fn(|lane| {
                let half = |answers: u32| if (answers >> lane) & 1 != 0 { truth } else { 0 };
                half(low) | half(high) << 16
            });
            write_row(rows, operands.destination, &result, active);
        }
    }
}

/// A test written like a closure.
macro_rules! test {
    (|$($name:ident : $source:ty),+| $body:expr) => {{
        struct Answer;
        impl Test for Answer {
            type Sources = ($($source,)+);
            #[inline(always)]
            fn apply(($($name,)+): Self::Sources, _: u32) -> bool { $body }
        }
        Answer
    }};
}

fn set_predicates<T: Test>(level: Level, _: T) -> super::LaneFunction {
    choose::<SetPredicates<T>>(level)
}

/// A comparison as the set of relations that make it true.
fn relations(name: &str, found: Type) -> Result<u32, String> {
    let float = !found.is_integer();
    let bits = matches!(found, Type::B16 | Type::B32 | Type::B64);
    Ok(match name {
        "eq" => EQUAL,
        "ne" => LESS | GREATER,
        "lt" if !bits => LESS,
        "le" if !bits => LESS | EQUAL,
        "gt" if !bits => GREATER,
        "ge" if !bits => GREATER | EQUAL,
        "lo" if matches!(found, Type::U16 | Type::U32 | Type::U64) => LESS,
        "ls" if matches!(found, Type::U16 | Type::U32 | Type::U64) => LESS | EQUAL,
        "hi" if matches!(found, Type::U16 | Type::U32 | Type::U64) => GREATER,
        "hs" if matches!(found, Type::U16 | Type::U32 | Type::U64) => GREATER | EQUAL,
        "equ" if float => EQUAL | UNORDERED,
        "neu" if float => LESS | GREATER | UNORDERED,
        "ltu" if float => LESS | UNORDERED,
        "leu" if float => LESS | EQUAL | UNORDERED,
        "gtu" if float => GREATER | UNORDERED,
        "geu" if float => GREATER | EQUAL | UNORDERED,
        "num" if float => LESS | EQUAL | GREATER,
        "nan" if float => UNORDERED,
        _ => return Err(format!("the comparison `.{name}` is not one of {found:?}")),
    })
}

const COMPARISONS: [&str; 18] = [
    "eq", "ne", "lt", "le", "gt", "ge", "lo", "ls", "hi", "hs", "equ", "neu", "ltu", "leu", "gtu", "geu", "num", "nan",
];

/// The function of `setp` for the relations, and whether its answers need turning around.
fn predicate_function(level: Level, found: Type, wanted: u32) -> Result<(super::LaneFunction, bool), String> {
    const ORDERED: u32 = LESS | EQUAL | GREATER;
    let float = matches!(found, Type::F32 | Type::F64);
    // Half of the comparisons are the others turned around.
    let (kept, invert) = match (float, wanted) {
        (true, _) if wanted & UNORDERED != 0 => (!wanted & (ORDERED | UNORDERED), true),
        (false, _) if wanted.count_ones() == 2 => (!wanted & ORDERED, true),
        _ => (wanted, false),
    };
    macro_rules! function {
        ($T:ident, $operator:tt) => { set_predicates(level, test!(|a: $T, b: $T| a $operator b)) };
    }
    let function = if float {
        with_type!(found, T in [F32 => f32, F64 => f64], {
            match kept {
                EQUAL => function!(T, ==),
                LESS => function!(T, <),
                GREATER => function!(T, >),
                _ if kept == LESS | EQUAL => function!(T, <=),
                _ if kept == GREATER | EQUAL => function!(T, >=),
                _ if kept == LESS | GREATER => set_predicates(level, test!(|a: T, b: T| (a < b) | (a > b))),
                _ => set_predicates(level, test!(|a: T, b: T| !a.is_nan() & !b.is_nan())),
            }
        })?
    } else if kept == EQUAL {
        with_type!(found, T in [
            B16 | U16 | S16 => u16,
            B32 | U32 | S32 => u32,
            B64 | U64 | S64 => u64,
        ], function!(T, ==))?
    } else {
        with_type!(found, T in [U16 => u16, S16 => i16, U32 => u32, S32 => i32, U64 => u64, S64 => i64], {
            if kept == LESS { function!(T, <) } else { function!(T, >) }
        })?
    };
    Ok((function, invert))
}

pub(super) fn select(level: Level, opcode: &str, modifiers: &mut Modifiers) -> Choice {
    match opcode {
        "selp" => {
            let found = modifiers.take_type()?;
            with_type!(found, T in [
                B16 | U16 | S16 | F16 | BF16 => u16,
                B32 | U32 | S32 | F32 | F16x2 | BF16x2 => u32,
                B64 | U64 | S64 | F64 => u64,
            ], {
                lanes!(level, |a: T, b: T, choice: bool| -> T { if choice { a } else { b } }).typed(found)
            })
        }
        "slct" => {
            let ftz = modifiers.take("ftz");
            let (found, by) = (modifiers.take_type()?, modifiers.take_type()?);
            let selected = match by {
                Type::S32 if !ftz => with_type!(found, T in [
                    B16 | U16 | S16 => u16, B32 | U32 | S32 | F32 => u32, B64 | U64 | S64 | F64 => u64,
                ], {
                    lanes!(Level::Portable, |a: T, b: T, c: i32| -> T { if c >= 0 { a } else { b } })
                }),
                Type::F32 => with_type!(found, T in [
                    B16 | U16 | S16 => u16, B32 | U32 | S32 | F32 => u32, B64 | U64 | S64 | F64 => u64,
                ], {
                    lanes!(Level::Portable, |a: T, b: T, c: f32; extra| -> T {
                        let c = if extra & FLUSH != 0 { super::float::flush(c) } else { c };
                        if c >= 0.0 { a } else { b }
                    })
                }),
                _ => Err(wrong_type(by)),
            }?;
            Ok(Selected {
                extra: if ftz { FLUSH } else { 0 },
                destinations: Types::new(&[found]),
                sources: Types::new(&[found, found, by]),
                ..selected
            })
        }
        "testp" => test_property(modifiers),
        _ => comparison(level, opcode, modifiers),
    }
}

fn comparison(level: Level, opcode: &str, modifiers: &mut Modifiers) -> Choice {
    let name = modifiers.take_one_of(&COMPARISONS).ok_or("it needs a comparison such as `.lt`")?;
    let (combination, combined) = match modifiers.take_one_of(&["and", "or", "xor"]) {
        None => (0, false),
        Some("and") => (COMBINE_AND, true),
        Some("or") => (COMBINE_OR, true),
        Some(_) => (COMBINE_XOR, true),
    };
    let ftz = modifiers.take("ftz");
    let truth = if opcode == "set" { Some(modifiers.take_type()?) } else { None };
    let found = modifiers.take_type()?;
    if ftz && !matches!(found, Type::F32 | Type::F16 | Type::F16x2) {
        return Err("`.ftz` goes with f32, f16 and f16x2 only".to_owned());
    }
    let wanted = relations(name, found)?;
    let mut extra = wanted | combination | if ftz { FLUSH } else { 0 };
    let sources = if combined { &[found, found, Type::Pred][..] } else { &[found, found][..] };
    let cold = Level::Portable;
    let (function, destinations) = match truth {
        None => {
            let function = match found {
                Type::F16 => choose::<SetPredicates<RelationTest<F16>>>(level),
                Type::BF16 => choose::<SetPredicates<RelationTest<BF16>>>(level),
                Type::F16x2 => choose::<SetPackedPredicates<LowTest<F16x2>, HighTest<F16x2>>>(level),
                Type::BF16x2 => choose::<SetPackedPredicates<LowTest<BF16x2>, HighTest<BF16x2>>>(level),
                Type::F32 if ftz => choose::<SetPredicates<RelationTest<f32>>>(level),
                _ => {
                    let (function, invert) = predicate_function(level, found, wanted)?;
                    extra |= if invert { INVERT } else { 0 };
                    function
                }
            };
            // Only one of a single half's two answers can be named.
            let single = matches!(found, Type::F16 | Type::BF16);
            (function, if single { Types::new(&[Type::Pred]) } else { Types::new(&[Type::Pred, Type::Pred]) })
        }
        Some(truth) => {
            let packed = matches!(found, Type::F16x2 | Type::BF16x2);
            let code = match truth {
                Type::U32 | Type::S32 if packed => 4,
                Type::F16x2 if found == Type::F16x2 => 2,
                Type::BF16x2 if found == Type::BF16x2 => 3,
                _ if packed => return Err(wrong_type(truth)),
                Type::U32 | Type::S32 => 0,
                Type::F32 if !matches!(found, Type::F16 | Type::BF16) => 1,
                Type::F16 => 2,
                Type::BF16 => 3,
                Type::U16 | Type::S16 if matches!(found, Type::F16 | Type::BF16) => 4,
                _ => return Err(wrong_type(truth)),
            };
            extra |= code << TRUTH_SHIFT;
            let function = match found {
                Type::F16x2 => choose::<SetPackedRegister<LowTest<F16x2>, HighTest<F16x2>>>(cold),
                Type::BF16x2 => choose::<SetPackedRegister<LowTest<BF16x2>, HighTest<BF16x2>>>(cold),
                _ => with_type!(found, T in [
                    B16 | U16 => u16, S16 => i16, B32 | U32 => u32, S32 => i32, B64 | U64 => u64, S64 => i64,
                    F32 => f32, F64 => f64, F16 => F16, BF16 => BF16,
                ], choose::<SetRegister<RelationTest<T>>>(cold))?,
            };
            (function, Types::new(&[truth]))
        }
    };
    Ok(Selected { function, destinations, sources: Types::new(sources), extra })
}

/// `testp`: what kind of number a float is. Zeros count as normal.
fn test_property(modifiers: &mut Modifiers) -> Choice {
    let name = modifiers
        .take_one_of(&["finite", "infinite", "number", "notanumber", "normal", "subnormal"])
        .ok_or("it needs a property such as `.finite`")?;
    let found = modifiers.take_type()?;
    let cold = Level::Portable;
    let function = with_type!(found, T in [F32 => f32, F64 => f64], {
        match name {
            "finite" => set_predicates(cold, test!(|a: T| a.is_finite())),
            "infinite" => set_predicates(cold, test!(|a: T| a.is_infinite())),
            "number" => set_predicates(cold, test!(|a: T| !a.is_nan())),
            "notanumber" => set_predicates(cold, test!(|a: T| a.is_nan())),
            "normal" => set_predicates(cold, test!(|a: T| a.is_normal() || a == 0.0)),
            _ => set_predicates(cold, test!(|a: T| a.is_subnormal())),
        }
    })?;
    Ok(Selected { function, destinations: Types::new(&[Type::Pred]), sources: Types::new(&[found]), extra: 0 })
}
