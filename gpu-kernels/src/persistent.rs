//! # Lesson 24: blocks that stay
//!
//! A block of [`producer`](crate::producer) has a beginning in which nobody multiplies, the ring being empty, and an end in which nobody copies. A
//! tile of 128 x 256 at k = 4096 takes the tensor cores 64 steps of 1024 cycles. Before them lie the launch of the block, the making of its
//! barriers and the first copy's way, two thousand cycles together or so; behind them 131,072 bytes of sums. And a multiprocessor has
//! room for one block only.
//!
//! So a block doesn't end with its tile. There is one for each multiprocessor, and each takes one tile after the other: block b of 132 computes tiles
//! b, b + 132, b + 264 and so on.
//!
//! ```text
//!   producer    | copies of tile b        | of tile b + 132        | of tile b + 264 ...
//!   consumers      | products of tile b    | store | products of tile b + 132 | store | ...
//! ```
//!
//! Nothing has to be said to make that overlap. The producer goes through the same tiles in the same order, and through the ring without a
//! pause: where one tile ends and the next begins is nothing to it. While the consumers store, it fills the ring for the next tile, and their next
//! product finds its tiles there. Neither the ring nor the parity begins anew with a tile.
//!
//! ## Sums leave as they came
//!
//! The other half of the time is the store itself. A lane's sums are two neighbours here and two there: 8 bytes of a row, and a warp's store has
//! pieces of 32 bytes of 8 rows. The TMA takes a whole box, in the other direction, and a consumer that has asked for it goes on at
//! once.
//!
//! ```text
//!   registers  ->  box in shared memory, 64 rows x 32 columns  ->  TMA  ->  C
//! ```
//!
//! The box has rows of 128 bytes and the same exchanged chunks as the boxes of A and B. Without, the 8 rows of a warp's store would lie in the same
//! banks. That isn't all: a row's 32 bytes are two chunks, and rows 0 and 1 have only exchanged these two with each other. So lanes of odd rows
//! take a box's four groups of 8 columns in another order, 2, 3, 0, 1, and then half a warp, 4 rows with 4 pieces of 8 bytes, hits every bank
//! once. Edges are the map's business: what lies outside C isn't written, if its rows end at multiples of 16 bytes; copies to it write whole chunks.
//!
//! A warpgroup has 8 boxes of sums and room for two: while one is being stored, the next one is filled. Three things have to be right:
//!
//! 1. *A fence between proxies.* The TMA doesn't see shared memory the way threads do. What they have written becomes visible to it by
//!    `fence.proxy.async`, which every thread that has written executes.
//! 2. *A barrier of the warpgroup*, behind that: the one thread that asks for the store speaks for all 128. It's a barrier of a part of the block,
//!    with a number of its own for each consumer, since the other one is somewhere else.
//! 3. *Waiting before writing again.* `wait_group.read` waits until the TMA has *read* a box, not until it is in C. Only the thread that asked
//!    can wait, so it waits and then comes to the barrier for which the others wait.
//!
//! At the very end it waits once more: a block's shared memory must stay until it has been read.
//!
//! ## Which tile is next
//!
//! Tiles are numbered in groups of rows, as in [`block_order`](crate::block_order), and for the same reason; now it's 132 tiles at a time by
//! construction. 132 tiles of 128 x 256 in groups of 8 rows are 8 x 16.5: for a place of k, 1024 rows of A and 4352 columns of B.
//!
//! ## What limits it next
//!
//! Power, for one: at N = 8192 the GPU can't run its tensor cores at its highest clock. And 132 blocks take tiles in whole rounds: N = 4096 has
//! 512 tiles of this size, 3.88 rounds, N = 2048 has 128, and N = 1024 has 32, for which a smaller tile is better. A library has
//! several; see the crate `hopper-kernels`.
//!
//! And the second-level cache: two blocks whose tiles are in one column each fetch the same tile of B. [`cluster`](crate::cluster) fetches it
//! once.
//!
//! ## Measured
//!
//! On an H200 606 TFLOP/s at N = 2048, 678 at N = 4096, 691 at N = 8192 and 679 at N = 16384: 99 %, 102 %, 104 % and 103 % of
//! cuBLAS in the same run, [`producer`](crate::producer) 94 %, 93 %, 100 % and 80 %. The order of the tiles counts most where
//! matrices are large, the stores beside the next tile's products where they aren't. From here on power is the limit: the clock is at 1.2
//! to 1.8 GHz instead of 1.98. At N = 1024 there are still 32 tiles: 153, 46 %; the production kernels have narrower tiles for that.

