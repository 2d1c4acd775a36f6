//! Multiply the matrices of .npy files.

use std::path::Path;

use anyhow::{anyhow, ensure};
use gpu_kernels::Precision;
use host::{
    device::{Device, available_memory},
    gemm::{Gemm, GemmError, HostProduct, precision_of, rounded},
    kernels,
    matrix::{self, OutputFile, can_allocate},
    report::{Formula, GemmReport, Overflows, ProductReport},
    verify::{self, Verification},
};
use ndarray::{Array, ArrayD, ArrayView2, ArrayView3, Axis, Dimension, Ix3};

use super::{progress, start_workers};
use crate::cli::{Common, GemmArguments};

pub fn run(arguments: &GemmArguments, common: Common) -> anyhow::Result<GemmReport> {
    // What can go wrong is tried before what takes time.
    ensure!(
        arguments.c.is_some() || arguments.beta.is_none_or(|beta| beta == 0.0),
        "--beta needs the matrix that it multiplies: name its file with --c"
    );
    let named = arguments.kernel.as_deref().map(kernels::by_name).transpose()?;
    let precision = precision_of(arguments.precision, named)?;
    let read = |path: &Path| anyhow::Ok(RoundedFile::new(precision, matrix::read_npy(path)?));
    let (a_read, b_read) = (read(&arguments.a)?, read(&arguments.b)?);
    let (a_file, b_file) = (&a_read.numbers, &b_read.numbers);
    let c_file = arguments.c.as_deref().map(matrix::read_npy).transpose()?;
    let (a, b) = (batch(a_file, arguments.trans_a), batch(b_file, arguments.trans_b));
    let is_batch = a_file.ndim().max(b_file.ndim()) == 3;
    if let Some((path, c)) = arguments.c.as_ref().zip(c_file.as_ref()) {
        let (path, dimensions, expected) = (path.display(), c.ndim(), if is_batch { 3 } else { 2 });
        ensure!(
            dimensions == expected,
            "{path} is {dimensions}-dimensional, but the product is {expected}-dimensional: C holds a matrix for each product"
        );
    }
    let gemm = Gemm::new(Device::open(common.device())?);
    super::say_what_is_ignored(&gemm);
    let c = c_file.as_ref().map(|c| batch(c, false));
    let beta = arguments.beta.unwrap_or(if c.is_some() { 1.0 } else { 0.0 });
    let product = HostProduct { alpha: arguments.alpha, a, b, precision, beta, c };
    gemm.check_product(&product).map_err(|error| said_of_transposed(error, arguments))?;
    let (count, [m, n, k]) = product.sizes();
    let one_for_all = |matrices: &ArrayView3<'_, f32>| count != 1 && matrices.len_of(Axis(0)) == 1;
    let formula = Formula {
        alpha: product.alpha,
        beta,
        transpose_a: arguments.trans_a,
        transpose_b: arguments.trans_b,
        batch: is_batch.then_some(count),
        shared: [("A", &product.a), ("B", &product.b)]
            .into_iter()
            .find(|(_, matrices)| one_for_all(matrices))
            .map(|(name, _)| name),
    };
    let reference_bytes = verify::reference_bytes(m, n, k);
    ensure!(
        !arguments.verify || can_allocate(reference_bytes),
        "--verify needs {reference_bytes} bytes of host memory for the f64 reference, which are not to be had; leave it out"
    );
    // The result, and on the simulator all matrices of the product once more.
    let of_c = count as u128 * m as u128 * n as u128;
    let of_device = if gemm.device().is_simulator() { (product.a.len() + product.b.len()) as u128 + of_c } else { 0 };
    let (needed, available) = (size_of::<f32>() as u128 * (of_c + of_device), available_memory());
    ensure!(
        needed <= u128::from(available),
        "the {m} x {n} result needs {needed} bytes of host memory{}, and {available} are available; multiply parts of the matrices",
        if of_device > 0 { ", with the simulator's matrices" } else { "" }
    );
    if arguments.verify {
        start_workers()?;
    }
    let output = OutputFile::create(&arguments.output)?;

    let blocks = gemm.plan_for(&product, named)?.blocks(m, n, k).saturating_mul(count as u64);
    let computed = progress::launching(gemm.device(), blocks, || gemm.compute(&product, named))?;
    let verification = arguments.verify.then(|| {
        progress::spinning("checking every element", || {
            // Without elements there is nothing to check, however many matrices there are.
            let checked = if is_batch && computed.c.is_empty() { 0 } else { count };
            let mut each = (0..checked).map(|index| {
                let reference =
                    verify::reference_in(computed.plan.order(k), one(&product.a, index), one(&product.b, index));
                let reference = reference.scaled(formula.alpha, beta, product.c.as_ref().map(|c| one(c, index)));
                verify::compare(one(&computed.c.view(), index), &reference)
            });
            if is_batch { Verification::of_batch(each) } else { each.next().expect("there is one product") }
        })
    });
    let c_counts = c_file.as_ref().filter(|_| beta != 0.0);
    let was_finite = [a_read.was_finite, b_read.was_finite, formula.alpha.is_finite(), beta.is_finite()];
    let from_finite = !was_finite.contains(&false) && c_counts.is_none_or(|c| not_finite(c) == 0);
    let overflows = Overflows {
        factors: [a_read.overflown, b_read.overflown],
        c: if from_finite { not_finite(&computed.c) } else { 0 },
    };
    let report = ProductReport::new(&gemm.device().info(), &computed, k, verification)
        .with_formula(formula)
        .asked_for(precision);
    let written = report.passed();
    if written {
        match is_batch {
            true => output.write_npy(&computed.c)?,
            false => output.write_npy(&computed.c.index_axis_move(Axis(0), 0))?,
        }
    }
    let report = GemmReport::new(report, written.then_some(arguments.output.as_path()));
    Ok(report.with_overflows(overflows, precision))
}

