//! Promises of the exercise: for every state that a reader's page can be in, the first thing that is wrong, and nothing
//! else. Each test fills in the page as a reader would, compiles it, and asks the judge.

mod common;

use std::{
    fs,
    path::{Path, PathBuf},
    sync::Mutex,
};

use cuda_builder::{CudaBuilder, NvvmArch};
use gpu_kernels::exercise::KERNEL;
use host::{
    check::ProblemKind,
    device::{Device, WATCHED_INSTRUCTION_LIMIT},
    exercise::{
        Submission, Verdict, judge,
        judge::{Origin, Target},
        page,
    },
    gemm::Gemm,
    language::Language,
    report::{ExerciseReport, Report},
};
use predicates::prelude::*;

const LOAD: &str = "*tile_a.add(y * TILE + x) = *a.add(row * k + step * TILE + x);
        *tile_b.add(y * TILE + x) = *b.add((step * TILE + y) * n + column);";
const BARRIER: &str = "thread::sync_threads();";
const MULTIPLY: &str = "for i in 0..TILE {
            sum = (*tile_a.add(y * TILE + i)).mul_add(*tile_b.add(i * TILE + x), sum);
        }";

/// The page with code under each of its four TODOs.
fn page_with(code: [&str; 4]) -> String {
    let mut page = page::START.to_owned();
    for (todo, code) in (1..=4).zip(code).rev() {
        let line = page::todo_line(&page, todo).unwrap();
        let lines: Vec<_> = page.lines().collect();
        let comment = lines[line..].iter().take_while(|text| text.trim_start().starts_with("//")).count();
        let (before, after) = lines.split_at(line + comment);
        page = [before, &[code], after].concat().join("\n") + "\n";
    }
    page
}

/// Compiles a page in a crate of its own beside this build's, and has it judged.
fn judged(page: &str) -> Verdict {
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    let guard = ONE_AT_A_TIME.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    let repository = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let workspace = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("exercise");
    let folder = workspace.join("gpu-kernels");
    fs::create_dir_all(folder.join("src")).unwrap();
    fs::create_dir_all(workspace.join(".cargo")).unwrap();
    let ports = repository.join("rust-cuda");
    let manifest = format!(
        "[workspace]\nmembers = [\"gpu-kernels\"]\nresolver = \"3\"\n[patch.crates-io]\ncuda_std = {{ path = {:?} }}\ncuda_std_macros = {{ path = {:?} }}\n",
        ports.join("cuda_std"),
        ports.join("cuda_std_macros")
    );
    let target = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
    write(&workspace.join("Cargo.toml"), &manifest);
    write(&workspace.join(".cargo/config.toml"), &format!("[build]\ntarget-dir = {:?}\n", target.parent().unwrap()));
    // With the page's own package in it the lock file is complete, so that no registry is asked: tests run offline.
    let lock = fs::read_to_string(repository.join("Cargo.lock")).unwrap();
    let package =
        "\n[[package]]\nname = \"exercise-pages\"\nversion = \"0.1.0\"\ndependencies = [\n \"cuda_std\",\n]\n";
    write(&workspace.join("Cargo.lock"), &(lock + package));
    write(
        &folder.join("Cargo.toml"),
        "[package]\nname = \"exercise-pages\"\nversion = \"0.1.0\"\nedition = \"2021\"\n[lib]\ncrate-type = [\"cdylib\", \"rlib\"]\n[dependencies]\ncuda_std = \"0.2\"\n",
    );
    let [launch, operands] =
        ["launch", "operands"].map(|name| repository.join(format!("gpu-kernels/common/src/{name}.rs")));
    write(
        &folder.join("src/lib.rs"),
        &format!(
            "#![no_std]\n#[path = {launch:?}]\npub mod launch;\n#[path = {operands:?}]\npub mod operands;\npub mod exercise;\npub mod tiled {{}}\n"
        ),
    );
    write(&folder.join("src/exercise.rs"), page);
    let ptx = CudaBuilder::new(&folder).arch(NvvmArch::Compute70).build().expect("the page compiles");
    let ptx = fs::read_to_string(ptx).unwrap();
    drop(guard);

    let simulator = Device::simulator(WATCHED_INSTRUCTION_LIMIT);
    // SAFETY: it runs on the simulator.
    let gemm = unsafe { Gemm::from_ptx(simulator, ptx) };
    judge(&gemm, Submission { kernel: &KERNEL, source: page }).expect("the kernel can be launched")
}

fn write(path: &Path, text: &str) {
    fs::write(path, text).unwrap();
}

/// The verdict in words, in both languages.
fn words(verdict: &Verdict, page: &str) -> [String; 2] {
    [Language::En, Language::Zh].map(|language| ExerciseReport::new(verdict.clone(), page, true, language).table())
}

#[test]
fn the_page_as_handed_out_is_not_started() {
    let verdict = judged(page::START);
    assert!(matches!(verdict, Verdict::NotStarted), "{verdict:?}");
    assert_eq!(verdict.todo(), Some(1));
}

