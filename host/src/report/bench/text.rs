//! The report of `bench` in words.

use gpu_kernels::Precision;

use super::{BenchReport, BenchRow, STEADY_CLOCK, WIDE_SPREAD};
use crate::{
    bench::{Contender, Numbers, Problem, Schedule},
    language::Language,
    report::table,
};

/// The whole report.
pub fn table(report: &BenchReport, language: Language) -> String {
    let mut parts = vec![preface(report, language).join("\n")];
    if report.machine.simulated {
        parts.push(counts(report, language));
        parts.push([counts_legend(report, language).as_str(), errors_legend(language)].join("\n"));
    } else {
        parts.push(times(report, language));
        parts.push(times_legend(report, language).join("\n"));
        if report.summaries.len() > 1 {
            parts.push(summaries(report, language));
        }
    }
    parts.extend(other_precision(report, language));
    let left_out = left_out(report, language);
    if !left_out.is_empty() {
        parts.push(left_out.join("\n"));
    }
    if !report.warnings.is_empty() {
        parts.push(report.warnings.join("\n"));
    }
    if !report.verdict.is_empty() {
        parts.push(report.verdict.clone());
    }
    parts.join("\n\n")
}

fn preface(report: &BenchReport, language: Language) -> Vec<String> {
    let machine = &report.machine;
    let (device, seed, numbers) = (&machine.device, machine.seed, numbers_text(machine.numbers, language));
    let factors = machine.precision.name();
    let output = if machine.half_c { factors } else { "f32" };
    let rounded = match (machine.precision, language) {
        (Precision::F32, _) => None,
        (Precision::F32Parts, Language::En) => Some(
            "Beside cuBLAS in f32: ours are of f32 in parts on tensor cores, as exact as f32, splitting included."
                .to_owned(),
        ),
        (Precision::F32Parts, Language::Zh) => {
            Some("与 cuBLAS 的 f32 比较：本库将 f32 拆分后用张量核心计算，精度不低于 f32，时间含拆分。".to_owned())
        }
        (Precision::Bf16 | Precision::F16, Language::En) => {
            Some(format!("A and B are rounded to {factors}; sums are of f32, C is of {output}."))
        }
        (Precision::Bf16 | Precision::F16, Language::Zh) => {
            Some(format!("A、B 舍入为 {factors}；累加为 f32，C 为 {output}。"))
        }
        (Precision::Tf32, Language::En) => {
            Some("A and B are of f32, rounded to the 11 bits of tf32; sums and C are of f32.".to_owned())
        }
        (Precision::Tf32, Language::Zh) => Some("A、B 为舍入到 tf32（11 位尾数）的 f32；累加与 C 为 f32。".to_owned()),
    };
    if machine.simulated {
        let counted = match language {
            Language::En => format!(
                "Counted on the {device}: times need a GPU. The kernels' own PTX ran on random matrices ({numbers}, seed {seed})."
            ),
            Language::Zh => {
                format!(
                    "以下为 {device} 上的计数；耗时须在 GPU 上测量。核函数的 PTX 在随机矩阵（{numbers}，种子 {seed}）上运行。"
                )
            }
        };
        return [counted].into_iter().chain(rounded).collect();
    }
    let mut facts = Vec::new();
    facts.extend(machine.multiprocessors.map(|count| match language {
        Language::En => format!("{count} multiprocessors"),
        Language::Zh => format!("{count} 个多处理器"),
    }));
    facts.extend(machine.max_clock.map(|clock| match language {
        Language::En => format!("up to {clock} MHz"),
        Language::Zh => format!("最高 {clock} MHz"),
    }));
    facts.extend(machine.l2_bytes.map(|bytes| format!("L2 {}", table::binary_bytes(bytes))));
    facts.extend(machine.driver.as_ref().map(|driver| match language {
        Language::En => format!("driver {driver}"),
        Language::Zh => format!("驱动 {driver}"),
    }));
    let facts = facts.join(language.choose(", ", "，"));
    let schedule = machine.schedule.map_or(String::new(), |schedule| schedule_text(schedule, language));
    let mut lines = vec![match language {
        Language::En => format!(
            "Measured on {device} ({facts}): {schedule}, launches in CUDA graphs, random matrices ({numbers}, seed {seed}) beyond the L2 cache."
        ),
        Language::Zh => format!(
            "在 {device}（{facts}）上实测：{schedule}，启动记录在 CUDA 图中，随机矩阵（{numbers}，种子 {seed}）总量超出 L2 缓存。"
        ),
    }];
    lines.extend(rounded);
    lines.extend(machine.cublas.iter().map(|description| match (machine.precision, language) {
        (Precision::F32 | Precision::F32Parts, Language::En) => {
            format!("cuBLAS is {description} in its default math mode, which is f32 without TF32.")
        }
        (Precision::F32 | Precision::F32Parts, Language::Zh) => {
            format!("cuBLAS 为 {description}，使用默认数学模式，即不带 TF32 的 f32。")
        }
        (Precision::Tf32, Language::En) => {
            format!("cuBLAS is {description}, asked by cublasGemmEx for tf32: factors, sums and C of f32.")
        }
        (Precision::Tf32, Language::Zh) => {
            format!("cuBLAS 为 {description}，调用 cublasGemmEx 的 tf32：A、B、累加与 C 为 f32。")
        }
        (Precision::Bf16 | Precision::F16, Language::En) => {
            format!(
                "cuBLAS is {description}, asked by cublasGemmEx for factors of {factors}, sums of f32, C of {output}."
            )
        }
        (Precision::Bf16 | Precision::F16, Language::Zh) => {
            format!("cuBLAS 为 {description}，调用 cublasGemmEx：A、B 为 {factors}，累加为 f32，C 为 {output}。")
        }
    }));
    lines.extend(machine.no_cublas.iter().map(|reason| match language {
        Language::En => format!("There is nothing to compare with: {reason}."),
        Language::Zh => format!("没有可比较的对象：{reason}。"),
    }));
    lines.extend(machine.no_clock.iter().map(|reason| match language {
        Language::En => {
            format!("The clock under load is unknown: {reason}. Shares of the peak are by the highest clock.")
        }
        Language::Zh => format!("负载下的时钟频率未知：{reason}。峰值占比按最高频率计算。"),
    }));
    lines
}

