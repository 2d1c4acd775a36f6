//! Operands and the instructions that compute: what isn't memory or control goes to [`crate::alu::select`].

use super::builder::{Binding, Builder, Result};
use super::program::*;
use super::unsupported;
use crate::alu::{self, ALWAYS, Operands, Type, UNUSED, Widths};
use crate::error::LoadError;
use crate::parse::syntax::{Instruction as Text, Operand, RegisterClass};

/// A special register, as a source.
pub(super) enum SpecialValue {
    Fixed(Special),
    Constant(u32),
    Counter(Counter),
}

pub(super) fn refuse(instruction: &Text<'_>, message: impl Into<String>) -> LoadError {
    unsupported(instruction.line, instruction.text, message)
}

pub(super) fn class_of(ty: Type) -> RegisterClass {
    match ty.bits() {
        1 => RegisterClass::Predicate,
        64 => RegisterClass::Bits64,
        32 => RegisterClass::Bits32,
        _ => RegisterClass::Bits16,
    }
}

/// The class that a modifier such as `b32` asks for.
pub(super) fn modifier_class(word: &str) -> Option<RegisterClass> {
    Type::from_modifier(word).map(class_of)
}

/// The value of a special register, or `None` if the name is none.
fn special_value(name: &str, component: Option<&str>) -> Option<SpecialValue> {
    use SpecialValue::*;
    let axis = match component {
        Some("x") => 0,
        Some("y") => 1,
        Some("z") => 2,
        // The fourth component exists and is always zero (shapes: one).
        Some("w") => {
            return match name {
                "%tid" | "%ctaid" | "%clusterid" | "%cluster_ctaid" => Some(Constant(0)),
                "%ntid" | "%nctaid" | "%nclusterid" | "%cluster_nctaid" => Some(Constant(1)),
                _ => None,
            };
        }
        Some(_) => return None,
        None => {
            return Some(match name {
                "%laneid" => Fixed(Special::Lane),
                "%warpid" => Fixed(Special::Warp),
                "%nwarpid" => Fixed(Special::Warps),
                "%smid"
                | "%gridid"
                | "%reserved_smem_offset_begin"
                | "%reserved_smem_offset_end"
                | "%reserved_smem_offset_cap" => Constant(0),
                "%nsmid" => Constant(1),
                "%cluster_ctarank" => Fixed(Special::Rank),
                "%cluster_nctarank" => Fixed(Special::ClusterBlocks),
                "%lanemask_eq" => Fixed(Special::MaskEqual),
                "%lanemask_lt" => Fixed(Special::MaskLess),
                "%lanemask_le" => Fixed(Special::MaskLessEqual),
                "%lanemask_gt" => Fixed(Special::MaskGreater),
                "%lanemask_ge" => Fixed(Special::MaskGreaterEqual),
                "%dynamic_smem_size" => Fixed(Special::DynamicShared),
                "%total_smem_size" | "%aggr_smem_size" => Fixed(Special::TotalShared),
                "%clock" | "%globaltimer_lo" => Counter(super::program::Counter::Low),
                "%clock_hi" | "%globaltimer_hi" => Counter(super::program::Counter::High),
                "%clock64" | "%globaltimer" => Counter(super::program::Counter::Wide),
                "WARP_SZ" => Constant(32),
                _ => {
                    let register = name.strip_prefix("%envreg")?.parse::<u32>().ok()?;
                    return (register < 32).then_some(Constant(0));
                }
            });
        }
    };
    Some(match name {
        "%tid" => Fixed(Special::Thread(axis)),
        "%ntid" => Fixed(Special::BlockShape(axis)),
        "%ctaid" => Fixed(Special::Block(axis)),
        "%nctaid" => Fixed(Special::GridShape(axis)),
        "%clusterid" => Fixed(Special::Cluster(axis)),
        "%nclusterid" => Fixed(Special::ClusterGridShape(axis)),
        "%cluster_ctaid" => Fixed(Special::BlockInCluster(axis)),
        "%cluster_nctaid" => Fixed(Special::ClusterShape(axis)),
        _ => return None,
    })
}

