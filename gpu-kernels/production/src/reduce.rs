//! The second half of a split product: [adding up](kernel_common::reduce).

use cuda_std::*;
use kernel_common::elements::{Bf16, F16, F32};
use kernel_common::launch::{Architecture, Kernel};
use kernel_common::reduce::{add_up, kernel, THREADS};
use kernel_common::{entry_facts, Call};

pub use kernel_common::reduce::launch_shape;

/// What the host needs to know to launch [`reduce`].
pub const KERNEL: Kernel = kernel("reduce", Architecture::Compute80);
/// The same for a C of bf16.
pub const TO_BF16: Kernel = kernel("reduce_to_bf16", Architecture::Compute80);
/// The same for a C of f16.
pub const TO_F16: Kernel = kernel("reduce_to_f16", Architecture::Compute80);

entry_facts!(reduce, KERNEL);
entry_facts!(reduce_to_bf16, TO_BF16);
entry_facts!(reduce_to_f16, TO_F16);

/// C = alpha (the sum of the splits' matrices in the workspace) + beta C, for a C of f32.
///
/// # Safety
///
/// As for [`add_up`].
#[kernel]
pub unsafe fn reduce(call: Call) {
    let partial = shared_array![f32; THREADS];
    add_up::<F32>(&call, partial);
}

/// C = alpha (the sum of the splits' matrices in the workspace) + beta C, for a C of bf16.
///
/// # Safety
///
/// As for [`add_up`].
#[kernel]
pub unsafe fn reduce_to_bf16(call: Call) {
    let partial = shared_array![f32; THREADS];
    add_up::<Bf16>(&call, partial);
}

/// C = alpha (the sum of the splits' matrices in the workspace) + beta C, for a C of f16.
///
/// # Safety
///
/// As for [`add_up`].
#[kernel]
pub unsafe fn reduce_to_f16(call: Call) {
    let partial = shared_array![f32; THREADS];
    add_up::<F16>(&call, partial);
}
