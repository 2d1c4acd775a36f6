//! Everything that can go wrong, in words for the person at the terminal.
use std::fmt;
use std::io;
use std::path::PathBuf;

/// Why there is no PTX.
///
/// Its `Debug` text is its `Display` text: a build script that returns it from `main`, or unwraps it, shows a sentence.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum CudaBuilderError {
    /// The folder given to the builder holds no crate.
    #[error("no kernel crate at {}: expected a folder with a Cargo.toml", .0.display())]
    CratePathDoesntExist(PathBuf),

    /// An option that rustc's own back end has no equivalent for.
    #[error("the option `{option}` can't be honoured: {reason}")]
    UnsupportedOption { option: &'static str, reason: &'static str },

    /// `CUDA_BUILDER_RUSTC` names a compiler that won't do.
    #[error("CUDA_BUILDER_RUSTC is {}, which can't build kernels: {reason}", .rustc.display())]
    UnusableCompiler { rustc: PathBuf, reason: String },

    /// No compiler on this machine will do, and none could be fetched.
    #[error(
        "no compiler for GPU kernels: that takes rustc {minimum} or later with the source of Rust's library ({searched})\n\
         install it with `rustup component add rust-src`, or `apt-get install rustc-web rust-web-src` on Debian, or set \
         CUDA_BUILDER_RUSTC to such a rustc"
    )]
    NoCompiler { minimum: String, searched: String },

    /// Fetching Debian's compiler failed part-way.
    #[error("the kernel compiler could not be fetched from Debian: {0}")]
    Download(String),

    /// A program didn't start.
    #[error("`{program}` can't be run: {error}")]
    ProgramFailed { program: String, error: io::Error },

    /// A file or folder of the build couldn't be read or written.
    #[error("{}: {error}", .path.display())]
    File { path: PathBuf, error: io::Error },

    /// The kernel crate doesn't compile. The compiler's own words went to standard error.
    #[error("the kernel crate doesn't compile: see the compiler's messages above")]
    BuildFailed,

    /// Cargo said something that this crate doesn't understand.
    #[error("cargo built the kernel crate and left no PTX at {}: delete that folder's `cuda-builder` ancestor and build again", .0.display())]
    NoPtx(PathBuf),

    /// The crate has no kernels.
    #[error(
        "the PTX of {0} has no entry point: mark a function `#[cuda_std::kernel]` and make sure its module is part of the crate"
    )]
    NoKernels(String),

    /// The PTX calls a function that nothing defines, which the driver would refuse at load time.
    #[error("the PTX of {crate_name} calls `{function}`, which nothing defines: a kernel can call Rust code only")]
    UndefinedFunction { crate_name: String, function: String },

    /// A kernel's shared array is read or written through generic addresses, which is slow.
    #[error(
        "the kernel `{kernel}` has a shared array and accesses it with generic loads and stores: get the pointer from \
         `shared_array!` in the function that uses it, or mark the functions it passes through `#[inline(always)]`"
    )]
    GenericSharedAccess { kernel: String },

    /// A kernel crate states launch bounds that can't be made directives of an entry.
    #[error("the launch bounds `{variable}` can't be kept: {reason}")]
    LaunchBounds { variable: String, reason: &'static str },

    /// A kernel crate states a level for an entry that can't be kept.
    #[error("the level `{variable}` can't be kept: {reason}")]
    Level { variable: String, reason: &'static str },

    /// The PTX couldn't be put where it was asked for.
    #[error("the PTX can't be copied to {}: {error}", .path.display())]
    FailedToCopyPtxFile { path: PathBuf, error: io::Error },
}

impl fmt::Debug for CudaBuilderError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Names the file or folder in an I/O error.
pub(crate) trait AtPath<T> {
    fn at(self, path: impl Into<PathBuf>) -> Result<T, CudaBuilderError>;
}

impl<T> AtPath<T> for io::Result<T> {
    fn at(self, path: impl Into<PathBuf>) -> Result<T, CudaBuilderError> {
        self.map_err(|error| CudaBuilderError::File { path: path.into(), error })
    }
}
