//! # Lesson 25: two blocks fetch a tile once
//!
//! Every block of [`persistent`](crate::persistent) fetches its tiles of A and B by itself. Blocks whose tiles of C are one below the other
//! need the same tile of B, at about the same time; the second-level cache delivers it twice.
//!
//! Hopper's copying unit can do with once. Blocks can be launched as a *cluster*: they run at the same time, on multiprocessors that are
//! neighbours and reach each other's shared memory. A copy may name several blocks of its cluster, and comes to the same place in the
//! shared memory of each. That is a *multicast*.
//!
//! ```text
//!                B: 64 x 256, fetched by       C
//!                rank 0   rank 1
//!               +--------+--------+            both get all of it
//!               |        |        |
//!               +--------+--------+
//!   A: rank 0   +-----------------+
//!   +------+    |  tile of rank 0 |
//!   +------+    +-----------------+
//!   A: rank 1   +-----------------+
//!   +------+    |  tile of rank 1 |
//!   +------+    +-----------------+
//! ```
//!
//! So here two blocks make a cluster. They take tiles of C that are one below the other. Each fetches its own tile of A, and half of B's tile:
//! two of its four boxes, for both.
//!
//! ## What that saves
//!
//! ```text
//!                                   A          B          bytes of a step    operations for a byte
//!   each for itself             16,384  +  32,768    =    49,152             85
//!   two blocks together         16,384  +  16,384    =    32,768             128
//! ```
//!
//! A step takes 1024 cycles of the tensor cores: from 48 bytes a cycle that a multiprocessor takes from the second-level cache it goes down to
//! 32. It's what a tile of 256 x 256 would take, for which neither the registers nor the shared memory of one block suffice. Shared
//! memory gets as many bytes as before.
//!
//! ## Who waits for whom
//!
//! A stage is filled by two producers and emptied by consumers of one block. Both barriers of a stage go on telling all there is to know:
//!
//! - *Full.* A multicast's bytes are reported in each block that gets them, to the barrier at the same place. Each producer expects
//!   all 49,152 bytes of its own stage at its own barrier, whoever fetches them. It doesn't matter who is first: bytes may come
//!   before they're expected, since the phase still lacks the producer's arrival.
//! - *Empty.* What a producer fetches of B goes to two stages. So it must know that both are empty, and a stage's barrier counts four
//!   arrivals instead of two: those of both blocks' consumers. A consumer arrives twice, at the barrier of its own block and at that
//!   of the other one. An address of the own shared memory becomes one of the other block's by `mapa`.
//!
//! If a barrier counted its own consumers only, everything would look right for a while. Blocks of a cluster mostly go in step.
//!
//! ## Coming and going
//!
//! Nobody may arrive at a barrier, or report bytes to it, that isn't one yet. [`sync_threads`](cuda_std::thread::sync_threads) says something of the own
//! block only, so the cluster's own barrier takes its place, behind the fence that was there before.
//!
//! And nobody may leave while another block still arrives at its barriers: the shared memory may be the next block's by then. The last
//! arrivals at `empty` are such, as no producer waits for them. So at their end all meet at the cluster's barrier once more. Threads
//! that have ended before aren't waited for.
//!
//! ## What limits it next
//!
//! Power, as before: the tensor cores take most of it, and they have as much to do. What is left of the second-level cache's work matters
//! where products are short or narrow. The price is that two blocks wait for each other: a stage is empty when the slower one is
//! through with it. And C is computed by pairs of tiles: where there is an odd number of rows of tiles, half a cluster computes what
//! is outside of C.
//!
//! ## Measured
//!
//! On an H200 588 TFLOP/s at N = 2048, 660 at N = 4096, 676 at N = 8192 and 690 at N = 16384, and
//! [`persistent`](crate::persistent) in the same run 596, 663, 677 and 700 (cuBLAS 604, 651, 656 and 669). So in short rounds it's no gain, and
//! costs up to 1.4 %: what the other block's share saves is traffic of the second-level cache, which tiles of 128 x 256 in a good order don't run
//! out of, and two blocks wait for each other.
//!
//! Under load, when the clock has fallen to what the power allows, less traffic is a little more speed: `bench --sustained` has 640, 660 and 675
//! TFLOP/s at N = 4096, 8192 and 16384, and [`persistent`](crate::persistent) 637, 656 and 674 (cuBLAS 632, 653 and 668). So there are
//! production kernels of both kinds, and where K is long it's clusters that are chosen.

