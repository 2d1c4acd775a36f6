//! Which tile is best? The same product with kernels of different tiles: what each takes and costs, counted on the
//! simulator, and how fast each is on a GPU, beside cuBLAS.
//!
//! Times are taken in turn: a batch of launches of the first kernel, of the second, …, of cuBLAS, and again, so that a
//! GPU that changes its clock meanwhile does so for all. The median batch counts. Every kernel's product is checked once
//! before it's timed.

use std::time::Duration;

use gpu_kernels::{Kernel, Precision};
use ndarray::{Array2, Axis};
use ptx_simulator::observe::costs::Counts;

use crate::{
    cublas::{Cublas, CublasError},
    device::DeviceError,
    explain::{
        self, ExplainError,
        notes::fewer_multiply_adds,
        occupancy::{self, Occupancy},
        ratios::Ratios,
        registers::{DriverCount, RegisterCounts, Registers},
        roofline,
    },
    gemm::{DeviceMatrix, Gemm, GemmError},
    gpus::Gpu,
    kernels::{self, Named},
    matrix,
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
    /// What follows from that.
    pub ratios: Ratios,
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

impl Times {
    /// Floating-point operations per second of a product that takes `time`.
    pub fn operations_per_second(&self, time: Duration) -> f64 {
        roofline::operations_per_second([self.size; 3], time)
    }

    /// The speed of a product that takes `time` as a share of that of cuBLAS, if that was measured.
    pub fn share_of_cublas(&self, time: Duration) -> Option<f64> {
        self.cublas.as_ref().map(|(cublas, _)| cublas.as_secs_f64() / time.as_secs_f64().max(1e-12))
    }
}

/// Kernels, compared.
#[derive(Clone, Debug, Default)]
pub struct Sweep {
    /// What each takes and costs.
    pub entries: Vec<Entry>,
    /// How fast each is; empty without a GPU.
    pub times: Vec<Times>,
}

/// What the counts for one size say of kernels against each other.
#[derive(Clone, Debug)]
pub struct Comparison<'a> {
    /// The size: the largest that was counted.
    pub size: usize,
    /// How many kernels are compared.
    pub kernels: usize,
    /// Those that ask global memory for the fewest bytes, more than one if they ask for equally many.
    pub by_bytes: Vec<&'a Entry>,
    /// Those that issue the fewest instructions.
    pub by_instructions: Vec<&'a Entry>,
    /// Those with bank conflicts.
    pub conflicted: Vec<&'a Entry>,
    /// Those that are left out because they execute fewer fused multiply-adds than the product has: who computes less
    /// needs less.
    pub left_out: Vec<&'a Entry>,
}

impl Sweep {
    /// The fastest kernel of each size, as measured.
    pub fn fastest(&self) -> Vec<(usize, &'static Kernel)> {
        let fastest = |times: &Times| times.kernels.iter().min_by_key(|(_, time, _)| *time).map(|(kernel, ..)| *kernel);
        self.times.iter().filter_map(|times| Some((times.size, fastest(times)?))).collect()
    }

    /// What can be said without times; nothing if nothing was counted.
    pub fn comparison(&self) -> Option<Comparison<'_>> {
        let size = self.entries.iter().map(|entry| entry.size).max()?;
        let (of_size, left_out): (Vec<&Entry>, Vec<&Entry>) = self
            .entries
            .iter()
            .filter(|entry| entry.size == size)
            .partition(|entry| fewer_multiply_adds(&entry.counts, [size; 3]).is_none());
        let least = |key: fn(&Entry) -> u64| {
            let least = of_size.iter().map(|entry| key(entry)).min();
            of_size.iter().copied().filter(|entry| Some(key(entry)) == least).collect()
        };
        let has_conflicts = |entry: &&&Entry| entry.ratios.bank_conflict_degree.is_some_and(|degree| degree > 1.0);
        Some(Comparison {
            size,
            kernels: of_size.len(),
            by_bytes: least(|entry| entry.ratios.global_bytes),
            by_instructions: least(|entry| entry.counts.warp_instructions),
            conflicted: of_size.iter().filter(has_conflicts).copied().collect(),
            left_out,
        })
    }

    /// Whether every product of our kernels was right.
    pub fn passed(&self) -> bool {
        self.times.iter().flat_map(|times| &times.kernels).all(|(_, _, check)| check.passed())
    }
}

