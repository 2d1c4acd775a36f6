//! Finds the first thing that is wrong with the reader's kernel, as a teacher would: in the order of the exercise, one
//! thing at a time.
//!
//! Three launches on the simulator tell everything. In the first every element of A and B has a value of its own, so
//! that what a thread writes into a tile says where it comes from. The second is watched for races. The third has a
//! single step, in which nothing can be overwritten too early, so that its product is right or wrong whatever the second
//! barrier does.

use std::collections::{HashMap, HashSet};

use gpu_kernels::{Kernel, exercise::TILE};
use ndarray::Array2;
use serde::Serialize;

use super::{
    page,
    trace::{Store, TILES, Trace},
};
use crate::{
    check::{self, Act, Case, Checked, Problem, ProblemKind},
    gemm::{DeviceMatrix, Gemm, GemmError, Timing},
    matrix, verify,
};

/// The product with several steps, m x n x k: three different sizes, so that none can be taken for another.
const SEVERAL_STEPS: [usize; 3] = [2 * TILE, 3 * TILE, 4 * TILE];
/// The product with one step.
const ONE_STEP: [usize; 3] = [2 * TILE, 3 * TILE, TILE];
const SEED: u64 = 7;

/// What is judged: a kernel as it was compiled, and the source that it was compiled from.
#[derive(Clone, Copy, Debug)]
pub struct Submission<'a> {
    /// Name, entry and launch shape.
    pub kernel: &'static Kernel,
    /// The page.
    pub source: &'a str,
}

/// An element of A or B.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Origin {
    /// `A` or `B`.
    pub matrix: &'static str,
    /// Its row.
    pub row: usize,
    /// Its column.
    pub column: usize,
}

/// Where a thread puts something.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Target {
    /// `tile_a` or `tile_b`.
    pub array: &'static str,
    /// Row in the tile.
    pub row: usize,
    /// Column in the tile.
    pub column: usize,
}

/// The first thing that is wrong, or that nothing is.
#[derive(Clone, Debug, Serialize)]
#[serde(tag = "verdict", rename_all = "kebab-case")]
pub enum Verdict {
    /// Nothing was written yet.
    NotStarted,
    /// One of the tiles is never written.
    TileNotLoaded {
        /// `tile_a` or `tile_b`.
        array: &'static str,
    },
    /// A thread puts a wrong element into a tile.
    WrongElement {
        /// The step, from 0.
        step: usize,
        /// Position of the block in the grid.
        block: [u32; 3],
        /// Position of the thread in the block.
        thread: [u32; 3],
        /// Where it puts it.
        target: Target,
        /// What it puts there; `None` if it is no element of A or B.
        found: Option<Origin>,
        /// The value, if it is no element.
        value: f32,
        /// What belongs there.
        expected: Origin,
        /// The line that does it.
        line: Option<u32>,
    },
    /// An element of a tile that nobody writes.
    ElementNotLoaded {
        /// The step, from 0.
        step: usize,
        /// Position of the block in the grid.
        block: [u32; 3],
        /// The element.
        target: Target,
    },
    /// No barrier between the writes and the reads of one step; the race if there are reads already.
    FirstBarrierMissing {
        /// The dirty read.
        race: Option<Box<Problem>>,
        /// The line of a barrier that is there and doesn't help.
        barrier: Option<u32>,
    },
    /// The tiles are loaded, and nobody uses them.
    NothingMultiplied,
    /// The product is wrong.
    ProductWrong {
        /// Whether a product of one step is right already.
        one_step_right: bool,
        /// Row of the first wrong element.
        row: usize,
        /// Its column.
        column: usize,
        /// What it is.
        found: f32,
        /// What it should be.
        expected: f64,
        /// What was noticed on the way there, if anything.
        problem: Option<Box<Problem>>,
    },
    /// No barrier between the reads of one step and the writes of the next.
    SecondBarrierMissing {
        /// The overwriting.
        race: Box<Problem>,
        /// The line of a barrier that is there and doesn't help.
        barrier: Option<u32>,
    },
    /// Another mistake.
    Other {
        /// The TODO where it is, 1 to 4; `None` if it's outside them.
        todo: Option<u8>,
        /// The mistake.
        problem: Box<Problem>,
    },
    /// Everything is right.
    Right,
}

