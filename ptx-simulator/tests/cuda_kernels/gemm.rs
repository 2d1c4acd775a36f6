//! Matrix products.

use crate::ptx;
use crate::support::values::Random;
use crate::support::{Argument, load, on_any_number_of_cores};

fn matrix(rows: usize, columns: usize, seed: u64) -> Vec<f32> {
    let mut random = Random::new(seed);
    (0..rows * columns).map(|_| random.unit()).collect()
}

/// The product with the same fused multiply-adds in the same order as one thread of the kernel does them.
fn fused_product(a: &[f32], b: &[f32], rows: usize, columns: usize, inner: usize) -> Vec<f32> {
    let element = |row: usize, column: usize| {
        (0..inner).fold(0.0f32, |sum, k| a[row * inner + k].mul_add(b[k * columns + column], sum))
    };
    (0..rows * columns).map(|i| element(i / columns, i % columns)).collect()
}

fn bits(values: &[f32]) -> Vec<u32> {
    values.iter().map(|value| value.to_bits()).collect()
}

const SHAPES: [(usize, usize, usize); 8] =
    [(1, 1, 1), (16, 16, 16), (17, 31, 13), (15, 16, 17), (33, 1, 40), (1, 50, 3), (64, 48, 80), (5, 7, 100)];

#[test]
fn the_tiled_kernel_multiplies_any_shape_to_the_last_bit() {
    let module = load(ptx!("gemm"));
    for (rows, columns, inner) in SHAPES {
        let (a, b) = (matrix(rows, inner, 1), matrix(inner, columns, 2));
        let got: Vec<f32> = on_any_number_of_cores(|machine| {
            let (a, b) = (machine.upload(&a), machine.upload(&b));
            let c = machine.upload(&vec![f32::NAN; rows * columns]);
            let sizes = [rows, columns, inner].map(|size| Argument::I32(size as i32));
            let pointers = [a, b, c].map(Argument::Pointer);
            let grid = ((columns as u32).div_ceil(16), (rows as u32).div_ceil(16));
            machine.launch(&module, "gemm_tiled", grid, (16, 16), 0, &[pointers, sizes].concat());
            machine.download(c, rows * columns)
        });
        assert_eq!(bits(&got), bits(&fused_product(&a, &b, rows, columns, inner)), "{rows} x {columns} x {inner}");
    }
}

#[test]
fn tiles_in_dynamic_shared_memory_have_any_width() {
    let module = load(ptx!("gemm"));
    for tile in [4u32, 8, 16, 32] {
        let (rows, columns, inner) = (37, 29, 50);
        let (a, b) = (matrix(rows, inner, 3), matrix(inner, columns, 4));
        let got: Vec<f32> = on_any_number_of_cores(|machine| {
            let (a, b) = (machine.upload(&a), machine.upload(&b));
            let c = machine.upload(&vec![f32::NAN; rows * columns]);
            let sizes = [rows, columns, inner].map(|size| Argument::I32(size as i32));
            let pointers = [a, b, c].map(Argument::Pointer);
            let grid = ((columns as u32).div_ceil(tile), (rows as u32).div_ceil(tile));
            let shared = 2 * tile * tile * 4;
            machine.launch(&module, "gemm_dynamic_shared", grid, (tile, tile), shared, &[pointers, sizes].concat());
            machine.download(c, rows * columns)
        });
        assert_eq!(bits(&got), bits(&fused_product(&a, &b, rows, columns, inner)), "tile {tile}");
    }
}

#[test]
fn register_tiles_with_vector_loads_and_double_sums() {
    let module = load(ptx!("gemm"));
    let (rows, columns, inner) = (128, 64, 48);
    let (a, b) = (matrix(rows, inner, 5), matrix(inner, columns, 6));
    let got: Vec<f32> = on_any_number_of_cores(|machine| {
        let (a, b) = (machine.upload(&a), machine.upload(&b));
        let c = machine.upload(&vec![f32::NAN; rows * columns]);
        let arguments = [
            Argument::Pointer(a),
            Argument::Pointer(b),
            Argument::Pointer(c),
            Argument::I32(columns as i32),
            Argument::I32(inner as i32),
        ];
        machine.launch(&module, "gemm_register_tile", (columns as u32 / 64, rows as u32 / 64), 256, 0, &arguments);
        machine.download(c, rows * columns)
    });
    let want: Vec<f32> = (0..rows * columns)
        .map(|i| {
            let (row, column) = (i / columns, i % columns);
            (0..inner)
                .fold(0.0f64, |sum, k| f64::from(a[row * inner + k]).mul_add(f64::from(b[k * columns + column]), sum))
                as f32
        })
        .collect();
    assert_eq!(bits(&got), bits(&want));
}
