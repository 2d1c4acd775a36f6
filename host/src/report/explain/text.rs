//! What `explain` says, in English and in Chinese.

use gpu_kernels::Precision;

use crate::{
    explain::{occupancy::Resource, registers::Registers},
    language::Language,
    report::table::binary_bytes,
};

/// Labels: words without numbers in them.
pub struct Labels {
    pub kernel: &'static str,
    pub product: &'static str,
    pub counted: &'static str,
    pub gpu: &'static str,
    pub shared_memory: &'static str,
    pub registers: &'static str,
    pub occupancy: &'static str,
    pub instructions: &'static str,
    pub shared_accesses: &'static str,
    pub global_accesses: &'static str,
    pub traffic: &'static str,
    pub intensity: &'static str,
    pub shared_and_l1: &'static str,
    pub measured: &'static str,
    /// Heads of the listing over several columns.
    pub shared: &'static str,
    pub global: &'static str,
    /// Heads of the listing's columns.
    pub times: &'static str,
    pub issued: &'static str,
    pub fma: &'static str,
    pub mma: &'static str,
    pub wavefronts: &'static str,
    pub ideal: &'static str,
    pub degree: &'static str,
    pub sectors: &'static str,
    pub bytes: &'static str,
    pub line: &'static str,
    /// What the listing's columns mean, one line each.
    pub legend: &'static [&'static str],
    /// And one more, where there are products of tensor cores.
    pub legend_mma: &'static str,
    /// Of the chart.
    pub chart_x: &'static str,
    pub chart_y: &'static str,
    pub chart_requested: &'static str,
    pub chart_perfect: &'static str,
    pub chart_measured: &'static str,
    pub chart_shared_and_l1: &'static str,
    /// In place of the listing, if there is none.
    pub no_lines: &'static str,
    pub wrote: &'static str,
}

const ENGLISH: Labels = Labels {
    kernel: "kernel",
    product: "product",
    counted: "counted on",
    gpu: "GPU",
    shared_memory: "shared memory",
    registers: "registers",
    occupancy: "occupancy",
    instructions: "instructions",
    shared_accesses: "shared accesses",
    global_accesses: "global accesses",
    traffic: "global traffic",
    intensity: "intensity",
    shared_and_l1: "shared memory, L1",
    measured: "measured",
    shared: "shared",
    global: "global",
    times: "times",
    issued: "issued",
    fma: "fma",
    mma: "mma",
    wavefronts: "waves",
    ideal: "ideal",
    degree: "degree",
    sectors: "sec/req",
    bytes: "bytes",
    line: "line",
    legend: &[
        "times: how often a warp came to the line (copies of an unrolled loop together, accesses that the compiler joined once).",
        "issued: PTX instructions of the line, counted per warp; fma: the fused multiply-adds among them.",
        "Both may be more than the line alone would take: instructions without a line of the kernel's own, such as the counting of a loop,",
        "are put on the last line before them, and each copy of a line in an unrolled loop is issued.",
        "waves: wavefronts, passes over the 32 banks that the shared accesses took; ideal: the fewest possible; degree: their ratio, 1 without conflicts.",
        "sec/req: sectors of 32 bytes that a warp's request touches; ideal: the fewest that hold what it asks for; bytes: of all these sectors.",
    ],
    legend_mma: "mma: the products of small matrices on tensor cores among the instructions of the line.",
    chart_x: "floating-point operations per byte of global memory",
    chart_y: "TFLOP/s",
    chart_requested: "no cache helps",
    chart_perfect: "perfect caches",
    chart_measured: "measured",
    chart_shared_and_l1: "shared memory and L1",
    no_lines: "The PTX has no line directives that name the kernel's source, so there is no listing.",
    wrote: "roofline",
};

