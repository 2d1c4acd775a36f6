//! Finds what a kernel does wrong without its result showing it.

use super::Observer;
use crate::decode::Module;
use crate::error::{LaunchErrorKind, MemorySpace, SourceLocation};
use crate::simulator::{DevicePointer, LaunchConfig};

/// What is wrong.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum FindingKind {
    /// A thread reads what another wrote, and nothing makes the read come after the write.
    ReadAfterWrite,
    /// A thread overwrites what another reads, and nothing makes the write come after the read.
    WriteAfterRead,
    /// Two threads write the same place, and nothing says whose value stays.
    WriteAfterWrite,
    /// A read of memory that nobody has written.
    Uninitialised,
    /// An access past the end of an array in shared memory, in another array or in the padding between two.
    OutsideArray,
    /// Threads of a block arrive at different barrier instructions for the same barrier.
    DifferentBarriers,
    /// Anything for which a launch without an observer stops: accesses outside every allocation, misaligned ones,
    /// barriers that some threads never reach, traps, endless loops.
    Fault(LaunchErrorKind),
}

/// One thread's access or arrival.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Incident {
    /// Position of the block in the grid.
    pub block: [u32; 3],
    /// Position of the thread in the block.
    pub thread: [u32; 3],
    /// The source line, where the PTX has line directives.
    pub source: Option<SourceLocation>,
    /// The line in the PTX text.
    pub ptx_line: u32,
}

/// The memory that an access was to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Touched {
    /// Shared or global.
    pub space: MemorySpace,
    /// The address within its space.
    pub address: u64,
    /// Bytes of the access.
    pub bytes: u32,
    /// The shared array or module variable that the kernel's address was made from, by its name in the PTX.
    pub array: Option<String>,
    /// First address of that array, or of the allocation that the address is in.
    pub start: Option<u64>,
    /// Length of the array or allocation in bytes.
    pub length: Option<u64>,
    /// Where the kernel takes the array's address, that is, the source line that declares it.
    pub declared: Option<SourceLocation>,
}

/// A mistake, with the first of its occurrences.
#[derive(Clone, Debug, PartialEq)]
pub struct Finding {
    /// What is wrong.
    pub kind: FindingKind,
    /// The access that comes first in the program, for hazards; the only one otherwise.
    pub first: Incident,
    /// The other access of a hazard, or the other barrier.
    pub second: Option<Incident>,
    /// The memory, if it's about memory.
    pub touched: Option<Touched>,
    /// How often the same kind was found at the same pair of lines: bytes accessed wrongly for memory (words of four
    /// bytes), threads for barriers.
    pub count: u64,
}

/// Watches a launch for mistakes.
#[derive(Debug)]
pub struct Hazards {}

impl Hazards {
    /// Ready to watch a launch of `kernel` with that shape.
    pub fn new(_module: &Module, _kernel: &str, _config: &LaunchConfig) -> Hazards {
        Hazards {}
    }

    /// Says that nobody has written these bytes of global memory yet. All memory that isn't named here counts as
    /// written.
    pub fn unwritten(&mut self, _pointer: DevicePointer, _bytes: u64) {}

    /// What was found, in the order in which it was found first.
    pub fn findings(self) -> Vec<Finding> {
        Vec::new()
    }
}

impl Observer for Hazards {}
