//! Divergence, barriers, order of blocks: what a kernel written by hand must see.

use crate::observe::{Observer, Place};
use crate::{Argument, DevicePointer, LaunchConfig, LaunchError, LaunchErrorKind, Module, Simulator};

const HEADER: &str = ".version 8.0\n.target sm_80\n.address_size 64\n.shared .align 16 .b8 tile[1024];\n";

/// A kernel `k(out)` with the thread's index in `%r0`, its block's in `%r1`, and the address of its own word of `out`,
/// one word per thread of the grid, in `%rd0`; `out` itself is in `%rd1`.
fn kernel(body: &str) -> String {
    format!(
        "{HEADER}.visible .entry k(.param .u64 out)
        {{
            .reg .pred %p<10>;
            .reg .b32 %r<20>;
            .reg .f32 %f<10>;
            .reg .b64 %rd<10>;
            mov.u32 %r0, %tid.x;
            mov.u32 %r1, %ctaid.x;
            mov.u32 %r2, %ntid.x;
            mad.lo.u32 %r3, %r1, %r2, %r0;
            ld.param.u64 %rd1, [out];
            mul.wide.u32 %rd0, %r3, 4;
            add.u64 %rd0, %rd0, %rd1;
            {body}
        }}"
    )
}

struct Run {
    simulator: Simulator,
    out: DevicePointer,
    words: usize,
    result: Result<(), LaunchError>,
}

impl Run {
    fn values(&self) -> Vec<u32> {
        self.result.as_ref().expect("the launch succeeds");
        self.memory()
    }

    fn memory(&self) -> Vec<u32> {
        let mut bytes = vec![0; self.words * 4];
        self.simulator.read(self.out, &mut bytes).unwrap();
        bytes.chunks_exact(4).map(|word| u32::from_le_bytes(word.try_into().unwrap())).collect()
    }

    fn error(&self) -> &LaunchError {
        self.result.as_ref().expect_err("the launch fails")
    }
}

fn run_on(cores: usize, text: &str, blocks: u32, threads: u32) -> Run {
    let module = Module::parse(text).unwrap_or_else(|error| panic!("{error}"));
    let mut simulator = Simulator::builder().threads(cores).instruction_limit(1 << 20).build();
    let words = (blocks * threads) as usize;
    let out = simulator.allocate(words as u64 * 4).unwrap();
    simulator.fill(out, 0, words as u64 * 4).unwrap();
    let config = LaunchConfig { grid: [blocks, 1, 1], block: [threads, 1, 1], dynamic_shared_bytes: 0 };
    let result = simulator.launch(&module, "k", config, &[Argument::Pointer(out)]);
    Run { simulator, out, words, result }
}

fn run(body: &str, blocks: u32, threads: u32) -> Run {
    run_on(2, &kernel(body), blocks, threads)
}

/// Counts how often the instructions of a PTX line run with all 32 lanes.
#[derive(Default)]
struct FullWarps(Vec<(u32, u32)>);

impl Observer for FullWarps {
    fn instruction(&mut self, place: Place, lanes: u32) {
        self.0.push((place.instruction, lanes));
    }
}

#[test]
fn lanes_that_diverge_merge_where_they_meet() {
    let text = kernel(
        "and.b32 %r4, %r0, 3;
        setp.eq.u32 %p0, %r4, 0;
        @%p0 bra A;
        setp.eq.u32 %p0, %r4, 1;
        @%p0 bra B;
        mov.u32 %r5, 30;
        bra JOIN;
        A: mov.u32 %r5, 10;
        bra JOIN;
        B: mov.u32 %r5, 20;
        JOIN: st.global.u32 [%rd0], %r5;
        ret;",
    );
    let module = Module::parse(&text).unwrap();
    let mut simulator = Simulator::new();
    let out = simulator.allocate(128).unwrap();
    let config = LaunchConfig { grid: [1; 3], block: [32, 1, 1], dynamic_shared_bytes: 0 };
    let mut seen = FullWarps::default();
    simulator.launch_observed(&module, "k", config, &[Argument::Pointer(out)], &mut seen).unwrap();
    let store = text.lines().position(|line| line.contains("JOIN: st")).unwrap() as u32 + 1;
    let stores: Vec<u32> =
        seen.0.iter().filter(|(at, _)| module.ptx_line("k", *at) == Some(store)).map(|(_, lanes)| *lanes).collect();
    assert_eq!(stores, [u32::MAX]);
    let values = run_on(1, &text, 1, 32).values();
    assert_eq!(values[..5], [10, 20, 30, 30, 10]);
}

