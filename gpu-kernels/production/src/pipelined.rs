//! The one body of all production kernels: C = alpha op(A) op(B) + beta C, one tile of C per block.
//!
//! It is what the book comes to, all at once: tiles in registers, in warps and in shared memory (`register_tile`,
//! `warp_tiled`), copies that pass no register and are several tiles ahead (`async_copies`, `multi_stage`), slices of K
//! for the warps of a block (`k_slices`), barriers that stand early or in two halves (`split_barrier`), and an order of
//! blocks that suits the cache (`block_order`).
//!
//! Along K a *tile* is here what one stage holds, TILE_K places, for which the lessons say a step; and a *step* is what a
//! warp multiplies at once, one place of K, or of its slice.
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
//!
//! ## Long sums
//!
//! Every addition rounds, by a share of what the sum has come to, so that the error of a sum of random numbers grows like
//! their number. Of two halves each has half of it, and together they err 0.7 times as much. So a thread whose sums are
//! longer than [`Shape::LONGEST_SUM`] begins them anew: with slices as often as it takes, and adds up what it has in a
//! second set of registers; without it has no registers for that, and once only: it stores the first half of K before it
//! adds the second.

use cuda_std::*;
use kernel_common::{barriers, copies, position, vectors, Call};

use crate::block_order;
use crate::operand::{Operand, Operands, Way};
use crate::output::{Output, MOST_VECTORS, WARP_BYTES};
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
    let row_a = Operands::<A, B, TILE_M, TILE_N, TILE_K, THREADS>::ROW_A;
    let row_b = Operands::<A, B, TILE_M, TILE_N, TILE_K, THREADS>::ROW_B;
    let b_in_stage = Operands::<A, B, TILE_M, TILE_N, TILE_K, THREADS>::B_IN_STAGE;
    let stage_bytes = Operands::<A, B, TILE_M, TILE_N, TILE_K, THREADS>::STAGE_BYTES;
    let passes = Operands::<A, B, TILE_M, TILE_N, TILE_K, THREADS>::PASSES;
    let (rows_apart, columns_apart) = (S::LANES_M * 4, S::LANES_N * 4);

    // Which part of which product.
    let (first_m, first_n) =
        block_order::first_element(thread::block_idx_x(), call.m, call.n, TILE_M, TILE_N, call.group);
    let (a, b, c) = call.matrices(thread::block_idx_z());
    let mut first_k = thread::block_idx_y() * call.k_per_split;
    let end_k = core::cmp::min(first_k + call.k_per_split, call.k);
    let longest = longest_part::<S>(end_k - first_k);

    // The stages, the barrier, and each warp's place to exchange sums.
    let memory = vectors::dynamic_shared_memory();
    let end = memory + stage_bytes * S::STAGES as u32;
    let barrier = end;
    let exchange = memory + reusable_bytes::<S>(row_a, row_b) as u32;
    if let Barrier::Halves { .. } = S::BARRIER {
        if thread::thread_idx_x() == 0 {
            barriers::initialise(barrier, THREADS as u32);
        }
    }
    let mut parity = 0;
    let mut again = false;

    // Once, or twice where K is long and a thread has no registers for two sets of sums.
    loop {
        // What the second turn computes again needs no registers in the meantime.
        let thread = position::thread_idx_x();
        let (first_m, first_n) = (position::anew(first_m), position::anew(first_n));
        let depth = core::cmp::min(end_k - first_k, longest);

        // Where this thread reads its operands in a stage.
        let place = Place::of::<S>(thread);
        let row = place.warp_row + place.lane / S::LANES_N as u32 * 4;
        let column = place.warp_column + place.lane % S::LANES_N as u32 * 4;
        let first_step = place.slice * S::STEPS as u32;
        let operands_a = (first_step * row_a as u32 + row) * 4;
        let operands_b = b_in_stage + (first_step * row_b as u32 + column) * 4;

        // The first tiles are on their way before anything else.
        let mut operands = Operands::<A, B, TILE_M, TILE_N, TILE_K, THREADS> {
            a: Operand::new(
                a.wrapping_add((first_k as u64 * call.a_column) as usize),
                (first_m, call.m),
                call.a_row,
                call.a_column,
                thread,
            ),
            b: Operand::new(
                b.wrapping_add((first_k as u64 * call.b_row) as usize),
                (first_n, call.n),
                call.b_column,
                call.b_row,
                thread,
            ),
        };
        let tiles = depth.div_ceil(TILE_K as u32);
        let first_depth = depth - (tiles - 1) * TILE_K as u32;
        for stage in 0..S::STAGES {
            operands.fill(memory + stage as u32 * stage_bytes);
        }
        // The last step reads ahead too, from the stage after that of the last tile. Nobody uses what it reads, but where
        // no tile ever comes to that stage, it shall be zeros rather than what another kernel left there.
        if tiles < S::STAGES as u32 {
            operands.first(memory + tiles * stage_bytes, 0);
        }
        let mut write = memory;
        operands.first(write, first_depth);
        copies::commit_group();
        operands.advance(first_depth);
        write += stage_bytes;
        for tile in 1..S::AHEAD {
            let wanted = (tiles > tile as u32) as u32;
            for pass in 0..passes {
                operands.copy(write, pass, wanted);
            }
            copies::commit_group();
            operands.advance(TILE_K as u32);
            write += stage_bytes;
        }
        wait_for_next_tile::<S>();
        thread::sync_threads();

        // Operands of this step and of the next one.
        let mut fragments_a = [[0.0f32; ROWS]; 2];
        let mut fragments_b = [[0.0f32; COLUMNS]; 2];
        let mut read = memory;
        fragments_a[0] = fragment(read + operands_a, rows_apart);
        fragments_b[0] = fragment(read + operands_b, columns_apart);

        let mut totals = [[0.0f32; COLUMNS]; ROWS];
        let mut tile = 0;
        loop {
            let mut sums = [[0.0f32; COLUMNS]; ROWS];
            let last_of_sum = if S::SLICES == 1 {
                tiles
            } else {
                core::cmp::min(tiles, tile + (S::LONGEST_SUM * S::SLICES / TILE_K) as u32)
            };
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
                                operands.copy(write, pass, wanted);
                            }
                        }
                        if share == S::COPYING_STEPS - 1 {
                            copies::commit_group();
                        }
                    }

                    // The operands of the next step.
                    let (stage, ahead) = if step + 1 < S::STEPS { (read, step + 1) } else { (next, 0) };
                    fragments_a[(step + 1) % 2] = fragment(stage + operands_a + (ahead * row_a * 4) as u32, rows_apart);
                    fragments_b[(step + 1) % 2] =
                        fragment(stage + operands_b + (ahead * row_b * 4) as u32, columns_apart);

                    match S::BARRIER {
                        Barrier::Whole { step: at } if step == at => {
                            wait_for_next_tile::<S>();
                            thread::sync_threads();
                        }
                        Barrier::Halves { arrive, .. } if step == arrive => {
                            wait_for_next_tile::<S>();
                            // Every thread for itself. One lane could arrive for its warp, and it's as fast;
                            // but compute-sanitizer's racecheck believes only threads that arrive.
                            barriers::arrive(barrier);
                        }
                        Barrier::Halves { wait, .. } if step == wait => barriers::wait(barrier, parity),
                        _ => {}
                    }

                    multiply::<S, ROWS, COLUMNS>(&fragments_a[step % 2], &fragments_b[step % 2], &mut sums);
                }
                operands.advance(TILE_K as u32);
                read = next;
                write = if write + stage_bytes == end { memory } else { write + stage_bytes };
                parity ^= 1;
                tile += 1;
                if tile == last_of_sum {
                    break;
                }
            }
            if S::SLICES == 1 {
                totals = sums;
                break;
            }
            for i in 0..ROWS {
                for j in 0..COLUMNS {
                    totals[i][j] += sums[i][j];
                }
            }
            if tile == tiles {
                break;
            }
        }

        let end = End::new::<S>(call, c, (first_m, first_n), exchange, again);
        if S::SLICES > 1 {
            end.add_up_slices::<S, ROWS, COLUMNS>(&totals, memory);
            return;
        }
        end.store::<S, ROWS, COLUMNS>(&totals);
        first_k += depth;
        if first_k == end_k {
            return;
        }
        again = true;
        thread::sync_threads();
    }
}

