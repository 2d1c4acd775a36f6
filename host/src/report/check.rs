//! What `check` has to say.

use ptx_simulator::{
    SourceLocation,
    observe::hazards::{Agent, CopyState},
};
use serde::Serialize;

use super::{Report, table};
use crate::{
    check::{Act, Case, Checked, Element, Event, Problem, ProblemKind},
    kernels::Named,
    language::Language,
};

/// Several kernels, checked.
#[derive(Debug, Serialize)]
pub struct CheckReport {
    /// The kernels in the order in which they were asked for.
    pub kernels: Vec<KernelCheck>,
    /// Whether nothing was found.
    pub passed: bool,
    #[serde(skip)]
    language: Language,
}

/// One kernel, checked.
#[derive(Debug, Serialize)]
pub struct KernelCheck {
    /// The name of the kernel, or of its family.
    pub kernel: &'static str,
    /// The kernel in one line.
    pub title: &'static str,
    /// Threads of a block along x, y, z.
    pub block: [u32; 3],
    /// What was found.
    #[serde(flatten)]
    pub checked: Checked,
    /// One sentence on each problem: what is missing or to be changed, in the report's language.
    pub advice: Vec<String>,
    /// Whether nothing was found and the product is right.
    pub passed: bool,
}

impl CheckReport {
    /// The report on kernels and what was found in them.
    pub fn new(checks: Vec<(Named, Checked)>, language: Language) -> CheckReport {
        let kernels: Vec<_> =
            checks.into_iter().map(|(named, checked)| KernelCheck::new(named, checked, language)).collect();
        CheckReport { passed: kernels.iter().all(|kernel| kernel.passed), kernels, language }
    }
}

impl KernelCheck {
    fn new(named: Named, checked: Checked, language: Language) -> KernelCheck {
        let kernel = named.any();
        KernelCheck {
            kernel: named.name(),
            title: kernel.title,
            block: kernel.block,
            advice: advice_on_all(&checked.problems, language),
            passed: checked.passed(),
            checked,
        }
    }

    /// A product that was watched: its sizes and what is special about it.
    fn case_text(&self, case: &Case, language: Language) -> String {
        let Case { kernel, shape, splits, beta } = case;
        let mut special = Vec::new();
        if kernel.name != self.kernel {
            special.push(kernel.name.to_owned());
        }
        if *beta != 0.0 {
            special.push("+ C".to_owned());
        }
        if *splits > 1 {
            special.push(
                language.choose(
                    format!("K in {splits} parts, and reduce"),
                    format!("K 分成 {splits} 段，再由 reduce 相加"),
                ),
            );
        }
        let special = if special.is_empty() { String::new() } else { format!(" ({})", special.join("; ")) };
        format!("{}{special}", table::times(shape))
    }

