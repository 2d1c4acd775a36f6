//! A block's tile through shared memory.
use crate::launch::{Architecture, Kernel, Precision, Tile};
use cuda_std::{kernel, shared_array, thread, GpuFloat};

pub const TILE: usize = 16;

pub const KERNEL: Kernel = Kernel {
    name: "tiled",
    title: "16 x 16 tiles through shared memory",
    entry: "tiled",
    architecture: Architecture::Compute70,
    precision: Precision::F32,
    tile: Tile { m: TILE as u32, n: TILE as u32, k: TILE as u32 },
    block: [TILE as u32, TILE as u32, 1],
    shared_bytes: (2 * TILE * TILE * size_of::<f32>()) as u32,
};

#[kernel]
pub unsafe fn tiled(a: *const f32, b: *const f32, c: *mut f32, m: usize, n: usize, k: usize) {
    let tile_a = shared_array![f32; TILE * TILE];
    let tile_b = shared_array![f32; TILE * TILE];
    let x = thread::thread_idx_x() as usize;
    let y = thread::thread_idx_y() as usize;
    let block_row = thread::block_idx_z() as usize * thread::grid_dim_y() as usize + thread::block_idx_y() as usize;
    let row = block_row * TILE + y;
    let column = thread::block_idx_x() as usize * TILE + x;

    let mut sum = 0.0;
    for step in 0..k.div_ceil(TILE) {
        let a_column = step * TILE + x;
        let b_row = step * TILE + y;
        *tile_a.add(y * TILE + x) = if row < m && a_column < k { *a.add(row * k + a_column) } else { 0.0 };
        *tile_b.add(y * TILE + x) = if b_row < k && column < n { *b.add(b_row * n + column) } else { 0.0 };
        thread::sync_threads();

        for i in 0..TILE {
            sum = (*tile_a.add(y * TILE + i)).mul_add(*tile_b.add(i * TILE + x), sum);
        }
        thread::sync_threads();
    }
    if row < m && column < n {
        *c.add(row * n + column) = sum;
    }
}
