//! What `bench` promises: every contender on the same products, checked; times beside cuBLAS on a GPU, counts without one.

mod common;

use gpu_kernels::Precision;
use predicates::prelude::*;
use serde_json::Value;

fn json(arguments: &[&str]) -> Value {
    let output = common::host().arg("bench").args(arguments).arg("--json").assert().code(0).get_output().clone();
    serde_json::from_slice(&output.stdout).expect("--json prints JSON and nothing else")
}

fn column<'a>(rows: &'a Value, name: &str) -> Vec<&'a str> {
    rows.as_array().unwrap().iter().map(|row| row[name].as_str().unwrap()).collect()
}

/// The kernels that can be compared with each other.
fn kernels_of(precision: Precision) -> impl Iterator<Item = &'static str> {
    gpu_kernels::KERNELS.iter().filter(move |kernel| kernel.precision == precision).map(|kernel| kernel.name)
}

fn kernels_of_f32() -> impl Iterator<Item = &'static str> {
    kernels_of(Precision::F32)
}

#[test]
fn without_a_gpu_every_kernel_is_counted_and_its_product_checked() {
    let report = json(&["--device", "sim", "--sizes", "32"]);
    let rows = report["counts"].as_array().unwrap();
    let mut expected: Vec<&str> = kernels_of_f32().collect();
    expected.push("gemm");
    assert_eq!(column(&report["counts"], "contender"), expected);
    for row in rows {
        assert!(row["fma"].as_u64().unwrap() >= 32 * 32 * 32, "{row}");
        assert_eq!((&row["shape"], &row["right"]), (&"32x32x32".into(), &true.into()), "{row}");
        assert!(row["check"]["max_error"].as_f64().unwrap() > 0.0, "{row}");
    }
    assert_eq!((&report["simulated"], &report["passed"]), (&true.into(), &true.into()));
    assert!(report["rows"].as_array().unwrap().is_empty(), "no times come from the simulator");
}

#[test]
fn bf16_has_a_table_of_its_own_with_every_kernel_of_bf16_and_no_other() {
    let report = json(&["--device", "sim", "--sizes", "32", "--precision", "bf16"]);
    let expected: Vec<&str> = kernels_of(Precision::Bf16).chain(["gemm"]).collect();
    assert_eq!(column(&report["counts"], "contender"), expected);
    assert_eq!((&report["precision"], &report["passed"]), (&"bf16".into(), &true.into()));
    for row in report["counts"].as_array().unwrap() {
        assert!(row["mma_multiply_adds"].as_u64().unwrap() >= 32 * 32 * 32 && row["fma"] == 0, "{row}");
        assert!(row["right"] == true && row["check"]["max_error"].as_f64().unwrap() > 0.0, "{row}");
    }
    assert_eq!(json(&["--device", "sim", "--sizes", "32", "--kernels", "tiled"])["precision"], "f32");
}

#[test]
fn a_kernel_of_bf16_that_is_named_makes_it_a_table_of_bf16_and_what_it_cant_do_is_left_out() {
    let report =
        json(&["--device", "sim", "--shapes", "40x24x33,2*16x16x16,16x16x16:TN", "--kernels", "gemm,tensor_cores"]);
    assert_eq!(report["precision"], "bf16");
    assert_eq!(column(&report["counts"], "contender"), ["gemm", "tensor_cores", "gemm"]);
    // Rows of 33 elements have no tensor map, and are packed for it.
    let chosen = ["tensor_128x64_bf16_kv", "tensor_cores", "tensor_128x64_bf16_vv"];
    assert_eq!(column(&report["counts"], "kernel"), chosen);
    assert!(report["counts"].as_array().unwrap().iter().all(|row| row["right"] == true), "{report}");
    let shapes = [serde_json::json!(["2*16x16x16"]), serde_json::json!(["2*16x16x16", "16x16x16:TN"])];
    assert_eq!((&report["left_out"][0]["shapes"], &report["left_out"][1]["shapes"]), (&shapes[0], &shapes[1]));
    let arguments = ["bench", "--device", "sim", "--sizes", "16", "--precision", "bf16", "--lang"];
    let said = predicate::str::contains("A and B are rounded to bf16").and(predicate::str::contains("mma"));
    common::host().args(arguments).arg("en").assert().code(0).stdout(said.and(predicate::str::contains("fma").not()));
    common::host().args(arguments).arg("zh").assert().code(0).stdout(predicate::str::contains("舍入为 bf16"));
}

