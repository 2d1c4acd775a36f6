//! # Lesson 23: one warp copies, eight multiply
//!
//! In [`tensor_maps`](crate::tensor_maps) everybody asks, waits and multiplies in turn. A warp that multiplies has nothing to do with
//! copies but to wait for them; and since one thread can ask for whole tiles, one thread is enough to do it for all. So the block gets a
//! warpgroup more, the *producer*, and the two that multiply become *consumers*.
//!
//! ## A ring, and two barriers for each stage
//!
//! Shared memory holds four pairs of tiles, the stages of a ring. Each has two barriers:
//!
//! ```text
//!              full: one arrival and 49,152 bytes
//!   producer  ------------------------------------>  consumers
//!             <------------------------------------
//!              empty: two arrivals, one of each consumer
//!
//!   producer    waits for `empty`   expects bytes at `full`, asks for tiles    next stage
//!   consumers   wait for `full`     multiply                arrive at `empty`  next stage
//! ```
//!
//! There is no barrier for the whole block any more. The producer runs ahead until all stages are full; a consumer that is late holds
//! nobody up before four steps have passed, the other consumer least of all.
//!
//! Phases are told apart by their parity, and every time round the ring has the other one. In round 0 consumers wait for phase 0 of
//! `full`, and the producer needs no waiting: all stages are empty. But nobody has arrived at `empty`, and one would like to say so without a
//! special case. One can: the producer waits for the parity *opposite* to its round's. In round 0 that is 1, the phase before the first, and
//! it counts as complete. In round 1 it's 0: the consumers' first arrivals.
//!
//! ## When is a stage empty?
//!
//! Not when its product has been started. Tensor cores read shared memory as long as they are at work, so a consumer arrives at `empty` when it has
//! *waited* for the product. If it did so at once, the tensor cores would idle while it arrives, waits for `full` and starts the next. So it
//! starts the next product first and then waits until no more than *one* is at work, `wait::<1>`: the product before this one is through, and
//! that one's stage is empty. There's always a product waiting behind the one that is at work.
//!
//! One thread of a warpgroup arrives for all 128. No thread has read anything itself: the tensor cores have, for all of them together.
//!
//! ## Registers change hands
//!
//! A multiprocessor has 65,536 registers: 168 for each of 384 threads. The thread that copies needs a few, its 127 neighbours none, and
//! consumers as many as they can get. `setmaxnreg` says it: the producer's warpgroup goes down to 40, and each of the other two up to 232. 128
//! threads of 40 and 256 of 232 are 64,512. (It is said by all warps of a warpgroup. That's why the producer has four, of which three end at once.)
//!
//! So the tile can be 128 x 256, with 128 sums in each thread. A step then has 4.2 million operations for 49,152 bytes, 85 for
//! each; the tile of 128 x 128 has 64. The second-level cache has a third less to deliver. And of what tensor cores read in shared
//! memory, 64 rows of A now meet 256 columns of B at a time: 10 KB for 128 cycles of work instead of 6 KB for 64.
//!
//! ## What limits it next
//!
//! The beginning and the end of a block. At the beginning the ring is empty, and nobody multiplies until the first tiles have come; at the end
//! nobody copies, and nobody multiplies either while sums are stored. There is no second block on the multiprocessor to fill that time: the ring
//! has 196,608 of its 232,448 bytes. [`persistent`](crate::persistent) fills it with the next tile.
//!
//! ## Measured
//!
//! On an H200 577 TFLOP/s at N = 2048, 623 at N = 4096 and 666 at N = 8192: 94 %, 93 % and 100 % of cuBLAS in the same run, and
//! 1.6 to 1.7 times [`tensor_maps`](crate::tensor_maps). At N = 16384 it falls to 530, 80 %: blocks come in the order of the grid, and
//! what they read no longer fits into the second-level cache. At N = 1024, with 32 tiles for 132 multiprocessors, it's 149, 45 %.

use core::marker::PhantomData;

use crate::launch::{Kernel, LaunchShape, Registers, Signature, Tile};
use crate::register_column::first_element;
use crate::tensor_maps::{
    self, aligned_shared_memory, store, ALIGNMENT, BOX, BOX_COLUMNS, BYTES_A, DEPTH, ROWS, WARPGROUP, WARPGROUP_ROWS,
};
use cuda_std::*;
use kernel_common::barriers;
use kernel_common::parameter_address;
use kernel_common::tensor_maps::{load, prefetch, TensorMap};
use kernel_common::warpgroups::{across_k, along_k, release_registers, take_registers, Bf16x256, Product};

