//! Matrices put where other kernels can copy them.
//!
//! Copies by tensor maps want lines that begin at multiples of 16 bytes, tensor cores take tf32 along k only, and f32's kernels want f32. Where a
//! matrix lies otherwise, one of these kernels writes it anew: line by line as it lies, or its transpose, in the same elements or in f32.

use cuda_std::*;
use kernel_common::elements::{Bf16, Half, F16};
use kernel_common::launch::{Architecture, Kernel, LaunchShape, Precision, Registers, Signature, Tile, MAX_GRID_YZ};
use kernel_common::{entry_facts, vectors};

/// Threads of a block along x: a warp.
const LANES: u32 = 32;
/// Threads of a block along y.
const WARPS: u32 = 8;
/// Elements of a line that a block packs.
const ELEMENTS: u32 = 256;
/// Lines that a block packs.
const LINES: u32 = 32;
/// Words from a row of a tile that is transposed to the next: one more than it has, so that a column is spread over all banks.
const PITCH: u32 = LANES + 1;

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
    /// From a packed line to the next, in elements.
    pub pitch: u64,
    /// From a packed matrix to the next, in elements.
    pub batch: u64,
    /// Packed lines.
    pub lines: u32,
    /// Elements of a packed line.
    pub length: u32,
    /// 1 if lines are packed across those in memory.
    pub is_transposed: u32,
    /// Matrices.
    pub count: u32,
}

/// Packs matrices of 16-bit elements.
pub const HALVES: Kernel = kernel("pack_halves");
/// Packs matrices of f32.
pub const WORDS: Kernel = kernel("pack_words");
/// Packs matrices of bf16 as f32.
pub const BF16_AS_F32: Kernel = kernel("pack_bf16_as_f32");
/// Packs matrices of f16 as f32.
pub const F16_AS_F32: Kernel = kernel("pack_f16_as_f32");

/// How the kernels of this file are described: by their entries' names.
const fn kernel(name: &'static str) -> Kernel {
    Kernel {
        name,
        title: "production: matrices written anew for kernels that can't copy them as they lie",
        entry: name,
        architecture: Architecture::Compute80,
        precision: Precision::F32,
        signature: Signature::Plain,
        tile: Tile { m: 1, n: 1, k: 1 },
        block: [LANES, WARPS, 1],
        registers: Registers::Any,
        shared_bytes: LINES * PITCH * 4,
        launch_shape: |_, _, _| None,
    }
}

/// The launch for matrices with so many lines of so many elements at most, `factors` of them, in batches of `count`.
pub fn launch_shape(lines: u32, length: u32, factors: u32, count: u32) -> LaunchShape {
    let most = MAX_GRID_YZ as u32;
    LaunchShape {
        grid: [
            length.div_ceil(ELEMENTS).max(1),
            lines.div_ceil(LINES).clamp(1, most),
            factors * count.clamp(1, most / factors),
        ],
        block: [LANES, WARPS, 1],
        dynamic_shared_bytes: 0,
    }
}

