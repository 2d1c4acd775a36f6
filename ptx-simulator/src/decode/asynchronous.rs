//! Asynchronous copies (`cp.async`) and mbarriers.

use std::collections::HashMap;

use super::body::refuse;
use super::builder::{Builder, Result};
use super::flow::{AluTypes, Register, Use, visit};
use super::program::*;
use crate::alu::Type;
use crate::observe::SourceSize;
use crate::parse::syntax::{Instruction as Text, Operand, RegisterClass};

impl<'a> Builder<'a, '_> {
    /// `cp.async` in all its forms.
    pub fn copy(&mut self, text: &'a Text<'a>, guard: Guard) -> Result<()> {
        match text.modifiers[..] {
            ["async", "commit_group"] => {
                self.operands(text, 0..=0)?;
                self.emit(Operation::CommitCopies, guard);
                Ok(())
            }
            ["async", "wait_all"] => {
                self.operands(text, 0..=0)?;
                self.emit(Operation::WaitForCopies { open: NONE }, guard);
                Ok(())
            }
            ["async", "wait_group"] => {
                let [Operand::Integer(open)] = self.operands(text, 1..=1)? else {
                    return Err(refuse(text, "the number of groups must be a constant"));
                };
                let open = u32::try_from(*open).map_or(NONE - 1, |open| open.min(NONE - 1));
                self.emit(Operation::WaitForCopies { open }, guard);
                Ok(())
            }
            ["async", "mbarrier", "arrive", ref words @ ..] => self.arrive_after_copies(text, guard, words),
            ["async", level @ ("ca" | "cg"), "shared" | "shared::cta", "global", ref words @ ..] => {
                self.copy_bytes(text, guard, level, words)
            }
            ["async", "bulk", ref words @ ..] => self.bulk_copy(text, guard, words),
            ["async", "reduce", ..] => Err(refuse(text, "reductions of bulk copies are not supported")),
            _ => Err(refuse(text, "this form of a copy is not known")),
        }
    }

    fn copy_bytes(&mut self, text: &'a Text<'a>, guard: Guard, level: &str, words: &[&str]) -> Result<()> {
        let mut hint = 0;
        for word in words {
            match *word {
                "L2::cache_hint" => hint = 1,
                "L2::64B" | "L2::128B" | "L2::256B" => {}
                word => return Err(refuse(text, format!("`.{word}` is not known for this instruction"))),
            }
        }
        let operands = self.operands(text, 3 + hint..=4 + hint)?;
        let bytes = match operands[2] {
            Operand::Integer(bytes @ (4 | 8)) if level == "ca" => bytes as u8,
            Operand::Integer(16) => 16,
            _ if level == "cg" => return Err(refuse(text, "`.cg` copies 16 bytes")),
            _ => return Err(refuse(text, "a copy has 4, 8 or 16 bytes")),
        };
        let (mut size, mut ignored, mut kind) = (NONE, Guard::NONE, SourceSize::Whole);
        if operands.len() > 3 + hint {
            let operand = &operands[3];
            let predicate =
                matches!(operand, Operand::Not(_)) || self.register_class(operand) == Some(RegisterClass::Predicate);
            if matches!(operand, Operand::Integer(size) if *size == u64::from(bytes)) {
                // All of it.
            } else if predicate {
                ignored = self.predicate(text, operand)?;
                kind = SourceSize::AllOrNothing;
            } else {
                // `tell_sizes` looks at where it comes from.
                size = self.source32(text, operand)?;
                kind = SourceSize::Number;
            }
        }
        let destination = self.short_address(text, &operands[0], Target::Shared)?;
        let source = self.short_address(text, &operands[1], Target::Global)?;
        let bypasses_l1 = level == "cg";
        let copy = AsyncCopy { destination, source, bytes, bypasses_l1, size, ignored, kind };
        self.emit(Operation::AsyncCopy(copy), guard);
        Ok(())
    }

    pub fn short_address(&mut self, text: &'a Text<'a>, operand: &Operand<'a>, target: Target) -> Result<ShortAddress> {
        let (Address { base, wide, offset }, _) = self.address(text, operand, Some(target))?;
        match i32::try_from(offset) {
            Ok(offset) => Ok(ShortAddress { base, wide, offset }),
            Err(_) => Err(refuse(text, "an address offset of more than 32 bits")),
        }
    }

    /// What the modifiers of an mbarrier's instruction say of the state space, those that order memory, and those that
    /// are left over.
    fn mbarrier_words<'w>(
        &self,
        text: &'a Text<'a>,
        words: &'w [&'a str],
        ordered: bool,
    ) -> Result<(Option<Target>, Vec<&'w str>)> {
        let mut target = None;
        let mut rest = Vec::new();
        let mut typed = false;
        let acts = matches!(text.modifiers.first(), Some(&("arrive" | "arrive_drop" | "expect_tx" | "complete_tx")));
        let counts_bytes = matches!(text.modifiers.first(), Some(&("expect_tx" | "complete_tx")));
        for word in words {
            match *word {
                "shared" | "shared::cta" => target = Some(Target::Shared),
                "b64" => typed = true,
                "cta" | "acquire" | "release" if ordered => {}
                // Counting bytes orders nothing anyway.
                "relaxed" if counts_bytes => {}
                "relaxed" if ordered => {
                    return Err(refuse(text, "mbarriers that order no memory (`.relaxed`) are not supported"));
                }
                "shared::cluster" if acts => target = Some(self.cluster_target(Target::Cluster)),
                "cluster" if ordered => {}
                word => rest.push(word),
            }
        }
        if !typed {
            return Err(refuse(text, "mbarriers have the type `.b64`"));
        }
        Ok((target, rest))
    }

    fn arrive_after_copies(&mut self, text: &'a Text<'a>, guard: Guard, words: &[&'a str]) -> Result<()> {
        let (target, rest) = self.mbarrier_words(text, words, false)?;
        let counted = match rest[..] {
            [] => false,
            ["noinc"] => true,
            _ => return Err(refuse(text, "this form of an arrival is not known")),
        };
        let operands = self.operands(text, 1..=1)?;
        let (address, target) = self.address(text, &operands[0], target)?;
        let kind = MbarrierKind::ArriveAfterCopies { counted };
        self.emit_mbarrier(text, guard, Mbarrier { kind, target, address, destination: NONE, operand: NONE })
    }

    fn emit_mbarrier(&mut self, text: &'a Text<'a>, guard: Guard, mbarrier: Mbarrier) -> Result<()> {
        if !matches!(mbarrier.target, Target::Shared | Target::Cluster | Target::Generic) {
            return Err(refuse(text, "mbarriers are in shared memory"));
        }
        self.emit(Operation::Mbarrier(mbarrier), guard);
        Ok(())
    }

    /// The instructions of mbarriers.
    pub fn mbarrier(&mut self, text: &'a Text<'a>, guard: Guard) -> Result<()> {
        let Some((action, words)) = text.modifiers.split_first() else {
            return Err(refuse(text, "an operation is needed"));
        };
        if *action == "pending_count" {
            let operands = self.operands(text, 2..=2)?;
            let destination = self.register(text, &operands[0], RegisterClass::Bits32)?;
            let source = self.source(text, &operands[1], Type::B64, false)?;
            self.emit(Operation::PendingCount { destination, source }, guard);
            return Ok(());
        }
        let ordered =
            matches!(*action, "arrive" | "arrive_drop" | "test_wait" | "try_wait" | "expect_tx" | "complete_tx");
        let (target, mut rest) = self.mbarrier_words(text, words, ordered)?;
        let mut take = |word: &str| {
            let position = rest.iter().position(|other| *other == word);
            position.map(|position| rest.remove(position)).is_some()
        };
        let (kind, operands) = match *action {
            "init" => (MbarrierKind::Initialise, self.operands(text, 2..=2)?),
            "inval" => (MbarrierKind::Invalidate, self.operands(text, 1..=1)?),
            "arrive" | "arrive_drop" => {
                let (drop, incomplete, expects) = (*action == "arrive_drop", take("noComplete"), take("expect_tx"));
                // `_` may stand for a state that nobody needs; so may nothing.
                let operands = self.operands(text, 1..=3)?;
                (MbarrierKind::Arrive { drop, incomplete, expects }, operands)
            }
            "expect_tx" => (MbarrierKind::Expect, self.operands(text, 2..=2)?),
            "complete_tx" => (MbarrierKind::CompleteBytes, self.operands(text, 2..=2)?),
            "test_wait" | "try_wait" => {
                let kind = if take("parity") { MbarrierKind::TestParity } else { MbarrierKind::TestState };
                // `try_wait` may name how long it waits at most. Here it doesn't wait, which it may do at any time.
                (kind, self.operands(text, 3..=3 + usize::from(*action == "try_wait"))?)
            }
            word => return Err(refuse(text, format!("`mbarrier.{word}` is not supported"))),
        };
        if let Some(word) = rest.first() {
            return Err(refuse(text, format!("`.{word}` is not known for this instruction")));
        }
        let (mut destination, mut operand) = (NONE, NONE);
        let at = match kind {
            MbarrierKind::Initialise | MbarrierKind::Expect | MbarrierKind::CompleteBytes => {
                operand = self.source32(text, &operands[1])?;
                0
            }
            MbarrierKind::Arrive { incomplete, expects, .. } => {
                let at = usize::from(!matches!(operands[0], Operand::Address { .. }));
                if at == 1 && operands[0] != Operand::Discard {
                    if text.modifiers.contains(&"shared::cluster") {
                        return Err(refuse(
                            text,
                            "an arrival in `.shared::cluster` gives no state: `_` stands in its place",
                        ));
                    }
                    destination = self.register(text, &operands[0], RegisterClass::Bits64)?;
                }
                match operands.get(at + 1) {
                    Some(count) => operand = self.source32(text, count)?,
                    None if incomplete => return Err(refuse(text, "`.noComplete` needs a count")),
                    None if expects => return Err(refuse(text, "`.expect_tx` needs a number of bytes")),
                    None => {}
                }
                at
            }
            MbarrierKind::TestState | MbarrierKind::TestParity => {
                destination = self.register(text, &operands[0], RegisterClass::Predicate)?;
                operand = match kind {
                    MbarrierKind::TestParity => self.source32(text, &operands[2])?,
                    _ => self.source(text, &operands[2], Type::B64, false)?,
                };
                if let Some(limit) = operands.get(3) {
                    self.source32(text, limit)?;
                }
                1
            }
            _ => 0,
        };
        let Some(address) = operands.get(at) else { return Err(refuse(text, "an address is needed")) };
        let (address, target) = self.address(text, address, target)?;
        self.emit_mbarrier(text, guard, Mbarrier { kind, target, address, destination, operand })
    }
}

