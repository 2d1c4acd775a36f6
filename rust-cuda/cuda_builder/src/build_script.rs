//! What cargo has to hear from a build script. Outside of one, nothing is said.
use std::path::Path;

use crate::compiler;

/// Whether cargo runs this program as a build script.
fn is_build_script() -> bool {
    std::env::var_os("OUT_DIR").is_some() && std::env::var_os("CARGO_MANIFEST_DIR").is_some()
}

/// Runs the script again when a variable that steers the search for a compiler changes.
pub fn watch_variables() {
    if is_build_script() {
        for variable in [compiler::COMPILER_VARIABLE, compiler::NO_DOWNLOAD_VARIABLE] {
            println!("cargo:rerun-if-env-changed={variable}");
        }
    }
}

/// Runs the script again when the source of the crate in this folder changes.
pub fn watch_crate(folder: &Path) {
    if is_build_script() {
        for part in ["Cargo.toml", "build.rs", "src"] {
            let part = folder.join(part);
            if part.exists() {
                println!("cargo:rerun-if-changed={}", part.display());
            }
        }
    }
}

/// Tells the user something while the build goes on: as a warning of cargo's, which shows nothing else of a build
/// script that succeeds.
pub fn say(text: &str) {
    for line in text.lines().filter(|line| !line.is_empty()) {
        if is_build_script() {
            println!("cargo:warning={line}");
        } else {
            eprintln!("{line}");
        }
    }
}
