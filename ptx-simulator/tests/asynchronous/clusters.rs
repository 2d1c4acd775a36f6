//! Clusters: blocks that run at the same time, wait for each other and reach each other's shared memory.

use crate::support::{Machine, Shape, bytes_of, elements_of, load, on_any_number_of_cores};
use ptx_simulator::{
    Argument, ClusterBarrierProblem, LaunchError, LaunchErrorKind, MbarrierProblem, MemorySpace, Module, Nearest,
};

/// A kernel of clusters of that shape: `%r1` thread, `%r2` rank in the cluster, `%r3` address of `own` (256 words), `%r4` the
/// thread's own word there; `%out` and the thread's own word of it, `%mine`, by its place in the grid; `%in`. `%p1` is thread 0.
fn kernel(cluster: &str, body: &str) -> String {
    format!(
        ".version 8.0
        .target sm_90
        .address_size 64
        .shared .align 128 .b8 own[1024];
        .shared .align 8 .b64 full;
        .visible .entry test(.param .u64 output, .param .u64 input)
        .reqnctapercluster {cluster}
        {{
            .reg .pred %p<8>; .reg .b16 %h<4>; .reg .b32 %r<32>; .reg .b64 %rd<16>; .reg .b64 %out, %in, %mine;
            ld.param.u64 %out, [output]; ld.param.u64 %in, [input];
            mov.u32 %r1, %tid.x; mov.u32 %r2, %cluster_ctarank; mov.u32 %r3, own;
            mad.lo.u32 %r4, %r1, 4, %r3;
            mov.u32 %r5, %ctaid.x; mov.u32 %r6, %ntid.x; mad.lo.u32 %r7, %r5, %r6, %r1;
            mul.wide.u32 %rd1, %r7, 4; add.u64 %mine, %out, %rd1;
            setp.eq.u32 %p1, %r1, 0; mov.u32 %r9, 0;
            {body}
            ret;
        }}"
    )
}

const SYNC: &str = "barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;";

/// Thread 0's mbarrier for one arrival, known to the cluster.
const MAKE: &str = "@%p1 mbarrier.init.shared::cta.b64 [full], 1;
    @%p1 fence.mbarrier_init.release.cluster;
    barrier.cluster.arrive.relaxed; barrier.cluster.wait;";

const WAIT: &str = "spin: mbarrier.try_wait.parity.shared::cta.b64 %p3, [full], %r9; @!%p3 bra spin;";

/// Runs a kernel of 32 threads in each of so many blocks; gives `count` words.
fn run(cluster: &str, body: &str, grid: impl Into<Shape>, count: usize) -> Vec<u32> {
    let (module, grid) = (load(&kernel(cluster, body)), grid.into());
    on_any_number_of_cores(|machine: &mut Machine| {
        let output = machine.upload(&vec![0u32; count]);
        let input = machine.upload(&(100..164u32).collect::<Vec<_>>());
        machine.launch(&module, "test", grid, 32, 0, &[output, input].map(Argument::Pointer));
        bytes_of(&machine.download::<u32>(output, count))
    })
    .chunks_exact(4)
    .map(|word| elements_of::<u32>(word)[0])
    .collect()
}

fn error_of(cluster: &str, body: &str, grid: impl Into<Shape>) -> LaunchError {
    let (module, grid) = (load(&kernel(cluster, body)), grid.into());
    let errors = [1, 3].map(|threads| {
        let mut machine = Machine::with_threads(threads);
        let output = machine.upload(&[0u32; 1024]);
        let input = machine.upload(&(100..164u32).collect::<Vec<_>>());
        let arguments = [output, input].map(Argument::Pointer);
        machine.try_launch(&module, "test", grid, 32, 0, &arguments).expect_err("the launch must fail")
    });
    assert_eq!(errors[0], errors[1]);
    errors[0].clone()
}

