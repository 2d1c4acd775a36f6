//! The matrices of a measurement: random, in device memory, in so many copies that no launch finds its own in a cache.

use std::str::FromStr;

use gpu_kernels::{Precision, launch::ElementType};
use rand::{RngExt, SeedableRng, rngs::ChaCha12Rng};
use rand_distr::{Distribution, StandardNormal};
use rayon::prelude::*;
use serde::{Serialize, Serializer};

use super::{
    BenchError,
    problem::{Operation, Problem},
};
use crate::{
    device::Device,
    gemm::{DeviceMatrix, FactorBuffer, GemmError, Operand, Output, nearest_factor},
    matrix,
    verify::{self, Order},
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

/// Of which kind the numbers in A and B are. How fast a product is hardly depends on it (how much power it takes does), but how
/// exact it is does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Numbers {
    /// Standard normal.
    #[default]
    Normal,
    /// Uniform from -1 to 1.
    Uniform,
    /// Uniform from 0 to 1: sums that grow with every product, as rounding does then.
    Positive,
    /// Of either sign, and as likely between any two neighbouring powers of two from 2^-30 to 2^30.
    Wide,
    /// Standard normal, but that the second half of every row of A takes back what the first half has added up, so that a
    /// thousandth of one or two products is left: rounding, which is as large as the halves make it, is large beside
    /// that.
    Cancelling,
}

/// Numbers that are [wide](Numbers::Wide) are between 2 to the power of minus that and 2 to the power of that.
const WIDE: f32 = 30.0;

/// What the elements of A that aren't taken back are multiplied with, so that sums [nearly cancel](Numbers::Cancelling). It's a
/// power of two, which changes no digits.
const LEFT: f32 = 1.0 / 1024.0;

impl Numbers {
    /// Every kind with its name.
    pub const ALL: [(&str, Numbers); 5] = [
        ("normal", Numbers::Normal),
        ("uniform", Numbers::Uniform),
        ("positive", Numbers::Positive),
        ("wide", Numbers::Wide),
        ("cancelling", Numbers::Cancelling),
    ];

    /// The name.
    pub fn name(self) -> &'static str {
        Numbers::ALL.iter().find(|(_, kind)| *kind == self).map_or("", |(name, _)| name)
    }

    /// Whether factors of a precision can hold all of them.
    pub fn fit(self, precision: Precision) -> bool {
        self != Numbers::Wide || precision.factors() != ElementType::F16
    }

    /// One of them, before any are taken back.
    fn draw(self, generator: &mut ChaCha12Rng) -> f32 {
        match self {
            Numbers::Normal | Numbers::Cancelling => StandardNormal.sample(generator),
            Numbers::Uniform => generator.random_range(-1.0..1.0),
            Numbers::Positive => generator.random(),
            Numbers::Wide => {
                let size = generator.random_range(-WIDE..WIDE).exp2();
                if generator.random() { size } else { -size }
            }
        }
    }

    /// The order of additions to allow for in a check of kernels of unknown orders, see [`verify::order_of_random`]: what is said
    /// there of partial sums doesn't hold for numbers that aren't alike or that don't cancel each other by chance.
    pub fn order(self, precision: Precision, k: usize) -> Order {
        match (self, verify::order_of_random(precision, k)) {
            (Numbers::Positive | Numbers::Wide | Numbers::Cancelling, Order::Ascending) => Order::Any,
            (_, order) => order,
        }
    }
}

impl FromStr for Numbers {
    type Err = String;

    fn from_str(text: &str) -> Result<Numbers, String> {
        let known = Numbers::ALL.iter().find(|(name, _)| *name == text).map(|(_, kind)| *kind);
        known.ok_or_else(|| {
            let names = Numbers::ALL.map(|(name, _)| name).join(", ");
            format!("'{}' is no kind of numbers: expected one of {names}", text.escape_debug())
        })
    }
}

