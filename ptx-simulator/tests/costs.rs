//! What a launch costs: wavefronts and sectors as the hardware counts them, instructions, multiply-adds, barriers.

mod support;

use ptx_simulator::observe::costs::{Costs, Counts, InstructionCosts, Traffic, banks, copies, sectors};
use ptx_simulator::observe::{Access, AsyncCopy, SourceSize};
use ptx_simulator::{AccessKind, MemorySpace};
use support::{Argument, LaunchConfig, Machine, kernel_with_body, load, module_text};

// ---- against the hardware -------------------------------------------------------------------------------------------

/// An access of one warp and what the hardware counted for it.
struct Measured {
    kind: AccessKind,
    bytes: u32,
    count: u32,
    lanes: u32,
    addresses: [u64; 32],
}

impl Measured {
    fn access(&self, space: MemorySpace) -> Access<'_> {
        Access {
            space,
            kind: self.kind,
            lanes: self.lanes,
            addresses: &self.addresses,
            bytes: self.bytes,
            stored: None,
        }
    }
}

fn measured(text: &str) -> Vec<Measured> {
    text.lines()
        .filter(|line| !line.starts_with('#'))
        .map(|line| {
            let mut words = line.split(' ');
            let mut word = || words.next().expect("a line of 35 words");
            let kind = match word() {
                "load" => AccessKind::Read,
                "store" => AccessKind::Write,
                "atomic" => AccessKind::Atomic,
                other => panic!("`{other}` is no kind of access"),
            };
            let bytes: u32 = word().parse().unwrap();
            let count = word().parse().unwrap();
            let (mut lanes, mut addresses) = (0, [u64::MAX; 32]);
            for (lane, address) in addresses.iter_mut().enumerate() {
                if let Ok(element) = word().parse::<u64>() {
                    lanes |= 1 << lane;
                    *address = element * u64::from(bytes);
                }
            }
            Measured { kind, bytes, count, lanes, addresses }
        })
        .collect()
}

#[test]
fn wavefronts_equal_the_hardwares_for_every_measured_pattern() {
    let patterns = measured(include_str!("costs/wavefronts.txt"));
    assert_eq!(patterns.len(), 1653);
    for (number, pattern) in patterns.iter().enumerate() {
        let found = banks::wavefronts(&pattern.access(MemorySpace::Shared));
        assert_eq!(found, pattern.count, "line {} of wavefronts.txt", number + 5);
    }
}

#[test]
fn sectors_equal_the_hardwares_for_every_measured_pattern() {
    let patterns = measured(include_str!("costs/sectors.txt"));
    assert_eq!(patterns.len(), 625);
    for (number, pattern) in patterns.iter().enumerate() {
        let found = sectors::sectors(&pattern.access(MemorySpace::Global));
        assert_eq!(found, pattern.count, "line {} of sectors.txt", number + 6);
    }
}

#[test]
fn nothing_takes_less_than_the_ideal() {
    for pattern in measured(include_str!("costs/wavefronts.txt")) {
        let access = pattern.access(MemorySpace::Shared);
        let ideal = banks::ideal(&access);
        assert!(ideal <= pattern.count, "{access:?}: {ideal} > {}", pattern.count);
        assert_eq!(ideal == 0, access.lanes == 0);
    }
    for pattern in measured(include_str!("costs/sectors.txt")) {
        let access = pattern.access(MemorySpace::Global);
        let ideal = sectors::ideal(&access);
        assert!(ideal <= pattern.count, "{access:?}: {ideal} > {}", pattern.count);
        assert_eq!(ideal == 0, access.lanes == 0);
    }
}

/// A copy of one warp and what the hardware counted for it: wavefronts and sectors.
struct MeasuredCopy {
    form: &'static str,
    counts: [u32; 2],
    lanes: u32,
    readable: u32,
    destinations: [u64; 32],
    sources: [u64; 32],
    sizes: [u8; 32],
}

impl MeasuredCopy {
    fn copy(&self) -> AsyncCopy<'_> {
        AsyncCopy {
            lanes: self.lanes,
            sources: &self.sources,
            source_bytes: &self.sizes,
            readable: self.readable,
            destinations: &self.destinations,
            bytes: self.form[2..].trim_end_matches('z').parse().unwrap(),
            bypasses_l1: self.form.starts_with("cg"),
            size: if self.form.ends_with('z') { SourceSize::Number } else { SourceSize::Whole },
        }
    }
}

