//! 16-bit matrices [packed](kernel_common::pack) as f32, for GPUs whose tensor cores have no kernel for them.

use cuda_std::*;
use kernel_common::elements::{Bf16, Half, F16};
use kernel_common::launch::{Architecture, Kernel};
use kernel_common::pack::{kernel, pack, PackCall, SHARED_WORDS};
use kernel_common::{entry_facts, vectors};

/// Packs matrices of bf16 as f32.
pub const BF16_AS_F32: Kernel = kernel("pack_bf16_as_f32", Architecture::Compute80);
/// Packs matrices of f16 as f32.
pub const F16_AS_F32: Kernel = kernel("pack_f16_as_f32", Architecture::Compute80);

entry_facts!(pack_bf16_as_f32, BF16_AS_F32);
entry_facts!(pack_f16_as_f32, F16_AS_F32);

/// Packs two factors of bf16 as f32.
///
/// # Safety
///
/// As for [`pack`].
#[kernel]
pub unsafe fn pack_bf16_as_f32(a: PackCall, b: PackCall) {
    let tile = shared_array![f32; SHARED_WORDS];
    let load = |from| Bf16::widen(vectors::load_global_half(from));
    pack::<2, 4>(&a, &b, vectors::shared_address(tile), load, |to, x| vectors::store_global_word(to, x));
}

/// Packs two factors of f16 as f32.
///
/// # Safety
///
/// As for [`pack`].
#[kernel]
pub unsafe fn pack_f16_as_f32(a: PackCall, b: PackCall) {
    let tile = shared_array![f32; SHARED_WORDS];
    let load = |from| F16::widen(vectors::load_global_half(from));
    pack::<2, 4>(&a, &b, vectors::shared_address(tile), load, |to, x| vectors::store_global_word(to, x));
}
