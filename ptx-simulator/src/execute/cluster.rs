//! A cluster: blocks that run at the same time, each with its warps, its shared memory and its barriers. Kernels that don't
//! ask for clusters have clusters of one block.

use std::alloc::Layout;

use super::coordination::Coordination;
use super::launch::Launch;
use super::warp::{Name, State, Warp};
use crate::alu::{ALWAYS, Row};
use crate::decode::program::{BLOCK_WINDOW, BarrierKind, Constant, Special};
use crate::memory::POISON;

/// Barriers of a block that programs name.
pub(super) const BARRIERS: u32 = 16;
/// Those and one for each warpgroup, at which its warps wait for each other before a product.
pub(super) const ALL_BARRIERS: u32 = BARRIERS + 1024 / 128;

/// One of the block's barriers, between its first arrival and its completion.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct BarrierState {
    pub arrived: u32,
    /// Threads to wait for; 0 while nobody has arrived.
    pub expected: u32,
    /// Threads whose predicate was true and false.
    pub trues: u32,
    pub falses: u32,
}

/// Memory with a fixed place and alignment, zeroed at first.
struct Arena<T> {
    start: *mut T,
    layout: Option<Layout>,
}

impl<T> Arena<T> {
    /// Room for `count` items of which all-zero bits are a value; `None` if the machine doesn't give it.
    fn new(count: usize) -> Option<Self> {
        let layout = Layout::array::<T>(count).ok()?.align_to(128).ok()?;
        if layout.size() == 0 {
            return Some(Arena { start: std::ptr::without_provenance_mut(128), layout: None });
        }
        // SAFETY: the size isn't zero.
        let start = unsafe { std::alloc::alloc_zeroed(layout) }.cast::<T>();
        (!start.is_null()).then_some(Arena { start, layout: Some(layout) })
    }
}

impl<T> Drop for Arena<T> {
    fn drop(&mut self) {
        if let Some(layout) = self.layout {
            // SAFETY: it was allocated with this layout.
            unsafe { std::alloc::dealloc(self.start.cast(), layout) };
        }
    }
}

/// The state of one cluster that is running; used again for the next.
pub(super) struct Cluster {
    /// The blocks' indices in the grid, by rank in the cluster.
    pub blocks: Vec<u64>,
    /// The blocks' warps, those of rank 0 first.
    pub warps: Vec<Warp>,
    /// Warps of a block.
    warps_of_block: usize,
    pub coordination: Coordination,
    /// Each block's.
    shared: Vec<Arena<u8>>,
    shared_bytes: u32,
    local: Arena<Row>,
    local_rows: usize,
    // Owns what the warps point to.
    _rows: Arena<Row>,
    _predicates: Arena<u32>,
}

impl Cluster {
    /// Bytes that a cluster of this launch needs.
    pub fn bytes(launch: &Launch<'_>) -> u64 {
        let program = launch.program;
        let per_warp =
            (u64::from(program.rows) + u64::from(program.local_words)) * 128 + u64::from(program.predicates) * 4;
        (per_warp * u64::from(launch.warps) + u64::from(launch.shared_bytes)) * u64::from(launch.cluster_blocks())
    }

