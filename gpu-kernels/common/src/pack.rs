//! Matrices put where kernels can copy them.
//!
//! Copies by tensor maps want lines that begin at multiples of 16 bytes, tensor cores may take a factor along k only, and f32's kernels want f32. Where a
//! matrix lies otherwise, it is written anew: line by line as it lies, or its transpose, in the same elements or in f32.
//!
//! Packed lines begin at multiples of 16 bytes, and a thread writes 16 bytes at a time. A block is as many threads for a line as the line has pieces of
//! 16 bytes, up to a power of two, and takes several lines if they are short.

use cuda_std::*;

use crate::launch::LaunchShape;
use crate::vectors;

/// Threads of a block.
pub const THREADS: u32 = 256;
/// Rows and columns of a tile that is transposed.
const TILE: u32 = 32;
/// Words from a row of such a tile to the next: one more than it has, so that a column is spread over all banks.
const PITCH: u32 = TILE + 1;
/// Words of shared memory of a block.
pub const SHARED_WORDS: usize = (TILE * PITCH) as usize;

/// A matrix to be packed, or a batch of them.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct PackCall {
    /// The first matrix.
    pub from: u64,
    /// Where the address of each matrix of the batch is, instead of `from`, if it isn't 0.
    pub list: u64,
    /// Where the first packed matrix goes.
    pub to: u64,
    /// From a line to the next, in elements; of one that is transposed, from an element of a line to the next.
    pub from_pitch: u64,
    /// From a matrix of the batch to the next, in elements.
    pub from_batch: u64,
    /// From a packed line to the next, in elements: a multiple of 16 bytes.
    pub pitch: u64,
    /// From a packed matrix to the next, in elements.
    pub batch: u64,
    /// Packed lines.
    pub lines: u32,
    /// Elements of a packed line.
    pub length: u32,
    /// 1 if lines are packed across those in memory.
    pub is_transposed: u32,
    /// Threads for a line, as a power of two.
    pub width: u32,
    /// Blocks along a line.
    pub across: u32,
    /// Blocks for a matrix.
    pub blocks: u32,
}

impl PackCall {
    /// The call with what follows from the rest: how its blocks are laid out, if packed elements have so many bytes. `None` if there are too many.
    pub fn laid_out(self, bytes: u32) -> Option<PackCall> {
        let (width, lines, across) = if self.is_transposed != 0 {
            (0, TILE, self.length.div_ceil(TILE))
        } else {
            let pieces = self.length.div_ceil(16 / bytes);
            let width = pieces.next_power_of_two().min(THREADS);
            (width, THREADS / width, pieces.div_ceil(width))
        };
        let blocks = across as u64 * self.lines.div_ceil(lines) as u64;
        let blocks = u32::try_from(blocks).ok().filter(|&blocks| blocks < 1 << 30)?;
        Some(PackCall { width, across, blocks, ..self })
    }
}

/// The launch for two such matrices, or one and another without blocks, in batches of at most `count`.
pub fn launch_shape(a: &PackCall, b: &PackCall, count: u32) -> LaunchShape {
    LaunchShape { grid: [(a.blocks + b.blocks).max(1), 1, count], block: [THREADS, 1, 1], dynamic_shared_bytes: 0 }
}

/// Packs two factors: the first blocks along x `a`'s, the others `b`'s; the matrices of a batch along z. An element is loaded as 32 bits, and stored, of
/// `TO` bytes, with its neighbours.
///
/// # Safety
///
/// The calls must describe memory that the GPU can reach, apart from each other where it's written, the launch must have the shape that [`launch_shape`]
/// gives, and `tile` be the address of [`SHARED_WORDS`] words of shared memory.
#[inline(always)]
pub unsafe fn pack<const FROM: u64, const TO: u64>(
    a: &PackCall,
    b: &PackCall,
    tile: u32,
    load: impl Fn(u64) -> f32,
    store: impl Fn(u64, f32),
) {
    let block = thread::block_idx_x();
    if block < a.blocks {
        pack_one::<FROM, TO>(a, block, tile, &load, &store);
    } else {
        pack_one::<FROM, TO>(b, block - a.blocks, tile, &load, &store);
    }
}

