//! `cp.async`, its groups and its waits.

use crate::support::{kernel_with_body, load};
use crate::{failure, numbers, run};
use ptx_simulator::{AccessKind, LaunchErrorKind, MemorySpace, Module};

/// Each thread copies the 16 bytes that are its own, `COPY` doing it, and writes what it finds after `WAIT`.
fn copied(copy: &str, wait: &str) -> Vec<u32> {
    run(
        &format!(
            "mad.lo.u32 %r2, %thread, 16, %r30; mul.wide.u32 %rd1, %thread, 16; add.u64 %rd2, %rd30, %rd1;
            add.u64 %rd3, %in0, %rd1; add.u64 %rd4, %out, %rd1;
            mov.u32 %r3, 0x55555555; st.shared.v4.u32 [%r2], {{%r3, %r3, %r3, %r3}};
            setp.lt.u32 %p1, %thread, 8; and.b32 %r9, %thread, 15; min.u32 %r9, %r9, 16;
            {copy}
            {wait}
            ld.shared.v4.u32 {{%r4, %r5, %r6, %r7}}, [%r2]; st.global.v4.u32 [%rd4], {{%r4, %r5, %r6, %r7}};"
        ),
        32,
        [&numbers(128), &[]],
        128,
    )
}

const OLD: u32 = 0x5555_5555;

#[test]
fn all_forms_copy_their_bytes_once_they_are_waited_for() {
    for copy in [
        "cp.async.ca.shared.global [%r2], [%rd3], 16;",
        "cp.async.cg.shared.global [%r2], [%rd3], 16;",
        "cp.async.cg.shared::cta.global.L2::128B [%rd2], [%rd3], 16;",
        "cp.async.ca.shared::cta.global.L2::64B [%r2+0], [%rd3+0], 8; cp.async.ca.shared.global.L2::256B [%r2+8], [%rd3+8], 8;",
        "cp.async.ca.shared.global [%r2], [%rd3], 4; cp.async.ca.shared.global [%r2+4], [%rd3+4], 4;
         cp.async.ca.shared.global [%rd2+8], [%rd3+8], 4; cp.async.ca.shared.global [%rd2+12], [%rd3+12], 4, 4;",
        "mov.u32 %r8, 16; cp.async.cg.shared.global [%r2], [%rd3], 16, %r8;",
        "createpolicy.fractional.L2::evict_last.b64 %rd9, 1.0;
         cp.async.cg.shared.global.L2::cache_hint [%r2], [%rd3], 16, %rd9;",
        "add.u32 %r8, %r2, 0x100; cp.async.ca.shared.global [%r8+-256], [%rd3], 16;",
    ] {
        if copy.starts_with("createpolicy") {
            // The instruction that makes cache policies isn't known; any number does.
            let copy = copy.replace("createpolicy.fractional.L2::evict_last.b64 %rd9, 1.0;", "mov.u64 %rd9, 0;");
            assert_eq!(copied(&copy, "cp.async.wait_all;"), (0..128).collect::<Vec<u32>>(), "{copy}");
            continue;
        }
        for wait in ["cp.async.wait_all;", "cp.async.commit_group; cp.async.wait_group 0;"] {
            assert_eq!(copied(copy, wait), (0..128).collect::<Vec<u32>>(), "{copy} {wait}");
        }
    }
}

#[test]
fn bytes_past_the_source_size_are_zeros() {
    for (size, copy) in [
        (0, "cp.async.cg.shared.global [%r2], [%rd3], 16, 0;"),
        (7, "cp.async.cg.shared.global [%r2], [%rd3], 16, 7;"),
        (12, "mov.u32 %r8, 12; cp.async.ca.shared.global [%r2], [%rd3], 16, %r8;"),
    ] {
        let mut want = numbers(128);
        for chunk in want.chunks_exact_mut(16) {
            chunk[size..].fill(0);
        }
        let want: Vec<u32> = want.chunks_exact(4).map(|word| u32::from_le_bytes(word.try_into().unwrap())).collect();
        assert_eq!(copied(copy, "cp.async.wait_all;"), want, "{copy}");
    }
    // Each lane its own size.
    let got = copied("cp.async.ca.shared.global [%r2], [%rd3], 16, %r9;", "cp.async.wait_all;");
    for (lane, words) in got.chunks_exact(4).enumerate() {
        let mut bytes: Vec<u8> = (0..4u32).flat_map(|word| (lane as u32 * 4 + word).to_le_bytes()).collect();
        bytes[lane % 16..].fill(0);
        let got: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        assert_eq!(got, bytes, "lane {lane}");
    }
}

