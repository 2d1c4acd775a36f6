//! What the analysis knows of each instruction before the launch, and in which order a program runs two of them.

use std::collections::HashMap;

use crate::decode::program::{BarrierKind, NONE, Operation, Program, Scope, Semantics};
use crate::decode::{Module, SharedArray};
use crate::error::SourceLocation;

/// No index.
pub const NOWHERE: u32 = u32::MAX;

/// A barrier instruction.
#[derive(Clone, Copy, Debug)]
pub struct BarrierInfo {
    /// It waits; `bar.arrive` doesn't.
    pub waits: bool,
    /// It names how many threads take part; otherwise all of the block do.
    pub counted: bool,
}

/// One instruction.
#[derive(Clone, Debug)]
pub struct Info {
    pub ptx_line: u32,
    pub source: Option<SourceLocation>,
    /// The same for instructions of the same source line and column, or of the same PTX line without them.
    pub line: u32,
    /// The only shared array that the address was made from, or [`NOWHERE`].
    pub array: u32,
    pub semantics: Semantics,
    pub barrier: Option<BarrierInfo>,
}

/// What may lie between two accesses and order them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Between {
    /// Threads of one warp: barriers of the warp and of the block.
    Lanes,
    /// Threads of one block: barriers of the block.
    Threads,
    /// Threads of different blocks: nothing.
    Blocks,
}

/// All instructions of a kernel.
#[derive(Debug)]
pub struct Table {
    pub instructions: Vec<Info>,
    pub arrays: Vec<SharedArray>,
    /// The source line that declares each array.
    pub declared: Vec<Option<SourceLocation>>,
    /// The kernel has fences or ordered accesses, so that threads of different blocks may be ordered.
    pub fences: bool,
    /// Barriers of the kernel may order some threads of a block and not others.
    pub partial: bool,
    successors: Vec<Vec<u32>>,
    /// Whether an instruction ends what [`Between::Threads`] and [`Between::Lanes`] look at.
    cuts: Vec<(bool, bool)>,
    reached: HashMap<(u32, Between), Vec<u64>>,
}

impl Table {
    /// An unknown kernel has no instructions: its launch fails before the first.
    pub fn new(module: &Module, kernel: &str) -> Table {
        let Some(kernel) = module.find_kernel(kernel) else {
            let empty = Program::default();
            return Table::of(module, &empty, Vec::new());
        };
        Table::of(module, &kernel.program, kernel.info.shared_arrays.clone())
    }

    fn of(module: &Module, program: &Program, arrays: Vec<SharedArray>) -> Table {
        let mut lines: HashMap<(u32, u32, u32), u32> = HashMap::new();
        let mut instructions: Vec<Info> = Vec::new();
        let (mut fences, mut partial) = (false, false);
        for (index, (instruction, place)) in program.code.iter().zip(&program.places).enumerate() {
            let key = if place.file > 0 { (place.file, place.line, place.column) } else { (0, place.ptx_line, 0) };
            let next = lines.len() as u32;
            let line = *lines.entry(key).or_insert(next);
            let semantics = program.semantics.get(&(index as u32)).copied().unwrap_or_default();
            fences |= semantics.fence || semantics.acquire || semantics.release;
            let barrier = match instruction.operation {
                Operation::Barrier(barrier) => {
                    Some(BarrierInfo { waits: barrier.kind != BarrierKind::Arrive, counted: barrier.count != NONE })
                }
                _ => None,
            };
            partial |= barrier.is_some_and(|barrier| barrier.counted);
            partial |= matches!(instruction.operation, Operation::WarpBarrier { .. });
            let array = program.origins.get(index).copied().unwrap_or(NONE);
            let source = module.source(*place);
            instructions.push(Info { ptx_line: place.ptx_line, source, line, array, semantics, barrier });
        }
        let declared = program
            .taken_at
            .iter()
            .map(|at| instructions.get(*at as usize).and_then(|info| info.source.clone()))
            .collect();
        let returns: Vec<u32> = (0..program.code.len())
            .filter(|index| matches!(program.code[*index].operation, Operation::Call { .. }))
            .map(|index| index as u32 + 1)
            .collect();
        let successors = (0..program.code.len()).map(|index| successors(program, index, &returns)).collect();
        let cuts = program.code.iter().map(|instruction| {
            let block = matches!(instruction.operation, Operation::Barrier(_));
            (block, block || matches!(instruction.operation, Operation::WarpBarrier { .. }))
        });
        Table {
            cuts: cuts.collect(),
            instructions,
            arrays,
            declared,
            fences,
            partial,
            successors,
            reached: HashMap::new(),
        }
    }

    /// Whether the first of two accesses of different threads comes first in the program. Where the code alone doesn't
    /// say, as in a loop without a barrier, the thread that has done less so far has `earlier`.
    pub fn comes_first(&mut self, first: u32, second: u32, between: Between, earlier: std::cmp::Ordering) -> bool {
        if first != second {
            for between in [between, Between::Blocks] {
                match (self.reaches(first, second, between), self.reaches(second, first, between)) {
                    (true, false) => return true,
                    (false, true) => return false,
                    (true, true) => break,
                    (false, false) => {}
                }
            }
        }
        earlier.then(first.cmp(&second)).is_le()
    }

    /// Whether some path leads from one instruction to another without anything that orders them.
    fn reaches(&mut self, from: u32, to: u32, between: Between) -> bool {
        let Table { successors, cuts, reached, .. } = self;
        let set = reached.entry((from, between)).or_insert_with(|| {
            let mut set = vec![0u64; successors.len().div_ceil(64)];
            let mut stack = vec![from];
            while let Some(at) = stack.pop() {
                for next in &successors[at as usize] {
                    let cut = match between {
                        Between::Lanes => cuts[*next as usize].1,
                        Between::Threads => cuts[*next as usize].0,
                        Between::Blocks => false,
                    };
                    let word = &mut set[*next as usize / 64];
                    let bit = 1 << (next % 64);
                    if !cut && *word & bit == 0 {
                        *word |= bit;
                        stack.push(*next);
                    }
                }
            }
            set
        });
        set[to as usize / 64] >> (to % 64) & 1 != 0
    }
}

/// Where execution may go on. A function may return to any call.
fn successors(program: &Program, index: usize, returns: &[u32]) -> Vec<u32> {
    let instruction = &program.code[index];
    let next = index as u32 + 1;
    let guarded = instruction.guard != crate::decode::program::Guard::NONE;
    let (mut all, falls) = match instruction.operation {
        Operation::Branch { target } => (vec![target], guarded),
        Operation::BranchIndexed { list, count, .. } => {
            (program.lists[list as usize..(list + count) as usize].to_vec(), guarded)
        }
        Operation::Call { target } => (vec![target], guarded),
        Operation::Return => (returns.to_vec(), guarded),
        Operation::Exit | Operation::Trap | Operation::AssertionFailed { .. } => (Vec::new(), guarded),
        _ => (Vec::new(), true),
    };
    if falls && (next as usize) < program.code.len() {
        all.push(next);
    }
    all
}
