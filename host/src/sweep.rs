//! Which tile is best? The same product with kernels of different tiles: what each takes and costs, counted on the
//! simulator, and how fast each is on a GPU, beside cuBLAS.
//!
//! Times are taken in turn: a batch of launches of the first kernel, of the second, …, of cuBLAS, and again, so that a
//! GPU that changes its clock meanwhile does so for all. The median batch counts. Every kernel's product is checked once
//! before it's timed.

use std::time::Duration;

use gpu_kernels::Kernel;
use ndarray::{Array2, Axis};
use ptx_simulator::observe::costs::Counts;

use crate::{
    cublas::{Cublas, CublasError},
    device::DeviceError,
    explain::{
        self, ExplainError,
        occupancy::{self, Occupancy},
        registers::Registers,
    },
    gemm::{DeviceMatrix, Gemm, GemmError},
    gpus::Gpu,
    matrix, plan,
    verify::{self, Verification},
};

/// The kernels that differ in their tile only.
pub const FAMILY: [&str; 4] = ["tiled_8", "tiled", "tiled_32", "tiled_64"];

/// Seed of the matrices that are multiplied.
const SEED: u64 = 42;

/// Batches to take the median of.
const BATCHES: usize = 9;

/// How long a batch should take at least, so that the clock's grain and the launch's overhead don't matter.
const BATCH_TIME: Duration = Duration::from_millis(5);

/// The most launches in a batch.
const MAX_LAUNCHES: usize = 200;

/// Multiply-adds that the check of a product may take; of larger products some rows are checked.
const CHECKED_MULTIPLY_ADDS: u128 = 1 << 30;

