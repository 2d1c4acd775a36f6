//! The compact form that the executor runs: every name is a row or mask index, every label an instruction index.

use std::collections::HashMap;

use crate::alu::{LaneFunction, Operands};
use crate::memory::CONSTANT_WINDOW;
use crate::observe::SourceSize;

/// Rows or masks that aren't there (`_`, an address without a base register).
pub const NONE: u32 = u32::MAX;

/// First generic address of the window onto shared memory.
pub const SHARED_WINDOW: u64 = 0x7f10_0000_0000;
/// First generic address of the window onto local memory.
pub const LOCAL_WINDOW: u64 = 0x7f20_0000_0000;
/// First generic address of the window onto a kernel's parameters.
pub const PARAMETER_WINDOW: u64 = 0x7f30_0000_0000;
/// Length of each window.
pub const WINDOW_BYTES: u64 = 1 << 32;

/// In a cluster, the shared memory of the block of rank r begins at r times so many, as on hardware; the instructions of
/// every block see its own there.
pub const BLOCK_WINDOW: u64 = 1 << 24;

/// Everything needed to run one kernel, its functions included.
#[derive(Debug, Default)]
pub struct Program {
    pub code: Vec<Instruction>,
    /// The place of each instruction of `code`.
    pub places: Vec<InstructionPlace>,
    /// Which of several instructions a diverged warp executes first.
    pub turns: Vec<Turn>,
    /// Instructions with their modifiers, each once, as `ld.shared.v4.b32`; places point into it.
    pub mnemonics: Vec<String>,
    /// Registers, constants and special registers of a warp, counted in rows of 32 lanes.
    pub rows: u32,
    pub predicates: u32,
    /// Local memory of a thread, parameters of functions included, in words of 4 bytes.
    pub local_words: u32,
    /// Static shared memory of a block.
    pub shared_bytes: u32,
    /// Several blocks make a cluster.
    pub clustered: bool,
    pub parameter_bytes: u32,
    /// Rows that hold the same value throughout a launch.
    pub constants: Vec<(u32, Constant)>,
    pub specials: Vec<(u32, Special)>,
    /// Operand lists that vector accesses and packs refer to.
    pub lists: Vec<u32>,
    /// Every row of a register, with the first row of that register.
    pub register_rows: Vec<(u32, u32)>,
    /// Rows whose value a thread may read before it writes them: they start as zero.
    pub cleared_rows: Vec<u32>,
    pub cleared_predicates: Vec<u32>,
    /// Lanes or warps may wait for each other through memory, so none may run for ever before the others.
    pub communicates: bool,
    /// Blocks may communicate through memory: they must run in an order that doesn't depend on the machine.
    pub ordered: bool,
    /// What instructions say about the order of memory accesses, by index; those that say nothing aren't here.
    /// Execution doesn't need it: all memory is coherent here.
    pub semantics: HashMap<u32, Semantics>,
    /// For each instruction the index of the static shared array that its address was made from, if it's exactly one;
    /// else [`NONE`].
    pub origins: Vec<u32>,
    /// For each static shared array the first instruction that takes its address; [`NONE`] if there is none.
    pub taken_at: Vec<u32>,
    /// The rows that each instruction uses, for programs with products of warpgroups; empty for others.
    pub uses: Vec<Uses>,
}

/// The rows of registers that an instruction uses.
#[derive(Clone, Debug, Default)]
pub struct Uses {
    pub reads: Vec<u32>,
    pub writes: Vec<u32>,
    /// It writes what another register of 32 bits holds.
    pub moves: bool,
}

/// How far a strong access or a fence reaches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Scope {
    /// An ordinary (weak) access.
    #[default]
    None,
    /// The threads of the block, or of the cluster: which of them isn't told apart.
    Block,
    /// All threads of the device.
    Device,
}

/// What an access or a fence says about the order of memory accesses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Semantics {
    pub scope: Scope,
    pub volatile: bool,
    /// Later accesses of the thread come after it.
    pub acquire: bool,
    /// Earlier accesses of the thread come before it.
    pub release: bool,
    /// It's no access itself.
    pub fence: bool,
}