    fn text(&self, language: Language) -> String {
        let say = |english: &str, chinese: &str| language.choose(english, chinese).to_owned();
        let Checked { cases, blocks, threads, problems, verification, .. } = &self.checked;
        let shapes = cases.iter().map(|case| self.case_text(case, language)).collect::<Vec<_>>().join(", ");
        let mut facts = vec![
            (say("kernel", "核函数"), format!("{}: {}", self.kernel, self.title)),
            (
                say("watched on the simulator", "在模拟器上观察"),
                match language {
                    Language::En => format!("m x n x k = {shapes}: {blocks} blocks, {threads} threads, every access"),
                    Language::Zh => format!("m x n x k = {shapes}：{blocks} 个线程块，{threads} 个线程，每一次访存"),
                },
            ),
        ];
        if let Some(verification) = verification {
            let worst = verification.worst_element().unwrap_or_default();
            let elements = verification.elements;
            let text = match (verification.wrong, language) {
                (1.., Language::En) if self.checked.was_stopped() => "not complete: the kernel was stopped".to_owned(),
                (1.., Language::Zh) if self.checked.was_stopped() => "不完整：核函数被中止了".to_owned(),
                (0, Language::En) => "right".to_owned(),
                (0, Language::Zh) => "正确".to_owned(),
                (wrong, Language::En) => format!("WRONG: {wrong} of {elements} elements; the worst is {worst}"),
                (wrong, Language::Zh) => format!("错误：{elements} 个元素中有 {wrong} 个不对，偏差最大的是 {worst}"),
            };
            facts.push((say("product", "乘积"), text));
        }
        let verdict = match (problems.len(), self.passed, language) {
            (0, true, Language::En) => {
                "CLEAN: no races, no reads of unwritten memory, nothing out of bounds, no divergent barriers".to_owned()
            }
            (0, true, Language::Zh) => "无误：没有数据竞争，没有读取未写入的内存，没有越界访问，没有部分线程跳过的屏障".to_owned(),
            (0, false, Language::En) => {
                "FAIL: the accesses are in order, but the product is wrong; the arithmetic or an index is not what it should be"
                    .to_owned()
            }
            (0, false, Language::Zh) => "失败：访存本身没有问题，但乘积是错的；计算式或某个下标写错了".to_owned(),
            (count, _, Language::En) => format!("FOUND {count}"),
            (count, _, Language::Zh) => format!("发现 {count} 处"),
        };
        facts.push((say("verdict", "结论"), verdict));
        let mut text = table::facts(facts);
        for (index, (problem, advice)) in problems.iter().zip(&self.advice).enumerate() {
            text.push_str(&format!("\n\n{}", problem_text(index + 1, problem, advice, language)));
        }
        text
    }
}

impl Report for CheckReport {
    fn table(&self) -> String {
        self.kernels.iter().map(|kernel| kernel.text(self.language)).collect::<Vec<_>>().join("\n\n")
    }

    fn passed(&self) -> bool {
        self.passed
    }
}

/// A problem as a paragraph: title, the places, and what is to be done.
pub(super) fn problem_text(number: usize, problem: &Problem, advice: &str, language: Language) -> String {
    let element = problem.element.as_ref().map(|element| element_text(element, language));
    let mut rows = Vec::new();
    for event in [Some(&problem.first), problem.second.as_ref()].into_iter().flatten() {
        rows.push(event_row(event, element.as_deref(), language));
        if let Some(code) = event.code {
            rows.push(vec![String::new(), String::new(), format!("    {code}")]);
        }
    }
    let places = table::columns(rows);
    let indented = places.lines().map(|line| format!("   {line}")).collect::<Vec<_>>().join("\n");
    // The simulator's own words are English; where the rest says it all, Chinese readers needn't have them.
    let wanted = language == Language::En || problem.kind.ends_the_kernel() && problem.kind != ProblemKind::EndlessLoop;
    let detail = problem.detail.as_ref().filter(|_| wanted).map(|detail| format!("   {detail}\n")).unwrap_or_default();
    format!("{number}. {}\n{indented}\n{detail}   {advice}", title(problem, language))
}

fn event_row(event: &Event, element: Option<&str>, language: Language) -> Vec<String> {
    let [bx, by, bz] = event.block;
    let [x, y, z] = event.thread;
    let place = match &event.source {
        Some(source) => {
            let near = |near: &SourceLocation| language.choose(format!(", near {near}"), format!("，在 {near} 附近"));
            format!("{source}{}", event.near.as_ref().map(near).unwrap_or_default())
        }
        None => format!("PTX:{}", event.ptx_line),
    };
    let accesses = !matches!(event.act, Act::Waits | Act::Executes);
    let element = element.filter(|_| accesses).unwrap_or_default();
    let act = act_text(event.act, language);
    vec![
        format!("{act} {element}").trim_end().to_owned(),
        language.choose(
            format!("block ({bx}, {by}, {bz}), thread ({x}, {y}, {z})"),
            format!("线程块 ({bx}, {by}, {bz})，线程 ({x}, {y}, {z})"),
        ),
        place,
    ]
}

