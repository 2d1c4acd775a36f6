//! How a block brings its piece of A, or of B, into shared memory.
//!
//! The two are alike. *Outer* is the dimension that isn't K: the rows of A, the columns of B. In shared memory a piece is
//! TILE_K rows of TILE words, outer elements side by side, so that a thread's next operands are vectors. In global memory
//! either dimension can be the contiguous one, and that decides how to copy: [`Way`].

use core::marker::PhantomData;

use kernel_common::{copies, vectors};

/// How the elements of a piece are copied.
pub trait Way {
    /// As whoever launches the kernel chooses it.
    const COPYING: Copying;
}

/// The ways by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Copying {
    /// K is contiguous, at any alignment: word by word, 8 lanes along K, so that a warp asks for 4 whole sectors, and
    /// transposed on the way.
    AlongK,
    /// The outer dimension is contiguous, every row begins at a multiple of 16 bytes, and the outer size is a multiple of
    /// 4: 16 bytes at a time.
    Vectors,
    /// The outer dimension is contiguous, at any alignment: word by word.
    Words,
}

/// [`Copying::AlongK`].
pub struct AlongK;
/// [`Copying::Vectors`].
pub struct Vectors;
/// [`Copying::Words`].
pub struct Words;

impl Way for AlongK {
    const COPYING: Copying = Copying::AlongK;
}
impl Way for Vectors {
    const COPYING: Copying = Copying::Vectors;
}
impl Way for Words {
    const COPYING: Copying = Copying::Words;
}

/// The operands of a block's tile: A and B together.
pub struct Operands<A: Way, B: Way, const TILE_M: usize, const TILE_N: usize, const TILE_K: usize, const THREADS: usize>
{
    /// The rows of A.
    pub a: Operand<A, TILE_M, TILE_K, THREADS>,
    /// The columns of B.
    pub b: Operand<B, TILE_N, TILE_K, THREADS>,
}

impl<A: Way, B: Way, const TILE_M: usize, const TILE_N: usize, const TILE_K: usize, const THREADS: usize>
    Operands<A, B, TILE_M, TILE_N, TILE_K, THREADS>
{
    /// Words from a row of A's piece to the next.
    pub const ROW_A: usize = Operand::<A, TILE_M, TILE_K, THREADS>::ROW;
    /// Words from a row of B's piece to the next.
    pub const ROW_B: usize = Operand::<B, TILE_N, TILE_K, THREADS>::ROW;
    /// Where B's piece begins in a stage, after A's, in bytes.
    pub const B_IN_STAGE: u32 = (Self::ROW_A * TILE_K * 4) as u32;
    /// Bytes of a stage.
    pub const STAGE_BYTES: u32 = Self::B_IN_STAGE + (Self::ROW_B * TILE_K * 4) as u32;
    /// Passes over both pieces.
    pub const PASSES: usize = Self::PASSES_A + Operand::<B, TILE_N, TILE_K, THREADS>::PASSES;
    const PASSES_A: usize = Operand::<A, TILE_M, TILE_K, THREADS>::PASSES;

    /// See [`Operand::copy`]; the passes over A come first.
    ///
    /// # Safety
    ///
    /// As there.
    #[inline(always)]
    pub unsafe fn copy(&self, stage: u32, pass: usize, wanted: u32) {
        if pass < Self::PASSES_A {
            self.a.copy(stage, pass, wanted);
        } else {
            self.b.copy(stage + Self::B_IN_STAGE, pass - Self::PASSES_A, wanted);
        }
    }

    /// See [`Operand::first`].
    ///
    /// # Safety
    ///
    /// As there.
    #[inline(always)]
    pub unsafe fn first(&self, stage: u32, depth: u32) {
        self.a.first(stage, depth);
        self.b.first(stage + Self::B_IN_STAGE, depth);
    }

    /// See [`Operand::fill`].
    ///
    /// # Safety
    ///
    /// As there.
    #[inline(always)]
    pub unsafe fn fill(&self, stage: u32) {
        self.a.fill(stage);
        self.b.fill(stage + Self::B_IN_STAGE);
    }

    /// See [`Operand::advance`].
    #[inline(always)]
    pub fn advance(&mut self, depth: u32) {
        self.a.advance(depth);
        self.b.advance(depth);
    }
}

