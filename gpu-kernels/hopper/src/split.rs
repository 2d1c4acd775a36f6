//! From numbers of f32 to two parts of f16, for products as exact as f32's on tensor cores.
//!
//! Along k, up to 128 numbers of a line (a row of A, a column of B) are a *block*. A block is scaled by a power of two so that its largest number is
//! between 2^11 and 2^15; then it is large + small, each rounded to f16. That has the 22 bits that f16 has twice, but for what is smaller than 2^-36
//! of the block's largest.
//!
//! If the blocks of a line have the same scale, their sums can be [added as they are](crate::parts). So that they have, each looks at a *sample* of its line,
//! the first 32 numbers, and takes the scale that brings the sample's largest number to between 2^12 and 2^13, if its own largest one is then where it
//! should be. Else, and without a sample, its own comes to between 2^14 and 2^15. (Of 128 normal numbers the largest is, but for one time in millions, from half to less than eight times as
//! large as the power of two of the largest of 32.)
//!
//! Of 32 numbers the 32 large parts come first, then the 32 small ones: a row of 128 bytes of a tile, or its 64 rows.
//!
//! # When it isn't enough
//!
//! A number that is much smaller than its block's largest loses bits, and they may matter: if the other factor is large just there. So numbers have a
//! *weight*
//!
//! ```text
//!   weight = min(magnitude / (2^-7 of the largest's power of two), 1)
//! ```
//!
//! and a block is *suspect*
//!
//! - if its weights add up to less than three quarters of its n numbers (zeros weigh nothing),
//! - if its largest isn't between 2^-48 and 2^60, so that scales and their products are normal numbers,
//! - or if one of them isn't finite.
//!
//! Of two weights v and w, v w >= v + w - 1. So if neither factor has a suspect block, the magnitudes of a block's n products add up to n / 2 times
//! 2^(a + b - 14) or more, where the largest are scaled to 2^a and 2^b. Only numbers below 2^-2 lose some of the 22 bits, 2^-25 at most; they weigh next to nothing, so
//! that they are no more than a quarter of the n, and the products' loss is n / 4 times (2^(a + 1) + 2^(b + 1)) 2^-25. With a and b from 11 to 14 that's 2^-21
//! of the sum of the magnitudes at most. If there is a suspect block, the whole product is computed otherwise.
//!
//! Weights are added up in f16, two at a time, and may be 2^-10 of their sum off.
//!
//! So that no block has few numbers (of which a quarter is soon small, by chance), the last two share what is left.

use cuda_std::*;
use kernel_common::launch::{Architecture, Kernel, Precision, Registers, Signature, Tile};
use kernel_common::{entry_facts, grids, vectors};

/// The most numbers of a block.
pub const BLOCK: u32 = 128;
/// Threads of a block of threads.
pub const THREADS: u32 = 256;
/// Lines along k that a block of threads splits, a block of numbers of each. So A and B of 512 x 512 are split by no more blocks than there are
/// multiprocessors, and each has room beside a block of the product before.
pub const LINES_ALONG: u32 = 32;
/// Lines across k that a block of threads splits.
pub const LINES_ACROSS: u32 = 32;
/// Warps of a block of threads.
const WARPS: u32 = THREADS / 32;
/// What the power of two of a block's largest number is scaled to at most, as an exponent.
const SCALED: u32 = 14;
/// How much less it may be if other blocks of the line have the same scale then.
const LESS: u32 = 3;
/// How much less that of a sample's largest number is.
const SAMPLED_LESS: u32 = 2;
/// The bits of an exponent, of a number that isn't negative.
const EXPONENT: u32 = 0xff80_0000;
/// The exponents of the largest numbers of blocks that aren't suspect, with f32's bias: 2^-48 and 2^60.
const LEAST: u32 = 127 - 48;
const MOST: u32 = 127 + 60;
/// Numbers of a sample.
const SAMPLE: u32 = 32;
/// The least number whose weight is 1, scaled so that the largest's power of two is 2^[`SCALED`].
const HEAVY: u32 = 1 << (SCALED - 7);
/// The same as a pair of f16.
#[cfg(target_arch = "nvptx64")]
const HEAVY_PAIR: u32 = 0x5800_5800;

