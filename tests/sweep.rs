//! What `sweep` promises: the tile family in one table, without a GPU as far as counts go.

mod common;

use predicates::prelude::*;
use serde_json::Value;

fn json(arguments: &[&str]) -> Value {
    let output = common::host().args(arguments).arg("--json").assert().code(0).get_output().clone();
    serde_json::from_slice(&output.stdout).expect("--json prints JSON and nothing else")
}

#[test]
fn the_tile_family_is_compared_by_what_each_tile_takes_and_costs() {
    let report = json(&["sweep", "--device", "sim", "--sizes", "64"]);
    let rows = report["counts"].as_array().unwrap();
    let of = |name: &str| rows.iter().map(|row| row[name].clone()).collect::<Vec<_>>();
    assert_eq!(of("kernel"), ["tiled_8", "tiled", "tiled_32", "tiled_64"]);
    assert_eq!(of("shared_bytes"), [512, 2048, 8192, 32768]);
    for row in rows {
        let tile = row["tile"][0].as_u64().unwrap();
        // 8 bytes a multiply-add by the tile, and 4 for the store.
        assert_eq!(row["ratios"]["global_bytes_per_output"], (8 * 64 / tile + 4) as f64, "{}", row["kernel"]);
        assert_eq!(row["ratios"]["bank_conflict_degree"], 1.0, "{}", row["kernel"]);
        assert_eq!(row["total"]["thread_fma"], 64 * 64 * 64, "{}", row["kernel"]);
    }
}

#[test]
fn without_a_gpu_it_says_that_times_need_one() {
    let text = predicate::str::contains("takes a GPU to say").and(predicate::str::contains("tiled_64 asks"));
    let arguments = ["sweep", "--device", "sim", "--sizes", "64", "--lang", "en"];
    common::host().args(arguments).assert().code(0).stdout(text);
    let report = json(&["sweep", "--device", "sim", "--sizes", "64"]);
    assert_eq!((&report["simulated"], report["times"].as_array().unwrap().len()), (&true.into(), 0));
}

#[test]
fn other_kernels_sizes_and_gpus_can_be_asked_for() {
    let arguments = ["sweep", "--device", "sim", "--kernels", "naive,padded", "--sizes", "32,40", "--gpu", "T4"];
    let report = json(&arguments);
    let rows = report["counts"].as_array().unwrap();
    let rows: Vec<_> =
        rows.iter().map(|row| (row["size"].as_u64().unwrap(), row["kernel"].as_str().unwrap())).collect();
    assert_eq!(rows, [(32, "naive"), (32, "padded"), (40, "naive"), (40, "padded")]);
    assert_eq!(report["gpu"]["name"], "T4");
}

#[test]
fn the_table_can_be_had_as_comma_separated_values() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("sweep.csv");
    let arguments = ["sweep", "--device", "sim", "--sizes", "64", "--csv"];
    common::host().args(arguments).arg(&file).assert().code(0);
    let csv = std::fs::read_to_string(&file).unwrap();
    let cells: Vec<Vec<&str>> = csv.lines().map(|line| line.split(',').collect()).collect();
    assert_eq!(cells.len(), 5);
    assert!(cells.iter().all(|row| row.len() == cells[0].len()), "{csv}");
    let column = cells[0].iter().position(|name| *name == "global_bytes_per_output").unwrap();
    assert_eq!(cells[2][..2], ["tiled", "64"]);
    assert_eq!(cells[2][column], "36");
    let column = |name: &str| cells[0].iter().position(|head| *head == name).unwrap();
    let explained = json(&["explain", "tiled", "--device", "sim", "--size", "64"]);
    let units = |part: &str| explained["total"][part]["units"].as_u64().unwrap();
    let wavefronts = units("shared_loads") + units("shared_stores");
    assert_eq!(cells[2][column("shared_wavefronts")], wavefronts.to_string());
    for row in &cells[1..] {
        let unknown = row[column("registers")].is_empty();
        assert_eq!(row[column("occupancy_is_upper_bound")], unknown.to_string(), "{csv}");
    }
}

