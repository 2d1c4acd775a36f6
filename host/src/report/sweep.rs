//! What `sweep` has to say: a table of counts, on a GPU a table of times, and one line that says which tile is best.

use std::time::Duration;

use ptx_simulator::observe::costs::Counts;
use serde::Serialize;

use super::{
    Report,
    explain::{GpuFacts, RegisterFacts},
    table,
};
use crate::{
    explain::{occupancy::Occupancy, ratios::Ratios},
    gpus::Gpu,
    language::Language,
    sweep::{Comparison, Entry, Sweep, Times},
};

/// What cuBLAS is called among the kernels.
const CUBLAS: &str = "cuBLAS";

/// Kernels of different tiles, compared.
#[derive(Debug, Serialize)]
pub struct SweepReport {
    /// The device that was asked for: times are from it, if it is a GPU.
    pub device: String,
    /// Whether it is the simulator, so that there are no times.
    pub simulated: bool,
    /// The GPU whose limits are applied.
    pub gpu: GpuFacts,
    /// What each kernel takes and costs.
    pub counts: Vec<CountRow>,
    /// How fast each is.
    pub times: Vec<TimeRow>,
    /// cuBLAS as it was found.
    pub cublas: Option<String>,
    /// Why cuBLAS isn't among the times of a GPU.
    pub no_cublas: Option<String>,
    /// Which kernel is best for which size, as measured.
    pub best: Vec<Best>,
    /// The one line, in the report's language.
    pub verdict: String,
    /// Whether every product of our kernels was right.
    pub passed: bool,
    #[serde(skip)]
    language: Language,
}

/// Where a sweep ran.
#[derive(Debug)]
pub struct SweepMachine {
    /// The device's name.
    pub device: String,
    /// Whether it is the simulator.
    pub simulated: bool,
    /// The GPU whose limits are applied.
    pub gpu: &'static Gpu,
    /// cuBLAS as it was found, or why it wasn't; none if it wasn't looked for.
    pub cublas: Option<Result<String, String>>,
}

/// What a kernel takes and costs for one size.
#[derive(Debug, Serialize)]
pub struct CountRow {
    /// The kernel.
    pub kernel: &'static str,
    /// Rows and columns of C that a block computes, and steps of the inner dimension between loads.
    pub tile: [u32; 3],
    /// Threads of a block.
    pub threads: u32,
    /// Rows and columns of the matrices.
    pub size: usize,
    /// Shared memory of a block, in bytes.
    pub shared_bytes: u32,
    /// Registers of a thread.
    pub registers: RegisterFacts,
    /// How full a multiprocessor gets.
    pub occupancy: Occupancy,
    /// Whether that is an upper bound, the number of registers being unknown.
    pub occupancy_is_upper_bound: bool,
    /// What the launch costs.
    pub total: Counts,
    /// What follows from that.
    pub ratios: Ratios,
}

/// How fast a kernel, or cuBLAS, is for one size.
#[derive(Debug, Serialize)]
pub struct TimeRow {
    /// Rows and columns of the matrices.
    pub size: usize,
    /// The kernel, or "cuBLAS".
    pub kernel: &'static str,
    /// Rows and columns of C that a block computes, and steps of the inner dimension between loads; none for cuBLAS.
    pub tile: Option<[u32; 3]>,
    /// The time of one launch in seconds.
    pub seconds: f64,
    /// Floating-point operations per second.
    pub operations_per_second: f64,
    /// Its speed as a share of that of cuBLAS, if that was measured.
    pub share_of_cublas: Option<f64>,
    /// Whether its product was right.
    pub right: bool,
    /// Rows of C that were checked.
    pub checked_rows: usize,
}

/// The fastest kernel for a size.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub struct Best {
    /// Rows and columns of the matrices.
    pub size: usize,
    /// The kernel.
    pub kernel: &'static str,
}

