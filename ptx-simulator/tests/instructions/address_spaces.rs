//! Where memory is: parameters, constants, module variables, generic addresses.

use crate::support::{Argument, Machine, bytes_of, load, module_text, on_any_number_of_cores, run_body};
use ptx_simulator::LaunchErrorKind;

#[test]
fn generic_addresses_reach_every_space() {
    let got: Vec<u32> = run_body(
        ".const .u32 fixed = 1000; .global .u32 variable = 2000;",
        ".shared .u32 shared_word[4]; .local .u32 local_word[4];
        setp.eq.u32 %p0, %thread, 0; mov.u32 %r2, 3000; @%p0 st.shared.u32 [shared_word+4], %r2;
        add.u32 %r3, %thread, 4000; st.local.u32 [local_word+8], %r3;
        bar.sync 0;
        and.b32 %r4, %thread, 3;
        mov.u64 %rd0, fixed; cvta.const.u64 %rd0, %rd0;
        setp.eq.u32 %p1, %r4, 1; @%p1 mov.u64 %rd0, variable; @%p1 cvta.global.u64 %rd0, %rd0;
        setp.eq.u32 %p2, %r4, 2; @%p2 mov.u64 %rd0, shared_word; @%p2 cvta.shared.u64 %rd0, %rd0; @%p2 add.u64 %rd0, %rd0, 4;
        setp.eq.u32 %p3, %r4, 3; @%p3 mov.u64 %rd0, local_word; @%p3 cvta.local.u64 %rd0, %rd0; @%p3 add.u64 %rd0, %rd0, 8;
        ld.u32 %r5, [%rd0];
        @%p3 st.u32 [%rd0], 5; @%p3 ld.local.u32 %r6, [local_word+8]; @%p3 add.u32 %r5, %r5, %r6;
        mul.wide.u32 %rd2, %thread, 4; add.u64 %rd2, %out, %rd2; st.u32 [%rd2], %r5;",
        1,
        64,
        [&[], &[]],
        64,
    );
    let want: Vec<u32> = (0..64).map(|i| [1000, 2000, 3000, 4005 + i][i as usize % 4]).collect();
    assert_eq!(got, want);
}

#[test]
fn isspacep_tells_the_spaces_apart_and_cvta_to_inverts_cvta() {
    let got: Vec<u32> = run_body(
        ".const .u32 fixed = 1; .global .u32 variable = 2;",
        ".shared .u32 shared_word; .local .u32 local_word;
        and.b32 %r4, %thread, 3;
        mov.u64 %rd0, fixed; cvta.const.u64 %rd0, %rd0;
        setp.eq.u32 %p1, %r4, 1; @%p1 mov.u64 %rd0, variable; @%p1 cvta.global.u64 %rd0, %rd0;
        setp.eq.u32 %p2, %r4, 2; @%p2 mov.u64 %rd0, shared_word; @%p2 cvta.shared.u64 %rd0, %rd0;
        setp.eq.u32 %p3, %r4, 3; @%p3 mov.u64 %rd0, local_word; @%p3 cvta.local.u64 %rd0, %rd0;
        isspacep.const %p4, %rd0; selp.u32 %r5, 1, 0, %p4;
        isspacep.shared %p4, %rd0; selp.u32 %r6, 2, 0, %p4; or.b32 %r5, %r5, %r6;
        isspacep.local %p4, %rd0; selp.u32 %r6, 4, 0, %p4; or.b32 %r5, %r5, %r6;
        isspacep.global %p4, %rd0; selp.u32 %r6, 8, 0, %p4; or.b32 %r5, %r5, %r6;
        @%p2 cvta.to.shared.u64 %rd1, %rd0; @%p2 mov.u64 %rd3, shared_word;
        @%p3 cvta.to.local.u64 %rd1, %rd0; @%p3 mov.u64 %rd3, local_word;
        @%p1 cvta.to.global.u64 %rd1, %rd0; @%p1 mov.u64 %rd3, variable;
        setp.eq.u32 %p0, %r4, 0; @%p0 cvta.to.const.u64 %rd1, %rd0; @%p0 mov.u64 %rd3, fixed;
        setp.eq.u64 %p5, %rd1, %rd3; selp.u32 %r6, 16, 0, %p5; or.b32 %r5, %r5, %r6;
        mul.wide.u32 %rd2, %thread, 4; add.u64 %rd2, %out, %rd2; st.u32 [%rd2], %r5;",
        1,
        40,
        [&[], &[]],
        40,
    );
    for (thread, word) in got.iter().enumerate() {
        let space = [1, 8, 2, 4][thread % 4];
        // Constants lie in global memory too: both answers are right for them.
        assert!(*word == 16 + space || thread % 4 == 0 && *word == 16 + 8 + 1, "thread {thread}: {word:#x}");
    }
}