impl Serialize for Numbers {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

/// Random matrices of a problem in host memory: all A of the batch, all B.
#[derive(Debug)]
pub struct Inputs {
    /// A, matrix by matrix.
    pub a: Vec<f32>,
    /// B, matrix by matrix.
    pub b: Vec<f32>,
    /// Of which kind they are.
    pub numbers: Numbers,
}

impl Inputs {
    /// Numbers of that kind, rounded to the elements of the problem's A and B, the same for the same problem and seed on every
    /// machine.
    ///
    /// # Errors
    ///
    /// [`BenchError::HostMemory`] if there isn't enough.
    pub fn random(problem: &Problem, numbers: Numbers, seed: u64) -> Result<Inputs, BenchError> {
        let [a, b, _] = problem.elements();
        let mut a = drawn(problem, numbers, a, seed, 0)?;
        let mut b = drawn(problem, numbers, b, seed, 1)?;
        if numbers == Numbers::Cancelling {
            let Problem { m, n, k, op_a, op_b, precision, .. } = *problem;
            take_back(&mut a, k, if op_a.is_transposed() { m } else { 1 }, -1.0);
            take_back(&mut b, k, if op_b.is_transposed() { 1 } else { n }, 1.0);
            // What is that small may have fewer digits.
            a.par_iter_mut().for_each(|number| *number = nearest_factor(precision, *number));
        }
        Ok(Inputs { a, b, numbers })
    }
}

/// So many numbers of a kind. Different `which` give different ones.
fn drawn(problem: &Problem, kind: Numbers, elements: u128, seed: u64, which: u64) -> Result<Vec<f32>, BenchError> {
    let mut numbers = filled(problem, elements, 0.0)?;
    numbers.par_chunks_mut(RUN).enumerate().for_each(|(index, run)| {
        let mut generator = ChaCha12Rng::seed_from_u64(seed);
        generator.set_stream(2 * index as u64 + which);
        run.fill_with(|| nearest_factor(problem.precision, kind.draw(&mut generator)));
    });
    Ok(numbers)
}

/// Repeats the first half along K, times `sign`, in the second half. What `sign` takes back is followed by one or two places
/// that aren't, and are made small. Every `width` numbers are of one place of K.
fn take_back(numbers: &mut [f32], k: usize, width: usize, sign: f32) {
    let half = k.saturating_sub(1) / 2;
    numbers.par_chunks_mut((k * width).max(1)).for_each(|all| {
        let (first, others) = all.split_at_mut(half * width);
        let (second, left) = others.split_at_mut(half * width);
        second.iter_mut().zip(first).for_each(|(number, first)| *number = sign * *first);
        if sign < 0.0 {
            left.iter_mut().for_each(|number| *number *= LEFT);
        }
    });
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
        let inputs = Inputs::random(&problem, Numbers::Normal, 1).unwrap();
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
            [problem, problem.of(Precision::Bf16)].map(|problem| Inputs::random(&problem, Numbers::Normal, 1).unwrap());
        let rounded = |numbers: &[f32]| numbers.iter().map(|number| nearest_factor(Precision::Bf16, *number)).collect();
        let (a, b): (Vec<f32>, Vec<f32>) = (rounded(&numbers.a), rounded(&numbers.b));
        assert!(halves.a == a && halves.b == b && halves.a != numbers.a);
    }

    #[test]
    fn inputs_are_the_same_for_the_same_seed_and_a_and_b_differ() {
        let problem = Problem::square(300);
        let [one, again, other] = [1, 1, 2].map(|seed| Inputs::random(&problem, Numbers::Normal, seed).unwrap());
        assert!(one.a == again.a && one.b == again.b && one.a != one.b && one.a != other.a);
        let mean = one.a.iter().sum::<f32>() / one.a.len() as f32;
        let square = one.a.iter().map(|number| number * number).sum::<f32>() / one.a.len() as f32;
        assert!(mean.abs() < 0.02 && (square - 1.0).abs() < 0.02, "{mean} {square}");
    }

