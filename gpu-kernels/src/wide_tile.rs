//! # Lesson 17: as much as the registers hold
//!
//! Of 100 instructions in the loop of [`multi_stage`](crate::multi_stage) 85 are multiply-adds on an H200, whose
//! schedulers issue one instruction a cycle, whatever it is: nothing that merely gets quicker helps any more, the
//! others have to become fewer. Two numbers decide how many there are for each multiply-add:
//!
//! | outputs of a thread | registers for sums | reads for one i | multiply-adds | their share of these |
//! |---|---|---|---|---|
//! | 8 x 8 | 64 | 4 | 64 | 94.1 % |
//! | 16 x 8 | 128 | 6 | 128 | **95.5 %** |
//! | 16 x 16 | 256 | 8 | 256 | a thread has 255 registers |
//!
//! And every step has copies, addresses, a barrier and the loop itself, 58 instructions in `multi_stage` and 88 here,
//! however many multiply-adds it has. Here it has 16 places of k and 2048 multiply-adds of a thread, four times as
//! many. Together: 2048 of 2232 instructions, **92 of 100**.
//!
//! 256 threads with 16 x 8 outputs are a tile of 128 x 256. It needs k / 128 + k / 256 loads for an output, three
//! quarters of what 128 x 128 needs, and 12 passes over the banks for 128 multiply-adds instead of 16.
//!
//! ## One block
//!
//! With some 240 registers for each of 256 threads a multiprocessor holds one block: 8 warps of a possible 64, two for
//! each scheduler. There is nobody else to do something while a warp waits, so a warp has to see to it itself that it
//! never does:
//!
//! - **Reads of shared memory** are a place ahead: what place i + 1 needs is asked for before place i is multiplied,
//!   128 multiply-adds earlier.
//! - **Copies** are two steps ahead, with three stages. They are started in portions, at places 0, 2, 4 and 6: all at
//!   once, they would keep the unit that also answers the reads.
//! - **No branch** is in the step. The assembler arranges instructions within a piece of code without branches, and
//!   only there. So the tiles after the last are copied as well, as zeros for which nothing is read; a condition around
//!   the copies would cut the step in pieces.
//!
//! The reads are single instructions that this file asks for ([`load_shared`]) instead of reads through a pointer. To
//! the compiler they stay where they are and whole; with a pointer it takes some of them apart into four at the loop's
//! ends.
//!
//! ## More than 48 KiB
//!
//! Three stages take 74,496 bytes. A kernel can declare 48 KiB at most; more has to be asked for at the launch, as
//! dynamic shared memory, and how much there is depends on the GPU: a block can have 163 KiB on an A100, 99 on a
//! GeForce of the same generation, 227 on an H200.
//!
//! ## What limits it next
//!
//! The barrier, one would think. Two warps a scheduler come to it at about the same time, wait for the slowest of eight,
//! and then all have to read before anybody can multiply. [`split_barrier`](crate::split_barrier) finds them something to
//! do, and so tells what those cycles are worth.
//!
//! ## Measured
//!
//! On an H200 49.6 TFLOP/s at N = 4096 and 12.1 at N = 1024, 97 % and 34 % of cuBLAS (f32 without TF32) in the same run;
//! [8 x 8 outputs](crate::multi_stage): 46.0 and 21.1. That's 7.9 % more where there are tiles enough. At N = 1024 there
//! are only 32 of this size, for 132 multiprocessors.

use crate::async_copies::{Copies, WORD};
use crate::launch::{Architecture, Kernel, LaunchShape, Precision, Registers, Signature, Tile};
use crate::multi_stage::after;
use crate::register_column::first_element;
use crate::register_tile::add_outer_product;
use crate::vector_loads::{Matrices, GROUP, THREADS};
use cuda_std::*;
use kernel_common::copies::wait_group;
use kernel_common::vectors::{dynamic_shared_memory, load_shared};

/// Rows of a block's tile of C.
pub const ROWS: usize = 128;
/// Columns of a block's tile of C.
pub const COLUMNS: usize = 256;
/// Columns of A's tile and rows of B's: the products of one step.
pub const DEPTH: usize = 16;
/// Pairs of tiles in shared memory: one that is read, the others to copy to.
pub const STAGES: usize = 3;
/// Rows of C that a thread has elements of.
pub const OUTPUT_ROWS: usize = 16;
/// Columns of C that a thread has elements of.
pub const OUTPUT_COLUMNS: usize = 8;
/// In how many portions a thread starts a step's copies.
pub(crate) const PORTIONS: usize = 4;

/// Rows and columns of a warp's tile of C, which has 4 x 8 lanes.
pub(crate) const WARP_ROWS: usize = 4 * OUTPUT_ROWS;
pub(crate) const WARP_COLUMNS: usize = 8 * OUTPUT_COLUMNS;
/// Rows and columns from one of a thread's groups of GROUP x GROUP outputs to the next.
pub(crate) const ROWS_APART: usize = 4 * GROUP;
pub(crate) const COLUMNS_APART: usize = 8 * GROUP;

/// Bytes from one row of A's transposed tile to the next, and of B's tile.
const ROW_A: u32 = (ROWS + GROUP) as u32 * WORD;
const ROW_B: u32 = COLUMNS as u32 * WORD;
/// Bytes of A's tile, from the beginning of a stage.
const BYTES_A: u32 = DEPTH as u32 * ROW_A;
/// Bytes of a stage: A's tile, and B's behind it.
pub(crate) const STAGE: u32 = BYTES_A + DEPTH as u32 * ROW_B;

