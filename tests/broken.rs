//! Every planted mistake is found, with its kind and its lines; nothing else is reported; the right twins are clean.

use std::{collections::BTreeSet, sync::LazyLock};

use broken_kernels::{
    Before, Kind, MISTAKES, Mistake, Shows,
    boxes::{C_COLUMNS, SIDE},
};
use broken_kernels_ptx::{PTX, PTX_90A};
use gpu_kernels::{LaunchShape, launch::ElementType};
use host::{
    device::{Argument, Device, DeviceSelector},
    gemm::{FactorBuffer, nearest},
    matrix, verify,
};
use ndarray::Array2;
use ptx_simulator::{
    self as simulator, LaunchConfig, LaunchErrorKind, MbarrierProblem, Module, Simulator, Swizzle, TensorElement,
    TensorMap, TensorMapLayout,
    observe::hazards::{Finding, FindingKind, Hazards, Incident},
};

/// (m, n, k): three whole tiles along k, and the same with edges.
const WHOLE: (usize, usize, usize) = (32, 32, 48);
const EDGES: (usize, usize, usize) = (20, 37, 41);
/// Edges where rows of 16-bit elements begin at multiples of 16 bytes.
const EDGES_OF_BF16: (usize, usize, usize) = (20, 40, 40);

/// The same for tiles that a warpgroup multiplies.
const WHOLE_BOXES: (usize, usize, usize) = (64, 64, 192);
const EDGES_OF_BOXES: (usize, usize, usize) = (40, 72, 168);

/// The shape of whole tiles that a mistake is launched with.
fn whole(mistake: &Mistake) -> (usize, usize, usize) {
    if mistake.launch.takes_maps() { WHOLE_BOXES } else { WHOLE }
}

/// The shape with edges that a mistake is launched with.
fn edges(mistake: &Mistake) -> (usize, usize, usize) {
    match mistake.factors {
        _ if mistake.launch.takes_maps() => EDGES_OF_BOXES,
        ElementType::F32 => EDGES,
        ElementType::Bf16 | ElementType::F16 => EDGES_OF_BF16,
    }
}

/// What the tensor maps of kernels that are launched as boxes are of: A, B and C at these addresses.
fn maps([a, b, c]: [u64; 3], (m, n, k): (usize, usize, usize)) -> [TensorMapLayout; 3] {
    let layout = |address, [rows, columns]: [usize; 2], element, bytes, width| {
        let pitch = (columns * bytes) as u64;
        TensorMapLayout {
            element,
            address,
            sizes: vec![columns as u64, rows as u64, 1],
            strides: vec![pitch, pitch * rows as u64],
            box_sizes: vec![width as u32, SIDE as u32, 1],
            swizzle: Swizzle::Bytes128,
        }
    };
    [
        layout(a, [m, k], TensorElement::BF16, 2, SIDE),
        layout(b, [k, n], TensorElement::BF16, 2, SIDE),
        layout(c, [m, n], TensorElement::F32, 4, C_COLUMNS),
    ]
}

/// A kind and the lines it's about; the second is 0 where there is one only.
type Seen = BTreeSet<(Kind, u32, u32)>;

/// The kind of a finding in the words of the list.
fn kind(finding: &Finding) -> Option<Kind> {
    Some(match &finding.kind {
        FindingKind::ReadAfterWrite => Kind::ReadAfterWrite,
        FindingKind::WriteAfterRead => Kind::WriteAfterRead,
        FindingKind::WriteAfterWrite => Kind::WriteAfterWrite,
        FindingKind::Uninitialised => Kind::Uninitialised,
        FindingKind::OutsideArray => Kind::OutsideArray,
        FindingKind::DifferentBarriers => Kind::DifferentBarriers,
        FindingKind::CopyNeverAwaited => Kind::CopyNeverAwaited,
        FindingKind::Fault(LaunchErrorKind::OutOfBounds { .. }) => Kind::OutOfBounds,
        FindingKind::Fault(LaunchErrorKind::Misaligned { .. }) => Kind::Misaligned,
        FindingKind::Fault(LaunchErrorKind::DivergentBarrier { .. }) => Kind::DivergentBarrier,
        FindingKind::Fault(LaunchErrorKind::MbarrierDeadlock { .. }) => Kind::MbarrierDeadlock,
        FindingKind::Fault(LaunchErrorKind::Mbarrier { problem: MbarrierProblem::NotInitialised, .. }) => {
            Kind::NoMbarrier
        }
        FindingKind::Fault(LaunchErrorKind::Mbarrier { problem: MbarrierProblem::TooManyArrivals { .. }, .. }) => {
            Kind::TooManyArrivals
        }
        FindingKind::MissingProxyFence => Kind::MissingProxyFence,
        FindingKind::ProductNotAwaited => Kind::ProductNotAwaited,
        FindingKind::MbarrierNotShown => Kind::MbarrierNotShown,
        FindingKind::BlockExitsEarly => Kind::BlockExitsEarly,
        _ => return None,
    })
}

