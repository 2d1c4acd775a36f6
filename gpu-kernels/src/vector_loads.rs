//! # Lesson 12: four at a time
//!
//! In [`register_tile`](crate::register_tile) a thread needs 8 elements of B's tile for one i, 16 apart, and takes 8
//! reads for them; of A's tile it reads four at once, but these are for four different i, so that 32 of A's elements
//! wait in registers. A thread can read 16 bytes in one instruction. For that its elements have to be neighbours:
//!
//! - **In B's tile**, they become so by another choice of outputs: columns 4 x to 4 x + 3, and the same 64 further on.
//! - **In A's tile**, elements for one i stand in a column. So the tile is held transposed, row i of the array for
//!   column i of the tile, and rows 4 y to 4 y + 3 of C are neighbours in it.
//!
//! ```text
//!                  4 x .. + 3     64 + 4 x .. + 3
//!   4 y .. + 3     [ 4 x 4 ]        [ 4 x 4 ]          one thread's outputs
//!   64 + 4 y ..    [ 4 x 4 ]        [ 4 x 4 ]
//! ```
//!
//! | for one i | reads | of elements | registers for them |
//! |---|---|---|---|
//! | `register_tile` | 8 + 8 / 4 = 10 | 16 | 8 + 32 |
//! | here | 2 + 2 = **4** | 16 | **16** |
//!
//! 64 multiply-adds for 4 reads instead of 10, and a thread gets by with 128 registers on every GPU, so that two blocks
//! fit into a multiprocessor.
//!
//! What it doesn't change is how long the banks are busy: they give 128 bytes in a pass, whoever asks in however few
//! instructions. It's 12 passes for one i here as there.
//!
//! ## From global memory
//!
//! Each thread carries four elements of either tile. Where all rows begin at a multiple of 16 bytes (the matrices do,
//! and n and k are multiples of 4) they are neighbours, and one load each. Otherwise a 16-byte load isn't allowed at
//! all, so a second copy of the loop loads them one by one, and shares them out differently, since neighbouring threads
//! must have neighbouring elements in every single load:
//!
//! | | aligned | otherwise |
//! |---|---|---|
//! | a load of A, one warp | 16 rows of 8 elements, 32 bytes each | 4 rows of 8 elements, four times |
//! | a load of B, one warp | a whole row of 128 elements | a quarter of a row, four times |
//!
//! In both a row of A's tile, 8 floats, is a whole sector if rows begin at one.
//!
//! ## Storing A transposed
//!
//! A thread's four neighbours of a row of A go to four rows of the array. If these were 128 words apart, thread t and
//! t ^ 1, which have the two halves of one row of A, would store to rows 4 apart and the same place in them: 512 words,
//! the same bank. With 132 words from row to row it's 528, which is 16 modulo 32, and the 16 rows of A that a warp has
//! fill banks 0 to 15 and 16 to 31. 132 is a multiple of 4 too, so that reads of 16 bytes stay aligned.
//!
//! ## What limits it next
//!
//! `explain` calls 12 passes for one i a conflict of degree 1.5: 8 would be enough if the lanes of a warp were numbered
//! differently ([`warp_tiled`](crate::warp_tiled) does it). But first, all warps of a block wait for global memory
//! before every step: [`double_buffered`](crate::double_buffered).
//!
//! ## Measured
//!
//! On an H200 37.7 TFLOP/s at N = 4096 and 15.8 at N = 1024, 75 % and 43 % of cuBLAS (f32 without TF32) in the same
//! run; [without them](crate::register_tile): 22.4 and 13.7.

use crate::launch::{Architecture, Kernel, LaunchShape, Precision, Registers, Signature, Tile};
use crate::register_column::first_element;
use crate::register_tile::add_outer_product;
use cuda_std::*;

/// Rows and columns of a block's tile of C.
pub const TILE: usize = 128;
/// Columns of A's tile and rows of B's: the products of one step.
pub const DEPTH: usize = 8;
/// A thread has OUTPUTS x OUTPUTS elements of C, in groups of GROUP x GROUP.
pub const OUTPUTS: usize = 8;
/// The floats of a vector: 16 bytes, the most that a thread can load at once.
pub const GROUP: usize = 4;
/// Threads along each side of the tile.
const SIDE: usize = TILE / OUTPUTS;
/// Threads of a block.
pub const THREADS: usize = SIDE * SIDE;
/// Words from one row of A's transposed tile to the next: four more than it needs.
pub const ROW_A: usize = TILE + GROUP;
/// Rows, and columns, from a thread's first four to its second four.
const APART: usize = TILE / 2;

