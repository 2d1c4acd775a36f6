//! Compare kernels of different tiles.

use std::io::Write;

use anyhow::ensure;
use gpu_kernels::{Architecture, Kernel};
use host::{
    cublas::{Cublas, CublasError},
    device::{Device, DeviceSelector},
    explain::{
        self,
        registers::{Assembly, Registers},
    },
    gemm::Gemm,
    gpus::{self, Gpu},
    matrix::OutputFile,
    plan,
    report::{SweepMachine, SweepReport},
    sweep,
};

use super::{ensure_memory, progress, start_workers};
use crate::cli::{Common, SweepArguments};

/// The size whose launches are counted unless others are asked for: what is counted per element hardly depends on it.
const COUNTED_SIZE: usize = 256;

/// The sizes that are timed on a GPU unless others are asked for.
const TIMED_SIZES: [usize; 5] = [256, 512, 1024, 2048, 4096];

pub fn run(arguments: &SweepArguments, common: Common) -> anyhow::Result<SweepReport> {
    let kernels: Vec<&'static Kernel> = match arguments.kernels.as_slice() {
        [] => sweep::family(),
        names => names.iter().map(|name| plan::by_name(name)).collect::<Result<_, _>>()?,
    };
    ensure!(!arguments.sizes.contains(&0), "--sizes has a 0: an empty product launches nothing; choose larger sizes");
    if let Some(&largest) = arguments.sizes.iter().max() {
        // On the host twice, and B for the reference in f64.
        let needed = explain::matrix_bytes([largest; 3]).saturating_mul(3);
        ensure_memory(needed, format_args!("N = {largest}"))?;
    }
    let named = arguments.gpu.as_deref().map(gpus::by_name).transpose()?;
    let output = arguments.csv.as_deref().map(OutputFile::create).transpose()?;
    let device = Device::open(common.device())?;
    let info = device.info();
    let own = gpus::by_name(&info.name).ok();
    let gpu = named.or(own).unwrap_or_else(gpus::default);
    let on_gpu = !device.is_simulator();
    let timed = Gemm::new(device);

    let sizes = |default: &[usize]| match arguments.sizes.as_slice() {
        [] => default.to_vec(),
        sizes => sizes.to_vec(),
    };
    let counted_sizes = if on_gpu { vec![COUNTED_SIZE] } else { sizes(&[COUNTED_SIZE]) };
    let simulated = Gemm::new(Device::open(DeviceSelector::Simulator)?);
    let registers = registers(&timed, &kernels, gpu, own == Some(gpu))?;
    let mut entries = Vec::new();
    for size in counted_sizes {
        for (&kernel, registers) in kernels.iter().zip(&registers) {
            let blocks = kernel.blocks(size, size, size);
            let count = || sweep::count(&simulated, kernel, size, gpu, registers.clone());
            entries.push(progress::launching(simulated.device(), blocks, count)?);
        }
    }

    let mut times = Vec::new();
    let mut cublas_said = None;
    if on_gpu {
        start_workers()?;
        let cublas = match Cublas::open(timed.device()) {
            Ok(cublas) => Some(cublas),
            // It is for comparison only: without it the rest is worth having.
            Err(error @ (CublasError::Missing | CublasError::NoFunction { .. } | CublasError::Failed { .. })) => {
                cublas_said = Some(Err(error.to_string()));
                None
            }
            Err(error) => return Err(error.into()),
        };
        if let Some(cublas) = &cublas {
            cublas_said = Some(Ok(cublas.description()));
        }
        for size in sizes(&TIMED_SIZES) {
            let time = || sweep::time(&timed, cublas.as_ref(), &kernels, size);
            times.push(progress::spinning(format!("checking and timing N = {size}"), time)?);
        }
    }

    let machine = SweepMachine { device: info.name, simulated: !on_gpu, gpu, cublas: cublas_said };
    let report = SweepReport::new(machine, entries, &times, arguments.language.get());
    if let Some(output) = output {
        output.write(|file| file.write_all(report.csv().as_bytes()))?;
    }
    Ok(report)
}

/// The registers of each kernel on `gpu`: the driver says if it is the one here, else NVIDIA's assembler is asked.
fn registers(gemm: &Gemm, kernels: &[&Kernel], gpu: &Gpu, here: bool) -> anyhow::Result<Vec<Registers>> {
    let mut assemblies: Vec<(Architecture, Assembly)> = Vec::new();
    let mut all = Vec::new();
    for kernel in kernels {
        let resources = if here { gemm.resources(kernel)? } else { None };
        all.push(match resources {
            Some(resources) => Registers::Driver { count: resources.registers },
            None => {
                let known = assemblies.iter().position(|(level, _)| *level == kernel.architecture);
                let index = known.unwrap_or_else(|| {
                    let assembly = Assembly::new(gemm.ptx(kernel.architecture), &gpu.architecture());
                    assemblies.push((kernel.architecture, assembly));
                    assemblies.len() - 1
                });
                assemblies[index].1.registers(kernel.entry)
            }
        });
    }
    Ok(all)
}
