//! Matrices that stay on the device: powers of a matrix, without a copy between the products.
//!
//! `cargo run -p host --example device_resident`

use host::{
    device::{Device, DeviceSelector},
    gemm::Gemm,
};

/// The probabilities of going from one state to another.
const STEP: [[f32; 3]; 3] = [[0.9, 0.1, 0.0], [0.2, 0.7, 0.1], [0.0, 0.3, 0.7]];

fn main() -> Result<(), Box<dyn std::error::Error>> {
    run(&Gemm::new(Device::open(DeviceSelector::Auto)?))
}

pub fn run(gemm: &Gemm) -> Result<(), Box<dyn std::error::Error>> {
    let device = gemm.device();
    let stream = device.new_stream()?;
    let mut power = device.upload(STEP.as_flattened())?;
    let mut square = device.allocate::<f32>(9)?;
    // One workspace for all products, as large as they say. Nothing is allocated in the loop, and nobody waits.
    let product = gemm.product(power.matrix(3, 3)?, power.matrix(3, 3)?);
    let mut workspace = device.allocate::<f32>(product.workspace_bytes()?.div_ceil(4) as usize)?;
    for _ in 0..6 {
        gemm.product(power.matrix(3, 3)?, power.matrix(3, 3)?)
            .on(&stream)
            .workspace(&mut workspace)
            .enqueue_into(square.matrix_mut(3, 3)?)?;
        std::mem::swap(&mut power, &mut square);
    }
    // Copying waits for the products.
    let limit = power.download()?;
    println!("64 steps on, whatever the first state was: {:.4?}", &limit[..3]);
    for row in limit.chunks(3) {
        // The stationary distribution of that chain is 6/10, 3/10, 1/10.
        assert!(row.iter().zip([0.6, 0.3, 0.1]).all(|(got, expected)| (got - expected).abs() < 1e-3));
    }
    Ok(())
}
