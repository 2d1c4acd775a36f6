//! The product in f32 by fused multiply-adds, where parts of f16 aren't enough because a block is [suspect](crate::split): in the kernel that has multiplied
//! the parts in vain, with its tiles and in the shared memory of its ring.
//!
//! It isn't the fastest of its kind (those are in `production`), and takes matrices however they lie.

use cuda_std::*;
use kernel_common::position::anew;
use kernel_common::{vectors, Call};

use crate::pipelined::{sync_multiplying, Place};
use crate::shape::{Shape, MULTIPLIERS, WARPGROUP};

/// Columns that are computed at a time.
const COLUMNS: usize = 64;
/// Steps along k of a tile of A or B.
const DEPTH: usize = 16;
/// Threads that multiply.
const THREADS: usize = MULTIPLIERS * WARPGROUP;
/// Columns of a thread, neighbours.
const WIDTH: usize = COLUMNS / 16;
/// The most rows of a thread, four neighbours and four others 64 further down. (A thread has fewer, if a tile has fewer than 128.)
const HEIGHT: usize = 8;
/// The tiles along k that a sum takes before it is added to the total. What such an addition rounds off is kept and given to the next (Kahan's summation): so the
/// total errs no more than a short sum does. (cuBLAS keeps sums short, too, where C is small: it cuts a long K into many parts.)
const SHORT: u32 = 2;

/// Computes a tile of C, in shared memory from `memory` on.
///
/// # Safety
///
/// The [`THREADS`] threads that multiply, those from [`WARPGROUP`] on, must come here together. The call must describe matrices that the GPU can reach, and the
/// shared memory, which a ring's stages have taken, must be nobody else's any more.
#[inline(always)]
pub(crate) unsafe fn compute_tile<S: Shape>(call: &Call, place: Place, memory: u32) {
    // What follows from these isn't kept in registers while parts are multiplied.
    let (thread, memory) = (anew(thread::thread_idx_x() - WARPGROUP as u32), anew(memory));
    let mut column = anew(place.column);
    while column < call.n.min(place.column + S::COLUMNS as u32) {
        compute_columns::<S>(call, place, column, memory, thread);
        column += COLUMNS as u32;
    }
}

