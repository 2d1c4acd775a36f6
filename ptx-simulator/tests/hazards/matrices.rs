//! Matrices in shared memory: every lane reads what comes into its own registers, whoever gave the address.

use crate::{check, check_with};

/// Each lane of a warp writes 16 bytes, a row, at `%r30`.
const WRITE: &str = "shl.b32 %r29, %r0, 4; add.u32 %r30, %r3, %r29;
    10| st.shared.v4.u32 [%r30], {%r0, %r0, %r0, %r0};";
const LOAD: &str = "13| ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r10, %r11, %r12, %r13}, [%r30];";

#[test]
fn a_lane_that_gives_a_rows_address_is_not_the_one_that_reads_it() {
    // Each lane gives the address of the row that it wrote itself; the elements go to four lanes.
    for trans in ["", ".trans"] {
        let load = LOAD.replace(".x4", &format!(".x4{trans}"));
        check(&format!("{WRITE}\n{load}"), 1, 32).finds(&[("ReadAfterWrite", 10, 13)]);
        check(&format!("{WRITE}\n11| bar.warp.sync 0xffffffff;\n{load}"), 1, 32).is_clean();
        check(&format!("{WRITE}\n11| bar.sync 0;\n{load}"), 1, 32).is_clean();
    }
}

#[test]
fn the_next_tile_must_not_overwrite_what_is_still_read() {
    let body =
        |barrier: &str| format!("{WRITE}\n11| bar.sync 0;\n{LOAD}\n14| {barrier}\n15| st.shared.u32 [%r6], %r0;");
    check(&body(""), 1, 32).finds(&[("WriteAfterRead", 13, 15)]);
    check(&body("bar.sync 0;"), 1, 32).is_clean();
}

#[test]
fn copies_must_be_waited_for_before_their_matrices_are_loaded() {
    let body = |wait: &str| {
        format!(
            "shl.b32 %r29, %r0, 4; add.u32 %r30, %r3, %r29; cvt.u64.u32 %rd10, %r29; add.u64 %rd10, %rd10, %rd1;
            10| cp.async.cg.shared.global [%r30], [%rd10], 16;
            11| {wait}
            12| bar.sync 0;
            {LOAD}
            14| cp.async.wait_all;"
        )
    };
    check(&body("cp.async.wait_all;"), 1, 32).is_clean();
    check(&body(""), 1, 32).finds(&[("ReadAfterWrite", 10, 13)]);
}

#[test]
fn stores_of_matrices_are_the_lanes_own() {
    let body = |barrier: &str, stores: &str| {
        format!(
            "shl.b32 %r29, %r0, 4; add.u32 %r30, %r3, %r29;
            10| stmatrix.sync.aligned.m8n8.x4{stores}.shared.b16 [%r30], {{%r0, %r0, %r0, %r0}};
            11| {barrier}
            12| ld.shared.u32 %r10, [%r4];"
        )
    };
    // Word l of the first matrix is lane l's own, if nothing is transposed.
    check(&body("", ""), 1, 32).is_clean();
    check(&body("", ".trans"), 1, 32).finds(&[("ReadAfterWrite", 10, 12)]);
    check(&body("bar.warp.sync 0xffffffff;", ".trans"), 1, 32).is_clean();
}

#[test]
fn unwritten_rows_and_rows_outside_the_array_are_found() {
    check(&format!("shl.b32 %r29, %r0, 4; add.u32 %r30, %r3, %r29;\n{LOAD}"), 1, 32).finds(&[("Uninitialised", 13, 0)]);
    // The last row that a lane names is the first of the next array.
    let body = format!("{WRITE}\n11| bar.sync 0;\nadd.u32 %r30, %r30, 528;\n{LOAD}");
    let found = check_with(&body, 1, 32, 0);
    assert!(found.summary().contains(&("OutsideArray".to_owned(), 13, 0)), "{:?}", found.findings);
    // A row outside of shared memory: the others are loaded, and it's one finding.
    let far = "setp.eq.u32 %p5, %r0, 3; @%p5 add.u32 %r30, %r30, 0x100000;";
    let found = check_with(&format!("{WRITE}\n11| bar.sync 0;\n{far}\n{LOAD}"), 1, 32, 0);
    found.finds(&[("OutOfBounds", 13, 0)]);
}
