//! The matrices of a measurement: random, in device memory, in so many copies that no launch finds its own in a cache.

use gpu_kernels::launch::ElementType;
use rand::{SeedableRng, rngs::ChaCha12Rng};
use rand_distr::{Distribution, StandardNormal};
use rayon::prelude::*;

use super::{
    BenchError,
    problem::{Operation, Problem},
};
use crate::{
    device::Device,
    gemm::{DeviceMatrix, FactorBuffer, GemmError, Operand, Output, nearest_factor},
    matrix,
};

/// The most copies of the matrices: enough for products from about 64 x 64 on to pass a cache of 50 MiB twice, and few
/// enough to record a launch for each.
const MAX_COPIES: usize = 4096;

/// Copies begin at multiples of so many bytes, as allocations do.
const ALIGNMENT: usize = 256;

/// Numbers that one generator draws; each run of them has a generator of its own, so that all cores can draw.
const RUN: usize = 1 << 16;

/// How many copies of its matrices a problem gets: together they take twice the second-level cache, so that every launch
/// finds its matrices in memory, as it would in a program that does other things between two products.
pub fn copies(problem: &Problem, l2_bytes: u64) -> usize {
    let needed = (2 * u128::from(l2_bytes)).div_ceil(problem.bytes().max(1));
    usize::try_from(needed).unwrap_or(MAX_COPIES).clamp(1, MAX_COPIES)
}

/// Random matrices of a problem in host memory: all A of the batch, all B.
#[derive(Debug)]
pub struct Inputs {
    /// A, matrix by matrix.
    pub a: Vec<f32>,
    /// B, matrix by matrix.
    pub b: Vec<f32>,
}

impl Inputs {
    /// Standard normal numbers, rounded to the elements of the problem's A and B, the same for the same problem and seed on
    /// every machine.
    ///
    /// # Errors
    ///
    /// [`BenchError::HostMemory`] if there isn't enough.
    pub fn random(problem: &Problem, seed: u64) -> Result<Inputs, BenchError> {
        let [a, b, _] = problem.elements();
        Ok(Inputs { a: normal(problem, a, seed, 0)?, b: normal(problem, b, seed, 1)? })
    }
}

/// So many standard normal numbers. Different `which` give different ones.
fn normal(problem: &Problem, elements: u128, seed: u64, which: u64) -> Result<Vec<f32>, BenchError> {
    let mut numbers = filled(problem, elements, 0.0)?;
    numbers.par_chunks_mut(RUN).enumerate().for_each(|(index, run)| {
        let mut generator = ChaCha12Rng::seed_from_u64(seed);
        generator.set_stream(2 * index as u64 + which);
        run.fill_with(|| nearest_factor(problem.precision, StandardNormal.sample(&mut generator)));
    });
    Ok(numbers)
}

/// So many numbers of one value, if there is memory for them.
fn filled(problem: &Problem, elements: u128, value: f32) -> Result<Vec<f32>, BenchError> {
    let bytes = elements.saturating_mul(size_of::<f32>() as u128);
    if !matrix::can_allocate(bytes) {
        return Err(BenchError::HostMemory { problem: *problem, bytes });
    }
    Ok(vec![value; elements as usize])
}

/// Copies of a problem's matrices in device memory.
#[derive(Debug)]
pub struct Buffers {
    problem: Problem,
    a: FactorBuffer,
    b: FactorBuffer,
    c: FactorBuffer,
    /// Elements from a copy of A, B, C to the next.
    strides: [usize; 3],
    /// Elements of C in a copy.
    c_elements: usize,
    copies: usize,
    /// What C is overwritten with before a check.
    poison: Vec<f32>,
}

