//! What `bench` has to say: on a GPU a table of times beside cuBLAS, on the simulator a table of counts.

mod picture;
mod text;

use gpu_kernels::Precision;
use serde::Serialize;

use super::Report;
use crate::{
    bench::{
        self, Contender, Measurement, Numbers, Problem, Schedule, Summary, check::Check, contender::plan_name,
        counts::Counted, measure::Entry, statistics::Times,
    },
    clocks::ClockSummary,
    device::Hardware,
    gpus,
    language::Language,
};

/// A spread that is wider than that is pointed out.
const WIDE_SPREAD: f64 = 0.05;

/// So is a clock that fell below this share of its highest.
const STEADY_CLOCK: f64 = 0.97;

/// Where and how a measurement ran.
#[derive(Clone, Debug, Serialize)]
pub struct BenchMachine {
    /// The device's name.
    pub device: String,
    /// Whether it is the simulator, so that there are counts in place of times.
    pub simulated: bool,
    /// What everybody computes in.
    #[serde(serialize_with = "super::by_name")]
    pub precision: Precision,
    /// Whether C has the elements of A and B, which have 16 bits, instead of f32.
    pub half_c: bool,
    /// Multiprocessors of the GPU.
    pub multiprocessors: Option<u32>,
    /// Multiply-adds in that precision that a multiprocessor does each clock, if known.
    pub multiply_adds_per_clock: Option<u32>,
    /// The most that the clock goes up to, in MHz.
    pub max_clock: Option<u32>,
    /// The second-level cache in bytes.
    pub l2_bytes: Option<u64>,
    /// The driver, as it describes itself.
    pub driver: Option<String>,
    /// cuBLAS as it was found.
    pub cublas: Option<String>,
    /// Why cuBLAS isn't among the contenders on a GPU.
    pub no_cublas: Option<String>,
    /// Why the clock under load isn't known on a GPU.
    pub no_clock: Option<String>,
    /// Who is timed when: the schedule's name and its figures. On the simulator nobody is timed.
    #[serde(flatten)]
    pub schedule: Option<Schedule>,
    /// Of which kind the numbers in the matrices are.
    #[serde(rename = "data")]
    pub numbers: Numbers,
    /// Seed of the matrices and of random shapes.
    pub seed: u64,
}

impl BenchMachine {
    /// What the simulator is.
    pub fn simulator(device: String, precision: Precision, seed: u64) -> BenchMachine {
        BenchMachine {
            device,
            simulated: true,
            precision,
            half_c: false,
            multiprocessors: None,
            multiply_adds_per_clock: None,
            max_clock: None,
            l2_bytes: None,
            driver: None,
            cublas: None,
            no_cublas: None,
            no_clock: None,
            schedule: None,
            numbers: Numbers::default(),
            seed,
        }
    }

    /// What a GPU is: its clock goes up to `max_clock` MHz, if that is known better than its driver does.
    pub fn gpu(
        device: String,
        hardware: &Hardware,
        max_clock: Option<u32>,
        precision: Precision,
        schedule: Schedule,
        seed: u64,
    ) -> BenchMachine {
        let multiply_adds_per_clock = gpus::multiply_adds(precision, &device, hardware.compute_capability);
        BenchMachine {
            simulated: false,
            multiprocessors: Some(hardware.multiprocessors),
            multiply_adds_per_clock,
            max_clock: max_clock.or(hardware.clock),
            l2_bytes: Some(hardware.l2_bytes),
            schedule: Some(schedule),
            ..BenchMachine::simulator(device, precision, seed)
        }
    }

    /// Floating-point operations per second of all multiprocessors at a clock in MHz.
    fn peak(&self, clock: u32) -> Option<f64> {
        let multiply_adds = f64::from(self.multiprocessors?) * f64::from(self.multiply_adds_per_clock?);
        Some(2.0 * multiply_adds * f64::from(clock) * 1e6)
    }
}

