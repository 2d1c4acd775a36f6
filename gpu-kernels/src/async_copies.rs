//! # Lesson 15: copies that pass no register
//!
//! In [`double_buffered`](crate::double_buffered) a thread is what stands between the two memories: it loads its share
//! of the next tiles into registers, keeps it there during the products, and stores it to shared memory. GPUs of
//! compute capability 8.0 and later can do without: `cp.async` copies 4, 8 or 16 bytes from global to shared memory,
//! and the thread that asks for it goes on at once. This is [`warp_tiled`](crate::warp_tiled) with such copies, and
//! nothing else.
//!
//! | a thread, in one step | `warp_tiled` | here |
//! |---|---|---|
//! | loads from global memory | 2, of 16 bytes | |
//! | stores to shared memory | 4 of 4 bytes, 1 of 16 | |
//! | copies | | 4 of 4 bytes, 1 of 16 |
//! | registers for what is on its way | 8 | **0** |
//!
//! ## When is it there?
//!
//! Nobody knows until somebody asks. A thread's copies since the last `commit_group` are a *group*, and
//! `wait_group::<0>` waits until none of this thread's groups is on its way any more. That makes the thread's own
//! copies visible to the thread itself. The tiles come from everybody's copies, so a barrier is needed besides, and
//! after the wait:
//!
//! ```text
//!   wait_group     mine are here
//!   barrier        everybody's are here, since everybody has waited; and everybody is through with the step before
//!   start copies   into the stage that the step before has read
//!   multiply       meanwhile
//! ```
//!
//! Without the wait a thread reads what isn't there yet. With barrier and wait exchanged it knows of its own copies
//! only. Either often goes well, since a step is longer than a copy takes; `check` finds both. One barrier a step is
//! still enough. It parts everybody's reading in step s - 1 from the copies into the same stage in step s.
//!
//! ## A copy is a copy
//!
//! It moves bytes as they are, so a vector of A can't be laid across four rows of the transposed tile in passing. A
//! comes element by element: a warp takes 8 neighbours, a sector, in each of 4 rows, and lays them down in 8 rows of
//! 132 words. Element (i, row) is in bank (4 i + row) modulo 32: 32 different ones. B comes in vectors where rows are
//! aligned and element by element where they aren't; for A it makes no difference.
//!
//! What is saved in instructions isn't saved at the banks. Copies of 4 bytes pass through the first-level cache, which
//! has the same 32 banks, and an H200 counts a pass for every lane that meets another one on either side. Where k is a
//! multiple of 32, rows of A begin in the same bank, and the 4 sectors of a copy take 4 passes. Copies of 16 bytes go
//! past that cache: 4 passes for 512 bytes, or 4 for as many zeros where nothing is read (below). That's 20 passes of a
//! warp in a step, beside 64 for its reads.
//!
//! Nor can a register be set to zero at an edge any more. Instead a copy has a second size, how many bytes are really
//! read; the rest are zeros. With 0 nothing is read, whatever the address. So what lies past the end of k is a copy
//! like any other, without a branch. Here the size is one of two, all or nothing, and the assembler sees it: it makes a
//! copy with a predicate. Of a size that could be any number it makes one that takes the passes of a store of zeros
//! besides, whatever the number turns out to be. Past the lower and the right edge zeros aren't even needed: such
//! elements of A and of B only meet outputs that don't exist either. There a thread copies the last row, or the last
//! columns, once more.
//!
//! ## Addresses
//!
//! Copies take addresses in shared memory as the GPU has them, 32 bits wide. A *stage* is such an address: A's tile
//! lies there, B's behind it, and the step's two stages change places by exchanging two numbers.
//!
//! ## What limits it next
//!
//! The loop has as many instructions on an H200 as `warp_tiled`'s, about 600 for 512 multiply-adds: what the copies
//! save, four addresses in four rows of A cost. What is gained is registers, and freedom: a copy can be on its way for
//! as long as one likes, at the price of shared memory alone. [`multi_stage`](crate::multi_stage) makes use of it.
//!
//! ## Measured
//!
//! On an H200 46.3 TFLOP/s at N = 4096 and 20.9 at N = 1024, 90 % and 59 % of cuBLAS (f32 without TF32) in the same run;
//! [through registers](crate::warp_tiled): 46.6 and 18.8. At N = 1024, with 64 blocks for 132 multiprocessors, a block
//! has one to itself, and that's 11 % more. At N = 4096 two blocks share a multiprocessor, one computes while the other
//! waits, and nothing is gained: it's 0.6 % less.

