//! What the analysis knows of each instruction before the launch, and in which order a program runs two of them.

use std::cmp::Ordering;
use std::collections::HashMap;

use super::quick::QuickMap;
use crate::decode::program::{
    BarrierKind, BulkCopy, BulkDirection, Instruction, MatrixAccess, Mbarrier, MbarrierKind, NONE, Operation, Program,
    Semantics, Uses, WarpgroupProduct, WarpgroupStep,
};
use crate::decode::{Module, SharedArray};
use crate::error::{AccessKind, SourceLocation};

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
    /// Reading or writing; reading where it's no access.
    pub access: AccessKind,
    pub semantics: Semantics,
    pub barrier: Option<BarrierInfo>,
    /// Who accesses memory for it.
    pub agent: Agent,
    /// It uses an mbarrier.
    pub mbarrier: bool,
}

/// Who accesses memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "kebab-case"))]
#[non_exhaustive]
pub enum Agent {
    /// The thread itself.
    #[default]
    Thread,
    /// An asynchronous copy of the thread (`cp.async`).
    Copy,
    /// A bulk copy of the thread from global to shared memory.
    BulkLoad,
    /// A bulk copy of the thread from shared to global memory.
    BulkStore,
    /// A matrix product of the thread's warpgroup (`wgmma`).
    WarpgroupProduct,
    /// An asynchronous store of the thread to shared memory of the cluster (`st.async`).
    AsyncStore,
}

impl Agent {
    /// Whether it accesses shared memory through the async proxy.
    pub fn is_async_proxy(self) -> bool {
        matches!(self, Agent::BulkLoad | Agent::BulkStore | Agent::WarpgroupProduct)
    }
}

/// What an instruction does that isn't an access or a barrier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    None,
    Fence,
    ProxyFence,
    /// Back to the start of a loop.
    Back,
    /// What the thread has initialised as mbarriers is made known to the cluster.
    MbarrierFence,
    /// A product of a warpgroup.
    Product,
    Warpgroup(WarpgroupStep),
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

/// How the code leads from one of two instructions to the other without what orders them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Path {
    None,
    Forward,
    Backward,
    Both,
}

/// All instructions of a kernel.
#[derive(Debug)]
pub struct Table {
    pub instructions: Vec<Info>,
    pub steps: Vec<Step>,
    pub arrays: Vec<SharedArray>,
    /// Dynamic shared memory.
    pub dynamic: Option<SharedArray>,
    /// The source line that declares each array.
    pub declared: Vec<Option<SourceLocation>>,
    /// The kernel has fences or ordered accesses, so that threads of different blocks may be ordered.
    pub fences: bool,
    /// Barriers of the kernel may order some threads of a block and not others.
    pub partial: bool,
    /// The kernel has mbarriers.
    pub mbarriers: bool,
    /// The rows that instructions use, if the kernel has products of warpgroups.
    pub uses: Vec<Uses>,
    /// Rows of C and of A of each product, by instruction.
    pub factors: HashMap<u32, Vec<u32>>,
    /// Rows that a warp has.
    pub rows: usize,
    successors: Vec<Vec<u32>>,
    /// Whether an instruction ends what [`Between::Threads`] and [`Between::Lanes`] look at.
    cuts: Vec<(bool, bool)>,
    reached: QuickMap<(u32, Between), Vec<u64>>,
    paths: QuickMap<(u32, u32, Between), Path>,
}

impl Table {
    /// `dynamic_bytes` is what the launch gives of dynamic shared memory. An unknown kernel has no instructions: its launch fails before the first.
    pub fn new(module: &Module, kernel: &str, dynamic_bytes: u32) -> Table {
        let Some(kernel) = module.find_kernel(kernel) else {
            let empty = Program::default();
            return Table::of(module, &empty, Vec::new());
        };
        let mut table = Table::of(module, &kernel.program, kernel.info.shared_arrays.clone());
        if let Some(name) = kernel.info.dynamic_shared.clone().filter(|_| dynamic_bytes > 0) {
            table.dynamic = Some(SharedArray { name, offset: kernel.info.static_shared_bytes, bytes: dynamic_bytes });
        }
        table
    }

