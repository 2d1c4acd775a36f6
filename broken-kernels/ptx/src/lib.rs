//! The PTX of `broken-kernels`: every broken kernel and its right twin, in one module for any GPU from compute capability 8.0
//! on and one for Hopper alone, which has those as well that are launched as `Launch::Boxes`.

/// The module for any GPU from compute capability 8.0 on.
pub const PTX: &str = include_str!(concat!(env!("OUT_DIR"), "/broken_kernels_compute_80.ptx"));

/// The module for compute capability 9.0 alone.
pub const PTX_90A: &str = include_str!(concat!(env!("OUT_DIR"), "/broken_kernels_compute_90a.ptx"));