#[test]
fn module_variables_start_with_their_initialisers() {
    let got: Vec<u64> = run_body(
        ".global .align 8 .u64 first = 0x1122334455667788;
        .global .align 4 .u32 words[5] = {1, 2, 0xffffffff};
        .global .align 1 .b8 text[4] = {65, 66, 67};
        .global .align 8 .f64 number = 0d3FF8000000000000;
        .global .align 4 .f32 numbers[2] = {0f3F800000, 2.5};
        .global .align 2 .s16 grid[2][3] = {{1, 2, 3}, {-4, 5}};
        .const .align 8 .u64 address = words+8;
        .global .align 8 .u64 generic_address = generic(words);
        .global .align 8 .b8 empty[16];",
        "mov.u64 %rd0, %out;
        ld.global.u64 %rd1, [first]; st.global.u64 [%rd0], %rd1;
        ld.global.u32 %rd1, [words+8]; st.global.u64 [%rd0+8], %rd1;
        ld.global.u32 %rd1, [words+16]; st.global.u64 [%rd0+16], %rd1;
        ld.global.b32 %rd1, [text]; st.global.u64 [%rd0+24], %rd1;
        ld.global.b64 %rd1, [number]; st.global.u64 [%rd0+32], %rd1;
        ld.global.b32 %rd1, [numbers+4]; st.global.u64 [%rd0+40], %rd1;
        ld.global.s16 %rd1, [grid+6]; st.global.u64 [%rd0+48], %rd1;
        ld.global.s16 %rd1, [grid+10]; st.global.u64 [%rd0+56], %rd1;
        ld.const.u64 %rd1, [address]; ld.global.u32 %rd1, [%rd1]; st.global.u64 [%rd0+64], %rd1;
        ld.global.u64 %rd1, [generic_address]; ld.u32 %rd1, [%rd1+4]; st.global.u64 [%rd0+72], %rd1;
        ld.global.u64 %rd1, [empty+8]; st.global.u64 [%rd0+80], %rd1;",
        1,
        1,
        [&[], &[]],
        11,
    );
    let want = [
        0x1122_3344_5566_7788,
        0xffff_ffff,
        0,
        u64::from(u32::from_le_bytes([65, 66, 67, 0])),
        1.5f64.to_bits(),
        2.5f32.to_bits().into(),
        -4i64 as u64,
        0,
        0xffff_ffff,
        2,
        0,
    ];
    assert_eq!(got, want);
}

#[test]
fn module_variables_keep_what_kernels_write() {
    let module = load(&module_text(
        ".global .u32 counter = 5;
        .visible .entry bump() { .reg .u32 %r; ld.global.u32 %r, [counter]; add.u32 %r, %r, 1; st.global.u32 [counter], %r; ret; }
        .visible .entry read(.param .u64 out) { .reg .u32 %r; .reg .u64 %p; ld.param.u64 %p, [out];
        ld.global.u32 %r, [counter]; st.global.u32 [%p], %r; ret; }",
    ));
    let mut machine = Machine::with_threads(1);
    let output = machine.upload(&[0u32]);
    for expected in [5, 6, 7] {
        machine.launch(&module, "read", 1, 1, 0, &[Argument::Pointer(output)]);
        assert_eq!(machine.download::<u32>(output, 1), [expected]);
        machine.launch(&module, "bump", 1, 1, 0, &[]);
    }
}

