//! From numbers of f32 to two parts of f16, for products as exact as f32's on tensor cores.
//!
//! Along k, up to 128 numbers of a line (a row of A, a column of B) are a *block*. A block is scaled by a power of two so that its largest number is
//! between 2^14 and 2^15; then it is large + small, each rounded to f16. That has the 22 bits that f16 has twice, but for what is smaller than 2^-39
//! of the block's largest.
//!
//! Of 32 numbers the 32 large parts come first, then the 32 small ones: a row of 128 bytes of a tile, or its 64 rows.
//!
//! # When it isn't enough
//!
//! A number that is much smaller than its block's largest loses bits, and they may matter: if the other factor is large just there. So a block is
//! *suspect*
//!
//! - if a quarter of its numbers or more is smaller than 2^-7 of its largest (zeros too),
//! - if its largest isn't between 2^-48 and 2^60, so that scales and their products are normal numbers,
//! - or if one of them isn't finite.
//!
//! If neither factor has a suspect block, at least half of a block's n products are 2^-14 of the largest possible one or more. What the parts have lost
//! is at most n 2^-38 of that one: 2^-23 of the sum of the magnitudes. If there is a suspect block, the whole product is computed otherwise.
//!
//! So that no block has few numbers (of which a quarter is soon small, by chance), the last two share what is left.

use cuda_std::*;
use kernel_common::launch::{Architecture, Kernel, Precision, Registers, Signature, Tile};
use kernel_common::{entry_facts, grids, vectors};

/// The most numbers of a block.
pub const BLOCK: u32 = 128;
/// Threads of a block of threads.
pub const THREADS: u32 = 256;
/// Lines along k that a block of threads splits, a block of numbers of each.
pub const LINES_ALONG: u32 = 32;
/// Lines across k that a block of threads splits.
pub const LINES_ACROSS: u32 = 64;
/// Warps of a block of threads.
const WARPS: u32 = THREADS / 32;

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
    /// What the scales are multiplied by where a block is long: it undoes, on average, what tensor cores cut off.
    pub correction: f32,
}

