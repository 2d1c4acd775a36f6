//! Global memory: between the threads of a block as in shared memory, between blocks only by fences and strong accesses.

use super::*;

#[test]
fn a_barrier_orders_global_memory_within_a_block() {
    let body = |barrier| {
        format!(
            "10| st.global.u32 [%rd3], %r0;
            11| {barrier}
            12| xor.b32 %r10, %r2, 4;
            mul.lo.u32 %r11, %r1, 256;
            add.u32 %r10, %r10, %r11;
            cvt.u64.u32 %rd10, %r10;
            add.u64 %rd10, %rd1, %rd10;
            13| ld.global.u32 %r12, [%rd10];
            ret;"
        )
    };
    check(&body("bar.sync 0;"), 4, 64).is_clean();
    check(&body(""), 4, 64).finds(&[("ReadAfterWrite", 10, 13)]);
}

#[test]
fn no_barrier_orders_different_blocks() {
    // Each block reads what the first has written.
    let body = "10| st.global.u32 [%rd3], %r0;
        11| bar.sync 0;
        12| ld.global.u32 %r10, [%rd2];
        ret;";
    check(body, 1, 64).is_clean();
    let broken = check(body, 3, 64);
    broken.finds(&[("ReadAfterWrite", 10, 12)]);
    let finding = &broken.findings[0];
    assert_ne!(finding.first.block, finding.second.as_ref().unwrap().block);
    assert_eq!(finding.touched.as_ref().unwrap().length, Some(WORDS * 4));
}

#[test]
fn sums_of_all_blocks_need_atomics() {
    check("10| red.global.add.u32 [%rd2], 1;\nret;", 4, 64).is_clean();
    let broken = "10| ld.global.u32 %r10, [%rd2];
        11| add.u32 %r10, %r10, 1;
        12| st.global.u32 [%rd2], %r10;
        ret;";
    check(broken, 4, 64).finds(&[("WriteAfterRead", 10, 12), ("WriteAfterWrite", 12, 12)]);
    check(broken, 1, 64).is_clean();
}

#[test]
fn an_atomic_of_a_block_is_not_atomic_for_others() {
    check("10| red.cta.global.add.u32 [%rd2], 1;\nret;", 1, 64).is_clean();
    check("10| red.cta.global.add.u32 [%rd1], 1;\nret;", 1, 64).is_clean();
    check("10| red.cta.global.add.u32 [%rd2], 1;\nret;", 2, 64).finds(&[("WriteAfterWrite", 10, 10)]);
}

/// All threads write, and the last block to take a ticket reads what all have written.
fn last_block(fence: &str, ticket: &str, late_fence: &str) -> String {
    format!(
        "10| st.global.u32 [%rd3], %r0;
        11| {fence}
        12| bar.sync 0;
        @!%p1 bra WAIT;
        13| {late_fence}
        14| {ticket}
        15| st.shared.u32 [other], %r10;
        WAIT:
        16| bar.sync 0;
        17| ld.shared.u32 %r11, [other];
        18| setp.ne.u32 %p3, %r11, 3;
        @%p3 bra DONE;
        20| ld.global.u32 %r12, [%rd2];
        ld.global.u32 %r12, [%rd2+256];
        ld.global.u32 %r12, [%rd2+512];
        ld.global.u32 %r12, [%rd2+768];
        DONE: ret;"
    )
}

const TICKET: &str = "atom.global.inc.u32 %r10, [%rd1+8192], 3;";

#[test]
fn the_last_block_may_read_what_all_have_written_and_fenced() {
    check(&last_block("membar.gl;", TICKET, ""), 4, 64).is_clean();
    check(&last_block("fence.acq_rel.gpu;", TICKET, ""), 4, 64).is_clean();
    // One fence for the whole block, after its barrier.
    check(&last_block("", TICKET, "membar.gl;"), 4, 64).is_clean();
    // The ticket itself releases and acquires.
    let ordered = "atom.acq_rel.gpu.global.inc.u32 %r10, [%rd1+8192], 3;";
    check(&last_block("", ordered, ""), 4, 64).is_clean();
}

