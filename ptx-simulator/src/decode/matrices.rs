//! Instructions for tensor cores: matrices to and from shared memory (`ldmatrix`, `stmatrix`), and their products
//! (`mma`, `wgmma`).

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
        self.emit(Operation::Matrices(MatrixAccess { stores, target, count, transposed, address, registers }), guard);
        Ok(())
    }

    /// `mma` with sums of `f32`.
    pub fn matrix_product(&mut self, text: &'a Text<'a>, guard: Guard) -> Result<()> {
        let ["sync", "aligned", shape, "row", "col", types @ ..] = &text.modifiers[..] else {
            return Err(refuse(text, "only `.sync.aligned` with a shape and `.row.col` is supported"));
        };
        let (factors, sums) = match types {
            ["f32", a, b, "f32"] if a == b => (*a, true),
            [_, a, ..] => (*a, false),
            _ => return Err(refuse(text, "it needs the types of D, A, B and C")),
        };
        if !sums {
            return Err(refuse(text, "only products of factors of one type with sums of `.f32` are supported"));
        }
        let (factors, k) = match (factors, *shape) {
            ("f16", "m16n8k8") => (Factors::F16, 8),
            ("f16", "m16n8k16") => (Factors::F16, 16),
            ("bf16", "m16n8k8") => (Factors::BF16, 8),
            ("bf16", "m16n8k16") => (Factors::BF16, 16),
            ("tf32", "m16n8k4") => (Factors::TF32, 4),
            ("tf32", "m16n8k8") => (Factors::TF32, 8),
            (ty @ ("f16" | "bf16" | "tf32"), _) => {
                return Err(refuse(text, format!("`.{shape}` is not a shape that is supported for `.{ty}`")));
            }
            (ty, _) => return Err(refuse(text, format!("factors of `.{ty}` are not supported"))),
        };
        let mut product = MatrixProduct { factors, k, registers: NONE };
        let [d, a, b, c] = self.operands(text, 4..=4)? else { unreachable!("there are four operands") };
        let of_a = usize::from(product.of_a());
        let mut registers = self.fragment(text, d, MatrixProduct::OF_SUMS.into(), false)?;
        for (operand, count) in [(a, of_a), (b, of_a / 2), (c, MatrixProduct::OF_SUMS.into())] {
            registers.extend(self.fragment(text, operand, count, true)?);
        }
        product.registers = self.list(registers);
        self.emit(Operation::MatrixProduct(product), guard);
        Ok(())
    }

    /// `wgmma` with sums of `f32`.
    pub fn warpgroup(&mut self, text: &'a Text<'a>, guard: Guard) -> Result<()> {
        let step = match text.modifiers[..] {
            ["mma_async", "sync", "aligned", shape, ref types @ ..] => {
                return self.warpgroup_product(text, guard, shape, types);
            }
            ["fence", "sync", "aligned"] => WarpgroupStep::Fence,
            ["commit_group", "sync", "aligned"] => WarpgroupStep::Commit,
            ["wait_group", "sync", "aligned"] => {
                let [Operand::Integer(open)] = self.operands(text, 1..=1)? else {
                    return Err(refuse(text, "the number of groups must be a constant"));
                };
                WarpgroupStep::Wait(u32::try_from(*open).unwrap_or(u32::MAX))
            }
            _ => return Err(refuse(text, "this form of `wgmma` is not supported")),
        };
        let count = usize::from(matches!(step, WarpgroupStep::Wait(_)));
        self.operands(text, count..=count)?;
        self.emit(Operation::WarpgroupStep(step), guard);
        Ok(())
    }

    fn warpgroup_product(&mut self, text: &'a Text<'a>, guard: Guard, shape: &str, types: &[&'a str]) -> Result<()> {
        let (factors, k) = match types {
            ["f32", "f16", "f16"] => (Factors::F16, "k16"),
            ["f32", "bf16", "bf16"] => (Factors::BF16, "k16"),
            ["f32", "tf32", "tf32"] => (Factors::TF32, "k8"),
            _ => {
                let message =
                    "only products of factors of `.f16`, `.bf16` or `.tf32` with sums of `.f32` are supported";
                return Err(refuse(text, message));
            }
        };
        let n = shape.strip_prefix("m64n").and_then(|rest| rest.strip_suffix(k)).and_then(|n| n.parse().ok());
        let Some(n) = n.filter(|n: &u16| (8..=256).contains(n) && n.is_multiple_of(8)) else {
            return Err(refuse(
                text,
                format!("`.{shape}` is not a shape for these types: it's m64n8{k} to m64n256{k}"),
            ));
        };
        // Factors of 16 bits may be stored either way; if A is in registers, only B.
        let operands = self.operands(text, 6..=8)?;
        let in_registers = matches!(operands[1], Operand::Vector(_));
        let ways = match (factors, in_registers) {
            (Factors::TF32, _) => 0,
            (_, true) => 1,
            (_, false) => 2,
        };
        if operands.len() != 6 + ways {
            return Err(refuse(text, format!("this form takes {} operands, here are {}", 6 + ways, operands.len())));
        }
        let mut product = WarpgroupProduct {
            factors,
            n,
            registers: NONE,
            a: NONE,
            b: self.source(text, &operands[2], Type::B64, false)?,
            adds: self.predicate(text, &operands[3])?,
            negated: [false; 2],
            along_mn: [false; 2],
        };
        for (negated, operand) in product.negated.iter_mut().zip(&operands[4..6]) {
            *negated = match operand {
                Operand::Integer(1) => false,
                Operand::Integer(u64::MAX) => true,
                _ => return Err(refuse(text, "factors are scaled by 1 or -1")),
            };
        }
        for (along_mn, operand) in product.along_mn[2 - ways..].iter_mut().zip(&operands[6..]) {
            *along_mn = match operand {
                Operand::Integer(0) => false,
                Operand::Integer(1) => true,
                _ => return Err(refuse(text, "a factor is transposed (1) or not (0)")),
            };
        }
        let sums = usize::from(product.of_sums());
        let mut registers = self.fragment(text, &operands[0], sums, false)?;
        registers.extend_from_within(..);
        if in_registers {
            registers.extend(self.fragment(text, &operands[1], WarpgroupProduct::OF_A.into(), true)?);
        } else {
            product.a = self.source(text, &operands[1], Type::B64, false)?;
        }
        product.registers = self.list(registers);
        self.emit(Operation::WarpgroupProduct(product), guard);
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
