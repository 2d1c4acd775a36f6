//! The command line.

use std::{path::PathBuf, str::FromStr};

use clap::{Args, Parser, Subcommand};
use gpu_kernels::Precision;
use host::{
    bench::{Numbers, Problem, Set},
    device::DeviceSelector,
    language::Language,
};

/// Matrix products on NVIDIA GPUs, with kernels written in Rust.
///
/// Without a command this runs the main job: two 1024 x 1024 matrices are multiplied with the tiled kernel, and every
/// element of the product is checked. Exit code 0: right; 1: a result failed its check; 2: the job could not be done.
#[derive(Debug, Parser)]
#[command(name = "host", version)]
pub struct Arguments {
    /// What to do; the main job if left out.
    #[command(subcommand)]
    pub command: Option<Command>,

    #[command(flatten)]
    pub common: Common,
}

/// Options of every command.
#[derive(Clone, Copy, Debug, Args)]
pub struct Common {
    /// Where to run: auto (a GPU if there is one, else the simulator; the default), cuda, cuda:N or sim.
    #[arg(long, global = true, value_name = "DEVICE")]
    pub device: Option<DeviceSelector>,

    /// Print the result as JSON.
    #[arg(long, global = true)]
    pub json: bool,
}

impl Common {
    /// The device to run on.
    pub fn device(&self) -> DeviceSelector {
        self.device.unwrap_or_default()
    }
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// The main job, with another size, kernel or seed.
    Run(RunArguments),
    /// Multiply matrices or batches of them from .npy files: C = A B, or alpha op(A) op(B) + beta C.
    Gemm(GemmArguments),
    /// Find races, reads of unwritten memory, accesses out of bounds and divergent barriers, with their source lines.
    Check(CheckArguments),
    /// Show what each line of a kernel costs, its occupancy and where it stands under a GPU's roofline.
    Explain(ExplainArguments),
    /// The lesson's exercise: says what is wrong first with your kernel in gpu-kernels/src/exercise.rs.
    Exercise(ExerciseArguments),
    /// Compare tiles of 8, 16, 32 and 64: what each takes and costs, and on a GPU how fast it is beside cuBLAS.
    Sweep(SweepArguments),
    /// Time the kernels on the GPU here and keep the fastest for each class of products.
    Tune(TuneArguments),
    /// Time every kernel beside cuBLAS; without a GPU, count what they cost.
    Bench(BenchArguments),
    /// List the kernels: tile, threads, shared memory, what they need.
    List,
    /// Show devices, driver, kernel compiler and PTX levels.
    Info,
    /// Print the PTX of the kernels, as the GPU's driver and the simulator get it.
    Ptx(PtxArguments),
}

#[derive(Debug, Args)]
pub struct TuneArguments {
    /// The longest that it may take; what is left then is tuned the next time.
    #[arg(long, value_name = "MINUTES", default_value_t = 5.0, allow_hyphen_values = true, conflicts_with_all = ["show", "reset"])]
    pub minutes: f64,

    /// Show what is known instead.
    #[arg(long, conflicts_with = "reset")]
    pub show: bool,

    /// Forget what was found for this GPU, driver and build.
    #[arg(long)]
    pub reset: bool,

    /// The folder for tunings; GEMM_TUNE_DIR, else rust-gemm in the user's cache folder, if left out. Products are planned
    /// with what is there only if GEMM_TUNE_DIR names it.
    #[arg(long, value_name = "FOLDER")]
    pub folder: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub struct PtxArguments {
    /// The level, such as compute_70; the lowest if left out.
    pub level: Option<String>,

    /// Print one kernel's module instead: its entry and what that needs, which is what a device loads.
    #[arg(long, conflicts_with = "level")]
    pub kernel: Option<String>,

    /// List the levels instead, one a line.
    #[arg(long, conflicts_with_all = ["level", "kernel"])]
    pub list: bool,
}

#[derive(Debug, Args)]
pub struct RunArguments {
    /// Rows and columns of both matrices.
    #[arg(long, default_value_t = 1024, allow_negative_numbers = true, value_parser = whole::<usize>)]
    pub size: usize,