    #[test]
    fn every_kind_of_numbers_is_what_its_name_says_and_no_other() {
        let problem = Problem::square(200);
        let of = |kind| Inputs::random(&problem, kind, 1).unwrap().a;
        let all = |numbers: &[f32], is: fn(f32) -> bool| numbers.iter().all(|number| is(*number));
        let some = |numbers: &[f32], is: fn(f32) -> bool| numbers.iter().any(|number| is(*number));
        let uniform = of(Numbers::Uniform);
        assert!(all(&uniform, |x| x.abs() <= 1.0) && some(&uniform, |x| x < -0.99) && some(&uniform, |x| x > 0.99));
        let positive = of(Numbers::Positive);
        assert!(all(&positive, |x| (0.0..1.0).contains(&x)) && some(&positive, |x| x > 0.99));
        let wide = of(Numbers::Wide);
        assert!(all(&wide, |x| (-WIDE..=WIDE).contains(&x.abs().log2())));
        let negative = wide.iter().filter(|number| **number < 0.0).count() as f64 / wide.len() as f64;
        assert!((negative - 0.5).abs() < 0.02, "{negative}");
        for order in (-30..30).step_by(10) {
            let there =
                wide.iter().filter(|number| (order..order + 10).contains(&(number.abs().log2().floor() as i32)));
            let share = there.count() as f64 / wide.len() as f64;
            assert!((share - 1.0 / 6.0).abs() < 0.02, "{share} from 2^{order} on");
        }
        for (name, kind) in Numbers::ALL {
            assert_eq!((name.parse(), kind.name()), (Ok(kind), name));
        }
        assert!("gaussian".parse::<Numbers>().unwrap_err().contains("normal, uniform, positive, wide, cancelling"));
        assert!(
            !Numbers::Wide.fit(Precision::F16)
                && Numbers::Wide.fit(Precision::F32Parts)
                && Numbers::Normal.fit(Precision::F16)
        );
    }

    #[test]
    fn of_sums_that_cancel_a_thousandth_of_a_product_or_two_is_left_however_the_matrices_lie() {
        let both = [Operation::AsStored, Operation::Transposed];
        for (op_a, op_b) in both.into_iter().flat_map(|op_a| both.map(|op_b| (op_a, op_b))) {
            for (k, precision) in
                [(1, Precision::F32), (2, Precision::F16), (31, Precision::F32), (64, Precision::Bf16)]
            {
                let problem = Problem { op_a, op_b, batch: 2, ..Problem::new(5, 7, k) }.of(precision);
                let Inputs { a, b, .. } = Inputs::random(&problem, Numbers::Cancelling, 3).unwrap();
                let a =
                    |i: usize, p: usize| f64::from(a[5 * k + if op_a.is_transposed() { p * 5 + i } else { i * k + p }]);
                let b =
                    |p: usize, j: usize| f64::from(b[7 * k + if op_b.is_transposed() { j * k + p } else { p * 7 + j }]);
                let half = (k - 1) / 2;
                for (i, j) in [(0, 0), (4, 6), (2, 3)] {
                    let products: Vec<f64> = (0..k).map(|p| a(i, p) * b(p, j)).collect();
                    let left: f64 = products[2 * half..].iter().sum();
                    let sum: f64 = (0..half).map(|p| products[p] + products[half + p]).sum();
                    assert!(sum == 0.0 && left != 0.0 && left.abs() < 20.0 / 1024.0, "{problem}: {sum} {left}");
                    assert!(products[..half].iter().all(|product| *product != 0.0));
                }
            }
        }
    }

    #[test]
    fn more_than_there_is_memory_for_is_an_error() {
        let error = Inputs::random(&Problem::square(usize::MAX / 2), Numbers::Normal, 1).unwrap_err();
        assert!(matches!(error, BenchError::HostMemory { .. }), "{error}");
    }
}
