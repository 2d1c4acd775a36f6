//! Multiply the matrices of .npy files.

use std::path::PathBuf;

use anyhow::ensure;
use gpu_kernels::launch::ElementType;
use host::{
    device::Device,
    gemm::{self, Gemm, HostProduct},
    matrix::{self, OutputFile, can_allocate},
    plan,
    report::{Formula, GemmReport, ProductReport},
    verify,
};

use super::{progress, start_workers};
use crate::cli::{Common, GemmArguments};

pub fn run(arguments: &GemmArguments, common: Common) -> anyhow::Result<GemmReport> {
    // What can go wrong is tried before what takes time.
    ensure!(
        arguments.c.is_some() || arguments.beta.is_none_or(|beta| beta == 0.0),
        "--beta needs the matrix that it multiplies: name its file with --c"
    );
    let named = arguments.kernel.as_deref().map(plan::by_name).transpose()?;
    let named = gemm::kernel_in(arguments.precision, named)?;
    let read = |path: &PathBuf, transposed: bool| {
        let matrix = matrix::read_npy(path)?;
        anyhow::Ok(if transposed { matrix.reversed_axes() } else { matrix })
    };
    let a = read(&arguments.a, arguments.trans_a)?;
    let b = read(&arguments.b, arguments.trans_b)?;
    let c = arguments.c.as_ref().map(|path| read(path, false)).transpose()?;
    let factors = named.map_or(ElementType::F32, |kernel| kernel.precision.factors());
    let [a, b] = match factors {
        ElementType::F32 => [a, b],
        _ => [a, b].map(|matrix| gemm::rounded(factors, matrix.view())),
    };
    let ((m, k), n) = (a.dim(), b.ncols());
    let gemm = Gemm::new(Device::open(common.device())?);
    super::say_what_is_ignored(&gemm);
    let formula = Formula {
        alpha: arguments.alpha,
        beta: arguments.beta.unwrap_or(if c.is_some() { 1.0 } else { 0.0 }),
        transpose_a: arguments.trans_a,
        transpose_b: arguments.trans_b,
    };
    let product = HostProduct {
        alpha: formula.alpha,
        a: a.view(),
        b: b.view(),
        beta: formula.beta,
        c: c.as_ref().map(|c| c.view()),
    };
    gemm.check_product(&product)?;
    let reference_bytes = verify::reference_bytes(m, n, k);
    ensure!(
        !arguments.verify || can_allocate(reference_bytes),
        "--verify needs {reference_bytes} bytes of host memory for the f64 reference, which are not to be had; leave it out"
    );
    if arguments.verify {
        start_workers()?;
    }
    let output = OutputFile::create(&arguments.output)?;

    let blocks = gemm.plan_for(&product, named).blocks(m, n, k);
    let computed = progress::launching(gemm.device(), blocks, || gemm.compute(&product, named))?;
    let verification = arguments.verify.then(|| {
        progress::spinning("checking every element", || {
            let reference = verify::reference_in(computed.plan.order(k), a.view(), b.view());
            verify::compare(computed.c.view(), &reference.scaled(formula.alpha, formula.beta, product.c))
        })
    });
    let report = ProductReport::new(&gemm.device().info(), &computed, k, verification).with_formula(formula);
    let written = report.passed();
    if written {
        output.write_npy(&computed.c)?;
    }
    Ok(GemmReport::new(report, written.then_some(arguments.output.as_path())))
}
