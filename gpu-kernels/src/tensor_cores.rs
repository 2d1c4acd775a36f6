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
//! Rows of A's tile have 64 bytes, those of B's 512: the same 16 bytes of 8 rows would take 4 passes, and 8. So the
//! 16-byte chunks of a row change places, as words did in [`swizzled`](crate::swizzled): chunk c of A's row r lies at
//! c XOR (r / 2 modulo 4), of B's row r at c XOR (r modulo 8). Copies to shared memory have 16 bytes as well and go where
//! the chunk belongs; nothing else of them changes.
//!
//! So `ldmatrix` has no conflicts, and copies of B have none. A warp's copy of A is 8 rows of 64 bytes, and what comes from
//! different rows of A comes in different passes: 8, where rows of 128 bytes would come in 4.
//!
//! ## The tile
//!
//! A block of 8 warps has a tile of 128 x 256, a warp 64 x 64 of it: 4 x 8 products of 16 x 8 for each 16 places of k, out
//! of 4 fragments of A and 8 of B, which is 8 instructions of `ldmatrix` for 32 of `mma`. A lane keeps 128 sums. In a step
//! of 32 places of k there are 64 products, and copies run three steps ahead in four stages, as in
//! [`multi_stage`](crate::multi_stage).
//!
//! Four stages of 8 + 16 KB are more than a kernel can declare, 48 KB; they are asked for at the launch. The smallest GPUs
//! of compute capability 8.0 and later give a block 99 KB, so 96 run on all of them.
//!
//! Tiles are numbered in groups of 16 rows, as in [`block_order`](crate::block_order), whose tile has the same size.
//!
//! ## Products hide the rest
//!
//! The sums take so many registers that a multiprocessor has room for one such block. As in
//! [`wide_tile`](crate::wide_tile), no other block multiplies while this one doesn't. If it starts copies and loads
//! fragments behind each barrier before it multiplies, tensor cores have nothing to do for some 70 instructions of each
//! step. So all of this has to go on behind products:
//!
//! ```text
//!               | first half of a step   | second half            | first half of the next
//!   multiply    | first 16 places of k   | last 16 places         | first 16 places
//!   load        | last 16 places         | next stage, first 16   | last 16 places
//!   copy        | half of a step's tiles | the other half         | half of a step's tiles
//!   barrier     |                        ^                        |
//! ```
//!
//! 1. *Fragments come a part ahead.* A step has two parts of 16 places of k. While one is multiplied, the fragments of the
//!    next are loaded into registers of their own, 32 more.
//! 2. *The barrier comes a part early.* When the last part's fragments are in registers, nothing in the stage is needed any
//!    more. So the barrier stands before the last part's products, not behind them, and the first fragments of the next
//!    stage are loaded during these.
//! 3. *Copies are spread*, half of a thread's 6 with each part.
//!
//! An address costs a copy one addition of 64 bits: a thread's next row lies always as far from the last. B's tiles lie one
//! below the other, so its way goes straight on from one to the next; A's lie side by side, and it goes back up.
//!
//! ## Edges
//!
//! Copies bring 16 bytes, 8 elements, and need rows that begin at multiples of 16 bytes: k and n multiples of 8. Where
//! they aren't, a thread reads its 8 elements one by one and stores them: the shortest copy has 4 bytes, and a row
//! may begin at any 2. That is right, and slow.
//!
//! ## Measured
//!
//! On an H200 beside cuBLAS with bf16 factors and f32 sums, at N = 4096: 433 TFLOP/s and 58 % of cuBLAS if the two take
//! turns in short rounds; sustained, when the clock falls to what the GPU's power allows, 415 and 65 %. At N = 2048 it's 399
//! and 62 %.
//!
//! Tiles of 128 x 128 with two blocks of 4 warps for a multiprocessor, one multiplying while the other waits, had 54 % at
//! N = 4096 and 58 % at N = 2048. The wider tile and the groups of rows alone brought little: with everything between the
//! barrier and the products they had 50 % in rounds and 56 % sustained. Hiding it is worth the other 8 or 9 %.
//! Steps of 64 places in three stages had 66 % sustained, but with 144 KB of shared memory they don't run on GPUs of 8.6
//! and 8.9.
//!
//! A wide tile wants a large product: 1024 x 1024 are 32 tiles, and an H200 has 132 multiprocessors.
//!
//! It's eight times what the kernels of f32 do, and not what this GPU can do: `mma` is the instruction of the generation
//! before. Hopper's own takes both factors from shared memory and has four warps multiply together.

use crate::block_order::{tile, GROUP_ROWS};
use crate::launch::{Architecture, Kernel, LaunchShape, Precision, Registers, Signature, Tile};
use crate::multi_stage::after;
use cuda_std::*;
use kernel_common::copies::{commit_group, copy_vector_or_zeros, wait_group};
use kernel_common::tensor_cores::{load_matrices, load_matrices_transposed, multiply_add_bf16, Bf16};
use kernel_common::vectors::{dynamic_shared_memory, kept, load_global_half, store_shared};

