//! Loads and stores whose 32 addresses follow every pattern that code uses, and none.

use crate::support::values::Random;
use crate::support::{bytes_of, elements_of, run_body};

const WORDS: usize = 512;

/// Word offsets of the 64 threads: multiples of the alignment, small enough for all vectors.
fn patterns() -> Vec<(&'static str, Vec<u32>)> {
    let mut random = Random::new(11);
    let all = |f: &dyn Fn(u32) -> u32| (0..64).map(f).collect::<Vec<u32>>();
    vec![
        ("all the same", all(&|_| 40)),
        ("consecutive", all(&|i| i)),
        ("consecutive fours", all(&|i| i * 4)),
        ("backwards", all(&|i| 252 - i * 4)),
        ("every other", all(&|i| i * 2)),
        ("two rows", all(&|i| i / 16 * 64 + i % 16)),
        ("two rows, one word each", all(&|i| i / 16 * 36)),
        ("four rows", all(&|i| i / 8 * 20 + i % 8)),
        ("four rows, backwards", all(&|i| 200 - i / 8 * 16 - i % 8)),
        ("eight rows", all(&|i| i / 4 * 12 + i % 4)),
        ("columns", all(&|i| i % 16 * 16 + i / 16)),
        ("two halves with different steps", all(&|i| if i % 32 < 16 { i } else { 3 * i })),
        ("one lane out of line", all(&|i| if i == 9 { 300 } else { i })),
        ("the first lane out of line", all(&|i| if i % 32 == 0 { 300 } else { i })),
        ("the last lane out of line", all(&|i| if i % 32 == 31 { 300 } else { i })),
        ("a bend between quarters", all(&|i| if i % 32 < 8 { i } else { i + 100 })),
        ("a triangle", all(&|i| if i % 32 < 16 { i % 32 } else { 32 - i % 32 })),
        ("at random", (0..64).map(|_| random.below(320)).collect()),
        ("at random, few places", (0..64).map(|_| random.below(5) * 4).collect()),
    ]
}

/// The lanes that take part: all, some, one of them, half.
const MASKS: [(&str, &str); 5] = [
    ("", "all"),
    ("setp.lt.u32 %p0, %r31, 17;", "the first"),
    ("setp.eq.u32 %p0, %r31, 13;", "one"),
    ("and.b32 %r30, %r31, 1; setp.eq.u32 %p0, %r30, 1;", "odd ones"),
    ("setp.eq.u32 %p0, %r31, 99;", "none"),
];

fn is_in(mask: &str, thread: u32) -> bool {
    let lane = thread % 32;
    match mask {
        "all" => true,
        "the first" => lane < 17,
        "one" => lane == 13,
        "odd ones" => lane % 2 == 1,
        _ => false,
    }
}

const SPACES: [&str; 3] = ["global", "shared", "generic"];

/// Copies the input to shared memory where that is what is read, and puts the base address of the space into `%rd1`.
fn prologue(space: &str) -> &'static str {
    match space {
        "global" => "mov.u64 %rd1, %in0;",
        _ => {
            ".shared .align 16 .b8 copy[2048]; mov.u64 %rd5, copy; mov.u32 %r20, 0;
            fill: mad.wide.u32 %rd6, %thread, 4, %in0; mul.wide.u32 %rd8, %r20, 256; add.u64 %rd6, %rd6, %rd8; ld.global.u32 %r21, [%rd6];
            mad.wide.u32 %rd7, %thread, 4, %rd5; add.u64 %rd7, %rd7, %rd8; st.shared.u32 [%rd7], %r21;
            add.u32 %r20, %r20, 1; setp.lt.u32 %p7, %r20, 8; @%p7 bra fill; bar.sync 0; mov.u64 %rd1, copy;"
        }
    }
}

fn generic(space: &str) -> &'static str {
    if space == "generic" { "cvta.shared.u64 %rd1, %rd1;" } else { "" }
}

fn suffix(space: &str) -> String {
    if space == "generic" { String::new() } else { format!(".{space}") }
}