fn act_text(act: Act, language: Language) -> &'static str {
    match act {
        Act::Reads => language.choose("reads", "读取"),
        Act::Writes => language.choose("writes", "写入"),
        Act::CopiesFrom => language.choose("copies from", "异步拷出"),
        Act::CopiesTo => language.choose("copies to", "异步拷入"),
        Act::Multiplies => language.choose("multiplies", "异步相乘"),
        Act::Atomic => language.choose("updates atomically", "原子更新"),
        Act::Waits => language.choose("waits", "等待"),
        Act::Executes => language.choose("is here", "位于"),
    }
}

/// An element the way people write it.
pub(super) fn element_text(element: &Element, language: Language) -> String {
    match element {
        Element::Matrix { name, row, column } => format!("{name}[{row}, {column}]"),
        Element::BesideMatrix { name, rows, columns, distance } => {
            let bytes = distance.unsigned_abs();
            let (english, chinese) =
                if *distance >= 0 { ("after the end", "末尾之后") } else { ("before the start", "开头之前") };
            language.choose(
                format!("{bytes} bytes {english} of {name} ({rows} x {columns})"),
                format!("{name}（{rows} x {columns}）{chinese} {bytes} 字节处"),
            )
        }
        Element::Shared { name: Some(name), index, .. } => format!("{name}[{index}]"),
        Element::Shared { name: None, index, .. } => {
            language.choose(format!("shared word {index}"), format!("共享内存第 {index} 个字"))
        }
        Element::Address { address } => language.choose(format!("address {address:#x}"), format!("地址 {address:#x}")),
    }
}

fn title(problem: &Problem, language: Language) -> String {
    use ProblemKind::*;
    let count = problem.count;
    let memory = if problem.global {
        language.choose("global memory", "全局内存")
    } else {
        language.choose("shared memory", "共享内存")
    };
    let words =
        language.choose(format!(" ({count} word{})", if count == 1 { "" } else { "s" }), format!("（{count} 个字）"));
    let threads = language
        .choose(format!(" ({count} thread{})", if count == 1 { "" } else { "s" }), format!("（{count} 个线程）"));
    let title =
        |english: &str, chinese: &str| language.choose(format!("{english} {memory}"), format!("{memory}{chinese}"));
    match problem.kind {
        ReadAfterWrite => title("read-after-write hazard in", "中的写后读冲突（RAW）") + &words,
        WriteAfterRead => title("write-after-read hazard in", "中的读后写冲突（WAR）") + &words,
        WriteAfterWrite => title("write-after-write hazard in", "中的写后写冲突（WAW）") + &words,
        Uninitialised => title("read of unwritten", "中读取了未写入的内容") + &words,
        OutsideArray => title("access outside an array in", "中的访问超出了数组") + &words,
        OutOfBounds => title("access out of bounds of", "越界访问") + &words,
        Misaligned => title("misaligned access to", "中的访问未对齐") + &words,
        DivergentBarrier => {
            language.choose("barrier that not all threads reach", "并非所有线程都到达的屏障").to_owned() + &threads
        }
        DivergentWarp => {
            language.choose("lanes of a warp that never come", "warp 内有始终不到的线程").to_owned() + &threads
        }
        DifferentBarriers => {
            language
                .choose("threads of a block wait at different barriers", "同一线程块的线程停在不同的屏障处")
                .to_owned()
                + &threads
        }
        CopyNeverAwaited => {
            language.choose("asynchronous copy that nobody waits for", "从未等待的异步拷贝").to_owned() + &words
        }
        MissingProxyFence => {
            title("no fence between the proxies for", "缺少代理间的栅栏（fence.proxy.async）") + &words
        }
        MbarrierNotShown => language
            .choose("an mbarrier of another block that isn't known to be one", "使用了其他线程块中尚不可见的 mbarrier")
            .to_owned(),
        BlockExitsEarly => {
            language
                .choose(
                    "access to the shared memory of a block that may have ended",
                    "访问了可能已经结束的线程块的共享内存",
                )
                .to_owned()
                + &words
        }
        MissingWarpgroupFence => {
            language.choose("no fence before a warpgroup's product", "warpgroup 乘法之前缺少 wgmma.fence").to_owned()
        }
        ProductNotAwaited => {
            language.choose("sums of a product that isn't waited for", "使用了尚未等待的乘法结果").to_owned()
        }
        MbarrierDeadlock => {
            language.choose("an mbarrier is waited for in vain", "对 mbarrier 的等待永远不会结束").to_owned()
        }
        MbarrierMisuse => language.choose("wrong use of an mbarrier", "mbarrier 使用错误").to_owned(),
        Trap => language.choose("the kernel stops itself", "核函数自行中止").to_owned(),
        EndlessLoop => language.choose("a thread comes to no end", "线程无法结束").to_owned(),
        Fault => language.choose("the kernel fails", "核函数出错").to_owned(),
    }
}

