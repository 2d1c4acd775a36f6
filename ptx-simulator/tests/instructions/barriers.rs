//! Barriers of a block: plain, numbered, counted, reducing; barriers of a warp; fences.

use crate::support::run_body;

#[test]
fn a_barrier_separates_writes_from_reads() {
    for barrier in [
        "bar.sync 0;",
        "barrier.sync 0;",
        "barrier.sync.aligned 3;",
        "mov.u32 %r9, 2; bar.sync %r9;",
        "bar.cta.sync 1;",
    ] {
        let got: Vec<u32> = run_body(
            "",
            &format!(
                ".shared .u32 words[160]; mov.u32 %r2, %tid.x; mov.u64 %rd0, words; mad.wide.u32 %rd1, %r2, 4, %rd0;
                mov.u32 %r4, 0;
                again: xor.b32 %r5, %thread, %r4; st.shared.u32 [%rd1], %r5;
                {barrier}
                sub.u32 %r6, 159, %r2; mad.wide.u32 %rd3, %r6, 4, %rd0; ld.shared.u32 %r7, [%rd3]; add.u32 %r8, %r8, %r7;
                {barrier}
                add.u32 %r4, %r4, 1; setp.lt.u32 %p0, %r4, 6; @%p0 bra again;
                mul.wide.u32 %rd2, %thread, 4; add.u64 %rd2, %out, %rd2; st.global.u32 [%rd2], %r8;"
            )
            .replace("mov.u32 %r4, 0;", "mov.u32 %r4, 0; mov.u32 %r8, 0;"),
            2,
            160,
            [&[], &[]],
            320,
        );
        let want: Vec<u32> = (0..320u32)
            .map(|thread| {
                let partner = thread / 160 * 160 + 159 - thread % 160;
                (0..6).map(|round| partner ^ round).sum()
            })
            .collect();
        assert_eq!(got, want, "{barrier}");
    }
}

#[test]
fn warps_meet_at_counted_barriers_without_the_rest_of_the_block() {
    // Warps 0 and 1 exchange through barrier 1, warps 2 and 3 through barrier 2, five times different numbers of
    // rounds.
    let got: Vec<u32> = run_body(
        "",
        ".shared .u32 words[128]; mov.u32 %r2, %tid.x; shr.u32 %r3, %r2, 6; add.u32 %r4, %r3, 1;
        mov.u64 %rd0, words; mad.wide.u32 %rd1, %r2, 4, %rd0; xor.b32 %r5, %r2, 32; mad.wide.u32 %rd3, %r5, 4, %rd0;
        mad.lo.u32 %r6, %r3, 3, 2; mov.u32 %r7, %r2;
        again: st.shared.u32 [%rd1], %r7; bar.sync %r4, 64; ld.shared.u32 %r8, [%rd3]; bar.sync %r4, 64;
        mad.lo.u32 %r7, %r7, 3, %r8; sub.u32 %r6, %r6, 1; setp.ne.u32 %p0, %r6, 0; @%p0 bra again;
        mad.wide.u32 %rd2, %thread, 4, %out; st.global.u32 [%rd2], %r7;",
        2,
        128,
        [&[], &[]],
        256,
    );
    let mut want: Vec<u32> = (0..128).collect();
    for thread in 0..64usize {
        let first = thread / 32 * 64 + thread % 32;
        for _ in 0..2 + thread / 32 * 3 {
            let (a, b) = (want[first], want[first + 32]);
            want[first] = a.wrapping_mul(3).wrapping_add(b);
            want[first + 32] = b.wrapping_mul(3).wrapping_add(a);
        }
    }
    assert_eq!(got, want.repeat(2));
}

#[test]
fn producers_arrive_and_consumers_wait() {
    let got: Vec<u32> = run_body(
        "",
        ".shared .u32 words[32]; mov.u32 %r2, %tid.x; mov.u64 %rd0, words; and.b32 %r3, %r2, 31; mad.wide.u32 %rd1, %r3, 4, %rd0;
        setp.lt.u32 %p0, %r2, 32; @%p0 bra produce;
        bar.sync 5, 64; ld.shared.u32 %r4, [%rd1]; mad.wide.u32 %rd2, %r3, 4, %out; st.global.u32 [%rd2], %r4; bra end;
        produce: mul.lo.u32 %r5, %r2, %r2; st.shared.u32 [%rd1], %r5; bar.arrive 5, 64;
        end:",
        1,
        64,
        [&[], &[]],
        32,
    );
    assert_eq!(got, (0..32u32).map(|i| i * i).collect::<Vec<_>>());
}

