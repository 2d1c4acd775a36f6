//! Branches, tables of branches, predication, exit.

use crate::support::run_body;

#[test]
fn lanes_part_and_meet_again() {
    // After the two sides meet, all lanes vote together again.
    let got: Vec<u32> = run_body(
        "",
        "rem.u32 %r2, %thread, 5; setp.lt.u32 %p0, %r2, 2; @%p0 bra low;
        setp.eq.u32 %p1, %r2, 3; @%p1 bra three;
        add.u32 %r3, %thread, 100; bra.uni meet;
        three: add.u32 %r3, %thread, 300; bra.uni meet;
        low: setp.eq.u32 %p2, %r2, 0; add.u32 %r3, %thread, 10; @%p2 add.u32 %r3, %r3, 10;
        meet: activemask.b32 %r4; vote.sync.ballot.b32 %r5, %p0, 0xffffffff; xor.b32 %r4, %r4, %r5;
        mad.wide.u32 %rd2, %thread, 8, %out; st.global.v2.u32 [%rd2], {%r3, %r5};",
        1,
        64,
        [&[], &[]],
        128,
    );
    for (thread, words) in got.chunks(2).enumerate() {
        let thread = thread as u32;
        let want = thread + [20, 10, 100, 300, 100][thread as usize % 5];
        let first = thread / 32 * 32;
        let ballot = (0..32).fold(0, |mask, lane| mask | u32::from((first + lane) % 5 < 2) << lane);
        assert_eq!(words, [want, ballot], "thread {thread}");
    }
}

#[test]
fn loops_run_as_often_as_each_lane_wants() {
    let got: Vec<u32> = run_body(
        "",
        "rem.u32 %r2, %thread, 13; mov.u32 %r3, 0; mov.u32 %r4, 0;
        outer: setp.ge.u32 %p0, %r3, %r2; @%p0 bra end;
        mov.u32 %r5, %r3;
        inner: setp.eq.u32 %p1, %r5, 0; @%p1 bra next; add.u32 %r4, %r4, %r5; sub.u32 %r5, %r5, 1;
        setp.gt.u32 %p2, %r4, 60; @%p2 bra end; bra inner;
        next: add.u32 %r3, %r3, 1; bra outer;
        end: mad.wide.u32 %rd2, %thread, 4, %out; st.global.u32 [%rd2], %r4;",
        2,
        70,
        [&[], &[]],
        140,
    );
    let want: Vec<u32> = (0..140u32)
        .map(|thread| {
            let mut sum = 0;
            'outer: for i in 0..thread % 13 {
                for j in (1..=i).rev() {
                    sum += j;
                    if sum > 60 {
                        break 'outer;
                    }
                }
            }
            sum
        })
        .collect();
    assert_eq!(got, want);
}

#[test]
fn tables_of_branches_pick_a_target_per_lane() {
    let got: Vec<u32> = run_body(
        "",
        "rem.u32 %r2, %thread, 4; mov.u32 %r3, 0;
        targets: .branchtargets zero, one, two, one;
        brx.idx %r2, targets;
        zero: add.u32 %r3, %r3, 1000; bra end;
        one: add.u32 %r3, %r3, 7;
        two: add.u32 %r3, %r3, 20;
        end: add.u32 %r3, %r3, %thread;
        mad.wide.u32 %rd2, %thread, 4, %out; st.global.u32 [%rd2], %r3;",
        1,
        50,
        [&[], &[]],
        50,
    );
    let want: Vec<u32> = (0..50u32).map(|i| i + [1000, 27, 20, 27][i as usize % 4]).collect();
    assert_eq!(got, want);
}