#[test]
fn every_lane_leaves_its_loop_after_its_own_number_of_rounds() {
    let values = run(
        "mov.u32 %r4, 0;
        mov.u32 %r5, 0;
        LOOP: add.u32 %r5, %r5, %r4;
        add.u32 %r4, %r4, 1;
        setp.le.u32 %p0, %r4, %r0;
        @%p0 bra LOOP;
        st.global.u32 [%rd0], %r5;
        ret;",
        2,
        48,
    )
    .values();
    for (index, value) in values.iter().enumerate() {
        let thread = index as u32 % 48;
        assert_eq!(*value, thread * (thread + 1) / 2, "thread {index}");
    }
}

#[test]
fn lanes_of_a_warp_may_wait_for_each_other_at_a_lock() {
    // Every lane takes the lock in word 0 and adds to word 1.
    let values = run(
        "SPIN: atom.global.cas.b32 %r4, [%rd1], 0, 1;
        setp.ne.u32 %p0, %r4, 0;
        @%p0 bra SPIN;
        ld.volatile.global.u32 %r5, [%rd1+4];
        add.u32 %r5, %r5, 1;
        st.volatile.global.u32 [%rd1+4], %r5;
        atom.global.exch.b32 %r4, [%rd1], 0;
        ret;",
        3,
        64,
    )
    .values();
    assert_eq!(values[..2], [0, 192]);
}

#[test]
fn a_shuffle_waits_for_the_lanes_that_it_names() {
    // The odd lanes take a longer way to the shuffle, through code that lies behind it.
    let values = run(
        "and.b32 %r4, %r0, 1;
        setp.eq.u32 %p0, %r4, 1;
        @%p0 bra LONG;
        HERE: shfl.sync.bfly.b32 %r5, %r0, 1, 31, 0xffffffff;
        st.global.u32 [%rd0], %r5;
        ret;
        LONG: mov.u32 %r6, 0;
        MORE: add.u32 %r6, %r6, 1;
        setp.lt.u32 %p1, %r6, %r0;
        @%p1 bra MORE;
        bra HERE;",
        1,
        32,
    )
    .values();
    let expected: Vec<u32> = (0..32).map(|lane| lane ^ 1).collect();
    assert_eq!(values, expected);
}

#[test]
fn halves_of_a_warp_shuffle_apart_when_their_masks_say_so() {
    let values = run(
        "setp.lt.u32 %p0, %r0, 16;
        selp.b32 %r4, 0x0000ffff, 0xffff0000, %p0;
        @%p0 bra LOW;
        add.u32 %r6, %r0, 100;
        redux.sync.max.u32 %r5, %r6, %r4;
        bra DONE;
        LOW: redux.sync.max.u32 %r5, %r0, %r4;
        DONE: redux.sync.add.u32 %r5, %r5, %r4;
        st.global.u32 [%rd0], %r5;
        ret;",
        1,
        32,
    )
    .values();
    assert_eq!((values[0], values[31]), (15 * 16, 131 * 16));
}

#[test]
fn warp_barriers_at_different_places_meet() {
    let values = run(
        "mov.u32 %r9, tile;
        shl.b32 %r8, %r0, 2;
        add.u32 %r8, %r8, %r9;
        setp.lt.u32 %p0, %r0, 16;
        @%p0 bra LOW;
        st.shared.u32 [%r8], %r0;
        bar.warp.sync 0xffffffff;
        bra DONE;
        LOW: bar.warp.sync 0xffffffff;
        ld.shared.u32 %r5, [%r8+64];
        st.global.u32 [%rd0], %r5;
        DONE: ret;",
        1,
        32,
    )
    .values();
    assert_eq!(values[..16], std::array::from_fn::<u32, 16, _>(|lane| lane as u32 + 16));
}

#[test]
fn a_lane_that_a_mask_names_and_that_is_elsewhere_for_good_is_an_error() {
    let failed = run(
        "setp.eq.u32 %p0, %r0, 5;
        @%p0 bra AWAY;
        shfl.sync.idx.b32 %r5, %r0, 0, 31, 0xffffffff;
        ret;
        AWAY: bar.sync 0;
        ret;",
        1,
        32,
    );
    let error = failed.error();
    assert!(matches!(error.kind, LaunchErrorKind::DivergentWarp { members: u32::MAX, .. }), "{error}");
    assert_eq!(error.thread, [0, 0, 0]);
}