    /// The kernel (see list).
    #[arg(long, default_value = "tiled")]
    pub kernel: String,

    /// Seed of the random matrices.
    #[arg(long, default_value_t = 42, allow_negative_numbers = true, value_parser = whole::<u64>)]
    pub seed: u64,
}

impl Default for RunArguments {
    fn default() -> Self {
        RunArguments { size: 1024, kernel: "tiled".to_owned(), seed: 42 }
    }
}

#[derive(Debug, Args)]
pub struct GemmArguments {
    /// A, an m x k matrix of float32 in a .npy file (k x m with --trans-a), or a batch of them, of shape (batch, m, k).
    pub a: PathBuf,

    /// B, a k x n matrix of float32 in a .npy file (n x k with --trans-b), or a batch; one matrix beside a batch of A goes
    /// with each of it, and the other way round.
    pub b: PathBuf,

    /// Where to write C, m x n, as .npy; (batch, m, n) if A or B is a batch.
    #[arg(short, long, value_name = "C")]
    pub output: PathBuf,

    /// The factor of the product.
    #[arg(long, default_value_t = 1.0, allow_hyphen_values = true, value_parser = factor)]
    pub alpha: f32,

    /// The factor of what C holds before; 1 if left out and --c is given.
    #[arg(long, allow_hyphen_values = true, value_parser = factor)]
    pub beta: Option<f32>,

    /// What C holds before, in a .npy file of C's shape, which may be the output.
    #[arg(long, value_name = "C0")]
    pub c: Option<PathBuf>,

    /// Multiply A's transpose.
    #[arg(long)]
    pub trans_a: bool,

    /// Multiply by B's transpose.
    #[arg(long)]
    pub trans_b: bool,

    /// The kernel (see list), of the book or a production kernel; chosen for the shape if left out.
    #[arg(long)]
    pub kernel: Option<String>,

    /// f32 (the default; also ieee): fused multiply-adds; fp32-tc: as exact, on tensor cores; bf16, f16, tf32: A and B are rounded to it, and
    /// tensor cores multiply them with sums in f32. A kernel that is named has its own.
    #[arg(long, value_name = "PRECISION", value_parser = precision)]
    pub precision: Option<Precision>,

    /// Check every element of C against an f64 reference before writing it.
    #[arg(long)]
    pub verify: bool,
}

/// A precision, by its name.
fn precision(text: &str) -> Result<Precision, String> {
    let name = if text == "ieee" { Precision::F32.name() } else { text };
    let known = Precision::ALL.iter().find(|precision| precision.name() == name).copied();
    known.ok_or_else(|| {
        let name = |precision: &Precision| match precision {
            Precision::F32 => "f32 (also ieee)",
            other => other.name(),
        };
        let names: Vec<_> = Precision::ALL.iter().map(name).collect();
        format!("'{}' is no precision: expected {}", text.escape_debug(), names.join(" or "))
    })
}

/// The language of reports.
#[derive(Clone, Copy, Debug, Args)]
pub struct LanguageArgument {
    /// Language of the report: en or zh; the locale's if left out.
    #[arg(long = "lang", value_name = "LANG")]
    language: Option<Language>,
}

impl LanguageArgument {
    /// The language to speak.
    pub fn get(self) -> Language {
        self.language.unwrap_or_else(Language::of_locale)
    }
}

/// Sizes of a product to launch.
#[derive(Clone, Copy, Debug, Args)]
pub struct ShapeArguments {
    /// Rows and columns of square matrices.
    #[arg(long, value_name = "N", conflicts_with = "shape", allow_negative_numbers = true, value_parser = whole::<usize>)]
    size: Option<usize>,