/// The place of an instruction in the order in which the groups of lanes of a diverged warp go on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Turn {
    /// Lower ones first.
    pub rank: u32,
    /// End of its basic block: what follows there needn't be next.
    pub block_end: u32,
}

/// Where an instruction comes from.
#[derive(Clone, Copy, Debug, Default)]
pub struct InstructionPlace {
    pub ptx_line: u32,
    /// Index into the module's files; 0 if there is no line information.
    pub file: u32,
    pub line: u32,
    pub column: u32,
    /// Index into [`Program::mnemonics`], or [`NONE`] for what stands in no text (the end of a body).
    pub mnemonic: u32,
    /// Whether the instruction of the text began at an earlier place: calls, for one, become several.
    pub continued: bool,
}

/// A value that is known at the latest when a launch begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Constant {
    /// One row.
    Bits32(u32),
    /// Two rows.
    Bits64(u64),
    /// The address of a module variable, two rows.
    Variable { index: u32, offset: i64 },
    /// The address of the static shared array that starts at `start`, plus an offset, in one row or two.
    Shared { start: u32, offset: i64, wide: bool },
    /// The address of dynamic shared memory plus an offset, in one row or two.
    DynamicShared { offset: i64, wide: bool },
}

impl Constant {
    pub fn rows(self) -> u32 {
        match self {
            Constant::Bits32(_)
            | Constant::Shared { wide: false, .. }
            | Constant::DynamicShared { wide: false, .. } => 1,
            _ => 2,
        }
    }
}

/// Special registers whose values are fixed for a warp, a block or a launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Special {
    Thread(u8),
    BlockShape(u8),
    Block(u8),
    GridShape(u8),
    Cluster(u8),
    ClusterGridShape(u8),
    BlockInCluster(u8),
    ClusterShape(u8),
    Rank,
    ClusterBlocks,
    Lane,
    Warp,
    Warps,
    MaskEqual,
    MaskLess,
    MaskLessEqual,
    MaskGreater,
    MaskGreaterEqual,
    DynamicShared,
    TotalShared,
}

/// Special registers that change while a warp runs. They count instructions of the warp, so that results don't depend
/// on the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Counter {
    /// Low word of the count.
    Low,
    /// High word of the count.
    High,
    /// The whole count.
    Wide,
}

/// The predicate that an instruction runs under: `index << 1 | negated`, or [`Guard::NONE`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Guard(pub u32);

impl Guard {
    pub const NONE: Guard = Guard(u32::MAX);

    pub fn new(index: u32, negated: bool) -> Guard {
        Guard(index << 1 | u32::from(negated))
    }
}

/// One decoded instruction.
#[derive(Clone, Copy, Debug)]
pub struct Instruction {
    pub operation: Operation,
    pub guard: Guard,
}

// The executor's loop goes through millions of these.
const _: () = assert!(size_of::<Instruction>() <= 56);

/// Where an access goes, once the decoder has said what it can.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    Global,
    Shared,
    Local,
    Parameter,
    /// Shared memory of any block of the cluster, in kernels that run in clusters of several.
    Cluster,
    /// Decided by the address, lane by lane.
    Generic,
}

/// The state space that a generic address lies in, as `isspacep` tells them apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AddressSpace {
    Global,
    Constant,
    Shared,
    Local,
    Parameter,
}

impl AddressSpace {
    /// The space of a generic address.
    pub fn of(address: u64) -> AddressSpace {
        match address {
            SHARED_WINDOW.. if address < SHARED_WINDOW + WINDOW_BYTES => AddressSpace::Shared,
            LOCAL_WINDOW.. if address < LOCAL_WINDOW + WINDOW_BYTES => AddressSpace::Local,
            PARAMETER_WINDOW.. if address < PARAMETER_WINDOW + WINDOW_BYTES => AddressSpace::Parameter,
            CONSTANT_WINDOW.. if address < CONSTANT_WINDOW + WINDOW_BYTES => AddressSpace::Constant,
            _ => AddressSpace::Global,
        }
    }
}

