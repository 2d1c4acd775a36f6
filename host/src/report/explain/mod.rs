//! What `explain` has to say: facts, a roofline, the source with what each line costs, and what stands out.

mod chart;
mod listing;
mod picture;
mod text;

use gpu_kernels::Precision;
use ptx_simulator::observe::costs::Counts;
use serde::Serialize;

use super::{Report, table};
use crate::{
    explain::{
        Explanation,
        lines::Listing,
        notes::{Note, Spot},
        occupancy::{Limit, Occupancy},
        ratios::{PerRequest, Ratios},
        registers::Registers,
        roofline::{self, Roofline},
    },
    gpus::Gpu,
    language::Language,
};

/// A kernel, explained.
#[derive(Debug, Serialize)]
pub struct ExplainReport {
    /// The kernel's name.
    pub kernel: &'static str,
    /// The kernel in one line.
    pub title: &'static str,
    /// Its precision: the elements of A and B.
    #[serde(serialize_with = "super::by_name")]
    pub precision: Precision,
    /// Rows of C.
    pub m: usize,
    /// Columns of C.
    pub n: usize,
    /// The inner dimension.
    pub k: usize,
    /// Blocks along x, y, z.
    pub grid: [u32; 3],
    /// Threads of a block along x, y, z.
    pub block: [u32; 3],
    /// Shared memory per block, in bytes.
    pub shared_bytes: u32,
    /// The GPU whose limits are applied.
    pub gpu: GpuFacts,
    /// Registers of a thread.
    pub registers: RegisterFacts,
    /// How full a multiprocessor gets.
    pub occupancy: Occupancy,
    /// Whether that is an upper bound, the number of registers being unknown.
    pub occupancy_is_upper_bound: bool,
    /// What arithmetic and memory allow.
    pub roofline: Roofline,
    /// The whole launch.
    pub total: Counts,
    /// What follows from the counts of the whole launch.
    pub ratios: Ratios,
    /// Every line of source that has instructions.
    pub lines: Vec<LineFacts>,
    /// Every instruction that was executed.
    pub instructions: Vec<InstructionFacts>,
    /// The same launch on a GPU, where there is one.
    pub measured: Option<MeasuredFacts>,
    /// What stands out, in the report's language.
    pub notes: Vec<String>,
    /// The file with the picture, if one was asked for.
    pub svg: Option<String>,
    /// The columns that the listing may take; as many as suit it if `None`.
    #[serde(skip)]
    pub width: Option<usize>,
    #[serde(skip)]
    listings: Vec<Listing>,
    #[serde(skip)]
    register_count: Registers,
    #[serde(skip)]
    language: Language,
}

/// A GPU's published figures.
#[derive(Debug, Serialize)]
pub struct GpuFacts {
    /// Its name.
    pub name: &'static str,
    /// Its compute capability, such as "9.0".
    pub compute_capability: String,
    /// Its multiprocessors.
    pub multiprocessors: u32,
    /// Floating-point operations per second in f32.
    pub peak_f32: f64,
    /// The same in bf16 on tensor cores, if it has such.
    pub peak_bf16: Option<f64>,
    /// Bytes per second to and from memory.
    pub bandwidth: f64,
    #[serde(skip)]
    architecture: String,
}

impl GpuFacts {
    /// The facts of `gpu`.
    pub fn new(gpu: &Gpu) -> GpuFacts {
        let (major, minor) = gpu.compute_capability;
        GpuFacts {
            name: gpu.name,
            compute_capability: format!("{major}.{minor}"),
            multiprocessors: gpu.multiprocessors,
            peak_f32: gpu.peak_f32,
            peak_bf16: gpu.peak(Precision::Bf16),
            bandwidth: gpu.bandwidth,
            architecture: gpu.architecture(),
        }
    }
}

/// The registers of a thread.
#[derive(Debug, Serialize)]
pub struct RegisterFacts {
    /// Their number; none if nobody could say.
    pub count: Option<u32>,
    /// Who says so: "driver", "ptxas" or nobody.
    pub source: Option<&'static str>,
    /// Bytes that a thread writes to memory because the registers don't suffice, where the source says.
    pub spill_bytes: Option<u32>,
    /// Why there is no number.
    pub unknown_because: Option<String>,
}

impl RegisterFacts {
    /// The facts of `registers`.
    pub fn new(registers: &Registers, language: Language) -> RegisterFacts {
        let (source, spill_bytes) = match registers {
            Registers::Driver { .. } => (Some("driver"), None),
            Registers::Assembler { spill_bytes, .. } => (Some("ptxas"), Some(*spill_bytes)),
            Registers::Unknown | Registers::Refused { .. } => (None, None),
        };
        let unknown_because = text::no_registers(registers, language);
        RegisterFacts { count: registers.count(), source, spill_bytes, unknown_because }
    }
}

/// A line of source that has instructions.
#[derive(Debug, Serialize)]
pub struct LineFacts {
    /// The file.
    pub file: String,
    /// The line, from 1.
    pub line: u32,
    /// How often a warp came to it.
    pub executions: u64,
    /// What its instructions cost.
    #[serde(flatten)]
    pub counts: Counts,
}

