//! What commands say: results as plain data, which print as a table for people and as JSON for machines. Nothing here
//! computes or decides.

mod bench;
mod check;
mod exercise;
mod explain;
mod product;
mod sweep;
mod table;
mod tune;

use std::borrow::Cow;

use gpu_kernels::{Kernel, Precision};
use production_kernels::Family;
use serde::{Serialize, Serializer};

use crate::device::{DeviceInfo, DeviceKind};

pub use bench::{BenchMachine, BenchReport, BenchRow, CountedRow, LeftOut, SummaryRow};
pub use check::{CheckReport, KernelCheck};
pub use exercise::{ExerciseReport, PageReport, Reward};
pub use explain::{ExplainReport, GpuFacts, InstructionFacts, LineFacts, MeasuredFacts, RegisterFacts};
pub use product::{Formula, GemmReport, Overflows, ProductReport, RunReport};
pub use sweep::{Best, CountRow, SweepMachine, SweepReport, TimeRow};
pub use tune::{TuneAct, TuneReport, TuningFacts};

/// The result of a command.
pub trait Report: Serialize {
    /// The result as text for a terminal.
    fn table(&self) -> String;

    /// Whether every check in it passed.
    fn passed(&self) -> bool {
        true
    }
}

/// One kernel of [`KernelList`].
#[derive(Debug, Serialize)]
pub struct KernelRow {
    /// Its name.
    pub name: &'static str,
    /// What it does, in one line.
    pub title: &'static str,
    /// The arithmetic.
    pub precision: &'static str,
    /// Rows and columns of C that a block computes, and steps of the inner dimension between loads.
    pub tile: [u32; 3],
    /// Threads of a block along x, y, z.
    pub block: [u32; 3],
    /// Shared memory per block, in bytes.
    pub shared_bytes: u32,
    /// The PTX level it needs.
    pub architecture: &'static str,
    /// The compute capability it needs, such as "7.0".
    pub compute_capability: String,
    /// Whether it needs that very one; else a later one does too.
    pub that_capability_only: bool,
}

impl KernelRow {
    /// The facts of `kernel`.
    pub fn new(kernel: &Kernel) -> KernelRow {
        let (major, minor) = kernel.architecture.compute_capability();
        KernelRow {
            name: kernel.name,
            title: kernel.title,
            precision: kernel.precision.name(),
            tile: [kernel.tile.m, kernel.tile.n, kernel.tile.k],
            block: kernel.block,
            shared_bytes: kernel.shared_bytes_per_block(),
            architecture: kernel.architecture.name(),
            compute_capability: format!("{major}.{minor}"),
            that_capability_only: !kernel.architecture.runs_on_later_gpus(),
        }
    }
}

/// One family of production kernels of [`KernelList`].
#[derive(Debug, Serialize)]
pub struct FamilyRow {
    /// Its name.
    pub name: &'static str,
    /// What it computes in.
    pub precision: &'static str,
    /// Rows and columns of C that a block computes, and steps of the inner dimension between loads.
    pub tile: [u32; 3],
    /// Threads of a block.
    pub threads: u32,
    /// Warps that share a part of the tile, each with its part of K.
    pub slices: u32,
    /// The most shared memory that one of its kernels takes per block, in bytes.
    pub shared_bytes: u32,
    /// The compute capability it needs, such as "8.0".
    pub compute_capability: String,
    /// Whether it runs on that capability only.
    pub that_capability_only: bool,
    /// The names of its kernels.
    pub kernels: Vec<&'static str>,
}

impl FamilyRow {
    /// The facts of `family`.
    pub fn new(family: &Family) -> FamilyRow {
        FamilyRow { slices: family.slices, ..FamilyRow::of(family.name, family.kernels) }
    }

    /// The facts of a family for Hopper's tensor cores.
    pub fn on_tensor_cores(family: &hopper_kernels::Family) -> FamilyRow {
        FamilyRow::of(family.name, family.kernels)
    }

    fn of(name: &'static str, kernels: &'static [Kernel]) -> FamilyRow {
        let any = KernelRow::new(&kernels[0]);
        FamilyRow {
            name,
            precision: any.precision,
            tile: any.tile,
            threads: any.block.iter().product(),
            slices: 1,
            shared_bytes: kernels.iter().map(Kernel::shared_bytes_per_block).max().unwrap_or(0),
            compute_capability: any.compute_capability,
            that_capability_only: any.that_capability_only,
            kernels: kernels.iter().map(|kernel| kernel.name).collect(),
        }
    }

    /// What its kernels are called: what is common, and the endings.
    fn kernels_text(&self) -> String {
        let ending = |name: &&str| name.rsplit_once('_').map_or(String::new(), |(_, ending)| ending.to_owned());
        let stem = self.kernels.first().and_then(|name| name.rsplit_once('_')).map_or("", |(stem, _)| stem);
        format!("{stem}_ {}", self.kernels.iter().map(ending).collect::<Vec<_>>().join(" "))
    }
}

/// What the letters at the end of a production kernel's name say.
const WAYS: &str = "The letters say how a kernel copies A and B: k along K, where that is contiguous; v and w across K, v 16 bytes \
                    at a time from rows at multiples of 16 bytes, w word by word. By the family's name the kernel is taken \
                    that suits the matrices. Shared bytes are those of the kernel that takes the most.";

