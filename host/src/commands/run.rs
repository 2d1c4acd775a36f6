//! The main job: multiply two random matrices, check every element, say how it went.

use host::{
    device::Device,
    gemm::{Gemm, Timing, rounded},
    kernels, matrix,
    report::{ProductReport, RunReport},
    verify,
};

use super::{memory::ensure_product_fits, progress, start_workers};
use crate::cli::{Common, RunArguments};

pub fn run(arguments: &RunArguments, common: Common) -> anyhow::Result<RunReport> {
    let RunArguments { size, seed, .. } = *arguments;
    let kernel = kernels::by_name(&arguments.kernel)?.for_rows([size; 3])?;
    ensure_product_fits([size; 3], 0)?;
    start_workers()?;
    let gemm = Gemm::new(Device::open(common.device())?);
    // A simulated launch takes seconds and its time says nothing of a GPU; one is enough.
    let timing = if gemm.device().is_simulator() { Timing::Once } else { Timing::Batches { batches: 7, launches: 20 } };

    // The module is read or compiled while the matrices are drawn.
    let shapes = [(size, size), (size, size)];
    let (loaded, matrices) = rayon::join(|| gemm.load(kernel), || matrix::random_normals(&shapes, seed));
    loaded?;
    let [a, b] = <[_; 2]>::try_from(matrices).expect("two shapes");
    let [a, b] = [a, b].map(|matrix| rounded(kernel.precision, matrix));
    let product = progress::launching(gemm.device(), kernel.blocks(size, size, size), || {
        gemm.multiply_timed(kernel, a.view(), b.view(), timing)
    })?;
    let verification =
        progress::spinning("checking every element", || verify::check_in(product.plan.order(size), &product.c, &a, &b));
    let product = ProductReport::new(&gemm.device().info(), &product, size, Some(verification));
    Ok(RunReport::new(product, seed, verify::LESSON_BAR))
}