#[test]
fn the_counts_are_those_of_explain() {
    let report = json(&["--device", "sim", "--shapes", "40x24x36", "--kernels", "tiled"]);
    let arguments = ["explain", "tiled", "--device", "sim", "--shape", "40x24x36", "--json"];
    let explained = common::host().args(arguments).assert().code(0).get_output().stdout.clone();
    let explained: Value = serde_json::from_slice(&explained).unwrap();
    let (row, total) = (&report["counts"][0], &explained["total"]);
    let units = |part: &str| total[part]["units"].as_u64().unwrap();
    assert_eq!(row["fma"], total["thread_fma"]);
    assert_eq!(row["barriers"], total["barriers"]);
    assert_eq!(row["shared_wavefronts"], units("shared_loads") + units("shared_stores"));
    assert_eq!(row["sectors"], units("global_loads") + units("global_stores"));
}

#[test]
fn shapes_are_measured_in_the_order_of_the_options_and_each_once() {
    let arguments = ["--device", "sim", "--kernels", "tiled,gemm,tiled", "--sizes", "16,24", "--shapes"];
    let report = json(&[&arguments[..], &["24x24x24,8x9x10", "--kernels", "gemm"]].concat());
    let shapes = column(&report["counts"], "shape");
    assert_eq!(shapes, ["16x16x16", "16x16x16", "24x24x24", "24x24x24", "8x9x10", "8x9x10"]);
    assert_eq!(column(&report["counts"], "contender")[..2], ["tiled", "gemm"]);
    assert!(column(&report["counts"], "kernel").iter().all(|kernel| *kernel != "gemm"));
}

#[test]
fn other_shapes_than_squares_are_for_the_librarys_own_choice_unless_others_are_named() {
    let report = json(&["--device", "sim", "--shapes", "5x6x7"]);
    assert_eq!(column(&report["counts"], "contender"), ["gemm"]);
    let report = json(&["--device", "sim", "--shapes", "5x6x7", "--kernels", "book,gemm"]);
    assert_eq!(report["counts"].as_array().unwrap().len(), kernels_of_f32().count() + 1);
}

#[test]
fn who_cant_do_a_shape_is_left_out_by_name() {
    let arguments = ["--device", "sim", "--kernels", "naive,tiled", "--shapes", "9x9x9,3*8x8x8,16x16x16:NT"];
    let report = json(&arguments);
    assert_eq!(column(&report["counts"], "shape"), ["9x9x9", "9x9x9"]);
    let left_out = &report["left_out"];
    assert_eq!(column(left_out, "contender"), ["naive", "tiled"]);
    assert_eq!(left_out[0]["shapes"], serde_json::json!(["3*8x8x8", "16x16x16:NT"]));
    let said = predicate::str::contains("Not for 3*8x8x8, 16x16x16:NT: naive, tiled.");
    common::host().arg("bench").args(arguments).args(["--lang", "en"]).assert().code(0).stdout(said);
    let said = predicate::str::contains("naive、tiled 不支持 3*8x8x8、16x16x16:NT。");
    common::host().arg("bench").args(arguments).args(["--lang", "zh"]).assert().code(0).stdout(said);
}

#[test]
fn shapes_of_production_kernels_take_part_by_the_names_of_their_tiles_whatever_the_layout() {
    let report = json(&["--device", "sim", "--shapes", "20x24x36:TN,19x23x29", "--kernels", "64x64x16,32x32x32x8/2"]);
    let rows = report["counts"].as_array().unwrap();
    assert_eq!(column(&report["counts"], "contender"), ["64x64x16", "32x32x32x8/2", "64x64x16", "32x32x32x8/2"]);
    assert!(rows.iter().all(|row| row["right"] == true), "{report}");
    // How A and B are copied depends on the layout.
    assert_ne!(rows[0]["kernel"], rows[2]["kernel"]);
}

