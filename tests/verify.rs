//! The check itself can be trusted: it passes what f32 rounding allows and nothing else.

use gpu_kernels::Precision;
use host::{
    gemm::rounded,
    matrix,
    verify::{self, Order, check},
};
use ndarray::{Array2, array, s};
use proptest::prelude::*;

/// The product in f32 with fused multiply-adds along k, the arithmetic that the tolerance is for.
fn fused(a: &Array2<f32>, b: &Array2<f32>) -> Array2<f32> {
    Array2::from_shape_fn((a.nrows(), b.ncols()), |(row, column)| {
        a.row(row).iter().zip(b.column(column)).fold(0.0, |sum: f32, (&a, &b)| a.mul_add(b, sum))
    })
}

proptest! {
    #[test]
    fn what_f32_arithmetic_gives_passes(m in 1usize..6, n in 1usize..6, k in 0usize..300, exponent in -70i32..60, seed: u64) {
        let scale = 2f32.powi(exponent);
        let (a, b) = (matrix::random_normal(m, k, seed) * scale, matrix::random_normal(k, n, !seed) * scale);
        let verification = check(&fused(&a, &b), &a, &b);
        prop_assert!(verification.passed(), "{verification:?}");
    }

    #[test]
    fn one_product_left_out_fails(k in 1usize..300, seed: u64, left_out: prop::sample::Index) {
        let (a, b) = (matrix::random_normal(1, k, seed), matrix::random_normal(k, 1, !seed));
        let mut shortened = a.clone();
        let left_out = left_out.index(k);
        prop_assume!((a[(0, left_out)] * b[(left_out, 0)]).abs() > 1e-2);
        shortened[(0, left_out)] = 0.0;
        prop_assert!(!check(&fused(&shortened, &b), &a, &b).passed());
    }
}

/// alpha times the product in f32, of parts of K that are scaled before they are added.
fn scaled_parts(a: &Array2<f32>, b: &Array2<f32>, parts: usize, alpha: f32) -> Array2<f32> {
    let k = a.ncols();
    let part = |part: usize| {
        let range = part * k / parts..(part + 1) * k / parts;
        let columns = a.slice(s![.., range.clone()]).to_owned();
        fused(&columns, &b.slice(s![range, ..]).to_owned()).mapv(|sum| alpha * sum)
    };
    (1..parts).map(part).fold(part(0), |sum, part| sum + part)
}

proptest! {
    #[test]
    fn parts_that_are_scaled_before_they_are_added_pass(
        k in 1usize..60, parts in 1usize..9, exponent in prop::sample::select(vec![-149i32, -140, -126, 0, 1, 120, 126, 127]), seed: u64
    ) {
        // As large a number as there is with that exponent.
        let alpha = 2f64.powi(exponent) as f32 * if exponent > 0 { 1.9 } else { 1.0 };
        let (a, b) = (matrix::random_normal(4, k, seed), matrix::random_normal(k, 4, !seed));
        let additions = k.div_ceil(parts) + parts;
        let reference = verify::reference_in(Order::Parts(additions), a.view(), b.view()).scaled(alpha, 0.0, None);
        let verification = verify::compare(scaled_parts(&a, &b, parts, alpha).view(), &reference);
        prop_assert!(verification.passed(), "{alpha}: {verification:?}");
    }

    #[test]
    fn a_half_that_is_added_to_c_before_the_other_passes(k in 2usize..60, exponent in -60i32..20, seed: u64) {
        let alpha = 1.1 * 2f32.powi(exponent);
        let (a, b, c) =
            (matrix::random_normal(4, k, seed), matrix::random_normal(k, 4, !seed), matrix::random_normal(4, 4, seed ^ 5));
        let half = |range: std::ops::Range<usize>| {
            fused(&a.slice(s![.., range.clone()]).to_owned(), &b.slice(s![range, ..]).to_owned()).mapv(|sum| alpha * sum)
        };
        let mut sum = half(0..k / 2);
        sum.zip_mut_with(&c, |sum, c| *sum = c.mul_add(0.7, *sum));
        sum += &half(k / 2..k);
        let reference = verify::reference_in(Order::Parts(k), a.view(), b.view()).scaled(alpha, 0.7, Some(c.view()));
        let verification = verify::compare(sum.view(), &reference);
        prop_assert!(verification.passed(), "{alpha}: {verification:?}");
    }
}

