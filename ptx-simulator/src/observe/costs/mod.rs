//! What a launch costs, instruction by instruction, in the units that the hardware's own counters use.
//!
//! Instructions are those of the PTX. What a GPU executes is what its assembler makes of them, which for arithmetic is
//! more, fewer or other instructions. Accesses to memory, fused multiply-adds and barriers survive, so that their
//! counts are those of the hardware, with exceptions that can be named:
//!
//! - neighbouring narrow accesses may be joined to a wide one, which is then one request with the wavefronts of a wide
//!   access;
//! - a multiplication and an addition without a rounding modifier (`mul.f32`, `add.f32`) may be fused;
//! - a loop that the assembler unrolls may leave out what it finds to be done twice.
//!
//! # Bulk copies and products of warpgroups
//! A bulk load counts among the copies, on both sides; a bulk store among the copies on the side of shared memory and among
//! the stores to global memory. Shared memory takes a wavefront for each 128 bytes, since a swizzle leaves whole lines
//! whole; global memory counts each sector once for a copy. What a product of a warpgroup reads of shared memory isn't
//! counted: it takes no way that others take. These counts were not compared with the hardware's.
//!
//! # The same counts from the hardware
//!
//! | here | ncu |
//! |---|---|
//! | `shared_loads.requests` | `smsp__inst_executed_op_shared_ld.sum` |
//! | `shared_loads.units` | `l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum` |
//! | `shared_stores.requests` | `smsp__inst_executed_op_shared_st.sum` |
//! | `shared_stores.units` | `l1tex__data_pipe_lsu_wavefronts_mem_shared_op_st.sum` |
//! | both `.units` together, and those of copies | `memory_l1_wavefronts_shared` |
//! | `shared_atomics.units` | `l1tex__data_pipe_lsu_wavefronts_mem_shared_op_atom.sum` |
//! | `global_loads.requests` | `l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum` |
//! | `global_loads.units` | `l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum` |
//! | `global_stores.requests` | `l1tex__t_requests_pipe_lsu_mem_global_op_st.sum` |
//! | `global_stores.units` | `l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum` |
//! | both `.units` together, and those of copies | `memory_l2_theoretical_sectors_global` |
//! | `global_atomics.units` | `l1tex__t_sectors_pipe_lsu_mem_global_op_red.sum` (without results) and `_op_atom.sum` (with) |
//! | `shared_copies.requests` | `smsp__inst_executed_op_ldgsts.sum` |
//! | `thread_fma` | `smsp__sass_thread_inst_executed_op_ffma_pred_on.sum` |
//! | `barriers` | the `BAR` instructions of `sass__inst_executed_per_opcode` |
//!
//! ncu's global loads are ours and the copies together: `global_loads` and `global_copies`.
//!
//! [`banks`], [`sectors`] and [`copies`] say which accesses these counts were compared for; not every atomic is among them.
//!
//! `l1tex__data_pipe_lsu_wavefronts_mem_shared.sum`, without `_op_ld` and so on, is not the sum of the others. On an
//! H200 it also counts one wavefront for each time that a warp reads `%tid.x`, `%tid.y` or `%tid.z` from the special
//! register, and, in kernels with barriers, some more whose number depends on the timing: 0.9 to 1.2 for each time that
//! a block passed a barrier, in launches of 8,000 to 34,000 such passes. Launches without barriers, with loads, stores
//! and global traffic at once, showed none. None of that is an access to shared memory, `_op_ld` and `_op_st` are free
//! of it, and none of it is counted here. `_op_atom` is free of the reads of `%tid`; kernels with barriers and shared
//! atomics were not measured.

pub mod banks;
pub mod copies;
mod distinct;
pub mod sectors;

use std::ops::AddAssign;

use super::{Access, AsyncCopy, BulkCopy, BulkDirection, MatrixAccess, Observer, Place};
use crate::decode::Module;
use crate::decode::program::{AddressSpace, WarpgroupProduct};
use crate::error::{AccessKind, MemorySpace, SourceLocation};
use crate::execute::lanes;

/// Accesses of one kind of memory in one direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Traffic {
    /// Instructions of a warp that accessed it.
    pub requests: u64,
    /// Shared memory: wavefronts (see [banks]), the passes over the banks that the requests took. Global memory:
    /// [sectors] of 32 bytes that the requests touched; atomics send a sector again for lanes with the same address.
    pub units: u64,
    /// The fewest wavefronts or sectors in which the same lanes could access the same number of different bytes. That
    /// lanes of an atomic with the same address wait for each other is in both, `units` and `ideal`.
    pub ideal: u64,
    /// Bytes that lanes asked for, each lane's own.
    pub bytes: u64,
}

