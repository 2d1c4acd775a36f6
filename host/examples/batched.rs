//! Many small products at a time: at equal distances in one buffer, and anywhere.
//!
//! `cargo run -p host --example batched`

use host::{
    device::{Device, DeviceSelector},
    gemm::{DeviceMatrices, DeviceMatricesMut, Gemm, MatrixList, MatrixListMut},
};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    run(&Gemm::new(Device::open(DeviceSelector::Auto)?))
}

pub fn run(gemm: &Gemm) -> Result<(), Box<dyn std::error::Error>> {
    let device = gemm.device();
    // 100 rotations of the plane, each by a degree more, and one matrix of two points for all of them.
    let rotations: Vec<f32> = (0..100)
        .flat_map(|degrees| {
            let (sine, cosine) = (degrees as f32).to_radians().sin_cos();
            [cosine, -sine, sine, cosine]
        })
        .collect();
    let rotations = device.upload(&rotations)?;
    let points = device.upload(&[1.0f32, 0.0, 0.0, 1.0])?;
    let mut rotated = device.allocate::<f32>(100 * 4)?;
    gemm.product(DeviceMatrices::new(&rotations, 0, 100, 2, 2)?, points.matrix(2, 2)?)
        .enqueue_into(DeviceMatricesMut::new(&mut rotated, 0, 100, 2, 2)?)?;
    let at_90 = &rotated.download()?[90 * 4..91 * 4];
    println!("rotated by 90 degrees: {at_90:.4?}");
    assert!(at_90.iter().zip([0.0, -1.0, 1.0, 0.0]).all(|(got, expected)| (got - expected).abs() < 1e-6));

    // Matrices anywhere: a list of them lives on the device and can be used again and again.
    let ones = device.upload(&[1.0f32; 4])?;
    let a = MatrixList::new(device, &[ones.matrix(2, 2)?, points.matrix(2, 2)?])?;
    let b = MatrixList::new(device, &[points.matrix(2, 2)?, ones.matrix(2, 2)?])?;
    let (mut first, mut second) = (device.upload(&[1.0f32; 4])?, device.upload(&[2.0f32; 4])?);
    let mut c = MatrixListMut::new(device, [first.matrix_mut(2, 2)?, second.matrix_mut(2, 2)?])?;
    for _ in 0..3 {
        gemm.product(&a, &b).beta(1.0).enqueue_into(&mut c)?;
    }
    drop(c);
    println!("added to three times: {:?} and {:?}", first.download()?, second.download()?);
    assert_eq!(first.download()?, [4.0; 4]);
    assert_eq!(second.download()?, [5.0; 4]);
    Ok(())
}
