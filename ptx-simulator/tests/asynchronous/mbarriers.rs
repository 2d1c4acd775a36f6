//! mbarriers: phases, arrivals, tests, and what goes wrong with them.

use crate::{failure, numbers, run};
use ptx_simulator::{LaunchError, LaunchErrorKind, MbarrierProblem, MbarrierWait};

/// Waits for the parity in `%r20` of the mbarrier at `full`, in the form that compilers and people write.
const WAIT: &str = "spin: mbarrier.test_wait.parity.shared.b64 %p5, [full], %r20; @%p5 bra done; bra spin; done:";

/// Thread 0 initialises `full` for `count` arrivals, `empty` for `other`, and all wait for that.
fn begin(count: u32, other: u32) -> String {
    format!(
        "setp.eq.u32 %p7, %thread, 0;
        @%p7 mbarrier.init.shared.b64 [full], {count};
        @%p7 mbarrier.init.shared::cta.b64 [empty], {other};
        bar.sync 0;"
    )
}

fn deadlock(error: &LaunchError) -> &MbarrierWait {
    match &error.kind {
        LaunchErrorKind::MbarrierDeadlock(wait) => wait,
        _ => panic!("{error}"),
    }
}

const OUT: &str = "mul.wide.u32 %rd1, %thread, 4; add.u64 %rd1, %out, %rd1; st.global.u32 [%rd1], %r8;";

#[test]
fn a_phase_is_over_when_all_have_arrived() {
    // Warps pass a sum on through shared memory, round by round; one arrival for each thread.
    for (arrive, wait) in [
        ("mbarrier.arrive.shared.b64 %rd5, [full];", "mbarrier.test_wait.shared.b64 %p5, [full], %rd5;"),
        (
            "mbarrier.arrive.release.cta.shared::cta.b64 %rd5, [full];",
            "mbarrier.try_wait.shared::cta.b64 %p5, [full], %rd5, 1000;",
        ),
        (
            "mbarrier.arrive.shared.b64 _, [full], 1;",
            "mbarrier.test_wait.parity.acquire.cta.shared.b64 %p5, [full], %r20;",
        ),
        ("mbarrier.arrive.shared.b64 _, [%r21];", "mbarrier.try_wait.parity.shared.b64 %p5, [%r21], %r20;"),
        ("mbarrier.arrive.b64 _, [%rd21];", "mbarrier.test_wait.parity.b64 %p5, [%rd21], %r20;"),
    ] {
        let got = run(
            &format!(
                "{}
                mov.u32 %r21, full; mov.u64 %rd21, full; cvta.shared.u64 %rd21, %rd21;
                mov.u32 %r20, 0; mov.u32 %r8, %thread; mov.u32 %r9, 0;
                mad.lo.u32 %r2, %thread, 4, %r30; sub.u32 %r3, 127, %thread; mad.lo.u32 %r3, %r3, 4, %r30;
                again:
                st.shared.u32 [%r2], %r8; {arrive}
                spin: {wait} @!%p5 bra spin; xor.b32 %r20, %r20, 1;
                ld.shared.u32 %r4, [%r3]; mad.lo.u32 %r8, %r8, 3, %r4; {arrive}
                spun: {wait} @!%p5 bra spun; xor.b32 %r20, %r20, 1;
                add.u32 %r9, %r9, 1; setp.lt.u32 %p0, %r9, 5; @%p0 bra again;
                {OUT}",
                begin(128, 1)
            ),
            128,
            [&[], &[]],
            128,
        );
        let mut want: Vec<u32> = (0..128).collect();
        for _ in 0..5 {
            want = (0..128).map(|thread| want[thread].wrapping_mul(3).wrapping_add(want[127 - thread])).collect();
        }
        assert_eq!(got, want, "{arrive} {wait}");
    }
}

