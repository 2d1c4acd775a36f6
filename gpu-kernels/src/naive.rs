//! One thread per element of C.
use crate::launch::{Architecture, Kernel, Precision, Tile};
use cuda_std::{kernel, thread, GpuFloat};

pub const TILE: usize = 16;

pub const KERNEL: Kernel = Kernel {
    name: "naive",
    title: "one thread per element, straight from global memory",
    entry: "naive",
    architecture: Architecture::Compute70,
    precision: Precision::F32,
    tile: Tile { m: TILE as u32, n: TILE as u32, k: 1 },
    block: [TILE as u32, TILE as u32, 1],
    shared_bytes: 0,
};

#[kernel]
pub unsafe fn naive(a: *const f32, b: *const f32, c: *mut f32, m: usize, n: usize, k: usize) {
    let block_row = thread::block_idx_z() as usize * thread::grid_dim_y() as usize + thread::block_idx_y() as usize;
    let row = block_row * TILE + thread::thread_idx_y() as usize;
    let column = thread::block_idx_x() as usize * TILE + thread::thread_idx_x() as usize;
    if row >= m || column >= n {
        return;
    }
    let mut sum = 0.0;
    for i in 0..k {
        sum = (*a.add(row * k + i)).mul_add(*b.add(i * n + column), sum);
    }
    *c.add(row * n + column) = sum;
}