/// Counts of one instruction, one source line or a whole launch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Counts {
    /// Instructions issued, counted per warp; those whose guard let no lane through are not.
    pub warp_instructions: u64,
    /// Instructions executed, counted per thread.
    pub thread_instructions: u64,
    /// f32 fused multiply-adds, per warp.
    pub warp_fma: u64,
    /// f32 fused multiply-adds, per thread.
    pub thread_fma: u64,
    /// Matrix products on tensor cores (`mma`, `wgmma`), per warp.
    pub warp_mma: u64,
    /// Multiply-adds of matrix products, 2,048 for 16 x 8 x 16. Of a warpgroup's product each warp counts a quarter.
    pub mma_multiply_adds: u64,
    /// Arrivals of warps at barriers of the block.
    pub barriers: u64,
    /// Loads from shared memory.
    pub shared_loads: Traffic,
    /// Stores to shared memory.
    pub shared_stores: Traffic,
    /// Atomics on shared memory; see [`banks`] for what their wavefronts mean.
    pub shared_atomics: Traffic,
    /// Loads from global memory; constant memory is another.
    pub global_loads: Traffic,
    /// Stores to global memory.
    pub global_stores: Traffic,
    /// Atomics on global memory.
    pub global_atomics: Traffic,
    /// What asynchronous copies write to shared memory, see [`copies`].
    pub shared_copies: Traffic,
    /// What asynchronous copies read from global memory, see [`copies`]. Those of which no lane reads anything aren't
    /// requests.
    pub global_copies: Traffic,
}

impl Counts {
    /// All accesses to shared memory together.
    pub fn shared(&self) -> Traffic {
        sum([self.shared_loads, self.shared_stores, self.shared_atomics, self.shared_copies])
    }

    /// All accesses to global memory together.
    pub fn global(&self) -> Traffic {
        sum([self.global_loads, self.global_stores, self.global_atomics, self.global_copies])
    }
}

fn sum(parts: [Traffic; 4]) -> Traffic {
    let mut sum = Traffic::default();
    parts.into_iter().for_each(|part| sum += part);
    sum
}

impl AddAssign for Traffic {
    fn add_assign(&mut self, other: Traffic) {
        self.requests += other.requests;
        self.units += other.units;
        self.ideal += other.ideal;
        self.bytes += other.bytes;
    }
}

impl AddAssign for Counts {
    fn add_assign(&mut self, other: Counts) {
        self.warp_instructions += other.warp_instructions;
        self.thread_instructions += other.thread_instructions;
        self.warp_fma += other.warp_fma;
        self.thread_fma += other.thread_fma;
        self.warp_mma += other.warp_mma;
        self.mma_multiply_adds += other.mma_multiply_adds;
        self.barriers += other.barriers;
        self.shared_loads += other.shared_loads;
        self.shared_stores += other.shared_stores;
        self.shared_atomics += other.shared_atomics;
        self.global_loads += other.global_loads;
        self.global_stores += other.global_stores;
        self.global_atomics += other.global_atomics;
        self.shared_copies += other.shared_copies;
        self.global_copies += other.global_copies;
    }
}

/// The counts of one instruction.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct InstructionCosts {
    /// Index of the instruction in the kernel's code.
    pub instruction: u32,
    /// The instruction with its modifiers, as `ld.shared.v4.b32`; empty for the return at the end of a body.
    pub mnemonic: String,
    /// Its line in the PTX text.
    pub ptx_line: u32,
    /// Its source line, where the PTX has line directives.
    pub source: Option<SourceLocation>,
    /// What it cost.
    pub counts: Counts,
}

/// What is known of an instruction beforehand, and what is learned of it.
#[derive(Clone, Copy, Debug, Default)]
struct Entry {
    /// Whether it's the first step of an instruction of the text; the others aren't counted as instructions.
    counted: bool,
    fma: bool,
    /// Multiply-adds, if it's a matrix product.
    mma_multiply_adds: u64,
    counts: Counts,
}