/// A factor to be split.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct SplitCall {
    /// The numbers.
    pub from: u64,
    /// Where the parts go: lines of `pitch` elements along k, or rows of `pitch` elements across it.
    pub to: u64,
    /// Where the scales go: for each block along k, one for each line, `scale_pitch` apart.
    pub scales: u64,
    /// From a line to the next (or, across k, from one k to the next), in numbers.
    pub from_pitch: u64,
    /// From one factor of a batch to the next, in numbers.
    pub from_batch: u64,
    /// The same for the parts, in elements of f16.
    pub pitch: u64,
    /// From the parts of one factor of a batch to those of the next.
    pub batch_pitch: u64,
    /// From the scales of one block along k to those of the next.
    pub scale_pitch: u64,
    /// From the scales of one factor of a batch to those of the next.
    pub scale_batch: u64,
    /// Lines.
    pub lines: u32,
    /// The inner dimension.
    pub k: u32,
    /// 1 if neighbours in memory are neighbouring lines.
    pub is_across: u32,
    /// 1 if 16 bytes can be read at a time.
    pub is_aligned: u32,
    /// Blocks of threads.
    pub blocks: u32,
    /// 1 if the blocks of a line should have the same scale: of A and B the same.
    pub is_sampled: u32,
}

/// Splits A and B. Block x of threads splits a part of A, or, from A's number of blocks on, of B; y is the product of the batch. It leaves 1 in its
/// word of `flags`, those of one product after those of the other, if one of its blocks of numbers is suspect, else 0.
///
/// # Safety
///
/// The calls must describe memory that the GPU can reach, with room for the parts and the scales, and `flags` memory with room for a word for each block; a
/// launch has [`THREADS`] threads a block.
#[kernel]
pub unsafe fn split(a: SplitCall, b: SplitCall, flags: u64) {
    grids::let_the_next_grid_begin();
    grids::wait_for_the_grid_before();
    let block = thread::block_idx_x();
    // With a path of its own each, what isn't sampled has no instruction more than it needs; small products notice.
    let is_suspect = match (block < a.blocks, a.is_sampled != 0) {
        (true, false) => split_part::<false>(&a, block),
        (true, true) => split_part::<true>(&a, block),
        (false, false) => split_part::<false>(&b, block - a.blocks),
        (false, true) => split_part::<true>(&b, block - a.blocks),
    };
    let is_suspect = thread::sync_threads_or(is_suspect as u32) != 0;
    if thread::thread_idx_x() == 0 {
        let flag = thread::block_idx_y() as u64 * thread::grid_dim_x() as u64 + block as u64;
        vectors::store_global_word(flags + 4 * flag, f32::from_bits(is_suspect as u32));
    }
}

/// How [`split`] is launched.
pub const SPLIT: Kernel = Kernel {
    name: "split",
    title: "production: from f32 to two parts of f16",
    entry: "split",
    architecture: Architecture::Compute90a,
    precision: Precision::F32Parts,
    signature: Signature::Plain,
    tile: Tile { m: 1, n: 1, k: 1 },
    block: [THREADS, 1, 1],
    registers: Registers::ForBlocks(1),
    shared_bytes: 0,
    launch_shape: |_, _, _| None,
};

entry_facts!(split, SPLIT);

#[inline(always)]
unsafe fn split_part<const SAMPLED: bool>(call: &SplitCall, block: u32) -> bool {
    if call.is_across != 0 {
        across::<SAMPLED>(call, block)
    } else {
        along::<SAMPLED>(call, block)
    }
}

/// Where a block's numbers begin, and how many there are.
#[inline(always)]
fn numbers_of(block: u32, k: u32) -> (u32, u32) {
    let blocks = k.div_ceil(BLOCK);
    let of_last_two = k - BLOCK * blocks.saturating_sub(2);
    if blocks < 2 || block + 2 < blocks {
        return (BLOCK * block, BLOCK.min(k - BLOCK * block));
    }
    // A multiple of 4, so that the next one begins at a multiple of 16 bytes.
    let last_but_one = (of_last_two / 2).next_multiple_of(4);
    if block + 2 == blocks {
        (BLOCK * block, last_but_one)
    } else {
        (BLOCK * (block - 1) + last_but_one, of_last_two - last_but_one)
    }
}

