//! Bulk copies (`cp.async.bulk`, `cp.async.bulk.tensor`) and the groups in which threads wait for those to global memory.

use super::body::refuse;
use super::builder::{Builder, Result};
use super::program::*;
use crate::alu::Type;
use crate::parse::syntax::{Instruction as Text, Operand};
use crate::tensor_map::MOST_DIMENSIONS;

const NO_ADDRESS: ShortAddress = ShortAddress { base: NONE, wide: true, offset: 0 };

impl<'a> Builder<'a, '_> {
    /// `cp.async.bulk` with what follows it.
    pub fn bulk_copy(&mut self, text: &'a Text<'a>, guard: Guard, words: &[&'a str]) -> Result<()> {
        match *words {
            ["commit_group"] => {
                self.operands(text, 0..=0)?;
                self.emit(Operation::CommitStores, guard);
                Ok(())
            }
            ["wait_group", ref read @ ..] if matches!(read, [] | ["read"]) => {
                let [Operand::Integer(open)] = self.operands(text, 1..=1)? else {
                    return Err(refuse(text, "the number of groups must be a constant"));
                };
                let open = u32::try_from(*open).unwrap_or(u32::MAX);
                self.emit(Operation::WaitForStores { open, only_read: !read.is_empty() }, guard);
                Ok(())
            }
            ["prefetch", ..] => {
                self.emit(Operation::Nothing, guard);
                Ok(())
            }
            ["tensor", dimensions, ref rest @ ..] => {
                let number = dimensions.strip_suffix('d').and_then(|digits| digits.parse().ok());
                match number.filter(|number| (1..=MOST_DIMENSIONS).contains(number)) {
                    Some(number) => self.bulk_transfer(text, guard, rest, Some(number)),
                    None => Err(refuse(text, "a tensor has 1 to 5 dimensions (`.2d`)")),
                }
            }
            ref rest => self.bulk_transfer(text, guard, rest, None),
        }
    }

    /// A copy, of a tensor with so many dimensions or of bytes.
    fn bulk_transfer(
        &mut self,
        text: &'a Text<'a>,
        guard: Guard,
        words: &[&'a str],
        dimensions: Option<usize>,
    ) -> Result<()> {
        let (direction, rest) = match words {
            ["shared::cluster" | "shared::cta", "global", rest @ ..] => (BulkDirection::Load, rest),
            ["global", "shared::cta", rest @ ..] => (BulkDirection::Store, rest),
            _ => return Err(refuse(text, "bulk copies go between global and shared memory")),
        };
        let completes = match direction {
            BulkDirection::Load => "mbarrier::complete_tx::bytes",
            BulkDirection::Store => "bulk_group",
        };
        let (mut completed, mut hint, mut multicast) = (false, 0, 0);
        for word in rest {
            match *word {
                "tile" if dimensions.is_some() => {}
                "L2::cache_hint" => hint = 1,
                "multicast::cluster" if direction == BulkDirection::Load && words[0] == "shared::cluster" => {
                    multicast = 1
                }
                word if word == completes => completed = true,
                word => return Err(refuse(text, format!("`.{word}` is not supported for this copy"))),
            }
        }
        if !completed {
            return Err(refuse(text, format!("it needs `.{completes}`")));
        }
        let bytes = usize::from(dimensions.is_none());
        let barrier = usize::from(direction == BulkDirection::Load);
        let count = 2 + bytes + barrier + multicast + hint;
        let operands = self.operands(text, count..=count)?;
        let (shared, global) = match direction {
            BulkDirection::Load => (&operands[0], &operands[1]),
            BulkDirection::Store => (&operands[1], &operands[0]),
        };
        let mbarrier = match direction {
            BulkDirection::Load => self.short_address(text, &operands[2 + bytes], Target::Cluster)?,
            BulkDirection::Store => NO_ADDRESS,
        };
        // The array that is named last counts as the one that the copy's address is made from; it isn't the mbarrier's.
        self.direct.remove(&(self.program.code.len() as u32));
        let mask = match multicast {
            0 => None,
            _ => Some(self.source(text, &operands[2 + bytes + barrier], Type::B16, false)?),
        };
        let reach = if direction == BulkDirection::Load { Target::Cluster } else { Target::Shared };
        let shared = self.short_address(text, shared, reach)?;
        let (global, extent) = match dimensions {
            Some(dimensions) => self.tensor_address(text, global, dimensions, mask)?,
            None => {
                let bytes = self.source32(text, &operands[2])?;
                let number = self.list([bytes].into_iter().chain(mask));
                (self.short_address(text, global, Target::Global)?, BulkExtent::Bytes { number })
            }
        };
        let multicast = mask.is_some();
        self.emit(Operation::BulkCopy(BulkCopy { direction, shared, global, mbarrier, extent, multicast }), guard);
        Ok(())
    }

    /// A tensor map's generic address, and coordinates with a mask behind them.
    fn tensor_address(
        &mut self,
        text: &'a Text<'a>,
        operand: &Operand<'a>,
        dimensions: usize,
        mask: Option<u32>,
    ) -> Result<(ShortAddress, BulkExtent)> {
        let Operand::TensorAddress { base, offset, coordinates } = operand else {
            return Err(refuse(text, "a tensor map with coordinates (`[map, {x, y}]`) is needed"));
        };
        if coordinates.len() != dimensions {
            return Err(refuse(text, format!("{} coordinates for {dimensions} dimensions", coordinates.len())));
        }
        let mut places = Vec::new();
        for coordinate in coordinates {
            places.push(self.source32(text, coordinate)?);
        }
        let plain = Operand::Address { base: *base, offset: *offset };
        let map = match self.address(text, &plain, None)? {
            // A parameter that is named itself.
            (Address { base: NONE, offset, .. }, Target::Parameter) => {
                let address = Constant::Bits64(PARAMETER_WINDOW.wrapping_add(offset as u64));
                ShortAddress { base: self.constant(address), wide: true, offset: 0 }
            }
            (_, Target::Shared | Target::Cluster | Target::Local) => {
                return Err(refuse(text, "tensor maps are parameters, or in global memory"));
            }
            _ => self.short_address(text, &plain, Target::Generic)?,
        };
        let coordinates = self.list(places.into_iter().chain(mask));
        Ok((map, BulkExtent::Box { coordinates, dimensions: dimensions as u8 }))
    }
}
