//! atom and red: every operation and type, in global and shared memory and through generic addresses.

use crate::support::run_body;

/// What 96 threads make of one word that starts as `start`, where thread `i` uses the operand `i * multiplier +
/// offset`.
///
/// In global memory the threads are in three blocks, and the word is a module variable: no block can set it for all.
fn after_all(space: &str, operation: &str, kind: &str, start: u64, multiplier: u64, offset: u64) -> u64 {
    let wide = kind.ends_with("64");
    let (size, value) = if wide { ("b64", "%rd6") } else { ("b32", "%r10") };
    let narrow = if wide { "" } else { "cvt.u32.u64 %r10, %rd6;" };
    let (operand, convert) = match kind {
        "f32" => ("%f1", "cvt.rn.f32.u64 %f1, %rd5;"),
        "f64" => ("%d1", "cvt.rn.f64.u64 %d1, %rd5;"),
        _ if wide => ("%rd5", ""),
        _ => ("%r9", "cvt.u32.u64 %r9, %rd5;"),
    };
    let add = format!(
        "cvt.u64.u32 %rd5, %thread; mad.lo.u64 %rd5, %rd5, {multiplier}, {offset}; {convert}
        mov.u64 %rd6, {start}; {narrow}
        mov.u32 %r2, %tid.x; setp.eq.u32 %p0, %r2, 0;"
    );
    if space == "global" {
        let declarations = format!(".global .align 8 .{size} cell = {start}; .global .u32 finished = 0;");
        let body = format!(
            "{add} mov.u64 %rd7, cell;
            red.global.{operation}.{kind} [%rd7], {operand};
            bar.sync 0;
            @!%p0 bra done;
            membar.gl; atom.global.add.u32 %r11, [finished], 1; setp.ne.u32 %p1, %r11, 2; @%p1 bra done;
            membar.gl; ld.volatile.global.{size} %rd8, [%rd7]; st.global.{size} [%out], %rd8;
            st.global.{size} [%rd7], {value}; st.global.u32 [finished], 0;
            done:"
        );
        return run_body::<u64>(&declarations, &body, 3, 32, [&[], &[]], 1)[0];
    }
    let (access, to_generic) = match space {
        "shared" => (".shared", ""),
        _ => ("", "cvta.shared.u64 %rd7, %rd7;"),
    };
    let body = format!(
        ".shared .align 8 .b64 cell;
        {add} mov.u64 %rd7, cell; {to_generic}
        @%p0 st{access}.{size} [%rd7], {value};
        bar.sync 0;
        red{access}.{operation}.{kind} [%rd7], {operand};
        bar.sync 0;
        @%p0 ld{access}.{size} {value}, [%rd7];
        @%p0 st.global.{size} [%out], {value};"
    );
    run_body::<u64>("", &body, 1, 96, [&[], &[]], 1)[0]
}

/// What `operation` makes of one word and one operand.
fn step(operation: &str, kind: &str, old: u64, operand: u64) -> u64 {
    let signed = |x: u64| if kind.ends_with("64") { x as i64 } else { i64::from(x as i32) };
    let result = match operation {
        "add" if kind == "f32" => u64::from((f32::from_bits(old as u32) + operand as f32).to_bits()),
        "add" if kind == "f64" => (f64::from_bits(old) + operand as f64).to_bits(),
        "add" => old.wrapping_add(operand),
        "and" => old & operand,
        "or" => old | operand,
        "xor" => old ^ operand,
        "exch" => operand,
        "min" if kind.starts_with('s') => signed(old).min(signed(operand)) as u64,
        "max" if kind.starts_with('s') => signed(old).max(signed(operand)) as u64,
        "min" => old.min(operand),
        "max" => old.max(operand),
        "inc" => {
            if old >= operand {
                0
            } else {
                old + 1
            }
        }
        "dec" => {
            if old == 0 || old > operand {
                operand
            } else {
                old - 1
            }
        }
        other => unreachable!("{other} is no operation of this table"),
    };
    if kind.ends_with("64") { result } else { result & 0xffff_ffff }
}

#[test]
fn reductions_lose_no_update_in_any_space() {
    let wide = 0xfedc_ba98_7654_3210u64;
    let cases: [(&str, &str, u64, u64, u64); 21] = [
        ("add", "u32", 7, 0x1234_5677, 3),
        ("add", "s32", 0xffff_fff0, 5, 1),
        ("add", "u64", wide, 0x1_0000_0001, 9),
        ("add", "f32", 0, 3, 1),
        ("add", "f64", 0, 5, 2),
        ("and", "b32", 0xffff_ffff, 0x0101_0100, 0xf0f0_f0ff),
        ("or", "b32", 1, 0x0010_0410, 2),
        ("xor", "b32", 0xaaaa_aaaa, 0x0123_4567, 0),
        ("and", "b64", u64::MAX, 0, 0x00ff_ff00_ff00_ffff),
        ("or", "b64", 0, 0x1_0000_0001, 0),
        ("xor", "b64", wide, wide, 1),
        ("min", "s32", 100, 0xffff_fff1, 50),
        ("max", "s32", 0x8000_0000, 0xffff_fff1, 0xffff_fff0),
        ("min", "u32", 0xffff_ffff, 0x0300_0001, 77),
        ("max", "u32", 0, 0x0300_0001, 77),
        ("min", "s64", 5, (-3i64) as u64, 0),
        ("max", "s64", i64::MIN as u64, 1 << 40, 1 << 63),
        ("min", "u64", u64::MAX, 1 << 35, 1 << 34),
        ("max", "u64", 0, 1 << 35, 1 << 34),
        ("inc", "u32", 3, 0, 10),
        ("dec", "u32", 3, 0, 10),
    ];
    for space in ["global", "shared", "generic"] {
        for (operation, kind, start, multiplier, offset) in cases {
            let threads = 96;
            let want = (0..threads).fold(start, |old, i: u64| {
                let operand = i.wrapping_mul(multiplier).wrapping_add(offset);
                let operand = if kind.ends_with("64") || kind == "f32" { operand } else { operand & 0xffff_ffff };
                step(operation, kind, old, operand)
            });
            assert_eq!(
                after_all(space, operation, kind, start, multiplier, offset),
                want,
                "{space} {operation}.{kind}"
            );
        }
    }
}

