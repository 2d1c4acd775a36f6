//! Products of warpgroups: what they read and write is theirs until it's waited for.

use super::{Check, check};
use ptx_simulator::observe::hazards::{Agent, CopyState, FindingKind};

const THREADS: u32 = 128;

/// The descriptor of 64 rows of 8 elements, or of 8 of them, taken twice along K, at the start of `tile`, in `%rd5` and
/// `%rd6`; sums in `%r10` to `%r13`.
const BEGIN: &str = "mov.u64 %rd5, 0x0000000800000000; mov.u64 %rd6, 0x0000000800000000;
    mov.u32 %r10, 0; mov.u32 %r11, 0; mov.u32 %r12, 0; mov.u32 %r13, 0; setp.eq.u32 %p3, %r10, 0;";
const FENCE: &str = "wgmma.fence.sync.aligned;";
const PRODUCT: &str =
    "wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%r10, %r11, %r12, %r13}, %rd5, %rd6, %p3, 1, 1, 0, 0;";
const COMMIT: &str = "wgmma.commit_group.sync.aligned;";
const WAIT: &str = "wgmma.wait_group.sync.aligned 0;";
const USE: &str = "add.u32 %r14, %r10, 1;";

/// All of `tile` is written, with a fence between proxies and a barrier.
const FILL: &str = "7| st.shared.v2.u32 [%r7], {%r0, %r0}; fence.proxy.async; bar.sync 0;";

fn product(body: &str) -> Check {
    check(&format!("{BEGIN} shl.b32 %r7, %r0, 3; add.u32 %r7, %r7, %r3;\n{body}"), 1, THREADS)
}

#[test]
fn a_product_with_its_fence_and_its_wait_is_clean() {
    product(&format!("{FILL}\n10| {FENCE}\n11| {PRODUCT}\n12| {COMMIT}\n13| {WAIT}\n14| {USE}")).is_clean();
    // Several in a row need no fence in between, and one group may stay open.
    product(&format!(
        "{FILL}\n10| {FENCE}\n11| {PRODUCT} {PRODUCT}\n12| {COMMIT}\n13| {PRODUCT} {COMMIT}
        14| wgmma.wait_group.sync.aligned 1;\n15| {PRODUCT} {COMMIT} {WAIT}\n16| {USE}"
    ))
    .is_clean();
}

#[test]
fn sums_are_used_after_the_wait_only() {
    let early = product(&format!("{FILL}\n10| {FENCE}\n11| {PRODUCT}\n12| {COMMIT}\n13| {USE}\n14| {WAIT}"));
    early.finds(&[("ProductNotAwaited", 11, 13)]);
    let lax = format!(
        "{FILL}\n10| {FENCE}\n11| {PRODUCT}\n12| {COMMIT}\n13| wgmma.wait_group.sync.aligned 1;\n14| {USE}\n15| {WAIT}"
    );
    product(&lax).finds(&[("ProductNotAwaited", 11, 14)]);
    // A product in no group isn't waited for.
    product(&format!("{FILL}\n10| {FENCE}\n11| {PRODUCT}\n12| {WAIT}\n13| {USE}\n14| {COMMIT} {WAIT}")).finds(&[(
        "ProductNotAwaited",
        11,
        13,
    )]);
}

#[test]
fn moves_between_registers_are_no_uses() {
    // As compilers write them around inline assembly.
    let body = |wait: &str| {
        format!(
            "{FILL}\n10| {FENCE}\n11| {PRODUCT}\n12| {COMMIT}\nmov.b32 %r20, %r10; mov.b32 %r21, %r11;
            mov.b32 %r10, %r20;\n13| {wait}\n14| add.u32 %r14, %r20, %r10;\n15| {WAIT}"
        )
    };
    product(&body(WAIT)).is_clean();
    product(&body("")).finds(&[("ProductNotAwaited", 11, 14)]);
}

#[test]
fn registers_that_were_written_need_a_fence() {
    product(&format!("{FILL}\n11| {PRODUCT}\n12| {COMMIT}\n13| {WAIT}\n14| {USE}")).finds(&[(
        "MissingWarpgroupFence",
        1,
        11,
    )]);
    let again = |fence: &str| {
        format!(
            "{FILL}\n10| {FENCE}\n11| {PRODUCT}\n12| {COMMIT}\n13| {WAIT}\n14| add.u32 %r11, %r10, 1;\n15| {fence}
            16| {PRODUCT} {COMMIT} {WAIT}\n17| {USE}"
        )
    };
    product(&again(FENCE)).is_clean();
    product(&again("")).finds(&[("MissingWarpgroupFence", 14, 16)]);
}

