//! Compare kernels of different tiles.

use std::io::Write;

use anyhow::ensure;
use gpu_kernels::{Kernel, Precision};
use host::{
    cublas::{Cublas, CublasError},
    device::Device,
    gemm::{Gemm, GemmError},
    gpus::{self, Gpu},
    kernels,
    matrix::OutputFile,
    report::{SweepMachine, SweepReport},
    sweep::{self, Entry, Sweep, Times},
};

use super::{memory::ensure_product_fits, progress, start_workers};
use crate::cli::{Common, SweepArguments};

/// The size whose launches are counted unless others are asked for: what is counted per element hardly depends on it.
const COUNTED_SIZE: [usize; 1] = [256];

/// The sizes that are timed on a GPU unless others are asked for.
const TIMED_SIZES: [usize; 5] = [256, 512, 1024, 2048, 4096];

pub fn run(arguments: &SweepArguments, common: Common) -> anyhow::Result<SweepReport> {
    ensure!(!arguments.sizes.contains(&0), "--sizes has a 0: an empty product launches nothing; choose larger sizes");
    if let Some(&largest) = arguments.sizes.iter().max() {
        ensure_product_fits([largest; 3], 0)?;
    }
    let kernels = named_kernels(&arguments.kernels, &arguments.sizes)?;
    ensure_taken(&kernels, &arguments.sizes)?;
    let named = super::gpu_for(arguments.gpu.as_deref(), &kernels)?;
    let output = arguments.csv.as_deref().map(OutputFile::create).transpose()?;

    let gemm = Gemm::new(Device::open(common.device())?);
    let device = gemm.device().info().name;
    let gpu = gpus::choose(named, &device);
    let asked_for = |default| if arguments.sizes.is_empty() { default } else { arguments.sizes.as_slice() };
    let (sweep, cublas) = if gemm.device().is_simulator() {
        let entries = count(&gemm, &kernels, asked_for(&COUNTED_SIZE), gpu)?;
        (Sweep { entries, times: Vec::new() }, None)
    } else {
        let entries = count(&gemm, &kernels, &COUNTED_SIZE, gpu)?;
        start_workers()?;
        let cublas = open_cublas(gemm.device())?;
        let times = time(&gemm, cublas.as_ref().ok(), &kernels, asked_for(&TIMED_SIZES))?;
        (Sweep { entries, times }, Some(cublas.map(|cublas| cublas.description())))
    };

    let machine = SweepMachine { device, simulated: gemm.device().is_simulator(), gpu, cublas };
    let report = SweepReport::new(machine, &sweep, arguments.language.get());
    if let Some(output) = output {
        output.write(|file| file.write_all(report.csv().as_bytes()))?;
    }
    Ok(report)
}

/// The kernels of those names, for matrices of all those sizes; the tile family if there are no names.
fn named_kernels(names: &[String], sizes: &[usize]) -> anyhow::Result<Vec<&'static Kernel>> {
    // A production kernel that takes rows that begin anywhere takes those at multiples of 16 bytes too.
    let hardest = sizes.iter().find(|size| !size.is_multiple_of(4)).or(sizes.first()).unwrap_or(&COUNTED_SIZE[0]);
    match names {
        [] => Ok(sweep::family()),
        names => {
            let mut kernels: Vec<&'static Kernel> = Vec::new();
            for name in names {
                let kernel = kernels::by_name_or_exercise(name)?.for_rows([*hardest; 3])?;
                let (name, precision) = (kernel.name, kernel.precision.name());
                ensure!(
                    kernel.precision == Precision::F32,
                    "'{name}' computes in {precision}, and sweep compares kernels of f32: leave it out; `bench --kernels {name}` \
                     compares it with its like"
                );
                // Who names one twice wants it once.
                if kernels.iter().all(|known| known.name != kernel.name) {
                    kernels.push(kernel);
                }
            }
            Ok(kernels)
        }
    }
}

/// Whether every kernel takes all the sizes: some take multiples of their tile only.
fn ensure_taken(kernels: &[&Kernel], sizes: &[usize]) -> anyhow::Result<()> {
    for &size in sizes {
        for kernel in kernels {
            if (kernel.launch_shape)(size, size, size).is_none() {
                return Err(GemmError::NoLaunch { m: size, n: size, k: size, kernel: kernel.name }.into());
            }
        }
    }
    Ok(())
}

/// Counts what each kernel costs for each size. `gemm` is on the device whose driver may know the registers.
fn count(gemm: &Gemm, kernels: &[&'static Kernel], sizes: &[usize], gpu: &Gpu) -> anyhow::Result<Vec<Entry>> {
    let registers = sweep::registers(gemm, kernels, gpu)?;
    let simulator = Gemm::new(super::watched_simulator(sizes.iter().copied().max().unwrap_or(0)));
    let mut entries = Vec::new();
    for &size in sizes {
        for (&kernel, registers) in kernels.iter().zip(&registers) {
            let blocks = kernel.blocks(size, size, size);
            let count = || sweep::count(&simulator, kernel, size, gpu, registers.clone());
            entries.push(progress::launching(simulator.device(), blocks, count)?);
        }
    }
    Ok(entries)
}

/// Times the kernels and cuBLAS for each size.
fn time(
    gemm: &Gemm,
    cublas: Option<&Cublas>,
    kernels: &[&'static Kernel],
    sizes: &[usize],
) -> anyhow::Result<Vec<Times>> {
    let time = |&size: &usize| {
        let message = format!("checking and timing N = {size}");
        Ok(progress::spinning(message, || sweep::time(gemm, cublas, kernels, size))?)
    };
    sizes.iter().map(time).collect()
}

/// cuBLAS, or why it can't be had. It is for comparison only: without it the rest is worth having.
pub(super) fn open_cublas(device: &Device) -> anyhow::Result<Result<Cublas, String>> {
    match Cublas::open(device) {
        Ok(cublas) => Ok(Ok(cublas)),
        Err(
            error @ (CublasError::Missing
            | CublasError::Unloadable { .. }
            | CublasError::NoFunction { .. }
            | CublasError::Failed { .. }),
        ) => Ok(Err(error.to_string())),
        Err(error) => Err(error.into()),
    }
}
