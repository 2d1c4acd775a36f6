//! Code that depends on the GPU generation it is compiled for.
use crate::gpu_only;

/// The levels a kernel can be compiled for. Later ones compare greater.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum ComputeCapability {
    Compute35,
    Compute37,
    Compute50,
    Compute52,
    Compute53,
    Compute60,
    Compute61,
    Compute62,
    Compute70,
    Compute72,
    Compute75,
    Compute80,
    Compute86,
    Compute87,
    Compute89,
    Compute90,
    Compute100,
    Compute101,
    Compute103,
    Compute120,
    Compute121,
}

impl ComputeCapability {
    /// The level of this compilation, which `cuda_builder` puts into the variable `CUDA_ARCH`. It is a constant, so the
    /// branches of other levels disappear.
    ///
    /// # Panics
    /// If the kernel wasn't built by `cuda_builder`.
    #[gpu_only]
    #[inline(always)]
    pub fn from_cuda_arch_env() -> Self {
        match option_env!("CUDA_ARCH").unwrap_or_default().as_bytes() {
            b"350" => Self::Compute35,
            b"370" => Self::Compute37,
            b"500" => Self::Compute50,
            b"520" => Self::Compute52,
            b"530" => Self::Compute53,
            b"600" => Self::Compute60,
            b"610" => Self::Compute61,
            b"620" => Self::Compute62,
            b"700" => Self::Compute70,
            b"720" => Self::Compute72,
            b"750" => Self::Compute75,
            b"800" => Self::Compute80,
            b"860" => Self::Compute86,
            b"870" => Self::Compute87,
            b"890" => Self::Compute89,
            b"900" => Self::Compute90,
            b"1000" => Self::Compute100,
            b"1010" => Self::Compute101,
            b"1030" => Self::Compute103,
            b"1200" => Self::Compute120,
            b"1210" => Self::Compute121,
            _ => panic!("CUDA_ARCH names no compute capability: build the kernel with cuda_builder"),
        }
    }
}
