//! What the decoder refuses, and that no text makes it or the executor panic.

use proptest::prelude::*;

use crate::{Argument, LaunchConfig, LoadError, Module, Simulator};

const HEADER: &str = ".version 8.0\n.target sm_80\n.address_size 64\n";

fn refusal(body: &str) -> (u32, String) {
    let text = format!(
        "{HEADER}.entry k(.param .u64 p)\n{{\n.reg .b16 %h<3>; .reg .b32 %r<3>; .reg .b64 %d<3>; .reg .pred %p<3>;\n{body}\n}}"
    );
    match Module::parse(&text) {
        Err(LoadError::Unsupported { line, message, .. }) => (line, message),
        other => panic!("`{body}`: {other:?}"),
    }
}

#[test]
fn operands_of_the_wrong_width_are_refused() {
    for body in [
        "add.s32 %d0, %r1, %r2;",
        "add.s64 %d0, %r1, %d2;",
        "add.s32 %r0, %p1, %r2;",
        "mul.wide.s32 %r0, %r1, %r2;",
        "ld.global.u64 %r0, [%d0];",
        "st.global.u32 [%d0], %h1;",
        "mov.b64 %d0, {%h1, %h2};",
        "setp.eq.s32 %r0, %r1, %r2;",
        "@%r0 mov.u32 %r1, %r2;",
        "ld.global.u32 %r0, [%h0];",
        "add.s16 %r0, %r1, %r2;",
    ] {
        assert_eq!(refusal(body).0, 7, "{body}");
    }
}

#[test]
fn names_that_mean_nothing_are_refused() {
    for body in [
        "bra NOWHERE;",
        "add.s32 %r0, %r1, %r3;",
        "add.s32 %r0, %r01, %r2;",
        "mov.u64 %d0, nothing;",
        "mov.u32 %r0, %tid.q;",
        "call nobody;",
    ] {
        refusal(body);
    }
}

#[test]
fn unknown_instructions_and_modifiers_name_themselves() {
    assert!(refusal("ld.global.v3.u32 %r0, [%d0];").1.contains("v3"));
    assert!(refusal("atom.global.mul.u32 %r0, [%d0], %r1;").1.contains("mul"));
    refusal("wgmma.fence.sync;");
    refusal("tcgen05.fence::before_thread_sync;");
    refusal("frobnicate.b32 %r0, %r1;");
}

#[test]
fn functions_that_call_themselves_are_refused() {
    let text =
        format!("{HEADER}.func f() {{ call g; ret; }}\n.func g() {{ call f; ret; }}\n.entry k() {{ call f; ret; }}");
    let error = Module::parse(&text).unwrap_err();
    assert!(error.to_string().contains("recursion"), "{error}");
}

#[test]
fn names_in_inner_scopes_hide_outer_ones() {
    let text = format!(
        "{HEADER}.entry k(.param .u64 p) {{
            .reg .b32 %r<2>; .reg .b64 %d;
            mov.u32 %r0, 1;
            {{ .reg .b32 %r0; mov.u32 %r0, 2; bra DONE; DONE: }}
            {{ .reg .b32 %r0; mov.u32 %r0, 3; bra DONE; DONE: }}
            ld.param.u64 %d, [p];
            st.global.u32 [%d], %r0;
        }}"
    );
    let module = Module::parse(&text).unwrap();
    let mut simulator = Simulator::new();
    let out = simulator.allocate(4).unwrap();
    let config = LaunchConfig { grid: [1; 3], block: [1; 3], dynamic_shared_bytes: 0 };
    simulator.launch(&module, "k", config, &[Argument::Pointer(out)]).unwrap();
    let mut word = [0; 4];
    simulator.read(out, &mut word).unwrap();
    assert_eq!(u32::from_le_bytes(word), 1);
}