const CHINESE: Labels = Labels {
    kernel: "核函数",
    product: "矩阵乘",
    counted: "计数环境",
    gpu: "GPU",
    shared_memory: "共享内存",
    registers: "寄存器",
    occupancy: "占用率",
    instructions: "指令",
    shared_accesses: "共享内存访问",
    global_accesses: "全局内存访问",
    traffic: "全局内存流量",
    intensity: "算术强度",
    shared_and_l1: "共享内存与 L1",
    measured: "实测",
    shared: "共享内存",
    global: "全局内存",
    times: "次数",
    issued: "发射",
    fma: "fma",
    mma: "mma",
    wavefronts: "波前",
    ideal: "理想",
    degree: "冲突度",
    sectors: "扇区/请求",
    bytes: "字节",
    line: "行号",
    legend: &[
        "次数：有多少次 warp 执行到这一行（循环展开的各份合计，编译器合并的访问只计一次）。",
        "发射：该行发射的 PTX 指令数，按 warp 计；fma：其中的融合乘加指令。",
        "次数和发射数可能比这一行本身所需的多：不对应核函数任何一行的指令（例如循环计数）归到它前面的最后一行；循环展开后，每一份都要发射。",
        "波前：共享内存访问占用 32 个存储体的轮数（wavefront）；理想：最少需要的轮数；冲突度：两者之比，1 表示没有存储体冲突。",
        "扇区/请求：warp 的一次请求触及的 32 字节扇区数；理想：装下所需数据的最少扇区数；字节：这些扇区的总字节数。",
    ],
    legend_mma: "mma：该行指令中由张量核心执行的小矩阵乘。",
    chart_x: "每字节全局内存流量对应的浮点运算数",
    chart_y: "TFLOP/s",
    chart_requested: "缓存全不命中",
    chart_perfect: "缓存完美",
    chart_measured: "实测",
    chart_shared_and_l1: "共享内存与 L1",
    no_lines: "PTX 中没有指向核函数源码的行号信息，因此无法列出源码。",
    wrote: "屋顶线图",
};

pub fn labels(language: Language) -> &'static Labels {
    language.choose(&ENGLISH, &CHINESE)
}

pub fn product([m, n, k]: [usize; 3], precision: Precision, grid: &str, block: &str, language: Language) -> String {
    let elements = match precision {
        Precision::F32 | Precision::F32Parts => "f32",
        Precision::Bf16 => language.choose("A and B of bf16, C of f32", "A、B 为 bf16，C 为 f32"),
        Precision::F16 => language.choose("A and B of f16, C of f32", "A、B 为 f16，C 为 f32"),
        Precision::Tf32 => {
            language.choose("A and B of f32 rounded to tf32, C of f32", "A、B 为舍入到 tf32 的 f32，C 为 f32")
        }
    };
    let shapes = format!("C ({m} x {n}) = A ({m} x {k}) B ({k} x {n}), {elements}");
    match language {
        Language::En => format!("{shapes}; {grid} blocks of {block} threads"),
        Language::Zh => format!("{shapes}；{grid} 个线程块，每块 {block} 个线程"),
    }
}

pub fn counted(language: Language) -> &'static str {
    language.choose(
        "the PTX simulator, every access of every warp; caches are left out",
        "PTX 模拟器：统计每个 warp 的每一次访问，不考虑缓存",
    )
}

/// The GPU with its published figures, `peak` being that of the arithmetic of `precision`.
pub fn gpu(
    name: &str,
    multiprocessors: u32,
    (peak, precision): (f64, Precision),
    bandwidth: f64,
    language: Language,
) -> String {
    // As many digits as are published.
    let (peak, bandwidth) = ((peak / 1e11).round() / 10.0, bandwidth / 1e12);
    let arithmetic = match precision {
        Precision::F32 => "f32",
        Precision::Bf16 => language.choose("bf16 on tensor cores", "张量核心 bf16"),
        Precision::F16 => language.choose("f16 on tensor cores", "张量核心 f16"),
        Precision::Tf32 => language.choose("tf32 on tensor cores", "张量核心 tf32"),
        Precision::F32Parts => language.choose("f32 in parts on tensor cores", "张量核心上拆分的 f32"),
    };
    match language {
        Language::En => format!(
            "{name}: {multiprocessors} multiprocessors, {peak} TFLOP/s in {arithmetic}, {bandwidth} TB/s, as its maker says"
        ),
        Language::Zh => {
            format!(
                "{name}：{multiprocessors} 个流多处理器，{arithmetic} 峰值 {peak} TFLOP/s，带宽 {bandwidth} TB/s（厂商数据）"
            )
        }
    }
}

pub fn shared_memory(bytes: u32, language: Language) -> String {
    match (bytes, language) {
        (0, Language::En) => "none".to_owned(),
        (0, Language::Zh) => "不使用".to_owned(),
        (_, Language::En) => format!("{bytes} bytes per block"),
        (_, Language::Zh) => format!("每个线程块 {bytes} 字节"),
    }
}