fn measured_copies() -> Vec<MeasuredCopy> {
    let lines = include_str!("costs/copies.txt").lines().filter(|line| !line.starts_with('#'));
    lines
        .map(|line| {
            let mut words = line.split(' ');
            let form = words.next().unwrap();
            let width: u64 = form[2..].trim_end_matches('z').parse().unwrap();
            let counts = [(); 2].map(|()| words.next().unwrap().parse().unwrap());
            let (destinations, sources, sizes) = ([0; 32], [0; 32], [0; 32]);
            let mut copy = MeasuredCopy { form, counts, lanes: 0, readable: 0, destinations, sources, sizes };
            for (lane, word) in words.enumerate().filter(|(_, word)| *word != "-") {
                let numbers: Vec<u64> = word.split(':').map(|number| number.parse().unwrap()).collect();
                copy.lanes |= 1 << lane;
                copy.readable |= u32::from(numbers[2] > 0) << lane;
                copy.destinations[lane] = numbers[0] * width;
                copy.sources[lane] = numbers[1] * width;
                copy.sizes[lane] = numbers[2] as u8;
            }
            copy
        })
        .collect()
}

#[test]
fn copies_cost_what_they_cost_the_hardware_where_the_rules_are_known() {
    let patterns = measured_copies();
    assert_eq!(patterns.len(), 308);
    // By way and by whether there's a source size: right ones, all, and the largest difference.
    let mut wavefronts = std::collections::BTreeMap::new();
    for (number, pattern) in patterns.iter().enumerate() {
        let copy = pattern.copy();
        let line = number + 6;
        assert_eq!(copies::sectors(&copy), pattern.counts[1], "line {line} of copies.txt");
        let difference = copies::wavefronts(&copy).abs_diff(pattern.counts[0]);
        let known: &mut (u32, u32, u32) = wavefronts.entry((copy.bypasses_l1, copy.size)).or_default();
        known.0 += u32::from(difference == 0);
        known.1 += 1;
        known.2 = known.2.max(difference);
        assert!(copies::ideal_wavefronts(&copy) <= pattern.counts[0], "line {line} of copies.txt");
    }
    let wavefronts: Vec<_> = wavefronts.into_iter().collect();
    assert_eq!(
        wavefronts,
        [
            ((false, SourceSize::Whole), (201, 201, 0)),
            ((false, SourceSize::Number), (23, 30, 3)),
            ((true, SourceSize::Whole), (55, 67, 16)),
            ((true, SourceSize::Number), (7, 10, 5)),
        ]
    );
}

// ---- the ideal ------------------------------------------------------------------------------------------------------

/// Wavefronts and the fewest possible of an access of a warp whose lane `i` is at `address(i)`.
fn bank_costs(kind: AccessKind, bytes: u32, lanes: u32, address: impl Fn(u64) -> u64) -> (u32, u32) {
    let addresses: [u64; 32] = std::array::from_fn(|lane| address(lane as u64));
    let access = Access { space: MemorySpace::Shared, kind, lanes, addresses: &addresses, bytes, stored: None };
    (banks::wavefronts(&access), banks::ideal(&access))
}

/// Sectors and the fewest possible, likewise.
fn sector_costs(kind: AccessKind, bytes: u32, lanes: u32, address: impl Fn(u64) -> u64) -> (u32, u32) {
    let addresses: [u64; 32] = std::array::from_fn(|lane| address(lane as u64));
    let access = Access { space: MemorySpace::Global, kind, lanes, addresses: &addresses, bytes, stored: None };
    (sectors::sectors(&access), sectors::ideal(&access))
}

const ALL: u32 = u32::MAX;
use AccessKind::{Atomic, Read, Write};

#[test]
fn a_column_of_words_conflicts_in_one_bank_and_padding_or_swizzling_cures_it() {
    assert_eq!(bank_costs(Read, 4, ALL, |lane| lane * 128), (32, 1));
    assert_eq!(bank_costs(Read, 4, ALL, |lane| lane * 132), (1, 1));
    assert_eq!(bank_costs(Read, 4, ALL, |lane| lane * 128 + (lane ^ 5) * 4), (1, 1));
    assert_eq!(bank_costs(Write, 4, 0xffff, |lane| lane * 128), (16, 1));
}

