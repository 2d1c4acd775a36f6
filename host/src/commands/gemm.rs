//! Multiply the matrices of two .npy files.

use anyhow::ensure;
use host::{
    device::Device,
    gemm::{Gemm, Timing},
    matrix::{self, OutputFile, can_allocate},
    plan,
    report::{GemmReport, ProductReport},
    verify,
};

use super::{progress, start_workers};
use crate::cli::{Common, GemmArguments};

pub fn run(arguments: &GemmArguments, common: Common) -> anyhow::Result<GemmReport> {
    // What can go wrong is tried before what takes time.
    let named = arguments.kernel.as_deref().map(plan::by_name).transpose()?;
    let a = matrix::read_npy(&arguments.a)?;
    let b = matrix::read_npy(&arguments.b)?;
    let ((m, k), n) = (a.dim(), b.ncols());
    let kernel = named.unwrap_or_else(|| plan::choose(m, n, k));
    let gemm = Gemm::new(Device::open(common.device())?);
    gemm.check(&a.view(), &b.view())?;
    let reference_bytes = verify::reference_bytes(m, n, k);
    ensure!(
        !arguments.verify || can_allocate(reference_bytes),
        "--verify needs {reference_bytes} bytes of host memory for the f64 reference, which are not to be had; leave it out"
    );
    if arguments.verify {
        start_workers()?;
    }
    let output = OutputFile::create(&arguments.output)?;

    let product = progress::launching(gemm.device(), kernel.blocks(m, n, k), || {
        gemm.multiply_timed(kernel, a.view(), b.view(), Timing::Once)
    })?;
    let verification =
        arguments.verify.then(|| progress::spinning("checking every element", || verify::check(&product.c, &a, &b)));
    let report = ProductReport::new(&gemm.device().info(), &product, k, verification);
    let written = report.passed();
    if written {
        output.write_npy(&product.c)?;
    }
    Ok(GemmReport::new(report, written.then_some(arguments.output.as_path())))
}
