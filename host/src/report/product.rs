//! What a product's computation has to say.

use std::path::Path;

use gpu_kernels::{LaunchShape, Precision, Signature};
use ndarray::Dimension;
use serde::Serialize;

use super::{Report, table};
use crate::{
    device::{DeviceInfo, DeviceKind},
    gemm::TimedProduct,
    plan::Plan,
    verify::Verification,
};

/// C = alpha op(A) op(B) + beta C.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Formula {
    /// The factor of the product.
    pub alpha: f32,
    /// The factor of what C held.
    pub beta: f32,
    /// Whether op(A) is A's transpose.
    pub transpose_a: bool,
    /// Whether op(B) is B's.
    pub transpose_b: bool,
    /// How many products, if it is a batch.
    pub batch: Option<usize>,
    /// "A" or "B" if it is one matrix for all products of a batch.
    pub shared: Option<&'static str>,
}

impl Default for Formula {
    /// C = A B.
    fn default() -> Formula {
        Formula { alpha: 1.0, beta: 0.0, transpose_a: false, transpose_b: false, batch: None, shared: None }
    }
}

/// One product: what ran where, how long it took, and how right it is.
#[derive(Debug, Serialize)]
pub struct ProductReport {
    /// The kernel's name.
    pub kernel: &'static str,
    /// The kernel in one line.
    pub title: &'static str,
    /// Rows of C.
    pub m: usize,
    /// Columns of C.
    pub n: usize,
    /// The inner dimension.
    pub k: usize,
    /// The type in which the kernel takes A's and B's elements, such as "f32"; sums and C are f32.
    pub factors: &'static str,
    /// What it is computed in: the kernel's precision.
    pub precision: &'static str,
    /// What was asked for, if the library took a kernel of another precision for it, which is no less exact.
    pub asked_precision: Option<&'static str>,
    /// The device that ran it.
    pub device: DeviceInfo,
    /// Whether the device is the simulator, whose times are not GPU times.
    pub simulated: bool,
    /// What was computed.
    #[serde(flatten)]
    pub formula: Formula,
    /// Blocks along x, y, z; none if there was nothing to launch.
    pub grid: Option<[u32; 3]>,
    /// Threads of a block along x, y, z.
    pub block: [u32; 3],
    /// Shared memory per block, in bytes.
    pub shared_bytes: u32,
    /// The time of one launch, in seconds.
    pub seconds: f64,
    /// Timed launches behind it.
    pub launches: usize,
    /// Multiply-adds per second.
    pub multiply_adds_per_second: f64,
    /// The comparison with the f64 reference, if one was made.
    pub verification: Option<Verification>,
}

impl ProductReport {
    /// Gathers the facts of a product with inner dimension `k`.
    pub fn new<D: Dimension>(
        device: &DeviceInfo,
        product: &TimedProduct<D>,
        k: usize,
        verification: Option<Verification>,
    ) -> ProductReport {
        let sizes = product.c.shape();
        let (batch, m, n) = match *sizes {
            [batch, m, n] => (batch, m, n),
            _ => (1, sizes[0], sizes[1]),
        };
        let Plan { kernel, splits, .. } = product.plan;
        let shape = (kernel.launch_shape)(m, n, k).filter(|_| product.launches > 0);
        ProductReport {
            kernel: kernel.name,
            title: kernel.title,
            m,
            n,
            k,
            factors: kernel.precision.factors().name(),
            precision: kernel.precision.name(),
            asked_precision: None,
            device: device.clone(),
            simulated: device.kind == DeviceKind::Simulator,
            formula: Formula::default(),
            grid: shape.map(|LaunchShape { grid: [x, y, z], .. }| match kernel.signature {
                // Others are launched for each product of a batch.
                Signature::Plain | Signature::Mapped(_) | Signature::MappedCall(_) | Signature::MappedParts(_) => {
                    [x, y, z]
                }
                Signature::Call => [x, splits, u32::try_from(batch).unwrap_or(u32::MAX)],
            }),
            block: kernel.block,
            shared_bytes: kernel.shared_bytes + shape.map_or(0, |shape| shape.dynamic_shared_bytes),
            seconds: product.time.as_secs_f64(),
            launches: product.launches,
            multiply_adds_per_second: product.multiply_adds_per_second(k),
            verification,
        }
    }

    /// The same, with another formula than C = A B.
    pub fn with_formula(self, formula: Formula) -> ProductReport {
        ProductReport { formula, ..self }
    }

    /// The same, for whom `precision` was asked for.
    pub fn asked_for(self, precision: Precision) -> ProductReport {
        let asked = precision.name();
        ProductReport { asked_precision: (asked != self.precision).then_some(asked), ..self }
    }

