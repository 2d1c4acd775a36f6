//! Every warp arrives without having waited for its copies. The barrier then says that they were started.

use crate::*;
use kernel_common::barriers::{arrive, initialise, sync_warp, wait};
use kernel_common::copies::{commit_group, copy_word_or_zeros, wait_group};
use kernel_common::vectors::shared_address;

/// Pairs of tiles in shared memory.
const STAGES: usize = 2;
/// Warps of a block.
const WARPS: u32 = (TILE * TILE / 32) as u32;

/// What is wrong here.
pub const MISTAKE: Mistake = Mistake {
    name: "mbarrier_arrival_before_the_copies",
    right: "mbarrier_arrival_before_the_copies_right",
    title: "warps arrive while their copies are on their way",
    launch: Launch::Tiles,
    before: Before::Unwritten,
    factors: ElementType::F32,
    is_product: true,
    shows: Shows::Always,
    found: &[
        Found::between(Kind::ReadAfterWrite, "copy a", "read a"),
        Found::between(Kind::ReadAfterWrite, "copy b", "read b"),
    ],
};

entries!(mbarrier_arrival_before_the_copies, mbarrier_arrival_before_the_copies_right);

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
        copy_word_or_zeros(to_a + at, a.wrapping_add(row * k + a_column) as u64, a_bytes); // <- copy a
        copy_word_or_zeros(to_b + at, b.wrapping_add(b_row * n + column) as u64, b_bytes); // <- copy b
        commit_group();
    };
    let steps = k.div_ceil(TILE);
    let barrier = shared_address(shared_array![u64; 1]);
    let thread = y * TILE + x;
    let is_first_lane = thread.is_multiple_of(32);
    if thread == 0 {
        initialise(barrier, WARPS);
    }
    start(0, 0);
    wait_group::<0>();
    thread::sync_threads();

    let mut sum = 0.0;
    for step in 0..steps {
        start(step + 1, step + 1);
        let stage = step % STAGES * TILE * TILE;
        for i in 0..TILE {
            let a_element = *tiles_a.add(stage + y * TILE + i); // <- read a
            let b_element = *tiles_b.add(stage + i * TILE + x); // <- read b
            sum = a_element.mul_add(b_element, sum);
        }
        if !BROKEN {
            wait_group::<0>();
        }
        sync_warp();
        if is_first_lane {
            arrive(barrier);
        }
        wait(barrier, step as u32 % 2); // <- wait
    }
    wait_group::<0>();
    if row < m && column < n {
        *c.add(row * n + column) = sum;
    }
}
