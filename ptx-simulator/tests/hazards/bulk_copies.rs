//! Bulk copies: until their mbarrier's phase, or their thread's wait, they're under way; and the async proxy needs fences.

use super::{Check, check};
use ptx_simulator::observe::hazards::{Agent, CopyState, Finding, FindingKind};

const THREADS: u32 = 64;

/// Thread 0 initialises an mbarrier for one arrival, and another for all threads.
const BEGIN: &str = "mov.u32 %r20, 0; mov.u32 %r21, 0;
    8| @%p1 mbarrier.init.shared.b64 [other], 1;
    @%p1 mbarrier.init.shared.b64 [other+8], 64;
    fence.proxy.async;
    9| bar.sync 0;";

const ARRIVE: &str = "@%p1 mbarrier.arrive.expect_tx.shared.b64 _, [other], 256;";
const LOAD: &str =
    "@%p1 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [tile], [%rd1], 256, [other];";
const WAIT: &str = "spin: mbarrier.try_wait.parity.shared.b64 %p3, [other], %r20; @!%p3 bra spin;";
const READ: &str = "ld.shared.u32 %r10, [%r4];";
const STORE: &str =
    "@%p1 cp.async.bulk.global.shared::cta.bulk_group [%rd1], [tile], 256; @%p1 cp.async.bulk.commit_group;";

fn find<'c>(check: &'c Check, kind: &FindingKind) -> &'c Finding {
    check.findings.iter().find(|finding| finding.kind == *kind).unwrap_or_else(|| panic!("{:#?}", check.findings))
}

/// A load, with parts that may be left out: all threads read it.
fn load(arrive: &str, wait: &str) -> Check {
    check(&format!("{BEGIN}\n10| {arrive}\n11| {LOAD}\n12| {wait}\n13| {READ}"), 2, THREADS)
}

#[test]
fn a_load_is_waited_for_at_its_mbarrier() {
    load(ARRIVE, WAIT).is_clean();

    let missing = load(ARRIVE, "");
    missing.finds(&[("ReadAfterWrite", 11, 13), ("CopyNeverAwaited", 11, 0)]);
    let race = find(&missing, &FindingKind::ReadAfterWrite);
    assert_eq!(race.first.agent, Agent::BulkLoad);
    assert_eq!(race.first.copy, Some(CopyState::UnderWay { left_open_at: None }));
    assert_eq!(race.second.as_ref().unwrap().agent, Agent::Thread);

    // The phase before the first counts as over.
    let wrong = load(ARRIVE, &WAIT.replace("%r20", "1"));
    wrong.finds(&[("ReadAfterWrite", 11, 13), ("CopyNeverAwaited", 11, 0)]);

    // A barrier doesn't help.
    load(ARRIVE, "bar.sync 0;").finds(&[("ReadAfterWrite", 11, 13), ("CopyNeverAwaited", 11, 0)]);
}

#[test]
fn a_phase_that_expects_no_bytes_ends_too_early() {
    let early = load("@%p1 mbarrier.arrive.shared.b64 _, [other];", WAIT);
    early.finds(&[("ReadAfterWrite", 11, 13), ("CopyNeverAwaited", 11, 0)]);
    // Too few bytes, and too many.
    load(&ARRIVE.replace("256", "128"), WAIT).finds(&[("Mbarrier", 11, 0)]);
    load(&ARRIVE.replace("256", "272"), WAIT).finds(&[("MbarrierDeadlock", 12, 0)]);
}

#[test]
fn threads_that_do_not_wait_are_found_though_others_do() {
    // The second warp forgets the wait.
    let half = "@!%p2 bra over; spin: mbarrier.try_wait.parity.shared.b64 %p3, [other], %r20; @!%p3 bra spin; over:";
    let check = load(ARRIVE, half);
    check.finds(&[("ReadAfterWrite", 11, 13)]);
    // With a barrier behind the wait it's right.
    load(ARRIVE, &format!("{half} bar.sync 0;")).is_clean();
}

/// Five rounds through one slot; `free` is the producer's wait for the readers.
fn ring(free: &str, release: &str) -> Check {
    check(
        &format!(
            "{BEGIN} mov.u32 %r22, 1; mov.u32 %r23, 0;
            again: @!%p1 bra consume;
            10| {free}
            11| mbarrier.arrive.expect_tx.shared.b64 _, [other], 256;
            12| cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [tile], [%rd1], 256, [other];
            consume:
            13| {WAIT}
            14| {READ}
            15| {release}
            16| xor.b32 %r20, %r20, 1; xor.b32 %r22, %r22, 1;
            add.u32 %r23, %r23, 1; setp.lt.u32 %p4, %r23, 5; @%p4 bra again;"
        ),
        2,
        THREADS,
    )
}

#[test]
fn a_slot_is_filled_again_when_all_have_read_it() {
    let free = "free: mbarrier.try_wait.parity.shared.b64 %p5, [other+8], %r22; @!%p5 bra free;";
    let release = "mbarrier.arrive.shared.b64 _, [other+8];";
    ring(free, release).is_clean();
    let early = ring("", release);
    assert!(early.summary().contains(&("WriteAfterRead".to_owned(), 14, 12)), "{:?}", early.summary());
    // The arrival before the read frees the slot too early.
    let check = ring(free, "").summary();
    assert!(check.iter().any(|(kind, line, _)| kind == "MbarrierDeadlock" && *line == 10), "{check:?}");
}

