//! # Lesson 19: which tiles are computed at the same time

use crate::launch::{Kernel, LaunchShape, MAX_GRID_X};
use crate::split_barrier::{self, product};
use crate::vector_loads::Matrices;
use crate::wide_tile::{COLUMNS, ROWS, STAGE, STAGES};
use cuda_std::*;

/// Rows of tiles that are gone through together.
pub const GROUP_ROWS: u32 = 16;

/// What the host needs to know to launch [`block_order`].
pub const KERNEL: Kernel = Kernel {
    name: "block_order",
    title: "blocks go through C in groups of rows of tiles",
    entry: "block_order",
    launch_shape,
    ..split_barrier::KERNEL
};

/// One block of THREADS threads per tile of C, all along x.
pub fn launch_shape(m: usize, n: usize, k: usize) -> Option<LaunchShape> {
    let blocks = (split_barrier::KERNEL.launch_shape)(m, n, k)?;
    let tiles = (m as u64).div_ceil(ROWS as u64) * (n as u64).div_ceil(COLUMNS as u64);
    let grid = [u32::try_from(tiles).ok().filter(|&tiles| u64::from(tiles) <= MAX_GRID_X)?, 1, 1];
    Some(LaunchShape { grid, ..blocks })
}

/// C = A B, a ROWS x COLUMNS tile of C per block.
///
/// # Safety
///
/// As for [`split_barrier`](split_barrier::split_barrier), with the launch shape of this file.
#[kernel]
pub unsafe fn block_order(a: *const f32, b: *const f32, c: *mut f32, m: usize, n: usize, k: usize) {
    let (row, column) = tile(m.div_ceil(ROWS) as u32, n.div_ceil(COLUMNS) as u32);
    product(&Matrices { a, b, c, m, n, k }, (row as usize * ROWS, column as usize * COLUMNS));
}

/// Row and column of this block's tile among `rows` x `columns` tiles.
#[inline(always)]
fn tile(rows: u32, columns: u32) -> (u32, u32) {
    let block = thread::block_idx_x();
    let in_group = (GROUP_ROWS * columns).max(1);
    let first_row = block / in_group * GROUP_ROWS;
    // The last group may have fewer rows.
    let height = (rows - first_row).min(GROUP_ROWS).max(1);
    (first_row + block % in_group % height, block % in_group / height)
}
const _: u32 = STAGE + STAGES as u32;