/// Why a sweep came to no end.
#[derive(Debug, thiserror::Error)]
pub enum SweepError {
    /// A product, or its launch.
    #[error(transparent)]
    Gemm(#[from] GemmError),
    /// cuBLAS.
    #[error(transparent)]
    Cublas(#[from] CublasError),
}

impl From<DeviceError> for SweepError {
    fn from(error: DeviceError) -> SweepError {
        SweepError::Gemm(error.into())
    }
}

/// What a kernel takes and costs for one size, counted on the simulator.
#[derive(Clone, Debug)]
pub struct Entry {
    /// The kernel.
    pub kernel: &'static Kernel,
    /// Rows and columns of the matrices.
    pub size: usize,
    /// Shared memory of a block, declared and dynamic, in bytes.
    pub shared_bytes: u32,
    /// What the launch costs.
    pub counts: Counts,
    /// Registers of a thread.
    pub registers: Registers,
    /// How full a multiprocessor gets.
    pub occupancy: Occupancy,
}

/// How fast everything is for one size.
#[derive(Clone, Debug)]
pub struct Times {
    /// Rows and columns of the matrices.
    pub size: usize,
    /// Each kernel with the time of one launch and what the check of its product says.
    pub kernels: Vec<(&'static Kernel, Duration, Verification)>,
    /// The same of cuBLAS, where it is installed. The bound that its product is held to is that of our kernels' order
    /// of summation; with random numbers other orders stay far below it too, and arithmetic in TF32 doesn't.
    pub cublas: Option<(Duration, Verification)>,
    /// Rows of C that were checked.
    pub checked_rows: usize,
}

/// The kernels of the family that this build has.
pub fn family() -> Vec<&'static Kernel> {
    FAMILY.iter().filter_map(|name| plan::by_name(name).ok()).collect()
}

/// Counts what one launch of `kernel` for `size` x `size` matrices costs, `gemm` being on the simulator, and applies the
/// limits of `gpu` to it and its `registers`.
///
/// # Errors
///
/// As [`explain::count`].
pub fn count(
    gemm: &Gemm,
    kernel: &'static Kernel,
    size: usize,
    gpu: &Gpu,
    registers: Registers,
) -> Result<Entry, ExplainError> {
    let counted = explain::count(gemm, kernel, [size; 3])?;
    let needs = explain::block_needs(kernel, &counted.launch, &registers);
    let occupancy = occupancy::occupancy(&gpu.limits, needs);
    Ok(Entry { kernel, size, shared_bytes: needs.shared_bytes, counts: counted.total, registers, occupancy })
}

/// Times every kernel, and cuBLAS if given, for `size` x `size` matrices on the GPU of `gemm`.
///
/// # Errors
///
/// [`SweepError`] if memory doesn't suffice, a launch fails or cuBLAS does.
pub fn time(
    gemm: &Gemm,
    cublas: Option<&Cublas>,
    kernels: &[&'static Kernel],
    size: usize,
) -> Result<Times, SweepError> {
    let device = gemm.device();
    let inputs = matrix::random_normals(&[(size, size); 2], SEED);
    let [a, b] = [&inputs[0], &inputs[1]];
    gemm.check(&a.view(), &b.view())?;
    let upload = |matrix: &Array2<f32>| device.upload(matrix.as_slice().expect("a new matrix has no gaps"));
    let (a_buffer, b_buffer) = (upload(a)?, upload(b)?);
    let mut c_buffer = device.allocate::<f32>(size * size)?;

    // Every `step`th row of C, with the reference for these rows only.
    let rows = (CHECKED_MULTIPLY_ADDS / (size as u128 * size as u128).max(1)).clamp(1, size.max(1) as u128) as usize;
    let chosen: Vec<usize> = (0..size).step_by(size.div_ceil(rows).max(1)).collect();
    let reference = verify::reference(a.select(Axis(0), &chosen).view(), b.view());
    let unwritten = vec![f32::NAN; size * size];
    let (a, b) = (DeviceMatrix::new(&a_buffer, 0, size, size)?, DeviceMatrix::new(&b_buffer, 0, size, size)?);
    let mut check = |work: &dyn Fn(DeviceMatrix<'_>) -> Result<(), SweepError>| -> Result<Verification, SweepError> {
        c_buffer.copy_from(&unwritten)?;
        work(DeviceMatrix::new(&c_buffer, 0, size, size)?)?;
        let result = Array2::from_shape_vec((size, size), c_buffer.download()?).expect("C has size * size elements");
        Ok(verify::compare(result.select(Axis(0), &chosen).view(), &reference))
    };
    let mut checks = Vec::new();
    for kernel in kernels {
        checks.push(check(&|c| Ok(gemm.enqueue(kernel, a, b, c)?))?);
    }
    let cublas_check = cublas.map(|cublas| check(&|c| Ok(cublas.enqueue(a, b, c)?))).transpose()?;

    let c = DeviceMatrix::new(&c_buffer, 0, size, size)?;
    let mut works: Vec<Box<dyn Fn() -> Result<(), SweepError> + '_>> = Vec::new();
    for kernel in kernels {
        works.push(Box::new(move || Ok(gemm.enqueue(kernel, a, b, c)?)));
    }
    if let Some(cublas) = cublas {
        works.push(Box::new(move || Ok(cublas.enqueue(a, b, c)?)));
    }
    let medians = in_turn(gemm, &works)?;
    let times = kernels.iter().zip(&medians).zip(checks);
    Ok(Times {
        size,
        kernels: times.map(|((kernel, time), check)| (*kernel, *time, check)).collect(),
        cublas: medians.get(kernels.len()).copied().zip(cublas_check),
        checked_rows: chosen.len(),
    })
}

/// The median time of one call of each of `works`, taken in batches in turn.
fn in_turn(gemm: &Gemm, works: &[Box<dyn Fn() -> Result<(), SweepError> + '_>]) -> Result<Vec<Duration>, SweepError> {
    let batch = |work: &dyn Fn() -> Result<(), SweepError>, launches: usize| -> Result<Duration, SweepError> {
        let mut outcome = Ok(());
        let time = gemm.device().time(|| {
            outcome = (0..launches).try_for_each(|_| work());
            Ok(())
        })?;
        outcome.map(|()| time)
    };
    let mut launches = Vec::new();
    for work in works {
        // The first is for what is done once, the second says how many make a batch.
        batch(work, 1)?;
        let one = batch(work, 1)?.max(Duration::from_micros(1));
        launches.push((BATCH_TIME.as_secs_f64() / one.as_secs_f64()).ceil().clamp(1.0, MAX_LAUNCHES as f64) as usize);
    }
    let mut times = vec![Vec::new(); works.len()];
    for _ in 0..BATCHES {
        for ((work, launches), times) in works.iter().zip(&launches).zip(&mut times) {
            times.push(batch(work, *launches)? / *launches as u32);
        }
    }
    Ok(times
        .into_iter()
        .map(|mut times| {
            times.sort();
            times[BATCHES / 2]
        })
        .collect())
}

/// The fastest kernel of each size.
pub fn best(times: &[Times]) -> Vec<(usize, &'static Kernel)> {
    let fastest = |times: &Times| times.kernels.iter().min_by_key(|(_, time, _)| *time).map(|(kernel, ..)| *kernel);
    times.iter().filter_map(|times| Some((times.size, fastest(times)?))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::{Device, DeviceSelector};

    #[test]
    fn products_are_checked_and_timed_in_turn() {
        // On the simulator the times mean nothing, but the way is the same.
        let gemm = Gemm::new(Device::open(DeviceSelector::Simulator).unwrap());
        let kernels = [plan::by_name("naive").unwrap(), plan::by_name("tiled").unwrap()];
        let times = time(&gemm, None, &kernels, 24).unwrap();
        assert_eq!((times.size, times.checked_rows, times.kernels.len()), (24, 24, 2));
        assert!(times.cublas.is_none());
        for (kernel, time, check) in &times.kernels {
            assert!(*time > Duration::ZERO && check.passed(), "{}", kernel.name);
            assert_eq!(check.elements, 24 * 24);
        }
        let (size, kernel) = best(&[times])[0];
        assert!(size == 24 && kernels.iter().any(|known| known.name == kernel.name));
    }
}