/// What a contender did for a problem.
#[derive(Clone, Debug, Serialize)]
pub struct BenchRow {
    /// The problem, as `--shapes` takes it.
    pub shape: Problem,
    /// Rows of C.
    pub m: usize,
    /// Columns of C.
    pub n: usize,
    /// The inner dimension.
    pub k: usize,
    /// Whether memory holds the transpose of A.
    pub transposed_a: bool,
    /// Whether memory holds the transpose of B.
    pub transposed_b: bool,
    /// Products.
    pub batch: usize,
    /// The contender: a kernel, "gemm" (the library's choice) or "cuBLAS".
    pub contender: String,
    /// The kernel that ran, if it's known; after a `/`, in how many parts K is split.
    pub kernel: Option<String>,
    /// What that kernel computes in, if it's known: f32 where the library found nothing better.
    pub kernel_precision: Option<&'static str>,
    /// The time of one launch in seconds; none if the product is wrong.
    pub seconds: Option<Times>,
    /// Launches in each batch, of which every round has one.
    pub launches: usize,
    /// Copies of the matrices, each launch with the next.
    pub copies: usize,
    /// Floating-point operations per second.
    pub operations_per_second: Option<f64>,
    /// The clock while it ran, in MHz.
    pub clock: Option<ClockSummary>,
    /// Operations per second by those of the whole GPU at the clock under load; at the highest clock if that isn't known.
    pub share_of_peak: Option<f64>,
    /// cuBLAS's time by that of this contender: above 1 is faster than cuBLAS.
    pub ratio: Option<f64>,
    /// What the check of the product says.
    pub check: Check,
    /// The largest error by that of cuBLAS.
    pub error_ratio: Option<f64>,
    /// The root mean square of the errors by that of cuBLAS.
    pub rms_error_ratio: Option<f64>,
    /// Whether every launch gave the same bits.
    pub reproducible: bool,
    /// Whether the product was right every time.
    pub right: bool,
}

/// How a contender did against cuBLAS over all shapes.
#[derive(Clone, Debug, Serialize)]
pub struct SummaryRow {
    /// The contender.
    pub contender: String,
    /// Shapes that both did.
    pub shapes: usize,
    /// The geometric mean of cuBLAS's time by the contender's.
    pub geometric_mean: f64,
    /// The smallest of these ratios.
    pub least: f64,
    /// Where that was.
    pub least_at: Problem,
    /// Shapes for which the contender was at least as fast.
    pub ahead: usize,
    /// The largest of the contender's largest errors by cuBLAS's.
    pub worst_error_ratio: Option<f64>,
    /// Where that was.
    pub worst_error_at: Option<Problem>,
}

/// What a contender costs for a problem, counted on the simulator.
#[derive(Clone, Debug, Serialize)]
pub struct CountedRow {
    /// The problem, as `--shapes` takes it.
    pub shape: Problem,
    /// The contender.
    pub contender: String,
    /// The kernel that multiplied; after a `/`, in how many parts K is split.
    pub kernel: String,
    /// What that kernel computes in: f32 where the library found nothing better.
    pub kernel_precision: &'static str,
    /// Launches of the product, of which everything is counted.
    pub launches: usize,
    /// Blocks.
    pub blocks: u64,
    /// Fused multiply-adds of all threads.
    pub fma: u64,
    /// The share of fused multiply-adds among the instructions.
    pub fma_share: f64,
    /// Multiply-adds of tensor cores.
    pub mma_multiply_adds: u64,
    /// The share of products of tensor cores among the instructions.
    pub mma_share: f64,
    /// Wavefronts of shared memory.
    pub shared_wavefronts: u64,
    /// By the fewest possible; none without shared accesses.
    pub bank_conflict_degree: Option<f64>,
    /// Sectors of global memory that requests touch.
    pub sectors: u64,
    /// Arrivals of warps at barriers.
    pub barriers: u64,
    /// Instructions, per warp.
    pub warp_instructions: u64,
    /// What the check of the product says.
    pub check: Check,
    /// Whether the product is right.
    pub right: bool,
}

/// Contenders, compared.
#[derive(Debug, Serialize)]
pub struct BenchReport {
    /// Where and how.
    #[serde(flatten)]
    pub machine: BenchMachine,
    /// What each did on a GPU.
    pub rows: Vec<BenchRow>,
    /// What each costs on the simulator.
    pub counts: Vec<CountedRow>,
    /// How each did against cuBLAS.
    pub summaries: Vec<SummaryRow>,
    /// Who doesn't take which shapes.
    pub left_out: Vec<LeftOut>,
    /// What speaks against trusting the times, in the report's language.
    pub warnings: Vec<String>,
    /// The last line, in the report's language.
    pub verdict: String,
    /// Whether every product of this project was right.
    pub passed: bool,
    #[serde(skip)]
    language: Language,
}