/// Rows of a block's tile of C.
pub const TILE_M: usize = 128;
/// Its columns.
pub const TILE_N: usize = 256;
/// Places of k in a step.
pub const DEPTH: usize = 32;
/// Pairs of tiles in shared memory: one that is read, the others to copy to.
pub const STAGES: usize = 4;
/// Rows and columns of a warp's part of the tile.
pub const WARP_TILE: usize = 64;
/// Warps side by side in a block.
const WARPS_ACROSS: usize = TILE_N / WARP_TILE;
/// Threads of a block: a warp for each part of the tile.
pub const THREADS: usize = TILE_M / WARP_TILE * WARPS_ACROSS * 32;

/// Rows of a product of tensor cores, and its depth.
const M: usize = 16;
/// Columns of a product of tensor cores.
const N: usize = 8;
/// Parts of a step, each as deep as a product.
const PARTS: usize = DEPTH / M;
/// Elements of a chunk, the 16 bytes that are copied and loaded at once.
const CHUNK: usize = 8;
/// Bytes of a chunk.
const CHUNK_BYTES: u32 = 16;
/// Bytes that all banks have beside each other, and the chunks of these: as many as one pass reads.
const BANKS_BYTES: u32 = 128;
const PASS: usize = (BANKS_BYTES / CHUNK_BYTES) as usize;
/// Bytes of a row of A's tile, and of B's.
const ROW_A: u32 = (DEPTH / CHUNK) as u32 * CHUNK_BYTES;
const ROW_B: u32 = (TILE_N / CHUNK) as u32 * CHUNK_BYTES;
/// Bytes of A's tile, from the beginning of a stage.
const BYTES_A: u32 = TILE_M as u32 * ROW_A;
/// Bytes of a stage: A's tile, and B's behind it.
const STAGE: u32 = BYTES_A + DEPTH as u32 * ROW_B;
/// Bytes of all stages, a block's dynamic shared memory.
const STAGES_BYTES: u32 = STAGES as u32 * STAGE;

/// What the host needs to know to launch [`tensor_cores`].
pub const KERNEL: Kernel = Kernel {
    name: "tensor_cores",
    title: "factors of bf16, products of 16 x 8 x 16 on tensor cores",
    entry: "tensor_cores",
    architecture: Architecture::Compute80,
    precision: Precision::Bf16,
    signature: Signature::Plain,
    tile: Tile { m: TILE_M as u32, n: TILE_N as u32, k: DEPTH as u32 },
    block: [THREADS as u32, 1, 1],
    registers: Registers::ForBlocks(1),
    shared_bytes: 0,
    launch_shape,
};

/// One block of THREADS threads per tile of C, all along x.
pub fn launch_shape(m: usize, n: usize, _k: usize) -> Option<LaunchShape> {
    LaunchShape::flat(m, n, KERNEL.tile, KERNEL.block, STAGES_BYTES)
}

