//! What is multiplied: sizes, transposes, batches; and the sets of products that are measured.

use std::{fmt, str::FromStr};

use gpu_kernels::{Precision, launch::ElementType};
use rand::{RngExt, SeedableRng, rngs::ChaCha12Rng};
use serde::{Serialize, Serializer};

use crate::{gemm::packed_layout, plan::Layout};

/// How a matrix stands in memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Operation {
    /// As it is meant: N.
    #[default]
    AsStored,
    /// Memory holds the transpose of what is meant: T.
    Transposed,
}

impl Operation {
    /// Whether it is [`Operation::Transposed`].
    pub fn is_transposed(self) -> bool {
        self == Operation::Transposed
    }

    /// Rows and columns in memory of a matrix that is `rows` x `columns` as meant.
    pub fn stored(self, rows: usize, columns: usize) -> (usize, usize) {
        if self.is_transposed() { (columns, rows) } else { (rows, columns) }
    }

    fn letter(self) -> char {
        if self.is_transposed() { 'T' } else { 'N' }
    }
}

/// `batch` products C = op(A) op(B) of row-major matrices without gaps, C being `m` x `n` and `k` the inner dimension.
///
/// Its precision is that of all problems of a comparison, and isn't written with it. Apart from that it's written as `MxNxK`, with `BATCH*` before it if there are several and, if a matrix is transposed, `:TN`, `:NT` or `:TT`
/// after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Problem {
    /// Rows of C.
    pub m: usize,
    /// Columns of C.
    pub n: usize,
    /// The inner dimension.
    pub k: usize,
    /// How A stands in memory.
    pub op_a: Operation,
    /// How B stands in memory.
    pub op_b: Operation,
    /// How many products.
    pub batch: usize,
    /// The precision: of what A and B consist.
    pub precision: Precision,
    /// Whether C has the elements of A and B, which have 16 bits, instead of f32.
    pub half_c: bool,
}

impl Problem {
    /// One product of matrices of f32 as they are stored.
    pub fn new(m: usize, n: usize, k: usize) -> Problem {
        let as_stored = Operation::AsStored;
        Problem { m, n, k, op_a: as_stored, op_b: as_stored, batch: 1, precision: Precision::F32, half_c: false }
    }

    /// A product of square matrices.
    pub fn square(size: usize) -> Problem {
        Problem::new(size, size, size)
    }

    /// The same in another precision.
    pub fn of(self, precision: Precision) -> Problem {
        Problem { precision, ..self }
    }

    /// The elements of C.
    pub fn output(&self) -> ElementType {
        if self.half_c { self.precision.factors() } else { ElementType::F32 }
    }

    /// Whether it is one product of matrices as they are stored, which every kernel of the book can do.
    pub fn is_plain(&self) -> bool {
        self.batch == 1 && self.is_as_stored()
    }

    /// Whether neither matrix is transposed.
    pub fn is_as_stored(&self) -> bool {
        !self.op_a.is_transposed() && !self.op_b.is_transposed()
    }

    /// How A and B lie in memory, there being no gaps.
    pub fn layouts(&self) -> [Layout; 2] {
        let factors = self.precision.factors();
        let layout =
            |operation: Operation, rows, columns| packed_layout(factors, rows, columns, operation.is_transposed());
        [layout(self.op_a, self.m, self.k), layout(self.op_b, self.k, self.n)]
    }

    /// Whether nothing would be computed.
    pub fn is_empty(&self) -> bool {
        [self.m, self.n, self.k, self.batch].contains(&0)
    }

    /// Multiply-adds of all products together.
    pub fn multiply_adds(&self) -> u128 {
        [self.m, self.n, self.k, self.batch].iter().fold(1, |product, &size| product.saturating_mul(size as u128))
    }

    /// Floating-point operations: a multiplication and an addition for each multiply-add.
    pub fn operations(&self) -> f64 {
        2.0 * self.multiply_adds() as f64
    }

    /// Elements of A, of B and of C, all products together; the largest number where that is too small.
    pub fn elements(&self) -> [u128; 3] {
        let all = |rows: usize, columns: usize| rows as u128 * columns as u128;
        [all(self.m, self.k), all(self.k, self.n), all(self.m, self.n)]
            .map(|elements| elements.saturating_mul(self.batch as u128))
    }

    /// Bytes of A, B and C in device memory.
    pub fn bytes(&self) -> u128 {
        let factors = self.precision.factors();
        self.bytes_of([factors, factors, self.output()])
    }