pub fn registers(registers: &Registers, architecture: &str, language: Language) -> String {
    match (registers, language) {
        (Registers::Driver { count }, Language::En) => format!("{count} per thread, as the GPU's driver compiled it"),
        (Registers::Driver { count }, Language::Zh) => format!("每个线程 {count} 个（GPU 驱动编译的结果）"),
        (Registers::Assembler { count, spill_bytes }, Language::En) => {
            let spills = match spill_bytes {
                0 => "nothing spilled".to_owned(),
                bytes => format!("{bytes} bytes spilled to memory"),
            };
            format!("{count} per thread (ptxas for {architecture}; {spills})")
        }
        (Registers::Assembler { count, spill_bytes }, Language::Zh) => {
            let spills = match spill_bytes {
                0 => "没有溢出".to_owned(),
                bytes => format!("溢出到内存 {bytes} 字节"),
            };
            format!("每个线程 {count} 个（ptxas，{architecture}；{spills}）")
        }
        (Registers::Unknown | Registers::Refused { .. }, _) => no_registers(registers, language).unwrap_or_default(),
    }
}

/// Why the number of registers is unknown, if it is.
pub fn no_registers(registers: &Registers, language: Language) -> Option<String> {
    match (registers, language) {
        (Registers::Unknown, Language::En) => Some(
            "unknown without a GPU or NVIDIA's assembler: there is no ptxas in PATH, CUDA_HOME/bin, CUDA_PATH/bin or \
             /usr/local/cuda/bin"
                .to_owned(),
        ),
        (Registers::Unknown, Language::Zh) => Some(
            "未知：需要 GPU 或 NVIDIA 的汇编器，而 PATH、CUDA_HOME/bin、CUDA_PATH/bin 和 /usr/local/cuda/bin 中都没有 ptxas"
                .to_owned(),
        ),
        (Registers::Refused { reason }, Language::En) => Some(format!("unknown: {reason}")),
        (Registers::Refused { reason }, Language::Zh) => Some(format!("未知：{reason}")),
        (Registers::Driver { .. } | Registers::Assembler { .. }, _) => None,
    }
}

pub fn resource(resource: Resource, language: Language) -> &'static str {
    match resource {
        Resource::Threads => language.choose("threads", "线程数"),
        Resource::Blocks => language.choose("number of blocks", "线程块数"),
        Resource::Registers => language.choose("registers", "寄存器"),
        Resource::SharedMemory => language.choose("shared memory", "共享内存"),
    }
}

/// How full a multiprocessor gets, and why no fuller.
pub struct OccupancyText {
    pub blocks: u32,
    pub warps: u32,
    pub max_warps: u32,
    pub share: f64,
    /// Whether the need of registers is unknown.
    pub bound: bool,
    /// Resources that are used up, joined.
    pub limited_by: String,
    /// What the driver says, on the same GPU.
    pub driver: Option<u32>,
}

pub fn occupancy(text: &OccupancyText, language: Language) -> String {
    let OccupancyText { blocks, warps, max_warps, bound, limited_by, driver, .. } = text;
    let percent = text.share * 100.0;
    match language {
        Language::En => {
            let most = if *bound { "at most " } else { "" };
            let driver = match driver {
                None => String::new(),
                Some(driver) if driver == blocks => "; the driver says the same".to_owned(),
                Some(driver) => format!("; the driver says {driver} blocks"),
            };
            format!(
                "{most}{percent:.0} %: {blocks} blocks or {warps} of {max_warps} warps per multiprocessor, limited by {limited_by}{driver}"
            )
        }
        Language::Zh => {
            let most = if *bound { "至多 " } else { "" };
            let driver = match driver {
                None => String::new(),
                Some(driver) if driver == blocks => "；驱动给出的结果相同".to_owned(),
                Some(driver) => format!("；驱动给出的结果是 {driver} 个线程块"),
            };
            format!(
                "{most}{percent:.0} %：每个流多处理器驻留 {blocks} 个线程块，即 {max_warps} 个 warp 中的 {warps} 个，受限于{limited_by}{driver}"
            )
        }
    }
}

/// The instructions that multiply and add, counted per warp.
pub enum Multiplying<'a> {
    /// Fused multiply-adds of threads.
    Fma { count: &'a str },
    /// Products of tensor cores, and what they come to.
    Mma { count: &'a str, multiply_adds: &'a str },
}