#[test]
fn one_lane_arrives_for_its_warp_and_producers_run_ahead() {
    // Two stages between a producing warp and three consuming ones, `full` and `empty` one each for both stages: the
    // producer copies, waits and arrives; each consuming warp arrives with one lane when all its lanes have read.
    let got = run(
        &format!(
            "{}
            and.b32 %r2, %thread, 31; setp.eq.u32 %p2, %r2, 0; mad.lo.u32 %r3, %r2, 4, %r30;
            setp.lt.u32 %p3, %thread, 32; mov.u32 %r20, 0; mov.u32 %r22, 1; mov.u32 %r8, 0; mov.u32 %r9, 0;
            mul.wide.u32 %rd4, %r2, 4; add.u64 %rd4, %in0, %rd4;
            @!%p3 bra consume;
            produce:
            free: mbarrier.test_wait.parity.shared.b64 %p5, [empty], %r22; @!%p5 bra free; xor.b32 %r22, %r22, 1;
            cp.async.ca.shared.global [%r3], [%rd4], 4; add.u64 %rd4, %rd4, 128;
            cp.async.wait_all; bar.warp.sync -1;
            @%p2 mbarrier.arrive.shared.b64 _, [full];
            add.u32 %r9, %r9, 1; setp.lt.u32 %p0, %r9, 7; @%p0 bra produce;
            bra over;
            consume:
            {WAIT} xor.b32 %r20, %r20, 1;
            ld.shared.u32 %r4, [%r3]; add.u32 %r8, %r8, %r4;
            bar.warp.sync -1; @%p2 mbarrier.arrive.shared.b64 _, [empty];
            add.u32 %r9, %r9, 1; setp.lt.u32 %p0, %r9, 7; @%p0 bra consume;
            over:
            {OUT}",
            begin(1, 3)
        ),
        128,
        [&numbers(7 * 32), &[]],
        128,
    );
    let sum = |lane: u32| (0..7).map(|round| 32 * round + lane).sum::<u32>();
    let want: Vec<u32> = (0..128).map(|thread| if thread < 32 { 0 } else { sum(thread % 32) }).collect();
    assert_eq!(got, want);
}

#[test]
fn lanes_of_one_warp_wait_for_each_other() {
    // Lane 31 arrives after a branch that the others spin in front of.
    let got = run(
        &format!(
            "{} mov.u32 %r20, 0; mov.u32 %r8, 1; setp.eq.u32 %p1, %thread, 31; @%p1 bra late;
            {WAIT} ld.shared.u32 %r8, [%r30]; bra over;
            late: st.shared.u32 [%r30], 9; mbarrier.arrive.shared.b64 _, [full];
            over: {OUT}",
            begin(1, 1)
        ),
        32,
        [&[], &[]],
        32,
    );
    assert_eq!(got, (0..32).map(|lane| if lane == 31 { 1 } else { 9 }).collect::<Vec<u32>>());
}

#[test]
fn copies_arrive_by_themselves() {
    // Expected arrivals are those of the copies (`noinc`), or one more of each thread.
    for (count, arrive) in [
        (64, "cp.async.mbarrier.arrive.noinc.shared::cta.b64 [full];"),
        (64, "cp.async.mbarrier.arrive.shared.b64 [full]; mbarrier.arrive.shared.b64 _, [full];"),
        (64, "mov.u64 %rd21, full; cvta.shared.u64 %rd21, %rd21; cp.async.mbarrier.arrive.noinc.b64 [%rd21];"),
    ] {
        let got = run(
            &format!(
                "{} mov.u32 %r20, 0; mad.lo.u32 %r2, %thread, 4, %r30;
                mul.wide.u32 %rd4, %thread, 4; add.u64 %rd4, %in0, %rd4;
                st.shared.u32 [%r2], 0;
                cp.async.ca.shared.global [%r2], [%rd4], 4; {arrive}
                {WAIT}
                xor.b32 %r3, %thread, 63; mad.lo.u32 %r3, %r3, 4, %r30; ld.shared.u32 %r8, [%r3];
                {OUT}",
                begin(count, 1)
            ),
            64,
            [&numbers(64), &[]],
            64,
        );
        assert_eq!(got, (0..64).rev().collect::<Vec<u32>>(), "{arrive}");
    }
}

#[test]
fn arrivals_without_copies_come_at_once_and_after_a_wait_too() {
    for before in ["", "cp.async.ca.shared.global [%r30], [%in0], 4; cp.async.wait_all;"] {
        let got = run(
            &format!(
                "{} mov.u32 %r20, 0; {before} cp.async.mbarrier.arrive.noinc.shared.b64 [full]; {WAIT}
                mov.u32 %r8, 5; {OUT}",
                begin(32, 1)
            ),
            32,
            [&numbers(1), &[]],
            32,
        );
        assert_eq!(got, [5; 32]);
    }
}

