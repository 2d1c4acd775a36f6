//! Blocks of a cluster race in each other's shared memory, must know of each other's mbarriers, and must stay for each other.

use crate::{Check, check_in};
use ptx_simulator::observe::hazards::{Agent, FindingKind};

const THREADS: u32 = 32;

/// `%r20` is the rank, `%r21` the other block's, `%r22` the thread's own word of `tile` there.
const BEGIN: &str = "mov.u32 %r20, %cluster_ctarank; xor.b32 %r21, %r20, 1; mapa.shared::cluster.u32 %r22, %r4, %r21;
    mov.u32 %r23, 0;";
const SYNC: &str = "barrier.cluster.arrive; barrier.cluster.wait;";

fn check(body: &str) -> Check {
    check_in("2", &format!("{BEGIN}\n{body}"), 4, THREADS)
}

/// Each block writes its own words, reads the other's and leaves; with what comes between.
fn exchange(before: &str, after: &str) -> Check {
    check(&format!(
        "10| st.shared.u32 [%r4], %r0;
        11| {before}
        12| ld.shared::cluster.u32 %r10, [%r22];
        13| {after}"
    ))
}

#[test]
fn the_cluster_barrier_orders_what_blocks_do_in_each_others_shared_memory() {
    exchange(SYNC, SYNC).is_clean();
    exchange("bar.sync 0;", SYNC).finds(&[("ReadAfterWrite", 10, 12)]);
    // An arrival that releases nothing.
    exchange("barrier.cluster.arrive.relaxed; barrier.cluster.wait;", SYNC).finds(&[("ReadAfterWrite", 10, 12)]);
}

#[test]
fn a_barrier_between_reads_and_later_writes_is_the_clusters_too() {
    let round = |between: &str| {
        check(&format!(
            "10| st.shared.u32 [%r4], %r0;
            11| {SYNC}
            12| ld.shared::cluster.u32 %r10, [%r22];
            13| {between}
            14| st.shared.u32 [%r4], %r10;
            15| {SYNC}"
        ))
    };
    round(SYNC).is_clean();
    round("bar.sync 0;").finds(&[("WriteAfterRead", 12, 14)]);
}

#[test]
fn a_block_that_leaves_before_the_others_are_through_is_found_in_any_order() {
    exchange(SYNC, "").finds(&[("BlockExitsEarly", 12, 0)]);
    // Who reads arrives and needn't wait; who is read waits.
    let one_sided = |last: &str| {
        check(&format!(
            "10| st.shared.u32 [%r4], %r0;
            11| {SYNC}
            setp.eq.u32 %p5, %r20, 0; @%p5 bra first;
            12| ld.shared::cluster.u32 %r10, [%r22];
            13| barrier.cluster.arrive;
            ret;
            first:
            14| barrier.cluster.arrive;
            {last}"
        ))
    };
    one_sided("barrier.cluster.wait;").is_clean();
    one_sided("").finds(&[("BlockExitsEarly", 12, 0)]);
}

/// Thread 0 of each block makes an mbarrier, one of the other block arrives there, and all wait.
fn arrivals(fence: &str, barrier: &str, last: &str) -> Check {
    check(&format!(
        "10| @%p1 mbarrier.init.shared.b64 [other], 1;
        11| {fence}
        12| {barrier}
        mov.u32 %r24, other; mapa.shared::cluster.u32 %r24, %r24, %r21;
        13| @%p1 mbarrier.arrive.shared::cluster.b64 _, [%r24];
        14| spin: mbarrier.try_wait.parity.shared.b64 %p3, [other], %r23; @!%p3 bra spin;
        15| {last}"
    ))
}

const FENCE: &str = "@%p1 fence.mbarrier_init.release.cluster;";
const RELAXED: &str = "barrier.cluster.arrive.relaxed; barrier.cluster.wait;";

