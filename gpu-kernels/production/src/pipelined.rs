//! The one body of all production kernels: C = alpha op(A) op(B) + beta C, one tile of C per block.
//!
//! It is what the book comes to, all at once: tiles in registers, in warps and in shared memory (`register_tile`,
//! `warp_tiled`), copies that pass no register and are several tiles ahead (`async_copies`, `multi_stage`), slices of K
//! for the warps of a block (`k_slices`), barriers that stand early or in two halves (`split_barrier`), and an order of
//! blocks that suits the cache (`block_order`).
//!
//! ```text
//!   step of a warp:     0       1       2      ...     STEPS - 2     STEPS - 1
//!   reads operands of   1       2       3              STEPS - 1     0 of the next tile
//!   multiplies          0       1       2              STEPS - 2     STEPS - 1
//!   asks for copies     of the tile AHEAD tiles later, in some of the steps
//!   barrier                                            before multiplying: the tile isn't needed any more
//! ```
//!
//! ## One basic block
//!
//! The loop over the tiles has no branch inside. A branch would cut it into pieces, and the assembler doesn't move
//! instructions from one into another: with the copies under an `if`, the same kernel is a tenth slower. So copies are
//! asked for under a predicate, which is 0 when there is no later tile, and edges don't appear at all:
//!
//! - Along M and N, a thread whose element lies past the edge copies another one ([`Operand`]). What comes of it is an
//!   output past the edge, which isn't stored.
//! - Along K, the *first* tile is the one that may be less than full, and is filled up with zeros.
//!
//! ## What a warp's slice is for
//!
//! A small C has few tiles, and with large tiles too few for all multiprocessors. With smaller tiles there are more, but
//! then a block has work for one warp or two, too few to hide anything. Slices give it the warps back: each multiplies
//! its share of every TILE_K, and in the end they add up their sums in shared memory.

use cuda_std::*;
use kernel_common::{barriers, copies, position, vectors, Call};

use crate::block_order;
use crate::operand::{Operand, Way};
use crate::output::{Output, WARP_BYTES};
use crate::shape::{Barrier, Shape};

/// The work of one thread, with outputs of ROWS x COLUMNS.
///
/// The const parameters are what `S` says (`TILE_M`, ...) and what follows from it, as numbers: a generic function can't
/// make the sizes of its arrays of a trait's constants. [`FITS`](Checked::FITS) compares them.
///
/// # Safety
///
/// `call` must describe matrices that the GPU can reach, C apart from A and B, laid out as `A` and `B` ask for it, none
/// of the sizes 0, with a workspace if there are several splits. The launch must have a block of `S::THREADS` threads
/// for each tile along x, as many splits along y as `k_per_split` (a multiple of TILE_K) makes, the products of the
/// batch along z, and as much dynamic shared memory as [`shared_bytes`] says.
#[inline(always)]
pub unsafe fn product<
    S: Shape,
    A: Way,
    B: Way,
    const ROWS: usize,
    const COLUMNS: usize,
    const TILE_M: usize,
    const TILE_N: usize,
    const TILE_K: usize,
    const THREADS: usize,
