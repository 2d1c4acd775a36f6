//! Everything that can go wrong is an error that names kernel, block, thread, address and source line; other data stays
//! as it was, and the error is the same for any number of cores.

mod support;

use std::time::{Duration, Instant};

use ptx_simulator::{
    AccessKind, AllocateError, Argument, DevicePointer, LaunchConfig, LaunchError, LaunchErrorKind, MemorySpace,
    Module, Nearest, Simulator,
};
use support::values::Random;
use support::{Machine, Shape, bytes_of, kernel_with_body, load, module_text};

/// Launches a kernel that must fail on machines of one and five cores; gives the error, which must be the same.
///
/// `body` finds 64 words in `%in0`, a guard allocation after it in `%in1`, and 64 words of output in `%out`.
fn failure(declarations: &str, body: &str, grid: impl Into<Shape>, block: impl Into<Shape>) -> LaunchError {
    let text = kernel_with_body(declarations, body);
    let module = load(&text);
    let (grid, block) = (grid.into(), block.into());
    let errors = [1, 5].map(|threads| {
        let mut machine = Machine { device: Simulator::builder().threads(threads).instruction_limit(1 << 20).build() };
        let output = machine.upload(&[0u32; 64]);
        let input = machine.upload(&(1000..1064u32).collect::<Vec<_>>());
        let guard = machine.upload(&[0xdead_beefu32; 64]);
        let arguments = [output, input, guard].map(Argument::Pointer);
        let error = machine.try_launch(&module, "test", grid, block, 0, &arguments).expect_err("the launch must fail");
        assert_eq!(machine.download::<u32>(input, 64), (1000..1064).collect::<Vec<u32>>(), "inputs changed");
        assert_eq!(machine.download::<u32>(guard, 64), [0xdead_beef; 64], "another allocation changed");
        // The device goes on working.
        let fine = load(&kernel_with_body("", "st.global.u32 [%out], 77;"));
        machine.launch(&fine, "test", 1, 1, 0, &arguments);
        assert_eq!(machine.download::<u32>(output, 1), [77]);
        error
    });
    assert_eq!(errors[0], errors[1], "one and five cores report different errors");
    let [error, _] = errors;
    assert_eq!(error.kernel, "test");
    let line = text.lines().nth(error.ptx_line as usize - 1).expect("a line of the text");
    assert!(!line.trim().is_empty(), "the error must name the instruction's line");
    error
}

/// The text of the PTX line that an error names.
fn line_of(declarations: &str, body: &str, error: &LaunchError) -> String {
    kernel_with_body(declarations, body).lines().nth(error.ptx_line as usize - 1).expect("a line").trim().to_owned()
}

const PLACE: &str = "mad.wide.u32 %rd0, %thread, 4, %in0;\n";

#[test]
fn a_read_just_past_the_end_names_everything() {
    let body = format!(
        "{PLACE}
        ld.global.u32 %r2, [%rd0];
        mad.wide.u32 %rd2, %thread, 4, %out;
        setp.lt.u32 %p0, %thread, 64;
        @%p0 st.global.u32 [%rd2], %r2;"
    );
    let error = failure("", &body, 3, 24);
    assert_eq!(line_of("", &body, &error), "ld.global.u32 %r2, [%rd0];");
    assert_eq!((error.block, error.thread), ([2, 0, 0], [16, 0, 0]));
    let LaunchErrorKind::OutOfBounds { space, address, bytes, access, nearest } = &error.kind else {
        panic!("{error}");
    };
    assert_eq!((*space, *bytes, *access), (MemorySpace::Global, 4, AccessKind::Read));
    let Nearest::Allocation { start, bytes: 256, distance: 0, .. } = nearest else { panic!("{nearest:?}") };
    assert_eq!(*address, start + 256);
    let text = error.to_string();
    for part in ["`test`", "block (2, 0, 0)", "thread (16, 0, 0)", &format!("{address:#x}"), "read", "global"] {
        assert!(text.contains(part), "`{part}` is missing in: {text}");
    }
}

#[test]
fn writes_past_the_end_before_the_start_and_between_allocations() {
    for (offset, distance) in [(256i64, 0i64), (300, 44), (-4, -4), (100_000, 99_744), (-4096, -4096)] {
        let error = failure("", &format!("add.s64 %rd0, %in0, {offset}; st.global.u32 [%rd0], 5;"), 1, 1);
        let LaunchErrorKind::OutOfBounds { access: AccessKind::Write, nearest, .. } = &error.kind else {
            panic!("{error}");
        };
        let Nearest::Allocation { distance: found, .. } = nearest else { panic!("{nearest:?}") };
        assert_eq!(*found, distance, "{error}");
    }
}

#[test]
fn an_access_that_only_begins_inside_is_outside() {
    let error = failure(
        "",
        "add.s64 %rd0, %in0, 248; ld.global.v4.u32 {%r2, %r3, %r4, %r5}, [%rd0+-8]; ld.global.v2.u64 {%rd3, %rd4}, [%rd0+-8]; add.s64 %rd0, %rd0, 8; ld.global.v4.u32 {%r2, %r3, %r4, %r5}, [%rd0];",
        1,
        1,
    );
    assert!(matches!(error.kind, LaunchErrorKind::OutOfBounds { bytes: 16, .. }), "{error}");
    // An allocation whose size is no multiple of the access.
    let module = load(&kernel_with_body("", "ld.global.u32 %r2, [%in0+4];"));
    let mut machine = Machine::with_threads(1);
    let (output, input) = (machine.upload(&[0u32]), machine.upload(&[1u8, 2, 3, 4, 5, 6]));
    let error =
        machine.try_launch(&module, "test", 1, 1, 0, &[output, input, input].map(Argument::Pointer)).unwrap_err();
    assert!(matches!(error.kind, LaunchErrorKind::OutOfBounds { bytes: 4, .. }), "{error}");
}

