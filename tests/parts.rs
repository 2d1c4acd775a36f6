//! Products of f32 on tensor cores (`fp32-tc`) are as exact as f32's own, whatever the numbers are.

mod common;

use gpu_kernels::Precision;
use host::{
    gemm::{Gemm, HostProduct},
    kernels,
};
use ndarray::{Array2, ArrayView2};
use proptest::prelude::*;
use rand::{RngExt, SeedableRng, rngs::ChaCha12Rng};
use rand_distr::{Distribution, StandardNormal};

/// Families whose warpgroups share a tile's rows, which scale sums at the end if they can, alone or in clusters, or take turns along k, in one block or in
/// two.
const FAMILIES: [&str; 8] = [
    "128x64_fp32-tc",
    "128x128_fp32-tc",
    "128x192_fp32-tc",
    "2x128x128_fp32-tc",
    "2x128x192_fp32-tc",
    "64x128_fp32-tc",
    "64x64_fp32-tc",
    "64x64x2_fp32-tc",
];

/// C = A B in parts where the device can, whether it pays or not, and the name of the kernel.
fn product_in_parts(gemm: &Gemm, a: ArrayView2<'_, f32>, b: ArrayView2<'_, f32>) -> (Array2<f32>, &'static str) {
    product_of(FAMILIES[0], gemm, a, b)
}

/// The same with the kernels of a family.
fn product_of(
    family: &str,
    gemm: &Gemm,
    a: ArrayView2<'_, f32>,
    b: ArrayView2<'_, f32>,
) -> (Array2<f32>, &'static str) {
    let family = kernels::by_name(family).unwrap();
    if !common::runs(gemm.device(), family.any()) {
        return product(gemm, a, b);
    }
    let product = HostProduct { precision: Precision::F32Parts, ..HostProduct::new(a, b) };
    let computed = gemm.compute(&product, Some(family)).unwrap();
    assert!(computed.plan.kernel.name.contains("parts"));
    (computed.c.index_axis_move(ndarray::Axis(0), 0), computed.plan.kernel.name)
}

/// C = A B as the library does it, and the name of the kernel.
fn product(gemm: &Gemm, a: ArrayView2<'_, f32>, b: ArrayView2<'_, f32>) -> (Array2<f32>, &'static str) {
    let product = HostProduct { precision: Precision::F32Parts, ..HostProduct::new(a, b) };
    let computed = gemm.compute(&product, None).unwrap();
    (computed.c.index_axis_move(ndarray::Axis(0), 0), computed.plan.kernel.name)
}

/// C = A B by multiply-adds along k, as f32 has it.
fn chain(a: &Array2<f32>, b: &Array2<f32>) -> Array2<f32> {
    Array2::from_shape_fn((a.nrows(), b.ncols()), |(i, j)| {
        a.row(i).iter().zip(b.column(j)).fold(0.0f32, |sum, (x, y)| x.mul_add(*y, sum))
    })
}

/// The error's Frobenius norm by that of the product, from f64.
fn error(c: &Array2<f32>, a: &Array2<f32>, b: &Array2<f32>) -> f64 {
    let exact = a.mapv(f64::from).dot(&b.mapv(f64::from));
    let squares = |values: Array2<f64>| values.mapv(|x| x * x).sum();
    (squares(c.mapv(f64::from) - &exact) / squares(exact)).sqrt()
}

fn matrix(
    rows: usize,
    columns: usize,
    seed: u64,
    mut number: impl FnMut(&mut ChaCha12Rng, usize, usize) -> f32,
) -> Array2<f32> {
    let mut random = ChaCha12Rng::seed_from_u64(seed);
    Array2::from_shape_fn((rows, columns), |(i, j)| number(&mut random, i, j))
}

fn gemms() -> Vec<Gemm> {
    common::devices().into_iter().map(Gemm::new).collect()
}

fn normal(random: &mut ChaCha12Rng) -> f32 {
    StandardNormal.sample(random)
}

/// A number of one of 2 `orders` + 1 powers of two, of either sign.
fn wild(random: &mut ChaCha12Rng, orders: f32) -> f32 {
    random.random_range(-orders..orders).exp2() * if random.random() { 1.0 } else { -1.0 }
}

/// An error that no long sum is needed for: two roundings in the last place.
const LITTLE: f64 = 2.5e-7;

