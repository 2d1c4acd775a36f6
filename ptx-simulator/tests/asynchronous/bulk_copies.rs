//! `cp.async.bulk` and `cp.async.bulk.tensor`: boxes of tensors go where the manual says, when it says.

use crate::numbers;
use crate::support::{Machine, bytes_of, elements_of, load, on_any_number_of_cores};
use ptx_simulator::{
    Argument, BulkCopyProblem, DevicePointer, LaunchConfig, LaunchError, LaunchErrorKind, MbarrierProblem, MemorySpace,
    Module, Swizzle, TensorElement, TensorMap, TensorMapLayout,
};

/// Words of `stage`, of which the kernels here write all to `%out` at their end.
const STAGE: usize = 2048;

/// A kernel with a tensor map as its parameter `test_param_1`, at `%map`, and 8 KiB of shared memory at `%stage`, which
/// starts as words of 7 and is written to `%out` at the end. `%p1` is thread 0; `full` is an mbarrier for one arrival.
fn kernel(body: &str) -> String {
    format!(
        ".version 8.0
        .target sm_90a
        .address_size 64
        .shared .align 1024 .b8 stage[{bytes}];
        .shared .align 8 .b64 full;
        .visible .entry test(.param .u64 output, .param .align 64 .b8 test_param_1[128], .param .u64 input)
        {{
            .reg .pred %p<8>; .reg .b32 %r<32>; .reg .b64 %rd<16>; .reg .b64 %out, %in, %map; .reg .b32 %thread, %stage;
            ld.param.u64 %out, [output]; ld.param.u64 %in, [input];
            mov.b64 %map, test_param_1; cvta.param.u64 %map, %map;
            prefetch.tensormap [%map];
            mov.u32 %thread, %tid.x; mov.u32 %stage, stage; mov.u32 %r7, 0;
            setp.eq.u32 %p1, %thread, 0;
            mad.lo.u32 %r1, %thread, 4, %stage; mov.u32 %r2, 7; mov.u32 %r3, 0;
            fill: st.shared.u32 [%r1], %r2; add.u32 %r1, %r1, 256; add.u32 %r3, %r3, 64;
            setp.lt.u32 %p2, %r3, {STAGE}; @%p2 bra fill;
            @%p1 mbarrier.init.shared.b64 [full], 1;
            @%p1 fence.mbarrier_init.release.cluster;
            fence.proxy.async;
            bar.sync 0;
            {body}
            bar.sync 0;
            mad.lo.u32 %r1, %thread, 4, %stage; mul.wide.u32 %rd1, %thread, 4; add.u64 %rd1, %out, %rd1; mov.u32 %r3, 0;
            show: ld.shared.u32 %r2, [%r1]; st.global.u32 [%rd1], %r2;
            add.u32 %r1, %r1, 256; add.u64 %rd1, %rd1, 256; add.u32 %r3, %r3, 64;
            setp.lt.u32 %p2, %r3, {STAGE}; @%p2 bra show;
            ret;
        }}",
        bytes = STAGE * 4
    )
}

const WAIT: &str = "spin: mbarrier.try_wait.parity.shared.b64 %p3, [full], %r7; @!%p3 bra spin;";

/// A tensor, and a box of it.
#[derive(Clone)]
struct Case {
    element: TensorElement,
    sizes: Vec<u64>,
    strides: Vec<u64>,
    box_sizes: Vec<u32>,
    swizzle: Swizzle,
    /// Where the box begins.
    first: Vec<i32>,
}

impl Case {
    fn bytes(&self) -> usize {
        self.element.bytes() as usize
    }

    fn box_bytes(&self) -> usize {
        self.box_sizes.iter().product::<u32>() as usize * self.bytes()
    }

    /// Bytes of global memory from the tensor's start to its end.
    fn tensor_bytes(&self) -> usize {
        let strides = self.strides.iter().zip(&self.sizes[1..]);
        self.sizes[0] as usize * self.bytes()
            + strides.map(|(stride, size)| (*stride * (size - 1)) as usize).sum::<usize>()
    }