/// An instruction that was executed.
#[derive(Debug, Serialize)]
pub struct InstructionFacts {
    /// Its index in the kernel's code.
    pub instruction: u32,
    /// The instruction with its modifiers.
    pub mnemonic: String,
    /// Its line in the kernel's own PTX module, as `ptx --kernel` prints it.
    pub ptx_line: u32,
    /// The kernel's source line that it belongs to.
    pub line: Option<u32>,
    /// The place that its own line directive names, which may be in another crate.
    pub source: Option<String>,
    /// What it cost.
    #[serde(flatten)]
    pub counts: Counts,
}

/// A launch on a GPU.
#[derive(Debug, Serialize)]
pub struct MeasuredFacts {
    /// The GPU, as its driver calls it.
    pub device: String,
    /// The time of one launch in seconds.
    pub seconds: f64,
    /// Floating-point operations per second.
    pub operations_per_second: f64,
    /// Launches behind it.
    pub launches: usize,
    /// Registers of a thread, by the driver.
    pub registers: u32,
    /// Blocks that a multiprocessor holds, by the driver.
    pub blocks_per_multiprocessor: u32,
}

impl ExplainReport {
    /// The report on an explained kernel.
    pub fn new(explanation: Explanation, language: Language) -> ExplainReport {
        let Explanation {
            kernel,
            shape,
            counted,
            ratios,
            places,
            listings,
            gpu,
            registers,
            occupancy,
            roofline,
            measured,
            notes,
        } = explanation;
        let [m, n, k] = shape;
        let file_lines = || {
            listings
                .iter()
                .flat_map(|listing| listing.functions.iter().flatten().map(move |line| (listing.file.as_str(), line)))
        };
        let lines = file_lines().filter(|(_, line)| line.executions > 0).map(|(file, line)| LineFacts {
            file: file.to_owned(),
            line: line.number,
            executions: line.executions,
            counts: line.counts,
        });
        let instructions = counted.instructions.iter().map(|instruction| InstructionFacts {
            instruction: instruction.instruction,
            mnemonic: instruction.mnemonic.clone(),
            ptx_line: instruction.ptx_line,
            line: places.get(instruction.instruction as usize).copied().flatten().map(|place| place.line),
            source: instruction.source.as_ref().map(ToString::to_string),
            counts: instruction.counts,
        });
        ExplainReport {
            kernel: kernel.name,
            title: kernel.title,
            precision: kernel.precision,
            m,
            n,
            k,
            grid: counted.launch.grid,
            block: counted.launch.block,
            shared_bytes: counted.shared_bytes,
            gpu: GpuFacts { architecture: gpu.architecture_for(&kernel), ..GpuFacts::new(gpu) },
            registers: RegisterFacts::new(&registers, language),
            occupancy_is_upper_bound: registers.count().is_none(),
            total: counted.total,
            ratios,
            lines: lines.collect(),
            instructions: instructions.collect(),
            measured: measured.map(|measured| MeasuredFacts {
                seconds: measured.time.as_secs_f64(),
                operations_per_second: roofline::operations_per_second(shape, measured.time),
                device: measured.device,
                launches: measured.launches,
                registers: measured.registers,
                blocks_per_multiprocessor: measured.blocks_per_multiprocessor,
            }),
            notes: notes.iter().map(|note| note_text(note, gpu.name, language)).collect(),
            svg: None,
            width: None,
            occupancy,
            roofline,
            listings,
            register_count: registers,
            language,
        }
    }

    /// The roofline as an SVG picture.
    ///
    /// # Errors
    ///
    /// What the drawing library says, in words.
    pub fn picture(&self) -> Result<String, String> {
        let title = format!("{}, {} x {} x {}, {}", self.kernel, self.m, self.n, self.k, self.gpu.name);
        picture::svg(&self.roofline, self.precision.name(), &title, text::labels(self.language))
    }