/// What A and B consist of.
fn numbers_text(numbers: Numbers, language: Language) -> &'static str {
    match numbers {
        Numbers::Normal => language.choose("standard normal", "标准正态分布"),
        Numbers::Uniform => language.choose("uniform from -1 to 1", "-1 到 1 均匀分布"),
        Numbers::Positive => language.choose("uniform from 0 to 1", "0 到 1 均匀分布"),
        Numbers::Wide => language.choose("of either sign, from 2^-30 to 2^30", "符号随机，绝对值从 2^-30 到 2^30"),
        Numbers::Cancelling => language.choose("sums that nearly cancel", "求和时几乎相互抵消"),
    }
}

/// Who was timed when.
fn schedule_text(schedule: Schedule, language: Language) -> String {
    match (schedule, language) {
        (Schedule::Rounds { rounds }, Language::En) => format!("medians of {rounds} rounds in turn"),
        (Schedule::Rounds { rounds }, Language::Zh) => format!("轮流进行 {rounds} 轮取中位数"),
        (Schedule::Sustained { seconds }, Language::En) => format!(
            "medians under load: {seconds} s to warm up and {seconds} s timed for each alone, twice, in opposite orders"
        ),
        (Schedule::Sustained { seconds }, Language::Zh) => {
            format!("持续负载下取中位数，各自单独预热 {seconds} s 后计时 {seconds} s，再以相反顺序重复一次")
        }
    }
}

/// A time in the unit that suits it.
fn time(seconds: f64) -> String {
    let (number, unit) = match seconds {
        seconds if seconds < 1e-3 => (seconds * 1e6, "us"),
        seconds if seconds < 1.0 => (seconds * 1e3, "ms"),
        seconds => (seconds, "s"),
    };
    let decimals = if number < 10.0 { 3 } else { 2 - usize::from(number >= 100.0) };
    format!("{number:.decimals$} {unit}")
}

fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