#[test]
fn special_registers_say_where_a_block_is_in_its_cluster() {
    let registers = [
        "%cluster_ctaid.x",
        "%cluster_ctaid.y",
        "%cluster_nctaid.x",
        "%cluster_nctaid.y",
        "%clusterid.x",
        "%clusterid.y",
        "%nclusterid.x",
        "%nclusterid.y",
        "%cluster_ctarank",
        "%cluster_nctarank",
        "%ctaid.x",
        "%ctaid.y",
    ];
    let mut body = "@!%p1 bra over; mov.u32 %r10, %ctaid.y; mov.u32 %r11, %nctaid.x; mad.lo.u32 %r10, %r10, %r11, %r5;
        mul.wide.u32 %rd2, %r10, 48; add.u64 %rd2, %out, %rd2;"
        .to_owned();
    for (number, register) in registers.iter().enumerate() {
        body += &format!("mov.u32 %r12, {register}; st.global.u32 [%rd2+{}], %r12;", 4 * number);
    }
    let words = run("2, 2", &(body + "over:"), (4, 6), 24 * 12);
    for (block, words) in words.chunks_exact(12).enumerate() {
        let (x, y) = (block as u32 % 4, block as u32 / 4);
        assert_eq!(words, [x % 2, y % 2, 2, 2, x / 2, y / 2, 2, 3, y % 2 * 2 + x % 2, 4, x, y]);
    }
    // A kernel without clusters has clusters of one block.
    let text = kernel(
        "1",
        "@%p1 st.global.u32 [%mine], %r2; mov.u32 %r10, %cluster_nctarank; @%p1 st.global.u32 [%mine+4], %r10;",
    );
    let module = load(&text.replace(".reqnctapercluster 1", ""));
    let mut machine = Machine::with_threads(1);
    let output = machine.upload(&[7u32; 96]);
    machine.launch(&module, "test", 3, 32, 0, &[output, output].map(Argument::Pointer));
    let words: Vec<u32> = machine.download(output, 96);
    assert_eq!([words[0], words[1], words[32], words[33], words[64], words[65]], [0, 1, 0, 1, 0, 1]);
}

#[test]
fn a_block_reads_and_writes_the_shared_memory_of_others() {
    // Each thread reads the next block's word of it, and writes to the block before.
    let body = format!(
        "add.u32 %r10, %r7, 1000; st.shared.u32 [%r4], %r10; {SYNC}
        add.u32 %r11, %r2, 1; and.b32 %r11, %r11, 3; mapa.shared::cluster.u32 %r12, %r4, %r11;
        ld.shared::cluster.u32 %r13, [%r12];
        add.u32 %r11, %r2, 3; and.b32 %r11, %r11, 3; mapa.shared::cluster.u32 %r12, %r4, %r11;
        add.u32 %r14, %r7, 5000; st.shared::cluster.u32 [%r12+128], %r14; {SYNC}
        ld.shared.u32 %r15, [%r4+128]; st.global.u32 [%mine], %r13; st.global.u32 [%mine+1024], %r15;"
    );
    let words = run("4, 1, 1", &body, 8, 512);
    for thread in 0..256 {
        let (block, lane) = (thread / 32, thread % 32);
        let neighbour = |by| block / 4 * 4 + (block + by) % 4;
        assert_eq!(words[thread], 1000 + (neighbour(1) * 32 + lane) as u32);
        assert_eq!(words[256 + thread], 5000 + (neighbour(1) * 32 + lane) as u32);
    }
}

#[test]
fn generic_addresses_and_atomics_reach_other_blocks() {
    let body = format!(
        "@%p1 st.shared.u32 [own], 0; {SYNC}
        mov.u64 %rd2, own; cvta.shared.u64 %rd2, %rd2; mapa.u64 %rd3, %rd2, 0;
        red.add.u32 [%rd3], 1;
        mov.u64 %rd4, own; mapa.shared::cluster.u64 %rd4, %rd4, 1;
        atom.shared::cluster.add.u32 %r10, [%rd4], 2; {SYNC}
        @%p1 ld.shared.u32 %r11, [own]; @%p1 st.global.u32 [%mine], %r11;"
    );
    let words = run("2", &body, 4, 128);
    assert_eq!([words[0], words[32], words[64], words[96]], [64, 128, 64, 128]);
}

