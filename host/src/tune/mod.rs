//! Times the kernels of this build on the user's GPU and keeps the fastest for each class of products.
//!
//! The model behind [`plan`](crate::plan) predicts times from a kernel's tile and a few measured figures. It can't know what
//! the driver's assembler made of a kernel on this GPU, nor how another GPU than those it was fitted to behaves. So for each
//! [class](class) of products the kernels that may be the fastest are timed against each other ([`contest`]), and the winner
//! is kept in a [file](file) for this GPU, driver and build. [`tuned`] says how products are then planned.

pub mod candidates;
pub mod class;
pub mod contest;
pub mod file;
pub mod tuned;

use std::{
    collections::HashMap,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use ndarray::{Array2, ArrayView2};

use crate::{
    device::{DeviceBuffer, DeviceError, Graph},
    gemm::{DeviceMatrix, DeviceMatrixMut, Gemm, GemmError},
    matrix,
    plan::{Layout, Plan, Problem},
    verify,
};

use class::{Class, Way};
use file::{Key, TuneFile, TuneFileError, Winner};

/// How long a turn of a contest should take, so that the clock's grain doesn't matter.
const TURN: Duration = Duration::from_millis(2);

/// The most launches in a turn.
const MOST_LAUNCHES: usize = 400;

/// Launches go from place to place in memory until they have touched this many bytes, twice the largest second-level cache of
/// the GPUs in the table: as in a program that has other things to do, their matrices aren't in the cache.
const ROTATED_BYTES: usize = 128 << 20;

/// The least size of the memory for each of A, B and C, in elements, so that there is room for the places.
const LEAST_ELEMENTS: usize = 1 << 20;

/// The most places.
const MOST_PLACES: usize = 64;

/// How often what was found is written down meanwhile.
const SAVED_EVERY: Duration = Duration::from_secs(2);

/// The sizes that a kernel is checked with before it is timed: more than a tile in each direction of most kernels, and no
/// multiple of anything.
const CHECKED_SIZES: [usize; 3] = [259, 262, 133];

/// Why nothing was tuned.
#[derive(Debug, thiserror::Error)]
pub enum TuneError {
    /// The simulator.
    #[error(
        "there is nothing to tune on the simulator: a tuning is made of times on a GPU, and a simulator's mean nothing"
    )]
    Simulator,
    /// The file.
    #[error(transparent)]
    File(#[from] TuneFileError),
    /// A product, or its launch.
    #[error(transparent)]
    Gemm(#[from] GemmError),
}

impl From<DeviceError> for TuneError {
    fn from(error: DeviceError) -> TuneError {
        TuneError::Gemm(error.into())
    }
}

/// How far a tuning has come.
#[derive(Clone, Copy, Debug)]
pub struct Progress {
    /// Classes that are tuned.
    pub done: usize,
    /// Classes that there are.
    pub total: usize,
}

/// What came of a tuning.
#[derive(Debug)]
pub struct Tuning {
    /// All that is known by now.
    pub file: TuneFile,
    /// Where it is.
    pub path: PathBuf,
    /// Classes that were tuned this time.
    pub tuned: usize,
    /// Classes that are left for the next time.
    pub left: usize,
    /// Kernels whose products were wrong. They aren't used.
    pub wrong: Vec<&'static str>,
    /// What was wrong with a file that was there, and has been replaced.
    pub replaced: Option<String>,
}

/// Tunes the classes that the file in `folder` doesn't have yet, until all are tuned or `time` is over.
///
/// # Errors
///
/// [`TuneError`] on the simulator, if memory doesn't suffice, a launch fails, or the file can't be written.
pub fn tune(gemm: &Gemm, folder: &Path, time: Duration, progress: impl FnMut(Progress)) -> Result<Tuning, TuneError> {
    let key = Key::new(&gemm.device().info()).ok_or(TuneError::Simulator)?;
    tune_classes(gemm, key, Class::all(), folder, time, progress)
}

fn tune_classes(
    gemm: &Gemm,
    key: Key,
    classes: Vec<Class>,
    folder: &Path,
    time: Duration,
    mut progress: impl FnMut(Progress),
) -> Result<Tuning, TuneError> {
    let (mut file, replaced) = match TuneFile::load(folder, &key) {
        Ok(file) => (file, None),
        Err(TuneFileError::Missing { .. }) => (TuneFile::new(key), None),
        Err(error @ (TuneFileError::Corrupt { .. } | TuneFileError::Foreign { .. })) => {
            (TuneFile::new(key), Some(error.to_string()))
        }
        Err(error) => return Err(error.into()),
    };
    // What can't be kept isn't worth finding.
    let mut path = file.save(folder)?;

    let started = Instant::now();
    let total = classes.len();
    let mut missing: Vec<Class> = classes.iter().copied().filter(|class| file.get(class).is_none()).collect();
    missing.reverse();
    let (mut tuned, mut saved) = (0, started);
    let mut range = None;
    while let Some(&class) = missing.last() {
        progress(Progress { done: total - missing.len(), total });
        if started.elapsed() >= time {
            break;
        }
        let range = match &mut range {
            Some(range) => range,
            None => range.insert(Range::new(gemm, &classes)?),
        };
        missing.pop();
        if let Some(winner) = range.winner(class)? {
            file.put(winner);
            tuned += 1;
        }
        if saved.elapsed() >= SAVED_EVERY {
            path = file.save(folder)?;
            saved = Instant::now();
        }
    }
    path = if tuned > 0 { file.save(folder)? } else { path };
    let wrong = range.map_or_else(Vec::new, |range| range.wrong());
    Ok(Tuning { file, path, tuned, left: missing.len(), wrong, replaced })
}

/// Launches that are timed together.
struct Turn {
    launches: usize,
    /// The launches as a graph; none on the simulator, where they are launched one by one.
    graph: Option<Graph>,
}

/// Memory to time products in, and what is known of the kernels.
struct Range<'a> {
    gemm: &'a Gemm,
    /// Random numbers, long enough for the largest A, B or C.
    a: DeviceBuffer<f32>,
    b: DeviceBuffer<f32>,
    c: DeviceBuffer<f32>,
    /// Memory for partial sums: what is recorded in graphs uses it, so it must not grow.
    workspace: DeviceBuffer<f32>,
    /// Whether a kernel's products are right, by its name and the layouts.
    right: HashMap<(&'static str, Way, Way), bool>,
}

impl<'a> Range<'a> {
    fn new(gemm: &'a Gemm, classes: &[Class]) -> Result<Range<'a>, TuneError> {
        let device = gemm.device();
        let largest = classes.iter().map(|&Class { m, n, k, .. }| (m * k).max(k * n).max(m * n)).max();
        // On a small GPU the classes that don't fit are left out.
        let free = device.info().free_memory as usize / size_of::<f32>();
        let elements = largest.unwrap_or(0).max(LEAST_ELEMENTS).min(free / 5);
        let numbers = matrix::random_normals(&[(1, 1 << 20)], 1).remove(0).into_raw_vec_and_offset().0;
        let random = |start: usize| -> Result<DeviceBuffer<f32>, DeviceError> {
            let endless = numbers.iter().copied().cycle().skip(start);
            device.upload(&endless.take(elements).collect::<Vec<f32>>())
        };
        let (a, b, c) = (random(0)?, random(77_777)?, device.allocate(elements)?);
        let workspace = device.allocate(elements.min(crate::plan::model::MOST_SUMS))?;
        Ok(Range { gemm, a, b, c, workspace, right: HashMap::new() })
    }

    /// The fastest plan for a class; `None` if its product doesn't fit in memory.
    fn winner(&mut self, class: Class) -> Result<Option<Winner>, TuneError> {
        let problem = class.problem();
        let [m, n, k] = sizes(&problem);
        let available = self.c.len();
        if [m * k, k * n, m * n].iter().any(|elements| *elements > available) {
            return Ok(None);
        }
        let mut plans = Vec::new();
        for plan in candidates::candidates(&problem, self.gemm.device().machine()) {
            // Splits leave their sums in the workspace.
            let sums = if plan.splits > 1 { plan.splits as usize * m * n } else { 0 };
            if sums <= self.workspace.len() && self.is_right(&plan, class)? {
                plans.push(plan);
            }
        }
        let mut turns: Vec<Option<Turn>> = plans.iter().map(|_| None).collect();
        let outcome = contest::fastest(plans.len(), |candidate| -> Result<f64, TuneError> {
            let turn = match &mut turns[candidate] {
                Some(turn) => turn,
                new => new.insert(self.turn(&plans[candidate], &problem)?),
            };
            self.time(turn, &plans[candidate], &problem)
        })?;
        Ok(outcome.map(|outcome| {
            let Plan { kernel, splits, group } = plans[outcome.winner];
            Winner {
                class,
                kernel: kernel.name.to_owned(),
                splits,
                group,
                microseconds: microseconds(outcome.time),
                model: plans[0].kernel.name.to_owned(),
                model_splits: plans[0].splits,
                model_microseconds: microseconds(outcome.first_time),
            }
        }))
    }

    /// A turn of a plan: as many launches as take about [`TURN`], recorded in a graph, so that small products are timed
    /// and not the host.
    fn turn(&mut self, plan: &Plan, problem: &Problem) -> Result<Turn, TuneError> {
        let device = self.gemm.device();
        // The first launch is for what is done once; the second says how many make a turn.
        let mut one = 0.0;
        for _ in 0..2 {
            let mut outcome = Ok(());
            let time = device.time(|| {
                outcome = self.enqueue(plan, problem, 1);
                Ok(())
            })?;
            outcome?;
            one = time.as_secs_f64().max(1e-6);
        }
        let launches = ((TURN.as_secs_f64() / one).ceil() as usize).clamp(1, MOST_LAUNCHES);
        if device.is_simulator() {
            return Ok(Turn { launches, graph: None });
        }
        // SAFETY: the matrices and the workspace are in buffers of `self`, and turns are gone when `winner` returns.
        let graph = unsafe { device.record(|| self.enqueue(plan, problem, launches)) }?;
        Ok(Turn { launches, graph: Some(graph) })
    }

    /// Seconds of one launch in a turn of a plan.
    fn time(&mut self, turn: &Turn, plan: &Plan, problem: &Problem) -> Result<f64, TuneError> {
        let device = self.gemm.device();
        let mut outcome = Ok(());
        let time = device.time(|| {
            outcome = match &turn.graph {
                Some(graph) => graph.launch().map_err(GemmError::from),
                None => self.enqueue(plan, problem, turn.launches),
            };
            Ok(())
        })?;
        outcome?;
        Ok(time.as_secs_f64() / turn.launches as f64)
    }

    /// Launches a plan so often, each time with matrices at another place.
    fn enqueue(&mut self, plan: &Plan, problem: &Problem, launches: usize) -> Result<(), GemmError> {
        let [m, n, k] = sizes(problem);
        let available = self.c.len();
        let places = |elements: usize| available / elements.next_multiple_of(64).max(1);
        let bytes = (m * k + k * n + m * n) * size_of::<f32>();
        let rotated = ROTATED_BYTES.div_ceil(bytes).clamp(1, MOST_PLACES);
        let places = rotated.min(places(m * k)).min(places(k * n)).min(places(m * n)).max(1);
        let Range { gemm, a, b, c, workspace, .. } = self;
        (0..launches).try_for_each(|launch| {
            let at = |elements: usize| launch % places * elements.next_multiple_of(64);
            let a = operand(a, at(m * k), [m, k], problem.a)?;
            let b = operand(b, at(k * n), [k, n], problem.b)?;
            let c = DeviceMatrixMut::new(c, at(m * n), m, n)?;
            gemm.product(a, b).with_plan(*plan).workspace(workspace).enqueue_into(c)
        })
    }

    /// Whether the kernel of a plan computes right products, as far as one shows.
    fn is_right(&mut self, plan: &Plan, class: Class) -> Result<bool, TuneError> {
        let name = (plan.kernel.name, class.a, class.b);
        if let Some(right) = self.right.get(&name) {
            return Ok(*right);
        }
        // Aligned rows and columns need multiples of four.
        let [m, n, k] = CHECKED_SIZES;
        let aligned = |size: usize, way| if way == Way::Words { size } else { size.next_multiple_of(4) };
        let (m, n, problem) = (aligned(m, class.a), aligned(n, class.b), class.problem());
        let inputs = matrix::random_normals(&[(m, k), (k, n)], 2);
        let device = self.gemm.device();
        let a_buffer = device.upload(&stored(inputs[0].view(), problem.a))?;
        let b_buffer = device.upload(&stored(inputs[1].view(), problem.b))?;
        let mut c_buffer = device.upload(&vec![f32::NAN; m * n])?;
        let (a, b) = (operand(&a_buffer, 0, [m, k], problem.a)?, operand(&b_buffer, 0, [k, n], problem.b)?);
        let product = self.gemm.product(a, b).with_plan(Plan { splits: plan.splits.min(2), ..*plan });
        product.enqueue_into(DeviceMatrixMut::new(&mut c_buffer, 0, m, n)?)?;
        let c = Array2::from_shape_vec((m, n), c_buffer.download()?).expect("C has m * n elements");
        let right = verify::check_in(plan.order(k), &c, &inputs[0], &inputs[1]).passed();
        self.right.insert(name, right);
        Ok(right)
    }

    /// The kernels whose products were wrong.
    fn wrong(&self) -> Vec<&'static str> {
        let mut names: Vec<_> = self.right.iter().filter(|(_, right)| !**right).map(|((name, ..), _)| *name).collect();
        names.sort_unstable();
        names.dedup();
        names
    }
}

/// Seconds as microseconds, with as many decimals as mean anything.
fn microseconds(seconds: f64) -> f64 {
    (1e9 * seconds).round().max(1.0) / 1e3
}

fn sizes(problem: &Problem) -> [usize; 3] {
    [problem.m, problem.n, problem.k]
}

/// A `rows` x `columns` matrix without gaps from element `offset` of a buffer, laid out as said.
fn operand(
    buffer: &DeviceBuffer<f32>,
    offset: usize,
    [rows, columns]: [usize; 2],
    layout: Layout,
) -> Result<DeviceMatrix<'_>, GemmError> {
    if layout.by_columns {
        Ok(DeviceMatrix::new(buffer, offset, columns, rows)?.transposed())
    } else {
        DeviceMatrix::new(buffer, offset, rows, columns)
    }
}