impl SweepReport {
    /// The report on what was counted and measured.
    pub fn new(machine: SweepMachine, sweep: &Sweep, language: Language) -> SweepReport {
        let best: Vec<Best> =
            sweep.fastest().into_iter().map(|(size, kernel)| Best { size, kernel: kernel.name }).collect();
        let (cublas, no_cublas) = match machine.cublas {
            None => (None, None),
            Some(Ok(description)) => (Some(description), None),
            Some(Err(reason)) => (None, Some(reason)),
        };
        let verdict = match sweep.comparison() {
            _ if !best.is_empty() => by_times(&best, &machine.device, language),
            Some(comparison) => by_counts(&comparison, language),
            None => String::new(),
        };
        SweepReport {
            device: machine.device,
            simulated: machine.simulated,
            gpu: GpuFacts::new(machine.gpu),
            counts: sweep.entries.iter().map(|entry| CountRow::new(entry, language)).collect(),
            times: sweep.times.iter().flat_map(time_rows).collect(),
            cublas,
            no_cublas,
            best,
            verdict,
            passed: sweep.passed(),
            language,
        }
    }

    /// Everything as comma-separated values: a row per kernel and size, with empty cells for what there isn't.
    pub fn csv(&self) -> String {
        let header = "kernel,n,tile_m,tile_n,tile_k,threads,shared_bytes,registers,occupancy,occupancy_is_upper_bound,shared_wavefronts,\
                      bank_conflict_degree,global_bytes_per_output,warp_instructions,fma_share,seconds,tflops,share_of_cublas,right\n";
        let mut csv = header.to_owned();
        let mut keys: Vec<(usize, &str)> = self.counts.iter().map(|row| (row.size, row.kernel)).collect();
        for row in &self.times {
            if !keys.contains(&(row.size, row.kernel)) {
                keys.push((row.size, row.kernel));
            }
        }
        for (size, kernel) in keys {
            let counted = self.counts.iter().find(|row| (row.size, row.kernel) == (size, kernel));
            // These don't depend on the size.
            let any = self.counts.iter().find(|row| row.kernel == kernel);
            let timed = self.times.iter().find(|row| (row.size, row.kernel) == (size, kernel));
            let cells = [
                kernel.to_owned(),
                size.to_string(),
                cell(any.map(|row| row.tile[0])),
                cell(any.map(|row| row.tile[1])),
                cell(any.map(|row| row.tile[2])),
                cell(any.map(|row| row.threads)),
                cell(any.map(|row| row.shared_bytes)),
                cell(any.and_then(|row| row.registers.count)),
                cell(any.map(|row| row.occupancy.share)),
                cell(any.map(|row| row.occupancy_is_upper_bound)),
                cell(counted.map(|row| row.total.shared().units)),
                cell(counted.and_then(|row| row.ratios.bank_conflict_degree)),
                cell(counted.map(|row| row.ratios.global_bytes_per_output)),
                cell(counted.map(|row| row.total.warp_instructions)),
                cell(counted.map(|row| row.ratios.fma_share)),
                cell(timed.map(|row| row.seconds)),
                cell(timed.map(|row| row.operations_per_second / 1e12)),
                cell(timed.and_then(|row| row.share_of_cublas)),
                cell(timed.map(|row| row.right)),
            ];
            csv.push_str(&cells.join(","));
            csv.push('\n');
        }
        csv
    }

    fn count_table(&self) -> String {
        let say = |english: &str, chinese: &str| self.language.choose(english, chinese).to_owned();
        let headers = vec![
            say("kernel", "核函数"),
            say("N", "N"),
            say("tile m x n x k", "分块 m x n x k"),
            say("threads", "线程"),
            say("shared bytes", "共享内存字节"),
            say("registers", "寄存器"),
            say("occupancy", "占用率"),
            say("shared waves", "共享内存波前"),
            say("waves/ideal", "波前/理想"),
            say("global bytes per output", "每个输出的全局内存字节"),
            say("instructions", "指令数"),
            say("fma", "fma 占比"),
        ];
        let rows = self.counts.iter().map(|row| {
            let bound = if row.occupancy_is_upper_bound { "<= " } else { "" };
            vec![
                row.kernel.to_owned(),
                row.size.to_string(),
                table::times(&row.tile),
                row.threads.to_string(),
                row.shared_bytes.to_string(),
                row.registers.count.map_or("?".to_owned(), |count| count.to_string()),
                format!("{bound}{:.0} %", row.occupancy.share * 100.0),
                table::count(row.total.shared().units),
                row.ratios.bank_conflict_degree.map_or("-".to_owned(), |degree| format!("{degree:.2}")),
                format!("{:.1}", row.ratios.global_bytes_per_output),
                table::count(row.total.warp_instructions),
                format!("{:.1} %", row.ratios.fma_share * 100.0),
            ]
        });
        table::numbers(0, [headers].into_iter().chain(rows))
    }

