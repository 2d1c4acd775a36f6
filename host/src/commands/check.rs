//! Watch kernels on the simulator and say what is wrong.

use anyhow::ensure;
use gpu_kernels::Kernel;
use host::{check, device::DeviceSelector, gemm::Gemm, plan, report::CheckReport};

use super::{memory::ensure_product_fits, progress, start_workers};
use crate::cli::{CheckArguments, Common};

/// Bytes that the simulator remembers of each element while it watches, at most.
const SHADOW_BYTES: u128 = 80;

pub fn run(arguments: &CheckArguments, common: Common) -> anyhow::Result<CheckReport> {
    ensure!(
        !matches!(common.device(), DeviceSelector::Cuda(_)),
        "check watches the kernel on the simulator, a GPU can't be watched: leave --device out"
    );
    let kernels: Vec<&Kernel> = match arguments.kernels.as_slice() {
        [] => gpu_kernels::KERNELS.iter().collect(),
        names => names.iter().map(|name| plan::by_name_or_exercise(name)).collect::<Result<_, _>>()?,
    };
    let given = arguments.shape.get();
    if let Some(shape) = given {
        ensure!(
            !shape.contains(&0),
            "an empty product launches nothing, so there is nothing to check: choose larger sizes"
        );
        ensure_product_fits(shape, SHADOW_BYTES)?;
    }
    start_workers()?;
    let mut checks = Vec::new();
    for kernel in kernels {
        let shapes = given.map_or_else(|| check::shapes(kernel), |shape| vec![shape]);
        let deepest = shapes.iter().map(|[_, _, k]| *k).max().unwrap_or(0);
        let gemm = Gemm::new(super::watched_simulator(deepest));
        let blocks = shapes.iter().map(|[m, n, k]| kernel.blocks(*m, *n, *k)).max().unwrap_or(0);
        let checked = progress::launching(gemm.device(), blocks, || check::check(&gemm, kernel, &shapes))?;
        checks.push((kernel, checked));
    }
    Ok(CheckReport::new(checks, arguments.language.get()))
}
