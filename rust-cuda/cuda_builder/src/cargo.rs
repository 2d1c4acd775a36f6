//! Runs cargo on the kernel crate, inside a build that cargo itself may be running.
//!
//! The inner cargo has a target folder of its own, so that it never waits for a lock of the outer one, and none of the
//! outer one's variables, which speak of another compilation.
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::arch::NvvmArch;
use crate::build_script;
use crate::builder::EmitOption;
use crate::compiler::KernelCompiler;
use crate::error::{AtPath, CudaBuilderError};

/// The target, and the profile that kernels are built in: one of their own, which no setting of the workspace reaches
/// by accident.
const TARGET: &str = "nvptx64-nvidia-cuda";
const PROFILE: &str = "gpu";

/// What the macros of cuda_std expand to needs these; a kernel crate doesn't have to say so.
const FEATURES: &str = "-Zcrate-attr=feature(abi_ptx,asm_experimental_arch)";

pub struct Job<'a> {
    pub compiler: &'a KernelCompiler,
    pub crate_root: &'a Path,
    pub target_folder: &'a Path,
    pub arch: NvvmArch,
    pub line_info: bool,
    /// Debug assertions and overflow checks.
    pub checks: bool,
    pub emit: Option<EmitOption>,
    pub llvm_arguments: &'a [&'static str],
    pub cargo_arguments: &'a [String],
}

pub struct Built {
    /// The crate's name as rustc knows it, with underscores.
    pub name: String,
    /// rustc's PTX.
    pub assembly: PathBuf,
    /// What [`Job::emit`] asked for.
    pub intermediate: Option<PathBuf>,
    /// The folders of all crates of the build that lie on this machine rather than in a registry.
    pub local_crates: Vec<PathBuf>,
}

/// Builds the crate; the compiler's errors go to standard error, its warnings about the kernel crate to the user.
pub fn build(job: &Job) -> Result<Built, CudaBuilderError> {
    std::fs::create_dir_all(job.target_folder).at(job.target_folder)?;
    let report = run(job)?;
    let folder = job.target_folder.join(TARGET).join(PROFILE).join("deps");
    let Some(name) = report.name.clone() else { return Err(CudaBuilderError::NoPtx(folder)) };
    let assembly = folder.join(format!("{name}.s"));
    // Cargo takes a crate for built if what a linker would have made is there, and there is no linker. So something stands in for that; and beside it
    // stands whose assembly this is, for others may have built a crate of this name in this folder since.
    let (linked, owner) = (folder.join(format!("{name}.ptx")), folder.join(format!("{name}.owner")));
    let own = described(&command(job));
    let is_own = assembly.is_file() && std::fs::read_to_string(&owner).is_ok_and(|owner| owner == own);
    let report = if report.is_fresh && !is_own {
        std::fs::remove_file(&linked).at(&linked)?;
        run(job)?
    } else {
        report
    };
    if !assembly.is_file() {
        return Err(CudaBuilderError::NoPtx(assembly));
    }
    std::fs::write(&linked, "").at(&linked)?;
    std::fs::write(&owner, own).at(&owner)?;
    for warning in &report.warnings {
        build_script::say(warning);
    }
    let intermediate = job.emit.map(|emit| {
        folder.join(&name).with_extension(match emit {
            EmitOption::LlvmIr => "ll",
            EmitOption::Bitcode => "bc",
        })
    });
    Ok(Built { name, assembly, intermediate, local_crates: report.local_crates })
}

/// Runs cargo.
fn run(job: &Job) -> Result<Report, CudaBuilderError> {
    let mut command = command(job);
    let program = command.get_program().to_string_lossy().into_owned();
    let failed = |error| CudaBuilderError::ProgramFailed { program: program.clone(), error };
    let mut child = command.stdout(Stdio::piped()).spawn().map_err(failed)?;
    let mut report = Report::new(job.crate_root, &job.compiler.library_source);
    for line in BufReader::new(child.stdout.take().expect("standard output is piped")).lines() {
        report.take(&line.map_err(failed)?);
    }
    if !child.wait().map_err(failed)?.success() {
        return Err(CudaBuilderError::BuildFailed);
    }
    Ok(report)
}

/// What a command does, whatever variables of the outer build it takes away.
fn described(command: &Command) -> String {
    let set: Vec<_> = command.get_envs().filter(|(_, value)| value.is_some()).collect();
    format!("{:?} {:?} {set:?}", command.get_program(), command.get_args().collect::<Vec<_>>())
}

