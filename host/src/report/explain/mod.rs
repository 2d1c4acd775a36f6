//! What `explain` has to say: facts, a roofline, the source with what each line costs, and what stands out.

mod chart;
mod listing;
mod picture;
mod text;

use std::collections::BTreeMap;

use ptx_simulator::observe::costs::{Counts, Traffic};
use serde::Serialize;

use super::{Report, table};
use crate::{
    explain::{
        Counted, Explanation,
        lines::{Listing, Place},
        occupancy::{Limit, Occupancy},
        registers::Registers,
        roofline::{Roofline, SECTOR_BYTES, operations},
    },
    gpus::Gpu,
    language::Language,
};

/// Bank conflicts of a larger degree are pointed out.
const NOTEWORTHY_DEGREE: f64 = 1.25;

/// So are accesses that touch more than so many times the fewest sectors. Two rows of a block in a warp touch twice as
/// many as one would, which is no mistake.
const NOTEWORTHY_WASTE: f64 = 2.0;

/// A kernel, explained.
#[derive(Debug, Serialize)]
pub struct ExplainReport {
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
    /// What arithmetic and memory allow.
    pub roofline: Roofline,
    /// The whole launch.
    pub total: CountFacts,
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

/// Accesses of one kind of memory in one direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct TrafficFacts {
    /// Instructions of a warp that accessed it.
    pub requests: u64,
    /// Wavefronts (shared memory) or sectors (global memory).
    pub units: u64,
    /// The fewest wavefronts or sectors possible.
    pub ideal: u64,
    /// Bytes that lanes asked for.
    pub bytes: u64,
}

impl TrafficFacts {
    fn plus(&self, other: &TrafficFacts) -> TrafficFacts {
        TrafficFacts {
            requests: self.requests + other.requests,
            units: self.units + other.units,
            ideal: self.ideal + other.ideal,
            bytes: self.bytes + other.bytes,
        }
    }
}

impl From<&Traffic> for TrafficFacts {
    fn from(traffic: &Traffic) -> TrafficFacts {
        let Traffic { requests, units, ideal, bytes } = *traffic;
        TrafficFacts { requests, units, ideal, bytes }
    }
}

/// Counts of an instruction, a line or a launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct CountFacts {
    /// Instructions issued, counted per warp.
    pub warp_instructions: u64,
    /// Instructions executed, counted per thread.
    pub thread_instructions: u64,
    /// f32 fused multiply-adds, counted per warp.
    pub warp_fma: u64,
    /// f32 fused multiply-adds, counted per thread.
    pub thread_fma: u64,
    /// Arrivals of warps at barriers of the block.
    pub barriers: u64,
    /// Loads from shared memory.
    pub shared_loads: TrafficFacts,
    /// Stores to shared memory.
    pub shared_stores: TrafficFacts,
    /// Atomics on shared memory.
    pub shared_atomics: TrafficFacts,
    /// Loads from global memory.
    pub global_loads: TrafficFacts,
    /// Stores to global memory.
    pub global_stores: TrafficFacts,
    /// Atomics on global memory.
    pub global_atomics: TrafficFacts,
}

impl CountFacts {
    /// All accesses to shared memory together.
    pub fn shared(&self) -> TrafficFacts {
        self.shared_loads.plus(&self.shared_stores).plus(&self.shared_atomics)
    }

    /// All accesses to global memory together.
    pub fn global(&self) -> TrafficFacts {
        self.global_loads.plus(&self.global_stores).plus(&self.global_atomics)
    }
}

impl From<&Counts> for CountFacts {
    fn from(counts: &Counts) -> CountFacts {
        CountFacts {
            warp_instructions: counts.warp_instructions,
            thread_instructions: counts.thread_instructions,
            warp_fma: counts.warp_fma,
            thread_fma: counts.thread_fma,
            barriers: counts.barriers,
            shared_loads: (&counts.shared_loads).into(),
            shared_stores: (&counts.shared_stores).into(),
            shared_atomics: (&counts.shared_atomics).into(),
            global_loads: (&counts.global_loads).into(),
            global_stores: (&counts.global_stores).into(),
            global_atomics: (&counts.global_atomics).into(),
        }
    }
}