/// A contender and the shapes that it doesn't take.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LeftOut {
    /// The contender.
    pub contender: String,
    /// The shapes.
    pub shapes: Vec<Problem>,
}

impl BenchReport {
    /// The report on what was measured on a GPU.
    pub fn measured(machine: BenchMachine, measurements: &[Measurement], language: Language) -> BenchReport {
        let rows: Vec<BenchRow> = measurements
            .iter()
            .flat_map(|measurement| measurement.entries.iter().map(|entry| row(&machine, measurement, entry)))
            .collect();
        let left_out = measurements
            .iter()
            .flat_map(|measurement| measurement.left_out.iter().map(|contender| (contender, measurement.problem)))
            // Without cuBLAS, that is said elsewhere.
            .filter(|(contender, _)| contender.is_ours());
        let summaries: Vec<SummaryRow> = bench::summaries(measurements).iter().map(SummaryRow::new).collect();
        let mut report = BenchReport {
            rows,
            counts: Vec::new(),
            left_out: LeftOut::gather(left_out),
            summaries,
            warnings: Vec::new(),
            verdict: String::new(),
            passed: bench::passed(measurements),
            machine,
            language,
        };
        report.warnings = report.find_warnings();
        report.verdict = report.say_verdict();
        report
    }

    /// The report on what was counted on the simulator.
    pub fn counted(
        machine: BenchMachine,
        counted: &[Counted],
        left_out: &[(Contender, Problem)],
        language: Language,
    ) -> BenchReport {
        let counts: Vec<CountedRow> = counted.iter().map(CountedRow::new).collect();
        let passed = counts.iter().all(|row| row.right);
        let mut report = BenchReport {
            machine,
            rows: Vec::new(),
            counts,
            summaries: Vec::new(),
            left_out: LeftOut::gather(left_out.iter().map(|(contender, problem)| (contender, *problem))),
            warnings: Vec::new(),
            verdict: String::new(),
            passed,
            language,
        };
        report.verdict = report.say_verdict();
        report
    }

    /// Everything as comma-separated values: a row per shape and contender.
    pub fn csv(&self) -> String {
        let (precision, data) = (self.machine.precision.name().to_owned(), self.machine.numbers.name().to_owned());
        let mut csv = String::new();
        let mut line = |cells: &[String]| {
            csv.push_str(&cells.join(","));
            csv.push('\n');
        };
        if self.machine.simulated {
            let header = "shape,contender,kernel,blocks,fma,fma_share,shared_wavefronts,bank_conflict_degree,sectors,barriers,warp_instructions,max_error,right,mma_multiply_adds,mma_share,precision,data,relative_error,launches,kernel_precision";
            line(&[header.to_owned()]);
            for row in &self.counts {
                line(&[
                    row.shape.to_string(),
                    row.contender.clone(),
                    row.kernel.clone(),
                    row.blocks.to_string(),
                    row.fma.to_string(),
                    row.fma_share.to_string(),
                    row.shared_wavefronts.to_string(),
                    cell(row.bank_conflict_degree),
                    row.sectors.to_string(),
                    row.barriers.to_string(),
                    row.warp_instructions.to_string(),
                    row.check.max_error.to_string(),
                    row.right.to_string(),
                    row.mma_multiply_adds.to_string(),
                    row.mma_share.to_string(),
                    precision.clone(),
                    data.clone(),
                    row.check.relative_error.to_string(),
                    row.launches.to_string(),
                    row.kernel_precision.to_owned(),
                ]);
            }
            return csv;
        }
        let header = "shape,m,n,k,transposed_a,transposed_b,batch,contender,kernel,seconds,fastest,slowest,spread,rounds,launches,copies,tflops,clock_mhz,share_of_peak,ratio,max_error,rms_error,share_of_bound,error_ratio,rms_error_ratio,checked,reproducible,right,precision,schedule,data,relative_error,kernel_precision";
        line(&[header.to_owned()]);
        for row in &self.rows {
            line(&[
                row.shape.to_string(),
                row.m.to_string(),
                row.n.to_string(),
                row.k.to_string(),
                row.transposed_a.to_string(),
                row.transposed_b.to_string(),
                row.batch.to_string(),
                row.contender.clone(),
                cell(row.kernel.as_ref()),
                cell(row.seconds.map(|times| times.median)),
                cell(row.seconds.map(|times| times.fastest)),
                cell(row.seconds.map(|times| times.slowest)),
                cell(row.seconds.map(|times| times.spread)),
                cell(row.seconds.map(|times| times.rounds)),
                row.launches.to_string(),
                row.copies.to_string(),
                cell(row.operations_per_second.map(|speed| speed / 1e12)),
                cell(row.clock.as_ref().map(|clock| clock.median)),
                cell(row.share_of_peak),
                cell(row.ratio),
                row.check.max_error.to_string(),
                row.check.rms_error.to_string(),
                row.check.share_of_bound.to_string(),
                cell(row.error_ratio),
                cell(row.rms_error_ratio),
                row.check.elements.to_string(),
                row.reproducible.to_string(),
                row.right.to_string(),
                precision.clone(),
                cell(self.machine.schedule.map(Schedule::name)),
                data.clone(),
                row.check.relative_error.to_string(),
                cell(row.kernel_precision),
            ]);
        }
        csv
    }

