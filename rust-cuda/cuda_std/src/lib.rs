//! The standard library of GPU kernels, for rustc's own NVPTX back end.
//!
//! A port of the published `cuda_std`: the same names and signatures for what it covers, other code behind them. The
//! published crate stands on a compiler back end of its own; this one stands on what rustc has: LLVM's NVPTX intrinsics
//! and a little inline PTX.
//!
//! | module | what a kernel finds there |
//! |---|---|
//! | [`thread`] | where am I in the block and the grid; barriers, fences |
//! | [`warp`] | the 32 threads that run together: shuffles, votes, matches, reductions |
//! | [`shared`] | memory that the threads of a block share |
//! | [`float`] | the mathematics of `f32` and `f64` without `std` |
//! | [`ptr`], [`mem`] | which memory a pointer points to; how much shared memory there is |
//! | [`mod@cfg`] | which GPU generation the kernel is compiled for |
//! | [`misc`] | breakpoint, profiler events, clock |
//!
//! On any target but `nvptx64` everything type-checks and what needs a GPU panics when called, so that one kernel crate
//! serves as a library of the host program too.
//!
//! Left out, because this back end has nothing to build them on or kernels here don't need them: `io` (printing), the
//! heap of `mem`, `rt` (launching kernels from kernels), `atomic` (use [`core::sync::atomic`]), `intrinsics` and
//! `FloatExt` (libdevice), and the `address_space` macro.
#![cfg_attr(target_arch = "nvptx64", no_std)]
#![cfg_attr(
    target_arch = "nvptx64",
    feature(abi_unadjusted, asm_experimental_arch, core_float_math, link_llvm_intrinsics, stdarch_nvptx),
    allow(internal_features)
)]

pub mod cfg;
pub mod float;
pub mod mem;
pub mod misc;
pub mod ptr;
pub mod shared;
pub mod thread;
pub mod vek;
pub mod warp;

#[cfg(target_arch = "nvptx64")]
mod nvvm;
#[cfg(target_arch = "nvptx64")]
mod panic;

pub use cuda_std_macros::{externally_visible, gpu_only, kernel};
pub use float::GpuFloat;

/// What nearly every kernel needs, for `use cuda_std::prelude::*`.
pub mod prelude {
    pub use crate::{GpuFloat, kernel, shared_array, thread};
}

/// What the macros of this crate expand to. Not for use by hand.
#[doc(hidden)]
pub mod macro_support {
    pub use cuda_std_macros::shared_variable;

    #[cfg(target_arch = "nvptx64")]
    pub use crate::shared::{shared_alignment, shared_array};
}
