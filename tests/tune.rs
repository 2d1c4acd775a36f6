//! Promises about `tune`, as far as they can be kept without a GPU.

mod common;

fn host(arguments: &[&str]) -> assert_cmd::assert::Assert {
    common::host().args(arguments).assert()
}

fn error(arguments: &[&str]) -> String {
    let output = host(arguments).failure().code(2).get_output().clone();
    assert!(output.stdout.is_empty(), "{arguments:?}");
    String::from_utf8(output.stderr).unwrap()
}

#[test]
fn on_the_simulator_there_is_nothing_to_tune_and_nothing_is_written() {
    let folder = tempfile::tempdir().unwrap();
    let inside = folder.path().join("tunings");
    let text = error(&["tune", "--device", "sim", "--folder", inside.to_str().unwrap()]);
    assert!(text.contains("nothing to tune on the simulator"), "{text}");
    assert!(!inside.exists());
    let text = error(&["tune", "--reset", "--device", "sim"]);
    assert!(text.contains("no") && text.contains("GPU"), "{text}");
}

#[test]
fn what_is_known_is_shown_without_a_gpu_too() {
    let output = host(&["tune", "--show", "--device", "sim", "--json"]).success().get_output().clone();
    let shown: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(shown["act"], "shown");
    assert!(shown["tunings"].is_array());
    host(&["tune", "--show", "--device", "sim"]).success();
}

#[test]
fn a_time_that_cannot_be_is_refused() {
    for minutes in ["0", "-1", "nan", "inf", "1e9"] {
        let text = error(&["tune", &format!("--minutes={minutes}"), "--device", "sim"]);
        assert!(text.contains("--minutes"), "{text}");
    }
}

#[test]
fn showing_and_resetting_are_two_things() {
    host(&["tune", "--show", "--reset"]).failure().code(2);
    host(&["tune", "--show", "--minutes", "1"]).failure().code(2);
}
