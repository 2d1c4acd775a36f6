//! Matrices between shared memory and the registers of a warp.

use crate::support::{Argument, Machine, bytes_of, kernel_with_body, load, run_body};
use ptx_simulator::{AccessKind, LaunchErrorKind, MemorySpace, Module};

const SHARED: &str = ".shared .align 16 .b8 tiles[2048];";

/// A kernel body that copies 2,048 bytes of `%in0` to `tiles`, leaves the lane's word of `%in1` plus the address of
/// `tiles` in `%r20`, does `work`, and writes `%r4` to `%r7` out.
fn body(work: &str) -> String {
    format!(
        "mul.wide.u32 %rd1, %thread, 4; add.u64 %rd2, %in0, %rd1; add.u64 %rd3, %in1, %rd1; mov.u32 %r30, tiles;
        mad.lo.u32 %r2, %thread, 4, %r30; mov.u32 %r3, 0;
        mov.u32 %r4, 0x5555; mov.u32 %r5, %r4; mov.u32 %r6, %r4; mov.u32 %r7, %r4;
        fill: ld.global.u32 %r8, [%rd2]; st.shared.u32 [%r2], %r8; add.u64 %rd2, %rd2, 128; add.u32 %r2, %r2, 128;
        add.u32 %r3, %r3, 1; setp.lt.u32 %p0, %r3, 16; @%p0 bra fill;
        bar.sync 0;
        ld.global.u32 %r20, [%rd3]; add.u32 %r20, %r20, %r30; cvt.u64.u32 %rd20, %r20; cvta.shared.u64 %rd20, %rd20;
        {work}
        mad.wide.u32 %rd4, %thread, 16, %out; st.global.v4.u32 [%rd4], {{%r4, %r5, %r6, %r7}};"
    )
}

/// Halves 0, 1, 2 and so on, no two the same.
fn halves() -> Vec<u16> {
    (0..1024u16).map(|index| index.wrapping_mul(40503) ^ 0x1234).collect()
}

/// Where the row that each lane names begins, in bytes: all different, in no simple order.
fn rows() -> Vec<u32> {
    (0..32).map(|lane| (lane * 37 + 11) % 128 * 16).collect()
}

/// The register of a matrix in a lane, as the PTX manual's figures of `ldmatrix` have it.
fn fragment(memory: &[u16], rows: &[u32], lane: usize, transposed: bool) -> u32 {
    let element = |row: usize, column: usize| u32::from(memory[rows[row] as usize / 2 + column]);
    let (outer, inner) = (lane / 4, lane % 4 * 2);
    match transposed {
        false => element(outer, inner) | element(outer, inner + 1) << 16,
        true => element(inner, outer) | element(inner + 1, outer) << 16,
    }
}

#[test]
fn ldmatrix_gives_every_lane_its_part_of_each_matrix() {
    let (memory, rows) = (halves(), rows());
    for (count, registers) in [(1, "{%r4}"), (2, "{%r4, %r5}"), (4, "{%r4, %r5, %r6, %r7}")] {
        for transposed in [false, true] {
            for (space, address) in [(".shared", "[%r20]"), (".shared::cta", "[%rd9]"), ("", "[%rd20]")] {
                let trans = if transposed { ".trans" } else { "" };
                // Lanes that give no row may hold anything.
                let work = format!(
                    "setp.ge.u32 %p1, %thread, {}; @%p1 mov.u32 %r20, 3; @%p1 mov.u64 %rd20, 0;
                    cvt.u64.u32 %rd9, %r20;
                    ldmatrix.sync.aligned.m8n8.x{count}{trans}{space}.b16 {registers}, {address};",
                    8 * count
                );
                let inputs = [bytes_of(&memory), bytes_of(&rows)];
                let got: Vec<u32> = run_body(SHARED, &body(&work), 1, 32, [&inputs[0], &inputs[1]], 128);
                for (lane, words) in got.chunks_exact(4).enumerate() {
                    for (matrix, word) in words.iter().enumerate() {
                        let want = match matrix < count {
                            true => fragment(&memory, &rows[8 * matrix..], lane, transposed),
                            false => 0x5555,
                        };
                        assert_eq!(*word, want, "x{count}{trans}{space}, lane {lane}, matrix {matrix}");
                    }
                }
            }
        }
    }
}

