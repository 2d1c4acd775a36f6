//! Loads and stores of every width, sign and vector length, in every memory.

use crate::support::values::Random;
use crate::support::{bytes_of, run_body};

/// Bytes with no pattern.
fn noise(count: usize) -> Vec<u8> {
    let mut random = Random::new(3);
    (0..count).map(|_| random.next() as u8).collect()
}

/// Loads one element of `memory` type per thread, widens it to 64 bits by the load itself, stores the 64 bits.
fn widened(memory: &str, size: usize) -> Vec<u64> {
    let register = if memory == "f32" { "%f0" } else { "%rd1" };
    let back = if memory == "f32" { "mov.b32 %r2, %f0; cvt.u64.u32 %rd1, %r2;" } else { "" };
    run_body(
        "",
        &format!(
            "mul.wide.u32 %rd0, %thread, {size}; add.u64 %rd0, %in0, %rd0;
            ld.global.{memory} {register}, [%rd0]; {back}
            mul.wide.u32 %rd2, %thread, 8; add.u64 %rd2, %out, %rd2;
            st.global.u64 [%rd2], %rd1;"
        ),
        1,
        40,
        [&noise(40 * size), &[]],
        40,
    )
}

#[test]
fn narrow_loads_extend_by_the_sign_of_their_type() {
    let bytes = noise(320);
    let chunk = |size: usize, i: usize| &bytes[i * size..(i + 1) * size];
    let check = |memory: &str, size: usize, expected: &dyn Fn(&[u8]) -> u64| {
        let want: Vec<u64> = (0..40).map(|i| expected(&noise(40 * size)[i * size..(i + 1) * size])).collect();
        assert_eq!(widened(memory, size), want, "ld.global.{memory}");
    };
    assert_eq!(chunk(1, 0).len(), 1);
    check("u8", 1, &|b| b[0].into());
    check("s8", 1, &|b| b[0] as i8 as u64);
    check("b8", 1, &|b| b[0].into());
    check("u16", 2, &|b| u16::from_le_bytes([b[0], b[1]]).into());
    check("s16", 2, &|b| i16::from_le_bytes([b[0], b[1]]) as u64);
    check("b16", 2, &|b| u16::from_le_bytes([b[0], b[1]]).into());
    check("u32", 4, &|b| u32::from_le_bytes(b.try_into().unwrap()).into());
    check("s32", 4, &|b| i32::from_le_bytes(b.try_into().unwrap()) as u64);
    check("b32", 4, &|b| u32::from_le_bytes(b.try_into().unwrap()).into());
    check("f32", 4, &|b| u32::from_le_bytes(b.try_into().unwrap()).into());
    check("u64", 8, &|b| u64::from_le_bytes(b.try_into().unwrap()));
    check("s64", 8, &|b| u64::from_le_bytes(b.try_into().unwrap()));
    check("b64", 8, &|b| u64::from_le_bytes(b.try_into().unwrap()));
}

#[test]
fn narrow_stores_write_their_own_bytes_only() {
    let got: Vec<u8> = run_body(
        "",
        "mul.wide.u32 %rd0, %thread, 16; add.u64 %rd0, %out, %rd0;
        mov.u32 %r2, 0x11223344; mov.u64 %rd1, 0x8877665544332211; mov.u16 %h0, 0xabcd;
        st.global.u8 [%rd0+1], %r2;
        st.global.s8 [%rd0+2], %h0;
        st.global.b16 [%rd0+4], %h0;
        st.global.u16 [%rd0+6], %r2;
        st.global.b32 [%rd0+8], %rd1;
        st.global.b8 [%rd0+12], %rd1;
        st.global.b8 [%rd0+15], 0xee;",
        2,
        33,
        [&[], &[]],
        66 * 16,
    );
    let one = [0, 0x44, 0xcd, 0, 0xcd, 0xab, 0x44, 0x33, 0x11, 0x22, 0x33, 0x44, 0x11, 0, 0, 0xee];
    assert_eq!(got, one.repeat(66));
}

