//! Instructions for tensor cores: matrices to and from shared memory (`ldmatrix`, `stmatrix`), and their products
//! (`mma`).

use super::body::refuse;
use super::builder::{Builder, Result};
use super::program::*;
use crate::alu::Type;
use crate::parse::syntax::{Instruction as Text, Operand, RegisterClass};

impl<'a> Builder<'a, '_> {
    /// `ldmatrix` and `stmatrix`.
    pub fn matrices(&mut self, text: &'a Text<'a>, guard: Guard) -> Result<()> {
        let stores = text.opcode == "stmatrix";
        let ["sync", "aligned", words @ ..] = &text.modifiers[..] else {
            return Err(refuse(text, "it needs `.sync.aligned`"));
        };
        let (mut shape, mut count, mut transposed, mut target, mut ty) = (None, None, false, None, None);
        for word in words {
            match *word {
                "m8n8" | "m16n16" | "m8n16" | "m16n8" => shape = Some(*word),
                "x1" => count = Some(1),
                "x2" => count = Some(2),
                "x4" => count = Some(4),
                "trans" => transposed = true,
                "shared" | "shared::cta" => target = Some(Target::Shared),
                "b16" | "b8" | "b8x16" => ty = Some(*word),
                word => return Err(refuse(text, format!("`.{word}` is not known for this instruction"))),
            }
        }
        if (shape, ty) != (Some("m8n8"), Some("b16")) {
            return Err(refuse(text, "only matrices of 8 x 8 elements of 16 bits (`.m8n8`, `.b16`) are supported"));
        }
        let Some(count) = count else { return Err(refuse(text, "it needs the number of matrices, such as `.x4`")) };
        let operands = self.operands(text, 2..=2)?;
        let (data, address) = if stores { (&operands[1], &operands[0]) } else { (&operands[0], &operands[1]) };
        let registers = self.fragment(text, data, usize::from(count), stores)?;
        let (address, target) = self.address(text, address, target)?;
        if !matches!(target, Target::Shared | Target::Generic) {
            return Err(refuse(text, "the matrices must be in shared memory"));
        }
        let registers = self.list(registers);
        self.emit(
            Operation::Matrices(MatrixAccess { stores, target, count, transposed, address, registers }),
            guard,
        );
        Ok(())
    }

    /// The rows of `count` registers of 32 bits.
    fn fragment(&mut self, text: &'a Text<'a>, operand: &Operand<'a>, count: usize, source: bool) -> Result<Vec<u32>> {
        let parts = match operand {
            Operand::Vector(parts) => &parts[..],
            other => std::slice::from_ref(other),
        };
        if parts.len() != count {
            return Err(refuse(text, format!("{count} registers are needed here, there are {}", parts.len())));
        }
        parts
            .iter()
            .map(|part| match source {
                true => self.source(text, part, Type::B32, false),
                false => self.register(text, part, RegisterClass::Bits32),
            })
            .collect()
    }
}
