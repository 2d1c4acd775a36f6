//! From a warpgroup's sums to C.

use cuda_std::*;
use kernel_common::call::TensorCall;
use kernel_common::{tensor_maps, vectors, warpgroups};

use crate::shape::{Shape, BOX, WARPGROUP};

/// The elements of C.
pub trait Output {
    /// Bytes of an element.
    const ELEMENT: u32;
    /// A thread's sums in a box: of 128 bytes of a row, in two of the 64 rows.
    const SUMS: usize = 16 * 4 / Self::ELEMENT as usize;

    /// Writes a thread's sums to its places in a box, which all threads of the warpgroup do together.
    ///
    /// # Safety
    ///
    /// `buffer` must be a box that nobody else uses.
    unsafe fn fill(buffer: u32, place: Place, sums: &[f32], alpha: f32);

    /// Stores an element of a box to C, to which `beta` times what C holds is added, unless `beta` is 0.
    ///
    /// # Safety
    ///
    /// `from` must be an element of a box and `to` one of C.
    unsafe fn store(to: u64, from: u32, beta: f32);
}

/// C of f32.
pub struct F32;
/// C of bf16.
pub struct Bf16;
/// C of f16.
pub struct F16;

/// Elements of 4 bytes: boxes of 32 columns.
impl Output for F32 {
    const ELEMENT: u32 = 4;

    #[inline(always)]
    unsafe fn fill(buffer: u32, place: Place, sums: &[f32], alpha: f32) {
        for group in 0..4 {
            for half in 0..2 {
                let at = 4 * group + 2 * half;
                // 8 bytes at column 8 group + 2 t of the row: chunk 2 group + t / 2.
                let row = place.row + 8 * half as u32;
                let chunk = (2 * group as u32 + place.pair / 2) ^ (row % 8);
                let to = buffer + row * 128 + chunk * 16 + place.pair % 2 * 8;
                vectors::store_shared_pair(to, [alpha * sums[at], alpha * sums[at + 1]]);
            }
        }
    }

    #[inline(always)]
    unsafe fn store(to: u64, from: u32, beta: f32) {
        let value = vectors::load_shared_word(from);
        let value = if beta == 0.0 { value } else { value + beta * vectors::load_global_word(to) };
        vectors::store_global_word(to, value);
    }
}

/// Elements of 2 bytes: boxes of 64 columns.
macro_rules! halves {
    ($type:ident, $convert:ident) => {
        impl Output for $type {
            const ELEMENT: u32 = 2;

            #[inline(always)]
            unsafe fn fill(buffer: u32, place: Place, sums: &[f32], alpha: f32) {
                // Lane 8 j + i gives the address of row i of matrix j: the upper and the lower half of 8 columns, and then of the next 8.
                let lane = place.thread % 32;
                let row = place.row / 16 * 16 + lane % 16;
                for pair in 0..4 {
                    let of = |group: usize, half: usize| {
                        let at = 8 * pair + 4 * group + 2 * half;
                        $convert::round(alpha * sums[at], alpha * sums[at + 1])
                    };
                    let chunk = (2 * pair as u32 + lane / 16) ^ (row % 8);
                    store_matrices(buffer + row * 128 + chunk * 16, [of(0, 0), of(0, 1), of(1, 0), of(1, 1)]);
                }
            }

            #[inline(always)]
            unsafe fn store(to: u64, from: u32, beta: f32) {
                let half = load_shared_half(from);
                let half = if beta == 0.0 {
                    half
                } else {
                    let sum = $convert::widen(half) + beta * $convert::widen(vectors::load_global_half(to));
                    $convert::round(sum, 0.0) as u16
                };
                store_global_half(to, half);
            }
        }
    };
}

halves!(Bf16, bf16);
halves!(F16, f16);

/// Stores the sums of a warpgroup: 64 rows of C from element `column` of `row` of `product`.
///
/// Box by box they go to shared memory and from there to C: by a copy, or, where C has no map or what it holds is needed, by the threads, a row of a
/// box after the other.
///
/// # Safety
///
/// All threads of the warpgroup must come here together. `staging` is its own, of as many boxes as the shape says.
#[inline(always)]
pub unsafe fn store<S: Shape>(
    sums: &[f32],
    map: u64,
    call: &TensorCall,
    [column, row, product]: [u32; 3],
    staging: u32,
    multiplier: u32,
) {
    let place = Place::new();
    let is_copied = call.c_is_mapped != 0 && call.beta == 0.0;
    let width = 128 / S::Output::ELEMENT;
    let per_box = S::Output::SUMS;
    for part in 0..sums.len() / per_box {
        let buffer = begin::<S>(place, staging, part, multiplier);
        S::Output::fill(buffer, place, &sums[part * per_box..(part + 1) * per_box], call.alpha);
        let first = [column + width * part as u32, row, product];
        tensor_maps::show_to_copies();
        warpgroups::sync_some(1 + multiplier, WARPGROUP as u32);
        if !is_copied {
            store_box::<S::Output>(buffer, call, first, place);
        } else if place.thread == 0 {
            tensor_maps::store(map, first, buffer);
            tensor_maps::commit_stores();
        }
    }
}