/// A warp has a block of each of 4 lines, and a lane 4 of its numbers. Gives whether one that this lane speaks for is suspect.
#[inline(always)]
unsafe fn along<const SAMPLED: bool>(call: &SplitCall, block: u32) -> bool {
    const LINES: usize = (LINES_ALONG / WARPS) as usize;
    const { assert!(LINES == 4) };
    let thread = thread::thread_idx_x();
    let (warp, lane) = (thread / 32, thread % 32);
    let groups = call.lines.div_ceil(LINES_ALONG);
    core::hint::assert_unchecked(groups != 0);
    let (k_block, group) = (block / groups, block % groups);
    let (start, present) = numbers_of(k_block, call.k);
    let product = thread::block_idx_y() as u64;
    let first_line = LINES_ALONG * group + LINES as u32 * warp;
    let is_whole = call.is_aligned != 0 && present == BLOCK;
    let (mut numbers, mut samples) = ([[0.0f32; 4]; LINES], [0.0f32; LINES]);
    for i in 0..LINES {
        let line = first_line + i as u32;
        if line < call.lines {
            let line = call.from + 4 * (product * call.from_batch + line as u64 * call.from_pitch);
            if SAMPLED && lane < call.k {
                samples[i] = vectors::load_global_word(line + 4 * lane as u64);
            }
            let row = line + 4 * (start + 4 * lane) as u64;
            if is_whole {
                numbers[i] = vectors::load_global(row);
            } else {
                for j in 0..4 {
                    if 4 * lane + (j as u32) < present {
                        numbers[i][j] = vectors::load_global_word(row + 4 * j as u64);
                    }
                }
            }
        }
    }
    // What all lanes know of the line that a lane speaks for: the first lane of the first, the second of the second and so on. And the weights of two
    // lines each.
    let (mut own_scale_and_largest, mut both_weights) = ((0, 0), [0; LINES / 2]);
    for i in 0..LINES {
        let x = numbers[i];
        let line = first_line + i as u32;
        let largest = larger(larger(larger(larger(0.0, x[0]), x[1]), x[2]), x[3]);
        let largest = warp_most(largest.to_bits());
        let mut scale = own_scale(largest);
        if SAMPLED {
            scale = shared_scale(scale, warp_most(larger(0.0, samples[i]).to_bits()));
        }
        let (large, small, weights) =
            split_four(x, [up(scale); 4], SAMPLED.then(|| [lift(scale, largest) * 0x0001_0001; 2]));
        let [low, high] = numbers_of_pair(add_pairs(weights[0], weights[1]));
        both_weights[i / 2] |= (low + high) << (16 * (i % 2) as u32);
        if lane == i as u32 {
            own_scale_and_largest = (scale, largest);
        }
        if line < call.lines {
            let place = k_block * 2 * BLOCK + lane / 8 * 64 + lane % 8 * 4;
            let to = call.to + 2 * (product * call.batch_pitch + line as u64 * call.pitch + place as u64);
            vectors::store_global_pair(to, large);
            vectors::store_global_pair(to + 64, small);
        }
    }
    let both_weights = both_weights.map(warp_sum);
    let line = first_line + lane;
    if lane < LINES as u32 && line < call.lines {
        let at = product * call.scale_batch + k_block as u64 * call.scale_pitch + line as u64;
        let (scale, largest) = own_scale_and_largest;
        let both = if lane < 2 { both_weights[0] } else { both_weights[1] };
        return leave(call, at, scale, largest, both >> (16 * (lane % 2)) & 0xffff, present);
    }
    false
}