/// The line of an incident, which has to be in the mistake's own file.
fn line(incident: &Incident, mistake: &Mistake) -> u32 {
    let source = incident.source.as_ref().unwrap_or_else(|| panic!("{}: {incident:?} has no line", mistake.name));
    assert_eq!(source.file, mistake.source().0, "{}: {incident:?}", mistake.name);
    source.line
}

/// What is found in one launch of `entry` for an `m` x `k` by `k` x `n` product, and C.
fn observe(mistake: &Mistake, entry: &str, (m, n, k): (usize, usize, usize)) -> (Vec<Finding>, Array2<f32>) {
    static MODULES: LazyLock<[Module; 2]> =
        LazyLock::new(|| [PTX, PTX_90A].map(|text| Module::parse(text).expect("the build made it")));
    let module = &MODULES[usize::from(mistake.launch.takes_maps())];
    let mut simulator = Simulator::builder().threads(1).memory_limit(1 << 24).build();
    let (a, b) = inputs(mistake, (m, n, k));
    let mut upload = |matrix: &Array2<f32>| {
        let bytes = bytes(mistake.factors, matrix);
        let pointer = simulator.allocate(bytes.len() as u64).unwrap();
        simulator.write(pointer, &bytes).unwrap();
        pointer
    };
    let (a, b) = (upload(&a), upload(&b));
    let bytes = (m * n * size_of::<f32>()) as u64;
    let c = simulator.allocate(bytes).unwrap();

    let launch = mistake.launch;
    let dynamic_shared_bytes = launch.dynamic_shared_bytes();
    let config = LaunchConfig { grid: launch.grid(m, n), block: launch.block(), dynamic_shared_bytes };
    let mut hazards = Hazards::new(module, entry, &config);
    match mistake.before {
        Before::Unwritten => hazards.unwritten(c, bytes),
        Before::Zeros => simulator.fill(c, 0, bytes).unwrap(),
    }
    let pointers = [a, b, c].map(simulator::Argument::Pointer);
    let sizes = [m, n, k].map(|size| simulator::Argument::U64(size as u64));
    let maps = maps([a, b, c].map(|pointer| pointer.0), (m, n, k));
    let maps = maps.map(|layout| launch.takes_maps().then(|| TensorMap::encode(&layout).unwrap().bytes()));
    let mapped: Vec<_> = maps.iter().flatten().map(|map| simulator::Argument::Bytes(map)).collect();
    let arguments = match launch.takes_maps() {
        true => [&mapped[..], &pointers[2..], &sizes].concat(),
        false => [pointers, sizes].concat(),
    };
    simulator.launch_observed(module, entry, config, &arguments, &mut hazards).unwrap();

    let mut elements = vec![0f32; m * n];
    simulator.read(c, bytemuck::cast_slice_mut(&mut elements)).unwrap();
    (hazards.findings(), Array2::from_shape_vec((m, n), elements).unwrap())
}

/// A and B, of numbers that a mistake's elements can hold.
fn inputs(mistake: &Mistake, (m, n, k): (usize, usize, usize)) -> (Array2<f32>, Array2<f32>) {
    let random = |rows, columns, seed| {
        matrix::random_normal(rows, columns, seed).mapv(|number| nearest(mistake.factors, number))
    };
    (random(m, k, 1), random(k, n, 2))
}

/// A matrix as it is in memory.
fn bytes(element: ElementType, matrix: &Array2<f32>) -> Vec<u8> {
    match element {
        ElementType::F32 => matrix.iter().flat_map(|number| number.to_le_bytes()).collect(),
        ElementType::Bf16 | ElementType::F16 => {
            matrix.iter().flat_map(|number| half::bf16::from_f32(*number).to_le_bytes()).collect()
        }
    }
}

fn seen(mistake: &Mistake, findings: &[Finding]) -> Seen {
    findings
        .iter()
        .map(|finding| {
            let kind = kind(finding).unwrap_or_else(|| panic!("{}: {finding:?}", mistake.name));
            // Where the others are that a barrier waits for isn't part of the mistake.
            let second = finding.second.as_ref().filter(|_| kind != Kind::DivergentBarrier);
            (kind, line(&finding.first, mistake), second.map_or(0, |second| line(second, mistake)))
        })
        .collect()
}

fn expected(mistake: &Mistake) -> Seen {
    let line = |mark| mistake.line(mark).unwrap_or_else(|| panic!("{} has no line `{mark}`", mistake.name));
    mistake.found.iter().map(|found| (found.kind, line(found.first), found.second.map_or(0, line))).collect()
}

