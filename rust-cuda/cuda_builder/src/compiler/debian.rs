//! Fetches Debian's rustc and the source of its library into a private folder.
//!
//! apt does the talking and the checking of signatures, with lists and caches of its own in that folder, so that
//! neither root nor any change to the system is needed. Which packages it takes is read from the packages' own
//! dependencies.
use std::collections::VecDeque;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use super::rustc::KernelCompiler;
use super::version::Version;
use super::{CompilerOrigin, MINIMUM_VERSION, NO_DOWNLOAD_VARIABLE};
use crate::build_script;
use crate::error::{AtPath, CudaBuilderError};

type Result<T> = std::result::Result<T, CudaBuilderError>;

/// The packages that hold a compiler, each with the one that holds its library's source. Debian keeps `rustc-web` new
/// in its stable releases, for the sake of web browsers.
const COMPILERS: [(&str, &str); 2] = [("rustc-web", "rust-web-src"), ("rustc", "rust-src")];

/// Where the fetched compiler is unpacked, in the folder for it.
const UNPACKED: &str = "debian";

/// Whether this machine has Debian's package tools.
pub fn is_available() -> bool {
    ["apt-get", "apt-cache", "dpkg-deb", "dpkg-query"].iter().all(|program| {
        let try_it = Command::new(program).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
        try_it.is_ok_and(|status| status.success())
    })
}

/// The compiler that was fetched into `folder` before: it appears there whole or not at all.
pub fn fetched(folder: &Path) -> Option<KernelCompiler> {
    unpacked(&folder.join(UNPACKED))
}

/// The compiler in `folder`, fetched first if it isn't there. Builds that run at the same time wait for the one that
/// fetches.
pub fn fetch(folder: &Path) -> Result<KernelCompiler> {
    let complete = folder.join(UNPACKED);
    if let Some(compiler) = unpacked(&complete) {
        return Ok(compiler);
    }
    fs::create_dir_all(folder).at(folder)?;
    let lock_path = folder.join("lock");
    let lock = File::create(&lock_path).at(&lock_path)?;
    lock.lock().at(&lock_path)?;
    // Another build may have fetched it while this one waited.
    if let Some(compiler) = unpacked(&complete) {
        return Ok(compiler);
    }
    // What an interrupted build left is not to be trusted; a whole compiler appears under its name at once.
    let unfinished = folder.join("unfinished");
    remove(&unfinished)?;
    remove(&complete)?;
    fs::create_dir_all(&unfinished).at(&unfinished)?;
    let root = download_and_unpack(&unfinished)?;
    fs::rename(&root, &complete).at(&complete)?;
    remove(&unfinished)?;
    let rustc = complete.join(STARTER);
    KernelCompiler::examine(&rustc, CompilerOrigin::Downloaded)
        .map_err(|reason| CudaBuilderError::Download(format!("{}: {reason}", rustc.display())))
}

fn unpacked(root: &Path) -> Option<KernelCompiler> {
    KernelCompiler::examine(&root.join(STARTER), CompilerOrigin::Downloaded).ok()
}

fn remove(folder: &Path) -> Result<()> {
    if folder.exists() { fs::remove_dir_all(folder).at(folder) } else { Ok(()) }
}

fn download_and_unpack(folder: &Path) -> Result<PathBuf> {
    let apt = Apt::new(folder)?;
    apt.get(&["update"])?;
    let (compiler, source, version) =
        choose(|package| apt.candidate(package)).ok_or_else(|| CudaBuilderError::NoCompiler {
            minimum: MINIMUM_VERSION.to_string(),
            searched: "none on this machine, and its package archive has none either".to_owned(),
        })?;
    build_script::say(&format!(
        "GPU kernels are built with rustc {version} and its library's source, fetched from Debian into the target folder (about \
         140 MB, nothing is installed; {NO_DOWNLOAD_VARIABLE}=1 forbids it)"
    ));
    let packages = closure([compiler, source], |package| apt.depends(package), is_installed);
    let mut arguments = vec!["download"];
    arguments.extend(packages.iter().map(String::as_str));
    let archives = folder.join("archives");
    fs::create_dir(&archives).at(&archives)?;
    apt.get_in(&archives, &arguments)?;

    let root = folder.join("root");
    for archive in archives.read_dir().at(&archives)? {
        let archive = archive.at(&archives)?.path();
        if archive.extension().is_some_and(|extension| extension == "deb") {
            succeed(Command::new("dpkg-deb").arg("--extract").arg(&archive).arg(&root))?;
        }
    }
    keep_only_the_library(&root.join("usr/src"))?;
    write_starter(&root)?;
    Ok(root)
}

