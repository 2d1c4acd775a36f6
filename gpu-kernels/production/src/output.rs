//! Where sums go: to C, or to the workspace if they are only a split's.

use cuda_std::*;
use kernel_common::{barriers, vectors, Call};

use crate::shape::Shape;

/// Bytes of shared memory that each warp needs to store with.
pub const WARP_BYTES: usize = 32 * 16;

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
    /// C, or this split's matrix in the workspace if there are several splits. `exchange` is the address of WARP_BYTES of
    /// shared memory that this warp has for itself.
    ///
    /// # Safety
    ///
    /// As for the kernels: `c` must be C of this block's product.
    #[inline(always)]
    pub unsafe fn new(call: &Call, c: *mut f32, exchange: u32, lane: u32) -> Output {
        let splits = thread::grid_dim_y();
        let (start, row, alpha, beta) = if splits > 1 {
            let matrix = thread::block_idx_z() as u64 * splits as u64 + thread::block_idx_y() as u64;
            let elements = call.m as u64 * call.n as u64;
            (call.workspace as u64 + matrix * elements * 4, call.n as u64, 1.0, 0.0)
        } else {
            (c as u64, call.c_row, call.alpha, call.beta)
        };
        let aligned = (start | (row * 4)).is_multiple_of(16);
        Output { start, row, m: call.m, n: call.n, alpha, beta, aligned, exchange, lane }
    }

    /// Whether every row begins at a multiple of 16 bytes: then [`store_aligned`](Output::store_aligned) may be used,
    /// which is faster than [`store`](Output::store).
    #[inline(always)]
    pub fn is_aligned(&self) -> bool {
        self.aligned
    }

    /// Stores four sums of each lane of a warp: those of the lane in row y and column x of the warp's lanes go side by
    /// side to row `row` + 4 y and columns `column` + 4 x and on, `column` being a multiple of 4. (A lane has four rows
    /// side by side, one of which is stored.) Sums outside the matrix are left out.
    ///
    /// # Safety
    ///
    /// Rows must be [aligned](Output::is_aligned). The matrix must be writable, and readable if beta isn't 0, and no other
    /// warp may store these elements.
    #[inline(always)]
    pub unsafe fn store_aligned<S: Shape>(&self, row: u32, column: u32, sums: [f32; 4]) {
        let (row, column) = (row + self.lane / S::LANES_N as u32 * 4, column + self.lane % S::LANES_N as u32 * 4);
        if row < self.m && column < self.n {
            self.store_vector(row, column, sums);
        }
    }

    /// The same for rows that begin anywhere.
    ///
    /// Here a lane would have to store word by word, and the lanes' words would lie 16 bytes apart, a word or two in
    /// every sector. So the lanes exchange their sums first, and neighbours store neighbours.
    ///
    /// # Safety
    ///
    /// As for [`store_aligned`](Output::store_aligned), and all lanes of the warp must come here together.
    #[inline(always)]
    pub unsafe fn store<S: Shape>(&self, row: u32, column: u32, sums: [f32; 4]) {
        // Scaled first: a vector store wants its registers side by side, and what is stored should be other registers than
        // the sums, whose places the main loop chooses by what suits the register banks.
        let mut values = [0.0; 4];
        for i in 0..4 {
            values[i] = self.alpha * sums[i];
        }
        vectors::store_shared(self.exchange + self.lane * 16, values);
        barriers::sync_warp();
        for i in 0..4 {
            let place = self.lane + i * 32;
            let (y, x) = (place / (S::LANES_N * 4) as u32, place % (S::LANES_N * 4) as u32);
            let (row, column) = (row + y * 4, column + x);
            let value = vectors::load_shared_word(self.exchange + place * 4);
            if row < self.m && column < self.n {
                self.store_word(self.address(row, column), value);
            }
        }
        barriers::sync_warp();
    }

    #[inline(always)]
    fn address(&self, row: u32, column: u32) -> u64 {
        self.start + (row as u64 * self.row + column as u64) * 4
    }

    #[inline(always)]
    unsafe fn store_vector(&self, row: u32, column: u32, sums: [f32; 4]) {
        let address = self.address(row, column);
        if self.n - column < 4 {
            for i in 0..3 {
                if (i as u32) < self.n - column {
                    self.store_word(address + i as u64 * 4, self.alpha * sums[i]);
                }
            }
            return;
        }
        let mut values = [0.0; 4];
        for i in 0..4 {
            values[i] = self.alpha * sums[i];
        }
        if self.beta != 0.0 {
            let before = vectors::load_global(address);
            for i in 0..4 {
                values[i] = before[i].mul_add(self.beta, values[i]);
            }
        }
        vectors::store_global(address, values);
    }

    #[inline(always)]
    unsafe fn store_word(&self, address: u64, value: f32) {
        let value = if self.beta != 0.0 { vectors::load_global_word(address).mul_add(self.beta, value) } else { value };
        vectors::store_global_word(address, value);
    }
}