    /// Makes a cluster with everything in place that doesn't change from cluster to cluster.
    pub fn new(launch: &Launch<'_>) -> Option<Self> {
        let program = launch.program;
        let blocks = launch.cluster_blocks();
        let warps = (blocks * launch.warps) as usize;
        let (row_count, predicate_count) = (program.rows as usize, (program.predicates as usize).next_multiple_of(32));
        let local_rows = program.local_words as usize;
        let rows = Arena::<Row>::new(warps * row_count)?;
        let predicates = Arena::<u32>::new(warps * predicate_count)?;
        let local = Arena::<Row>::new(warps * local_rows)?;
        let shared = (0..blocks).map(|_| Arena::<u8>::new(launch.shared_bytes as usize)).collect::<Option<_>>()?;
        let warps = (0..blocks * launch.warps)
            .map(|number| {
                let (rank, index) = (number / launch.warps, number % launch.warps);
                let threads = (launch.threads - index * 32).min(32);
                let existing = if threads == 32 { u32::MAX } else { (1 << threads) - 1 };
                let place = number as usize;
                Warp::new(
                    Name { rank, index, number },
                    rows.start.wrapping_add(place * row_count),
                    predicates.start.wrapping_add(place * predicate_count),
                    local.start.wrapping_add(place * local_rows),
                    existing,
                )
            })
            .collect();
        let cluster = Cluster {
            blocks: vec![0; blocks as usize],
            warps,
            warps_of_block: launch.warps as usize,
            coordination: Coordination::new(blocks, launch.warps, launch.threads),
            shared,
            shared_bytes: launch.shared_bytes,
            local_rows: local_rows * (blocks * launch.warps) as usize,
            local,
            _rows: rows,
            _predicates: predicates,
        };
        cluster.fill_constants(launch);
        Some(cluster)
    }

    /// The shared memory of the block of that rank.
    pub fn shared(&self, rank: usize) -> *mut u8 {
        self.shared[rank].start
    }

    fn fill_constants(&self, launch: &Launch<'_>) {
        for warp in &self.warps {
            // Where the block's shared memory begins.
            let own = u64::from(warp.rank) * BLOCK_WINDOW;
            for &(row, constant) in &launch.program.constants {
                let shared = |start: u32, offset: i64| own.wrapping_add(u64::from(start)).wrapping_add(offset as u64);
                let dynamic = |offset: i64| shared(launch.program.shared_bytes, offset);
                match constant {
                    Constant::Bits32(value) => set_row(warp, row, |_| value),
                    Constant::Bits64(value) => set_wide_row(warp, row, value),
                    Constant::Variable { index, offset } => {
                        set_wide_row(warp, row, launch.variables[index as usize].wrapping_add(offset as u64));
                    }
                    Constant::Shared { start, offset, wide: true } => {
                        set_wide_row(warp, row, shared(start, offset));
                    }
                    Constant::Shared { start, offset, wide: false } => {
                        set_row(warp, row, |_| shared(start, offset) as u32);
                    }
                    Constant::DynamicShared { offset, wide: true } => set_wide_row(warp, row, dynamic(offset)),
                    Constant::DynamicShared { offset, wide: false } => set_row(warp, row, |_| dynamic(offset) as u32),
                }
            }
            // SAFETY: every warp has the masks that the program asks for, the fixed ones among them.
            unsafe { *warp.predicates.add(ALWAYS as usize) = u32::MAX };
            for &(row, special) in &launch.program.specials {
                let first = warp.index * 32;
                let [width, height, _] = launch.block;
                let value = |lane: u32| match special {
                    Special::Thread(0) => (first + lane) % width,
                    Special::Thread(1) => (first + lane) / width % height,
                    Special::Thread(_) => (first + lane) / width / height,
                    Special::BlockShape(axis) => launch.block[usize::from(axis)],
                    Special::GridShape(axis) => launch.grid[usize::from(axis)],
                    Special::ClusterShape(axis) => launch.cluster[usize::from(axis)],
                    Special::ClusterGridShape(axis) => launch.cluster_grid()[usize::from(axis)],
                    Special::Rank => warp.rank,
                    Special::ClusterBlocks => launch.cluster_blocks(),
                    Special::BlockInCluster(axis) => launch.place_in_cluster(warp.rank)[usize::from(axis)],
                    Special::Block(_) | Special::Cluster(_) => 0,
                    Special::Lane => lane,
                    Special::Warp => warp.index,
                    Special::Warps => launch.warps,
                    Special::MaskEqual => 1 << lane,
                    Special::MaskLess => (1 << lane) - 1,
                    Special::MaskLessEqual => (1 << lane) | ((1 << lane) - 1),
                    Special::MaskGreater => !((1 << lane) | ((1 << lane) - 1)),
                    Special::MaskGreaterEqual => !((1 << lane) - 1),
                    Special::DynamicShared => launch.dynamic_shared_bytes,
                    Special::TotalShared => launch.shared_bytes,
                };
                set_row(warp, row, value);
            }
        }
    }

