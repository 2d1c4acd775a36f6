//! `gemm` reads and writes .npy files, whole or not at all, and says what is wrong with bad ones.

mod common;

use std::{
    fs,
    path::{Path, PathBuf},
};

use assert_cmd::assert::Assert;
use gpu_kernels::Precision;
use host::{
    gemm::{ensure_sizes, rounded},
    kernels, matrix,
};
use ndarray::{Array1, Array2, Array3, Array4, ArrayView2, Axis, ShapeBuilder, array, s};
use ndarray_npy::{read_npy, write_npy};
use predicates::prelude::*;
use tempfile::TempDir;

/// A directory with A (5 x 7), B (7 x 4) and room for C.
struct Workplace {
    directory: TempDir,
}

impl Workplace {
    fn new() -> Workplace {
        let workplace = Workplace { directory: TempDir::new().unwrap() };
        write_npy(workplace.path("a.npy"), &matrix::random_normal(5, 7, 1)).unwrap();
        write_npy(workplace.path("b.npy"), &matrix::random_normal(7, 4, 2)).unwrap();
        workplace
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn gemm_with(&self, a: &str, b: &str, options: &[&str]) -> Assert {
        let mut command = common::host();
        command.arg("gemm").arg(self.path(a)).arg(self.path(b)).arg("-o").arg(self.path("c.npy"));
        command.args(["--device", "sim"]).args(options).assert()
    }

    fn gemm(&self, a: &str, b: &str) -> Assert {
        self.gemm_with(a, b, &[])
    }

    fn product(&self) -> Array2<f32> {
        read_npy(self.path("c.npy")).unwrap()
    }

    fn files(&self) -> Vec<String> {
        let mut names: Vec<_> = fs::read_dir(self.directory.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    /// `a` is refused with exit code 2 and all of `texts`, and no file is left behind.
    fn refuses(&self, a: &str, texts: &[&str]) {
        let before = self.files();
        let mut assert = self.gemm(a, "b.npy").code(2);
        for text in texts {
            assert = assert.stderr(predicate::str::contains(*text));
        }
        assert_eq!(self.files(), before);
    }
}

fn assert_close(got: &Array2<f32>, a: &Array2<f32>, b: &Array2<f32>) {
    let verification = host::verify::check(got, a, b);
    assert!(verification.passed(), "{verification:?}");
}

/// A .npy file of format version 1 with the given header dictionary and data.
fn npy(header: &str, data: &[u8]) -> Vec<u8> {
    let padded = format!("{header:<117}\n");
    let length = (padded.len() as u16).to_le_bytes();
    [b"\x93NUMPY\x01\x00".as_slice(), &length, padded.as_bytes(), data].concat()
}

#[test]
fn the_product_of_two_files_is_written() {
    let workplace = Workplace::new();
    workplace.gemm_with("a.npy", "b.npy", &["--verify"]).code(0).stdout(predicate::str::contains("PASS"));
    let [a, b]: [Array2<f32>; 2] = ["a.npy", "b.npy"].map(|name| read_npy(workplace.path(name)).unwrap());
    assert_close(&workplace.product(), &a, &b);
    assert_eq!(workplace.files(), ["a.npy", "b.npy", "c.npy"]);
}

#[test]
fn every_kernel_can_be_named() {
    let workplace = Workplace::new();
    write_npy(workplace.path("a8.npy"), &matrix::random_normal(5, 8, 1)).unwrap();
    write_npy(workplace.path("b8.npy"), &matrix::random_normal(8, 16, 2)).unwrap();
    for name in kernels::names().into_iter().chain(kernels::families()) {
        // Some take only rows that begin at multiples of 16 bytes, and say so.
        if ensure_sizes(kernels::by_name(name).unwrap().any(), [5, 4, 7]).is_err() {
            let refused = workplace.gemm_with("a.npy", "b.npy", &["--kernel", name]).code(2);
            refused.stderr(predicate::str::contains("multiples of 16 bytes"));
            workplace.gemm_with("a8.npy", "b8.npy", &["--kernel", name, "--verify"]).code(0);
        } else {
            workplace.gemm_with("a.npy", "b.npy", &["--kernel", name, "--verify"]).code(0);
        }
    }
}

#[test]
fn of_a_family_the_kernel_runs_that_suits_the_matrices() {
    let workplace = Workplace::new();
    // A by columns with rows of 5, or B with rows of 6: nothing there begins at multiples of 16 bytes.
    write_npy(workplace.path("at.npy"), &matrix::random_normal(7, 5, 1)).unwrap();
    write_npy(workplace.path("b6.npy"), &matrix::random_normal(7, 6, 2)).unwrap();
    for (a, b, options, kernel) in [
        ("a.npy", "b.npy", &[][..], "pipelined_64x64x16_kv"),
        ("a.npy", "b6.npy", &[], "pipelined_64x64x16_kw"),
        ("at.npy", "b.npy", &["--trans-a", "--alpha", "2"], "pipelined_64x64x16_ww"),
    ] {
        let options = [options, &["--kernel", "64x64x16", "--verify"]].concat();
        workplace.gemm_with(a, b, &options).code(0).stdout(predicate::str::contains(kernel));
    }
}

#[test]
fn a_production_kernel_takes_what_it_can_copy_and_another_is_named_for_the_rest() {
    let workplace = Workplace::new();
    let kernel = |name| ["--kernel", name, "--verify"];
    workplace.gemm_with("a.npy", "b.npy", &kernel("pipelined_64x64x16_kv")).code(0);
    // Word by word, what could be copied faster is copied too.
    workplace.gemm_with("a.npy", "b.npy", &kernel("pipelined_64x64x16_kw")).code(0);
    let refused = workplace.gemm_with("a.npy", "b.npy", &kernel("pipelined_64x64x16_vk")).code(2);
    refused
        .stderr(predicate::str::contains("'pipelined_64x64x16_kv' does").and(predicate::str::contains("'64x64x16'")));
}

#[test]
fn bf16_rounds_the_inputs_and_says_so_in_its_kernel() {
    let workplace = Workplace::new();
    let options = ["--precision", "bf16", "--verify"];
    let kernel = predicate::str::contains("tensor cores of Hopper");
    workplace.gemm_with("a.npy", "b.npy", &options).code(0).stdout(kernel.and(predicate::str::contains("PASS")));
    let [a, b]: [Array2<f32>; 2] = ["a.npy", "b.npy"].map(|name| read_npy(workplace.path(name)).unwrap());
    let halves = [&a, &b].map(|matrix| rounded(Precision::Bf16, matrix.clone()));
    assert_close(&workplace.product(), &halves[0], &halves[1]);
    assert!(!host::verify::check(&workplace.product(), &a, &b).passed(), "the inputs were not rounded");
    // A transposed matrix is rounded like any other, and so is a batch.
    write_npy(workplace.path("t.npy"), &a.t().as_standard_layout().into_owned()).unwrap();
    workplace.gemm_with("t.npy", "b.npy", &[&options[..], &["--trans-a"]].concat()).code(0);
    assert_close(&workplace.product(), &halves[0], &halves[1]);
    let twice = Array3::from_shape_fn((2, 5, 7), |(index, row, column)| (1 + index) as f32 * a[(row, column)]);
    write_npy(workplace.path("twice.npy"), &twice).unwrap();
    workplace.gemm_with("twice.npy", "b.npy", &options).code(0);
    let products: Array3<f32> = read_npy(workplace.path("c.npy")).unwrap();
    assert_eq!(products.index_axis(Axis(0), 1), products.index_axis(Axis(0), 0).mapv(|element| 2.0 * element));
}

#[test]
fn a_precision_that_is_none_or_not_the_kernels_is_refused() {
    let workplace = Workplace::new();
    let refuses = |options: &[&str], text: &str| {
        workplace.gemm_with("a.npy", "b.npy", options).code(2).stderr(predicate::str::contains(text.to_owned()));
        assert_eq!(workplace.files(), ["a.npy", "b.npy"]);
    };
    refuses(&["--precision", "f8"], "'f8' is no precision: expected f32 (also ieee) or bf16 or f16 or tf32 or fp32-tc");
    refuses(&["--precision", "bf16", "--kernel", "tiled"], "'tiled' computes in f32, and bf16 is asked for");
    refuses(&["--precision", "bf16", "--kernel", "128x256x16"], "'128x256x16' computes in f32");
    refuses(&["--precision", "f32", "--kernel", "tensor_cores"], "'tensor_cores' computes in bf16");
    refuses(&["--kernel", "tensor_cores", "--alpha", "2"], "'tensor_cores' computes C = A B, without alpha");
}

#[test]
fn who_asks_a_lessons_kernel_for_more_than_it_can_is_sent_to_the_librarys_choice_in_the_same_precision() {
    let workplace = Workplace::new();
    write_npy(workplace.path("a64.npy"), &matrix::random_normal(64, 64, 1)).unwrap();
    for (kernel, precision) in [("cluster", "bf16"), ("tensor_cores", "bf16"), ("tiled", "f32")] {
        let refused = workplace.gemm_with("a64.npy", "a64.npy", &["--kernel", kernel, "--alpha", "2"]).code(2);
        let advice =
            format!("name no kernel: then the library chooses one that takes them (`gemm --precision {precision}`");
        refused.stderr(
            predicate::str::contains(format!("'{kernel}' computes C = A B")).and(predicate::str::contains(advice)),
        );
        let advised =
            workplace.gemm_with("a64.npy", "a64.npy", &["--precision", precision, "--alpha", "2", "--verify"]);
        advised.code(0).stdout(predicate::str::contains(precision));
    }
}

#[test]
fn that_fp32_tc_was_computed_by_one_of_f32s_own_kernels_is_said() {
    let workplace = Workplace::new();
    let own = "one of f32's own kernels, not of fp32-tc: sums are short, the product is small, or the GPU is no Hopper";
    let said = |a: &str, b: &str, options: &[&str]| {
        let output = workplace.gemm_with(a, b, options).code(0).get_output().stdout.clone();
        String::from_utf8(output).unwrap()
    };
    assert!(said("a.npy", "b.npy", &["--precision", "fp32-tc"]).contains(own));
    let json = said("a.npy", "b.npy", &["--precision", "fp32-tc", "--json"]);
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!((&json["precision"], &json["asked_precision"]), (&"f32".into(), &"fp32-tc".into()));
    // Who gets what they asked for needn't be told.
    assert!(!said("a.npy", "b.npy", &["--precision", "f32"]).contains("own kernels"));
    assert!(!said("a.npy", "b.npy", &["--kernel", "128x64_fp32-tc"]).contains("own kernels"));
    let json = said("a.npy", "b.npy", &["--precision", "bf16", "--json"]);
    assert!(serde_json::from_str::<serde_json::Value>(&json).unwrap()["asked_precision"].is_null());
}

#[test]
fn numbers_that_overflow_are_counted_in_a_warning() {
    let workplace = Workplace::new();
    let said = |a: &str, b: &str, options: &[&str]| {
        let output = workplace.gemm_with(a, b, &[options, &["--json"]].concat()).code(0).get_output().stdout.clone();
        let json: serde_json::Value = serde_json::from_slice(&output).unwrap();
        serde_json::from_value::<Vec<String>>(json["warnings"].clone()).unwrap()
    };
    let none: [&str; 0] = [];
    assert_eq!(said("a.npy", "b.npy", &["--precision", "f16"]), none);
    // 65519 is rounded to the largest number of f16, and 65520 isn't. What was infinite before isn't counted.
    let large = array![[65519.0_f32, 65520.0, -1e9], [f32::INFINITY, f32::NAN, 1.0]];
    write_npy(workplace.path("large.npy"), &large).unwrap();
    write_npy(workplace.path("ones.npy"), &Array2::<f32>::ones((3, 2))).unwrap();
    let overflown = "2 elements of A are beyond the largest number of f16, 65504, and became infinite";
    assert_eq!(said("large.npy", "ones.npy", &["--precision", "f16"]), [overflown]);
    assert_eq!(said("large.npy", "ones.npy", &["--precision", "bf16"]), none);
    assert_eq!(said("large.npy", "ones.npy", &[]), none);
    // Sums of f32 overflow too; what is finite in the files and isn't in C is counted.
    let huge = array![[3e38_f32, 3e38, 3e38], [1.0, 1.0, 1.0]];
    write_npy(workplace.path("huge.npy"), &huge).unwrap();
    let sums = "2 elements of C are infinite or NaN, though all numbers that it is made of are finite";
    assert_eq!(said("huge.npy", "ones.npy", &[]), [sums]);
    let factors = "3 elements of A are beyond the largest number of f16, 65504, and became infinite";
    assert_eq!(said("huge.npy", "ones.npy", &["--precision", "f16"]), [factors, sums]);
    let one = array![[1e6_f32], [1.0], [1.0]];
    write_npy(workplace.path("one.npy"), &one).unwrap();
    let factor = "1 element of B is beyond the largest number of f16, 65504, and became infinite";
    let sums = "5 elements of C are infinite or NaN, though all numbers that it is made of are finite";
    write_npy(workplace.path("a3.npy"), &Array2::<f32>::ones((5, 3))).unwrap();
    assert_eq!(said("a3.npy", "one.npy", &["--precision", "f16"]), [factor, sums]);
    let table = workplace.gemm_with("a3.npy", "one.npy", &["--precision", "f16"]).code(0);
    table.stdout(predicate::str::is_match(format!("warning +{factor}")).unwrap());
}

#[test]
fn an_existing_output_is_replaced_even_if_it_is_an_input() {
    let workplace = Workplace::new();
    write_npy(workplace.path("c.npy"), &array![[2.0f32, 0.0], [0.0, 2.0]]).unwrap();
    workplace.gemm("c.npy", "c.npy").code(0);
    assert_eq!(workplace.product(), array![[4.0, 0.0], [0.0, 4.0]]);
}

#[test]
fn fortran_order_is_read_rightly() {
    let workplace = Workplace::new();
    let mut a = Array2::<f32>::zeros((5, 7).f());
    a.assign(&matrix::random_normal(5, 7, 3));
    write_npy(workplace.path("fortran.npy"), &a).unwrap();
    assert!(fs::read(workplace.path("fortran.npy")).unwrap().windows(4).any(|bytes| bytes == b"True"));
    workplace.gemm("fortran.npy", "b.npy").code(0);
    assert_close(&workplace.product(), &a, &read_npy(workplace.path("b.npy")).unwrap());
}

#[test]
fn big_endian_is_read_rightly() {
    let workplace = Workplace::new();
    let data: Vec<u8> = [1.0f32, 2.0, 3.0, 4.0].iter().flat_map(|element| element.to_be_bytes()).collect();
    let header = "{'descr': '>f4', 'fortran_order': False, 'shape': (2, 2), }";
    fs::write(workplace.path("big.npy"), npy(header, &data)).unwrap();
    write_npy(workplace.path("one.npy"), &array![[1.0f32, 0.0], [0.0, 1.0]]).unwrap();
    workplace.gemm("big.npy", "one.npy").code(0);
    assert_eq!(workplace.product(), array![[1.0, 2.0], [3.0, 4.0]]);
}

#[test]
fn a_product_with_no_inner_elements_is_zeros_and_one_with_no_rows_is_empty() {
    let workplace = Workplace::new();
    for (m, k, n) in [(3, 0, 4), (0, 3, 4), (3, 4, 0), (0, 0, 0)] {
        write_npy(workplace.path("x.npy"), &Array2::<f32>::ones((m, k))).unwrap();
        write_npy(workplace.path("y.npy"), &Array2::<f32>::ones((k, n))).unwrap();
        workplace.gemm("x.npy", "y.npy").code(0);
        assert_eq!(workplace.product(), Array2::<f32>::zeros((m, n)));
    }
}

#[test]
fn nan_and_infinity_go_through_files() {
    let workplace = Workplace::new();
    write_npy(workplace.path("x.npy"), &array![[f32::NAN, 1.0], [f32::INFINITY, 1.0]]).unwrap();
    write_npy(workplace.path("y.npy"), &array![[1.0f32], [2.0]]).unwrap();
    workplace.gemm_with("x.npy", "y.npy", &["--verify"]).code(0);
    let c = workplace.product();
    assert!(c[(0, 0)].is_nan() && c[(1, 0)] == f32::INFINITY);
}

#[test]
fn a_missing_file_is_named() {
    Workplace::new().refuses("nowhere.npy", &["nowhere.npy", "No such file"]);
}

#[test]
fn a_directory_is_no_matrix() {
    let workplace = Workplace::new();
    fs::create_dir(workplace.path("folder")).unwrap();
    workplace.refuses("folder", &["folder", "directory"]);
}

#[test]
fn what_is_not_npy_is_refused() {
    let workplace = Workplace::new();
    let header = "{'descr': '<f4', 'fortran_order': False, 'shape': (1, 1), }";
    let cases: &[(&str, Vec<u8>)] = &[
        ("empty", Vec::new()),
        ("text", b"1.0 2.0\n3.0 4.0\n".to_vec()),
        ("short", b"\x93NUM".to_vec()),
        ("version", b"\x93NUMPY\x09\x00\x10\x00".to_vec()),
        ("minor version", [b"\x93NUMPY\x01\xca".as_slice(), &npy(header, &[0; 4])[8..]].concat()),
        ("cut header", npy(header, &[])[..40].to_vec()),
        ("no dictionary", npy("[1, 2]", &[0; 4])),
        ("not python", npy("{'descr': ", &[0; 4])),
        ("no shape", npy("{'descr': '<f4', 'fortran_order': False}", &[0; 4])),
        ("twice", npy("{'descr': '<f4', 'fortran_order': False, 'shape': (1, 1), 'shape': (4,)}", &[0; 4])),
        ("four entries", npy("{'descr': '<f4', 'fortran_order': False, 'shape': (1, 1), 'x': 1}", &[0; 4])),
        ("nested lists", npy(&"[".repeat(60), &[0; 4])),
        ("nested sets", npy(&"{".repeat(60), &[0; 4])),
        (
            "nested shape",
            npy(&format!("{{'descr': '<f4', 'fortran_order': False, 'shape': {}", "(2,".repeat(1000)), &[0; 4]),
        ),
        ("no sizes", npy("{'descr': '<f4', 'fortran_order': False, 'shape': (1.0, +1), }", &[0; 4])),
        ("negative", npy("{'descr': '<f4', 'fortran_order': False, 'shape': (-1, 1), }", &[0; 4])),
        ("long header", [b"\x93NUMPY\x02\x00\xff\xff\xff\xff".as_slice(), &[b' '; 100]].concat()),
    ];
    for (name, bytes) in cases {
        fs::write(workplace.path(name), bytes).unwrap();
        workplace.refuses(name, &[name, "not a .npy file"]);
    }
}

#[test]
fn headers_as_other_writers_lay_them_out_are_read() {
    let workplace = Workplace::new();
    let data: Vec<u8> = [1.0f32, 2.0].iter().flat_map(|element| element.to_le_bytes()).collect();
    write_npy(workplace.path("y.npy"), &array![[1.0f32], [1.0]]).unwrap();
    for header in [
        "{'shape':(1,2),'fortran_order':False,'descr':'<f4'}",
        "{ \"descr\" : \"<f4\" , \"fortran_order\" : False , \"shape\" : ( 1 , 2 , ) , }",
    ] {
        fs::write(workplace.path("x.npy"), npy(header, &data)).unwrap();
        workplace.gemm("x.npy", "y.npy").code(0);
        assert_eq!(workplace.product(), array![[3.0]]);
    }
}

#[test]
fn a_truncated_or_too_long_file_is_refused() {
    let workplace = Workplace::new();
    let whole = fs::read(workplace.path("a.npy")).unwrap();
    for length in [whole.len() - 1, whole.len() - 64, 128] {
        fs::write(workplace.path("cut.npy"), &whole[..length]).unwrap();
        workplace.refuses("cut.npy", &["cut.npy", "truncated", "5 x 7"]);
    }
    fs::write(workplace.path("long.npy"), [whole, vec![0]].concat()).unwrap();
    workplace.refuses("long.npy", &["long.npy", "too long"]);
}

#[test]
fn a_header_that_announces_more_than_any_machine_holds_is_refused_at_once() {
    let workplace = Workplace::new();
    for shape in [
        "(1000000000, 1000000000)",
        "(99999999999999999999999, 3)",
        "(18446744073709551615, 18446744073709551615)",
        "(0, 18446744073709551615)",
    ] {
        let header = format!("{{'descr': '<f4', 'fortran_order': False, 'shape': {shape}, }}");
        fs::write(workplace.path("huge.npy"), npy(&header, &[])).unwrap();
        workplace.refuses("huge.npy", &["huge.npy"]);
    }
    workplace.refuses("huge.npy", &["huge.npy has a shape of 0 x 18446744073709551615", "less than 2^63"]);
}

#[test]
fn another_dtype_is_refused_and_the_right_ones_are_named() {
    let workplace = Workplace::new();
    write_npy(workplace.path("double.npy"), &Array2::<f64>::zeros((5, 7))).unwrap();
    workplace.refuses("double.npy", &["double.npy", "<f8", "float32", "astype"]);
    write_npy(workplace.path("integer.npy"), &Array2::<i32>::zeros((5, 7))).unwrap();
    workplace.refuses("integer.npy", &["integer.npy", "<i4", "float32"]);
    let header = "{'descr': [('x', '<f4')], 'fortran_order': False, 'shape': (5, 7), }";
    fs::write(workplace.path("fields.npy"), npy(header, &[0; 140])).unwrap();
    workplace.refuses("fields.npy", &["fields.npy", "float32"]);
}

#[test]
fn other_than_two_or_three_dimensions_are_refused() {
    let workplace = Workplace::new();
    write_npy(workplace.path("vector.npy"), &Array1::<f32>::zeros(7)).unwrap();
    workplace.refuses("vector.npy", &["vector.npy", "1-dimensional"]);
    write_npy(workplace.path("tesseract.npy"), &Array4::<f32>::zeros((5, 7, 2, 3))).unwrap();
    workplace.refuses("tesseract.npy", &["tesseract.npy", "4-dimensional", "batch, rows, columns"]);
}

#[test]
fn inner_sizes_that_differ_are_refused_with_both() {
    let workplace = Workplace::new();
    workplace.refuses("b.npy", &["A is 7 x 4", "B is 7 x 4", "columns of A (4)", "rows of B (7)"]);
}

#[test]
fn inner_sizes_that_differ_after_transposing_are_said_to_be_transposed() {
    let workplace = Workplace::new();
    for (options, said) in [
        (&["--trans-a"][..], "A is 7 x 5 and B is 7 x 4"),
        (&["--trans-a", "--trans-b"], "; these are sizes after --trans-a and --trans-b"),
    ] {
        workplace.gemm_with("a.npy", "b.npy", options).code(2).stderr(predicate::str::contains(said));
    }
    assert_eq!(workplace.files(), ["a.npy", "b.npy"]);
}

/// A signal would end the program in the midst of writing.
#[cfg(unix)]
#[test]
fn an_output_larger_than_files_may_be_is_an_error_and_leaves_nothing() {
    let workplace = Workplace::new();
    write_npy(workplace.path("tall.npy"), &matrix::random_normal(300, 7, 1)).unwrap();
    // In blocks of 512 bytes or 1024: C has 4800 bytes.
    assert_cmd::Command::new("sh")
        .args(["-c", r#"ulimit -f 2; exec "$0" "$@""#])
        .arg(common::host().get_program())
        .args(["gemm", "--device", "sim"])
        .args([workplace.path("tall.npy"), workplace.path("b.npy")])
        .arg("-o")
        .arg(workplace.path("c.npy"))
        .assert()
        .code(2)
        .stderr(predicate::str::contains("c.npy"));
    assert_eq!(workplace.files(), ["a.npy", "b.npy", "tall.npy"]);
}

#[test]
fn an_unknown_kernel_is_refused_and_the_known_ones_are_listed() {
    let assert = Workplace::new().gemm_with("a.npy", "b.npy", &["--kernel", "titled"]).code(2);
    assert.stderr(predicate::str::contains("titled").and(predicate::str::contains(kernels::names().join(", "))));
}

#[test]
fn an_output_that_cannot_be_written_is_refused_before_the_work() {
    let workplace = Workplace::new();
    let gemm = |output: &Path| {
        let mut command = common::host();
        command
            .arg("gemm")
            .arg(workplace.path("a.npy"))
            .arg(workplace.path("b.npy"))
            .arg("-o")
            .arg(output)
            .assert()
            .code(2)
    };
    gemm(&workplace.path("no/such/folder/c.npy")).stderr(predicate::str::contains("no/such/folder/c.npy"));
    gemm(workplace.directory.path()).stderr(predicate::str::contains("directory"));
    std::os::unix::fs::symlink("nowhere", workplace.path("link.npy")).unwrap();
    gemm(&workplace.path("link.npy")).stderr(predicate::str::contains("symbolic link to nowhere"));
    gemm(Path::new("/proc/c.npy")).stderr(predicate::str::contains("/proc/c.npy"));
}

#[test]
fn a_replaced_output_keeps_its_permissions_and_links_keep_naming_it() {
    use std::os::unix::fs::{PermissionsExt, symlink};
    let workplace = Workplace::new();
    write_npy(workplace.path("real.npy"), &array![[0.0f32]]).unwrap();
    fs::set_permissions(workplace.path("real.npy"), fs::Permissions::from_mode(0o600)).unwrap();
    symlink("real.npy", workplace.path("c.npy")).unwrap();
    workplace.gemm("a.npy", "b.npy").code(0);
    assert!(workplace.path("c.npy").is_symlink());
    let real = workplace.path("real.npy");
    assert_eq!(fs::metadata(&real).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(read_npy::<_, Array2<f32>>(real).unwrap().dim(), (5, 4));
}

#[test]
fn errors_say_the_cause_once_and_name_no_temporary_file() {
    let workplace = Workplace::new();
    let stderr = |assert: Assert| String::from_utf8(assert.code(2).get_output().stderr.clone()).unwrap();
    let missing = stderr(workplace.gemm("nowhere.npy", "b.npy"));
    assert_eq!(missing.matches("No such file").count(), 1, "{missing}");
    let mut command = common::host();
    command
        .arg("gemm")
        .arg(workplace.path("a.npy"))
        .arg(workplace.path("b.npy"))
        .arg("-o")
        .arg(workplace.path("no/c.npy"));
    let no_folder = stderr(command.assert());
    assert!(!no_folder.contains(".gemm-") && no_folder.matches("does not exist").count() == 1, "{no_folder}");
}

#[test]
fn a_device_that_is_not_there_is_refused() {
    let workplace = Workplace::new();
    let run = |device: &str| {
        let mut command = common::host();
        command.arg("gemm").arg(workplace.path("a.npy")).arg(workplace.path("b.npy"));
        command.arg("-o").arg(workplace.path("c.npy")).args(["--device", device]).assert().code(2)
    };
    run("cuda:99").stderr(predicate::str::is_empty().not());
    run("gpu").stderr(predicate::str::contains("auto, cuda, cuda:N"));
    run("cuda:x").stderr(predicate::str::contains("auto, cuda, cuda:N"));
    if host::device::Device::open(host::device::DeviceSelector::Cuda(None)).is_err() {
        run("cuda").stderr(predicate::str::contains("driver").or(predicate::str::contains("GPU")));
    }
    assert_eq!(workplace.files(), ["a.npy", "b.npy"]);
}

#[test]
fn wrong_arguments_end_with_exit_code_2_and_the_usage() {
    for arguments in [
        &["gemm"][..],
        &["gemm", "a.npy"],
        &["frobnicate"],
        &["run", "--size", "-3"],
        &["run", "--size", "x"],
        &["list", "--device", "sim"],
    ] {
        common::host()
            .args(arguments)
            .assert()
            .code(2)
            .stderr(predicate::str::contains("Usage").or(predicate::str::contains("--help")));
    }
    common::host()
        .args(["run", "--kernel", "none"])
        .assert()
        .code(2)
        .stderr(predicate::str::contains("known kernels: naive").and(predicate::str::contains("did you mean").not()));
    for (slip, meant) in [
        ("tilde", "tiled"),
        ("64x64x3_fp32-tc", "64x64x2_fp32-tc"),
        ("pipelined_128x256x16", "pipelined_128x256x16_kv"),
    ] {
        common::host()
            .args(["run", "--kernel", slip])
            .assert()
            .code(2)
            .stderr(predicate::str::contains(format!("did you mean '{meant}'?")));
    }
}

#[test]
fn a_size_that_memory_cannot_hold_is_refused_with_the_figures() {
    for size in ["10000000", "18446744073709551615"] {
        let assert = common::host().args(["run", "--size", size, "--device", "sim"]).assert().code(2);
        assert.stderr(predicate::str::contains("bytes").and(predicate::str::contains("available")));
    }
}

#[test]
fn transposes_factors_and_what_c_holds_are_taken_into_account_and_verified() {
    let workplace = Workplace::new();
    let (a, b, c) = (matrix::random_normal(7, 5, 1), matrix::random_normal(4, 7, 2), matrix::random_normal(5, 4, 3));
    for (name, matrix) in [("at.npy", &a), ("bt.npy", &b), ("c0.npy", &c)] {
        write_npy(workplace.path(name), matrix).unwrap();
    }
    let c0 = workplace.path("c0.npy");
    let c0 = c0.to_str().unwrap();
    let check = |options: &[&str], alpha: f32, beta: f32| {
        let options = [options, &["--trans-a", "--trans-b", "--verify"]].concat();
        let formula = "A^T (of 7 x 5) B^T (of 4 x 7)";
        workplace.gemm_with("at.npy", "bt.npy", &options).code(0).stdout(predicate::str::contains(formula));
        let reference = host::verify::reference_in(host::verify::Order::Any, a.t(), b.t());
        let reference = reference.scaled(alpha, beta, Some(c.view()));
        assert!(host::verify::compare(workplace.product().view(), &reference).passed(), "{options:?}");
    };
    check(&[], 1.0, 0.0);
    check(&["--alpha", "-2.5"], -2.5, 0.0);
    check(&["--alpha", "2", "--beta", "-1", "--c", c0], 2.0, -1.0);
    check(&["--c", c0], 1.0, 1.0);
    check(&["--beta", "0", "--c", c0], 1.0, 0.0);
    check(&["--beta", "0"], 1.0, 0.0);
    check(&["--alpha", "-inf"], f32::NEG_INFINITY, 0.0);
    check(&["--beta", "-nan", "--c", c0], 1.0, f32::NAN);

    // C may be replaced by what comes of it.
    fs::copy(c0, workplace.path("c.npy")).unwrap();
    let output = workplace.path("c.npy");
    check(&["--beta", "3", "--c", output.to_str().unwrap()], 1.0, 3.0);
}

#[test]
fn factors_without_their_matrix_and_kernels_that_cannot_are_refused() {
    let workplace = Workplace::new();
    let refused = |options: &[&str], text: &str| {
        workplace.gemm_with("a.npy", "b.npy", options).code(2).stderr(predicate::str::contains(text));
    };
    refused(&["--beta", "2"], "--c");
    refused(&["--alpha", "two"], "--alpha");
    refused(&["--alpha", "2", "--kernel", "tiled"], "'tiled' computes C = A B");
    refused(&["--trans-a"], "must equal the rows of B");
    let a = workplace.path("a.npy");
    refused(&["--c", a.to_str().unwrap()], "the product is 5 x 4, but C is 5 x 7");
    assert_eq!(workplace.files(), ["a.npy", "b.npy"]);
}

/// A batch of random matrices in a file.
fn write_batch(
    workplace: &Workplace,
    name: &str,
    (count, rows, columns): (usize, usize, usize),
    seed: u64,
) -> Array3<f32> {
    let matrices = matrix::random_normal(count * rows, columns, seed);
    let batch = matrices.into_shape_with_order((count, rows, columns)).unwrap();
    write_npy(workplace.path(name), &batch).unwrap();
    batch
}

/// Compares product after product of the written batch with alpha A B + beta C.
fn assert_batch(
    workplace: &Workplace,
    count: usize,
    of: impl Fn(usize) -> (Array2<f32>, Array2<f32>),
    (alpha, beta): (f32, f32),
    c: Option<&Array3<f32>>,
) {
    let product: Array3<f32> = read_npy(workplace.path("c.npy")).unwrap();
    assert_eq!(product.len_of(Axis(0)), count);
    for (index, product) in product.axis_iter(Axis(0)).enumerate() {
        let (a, b) = of(index);
        let reference = host::verify::reference_in(host::verify::Order::Any, a.view(), b.view());
        let reference = reference.scaled(alpha, beta, c.map(|c| c.index_axis(Axis(0), index)));
        let verification = host::verify::compare(product, &reference);
        assert!(verification.passed(), "product {index}: {verification:?}");
    }
}

fn own(matrix: ArrayView2<f32>) -> Array2<f32> {
    matrix.to_owned()
}

#[test]
fn files_of_three_dimensions_are_multiplied_matrix_by_matrix() {
    let workplace = Workplace::new();
    let (a, b) = (write_batch(&workplace, "x.npy", (3, 5, 7), 1), write_batch(&workplace, "y.npy", (3, 7, 4), 2));
    let text = || predicate::str::contains("3 products").and(predicate::str::contains("60 elements compared"));
    for kernel in ["", "tiled", "general_tiled", "32x32x32x8"] {
        let options = if kernel.is_empty() { vec!["--verify"] } else { vec!["--verify", "--kernel", kernel] };
        workplace.gemm_with("x.npy", "y.npy", &options).code(0).stdout(text());
        assert_batch(
            &workplace,
            3,
            |at| (own(a.slice(s![at, .., ..])), own(b.slice(s![at, .., ..]))),
            (1.0, 0.0),
            None,
        );
    }
}

#[test]
fn a_single_matrix_goes_with_each_of_a_batch() {
    let workplace = Workplace::new();
    let (a, b) = (write_batch(&workplace, "x.npy", (3, 5, 7), 1), write_batch(&workplace, "y.npy", (3, 7, 4), 2));
    let [one_a, one_b]: [Array2<f32>; 2] = ["a.npy", "b.npy"].map(|name| read_npy(workplace.path(name)).unwrap());
    let says = |text: &'static str| predicate::str::contains(text);
    workplace.gemm_with("x.npy", "b.npy", &["--verify"]).code(0).stdout(says("the same B for all"));
    assert_batch(&workplace, 3, |at| (own(a.slice(s![at, .., ..])), one_b.clone()), (1.0, 0.0), None);
    workplace.gemm_with("a.npy", "y.npy", &["--verify"]).code(0).stdout(says("the same A for all"));
    assert_batch(&workplace, 3, |at| (one_a.clone(), own(b.slice(s![at, .., ..]))), (1.0, 0.0), None);
}

#[test]
fn a_batch_takes_transposes_factors_and_a_batch_of_c() {
    let workplace = Workplace::new();
    let (a, b) = (write_batch(&workplace, "x.npy", (2, 7, 5), 1), write_batch(&workplace, "y.npy", (2, 4, 7), 2));
    let c = write_batch(&workplace, "c0.npy", (2, 5, 4), 3);
    let c0 = workplace.path("c0.npy");
    let options = ["--trans-a", "--trans-b", "--alpha", "-2", "--beta", "0.5", "--verify", "--c", c0.to_str().unwrap()];
    workplace.gemm_with("x.npy", "y.npy", &options).code(0);
    let of = |at| (own(a.slice(s![at, .., ..]).t()), own(b.slice(s![at, .., ..]).t()));
    assert_batch(&workplace, 2, of, (-2.0, 0.5), Some(&c));
}

#[test]
fn batches_in_fortran_order_of_one_and_of_none_are_right_too() {
    let workplace = Workplace::new();
    let a = write_batch(&workplace, "x.npy", (3, 5, 7), 1);
    let mut fortran = Array3::<f32>::zeros((3, 5, 7).f());
    fortran.assign(&a);
    write_npy(workplace.path("x.npy"), &fortran).unwrap();
    let b: Array2<f32> = read_npy(workplace.path("b.npy")).unwrap();
    workplace.gemm("x.npy", "b.npy").code(0);
    assert_batch(&workplace, 3, |at| (own(a.slice(s![at, .., ..])), b.clone()), (1.0, 0.0), None);
    for count in [0, 1] {
        let a = write_batch(&workplace, "x.npy", (count, 5, 7), 4);
        workplace.gemm_with("x.npy", "b.npy", &["--verify"]).code(0);
        assert_batch(&workplace, count, |at| (own(a.slice(s![at, .., ..])), b.clone()), (1.0, 0.0), None);
    }
    // A header alone may speak of ever so many matrices without elements.
    let header = "{'descr': '<f4', 'fortran_order': False, 'shape': (1000000000000, 0, 7), }";
    fs::write(workplace.path("x.npy"), npy(header, &[])).unwrap();
    workplace.gemm_with("x.npy", "b.npy", &["--verify"]).code(0);
}

#[test]
fn batches_that_do_not_fit_together_are_refused_and_nothing_is_written() {
    let workplace = Workplace::new();
    write_batch(&workplace, "x.npy", (3, 5, 7), 1);
    write_batch(&workplace, "y.npy", (2, 7, 4), 2);
    write_batch(&workplace, "z.npy", (3, 4, 7), 2);
    write_batch(&workplace, "c2.npy", (2, 5, 4), 3);
    write_npy(workplace.path("c0.npy"), &matrix::random_normal(5, 4, 3)).unwrap();
    let before = workplace.files();
    let c = |name: &str| workplace.path(name).to_str().unwrap().to_owned();
    let refused = |a: &str, b: &str, options: &[&str], text: &str| {
        workplace.gemm_with(a, b, options).code(2).stderr(predicate::str::contains(text));
    };
    refused("x.npy", "y.npy", &[], "A is a batch of 3 matrices and B one of 2");
    refused("x.npy", "z.npy", &[], "must equal the rows of B");
    refused("x.npy", "b.npy", &["--c", &c("c2.npy")], "there are 3 products, but C holds 2 matrices");
    refused("x.npy", "b.npy", &["--c", &c("c0.npy")], "c0.npy is 2-dimensional, but the product is 3-dimensional");
    refused("a.npy", "b.npy", &["--c", &c("c2.npy")], "c2.npy is 3-dimensional, but the product is 2-dimensional");
    refused("x.npy", "b.npy", &["--alpha", "2", "--kernel", "tiled"], "'tiled' computes C = A B");
    assert_eq!(workplace.files(), before);
}

#[test]
fn a_batch_whose_header_disagrees_with_its_length_is_refused_with_all_sizes() {
    let workplace = Workplace::new();
    let header = "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 5, 7), }";
    fs::write(workplace.path("cut.npy"), npy(header, &[0; 270])).unwrap();
    workplace.refuses("cut.npy", &["cut.npy", "truncated", "2 x 5 x 7"]);
    let header = "{'descr': '<f4', 'fortran_order': False, 'shape': (0, 4294967296, 4294967296), }";
    fs::write(workplace.path("huge.npy"), npy(header, &[])).unwrap();
    workplace.refuses("huge.npy", &["huge.npy"]);
}