/// The elements of a matrix in the order in which they lie in memory.
fn stored(matrix: ArrayView2<f32>, layout: Layout) -> Vec<f32> {
    if layout.by_columns { matrix.t().iter().copied().collect() } else { matrix.iter().copied().collect() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::{Device, DeviceSelector};

    fn key() -> Key {
        Key { gpu: "simulated".to_owned(), driver: "none".to_owned(), build: file::build().to_owned() }
    }

    fn small_classes() -> Vec<Class> {
        let all = Class::all().into_iter();
        all.filter(|class| class.m == 16 && class.n == 16 && class.k == 16).collect()
    }

    #[test]
    fn there_is_nothing_to_tune_on_the_simulator() {
        let gemm = Gemm::new(Device::open(DeviceSelector::Simulator).unwrap());
        let folder = tempfile::tempdir().unwrap();
        let outcome = tune(&gemm, folder.path(), Duration::ZERO, |_| {});
        assert!(matches!(outcome, Err(TuneError::Simulator)));
        assert_eq!(folder.path().read_dir().unwrap().count(), 0);
    }

    #[test]
    fn a_tuning_goes_on_where_it_was_interrupted() {
        // On the simulator the times mean nothing, but the way is the same.
        let gemm = Gemm::new(Device::open(DeviceSelector::Simulator).unwrap());
        let folder = tempfile::tempdir().unwrap();
        let run = |classes: &[Class], time| {
            let mut seen = Vec::new();
            let note = |progress: Progress| seen.push(progress.done);
            let tuning = tune_classes(&gemm, key(), classes.to_vec(), folder.path(), time, note).unwrap();
            (tuning, seen)
        };
        let classes = small_classes();
        assert_eq!(classes.len(), 7);
        let (tuning, seen) = run(&classes, Duration::ZERO);
        assert_eq!((tuning.tuned, tuning.left, seen), (0, 7, vec![0]));
        let (tuning, _) = run(&classes[..2], Duration::MAX);
        assert_eq!((tuning.tuned, tuning.left), (2, 0));
        let (tuning, seen) = run(&classes[..4], Duration::MAX);
        assert_eq!((tuning.tuned, tuning.left, seen), (2, 0, vec![2, 3]));
        assert!(tuning.wrong.is_empty() && tuning.replaced.is_none());
        assert_eq!(TuneFile::load(folder.path(), &key()).unwrap(), tuning.file);
        for class in &classes[..4] {
            let winner = tuning.file.get(class).unwrap();
            assert!(winner.microseconds > 0.0 && winner.microseconds <= winner.model_microseconds, "{winner:?}");
            assert!(tuned::kernel(&winner.kernel).is_some());
        }
    }

    #[test]
    fn a_corrupt_file_is_replaced_and_said() {
        let gemm = Gemm::new(Device::open(DeviceSelector::Simulator).unwrap());
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join(key().file_name()), "{").unwrap();
        let tuning = tune_classes(&gemm, key(), Vec::new(), folder.path(), Duration::MAX, |_| {}).unwrap();
        assert!(tuning.replaced.unwrap().contains("no tuning of this program's"));
        assert!(TuneFile::load(folder.path(), &key()).is_ok());
    }
}
