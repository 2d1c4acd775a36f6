//! Every block adds its part to one element of C with a plain addition. Blocks that do so at the same time lose each
//! other's parts; a block's barriers say nothing to other blocks.

use crate::*;

/// What is wrong here.
pub const MISTAKE: Mistake = Mistake {
    name: "blocks_add_to_one_element",
    right: "blocks_add_to_one_element_right",
    title: "all blocks add to one element without atomics",
    launch: Launch::Tiles,
    before: Before::Zeros,
    factors: ElementType::F32,
    is_product: false,
    shows: Shows::Always,
    found: &[Found::between(Kind::WriteAfterRead, "add", "add"), Found::between(Kind::WriteAfterWrite, "add", "add")],
};

entries!(blocks_add_to_one_element, blocks_add_to_one_element_right);

#[inline(always)]
unsafe fn work<const BROKEN: bool>(_a: *const f32, b: *const f32, c: *mut f32, m: usize, n: usize, k: usize) {
    let Here { x, y, row, column } = here();
    let inside = row < m && column < n;
    if x == 0 && y == 0 && inside && row < k {
        let part = *b.add(row * n + column);
        if BROKEN {
            *c += part; // <- add
        } else {
            atomic_add!("f32", c, part);
        }
    }
}
