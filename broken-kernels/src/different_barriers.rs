//! The halves of the block take different branches, and each has a barrier of its own. The hardware counts arrivals and
//! lets them all go on, as if they had met at one; CUDA and PTX forbid it, and a compiler may rely on that.

use crate::*;

/// What is wrong here.
pub const MISTAKE: Mistake = Mistake {
    name: "different_barriers",
    right: "different_barriers_right",
    title: "two halves of the block wait at two different barriers",
    launch: Launch::Tiles,
    before: Before::Unwritten,
    factors: ElementType::F32,
    is_product: false,
    shows: Shows::Always,
    found: &[Found::between(Kind::DifferentBarriers, "upper", "lower")],
};

entries!(different_barriers, different_barriers_right);

#[inline(always)]
unsafe fn work<const BROKEN: bool>(a: *const f32, _b: *const f32, c: *mut f32, m: usize, n: usize, k: usize) {
    let tile = shared_array![f32; TILE * TILE];
    let Here { x, y, row, column } = here();
    let inside = row < m && column < k;
    let element = if inside { *a.add(row * k + column) } else { 0.0 };
    *tile.add(y * TILE + x) = element;
    if !BROKEN {
        thread::sync_threads();
    }
    let result = if y < TILE / 2 {
        if BROKEN {
            thread::sync_threads(); // <- upper
        }
        element + *tile.add((TILE - 1 - y) * TILE + x)
    } else {
        if BROKEN {
            thread::sync_threads(); // <- lower
        }
        element - *tile.add((TILE - 1 - y) * TILE + x)
    };
    if row < m && column < n {
        *c.add(row * n + column) = result;
    }
}
