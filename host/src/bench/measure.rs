//! How fast? Launches recorded in a graph, contenders in rounds or one after the other, the clock looked at meanwhile.

use std::{
    cell::RefCell,
    rc::Rc,
    time::{Duration, Instant},
};

use gpu_kernels::Precision;

use super::{
    BenchError,
    check::{Check, Samples},
    contender::{Contender, Hands, plan_name},
    data::{self, Buffers, Inputs, Numbers},
    problem::Problem,
    rounds::{self, Schedule},
    statistics::Times,
};
use crate::{
    clocks::{ClockLog, ClockSummary, Clocks},
    device::{Device, Graph},
};

/// How long a batch of launches takes at least, so that neither the clock's grain nor the start of a graph matters.
const BATCH: Duration = Duration::from_millis(5);

/// The most launches that are recorded for a batch, if there are no more copies of the matrices than that.
const MAX_LAUNCHES: usize = 4096;

/// How long a contender is run before it is timed, in which the GPU gets up to its speed.
const WARM_UP: Duration = Duration::from_millis(20);

/// How long all rounds of a contender may take. Who is slower has fewer rounds, but these:
const TIME: Duration = Duration::from_secs(4);
const FEWEST_ROUNDS: usize = 3;

/// How to measure.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// Who is timed when.
    pub schedule: Schedule,
    /// Of which kind the numbers in the matrices are.
    pub numbers: Numbers,
    /// Seed of the matrices.
    pub seed: u64,
    /// The second-level cache of the GPU in bytes, which the matrices' copies have to pass.
    pub l2_bytes: u64,
}

/// What a contender did for a problem.
#[derive(Clone, Debug)]
pub struct Entry {
    /// Who.
    pub contender: Contender,
    /// The kernel, if it's known: that which the library chose, for one. After a `/`, in how many parts K is split.
    pub kernel: Option<String>,
    /// What that kernel computes in: in f32 where the library found nothing better for the precision that is compared.
    pub kernel_precision: Option<Precision>,
    /// The time of one launch; none if its product is wrong, which takes no time to speak of.
    pub times: Option<Times>,
    /// Launches in each batch.
    pub launches: usize,
    /// Whether the product is right.
    pub check: Check,
    /// Whether every launch gave the same bits.
    pub reproducible: bool,
    /// The clock while it ran.
    pub clock: Option<ClockSummary>,
}

impl Entry {
    /// Whether the product was right every time.
    pub fn passed(&self) -> bool {
        self.check.passed() && self.reproducible
    }
}

/// What all contenders did for a problem.
#[derive(Clone, Debug)]
pub struct Measurement {
    /// The problem.
    pub problem: Problem,
    /// Copies of its matrices, each launch with the next.
    pub copies: usize,
    /// Those who can do it.
    pub entries: Vec<Entry>,
    /// Those who can't.
    pub left_out: Vec<Contender>,
}

impl Measurement {
    /// What a contender did.
    pub fn of(&self, contender: &Contender) -> Option<&Entry> {
        self.entries.iter().find(|entry| entry.contender == *contender)
    }

    /// cuBLAS's time by that of a contender: above 1 where the contender is faster.
    pub fn ratio(&self, contender: &Contender) -> Option<f64> {
        let time = |contender| Some(self.of(contender)?.times?.median);
        Some(time(&Contender::Cublas)? / time(contender)?)
    }

    /// The largest error of a contender by cuBLAS's, and the same of the root mean squares.
    pub fn error_ratio(&self, contender: &Contender) -> Option<[f64; 2]> {
        let (theirs, ours) = (self.of(&Contender::Cublas)?.check, self.of(contender)?.check);
        let ratio = |ours: f64, theirs: f64| if ours == theirs { 1.0 } else { ours / theirs };
        Some([ratio(ours.max_error, theirs.max_error), ratio(ours.rms_error, theirs.rms_error)])
    }
}

