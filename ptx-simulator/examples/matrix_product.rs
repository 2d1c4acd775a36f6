//! Loads a PTX file, allocates, launches, reads back: the product of two square matrices.
//!
//! ```text
//! cargo run --release -p ptx-simulator --example matrix_product -- kernels.ptx [kernel] [size] [threads]
//! ```
//! The kernel must take `(a, b, c, m, n, k)` with 64-bit sizes and compute one element per thread of 16 x 16 blocks.

use std::error::Error;
use std::process::ExitCode;
use std::time::Instant;

use ptx_simulator::{Argument, LaunchConfig, Module, Simulator};

const TILE: usize = 16;

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::from(2)
        }
    }
}

fn run() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let path = arguments
        .next()
        .ok_or("the path of a PTX file is needed; `cargo run -p host -- ptx > kernels.ptx` makes one")?;
    let kernel = arguments.next().unwrap_or_else(|| "tiled".to_owned());
    let size: usize = arguments.next().map_or(Ok(256), |text| text.parse())?;
    let threads: usize = arguments.next().map_or(Ok(0), |text| text.parse())?;

    let module = Module::parse(&std::fs::read_to_string(path)?)?;
    for kernel in module.kernels() {
        println!("{}: {} bytes of shared memory", kernel.name, kernel.static_shared_bytes);
    }

    // Small integers, so that every sum is exact and any order of summation gives the same.
    let a: Vec<f32> = (0..size * size).map(|index| (index * 7 % 11) as f32 - 5.0).collect();
    let b: Vec<f32> = (0..size * size).map(|index| (index * 5 % 13) as f32 - 6.0).collect();
    let bytes = |matrix: &[f32]| matrix.iter().flat_map(|value| value.to_le_bytes()).collect::<Vec<u8>>();

    let mut simulator = Simulator::builder().threads(threads).build();
    let length = (size * size * size_of::<f32>()) as u64;
    let (device_a, device_b, device_c) =
        (simulator.allocate(length)?, simulator.allocate(length)?, simulator.allocate(length)?);
    simulator.write(device_a, &bytes(&a))?;
    simulator.write(device_b, &bytes(&b))?;

    let blocks = size.div_ceil(TILE) as u32;
    let config =
        LaunchConfig { grid: [blocks, blocks, 1], block: [TILE as u32, TILE as u32, 1], dynamic_shared_bytes: 0 };
    let extent = Argument::U64(size as u64);
    let start = Instant::now();
    simulator.launch(
        &module,
        &kernel,
        config,
        &[
            Argument::Pointer(device_a),
            Argument::Pointer(device_b),
            Argument::Pointer(device_c),
            extent,
            extent,
            extent,
        ],
    )?;
    let seconds = start.elapsed().as_secs_f64();

    let mut result = vec![0; length as usize];
    simulator.read(device_c, &mut result)?;
    let result: Vec<f32> = result.chunks_exact(4).map(|word| f32::from_le_bytes(word.try_into().unwrap())).collect();
    for row in (0..size).step_by(37) {
        for column in 0..size {
            let expected: f32 = (0..size).map(|k| a[row * size + k] * b[k * size + column]).sum();
            let got = result[row * size + column];
            if got != expected {
                return Err(format!("c[{row}][{column}] is {got}, expected {expected}").into());
            }
        }
    }
    let products = (size as f64).powi(3);
    println!(
        "{size} x {size}: right, {seconds:.3} s, {:.0} million multiply-adds per second",
        products / seconds / 1e6
    );
    Ok(())
}
