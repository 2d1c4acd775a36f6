//! How many registers a kernel takes on a GPU: what NVIDIA's assembler says, where it is installed.
//!
//! PTX has as many registers as it likes; how many a thread really needs is known only after `ptxas` (or the driver,
//! which contains it) has assembled the PTX for one GPU.

use std::{
    collections::HashMap,
    env,
    io::Write,
    path::{Path, PathBuf},
    process::Command,
};

use gpu_kernels::Kernel;

use crate::gpus::Gpu;

/// What the assembler says of one kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Assembled {
    /// Registers of each thread.
    pub registers: u32,
    /// Bytes that each thread writes to memory because the registers don't suffice.
    pub spill_bytes: u32,
}

/// The registers of a thread and who says so.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Registers {
    /// As the driver has compiled the kernel.
    Driver {
        /// Registers of a thread.
        count: u32,
    },
    /// As NVIDIA's assembler compiles the kernel for the GPU in question.
    Assembler {
        /// Registers of a thread.
        count: u32,
        /// Bytes that a thread writes to memory because the registers don't suffice.
        spill_bytes: u32,
    },
    /// There is neither the GPU in question nor an assembler.
    Unknown,
    /// The assembler doesn't say.
    Refused {
        /// What it says instead.
        reason: String,
    },
}

impl Registers {
    /// Their number, if it's known.
    pub fn count(&self) -> Option<u32> {
        match self {
            Registers::Driver { count } | Registers::Assembler { count, .. } => Some(*count),
            Registers::Unknown | Registers::Refused { .. } => None,
        }
    }
}

/// The registers of an entry of `ptx`, assembled for an architecture such as `sm_90`, if there is an assembler.
fn assembled_registers(ptx: &str, entry: &str, architecture: &str) -> Registers {
    match assemble(ptx, architecture) {
        Ok(kernels) => kernels.get(entry).map_or_else(
            || Registers::Refused { reason: format!("ptxas says nothing of {entry}") },
            |found| Registers::Assembler { count: found.registers, spill_bytes: found.spill_bytes },
        ),
        Err(AssemblerError::Missing) => Registers::Unknown,
        Err(error) => Registers::Refused { reason: error.to_string() },
    }
}

/// The registers that a driver has given a kernel on its GPU.
#[derive(Clone, Copy, Debug)]
pub struct DriverCount<'a> {
    /// The GPU, as the driver calls it.
    pub device: &'a str,
    /// Registers of a thread.
    pub count: u32,
}

/// The registers of kernels on one GPU: by the driver where it has compiled for that GPU, else by NVIDIA's assembler.
#[derive(Debug)]
pub struct RegisterCounts<'a> {
    gpu: &'a Gpu,
    /// What the assembler said, by the kernel's entry.
    assembled: Vec<(&'static str, Registers)>,
}

impl RegisterCounts<'_> {
    /// Counts for `gpu`.
    pub fn new(gpu: &Gpu) -> RegisterCounts<'_> {
        RegisterCounts { gpu, assembled: Vec::new() }
    }

    /// The registers of `kernel`, which is in the module `ptx`. `driver` is what a driver says, if there is one; it counts
    /// if its GPU is of the kind asked for.
    pub fn of(&mut self, kernel: &Kernel, ptx: &str, driver: Option<DriverCount<'_>>) -> Registers {
        if let Some(DriverCount { count, .. }) = driver.filter(|driver| self.gpu.is_called(driver.device)) {
            return Registers::Driver { count };
        }
        if let Some((_, registers)) = self.assembled.iter().find(|(entry, _)| *entry == kernel.entry) {
            return registers.clone();
        }
        let architecture = self.gpu.architecture_for(kernel);
        let registers = assembled_registers(ptx, kernel.entry, &architecture);
        self.assembled.push((kernel.entry, registers.clone()));
        registers
    }
}

/// Why there is no count.
#[derive(Debug, thiserror::Error)]
pub enum AssemblerError {
    /// There is no assembler.
    #[error("ptxas is not in PATH, CUDA_HOME/bin, CUDA_PATH/bin or /usr/local/cuda/bin")]
    Missing,
    /// It could not be started.
    #[error("{} cannot be run: {source}", path.display())]
    Start {
        /// The assembler.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// It refused the text.
    #[error("{} refuses: {message}", path.display())]
    Refused {
        /// The assembler.
        path: PathBuf,
        /// Its last words.
        message: String,
    },
}

/// Where `ptxas` is, if it is anywhere.
pub fn find() -> Option<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    let homes = ["CUDA_HOME", "CUDA_PATH"].into_iter().filter_map(env::var_os).filter(|home| !home.is_empty());
    let toolkits = homes.map(PathBuf::from).chain([PathBuf::from("/usr/local/cuda")]).map(|home| home.join("bin"));
    env::split_paths(&path).chain(toolkits).map(|folder| folder.join("ptxas")).find(|file| file.is_file())
}

