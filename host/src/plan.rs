//! Which kernel for which product.

use gpu_kernels::{KERNELS, Kernel};

/// A kernel name that is in no list.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("there is no kernel named '{}'; known kernels: {}", .name.escape_debug(), names().join(", "))]
pub struct UnknownKernel {
    /// The name that was asked for.
    pub name: String,
}

/// The names of all kernels, in reading order.
pub fn names() -> Vec<&'static str> {
    KERNELS.iter().map(|kernel| kernel.name).collect()
}

/// Finds a kernel by its name.
pub fn by_name(name: &str) -> Result<&'static Kernel, UnknownKernel> {
    KERNELS.iter().find(|kernel| kernel.name == name).ok_or_else(|| UnknownKernel { name: name.to_owned() })
}

/// Finds a kernel to look into by its name: one of the list, or the reader's own.
pub fn by_name_or_exercise(name: &str) -> Result<&'static Kernel, UnknownKernel> {
    let exercise = &gpu_kernels::exercise::KERNEL;
    if name == exercise.name { Ok(exercise) } else { by_name(name) }
}

/// The kernel to use for an `m` x `k` by `k` x `n` product when the caller names none.
///
/// Shared-memory tiles are ahead of the naive kernel for every shape that fills them, and cost little where they don't,
/// so the tiled kernel is the choice for all shapes.
pub fn choose(_m: usize, _n: usize, _k: usize) -> &'static Kernel {
    &gpu_kernels::tiled::KERNEL
}