>(
    call: &Call,
) {
    let () = Checked::<S, ROWS, COLUMNS, TILE_M, TILE_N, TILE_K, THREADS>::FITS;
    let row_a = Operand::<A, TILE_M, TILE_K, THREADS>::ROW;
    let row_b = Operand::<B, TILE_N, TILE_K, THREADS>::ROW;
    let b_in_stage = (row_a * TILE_K * 4) as u32;
    let stage_bytes = b_in_stage + (row_b * TILE_K * 4) as u32;

    // Which part of which product.
    let (first_m, first_n) =
        block_order::first_element(thread::block_idx_x(), call.m, call.n, TILE_M, TILE_N, call.group);
    let (a, b, c) = call.matrices(thread::block_idx_z());
    let first_k = thread::block_idx_y() * call.k_per_split;
    let depth = core::cmp::min(call.k_per_split, call.k - first_k);

    // Where this thread's outputs lie in the tile.
    let thread = thread::thread_idx_x();
    let place = Place::of::<S>(thread);
    let row = place.warp_row + place.lane / S::LANES_N as u32 * 4;
    let column = place.warp_column + place.lane % S::LANES_N as u32 * 4;
    let (rows_apart, columns_apart) = (S::LANES_M * 4, S::LANES_N * 4);

    // Where it reads its operands in a stage.
    let first_step = place.slice * S::STEPS as u32;
    let operands_a = (first_step * row_a as u32 + row) * 4;
    let operands_b = b_in_stage + (first_step * row_b as u32 + column) * 4;

    // The first tiles are on their way before anything else.
    let memory = vectors::dynamic_shared_memory();
    let end = memory + stage_bytes * S::STAGES as u32;
    let barrier = end;
    let mut copies_a = Operand::<A, TILE_M, TILE_K, THREADS>::new(
        a.wrapping_add((first_k as u64 * call.a_column) as usize),
        (first_m, call.m),
        call.a_row,
        call.a_column,
        thread,
    );
    let mut copies_b = Operand::<B, TILE_N, TILE_K, THREADS>::new(
        b.wrapping_add((first_k as u64 * call.b_row) as usize),
        (first_n, call.n),
        call.b_column,
        call.b_row,
        thread,
    );
    let passes_a = Operand::<A, TILE_M, TILE_K, THREADS>::PASSES;
    let passes = passes_a + Operand::<B, TILE_N, TILE_K, THREADS>::PASSES;
    let tiles = depth.div_ceil(TILE_K as u32);
    let first_depth = depth - (tiles - 1) * TILE_K as u32;
    for stage in 0..S::STAGES {
        copies_a.fill(memory + stage as u32 * stage_bytes);
        copies_b.fill(memory + stage as u32 * stage_bytes + b_in_stage);
    }
    let mut write = memory;
    copies_a.first(write, first_depth);
    copies_b.first(write + b_in_stage, first_depth);
    copies::commit_group();
    copies_a.advance(first_depth);
    copies_b.advance(first_depth);
    write += stage_bytes;
    for tile in 1..S::AHEAD {
        let wanted = (tiles > tile as u32) as u32;
        for pass in 0..passes {
            if pass < passes_a {
                copies_a.copy(write, pass, wanted);
            } else {
                copies_b.copy(write + b_in_stage, pass - passes_a, wanted);
            }
        }
        copies::commit_group();
        copies_a.advance(TILE_K as u32);
        copies_b.advance(TILE_K as u32);
        write += stage_bytes;
    }
    if let Barrier::Halves { .. } = S::BARRIER {
        if thread == 0 {
            barriers::initialise(barrier, (THREADS / 32) as u32);
        }
    }
    wait_for_next_tile::<S>();
    thread::sync_threads();

    // Operands of this step and of the next one.
    let mut fragments_a = [[0.0f32; ROWS]; 2];
    let mut fragments_b = [[0.0f32; COLUMNS]; 2];
    let mut read = memory;
    fragments_a[0] = fragment(read + operands_a, rows_apart);
    fragments_b[0] = fragment(read + operands_b, columns_apart);

    let mut sums = [[0.0f32; COLUMNS]; ROWS];
    let mut parity = 0;
    let mut tile = 0;
    loop {
        let wanted = (tiles - tile > S::AHEAD as u32) as u32;
        let next = if read + stage_bytes == end { memory } else { read + stage_bytes };
        for step in 0..S::STEPS {
            // A share of the copies.
            let ask = step.wrapping_sub(S::FIRST_COPIES);
            let share = ask / S::BETWEEN_COPIES;
            if ask.is_multiple_of(S::BETWEEN_COPIES) && share < S::COPYING_STEPS {
                for pass in 0..passes {
                    if pass * S::COPYING_STEPS / passes == share {
                        if pass < passes_a {
                            copies_a.copy(write, pass, wanted);
                        } else {
                            copies_b.copy(write + b_in_stage, pass - passes_a, wanted);
                        }
                    }
                }
                if share == S::COPYING_STEPS - 1 {
                    copies::commit_group();
                }
            }

            // The operands of the next step.
            let (stage, ahead) = if step + 1 < S::STEPS { (read, step + 1) } else { (next, 0) };
            fragments_a[(step + 1) % 2] = fragment(stage + operands_a + (ahead * row_a * 4) as u32, rows_apart);
            fragments_b[(step + 1) % 2] = fragment(stage + operands_b + (ahead * row_b * 4) as u32, columns_apart);

            match S::BARRIER {
                Barrier::Whole { step: at } if step == at => {
                    wait_for_next_tile::<S>();
                    thread::sync_threads();
                }
                Barrier::Halves { arrive, .. } if step == arrive => {
                    wait_for_next_tile::<S>();
                    barriers::sync_warp();
                    if place.lane == 0 {
                        barriers::arrive(barrier);
                    }
                }
                Barrier::Halves { wait, .. } if step == wait => barriers::wait(barrier, parity),
                _ => {}
            }

            multiply::<S, ROWS, COLUMNS>(&fragments_a[step % 2], &fragments_b[step % 2], &mut sums);
        }
        copies_a.advance(TILE_K as u32);
        copies_b.advance(TILE_K as u32);
        read = next;
        write = if write + stage_bytes == end { memory } else { write + stage_bytes };
        parity ^= 1;
        tile += 1;
        if tile == tiles {
            break;
        }
    }

    // Asked anew, so that the loop needn't keep it.
    let thread = position::thread_idx_x();
    let (first_m, first_n) =
        block_order::first_element(position::block_idx_x(), call.m, call.n, TILE_M, TILE_N, call.group);
    let Place { warp_row, warp_column, slice, lane } = Place::of::<S>(thread);
    let exchange = memory + reusable_bytes::<S>(row_a, row_b) as u32 + thread / 32 * WARP_BYTES as u32;
    let output = Output::new(call, c, exchange, lane);
    let (first_row, first_column) = (first_m + warp_row, first_n + warp_column);
    if S::SLICES == 1 {
        let place = |i: usize, group: usize| {
            (first_row + (i / 4 * rows_apart + i % 4) as u32, first_column + (group * columns_apart) as u32)
        };
        if output.is_aligned() {
            for i in 0..ROWS {
                for group in 0..COLUMNS / 4 {
                    let (row, column) = place(i, group);
                    output.store_aligned::<S>(row, column, four(&sums[i], group));
                }
            }
        } else {
            for i in 0..ROWS {
                for group in 0..COLUMNS / 4 {
                    let (row, column) = place(i, group);
                    output.store::<S>(row, column, four(&sums[i], group));
                }
            }
        }
        return;
    }

    // Every warp leaves its sums where the stages were, and then each adds up its share of them, in the order of the
    // slices. A vector of thread t lies t vectors after that of thread 0, so that a warp's lie side by side.
    thread::sync_threads();
    let places = (32 * S::WARPS_M * S::WARPS_N) as u32;
    let vectors_at = memory + thread % places * 16;
    for i in 0..ROWS {
        for group in 0..COLUMNS / 4 {
            let vector = slice * (ROWS * COLUMNS / 4) as u32 + (i * COLUMNS / 4 + group) as u32;
            vectors::store_shared(vectors_at + vector * places * 16, four(&sums[i], group));
        }
    }
    thread::sync_threads();
    let share = (ROWS * COLUMNS / 4).div_ceil(S::SLICES);
    for v in 0..share {
        let vector = slice * share as u32 + v as u32;
        if vector >= (ROWS * COLUMNS / 4) as u32 {
            return;
        }
        let mut total = vectors::load_shared(vectors_at + vector * places * 16);
        for other in 1..S::SLICES {
            let sums = vectors::load_shared(vectors_at + (vector + (other * ROWS * COLUMNS / 4) as u32) * places * 16);
            for i in 0..4 {
                total[i] += sums[i];
            }
        }
        let (i, group) = (vector / (COLUMNS / 4) as u32, vector % (COLUMNS / 4) as u32);
        let row = first_row + i / 4 * rows_apart as u32 + i % 4;
        let column = first_column + group * columns_apart as u32;
        if output.is_aligned() {
            output.store_aligned::<S>(row, column, total);
        } else {
            output.store::<S>(row, column, total);
        }
    }
}