/// A lane has 4 lines, and a warp 32 lines of 4 places along k at a time, 4 times. Gives whether a block that this lane speaks for is suspect.
#[inline(always)]
unsafe fn across<const SAMPLED: bool>(call: &SplitCall, block: u32) -> bool {
    /// Lanes that have all lines of a place.
    const LANES: u32 = LINES_ACROSS / 4;
    /// Places along k that a warp has at a time.
    const PLACES: u32 = 32 / LANES;
    const TIMES: usize = (BLOCK / (WARPS * PLACES)) as usize;
    const { assert!(WARPS * PLACES == SAMPLE) };
    // Of each line the largest number of its block, then of its sample, then of each two lines their weights.
    let largest_of = vectors::shared_address(shared_array![u32; 32 + 32 + 16]);
    let sampled_of = largest_of + 4 * LINES_ACROSS;
    let weights_of = sampled_of + 4 * LINES_ACROSS;
    let thread = thread::thread_idx_x();
    let (warp, lane) = (thread / 32, thread % 32);
    let groups = call.lines.div_ceil(LINES_ACROSS);
    core::hint::assert_unchecked(groups != 0);
    let (k_block, group) = (block / groups, block % groups);
    let (start, present) = numbers_of(k_block, call.k);
    let of_block = 4 * (lane % LANES);
    let line = group * LINES_ACROSS + of_block;
    let lines = call.lines.saturating_sub(line).min(4);
    let first = PLACES * warp + lane / LANES;
    let product = thread::block_idx_y() as u64;
    let is_whole = call.is_aligned != 0 && lines == 4;
    let load = |k: u32| {
        let mut x = [0.0f32; 4];
        let row = call.from + 4 * (product * call.from_batch + k as u64 * call.from_pitch + line as u64);
        if is_whole {
            x = vectors::load_global(row);
        } else {
            for j in 0..4 {
                if (j as u32) < lines {
                    x[j] = vectors::load_global_word(row + 4 * j as u64);
                }
            }
        }
        x
    };
    let (mut x, mut sample) = ([[0.0f32; 4]; TIMES], [0.0f32; 4]);
    for i in 0..TIMES {
        let k = first + WARPS * PLACES * i as u32;
        if k < present {
            x[i] = load(start + k);
        }
    }
    if SAMPLED && first < call.k {
        sample = load(first);
    }
    // While the numbers are on their way.
    if thread < LINES_ACROSS / 2 * 5 {
        vectors::store_shared_word(largest_of + 4 * thread, 0.0);
    }
    thread::sync_threads();
    for j in 0..4 {
        let mut own = 0.0;
        for i in 0..TIMES {
            own = larger(own, x[i][j]);
        }
        shared_maximum(largest_of + 4 * (of_block + j as u32), own.to_bits());
        if SAMPLED {
            shared_maximum(sampled_of + 4 * (of_block + j as u32), larger(0.0, sample[j]).to_bits());
        }
    }
    thread::sync_threads();
    let largest = vectors::load_shared(largest_of + 4 * of_block).map(f32::to_bits);
    let mut scales = largest.map(own_scale);
    if SAMPLED {
        let sampled = vectors::load_shared(sampled_of + 4 * of_block).map(f32::to_bits);
        for j in 0..4 {
            scales[j] = shared_scale(scales[j], sampled[j]);
        }
    }
    let lift_of = |j: usize| lift(scales[j], largest[j]);
    let (ups, lifts) = (scales.map(up), SAMPLED.then(|| [0, 2].map(|j| lift_of(j) | lift_of(j + 1) << 16)));
    let mut weights = [0; 2];
    for i in 0..TIMES {
        let (large, small, own) = split_four(x[i], ups, lifts);
        weights = [add_pairs(weights[0], own[0]), add_pairs(weights[1], own[1])];
        let k = first + WARPS * PLACES * i as u32;
        // The pitch has room for lines to a multiple of 8.
        if lines > 0 {
            let row = k_block * 2 * BLOCK + k / 32 * 64 + k % 32;
            let to = call.to + 2 * (product * call.batch_pitch + row as u64 * call.pitch + line as u64);
            vectors::store_global_pair(to, large);
            vectors::store_global_pair(to + 2 * 32 * call.pitch, small);
        }
    }
    for i in 0..2 {
        let [low, high] = numbers_of_pair(weights[i]);
        shared_sum(weights_of + 4 * (of_block / 2 + i as u32), low | high << 16);
    }
    thread::sync_threads();
    let line = group * LINES_ACROSS + thread;
    if thread < LINES_ACROSS && line < call.lines {
        let largest = vectors::load_shared_word(largest_of + 4 * thread).to_bits();
        let both = vectors::load_shared_word(weights_of + 4 * (thread / 2)).to_bits();
        let at = product * call.scale_batch + k_block as u64 * call.scale_pitch + line as u64;
        let mut scale = own_scale(largest);
        if SAMPLED {
            scale = shared_scale(scale, vectors::load_shared_word(sampled_of + 4 * thread).to_bits());
        }
        return leave(call, at, scale, largest, both >> (16 * (thread % 2)) & 0xffff, present);
    }
    false
}

/// The power of two that becomes 2^[`SCALED`], as the bits of a number, if a block looks at nothing but its own largest magnitude.
#[inline(always)]
fn own_scale(largest: u32) -> u32 {
    largest & EXPONENT
}

/// The same if other blocks of the line have the same sample: the sample's, if the block's `own` is close to it, or there is nothing but zeros to be scaled.
#[inline(always)]
fn shared_scale(own: u32, sampled: u32) -> u32 {
    let shared = ((sampled & EXPONENT) + (SAMPLED_LESS << 23)).max(LEAST << 23);
    if own == 0 || shared.wrapping_sub(own) <= LESS << 23 {
        shared
    } else {
        own
    }
}

