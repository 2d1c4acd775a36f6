//! Loads, stores, atomics and the instructions that convert addresses.

use super::body::{class_of, refuse};
use super::builder::{Binding, Builder, Result};
use super::program::*;
use crate::alu::{self, Operands, Type, UNUSED};
use crate::parse::syntax::{Instruction as Text, Operand, RegisterClass};

const CONSTANT: &str = "const";

/// What the modifiers of a memory instruction said.
struct MemoryModifiers<'a> {
    target: Option<Target>,
    /// Whether other threads may write or read the place at the same time by intention.
    synchronizing: bool,
    semantics: Semantics,
    vector: u8,
    ty: Option<Type>,
    /// Words that the common reading left over: the operation of an atomic.
    rest: Vec<&'a str>,
    /// Whether a cache policy operand follows.
    hint: bool,
}

fn target_of(word: &str) -> Option<Target> {
    Some(match word {
        // Constants live in global memory here, at addresses of their own.
        "global" | CONSTANT => Target::Global,
        "shared" | "shared::cta" => Target::Shared,
        "shared::cluster" => Target::Cluster,
        "local" => Target::Local,
        "param" | "param::entry" | "param::func" => Target::Parameter,
        _ => return None,
    })
}

impl<'a> MemoryModifiers<'a> {
    fn read(text: &'a Text<'a>) -> Result<Self> {
        let mut modifiers = MemoryModifiers {
            target: None,
            synchronizing: false,
            semantics: Semantics::default(),
            vector: 1,
            ty: None,
            rest: Vec::new(),
            hint: false,
        };
        let mut scope = Scope::Device;
        for word in &text.modifiers {
            if let Some(target) = target_of(word) {
                if modifiers.target.replace(target).is_some() {
                    return Err(refuse(text, "two state spaces"));
                }
            } else if let Some(ty) = Type::from_modifier(word) {
                if modifiers.ty.replace(ty).is_some() {
                    return Err(refuse(text, "two types"));
                }
            } else {
                match *word {
                    "volatile" | "relaxed" | "acquire" | "release" | "acq_rel" | "mmio" => {
                        modifiers.synchronizing = true;
                        let semantics = &mut modifiers.semantics;
                        semantics.volatile |= *word == "volatile";
                        semantics.acquire |= matches!(*word, "acquire" | "acq_rel");
                        semantics.release |= matches!(*word, "release" | "acq_rel");
                    }
                    "cta" | "cluster" => scope = Scope::Block,
                    "weak" | "gpu" | "sys" | "ca" | "cg" | "cs" | "lu" | "cv" | "wb" | "wt" | "nc" | "noftz" => {}
                    "L2::cache_hint" => modifiers.hint = true,
                    "v2" => modifiers.vector = 2,
                    "v4" => modifiers.vector = 4,
                    "v8" => modifiers.vector = 8,
                    word if word.starts_with("L1::") || word.starts_with("L2::") => {}
                    word => modifiers.rest.push(word),
                }
            }
        }
        // Atomics are strong without saying so.
        if modifiers.synchronizing || matches!(text.opcode, "atom" | "red") {
            modifiers.semantics.scope = scope;
        }
        Ok(modifiers)
    }

    fn ty(&self, text: &'a Text<'a>) -> Result<Type> {
        match self.ty {
            Some(Type::Pred) | None => Err(refuse(text, "this instruction needs a type that the simulator knows")),
            Some(ty) => Ok(ty),
        }
    }

    fn nothing_left(&self, text: &'a Text<'a>) -> Result<()> {
        match self.rest.first() {
            Some(word) => Err(refuse(text, format!("`.{word}` is not known for this instruction"))),
            None => Ok(()),
        }
    }
}

