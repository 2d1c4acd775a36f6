//! What `explain` promises: counts that can be worked out by hand, and what the lesson says of its kernel, checked.

mod common;

use std::collections::BTreeMap;

use host::{
    device::{Device, DeviceSelector},
    explain::{self, Explanation},
    gemm::{Gemm, next_sizes},
    gpus, kernels,
    language::Language,
    report::{ExplainReport, Report},
};
use predicates::prelude::*;
use serde_json::Value;

const N: usize = 128;

fn explained(kernel: &str, shape: [usize; 3]) -> Explanation {
    let gemm = Gemm::new(Device::open(DeviceSelector::Simulator).unwrap());
    let kernel = kernels::by_name(kernel).unwrap().any();
    explain::explain(&gemm, kernel, kernels::sources(), shape, gpus::default(), None).unwrap()
}

fn report(kernel: &str, shape: [usize; 3]) -> ExplainReport {
    ExplainReport::new(explained(kernel, shape), Language::En)
}

fn json(arguments: &[&str]) -> Value {
    let output = common::host().args(arguments).arg("--json").assert().code(0).get_output().clone();
    serde_json::from_slice(&output.stdout).expect("--json prints JSON and nothing else")
}

/// The one executed line that has these words in it.
fn line<'a>(explanation: &'a Explanation, word: &str) -> &'a explain::lines::SourceLine {
    let lines = || explanation.listings.iter().flat_map(|listing| listing.functions.iter().flatten());
    let mut found = lines().filter(|line| line.executions > 0 && line.text.contains(word));
    let line = found.next().unwrap_or_else(|| panic!("no executed line has {word}"));
    assert!(found.next().is_none(), "several executed lines have {word}");
    line
}

// What the lesson says, and how it is.

#[test]
fn two_tiles_of_16_x_16_floats_take_2_kilobytes() {
    assert_eq!(report("tiled", [N; 3]).shared_bytes, 2 * 1024);
}

#[test]
fn two_tiles_of_8_32_and_64_take_512_8192_and_32768_bytes() {
    // The lesson's table has 1 KB for 8, which is twice too much, and 4 KB for 16.
    for (kernel, bytes) in [("tiled_8", 512), ("tiled_32", 8 << 10), ("tiled_64", 32 << 10)] {
        assert_eq!(report(kernel, [N; 3]).shared_bytes, bytes, "{kernel}");
    }
}

#[test]
fn a_tile_of_64_is_not_computed_by_a_thread_per_output_for_a_block_would_need_4096() {
    let report = report("tiled_64", [N; 3]);
    assert!(report.block.iter().product::<u32>() <= 1024);
}

#[test]
fn without_tiles_each_element_is_loaded_n_times() {
    let ratios = report("naive", [N; 3]).ratios;
    assert_eq!(ratios.loads_per_input_element, N as f64);
}

#[test]
fn with_tiles_each_element_is_loaded_n_over_tile_times_and_not_once() {
    for (kernel, tile) in [("tiled_8", 8), ("tiled", 16), ("tiled_32", 32), ("tiled_64", 64)] {
        let ratios = report(kernel, [N; 3]).ratios;
        assert_eq!(ratios.loads_per_input_element, (N / tile) as f64, "{kernel}");
    }
}

#[test]
fn a_tile_divides_the_bytes_from_global_memory_by_its_size() {
    // 2 loads of 4 bytes for each of k multiply-adds, divided by the tile, and the store of 4 bytes.
    for (kernel, tile) in [("tiled_8", 8), ("tiled", 16), ("tiled_32", 32), ("tiled_64", 64)] {
        let ratios = report(kernel, [N; 3]).ratios;
        assert_eq!(ratios.global_bytes_per_output, (8 * N / tile + 4) as f64, "{kernel}");
    }
}

