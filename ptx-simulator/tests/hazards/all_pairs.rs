//! On random kernels, the pairs of lines that are found are exactly those that a comparison of all accesses with all
//! others finds.

use std::collections::{BTreeSet, HashMap};

use proptest::prelude::*;
use ptx_simulator::observe::{Access, Observer, Place};
use ptx_simulator::{AccessKind, MemorySpace};

use super::*;

const THREADS: usize = 96;

/// One access of one thread, and what the thread knew of its block's other threads.
struct Event {
    line: u32,
    block: u64,
    thread: usize,
    space: MemorySpace,
    address: u64,
    bytes: u64,
    kind: AccessKind,
    time: u32,
    known: Vec<u32>,
}

/// Keeps every access with a whole vector of clocks, as the textbook has it.
struct AllPairs<'m> {
    module: &'m Module,
    events: Vec<Event>,
    /// By block: what each thread knows of each.
    known: HashMap<u64, Vec<Vec<u32>>>,
    arrived: HashMap<(u64, u32), Vec<usize>>,
}

impl AllPairs<'_> {
    fn meet(&mut self, block: u64, threads: &[usize]) {
        let known = self.known.get_mut(&block).unwrap();
        let mut all = vec![0; THREADS];
        for thread in threads {
            for (all, known) in all.iter_mut().zip(&known[*thread]) {
                *all = (*all).max(*known);
            }
        }
        for thread in threads {
            known[*thread] = all.clone();
        }
    }

    /// Pairs of lines, the smaller one first.
    fn racing(&self) -> BTreeSet<(u32, u32)> {
        let mut pairs = BTreeSet::new();
        for (index, later) in self.events.iter().enumerate() {
            for earlier in &self.events[..index] {
                let same_block = earlier.block == later.block;
                let same_memory = earlier.space == later.space && (same_block || later.space == MemorySpace::Global);
                let overlap =
                    earlier.address < later.address + later.bytes && later.address < earlier.address + earlier.bytes;
                let writes = earlier.kind != AccessKind::Read || later.kind != AccessKind::Read;
                let atomics = earlier.kind == AccessKind::Atomic && later.kind == AccessKind::Atomic;
                let ordered =
                    same_block && (earlier.thread == later.thread || later.known[earlier.thread] >= earlier.time);
                if same_memory && overlap && writes && !atomics && !ordered {
                    pairs.insert((earlier.line.min(later.line), earlier.line.max(later.line)));
                }
            }
        }
        pairs
    }
}

fn threads(place: Place, lanes: u32) -> impl Iterator<Item = usize> {
    (0..32).filter(move |lane| lanes >> lane & 1 != 0).map(move |lane| (place.warp * 32) as usize + lane)
}

impl Observer for AllPairs<'_> {
    fn block_begins(&mut self, block: u64, _threads: u32) {
        self.known.insert(block, vec![vec![0; THREADS]; THREADS]);
    }

    fn access(&mut self, place: Place, access: Access<'_>) {
        if !matches!(access.space, MemorySpace::Shared | MemorySpace::Global) {
            return;
        }
        let line = self.module.source_location("k", place.instruction).unwrap().line;
        for thread in threads(place, access.lanes) {
            let known = &mut self.known.get_mut(&place.block).unwrap()[thread];
            known[thread] += 1;
            self.events.push(Event {
                line,
                block: place.block,
                thread,
                space: access.space,
                address: access.addresses[thread % 32],
                bytes: access.bytes.into(),
                kind: access.kind,
                time: known[thread],
                known: known.clone(),
            });
        }
    }

    fn barrier_arrives(&mut self, place: Place, barrier: u32, lanes: u32) {
        self.arrived.entry((place.block, barrier)).or_default().extend(threads(place, lanes));
    }

    fn barrier_completes(&mut self, block: u64, barrier: u32) {
        let arrived = self.arrived.remove(&(block, barrier)).unwrap();
        self.meet(block, &arrived);
    }

    fn warp_synchronises(&mut self, place: Place, lanes: u32) {
        let met: Vec<usize> = threads(place, lanes).collect();
        self.meet(place.block, &met);
    }
}

