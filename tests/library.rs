//! The library call computes C = alpha op(A) op(B) + beta C for every shape, layout and batch, on every device, and says
//! what doesn't fit.

mod common;

use common::case::{Batch, Case, Place, assert_bits, check, check_in};
use gpu_kernels::{Precision, general_tiled, launch::ElementType};
use half::bf16;
use host::{
    device::{Device, DeviceError, DeviceSelector},
    gemm::{DeviceMatrices, DeviceMatricesMut, DeviceMatrix, Gemm, GemmError, MatrixList, nearest_factor},
    matrix,
    plan::Plan,
    verify::{self, Order},
};
use ndarray::{Array2, ArrayView2, ShapeBuilder, array, s};
use production_kernels::FAMILIES;
use proptest::prelude::*;
use rand::{RngExt, SeedableRng, rngs::ChaCha12Rng};

fn gemms() -> Vec<Gemm> {
    common::devices().into_iter().map(Gemm::new).collect()
}

fn simulated() -> Gemm {
    Gemm::new(Device::open(DeviceSelector::Simulator).unwrap())
}

fn size() -> impl Strategy<Value = usize> {
    prop_oneof![8 => 1..70usize, 2 => Just(64usize), 1 => Just(0usize), 1 => Just(1usize), 1 => 100..150usize]
}

fn factor() -> impl Strategy<Value = f32> {
    prop::sample::select(vec![0.0f32, 1.0, 1.0, -1.0, 2.5, -0.125])
}

fn place() -> impl Strategy<Value = Place> {
    (
        prop::sample::select(vec![0usize, 0, 4, 1, 3]),
        prop::sample::select(vec![0usize, 0, 4, 1, 7]),
        0..5usize,
        any::<bool>(),
    )
        .prop_map(|(offset, gap, between, transposed)| Place { offset, gap, between, after: 3, transposed })
}