#[test]
fn words_that_lanes_share_are_broadcast() {
    assert_eq!(bank_costs(Read, 4, ALL, |_| 12), (1, 1));
    assert_eq!(bank_costs(Read, 4, ALL, |lane| lane / 16 * 64), (1, 1));
    assert_eq!(bank_costs(Read, 1, ALL, |lane| lane), (1, 1));
    assert_eq!(bank_costs(Read, 2, ALL, |lane| lane * 64), (16, 1));
}

#[test]
fn wide_rows_have_no_conflict_though_they_take_several_wavefronts() {
    assert_eq!(bank_costs(Read, 8, ALL, |lane| lane * 8), (2, 2));
    assert_eq!(bank_costs(Read, 16, ALL, |lane| lane * 16), (4, 4));
    assert_eq!(bank_costs(Write, 16, ALL, |lane| lane * 16), (4, 4));
    assert_eq!(bank_costs(Read, 16, 0xff, |lane| lane * 16), (1, 1));
    assert_eq!(bank_costs(Read, 16, ALL, |lane| lane * 128), (32, 4));
}

#[test]
fn wide_loads_of_pairs_are_joined_and_stores_are_not() {
    // Two rows of a tile, each broadcast to half of the warp.
    assert_eq!(bank_costs(Read, 16, ALL, |lane| lane / 16 * 64), (2, 2));
    assert_eq!(bank_costs(Write, 16, ALL, |lane| lane / 16 * 64), (4, 4));
    assert_eq!(bank_costs(Read, 8, ALL, |lane| lane / 2 * 8), (1, 1));
    assert_eq!(bank_costs(Read, 8, ALL, |lane| lane % 16 * 8), (2, 1));
    // Sixteen addresses are no more than there are pairs, but in this order they aren't in pairs.
    assert_eq!(bank_costs(Read, 16, ALL, |lane| lane % 16 * 16), (4, 2));
}

#[test]
fn sectors_beyond_the_bytes_asked_for_are_what_is_wasted() {
    assert_eq!(sector_costs(Read, 4, ALL, |lane| lane * 4), (4, 4));
    assert_eq!(sector_costs(Read, 4, ALL, |lane| lane * 4 + 4), (5, 4));
    assert_eq!(sector_costs(Read, 4, ALL, |lane| lane * 4096), (32, 4));
    assert_eq!(sector_costs(Read, 4, ALL, |_| 400), (1, 1));
    assert_eq!(sector_costs(Read, 16, ALL, |lane| lane * 16), (16, 16));
    assert_eq!(sector_costs(Read, 1, 0x1_0001, |lane| lane), (1, 1));
    assert_eq!(sector_costs(Read, 1, 0x1_0001, |lane| lane * 2), (2, 1));
}

#[test]
fn atomics_on_one_word_wait_for_each_other_which_is_no_bank_conflict() {
    assert_eq!(bank_costs(Atomic, 4, ALL, |lane| lane * 4), (1, 1));
    assert_eq!(bank_costs(Atomic, 4, ALL, |_| 12), (32, 32));
    assert_eq!(bank_costs(Atomic, 4, ALL, |lane| lane / 2 * 4), (2, 2));
    assert_eq!(bank_costs(Atomic, 4, ALL, |lane| lane * 128), (32, 1));
    assert_eq!(bank_costs(Atomic, 4, ALL, |lane| lane % 2 * 128), (32, 16));
    assert_eq!(bank_costs(Atomic, 8, ALL, |lane| lane * 8), (4, 4));
    assert_eq!(bank_costs(Atomic, 8, ALL, |_| 8), (64, 64));
    assert_eq!(bank_costs(Atomic, 8, 0xff, |lane| lane * 128), (16, 2));
}