/// Removes the source of the compiler itself, which is most of the source and of no use here.
fn keep_only_the_library(sources: &Path) -> Result<()> {
    for release in sources.read_dir().at(sources)? {
        let release = release.at(sources)?.path();
        for part in release.read_dir().at(&release)? {
            let part = part.at(&release)?;
            if part.file_name() != "library" && part.file_type().at(part.path())?.is_dir() {
                remove(&part.path())?;
            }
        }
    }
    Ok(())
}

/// The script, in the folder of an unpacked compiler, that starts it with its own shared libraries.
const STARTER: &str = "rustc";

#[cfg(unix)]
fn write_starter(root: &Path) -> Result<()> {
    use std::os::unix::fs::PermissionsExt;

    let libraries = library_folders(root);
    let script = format!(
        "#!/bin/sh\n\
         root=$(dirname \"$(readlink -f \"$0\")\")\n\
         LD_LIBRARY_PATH={libraries}${{LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}}\n\
         export LD_LIBRARY_PATH\n\
         exec \"$root/usr/bin/rustc\" \"$@\"\n"
    );
    let starter = root.join(STARTER);
    fs::write(&starter, script).at(&starter)?;
    fs::set_permissions(&starter, fs::Permissions::from_mode(0o755)).at(&starter)
}

#[cfg(not(unix))]
fn write_starter(_root: &Path) -> Result<()> {
    Err(CudaBuilderError::Download("Debian's compiler runs on Debian only".to_owned()))
}

/// `lib` and its folders for one kind of machine (`x86_64-linux-gnu`), as the shell script above names them.
fn library_folders(root: &Path) -> String {
    let mut folders = Vec::new();
    for parent in ["usr/lib", "lib"] {
        folders.push(parent.to_owned());
        let children = root.join(parent).read_dir().into_iter().flatten().flatten();
        let names = children.map(|child| child.file_name().to_string_lossy().into_owned());
        folders.extend(names.filter(|name| name.contains("-linux-")).map(|name| format!("{parent}/{name}")));
    }
    folders.iter().map(|folder| format!("\"$root/{folder}\"")).collect::<Vec<_>>().join(":")
}

/// The newest compiler offered that is new enough: its package, the one with the source, and its version.
fn choose(candidate: impl Fn(&str) -> Option<String>) -> Option<(&'static str, &'static str, Version)> {
    COMPILERS
        .into_iter()
        .filter_map(|(compiler, source)| {
            let version = candidate(compiler)?;
            // Compiler and source must be of one version to fit together.
            (candidate(source)? == version).then_some((compiler, source, Version::parse(&version)?))
        })
        .filter(|(.., version)| *version >= MINIMUM_VERSION)
        .reduce(|best, other| if other.2 > best.2 { other } else { best })
}

/// The packages to unpack for these ones to work: their parts, and shared libraries that the system doesn't have.
/// Programs they would like to call, such as a linker, are the system's affair.
fn closure<'a>(
    wanted: impl IntoIterator<Item = &'a str>,
    depends: impl Fn(&str) -> Vec<String>,
    installed: impl Fn(&str) -> bool,
) -> Vec<String> {
    let mut packages: Vec<String> = wanted.into_iter().map(str::to_owned).collect();
    let mut waiting: VecDeque<String> = packages.iter().cloned().collect();
    while let Some(package) = waiting.pop_front() {
        for dependency in depends(&package) {
            let is_part = dependency.contains("rust") || dependency.starts_with("libllvm");
            let is_library = dependency.starts_with("lib") && !dependency.ends_with("-dev");
            if !packages.contains(&dependency) && (is_part || is_library && !installed(&dependency)) {
                packages.push(dependency.clone());
                waiting.push_back(dependency);
            }
        }
    }
    packages
}

