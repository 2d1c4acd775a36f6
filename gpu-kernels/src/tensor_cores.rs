//! # Lesson 21: tensor cores
//!
//! Up to here a multiply-add was an instruction of one thread: two numbers in, one sum out. A *tensor core* multiplies
//! matrices. One `mma` instruction has the 32 lanes of a warp hand in a piece of A of 16 x 16 and a piece of B of
//! 16 x 8, and adds their product to 16 x 8 sums. That's 2,048 multiply-adds, where a warp's `fma` has 32.
//!
//! The price is precision. Factors have 16 bits: here *bf16*, an f32 cut in half, with its exponent and 8 bits of
//! significand instead of 24. The product of two of them has 16 bits and is exact; the sums are kept in f32. So all that
//! is lost is lost before, when A and B are rounded to bf16, one part in 512 of every element at most. Neural networks
//! bear that, and many other things do; where they don't, see the kernels of f32.
//!
//! ## Who holds what
//!
//! Lanes hold the matrices together, each its *fragment*: with g = lane / 4 and t = lane % 4
//!
//! ```text
//!           A, 16 x 16                     B, 16 x 8               sums, 16 x 8
//!        2t 2t+1    2t+8 2t+9            column g                  2t 2t+1
//!   g    [ a0 ]     [ a2 ]         2t, 2t+1    [ b0 ]         g    s0 s1
//!   g+8  [ a1 ]     [ a3 ]         2t+8, 2t+9  [ b1 ]         g+8  s2 s3
//! ```
//!
//! A register has two neighbours of bf16: neighbours along k, both in A and in B. For A, whose rows lie along k, they are
//! neighbours in memory too. For B, whose rows lie across, they are a row apart.
//!
//! ## ldmatrix
//!
//! Reading a fragment of A element by element would take four reads of 4 bytes; `ldmatrix` takes one. A lane gives the
//! address of 16 bytes, a row of 8 elements, and the 32 rows are handed out to all lanes as four matrices of 8 x 8:
//! lane l gets of each the two elements of row l / 4 that start at 2 (l % 4). That is a0, a1, a2 and a3, if the four are
//! the quarters of A's piece.
//!
//! With `.trans` a lane gets what would be its part of the transposed matrix: two neighbours of a column. That is b0, out
//! of rows that lie across, and makes a transposed tile, as in [`vector_loads`](crate::vector_loads), superfluous. Four
//! matrices are two pieces of B.
//!
//! ## Chunks change places
//!
//! The 8 rows of a matrix, 16 bytes each, take one pass over the banks if they are in 8 different groups of four banks.
//! Rows of A's tile have 64 bytes, those of B's 256: the same 16 bytes of 8 rows would take 4 passes, and 8. So the
//! 16-byte chunks of a row change places, as words did in [`swizzled`](crate::swizzled): chunk c of A's row r lies at
//! c XOR (r / 2 modulo 4), of B's row r at c XOR (r modulo 8). Copies to shared memory have 16 bytes as well and go where
//! the chunk belongs; nothing else of them changes.
//!
//! ## The tile
//!
//! A block of 4 warps has a tile of 128 x 128, a warp 64 x 64 of it: 4 x 8 products of 16 x 8 for each 16 places of k, out
//! of 4 fragments of A and 8 of B, which is 8 instructions of `ldmatrix` for 32 of `mma`. A lane keeps 128 sums. In a step of 32 places
//! of k there are 64 products, and copies run two steps ahead in three stages, as in
//! [`multi_stage`](crate::multi_stage).
//!
//! ## Edges
//!
//! Copies bring 16 bytes, 8 elements, and need rows that begin at multiples of 16 bytes: k and n multiples of 8. Where
//! they aren't, a thread reads its 8 elements one by one and stores them: the shortest copy has 4 bytes, and a row
//! may begin at any 2. That is right, and slow.
//!
//! ## Measured
//!
//! On an H200 359 TFLOP/s at N = 4096, 54 % of cuBLAS with bf16 factors and f32 sums in the same run (59 % at N = 2048); the
//! clock falls below 1.8 GHz then, for both, since that's what the GPU's power allows. It's seven times what the kernels of f32 do, and not what
//! this GPU can do: `mma` is the instruction of the generation before. Hopper's own takes both factors from shared memory
//! and has four warps multiply together.