#[test]
fn without_a_gpu_it_says_so() {
    let said = predicate::str::contains("times need a GPU").and(predicate::str::contains("barriers"));
    let arguments = ["bench", "--device", "sim", "--sizes", "16", "--kernels", "tiled", "--lang"];
    common::host().args(arguments).arg("en").assert().code(0).stdout(said).stderr("");
    common::host().args(arguments).arg("zh").assert().code(0).stdout(predicate::str::contains("耗时须在 GPU 上测量"));
}

#[test]
fn all_launches_of_a_product_are_counted_and_a_precision_that_the_library_left_is_named() {
    let report = json(&["--device", "sim", "--shapes", "64x64x128", "--kernels", "64x64x16,64x64x16/2"]);
    let [whole, split] = [0, 1].map(|row| &report["counts"][row]);
    assert_eq!((&whole["launches"], &split["launches"]), (&1.into(), &2.into()));
    assert_eq!(split["kernel"], format!("{} /2", whole["kernel"].as_str().unwrap()));
    assert!(split["sectors"].as_u64() > whole["sectors"].as_u64() && split["right"] == true, "{report}");
    let arguments =
        ["--device", "sim", "--shapes", "64x64x128", "--kernels", "gemm,128x64_fp32-tc", "--precision", "fp32-tc"];
    let report = json(&arguments);
    assert_eq!(column(&report["counts"], "kernel_precision"), ["f32", "fp32-tc"]);
    assert_eq!(report["counts"][1]["launches"], 2);
    let said = predicate::str::contains("gemm took one of f32's own kernels for 64x64x128: sums are short");
    common::host().arg("bench").args(arguments).args(["--lang", "en"]).assert().code(0).stdout(said);
    let said = predicate::str::contains("改用 f32 自身的核函数");
    common::host().arg("bench").args(arguments).args(["--lang", "zh"]).assert().code(0).stdout(said);
}

#[test]
fn without_a_gpu_nothing_is_timed_however_it_should_be() {
    let counted =
        |options: &[&str]| json(&[&["--device", "sim", "--sizes", "16", "--kernels", "tiled"], options].concat());
    let plain = counted(&[]);
    assert_eq!(counted(&["--sustained"]), plain);
    assert_eq!(counted(&["--rounds", "3"]), plain);
    assert!(plain.get("schedule").is_none());
}

#[test]
fn the_kind_of_numbers_can_be_chosen_and_both_errors_are_said() {
    let counted = |data: &str| {
        let kernels = "tiled,k_slices,gemm,64x64x16/3";
        let report = json(&["--device", "sim", "--shapes", "33x40x600", "--kernels", kernels, "--data", data]);
        assert_eq!((&report["data"], &report["passed"]), (&data.into(), &true.into()), "{report}");
        let errors = |row: &Value| ["max_error", "relative_error"].map(|error| row["check"][error].as_f64().unwrap());
        report["counts"].as_array().unwrap().iter().map(errors).collect::<Vec<_>>()
    };
    let [normal, positive, wide, cancelling] = ["normal", "positive", "wide", "cancelling"].map(counted);
    for errors in [&normal, &positive, &wide] {
        assert!(errors.iter().all(|[max, relative]| *max > 0.0 && (1e-9..1e-5).contains(relative)), "{errors:?}");
    }
    assert!(wide.iter().all(|[max, _]| *max > 1e6), "{wide:?}");
    // What is left of sums that cancel has lost three digits more.
    assert!(
        cancelling.iter().zip(&normal).all(|(cancelled, normal)| cancelled[1] > 100.0 * normal[1]),
        "{cancelling:?}"
    );
    let arguments = ["bench", "--device", "sim", "--sizes", "16", "--kernels", "tiled", "--data", "positive", "--lang"];
    let said = predicate::str::contains("uniform from 0 to 1").and(predicate::str::contains("relative error"));
    common::host().args(arguments).arg("en").assert().code(0).stdout(said);
    let said = predicate::str::contains("0 到 1 均匀分布").and(predicate::str::contains("相对误差"));
    common::host().args(arguments).arg("zh").assert().code(0).stdout(said);
}