#[test]
fn atomics_send_a_sector_again_for_lanes_with_one_address() {
    assert_eq!(sector_costs(Atomic, 4, ALL, |lane| lane * 4), (4, 4));
    assert_eq!(sector_costs(Atomic, 4, ALL, |_| 400), (32, 32));
    assert_eq!(sector_costs(Atomic, 4, ALL, |lane| lane % 2 * 4), (16, 16));
    assert_eq!(sector_costs(Atomic, 4, ALL, |lane| lane % 2 * 128), (32, 16));
    assert_eq!(sector_costs(Atomic, 4, ALL, |lane| lane * 4096), (32, 4));
    assert_eq!(sector_costs(Atomic, 8, ALL, |lane| lane / 2 * 8), (8, 8));
}

// ---- kernels --------------------------------------------------------------------------------------------------------

/// The costs of a kernel of one block whose body is `body`, with three buffers of 64 KiB.
fn costs_of(declarations: &str, body: &str, threads: u32) -> Costs {
    let module = load(&kernel_with_body(declarations, body));
    let mut costs = Costs::new(&module, "test");
    launch(&module, threads, &mut costs);
    costs
}

fn launch(module: &ptx_simulator::Module, threads: u32, costs: &mut Costs) {
    let mut machine = Machine::with_threads(2);
    let arguments: Vec<Argument> = (0..3).map(|_| Argument::Pointer(machine.upload(&[0u32; 1 << 14]))).collect();
    let config = LaunchConfig { grid: [1, 1, 1], block: [threads, 1, 1], dynamic_shared_bytes: 0 };
    machine.device.launch_observed(module, "test", config, &arguments, costs).expect("the kernel should run");
}

/// The counts of the one instruction with that mnemonic.
fn only(costs: &Costs, mnemonic: &str) -> Counts {
    let found: Vec<InstructionCosts> = costs.instructions().into_iter().filter(|at| at.mnemonic == mnemonic).collect();
    assert_eq!(found.len(), 1, "one `{mnemonic}` in {:?}", costs.instructions());
    found[0].counts
}

fn traffic(requests: u64, units: u64, ideal: u64, bytes: u64) -> Traffic {
    Traffic { requests, units, ideal, bytes }
}

const TILE: &str = ".shared .align 16 .b8 tile[8192];";

#[test]
fn shared_and_global_traffic_is_counted_apart_by_direction() {
    let costs = costs_of(
        TILE,
        "mov.u32 %r1, %tid.x;
        mul.wide.u32 %rd1, %r1, 4;
        add.u64 %rd2, %in0, %rd1;
        ld.global.f32 %f1, [%rd2];
        mov.u32 %r2, tile;
        mad.lo.u32 %r3, %r1, 128, %r2;
        st.shared.f32 [%r3], %f1;
        bar.sync 0;
        mad.lo.u32 %r4, %r1, 4, %r2;
        ld.shared.f32 %f2, [%r4];
        mul.wide.u32 %rd3, %r1, 64;
        add.u64 %rd4, %out, %rd3;
        st.global.f32 [%rd4], %f2;",
        64,
    );
    let total = costs.total();
    assert_eq!(total.global_loads, traffic(2, 8, 8, 256));
    assert_eq!(total.shared_stores, traffic(2, 64, 2, 256));
    assert_eq!(total.shared_loads, traffic(2, 2, 2, 256));
    assert_eq!(total.global_stores, traffic(2, 64, 8, 256));
    assert_eq!((total.shared_atomics, total.global_atomics), (Traffic::default(), Traffic::default()));
    assert_eq!(total.barriers, 2);
    assert_eq!(only(&costs, "st.shared.f32").shared_stores, total.shared_stores);
    assert_eq!(only(&costs, "st.shared.f32").shared_loads, Traffic::default());
}

#[test]
fn a_vector_access_is_one_request_of_its_whole_width() {
    let costs = costs_of(
        TILE,
        "mov.u32 %r1, %tid.x;
        mov.u32 %r2, tile;
        mad.lo.u32 %r2, %r1, 16, %r2;
        ld.shared.v4.f32 {%f0, %f1, %f2, %f3}, [%r2];
        mul.wide.u32 %rd1, %r1, 8;
        add.u64 %rd2, %out, %rd1;
        st.global.v2.f32 [%rd2], {%f0, %f1};",
        32,
    );
    assert_eq!(costs.total().shared_loads, traffic(1, 4, 4, 512));
    assert_eq!(costs.total().global_stores, traffic(1, 8, 8, 256));
}