#[test]
fn exited_lanes_are_not_waited_for_by_warp_operations() {
    let values = run(
        "setp.ge.u32 %p0, %r0, 20;
        @%p0 exit;
        redux.sync.add.u32 %r5, 1, 0xffffffff;
        st.global.u32 [%rd0], %r5;
        ret;",
        1,
        32,
    )
    .values();
    assert_eq!((values[0], values[19], values[20]), (20, 20, 0));
}

#[test]
fn a_barrier_that_some_threads_skip_is_an_error_that_says_where_they_are() {
    let failed = run(
        "setp.ge.u32 %p0, %r0, 40;
        @%p0 exit;
        bar.sync 0;
        ret;",
        1,
        64,
    );
    let error = failed.error();
    match &error.kind {
        LaunchErrorKind::DivergentBarrier { barrier: 0, arrived: 40, expected: 64, others } => {
            assert!(others.contains("24 have exited"), "{others}");
        }
        other => panic!("{other}"),
    }
    let two_barriers = run("setp.lt.u32 %p0, %r0, 32;\n@%p0 bar.sync 1;\n@!%p0 bar.sync 2;\nret;", 1, 64);
    let error = two_barriers.error();
    match &error.kind {
        LaunchErrorKind::DivergentBarrier { barrier: 1, arrived: 32, others, .. } => {
            assert!(others.contains("32 wait at PTX line"), "{others}");
        }
        other => panic!("{other}"),
    }
}

#[test]
fn producers_arrive_and_consumers_wait_at_a_counted_barrier() {
    let values = run(
        "mov.u32 %r9, tile;
        and.b32 %r8, %r0, 31;
        shl.b32 %r8, %r8, 2;
        add.u32 %r8, %r8, %r9;
        setp.lt.u32 %p0, %r0, 32;
        @%p0 bra CONSUMER;
        st.shared.u32 [%r8], %r0;
        bar.arrive 3, 64;
        ret;
        CONSUMER: bar.sync 3, 64;
        ld.shared.u32 %r5, [%r8];
        st.global.u32 [%rd0], %r5;
        ret;",
        1,
        64,
    )
    .values();
    assert_eq!(values[..32], std::array::from_fn::<u32, 32, _>(|lane| lane as u32 + 32));
}

#[test]
fn barrier_reductions_count_all_threads_of_the_block() {
    let values = run(
        "setp.lt.u32 %p0, %r0, 41;
        bar.red.popc.u32 %r5, 0, %p0;
        bar.red.and.pred %p1, 0, %p0;
        bar.red.or.pred %p2, 0, !%p0;
        selp.b32 %r6, 1000, 0, %p1;
        selp.b32 %r7, 2000, 0, %p2;
        add.u32 %r5, %r5, %r6;
        add.u32 %r5, %r5, %r7;
        st.global.u32 [%rd0], %r5;
        ret;",
        1,
        96,
    )
    .values();
    assert!(values.iter().all(|value| *value == 2041), "{values:?}");
}

#[test]
fn a_block_may_wait_for_a_later_one() {
    // Block 0 waits for the last block's flag, which is the last word.
    let values = run(
        "setp.ne.u32 %p0, %r1, 0;
        @%p0 bra OTHERS;
        WAIT: ld.volatile.global.u32 %r4, [%rd1+1276];
        setp.eq.u32 %p1, %r4, 0;
        @%p1 bra WAIT;
        st.global.u32 [%rd0], %r4;
        ret;
        OTHERS: st.volatile.global.u32 [%rd0], %r1;
        ret;",
        10,
        32,
    )
    .values();
    assert_eq!((values[0], values[319]), (9, 9));
}

#[test]
fn sums_of_float_atomics_are_the_same_bits_for_any_number_of_cores() {
    let text = kernel(
        "cvt.rn.f32.u32 %f0, %r3;
        add.f32 %f0, %f0, 0f3DCCCCCD;
        rcp.rn.f32 %f0, %f0;
        red.global.add.f32 [%rd1], %f0;
        ret;",
    );
    let sums: Vec<u32> = [1, 2, 5].map(|cores| run_on(cores, &text, 50, 96).values()[0]).to_vec();
    assert!(sums.iter().all(|sum| *sum == sums[0]));
}