/// How much of a K of `depth` a block adds up before it stores: all of it, or half.
#[inline(always)]
fn longest_part<S: Shape>(depth: u32) -> u32 {
    if S::SLICES == 1 && depth > S::LONGEST_SUM as u32 {
        depth.div_ceil(2 * S::TILE_K as u32) * S::TILE_K as u32
    } else {
        depth
    }
}

/// What a thread needs to know when its sums are done.
///
/// It is computed then, from the thread's number, which is asked anew, so that the main loop needs no registers for it.
struct End {
    thread: u32,
    place: Place,
    /// The first row and column of the warp's tile.
    first: (u32, u32),
    output: Output,
}

impl End {
    /// The tile of C begins at row `first_m` and column `first_n`; `exchange` is the address of shared memory for all warps,
    /// WARP_BYTES each.
    ///
    /// # Safety
    ///
    /// As for [`Output::new`].
    #[inline(always)]
    unsafe fn new<S: Shape>(
        call: &Call,
        c: *mut f32,
        (first_m, first_n): (u32, u32),
        exchange: u32,
        again: bool,
    ) -> End {
        let thread = position::thread_idx_x();
        let place = Place::of::<S>(thread);
        let exchange = exchange + thread / 32 * WARP_BYTES as u32;
        End {
            thread,
            first: (first_m + place.warp_row, first_n + place.warp_column),
            output: Output::new(call, c, again, exchange, place.lane),
            place,
        }
    }