/// Declares the entries: what is done with an element, as 32 bits.
macro_rules! packing {
    ($($(#[$documentation:meta])* $entry:ident, $kernel:ident: $from:literal to $to:literal bytes, $load:expr, $store:expr;)*) => {$(
        $(#[$documentation])*
        ///
        /// Blocks with an even z pack `a`, those with an odd one `b`, if there are `factors` of 2.
        ///
        /// # Safety
        ///
        /// The calls must describe memory that the GPU can reach, apart from each other where it's written, and the launch must have the shape that
        /// [`launch_shape`] gives.
        #[kernel]
        pub unsafe fn $entry(a: PackCall, b: PackCall, factors: u32) {
            let tile = shared_array![f32; (LINES * PITCH) as usize];
            let z = thread::block_idx_z();
            let (call, first, step) = match factors {
                2 if z % 2 == 1 => (&b, z / 2, thread::grid_dim_z() / 2),
                2 => (&a, z / 2, thread::grid_dim_z() / 2),
                _ => (&a, z, thread::grid_dim_z()),
            };
            pack::<$from, $to>(call, first, step, vectors::shared_address(tile), $load, $store);
        }
        entry_facts!($entry, $kernel);
    )*};
}

packing! {
    /// Packs two factors of 16-bit elements.
    pack_halves, HALVES: 2 to 2 bytes,
        |from| f32::from_bits(vectors::load_global_half(from) as u32), |to, x| vectors::store_global_half(to, x.to_bits() as u16);
    /// Packs two factors of f32.
    pack_words, WORDS: 4 to 4 bytes, |from| vectors::load_global_word(from), |to, x| vectors::store_global_word(to, x);
    /// Packs two factors of bf16 as f32.
    pack_bf16_as_f32, BF16_AS_F32: 2 to 4 bytes,
        |from| Bf16::widen(vectors::load_global_half(from)), |to, x| vectors::store_global_word(to, x);
    /// Packs two factors of f16 as f32.
    pack_f16_as_f32, F16_AS_F32: 2 to 4 bytes,
        |from| F16::widen(vectors::load_global_half(from)), |to, x| vectors::store_global_word(to, x);
}

/// Packs the matrices of a batch from `first` on, every `step`-th.
#[inline(always)]
unsafe fn pack<const FROM: u64, const TO: u64>(
    call: &PackCall,
    first: u32,
    step: u32,
    tile: u32,
    load: impl Fn(u64) -> f32,
    store: impl Fn(u64, f32),
) {
    let mut index = first;
    while index < call.count {
        let from = match call.list {
            0 => call.from + FROM * index as u64 * call.from_batch,
            list => vectors::load_global_address(list + 8 * index as u64),
        };
        let to = call.to + TO * index as u64 * call.batch;
        let element = thread::block_idx_x() * ELEMENTS;
        let mut line = thread::block_idx_y() * LINES;
        while line < call.lines {
            if call.is_transposed != 0 {
                across::<FROM, TO>(call, from, to, line, element, tile, &load, &store);
            } else {
                along::<FROM, TO>(call, from, to, line, element, &load, &store);
            }
            line += thread::grid_dim_y() * LINES;
        }
        index += step;
    }
}

/// Packs lines that are lines: each warp every 8th.
#[inline(always)]
unsafe fn along<const FROM: u64, const TO: u64>(
    call: &PackCall,
    from: u64,
    to: u64,
    line: u32,
    element: u32,
    load: &impl Fn(u64) -> f32,
    store: &impl Fn(u64, f32),
) {
    const EACH: usize = (ELEMENTS / LANES) as usize;
    let lane = thread::thread_idx_x();
    let mut at = line + thread::thread_idx_y();
    while at < call.lines && at < line + LINES {
        let from = from + FROM * (at as u64 * call.from_pitch + (element + lane) as u64);
        let to = to + TO * (at as u64 * call.pitch + (element + lane) as u64);
        let is_inside = |i: usize| element + lane + LANES * (i as u32) < call.length;
        // All are on their way before the first is stored.
        let mut values = [0.0; EACH];
        for i in 0..EACH {
            if is_inside(i) {
                values[i] = load(from + FROM * (LANES as u64 * i as u64));
            }
        }
        for i in 0..EACH {
            if is_inside(i) {
                store(to + TO * (LANES as u64 * i as u64), values[i]);
            }
        }
        at += WARPS;
    }
}

/// Packs lines across those in memory, by tiles of 32 x 32.
#[inline(always)]
#[allow(clippy::too_many_arguments)] // The address of a tile, besides what the other way needs.
unsafe fn across<const FROM: u64, const TO: u64>(
    call: &PackCall,
    from: u64,
    to: u64,
    line: u32,
    element: u32,
    tile: u32,
    load: &impl Fn(u64) -> f32,
    store: &impl Fn(u64, f32),
) {
    let (lane, warp) = (thread::thread_idx_x(), thread::thread_idx_y());
    let mut first = element;
    while first < call.length && first < element + ELEMENTS {
        for i in 0..LANES / WARPS {
            let row = warp + WARPS * i;
            if first + row < call.length && line + lane < call.lines {
                let value = load(from + FROM * ((first + row) as u64 * call.from_pitch + (line + lane) as u64));
                vectors::store_shared_word(tile + 4 * (row * PITCH + lane), value);
            }
        }
        thread::sync_threads();
        for i in 0..LANES / WARPS {
            let row = warp + WARPS * i;
            if line + row < call.lines && first + lane < call.length {
                let value = vectors::load_shared_word(tile + 4 * (lane * PITCH + row));
                store(to + TO * ((line + row) as u64 * call.pitch + (first + lane) as u64), value);
            }
        }
        // The tile is written again.
        thread::sync_threads();
        first += LANES;
    }
}
