//! How many blocks of a kernel a multiprocessor can hold at once, and what stops there being more.
//!
//! The calculation is that of `cuda_occupancy.h` in NVIDIA's toolkit, for the whole shared memory: registers are given
//! to warps in pieces of 256 from the part of the multiprocessor that the warp runs on, shared memory to blocks in
//! pieces of 128 or 256 bytes after what the system takes. `cuOccupancyMaxActiveBlocksPerMultiprocessor` of the driver
//! should say the same.

use serde::Serialize;

use crate::gpus::{
    MAX_BLOCK_THREADS, MAX_REGISTERS_PER_THREAD, MultiprocessorLimits, PARTITIONS, REGISTER_GRANULARITY, WARP,
};

/// What a block of a kernel takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockNeeds {
    /// Threads.
    pub threads: u32,
    /// Registers of each thread, where they are known.
    pub registers: Option<u32>,
    /// Shared memory, declared and dynamic, in bytes.
    pub shared_bytes: u32,
}

/// Something that a multiprocessor has so much of and no more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Resource {
    /// Room for resident threads, counted in warps.
    Threads,
    /// Room for resident blocks.
    Blocks,
    /// Registers.
    Registers,
    /// Shared memory.
    SharedMemory,
}

/// How many blocks one resource has room for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Limit {
    /// The resource.
    pub resource: Resource,
    /// Blocks.
    pub blocks: u32,
}

/// How full a multiprocessor gets.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Occupancy {
    /// Resident blocks.
    pub blocks: u32,
    /// Resident warps.
    pub warps: u32,
    /// Warps that there is room for.
    pub max_warps: u32,
    /// `warps` as a share of `max_warps`.
    pub share: f64,
    /// What each resource has room for; no entry for registers if the need is unknown, and none for shared memory if
    /// nothing of it is taken.
    pub limits: Vec<Limit>,
    /// The resources that are used up first.
    pub limited_by: Vec<Resource>,
}

/// The occupancy of blocks that need `needs` on a multiprocessor of these limits. Zero blocks mean that a block doesn't
/// fit at all.
///
/// Without the number of registers the result is an upper bound.
pub fn occupancy(limits: &MultiprocessorLimits, needs: BlockNeeds) -> Occupancy {
    let warps_per_block = needs.threads.div_ceil(WARP).max(1);
    let max_warps = limits.threads / WARP;
    let threads = if needs.threads > MAX_BLOCK_THREADS { 0 } else { max_warps / warps_per_block };
    let mut found = vec![
        Limit { resource: Resource::Threads, blocks: threads },
        Limit { resource: Resource::Blocks, blocks: limits.blocks },
    ];
    if let Some(registers) = needs.registers.filter(|&registers| registers > 0) {
        let blocks = blocks_by_registers(limits, registers, warps_per_block);
        found.push(Limit { resource: Resource::Registers, blocks });
    }
    let shared = needs.shared_bytes.saturating_add(limits.shared_reserved_per_block);
    let shared = shared.checked_next_multiple_of(limits.shared_granularity).unwrap_or(u32::MAX);
    if needs.shared_bytes > limits.shared_bytes_per_block {
        found.push(Limit { resource: Resource::SharedMemory, blocks: 0 });
    } else if let Some(blocks) = limits.shared_bytes.checked_div(shared) {
        found.push(Limit { resource: Resource::SharedMemory, blocks });
    }

    let blocks = found.iter().map(|limit| limit.blocks).min().unwrap_or(0);
    let limited_by = found.iter().filter(|limit| limit.blocks == blocks).map(|limit| limit.resource).collect();
    let warps = blocks * warps_per_block;
    Occupancy { blocks, warps, max_warps, share: f64::from(warps) / f64::from(max_warps), limits: found, limited_by }
}