/// Columns of a block's tile of C.
pub const COLUMNS: usize = Bf16x256::COLUMNS;
/// Pairs of tiles in shared memory.
pub const STAGES: u32 = 4;
/// Warpgroups that multiply.
pub const CONSUMERS: usize = ROWS / WARPGROUP_ROWS;
/// Threads of a block: a warpgroup that copies, and those that multiply.
pub const THREADS: usize = WARPGROUP * (1 + CONSUMERS);

/// Boxes of B's tile, one after the other.
pub(crate) const BOXES_B: u32 = (COLUMNS / BOX_COLUMNS) as u32;
/// Bytes of a stage.
const STAGE: u32 = BYTES_A + BOXES_B * BOX;
/// Bytes of all stages.
pub(crate) const STAGES_BYTES: u32 = STAGES * STAGE;
/// Bytes of their barriers.
pub(crate) const BARRIERS_BYTES: u32 = STAGES * 16;
/// Registers of a thread of the producer's warpgroup.
pub(crate) const PRODUCER_REGISTERS: u32 = 40;
/// Registers of a thread of a consumer.
pub(crate) const CONSUMER_REGISTERS: u32 = 232;

/// What the host needs to know to launch [`producer`].
pub const KERNEL: Kernel = Kernel {
    name: "producer",
    title: "a warp that only copies, a ring of stages, two warpgroups that only multiply",
    entry: "producer",
    signature: Signature::Mapped(tensor_maps::OPERANDS),
    tile: Tile { m: ROWS as u32, n: COLUMNS as u32, k: DEPTH as u32 },
    block: [THREADS as u32, 1, 1],
    registers: Registers::ForBlocks(1),
    launch_shape,
    ..tensor_maps::KERNEL
};

/// One block of THREADS threads per tile of C, with shared memory for the ring.
pub fn launch_shape(m: usize, n: usize, _k: usize) -> Option<LaunchShape> {
    let shape = LaunchShape::over_tiles(m, n, KERNEL.tile, KERNEL.block)?;
    Some(LaunchShape { dynamic_shared_bytes: STAGES_BYTES + BARRIERS_BYTES + ALIGNMENT, ..shape })
}

/// C = A B, a ROWS x COLUMNS tile of C per block and WARPGROUP_ROWS rows of it per consumer.
///
/// # Safety
///
/// As for [`tensor_maps`](crate::tensor_maps::tensor_maps), with the shape that [`launch_shape`] gives.
#[kernel]
#[allow(unused_variables)] // Maps are used by their addresses.
pub unsafe fn producer(a: TensorMap, b: TensorMap, c: *mut f32, m: usize, n: usize, k: usize) {
    let maps = (parameter_address!(producer, 0), parameter_address!(producer, 1));
    let mut ring = Ring::<Alone>::new(maps, aligned_shared_memory() + STAGES_BYTES);
    let (row, column) = first_element(ROWS, COLUMNS);
    // The registers are the assembler's business from here on: it wants to see two ways that don't meet again.
    let thread = thread::thread_idx_x();
    if thread < WARPGROUP as u32 {
        release_registers::<PRODUCER_REGISTERS>();
        if thread == 0 {
            ring.fill((row as u32, column as u32), k);
        }
    } else {
        take_registers::<CONSUMER_REGISTERS>();
        let consumer = thread / WARPGROUP as u32 - 1;
        let sums = ring.multiply(consumer, k);
        store(&sums, c, (row + consumer as usize * WARPGROUP_ROWS, column), (m, n));
    }
}

/// Who else fills a ring's stages and multiplies what is in them, beside the block itself.
pub(crate) trait Neighbours {
    /// Blocks that do, this one included.
    const BLOCKS: u32;

    /// Waits until the barriers that one thread has made are known to all who use them.
    ///
    /// # Safety
    ///
    /// All threads of these blocks must come here.
    unsafe fn meet();

    /// Asks for B's tile at (`column`, `place`), or for this block's part of it. `full` learns of its bytes.
    ///
    /// # Safety
    ///
    /// `map` must be B's, and the stage of `tile` empty.
    unsafe fn load_b(tile: u32, map: u64, at: (u32, u32), full: u32);

    /// Says to whoever fills a stage that this consumer is through with it.
    ///
    /// # Safety
    ///
    /// One thread of a consumer comes here, once for every stage that it was filled for.
    unsafe fn release(empty: u32);

    /// Leaves the ring.
    ///
    /// # Safety
    ///
    /// All threads come here that haven't ended.
    unsafe fn leave();
}

/// Where in shared memory the box of B's tile with that number belongs, and where it is in B.
#[inline(always)]
pub(crate) fn box_of_b(tile: u32, (column, place): (u32, u32), number: u32) -> (u32, [u32; 3]) {
    (tile + number * BOX, [column + number * BOX_COLUMNS as u32, place, 0])
}

