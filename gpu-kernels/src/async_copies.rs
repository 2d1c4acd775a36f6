//! # Lesson 15: copies that don't pass through registers

use kernel_common::copies::{commit_group, copy_vector_or_zeros, copy_word_or_zeros, wait_group};
use kernel_common::vectors::{kept, shared_address};
use crate::launch::{Architecture, Kernel, LaunchShape, Precision, Registers, Signature, Tile};
use crate::register_column::first_element;
use crate::vector_loads::{multiply, Matrices, DEPTH, GROUP, ROW_A, THREADS, TILE, OUTPUTS};
use crate::warp_tiled::{place, COLUMNS_APART, ROWS_APART};
use cuda_std::*;

/// Pairs of tiles in shared memory: one to read from, one to write to.
pub const STAGES: usize = 2;
/// Bytes of a tile of A in shared memory.
const TILE_A: u32 = (DEPTH * ROW_A * size_of::<f32>()) as u32;
/// Bytes of a stage: A's tile, and B's behind it.
const STAGE: u32 = TILE_A + (DEPTH * TILE * size_of::<f32>()) as u32;
const WORDS: usize = STAGES * STAGE as usize / size_of::<f32>();

/// What the host needs to know to launch [`async_copies`].
pub const KERNEL: Kernel = Kernel {
    name: "async_copies",
    title: "copies from global to shared memory that pass no registers",
    entry: "async_copies",
    architecture: Architecture::Compute80,
    precision: Precision::F32,
    signature: Signature::Plain,
    tile: Tile { m: TILE as u32, n: TILE as u32, k: DEPTH as u32 },
    block: [THREADS as u32, 1, 1],
    registers: Registers::ForBlocks(2),
    shared_bytes: STAGES as u32 * STAGE,
    launch_shape,
};

/// One block of THREADS threads per tile of C.
pub fn launch_shape(m: usize, n: usize, _k: usize) -> Option<LaunchShape> {
    LaunchShape::over_tiles(m, n, KERNEL.tile, KERNEL.block)
}

/// C = A B, a TILE x TILE tile of C per block and OUTPUTS x OUTPUTS elements of it per thread.
///
/// # Safety
///
/// `a`, `b` and `c` must point to `m * k`, `k * n` and `m * n` elements in memory that the GPU can reach, `c` apart
/// from the other two, and the launch must have the shape that [`launch_shape`] gives.
#[kernel]
pub unsafe fn async_copies(a: *const f32, b: *const f32, c: *mut f32, m: usize, n: usize, k: usize) {
    let tiles = shared_array![f32; WORDS];
    let matrices = Matrices { a, b, c, m, n, k };
    if matrices.are_aligned() {
        pipeline::<true>(&matrices, tiles);
    } else {
        pipeline::<false>(&matrices, tiles);
    }
}

/// The kernel's work, with 16-byte copies and stores in global memory or without.
#[inline(always)]
unsafe fn pipeline<const ALIGNED: bool>(matrices: &Matrices, tiles: *mut f32) {
    let first = first_element(TILE, TILE);
    let (y, x) = place();
    let mut copies = Copies::<TILE, TILE, DEPTH, ALIGNED>::new(matrices, first);
    let stages = shared_address(tiles);
    copies.start(stages);

    let mut sums = [[0.0; OUTPUTS]; OUTPUTS];
    let (mut present, mut next) = (stages, stages + STAGE);
    while copies.had_more(1) {
        // This thread's copies of this step's tiles have arrived; after the barrier, everybody's have. It also says
        // that everybody is through with the step before, and with the stage that it read.
        wait_group::<0>();
        thread::sync_threads();

        // Into that stage, while the products are computed. After the last step there's nothing left to copy.
        copies.start(next);

        let tile_a = tiles.add((present - stages) as usize / size_of::<f32>());
        let tile_b = tile_a.add(DEPTH * ROW_A);
        multiply::<ROWS_APART, COLUMNS_APART>(tile_a.add(y), tile_b.add(x), &mut sums);
        (present, next) = (next, present);
    }
    wait_group::<0>();
    matrices.store::<ALIGNED, ROWS_APART, COLUMNS_APART, _, _>((first.0 + y, first.1 + x), &sums);
}

/// Bytes of an element.
pub(crate) const WORD: u32 = size_of::<f32>() as u32;
/// Neighbours in a row of A that go to neighbouring lanes: 32 bytes, a sector.
const SECTOR: usize = 8;
/// The most rows of A's tile that a thread has elements of.
const MOST_ROWS: usize = 4;

/// What one thread copies of each step's tiles, in a block of THREADS threads: of A's, ROWS x DEPTH, single elements to
/// where they stand in the transposed tile; of B's, DEPTH x COLUMNS, vectors if ALIGNED and single elements otherwise.
pub(crate) struct Copies<const ROWS: usize, const COLUMNS: usize, const DEPTH: usize, const ALIGNED: bool> {
    /// The address of this thread's first element of A's next tile in each of its rows.
    from_a: [*const f32; MOST_ROWS],
    /// Its first element of B's next tile.
    from_b: *const f32,
    /// Elements from one row of B to the next.
    n: usize,
    /// Places of k that are still to be copied; nothing or less when there are none.
    left: isize,
}

