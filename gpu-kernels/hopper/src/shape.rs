//! What distinguishes one kernel from another.

use kernel_common::warpgroups::Product;

/// A kernel's tile, types and layouts.
pub trait Shape {
    /// A warpgroup's product: the type of the factors and the columns of a tile.
    type Product: Product;
    /// The elements of C, and how a warpgroup's sums become them.
    type Output: crate::output::Output;
    /// Whether A's rows lie across k: A is column-major.
    const A_ACROSS: bool;
    /// Whether B's rows lie across k: B is row-major.
    const B_ACROSS: bool;
    /// Tiles along k that shared memory holds.
    const STAGES: usize;

    /// Columns of a tile of C.
    const COLUMNS: usize = <Self::Product as Product>::COLUMNS;
    /// Steps along k of a tile of A or B: rows of 128 bytes.
    const DEPTH: usize = 128 / <Self::Product as Product>::ELEMENT;
    /// Bytes of a tile of A.
    const A_BYTES: usize = ROWS * 128;
    /// Bytes of a tile of B.
    const B_BYTES: usize = Self::COLUMNS * 128;
    /// Bytes of a stage.
    const STAGE: usize = Self::A_BYTES + Self::B_BYTES;
    /// Bytes of dynamic shared memory: stages, what a warpgroup is about to store, barriers, and what the beginning lacks of a multiple
    /// of 1024.
    const SHARED_BYTES: usize = Self::STAGES * Self::STAGE + MULTIPLIERS * STAGING + 16 * Self::STAGES + 1024;
}

/// Rows of a tile of C: 64 for each warpgroup that multiplies.
pub const ROWS: usize = 64 * MULTIPLIERS;
/// Warpgroups that multiply.
pub const MULTIPLIERS: usize = 2;
/// Threads of a warpgroup.
pub const WARPGROUP: usize = 128;
/// Threads of a block: one warpgroup more, which copies.
pub const THREADS: usize = WARPGROUP * (1 + MULTIPLIERS);
/// Bytes of one box of a tile of C: 64 rows of 128 bytes.
pub const BOX: usize = 64 * 128;
/// Bytes in which a warpgroup puts what it is about to store: two boxes, so that one can be filled while the other is stored.
pub const STAGING: usize = 2 * BOX;