/// What follows from the counts of a whole launch.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Ratios {
    /// Fused multiply-adds among the issued instructions.
    pub fma_share: f64,
    /// Wavefronts of shared memory by the fewest possible; none without shared accesses.
    pub bank_conflict_degree: Option<f64>,
    /// Sectors by the fewest possible; none without global accesses.
    pub sectors_by_ideal: Option<f64>,
    /// Bytes of all sectors that requests to global memory touch.
    pub global_bytes: u64,
    /// The same per element of C.
    pub global_bytes_per_output: f64,
    /// How often an element of A or B is loaded by a thread, on average.
    pub loads_per_input_element: f64,
}

impl Ratios {
    /// The ratios of a launch for an m x k by k x n product.
    pub fn new(counts: &Counts, [m, n, k]: [usize; 3]) -> Ratios {
        let (shared, global) = (counts.shared(), counts.global());
        let by_ideal = |traffic: &Traffic| (traffic.ideal > 0).then(|| traffic.units as f64 / traffic.ideal as f64);
        let global_bytes = global.units * SECTOR_BYTES;
        let inputs = m as f64 * k as f64 + k as f64 * n as f64;
        Ratios {
            fma_share: counts.warp_fma as f64 / counts.warp_instructions.max(1) as f64,
            bank_conflict_degree: by_ideal(&shared),
            sectors_by_ideal: by_ideal(&global),
            global_bytes,
            global_bytes_per_output: global_bytes as f64 / (m as f64 * n as f64),
            loads_per_input_element: counts.global_loads.bytes as f64 / size_of::<f32>() as f64 / inputs,
        }
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
    pub counts: CountFacts,
}

/// An instruction that was executed.
#[derive(Debug, Serialize)]
pub struct InstructionFacts {
    /// Its index in the kernel's code.
    pub instruction: u32,
    /// The instruction with its modifiers.
    pub mnemonic: String,
    /// Its line in the PTX text.
    pub ptx_line: u32,
    /// The kernel's source line that it belongs to.
    pub line: Option<u32>,
    /// The place that its own line directive names, which may be in another crate.
    pub source: Option<String>,
    /// What it cost.
    #[serde(flatten)]
    pub counts: CountFacts,
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
            files,
            places,
            listings,
            gpu,
            registers,
            occupancy,
            roofline,
            measured,
        } = explanation;
        let files: Vec<&str> = files.iter().map(String::as_str).collect();
        let [m, n, k] = shape;
        let mut notes = notes(&spots(&counted, &places, &files), language);
        if let Some(other) = measured.as_ref().filter(|measured| !gpu.is_called(&measured.device)) {
            notes.push(text::other_gpu(&other.device, gpu.name, language));
        }
        let file_lines = || {
            listings
                .iter()
                .flat_map(|listing| listing.functions.iter().flatten().map(move |line| (listing.file.as_str(), line)))
        };
        let lines = file_lines().filter(|(_, line)| line.executions > 0).map(|(file, line)| LineFacts {
            file: file.to_owned(),
            line: line.number,
            executions: line.executions,
            counts: (&line.counts).into(),
        });
        let instructions = counted.instructions.iter().map(|instruction| InstructionFacts {
            instruction: instruction.instruction,
            mnemonic: instruction.mnemonic.clone(),
            ptx_line: instruction.ptx_line,
            line: places.get(instruction.instruction as usize).copied().flatten().map(|place| place.line),
            source: instruction.source.as_ref().map(ToString::to_string),
            counts: (&instruction.counts).into(),
        });
        ExplainReport {
            kernel: kernel.name,
            title: kernel.title,
            m,
            n,
            k,
            grid: counted.launch.grid,
            block: counted.launch.block,
            shared_bytes: kernel.shared_bytes + counted.launch.dynamic_shared_bytes,
            gpu: GpuFacts::new(gpu),
            registers: RegisterFacts::new(&registers, language),
            total: (&counted.total).into(),
            ratios: Ratios::new(&counted.total, shape),
            lines: lines.collect(),
            instructions: instructions.collect(),
            measured: measured.map(|measured| {
                let seconds = measured.time.as_secs_f64();
                MeasuredFacts {
                    device: measured.device,
                    seconds,
                    operations_per_second: operations(m, n, k) / seconds.max(1e-12),
                    launches: measured.launches,
                    registers: measured.registers,
                    blocks_per_multiprocessor: measured.blocks_per_multiprocessor,
                }
            }),
            notes,
            svg: None,
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
        picture::svg(&self.roofline, &title, text::labels(self.language))
    }