/// Copies 32 bytes per thread with vector loads and stores of one type.
fn copied(space_load: &str, class: &str, size: usize, vector: usize) {
    let bytes = noise(70 * 32);
    let step = size * vector;
    let prefix = match (class.starts_with('f'), size) {
        (true, 8) => "%d",
        (true, _) => "%f",
        (_, 8) => "%rd1",
        (_, 4) => "%r1",
        _ => "%h",
    };
    let names: Vec<String> = (0..vector).map(|i| format!("{prefix}{i}")).collect();
    let operand = if vector == 1 { names[0].clone() } else { format!("{{{}}}", names.join(", ")) };
    let kind = if vector == 1 { class.to_owned() } else { format!("v{vector}.{class}") };
    let lines: String = (0..32 / step)
        .map(|i| {
            let at = i * step;
            format!("ld.{space_load}.{kind} {operand}, [%rd0+{at}]; st.global.{kind} [%rd2+{at}], {operand};\n")
        })
        .collect();
    let got: Vec<u8> = run_body(
        "",
        &format!(
            "mul.wide.u32 %rd0, %thread, 32; add.u64 %rd2, %out, %rd0; add.u64 %rd0, %in0, %rd0;
            {lines}"
        ),
        1,
        70,
        [&bytes, &[]],
        bytes.len(),
    );
    assert!(got == bytes, "ld.{space_load}.{kind} and st.global.{kind} lose something");
}

#[test]
fn vectors_keep_their_order() {
    for (class, size) in [
        ("u8", 1),
        ("s8", 1),
        ("b16", 2),
        ("u16", 2),
        ("b32", 4),
        ("u32", 4),
        ("f32", 4),
        ("b64", 8),
        ("f64", 8),
        ("s64", 8),
    ] {
        for vector in [1, 2, 4] {
            if size * vector <= 16 {
                copied("global", class, size, vector);
            }
        }
    }
    copied("global.nc", "f32", 4, 4);
    copied("global.nc.L1::evict_last", "u32", 4, 2);
    copied("volatile.global", "u32", 4, 1);
    copied("global.cg", "b64", 8, 2);
    copied("relaxed.gpu.global", "u32", 4, 1);
    copied("acquire.sys.global", "u64", 8, 1);
}

#[test]
fn narrow_vectors_extend_each_element() {
    let bytes = noise(4 * 40);
    let got: Vec<i32> = run_body(
        "",
        "mul.wide.u32 %rd0, %thread, 4; add.u64 %rd0, %in0, %rd0;
        ld.global.v4.s8 {%r2, %r3, %r4, %r5}, [%rd0];
        mul.wide.u32 %rd2, %thread, 16; add.u64 %rd2, %out, %rd2;
        st.global.v4.u32 [%rd2], {%r2, %r3, %r4, %r5};",
        1,
        40,
        [&bytes, &[]],
        160,
    );
    let want: Vec<i32> = bytes.iter().map(|&byte| (byte as i8).into()).collect();
    assert_eq!(got, want);
}

#[test]
fn a_vector_and_the_word_after_it_go_to_the_same_place_whatever_was_stored_before() {
    let got: Vec<u32> = run_body(
        "",
        "mul.wide.u32 %rd0, %thread, 12; add.u64 %rd0, %out, %rd0;
        add.u32 %r2, %thread, 100; add.u32 %r3, %thread, 200; add.u32 %r4, %thread, 300;
        mul.wide.u32 %rd2, %thread, 16; add.u64 %rd2, %out, %rd2;
        st.global.u32 [%rd0+1024], %r2;
        bra.uni next;
        next:
        st.global.v2.u32 [%rd2], {%r2, %r3};
        st.global.u32 [%rd2+8], %r4; st.global.u32 [%rd2+12], %thread;",
        1,
        64,
        [&[], &[]],
        8 * 64,
    );
    let expected: Vec<u32> = (0..64).flat_map(|thread| [thread + 100, thread + 200, thread + 300, thread]).collect();
    assert_eq!(got[..4 * 64], expected);
}

#[test]
fn a_load_may_replace_its_own_address() {
    let next: Vec<u32> = (0..64).map(|i| (i * 5 + 3) % 64).collect();
    let got: Vec<u32> = run_body(
        "",
        "mov.u32 %r2, %thread; mov.u32 %r3, 0;
        again: mul.wide.u32 %rd0, %r2, 4; add.u64 %rd0, %in0, %rd0;
        ld.global.u32 %rd0, [%rd0]; cvt.u32.u64 %r2, %rd0;
        add.u32 %r3, %r3, 1; setp.lt.u32 %p0, %r3, 5; @%p0 bra again;
        mul.wide.u32 %rd2, %thread, 4; add.u64 %rd2, %out, %rd2; st.global.u32 [%rd2], %r2;",
        1,
        64,
        [&bytes_of(&next), &[]],
        64,
    );
    let want: Vec<u32> = (0..64).map(|i| (0..5).fold(i, |at, _| next[at as usize])).collect();
    assert_eq!(got, want);
}