use crate::launch::{Architecture, Kernel, LaunchShape, Precision, Registers, Signature, Tile};
use crate::multi_stage::after;
use crate::register_column::first_element;
use cuda_std::*;
use kernel_common::copies::{commit_group, copy_vector_or_zeros, wait_group};
use kernel_common::tensor_cores::{load_matrices, load_matrices_transposed, multiply_add_bf16, Bf16};
use kernel_common::vectors::{kept, load_global_half, shared_address, store_shared};

/// Rows and columns of a block's tile of C.
pub const TILE: usize = 128;
/// Places of k in a step.
pub const DEPTH: usize = 32;
/// Pairs of tiles in shared memory: one that is read, the others to copy to.
pub const STAGES: usize = 3;
/// Threads of a block: 2 x 2 warps.
pub const THREADS: usize = 128;
/// Rows and columns of a warp's part of the tile.
pub const WARP_TILE: usize = TILE / 2;

/// Rows of a product of tensor cores, and its depth.
const M: usize = 16;
/// Columns of a product of tensor cores.
const N: usize = 8;
/// Elements of a chunk, the 16 bytes that are copied and loaded at once.
const CHUNK: usize = 8;
/// Bytes of a chunk.
const CHUNK_BYTES: u32 = 16;
/// Bytes of a row of A's tile, and of B's.
const ROW_A: u32 = (DEPTH / CHUNK) as u32 * CHUNK_BYTES;
const ROW_B: u32 = (TILE / CHUNK) as u32 * CHUNK_BYTES;
/// Bytes of A's tile, from the beginning of a stage.
const BYTES_A: u32 = TILE as u32 * ROW_A;
/// Bytes of a stage: A's tile, and B's behind it.
const STAGE: u32 = BYTES_A + DEPTH as u32 * ROW_B;