use crate::block_order::tile;
use crate::launch::{Kernel, LaunchShape, Signature, MAX_GRID_X};
use crate::persistent::{self, stay, Tiles, GROUP_ROWS, SHARED_BYTES};
use crate::producer::{box_of_b, Neighbours, BOXES_B, COLUMNS};
use crate::tensor_maps::ROWS;
use cuda_std::*;
use kernel_common::operands::MappedOperands;
use kernel_common::tensor_maps::{load_for_blocks, TensorMap};
use kernel_common::{clusters, parameter_address};

/// Blocks of a cluster.
pub const BLOCKS: u32 = 2;

/// How matrices are copied, as in [`persistent`].
pub const OPERANDS: MappedOperands = MappedOperands { cluster: BLOCKS, ..persistent::OPERANDS };

/// What the host needs to know to launch [`cluster`].
pub const KERNEL: Kernel = Kernel {
    name: "cluster",
    title: "two blocks share a tile of B: each fetches half of it for both",
    entry: "cluster",
    signature: Signature::Mapped(OPERANDS),
    launch_shape,
    ..persistent::KERNEL
};

/// One cluster for each pair of tiles of C that are one below the other, all along x; fewer clusters will do.
pub fn launch_shape(m: usize, n: usize, _k: usize) -> Option<LaunchShape> {
    let pairs = LaunchShape::flat(m.div_ceil(BLOCKS as usize), n, KERNEL.tile, KERNEL.block, SHARED_BYTES)?;
    let [pairs_along_x, y, z] = pairs.grid;
    let blocks = u32::try_from(u64::from(pairs_along_x) * u64::from(BLOCKS)).ok()?;
    (u64::from(blocks) <= MAX_GRID_X).then_some(LaunchShape { grid: [blocks, y, z], ..pairs })
}

/// C = A B, ROWS x COLUMNS tiles of C one after the other in each block, and BLOCKS of them one below the other in each cluster.
///
/// # Safety
///
/// As for [`persistent`](crate::persistent::persistent), with the shape that [`launch_shape`] gives, or fewer clusters.
#[kernel]
#[allow(unused_variables)] // Maps are used by their addresses.
pub unsafe fn cluster(a: TensorMap, b: TensorMap, c: TensorMap, m: usize, n: usize, k: usize) {
    let maps = (parameter_address!(cluster, 0), parameter_address!(cluster, 1));
    let c = parameter_address!(cluster, 2);
    let (rows, columns) = (m.div_ceil(BLOCKS as usize * ROWS) as u32, n.div_ceil(COLUMNS) as u32);
    let (first, step) = (thread::block_idx_x() / BLOCKS, thread::grid_dim_x() / BLOCKS);
    stay::<Pair>(maps, c, k, Tiles { first, step, count: rows * columns }, |number| {
        let (row, column) = tile::<{ GROUP_ROWS / BLOCKS }>(number, rows, columns);
        ((row * BLOCKS + clusters::rank()) * ROWS as u32, column * COLUMNS as u32)
    });
}

/// The other block of a cluster, which has the same tiles of B.
enum Pair {}

impl Neighbours for Pair {
    const BLOCKS: u32 = BLOCKS;

    #[inline(always)]
    unsafe fn meet() {
        clusters::sync();
    }

    #[inline(always)]
    unsafe fn load_b(tile: u32, map: u64, at: (u32, u32), full: u32) {
        const OWN: u32 = BOXES_B / BLOCKS;
        const ALL: u16 = (1 << BLOCKS) - 1;
        for number in 0..OWN {
            let (to, from) = box_of_b(tile, at, clusters::rank() * OWN + number);
            load_for_blocks(to, map, from, full, ALL);
        }
    }

    #[inline(always)]
    unsafe fn release(empty: u32) {
        for rank in 0..BLOCKS {
            clusters::arrive_at(clusters::address_in(rank, empty));
        }
    }

    #[inline(always)]
    unsafe fn leave() {
        clusters::sync();
    }
}