#[test]
fn parameters_of_every_type_arrive() {
    let module = load(&module_text(
        ".visible .entry all(.param .u64 out, .param .u8 a, .param .s16 b, .param .f32 c, .param .f64 d, .param .u32 e,
            .param .align 8 .b8 s[24])
        {
            .reg .u64 %out, %x; .reg .f32 %f; .reg .f64 %d;
            ld.param.u64 %out, [out];
            ld.param.u8 %x, [a]; st.global.u64 [%out], %x;
            ld.param.s16 %x, [b]; st.global.u64 [%out+8], %x;
            ld.param.f32 %f, [c]; cvt.f64.f32 %d, %f; st.global.f64 [%out+16], %d;
            ld.param.f64 %d, [d]; st.global.f64 [%out+24], %d;
            ld.param.u32 %x, [e]; st.global.u64 [%out+32], %x;
            ld.param.u16 %x, [s+2]; st.global.u64 [%out+40], %x;
            ld.param.u64 %x, [s+8]; st.global.u64 [%out+48], %x;
            ld.param.v2.u32 {%x, %out}, [s+16]; 
            mov.b64 %d, %x; ld.param.u64 %out, [out]; st.global.u64 [%out+56], %x;
            ret;
        }",
    ));
    let mut machine = Machine::with_threads(1);
    let output = machine.upload(&[0u64; 8]);
    let structure: Vec<u8> = (1..=24).collect();
    let arguments = [
        Argument::Pointer(output),
        Argument::U8(200),
        Argument::U16(-300i16 as u16),
        Argument::F32(1.25),
        Argument::F64(-2.5),
        Argument::U32(4_000_000_000),
        Argument::Bytes(&structure),
    ];
    machine.launch(&module, "all", 1, 1, 0, &arguments);
    let want = [
        200,
        -300i64 as u64,
        1.25f64.to_bits(),
        (-2.5f64).to_bits(),
        4_000_000_000,
        0x0403,
        u64::from_le_bytes([9, 10, 11, 12, 13, 14, 15, 16]),
        u32::from_le_bytes([17, 18, 19, 20]).into(),
    ];
    assert_eq!(machine.download::<u64>(output, 8), want);
}

#[test]
fn dynamic_shared_memory_begins_after_the_static_arrays() {
    let module = load(&module_text(
        ".extern .shared .align 16 .b8 dynamic[];
        .visible .entry reverse(.param .u64 data)
        {
            .shared .u32 fixed[64];
            .reg .u32 %t, %n, %x; .reg .u64 %p, %q, %o, %f;
            ld.param.u64 %p, [data]; mov.u32 %t, %tid.x; mov.u32 %n, %ntid.x;
            mul.wide.u32 %o, %t, 4; add.u64 %p, %p, %o; ld.global.u32 %x, [%p];
            mov.u64 %q, dynamic; add.u64 %q, %q, %o; st.shared.u32 [%q], %x;
            mov.u64 %f, fixed; add.u64 %f, %f, %o; st.shared.u32 [%f], %t;
            bar.sync 0;
            ld.shared.u32 %x, [%f];
            sub.u32 %t, %n, %t; sub.u32 %t, %t, 1; mul.wide.u32 %o, %t, 4;
            mov.u64 %q, dynamic; add.u64 %q, %q, %o; ld.shared.u32 %t, [%q]; mad.lo.u32 %x, %x, 1000, %t;
            st.global.u32 [%p], %x; ret;
        }",
    ));
    let mut machine = Machine::with_threads(1);
    let data: Vec<u32> = (0..64).map(|i| i * 3).collect();
    let buffer = machine.upload(&data);
    machine.launch(&module, "reverse", 1, 64, 256, &[Argument::Pointer(buffer)]);
    let want: Vec<u32> = (0..64).map(|i| i * 1000 + (63 - i) * 3).collect();
    assert_eq!(machine.download::<u32>(buffer, 64), want);
    // Bytes reach the device as they are.
    assert_eq!(bytes_of(&want).len(), 256);
}

