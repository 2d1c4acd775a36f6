//! GEMM on NVIDIA GPUs, with kernels written in Rust (the crate `gpu-kernels`).
//!
//! The walk of one product through this crate: [`matrix`] reads two matrices, [`device`] holds them on a GPU or on the
//! simulator, [`plan`] picks the kernel, [`gemm`] launches it, [`verify`] compares the result with an f64 reference,
//! [`report`] says what happened.
//!
//! ```no_run
//! use host::{device::{Device, DeviceSelector}, gemm::Gemm, matrix};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let a = matrix::random_normal(512, 256, 1);
//! let b = matrix::random_normal(256, 384, 2);
//! let gemm = Gemm::new(Device::open(DeviceSelector::Auto)?);
//! let c = gemm.multiply(&a, &b)?;
//! assert_eq!(c.dim(), (512, 384));
//! # Ok(())
//! # }
//! ```
//!
//! A program outside this workspace has to repeat its `[patch.crates-io]` section, with paths to `rust-cuda/`, and
//! `CUDA_LIBRARY_PATH` from its `.cargo/config.toml`: cargo takes both from the outermost workspace only.

pub mod bench;
pub mod check;
pub mod clocks;
pub mod cublas;
pub mod device;
pub mod exercise;
pub mod explain;
pub mod gemm;
pub mod gpus;
pub mod kernel_compiler;
pub mod kernels;
pub mod language;
pub mod matrix;
pub mod plan;
pub mod ptx;
pub mod report;
pub mod sweep;
pub mod tune;
pub mod verify;
