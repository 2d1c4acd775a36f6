//! What `exercise` has to say: the first thing that is wrong, in the words of a teacher.

use serde::Serialize;

use super::{ExplainReport, Report, check};
use crate::{
    exercise::{
        Verdict,
        judge::{Origin, Target},
        page,
    },
    language::Language,
};

/// The verdict on the reader's kernel.
#[derive(Debug, Serialize)]
pub struct ExerciseReport {
    /// The verdict.
    #[serde(flatten)]
    pub verdict: Verdict,
    /// The TODO to work on, 1 to 4; none if everything is right.
    pub todo: Option<u8>,
    /// The file to edit.
    pub file: &'static str,
    /// The line of that TODO in the file.
    pub line: Option<usize>,
    /// The verdict in words.
    pub text: String,
    /// More about it, if that was asked for.
    pub hint: Option<&'static str>,
    /// What the kernel costs, once it is right.
    pub reward: Option<Reward>,
    /// Whether everything is right.
    pub passed: bool,
    #[serde(skip)]
    language: Language,
}

/// What the reader gets for a right kernel.
#[derive(Debug, Serialize)]
pub struct Reward {
    /// What each line of it costs and, on a GPU, how long it takes.
    pub explanation: ExplainReport,
    /// The simulator's time for the same product, in seconds, where there is no GPU.
    pub simulated_seconds: Option<f64>,
}

impl ExerciseReport {
    /// The report on a verdict about `source`, with a hint if wanted.
    pub fn new(verdict: Verdict, source: &str, hint: bool, language: Language) -> ExerciseReport {
        let todo = verdict.todo();
        ExerciseReport {
            todo,
            file: page::NAME,
            line: match &verdict {
                Verdict::Other { todo: None, problem } => problem.first.source.as_ref().map(|at| at.line as usize),
                _ => todo.and_then(|todo| page::todo_line(source, todo)),
            },
            text: verdict_text(&verdict, language),
            hint: hint.then(|| hint_text(&verdict, language)),
            reward: None,
            passed: verdict.is_right(),
            verdict,
            language,
        }
    }
}

impl Report for ExerciseReport {
    fn table(&self) -> String {
        let mut text = String::new();
        let line = self.line.map(|line| format!(":{line}")).unwrap_or_default();
        if let Some(todo) = self.todo {
            let done = "●".repeat(usize::from(todo - 1)) + &"○".repeat(usize::from(5 - todo));
            text = format!("{done} TODO {todo}   {}{line}\n\n", self.file);
        }
        if self.todo.is_none() && !self.passed {
            text = format!("{}{line}\n\n", self.file);
        }
        text.push_str(&self.text);
        if let Some(Reward { explanation, simulated_seconds }) = &self.reward {
            let ExplainReport { m, n, k, .. } = explanation;
            if let Some(seconds) = simulated_seconds {
                let milliseconds = seconds * 1e3;
                text.push_str(&self.language.choose(
                    format!("\n\nThe simulator takes {milliseconds:.1} ms for m x n x k = {m} x {n} x {k}, which is no GPU time. This is what your kernel costs:\n\n"),
                    format!("\n\n模拟器计算 m x n x k = {m} x {n} x {k} 用时 {milliseconds:.1} 毫秒（这不是 GPU 的时间）。你的核函数的开销如下：\n\n"),
                ));
            } else {
                text.push_str(
                    self.language.choose("\n\nThis is what your kernel costs:\n\n", "\n\n你的核函数的开销如下：\n\n"),
                );
            }
            text.push_str(&explanation.table());
        }
        if let Some(hint) = self.hint {
            text.push_str(self.language.choose("\n\nhint: ", "\n\n提示："));
            text.push_str(hint);
        } else if !self.passed {
            text.push_str(self.language.choose(
                "\n\n(exercise --hint says more, exercise --solution shows a solution)",
                "\n\n（exercise --hint 给出提示，exercise --solution 显示参考答案）",
            ));
        }
        text
    }