#[test]
fn what_threads_wrote_needs_a_fence_between_the_proxies() {
    let body = |fill: &str| format!("{fill}\n10| {FENCE}\n11| {PRODUCT}\n12| {COMMIT}\n13| {WAIT}\n14| {USE}");
    let check = product(&body(&FILL.replace("fence.proxy.async;", "")));
    check.finds(&[("MissingProxyFence", 7, 11)]);
    assert_eq!(check.findings[0].second.as_ref().unwrap().agent, Agent::WarpgroupProduct);
    // Every warp may fence for itself, after the barrier.
    product(&body(&FILL.replace("fence.proxy.async; bar.sync 0;", "bar.sync 0; fence.proxy.async;"))).is_clean();
    // And a barrier is needed for what other warps wrote.
    product(&body(&FILL.replace("bar.sync 0;", ""))).finds(&[("ReadAfterWrite", 7, 11)]);
}

#[test]
fn factors_stay_until_the_product_is_waited_for() {
    let body = |wait: &str, barrier: &str| {
        format!(
            "{FILL}\n10| {FENCE}\n11| {PRODUCT}\n12| {COMMIT}\n13| {wait}\n14| {barrier}\n15| st.shared.u32 [%r7], 1;
            16| {WAIT}\n17| {USE}"
        )
    };
    product(&body(WAIT, "bar.sync 0;")).is_clean();
    let missing = product(&body("", "bar.sync 0;"));
    missing.finds(&[("WriteAfterRead", 11, 15)]);
    let first = &missing.findings[0].first;
    assert_eq!(first.agent, Agent::WarpgroupProduct);
    assert_eq!(first.copy, Some(CopyState::UnderWay { left_open_at: None }));
    let lax = product(&body("wgmma.wait_group.sync.aligned 1;", "bar.sync 0;"));
    lax.finds(&[("WriteAfterRead", 11, 15)]);
    assert!(
        matches!(&lax.findings[0].first.copy, Some(CopyState::UnderWay { left_open_at: Some(at) }) if at.line == 13),
        "{:#?}",
        lax.findings
    );
    // The warp that has waited knows that the whole warpgroup is done.
    product(&body(WAIT, "")).is_clean();
}

#[test]
fn a_load_into_a_factor_waits_for_the_warpgroup() {
    // Warp 4 fills the tile again when one thread of the warpgroup has arrived.
    let body = |wait: &str| {
        format!(
            "{BEGIN} setp.eq.u32 %p4, %r0, 128; setp.ge.u32 %p5, %r0, 128; setp.eq.u32 %p1, %r0, 64; mov.u32 %r20, 0;
            7| @%p4 mbarrier.init.shared.b64 [other], 1; @%p4 mbarrier.init.shared.b64 [other+8], 1;
            8| bar.sync 0;
            @%p5 bra produce;
            9| spin: mbarrier.try_wait.parity.shared.b64 %p6, [other], %r20; @!%p6 bra spin;
            10| {FENCE}\n11| {PRODUCT}\n12| {COMMIT}\n13| {wait}
            14| @%p1 mbarrier.arrive.shared.b64 _, [other+8];
            15| {WAIT}\n16| {USE}
            bra over;
            produce: @!%p4 bra over;
            20| mbarrier.arrive.expect_tx.shared.b64 _, [other], 1024;
            21| cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [tile], [%rd1], 1024, [other];
            22| free: mbarrier.try_wait.parity.shared.b64 %p6, [other+8], %r20; @!%p6 bra free;
            23| mbarrier.arrive.expect_tx.shared.b64 _, [other], 1024;
            24| cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [tile], [%rd1], 1024, [other];
            25| full: mbarrier.try_wait.parity.shared.b64 %p6, [other], 1; @!%p6 bra full;
            over:"
        )
    };
    check(&body(WAIT), 1, 160).is_clean();
    let early = check(&body(""), 1, 160);
    early.finds(&[("WriteAfterRead", 11, 24)]);
    assert_eq!(early.findings[0].first.agent, Agent::WarpgroupProduct);
    assert_eq!(early.findings[0].second.as_ref().unwrap().agent, Agent::BulkLoad);
    // Without the wait for the first load, the product reads what is under way.
    let missing = check(
        &body(WAIT).replace("9| spin: mbarrier.try_wait.parity.shared.b64 %p6, [other], %r20; @!%p6 bra spin;", "9|"),
        1,
        160,
    );
    let found = missing.findings.iter().find(|finding| finding.kind == FindingKind::ReadAfterWrite).unwrap();
    assert_eq!((found.first.agent, found.second.as_ref().unwrap().agent), (Agent::BulkLoad, Agent::WarpgroupProduct));
}
