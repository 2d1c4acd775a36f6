//! Matrices between shared memory and the registers of a warp: `ldmatrix` and `stmatrix` (PTX ISA, "Warp-level matrix
//! load instruction: ldmatrix", "… store instruction: stmatrix").
//!
//! A matrix has 8 rows of 8 elements of 16 bits; each row is 16 bytes anywhere in shared memory, at a multiple of 16.
//! Lane `8 j + i` gives the address of row `i` of matrix `j`, and every lane gets one register of each matrix:
//!
//! ```text
//!                 elements 0 1   2 3   4 5   6 7            lane l has, of each matrix,
//!   row 0          lane    0     1     2     3                row l / 4, elements 2 (l % 4) and 2 (l % 4) + 1;
//!   row 1          lane    4     5     6     7              with `.trans`
//!   ...                                                       column l / 4, elements 2 (l % 4) and 2 (l % 4) + 1.
//!   row 7          lane   28    29    30    31              The first one is in the register's lower half.
//! ```

use super::access::{Request, lane_addresses};
use super::run::{Executor, Result, list_range, read_row};
use super::warp::{ALL, Warp};
use crate::alu::Row;
use crate::decode::program::*;
use crate::error::AccessKind;
use crate::memory::{load, store};
use crate::observe::{MatrixAccess as Event, Watch};

/// Rows of a matrix.
const ROWS: usize = 8;
/// Bytes of a row.
const ROW_BYTES: u32 = 16;

/// A matrix: words of two elements, row by row. Word `w` of row `i` is that of lane `4 i + w`.
type Words = [u32; 32];

impl<W: Watch> Executor<'_, W> {
    /// Loads or stores matrices for a whole warp.
    pub fn matrices(&mut self, warp: &Warp, pc: u32, access: &MatrixAccess) -> Result<()> {
        let mut addresses = lane_addresses(warp.rows, &access.address);
        if access.target == Target::Generic {
            // Whatever isn't in the window is far outside.
            addresses = addresses.map(|address| address.wrapping_sub(SHARED_WINDOW));
        }
        let rows = ALL >> (32 - ROWS as u32 * u32::from(access.count));
        let kind = if access.stores { AccessKind::Write } else { AccessKind::Read };
        let request = Request::quiet(Target::Shared, kind, ROW_BYTES);
        let pointers = self.resolve(warp, pc, &mut addresses, rows, request)?.pointers;
        if W::ACTIVE {
            let good = rows & !self.lost(&pointers, rows);
            let matrices = u32::from(access.count);
            let event = Event { kind, matrices, addresses: &addresses, rows: good, transposed: access.transposed };
            let place = self.place(warp, pc);
            if good != 0 {
                self.watch.observer().matrices(place, event);
            }
        }
        let registers = &self.launch.program.lists[list_range(access.registers, access.count)];
        for (matrix, register) in pointers.chunks_exact(ROWS).zip(registers) {
            // SAFETY: `resolve` found 16 aligned bytes for every row; the decoder allocated the registers, and the warp
            // belongs to this thread.
            unsafe {
                if access.stores {
                    let words = read_row(warp.rows, *register);
                    let words = if access.transposed { transposed(&words) } else { words };
                    for (lane, word) in words.into_iter().enumerate() {
                        store::<4>(matrix[lane / 4].wrapping_add(lane % 4 * 4), u64::from(word));
                    }
                } else {
                    let words: Words =
                        std::array::from_fn(|lane| load::<4>(matrix[lane / 4].wrapping_add(lane % 4 * 4)) as u32);
                    let words = if access.transposed { transposed(&words) } else { words };
                    *warp.rows.add(*register as usize) = Row(words);
                }
            }
        }
        Ok(())
    }
}

/// The matrix with rows and columns exchanged.
fn transposed(words: &Words) -> Words {
    let element = |row: usize, column: usize| words[4 * row + column / 2] >> (column % 2 * 16) & 0xffff;
    std::array::from_fn(|lane| {
        let (column, row) = (lane / 4, 2 * (lane % 4));
        element(row, column) | element(row + 1, column) << 16
    })
}
