//! Lanes of a warp talk to each other: shuffles, votes, matches, reductions.

use crate::support::run_body;

/// shfl.sync of `60000 + lane * 7` for a whole warp: value and predicate of every lane.
fn shuffle(mode: &str, source: &str, clamp: u32, members: u32) -> Vec<[u32; 2]> {
    let body = format!(
        "mad.lo.u32 %r2, %thread, 7, 60000; mov.u32 %r4, 1; mov.u32 %r3, 12345; setp.eq.u32 %p1, 0, 1;
        mov.u32 %r9, {members}; shr.u32 %r8, %r9, %thread; and.b32 %r8, %r8, 1; setp.eq.u32 %p2, %r8, 1;
        {source}
        @%p2 shfl.sync.{mode}.b32 %r3|%p1, %r2, %r7, {clamp:#x}, %r9;
        selp.u32 %r4, 1, 0, %p1;
        mad.wide.u32 %rd2, %thread, 8, %out; st.global.v2.u32 [%rd2], {{%r3, %r4}};"
    );
    let words: Vec<u32> = run_body("", &body, 1, 32, [&[], &[]], 64);
    words.chunks(2).map(|pair| [pair[0], pair[1]]).collect()
}

/// The lane that a shuffle reads and whether it is in range, as the PTX manual computes it.
fn source_lane(mode: &str, lane: u32, source: u32, clamp: u32) -> (u32, bool) {
    let (segment, bound) = (clamp >> 8 & 31, clamp & 31);
    let source = source & 31;
    let highest = lane & segment | bound & !segment;
    let lowest = lane & segment;
    let (from, inside) = match mode {
        "up" => (lane.wrapping_sub(source) as i32, lane.wrapping_sub(source) as i32 >= highest as i32),
        "down" => ((lane + source) as i32, lane + source <= highest),
        "bfly" => ((lane ^ source) as i32, lane ^ source <= highest),
        "idx" => ((lowest | source & !segment) as i32, lowest | source & !segment <= highest),
        other => unreachable!("{other} is no shuffle"),
    };
    if inside { (from as u32, true) } else { (lane, false) }
}

#[test]
fn shuffles_of_every_mode_width_and_distance() {
    for mode in ["up", "down", "bfly", "idx"] {
        for width in [32u32, 16, 8, 4, 2, 1] {
            let segment = 32 - width;
            let bound = if mode == "up" { 0 } else { 31 };
            for distance in [0u32, 1, 3, 8, 15, 31, 33] {
                let clamp = segment << 8 | bound;
                let got = shuffle(mode, &format!("mov.u32 %r7, {distance};"), clamp, u32::MAX);
                for (lane, pair) in got.iter().enumerate() {
                    let (from, inside) = source_lane(mode, lane as u32, distance, clamp);
                    assert_eq!(
                        *pair,
                        [60000 + from * 7, inside.into()],
                        "{mode} width {width} by {distance}, lane {lane}"
                    );
                }
            }
        }
    }
}

#[test]
fn shuffles_read_any_lane_and_leave_others_alone() {
    // Every lane names its own source; only the members take part, and they read members.
    let members = 0xf0f0_f0f0u32;
    let source = "mul.lo.u32 %r7, %thread, 4; and.b32 %r7, %r7, 24; add.u32 %r7, %r7, 5;";
    let got = shuffle("idx", source, 31, members);
    for (lane, pair) in got.iter().enumerate() {
        let lane = lane as u32;
        let want = if members >> lane & 1 == 1 { [60000 + (((lane * 4) & 24) + 5) * 7, 1] } else { [12345, 0] };
        assert_eq!(*pair, want, "lane {lane}");
    }
}

#[test]
fn votes_over_members() {
    let got: Vec<u32> = run_body(
        "",
        "rem.u32 %r2, %thread, 3; setp.eq.u32 %p0, %r2, 1; setp.lt.u32 %p1, %thread, 100;
        vote.sync.ballot.b32 %r3, %p0, 0xffffffff; vote.sync.ballot.b32 %r4, !%p0, -1;
        vote.sync.all.pred %p2, %p1, 0xffffffff; vote.sync.any.pred %p3, !%p1, 0xffffffff; vote.sync.uni.pred %p4, %p0, 0xffffffff;
        vote.sync.uni.pred %p5, %p1, 0xffffffff;
        selp.u32 %r5, 1, 0, %p2; selp.u32 %r6, 2, 0, %p3; or.b32 %r5, %r5, %r6; selp.u32 %r6, 4, 0, %p4; or.b32 %r5, %r5, %r6;
        selp.u32 %r6, 8, 0, %p5; or.b32 %r5, %r5, %r6;
        setp.lt.u32 %p6, %thread, 8; mov.u32 %r7, 0;
        @%p6 vote.sync.ballot.b32 %r7, %p0, 0xff;
        mad.wide.u32 %rd2, %thread, 16, %out; st.global.v4.u32 [%rd2], {%r3, %r4, %r5, %r7};",
        1,
        32,
        [&[], &[]],
        128,
    );
    let ballot = (0..32).filter(|lane| lane % 3 == 1).fold(0u32, |mask, lane| mask | 1 << lane);
    for (lane, words) in got.chunks(4).enumerate() {
        assert_eq!(words, [ballot, !ballot, 1 + 8, if lane < 8 { ballot & 0xff } else { 0 }], "lane {lane}");
    }
}

#[test]
fn lanes_that_do_not_exist_never_vote() {
    // 40 threads: the second warp has eight lanes.
    let got: Vec<u32> = run_body(
        "",
        "setp.ge.u32 %p0, %thread, 0; activemask.b32 %r2; vote.sync.ballot.b32 %r3, %p0, %r2;
        vote.sync.all.pred %p1, %p0, %r2; selp.u32 %r4, 1, 0, %p1; mov.u32 %r5, 0;
        mad.wide.u32 %rd2, %thread, 16, %out; st.global.v4.u32 [%rd2], {%r2, %r3, %r4, %r5};",
        1,
        40,
        [&[], &[]],
        160,
    );
    for (thread, words) in got.chunks(4).enumerate() {
        let mask = if thread < 32 { u32::MAX } else { 0xff };
        assert_eq!(words, [mask, mask, 1, 0], "thread {thread}");
    }
}

#[test]
fn matches_group_lanes_of_equal_value() {
    let got: Vec<u32> = run_body(
        "",
        "rem.u32 %r2, %thread, 5; match.any.sync.b32 %r3, %r2, 0xffffffff;
        cvt.u64.u32 %rd0, %r2; shl.b64 %rd0, %rd0, 33; match.any.sync.b64 %r4, %rd0, 0xffffffff;
        match.all.sync.b32 %r5|%p0, %r2, 0xffffffff; selp.u32 %r6, 1, 0, %p0;
        mov.u32 %r7, 9; match.all.sync.b32 %r8|%p1, %r7, 0xffffffff; selp.u32 %r9, 2, 0, %p1; or.b32 %r6, %r6, %r9;
        xor.b32 %r4, %r4, %r3; add.u32 %r5, %r5, %r4;
        mad.wide.u32 %rd2, %thread, 16, %out; st.global.v4.u32 [%rd2], {%r3, %r5, %r8, %r6};",
        1,
        32,
        [&[], &[]],
        128,
    );
    for (lane, words) in got.chunks(4).enumerate() {
        let same = (0..32).filter(|other| other % 5 == lane % 5).fold(0u32, |mask, other| mask | 1 << other);
        assert_eq!(words, [same, 0, u32::MAX, 2], "lane {lane}");
    }
}

#[test]
fn reductions_over_members_in_one_instruction() {
    let value = |lane: u32| lane.wrapping_mul(0x9e37_79b9) ^ 0x0f0f_1234;
    let operations = ["add.u32", "add.s32", "min.u32", "max.u32", "min.s32", "max.s32", "and.b32", "or.b32", "xor.b32"];
    let lines: String = operations
        .iter()
        .enumerate()
        .map(|(i, operation)| {
            format!(
                "redux.sync.{operation} %r3, %r2, 0xffffffff; st.global.u32 [%rd2+{}], %r3;
                setp.lt.u32 %p0, %thread, 12; @%p0 redux.sync.{operation} %r3, %r2, 0xfff; st.global.u32 [%rd2+{}], %r3;\n",
                i * 8,
                i * 8 + 4
            )
        })
        .collect();
    let body = format!(
        "mul.lo.u32 %r2, %thread, 0x9e3779b9; xor.b32 %r2, %r2, 0x0f0f1234; mad.wide.u32 %rd2, %thread, 72, %out;\n{lines}"
    );
    let got: Vec<u32> = run_body("", &body, 1, 32, [&[], &[]], 32 * 18);
    let reduce = |operation: &str, lanes: u32| {
        let values = (0..lanes).map(value);
        match operation {
            "add.u32" | "add.s32" => values.fold(0, u32::wrapping_add),
            "min.u32" => values.min().expect("lanes"),
            "max.u32" => values.max().expect("lanes"),
            "min.s32" => values.map(|x| x as i32).min().expect("lanes") as u32,
            "max.s32" => values.map(|x| x as i32).max().expect("lanes") as u32,
            "and.b32" => values.fold(u32::MAX, |x, y| x & y),
            "or.b32" => values.fold(0, |x, y| x | y),
            _ => values.fold(0, |x, y| x ^ y),
        }
    };
    for (lane, words) in got.chunks(18).enumerate() {
        for (i, operation) in operations.iter().enumerate() {
            let all = reduce(operation, 32);
            let some = if lane < 12 { reduce(operation, 12) } else { all };
            assert_eq!(words[2 * i..2 * i + 2], [all, some], "{operation}, lane {lane}");
        }
    }
}

#[test]
fn one_lane_is_elected() {
    let got: Vec<u32> = run_body(
        "",
        "setp.eq.u32 %p0, 0, 1; elect.sync %r2|%p0, 0xffffffff; selp.u32 %r3, 1, 0, %p0;
        mad.wide.u32 %rd2, %thread, 8, %out; st.global.v2.u32 [%rd2], {%r2, %r3};",
        1,
        32,
        [&[], &[]],
        64,
    );
    let leader = got[0];
    assert!(leader < 32 && got.chunks(2).all(|pair| pair[0] == leader));
    assert_eq!(got.chunks(2).map(|pair| pair[1]).sum::<u32>(), 1);
    assert_eq!(got[leader as usize * 2 + 1], 1);
}