/// The packages that a package needs, by the first choice of each alternative. `control` is what `apt-cache show`
/// prints.
fn depends_in(control: &str) -> Vec<String> {
    control
        .lines()
        .filter_map(|line| line.strip_prefix("Depends: ").or_else(|| line.strip_prefix("Pre-Depends: ")))
        .flat_map(|list| list.split(','))
        .filter_map(|dependency| dependency.split(['|', '(', ':', '[']).next())
        .map(|name| name.trim().to_owned())
        .filter(|name| !name.is_empty())
        .collect()
}

/// The version that `apt-cache policy` says would be installed.
fn candidate_in(policy: &str) -> Option<String> {
    let version = policy.lines().find_map(|line| line.trim().strip_prefix("Candidate: "))?;
    (version != "(none)").then(|| version.to_owned())
}

fn is_installed(package: &str) -> bool {
    let query = Command::new("dpkg-query").args(["--show", "--showformat=${db:Status-Status}\n", package]).output();
    query.is_ok_and(|output| output.stdout.split(|&byte| byte == b'\n').any(|status| status == b"installed"))
}

/// apt with lists, caches and configuration in a folder of its own.
struct Apt {
    configuration: PathBuf,
    options: Vec<String>,
}

impl Apt {
    fn new(folder: &Path) -> Result<Apt> {
        for private in ["lists/partial", "cache/archives/partial"] {
            let private = folder.join(private);
            fs::create_dir_all(&private).at(&private)?;
        }
        let configuration = folder.join("apt.conf");
        // Hooks of the system's own configuration would change the system: containers clear its cache after each
        // update.
        let no_hooks = "#clear APT::Update::Pre-Invoke;\n#clear APT::Update::Post-Invoke;\n#clear APT::Update::Post-Invoke-Success;\n";
        fs::write(&configuration, no_hooks).at(&configuration)?;
        let option = |name: &str, value: &str| format!("-o{name}={value}");
        let path = |name: &str| folder.join(name).display().to_string();
        Ok(Apt {
            options: vec![
                option("Dir::State::Lists", &path("lists")),
                option("Dir::Cache", &path("cache")),
                // As root, apt would become another user, who may not enter this folder.
                option("APT::Sandbox::User", ""),
                option("Acquire::Retries", "3"),
                "-qq".to_owned(),
            ],
            configuration,
        })
    }

    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command.arg("-c").arg(&self.configuration).args(&self.options).env("LC_ALL", "C");
        command.env("DEBIAN_FRONTEND", "noninteractive");
        command
    }

    fn get(&self, arguments: &[&str]) -> Result<()> {
        succeed(self.command("apt-get").args(arguments)).map(|_| ())
    }

    fn get_in(&self, folder: &Path, arguments: &[&str]) -> Result<()> {
        succeed(self.command("apt-get").args(arguments).current_dir(folder)).map(|_| ())
    }

    fn candidate(&self, package: &str) -> Option<String> {
        candidate_in(&self.ask(&["policy", package]))
    }

    fn depends(&self, package: &str) -> Vec<String> {
        depends_in(&self.ask(&["show", "--no-all-versions", package]))
    }

    fn ask(&self, arguments: &[&str]) -> String {
        let output = self.command("apt-cache").args(arguments).output();
        output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default()
    }
}