impl Verdict {
    /// Whether everything is right.
    pub fn is_right(&self) -> bool {
        matches!(self, Verdict::Right)
    }

    /// The TODO to work on, 1 to 4; `None` if everything is right, or what is wrong is outside the TODOs.
    pub fn todo(&self) -> Option<u8> {
        Some(match self {
            Verdict::NotStarted
            | Verdict::TileNotLoaded { .. }
            | Verdict::WrongElement { .. }
            | Verdict::ElementNotLoaded { .. } => 1,
            Verdict::FirstBarrierMissing { .. } => 2,
            Verdict::NothingMultiplied | Verdict::ProductWrong { .. } => 3,
            Verdict::SecondBarrierMissing { .. } => 4,
            Verdict::Other { todo, .. } => return *todo,
            Verdict::Right => return None,
        })
    }

    /// The mistake in memory or at a barrier that is behind it, if there is one.
    pub fn problem(&self) -> Option<&Problem> {
        match self {
            Verdict::FirstBarrierMissing { race, .. } => race.as_deref(),
            Verdict::SecondBarrierMissing { race, .. } => Some(race),
            Verdict::ProductWrong { problem, .. } => problem.as_deref(),
            Verdict::Other { problem, .. } => Some(problem),
            _ => None,
        }
    }
}

/// Judges a submission with `gemm`, which must be on the simulator.
///
/// # Errors
///
/// [`GemmError`] if the kernel can't be launched at all.
pub fn judge(gemm: &Gemm, submission: Submission<'_>) -> Result<Verdict, GemmError> {
    if page::is_untouched(submission.source) {
        return Ok(Verdict::NotStarted);
    }
    let evidence = Evidence {
        source: submission.source,
        watched: check::check(gemm, &[Case::new(submission.kernel, SEVERAL_STEPS)])?,
        trace: trace(gemm, submission)?,
    };
    if evidence.watched.passed() && evidence.trace.shared_reads > 0 {
        // However it is done.
        return Ok(Verdict::Right);
    }
    let product = |shape, one_step_right| product_wrong(gemm, submission.kernel, shape, one_step_right);
    let early = evidence
        .loads(submission.kernel)
        .or_else(|| evidence.end())
        .or_else(|| evidence.uneven_barrier())
        .or_else(|| evidence.first_barrier())
        .or_else(|| (evidence.trace.shared_reads == 0).then_some(Verdict::NothingMultiplied))
        .or_else(|| evidence.other(is_fault));
    if let Some(verdict) = early {
        return Ok(verdict);
    }
    if let Some(wrong) = product(ONE_STEP, false)? {
        return Ok(evidence.noticed(wrong));
    }
    if let Some(verdict) = evidence.second_barrier() {
        return Ok(verdict);
    }
    if let Some(wrong) = product(SEVERAL_STEPS, true)? {
        return Ok(evidence.noticed(wrong));
    }
    Ok(evidence.other(|_| true).unwrap_or(Verdict::Right))
}

/// What the watched launches have shown.
struct Evidence<'a> {
    source: &'a str,
    watched: Checked,
    trace: Trace,
}