    fn passed(&self) -> bool {
        self.passed
    }
}

fn origin_text(origin: &Origin) -> String {
    format!("{}[{}, {}]", origin.matrix, origin.row, origin.column)
}

fn target_text(target: &Target) -> String {
    format!("{}[{} * TILE + {}]", target.array, target.row, target.column)
}

fn verdict_text(verdict: &Verdict, language: Language) -> String {
    let problem = verdict.problem().map(|problem| {
        let advice = match verdict {
            // The advice would be the solution.
            Verdict::FirstBarrierMissing { .. } | Verdict::SecondBarrierMissing { .. } => String::new(),
            _ => check::advice(problem, language),
        };
        check::problem_text(1, problem, &advice, language).trim_end().trim_start_matches("1. ").to_owned()
    });
    let with_problem = |text: String| match &problem {
        Some(problem) => format!("{text}\n\n{problem}"),
        None => text,
    };
    let text = match (verdict, language) {
        (Verdict::NotStarted, Language::En) => {
            "Not started. Open the file, read its first lines, and begin with TODO 1: each thread copies one element of A and one of B into shared memory.".to_owned()
        }
        (Verdict::NotStarted, Language::Zh) => {
            "尚未开始。请打开这个文件，先读开头的说明，从 TODO 1 做起：每个线程把 A 和 B 的各一个元素搬进共享内存。".to_owned()
        }
        (Verdict::TileNotLoaded { array }, Language::En) => format!("`{array}` is not loaded: no thread writes to it."),
        (Verdict::TileNotLoaded { array }, Language::Zh) => format!("`{array}` 没有被装载：没有任何线程写它。"),
        (Verdict::WrongElement { step, block, thread, target, found, value, expected, line }, _) => {
            let ([bx, by, _], [x, y, _]) = (*block, *thread);
            let (target, expected) = (target_text(target), origin_text(expected));
            let found = match found {
                Some(origin) => origin_text(origin),
                None => language.choose(
                    format!("{value}, which is no element of A or B,"),
                    format!("{value}（既不是 A 也不是 B 的元素）"),
                ),
            };
            let line = line.map_or(String::new(), |line| language.choose(format!(" (line {line})"), format!("（第 {line} 行）")));
            language.choose(
                format!(
                    "The wrong element is loaded. In step {step} thread (x = {x}, y = {y}) of block (x = {bx}, y = {by}) puts {found} into {target}{line}; {expected} belongs there."
                ),
                format!(
                    "装载了错误的元素。在第 {step} 步，线程块 (x = {bx}, y = {by}) 的线程 (x = {x}, y = {y}) 把 {found} 放进了 {target}{line}；那里应当是 {expected}。"
                ),
            )
        }
        (Verdict::ElementNotLoaded { step, block: [bx, by, _], target }, _) => {
            let target = target_text(target);
            language.choose(
                format!("The tile has holes: in step {step} no thread of block (x = {bx}, y = {by}) writes {target}."),
                format!("分块没有装满：在第 {step} 步，线程块 (x = {bx}, y = {by}) 中没有线程写 {target}。"),
            )
        }
        (Verdict::FirstBarrierMissing { race: None, .. }, Language::En) => {
            "The right elements are loaded. But nobody waits for anybody yet: the first barrier is missing.".to_owned()
        }
        (Verdict::FirstBarrierMissing { race: None, .. }, Language::Zh) => {
            "装载的元素是对的。但是现在谁也不等谁：缺少第一个屏障。".to_owned()
        }
        (Verdict::FirstBarrierMissing { race: Some(_), .. }, Language::En) => {
            "The right elements are loaded. But a dirty read is possible: a thread may read an element of a tile before the thread that loads it has written it. The first barrier is missing.".to_owned()
        }
        (Verdict::FirstBarrierMissing { race: Some(_), .. }, Language::Zh) => {
            "装载的元素是对的。但可能发生脏读：某个线程在负责装载的线程写入之前就读取了分块中的元素。缺少第一个屏障。".to_owned()
        }
        (Verdict::NothingMultiplied, Language::En) => {
            "The tiles are loaded, and a barrier stands behind the loads. Now use them: nobody reads the tiles yet.".to_owned()
        }
        (Verdict::NothingMultiplied, Language::Zh) => "分块已装载，其后也有屏障。接下来该使用它们了：还没有人读取这两个分块。".to_owned(),
        (Verdict::ProductWrong { one_step_right, row, column, found, expected, .. }, _) => {
            let several = language.choose(
                " With a single step the product is right, with several it isn't: what happens to `sum` from one step to the next?",
                "只有一步时乘积是对的，多步时就错了：从一步到下一步，`sum` 发生了什么？",
            );
            let several = if *one_step_right { several } else { "" };
            language.choose(
                format!("The loads and the first barrier are right, but the product is wrong: C[{row}, {column}] is {found}, and should be {expected:.6}.{several}"),
                format!("装载和第一个屏障都对，但乘积错了：C[{row}, {column}] 是 {found}，应为 {expected:.6}。{several}"),
            )
        }
        (Verdict::SecondBarrierMissing { .. }, Language::En) => {
            "With a single step the product is right. But an overwrite is possible: a fast thread may go on to the next step and overwrite an element that a slow one still has to read. The second barrier is missing.".to_owned()
        }
        (Verdict::SecondBarrierMissing { .. }, Language::Zh) => {
            "只有一步时乘积是对的。但可能发生覆盖：快的线程进入下一步，覆盖了慢的线程还没读完的元素。缺少第二个屏障。".to_owned()
        }
        (Verdict::Other { todo: Some(todo), .. }, _) => {
            language.choose(format!("There is a mistake at TODO {todo}:"), format!("TODO {todo} 处有一个错误："))
        }
        (Verdict::Other { todo: None, .. }, _) => {
            language.choose("There is a mistake outside the TODOs:", "TODO 之外的地方有一个错误：").to_owned()
        }
        (Verdict::Right, Language::En) => {
            "Right. Every element of the product is right, and the barriers let no thread read or overwrite anything too early.".to_owned()
        }
        (Verdict::Right, Language::Zh) => {
            "完全正确。乘积的每个元素都对，屏障也保证了没有线程过早地读取或覆盖任何东西。".to_owned()
        }
    };
    let useless = match verdict {
        Verdict::FirstBarrierMissing { barrier: Some(line), .. } | Verdict::SecondBarrierMissing { barrier: Some(line), .. } => {
            language.choose(
                format!(" (There is a barrier at line {line}, but it doesn't keep them apart: it's in the wrong place, or not passed every time.)"),
                format!("（第 {line} 行有一个屏障，但它没能把两者隔开：位置不对，或者并非每次都经过。）"),
            )
        }
        _ => String::new(),
    };
    with_problem(text + &useless)
}