#[test]
fn states_tell_how_many_arrivals_a_phase_lacked() {
    let got = run(
        &format!(
            "{} mbarrier.arrive.noComplete.shared.b64 %rd5, [full], 3; mbarrier.pending_count.b64 %r8, %rd5; {OUT}
            mbarrier.arrive.shared.b64 %rd5, [full], 2; mbarrier.pending_count.b64 %r8, %rd5;
            st.global.u32 [%rd1+4], %r8;
            mbarrier.inval.shared.b64 [full]; st.shared.u64 [full], 7; mbarrier.init.shared.b64 [full], 1;
            mbarrier.arrive_drop.shared.b64 %rd5, [empty]; mbarrier.arrive.shared.b64 %rd5, [empty];
            mbarrier.arrive.shared.b64 %rd6, [empty]; mbarrier.pending_count.b64 %r8, %rd6; st.global.u32 [%rd1+8], %r8;",
            begin(5, 2)
        ),
        1,
        [&[], &[]],
        3,
    );
    // After one of two has dropped out, phases lack one.
    assert_eq!(got, [5, 2, 1]);
}

#[test]
fn waiting_for_what_cannot_come_is_an_error_that_says_how_much_is_missing() {
    let error = failure(&format!("{} mov.u32 %r20, 0; mbarrier.arrive.shared.b64 _, [full]; {WAIT}", begin(40, 1)), 32);
    let wait = deadlock(&error);
    assert_eq!((wait.mbarrier.as_str(), wait.missing, wait.expected, wait.phase), ("`full`", 8, 40, 0));
    assert!(wait.initialised.starts_with("PTX line") && wait.others == "there are no others", "{error}");
    // Half of the block waits at a barrier, a quarter has exited.
    let error = failure(
        &format!(
            "{} mov.u32 %r20, 0; setp.lt.u32 %p1, %thread, 32; @%p1 ret; setp.lt.u32 %p1, %thread, 64; @%p1 bra ask;
            bar.sync 1; ask: {WAIT}",
            begin(1, 1)
        ),
        128,
    );
    let MbarrierWait { missing, others, .. } = deadlock(&error);
    assert_eq!(*missing, 1);
    assert_eq!(error.thread, [32, 0, 0]);
    assert!(others.contains("64 wait at PTX line") && others.contains("32 have exited"), "{others}");
    // The wrong parity waits for the phase after.
    let error = failure(&format!("{} mov.u32 %r20, 1; mbarrier.arrive.shared.b64 _, [full]; {WAIT}", begin(32, 1)), 32);
    assert_eq!((deadlock(&error).missing, deadlock(&error).phase), (32, 1));
}

#[test]
fn a_phase_waits_for_the_bytes_that_it_was_told_to_expect() {
    // Warp 1 counts 96 bytes as complete, in two parts, and stores before each; whoever waits sees both.
    for (expect, wait) in [
        ("mbarrier.arrive.expect_tx.shared.b64 _, [full], 96;", "test_wait"),
        ("mbarrier.arrive.expect_tx.release.cta.shared::cta.b64 %rd5, [full], %r7;", "try_wait"),
        (
            "mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [full], 96; mbarrier.arrive.shared::cta.b64 %rd5, [full];",
            "test_wait",
        ),
    ] {
        let got = run(
            &format!(
                "{} mov.u32 %r7, 96; mov.u32 %r20, 0; mov.u32 %r8, 0; mov.u32 %r9, 0;
                setp.eq.u32 %p1, %thread, 63; setp.lt.u32 %p2, %thread, 32;
                again:
                @%p7 {}
                @%p2 bra ask;
                @!%p1 bra ask;
                mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [full], 32;
                add.u32 %r10, %r9, 17; st.shared.u32 [%r30], %r10;
                mbarrier.complete_tx.shared::cta.b64 [full], 64;
                ask: spin: mbarrier.{wait}.parity.shared.b64 %p5, [full], %r20; @!%p5 bra spin; xor.b32 %r20, %r20, 1;
                ld.shared.u32 %r4, [%r30]; add.u32 %r8, %r8, %r4; bar.sync 0;
                add.u32 %r9, %r9, 1; setp.lt.u32 %p0, %r9, 5; @%p0 bra again;
                {OUT}",
                begin(1, 1),
                expect.replace("; mbarrier", "; @%p7 mbarrier")
            ),
            64,
            [&[], &[]],
            64,
        );
        assert_eq!(got, [5 * 17 + 10; 64], "{expect}");
    }
}

#[test]
fn bytes_that_never_come_are_an_error_that_says_how_many() {
    let error = failure(
        &format!(
            "{} mov.u32 %r20, 0; @%p7 mbarrier.arrive.expect_tx.shared.b64 _, [full], 4096;
            @%p7 mbarrier.complete_tx.shared::cta.b64 [full], 96; {WAIT}",
            begin(1, 1)
        ),
        32,
    );
    let wait = deadlock(&error);
    assert_eq!((wait.missing, wait.expected, wait.bytes, wait.phase), (0, 1, 4000, 0));
    assert!(
        error.to_string().contains("0 of 1 arrivals and 4000 expected bytes of its phase 0 are missing"),
        "{error}"
    );
}

