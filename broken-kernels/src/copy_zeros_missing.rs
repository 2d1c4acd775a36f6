//! Past an edge nothing is copied at all, instead of zeros: a copy that doesn't take place leaves in the stage what was
//! there, nothing at first and an older tile later.

use crate::*;
use kernel_common::copies::{commit_group, copy_word, copy_word_or_zeros, wait_group};
use kernel_common::vectors::shared_address;

/// Pairs of tiles in shared memory.
const STAGES: usize = 3;

/// What is wrong here.
pub const MISTAKE: Mistake = Mistake {
    name: "copy_zeros_missing",
    right: "copy_zeros_missing_right",
    title: "past the edges nothing is copied instead of zeros",
    launch: Launch::Tiles,
    before: Before::Unwritten,
    factors: ElementType::F32,
    is_product: true,
    shows: Shows::AtEdges,
    found: &[Found::at(Kind::Uninitialised, "read a"), Found::at(Kind::Uninitialised, "read b")],
};

entries!(copy_zeros_missing, copy_zeros_missing_right);

#[inline(always)]
unsafe fn work<const BROKEN: bool>(a: *const f32, b: *const f32, c: *mut f32, m: usize, n: usize, k: usize) {
    let tiles_a = shared_array![f32; STAGES * TILE * TILE];
    let tiles_b = shared_array![f32; STAGES * TILE * TILE];
    let Here { x, y, row, column } = here();
    let (to_a, to_b) = (shared_address(tiles_a), shared_address(tiles_b));
    let start = |step: usize, stage: usize| {
        let (a_column, b_row) = (step * TILE + x, step * TILE + y);
        let at = ((stage % STAGES * TILE + y) * TILE + x) as u32 * 4;
        let (a_bytes, b_bytes) =
            (if row < m && a_column < k { 4 } else { 0 }, if b_row < k && column < n { 4 } else { 0 });
        let (from_a, from_b) = (a.wrapping_add(row * k + a_column) as u64, b.wrapping_add(b_row * n + column) as u64);
        if BROKEN {
            copy_word(to_a + at, from_a, a_bytes);
            copy_word(to_b + at, from_b, b_bytes);
        } else {
            copy_word_or_zeros(to_a + at, from_a, a_bytes);
            copy_word_or_zeros(to_b + at, from_b, b_bytes);
        }
        commit_group();
    };
    let steps = k.div_ceil(TILE);
    start(0, 0);
    start(1, 1);
    let mut sum = 0.0;
    for step in 0..steps {
        wait_group::<{ STAGES - 2 }>();
        thread::sync_threads();
        start(step + 2, step + 2);
        let stage = step % STAGES * TILE * TILE;
        for i in 0..TILE {
            let a_element = *tiles_a.add(stage + y * TILE + i); // <- read a
            let b_element = *tiles_b.add(stage + i * TILE + x); // <- read b
            sum = a_element.mul_add(b_element, sum);
        }
    }
    wait_group::<0>();
    if row < m && column < n {
        *c.add(row * n + column) = sum;
    }
}