fn times(report: &BenchReport, language: Language) -> String {
    let say = |english: &str, chinese: &str| language.choose(english, chinese).to_owned();
    let compared = report.machine.cublas.is_some();
    let mut headers = vec![
        say("kernel", "核函数"),
        say("m x n x k", "m x n x k"),
        say("time", "耗时"),
        say("spread", "离散度"),
        say("TFLOP/s", "TFLOP/s"),
        say("of peak", "峰值占比"),
        say("MHz", "MHz"),
    ];
    if compared {
        headers.push(say("x cuBLAS", "对 cuBLAS 倍数"));
    }
    headers.push(say("max error", "最大误差"));
    if compared {
        headers.push(say("by cuBLAS's", "误差比"));
    }
    headers.push(say("relative error", "相对误差"));
    if compared {
        headers.push(say("by cuBLAS's", "误差比"));
    }
    headers.push(say("product", "结果"));
    let error_ratio = |ratio: Option<f64>| ratio.map_or(String::new(), |ratio| format!("{ratio:.2}"));
    let ratio = |ratio: Option<f64>| ratio.map_or(String::new(), |ratio| format!("{ratio:.3}"));
    let rows = report.rows.iter().map(|row| {
        let mut cells = vec![
            name(row),
            row.shape.to_string(),
            row.seconds.map_or("-".to_owned(), |times| time(times.median)),
            row.seconds.map_or("-".to_owned(), |times| percent(times.spread)),
            row.operations_per_second.map_or("-".to_owned(), |speed| format!("{:.2}", speed / 1e12)),
            row.share_of_peak.map_or("-".to_owned(), percent),
            row.clock.as_ref().map_or("?".to_owned(), |clock| clock.median.to_string()),
        ];
        if compared {
            cells.push(ratio(row.ratio));
        }
        cells.push(format!("{:.2e}", row.check.max_error));
        if compared {
            cells.push(error_ratio(row.error_ratio));
        }
        cells.push(format!("{:.2e}", row.check.relative_error));
        if compared {
            cells.push(error_ratio(row.rms_error_ratio));
        }
        cells.push(match (row.check.passed(), row.reproducible) {
            (true, true) => say("right", "正确"),
            (true, false) => say("NOT REPRODUCIBLE", "不可重现"),
            _ => say("WRONG", "错误"),
        });
        cells
    });
    table::numbers(0, [headers].into_iter().chain(rows))
}

/// A contender, and for the library's choice what it is.
fn name(row: &BenchRow) -> String {
    match row.kernel.as_deref().filter(|_| row.contender == Contender::CHOSEN) {
        Some(kernel) => format!("{} ({kernel})", row.contender),
        None => row.contender.clone(),
    }
}

fn times_legend(report: &BenchReport, language: Language) -> Vec<String> {
    let in_rounds = !matches!(report.machine.schedule, Some(Schedule::Sustained { .. }));
    let who = match (report.machine.precision, language) {
        (Precision::F32, Language::En) => "lanes",
        (Precision::F32, Language::Zh) => "运算单元",
        (_, Language::En) => "tensor cores",
        (_, Language::Zh) => "张量核心",
    };
    let mut lines = vec![match language {
        Language::En => format!(
            "spread: from the first to the last tenth of the {}, by the median; of peak: of what all {who} do at the clock under load.",
            if in_rounds { "rounds" } else { "timed graphs" }
        ),
        Language::Zh => format!(
            "离散度：各{}耗时第 10 到第 90 百分位之差与中位数之比；峰值占比：相对于全部{who}在负载频率下的算力。",
            if in_rounds { "轮" } else { "图" }
        ),
    }];
    if report.machine.precision.on_tensor_cores() && report.machine.multiply_adds_per_clock.is_none() {
        let said = language.choose(
            "It isn't known how fast the tensor cores of this GPU are, so that there are no shares of the peak.",
            "该 GPU 张量核心的算力未知，因此没有峰值占比。",
        );
        lines.push(said.to_owned());
    }
    if report.machine.cublas.is_some() {
        let said = language.choose(
            "x cuBLAS: cuBLAS's time by this one, above 1 is faster; by cuBLAS's: the error before it by that of cuBLAS.",
            "对 cuBLAS 倍数：cuBLAS 耗时除以该耗时，大于 1 即更快；误差比：其左侧误差与 cuBLAS 误差之比。",
        );
        lines.push(said.to_owned());
    }
    lines.push(errors_legend(language).to_owned());
    lines
}

/// What the errors are.
fn errors_legend(language: Language) -> &'static str {
    language.choose(
        "max error: the largest difference from an f64 reference; relative error: the Frobenius norm of the differences by that of the reference.",
        "最大误差：与 f64 参考值之差的最大值；相对误差：差的 Frobenius 范数与参考值 Frobenius 范数之比。",
    )
}

