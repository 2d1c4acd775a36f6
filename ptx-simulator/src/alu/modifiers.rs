//! The modifiers of an instruction while they are being understood: each is taken once, and what is left over at the
//! end is an error, so that no modifier is ever ignored by accident.

use super::Type;
use super::exact::Rounding;

pub(super) struct Modifiers<'a> {
    flags: Vec<&'a str>,
    types: Vec<Type>,
    next_type: usize,
}

impl<'a> Modifiers<'a> {
    pub(super) fn new(modifiers: &[&'a str]) -> Modifiers<'a> {
        let mut flags = Vec::new();
        let mut types = Vec::new();
        for &modifier in modifiers {
            match Type::from_modifier(modifier) {
                Some(found) => types.push(found),
                None => flags.push(modifier),
            }
        }
        Modifiers { flags, types, next_type: 0 }
    }

    /// Whether the flag is there; it stays.
    pub(super) fn has(&self, flag: &str) -> bool {
        self.flags.contains(&flag)
    }

    /// Whether the flag was there; it's taken.
    pub(super) fn take(&mut self, flag: &str) -> bool {
        match self.flags.iter().position(|&found| found == flag) {
            Some(index) => {
                self.flags.remove(index);
                true
            }
            None => false,
        }
    }

    /// The one of `choices` that is there, taken.
    pub(super) fn take_one_of(&mut self, choices: &[&'static str]) -> Option<&'static str> {
        choices.iter().copied().find(|choice| self.take(choice))
    }

    /// The rounding mode `rn`, `rz`, `rm` or `rp`, taken.
    pub(super) fn take_rounding(&mut self) -> Option<Rounding> {
        self.take_one_of(&["rn", "rz", "rm", "rp"]).map(|mode| match mode {
            "rn" => Rounding::NearestEven,
            "rz" => Rounding::Zero,
            "rm" => Rounding::Down,
            _ => Rounding::Up,
        })
    }

    /// The next type in the order of the text, taken.
    pub(super) fn take_type(&mut self) -> Result<Type, String> {
        let found = self.types.get(self.next_type).copied().ok_or("it needs a type")?;
        self.next_type += 1;
        Ok(found)
    }

    pub(super) fn last_type(&self) -> Option<Type> {
        self.types.last().copied()
    }

    pub(super) fn is_half(&self) -> bool {
        matches!(self.last_type(), Some(Type::F16 | Type::F16x2 | Type::BF16 | Type::BF16x2))
    }

    pub(super) fn is_real(&self) -> bool {
        matches!(self.last_type(), Some(Type::F32 | Type::F64))
    }

    /// Says what is left over.
    pub(super) fn finish(&self) -> Result<(), String> {
        if let Some(flag) = self.flags.first() {
            return Err(format!("the modifier `.{flag}` is not understood there"));
        }
        if self.next_type < self.types.len() {
            return Err(format!("one type more than it takes ({:?})", self.types[self.next_type]));
        }
        Ok(())
    }
}

/// The refusal of a type that an opcode doesn't take.
pub(super) fn wrong_type(found: Type) -> String {
    format!("it does not take the type {found:?} in this form")
}