#[test]
fn an_asynchronous_store_counts_as_a_store_to_shared_memory() {
    // Words of a column, and vectors side by side.
    let body = "mov.u32 %r1, %tid.x; mov.u32 %r2, tile; mov.u32 %r3, full; setp.eq.u32 %p1, %r1, 0;
        @%p1 mbarrier.init.shared.b64 [full], 1; bar.sync 0;
        mad.lo.u32 %r4, %r1, 128, %r2; mad.lo.u32 %r5, %r1, 16, %r2; mov.f32 %f1, 0f3f800000;
        st.async.shared::cluster.mbarrier::complete_tx::bytes.f32 [%r4], %f1, [%r3];
        st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v4.f32 [%r5], {%f1, %f1, %f1, %f1}, [%r3];";
    let text = kernel_with_body(&format!("{TILE} .shared .align 8 .b64 full;"), body);
    let module = load(&text.replace("input1)\n{", "input1) .reqnctapercluster 2\n{"));
    let mut machine = Machine::with_threads(2);
    let arguments: Vec<Argument> = (0..3).map(|_| Argument::Pointer(machine.upload(&[0u32; 64]))).collect();
    let config = LaunchConfig { grid: [2, 1, 1], block: [32, 1, 1], dynamic_shared_bytes: 0 };
    let mut costs = Costs::new(&module, "test");
    machine.device.launch_observed(&module, "test", config, &arguments, &mut costs).expect("the kernel should run");
    let stores = |form: &str| only(&costs, &format!("st.async.{form}")).shared_stores;
    assert_eq!(stores("shared::cluster.mbarrier::complete_tx::bytes.f32"), traffic(2, 64, 2, 256));
    assert_eq!(stores("weak.shared::cluster.mbarrier::complete_tx::bytes.v4.f32"), traffic(2, 8, 8, 1024));
    assert_eq!(costs.total().shared_copies, Traffic::default());
}

#[test]
fn generic_addresses_count_where_they_lead() {
    let costs = costs_of(
        TILE,
        "mov.u64 %rd1, tile;
        cvta.shared.u64 %rd2, %rd1;
        st.u32 [%rd2], 7;
        ld.u32 %r1, [%in0];
        st.u32 [%out], %r1;",
        32,
    );
    let total = costs.total();
    assert_eq!(total.shared_stores, traffic(1, 1, 1, 128));
    assert_eq!(total.global_loads, traffic(1, 1, 1, 128));
    assert_eq!(total.global_stores, traffic(1, 1, 1, 128));
}

#[test]
fn parameters_local_memory_and_constants_are_neither_shared_nor_global() {
    let costs = costs_of(
        ".const .align 4 .u32 table[2] = {3, 4};",
        ".local .align 4 .b8 mine[16];
        ld.const.u32 %r1, [table];
        mov.u64 %rd1, table;
        cvta.const.u64 %rd2, %rd1;
        ld.u32 %r2, [%rd2+4];
        st.local.u32 [mine], %r1;
        ld.local.u32 %r3, [mine];",
        32,
    );
    let total = costs.total();
    for traffic in [total.shared_loads, total.shared_stores, total.global_loads, total.global_stores] {
        assert_eq!(traffic, Traffic::default());
    }
}

#[test]
fn atomics_are_counted_apart() {
    let costs = costs_of(
        TILE,
        "mov.u32 %r1, %tid.x;
        mul.wide.u32 %rd1, %r1, 4;
        add.u64 %rd2, %out, %rd1;
        atom.global.add.u32 %r2, [%rd2], 1;
        red.global.add.u32 [%rd2], 1;
        red.shared.add.u32 [tile], 1;",
        32,
    );
    let total = costs.total();
    assert_eq!(total.global_atomics, traffic(2, 8, 8, 256));
    assert_eq!(total.shared_atomics, traffic(1, 32, 32, 128));
    assert_eq!((total.global_loads, total.global_stores), (Traffic::default(), Traffic::default()));
}