#[test]
fn an_mbarrier_is_shown_to_other_blocks_by_a_fence_and_the_cluster_barrier() {
    // All wait for an arrival of the other block, so that nobody leaves too early.
    arrivals(FENCE, RELAXED, "").is_clean();
    arrivals("", SYNC, "").is_clean();
    arrivals("", RELAXED, "").has("MbarrierNotShown", 10, 13);
    // The block's own barrier shows nothing.
    arrivals(FENCE, "bar.sync 0;", "").finds(&[("MbarrierNotShown", 10, 13)]);
    // Without any, who comes first finds no mbarrier.
    arrivals(FENCE, "", "").finds(&[("Mbarrier", 13, 0)]);
}

#[test]
fn an_mbarrier_that_nobody_shows_is_found_though_it_is_there() {
    // Threads wait for each other by a flag that orders nothing.
    let late = check(&format!(
        "10| @%p1 mbarrier.init.shared.b64 [other], 1;
        11| {FENCE}
        12| {RELAXED}
        13| @%p1 mbarrier.init.shared.b64 [other+8], 1;
        14| {RELAXED}
        mov.u32 %r24, other; mapa.shared::cluster.u32 %r24, %r24, %r21;
        15| @%p1 mbarrier.arrive.shared::cluster.b64 _, [%r24+8];
        16| {SYNC}"
    ));
    late.finds(&[("MbarrierNotShown", 13, 15)]);
}

/// Each block's thread 0 copies to both, half of the bytes each; `released` comes between two rounds.
fn multicast(fence: &str, barrier: &str, free: &str) -> Check {
    check(&format!(
        "10| @%p1 mbarrier.init.shared.b64 [other], 1; @%p1 mbarrier.init.shared.b64 [other+8], 2;
        11| {fence}
        12| {barrier}
        mov.u16 %h1, 3; mov.u32 %r25, 0; mad.lo.u32 %r26, %r20, 64, %r3; cvt.u64.u32 %rd5, %r20; shl.b64 %rd5, %rd5, 6;
        add.u64 %rd5, %rd1, %rd5; mov.u32 %r28, other; mapa.shared::cluster.u32 %r24, %r28, %r21; add.u32 %r27, %r28, 8;
        again: @!%p1 bra consume; setp.eq.u32 %p6, %r25, 0; @%p6 bra begin;
        13| {free}
        begin:
        14| mbarrier.arrive.expect_tx.shared.b64 _, [other], 128;
        15| cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%r26], [%rd5], 64, [other], %h1;
        consume: and.b32 %r29, %r25, 1;
        16| spin: mbarrier.try_wait.parity.shared.b64 %p3, [other], %r29; @!%p3 bra spin;
        17| ld.shared.u32 %r10, [%r4];
        18| bar.warp.sync -1;
        19| @%p1 mbarrier.arrive.shared.b64 _, [%r27]; @%p1 mbarrier.arrive.shared::cluster.b64 _, [%r24+8];
        add.u32 %r25, %r25, 1; setp.lt.u32 %p5, %r25, 3; @%p5 bra again;
        20| {SYNC}"
    ))
}

const FREE: &str = "xor.b32 %r30, %r25, 1; and.b32 %r30, %r30, 1;
    free: mbarrier.try_wait.parity.shared.b64 %p7, [other+8], %r30; @!%p7 bra free;";

#[test]
fn what_is_multicast_waits_for_the_readers_of_all_blocks() {
    multicast(FENCE, RELAXED, FREE).is_clean();
    multicast(FENCE, SYNC, FREE).is_clean();
    // Nobody waits for the other block's readers.
    let careless = multicast(FENCE, RELAXED, "");
    careless.has("WriteAfterRead", 17, 15);
}

#[test]
fn copies_need_a_fence_after_the_initialisation_of_another_blocks_mbarrier() {
    let unfenced = multicast("", SYNC, FREE);
    unfenced.has("MbarrierNotShown", 10, 15);
}