#[test]
fn what_threads_wrote_needs_a_fence_before_a_store_reads_it() {
    let store = |fence: &str, late: &str| {
        check(
            &format!(
                "10| st.shared.u32 [%r4], %r0;
                11| {fence}
                12| bar.sync 0;
                13| {late}
                14| {STORE}
                15| @%p1 cp.async.bulk.wait_group 0;"
            ),
            1,
            THREADS,
        )
    };
    store("fence.proxy.async;", "").is_clean();
    store("fence.proxy.async.shared::cta;", "").is_clean();
    // The one thread that stores may fence for all after the barrier.
    store("", "@%p1 fence.proxy.async;").is_clean();
    let check = store("", "");
    check.finds(&[("MissingProxyFence", 10, 14)]);
    let finding = find(&check, &FindingKind::MissingProxyFence);
    assert_eq!((finding.first.agent, finding.second.as_ref().unwrap().agent), (Agent::Thread, Agent::BulkStore));
    assert_eq!(finding.count, 64);
    // Not before what it's for.
    check_fence_first().finds(&[("MissingProxyFence", 11, 13)]);
    // Without the barrier it's a race, whatever the fence.
    assert!(store_without_barrier().summary().iter().any(|(kind, first, _)| kind == "ReadAfterWrite" && *first == 10));
}

fn check_fence_first() -> Check {
    check(
        &format!(
            "10| fence.proxy.async;
            11| st.shared.u32 [%r4], %r0;
            12| bar.sync 0;
            13| {STORE}
            14| @%p1 cp.async.bulk.wait_group 0;"
        ),
        1,
        THREADS,
    )
}

fn store_without_barrier() -> Check {
    check(
        &format!(
            "10| st.shared.u32 [%r4], %r0;
            11| fence.proxy.async;
            13| {STORE}
            14| @%p1 cp.async.bulk.wait_group 0;"
        ),
        1,
        THREADS,
    )
}

/// A store whose source is overwritten after `wait`.
fn store_and_overwrite(wait: &str) -> Check {
    check(
        &format!(
            "10| st.shared.u32 [%r4], %r0;
            fence.proxy.async; bar.sync 0;
            11| {STORE}
            12| {wait}
            13| bar.sync 0;
            14| st.shared.u32 [%r4], %r2;
            15| @%p1 cp.async.bulk.wait_group 0;"
        ),
        1,
        THREADS,
    )
}

#[test]
fn the_source_of_a_store_stays_until_it_is_read() {
    store_and_overwrite("@%p1 cp.async.bulk.wait_group.read 0;").is_clean();
    store_and_overwrite("@%p1 cp.async.bulk.wait_group 0;").is_clean();

    let missing = store_and_overwrite("");
    missing.finds(&[("WriteAfterRead", 11, 14)]);
    let race = find(&missing, &FindingKind::WriteAfterRead);
    assert_eq!(
        (race.first.agent, &race.first.copy),
        (Agent::BulkStore, &Some(CopyState::UnderWay { left_open_at: None }))
    );

    let lax = store_and_overwrite("@%p1 cp.async.bulk.wait_group.read 1;");
    lax.finds(&[("WriteAfterRead", 11, 14)]);
    let Some(CopyState::UnderWay { left_open_at: Some(place) }) = &find(&lax, &FindingKind::WriteAfterRead).first.copy
    else {
        panic!("{:#?}", lax.findings);
    };
    assert_eq!(place.line, 12);

    // Another thread can't wait for it.
    store_and_overwrite("@!%p1 cp.async.bulk.wait_group.read 0;").finds(&[("WriteAfterRead", 11, 14)]);
}

#[test]
fn a_store_that_nobody_waits_for_is_found() {
    let body = |wait: &str| {
        format!(
            "10| st.shared.u32 [%r4], %r0;
            fence.proxy.async; bar.sync 0;
            11| {STORE}
            12| {wait}"
        )
    };
    check(&body("@%p1 cp.async.bulk.wait_group.read 0;"), 1, THREADS).is_clean();
    check(&body(""), 1, THREADS).finds(&[("CopyNeverAwaited", 11, 0)]);
}

#[test]
fn bytes_in_global_memory_take_part() {
    // The thread reads back what its store may not have written.
    let body = |wait: &str| {
        format!(
            "10| st.shared.u32 [%r4], %r0;
            fence.proxy.async; bar.sync 0;
            11| {STORE}
            12| {wait}
            13| @%p1 ld.global.u32 %r10, [%rd2];
            14| @%p1 cp.async.bulk.wait_group 0;"
        )
    };
    check(&body("@%p1 cp.async.bulk.wait_group 0;"), 1, THREADS).is_clean();
    check(&body("@%p1 cp.async.bulk.wait_group.read 0;"), 1, THREADS).finds(&[("ReadAfterWrite", 11, 13)]);
}