    /// What the columns of the counts mean.
    fn legend(&self) -> [&'static str; 3] {
        match self.language {
            Language::En => [
                "shared waves: wavefronts, passes over the 32 banks that all shared accesses took; waves/ideal: by the fewest possible, 1 without conflicts.",
                "global bytes per output: of all sectors of 32 bytes that requests touch, for each element of C.",
                "instructions: PTX instructions, counted per warp; fma: the share of fused multiply-adds among them.",
            ],
            Language::Zh => [
                "共享内存波前：所有共享内存访问占用 32 个存储体的轮数（wavefront）；波前/理想：与最少需要的轮数之比，1 表示没有存储体冲突。",
                "每个输出的全局内存字节：请求触及的所有 32 字节扇区的总字节数，除以 C 的元素个数。",
                "指令数：PTX 指令，按 warp 计；fma 占比：其中融合乘加指令所占的比例。",
            ],
        }
    }

    fn time_table(&self) -> String {
        let say = |english: &str, chinese: &str| self.language.choose(english, chinese).to_owned();
        let mut headers = vec![say("kernel", "核函数"), say("N", "N"), say("ms", "毫秒"), say("TFLOP/s", "TFLOP/s")];
        if self.cublas.is_some() {
            headers.push(say("of cuBLAS", "相对 cuBLAS"));
        }
        headers.push(say("product", "结果"));
        let rows = self.times.iter().map(|row| {
            let mut cells = vec![
                row.kernel.to_owned(),
                row.size.to_string(),
                format!("{:.4}", row.seconds * 1e3),
                format!("{:.2}", row.operations_per_second / 1e12),
            ];
            if self.cublas.is_some() {
                cells.push(row.share_of_cublas.map_or(String::new(), |share| format!("{:.1} %", share * 100.0)));
            }
            cells.push(if row.right { say("right", "正确") } else { say("WRONG", "错误") });
            cells
        });
        table::numbers(0, [headers].into_iter().chain(rows))
    }

    /// What the tables are about, a sentence each.
    fn preface(&self) -> Vec<String> {
        let (gpu, language) = (self.gpu.name, self.language);
        let mut lines = vec![match language {
            Language::En => format!(
                "Counted on the PTX simulator, which leaves caches out; occupancy on {gpu}. Sizes are N x N x N."
            ),
            Language::Zh => format!("以下计数来自 PTX 模拟器，不考虑缓存；占用率按 {gpu} 计算。矩阵规模为 N x N x N。"),
        }];
        let unknown = self.counts.iter().find_map(|row| row.registers.unknown_because.as_deref());
        lines.extend(unknown.map(|reason| match language {
            Language::En => format!("Occupancy is an upper bound: the number of registers is {reason}."),
            Language::Zh => format!("占用率只是上界，因为寄存器数{reason}。"),
        }));
        lines
    }

    fn times_preface(&self) -> Vec<String> {
        let (device, language) = (&self.device, self.language);
        let mut lines = vec![match language {
            Language::En => format!("Measured on {device}: batches of launches in turn, medians."),
            Language::Zh => format!("在 {device} 上实测：各核函数按批次轮流启动，取中位数。"),
        }];
        lines.extend(self.cublas.iter().map(|description| match language {
            Language::En => format!("cuBLAS is {description} in its default math mode, which is f32 without TF32."),
            Language::Zh => format!("cuBLAS 为 {description}，使用默认数学模式，即不带 TF32 的 f32。"),
        }));
        lines.extend(self.no_cublas.iter().map(|reason| match language {
            Language::En => format!("There is no column for cuBLAS: {reason}."),
            Language::Zh => format!("没有 cuBLAS 一列：{reason}。"),
        }));
        lines
    }
}

