//! The second half of a split product: [adding up](kernel_common::reduce), begun before the first half is through.

use cuda_std::*;
use kernel_common::elements::{Bf16, F16, F32};
use kernel_common::launch::{Architecture, Kernel};
use kernel_common::reduce::{add_up, kernel, THREADS};
use kernel_common::{entry_facts, grids, Call};

/// What the host needs to know to launch [`add_splits`].
pub const KERNEL: Kernel = kernel("add_splits", Architecture::Compute90a);
/// The same for a C of bf16.
pub const TO_BF16: Kernel = kernel("add_splits_to_bf16", Architecture::Compute90a);
/// The same for a C of f16.
pub const TO_F16: Kernel = kernel("add_splits_to_f16", Architecture::Compute90a);

entry_facts!(add_splits, KERNEL);
entry_facts!(add_splits_to_bf16, TO_BF16);
entry_facts!(add_splits_to_f16, TO_F16);

/// C = alpha (the sum of the splits' matrices in the workspace) + beta C, for a C of f32.
///
/// # Safety
///
/// As for [`add_up`].
#[kernel]
pub unsafe fn add_splits(call: Call) {
    let partial = shared_array![f32; THREADS];
    grids::let_the_next_grid_begin();
    grids::wait_for_the_grid_before();
    add_up::<F32>(&call, partial);
}

/// C = alpha (the sum of the splits' matrices in the workspace) + beta C, for a C of bf16.
///
/// # Safety
///
/// As for [`add_up`].
#[kernel]
pub unsafe fn add_splits_to_bf16(call: Call) {
    let partial = shared_array![f32; THREADS];
    grids::let_the_next_grid_begin();
    grids::wait_for_the_grid_before();
    add_up::<Bf16>(&call, partial);
}

/// C = alpha (the sum of the splits' matrices in the workspace) + beta C, for a C of f16.
///
/// # Safety
///
/// As for [`add_up`].
#[kernel]
pub unsafe fn add_splits_to_f16(call: Call) {
    let partial = shared_array![f32; THREADS];
    grids::let_the_next_grid_begin();
    grids::wait_for_the_grid_before();
    add_up::<F16>(&call, partial);
}
