//! What a user asks for, and the walk from there to a PTX file.
use std::path::{Path, PathBuf};

use crate::arch::NvvmArch;
use crate::build_script;
use crate::cargo::{self, Job};
use crate::compiler;
use crate::error::{AtPath, CudaBuilderError};
use crate::ptx;

/// How much the PTX tells about the source.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum DebugInfo {
    /// Nothing beyond what [`CudaBuilder::generate_line_info`] asks for.
    #[default]
    None,
    /// File, line and column of each instruction.
    LineTables,
}

/// What to write beside the PTX.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EmitOption {
    /// LLVM's intermediate language as text, `.ll`.
    LlvmIr,
    /// The same in its binary form, `.bc`.
    Bitcode,
}

/// A build of one kernel crate to one PTX module.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct CudaBuilder {
    path_to_crate: PathBuf,
    /// See [`release`](CudaBuilder::release).
    pub release: bool,
    /// See [`nvptx_32`](CudaBuilder::nvptx_32).
    pub nvptx_32: bool,
    /// See [`copy_to`](CudaBuilder::copy_to).
    pub ptx_file_copy_path: Option<PathBuf>,
    /// See [`generate_line_info`](CudaBuilder::generate_line_info).
    pub generate_line_info: bool,
    /// See [`nvvm_opts`](CudaBuilder::nvvm_opts).
    pub nvvm_opts: bool,
    /// See [`arch`](CudaBuilder::arch).
    pub arch: NvvmArch,
    /// See [`ftz`](CudaBuilder::ftz).
    pub ftz: bool,
    /// See [`fast_sqrt`](CudaBuilder::fast_sqrt).
    pub fast_sqrt: bool,
    /// See [`fast_div`](CudaBuilder::fast_div).
    pub fast_div: bool,
    /// See [`fma_contraction`](CudaBuilder::fma_contraction).
    pub fma_contraction: bool,
    /// See [`emit_llvm_ir`](CudaBuilder::emit_llvm_ir) and [`emit_llvm_bitcode`](CudaBuilder::emit_llvm_bitcode).
    pub emit: Option<EmitOption>,
    /// See [`optix`](CudaBuilder::optix).
    pub optix: bool,
    /// See [`override_libm`](CudaBuilder::override_libm).
    pub override_libm: bool,
    /// See [`debug`](CudaBuilder::debug).
    pub debug: DebugInfo,
    /// See [`build_args`](CudaBuilder::build_args).
    pub build_args: Vec<String>,
}

impl CudaBuilder {
    /// A build of the crate in the folder `path_to_crate_root`; in a build script, relative to the folder of that
    /// script's package.
    pub fn new(path_to_crate_root: impl AsRef<Path>) -> Self {
        CudaBuilder {
            path_to_crate: path_to_crate_root.as_ref().to_owned(),
            release: true,
            nvptx_32: false,
            ptx_file_copy_path: None,
            generate_line_info: true,
            nvvm_opts: true,
            arch: NvvmArch::default(),
            ftz: false,
            fast_sqrt: false,
            fast_div: false,
            fma_contraction: false,
            emit: None,
            optix: false,
            override_libm: false,
            debug: DebugInfo::None,
            build_args: Vec::new(),
        }
    }

    /// The GPU generation to compile for; the default is that of the published crate, 6.1.
    pub fn arch(mut self, arch: NvvmArch) -> Self {
        self.arch = arch;
        self
    }

    /// Whether to build without debug assertions and overflow checks, as is the default. Kernels are optimised either
    /// way: without optimisation, their shared arrays would be no shared arrays to the compiler.
    pub fn release(mut self, release: bool) -> Self {
        self.release = release;
        self
    }

    /// Where to copy the PTX to; its folder must exist.
    pub fn copy_to(mut self, path: impl AsRef<Path>) -> Self {
        self.ptx_file_copy_path = Some(path.as_ref().to_owned());
        self
    }

    /// Whether the PTX says which source line each instruction comes from, as is the default. Profilers and debuggers
    /// show it; the code stays the same.
    pub fn generate_line_info(mut self, generate_line_info: bool) -> Self {
        self.generate_line_info = generate_line_info;
        self
    }

    /// [`DebugInfo::LineTables`] is another way to ask for [`generate_line_info`](CudaBuilder::generate_line_info).
    pub fn debug(mut self, debug: DebugInfo) -> Self {
        self.debug = debug;
        self
    }