impl Report for SweepReport {
    fn table(&self) -> String {
        let mut parts = vec![self.preface().join("\n"), self.count_table(), self.legend().join("\n")];
        if !self.times.is_empty() {
            parts.extend([self.times_preface().join("\n"), self.time_table()]);
        }
        parts.push(self.verdict.clone());
        parts.join("\n\n")
    }

    fn passed(&self) -> bool {
        self.passed
    }
}

impl CountRow {
    fn new(entry: &Entry, language: Language) -> CountRow {
        let Entry { kernel, size, shared_bytes, counts, ratios, registers, occupancy } = entry;
        CountRow {
            kernel: kernel.name,
            tile: [kernel.tile.m, kernel.tile.n, kernel.tile.k],
            threads: kernel.block.iter().product(),
            size: *size,
            shared_bytes: *shared_bytes,
            registers: RegisterFacts::new(registers, language),
            occupancy: occupancy.clone(),
            occupancy_is_upper_bound: registers.count().is_none(),
            total: *counts,
            ratios: *ratios,
        }
    }
}

fn time_rows(times: &Times) -> Vec<TimeRow> {
    let row = |kernel, tile, time: Duration, right| TimeRow {
        size: times.size,
        kernel,
        tile,
        seconds: time.as_secs_f64(),
        operations_per_second: times.operations_per_second(time),
        share_of_cublas: times.share_of_cublas(time),
        right,
        checked_rows: times.checked_rows,
    };
    let kernels = times.kernels.iter().map(|(kernel, time, check)| {
        let tile = [kernel.tile.m, kernel.tile.n, kernel.tile.k];
        row(kernel.name, Some(tile), *time, check.passed())
    });
    let theirs = times.cublas.iter().map(|(time, check)| row(CUBLAS, None, *time, check.passed()));
    kernels.chain(theirs).collect()
}

/// Which kernel is best for which sizes, as measured.
fn by_times(best: &[Best], device: &str, language: Language) -> String {
    let mut kernels: Vec<&str> = Vec::new();
    for row in best {
        if !kernels.contains(&row.kernel) {
            kernels.push(row.kernel);
        }
    }
    let sizes = |kernel: &str| {
        let sizes = best.iter().filter(|row| row.kernel == kernel).map(|row| row.size.to_string());
        sizes.collect::<Vec<_>>().join(language.choose(", ", "、"))
    };
    let said = kernels.iter().map(|kernel| match language {
        Language::En => format!("{kernel} for N = {}", sizes(kernel)),
        Language::Zh => format!("N = {} 时为 {kernel}", sizes(kernel)),
    });
    let said = said.collect::<Vec<_>>().join(language.choose("; ", "；"));
    match language {
        Language::En => format!("Fastest here, as measured on {device}: {said}."),
        Language::Zh => format!("在 {device} 上实测最快的核函数：{said}。"),
    }
}