impl From<Target> for AddressSpace {
    fn from(target: Target) -> AddressSpace {
        match target {
            Target::Global | Target::Generic => AddressSpace::Global,
            Target::Shared | Target::Cluster => AddressSpace::Shared,
            Target::Local => AddressSpace::Local,
            Target::Parameter => AddressSpace::Parameter,
        }
    }
}

/// An address operand.
#[derive(Clone, Copy, Debug)]
pub struct Address {
    /// First row of the base register, or [`NONE`].
    pub base: u32,
    /// Whether the base has 64 bits.
    pub wide: bool,
    pub offset: i64,
}

/// Address analyses that a basic block can keep at a time.
pub const PATTERN_SLOTS: u8 = 32;

/// Whether an access uses an analysis of its base addresses, and whose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pattern {
    /// Not worth it, or not possible.
    None,
    /// Analyses the base and leaves the result in the slot.
    New(u8),
    /// The base hasn't changed since the access that filled the slot.
    Known(u8),
}

/// A load or store.
#[derive(Clone, Copy, Debug)]
pub struct Access {
    pub target: Target,
    /// Bytes of one element.
    pub bytes: u8,
    /// Elements: 1, 2, 4 or 8.
    pub count: u8,
    /// Whether a load extends the sign.
    pub signed: bool,
    /// Whether the data registers have 64 bits.
    pub wide: bool,
    pub address: Address,
    pub pattern: Pattern,
    /// The data row; with more than one element, the index of the first of `count` rows in [`Program::lists`].
    pub data: u32,
}

/// Number types of atomics and `redux`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AtomicType {
    Unsigned,
    Signed,
    F32,
    F64,
    F16,
    F16x2,
    BF16,
    BF16x2,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AtomicOperation {
    Add,
    Increment,
    Decrement,
    Minimum,
    Maximum,
    And,
    Or,
    Xor,
    Exchange,
    CompareAndSwap,
}

/// `atom` and `red`.
#[derive(Clone, Copy, Debug)]
pub struct Atomic {
    pub target: Target,
    pub operation: AtomicOperation,
    pub kind: AtomicType,
    /// 2, 4 or 8.
    pub bytes: u8,
    pub address: Address,
    /// Old value, or [`NONE`] for `red`.
    pub destination: u32,
    pub source: u32,
    /// The new value of a compare-and-swap.
    pub source2: u32,
}

/// An address operand of an instruction that has several.
#[derive(Clone, Copy, Debug)]
pub struct ShortAddress {
    /// First row of the base register, or [`NONE`].
    pub base: u32,
    /// Whether the base has 64 bits.
    pub wide: bool,
    pub offset: i32,
}

impl From<ShortAddress> for Address {
    fn from(ShortAddress { base, wide, offset }: ShortAddress) -> Address {
        Address { base, wide, offset: i64::from(offset) }
    }
}

/// `cp.async`: a copy from global to shared memory that happens later.
#[derive(Clone, Copy, Debug)]
pub struct AsyncCopy {
    pub destination: ShortAddress,
    pub source: ShortAddress,
    /// Bytes that are written: 4, 8 or 16.
    pub bytes: u8,
    /// The copy goes past L1, which only costs know.
    pub bypasses_l1: bool,
    /// Row of the number of bytes that are read, the others being zeros; [`NONE`] for all.
    pub size: u32,
    /// Guard-encoded predicate of lanes that read nothing and write zeros; [`Guard::NONE`] for none.
    pub ignored: Guard,
    /// What the two say together, which only costs know.
    pub kind: SourceSize,
}

/// `st.async`: a store to shared memory of the cluster that happens later, and whose bytes an mbarrier counts.
#[derive(Clone, Copy, Debug)]
pub struct AsyncStore {
    pub address: ShortAddress,
    /// In the same block's shared memory.
    pub mbarrier: ShortAddress,
    /// Both addresses are generic.
    pub generic: bool,
    /// Bytes of one element: 4 or 8.
    pub bytes: u8,
    /// Elements: 1, 2 or 4.
    pub count: u8,
    /// Whether the data registers have 64 bits.
    pub wide: bool,
    /// As [`Access::data`].
    pub data: u32,
}

