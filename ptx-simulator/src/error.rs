//! What can go wrong, in words for the person at the terminal.

use std::fmt;

use crate::parse::ParseError;

/// A module that can't be loaded: its text isn't PTX, or it holds something that the simulator doesn't know.
///
/// Nothing unknown is left for run time, so a module that loads can be executed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LoadError {
    /// The text breaks PTX's grammar.
    #[error("this PTX can't be read: {0}")]
    Syntax(#[from] ParseError),
    /// The text is PTX, but an instruction or declaration in it is not understood.
    #[error("line {line}: `{text}`: {message}")]
    Unsupported {
        /// Line in the PTX text, from 1.
        line: u32,
        /// The instruction or declaration.
        text: String,
        /// What about it is not understood.
        message: String,
    },
}

impl LoadError {
    /// The line in the PTX text, from 1.
    pub fn line(&self) -> u32 {
        match self {
            LoadError::Syntax(error) => error.line,
            LoadError::Unsupported { line, .. } => *line,
        }
    }
}

/// Device memory that can't be had.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AllocateError {
    /// More was asked for than is left under the simulator's memory limit, or than the machine gives.
    #[error(
        "out of simulated device memory: {needed} bytes are needed, {free} are free; \
         use smaller data or a larger memory limit"
    )]
    OutOfMemory {
        /// Bytes asked for.
        needed: u64,
        /// Bytes left.
        free: u64,
    },
}

/// A read, write or release of device memory from the host's side that names memory that isn't there.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MemoryError {
    /// The range isn't inside one allocation.
    #[error("{bytes} bytes at {address:#x} are not inside one allocation ({nearest})")]
    OutOfBounds {
        /// First address of the range.
        address: u64,
        /// Length of the range.
        bytes: u64,
        /// The allocation that lies nearest.
        nearest: Nearest,
    },
    /// The pointer isn't one that `allocate` gave, or it was freed before.
    #[error("{address:#x} can't be freed: it is not the start of a live allocation")]
    NotAllocated {
        /// The pointer.
        address: u64,
    },
}

/// The name of a module variable. Errors hold it behind a pointer, to stay small.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VariableName(pub String);

/// The allocation nearest to an address that is in none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Nearest {
    /// There is no allocation at all.
    None,
    /// The nearest live allocation.
    Allocation {
        /// Its first address.
        start: u64,
        /// Its length in bytes.
        bytes: u64,
        /// The variable it belongs to, if it isn't one of `allocate`.
        name: Option<Box<VariableName>>,
        /// Bytes from its end to the address if positive or zero, from its start if negative.
        distance: i64,
    },
    /// The address was in an allocation that has been freed.
    Freed {
        /// Its first address.
        start: u64,
        /// Its length in bytes.
        bytes: u64,
    },
    /// The address is in the shared memory of another block of the cluster, which the instruction doesn't reach.
    OtherBlock {
        /// That block's rank in the cluster.
        rank: u32,
    },
    /// The size of the space that the address should be in (shared, local or parameter memory).
    Space {
        /// Its length in bytes.
        bytes: u64,
    },
}

impl fmt::Display for Nearest {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Nearest::None => formatter.write_str("there are no allocations"),
            Nearest::Allocation { start, bytes, name, distance } => {
                let side = if *distance >= 0 { "after the end" } else { "before the start" };
                write!(formatter, "{} bytes {side} of ", distance.unsigned_abs())?;
                match name {
                    Some(name) => write!(formatter, "`{}`, {bytes} bytes at {start:#x}", name.0),
                    None => write!(formatter, "the allocation of {bytes} bytes at {start:#x}"),
                }
            }
            Nearest::Freed { start, bytes } => {
                write!(formatter, "inside an allocation of {bytes} bytes at {start:#x} that was freed")
            }
            Nearest::OtherBlock { rank } => write!(
                formatter,
                "it's that of the block of rank {rank} in the cluster, which instructions with `.shared::cluster` reach"
            ),
            Nearest::Space { bytes: 0 } => formatter.write_str("this kernel has none of it"),
            Nearest::Space { bytes } => write!(formatter, "its size here is {bytes} bytes"),
        }
    }
}