/// Where a thread's sums are among a warpgroup's 64 rows.
#[derive(Clone, Copy)]
pub struct Place {
    thread: u32,
    row: u32,
    pair: u32,
}

impl Place {
    #[inline(always)]
    fn new() -> Place {
        let thread = thread::thread_idx_x() % WARPGROUP as u32;
        let lane = thread % 32;
        Place { thread, row: thread / 32 * 16 + lane / 4, pair: lane % 4 }
    }
}

/// Waits until the box that the last but one store has read may be written again; gives its address.
#[inline(always)]
unsafe fn begin<S: Shape>(place: Place, staging: u32, part: usize, multiplier: u32) -> u32 {
    if place.thread == 0 {
        if S::BOXES == 1 {
            tensor_maps::wait_for_reads::<0>();
        } else {
            tensor_maps::wait_for_reads::<1>();
        }
    }
    warpgroups::sync_some(1 + multiplier, WARPGROUP as u32);
    staging + (part % S::BOXES * BOX) as u32
}

/// Stores a box element by element, inside C only: each warp its 16 rows, one after the other.
#[inline(always)]
unsafe fn store_box<O: Output>(buffer: u32, call: &TensorCall, [column, row, product]: [u32; 3], place: Place) {
    let lane = place.thread % 32;
    let first = place.thread / 32 * 16;
    let mut at = first;
    while at < first + 16 && row + at < call.m {
        let line = product as u64 * call.c_batch + (row + at) as u64 * call.c_row;
        for i in 0..4 / O::ELEMENT {
            // Neighbouring lanes have neighbouring elements.
            let element = 32 * i + lane;
            if column + element < call.n {
                let byte = element * O::ELEMENT;
                let from = buffer + at * 128 + ((byte / 16) ^ (at % 8)) * 16 + byte % 16;
                O::store(call.c + O::ELEMENT as u64 * (line + (column + element) as u64), from, call.beta);
            }
        }
        at += 1;
    }
}

#[inline(always)]
unsafe fn load_shared_half(address: u32) -> u16 {
    #[allow(unused_mut)]
    let mut half = 0;
    #[cfg(target_arch = "nvptx64")]
    core::arch::asm!("ld.shared.u16 {}, [{}];", out(reg16) half, in(reg32) address, options(nostack));
    #[cfg(not(target_arch = "nvptx64"))]
    let _ = address;
    half
}

#[inline(always)]
unsafe fn store_global_half(address: u64, half: u16) {
    #[cfg(target_arch = "nvptx64")]
    core::arch::asm!("st.global.u16 [{}], {};", in(reg64) address, in(reg16) half, options(nostack));
    #[cfg(not(target_arch = "nvptx64"))]
    let _ = (address, half);
}

#[inline(always)]
unsafe fn store_matrices(row: u32, [x, y, z, w]: [u32; 4]) {
    #[cfg(target_arch = "nvptx64")]
    core::arch::asm!(
        "stmatrix.sync.aligned.m8n8.x4.shared.b16 [{}], {{ {}, {}, {}, {} }};",
        in(reg32) row, in(reg32) x, in(reg32) y, in(reg32) z, in(reg32) w, options(nostack)
    );
    #[cfg(not(target_arch = "nvptx64"))]
    let _ = (row, x, y, z, w);
}

/// Two sums as bf16, the first in the lower half.
mod bf16 {
    #[inline(always)]
    pub fn round(low: f32, high: f32) -> u32 {
        #[allow(unused_mut)]
        let mut both = 0;
        // SAFETY: it computes a number from numbers.
        #[cfg(target_arch = "nvptx64")]
        unsafe {
            core::arch::asm!("cvt.rn.bf16x2.f32 {}, {}, {};", out(reg32) both, in(reg32) high, in(reg32) low, options(pure, nomem, nostack))
        };
        #[cfg(not(target_arch = "nvptx64"))]
        let _ = (low, high);
        both
    }

    #[inline(always)]
    pub fn widen(half: u16) -> f32 {
        f32::from_bits((half as u32) << 16)
    }
}

/// Two sums as f16, the first in the lower half.
mod f16 {
    #[inline(always)]
    pub fn round(low: f32, high: f32) -> u32 {
        #[allow(unused_mut)]
        let mut both = 0;
        // SAFETY: it computes a number from numbers.
        #[cfg(target_arch = "nvptx64")]
        unsafe {
            core::arch::asm!("cvt.rn.f16x2.f32 {}, {}, {};", out(reg32) both, in(reg32) high, in(reg32) low, options(pure, nomem, nostack))
        };
        #[cfg(not(target_arch = "nvptx64"))]
        let _ = (low, high);
        both
    }

    #[inline(always)]
    pub fn widen(half: u16) -> f32 {
        #[allow(unused_mut)]
        let mut wide = 0.0f32;
        // SAFETY: it computes a number from a number.
        #[cfg(target_arch = "nvptx64")]
        unsafe {
            core::arch::asm!("cvt.f32.f16 {}, {};", out(reg32) wide, in(reg16) half, options(pure, nomem, nostack))
        };
        #[cfg(not(target_arch = "nvptx64"))]
        let _ = half;
        wide
    }
}
