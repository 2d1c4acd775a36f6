//! The product in f32 by fused multiply-adds, where parts of f16 aren't enough: it looks whether a block was [suspect](crate::split), and if
//! none was, it's through.
//!
//! It isn't the fastest of its kind (those are in `production`), but close, and takes matrices however they lie.

use cuda_std::*;
use kernel_common::launch::{Architecture, Kernel, LaunchShape, Precision, Registers, Signature, Tile};
use kernel_common::{entry_facts, grids, vectors, Call};

/// Rows and columns of a tile of C.
const TILE: usize = 128;
/// Steps along k of a tile of A or B.
const DEPTH: usize = 16;
/// Threads of a block: each has 8 x 8 sums.
const THREADS: usize = 256;
/// Sums of a thread along one side.
const SIDE: usize = 8;
/// The most tiles along k that a sum takes before it is added to another one: a long sum errs more than two of half its length.
const LONGEST: u32 = 32;

/// How it is launched.
pub const KERNEL: Kernel = Kernel {
    name: "ieee_where_suspect",
    title: "production: f32 where parts of f16 aren't enough",
    entry: "ieee_where_suspect",
    architecture: Architecture::Compute90a,
    precision: Precision::F32,
    signature: Signature::Call,
    tile: Tile { m: TILE as u32, n: TILE as u32, k: DEPTH as u32 },
    block: [THREADS as u32, 1, 1],
    registers: Registers::ForBlocks(1),
    shared_bytes: 2 * 2 * 4 * (TILE * DEPTH) as u32,
    launch_shape: |m, n, _| {
        let tile = Tile { m: TILE as u32, n: TILE as u32, k: DEPTH as u32 };
        LaunchShape::flat(m, n, tile, [THREADS as u32, 1, 1], 0)
    },
};

entry_facts!(ieee_where_suspect, KERNEL);

/// C = alpha A B + beta C, if `suspect` isn't 0; blocks along x take one tile after the other, products along z.
///
/// # Safety
///
/// The call must describe matrices that the GPU can reach, and the launch have the shape that [`KERNEL`] says. `suspect` must point to 4 bytes.
#[kernel]
pub unsafe fn ieee_where_suspect(call: Call, suspect: u64) {
    grids::let_the_next_grid_begin();
    grids::wait_for_the_grid_before();
    if vectors::load_global_word(suspect).to_bits() == 0 {
        return;
    }
    let a_tiles = shared_array![f32; 2 * 128 * 16];
    let b_tiles = shared_array![f32; 2 * 128 * 16];
    let thread = thread::thread_idx_x() as usize;
    let (down, across) = (call.m.div_ceil(TILE as u32), call.n.div_ceil(TILE as u32));
    let mut tile = thread::block_idx_x();
    while tile < down * across {
        compute_tile(&call, tile, across, (a_tiles, b_tiles), thread);
        // The tiles in shared memory are written again.
        thread::sync_threads();
        tile += thread::grid_dim_x();
    }
}

/// Computes a tile of C.
#[inline(always)]
unsafe fn compute_tile(call: &Call, tile: u32, across: u32, (a_tiles, b_tiles): (*mut f32, *mut f32), thread: usize) {
    core::hint::assert_unchecked(across != 0);
    let (row, column) = (tile / across * TILE as u32, tile % across * TILE as u32);
    let (a, b, c) = call.matrices(thread::block_idx_z());
    let (a, b) = (a as u64, b as u64);

    // Neighbouring threads load what is contiguous.
    let (a_line, a_depth) = if call.a_column == 1 { (thread / 16, thread % 16) } else { (thread % 128, thread / 128) };
    let (a_lines, a_depths) = if call.a_column == 1 { (16, 0) } else { (0, 2) };
    let (b_line, b_depth) = if call.b_column == 1 { (thread % 128, thread / 128) } else { (thread / 16, thread % 16) };
    let (b_lines, b_depths) = if call.b_column == 1 { (0, 2) } else { (16, 0) };
    let load = |k: u32| {
        let (mut x, mut y) = ([0.0f32; SIDE], [0.0f32; SIDE]);
        for i in 0..SIDE {
            let (line, place) = (row + (a_line + i * a_lines) as u32, k + (a_depth + i * a_depths) as u32);
            if line < call.m && place < call.k {
                x[i] = vectors::load_global_word(a + 4 * (line as u64 * call.a_row + place as u64 * call.a_column));
            }
            let (line, place) = (column + (b_line + i * b_lines) as u32, k + (b_depth + i * b_depths) as u32);
            if line < call.n && place < call.k {
                y[i] = vectors::load_global_word(b + 4 * (place as u64 * call.b_row + line as u64 * call.b_column));
            }
        }
        (x, y)
    };
    let keep = |stage: usize, (x, y): ([f32; SIDE], [f32; SIDE])| {
        for i in 0..SIDE {
            *a_tiles.add((stage * DEPTH + a_depth + i * a_depths) * TILE + a_line + i * a_lines) = x[i];
            *b_tiles.add((stage * DEPTH + b_depth + i * b_depths) * TILE + b_line + i * b_lines) = y[i];
        }
    };

    let (thread_row, thread_column) = (thread / 16, thread % 16);
    let mut totals = [[0.0f32; SIDE]; SIDE];
    let mut sums = [[0.0f32; SIDE]; SIDE];
    keep(0, load(0));
    thread::sync_threads();
    let (mut k, mut stage, mut length) = (0, 0, 0);
    while k < call.k {
        // Past the end they are zeros.
        let next = load(k + DEPTH as u32);
        for depth in 0..DEPTH {
            let of = |tiles: *const f32, at: usize| {
                let first = tiles.add((stage * DEPTH + depth) * TILE + 4 * at);
                let second = first.add(TILE / 2);
                let mut values = [0.0f32; SIDE];
                for i in 0..4 {
                    (values[i], values[4 + i]) = (*first.add(i), *second.add(i));
                }
                values
            };
            let (x, y) = (of(a_tiles, thread_row), of(b_tiles, thread_column));
            for i in 0..SIDE {
                for j in 0..SIDE {
                    sums[i][j] = x[i].mul_add(y[j], sums[i][j]);
                }
            }
        }
        length += 1;
        if length == LONGEST {
            length = 0;
            for i in 0..SIDE {
                for j in 0..SIDE {
                    totals[i][j] += sums[i][j];
                    sums[i][j] = 0.0;
                }
            }
        }
        stage = 1 - stage;
        keep(stage, next);
        thread::sync_threads();
        k += DEPTH as u32;
    }
    for i in 0..SIDE {
        let line = row + (4 * thread_row + i % 4 + i / 4 * (TILE / 2)) as u32;
        for j in 0..SIDE {
            let place = column + (4 * thread_column + j % 4 + j / 4 * (TILE / 2)) as u32;
            if line < call.m && place < call.n {
                let to = c.add((line as u64 * call.c_row + place as u64) as usize);
                let sum = call.alpha * (totals[i][j] + sums[i][j]);
                *to = if call.beta == 0.0 { sum } else { call.beta.mul_add(*to, sum) };
            }
        }
    }
}