/// What a block's numbers are multiplied by. (If its largest isn't within the bounds, the block is suspect, and it doesn't matter; if there's nothing but
/// zeros, this is a number.)
#[inline(always)]
fn up(scale: u32) -> f32 {
    f32::from_bits(((127 + 127 + SCALED) << 23) - scale)
}

/// What scaled numbers are multiplied by for their weights, as f16: 1, or more if the block has another scale than its own.
#[inline(always)]
fn lift(scale: u32, largest: u32) -> u32 {
    // Of nothing but zeros it doesn't matter.
    const { assert!(LESS == 3) };
    (15 + (scale.wrapping_sub(own_scale(largest)) >> 23 & LESS)) << 10
}

/// Stores what undoes a block's scale; gives whether the block is suspect, by the bits of its largest magnitude and with so many numbers that weigh so
/// much, in units of 1 / [`HEAVY`].
#[inline(always)]
unsafe fn leave(call: &SplitCall, at: u64, scale: u32, largest: u32, weights: u32, present: u32) -> bool {
    let down = f32::from_bits(((scale >> 23).clamp(LEAST, MOST + LESS) - SCALED) << 23);
    vectors::store_global_word(call.scales + 4 * at, down);
    let exponent = largest >> 23;
    largest != 0 && (!(LEAST..=MOST).contains(&exponent) || 4 * weights < 3 * HEAVY * present)
}

/// The larger of a magnitude and that of `x`; NaN if one of them is.
#[inline(always)]
fn larger(largest: f32, x: f32) -> f32 {
    #[allow(unused_mut)]
    let mut result = largest;
    // SAFETY: it computes a number from numbers.
    #[cfg(target_arch = "nvptx64")]
    unsafe {
        core::arch::asm!(
            "{{ .reg .f32 magnitude; abs.f32 magnitude, {x}; max.NaN.f32 {result}, {largest}, magnitude; }}",
            result = out(reg32) result, largest = in(reg32) largest, x = in(reg32) x, options(pure, nomem, nostack)
        )
    };
    #[cfg(not(target_arch = "nvptx64"))]
    let _ = x;
    result
}

/// Four numbers times their scales as large and as small parts, pairs of f16 in words, and their weights times [`HEAVY`], the same, of
/// numbers [lifted](lift) if they must be.
#[inline(always)]
fn split_four(x: [f32; 4], ups: [f32; 4], lifts: Option<[u32; 2]>) -> ([f32; 2], [f32; 2], [u32; 2]) {
    let of = |i: usize| split_two(x[i] * ups[i], x[i + 1] * ups[i + 1]);
    let [(low, low_rest), (high, high_rest)] = [of(0), of(2)];
    let words = |low: u32, high: u32| [low, high].map(f32::from_bits);
    let lifted = match lifts {
        Some(lifts) => [multiply_pairs(low, lifts[0]), multiply_pairs(high, lifts[1])],
        None => [low, high],
    };
    (words(low, high), words(low_rest, high_rest), lifted.map(weights_of))
}

/// The large parts of two numbers and the small ones, each a pair of f16 with the first in the lower half.
#[inline(always)]
fn split_two(x: f32, y: f32) -> (u32, u32) {
    #[allow(unused_mut)]
    let (mut large, mut small) = (0u32, 0u32);
    // SAFETY: it computes numbers from numbers.
    #[cfg(target_arch = "nvptx64")]
    unsafe {
        core::arch::asm!(
            "{{ .reg .b16 low, high; .reg .f32 a, b;",
            "cvt.rn.f16x2.f32 {large}, {y}, {x};",
            "mov.b32 {{low, high}}, {large};",
            "cvt.f32.f16 a, low; cvt.f32.f16 b, high;",
            "sub.rn.f32 a, {x}, a; sub.rn.f32 b, {y}, b;",
            "cvt.rn.f16x2.f32 {small}, b, a; }}",
            large = out(reg32) large, small = out(reg32) small, x = in(reg32) x, y = in(reg32) y,
            options(pure, nomem, nostack)
        )
    };
    #[cfg(not(target_arch = "nvptx64"))]
    let _ = (x, y);
    (large, small)
}