    /// The map of the tensor at an address.
    fn map(&self, pointer: DevicePointer) -> TensorMap {
        TensorMap::encode(&TensorMapLayout {
            element: self.element,
            address: pointer.0,
            sizes: self.sizes.clone(),
            strides: self.strides.clone(),
            box_sizes: self.box_sizes.clone(),
            swizzle: self.swizzle,
        })
        .expect("a tensor map that can be")
    }

    /// Of every element of the box: its offset in shared memory, and its offset in the tensor if it's inside.
    fn elements(&self) -> Vec<(usize, Option<usize>)> {
        let mut all = Vec::new();
        for number in 0..self.box_sizes.iter().product::<u32>() {
            let (mut rest, mut inside, mut offset) = (number, true, 0);
            for (dimension, size) in self.box_sizes.iter().enumerate() {
                let place = i64::from(self.first[dimension]) + i64::from(rest % size);
                rest /= size;
                inside &= (0..self.sizes[dimension] as i64).contains(&place);
                let stride = if dimension == 0 { self.bytes() as u64 } else { self.strides[dimension - 1] };
                offset += place * stride as i64;
            }
            let logical = number as usize * self.bytes();
            let (line, chunk, byte) = (logical / 128, logical / 16 % 8, logical % 16);
            let chunk = match self.swizzle {
                Swizzle::None => chunk,
                Swizzle::Bytes32 => chunk ^ (line % 2),
                Swizzle::Bytes64 => chunk ^ (line % 4),
                Swizzle::Bytes128 => chunk ^ (line % 8),
            };
            all.push((line * 128 + chunk * 16 + byte, inside.then_some(offset as usize)));
        }
        all
    }

    fn coordinates(&self) -> String {
        let names: Vec<String> = self.first.iter().map(|place| format!("{}", *place as u32)).collect();
        format!("{{{}}}", names.join(", "))
    }

    fn arrive_and_copy(&self) -> String {
        format!(
            "@%p1 mbarrier.arrive.expect_tx.shared::cta.b64 _, [full], {};
            @%p1 cp.async.bulk.tensor.{}d.shared::cluster.global.mbarrier::complete_tx::bytes [%stage], [%map, {}], [full];",
            self.box_bytes(),
            self.sizes.len(),
            self.coordinates()
        )
    }

    fn cases() -> Vec<Case> {
        use Swizzle::{Bytes32, Bytes64, Bytes128, None};
        use TensorElement::{BF16, F16, F32, U8, U64};
        let case = |element, sizes: &[u64], strides: &[u64], box_sizes: &[u32], swizzle, first: &[i32]| Case {
            element,
            sizes: sizes.to_vec(),
            strides: strides.to_vec(),
            box_sizes: box_sizes.to_vec(),
            swizzle,
            first: first.to_vec(),
        };
        vec![
            case(F32, &[100], &[], &[64], None, &[12]),
            case(BF16, &[200, 30], &[400], &[64, 16], Bytes128, &[64, 8]),
            case(F16, &[64, 40], &[128], &[64, 24], Bytes128, &[0, 9]),
            case(F32, &[96, 40], &[400], &[32, 16], Bytes128, &[32, 5]),
            case(F16, &[64, 40], &[144], &[32, 24], Bytes64, &[16, 0]),
            case(F16, &[64, 40], &[144], &[16, 24], Bytes32, &[48, 16]),
            case(F16, &[64, 40], &[144], &[16, 24], Bytes128, &[48, 16]),
            case(U8, &[300, 7], &[304], &[160, 5], None, &[96, 2]),
            case(U64, &[17, 7], &[144], &[4, 5], None, &[1, 2]),
            // The same matrix as columns of 64 elements.
            case(BF16, &[64, 20, 3], &[384, 128], &[64, 16, 2], Bytes128, &[0, 4, 1]),
            case(F32, &[8, 3, 4, 2, 3], &[32, 96, 400, 800], &[8, 2, 3, 1, 2], None, &[0, 1, 0, 1, 1]),
            // Beyond the end, before the start, on both sides, at odd places, and nowhere.
            case(BF16, &[100, 30], &[208], &[64, 16], Bytes128, &[64, 24]),
            case(BF16, &[100, 30], &[208], &[64, 16], Bytes128, &[-3, -5]),
            case(F32, &[5, 6], &[32], &[16, 16], Bytes64, &[-4, -7]),
            case(U8, &[100, 30], &[112], &[64, 16], Bytes64, &[61, 20]),
            case(F32, &[20, 6], &[80], &[16, 8], Bytes64, &[20, 0]),
            case(F32, &[20, 6], &[80], &[16, 8], Bytes64, &[0, -8]),
        ]
    }
}