#[test]
fn lanes_that_a_guard_holds_back_cost_nothing() {
    let costs = costs_of(
        "",
        "mov.u32 %r1, %tid.x;
        setp.lt.u32 %p1, %r1, 40;
        mul.wide.u32 %rd1, %r1, 4;
        add.u64 %rd2, %out, %rd1;
        @%p1 st.global.u32 [%rd2], %r1;
        @%p1 fma.rn.f32 %f1, %f1, %f1, %f1;
        setp.gt.u32 %p2, %r1, 1000;
        @%p2 ld.global.u32 %r2, [%rd2];",
        96,
    );
    let store = only(&costs, "st.global.u32");
    assert_eq!((store.warp_instructions, store.thread_instructions), (2, 40));
    assert_eq!(store.global_stores, traffic(2, 5, 5, 160));
    let fma = only(&costs, "fma.rn.f32");
    assert_eq!((fma.warp_fma, fma.thread_fma), (2, 40));
    assert!(!costs.instructions().iter().any(|at| at.mnemonic == "ld.global.u32"), "no lane executed it");
}

#[test]
fn fused_multiply_adds_of_f32_are_counted_and_no_other() {
    let costs = costs_of(
        "",
        "fma.rn.f32 %f1, %f1, %f1, %f1;
        fma.rn.ftz.f32 %f1, %f1, %f1, %f1;
        mad.rn.f32 %f1, %f1, %f1, %f1;
        fma.rn.f64 %d1, %d1, %d1, %d1;
        mul.rn.f32 %f2, %f1, %f1;
        add.rn.f32 %f2, %f2, %f1;
        mad.lo.u32 %r1, %r1, %r1, %r1;",
        33,
    );
    let total = costs.total();
    assert_eq!((total.warp_fma, total.thread_fma), (6, 99));
}

#[test]
fn matrix_products_count_once_for_each_warp_with_all_their_multiply_adds() {
    let costs = costs_of(
        "",
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%r4, %r5, %r6, %r7}, {%r4, %r5, %r6, %r7}, {%r8, %r9},
            {%r4, %r5, %r6, %r7};
        mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%r4, %r5, %r6, %r7}, {%r4, %r5, %r6, %r7}, {%r8, %r9},
            {%r4, %r5, %r6, %r7};",
        64,
    );
    let total = costs.total();
    assert_eq!((total.warp_mma, total.mma_multiply_adds), (4, 2 * (16 * 8 * 16 + 16 * 8 * 8)));
    assert_eq!(total.warp_fma, 0);
}

#[test]
fn matrices_cost_a_wavefront_each_and_more_where_their_rows_meet_in_banks() {
    // (bytes from one row to the next, wavefronts of four matrices)
    for (stride, wavefronts) in [(16, 4), (128, 32), (144, 4), (64, 16), (80, 4), (32, 8), (0, 4)] {
        let costs = costs_of(
            TILE,
            &format!(
                "mov.u32 %r1, %tid.x; mov.u32 %r2, tile; mad.lo.u32 %r2, %r1, {stride}, %r2;
                ldmatrix.sync.aligned.m8n8.x4.shared.b16 {{%r4, %r5, %r6, %r7}}, [%r2];
                stmatrix.sync.aligned.m8n8.x2.trans.shared.b16 [%r2], {{%r4, %r5}};"
            ),
            32,
        );
        let counts = only(&costs, "ldmatrix.sync.aligned.m8n8.x4.shared.b16");
        assert_eq!(counts.shared_loads, traffic(1, wavefronts, 4, 512), "{stride} bytes apart");
        let counts = only(&costs, "stmatrix.sync.aligned.m8n8.x2.trans.shared.b16");
        assert_eq!(counts.shared_stores, traffic(1, wavefronts / 2, 2, 256), "{stride} bytes apart");
    }
}

/// What one copy of 16 bytes a lane takes, past L1, to where the source lies in its line plus `shift` bytes. `size` defines
/// the source size, `%r4`, or whether the source is ignored, `%p4`; `operand` is one of the two. `%p1` is true for the first
/// half of the warp, `%p2` for all of it, and `%r5` is 16.
fn copy_past_l1(shift: u32, size: &str, operand: &str) -> Counts {
    let costs = costs_of(
        TILE,
        &format!(
            "mov.u32 %r1, %tid.x;
            setp.lt.u32 %p1, %r1, 16;
            setp.lt.u32 %p2, %r1, 32;
            mul.lo.u32 %r2, %r1, 16;
            mov.u32 %r3, tile;
            add.u32 %r3, %r3, %r2;
            cvt.u64.u32 %rd1, %r2;
            add.u64 %rd1, %in0, %rd1;
            add.u32 %r5, %r1, 16;
            sub.u32 %r5, %r5, %r1;
            {size}
            cp.async.cg.shared.global [%r3 + {shift}], [%rd1], 16{operand};
            cp.async.wait_all;"
        ),
        32,
    );
    costs.total()
}

