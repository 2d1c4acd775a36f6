//! Builds the GPU kernels to PTX, for the host program to carry inside.
use std::path::Path;

use cuda_builder::{CudaBuilder, CudaBuilderError, NvvmArch};

fn main() -> Result<(), CudaBuilderError> {
    let out = std::env::var_os("OUT_DIR").expect("cargo sets OUT_DIR for build scripts");
    let mut production = String::new();
    for (kernels, level, module) in [
        ("../gpu-kernels", NvvmArch::Compute70, "gpu_kernels_compute_70.ptx"),
        ("../gpu-kernels", NvvmArch::Compute80, "gpu_kernels_compute_80.ptx"),
        ("../gpu-kernels", NvvmArch::Compute90a, "gpu_kernels_compute_90a.ptx"),
        ("../gpu-kernels/production", NvvmArch::Compute80, "production_kernels_compute_80.ptx"),
        ("../gpu-kernels/hopper", NvvmArch::Compute90a, "hopper_kernels_compute_90a.ptx"),
    ] {
        let path = CudaBuilder::new(kernels).arch(level).copy_to(Path::new(&out).join(module)).build()?;
        if module.starts_with("production") {
            production += &std::fs::read_to_string(path).expect("the PTX was written just now");
        }
    }
    println!("cargo:rustc-env=KERNEL_COMPILER={}", cuda_builder::find_compiler()?);
    println!("cargo:rustc-env=PRODUCTION_KERNELS_HASH={:016x}", hash(&production));
    Ok(())
}

/// FNV-1a over the PTX without its line directives: a comment more in the source makes no other kernel.
fn hash(modules: &str) -> u64 {
    let is_code = |line: &&str| !line.trim_start().starts_with(".loc") && !line.trim_start().starts_with("//");
    let bytes = modules.lines().filter(is_code).flat_map(|line| line.bytes().chain([b'\n']));
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3))
}