fn said(arguments: &[&str]) -> String {
    let mut command = common::host();
    command.args(["sweep", "--device", "sim", "--sizes", "64"]).args(arguments);
    let text = String::from_utf8(command.assert().code(0).get_output().stdout.clone()).unwrap();
    text.lines().last().unwrap().to_owned()
}

#[test]
fn kernels_that_cost_the_same_share_the_verdict_and_bank_conflicts_are_part_of_it() {
    let verdict = said(&["--kernels", "tiled_8,conflicted,padded", "--lang", "en"]);
    assert!(verdict.contains("conflicted and padded ask global memory for the fewest bytes"), "{verdict}");
    assert!(verdict.contains("Bank conflicts cost as well: conflicted"), "{verdict}");
    let verdict = said(&["--kernels", "conflicted,padded", "--lang", "en"]);
    assert!(verdict.contains("all ask global memory for equally many bytes"), "{verdict}");
    let verdict = said(&["--kernels", "tiled_8,conflicted,padded", "--lang", "zh"]);
    assert!(verdict.contains("conflicted、padded 向全局内存请求的字节最少"), "{verdict}");
    assert!(verdict.contains("conflicted 为"), "{verdict}");
}

#[test]
fn one_kernel_alone_wins_nothing() {
    for kernels in ["tiled", "tiled,tiled"] {
        let verdict = said(&["--kernels", kernels, "--lang", "en"]);
        assert!(verdict.contains("One kernel alone") && !verdict.contains("fewest"), "{verdict}");
        assert!(said(&["--kernels", kernels, "--lang", "zh"]).contains("只有一个核函数"));
    }
}

#[test]
fn the_readers_own_kernel_is_compared_for_sizes_that_it_takes() {
    let report = json(&["sweep", "--device", "sim", "--kernels", "tiled,exercise", "--sizes", "32"]);
    assert_eq!(report["counts"][1]["kernel"], "exercise");
    let arguments = ["sweep", "--device", "sim", "--kernels", "tiled,exercise", "--sizes", "32,40"];
    let said = predicate::str::contains("'exercise' has no launch for a 40 x 40 product");
    common::host().args(arguments).assert().code(2).stdout("").stderr(said);
}

#[test]
fn bad_input_is_named() {
    let cases: [(&[&str], &str); 6] = [
        (&["--kernels", "tiled,tensor_cores"], "'tensor_cores' computes in bf16"),
        (&["--kernels", "tiled,fast"], "there is no kernel named 'fast'"),
        (&["--sizes", "64,0"], "--sizes has a 0"),
        (&["--sizes", "4000000000"], "bytes of host memory"),
        (&["--sizes", "64,many"], "invalid value 'many'"),
        (&["--gpu", "G80"], "there is no GPU named 'G80'"),
    ];
    for (arguments, said) in cases {
        let mut command = common::host();
        command.args(["sweep", "--device", "sim"]).args(arguments);
        command.assert().code(2).stdout("").stderr(predicate::str::contains(said));
    }
}

#[test]
fn with_a_gpu_every_kernel_is_timed_checked_and_ranked() {
    use host::device::{Device, DeviceSelector};
    if Device::open(DeviceSelector::Cuda(None)).is_err() {
        return;
    }
    let report = json(&["sweep", "--device", "cuda", "--sizes", "256,300"]);
    let times = report["times"].as_array().unwrap();
    for size in [256, 300] {
        let rows: Vec<_> = times.iter().filter(|row| row["size"] == size).collect();
        assert!(rows.len() >= 4);
        assert!(rows.iter().all(|row| row["seconds"].as_f64().unwrap() > 0.0));
        assert!(rows.iter().all(|row| row["right"] == true));
    }
    assert_eq!(report["best"].as_array().unwrap().len(), 2);
    assert_eq!(report["passed"], true);
}