    /// TFLOP/s and the ratio to cuBLAS over the shapes, as an SVG picture. On the simulator, multiply-adds per
    /// instruction.
    ///
    /// # Errors
    ///
    /// What the drawing library says, in words.
    pub fn picture(&self) -> Result<String, String> {
        picture::svg(self, self.language)
    }
}

impl Report for BenchReport {
    fn table(&self) -> String {
        text::table(self, self.language)
    }

    fn passed(&self) -> bool {
        self.passed
    }
}

impl LeftOut {
    fn gather<'a>(pairs: impl Iterator<Item = (&'a Contender, Problem)>) -> Vec<LeftOut> {
        let mut all: Vec<LeftOut> = Vec::new();
        for (contender, problem) in pairs {
            let contender = contender.name();
            match all.iter_mut().find(|left_out| left_out.contender == contender) {
                Some(left_out) => left_out.shapes.push(problem),
                None => all.push(LeftOut { contender: contender.to_owned(), shapes: vec![problem] }),
            }
        }
        all
    }
}

impl SummaryRow {
    fn new(summary: &Summary) -> SummaryRow {
        SummaryRow {
            contender: summary.contender.name().to_owned(),
            shapes: summary.problems,
            geometric_mean: summary.mean,
            least: summary.least,
            least_at: summary.least_at,
            ahead: summary.ahead,
            worst_error_ratio: summary.worst_error.map(|(ratio, _)| ratio),
            worst_error_at: summary.worst_error.map(|(_, problem)| problem),
        }
    }
}

impl CountedRow {
    fn new(counted: &Counted) -> CountedRow {
        CountedRow {
            shape: counted.problem,
            contender: counted.contender.name().to_owned(),
            kernel: plan_name(&counted.plan),
            kernel_precision: counted.plan.kernel.precision.name(),
            launches: counted.launches,
            blocks: counted.blocks,
            fma: counted.counts.thread_fma,
            fma_share: counted.ratios.fma_share,
            mma_multiply_adds: counted.counts.mma_multiply_adds,
            mma_share: counted.ratios.mma_share,
            shared_wavefronts: counted.counts.shared().units,
            bank_conflict_degree: counted.ratios.bank_conflict_degree,
            sectors: counted.counts.global().units,
            barriers: counted.counts.barriers,
            warp_instructions: counted.counts.warp_instructions,
            check: counted.check,
            right: counted.check.passed(),
        }
    }
}