/// What a register with a size is defined as.
#[derive(Clone, Copy)]
enum Definition {
    /// What one of two registers holds, as a predicate says.
    Selected(u32, u32),
    /// What another register holds.
    Same(u32),
    /// Something else, or several things.
    Other,
}

/// Fills in [`SourceSize::AllOrNothing`] for copies whose size is selected from 0 and all: where NVIDIA's assembler sees
/// that, it makes another instruction than for a size that can be any number. It follows registers with one definition,
/// as compilers write them, and has to be asked while every register has rows of its own.
pub(super) fn tell_sizes(program: &mut Program, types: &[Option<AluTypes>]) {
    let numbered = |instruction: &Instruction| {
        matches!(instruction.operation, Operation::AsyncCopy(AsyncCopy { kind: SourceSize::Number, .. }))
    };
    if !program.code.iter().any(numbered) {
        return;
    }
    let Program { code, places, mnemonics, constants, lists, .. } = program;
    let bits = constants.iter().filter_map(|(row, constant)| match constant {
        Constant::Bits32(bits) => Some((*row, *bits)),
        _ => None,
    });
    let bits: HashMap<u32, u32> = bits.collect();
    let mut definitions: HashMap<u32, Definition> = HashMap::new();
    for (index, types) in types.iter().enumerate() {
        let (mut reads, mut writes) = (Vec::new(), Vec::new());
        visit(&mut code[index], types.as_ref(), lists, |usage, register, _| {
            if let Register::Row(row) = register {
                if usage == Use::Read { reads.push(row) } else { writes.push(row) }
            }
        });
        let mnemonic = mnemonics.get(places[index].mnemonic as usize).map_or("", String::as_str);
        let computes = matches!(code[index].operation, Operation::Alu { .. }) && code[index].guard == Guard::NONE;
        let definition = match (mnemonic.split('.').next(), &reads[..]) {
            (Some("mov"), [source]) if computes => Definition::Same(*source),
            (Some("selp"), [one, other]) if computes => Definition::Selected(*one, *other),
            _ => Definition::Other,
        };
        for row in writes {
            definitions.entry(row).and_modify(|known| *known = Definition::Other).or_insert(definition);
        }
    }
    for instruction in code {
        let Operation::AsyncCopy(copy) = &mut instruction.operation else { continue };
        if is_all_or_nothing(copy.size, u32::from(copy.bytes), &definitions, &bits) {
            copy.kind = SourceSize::AllOrNothing;
        }
    }
}

/// Whether a register has `all` or 0, as predicates say: one after the other, or the first of several.
fn is_all_or_nothing(mut row: u32, all: u32, definitions: &HashMap<u32, Definition>, bits: &HashMap<u32, u32>) -> bool {
    // A chain has fewer links than there are definitions, or it's a circle.
    for _ in 0..definitions.len() {
        row = match definitions.get(&row) {
            Some(Definition::Same(source)) => *source,
            Some(Definition::Selected(one, other)) => match (bits.get(one), bits.get(other)) {
                (Some(one), Some(other)) => return (*one, *other) == (0, all) || (*one, *other) == (all, 0),
                (Some(0), None) => *other,
                (None, Some(0)) => *one,
                _ => return false,
            },
            _ => return false,
        };
    }
    false
}