/// One sentence on each of several problems.
fn advice_on_all(problems: &[Problem], language: Language) -> Vec<String> {
    let barriers = problems.iter().any(|problem| problem.kind.is_about_barriers());
    let all = problems.iter().map(|problem| {
        let mut advice = advice(problem, language);
        if barriers && !problem.kind.is_about_barriers() {
            advice.push_str(
                language.choose(" (This may follow from the barriers above.)", "（这可能是上述屏障问题的后果。）"),
            );
        }
        advice
    });
    all.collect()
}

/// What is to be done about a hazard of an asynchronous copy or of an mbarrier's bytes; nothing for others.
fn advice_on_copies(problem: &Problem, first: &str, second: &str, language: Language) -> Option<String> {
    use ProblemKind::*;
    let place = |source: &Option<SourceLocation>| {
        source.as_ref().map(|at| language.choose(format!("line {}", at.line), format!("第 {} 行", at.line)))
    };
    let hazard = matches!(problem.kind, ReadAfterWrite | WriteAfterRead | WriteAfterWrite);
    if !hazard || problem.between_blocks() {
        return None;
    }
    if problem.mbarrier {
        return Some(language.choose(
            format!("The mbarrier is set up at {first}, and {second} uses it without knowing that: put thread::sync_threads() between the two."),
            format!("mbarrier 在{first}设置，而{second}使用它时无法得知：请在两者之间调用 thread::sync_threads()。"),
        ));
    }
    if let Some(text) = advice_on_hopper(problem, first, second, language) {
        return Some(text);
    }
    let of_second = problem.second.as_ref().and_then(|event| event.copy.as_ref());
    Some(match (problem.kind, &problem.first.copy, of_second) {
        (ReadAfterWrite, Some(CopyState::UnderWay { left_open_at }), _) => match place(left_open_at) {
            Some(wait) => language.choose(
                format!("The wait ({wait}) lets the copy ({first}) go on, so that it may not be done when it's read ({second}): let it leave fewer groups open, and put thread::sync_threads() after it."),
                format!("{wait}的等待没有等这次拷贝（{first}），读取时（{second}）它可能还没有完成：请减少 wait_group 允许未完成的组数，并在其后调用 thread::sync_threads()。"),
            ),
            None => language.choose(
                format!("The copy ({first}) may not be done when it's read ({second}): its thread must wait for it (wait_group), and then thread::sync_threads() lets the others read."),
                format!("读取时（{second}）拷贝（{first}）可能还没有完成：发起拷贝的线程要先等待（wait_group），再调用 thread::sync_threads()，其他线程才能读取。"),
            ),
        },
        (ReadAfterWrite, Some(CopyState::Awaited { at }), _) => {
            let wait = place(at).map(|wait| format!(" ({wait})")).unwrap_or_default();
            language.choose(
                format!("The copying thread has waited{wait}, but only for itself: put thread::sync_threads() between that wait and the read ({second})."),
                format!("发起拷贝的线程等待过了{wait}，但那只对它自己有效：请在该等待与读取（{second}）之间调用 thread::sync_threads()。"),
            )
        }
        (ReadAfterWrite, Some(CopyState::Begins), _) => language.choose(
            format!("Nothing makes the read ({second}) come after the copy ({first}): its thread must wait for it (wait_group), and thread::sync_threads() must follow."),
            format!("没有任何机制保证读取（{second}）在拷贝（{first}）之后：发起拷贝的线程要先等待（wait_group），再调用 thread::sync_threads()。"),
        ),
        (WriteAfterRead, Some(_), _) => language.choose(
            format!("The copy ({first}) may still be reading what {second} overwrites: wait for it first."),
            format!("{second}写入时，拷贝（{first}）可能还在读取该处：请先等待拷贝完成。"),
        ),
        (WriteAfterRead, None, Some(_)) => language.choose(
            format!("The copy ({second}) goes into what others still read ({first}): put thread::sync_threads() between the reads and the copy, or copy into another stage."),
            format!("拷贝（{second}）写入的位置其他线程还在读取（{first}）：请在读取与拷贝之间调用 thread::sync_threads()，或拷贝到另一个缓冲级。"),
        ),
        (WriteAfterWrite, one, other) if one.is_some() || other.is_some() => language.choose(
            format!("{first} and {second} write the same place, and one of them is a copy that may still be on its way: wait for it in between, or use another stage."),
            format!("{first}与{second}写同一位置，其中的拷贝可能还没有完成：请在两者之间等待，或使用另一个缓冲级。"),
        ),
        _ => return None,
    })
}

