//! Where sums go: to C, or to the workspace if they are only a split's.

use cuda_std::*;
use kernel_common::{barriers, vectors, Call};

use crate::shape::Shape;

/// How many vectors of each lane go to memory at a time, at most: what is read for beta is on its way together.
pub const MOST_VECTORS: usize = 4;
/// Bytes of shared memory that each warp needs to store with.
pub const WARP_BYTES: usize = 32 * 16 * MOST_VECTORS;

/// The matrix that a block writes to, and how.
pub struct Output {
    start: u64,
    /// From a row to the next, in elements.
    row: u64,
    m: u32,
    n: u32,
    alpha: f32,
    beta: f32,
    /// Whether every row begins at a multiple of 16 bytes.
    aligned: bool,
    /// This warp's shared memory, WARP_BYTES of it.
    exchange: u32,
    /// This thread's number in its warp.
    lane: u32,
}

impl Output {
    /// C, or this split's matrix in the workspace if there are several splits. `again` says that the block has stored to it
    /// before and adds to that now. `exchange` is the address of WARP_BYTES of shared memory that this warp has for itself.
    ///
    /// # Safety
    ///
    /// As for the kernels: `c` must be C of this block's product.
    #[inline(always)]
    pub unsafe fn new(call: &Call, c: *mut f32, again: bool, exchange: u32, lane: u32) -> Output {
        let splits = thread::grid_dim_y();
        let (start, row, alpha, beta) = if splits > 1 {
            let matrix = thread::block_idx_z() as u64 * splits as u64 + thread::block_idx_y() as u64;
            let elements = call.m as u64 * call.n as u64;
            (call.workspace as u64 + matrix * elements * 4, call.n as u64, 1.0, 0.0)
        } else {
            (c as u64, call.c_row, call.alpha, call.beta)
        };
        let aligned = (start | (row * 4)).is_multiple_of(16);
        let beta = if again { 1.0 } else { beta };
        Output { start, row, m: call.m, n: call.n, alpha, beta, aligned, exchange, lane }
    }

    /// Four sums times alpha.
    ///
    /// Vectors in memory want their registers side by side. The sums shouldn't have that wish: the main loop is fast if
    /// it places them by what suits the register banks. The products are other registers.
    #[inline(always)]
    pub fn scaled(&self, sums: [f32; 4]) -> [f32; 4] {
        let mut values = [0.0; 4];
        for i in 0..4 {
            values[i] = self.alpha * sums[i];
        }
        values
    }

    /// Stores VECTORS times four values of each lane of a warp. With `at(v)` = (row, column), a multiple of 4, those of
    /// the lane in row y and column x of the warp's lanes go side by side to row `row` + 4 y and columns `column` + 4 x
    /// and on. (A lane has four rows side by side, one of which is stored.) Values outside the matrix are left out.
    ///
    /// # Safety
    ///
    /// The matrix must be writable, and readable if beta isn't 0, and no other warp may store these elements. All lanes of
    /// the warp must come here together.
    #[inline(always)]
    pub unsafe fn store<S: Shape, const VECTORS: usize>(
        &self,
        at: impl Fn(usize) -> (u32, u32),
        values: [[f32; 4]; VECTORS],
    ) {
        const { assert!(VECTORS <= MOST_VECTORS) };
        if self.aligned {
            self.store_vectors::<S, VECTORS>(at, values);
        } else {
            self.store_words::<S, VECTORS>(at, values);
        }
    }

    #[inline(always)]
    unsafe fn store_vectors<S: Shape, const VECTORS: usize>(
        &self,
        at: impl Fn(usize) -> (u32, u32),
        mut values: [[f32; 4]; VECTORS],
    ) {
        let at = |v| {
            let (row, column) = at(v);
            (row + self.lane / S::LANES_N as u32 * 4, column + self.lane % S::LANES_N as u32 * 4)
        };
        if self.beta != 0.0 {
            let mut before = [[0.0; 4]; VECTORS];
            for v in 0..VECTORS {
                let (row, column) = at(v);
                if row < self.m && column + 4 <= self.n {
                    before[v] = vectors::load_global(self.address(row, column));
                }
            }
            for v in 0..VECTORS {
                let (row, column) = at(v);
                if row < self.m && column + 4 <= self.n {
                    for i in 0..4 {
                        values[v][i] = before[v][i].mul_add(self.beta, values[v][i]);
                    }
                }
            }
        }
        for v in 0..VECTORS {
            let (row, column) = at(v);
            let address = self.address(row, column);
            if row < self.m && column + 4 <= self.n {
                vectors::store_global(address, values[v]);
            } else if row < self.m {
                // The last columns, without what was there before so far.
                for i in 0..3 {
                    if column + (i as u32) < self.n {
                        self.store_word(address + i as u64 * 4, values[v][i], self.before(address + i as u64 * 4));
                    }
                }
            }
        }
    }

    /// For rows that begin anywhere. Here a lane would have to store word by word, and the lanes' words would lie 16 bytes
    /// apart, a word or two in every sector. So the lanes exchange their values first, and neighbours store neighbours.
    #[inline(always)]
    unsafe fn store_words<S: Shape, const VECTORS: usize>(
        &self,
        at: impl Fn(usize) -> (u32, u32),
        values: [[f32; 4]; VECTORS],
    ) {
        let at = |v, i| {
            let place = self.lane + i as u32 * 32;
            let (row, column) = at(v);
            let (row, column) = (row + place / (S::LANES_N * 4) as u32 * 4, column + place % (S::LANES_N * 4) as u32);
            (self.address(row, column), row < self.m && column < self.n)
        };
        let mut before = [[0.0; 4]; VECTORS];
        for v in 0..VECTORS {
            vectors::store_shared(self.exchange + (v * 32 * 16) as u32 + self.lane * 16, values[v]);
            for i in 0..4 {
                let (address, inside) = at(v, i);
                if inside {
                    before[v][i] = self.before(address);
                }
            }
        }
        barriers::sync_warp();
        for v in 0..VECTORS {
            for i in 0..4 {
                let value =
                    vectors::load_shared_word(self.exchange + ((v * 32 * 4 + i * 32) * 4) as u32 + self.lane * 4);
                let (address, inside) = at(v, i);
                if inside {
                    self.store_word(address, value, before[v][i]);
                }
            }
        }
        barriers::sync_warp();
    }

    #[inline(always)]
    fn address(&self, row: u32, column: u32) -> u64 {
        self.start + (row as u64 * self.row + column as u64) * 4
    }

    /// What the matrix holds there, or 0 if that doesn't matter.
    #[inline(always)]
    unsafe fn before(&self, address: u64) -> f32 {
        if self.beta != 0.0 {
            vectors::load_global_word(address)
        } else {
            0.0
        }
    }

    #[inline(always)]
    unsafe fn store_word(&self, address: u64, value: f32, before: f32) {
        // Not that 0 is added, which would make a 0 of a -0.
        let value = if self.beta != 0.0 { before.mul_add(self.beta, value) } else { value };
        vectors::store_global_word(address, value);
    }
}
