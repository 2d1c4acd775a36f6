//! Clusters: blocks that run at the same time and reach each other's shared memory. Their barrier, and addresses in other
//! blocks' shared memory.

use super::body::refuse;
use super::builder::{Builder, Result};
use super::program::*;
use super::unsupported;
use crate::MAX_CLUSTER_BLOCKS;
use crate::alu::Type;
use crate::parse::syntax::{Function, Instruction as Text, RegisterClass};

impl<'a> Builder<'a, '_> {
    /// Takes down the cluster's shape that a kernel states.
    pub fn cluster(&mut self, function: &'a Function<'a>) -> Result<()> {
        let Some(shape) = function.cluster else { return Ok(()) };
        let blocks = shape.iter().fold(1u64, |product, extent| product.saturating_mul(u64::from(*extent)));
        if blocks == 0 || blocks > MAX_CLUSTER_BLOCKS {
            let possible = format!("1 to {MAX_CLUSTER_BLOCKS} are possible on every GPU that has clusters");
            let message = format!("a cluster of {blocks} blocks: {possible}");
            return Err(unsupported(function.line, function.name, message));
        }
        self.program.clustered = blocks > 1;
        Ok(())
    }

    /// The space of `.shared::cluster`: a block that is a cluster of its own has no other shared memory than its own.
    pub fn cluster_target(&self, target: Target) -> Target {
        if target == Target::Cluster && !self.program.clustered { Target::Shared } else { target }
    }

    /// `barrier.cluster` with what follows it, but for `.aligned`.
    pub fn cluster_barrier(&mut self, text: &'a Text<'a>, guard: Guard, words: &[&str]) -> Result<()> {
        self.operands(text, 0..=0)?;
        let operation = match *words {
            ["arrive"] | ["arrive", "release"] => Operation::ClusterArrive { releases: true },
            ["arrive", "relaxed"] => Operation::ClusterArrive { releases: false },
            ["wait"] | ["wait", "acquire"] => Operation::ClusterWait,
            _ => {
                return Err(refuse(
                    text,
                    "a cluster's barrier has `.arrive` (`.release`, `.relaxed`) and `.wait` (`.acquire`)",
                ));
            }
        };
        self.emit(operation, guard);
        Ok(())
    }

    /// `mapa`.
    pub fn map_address(&mut self, text: &'a Text<'a>, guard: Guard) -> Result<()> {
        let (generic, wide) = match text.modifiers[..] {
            ["shared::cluster", ty @ ("u32" | "u64")] => (false, ty == "u64"),
            ["u64"] => (true, true),
            _ => {
                return Err(refuse(text, "`mapa` takes `.shared::cluster` or generic addresses, and `.u32` or `.u64`"));
            }
        };
        let operands = self.operands(text, 3..=3)?;
        let (class, ty) = if wide { (RegisterClass::Bits64, Type::B64) } else { (RegisterClass::Bits32, Type::B32) };
        let destination = self.register(text, &operands[0], class)?;
        let source = self.source(text, &operands[1], ty, false)?;
        let rank = self.source32(text, &operands[2])?;
        self.emit(Operation::MapAddress(MapAddress { destination, source, rank, wide, generic }), guard);
        Ok(())
    }
}