/// Reading or writing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AccessKind {
    /// A load.
    Read,
    /// A store.
    Write,
    /// An atomic operation or reduction.
    Atomic,
}

/// The memory that an access was meant for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MemorySpace {
    /// Memory of the whole device: allocations and module variables, constants too.
    Global,
    /// Memory of a block.
    Shared,
    /// Memory of a thread.
    Local,
    /// A kernel's parameters.
    Parameter,
}

impl fmt::Display for MemorySpace {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            MemorySpace::Global => "global memory",
            MemorySpace::Shared => "shared memory",
            MemorySpace::Local => "local memory",
            MemorySpace::Parameter => "parameter memory",
        })
    }
}

/// A place in the source that the PTX was made from.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct SourceLocation {
    /// File name as the compiler wrote it.
    pub file: String,
    /// Line, from 1.
    pub line: u32,
    /// Column, from 1; 0 if the compiler gave none.
    pub column: u32,
}

impl fmt::Display for SourceLocation {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}:{}", self.file, self.line)?;
        if self.column > 0 {
            write!(formatter, ":{}", self.column)?;
        }
        Ok(())
    }
}

/// A launch that didn't start or didn't finish.
///
/// When several blocks fail, the one with the lowest index is reported, whatever the number of cores.
#[derive(Clone, Debug, PartialEq)]
pub struct LaunchError {
    /// What happened.
    pub kind: LaunchErrorKind,
    /// The kernel's name.
    pub kernel: String,
    /// Index of the block; zeros if the launch didn't start.
    pub block: [u32; 3],
    /// Index of the thread in its block; zeros if the launch didn't start.
    pub thread: [u32; 3],
    /// The source line, where the PTX has line directives.
    pub source: Option<Box<SourceLocation>>,
    /// The line in the PTX text; 0 if the launch didn't start.
    pub ptx_line: u32,
}