    /// Makes this the cluster with that index, as if nothing had run in it before.
    pub fn restart(&mut self, launch: &Launch<'_>, index: u64) {
        let cluster = launch.cluster_position(index);
        for (block, rank) in self.blocks.iter_mut().zip(0..) {
            *block = launch.block_of(cluster, rank);
        }
        for warp in &mut self.warps {
            warp.restart();
            let position = launch.block_position(self.blocks[warp.rank as usize]);
            for &(row, special) in &launch.program.specials {
                match special {
                    Special::Block(axis) => set_row(warp, row, |_| position[usize::from(axis)]),
                    Special::Cluster(axis) => set_row(warp, row, |_| cluster[usize::from(axis)]),
                    _ => {}
                }
            }
            for &row in &launch.program.cleared_rows {
                set_row(warp, row, |_| 0);
            }
            for &predicate in &launch.program.cleared_predicates {
                // SAFETY: the program's masks are all there.
                unsafe { *warp.predicates.add(predicate as usize) = 0 };
            }
        }
        self.coordination.restart();
        // SAFETY: the arenas have these sizes and belong to this cluster alone.
        unsafe {
            for shared in &self.shared {
                std::ptr::write_bytes(shared.start, POISON, self.shared_bytes as usize);
            }
            std::ptr::write_bytes(self.local.start, POISON, self.local_rows);
        }
    }

    /// The warps of the block of that rank.
    pub fn warps_of(&mut self, rank: u32) -> &mut [Warp] {
        let first = rank as usize * self.warps_of_block;
        &mut self.warps[first..first + self.warps_of_block]
    }

    /// Lets the threads go on that wait at a complete barrier of the block of that rank.
    pub fn release(&mut self, rank: u32, number: u32) {
        let barrier = std::mem::take(self.coordination.barrier(rank, number));
        for warp in self.warps_of(rank) {
            for group in &mut warp.groups {
                let State::AtBarrier { number: waits, kind, destination } = group.state else { continue };
                if waits != number {
                    continue;
                }
                group.state = State::Runnable;
                // SAFETY: destinations were decoded for this program; the warp isn't running.
                unsafe {
                    match kind {
                        BarrierKind::Synchronize | BarrierKind::Arrive => {}
                        BarrierKind::Count => {
                            let row = warp.rows.add(destination as usize).cast::<u32>();
                            for lane in (0..32).filter(|lane| group.mask >> lane & 1 != 0) {
                                *row.add(lane) = barrier.trues;
                            }
                        }
                        BarrierKind::And | BarrierKind::Or => {
                            let result = match kind {
                                BarrierKind::And => barrier.falses == 0,
                                _ => barrier.trues > 0,
                            };
                            let mask = warp.predicates.add(destination as usize);
                            *mask = if result { *mask | group.mask } else { *mask & !group.mask };
                        }
                    }
                }
            }
        }
    }
}

fn set_row(warp: &Warp, row: u32, value: impl Fn(u32) -> u32) {
    // SAFETY: rows of the program are inside the warp's arena, and nothing else uses them now.
    let row = unsafe { &mut *warp.rows.add(row as usize) };
    for (lane, word) in row.0.iter_mut().enumerate() {
        *word = value(lane as u32);
    }
}

fn set_wide_row(warp: &Warp, row: u32, value: u64) {
    // SAFETY: as in `set_row`; a wide constant has two consecutive rows, which are 32 aligned doublewords.
    let row = unsafe { &mut *warp.rows.add(row as usize).cast::<[u64; 32]>() };
    row.fill(value);
}
