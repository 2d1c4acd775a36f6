//! Classes of products that one choice of kernel serves: a grid over the sizes, and how A and B are copied.
//!
//! Each of m, n and k is taken to the nearest power of two of [`SIZES`] (nearest by ratio: 1448 is as far from 1024 as from
//! 2048). The powers stand closer together from 256 on, where a factor of two decides how many multiprocessors have work;
//! below 64 a tile has rows to spare anyway. With the 7 pairs of ways to copy A and B that makes 7 x 512 classes. Those are
//! tuned that a GPU is through with in a moment (at most [`MOST_MULTIPLY_ADDS`]); larger products get the model's choice.

use production_kernels::{Copying, entries::WAYS};
use serde::{Deserialize, Serialize};

use crate::plan::{self, Layout, Problem};

/// The sizes of the grid.
pub const SIZES: [usize; 8] = [16, 64, 256, 512, 1024, 2048, 4096, 8192];

/// The multiply-adds of the largest product that is timed: about 20 ms on an H200.
pub const MOST_MULTIPLY_ADDS: u128 = 1 << 39;

/// How A or B is copied, which follows from how it lies in memory; see [`production_kernels::Copying`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Way {
    /// K is contiguous.
    AlongK,
    /// The other dimension is contiguous, aligned to 16 bytes.
    Vectors,
    /// The other dimension is contiguous, and not aligned.
    Words,
}

impl Way {
    /// The way as tables have it.
    pub fn name(self) -> &'static str {
        match self {
            Way::AlongK => "along K",
            Way::Vectors => "vectors",
            Way::Words => "words",
        }
    }
}

impl From<Copying> for Way {
    fn from(copying: Copying) -> Way {
        match copying {
            Copying::AlongK => Way::AlongK,
            Copying::Vectors => Way::Vectors,
            Copying::Words => Way::Words,
        }
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
    /// How A is copied.
    pub a: Way,
    /// How B is copied.
    pub b: Way,
}

impl Class {
    /// The class of a product.
    pub fn of(problem: &Problem) -> Class {
        let Problem { m, n, k, a, b, .. } = *problem;
        let ways = [plan::copying_of_a(a), plan::copying_of_b(b)].map(Way::from);
        // As the kernels have it: vectors beside words are copied as words too.
        let [a, b] = if ways.contains(&Way::Words) {
            ways.map(|way| if way == Way::Vectors { Way::Words } else { way })
        } else {
            ways
        };
        Class { m: nearest(m), n: nearest(n), k: nearest(k), a, b }
    }

    /// The product to measure it with. Where rows or columns aren't aligned, there is one less of their elements than the
    /// power of two, so that this is so.
    pub fn problem(&self) -> Problem {
        let off = |way: Way| usize::from(way == Way::Words);
        let (m, n) = (self.m - off(self.a), self.n - off(self.b));
        let layout = |by_columns: bool, way: Way| {
            let aligned = way != Way::Words;
            Layout { by_columns, mappable: aligned, aligned }
        };
        let a = layout(self.a != Way::AlongK, self.a);
        let b = layout(self.b == Way::AlongK, self.b);
        let plain = !a.by_columns && !b.by_columns;
        Problem { m, n, k: self.k, a, b, batch: 1, plain }
    }

    /// Whether it is one of the grid: a file that somebody else wrote may name others.
    pub fn is_known(&self) -> bool {
        [self.m, self.n, self.k].iter().all(|size| SIZES.contains(size))
            && WAYS.iter().any(|&(a, b)| (Way::from(a), Way::from(b)) == (self.a, self.b))
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
        let of_way = |(a, b): (Copying, Copying)| {
            let (a, b) = (Way::from(a), Way::from(b));
            sizes.iter().map(move |&[m, n, k]| Class { m, n, k, a, b })
        };
        WAYS.into_iter().flat_map(of_way).collect()
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
            let problem = class.problem();
            assert_eq!(Class::of(&problem), class);
            assert!(class.is_known());
            assert!(class.a != Way::Words || problem.m % 4 != 0, "{class:?}");
            assert!(class.b != Way::Words || problem.n % 4 != 0, "{class:?}");
        }
    }

    #[test]
    fn an_operand_of_vectors_beside_one_of_words_is_copied_as_words() {
        let class = Class { m: 64, n: 64, k: 64, a: Way::Vectors, b: Way::Words };
        assert!(!class.is_known());
        assert_eq!(Class::of(&class.problem()), Class { a: Way::Words, ..class });
    }

    #[test]
    fn squares_of_row_major_matrices_are_tuned_first_and_no_class_twice() {
        let classes = Class::all();
        assert!(classes[..SIZES.len()].iter().all(|class| class.m == class.n && class.n == class.k));
        assert!(classes[..SIZES.len()].iter().all(|class| class.a == Way::AlongK && class.b == Way::Vectors));
        let mut sorted = classes.clone();
        sorted.sort_unstable();
        sorted.dedup();
        assert_eq!(sorted.len(), classes.len());
    }
}
