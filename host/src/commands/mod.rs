//! One file per command. Each turns arguments into calls of the library and hands the result to `report`.

mod bench;
mod check;
mod exercise;
mod explain;
mod gemm;
mod info;
mod list;
mod memory;
mod progress;
mod ptx;
mod run;
mod sweep;
mod tune;

use std::io::{self, Write};

use anyhow::{anyhow, bail, ensure};
use gpu_kernels::Kernel;
use host::{
    device::{Device, WATCHED_INSTRUCTION_LIMIT},
    gemm::Gemm,
    gpus::{self, Gpu},
    report::Report,
};

use crate::cli::{Arguments, Command, RunArguments};

/// What a command has to say.
pub struct Outcome {
    /// What to print.
    pub text: String,
    /// Whether every check passed.
    pub passed: bool,
}

/// Does what the command line says.
pub fn run(arguments: &Arguments) -> anyhow::Result<Outcome> {
    let common = arguments.common;
    if let (Some(Command::List | Command::Ptx(_)), Some(_)) = (&arguments.command, common.device) {
        bail!("this command runs nothing on a device: leave --device out (--help says which commands there are)");
    }
    match &arguments.command {
        None => render(run::run(&RunArguments::default(), common)?, common.json),
        Some(Command::Run(arguments)) => render(run::run(arguments, common)?, common.json),
        Some(Command::Gemm(arguments)) => render(gemm::run(arguments, common)?, common.json),
        Some(Command::Check(arguments)) => render(check::run(arguments, common)?, common.json),
        Some(Command::Explain(arguments)) => render(explain::run(arguments, common)?, common.json),
        Some(Command::Exercise(arguments)) => exercise::run(arguments, common),
        Some(Command::Sweep(arguments)) => render(sweep::run(arguments, common)?, common.json),
        Some(Command::Tune(arguments)) => render(tune::run(arguments, common)?, common.json),
        Some(Command::Bench(arguments)) => render(bench::run(arguments, common)?, common.json),
        Some(Command::List) => render(list::run(), common.json),
        Some(Command::Info) => render(info::run(common)?, common.json),
        Some(Command::Ptx(arguments)) => render(ptx::run(arguments)?, common.json),
    }
}

/// The GPU of that name, if one is named, which has to be one that can run these kernels.
fn gpu_for(name: Option<&str>, kernels: &[&Kernel]) -> anyhow::Result<Option<&'static Gpu>> {
    let Some(gpu) = name.map(gpus::by_name).transpose()? else { return Ok(None) };
    let has @ (major, minor) = gpu.compute_capability;
    for kernel in kernels {
        ensure!(
            kernel.architecture.runs_on(has),
            "the kernel '{}' needs a GPU of compute capability {}, and {} has {major}.{minor}: choose another --gpu or another \
             kernel",
            kernel.name,
            kernel.architecture.capabilities(),
            gpu.name
        );
    }
    Ok(Some(gpu))
}

/// The simulator, for products of an inner dimension of at most `k`: it takes for an endless loop what executes many more
/// instructions than those need.
fn watched_simulator(k: usize) -> Device {
    // Deep products take more instructions of each thread, and are no endless loops.
    Device::simulator(WATCHED_INSTRUCTION_LIMIT.saturating_add(64u64.saturating_mul(k as u64)))
}

/// Says on standard error why a tuning that is there isn't used, if one is: it is no reason not to go on.
fn say_what_is_ignored(gemm: &Gemm) {
    if let Some(reason) = &gemm.tuned().ignored {
        // Nothing is left to tell if standard error is closed.
        let _ = writeln!(io::stderr(), "note: {reason}; products are planned without it");
    }
}

/// The columns of the terminal that standard output is; `None` if it's none.
fn terminal_width() -> Option<usize> {
    let terminal = console::Term::stdout();
    terminal.is_term().then(|| terminal.size_checked()).flatten().map(|(_, columns)| usize::from(columns))
}

/// Starts the threads that check products, where a failure can be told: at their first use it would be a panic.
fn start_workers() -> anyhow::Result<()> {
    rayon::ThreadPoolBuilder::new()
        .build_global()
        .map_err(|error| anyhow!("cannot start a worker thread per core: {error}; RAYON_NUM_THREADS=1 asks for fewer"))
}

fn render(report: impl Report, json: bool) -> anyhow::Result<Outcome> {
    let text = if json { serde_json::to_string_pretty(&report)? } else { report.table() };
    Ok(Outcome { text, passed: report.passed() })
}
