//! Matrices [packed](kernel_common::pack) where no tensor map can describe them as they lie.

use cuda_std::*;
use kernel_common::launch::{Architecture, Kernel};
use kernel_common::pack::{kernel, pack, PackCall, SHARED_WORDS};
use kernel_common::{entry_facts, grids, vectors};

/// Packs matrices of 16-bit elements.
pub const HALVES: Kernel = kernel("pack_halves", Architecture::Compute90a);
/// Packs matrices of f32.
pub const WORDS: Kernel = kernel("pack_words", Architecture::Compute90a);

entry_facts!(pack_halves, HALVES);
entry_facts!(pack_words, WORDS);

/// Packs two factors of 16-bit elements.
///
/// # Safety
///
/// As for [`pack`].
#[kernel]
pub unsafe fn pack_halves(a: PackCall, b: PackCall) {
    let tile = shared_array![f32; SHARED_WORDS];
    grids::let_the_next_grid_begin();
    grids::wait_for_the_grid_before();
    let load = |from| f32::from_bits(vectors::load_global_half(from) as u32);
    let store = |to, x: f32| vectors::store_global_half(to, x.to_bits() as u16);
    pack::<2, 2>(&a, &b, vectors::shared_address(tile), load, store);
}

/// Packs two factors of f32.
///
/// # Safety
///
/// As for [`pack`].
#[kernel]
pub unsafe fn pack_words(a: PackCall, b: PackCall) {
    let tile = shared_array![f32; SHARED_WORDS];
    grids::let_the_next_grid_begin();
    grids::wait_for_the_grid_before();
    let load = |from| vectors::load_global_word(from);
    pack::<4, 4>(&a, &b, vectors::shared_address(tile), load, |to, x| vectors::store_global_word(to, x));
}
