//! GEMM kernels for NVIDIA GPUs.
#![no_std]

pub mod launch;
pub mod naive;
pub mod tiled;

pub use launch::{Architecture, Kernel, LaunchShape, Precision, Tile};

/// Every kernel of this crate, in reading order.
pub const KERNELS: &[Kernel] = &[naive::KERNEL, tiled::KERNEL];