use crate::launch::{Architecture, Kernel, LaunchShape, Precision, Registers, Signature, Tile};
use crate::register_column::first_element;
use crate::vector_loads::{multiply, Matrices, DEPTH, GROUP, OUTPUTS, ROW_A, THREADS, TILE};
use crate::warp_tiled::{place, COLUMNS_APART, ROWS_APART};
use cuda_std::*;
use kernel_common::copies::{commit_group, copy_vector_or_zeros, copy_word_or_zeros, wait_group};
use kernel_common::vectors::{kept, shared_address};

/// Pairs of tiles in shared memory: one to read from, one to copy to.
pub const STAGES: usize = 2;
/// Bytes of A's tile, from the beginning of a stage.
const BYTES_A: u32 = (DEPTH * ROW_A) as u32 * WORD;
/// Bytes of a stage: A's tile, and B's behind it.
pub(crate) const STAGE: u32 = BYTES_A + (DEPTH * TILE) as u32 * WORD;
/// Bytes of an element.
pub(crate) const WORD: u32 = size_of::<f32>() as u32;

/// What the host needs to know to launch [`async_copies`].
pub const KERNEL: Kernel = Kernel {
    name: "async_copies",
    title: "copies from global to shared memory that pass no register, two stages",
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
    let stages = shared_array![f32; STAGES * STAGE as usize / size_of::<f32>()];
    let matrices = Matrices { a, b, c, m, n, k };
    if matrices.are_aligned() {
        pipeline::<true>(&matrices, stages);
    } else {
        pipeline::<false>(&matrices, stages);
    }
}

/// The kernel's work, with 16-byte copies of B and stores of C or without.
#[inline(always)]
unsafe fn pipeline<const ALIGNED: bool>(matrices: &Matrices, stages: *mut f32) {
    let first = first_element(TILE, TILE);
    let place = place();
    let first_stage = shared_address(stages);
    let mut copies = Copies::<TILE, TILE, DEPTH, ALIGNED>::new(matrices, first);
    copies.start(first_stage);

    let mut sums = [[0.0; OUTPUTS]; OUTPUTS];
    let (mut present, mut next) = (first_stage, first_stage + STAGE);
    while copies.had_more(1) {
        // This thread's copies are here; after the barrier, everybody's.
        wait_group::<0>();
        thread::sync_threads();

        // Into the stage that everybody has read before the barrier, while the products are computed. After the last
        // tiles it's zeros that come, and nobody reads them.
        copies.start(next);

        multiply_stage(stages.add((present - first_stage) as usize / size_of::<f32>()), place, &mut sums);
        (present, next) = (next, present);
    }
    // No copy may still be on its way when the block's shared memory becomes another block's.
    wait_group::<0>();
    matrices.store::<ALIGNED, ROWS_APART, COLUMNS_APART, _, _>((first.0 + place.0, first.1 + place.1), &sums);
}

/// Adds the products of the tiles in a stage, for a thread whose outputs begin at (`y`, `x`) of the block's tile.
///
/// # Safety
///
/// `stage` must point to the stage, and its tiles must be there.
#[inline(always)]
pub(crate) unsafe fn multiply_stage(stage: *const f32, (y, x): (usize, usize), sums: &mut [[f32; OUTPUTS]; OUTPUTS]) {
    let (tile_a, tile_b) = (stage, stage.add(DEPTH * ROW_A));
    multiply::<ROWS_APART, COLUMNS_APART>(tile_a.add(y), tile_b.add(x), sums);
}

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