/// The kinds of [`LaunchError`].
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum LaunchErrorKind {
    /// An access outside the memory that is there.
    #[error("{} of {bytes} bytes at {address:#x} is outside {space}: {nearest}", access_word(*access))]
    OutOfBounds {
        /// The memory that was meant.
        space: MemorySpace,
        /// The address, within its space.
        address: u64,
        /// Bytes of the access.
        bytes: u32,
        /// Reading or writing.
        access: AccessKind,
        /// What lies nearest.
        nearest: Nearest,
    },
    /// An access whose address is no multiple of its size.
    #[error(
        "{} of {bytes} bytes at {address:#x} in {space} is misaligned: the address must be a multiple of {bytes}",
        access_word(*access)
    )]
    Misaligned {
        /// The memory that was meant.
        space: MemorySpace,
        /// The address, within its space.
        address: u64,
        /// Bytes of the access.
        bytes: u32,
        /// Reading or writing.
        access: AccessKind,
    },
    /// Threads wait at a barrier that the others of the block can't reach any more.
    #[error(
        "this thread waits forever at barrier {barrier}: {arrived} of {expected} threads arrived; the others: {others}"
    )]
    DivergentBarrier {
        /// Number of the barrier, 0 to 15.
        barrier: u32,
        /// Threads that arrived.
        arrived: u32,
        /// Threads that the barrier waits for.
        expected: u32,
        /// Where the other threads are.
        others: String,
    },
    /// Lanes wait for others of their warp that the instruction's member mask names and that can't come any more.
    #[error("this thread waits forever for the lanes {members:#010x} of its warp; the others: {others}")]
    DivergentWarp {
        /// The member mask.
        members: u32,
        /// Where the other lanes are.
        others: String,
    },
    /// Warps wait for the others of their warpgroup, which don't come to the same product.
    #[error(
        "this warp waits forever for the other warps of its warpgroup (four warps, the first a multiple of 4) to come to \
         the same wgmma: {arrived} of 4 are there; the others: {others}"
    )]
    DivergentWarpgroup {
        /// Warps that are there.
        arrived: u32,
        /// Where the others are.
        others: String,
    },
    /// Warps ask for more registers than their block has, and wait for them forever.
    #[error(
        "this warp waits forever for registers: with what others have asked for, its block would need {asked} at least, and it began with \
         {present} at most"
    )]
    TooManyRegisters {
        /// Registers that the block's warps ask for.
        asked: u32,
        /// Registers that the block has.
        present: u32,
    },
    /// A matrix descriptor that can't be, or that isn't the same for all threads of the warpgroup.
    #[error("the descriptor {descriptor:#018x} of {matrix} {problem}")]
    MatrixDescriptor {
        /// `A` or `B`.
        matrix: char,
        /// The descriptor.
        descriptor: u64,
        /// What is wrong with it.
        problem: &'static str,
    },
    /// Something is wrong with the use of the cluster's barrier.
    #[error("the cluster's barrier (`barrier.cluster`): {0}")]
    ClusterBarrier(ClusterBarrierProblem),
    /// An access to the shared memory of a block of the cluster whose threads have all exited.
    #[error(
        "{} of {bytes} bytes at {address:#x} of the shared memory of block {block:?}, which has exited: a block must stay until \
         the others of its cluster are through with its shared memory; let all wait at the cluster's barrier at their end",
        access_word(*access)
    )]
    BlockExited {
        /// Position of that block in the grid.
        block: [u32; 3],
        /// The address in its shared memory.
        address: u64,
        /// Bytes of the access.
        bytes: u32,
        /// Reading or writing.
        access: AccessKind,
    },
    /// An address was to be found in a block that the cluster doesn't have.
    #[error("there is no block of rank {rank} in a cluster of {blocks}")]
    NoSuchRank {
        /// The rank asked for.
        rank: u32,
        /// Blocks of the cluster.
        blocks: u32,
    },
    /// A barrier was used with a wrong number or thread count.
    #[error(
        "barrier {barrier} with a count of {count} threads: barriers are 0 to 15, counts multiples of 32 that agree"
    )]
    BadBarrier {
        /// The barrier's number.
        barrier: u32,
        /// The thread count.
        count: u32,
    },
    /// A lane executed a warp-level instruction whose member mask doesn't name the lane itself.
    #[error("the member mask {members:#010x} doesn't name the lane that uses it")]
    NotAMember {
        /// The member mask.
        members: u32,
    },
    /// Threads ask an mbarrier in vain, and nobody can arrive there any more.
    #[error("this thread waits forever at the mbarrier {0}")]
    MbarrierDeadlock(Box<MbarrierWait>),
    /// An mbarrier was used in a way that it mustn't.
    #[error("the mbarrier {mbarrier} {problem}")]
    Mbarrier {
        /// The mbarrier: the shared array that it's in, or its address.
        mbarrier: String,
        /// What is wrong.
        problem: MbarrierProblem,
    },
    /// An asynchronous copy was to read more bytes than it writes.
    #[error("an asynchronous copy of {limit} bytes can't read {bytes}")]
    BadCopySize {
        /// Bytes that it was to read.
        bytes: u32,
        /// Bytes that it writes.
        limit: u32,
    },
    /// A bulk copy that can't be.
    #[error("this bulk copy {0}")]
    BulkCopy(BulkCopyProblem),
    /// The kernel executed `trap`.
    #[error("the kernel trapped (a panic or failed check in the kernel)")]
    Trap,
    /// A device-side assertion failed.
    #[error("assertion failed: {message}")]
    Assertion {
        /// The assertion's own text.
        message: String,
    },
    /// An indexed branch left its table.
    #[error("an indexed branch takes entry {index} of a table with {entries}")]
    BranchIndex {
        /// The index.
        index: u32,
        /// Length of the table.
        entries: u32,
    },
    /// A warp executed more instructions than the limit allows.
    #[error(
        "a warp executed {limit} instructions without coming to its end: an endless loop? (the limit can be raised)"
    )]
    InstructionLimit {
        /// The limit in force.
        limit: u64,
    },
    /// The module has no kernel of this name.
    #[error("there is no such kernel; the module has: {}", .known.join(", "))]
    UnknownKernel {
        /// The kernels that the module has.
        known: Vec<String>,
    },
    /// The arguments don't fit the kernel's parameters.
    #[error("the kernel takes parameters of {expected:?} bytes, got arguments of {got:?}")]
    BadArguments {
        /// Sizes of the parameters in bytes.
        expected: Vec<usize>,
        /// Sizes of the arguments in bytes.
        got: Vec<usize>,
    },
    /// A grid or block that no GPU would run.
    #[error("a {what} of {shape:?} is not possible: {limit}")]
    BadShape {
        /// `grid` or `block`.
        what: &'static str,
        /// The shape asked for.
        shape: [u32; 3],
        /// The limit that it breaks.
        limit: String,
    },
    /// More shared memory than a block can have.
    #[error("{needed} bytes of shared memory per block are more than the {limit} that a block can have")]
    SharedMemoryTooLarge {
        /// Static plus dynamic bytes.
        needed: u64,
        /// The limit.
        limit: u64,
    },
    /// The simulator can't get the memory that the launch needs.
    #[error(transparent)]
    OutOfMemory(#[from] AllocateError),
}

