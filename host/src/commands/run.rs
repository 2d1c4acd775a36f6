//! The main job: multiply two random matrices, check every element, say how it went.

use anyhow::ensure;
use host::{
    device::{Device, available_memory},
    gemm::{Gemm, Timing},
    matrix, plan,
    report::{ProductReport, RunReport},
    verify,
};

use super::{progress, start_workers};
use crate::cli::{Common, RunArguments};

/// Bytes of host memory per element of one matrix: A, B and C in f32, once here and once on the simulator.
const BYTES_PER_ELEMENT: u128 = 2 * 3 * 4;

pub fn run(arguments: &RunArguments, common: Common) -> anyhow::Result<RunReport> {
    let RunArguments { size, seed, .. } = *arguments;
    let kernel = plan::by_name(&arguments.kernel)?;
    let matrices = (size as u128 * size as u128).saturating_mul(BYTES_PER_ELEMENT);
    let needed = matrices.saturating_add(verify::reference_bytes(size, size, size));
    let available = available_memory();
    ensure!(
        needed <= u128::from(available),
        "--size {size} needs {needed} bytes of host memory, and {available} are available; choose a smaller size"
    );
    start_workers()?;
    let gemm = Gemm::new(Device::open(common.device())?);
    // A simulated launch takes seconds and its time says nothing of a GPU; one is enough.
    let timing = if gemm.device().is_simulator() { Timing::Once } else { Timing::Batches { batches: 7, launches: 20 } };

    let [a, b] = <[_; 2]>::try_from(matrix::random_normals(&[(size, size), (size, size)], seed)).expect("two shapes");
    let product = progress::launching(gemm.device(), kernel.blocks(size, size, size), || {
        gemm.multiply_timed(kernel, a.view(), b.view(), timing)
    })?;
    let verification = progress::spinning("checking every element", || verify::check(&product.c, &a, &b));
    let product = ProductReport::new(&gemm.device().info(), &product, size, Some(verification));
    Ok(RunReport::new(product, seed, verify::LESSON_BAR))
}
