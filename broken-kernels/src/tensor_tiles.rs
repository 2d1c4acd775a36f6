//! What the kernels with tensor cores have in common: who copies what, who multiplies, and where everything lies. No mistake
//! is in here.
//!
//! A and B are of bf16, with rows that begin at multiples of 16 bytes: n and k are multiples of 8. A block has a tile of
//! TILE x TILE elements of C and takes TILE places of k at a time. Its first warp copies A's tile, 16 bytes a lane, its second
//! B's, and its third multiplies: two products of 16 x 8 x 16. The others only come to the barriers.

use crate::TILE;
use cuda_std::*;
use kernel_common::tensor_cores::{multiply_add_bf16, Bf16};

/// Pairs of tiles in shared memory.
pub const STAGES: usize = 3;
/// Bytes of a row of a tile, of a tile, and of a pair of them, A's and then B's.
const ROW: u32 = 2 * TILE as u32;
const TILE_BYTES: u32 = TILE as u32 * ROW;
const STAGE: u32 = 2 * TILE_BYTES;
/// Floats that take as much shared memory as all stages.
pub const WORDS: usize = STAGES * STAGE as usize / 4;

/// Elements of the 16 bytes that a lane copies.
const CHUNK: usize = 8;
const CHUNK_BYTES: u32 = 16;

/// One thread of a block.
pub struct Worker {
    warp: usize,
    lane: usize,
    first_row: usize,
    first_column: usize,
    a: *const Bf16,
    b: *const Bf16,
    sizes: [usize; 3],
}

/// 16 bytes to copy.
pub struct Part {
    /// Where to, in bytes from the first stage.
    pub to: u32,
    /// Where from.
    pub from: u64,
    /// How many of them are there; the others are zeros.
    pub bytes: u32,
}

impl Worker {
    /// This thread, for matrices of m x k and k x n elements.
    #[inline(always)]
    pub fn new(a: *const f32, b: *const f32, sizes: [usize; 3]) -> Worker {
        let thread = thread::thread_idx_y() as usize * TILE + thread::thread_idx_x() as usize;
        Worker {
            warp: thread / 32,
            lane: thread % 32,
            first_row: thread::block_idx_y() as usize * TILE,
            first_column: thread::block_idx_x() as usize * TILE,
            a: a.cast(),
            b: b.cast(),
            sizes,
        }
    }

    /// Whether it copies.
    #[inline(always)]
    pub fn copies(&self) -> bool {
        self.warp < 2
    }

    /// Whether it multiplies.
    #[inline(always)]
    pub fn multiplies(&self) -> bool {
        self.warp == 2
    }

    /// What it copies for a step, if it copies.
    #[inline(always)]
    pub fn part(&self, step: usize) -> Part {
        let [m, n, k] = self.sizes;
        let (row, chunk) = (self.lane / 2, self.lane % 2);
        let to = Self::stage(step) + row as u32 * ROW + chunk as u32 * CHUNK_BYTES;
        let (to, from, inside) = if self.warp == 0 {
            let (row, column) = (self.first_row + row, step * TILE + chunk * CHUNK);
            (to, self.a.wrapping_add(row * k + column), row < m && column < k)
        } else {
            let (row, column) = (step * TILE + row, self.first_column + chunk * CHUNK);
            (to + TILE_BYTES, self.b.wrapping_add(row * n + column), row < k && column < n)
        };
        Part { to, from: from as u64, bytes: if inside { CHUNK_BYTES } else { 0 } }
    }

    /// The row that its lane names of A's four matrices in a step, in bytes from the first stage: the upper left quarter, the
    /// lower left, the upper right, the lower right.
    #[inline(always)]
    pub fn row_of_a(&self, step: usize) -> u32 {
        Self::stage(step) + (self.lane % TILE) as u32 * ROW + (self.lane / TILE) as u32 * CHUNK_BYTES
    }

    /// The same of B's, which are the upper and the lower half of two factors.
    #[inline(always)]
    pub fn row_of_b(&self, step: usize) -> u32 {
        self.row_of_a(step) + TILE_BYTES
    }

    #[inline(always)]
    fn stage(step: usize) -> u32 {
        (step % STAGES) as u32 * STAGE
    }

    /// Adds the product of a step's matrices to the sums.
    ///
    /// # Safety
    ///
    /// All lanes of the warp must come here together.
    #[inline(always)]
    pub unsafe fn multiply_add(a: [u32; 4], b: [u32; 4], [left, right]: [[f32; 4]; 2]) -> [[f32; 4]; 2] {
        [multiply_add_bf16(a, [b[0], b[1]], left), multiply_add_bf16(a, [b[2], b[3]], right)]
    }

    /// Stores the sums that are inside C.
    ///
    /// # Safety
    ///
    /// `c` must point to m x n elements.
    #[inline(always)]
    pub unsafe fn store(&self, c: *mut f32, sums: [[f32; 4]; 2]) {
        let [m, n, _] = self.sizes;
        for (half, sums) in sums.into_iter().enumerate() {
            for (at, sum) in sums.into_iter().enumerate() {
                let row = self.first_row + self.lane / 4 + at / 2 * 8;
                let column = self.first_column + half * 8 + self.lane % 4 * 2 + at % 2;
                if row < m && column < n {
                    *c.add(row * n + column) = sum;
                }
            }
        }
    }
}
