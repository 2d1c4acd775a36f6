//! Which compiler built the kernels inside this binary.

/// The compiler's version and where it came from, as the build script found it.
pub const DESCRIPTION: &str = match option_env!("GPU_KERNELS_COMPILER") {
    Some(description) => description,
    None => "unknown",
};