/// Which way a bulk copy goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BulkDirection {
    /// From global to shared memory; an mbarrier counts its bytes.
    Load,
    /// From shared to global memory, in one of the thread's bulk groups.
    Store,
}

/// What a bulk copy moves.
#[derive(Clone, Copy, Debug)]
pub enum BulkExtent {
    /// So many bytes; their number's row is in [`Program::lists`].
    Bytes { number: u32 },
    /// A box of a tensor. The rows of its coordinates are in [`Program::lists`].
    Box { coordinates: u32, dimensions: u8 },
}

/// `cp.async.bulk` and `cp.async.bulk.tensor`: a copy by each thread that executes it.
#[derive(Clone, Copy, Debug)]
pub struct BulkCopy {
    pub direction: BulkDirection,
    pub shared: ShortAddress,
    /// The tensor map, generic; or the bytes, global.
    pub global: ShortAddress,
    /// The mbarrier of a load.
    pub mbarrier: ShortAddress,
    pub extent: BulkExtent,
    /// The bytes go to several blocks of the cluster.
    pub multicast: bool,
}

impl BulkCopy {
    /// Where [`Program::lists`] has the rows of the extent.
    pub fn extent_rows(&self) -> std::ops::Range<usize> {
        let (start, count) = match self.extent {
            BulkExtent::Bytes { number } => (number, 1),
            BulkExtent::Box { coordinates, dimensions } => (coordinates, dimensions),
        };
        start as usize..start as usize + usize::from(count)
    }

    /// Where it has the row of the mask of those blocks, if there is one.
    pub fn mask_row(&self) -> Option<usize> {
        self.multicast.then_some(self.extent_rows().end)
    }
}

/// `ldmatrix` and `stmatrix`: matrices of 8 x 8 elements of 16 bits between shared memory and the registers of a warp.
#[derive(Clone, Copy, Debug)]
pub struct MatrixAccess {
    /// From registers to memory.
    pub stores: bool,
    /// Shared, or generic.
    pub target: Target,
    /// Matrices: 1, 2 or 4.
    pub count: u8,
    /// Lanes hold pieces of columns instead of rows.
    pub transposed: bool,
    pub address: Address,
    /// The index of the first of `count` rows in [`Program::lists`].
    pub registers: u32,
}

/// The elements of the factors of a matrix product.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Factors {
    F16,
    BF16,
    TF32,
}

impl Factors {
    /// Elements in a register.
    pub fn per_register(self) -> u8 {
        match self {
            Factors::F16 | Factors::BF16 => 2,
            Factors::TF32 => 1,
        }
    }
}

/// `mma`: D = A B + C of a warp, with A of 16 x K, B of K x 8, and C and D of 16 x 8 elements, those of `f32`.
#[derive(Clone, Copy, Debug)]
pub struct MatrixProduct {
    pub factors: Factors,
    /// 4, 8 or 16.
    pub k: u8,
    /// The index in [`Program::lists`] of the first row of D, of four; those of A, B and C follow.
    pub registers: u32,
}

impl MatrixProduct {
    /// Registers of D, which are as many as C's.
    pub const OF_SUMS: u8 = 4;

    /// Registers of A. B has half as many.
    pub fn of_a(&self) -> u8 {
        self.k / 2 / self.factors.per_register()
    }

    /// Registers of D, A, B and C together.
    pub fn of_all(&self) -> u8 {
        2 * Self::OF_SUMS + self.of_a() + self.of_a() / 2
    }
}

/// `wgmma.mma_async`: D = A B + C of a warpgroup, which are four warps, with A of 64 x K, B of K x N, and C and D of
/// 64 x N elements, those of `f32`. C is D before, or zero.
#[derive(Clone, Copy, Debug)]
pub struct WarpgroupProduct {
    pub factors: Factors,
    /// 8 to 256.
    pub n: u16,
    /// The index in [`Program::lists`] of the first row of D, of half as many as columns; those of C follow, and four of A
    /// if A is in registers.
    pub registers: u32,
    /// First row of the descriptor of A; [`NONE`] if A is in registers.
    pub a: u32,
    /// First row of the descriptor of B.
    pub b: u32,
    /// Guard-encoded predicate: whether there is a C.
    pub adds: Guard,
    /// The elements of A, those of B, count with the other sign.
    pub negated: [bool; 2],
    /// A is stored column by column, B row by row: along M and N, and not along K.
    pub along_mn: [bool; 2],
}