#[test]
fn null_pointers_and_wild_addresses() {
    for address in ["0", "8", "0x7fffffff0000", "0xfffffffffffffff8", "0x8000000000000000"] {
        for space in [".global", ""] {
            let error = failure("", &format!("mov.u64 %rd0, {address}; ld{space}.u32 %r2, [%rd0];"), 1, 1);
            assert!(matches!(error.kind, LaunchErrorKind::OutOfBounds { .. }), "{address} {space}: {error}");
        }
    }
    let error = failure("", "mov.u64 %rd0, 0; st.global.u8 [%rd0], 1;", 1, 1);
    assert!(error.to_string().contains("0x0"), "{error}");
}

#[test]
fn freed_memory_is_named_as_such() {
    let module = load(&kernel_with_body("", "ld.global.u32 %r2, [%in0+8];"));
    let mut machine = Machine::with_threads(1);
    let (output, input) = (machine.upload(&[0u32]), machine.upload(&[0u32; 16]));
    let arguments = [output, input, output].map(Argument::Pointer);
    machine.launch(&module, "test", 1, 1, 0, &arguments);
    machine.device.free(input).expect("the first release");
    // New memory never comes to lie where the old was.
    let other = machine.upload(&[0u32; 16]);
    assert_ne!(other, input);
    let error = machine.try_launch(&module, "test", 1, 1, 0, &arguments).expect_err("the memory is gone");
    let LaunchErrorKind::OutOfBounds { nearest: Nearest::Freed { start, bytes: 64 }, .. } = error.kind else {
        panic!("{error}");
    };
    assert_eq!(DevicePointer(start), input);
    assert!(error.to_string().contains("freed"), "{error}");
    assert!(machine.device.free(input).is_err(), "a second release is an error");
    assert!(machine.device.free(other.offset(4)).is_err(), "the middle of an allocation can't be released");
}

#[test]
fn misaligned_accesses() {
    for (instruction, offset, bytes) in [
        ("ld.global.u32 %r2, [%rd0];", 2, 4),
        ("ld.global.u16 %h0, [%rd0];", 1, 2),
        ("st.global.u64 [%rd0], %rd0;", 4, 8),
        ("ld.global.v4.u32 {%r2, %r3, %r4, %r5}, [%rd0];", 8, 16),
        ("atom.global.add.u32 %r2, [%rd0], 1;", 1, 4),
        ("red.global.add.u64 [%rd0], %rd0;", 4, 8),
    ] {
        let error = failure("", &format!("add.u64 %rd0, %in0, {offset}; {instruction}"), 1, 1);
        let LaunchErrorKind::Misaligned { bytes: found, .. } = error.kind else { panic!("{instruction}: {error}") };
        assert_eq!(found, bytes, "{instruction}");
        assert!(error.to_string().contains("misaligned"), "{error}");
    }
    let error = failure("", ".shared .align 8 .b8 s[64]; mov.u64 %rd0, s; ld.shared.u32 %r2, [%rd0+2];", 1, 1);
    assert!(matches!(error.kind, LaunchErrorKind::Misaligned { space: MemorySpace::Shared, .. }), "{error}");
}

#[test]
fn shared_and_local_memory_have_ends_too() {
    for (space, expected) in [("shared", MemorySpace::Shared), ("local", MemorySpace::Local)] {
        for generic in [false, true] {
            for (access, kind) in [("ld", AccessKind::Read), ("st", AccessKind::Write)] {
                let suffix = if generic { String::new() } else { format!(".{space}") };
                let convert = if generic { format!("cvta.{space}.u64 %rd0, %rd0;") } else { String::new() };
                let instruction = if access == "ld" {
                    format!("ld{suffix}.u32 %r2, [%rd0];")
                } else {
                    format!("st{suffix}.u32 [%rd0], %r2;")
                };
                let body = format!(
                    ".{space} .align 4 .b8 place[128]; mov.u64 %rd0, place; {convert} mov.u32 %r3, %tid.x; mad.wide.u32 %rd0, %r3, 4, %rd0;
                    {instruction}"
                );
                let error = failure("", &body, 2, 34);
                let LaunchErrorKind::OutOfBounds { space, access, .. } = error.kind else { panic!("{error}") };
                assert_eq!((space, access), (expected, kind), "{instruction}");
                assert_eq!((error.block, error.thread), ([0; 3], [32, 0, 0]), "{instruction}");
            }
        }
    }
}

/// The number that `factor` times itself makes 1 modulo 2^64; `factor` is odd.
fn inverse(factor: u64) -> u64 {
    (0..6).fold(factor, |x, _| x.wrapping_mul(2u64.wrapping_sub(factor.wrapping_mul(x))))
}