#[test]
fn the_last_block_reads_in_a_race_without_the_fence() {
    check(&last_block("", TICKET, ""), 4, 64).finds(&[("ReadAfterWrite", 10, 20)]);
    // A fence of one thread, before the barrier, is for its own writes.
    check(&last_block("@%p1 membar.gl;", TICKET, ""), 4, 64).finds(&[("ReadAfterWrite", 10, 20)]);
    // One that reaches only its block.
    check(&last_block("membar.cta;", TICKET, ""), 4, 64).finds(&[("ReadAfterWrite", 10, 20)]);
}

#[test]
fn the_last_block_reads_in_a_race_without_the_atomic() {
    let plain = "ld.global.u32 %r10, [%rd1+8192];
        add.u32 %r11, %r10, 1;
        14| st.global.u32 [%rd1+8192], %r11;";
    let broken = check(&last_block("membar.gl;", plain, ""), 4, 64);
    let summary = broken.summary();
    assert!(summary.contains(&("ReadAfterWrite".to_owned(), 10, 20)), "{summary:?}");
    assert!(summary.contains(&("WriteAfterWrite".to_owned(), 14, 14)), "{summary:?}");
}

/// Block 0 writes and sets a flag, block 1 waits for it and reads.
fn flag(fence: &str, set: &str, get: &str) -> String {
    format!(
        "9| @!%p1 bra DONE;
        setp.ne.u32 %p3, %r1, 0;
        @%p3 bra READ;
        10| st.global.u32 [%rd1+1024], 42;
        11| {fence}
        12| {set} [%rd1], 1;
        bra DONE;
        READ:
        20| {get} %r10, [%rd1];
        setp.eq.u32 %p4, %r10, 0;
        @%p4 bra READ;
        21| {fence}
        22| ld.global.u32 %r11, [%rd1+1024];
        DONE: ret;"
    )
}

#[test]
fn a_flag_orders_what_is_released_before_it_and_acquired_after_it() {
    let strong = [
        ("st.volatile.global.u32", "ld.volatile.global.u32"),
        ("st.relaxed.gpu.global.u32", "ld.relaxed.gpu.global.u32"),
    ];
    for (set, get) in strong {
        check(&flag("fence.acq_rel.gpu;", set, get), 2, 32).is_clean();
        check(&flag("membar.gl;", set, get), 2, 32).is_clean();
        check(&flag("", set, get), 2, 32).finds(&[("ReadAfterWrite", 10, 22)]);
        check(&flag("membar.cta;", set, get), 2, 32).finds(&[("ReadAfterWrite", 10, 22)]);
    }
    check(&flag("", "st.release.gpu.global.u32", "ld.acquire.gpu.global.u32"), 2, 32).is_clean();
    check(&flag("", "st.release.gpu.global.u32", "ld.relaxed.gpu.global.u32"), 2, 32).finds(&[(
        "ReadAfterWrite",
        10,
        22,
    )]);
    check(&flag("", "st.relaxed.gpu.global.u32", "ld.acquire.gpu.global.u32"), 2, 32).finds(&[(
        "ReadAfterWrite",
        10,
        22,
    )]);
}

#[test]
fn a_lock_with_fences_protects_ordinary_accesses() {
    let body = |fence| {
        format!(
            "9| @!%p1 bra DONE;
            SPIN:
            10| atom.global.cas.b32 %r10, [%rd1], 0, 1;
            setp.ne.u32 %p3, %r10, 0;
            @%p3 bra SPIN;
            11| {fence}
            12| ld.global.u32 %r11, [%rd1+1024];
            add.u32 %r11, %r11, 1;
            13| st.global.u32 [%rd1+1024], %r11;
            14| {fence}
            15| atom.global.exch.b32 %r10, [%rd1], 0;
            DONE: ret;"
        )
    };
    let right = check(&body("membar.gl;"), 5, 64);
    right.is_clean();
    assert_eq!(right.memory[256], 5);
    let broken = check(&body(""), 5, 64);
    broken.finds(&[("WriteAfterRead", 12, 13), ("WriteAfterWrite", 13, 13)]);
}