/// Nobody: every block has a ring of its own.
pub(crate) enum Alone {}

impl Neighbours for Alone {
    const BLOCKS: u32 = 1;

    #[inline(always)]
    unsafe fn meet() {
        thread::sync_threads();
    }

    #[inline(always)]
    unsafe fn load_b(tile: u32, map: u64, at: (u32, u32), full: u32) {
        for number in 0..BOXES_B {
            let (to, from) = box_of_b(tile, at, number);
            load(to, map, from, full);
        }
    }

    #[inline(always)]
    unsafe fn release(empty: u32) {
        barriers::arrive(empty);
    }

    #[inline(always)]
    unsafe fn leave() {
        // Nobody else reaches its shared memory.
    }
}

/// The stages as one thread goes round them: the next one to be filled, or to be multiplied.
pub(crate) struct Ring<N> {
    maps: (u64, u64),
    /// The first stage.
    first: u32,
    barriers: u32,
    /// The stage at hand, and the parity of its round.
    stage: u32,
    parity: u32,
    neighbours: PhantomData<N>,
}

impl<N: Neighbours> Ring<N> {
    /// The ring of a block, with its barriers made and shown to all. `barriers` is behind the stages and what else is there.
    ///
    /// # Safety
    ///
    /// All threads of the block must come here; `maps` must be the addresses of A's map and B's, and shared memory have room.
    #[inline(always)]
    pub(crate) unsafe fn new(maps: (u64, u64), barriers: u32) -> Ring<N> {
        let first = aligned_shared_memory();
        let ring = Ring { maps, first, barriers, stage: 0, parity: 0, neighbours: PhantomData };
        if thread::thread_idx_x() == 0 {
            prefetch(maps.0);
            prefetch(maps.1);
            for stage in 0..STAGES {
                barriers::initialise(ring.full(stage), 1);
                barriers::initialise(ring.empty(stage), N::BLOCKS * CONSUMERS as u32);
            }
            barriers::show_to_copies();
        }
        N::meet();
        ring
    }

    #[inline(always)]
    fn full(&self, stage: u32) -> u32 {
        self.barriers + stage * 16
    }

    #[inline(always)]
    fn empty(&self, stage: u32) -> u32 {
        self.full(stage) + 8
    }

    /// Goes on to the next stage.
    #[inline(always)]
    fn advance(&mut self) {
        self.stage += 1;
        if self.stage == STAGES {
            self.stage = 0;
            self.parity ^= 1;
        }
    }

    /// The producer's work for the tile of C at (`row`, `column`).
    ///
    /// # Safety
    ///
    /// One thread comes here, for the same tiles as the consumers.
    #[inline(always)]
    pub(crate) unsafe fn fill(&mut self, (row, column): (u32, u32), k: usize) {
        let mut place = 0;
        while (place as usize) < k {
            // In the first round this is the phase before the first, which counts as complete.
            barriers::sleep(self.empty(self.stage), self.parity ^ 1);
            let full = self.full(self.stage);
            barriers::arrive_and_expect(full, STAGE);
            let tile_a = self.first + self.stage * STAGE;
            load(tile_a, self.maps.0, [place, row, 0], full);
            N::load_b(tile_a + BYTES_A, self.maps.1, (column, place), full);
            self.advance();
            place += DEPTH as u32;
        }
    }

    /// The work of the consumer with that number for one tile of C: its sums.
    ///
    /// # Safety
    ///
    /// All threads of the warpgroup must come here together, for the same tiles as the producer, and `k` mustn't be 0.
    #[inline(always)]
    pub(crate) unsafe fn multiply(&mut self, consumer: u32, k: usize) -> <Bf16x256 as Product>::Sums {
        let is_first = thread::thread_idx_x().is_multiple_of(WARPGROUP as u32);
        let mut sums = Bf16x256::unset();
        let mut before = self.stage;
        let mut place = 0;
        loop {
            barriers::sleep(self.full(self.stage), self.parity);
            let tile_a = self.first + self.stage * STAGE;
            let own_rows = along_k(tile_a + consumer * BOX);
            Bf16x256::step::<false, true>(&mut sums, own_rows, across_k(tile_a + BYTES_A, BOX), place);
            // The product before this one is through, and its stage empty.
            Bf16x256::wait::<1>(&mut sums);
            if place > 0 && is_first {
                N::release(self.empty(before));
            }
            before = self.stage;
            self.advance();
            place += DEPTH as u32;
            if place as usize >= k {
                break;
            }
        }
        Bf16x256::wait::<0>(&mut sums);
        if is_first {
            N::release(self.empty(before));
        }
        sums
    }
}
