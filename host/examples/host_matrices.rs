//! Matrices of the host: in, multiplied, and out.
//!
//! `cargo run -p host --example host_matrices`

use host::{
    device::{Device, DeviceSelector},
    gemm::Gemm,
};
use ndarray::{Array2, array, s};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    run(&Gemm::new(Device::open(DeviceSelector::Auto)?))
}

pub fn run(gemm: &Gemm) -> Result<(), Box<dyn std::error::Error>> {
    let a = array![[1.0f32, 2.0, 3.0], [4.0, 5.0, 6.0]];
    let b = array![[1.0f32, 0.0], [0.0, 1.0], [1.0, 1.0]];
    let product = gemm.multiply(&a, &b)?;
    println!("A B =\n{product}");
    assert_eq!(product, array![[4.0, 5.0], [10.0, 11.0]]);

    // Any view will do: a transpose, every second column, a part of a larger matrix that the result goes into.
    let mut table = Array2::<f32>::ones((4, 4));
    gemm.general_mat_mul(
        0.5,
        &a.slice(s![.., ..;2]),
        &b.slice(s![..2, ..]).t(),
        2.0,
        &mut table.slice_mut(s![1..3, 1..3]),
    )?;
    println!("a table with 0.5 A' B'^T + 2 C in its middle:\n{table}");
    assert_eq!(table.slice(s![1..3, 1..3]), array![[2.5, 3.5], [4.0, 5.0]]);
    Ok(())
}