/// What was issued, `share` being that of the instructions that multiply and add.
pub fn instructions(
    issued: &str,
    multiplying: Multiplying<'_>,
    share: f64,
    barriers: &str,
    language: Language,
) -> String {
    let percent = share * 100.0;
    match (multiplying, language) {
        (Multiplying::Fma { count }, Language::En) => {
            format!("{issued} issued, counted per warp; {count} of them fma ({percent:.1} %), {barriers} barriers")
        }
        (Multiplying::Fma { count }, Language::Zh) => {
            format!("按 warp 计共发射 {issued} 条，其中 fma {count} 条（{percent:.1} %），屏障 {barriers} 次")
        }
        (Multiplying::Mma { count, multiply_adds }, Language::En) => format!(
            "{issued} issued, counted per warp; {count} of them mma ({percent:.1} %) of {multiply_adds} multiply-adds in all, {barriers} barriers"
        ),
        (Multiplying::Mma { count, multiply_adds }, Language::Zh) => format!(
            "按 warp 计共发射 {issued} 条，其中 mma {count} 条（{percent:.1} %），合 {multiply_adds} 次乘加，屏障 {barriers} 次"
        ),
    }
}

pub fn shared_accesses(requests: &str, wavefronts: &str, ideal: &str, degree: f64, language: Language) -> String {
    match language {
        Language::En => {
            let verdict = if degree > 1.0 { "" } else { ": no bank conflict" };
            format!("{requests} requests take {wavefronts} wavefronts, ideal {ideal}, degree {degree:.2}{verdict}")
        }
        Language::Zh => {
            let verdict = if degree > 1.0 { "" } else { "，没有存储体冲突" };
            format!("{requests} 次请求占用 {wavefronts} 个波前，理想值 {ideal}，冲突度 {degree:.2}{verdict}")
        }
    }
}

pub fn global_accesses(requests: &str, sectors: f64, ideal: f64, language: Language) -> String {
    match language {
        Language::En => {
            let verdict = if sectors > ideal { "" } else { ": fully coalesced" };
            format!("{requests} requests touch {sectors:.2} sectors each on average, ideal {ideal:.2}{verdict}")
        }
        Language::Zh => {
            let verdict = if sectors > ideal { "" } else { "，完全合并" };
            format!("{requests} 次请求，平均每次触及 {sectors:.2} 个扇区，理想值 {ideal:.2}{verdict}")
        }
    }
}

pub fn traffic(bytes: u64, per_output: f64, loads_per_element: f64, language: Language) -> String {
    let bytes = binary_bytes(bytes);
    match language {
        Language::En => format!(
            "{bytes} in sectors, {per_output:.1} bytes per element of C; threads load each element of A and B {loads_per_element:.1} times on average"
        ),
        Language::Zh => format!(
            "按扇区计 {bytes}，C 的每个元素 {per_output:.1} 字节；A、B 的每个元素平均被线程读取 {loads_per_element:.1} 次"
        ),
    }
}

pub fn intensity(caches: bool, intensity: f64, attainable: f64, memory_bound: bool, language: Language) -> String {
    let attainable = attainable / 1e12;
    match language {
        Language::En => {
            let caches = if caches { "with perfect caches" } else { "if no cache helps" };
            let by = if memory_bound { "memory" } else { "arithmetic" };
            format!("{intensity:.2} operations per byte {caches}: at most {attainable:.2} TFLOP/s, limited by {by}")
        }
        Language::Zh => {
            let caches = if caches { "缓存完美时" } else { "缓存全不命中时" };
            let by = if memory_bound { "内存带宽" } else { "算力" };
            format!("{caches}每字节 {intensity:.2} 次运算：至多 {attainable:.2} TFLOP/s，受限于{by}")
        }
    }
}

/// What the unit that serves shared memory and the first-level cache allows; nothing if arithmetic limits before it does.
pub fn shared_and_l1(wavefronts: &str, clock: f64, attainable: Option<f64>, language: Language) -> String {
    let clock = clock / 1e9;
    match language {
        Language::En => {
            let bound = attainable.map_or_else(
                || "no limit below that of arithmetic".to_owned(),
                |attainable| format!("at most {:.2} TFLOP/s", attainable / 1e12),
            );
            format!("at least {wavefronts} wavefronts, one per clock and multiprocessor at {clock:.2} GHz: {bound}")
        }
        Language::Zh => {
            let bound = attainable.map_or_else(
                || "不会先于算力成为限制".to_owned(),
                |attainable| format!("至多 {:.2} TFLOP/s", attainable / 1e12),
            );
            format!("至少 {wavefronts} 个波前，每个流多处理器每周期一个，频率 {clock:.2} GHz：{bound}")
        }
    }
}

