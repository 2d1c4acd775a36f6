//! Time every kernel beside cuBLAS; without a GPU, count what they cost.

use std::io::Write;

use anyhow::{anyhow, ensure};
use gpu_kernels::{Precision, launch::ElementType};
use host::{
    bench::{self, Contender, Hands, Problem, Schedule, Settings, contender, counts, data, problem},
    clocks::Clocks,
    device::{Device, Hardware, available_memory},
    gemm::Gemm,
    matrix::OutputFile,
    report::{BenchMachine, BenchReport},
};

use super::{progress, start_workers, sweep::open_cublas, watched_simulator};
use crate::cli::{BenchArguments, Common};

/// The sizes that are counted on the simulator when nobody asks for others.
const COUNTED_SIZES: [usize; 2] = [64, 128];

pub fn run(arguments: &BenchArguments, common: Common) -> anyhow::Result<BenchReport> {
    let asked_for = problems(arguments);
    if let Some(empty) = asked_for.iter().find(|problem| problem.is_empty()) {
        anyhow::bail!("{empty} is an empty product, which takes no time: choose larger sizes");
    }
    let (contenders, precision) = contenders(arguments, &asked_for)?;
    let half_c = arguments.half_c;
    ensure!(
        !half_c || precision.factors() != ElementType::F32,
        "--half-c gives C the 16-bit elements of A and B, which in {} have 32: leave it out, or choose --precision bf16 or f16",
        precision.name()
    );
    let numbers = arguments.data;
    ensure!(
        numbers.fit(precision),
        "--data {} has numbers that {} can't hold, whose largest is 65504: choose other --data, or another --precision",
        numbers.name(),
        precision.name()
    );
    let of_them = |problem: Problem| Problem { half_c, ..problem.of(precision) };
    let asked_for: Vec<Problem> = asked_for.into_iter().map(of_them).collect();
    ensure_fits(&asked_for, 0)?;
    let csv = arguments.csv.as_deref().map(OutputFile::create).transpose()?;
    let svg = arguments.svg.as_deref().map(OutputFile::create).transpose()?;
    if let Some((csv, svg)) = csv.as_ref().zip(svg.as_ref()) {
        ensure!(!csv.is_same(svg), "--csv and --svg name the same file, {csv}: name another one for one of the two");
    }

    let device = Device::open(common.device())?;
    start_workers()?;
    let problems = |default: &[usize]| match asked_for.as_slice() {
        [] => default.iter().map(|size| of_them(Problem::square(*size))).collect(),
        problems => problems.to_vec(),
    };
    let report = match device.hardware()? {
        None => count(arguments, precision, &device, &problems(&COUNTED_SIZES), &contenders)?,
        Some(hardware) => {
            measure(arguments, precision, device, &hardware, &problems(&problem::DEFAULT_SIZES), contenders)?
        }
    };
    if let Some(output) = csv {
        output.write(|file| file.write_all(report.csv().as_bytes()))?;
    }
    if let Some(output) = svg {
        let picture = report.picture().map_err(|error| anyhow!("cannot draw the plot: {error}"))?;
        output.write(|file| file.write_all(picture.as_bytes()))?;
    }
    Ok(report)
}

/// The products that were asked for, each once, in the order of the options.
fn problems(arguments: &BenchArguments) -> Vec<Problem> {
    let squares = arguments.sizes.iter().copied().map(Problem::square);
    let random = arguments.random.map(|count| problem::random(count.into(), arguments.seed));
    let sets = arguments.sets.iter().flat_map(|set| set.problems(arguments.seed));
    let mut problems: Vec<Problem> = Vec::new();
    for problem in squares.chain(arguments.shapes.iter().copied()).chain(random.into_iter().flatten()).chain(sets) {
        if !problems.contains(&problem) {
            problems.push(problem);
        }
    }
    problems
}

/// Those who were named; if nobody was, the book's kernels too for square matrices, else the library's own choice. And what
/// they compute in.
fn contenders(arguments: &BenchArguments, problems: &[Problem]) -> anyhow::Result<(Vec<Contender>, Precision)> {
    if !arguments.kernels.is_empty() {
        return Ok(contender::by_names(&arguments.kernels, arguments.precision)?);
    }
    let precision = arguments.precision.unwrap_or(Precision::F32);
    let squares = problems.iter().all(|problem| *problem == Problem::square(problem.m));
    Ok((if squares { contender::ladder(precision) } else { vec![Contender::Chosen] }, precision))
}