/// What the host needs to know to launch [`tensor_cores`].
pub const KERNEL: Kernel = Kernel {
    name: "tensor_cores",
    title: "factors of bf16, products of 16 x 8 x 16 on tensor cores",
    entry: "tensor_cores",
    architecture: Architecture::Compute80,
    precision: Precision::Bf16,
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

/// C = A B, a TILE x TILE tile of C per block and a WARP_TILE x WARP_TILE part of it per warp.
///
/// # Safety
///
/// `a`, `b` and `c` must point to `m * k`, `k * n` and `m * n` elements in memory that the GPU can reach, `c` apart
/// from the other two, and the launch must have the shape that [`launch_shape`] gives.
#[kernel]
pub unsafe fn tensor_cores(a: *const Bf16, b: *const Bf16, c: *mut f32, m: usize, n: usize, k: usize) {
    let stages = shared_array![f32; STAGES * STAGE as usize / size_of::<f32>()];
    let matrices = Matrices { a, b, c, m, n, k };
    if matrices.are_aligned() {
        pipeline::<true>(&matrices, shared_address(stages));
    } else {
        pipeline::<false>(&matrices, shared_address(stages));
    }
}

/// The three matrices and their sizes.
struct Matrices {
    a: *const Bf16,
    b: *const Bf16,
    c: *mut f32,
    m: usize,
    n: usize,
    k: usize,
}

impl Matrices {
    /// Whether all rows of A and B begin at multiples of 16 bytes, and those of C at multiples of 8.
    #[inline(always)]
    fn are_aligned(&self) -> bool {
        (self.k | self.n).is_multiple_of(CHUNK)
            && (self.a as usize | self.b as usize).is_multiple_of(CHUNK_BYTES as usize)
            && (self.c as usize).is_multiple_of(size_of::<Pair>())
    }
}

/// The kernel's work, with copies of 16 bytes and stores of 8 or with single elements.
#[inline(always)]
#[allow(clippy::needless_range_loop)] // y and x number fragments as well
unsafe fn pipeline<const ALIGNED: bool>(matrices: &Matrices, first_stage: u32) {
    let first = first_element(TILE, TILE);
    let mut copies = Copies::<ALIGNED>::new(matrices, first);
    for stage in 0..STAGES as u32 - 1 {
        copies.start(first_stage + stage * STAGE);
    }

    let reader = Reader::new();
    let mut sums = [[[0.0; 4]; WARP_TILE / N]; WARP_TILE / M];
    let (mut present, mut next) = (first_stage, first_stage + (STAGES as u32 - 1) * STAGE);
    while copies.had_more(STAGES - 1) {
        wait_group::<{ STAGES - 2 }>();
        thread::sync_threads();

        // Into the stage that everybody has read before the barrier.
        copies.start(next);

        for i in 0..DEPTH / M {
            let fragments = reader.load(present, i);
            for y in 0..WARP_TILE / M {
                for x in 0..WARP_TILE / N {
                    sums[y][x] = multiply_add_bf16(fragments.a[y], fragments.b[x], sums[y][x]);
                }
            }
        }
        present = after::<STAGES, STAGE>(present, first_stage);
        next = after::<STAGES, STAGE>(next, first_stage);
    }
    // No copy may still be on its way when the block's shared memory becomes another block's.
    wait_group::<0>();
    store::<ALIGNED>(matrices, first, &sums);
}

/// Where a chunk lies in A's tile, in bytes from its beginning.
#[inline(always)]
fn place_in_a(row: usize, chunk: usize) -> u32 {
    row as u32 * ROW_A + (chunk ^ (row / 2 % 4)) as u32 * CHUNK_BYTES
}

/// Where a chunk lies in B's tile, in bytes from its beginning.
#[inline(always)]
fn place_in_b(row: usize, chunk: usize) -> u32 {
    row as u32 * ROW_B + (chunk ^ (row % 8)) as u32 * CHUNK_BYTES
}

/// What one lane multiplies for 16 places of k.
#[derive(Clone, Copy)]
struct Fragments {
    a: [[u32; 4]; WARP_TILE / M],
    b: [[u32; 2]; WARP_TILE / N],
}

/// Where one lane loads fragments from, in bytes from the beginning of a stage.
struct Reader {
    /// The row that it names of A's first 16 x 16 elements, for each 16 places of k.
    a: [u32; DEPTH / M],
    /// The rows that it names of B's first 16 places of k, each for 16 columns.
    b: [u32; WARP_TILE / M],
}

impl Reader {
    #[inline(always)]
    fn new() -> Reader {
        let thread = thread::thread_idx_x() as usize;
        let (warp, lane) = (thread / 32, thread % 32);
        // Lanes 0 to 7 name the rows of the first matrix, upper left; 8 to 15 those of the one below, and so on.
        let (row, chunk) = (lane % 16, lane / 16);
        let (y, x) = (warp / 2 * WARP_TILE, warp % 2 * WARP_TILE);
        let mut reader = Reader { a: [0; DEPTH / M], b: [0; WARP_TILE / M] };
        for i in 0..DEPTH / M {
            reader.a[i] = place_in_a(y + row, i * 2 + chunk);
        }
        for i in 0..WARP_TILE / M {
            reader.b[i] = BYTES_A + place_in_b(row, x / CHUNK + i * 2 + chunk);
        }
        reader
    }

    /// Loads the fragments for the 16 places of k with number `i` in the tiles of a stage.
    ///
    /// # Safety
    ///
    /// All lanes of the warp must come here together, and the tiles be there.
    #[inline(always)]
    unsafe fn load(&self, stage: u32, i: usize) -> Fragments {
        let mut fragments = Fragments { a: [[0; 4]; WARP_TILE / M], b: [[0; 2]; WARP_TILE / N] };
        // 16 rows further the chunks have changed places in the same way.
        for number in 0..WARP_TILE / M {
            fragments.a[number] = load_matrices(stage + self.a[i] + (number * M) as u32 * ROW_A);
        }
        for number in 0..WARP_TILE / M {
            let row = stage + self.b[number] + (i * M) as u32 * ROW_B;
            let [upper, lower, next_upper, next_lower] = load_matrices_transposed(row);
            fragments.b[2 * number] = [upper, lower];
            fragments.b[2 * number + 1] = [next_upper, next_lower];
        }
        fragments
    }
}

/// Chunks that a thread copies of each of a step's tiles.
const COPIES: usize = TILE * DEPTH / CHUNK / THREADS;
/// From one of a thread's rows of A's tile to its next, and the same of B's.
const ROWS_APART_A: usize = TILE / COPIES;
const ROWS_APART_B: usize = DEPTH / COPIES;

/// What one thread copies of each step's tiles: chunks as wholes if ALIGNED, else element by element.
struct Copies<const ALIGNED: bool> {
    /// The address of this thread's chunk of A's next tile in each of its rows.
    from_a: [*const Bf16; COPIES],
    /// That of its first chunk of B's next tile.
    from_b: *const Bf16,
    /// Columns of that chunk that are inside B; not used if ALIGNED.
    columns: usize,
    /// Elements from one row of B to the next.
    n: usize,
    /// Places of k that are still to be copied; nothing or less when there are none.
    left: isize,
    /// Where its first chunk of A's tile goes, from the beginning of a stage, and the same of B's.
    to: (u32, u32),
}

impl<const ALIGNED: bool> Copies<ALIGNED> {
    /// For the tile of C that begins at (`first_row`, `first_column`), which has to be inside.
    #[inline(always)]
    #[allow(clippy::needless_range_loop)] // the numbers are those of copies
    fn new(&Matrices { a, b, m, n, k, .. }: &Matrices, (first_row, first_column): (usize, usize)) -> Self {
        // Rows past the lower edge, and columns past the right one, only meet outputs that aren't there either, so
        // anything will do for them: the last row, and the last columns, once more.
        let (row, chunk) = Self::place_in_a();
        let mut from_a = [a; COPIES];
        for number in 0..COPIES {
            let row = (first_row + row + number * ROWS_APART_A).min(m - 1);
            from_a[number] = kept(a.wrapping_add(row * k + chunk * CHUNK));
        }
        let to_a = place_in_a(row, chunk);
        let (row, chunk) = Self::place_in_b();
        let column = (first_column + chunk * CHUNK).min(if ALIGNED { n - CHUNK } else { n - 1 });
        let from_b = kept(b.wrapping_add(row * n + column));
        let to = (to_a, BYTES_A + place_in_b(row, chunk));
        Copies { from_a, from_b, columns: (n - column).min(CHUNK), n, left: k as isize, to }
    }

    /// Whether the tiles that [`start`](Copies::start) started so many calls `ago` have anything in them.
    #[inline(always)]
    fn had_more(&self, ago: usize) -> bool {
        self.left + (ago * DEPTH) as isize > 0
    }

    /// Starts the thread's copies for the next tiles, makes a group of them and goes on to the next step's.
    ///
    /// # Safety
    ///
    /// The matrices must be there, `stage` have room for both tiles, and nobody may still be reading what is there.
    #[inline(always)]
    unsafe fn start(&mut self, stage: u32) {
        let (to_a, to_b) = (stage + self.to.0, stage + self.to.1);
        for (number, from) in self.from_a.iter().enumerate() {
            // Rows of a thread are so far apart that chunks change places in the same way in all of them.
            let to = to_a + (number * ROWS_APART_A) as u32 * ROW_A;
            let place = (Self::place_in_a().1 * CHUNK) as isize;
            let inside = (self.left - place).clamp(0, CHUNK as isize) as usize;
            if ALIGNED {
                copy_vector_or_zeros(to, *from as u64, if inside > 0 { CHUNK_BYTES } else { 0 });
            } else {
                let element = |i: usize| if i < inside { load_global_half(from.wrapping_add(i) as u64) } else { 0 };
                store_chunk(to, element);
            }
        }
        for number in 0..COPIES {
            let from = self.from_b.wrapping_add(number * ROWS_APART_B * self.n);
            let to = to_b + (number * ROWS_APART_B) as u32 * ROW_B;
            let inside = ((Self::place_in_b().0 + number * ROWS_APART_B) as isize) < self.left;
            if ALIGNED {
                copy_vector_or_zeros(to, from as u64, if inside { CHUNK_BYTES } else { 0 });
            } else {
                let is_inside = |i: usize| inside && i < self.columns;
                let element = |i: usize| if is_inside(i) { load_global_half(from.wrapping_add(i) as u64) } else { 0 };
                store_chunk(to, element);
            }
        }
        commit_group();
        for from in &mut self.from_a {
            *from = from.wrapping_add(DEPTH);
        }
        self.from_b = self.from_b.wrapping_add(DEPTH * self.n);
        self.left -= DEPTH as isize;
    }

    /// Row and chunk, in A's tile, of this thread's first copy; the others are in the same chunk of further rows.
    #[inline(always)]
    fn place_in_a() -> (usize, usize) {
        let thread = thread::thread_idx_x() as usize;
        (thread / (DEPTH / CHUNK), thread % (DEPTH / CHUNK))
    }

    /// Row and chunk, in B's tile, of this thread's first copy; the others are in the same chunk of further rows.
    #[inline(always)]
    fn place_in_b() -> (usize, usize) {
        let thread = thread::thread_idx_x() as usize;
        (thread / (TILE / CHUNK), thread % (TILE / CHUNK))
    }
}

/// Stores a chunk to shared memory, element by element from its first.
#[inline(always)]
unsafe fn store_chunk(to: u32, element: impl Fn(usize) -> u16) {
    let pair = |i: usize| f32::from_bits(element(i) as u32 | (element(i + 1) as u32) << 16);
    store_shared(to, [pair(0), pair(2), pair(4), pair(6)]);
}

/// Two neighbours of C.
#[repr(C, align(8))]
struct Pair([f32; 2]);

/// Stores a lane's sums to C, of a tile that begins at (`first_row`, `first_column`).
#[inline(always)]
#[allow(clippy::needless_range_loop)] // i and j number rows and columns of C as well
unsafe fn store<const ALIGNED: bool>(
    &Matrices { c, m, n, .. }: &Matrices,
    (first_row, first_column): (usize, usize),
    sums: &[[[f32; 4]; WARP_TILE / N]; WARP_TILE / M],
) {
    let thread = thread::thread_idx_x() as usize;
    let (warp, lane) = (thread / 32, thread % 32);
    let first_row = first_row + warp / 2 * WARP_TILE + lane / 4;
    let first_column = first_column + warp % 2 * WARP_TILE + lane % 4 * 2;
    for i in 0..WARP_TILE / M {
        for half in 0..2 {
            let row = first_row + i * M + half * 8;
            if row >= m {
                continue;
            }
            let c = c.add(row * n);
            for j in 0..WARP_TILE / N {
                let column = first_column + j * N;
                let pair = [sums[i][j][2 * half], sums[i][j][2 * half + 1]];
                if ALIGNED {
                    // n is even, and so is the column.
                    if column < n {
                        c.add(column).cast::<Pair>().write(Pair(pair));
                    }
                } else {
                    if column < n {
                        *c.add(column) = pair[0];
                    }
                    if column + 1 < n {
                        *c.add(column + 1) = pair[1];
                    }
                }
            }
        }
    }
}