    fn facts(&self) -> Vec<(&'static str, String)> {
        let (labels, language) = (text::labels(self.language), self.language);
        let (total, ratios, gpu) = (&self.total, &self.ratios, &self.gpu);
        let shape = [self.m, self.n, self.k];
        let counted = table::count;
        let peak = (self.roofline.peak, self.precision);
        let (fma, mma, multiply_adds) =
            (counted(total.warp_fma), counted(total.warp_mma), counted(total.mma_multiply_adds));
        let (multiplying, share) = match self.precision {
            Precision::F32 => (text::Multiplying::Fma { count: &fma }, ratios.fma_share),
            _ => (text::Multiplying::Mma { count: &mma, multiply_adds: &multiply_adds }, ratios.mma_share),
        };
        let mut facts = vec![
            (labels.kernel, format!("{}: {}", self.kernel, self.title)),
            (
                labels.product,
                text::product(shape, self.precision, &table::times(&self.grid), &table::times(&self.block), language),
            ),
            (labels.counted, text::counted(language).to_owned()),
            (labels.gpu, text::gpu(gpu.name, gpu.multiprocessors, peak, gpu.bandwidth, language)),
            (labels.shared_memory, text::shared_memory(self.shared_bytes, language)),
            (labels.registers, text::registers(&self.register_count, &gpu.architecture, language)),
            (labels.occupancy, self.occupancy_text()),
            (
                labels.instructions,
                text::instructions(
                    &counted(total.warp_instructions),
                    multiplying,
                    share,
                    &counted(total.barriers),
                    language,
                ),
            ),
        ];
        if let Some(degree) = ratios.bank_conflict_degree {
            let shared = total.shared();
            let [requests, units, ideal] = [shared.requests, shared.units, shared.ideal].map(counted);
            facts.push((labels.shared_accesses, text::shared_accesses(&requests, &units, &ideal, degree, language)));
        }
        let global = total.global();
        let PerRequest { units: sectors, ideal } = PerRequest::of(&global);
        facts
            .push((labels.global_accesses, text::global_accesses(&counted(global.requests), sectors, ideal, language)));
        let traffic = text::traffic(
            ratios.global_bytes,
            ratios.global_bytes_per_output,
            ratios.loads_per_input_element,
            language,
        );
        facts.push((labels.traffic, traffic));
        let Roofline { requested, perfect_caches, .. } = &self.roofline;
        for (label, caches, point) in [(labels.intensity, false, requested), ("", true, perfect_caches)] {
            let said = text::intensity(caches, point.intensity, point.attainable, point.memory_bound, language);
            facts.push((label, said));
        }
        if let Some(unit) = &self.roofline.shared_and_l1 {
            let said =
                text::shared_and_l1(&counted(unit.wavefronts), unit.clock, chart::unit_roof(&self.roofline), language);
            facts.push((labels.shared_and_l1, said));
        }
        if let Some(measured) = &self.measured {
            let (milliseconds, teraflops) = (measured.seconds * 1e3, measured.operations_per_second / 1e12);
            let said = text::measured(&measured.device, milliseconds, teraflops, measured.launches, language);
            facts.push((labels.measured, said));
        }
        if let Some(path) = &self.svg {
            facts.push((labels.wrote, path.clone()));
        }
        facts
    }

    fn occupancy_text(&self) -> String {
        let language = self.language;
        let Occupancy { blocks, warps, max_warps, share, limits, limited_by } = &self.occupancy;
        let named = |limit: &Limit| format!("{} ({})", text::resource(limit.resource, language), limit.blocks);
        let used_up = limits.iter().filter(|limit| limited_by.contains(&limit.resource)).map(named);
        // The driver knows the blocks of its own GPU, as it does the registers.
        let same_gpu = matches!(self.register_count, Registers::Driver { .. });
        let said = text::OccupancyText {
            blocks: *blocks,
            warps: *warps,
            max_warps: *max_warps,
            share: *share,
            bound: self.occupancy_is_upper_bound,
            limited_by: used_up.collect::<Vec<_>>().join(language.choose(", ", "、")),
            driver: self.measured.as_ref().filter(|_| same_gpu).map(|measured| measured.blocks_per_multiprocessor),
        };
        text::occupancy(&said, language)
    }
}

impl Report for ExplainReport {
    fn table(&self) -> String {
        let labels = text::labels(self.language);
        let mut parts = vec![table::facts(self.facts()), chart::text(&self.roofline, labels)];
        if self.listings.is_empty() {
            parts.push(labels.no_lines.to_owned());
        } else {
            parts.push(listing::text(&self.listings, labels, self.width));
            let mma = (self.total.warp_mma > 0).then_some(labels.legend_mma);
            let legend = labels.legend.iter().copied().chain(mma);
            parts.push(legend.collect::<Vec<_>>().join("\n"));
        }
        let notes = self.notes.iter().map(String::as_str).chain([text::caution(self.language)]);
        parts.push(notes.collect::<Vec<_>>().join("\n"));
        parts.join("\n\n")
    }
}

/// Something that stands out, the limits being those of `gpu`.
fn note_text(note: &Note, gpu: &str, language: Language) -> String {
    let said = |spot: &Spot| {
        let column = spot.column.map_or(String::new(), |column| format!(":{column}"));
        (format!("{}:{}{column}", spot.file, spot.line), PerRequest::of(&spot.traffic))
    };
    match note {
        Note::BankConflict(spot) => {
            let (place, PerRequest { units, ideal }) = said(spot);
            text::worst_conflict(&place, &spot.mnemonic, units, ideal, language)
        }
        Note::NotCoalesced(spot) => {
            let (place, PerRequest { units, ideal }) = said(spot);
            text::worst_coalescing(&place, &spot.mnemonic, units, ideal, spot.wasted_bytes(), language)
        }
        Note::FewerMultiplyAdds { found, needed } => text::fewer_multiply_adds(*found, *needed, language),
        Note::OtherGpu { device } => text::other_gpu(device, gpu, language),
    }
}