/// A number cut off to a multiple of the last place of an f32 as large as `like`.
fn cut(number: f64, like: f64) -> f64 {
    if like == 0.0 || !number.is_finite() {
        return number;
    }
    let exponent = (like.abs().to_bits() >> 52) as i32 - 1023;
    let last_place = 2f64.powi((exponent - 23).max(-149));
    (number / last_place).trunc() * last_place
}

/// The product as tensor cores form it that add `at_once` products and the sum so far, each cut off to the last place of
/// the largest, and cut off the sum.
fn truncated(a: &Array2<f32>, b: &Array2<f32>, at_once: usize) -> Array2<f32> {
    Array2::from_shape_fn((a.nrows(), b.ncols()), |(row, column)| {
        let products: Vec<f64> =
            a.row(row).iter().zip(b.column(column)).map(|(&a, &b)| f64::from(a) * f64::from(b)).collect();
        products.chunks(at_once).fold(0.0, |sum: f64, products| {
            let terms = || products.iter().copied().chain([sum]);
            let largest = terms().fold(0.0, |largest: f64, term| largest.max(term.abs()));
            let sum: f64 = terms().map(|term| cut(term, largest)).sum();
            cut(sum, sum)
        }) as f32
    })
}

/// The comparison for tensor cores, with matrices of bf16.
fn check_tensor_cores(c: &Array2<f32>, a: &Array2<f32>, b: &Array2<f32>) -> verify::Verification {
    verify::check_in(Order::TensorCores, c, a, b)
}

fn halves(rows: usize, columns: usize, seed: u64) -> Array2<f32> {
    rounded(Precision::Bf16, matrix::random_normal(rows, columns, seed))
}

proptest! {
    #[test]
    fn what_tensor_cores_give_passes(m in 1usize..6, n in 1usize..6, k in 0usize..600, positive: bool, exponent in -60i32..60, seed: u64) {
        let sign = |matrix: Array2<f32>| if positive { matrix.mapv(f32::abs) } else { matrix };
        let (a, b) = (sign(halves(m, k, seed)) * 2f32.powi(exponent), sign(halves(k, n, !seed)) * 2f32.powi(exponent));
        for at_once in [4, 8, 16] {
            let verification = check_tensor_cores(&truncated(&a, &b, at_once), &a, &b);
            prop_assert!(verification.passed(), "{at_once} at once: {verification:?}");
        }
        prop_assert!(check_tensor_cores(&fused(&a, &b), &a, &b).passed());
    }

    #[test]
    fn one_product_of_tensor_cores_left_out_fails(k in 1usize..600, seed: u64, left_out: prop::sample::Index) {
        let (a, b) = (halves(1, k, seed), halves(k, 1, !seed));
        let mut shortened = a.clone();
        let left_out = left_out.index(k);
        prop_assume!((a[(0, left_out)] * b[(left_out, 0)]).abs() > 2e-1);
        shortened[(0, left_out)] = 0.0;
        prop_assert!(!check_tensor_cores(&truncated(&shortened, &b, 8), &a, &b).passed());
    }
}

#[test]
fn a_long_sum_of_one_sign_passes_with_what_is_cut_off_and_not_with_more() {
    // All of one sign, so that what is cut off adds up.
    let (a, b) = (halves(4, 4096, 1).mapv(f32::abs), halves(4096, 4, 2).mapv(f32::abs));
    let c = truncated(&a, &b, 4);
    assert!(check_tensor_cores(&c, &a, &b).passed());
    let c = c.mapv(|sum| sum * (1.0 - 2e-3));
    assert!(!check_tensor_cores(&c, &a, &b).passed());
}