impl WarpgroupProduct {
    /// Rows of A, C and D.
    pub const M: u16 = 64;
    /// Warps that work together.
    pub const WARPS: u32 = 4;
    /// Registers of A, if it's in registers.
    pub const OF_A: u16 = 4;

    /// Columns of A.
    pub fn k(&self) -> u16 {
        8 * u16::from(self.factors.per_register())
    }

    /// Registers of D, which are as many as C's.
    pub fn of_sums(&self) -> u16 {
        self.n / 2
    }

    /// Where [`Program::lists`] has the rows of D, of C and of A.
    pub fn lists(&self) -> [std::ops::Range<usize>; 3] {
        let (start, sums) = (self.registers as usize, usize::from(self.of_sums()));
        let of_a = if self.a == NONE { usize::from(Self::OF_A) } else { 0 };
        [start..start + sums, start + sums..start + 2 * sums, start + 2 * sums..start + 2 * sums + of_a]
    }
}

/// What orders the products of a warpgroup with other uses of registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WarpgroupStep {
    /// `wgmma.fence`: registers written before may be used by products.
    Fence,
    /// `wgmma.commit_group`: makes a group of the products that are in none.
    Commit,
    /// `wgmma.wait_group`: waits until at most so many groups aren't done.
    Wait(u32),
}

/// What an instruction does to an mbarrier, a barrier that is an object in shared memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MbarrierKind {
    /// `operand` is the number of arrivals of each phase.
    Initialise,
    Invalidate,
    /// `operand` is the number of arrivals, or [`NONE`] for one; `destination` takes the state before them.
    Arrive {
        /// Later phases expect so many fewer.
        drop: bool,
        /// The arrival may not complete the phase.
        incomplete: bool,
        /// `operand` is a number of bytes that the phase is to wait for as well, and the arrival counts once.
        expects: bool,
    },
    /// The phase is to wait for `operand` more bytes.
    Expect,
    /// `operand` bytes that the phase waits for have come.
    CompleteBytes,
    /// `destination` says whether the phase whose state is `operand` is over.
    TestState,
    /// `destination` says whether the phase with the parity `operand` is over.
    TestParity,
    /// An arrival of the thread once all its copies so far are done; `counted` if it's one of those that the phase
    /// expects anyway.
    ArriveAfterCopies {
        counted: bool,
    },
}

#[derive(Clone, Copy, Debug)]
pub struct Mbarrier {
    pub kind: MbarrierKind,
    /// Shared, or generic.
    pub target: Target,
    pub address: Address,
    /// First row of a state, predicate of a test, or [`NONE`].
    pub destination: u32,
    pub operand: u32,
}

/// What a barrier instruction does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BarrierKind {
    Synchronize,
    Arrive,
    /// Counts the threads whose predicate is true.
    Count,
    And,
    Or,
}