/// Runs a kernel on a tensor whose memory holds `tensor`; gives what the stage holds at the end, and the tensor.
fn run(case: &Case, body: &str, tensor: &[u8]) -> (Vec<u8>, Vec<u8>) {
    let module = load(&kernel(body));
    let all: Vec<u8> = on_any_number_of_cores(|machine: &mut Machine| {
        let output = machine.upload(&vec![0u32; STAGE]);
        let memory = machine.upload(tensor);
        let map = case.map(memory).bytes();
        let arguments = [Argument::Pointer(output), Argument::Bytes(&map), Argument::Pointer(memory)];
        machine.launch(&module, "test", 1, 64, 0, &arguments);
        let mut all: Vec<u8> = machine.download(output, STAGE * 4);
        all.extend::<Vec<u8>>(machine.download(memory, tensor.len()));
        all
    });
    (all[..STAGE * 4].to_vec(), all[STAGE * 4..].to_vec())
}

fn error_of(case: &Case, body: &str, tensor: &[u8]) -> LaunchError {
    let module = load(&kernel(body));
    let mut machine = Machine::with_threads(1);
    let output = machine.upload(&vec![0u32; STAGE]);
    let memory = machine.upload(tensor);
    let map = case.map(memory).bytes();
    let arguments = [Argument::Pointer(output), Argument::Bytes(&map), Argument::Pointer(memory)];
    machine.try_launch(&module, "test", 1, 64, 0, &arguments).expect_err("the launch must fail")
}

/// Bytes that tell where they are from.
fn pattern(count: usize) -> Vec<u8> {
    (0..count).map(|index| (index * 7 + index / 251 * 13) as u8 | 1).collect()
}

fn untouched() -> Vec<u8> {
    bytes_of(&[7u32; STAGE])
}

#[test]
fn boxes_are_loaded_to_their_places_with_zeros_beyond_the_tensor() {
    for case in Case::cases() {
        let tensor = pattern(case.tensor_bytes());
        let (stage, _) = run(&case, &format!("{} {WAIT}", case.arrive_and_copy()), &tensor);
        let mut want = untouched();
        for (shared, global) in case.elements() {
            for byte in 0..case.bytes() {
                want[shared + byte] = global.map_or(0, |global| tensor[global + byte]);
            }
        }
        assert_eq!(stage, want, "{:?} {:?} {:?} {:?}", case.sizes, case.box_sizes, case.swizzle, case.first);
    }
}

#[test]
fn boxes_are_stored_to_their_places_and_nothing_beyond_the_tensor_but_to_the_end_of_a_chunk() {
    for case in Case::cases() {
        let tensor = pattern(case.tensor_bytes().next_multiple_of(16));
        let bytes = case.box_bytes();
        // The stage is filled with words that tell where they are.
        let body = format!(
            "mad.lo.u32 %r1, %thread, 4, %stage; mov.u32 %r3, %thread;
            number: mul.lo.u32 %r2, %r3, 0x01234567; st.shared.u32 [%r1], %r2;
            add.u32 %r1, %r1, 256; add.u32 %r3, %r3, 64; setp.lt.u32 %p2, %r3, {STAGE}; @%p2 bra number;
            fence.proxy.async.shared::cta; bar.sync 0;
            @%p1 cp.async.bulk.tensor.{}d.global.shared::cta.bulk_group [%map, {}], [%stage];
            @%p1 cp.async.bulk.commit_group; @%p1 cp.async.bulk.wait_group 0;",
            case.sizes.len(),
            case.coordinates()
        );
        let (stage, got) = run(&case, &body, &tensor);
        let words: Vec<u32> = (0..STAGE as u32).map(|word| word.wrapping_mul(0x0123_4567)).collect();
        assert_eq!(stage, bytes_of(&words));
        let mut want = tensor;
        let mut before: Option<usize> = None;
        for (index, (shared, global)) in case.elements().into_iter().enumerate() {
            // Behind the end of a row, up to a multiple of 16 bytes, as hardware does it.
            let is_first = index % case.box_sizes[0] as usize == 0;
            let behind = before.filter(|_| !is_first).map(|before| before + case.bytes());
            let place = global.or(behind.filter(|place| place % 16 != 0));
            if let Some(place) = place {
                want[place..place + case.bytes()].copy_from_slice(&stage[shared..shared + case.bytes()]);
            }
            before = place;
        }
        assert_eq!(got, want, "{:?} {:?} {:?} {bytes}", case.sizes, case.box_sizes, case.first);
    }
}