#[test]
fn steps_that_wrap_around_the_address_space_are_seen_through() {
    // The first and the last lane of a run are inside the allocation, all lanes between them far outside.
    for last in [31u64, 15, 7] {
        let step = inverse(last).wrapping_mul(4);
        assert_eq!(step.wrapping_mul(last), 4);
        for access in ["ld.global.u32 %r2, [%rd0];", "st.global.u32 [%rd0], 1;", "ld.u32 %r2, [%rd0];"] {
            let body = format!(
                "and.b32 %r3, %thread, {last}; cvt.u64.u32 %rd1, %r3; mul.lo.u64 %rd1, %rd1, {step}; add.u64 %rd0, %in0, %rd1;
                {access}"
            );
            let error = failure("", &body, 1, 32);
            assert!(matches!(error.kind, LaunchErrorKind::OutOfBounds { .. }), "{access}: {error}");
            assert_eq!(error.thread, [1, 0, 0], "{access}: {error}");
        }
        let body = format!(
            ".shared .align 4 .b8 place[128]; mov.u64 %rd2, place; and.b32 %r3, %thread, {last}; cvt.u64.u32 %rd1, %r3;
            mul.lo.u64 %rd1, %rd1, {step}; add.u64 %rd0, %rd2, %rd1; st.shared.u32 [%rd0], 1;"
        );
        let error = failure("", &body, 1, 32);
        assert!(matches!(error.kind, LaunchErrorKind::OutOfBounds { space: MemorySpace::Shared, .. }), "{error}");
    }
}

#[test]
fn atomics_outside_are_errors() {
    let error = failure("", "atom.global.add.u32 %r2, [%in0+256], 1;", 1, 1);
    assert!(matches!(error.kind, LaunchErrorKind::OutOfBounds { access: AccessKind::Atomic, .. }), "{error}");
    let error = failure("", ".shared .u32 s; mov.u64 %rd0, s; red.shared.add.u32 [%rd0+4], 1;", 1, 1);
    assert!(
        matches!(
            error.kind,
            LaunchErrorKind::OutOfBounds { access: AccessKind::Atomic, space: MemorySpace::Shared, .. }
        ),
        "{error}"
    );
}

#[test]
fn a_barrier_that_some_threads_skip() {
    let body = "setp.ge.u32 %p0, %thread, 40; @%p0 bra skip;
        bar.sync 0;
        skip: st.global.u32 [%out], 1;
        bar.sync 1;";
    let error = failure("", body, 1, 64);
    assert!(matches!(error.kind, LaunchErrorKind::DivergentBarrier { .. }), "{error}");
    let text = error.to_string();
    assert!(text.contains("barrier") && text.contains("wait"), "{text}");
}

#[test]
fn warps_that_wait_at_different_barriers() {
    let body = "setp.ge.u32 %p0, %thread, 32; @%p0 bra other;
        bar.sync 0; bra end;
        other: bar.sync 1;
        end:";
    let error = failure("", body, 1, 64);
    assert!(matches!(error.kind, LaunchErrorKind::DivergentBarrier { .. }), "{error}");
}

#[test]
fn a_barrier_that_waits_for_more_threads_than_come() {
    let error = failure("", "bar.sync 2, 96;", 1, 64);
    let LaunchErrorKind::DivergentBarrier { barrier: 2, arrived: 64, expected: 96, .. } = error.kind else {
        panic!("{error}");
    };
    let error = failure("", "bar.sync 0, 33;", 1, 64);
    assert!(matches!(error.kind, LaunchErrorKind::BadBarrier { .. }), "{error}");
    let error = failure("", "mov.u32 %r2, 16; bar.sync %r2;", 1, 32);
    assert!(matches!(error.kind, LaunchErrorKind::BadBarrier { barrier: 16, .. }), "{error}");
}

#[test]
fn a_barrier_whose_other_threads_have_returned() {
    // On hardware, whole warps that have exited don't count; the simulator says what the program meant, or runs it.
    let body = "setp.ge.u32 %p0, %thread, 40; @%p0 exit;
        bar.sync 0;
        setp.eq.u32 %p1, %thread, 0; @%p1 st.global.u32 [%out], 9;";
    let module = load(&kernel_with_body("", body));
    for threads in [1, 5] {
        let mut machine = Machine::with_threads(threads);
        let output = machine.upload(&[0u32; 64]);
        match machine.try_launch(&module, "test", 1, 64, 0, &[output, output, output].map(Argument::Pointer)) {
            Ok(()) => assert_eq!(machine.download::<u32>(output, 1), [9]),
            Err(error) => assert!(matches!(error.kind, LaunchErrorKind::DivergentBarrier { .. }), "{error}"),
        }
    }
}

#[test]
fn warp_instructions_that_name_lanes_that_never_come() {
    let body = "setp.lt.u32 %p0, %thread, 8; @!%p0 exit;
        vote.sync.ballot.b32 %r2, %p0, 0xffffffff; st.global.u32 [%out], %r2;";
    // Exited lanes count as absent: hardware goes on, too. Lanes elsewhere in a loop would be waited for.
    let module = load(&kernel_with_body("", body));
    let mut machine = Machine::with_threads(1);
    let output = machine.upload(&[0u32; 64]);
    match machine.try_launch(&module, "test", 1, 32, 0, &[output, output, output].map(Argument::Pointer)) {
        Ok(()) => assert_eq!(machine.download::<u32>(output, 1), [0xff]),
        Err(error) => assert!(matches!(error.kind, LaunchErrorKind::DivergentWarp { .. }), "{error}"),
    }
    let error = failure("", "mov.u32 %r2, 1; shfl.sync.idx.b32 %r3, %r2, 0, 31, 1;", 1, 32);
    assert!(matches!(error.kind, LaunchErrorKind::NotAMember { members: 1 }), "{error}");
}

