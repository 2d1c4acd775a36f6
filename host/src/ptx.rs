//! The PTX of `gpu-kernels`, built by `build.rs` and carried inside the binary: one module per architecture level.

use gpu_kernels::Architecture;

/// One PTX module.
#[derive(Clone, Copy, Debug)]
pub struct PtxModule {
    /// The level it was built for: GPUs of this generation and later can run it.
    pub architecture: Architecture,
    /// Its text.
    pub text: &'static str,
}

/// Every module of the crate, lowest level first.
pub const MODULES: &[PtxModule] = &[PtxModule {
    architecture: Architecture::Compute70,
    text: include_str!(concat!(env!("OUT_DIR"), "/gpu_kernels_compute_70.ptx")),
}];

/// The module that holds the kernels of one level.
///
/// Returns `None` for a level that this build doesn't have.
pub fn module_for(architecture: Architecture) -> Option<&'static PtxModule> {
    MODULES.iter().find(|module| module.architecture == architecture)
}