use crate::block_order::tile;
use crate::launch::{Kernel, LaunchShape, Signature};
use crate::producer::{
    self, Alone, Neighbours, Ring, BARRIERS_BYTES, COLUMNS, CONSUMERS, CONSUMER_REGISTERS, PRODUCER_REGISTERS,
    STAGES_BYTES,
};
use crate::tensor_maps::{self, aligned_shared_memory, ALIGNMENT, BOX, ROWS, WARPGROUP, WARPGROUP_ROWS};
use cuda_std::*;
use kernel_common::operands::{CopiedBox, MappedOperand, MappedOperands, MappedOutput, Swizzle};
use kernel_common::parameter_address;
use kernel_common::tensor_maps::{commit_stores, prefetch, show_to_copies, store, wait_for_reads, TensorMap};
use kernel_common::vectors::store_shared_pair;
use kernel_common::warpgroups::{release_registers, sync_some, take_registers, ROW_BYTES};

/// Rows of tiles that make a group.
pub const GROUP_ROWS: u32 = 8;
/// Columns of a box of C: 128 bytes.
const BOX_COLUMNS: usize = 32;
/// Boxes of sums that a consumer has room for.
const BOXES: usize = 2;
/// Bytes of all of them.
const BOXES_BYTES: u32 = (CONSUMERS * BOXES) as u32 * BOX;

/// Dynamic shared memory of a block.
pub(crate) const SHARED_BYTES: u32 = STAGES_BYTES + BOXES_BYTES + BARRIERS_BYTES + ALIGNMENT;

/// How A and B are copied, as in [`tensor_maps`], and C.
pub const OPERANDS: MappedOperands = MappedOperands {
    c: MappedOutput::Map(MappedOperand {
        by_columns: false,
        copied: CopiedBox::Batched { width: BOX_COLUMNS as u32, lines: WARPGROUP_ROWS as u32 },
        swizzle: Swizzle::Bytes128,
    }),
    blocks_stay: true,
    ..tensor_maps::OPERANDS
};

/// What the host needs to know to launch [`persistent`].
pub const KERNEL: Kernel = Kernel {
    name: "persistent",
    title: "blocks that stay for one tile after the other, and store whole boxes meanwhile",
    entry: "persistent",
    signature: Signature::Mapped(OPERANDS),
    launch_shape,
    ..producer::KERNEL
};

/// One block of THREADS threads per tile of C, all along x; fewer blocks will do, and one for each multiprocessor is best.
pub fn launch_shape(m: usize, n: usize, _k: usize) -> Option<LaunchShape> {
    LaunchShape::flat(m, n, KERNEL.tile, KERNEL.block, SHARED_BYTES)
}

/// C = A B, ROWS x COLUMNS tiles of C one after the other in each block.
///
/// # Safety
///
/// `a`, `b` and `c` must map `m` x `k`, `k` x `n` and `m` x `n` elements as [`OPERANDS`] says, `c` apart from the other two, `k` mustn't be 0,
/// and the launch must have the shape that [`launch_shape`] gives, or fewer blocks.
#[kernel]
#[allow(unused_variables)] // Maps are used by their addresses.
pub unsafe fn persistent(a: TensorMap, b: TensorMap, c: TensorMap, m: usize, n: usize, k: usize) {
    let maps = (parameter_address!(persistent, 0), parameter_address!(persistent, 1));
    let c = parameter_address!(persistent, 2);
    let (rows, columns) = (m.div_ceil(ROWS) as u32, n.div_ceil(COLUMNS) as u32);
    let tiles = Tiles { first: thread::block_idx_x(), step: thread::grid_dim_x(), count: rows * columns };
    stay::<Alone>(maps, c, k, tiles, |number| {
        let (row, column) = tile::<GROUP_ROWS>(number, rows, columns);
        (row * ROWS as u32, column * COLUMNS as u32)
    });
}

/// Which tiles a block takes, by their numbers: every `step`th of `count`, from `first` on.
pub(crate) struct Tiles {
    pub first: u32,
    pub step: u32,
    pub count: u32,
}