/// Launches that can be had again: as a graph on a GPU, one by one on the simulator.
enum Recorded<'a> {
    Graph(Graph),
    Calls(Box<dyn Fn() -> Result<(), BenchError> + 'a>),
}

impl<'a> Recorded<'a> {
    fn new(device: &Device, work: impl Fn() -> Result<(), BenchError> + 'a) -> Result<Recorded<'a>, BenchError> {
        if device.is_simulator() {
            return Ok(Recorded::Calls(Box::new(work)));
        }
        // SAFETY: the matrices are in buffers that outlive 'a, and with it what is recorded here.
        unsafe { device.record(work) }.map(Recorded::Graph)
    }

    /// How long all of them take on the device.
    fn time(&self, device: &Device) -> Result<f64, BenchError> {
        let mut outcome = Ok(());
        let time = device.time(|| {
            outcome = match self {
                Recorded::Graph(graph) => graph.launch().map_err(BenchError::from),
                Recorded::Calls(work) => work(),
            };
            Ok(())
        })?;
        outcome.map(|()| time.as_secs_f64())
    }
}

/// One contender on its way through the schedule.
struct Turn<'a> {
    batch: Recorded<'a>,
    launches: usize,
    /// How long the batch took when it was last run for warming up, in seconds.
    batch_seconds: f64,
    times: Vec<f64>,
    spans: Vec<(Instant, Instant)>,
}

impl Turn<'_> {
    /// In how many of so many rounds it takes part.
    fn rounds(&self, of: usize) -> usize {
        ((TIME.as_secs_f64() / self.batch_seconds) as usize).clamp(FEWEST_ROUNDS.min(of), of)
    }

    /// Runs the batch and keeps its time, which it returns in seconds.
    fn time(&mut self, device: &Device) -> Result<f64, BenchError> {
        let start = Instant::now();
        let seconds = self.batch.time(device)?;
        self.times.push(seconds / self.launches as f64);
        self.spans.push((start, Instant::now()));
        Ok(seconds)
    }

    /// Runs the batch over and over, for so many seconds without looking at the times and then for as many seconds of times.
    fn time_under_load(&mut self, device: &Device, seconds: f64) -> Result<(), BenchError> {
        busy_for(seconds, || self.batch.time(device))?;
        busy_for(seconds, || self.time(device))?;
        Ok(())
    }
}

/// Repeats `batch`, which says how many seconds it took, until so many have passed, and returns how many the last one took.
fn busy_for(seconds: f64, mut batch: impl FnMut() -> Result<f64, BenchError>) -> Result<f64, BenchError> {
    let mut total = 0.0;
    loop {
        // A clock with a coarse grain may say that no time has passed.
        let time = batch()?.max(1e-6);
        total += time;
        if total >= seconds {
            return Ok(time);
        }
    }
}