/// A module with something of everything, one token list to cut and shuffle.
const SAMPLE: &str = r#".version 8.0
.target sm_80
.address_size 64
.file 1 "sample.rs"
.global .align 4 .b8 table[16] = {1, 0, 0, 0, 2, 0, 0, 0, 3};
.global .align 8 .u64 pointer = generic(table)+4;
.const .align 4 .f32 factor = 0f40000000;
.extern .shared .align 16 .b8 dynamic[];
.shared .align 4 .b32 tile[64];
.func (.param .b32 result) twice(.param .b32 value, .param .align 8 .b8 rest[16])
{
    .reg .b32 %r<3>;
    ld.param.b32 %r0, [value];
    ld.param.b32 %r1, [rest+8];
    add.s32 %r2, %r0, %r1;
    st.param.b32 [result], %r2;
    ret;
}
.visible .entry k(.param .u64 out, .param .u32 n)
.maxntid 64, 1, 1
{
    .local .align 8 .b8 frame[32];
    .reg .pred %p<4>;
    .reg .b16 %h<4>;
    .reg .b32 %r<12>;
    .reg .f32 %f<4>;
    .reg .b64 %rd<8>;
    .loc 1 10 5
    ld.param.u64 %rd0, [out];
    mov.u32 %r0, %tid.x;
    mul.wide.u32 %rd1, %r0, 4;
    add.s64 %rd2, %rd0, %rd1;
    mov.u32 %r1, tile;
    shl.b32 %r2, %r0, 2;
    add.s32 %r3, %r1, %r2;
    st.shared.b32 [%r3], %r0;
    bar.sync 0;
    .loc 1 11 5, function_name $L__info, inlined_at 1 12 3
    ld.shared.b32 %r4, [%r3+4];
    setp.lt.u32 %p0, %r0, 7;
    @!%p0 bra SKIP;
    {
        .param .b32 value;
        st.param.b32 [value], %r4;
        .param .align 8 .b8 rest[16];
        st.param.v2.b32 [rest+8], {%r0, %r4};
        .param .b32 result;
        call.uni (result), twice, (value, rest);
        ld.param.b32 %r5, [result];
    }
    mov.u64 %rd3, frame;
    cvta.local.u64 %rd4, %rd3;
    st.u64 [%rd4+8], %rd2;
    ld.local.v2.b32 {%r6, _}, [frame+8];
    shfl.sync.bfly.b32 %r7|%p1, %r6, 1, 0x1f, -1;
    bra LOOP;
SKIP:
    mov.b32 {%h0, %h1}, %r0;
    mov.b32 %r8, {%h1, %h0};
    atom.shared.add.u32 %r9, [tile], 1;
    vote.sync.ballot.b32 %r10, %p0, 0xffffffff;
    red.global.max.s32 [%rd0], %r8;
LOOP:
    add.s32 %r4, %r4, -1;
    setp.gt.s32 %p2, %r4, 0;
    @%p2 bra LOOP;
    ld.const.f32 %f0, [factor];
    fma.rn.f32 %f1, %f0, 0f3F800000, %f0;
    ld.global.u64 %rd5, [pointer];
    ld.u32 %r11, [%rd5];
    st.global.f32 [%rd2], %f1;
T: .branchtargets SKIP, END;
    brx.idx 1, T;
END:
    ret;
}
"#;

fn tokens() -> Vec<&'static str> {
    let mut tokens = Vec::new();
    let mut rest = SAMPLE;
    while let Some(first) = rest.chars().next() {
        let length = if first.is_ascii_alphanumeric() || "_%$.".contains(first) {
            1 + rest[1..]
                .find(|next: char| !(next.is_ascii_alphanumeric() || "_%$".contains(next)))
                .unwrap_or(rest.len() - 1)
        } else {
            1
        };
        let (token, after) = rest.split_at(length);
        tokens.push(token);
        rest = after;
    }
    tokens
}

/// Loads a text and, if it loads, runs what it holds.
fn try_text(text: &str) {
    let Ok(module) = Module::parse(text) else { return };
    let mut simulator = Simulator::builder().threads(1).memory_limit(1 << 24).instruction_limit(2000).build();
    let Ok(out) = simulator.allocate(256) else { return };
    let config = LaunchConfig { grid: [2, 1, 1], block: [40, 1, 1], dynamic_shared_bytes: 64 };
    for arguments in [&[Argument::Pointer(out), Argument::U32(5)][..], &[Argument::Pointer(out)], &[]] {
        let _ = simulator.launch(&module, "k", config, arguments);
    }
}

#[test]
fn the_sample_loads_and_runs() {
    let module = Module::parse(SAMPLE).unwrap();
    let mut simulator = Simulator::new();
    let out = simulator.allocate(256).unwrap();
    let config = LaunchConfig { grid: [2, 1, 1], block: [64, 1, 1], dynamic_shared_bytes: 64 };
    let result = simulator.launch(&module, "k", config, &[Argument::Pointer(out), Argument::U32(5)]);
    // The lanes below 7 shuffle with a mask that the others never come to.
    assert!(result.is_err());
    try_text(SAMPLE);
}

#[test]
fn no_beginning_of_a_text_makes_anything_panic() {
    for end in 0..SAMPLE.len() {
        try_text(&SAMPLE[..end]);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1500))]

    #[test]
    fn no_garbled_text_makes_anything_panic(edits in prop::collection::vec((any::<prop::sample::Index>(), any::<prop::sample::Index>(), 0..4u8), 1..4)) {
        let all = tokens();
        let mut text = all.clone();
        for (place, other, kind) in edits {
            let at = place.index(text.len());
            let token = all[other.index(all.len())];
            match kind {
                0 => text[at] = token,
                1 => text.insert(at, token),
                2 => { text.remove(at); }
                _ => text.swap(at, other.index(all.len()).min(all.len() - 4)),
            }
        }
        try_text(&text.concat());
    }

    #[test]
    fn no_number_makes_anything_panic(at in any::<prop::sample::Index>(), number in any::<i64>(), small in -70..70i64, wide in any::<bool>()) {
        let mut text: Vec<String> = tokens().into_iter().map(str::to_owned).collect();
        let numbers: Vec<usize> = (0..text.len()).filter(|index| text[*index].bytes().all(|byte| byte.is_ascii_digit())).collect();
        text[numbers[at.index(numbers.len())]] = (if wide { number } else { small }).to_string();
        try_text(&text.concat());
    }
}
