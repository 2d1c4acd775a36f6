//! Which shared array an address was made from.
//!
//! Compilers give every value a register of its own, so it's enough to ask for each register which arrays' addresses any
//! of its values may have been computed from, whatever the order of the code. Registers that are used for several
//! things only make the answer wider, and an access with more than one possible array isn't judged.
//!
//! What comes from memory, from a parameter or from an atomic may be any address. Where a register holds either that or
//! what was made from an array, nothing is judged; where it is added to an array's address, it's an index.

use std::collections::HashMap;

use super::SharedArray;
use super::flow::{AluTypes, Register, Use, visit};
use super::program::*;

/// A set of arrays; the last bit stands for all that aren't static arrays or that are too many to be told apart.
type Arrays = u64;
const OTHER: u32 = 63;

/// Code whose addresses go through more loops than this isn't judged.
const MOST_PASSES: u32 = 64;

/// An instruction that computes.
struct Move {
    reads: Vec<u32>,
    writes: Vec<u32>,
    /// A sum: of an address and what isn't one.
    sum: bool,
}

/// Fills in [`Program::origins`] and [`Program::taken_at`]. `direct` holds where the array starts for accesses that
/// name one themselves.
pub(super) fn trace_origins(
    program: &mut Program,
    types: &[Option<AluTypes>],
    arrays: &[SharedArray],
    direct: &HashMap<u32, u32>,
) {
    let number = |start: u32| {
        let position = arrays.iter().position(|array| array.offset == start).unwrap_or(OTHER as usize);
        (position as u32).min(OTHER)
    };
    program.origins = vec![NONE; program.code.len()];
    program.taken_at = vec![NONE; arrays.len()];
    let mut made_from: HashMap<u32, Arrays> = HashMap::new();
    for (row, constant) in &program.constants {
        match constant {
            Constant::Shared { start, .. } => drop(made_from.insert(*row, 1 << number(*start))),
            Constant::DynamicShared { .. } => drop(made_from.insert(*row, 1 << OTHER)),
            _ => {}
        }
    }
    let constants = made_from.clone();
    let mut take = |array: u32, at: u32| {
        if let Some(taken) = program.taken_at.get_mut(array as usize)
            && *taken == NONE
        {
            *taken = at;
        }
    };

    // What each instruction reads and writes; what it computes from addresses may be an address itself.
    let mut moves: Vec<Move> = Vec::new();
    for (index, types) in types.iter().enumerate() {
        let mut instruction = program.code[index];
        let (mut reads, mut writes) = (Vec::new(), Vec::new());
        let mut base = NONE;
        if let Operation::Load(Access { address, .. })
        | Operation::Store(Access { address, .. })
        | Operation::Atomic(Atomic { address, .. })
        | Operation::Mbarrier(Mbarrier { address, .. })
        | Operation::Matrices(MatrixAccess { address, .. }) = instruction.operation
        {
            base = address.base;
        }
        if let Operation::AsyncCopy(copy) = instruction.operation {
            base = copy.destination.base;
        }
        if let Operation::BulkCopy(copy) = instruction.operation {
            base = copy.shared.base;
        }
        if let Operation::AsyncStore(store) = instruction.operation {
            base = store.address.base;
        }
        let computes = matches!(
            instruction.operation,
            Operation::Alu { .. }
                | Operation::MapAddress(_)
                | Operation::Pack { .. }
                | Operation::Unpack { .. }
                | Operation::Shuffle { .. }
        );
        visit(&mut instruction, types.as_ref(), &mut program.lists, |usage, register, _| {
            if let Register::Row(row) = register {
                match usage {
                    Use::Read => {
                        if let Some(arrays) = constants.get(&row) {
                            (0..OTHER).filter(|bit| arrays >> bit & 1 != 0).for_each(|bit| take(bit, index as u32));
                        }
                        reads.push(row);
                    }
                    Use::Write => writes.push(row),
                }
            }
        });
        if let Some(start) = direct.get(&(index as u32)) {
            take(number(*start), index as u32);
        }
        if computes {
            let mnemonic = program.mnemonics.get(program.places[index].mnemonic as usize);
            let root = mnemonic.map_or("", |mnemonic| mnemonic.split('.').next().unwrap_or(""));
            moves.push(Move { reads, writes, sum: matches!(root, "add" | "sub" | "mad" | "mad24") });
        } else {
            for row in writes {
                *made_from.entry(row).or_default() |= 1 << OTHER;
            }
        }
        // Kept for below: the row that the access starts from.
        program.origins[index] = base;
    }
    let mut passes = 0;
    let mut changed = true;
    while changed {
        passes += 1;
        if passes > MOST_PASSES {
            program.origins.fill(NONE);
            return;
        }
        changed = false;
        for Move { reads, writes, sum } in &moves {
            let known = || reads.iter().filter_map(|row| made_from.get(row).copied());
            let address = |arrays: Arrays| arrays & !(1 << OTHER) != 0;
            let indexed = *sum && known().any(address);
            let read = known().filter(|arrays| !indexed || address(*arrays)).fold(0, |all, arrays| all | arrays);
            for row in writes {
                let known = made_from.entry(*row).or_default();
                changed |= *known | read != *known;
                *known |= read;
            }
        }
    }
    for (index, origin) in program.origins.iter_mut().enumerate() {
        let arrays = match direct.get(&(index as u32)) {
            Some(start) => 1 << number(*start),
            None => made_from.get(origin).copied().unwrap_or(0),
        };
        let only = arrays.is_power_of_two() && arrays != 1 << OTHER;
        *origin = if only { arrays.trailing_zeros() } else { NONE };
    }
}
