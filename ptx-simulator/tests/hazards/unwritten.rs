//! Reads of memory that nobody has written.

use super::*;

#[test]
fn shared_memory_must_be_written_in_its_own_block_before_it_is_read() {
    let body = |write| format!("10| {write}\n11| ld.shared.u32 %r10, [%r4];\nret;");
    check(&body("st.shared.u32 [%r4], %r0;"), 3, 64).is_clean();
    let broken = check(&body(""), 3, 64);
    broken.finds(&[("Uninitialised", 11, 0)]);
    assert_eq!(broken.findings[0].count, 3 * 64);
    // What the first block wrote is gone in the next.
    check(&body("setp.eq.u32 %p3, %r1, 0;\n10| @%p3 st.shared.u32 [%r4], %r0;"), 2, 64).finds(&[(
        "Uninitialised",
        11,
        0,
    )]);
}

#[test]
fn every_byte_counts_for_itself() {
    let body = |ty| format!("10| st.shared.u16 [%r4], %r0;\n11| ld.shared.{ty} %r10, [%r4];\nret;");
    check(&body("u16"), 1, 32).is_clean();
    let broken = check(&body("u32"), 1, 32);
    broken.finds(&[("Uninitialised", 11, 0)]);
    let touched = broken.findings[0].touched.as_ref().unwrap();
    assert_eq!((touched.address, touched.bytes), (2, 2));
}

#[test]
fn a_read_that_races_with_the_write_is_a_race_and_nothing_else() {
    // Whoever runs first: the reader's word is written by a warp before it or after it.
    let body = "10| st.shared.u32 [%r4], %r0;\n11| ld.shared.u32 %r10, [%r6];\nret;";
    check(body, 2, 64).finds(&[("ReadAfterWrite", 10, 11)]);
    // Written after a barrier only, and so too late for certain.
    let late = "11| ld.shared.u32 %r10, [%r6];\n12| bar.sync 0;\n13| st.shared.u32 [%r4], %r0;\nret;";
    check(late, 2, 64).finds(&[("Uninitialised", 11, 0)]);
}

#[test]
fn an_atomic_reads_what_it_changes() {
    check("10| atom.shared.add.u32 %r10, [%r4], 1;\nret;", 1, 32).finds(&[("Uninitialised", 10, 0)]);
}

#[test]
fn global_memory_counts_as_unwritten_where_the_host_says_so() {
    let read = "10| ld.global.u32 %r10, [%rd3];\nret;";
    check_with(read, 2, 64, 0).is_clean();
    let broken = check_with(read, 2, 64, 100);
    broken.finds(&[("Uninitialised", 10, 0)]);
    assert_eq!(broken.findings[0].count, 100);
    let written = "9| st.global.u32 [%rd3], 1;\n10| ld.global.u32 %r10, [%rd3];\nret;";
    check_with(written, 2, 64, 100).is_clean();
    let added = "10| red.global.add.u32 [%rd2], 1;\nret;";
    check_with(added, 2, 64, WORDS).finds(&[("Uninitialised", 10, 0)]);
}
