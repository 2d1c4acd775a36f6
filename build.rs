//! Builds the GPU kernels to PTX, for the host program to carry inside.
use std::path::Path;

use cuda_builder::{CudaBuilder, CudaBuilderError, NvvmArch};

fn main() -> Result<(), CudaBuilderError> {
    let out = std::env::var_os("OUT_DIR").expect("cargo sets OUT_DIR for build scripts");
    let kernels = CudaBuilder::new("../gpu-kernels").arch(NvvmArch::Compute70);
    kernels.copy_to(Path::new(&out).join("gpu_kernels_compute_70.ptx")).build()?;
    println!("cargo:rustc-env=KERNEL_COMPILER={}", cuda_builder::find_compiler()?);
    Ok(())
}