/// All that a block does: its tiles of C, one after the other. `first_element` says where the one with a number begins.
///
/// # Safety
///
/// All threads of the block must come here, and those of its [`Neighbours`]. `maps` and `c` must be the addresses of A's map, B's and C's, `k` not
/// 0, and shared memory have room.
#[inline(always)]
pub(crate) unsafe fn stay<N: Neighbours>(
    maps: (u64, u64),
    c: u64,
    k: usize,
    Tiles { first, step, count }: Tiles,
    first_element: impl Fn(u32) -> (u32, u32),
) {
    let boxes = aligned_shared_memory() + STAGES_BYTES;
    let mut ring = Ring::<N>::new(maps, boxes + BOXES_BYTES);
    let mut number = first;
    let thread = thread::thread_idx_x();
    if thread < WARPGROUP as u32 {
        release_registers::<PRODUCER_REGISTERS>();
        if thread == 0 {
            while number < count {
                ring.fill(first_element(number), k);
                number += step;
            }
            N::leave();
        }
    } else {
        take_registers::<CONSUMER_REGISTERS>();
        let consumer = thread / WARPGROUP as u32 - 1;
        let output = Output::new(c, consumer, boxes);
        while number < count {
            let sums = ring.multiply(consumer, k);
            output.store(&sums, first_element(number));
            number += step;
        }
        output.finish();
        N::leave();
    }
}

/// How one thread of a consumer stores its sums.
struct Output {
    map: u64,
    consumer: u32,
    /// The consumer's boxes in shared memory.
    boxes: u32,
    /// This thread's first row in a box, and which quarter of 8 columns.
    row: u32,
    quarter: u32,
    /// Whether it's the one that asks for stores.
    asks: bool,
}

impl Output {
    #[inline(always)]
    unsafe fn new(map: u64, consumer: u32, boxes: u32) -> Output {
        let thread = thread::thread_idx_x() % WARPGROUP as u32;
        let (warp, lane) = (thread / 32, thread % 32);
        let asks = thread == 0;
        if asks {
            prefetch(map);
        }
        let boxes = boxes + consumer * BOXES as u32 * BOX;
        Output { map, consumer, boxes, row: warp * 16 + lane / 4, quarter: lane % 4, asks }
    }

    /// Stores the consumer's sums of the tile at (`row`, `column`).
    ///
    /// # Safety
    ///
    /// All threads of the consumer's warpgroup must come here together.
    #[inline(always)]
    unsafe fn store(&self, sums: &[f32], (row, column): (u32, u32)) {
        let row = row + self.consumer * WARPGROUP_ROWS as u32;
        // A thread has a quarter of every box's sums of its two rows.
        const OF_A_BOX: usize = BOX_COLUMNS / 2;
        for number in 0..sums.len() / OF_A_BOX {
            let to = self.boxes + (number % BOXES) as u32 * BOX;
            // The box before the last one has been read, and may be filled again.
            if self.asks {
                wait_for_reads::<{ BOXES as u32 - 1 }>();
            }
            self.sync();
            for group in 0..BOX_COLUMNS / 8 {
                for half in 0..2 {
                    let pair = |group| {
                        let at = number * OF_A_BOX + group * 4 + half * 2;
                        (sums[at], sums[at + 1])
                    };
                    // Both are read and one is taken: sums stay in registers, which have no numbers to be computed.
                    let (even, odd) = (pair(group), pair(group ^ 2));
                    let pair = if self.row.is_multiple_of(2) { [even.0, even.1] } else { [odd.0, odd.1] };
                    store_shared_pair(to + self.place(group as u32, half as u32), pair);
                }
            }
            show_to_copies();
            self.sync();
            if self.asks {
                store(self.map, [column + (number * BOX_COLUMNS) as u32, row, 0], to);
                commit_stores();
            }
        }
    }

    /// Where this thread's two sums of 8 columns lie in a box, in its upper row or 8 rows below: 8 bytes of a chunk. It's the group of
    /// that number in the order in which its row takes them.
    #[inline(always)]
    fn place(&self, group: u32, half: u32) -> u32 {
        let row = self.row + half * 8;
        let group = group ^ (row % 2 * 2);
        let chunk = (group * 2 + self.quarter / 2) ^ (row % 8);
        row * ROW_BYTES + chunk * 16 + self.quarter % 2 * 8
    }

    /// Waits for the other threads of the consumer. (Barrier 0 is the whole block's.)
    #[inline(always)]
    unsafe fn sync(&self) {
        sync_some(1 + self.consumer, WARPGROUP as u32);
    }

    /// Waits until the boxes have been read: after that the shared memory may become another block's.
    #[inline(always)]
    unsafe fn finish(&self) {
        if self.asks {
            wait_for_reads::<0>();
        }
    }
}
