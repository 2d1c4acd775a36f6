//! Asynchronous copies: under way until their thread waits for them, and others' only after a barrier as well.

use ptx_simulator::observe::hazards::{CopyState, FindingKind};

use crate::{Check, check};

const THREADS: u32 = 64;

/// The state of the copy in the only finding of a kind, and the line of the wait that it names.
fn state(check: &Check, kind: &FindingKind) -> (&'static str, u32) {
    let mut findings = check.findings.iter().filter(|finding| finding.kind == *kind);
    let finding = findings.next().unwrap_or_else(|| panic!("{:#?}", check.findings));
    let line = |source: &Option<ptx_simulator::SourceLocation>| source.as_ref().map_or(0, |source| source.line);
    match finding.first.copy.as_ref().or(finding.second.as_ref().and_then(|second| second.copy.as_ref())) {
        Some(CopyState::Begins) => ("begins", 0),
        Some(CopyState::UnderWay { left_open_at }) => ("under way", line(left_open_at)),
        Some(CopyState::Awaited { at }) => ("awaited", line(at)),
        None => ("no copy", 0),
    }
}

#[test]
fn a_wait_and_a_barrier_make_a_copy_known_to_all() {
    for wait in ["cp.async.commit_group; cp.async.wait_group 0;", "cp.async.wait_all;"] {
        check(
            &format!(
                "10| cp.async.ca.shared.global [%r4], [%rd2], 4;
                11| {wait}
                12| bar.sync 0;
                13| ld.shared.u32 %r10, [%r5];"
            ),
            2,
            THREADS,
        )
        .is_clean();
    }
}

#[test]
fn a_thread_sees_its_own_copy_after_its_wait() {
    let body = |wait: &str| {
        format!(
            "10| cp.async.ca.shared.global [%r4], [%rd2], 4;
            11| {wait}
            12| ld.shared.u32 %r10, [%r4];
            13| cp.async.wait_all;"
        )
    };
    check(&body("cp.async.wait_all;"), 1, THREADS).is_clean();
    let check = check(&body("cp.async.wait_group 0;"), 1, THREADS);
    check.finds(&[("ReadAfterWrite", 10, 12)]);
    assert_eq!(state(&check, &FindingKind::ReadAfterWrite), ("under way", 11));
    let (first, second) = (&check.findings[0].first, check.findings[0].second.as_ref().unwrap());
    assert_eq!(first.thread, second.thread);
}

#[test]
fn a_forgotten_wait_is_found_whatever_barriers_there_are() {
    let check = check(
        "10| cp.async.ca.shared.global [%r4], [%rd2], 4;
        11| cp.async.commit_group;
        12| bar.sync 0;
        13| ld.shared.u32 %r10, [%r5];
        14| bar.sync 0;",
        2,
        THREADS,
    );
    check.finds(&[("CopyNeverAwaited", 10, 0), ("ReadAfterWrite", 10, 13)]);
    assert_eq!(state(&check, &FindingKind::ReadAfterWrite), ("under way", 0));
}

#[test]
fn a_wait_that_leaves_one_group_too_many_open_is_named() {
    let check = check(
        "10| cp.async.ca.shared.global [%r4], [%rd2], 4;
        11| cp.async.commit_group;
        12| cp.async.wait_group 1;
        13| bar.sync 0;
        14| ld.shared.u32 %r10, [%r5];
        15| cp.async.wait_all;",
        2,
        THREADS,
    );
    check.finds(&[("ReadAfterWrite", 10, 14)]);
    assert_eq!(state(&check, &FindingKind::ReadAfterWrite), ("under way", 12));
}

#[test]
fn waiting_is_the_own_threads_business_and_a_barrier_is_needed_for_others() {
    let check = check(
        "10| cp.async.ca.shared.global [%r4], [%rd2], 4;
        11| cp.async.wait_all;
        12| ld.shared.u32 %r10, [%r5];",
        2,
        THREADS,
    );
    check.finds(&[("ReadAfterWrite", 10, 12)]);
    assert_eq!(state(&check, &FindingKind::ReadAfterWrite), ("awaited", 11));
}