    fn of(module: &Module, program: &Program, arrays: Vec<SharedArray>) -> Table {
        let mut lines: HashMap<(u32, u32, u32), u32> = HashMap::new();
        let mut instructions: Vec<Info> = Vec::new();
        let (mut fences, mut partial, mut mbarriers) = (false, program.clustered, false);
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
            let mbarrier = matches!(instruction.operation, Operation::Mbarrier(_));
            mbarriers |= mbarrier;
            let product = matches!(instruction.operation, Operation::WarpgroupProduct(_));
            partial |= mbarrier || product || matches!(instruction.operation, Operation::WarpBarrier { .. });
            let array = program.origins.get(index).copied().unwrap_or(NONE);
            let source = module.source(*place);
            let access = match instruction.operation {
                Operation::Store(_)
                | Operation::AsyncCopy(_)
                | Operation::AsyncStore(_)
                | Operation::BulkCopy(BulkCopy { direction: BulkDirection::Load, .. })
                | Operation::Matrices(MatrixAccess { stores: true, .. }) => AccessKind::Write,
                Operation::Atomic(_) => AccessKind::Atomic,
                Operation::Mbarrier(mbarrier) => match mbarrier.kind {
                    MbarrierKind::Initialise => AccessKind::Write,
                    MbarrierKind::TestState | MbarrierKind::TestParity => AccessKind::Read,
                    _ => AccessKind::Atomic,
                },
                _ => AccessKind::Read,
            };
            let agent = match &instruction.operation {
                Operation::AsyncCopy(_) => Agent::Copy,
                Operation::AsyncStore(_) => Agent::AsyncStore,
                Operation::BulkCopy(BulkCopy { direction: BulkDirection::Load, .. }) => Agent::BulkLoad,
                Operation::BulkCopy(BulkCopy { direction: BulkDirection::Store, .. }) => Agent::BulkStore,
                Operation::WarpgroupProduct(_) => Agent::WarpgroupProduct,
                _ => Agent::Thread,
            };
            let ptx_line = place.ptx_line;
            instructions.push(Info { ptx_line, source, line, array, access, semantics, barrier, agent, mbarrier });
        }
        let step = |(index, instruction): (usize, &Instruction)| match instruction.operation {
            Operation::Branch { target } if target as usize <= index => {
                if only_asks(&program.code[target as usize..index]) { Step::None } else { Step::Back }
            }
            Operation::Nothing if instructions[index].semantics.fence => Step::Fence,
            Operation::ProxyFence => Step::ProxyFence,
            Operation::MbarrierFence => Step::MbarrierFence,
            Operation::WarpgroupProduct(_) => Step::Product,
            Operation::WarpgroupStep(step) => Step::Warpgroup(step),
            _ => Step::None,
        };
        let steps = program.code.iter().enumerate().map(step).collect();
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
            let waits =
                |mbarrier: &Mbarrier| matches!(mbarrier.kind, MbarrierKind::TestState | MbarrierKind::TestParity);
            let block = match &instruction.operation {
                Operation::Mbarrier(mbarrier) => waits(mbarrier),
                operation => matches!(operation, Operation::Barrier(_) | Operation::ClusterWait),
            };
            (block, block || matches!(instruction.operation, Operation::WarpBarrier { .. }))
        });
        let factors = program.code.iter().zip(0..).filter_map(|(instruction, index)| match &instruction.operation {
            Operation::WarpgroupProduct(product) => Some((index, factor_rows(program, product))),
            _ => None,
        });
        Table {
            cuts: cuts.collect(),
            instructions,
            steps,
            arrays,
            dynamic: None,
            declared,
            fences,
            partial,
            mbarriers,
            uses: program.uses.clone(),
            factors: factors.collect(),
            rows: program.rows as usize,
            successors,
            reached: QuickMap::default(),
            paths: QuickMap::default(),
        }
    }

    /// Whether the first of two accesses of different threads comes first in the program. Where the code alone doesn't
    /// say, as in a loop without a barrier, or in branches that exclude each other, `earlier` compares the rounds of loops
    /// that the threads have done; within a round the source's order counts.
    pub fn comes_first(&mut self, first: u32, second: u32, between: Between, earlier: Ordering) -> bool {
        let path = if first == second { Path::Both } else { self.path(first, second, between) };
        match path {
            Path::Forward => true,
            Path::Backward => false,
            Path::Both | Path::None => earlier.then_with(|| self.source_order(first, second)).is_le(),
        }
    }

    fn path(&mut self, first: u32, second: u32, between: Between) -> Path {
        let key = (first, second, between);
        if let Some(known) = self.paths.get(&key) {
            return *known;
        }
        let mut path = Path::None;
        // What nothing connects without a barrier between may be connected by a way through one.
        for between in [between, Between::Blocks] {
            path = match (self.reaches(first, second, between), self.reaches(second, first, between)) {
                (true, false) => Path::Forward,
                (false, true) => Path::Backward,
                (true, true) => Path::Both,
                (false, false) => continue,
            };
            break;
        }
        self.paths.insert(key, path);
        path
    }

    fn source_order(&self, first: u32, second: u32) -> Ordering {
        let of = |instruction: u32| self.instructions[instruction as usize].source.as_ref();
        match (of(first), of(second)) {
            (Some(one), Some(other)) if one.file == other.file => {
                (one.line, one.column).cmp(&(other.line, other.column)).then(first.cmp(&second))
            }
            _ => first.cmp(&second),
        }
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

/// Rows of C and of A of a product.
fn factor_rows(program: &Program, product: &WarpgroupProduct) -> Vec<u32> {
    let [_, sums, of_a] = product.lists();
    [&program.lists[sums], &program.lists[of_a]].concat()
}

/// Whether a loop does no more than to ask an mbarrier again: its rounds say nothing about how far the thread is.
fn only_asks(code: &[Instruction]) -> bool {
    let does = |instruction: &Instruction| {
        let operation = &instruction.operation;
        matches!(
            operation,
            Operation::Load(_)
                | Operation::Store(_)
                | Operation::Atomic(_)
                | Operation::AsyncCopy(_)
                | Operation::AsyncStore(_)
                | Operation::BulkCopy(_)
                | Operation::Matrices(_)
                | Operation::WarpgroupProduct(_)
        )
    };
    let asks = |instruction: &Instruction| match &instruction.operation {
        Operation::Mbarrier(mbarrier) => matches!(mbarrier.kind, MbarrierKind::TestState | MbarrierKind::TestParity),
        _ => false,
    };
    code.iter().any(asks) && !code.iter().any(does)
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