/// The numbers of a file, rounded to what a product in a precision is computed with.
struct RoundedFile {
    numbers: ArrayD<f32>,
    /// Whether all of them were finite in the file.
    was_finite: bool,
    /// How many rounding made infinite.
    overflown: usize,
}

impl RoundedFile {
    fn new(precision: Precision, numbers: ArrayD<f32>) -> RoundedFile {
        let before = not_finite(&numbers);
        let numbers = rounded(precision, numbers);
        let overflown = if precision.is_f32() { 0 } else { not_finite(&numbers) - before };
        RoundedFile { numbers, was_finite: before == 0, overflown }
    }
}

/// How many numbers are infinite or NaN.
fn not_finite<D: Dimension>(numbers: &Array<f32, D>) -> usize {
    numbers.iter().filter(|number| !number.is_finite()).count()
}

/// What a file holds as a batch, of one matrix where it holds one.
fn batch(file: &ArrayD<f32>, transposed: bool) -> ArrayView3<'_, f32> {
    let view = if file.ndim() == 2 { file.view().insert_axis(Axis(0)) } else { file.view() };
    let matrices = view.into_dimensionality::<Ix3>().expect("files have two or three dimensions");
    if transposed { matrices.permuted_axes([0, 2, 1]) } else { matrices }
}

/// The matrix for one product of the batch, which may be one for all.
fn one<'a>(matrices: &'a ArrayView3<'a, f32>, index: usize) -> ArrayView2<'a, f32> {
    matrices.index_axis(Axis(0), if matrices.len_of(Axis(0)) == 1 { 0 } else { index })
}

/// An error about sizes that aren't those of the files, since a factor was transposed, says so.
fn said_of_transposed(error: GemmError, arguments: &GemmArguments) -> anyhow::Error {
    let options = [("--trans-a", arguments.trans_a), ("--trans-b", arguments.trans_b)];
    let given: Vec<_> = options.into_iter().filter(|(_, is_given)| *is_given).map(|(option, _)| option).collect();
    if matches!(error, GemmError::InnerSizesDiffer { .. }) && !given.is_empty() {
        anyhow!("{error}; these are sizes after {}", given.join(" and "))
    } else {
        error.into()
    }
}
