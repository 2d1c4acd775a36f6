//! Every kernel computes the right product for every shape, and touches nothing but C.

mod common;

use approx::assert_abs_diff_eq;
use gpu_kernels::{KERNELS, Precision, launch::ElementType};
use host::{
    device::Device,
    gemm::{DeviceMatrix, FactorBuffer, Gemm, GemmError, Timing, ensure_sizes, nearest, rounded},
    matrix, plan,
    verify::{self, Order},
};
use ndarray::{Array2, array};
use proptest::prelude::*;

/// Elements before and after each matrix that no kernel may read into a result or write: once so many that nothing is
/// aligned to more than an element, and, where rows are whole vectors, once so many that all are aligned to 16 bytes.
fn guard_bands(n: usize, k: usize) -> &'static [usize] {
    if (n | k).is_multiple_of(4) { &[67, 72] } else { &[67] }
}

/// What the guard bands hold: a NaN that is in no input, so that reading it would show in the product too.
const GUARD_VALUE: f32 = f32::from_bits(0x7fc0_dead);

/// What C holds before each launch.
const POISON: f32 = f32::from_bits(0x7fc0_beef);

/// The bits of a number as elements of a type hold it.
fn bits_in(element: ElementType, number: f32) -> u32 {
    nearest(element, number).to_bits()
}

fn guarded(device: &Device, element: ElementType, elements: &[f32], guard: usize) -> FactorBuffer {
    let band = vec![GUARD_VALUE; guard];
    let all = [&band, elements, &band].concat();
    FactorBuffer::upload(device, element, &all).expect("these matrices are small")
}

fn inside(buffer: &FactorBuffer, element: ElementType, guard: usize, name: &str) -> Vec<f32> {
    let elements = buffer.download().expect("the launch was right");
    let (head, rest) = elements.split_at(guard);
    let (middle, tail) = rest.split_at(rest.len() - guard);
    let band = bits_in(element, GUARD_VALUE);
    let intact = head.iter().chain(tail).all(|element| element.to_bits() == band);
    assert!(intact, "something was written outside {name}");
    middle.to_vec()
}

/// Multiplies with every kernel between guard bands and checks every element.
fn check_all_kernels(gemm: &Gemm, a: &Array2<f32>, b: &Array2<f32>) {
    for precision in Precision::ALL {
        let (a, b) = (rounded(*precision, a.clone()), rounded(*precision, b.clone()));
        check_kernels_of(*precision, gemm, &a, &b);
    }
}

/// The same for kernels of one precision, with matrices rounded to it.
fn check_kernels_of(precision: Precision, gemm: &Gemm, a: &Array2<f32>, b: &Array2<f32>) {
    let ((m, k), n) = (a.dim(), b.ncols());
    let ascending = verify::reference(a.view(), b.view());
    let device = gemm.device();
    let factors = precision.factors();
    for kernel in KERNELS.iter().filter(|kernel| kernel.precision == precision && common::runs(device, kernel)) {
        let own;
        let reference = match plan::order(kernel, 1, k) {
            Order::Ascending => &ascending,
            order => {
                own = verify::reference_in(order, a.view(), b.view());
                &own
            }
        };
        for &guard in guard_bands(n, k) {
            let case = format!("{} of {m} x {n} x {k} at {guard} on {}", kernel.name, device.info().name);
            let a_buffer = guarded(device, factors, a.as_slice().unwrap(), guard);
            let b_buffer = guarded(device, factors, b.as_slice().unwrap(), guard);
            let c_buffer = guarded(device, ElementType::F32, &vec![POISON; m * n], guard);
            let outcome = gemm.enqueue(
                kernel,
                a_buffer.matrix_at(guard, m, k).unwrap(),
                b_buffer.matrix_at(guard, k, n).unwrap(),
                c_buffer.matrix_at(guard, m, n).unwrap(),
            );
            if let (Some(_), Err(error)) = (kernel.signature.mapped(), &outcome) {
                // Matrices whose rows don't begin at multiples of 16 bytes are refused, and no others.
                let refused = ensure_sizes(kernel, [m, n, k]).is_err() || !(guard * factors.bytes()).is_multiple_of(16);
                assert!(refused && error.to_string().contains(kernel.name), "{case}: {error}");
                continue;
            }
            outcome.unwrap_or_else(|error| panic!("{case}: {error}"));

            let c = inside(&c_buffer, ElementType::F32, guard, "C");
            let written = c.iter().all(|element| element.to_bits() != POISON.to_bits());
            assert!(written, "{case}: an element was not written");
            assert_eq!(inside(&a_buffer, factors, guard, "A"), a.as_slice().unwrap(), "{case}: A changed");
            assert_eq!(inside(&b_buffer, factors, guard, "B"), b.as_slice().unwrap(), "{case}: B changed");
            let c = Array2::from_shape_vec((m, n), c).unwrap();
            let verification = verify::compare(c.view(), reference);
            assert!(verification.passed(), "{case}: {verification:?}");
        }
    }
}