#[test]
fn every_mistake_is_found_with_its_kind_and_lines_and_nothing_else_is() {
    let mut failures = String::new();
    for mistake in MISTAKES {
        for (name, shape, has_edges) in [("whole tiles", whole(mistake), false), ("edges", edges(mistake), true)] {
            let shows = mistake.shows == Shows::Always || has_edges;
            let expected = if shows { expected(mistake) } else { Seen::new() };
            let (findings, _) = observe(mistake, mistake.name, shape);
            let seen = seen(mistake, &findings);
            if seen != expected {
                failures += &format!("{}, {name}:\n  expected {expected:?}\n  found    {seen:?}\n", mistake.name);
            }
        }
    }
    assert!(failures.is_empty(), "{failures}");
}

#[test]
fn every_right_twin_is_clean_and_its_product_right() {
    for mistake in MISTAKES {
        for shape in [whole(mistake), edges(mistake)] {
            let (findings, c) = observe(mistake, mistake.right, shape);
            assert!(findings.is_empty(), "{} of {shape:?}: {findings:#?}", mistake.right);
            if mistake.is_product {
                let (a, b) = inputs(mistake, shape);
                let order = match mistake.factors {
                    ElementType::F32 => verify::Order::Ascending,
                    ElementType::Bf16 | ElementType::F16 => verify::Order::TensorCores,
                };
                let verification = verify::check_in(order, &c, &a, &b);
                assert!(verification.passed(), "{} of {shape:?}: {verification:?}", mistake.right);
            }
        }
    }
}

#[test]
fn there_are_at_least_twenty_mistakes_and_some_of_every_kind() {
    assert!(MISTAKES.len() >= 20);
    let kinds: BTreeSet<Kind> =
        MISTAKES.iter().flat_map(|mistake| mistake.found.iter().map(|found| found.kind)).collect();
    assert_eq!(kinds.len(), 17, "{kinds:?}");
}

/// One line for each kernel and twin, `found NAME KIND…`: what the simulator finds in them, for matrices with edges.
#[test]
#[ignore = "prints a list for measure/who-finds-what"]
fn what_the_simulator_finds() {
    for mistake in MISTAKES {
        for entry in [mistake.name, mistake.right] {
            let (findings, _) = observe(mistake, entry, edges(mistake));
            let kinds: BTreeSet<_> = findings.iter().filter_map(kind).map(|kind| format!("{kind:?}")).collect();
            println!("found {entry} {}", kinds.into_iter().collect::<Vec<_>>().join(" "));
        }
    }
}

/// For tools that watch a process: `BROKEN_KERNEL=first_barrier_missing` (or a twin) launches that kernel once on the
/// first GPU, for matrices with edges. `measure/who-finds-what` runs it.
#[test]
#[ignore = "needs a GPU and the variable BROKEN_KERNEL"]
fn one_kernel_runs_on_the_gpu() {
    let entry = std::env::var("BROKEN_KERNEL").expect("BROKEN_KERNEL names a broken kernel or a twin");
    let mistake = MISTAKES.iter().find(|mistake| [mistake.name, mistake.right].contains(&entry.as_str()));
    let mistake = mistake.unwrap_or_else(|| panic!("there is no kernel {entry}"));
    let (m, n, k) = edges(mistake);
    let (a, b) = inputs(mistake, (m, n, k));
    let device = Device::open(DeviceSelector::Cuda(None)).unwrap();
    let upload =
        |matrix: &Array2<f32>| FactorBuffer::upload(&device, mistake.factors, matrix.as_slice().unwrap()).unwrap();
    let (a, b) = (upload(&a), upload(&b));
    let (a_matrix, b_matrix) = (a.matrix(m, k).unwrap(), b.matrix(k, n).unwrap());
    let mut c = device.allocate::<f32>(m * n).unwrap();
    if mistake.before == Before::Zeros {
        c.copy_from(&vec![0.0; m * n]).unwrap();
    }
    let launch = mistake.launch;
    let module = device.load_module(if launch.takes_maps() { PTX_90A } else { PTX }).unwrap();
    let dynamic_shared_bytes = launch.dynamic_shared_bytes();
    let shape = LaunchShape { grid: launch.grid(m, n), block: launch.block(), dynamic_shared_bytes };
    let addresses = [a_matrix.address(), b_matrix.address(), c.address()];
    let (pointers, sizes) = (addresses.map(Argument::Pointer), [m, n, k].map(|size| Argument::U64(size as u64)));
    let maps = maps(addresses, (m, n, k));
    let maps = maps.map(|layout| launch.takes_maps().then(|| device.tensor_map(&layout).unwrap()));
    let mapped: Vec<_> = maps.iter().flatten().map(|map| Argument::Bytes(map)).collect();
    let arguments = match launch.takes_maps() {
        true => [&mapped[..], &pointers[2..], &sizes].concat(),
        false => [pointers, sizes].concat(),
    };
    // SAFETY: the arguments are what every kernel of the list takes. A broken kernel may well leave its buffers, which
    // is what this is for: nothing else is on the device, and the process ends here.
    let launched = unsafe { device.launch(module, &entry, &shape, &arguments) };
    println!("{entry}: {:?}", launched.and_then(|()| device.synchronise()));
}