    /// Bytes of A, B and C in host memory, where all are of f32.
    pub fn host_bytes(&self) -> u128 {
        self.bytes_of([ElementType::F32; 3])
    }

    fn bytes_of(&self, types: [ElementType; 3]) -> u128 {
        let matrices = self.elements().into_iter().zip(types);
        matrices
            .fold(0, |sum, (elements, element)| sum.saturating_add(elements.saturating_mul(element.bytes() as u128)))
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Problem { m, n, k, op_a, op_b, batch, .. } = self;
        if *batch != 1 {
            write!(formatter, "{batch}*")?;
        }
        write!(formatter, "{m}x{n}x{k}")?;
        if op_a.is_transposed() || op_b.is_transposed() {
            write!(formatter, ":{}{}", op_a.letter(), op_b.letter())?;
        }
        Ok(())
    }
}

impl FromStr for Problem {
    type Err = String;

    fn from_str(text: &str) -> Result<Problem, String> {
        let refuse = || {
            format!(
                "'{}' is no shape: expected MxNxK, such as 100x37x64, with BATCH* before it for a batch and :TN, :NT or \
                 :TT after it for transposes",
                text.escape_debug()
            )
        };
        let (sizes, operations) = text.split_once(':').unwrap_or((text, "NN"));
        let (batch, sizes) = match sizes.split_once('*') {
            Some((batch, sizes)) => (batch.parse().map_err(|_| refuse())?, sizes),
            None => (1, sizes),
        };
        let sizes = sizes.split('x').map(str::parse).collect::<Result<Vec<usize>, _>>().map_err(|_| refuse())?;
        let [m, n, k] = <[usize; 3]>::try_from(sizes).map_err(|_| refuse())?;
        let operation = |letter| match letter {
            'N' | 'n' => Ok(Operation::AsStored),
            'T' | 't' => Ok(Operation::Transposed),
            _ => Err(refuse()),
        };
        let operations = operations.chars().map(operation).collect::<Result<Vec<_>, _>>()?;
        let [op_a, op_b] = <[Operation; 2]>::try_from(operations).map_err(|_| refuse())?;
        Ok(Problem { op_a, op_b, batch, ..Problem::new(m, n, k) })
    }
}

impl Serialize for Problem {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// The sizes that are measured when nobody asks for others.
pub const DEFAULT_SIZES: [usize; 5] = [256, 512, 1024, 2048, 4096];

/// Sets of products that are known by a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Set {
    /// Squares from 256 to 16384.
    Squares,
    /// 60 products of sizes of all kinds, see [`random`].
    Random,
    /// Few rows, few columns, a small inner dimension, and little of C with a large one.
    Skinny,
    /// Batches of small products.
    Batches,
    /// The four combinations of transposes, at 1024 and at 4096.
    Transposes,
}

impl Set {
    /// Every set with its name.
    pub const ALL: [(&str, Set); 5] = [
        ("squares", Set::Squares),
        ("random", Set::Random),
        ("skinny", Set::Skinny),
        ("batches", Set::Batches),
        ("transposes", Set::Transposes),
    ];

    /// Its products.
    pub fn problems(self, seed: u64) -> Vec<Problem> {
        let batch = |batch, size| Problem { batch, ..Problem::square(size) };
        match self {
            Set::Squares => DEFAULT_SIZES.into_iter().chain([8192, 16384]).map(Problem::square).collect(),
            Set::Random => random(60, seed),
            Set::Skinny => [(16, 8192, 8192), (8192, 16, 8192), (8192, 8192, 16), (64, 64, 65536)]
                .map(|(m, n, k)| Problem::new(m, n, k))
                .to_vec(),
            Set::Batches => vec![batch(1000, 64), batch(100, 256)],
            Set::Transposes => {
                let both = [Operation::AsStored, Operation::Transposed];
                let pairs = both.into_iter().flat_map(|op_a| both.map(|op_b| (op_a, op_b)));
                let of_size =
                    |size| pairs.clone().map(move |(op_a, op_b)| Problem { op_a, op_b, ..Problem::square(size) });
                [1024, 4096].into_iter().flat_map(of_size).collect()
            }
        }
    }
}

impl FromStr for Set {
    type Err = String;