#[test]
fn traps_name_block_thread_and_cuda_source_line() {
    let module = load(include_str!("kernels/traps.ptx"));
    let source = include_str!("kernels/traps.cu");
    let mut input = vec![1i32; 320];
    input[203] = -5;
    input[300] = -5;
    for threads in [1, 5] {
        let mut machine = Machine::with_threads(threads);
        let (values, output) = (machine.upload(&input), machine.upload(&vec![0i32; 320]));
        let error = machine
            .try_launch(&module, "trap_on_negative", 5, 64, 0, &[values, output].map(Argument::Pointer))
            .expect_err("the kernel traps");
        assert_eq!(error.kind, LaunchErrorKind::Trap);
        assert_eq!((error.block, error.thread), ([3, 0, 0], [11, 0, 0]), "{error}");
        let place = error.source.clone().expect("the PTX has line directives");
        assert_eq!(place.file, "traps.cu");
        assert!(source.lines().nth(place.line as usize - 1).expect("a line").contains("__trap"), "{place}");
        assert!(error.to_string().contains("traps.cu"), "{error}");
        assert_eq!(machine.download::<i32>(values, 320), input);
        // Blocks with a lower index than the failing one have done their work.
        assert_eq!(machine.download::<i32>(output, 192), vec![2; 192]);
    }
}

#[test]
fn failed_assertions_say_what_failed() {
    let text = include_str!("kernels/asserts.ptx");
    let module = match Module::parse(text) {
        Ok(module) => module,
        Err(error) => {
            assert!(error.to_string().contains("__assertfail"), "{error}");
            return;
        }
    };
    let mut machine = Machine::with_threads(1);
    let (values, output) = (machine.upload(&[3i32, 2, 0, 1]), machine.upload(&[0i32; 4]));
    let error = machine
        .try_launch(&module, "assert_positive", 1, 4, 0, &[values, output].map(Argument::Pointer))
        .expect_err("value > 0 fails in thread 2");
    assert_eq!(error.thread, [2, 0, 0]);
    assert!(error.to_string().contains("value > 0"), "{error}");
    let fine = machine.upload(&[3i32, 2, 5, 1]);
    machine.launch(&module, "assert_positive", 1, 4, 0, &[fine, output].map(Argument::Pointer));
    assert_eq!(machine.download::<i32>(output, 4), [3, 2, 5, 1]);
}

#[test]
fn endless_loops_end_at_the_limit() {
    let error = failure("", "again: bra again;", 2, 40);
    assert!(matches!(error.kind, LaunchErrorKind::InstructionLimit { limit: 0x10_0000 }), "{error}");
    assert!(error.to_string().contains("limit"), "{error}");
    // One lane alone.
    let error = failure("", "again: setp.eq.u32 %p0, %thread, 5; @%p0 bra again; st.global.u32 [%out], 1;", 1, 32);
    assert!(matches!(error.kind, LaunchErrorKind::InstructionLimit { .. }), "{error}");
    assert_eq!(error.thread, [5, 0, 0]);
    // A flag that nobody sets.
    let module = load(include_str!("kernels/traps.ptx"));
    let mut machine = Machine { device: Simulator::builder().threads(2).instruction_limit(100_000).build() };
    let flag = machine.upload(&[0i32]);
    let error = machine.try_launch(&module, "never_ends", 2, 32, 0, &[Argument::Pointer(flag)]).unwrap_err();
    assert!(matches!(error.kind, LaunchErrorKind::InstructionLimit { limit: 100_000 }), "{error}");
}

fn empty_kernel() -> Module {
    load(&module_text(
        ".visible .entry first(.param .u64 a, .param .u32 b) { ret; }
        .visible .entry second() .reqntid 32, 1, 1 { .shared .b8 s[40000]; .reg .u64 %r; mov.u64 %r, s; ret; }
        .visible .entry third() .maxntid 64, 2, 1 { ret; }",
    ))
}

#[test]
fn unknown_kernels_list_the_known_ones() {
    let error = Machine::with_threads(1).try_launch(&empty_kernel(), "fourth", 1, 1, 0, &[]).unwrap_err();
    let LaunchErrorKind::UnknownKernel { known } = &error.kind else { panic!("{error}") };
    assert_eq!(known, &["first", "second", "third"]);
    let text = error.to_string();
    assert!(text.contains("fourth") && text.contains("third"), "{text}");
}

#[test]
fn wrong_arguments_are_refused() {
    let mut machine = Machine::with_threads(1);
    let pointer = machine.upload(&[0u32]);
    let module = empty_kernel();
    let wrong: [&[Argument]; 5] = [
        &[],
        &[Argument::Pointer(pointer)],
        &[Argument::Pointer(pointer), Argument::U64(1)],
        &[Argument::U32(1), Argument::Pointer(pointer)],
        &[Argument::Pointer(pointer), Argument::U32(1), Argument::U32(1)],
    ];
    for arguments in wrong {
        let error = machine.try_launch(&module, "first", 1, 1, 0, arguments).unwrap_err();
        let LaunchErrorKind::BadArguments { expected, got } = &error.kind else { panic!("{error}") };
        assert_eq!(expected, &[8, 4]);
        assert_eq!(got.len(), arguments.len());
    }
    machine.launch(&module, "first", 1, 1, 0, &[Argument::Pointer(pointer), Argument::F32(1.0)]);
}