impl Evidence<'_> {
    fn find(&self, wanted: impl Fn(&Problem) -> bool) -> Option<Box<Problem>> {
        self.watched.problems.iter().find(|problem| wanted(problem)).cloned().map(Box::new)
    }

    /// A mistake of another kind, where there is one.
    fn other(&self, wanted: impl Fn(&Problem) -> bool) -> Option<Verdict> {
        let problem = self.find(wanted)?;
        // No TODO writes to global memory: that is the page's last line.
        let outside = problem.global && problem.first.act == Act::Writes;
        let todo = if outside { None } else { self.todo_before(problem.first.source.as_ref()?.line) };
        Some(Verdict::Other { todo, problem })
    }

    /// The TODO whose mark stands last before a line of the page.
    fn todo_before(&self, line: u32) -> Option<u8> {
        let before = |todo: &u8| page::todo_line(self.source, *todo).is_some_and(|mark| mark <= line as usize);
        (1..=4).rev().find(before)
    }

    /// What is wrong with the tiles.
    fn loads(&self, kernel: &Kernel) -> Option<Verdict> {
        let verdict = judge_loads(kernel, &self.trace)?;
        match verdict {
            // An element from outside the matrices is better told by where it was read.
            Verdict::WrongElement { found: None, .. } => {
                let outside =
                    |problem: &Problem| is_fault(problem) && problem.global && problem.first.act == Act::Reads;
                Some(self.other(outside).unwrap_or(verdict))
            }
            Verdict::WrongElement { .. } => Some(verdict),
            // Threads that were stopped, or wait forever, load nothing any more.
            _ => self.end().or_else(|| self.uneven_barrier()).or(Some(verdict)),
        }
    }

    /// What stopped the kernel before its end.
    fn end(&self) -> Option<Verdict> {
        self.other(|problem| problem.kind.ends_the_kernel())
    }

    /// A barrier that only some threads come to.
    fn uneven_barrier(&self) -> Option<Verdict> {
        let problem = self.find(|problem| problem.kind.is_about_barriers())?;
        // Of two barriers that threads take for one, it's the one that fewer threads came to.
        let events = [Some(&problem.first), problem.second.as_ref()].into_iter().flatten();
        let lines = events.filter_map(|event| event.source.as_ref().map(|source| source.line));
        let arrivals = |line: &u32| self.trace.barriers.get(line).copied().unwrap_or(0);
        let todo = lines.min_by_key(arrivals).and_then(|line| self.todo_before(line));
        Some(Verdict::Other { todo, problem })
    }

    /// Reads that nothing keeps behind the writes of their step.
    fn first_barrier(&self) -> Option<Verdict> {
        let race = self.find(|problem| problem.kind == ProblemKind::ReadAfterWrite && !problem.global);
        let nobody_waits = self.trace.shared_reads == 0 && self.trace.barriers.is_empty();
        let read = race.as_ref().and_then(|race| race.second.as_ref()?.source.as_ref().map(|source| source.line));
        let barrier = self.trace.barriers.keys().copied().find(|line| read.is_some_and(|read| *line < read));
        (race.is_some() || nobody_waits).then_some(Verdict::FirstBarrierMissing { race, barrier })
    }

    /// Writes that nothing keeps behind the reads of the step before.
    fn second_barrier(&self) -> Option<Verdict> {
        let race = self.find(|problem| problem.kind == ProblemKind::WriteAfterRead && !problem.global)?;
        let read = race.first.source.as_ref().map(|source| source.line);
        let barrier = self.trace.barriers.keys().copied().find(|line| read.is_some_and(|read| *line > read));
        Some(Verdict::SecondBarrierMissing { race, barrier })
    }

    /// A wrong product, with what was noticed on the way there apart from what barriers may be missing.
    fn noticed(&self, wrong: Verdict) -> Verdict {
        let Verdict::ProductWrong { one_step_right, row, column, found, expected, .. } = wrong else { return wrong };
        let problem =
            self.find(|problem| !matches!(problem.kind, ProblemKind::ReadAfterWrite | ProblemKind::WriteAfterRead));
        Verdict::ProductWrong { one_step_right, row, column, found, expected, problem }
    }
}

fn is_fault(problem: &Problem) -> bool {
    matches!(problem.kind, ProblemKind::OutOfBounds | ProblemKind::Misaligned)
}

/// Launches the kernel with matrices whose elements all differ and records what it does.
fn trace(gemm: &Gemm, submission: Submission<'_>) -> Result<Trace, GemmError> {
    let kernel = submission.kernel;
    let [m, n, k] = SEVERAL_STEPS;
    let a = Array2::from_shape_fn((m, k), |(row, column)| value_of(&Origin { matrix: "A", row, column }));
    let b = Array2::from_shape_fn((k, n), |(row, column)| value_of(&Origin { matrix: "B", row, column }));
    let device = gemm.device();
    let a = device.upload(a.as_slice().expect("new matrices are contiguous"))?;
    let b = device.upload(b.as_slice().expect("new matrices are contiguous"))?;
    let c = device.allocate::<f32>(m * n)?;
    let a = DeviceMatrix::new(&a, 0, m, k)?;
    let b = DeviceMatrix::new(&b, 0, k, n)?;
    let c = DeviceMatrix::new(&c, 0, m, n)?;
    let trace = gemm.observe(kernel, a, b, c, |module, _| Trace::new(module, kernel.entry, submission.source))?;
    Ok(trace.expect("the product isn't empty"))
}