/// Checks and times contenders on a problem. `progress` is told what goes on, `1 + 2 * contenders` times and as often as the
/// schedule has [`steps`](Schedule::steps).
///
/// # Errors
///
/// [`BenchError`] if memory doesn't suffice, a launch fails or cuBLAS does. A wrong product is no error: it's in the
/// result.
pub fn measure(
    hands: Hands<'_>,
    clocks: Option<&Clocks>,
    problem: &Problem,
    contenders: &[Contender],
    settings: Settings,
    progress: &mut dyn FnMut(&str),
) -> Result<Measurement, BenchError> {
    let device = hands.gemm.device();
    let (contenders, left_out): (Vec<Contender>, Vec<Contender>) =
        contenders.iter().cloned().partition(|contender| hands.takes(contender, problem));
    let copies = data::copies(problem, settings.l2_bytes);

    progress(&format!("{problem}: matrices and reference"));
    let inputs = Inputs::random(problem, settings.numbers, settings.seed)?;
    let samples = Samples::new(problem, &inputs, settings.seed);
    let mut buffers = Buffers::new(device, problem, &inputs, copies)?;
    drop(inputs);

    let mut entries = Vec::new();
    for contender in contenders {
        progress(&format!("{problem}: checking {}", contender.name()));
        let name = contender.name().to_owned();
        let entry = check(hands, problem, contender, &samples, &mut buffers);
        entries.push(entry.map_err(|source| BenchError::Failed {
            contender: name,
            problem: *problem,
            source: Box::new(source),
        })?);
    }

    let buffers = &RefCell::new(buffers);
    let mut turns = Vec::new();
    for entry in &mut entries {
        progress(&format!("{problem}: warming up {}", entry.contender.name()));
        let contender = entry.contender.clone();
        let enqueue = move |launches: usize| {
            let mut buffers = buffers.borrow_mut();
            (0..launches).try_for_each(|index| hands.enqueue(&contender, problem, buffers.copy(index)))
        };
        turns.push(if entry.passed() { Some(warm_up(device, copies, enqueue)?) } else { None });
    }

    let log = ClockLog::default();
    log.during(clocks, || -> Result<(), BenchError> {
        match settings.schedule {
            Schedule::Rounds { rounds } => {
                for round in 0..rounds {
                    progress(&format!("{problem}: round {} of {rounds}", round + 1));
                    for index in rounds::order(turns.len(), round) {
                        let Some(turn) = turns[index].as_mut() else { continue };
                        if rounds::takes_part(round, turn.rounds(rounds), rounds) {
                            turn.time(device)?;
                        }
                    }
                }
            }
            Schedule::Sustained { seconds } => {
                for pass in 0..rounds::PASSES {
                    for index in rounds::order(turns.len(), pass) {
                        progress(&format!("{problem}: {} under load", entries[index].contender.name()));
                        let Some(turn) = turns[index].as_mut() else { continue };
                        turn.time_under_load(device, seconds)?;
                    }
                }
            }
        }
        Ok(())
    })?;
    for (entry, turn) in entries.iter_mut().zip(&turns) {
        if let Some(turn) = turn {
            entry.times = Times::of(&turn.times);
            entry.launches = turn.launches;
            entry.clock = log.within(&turn.spans);
        }
    }
    Ok(Measurement { problem: *problem, copies, entries, left_out })
}

/// Has a contender do the problem in every copy, twice, and looks at the results.
fn check(
    hands: Hands<'_>,
    problem: &Problem,
    contender: Contender,
    samples: &Samples,
    buffers: &mut Buffers,
) -> Result<Entry, BenchError> {
    let mut run = || -> Result<_, BenchError> {
        buffers.poison()?;
        (0..buffers.copies()).try_for_each(|index| hands.enqueue(&contender, problem, buffers.copy(index)))?;
        buffers.results()
    };
    let first = run()?;
    let check = samples.check(problem, first.first());
    let mut reproducible = first.all_are(first.first());
    reproducible &= run()?.all_are(first.first());
    let plan = hands.plan(&contender, problem, buffers.copy(0))?;
    let (kernel, kernel_precision) = (plan.as_ref().map(plan_name), plan.map(|plan| plan.kernel.precision));
    Ok(Entry { contender, kernel, kernel_precision, times: None, launches: 0, check, reproducible, clock: None })
}

/// Records a contender's batch and runs it until the GPU is warm.
fn warm_up<'a>(
    device: &Device,
    copies: usize,
    enqueue: impl Fn(usize) -> Result<(), BenchError> + 'a,
) -> Result<Turn<'a>, BenchError> {
    let enqueue = Rc::new(enqueue);
    let record = |launches| {
        let enqueue = Rc::clone(&enqueue);
        Recorded::new(device, move || enqueue(launches))
    };
    // One launch with each copy; the first time is for what is done once.
    let pass = record(copies)?;
    pass.time(device)?;
    let launches = launches(copies, pass.time(device)?);
    let batch = if launches == copies { pass } else { record(launches)? };
    let batch_seconds = busy_for(WARM_UP.as_secs_f64(), || batch.time(device))?;
    Ok(Turn { batch, launches, batch_seconds, times: Vec::new(), spans: Vec::new() })
}