#[test]
fn impossible_shapes_are_refused() {
    let mut machine = Machine::with_threads(1);
    let module = empty_kernel();
    let arguments = [Argument::U64(0), Argument::U32(0)];
    for (grid, block) in [
        ([1u32, 1, 1], [1025u32, 1, 1]),
        ([1, 1, 1], [32, 33, 1]),
        ([1, 1, 1], [1, 1, 65]),
        ([1, 1, 1], [0, 1, 1]),
        ([0, 1, 1], [1, 1, 1]),
        ([1, 65_536, 1], [1, 1, 1]),
        ([1, 1, 65_536], [1, 1, 1]),
        ([1 << 31, 1, 1], [1, 1, 1]),
        ([1, 1, 1], [u32::MAX, u32::MAX, u32::MAX]),
    ] {
        let error = machine.try_launch(&module, "first", grid, block, 0, &arguments).unwrap_err();
        assert!(matches!(error.kind, LaunchErrorKind::BadShape { .. }), "{grid:?} {block:?}: {error}");
    }
    for (kernel, block) in [("second", 31u32), ("second", 64), ("third", 129)] {
        let error = machine.try_launch(&module, kernel, 1, block, 0, &[]).unwrap_err();
        assert!(matches!(error.kind, LaunchErrorKind::BadShape { .. }), "{kernel} {block}: {error}");
    }
    machine.launch(&module, "first", 1, [32, 32, 1], 0, &arguments);
    machine.launch(&module, "second", 2, 32, 0, &[]);
}

#[test]
fn too_much_shared_memory_is_refused() {
    let mut machine = Machine::with_threads(1);
    let limit = 227 * 1024;
    machine.launch(&empty_kernel(), "second", 1, 32, limit - 40_000, &[]);
    for bytes in [limit - 39_999, limit, u32::MAX] {
        let error = machine.try_launch(&empty_kernel(), "second", 1, 32, bytes, &[]).unwrap_err();
        let LaunchErrorKind::SharedMemoryTooLarge { needed, limit } = error.kind else { panic!("{error}") };
        assert_eq!((needed, limit), (40_000 + u64::from(bytes), 227 * 1024));
    }
}

#[test]
fn device_memory_runs_out_with_figures() {
    let mut device = Simulator::builder().memory_limit(1 << 20).build();
    let first = device.allocate(1 << 19).expect("half of the memory");
    let error = device.allocate(1 << 20).expect_err("more than is left");
    let AllocateError::OutOfMemory { needed, free } = error;
    assert_eq!(needed, 1 << 20);
    assert!(free <= 1 << 19 && free > 1 << 18, "{free}");
    assert!(error.to_string().contains("1048576"), "{error}");
    device.free(first).expect("it's allocated");
    device.allocate(1 << 19).expect("the memory is free again");
    assert!(device.allocate(u64::MAX).is_err());
}

#[test]
fn host_copies_stay_inside_their_allocation() {
    let mut device = Simulator::new();
    let pointer = device.allocate(100).expect("a small buffer");
    device.write(pointer, &[7; 100]).expect("all of it");
    assert!(device.write(pointer, &[0; 101]).is_err());
    assert!(device.write(pointer.offset(1), &[0; 100]).is_err());
    assert!(device.read(pointer.offset(99), &mut [0; 2]).is_err());
    assert!(device.read(DevicePointer(0), &mut [0; 1]).is_err());
    let mut bytes = [0; 100];
    device.read(pointer, &mut bytes).expect("all of it");
    assert_eq!(bytes, [7; 100]);
    device.read(pointer.offset(100), &mut []).ok();
}

#[test]
fn fresh_memory_is_the_same_in_every_run() {
    let read = || {
        let mut device = Simulator::new();
        let pointer = device.allocate(64).expect("a small buffer");
        let mut bytes = [0; 64];
        device.read(pointer, &mut bytes).expect("all of it");
        bytes
    };
    assert_eq!(read(), read());
}

/// The text of the error for a kernel that holds `line`, and the number of that line.
fn refused(line: &str) -> (String, u32) {
    let text = kernel_with_body("", &format!("mov.u32 %r2, 1;\n{line}\nmov.u32 %r3, 1;"));
    let at = text.lines().position(|other| other == line).expect("the line") as u32 + 1;
    match Module::parse(&text) {
        Ok(_) => panic!("`{line}` should be refused"),
        Err(error) => {
            assert_eq!(error.line(), at, "`{line}`: {error}");
            (error.to_string(), at)
        }
    }
}

