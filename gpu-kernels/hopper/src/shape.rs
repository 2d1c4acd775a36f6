//! What distinguishes one kernel from another.

#[cfg(doc)]
use kernel_common::call::TensorCall;
use kernel_common::warpgroups::Product;

/// A kernel's tile, types and layouts.
pub trait Shape {
    /// A warpgroup's product: the type of the factors and the columns of a tile.
    type Product: Product;
    /// The elements that C may have besides f32: those of the factors, if they have 16 bits; else f32.
    type Output: crate::output::Output;
    /// Whether A's rows lie across k: A is column-major.
    const A_ACROSS: bool;
    /// Whether B's rows lie across k: B is row-major.
    const B_ACROSS: bool;
    /// Tiles along k that shared memory holds.
    const STAGES: usize;
    /// Whether factors are numbers of f32 in two parts, as [`split`](crate::split) makes them.
    const PARTS: bool = false;
    /// Whether the warpgroups that multiply take turns along k, each with the whole tile for 64 numbers, and add up their sums at the end; else each has
    /// its own rows of the tile. So a tile has half as many rows, and what it reads of A in shared memory is read once.
    const BY_TURNS: bool = false;
    /// Blocks of a cluster whose tiles of C are one below the other: each copies its tile of A and its part of B's for all of them, so that the second-level
    /// cache is asked for less, which saves power.
    const CLUSTER: usize = 1;
    /// Blocks of a cluster that share a tile of C, 1 or 2: each multiplies a part of K, gives the other its sums of the columns that this one stores, and
    /// stores the sums of its own. So twice as many multiprocessors have work where C has few tiles, and each copies half as much. Where warpgroups
    /// take turns only.
    const BLOCKS_ALONG_K: usize = 1;
    /// Whether sums of blocks along k with the same scales are added up as they are, and scaled at the end. Where warpgroups take turns there are
    /// few blocks, and it would pay for neither comparing their scales nor making them the same.
    const MAY_SCALE_LAST: bool = Self::PARTS && !Self::BY_TURNS;
    /// Whether the warpgroups have the tensor cores in turn: one adds up its sums while the other's are computed. Left to themselves both multiply, and
    /// then both add.
    const ALTERNATES: bool = Self::PARTS && !Self::BY_TURNS;
    /// Whether a thread needs so few registers that a block can begin beside one of the grid before it, which then covers its beginning. (Of the others one
    /// has all registers of a multiprocessor.)
    const HAS_FEW_SUMS: bool = Self::BY_TURNS && <Self::Product as Product>::COLUMNS <= 64;
    /// Blocks along k after which the total is put aside and begins anew, so that no sum gets long: where there are few tiles, which is where cuBLAS cuts
    /// K into parts.
    const PUT_ASIDE: Option<u32> = if Self::BY_TURNS { Some(8) } else { None };
    /// Bytes of totals that are put aside, where there are no registers for them.
    const ASIDE: usize = if Self::HAS_FEW_SUMS { 4 * WARPGROUP * MULTIPLIERS * Self::COLUMNS / 2 } else { 0 };
    /// Whether sums can be [short](TensorCall::longest_sum), for which there are registers if they are few.
    const MAY_KEEP_SUMS_SHORT: bool =
        <Self::Product as Product>::ELEMENT == 2 && <Self::Product as Product>::COLUMNS <= 128 && !Self::PARTS;
    /// Boxes in which a warpgroup puts what it is about to store: with two, one can be filled while the other is stored. (Of a block's last tile it goes
    /// to the [stages](crate::output::Boxes).)
    const BOXES: usize = 2;