fn summaries(report: &BenchReport, language: Language) -> String {
    let say = |english: &str, chinese: &str| language.choose(english, chinese).to_owned();
    let headers = vec![
        say("against cuBLAS", "对 cuBLAS"),
        say("shapes", "形状数"),
        say("geometric mean", "几何平均"),
        say("least", "最小"),
        say("where", "最小处"),
        say("not slower", "不慢于"),
        say("worst error by cuBLAS's", "最大误差比"),
    ];
    let rows = report.summaries.iter().map(|row| {
        vec![
            row.contender.clone(),
            row.shapes.to_string(),
            format!("{:.3}", row.geometric_mean),
            format!("{:.3}", row.least),
            row.least_at.to_string(),
            row.ahead.to_string(),
            row.worst_error_ratio.map_or(String::new(), |ratio| format!("{ratio:.2}")),
        ]
    });
    table::numbers(0, [headers].into_iter().chain(rows))
}

fn counts(report: &BenchReport, language: Language) -> String {
    let precision = report.machine.precision;
    let say = |english: &str, chinese: &str| language.choose(english, chinese).to_owned();
    let headers = vec![
        say("kernel", "核函数"),
        say("m x n x k", "m x n x k"),
        say("launches", "启动"),
        say("blocks", "线程块"),
        multiplying(precision).to_owned(),
        say("of all", "占比"),
        say("shared waves", "共享内存波前"),
        say("waves/ideal", "波前/理想"),
        say("sectors", "扇区"),
        say("barriers", "屏障"),
        say("instructions", "指令数"),
        say("max error", "最大误差"),
        say("relative error", "相对误差"),
        say("product", "结果"),
    ];
    let rows = report.counts.iter().map(|row| {
        let (multiply_adds, share) = match precision {
            Precision::F32 => (row.fma, row.fma_share),
            _ => (row.mma_multiply_adds, row.mma_share),
        };
        let name = match row.contender == Contender::CHOSEN {
            true => format!("{} ({})", row.contender, row.kernel),
            false => row.contender.clone(),
        };
        vec![
            name,
            row.shape.to_string(),
            row.launches.to_string(),
            row.blocks.to_string(),
            table::count(multiply_adds),
            percent(share),
            table::count(row.shared_wavefronts),
            row.bank_conflict_degree.map_or("-".to_owned(), |degree| format!("{degree:.2}")),
            table::count(row.sectors),
            table::count(row.barriers),
            table::count(row.warp_instructions),
            format!("{:.2e}", row.check.max_error),
            format!("{:.2e}", row.check.relative_error),
            if row.right { say("right", "正确") } else { say("WRONG", "错误") },
        ]
    });
    table::numbers(0, [headers].into_iter().chain(rows))
}

/// The instruction that multiplies and adds.
fn multiplying(precision: Precision) -> &'static str {
    match precision {
        Precision::F32 => "fma",
        _ => "mma",
    }
}

fn counts_legend(report: &BenchReport, language: Language) -> String {
    let multiply_adds = match report.machine.precision {
        Precision::F32 => language.choose(
            "fma: fused multiply-adds of all threads, and their share of the instructions",
            "fma：所有线程的融合乘加次数及其占指令",
        ),
        _ => language.choose(
            "mma: multiply-adds of tensor cores, and the share of their products among the instructions",
            "mma：张量核心的乘加次数，及其 mma 指令占全部指令",
        ),
    };
    match language {
        Language::En => format!(
            "Of all launches of a product. {multiply_adds}, which are counted per warp; shared waves: passes over the 32 banks; sectors: of 32 bytes, that requests \
             to global memory touch; barriers: arrivals of warps."
        ),
        Language::Zh => format!(
            "按一次乘积的全部启动计。{multiply_adds}（按 warp 计）的比例；共享内存波前：占用 32 个存储体的轮数；扇区：全局内存请求触及的 32 字节单位；屏障：warp \
             到达屏障的次数。"
        ),
    }
}