#[test]
fn a_copy_that_reads_all_or_nothing_takes_its_transfers_or_a_store_of_zeros() {
    let takes = |shift, size, operand| copy_past_l1(shift, size, operand).shared_copies.units;
    // As an H200 counts for the copies of async_copies and tensor_cores: 4 where 512 bytes lie side by side.
    for (all, nothing, half) in [
        ("selp.b32 %r4, 16, 0, %p2;", "selp.b32 %r4, 0, 16, %p2;", "selp.b32 %r4, 16, 0, %p1;"),
        // Through other registers.
        (
            "selp.u32 %r6, 16, 0, %p2; mov.b32 %r4, %r6;",
            "selp.s32 %r6, 0, 16, %p2; mov.u32 %r4, %r6;",
            "selp.b32 %r6, 0, 16, %p1; mov.u32 %r7, %r6; mov.u32 %r4, %r7;",
        ),
        // As several predicates say.
        (
            "selp.b32 %r6, 16, 0, %p2; selp.b32 %r4, %r6, 0, %p2;",
            "selp.b32 %r6, 16, 0, %p2; selp.b32 %r4, 0, %r6, %p2;",
            "selp.b32 %r6, 16, 0, %p2; selp.b32 %r4, %r6, 0, %p1;",
        ),
    ] {
        assert_eq!([all, nothing, half].map(|size| takes(0, size, ", %r4")), [4, 4, 2 + 2]);
        // Rows that begin 16 bytes further in shared memory's lines than in global memory's.
        assert_eq!([all, nothing].map(|size| takes(16, size, ", %r4")), [takes(16, "", ""), 4]);
    }
    assert_eq!(["not.pred %p4, %p2;", "mov.pred %p4, %p2;"].map(|ignored| takes(0, ignored, ", %p4")), [4, 4]);
    assert_eq!((takes(0, "", ""), takes(0, "", ", 16")), (4, 4));
}

#[test]
fn a_copy_of_any_number_of_bytes_takes_its_transfers_and_a_store_of_zeros() {
    for size in [
        "mov.u32 %r4, %r5;",
        "min.u32 %r4, %r5, 16;",
        // Not all of the bytes, and not from constants.
        "selp.b32 %r4, 8, 0, %p2;",
        "selp.b32 %r4, %r5, 0, %p2;",
        // Of several definitions nothing is known, nor of one that doesn't always happen.
        "mov.u32 %r4, 0; selp.b32 %r4, 16, 0, %p2;",
        "@%p2 selp.b32 %r4, 16, 0, %p2;",
    ] {
        assert_eq!(copy_past_l1(0, size, ", %r4").shared_copies.units, 4 + 4, "{size}");
    }
}

#[test]
fn barriers_count_once_for_each_warp_that_arrives() {
    let costs = costs_of(
        "",
        "bar.sync 0;
        barrier.sync 1, 96;
        bar.warp.sync -1;
        bar.arrive 2, 96;",
        96,
    );
    assert_eq!(costs.total().barriers, 9);
    assert_eq!(only(&costs, "bar.warp.sync").barriers, 0);
}

#[test]
fn loops_and_branches_count_what_each_warp_executes() {
    let costs = costs_of(
        "",
        "mov.u32 %r1, %tid.x;
        mov.u32 %r2, 0;
        again:
        add.u32 %r2, %r2, 1;
        setp.lt.u32 %p1, %r2, 5;
        @%p1 bra again;
        setp.ge.u32 %p2, %r1, 16;
        @%p2 bra end;
        xor.b32 %r3, %r1, 1;
        end:",
        32,
    );
    let add = only(&costs, "add.u32");
    assert_eq!((add.warp_instructions, add.thread_instructions), (5, 160));
    let xor = only(&costs, "xor.b32");
    assert_eq!((xor.warp_instructions, xor.thread_instructions), (1, 16));
}