fn gemms() -> Vec<Gemm> {
    common::devices().into_iter().map(Gemm::new).collect()
}

#[test]
fn every_kernel_is_right_for_every_shape_of_the_table() {
    for gemm in gemms() {
        for (case, &(m, n, k)) in common::SHAPES.iter().enumerate() {
            let a = matrix::random_normal(m, k, 2 * case as u64);
            let b = matrix::random_normal(k, n, 2 * case as u64 + 1);
            check_all_kernels(&gemm, &a, &b);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn every_kernel_is_right_for_random_shapes(m in 1usize..80, n in 1usize..80, k in 0usize..200, seed: u64) {
        for gemm in gemms() {
            check_all_kernels(&gemm, &matrix::random_normal(m, k, seed), &matrix::random_normal(k, n, !seed));
        }
    }
}

#[test]
fn more_block_rows_than_a_grid_has_along_y_go_on_along_z() {
    let m = 16 * 65_535 + 5;
    for gemm in gemms() {
        check_all_kernels(&gemm, &matrix::random_normal(m, 1, 1), &matrix::random_normal(1, 1, 2));
    }
}

#[test]
fn a_product_of_whole_numbers_is_exact() {
    let a = Array2::from_shape_fn((40, 50), |(row, column)| ((row * 7 + column * 3) % 11) as f32 - 5.0);
    let b = Array2::from_shape_fn((50, 30), |(row, column)| ((row * 5 + column) % 13) as f32 - 6.0);
    let exact = a.mapv(f64::from).dot(&b.mapv(f64::from));
    for gemm in gemms() {
        for kernel in common::kernels_for(gemm.device(), [40, 30, 50]) {
            let c = gemm.multiply_timed(kernel, a.view(), b.view(), Timing::Once).unwrap().c;
            for (&got, &expected) in c.iter().zip(&exact) {
                assert_abs_diff_eq!(f64::from(got), expected, epsilon = 0.0);
            }
        }
    }
}

#[test]
fn all_devices_give_the_same_bits() {
    let (a, b) = (matrix::random_normal(123, 217, 5), matrix::random_normal(217, 97, 6));
    // But for tensor cores, whose sums the simulator rounds and a GPU cuts off.
    for kernel in KERNELS.iter().filter(|kernel| kernel.precision == Precision::F32) {
        let bits =
            |gemm: Gemm| gemm.multiply_timed(kernel, a.view(), b.view(), Timing::Once).unwrap().c.mapv(f32::to_bits);
        let all: Vec<_> = gemms().into_iter().map(bits).collect();
        assert!(all.windows(2).all(|pair| pair[0] == pair[1]), "{}", kernel.name);
    }
}

#[test]
fn nan_and_infinity_propagate_as_ieee_says() {
    let infinity = f32::INFINITY;
    let a = array![[1.0, 2.0], [infinity, 1.0], [f32::NAN, 0.0], [infinity, -infinity], [0.0, 0.0]];
    let b = array![[1.0, 0.0, infinity], [1.0, 1.0, 1.0]];
    // Row by row: a[0] b, a[1] b, and so on, where infinity * 0 and infinity - infinity are NaN and NaN stays NaN.
    let nan = f32::NAN;
    let expected =
        array![[3.0, 2.0, infinity], [infinity, nan, infinity], [nan, nan, nan], [nan, nan, nan], [0.0, 0.0, nan],];
    for gemm in gemms() {
        for kernel in common::kernels_for(gemm.device(), [5, 3, 2]) {
            let c = gemm.multiply_timed(kernel, a.view(), b.view(), Timing::Once).unwrap().c;
            for (position, &expected) in expected.indexed_iter() {
                let got: f32 = c[position];
                assert!(
                    got == expected || got.is_nan() && expected.is_nan(),
                    "{}: C{position:?} is {got}",
                    kernel.name
                );
            }
        }
    }
}

#[test]
fn subnormal_products_are_kept() {
    for gemm in gemms() {
        for kernel in common::kernels_for(gemm.device(), [1, 1, 2]) {
            // Numbers of 16 bits lack the lower ones.
            let smallest = if kernel.precision.factors() == ElementType::F32 { 1 } else { 1 << 16 };
            let tiny = f32::from_bits(5 * smallest);
            let (a, b) = (array![[tiny, tiny]], array![[1.0f32], [1.0]]);
            let c = gemm.multiply_timed(kernel, a.view(), b.view(), Timing::Once).unwrap().c;
            assert_eq!(c[(0, 0)].to_bits(), 10 * smallest, "{}", kernel.name);
        }
    }
}

#[test]
fn matrices_that_do_not_fit_together_are_refused() {
    for gemm in gemms() {
        let error = gemm.multiply(&Array2::zeros((2, 3)), &Array2::zeros((4, 5))).unwrap_err();
        assert!(matches!(error, GemmError::InnerSizesDiffer { .. }), "{error}");

        let buffer = gemm.device().upload(&[1.0f32; 12]).unwrap();
        let error = DeviceMatrix::new(&buffer, 4, 3, 3).unwrap_err();
        assert!(matches!(error, GemmError::OutsideBuffer { .. }), "{error}");
        let error = DeviceMatrix::new(&buffer, 1, usize::MAX, usize::MAX).unwrap_err();
        assert!(matches!(error, GemmError::OutsideBuffer { .. }), "{error}");

        let matrix = |offset| DeviceMatrix::new(&buffer, offset, 2, 2).unwrap();
        let error = gemm.enqueue(&KERNELS[0], matrix(0), matrix(4), matrix(7)).unwrap_err();
        assert!(matches!(error, GemmError::Overlap { input: "B" }), "{error}");
        gemm.enqueue(&KERNELS[0], matrix(0), matrix(4), matrix(8)).unwrap();
        assert_eq!(buffer.download().unwrap()[8..], [2.0; 4]);
    }
}

#[test]
fn elements_of_the_wrong_type_are_refused_by_name() {
    for gemm in gemms() {
        let device = gemm.device();
        let [halves, numbers] = [ElementType::Bf16, ElementType::F32]
            .map(|element| FactorBuffer::upload(device, element, &[1.0; 4]).unwrap());
        let c = device.allocate::<f32>(4).unwrap();
        let [halves, numbers] = [&halves, &numbers].map(|buffer| buffer.matrix(2, 2).unwrap());
        let enqueue = |kernel, a, b, c| gemm.enqueue(kernel, a, b, c).unwrap_err();
        let c = c.matrix(2, 2).unwrap();
        let error = enqueue(&gpu_kernels::naive::KERNEL, halves, halves, c);
        assert!(matches!(error, GemmError::Factors { kernel: "naive", takes: "f32", given: "bf16" }), "{error}");
        let error = enqueue(&gpu_kernels::tensor_cores::KERNEL, numbers, numbers, c);
        assert!(matches!(error, GemmError::Factors { takes: "bf16", given: "f32", .. }), "{error}");
        for (a, b, c) in [(halves, numbers, c), (numbers, numbers, halves)] {
            let error = enqueue(&gpu_kernels::naive::KERNEL, a, b, c);
            assert!(matches!(error, GemmError::ElementTypes { .. }), "{error}");
        }
    }
}

#[test]
fn a_product_of_bf16_finds_its_kernel() {
    for gemm in gemms() {
        let device = gemm.device();
        let [a, b] = [[1.0, 2.0, 3.0, 4.0], [5.0, 6.0, 7.0, 8.0]]
            .map(|numbers| device.upload(&numbers.map(half::bf16::from_f32)).unwrap());
        let mut c = device.allocate::<f32>(4).unwrap();
        let product = gemm.product(a.matrix(2, 2).unwrap(), b.matrix(2, 2).unwrap());
        product.enqueue_into(c.matrix_mut(2, 2).unwrap()).unwrap();
        assert_eq!(c.download().unwrap(), [19.0, 22.0, 43.0, 50.0]);
    }
}
