//! Where sums go: to C, or to the workspace if they are only a split's.

use cuda_std::*;
use kernel_common::{vectors, Call};

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
}

impl Output {
    /// C, or this split's matrix in the workspace if there are several splits.
    ///
    /// # Safety
    ///
    /// As for the kernels: `c` must be C of this block's product.
    #[inline(always)]
    pub unsafe fn new(call: &Call, c: *mut f32) -> Output {
        let splits = thread::grid_dim_y();
        let (start, row, alpha, beta) = if splits > 1 {
            let matrix = thread::block_idx_z() as u64 * splits as u64 + thread::block_idx_y() as u64;
            let elements = call.m as u64 * call.n as u64;
            (call.workspace as u64 + matrix * elements * 4, call.n as u64, 1.0, 0.0)
        } else {
            (c as u64, call.c_row, call.alpha, call.beta)
        };
        Output { start, row, m: call.m, n: call.n, alpha, beta, aligned: (start | (row * 4)).is_multiple_of(16) }
    }

    /// Stores four sums, of elements side by side from `column`, a multiple of 4, on. Those outside the matrix are left
    /// out.
    ///
    /// # Safety
    ///
    /// The matrix must be writable, and readable if beta isn't 0, and no other thread may store these elements.
    #[inline(always)]
    pub unsafe fn store(&self, row: u32, column: u32, sums: [f32; 4]) {
        if row >= self.m || column >= self.n {
            return;
        }
        let address = self.start + (row as u64 * self.row + column as u64) * 4;
        let mut values = [0.0; 4];
        for i in 0..4 {
            values[i] = self.alpha * sums[i];
        }
        if self.aligned && self.n - column >= 4 {
            if self.beta != 0.0 {
                let before = vectors::load_global(address);
                for i in 0..4 {
                    values[i] = before[i].mul_add(self.beta, values[i]);
                }
            }
            vectors::store_global(address, values);
        } else {
            for i in 0..4 {
                if (i as u32) < self.n - column {
                    self.store_one(address + i as u64 * 4, values[i]);
                }
            }
        }
    }

    #[inline(always)]
    unsafe fn store_one(&self, address: u64, value: f32) {
        let value = if self.beta != 0.0 { vectors::load_global_word(address).mul_add(self.beta, value) } else { value };
        vectors::store_global_word(address, value);
    }
}
