//! What distinguishes one production kernel from another: how the work on a tile is shared out.

/// How a block works on its tile of C. The body ([`product`](crate::pipelined::product)) is written once for all.
///
/// A tile of C is cut into warp tiles, `WARPS_M` x `WARPS_N` of them. `SLICES` warps work on the same warp tile, each on
/// its slice of every step along K. The 32 lanes of a warp lie in `LANES_M` rows; each lane has the outputs that remain,
/// a multiple of 4 both ways.
pub trait Shape {
    /// The shape that says what this one leaves open: a kernel's own differs from its family's in what makes the assembler
    /// find a better order. A family's is its own base, and says everything.
    type Base: Shape;

    /// Rows of C per block.
    const TILE_M: usize = Self::Base::TILE_M;
    /// Columns of C per block.
    const TILE_N: usize = Self::Base::TILE_N;
    /// Elements along K of the pieces of A and B that a stage of shared memory holds.
    const TILE_K: usize = Self::Base::TILE_K;
    /// Warp tiles from top to bottom.
    const WARPS_M: usize = Self::Base::WARPS_M;
    /// Warp tiles from left to right.
    const WARPS_N: usize = Self::Base::WARPS_N;
    /// Warps for each warp tile.
    const SLICES: usize = Self::Base::SLICES;
    /// Lanes of a warp from top to bottom of its tile.
    const LANES_M: usize = Self::Base::LANES_M;
    /// Pieces of A and B that shared memory has room for.
    const STAGES: usize = Self::Base::STAGES;
    /// The barrier between two tiles, and at which step it stands.
    const BARRIER: Barrier = Self::Base::BARRIER;
    /// The order in which a thread goes through the rows of its outputs: r XOR this. What the assembler makes of the
    /// registers depends on it, and thereby how often two operands of a multiply-add want the same register bank.
    const ROW_ORDER: usize = Self::Base::ROW_ORDER;
    /// The step in which the first copies for a later tile are asked for.
    const FIRST_COPIES: usize = Self::Base::FIRST_COPIES;
    /// How many steps ask for copies, each for an equal share. Every such step costs the assembler three instructions.
    const COPYING_STEPS: usize = Self::Base::COPYING_STEPS;
    /// From one step that asks for copies to the next.
    const BETWEEN_COPIES: usize = Self::Base::BETWEEN_COPIES;

    /// The most products that one sum takes before it is added to others, which keeps the error of long sums small.
    ///
    /// With slices there are registers to add it to. Without, the outputs have to be stored and read again, and the copies
    /// begin anew: on an H200 that takes as long as 27 more products for each output. So without slices a longer K is cut
    /// in two halves and no further, and each of them may be longer than this.
    const LONGEST_SUM: usize = Self::Base::LONGEST_SUM;

    /// Threads of a block.
    const THREADS: usize = 32 * Self::WARPS_M * Self::WARPS_N * Self::SLICES;
    /// Multiply-add steps of a warp in one tile.
    const STEPS: usize = Self::TILE_K / Self::SLICES;
    /// Lanes of a warp from left to right of its tile.
    const LANES_N: usize = 32 / Self::LANES_M;
    /// How many tiles ahead of the multiplication the copies are.
    ///
    /// The stage that is written must be one that nobody reads. A whole barrier in every tile leaves one stage in use.
    /// One in two halves leaves two: when all have arrived in a tile, they are through with the tile before it, but some
    /// are still reading this one.
    const AHEAD: usize = match Self::BARRIER {
        Barrier::Whole { .. } => Self::STAGES - 1,
        Barrier::Halves { .. } => Self::STAGES - 2,
    };
}

/// The barrier at the end of a tile. It may stand before the last multiplications: once their operands are in
/// registers, nothing of the tile is needed any more.
#[derive(Clone, Copy)]
pub enum Barrier {
    /// Everybody waits for everybody at one place.
    Whole {
        /// The step, before whose multiplications it stands.
        step: usize,
    },
    /// Threads arrive at one place and wait for the others at a later one.
    Halves {
        /// The step in which a thread arrives.
        arrive: usize,
        /// The step in which it waits.
        wait: usize,
    },
}