/// The most copies of one thread along the outer dimension.
const MOST_PASSES: usize = 16;

/// A thread's share of the copies, for pieces of TILE x TILE_K.
///
/// The block makes several *passes* over a piece, and in each of them every thread copies a word, or a vector.
///
/// Past the edge along the outer dimension it goes on with the matrix's first elements: what becomes of them are outputs
/// that nobody stores. (The last element would do too, again and again, but copies of one word to many places are done
/// one after the other.) Only where the tile is narrow, and the matrix narrower still, threads without an element of
/// their own don't copy: their places hold zeros. Along K there is no edge but in the first piece, see
/// [`first`](Operand::first).
pub struct Operand<W: Way, const TILE: usize, const TILE_K: usize, const THREADS: usize> {
    /// Where this thread's element of each pass along the outer dimension lies, in the piece that is copied next.
    sources: [u64; MOST_PASSES],
    /// Bytes from an element to the next one along K.
    k_stride: u64,
    /// Bytes from the start of a stage to where this thread's first element goes.
    target: u32,
    /// This thread's element along K in the first pass.
    k: u32,
    /// Whether there is work for this thread at all.
    has_work: bool,
    way: PhantomData<W>,
}

impl<W: Way, const TILE: usize, const TILE_K: usize, const THREADS: usize> Operand<W, TILE, TILE_K, THREADS> {
    const BY_VECTORS: bool = matches!(W::COPYING, Copying::Vectors);
    const ALONG_K: bool = matches!(W::COPYING, Copying::AlongK);

    /// Words from a row in shared memory to the next. When words are transposed, a warp's 8 x 4 of them go to 8 rows:
    /// with 4 words more per row they go to 32 different banks.
    pub const ROW: usize = if Self::BY_VECTORS { TILE } else { TILE + 4 };
    /// Passes over a piece.
    pub const PASSES: usize = Self::OUTER_PASSES * Self::K_PASSES;

    /// Threads that have work: a piece may have fewer vectors than the block has threads.
    const WORKERS: usize = if Self::BY_VECTORS && TILE * TILE_K / 4 < THREADS { TILE * TILE_K / 4 } else { THREADS };
    /// Elements, or vectors, that a pass has along the outer dimension, and along K. Vectors: all of a thread's lie in one
    /// row.
    const OUTER: usize = if Self::BY_VECTORS {
        Self::WORKERS / TILE_K
    } else if TILE < THREADS / 8 {
        TILE
    } else {
        THREADS / 8
    };
    const K: usize = Self::WORKERS / Self::OUTER;
    const WIDTH: usize = if Self::BY_VECTORS { 4 } else { 1 };
    const OUTER_PASSES: usize = TILE / (Self::OUTER * Self::WIDTH);
    const K_PASSES: usize = TILE_K / Self::K;

    /// Whether a thread may be without an element of its own in every pass.
    const NARROW: bool = TILE <= 32 && Self::OUTER_PASSES == 1;

    /// Whether pieces of this size can be shared out.
    const FITS: () = assert!(
        Self::OUTER_PASSES * Self::OUTER * Self::WIDTH == TILE
            && Self::K_PASSES * Self::K == TILE_K
            && Self::OUTER * Self::K == Self::WORKERS
            && Self::OUTER_PASSES <= MOST_PASSES
    );

