//! Judge what the reader wrote into the exercise, or hand out hints, the solution, or a fresh page.

use std::io::{self, BufRead, IsTerminal, Write};

use anyhow::{Context, ensure};
use gpu_kernels::exercise::KERNEL;
use host::{
    device::{Device, DeviceSelector},
    exercise::{self, Submission, page},
    gemm::Gemm,
    language::Language,
    report::{ExerciseReport, PageReport},
};

use super::{Outcome, progress, render, start_workers};
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
    start_workers()?;
    let gemm = Gemm::new(Device::open(DeviceSelector::Simulator)?);
    let submission = Submission { kernel: &KERNEL, source: page::BUILT };
    let verdict = progress::spinning("running your kernel", || exercise::judge(&gemm, submission))?;
    render(ExerciseReport::new(verdict, page::BUILT, arguments.hint, KERNEL.block, language), common.json)
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
    ensure!(
        read > 0 || io::stdin().is_terminal(),
        "nobody answered whether to overwrite your work in {file}; --reset --yes does it without asking"
    );
    Ok(matches!(answer.trim().to_lowercase().as_str(), "y" | "yes" | "是"))
}