fn command(job: &Job) -> Command {
    let mut command = cargo_without_outer_build();
    command
        .env("RUSTC", &job.compiler.rustc)
        // The NVPTX target and building the library for it are for nightly compilers; this lets a stable one do it.
        .env("RUSTC_BOOTSTRAP", "1")
        .env("CUDA_ARCH", job.arch.cuda_arch_variable())
        .env("CARGO_ENCODED_RUSTFLAGS", rustflags(job).join("\u{1f}"));

    command
        .args(["rustc", "--lib", "--crate-type", "cdylib", "-Zbuild-std=core", "--target", TARGET])
        .args(["--color", "never", "--message-format", "json"])
        .arg("--manifest-path")
        .arg(job.crate_root.join("Cargo.toml"))
        .arg("--target-dir")
        .arg(job.target_folder)
        .args(["--profile", PROFILE]);
    for setting in profile(job) {
        command.arg("--config").arg(format!("profile.{PROFILE}.{setting}"));
    }
    command.args(job.cargo_arguments);

    let emit = match job.emit {
        None => "--emit=asm",
        Some(EmitOption::LlvmIr) => "--emit=asm,llvm-ir",
        Some(EmitOption::Bitcode) => "--emit=asm,llvm-bc",
    };
    command.args(["--", emit, FEATURES]);
    if job.line_info {
        // For this crate only, not for what it depends on: an instruction inlined from a function without lines gets
        // the line of the call, so that a barrier or a fused multiply-add is shown where the kernel asks for it, not
        // inside cuda_std or core.
        command.arg("-Cdebuginfo=line-directives-only");
    }
    // A crate may enable these features itself, or need only some of them.
    command.args(["-Aduplicate_features", "-Aunused_features"]);
    // PTX is what is wanted, and a linker would only make something else of it: run a program that does nothing.
    command.arg("-Clinker=true");
    // cuda_std tells LLVM which pointers point to shared memory and how they are aligned. LLVM's own order of passes
    // forgets both before the passes that would use them, so these run once more, early enough: the alignment first,
    // since it isn't seen through the conversion to an address in shared memory. It's what lets neighbouring accesses
    // become one of 8 or 16 bytes.
    command.arg("-Cpasses=function(infer-alignment,infer-address-spaces)");
    command.arg(format!("-Cllvm-args={}", job.llvm_arguments.join(" ")));
    command
}

/// Flags for every crate of the kernel build, `core` included: a change here builds them all again.
fn rustflags(job: &Job) -> Vec<String> {
    let mut flags = vec![
        format!("-Ctarget-cpu={}", job.arch.target_cpu()),
        // This pass can duplicate a barrier into both sides of a branch (rust-lang/rust#137086).
        "-Zmir-enable-passes=-JumpThreading".to_owned(),
        // A small function of a library is not compiled again inside the kernel crate, where it would get lines of its
        // own (see `command`); it is inlined when everything is linked.
        "-Zcross-crate-inline-threshold=never".to_owned(),
    ];
    if let Some(feature) = job.arch.ptx_version_feature() {
        flags.push(format!("-Ctarget-feature={feature}"));
    }
    flags.extend(source_folders(job).iter().map(|folder| format!("--remap-path-prefix={}=", folder.display())));
    flags
}

/// Folders whose names are left out of file names in the PTX and in messages, so that a reader sees
/// `gpu-kernels/src/tiled.rs` or `core/src/num/f32.rs`. Where one lies in another, the later one counts.
fn source_folders(job: &Job) -> Vec<PathBuf> {
    let workspace = workspace_root(job.crate_root);
    let mut folders: Vec<PathBuf> = workspace.iter().cloned().collect();
    let home = std::env::var_os("CARGO_HOME").map(PathBuf::from).or_else(|| Some(std::env::home_dir()?.join(".cargo")));
    let registries = home.map(|home| home.join("registry/src")).and_then(|folder| folder.read_dir().ok());
    folders.extend(registries.into_iter().flatten().flatten().map(|registry| registry.path()));
    let library = &job.compiler.library_source;
    folders.extend(library.canonicalize());
    folders.push(library.clone());
    // Cargo speaks of a file inside the workspace by its path from there; the target folder, with a fetched compiler,
    // is such a place.
    let from_workspace = workspace.and_then(|workspace| library.strip_prefix(workspace).ok().map(Path::to_owned));
    folders.extend(from_workspace);
    folders
}

