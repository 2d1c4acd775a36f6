//! # Lesson 19: which tiles are computed at the same time
//!
//! The kernel of [`split_barrier`](crate::split_barrier), with another tile for each block. Nothing about a block's
//! work changes, but *which* blocks are at work together.
//!
//! A GPU starts blocks in the order of their numbers, and as many as it has room for: 132 of these on an H200, one on
//! each multiprocessor. At any time they are at about the same place of k, and what they load there passes the
//! second-level cache once for all blocks that need it. A block row of C needs the same rows of A, a block column the
//! same columns of B. So the 132 tiles should be few rows by few columns: the tile's idea once more, on a level above
//! blocks. With k to itself a set of tiles loads, for each place of k, as many elements as it has rows and columns:
//!
//! ```text
//!   N = 8192: 64 x 32 tiles           row after row            in groups of 16 rows
//!                                    ##################         ####
//!                                    ##################         ####   16 rows of tiles,
//!                                    ####                       ####   8 columns and a bit
//!   rows of A + columns of B          5 x 128 + 8192            16 x 128 + 9 x 256
//!   elements for a place of k              8832                        4352
//! ```
//!
//! Tiles are numbered down a group's first column, then down its second, and so on to the right edge; then comes the
//! group below. 132 tiles of 128 x 256 are nearest to a square, 2080 rows and columns, with 16 rows.
//!
//! ## What it's worth
//!
//! Where A and B fit into the second-level cache (60 MB on an H200), nothing at memory: every element is read once. At
//! N = 8192 they have 512 MB. If nothing is left over from one set of 132 tiles to the next, a product reads 4.5 GB
//! row after row, and 2.2 GB in groups. It takes about 20 ms at this speed, so it's 220 or 110 GB/s of the 4800 that an
//! H200's memory gives: it has plenty. On GPUs with as many multiply-adds a second and a fifth of the bandwidth it's
//! the difference between half busy and a quarter busy, and in any case less energy, which is what the clock depends
//! on.
//!
//! ## What it costs
//!
//! Two divisions a block, before its first copy. The grid is one line of blocks now, since the blocks themselves decide
//! where they stand.
//!
//! ## What limits it next
//!
//! 4096 x 4096 are 512 tiles: 3.88 times 132, so in the last of four rounds 16 multiprocessors of 132 have nothing to
//! do, 3 % of all time. The smaller the product, the more it matters: [`k_slices`](crate::k_slices).
//!
//! ## Measured
//!
//! On an H200 50.2 TFLOP/s at N = 4096 and 50.7 at N = 8192, 98 % and 99 % of cuBLAS (f32 without TF32) in the same run;
//! [row after row](crate::split_barrier): 49.6 and 49.9. That's 1.3 % and 1.4 % more: little, as said above, on a GPU whose
//! memory has plenty. At N = 2048 it's 1.2 %, though A and B fit into the second-level cache and all 128 tiles are computed
//! at the same time. So what the order saves isn't only reads of memory.

use crate::launch::{Kernel, LaunchShape, MAX_GRID_X};
use crate::split_barrier::{self, product};
use crate::vector_loads::Matrices;
use crate::wide_tile::{self, COLUMNS, ROWS};
use cuda_std::*;

/// Rows of tiles that make a group.
pub const GROUP_ROWS: u32 = 16;

/// What the host needs to know to launch [`block_order`].
pub const KERNEL: Kernel = Kernel {
    name: "block_order",
    title: "tiles in groups of 16 rows, so that blocks at work together share what they load",
    entry: "block_order",
    launch_shape,
    ..split_barrier::KERNEL
};

/// One block of THREADS threads per tile of C, all along x.
pub fn launch_shape(m: usize, n: usize, k: usize) -> Option<LaunchShape> {
    let shape = wide_tile::launch_shape(m, n, k)?;
    let tiles = (m as u64).div_ceil(ROWS as u64).checked_mul((n as u64).div_ceil(COLUMNS as u64))?;
    (tiles <= MAX_GRID_X).then_some(LaunchShape { grid: [tiles as u32, 1, 1], ..shape })
}

/// C = A B, a ROWS x COLUMNS tile of C per block.
///
/// # Safety
///
/// `a`, `b` and `c` must point to `m * k`, `k * n` and `m * n` elements in memory that the GPU can reach, `c` apart
/// from the other two, and the launch must have the shape that [`launch_shape`] gives.
#[kernel]
pub unsafe fn block_order(a: *const f32, b: *const f32, c: *mut f32, m: usize, n: usize, k: usize) {
    let (row, column) = tile::<GROUP_ROWS>(thread::block_idx_x(), m.div_ceil(ROWS) as u32, n.div_ceil(COLUMNS) as u32);
    product(&Matrices { a, b, c, m, n, k }, (row as usize * ROWS, column as usize * COLUMNS));
}

/// Row and column of the tile with that number among `rows` x `columns` tiles, in groups of `GROUP` rows, which isn't 0.
#[inline(always)]
pub(crate) fn tile<const GROUP: u32>(number: u32, rows: u32, columns: u32) -> (u32, u32) {
    // What doesn't fit into 32 bits is more than there are blocks, and the only group. Nothing here is ever 0; the
    // compiler has to see it, or else it makes a kernel that can panic.
    let in_a_group = GROUP.saturating_mul(columns).max(1);
    let (group, number) = (number / in_a_group, number % in_a_group);
    let first_row = group * GROUP;
    // The last group may have fewer rows.
    let height = (rows - first_row).clamp(1, GROUP);
    (first_row + number % height, number / height)
}