#[test]
fn a_store_whose_last_chunk_is_not_all_there_is_named() {
    let case = Case {
        element: TensorElement::F32,
        sizes: vec![5],
        strides: vec![],
        box_sizes: vec![8],
        first: vec![0],
        ..Case::cases()[0].clone()
    };
    let body = "@%p1 cp.async.bulk.tensor.1d.global.shared::cta.bulk_group [%map, {0}], [%stage];";
    let error = std::panic::catch_unwind(|| run(&case, body, &pattern(20))).unwrap_err();
    let error = error.downcast_ref::<String>().unwrap();
    assert!(error.contains("a write of 32 bytes") && error.contains("outside global memory"), "{error}");
}

#[test]
fn bytes_without_a_tensor_are_copied_both_ways() {
    let case = &Case::cases()[0];
    let body = format!(
        "mov.u32 %r4, 208; cvt.u64.u32 %rd3, %stage;
        @%p1 mbarrier.arrive.expect_tx.shared::cta.b64 _, [full], 240;
        @%p1 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%rd3+64], [%in+16], %r4, [full];
        @%p1 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%stage], [%in], 32, [full];
        {WAIT} fence.proxy.async; bar.sync 0;
        @%p1 cp.async.bulk.global.shared::cta.bulk_group [%in+256], [%stage+64], 48;
        @%p1 cp.async.bulk.commit_group; @%p1 cp.async.bulk.wait_group.read 0;"
    );
    let input = numbers(100);
    let (stage, got) = run(case, &body, &input);
    let mut want = untouched();
    want[64..272].copy_from_slice(&input[16..224]);
    want[..32].copy_from_slice(&input[..32]);
    assert_eq!(stage, want);
    let mut want = input.clone();
    want[256..304].copy_from_slice(&input[16..64]);
    assert_eq!(got, want);
}

#[test]
fn nothing_is_loaded_before_the_mbarrier_is_waited_for() {
    let case = &Case::cases()[1];
    let tensor = pattern(case.tensor_bytes());
    let copy = case.arrive_and_copy();
    for wait in [
        "",
        // The phase before the first is over; a wait with its parity is none.
        "mov.u32 %r7, 1; spin: mbarrier.try_wait.parity.shared.b64 %p3, [full], %r7; @!%p3 bra spin;",
    ] {
        assert_eq!(run(case, &format!("{copy} {wait}"), &tensor).0, untouched(), "{wait}");
    }
    // Without bytes to expect, the phase is complete before the copy is done.
    let early = copy.replace("arrive.expect_tx.shared::cta.b64 _, [full], 2048", "arrive.shared::cta.b64 _, [full]");
    assert_eq!(run(case, &format!("{early} {WAIT}"), &tensor).0, untouched());
}