    /// The formula with the sizes of what it says.
    fn formula(&self) -> String {
        let ProductReport { m, n, k, formula: Formula { alpha, beta, transpose_a, transpose_b, .. }, .. } = *self;
        let factor = |factor: f32| if factor == 1.0 { String::new() } else { format!("{factor} ") };
        let operand = |name: &str, transposed: bool, rows: usize, columns: usize| {
            if transposed {
                format!("{name}^T (of {columns} x {rows})")
            } else {
                format!("{name} ({rows} x {columns})")
            }
        };
        let (a, b) = (operand("A", transpose_a, m, k), operand("B", transpose_b, k, n));
        let added = if beta == 0.0 { String::new() } else { format!(" + {}C", factor(beta)) };
        let types = match (self.factors, self.precision) {
            ("f32", "f32") => "f32".into(),
            ("f32", "tf32") => "factors of f32 rounded to tf32, sums of f32".into(),
            ("f32", precision) => format!("f32 by {precision}"),
            (factors, _) => format!("factors of {factors}, sums of f32"),
        };
        format!("C ({m} x {n}) = {}{a} {b}{added}, {types}", factor(alpha))
    }

    /// Whether the product passed the check, if there was one.
    pub fn passed(&self) -> bool {
        self.verification.as_ref().is_none_or(Verification::passed)
    }

    fn facts(&self) -> Vec<(&'static str, String)> {
        let mut facts = vec![("kernel", format!("{}: {}", self.kernel, self.title))];
        facts.extend(self.asked_precision.map(|asked| ("", other_precision(asked, self.precision))));
        facts.push(("product", self.formula()));
        if let Some(batch) = self.formula.batch {
            let shared = self.formula.shared.map_or(String::new(), |name| format!(", the same {name} for all"));
            facts.push(("batch", format!("{batch} products{shared}")));
        }
        facts.push(("ran on", self.device.name.clone()));
        facts.extend(
            self.device
                .detail
                .iter()
                .filter(|_| self.simulated)
                .map(|(label, value)| ("", format!("{label}: {value}"))),
        );
        if self.simulated {
            facts.push(("", "the kernel's own PTX ran, but a simulator's times are not GPU times".to_owned()));
        }
        if let Some(grid) = self.grid {
            let (grid, block) = (table::times(&grid), table::times(&self.block));
            let shared = self.shared_bytes;
            facts.push(("launch", format!("{grid} blocks of {block} threads, {shared} bytes of shared memory each")));
        }
        facts.push(("time", self.time()));
        if let Some(verification) = &self.verification {
            facts.extend(verification_facts(verification, self.k));
        }
        facts
    }

    fn time(&self) -> String {
        if self.launches == 0 {
            return "nothing to launch: the product is empty".to_owned();
        }
        if self.simulated {
            let millions = self.multiply_adds_per_second / 1e6;
            let time = if self.seconds < 0.1 {
                format!("{:.2} ms", self.seconds * 1e3)
            } else {
                format!("{:.2} s", self.seconds)
            };
            return format!("{time} simulated, {millions:.0} million multiply-adds a second");
        }
        let (milliseconds, teraflops) = (self.seconds * 1e3, 2.0 * self.multiply_adds_per_second / 1e12);
        let launches = match self.launches {
            1 => "one launch, not warmed up".to_owned(),
            launches => format!("median, {launches} launches"),
        };
        format!("{milliseconds:.4} ms, {teraflops:.2} TFLOP/s ({launches})")
    }
}

/// Why a kernel of another precision was taken than was asked for.
fn other_precision(asked: &str, has: &str) -> String {
    if asked == Precision::F32Parts.name() {
        return format!(
            "one of {has}'s own kernels, not of {asked}: sums are short, the product is small, or the GPU is no Hopper"
        );
    }
    format!("computed in {has}, not in {asked}: this GPU has no kernel of {asked} for such a product")
}

fn verification_facts(verification: &Verification, k: usize) -> Vec<(&'static str, String)> {
    let Verification { elements, max_difference, max_ratio, mean_tolerance, max_tolerance, wrong, .. } = verification;
    if *elements == 0 {
        return vec![("check", "nothing to compare: the product is empty".to_owned())];
    }
    let mut facts = vec![
        ("max |difference|", format!("{max_difference:.2e} from the f64 reference, {elements} elements compared")),
        (
            "f32 rounding",
            format!(
                "allows {mean_tolerance:.1e} on average and {max_tolerance:.1e} at most for K = {k}; the worst element uses {:.1} % of its share",
                max_ratio * 100.0
            ),
        ),
    ];
    if let (1.., Some(worst)) = (wrong, verification.worst_element()) {
        facts.push(("wrong", format!("{wrong} elements; the worst is {worst}")));
        if max_difference.is_nan() {
            let hint = "NaN or infinity where the product is finite (or the reverse): memory that nobody wrote was read, or an element was not written";
            facts.push(("", hint.to_owned()));
        }
    }
    facts
}