    /// The copies of the pieces that begin at `start`, which is the matrix's first element along K, for the tile that
    /// begins with outer element `first` of `size`. Strides are in elements, from an element to the next along either
    /// dimension; the way of copying takes one of them for 1.
    ///
    /// # Safety
    ///
    /// `first` must be less than `size`, and the matrix as the way of copying asks for it.
    #[inline(always)]
    pub unsafe fn new(
        start: *const f32,
        (first, size): (u32, u32),
        outer_stride: u64,
        k_stride: u64,
        thread: u32,
    ) -> Self {
        let () = Self::FITS;
        let (outer, k) = if Self::ALONG_K {
            (thread / 8 % Self::OUTER as u32, thread % 8 + thread / (8 * Self::OUTER as u32) * 8)
        } else {
            (thread % Self::OUTER as u32, thread / Self::OUTER as u32)
        };
        let (outer_stride, k_stride) = if Self::ALONG_K { (outer_stride * 4, 4) } else { (4, k_stride * 4) };
        let in_row = start as u64 + k as u64 * k_stride;
        let mut sources = [0; MOST_PASSES];
        for pass in 0..Self::OUTER_PASSES {
            let element = first + (outer + (pass * Self::OUTER) as u32) * Self::WIDTH as u32;
            sources[pass] = in_row + around(element, size, Self::WIDTH as u32) as u64 * outer_stride;
        }
        let target = (k * Self::ROW as u32 + outer * Self::WIDTH as u32) * 4;
        let has_work = (Self::WORKERS == THREADS || thread < Self::WORKERS as u32)
            && (!Self::NARROW || first + outer * (Self::WIDTH as u32) < size);
        Operand { sources, k_stride, target, k, has_work, way: PhantomData }
    }

    /// Where the element of a pass lies, and where in shared memory it goes.
    #[inline(always)]
    fn places(&self, stage: u32, pass: usize) -> (u64, u32) {
        let (outer, k) = (pass % Self::OUTER_PASSES, pass / Self::OUTER_PASSES);
        let from = self.sources[outer] + (k * Self::K) as u64 * self.k_stride;
        let to = stage + self.target + ((k * Self::K * Self::ROW + outer * Self::OUTER * Self::WIDTH) * 4) as u32;
        (from, to)
    }

    /// Asks for a pass of the next piece, into the stage at that shared address, unless `wanted` is 0.
    ///
    /// # Safety
    ///
    /// If `wanted` isn't 0, the matrix must have TILE_K more elements along K, and nobody may use that part of the stage.
    #[inline(always)]
    pub unsafe fn copy(&self, stage: u32, pass: usize, wanted: u32) {
        let (from, to) = self.places(stage, pass);
        let wanted = if self.has_work { wanted } else { 0 };
        if Self::BY_VECTORS {
            copies::copy_vector(to, from, wanted);
        } else {
            copies::copy_word(to, from, wanted);
        }
    }

    /// Asks for the first piece, of which only the first `depth` elements along K exist; the others become zeros, which add
    /// nothing to any sum.
    ///
    /// # Safety
    ///
    /// As for [`copy`](Operand::copy), with `depth` elements.
    #[inline(always)]
    pub unsafe fn first(&self, stage: u32, depth: u32) {
        if !self.has_work {
            return;
        }
        for pass in 0..Self::PASSES {
            let (from, to) = self.places(stage, pass);
            let missing = self.k + (pass / Self::OUTER_PASSES * Self::K) as u32 >= depth;
            let bytes = if missing { 0 } else { 4 * Self::WIDTH as u32 };
            if Self::BY_VECTORS {
                copies::copy_vector_or_zeros(to, from, bytes);
            } else {
                copies::copy_word_or_zeros(to, from, bytes);
            }
        }
    }

    /// Fills this thread's places in a stage with zeros if it will never copy anything there.
    ///
    /// # Safety
    ///
    /// Nobody may use those places.
    #[inline(always)]
    pub unsafe fn fill(&self, stage: u32) {
        if Self::NARROW && !self.has_work {
            for pass in 0..Self::PASSES {
                let (_, to) = self.places(stage, pass);
                if !Self::BY_VECTORS {
                    vectors::store_shared_word(to, 0.0);
                } else if self.k < TILE_K as u32 {
                    vectors::store_shared(to, [0.0; 4]);
                }
            }
        }
    }

    /// Goes on to the piece that begins `depth` elements further along K.
    #[inline(always)]
    pub fn advance(&mut self, depth: u32) {
        for pass in 0..Self::OUTER_PASSES {
            self.sources[pass] += depth as u64 * self.k_stride;
        }
    }
}

/// An element of `size`: past the last one it goes on with the first ones. Where the matrix is so small that these end
/// too, it's the last one, or the first of the last `width`.
#[inline(always)]
fn around(element: u32, size: u32, width: u32) -> u32 {
    if element < size {
        element
    } else {
        core::cmp::min(element - size, size - width)
    }
}
