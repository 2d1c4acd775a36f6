//! Branches, calls, barriers and the instructions in which lanes of a warp work together.

use super::body::{modifier_class, refuse};
use super::builder::{Binding, Builder, Result, Slot};
use super::memory::atomic_operation;
use super::program::*;
use crate::alu::{self, Operands, Type, UNUSED};
use crate::parse::syntax::{Instruction as Text, Operand, RegisterClass};

/// Functions of the CUDA run time that the simulator stands in for.
const ASSERT: &str = "__assertfail";

impl<'a> Builder<'a, '_> {
    pub fn control(&mut self, text: &'a Text<'a>, guard: Guard) -> Result<()> {
        let uniform = text.modifiers.iter().all(|word| *word == "uni");
        match text.opcode {
            "bra" if uniform => {
                let operands = self.operands(text, 1..=1)?;
                let label = self.branch_label(text, &operands[0])?;
                self.emit_branch(label, guard);
            }
            "brx" if text.modifiers.first() == Some(&"idx") => {
                let operands = self.operands(text, 2..=2)?;
                let index = self.source32(text, &operands[0])?;
                let targets = match &operands[1] {
                    Operand::Name(name) => self.branch_table(name),
                    _ => None,
                };
                let Some(targets) = targets else {
                    return Err(refuse(text, "the second operand is not a `.branchtargets` label"));
                };
                let mut labels = Vec::new();
                for target in targets {
                    labels.push(self.branch_label(text, &Operand::Name(target))?);
                }
                let count = labels.len() as u32;
                let list = self.label_list(labels);
                self.emit(Operation::BranchIndexed { index, list, count }, guard);
            }
            "call" if uniform => self.call(text, guard)?,
            "ret" if uniform => {
                self.operands(text, 0..=0)?;
                let operation = if self.current.is_some() { Operation::Return } else { Operation::Exit };
                self.emit(operation, guard);
            }
            "exit" => self.emit(Operation::Exit, guard),
            "trap" | "brkpt" => self.emit(Operation::Trap, guard),
            _ => return Err(refuse(text, "this form is not supported")),
        }
        Ok(())
    }

    fn branch_label(&self, text: &'a Text<'a>, operand: &Operand<'a>) -> Result<usize> {
        let label = match operand {
            Operand::Name(name) => self.label(name),
            _ => None,
        };
        label.ok_or_else(|| refuse(text, "the target is not a label of this function"))
    }

    // ---- calls --------------------------------------------------------------------------------------------

    fn call(&mut self, text: &'a Text<'a>, guard: Guard) -> Result<()> {
        fn list<'b, 'c>(operand: Option<&'b Operand<'c>>) -> &'b [Operand<'c>] {
            match operand {
                Some(Operand::List(items)) => items,
                _ => &[],
            }
        }
        let mut operands = text.operands.iter().peekable();
        let returned = list(operands.next_if(|operand| matches!(operand, Operand::List(_))));
        let Some(Operand::Name(name)) = operands.next() else {
            return Err(refuse(text, "the name of a function is needed"));
        };
        let arguments = list(operands.next_if(|operand| matches!(operand, Operand::List(_))));
        if operands.next().is_some() || self.lookup(name).is_some() {
            return Err(refuse(text, "indirect calls are not supported"));
        }
        let declared = self.tables.functions.get(name);
        if *name == ASSERT && declared.is_none_or(|function| function.body.is_none()) {
            return self.assertion(text, guard, arguments);
        }
        let callee = self.callee(name, text.line, text.text)?;
        if let Some(current) = self.current {
            self.callees[current].calls.push(callee);
            if current == callee {
                return Err(refuse(text, "recursion: a function that calls itself"));
            }
        }
        let (parameters, returns) = (self.callees[callee].parameters.clone(), self.callees[callee].returns.clone());
        if parameters.len() != arguments.len() || returns.len() != returned.len() {
            return Err(refuse(
                text,
                format!("`{name}` takes {} arguments and gives {} results", parameters.len(), returns.len()),
            ));
        }
        for (slot, argument) in parameters.iter().zip(arguments) {
            self.pass(text, guard, *slot, argument, true)?;
        }
        self.calls.push(self.program.code.len());
        self.emit(Operation::Call { target: callee as u32 }, guard);
        for (slot, result) in returns.iter().zip(returned) {
            self.pass(text, guard, *slot, result, false)?;
        }
        Ok(())
    }

    /// Copies an argument into its slot, or a result out of it.
    fn pass(&mut self, text: &'a Text<'a>, guard: Guard, slot: Slot, operand: &Operand<'a>, into: bool) -> Result<()> {
        let memory = match operand {
            Operand::Name(name) => match self.lookup(name) {
                Some(Binding::Local { offset, bytes, parameter: true }) => Some((offset, bytes)),
                _ => None,
            },
            _ => None,
        };
        match (slot, memory) {
            (Slot::Memory { offset, bytes }, Some((other, other_bytes))) => {
                if bytes != other_bytes {
                    return Err(refuse(text, format!("{other_bytes} bytes stand where the function has {bytes}")));
                }
                let (from, to) = if into { (other, offset) } else { (offset, other) };
                // Frames are aligned to words.
                self.emit(Operation::CopyLocal { from: from / 4, to: to / 4, words: bytes.div_ceil(4) }, guard);
            }
            (Slot::Memory { offset, bytes }, None) => {
                let ty = match bytes {
                    1 | 2 => Type::B16,
                    4 => Type::B32,
                    8 => Type::B64,
                    _ => return Err(refuse(text, "a register can't hold this argument")),
                };
                let wide = bytes == 8;
                let data = if into {
                    self.source(text, operand, ty, false)?
                } else {
                    self.register(text, operand, super::body::class_of(ty))?
                };
                let address = Address { base: NONE, wide: true, offset: i64::from(offset) };
                let access = Access {
                    target: Target::Local,
                    bytes: bytes as u8,
                    count: 1,
                    signed: false,
                    wide,
                    address,
                    pattern: Pattern::None,
                    data,
                };
                self.emit(if into { Operation::Store(access) } else { Operation::Load(access) }, guard);
            }
            (Slot::Register { row, class }, None) => {
                let (ty, word) = match class {
                    RegisterClass::Bits16 => (Type::B16, "b16"),
                    RegisterClass::Bits64 => (Type::B64, "b64"),
                    _ => (Type::B32, "b32"),
                };
                let (source, destination) = if into {
                    (self.source(text, operand, ty, false)?, row)
                } else {
                    (row, self.register(text, operand, class)?)
                };
                let selected = alu::select("mov", &[word]).map_err(|unsupported| refuse(text, unsupported.reason))?;
                let operands = Operands {
                    destination,
                    destination2: UNUSED,
                    sources: [source, UNUSED, UNUSED, UNUSED],
                    extra: selected.extra,
                };
                self.emit_alu(&selected, operands, guard);
            }
            (Slot::Register { .. }, Some(_)) => {
                return Err(refuse(text, "a parameter variable stands where the function has a register"));
            }
        }
        Ok(())
    }

    /// `__assertfail(message, file, line, function, char size)` of CUDA's `assert`.
    fn assertion(&mut self, text: &'a Text<'a>, guard: Guard, arguments: &[Operand<'a>]) -> Result<()> {
        let mut words = Vec::new();
        for argument in arguments.iter().take(4) {
            let binding = match argument {
                Operand::Name(name) => self.lookup(name),
                _ => None,
            };
            match binding {
                Some(Binding::Local { offset, parameter: true, .. }) => words.push(offset / 4),
                _ => return Err(refuse(text, "parameter variables are needed")),
            }
        }
        if words.len() < 4 {
            return Err(refuse(text, "an assertion passes a message, a file, a line and a function"));
        }
        let parameters = self.list(words);
        self.emit(Operation::AssertionFailed { parameters }, guard);
        Ok(())
    }

    // ---- barriers -----------------------------------------------------------------------------------------

    pub fn barrier(&mut self, text: &'a Text<'a>, guard: Guard) -> Result<()> {
        let words: Vec<&str> =
            text.modifiers.iter().copied().filter(|word| !matches!(*word, "cta" | "aligned")).collect();
        let result = |row: u32, kind| (row, kind);
        let (destination, kind) = match words[..] {
            ["warp", "sync"] => {
                let operands = self.operands(text, 1..=1)?;
                let members = self.source32(text, &operands[0])?;
                self.emit(Operation::WarpBarrier { members }, guard);
                return Ok(());
            }
            ["sync"] => result(NONE, BarrierKind::Synchronize),
            ["arrive"] => result(NONE, BarrierKind::Arrive),
            ["red", "popc", "u32"] => {
                let operands = self.operands(text, 3..=4)?;
                result(self.register(text, &operands[0], RegisterClass::Bits32)?, BarrierKind::Count)
            }
            ["red", word @ ("and" | "or"), "pred"] => {
                let operands = self.operands(text, 3..=4)?;
                let kind = if word == "and" { BarrierKind::And } else { BarrierKind::Or };
                result(self.register(text, &operands[0], RegisterClass::Predicate)?, kind)
            }
            ["cluster", ref words @ ..] => return self.cluster_barrier(text, guard, words),
            _ => return Err(refuse(text, "this form of a barrier is not known")),
        };
        let operands = match kind {
            BarrierKind::Synchronize => self.operands(text, 1..=2)?,
            BarrierKind::Arrive => self.operands(text, 2..=2)?,
            _ => &self.operands(text, 3..=4)?[1..],
        };
        let number = self.source32(text, &operands[0])?;
        let fixed = match operands[0] {
            Operand::Integer(number) => Some(number.min(u64::from(u8::MAX)) as u8),
            _ => None,
        };
        let reduces = !matches!(kind, BarrierKind::Synchronize | BarrierKind::Arrive);
        let (count, predicate) = match (operands, reduces) {
            ([_, count, predicate], true) => (self.source32(text, count)?, self.predicate(text, predicate)?),
            ([_, predicate], true) => (NONE, self.predicate(text, predicate)?),
            ([_, count], false) => (self.source32(text, count)?, Guard::NONE),
            _ => (NONE, Guard::NONE),
        };
        self.emit(Operation::Barrier(Barrier { kind, number, fixed, count, predicate, destination }), guard);
        Ok(())
    }

    // ---- warp-level operations ----------------------------------------------------------------------------

    pub fn collective(&mut self, text: &'a Text<'a>, guard: Guard) -> Result<()> {
        // The older forms without `.sync` have no member mask: whoever is there takes part.
        let sync = text.modifiers.contains(&"sync");
        let words: Vec<&str> = text.modifiers.iter().copied().filter(|word| *word != "sync").collect();
        match (text.opcode, &words[..]) {
            ("activemask", ["b32"]) => {
                let operands = self.operands(text, 1..=1)?;
                let destination = self.register(text, &operands[0], RegisterClass::Bits32)?;
                self.emit(Operation::ActiveMask { destination }, guard);
            }
            ("elect", []) if sync => {
                let operands = self.operands(text, 2..=2)?;
                let (destination, predicate) = self.with_predicate(text, &operands[0])?;
                if predicate == NONE {
                    return Err(refuse(text, "a predicate destination is needed"));
                }
                let members = self.source32(text, &operands[1])?;
                self.emit(Operation::Elect { destination, predicate, members }, guard);
            }
            ("vote", [word, ty @ ("pred" | "b32")]) => {
                let kind = match (*word, *ty) {
                    ("all", "pred") => VoteKind::All,
                    ("any", "pred") => VoteKind::Any,
                    ("uni", "pred") => VoteKind::Uniform,
                    ("ballot", "b32") => VoteKind::Ballot,
                    _ => return Err(refuse(text, "this kind of vote is not known")),
                };
                let count = 2 + usize::from(sync);
                let operands = self.operands(text, count..=count)?;
                let class = if kind == VoteKind::Ballot { RegisterClass::Bits32 } else { RegisterClass::Predicate };
                let destination = self.register(text, &operands[0], class)?;
                let predicate = self.predicate(text, &operands[1])?;
                let members = if sync { self.source32(text, &operands[2])? } else { NONE };
                self.emit(Operation::Vote { kind, destination, predicate, members }, guard);
            }
            ("match", [word @ ("any" | "all"), ty @ ("b32" | "b64")]) if sync => {
                let operands = self.operands(text, 3..=3)?;
                let all = *word == "all";
                let (destination, predicate) = self.with_predicate(text, &operands[0])?;
                if predicate != NONE && !all {
                    return Err(refuse(text, "`match.any` has no predicate"));
                }
                let wide = *ty == "b64";
                let source = self.source(text, &operands[1], if wide { Type::B64 } else { Type::B32 }, false)?;
                let members = self.source32(text, &operands[2])?;
                self.emit(Operation::Match { all, wide, destination, predicate, source, members }, guard);
            }
            ("shfl", [word, "b32" | "u32" | "s32" | "f32"]) => {
                let mode = match *word {
                    "up" => ShuffleMode::Up,
                    "down" => ShuffleMode::Down,
                    "bfly" => ShuffleMode::Butterfly,
                    "idx" => ShuffleMode::Index,
                    _ => return Err(refuse(text, format!("`.{word}` is not a shuffle"))),
                };
                let count = 4 + usize::from(sync);
                let operands = self.operands(text, count..=count)?;
                let (destination, predicate) = self.with_predicate(text, &operands[0])?;
                let source = self.source32(text, &operands[1])?;
                let lane = self.source32(text, &operands[2])?;
                let clamp = self.source32(text, &operands[3])?;
                let members = if sync { self.source32(text, &operands[4])? } else { NONE };
                let shuffle = Operation::Shuffle { mode, destination, predicate, source, lane, clamp, members };
                self.emit(shuffle, guard);
            }
            ("redux", [word, ty @ ("u32" | "s32" | "b32")]) if sync => {
                use AtomicOperation::*;
                let ty = Type::from_modifier(ty).unwrap_or(Type::B32);
                let known = match atomic_operation(word, ty) {
                    Some((operation @ (Add | Minimum | Maximum), kind)) if ty != Type::B32 => Some((operation, kind)),
                    Some((operation @ (And | Or | Xor), kind)) => Some((operation, kind)),
                    _ => None,
                };
                let Some((operation, kind)) = known else {
                    return Err(refuse(text, "this reduction is not known for the type"));
                };
                let operands = self.operands(text, 3..=3)?;
                let destination = self.register(text, &operands[0], RegisterClass::Bits32)?;
                let source = self.source32(text, &operands[1])?;
                let members = self.source32(text, &operands[2])?;
                self.emit(Operation::Reduce { operation, kind, destination, source, members }, guard);
            }
            _ => return Err(refuse(text, "this form is not supported")),
        }
        Ok(())
    }

    /// `d` or `d|p`.
    fn with_predicate(&mut self, text: &'a Text<'a>, operand: &Operand<'a>) -> Result<(u32, u32)> {
        let class = modifier_class("b32").unwrap_or(RegisterClass::Bits32);
        match operand {
            Operand::Pair(first, second) => {
                Ok((self.register(text, first, class)?, self.register(text, second, RegisterClass::Predicate)?))
            }
            first => Ok((self.register(text, first, class)?, NONE)),
        }
    }
}