/// Runs a program, and makes an error of its own words if it fails.
fn succeed(command: &mut Command) -> Result<Output> {
    let program = command.get_program().to_string_lossy().into_owned();
    let output = command
        .stdin(Stdio::null())
        .output()
        .map_err(|error| CudaBuilderError::ProgramFailed { program: program.clone(), error })?;
    if output.status.success() {
        return Ok(output);
    }
    let words = String::from_utf8_lossy(&output.stderr);
    Err(CudaBuilderError::Download(format!("{program} failed: {}", words.trim())))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn offers(offers: &'static [(&'static str, &'static str)]) -> impl Fn(&str) -> Option<String> {
        move |package| offers.iter().find(|(name, _)| *name == package).map(|(_, version)| version.to_string())
    }

    #[test]
    fn the_newest_compiler_offered_is_chosen_whatever_its_package_is_called() {
        let bookworm = offers(&[
            ("rustc-web", "1.96.0+dfsg1-1~deb12u2"),
            ("rust-web-src", "1.96.0+dfsg1-1~deb12u2"),
            ("rustc", "1.63.0+dfsg1-2"),
            ("rust-src", "1.63.0+dfsg1-2"),
        ]);
        assert_eq!(choose(bookworm).unwrap().0, "rustc-web");
        let future = offers(&[
            ("rustc-web", "1.96.0+dfsg1-1"),
            ("rust-web-src", "1.96.0+dfsg1-1"),
            ("rustc", "1.101.0+dfsg1-2"),
            ("rust-src", "1.101.0+dfsg1-2"),
        ]);
        assert_eq!(choose(future).unwrap().0, "rustc");
    }

    #[test]
    fn an_old_compiler_or_one_without_its_own_source_is_not_chosen() {
        assert!(choose(offers(&[("rustc", "1.85.0+dfsg3-1"), ("rust-src", "1.85.0+dfsg3-1")])).is_none());
        assert!(choose(offers(&[("rustc-web", "1.96.0+dfsg1-1"), ("rust-web-src", "1.85.0+dfsg3-1")])).is_none());
        assert!(choose(offers(&[("rustc-web", "1.96.0+dfsg1-1")])).is_none());
    }

    #[test]
    fn packages_are_found_by_their_dependencies() {
        let depends = |package: &str| {
            depends_in(match package {
                "rustc-web" => {
                    "Depends: libc6 (>= 2.34), libstd-rust-web-dev (= 1.96.0), gcc | clang, libc-dev, binutils (>= 2.26)"
                }
                "libstd-rust-web-dev" => "Package: x\nDepends: libstd-rust-web-1.96 (= 1.96.0)",
                "libstd-rust-web-1.96" => "Depends: libc6 (>= 2.34), libllvm22 (>= 1:22.1.4)\nPre-Depends: dpkg",
                "libllvm22" => "Depends: libc6, libz3-4 (>= 4.8), libxml2:any (>= 2.7.4), zlib1g",
                _ => "",
            })
        };
        let installed = |package: &str| ["libc6", "libxml2"].contains(&package);
        assert_eq!(
            closure(["rustc-web", "rust-web-src"], depends, installed),
            ["rustc-web", "rust-web-src", "libstd-rust-web-dev", "libstd-rust-web-1.96", "libllvm22", "libz3-4"]
        );
    }

    #[test]
    fn of_the_source_only_the_library_is_kept() {
        let sources = tempfile::tempdir().unwrap();
        for part in ["library/core", "compiler/rustc", "src"] {
            fs::create_dir_all(sources.path().join("rustc-1.96.0").join(part)).unwrap();
        }
        keep_only_the_library(sources.path()).unwrap();
        assert!(sources.path().join("rustc-1.96.0/library/core").is_dir());
        assert_eq!(sources.path().join("rustc-1.96.0").read_dir().unwrap().count(), 1);
    }

    #[test]
    fn apts_answers_are_read() {
        let policy = "rustc-web:\n  Installed: (none)\n  Candidate: 1.96.0+dfsg1-1~deb12u2\n  Version table:\n";
        assert_eq!(candidate_in(policy).as_deref(), Some("1.96.0+dfsg1-1~deb12u2"));
        assert_eq!(candidate_in("x:\n  Candidate: (none)\n"), None);
        assert_eq!(candidate_in(""), None);
    }
}
