//! Promises of `check`.

mod common;

use predicates::prelude::*;
use serde_json::Value;

fn check(arguments: &[&str]) -> assert_cmd::assert::Assert {
    common::host().arg("check").args(arguments).assert()
}

#[test]
fn every_kernel_of_the_list_is_clean_and_right() {
    let output = check(&["--json"]).code(0).get_output().clone();
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["passed"], true);
    let names: Vec<_> = report["kernels"].as_array().unwrap().iter().map(|kernel| kernel["kernel"].clone()).collect();
    let all: Vec<_> = gpu_kernels::KERNELS.iter().map(|kernel| kernel.name).collect();
    assert_eq!(names, all);
    for kernel in report["kernels"].as_array().unwrap() {
        assert_eq!(kernel["problems"], serde_json::json!([]), "{}", kernel["kernel"]);
        assert_eq!(kernel["verification"]["wrong"], 0);
        assert!(kernel["threads"].as_u64().unwrap() > 0);
    }
}

/// What is wrong with production kernels, checked as one command: each problem in words, empty if they are clean.
fn problems(names: &[&str]) -> String {
    let output = check(&[names, &["--json"]].concat()).get_output().clone();
    let report: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"));
    let mut found = String::new();
    for kernel in report["kernels"].as_array().unwrap() {
        let name = &kernel["kernel"];
        let splits: Vec<_> = kernel["cases"].as_array().unwrap().iter().map(|case| case["splits"].clone()).collect();
        // K of factors in parts isn't split.
        let in_parts = name.as_str().is_some_and(|name| name.contains("fp32-tc"));
        assert_eq!(splits, if in_parts { &[1, 1][..] } else { &[1, 1, 2] }, "{name}");
        if kernel["verification"]["wrong"] != 0 {
            found += &format!("{name}: wrong product {}\n", kernel["verification"]);
        }
        for problem in kernel["problems"].as_array().unwrap() {
            found += &format!("{name}: {} at {}\n", problem["kind"], problem["first"]["source"]);
        }
    }
    found
}

#[test]
fn every_family_of_production_kernels_is_clean_and_right_with_k_in_one_part_and_in_two() {
    let found = problems(&host::kernels::families());
    assert!(found.is_empty(), "{found}");
}

#[test]
fn every_way_of_copying_is_clean_and_right() {
    let family = production_kernels::FAMILIES.iter().find(|family| family.name == "32x32x32x8").unwrap();
    let found = problems(&family.kernels.each_ref().map(|kernel| kernel.name));
    assert!(found.is_empty(), "{found}");
}

#[test]
fn a_production_kernel_of_ones_own_product_is_checked_with_k_in_two_parts_too() {
    let text = "m x n x k = 9 x 12 x 100 (pipelined_16x32x32x8_kv), 9 x 12 x 100 (pipelined_16x32x32x8_kv; K in 2 parts, and reduce)";
    check(&["16x32x32x8", "--shape", "9x12x100", "--lang", "en"]).stdout(predicate::str::contains(text));
}

#[test]
fn a_product_of_ones_own_can_be_checked() {
    let text = predicate::str::contains("m x n x k = 37 x 53 x 61").and(predicate::str::contains("CLEAN"));
    check(&["tiled", "--shape", "37x53x61", "--lang", "en"]).code(0).stdout(text);
}

#[test]
fn the_report_is_there_in_chinese() {
    check(&["naive", "--lang", "zh"]).code(0).stdout(predicate::str::contains("没有数据竞争"));
    let english = common::host().args(["check", "naive"]).env("LC_ALL", "C").assert().code(0);
    english.stdout(predicate::str::contains("CLEAN"));
    let chinese = common::host().args(["check", "naive"]).env("LC_ALL", "zh_CN.UTF-8").assert().code(0);
    chinese.stdout(predicate::str::contains("无误"));
}

#[test]
fn what_cannot_be_checked_is_an_error_that_says_what_to_do() {
    let fails = |arguments: &[&str], text: &str| {
        check(arguments).code(2).stderr(predicate::str::contains(text.to_owned()));
    };
    fails(&["tilde"], "known kernels");
    fails(&["tiled", "--shape", "10x20"], "MxNxK");
    fails(&["tiled", "--shape", "0x3x4"], "nothing to check");
    fails(&["tiled", "--size", "0"], "nothing to check");
    fails(&["tiled", "--size", "8", "--shape", "1x2x3"], "--shape");
    fails(&["tiled", "--device", "cuda"], "simulator");
    fails(&["tiled", "--lang", "fr"], "expected en or zh");
    fails(&["pipelined_64x64x16_vk", "--size", "30"], "'pipelined_64x64x16_wk' does");
    fails(&["exercise", "--size", "30"], "multiples of its tile");
    fails(&["tiled", "--size", "4000000000"], "");
}