#[test]
fn random_shapes_are_the_same_for_the_same_seed_and_can_be_named_again() {
    // The smallest of a hundred: of them all, the simulator would take hours.
    let random = host::bench::problem::random(100, 42);
    let smallest = random.iter().min_by_key(|problem| problem.multiply_adds()).unwrap();
    let report = json(&["--device", "sim", "--shapes", &smallest.to_string()]);
    assert_eq!(column(&report["counts"], "shape"), [smallest.to_string()]);
}

#[test]
fn the_table_can_be_had_as_comma_separated_values_and_as_a_picture() {
    let folder = tempfile::tempdir().unwrap();
    let (csv, svg) = (folder.path().join("bench.csv"), folder.path().join("bench.svg"));
    let mut command = common::host();
    command.args(["bench", "--device", "sim", "--sizes", "16,32", "--kernels", "naive,tiled"]);
    command.arg("--csv").arg(&csv).arg("--svg").arg(&svg).assert().code(0);
    let csv = std::fs::read_to_string(&csv).unwrap();
    let cells: Vec<Vec<&str>> = csv.lines().map(|line| line.split(',').collect()).collect();
    assert_eq!(cells.len(), 5);
    assert!(cells.iter().all(|row| row.len() == cells[0].len()), "{csv}");
    assert_eq!(cells[4][..2], ["32x32x32", "tiled"]);
    let svg = std::fs::read_to_string(&svg).unwrap();
    assert!(svg.starts_with("<svg") && svg.trim_end().ends_with("</svg>"));
    assert!(svg.contains("naive") && svg.contains("tiled"));
}

#[test]
fn a_wrong_product_is_said_and_is_exit_code_1() {
    let page = gpu_kernels::exercise::KERNEL.name;
    let report =
        common::host().args(["bench", "--device", "sim", "--sizes", "32", "--kernels", page, "--json"]).assert();
    let output = report.get_output().clone();
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    // The page as it's handed out computes nothing; who has filled it in has a right product.
    let right = report["passed"] == true;
    assert_eq!(output.status.code(), Some(i32::from(!right)));
    if !right {
        assert_eq!(report["counts"][0]["right"], false);
        assert!(report["verdict"].as_str().unwrap().contains("exercise"));
    }
}

#[test]
fn bad_input_is_named() {
    let cases: [(&[&str], &str); 25] = [
        (&["--precision", "f8"], "expected f32 (also ieee) or bf16 or f16 or tf32 or fp32-tc"),
        (&["--kernels", "tiled,tensor_cores"], "'tensor_cores' computes in bf16"),
        (&["--kernels", "tiled", "--precision", "bf16"], "'tiled' computes in f32"),
        (&["--kernels", "tiled,fast"], "there is no kernel named 'fast'"),
        (&["--kernels", "cuBLAS"], "there is no kernel named 'cuBLAS'"),
        (&["--kernels", "64x64_fp32-tc/2"], "'64x64_fp32-tc/2': kernels of fp32-tc take K as a whole"),
        (&["--kernels", "64x64x16/0"], "'64x64x16/0' asks for 0 parts of K: the number begins at 1"),
        (&["--kernels", "gemm,64x64x16/2/0"], "'64x64x16/2/0' asks for 0 rows of tiles: the number begins at 1"),
        (&["--sizes", "64,0"], "0x0x0 is an empty product"),
        (&["--shapes", "0*1x1x1"], "0*1x1x1 is an empty product"),
        (&["--sizes", "4000000000"], "bytes of host memory"),
        (&["--shapes", "18446744073709551615x18446744073709551615x2"], "bytes of host memory"),
        (&["--sizes", "64,many"], "invalid value 'many'"),
        (&["--shapes", "64x64"], "expected MxNxK"),
        (&["--shapes", "64x64x64:XY"], "expected MxNxK"),
        (&["--set", "large"], "expected one of squares, random, skinny, batches, transposes"),
        (&["--random", "0"], "0 is not in 1..=10000"),
        (&["--random", "4000000000"], "4000000000 is not in 1..=10000"),
        (&["--csv", "one.out", "--svg", "./one.out"], "name the same file, one.out"),
        (&["--shapes", "2*16x16x16"], "nobody can be counted"),
        (&["--rounds", "0"], "0 is not in 1..=1000"),
        (&["--sustained", "--rounds", "5"], "'--sustained' cannot be used with '--rounds <ROUNDS>'"),
        (&["--data", "gaussian"], "expected one of normal, uniform, positive, wide, cancelling"),
        (&["--data", "wide", "--precision", "f16"], "--data wide has numbers that f16 can't hold"),
        (&["--csv", "/no/such/folder/bench.csv"], "cannot write"),
    ];
    for (arguments, said) in cases {
        let mut command = common::host();
        command.args(["bench", "--device", "sim"]).args(arguments);
        command.assert().code(2).stdout("").stderr(predicate::str::contains(said));
    }
}