#[test]
fn loads_find_their_words() {
    let words: Vec<u32> = (0..WORDS as u32).map(|i| i.wrapping_mul(0x9e37_79b9) | 1).collect();
    for space in SPACES {
        for (name, offsets) in patterns() {
            for (select, mask) in MASKS {
                let guard = if mask == "all" { "" } else { "@%p0" };
                let suffix = suffix(space);
                // Three accesses with one base, as unrolled loops have them, one of them a vector where it's aligned.
                let vector = offsets.iter().all(|offset| offset % 4 == 0);
                let load = if vector {
                    format!("{guard} ld{suffix}.v4.u32 {{%r10, %r11, %r12, %r13}}, [%rd2+16];")
                } else {
                    format!("{guard} ld{suffix}.u32 %r10, [%rd2+16]; {guard} ld{suffix}.u32 %r12, [%rd2+24];")
                };
                let body = format!(
                    "{prologue} {generic} mov.u32 %r31, %laneid; {select}
                    mov.u32 %r10, 7; mov.u32 %r12, 7; mov.u32 %r14, 7;
                    mad.wide.u32 %rd4, %thread, 4, %in1; ld.global.u32 %r3, [%rd4]; mad.wide.u32 %rd2, %r3, 4, %rd1;
                    {guard} ld{suffix}.u32 %r14, [%rd2];
                    {load}
                    xor.b32 %r10, %r10, %r12; add.u32 %r10, %r10, %r14;
                    mad.wide.u32 %rd3, %thread, 4, %out; st.global.u32 [%rd3], %r10;",
                    prologue = prologue(space),
                    generic = generic(space),
                );
                let got: Vec<u32> = run_body("", &body, 1, 64, [&bytes_of(&words), &bytes_of(&offsets)], 64);
                for thread in 0..64 {
                    let at = offsets[thread as usize] as usize;
                    let want =
                        if is_in(mask, thread) { (words[at + 4] ^ words[at + 6]).wrapping_add(words[at]) } else { 7 };
                    assert_eq!(got[thread as usize], want, "{space}, {name}, lanes: {mask}, thread {thread}");
                }
            }
        }
    }
}

#[test]
fn stores_reach_their_words_and_the_highest_lane_wins() {
    for space in SPACES {
        for (name, offsets) in patterns() {
            for (select, mask) in MASKS {
                let guard = if mask == "all" { "" } else { "@%p0" };
                let suffix = suffix(space);
                // The offsets may collide between the two warps: only the first one stores.
                let (base, copy_back) = if space == "global" {
                    ("mov.u64 %rd1, %out;", "")
                } else {
                    (
                        ".shared .align 16 .b8 copy[2048]; mov.u64 %rd1, copy;
                        mov.u32 %r20, 0; clear: mul.wide.u32 %rd8, %r20, 256; mad.wide.u32 %rd7, %thread, 4, %rd1; add.u64 %rd7, %rd7, %rd8;
                        st.shared.u32 [%rd7], 0; add.u32 %r20, %r20, 1; setp.lt.u32 %p7, %r20, 8; @%p7 bra clear; bar.sync 0;",
                        "bar.sync 0; mov.u64 %rd1, copy;
                        mov.u32 %r20, 0; back: mul.wide.u32 %rd8, %r20, 256; mad.wide.u32 %rd7, %thread, 4, %rd1; add.u64 %rd7, %rd7, %rd8;
                        ld.shared.u32 %r21, [%rd7]; mad.wide.u32 %rd9, %thread, 4, %out; add.u64 %rd9, %rd9, %rd8; st.global.u32 [%rd9], %r21;
                        add.u32 %r20, %r20, 1; setp.lt.u32 %p7, %r20, 8; @%p7 bra back;",
                    )
                };
                let body = format!(
                    "{base} {generic} mov.u32 %r31, %laneid; {select}
                    mad.wide.u32 %rd4, %thread, 4, %in1; ld.global.u32 %r3, [%rd4]; mad.wide.u32 %rd2, %r3, 4, %rd1;
                    setp.ge.u32 %p6, %thread, 32; @%p6 bra skip;
                    add.u32 %r4, %thread, 1000; add.u32 %r5, %thread, 2000;
                    {guard} st{suffix}.u32 [%rd2], %r4;
                    {guard} st{suffix}.u32 [%rd2+640], %r5;
                    skip: {copy_back}",
                    generic = generic(space),
                );
                let got: Vec<u32> = run_body("", &body, 1, 64, [&[], &bytes_of(&offsets)], WORDS);
                let mut want = vec![0u32; WORDS];
                for step in 0..2 {
                    for thread in (0..32).filter(|&thread| is_in(mask, thread)) {
                        want[offsets[thread as usize] as usize + step * 160] = thread + [1000, 2000][step];
                    }
                }
                assert_eq!(got, want, "{space}, {name}, lanes: {mask}");
            }
        }
    }
}