/// Counts what a launch costs.
///
/// ```
/// use ptx_simulator::observe::costs::Costs;
/// use ptx_simulator::{Argument, LaunchConfig, Module, Simulator};
///
/// let module = Module::parse(
///     ".version 7.0
///     .target sm_70
///     .address_size 64
///     .visible .entry fill(.param .u64 values)
///     {
///         .reg .b32 %r<2>;
///         .reg .b64 %rd<3>;
///         ld.param.u64 %rd1, [values];
///         mov.u32 %r1, %tid.x;
///         mul.wide.u32 %rd2, %r1, 8;
///         add.u64 %rd1, %rd1, %rd2;
///         st.global.u32 [%rd1], %r1;
///         ret;
///     }",
/// )?;
/// let mut simulator = Simulator::new();
/// let values = simulator.allocate(64 * 8)?;
/// let config = LaunchConfig { grid: [1, 1, 1], block: [64, 1, 1], dynamic_shared_bytes: 0 };
/// let mut costs = Costs::new(&module, "fill");
/// simulator.launch_observed(&module, "fill", config, &[Argument::Pointer(values)], &mut costs)?;
///
/// // Every other word is left out, so twice as many sectors are touched as there need be.
/// let stores = costs.total().global_stores;
/// assert_eq!((stores.requests, stores.units, stores.ideal), (2, 16, 8));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Costs {
    entries: Vec<Entry>,
    /// Mnemonic, line and source of each instruction.
    texts: Vec<InstructionCosts>,
}

impl Costs {
    /// Ready to watch a launch of `kernel`. It may watch several launches of the same kernel and adds them up.
    ///
    /// Without a kernel of that name in `module` nothing is counted.
    pub fn new(module: &Module, kernel: &str) -> Costs {
        let places = module.find_kernel(kernel).map_or(&[][..], |kernel| &kernel.program.places);
        let texts: Vec<InstructionCosts> = (0..places.len() as u32)
            .map(|instruction| InstructionCosts {
                instruction,
                mnemonic: module.mnemonic(kernel, instruction).unwrap_or_default().to_owned(),
                ptx_line: places[instruction as usize].ptx_line,
                source: module.source(places[instruction as usize]),
                counts: Counts::default(),
            })
            .collect();
        let entries = places
            .iter()
            .zip(&texts)
            .map(|(place, text)| Entry {
                counted: !place.continued,
                fma: is_fma(&text.mnemonic),
                mma_multiply_adds: multiply_adds_of_mma(&text.mnemonic),
                counts: Counts::default(),
            })
            .collect();
        Costs { entries, texts }
    }

    /// The counts of each instruction that was executed, in the order of the code.
    pub fn instructions(&self) -> Vec<InstructionCosts> {
        let counted = |(entry, text): (&Entry, &InstructionCosts)| {
            (entry.counts != Counts::default()).then(|| InstructionCosts { counts: entry.counts, ..text.clone() })
        };
        self.entries.iter().zip(&self.texts).filter_map(counted).collect()
    }

    /// The counts of the whole launch.
    pub fn total(&self) -> Counts {
        let mut total = Counts::default();
        for entry in &self.entries {
            total += entry.counts;
        }
        total
    }
}

/// Whether an instruction is a fused multiply-add of `f32`. `mad` of `f32` is the same operation on every GPU that PTX
/// for 64-bit addresses runs on.
fn is_fma(mnemonic: &str) -> bool {
    (mnemonic.starts_with("fma.") || mnemonic.starts_with("mad.")) && mnemonic.ends_with(".f32")
}

/// The multiply-adds of a warp's part of a matrix product, by the product's shape `m16n8k16`; 0 if it's none.
fn multiply_adds_of_mma(mnemonic: &str) -> u64 {
    let mut words = mnemonic.split('.');
    let warps = match words.next() {
        Some("mma") => 1,
        Some("wgmma") => u64::from(WarpgroupProduct::WARPS),
        _ => return 0,
    };
    let shape = |word: &str| {
        let (m, rest) = word.strip_prefix('m')?.split_once('n')?;
        let (n, k) = rest.split_once('k')?;
        Some(m.parse::<u64>().ok()? * n.parse::<u64>().ok()? * k.parse::<u64>().ok()?)
    };
    words.find_map(shape).unwrap_or(0) / warps
}

/// The lanes of an access to global memory that aren't at constants.
fn without_constants(access: &Access<'_>) -> u32 {
    let constant = |lane: usize| AddressSpace::of(access.addresses[lane]) == AddressSpace::Constant;
    lanes(access.lanes).filter(|lane| !constant(*lane)).fold(0, |mask, lane| mask | 1 << lane)
}

fn count_shared(traffic: &mut Traffic, access: &Access<'_>) {
    count(traffic, access, banks::wavefronts(access), banks::ideal(access));
}

fn count_global(traffic: &mut Traffic, access: &Access<'_>) {
    let access = Access { lanes: without_constants(access), ..*access };
    count(traffic, &access, sectors::sectors(&access), sectors::ideal(&access));
}

fn count(traffic: &mut Traffic, access: &Access<'_>, units: u32, ideal: u32) {
    if access.lanes != 0 {
        traffic.requests += 1;
        traffic.units += u64::from(units);
        traffic.ideal += u64::from(ideal);
        traffic.bytes += u64::from(access.lanes.count_ones()) * u64::from(access.bytes);
    }
}