#[test]
fn misuse_is_an_error() {
    let problem = |body: &str| {
        let error = failure(body, 32);
        match &error.kind {
            LaunchErrorKind::Mbarrier { problem, .. } => problem.clone(),
            _ => panic!("{error}"),
        }
    };
    let begun = begin(32, 1);
    assert_eq!(problem("mbarrier.arrive.shared.b64 _, [full];"), MbarrierProblem::NotInitialised);
    assert_eq!(problem("mbarrier.init.shared.b64 [full], 32;"), MbarrierProblem::InitialisedTwice);
    assert_eq!(problem(&begin(0, 1)), MbarrierProblem::BadCount { count: 0 });
    assert_eq!(
        problem(&format!("{begun} mbarrier.arrive.shared.b64 _, [full+0], 33;")),
        MbarrierProblem::TooManyArrivals { pending: 32, count: 33 }
    );
    assert_eq!(
        problem(&format!("{begun} mbarrier.arrive.noComplete.shared.b64 %rd5, [empty], 1;")),
        MbarrierProblem::CompletedUnawares
    );
    assert_eq!(
        problem(&format!("{begun} st.shared.u32 [full+4], 1; mbarrier.arrive.shared.b64 _, [full];")),
        MbarrierProblem::Overwritten
    );
    assert_eq!(
        problem(&format!("{begun} @%p7 mbarrier.arrive.expect_tx.shared.b64 _, [empty], 0x100000;")),
        MbarrierProblem::ExpectsTooMuch { bytes: 0x100000 }
    );
    assert_eq!(
        problem(&format!(
            "{begun} @%p7 mbarrier.arrive.expect_tx.shared.b64 _, [empty], 32;
            @%p7 mbarrier.complete_tx.shared::cta.b64 [empty], 64;"
        )),
        MbarrierProblem::TooManyBytes { lacking: 32, bytes: 64 }
    );
    let kind = failure("mbarrier.arrive.shared.b64 _, [full+4];", 1).kind;
    assert!(matches!(kind, LaunchErrorKind::Misaligned { bytes: 8, .. }));
    let kind = failure("mov.u32 %r2, 0x4000; mbarrier.arrive.shared.b64 _, [%r2];", 1).kind;
    assert!(matches!(kind, LaunchErrorKind::OutOfBounds { bytes: 8, .. }));
}

#[test]
fn lanes_that_wait_keep_their_wide_registers_while_another_lane_uses_narrow_ones() {
    // Lane 0 waits for the second warp, the others for lane 0, with a 64-bit number each. Then lane 0 fills many registers.
    let numbers = 40..72;
    let fill: String = numbers.clone().map(|register| format!("add.u32 %w{register}, %r9, {register};")).collect();
    let keep: String = numbers.map(|register| format!("add.u32 %r11, %r11, %w{register};")).collect();
    let words = run(
        &format!(
            ".reg .b32 %w<80>;
            mov.u32 %r1, %tid.x; setp.eq.u32 %p1, %r1, 0; setp.ge.u32 %p2, %r1, 32; mov.u32 %r9, 0; mov.u32 %r11, 0;
            mov.u32 %r12, 0; mov.u32 %r13, 0;
            @%p1 mbarrier.init.shared.b64 [full], 1; bar.sync 0;
            @%p2 bra second;
            again: mul.wide.u32 %rd5, %r1, 1000;
            bar.warp.sync -1;
            cvt.u32.u64 %r10, %rd5; add.u32 %r12, %r12, %r10;
            @!%p1 bra next;
            wait: mbarrier.test_wait.parity.shared.b64 %p3, [full], %r9; @!%p3 bra wait;
            {fill} {keep}
            next: add.u32 %r13, %r13, 1; setp.lt.u32 %p4, %r13, 2; @%p4 bra again;
            mul.wide.u32 %rd6, %r1, 4; add.u64 %rd6, %out, %rd6; st.global.u32 [%rd6], %r12;
            bra over;
            second: setp.eq.u32 %p5, %r1, 32; @%p5 mbarrier.arrive.shared.b64 _, [full];
            over:"
        ),
        64,
        [&[0; 4], &[0; 4]],
        32,
    );
    assert_eq!(words, (0..32).map(|lane| 2000 * lane).collect::<Vec<u32>>());
}