#[test]
fn a_tile_that_nobody_loads_is_named() {
    let page = page_with([LOAD.lines().next().unwrap(), "", "", ""]);
    let verdict = judged(&page);
    assert!(matches!(verdict, Verdict::TileNotLoaded { array: "tile_b" }), "{verdict:?}");
    let page = page_with([LOAD.lines().nth(1).unwrap(), "", "", ""]);
    let verdict = judged(&page);
    assert!(matches!(verdict, Verdict::TileNotLoaded { array: "tile_a" }), "{verdict:?}");
}

#[test]
fn a_wrong_element_is_named_with_the_one_that_belongs_there() {
    let page = page_with([
        &LOAD.replace("row * k + step * TILE + x", "row * k + step * TILE + y"),
        BARRIER,
        MULTIPLY,
        BARRIER,
    ]);
    match judged(&page) {
        Verdict::WrongElement {
            step: 0, block: [0, 0, 0], thread, target, found: Some(found), expected, line, ..
        } => {
            assert_eq!(thread, [1, 0, 0]);
            assert_eq!(target, Target { array: "tile_a", row: 0, column: 1 });
            assert_eq!(found, Origin { matrix: "A", row: 0, column: 0 });
            assert_eq!(expected, Origin { matrix: "A", row: 0, column: 1 });
            assert_eq!(line.map(|line| line as usize), page::todo_line(&page, 1).map(|line| line + 2));
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn tiles_in_each_others_place_are_a_wrong_element() {
    let swapped = LOAD.replace("tile_a", "tile_c").replace("tile_b", "tile_a").replace("tile_c", "tile_b");
    let verdict = judged(&page_with([&swapped, BARRIER, MULTIPLY, BARRIER]));
    assert!(
        matches!(
            verdict,
            Verdict::WrongElement { found: Some(Origin { matrix: "B", .. }), .. }
                | Verdict::WrongElement { target: Target { array: "tile_b", .. }, .. }
        ),
        "{verdict:?}"
    );
}

#[test]
fn a_load_from_outside_a_matrix_is_told_as_such() {
    let verdict = judged(&page_with([
        &LOAD.replace("(step * TILE + y) * n", "(step * TILE + y + k) * n"),
        BARRIER,
        MULTIPLY,
        BARRIER,
    ]));
    assert_eq!(verdict.todo(), Some(1));
    assert_eq!(verdict.problem().map(|problem| problem.kind), Some(ProblemKind::OutOfBounds), "{verdict:?}");
}

#[test]
fn half_a_tile_is_told_by_its_first_hole() {
    let verdict = judged(&page_with([&format!("if y < 8 {{ {LOAD} }}"), BARRIER, MULTIPLY, BARRIER]));
    match verdict {
        Verdict::ElementNotLoaded { step: 0, block: [0, 0, 0], target } => {
            assert_eq!(target, Target { array: "tile_a", row: 8, column: 0 });
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn right_loads_alone_lead_to_the_first_barrier() {
    let verdict = judged(&page_with([LOAD, "", "", ""]));
    assert!(matches!(verdict, Verdict::FirstBarrierMissing { race: None, .. }), "{verdict:?}");
}

#[test]
fn a_missing_first_barrier_is_a_dirty_read_with_both_lines() {
    for second in [BARRIER, ""] {
        let page = page_with([LOAD, "", MULTIPLY, second]);
        let verdict = judged(&page);
        assert_eq!(verdict.todo(), Some(2), "{verdict:?}");
        let race = verdict.problem().expect("the race is found");
        assert_eq!(race.kind, ProblemKind::ReadAfterWrite);
        let line = |event: &host::check::Event| event.source.as_ref().unwrap().line as usize;
        let [load, multiply] = [1, 3].map(|todo| page::todo_line(&page, todo).unwrap());
        assert!((load..load + 4).contains(&line(&race.first)), "{race:?}");
        assert!((multiply..multiply + 4).contains(&line(race.second.as_ref().unwrap())), "{race:?}");
        let name = serde_json::to_value(&race.element).unwrap()["name"].as_str().unwrap().to_owned();
        assert!(["tile_a", "tile_b"].contains(&name.as_str()), "{race:?}");
    }
}

#[test]
fn after_the_first_barrier_the_product_comes_next() {
    let verdict = judged(&page_with([LOAD, BARRIER, "", ""]));
    assert!(matches!(verdict, Verdict::NothingMultiplied), "{verdict:?}");
}

#[test]
fn a_wrong_product_is_told_by_its_first_wrong_element() {
    let wrong = MULTIPLY.replace("i * TILE + x", "x * TILE + i");
    for second in ["", BARRIER] {
        let verdict = judged(&page_with([LOAD, BARRIER, &wrong, second]));
        assert!(
            matches!(verdict, Verdict::ProductWrong { one_step_right: false, row: 0, column: 0, .. }),
            "{verdict:?}"
        );
    }
}

#[test]
fn a_sum_that_starts_again_in_every_step_is_right_for_one_step_only() {
    let wrong = format!("sum = 0.0; {MULTIPLY}");
    let verdict = judged(&page_with([LOAD, BARRIER, &wrong, BARRIER]));
    assert!(matches!(verdict, Verdict::ProductWrong { one_step_right: true, .. }), "{verdict:?}");
}

#[test]
fn a_missing_second_barrier_is_an_overwrite_with_both_lines() {
    let page = page_with([LOAD, BARRIER, MULTIPLY, ""]);
    let verdict = judged(&page);
    assert!(matches!(verdict, Verdict::SecondBarrierMissing { .. }), "{verdict:?}");
    assert_eq!(verdict.problem().unwrap().kind, ProblemKind::WriteAfterRead);
}

#[test]
fn a_barrier_inside_a_branch_is_told_as_such() {
    let verdict = judged(&page_with([LOAD, "if x < 8 { thread::sync_threads(); }", MULTIPLY, BARRIER]));
    assert_eq!(verdict.todo(), Some(2), "{verdict:?}");
    let kind = verdict.problem().unwrap().kind;
    assert!(matches!(kind, ProblemKind::DivergentBarrier | ProblemKind::DifferentBarriers), "{verdict:?}");
}

#[test]
fn the_barrier_that_fewer_threads_come_to_is_the_one_in_the_branch() {
    let verdict = judged(&page_with([LOAD, BARRIER, MULTIPLY, "if x < 8 { thread::sync_threads(); }"]));
    assert_eq!(verdict.todo(), Some(4), "{verdict:?}");
}

#[test]
fn a_barrier_that_does_not_help_is_named() {
    let page = page_with([LOAD, "if step > 0 { thread::sync_threads(); }", MULTIPLY, BARRIER]);
    match judged(&page) {
        Verdict::FirstBarrierMissing { race: Some(_), barrier } => {
            assert_eq!(barrier.map(|line| line as usize), page::todo_line(&page, 2).map(|line| line + 1));
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_panic_or_an_endless_loop_is_told_where_it_is() {
    let endless = "let mut i = 0; while i < TILE { sum += *tile_a.add(y * TILE + i) * *tile_b.add(i * TILE + x); }";
    for (multiply, kind) in
        [(endless, ProblemKind::EndlessLoop), ("if x == 3 && step == 1 { panic!() }", ProblemKind::Trap)]
    {
        let verdict = judged(&page_with([LOAD, BARRIER, multiply, BARRIER]));
        assert_eq!(verdict.problem().map(|problem| problem.kind), Some(kind), "{verdict:?}");
        assert_eq!(verdict.todo(), Some(3), "{verdict:?}");
    }
}

#[test]
fn a_mistake_outside_the_todos_is_told_as_such() {
    let page = page_with([LOAD, BARRIER, MULTIPLY, BARRIER])
        .replace("*c.add(row * n + column)", "*c.add(row * n + column + m * n)");
    let verdict = judged(&page);
    assert!(matches!(verdict, Verdict::Other { todo: None, .. }), "{verdict:?}");
    let [english, _] = words(&verdict, &page);
    assert!(english.contains("outside the TODOs"), "{english}");
}

#[test]
fn the_solution_is_right() {
    let start = page::START.find("        // TODO 1").unwrap();
    let end = page::START.find("    }\n\n    if row < m").unwrap();
    let page = format!("{}{}{}", &page::START[..start], page::SOLUTION, &page::START[end..]);
    let verdict = judged(&page);
    assert!(matches!(verdict, Verdict::Right), "{verdict:?}");
}

#[test]
fn another_layout_of_the_tiles_is_right_too() {
    let load = LOAD.replace("tile_a.add(y * TILE + x)", "tile_a.add(x * TILE + y)");
    let multiply = MULTIPLY.replace("tile_a.add(y * TILE + i)", "tile_a.add(i * TILE + y)");
    let verdict = judged(&page_with([&load, BARRIER, &multiply, BARRIER]));
    assert!(matches!(verdict, Verdict::Right), "{verdict:?}");
}

#[test]
fn every_verdict_and_hint_is_there_in_both_languages() {
    let page = page_with([LOAD, "", MULTIPLY, ""]);
    let verdict = judged(&page);
    let [english, chinese] = words(&verdict, &page);
    assert!(english.contains("first barrier is missing") && english.contains("hint:"), "{english}");
    assert!(chinese.contains("缺少第一个屏障") && chinese.contains("提示："), "{chinese}");
    assert!(english.contains("gpu-kernels/src/exercise.rs:"), "{english}");
    // The hint says where the barrier goes; the verdict itself only says what is wrong.
    assert!(!ExerciseReport::new(verdict, &page, false, Language::En).text.contains("sync_threads"));
}

#[test]
fn the_solution_can_be_shown_and_hints_asked_for() {
    common::host().args(["exercise", "--solution"]).assert().code(0).stdout(predicate::str::contains("sync_threads"));
    common::host().args(["exercise", "--hint", "--reset"]).assert().code(2);
    common::host().args(["exercise", "--yes"]).assert().code(2).stderr(predicate::str::contains("--reset"));
}
