//! Calls of `.func`s.

use crate::support::{Argument, Machine, load, module_text, run_body};

#[test]
fn functions_take_several_parameters_and_give_several_results() {
    let got: Vec<u32> = run_body(
        ".func (.reg .u32 %quotient, .reg .u32 %remainder) divide(.reg .u32 %a, .reg .u32 %b)
        {
            div.u32 %quotient, %a, %b; rem.u32 %remainder, %a, %b;
            ret;
        }",
        "add.u32 %r2, %thread, 1000; rem.u32 %r3, %thread, 7; add.u32 %r3, %r3, 1;
        call.uni (%r4, %r5), divide, (%r2, %r3);
        mad.wide.u32 %rd2, %thread, 8, %out; st.global.v2.u32 [%rd2], {%r4, %r5};",
        2,
        40,
        [&[], &[]],
        160,
    );
    let want: Vec<u32> = (0..80u32).flat_map(|i| [(1000 + i) / (i % 7 + 1), (1000 + i) % (i % 7 + 1)]).collect();
    assert_eq!(got, want);
}

#[test]
fn parameters_may_be_registers() {
    let got: Vec<u32> = run_body(
        ".func (.reg .u32 %result) triple(.reg .u32 %x) { mul.lo.u32 %result, %x, 3; ret; }",
        "call (%r2), triple, (%thread); mad.wide.u32 %rd2, %thread, 4, %out; st.global.u32 [%rd2], %r2;",
        1,
        40,
        [&[], &[]],
        40,
    );
    assert_eq!(got, (0..40u32).map(|i| i * 3).collect::<Vec<_>>());
}

#[test]
fn functions_call_functions_declared_later_and_from_divergent_code() {
    let got: Vec<u32> = run_body(
        ".func (.param .b32 r) square(.param .b32 x);
        .func (.param .b32 r) sum_of_squares(.param .b32 n)
        {
            .reg .u32 %n, %i, %s, %t; .reg .pred %p;
            ld.param.u32 %n, [n]; mov.u32 %i, 0; mov.u32 %s, 0;
            again: setp.gt.u32 %p, %i, %n; @%p bra done;
            { .param .b32 a; .param .b32 b; st.param.b32 [a], %i; call.uni (b), square, (a); ld.param.b32 %t, [b]; }
            add.u32 %s, %s, %t; add.u32 %i, %i, 1; bra again;
            done: st.param.b32 [r], %s; ret;
        }
        .func (.param .b32 r) square(.param .b32 x)
        { .reg .u32 %x; .reg .pred %p; ld.param.u32 %x, [x]; setp.eq.u32 %p, %x, 4; mul.lo.u32 %x, %x, %x; st.param.b32 [r], %x;
          @%p ret; add.u32 %x, %x, 1; st.param.b32 [r], %x; ret; }",
        "mov.u32 %r2, 0; rem.u32 %r3, %thread, 9; setp.lt.u32 %p0, %r3, 3; @%p0 bra skip;
        { .param .b32 a; .param .b32 b; st.param.b32 [a], %r3; call.uni (b), sum_of_squares, (a); ld.param.b32 %r2, [b]; }
        skip: @%p0 { .param .b32 a; }
        mad.wide.u32 %rd2, %thread, 4, %out; st.global.u32 [%rd2], %r2;"
            .replace("@%p0 { .param .b32 a; }", "")
            .as_str(),
        2,
        70,
        [&[], &[]],
        140,
    );
    let square = |x: u32| if x == 4 { 16 } else { x * x + 1 };
    let want: Vec<u32> = (0..140u32).map(|i| if i % 9 < 3 { 0 } else { (0..=i % 9).map(square).sum() }).collect();
    assert_eq!(got, want);
}

#[test]
fn structures_pass_as_byte_arrays_and_functions_keep_local_memory_apart() {
    let got: Vec<u64> = run_body(
        ".func (.param .align 8 .b8 r[16]) swap(.param .align 8 .b8 s[16])
        {
            .local .align 8 .b8 frame[16]; .reg .u64 %a, %b; .reg .u32 %c, %d;
            ld.param.u64 %a, [s]; ld.param.v2.b32 {%c, %d}, [s+8];
            st.local.u64 [frame+8], %a; st.local.v2.b32 [frame], {%c, %d};
            ld.local.v2.u64 {%a, %b}, [frame]; st.param.v2.b64 [r], {%a, %b}; ret;
        }"
        .replace(".align 8 .b8", ".align 16 .b8")
        .as_str(),
        ".local .align 16 .b8 mine[16]; cvt.u64.u32 %rd3, %thread; st.local.u64 [mine], %rd3;
        { .param .align 16 .b8 s[16]; .param .align 16 .b8 r[16];
        st.param.b64 [s], %rd3; mul.lo.u64 %rd4, %rd3, 1000000007; st.param.b64 [s+8], %rd4;
        call.uni (r), swap, (s); ld.param.v2.b64 {%rd5, %rd6}, [r]; }
        ld.local.u64 %rd7, [mine]; mad.wide.u32 %rd2, %thread, 24, %out;
        st.global.u64 [%rd2], %rd5; st.global.u64 [%rd2+8], %rd6; st.global.u64 [%rd2+16], %rd7;",
        1,
        45,
        [&[], &[]],
        135,
    );
    let want: Vec<u64> = (0..45u64).flat_map(|i| [i * 1_000_000_007, i, i]).collect();
    assert_eq!(got, want);
}

#[test]
fn a_barrier_inside_a_function_holds_the_block() {
    let module = load(&module_text(
        ".shared .u32 words[128];
        .func wait() { bar.sync 0; ret; }
        .visible .entry exchange(.param .u64 out)
        {
            .reg .u32 %t, %x; .reg .u64 %p, %q, %w;
            mov.u32 %t, %tid.x; mov.u64 %w, words; mad.wide.u32 %q, %t, 4, %w; st.shared.u32 [%q], %t;
            call.uni wait, ();
            xor.b32 %x, %t, 127; mad.wide.u32 %q, %x, 4, %w; ld.shared.u32 %x, [%q];
            ld.param.u64 %p, [out]; mad.wide.u32 %p, %t, 4, %p; st.global.u32 [%p], %x; ret;
        }"
        .replace("call.uni wait, ();", "call.uni wait;")
        .as_str(),
    ));
    let mut machine = Machine::with_threads(1);
    let output = machine.upload(&[0u32; 128]);
    machine.launch(&module, "exchange", 1, 128, 0, &[Argument::Pointer(output)]);
    assert_eq!(machine.download::<u32>(output, 128), (0..128).rev().collect::<Vec<_>>());
}