#[test]
fn ldmatrix_may_replace_its_own_address() {
    let (memory, rows) = (halves(), rows());
    let work = "mov.u32 %r4, %r20; ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r7, %r6, %r5, %r4}, [%r4+16];";
    // The row after the last one is none: the address wraps to the first.
    let moved: Vec<u32> = rows.iter().map(|row| (row + 16) % 2048).collect();
    let starts: Vec<u32> = moved.iter().map(|row| row.wrapping_sub(16)).collect();
    let inputs = [bytes_of(&memory), bytes_of(&starts)];
    let got: Vec<u32> = run_body(SHARED, &body(work), 1, 32, [&inputs[0], &inputs[1]], 128);
    for (lane, words) in got.chunks_exact(4).enumerate() {
        for (matrix, word) in words.iter().rev().enumerate() {
            assert_eq!(*word, fragment(&memory, &moved[8 * matrix..], lane, false), "lane {lane}, matrix {matrix}");
        }
    }
}

#[test]
fn stmatrix_puts_back_what_ldmatrix_takes() {
    let (memory, rows) = (halves(), rows());
    for (count, registers) in [(1, "{%r10}"), (2, "{%r10, %r11}"), (4, "{%r10, %r11, %r12, %r13}")] {
        for transposed in [false, true] {
            let trans = if transposed { ".trans" } else { "" };
            // Registers hold numbers that name lane and matrix; then each lane reads its row of memory again.
            let work = format!(
                "mad.lo.u32 %r10, %thread, 0x20002, 0x10000; add.u32 %r11, %r10, 0x10001000; add.u32 %r12, %r11, 0x10001000;
                add.u32 %r13, %r12, 0x10001000;
                stmatrix.sync.aligned.m8n8.x{count}{trans}.shared.b16 [%r20], {registers};
                bar.sync 0; ld.shared.v4.u32 {{%r4, %r5, %r6, %r7}}, [%r20];"
            );
            let inputs = [bytes_of(&memory), bytes_of(&rows)];
            let got: Vec<u32> = run_body(SHARED, &body(&work), 1, 32, [&inputs[0], &inputs[1]], 128);
            let got: Vec<u16> = got.iter().flat_map(|word| [*word as u16, (*word >> 16) as u16]).collect();
            for (lane, found) in got.chunks_exact(8).enumerate() {
                let (matrix, row) = (lane / 8, lane % 8);
                for (column, found) in found.iter().enumerate() {
                    // Element (row, column) belongs to one lane's register: its lower half or its upper one.
                    let (outer, inner) = if transposed { (column, row) } else { (row, column) };
                    let owner = (4 * outer + inner / 2) as u16;
                    let want = match matrix < count {
                        true => 2 * owner + (inner % 2) as u16 + 0x1000 * matrix as u16,
                        false => memory[rows[lane] as usize / 2 + column],
                    };
                    assert_eq!(*found, want, "x{count}{trans}, matrix {matrix}, row {row}, column {column}");
                }
            }
        }
    }
}

/// The error of a launch of `threads` threads.
fn failure(work: &str, threads: u32, rows: &[u32]) -> ptx_simulator::LaunchError {
    let module = load(&kernel_with_body(SHARED, &body(work)));
    let mut machine = Machine::with_threads(1);
    let output = machine.upload(&[0u32; 256]);
    let inputs = [machine.upload(&[0u32; 1024]), machine.upload(rows)];
    let arguments = [output, inputs[0], inputs[1]].map(Argument::Pointer);
    machine.try_launch(&module, "test", 1, threads, 0, &arguments).expect_err("the launch must fail")
}

const LOAD: &str = "ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r4, %r5, %r6, %r7}, [%r20];";