#[inline(always)]
unsafe fn pack_one<const FROM: u64, const TO: u64>(
    call: &PackCall,
    block: u32,
    tile: u32,
    load: &impl Fn(u64) -> f32,
    store: &impl Fn(u64, f32),
) {
    let index = thread::block_idx_z();
    let from = match call.list {
        0 => call.from + FROM * index as u64 * call.from_batch,
        list => vectors::load_global_address(list + 8 * index as u64),
    };
    let to = call.to + TO * index as u64 * call.batch;
    // There is a block.
    core::hint::assert_unchecked(call.across != 0);
    let (down, across) = (block / call.across, block % call.across);
    if call.is_transposed != 0 {
        turn::<FROM, TO>(call, (from, to), (TILE * down, TILE * across), tile, load, store);
    } else {
        core::hint::assert_unchecked(call.width != 0);
        let thread = thread::thread_idx_x();
        let line = down * (THREADS / call.width) + thread / call.width;
        let piece = across * call.width + thread % call.width;
        if line < call.lines {
            copy::<FROM, TO>(call, (from, to), line, piece, load);
        }
    }
}

/// Packs a piece of a line that is one in memory: 16 bytes.
#[inline(always)]
unsafe fn copy<const FROM: u64, const TO: u64>(
    call: &PackCall,
    (from, to): (u64, u64),
    line: u32,
    piece: u32,
    load: &impl Fn(u64) -> f32,
) {
    let each = (16 / TO) as usize;
    let first = piece * each as u32;
    if first >= call.length {
        return;
    }
    let present = (call.length - first) as usize;
    let from = from + FROM * (line as u64 * call.from_pitch + first as u64);
    let mut values = [0.0f32; 8];
    for i in 0..each {
        if i < present {
            values[i] = load(from + FROM * i as u64);
        }
    }
    // What a line has no elements for is zeros, up to the next multiple of 16 bytes.
    let to = to + TO * (line as u64 * call.pitch + first as u64);
    let words = if TO == 4 {
        [values[0], values[1], values[2], values[3]]
    } else {
        let pair = |i: usize| f32::from_bits(values[i].to_bits() | values[i + 1].to_bits() << 16);
        [pair(0), pair(2), pair(4), pair(6)]
    };
    vectors::store_global(to, words);
}

/// Packs a tile of lines that lie across those in memory.
#[inline(always)]
unsafe fn turn<const FROM: u64, const TO: u64>(
    call: &PackCall,
    (from, to): (u64, u64),
    (line, element): (u32, u32),
    tile: u32,
    load: &impl Fn(u64) -> f32,
    store: &impl Fn(u64, f32),
) {
    let thread = thread::thread_idx_x();
    let (lane, warp) = (thread % TILE, thread / TILE);
    let rows = THREADS / TILE;
    for i in 0..TILE / rows {
        let row = warp + rows * i;
        if element + row < call.length && line + lane < call.lines {
            let value = load(from + FROM * ((element + row) as u64 * call.from_pitch + (line + lane) as u64));
            vectors::store_shared_word(tile + 4 * (row * PITCH + lane), value);
        }
    }
    thread::sync_threads();
    for i in 0..TILE / rows {
        let row = warp + rows * i;
        if line + row < call.lines && element + lane < call.length {
            let value = vectors::load_shared_word(tile + 4 * (lane * PITCH + row));
            store(to + TO * ((line + row) as u64 * call.pitch + (element + lane) as u64), value);
        }
    }
}

/// How a kernel that packs is described, by its entry's name.
pub const fn kernel(name: &'static str, architecture: crate::launch::Architecture) -> crate::launch::Kernel {
    use crate::launch::{Kernel, Precision, Registers, Signature, Tile};
    Kernel {
        name,
        title: "production: matrices written anew for kernels that can't copy them as they lie",
        entry: name,
        architecture,
        precision: Precision::F32,
        signature: Signature::Plain,
        tile: Tile { m: 1, n: 1, k: 1 },
        block: [THREADS, 1, 1],
        registers: Registers::Any,
        shared_bytes: 4 * SHARED_WORDS as u32,
        launch_shape: |_, _, _| None,
    }
}