#[test]
fn a_ring_of_stages_is_filled_in_the_order_of_its_copies() {
    // Four boxes through one stage; whoever has read arrives at `empty`, and thread 0 waits there before it copies again.
    let case = Case { box_sizes: vec![64, 8], first: vec![0, 0], ..Case::cases()[1].clone() };
    let body = format!(
        ".shared .align 8 .b64 empty; .reg .b32 %sum;
        @%p1 mbarrier.init.shared.b64 [empty], 64; bar.sync 0;
        mov.u32 %r10, 0; mov.u32 %r11, 1; mov.u32 %sum, 0; mad.lo.u32 %r12, %thread, 4, %stage;
        again:
        @!%p1 bra consume;
        free: mbarrier.try_wait.parity.shared.b64 %p4, [empty], %r11; @!%p4 bra free;
        mbarrier.arrive.expect_tx.shared::cta.b64 _, [full], 1024; shl.b32 %r13, %r10, 3;
        cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%stage], [%map, {{0, %r13}}], [full];
        consume: {WAIT}
        ld.shared.u32 %r14, [%r12]; mad.lo.u32 %sum, %sum, 3, %r14;
        mbarrier.arrive.shared.b64 _, [empty];
        xor.b32 %r7, %r7, 1; xor.b32 %r11, %r11, 1; add.u32 %r10, %r10, 1; setp.lt.u32 %p5, %r10, 3; @%p5 bra again;
        bar.sync 0; st.shared.u32 [%r12+4096], %sum;"
    );
    let tensor = pattern(case.tensor_bytes());
    let (stage, _) = run(&case, &body, &tensor);
    let words: Vec<u32> = elements_of(&stage);
    for thread in 0..64usize {
        // Thread t reads word t of the box: row t / 32, chunk t / 4 % 8, exchanged.
        let (row, chunk) = (thread / 32, (thread / 4 % 8) ^ (thread / 32));
        let word = |round: usize| {
            let at = (round * 8 + row) * 400 + chunk * 16 + thread % 4 * 4;
            u32::from_le_bytes(tensor[at..at + 4].try_into().unwrap())
        };
        let want = (0..3).fold(0u32, |sum, round| sum.wrapping_mul(3).wrapping_add(word(round)));
        assert_eq!(words[1024 + thread], want, "thread {thread}");
    }
}

#[test]
fn a_source_is_read_as_late_as_its_wait_allows() {
    let case = Case { box_sizes: vec![64, 1], ..Case::cases()[2].clone() };
    let tensor = pattern(case.tensor_bytes());
    let store = |wait: &str, after: &str| {
        let body = format!(
            "@%p1 cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%map, {{0, 0}}], [%stage];
            @%p1 cp.async.bulk.commit_group; {wait} bar.sync 0; @%p1 st.shared.u32 [%stage], 5; {after}"
        );
        let got = run(&case, &body, &tensor).1;
        u32::from_le_bytes(got[..4].try_into().unwrap())
    };
    let old = u32::from_le_bytes(tensor[..4].try_into().unwrap());
    assert_eq!(store("@%p1 cp.async.bulk.wait_group.read 0;", ""), 7);
    assert_eq!(store("@%p1 cp.async.bulk.wait_group 0;", ""), 7);
    // One group may stay open, and does.
    assert_eq!(store("@%p1 cp.async.bulk.wait_group.read 1;", "@%p1 cp.async.bulk.wait_group 0;"), 5);
    // Another thread's wait is no wait.
    assert_eq!(store("@!%p1 cp.async.bulk.wait_group 0;", "@%p1 cp.async.bulk.wait_group 0;"), 5);
    // Nobody waits.
    assert_eq!(store("", ""), old);
}

#[test]
fn a_wrong_number_of_bytes_is_an_error() {
    let case = &Case::cases()[1];
    let tensor = pattern(case.tensor_bytes());
    let with = |bytes: u32| format!("{} {WAIT}", case.arrive_and_copy().replace("2048;", &format!("{bytes};")));
    let error = error_of(case, &with(2080), &tensor);
    let LaunchErrorKind::MbarrierDeadlock(wait) = &error.kind else { panic!("{error}") };
    assert_eq!((wait.missing, wait.bytes, wait.phase), (0, 32, 0));
    let error = error_of(case, &with(2016), &tensor);
    let LaunchErrorKind::Mbarrier { problem, .. } = &error.kind else { panic!("{error}") };
    assert_eq!(*problem, MbarrierProblem::TooManyBytes { lacking: 2016, bytes: 2048 });
}