/// Two stages: in each round a copy into one of them, a wait for the other, and reads of that.
fn ring(wait: &str, before: &str, after: &str) -> Check {
    check(
        &format!(
            "mov.u32 %r20, 0; mov.u64 %rd5, %rd2;
            8| cp.async.ca.shared.global [%r4], [%rd5], 4;
            9| cp.async.commit_group;
            again: add.u64 %rd5, %rd5, 256; xor.b32 %r4, %r4, 256;
            10| cp.async.ca.shared.global [%r4], [%rd5], 4;
            11| cp.async.commit_group;
            12| {wait}
            13| {before}
            14| ld.shared.u32 %r10, [%r5];
            15| {after}
            16| xor.b32 %r5, %r5, 256;
            add.u32 %r20, %r20, 1; setp.lt.u32 %p3, %r20, 5; @%p3 bra again;
            17| cp.async.wait_all;"
        ),
        2,
        THREADS,
    )
}

#[test]
fn a_ring_of_stages_needs_its_wait_and_both_barriers() {
    ring("cp.async.wait_group 1;", "bar.sync 0;", "bar.sync 0;").is_clean();

    let lax = ring("cp.async.wait_group 2;", "bar.sync 0;", "bar.sync 0;");
    lax.finds(&[("ReadAfterWrite", 8, 14), ("ReadAfterWrite", 10, 14)]);
    assert_eq!(state(&lax, &FindingKind::ReadAfterWrite), ("under way", 12));

    let no_barrier = ring("cp.async.wait_group 1;", "", "bar.sync 0;");
    no_barrier.finds(&[("ReadAfterWrite", 8, 14), ("ReadAfterWrite", 10, 14)]);
    assert_eq!(state(&no_barrier, &FindingKind::ReadAfterWrite), ("awaited", 12));

    let still_read = ring("cp.async.wait_group 1;", "bar.sync 0;", "");
    still_read.finds(&[("WriteAfterRead", 14, 10)]);
    assert_eq!(state(&still_read, &FindingKind::WriteAfterRead), ("begins", 0));
}

#[test]
fn three_stages_need_one_barrier_a_round() {
    // The copy comes after the barrier, into the stage that was read in the round before.
    let body = |next: u32| {
        format!(
            "mov.u32 %r20, 0; mov.u64 %rd5, %rd2; mov.u32 %r21, 0; mov.u32 %r22, {next};
            8| cp.async.ca.shared.global [%r4], [%rd5], 4; cp.async.commit_group;
            9| cp.async.ca.shared.global [%r4+256], [%rd5+256], 4; cp.async.commit_group;
            10| again: cp.async.wait_group 1;
            11| bar.sync 0;
            add.u64 %rd5, %rd5, 256; add.u32 %r23, %r4, %r22;
            12| cp.async.ca.shared.global [%r23], [%rd5+256], 4; cp.async.commit_group;
            add.u32 %r24, %r5, %r21;
            13| ld.shared.u32 %r10, [%r24];
            14| add.u32 %r21, %r21, 256; setp.eq.u32 %p4, %r21, 768; @%p4 mov.u32 %r21, 0;
            add.u32 %r22, %r22, 256; setp.eq.u32 %p4, %r22, 768; @%p4 mov.u32 %r22, 0;
            add.u32 %r20, %r20, 1; setp.lt.u32 %p3, %r20, 7; @%p3 bra again;
            15| cp.async.wait_all;"
        )
    };
    check(&body(512), 1, THREADS).is_clean();
    // One stage off: into the stage that is being read.
    let wrong = check(&body(0), 1, THREADS);
    wrong.finds(&[("ReadAfterWrite", 12, 13)]);
    assert_eq!(state(&wrong, &FindingKind::ReadAfterWrite), ("under way", 0));
}