    /// Sizes of the product: m x n x k, such as 100x37x64.
    #[arg(long, value_name = "MxNxK")]
    shape: Option<Shape>,
}

impl ShapeArguments {
    /// The sizes m, n, k if any were given.
    pub fn get(self) -> Option<[usize; 3]> {
        self.size.map(|size| [size; 3]).or(self.shape.map(|shape| shape.0))
    }
}

/// The sizes m, n and k of a product.
#[derive(Clone, Copy, Debug)]
struct Shape([usize; 3]);

impl FromStr for Shape {
    type Err = String;

    fn from_str(text: &str) -> Result<Shape, String> {
        let sizes = text.split('x').map(str::parse).collect::<Result<Vec<usize>, _>>();
        let sizes = sizes.ok().and_then(|sizes| <[usize; 3]>::try_from(sizes).ok());
        sizes.map(Shape).ok_or_else(|| format!("'{text}' is no shape: expected MxNxK, such as 100x37x64"))
    }
}

#[derive(Debug, Args)]
pub struct CheckArguments {
    /// The kernels (see list), of the book or production kernels such as 128x256x16; all of the book if left out.
    #[arg(value_name = "KERNEL")]
    pub kernels: Vec<String>,

    /// The product to compute meanwhile; if left out, two: one of whole tiles and one with edges. Production kernels compute
    /// another with K in two parts.
    #[command(flatten)]
    pub shape: ShapeArguments,

    #[command(flatten)]
    pub language: LanguageArgument,
}

#[derive(Debug, Args)]
pub struct ExplainArguments {
    /// The kernel (see list).
    pub kernel: String,

    /// The product to count; 256 x 256 x 256 if left out.
    #[command(flatten)]
    pub shape: ShapeArguments,

    /// The GPU whose limits to apply, such as H200 or RTX4090; the GPU here if it's known, else H200.
    #[arg(long, value_name = "NAME")]
    pub gpu: Option<String>,

    /// Also draw the roofline into this SVG file.
    #[arg(long, value_name = "FILE")]
    pub svg: Option<PathBuf>,

    #[command(flatten)]
    pub language: LanguageArgument,
}

#[derive(Debug, Args)]
pub struct ExerciseArguments {
    /// Say more about what to do next.
    #[arg(long, conflicts_with_all = ["solution", "reset"])]
    pub hint: bool,

    /// Show a solution.
    #[arg(long, conflicts_with = "reset")]
    pub solution: bool,

    /// Bring the page back as it was handed out; asks before it overwrites work.
    #[arg(long)]
    pub reset: bool,

    /// With --reset: overwrite work without asking.
    #[arg(long)]
    pub yes: bool,

    #[command(flatten)]
    pub language: LanguageArgument,
}

#[derive(Debug, Args)]
pub struct SweepArguments {
    /// Rows and columns of the matrices, such as 256,512; on a GPU 256 to 4096 if left out, on the simulator 256.
    #[arg(long, value_name = "N,N,…", value_delimiter = ',', allow_negative_numbers = true, value_parser = whole::<usize>)]
    pub sizes: Vec<usize>,

    /// The kernels to compare (see list), or exercise, your own; tiled_8, tiled, tiled_32 and tiled_64 if left out.
    #[arg(long, value_name = "KERNEL,…", value_delimiter = ',')]
    pub kernels: Vec<String>,

    /// The GPU whose limits to apply, such as H200 or RTX4090; the GPU here if it's known, else H200.
    #[arg(long, value_name = "NAME")]
    pub gpu: Option<String>,

    /// Also write everything into this file, as comma-separated values.
    #[arg(long, value_name = "FILE")]
    pub csv: Option<PathBuf>,

    #[command(flatten)]
    pub language: LanguageArgument,
}

#[derive(Debug, Args)]
pub struct BenchArguments {
    /// Rows and columns of square matrices, such as 256,512; without any shapes, on a GPU 256 to 4096, else 64 and 128.
    #[arg(long, value_name = "N,N,…", value_delimiter = ',', allow_negative_numbers = true, value_parser = whole::<usize>)]
    pub sizes: Vec<usize>,