#[test]
fn atomics_give_the_old_value() {
    // One thread, one operation after the other: each old value is known.
    let kinds: [(&str, &str); 10] = [
        ("add.u32", "add"),
        ("exch.b32", "exch"),
        ("min.u32", "min"),
        ("max.s32", "max"),
        ("and.b32", "and"),
        ("or.b32", "or"),
        ("xor.b32", "xor"),
        ("inc.u32", "inc"),
        ("dec.u32", "dec"),
        ("add.s32", "add"),
    ];
    let operands = [5u32, 77, 20, 90, 0xf0, 0x0f, 0x55, 200, 6, 0xffff_ffff];
    for scope in ["", "relaxed.gpu.", "acq_rel.cta.", "release.sys."] {
        let lines: String = kinds
            .iter()
            .zip(operands)
            .enumerate()
            .map(|(i, ((text, _), operand))| {
                format!("atom.{scope}global.{text} %r2, [%in0], {operand}; st.global.u32 [%out+{}], %r2;\n", i * 4)
            })
            .collect();
        let got: Vec<u32> = run_body("", &lines, 1, 1, [&[10, 0, 0, 0], &[]], 10);
        let mut word = 10u64;
        let want: Vec<u32> = kinds
            .iter()
            .zip(operands)
            .map(|((text, operation), operand)| {
                let old = word as u32;
                let kind = text.rsplit('.').next().expect("a type");
                word = step(operation, kind, word, operand.into());
                old
            })
            .collect();
        assert_eq!(got, want, "scope `{scope}`");
    }
}

#[test]
fn compare_and_swap_swaps_only_on_equality() {
    for (kind, register, size) in [("b32", "%r", 4), ("b64", "%rd", 8)] {
        let got: Vec<u64> = run_body(
            "",
            &format!(
                "mov.u64 %rd8, 0; mov.u64 %rd9, 0;
                atom.global.cas.{kind} {register}2, [%in0], 5, 6;
                atom.global.cas.{kind} {register}3, [%in0], 5, 7;
                atom.global.cas.{kind} {register}4, [%in0], 6, 8;
                ld.global.{kind} {register}5, [%in0];
                st.global.{kind} [%out], {register}2; st.global.{kind} [%out+8], {register}3;
                st.global.{kind} [%out+16], {register}4; st.global.{kind} [%out+24], {register}5;"
            ),
            1,
            1,
            [&[5, 0, 0, 0, 0, 0, 0, 0][..size], &[]],
            4,
        );
        assert_eq!(got, [5, 6, 6, 8], "{kind}");
    }
    let got: Vec<u32> = run_body(
        "",
        "mov.u16 %h0, 5; mov.u16 %h1, 9;
        atom.global.cas.b16 %h2, [%in0+2], %h0, %h1; atom.global.cas.b16 %h3, [%in0+2], %h0, %h0;
        cvt.u32.u16 %r2, %h2; cvt.u32.u16 %r3, %h3; ld.global.u32 %r4, [%in0];
        st.global.u32 [%out], %r2; st.global.u32 [%out+4], %r3; st.global.u32 [%out+8], %r4;",
        1,
        1,
        [&[1, 2, 5, 0], &[]],
        3,
    );
    assert_eq!(got, [5, 9, 0x0009_0201]);
}

#[test]
fn lanes_that_hit_one_word_each_see_another_old_value() {
    // Old values of 32 lanes that add one are a permutation; lanes that are off don't take part.
    let got: Vec<u32> = run_body(
        "",
        ".shared .u32 counter; setp.eq.u32 %p0, %thread, 0; @%p0 st.shared.u32 [counter], 0; bar.sync 0;
        and.b32 %r2, %thread, 1; setp.eq.u32 %p1, %r2, 0; mov.u32 %r3, 1000;
        @%p1 atom.shared.add.u32 %r3, [counter], 1;
        mul.wide.u32 %rd2, %thread, 4; add.u64 %rd2, %out, %rd2; st.global.u32 [%rd2], %r3;",
        1,
        64,
        [&[], &[]],
        64,
    );
    assert!(got.iter().skip(1).step_by(2).all(|&old| old == 1000));
    let mut taken: Vec<u32> = got.iter().step_by(2).copied().collect();
    taken.sort_unstable();
    assert_eq!(taken, (0..32).collect::<Vec<_>>());
}

#[test]
fn halves_add_atomically() {
    let got: Vec<u32> = run_body(
        "",
        "mov.u32 %r2, 0x3c003c00; mov.u16 %h0, 0x4000;
        red.global.add.noftz.f16x2 [%out], %r2; red.global.add.noftz.f16 [%out+4], %h0;
        mov.u32 %r3, 0x3f803f80; red.global.add.noftz.bf16x2 [%out+8], %r3;",
        1,
        16,
        [&[], &[]],
        3,
    );
    assert_eq!(got, [0x4c00_4c00, 0x5000, 0x4180_4180]);
}