#[test]
fn lanes_join_where_their_ways_do_though_the_join_stands_first() {
    // As compilers write a guarded load in a loop whose end they put before its head.
    let costs = costs_of(
        TILE,
        "mov.u32 %r1, %tid.x;
        mov.u32 %r2, tile;
        mad.lo.u32 %r2, %r1, 4, %r2;
        mov.u32 %r3, 0;
        setp.ge.u32 %p1, %r1, 10;
        bra.uni head;
        join:
        st.shared.u32 [%r2], %r4;
        bar.sync 0;
        add.u32 %r3, %r3, 1;
        setp.lt.u32 %p2, %r3, 5;
        @%p2 bra head;
        bra.uni end;
        head:
        mov.u32 %r4, 0;
        @%p1 bra join;
        ld.global.u32 %r4, [%in0];
        bra.uni join;
        end:",
        32,
    );
    assert_eq!(costs.total().shared_stores, traffic(5, 5, 5, 640));
    assert_eq!(costs.total().global_loads, traffic(5, 5, 5, 200));
    assert_eq!(costs.total().barriers, 5);
}

#[test]
fn an_instruction_that_the_simulator_takes_in_steps_counts_once() {
    let module = load(&module_text(
        ".func (.param .b64 result) twice(.param .b64 value)
        {
            .reg .b64 %rd<3>;
            ld.param.b64 %rd1, [value];
            add.u64 %rd2, %rd1, %rd1;
            st.param.b64 [result], %rd2;
            ret;
        }
        .visible .entry test(.param .u64 a, .param .u64 b, .param .u64 c)
        {
            .reg .b64 %rd<3>;
            mov.u64 %rd1, 21;
            {
                .param .b64 argument;
                .param .b64 answer;
                st.param.b64 [argument], %rd1;
                call.uni (answer), twice, (argument);
                ld.param.b64 %rd2, [answer];
            }
            ret;
        }",
    ));
    let mut costs = Costs::new(&module, "test");
    launch(&module, 32, &mut costs);
    assert_eq!(only(&costs, "call.uni").warp_instructions, 1);
    // mov, st, call; ld, add, st, ret; ld, ret.
    assert_eq!(costs.total().warp_instructions, 9);
    assert_eq!(costs.total().thread_instructions, 9 * 32);
}

#[test]
fn instructions_come_with_their_lines() {
    let module = load(&module_text(
        ".visible .entry test(.param .u64 a, .param .u64 b, .param .u64 c)
        {
            .reg .b32 %r<3>;
            .loc 1 17 5
            mov.u32 %r1, 1;
            .loc 1 18 9
            add.u32 %r2, %r1, %r1;
            ret;
        }
        .file 1 \"kernel.rs\"",
    ));
    let mut costs = Costs::new(&module, "test");
    launch(&module, 32, &mut costs);
    let add = costs.instructions().into_iter().find(|at| at.mnemonic == "add.u32").expect("the addition ran");
    let source = add.source.expect("the PTX has line directives");
    assert_eq!((source.file.as_str(), source.line, source.column), ("kernel.rs", 18, 9));
    assert_eq!(add.ptx_line, 10);
    assert_eq!(module.mnemonic("test", add.instruction), Some("add.u32"));
    assert_eq!(module.mnemonic("test", 1000), None);
}

#[test]
fn several_launches_add_up() {
    let module = load(&kernel_with_body("", "st.global.u32 [%out], 1;"));
    let mut costs = Costs::new(&module, "test");
    launch(&module, 32, &mut costs);
    let once = costs.total();
    launch(&module, 32, &mut costs);
    let mut twice = once;
    twice += once;
    assert_eq!(costs.total(), twice);
    assert_eq!(twice.global_stores, traffic(2, 2, 2, 256));
}

#[test]
fn a_kernel_that_is_not_there_costs_nothing() {
    let module = load(&kernel_with_body("", "st.global.u32 [%out], 1;"));
    let mut costs = Costs::new(&module, "another");
    launch(&module, 32, &mut costs);
    assert_eq!(costs.total(), Counts::default());
    assert!(costs.instructions().is_empty());
}