#[test]
fn the_cluster_barrier_does_not_wait_for_threads_that_have_exited() {
    let body = format!("setp.ge.u32 %p2, %r1, 5; @%p2 ret; {SYNC} {SYNC} st.global.u32 [%mine], 1;");
    let words = run("2", &body, 2, 64);
    assert_eq!(words.iter().sum::<u32>(), 10);
}

#[test]
fn arriving_and_waiting_at_the_cluster_barrier_go_in_turn() {
    let problem = |body: &str| match error_of("2", body, 2).kind {
        LaunchErrorKind::ClusterBarrier(problem) => problem,
        other => panic!("{other}"),
    };
    assert_eq!(
        problem("barrier.cluster.arrive; barrier.cluster.arrive; barrier.cluster.wait;"),
        ClusterBarrierProblem::ArrivedTwice
    );
    assert_eq!(problem("barrier.cluster.wait;"), ClusterBarrierProblem::NotArrived);
    // Block 1 waits at another barrier.
    let apart = "setp.eq.u32 %p2, %r2, 0; @%p2 barrier.cluster.arrive; @%p2 barrier.cluster.wait; @%p2 ret;
        setp.lt.u32 %p3, %r1, 5; @%p3 bar.sync 1, 64;";
    assert!(matches!(
        error_of("2", apart, 2).kind,
        LaunchErrorKind::ClusterBarrier(ClusterBarrierProblem::WaitsForEver { arrived: 32, .. })
            | LaunchErrorKind::DivergentBarrier { .. }
            | LaunchErrorKind::BadBarrier { .. }
    ));
}

#[test]
fn threads_arrive_at_mbarriers_of_other_blocks() {
    // The block of rank 0 gets an arrival of each block, and reads what they wrote before.
    let body = format!(
        "@%p1 mbarrier.init.shared::cta.b64 [full], 4; @%p1 fence.mbarrier_init.release.cluster; {SYNC}
        add.u32 %r10, %r2, 40; mov.u32 %r15, 0; mapa.shared::cluster.u32 %r11, %r3, %r15;
        mad.lo.u32 %r11, %r2, 4, %r11; @%p1 st.shared::cluster.u32 [%r11], %r10;
        mov.u32 %r12, full; mapa.shared::cluster.u32 %r12, %r12, %r15;
        @%p1 mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r12];
        setp.ne.u32 %p2, %r2, 0; @%p2 bra over;
        {WAIT}
        setp.lt.u32 %p4, %r1, 4; @%p4 ld.shared.u32 %r13, [%r4]; @%p4 st.global.u32 [%mine], %r13;
        over: {SYNC}"
    );
    assert_eq!(run("4", &body, 4, 4), [40, 41, 42, 43]);
}

#[test]
fn a_multicast_copy_brings_its_bytes_to_every_block_of_the_mask() {
    // Of four blocks, rank 1 copies to ranks 0, 1 and 3, where an mbarrier expects the bytes.
    let body = format!(
        "st.shared.u32 [%r4], 7; fence.proxy.async; {MAKE}
        setp.ne.u32 %p2, %r2, 2; and.pred %p4, %p1, %p2;
        @%p4 mbarrier.arrive.expect_tx.shared::cta.b64 _, [full], 128;
        setp.eq.u32 %p5, %r2, 1; and.pred %p5, %p5, %p1; mov.u16 %h1, 11;
        @%p5 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%r3], [%in], 128, [full], %h1;
        @!%p2 bra over;
        {WAIT}
        over: ld.shared.u32 %r10, [%r4]; st.global.u32 [%mine], %r10; {SYNC}"
    );
    let words = run("4", &body, 4, 128);
    for (rank, words) in words.chunks_exact(32).enumerate() {
        let expected: Vec<u32> = (0..32).map(|lane| if rank == 2 { 7 } else { 100 + lane }).collect();
        assert_eq!(words, expected, "rank {rank}");
    }
}

