//! Hazards between threads of a block, in its shared memory.

use super::*;

#[test]
fn a_neighbours_word_is_read_after_a_barrier_or_in_a_race() {
    let body = |barrier| {
        format!(
            "10| st.shared.u32 [%r4], %r0;
            11| {barrier}
            12| ld.shared.u32 %r10, [%r5];
            13| st.global.u32 [%rd3], %r10;
            ret;"
        )
    };
    for threads in [32, 64, 256] {
        check(&body("bar.sync 0;"), 3, threads).is_clean();
        let broken = check(&body(""), 3, threads);
        broken.finds(&[("ReadAfterWrite", 10, 12)]);
        assert_eq!(broken.findings[0].count, u64::from(3 * threads));
        let touched = broken.findings[0].touched.as_ref().unwrap();
        assert_eq!((touched.array.as_deref(), touched.start, touched.length), (Some("tile"), Some(0), Some(1024)));
    }
}

#[test]
fn lanes_of_a_warp_are_ordered_by_a_warp_barrier_and_not_by_a_vote_or_a_shuffle() {
    let body = |between| {
        format!(
            "10| st.shared.u32 [%r4], %r0;
            11| {between}
            12| ld.shared.u32 %r10, [%r5];
            ret;"
        )
    };
    check(&body("bar.warp.sync 0xffffffff;"), 1, 32).is_clean();
    check(&body("vote.sync.any.pred %p3, %p1, 0xffffffff;"), 1, 32).finds(&[("ReadAfterWrite", 10, 12)]);
    check(&body("shfl.sync.bfly.b32 %r11, %r0, 1, 31, 0xffffffff;"), 1, 32).finds(&[("ReadAfterWrite", 10, 12)]);
}

#[test]
fn the_barrier_that_is_missing_in_a_loop_decides_what_kind_the_hazard_is() {
    let body = |first, second| {
        format!(
            "10| mov.u32 %r10, 0;
            LOOP:
            20| st.shared.u32 [%r4], %r10;
            21| {first}
            22| ld.shared.u32 %r11, [%r6];
            23| {second}
            24| add.u32 %r10, %r10, 1;
            25| setp.lt.u32 %p3, %r10, 8;
            26| @%p3 bra LOOP;
            ret;"
        )
    };
    let barrier = "bar.sync 0;";
    for threads in [32, 64, 128] {
        check(&body(barrier, barrier), 2, threads).is_clean();
        check(&body("", barrier), 2, threads).finds(&[("ReadAfterWrite", 20, 22)]);
        check(&body(barrier, ""), 2, threads).finds(&[("WriteAfterRead", 22, 20)]);
        check(&body("", ""), 2, threads).finds(&[("ReadAfterWrite", 20, 22), ("WriteAfterRead", 22, 20)]);
    }
}

#[test]
fn one_threads_write_comes_first_though_others_skip_it() {
    let body = |barrier| {
        format!(
            "10| @!%p1 bra READ;
            11| mov.u32 %r10, 7;
            12| mul.lo.u32 %r10, %r10, 6;
            13| st.shared.u32 [tile], %r10;
            READ:
            20| {barrier}
            21| ld.shared.u32 %r11, [tile];
            ret;"
        )
    };
    check(&body("bar.sync 0;"), 1, 64).is_clean();
    check(&body(""), 1, 64).finds(&[("ReadAfterWrite", 13, 21)]);
}

#[test]
fn accesses_in_branches_that_exclude_each_other_are_in_the_sources_order() {
    // The compiler may put the reader's branch first, and keep the writer's own read from happening.
    let body = "10| @%p1 bra WRITE;
        20| ld.shared.u32 %r10, [tile];
        bra DONE;
        WRITE:
        15| st.shared.u32 [tile], 1;
        DONE: ret;";
    check(body, 1, 64).finds(&[("ReadAfterWrite", 15, 20)]);
}

#[test]
fn threads_that_write_one_word_race_whatever_they_write() {
    check("10| st.shared.u32 [tile], 5;\nret;", 1, 64).finds(&[("WriteAfterWrite", 10, 10)]);
    check("10| @%p1 st.shared.u32 [tile], 5;\nret;", 1, 64).is_clean();
}

#[test]
fn neighbouring_bytes_are_no_hazard_and_overlapping_ones_are() {
    let body = |second| {
        format!(
            "9| add.u32 %r10, %r3, %r0;
            10| st.shared.u8 [%r10], %r0;
            11| and.b32 %r11, %r0, 1;
            12| setp.eq.u32 %p3, %r11, 1;
            13| {second}
            ret;"
        )
    };
    check(&body(""), 1, 64).is_clean();
    check(&body("@%p3 ld.shared.u8 %r12, [%r10];"), 1, 64).is_clean();
    let broken = check(&body("@!%p3 ld.shared.u16 %r12, [%r10];"), 1, 64);
    broken.finds(&[("ReadAfterWrite", 10, 13)]);
    let touched = broken.findings[0].touched.as_ref().unwrap();
    assert_eq!((touched.address % 2, touched.bytes), (1, 1));
    assert_eq!(broken.findings[0].count, 32);
}

#[test]
fn wide_and_vector_accesses_race_in_each_of_their_words() {
    let body = |address: &str| {
        format!(
            "9| shl.b32 %r10, %r0, 4;
            add.u32 %r10, %r3, %r10;
            10| st.shared.v4.u32 [%r10], {{%r0, %r0, %r0, %r0}};
            11| ld.shared.u64 %rd10, [{address}];
            ret;"
        )
    };
    check(&body("%r10+8"), 1, 32).is_clean();
    let broken = check(&body("tile+16"), 1, 32);
    broken.finds(&[("ReadAfterWrite", 10, 11)]);
    assert_eq!(broken.findings[0].count, 2 * 31);
}