/// One copy of a problem's matrices.
#[derive(Debug)]
pub struct Copy<'a> {
    problem: Problem,
    a: (&'a FactorBuffer, usize),
    b: (&'a FactorBuffer, usize),
    c: (&'a mut FactorBuffer, usize),
}

impl Copy<'_> {
    /// A and B as they are meant and C to be written: matrices, or batches of them.
    ///
    /// # Errors
    ///
    /// [`GemmError`] if one isn't inside its buffer.
    pub fn views(&mut self) -> Result<(Operand<'_>, Operand<'_>, Output<'_>), GemmError> {
        let Problem { m, n, k, op_a, op_b, batch, .. } = self.problem;
        let (c, offset) = (&mut *self.c.0, self.c.1);
        let c = match batch {
            1 => c.matrix_mut_at(offset, m, n)?.into(),
            _ => c.batch_mut_at(offset, batch, m, n)?.into(),
        };
        Ok((operand(self.a, batch, op_a, m, k)?, operand(self.b, batch, op_b, k, n)?, c))
    }

    /// The matrices of a problem without a batch, C as one that may be seen elsewhere too.
    ///
    /// # Errors
    ///
    /// As [`views`](Copy::views).
    pub fn single(&self) -> Result<[DeviceMatrix<'_>; 3], GemmError> {
        let Problem { m, n, k, op_a, op_b, .. } = self.problem;
        Ok([matrix(self.a, op_a, m, k)?, matrix(self.b, op_b, k, n)?, self.c.0.matrix_at(self.c.1, m, n)?])
    }
}

/// A matrix that is `rows` x `columns` as meant.
fn matrix(
    (buffer, offset): (&FactorBuffer, usize),
    operation: Operation,
    rows: usize,
    columns: usize,
) -> Result<DeviceMatrix<'_>, GemmError> {
    let (rows, columns) = operation.stored(rows, columns);
    let stored = buffer.matrix_at(offset, rows, columns)?;
    Ok(if operation.is_transposed() { stored.transposed() } else { stored })
}

/// A matrix that is `rows` x `columns` as meant, or a batch of them.
fn operand(
    (buffer, offset): (&FactorBuffer, usize),
    batch: usize,
    operation: Operation,
    rows: usize,
    columns: usize,
) -> Result<Operand<'_>, GemmError> {
    if batch == 1 {
        return Ok(matrix((buffer, offset), operation, rows, columns)?.into());
    }
    let (rows, columns) = operation.stored(rows, columns);
    let stored = buffer.batch_at(offset, batch, rows, columns)?;
    Ok(if operation.is_transposed() { stored.transposed() } else { stored }.into())
}

impl Buffers {
    /// Uploads `copies` copies of the inputs and makes room for as many results.
    ///
    /// # Errors
    ///
    /// [`BenchError`] if memory doesn't suffice here or there.
    pub fn new(device: &Device, problem: &Problem, inputs: &Inputs, copies: usize) -> Result<Buffers, BenchError> {
        let [a, b, c] = problem.elements();
        let factors = problem.precision.factors();
        let stride = |elements: u128, element: ElementType| match copies {
            // A single copy needs no gap to the next.
            1 => elements,
            _ => elements.next_multiple_of((ALIGNMENT / element.bytes()) as u128),
        };
        let upload = |numbers: &[f32]| -> Result<FactorBuffer, BenchError> {
            if copies == 1 {
                return Ok(FactorBuffer::upload(device, factors, numbers)?);
            }
            let stride = stride(numbers.len() as u128, factors);
            let mut all = filled(problem, stride * copies as u128, 0.0)?;
            all.chunks_exact_mut(stride as usize).for_each(|copy| copy[..numbers.len()].copy_from_slice(numbers));
            Ok(FactorBuffer::upload(device, factors, &all)?)
        };
        let strides = [stride(a, factors), stride(b, factors), stride(c, problem.output())];
        let poison = filled(problem, strides[2] * copies as u128, f32::NAN)?;
        Ok(Buffers {
            problem: *problem,
            a: upload(&inputs.a)?,
            b: upload(&inputs.b)?,
            c: FactorBuffer::upload(device, problem.output(), &poison)?,
            strides: strides.map(|stride| stride as usize),
            c_elements: c as usize,
            copies,
            poison,
        })
    }

    /// How many copies there are.
    pub fn copies(&self) -> usize {
        self.copies
    }

    /// A copy, by its number; from the last on it goes on with the first.
    pub fn copy(&mut self, index: usize) -> Copy<'_> {
        let index = index % self.copies;
        let [a, b, c] = self.strides.map(|stride| stride * index);
        Copy { problem: self.problem, a: (&self.a, a), b: (&self.b, b), c: (&mut self.c, c) }
    }

    /// Overwrites every C with NaN, so that an element that nobody writes shows.
    ///
    /// # Errors
    ///
    /// Any of the device.
    pub fn poison(&mut self) -> Result<(), BenchError> {
        Ok(self.c.copy_from(&self.poison)?)
    }

    /// Every C, copy by copy.
    ///
    /// # Errors
    ///
    /// Any of the device, those of earlier launches among them.
    pub fn results(&self) -> Result<Results, BenchError> {
        let Buffers { strides: [.., stride], c_elements, .. } = *self;
        Ok(Results { numbers: self.c.download()?, stride, elements: c_elements })
    }
}

/// Every C of [`Buffers`] at one time.
#[derive(Debug)]
pub struct Results {
    numbers: Vec<f32>,
    stride: usize,
    elements: usize,
}