/// What the host needs to know to launch [`vector_loads`].
pub const KERNEL: Kernel = Kernel {
    name: "vector_loads",
    title: "A's tile transposed, 16-byte loads throughout",
    entry: "vector_loads",
    architecture: Architecture::Compute70,
    precision: Precision::F32,
    signature: Signature::Plain,
    tile: Tile { m: TILE as u32, n: TILE as u32, k: DEPTH as u32 },
    block: [THREADS as u32, 1, 1],
    registers: Registers::ForBlocks(2),
    shared_bytes: (DEPTH * (ROW_A + TILE) * size_of::<f32>()) as u32,
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
pub unsafe fn vector_loads(a: *const f32, b: *const f32, c: *mut f32, m: usize, n: usize, k: usize) {
    let tile_a = shared_array![f32; DEPTH * ROW_A];
    let tile_b = shared_array![f32; DEPTH * TILE];
    let matrices = Matrices { a, b, c, m, n, k };
    if matrices.are_aligned() {
        product::<true>(&matrices, tile_a, tile_b);
    } else {
        product::<false>(&matrices, tile_a, tile_b);
    }
}

/// The kernel's work, with 16-byte loads and stores in global memory or without.
#[inline(always)]
unsafe fn product<const ALIGNED: bool>(matrices: &Matrices, tile_a: *mut f32, tile_b: *mut f32) {
    let first = first_element(TILE, TILE);
    let thread = thread::thread_idx_x() as usize;
    let (x, y) = (thread % SIDE * GROUP, thread / SIDE * GROUP);

    let mut sums = [[0.0; OUTPUTS]; OUTPUTS];
    for step in 0..matrices.k.div_ceil(DEPTH) {
        Share::load::<ALIGNED>(matrices, first, step).store::<ALIGNED>(tile_a, tile_b);
        thread::sync_threads();
        multiply::<APART, APART>(tile_a.add(y), tile_b.add(x), &mut sums);
        thread::sync_threads();
    }
    matrices.store::<ALIGNED, APART, APART, _, _>((first.0 + y, first.1 + x), &sums);
}

/// Four floats that are loaded or stored together.
#[repr(C, align(16))]
#[derive(Clone, Copy)]
pub(crate) struct Vector(pub [f32; GROUP]);

/// The three matrices of a product: A is `m` x `k`, B is `k` x `n`, C is `m` x `n`.
pub(crate) struct Matrices {
    pub a: *const f32,
    pub b: *const f32,
    pub c: *mut f32,
    pub m: usize,
    pub n: usize,
    pub k: usize,
}

impl Matrices {
    /// Whether every row of every matrix begins at a multiple of 16 bytes. Then rows are whole vectors, too.
    #[inline(always)]
    pub(crate) fn are_aligned(&self) -> bool {
        let begin = self.a as usize | self.b as usize | self.c as usize;
        begin.is_multiple_of(size_of::<Vector>()) && (self.n | self.k).is_multiple_of(GROUP)
    }

    /// Stores a thread's outputs: groups of GROUP x GROUP that begin at (`row`, `column`) of C and so many rows and
    /// columns further on, as far as they are inside.
    ///
    /// # Safety
    ///
    /// C must be there, and its rows aligned if ALIGNED.
    #[inline(always)]
    #[allow(clippy::needless_range_loop)] // r numbers rows of C as well
    pub(crate) unsafe fn store<
        const ALIGNED: bool,
        const ROWS_APART: usize,
        const COLUMNS_APART: usize,
        const ROWS: usize,
        const COLUMNS: usize,
    >(
        &self,
        (row, column): (usize, usize),
        sums: &[[f32; COLUMNS]; ROWS],
    ) {
        for r in 0..ROWS {
            let row = row + r / GROUP * ROWS_APART + r % GROUP;
            for group in 0..COLUMNS / GROUP {
                let column = column + group * COLUMNS_APART;
                let to = self.c.wrapping_add(row * self.n + column);
                let mut vector = Vector([0.0; GROUP]);
                for s in 0..GROUP {
                    vector.0[s] = sums[r][group * GROUP + s];
                }
                if ALIGNED {
                    if row < self.m && column < self.n {
                        *to.cast::<Vector>() = vector;
                    }
                } else {
                    for s in 0..GROUP {
                        if row < self.m && column + s < self.n {
                            *to.add(s) = vector.0[s];
                        }
                    }
                }
            }
        }
    }
}

/// What one thread carries of the two tiles of a step: four elements of each, in registers.
pub(crate) struct Share {
    a: Vector,
    b: Vector,
}

impl Share {
    /// Loads the thread's share of step `step` for the tile of C that begins at (`first_row`, `first_column`); zeros
    /// past an edge.
    ///
    /// # Safety
    ///
    /// The matrices must be there, their rows aligned if ALIGNED, and the block must have THREADS threads along x.
    #[inline(always)]
    pub(crate) unsafe fn load<const ALIGNED: bool>(
        &Matrices { a, b, m, n, k, .. }: &Matrices,
        (first_row, first_column): (usize, usize),
        step: usize,
    ) -> Share {
        let first_i = step * DEPTH;
        // How much of the tiles is inside the matrices, small enough for 32 bits.
        let (rows, columns, depth) =
            (inside(m, first_row, TILE), inside(n, first_column, TILE), inside(k, first_i, DEPTH));

        let (row, i) = Share::place_in_a::<ALIGNED>(0);
        let from = a.wrapping_add((first_row + row) * k + first_i + i);
        let a = Share::elements::<ALIGNED>(from, THREADS / DEPTH * k, |j| {
            let (row, i) = Share::place_in_a::<ALIGNED>(j);
            (row as u32) < rows && (i as u32) < depth
        });

        let (i, column) = Share::place_in_b::<ALIGNED>(0);
        let from = b.wrapping_add((first_i + i) * n + first_column + column);
        let b = Share::elements::<ALIGNED>(from, TILE / GROUP, |j| {
            let (i, column) = Share::place_in_b::<ALIGNED>(j);
            (i as u32) < depth && (column as u32) < columns
        });
        Share { a, b }
    }

    /// Four elements of a matrix, those that are `inside`, from one on: neighbours if ALIGNED, else `apart`. Zeros in
    /// the place of others.
    #[inline(always)]
    unsafe fn elements<const ALIGNED: bool>(from: *const f32, apart: usize, inside: impl Fn(usize) -> bool) -> Vector {
        let mut elements = Vector([0.0; GROUP]);
        if ALIGNED {
            // Rows are whole vectors, so a vector that begins inside is inside.
            if inside(0) {
                elements = *from.cast::<Vector>();
            }
        } else {
            for j in 0..GROUP {
                if inside(j) {
                    elements.0[j] = *from.wrapping_add(j * apart);
                }
            }
        }
        elements
    }

    /// Stores the share where it belongs in the tiles.
    ///
    /// # Safety
    ///
    /// The tiles must have DEPTH rows, of ROW_A and TILE words, and the share must have been loaded with the same
    /// ALIGNED.
    #[inline(always)]
    pub(crate) unsafe fn store<const ALIGNED: bool>(&self, tile_a: *mut f32, tile_b: *mut f32) {
        for j in 0..GROUP {
            let (row, i) = Share::place_in_a::<ALIGNED>(j);
            *tile_a.add(i * ROW_A + row) = self.a.0[j];
        }
        if ALIGNED {
            let (i, column) = Share::place_in_b::<ALIGNED>(0);
            *tile_b.add(i * TILE + column).cast::<Vector>() = self.b;
        } else {
            for j in 0..GROUP {
                let (i, column) = Share::place_in_b::<ALIGNED>(j);
                *tile_b.add(i * TILE + column) = self.b.0[j];
            }
        }
    }

    /// Row and column, in A's tile, of the `j`-th element that this thread carries.
    #[inline(always)]
    fn place_in_a<const ALIGNED: bool>(j: usize) -> (usize, usize) {
        let thread = thread::thread_idx_x() as usize;
        const VECTORS: usize = DEPTH / GROUP;
        if ALIGNED {
            (thread / VECTORS, thread % VECTORS * GROUP + j)
        } else {
            (thread / DEPTH + j * (THREADS / DEPTH), thread % DEPTH)
        }
    }

    /// Row and column, in B's tile, of the `j`-th element that this thread carries.
    #[inline(always)]
    fn place_in_b<const ALIGNED: bool>(j: usize) -> (usize, usize) {
        let thread = thread::thread_idx_x() as usize;
        const VECTORS: usize = TILE / GROUP;
        if ALIGNED {
            (thread / VECTORS, thread % VECTORS * GROUP + j)
        } else {
            (thread / VECTORS, thread % VECTORS + j * VECTORS)
        }
    }
}

/// How much of the `length` elements from `first` on is inside a matrix of `size` elements that way.
#[inline(always)]
fn inside(size: usize, first: usize, length: usize) -> u32 {
    size.saturating_sub(first).min(length) as u32
}

/// Adds a step's products to a thread's sums: for each of the DEPTH places, its OUTPUTS elements of A's tile by its
/// OUTPUTS of B's. Each of them is two vectors, which begin `APART` words from each other; the pointers are to the
/// first vector of the first place.
///
/// # Safety
///
/// Rows of the tiles must be ROW_A and TILE words long, and both pointers aligned to 16 bytes.
#[inline(always)]
pub(crate) unsafe fn multiply<const ROWS_APART: usize, const COLUMNS_APART: usize>(
    tile_a: *const f32,
    tile_b: *const f32,
    sums: &mut [[f32; OUTPUTS]; OUTPUTS],
) {
    for i in 0..DEPTH {
        let a_column = two_vectors::<ROWS_APART>(tile_a.add(i * ROW_A));
        let b_row = two_vectors::<COLUMNS_APART>(tile_b.add(i * TILE));
        add_outer_product(&a_column, &b_row, sums);
    }
}

/// The vector at `from` and the one APART words further on.
#[inline(always)]
unsafe fn two_vectors<const APART: usize>(from: *const f32) -> [f32; OUTPUTS] {
    let Vector([a, b, c, d]) = *from.cast::<Vector>();
    let Vector([e, f, g, h]) = *from.add(APART).cast::<Vector>();
    [a, b, c, d, e, f, g, h]
}
