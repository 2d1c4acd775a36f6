//! Classes of products that one choice of kernel serves: a grid over the sizes, and how A and B lie in memory.
//!
//! Each of m, n and k is taken to the nearest power of two of [`SIZES`] (nearest by ratio: 1448 is as far from 1024 as from
//! 2048). The powers stand closer together from 256 on, where a factor of two decides how many multiprocessors have work;
//! below 64 a tile has rows to spare anyway. With the layout and the alignment of A and of B, which decide the way they are copied,
//! that makes 16 x 512 classes. Those are tuned that a GPU is through with in a moment (at most [`MOST_MULTIPLY_ADDS`]) and
//! whose A and B are both aligned or both not; products of the others get the model's choice.

use serde::{Deserialize, Serialize};

/// The sizes of the grid.
pub const SIZES: [usize; 8] = [16, 64, 256, 512, 1024, 2048, 4096, 8192];

/// The multiply-adds of the largest product that is timed: about 20 ms on an H200.
pub const MOST_MULTIPLY_ADDS: u128 = 1 << 39;

/// How A or B lies in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Layout {
    /// Rows are contiguous, and each begins at a multiple of 16 bytes.
    Rows,
    /// Rows are contiguous, and begin anywhere.
    UnalignedRows,
    /// Columns are contiguous, and each begins at a multiple of 16 bytes.
    Columns,
    /// Columns are contiguous, and begin anywhere.
    UnalignedColumns,
}

impl Layout {
    /// The layout with these properties.
    pub fn new(by_columns: bool, aligned: bool) -> Layout {
        match (by_columns, aligned) {
            (false, true) => Layout::Rows,
            (false, false) => Layout::UnalignedRows,
            (true, true) => Layout::Columns,
            (true, false) => Layout::UnalignedColumns,
        }
    }

    /// Whether the elements of a column are contiguous, instead of those of a row.
    pub fn by_columns(self) -> bool {
        matches!(self, Layout::Columns | Layout::UnalignedColumns)
    }

    /// Whether every row, or column, begins at a multiple of 16 bytes.
    pub fn aligned(self) -> bool {
        matches!(self, Layout::Rows | Layout::Columns)
    }
}

/// A class, named by the sizes of its product in the middle.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Class {
    /// Rows of C, one of [`SIZES`].
    pub m: usize,
    /// Columns of C, one of [`SIZES`].
    pub n: usize,
    /// The inner dimension, one of [`SIZES`].
    pub k: usize,
    /// A's layout.
    pub a: Layout,
    /// B's layout.
    pub b: Layout,
}

impl Class {
    /// The class of an `m` x `k` by `k` x `n` product.
    pub fn of(m: usize, n: usize, k: usize, a: Layout, b: Layout) -> Class {
        Class { m: nearest(m), n: nearest(n), k: nearest(k), a, b }
    }

    /// The sizes m, n and k to measure it with. Where rows or columns begin anywhere, they are one less than the power of
    /// two, so that this is so.
    pub fn sizes(&self) -> [usize; 3] {
        let off = usize::from(!self.a.aligned() || !self.b.aligned());
        [self.m - off, self.n - off, self.k - off]
    }

    /// Whether it is one of the grid: a file that somebody else wrote may name others.
    pub fn is_known(&self) -> bool {
        [self.m, self.n, self.k].iter().all(|size| SIZES.contains(size))
    }

    /// The classes to tune: those of packed row-major matrices first, then transposes, then what isn't aligned; in each of these
    /// squares before the rest, so that an interrupted tuning has what is asked for most.
    pub fn all() -> Vec<Class> {
        let sides = |size: usize| SIZES.map(move |next| (size, next));
        let mut sizes: Vec<[usize; 3]> =
            SIZES.into_iter().flat_map(sides).flat_map(|(m, n)| SIZES.map(|k| [m, n, k])).collect();
        sizes.retain(|[m, n, k]| *m as u128 * *n as u128 * *k as u128 <= MOST_MULTIPLY_ADDS);
        // From one size to the next the grid has steps: how many there are between the sides says how far from a square.
        let step = |size: usize| SIZES.iter().position(|known| *known == size).unwrap_or(0);
        sizes.sort_by_key(|sides| {
            let steps = sides.map(step);
            steps.iter().max().unwrap_or(&0) - steps.iter().min().unwrap_or(&0)
        });
        let mut classes = Vec::new();
        for aligned in [true, false] {
            for (a_by_columns, b_by_columns) in [(false, false), (false, true), (true, false), (true, true)] {
                let (a, b) = (Layout::new(a_by_columns, aligned), Layout::new(b_by_columns, aligned));
                classes.extend(sizes.iter().map(|&[m, n, k]| Class { m, n, k, a, b }));
            }
        }
        classes
    }
}

/// The size of the grid that is nearest by ratio.
fn nearest(size: usize) -> usize {
    // Between two neighbours the border is their geometric mean: size^2 = product.
    let border = |pair: &[usize]| (size as u128).pow(2) >= pair[0] as u128 * pair[1] as u128;
    SIZES[SIZES.windows(2).take_while(|pair| border(pair)).count()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_size_goes_to_the_nearest_of_the_grid_by_ratio() {
        for size in SIZES {
            assert_eq!(nearest(size), size);
            assert_eq!(nearest(size - 1), size);
        }
        assert_eq!([nearest(1448), nearest(1449)], [1024, 2048]);
        assert_eq!([nearest(0), nearest(31), nearest(32), nearest(usize::MAX)], [16, 16, 64, 8192]);
    }

    #[test]
    fn the_product_that_a_class_is_measured_with_is_of_that_class() {
        for class in Class::all() {
            let [m, n, k] = class.sizes();
            assert_eq!(Class::of(m, n, k, class.a, class.b), class);
            assert!(class.is_known());
            if !class.a.aligned() {
                assert!(k % 4 != 0 && m % 4 != 0, "{class:?}");
            }
        }
    }

    #[test]
    fn squares_of_packed_matrices_are_tuned_first_and_no_class_twice() {
        let classes = Class::all();
        assert!(
            classes[..SIZES.len()].iter().all(|class| class.m == class.n && class.n == class.k),
            "{:?}",
            &classes[..9]
        );
        assert!(classes[..SIZES.len()].iter().all(|class| class.a == Layout::Rows && class.b == Layout::Rows));
        let mut sorted = classes.clone();
        sorted.sort_unstable();
        sorted.dedup();
        assert_eq!(sorted.len(), classes.len());
    }
}