/// What can be said without times.
fn by_counts(comparison: &Comparison<'_>, language: Language) -> String {
    let Comparison { size, kernels, by_bytes, by_instructions, conflicted, left_out } = comparison;
    let mut said = match (kernels, language) {
        (0, _) => String::new(),
        (1, Language::En) => "One kernel alone is no comparison: --kernels names several.".to_owned(),
        (1, Language::Zh) => "只有一个核函数，无从比较：可用 --kernels 指定多个。".to_owned(),
        _ => least_of_all(*size, *kernels, by_bytes, by_instructions, language),
    };
    if !conflicted.is_empty() {
        let degree = |entry: &&Entry| {
            let degree = entry.ratios.bank_conflict_degree.unwrap_or(1.0);
            match language {
                Language::En => format!("{} {degree:.2} times", entry.kernel.name),
                Language::Zh => format!("{} 为 {degree:.2} 倍", entry.kernel.name),
            }
        };
        let degrees = conflicted.iter().map(degree).collect::<Vec<_>>().join(language.choose(", ", "，"));
        said.push_str(&match language {
            Language::En => format!(" Bank conflicts cost as well: {degrees} the fewest wavefronts of shared memory."),
            Language::Zh => format!("存储体冲突也有代价：共享内存波前数与最少所需之比，{degrees}。"),
        });
    }
    if !left_out.is_empty() {
        let names = names(left_out, language);
        let are = if left_out.len() == 1 { "is" } else { "are" };
        said.push_str(&match language {
            Language::En => {
                format!(" {names} {are} left out: fewer fused multiply-adds than the product has (explain says more).")
            }
            Language::Zh => format!("{names} 的融合乘加少于矩阵乘所需，不参与比较（详见 explain）。"),
        });
    }
    said.trim_start().to_owned()
}

/// Which of several kernels ask for the fewest bytes and issue the fewest instructions.
fn least_of_all(
    size: usize,
    kernels: usize,
    by_bytes: &[&Entry],
    by_instructions: &[&Entry],
    language: Language,
) -> String {
    let per_output = by_bytes.first().map_or(0.0, |entry| entry.ratios.global_bytes_per_output);
    let who = |entries: &[&Entry]| match (entries.len() == kernels, language) {
        (true, Language::En) => "all".to_owned(),
        (true, Language::Zh) => "各核函数".to_owned(),
        (false, _) => names(entries, language),
    };
    let (asking, issuing) = (who(by_bytes), who(by_instructions));
    match language {
        Language::En => {
            let verb = |verb: &str, entries: &[&Entry]| format!("{verb}{}", if entries.len() == 1 { "s" } else { "" });
            let how_many = |entries: &[&Entry]| if entries.len() == kernels { "equally many" } else { "the fewest" };
            let (bytes, instructions) = (how_many(by_bytes), how_many(by_instructions));
            let subject = if asking == issuing { String::new() } else { format!("{issuing} ") };
            format!(
                "Which kernel is fastest takes a GPU to say. By the counts at N = {size}, {asking} {} global memory for \
                 {bytes} bytes ({per_output:.1} per output) and {subject}{} {instructions} instructions.",
                verb("ask", by_bytes),
                verb("issue", by_instructions),
            )
        }
        Language::Zh => {
            let most = |entries: &[&Entry]| if entries.len() == kernels { "一样多" } else { "最少" };
            format!(
                "哪个核函数最快，要在 GPU 上实测才知道。仅看 N = {size} 时的计数：{asking} 向全局内存请求的字节{}（每个输出 \
                 {per_output:.1} 字节），{issuing} 发射的指令{}。",
                most(by_bytes),
                most(by_instructions),
            )
        }
    }
}

/// The names of kernels, joined.
fn names(entries: &[&Entry], language: Language) -> String {
    let names: Vec<&str> = entries.iter().map(|entry| entry.kernel.name).collect();
    match (names.split_last(), language) {
        (Some((last, rest)), Language::En) if !rest.is_empty() => format!("{} and {last}", rest.join(", ")),
        _ => names.join("、"),
    }
}

fn cell<T: ToString>(value: Option<T>) -> String {
    value.map_or(String::new(), |value| value.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_verdict_names_each_best_kernel_once_with_all_its_sizes() {
        let best = |size, kernel| Best { size, kernel };
        let best = [best(256, "tiled"), best(512, "tiled_32"), best(1024, "tiled_32")];
        assert_eq!(
            by_times(&best, "NVIDIA H200", Language::En),
            "Fastest here, as measured on NVIDIA H200: tiled for N = 256; tiled_32 for N = 512, 1024."
        );
        assert!(by_times(&best, "NVIDIA H200", Language::Zh).contains("N = 512、1024 时为 tiled_32"));
    }
}