/// C = A B, a TILE_M x TILE_N tile of C per block and a WARP_TILE x WARP_TILE part of it per warp.
///
/// # Safety
///
/// `a`, `b` and `c` must point to `m * k`, `k * n` and `m * n` elements in memory that the GPU can reach, `c` apart
/// from the other two, and the launch must have the shape that [`launch_shape`] gives.
#[kernel]
pub unsafe fn tensor_cores(a: *const Bf16, b: *const Bf16, c: *mut f32, m: usize, n: usize, k: usize) {
    let matrices = Matrices { a, b, c, m, n, k };
    if matrices.are_aligned() {
        pipeline::<true>(&matrices, dynamic_shared_memory());
    } else {
        pipeline::<false>(&matrices, dynamic_shared_memory());
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
    let (rows, columns) = (matrices.m.div_ceil(TILE_M) as u32, matrices.n.div_ceil(TILE_N) as u32);
    let (row, column) = tile::<GROUP_ROWS>(thread::block_idx_x(), rows, columns);
    let first = (row as usize * TILE_M, column as usize * TILE_N);
    let mut copies = Copies::<ALIGNED>::new(matrices, first);
    for stage in 0..STAGES as u32 - 1 {
        copies.start(first_stage + stage * STAGE);
    }

    let reader = Reader::new();
    let mut sums = [[[0.0; 4]; WARP_TILE / N]; WARP_TILE / M];
    let (mut present, mut next) = (first_stage, first_stage + (STAGES as u32 - 1) * STAGE);
    next_stage_is_there();
    let mut fragments = reader.load(present, 0);
    while copies.had_more(STAGES - 1) {
        for part in 0..PARTS {
            // Into the stage that everybody had read before the latest barrier.
            copies.start_part(next, part);
            let factors = fragments;
            // The last part's factors are in registers, so the stage has been read.
            if part + 1 == PARTS {
                copies.finish_step();
                next_stage_is_there();
                present = after::<STAGES, STAGE>(present, first_stage);
                next = after::<STAGES, STAGE>(next, first_stage);
            }
            // Behind the last step there are zeros, which nobody multiplies.
            fragments = reader.load(present, (part + 1) % PARTS);
            for y in 0..WARP_TILE / M {
                for x in 0..WARP_TILE / N {
                    sums[y][x] = multiply_add_bf16(factors.a[y], factors.b[x], sums[y][x]);
                }
            }
        }
    }
    // No copy may still be on its way when the block's shared memory becomes another block's.
    wait_group::<0>();
    store::<ALIGNED>(matrices, first, &sums);
}

/// Waits until the stage after the latest one is there, and everybody has read that one.
#[inline(always)]
fn next_stage_is_there() {
    wait_group::<{ STAGES - 2 }>();
    thread::sync_threads();
}

/// Where a chunk lies in A's tile, in bytes from its beginning.
#[inline(always)]
fn place_in_a(row: usize, chunk: usize) -> u32 {
    place::<ROW_A>(row, chunk)
}

/// Where a chunk lies in B's tile, in bytes from its beginning.
#[inline(always)]
fn place_in_b(row: usize, chunk: usize) -> u32 {
    place::<ROW_B>(row, chunk)
}

/// Where a chunk lies among rows of ROW bytes: rows that are read in one pass have it in different groups of banks.
#[inline(always)]
fn place<const ROW: u32>(row: usize, chunk: usize) -> u32 {
    // Shorter rows than those of all banks come several at a time.
    let rows_of_all_banks = (BANKS_BYTES / ROW).max(1) as usize;
    let exchanged = row / rows_of_all_banks % (PASS / rows_of_all_banks);
    row as u32 * ROW + (chunk ^ exchanged) as u32 * CHUNK_BYTES
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
    a: [u32; PARTS],
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
        let (y, x) = (warp / WARPS_ACROSS * WARP_TILE, warp % WARPS_ACROSS * WARP_TILE);
        let mut reader = Reader { a: [0; PARTS], b: [0; WARP_TILE / M] };
        for i in 0..PARTS {
            reader.a[i] = place_in_a(y + row, i * 2 + chunk);
        }
        for i in 0..WARP_TILE / M {
            reader.b[i] = BYTES_A + place_in_b(row, x / CHUNK + i * 2 + chunk);
        }
        reader
    }

    /// Loads the fragments of a part of the step whose tiles are in `stage`.
    ///
    /// # Safety
    ///
    /// All lanes of the warp must come here together, and the tiles be there.
    #[inline(always)]
    unsafe fn load(&self, stage: u32, part: usize) -> Fragments {
        let mut fragments = Fragments { a: [[0; 4]; WARP_TILE / M], b: [[0; 2]; WARP_TILE / N] };
        // 16 rows further the chunks have changed places in the same way.
        for number in 0..WARP_TILE / M {
            fragments.a[number] = load_matrices(stage + self.a[part] + (number * M) as u32 * ROW_A);
        }
        for number in 0..WARP_TILE / M {
            let row = stage + self.b[number] + (part * M) as u32 * ROW_B;
            let [upper, lower, next_upper, next_lower] = load_matrices_transposed(row);
            fragments.b[2 * number] = [upper, lower];
            fragments.b[2 * number + 1] = [next_upper, next_lower];
        }
        fragments
    }
}

/// Chunks that a thread copies of a step's tile of A, and of B's.
const COPIES_A: usize = TILE_M * DEPTH / CHUNK / THREADS;
const COPIES_B: usize = TILE_N * DEPTH / CHUNK / THREADS;
/// From one of a thread's rows of A's tile to its next, and the same of B's.
const ROWS_APART_A: usize = TILE_M / COPIES_A;
const ROWS_APART_B: usize = DEPTH / COPIES_B;
/// Copies that are started with each part.
const COPIES_A_OF_PART: usize = COPIES_A / PARTS;
const COPIES_B_OF_PART: usize = COPIES_B / PARTS;

const _: () = assert!(COPIES_A_OF_PART * PARTS == COPIES_A, "every part has as many copies of A");
const _: () = assert!(COPIES_B_OF_PART * PARTS == COPIES_B, "and of B");
// So that chunks change places alike in all of a thread's rows.
const _: () = assert!(ROWS_APART_A.is_multiple_of(PASS) && ROWS_APART_B.is_multiple_of(PASS));

