//! From a warpgroup's sums to C.

use cuda_std::*;
use kernel_common::{tensor_maps, warpgroups};

use crate::pipelined::TensorCall;
use crate::shape::{Shape, BOX, WARPGROUP};

/// The elements of C.
pub trait Output {
    /// Bytes of an element.
    const ELEMENT: usize;

    /// Stores the sums of a warpgroup: 64 rows of C from element `column` of `row` of `product`.
    ///
    /// # Safety
    ///
    /// All threads of the warpgroup must come here together. `staging` is its own, of as many boxes as the shape says.
    unsafe fn store<S: Shape>(
        sums: &[f32],
        map: u64,
        call: &TensorCall,
        first: [u32; 3],
        staging: u32,
        multiplier: u32,
    );
}

/// C of f32.
pub struct F32;
/// C of bf16.
pub struct Bf16;
/// C of f16.
pub struct F16;

/// Elements of 4 bytes: boxes of 32 columns.
impl Output for F32 {
    const ELEMENT: usize = 4;

    #[inline(always)]
    unsafe fn store<S: Shape>(
        sums: &[f32],
        map: u64,
        call: &TensorCall,
        [column, row, product]: [u32; 3],
        staging: u32,
        multiplier: u32,
    ) {
        let place = Place::new();
        if call.c_is_mapped == 0 || call.beta != 0.0 {
            store_sums(
                sums,
                call,
                [column, row, product],
                place,
                |address, value: f32, beta| {
                    let value = if beta == 0.0 { value } else { value + beta * *(address as *const f32) };
                    *(address as *mut f32) = value;
                },
                4,
            );
            return;
        }
        let alpha = call.alpha;
        for part in 0..sums.len() / 16 {
            let buffer = begin::<S>(place, staging, part, multiplier);
            for group in 0..4 {
                for half in 0..2 {
                    let at = 16 * part + 4 * group + 2 * half;
                    // 8 bytes at column 8 group + 2 t of the row: chunk 2 group + t / 2.
                    let row = place.row + 8 * half as u32;
                    let chunk = (2 * group as u32 + place.pair / 2) ^ (row % 8);
                    store_two(
                        buffer + row * 128 + chunk * 16 + place.pair % 2 * 8,
                        alpha * sums[at],
                        alpha * sums[at + 1],
                    );
                }
            }
            end(place, map, [column + 32 * part as u32, row, product], buffer, multiplier);
        }
    }
}

/// Elements of 2 bytes: boxes of 64 columns.
macro_rules! halves {
    ($type:ident, $convert:ident) => {
        impl Output for $type {
            const ELEMENT: usize = 2;

            #[inline(always)]
            unsafe fn store<S: Shape>(
                sums: &[f32],
                map: u64,
                call: &TensorCall,
                [column, row, product]: [u32; 3],
                staging: u32,
                multiplier: u32,
            ) {
                let place = Place::new();
                if call.c_is_mapped == 0 || call.beta != 0.0 {
                    store_sums(
                        sums,
                        call,
                        [column, row, product],
                        place,
                        |address, value, beta| {
                            let value = if beta == 0.0 {
                                value
                            } else {
                                value + beta * $convert::widen(*(address as *const u16))
                            };
                            *(address as *mut u16) = $convert::round(value, 0.0) as u16;
                        },
                        2,
                    );
                    return;
                }
                let alpha = call.alpha;
                // Lane 8 j + i gives the address of row i of matrix j: the upper and the lower half of 8 columns, and then of the next 8.
                let lane = thread::thread_idx_x() % 32;
                let stored_row = place.row / 16 * 16 + lane % 16;
                for part in 0..sums.len() / 32 {
                    let buffer = begin::<S>(place, staging, part, multiplier);
                    for pair in 0..4 {
                        let of = |group: usize, half: usize| {
                            let at = 32 * part + 8 * pair + 4 * group + 2 * half;
                            $convert::round(alpha * sums[at], alpha * sums[at + 1])
                        };
                        let chunk = (2 * pair as u32 + lane / 16) ^ (stored_row % 8);
                        store_matrices(
                            buffer + stored_row * 128 + chunk * 16,
                            [of(0, 0), of(0, 1), of(1, 0), of(1, 1)],
                        );
                    }
                    end(place, map, [column + 64 * part as u32, row, product], buffer, multiplier);
                }
            }
        }
    };
}

halves!(Bf16, bf16);
halves!(F16, f16);

/// Where a thread's sums are among a warpgroup's 64 rows.
#[derive(Clone, Copy)]
struct Place {
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

/// Stores a box.
#[inline(always)]
unsafe fn end(place: Place, map: u64, first: [u32; 3], buffer: u32, multiplier: u32) {
    tensor_maps::show_to_copies();
    warpgroups::sync_some(1 + multiplier, WARPGROUP as u32);
    if place.thread == 0 {
        tensor_maps::store(map, first, buffer);
        tensor_maps::commit_stores();
    }
}

/// Stores sums element by element, inside C only.
#[inline(always)]
unsafe fn store_sums(
    sums: &[f32],
    call: &TensorCall,
    [column, row, product]: [u32; 3],
    place: Place,
    store: impl Fn(u64, f32, f32),
    bytes: u64,
) {
    for half in 0..2 {
        let row = row + place.row + 8 * half as u32;
        if row < call.m {
            let line = call.c + bytes * (product as u64 * call.c_batch + row as u64 * call.c_row);
            for group in 0..sums.len() / 4 {
                for e in 0..2 {
                    let column = column + (8 * group + e) as u32 + 2 * place.pair;
                    if column < call.n {
                        store(line + bytes * column as u64, call.alpha * sums[4 * group + 2 * half + e], call.beta);
                    }
                }
            }
        }
    }
}

#[inline(always)]
unsafe fn store_two(address: u32, x: f32, y: f32) {
    #[cfg(target_arch = "nvptx64")]
    core::arch::asm!("st.shared.v2.f32 [{}], {{ {}, {} }};", in(reg32) address, in(reg32) x, in(reg32) y, options(nostack));
    #[cfg(not(target_arch = "nvptx64"))]
    let _ = (address, x, y);
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