    fn facts(&self) -> Vec<(&'static str, String)> {
        let (labels, language) = (text::labels(self.language), self.language);
        let (total, ratios, gpu) = (&self.total, &self.ratios, &self.gpu);
        let shape = [self.m, self.n, self.k];
        let counted = table::count;
        let mut facts = vec![
            (labels.kernel, format!("{}: {}", self.kernel, self.title)),
            (labels.product, text::product(shape, &table::times(&self.grid), &table::times(&self.block), language)),
            (labels.counted, text::counted(language).to_owned()),
            (labels.gpu, text::gpu(gpu.name, gpu.multiprocessors, gpu.peak_f32, gpu.bandwidth, language)),
            (labels.shared_memory, text::shared_memory(self.shared_bytes, language)),
            (labels.registers, text::registers(&self.register_count, &gpu.architecture, language)),
            (labels.occupancy, self.occupancy_text()),
            (
                labels.instructions,
                text::instructions(
                    &counted(total.warp_instructions),
                    &counted(total.warp_fma),
                    ratios.fma_share,
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
        let TrafficFacts { requests, units, ideal, .. } = total.global();
        let [sectors, ideal] = [units, ideal].map(|units| units as f64 / requests.max(1) as f64);
        facts.push((labels.global_accesses, text::global_accesses(&counted(requests), sectors, ideal, language)));
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
        let same_gpu = self.registers.source == Some("driver");
        let said = text::OccupancyText {
            blocks: *blocks,
            warps: *warps,
            max_warps: *max_warps,
            share: *share,
            bound: self.registers.count.is_none(),
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
            parts.push(listing::text(&self.listings, labels));
            parts.push(labels.legend.join("\n"));
        }
        let notes = self.notes.iter().map(String::as_str).chain([text::caution(self.language)]);
        parts.push(notes.collect::<Vec<_>>().join("\n"));
        parts.join("\n\n")
    }
}

/// What one kind of access at one place of the source costs, all its copies together.
struct Spot<'a> {
    file: &'a str,
    line: u32,
    column: Option<u32>,
    mnemonic: &'a str,
    counts: Counts,
}

impl Spot<'_> {
    fn place(&self) -> String {
        let column = self.column.filter(|column| *column > 0).map_or(String::new(), |column| format!(":{column}"));
        format!("{}:{}{column}", self.file, self.line)
    }
}

/// What stands out: the access with the worst bank conflicts and the one that wastes most sectors.
fn notes(spots: &[Spot<'_>], language: Language) -> Vec<String> {
    // The largest excess, not the largest ratio: a bad line that is executed once costs little.
    let worst = |traffic: fn(&Counts) -> Traffic, from: f64| {
        let traffic = move |spot: &Spot<'_>| traffic(&spot.counts);
        let noteworthy = |spot: &&Spot<'_>| traffic(spot).units as f64 > from * traffic(spot).ideal as f64;
        let excess = |spot: &&Spot<'_>| traffic(spot).units.saturating_sub(traffic(spot).ideal);
        spots.iter().filter(noteworthy).max_by_key(excess).map(|spot| (spot, traffic(spot)))
    };
    let mut notes = Vec::new();
    if let Some((spot, Traffic { requests, units, ideal, .. })) = worst(Counts::shared, NOTEWORTHY_DEGREE) {
        let [units, ideal] = [units, ideal].map(|units| units as f64 / requests.max(1) as f64);
        notes.push(text::worst_conflict(&spot.place(), spot.mnemonic, units, ideal, language));
    }
    if let Some((spot, Traffic { requests, units, ideal, .. })) = worst(Counts::global, NOTEWORTHY_WASTE) {
        let wasted = (units - ideal) * SECTOR_BYTES;
        let [units, ideal] = [units, ideal].map(|units| units as f64 / requests.max(1) as f64);
        notes.push(text::worst_coalescing(&spot.place(), spot.mnemonic, units, ideal, wasted, language));
    }
    notes
}

/// The accesses of a launch by their place in the source.
fn spots<'a>(counted: &'a Counted, places: &[Option<Place>], sources: &[&'a str]) -> Vec<Spot<'a>> {
    let mut spots: BTreeMap<(Place, &str), Counts> = BTreeMap::new();
    for instruction in &counted.instructions {
        if let Some(Some(place)) = places.get(instruction.instruction as usize) {
            *spots.entry((*place, &instruction.mnemonic)).or_default() += instruction.counts;
        }
    }
    let spot = |((place, mnemonic), counts): ((Place, &'a str), Counts)| {
        let file = sources.get(place.file).copied().unwrap_or_default();
        Spot { file, line: place.line, column: place.column, mnemonic, counts }
    };
    spots.into_iter().map(spot).collect()
}