pub fn measured(device: &str, milliseconds: f64, teraflops: f64, launches: usize, language: Language) -> String {
    match language {
        Language::En => {
            format!("{milliseconds:.4} ms, {teraflops:.2} TFLOP/s on {device} (median, {launches} launches)")
        }
        Language::Zh => format!("{device}：{milliseconds:.4} ms，{teraflops:.2} TFLOP/s（{launches} 次启动的中位数）"),
    }
}

/// The access with the worst bank conflict.
pub fn worst_conflict(place: &str, mnemonic: &str, wavefronts: f64, ideal: f64, language: Language) -> String {
    let degree = wavefronts / ideal;
    match language {
        Language::En => format!(
            "Bank conflict: {mnemonic} of {place} takes {wavefronts:.1} wavefronts a request where {ideal:.1} would do, \
             {degree:.1} times as many:\n\
             lanes of a warp ask one bank for different words, which are served in turn."
        ),
        Language::Zh => format!(
            "存储体冲突：{place} 处的 {mnemonic} 每次请求占用 {wavefronts:.1} 个波前，而 {ideal:.1} 个就够了，是后者的 {degree:.1} 倍。\
             同一个 warp 的线程向同一个存储体请求不同的字，只能依次服务。"
        ),
    }
}

/// The access that wastes most of its sectors.
pub fn worst_coalescing(
    place: &str,
    mnemonic: &str,
    sectors: f64,
    ideal: f64,
    wasted: u64,
    language: Language,
) -> String {
    let wasted = binary_bytes(wasted);
    match language {
        Language::En => format!(
            "Not coalesced: {mnemonic} of {place} touches {sectors:.1} sectors a request where {ideal:.1} would hold what \
             it asks for;\n{wasted} in all are asked for in vain, unless a cache keeps them until they are needed."
        ),
        Language::Zh => format!(
            "访问未合并：{place} 处的 {mnemonic} 每次请求触及 {sectors:.1} 个扇区，而所需数据只需 {ideal:.1} 个扇区；\
             共有 {wasted} 白白搬运，除非缓存能把它们留到用上的时候。"
        ),
    }
}

/// Fewer multiply-adds than the product has terms.
pub fn fewer_multiply_adds(found: u64, needed: u128, language: Language) -> String {
    match language {
        Language::En => format!(
            "Fewer multiply-adds than the product has: {found} of all threads and tensor cores, {needed} multiply-adds in m x n x k. Either \
             the kernel doesn't compute the\nproduct, or it multiplies and adds apart: `x.mul_add(y, sum)` is one \
             instruction, `sum + x * y` two. Intensity and the bounds in TFLOP/s\nare those of the whole product, not of \
             what this launch computes."
        ),
        Language::Zh => format!(
            "乘加指令比矩阵乘所需的少：所有线程和张量核心共执行 {found} 次，而 m x n x k 需要 {needed} 次乘加。要么核函数没有算出这个乘积，\
             要么乘法和加法没有融合：`x.mul_add(y, sum)` 是一条指令，`sum + x * y` 是两条。\n算术强度和以 TFLOP/s 给出的上界\
             都按完整的矩阵乘计算，而不是按这次启动实际所做的运算。"
        ),
    }
}

/// The time is one GPU's, and the limits are another's: that was asked for, or the one here is in no table.
pub fn other_gpu(device: &str, gpu: &str, language: Language) -> String {
    match language {
        Language::En => {
            format!("Measured on {device}, but registers, occupancy and roofline are for {gpu}: --gpu says for which.")
        }
        Language::Zh => {
            format!("实测在 {device} 上进行，而寄存器、占用率和屋顶线是按 {gpu} 计算的：可用 --gpu 指定。")
        }
    }
}

/// What the roofline means and what it doesn't.
pub fn caution(language: Language) -> &'static str {
    language.choose(
        "The roofline is a bound, not a forecast. How far caches move a kernel from the first point to the second is not \
         counted here,\nand latency, barriers and the issue of instructions keep it below the roof.",
        "屋顶线是上界，不是预测：缓存能把核函数从第一个点向第二个点移动多少，这里没有统计；\n延迟、屏障和指令发射还会使它低于屋顶线。",
    )
}
