//! What a launch costs, instruction by instruction, in the units that the hardware's own counters use.

use super::{Access, Observer, Place};
use crate::decode::Module;
use crate::error::SourceLocation;

/// Accesses of one kind of memory in one direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Instructions of a warp that accessed it.
    pub requests: u64,
    /// Shared memory: wavefronts, the passes over the banks that the requests took. Global memory: sectors of 32 bytes
    /// that the requests touched.
    pub units: u64,
    /// The fewest wavefronts or sectors in which the same lanes could access the same number of different bytes.
    pub ideal: u64,
    /// Bytes that lanes asked for, each lane's own.
    pub bytes: u64,
}

/// Counts of one instruction, one source line or a whole launch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Instructions issued, counted per warp; those whose guard let no lane through are not.
    pub warp_instructions: u64,
    /// Instructions executed, counted per thread.
    pub thread_instructions: u64,
    /// f32 fused multiply-adds, per warp and per thread.
    pub warp_fma: u64,
    /// f32 fused multiply-adds per thread.
    pub thread_fma: u64,
    /// Arrivals of warps at barriers of the block.
    pub barriers: u64,
    /// Loads from shared memory.
    pub shared_loads: Traffic,
    /// Stores to shared memory.
    pub shared_stores: Traffic,
    /// Loads from global memory.
    pub global_loads: Traffic,
    /// Stores to global memory.
    pub global_stores: Traffic,
}

/// The counts of one instruction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InstructionCosts {
    /// Index of the instruction in the kernel's code.
    pub instruction: u32,
    /// Its line in the PTX text.
    pub ptx_line: u32,
    /// Its source line, where the PTX has line directives.
    pub source: Option<SourceLocation>,
    /// What it cost.
    pub counts: Counts,
}

/// Counts what a launch costs.
#[derive(Debug)]
pub struct Costs {}

impl Costs {
    /// Ready to watch a launch of `kernel`.
    pub fn new(_module: &Module, _kernel: &str) -> Costs {
        Costs {}
    }

    /// The counts of each instruction that was executed, in the order of the code.
    pub fn instructions(&self) -> Vec<InstructionCosts> {
        Vec::new()
    }

    /// The counts of the whole launch.
    pub fn total(&self) -> Counts {
        Counts::default()
    }
}

impl Observer for Costs {
    fn instruction(&mut self, _place: Place, _lanes: u32) {}

    fn access(&mut self, _place: Place, _access: Access<'_>) {}
}