impl<'a> Builder<'a, '_> {
    /// Notes what a synchronising access to `target` says about the kernel.
    fn synchronizes(&mut self, target: Target) {
        self.program.communicates = true;
        if matches!(target, Target::Global | Target::Generic) {
            self.program.ordered = true;
        }
    }

    /// Notes what the next instruction says about the order of memory accesses.
    fn says(&mut self, semantics: Semantics) {
        self.program.semantics.insert(self.program.code.len() as u32, semantics);
    }

    /// Notes the scope of a fence. Fences between proxies order no ordinary accesses.
    pub fn fence(&mut self, text: &'a Text<'a>) {
        let has = |word: &str| text.modifiers.contains(&word);
        if text.modifiers.iter().any(|word| word.starts_with("proxy") || *word == "mbarrier_init") {
            return;
        }
        let scope = if has("cta") || has("cluster") { Scope::Block } else { Scope::Device };
        let (acquire, release) = (!has("release"), !has("acquire"));
        self.says(Semantics { scope, volatile: false, acquire, release, fence: true });
    }

    /// An address operand, and the space it's in as far as a variable or the instruction says.
    pub fn address(
        &mut self,
        text: &'a Text<'a>,
        operand: &Operand<'a>,
        wanted: Option<Target>,
    ) -> Result<(Address, Target)> {
        let wanted = wanted.map(|target| self.cluster_target(target));
        let (name, offset) = match operand {
            Operand::Address { base: Some(name), offset } => (*name, *offset),
            Operand::Address { base: None, offset } => {
                let target = match wanted {
                    Some(Target::Parameter) | None => Target::Generic,
                    Some(target) => target,
                };
                return Ok((Address { base: NONE, wide: true, offset: *offset }, target));
            }
            _ => return Err(refuse(text, "an address in brackets is needed")),
        };
        let at = |start: u32| Address { base: NONE, wide: true, offset: i64::from(start).wrapping_add(offset) };
        let (address, own) = match self.lookup(name) {
            Some(Binding::Register { row, class }) => {
                let wide = match class {
                    RegisterClass::Bits64 => true,
                    RegisterClass::Bits32 => false,
                    _ => return Err(refuse(text, format!("`{name}` is too narrow for an address"))),
                };
                let target = match wanted {
                    // Addresses of parameters are generic once they're in a register.
                    Some(Target::Parameter) | None => Target::Generic,
                    Some(target) => target,
                };
                return Ok((Address { base: row, wide, offset }, target));
            }
            Some(Binding::Variable(index)) => {
                let base = self.constant(Constant::Variable { index, offset: 0 });
                (Address { base, wide: true, offset }, Target::Global)
            }
            Some(Binding::Shared(start)) => {
                self.direct.insert(self.program.code.len() as u32, start);
                if self.program.clustered {
                    // Where it is differs from block to block.
                    let base = self.constant(Constant::Shared { start, offset: 0, wide: true });
                    (Address { base, wide: true, offset }, Target::Shared)
                } else {
                    (at(start), Target::Shared)
                }
            }
            Some(Binding::DynamicShared) => {
                let base = self.constant(Constant::DynamicShared { offset: 0, wide: true });
                (Address { base, wide: true, offset }, Target::Shared)
            }
            Some(Binding::Local { offset: start, bytes, parameter }) => {
                if parameter && wanted == Some(Target::Parameter) {
                    // A static place in a frame that isn't an array to index: checked here, once.
                    let inside = offset >= 0 && offset < i64::from(bytes);
                    if !inside {
                        return Err(refuse(text, format!("`{name}` has only {bytes} bytes")));
                    }
                    return Ok((at(start), Target::Local));
                }
                (at(start), Target::Local)
            }
            Some(Binding::KernelParameter { offset: start }) => (at(start), Target::Parameter),
            Some(Binding::Predicate(_)) | None => return Err(refuse(text, format!("`{name}` is not an address"))),
        };
        match wanted {
            Some(Target::Cluster) if own == Target::Shared => Ok((address, Target::Cluster)),
            Some(wanted) if wanted != own => {
                Err(refuse(text, format!("`{name}` is not in the state space of this instruction")))
            }
            _ => Ok((address, own)),
        }
    }

    /// Data registers of a load or store: class shared by all, and their rows.
    fn data(
        &mut self,
        text: &'a Text<'a>,
        operand: &'a Operand<'a>,
        ty: Type,
        vector: u8,
        load: bool,
    ) -> Result<(bool, u32)> {
        let parts: &[Operand<'a>] = match operand {
            Operand::Vector(parts) => parts,
            other => std::slice::from_ref(other),
        };
        if parts.len() != usize::from(vector) {
            return Err(refuse(text, format!("{} data registers for {vector} elements", parts.len())));
        }
        // Registers may be wider than the type, but must agree with each other.
        let classes: Vec<_> = parts.iter().map(|part| self.register_class(part)).collect();
        let class = classes.iter().flatten().next().copied().unwrap_or(class_of(ty));
        let class_bits = match class {
            RegisterClass::Bits16 => 16,
            RegisterClass::Bits32 => 32,
            RegisterClass::Bits64 => 64,
            _ => return Err(refuse(text, "a predicate can't be loaded or stored")),
        };
        if class_bits < ty.bits() {
            return Err(refuse(text, "the data register is narrower than the type"));
        }
        let wide = class_bits == 64;
        let immediate = if wide {
            Type::B64
        } else if ty.bits() == 32 || class_bits == 16 {
            ty
        } else {
            Type::B32
        };
        let mut rows = Vec::new();
        for part in parts {
            rows.push(match part {
                Operand::Discard if load => NONE,
                Operand::Discard => return Err(refuse(text, "`_` can't be stored")),
                _ if load => self.register(text, part, class)?,
                Operand::Name(name) if matches!(self.lookup(name), Some(Binding::Register { .. })) => {
                    self.register(text, part, class)?
                }
                _ => self.source(text, part, if ty == Type::F64 || ty == Type::F32 { ty } else { immediate }, false)?,
            });
        }
        let data = match rows[..] {
            [row] => row,
            _ => self.list(rows),
        };
        Ok((wide, data))
    }

    fn access(&mut self, text: &'a Text<'a>, load: bool) -> Result<Access> {
        let modifiers = MemoryModifiers::read(text)?;
        modifiers.nothing_left(text)?;
        let ty = modifiers.ty(text)?;
        let extra = usize::from(modifiers.hint);
        let operands = self.operands(text, 2 + extra..=2 + extra)?;
        let (data, address) = if load { (&operands[0], &operands[1]) } else { (&operands[1], &operands[0]) };
        let (address, target) = self.address(text, address, modifiers.target)?;
        if !load && text.modifiers.contains(&CONSTANT) {
            return Err(refuse(text, "constants can't be written"));
        }
        if !load && target == Target::Parameter {
            return Err(refuse(text, "a kernel's parameters can't be written"));
        }
        if modifiers.synchronizing {
            self.synchronizes(target);
            self.says(modifiers.semantics);
        }
        let bytes = (ty.bits() / 8) as u8;
        if u32::from(bytes) * u32::from(modifiers.vector) > 32 {
            return Err(refuse(text, "more than 32 bytes in one access"));
        }
        let (wide, data) = self.data(text, data, ty, modifiers.vector, load)?;
        Ok(Access {
            target,
            bytes,
            count: modifiers.vector,
            signed: ty.is_signed(),
            wide,
            address,
            pattern: Pattern::None,
            data,
        })
    }

    pub fn load(&mut self, text: &'a Text<'a>, guard: Guard) -> Result<()> {
        let access = self.access(text, true)?;
        self.emit(Operation::Load(access), guard);
        Ok(())
    }

    pub fn store(&mut self, text: &'a Text<'a>, guard: Guard) -> Result<()> {
        if let Some(("async", words)) = text.modifiers.split_first().map(|(first, words)| (*first, words)) {
            return self.async_store(text, guard, words);
        }
        let access = self.access(text, false)?;
        self.emit(Operation::Store(access), guard);
        Ok(())
    }

    /// `st.async` with what follows it.
    fn async_store(&mut self, text: &'a Text<'a>, guard: Guard, words: &[&'a str]) -> Result<()> {
        const COMPLETES: &str = "mbarrier::complete_tx::bytes";
        if !self.program.clustered {
            return Err(refuse(text, "asynchronous stores need a cluster of several blocks (`.reqnctapercluster`)"));
        }
        let (mut reach, mut completes, mut vector, mut ty) = (Target::Generic, false, 1, None);
        for word in words {
            match *word {
                "weak" => {}
                "shared::cluster" => reach = Target::Cluster,
                COMPLETES => completes = true,
                "v2" => vector = 2,
                "v4" => vector = 4,
                "b32" | "u32" | "s32" | "f32" | "b64" | "u64" | "s64" | "f64" if ty.is_none() => {
                    ty = Type::from_modifier(word);
                }
                word => return Err(refuse(text, format!("`.{word}` is not known for this instruction"))),
            }
        }
        if !completes {
            return Err(refuse(text, format!("it needs `.{COMPLETES}`")));
        }
        let Some(ty) = ty else { return Err(refuse(text, "it needs a type of 32 or 64 bits")) };
        let bytes = (ty.bits() / 8) as u8;
        if bytes * vector > 16 {
            return Err(refuse(text, "more than 16 bytes in one asynchronous store"));
        }
        let operands = self.operands(text, 3..=3)?;
        let mbarrier = self.short_address(text, &operands[2], reach)?;
        // The array that is named last counts as the one that is stored to; it isn't the mbarrier's.
        self.direct.remove(&(self.program.code.len() as u32));
        let address = self.short_address(text, &operands[0], reach)?;
        let (wide, data) = self.data(text, &operands[1], ty, vector, false)?;
        let generic = reach == Target::Generic;
        let store = AsyncStore { address, mbarrier, generic, bytes, count: vector, wide, data };
        self.emit(Operation::AsyncStore(store), guard);
        Ok(())
    }

    // ---- atomics ------------------------------------------------------------------------------------------

    pub fn atomic(&mut self, text: &'a Text<'a>, guard: Guard) -> Result<()> {
        let modifiers = MemoryModifiers::read(text)?;
        let ty = modifiers.ty(text)?;
        let [word] = modifiers.rest[..] else { return Err(refuse(text, "one operation is needed")) };
        if modifiers.vector != 1 {
            return Err(refuse(text, "vectors are not supported here"));
        }
        let (operation, kind) = atomic_operation(word, ty)
            .ok_or_else(|| refuse(text, format!("`.{word}` is not an atomic operation for this type")))?;
        let returns = text.opcode == "atom";
        let swap = operation == AtomicOperation::CompareAndSwap;
        if swap && !returns {
            return Err(refuse(text, "a reduction can't compare and swap"));
        }
        let count = 2 + usize::from(returns) + usize::from(swap) + usize::from(modifiers.hint);
        let operands = self.operands(text, count..=count)?;
        let first = usize::from(returns);
        let (address, target) = self.address(text, &operands[first], modifiers.target)?;
        if matches!(target, Target::Parameter | Target::Local) || text.modifiers.contains(&CONSTANT) {
            return Err(refuse(text, "atomics work on global and shared memory"));
        }
        self.synchronizes(target);
        self.says(modifiers.semantics);
        let class = class_of(ty);
        let destination = match returns {
            true if operands[0] == Operand::Discard => NONE,
            true => self.register(text, &operands[0], class)?,
            false => NONE,
        };
        let source = self.source(text, &operands[first + 1], ty, false)?;
        let source2 = if swap { self.source(text, &operands[first + 2], ty, false)? } else { NONE };
        let atomic =
            Atomic { target, operation, kind, bytes: (ty.bits() / 8) as u8, address, destination, source, source2 };
        self.emit(Operation::Atomic(atomic), guard);
        Ok(())
    }

    // ---- addresses ----------------------------------------------------------------------------------------

    pub fn cvta(&mut self, text: &'a Text<'a>, guard: Guard) -> Result<()> {
        let (to, words) = match text.modifiers[..] {
            ["to", ref words @ ..] => (true, words),
            ref words => (false, words),
        };
        let [space, "u64"] = words[..] else { return Err(refuse(text, "`cvta` takes a state space and `.u64`")) };
        let Some(space) = target_of(space) else {
            return Err(refuse(text, format!("`.{space}` is not a state space")));
        };
        let operands = self.operands(text, 2..=2)?;
        let window = match space {
            Target::Shared | Target::Cluster => SHARED_WINDOW,
            Target::Local => LOCAL_WINDOW,
            _ => 0,
        };
        let destination = self.register(text, &operands[0], RegisterClass::Bits64)?;
        let source = self.source(text, &operands[1], Type::B64, false)?;
        let (opcode, modifiers) = match (window, to) {
            (0, _) => ("mov", ["b64"]),
            (_, true) => ("sub", ["u64"]),
            (_, false) => ("add", ["u64"]),
        };
        let window = self.constant(Constant::Bits64(window));
        let selected = alu::select(opcode, &modifiers).map_err(|unsupported| refuse(text, unsupported.reason))?;
        let operands = Operands {
            destination,
            destination2: UNUSED,
            sources: [source, window, UNUSED, UNUSED],
            extra: selected.extra,
        };
        self.emit_alu(&selected, operands, guard);
        Ok(())
    }

    pub fn isspacep(&mut self, text: &'a Text<'a>, guard: Guard) -> Result<()> {
        let space = match text.modifiers[..] {
            [CONSTANT] => Some(AddressSpace::Constant),
            [word] => target_of(word).map(AddressSpace::from),
            _ => None,
        };
        let Some(space) = space else { return Err(refuse(text, "one state space is needed")) };
        if self.program.clustered && matches!(text.modifiers[..], ["shared" | "shared::cta"]) {
            return Err(refuse(
                text,
                "whether an address is in the block's own shared memory isn't told in clusters; `.shared::cluster` is",
            ));
        }
        let operands = self.operands(text, 2..=2)?;
        let destination = self.register(text, &operands[0], RegisterClass::Predicate)?;
        let source = self.source(text, &operands[1], Type::B64, false)?;
        self.emit(Operation::IsSpace { destination, source, space }, guard);
        Ok(())
    }
}