fn case() -> impl Strategy<Value = Case> {
    let batch = prop::sample::select(vec![Batch::None, Batch::None, Batch::Strided, Batch::Listed]);
    (
        (size(), size(), size(), factor(), factor()),
        (place(), place(), place(), batch, 0..4usize, any::<[bool; 2]>(), any::<u64>()),
    )
        .prop_map(|((m, n, k, alpha, beta), (a, b, mut c, batch, count, shared, seed))| {
            if batch == Batch::Listed {
                c.between = 0;
            }
            let count = if batch == Batch::None { 1 } else { count };
            Case { m, n, k, alpha, beta, places: [a, b, c], batch, count, shared, half_c: false, seed }
        })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_product_that_blas_knows_is_right_and_nothing_else_is_touched(case in case()) {
        for gemm in gemms() {
            check(&gemm, &case, None);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn so_is_every_product_in_every_other_precision_with_c_in_f32_or_in_the_elements_of_a_and_b(
        case in case(),
        precision in prop::sample::select(&Precision::ALL[1..]),
        half_c: bool,
    ) {
        let case = Case { half_c: half_c && precision.factors() != ElementType::F32, ..case };
        for gemm in gemms() {
            check_in(&gemm, &case, precision, None);
        }
    }

    #[test]
    fn numbers_of_16_bits_are_multiplied_by_kernels_of_f32_where_there_are_no_others(
        case in case(),
        plan in plan(),
        precision in prop::sample::select(&[Precision::Bf16, Precision::F16]),
        half_c: bool,
    ) {
        let case = Case { half_c, ..case };
        for gemm in gemms() {
            check_in(&gemm, &case, precision, Some(plan));
        }
    }
}

/// A kernel that takes everything, and how often K is split for it.
fn plan() -> impl Strategy<Value = Plan> {
    let kernels = FAMILIES.iter().map(|family| (&family.kernels[0], true)).chain([(&general_tiled::KERNEL, false)]);
    let kernels: Vec<_> = kernels.collect();
    (prop::sample::select(kernels), prop::sample::select(vec![1u32, 1, 2, 3, 7, 40]), 1..9u32).prop_map(
        |((kernel, can_be_split), splits, group)| Plan { kernel, splits: if can_be_split { splits } else { 1 }, group },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_general_kernel_is_right_for_every_product(case in case(), plan in plan(), deep in prop::bool::weighted(0.2)) {
        let case = if deep { Case { k: 10 * case.k, ..case } } else { case };
        for gemm in gemms() {
            check(&gemm, &case, Some(plan));
        }
    }
}

#[test]
fn however_many_splits_and_rows_of_tiles_a_plan_has_the_product_is_right() {
    let place = Place::default();
    let case = |m, n, k| {
        let (places, batch, shared) = ([place; 3], Batch::None, [false; 2]);
        Case { m, n, k, alpha: 1.5, beta: 0.5, places, batch, count: 1, shared, half_c: false, seed: 3 }
    };
    for gemm in gemms() {
        for family in FAMILIES.iter().filter(|family| family.tile.m <= 64 && family.tile.n <= 64) {
            let (m, n) = (2 * family.tile.m as usize + 1, 3 * family.tile.n as usize + 5);
            for group in [0, 3, 1 << 30, 3 << 30, 1 << 31, u32::MAX] {
                let plan = Plan { kernel: &family.kernels[0], splits: group, group };
                check(&gemm, &case(m, n, 70), Some(plan));
            }
        }
    }
}

#[test]
fn nothing_is_written_between_lines_of_c_that_begin_at_multiples_of_16_bytes_and_end_elsewhere() {
    // Copies of boxes write whole chunks of 16 bytes, so that lines that end inside of one can't be stored by them.
    let families = hopper_kernels::FAMILIES.iter().filter(|family| family.tile.m * family.tile.n <= 128 * 64);
    for gemm in gemms() {
        for family in families.clone() {
            let plan = Plan { kernel: &family.kernels[0], splits: 1, group: 1 };
            if !common::runs(gemm.device(), plan.kernel) {
                continue;
            }
            for (m, n, gap) in [(3, 5, 3), (3, 5, 11), (70, 63, 1), (1, 37, 0), (2, 66, 2), (4, 68, 4)] {
                for half_c in [false, true] {
                    let half_c = half_c && family.precision.factors() != ElementType::F32;
                    let c = Place { gap, after: 9, ..Place::default() };
                    let places = [Place::default(), Place::default(), c];
                    let (batch, shared) = (Batch::None, [false; 2]);
                    let case =
                        Case { m, n, k: 40, alpha: 1.0, beta: 0.0, places, batch, count: 1, shared, half_c, seed: 5 };
                    check_in(&gemm, &case, family.precision, Some(plan));
                }
            }
        }
    }
}

#[test]
fn an_input_is_not_read_where_it_does_not_count() {
    for gemm in gemms() {
        let device = gemm.device();
        let nan = device.upload(&[f32::NAN; 6]).unwrap();
        let ones = device.upload(&[1.0f32; 6]).unwrap();
        let mut c = device.upload(&[3.0f32; 4]).unwrap();
        let (a, b) = (nan.matrix(2, 3).unwrap(), nan.matrix(3, 2).unwrap());
        // alpha = 0: neither A nor B.
        gemm.product(a, b).alpha(0.0).beta(2.0).enqueue_into(c.matrix_mut(2, 2).unwrap()).unwrap();
        assert_eq!(c.download().unwrap(), [6.0; 4]);
        // K = 0, whatever alpha is.
        let (a, b) = (nan.matrix(2, 0).unwrap(), nan.matrix(0, 2).unwrap());
        gemm.product(a, b).alpha(f32::NAN).beta(0.5).enqueue_into(c.matrix_mut(2, 2).unwrap()).unwrap();
        assert_eq!(c.download().unwrap(), [3.0; 4]);
        gemm.product(a, b).enqueue_into(c.matrix_mut(2, 2).unwrap()).unwrap();
        assert_eq!(c.download().unwrap(), [0.0; 4]);
        // beta = 0: not C.
        let mut c = device.upload(&[f32::NAN, f32::INFINITY, f32::NAN, f32::NAN]).unwrap();
        let (a, b) = (ones.matrix(2, 3).unwrap(), ones.matrix(3, 2).unwrap());
        gemm.product(a, b).beta(0.0).enqueue_into(c.matrix_mut(2, 2).unwrap()).unwrap();
        assert_eq!(c.download().unwrap(), [3.0; 4]);
        let mut c = device.upload(&[f32::NAN; 4]).unwrap();
        gemm.product(a, b).alpha(0.0).enqueue_into(c.matrix_mut(2, 2).unwrap()).unwrap();
        assert_eq!(c.download().unwrap(), [0.0; 4]);
    }
}

#[test]
fn what_is_not_finite_goes_through_alpha_and_beta_as_ieee_says() {
    let (nan, infinity) = (f32::NAN, f32::INFINITY);
    for gemm in gemms() {
        let device = gemm.device();
        let a = device.upload(&[1.0, infinity, nan, -1.0f32]).unwrap();
        let b = device.upload(&[1.0f32, 0.0]).unwrap();
        let mut c = device.upload(&[infinity, 1.0, 1.0, 1.0, 1.0, nan, -infinity, 1.0f32]).unwrap();
        let product = gemm.product(a.matrix(4, 1).unwrap(), b.matrix(1, 2).unwrap());
        product.alpha(-2.0).beta(1.0).enqueue_into(c.matrix_mut(4, 2).unwrap()).unwrap();
        let expected = [infinity, 1.0, -infinity, nan, nan, nan, -infinity, 1.0];
        for (got, expected) in c.download().unwrap().into_iter().zip(expected) {
            assert!(got == expected || got.is_nan() && expected.is_nan(), "{got} instead of {expected}");
        }
    }
}

#[test]
fn the_same_product_has_the_same_bits_every_time_and_on_every_stream() {
    for gemm in gemms() {
        let device = gemm.device();
        let (m, n, k) = (33, 20, 4000);
        let a = device.upload(matrix::random_normal(m, k, 1).as_slice().unwrap()).unwrap();
        let b = device.upload(matrix::random_normal(k, n, 2).as_slice().unwrap()).unwrap();
        let streams = [device.default_stream().clone(), device.new_stream().unwrap()];
        let results = [0, 1, 0, 1].map(|stream: usize| {
            let mut c = device.allocate::<f32>(m * n).unwrap();
            let product = gemm.product(a.matrix(m, k).unwrap(), b.matrix(k, n).unwrap()).alpha(1.5);
            product.on(&streams[stream]).enqueue_into(c.matrix_mut(m, n).unwrap()).unwrap();
            c.download().unwrap()
        });
        for result in &results[1..] {
            assert_bits(result, &results[0]);
        }
    }
}

#[test]
fn a_product_on_another_stream_waits_for_the_event_it_is_given() {
    for gemm in gemms() {
        let device = gemm.device();
        let (first, second) = (device.new_stream().unwrap(), device.new_stream().unwrap());
        let size = 96;
        let identity = device.upload(Array2::<f32>::eye(size).as_slice().unwrap()).unwrap();
        let elements = matrix::random_normal(size, size, 3);
        let mut chain: Vec<_> = (0..6).map(|_| device.upload(&vec![f32::NAN; size * size]).unwrap()).collect();
        chain[0] = device.upload(elements.as_slice().unwrap()).unwrap();
        for link in 1..chain.len() {
            let (done, rest) = chain.split_at_mut(link);
            let (this, other) = if link % 2 == 0 { (&first, &second) } else { (&second, &first) };
            let product =
                gemm.product(done[link - 1].matrix(size, size).unwrap(), identity.matrix(size, size).unwrap());
            product.on(this).enqueue_into(rest[0].matrix_mut(size, size).unwrap()).unwrap();
            other.wait_for(&this.record().unwrap()).unwrap();
        }
        first.synchronise().unwrap();
        second.synchronise().unwrap();
        assert_bits(&chain[5].download().unwrap(), elements.as_slice().unwrap());
    }
}

#[test]
fn a_workspace_of_the_size_asked_for_suffices_and_a_smaller_one_is_refused() {
    for gemm in gemms() {
        let device = gemm.device();
        let (m, n, k) = (16, 24, 5000);
        let (a, b) = (matrix::random_normal(m, k, 1), matrix::random_normal(k, n, 2));
        let a_buffer = device.upload(a.as_slice().unwrap()).unwrap();
        let b_buffer = device.upload(b.as_slice().unwrap()).unwrap();
        let product = || gemm.product(a_buffer.matrix(m, k).unwrap(), b_buffer.matrix(k, n).unwrap());
        let bytes = product().workspace_bytes().unwrap();
        let mut c = device.allocate::<f32>(m * n).unwrap();
        let mut workspace = device.allocate::<f32>(bytes as usize / 4).unwrap();
        product().workspace(&mut workspace).enqueue_into(c.matrix_mut(m, n).unwrap()).unwrap();
        let c = Array2::from_shape_vec((m, n), c.download().unwrap()).unwrap();
        let reference = verify::reference_in(Order::Any, a.view(), b.view());
        assert!(verify::compare(c.view(), &reference).passed());
        if bytes > 0 {
            let mut c = device.allocate::<f32>(m * n).unwrap();
            let mut small = device.allocate::<f32>(bytes as usize / 4 - 1).unwrap();
            let error = product().workspace(&mut small).enqueue_into(c.matrix_mut(m, n).unwrap()).unwrap_err();
            assert!(matches!(error, GemmError::WorkspaceTooSmall { .. }), "{error}");
        }
    }
}

/// Every way to lay out a matrix of the host, each the same 7 x 5 matrix.
fn layouts(matrix: &Array2<f32>) -> Vec<(&'static str, Array2<f32>)> {
    let (rows, columns) = matrix.dim();
    let mut fortran = Array2::zeros((rows, columns).f());
    fortran.assign(matrix);
    vec![("standard", matrix.clone()), ("Fortran", fortran)]
}

#[test]
fn host_matrices_of_any_strides_are_multiplied_and_nothing_beside_them_is_written() {
    for gemm in gemms() {
        let (a, b) = (matrix::random_normal(7, 5, 1), matrix::random_normal(5, 6, 2));
        let reference = verify::reference_in(Order::Any, a.view(), b.view());
        let check = |what: &str, c: ArrayView2<f32>| {
            assert!(verify::compare(c, &reference).passed(), "{what}");
        };
        // A's elements in a larger matrix: every second row and column of it, or its rows and columns backwards.
        let mut spread = Array2::from_elem((14, 10), f32::NAN);
        spread.slice_mut(s![..;2, ..;2]).assign(&a);
        let mut wide = Array2::from_elem((7, 9), f32::NAN);
        wide.slice_mut(s![.., 2..7]).assign(&a);
        let mut backwards = a.clone();
        backwards.assign(&a.slice(s![..;-1, ..;-1]));
        let mut views = vec![
            ("every second", spread.slice(s![..;2, ..;2])),
            ("with gaps", wide.slice(s![.., 2..7])),
            ("backwards", backwards.slice(s![..;-1, ..;-1])),
        ];
        let owned = layouts(&a);
        views.extend(owned.iter().map(|(what, a)| (*what, a.view())));
        for (what, a) in views {
            check(what, gemm.multiply(&a, &b).unwrap().view());
        }
        let transposed = b.t().as_standard_layout().into_owned();
        check("B transposed", gemm.multiply(&a, &transposed.t()).unwrap().view());

        // The same for C.
        let mut whole = Array2::from_elem((9, 20), -7.0f32);
        gemm.general_mat_mul(1.0, &a, &b, 0.0, &mut whole.slice_mut(s![1..8, 3..9])).unwrap();
        check("C with gaps", whole.slice(s![1..8, 3..9]));
        whole.slice_mut(s![1..8, 3..9]).fill(-7.0);
        assert!(whole.iter().all(|&element| element == -7.0));
        gemm.general_mat_mul(1.0, &a, &b, 0.0, &mut whole.slice_mut(s![1..8, ..18;3])).unwrap();
        check("C spread", whole.slice(s![1..8, ..18;3]));
        whole.slice_mut(s![1..8, ..18;3]).fill(-7.0);
        assert!(whole.iter().all(|&element| element == -7.0));
        let mut fortran = Array2::from_elem((7, 6).f(), f32::NAN);
        gemm.general_mat_mul(1.0, &a, &b, 0.0, &mut fortran).unwrap();
        check("C in Fortran order", fortran.view());
    }
}

#[test]
fn host_matrices_are_scaled_and_added_as_ndarray_does_it() {
    for gemm in gemms() {
        let (a, b, c) =
            (array![[1.0f32, 2.0], [3.0, 4.0]], array![[1.0f32, 0.0], [1.0, 1.0]], array![[1.0f32, 2.0], [3.0, 4.0]]);
        let (mut ours, mut theirs) = (c.clone(), c);
        gemm.general_mat_mul(0.5, &a, &b, -2.0, &mut ours).unwrap();
        ndarray::linalg::general_mat_mul(0.5, &a, &b, -2.0, &mut theirs);
        assert_eq!(ours, theirs);
        assert!(gemm.general_mat_mul(1.0, &a, &b, 0.0, &mut Array2::zeros((3, 2))).is_err());
    }
}

#[test]
fn views_are_parts_of_buffers_and_say_what_does_not_fit() {
    let gemm = simulated();
    let buffer = gemm.device().upload(&(0..12).map(|element| element as f32).collect::<Vec<_>>()).unwrap();
    let matrix = buffer.matrix(3, 4).unwrap();
    assert_eq!(matrix.transposed().dim(), (4, 3));
    assert_eq!(matrix.transposed().strides(), (1, 4));
    let part = matrix.transposed().slice(1..3, 2..).unwrap();
    assert_eq!((part.dim(), part.address()), ((2, 1), buffer.address() + 4 * 9));
    assert_eq!(matrix.slice(.., 4..).unwrap().dim(), (3, 0));
    assert_eq!(matrix.slice(3.., 4..).unwrap().dim(), (0, 0));
    assert!(matches!(matrix.slice(2..4, ..), Err(GemmError::OutsideMatrix { .. })));
    #[expect(clippy::reversed_empty_ranges, reason = "it is what is tried")]
    let reversed = matrix.slice(2..1, ..);
    assert!(matches!(reversed, Err(GemmError::OutsideMatrix { .. })));
    assert!(matches!(matrix.slice(..=usize::MAX, ..), Err(GemmError::OutsideMatrix { .. })));
    assert!(matches!(buffer.matrix(4, 4), Err(GemmError::OutsideBuffer { .. })));
    assert!(matches!(DeviceMatrix::with_leading(&buffer, 0, 2, 4, 3), Err(GemmError::LeadingDimension { .. })));
    // The last row needs its columns only.
    assert!(DeviceMatrix::with_leading(&buffer, 0, 3, 2, 5).is_ok());
    assert!(DeviceMatrix::with_leading(&buffer, 1, 3, 2, 5).is_err());
    assert!(DeviceMatrix::with_leading(&buffer, 0, usize::MAX, 2, usize::MAX).is_err());
    assert!(DeviceMatrices::new(&buffer, 0, 3, 2, 2).is_ok());
    assert!(DeviceMatrices::new(&buffer, 0, 4, 2, 2).is_err());
    assert!(DeviceMatrices::new(&buffer, 0, usize::MAX, 2, 2).is_err());
    // What has no elements may have any sizes, and be anywhere.
    for offset in [0, usize::MAX] {
        let mut output = gemm.device().upload(&[0.0f32; 12]).unwrap();
        for size in [1, 3, usize::MAX] {
            let none = DeviceMatrices::with_strides(&buffer, offset, [0, size], size, size, size).unwrap();
            assert!(none.get(0).is_none() && none.get(usize::MAX).is_none());
            let none = DeviceMatricesMut::with_strides(&mut output, offset, [0, size], size, 2, size.max(2)).unwrap();
            assert!(none.get(0).is_none());
        }
    }
    let pair = DeviceMatrices::new(&buffer, 2, 2, 2, 2).unwrap();
    assert!(pair.get(1).is_some() && pair.get(2).is_none() && pair.get(usize::MAX).is_none());
    // The same matrix, as often as one likes.
    assert!(DeviceMatrices::with_strides(&buffer, 0, [1000, 0], 3, 4, 4).is_ok());
}

#[test]
fn outputs_that_overlap_are_refused_and_those_between_each_others_rows_are_not() {
    let gemm = simulated();
    let mut buffer = gemm.device().upload(&[0.0f32; 24]).unwrap();
    let mut batch = |count, stride, rows, columns, leading| {
        DeviceMatricesMut::with_strides(&mut buffer, 0, [count, stride], rows, columns, leading).map(|_| ())
    };
    assert!(matches!(batch(2, 0, 2, 2, 2), Err(GemmError::OverlappingBatch { .. })));
    assert!(matches!(batch(2, 3, 2, 2, 2), Err(GemmError::OverlappingBatch { .. })));
    assert!(batch(2, 4, 2, 2, 2).is_ok());
    assert!(batch(1, 0, 2, 2, 2).is_ok());
    // Side by side: rows of 8, of which each of 4 matrices has 2.
    assert!(batch(4, 2, 3, 2, 8).is_ok());
    assert!(matches!(batch(4, 2, 2, 3, 8), Err(GemmError::OverlappingBatch { .. })));
    assert!(matches!(batch(5, 2, 2, 2, 8), Err(GemmError::OverlappingBatch { .. })));
}

#[test]
fn products_that_do_not_fit_together_are_refused() {
    let gemm = simulated();
    let device = gemm.device();
    let buffer = device.upload(&[1.0f32; 60]).unwrap();
    let mut c = device.upload(&[1.0f32; 60]).unwrap();
    let matrix = |rows, columns| buffer.matrix(rows, columns).unwrap();
    let error = gemm.product(matrix(2, 3), matrix(4, 5)).enqueue_into(c.matrix_mut(2, 5).unwrap()).unwrap_err();
    assert!(matches!(error, GemmError::InnerSizesDiffer { a_columns: 3, b_rows: 4, .. }), "{error}");
    assert!(gemm.product(matrix(2, 3), matrix(4, 5)).workspace_bytes().is_err());
    let of = |count| DeviceMatrices::new(&buffer, 0, count, 2, 2).unwrap();
    let error = gemm.product(of(3), of(2)).plan().unwrap_err();
    assert!(matches!(error, GemmError::FactorBatches { a: 3, b: 2 }), "{error}");
    let error = gemm.product(matrix(2, 3), matrix(3, 5)).enqueue_into(c.matrix_mut(5, 2).unwrap()).unwrap_err();
    assert!(matches!(error, GemmError::OutputShape { .. }), "{error}");
    let batch = |count| DeviceMatrices::new(&buffer, 0, count, 2, 2).unwrap();
    let error = gemm.product(batch(3), batch(3)).enqueue_into(DeviceMatricesMut::new(&mut c, 0, 2, 2, 2).unwrap());
    assert!(matches!(error, Err(GemmError::BatchLength { input: "A", count: 3, c: 2 })));
    let error = gemm.product(matrix(2, 2), batch(3)).enqueue_into(c.matrix_mut(2, 2).unwrap());
    assert!(matches!(error, Err(GemmError::BatchLength { input: "B", count: 3, c: 1 })));
    let error = MatrixList::new(device, &[matrix(2, 2), matrix(2, 2).transposed()]).unwrap_err();
    assert!(matches!(error, GemmError::UnequalMatrices { index: 1 }), "{error}");

    let other = Device::open(DeviceSelector::Simulator).unwrap();
    let foreign = other.upload(&[1.0f32; 4]).unwrap();
    let error = gemm.product(foreign.matrix(2, 2).unwrap(), matrix(2, 2)).enqueue_into(c.matrix_mut(2, 2).unwrap());
    assert!(matches!(error, Err(GemmError::Device(DeviceError::OtherDevice { what: "A" }))));
    let stream = other.new_stream().unwrap();
    let error = gemm.product(matrix(2, 2), matrix(2, 2)).on(&stream).enqueue_into(c.matrix_mut(2, 2).unwrap());
    assert!(error.is_err());
    assert!(stream.wait_for(&device.default_stream().record().unwrap()).is_err());
    assert_eq!(c.download().unwrap(), [1.0; 60]);
}

#[test]
fn tf32_rounds_a_and_b_to_the_nearest_halfway_to_even_wherever_they_lie() {
    let ulp = f32::powi(2.0, -10);
    let numbers = [
        1.0 + ulp / 2.0,
        1.0 + 1.5 * ulp,
        1.0 + 0.49 * ulp,
        1.0 + 0.51 * ulp,
        -1.0 - ulp / 2.0,
        -1.0 - 1.5 * ulp,
        2.0 - ulp / 4.0,
        1e-38,
        3e-41,
        -1e-42,
        f32::MAX,
        f32::INFINITY,
    ];
    let expected = numbers.map(|number| nearest_factor(Precision::Tf32, number));
    for gemm in gemms() {
        let device = gemm.device();
        let (numbers, one) = (device.upload(&numbers).unwrap(), device.upload(&[1.0f32]).unwrap());
        let mut c = device.allocate::<f32>(12).unwrap();
        // As a column of A, then as a row of B: along k, and across it.
        for (a, b, m, n) in [(&numbers, &one, 12, 1), (&one, &numbers, 1, 12)] {
            let product = gemm.product(a.matrix(m, 1).unwrap(), b.matrix(1, n).unwrap());
            product.precision(Precision::Tf32).enqueue_into(c.matrix_mut(m, n).unwrap()).unwrap();
            let result = c.download().unwrap();
            assert_eq!(result, expected, "on {}", device.info().name);
        }
    }
}

#[test]
fn factors_of_16_bits_whose_lines_are_not_aligned_are_multiplied_as_exactly_as_f32_is() {
    let (m, n, k) = (70, 75, 1027);
    let numbers = |count: usize, seed: u64, whole: bool| -> Vec<bf16> {
        let mut random = ChaCha12Rng::seed_from_u64(seed);
        let number = |_| if whole { f32::from(random.random_range(-9i8..=9)) } else { random.random_range(-1.0..1.0) };
        (0..count).map(number).map(bf16::from_f32).collect()
    };
    for gemm in gemms() {
        let device = gemm.device();
        for whole in [false, true] {
            let (a, b) = (numbers(m * k, 1, whole), numbers(k * n, 2, whole));
            let [a_buffer, b_buffer] = [&a, &b].map(|numbers| device.upload(numbers).unwrap());
            let mut c = device.allocate::<f32>(m * n).unwrap();
            let product = gemm.product(a_buffer.matrix(m, k).unwrap(), b_buffer.matrix(k, n).unwrap());
            product.enqueue_into(c.matrix_mut(m, n).unwrap()).unwrap();
            let exact = |numbers: Vec<bf16>, rows, columns| {
                Array2::from_shape_vec((rows, columns), numbers).unwrap().mapv(f64::from)
            };
            let exact = exact(a, m, k).dot(&exact(b, k, n));
            let c = Array2::from_shape_vec((m, n), c.download().unwrap()).unwrap().mapv(f64::from);
            let squares = |values: Array2<f64>| values.mapv(|x| x * x).sum();
            let error = (squares(c - &exact) / squares(exact)).sqrt();
            // Long sums of tensor cores, which cut off what doesn't fit, are four times as far off.
            let most = if whole { 0.0 } else { 2.5 * f64::from(f32::EPSILON) };
            assert!(error <= most, "{error:e} on {}", device.info().name);
        }
    }
}