/// What is wrong with the use of a cluster's barrier.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ClusterBarrierProblem {
    /// A thread arrived again before it had waited.
    #[error("this thread arrives a second time and hasn't waited in between")]
    ArrivedTwice,
    /// A thread waits without having arrived.
    #[error("this thread waits and hasn't arrived before")]
    NotArrived,
    /// Threads wait at it that others can't reach any more.
    #[error(
        "this thread waits there forever: {arrived} of {expected} threads that haven't exited arrived; the others: {others}"
    )]
    WaitsForEver {
        /// Threads of the cluster that arrived.
        arrived: u32,
        /// Threads of the cluster that haven't exited.
        expected: u32,
        /// Where the other threads are.
        others: String,
    },
}

/// An mbarrier that threads wait at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MbarrierWait {
    /// The mbarrier: the shared array that it's in, or its address.
    pub mbarrier: String,
    /// Where it was initialised.
    pub initialised: String,
    /// Number of the phase that isn't complete, from 0.
    pub phase: u64,
    /// Arrivals that it lacks.
    pub missing: u32,
    /// Arrivals that complete a phase.
    pub expected: u32,
    /// Bytes that the phase was told to expect and that haven't come; negative if more have come.
    pub bytes: i64,
    /// Where the other threads are.
    pub others: String,
}

impl fmt::Display for MbarrierWait {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let MbarrierWait { mbarrier, initialised, phase, missing, expected, bytes, others } = self;
        let bytes = Self::bytes_in_words(*bytes);
        write!(
            formatter,
            "{mbarrier}, initialised at {initialised}: {missing} of {expected} arrivals{bytes} of its phase {phase} are \
             missing; the other threads: {others}"
        )
    }
}

impl MbarrierWait {
    /// What there is to say of bytes that a phase lacks, after its arrivals.
    pub(crate) fn bytes_in_words(bytes: i64) -> String {
        match bytes {
            0 => String::new(),
            1.. => format!(" and {bytes} expected bytes"),
            _ => format!(" (and {} bytes came that it doesn't expect)", bytes.unsigned_abs()),
        }
    }
}