#[test]
fn a_source_of_no_bytes_is_not_read() {
    // The addresses are nobody's.
    let got = copied("mov.u64 %rd3, 0; cp.async.cg.shared.global [%r2], [%rd3], 16, 0;", "cp.async.wait_all;");
    assert_eq!(got, [0; 128]);
}

#[test]
fn lanes_that_ignore_their_source_write_zeros() {
    let want = |zero: fn(u32) -> bool| (0..128).map(|word| if zero(word / 4) { 0 } else { word }).collect::<Vec<u32>>();
    let wait = "cp.async.wait_all;";
    assert_eq!(copied("cp.async.cg.shared.global [%r2], [%rd3], 16, %p1;", wait), want(|lane| lane < 8));
    assert_eq!(copied("cp.async.ca.shared.global [%r2], [%rd3], 16, !%p1;", wait), want(|lane| lane >= 8));
}

#[test]
fn guards_leave_lanes_out() {
    let got = copied("@%p1 cp.async.cg.shared.global [%r2], [%rd3], 16;", "cp.async.wait_all;");
    let want: Vec<u32> = (0..128).map(|word| if word / 4 < 8 { word } else { OLD }).collect();
    assert_eq!(got, want);
}

#[test]
fn nothing_is_there_before_the_wait() {
    let copy = "cp.async.cg.shared.global [%r2], [%rd3], 16;";
    for wait in [
        "",
        "cp.async.commit_group;",
        "cp.async.commit_group; cp.async.wait_group 1;",
        "bar.sync 0;",
        "cp.async.commit_group; bar.sync 0; membar.cta;",
        // What is in no group isn't waited for by groups.
        "cp.async.wait_group 0;",
        // Only lanes that wait have waited.
        "@!%p0 bra over; cp.async.wait_all; over:",
    ] {
        let copy = format!("setp.ge.u32 %p0, %thread, 32; {copy}");
        assert_eq!(copied(&copy, wait), [OLD; 128], "{wait}");
    }
}

#[test]
fn wait_group_leaves_the_newest_groups_open() {
    // Four groups of four bytes; an empty one counts as well.
    let copy = "cp.async.ca.shared.global [%r2], [%rd3], 4; cp.async.commit_group;
        cp.async.ca.shared.global [%r2+4], [%rd3+4], 4; cp.async.commit_group;
        cp.async.ca.shared.global [%r2+8], [%rd3+8], 4; cp.async.commit_group;
        cp.async.commit_group;";
    for open in 0..6 {
        let done = 4 - open.min(4);
        let want: Vec<u32> = (0..128).map(|word| if word % 4 < done.min(3) { word } else { OLD }).collect();
        assert_eq!(copied(copy, &format!("cp.async.wait_group {open};")), want, "{open} open");
    }
}

#[test]
fn each_thread_counts_groups_of_its_own() {
    // Lanes below 8 commit once more, so that one open group is another one for them.
    let copy = "cp.async.ca.shared.global [%r2], [%rd3], 4; cp.async.commit_group;
        @!%p1 bra over;
        cp.async.ca.shared.global [%r2+4], [%rd3+4], 4; cp.async.commit_group;
        over:";
    let want = |word: u32| word / 4 < 8 && word.is_multiple_of(4);
    let want: Vec<u32> = (0..128).map(|word| if want(word) { word } else { OLD }).collect();
    assert_eq!(copied(copy, "cp.async.wait_group 1;"), want);
}

#[test]
fn a_copy_reads_its_source_as_late_as_it_may() {
    // The thread overwrites its source between the copy and the wait.
    let copy = "cp.async.ca.shared.global [%r2], [%rd3], 4; st.global.u32 [%rd3], 77;";
    let got = copied(copy, "cp.async.wait_all;");
    assert!(got.chunks_exact(4).all(|words| words[0] == 77), "{got:?}");
}

