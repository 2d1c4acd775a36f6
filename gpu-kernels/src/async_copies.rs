//! # Lesson 15: copies that don't pass through registers

use kernel_common::copies::{commit, copy_16, copy_4, shared_address, wait};
use crate::launch::{Architecture, Kernel, LaunchShape, Precision, Registers, Tile};
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
    copies.start((stages, stages + TILE_A));
    commit();

    let mut sums = [[0.0; OUTPUTS]; OUTPUTS];
    let (mut present, mut next) = (stages, stages + STAGE);
    while copies.has_more(1) {
        // This thread's copies of this step's tiles have arrived; after the barrier, everybody's have. It also says
        // that everybody is through with the step before, and with the stage that it read.
        wait::<0>();
        thread::sync_threads();

        // Into that stage, while the products are computed. After the last step there's nothing left to copy.
        copies.start((next, next + TILE_A));
        commit();

        let tile_a = tiles.add((present - stages) as usize / size_of::<f32>());
        let tile_b = tile_a.add(DEPTH * ROW_A);
        multiply::<ROWS_APART, COLUMNS_APART>(tile_a.add(y), tile_b.add(x), &mut sums);
        (present, next) = (next, present);
    }
    wait::<0>();
    matrices.store::<ALIGNED, ROWS_APART, COLUMNS_APART, _, _>((first.0 + y, first.1 + x), &sums);
}

/// What one thread copies of each step's tiles: of A's, ROWS x DEPTH, single elements to where they stand in the
/// transposed tile; of B's, DEPTH x COLUMNS, vectors if ALIGNED and single elements otherwise.
pub(crate) struct Copies<const ROWS: usize, const COLUMNS: usize, const DEPTH: usize, const ALIGNED: bool> {
    /// Where this thread's copies of A's next tile begin, a pointer for each of its rows of the tile.
    from_a: [*const f32; MOST_ROWS],
    /// The same for B, in the first of the thread's columns, and how far to the right the others are.
    from_b: *const f32,
    columns: [u32; MOST_COLUMNS],
    /// Elements from one row of B to the next.
    n: usize,
    /// Places of k that are still to be copied; nothing or less when there are none.
    left: isize,
}

/// The most rows of a tile of A, and columns of one of B, that a thread has elements of.
const MOST_ROWS: usize = 4;
const MOST_COLUMNS: usize = 8;
/// Neighbours in a row of A that go to neighbouring lanes: 32 bytes, a sector.
const SECTOR: usize = 8;
/// Threads of a warp.
const WARP: usize = 32;

#[inline(always)]
fn opaque(p: *const f32) -> *const f32 { let r; unsafe { core::arch::asm!("mov.b64 {}, {};", out(reg64) r, in(reg64) p, options(pure,nomem,nostack)); } r }