impl<'a> Builder<'a, '_> {
    pub fn instruction(&mut self, text: &'a Text<'a>) -> Result<()> {
        let guard = match text.guard {
            None => Guard::NONE,
            Some(guard) => match self.lookup(guard.name) {
                Some(Binding::Predicate(index)) => Guard::new(index, guard.negated),
                _ => return Err(refuse(text, format!("`{}` is not a predicate", guard.name))),
            },
        };
        match text.opcode {
            "mov" => self.mov(text, guard),
            "ld" | "ldu" => self.load(text, guard),
            "st" => self.store(text, guard),
            "atom" | "red" => self.atomic(text, guard),
            "cp" => self.copy(text, guard),
            "mbarrier" => self.mbarrier(text, guard),
            "ldmatrix" | "stmatrix" => self.matrices(text, guard),
            "mma" => self.matrix_product(text, guard),
            "wgmma" => self.warpgroup(text, guard),
            "cvta" => self.cvta(text, guard),
            "mapa" => self.map_address(text, guard),
            "isspacep" => self.isspacep(text, guard),
            "bra" | "brx" | "call" | "ret" | "exit" | "trap" | "brkpt" => self.control(text, guard),
            "bar" | "barrier" => self.barrier(text, guard),
            "vote" | "match" | "shfl" | "redux" | "activemask" | "elect" => self.collective(text, guard),
            "membar" | "fence" => {
                self.program.communicates = true;
                self.fence(text);
                let proxy = matches!(text.modifiers[..], ["proxy", "async", ..] | ["proxy", "async::generic", ..])
                    || text.modifiers.first().is_some_and(|word| word.starts_with("proxy::async"));
                let mbarriers = text.modifiers.first() == Some(&"mbarrier_init");
                self.emit(
                    match (proxy, mbarriers) {
                        (true, _) => Operation::ProxyFence,
                        (false, true) => Operation::MbarrierFence,
                        (false, false) => Operation::Nothing,
                    },
                    guard,
                );
                Ok(())
            }
            "setmaxnreg" => {
                let [Operand::Integer(count)] = self.operands(text, 1..=1)? else {
                    return Err(refuse(text, "the number of registers must be a constant"));
                };
                let known = (24..=256).contains(count) && count % 8 == 0;
                if !known || !matches!(text.modifiers[..], ["inc" | "dec", "sync", "aligned", "u32"]) {
                    return Err(refuse(text, "setmaxnreg.inc or .dec takes a multiple of 8 from 24 to 256"));
                }
                self.emit(Operation::SetRegisters { count: *count as u32 }, guard);
                Ok(())
            }
            "prefetch" | "prefetchu" | "discard" | "applypriority" | "nanosleep" | "pmevent" | "griddepcontrol" => {
                // Hints, and waits for what has always happened already.
                self.emit(Operation::Nothing, guard);
                Ok(())
            }
            _ => self.compute(text, guard),
        }
    }

    // ---- operands -----------------------------------------------------------------------------------------

    /// Checks the number of operands.
    pub fn operands(&self, text: &'a Text<'a>, allowed: std::ops::RangeInclusive<usize>) -> Result<&'a [Operand<'a>]> {
        if allowed.contains(&text.operands.len()) {
            return Ok(&text.operands);
        }
        let (least, most) = allowed.into_inner();
        let wanted = if least == most { least.to_string() } else { format!("{least} to {most}") };
        Err(refuse(text, format!("this instruction takes {wanted} operands, here are {}", text.operands.len())))
    }

    /// A register of exactly this class, or any of 32 bits or fewer for an 8-bit type.
    pub fn register(&mut self, text: &'a Text<'a>, operand: &Operand<'a>, class: RegisterClass) -> Result<u32> {
        let binding = match operand {
            Operand::Name(name) => self.lookup(name),
            Operand::Discard => Some(self.scratch(class)),
            _ => None,
        };
        match binding {
            Some(Binding::Register { row, class: found }) if found == class => Ok(row),
            Some(Binding::Predicate(index)) if class == RegisterClass::Predicate => Ok(index),
            Some(Binding::Register { class: found, .. }) => {
                Err(refuse(text, format!("a register of {found:?} stands where {class:?} are needed")))
            }
            _ => Err(refuse(text, format!("`{operand:?}` is not a register of {class:?}"))),
        }
    }

    /// The class of a register operand; `None` for anything else.
    pub fn register_class(&mut self, operand: &Operand<'a>) -> Option<RegisterClass> {
        match operand {
            Operand::Name(name) => match self.lookup(name)? {
                Binding::Register { class, .. } => Some(class),
                Binding::Predicate(_) => Some(RegisterClass::Predicate),
                _ => None,
            },
            _ => None,
        }
    }

    /// A predicate source with its possible negation.
    pub fn predicate(&mut self, text: &'a Text<'a>, operand: &Operand<'a>) -> Result<Guard> {
        match operand {
            Operand::Integer(value) => Ok(Guard::new(ALWAYS, *value == 0)),
            Operand::Not(name) => {
                Ok(Guard::new(self.register(text, &Operand::Name(name), RegisterClass::Predicate)?, true))
            }
            _ => Ok(Guard::new(self.register(text, operand, RegisterClass::Predicate)?, false)),
        }
    }

    /// A row that holds a 32-bit source: register, number, special register.
    pub fn source32(&mut self, text: &'a Text<'a>, operand: &Operand<'a>) -> Result<u32> {
        self.source(text, operand, Type::B32, false)
    }

    /// A row (for 64 bits the first of two) that holds a source of type `ty`.
    ///
    /// `relaxed` lets a register be wider or narrower than the type, as `cvt` allows.
    pub fn source(&mut self, text: &'a Text<'a>, operand: &Operand<'a>, ty: Type, relaxed: bool) -> Result<u32> {
        let class = class_of(ty);
        match operand {
            Operand::Name(name) => match self.lookup(name) {
                Some(Binding::Register { row, class: found })
                    if relaxed || found == class || ty.bits() == 8 && found == RegisterClass::Bits32 =>
                {
                    Ok(row)
                }
                Some(Binding::Register { class: found, .. }) => {
                    Err(refuse(text, format!("`{name}` is a register of {found:?}, the type needs {class:?}")))
                }
                Some(Binding::Predicate(_)) => Err(refuse(text, format!("`{name}` is a predicate"))),
                Some(variable) => self.variable_address(text, variable, 0, class),
                None => self.special_source(text, name, None, class),
            },
            Operand::Component(name, component) => self.special_source(text, name, Some(component), class),
            Operand::Offset(name, offset) => match self.lookup(name) {
                None | Some(Binding::Register { .. } | Binding::Predicate(_)) => {
                    Err(refuse(text, format!("`{name}` is not a variable")))
                }
                Some(variable) => self.variable_address(text, variable, *offset, class),
            },
            Operand::Integer(value) => self.number(text, *value, ty),
            Operand::Float32(bits) => match ty {
                Type::F64 => Ok(self.constant(Constant::Bits64(f64::from(f32::from_bits(*bits)).to_bits()))),
                _ if ty.bits() == 32 => Ok(self.constant(Constant::Bits32(*bits))),
                _ => Err(refuse(text, "a 32-bit floating-point number doesn't fit the type")),
            },
            Operand::Float64(bits) => match ty {
                Type::F32 => Ok(self.constant(Constant::Bits32((f64::from_bits(*bits) as f32).to_bits()))),
                _ if ty.bits() == 64 => Ok(self.constant(Constant::Bits64(*bits))),
                _ => Err(refuse(text, "a 64-bit floating-point number doesn't fit the type")),
            },
            _ => Err(refuse(text, format!("an operand that can't be a source here: {operand:?}"))),
        }
    }

    fn number(&mut self, text: &'a Text<'a>, value: u64, ty: Type) -> Result<u32> {
        if ty.is_float() && value != 0 {
            return Err(refuse(text, "an integer where a floating-point number is needed"));
        }
        Ok(match ty.bits() {
            64 => self.constant(Constant::Bits64(value)),
            32 => self.constant(Constant::Bits32(value as u32)),
            16 => self.constant(Constant::Bits32(value as u32 & 0xffff)),
            _ => self.constant(Constant::Bits32(value as u32 & 0xff)),
        })
    }

    fn special_source(
        &mut self,
        text: &'a Text<'a>,
        name: &'a str,
        component: Option<&str>,
        class: RegisterClass,
    ) -> Result<u32> {
        let unknown = || match component {
            Some(component) => format!("`{name}.{component}` is not known"),
            None => format!("`{name}` is not known"),
        };
        match special_value(name, component) {
            Some(SpecialValue::Constant(value)) if class == RegisterClass::Bits64 => {
                Ok(self.constant(Constant::Bits64(u64::from(value))))
            }
            Some(SpecialValue::Constant(value)) => Ok(self.constant(Constant::Bits32(value))),
            Some(SpecialValue::Fixed(special)) if class != RegisterClass::Bits64 => Ok(self.special(special)),
            Some(SpecialValue::Fixed(_)) => Err(refuse(text, format!("`{name}` has 32 bits, the type has 64"))),
            Some(SpecialValue::Counter(_)) => Err(refuse(text, format!("`{name}` can only be read by `mov`"))),
            None => Err(refuse(text, unknown())),
        }
    }

    /// A constant row (or two) that holds a variable's address in its own state space.
    fn variable_address(
        &mut self,
        text: &'a Text<'a>,
        variable: Binding,
        offset: i64,
        class: RegisterClass,
    ) -> Result<u32> {
        let wide = match class {
            RegisterClass::Bits64 => true,
            RegisterClass::Bits32 => false,
            _ => return Err(refuse(text, "an address needs 32 or 64 bits")),
        };
        let space_offset = |start: u32| u64::from(start).wrapping_add(offset as u64);
        let value = match variable {
            Binding::Shared(start) => return Ok(self.constant(Constant::Shared { start, offset, wide })),
            Binding::DynamicShared => return Ok(self.constant(Constant::DynamicShared { offset, wide })),
            Binding::Local { offset: start, parameter: false, .. } => space_offset(start),
            // Parameters have generic addresses, since functions keep theirs elsewhere than kernels.
            Binding::Local { offset: start, .. } if wide => LOCAL_WINDOW.wrapping_add(space_offset(start)),
            Binding::KernelParameter { offset: start } if wide => PARAMETER_WINDOW.wrapping_add(space_offset(start)),
            Binding::Variable(index) if wide => return Ok(self.constant(Constant::Variable { index, offset })),
            _ => return Err(refuse(text, "the address of this variable has 64 bits")),
        };
        Ok(self.constant(if wide { Constant::Bits64(value) } else { Constant::Bits32(value as u32) }))
    }

    // ---- lane-wise instructions ---------------------------------------------------------------------------

    fn compute(&mut self, text: &'a Text<'a>, guard: Guard) -> Result<()> {
        let relaxed = text.opcode == "cvt";
        let selected = if relaxed {
            let wide = |class: Option<RegisterClass>| class == Some(RegisterClass::Bits64);
            let mut classes = [None; 2];
            for (class, operand) in classes.iter_mut().zip(&text.operands) {
                *class = self.register_class(operand);
            }
            let widths = Widths { destination_is_64: wide(classes[0]), source_is_64: wide(classes[1]) };
            alu::select_with_widths(text.opcode, &text.modifiers, widths)
        } else {
            alu::select(text.opcode, &text.modifiers)
        };
        let selected = selected.map_err(|unsupported| refuse(text, unsupported.reason))?;
        let count = selected.sources.len();
        let written = self.operands(text, count + 1..=count + 1)?;
        let (first, second) = match &written[0] {
            Operand::Pair(first, second) if selected.destinations.len() > 1 => (&**first, Some(&**second)),
            other => (other, None),
        };
        let mut operands = Operands {
            destination: self.destination(text, first, selected.destinations[0], relaxed)?,
            destination2: UNUSED,
            sources: [UNUSED; 4],
            extra: selected.extra,
        };
        if let Some(second) = second {
            operands.destination2 = self.destination(text, second, selected.destinations[1], relaxed)?;
        }
        for (position, (operand, ty)) in written[1..].iter().zip(selected.sources.iter()).enumerate() {
            operands.sources[position] = if *ty == Type::Pred {
                let predicate = self.predicate(text, operand)?;
                if predicate.0 & 1 == 1 {
                    operands.extra ^= alu::negate_source(position);
                }
                predicate.0 >> 1
            } else {
                self.source(text, operand, *ty, relaxed)?
            };
        }
        self.emit_alu(&selected, operands, guard);
        Ok(())
    }

    fn destination(&mut self, text: &'a Text<'a>, operand: &Operand<'a>, ty: Type, relaxed: bool) -> Result<u32> {
        let class = match self.register_class(operand) {
            Some(found)
                if found != RegisterClass::Predicate
                    && ty != Type::Pred
                    && (relaxed || ty.bits() == 8 && found == RegisterClass::Bits32) =>
            {
                found
            }
            _ => class_of(ty),
        };
        if relaxed
            && class != class_of(ty)
            && matches!((class, ty.bits()), (RegisterClass::Bits16, 32 | 64) | (RegisterClass::Bits32, 64))
        {
            return Err(refuse(text, "the destination register is narrower than the type"));
        }
        self.register(text, operand, class)
    }

    // ---- mov ----------------------------------------------------------------------------------------------

    fn mov(&mut self, text: &'a Text<'a>, guard: Guard) -> Result<()> {
        let operands = self.operands(text, 2..=2)?;
        let [word] = text.modifiers[..] else { return Err(refuse(text, "`mov` takes one type")) };
        let Some(ty) = Type::from_modifier(word) else { return Err(refuse(text, format!("`.{word}` is not a type"))) };
        match (&operands[0], &operands[1]) {
            (_, Operand::Vector(parts)) => self.pack(text, guard, &operands[0], parts, ty),
            (Operand::Vector(parts), _) => self.unpack(text, guard, parts, &operands[1], ty),
            (_, Operand::Name(name)) => {
                if let Some(SpecialValue::Counter(counter)) = special_value(name, None) {
                    let wide = counter == Counter::Wide;
                    if wide != (ty.bits() == 64) || ty.bits() < 32 {
                        return Err(refuse(text, format!("`{name}` doesn't have the width of the type")));
                    }
                    let destination = self.register(text, &operands[0], class_of(ty))?;
                    self.program.communicates = true;
                    self.emit(Operation::ReadCounter { destination, counter }, guard);
                    return Ok(());
                }
                if self.lookup(name).is_none() && self.tables.functions.contains_key(name) {
                    return Err(refuse(text, "addresses of functions and indirect calls are not supported"));
                }
                self.compute(text, guard)
            }
            _ => self.compute(text, guard),
        }
    }

    fn parts(&self, text: &'a Text<'a>, count: usize, ty: Type) -> Result<(u8, RegisterClass)> {
        match (ty.bits(), count) {
            (32, 2) | (64, 4) => Ok((16, RegisterClass::Bits16)),
            (64, 2) => Ok((32, RegisterClass::Bits32)),
            _ => Err(refuse(text, format!("{count} registers don't make up {} bits", ty.bits()))),
        }
    }

    fn pack(
        &mut self,
        text: &'a Text<'a>,
        guard: Guard,
        destination: &Operand<'a>,
        parts: &'a [Operand<'a>],
        ty: Type,
    ) -> Result<()> {
        let (bits, _) = self.parts(text, parts.len(), ty)?;
        let part_type = if bits == 16 { Type::B16 } else { Type::B32 };
        let mut rows = Vec::new();
        for part in parts {
            rows.push(self.source(text, part, part_type, false)?);
        }
        let count = rows.len() as u8;
        let destination = self.register(text, destination, class_of(ty))?;
        let list = self.list(rows);
        self.emit(Operation::Pack { destination, list, count, bits }, guard);
        Ok(())
    }

    fn unpack(
        &mut self,
        text: &'a Text<'a>,
        guard: Guard,
        parts: &'a [Operand<'a>],
        source: &Operand<'a>,
        ty: Type,
    ) -> Result<()> {
        let (bits, class) = self.parts(text, parts.len(), ty)?;
        let mut rows = Vec::new();
        for part in parts {
            rows.push(if *part == Operand::Discard { NONE } else { self.register(text, part, class)? });
        }
        let count = rows.len() as u8;
        let source = self.source(text, source, ty, false)?;
        let list = self.list(rows);
        self.emit(Operation::Unpack { source, list, count, bits }, guard);
        Ok(())
    }
}