#[test]
fn what_cannot_be_copied_is_an_error_that_names_it() {
    let case = &Case::cases()[1];
    let tensor = pattern(case.tensor_bytes());
    let kind = |from: &str, to: &str| {
        let copy = case.arrive_and_copy();
        assert!(copy.contains(from), "{copy}");
        error_of(case, &format!("{} {WAIT}", copy.replace(from, to)), &tensor).kind
    };
    let problem = |from: &str, to: &str| match kind(from, to) {
        LaunchErrorKind::BulkCopy(problem) => problem,
        other => panic!("{other}"),
    };
    assert!(matches!(
        problem("[%stage]", "[%stage+64]"),
        BulkCopyProblem::Misaligned { what: "its side in shared memory", alignment: 128, .. }
    ));
    assert!(matches!(
        problem("[%map,", "[%map+16,"),
        BulkCopyProblem::Misaligned { what: "its tensor map", alignment: 64, .. }
    ));
    assert!(matches!(problem("[%map,", "[%map+64,"), BulkCopyProblem::NoTensorMap { .. }));
    assert!(matches!(problem("[%map,", "[%in,"), BulkCopyProblem::NoTensorMap { .. }));
    assert_eq!(
        problem(
            "2d.shared::cluster.global.mbarrier::complete_tx::bytes [%stage], [%map, {64, 8}]",
            "3d.shared::cluster.global.mbarrier::complete_tx::bytes [%stage], [%map, {64, 8, 0}]"
        ),
        BulkCopyProblem::Dimensions { coordinates: 3, dimensions: 2 }
    );
    assert!(matches!(
        kind("[%stage]", "[%stage+7168]"),
        LaunchErrorKind::OutOfBounds { space: MemorySpace::Shared, bytes: 2048, .. }
    ));
    assert!(matches!(
        kind("[full];", "[full+8];"),
        LaunchErrorKind::OutOfBounds { space: MemorySpace::Shared, bytes: 8, .. }
    ));
    assert!(matches!(
        kind("{64, 8}], [full];", "{64, 8}], [stage];"),
        LaunchErrorKind::Mbarrier { problem: MbarrierProblem::NotInitialised, .. }
    ));
    // The tensor is larger than its memory.
    let error = error_of(case, &format!("{} {WAIT}", case.arrive_and_copy()), &tensor[..4000]);
    let LaunchErrorKind::OutOfBounds { space: MemorySpace::Global, bytes: 128, .. } = error.kind else {
        panic!("{error}");
    };
    let bytes = "@%p1 cp.async.bulk.global.shared::cta.bulk_group [%in], [%stage], 24;";
    assert_eq!(error_of(case, bytes, &tensor).kind, LaunchErrorKind::BulkCopy(BulkCopyProblem::Size { bytes: 24 }));
}

#[test]
fn forms_that_do_not_exist_are_refused() {
    for copy in [
        "cp.async.bulk.tensor.6d.global.shared::cta.bulk_group [%map, {0, 0, 0, 0, 0, 0}], [%stage];",
        "cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%map, {0}], [%stage];",
        "cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%map], [%stage];",
        "cp.async.bulk.tensor.2d.global.shared::cta [%map, {0, 0}], [%stage];",
        "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%stage], [%map, {0, 0}];",
        "cp.async.bulk.tensor.2d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes [%stage], [%map, {0, 0}], [full];",
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%stage], [%in], [full];",
        "cp.async.bulk.wait_group %r1;",
        "cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32 [%in], [%stage], 16;",
    ] {
        assert!(Module::parse(&kernel(copy)).is_err(), "{copy}");
    }
}

#[test]
fn a_map_may_lie_in_global_memory_and_be_named_in_the_instruction() {
    let case = &Case::cases()[1];
    let tensor = pattern(case.tensor_bytes());
    let named = case.arrive_and_copy().replace("[%map,", "[test_param_1,");
    let want = run(case, &format!("{} {WAIT}", case.arrive_and_copy()), &tensor).0;
    assert_eq!(run(case, &format!("{named} {WAIT}"), &tensor).0, want);
    // In global memory: the map is written there by the host.
    let module = load(&kernel(&format!("{} {WAIT}", case.arrive_and_copy().replace("[%map,", "[%in,"))));
    let mut machine = Machine::with_threads(1);
    let output = machine.upload(&vec![0u32; STAGE]);
    let memory = machine.upload(&tensor);
    let map = case.map(memory).bytes();
    let place = machine.upload(&map);
    let config = LaunchConfig { grid: [1; 3], block: [64, 1, 1], dynamic_shared_bytes: 0 };
    let arguments = [Argument::Pointer(output), Argument::Bytes(&[0; 128]), Argument::Pointer(place)];
    machine.device.launch(&module, "test", config, &arguments).unwrap();
    assert_eq!(machine.download::<u8>(output, STAGE * 4), want);
}
