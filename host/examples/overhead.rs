//! What a library call costs the host beyond a bare launch of the same kernel: medians of single calls for 64 x 64 x 64.
//!
//! `cargo run --release -p host --example overhead`, on a GPU.

use std::{
    ffi::c_void,
    ptr,
    time::{Duration, Instant},
};

use cust::{module::Module, sys};
use host::{
    device::{Device, DeviceSelector},
    gemm::Gemm,
    ptx,
};
use kernel_common::Call;

const SIZE: usize = 64;
/// Calls in a row: so few that the GPU's queue has room for them, and the calls don't wait for the GPU.
const BURST: usize = 200;
const BURSTS: usize = 50;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    run(&Gemm::new(Device::open(DeviceSelector::Auto)?))
}

pub fn run(gemm: &Gemm) -> Result<(), Box<dyn std::error::Error>> {
    let device = gemm.device();
    let Some(stream) = device.default_stream().cuda_stream()? else {
        println!("a launch on the simulator runs the kernel, so that there is no overhead to measure");
        return Ok(());
    };
    let (a, b) = (device.upload(&[1.0f32; SIZE * SIZE])?, device.upload(&[1.0f32; SIZE * SIZE])?);
    let mut c = device.upload(&[0.0f32; SIZE * SIZE])?;
    let plan = gemm.product(a.matrix(SIZE, SIZE)?, b.matrix(SIZE, SIZE)?).plan()?;
    let shape = (plan.kernel.launch_shape)(SIZE, SIZE, SIZE).ok_or("there is no launch")?;
    println!("{} on {}, {} splits", plan.kernel.name, device.info().name, plan.splits);
    gemm.product(a.matrix(SIZE, SIZE)?, b.matrix(SIZE, SIZE)?).enqueue_into(c.matrix_mut(SIZE, SIZE)?)?;
    assert!(c.download()?.iter().all(|&element| element == SIZE as f32));

    // The same kernel once more, by the driver's functions alone. The stream's context is current since it was asked for.
    let module = Module::from_ptx(ptx::of_entry(plan.kernel.entry).ok_or("it has no PTX")?, &[])?;
    let function = module.get_function(plan.kernel.entry)?.to_raw();
    let attribute = sys::CUfunction_attribute_enum::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
    // SAFETY: the function's module is loaded.
    let status = unsafe { sys::cuFuncSetAttribute(function, attribute, shape.dynamic_shared_bytes as i32) };
    assert_eq!(status as i32, 0);
    let size = SIZE as u64;
    let mut call = Call {
        a: ptr::without_provenance(a.address() as usize),
        b: ptr::without_provenance(b.address() as usize),
        c: ptr::without_provenance_mut(c.address() as usize),
        a_list: ptr::null(),
        b_list: ptr::null(),
        c_list: ptr::null(),
        workspace: ptr::null_mut(),
        a_row: size,
        a_column: 1,
        b_row: size,
        b_column: 1,
        c_row: size,
        a_batch: 0,
        b_batch: 0,
        c_batch: 0,
        m: SIZE as u32,
        n: SIZE as u32,
        k: SIZE as u32,
        k_per_split: SIZE as u32,
        group: 1,
        alpha: 1.0,
        beta: 0.0,
        reserved: 0,
    };
    let mut bare = || {
        let mut parameters = [ptr::from_mut(&mut call).cast::<c_void>()];
        let ([x, y, z], [width, height, depth]) = (shape.grid, shape.block);
        // SAFETY: the kernel takes a Call, which says where the matrices are; they are as large as it says.
        let status = unsafe {
            let (shared, parameters) = (shape.dynamic_shared_bytes, parameters.as_mut_ptr());
            sys::cuLaunchKernel(
                function,
                x,
                y,
                z,
                width,
                height,
                depth,
                shared,
                stream.cast(),
                parameters,
                ptr::null_mut(),
            )
        };
        assert_eq!(status as i32, 0);
    };
    let mut library = || {
        let (a, b) = (a.matrix(SIZE, SIZE).unwrap(), b.matrix(SIZE, SIZE).unwrap());
        gemm.product(a, b).enqueue_into(c.matrix_mut(SIZE, SIZE).unwrap()).unwrap();
    };

    let (mut bare_times, mut library_times) = (Vec::new(), Vec::new());
    for _ in 0..BURSTS {
        burst(&mut bare, &mut bare_times);
        device.synchronise()?;
        burst(&mut library, &mut library_times);
        device.synchronise()?;
    }
    let (bare, library) = (percentiles(bare_times), percentiles(library_times));
    let microseconds = |time: Duration| time.as_secs_f64() * 1e6;
    println!("                        median   90 % under");
    for (what, [median, most]) in [("a bare cuLaunchKernel", bare), ("the library's call", library)] {
        println!("{what:22} {:5.2} us     {:5.2} us", microseconds(median), microseconds(most));
    }
    println!("difference of medians: {:.2} us", microseconds(library[0]) - microseconds(bare[0]));
    Ok(())
}

fn burst(launch: &mut impl FnMut(), times: &mut Vec<Duration>) {
    for _ in 0..BURST {
        let start = Instant::now();
        launch();
        times.push(start.elapsed());
    }
}

fn percentiles(mut times: Vec<Duration>) -> [Duration; 2] {
    times.sort();
    [times[times.len() / 2], times[times.len() * 9 / 10]]
}
