//! Are the products right? Every contender's, cuBLAS's too, before it is timed.
//!
//! Of small products every element is compared with an f64 reference. Of larger ones it's those in some rows and some
//! columns: one row, chosen at random, of every so many, and one column likewise, with the last row and the last column
//! among them, so that every tile of C that is at least as large as that has elements that are compared. That an element
//! was written at all is looked at everywhere.

use ndarray::{Array2, ArrayView2, Axis};
use rand::{RngExt, SeedableRng, rngs::ChaCha12Rng};
use serde::Serialize;

use super::{
    data::Inputs,
    problem::{Operation, Problem},
};
use crate::verify::{self, Reference};

/// Multiply-adds that a reference may take, all products of a batch together.
const CHECKED_MULTIPLY_ADDS: u128 = 1 << 30;

/// The elements of C that are compared, with what they should be.
#[derive(Debug)]
pub struct Samples {
    rows: Vec<usize>,
    columns: Vec<usize>,
    /// One for each product of the batch.
    references: Vec<Reference>,
}

/// What a comparison says.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Check {
    /// Elements compared.
    pub elements: usize,
    /// Elements further from the reference than the arithmetic's rounding can bring them, or not finite.
    pub wrong: usize,
    /// Elements that nobody has written, of all.
    pub unwritten: usize,
    /// The largest |difference|.
    pub max_error: f64,
    /// The root of the mean of the squared differences.
    pub rms_error: f64,
    /// The same by that of the product's elements: the difference's Frobenius norm by the product's.
    pub relative_error: f64,
    /// The largest |difference| as a share of what rounding allows for that element.
    pub share_of_bound: f64,
}

impl Check {
    /// Whether everything is right.
    pub fn passed(&self) -> bool {
        self.wrong == 0 && self.unwritten == 0
    }
}

impl Samples {
    /// Chooses elements of a problem's C and computes what they should be.
    pub fn new(problem: &Problem, inputs: &Inputs, seed: u64) -> Samples {
        let Problem { m, n, k, op_a, op_b, batch, precision, .. } = *problem;
        let budget = CHECKED_MULTIPLY_ADDS / (k as u128 * batch as u128).max(1);
        let (row_count, column_count) = grid(m, n, budget);
        let mut generator = ChaCha12Rng::seed_from_u64(seed);
        let mut choose = |of, count| strata(of, count, |range: std::ops::Range<usize>| generator.random_range(range));
        let (rows, columns) = (choose(m, row_count), choose(n, column_count));
        let reference = |index: usize| {
            let a = matrix(&inputs.a[index * m * k..][..m * k], op_a, m, k).select(Axis(0), &rows);
            let b = matrix(&inputs.b[index * k * n..][..k * n], op_b, k, n).select(Axis(1), &columns);
            let [a, b] = [a, b].map(|matrix| matrix.as_standard_layout().into_owned());
            verify::reference_in(inputs.numbers.order(precision, k), a.view(), b.view()).rounded_to(problem.output())
        };
        let references = (0..batch).map(reference).collect();
        Samples { rows, columns, references }
    }

    /// Compares the C of a whole batch, `m` x `n` each, matrix by matrix.
    ///
    /// # Panics
    ///
    /// If `results` are not so many.
    pub fn check(&self, problem: &Problem, results: &[f32]) -> Check {
        let Problem { m, n, .. } = *problem;
        let unwritten = results.iter().filter(|element| element.is_nan()).count();
        let mut check = Check {
            elements: 0,
            wrong: 0,
            unwritten,
            max_error: 0.0,
            rms_error: 0.0,
            relative_error: 0.0,
            share_of_bound: 0.0,
        };
        let (mut squares, mut all) = (0.0, 0.0);
        for (results, reference) in results.chunks(m * n).zip(&self.references) {
            let results = matrix(results, Operation::AsStored, m, n);
            let results = results.select(Axis(0), &self.rows).select(Axis(1), &self.columns);
            let verification = verify::compare(results.view(), reference);
            check.elements += verification.elements;
            check.wrong += verification.wrong;
            check.max_error = larger(check.max_error, verification.max_difference);
            check.share_of_bound = larger(check.share_of_bound, verification.max_ratio);
            squares += squared_differences(&results, &reference.product);
            all += reference.product.iter().map(|exact| exact * exact).sum::<f64>();
        }
        check.rms_error = (squares / check.elements.max(1) as f64).sqrt();
        // Nothing but zeros is right or infinitely wrong.
        check.relative_error = if squares == 0.0 { 0.0 } else { (squares / all).sqrt() };
        check
    }
}

