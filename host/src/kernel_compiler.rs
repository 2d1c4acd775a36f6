//! Which compiler built the kernels inside this binary.

/// The compiler's version and where it came from, as `build.rs` found it.
pub const DESCRIPTION: &str = env!("KERNEL_COMPILER");
