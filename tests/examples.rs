//! The examples do what they say, on every device.
#![allow(dead_code, reason = "their main functions are for cargo run")]

mod common;

#[path = "../host/examples/batched.rs"]
mod batched;
#[path = "../host/examples/device_resident.rs"]
mod device_resident;
#[path = "../host/examples/host_matrices.rs"]
mod host_matrices;
#[path = "../host/examples/overhead.rs"]
mod overhead;

use std::error::Error;

use host::gemm::Gemm;

fn on_every_device(run: fn(&Gemm) -> Result<(), Box<dyn Error>>) {
    for device in common::devices() {
        run(&Gemm::new(device)).unwrap();
    }
}

#[test]
fn host_matrices_come_in_and_go_out() {
    on_every_device(host_matrices::run);
}

#[test]
fn device_resident_matrices_are_multiplied_without_a_copy() {
    on_every_device(device_resident::run);
}

#[test]
fn batches_are_multiplied_at_once() {
    on_every_device(batched::run);
}

#[test]
fn the_overhead_of_a_call_is_measured_where_there_is_a_gpu() {
    on_every_device(overhead::run);
}