    /// Whether a warpgroup multiplies a part of B's transpose by A's: C's columns are the rows of its product. So B can come from registers, which
    /// tensor cores take however it lies; from shared memory they take factors of 32 bits along k only.
    const IS_TURNED: bool = Self::B_ACROSS && <Self::Product as Product>::ELEMENT == 4;
    /// Rows of a tile of C.
    const ROWS: usize = match (Self::IS_TURNED, Self::BY_TURNS) {
        (true, _) => <Self::Product as Product>::COLUMNS,
        (_, true) => SIDE / MULTIPLIERS,
        _ => SIDE,
    };
    /// Columns of a tile of C.
    const COLUMNS: usize = if Self::IS_TURNED { SIDE } else { <Self::Product as Product>::COLUMNS };
    /// Steps along k of a tile of A or B: rows of 128 bytes.
    const DEPTH: usize = 128 / <Self::Product as Product>::ELEMENT;
    /// Bytes of a piece of a tile that lies across k: as many steps along k, 128 bytes each.
    const PIECE: usize = Self::DEPTH * 128;
    /// Bytes of a tile of A.
    const A_BYTES: usize = Self::ROWS * 128;
    /// Bytes of a tile of B.
    const B_BYTES: usize = Self::COLUMNS * 128;
    /// Bytes of a stage.
    const STAGE: usize = Self::A_BYTES + Self::B_BYTES;
    /// Bytes of the scales of one block along k, of the rows and the columns of a tile.
    const SCALES: usize = if Self::PARTS { 4 * (Self::ROWS + Self::COLUMNS) } else { 0 };
    /// Bytes of what warpgroups are about to store.
    const STAGING: usize = MULTIPLIERS * Self::BOXES * BOX;
    /// Sums of a thread that a warpgroup gives another that stores them: half of all.
    const GIVEN: usize = Self::COLUMNS / 4;
    /// Bytes of what one warpgroup gives another.
    const GIFT: usize = 4 * WARPGROUP * Self::GIVEN;
    /// Bytes through which warpgroups that share sums give them to those that store them.
    const EXCHANGE: usize = Self::GIFT
        * match (Self::BLOCKS_ALONG_K, Self::BY_TURNS) {
            (_, false) => 0,
            // Each of a block's warpgroups has one, from the other.
            (1, true) => MULTIPLIERS,
            // The first one of a block has three, from the three others.
            _ => 3,
        };
    /// Scales of so many blocks along k are in shared memory. Copies are never further ahead of whoever reads scales: when a stage is empty for the
    /// block after the next, everybody has read those of the one before; where warpgroups take turns, those of the one before that. And where they
    /// don't, those of the one before are [read once more](Self::MAY_SCALE_LAST).
    const SCALE_SLOTS: usize = 4;
    /// Bytes in front of the barriers: stages, what is about to be stored or exchanged, what is put aside, scales.
    const BEFORE_BARRIERS: usize =
        Self::STAGES * Self::STAGE + Self::STAGING + Self::EXCHANGE + Self::ASIDE + Self::SCALE_SLOTS * Self::SCALES;
    /// Bytes of dynamic shared memory: barriers and a verdict besides, two more barriers for blocks that share tiles, and what the beginning lacks of a multiple of 1024.
    const SHARED_BYTES: usize =
        Self::BEFORE_BARRIERS + 16 * Self::STAGES + VERDICT + if Self::BLOCKS_ALONG_K > 1 { 16 } else { 0 } + 1024;
}

/// Rows (or, if it's turned, columns) of a tile of C that aren't a matter of the product's width: 64 for each warpgroup that multiplies.
pub const SIDE: usize = 64 * MULTIPLIERS;
/// Warpgroups that multiply.
pub const MULTIPLIERS: usize = 2;
/// Threads of a warpgroup.
pub const WARPGROUP: usize = 128;
/// Threads that multiply.
pub const MULTIPLYING: usize = WARPGROUP * MULTIPLIERS;
/// Threads of a block: one warpgroup more, which copies.
pub const THREADS: usize = WARPGROUP * (1 + MULTIPLIERS);
/// Registers of a thread of a kernel with [few sums](Shape::HAS_FEW_SUMS).
pub const FEW_REGISTERS: u32 = 120;
/// Bytes of one box of a tile of C: 64 rows of 128 bytes.
pub const BOX: usize = 64 * 128;
/// Bytes of the verdict on factors in parts: its barrier, and a word for each warp that has a part in it.
pub const VERDICT: usize = 32;