fn profile(job: &Job) -> Vec<String> {
    vec![
        "inherits=\"release\"".to_owned(),
        "opt-level=3".to_owned(),
        // PTX has no linker here: everything a kernel calls must be in the one module. And only what is inlined is
        // fast.
        "lto=\"fat\"".to_owned(),
        "codegen-units=1".to_owned(),
        "panic=\"abort\"".to_owned(),
        "strip=false".to_owned(),
        "incremental=false".to_owned(),
        "debug=false".to_owned(),
        format!("debug-assertions={}", job.checks),
        format!("overflow-checks={}", job.checks),
    ]
}

/// Cargo as the outer build runs it, without what the outer build told its own children.
fn cargo_without_outer_build() -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    for (name, _) in std::env::vars_os() {
        if name.to_str().is_some_and(belongs_to_outer_build) {
            command.env_remove(name);
        }
    }
    // Empty is how to overrule a wrapper that a configuration file sets.
    command.env("RUSTC_WRAPPER", "").env("RUSTC_WORKSPACE_WRAPPER", "");
    command
}

fn belongs_to_outer_build(variable: &str) -> bool {
    // Where crates come from, and through which network, is the same for both.
    const SHARED: [&str; 7] = [
        "CARGO_HOME",
        "CARGO_HTTP_",
        "CARGO_NET_",
        "CARGO_REGISTRY_",
        "CARGO_REGISTRIES_",
        "CARGO_SOURCE_",
        "CARGO_CACHE_",
    ];
    const OUTER: [&str; 20] = [
        "CLIPPY_ARGS",
        "CLIPPY_CONF_DIR",
        "CLIPPY_TERMINAL_WIDTH",
        "DEBUG",
        "HOST",
        "MAKEFLAGS",
        "MFLAGS",
        "NUM_JOBS",
        "OPT_LEVEL",
        "OUT_DIR",
        "PROFILE",
        "RUSTC",
        "RUSTC_BOOTSTRAP",
        "RUSTC_LINKER",
        "RUSTC_WRAPPER",
        "RUSTC_WORKSPACE_WRAPPER",
        "RUSTDOC",
        "RUSTDOCFLAGS",
        "RUSTFLAGS",
        "TARGET",
    ];
    if SHARED.iter().any(|prefix| variable.starts_with(prefix)) {
        return false;
    }
    variable.starts_with("CARGO_") || variable.starts_with("DEP_") || OUTER.contains(&variable)
}

/// The folder for everything that this crate keeps between builds: `cuda-builder` in the target folder.
pub fn cache_folder(crate_root: &Path) -> PathBuf {
    let target = target_of_build_script()
        .or_else(|| target_of_workspace(crate_root))
        .unwrap_or_else(|| crate_root.join("target"));
    target.join("cuda-builder")
}

/// The target folder that `OUT_DIR` lies in. Cargo marks it with a CACHEDIR.TAG, whatever its name and place.
fn target_of_build_script() -> Option<PathBuf> {
    let out = PathBuf::from(std::env::var_os("OUT_DIR")?);
    out.ancestors().find(|folder| folder.join("CACHEDIR.TAG").is_file()).map(Path::to_owned)
}

fn target_of_workspace(crate_root: &Path) -> Option<PathBuf> {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(["metadata", "--no-deps", "--format-version", "1", "--manifest-path"]);
    let output = command.arg(crate_root.join("Cargo.toml")).output().ok().filter(|output| output.status.success())?;
    let metadata: Value = serde_json::from_slice(&output.stdout).ok()?;
    Some(metadata["target_directory"].as_str()?.into())
}

fn workspace_root(crate_root: &Path) -> Option<PathBuf> {
    let mut command = cargo_without_outer_build();
    command.args(["locate-project", "--workspace", "--message-format", "plain", "--manifest-path"]);
    let output = command.arg(crate_root.join("Cargo.toml")).output().ok().filter(|output| output.status.success())?;
    let manifest = PathBuf::from(String::from_utf8(output.stdout).ok()?.trim_end());
    manifest.parent().map(Path::to_owned)
}

/// What cargo's messages, one JSON object a line, tell of a build.
struct Report {
    crate_root: PathBuf,
    /// Its crates are built too, and are nobody's to edit.
    library_source: PathBuf,
    name: Option<String>,
    /// Whether it was built before.
    is_fresh: bool,
    warnings: Vec<String>,
    local_crates: Vec<PathBuf>,
}