/// A statement of a random kernel: an access of some threads, or a barrier of some.
fn statement(kind: u8, who: u8, place: u8, size: u8) -> String {
    let guard = match who % 6 {
        0 | 1 => "",
        2 => "@%p1 ",
        3 => "@%p2 ",
        4 => "@!%p2 ",
        _ => "@%p5 ",
    };
    let space = if place & 1 == 0 { "shared" } else { "global" };
    let address = match (place / 2 % 5, space) {
        (0, "shared") => "%r4".to_owned(),
        (1, "shared") => "%r5".to_owned(),
        (2, "shared") => "%r6".to_owned(),
        (3, "shared") => format!("{}+{}", "tile", place / 10 % 4 * 2),
        (_, "shared") => "%r10".to_owned(),
        (0, _) => "%rd3".to_owned(),
        (1, _) => "%rd2".to_owned(),
        (2, _) => "%rd2+4".to_owned(),
        (3, _) => format!("%rd1+{}", place / 10 % 4 * 2),
        _ => "%rd4".to_owned(),
    };
    // Addresses may be odd halves of words; only small accesses go there.
    let narrow = address.contains("+2") || address.contains("+6");
    let bytes = if address == "%r10" || address == "%rd4" {
        "u8"
    } else if narrow || size & 1 == 0 {
        "u16"
    } else {
        "u32"
    };
    match kind % 12 {
        0..=3 => format!("{guard}ld.{space}.{bytes} %r11, [{address}];"),
        4..=6 => format!("{guard}st.{space}.{bytes} [{address}], %r0;"),
        7 if !narrow && bytes != "u8" => format!("{guard}red.{space}.add.u32 [{address}], 1;"),
        7 | 8 => "bar.warp.sync 0xffffffff;".to_owned(),
        9 => "@%p4 bar.sync 1, 64;".to_owned(),
        10 => "@%p5 bar.warp.sync 0x55555555;".to_owned(),
        _ => "bar.sync 0;".to_owned(),
    }
}

fn random_kernel(statements: &[(u8, u8, u8, u8)], rounds: u32) -> String {
    let mut body = String::from(
        "2| setp.lt.u32 %p4, %r0, 64;
        and.b32 %r12, %r0, 1;
        setp.eq.u32 %p5, %r12, 0;
        add.u32 %r10, %r3, %r0;
        cvt.u64.u32 %rd4, %r0;
        add.u64 %rd4, %rd1, %rd4;
        mov.u32 %r13, 0;
        LOOP:\n",
    );
    for ((kind, who, place, size), line) in statements.iter().zip(10..) {
        body.push_str(&format!("{line}| {}\n", statement(*kind, *who, *place, *size)));
    }
    if rounds == 1 {
        return body + "ret;";
    }
    body + &format!("3| add.u32 %r13, %r13, 1;\nsetp.lt.u32 %p6, %r13, {rounds};\n@%p6 bra LOOP;\nret;")
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_racing_pair_is_found_and_no_other(
        statements in prop::collection::vec(any::<(u8, u8, u8, u8)>(), 2..14),
        rounds in 1..=2u32,
    ) {
        let body = random_kernel(&statements, rounds);
        let module = Module::parse(&kernel(&body)).unwrap();
        let mut oracle =
            AllPairs { module: &module, events: Vec::new(), known: HashMap::new(), arrived: HashMap::new() };
        let mut simulator = Simulator::new();
        let pointer = simulator.allocate(WORDS * 4).unwrap();
        let config = LaunchConfig { grid: [2, 1, 1], block: [THREADS as u32, 1, 1], dynamic_shared_bytes: 0 };
        let arguments = [Argument::Pointer(pointer)];
        simulator.launch_observed(&module, "k", config, &arguments, &mut oracle).unwrap();
        let mut hazards = Hazards::new(&module, "k", &config);
        simulator.launch_observed(&module, "k", config, &arguments, &mut hazards).unwrap();
        let mut found = BTreeSet::new();
        for finding in hazards.findings() {
            if finding.kind == FindingKind::Uninitialised {
                continue;
            }
            let line = |incident: &ptx_simulator::observe::hazards::Incident| incident.source.as_ref().unwrap().line;
            let (first, second) = (line(&finding.first), line(finding.second.as_ref().unwrap()));
            // Straight code says itself what comes first.
            prop_assert!(rounds > 1 || first <= second, "{:?}", finding);
            found.insert((first.min(second), first.max(second)));
        }
        prop_assert_eq!(found, oracle.racing(), "{}", body);
    }
}
