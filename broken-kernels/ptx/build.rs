//! Builds broken-kernels to PTX. A crate of its own, so that only tests ask for it.
use std::path::Path;

use cuda_builder::{CudaBuilder, CudaBuilderError, NvvmArch};

fn main() -> Result<(), CudaBuilderError> {
    let out = std::env::var_os("OUT_DIR").expect("cargo sets OUT_DIR for build scripts");
    for (level, module) in [
        (NvvmArch::Compute80, "broken_kernels_compute_80.ptx"),
        (NvvmArch::Compute90a, "broken_kernels_compute_90a.ptx"),
    ] {
        CudaBuilder::new("..").arch(level).copy_to(Path::new(&out).join(module)).build()?;
    }
    Ok(())
}
