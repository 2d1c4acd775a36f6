//! Watch kernels on the simulator and say what is wrong.

use anyhow::ensure;
use host::{
    check::{self, Case},
    device::DeviceSelector,
    gemm::Gemm,
    kernels::{self, Named},
    report::CheckReport,
};

use super::{memory::ensure_product_fits, progress, start_workers};
use crate::cli::{CheckArguments, Common};

/// Bytes that the simulator remembers of each element while it watches, at most.
const SHADOW_BYTES: u128 = 80;

pub fn run(arguments: &CheckArguments, common: Common) -> anyhow::Result<CheckReport> {
    ensure!(
        !matches!(common.device(), DeviceSelector::Cuda(_)),
        "check watches the kernel on the simulator, a GPU can't be watched: leave --device out"
    );
    let kernels: Vec<Named> = match arguments.kernels.as_slice() {
        [] => gpu_kernels::KERNELS.iter().map(Named::Kernel).collect(),
        names => names.iter().map(|name| kernels::by_name_or_exercise(name)).collect::<Result<_, _>>()?,
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
    for named in kernels {
        let cases = given.map_or_else(|| Ok(check::cases(named)), |shape| check::cases_of(named, shape))?;
        let deepest = cases.iter().map(|case| case.shape[2]).max().unwrap_or(0);
        let gemm = Gemm::new(super::watched_simulator(deepest));
        let blocks = cases.iter().map(Case::blocks).max().unwrap_or(0);
        let checked = progress::launching(gemm.device(), blocks, || check::check(&gemm, &cases))?;
        checks.push((named, checked));
    }
    Ok(CheckReport::new(checks, arguments.language.get()))
}