#[test]
fn any_instruction_can_be_predicated_and_negated() {
    let got: Vec<u32> = run_body(
        "",
        "and.b32 %r2, %thread, 2; setp.ne.u32 %p0, %r2, 0; setp.lt.u32 %p1, %thread, 20;
        mov.u32 %r3, 1; @%p0 add.u32 %r3, %r3, 10; @!%p0 mul.lo.u32 %r3, %r3, 5; @%p1 shl.b32 %r3, %r3, 4;
        @!%p1 setp.eq.u32 %p0, %thread, 21; selp.u32 %r4, 1000, 0, %p0; add.u32 %r3, %r3, %r4;
        @%p0 st.global.u32 [%out], %thread;
        mad.wide.u32 %rd2, %thread, 4, %out; st.global.u32 [%rd2+4], %r3;",
        1,
        32,
        [&[], &[]],
        33,
    );
    let want: Vec<u32> = (0..32u32)
        .map(|i| {
            let p0 = i & 2 != 0;
            let value = if p0 { 11 } else { 5 } << if i < 20 { 4 } else { 0 };
            value + if if i < 20 { p0 } else { i == 21 } { 1000 } else { 0 }
        })
        .collect();
    assert_eq!(got[1..], want);
}

#[test]
fn exit_and_ret_end_single_lanes() {
    let got: Vec<u32> = run_body(
        "",
        "mad.wide.u32 %rd2, %thread, 4, %out; st.global.u32 [%rd2], 1;
        rem.u32 %r2, %thread, 3; setp.eq.u32 %p0, %r2, 0; @%p0 exit; st.global.u32 [%rd2], 2;
        setp.eq.u32 %p1, %r2, 1; @%p1 ret; st.global.u32 [%rd2], 3;",
        2,
        40,
        [&[], &[]],
        80,
    );
    assert_eq!(got, (0..80u32).map(|i| i % 40 + i / 40 * 40).map(|i| i % 3 + 1).collect::<Vec<_>>());
}

#[test]
fn backward_jumps_into_shared_code_reconverge() {
    // Two entries into one loop body: an irreducible graph.
    let got: Vec<u32> = run_body(
        "",
        "mov.u32 %r3, 0; and.b32 %r2, %thread, 1; setp.eq.u32 %p0, %r2, 0; mov.u32 %r4, %thread; @%p0 bra middle;
        top: add.u32 %r3, %r3, 100;
        middle: add.u32 %r3, %r3, 1; shr.u32 %r4, %r4, 1; setp.ne.u32 %p1, %r4, 0; @%p1 bra top;
        mad.wide.u32 %rd2, %thread, 4, %out; st.global.u32 [%rd2], %r3;",
        1,
        64,
        [&[], &[]],
        64,
    );
    let want: Vec<u32> = (0..64u32)
        .map(|thread| {
            let rounds = if thread == 0 { 1 } else { thread.ilog2() + 1 };
            rounds + 100 * (rounds - u32::from(thread % 2 == 0))
        })
        .collect();
    assert_eq!(got, want);
}

#[test]
fn a_label_may_stand_anywhere_and_names_may_be_reused_in_scopes() {
    let got: Vec<u32> = run_body(
        "",
        "{ .reg .u32 %x; mov.u32 %x, 5; { .reg .u32 %x; mov.u32 %x, 9; st.global.u32 [%out], %x; } st.global.u32 [%out+4], %x; }
        bra $L__last; 
        $L__dead:
        st.global.u32 [%out+8], 1;
        $L__last:",
        1,
        1,
        [&[], &[]],
        3,
    );
    assert_eq!(got, [9, 5, 0]);
}

#[test]
fn a_table_of_branches_that_all_lanes_leave_alike() {
    let got: Vec<u32> = run_body(
        "",
        "mov.u32 %r3, 0; mov.u32 %r2, 3;
        again: add.u32 %r3, %r3, 1; sub.u32 %r2, %r2, 1;
        targets: .branchtargets end, again, again;
        brx.idx %r2, targets;
        end: mad.wide.u32 %rd2, %thread, 4, %out; st.global.u32 [%rd2], %r3;",
        1,
        64,
        [&[], &[]],
        64,
    );
    assert_eq!(got, [3; 64]);
}