fn row(machine: &BenchMachine, measurement: &Measurement, entry: &Entry) -> BenchRow {
    let problem = measurement.problem;
    let speed = entry.times.map(|times| problem.operations() / times.median.max(1e-12));
    let clock = entry.clock.as_ref().map(|clock| clock.median).or(machine.max_clock);
    let peak = clock.and_then(|clock| machine.peak(clock));
    let theirs = entry.contender == Contender::Cublas;
    let errors = measurement.error_ratio(&entry.contender).filter(|_| !theirs);
    BenchRow {
        shape: problem,
        m: problem.m,
        n: problem.n,
        k: problem.k,
        transposed_a: problem.op_a.is_transposed(),
        transposed_b: problem.op_b.is_transposed(),
        batch: problem.batch,
        contender: entry.contender.name().to_owned(),
        kernel: entry.kernel.clone(),
        kernel_precision: entry.kernel_precision.map(Precision::name),
        seconds: entry.times,
        launches: entry.launches,
        copies: measurement.copies,
        operations_per_second: speed,
        clock: entry.clock.clone(),
        share_of_peak: speed.zip(peak).map(|(speed, peak)| speed / peak),
        ratio: measurement.ratio(&entry.contender).filter(|_| !theirs),
        check: entry.check,
        error_ratio: errors.map(|[max, _]| max),
        rms_error_ratio: errors.map(|[_, rms]| rms),
        reproducible: entry.reproducible,
        right: entry.passed(),
    }
}