#[test]
fn with_a_gpu_everybody_is_timed_and_checked() {
    use host::device::{Device, DeviceSelector};
    if Device::open(DeviceSelector::Cuda(None)).is_err() {
        return;
    }
    let arguments =
        ["--device", "cuda", "--shapes", "256x256x256,300x100x77", "--kernels", "tiled,gemm", "--rounds", "5"];
    let report = json(&arguments);
    let rows = report["rows"].as_array().unwrap();
    let compared = report["cublas"].is_string();
    assert_eq!(rows.len(), if compared { 6 } else { 4 });
    for row in rows {
        let times = &row["seconds"];
        assert!(times["median"].as_f64().unwrap() > 0.0 && times["fastest"].as_f64() <= times["slowest"].as_f64());
        assert_eq!((&row["right"], &row["reproducible"], &times["rounds"]), (&true.into(), &true.into(), &5.into()));
        assert!(row["share_of_peak"].as_f64().is_some_and(|share| share > 0.0 && share < 1.0), "{row}");
        assert_eq!(row["ratio"].is_number(), compared && row["contender"] != "cuBLAS", "{row}");
        assert!(row["copies"].as_u64().unwrap() > 1, "small matrices are rotated: {row}");
    }
    assert_eq!(report["summaries"].as_array().unwrap().len(), if compared { 2 } else { 0 });
    assert_eq!(report["passed"], true);
}

#[test]
fn with_a_gpu_everybody_can_be_timed_under_load() {
    use host::device::{Device, DeviceSelector};
    if Device::open(DeviceSelector::Cuda(None)).is_err() {
        return;
    }
    let report = json(&["--device", "cuda", "--sizes", "512", "--kernels", "gemm", "--sustained"]);
    assert_eq!((&report["schedule"], &report["passed"]), (&"sustained".into(), &true.into()));
    for row in report["rows"].as_array().unwrap() {
        // Twice 0.4 s of batches that take 5 ms and a little more.
        let batches = row["seconds"]["rounds"].as_u64().unwrap();
        assert!((50..=170).contains(&batches), "{row}");
    }
}

#[test]
fn with_a_gpu_kernels_of_bf16_are_timed_and_checked_beside_cublas_in_bf16() {
    use host::device::{Device, DeviceSelector};
    let Ok(device) = Device::open(DeviceSelector::Cuda(None)) else { return };
    if device.machine().compute_capability < (8, 0) {
        return;
    }
    let shapes = "256x256x256,300x100x77,1000x520x264";
    let report = json(&["--device", "cuda", "--shapes", shapes, "--kernels", "tensor_cores", "--rounds", "5"]);
    let compared = report["cublas"].is_string();
    assert_eq!((&report["precision"], &report["passed"]), (&"bf16".into(), &true.into()), "{report}");
    let rows = report["rows"].as_array().unwrap();
    assert_eq!(rows.len(), if compared { 6 } else { 3 });
    for row in rows {
        assert_eq!((&row["right"], &row["reproducible"]), (&true.into(), &true.into()), "{row}");
        assert!(row["share_of_peak"].as_f64().is_none_or(|share| share > 0.0 && share < 1.0), "{row}");
        assert_eq!(row["ratio"].is_number(), compared && row["contender"] != "cuBLAS", "{row}");
    }
}