/// Where a thread works in the block's tile.
struct Place {
    /// The first row of its warp's tile.
    warp_row: u32,
    /// The first column of its warp's tile.
    warp_column: u32,
    /// Its slice of each TILE_K.
    slice: u32,
    /// Its number in the warp.
    lane: u32,
}

impl Place {
    #[inline(always)]
    fn of<S: Shape>(thread: u32) -> Place {
        let warp = thread / 32;
        Place {
            warp_row: warp / S::WARPS_N as u32 % S::WARPS_M as u32 * (S::TILE_M / S::WARPS_M) as u32,
            warp_column: warp % S::WARPS_N as u32 * (S::TILE_N / S::WARPS_N) as u32,
            slice: warp / (S::WARPS_M * S::WARPS_N) as u32,
            lane: thread % 32,
        }
    }
}

/// Dynamic shared memory of a kernel, in bytes: what the stages and later the sums need, and what each warp needs to
/// store its sums with.
pub const fn shared_bytes<S: Shape>(row_a: usize, row_b: usize) -> usize {
    reusable_bytes::<S>(row_a, row_b) + S::THREADS / 32 * WARP_BYTES
}

/// The stages and, after them, the barrier; in the end the sums of all slices lie there. A multiple of 16.
const fn reusable_bytes<S: Shape>(row_a: usize, row_b: usize) -> usize {
    let barrier = match S::BARRIER {
        Barrier::Whole { .. } => 0,
        Barrier::Halves { .. } => 16,
    };
    let stages = (row_a + row_b) * S::TILE_K * 4 * S::STAGES + barrier;
    let sums = if S::SLICES == 1 { 0 } else { S::SLICES * S::TILE_M * S::TILE_N * 4 };
    if sums > stages {
        sums
    } else {
        stages
    }
}