#[test]
fn a_struct_is_passed_by_value_and_read_at_any_offset() {
    // As rustc and nvcc pass a `#[repr(C)]` struct: an array of bytes with the struct's alignment.
    let module = load(&module_text(
        ".visible .entry k(.param .u64 k_param_0, .param .align 16 .b8 k_param_1[160], .param .u32 k_param_2)
        {
            .reg .b16 %h<2>; .reg .b32 %r<8>; .reg .f32 %f<2>; .reg .b64 %rd<8>;
            ld.param.u64 %rd1, [k_param_0];
            ld.param.u64 %rd2, [k_param_1];
            ld.param.v2.u64 {%rd3, %rd4}, [k_param_1+144];
            ld.param.u32 %r1, [k_param_1+12];
            ld.param.f32 %f1, [k_param_1+16];
            ld.param.v4.b32 {%r2, %r3, %r4, %r5}, [k_param_1+32];
            ld.param.u8 %h1, [k_param_1+159];
            ld.param.u32 %r6, [k_param_2];
            st.global.v2.u64 [%rd1], {%rd2, %rd3}; st.global.u64 [%rd1+16], %rd4;
            st.global.u32 [%rd1+24], %r1; st.global.f32 [%rd1+28], %f1;
            st.global.v4.b32 [%rd1+32], {%r2, %r3, %r4, %r5};
            st.global.u8 [%rd1+48], %h1; st.global.u32 [%rd1+52], %r6;
            ret;
        }",
    ));
    let bytes: Vec<u8> = (0..160).collect();
    let got = on_any_number_of_cores(|machine| {
        let output = machine.upload(&[0u8; 56]);
        let arguments = [Argument::Pointer(output), Argument::Bytes(&bytes), Argument::U32(0x0403_0201)];
        machine.launch(&module, "k", 1, 1, 0, &arguments);
        machine.download::<u8>(output, 56)
    });
    let mut want: Vec<u8> = [0..8, 144..160, 12..16, 16..20, 32..48].into_iter().flatten().collect();
    want.extend([159, 0, 0, 0, 1, 2, 3, 4]);
    assert_eq!(got, want);
    // The size is the parameter's, exactly.
    let mut machine = Machine::with_threads(1);
    let output = machine.upload(&[0u8; 56]);
    let short = [Argument::Pointer(output), Argument::Bytes(&bytes[..152]), Argument::U32(0)];
    let error = machine.try_launch(&module, "k", 1, 1, 0, &short).unwrap_err();
    let (expected, got) = (vec![8, 160, 4], vec![8, 152, 4]);
    assert_eq!(error.kind, LaunchErrorKind::BadArguments { expected, got });
}

#[test]
fn dynamic_shared_memory_is_aligned_and_reached_by_32_bit_addresses() {
    let module = load(&module_text(
        ".shared .align 4 .b8 fixed[20];
        .extern .shared .align 128 .b8 dynamic[];
        .visible .entry k(.param .u64 output)
        {
            .reg .b32 %r<12>; .reg .b64 %rd<4>;
            ld.param.u64 %rd1, [output];
            mov.u32 %r1, %tid.x;
            mov.u32 %r2, dynamic;
            mov.u32 %r11, fixed; st.shared.u32 [%r11+16], %r1;
            shl.b32 %r3, %r1, 4;
            add.u32 %r4, %r2, %r3;
            // Offsets of either sign; the sum has 32 bits, whatever the base.
            sub.u32 %r5, %r4, 0x2000;
            st.shared.v4.b32 [%r5+8192], {%r1, %r2, %r3, %r1};
            bar.sync 0;
            xor.b32 %r6, %r3, 0x1f0;
            add.u32 %r6, %r6, %r2; add.u32 %r6, %r6, 512;
            ld.shared.v4.f32 {%r7, %r8, %r9, %r10}, [%r6+-512];
            mul.wide.u32 %rd2, %r1, 16; add.u64 %rd1, %rd1, %rd2;
            st.global.v4.b32 [%rd1], {%r7, %r8, %r9, %r10};
            ret;
        }",
    ));
    let got = on_any_number_of_cores(|machine| {
        let output = machine.upload(&[0u32; 128]);
        machine.launch(&module, "k", 1, 32, 512, &[Argument::Pointer(output)]);
        machine.download::<u32>(output, 128)
    });
    let want: Vec<u32> = (0..32u32).rev().flat_map(|other| [other, 128, other * 16, other]).collect();
    assert_eq!(got, want);
}