#[test]
fn rows_must_be_inside_shared_memory_and_aligned() {
    let mut rows = rows();
    rows[21] = 2040;
    let error = failure(LOAD, 32, &rows);
    let misaligned =
        LaunchErrorKind::Misaligned { space: MemorySpace::Shared, address: 2040, bytes: 16, access: AccessKind::Read };
    assert_eq!((error.kind, error.thread), (misaligned, [21, 0, 0]));
    rows[21] = 2048;
    let error = failure("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%r20], {%r4, %r5, %r6, %r7};", 32, &rows);
    let kind = &error.kind;
    assert!(
        matches!(
            kind,
            LaunchErrorKind::OutOfBounds {
                space: MemorySpace::Shared,
                address: 2048,
                bytes: 16,
                access: AccessKind::Write,
                ..
            }
        ),
        "{error}"
    );
    // A generic address of something else.
    let error = failure("ldmatrix.sync.aligned.m8n8.x1.b16 {%r4}, [%out];", 32, &rows);
    assert!(matches!(error.kind, LaunchErrorKind::OutOfBounds { space: MemorySpace::Shared, .. }), "{error}");
}

#[test]
fn the_whole_warp_must_come() {
    for (work, threads, others) in [
        (format!("setp.lt.u32 %p1, %thread, 24; @!%p1 exit; {LOAD}"), 32, "8 have exited"),
        (LOAD.to_owned(), 24, "8 are missing"),
        (
            format!("setp.lt.u32 %p1, %thread, 24; @!%p1 bra away; {LOAD} bra done; away: bar.sync 0; done:"),
            32,
            "8 wait",
        ),
        (format!("setp.lt.u32 %p1, %thread, 24; @%p1 {LOAD} bar.sync 0;"), 32, "8 wait"),
    ] {
        let error = failure(&work, threads, &rows());
        match &error.kind {
            LaunchErrorKind::DivergentWarp { members: u32::MAX, others: found } => {
                assert!(found.contains(others), "{error}")
            }
            _ => panic!("{work}: {error}"),
        }
    }
}

#[test]
fn lanes_that_took_different_ways_meet_before_it() {
    let (memory, rows) = (halves(), rows());
    let work = format!(
        "setp.lt.u32 %p1, %thread, 10; mov.u32 %r9, 0; @%p1 bra less; add.u32 %r9, %r9, 1; bra both;
        less: add.u32 %r9, %r9, 2; again: add.u32 %r9, %r9, 1; setp.lt.u32 %p2, %r9, %thread; @%p2 bra again;
        both: {LOAD}"
    );
    let inputs = [bytes_of(&memory), bytes_of(&rows)];
    let got: Vec<u32> = run_body(SHARED, &body(&work), 1, 32, [&inputs[0], &inputs[1]], 128);
    for (lane, words) in got.chunks_exact(4).enumerate() {
        for (matrix, word) in words.iter().enumerate() {
            assert_eq!(*word, fragment(&memory, &rows[8 * matrix..], lane, false));
        }
    }
}

#[test]
fn forms_that_are_not_known_are_refused_by_name() {
    for (instruction, reason) in [
        ("ldmatrix.sync.aligned.m16n16.x1.trans.shared.b8 {%r4, %r5}, [%r20];", "8 x 8"),
        ("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r4, %r5}, [%r20];", "4 registers"),
        ("ldmatrix.sync.aligned.m8n8.shared.b16 {%r4}, [%r20];", "number of matrices"),
        ("ldmatrix.aligned.m8n8.x1.shared.b16 {%r4}, [%r20];", ".sync.aligned"),
        ("ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%rd4}, [%r20];", "Bits32"),
        ("stmatrix.sync.aligned.m8n8.x1.global.b16 [%rd20], {%r4};", ".global"),
    ] {
        let error = Module::parse(&kernel_with_body(SHARED, &body(instruction))).expect_err(instruction);
        assert!(error.to_string().contains(reason), "{instruction}: {error}");
    }
}