#[derive(Clone, Copy, Debug)]
pub struct Barrier {
    pub kind: BarrierKind,
    /// Row of the barrier's number.
    pub number: u32,
    /// The number, if it's the same for all.
    pub fixed: Option<u8>,
    /// Row of the thread count, or [`NONE`] for all threads of the block.
    pub count: u32,
    /// Guard-encoded predicate of a reduction.
    pub predicate: Guard,
    /// Row (count) or mask (and, or) of a reduction's result.
    pub destination: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VoteKind {
    All,
    Any,
    Uniform,
    Ballot,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShuffleMode {
    Up,
    Down,
    Butterfly,
    Index,
}

/// `mapa`: the address that an address in shared memory has in another block of the cluster.
#[derive(Clone, Copy, Debug)]
pub struct MapAddress {
    pub destination: u32,
    pub source: u32,
    /// Row of the block's rank in the cluster.
    pub rank: u32,
    /// Addresses have 64 bits.
    pub wide: bool,
    /// They're generic.
    pub generic: bool,
}

#[derive(Clone, Copy, Debug)]
pub enum Operation {
    /// Lane-wise arithmetic.
    Alu {
        function: LaneFunction,
        operands: Operands,
    },
    Load(Access),
    Store(Access),
    Atomic(Atomic),
    AsyncCopy(AsyncCopy),
    /// Makes a group of the thread's copies that are in none.
    CommitCopies,
    /// Waits until at most `open` of the thread's groups aren't done; for all copies, whether in a group or not, with
    /// [`NONE`].
    WaitForCopies {
        open: u32,
    },
    BulkCopy(BulkCopy),
    AsyncStore(AsyncStore),
    /// Makes a bulk group of the thread's bulk stores that are in none.
    CommitStores,
    /// Waits until at most `open` of the thread's bulk groups aren't done, or haven't read their sources.
    WaitForStores {
        open: u32,
        only_read: bool,
    },
    /// The registers that a thread has from here on: all warps of a warpgroup come here.
    SetRegisters {
        count: u32,
    },
    Mbarrier(Mbarrier),
    Matrices(MatrixAccess),
    MatrixProduct(MatrixProduct),
    WarpgroupProduct(WarpgroupProduct),
    WarpgroupStep(WarpgroupStep),
    /// The number of arrivals that a phase lacked, from an mbarrier's state.
    PendingCount {
        destination: u32,
        source: u32,
    },
    /// Copies words of local memory: arguments and results of calls.
    CopyLocal {
        from: u32,
        to: u32,
        words: u32,
    },
    /// Joins `count` registers of `bits` into one: 16 or 32 bits each.
    Pack {
        destination: u32,
        list: u32,
        count: u8,
        bits: u8,
    },
    /// The reverse of `Pack`.
    Unpack {
        source: u32,
        list: u32,
        count: u8,
        bits: u8,
    },
    ReadCounter {
        destination: u32,
        counter: Counter,
    },
    IsSpace {
        destination: u32,
        source: u32,
        space: AddressSpace,
    },
    Branch {
        target: u32,
    },
    BranchIndexed {
        index: u32,
        list: u32,
        count: u32,
    },
    Call {
        target: u32,
    },
    /// Back to the caller; a kernel's own return is `Exit`.
    Return,
    Exit,
    Trap,
    /// `__assertfail`: word addresses of its four parameters in local memory.
    AssertionFailed {
        parameters: u32,
    },
    Barrier(Barrier),
    /// `barrier.cluster.arrive`; with `releases` (not `.relaxed`), what the thread did before is done for those who wait.
    ClusterArrive {
        releases: bool,
    },
    /// `barrier.cluster.wait`: for all threads of the cluster that haven't exited.
    ClusterWait,
    MapAddress(MapAddress),
    WarpBarrier {
        members: u32,
    },
    Vote {
        kind: VoteKind,
        destination: u32,
        predicate: Guard,
        members: u32,
    },
    Match {
        all: bool,
        wide: bool,
        destination: u32,
        predicate: u32,
        source: u32,
        members: u32,
    },
    Shuffle {
        mode: ShuffleMode,
        destination: u32,
        predicate: u32,
        source: u32,
        lane: u32,
        clamp: u32,
        members: u32,
    },
    Reduce {
        operation: AtomicOperation,
        kind: AtomicType,
        destination: u32,
        source: u32,
        members: u32,
    },
    ActiveMask {
        destination: u32,
    },
    Elect {
        destination: u32,
        predicate: u32,
        members: u32,
    },
    /// `fence.proxy.async`: orders accesses of threads with those of bulk copies and of warpgroups' products.
    ProxyFence,
    /// `fence.mbarrier_init`: makes mbarriers that the thread has initialised known to the cluster.
    MbarrierFence,
    /// Other fences, prefetches and hints: nothing to do, since all memory is coherent.
    Nothing,
}