    /// Products of other shapes, such as 100x37x64, 1000*64x64x64 (a batch) or 512x512x512:TN (A transposed in memory).
    #[arg(long, value_name = "MxNxK,…", value_delimiter = ',')]
    pub shapes: Vec<Problem>,

    /// So many random shapes: M, N and K from 32 to 8192, none a multiple of 16.
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u16).range(1..=10_000), allow_negative_numbers = true)]
    pub random: Option<u16>,

    /// Shapes known by a name: squares (256 to 16384), random (60), skinny, batches, transposes.
    #[arg(long = "set", value_name = "SET,…", value_delimiter = ',')]
    pub sets: Vec<Set>,

    /// Who takes part beside cuBLAS: gemm (the library's own choice), kernels (see list), exercise, production kernels such
    /// as 128x256x16 or 64x64x16/4 (K in 4 parts), book, production or all; if left out, gemm, and for square matrices the
    /// book too.
    #[arg(long, value_name = "KERNEL,…", value_delimiter = ',')]
    pub kernels: Vec<String>,

    /// What everybody computes in: f32 (also ieee); fp32-tc, on tensor cores and as exact, beside cuBLAS in f32; or bf16, f16 or tf32, to which A and B
    /// are rounded, cuBLAS by cublasGemmEx. If left out, that of the first kernel that is named, else f32.
    #[arg(long, value_name = "PRECISION", value_parser = precision)]
    pub precision: Option<Precision>,

    /// C has the elements of A and B, bf16 or f16, instead of f32.
    #[arg(long)]
    pub half_c: bool,

    /// Rounds in which everybody has a turn; the median counts.
    #[arg(long, default_value_t = 15, value_parser = clap::value_parser!(u16).range(1..=1000), allow_negative_numbers = true)]
    pub rounds: u16,

    /// Time everybody under load in place of rounds: each alone for 0.4 s of launches that aren't timed and 0.4 s that are, and
    /// all again in the opposite order; the median of the timed graphs counts.
    #[arg(long, conflicts_with = "rounds")]
    pub sustained: bool,

    /// What A and B consist of: normal (standard normal numbers), uniform (from -1 to 1), positive (from 0 to 1), wide (of either
    /// sign, magnitudes from 2^-30 to 2^30, all doublings equally likely) or cancelling (sums that nearly cancel).
    #[arg(long, value_name = "NUMBERS", default_value = "normal")]
    pub data: Numbers,

    /// Seed of the matrices and of the random shapes.
    #[arg(long, default_value_t = 42, allow_negative_numbers = true, value_parser = whole::<u64>)]
    pub seed: u64,

    /// Also write everything into this file, as comma-separated values.
    #[arg(long, value_name = "FILE")]
    pub csv: Option<PathBuf>,

    /// Also draw speed and ratio over the shapes into this SVG file.
    #[arg(long, value_name = "FILE")]
    pub svg: Option<PathBuf>,

    #[command(flatten)]
    pub language: LanguageArgument,
}

/// A whole number, not negative.
fn whole<T: FromStr>(text: &str) -> Result<T, String> {
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let wrong = if is_number { "64 bits have no room for it" } else { "a whole number is expected, such as 1024" };
    text.parse().map_err(|_| wrong.to_owned())
}

/// A factor of a product: a number that f32 has room for.
fn factor(text: &str) -> Result<f32, String> {
    let expected = |_| "a number is expected, such as -1 or 0.5".to_owned();
    let number: f64 = text.parse().map_err(expected)?;
    let nearest: f32 = text.parse().map_err(expected)?;
    match () {
        () if number.is_finite() && nearest.is_infinite() => Err("f32 ends at 3.4e38".to_owned()),
        () if number != 0.0 && nearest == 0.0 => Err("in f32 that is 0: its smallest number is 1.4e-45".to_owned()),
        () => Ok(nearest),
    }
}