#[test]
fn unknown_instructions_are_refused_at_load_with_line_and_text() {
    for (line, word) in [
        ("frobnicate.u32 %r2, %r3;", "frobnicate"),
        ("add.u33 %r2, %r3, %r4;", "add.u33"),
        ("add.rn.u32 %r2, %r3, %r4;", "add.rn.u32"),
        ("tex.2d.v4.f32.f32 {%f0, %f1, %f2, %f3}, [%rd0, {%f0, %f1}];", "tex"),
        ("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%r2}, {%r3}, {%r4}, {%r5};", "mma"),
        ("tcgen05.fence::before_thread_sync;", "tcgen05"),
        ("wgmma.mma_async.sync.aligned.m64n8k32.s32.s8.s8 {%r1, %r2, %r3, %r4}, %rd1, %rd2, 1;", "sums of `.f32`"),
        ("ld.weird.u32 %r2, [%rd0];", "ld.weird"),
        ("atom.global.mul.u32 %r2, [%rd0], 3;", "atom"),
        ("setp.almost.f32 %p0, %f0, %f1;", "setp"),
        ("cvt.rn.f32.q32 %f0, %r2;", "cvt"),
        ("mov.u32 %r2, %no_such_register;", "no_such_register"),
        ("bra nowhere;", "nowhere"),
        ("call.uni unknown_function;", "unknown_function"),
        ("mov.u32 %r2, %r3, %r4;", "mov"),
        ("add.u32 %r2, %r3;", "add"),
        ("ld.global.u32 %r2, [no_such_variable];", "no_such_variable"),
        ("add.u32 %r2, %rd3, 1;", "add"),
        ("add.f32 %f0, %f1, %p1;", "add"),
        ("st.const.u32 [%rd0], %r2;", "st"),
    ] {
        let (text, at) = refused(line);
        assert!(text.contains(word) && text.contains(&at.to_string()), "`{line}`: {text}");
    }
}

#[test]
fn recursion_is_refused() {
    let text = module_text(
        ".func even();
        .func odd() { call.uni even; ret; }
        .func even() { call.uni odd; ret; }
        .visible .entry start() { call.uni even; ret; }",
    );
    let error = Module::parse(&text).expect_err("recursion");
    assert!(error.to_string().contains("recurs"), "{error}");
}

const FILES: [&str; 16] = [
    include_str!("kernels/asserts.ptx"),
    include_str!("kernels/atomics.ptx"),
    include_str!("kernels/calls.ptx"),
    include_str!("kernels/control_flow.ptx"),
    include_str!("kernels/floats.ptx"),
    include_str!("kernels/gemm.ptx"),
    include_str!("kernels/halves_sm90.ptx"),
    include_str!("kernels/integers.ptx"),
    include_str!("kernels/locks.ptx"),
    include_str!("kernels/memory.ptx"),
    include_str!("kernels/reduction.ptx"),
    include_str!("kernels/refused_indirect.ptx"),
    include_str!("kernels/scan.ptx"),
    include_str!("kernels/traps.ptx"),
    include_str!("kernels/warps.ptx"),
    include_str!("kernels/warps_sm80.ptx"),
];

#[test]
fn truncated_files_never_panic() {
    for text in FILES {
        // Every prefix of a short file and of the first part of a long one, then places all over the rest.
        let mut ends: Vec<usize> = (0..if text.len() < 9000 { text.len() } else { 1500 }).collect();
        ends.extend(
            text.char_indices()
                .filter(|(i, c)| *c == ';' && i.is_multiple_of(8) || i.is_multiple_of(701))
                .map(|(i, _)| i),
        );
        for end in ends {
            if text.is_char_boundary(end) {
                let _ = Module::parse(&text[..end]);
            }
        }
    }
}