#[test]
fn a_base_that_changes_between_two_accesses_is_seen() {
    let words: Vec<u32> = (0..WORDS as u32).map(|i| i * 3 + 1).collect();
    for change in [
        "add.u64 %rd2, %rd2, 64;",
        "@%p0 add.u64 %rd2, %rd2, 64;",
        "mov.b64 {%r5, %r6}, %rd2; add.u32 %r5, %r5, 64; mov.b64 %rd2, {%r5, %r6};",
        "ld.global.u64 %rd2, [%rd9];",
        "bar.sync 0; add.u64 %rd2, %rd2, 64; bar.sync 0;",
        "setp.lt.u32 %p1, %r31, 9; @%p1 bra over; add.u64 %rd2, %rd2, 64; over:",
        "shfl.sync.bfly.b32 %r7, %r3, 1, 31, 0xffffffff; mad.wide.u32 %rd2, %r7, 4, %in0;",
    ] {
        let body = format!(
            "mov.u32 %r31, %laneid; and.b32 %r30, %r31, 4; setp.eq.u32 %p0, %r30, 4;
            mov.u32 %r3, %thread; mad.wide.u32 %rd2, %r3, 4, %in0; mad.wide.u32 %rd9, %thread, 8, %out; add.u64 %rd8, %in0, 256; st.global.u64 [%rd9], %rd8;
            ld.global.u32 %r10, [%rd2]; ld.global.u32 %r11, [%rd2+4];
            {change}
            ld.global.u32 %r12, [%rd2]; ld.global.u32 %r13, [%rd2+4];
            mad.lo.u32 %r10, %r10, 31, %r11; mad.lo.u32 %r10, %r10, 31, %r12; mad.lo.u32 %r10, %r10, 31, %r13;
            cvt.u64.u32 %rd7, %r10; st.global.u64 [%rd9], %rd7;"
        );
        let got: Vec<u64> = run_body("", &body, 1, 96, [&bytes_of(&words), &[]], 96);
        for thread in 0..96u32 {
            let lane = thread % 32;
            let second = match change {
                _ if change.contains("@%p0 add") => thread + if lane & 4 == 4 { 16 } else { 0 },
                _ if change.contains("bra over") => thread + if lane < 9 { 0 } else { 16 },
                _ if change.contains("shfl") => thread ^ 1,
                _ if change.contains("ld.global.u64") => 64,
                _ => thread + 16,
            };
            let word = |at: u32| words[at as usize];
            let want = [thread + 1, second, second + 1]
                .iter()
                .fold(word(thread), |sum, &at| sum.wrapping_mul(31).wrapping_add(word(at)));
            assert_eq!(got[thread as usize], u64::from(want), "{change}, thread {thread}");
        }
    }
}

#[test]
fn lanes_may_read_and_write_several_allocations_at_once() {
    let (a, b): (Vec<u32>, Vec<u32>) = ((0..64).map(|i| i + 1).collect(), (0..64).map(|i| 500 + i).collect());
    let got: Vec<u8> = run_body(
        "",
        "and.b32 %r2, %thread, 1; setp.eq.u32 %p0, %r2, 0; selp.b64 %rd1, %in0, %in1, %p0; mad.wide.u32 %rd2, %thread, 4, %rd1;
        ld.global.u32 %r3, [%rd2]; ld.global.u32 %r4, [%rd2+-4]; 
        mad.wide.u32 %rd3, %thread, 4, %out; add.u32 %r3, %r3, %r4; st.global.u32 [%rd3], %r3;"
            .replace("ld.global.u32 %r4, [%rd2+-4];", "setp.gt.u32 %p1, %thread, 0; mov.u32 %r4, 0; @%p1 ld.global.u32 %r4, [%rd2+-4];")
            .as_str(),
        1,
        64,
        [&bytes_of(&a), &bytes_of(&b)],
        256,
    );
    let want: Vec<u32> = (0..64usize)
        .map(|i| {
            let of = if i % 2 == 0 { &a } else { &b };
            of[i] + if i > 0 { of[i - 1] } else { 0 }
        })
        .collect();
    assert_eq!(elements_of::<u32>(&got), want);
}