#[test]
fn the_barrier_of_a_block_orders_its_own_threads_and_no_others() {
    let within = |between: &str| {
        let body = format!(
            "{BEGIN}
            10| st.shared.u32 [%r4], %r0;
            11| {between}
            12| ld.shared.u32 %r10, [%r6];"
        );
        check_in("2", &body, 4, 64)
    };
    within("bar.sync 0;").is_clean();
    within("").finds(&[("ReadAfterWrite", 10, 12)]);
}

#[test]
fn findings_name_the_blocks_and_threads_of_clusters_of_any_shape() {
    // Blocks of a warp and a half; the last rank reads what the first one writes.
    let body = format!(
        "mov.u32 %r20, %cluster_ctarank; mov.u32 %r23, 0; mov.u32 %r24, %cluster_nctarank; sub.u32 %r25, %r24, 1; mapa.shared::cluster.u32 %r22, %r4, %r23;
        setp.eq.u32 %p5, %r20, 0; setp.eq.u32 %p6, %r20, %r25; setp.eq.u32 %p7, %r0, 40;
        and.pred %p5, %p5, %p7; and.pred %p6, %p6, %p7;
        10| @%p5 st.shared.u32 [%r4], %r0;
        11| bar.sync 0;
        12| @%p6 ld.shared::cluster.u32 %r10, [%r22];
        13| {SYNC}"
    );
    let found = check_in("3, 1, 1", &body, 6, 48);
    found.finds(&[("ReadAfterWrite", 10, 12)]);
    let finding = &found.findings[0];
    let second = finding.second.as_ref().unwrap();
    assert_eq!((finding.first.block, finding.first.thread), ([0, 0, 0], [40, 0, 0]));
    assert_eq!((second.block, second.thread), ([2, 0, 0], [40, 0, 0]));
    let touched = finding.touched.as_ref().unwrap();
    assert_eq!((touched.owner, touched.address, touched.array.as_deref()), (Some([0, 0, 0]), 160, Some("tile")));
    // One word in each of two clusters, and in the run in reverse as often.
    assert_eq!(finding.count, 2);
}

const ASYNC_STORE: &str = "st.async.shared::cluster.mbarrier::complete_tx::bytes.u32 [%r22], %r0, [%r24];";
const ASYNC_WAIT: &str = "spin: mbarrier.try_wait.parity.shared.b64 %p3, [other], %r23; @!%p3 bra spin;";

/// Each thread stores to its word in the other block, whose mbarrier counts the bytes.
fn stores(barrier: &str, expect: &str, wait: &str, then: &str) -> Check {
    check(&format!(
        "9| st.shared.u32 [%r4], 7;
        10| @%p1 mbarrier.init.shared.b64 [other], 1;
        {barrier}
        mov.u32 %r24, other; mapa.shared::cluster.u32 %r24, %r24, %r21;
        11| {expect}
        12| {ASYNC_STORE}
        13| {wait}
        14| {then}
        15| {SYNC}"
    ))
}

const EXPECT: &str = "@%p1 mbarrier.arrive.expect_tx.shared.b64 _, [other], 128;";
const READ: &str = "ld.shared.u32 %r10, [%r4]; st.global.u32 [%rd3], %r10;";