#[test]
fn a_copy_may_go_to_another_block_with_its_mbarrier_there() {
    let copy = |mbarrier: &str| {
        format!(
            "{MAKE} @%p1 mbarrier.arrive.expect_tx.shared::cta.b64 _, [full], 128;
            xor.b32 %r10, %r2, 1; mapa.shared::cluster.u32 %r11, %r3, %r10;
            mov.u32 %r12, full; mapa.shared::cluster.u32 %r13, %r12, %r10;
            mul.wide.u32 %rd2, %r2, 128; add.u64 %rd2, %in, %rd2;
            @%p1 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r11], [%rd2], 128, [{mbarrier}];
            {WAIT}
            ld.shared.u32 %r14, [%r4]; st.global.u32 [%mine], %r14; {SYNC}"
        )
    };
    let expected: Vec<u32> = (0..64).map(|at| 100 + (at + 32) % 64).collect();
    assert_eq!(run("2", &copy("%r13"), 2, 64), expected);
    let error = error_of("2", &copy("full"), 2);
    assert!(error.to_string().contains("mbarrier in another block's shared memory"), "{error}");
}

#[test]
fn a_mask_names_blocks_that_the_cluster_has() {
    for (mask, shown) in [("0", "0x0000"), ("4", "0x0004")] {
        let body = format!(
            "{MAKE} mov.u16 %h1, {mask};
            @%p1 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%r3], [%in], 128, [full], %h1;"
        );
        let error = error_of("2", &body, 2);
        assert!(error.to_string().contains(&format!("the blocks of mask {shown}, in a cluster of 2")), "{error}");
    }
}

#[test]
fn a_block_that_has_exited_has_no_shared_memory_any_more() {
    let error = error_of(
        "2",
        &format!(
            "{SYNC} setp.eq.u32 %p2, %r2, 0; @%p2 ret; mapa.shared::cluster.u32 %r10, %r4, %r9; bar.sync 0; ld.shared::cluster.u32 %r11, [%r10];"
        ),
        4,
    );
    assert!(matches!(error.kind, LaunchErrorKind::BlockExited { block: [0, 0, 0], address: 0, .. }), "{error}");
    assert_eq!(error.block, [1, 0, 0]);
    let late = format!(
        "{MAKE} setp.eq.u32 %p2, %r2, 0; @%p2 ret; mov.u32 %r10, full; mapa.shared::cluster.u32 %r10, %r10, %r9; bar.sync 0;
        @%p1 mbarrier.arrive.shared::cluster.b64 _, [%r10];"
    );
    assert!(matches!(error_of("2", &late, 2).kind, LaunchErrorKind::BlockExited { .. }));
}

#[test]
fn other_blocks_are_out_of_reach_without_shared_cluster() {
    let error = error_of(
        "2",
        &format!("xor.b32 %r10, %r2, 1; mapa.shared::cluster.u32 %r11, %r4, %r10; ld.shared.u32 %r12, [%r11]; {SYNC}"),
        2,
    );
    let (space, nearest) = (MemorySpace::Shared, Nearest::OtherBlock { rank: 1 });
    let LaunchErrorKind::OutOfBounds { space: found, nearest: there, .. } = error.kind else { panic!("{error}") };
    assert_eq!((found, there), (space, nearest));
    // An address of this block's own is its rank times 2^24.
    let body = format!("mov.u32 %r10, own; st.global.u32 [%mine], %r10; {SYNC}");
    let words = run("2", &body, 2, 64);
    assert_eq!([words[0], words[32]], [0, 1 << 24]);
}

#[test]
fn a_rank_is_one_that_the_cluster_has() {
    let error = error_of("2", "mov.u32 %r10, 2; mapa.shared::cluster.u32 %r11, %r4, %r10;", 2);
    assert_eq!(error.kind, LaunchErrorKind::NoSuchRank { rank: 2, blocks: 2 });
}

