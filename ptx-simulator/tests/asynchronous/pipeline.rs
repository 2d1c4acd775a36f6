//! A matrix product as production kernels are: a tile of 128 x 256 of C for 256 threads, 128 elements each, 16 steps of k
//! unrolled to some 2500 instructions, three stages filled by asynchronous copies.

use std::fmt::Write;
use std::time::{Duration, Instant};

use ptx_simulator::observe::costs::Costs;
use ptx_simulator::observe::hazards::{FindingKind, Hazards};
use ptx_simulator::{Argument, LaunchConfig, Module};

use crate::support::{Machine, load, module_text};

const M: usize = 256;
const N: usize = 512;
const K: usize = 64;
const STAGE: u32 = (128 + 256) * 16 * 4;

/// How threads make stages known to each other.
#[derive(Clone, Copy, PartialEq)]
enum Handover {
    /// One barrier of the block in each round.
    Barrier,
    /// Every thread arrives when its copies are done, and one lane of each warp when the warp has read a stage.
    Mbarriers,
    /// As `Barrier`, with one group too many left open.
    Lax,
}

fn kernel(handover: Handover) -> String {
    let mut text = String::from(
        ".extern .shared .align 128 .b8 stages[]; .shared .align 8 .b8 barriers[48];
        .visible .entry product(.param .align 8 .b8 call[40])
        {
        .reg .pred %p<10>; .reg .b32 %r<100>; .reg .b64 %rd<40>; .reg .f32 %a<200>, %f<4000>;
        ld.param.u64 %rd1, [call]; ld.param.u64 %rd2, [call+8]; ld.param.u64 %rd3, [call+16];
        ld.param.u32 %r1, [call+24]; ld.param.u32 %r2, [call+28]; ld.param.u32 %r3, [call+32];
        mov.u32 %r4, %tid.x; mov.u32 %r5, stages; mov.u32 %r6, %ctaid.x; mov.u32 %r7, %ctaid.y;
        shl.b32 %r6, %r6, 8; shl.b32 %r7, %r7, 7;
        and.b32 %r8, %r4, 15; shr.u32 %r9, %r4, 4;
        mov.u32 %r60, barriers; and.b32 %r61, %r4, 31; setp.eq.u32 %p5, %r61, 0; setp.eq.u32 %p6, %r4, 0;
        ",
    );
    let mut line = |words: String| writeln!(text, "{words}").unwrap();
    if handover == Handover::Mbarriers {
        for stage in 0..3 {
            line(format!("@%p6 mbarrier.init.shared.b64 [%r60+{}], 256;", stage * 8));
            line(format!("@%p6 mbarrier.init.shared.b64 [%r60+{}], 8;", 24 + stage * 8));
        }
        line("bar.sync 0;".to_owned());
    }
    // Sources and destinations of the thread's copies: 8 words of A, stored transposed, and 4 times 16 bytes of B.
    line("add.u32 %r10, %r7, %r9; mad.lo.u32 %r10, %r10, %r3, %r8; mad.wide.u32 %rd4, %r10, 4, %rd1;".into());
    line("shl.b32 %r11, %r3, 6; cvt.u64.u32 %rd5, %r11;".into());
    line("shl.b32 %r12, %r8, 7; add.u32 %r12, %r12, %r9; mad.lo.u32 %r12, %r12, 4, %r5;".into());
    line("and.b32 %r13, %r4, 63; shr.u32 %r14, %r4, 6; shl.b32 %r15, %r13, 2; add.u32 %r15, %r15, %r6;".into());
    line("mad.lo.u32 %r16, %r14, %r2, %r15; mad.wide.u32 %rd6, %r16, 4, %rd2;".into());
    line("shl.b32 %r17, %r2, 4; cvt.u64.u32 %rd7, %r17;".into());
    line("shl.b32 %r18, %r4, 4; add.u32 %r18, %r18, %r5; add.u32 %r18, %r18, 8192;".into());
    line("shr.u32 %r19, %r3, 4; mov.u32 %r20, 0; mov.u32 %r21, 0; mov.u32 %r22, 0; mov.u32 %r23, 0;".into());
    line("mov.u32 %r62, 0; mov.u32 %r63, 1; mov.u32 %r64, %r60; mov.u32 %r65, %r60;".into());
    let copies = |line: &mut dyn FnMut(String)| {
        line("setp.lt.u32 %p1, %r20, %r19;".to_owned());
        line("add.u32 %r24, %r12, %r21; mov.u64 %rd8, %rd4;".to_owned());
        for word in 0..8 {
            line(format!("@%p1 cp.async.ca.shared.global [%r24+{}], [%rd8], 4; add.u64 %rd8, %rd8, %rd5;", word * 64));
        }
        line("add.u32 %r25, %r18, %r21; mov.u64 %rd8, %rd6;".to_owned());
        for vector in 0..4 {
            line(format!(
                "@%p1 cp.async.cg.shared.global [%r25+{}], [%rd8], 16; add.u64 %rd8, %rd8, %rd7;",
                vector * 4096
            ));
        }
        line(
            "add.u64 %rd4, %rd4, 64; shl.b64 %rd9, %rd7, 2; add.u64 %rd6, %rd6, %rd9; add.u32 %r20, %r20, 1;"
                .to_owned(),
        );
        line(format!("add.u32 %r21, %r21, {STAGE}; setp.eq.u32 %p2, %r21, {}; @%p2 mov.u32 %r21, 0;", 3 * STAGE));
    };
    let full = "cp.async.mbarrier.arrive.noinc.shared.b64 [%r64];";
    let next = "add.u32 %r64, %r64, 8; add.u32 %r66, %r60, 24; setp.eq.u32 %p3, %r64, %r66; @%p3 mov.u32 %r64, %r60;";
    for _ in 0..2 {
        copies(&mut line);
        line(if handover == Handover::Mbarriers { format!("{full} {next}") } else { "cp.async.commit_group;".into() });
    }
    for element in 0..128 {
        line(format!("mov.f32 %a{element}, 0f00000000;"));
    }
    line("round:".into());
    match handover {
        Handover::Barrier => line("cp.async.wait_group 1; bar.sync 0;".into()),
        Handover::Lax => line("cp.async.wait_group 2; bar.sync 0;".into()),
        Handover::Mbarriers => {
            // The stage to be filled was read in the round before; in the first one it's free.
            line("free: mbarrier.test_wait.parity.shared.b64 %p4, [%r64+24], %r63; @!%p4 bra free;".into());
        }
    }
    copies(&mut line);
    match handover {
        Handover::Mbarriers => {
            line(format!("{full} {next} @%p3 bra skip;"));
            line("bra skipped; skip: skipped:".into());
            // The parity of the free barriers changes when stage 2 has been filled.
            line("@%p3 xor.b32 %r63, %r63, 1;".into());
            line("full: mbarrier.test_wait.parity.shared.b64 %p4, [%r65], %r62; @!%p4 bra full;".into());
        }
        _ => line("cp.async.commit_group;".into()),
    }
    line("shl.b32 %r30, %r9, 5; add.u32 %r30, %r30, %r5; add.u32 %r30, %r30, %r22;".into());
    line("shl.b32 %r31, %r8, 6; add.u32 %r31, %r31, %r5; add.u32 %r31, %r31, %r22;".into());
    let mut next_value = 0;
    let mut value = |count: usize| {
        next_value += count;
        next_value - count
    };
    let mut sums: Vec<String> = (0..128).map(|element| format!("%a{element}")).collect();
    for step in 0..16 {
        let (a, b) = (value(8), value(16));
        let vector = |first: usize| format!("{{%f{first}, %f{}, %f{}, %f{}}}", first + 1, first + 2, first + 3);
        for part in 0..2 {
            line(format!("ld.shared.v4.f32 {}, [%r30+{}];", vector(a + part * 4), step * 512 + part * 16));
        }
        for part in 0..4 {
            line(format!("ld.shared.v4.f32 {}, [%r31+{}];", vector(b + part * 4), 8192 + step * 1024 + part * 16));
        }
        for row in 0..8 {
            for column in 0..16 {
                let sum = &mut sums[row * 16 + column];
                let result = format!("%f{}", value(1));
                line(format!("fma.rn.f32 {result}, %f{}, %f{}, {sum};", a + row, b + column));
                *sum = result;
            }
        }
    }
    for (element, sum) in sums.iter().enumerate() {
        line(format!("mov.f32 %a{element}, {sum};"));
    }
    if handover == Handover::Mbarriers {
        line("bar.warp.sync -1; @%p5 mbarrier.arrive.shared.b64 _, [%r65+24];".into());
        line("add.u32 %r65, %r65, 8; add.u32 %r66, %r60, 24; setp.eq.u32 %p3, %r65, %r66;".into());
        line("@%p3 mov.u32 %r65, %r60; @%p3 xor.b32 %r62, %r62, 1;".into());
    }
    line(format!("add.u32 %r22, %r22, {STAGE}; setp.eq.u32 %p2, %r22, {}; @%p2 mov.u32 %r22, 0;", 3 * STAGE));
    line("add.u32 %r23, %r23, 1; setp.lt.u32 %p2, %r23, %r19; @%p2 bra round;".into());
    line("cp.async.wait_all;".into());
    line("shl.b32 %r40, %r9, 3; add.u32 %r40, %r40, %r7; shl.b32 %r41, %r8, 4; add.u32 %r41, %r41, %r6;".into());
    line("mad.lo.u32 %r42, %r40, %r2, %r41; mad.wide.u32 %rd10, %r42, 4, %rd3; mul.wide.u32 %rd11, %r2, 4;".into());
    for row in 0..8 {
        for part in 0..4 {
            let sums: Vec<_> = (0..4).map(|column| format!("%a{}", row * 16 + part * 4 + column)).collect();
            line(format!("st.global.v4.f32 [%rd10+{}], {{{}}};", part * 16, sums.join(", ")));
        }
        line("add.u64 %rd10, %rd10, %rd11;".into());
    }
    module_text(&(text + "ret;\n}"))
}

struct Problem {
    machine: Machine,
    call: Vec<u8>,
    c: ptx_simulator::DevicePointer,
    want: Vec<f32>,
}

const CONFIG: LaunchConfig =
    LaunchConfig { grid: [(N / 256) as u32, (M / 128) as u32, 1], block: [256, 1, 1], dynamic_shared_bytes: 3 * STAGE };

fn problem() -> Problem {
    let mut machine = Machine::with_threads(1);
    let number = |index: usize| ((index * 7919 + 13) % 17) as f32 - 8.0;
    let a: Vec<f32> = (0..M * K).map(number).collect();
    let b: Vec<f32> = (0..K * N).map(|index| number(index + 5)).collect();
    let mut want = vec![0.0; M * N];
    for (index, sum) in want.iter_mut().enumerate() {
        *sum = (0..K).map(|k| a[index / N * K + k] * b[k * N + index % N]).sum();
    }
    let [a, b, c] = [machine.upload(&a), machine.upload(&b), machine.upload(&vec![0f32; M * N])];
    let mut call: Vec<u8> = [a, b, c].iter().flat_map(|pointer| pointer.0.to_le_bytes()).collect();
    call.extend([M as u32, N as u32, K as u32, 0].iter().flat_map(|size| size.to_le_bytes()));
    Problem { machine, call, c, want }
}

fn timed<T>(what: &str, limit: Duration, job: impl FnOnce() -> T) -> T {
    let start = Instant::now();
    let result = job();
    let taken = start.elapsed();
    println!("{what}: {taken:?}");
    // The machine may be busy with other tests.
    assert!(taken < limit, "{what} takes {taken:?}");
    result
}

fn loaded(handover: Handover) -> Module {
    let text = kernel(handover);
    timed("decoding", Duration::from_secs(4), || load(&text))
}

#[test]
fn a_product_of_production_size_is_right_clean_and_quick() {
    for handover in [Handover::Barrier, Handover::Mbarriers] {
        let module = loaded(handover);
        let Problem { mut machine, call, c, want } = problem();
        let arguments = [Argument::Bytes(&call)];
        timed("running", Duration::from_secs(4), || {
            machine.device.launch(&module, "product", CONFIG, &arguments).unwrap();
        });
        assert_eq!(machine.download::<f32>(c, M * N), want);

        let mut hazards = Hazards::new(&module, "product", &CONFIG);
        timed("checking", Duration::from_secs(20), || {
            machine.device.launch_observed(&module, "product", CONFIG, &arguments, &mut hazards).unwrap();
        });
        assert_eq!(hazards.findings(), []);
        assert_eq!(machine.download::<f32>(c, M * N), want);
    }
}

#[test]
fn a_lax_wait_gives_a_wrong_product_and_is_found() {
    let module = loaded(Handover::Lax);
    let Problem { mut machine, call, c, want } = problem();
    let arguments = [Argument::Bytes(&call)];
    machine.device.launch(&module, "product", CONFIG, &arguments).unwrap();
    assert_ne!(machine.download::<f32>(c, M * N), want);
    let mut hazards = Hazards::new(&module, "product", &CONFIG);
    machine.device.launch_observed(&module, "product", CONFIG, &arguments, &mut hazards).unwrap();
    let findings = hazards.findings();
    assert!(!findings.is_empty());
    assert!(findings.iter().all(|finding| finding.kind == FindingKind::ReadAfterWrite), "{findings:#?}");
    // Dynamic shared memory has its name, and begins after the static array.
    let touched = findings[0].touched.as_ref().unwrap();
    assert_eq!((touched.array.as_deref(), touched.start, touched.length), (Some("stages"), Some(128), Some(73_728)));
}

#[test]
fn what_its_copies_cost_is_counted() {
    let module = loaded(Handover::Barrier);
    let Problem { mut machine, call, .. } = problem();
    let mut costs = Costs::new(&module, "product");
    machine.device.launch_observed(&module, "product", CONFIG, &[Argument::Bytes(&call)], &mut costs).unwrap();
    let total = costs.total();
    // 4 blocks of 8 warps, 4 rounds, 8 copies of words and 4 of vectors each.
    let rounds = 4 * 8 * 4;
    assert_eq!(total.global_copies.requests, rounds * 12);
    assert_eq!(total.shared_copies.requests, rounds * 12);
    // A warp's words are two rows of A, 64 bytes each; its vectors half a row of B.
    assert_eq!(total.global_copies.units, rounds * (8 * 4 + 4 * 16));
    assert_eq!(total.global_copies.bytes, rounds * 32 * (8 * 4 + 4 * 16));
    assert_eq!(total.shared_copies.bytes, total.global_copies.bytes);
    // Two rows of A become 16 columns of the stage each, two banks with 16 words each, from the same 16 banks of L1.
    assert_eq!(total.shared_copies.units, rounds * (8 * 17 + 4 * 4));
    assert_eq!(total.thread_fma, (M * N * K) as u64);
    assert_eq!((total.global_loads.requests, total.shared_stores.requests), (0, 0));
}