    fn from_str(text: &str) -> Result<Set, String> {
        let known = Set::ALL.iter().find(|(name, _)| *name == text).map(|(_, set)| *set);
        known.ok_or_else(|| {
            let names = Set::ALL.map(|(name, _)| name).join(", ");
            format!("'{}' is no set of shapes: expected one of {names}", text.escape_debug())
        })
    }
}

/// `count` products with m, n and k between 32 and 8192, all doublings equally likely, none a multiple of 16: the same
/// for the same seed on every machine.
pub fn random(count: usize, seed: u64) -> Vec<Problem> {
    let mut generator = ChaCha12Rng::seed_from_u64(seed);
    let mut size = || loop {
        let size = generator.random_range(5.0_f64..=13.0).exp2() as usize;
        if !size.is_multiple_of(16) {
            return size;
        }
    };
    (0..count).map(|_| Problem::new(size(), size(), size())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_problem_is_read_as_it_is_written() {
        let all: Vec<Problem> = Set::ALL.iter().flat_map(|(_, set)| set.problems(1)).collect();
        for problem in &all {
            assert_eq!(problem.to_string().parse::<Problem>().as_ref(), Ok(problem));
        }
        let said = |text: &str| text.parse::<Problem>().unwrap().to_string();
        assert_eq!(said("7*1x2x3:nt"), "7*1x2x3:NT");
        assert_eq!(said("1*1x2x3:NN"), "1x2x3");
    }

    #[test]
    fn what_is_no_shape_is_named() {
        for text in ["", "1x2", "1x2x3x4", "ax2x3", "1x2x3:", "1x2x3:N", "1x2x3:XY", "*1x2x3", "-1x2x3", "1x2x3:TTT"] {
            let error = text.parse::<Problem>().unwrap_err();
            assert!(error.contains(&format!("'{text}'")) && error.contains("MxNxK"), "{error}");
        }
    }

    #[test]
    fn random_sizes_are_in_range_no_multiples_of_16_spread_over_all_doublings_and_always_the_same() {
        let problems = random(60, 42);
        assert_eq!(problems, random(60, 42));
        assert_ne!(problems, random(60, 43));
        assert_eq!(problems[..10], random(10, 42));
        let sizes: Vec<usize> = problems.iter().flat_map(|problem| [problem.m, problem.n, problem.k]).collect();
        assert_eq!(sizes.len(), 180);
        assert!(sizes.iter().all(|size| (32..=8192).contains(size) && size % 16 != 0));
        for doubling in 5..13 {
            let there = sizes.iter().filter(|size| size.ilog2() == doubling).count();
            assert!((8..=40).contains(&there), "{there} of 180 sizes are in the doubling from 2^{doubling}");
        }
    }

    #[test]
    fn the_sets_are_those_that_were_agreed_on() {
        let said = |set: Set| set.problems(0).iter().map(ToString::to_string).collect::<Vec<_>>().join(" ");
        assert_eq!(said(Set::Skinny), "16x8192x8192 8192x16x8192 8192x8192x16 64x64x65536");
        assert_eq!(said(Set::Batches), "1000*64x64x64 100*256x256x256");
        assert_eq!(
            said(Set::Transposes),
            "1024x1024x1024 1024x1024x1024:NT 1024x1024x1024:TN 1024x1024x1024:TT \
             4096x4096x4096 4096x4096x4096:NT 4096x4096x4096:TN 4096x4096x4096:TT"
        );
        assert!(said(Set::Squares).starts_with("256x256x256 ") && said(Set::Squares).ends_with(" 16384x16384x16384"));
        assert_eq!(Set::Random.problems(7).len(), 60);
    }

    #[test]
    fn sizes_beyond_all_machines_are_counted_without_overflow() {
        let huge = Problem { batch: usize::MAX, ..Problem::square(usize::MAX) };
        assert_eq!((huge.multiply_adds(), huge.bytes()), (u128::MAX, u128::MAX));
    }

    #[test]
    fn factors_of_bf16_take_half_the_bytes_on_the_device_and_as_many_as_f32_here() {
        let problem = Problem { batch: 2, ..Problem::new(3, 5, 7) };
        assert_eq!((problem.bytes(), problem.host_bytes()), (2 * 4 * (21 + 35 + 15), 2 * 4 * (21 + 35 + 15)));
        let halves = problem.of(Precision::Bf16);
        assert_eq!((halves.bytes(), halves.host_bytes()), (2 * (2 * (21 + 35) + 4 * 15), problem.host_bytes()));
        assert_eq!(halves.to_string(), problem.to_string());
    }
}