#[test]
fn an_asynchronous_store_is_waited_for_at_its_mbarrier() {
    let clean = stores(SYNC, EXPECT, ASYNC_WAIT, READ);
    clean.is_clean();
    assert_eq!(clean.memory[..64], std::array::from_fn::<u32, 64, _>(|thread| thread as u32 % 32));

    for wait in ["", "bar.sync 0;", SYNC, &ASYNC_WAIT.replace("%r23", "1")] {
        let missing = stores(SYNC, EXPECT, wait, READ);
        missing.finds(&[("ReadAfterWrite", 12, 14), ("CopyNeverAwaited", 12, 0)]);
        assert_eq!(missing.memory[..64], [7; 64]);
        let race = missing.findings.iter().find(|finding| finding.kind == FindingKind::ReadAfterWrite).unwrap();
        assert_eq!(race.first.agent, Agent::AsyncStore);
        assert_eq!(race.second.as_ref().unwrap().agent, Agent::Thread);
        assert_eq!(race.touched.as_ref().unwrap().array.as_deref(), Some("tile"));
    }
    // A phase that expects none of the bytes, and one that expects half of them.
    let early = stores(SYNC, "@%p1 mbarrier.arrive.shared.b64 _, [other];", ASYNC_WAIT, READ);
    early.finds(&[("ReadAfterWrite", 12, 14), ("CopyNeverAwaited", 12, 0)]);
    let half = stores(SYNC, &EXPECT.replace("128", "64"), ASYNC_WAIT, READ);
    half.finds(&[("ReadAfterWrite", 12, 14), ("CopyNeverAwaited", 12, 0)]);
    // Sixteen threads of each of four blocks.
    assert!(half.findings.iter().all(|finding| finding.count == 64), "{:#?}", half.findings);
    stores(SYNC, &EXPECT.replace("128", "132"), ASYNC_WAIT, READ).finds(&[("MbarrierDeadlock", 13, 0)]);
    // Some wait, and tell nobody.
    let some = stores(
        SYNC,
        EXPECT,
        &format!("@%p1 bra over; bar.warp.sync 0xfffffffe; bra last; over: {ASYNC_WAIT} last:"),
        READ,
    );
    some.has("ReadAfterWrite", 12, 14);
}

#[test]
fn what_an_asynchronous_store_goes_to_is_nobody_elses_until_it_is_there() {
    let overwrite = "st.shared.u32 [%r4], %r2;";
    stores(SYNC, EXPECT, ASYNC_WAIT, overwrite).is_clean();
    stores(SYNC, EXPECT, "", overwrite).finds(&[("WriteAfterWrite", 12, 14), ("CopyNeverAwaited", 12, 0)]);
    // What was written before must be known to the storing thread. (The mbarrier is, by whoever arrives.)
    let unknown = stores("barrier.cluster.arrive.relaxed; barrier.cluster.wait;", EXPECT, ASYNC_WAIT, READ);
    unknown.has("WriteAfterWrite", 9, 12);
    unknown.has("MbarrierNotShown", 10, 12);
}

#[test]
fn asynchronous_stores_go_the_way_of_ordinary_ones_and_not_of_bulk_copies() {
    // The mbarrier needs no fence of its own, and a bulk store of what has come needs one between the proxies.
    let copied = |fence: &str| {
        stores(
            SYNC,
            EXPECT,
            &format!("{ASYNC_WAIT} {fence}"),
            "@%p1 cp.async.bulk.global.shared::cta.bulk_group [%rd3], [tile], 128;
            @%p1 cp.async.bulk.commit_group; @%p1 cp.async.bulk.wait_group 0;",
        )
    };
    copied("fence.proxy.async;").is_clean();
    copied("").finds(&[("MissingProxyFence", 12, 14)]);
}

/// Three rounds through one word of each thread, with what a thread waits for before it stores.
fn rounds(free: &str) -> Check {
    check(&format!(
        "10| @%p1 mbarrier.init.shared.b64 [other], 1; @%p1 mbarrier.init.shared.b64 [other+8], 32;
        {SYNC}
        mov.u32 %r24, other; mapa.shared::cluster.u32 %r24, %r24, %r21; mov.u32 %r25, 0;
        again: and.b32 %r29, %r25, 1; setp.eq.u32 %p6, %r25, 0; @%p6 bra begin;
        13| {free}
        begin:
        14| {EXPECT}
        15| {ASYNC_STORE}
        16| spin: mbarrier.try_wait.parity.shared.b64 %p3, [other], %r29; @!%p3 bra spin;
        17| ld.shared.u32 %r10, [%r4];
        18| mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r24+8];
        add.u32 %r25, %r25, 1; setp.lt.u32 %p5, %r25, 3; @%p5 bra again;
        20| {SYNC}"
    ))
}

#[test]
fn asynchronous_stores_of_a_next_round_wait_for_the_readers_of_the_last() {
    rounds(FREE).is_clean();
    rounds("").has("WriteAfterRead", 17, 15);
}