#[test]
fn the_error_is_that_of_f32_or_less_for_numbers_of_all_kinds() {
    type Number = fn(&mut ChaCha12Rng, usize, usize) -> f32;
    let kinds: [(&str, Number, Number); 12] = [
        ("normal", |r, _, _| normal(r), |r, _, _| normal(r)),
        ("positive", |r, _, _| r.random(), |r, _, _| r.random()),
        ("tiny by huge", |r, _, _| 1e-36 * normal(r), |r, _, _| 1e36 * normal(r)),
        ("subnormal", |r, _, _| 1e-40 * normal(r), |r, _, _| 1e30 * normal(r)),
        ("of 60 orders", |r, _, _| wild(r, 30.0), |r, _, _| wild(r, 30.0)),
        (
            "of rows and columns of their own size",
            |r, i, _| (i as f32 % 40.0 - 20.0).exp2() * normal(r),
            |r, _, j| (j as f32 % 50.0 - 25.0).exp2() * normal(r),
        ),
        (
            "inversely scaled along k",
            |r, _, k| (k as f32 * 7.0 % 60.0 - 30.0).exp2() * normal(r),
            |r, k, _| (30.0 - k as f32 * 7.0 % 60.0).exp2() * normal(r),
        ),
        // Blocks of 128 along k whose scales differ from the one before's, in some lines only.
        (
            "scaled by block",
            |r, i, k| if i % 5 == 0 { (k as f32 / 128.0).floor() * 5.0 % 17.0 - 8.0 } else { 0.0 }.exp2() * normal(r),
            |r, k, j| if j % 7 == 3 { 9.0 - (k as f32 / 128.0).floor() * 3.0 } else { 0.0 }.exp2() * normal(r),
        ),
        (
            "with blocks of zeros",
            |r, i, k| if i % 3 == 0 && (k / 128) % 3 == 1 { 0.0 } else { normal(r) },
            |r, k, j| if j == 5 && k < 256 { 0.0 } else { normal(r) },
        ),
        // The first 32 numbers of a line are what its scale is guessed from.
        (
            "beginning small",
            |r, i, k| if i % 2 == 0 && k < 32 { 0.03 } else { 1.0 } * normal(r),
            |r, k, _| if k < 32 { 0.1 } else { 1.0 } * normal(r),
        ),
        (
            "beginning large",
            |r, i, k| if k < 32 { (i as f32 % 3.0).exp2() } else { 1.0 } * normal(r),
            |r, k, j| if k < 32 { (j as f32 % 4.0).exp2() } else { 1.0 } * normal(r),
        ),
        ("with zeros", |r, _, _| if r.random() { 0.0 } else { normal(r) }, |r, _, _| normal(r)),
    ];
    for gemm in gemms() {
        for (name, x, y) in kinds {
            for k in [64, 200, 1000] {
                let (a, b) = (matrix(70, k, 1, x), matrix(k, 66, 2, y));
                let chains = error(&chain(&a, &b), &a, &b);
                for family in FAMILIES {
                    let (c, _) = product_of(family, &gemm, a.view(), b.view());
                    let own = error(&c, &a, &b);
                    assert!(own <= chains.max(LITTLE), "{family}, {name}, k = {k}: {own:e}, a chain has {chains:e}");
                }
            }
        }
    }
}

#[test]
fn infinities_and_nans_are_where_f32_has_them() {
    for gemm in gemms() {
        for special in [f32::INFINITY, f32::NEG_INFINITY, f32::NAN, f32::MAX] {
            let (mut a, b) = (matrix(20, 130, 3, |r, _, _| normal(r)), matrix(130, 20, 4, |r, _, _| normal(r)));
            a[[7, 100]] = special;
            let (c, _) = product_in_parts(&gemm, a.view(), b.view());
            for (own, f32s) in c.iter().zip(&chain(&a, &b)) {
                let alike = if f32s.is_finite() {
                    own.is_finite()
                } else {
                    own.is_nan() == f32s.is_nan() && (own == f32s || own.is_nan())
                };
                assert!(alike, "{special}: {own} for {f32s}");
            }
        }
    }
}

#[test]
fn what_one_product_has_found_suspect_the_next_one_has_forgotten() {
    for gemm in gemms() {
        let (a, b) = (matrix(64, 128, 5, |r, _, _| normal(r)), matrix(128, 64, 6, |r, _, _| normal(r)));
        let wilder = matrix(64, 128, 7, |r, _, _| wild(r, 30.0));
        let first = product_in_parts(&gemm, a.view(), b.view()).0;
        product_in_parts(&gemm, wilder.view(), b.view());
        assert_eq!(product_in_parts(&gemm, a.view(), b.view()).0, first);
    }
}