/// The larger number; NaN is larger than any.
fn larger(old: f64, new: f64) -> f64 {
    if old.is_nan() || new.is_nan() { f64::NAN } else { old.max(new) }
}

fn squared_differences(results: &Array2<f32>, exact: &Array2<f64>) -> f64 {
    results.iter().zip(exact).map(|(result, exact)| (f64::from(*result) - exact).powi(2)).sum()
}

/// Numbers in memory as the matrix that is meant, `rows` x `columns`.
fn matrix(numbers: &[f32], operation: Operation, rows: usize, columns: usize) -> ArrayView2<'_, f32> {
    let view =
        ArrayView2::from_shape(operation.stored(rows, columns), numbers).expect("the matrix has this many elements");
    if operation.is_transposed() { view.reversed_axes() } else { view }
}

/// How many of `m` rows and of `n` columns to look at so that they cross at `elements` places or fewer, if that is at
/// least one.
fn grid(m: usize, n: usize, elements: u128) -> (usize, usize) {
    let elements = elements.max(1);
    if m as u128 * n as u128 <= elements {
        return (m, n);
    }
    let fewer = |count: u128, of: usize| usize::try_from(count).map_or(of, |count| count.clamp(1, of));
    // As many rows as columns; what a short side leaves over goes to the other.
    let rows = fewer(elements.isqrt(), m);
    let columns = fewer(elements / rows as u128, n);
    (fewer(elements / columns as u128, m), columns)
}

/// `count` of the numbers below `of`, ascending: the last, and one of each of so many equal parts.
fn strata(of: usize, count: usize, mut choose: impl FnMut(std::ops::Range<usize>) -> usize) -> Vec<usize> {
    let mut chosen: Vec<usize> = (0..count)
        .map(|index| {
            let edge = |index: usize| (index as u128 * of as u128 / count as u128) as usize;
            choose(edge(index)..edge(index + 1))
        })
        .collect();
    if let Some(last) = chosen.last_mut() {
        *last = of - 1;
    }
    chosen
}

#[cfg(test)]
mod tests {
    use gpu_kernels::Precision;

    use super::*;
    use crate::bench::data::Numbers;

    /// The products of a problem in f32, computed plainly.
    fn multiply(problem: &Problem, inputs: &Inputs) -> Vec<f32> {
        let Problem { m, n, k, op_a, op_b, batch, .. } = *problem;
        let product = |index: usize| {
            let a = matrix(&inputs.a[index * m * k..][..m * k], op_a, m, k);
            let b = matrix(&inputs.b[index * k * n..][..k * n], op_b, k, n);
            let element = |(i, j)| (0..k).fold(0.0, |sum, p| a[(i, p)].mul_add(b[(p, j)], sum));
            Array2::from_shape_fn((m, n), element).into_raw_vec_and_offset().0
        };
        (0..batch).flat_map(product).collect()
    }

    #[test]
    fn right_products_pass_and_a_wrong_or_unwritten_element_does_not() {
        let transposed = [Operation::AsStored, Operation::Transposed];
        for (op_a, op_b) in transposed.into_iter().flat_map(|op_a| transposed.map(|op_b| (op_a, op_b))) {
            let problem = Problem { op_a, op_b, batch: 3, ..Problem::new(5, 7, 11) };
            let inputs = Inputs::random(&problem, Numbers::Normal, 3).unwrap();
            let samples = Samples::new(&problem, &inputs, 3);
            let mut results = multiply(&problem, &inputs);
            let check = samples.check(&problem, &results);
            assert!(check.passed() && check.elements == 105, "{problem}: {check:?}");
            assert!(check.rms_error > 0.0 && check.rms_error <= check.max_error && check.share_of_bound <= 1.0);
            results[2 * 35 + 9] += 1e-3;
            let check = samples.check(&problem, &results);
            assert!(!check.passed() && check.wrong == 1 && check.unwritten == 0, "{check:?}");
            results[104] = f32::NAN;
            let check = samples.check(&problem, &results);
            assert_eq!((check.wrong, check.unwritten), (2, 1));
        }
    }