    /// Stores all sums.
    ///
    /// # Safety
    ///
    /// As for [`Output::store`].
    #[inline(always)]
    unsafe fn store<S: Shape, const ROWS: usize, const COLUMNS: usize>(&self, sums: &[[f32; COLUMNS]; ROWS]) {
        // A thread with few sums has few registers.
        if ROWS * COLUMNS <= 32 {
            self.store_by::<S, ROWS, COLUMNS, 2>(sums);
        } else {
            self.store_by::<S, ROWS, COLUMNS, MOST_VECTORS>(sums);
        }
    }

    /// Stores all sums, so many vectors at a time.
    #[inline(always)]
    unsafe fn store_by<S: Shape, const ROWS: usize, const COLUMNS: usize, const VECTORS: usize>(
        &self,
        sums: &[[f32; COLUMNS]; ROWS],
    ) {
        for first in (0..ROWS * COLUMNS / 4).step_by(VECTORS) {
            let mut values = [[0.0; 4]; VECTORS];
            for v in 0..VECTORS {
                values[v] = self.output.scaled(four(sums, first + v));
            }
            self.output.store::<S, VECTORS>(|v| self.at::<S, COLUMNS>((first + v) as u32), values);
        }
    }

    /// Every warp leaves its sums where the stages were, and then each adds up its share of them, in the order of the
    /// slices, and stores it.
    ///
    /// # Safety
    ///
    /// As for [`Output::store`]. All threads of the block must come here, and nobody need the stages any more.
    #[inline(always)]
    unsafe fn add_up_slices<S: Shape, const ROWS: usize, const COLUMNS: usize>(
        &self,
        sums: &[[f32; COLUMNS]; ROWS],
        memory: u32,
    ) {
        thread::sync_threads();
        // A vector of thread t lies t vectors after that of thread 0, so that a warp's lie side by side.
        let places = (32 * S::WARPS_M * S::WARPS_N) as u32;
        let vectors_at = memory + self.thread % places * 16;
        let per_thread = ROWS * COLUMNS / 4;
        for v in 0..per_thread {
            let vector = self.place.slice * per_thread as u32 + v as u32;
            vectors::store_shared(vectors_at + vector * places * 16, self.output.scaled(four(sums, v)));
        }
        thread::sync_threads();
        let share = per_thread.div_ceil(S::SLICES);
        for v in 0..share {
            let vector = self.place.slice * share as u32 + v as u32;
            if vector >= per_thread as u32 {
                return;
            }
            let mut total = vectors::load_shared(vectors_at + vector * places * 16);
            for other in 1..S::SLICES {
                let sums = vectors::load_shared(vectors_at + (vector + (other * per_thread) as u32) * places * 16);
                for i in 0..4 {
                    total[i] += sums[i];
                }
            }
            self.output.store::<S, 1>(|_| self.at::<S, COLUMNS>(vector), [total]);
        }
    }

    /// Where the vector of that number among a thread's outputs lies, as [`Output::store`] wants it.
    #[inline(always)]
    fn at<S: Shape, const COLUMNS: usize>(&self, vector: u32) -> (u32, u32) {
        let (i, group) = (vector / (COLUMNS / 4) as u32, vector % (COLUMNS / 4) as u32);
        let (rows_apart, columns_apart) = (S::LANES_M as u32 * 4, S::LANES_N as u32 * 4);
        (self.first.0 + i / 4 * rows_apart + i % 4, self.first.1 + group * columns_apart)
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
                assert!(last_copies <= arrive && arrive < wait && wait <= S::STEPS - 2)
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

/// Four sums side by side: the vector of that number.
#[inline(always)]
fn four<const ROWS: usize, const COLUMNS: usize>(sums: &[[f32; COLUMNS]; ROWS], vector: usize) -> [f32; 4] {
    let (i, group) = (vector / (COLUMNS / 4), vector % (COLUMNS / 4));
    [sums[i][group * 4], sums[i][group * 4 + 1], sums[i][group * 4 + 2], sums[i][group * 4 + 3]]
}