impl Report {
    fn new(crate_root: &Path, library_source: &Path) -> Self {
        Report {
            crate_root: crate_root.to_owned(),
            library_source: library_source.to_owned(),
            name: None,
            is_fresh: false,
            warnings: Vec::new(),
            local_crates: Vec::new(),
        }
    }

    fn take(&mut self, line: &str) {
        let Ok(message) = serde_json::from_str::<Value>(line) else { return };
        let folder = message["manifest_path"].as_str().and_then(|path| Path::new(path).parent());
        match message["reason"].as_str() {
            Some("compiler-artifact") => {
                let Some(folder) = folder else { return };
                let is_local = message["package_id"].as_str().is_some_and(|id| id.starts_with("path+"))
                    && !folder.starts_with(&self.library_source);
                // A build script is a target of its own in the same folder.
                if folder == self.crate_root && message["target"]["kind"] != serde_json::json!(["custom-build"]) {
                    self.name = message["target"]["name"].as_str().map(|name| name.replace('-', "_"));
                    self.is_fresh = message["fresh"] == true;
                }
                if is_local && !self.local_crates.iter().any(|known| known == folder) {
                    self.local_crates.push(folder.to_owned());
                }
            }
            Some("compiler-message") => {
                let (diagnostic, rendered) =
                    (&message["message"], message["message"]["rendered"].as_str().unwrap_or_default());
                let points_at_source = diagnostic["spans"].as_array().is_some_and(|spans| !spans.is_empty());
                match diagnostic["level"].as_str() {
                    Some("warning") if folder == Some(&self.crate_root) && points_at_source => {
                        self.warnings.push(rendered.to_owned());
                    }
                    // Among them rustc's remark that the choice of a PTX version is unstable.
                    Some("warning" | "note" | "help") => {}
                    _ => eprint!("{rendered}"),
                }
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_outer_builds_variables_do_not_reach_the_inner_one() {
        for variable in [
            "CARGO_ENCODED_RUSTFLAGS",
            "CARGO_BUILD_TARGET",
            "CARGO_TARGET_DIR",
            "CARGO_MAKEFLAGS",
            "CARGO_PROFILE_RELEASE_LTO",
            "CARGO_CFG_TARGET_ARCH",
            "CARGO_FEATURE_X",
            "RUSTFLAGS",
            "RUSTC_WORKSPACE_WRAPPER",
            "DEP_CUDA_ROOT",
            "TARGET",
        ] {
            assert!(belongs_to_outer_build(variable), "{variable}");
        }
        for variable in ["CARGO_HOME", "CARGO_HTTP_PROXY", "CARGO_NET_OFFLINE", "PATH", "HOME", "RUSTUP_TOOLCHAIN"] {
            assert!(!belongs_to_outer_build(variable), "{variable}");
        }
    }

    #[test]
    fn the_report_knows_the_crate_its_local_dependencies_and_its_warnings() {
        let mut report = Report::new(Path::new("/home/me/kernels"), Path::new("/usr/src/library"));
        for line in [
            "not json",
            r#"{"reason":"compiler-artifact","package_id":"registry+x#libm","manifest_path":"/registry/libm/Cargo.toml","target":{"kind":["lib"],"name":"libm"}}"#,
            r#"{"reason":"compiler-artifact","package_id":"path+file:///usr/src/library/core#1","manifest_path":"/usr/src/library/core/Cargo.toml","target":{"kind":["lib"],"name":"core"}}"#,
            r#"{"reason":"compiler-artifact","package_id":"path+file:///home/me/std#1","manifest_path":"/home/me/std/Cargo.toml","target":{"kind":["lib"],"name":"std"}}"#,
            r#"{"reason":"compiler-message","manifest_path":"/home/me/kernels/Cargo.toml","message":{"level":"warning","rendered":"unused","spans":[{}]}}"#,
            r#"{"reason":"compiler-message","manifest_path":"/home/me/kernels/Cargo.toml","message":{"level":"warning","rendered":"unstable feature","spans":[]}}"#,
            r#"{"reason":"compiler-artifact","package_id":"path+file:///home/me/kernels#1","manifest_path":"/home/me/kernels/Cargo.toml","target":{"kind":["cdylib"],"name":"my-kernels"}}"#,
        ] {
            report.take(line);
        }
        assert_eq!(report.name.as_deref(), Some("my_kernels"));
        assert_eq!(report.local_crates, [Path::new("/home/me/std"), Path::new("/home/me/kernels")]);
        assert_eq!(report.warnings, ["unused"]);
    }
}