#[test]
fn mbarriers_of_other_blocks_are_initialised_before_they_are_used() {
    let body = "xor.b32 %r10, %r2, 1; mov.u32 %r11, full; mapa.shared::cluster.u32 %r11, %r11, %r10;
        @%p1 mbarrier.init.shared::cta.b64 [full], 1; @%p1 mbarrier.arrive.shared::cluster.b64 _, [%r11];
        barrier.cluster.arrive; barrier.cluster.wait;";
    let error = error_of("2", body, 2);
    assert!(
        matches!(error.kind, LaunchErrorKind::Mbarrier { problem: MbarrierProblem::NotInitialised, .. }),
        "{error}"
    );
    assert!(error.to_string().contains("`full` of block (1, 0, 0)"), "{error}");
}

#[test]
fn a_grid_consists_of_whole_clusters_of_at_most_eight_blocks() {
    let error = error_of("2, 2, 1", "", (4, 3));
    let text = "a grid of [4, 3, 1] is not possible: the kernel runs in clusters of [2, 2, 1] blocks";
    assert!(error.to_string().contains(text), "{error}");
    for (shape, count) in [("9", 9), ("4, 4", 16), ("2, 0, 1", 0)] {
        let error = Module::parse(&kernel(shape, "")).expect_err("a cluster that can't be");
        assert!(error.to_string().contains(&format!("a cluster of {count} blocks: 1 to 8 are possible")), "{error}");
    }
}

#[test]
fn forms_that_mean_nothing_are_refused() {
    for (body, message) in [
        ("mbarrier.arrive.shared::cluster.b64 %rd2, [full];", "`_` stands in its place"),
        ("mbarrier.test_wait.parity.shared::cluster.b64 %p3, [full], %r9;", "`.shared::cluster` is not known"),
        ("mbarrier.init.shared::cluster.b64 [full], 1;", "`.shared::cluster` is not known"),
        ("barrier.cluster.sync;", "`.arrive`"),
        ("mapa.shared::cta.u32 %r10, %r4, %r9;", "`mapa` takes"),
        (
            "cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes.multicast::cluster [%r3], [%in], 128, [full], %h1;",
            "`.multicast::cluster` is not supported",
        ),
    ] {
        let error = Module::parse(&kernel("2", body)).expect_err(body);
        assert!(error.to_string().contains(message), "{body}: {error}");
    }
}

/// Each thread sends the other block a value of so many bytes, in words at `%r14` there, which its mbarrier counts. With what
/// comes before and after; `%r12` is the other block's mbarrier. Then all give the thread's words of what has come to `own`.
fn exchange(store: &str, bytes: u32, expect: &str, after: &str) -> String {
    let mut body = format!(
        "st.shared.v4.u32 [%r3], {{7, 7, 7, 7}}; mad.lo.u32 %r8, %r1, 16, %r3; st.shared.v4.u32 [%r8], {{7, 7, 7, 7}};
        {MAKE} {expect}
        xor.b32 %r10, %r2, 1; mapa.shared::cluster.u32 %r11, %r3, %r10;
        mov.u32 %r12, full; mapa.shared::cluster.u32 %r12, %r12, %r10; mad.lo.u32 %r14, %r1, {bytes}, %r11;
        mul.lo.u32 %r13, %r7, 100; mov.u32 %r15, %r13; add.u32 %r16, %r13, 1; add.u32 %r17, %r13, 2; add.u32 %r18, %r13, 3;
        mov.b64 %rd2, {{%r15, %r16}}; mov.b64 %rd3, {{%r17, %r18}};
        {store}
        // What the registers hold now doesn't count any more.
        mov.u32 %r15, 9; mov.u32 %r16, 9; mov.u32 %r17, 9; mov.u32 %r18, 9; mov.u64 %rd2, 9; mov.u64 %rd3, 9;
        {after}
        mad.lo.u32 %r19, %r1, {bytes}, %r3;"
    );
    for word in (0..bytes).step_by(4) {
        body += &format!("ld.shared.u32 %r20, [%r19+{word}]; st.global.u32 [%mine+{}], %r20;", 64 * word);
    }
    body + SYNC
}