impl Results {
    /// The copies, each with the C of the whole batch.
    pub fn copies(&self) -> impl Iterator<Item = &[f32]> {
        // An empty C has no copies to look at.
        self.numbers.chunks(self.stride.max(1)).map(|copy| &copy[..self.elements])
    }

    /// The first copy.
    pub fn first(&self) -> &[f32] {
        &self.numbers[..self.elements]
    }

    /// Whether all copies have the same bits as `expected`.
    pub fn all_are(&self, expected: &[f32]) -> bool {
        // As integers: as floats, NaN differs from itself and 0 doesn't from -0.
        self.copies().all(|copy| bytemuck::cast_slice::<f32, u32>(copy) == bytemuck::cast_slice::<f32, u32>(expected))
    }
}

#[cfg(test)]
mod tests {
    use gpu_kernels::Precision;

    use super::*;
    use crate::device::DeviceSelector;

    #[test]
    fn small_problems_get_copies_beyond_the_cache_and_large_ones_a_single_one() {
        let l2 = 50 << 20;
        let copies = |size| copies(&Problem::square(size), l2);
        assert_eq!([256, 1024, 2048, 4096].map(copies), [134, 9, 3, 1]);
        assert_eq!(copies(1), MAX_COPIES);
        assert_eq!(super::copies(&Problem::square(256), 0), 1);
    }

    #[test]
    fn every_copy_holds_the_inputs_at_an_aligned_place_and_poison_for_a_result() {
        [Precision::F32, Precision::Bf16].into_iter().for_each(every_copy_of);
    }

    fn every_copy_of(precision: Precision) {
        let device = Device::open(DeviceSelector::Simulator).unwrap();
        let problem = Problem { batch: 2, ..Problem::new(3, 5, 7) }.of(precision);
        let bytes = problem.precision.factors().bytes();
        let inputs = Inputs::random(&problem, 1).unwrap();
        assert_eq!((inputs.a.len(), inputs.b.len()), (42, 70));
        let mut buffers = Buffers::new(&device, &problem, &inputs, 3).unwrap();
        buffers.poison().unwrap();
        let (a, b) = (buffers.a.download().unwrap(), buffers.b.download().unwrap());
        let mut places = Vec::new();
        for index in 0..6 {
            let mut copy = buffers.copy(index);
            let offsets = [copy.a.1, copy.b.1, copy.c.1];
            assert_eq!(a[offsets[0]..][..42], inputs.a[..]);
            assert_eq!(b[offsets[1]..][..70], inputs.b[..]);
            let aligned = offsets.iter().zip([bytes, bytes, 4]).all(|(offset, bytes)| offset * bytes % ALIGNMENT == 0);
            assert!(aligned && copy.views().is_ok());
            places.push(offsets);
        }
        assert!(places[..3] == places[3..] && places[0] != places[1] && places[1] != places[2]);
        let results = buffers.results().unwrap();
        assert_eq!((results.copies().count(), results.first().len()), (3, 30));
        assert!(results.all_are(&[f32::NAN; 30]) && !results.all_are(&[0.0; 30]));
    }

    #[test]
    fn inputs_of_bf16_are_those_of_f32_rounded() {
        let problem = Problem::square(40);
        let [numbers, halves] =
            [problem, problem.of(Precision::Bf16)].map(|problem| Inputs::random(&problem, 1).unwrap());
        let rounded = |numbers: &[f32]| numbers.iter().map(|number| nearest_factor(Precision::Bf16, *number)).collect();
        let (a, b): (Vec<f32>, Vec<f32>) = (rounded(&numbers.a), rounded(&numbers.b));
        assert!(halves.a == a && halves.b == b && halves.a != numbers.a);
    }

    #[test]
    fn inputs_are_the_same_for_the_same_seed_and_a_and_b_differ() {
        let problem = Problem::square(300);
        let [one, again, other] = [1, 1, 2].map(|seed| Inputs::random(&problem, seed).unwrap());
        assert!(one.a == again.a && one.b == again.b && one.a != one.b && one.a != other.a);
        let mean = one.a.iter().sum::<f32>() / one.a.len() as f32;
        let square = one.a.iter().map(|number| number * number).sum::<f32>() / one.a.len() as f32;
        assert!(mean.abs() < 0.02 && (square - 1.0).abs() < 0.02, "{mean} {square}");
    }

    #[test]
    fn more_than_there_is_memory_for_is_an_error() {
        let error = Inputs::random(&Problem::square(usize::MAX / 2), 1).unwrap_err();
        assert!(matches!(error, BenchError::HostMemory { .. }), "{error}");
    }
}