/// What one thread copies of each step's tiles: chunks as wholes if ALIGNED, else element by element.
struct Copies<const ALIGNED: bool> {
    /// The addresses of this thread's next chunk of A, and of B.
    from: (*const Bf16, *const Bf16),
    /// Elements from there to its next row of A's tile, and from behind its last row back to its first row of the next
    /// tile.
    a_down: isize,
    a_back: isize,
    /// Elements to its next row of B: the one after a tile's last row is the first of the next tile.
    b_down: isize,
    /// Rows of A's tile that are inside, from its first one on.
    rows: i32,
    /// Columns of its chunks of B that are inside; not used if ALIGNED.
    columns: i32,
    /// Places of k that are still to be copied; nothing or less when there are none.
    left: isize,
    /// Where its first chunk of A's tile goes, from the beginning of a stage, and the same of B's.
    to: (u32, u32),
}

impl<const ALIGNED: bool> Copies<ALIGNED> {
    /// For the tile of C that begins at (`first_row`, `first_column`), which has to be inside.
    #[inline(always)]
    fn new(&Matrices { a, b, m, n, k, .. }: &Matrices, (first_row, first_column): (usize, usize)) -> Self {
        let (row, chunk) = Self::place_in_a();
        let to_a = place_in_a(row, chunk);
        let from_a = a.wrapping_add((first_row + row) * k + chunk * CHUNK);
        let rows = (m - first_row).min(TILE_M) as i32 - row as i32;
        let (row, chunk) = Self::place_in_b();
        let to = (to_a, BYTES_A + place_in_b(row, chunk));
        // Columns past the right edge only meet outputs that aren't there either, so anything will do for them: the
        // last ones once more.
        let column = (first_column + chunk * CHUNK).min(if ALIGNED { n - CHUNK } else { n - 1 });
        let from_b = b.wrapping_add(row * n + column);
        Copies {
            from: (kept(from_a), kept(from_b)),
            a_down: (ROWS_APART_A * k) as isize,
            a_back: DEPTH as isize - (TILE_M * k) as isize,
            b_down: (ROWS_APART_B * n) as isize,
            rows,
            columns: (n - column).min(CHUNK) as i32,
            left: k as isize,
            to,
        }
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
        for part in 0..PARTS {
            self.start_part(stage, part);
        }
        self.finish_step();
    }

    /// Starts those of a step's copies that belong to a part; parts come in their order.
    ///
    /// # Safety
    ///
    /// As for [`start`](Copies::start).
    #[inline(always)]
    unsafe fn start_part(&mut self, stage: u32, part: usize) {
        let left = self.left.clamp(0, DEPTH as isize) as i32;

        // Its rows of A that have anything inside, and how much of a chunk that is.
        let inside = left - (Self::place_in_a().1 * CHUNK) as i32;
        let rows = if inside > 0 { self.rows } else { 0 };
        for number in part * COPIES_A_OF_PART..(part + 1) * COPIES_A_OF_PART {
            // Rows of a thread are so far apart that chunks change places in the same way in all of them.
            let to = stage + self.to.0 + (number * ROWS_APART_A) as u32 * ROW_A;
            Self::copy(to, self.from.0, rows > (number * ROWS_APART_A) as i32, inside);
            self.from.0 = self.from.0.wrapping_offset(self.a_down);
        }

        let rows = left - Self::place_in_b().0 as i32;
        for number in part * COPIES_B_OF_PART..(part + 1) * COPIES_B_OF_PART {
            let to = stage + self.to.1 + (number * ROWS_APART_B) as u32 * ROW_B;
            Self::copy(to, self.from.1, rows > (number * ROWS_APART_B) as i32, self.columns);
            self.from.1 = self.from.1.wrapping_offset(self.b_down);
        }
    }

    /// Copies a chunk, or zeros if its row isn't inside. If not ALIGNED, only so many `elements` are copied, and zeros for
    /// the others.
    #[inline(always)]
    unsafe fn copy(to: u32, from: *const Bf16, row_is_inside: bool, elements: i32) {
        if ALIGNED {
            copy_vector_or_zeros(to, from as u64, if row_is_inside { CHUNK_BYTES } else { 0 });
        } else {
            let is_inside = |i: usize| row_is_inside && (i as i32) < elements;
            store_chunk(to, |i| if is_inside(i) { load_global_half(from.wrapping_add(i) as u64) } else { 0 });
        }
    }

    /// Makes a group of a step's copies and goes on to the next step's.
    #[inline(always)]
    fn finish_step(&mut self) {
        commit_group();
        self.from.0 = self.from.0.wrapping_offset(self.a_back);
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
        (thread / (TILE_N / CHUNK), thread % (TILE_N / CHUNK))
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
    let first_row = first_row + warp / WARPS_ACROSS * WARP_TILE + lane / 4;
    let first_column = first_column + warp % WARPS_ACROSS * WARP_TILE + lane % 4 * 2;
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
