//! The PTX of `broken-kernels`: every broken kernel and its right twin in one module, for any GPU from compute capability
//! 8.0 on.

/// The module's text.
pub const PTX: &str = include_str!(concat!(env!("OUT_DIR"), "/broken_kernels_compute_80.ptx"));