impl<const ROWS: usize, const COLUMNS: usize, const DEPTH: usize, const ALIGNED: bool>
    Copies<ROWS, COLUMNS, DEPTH, ALIGNED>
{
    /// A thread's rows of A's tile: so many, THREADS / SECTOR apart.
    const ROWS_OF_A: usize = ROWS * SECTOR / THREADS;
    /// Neighbours in a row of B that a thread copies at once.
    const AT_ONCE: usize = if ALIGNED { GROUP } else { 1 };
    /// A thread's copies for B's tile are all in the same columns, so many rows apart.
    const ROWS_APART: usize = THREADS * Self::AT_ONCE / COLUMNS;
    /// A thread's copies for A's tile.
    const OF_A: usize = ROWS * DEPTH / THREADS;
    /// A thread's copies for B's tile.
    const OF_B: usize = DEPTH / Self::ROWS_APART;
    /// Words from one row of A's transposed tile to the next: four more than it needs.
    const ROW_A: usize = ROWS + GROUP;

    /// For the tile of C that begins at (`first_row`, `first_column`), which has to be inside.
    #[inline(always)]
    #[allow(clippy::needless_range_loop)] // the numbers are those of copies
    pub(crate) fn new(&Matrices { a, b, m, n, k, .. }: &Matrices, (first_row, first_column): (usize, usize)) -> Self {
        // Rows past the lower edge, and columns past the right one, only meet outputs that aren't there either, so
        // anything will do for them: the last row, and the last columns, once more.
        let mut from_a = [a; MOST_ROWS];
        for number in 0..Self::ROWS_OF_A {
            let (row, i) = Self::place_in_a(number);
            from_a[number] = kept(a.wrapping_add((first_row + row).min(m - 1) * k + i));
        }
        let (i, column) = Self::place_in_b(0);
        let from_b = kept(b.wrapping_add(i * n + (first_column + column).min(n - Self::AT_ONCE)));
        Copies { from_a, from_b, n, left: k as isize }
    }

    /// Whether the tiles started `ago` calls of [`advance`](Copies::advance) ago have anything in them.
    #[inline(always)]
    pub(crate) fn had_more(&self, ago: usize) -> bool {
        self.left + (ago * DEPTH) as isize > 0
    }

    /// Starts the thread's copies for the next tiles, A's to the address `stage` in shared memory and B's behind it,
    /// and makes a group of them.
    ///
    /// # Safety
    ///
    /// The matrices must be there, their rows aligned if ALIGNED, `stage` must have room for both tiles, and nobody may
    /// still be reading what is there.
    #[inline(always)]
    pub(crate) unsafe fn start(&mut self, stage: u32) {
        self.start_portion::<1>(0, stage);
        self.advance();
    }

    /// Starts one of PORTIONS equal portions of the copies for the next tiles.
    ///
    /// # Safety
    ///
    /// As for [`start`](Copies::start).
    #[inline(always)]
    pub(crate) unsafe fn start_portion<const PORTIONS: usize>(&self, portion: usize, stage: u32) {
        let of = |copies: usize| portion * copies / PORTIONS..(portion + 1) * copies / PORTIONS;
        for number in of(Self::OF_A) {
            self.copy_of_a(number, stage);
        }
        for number in of(Self::OF_B) {
            self.copy_of_b(number, stage + (DEPTH * Self::ROW_A) as u32 * WORD);
        }
    }

    /// Makes a group of the copies started since the last one, and goes on to the next step's.
    #[inline(always)]
    pub(crate) fn advance(&mut self) {
        commit_group();
        for from in &mut self.from_a {
            *from = from.wrapping_add(DEPTH);
        }
        self.from_b = self.from_b.wrapping_add(DEPTH * self.n);
        self.left -= DEPTH as isize;
    }

    /// Starts the thread's copy of that number, of OF_A, for A's next tile at `tile`.
    #[inline(always)]
    unsafe fn copy_of_a(&self, number: usize, tile: u32) {
        let (row, i) = Self::place_in_a(number);
        let from = self.from_a[number % Self::ROWS_OF_A].wrapping_add(number / Self::ROWS_OF_A * SECTOR);
        let to = tile + (i * Self::ROW_A + row) as u32 * WORD;
        // Past the end of k the elements meet outputs that are there, and have to be zeros: 0 bytes of 4 are copied.
        copy_word_or_zeros(to, from as u64, if self.has(i) { WORD } else { 0 });
    }

    /// Starts the thread's copy of that number, of OF_B, for B's next tile at `tile`.
    #[inline(always)]
    unsafe fn copy_of_b(&self, number: usize, tile: u32) {
        let (i, column) = Self::place_in_b(number);
        let from = self.from_b.wrapping_add(number * Self::ROWS_APART * self.n);
        let to = tile + (i * COLUMNS + column) as u32 * WORD;
        let bytes = if self.has(i) { Self::AT_ONCE as u32 * WORD } else { 0 };
        if ALIGNED {
            copy_vector_or_zeros(to, from as u64, bytes);
        } else {
            copy_word_or_zeros(to, from as u64, bytes);
        }
    }

    /// Whether the next tiles' place of k of that number is inside the matrices.
    #[inline(always)]
    fn has(&self, i: usize) -> bool {
        (i as isize) < self.left
    }

    /// Row and column, in A's tile, of this thread's copy of that number: a warp has 8 neighbours in each of 4 rows.
    #[inline(always)]
    fn place_in_a(number: usize) -> (usize, usize) {
        let thread = thread::thread_idx_x() as usize;
        let row = thread / SECTOR + number % Self::ROWS_OF_A * (THREADS / SECTOR);
        (row, thread % SECTOR + number / Self::ROWS_OF_A * SECTOR)
    }

    /// Row and column, in B's tile, of the first element of this thread's copy of that number.
    #[inline(always)]
    fn place_in_b(number: usize) -> (usize, usize) {
        let thread = thread::thread_idx_x() as usize;
        let across = COLUMNS / Self::AT_ONCE;
        (thread / across + number * Self::ROWS_APART, thread % across * Self::AT_ONCE)
    }
}