impl Observer for Costs {
    fn instruction(&mut self, place: Place, lanes: u32) {
        let Some(entry) = self.entries.get_mut(place.instruction as usize) else { return };
        if entry.counted {
            let threads = u64::from(lanes.count_ones());
            entry.counts.warp_instructions += 1;
            entry.counts.thread_instructions += threads;
            if entry.fma {
                entry.counts.warp_fma += 1;
                entry.counts.thread_fma += threads;
            }
            if entry.mma_multiply_adds > 0 {
                entry.counts.warp_mma += 1;
                entry.counts.mma_multiply_adds += entry.mma_multiply_adds;
            }
        }
    }

    fn access(&mut self, place: Place, access: Access<'_>) {
        let Some(entry) = self.entries.get_mut(place.instruction as usize) else { return };
        let counts = &mut entry.counts;
        match (access.space, access.kind) {
            (MemorySpace::Shared, AccessKind::Read) => count_shared(&mut counts.shared_loads, &access),
            (MemorySpace::Shared, AccessKind::Write) => count_shared(&mut counts.shared_stores, &access),
            (MemorySpace::Shared, AccessKind::Atomic) => count_shared(&mut counts.shared_atomics, &access),
            (MemorySpace::Global, AccessKind::Read) => count_global(&mut counts.global_loads, &access),
            (MemorySpace::Global, AccessKind::Write) => count_global(&mut counts.global_stores, &access),
            (MemorySpace::Global, AccessKind::Atomic) => count_global(&mut counts.global_atomics, &access),
            (MemorySpace::Local | MemorySpace::Parameter, _) => {}
        }
    }

    fn copy_begins(&mut self, place: Place, copy: AsyncCopy<'_>) {
        let Some(entry) = self.entries.get_mut(place.instruction as usize) else { return };
        let counts = &mut entry.counts;
        count(&mut counts.shared_copies, &copy.writes(), copies::wavefronts(&copy), copies::ideal_wavefronts(&copy));
        let reads = copy.reads();
        count(&mut counts.global_copies, &reads, copies::sectors(&copy), sectors::ideal(&reads));
        // Not as wide as what is written, where some of it is zeros.
        let short = |lane: usize| u64::from(copy.bytes) - u64::from(copy.source_bytes[lane]);
        counts.global_copies.bytes -= lanes(copy.readable).map(short).sum::<u64>();
    }

    fn bulk_copy_begins(&mut self, place: Place, copy: BulkCopy<'_>) {
        let Some(entry) = self.entries.get_mut(place.instruction as usize) else { return };
        let counts = &mut entry.counts;
        let global = match copy.direction {
            BulkDirection::Load => &mut counts.global_copies,
            BulkDirection::Store => &mut counts.global_stores,
        };
        // What is multicast is read once.
        let read = copy.pieces.iter().filter(|_| !copy.again);
        let moved = || read.clone().filter_map(|piece| Some((piece.global?, u64::from(piece.bytes))));
        let mut sectors: Vec<u64> = moved()
            .flat_map(|(address, bytes)| {
                address / sectors::SECTOR_BYTES..(address + bytes).div_ceil(sectors::SECTOR_BYTES)
            })
            .collect();
        sectors.sort_unstable();
        sectors.dedup();
        let bytes: u64 = moved().map(|(_, bytes)| bytes).sum();
        let ideal = bytes.div_ceil(sectors::SECTOR_BYTES);
        *global += Traffic { requests: u64::from(bytes > 0), units: sectors.len() as u64, ideal, bytes };
        let bytes: u64 = copy.pieces.iter().map(|piece| u64::from(piece.bytes)).sum();
        let wavefronts = bytes.div_ceil(banks::ROW);
        let requests = u64::from(bytes > 0);
        counts.shared_copies += Traffic { requests, units: wavefronts, ideal: wavefronts, bytes };
    }

    fn matrices(&mut self, place: Place, matrices: MatrixAccess<'_>) {
        let Some(entry) = self.entries.get_mut(place.instruction as usize) else { return };
        let counts = &mut entry.counts;
        let traffic = match matrices.kind {
            AccessKind::Read => &mut counts.shared_loads,
            _ => &mut counts.shared_stores,
        };
        let (units, ideal) = (banks::wavefronts_of_matrices(&matrices), banks::ideal_of_matrices(&matrices));
        count(traffic, &matrices.by_rows(), units, ideal);
    }

    fn barrier_arrives(&mut self, place: Place, _barrier: u32, _lanes: u32) {
        if let Some(entry) = self.entries.get_mut(place.instruction as usize) {
            entry.counts.barriers += 1;
        }
    }
}