/// The value that tells an element of A or B from all others.
fn value_of(origin: &Origin) -> f32 {
    let [_, n, k] = SEVERAL_STEPS;
    match origin.matrix {
        "A" => (origin.row * k + origin.column + 1) as f32,
        _ => -((origin.row * n + origin.column + 1) as f32),
    }
}

/// The element whose value that is.
fn origin_of(value: f32) -> Option<Origin> {
    let [m, n, k] = SEVERAL_STEPS;
    let (matrix, columns, elements) = if value > 0.0 { ("A", k, m * k) } else { ("B", n, k * n) };
    let number = value.abs();
    if !(number >= 1.0 && number <= elements as f32 && number.fract() == 0.0) {
        return None;
    }
    let index = number as usize - 1;
    Some(Origin { matrix, row: index / columns, column: index % columns })
}

/// The first thing that is wrong with what the threads put into the tiles.
fn judge_loads(kernel: &Kernel, trace: &Trace) -> Option<Verdict> {
    let [m, n, k] = SEVERAL_STEPS;
    let grid = (kernel.launch_shape)(m, n, k)?.grid;
    let place =
        |block: u64| [block as u32 % grid[0], block as u32 / grid[0] % grid[1], block as u32 / grid[0] / grid[1]];
    if let Some(array) = TILES.into_iter().find(|array| trace.stores.iter().all(|store| store.array != *array)) {
        return Some(Verdict::TileNotLoaded { array });
    }
    // How often each thread has written to each array: that is the step it is in.
    let mut steps: HashMap<(u64, u32, &str), usize> = HashMap::new();
    let mut loaded = HashSet::new();
    for store in &trace.stores {
        let Store { block, thread, array, index, value, .. } = *store;
        let step = steps.entry((block, thread, array)).or_default();
        let target = Target { array, row: index / TILE, column: index % TILE };
        if *step < k / TILE {
            let expected = belongs(target, *step, place(block));
            let found = origin_of(value);
            if found != Some(expected) {
                let thread = thread as usize;
                return Some(Verdict::WrongElement {
                    step: *step,
                    block: place(block),
                    thread: [(thread % TILE) as u32, (thread / TILE) as u32, 0],
                    target,
                    found,
                    value,
                    expected,
                    line: trace.line(store),
                });
            }
            loaded.insert((block, *step, array, index));
        }
        *step += 1;
    }
    let blocks = u64::from(grid[0]) * u64::from(grid[1]) * u64::from(grid[2]);
    for block in 0..blocks {
        for step in 0..k / TILE {
            for array in TILES {
                let missing = (0..TILE * TILE).find(|index| !loaded.contains(&(block, step, array, *index)));
                if let Some(index) = missing {
                    let target = Target { array, row: index / TILE, column: index % TILE };
                    return Some(Verdict::ElementNotLoaded { step, block: place(block), target });
                }
            }
        }
    }
    None
}

/// What belongs into an element of a tile in a step.
fn belongs(target: Target, step: usize, block: [u32; 3]) -> Origin {
    let [column, row, _] = block.map(|position| position as usize * TILE);
    match target.array {
        "tile_a" => Origin { matrix: "A", row: row + target.row, column: step * TILE + target.column },
        _ => Origin { matrix: "B", row: step * TILE + target.row, column: column + target.column },
    }
}

/// The first wrong element of a product, if there is one.
fn product_wrong(
    gemm: &Gemm,
    kernel: &'static Kernel,
    [m, n, k]: [usize; 3],
    one_step_right: bool,
) -> Result<Option<Verdict>, GemmError> {
    let [a, b] = <[_; 2]>::try_from(matrix::random_normals(&[(m, k), (k, n)], SEED)).expect("two shapes");
    let c = gemm.multiply_timed(kernel, a.view(), b.view(), Timing::Once)?.c;
    let reference = verify::reference(a.view(), b.view());
    let wrong = c.indexed_iter().find(|(place, value)| {
        let difference = (f64::from(**value) - reference.product[*place]).abs();
        difference.is_nan() || difference > reference.tolerance[*place]
    });
    Ok(wrong.map(|((row, column), found)| Verdict::ProductWrong {
        one_step_right,
        row,
        column,
        found: *found,
        expected: reference.product[(row, column)],
        problem: None,
    }))
}