/// All kernels.
#[derive(Debug, Serialize)]
pub struct KernelList {
    /// One row per kernel of the book, in reading order.
    pub kernels: Vec<KernelRow>,
    /// One row per family of production kernels, from the largest tile to the smallest.
    pub families: Vec<FamilyRow>,
}

impl Report for KernelList {
    fn table(&self) -> String {
        let headers =
            ["kernel", "what it does", "type", "tile m x n x k", "threads", "shared bytes", "needs compute capability"];
        let headers = headers.map(str::to_owned).to_vec();
        let rows = self.kernels.iter().map(|kernel| {
            vec![
                kernel.name.to_owned(),
                kernel.title.to_owned(),
                kernel.precision.to_owned(),
                table::times(&kernel.tile),
                kernel.block.iter().product::<u32>().to_string(),
                kernel.shared_bytes.to_string(),
                format!("{}{}", kernel.compute_capability, if kernel.that_capability_only { " only" } else { "" }),
            ]
        });
        let book = table::columns([headers].into_iter().chain(rows));
        let headers = [
            "production kernels",
            "type",
            "tile m x n x k",
            "threads",
            "slices",
            "shared bytes",
            "needs compute capability",
            "each kernel by name",
        ];
        let headers = headers.map(str::to_owned).to_vec();
        let rows = self.families.iter().map(|family| {
            vec![
                family.name.to_owned(),
                family.precision.to_owned(),
                table::times(&family.tile),
                family.threads.to_string(),
                family.slices.to_string(),
                family.shared_bytes.to_string(),
                format!("{}{}", family.compute_capability, if family.that_capability_only { " only" } else { "" }),
                family.kernels_text(),
            ]
        });
        let production = table::columns([headers].into_iter().chain(rows));
        format!("{book}\n\n{production}\n\n{WAYS}")
    }
}

/// One PTX module inside the binary.
#[derive(Debug, Serialize)]
pub struct PtxLevel {
    /// The level, such as `compute_70`, behind the crate's name where that isn't the book.
    pub level: &'static str,
    /// The PTX ISA version that its text declares.
    pub isa_version: String,
    /// Bytes of text.
    pub bytes: usize,
}

impl PtxLevel {
    /// The facts of a module.
    pub fn new(level: &'static str, text: &str) -> PtxLevel {
        let version = text.lines().find_map(|line| line.trim().strip_prefix(".version"));
        PtxLevel { level, isa_version: version.map_or("unknown", str::trim).to_owned(), bytes: text.len() }
    }
}

/// A precision by its name.
fn by_name<S: Serializer>(precision: &Precision, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(precision.name())
}

/// What this build and this machine have.
#[derive(Debug, Serialize)]
pub struct InfoReport {
    /// GPUs, then the simulator.
    pub devices: Vec<DeviceInfo>,
    /// Why there is no GPU, if there is none.
    pub no_gpu: Option<String>,
    /// The compiler that built the kernels.
    pub kernel_compiler: &'static str,
    /// The PTX modules of this build.
    pub ptx: Vec<PtxLevel>,
}

impl Report for InfoReport {
    fn table(&self) -> String {
        let mut facts = Vec::new();
        for device in &self.devices {
            let label = match device.kind {
                DeviceKind::Cuda { ordinal } => format!("cuda:{ordinal}"),
                DeviceKind::Simulator => "sim".to_owned(),
            };
            facts.push((label, device.name.clone()));
            let (free, total) = (table::gibibytes(device.free_memory), table::gibibytes(device.total_memory));
            facts.push(("  memory".to_owned(), format!("{free} free of {total}")));
            facts.extend(device.detail.iter().map(|(label, value)| (format!("  {label}"), value.clone())));
        }
        facts.extend(self.no_gpu.iter().map(|reason| ("no GPU".to_owned(), reason.clone())));
        facts.push(("kernel compiler".to_owned(), self.kernel_compiler.to_owned()));
        facts.extend(self.ptx.iter().map(|module| {
            let PtxLevel { level, isa_version, bytes } = module;
            ("PTX".to_owned(), format!("{level} (PTX ISA {isa_version}, {bytes} bytes)"))
        }));
        table::facts(facts)
    }
}

/// What `ptx` prints: the levels, or the text of one.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub enum PtxReport {
    /// The levels of this build.
    Levels(PtxLevels),
    /// One level's module.
    Text(PtxText),
}

/// The PTX levels of this build.
#[derive(Debug, Serialize)]
pub struct PtxLevels {
    /// Their names, lowest first.
    pub levels: Vec<&'static str>,
}

/// The PTX of one level, or of one of its kernels.
#[derive(Debug, Serialize)]
pub struct PtxText {
    /// The level's name.
    pub level: &'static str,
    /// The module's text.
    pub text: Cow<'static, str>,
}

impl Report for PtxReport {
    fn table(&self) -> String {
        match self {
            PtxReport::Levels(PtxLevels { levels }) => levels.join("\n"),
            PtxReport::Text(PtxText { text, .. }) => text.trim_end().to_owned(),
        }
    }
}
