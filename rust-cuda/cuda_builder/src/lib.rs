//! Builds a crate of GPU kernels to PTX, from a build script.
//!
//! ```no_run
//! use cuda_builder::{CudaBuilder, CudaBuilderError, NvvmArch};
//!
//! fn main() -> Result<(), CudaBuilderError> {
//!     CudaBuilder::new("gpu-kernels").arch(NvvmArch::Compute70).copy_to("kernels.ptx").build()?;
//!     Ok(())
//! }
//! ```
//!
//! A port of the published `cuda_builder` to rustc's own NVPTX back end: the same names for the same things, and no
//! compiler back end, LLVM or CUDA toolkit to install. What it needs is a rustc with the source of Rust's library, and
//! it looks for one in [`compiler`]; an option that this back end can't honour is an error that says so, never ignored.
//!
//! One build walks through these rooms: [`compiler`] finds or fetches the compiler, `cargo` runs it on the kernel
//! crate, `ptx` tidies what comes out and checks its promises, `build_script` tells cargo when to run all this again.
mod arch;
mod build_script;
mod builder;
mod cargo;
pub mod compiler;
mod error;
mod ptx;

pub use arch::NvvmArch;
pub use builder::{CudaBuilder, DebugInfo, EmitOption};
pub use compiler::{CompilerOrigin, KernelCompiler, find_compiler};
pub use error::CudaBuilderError;
