//! Accesses that leave the shared array that their address was made from.

use super::*;

#[test]
fn an_access_past_the_end_of_its_array_is_named_with_the_array_and_its_declaration() {
    // `other` lies behind `tile`, so that the access is inside shared memory.
    let body = |offset| {
        format!(
            "5| mov.u64 %rd10, tile;
            cvta.shared.u64 %rd10, %rd10;
            6| cvt.u64.u32 %rd11, %r2;
            7| cvta.to.shared.u64 %rd12, %rd10;
            add.u64 %rd12, %rd12, %rd11;
            10| st.shared.u32 [%rd12+{offset}], %r0;
            ret;"
        )
    };
    check(&body(896), 1, 32).is_clean();
    let broken = check(&body(900), 1, 32);
    broken.finds(&[("OutsideArray", 10, 0)]);
    let finding = &broken.findings[0];
    assert_eq!((finding.count, finding.first.thread), (1, [31, 0, 0]));
    let touched = finding.touched.as_ref().unwrap();
    assert_eq!((touched.array.as_deref(), touched.address, touched.bytes), (Some("tile"), 1024, 4));
    assert_eq!((touched.start, touched.length), (Some(0), Some(1024)));
    // The first instruction that takes the array's address is the harness's own, on line 1.
    assert_eq!(touched.declared.as_ref().unwrap().line, 1);
}

#[test]
fn an_access_before_its_array_is_found_too() {
    let body = |offset| {
        format!(
            "5| mov.u32 %r10, other;
            6| add.u32 %r11, %r10, %r2;
            10| st.shared.u32 [%r11{offset}], %r0;
            ret;"
        )
    };
    check(&body(""), 1, 64).is_clean();
    let broken = check(&body("+-4"), 1, 64);
    broken.finds(&[("OutsideArray", 10, 0)]);
    let touched = broken.findings[0].touched.as_ref().unwrap();
    assert_eq!((touched.array.as_deref(), touched.address, touched.start), (Some("other"), 1020, Some(1024)));
    assert_eq!(touched.declared.as_ref().unwrap().line, 5);
}

#[test]
fn an_address_in_the_instruction_is_judged_as_well() {
    check("10| @%p1 st.shared.u32 [tile+1020], 1;\nret;", 1, 32).is_clean();
    check("10| @%p1 st.shared.u32 [tile+1024], 1;\nret;", 1, 32).finds(&[("OutsideArray", 10, 0)]);
    check("10| @%p1 st.shared.v2.u32 [tile+1016], {1, 1};\nret;", 1, 32).is_clean();
}

#[test]
fn generic_addresses_and_loops_keep_their_array() {
    let body = |rounds| {
        format!(
            "5| mov.u64 %rd10, tile;
            6| cvta.shared.u64 %rd11, %rd10;
            cvt.u64.u32 %rd12, %r2;
            add.u64 %rd13, %rd11, %rd12;
            mov.u32 %r10, 0;
            LOOP:
            10| st.u32 [%rd13], %r0;
            11| add.u64 %rd13, %rd13, 128;
            add.u32 %r10, %r10, 1;
            setp.lt.u32 %p3, %r10, {rounds};
            @%p3 bra LOOP;
            ret;"
        )
    };
    check(&body(8), 1, 32).is_clean();
    let broken = check(&body(9), 1, 32);
    broken.finds(&[("OutsideArray", 10, 0)]);
    assert_eq!(broken.findings[0].count, 32);
}

#[test]
fn an_address_that_may_be_of_two_arrays_is_not_judged() {
    let body = "5| mov.u32 %r10, tile;
        6| mov.u32 %r11, other;
        7| selp.b32 %r12, %r10, %r11, %p2;
        add.u32 %r12, %r12, %r2;
        10| st.shared.u32 [%r12], %r0;
        ret;";
    check(body, 1, 64).is_clean();
}

#[test]
fn an_index_that_was_loaded_says_nothing_about_the_array() {
    let body = "5| mov.u32 %r10, other;
        add.u32 %r11, %r10, %r2;
        6| st.shared.u32 [%r11], %r2;
        7| ld.shared.u32 %r12, [%r11];
        8| add.u32 %r13, %r3, %r12;
        10| st.shared.u32 [%r13+512], %r0;
        ret;";
    check(body, 1, 64).is_clean();
}

#[test]
fn an_address_that_may_have_been_loaded_is_not_judged() {
    // The second warp's address was in memory, and is of another array than the first's.
    let body = |offset| {
        format!(
            "10| mov.u32 %r10, other;
            add.u32 %r10, %r10, %r2;
            11| st.shared.u32 [%r4], %r10;
            12| bar.sync 0;
            13| mov.u32 %r11, tile;
            add.u32 %r11, %r11, %r2;
            setp.gt.u32 %p3, %r0, 31;
            14| @%p3 ld.shared.u32 %r11, [%r4];
            15| bar.sync 0;
            16| st.shared.u32 [%r11+{offset}], %r0;"
        )
    };
    check(&body(0), 1, 64).is_clean();
    // What may have been loaded is one thing, an index another.
    let indexed = |offset| {
        format!(
            "10| st.shared.u32 [%r4], %r2;
            11| ld.shared.u32 %r10, [%r4];
            12| add.u32 %r11, %r3, %r10;
            13| st.shared.u32 [%r11+{offset}], %r0;"
        )
    };
    check(&indexed(896), 1, 32).is_clean();
    check(&indexed(900), 1, 32).finds(&[("OutsideArray", 13, 0)]);
}

#[test]
fn an_access_outside_its_array_is_in_the_way_of_others_where_it_is() {
    let body = |barrier| {
        format!(
            "5| mov.u32 %r10, other;
            10| @%p1 st.shared.u32 [tile+1024], 1;
            11| {barrier}
            12| @!%p1 ld.shared.u32 %r11, [%r10];"
        )
    };
    check(&body("bar.sync 0;"), 1, 64).finds(&[("OutsideArray", 10, 0)]);
    check(&body(""), 1, 64).finds(&[("OutsideArray", 10, 0), ("ReadAfterWrite", 10, 12)]);
}