/// Shapes, a few of them named.
fn some(shapes: &[Problem], language: Language) -> String {
    const NAMED: usize = 4;
    let named = shapes.iter().take(NAMED).map(ToString::to_string).collect::<Vec<_>>();
    let named = named.join(language.choose(", ", "、"));
    match (shapes.len().saturating_sub(NAMED), language) {
        (0, _) => named,
        (more, Language::En) => format!("{named} and {more} more"),
        (more, Language::Zh) => format!("{named} 等 {} 个", more + NAMED),
    }
}

/// For which shapes the library took a kernel of f32 though another precision is compared; `None` if for none.
fn other_precision(report: &BenchReport, language: Language) -> Option<String> {
    let asked = report.machine.precision;
    let chosen = |contender: &str, precision: Option<&str>| {
        contender == Contender::CHOSEN && precision.is_some_and(|precision| precision != asked.name())
    };
    let timed = report.rows.iter().filter(|row| chosen(&row.contender, row.kernel_precision)).map(|row| row.shape);
    let counted =
        report.counts.iter().filter(|row| chosen(&row.contender, Some(row.kernel_precision))).map(|row| row.shape);
    let shapes: Vec<Problem> = timed.chain(counted).collect();
    if shapes.is_empty() {
        return None;
    }
    let (chosen, shapes, precision) = (Contender::CHOSEN, some(&shapes, language), asked.name());
    Some(match (asked, language) {
        (Precision::F32Parts, Language::En) => format!(
            "{chosen} took one of f32's own kernels for {shapes}: sums are short, the product is small, or the GPU is no Hopper."
        ),
        (Precision::F32Parts, Language::Zh) => {
            format!("{chosen} 在 {shapes} 上改用 f32 自身的核函数：累加较短、乘积较小，或该 GPU 不是 Hopper。")
        }
        (_, Language::En) => {
            format!("{chosen} computed {shapes} in f32: this GPU has no kernel of {precision} for them.")
        }
        (_, Language::Zh) => format!("{chosen} 以 f32 计算 {shapes}：该 GPU 没有适用的 {precision} 核函数。"),
    })
}

fn left_out(report: &BenchReport, language: Language) -> Vec<String> {
    // Those who are left out of the same shapes are named together.
    let mut groups: Vec<(&[Problem], Vec<&str>)> = Vec::new();
    for left_out in &report.left_out {
        match groups.iter_mut().find(|(shapes, _)| *shapes == left_out.shapes) {
            Some((_, names)) => names.push(&left_out.contender),
            None => groups.push((&left_out.shapes, vec![left_out.contender.as_str()])),
        }
    }
    let line = |(shapes, names): (&[Problem], Vec<&str>)| {
        let (names, shapes) = (names.join(language.choose(", ", "、")), some(shapes, language));
        match language {
            Language::En => format!("Not for {shapes}: {names}."),
            Language::Zh => format!("{names} 不支持 {shapes}。"),
        }
    };
    groups.into_iter().map(line).collect()
}

impl BenchReport {
    /// What speaks against trusting the times.
    pub(super) fn find_warnings(&self) -> Vec<String> {
        let language = self.language;
        let mut warnings = Vec::new();
        let spread = |row: &BenchRow| row.seconds.map_or(0.0, |times| times.spread);
        let mut wide: Vec<&BenchRow> = self.rows.iter().filter(|row| spread(row) > WIDE_SPREAD).collect();
        wide.sort_by(|one, other| spread(other).total_cmp(&spread(one)));
        if let Some(worst) = wide.first() {
            let (contender, shape, share) = (&worst.contender, worst.shape, percent(spread(worst)));
            warnings.push(match (wide.len(), language) {
                (1, Language::En) => {
                    format!("Warning: the times of {contender} for {shape} spread over {share}; run again before you trust them.")
                }
                (count, Language::En) => format!(
                    "Warning: {count} times spread wide, {contender} for {shape} over {share}; is something else using the GPU?"
                ),
                (count, Language::Zh) => format!(
                    "警告：{count} 项耗时波动较大，其中 {contender} 在 {shape} 上达 {share}；GPU 是否同时有其他任务？建议重测。"
                ),
            });
        }
        let clocks = || self.rows.iter().filter_map(|row| Some((row, row.clock.as_ref()?)));
        let highest = clocks().map(|(_, clock)| clock.highest).max().unwrap_or(0);
        let slowest = clocks().min_by_key(|(_, clock)| clock.lowest);
        if let Some((row, clock)) =
            slowest.filter(|(_, clock)| f64::from(clock.lowest) < STEADY_CLOCK * f64::from(highest))
        {
            let (lowest, contender, shape) = (clock.lowest, &row.contender, row.shape);
            let mut brakes: Vec<&str> = clocks().flat_map(|(_, clock)| clock.brakes.iter().copied()).collect();
            brakes.sort_unstable();
            brakes.dedup();
            let because = match (brakes.is_empty(), language) {
                (true, _) => String::new(),
                (false, Language::En) => format!(" ({})", brakes.join(", ")),
                (false, Language::Zh) => format!("（原因：{}）", brakes.join("、")),
            };
            warnings.push(match language {
                Language::En => format!(
                    "Warning: the clock fell from {highest} to {lowest} MHz, for {contender} with {shape}{because}; ratios of the same shape still hold."
                ),
                Language::Zh => format!(
                    "警告：时钟频率从 {highest} MHz 降到 {lowest} MHz（{contender}，{shape}）{because}；同一形状内的比值仍然有效。"
                ),
            });
        }
        warnings
    }