/// The kernels of the family that this build has.
pub fn family() -> Vec<&'static Kernel> {
    FAMILY.iter().filter_map(|name| kernels::by_name(name).ok()).map(Named::any).collect()
}

/// The registers of each kernel on `gpu`: by the driver of the GPU that `gemm` is on, if it's of that kind, else by
/// NVIDIA's assembler.
///
/// # Errors
///
/// [`GemmError`] if the GPU can't load a kernel.
pub fn registers(gemm: &Gemm, kernels: &[&Kernel], gpu: &Gpu) -> Result<Vec<Registers>, GemmError> {
    let device = gemm.device().info().name;
    let mut counts = RegisterCounts::new(gpu);
    let registers = |kernel: &&Kernel| {
        let resources = gemm.resources(kernel)?;
        let driver = resources.map(|resources| DriverCount { device: &device, count: resources.registers });
        Ok(counts.of(kernel, &gemm.ptx(kernel), driver))
    };
    kernels.iter().map(registers).collect()
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
    let needs = explain::block_needs(&counted, &registers);
    let occupancy = occupancy::occupancy(&gpu.limits, needs);
    let (counts, ratios) = (counted.total, Ratios::new(&counted.total, [size; 3], kernel.precision));
    Ok(Entry { kernel, size, shared_bytes: needs.shared_bytes, counts, ratios, registers, occupancy })
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
    let reference = verify::reference_in(
        verify::order_of_random(Precision::F32, size),
        a.select(Axis(0), &chosen).view(),
        b.view(),
    );
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        device::{Device, DeviceSelector},
        gpus,
    };

    #[test]
    fn products_are_checked_and_timed_in_turn() {
        // On the simulator the times mean nothing, but the way is the same.
        let gemm = Gemm::new(Device::open(DeviceSelector::Simulator).unwrap());
        let kernels = ["naive", "tiled"].map(|name| kernels::by_name(name).unwrap().any());
        let times = time(&gemm, None, &kernels, 24).unwrap();
        assert_eq!((times.size, times.checked_rows, times.kernels.len()), (24, 24, 2));
        assert!(times.cublas.is_none());
        for (kernel, time, check) in &times.kernels {
            assert!(*time > Duration::ZERO && check.passed(), "{}", kernel.name);
            assert_eq!(check.elements, 24 * 24);
        }
        let sweep = Sweep { entries: Vec::new(), times: vec![times] };
        let (size, kernel) = sweep.fastest()[0];
        assert!(size == 24 && kernels.iter().any(|known| known.name == kernel.name));
        assert!(sweep.passed() && sweep.comparison().is_none());
    }

    #[test]
    fn kernels_that_cost_equally_little_are_named_together_and_bank_conflicts_count() {
        let gemm = Gemm::new(Device::open(DeviceSelector::Simulator).unwrap());
        let entry = |name, size| {
            let kernel = kernels::by_name(name).unwrap().any();
            count(&gemm, kernel, size, gpus::default(), Registers::Unknown).unwrap()
        };
        let names = |entries: &[&Entry]| entries.iter().map(|entry| entry.kernel.name).collect::<Vec<_>>();
        let (naive, smaller) = (entry("naive", 64), entry("tiled_64", 32));
        // A page that isn't filled in yet asks for nothing and is no winner.
        let mut empty = entry("swizzled", 64);
        empty.counts = Counts::default();
        let entries = vec![naive, entry("conflicted", 64), entry("padded", 64), smaller, empty];
        let sweep = Sweep { entries, times: vec![] };
        let comparison = sweep.comparison().unwrap();
        assert_eq!((comparison.size, comparison.kernels), (64, 3));
        assert_eq!(names(&comparison.by_bytes), ["conflicted", "padded"]);
        assert_eq!(names(&comparison.conflicted), ["conflicted"]);
        assert_eq!(names(&comparison.left_out), ["swizzled"]);
    }
}