#[test]
fn the_traffic_that_tiles_save_is_not_a_speed_up_of_n_over_tile() {
    // Even if nothing but the traffic of global memory counted, N / TILE would be the wrong number: the ratio of the
    // bytes is TILE, whatever N is. And the tiled kernel issues hardly fewer instructions.
    for n in [64, 128] {
        let (naive, tiled) = (report("naive", [n; 3]), report("tiled", [n; 3]));
        let loads = naive.ratios.loads_per_input_element / tiled.ratios.loads_per_input_element;
        assert_eq!(loads, 16.0);
        let instructions = naive.total.warp_instructions as f64 / tiled.total.warp_instructions as f64;
        assert!((0.5..2.0).contains(&instructions), "{instructions}");
    }
}

#[test]
fn the_tiled_kernel_has_no_bank_conflict() {
    for kernel in ["tiled_8", "tiled", "tiled_32", "tiled_64"] {
        let explanation = explained(kernel, [N; 3]);
        for instruction in &explanation.counted.instructions {
            let shared = instruction.counts.shared();
            assert_eq!(
                shared.units, shared.ideal,
                "{kernel}: {} in PTX line {}",
                instruction.mnemonic, instruction.ptx_line
            );
        }
        assert_eq!(ExplainReport::new(explanation, Language::En).ratios.bank_conflict_degree, Some(1.0), "{kernel}");
    }
}

#[test]
fn the_tiled_kernels_loads_and_stores_of_global_memory_are_coalesced() {
    for kernel in ["tiled_8", "tiled", "tiled_32", "tiled_64"] {
        assert_eq!(report(kernel, [N; 3]).ratios.sectors_by_ideal, Some(1.0), "{kernel}");
    }
}

#[test]
fn every_element_in_shared_memory_is_read_by_tile_threads() {
    let total = report("tiled", [N; 3]).total;
    assert_eq!(total.shared_loads.bytes, 16 * total.shared_stores.bytes);
}

#[test]
fn a_block_passes_two_barriers_a_step() {
    let total = report("tiled", [N; 3]).total;
    let (blocks, steps, warps) = ((N / 16).pow(2) as u64, (N / 16) as u64, 8);
    assert_eq!(total.barriers, 2 * blocks * steps * warps);
}

#[test]
fn a_warp_that_writes_a_column_of_32_words_hits_one_bank_32_times() {
    let explanation = explained("conflicted", [N; 3]);
    let store = line(&explanation, "*tile_b.add(place(y, x)) =").counts.shared_stores;
    assert_eq!((store.units, store.ideal), (32 * store.requests, store.requests));
}

#[test]
fn padding_and_swizzling_leave_no_bank_conflict() {
    for kernel in ["padded", "swizzled"] {
        assert_eq!(report(kernel, [N; 3]).ratios.bank_conflict_degree, Some(1.0), "{kernel}");
    }
}

#[test]
fn registers_shared_memory_and_threads_set_the_occupancy() {
    // A block of 256 threads: 8 of them are 2048 threads, the most of a multiprocessor.
    let occupancy = explained("tiled", [N; 3]).occupancy;
    assert!(occupancy.blocks <= 8);
    let gpu = |name| {
        let gemm = Gemm::new(Device::open(DeviceSelector::Simulator).unwrap());
        let (kernel, gpu) = (kernels::by_name("tiled").unwrap().any(), gpus::by_name(name).unwrap());
        explain::explain(&gemm, kernel, kernels::sources(), [16; 3], gpu, None).unwrap().occupancy
    };
    assert!(gpu("T4").blocks <= 4);
    assert_eq!(gpu("T4").max_warps, 32);
}

// What the report is made of.

#[test]
fn a_multiply_add_is_issued_for_every_32_and_share_and_intensity_follow() {
    let report = report("tiled", [N; 3]);
    let multiply_adds = (N * N * N) as u64;
    assert_eq!((report.total.thread_fma, report.total.warp_fma), (multiply_adds, multiply_adds / 32));
    assert_eq!(report.ratios.fma_share, report.total.warp_fma as f64 / report.total.warp_instructions as f64);
    let intensity = 2.0 * multiply_adds as f64 / report.ratios.global_bytes as f64;
    assert_eq!(report.roofline.requested.intensity, intensity);
    // Three matrices, once each.
    assert_eq!(report.roofline.perfect_caches.bytes, 3 * (N * N * 4) as u64);
}