#[test]
fn copies_into_the_same_place_race_with_each_other() {
    check(
        "10| cp.async.ca.shared.global [%r4], [%rd2], 4;
        11| cp.async.ca.shared.global [%r4], [%rd2+4], 4;
        12| cp.async.wait_all;",
        1,
        THREADS,
    )
    .finds(&[("WriteAfterWrite", 10, 11)]);
    check(
        "10| cp.async.ca.shared.global [%r4], [%rd2], 4;
        cp.async.wait_all;
        11| cp.async.ca.shared.global [%r4], [%rd2+4], 4;
        12| cp.async.wait_all;",
        1,
        THREADS,
    )
    .is_clean();
}

#[test]
fn an_ordinary_store_into_a_stage_under_way_races() {
    check(
        "10| cp.async.ca.shared.global [%r4], [%rd2], 4;
        11| st.shared.u32 [%r4], 0;
        12| cp.async.wait_all;",
        1,
        THREADS,
    )
    .finds(&[("WriteAfterWrite", 10, 11)]);
}

#[test]
fn a_source_is_being_read_until_the_wait() {
    let body = |between: &str| {
        format!(
            "10| cp.async.ca.shared.global [%r4], [%rd2], 4;
            11| {between}
            12| st.global.u32 [%rd2], %r0;
            13| cp.async.wait_all;"
        )
    };
    check(&body("bar.sync 0;"), 1, THREADS).finds(&[("WriteAfterRead", 10, 12)]);
    check(&body("cp.async.wait_all;"), 1, THREADS).is_clean();
    // Written before, by the same thread or by another before a barrier, it's as for any read.
    let body = |barrier: &str| {
        format!(
            "xor.b32 %r10, %r2, 128; cvt.u64.u32 %rd5, %r10; add.u64 %rd5, %rd1, %rd5;
            10| st.global.u32 [%rd2], %r0;
            11| {barrier}
            12| cp.async.ca.shared.global [%r4], [%rd5], 4;
            13| cp.async.wait_all;"
        )
    };
    check(&body("bar.sync 0;"), 1, THREADS).is_clean();
    check(&body(""), 1, THREADS).finds(&[("ReadAfterWrite", 10, 12)]);
}

#[test]
fn zeros_are_written_and_nothing_is_read() {
    // Lanes with a size of 0 touch nothing of their source, which another thread writes meanwhile.
    check(
        "10| cp.async.ca.shared.global [%r4], [%rd1], 4, 0;
        11| @%p1 st.global.u32 [%rd1], %r0;
        12| cp.async.wait_all;
        13| bar.sync 0;
        14| ld.shared.u32 %r10, [%r5];",
        1,
        THREADS,
    )
    .is_clean();
}

#[test]
fn what_only_some_copied_is_unwritten_elsewhere() {
    check(
        "10| @%p2 cp.async.ca.shared.global [%r4], [%rd2], 4;
        11| cp.async.wait_all;
        12| bar.sync 0;
        13| ld.shared.u32 %r10, [%r4];",
        1,
        THREADS,
    )
    .finds(&[("Uninitialised", 13, 0)]);
}

#[test]
fn a_copy_outside_its_array_is_found() {
    check(
        "10| cp.async.ca.shared.global [%r4+1024], [%rd2], 4;
        11| cp.async.wait_all;",
        1,
        THREADS,
    )
    .finds(&[("OutsideArray", 10, 0)]);
}

#[test]
fn a_copy_from_nowhere_is_found_and_the_rest_goes_on() {
    let check = check(
        "sub.u64 %rd5, %rd2, 8;
        10| cp.async.ca.shared.global [%r4], [%rd5], 4;
        11| cp.async.wait_all;
        ld.shared.u32 %r10, [%r4];
        12| st.global.u32 [%rd2], %r10;",
        1,
        THREADS,
    );
    // Threads 2 and up read what lower threads write, whose addresses are their own.
    assert!(check.summary().iter().any(|(kind, first, _)| kind == "OutOfBounds" && *first == 10));
    assert_eq!(check.memory[..2], [u32::MAX; 2]);
    assert_eq!(check.result, Ok(()));
}
