//! What can be wrong with a kernel, in the terms of its source.

use ptx_simulator::{
    SourceLocation,
    observe::hazards::{Agent, CopyState},
};
use serde::Serialize;

use crate::gpus::WARP;

/// What is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum ProblemKind {
    /// A thread reads what another writes, and nothing makes the read wait for the write.
    ReadAfterWrite,
    /// A thread overwrites what another reads, and nothing makes the write wait for the read.
    WriteAfterRead,
    /// Two threads write the same place, and nothing says whose value stays.
    WriteAfterWrite,
    /// A read of memory that nobody has written.
    Uninitialised,
    /// An access in shared memory past the ends of the array that it was meant for.
    OutsideArray,
    /// An access outside every allocation.
    OutOfBounds,
    /// An access whose address is no multiple of its size.
    Misaligned,
    /// A barrier that some threads of the block never reach.
    DivergentBarrier,
    /// A barrier of a warp that some of the lanes it names never reach.
    DivergentWarp,
    /// Threads of a block that arrive at different barriers of the source, as if they were one.
    DifferentBarriers,
    /// An asynchronous copy that its thread never waits for.
    CopyNeverAwaited,
    /// What a thread wrote is read by a bulk copy or a warpgroup's product, without a fence between the proxies.
    MissingProxyFence,
    /// An mbarrier of another block of the cluster is used, and nothing says there that it's initialised.
    MbarrierNotShown,
    /// The shared memory of another block of the cluster is accessed, and nothing keeps that block from ending before.
    BlockExitsEarly,
    /// A warpgroup's product uses registers that were written otherwise, without its fence.
    MissingWarpgroupFence,
    /// A register is used that a warpgroup's product may still write.
    ProductNotAwaited,
    /// An mbarrier at which more arrivals or bytes are waited for than come.
    MbarrierDeadlock,
    /// An mbarrier that is used before it's initialised, or in another way that it mustn't.
    MbarrierMisuse,
    /// The kernel stopped itself: a panic or trap.
    Trap,
    /// A thread that comes to no end.
    EndlessLoop,
    /// Anything else that ends a launch.
    Fault,
}

impl ProblemKind {
    /// Whether it stopped the kernel before its end.
    pub fn ends_the_kernel(self) -> bool {
        use ProblemKind::*;
        matches!(self, Trap | EndlessLoop | MbarrierDeadlock | MbarrierMisuse | Fault)
    }

    /// Whether a barrier is in the wrong place. Hazards may follow from that.
    pub fn is_about_barriers(self) -> bool {
        matches!(self, ProblemKind::DivergentBarrier | ProblemKind::DivergentWarp | ProblemKind::DifferentBarriers)
    }
}

/// What a thread did at a place of the source.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Act {
    /// It reads memory.
    Reads,
    /// It writes memory.
    Writes,
    /// It copies out of memory, asynchronously.
    CopiesFrom,
    /// It copies into memory, asynchronously.
    CopiesTo,
    /// It multiplies what is in memory, asynchronously and with others of its warpgroup.
    Multiplies,
    /// It accesses memory atomically.
    Atomic,
    /// It waits at a barrier.
    Waits,
    /// It executes something else.
    Executes,
}

/// One thread at one place of the source.
#[derive(Clone, Debug, Serialize)]
pub struct Event {
    /// What it does there.
    pub act: Act,
    /// The place, where the PTX has line directives.
    pub source: Option<SourceLocation>,
    /// If that is in a function from elsewhere: the kernel's own line that comes before it in the PTX. The function is called
    /// there or, as the compiler moves instructions, near it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub near: Option<SourceLocation>,
    /// The source line's text, without indentation.
    pub code: Option<&'static str>,
    /// The line in the kernel's own PTX module, as `ptx --kernel` prints it.
    pub ptx_line: u32,
    /// Position of the block in the grid.
    pub block: [u32; 3],
    /// Position of the thread in the block.
    pub thread: [u32; 3],
    /// Who accesses memory for the thread, if it isn't the thread itself.
    #[serde(skip_serializing_if = "is_thread")]
    pub agent: Agent,
    /// How far it is, if it's an asynchronous copy or product.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub copy: Option<CopyState>,
}

fn is_thread(agent: &Agent) -> bool {
    *agent == Agent::Thread
}

/// An element of a matrix or an array.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "in", rename_all = "kebab-case")]
pub enum Element {
    /// An element of A, B or C.
    Matrix {
        /// `A`, `B` or `C`.
        name: &'static str,
        /// Its row.
        row: u64,
        /// Its column.
        column: u64,
    },
    /// A place before or after A, B or C.
    BesideMatrix {
        /// `A`, `B` or `C`.
        name: &'static str,
        /// Rows of the matrix.
        rows: u64,
        /// Columns of the matrix.
        columns: u64,
        /// Bytes from its end if positive or zero, from its start if negative.
        distance: i64,
    },
    /// A place in an array in shared memory, or beside it.
    Shared {
        /// The array's name in the source, or in the PTX where the source doesn't tell.
        name: Option<String>,
        /// The index of the element of four bytes, from the start of the array, or of shared memory if there is no name.
        index: i64,
        /// Elements in the array.
        length: Option<u64>,
    },
    /// Anything else: an address.
    Address {
        /// The address within its space.
        address: u64,
    },
}

/// A mistake, with the first of its occurrences.
#[derive(Clone, Debug, Serialize)]
pub struct Problem {
    /// What is wrong.
    pub kind: ProblemKind,
    /// Whether it's about memory that all blocks reach; `false` for memory of a block and for barriers.
    pub global: bool,
    /// Whether it's about the bytes of an mbarrier.
    pub mbarrier: bool,
    /// The access that comes first in the program, the only one, or a thread at the barrier.
    pub first: Event,
    /// The other access or barrier.
    pub second: Option<Event>,
    /// What was accessed.
    pub element: Option<Element>,
    /// Bytes of the access.
    pub bytes: Option<u32>,
    /// How often: words of memory, or threads at a barrier.
    pub count: u64,
    /// The simulator's own words, for faults.
    pub detail: Option<String>,
    /// The product, m x n x k, in which it was found first.
    pub shape: [usize; 3],
    /// Threads of a block along x, y, z, in the launch in which it was found.
    pub block: [u32; 3],
}

impl Problem {
    /// Whether both accesses are by threads of one warp.
    pub fn within_a_warp(&self) -> bool {
        let warp = |event: &Event| {
            let [x, y, z] = event.thread;
            ((z * self.block[1] + y) * self.block[0] + x) / WARP
        };
        self.second.as_ref().is_some_and(|second| second.block == self.first.block && warp(second) == warp(&self.first))
    }

    /// Whether the two accesses are by different blocks.
    pub fn between_blocks(&self) -> bool {
        self.second.as_ref().is_some_and(|second| second.block != self.first.block)
    }

    /// Whether it's the same kind at the same lines, and so the same mistake, in whatever shape and by whatever thread.
    pub(super) fn same_mistake(&self, other: &Problem) -> bool {
        let lines = |problem: &Problem| {
            let line = |event: &Event| (event.source.clone(), event.source.is_none().then_some(event.ptx_line));
            (line(&problem.first), problem.second.as_ref().map(line))
        };
        self.kind == other.kind && lines(self) == lines(other)
    }
}