#[test]
fn lines_and_instructions_add_up_to_the_whole_launch() {
    for kernel in gpu_kernels::KERNELS {
        let report = report(kernel.name, next_sizes(kernel, [33, 35, 37]));
        let sum = |counts: &dyn Fn(usize) -> u64, length: usize| (0..length).map(counts).sum::<u64>();
        let (lines, instructions) = (&report.lines, &report.instructions);
        let total = &report.total;
        for (name, of_total, of_line, of_instruction) in [
            (
                "instructions",
                total.warp_instructions,
                sum(&|i| lines[i].counts.warp_instructions, lines.len()),
                sum(&|i| instructions[i].counts.warp_instructions, instructions.len()),
            ),
            (
                "wavefronts",
                total.shared().units,
                sum(&|i| lines[i].counts.shared().units, lines.len()),
                sum(&|i| instructions[i].counts.shared().units, instructions.len()),
            ),
            (
                "sectors",
                total.global().units,
                sum(&|i| lines[i].counts.global().units, lines.len()),
                sum(&|i| instructions[i].counts.global().units, instructions.len()),
            ),
        ] {
            assert_eq!((of_line, of_instruction), (of_total, of_total), "{} {name}", kernel.name);
        }
    }
}

#[test]
fn the_line_that_multiplies_is_come_to_once_for_every_32_multiply_adds_however_it_is_unrolled() {
    let explanation = explained("tiled", [N; 3]);
    let line = line(&explanation, ".mul_add(");
    assert_eq!(line.executions, (N * N * N / 32) as u64);
    assert_eq!(line.counts.warp_fma, line.executions);
}

#[test]
fn the_listing_has_whole_functions_of_every_file_that_the_kernel_runs_through() {
    // The body of tiled_8 is the generic function in tiled.rs.
    let explanation = explained("tiled_8", [N; 3]);
    let files: Vec<&str> = explanation.listings.iter().map(|listing| listing.file.as_str()).collect();
    assert_eq!(files, ["gpu-kernels/src/tiled_8.rs", "gpu-kernels/src/tiled.rs"]);
    for listing in &explanation.listings {
        for function in &listing.functions {
            let (first, last) = (&function[0].text, &function.last().unwrap().text);
            assert!(first.starts_with("#["), "{first}");
            assert_eq!(last, "}");
        }
    }
}

#[test]
fn every_kernel_is_explained_in_at_most_150_columns_and_both_languages() {
    for kernel in gpu_kernels::KERNELS {
        for language in [Language::En, Language::Zh] {
            let report = ExplainReport::new(explained(kernel.name, next_sizes(kernel, [40, 48, 36])), language);
            let text = report.table();
            let listing = text.lines().skip_while(|line| !line.contains("gpu-kernels/src/"));
            for line in listing.take_while(|line| !line.is_empty()) {
                // A Chinese character is two columns wide.
                let width: usize = line.chars().map(|character| if character > '\u{2e80}' { 2 } else { 1 }).sum();
                assert!(width <= 150, "{}: {width} columns: {line}", kernel.name);
            }
            let label = language.choose("occupancy", "占用率");
            assert!(text.contains(label) && text.contains("TFLOP/s"), "{}", kernel.name);
        }
    }
}

#[test]
fn what_stands_out_is_said_with_its_place() {
    let notes = report("conflicted", [N; 3]).notes;
    assert!(notes.iter().any(|note| note.contains("gpu-kernels/src/conflicted.rs:")), "{notes:?}");
    let notes = report("uncoalesced", [N; 3]).notes;
    assert!(notes.iter().any(|note| note.contains("Not coalesced") && note.contains("uncoalesced.rs:")), "{notes:?}");
    for kernel in ["naive", "tiled", "tiled_64", "padded", "swizzled"] {
        assert_eq!(report(kernel, [N; 3]).notes, [""; 0], "{kernel}");
    }
}

#[test]
fn the_shared_memory_is_what_the_ptx_declares_whatever_the_kernels_description_says() {
    let kernel = gpu_kernels::Kernel { shared_bytes: 1 << 20, ..*kernels::by_name("tiled").unwrap().any() };
    let gemm = Gemm::new(Device::open(DeviceSelector::Simulator).unwrap());
    let explanation = explain::explain(&gemm, &kernel, kernels::sources(), [16; 3], gpus::default(), None).unwrap();
    assert!(explanation.occupancy.blocks > 0);
    assert_eq!(ExplainReport::new(explanation, Language::En).shared_bytes, 2048);
}