#[test]
fn a_batch_is_computed_at_once_and_one_that_is_suspect_spoils_none() {
    for gemm in gemms() {
        let family = kernels::by_name(FAMILIES[2]).unwrap();
        if !common::runs(gemm.device(), family.any()) {
            continue;
        }
        for wilder in [None, Some(2)] {
            let factors: Vec<_> = (0..4)
                .map(|at| match wilder == Some(at) {
                    true => matrix(70, 200, 20, |r, _, _| wild(r, 30.0)),
                    false => matrix(70, 200, 10 + at, |r, _, _| normal(r)),
                })
                .collect();
            let shared = matrix(200, 67, 9, |r, _, _| normal(r));
            let views: Vec<_> = factors.iter().map(|factor| factor.view()).collect();
            let a = ndarray::stack(ndarray::Axis(0), &views).unwrap();
            let b = shared.view().insert_axis(ndarray::Axis(0));
            let c = ndarray::Array3::from_elem((4, 70, 67), 1.0);
            let product = HostProduct {
                alpha: 2.0,
                beta: -1.0,
                c: Some(c.view()),
                a: a.view(),
                b,
                precision: Precision::F32Parts,
            };
            let computed = gemm.compute(&product, Some(family)).unwrap();
            for (factor, own) in factors.iter().zip(computed.c.outer_iter()) {
                let halved = own.mapv(|x| (x + 1.0) / 2.0);
                let (own, chains) = (error(&halved, factor, &shared), error(&chain(factor, &shared), factor, &shared));
                // C, which is added, is one more rounding.
                assert!(own <= 1.1 * chains.max(LITTLE), "{own:e}, a chain has {chains:e}");
            }
        }
    }
}

#[test]
fn short_sums_are_computed_in_f32() {
    for gemm in gemms() {
        // So large that only the length of the sums is a reason.
        let (a, b) = (matrix(1024, 191, 8, |r, _, _| normal(r)), matrix(191, 1024, 9, |r, _, _| normal(r)));
        let (c, kernel) = product(&gemm, a.view(), b.view());
        assert!(!kernel.contains("parts"), "{kernel}");
        assert!(error(&c, &a, &b) < LITTLE);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn any_shape_is_right(m in 1usize..200, n in 1usize..200, k in 64usize..400, transposed in any::<[bool; 2]>(), seed in any::<u64>()) {
        for gemm in gemms() {
            let shape = |rows, columns, transposed| if transposed { (columns, rows) } else { (rows, columns) };
            let (a_shape, b_shape) = (shape(m, k, transposed[0]), shape(k, n, transposed[1]));
            let a = matrix(a_shape.0, a_shape.1, seed, |r, _, _| normal(r));
            let b = matrix(b_shape.0, b_shape.1, seed + 1, |r, _, _| normal(r));
            let a = if transposed[0] { a.t() } else { a.view() };
            let b = if transposed[1] { b.t() } else { b.view() };
            let (c, kernel) = product_in_parts(&gemm, a, b);
            prop_assert!(error(&c, &a.to_owned(), &b.to_owned()) < 2.0 * LITTLE, "{kernel}");
        }
    }
}

#[test]
fn blocks_take_one_tile_after_the_other_alone_and_in_clusters() {
    for gemm in gemms() {
        // Three tiles for some of the blocks, or clusters of two, of a GPU with 132 multiprocessors, the last ones not whole.
        for (family, [rows, columns], at_once) in
            [("2x128x128_fp32-tc", [256, 128], 66), ("64x128_fp32-tc", [64, 128], 132)]
        {
            for (k, is_suspect) in [(100, false), (100, true), (384, false)] {
                let mut a = matrix(rows - 3, k, 1, |r, _, _| normal(r));
                let b = matrix(k, columns * 2 * at_once + 1, 2, |r, _, _| normal(r));
                if is_suspect {
                    a[[0, 0]] = f32::powi(2.0, 70);
                }
                let (c, _) = product_of(family, &gemm, a.view(), b.view());
                let error = error(&c, &a, &b);
                assert!(error < 4e-7, "{error:e} of {family} with K = {k} on {}", gemm.device().info().name);
            }
        }
    }
}

#[test]
fn blocks_that_share_tiles_give_each_other_their_sums_tile_after_tile() {
    let normal = |random: &mut ChaCha12Rng, _: usize, _: usize| -> f32 { StandardNormal.sample(random) };
    for gemm in gemms() {
        // Three tiles for some of the clusters of a GPU with 132 multiprocessors; of one block of numbers along k, of which one of two blocks has none, and
        // of three.
        for (k, is_suspect) in [(100, false), (100, true), (384, false)] {
            let (mut a, b) = (matrix(64, k, 1, normal), matrix(k, 64 * (2 * 66 + 1) + 1, 2, normal));
            if is_suspect {
                a[[0, 0]] = f32::powi(2.0, 70);
            }
            let (c, _) = product_of("64x64x2_fp32-tc", &gemm, a.view(), b.view());
            let error = error(&c, &a, &b);
            assert!(error < 4e-7, "{error:e} with K = {k} on {}", gemm.device().info().name);
        }
    }
}