/// The conditions that a shape must keep.
struct Checked<
    S: Shape,
    const ROWS: usize,
    const COLUMNS: usize,
    const TILE_M: usize,
    const TILE_N: usize,
    const TILE_K: usize,
    const THREADS: usize,
>(core::marker::PhantomData<S>);

impl<
        S: Shape,
        const ROWS: usize,
        const COLUMNS: usize,
        const TILE_M: usize,
        const TILE_N: usize,
        const TILE_K: usize,
        const THREADS: usize,
    > Checked<S, ROWS, COLUMNS, TILE_M, TILE_N, TILE_K, THREADS>
{
    const FITS: () = {
        assert!(TILE_M == S::TILE_M && TILE_N == S::TILE_N && TILE_K == S::TILE_K && THREADS == S::THREADS);
        assert!(ROWS * S::LANES_M * S::WARPS_M == TILE_M && ROWS.is_multiple_of(4));
        assert!(COLUMNS * S::LANES_N * S::WARPS_N == TILE_N && COLUMNS.is_multiple_of(4));
        // The operands of step s are in fragment s mod 2, those of the next tile's first step too.
        assert!(S::STEPS * S::SLICES == TILE_K && S::STEPS.is_multiple_of(2));
        // A thread's vectors are shared out evenly over the slices, or one each as far as they go.
        assert!((ROWS * COLUMNS / 4).is_multiple_of(S::SLICES) || ROWS * COLUMNS / 4 < S::SLICES);
        assert!(S::AHEAD >= 1 && S::AHEAD <= 3);
        // A tile's copies are asked for before the thread says that it has waited for all but the latest ones.
        let last_copies = S::FIRST_COPIES + (S::COPYING_STEPS - 1) * S::BETWEEN_COPIES;
        match S::BARRIER {
            // Everything of the tile has been read from step STEPS - 2 on.
            Barrier::Whole { step } => assert!(last_copies <= step && step == S::STEPS - 2),
            Barrier::Halves { arrive, wait } => {
                assert!(last_copies <= arrive && arrive <= wait && wait <= S::STEPS - 2)
            }
        }
    };
}

/// Waits until this thread's copies of the next tile have come: all but those of the AHEAD - 1 tiles after it.
#[inline(always)]
fn wait_for_next_tile<S: Shape>() {
    match S::AHEAD {
        1 => copies::wait_group::<0>(),
        2 => copies::wait_group::<1>(),
        _ => copies::wait_group::<2>(),
    }
}

/// SIZE words of shared memory in groups of four, so many words from a group to the next.
#[inline(always)]
unsafe fn fragment<const SIZE: usize>(address: u32, apart: usize) -> [f32; SIZE] {
    let mut values = [0.0; SIZE];
    for group in 0..SIZE / 4 {
        let vector = vectors::load_shared(address + (group * apart * 4) as u32);
        for i in 0..4 {
            values[group * 4 + i] = vector[i];
        }
    }
    values
}

/// One step: every product of an element of A with one of B. The columns are gone through back and forth, so that
/// a multiply-add has an operand of A, or at the turn one of B, in common with the one before: what a register bank has
/// just given needn't be read again.
#[inline(always)]
fn multiply<S: Shape, const ROWS: usize, const COLUMNS: usize>(
    a: &[f32; ROWS],
    b: &[f32; COLUMNS],
    sums: &mut [[f32; COLUMNS]; ROWS],
) {
    for r in 0..ROWS {
        let i = r ^ S::ROW_ORDER;
        for s in 0..COLUMNS {
            let j = if r % 2 == 0 { s } else { COLUMNS - 1 - s };
            sums[i][j] = a[i].mul_add(b[j], sums[i][j]);
        }
    }
}

/// Four sums side by side.
#[inline(always)]
fn four<const COLUMNS: usize>(sums: &[f32; COLUMNS], group: usize) -> [f32; 4] {
    [sums[group * 4], sums[group * 4 + 1], sums[group * 4 + 2], sums[group * 4 + 3]]
}