/// What each thread reads in two blocks, word by word, if the word of a thread there is `word`.
fn received(bytes: u32, word: impl Fn(u32, u32) -> u32) -> Vec<u32> {
    let words = (0..bytes / 4).flat_map(|at| (0..64).map(move |thread| (thread, at)));
    words.map(|(thread, at)| word(thread, at)).collect()
}

fn expect(bytes: u32) -> String {
    format!("@%p1 mbarrier.arrive.expect_tx.shared::cta.b64 _, [full], {bytes};")
}

const STORE: &str = "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes";

#[test]
fn asynchronous_stores_bring_their_values_to_another_block() {
    for (form, bytes) in [
        ("b32 [%r14], %r15, [%r12];", 4),
        ("v2.u32 [%r14], {%r15, %r16}, [%r12];", 8),
        ("s64 [%r14], %rd2, [%r12];", 8),
        ("v4.b32 [%r14], {%r15, %r16, %r17, %r18}, [%r12];", 16),
        ("v2.b64 [%r14], {%rd2, %rd3}, [%r12];", 16),
    ] {
        let store = format!("{STORE}.{form}");
        let words = run("2", &exchange(&store, bytes, &expect(32 * bytes), WAIT), 2, 64 * bytes as usize / 4);
        assert_eq!(words, received(bytes, |thread, at| (thread ^ 32) * 100 + at), "{form}");
    }
    // Numbers, and addresses that are generic.
    let store = format!("{STORE}.v4.f32 [%r14], {{1.0, 2.0, 0f40400000, 4.0}}, [%r12];");
    let words = run("2", &exchange(&store, 16, &expect(512), WAIT), 2, 256);
    assert_eq!(words, received(16, |_, at| (at as f32 + 1.0).to_bits()));
    let generic =
        "cvt.u64.u32 %rd4, %r14; cvta.shared.u64 %rd4, %rd4; cvt.u64.u32 %rd5, %r12; cvta.shared.u64 %rd5, %rd5;
        st.async.mbarrier::complete_tx::bytes.u32 [%rd4], %r15, [%rd5];";
    let words = run("2", &exchange(generic, 4, &expect(128), WAIT), 2, 64);
    assert_eq!(words, received(4, |thread, _| (thread ^ 32) * 100));
}

#[test]
fn asynchronous_stores_come_when_their_phase_is_waited_for_and_not_before() {
    let store = format!("{STORE}.u32 [%r14], %r15, [%r12];");
    let run = |expect: &str, after: &str| run("2", &exchange(&store, 4, expect, after), 2, 64);
    let old = received(4, |_, _| 7);
    assert_eq!(run(&expect(128), ""), old);
    // The cluster's barrier isn't what they're waited for at.
    assert_eq!(run(&expect(128), SYNC), old);
    // A phase that expects no bytes is complete without them, and one that expects half of them with half.
    assert_eq!(run("@%p1 mbarrier.arrive.shared::cta.b64 _, [full];", WAIT), old);
    let half = received(4, |thread, _| if thread % 32 < 16 { (thread ^ 32) * 100 } else { 7 });
    assert_eq!(run(&expect(64), WAIT), half);
    // The others are in time for the next one.
    let next = format!("{WAIT} {} mov.u32 %r9, 1; {}", expect(64), WAIT.replace("spin", "again"));
    assert_eq!(run(&expect(64), &next), received(4, |thread, _| (thread ^ 32) * 100));
}

#[test]
fn an_mbarrier_gets_the_bytes_of_asynchronous_stores_that_it_expects() {
    let store = format!("{STORE}.u32 [%r14], %r15, [%r12];");
    let error = |bytes: u32| error_of("2", &exchange(&store, 4, &expect(bytes), WAIT), 2);
    let text = error(160).to_string();
    assert!(text.contains("32 expected bytes of its phase 0 are missing"), "{text}");
    let problem = MbarrierProblem::TooManyBytes { lacking: 2, bytes: 4 };
    assert!(matches!(error(66).kind, LaunchErrorKind::Mbarrier { problem: found, .. } if found == problem));
}

