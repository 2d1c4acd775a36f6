//! mbarriers order what came before the arrivals before what comes after a test that sees the phase complete.

use ptx_simulator::LaunchErrorKind;
use ptx_simulator::observe::hazards::{CopyState, FindingKind};

use crate::{Check, check};

/// What a pipeline does at each step; the right one by [`Steps::RIGHT`].
struct Steps {
    init: &'static str,
    after_init: &'static str,
    producers_wait: &'static str,
    copied: &'static str,
    produced: &'static str,
    consumers_wait: &'static str,
    before_reads: &'static str,
    consumed: &'static str,
    parity: u32,
}

const ARRIVE_EMPTY: &str = "@%p5 mbarrier.arrive.shared.b64 _, [%r26];";

impl Steps {
    const RIGHT: Steps = Steps {
        init: "@%p1 mbarrier.init.shared.b64 [other], 1; @%p1 mbarrier.init.shared.b64 [other+8], 1;
            @%p1 mbarrier.init.shared.b64 [other+16], 3; @%p1 mbarrier.init.shared.b64 [other+24], 3;",
        after_init: "bar.sync 0;",
        producers_wait: "free: mbarrier.test_wait.parity.shared.b64 %p6, [%r26], %r22; @!%p6 bra free;",
        copied: "cp.async.wait_all;",
        produced: "bar.warp.sync -1; @%p5 mbarrier.arrive.shared.b64 _, [%r25];",
        consumers_wait: "wait: mbarrier.try_wait.parity.shared.b64 %p6, [%r25], %r21; @%p6 bra have; bra wait; have:",
        before_reads: "",
        consumed: "bar.warp.sync -1; @%p5 mbarrier.arrive.shared.b64 _, [%r26];",
        parity: 0,
    };

    /// Two stages; warp 0 copies into them, warps 1 to 3 read: `other` has the full barriers at 0 and 8, the empty ones at
    /// 16 and 24.
    fn check(&self) -> Check {
        let Steps {
            init,
            after_init,
            producers_wait,
            copied,
            produced,
            consumers_wait,
            before_reads,
            consumed,
            parity,
        } = self;
        check(
            &format!(
                "10| {init}
                11| {after_init}
                and.b32 %r20, %r0, 31; setp.eq.u32 %p5, %r20, 0; mov.u32 %r29, 0;
                shl.b32 %r20, %r20, 2; add.u32 %r23, %r3, %r20; cvt.u64.u32 %rd5, %r20; add.u64 %rd5, %rd1, %rd5;
                xor.b32 %r27, %r20, 124; add.u32 %r24, %r3, %r27;
                mov.u32 %r25, other; add.u32 %r26, %r25, 16; mov.u32 %r21, {parity}; mov.u32 %r22, 1;
                @!%p2 bra consume;
                produce:
                20| {producers_wait}
                21| cp.async.ca.shared.global [%r23], [%rd5], 4;
                22| {copied}
                23| {produced}
                24| add.u64 %rd5, %rd5, 128; xor.b32 %r23, %r23, 128; add.u32 %r29, %r29, 1;
                xor.b32 %r25, %r25, 8; xor.b32 %r26, %r26, 8; and.b32 %r28, %r29, 1; setp.eq.u32 %p7, %r28, 0;
                @%p7 xor.b32 %r22, %r22, 1;
                setp.lt.u32 %p3, %r29, 6; @%p3 bra produce;
                25| cp.async.wait_all;
                bra over;
                consume:
                30| {consumers_wait}
                31| {before_reads}
                32| ld.shared.u32 %r10, [%r24];
                33| {consumed}
                34| xor.b32 %r24, %r24, 128; add.u32 %r29, %r29, 1;
                xor.b32 %r25, %r25, 8; xor.b32 %r26, %r26, 8; and.b32 %r28, %r29, 1; setp.eq.u32 %p7, %r28, 0;
                @%p7 xor.b32 %r21, %r21, 1;
                setp.lt.u32 %p3, %r29, 6; @%p3 bra consume;
                over:"
            ),
            2,
            128,
        )
    }
}

impl Check {
    #[track_caller]
    pub fn has(&self, kind: &str, first: u32, second: u32) -> &Self {
        assert!(self.summary().contains(&(kind.to_owned(), first, second)), "{:#?}", self.findings);
        self
    }
}

#[test]
fn a_pipeline_in_which_one_lane_arrives_for_its_warp_is_clean() {
    Steps::RIGHT.check().is_clean();
}

#[test]
fn a_pipeline_in_which_copies_arrive_by_themselves_is_clean() {
    let init = "@%p1 mbarrier.init.shared.b64 [other], 32; @%p1 mbarrier.init.shared.b64 [other+8], 32;
        @%p1 mbarrier.init.shared.b64 [other+16], 3; @%p1 mbarrier.init.shared.b64 [other+24], 3;";
    let produced = "cp.async.mbarrier.arrive.noinc.shared.b64 [%r25];";
    Steps { init, copied: "", produced, ..Steps::RIGHT }.check().is_clean();
    // The other way round: what is ordered by the arrival comes before it.
    let produced = "";
    let copied = "cp.async.mbarrier.arrive.noinc.shared.b64 [%r25+0];";
    Steps { init, copied, produced, ..Steps::RIGHT }.check().is_clean();
}

#[test]
fn reading_without_waiting_for_the_full_barrier_is_found() {
    Steps { consumers_wait: "", ..Steps::RIGHT }.check().has("ReadAfterWrite", 21, 32);
}