/// What the host needs to know to launch [`wide_tile`].
pub const KERNEL: Kernel = Kernel {
    name: "wide_tile",
    title: "16 x 8 outputs for each thread, one block for each multiprocessor",
    entry: "wide_tile",
    architecture: Architecture::Compute80,
    precision: Precision::F32,
    signature: Signature::Plain,
    tile: Tile { m: ROWS as u32, n: COLUMNS as u32, k: DEPTH as u32 },
    block: [THREADS as u32, 1, 1],
    registers: Registers::ForBlocks(1),
    shared_bytes: 0,
    launch_shape,
};

/// One block of THREADS threads per tile of C, with shared memory for all stages.
pub fn launch_shape(m: usize, n: usize, _k: usize) -> Option<LaunchShape> {
    let shape = LaunchShape::over_tiles(m, n, KERNEL.tile, KERNEL.block)?;
    Some(LaunchShape { dynamic_shared_bytes: STAGES as u32 * STAGE, ..shape })
}

/// C = A B, a ROWS x COLUMNS tile of C per block and OUTPUT_ROWS x OUTPUT_COLUMNS elements of it per thread.
///
/// # Safety
///
/// `a`, `b` and `c` must point to `m * k`, `k * n` and `m * n` elements in memory that the GPU can reach, `c` apart
/// from the other two, and the launch must have the shape that [`launch_shape`] gives.
#[kernel]
pub unsafe fn wide_tile(a: *const f32, b: *const f32, c: *mut f32, m: usize, n: usize, k: usize) {
    let matrices = Matrices { a, b, c, m, n, k };
    if matrices.are_aligned() {
        pipeline::<true>(&matrices);
    } else {
        pipeline::<false>(&matrices);
    }
}

/// The kernel's work, with 16-byte copies of B and stores of C or without.
#[inline(always)]
unsafe fn pipeline<const ALIGNED: bool>(matrices: &Matrices) {
    let first = first_element(ROWS, COLUMNS);
    let place = place();
    let first_stage = dynamic_shared_memory();
    let mut copies = Copies::<ROWS, COLUMNS, DEPTH, ALIGNED>::new(matrices, first);
    for stage in 0..STAGES as u32 - 1 {
        copies.start(first_stage + stage * STAGE);
    }

    let mut sums = [[0.0; OUTPUT_COLUMNS]; OUTPUT_ROWS];
    let (mut present, mut next) = (first_stage, first_stage + (STAGES as u32 - 1) * STAGE);
    while copies.had_more(STAGES - 1) {
        wait_group::<{ STAGES - 2 }>();
        thread::sync_threads();

        let mut ahead = Operands::load(present, place, 0);
        for i in 0..DEPTH {
            if i % 2 == 0 && i / 2 < PORTIONS {
                copies.start_portion::<PORTIONS>(i / 2, next);
            }
            let operands = ahead;
            if i + 1 < DEPTH {
                ahead = Operands::load(present, place, i + 1);
            }
            add_outer_product(&operands.a_column, &operands.b_row, &mut sums);
        }
        copies.advance();
        present = after::<STAGES, STAGE>(present, first_stage);
        next = after::<STAGES, STAGE>(next, first_stage);
    }
    // No copy may still be on its way when the block's shared memory becomes another block's.
    wait_group::<0>();
    matrices.store::<ALIGNED, ROWS_APART, COLUMNS_APART, _, _>((first.0 + place.0, first.1 + place.1), &sums);
}

/// What a thread multiplies for one place of k: its elements of a column of A's tile and of a row of B's.
#[derive(Clone, Copy)]
pub(crate) struct Operands {
    pub a_column: [f32; OUTPUT_ROWS],
    pub b_row: [f32; OUTPUT_COLUMNS],
}

impl Operands {
    /// Reads those of place `i` from a stage, for a thread whose outputs begin at (`y`, `x`) of the block's tile.
    ///
    /// # Safety
    ///
    /// The tiles must be in the stage.
    #[inline(always)]
    pub(crate) unsafe fn load(stage: u32, (y, x): (usize, usize), i: usize) -> Operands {
        Operands {
            a_column: vectors::<OUTPUT_ROWS, ROWS_APART>(stage + i as u32 * ROW_A + y as u32 * WORD),
            b_row: vectors::<OUTPUT_COLUMNS, COLUMNS_APART>(stage + BYTES_A + i as u32 * ROW_B + x as u32 * WORD),
        }
    }
}

/// Where this thread's outputs begin, row and column, in the block's tile.
#[inline(always)]
pub(crate) fn place() -> (usize, usize) {
    const WARPS_WIDE: usize = COLUMNS / WARP_COLUMNS;
    let warp = thread::thread_idx_x() as usize / 32;
    let (y, x) = place_in_warp();
    (warp / WARPS_WIDE * WARP_ROWS + y, warp % WARPS_WIDE * WARP_COLUMNS + x)
}

/// Where this thread's outputs begin in its warp's tile, with the lanes in pairs both ways as in
/// [`warp_tiled`](crate::warp_tiled).
#[inline(always)]
pub(crate) fn place_in_warp() -> (usize, usize) {
    let lane = thread::thread_idx_x() as usize % 32;
    (lane / 2 % 4 * GROUP, (lane % 2 + lane / 8 * 2) * GROUP)
}

/// Elements of a row in shared memory: vectors that begin APART words from each other, from an address on.
///
/// # Safety
///
/// They must be there, and the address a multiple of 16.
#[inline(always)]
pub(crate) unsafe fn vectors<const ELEMENTS: usize, const APART: usize>(from: u32) -> [f32; ELEMENTS] {
    let mut elements = [0.0; ELEMENTS];
    for vector in 0..ELEMENTS / GROUP {
        let four = load_shared(from + (vector * APART) as u32 * WORD);
        for j in 0..GROUP {
            elements[vector * GROUP + j] = four[j];
        }
    }
    elements
}