fn hint_text(verdict: &Verdict, language: Language) -> &'static str {
    let todo = verdict.todo();
    match (verdict, todo, language) {
        (Verdict::ProductWrong { one_step_right: true, .. }, _, Language::En) => {
            "`sum` belongs to the thread for the whole loop over the steps: it starts at 0 once, and every step adds to it."
        }
        (Verdict::ProductWrong { one_step_right: true, .. }, _, Language::Zh) => {
            "`sum` 在整个分步循环中都属于这个线程：它只在开始时为 0 一次，每一步都往上累加。"
        }
        (_, Some(1), Language::En) => {
            "Thread (y, x) loads what stands at (y, x) of both tiles. Tile A of step `step` begins at column step * TILE of the block's rows, so this thread's element is in row `row` and column step * TILE + x of A. Tile B begins at row step * TILE of the block's columns: row step * TILE + y, column `column` of B. An element (r, c) of a row-major matrix with w columns is at index r * w + c; A has k columns, B has n."
        }
        (_, Some(1), Language::Zh) => {
            "线程 (y, x) 装载两个分块的 (y, x) 处的元素。第 step 步的 A 分块从本块各行的第 step * TILE 列开始，所以该线程要的是 A 的第 row 行、第 step * TILE + x 列；B 分块从本块各列的第 step * TILE 行开始：B 的第 step * TILE + y 行、第 column 列。行优先矩阵若有 w 列，元素 (r, c) 的下标是 r * w + c；A 有 k 列，B 有 n 列。"
        }
        (_, Some(2), Language::En) => {
            "A barrier holds every thread of the block until all have arrived: thread::sync_threads(). It belongs between the last write to the tiles and the first read, where all threads come by: not inside an `if`."
        }
        (_, Some(2), Language::Zh) => {
            "屏障让线程块的每个线程等到全体到达：thread::sync_threads()。它应位于最后一次写分块与第一次读分块之间，并且所有线程都会经过：不能放在 `if` 里。"
        }
        (_, Some(3), Language::En) => {
            "C[row, column] is the sum of A[row, i] * B[i, column]. In this step the thread has 16 of those products at hand: row y of tile_a, elements y * TILE + i, and column x of tile_b, elements i * TILE + x, for i in 0..TILE."
        }
        (_, Some(3), Language::Zh) => {
            "C[row, column] 是 A[row, i] * B[i, column] 之和。在这一步里，该线程手边有其中 16 个乘积：tile_a 的第 y 行，即元素 y * TILE + i；tile_b 的第 x 列，即元素 i * TILE + x；i 取 0..TILE。"
        }
        (_, Some(_), Language::En) => {
            "The same call as for TODO 2, at the end of the loop's body: the next step's writes come right after this step's reads."
        }
        (_, Some(_), Language::Zh) => "与 TODO 2 相同的调用，放在循环体的末尾：下一步的写紧跟在这一步的读之后。",
        (Verdict::Right, _, Language::En) => "Nothing is left to do.",
        (Verdict::Right, _, Language::Zh) => "没有要改的了。",
        (_, None, Language::En) => "Everything outside the loop is right as it was handed out.",
        (_, None, Language::Zh) => "循环之外的代码在发下来时就是对的。",
    }
}