#[test]
fn shared_and_local_memory_hold_every_width() {
    for (space, mine) in [("shared", 48u32), ("local", 0)] {
        let got: Vec<u64> = run_body(
            "",
            &format!(
                ".{space} .align 16 .b8 place[{bytes}];
                mov.u64 %rd0, place; mov.u32 %r2, %tid.x; mul.wide.u32 %rd1, %r2, {mine}; add.u64 %rd0, %rd0, %rd1;
                add.u32 %r3, %thread, 0x01020304; cvt.u64.u32 %rd3, %r3; shl.b64 %rd4, %rd3, 32; or.b64 %rd3, %rd3, %rd4;
                st.{space}.u64 [%rd0], %rd3;
                st.{space}.u32 [%rd0+8], %r3;
                st.{space}.v2.u16 [%rd0+12], {{%h0, %h1}};
                cvt.u16.u32 %h0, %r3; cvt.u16.u32 %h1, %thread;
                st.{space}.v2.u16 [%rd0+12], {{%h0, %h1}};
                st.{space}.v4.b32 [%rd0+16], {{%r3, %thread, %r3, %thread}};
                st.{space}.v2.b64 [%rd0+32], {{%rd3, %rd4}};
                ld.{space}.u8 %r4, [%rd0+3]; ld.{space}.s16 %r5, [%rd0+12];
                ld.{space}.v2.b64 {{%rd5, %rd6}}, [%rd0+16]; ld.{space}.v4.b32 {{%r6, %r7, %r8, %r9}}, [%rd0+32];
                ld.{space}.u64 %rd7, [%rd0];
                add.u64 %rd7, %rd7, %rd5; add.u64 %rd7, %rd7, %rd6;
                cvt.u64.u32 %rd8, %r4; add.u64 %rd7, %rd7, %rd8; cvt.s64.s32 %rd8, %r5; add.u64 %rd7, %rd7, %rd8;
                xor.b32 %r6, %r6, %r9; cvt.u64.u32 %rd8, %r6; add.u64 %rd7, %rd7, %rd8;
                mul.wide.u32 %rd2, %thread, 8; add.u64 %rd2, %out, %rd2; st.global.u64 [%rd2], %rd7;",
                bytes = if space == "shared" { 48 * 40 } else { 48 },
            ),
            3,
            40,
            [&[], &[]],
            120,
        );
        let want: Vec<u64> = (0..120u64)
            .map(|thread| {
                let word = thread + 0x0102_0304;
                let double = word | word << 32;
                let pair = word | thread << 32;
                let high = word << 32;
                let mixed = (word as u32) ^ ((high >> 32) as u32);
                double
                    .wrapping_add(pair)
                    .wrapping_add(pair)
                    .wrapping_add(1)
                    .wrapping_add((word as i16) as u64)
                    .wrapping_add(mixed.into())
            })
            .collect();
        assert_eq!(got, want, "{space}");
    }
}

#[test]
fn predicated_loads_and_stores_touch_nothing_when_off() {
    // The addresses of the lanes that are off are invalid.
    let got: Vec<u32> = run_body(
        "",
        "and.b32 %r2, %thread, 1; setp.eq.u32 %p0, %r2, 0;
        mul.wide.u32 %rd0, %thread, 4; add.u64 %rd2, %out, %rd0; add.u64 %rd0, %in0, %rd0;
        mov.u32 %r3, 77; @!%p0 mov.u64 %rd0, 8;
        @%p0 ld.global.u32 %r3, [%rd0];
        @!%p0 add.u32 %r3, %r3, 1;
        setp.lt.u32 %p1, %thread, 30;
        @!%p1 mov.u64 %rd2, 16;
        @%p1 st.global.u32 [%rd2], %r3;",
        1,
        32,
        [&bytes_of(&(100..132u32).collect::<Vec<_>>()), &[]],
        32,
    );
    let want: Vec<u32> = (0..32)
        .map(|i| {
            if i >= 30 {
                0
            } else if i % 2 == 0 {
                100 + i
            } else {
                78
            }
        })
        .collect();
    assert_eq!(got, want);
}