#[test]
fn other_threads_see_copies_after_a_wait_and_a_barrier() {
    // A ring of two stages: in round r every thread copies word 64 r + t and reads its neighbour's of the round before.
    let body = "
        mov.u32 %r2, 0; mov.u32 %r8, 0;
        mul.wide.u32 %rd1, %thread, 4; add.u64 %rd3, %in0, %rd1; add.u64 %rd4, %out, %rd1;
        mad.lo.u32 %r3, %thread, 4, %r30;
        add.u32 %r5, %thread, 1; and.b32 %r5, %r5, 63; mad.lo.u32 %r5, %r5, 4, %r30;
        cp.async.ca.shared.global [%r3], [%rd3], 4; cp.async.commit_group;
        again:
        add.u64 %rd3, %rd3, 256; xor.b32 %r3, %r3, 256;
        setp.lt.u32 %p1, %r2, 3;
        @%p1 cp.async.ca.shared.global [%r3], [%rd3], 4;
        cp.async.commit_group;
        cp.async.wait_group 1;
        bar.sync 0;
        ld.shared.u32 %r6, [%r5]; add.u32 %r8, %r8, %r6; xor.b32 %r5, %r5, 256;
        bar.sync 0;
        add.u32 %r2, %r2, 1; setp.lt.u32 %p0, %r2, 4; @%p0 bra again;
        st.global.u32 [%rd4], %r8;";
    let body = body.replace("mov.u32 %r8, 0;", "mov.u32 %r8, 0; and.b32 %r30, %r30, -512;");
    let got = run(&body, 64, [&numbers(256), &[]], 64);
    let want: Vec<u32> = (0..64).map(|thread| (0..4).map(|round| 64 * round + (thread + 1) % 64).sum()).collect();
    assert_eq!(got, want);
}

#[test]
fn bad_addresses_are_errors_at_the_copy() {
    let error = failure("mov.u64 %rd3, 0x100; cp.async.cg.shared.global [%r30], [%rd3], 16;", 1);
    let LaunchErrorKind::OutOfBounds { space: MemorySpace::Global, bytes: 16, access: AccessKind::Read, .. } =
        error.kind
    else {
        panic!("{error}");
    };
    // 8 of 16 bytes are inside.
    assert!(matches!(
        failure("add.u64 %rd3, %in0, 256; cp.async.cg.shared.global [%r30], [%rd3+-16], 16, 16; cp.async.cg.shared.global [%r30], [%rd3], 16, 4;", 1).kind,
        LaunchErrorKind::OutOfBounds { space: MemorySpace::Global, bytes: 4, .. }
    ));
    assert!(matches!(
        failure("add.u32 %r2, %r30, 4096; cp.async.ca.shared.global [%r2], [%in0], 4;", 1).kind,
        LaunchErrorKind::OutOfBounds { space: MemorySpace::Shared, bytes: 4, access: AccessKind::Write, .. }
    ));
    for copy in [
        "cp.async.cg.shared.global [%r30+8], [%in0], 16;",
        "cp.async.cg.shared.global [%r30], [%in0+8], 16;",
        "cp.async.cg.shared.global [%r30], [%in0+8], 16, 8;",
        "cp.async.ca.shared.global [%r30], [%in0+2], 4;",
    ] {
        assert!(matches!(failure(copy, 1).kind, LaunchErrorKind::Misaligned { .. }), "{copy}");
    }
    let error = failure("mov.u32 %r2, 17; cp.async.cg.shared.global [%r30], [%in0], 16, %r2;", 1);
    assert_eq!(error.kind, LaunchErrorKind::BadCopySize { bytes: 17, limit: 16 });
}

#[test]
fn copies_that_nobody_waits_for_harm_nobody() {
    let got = run(
        "cp.async.cg.shared.global [%r30], [%in0], 16; mul.wide.u32 %rd1, %thread, 4; add.u64 %rd1, %out, %rd1;
        st.global.u32 [%rd1], %thread;",
        64,
        [&numbers(4), &[]],
        64,
    );
    assert_eq!(got, (0..64).collect::<Vec<u32>>());
}

#[test]
fn forms_that_do_not_exist_are_refused() {
    load(&kernel_with_body("", "cp.async.wait_all;"));
    for copy in [
        "cp.async.cg.shared.global [%r1], [%in0], 8;",
        "cp.async.ca.shared.global [%r1], [%in0], 12;",
        "cp.async.ca.global.shared [%in0], [%r1], 4;",
        "cp.async.wait_group %r1;",
        "cp.async.ca.shared.global [%r1], [%in0];",
    ] {
        assert!(Module::parse(&kernel_with_body("", copy)).is_err(), "{copy}");
    }
}