/// The weights of a pair of scaled and lifted numbers, times [`HEAVY`].
#[inline(always)]
fn weights_of(pair: u32) -> u32 {
    #[allow(unused_mut)]
    let mut weights = 0;
    // SAFETY: it computes numbers from numbers.
    #[cfg(target_arch = "nvptx64")]
    unsafe {
        core::arch::asm!(
            "{{ .reg .b32 magnitudes; abs.f16x2 magnitudes, {pair}; min.f16x2 {weights}, magnitudes, {heavy}; }}",
            weights = out(reg32) weights, pair = in(reg32) pair, heavy = in(reg32) HEAVY_PAIR,
            options(pure, nomem, nostack)
        )
    };
    #[cfg(not(target_arch = "nvptx64"))]
    let _ = pair;
    weights
}

/// The products of two pairs of f16.
#[inline(always)]
fn multiply_pairs(x: u32, y: u32) -> u32 {
    #[allow(unused_mut)]
    let mut products = 0;
    // SAFETY: it computes numbers from numbers.
    #[cfg(target_arch = "nvptx64")]
    unsafe {
        core::arch::asm!("mul.rn.f16x2 {}, {}, {};", out(reg32) products, in(reg32) x, in(reg32) y, options(pure, nomem, nostack))
    };
    #[cfg(not(target_arch = "nvptx64"))]
    let _ = (x, y);
    products
}

/// The sums of two pairs of f16.
#[inline(always)]
fn add_pairs(x: u32, y: u32) -> u32 {
    #[allow(unused_mut)]
    let mut sums = 0;
    // SAFETY: it computes numbers from numbers.
    #[cfg(target_arch = "nvptx64")]
    unsafe {
        core::arch::asm!("add.rn.f16x2 {}, {}, {};", out(reg32) sums, in(reg32) x, in(reg32) y, options(pure, nomem, nostack))
    };
    #[cfg(not(target_arch = "nvptx64"))]
    let _ = (x, y);
    sums
}

/// A pair of f16 as whole numbers, what is behind the point cut off.
#[inline(always)]
fn numbers_of_pair(pair: u32) -> [u32; 2] {
    #[allow(unused_mut)]
    let (mut x, mut y) = (0, 0);
    // SAFETY: it computes numbers from numbers.
    #[cfg(target_arch = "nvptx64")]
    unsafe {
        core::arch::asm!(
            "{{ .reg .b16 low, high; mov.b32 {{low, high}}, {pair}; cvt.rzi.u32.f16 {x}, low; cvt.rzi.u32.f16 {y}, high; }}",
            x = out(reg32) x, y = out(reg32) y, pair = in(reg32) pair, options(pure, nomem, nostack)
        )
    };
    #[cfg(not(target_arch = "nvptx64"))]
    let _ = pair;
    [x, y]
}

/// Makes a word of shared memory `x` if it is less.
#[inline(always)]
unsafe fn shared_maximum(address: u32, x: u32) {
    #[cfg(target_arch = "nvptx64")]
    core::arch::asm!("red.shared.max.u32 [{}], {};", in(reg32) address, in(reg32) x, options(nostack));
    #[cfg(not(target_arch = "nvptx64"))]
    let _ = (address, x);
}

/// Adds `x` to a word of shared memory.
#[inline(always)]
unsafe fn shared_sum(address: u32, x: u32) {
    #[cfg(target_arch = "nvptx64")]
    core::arch::asm!("red.shared.add.u32 [{}], {};", in(reg32) address, in(reg32) x, options(nostack));
    #[cfg(not(target_arch = "nvptx64"))]
    let _ = (address, x);
}

/// The largest number of a warp's lanes, in all of them.
#[inline(always)]
pub(crate) fn warp_most(x: u32) -> u32 {
    #[allow(unused_mut)]
    let mut most = x;
    // SAFETY: all lanes of a warp come here together.
    #[cfg(target_arch = "nvptx64")]
    unsafe {
        core::arch::asm!("redux.sync.max.u32 {}, {}, 0xffffffff;", out(reg32) most, in(reg32) x, options(nostack))
    };
    most
}

/// The sum over a warp's lanes, in all of them.
#[inline(always)]
fn warp_sum(x: u32) -> u32 {
    #[allow(unused_mut)]
    let mut sum = x;
    // SAFETY: all lanes of a warp come here together.
    #[cfg(target_arch = "nvptx64")]
    unsafe {
        core::arch::asm!("redux.sync.add.u32 {}, {}, 0xffffffff;", out(reg32) sum, in(reg32) x, options(nostack))
    };
    sum
}
