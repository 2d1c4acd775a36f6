//! Asks a rustc who it is and whether it can build kernels.
use std::fmt;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::version::Version;
use super::{CompilerOrigin, MINIMUM_VERSION};

/// A rustc that can build kernels.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct KernelCompiler {
    /// The program.
    pub rustc: PathBuf,
    /// Its version.
    pub version: Version,
    /// Where the source of Rust's library is, with `core` in it.
    pub library_source: PathBuf,
    /// How it was found.
    pub origin: CompilerOrigin,
}

impl fmt::Display for KernelCompiler {
    /// One line for a person: `rustc 1.96.0, found on this machine: /usr/bin/rustc`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "rustc {}, {}: {}", self.version, self.origin, self.rustc.display())
    }
}

impl KernelCompiler {
    /// Makes sure that a rustc is new enough and has the library's source, or says what is wrong with it.
    pub(super) fn examine(rustc: &Path, origin: CompilerOrigin) -> Result<KernelCompiler, String> {
        let description = ask(rustc, &["--version", "--verbose"])?;
        let version = version_in(&description).ok_or("it tells no version")?;
        if version < MINIMUM_VERSION {
            return Err(format!("version {version} is too old, {MINIMUM_VERSION} is the least"));
        }
        let sysroot = ask(rustc, &["--print", "sysroot"])?;
        let library_source = Path::new(sysroot.trim_end()).join("lib/rustlib/src/rust/library");
        // The library is built with the versions of its own dependencies that this file names.
        if !library_source.join("core/src/lib.rs").is_file() || !library_source.join("Cargo.lock").is_file() {
            return Err("the library's source is missing".to_owned());
        }
        Ok(KernelCompiler { rustc: rustc.to_owned(), version, library_source, origin })
    }
}

fn ask(rustc: &Path, arguments: &[&str]) -> Result<String, String> {
    let output = Command::new(rustc).args(arguments).output().map_err(|error| format!("it doesn't run: {error}"))?;
    if !output.status.success() {
        let words = String::from_utf8_lossy(&output.stderr);
        return Err(format!("it doesn't run: {}", words.lines().next().unwrap_or("it says nothing")));
    }
    String::from_utf8(output.stdout).map_err(|_| "it speaks no UTF-8".to_owned())
}

fn version_in(description: &str) -> Option<Version> {
    description.lines().find_map(|line| line.strip_prefix("release: ")).and_then(Version::parse)
}

#[cfg(all(test, unix))]
pub(super) mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;
    use std::sync::{Mutex, MutexGuard, PoisonError};

    /// Tests that write programs and start them hold this: a program can't be started while another thread forks with
    /// the program's file still open for writing.
    pub(in crate::compiler) fn alone() -> MutexGuard<'static, ()> {
        static ALONE: Mutex<()> = Mutex::new(());
        ALONE.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A program that answers as a rustc of that version does, in a sysroot of its own.
    pub(in crate::compiler) fn pretend(folder: &Path, version: &str, with_source: bool) -> PathBuf {
        let rustc = folder.join("rustc");
        let script = format!(
            "#!/bin/sh\ncase \"$1\" in --version) echo 'rustc x'; echo 'release: {version}';; *) echo '{}';; esac\n",
            folder.display()
        );
        std::fs::write(&rustc, script).unwrap();
        std::fs::set_permissions(&rustc, std::fs::Permissions::from_mode(0o755)).unwrap();
        if with_source {
            let library = folder.join("lib/rustlib/src/rust/library");
            std::fs::create_dir_all(library.join("core/src")).unwrap();
            std::fs::write(library.join("core/src/lib.rs"), "").unwrap();
            std::fs::write(library.join("Cargo.lock"), "").unwrap();
        }
        rustc
    }

    #[test]
    fn a_new_rustc_with_the_librarys_source_will_do_and_others_say_why_not() {
        let _alone = alone();
        let folder = tempfile::tempdir().unwrap();
        let examine = |rustc: &Path| KernelCompiler::examine(rustc, CompilerOrigin::System);
        let fault = |rustc: &Path| examine(rustc).unwrap_err();
        assert!(fault(&folder.path().join("nothing")).contains("doesn't run"));
        assert!(fault(&pretend(folder.path(), "1.96.0", false)).contains("source is missing"));
        assert!(fault(&pretend(folder.path(), "1.85.0", true)).contains("too old"));

        let compiler = examine(&pretend(folder.path(), "1.96.0", true)).unwrap();
        assert_eq!(compiler.version.to_string(), "1.96.0");
        assert_eq!(compiler.origin, CompilerOrigin::System);
        assert!(compiler.library_source.ends_with("lib/rustlib/src/rust/library"));
    }
}