/// Splits A and B. Block x of threads splits a part of A, or, from A's number of blocks on, of B; y is the product of the batch. It leaves 1 in its
/// word of `flags` if one of its blocks of numbers is suspect, else 0.
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
    let is_suspect = if block < a.blocks { split_part(&a, block) } else { split_part(&b, block - a.blocks) };
    let is_suspect = thread::sync_threads_or(is_suspect as u32) != 0;
    if thread::thread_idx_x() == 0 {
        vectors::store_global_word(flags + 4 * block as u64, f32::from_bits(is_suspect as u32));
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
unsafe fn split_part(call: &SplitCall, block: u32) -> bool {
    if call.is_across != 0 {
        across(call, block)
    } else {
        along(call, block)
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
unsafe fn along(call: &SplitCall, block: u32) -> bool {
    const LINES: usize = (LINES_ALONG / WARPS) as usize;
    let thread = thread::thread_idx_x();
    let (warp, lane) = (thread / 32, thread % 32);
    let groups = call.lines.div_ceil(LINES_ALONG);
    core::hint::assert_unchecked(groups != 0);
    let (k_block, group) = (block / groups, block % groups);
    let (start, present) = numbers_of(k_block, call.k);
    let mine = present.saturating_sub(4 * lane).min(4);
    let product = thread::block_idx_y() as u64;
    let first_line = LINES_ALONG * group + LINES as u32 * warp;
    let mut numbers = [[0.0f32; 4]; LINES];
    for i in 0..LINES {
        let line = first_line + i as u32;
        if line < call.lines {
            let row =
                call.from + 4 * (product * call.from_batch + line as u64 * call.from_pitch + (start + 4 * lane) as u64);
            if call.is_aligned != 0 && mine == 4 {
                numbers[i] = vectors::load_global(row);
            } else {
                for j in 0..4 {
                    if (j as u32) < mine {
                        numbers[i][j] = vectors::load_global_word(row + 4 * j as u64);
                    }
                }
            }
        }
    }
    let mut is_suspect = false;
    for i in 0..LINES {
        let x = numbers[i];
        let line = first_line + i as u32;
        let largest = magnitude(x[0]).max(magnitude(x[1])).max(magnitude(x[2]).max(magnitude(x[3])));
        let largest = warp_most(largest);
        let scale = Scale::of(largest);
        let mut small = 0;
        for j in 0..4 {
            small += ((j as u32) < mine && magnitude(x[j]) < scale.small) as u32;
        }
        let small = warp_sum(small);
        if line < call.lines {
            if lane == 0 {
                let at = product * call.scale_batch + k_block as u64 * call.scale_pitch + line as u64;
                is_suspect |= scale.leave(call, at, largest, small, present);
            }
            let parts = x.map(|x| Parts::of(x * scale.up));
            let place = k_block * 2 * BLOCK + lane / 8 * 64 + lane % 8 * 4;
            let to = call.to + 2 * (product * call.batch_pitch + line as u64 * call.pitch + place as u64);
            store_four(to, parts.map(|parts| parts.large));
            store_four(to + 64, parts.map(|parts| parts.small));
        }
    }
    is_suspect
}

/// A warp has 16 steps along k of 64 lines, and a lane 2 lines. Gives whether a block that this lane speaks for is suspect.
#[inline(always)]
unsafe fn across(call: &SplitCall, block: u32) -> bool {
    const STEPS: usize = (BLOCK / WARPS) as usize;
    let largest_of = shared_array![u32; 8 * 64];
    let small_of = shared_array![u32; 8 * 64];
    let thread = thread::thread_idx_x();
    let (warp, lane) = (thread / 32, thread % 32);
    let groups = call.lines.div_ceil(LINES_ACROSS);
    core::hint::assert_unchecked(groups != 0);
    let (k_block, group) = (block / groups, block % groups);
    let (start, present) = numbers_of(k_block, call.k);
    let line = group * LINES_ACROSS + 2 * lane;
    let lines = call.lines.saturating_sub(line).min(2);
    let first = STEPS as u32 * warp;
    let product = thread::block_idx_y() as u64;
    let mut x = [[0.0f32; 2]; STEPS];
    for i in 0..STEPS {
        let k = first + i as u32;
        if k < present {
            let row = call.from + 4 * (product * call.from_batch + (start + k) as u64 * call.from_pitch + line as u64);
            if call.is_aligned != 0 && lines == 2 {
                x[i] = vectors::load_global_pair(row);
            } else {
                for j in 0..2 {
                    if (j as u32) < lines {
                        x[i][j] = vectors::load_global_word(row + 4 * j as u64);
                    }
                }
            }
        }
    }
    let mut largest = [0u32; 2];
    for i in 0..STEPS {
        for j in 0..2 {
            largest[j] = largest[j].max(magnitude(x[i][j]));
        }
    }
    let place = |warp: u32, j: usize| (warp * 64 + 2 * lane + j as u32) as usize;
    for j in 0..2 {
        *largest_of.add(place(warp, j)) = largest[j];
    }
    thread::sync_threads();
    for j in 0..2 {
        for other in 0..WARPS {
            largest[j] = largest[j].max(*largest_of.add(place(other, j)));
        }
    }
    let scales = largest.map(Scale::of);
    for j in 0..2 {
        let mut small = 0;
        for i in 0..STEPS {
            small += (first + (i as u32) < present && magnitude(x[i][j]) < scales[j].small) as u32;
        }
        *small_of.add(place(warp, j)) = small;
    }
    // The pitch has room for lines to a multiple of 8.
    if lines > 0 {
        for i in 0..STEPS {
            let parts = [0, 1].map(|j: usize| Parts::of(x[i][j] * scales[j].up));
            let k = first + i as u32;
            let row = k_block * 2 * BLOCK + k / 32 * 64 + k % 32;
            let to = call.to + 2 * (product * call.batch_pitch + row as u64 * call.pitch + line as u64);
            store_two(to, parts.map(|parts| parts.large));
            store_two(to + 2 * 32 * call.pitch, parts.map(|parts| parts.small));
        }
    }
    thread::sync_threads();
    let mut is_suspect = false;
    if warp == 0 {
        for j in 0..2 {
            if (j as u32) < lines {
                let mut small = 0;
                for other in 0..WARPS {
                    small += *small_of.add(place(other, j));
                }
                let at = product * call.scale_batch + k_block as u64 * call.scale_pitch + (line + j as u32) as u64;
                is_suspect |= scales[j].leave(call, at, largest[j], small, present);
            }
        }
    }
    is_suspect
}

/// A number's bits without the sign: as numbers they compare like the magnitudes.
#[inline(always)]
fn magnitude(x: f32) -> u32 {
    x.to_bits() & 0x7fff_ffff
}

/// How a block is scaled.
#[derive(Clone, Copy)]
struct Scale {
    /// What its numbers are multiplied by.
    up: f32,
    /// What undoes it.
    down: f32,
    /// The bits of 2^-7 of the largest's power of two: smaller ones are small.
    small: u32,
    /// Whether the largest is too large, too small or not finite.
    is_suspect: bool,
}

impl Scale {
    #[inline(always)]
    fn of(largest: u32) -> Scale {
        let exponent = largest >> 23;
        // 2^-48 and 2^60, with f32's bias of 127.
        let is_suspect = largest != 0 && !(127 - 48..=127 + 60).contains(&exponent);
        let within = exponent.clamp(127 - 48, 127 + 60);
        Scale {
            up: f32::from_bits((127 + 127 + 14 - within) << 23),
            down: f32::from_bits((within - 14) << 23),
            small: within.saturating_sub(7) << 23,
            is_suspect,
        }
    }

    /// Stores what undoes the scale; gives whether the block is suspect.
    #[inline(always)]
    unsafe fn leave(&self, call: &SplitCall, at: u64, largest: u32, small: u32, present: u32) -> bool {
        let correction = if present < BLOCK / 4 { 1.0 } else { call.correction };
        vectors::store_global_word(call.scales + 4 * at, self.down * correction);
        self.is_suspect || (largest != 0 && 4 * small >= present)
    }
}

/// A scaled number's two parts, as bits of f16.
#[derive(Clone, Copy)]
struct Parts {
    large: u16,
    small: u16,
}

impl Parts {
    #[inline(always)]
    fn of(x: f32) -> Parts {
        #[allow(unused_mut)]
        let (mut large, mut small) = (0u16, 0u16);
        // SAFETY: it computes numbers from numbers.
        #[cfg(target_arch = "nvptx64")]
        unsafe {
            core::arch::asm!(
                "{{ .reg .f32 rounded, rest; cvt.rn.f16.f32 {large}, {x}; cvt.f32.f16 rounded, {large};",
                "sub.rn.f32 rest, {x}, rounded; cvt.rn.f16.f32 {small}, rest; }}",
                large = out(reg16) large, small = out(reg16) small, x = in(reg32) x, options(pure, nomem, nostack)
            )
        };
        #[cfg(not(target_arch = "nvptx64"))]
        let _ = x;
        Parts { large, small }
    }
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

/// Two halves, the first in the lower part.
#[inline(always)]
fn two(low: u16, high: u16) -> u32 {
    low as u32 | (high as u32) << 16
}

#[inline(always)]
unsafe fn store_two(to: u64, [x, y]: [u16; 2]) {
    vectors::store_global_word(to, f32::from_bits(two(x, y)));
}

#[inline(always)]
unsafe fn store_four(to: u64, [x, y, z, w]: [u16; 4]) {
    #[cfg(target_arch = "nvptx64")]
    core::arch::asm!("st.global.v2.b32 [{}], {{ {}, {} }};", in(reg64) to, in(reg32) two(x, y), in(reg32) two(z, w), options(nostack));
    #[cfg(not(target_arch = "nvptx64"))]
    let _ = (to, two(x, y), two(z, w));
}