impl<const ROWS: usize, const COLUMNS: usize, const DEPTH: usize, const ALIGNED: bool>
    Copies<ROWS, COLUMNS, DEPTH, ALIGNED>
{
    /// A thread's rows of A's tile: so many, THREADS / SECTOR apart.
    const ROWS_OF_A: usize = ROWS * SECTOR / THREADS;
    /// A thread's columns of B's tile, in which its copies begin.
    const COLUMNS_OF_B: usize = if ALIGNED { COLUMNS * DEPTH / (THREADS * GROUP) } else { COLUMNS / WARP };
    /// A thread's copies for A's tile.
    pub(crate) const OF_A: usize = ROWS * DEPTH / THREADS;
    /// A thread's copies for B's tile.
    pub(crate) const OF_B: usize = COLUMNS * DEPTH / THREADS / if ALIGNED { GROUP } else { 1 };
    /// Words from one row of A's transposed tile to the next: four more than it needs.
    pub(crate) const ROW_A: usize = ROWS + GROUP;

    /// For the tile of C that begins at (`first_row`, `first_column`).
    #[inline(always)]
    #[allow(clippy::needless_range_loop)]
    pub(crate) fn new(
        &Matrices { a, b, m, n, k, .. }: &Matrices,
        (first_row, first_column): (usize, usize),
    ) -> Self {
        let mut from_a = [a; MOST_ROWS];
        for number in 0..Self::ROWS_OF_A {
            let (row, i) = Self::place_in_a(number);
            from_a[number] = a.wrapping_add((first_row + row).min(m - 1) * k + i);
        }
        let column = |number| {
            let (_, column) = Self::place_in_b(number);
            (first_column + column).min(n - if ALIGNED { GROUP } else { 1 })
        };
        let (i, _) = Self::place_in_b(0);
        let from_b = b.wrapping_add(i * n + column(0));
        let mut columns = [0; MOST_COLUMNS];
        for number in 1..Self::COLUMNS_OF_B {
            columns[number] = (column(number) - column(0)) as u32;
        }
        Copies { from_a: from_a.map(opaque), from_b: opaque(from_b), columns, n, left: k as isize }
    }

    /// Whether the tiles that were started `ahead` calls ago have anything in them.
    #[inline(always)]
    pub(crate) fn has_more(&self, ahead: usize) -> bool {
        self.left + (ahead * DEPTH) as isize > 0
    }

    /// Starts all of the thread's copies for the next tiles, to these addresses in shared memory.
    #[inline(always)]
    pub(crate) unsafe fn start(&mut self, tiles: (u32, u32)) {
        self.start_portion::<1>(0, tiles);
        self.advance();
    }

    /// Starts one of PORTIONS equal parts of them.
    #[inline(always)]
    pub(crate) unsafe fn start_portion<const PORTIONS: usize>(&self, portion: usize, (tile_a, tile_b): (u32, u32)) {
        let of = |copies: usize| portion * copies / PORTIONS..(portion + 1) * copies / PORTIONS;
        for number in of(Self::OF_A) {
            self.copy_of_a(number, tile_a);
        }
        for number in of(Self::OF_B) {
            self.copy_of_b(number, tile_b);
        }
    }

    /// Goes on to the next step's tiles.
    #[inline(always)]
    pub(crate) fn advance(&mut self) {
        for from in &mut self.from_a {
            *from = from.wrapping_add(DEPTH);
        }
        self.from_b = self.from_b.wrapping_add(DEPTH * self.n);
        self.left -= DEPTH as isize;
    }

    /// Starts the thread's copy of that number, from 0 to OF_A - 1, of A's next tile.
    #[inline(always)]
    pub(crate) unsafe fn copy_of_a(&self, number: usize, tile: u32) {
        let (row, i) = Self::place_in_a(number);
        let from = self.from_a[number % Self::ROWS_OF_A].wrapping_add(number / Self::ROWS_OF_A * SECTOR);
        let to = tile + ((i * Self::ROW_A + row) * size_of::<f32>()) as u32;
        copy_4(to, from, if (i as isize) < self.left { 4 } else { 0 });
    }

    /// Starts the thread's copy of that number, from 0 to OF_B - 1, of B's next tile.
    #[inline(always)]
    pub(crate) unsafe fn copy_of_b(&self, number: usize, tile: u32) {
        let (i, column) = Self::place_in_b(number);
        let to = tile + ((i * COLUMNS + column) * size_of::<f32>()) as u32;
        let from = self.from_b.wrapping_add(self.columns[number % Self::COLUMNS_OF_B] as usize);
        let is_inside = (i as isize) < self.left;
        if ALIGNED {
            copy_16(to, from, if is_inside { 16 } else { 0 });
        } else {
            let from = from.wrapping_add(number / Self::COLUMNS_OF_B * (THREADS / WARP) * self.n);
            copy_4(to, from, if is_inside { 4 } else { 0 });
        }
    }

    /// Row and column, in A's tile, of this thread's copy of that number.
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
        if ALIGNED {
            let threads = THREADS / DEPTH;
            (thread / threads, (thread % threads + number * threads) * GROUP)
        } else {
            let row = thread / WARP + number / Self::COLUMNS_OF_B * (THREADS / WARP);
            (row, thread % WARP + number % Self::COLUMNS_OF_B * WARP)
        }
    }
}