/// Assembles `ptx` for an architecture such as `sm_90` and returns what is said of each entry.
///
/// # Errors
///
/// [`AssemblerError`] if `ptxas` is missing or refuses: it knows neither GPUs newer than itself nor, from CUDA 13 on,
/// those before Turing.
pub fn assemble(ptx: &str, architecture: &str) -> Result<HashMap<String, Assembled>, AssemblerError> {
    let path = find().ok_or(AssemblerError::Missing)?;
    assemble_with(&path, ptx, architecture)
}

fn assemble_with(path: &Path, ptx: &str, architecture: &str) -> Result<HashMap<String, Assembled>, AssemblerError> {
    let start = |source| AssemblerError::Start { path: path.to_owned(), source };
    let mut text = tempfile::Builder::new().prefix("gemm-").suffix(".ptx").tempfile().map_err(start)?;
    text.write_all(ptx.as_bytes()).and_then(|()| text.flush()).map_err(start)?;
    let arguments = ["--verbose", "--output-file", "/dev/null"];
    let mut command = Command::new(path);
    command.args(arguments).arg(format!("--gpu-name={architecture}")).arg(text.path());
    let output = command.output().map_err(start)?;
    let said = String::from_utf8_lossy(&output.stderr);
    if !output.status.success() {
        let message = said.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or("no reason given");
        // "ptxas fatal   : Value …": what follows the severity.
        let message = message.split_once(" : ").map_or(message, |(_, message)| message).trim().to_owned();
        return Err(AssemblerError::Refused { path: path.to_owned(), message });
    }
    Ok(parse(&said))
}

/// Reads `ptxas --verbose`: lines about an entry follow the one that names it.
fn parse(said: &str) -> HashMap<String, Assembled> {
    let mut kernels = HashMap::new();
    let (mut entry, mut spill_bytes) = (None, 0);
    for line in said.lines() {
        if let Some(rest) = line.split("Compiling entry function '").nth(1) {
            entry = rest.split('\'').next().map(str::to_owned);
            spill_bytes = 0;
        } else if line.contains("bytes spill stores") {
            spill_bytes = number_before(line, " bytes spill stores").unwrap_or(0);
        } else if let Some(registers) = number_before(line, " registers")
            && let Some(entry) = entry.take()
        {
            kernels.insert(entry, Assembled { registers, spill_bytes });
        }
    }
    kernels
}

fn number_before(line: &str, words: &str) -> Option<u32> {
    let (before, _) = line.split_once(words)?;
    before.rsplit(|character: char| !character.is_ascii_digit()).next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{gpus, kernels};

    #[test]
    fn the_drivers_word_counts_for_its_own_gpu_only() {
        let driver = |device| Some(DriverCount { device, count: 40 });
        let mut counts = RegisterCounts::new(gpus::by_name("H200").unwrap());
        let kernel = kernels::by_name("tiled").unwrap().any();
        assert_eq!(counts.of(kernel, "", driver("NVIDIA H200")), Registers::Driver { count: 40 });
        assert!(counts.assembled.is_empty(), "nobody else was asked");
        assert!(!matches!(counts.of(kernel, "", driver("Tesla T4")), Registers::Driver { .. }));
    }

    #[test]
    fn what_ptxas_says_is_understood() {
        let said = "ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function 'tiled' for 'sm_90'
ptxas info    : Function properties for tiled
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 32 registers, used 1 barriers, 2048 bytes smem
ptxas info    : Compile time = 19.493 ms
ptxas info    : Compiling entry function 'large' for 'sm_90'
ptxas info    : Function properties for large
    96 bytes stack frame, 104 bytes spill stores, 88 bytes spill loads
ptxas info    : Used 255 registers, used 0 barriers
";
        let kernels = parse(said);
        assert_eq!(kernels["tiled"], Assembled { registers: 32, spill_bytes: 0 });
        assert_eq!(kernels["large"], Assembled { registers: 255, spill_bytes: 104 });
        assert_eq!(kernels.len(), 2);
    }

    #[test]
    fn an_assembler_that_cannot_be_started_is_named() {
        let error = assemble_with(Path::new("/nonexistent/ptxas"), "", "sm_90").unwrap_err().to_string();
        assert!(error.starts_with("/nonexistent/ptxas cannot be run"), "{error}");
    }
}
