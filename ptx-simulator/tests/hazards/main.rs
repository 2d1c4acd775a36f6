//! What the hazard analysis promises, on small kernels: each mistake is found at its lines, and its right twin is clean.
//!
//! A kernel's body is written with line numbers of its own: `10| st.shared.u32 [%r4], %r0;` is on line 10, what follows
//! without a number is on the line before. Everything in front of the body is on line 1.

mod all_pairs;
mod arrays;
mod barriers;
mod between_blocks;
mod bulk_copies;
mod clusters;
mod copies;
mod faults;
mod matrices;
mod mbarriers;
mod seam;
mod shared_memory;
mod unwritten;
mod warpgroups;

use ptx_simulator::observe::hazards::{Finding, FindingKind, Hazards};
use ptx_simulator::{Argument, DevicePointer, LaunchConfig, LaunchError, Module, Simulator};

/// Words of global memory at `%rd1`.
const WORDS: u64 = 4096;

/// A kernel with these registers:
/// `%r0` thread, `%r1` block, `%r2` 4 x thread, `%r3` address of `tile`, `%r4` the thread's own word there, `%r5` the
/// next thread's, `%r6` that of the thread half a block away; `%rd1` global memory, `%rd2` the thread's own word of it
/// in the block, `%rd3` in the grid; `%p1` thread 0, `%p2` the first warp.
fn kernel(body: &str) -> String {
    kernel_in("1", body)
}

/// The same in clusters of that shape.
fn kernel_in(cluster: &str, body: &str) -> String {
    let mut text = String::from(
        ".version 8.0
        .target sm_80
        .address_size 64
        .file 1 \"kernel.rs\"
        .shared .align 16 .b8 tile[1024];
        .shared .align 16 .b8 other[256];
        .visible .entry k(.param .u64 memory)
        {
            .reg .pred %p<10>;
            .reg .b16 %h<10>;
            .reg .b32 %r<40>;
            .reg .b64 %rd<20>;
            .loc 1 1 1
            mov.u32 %r0, %tid.x;
            mov.u32 %r1, %ctaid.x;
            mov.u32 %r39, %ntid.x;
            shl.b32 %r2, %r0, 2;
            mov.u32 %r3, tile;
            add.u32 %r4, %r3, %r2;
            add.u32 %r38, %r0, 1;
            rem.u32 %r38, %r38, %r39;
            shl.b32 %r38, %r38, 2;
            add.u32 %r5, %r3, %r38;
            shr.u32 %r37, %r39, 1;
            add.u32 %r37, %r37, %r0;
            rem.u32 %r37, %r37, %r39;
            shl.b32 %r37, %r37, 2;
            add.u32 %r6, %r3, %r37;
            ld.param.u64 %rd1, [memory];
            mul.wide.u32 %rd2, %r0, 4;
            add.u64 %rd2, %rd1, %rd2;
            mad.lo.u32 %r36, %r1, %r39, %r0;
            mul.wide.u32 %rd3, %r36, 4;
            add.u64 %rd3, %rd1, %rd3;
            setp.eq.u32 %p1, %r0, 0;
            setp.lt.u32 %p2, %r0, 32;
        ",
    );
    for line in body.lines().map(str::trim) {
        match line.split_once('|') {
            Some((number, rest)) if number.bytes().all(|byte| byte.is_ascii_digit()) => {
                text.push_str(&format!(".loc 1 {number} 5\n{rest}\n"));
            }
            _ => text.push_str(&format!("{line}\n")),
        }
    }
    if cluster != "1" {
        let entry = ".visible .entry k(.param .u64 memory)";
        text = text.replace(entry, &format!("{entry} .reqnctapercluster {cluster}"));
    }
    // Both arrays exist, whatever the body uses.
    text + "mov.u32 %r35, other;\nret;\n}\n"
}

struct Check {
    findings: Vec<Finding>,
    result: Result<(), LaunchError>,
    memory: Vec<u32>,
}

/// Runs a body on all of global memory zero; `unwritten` words of it, from the start, count as unwritten.
fn check_with(body: &str, blocks: u32, threads: u32, unwritten: u64) -> Check {
    check_text(&kernel(body), blocks, threads, unwritten)
}

/// Runs a body in clusters of that shape.
fn check_in(cluster: &str, body: &str, blocks: u32, threads: u32) -> Check {
    check_text(&kernel_in(cluster, body), blocks, threads, 0)
}

fn check_text(text: &str, blocks: u32, threads: u32, unwritten: u64) -> Check {
    let module = Module::parse(text).unwrap_or_else(|error| panic!("{error}"));
    let mut simulator = Simulator::builder().instruction_limit(1 << 20).build();
    let pointer = simulator.allocate(WORDS * 4).unwrap();
    simulator.fill(pointer, 0, WORDS * 4).unwrap();
    let config = LaunchConfig { grid: [blocks, 1, 1], block: [threads, 1, 1], dynamic_shared_bytes: 0 };
    let mut hazards = Hazards::new(&module, "k", &config);
    hazards.unwritten(pointer, unwritten * 4);
    let result = simulator.launch_observed(&module, "k", config, &[Argument::Pointer(pointer)], &mut hazards);
    Check { findings: hazards.findings(), result, memory: words(&simulator, pointer) }
}

fn words(simulator: &Simulator, pointer: DevicePointer) -> Vec<u32> {
    let mut bytes = vec![0; WORDS as usize * 4];
    simulator.read(pointer, &mut bytes).unwrap();
    bytes.chunks_exact(4).map(|word| u32::from_le_bytes(word.try_into().unwrap())).collect()
}

fn check(body: &str, blocks: u32, threads: u32) -> Check {
    check_with(body, blocks, threads, 0)
}

impl Check {
    /// Kind, first line and second line (0 if there is none) of each finding, sorted.
    fn summary(&self) -> Vec<(String, u32, u32)> {
        let line = |incident: &ptx_simulator::observe::hazards::Incident| incident.source.as_ref().unwrap().line;
        let mut all: Vec<_> = self
            .findings
            .iter()
            .map(|finding| {
                let kind = match &finding.kind {
                    FindingKind::Fault(kind) => format!("{kind:?}"),
                    kind => format!("{kind:?}"),
                };
                let kind = kind.split([' ', '(']).next().unwrap().to_owned();
                (kind, line(&finding.first), finding.second.as_ref().map_or(0, line))
            })
            .collect();
        all.sort();
        all
    }

    #[track_caller]
    fn finds(&self, expected: &[(&str, u32, u32)]) -> &Self {
        let mut expected: Vec<_> =
            expected.iter().map(|(kind, first, second)| ((*kind).to_owned(), *first, *second)).collect();
        expected.sort();
        assert_eq!(self.summary(), expected, "{:#?}", self.findings);
        assert_eq!(self.result, Ok(()));
        self
    }

    #[track_caller]
    fn is_clean(&self) -> &Self {
        self.finds(&[])
    }
}