#[test]
fn a_launch_of_fewer_fused_multiply_adds_than_the_product_has_is_said_to_be_one() {
    // The kernels of this build with their fused multiply-adds taken apart, the additions being left out.
    let kernel = kernels::by_name("tiled").unwrap().any();
    let text = host::ptx::module_for(kernel.architecture).unwrap().text;
    let apart = |line: &str| match line.trim_start().strip_prefix("fma.rn.f32") {
        Some(operands) => format!("mul.rn.f32 {};", operands.rsplit_once(',').unwrap().0),
        None => line.to_owned(),
    };
    let ptx = text.lines().map(apart).collect::<Vec<_>>().join("\n");
    let explain = || {
        // SAFETY: the device is the simulator.
        let gemm = unsafe { Gemm::from_ptx(Device::open(DeviceSelector::Simulator).unwrap(), ptx.clone()) };
        explain::explain(&gemm, kernel, kernels::sources(), [16; 3], gpus::default(), None).unwrap()
    };
    let notes = ExplainReport::new(explain(), Language::En).notes;
    assert!(notes.len() == 1 && notes[0].contains("4096 multiply-adds") && notes[0].contains("mul_add"), "{notes:?}");
    assert!(ExplainReport::new(explain(), Language::Zh).notes[0].contains("没有融合"));
}

#[test]
fn the_unit_of_shared_memory_and_l1_bounds_the_tiled_kernel_below_the_roofline() {
    let roofline = report("tiled", [N; 3]).roofline;
    let unit = roofline.shared_and_l1.unwrap();
    assert!(unit.attainable < roofline.requested.attainable, "{roofline:?}");
    let text = report("tiled", [N; 3]).table();
    assert!(text.contains("shared memory, L1") && text.contains("= shared memory and L1"), "{text}");
    let tiled_64 = report("tiled_64", [N; 3]).roofline.shared_and_l1.unwrap();
    assert!(tiled_64.attainable > 2.0 * unit.attainable);
    let text = report("warp_tiled", [N; 3]).table();
    assert!(text.contains("no limit below that of arithmetic") && !text.contains("= shared memory"), "{text}");
    let json = json(&["explain", "tiled", "--device", "sim", "--size", "64", "--gpu", "T4"]);
    assert!(json["roofline"]["shared_and_l1"].is_null());
}

#[test]
fn the_listing_is_as_wide_as_the_terminal_down_to_40_columns_of_code() {
    for language in [Language::En, Language::Zh] {
        let mut report = ExplainReport::new(explained("tiled", [32; 3]), language);
        let width = |text: &str| -> usize {
            let wide = |line: &str| line.chars().map(|one| if one > '\u{2e80}' { 2 } else { 1 }).sum::<usize>();
            let listing = text.lines().skip_while(|line| !line.contains("gpu-kernels/src/"));
            listing.take_while(|line| !line.is_empty()).map(wide).max().unwrap()
        };
        for columns in [120, 140, 200, 250] {
            report.width = Some(columns);
            let found = width(&report.table());
            assert!(found <= columns && found + 40 > columns.min(170), "{found} of {columns}");
        }
        report.width = Some(20);
        let narrow = width(&report.table());
        assert!((100..130).contains(&narrow), "{narrow}");
    }
}

#[test]
fn a_time_from_another_gpu_than_the_one_whose_limits_are_applied_is_named_as_such() {
    let gemm = Gemm::new(Device::open(DeviceSelector::Simulator).unwrap());
    let explain = |device: &str| {
        let measured = explain::Measured {
            device: device.to_owned(),
            time: std::time::Duration::from_micros(10),
            launches: 1,
            registers: 32,
            blocks_per_multiprocessor: 8,
        };
        let (kernel, gpu) = (kernels::by_name("tiled").unwrap().any(), gpus::default());
        explain::explain(&gemm, kernel, kernels::sources(), [16; 3], gpu, Some(measured)).unwrap()
    };
    let other = explain("NVIDIA GeForce RTX 3090 Ti");
    assert_eq!(other.roofline.measured, None);
    let notes = ExplainReport::new(other, Language::En).notes;
    assert!(notes.len() == 1 && notes[0].contains("RTX 3090 Ti") && notes[0].contains("H200"), "{notes:?}");
    assert_eq!(ExplainReport::new(explain("NVIDIA H200"), Language::En).notes, [""; 0]);
}