#[test]
fn every_pair_of_lines_is_one_finding() {
    let body = "10| st.shared.u32 [%r4], %r0;
        11| ld.shared.u32 %r10, [%r5];
        12| ld.shared.u32 %r11, [%r5];
        13| ld.shared.u32 %r12, [%r6];
        13| ld.shared.u32 %r12, [%r6];
        ret;";
    let broken = check(body, 1, 64);
    broken.finds(&[("ReadAfterWrite", 10, 11), ("ReadAfterWrite", 10, 12), ("ReadAfterWrite", 10, 13)]);
    let mut counts: Vec<u64> = broken.findings.iter().map(|finding| finding.count).collect();
    counts.sort_unstable();
    assert_eq!(counts, [64, 64, 128]);
}

#[test]
fn atomics_race_with_ordinary_accesses_only() {
    let body = |barrier| {
        format!(
            "10| @%p1 st.shared.u32 [tile], 0;
            11| bar.sync 0;
            12| atom.shared.add.u32 %r10, [tile], 1;
            13| {barrier}
            14| ld.shared.u32 %r11, [tile];
            ret;"
        )
    };
    check(&body("bar.sync 0;"), 1, 64).is_clean();
    check(&body(""), 1, 64).finds(&[("ReadAfterWrite", 12, 14)]);
}

#[test]
fn a_volatile_reduction_in_lock_step_is_found_and_one_with_warp_barriers_is_clean() {
    let step = |line: u32, distance: u32, barrier: &str| {
        format!(
            "{line}| setp.lt.u32 %p3, %r0, {distance};
            @%p3 ld.volatile.shared.u32 %r10, [%r4];
            @%p3 ld.volatile.shared.u32 %r11, [%r4+{}];
            @%p3 add.u32 %r10, %r10, %r11;
            {barrier}
            {}| @%p3 st.volatile.shared.u32 [%r4], %r10;
            {barrier}
            ",
            distance * 4,
            line + 1
        )
    };
    let body = |barrier| {
        format!("10| st.shared.u32 [%r4], %r0;\nbar.sync 0;\n{}{}ret;", step(20, 16, barrier), step(30, 8, barrier))
    };
    check(&body("bar.warp.sync 0xffffffff;"), 1, 32).is_clean();
    let broken = check(&body(""), 1, 32);
    assert!(broken.summary().contains(&("ReadAfterWrite".to_owned(), 21, 30)), "{:?}", broken.summary());
}

#[test]
fn a_flag_in_shared_memory_orders_what_its_fences_do() {
    let body = |fence| {
        format!(
            "9| @%p1 st.shared.u32 [other], 0;
            bar.sync 0;
            10| @!%p1 bra WAIT;
            11| st.shared.u32 [tile], 42;
            12| {fence}
            13| st.volatile.shared.u32 [other], 1;
            14| bra DONE;
            WAIT:
            20| ld.volatile.shared.u32 %r10, [other];
            21| setp.eq.u32 %p3, %r10, 0;
            22| @%p3 bra WAIT;
            23| {fence}
            24| ld.shared.u32 %r11, [tile];
            DONE: ret;"
        )
    };
    check(&body("membar.cta;"), 1, 64).is_clean();
    let broken = check(&body(""), 1, 64);
    assert!(broken.summary().contains(&("ReadAfterWrite".to_owned(), 11, 24)), "{:?}", broken.summary());
}

/// Every lane takes a lock in shared memory and adds to a sum.
fn lock_of_lanes(fence: &str) -> String {
    format!(
        "@%p1 st.shared.u32 [tile], 0;
        @%p1 st.shared.u32 [tile+64], 0;
        bar.sync 0;
        SPIN:
        10| atom.shared.cas.b32 %r10, [tile], 0, 1;
        setp.ne.u32 %p4, %r10, 0;
        @%p4 bra SPIN;
        11| {fence}
        12| ld.shared.u32 %r11, [tile+64];
        add.u32 %r11, %r11, 1;
        13| st.shared.u32 [tile+64], %r11;
        14| {fence}
        15| atom.shared.exch.b32 %r12, [tile], 0;
        bar.sync 0;
        16| ld.shared.u32 %r13, [tile+64];
        @%p1 st.global.u32 [%rd1], %r13;"
    )
}

#[test]
fn a_lock_that_every_lane_takes_is_understood_in_seconds() {
    let start = std::time::Instant::now();
    let right = check(&lock_of_lanes("membar.cta;"), 1, 128);
    right.is_clean();
    assert_eq!(right.memory[0], 128);
    assert!(start.elapsed().as_secs() < 20, "{:?}", start.elapsed());
    check(&lock_of_lanes(""), 1, 64).finds(&[("WriteAfterRead", 12, 13), ("WriteAfterWrite", 13, 13)]);
}

#[test]
fn a_volatile_stop_flag_without_a_fence_is_a_hazard_and_an_atomic_one_is_not() {
    let body = |set: &str, get: &str| {
        format!(
            "@%p1 st.shared.u32 [tile], 0;
            bar.sync 0;
            setp.eq.u32 %p3, %r0, 40;
            10| @%p3 {set} [tile], 1;
            11| {get} %r10, [tile];"
        )
    };
    check(&body("st.volatile.shared.u32", "ld.volatile.shared.u32"), 1, 64).finds(&[("ReadAfterWrite", 10, 11)]);
    check(&body("atom.shared.exch.b32 %r11,", "ld.volatile.shared.u32"), 1, 64).is_clean();
}
