//! Builds the GPU kernels to PTX, for the host program to carry inside.
use std::path::Path;

use cuda_builder::{CudaBuilder, CudaBuilderError, NvvmArch};

fn main() -> Result<(), CudaBuilderError> {
    let out = std::env::var_os("OUT_DIR").expect("cargo sets OUT_DIR for build scripts");
    for (kernels, level, module) in [
        ("../gpu-kernels", NvvmArch::Compute70, "gpu_kernels_compute_70.ptx"),
        ("../gpu-kernels", NvvmArch::Compute80, "gpu_kernels_compute_80.ptx"),
        ("../gpu-kernels/production", NvvmArch::Compute70, "production_kernels_compute_70.ptx"),
        ("../gpu-kernels/production", NvvmArch::Compute80, "production_kernels_compute_80.ptx"),
    ] {
        CudaBuilder::new(kernels).arch(level).copy_to(Path::new(&out).join(module)).build()?;
    }
    println!("cargo:rustc-env=KERNEL_COMPILER={}", cuda_builder::find_compiler()?);
    Ok(())
}