fn cell<T: ToString>(value: Option<T>) -> String {
    value.map_or(String::new(), |value| value.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::contender;

    fn entry(contender: Contender, seconds: f64, clock: [u32; 3]) -> Entry {
        let [lowest, median, highest] = clock;
        Entry {
            contender,
            kernel: None,
            kernel_precision: None,
            times: Times::of(&[seconds * 0.999, seconds, seconds * 1.001]),
            launches: 20,
            check: Check {
                elements: 100,
                wrong: 0,
                unwritten: 0,
                max_error: 2e-4 * seconds,
                rms_error: 1e-5,
                relative_error: 3e-7,
                share_of_bound: 0.1,
            },
            reproducible: true,
            clock: Some(ClockSummary { median, lowest, highest, brakes: Vec::new() }),
        }
    }

    /// An H200 with cuBLAS that does 1024 in 2 ms and 2048 in 8 ms; `gemm` is faster and slower.
    fn measurements() -> Vec<Measurement> {
        let clock = [1965, 1980, 1980];
        let measurement = |size, theirs: f64, ours: f64| Measurement {
            problem: Problem::square(size),
            copies: 1,
            entries: vec![entry(Contender::Chosen, ours, clock), entry(Contender::Cublas, theirs, clock)],
            left_out: Vec::new(),
        };
        vec![measurement(1024, 2e-3, 1e-3), measurement(2048, 8e-3, 10e-3)]
    }

    fn machine(precision: Precision) -> BenchMachine {
        let hardware = Hardware {
            multiprocessors: 132,
            compute_capability: (9, 0),
            clock: Some(1755),
            l2_bytes: 50 << 20,
            bus: None,
        };
        let machine = BenchMachine::gpu(
            "NVIDIA H200".to_owned(),
            &hardware,
            Some(1980),
            precision,
            Schedule::Rounds { rounds: 3 },
            42,
        );
        BenchMachine { cublas: Some("libcublas.so.13 (13.0.2)".to_owned()), ..machine }
    }

    fn report(measurements: &[Measurement], language: Language) -> BenchReport {
        BenchReport::measured(machine(Precision::F32), measurements, language)
    }

    #[test]
    fn ratios_shares_and_their_summary_are_what_they_say() {
        let report = report(&measurements(), Language::En);
        let [ours, theirs, ..] = &report.rows[..] else { panic!("{:?}", report.rows) };
        assert_eq!((ours.ratio, theirs.ratio), (Some(2.0), None));
        // 132 multiprocessors x 128 lanes x 2 at 1980 MHz.
        let share = 2.0 * 1024f64.powi(3) / 1e-3 / (132.0 * 128.0 * 2.0 * 1.98e9);
        assert!((ours.share_of_peak.unwrap() / share - 1.0).abs() < 1e-9);
        assert_eq!((ours.error_ratio, ours.rms_error_ratio, theirs.error_ratio), (Some(0.5), Some(1.0), None));
        let [summary] = &report.summaries[..] else { panic!("{:?}", report.summaries) };
        assert!((summary.geometric_mean - (2.0f64 * 0.8).sqrt()).abs() < 1e-12 && (summary.least - 0.8).abs() < 1e-12);
        assert_eq!((summary.shapes, summary.ahead, summary.least_at), (2, 1, Problem::square(2048)));
        assert!(report.passed && report.warnings.is_empty(), "{:?}", report.warnings);
        let text = report.table();
        assert!(
            text.contains(
                "1.265 times its speed in the geometric mean of 2 shapes, 0.800 at least (for 2048x2048x2048)"
            )
        );
        assert!(text.contains("3.00e-7") && text.contains("relative error"), "{text}");
        assert!(text.contains("up to 1980 MHz") && text.contains("1.000 ms") && text.contains("2.000"), "{text}");
    }

    #[test]
    fn the_class_of_bf16_is_named_and_has_the_peak_of_tensor_cores() {
        let report = BenchReport::measured(machine(Precision::Bf16), &measurements(), Language::En);
        // 132 multiprocessors x 2048 multiply-adds at 1980 MHz.
        let share = 2.0 * 1024f64.powi(3) / 1e-3 / (132.0 * 2048.0 * 2.0 * 1.98e9);
        assert!((report.rows[0].share_of_peak.unwrap() / share - 1.0).abs() < 1e-9);
        let text = report.table();
        for said in
            ["cublasGemmEx", "A and B are rounded to bf16", "of what all tensor cores do", "against cuBLAS in bf16"]
        {
            assert!(text.contains(said), "{said} is missing in\n{text}");
        }
        assert!(!text.contains("TF32"), "{text}");
        assert!(report.csv().lines().skip(1).all(|line| line.contains(",bf16,rounds,normal,")));
        assert!(report.picture().unwrap().contains("NVIDIA H200, bf16"));
        assert!(
            BenchReport::measured(machine(Precision::Bf16), &measurements(), Language::Zh)
                .table()
                .contains("cuBLAS（bf16）")
        );
    }

    #[test]
    fn what_was_timed_under_load_says_so_and_for_how_long() {
        let machine = BenchMachine { schedule: Some(Schedule::SUSTAINED), ..machine(Precision::F32) };
        let report = BenchReport::measured(machine.clone(), &measurements(), Language::En);
        let text = report.table();
        assert!(text.contains("under load: 0.4 s to warm up and 0.4 s timed") && !text.contains("rounds"), "{text}");
        let chinese = BenchReport::measured(machine, &measurements(), Language::Zh).table();
        assert!(chinese.contains("持续负载") && !chinese.contains("轮"), "{chinese}");
        let json = serde_json::to_value(&report).unwrap();
        assert_eq!((&json["schedule"], &json["sustained_seconds"]), (&"sustained".into(), &0.4.into()));
        assert!(report.csv().lines().skip(1).all(|line| line.contains(",sustained,")));
        let in_turn = serde_json::to_value(self::report(&measurements(), Language::En)).unwrap();
        assert_eq!((&in_turn["schedule"], &in_turn["rounds"]), (&"rounds".into(), &3.into()));
    }

    #[test]
    fn where_the_library_took_a_kernel_of_f32_for_another_precision_it_says_so() {
        let said = |precision, language| {
            let mut all = measurements();
            all[0].entries[0].kernel_precision = Some(Precision::F32);
            all[1].entries[0].kernel_precision = Some(precision);
            let report = BenchReport::measured(machine(precision), &all, language);
            assert_eq!(report.rows[0].kernel_precision, Some("f32"));
            report.table()
        };
        let text = said(Precision::F32Parts, Language::En);
        assert!(text.contains("gemm took one of f32's own kernels for 1024x1024x1024: sums are short"), "{text}");
        assert!(said(Precision::F32Parts, Language::Zh).contains("gemm 在 1024x1024x1024 上改用 f32 自身的核函数"));
        assert!(
            said(Precision::Bf16, Language::En)
                .contains("gemm computed 1024x1024x1024 in f32: this GPU has no kernel of bf16")
        );
        assert!(said(Precision::Bf16, Language::Zh).contains("gemm 以 f32 计算 1024x1024x1024"));
        assert!(!said(Precision::F32, Language::En).contains("own kernels"));
    }

    #[test]
    fn of_a_gpu_whose_tensor_cores_are_not_in_the_table_no_share_of_the_peak_is_said() {
        let hardware = Hardware {
            multiprocessors: 100,
            compute_capability: (8, 9),
            clock: Some(2000),
            l2_bytes: 1 << 20,
            bus: None,
        };
        let machine =
            BenchMachine::gpu("some card".to_owned(), &hardware, None, Precision::Bf16, Schedule::SUSTAINED, 42);
        let report = BenchReport::measured(machine, &measurements(), Language::En);
        assert!(report.rows.iter().all(|row| row.share_of_peak.is_none()));
        assert!(report.table().contains("isn't known how fast the tensor cores of this GPU are"));
    }

    #[test]
    fn every_row_of_the_values_has_a_cell_for_every_column() {
        let csv = report(&measurements(), Language::Zh).csv();
        let cells: Vec<usize> = csv.lines().map(|line| line.split(',').count()).collect();
        assert!(cells.len() == 5 && cells.iter().all(|count| *count == cells[0]), "{csv}");
        let ours: Vec<&str> = csv.lines().nth(1).unwrap().split(',').collect();
        let at = |name: &str| ours[csv.lines().next().unwrap().split(',').position(|head| head == name).unwrap()];
        assert_eq!((at("contender"), at("seconds"), at("ratio")), ("gemm", "0.001", "2"));
    }

    #[test]
    fn a_wide_spread_and_a_clock_that_fell_are_pointed_out() {
        let mut all = measurements();
        all[1].entries[0] = entry(Contender::Chosen, 10e-3, [1500, 1700, 1980]);
        if let Some(clock) = &mut all[1].entries[0].clock {
            clock.brakes.push("the power limit");
        }
        all[0].entries[1].times = Times::of(&[1.0, 1.1, 1.5]);
        for (language, words) in [
            (
                Language::En,
                ["cuBLAS for 1024x1024x1024 spread over", "from 1980 to 1500 MHz, for gemm", "the power limit"],
            ),
            (Language::Zh, ["cuBLAS 在 1024x1024x1024 上达", "从 1980 MHz 降到 1500 MHz", "the power limit"]),
        ] {
            let text = report(&all, language).table();
            assert!(words.iter().all(|word| text.contains(word)), "{text}");
        }
    }

    #[test]
    fn a_wrong_product_of_ours_fails_the_run_and_one_of_cublas_does_not() {
        let mut all = measurements();
        all[0].entries[1].check.wrong = 3;
        all[0].entries[1].times = None;
        let theirs = report(&all, Language::En);
        assert!(theirs.passed && theirs.table().contains("WRONG"));
        all[1].entries[0].reproducible = false;
        let ours = report(&all, Language::En);
        assert!(!ours.passed && ours.table().contains("NOT REPRODUCIBLE"));
        assert!(
            ours.verdict.starts_with("WRONG: 1 products, the first by gemm for 2048x2048x2048"),
            "{}",
            ours.verdict
        );
    }

    #[test]
    fn without_cublas_there_is_nothing_to_compare_with_and_times_all_the_same() {
        let mut all = measurements();
        all.iter_mut().for_each(|measurement| measurement.entries.truncate(1));
        all.iter_mut().for_each(|measurement| measurement.left_out.push(Contender::Cublas));
        let machine = BenchMachine {
            cublas: None,
            no_cublas: Some("cuBLAS is not installed".to_owned()),
            ..machine(Precision::F32)
        };
        let report = BenchReport::measured(machine, &all, Language::En);
        assert!(report.summaries.is_empty() && report.left_out.is_empty() && report.verdict.is_empty());
        let text = report.table();
        assert!(text.contains("cuBLAS is not installed") && text.contains("1.000 ms"), "{text}");
        let picture = report.picture().unwrap();
        assert!(picture.contains("TFLOP/s") && !picture.contains("speed by cuBLAS"));
    }

    #[test]
    fn several_contenders_have_a_table_of_their_own_and_a_line_in_the_picture() {
        let mut all = measurements();
        let tiled = contender::by_name("tiled", Precision::F32).unwrap().remove(0);
        all[0].entries.insert(0, entry(tiled.clone(), 4e-3, [1980; 3]));
        all[1].left_out.push(tiled);
        let report = report(&all, Language::En);
        let text = report.table();
        assert!(text.contains("against cuBLAS") && text.contains("Not for 2048x2048x2048: tiled."), "{text}");
        let picture = report.picture().unwrap();
        for word in ["tiled", "gemm", "cuBLAS", "TFLOP/s", "speed by cuBLAS", "NVIDIA H200", "2048"] {
            assert!(picture.contains(word), "{word} is missing");
        }
    }
}
