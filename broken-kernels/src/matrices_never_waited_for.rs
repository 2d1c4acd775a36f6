//! A barrier is in every step, but nobody waits for the copies before `ldmatrix` reads what they bring.

use crate::tensor_tiles::{Part, Worker, STAGES, WORDS};
use crate::*;
use kernel_common::copies::{commit_group, copy_vector_or_zeros, wait_group};
use kernel_common::tensor_cores::{load_matrices, load_matrices_transposed};
use kernel_common::vectors::shared_address;

/// What is wrong here.
pub const MISTAKE: Mistake = Mistake {
    name: "matrices_never_waited_for",
    right: "matrices_never_waited_for_right",
    title: "nobody waits for the copies before fragments are loaded",
    launch: Launch::Tiles,
    before: Before::Unwritten,
    factors: ElementType::Bf16,
    is_product: true,
    shows: Shows::Always,
    found: &[
        Found::between(Kind::ReadAfterWrite, "copy", "read a"),
        Found::between(Kind::ReadAfterWrite, "copy", "read b"),
    ],
};

entries!(matrices_never_waited_for, matrices_never_waited_for_right);

#[inline(always)]
unsafe fn work<const BROKEN: bool>(a: *const f32, b: *const f32, c: *mut f32, m: usize, n: usize, k: usize) {
    let tiles = shared_address(shared_array![f32; WORDS]);
    let worker = Worker::new(a, b, [m, n, k]);
    let start = |step: usize| {
        let Part { to, from, bytes } = worker.part(step);
        if worker.copies() {
            copy_vector_or_zeros(tiles + to, from, bytes); // <- copy
        }
        commit_group();
    };
    start(0);
    start(1);
    let mut sums = [[0.0; 4]; 2];
    for step in 0..k.div_ceil(TILE) {
        if !BROKEN {
            wait_group::<{ STAGES - 2 }>();
        }
        thread::sync_threads();
        start(step + 2);
        if worker.multiplies() {
            let a = load_matrices(tiles + worker.row_of_a(step)); // <- read a
            let b = load_matrices_transposed(tiles + worker.row_of_b(step)); // <- read b
            sums = Worker::multiply_add(a, b, sums);
        }
    }
    wait_group::<0>();
    if worker.multiplies() {
        worker.store(c, sums);
    }
}