fn blocks_by_registers(limits: &MultiprocessorLimits, registers: u32, warps_per_block: u32) -> u32 {
    if registers > MAX_REGISTERS_PER_THREAD {
        return 0;
    }
    let per_warp = (registers * WARP).next_multiple_of(REGISTER_GRANULARITY);
    // A launch is refused unless the block fits when its warps are spread evenly over the partitions.
    if u64::from(per_warp) * u64::from(warps_per_block.next_multiple_of(PARTITIONS)) > u64::from(limits.registers) {
        return 0;
    }
    limits.registers / PARTITIONS / per_warp * PARTITIONS / warps_per_block
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gpus;

    fn on(gpu: &str, threads: u32, registers: u32, shared_bytes: u32) -> Occupancy {
        let limits = gpus::by_name(gpu).unwrap().limits;
        occupancy(&limits, BlockNeeds { threads, registers: Some(registers), shared_bytes })
    }

    #[test]
    fn blocks_of_256_threads_with_32_registers_fill_an_h200() {
        let found = on("H200", 256, 32, 2048);
        assert_eq!((found.blocks, found.warps, found.share), (8, 64, 1.0));
        assert_eq!(found.limited_by, [Resource::Threads, Resource::Registers]);
    }

    #[test]
    fn one_more_register_costs_a_block_because_registers_come_in_pieces() {
        // 33 registers x 32 lanes round up to 1280; 16384 / 1280 = 12 warps a partition, 48 in all, 6 blocks of 8.
        let found = on("H200", 256, 33, 0);
        assert_eq!((found.blocks, found.limited_by), (6, vec![Resource::Registers]));
    }

    #[test]
    fn small_blocks_are_limited_by_their_number() {
        // 32 blocks of 2 warps reach 64 warps on an H200; on a T4, 16 blocks reach 32 of 32.
        assert_eq!((on("H200", 64, 32, 512).blocks, on("H200", 64, 32, 512).share), (32, 1.0));
        let small = on("H200", 32, 16, 0);
        assert_eq!((small.blocks, small.share, small.limited_by), (32, 0.5, vec![Resource::Blocks]));
        assert_eq!(on("T4", 64, 32, 512).blocks, 16);
    }

    #[test]
    fn a_block_of_1024_threads_wastes_a_third_where_1536_fit() {
        let found = on("RTX4090", 1024, 32, 8192);
        assert_eq!((found.blocks, found.limited_by), (1, vec![Resource::Threads]));
        assert!((found.share - 2.0 / 3.0).abs() < 1e-12);
    }

    #[test]
    fn shared_memory_counts_with_the_kibibyte_that_the_system_takes() {
        // 32 KiB + 1 KiB: 6 blocks in 228 KiB. On Volta nothing is reserved: 3 in 96 KiB.
        let found = on("H200", 256, 32, 32 << 10);
        assert_eq!((found.blocks, found.limited_by), (6, vec![Resource::SharedMemory]));
        assert_eq!(on("V100", 256, 32, 32 << 10).blocks, 3);
        // The published most of a block, and one byte more.
        assert_eq!(on("H200", 256, 32, 227 << 10).blocks, 1);
        assert_eq!(on("H200", 256, 32, (227 << 10) + 1).blocks, 0);
    }

    #[test]
    fn what_cannot_be_launched_has_no_blocks() {
        assert_eq!((on("H200", 1025, 16, 0).blocks, on("H200", u32::MAX, 255, u32::MAX).blocks), (0, 0));
        assert_eq!(on("H200", 256, 256, 0).blocks, 0);
        // 1024 threads leave each at most 64 registers.
        assert_eq!((on("H200", 1024, 64, 0).blocks, on("H200", 1024, 65, 0).blocks), (1, 0));
    }

    #[test]
    fn without_the_registers_the_rest_still_counts() {
        let limits = gpus::default().limits;
        let found = occupancy(&limits, BlockNeeds { threads: 256, registers: None, shared_bytes: 0 });
        assert_eq!((found.blocks, found.limited_by), (8, vec![Resource::Threads]));
        assert!(found.limits.iter().all(|limit| limit.resource != Resource::Registers));
    }
}
