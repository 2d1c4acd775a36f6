//! Judge what the reader wrote into the exercise, or hand out hints, the solution, or a fresh page.

use std::io::{self, BufRead, IsTerminal, Write};

use anyhow::{Context, ensure};
use gpu_kernels::exercise::KERNEL;
use host::{
    device::{Device, WATCHED_INSTRUCTION_LIMIT},
    exercise::{self, Submission, page},
    gemm::{Gemm, Timing},
    language::Language,
    matrix,
    report::{ExerciseReport, ExplainReport, PageReport, Reward},
};

use super::{
    Outcome,
    explain::{self, DEFAULT_SHAPE},
    progress, render, start_workers,
};
use crate::cli::{Common, ExerciseArguments};

pub fn run(arguments: &ExerciseArguments, common: Common) -> anyhow::Result<Outcome> {
    let language = arguments.language.get();
    if arguments.solution {
        return render(PageReport::Solution { code: page::SOLUTION, language }, common.json);
    }
    if arguments.reset {
        return render(reset(arguments.yes, language)?, common.json);
    }
    ensure!(!arguments.yes, "--yes goes with --reset only");
    ensure!(
        !page::is_newer_than_this_program(&page::path()),
        "{} has changed since this program was built: `cargo run -p host -- exercise` builds it first",
        page::path().display()
    );
    start_workers()?;
    // A device that was asked for by name must be there, even if there is no reward yet.
    Device::open(common.device())?;
    let gemm = Gemm::new(Device::simulator(WATCHED_INSTRUCTION_LIMIT));
    let submission = Submission { kernel: &KERNEL, source: page::BUILT };
    let verdict = progress::spinning("running your kernel", || exercise::judge(&gemm, submission))?;
    let mut report = ExerciseReport::new(verdict, page::BUILT, arguments.hint, language);
    if report.passed {
        report.reward = Some(reward(&gemm, common, language)?);
    }
    render(report, common.json)
}

/// What the reader's own kernel costs, and how long it takes: on a GPU where there is one.
fn reward(simulator: &Gemm, common: Common, language: Language) -> anyhow::Result<Reward> {
    let explanation = explain::explanation(&KERNEL, DEFAULT_SHAPE, None, common)?;
    let simulated_seconds = match explanation.measured {
        Some(_) => None,
        None => {
            let [m, n, k] = DEFAULT_SHAPE;
            let [a, b] = <[_; 2]>::try_from(matrix::random_normals(&[(m, k), (k, n)], 42)).expect("two shapes");
            let product = simulator.multiply_timed(&KERNEL, a.view(), b.view(), Timing::Once)?;
            Some(product.time.as_secs_f64())
        }
    };
    Ok(Reward { explanation: ExplainReport::new(explanation, language), simulated_seconds })
}

/// Brings the page back, after a question if that would overwrite work.
fn reset(yes: bool, language: Language) -> anyhow::Result<PageReport> {
    let path = page::path();
    let file = path.display().to_string();
    if page::work(&path)?.is_none() {
        page::reset(&path)?;
        return Ok(PageReport::Untouched { file, language });
    }
    if !yes && !confirm(&file, language)? {
        return Ok(PageReport::Kept { file, language });
    }
    page::reset(&path)?;
    Ok(PageReport::Reset { file, language })
}

fn confirm(file: &str, language: Language) -> anyhow::Result<bool> {
    let mut stderr = io::stderr();
    let question = language.choose(
        format!("{file} has your work in it, which would be lost. Bring the page back as it was? [y/N] "),
        format!("{file} 中有你写的内容，恢复后将会丢失。要恢复成最初的样子吗？[y/N] "),
    );
    write!(stderr, "{question}").and_then(|()| stderr.flush()).context("cannot ask whether to overwrite your work")?;
    let mut answer = String::new();
    let read = io::stdin().lock().read_line(&mut answer).context("cannot read the answer")?;
    if read == 0 {
        // What comes next is not on the question's line.
        let _ = writeln!(stderr);
    }
    ensure!(
        read > 0 || io::stdin().is_terminal(),
        "nobody answered whether to overwrite your work in {file}; --reset --yes does it without asking"
    );
    Ok(matches!(answer.trim().to_lowercase().as_str(), "y" | "yes" | "是"))
}
