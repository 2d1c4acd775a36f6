//! Finds a rustc that can build kernels: new enough, and with the source of Rust's library beside it, since no release
//! comes with a compiled `core` for GPUs.
//!
//! In this order:
//! 1. the rustc that the variable `CUDA_BUILDER_RUSTC` names; if it won't do, that is an error;
//! 2. the rustc that builds everything else, if its toolchain has the component `rust-src`;
//! 3. another rustc of this machine that has the source, the newest of them: Debian's rustc-web with rust-web-src, for
//!    example;
//! 4. on Debian and its relatives, the newest rustc their archive offers, downloaded and unpacked in the target folder.
//!    The machine itself stays as it is, and no rights are needed. `CUDA_BUILDER_NO_DOWNLOAD=1` forbids a download, but
//!    not the use of what an earlier build has fetched.
mod debian;
mod rustc;
mod search;
mod version;

use std::fmt;
use std::path::{Path, PathBuf};

use crate::error::CudaBuilderError;
pub use rustc::KernelCompiler;
pub use version::Version;

/// Names the rustc to use.
pub const COMPILER_VARIABLE: &str = "CUDA_BUILDER_RUSTC";
/// Set to anything but 0, forbids fetching a compiler.
pub const NO_DOWNLOAD_VARIABLE: &str = "CUDA_BUILDER_NO_DOWNLOAD";

/// The oldest rustc that will do: the first whose LLVM (22) and library have all that cuda_std uses.
pub const MINIMUM_VERSION: Version = Version { major: 1, minor: 95, patch: 0 };

/// How a compiler was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CompilerOrigin {
    /// `CUDA_BUILDER_RUSTC` names it.
    Environment,
    /// It builds everything else too.
    ActiveToolchain,
    /// It was on this machine.
    System,
    /// It was fetched from Debian into the target folder.
    Downloaded,
}

impl fmt::Display for CompilerOrigin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            CompilerOrigin::Environment => "named by CUDA_BUILDER_RUSTC",
            CompilerOrigin::ActiveToolchain => "the active toolchain",
            CompilerOrigin::System => "found on this machine",
            CompilerOrigin::Downloaded => "Debian's, unpacked in the target folder",
        })
    }
}

/// The compiler that a build of kernels here and now would use, fetched if need be.
///
/// # Errors
/// If there is none and none can be fetched, or `CUDA_BUILDER_RUSTC` names one that won't do.
pub fn find_compiler() -> Result<KernelCompiler, CudaBuilderError> {
    let folder = std::env::var_os("CARGO_MANIFEST_DIR").map_or_else(|| PathBuf::from("."), PathBuf::from);
    find_in(&crate::cargo::cache_folder(&folder))
}

/// [`find_compiler`], with the folder where a fetched compiler is or would be kept.
pub(crate) fn find_in(cache: &Path) -> Result<KernelCompiler, CudaBuilderError> {
    if let Some(rustc) = std::env::var_os(COMPILER_VARIABLE).filter(|value| !value.is_empty()) {
        let rustc = PathBuf::from(rustc);
        return KernelCompiler::examine(&rustc, CompilerOrigin::Environment)
            .map_err(|reason| CudaBuilderError::UnusableCompiler { rustc, reason });
    }
    let mut searched = Vec::new();
    if let Some(compiler) = search::installed(&mut searched) {
        return Ok(compiler);
    }
    let may_download = std::env::var_os(NO_DOWNLOAD_VARIABLE).is_none_or(|value| value.is_empty() || value == "0");
    fetched_in(&cache.join("compiler"), may_download, searched)
}

/// The compiler that an earlier build has fetched into `folder`; if there is none, one is fetched where that may and
/// can be.
fn fetched_in(
    folder: &Path,
    may_download: bool,
    mut searched: Vec<String>,
) -> Result<KernelCompiler, CudaBuilderError> {
    if let Some(compiler) = debian::fetched(folder) {
        return Ok(compiler);
    }
    if !may_download {
        searched.push(format!("none was fetched before, and {NO_DOWNLOAD_VARIABLE} forbids to fetch one"));
    } else if !debian::is_available() {
        searched.push("this is no Debian to fetch one from".to_owned());
    } else {
        return debian::fetch(folder);
    }
    Err(CudaBuilderError::NoCompiler { minimum: MINIMUM_VERSION.to_string(), searched: searched.join("; ") })
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn without_leave_to_download_a_compiler_fetched_before_is_used_and_nothing_else() {
        let _alone = rustc::tests::alone();
        let folder = tempfile::tempdir().unwrap();
        let error = fetched_in(folder.path(), false, Vec::new()).unwrap_err();
        assert!(error.to_string().contains(NO_DOWNLOAD_VARIABLE), "{error}");
        assert_eq!(folder.path().read_dir().unwrap().count(), 0, "nothing is fetched");
        let unpacked = folder.path().join("debian");
        std::fs::create_dir(&unpacked).unwrap();
        let rustc = rustc::tests::pretend(&unpacked, &MINIMUM_VERSION.to_string(), true);
        let compiler = fetched_in(folder.path(), false, Vec::new()).unwrap();
        assert_eq!((compiler.rustc, compiler.origin), (rustc, CompilerOrigin::Downloaded));
    }
}