#[test]
fn a_barrier_of_the_whole_grid_orders_everything_before_it() {
    let body = |fence| {
        format!(
            "10| st.global.u32 [%rd3], %r0;
            11| bar.sync 0;
            @!%p1 bra JOIN;
            12| {fence}
            13| red.global.add.u32 [%rd1+8192], 1;
            WAIT:
            14| ld.volatile.global.u32 %r10, [%rd1+8192];
            setp.ne.u32 %p3, %r10, 3;
            @%p3 bra WAIT;
            15| {fence}
            JOIN:
            16| bar.sync 0;
            20| ld.global.u32 %r11, [%rd2];
            ld.global.u32 %r11, [%rd2+256];
            ld.global.u32 %r11, [%rd2+512];
            ret;"
        )
    };
    check(&body("membar.gl;"), 3, 64).is_clean();
    check(&body(""), 3, 64).finds(&[("ReadAfterWrite", 10, 20)]);
}

/// All write, and one block sums up after all have taken a ticket: the one that `who` finds out, `%p3` for the others.
fn sums_up(who: &str) -> String {
    format!(
        "10| st.global.u32 [%rd3+1024], %r0;
        11| membar.gl;
        12| bar.sync 0;
        13| @%p1 atom.global.inc.u32 %r10, [%rd1], 3;
        14| @%p1 st.shared.u32 [other], %r10;
        15| bar.sync 0;
        {who}
        @%p3 bra DONE;
        17| ld.global.u32 %r13, [%rd2+1024];
        ld.global.u32 %r13, [%rd2+1280];
        ld.global.u32 %r13, [%rd2+1536];
        ld.global.u32 %r13, [%rd2+1792];
        DONE: ret;"
    )
}

#[test]
fn the_block_of_the_last_index_need_not_be_the_last_to_come() {
    let right = check(&sums_up("ld.shared.u32 %r11, [other];\nsetp.ne.u32 %p3, %r11, 3;"), 4, 64);
    right.is_clean();
    // The launch leaves what it wrote, once: the ticket has come round.
    assert_eq!(right.memory[0], 0);
    assert_eq!(right.memory[256..512], [0, 1, 2, 3].map(|_| (0..64).collect::<Vec<u32>>()).concat());
    check(&sums_up("setp.ne.u32 %p3, %r1, 3;"), 4, 64).finds(&[("ReadAfterWrite", 10, 17)]);
    check(&sums_up("setp.ne.u32 %p3, %r1, 0;"), 4, 64).finds(&[("ReadAfterWrite", 10, 17)]);
}

#[test]
fn a_flag_that_nobody_tests_orders_nothing() {
    // Whether the reader's index is the higher or the lower one; and in one block, of two warps.
    let body = |reader: &str, first: u32, test: &str| {
        format!(
            "9| rem.u32 %r20, %r0, 32;
            setp.ne.u32 %p3, %r20, 0;
            @%p3 bra DONE;
            setp.eq.u32 %p4, {reader}, {first};
            @%p4 bra READ;
            10| st.global.u32 [%rd1+64], 5;
            11| membar.gl;
            12| st.volatile.global.u32 [%rd1], 1;
            bra DONE;
            READ:
            13| ld.volatile.global.u32 %r10, [%rd1];
            setp.eq.u32 %p5, %r10, 0;
            {test}
            14| membar.gl;
            15| ld.global.u32 %r11, [%rd1+64];
            DONE: ret;"
        )
    };
    for reader in [0, 1] {
        check(&body("%r1", reader, "@%p5 bra READ;"), 2, 32).is_clean();
        check(&body("%r1", reader, ""), 2, 32).finds(&[("ReadAfterWrite", 10, 15)]);
        check(&body("%r0", 32 * reader, "@%p5 bra READ;"), 1, 64).is_clean();
        check(&body("%r0", 32 * reader, ""), 1, 64).finds(&[("ReadAfterWrite", 10, 15)]);
    }
}