#[test]
fn the_tolerance_of_the_main_job_is_far_tighter_than_the_lessons_bar() {
    let (a, b) = (matrix::random_normal(64, 1024, 42), matrix::random_normal(1024, 64, 43));
    let reference = verify::reference(a.view(), b.view());
    let largest = reference.tolerance.iter().fold(0.0, |largest: f64, &tolerance| largest.max(tolerance));
    assert!(largest < verify::LESSON_BAR / 2.0, "{largest}");
}

#[test]
fn a_nan_or_infinity_in_the_wrong_place_fails() {
    let (a, b) = (array![[1.0f32, 2.0]], array![[3.0f32], [4.0]]);
    for wrong in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
        let verification = check(&array![[wrong]], &a, &b);
        assert_eq!(verification.wrong, 1);
        assert!(verification.max_difference.is_nan());
        assert!(!verification.under(verify::LESSON_BAR));
    }
    assert!(check(&array![[11.0]], &a, &b).passed());
}

#[test]
fn a_finite_result_where_the_product_is_not_finite_fails() {
    let b = array![[1.0f32], [0.0]];
    assert!(!check(&array![[1.0]], &array![[f32::NAN, 1.0]], &b).passed());
    assert!(!check(&array![[f32::NEG_INFINITY]], &array![[f32::INFINITY, 1.0]], &b).passed());
    assert!(check(&array![[f32::INFINITY]], &array![[f32::INFINITY, 1.0]], &b).passed());
}

#[test]
fn infinity_from_finite_inputs_passes_only_where_f32_can_overflow() {
    let large = array![[f32::MAX, f32::MAX]];
    assert!(check(&array![[f32::INFINITY]], &large, &array![[1.0], [1.0]]).passed());
    assert!(!check(&array![[f32::INFINITY]], &(large * 1e-30), &array![[1.0], [1.0]]).passed());
}

#[test]
fn an_overflow_before_an_infinity_arrives_may_make_a_nan() {
    // In f32 the first product overflows to -infinity, and adding infinity makes a NaN; in exact arithmetic the sum is
    // infinity.
    let (a, b) = (array![[3e38f32, f32::INFINITY]], array![[-3.0f32], [1.0]]);
    assert!(fused(&a, &b)[(0, 0)].is_nan());
    assert!(check(&fused(&a, &b), &a, &b).passed());
    assert!(!check(&array![[1.0]], &a, &b).passed());
    // Without the overflow a NaN is wrong.
    assert!(!check(&array![[f32::NAN]], &array![[3.0f32, f32::INFINITY]], &b).passed());
}

#[test]
fn an_empty_product_passes() {
    let verification = check(&Array2::zeros((0, 3)), &Array2::zeros((0, 5)), &Array2::zeros((5, 3)));
    assert!(verification.passed() && verification.elements == 0);
}

#[test]
fn a_batch_is_as_wrong_as_its_worst_product_which_is_named() {
    let a = matrix::random_normal(4, 6, 1);
    let b = matrix::random_normal(6, 5, 2);
    let right = verify::reference(a.view(), b.view()).product.mapv(|element| element as f32);
    let mut wrong = right.clone();
    wrong[(3, 2)] += 1.0;
    let products = [&right, &wrong, &right].map(|product| verify::check(product, &a, &b));
    let batch = verify::Verification::of_batch(products);
    assert_eq!((batch.elements, batch.wrong, batch.worst_element().as_deref()), (60, 1, Some("C[1, 3, 2]")));
    assert!(!batch.passed() && (batch.max_difference - 1.0).abs() < 1e-3);
    let none = verify::Verification::of_batch([]);
    assert!(none.passed() && none.elements == 0 && none.worst_element().is_none());
}
