//! Which tile of C a block works on.

/// The first row and column of the tile of block `block`, its index along x.
///
/// The grid is flat along x. Blocks start about in the order of their numbers, and those that run at the same time share
/// what they read in the second-level cache: a row of tiles shares A's rows, a column of tiles shares B's columns. So the
/// tiles are numbered in groups of `group` rows, column by column within a group: the blocks that run together are a
/// piece of C that is about as high as wide, and read the least for its size.
///
/// ```text
///   group = 2:     0  2  4  6
///                  1  3  5  7
///                  8 10 12 14
///                  9 11 13 15
/// ```
///
/// # Safety
///
/// `m`, `n` and `group` must not be 0, and `block` less than the number of tiles.
#[inline(always)]
pub unsafe fn first_element(block: u32, m: u32, n: u32, tile_m: usize, tile_n: usize, group: u32) -> (u32, u32) {
    let (rows, columns) = (m.div_ceil(tile_m as u32), n.div_ceil(tile_n as u32));
    let per_group = group.wrapping_mul(columns);
    // Without these promises, a division comes with a test for 0 and a panic.
    core::hint::assert_unchecked(per_group != 0);
    let (index, first_row) = (block % per_group, block / per_group * group);
    // The last group may have fewer rows.
    let rows = core::cmp::min(group, rows.wrapping_sub(first_row));
    core::hint::assert_unchecked(rows != 0);
    ((first_row + index % rows) * tile_m as u32, index / rows * tile_n as u32)
}