/// Changes a few places of a text: characters replaced, pieces lost, inserted and repeated, numbers and names
/// exchanged.
fn garbled(text: &str, random: &mut Random) -> String {
    let alphabet = b"{}[](),;:.%@!|<>=+-*/~0x9fU_ \n\"\t\x00\xc3ab$";
    let mut bytes = text.as_bytes().to_vec();
    for _ in 0..1 + random.below(4) {
        let at = random.below(bytes.len() as u32) as usize;
        let letter = alphabet[random.below(alphabet.len() as u32) as usize];
        match random.below(7) {
            0 => bytes[at] = letter,
            1 => drop(bytes.drain(at..(at + random.below(40) as usize).min(bytes.len()))),
            2 => bytes.insert(at, letter),
            3 => {
                let piece = bytes[at..(at + 30).min(bytes.len())].to_vec();
                let to = random.below(bytes.len() as u32) as usize;
                bytes.splice(to..to, piece);
            }
            // Another digit: other registers, offsets, constants, labels. Most of these texts still load.
            _ => {
                let digits: Vec<usize> = (0..bytes.len()).filter(|&i| bytes[i].is_ascii_digit()).collect();
                bytes[digits[random.below(digits.len() as u32) as usize]] = b'0' + random.below(10) as u8;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Launches every kernel of a module with pointers to a small buffer and small numbers; what comes of it doesn't
/// matter.
fn run_somehow(module: &Module) {
    let mut device = Simulator::builder().threads(1).instruction_limit(20_000).memory_limit(1 << 26).build();
    let buffer = device.allocate(4096).expect("a small buffer");
    device.write(buffer, &[1; 4096]).expect("all of it");
    for kernel in module.kernels() {
        let structure = vec![2u8; 1 << 16];
        let arguments: Vec<Argument> = kernel
            .parameters
            .iter()
            .map(|parameter| match parameter.bytes {
                8 => Argument::Pointer(buffer),
                4 => Argument::U32(40),
                bytes => Argument::Bytes(&structure[..bytes.min(1 << 16)]),
            })
            .collect();
        let config = LaunchConfig { grid: [2, 1, 1], block: [16, 4, 1], dynamic_shared_bytes: 1024 };
        let _ = device.launch(module, &kernel.name, config, &arguments);
    }
}

/// Garbles every kernel file `rounds` times.
fn garble_all(seed: u64, rounds: u32) {
    let mut random = Random::new(seed);
    for text in FILES {
        for _ in 0..rounds {
            if let Ok(module) = Module::parse(&garbled(text, &mut random)) {
                run_somehow(&module);
            }
        }
    }
}

#[test]
fn garbled_files_never_panic_and_what_still_loads_ends_or_fails_properly() {
    garble_all(1, 25);
}

/// More of the same; `cargo test -- --ignored` runs it.
#[test]
#[ignore = "takes minutes"]
fn many_garbled_files_never_panic() {
    garble_all(2, 1500);
}

#[test]
fn strange_declarations_and_numbers_never_panic() {
    for text in
        ["", "\0", ".", "{", ".version", ".version 8.0", ".entry", "/*", "\"", "é", ".reg .b32 %r<4294967295>;", "@"]
    {
        let _ = Module::parse(text);
    }
    for body in [
        ".reg .b32 %x<4294967295>;",
        ".shared .b8 s[18446744073709551615];",
        ".local .b8 s[99999999999];",
        ".shared .align 3 .b8 s[4];",
        ".shared .align 0 .b8 s[4];",
        "{{{{{{{{",
        "mov.u32 %r2, 99999999999999999999999;",
        "mov.u32 %r2, 0x;",
        "mov.u32 %r2, 1/0;",
        "mov.f32 %f0, 0f123;",
        "ld.global.u32 %r2, [%rd0+99999999999999999999];",
    ] {
        let _ = Module::parse(&kernel_with_body("", body));
    }
}

#[test]
fn deep_nesting_is_an_error_or_fine_but_no_overflow() {
    let depth = 20_000;
    let _ = Module::parse(&kernel_with_body("", &format!("{}{}", "{".repeat(depth), "}".repeat(depth))));
    let _ = Module::parse(&kernel_with_body("", &format!("mov.u32 %r2, {}1{};", "(".repeat(depth), ")".repeat(depth))));
    let _ = Module::parse(&kernel_with_body("", &format!("mov.u32 %r2, {}1;", "-".repeat(depth))));
    let calls: String =
        (0..3000).map(|i| format!(".func f{i}() {{ call.uni f{}; ret; }}\n", i + 1)).collect::<String>()
            + ".func f3000() { ret; }";
    let declarations: String = (1..=3000).map(|i| format!(".func f{i}();\n")).collect();
    let _ = Module::parse(&kernel_with_body(&format!("{declarations}{calls}"), "call.uni f0;"));
}

#[test]
fn a_failed_launch_leaves_finished_writes_and_touches_nothing_else() {
    // Block 7 fails; what the others wrote rightfully may stand, and nothing beside it changes.
    let module = load(&kernel_with_body(
        "",
        "mad.wide.u32 %rd2, %thread, 4, %out; st.global.u32 [%rd2], 1;
        mov.u32 %r2, %ctaid.x; setp.eq.u32 %p0, %r2, 7; @%p0 st.global.u32 [%in0+4096], 1;",
    ));
    for threads in [1, 2, 5] {
        let mut machine = Machine::with_threads(threads);
        let output = machine.upload(&[0u32; 512]);
        let other = machine.upload(&[9u8; 64]);
        let error = machine
            .try_launch(&module, "test", 16, 32, 0, &[output, other, other].map(Argument::Pointer))
            .expect_err("block 7 writes outside");
        assert_eq!((error.block, error.thread), ([7, 0, 0], [0, 0, 0]), "{error}");
        assert_eq!(machine.download::<u8>(other, 64), [9; 64]);
        let words = machine.download::<u32>(output, 512);
        assert!(words[..8 * 32].iter().all(|&word| word == 1) && words.iter().all(|&word| word < 2));
    }
    assert_eq!(bytes_of(&[1u32]), [1, 0, 0, 0]);
    let config = LaunchConfig { grid: [1; 3], block: [1; 3], dynamic_shared_bytes: 0 };
    assert!(Simulator::new().launch(&module, "test", config, &[]).is_err());
}

#[test]
fn block_shapes_that_no_number_holds_are_limits_like_others() {
    let huge = "4294967295, 4294967295, 2";
    let entry = |directive: &str| {
        let name = format!(".entry test(.param .u64 p) {directive} {huge} {{ ret; }}");
        load(&format!(".version 8.0\n.target sm_80\n.address_size 64\n{name}"))
    };
    let mut machine = Machine::with_threads(1);
    let arguments = [Argument::Pointer(machine.upload(&[0u32]))];
    machine.launch(&entry(".maxntid"), "test", 1, 1024, 0, &arguments);
    let error = machine.try_launch(&entry(".reqntid"), "test", 1, 1024, 0, &arguments).expect_err("another shape");
    assert!(matches!(error.kind, LaunchErrorKind::BadShape { what: "block", .. }), "{error}");
    assert!(error.to_string().contains("exactly"), "{error}");
}

/// Functions `f0` to `f<most>`, each of which calls the one before it twice; `last` is the body of `f0`.
fn doubling_calls(most: u32, last: &str) -> String {
    let calls = |i: u32| format!(".func f{i}() {{ call f{0}; call f{0}; ret; }}\n", i - 1);
    format!(".func f0() {{ {last} }}\n") + &(1..=most).map(calls).collect::<String>()
}

#[test]
fn ever_new_call_paths_reach_the_limit_of_instructions_soon() {
    let begin = Instant::now();
    let error = failure(&doubling_calls(21, "ret;"), "call f21;", 1, 32);
    assert_eq!(error.kind, LaunchErrorKind::InstructionLimit { limit: 1 << 20 });
    assert!(begin.elapsed() < Duration::from_secs(10), "{:?}", begin.elapsed());
}

#[test]
fn however_deep_calls_are_new_ones_cost_the_same() {
    // Below thousands of callers that stay, so that their frames are never dropped.
    let chain = |i: u32| {
        format!(".func g{i}() {{ call {}; ret; }}\n", if i == 0 { "f21".into() } else { format!("g{}", i - 1) })
    };
    let functions = doubling_calls(21, "ret;") + &(0..5000).map(chain).collect::<String>();
    let begin = Instant::now();
    let error = failure(&functions, "call g4999;", 1, 32);
    assert_eq!(error.kind, LaunchErrorKind::InstructionLimit { limit: 1 << 20 });
    assert!(begin.elapsed() < Duration::from_secs(10), "{:?}", begin.elapsed());
}

#[test]
fn lanes_return_to_their_own_callers_while_others_come_and_go() {
    // `f0` runs 2^9 times. A lane goes on in it only if its number and the runs so far have a bit in common, so that
    // lanes split and join again below many different callers.
    let place = ".reg .b32 %t, %s, %c; mov.u32 %t, %laneid; mov.u32 %c, counts; mad.lo.u32 %c, %t, 12, %c;";
    let last = format!(
        "{place} .reg .pred %q;
        ld.shared.u32 %s, [%c];
        and.b32 %t, %t, %s;
        setp.eq.u32 %q, %t, 0;
        add.u32 %s, %s, 1;
        st.shared.u32 [%c], %s;
        @%q ret;
        ld.shared.u32 %s, [%c+4];
        add.u32 %s, %s, 1;
        st.shared.u32 [%c+4], %s;
        @!%q call leaf;
        ret;"
    );
    let leaf = format!("{place} ld.shared.u32 %s, [%c+8]; add.u32 %s, %s, 3; st.shared.u32 [%c+8], %s; ret;");
    let module = load(&kernel_with_body(
        &format!(".shared .align 4 .b8 counts[384];\n.func leaf() {{ {leaf} }}\n{}", doubling_calls(9, &last)),
        &format!(
            "{place} mov.u32 %s, 0;
            st.shared.u32 [%c], %s; st.shared.u32 [%c+4], %s; st.shared.u32 [%c+8], %s;
            call f9;
            mad.wide.u32 %rd2, %thread, 12, %out;
            ld.shared.u32 %s, [%c]; st.global.u32 [%rd2], %s;
            ld.shared.u32 %s, [%c+4]; st.global.u32 [%rd2+4], %s;
            ld.shared.u32 %s, [%c+8]; st.global.u32 [%rd2+8], %s;"
        ),
    ));
    let mut machine = Machine::with_threads(1);
    let output = machine.upload(&[0u32; 96]);
    machine.launch(&module, "test", 1, 32, 0, &[output; 3].map(Argument::Pointer));
    let expected = (0..32u32).flat_map(|lane| {
        let entered = (0..512).filter(|count| count & lane != 0).count() as u32;
        [512, entered, 3 * entered]
    });
    assert_eq!(machine.download::<u32>(output, 96), expected.collect::<Vec<_>>());
}

#[test]
fn code_that_is_slow_to_analyse_loads_soon_and_runs_right() {
    let count = 20_000;
    // Branches across each other, with a register each: all of them are needed everywhere.
    let line = |i: u32| format!("L{i}: @%q bra L{}; add.u32 %x{i}, %x{i}, {i};\n", count - 1 - i);
    let code: String = (0..count).map(line).collect();
    let sum: String = (0..count).map(|i| format!("add.u32 %sum, %sum, %x{i};\n")).collect();
    let text = kernel_with_body(
        "",
        &format!(
            ".reg .b32 %x<{count}>, %sum; .reg .b64 %wide; .reg .pred %q, %never;
            setp.gt.u32 %q, %thread, 1000;
            {code}{sum}
            cvt.u64.u32 %wide, %sum;
            @%never add.u64 %wide, %wide, 1;
            mad.wide.u32 %rd2, %thread, 8, %out;
            st.global.u64 [%rd2], %wide;"
        ),
    );
    let begin = Instant::now();
    let module = load(&text);
    assert!(begin.elapsed() < Duration::from_secs(10), "{:?}", begin.elapsed());
    let mut machine = Machine::with_threads(1);
    let output = machine.upload(&[1u64; 128]);
    // The second block finds nothing of what the first one left.
    machine.launch(&module, "test", 2, 64, 0, &[output; 3].map(Argument::Pointer));
    let sum = u64::from(count) * u64::from(count - 1) / 2;
    assert_eq!(machine.download::<u64>(output, 128), [sum; 128]);
}