/// The operation and number type of an atomic, if PTX has it for the type.
pub(super) fn atomic_operation(word: &str, ty: Type) -> Option<(AtomicOperation, AtomicType)> {
    use AtomicOperation::*;
    let operation = match word {
        "add" => Add,
        "inc" => Increment,
        "dec" => Decrement,
        "min" => Minimum,
        "max" => Maximum,
        "and" => And,
        "or" => Or,
        "xor" => Xor,
        "exch" => Exchange,
        "cas" => CompareAndSwap,
        _ => return None,
    };
    let kind = match ty {
        Type::U32 | Type::U64 | Type::B32 | Type::B64 | Type::B16 => AtomicType::Unsigned,
        Type::S32 | Type::S64 => AtomicType::Signed,
        Type::F32 => AtomicType::F32,
        Type::F64 => AtomicType::F64,
        Type::F16 => AtomicType::F16,
        Type::F16x2 => AtomicType::F16x2,
        Type::BF16 => AtomicType::BF16,
        Type::BF16x2 => AtomicType::BF16x2,
        _ => return None,
    };
    let float = !matches!(kind, AtomicType::Unsigned | AtomicType::Signed);
    let known = match operation {
        Add => ty != Type::B16,
        Minimum | Maximum => !float && ty != Type::B16,
        Increment | Decrement => ty == Type::U32,
        And | Or | Xor | Exchange => !float && ty != Type::B16,
        CompareAndSwap => !float,
    };
    known.then_some((operation, kind))
}