#[test]
fn json_has_every_count_per_line_and_per_instruction() {
    let report = json(&["explain", "tiled", "--device", "sim", "--size", "64"]);
    assert_eq!([&report["m"], &report["n"], &report["k"]], [64, 64, 64]);
    assert_eq!(report["gpu"]["name"], "H200");
    let counts = ["warp_instructions", "thread_fma", "warp_fma", "barriers"];
    let traffic = ["shared_loads", "shared_stores", "global_loads", "global_stores"];
    for place in [&report["total"], &report["lines"][0], &report["instructions"][0]] {
        assert!(counts.iter().all(|name| place[name].is_u64()), "{place}");
        for name in traffic {
            assert!(["requests", "units", "ideal", "bytes"].iter().all(|part| place[name][part].is_u64()), "{name}");
        }
    }
    let mnemonics: BTreeMap<&str, usize> =
        report["instructions"].as_array().unwrap().iter().fold(BTreeMap::new(), |mut all, instruction| {
            *all.entry(instruction["mnemonic"].as_str().unwrap()).or_default() += 1;
            all
        });
    assert_eq!(mnemonics["bar.sync"], 2);
    assert_eq!(mnemonics["fma.rn.f32"], 16);
}

#[test]
fn an_oblong_product_and_another_gpu_can_be_asked_for() {
    let report = json(&["explain", "naive", "--device", "sim", "--shape", "3x500x20", "--gpu", "rtx 4090"]);
    assert_eq!([&report["m"], &report["n"], &report["k"]], [3, 500, 20]);
    assert_eq!((&report["gpu"]["name"], &report["gpu"]["compute_capability"]), (&"RTX4090".into(), &"8.9".into()));
    assert_eq!(report["total"]["thread_fma"], 3 * 500 * 20);
}

#[test]
fn the_roofline_is_drawn_in_the_terminal_and_into_a_file() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("roofline.svg");
    let path = file.to_str().unwrap();
    let text = predicate::str::contains("no cache helps").and(predicate::str::contains(path));
    let arguments = ["explain", "tiled", "--device", "sim", "--size", "32", "--lang", "en", "--svg", path];
    common::host().args(arguments).assert().code(0).stdout(text);
    let picture = std::fs::read_to_string(&file).unwrap();
    assert!(picture.starts_with("<svg") && picture.trim_end().ends_with("</svg>"));
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "nothing else is left behind");
}

#[test]
fn bad_input_is_named_and_leaves_no_file() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("roofline.svg");
    let cases: [(&[&str], &str); 10] = [
        (&["explain", "fast"], "there is no kernel named 'fast'"),
        (&["explain", "\u{1b}[31m"], r"'\u{1b}[31m'"),
        (&["explain", "tiled", "--gpu", "G80"], "there is no GPU named 'G80' in the table; known GPUs: V100, T4"),
        (&["explain", "64x64x16", "--gpu", "T4"], "needs a GPU of compute capability 8.0 or later, and T4 has 7.5"),
        (
            &["explain", "tensor_cores", "--gpu", "V100"],
            "needs a GPU of compute capability 8.0 or later, and V100 has 7.0",
        ),
        (&["explain", "tiled", "--shape", "3x4"], "'3x4' is no shape"),
        (&["explain", "tiled", "--size", "0"], "nothing to explain"),
        (&["explain", "tiled", "--shape", "4x4x0"], "nothing to explain"),
        (&["explain", "tiled", "--size", "18446744073709551615"], "bytes of host memory"),
        (&["explain", "tiled", "--lang", "fr"], "'fr' is no language"),
    ];
    for (arguments, said) in cases {
        let mut command = common::host();
        command.args(arguments).args(["--device", "sim", "--svg"]).arg(&file);
        command.assert().code(2).stdout("").stderr(predicate::str::contains(said));
        assert!(!file.exists());
    }
    let missing = folder.path().join("missing/roofline.svg");
    let arguments = ["explain", "tiled", "--device", "sim", "--svg"];
    let said = predicate::str::contains("does not exist");
    common::host().args(arguments).arg(&missing).assert().code(2).stderr(said);
}

