//! Barriers of some threads, of a warp, and barriers used wrongly.

use super::*;

/// Warp 0 produces, warp 1 consumes.
fn pipeline(arrive: &str, wait: &str, again: &str) -> String {
    format!(
        "9| setp.ge.u32 %p3, %r0, 32;
        @%p3 bra CONSUME;
        10| st.shared.u32 [%r4], %r0;
        11| {arrive}
        12| {again}
        ret;
        CONSUME:
        20| {wait}
        21| ld.shared.u32 %r10, [%r6];
        ret;"
    )
}

#[test]
fn a_producer_that_arrives_is_before_a_consumer_that_waits() {
    let (arrive, wait) = ("bar.arrive 1, 64;", "bar.sync 1, 64;");
    check(&pipeline(arrive, wait, ""), 2, 64).is_clean();
    check(&pipeline("", "", ""), 2, 64).finds(&[("ReadAfterWrite", 10, 21)]);
}

#[test]
fn a_producer_that_only_arrives_is_not_ordered_after_the_consumer() {
    let again = "st.shared.u32 [%r4], 1;";
    let broken = check(&pipeline("bar.arrive 1, 64;", "bar.sync 1, 64;", again), 1, 64);
    let summary = broken.summary();
    assert_eq!(summary.len(), 1, "{summary:?}");
    assert!(matches!((summary[0].1, summary[0].2), (12, 21) | (21, 12)), "{summary:?}");
}

#[test]
fn a_barrier_of_some_warps_orders_these_and_no_others() {
    // Warps 0 and 1 of four meet; a reader takes the word of the thread half a block or one thread away.
    let body = |address| {
        format!(
            "10| st.shared.u32 [%r4], %r0;
            11| setp.ge.u32 %p3, %r0, 64;
            @%p3 bra DONE;
            12| bar.sync 1, 64;
            13| xor.b32 %r10, %r2, 128;
            add.u32 %r10, %r3, %r10;
            14| ld.shared.u32 %r11, [{address}];
            DONE: ret;"
        )
    };
    check(&body("%r10"), 1, 128).is_clean();
    check(&body("%r6"), 1, 128).finds(&[("ReadAfterWrite", 10, 14)]);
}

#[test]
fn a_warp_barrier_orders_no_other_warp_and_forgets_none_of_its_reads() {
    // All read word 0, then thread 0 writes it: its own warp is ordered, the other isn't.
    let body = |barrier| {
        format!(
            "9| @%p1 st.shared.u32 [tile], 1;
            bar.sync 0;
            10| ld.shared.u32 %r10, [tile];
            11| {barrier}
            12| @%p1 st.shared.u32 [tile], %r10;
            ret;"
        )
    };
    check(&body("bar.warp.sync 0xffffffff;"), 1, 32).is_clean();
    check(&body("bar.sync 0;"), 1, 64).is_clean();
    let broken = check(&body("bar.warp.sync 0xffffffff;"), 1, 64);
    broken.finds(&[("WriteAfterRead", 10, 12)]);
    assert!(broken.findings[0].first.thread[0] >= 32);
}

#[test]
fn lanes_that_diverged_meet_at_their_warp_barrier() {
    let body = |barrier: &str| {
        format!(
            "9| and.b32 %r10, %r0, 1;
            setp.eq.u32 %p3, %r10, 0;
            @%p3 bra EVEN;
            10| st.shared.u32 [%r4], %r0;
            11| {barrier}
            bra DONE;
            EVEN:
            20| {barrier}
            21| ld.shared.u32 %r11, [%r5];
            DONE: ret;"
        )
    };
    check(&body("bar.warp.sync 0xffffffff;"), 1, 32).is_clean();
    check(&body(""), 1, 32).finds(&[("ReadAfterWrite", 10, 21)]);
}

#[test]
fn threads_at_different_barriers_are_told_the_two_lines() {
    let body = |line| {
        format!(
            "9| @%p2 bra LOW;
            10| bar.sync 0;
            bra DONE;
            LOW:
            {line}| bar.sync 0;
            DONE: ret;"
        )
    };
    let broken = check(&body(20), 1, 96);
    broken.finds(&[("DifferentBarriers", 20, 10)]);
    assert_eq!(broken.findings[0].count, 64);
    // The compiler may copy a barrier: the line is the same.
    check(&body(10), 1, 96).is_clean();
}

#[test]
fn a_barrier_that_threads_never_reach_is_found_once_for_its_line() {
    let broken = check("9| @%p2 bra DONE;\n10| bar.sync 0;\nDONE: ret;", 3, 96);
    broken.finds(&[("DivergentBarrier", 10, 0)]);
    assert_eq!(broken.findings[0].count, 3 * 64);
    assert_eq!(broken.findings[0].first.thread, [32, 0, 0]);
    check("10| bar.sync 0;\nret;", 3, 96).is_clean();
}

#[test]
fn threads_that_wait_at_different_barriers_for_ever_are_told_of_each_other() {
    let broken = check("9| @%p2 bra LOW;\n10| bar.sync 1;\nret;\nLOW:\n20| bar.sync 0;\nret;", 1, 64);
    broken.finds(&[("DivergentBarrier", 10, 20), ("DivergentBarrier", 20, 10)]);
}