/// What is to be done about a hazard of a bulk copy or of a warpgroup's product; nothing for others.
fn advice_on_hopper(problem: &Problem, first: &str, second: &str, language: Language) -> Option<String> {
    use ProblemKind::*;
    let of_second = problem.second.as_ref().map(|event| event.agent).unwrap_or_default();
    Some(match (problem.kind, problem.first.agent, of_second) {
        (ReadAfterWrite, Agent::BulkLoad, _) => language.choose(
            format!("The copy ({first}) may not be done when it's read ({second}): whoever reads must wait at the copy's mbarrier, for the parity of the phase that was told to expect its bytes (arrive_and_expect)."),
            format!("读取时（{second}）拷贝（{first}）可能还没有完成：读取者必须在该拷贝的 mbarrier 上等待，奇偶位必须是预期了这些字节（arrive_and_expect）的那个阶段。"),
        ),
        (ReadAfterWrite, Agent::AsyncStore, _) => language.choose(
            format!("What is stored ({first}) may not have come when it's read ({second}): whoever reads must wait at the mbarrier that counts its bytes, for the parity of the phase that was told to expect them (arrive_and_expect)."),
            format!("读取时（{second}）所存的数据（{first}）可能还没有到达：读取者必须在统计其字节数的 mbarrier 上等待，奇偶位必须是预期了这些字节（arrive_and_expect）的那个阶段。"),
        ),
        (WriteAfterRead, _, Agent::AsyncStore) => language.choose(
            format!("The store ({second}) goes into what others still read ({first}): they must arrive at an mbarrier of the storing block after their reads, and whoever stores must wait there first."),
            format!("存储（{second}）写入的位置其他线程还在读取（{first}）：它们必须在读取之后到达存储方线程块的 mbarrier，存储者要先在那里等待。"),
        ),
        (WriteAfterWrite, Agent::AsyncStore, _) | (WriteAfterWrite, _, Agent::AsyncStore) => language.choose(
            format!("{first} and {second} write the same place, and one of them is a store that may still be on its way to another block: wait at the mbarrier that counts its bytes in between, or use another place."),
            format!("{first}与{second}写同一位置，其中之一是可能还在去往另一个线程块途中的存储：请在两者之间等待统计其字节数的 mbarrier，或使用另一个位置。"),
        ),
        (WriteAfterRead, Agent::WarpgroupProduct, _) => language.choose(
            format!("The product ({first}) may still be reading what {second} overwrites: its warpgroup must wait for it (Product::wait) and only then tell the writer, at the stage's mbarrier or a barrier."),
            format!("{second}写入时，乘法（{first}）可能还在读取该处：它的 warpgroup 必须先等待（Product::wait），然后才能通过该级的 mbarrier 或屏障通知写入者。"),
        ),
        (WriteAfterRead, _, Agent::BulkLoad) => language.choose(
            format!("The copy ({second}) goes into what others still read ({first}): they must arrive at the stage's mbarrier after their reads, and the copying thread must wait there first."),
            format!("拷贝（{second}）写入的位置其他线程还在读取（{first}）：它们必须在读取之后到达该级的 mbarrier，发起拷贝的线程要先在那里等待。"),
        ),
        (WriteAfterRead, Agent::BulkStore, _) => language.choose(
            format!("The copy ({first}) may still be reading what {second} overwrites: the thread that started it must wait first (wait_for_reads, with few enough groups left open), and a barrier must tell the others."),
            format!("{second}写入时，拷贝（{first}）可能还在读取该处：发起它的线程要先等待（wait_for_reads，并减少允许未完成的组数），再用屏障通知其他线程。"),
        ),
        _ => return None,
    })
}