#[test]
fn a_kernel_of_bf16_is_under_the_roof_of_tensor_cores_and_its_factors_have_2_bytes() {
    // One tile of C, in two steps along K.
    let [m, n, k] = [128, 256, 64];
    let report = report("tensor_cores", [m, n, k]);
    let products = (m * n * k / 2048) as u64;
    assert_eq!((report.total.warp_mma, report.total.mma_multiply_adds), (products, (m * n * k) as u64));
    assert_eq!(report.ratios.mma_share, products as f64 / report.total.warp_instructions as f64);
    assert_eq!(report.ratios.loads_per_input_element, 1.0);
    let roofline = &report.roofline;
    assert_eq!((roofline.peak, roofline.ridge), (989.5e12, 989.5e12 / 4.8e12));
    let bytes = (2 * (m * k + k * n) + 4 * m * n) as u64;
    assert_eq!((roofline.perfect_caches.bytes, roofline.requested.bytes), (bytes, bytes));
    assert!(!report.notes.iter().any(|note| note.contains("Fewer")), "{:?}", report.notes);
    let text = report.table();
    for said in
        ["A and B of bf16, C of f32", "989.5 TFLOP/s in bf16 on tensor cores", "1024 of them mma", "mma: the products"]
    {
        assert!(text.contains(said), "{said} is missing in\n{text}");
    }
    let heads = text.lines().find(|line| line.contains("issued") && line.contains("mma")).unwrap();
    assert!(!heads.contains("fma"), "{heads}");
    let line = report.lines.iter().find(|line| line.counts.warp_mma > 0).unwrap();
    assert_eq!((line.executions, line.counts.warp_mma), (products, products));
    assert!(report.picture().unwrap().contains("TFLOP/s, bf16"));
    let chinese = ExplainReport::new(explained("tensor_cores", [m, n, k]), Language::Zh).table();
    assert!(chinese.contains("张量核心 bf16 峰值 989.5 TFLOP/s") && chinese.contains("其中 mma 1024 条"), "{chinese}");
}

#[test]
fn the_language_follows_the_locale_unless_one_is_asked_for() {
    let run = |locale: &str, arguments: &[&str]| {
        let mut command = common::host();
        command.env("LC_ALL", locale).args(["explain", "tiled", "--device", "sim", "--size", "16"]).args(arguments);
        String::from_utf8(command.assert().code(0).get_output().stdout.clone()).unwrap()
    };
    assert!(run("zh_CN.UTF-8", &[]).contains("占用率"));
    assert!(run("C.UTF-8", &[]).contains("occupancy"));
    assert!(run("zh_CN.UTF-8", &["--lang", "en"]).contains("occupancy"));
}

#[test]
fn production_kernels_are_explained_by_family_and_by_entry_with_their_own_source() {
    for (name, kernel) in
        [("16x32x32x8", "pipelined_16x32x32x8_kv"), ("pipelined_16x32x32x8_vk", "pipelined_16x32x32x8_vk")]
    {
        let report = json(&["explain", name, "--shape", "32x64x128", "--device", "sim"]);
        assert_eq!(report["kernel"], kernel);
        assert_eq!(report["total"]["thread_fma"], 32 * 64 * 128);
        let files: Vec<_> = report["lines"].as_array().unwrap().iter().map(|line| line["file"].clone()).collect();
        assert!(files.contains(&"gpu-kernels/production/src/pipelined.rs".into()), "{files:?}");
    }
    let refused = common::host().args(["explain", "pipelined_16x32x32x8_kv", "--shape", "5x6x7"]).assert().code(2);
    refused.stderr(predicate::str::contains("'pipelined_16x32x32x8_kw' does"));
}
