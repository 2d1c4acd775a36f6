//! What the tests share: the devices to run on, and the table of shapes that every kernel must get right.
#![allow(dead_code, reason = "each test file uses its own part of this module")]

pub mod case;

use assert_cmd::Command;
use gpu_kernels::{KERNELS, Kernel};
use host::{
    device::{Device, DeviceSelector},
    gemm::ensure_sizes,
};

/// (m, n, k) that every kernel is tested over: single elements, primes, tile edges, skinny, deep, and empty in each
/// dimension.
pub const SHAPES: &[(usize, usize, usize)] = &[
    (1, 1, 1),
    (2, 3, 5),
    (7, 11, 13),
    (15, 15, 15),
    (16, 16, 16),
    (17, 17, 17),
    (15, 16, 17),
    (17, 15, 16),
    (31, 33, 32),
    (61, 67, 71),
    (128, 128, 128),
    // edges of tiles of 128, with rows that begin at multiples of 16 bytes, and with others
    (129, 131, 9),
    (132, 260, 28),
    (256, 128, 64),
    (130, 132, 130),
    // one row, one column
    (1, 127, 64),
    (127, 1, 64),
    (1, 1, 300),
    // skinny
    (3, 500, 20),
    (500, 3, 20),
    // outer products
    (33, 35, 1),
    (1, 40, 1),
    // deep
    (2, 3, 20_011),
    (17, 16, 4_096),
    // empty: nothing to compute, or all zeros
    (0, 5, 7),
    (5, 0, 7),
    (5, 7, 0),
    (0, 0, 0),
];

/// The simulator always, and the first GPU where there is one.
pub fn devices() -> Vec<Device> {
    let simulator = Device::open(DeviceSelector::Simulator).expect("the simulator is always there");
    let gpu = Device::open(DeviceSelector::Cuda(None)).ok();
    [simulator].into_iter().chain(gpu).collect()
}

/// Whether `device` runs a kernel.
pub fn runs(device: &Device, kernel: &Kernel) -> bool {
    kernel.architecture.runs_on(device.machine().compute_capability)
}

/// The kernels of the book that `device` runs and that take matrices of the sizes m, n and k without gaps, as most do.
pub fn kernels_for(device: &Device, sizes: [usize; 3]) -> impl Iterator<Item = &'static Kernel> {
    KERNELS.iter().filter(move |kernel| runs(device, kernel) && ensure_sizes(kernel, sizes).is_ok())
}

/// The binary, as a user starts it.
pub fn host() -> Command {
    Command::cargo_bin("host").expect("cargo builds the binary before its tests")
}