#[test]
fn asynchronous_stores_need_their_mbarrier_beside_them_and_addresses_that_are_there() {
    let kind = |form: &str| {
        let store = format!("{STORE}.{form}");
        error_of("2", &exchange(&store, 16, &expect(512), WAIT), 2)
    };
    let elsewhere = kind("u32 [%r14], %r15, [full];");
    assert!(
        matches!(elsewhere.kind, LaunchErrorKind::Mbarrier { problem: MbarrierProblem::Elsewhere, .. }),
        "{elsewhere}"
    );
    assert!(elsewhere.to_string().contains("`full` of block (1, 0, 0) is in another block's"), "{elsewhere}");
    let space = MemorySpace::Shared;
    let misaligned = kind("v4.f32 [%r14+8], {1.0, 1.0, 1.0, 1.0}, [%r12];");
    let LaunchErrorKind::Misaligned { space: found, address, bytes: 16, .. } = misaligned.kind else {
        panic!("{misaligned}")
    };
    // The block of rank 1 comes to it first.
    assert_eq!((found, address), (space, 8));
    let misaligned = kind("u32 [%r14], %r15, [%r12-4];");
    assert!(matches!(misaligned.kind, LaunchErrorKind::Misaligned { bytes: 8, .. }), "{misaligned}");
    let outside = kind("u64 [%r14+1032], %rd2, [%r12];");
    assert!(matches!(outside.kind, LaunchErrorKind::OutOfBounds { bytes: 8, .. }), "{outside}");
    let none = kind("u32 [%r14], %r15, [%r11+512];");
    assert!(matches!(none.kind, LaunchErrorKind::Mbarrier { problem: MbarrierProblem::NotInitialised, .. }), "{none}");
    let gone = format!(
        "{MAKE} setp.eq.u32 %p2, %r2, 0; @%p2 ret; mov.u32 %r10, full; mapa.shared::cluster.u32 %r10, %r10, %r9;
        mapa.shared::cluster.u32 %r11, %r4, %r9; bar.sync 0; {STORE}.u32 [%r11], %r1, [%r10];"
    );
    assert!(matches!(error_of("2", &gone, 2).kind, LaunchErrorKind::BlockExited { .. }));
}

#[test]
fn asynchronous_stores_of_other_forms_are_refused() {
    for (cluster, body, message) in [
        ("2", "st.async.weak.shared::cluster.u32 [%r4], %r1, [full];", "it needs `.mbarrier::complete_tx::bytes`"),
        (
            "2",
            "st.async.shared::cta.mbarrier::complete_tx::bytes.u32 [%r4], %r1, [full];",
            "`.shared::cta` is not known",
        ),
        ("2", "st.async.shared::cluster.mbarrier::complete_tx::bytes.b16 [%r4], %h1, [full];", "`.b16` is not known"),
        ("2", "st.async.shared::cluster.mbarrier::complete_tx::bytes [%r4], %r1, [full];", "a type of 32 or 64 bits"),
        (
            "2",
            "st.async.shared::cluster.mbarrier::complete_tx::bytes.v4.b64 [%r4], {%rd1, %rd1, %rd1, %rd1}, [full];",
            "more than 16 bytes",
        ),
        ("2", "st.async.shared::cluster.mbarrier::complete_tx::bytes.u32 [%r4], %r1;", "takes 3 operands"),
        ("2", "st.async.release.gpu.global.u32 [%out], %r1;", "`.release` is not known"),
        ("1", "st.async.shared::cluster.mbarrier::complete_tx::bytes.u32 [%r4], %r1, [full];", "a cluster of several"),
    ] {
        let error = Module::parse(&kernel(cluster, body)).expect_err(body);
        assert!(error.to_string().contains(message), "{body}: {error}");
    }
}
