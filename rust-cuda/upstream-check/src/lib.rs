//! The kernels, type-checked against the published `cuda_std`: proof that their source is ordinary Rust-CUDA and that the port has the
//! published names and signatures. README.md says more.

// The published macros give kernels an ABI that warns about Rust's types, and ask for a target that rustc has dropped; and on the CPU the
// methods of `GpuFloat` are std's own, so that importing it looks idle.
#![allow(improper_ctypes_definitions, unexpected_cfgs, unused_imports)]

#[path = "../../../gpu-kernels/src/launch.rs"]
pub mod launch;
#[path = "../../../gpu-kernels/src/naive.rs"]
pub mod naive;
#[path = "../../../gpu-kernels/src/tiled.rs"]
pub mod tiled;
