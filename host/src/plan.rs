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
/// The larger a block's tile, the less it loads for each multiply-add, as long as there are blocks enough for the
/// multiprocessors of a GPU. So it's the kernel of the largest tile that still makes about one block for each of them;
/// tiles of 64 x 64 win over smaller ones with a quarter of that. Measured on an H200 (132 multiprocessors) with `sweep`.
pub fn choose(m: usize, n: usize, k: usize) -> &'static Kernel {
    /// Kernels by the size of their tiles, with the fewest blocks for which each is worth it.
    const LADDER: [(&Kernel, u64); 2] =
        [(&gpu_kernels::double_buffered::KERNEL, 128), (&gpu_kernels::tiled_64::KERNEL, 32)];
    let enough = LADDER.into_iter().find(|(kernel, fewest)| kernel.blocks(m, n, k) >= *fewest);
    enough.map_or(&gpu_kernels::tiled::KERNEL, |(kernel, _)| kernel)
}