/// One sentence on what is missing or to be changed.
pub(super) fn advice(problem: &Problem, language: Language) -> String {
    use ProblemKind::*;
    let line = |event: &Event| match &event.source {
        Some(source) => language.choose(format!("line {}", source.line), format!("第 {} 行", source.line)),
        None => language.choose(format!("PTX line {}", event.ptx_line), format!("PTX 第 {} 行", event.ptx_line)),
    };
    let first = line(&problem.first);
    let second = problem.second.as_ref().map_or_else(|| first.clone(), line);
    let warp = if problem.within_a_warp() {
        language.choose(
            " The two threads are in one warp, but nothing keeps a warp's threads in step either.",
            "这两个线程虽在同一个 warp 内，但 warp 内的线程也不保证同步前进。",
        )
    } else {
        ""
    };
    let between = problem.between_blocks();
    if let Some(text) = advice_on_copies(problem, &first, &second, language) {
        return text;
    }
    let text = match (problem.kind, language) {
        (ReadAfterWrite | WriteAfterRead | WriteAfterWrite, Language::En) if between && !problem.global => format!(
            "The threads are in different blocks of a cluster, and nothing of both comes between {first} and {second}: the cluster's barrier (clusters::sync), or an mbarrier at which the threads of both blocks arrive."
        ),
        (ReadAfterWrite | WriteAfterRead | WriteAfterWrite, Language::Zh) if between && !problem.global => format!(
            "两个线程属于同一集群的不同线程块，而{first}与{second}之间没有跨这两个线程块的同步：请使用集群的屏障（clusters::sync），或由两个线程块的线程都到达的 mbarrier。"
        ),
        (ReadAfterWrite | WriteAfterRead | WriteAfterWrite, Language::En) if between => format!(
            "The threads are in different blocks, and no barrier reaches across blocks: let each block have elements of its own, use atomics, or put {second} into a second launch."
        ),
        (ReadAfterWrite | WriteAfterRead | WriteAfterWrite, Language::Zh) if between => format!(
            "两个线程属于不同的线程块，而屏障不能跨线程块：让每个线程块各管各的元素，或使用原子操作，或把{second}放到另一次启动中。"
        ),
        (ReadAfterWrite, Language::En) => format!(
            "The barrier between the write ({first}) and the read ({second}) is missing: the reader may be faster than the writer. Put thread::sync_threads() after the writes."
        ),
        (ReadAfterWrite, Language::Zh) => format!(
            "写（{first}）与读（{second}）之间缺少屏障：读的线程可能比写的线程快。请在写完之后调用 thread::sync_threads()。"
        ),
        (WriteAfterRead, Language::En) => format!(
            "The barrier between the read ({first}) and the write that comes after it ({second}) is missing: the writer may be faster than the reader. Put thread::sync_threads() after the reads."
        ),
        (WriteAfterRead, Language::Zh) => format!(
            "读（{first}）与其后的写（{second}）之间缺少屏障：写的线程可能比读的线程快。请在读完之后调用 thread::sync_threads()。"
        ),
        (WriteAfterWrite, Language::En) => format!(
            "Two threads write the same element ({first} and {second}), and whose value stays is chance: give each its own element, or put thread::sync_threads() between the two."
        ),
        (WriteAfterWrite, Language::Zh) => format!(
            "两个线程写同一个元素（{first}与{second}），最后留下谁的值全凭运气：让每个线程写各自的元素，或在两次写之间调用 thread::sync_threads()。"
        ),
        (Uninitialised, Language::En) => {
            "Nobody has written what is read here: write it first (zeros past an edge of a matrix too), or read another place.".to_owned()
        }
        (Uninitialised, Language::Zh) => "这里读取的内容从未有人写过：应先写入（矩阵边界之外要填零），或者读错了位置。".to_owned(),
        (OutsideArray | OutOfBounds, _) if !problem.global => {
            let length = match &problem.element {
                Some(Element::Shared { length: Some(length), name: Some(name), .. }) => Some((name.as_str(), *length)),
                _ => None,
            };
            match (length, language) {
                (Some((name, length)), Language::En) => format!("`{name}` has {length} elements, 0 to {}: the index goes too far, or the array is too small.", length.saturating_sub(1)),
                (Some((name, length)), Language::Zh) => format!("`{name}` 有 {length} 个元素，下标从 0 到 {}：下标超出了范围，或者数组太小。", length.saturating_sub(1)),
                (None, Language::En) => "Check the index.".to_owned(),
                (None, Language::Zh) => "请检查下标。".to_owned(),
            }
        }
        (OutsideArray | OutOfBounds, Language::En) => "Threads past an edge of the matrix need a guard here, or an index is wrong.".to_owned(),
        (OutsideArray | OutOfBounds, Language::Zh) => "超出矩阵边界的线程在这里需要判断，或者下标写错了。".to_owned(),
        (Misaligned, Language::En) => "The address must be a multiple of the access's size.".to_owned(),
        (Misaligned, Language::Zh) => "地址必须是访问字节数的整数倍。".to_owned(),
        (DivergentBarrier, Language::En) => "All threads of a block must come to the same barriers equally often: take the barrier out of the branch or loop, and let no thread leave before it.".to_owned(),
        (DivergentBarrier, Language::Zh) => "同一线程块的所有线程必须以相同的次数到达同样的屏障：把屏障移出分支或循环，并且不要让线程提前退出。".to_owned(),
        (DivergentWarp, Language::En) => "All lanes that the mask names must come to the instruction: take it out of the branch, or name only those that come.".to_owned(),
        (DivergentWarp, Language::Zh) => "掩码中列出的线程都必须到达这条指令：把它移出分支，或者只列出会到达的线程。".to_owned(),
        (DifferentBarriers, Language::En) => format!("The barriers at {first} and {second} are two: all threads of a block must come to the same one."),
        (DifferentBarriers, Language::Zh) => format!("{first}与{second}是两个屏障：同一线程块的所有线程必须到达同一个屏障。"),
        (CopyNeverAwaited, Language::En) => "The thread ends while its copy is on its way: wait for it (wait_group::<0>()), or don't begin what isn't needed.".to_owned(),
        (CopyNeverAwaited, Language::Zh) => "线程结束时它的拷贝还没有完成：请先等待（wait_group::<0>()），用不到的拷贝则不要发起。".to_owned(),
        (MissingProxyFence, Language::En) => format!("Copies of tiles and tensor cores see shared memory by another way: after the writes ({first}) each writing thread must show them (show_to_copies), and then a barrier tells who starts the reader ({second})."),
        (MissingProxyFence, Language::Zh) => format!("整块拷贝和张量核心经由另一条通路访问共享内存：写入（{first}）之后，每个写入的线程都要执行 show_to_copies，再用屏障通知发起读取（{second}）的线程。"),
        (MbarrierNotShown, Language::En) => format!("The mbarrier is set up at {first}, and {second} uses it from another block: put show_to_copies after the setting up, by the same thread, and then clusters::sync()."),
        (MbarrierNotShown, Language::Zh) => format!("mbarrier 在{first}设置，而{second}从另一个线程块使用它：设置之后要由同一线程执行 show_to_copies，再调用 clusters::sync()。"),
        (BlockExitsEarly, Language::En) => format!("Nothing keeps the other block until {first} is done with its shared memory, which may be the next block's by then: let all threads of the cluster meet at clusters::sync() before they end."),
        (BlockExitsEarly, Language::Zh) => format!("没有任何机制让另一个线程块等到{first}用完它的共享内存，届时那里可能已属于下一个线程块：请让集群的所有线程在结束之前调用 clusters::sync()。"),
        (MissingWarpgroupFence, Language::En) => "Registers that are written otherwise, and the first product, need wgmma.fence before the product uses them.".to_owned(),
        (MissingWarpgroupFence, Language::Zh) => "首次乘法之前，以及寄存器被其他指令写过之后，都需要先执行 wgmma.fence，乘法才能使用它们。".to_owned(),
        (ProductNotAwaited, Language::En) => format!("The product ({first}) may still be writing what {second} uses: wait for it first (Product::wait, with few enough groups left open)."),
        (ProductNotAwaited, Language::Zh) => format!("{second}使用的寄存器，乘法（{first}）可能还在写：请先等待（Product::wait，并减少允许未完成的组数）。"),
        (MbarrierDeadlock, Language::En) => "Fewer arrivals or bytes come than the mbarrier waits for, or the wait names the wrong parity: the count must be that of all arrivals in a phase, the bytes those of its copies, and the parity changes from phase to phase, from 0 on.".to_owned(),
        (MbarrierDeadlock, Language::Zh) => "到达的次数或字节数少于 mbarrier 所等待的，或者等待的奇偶位写错了：计数必须等于一个阶段内全部到达的次数，字节数必须等于其拷贝的字节数，奇偶位从 0 开始，每个阶段翻转一次。".to_owned(),
        (MbarrierMisuse, Language::En) => "One thread initialises it, once, thread::sync_threads() comes after that, and in no phase do more arrive than it was initialised for, or more bytes come than it was told to expect.".to_owned(),
        (MbarrierMisuse, Language::Zh) => "由一个线程初始化一次，之后调用 thread::sync_threads()，并且每个阶段的到达次数不能超过初始化的计数，字节数不能超过所预期的。".to_owned(),
        (Trap, Language::En) => "A panic or a failed check in the kernel, such as an index past the end of a slice.".to_owned(),
        (Trap, Language::Zh) => "核函数中发生了 panic 或检查失败，例如切片下标越界。".to_owned(),
        (EndlessLoop, Language::En) => "Does the loop's condition ever become false?".to_owned(),
        (EndlessLoop, Language::Zh) => "循环条件会变为假吗？".to_owned(),
        (Fault, Language::En) => "The launch ended here.".to_owned(),
        (Fault, Language::Zh) => "启动在此处终止。".to_owned(),
    };
    text + warp
}
