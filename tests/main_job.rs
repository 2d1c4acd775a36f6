//! The main job, as the README promises it.

mod common;

use approx::assert_abs_diff_eq;
use predicates::prelude::*;
use serde_json::Value;

fn json(output: &std::process::Output) -> Value {
    serde_json::from_slice(&output.stdout).expect("--json prints JSON and nothing else")
}

#[test]
fn the_main_job_multiplies_1024_x_1024_matrices_and_passes() {
    let output = common::host().arg("--json").assert().code(0).get_output().clone();
    let report = json(&output);
    assert_eq!([&report["m"], &report["n"], &report["k"]], [1024, 1024, 1024]);
    assert_eq!(report["kernel"], "tiled");
    assert_eq!(report["seed"], 42);
    assert_eq!(report["verification"]["elements"], 1024 * 1024);
    let difference = report["verification"]["max_difference"].as_f64().unwrap();
    assert_abs_diff_eq!(difference, 0.0, epsilon = 1e-2);
    assert!(report["verification"]["max_ratio"].as_f64().unwrap() <= 1.0);
    assert_eq!(report["under_lesson_bar"], true);
    assert_eq!(report["passed"], true);
}

#[test]
fn without_a_gpu_it_says_plainly_that_it_simulates() {
    let text = predicate::str::contains("PTX simulator")
        .and(predicate::str::contains("simulator's times are not GPU times"))
        .and(predicate::str::contains("PASS"));
    common::host().args(["run", "--device", "sim", "--size", "64"]).assert().code(0).stdout(text);
}

#[test]
fn another_kernel_size_and_seed_can_be_chosen() {
    let arguments = ["run", "--device", "sim", "--size", "50", "--kernel", "naive", "--seed", "7", "--json"];
    let report = json(common::host().args(arguments).assert().code(0).get_output());
    assert_eq!([&report["m"], &report["seed"]], [50, 7]);
    assert_eq!(report["kernel"], "naive");
}

#[test]
fn the_same_seed_gives_the_same_result() {
    let run = || {
        let arguments = ["run", "--device", "sim", "--size", "33", "--json"];
        let mut report = json(common::host().args(arguments).assert().code(0).get_output());
        report["verification"].take()
    };
    assert_eq!(run(), run());
}

#[test]
fn list_names_every_kernel_and_what_it_needs() {
    let text = gpu_kernels::KERNELS.iter().fold(predicate::str::contains("7.0").boxed(), |text, kernel| {
        text.and(predicate::str::contains(kernel.name)).boxed()
    });
    common::host().arg("list").assert().code(0).stdout(text);
    let list = json(common::host().args(["list", "--json"]).assert().code(0).get_output());
    assert_eq!(list["kernels"].as_array().unwrap().len(), gpu_kernels::KERNELS.len());
    for (row, kernel) in list["kernels"].as_array().unwrap().iter().zip(gpu_kernels::KERNELS) {
        assert_eq!(row["name"], kernel.name);
        assert_eq!(row["shared_bytes"], kernel.shared_bytes_per_block());
    }
    let families: Vec<_> = list["families"].as_array().unwrap().iter().map(|family| family["name"].clone()).collect();
    assert_eq!(families, host::kernels::families());
    for family in list["families"].as_array().unwrap() {
        let kernels = family["kernels"].as_array().unwrap().len();
        assert!(kernels >= 2 && (kernels == 7) == (family["precision"] == "f32"), "{family}");
    }
}

#[test]
fn info_shows_devices_kernel_compiler_and_ptx_levels() {
    let text = ["PTX simulator", "kernel compiler", "rustc", "compute_70"];
    let text =
        text.iter().fold(predicate::always().boxed(), |all, part| all.and(predicate::str::contains(*part)).boxed());
    common::host().arg("info").assert().code(0).stdout(text);
    let info = json(common::host().args(["info", "--json"]).assert().code(0).get_output());
    assert_eq!(info["ptx"][0]["level"], "compute_70");
    assert_eq!(info["devices"].as_array().unwrap().last().unwrap()["kind"], "simulator");
}