/// What is wrong with the use of an mbarrier.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MbarrierProblem {
    /// There is no mbarrier at the address yet, or none any more.
    #[error(
        "is not initialised; if another thread does that, a barrier must come between, the cluster's if it's of another block"
    )]
    NotInitialised,
    /// An mbarrier was initialised while it was one.
    #[error("is initialised twice; one thread does it, once")]
    InitialisedTwice,
    /// Its bytes were written by something else.
    #[error("was overwritten by an ordinary store")]
    Overwritten,
    /// A number of arrivals that can't be.
    #[error("can't have a count of {count}: counts are 1 to 1048575")]
    BadCount {
        /// The count.
        count: u64,
    },
    /// More arrivals than a phase has.
    #[error("gets {count} arrivals where its phase lacks only {pending}")]
    TooManyArrivals {
        /// Arrivals that the phase lacked.
        pending: u32,
        /// Arrivals that came.
        count: u32,
    },
    /// More bytes than a phase can wait for.
    #[error("is told to expect {bytes} bytes in one phase; the most is 1048575")]
    ExpectsTooMuch {
        /// The bytes.
        bytes: u64,
    },
    /// Bytes that its phase doesn't wait for.
    #[error(
        "gets {bytes} bytes where its phase lacks only {lacking}: the phase must be told to expect (`expect_tx`) all bytes \
         of the copies that complete at it"
    )]
    TooManyBytes {
        /// Bytes that the phase lacked.
        lacking: u64,
        /// Bytes that came.
        bytes: u64,
    },
    /// It's to count bytes that an asynchronous store brings to another block.
    #[error("is in another block's shared memory than what is stored: it must be where the bytes go")]
    Elsewhere,
    /// An arrival that said it wouldn't complete the phase did.
    #[error("is completed by an arrival with `.noComplete`")]
    CompletedUnawares,
}

/// What is wrong with a bulk copy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BulkCopyProblem {
    /// An address that isn't aligned.
    #[error("has {what} at {address:#x}, which must be a multiple of {alignment}")]
    Misaligned {
        /// Whose address it is.
        what: &'static str,
        /// The address, within its space.
        address: u64,
        /// What it must be a multiple of.
        alignment: u64,
    },
    /// A load whose mbarrier is in another block's shared memory than the bytes go to.
    #[error("has its mbarrier in another block's shared memory than its bytes go to")]
    MbarrierElsewhere,
    /// A mask of blocks that can't be.
    #[error(
        "is multicast to the blocks of mask {mask:#06x}, in a cluster of {blocks}: bit r stands for the block of rank r, and there must be one"
    )]
    Multicast {
        /// The mask.
        mask: u16,
        /// Blocks of the cluster.
        blocks: u32,
    },
    /// A number of bytes that isn't a multiple of 16.
    #[error("of {bytes} bytes isn't possible: it moves multiples of 16")]
    Size {
        /// The bytes.
        bytes: u32,
    },
    /// The bytes that should be a tensor map aren't one.
    #[error(
        "needs a tensor map at {address:#x}, and there is none: kernels here take what `TensorMap::encode` makes, as a \
         parameter of 128 bytes or in global memory"
    )]
    NoTensorMap {
        /// The generic address.
        address: u64,
    },
    /// A tensor map of another number of dimensions than the instruction has.
    #[error("names {coordinates} coordinates in a tensor of {dimensions} dimensions")]
    Dimensions {
        /// Coordinates of the instruction.
        coordinates: usize,
        /// Dimensions of the tensor.
        dimensions: usize,
    },
}

fn access_word(access: AccessKind) -> &'static str {
    match access {
        AccessKind::Read => "a read",
        AccessKind::Write => "a write",
        AccessKind::Atomic => "an atomic operation",
    }
}

impl fmt::Display for LaunchError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "kernel `{}`", self.kernel)?;
        if self.ptx_line > 0 {
            let [bx, by, bz] = self.block;
            let [tx, ty, tz] = self.thread;
            write!(formatter, ", block ({bx}, {by}, {bz}), thread ({tx}, {ty}, {tz})")?;
            match &self.source {
                Some(source) => write!(formatter, ", at {source} (PTX line {})", self.ptx_line)?,
                None => write!(formatter, ", at PTX line {}", self.ptx_line)?,
            }
        }
        write!(formatter, ": {}", self.kind)
    }
}

impl std::error::Error for LaunchError {}