/// Whether there is host memory for the matrices of every problem, with as many copies as a cache of that size takes, and
/// for what is made of them.
fn ensure_fits(problems: &[Problem], l2_bytes: u64) -> anyhow::Result<()> {
    let available = u128::from(available_memory());
    for problem in problems {
        // A, B, C's poison, and C as it came back, twice; the sampled rows and columns in f64 are beside them.
        let copies = data::copies(problem, l2_bytes) as u128;
        let needed = problem.host_bytes().saturating_mul(2).saturating_mul(copies.saturating_add(1));
        ensure!(
            needed <= available,
            "{problem} needs about {needed} bytes of host memory, and {available} are available; choose smaller shapes"
        );
    }
    Ok(())
}

/// Times everybody on a GPU.
fn measure(
    arguments: &BenchArguments,
    precision: Precision,
    device: Device,
    hardware: &Hardware,
    problems: &[Problem],
    mut contenders: Vec<Contender>,
) -> anyhow::Result<BenchReport> {
    ensure_fits(problems, hardware.l2_bytes)?;
    let info = device.info();
    let gemm = Gemm::new(device);
    super::say_what_is_ignored(&gemm);
    let cublas = open_cublas(gemm.device())?;
    if cublas.is_ok() {
        contenders.push(Contender::Cublas);
    }
    let clocks = match &hardware.bus {
        Some(bus) => Clocks::open(bus).map_err(|error| error.to_string()),
        None => Err("the driver doesn't say where the GPU is".to_owned()),
    };
    let hands = Hands { gemm: &gemm, cublas: cublas.as_ref().ok() };
    let schedule = match arguments.sustained {
        true => Schedule::SUSTAINED,
        false => Schedule::Rounds { rounds: arguments.rounds.into() },
    };
    let settings = Settings { schedule, numbers: arguments.data, seed: arguments.seed, l2_bytes: hardware.l2_bytes };
    let steps = problems.len() * (1 + 2 * contenders.len() + schedule.steps(contenders.len()));
    let measurements = progress::stepping(steps, |step| {
        let measure = |problem| bench::measure(hands, clocks.as_ref().ok(), problem, &contenders, settings, step);
        problems.iter().map(measure).collect::<Result<Vec<_>, _>>()
    })?;

    let max_clock = clocks.as_ref().ok().and_then(Clocks::maximum);
    let driver = info.detail.iter().find(|(label, _)| label == "driver").map(|(_, value)| value.clone());
    let (cublas, no_cublas) = match &cublas {
        Ok(cublas) => (Some(cublas.description()), None),
        Err(reason) => (None, Some(reason.clone())),
    };
    let machine = BenchMachine {
        driver,
        cublas,
        no_cublas,
        no_clock: clocks.err(),
        half_c: arguments.half_c,
        numbers: arguments.data,
        ..BenchMachine::gpu(info.name, hardware, max_clock, precision, schedule, arguments.seed)
    };
    Ok(BenchReport::measured(machine, &measurements, arguments.language.get()))
}

/// Counts what everybody costs on the simulator.
fn count(
    arguments: &BenchArguments,
    precision: Precision,
    device: &Device,
    problems: &[Problem],
    contenders: &[Contender],
) -> anyhow::Result<BenchReport> {
    let deepest = problems.iter().map(|problem| problem.k).max().unwrap_or(0);
    let gemm = Gemm::new(watched_simulator(deepest));
    let hands = Hands { gemm: &gemm, cublas: None };
    let (mut counted, mut left_out) = (Vec::new(), Vec::new());
    progress::stepping(problems.len() * contenders.len(), |step| -> anyhow::Result<()> {
        for problem in problems {
            for contender in contenders {
                step(&format!("{problem}: simulating {}", contender.name()));
                match counts::count(hands, contender, problem, arguments.data, arguments.seed)? {
                    Some(counts) => counted.push(counts),
                    None => left_out.push((contender.clone(), *problem)),
                }
            }
        }
        Ok(())
    })?;
    ensure!(
        !counted.is_empty(),
        "nobody can be counted: on the simulator there are no batches, kernels of the book take no transposes and no C of 16 bits, \
         and some kernels take multiples of their tile only; choose other --kernels or --shapes, or leave out --half-c"
    );
    let machine = BenchMachine {
        half_c: arguments.half_c,
        numbers: arguments.data,
        ..BenchMachine::simulator(device.info().name, precision, arguments.seed)
    };
    Ok(BenchReport::counted(machine, &counted, &left_out, arguments.language.get()))
}
