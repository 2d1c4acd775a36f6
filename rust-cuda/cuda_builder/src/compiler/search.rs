//! Looks through the compilers that are on this machine.
use std::path::{Path, PathBuf};

use super::CompilerOrigin;
use super::rustc::KernelCompiler;

/// The active toolchain's rustc if it will do, else the newest of the others that will. What was seen and why it won't
/// do is added to `searched`.
pub fn installed(searched: &mut Vec<String>) -> Option<KernelCompiler> {
    let active = std::env::var_os("RUSTC").map_or_else(|| PathBuf::from("rustc"), PathBuf::from);
    match KernelCompiler::examine(&active, CompilerOrigin::ActiveToolchain) {
        Ok(compiler) => return Some(compiler),
        Err(reason) => searched.push(format!("of the active toolchain, {reason}")),
    }
    let mut found = Vec::new();
    for rustc in elsewhere() {
        match KernelCompiler::examine(&rustc, CompilerOrigin::System) {
            Ok(compiler) => found.push(compiler),
            Err(reason) => searched.push(format!("of {}, {reason}", rustc.display())),
        }
    }
    newest(found)
}

fn newest(compilers: Vec<KernelCompiler>) -> Option<KernelCompiler> {
    // Of equals the first, as in PATH.
    compilers.into_iter().reduce(|best, other| if other.version > best.version { other } else { best })
}

/// Every rustc in PATH and where distributions put theirs, each once. Rustup's stand-ins are left out: they run the
/// active toolchain's.
fn elsewhere() -> Vec<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut folders: Vec<PathBuf> = std::env::split_paths(&path).collect();
    folders.extend(["/usr/local/bin", "/usr/bin"].map(PathBuf::from));
    // Ubuntu keeps several versions side by side.
    folders.extend(versioned_folders(Path::new("/usr/lib")));
    candidates(&folders)
}

fn versioned_folders(parent: &Path) -> Vec<PathBuf> {
    let Ok(entries) = parent.read_dir() else { return Vec::new() };
    entries
        .flatten()
        .filter(|entry| entry.file_name().to_str().is_some_and(|name| name.starts_with("rust-")))
        .map(|entry| entry.path().join("bin"))
        .collect()
}

fn candidates(folders: &[PathBuf]) -> Vec<PathBuf> {
    let mut seen = Vec::new();
    let mut candidates = Vec::new();
    for rustc in folders.iter().map(|folder| folder.join("rustc")) {
        let Ok(real) = rustc.canonicalize() else { continue };
        let is_rustup = folders_rustup(&rustc) || real.file_stem().is_some_and(|name| name == "rustup");
        if !is_rustup && !seen.contains(&real) {
            seen.push(real);
            candidates.push(rustc);
        }
    }
    candidates
}

/// Rustup installs its stand-ins as hard links beside itself.
fn folders_rustup(rustc: &Path) -> bool {
    let size = |path: &Path| path.metadata().ok().map(|metadata| metadata.len());
    let rustup = rustc.with_file_name("rustup");
    rustup.is_file() && size(&rustup) == size(rustc)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compiler::Version;

    fn compiler(name: &str, minor: u32) -> KernelCompiler {
        KernelCompiler {
            rustc: name.into(),
            version: Version { major: 1, minor, patch: 0 },
            library_source: PathBuf::new(),
            origin: CompilerOrigin::System,
        }
    }

    #[test]
    fn the_newest_compiler_is_taken_and_of_equals_the_first() {
        let best = newest(vec![compiler("a", 95), compiler("b", 97), compiler("c", 97)]);
        assert_eq!(best.unwrap().rustc, Path::new("b"));
        assert_eq!(newest(Vec::new()), None);
    }

    #[test]
    fn each_rustc_counts_once_and_rustups_stand_ins_not_at_all() {
        let folder = tempfile::tempdir().unwrap();
        let folders = ["rustup", "system"].map(|name| folder.path().join(name));
        for folder in &folders {
            std::fs::create_dir(folder).unwrap();
            std::fs::write(folder.join("rustc"), "program").unwrap();
        }
        std::fs::write(folders[0].join("rustup"), "program").unwrap();
        let all = [folders[0].clone(), folders[1].clone(), folders[1].clone()];
        assert_eq!(candidates(&all), [folders[1].join("rustc")]);
    }

    #[test]
    fn versions_side_by_side_are_seen() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(folder.path().join("rust-1.96/bin")).unwrap();
        std::fs::create_dir_all(folder.path().join("other")).unwrap();
        assert_eq!(versioned_folders(folder.path()), [folder.path().join("rust-1.96/bin")]);
    }
}