    /// Further arguments for cargo, such as `--features` and their names.
    pub fn build_args(mut self, args: &[impl AsRef<str>]) -> Self {
        self.build_args.extend(args.iter().map(|argument| argument.as_ref().to_owned()));
        self
    }

    /// Whether `a * b + c` may become one fused multiply-add, in the kernel crate's own code and what is inlined there.
    /// The default is no, unlike that of the published crate: Rust rounds the product and the sum, on every machine
    /// alike, and `mul_add` asks for the fused one.
    pub fn fma_contraction(mut self, fma_contraction: bool) -> Self {
        self.fma_contraction = fma_contraction;
        self
    }

    /// Whether `f32` square roots may be approximate. The default is no.
    pub fn fast_sqrt(mut self, fast_sqrt: bool) -> Self {
        self.fast_sqrt = fast_sqrt;
        self
    }

    /// Whether `f32` quotients may be approximate, up to 2 units in the last place off. The default is no.
    pub fn fast_div(mut self, fast_div: bool) -> Self {
        self.fast_div = fast_div;
        self
    }

    /// Writes LLVM's intermediate language beside the PTX.
    pub fn emit_llvm_ir(mut self, emit_llvm_ir: bool) -> Self {
        self.emit = emit_llvm_ir.then_some(EmitOption::LlvmIr);
        self
    }

    /// Writes LLVM's intermediate language, in its binary form, beside the PTX.
    pub fn emit_llvm_bitcode(mut self, emit_llvm_bitcode: bool) -> Self {
        self.emit = emit_llvm_bitcode.then_some(EmitOption::Bitcode);
        self
    }

    /// Flushing `f32` denormals to zero: can't be honoured, so `true` is an error of [`build`](CudaBuilder::build).
    pub fn ftz(mut self, ftz: bool) -> Self {
        self.ftz = ftz;
        self
    }

    /// 32-bit pointers: can't be honoured, so `true` is an error of [`build`](CudaBuilder::build).
    pub fn nvptx_32(mut self, nvptx_32: bool) -> Self {
        self.nvptx_32 = nvptx_32;
        self
    }

    /// Optimisation by LLVM: always on, so `false` is an error of [`build`](CudaBuilder::build).
    pub fn nvvm_opts(mut self, nvvm_opts: bool) -> Self {
        self.nvvm_opts = nvvm_opts;
        self
    }

    /// Code for OptiX: can't be honoured, so `true` is an error of [`build`](CudaBuilder::build).
    pub fn optix(mut self, optix: bool) -> Self {
        self.optix = optix;
        self
    }

    /// NVIDIA's libdevice in the place of `libm`: can't be honoured, so `true` is an error of
    /// [`build`](CudaBuilder::build).
    pub fn override_libm(mut self, override_libm: bool) -> Self {
        self.override_libm = override_libm;
        self
    }

    /// Builds the crate and gives the path of the PTX.
    ///
    /// In a build script it also tells cargo what the PTX depends on.
    ///
    /// # Errors
    /// If there is no such crate, an option can't be honoured, no compiler is to be had, the crate doesn't compile, or
    /// the PTX breaks a promise (see [`CudaBuilderError`]).
    pub fn build(self) -> Result<PathBuf, CudaBuilderError> {
        self.refuse_what_cannot_be_honoured()?;
        let manifest = self.path_to_crate.join("Cargo.toml");
        if !manifest.is_file() {
            return Err(CudaBuilderError::CratePathDoesntExist(self.path_to_crate));
        }
        let crate_root = self.path_to_crate.canonicalize().at(&self.path_to_crate)?;

        build_script::watch_variables();
        build_script::watch_crate(&crate_root);
        let cache = cargo::cache_folder(&crate_root);
        let compiler = compiler::find_in(&cache)?;
        let built = cargo::build(&Job {
            compiler: &compiler,
            crate_root: &crate_root,
            target_folder: &cache.join(self.arch.target_cpu()),
            arch: self.arch,
            line_info: self.generate_line_info || self.debug == DebugInfo::LineTables,
            checks: !self.release,
            emit: self.emit,
            llvm_arguments: &self.llvm_arguments(),
            cargo_arguments: &self.build_args,
        })?;
        for local_crate in &built.local_crates {
            build_script::watch_crate(local_crate);
        }

        let text = std::fs::read_to_string(&built.assembly).at(&built.assembly)?;
        ptx::check_kernels(&text, &built.name)?;
        let text = ptx::of_level(&ptx::bound(&text)?, self.arch)?;
        let text = ptx::tidy(&ptx::align_tensor_maps(&text));
        ptx::check(&text, &built.name)?;
        let path = cache.join(self.arch.target_cpu()).join(format!("{}.ptx", built.name));
        write_if_changed(&path, &text).at(&path)?;
        let Some(copy) = &self.ptx_file_copy_path else { return Ok(path) };
        write_if_changed(copy, &text)
            .map_err(|error| CudaBuilderError::FailedToCopyPtxFile { path: copy.clone(), error })?;
        if let Some(intermediate) = &built.intermediate {
            let beside = copy.with_extension(intermediate.extension().unwrap_or_default());
            std::fs::copy(intermediate, &beside).at(beside)?;
        }
        Ok(copy.clone())
    }