#[test]
fn blocks_that_wait_for_the_one_before_run_in_either_order() {
    // A chain: each block waits for the flag of the block before it, adds to its sum and hands it on.
    let body = |fence| {
        format!(
            "9| @!%p1 bra DONE;
            mul.wide.u32 %rd10, %r1, 4;
            add.u64 %rd10, %rd1, %rd10;
            mov.u32 %r11, 0;
            setp.eq.u32 %p3, %r1, 0;
            @%p3 bra ADD;
            WAIT:
            10| ld.volatile.global.u32 %r10, [%rd10+-4];
            setp.eq.u32 %p4, %r10, 0;
            @%p4 bra WAIT;
            11| {fence}
            12| ld.global.u32 %r11, [%rd10+4092];
            ADD:
            add.u32 %r11, %r11, 1;
            13| st.global.u32 [%rd10+4096], %r11;
            14| {fence}
            15| st.volatile.global.u32 [%rd10], 1;
            DONE: ret;"
        )
    };
    let right = check(&body("membar.gl;"), 50, 32);
    right.is_clean();
    assert_eq!(right.memory[1024 + 49], 50);
    check(&body("membar.cta;"), 50, 32).finds(&[("WriteAfterRead", 12, 13)]);
}

/// All threads of all blocks read a word, and each block's thread 0 takes a ticket; the last one writes the word.
fn many_readers(late: &str, blocks: u32) -> String {
    format!(
        "10| ld.global.u32 %r10, [%rd1+512];
        11| membar.gl;
        12| bar.sync 0;
        {late}
        @!%p1 bra DONE;
        14| atom.global.inc.u32 %r11, [%rd1], {};
        setp.ne.u32 %p3, %r11, {};
        @%p3 bra DONE;
        15| membar.gl;
        16| st.global.u32 [%rd1+512], 1;
        DONE: ret;",
        blocks - 1,
        blocks - 1
    )
}

#[test]
fn a_word_that_many_blocks_read_may_be_written_by_the_last_to_come() {
    check(&many_readers("", 20), 20, 64).is_clean();
    // One thread of each block reads once more, when its word has been given.
    let late = "setp.eq.u32 %p5, %r0, 37;\n13| @%p5 ld.global.u32 %r12, [%rd1+512];";
    check(&many_readers(late, 20), 20, 64).finds(&[("WriteAfterRead", 13, 16)]);
}

#[test]
fn every_single_reader_must_have_given_its_word() {
    // Each thread takes a ticket of its own; with `skip`, some do without a fence.
    let body = |skip: &str| {
        format!(
            "rem.u32 %r20, %r0, 32;
            setp.eq.u32 %p5, %r20, 21;
            setp.ne.u32 %p6, %r20, 21;
            10| ld.global.u32 %r10, [%rd1+512];
            11| {skip} membar.gl;
            12| atom.global.inc.u32 %r11, [%rd1], 255;
            setp.ne.u32 %p3, %r11, 255;
            @%p3 bra DONE;
            13| membar.gl;
            14| st.global.u32 [%rd1+512], 1;
            DONE: ret;"
        )
    };
    check(&body(""), 4, 64).is_clean();
    check(&body("@%p6"), 4, 64).finds(&[("WriteAfterRead", 10, 14)]);
}

#[test]
fn what_many_blocks_read_in_a_kernel_with_fences_takes_time_in_proportion() {
    // Each takes a tenth of a second or two; were it quadratic in the threads, minutes.
    let start = std::time::Instant::now();
    check("10| ld.global.u32 %r10, [%rd1];\n11| membar.gl;", 800, 64).is_clean();
    check("10| membar.gl;\n11| atom.global.add.u32 %r10, [%rd1], 1;", 800, 64).is_clean();
    check(&many_readers("", 800), 800, 64).is_clean();
    assert!(start.elapsed().as_secs() < 20, "{:?}", start.elapsed());
}