#[inline(always)]
unsafe fn compute_columns<S: Shape>(call: &Call, place: Place, column: u32, memory: u32, thread: u32) {
    let rows = S::ROWS as u32;
    let row = place.row;
    let (a, b, c) = call.matrices(place.product);
    let (a, b, c) = (a as u64, b as u64, c as u64);
    // What a thread loads of A, and of B.
    let (of_a, of_b) = (S::ROWS * DEPTH / THREADS, COLUMNS * DEPTH / THREADS);

    // Where a thread's numbers are that it loads of A and of B: the first one's line and place along k, and from one to the next. Neighbouring threads
    // load what is contiguous: of places along k, 16 lines at a time; else one line after the other. (Anew every time: these addresses would need
    // more registers than there are.)
    let places = || {
        let thread = anew(thread);
        let along = (thread / 16, thread % 16, 16, 0);
        let across = |lines: u32| (thread % lines, thread / lines, 0, THREADS as u32 / lines);
        (
            if call.a_column == 1 { along } else { across(rows) },
            if call.b_row == 1 { along } else { across(COLUMNS as u32) },
        )
    };
    let at = |(line, depth, lines, depths): (u32, u32, u32, u32), i: usize| {
        (line + lines * i as u32, depth + depths * i as u32)
    };
    let load = |k: u32| {
        let (mut x, mut y) = ([0.0f32; HEIGHT], [0.0f32; WIDTH]);
        let (of_a_first, of_b_first) = places();
        for i in 0..of_a {
            let (line, depth) = at(of_a_first, i);
            let (line, depth) = (row + line, k + depth);
            if line < call.m && depth < call.k {
                x[i] = vectors::load_global_word(a + 4 * (line as u64 * call.a_row + depth as u64 * call.a_column));
            }
        }
        for i in 0..of_b {
            let (line, depth) = at(of_b_first, i);
            let (line, depth) = (column + line, k + depth);
            if line < call.n && depth < call.k {
                y[i] = vectors::load_global_word(b + 4 * (depth as u64 * call.b_row + line as u64 * call.b_column));
            }
        }
        (x, y)
    };
    let stage_bytes = 4 * (rows + COLUMNS as u32) * DEPTH as u32;
    let of_stage = |stage: u32| (memory + stage * stage_bytes, memory + stage * stage_bytes + 4 * rows * DEPTH as u32);
    let keep = |stage: u32, (x, y): ([f32; HEIGHT], [f32; WIDTH])| {
        let (a_tile, b_tile) = of_stage(stage);
        let (of_a_first, of_b_first) = places();
        for i in 0..of_a {
            let (line, depth) = at(of_a_first, i);
            vectors::store_shared_word(a_tile + 4 * (depth * rows + line), x[i]);
        }
        for i in 0..of_b {
            let (line, depth) = at(of_b_first, i);
            vectors::store_shared_word(b_tile + 4 * (depth * COLUMNS as u32 + line), y[i]);
        }
    };

    let (thread_row, thread_column) = (4 * (thread / 16), 4 * (thread % 16));
    let mut totals = [[0.0f32; WIDTH]; HEIGHT];
    // What the totals are too large by.
    let mut excess = [[0.0f32; WIDTH]; HEIGHT];
    let mut sums = [[0.0f32; WIDTH]; HEIGHT];
    // What was in this memory has been read.
    sync_multiplying();
    keep(0, load(0));
    sync_multiplying();
    let (mut k, mut stage, mut tiles) = (0, 0, 0u32);
    while k < call.k {
        // Past the end they are zeros.
        let next = load(k + DEPTH as u32);
        let (a_tile, b_tile) = of_stage(stage);
        for depth in 0..DEPTH as u32 {
            let mut x = [0.0f32; HEIGHT];
            for half in 0..S::ROWS / 64 {
                let four = vectors::load_shared(a_tile + 4 * (depth * rows + 64 * half as u32 + thread_row));
                for i in 0..4 {
                    x[4 * half + i] = four[i];
                }
            }
            let y = vectors::load_shared(b_tile + 4 * (depth * COLUMNS as u32 + thread_column));
            for i in 0..S::ROWS / 16 {
                for j in 0..WIDTH {
                    sums[i][j] = x[i].mul_add(y[j], sums[i][j]);
                }
            }
        }
        tiles += 1;
        if tiles.is_multiple_of(SHORT) {
            for i in 0..S::ROWS / 16 {
                for j in 0..WIDTH {
                    let addend = sums[i][j] - excess[i][j];
                    let total = totals[i][j] + addend;
                    let too_much = (total - totals[i][j]) - addend;
                    // Beyond f32's range it would be infinite or NaN, and make NaN of what is infinite already.
                    excess[i][j] = if too_much.abs() < f32::INFINITY { too_much } else { 0.0 };
                    totals[i][j] = total;
                    sums[i][j] = 0.0;
                }
            }
        }
        stage = 1 - stage;
        keep(stage, next);
        sync_multiplying();
        k += DEPTH as u32;
    }
    for i in 0..S::ROWS / 16 {
        let line = row + thread_row + (i % 4 + i / 4 * 64) as u32;
        for j in 0..WIDTH {
            let place = column + thread_column + j as u32;
            if line < call.m && place < call.n {
                let to = c + 4 * (line as u64 * call.c_row + place as u64);
                let sum = call.alpha * (totals[i][j] + (sums[i][j] - excess[i][j]));
                let value = if call.beta == 0.0 { sum } else { call.beta.mul_add(vectors::load_global_word(to), sum) };
                vectors::store_global_word(to, value);
            }
        }
    }
}
