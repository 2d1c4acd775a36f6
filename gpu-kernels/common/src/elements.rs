//! The elements of matrices, as they are in memory and as kernels compute with them.

use crate::vectors;

/// A type of elements. Kernels compute in f32 with them.
pub trait Element {
    /// Bytes of an element.
    const BYTES: u32;

    /// Loads an element from global memory.
    ///
    /// # Safety
    ///
    /// `address` must be that of an element.
    unsafe fn load_global(address: u64) -> f32;

    /// Stores the nearest element, halfway to even, to global memory.
    ///
    /// # Safety
    ///
    /// `address` must be that of an element.
    unsafe fn store_global(address: u64, value: f32);
}

/// IEEE's 32 bits.
#[derive(Clone, Copy, Debug)]
pub struct F32;
/// The upper half of an f32.
#[derive(Clone, Copy, Debug)]
pub struct Bf16;
/// IEEE's 16 bits.
#[derive(Clone, Copy, Debug)]
pub struct F16;

impl Element for F32 {
    const BYTES: u32 = 4;

    #[inline(always)]
    unsafe fn load_global(address: u64) -> f32 {
        vectors::load_global_word(address)
    }

    #[inline(always)]
    unsafe fn store_global(address: u64, value: f32) {
        vectors::store_global_word(address, value);
    }
}

/// A type of 16 bits.
pub trait Half: Element {
    /// Two numbers as the nearest elements, halfway to even, the first in the lower half.
    fn round(low: f32, high: f32) -> u32;

    /// An element's number.
    fn widen(half: u16) -> f32;
}

macro_rules! halves {
    ($type:ident, $round:literal, $widen:ident) => {
        impl Element for $type {
            const BYTES: u32 = 2;

            #[inline(always)]
            unsafe fn load_global(address: u64) -> f32 {
                Self::widen(vectors::load_global_half(address))
            }

            #[inline(always)]
            unsafe fn store_global(address: u64, value: f32) {
                vectors::store_global_half(address, Self::round(value, 0.0) as u16);
            }
        }

        impl Half for $type {
            #[inline(always)]
            fn round(low: f32, high: f32) -> u32 {
                #[allow(unused_mut)]
                let mut both = 0;
                // SAFETY: it computes a number from numbers.
                #[cfg(target_arch = "nvptx64")]
                unsafe {
                    core::arch::asm!(
                        concat!($round, " {}, {}, {};"),
                        out(reg32) both, in(reg32) high, in(reg32) low, options(pure, nomem, nostack)
                    )
                };
                #[cfg(not(target_arch = "nvptx64"))]
                let _ = (low, high);
                both
            }

            #[inline(always)]
            fn widen(half: u16) -> f32 {
                $widen(half)
            }
        }
    };
}

halves!(Bf16, "cvt.rn.bf16x2.f32", widen_bf16);
halves!(F16, "cvt.rn.f16x2.f32", widen_f16);

#[inline(always)]
fn widen_bf16(half: u16) -> f32 {
    f32::from_bits((half as u32) << 16)
}

#[inline(always)]
fn widen_f16(half: u16) -> f32 {
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