#[test]
fn waiting_for_the_wrong_parity_is_found() {
    // It's over at once before the first phase is complete, and not for a long time afterwards.
    Steps { parity: 1, ..Steps::RIGHT }.check().has("MbarrierDeadlock", 20, 0);
}

#[test]
fn producers_that_arrive_without_waiting_for_their_copies_are_found() {
    let check = Steps { copied: "", ..Steps::RIGHT }.check();
    check.has("ReadAfterWrite", 21, 32);
    let finding = check.findings.iter().find(|finding| finding.kind == FindingKind::ReadAfterWrite).unwrap();
    assert_eq!(finding.first.copy, Some(CopyState::UnderWay { left_open_at: None }));
}

#[test]
fn consumers_that_arrive_before_they_have_read_are_found() {
    Steps { before_reads: ARRIVE_EMPTY, consumed: "", ..Steps::RIGHT }.check().finds(&[("WriteAfterRead", 32, 21)]);
}

#[test]
fn a_lane_that_arrives_for_others_without_a_barrier_of_the_warp_is_found() {
    Steps { consumed: ARRIVE_EMPTY, ..Steps::RIGHT }.check().finds(&[("WriteAfterRead", 32, 21)]);
    let produced = "@%p5 mbarrier.arrive.shared.b64 _, [%r25];";
    Steps { produced, ..Steps::RIGHT }.check().finds(&[("ReadAfterWrite", 21, 32)]);
}

#[test]
fn producers_that_do_not_wait_for_the_empty_barrier_are_found() {
    Steps { producers_wait: "", ..Steps::RIGHT }.check().has("WriteAfterRead", 32, 21);
}

#[test]
fn an_initialisation_that_no_barrier_makes_known_is_found() {
    let check = Steps { after_init: "", ..Steps::RIGHT }.check();
    // Whoever came too early found none; whoever came later was lucky.
    assert!(
        check.summary().iter().any(|(kind, first, _)| kind == "ReadAfterWrite" && *first == 10),
        "{:#?}",
        check.findings
    );
    assert!(check.findings.iter().any(|finding| finding.touched.as_ref().is_some_and(|touched| touched.mbarrier)));
    assert_eq!(check.result, Ok(()));
}

#[test]
fn a_wrong_count_is_a_deadlock_that_says_what_is_missing() {
    let init = "@%p1 mbarrier.init.shared.b64 [other], 2; @%p1 mbarrier.init.shared.b64 [other+8], 1;
        @%p1 mbarrier.init.shared.b64 [other+16], 3; @%p1 mbarrier.init.shared.b64 [other+24], 3;";
    let check = Steps { init, ..Steps::RIGHT }.check();
    let deadlock = check.findings.iter().find_map(|finding| match &finding.kind {
        FindingKind::Fault(LaunchErrorKind::MbarrierDeadlock(wait)) => {
            Some((wait.clone(), finding.first.source.clone().unwrap().line))
        }
        _ => None,
    });
    let (wait, line) = deadlock.unwrap_or_else(|| panic!("{:#?}", check.findings));
    assert_eq!((wait.mbarrier.as_str(), wait.missing, wait.expected), ("`other`", 1, 2));
    assert!(wait.initialised.starts_with("kernel.rs:10") && line == 30, "{wait} {line}");
    let init = "@%p1 mbarrier.init.shared.b64 [other], 1; @%p1 mbarrier.init.shared.b64 [other+8], 1;
        @%p1 mbarrier.init.shared.b64 [other+16], 2; @%p1 mbarrier.init.shared.b64 [other+24], 2;";
    // Two of three have read, and the third is overtaken.
    Steps { init, ..Steps::RIGHT }.check().has("WriteAfterRead", 32, 21);
}

#[test]
fn arrivals_and_tests_of_all_threads_make_a_barrier() {
    let body = |wait: &str| {
        format!(
            "10| @%p1 mbarrier.init.shared.b64 [other], 64;
            11| bar.sync 0;
            12| st.shared.u32 [%r4], %r0;
            13| mbarrier.arrive.shared.b64 %rd7, [other];
            14| {wait}
            15| ld.shared.u32 %r10, [%r6];
            16| bar.sync 0;"
        )
    };
    check(&body("spin: mbarrier.test_wait.shared.b64 %p5, [other], %rd7; @!%p5 bra spin;"), 2, 64).is_clean();
    check(&body(""), 2, 64).finds(&[("ReadAfterWrite", 12, 15)]);
    // Asking once, and going on whatever the answer is.
    check(&body("mbarrier.test_wait.shared.b64 %p5, [other], %rd7;"), 2, 64).finds(&[("ReadAfterWrite", 12, 15)]);
}

#[test]
fn a_global_write_is_known_after_an_mbarrier_too() {
    check(
        "10| @%p1 mbarrier.init.shared.b64 [other], 64;
        11| bar.sync 0;
        12| st.global.u32 [%rd3], %r0;
        13| mbarrier.arrive.shared.b64 %rd7, [other];
        14| spin: mbarrier.test_wait.shared.b64 %p5, [other], %rd7; @!%p5 bra spin;
        sub.u32 %r10, 63, %r0; mad.lo.u32 %r10, %r1, 64, %r10; mul.wide.u32 %rd8, %r10, 4; add.u64 %rd8, %rd1, %rd8;
        15| ld.global.u32 %r10, [%rd8];",
        2,
        64,
    )
    .is_clean();
}