/// What happened to the page, or its solution.
#[derive(Debug, Serialize)]
#[serde(tag = "page", rename_all = "lowercase")]
pub enum PageReport {
    /// A solution.
    Solution {
        /// The loop's body.
        code: &'static str,
        /// The language to speak.
        #[serde(skip)]
        language: Language,
    },
    /// The page was as it had been handed out.
    Untouched {
        /// The file.
        file: String,
        /// The language to speak.
        #[serde(skip)]
        language: Language,
    },
    /// The page is as it was handed out again.
    Reset {
        /// The file.
        file: String,
        /// The language to speak.
        #[serde(skip)]
        language: Language,
    },
    /// The user wants to keep the work.
    Kept {
        /// The file.
        file: String,
        /// The language to speak.
        #[serde(skip)]
        language: Language,
    },
}

impl Report for PageReport {
    fn table(&self) -> String {
        match self {
            PageReport::Solution { code, language } => {
                let introduction = language.choose(
                    "One way to fill in the loop. Why each barrier is needed: gpu-kernels/src/tiled.rs.",
                    "循环体的一种写法。为什么需要这两个屏障：见 gpu-kernels/src/tiled.rs。",
                );
                format!("{introduction}\n\n{}", code.trim_end())
            }
            PageReport::Untouched { file, language } => language.choose(
                format!("{file} is as it was handed out; nothing was lost."),
                format!("{file} 本来就是最初的样子，没有丢失任何内容。"),
            ),
            PageReport::Reset { file, language } => {
                language.choose(format!("{file} is back as it was handed out."), format!("{file} 已恢复成最初的样子。"))
            }
            PageReport::Kept { file, language } => {
                language.choose(format!("{file} is left as it is."), format!("{file} 保持不变。"))
            }
        }
    }
}