#[test]
fn the_lowest_failing_block_is_reported_whatever_the_number_of_cores() {
    let text = kernel("setp.lt.u32 %p0, %r1, 13;\n@%p0 ret;\nld.global.u32 %r4, [%rd0+1048576];\nret;");
    for cores in [1, 2, 5] {
        let failed = run_on(cores, &text, 200, 64);
        let error = failed.error();
        assert_eq!((error.block, error.thread), ([13, 0, 0], [0, 0, 0]), "{error}");
        assert!(matches!(error.kind, LaunchErrorKind::OutOfBounds { .. }), "{error}");
    }
}

#[test]
fn a_store_that_fails_in_one_lane_writes_nothing() {
    let failed = run("st.global.u32 [%rd0+4], 7;\nret;", 1, 32);
    assert!(matches!(failed.error().kind, LaunchErrorKind::OutOfBounds { bytes: 4, .. }));
    assert_eq!(failed.error().thread, [31, 0, 0]);
    assert_eq!(failed.memory(), [0; 32]);
}

#[test]
fn shared_memory_of_one_block_is_not_seen_by_the_next() {
    let values = run(
        "mov.u32 %r9, tile;
        ld.shared.u32 %r4, [%r9];
        st.global.u32 [%rd0], %r4;
        st.shared.u32 [%r9], %r1;
        ret;",
        20,
        1,
    )
    .values();
    assert!(values.iter().all(|value| *value == u32::MAX), "{values:?}");
}

#[test]
fn a_register_that_is_read_before_it_is_written_is_zero_in_every_block() {
    let values = run("add.u32 %r10, %r10, 1;\nst.global.u32 [%rd0], %r10;\nmov.u32 %r10, 77;\nret;", 20, 33).values();
    assert!(values.iter().all(|value| *value == 1), "{values:?}");
}

#[test]
fn registers_keep_their_values_across_calls_branches_and_loops() {
    // Many values that live at once and at different times, so that rows are shared; the result is a plain sum.
    let mut body = String::new();
    for register in 4..12 {
        body += &format!("add.u32 %r{register}, %r0, {register};\n");
    }
    body += "mov.u32 %r12, 0;\nmov.u32 %r13, 0;\nLOOP:\n";
    for register in 4..12 {
        body += &format!("and.b32 %r14, %r13, 1;\nsetp.eq.u32 %p0, %r14, 0;\n@%p0 mul.lo.u32 %r15, %r{register}, 3;\n");
        body += &format!("@!%p0 mov.u32 %r15, %r{register};\nadd.u32 %r12, %r12, %r15;\n");
    }
    body += "add.u32 %r13, %r13, 1;\nsetp.le.u32 %p1, %r13, %r0;\n@%p1 bra LOOP;\nst.global.u32 [%rd0], %r12;\nret;";
    let values = run(&body, 1, 40).values();
    for (thread, value) in values.iter().enumerate() {
        let thread = thread as u32;
        let sum: u32 = (4..12).map(|register| thread + register).sum();
        let expected: u32 = (0..=thread).map(|round| if round % 2 == 0 { sum * 3 } else { sum }).sum();
        assert_eq!(*value, expected, "thread {thread}");
    }
}

#[test]
fn addresses_of_every_pattern_load_and_store_the_right_words() {
    // A permutation of the block's words by xor, by stride and by quarters, through shared memory.
    for (step, flip) in [(1, 0), (1, 3), (1, 8), (1, 16), (5, 0), (31, 7), (0, 0)] {
        let values = run(
            &format!(
                "mov.u32 %r9, tile;
                shl.b32 %r4, %r0, 2;
                add.u32 %r4, %r4, %r9;
                st.shared.u32 [%r4], %r0;
                bar.sync 0;
                mul.lo.u32 %r5, %r0, {step};
                xor.b32 %r5, %r5, {flip};
                and.b32 %r5, %r5, 63;
                shl.b32 %r5, %r5, 2;
                add.u32 %r5, %r5, %r9;
                ld.shared.u32 %r6, [%r5];
                st.shared.u32 [%r5+512], %r6;
                ld.shared.u32 %r7, [%r5+512];
                st.global.u32 [%rd0], %r7;
                ret;"
            ),
            1,
            64,
        )
        .values();
        let expected: Vec<u32> = (0..64).map(|lane| ((lane * step) ^ flip) & 63).collect();
        assert_eq!(values, expected, "step {step}, flip {flip}");
    }
}