/// Launches of a batch: as often with each copy as it takes to reach [`BATCH`], `pass` being the time of once.
fn launches(copies: usize, pass: f64) -> usize {
    let passes = (BATCH.as_secs_f64() / pass.max(1e-6)).ceil().max(1.0) as usize;
    copies * passes.min((MAX_LAUNCHES / copies).max(1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{bench::contender, device::DeviceSelector, gemm::Gemm};

    #[test]
    fn a_batch_lasts_long_enough_and_uses_every_copy_equally_often() {
        assert_eq!(launches(1, 2.6e-3), 2);
        assert_eq!(launches(1, 0.2), 1);
        assert_eq!(launches(9, 9.0 * 45e-6), 9 * 13);
        assert_eq!(launches(2000, 2000.0 * 2e-6), 4000);
        assert_eq!(launches(2000, 0.0), 4000);
        assert_eq!(launches(4096, 1e-3), 4096);
    }

    #[test]
    fn contenders_are_checked_and_timed_in_rounds() {
        // On the simulator the times mean nothing, but the way is the same.
        let gemm = Gemm::new(Device::open(DeviceSelector::Simulator).unwrap());
        let hands = Hands { gemm: &gemm, cublas: None };
        let contenders = ["naive", "gemm"].map(|name| contender::by_name(name, Precision::F32).unwrap().remove(0));
        let all = [contenders.as_slice(), &[Contender::Cublas]].concat();
        let settings =
            Settings { schedule: Schedule::Rounds { rounds: 5 }, numbers: Numbers::Normal, seed: 7, l2_bytes: 8 << 10 };
        let problem = Problem::new(24, 20, 28);
        let mut steps = 0;
        let measurement = measure(hands, None, &problem, &all, settings, &mut |_| steps += 1).unwrap();
        assert_eq!((measurement.problem, measurement.copies), (problem, 3));
        assert_eq!(measurement.left_out, [Contender::Cublas]);
        assert_eq!(steps, 1 + 2 * 2 + 5);
        for (entry, contender) in measurement.entries.iter().zip(&contenders) {
            assert_eq!(entry.contender, *contender);
            assert!(entry.passed() && entry.check.elements == 480, "{entry:?}");
            let times = entry.times.unwrap();
            assert!(times.rounds == 5 && times.median > 0.0 && entry.launches % 3 == 0, "{entry:?}");
        }
        assert!(measurement.entries[1].kernel.is_some());
        assert_eq!((measurement.ratio(&contenders[0]), measurement.error_ratio(&contenders[0])), (None, None));
    }

    #[test]
    fn under_load_everybody_is_timed_twice_for_as_long_as_it_was_said() {
        let gemm = Gemm::new(Device::open(DeviceSelector::Simulator).unwrap());
        let hands = Hands { gemm: &gemm, cublas: None };
        let contenders = ["naive", "gemm"].map(|name| contender::by_name(name, Precision::F32).unwrap().remove(0));
        let schedule = Schedule::Sustained { seconds: 0.03 };
        let settings = Settings { schedule, numbers: Numbers::Normal, seed: 7, l2_bytes: 8 << 10 };
        let mut steps = Vec::new();
        let step = &mut |step: &str| steps.push(step.to_owned());
        let measurement = measure(hands, None, &Problem::new(24, 20, 28), &contenders, settings, step).unwrap();
        assert_eq!(steps.len(), 1 + 2 * 2 + schedule.steps(2));
        let turns: Vec<&str> =
            steps.iter().filter_map(|step| step.split(": ").nth(1)?.strip_suffix(" under load")).collect();
        assert_eq!(turns, ["naive", "gemm", "gemm", "naive"]);
        for entry in &measurement.entries {
            let times = entry.times.unwrap();
            let timed = times.slowest * (entry.launches * times.rounds) as f64;
            assert!(entry.passed() && times.rounds >= 2 && timed >= 2.0 * 0.03, "{entry:?}");
        }
    }

    #[test]
    fn a_load_ends_with_the_batch_that_fills_the_time_even_if_the_clock_stands_still() {
        let mut batches = 0;
        let last = busy_for(1.0, || {
            batches += 1;
            Ok(0.4 + 0.1 * f64::from(batches))
        });
        assert!((last.unwrap() - 0.6).abs() < 1e-12 && batches == 2);
        let mut batches = 0;
        busy_for(1e-5, || {
            batches += 1;
            Ok(0.0)
        })
        .unwrap();
        assert!((10..=11).contains(&batches), "{batches}");
    }

    #[test]
    fn products_of_bf16_are_checked_against_the_rounded_matrices() {
        let gemm = Gemm::new(Device::open(DeviceSelector::Simulator).unwrap());
        let hands = Hands { gemm: &gemm, cublas: None };
        let contenders = contender::ladder(Precision::Bf16);
        let settings =
            Settings { schedule: Schedule::Rounds { rounds: 3 }, numbers: Numbers::Normal, seed: 7, l2_bytes: 4 << 10 };
        for problem in [Problem::new(24, 24, 40), Problem { batch: 3, ..Problem::new(8, 16, 24) }] {
            let problem = problem.of(Precision::Bf16);
            let measurement = measure(hands, None, &problem, &contenders, settings, &mut |_| {}).unwrap();
            assert_eq!(measurement.copies, 2);
            // Kernels of the book do no batches, and whoever calls the library may ask for one all the same.
            assert_eq!(measurement.left_out.len(), if problem.batch == 1 { 0 } else { contenders.len() - 1 });
            for entry in &measurement.entries {
                assert!(entry.passed() && entry.times.is_some(), "{problem}: {entry:?}");
            }
            let other = measure(hands, None, &problem.of(Precision::F32), &contenders, settings, &mut |_| {}).unwrap();
            assert_eq!(other.entries.len(), 1, "only the library's own choice has other kernels");
        }
    }

    #[test]
    fn who_computes_something_else_is_found_out_and_not_timed() {
        let gemm = Gemm::new(Device::open(DeviceSelector::Simulator).unwrap());
        // The page to be filled in computes nothing.
        let page = contender::by_name("exercise", Precision::F32).unwrap().remove(0);
        let settings =
            Settings { schedule: Schedule::Rounds { rounds: 3 }, numbers: Numbers::Normal, seed: 7, l2_bytes: 0 };
        let hands = Hands { gemm: &gemm, cublas: None };
        let measurement =
            measure(hands, None, &Problem::square(32), &[page, Contender::Chosen], settings, &mut |_| {}).unwrap();
        let [page, chosen] = &measurement.entries[..] else { panic!("{measurement:?}") };
        if !page.passed() {
            assert!(page.times.is_none() && page.check.wrong > 0);
        }
        assert!(chosen.passed() && chosen.times.is_some());
    }

    #[test]
    fn an_error_names_the_contender_and_the_shape() {
        let device = Device::open(DeviceSelector::Simulator).unwrap();
        // SAFETY: the device is the simulator.
        let gemm = unsafe { Gemm::from_ptx(device, "nonsense".to_owned()) };
        let settings =
            Settings { schedule: Schedule::Rounds { rounds: 3 }, numbers: Numbers::Normal, seed: 7, l2_bytes: 0 };
        let tiled = contender::by_name("tiled", Precision::F32).unwrap();
        let hands = Hands { gemm: &gemm, cublas: None };
        let error = measure(hands, None, &Problem::square(8), &tiled, settings, &mut |_| {}).unwrap_err();
        assert!(error.to_string().starts_with("tiled with 8x8x8: the simulator rejects"), "{error}");
    }
}
