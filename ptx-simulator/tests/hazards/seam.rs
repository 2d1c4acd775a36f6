//! What any observer can rely on.

use super::*;
use ptx_simulator::observe::{Access, GlobalRange, Observer, Place};
use ptx_simulator::{AccessKind, LaunchErrorKind, MemorySpace};

#[derive(Default)]
struct Stores {
    stored: Vec<(MemorySpace, Vec<u8>)>,
    memory: Vec<GlobalRange>,
    others: u32,
}

impl Observer for Stores {
    fn launch_begins(&mut self, memory: &[GlobalRange]) {
        self.memory = memory.to_vec();
    }

    fn access(&mut self, _place: Place, access: Access<'_>) {
        match access.stored {
            Some(stored) => self.stored.push((access.space, stored.lane(1))),
            None => self.others += u32::from(access.kind != AccessKind::Write),
        }
    }
}

fn run(body: &str, observer: &mut dyn Observer) -> Result<(), LaunchError> {
    let module = Module::parse(&kernel(body)).unwrap_or_else(|error| panic!("{error}"));
    let mut simulator = Simulator::new();
    let pointer = simulator.allocate(WORDS * 4).unwrap();
    let config = LaunchConfig { grid: [1; 3], block: [32, 1, 1], dynamic_shared_bytes: 0 };
    simulator.launch_observed(&module, "k", config, &[Argument::Pointer(pointer)], observer)
}

#[test]
fn an_observer_sees_what_each_lane_stores() {
    let mut seen = Stores::default();
    let body = "10| add.u32 %r10, %r0, 0x01020300;
        st.global.u32 [%rd3], %r10;
        st.shared.u8 [%r4], %r10;
        mov.b64 %rd10, {%r10, %r0};
        shl.b32 %r11, %r0, 4;
        add.u32 %r11, %r11, %r3;
        st.shared.v2.u64 [%r11], {%rd10, %rd10};
        atom.shared.add.u32 %r12, [%r4], 1;
        ret;";
    run(body, &mut seen).unwrap();
    let wide = [1, 3, 2, 1, 1, 0, 0, 0];
    assert_eq!(
        seen.stored,
        [
            (MemorySpace::Global, vec![1, 3, 2, 1]),
            (MemorySpace::Shared, vec![1]),
            (MemorySpace::Shared, [wide, wide].concat()),
        ]
    );
    assert_eq!(seen.memory.iter().map(|range| range.bytes).collect::<Vec<_>>(), [WORDS * 4]);
    // The parameter's load and the atomic.
    assert_eq!(seen.others, 2);
}

#[test]
fn an_observer_that_takes_no_faults_gets_them_as_the_launchs_error() {
    let error = run("10| st.global.u32 [%rd3+65536], 1;\nret;", &mut Stores::default()).unwrap_err();
    assert!(matches!(error.kind, LaunchErrorKind::OutOfBounds { .. }), "{error}");
    assert_eq!(error.source.unwrap().line, 10);
}