    #[test]
    fn right_products_of_every_kind_of_numbers_pass_in_whatever_order_they_are_added_up() {
        for (name, numbers) in Numbers::ALL {
            for k in [40, 700] {
                let problem = Problem::new(12, 10, k);
                let inputs = Inputs::random(&problem, numbers, 3).unwrap();
                let samples = Samples::new(&problem, &inputs, 3);
                let term = |i: usize, p: usize, j: usize| inputs.a[i * k + p] * inputs.b[p * 10 + j];
                // Backwards, and in seven interleaved parts.
                let backwards = |i, j| (0..k).rev().fold(0.0f32, |sum, p| sum + term(i, p, j));
                let part = |i, j, first| (first..k).step_by(7).fold(0.0f32, |sum, p| sum + term(i, p, j));
                let in_parts = |i, j| (0..7).map(|first| part(i, j, first)).sum::<f32>();
                let ways: [&dyn Fn(usize, usize) -> f32; 2] = [&backwards, &in_parts];
                for way in ways {
                    let results: Vec<f32> = (0..120).map(|element| way(element / 10, element % 10)).collect();
                    let check = samples.check(&problem, &results);
                    assert!(check.passed(), "{name}, k = {k}: {check:?}");
                    let most = if numbers == Numbers::Cancelling { 0.1 } else { 1e-5 };
                    assert!(check.relative_error > 0.0 && check.relative_error < most, "{name}, k = {k}: {check:?}");
                }
            }
        }
    }

    #[test]
    fn the_relative_error_is_that_of_all_elements_together() {
        let problem = Problem::new(1, 2, 1);
        let inputs = Inputs { a: vec![1.0], b: vec![3.0, 4.0], numbers: Numbers::Normal };
        let check = Samples::new(&problem, &inputs, 1).check(&problem, &[3.0, 4.5]);
        assert!((check.relative_error - 0.1).abs() < 1e-12 && check.max_error == 0.5, "{check:?}");
        let zeros = Inputs { a: vec![0.0], ..inputs };
        assert_eq!(Samples::new(&problem, &zeros, 1).check(&problem, &[0.0; 2]).relative_error, 0.0);
        assert_eq!(Numbers::Wide.order(Precision::F32, 4096), verify::Order::Any);
        assert_eq!(Numbers::Wide.order(Precision::Bf16, 4096), verify::Order::TensorCores);
    }

    #[test]
    fn an_element_that_nobody_wrote_shows_even_where_nothing_is_compared() {
        let problem = Problem::new(2, 2, 1);
        let inputs = Inputs { a: vec![1.0, 2.0], b: vec![3.0, 4.0], numbers: Numbers::Normal };
        let references =
            vec![verify::reference(Array2::from_elem((1, 1), 2.0).view(), Array2::from_elem((1, 1), 4.0).view())];
        let samples = Samples { rows: vec![1], columns: vec![1], references };
        assert!(samples.check(&problem, &multiply(&problem, &inputs)).passed());
        assert!(!samples.check(&problem, &[3.0, 4.0, f32::NAN, 8.0]).passed());
    }

    #[test]
    fn of_large_products_every_tile_has_elements_that_are_compared_and_so_has_the_last_row() {
        let (rows, columns) = grid(16384, 16384, CHECKED_MULTIPLY_ADDS / 16384);
        assert_eq!((rows, columns), (256, 256));
        let chosen = strata(16384, rows, |range| range.start + range.len() / 3);
        for tile in 0..128 {
            assert!(chosen.iter().any(|row| row / 128 == tile));
        }
        assert_eq!(chosen.last(), Some(&16383));
        assert!(chosen.is_sorted());
    }

    #[test]
    fn no_more_elements_are_compared_than_were_asked_for_and_a_short_side_is_taken_whole() {
        assert_eq!(grid(10, 10, 100), (10, 10));
        assert_eq!(grid(16, 8192, 131_071), (16, 8191));
        assert_eq!(grid(8192, 16, 65_536), (4096, 16));
        for (m, n, elements) in [(7, 1000, 50), (1000, 7, 50), (3, 3, 0), (1 << 20, 1 << 20, 12_345)] {
            let (rows, columns) = grid(m, n, elements);
            assert!(rows * columns <= elements.max(1) as usize && rows > 0 && columns > 0, "{m} {n}: {rows} {columns}");
        }
        assert_eq!(strata(5, 5, |range| range.start), [0, 1, 2, 3, 4]);
        assert!(strata(0, 0, |range| range.start).is_empty());
    }
}