fn verdict(passed: bool) -> (&'static str, String) {
    ("verdict", if passed { "PASS".to_owned() } else { "FAIL: the kernel's result is wrong".to_owned() })
}

/// The main job.
#[derive(Debug, Serialize)]
pub struct RunReport {
    /// The product and its check.
    #[serde(flatten)]
    pub product: ProductReport,
    /// Seed of the random inputs.
    pub seed: u64,
    /// The lesson's bar for the largest difference.
    pub lesson_bar: f64,
    /// Whether the difference is under it.
    pub under_lesson_bar: bool,
    /// The verdict: every element is within what f32 rounding allows, and the lesson's bar is met.
    pub passed: bool,
}

impl RunReport {
    /// The main job's report from a checked product.
    pub fn new(product: ProductReport, seed: u64, lesson_bar: f64) -> RunReport {
        let under_lesson_bar = product.verification.as_ref().is_some_and(|check| check.under(lesson_bar));
        RunReport { passed: product.passed() && under_lesson_bar, product, seed, lesson_bar, under_lesson_bar }
    }
}

impl Report for RunReport {
    fn table(&self) -> String {
        let mut facts = self.product.facts();
        facts.insert(2, ("inputs", format!("standard normal, seed {}", self.seed)));
        let under = if self.under_lesson_bar { "met" } else { "not met" };
        facts.push(("lesson's bar", format!("max |difference| < {:e}: {under}", self.lesson_bar)));
        facts.push(verdict(self.passed()));
        table::facts(facts)
    }

    fn passed(&self) -> bool {
        self.passed
    }
}

/// Elements that overflowed on the way from the files to C.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Overflows {
    /// Those of A and of B that rounding to the precision's factors made infinite.
    pub factors: [usize; 2],
    /// Those of C that are infinite or NaN, if everything in the files is finite.
    pub c: usize,
}

impl Overflows {
    /// A line for each matrix that has any.
    fn warnings(&self, precision: Precision) -> Vec<String> {
        let largest = match precision {
            Precision::F16 => "65504",
            Precision::Bf16 => "3.39e38",
            Precision::Tf32 | Precision::F32 | Precision::F32Parts => "3.40e38",
        };
        let name = precision.name();
        let elements = |count: usize, matrix: &str| match count {
            1 => format!("1 element of {matrix} is"),
            _ => format!("{count} elements of {matrix} are"),
        };
        let factors =
            ["A", "B"].into_iter().zip(self.factors).filter(|(_, count)| *count > 0).map(|(matrix, count)| {
                format!(
                    "{} beyond the largest number of {name}, {largest}, and became infinite",
                    elements(count, matrix)
                )
            });
        let c = (self.c > 0).then(|| {
            format!("{} infinite or NaN, though all numbers that it is made of are finite", elements(self.c, "C"))
        });
        factors.chain(c).collect()
    }
}

/// A product of two files.
#[derive(Debug, Serialize)]
pub struct GemmReport {
    /// The product and its check, if one was asked for.
    #[serde(flatten)]
    pub product: ProductReport,
    /// The file that holds C; none if the check failed. What is no UTF-8 in its name is replaced.
    pub output: Option<String>,
    /// What C may not be expected to hold.
    pub warnings: Vec<String>,
    /// The verdict; none if no check was asked for.
    pub passed: Option<bool>,
}

impl GemmReport {
    /// The report on a product, with the file that it was written to.
    pub fn new(product: ProductReport, output: Option<&Path>) -> GemmReport {
        let passed = product.verification.as_ref().map(Verification::passed);
        GemmReport { product, output: output.map(|path| path.display().to_string()), warnings: Vec::new(), passed }
    }

    /// The same, with a warning for what overflowed in a product of that precision.
    pub fn with_overflows(self, overflows: Overflows, precision: Precision) -> GemmReport {
        GemmReport { warnings: overflows.warnings(precision), ..self }
    }
}

impl Report for GemmReport {
    fn table(&self) -> String {
        let mut facts = self.product.facts();
        facts.extend(self.warnings.iter().map(|warning| ("warning", warning.clone())));
        match &self.output {
            Some(path) => facts.push(("wrote", path.clone())),
            None => facts.push(("wrote", "nothing: the result is wrong".to_owned())),
        }
        if self.product.verification.is_some() {
            facts.push(verdict(self.passed()));
        }
        table::facts(facts)
    }

    fn passed(&self) -> bool {
        self.passed != Some(false)
    }
}
