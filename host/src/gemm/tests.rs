//! Products too large for one launch are right too: tried with launches that take very little.

use ndarray::Array2;

use super::*;
use crate::{
    device::DeviceSelector,
    matrix,
    verify::{self, Order},
};

fn narrow(size: usize, batch: usize) -> Gemm {
    let gemm = Gemm::new(Device::open(DeviceSelector::Simulator).unwrap());
    Gemm { limits: Limits { size, batch }, ..gemm }
}

/// Computes a batch of `count` products as `plan` says and checks every element.
fn check(gemm: &Gemm, [m, n, k]: [usize; 3], count: usize, listed: bool, plan: Option<Plan>) {
    let device = gemm.device();
    let draw = |rows: usize, columns: usize, seed: u64| matrix::random_normal(count * rows, columns, seed);
    let (a, b, c) = (draw(m, k, 1), draw(k, n, 2), draw(m, n, 3));
    let [a_buffer, b_buffer, mut c_buffer] =
        [&a, &b, &c].map(|matrices| device.upload(matrices.as_slice().unwrap()).unwrap());
    let list = |buffer, rows, columns| {
        let place = |index| DeviceMatrix::new(buffer, index * rows * columns, rows, columns).unwrap();
        MatrixList::new(device, &(0..count).map(place).collect::<Vec<_>>()).unwrap()
    };
    let (a_list, b_list) = (list(&a_buffer, m, k), list(&b_buffer, k, n));
    let mut product = if listed {
        gemm.product(&a_list, &b_list)
    } else {
        let (a, b) = (DeviceMatrices::new(&a_buffer, 0, count, m, k), DeviceMatrices::new(&b_buffer, 0, count, k, n));
        gemm.product(a.unwrap(), b.unwrap())
    };
    if let Some(plan) = plan {
        product = product.with_plan(plan);
    }
    let c_matrices = DeviceMatricesMut::new(&mut c_buffer, 0, count, m, n).unwrap();
    product.alpha(1.5).beta(-0.5).enqueue_into(c_matrices).unwrap();
    let result = Array2::from_shape_vec((count * m, n), c_buffer.download().unwrap()).unwrap();
    for index in 0..count {
        let rows = |matrix: &Array2<f32>, rows: usize| {
            matrix.slice(ndarray::s![index * rows..(index + 1) * rows, ..]).to_owned()
        };
        let reference = verify::reference_in(Order::Any, rows(&a, m).view(), rows(&b, k).view());
        let reference = reference.scaled(1.5, -0.5, Some(rows(&c, m).view()));
        let verification = verify::compare(rows(&result, m).view(), &reference);
        // Each piece of K after the first rounds C once more.
        assert!(verification.max_ratio < 1.5, "{m} x {n} x {k}, product {index}: {verification:?}");
    }
}

#[test]
fn more_products_than_a_grid_takes_are_computed_in_several_launches() {
    for listed in [false, true] {
        check(&narrow(1 << 30, 3), [9, 8, 40], 8, listed, None);
    }
}

#[test]
fn larger_sizes_than_kernels_count_are_cut_into_pieces() {
    let gemm = narrow(32, 100);
    for shape in [[70, 20, 30], [20, 33, 30], [20, 30, 100], [65, 64, 63]] {
        for listed in [false, true] {
            check(&gemm, shape, 2, listed, None);
        }
    }
}

#[test]
fn pieces_can_be_split_too() {
    let family = &production_kernels::FAMILIES[production_kernels::FAMILIES.len() / 2];
    let plan = Plan { kernel: &family.kernels[0], splits: 3, group: 2 };
    check(&narrow(512, 100), [40, 36, 1200], 1, false, Some(plan));
    check(&narrow(1 << 30, 2), [20, 36, 500], 5, true, Some(plan));
}
