//! Only the left half of the block adds up pairs, so the barrier before the addition went into its branch, and the
//! right half never comes to it. Today's GPUs go on once the others have left the kernel, so it works until something
//! follows.

use crate::*;

/// What is wrong here.
pub const MISTAKE: Mistake = Mistake {
    name: "barrier_in_branch",
    right: "barrier_in_branch_right",
    title: "a barrier inside a branch that half of the block takes",
    launch: Launch::Tiles,
    before: Before::Unwritten,
    factors: ElementType::F32,
    is_product: false,
    shows: Shows::Always,
    found: &[Found::at(Kind::DivergentBarrier, "barrier")],
};

entries!(barrier_in_branch, barrier_in_branch_right);

#[inline(always)]
unsafe fn work<const BROKEN: bool>(a: *const f32, _b: *const f32, c: *mut f32, m: usize, n: usize, k: usize) {
    let tile = shared_array![f32; TILE * TILE];
    let Here { x, y, row, column } = here();
    let inside = row < m && column < k;
    *tile.add(y * TILE + x) = if inside { *a.add(row * k + column) } else { 0.0 };
    if !BROKEN {
        thread::sync_threads();
    }
    if x < TILE / 2 {
        if BROKEN {
            thread::sync_threads(); // <- barrier
        }
        let sum = *tile.add(y * TILE + x) + *tile.add(y * TILE + x + TILE / 2);
        if row < m && column < n {
            *c.add(row * n + column) = sum;
        }
    }
}