#[test]
fn barriers_reduce_predicates_over_the_block() {
    let got: Vec<u32> = run_body(
        "",
        "mov.u32 %r2, %tid.x; rem.u32 %r3, %r2, 3; setp.eq.u32 %p0, %r3, 0; setp.lt.u32 %p1, %r2, 90;
        setp.gt.u32 %p2, %r2, 1000;
        bar.red.popc.u32 %r4, 0, %p0; bar.red.popc.u32 %r5, 1, !%p0;
        bar.red.and.pred %p3, 0, %p1; bar.red.or.pred %p4, 0, %p2; barrier.red.or.pred %p5, 2, %p0; bar.red.and.pred %p6, 0, !%p2;
        selp.u32 %r6, 1, 0, %p3; selp.u32 %r7, 2, 0, %p4; or.b32 %r6, %r6, %r7; selp.u32 %r7, 4, 0, %p5; or.b32 %r6, %r6, %r7;
        selp.u32 %r7, 8, 0, %p6; or.b32 %r6, %r6, %r7;
        mad.lo.u32 %r4, %r4, 1000, %r5; mad.lo.u32 %r4, %r4, 16, %r6;
        mad.wide.u32 %rd2, %thread, 4, %out; st.global.u32 [%rd2], %r4;",
        2,
        96,
        [&[], &[]],
        192,
    );
    assert_eq!(got, vec![(32 * 1000 + 64) * 16 + 12; 192]);
}

#[test]
fn divergent_lanes_of_a_warp_meet_at_an_unaligned_barrier() {
    let got: Vec<u32> = run_body(
        "",
        ".shared .u32 words[64]; mov.u32 %r2, %tid.x; mov.u64 %rd0, words; mad.wide.u32 %rd1, %r2, 4, %rd0;
        and.b32 %r3, %r2, 1; setp.eq.u32 %p0, %r3, 0; @%p0 bra even;
        mul.lo.u32 %r4, %r2, 10; st.shared.u32 [%rd1], %r4; barrier.sync 0; bra join;
        even: mul.lo.u32 %r4, %r2, 7; st.shared.u32 [%rd1], %r4; barrier.sync 0;
        join: xor.b32 %r5, %r2, 33; mad.wide.u32 %rd3, %r5, 4, %rd0; ld.shared.u32 %r6, [%rd3];
        mad.wide.u32 %rd2, %thread, 4, %out; st.global.u32 [%rd2], %r6;",
        1,
        64,
        [&[], &[]],
        64,
    );
    let want: Vec<u32> = (0..64u32).map(|i| (i ^ 33) * if i % 2 == 0 { 10 } else { 7 }).collect();
    assert_eq!(got, want);
}

#[test]
fn lanes_of_a_warp_meet_at_bar_warp_sync() {
    let got: Vec<u32> = run_body(
        "",
        ".shared .u32 words[32]; mov.u64 %rd0, words; mad.wide.u32 %rd1, %thread, 4, %rd0;
        and.b32 %r3, %thread, 1; setp.eq.u32 %p0, %r3, 0; @%p0 bra even;
        mov.u32 %r4, 5; st.shared.u32 [%rd1], %r4; bar.warp.sync 0xffffffff; bra join;
        even: mov.u32 %r4, 6; st.shared.u32 [%rd1], %r4; bar.warp.sync 0xffffffff;
        join: xor.b32 %r5, %thread, 1; mad.wide.u32 %rd3, %r5, 4, %rd0; ld.shared.u32 %r6, [%rd3];
        mad.wide.u32 %rd2, %thread, 4, %out; st.global.u32 [%rd2], %r6;",
        1,
        32,
        [&[], &[]],
        32,
    );
    assert_eq!(got, [5, 6].repeat(16));
}

#[test]
fn fences_of_every_scope_are_accepted() {
    let got: Vec<u32> = run_body(
        "",
        "st.global.u32 [%out], 1; membar.cta; membar.gl; membar.sys; fence.acq_rel.cta; fence.acq_rel.gpu; fence.sc.sys;
        fence.acq_rel.cluster; ld.global.u32 %r2, [%out]; add.u32 %r2, %r2, 1; st.global.u32 [%out], %r2; nanosleep.u32 20;",
        1,
        1,
        [&[], &[]],
        1,
    );
    assert_eq!(got, [2]);
}