    /// The last line: how it went.
    pub(super) fn say_verdict(&self) -> String {
        let language = self.language;
        let wrong: Vec<(&str, Problem)> = if self.machine.simulated {
            self.counts.iter().filter(|row| !row.right).map(|row| (row.contender.as_str(), row.shape)).collect()
        } else {
            let wrong = self.rows.iter().filter(|row| !row.right && row.contender != Contender::CUBLAS);
            wrong.map(|row| (row.contender.as_str(), row.shape)).collect()
        };
        if let Some((contender, shape)) = wrong.first() {
            let count = wrong.len();
            return match language {
                Language::En => format!("WRONG: {count} products, the first by {contender} for {shape}."),
                Language::Zh => format!("错误：{count} 个结果有误，第一个是 {contender} 在 {shape} 上的结果。"),
            };
        }
        let chosen = self.summaries.iter().find(|row| row.contender == Contender::CHOSEN);
        let best = || self.summaries.iter().max_by(|one, other| one.geometric_mean.total_cmp(&other.geometric_mean));
        let Some(row) = chosen.or_else(best) else { return String::new() };
        let (contender, shapes, mean, least, at) =
            (&row.contender, row.shapes, row.geometric_mean, row.least, row.least_at);
        let cublas = match (self.machine.precision, language) {
            (Precision::F32, _) => Contender::CUBLAS.to_owned(),
            (precision, Language::En) => format!("{} in {}", Contender::CUBLAS, precision.name()),
            (precision, Language::Zh) => format!("{}（{}）", Contender::CUBLAS, precision.name()),
        };
        let errors = row.worst_error_ratio.zip(row.worst_error_at).map(|(ratio, at)| match language {
            Language::En => format!(" Its largest error is at most {ratio:.2} times cuBLAS's (for {at})."),
            Language::Zh => format!("其最大误差至多为 cuBLAS 的 {ratio:.2} 倍（{at}）。"),
        });
        let said = match language {
            Language::En => format!(
                "{contender} against {cublas}: {mean:.3} times its speed in the geometric mean of {shapes} shapes, {least:.3} at least (for {at}); not slower for {} of {shapes}.",
                row.ahead
            ),
            Language::Zh => format!(
                "{contender} 对 {cublas}：{shapes} 个形状的速度比几何平均为 {mean:.3}，最小为 {least:.3}（{at}）；{} 个形状不慢于 cuBLAS。",
                row.ahead
            ),
        };
        said + &errors.unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_the_unit_that_suits_them() {
        let said = [4.321e-6, 45.6e-6, 0.000_123_4, 2.6e-3, 0.16, 1.5].map(time);
        assert_eq!(said, ["4.321 us", "45.60 us", "123.4 us", "2.600 ms", "160.0 ms", "1.500 s"]);
    }

    #[test]
    fn of_many_shapes_some_are_named() {
        let shapes: Vec<Problem> = (1..=6).map(Problem::square).collect();
        assert_eq!(some(&shapes[..1], Language::En), "1x1x1");
        assert_eq!(some(&shapes, Language::En), "1x1x1, 2x2x2, 3x3x3, 4x4x4 and 2 more");
        assert!(some(&shapes, Language::Zh).ends_with("等 6 个"));
    }
}