    fn refuse_what_cannot_be_honoured(&self) -> Result<(), CudaBuilderError> {
        let refused = [
            (self.nvptx_32, "nvptx_32", "rustc has a 64-bit NVPTX target only"),
            (self.ftz, "ftz", "rustc has no switch for it, and kernels keep denormals"),
            (!self.nvvm_opts, "nvvm_opts(false)", "without optimisation a shared array is accessed as generic memory"),
            (self.optix, "optix", "rustc's PTX doesn't keep to the rules of OptiX programs"),
            (
                self.override_libm,
                "override_libm",
                "there is no libdevice here: cuda_std::GpuFloat computes with the crate libm",
            ),
        ];
        match refused.into_iter().find(|(asked, ..)| *asked) {
            Some((_, option, reason)) => Err(CudaBuilderError::UnsupportedOption { option, reason }),
            None => Ok(()),
        }
    }

    fn llvm_arguments(&self) -> Vec<&'static str> {
        // Arrays in registers need their loops unrolled in full, whatever the size: a register has no index, and an
        // array that is indexed at run time goes to local memory. rustc has no `#[unroll]`.
        let mut arguments = vec!["-unroll-threshold=20000"];
        if self.fma_contraction {
            arguments.push("-nvptx-fma-level=2");
        }
        if self.fast_sqrt {
            arguments.push("-nvptx-prec-sqrtf32=0");
        }
        if self.fast_div {
            arguments.push("-nvptx-prec-divf32=0");
        }
        arguments
    }
}

/// Leaves a file with the right text alone, so that nobody who watches it builds again for nothing. A new text appears
/// whole or not at all.
fn write_if_changed(path: &Path, text: &str) -> std::io::Result<()> {
    if std::fs::read(path).is_ok_and(|present| present == text.as_bytes()) {
        return Ok(());
    }
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}.tmp", std::process::id()));
    let temporary = path.with_file_name(name);
    std::fs::write(&temporary, text)?;
    std::fs::rename(&temporary, path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_without_a_crate_is_named() {
        let error = CudaBuilder::new("no/such/crate").build().unwrap_err().to_string();
        assert!(error.contains("no/such/crate"), "{error}");
    }

    #[test]
    fn an_option_that_cannot_be_honoured_is_an_error_and_not_ignored() {
        for (builder, option) in [
            (CudaBuilder::new(".").ftz(true), "ftz"),
            (CudaBuilder::new(".").nvptx_32(true), "nvptx_32"),
            (CudaBuilder::new(".").nvvm_opts(false), "nvvm_opts"),
            (CudaBuilder::new(".").optix(true), "optix"),
            (CudaBuilder::new(".").override_libm(true), "override_libm"),
        ] {
            let error = builder.build().unwrap_err().to_string();
            assert!(error.contains(option), "{error}");
        }
    }

    #[test]
    fn a_file_with_the_right_text_is_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("kernels.ptx");
        write_if_changed(&path, "one").unwrap();
        let written = path.metadata().unwrap().modified().unwrap();
        write_if_changed(&path, "one").unwrap();
        assert_eq!(path.metadata().unwrap().modified().unwrap(), written);
        write_if_changed(&path, "two").unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "two");
        assert_eq!(folder.path().read_dir().unwrap().count(), 1);
    }
}
