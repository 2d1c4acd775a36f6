//! The barrier is told to expect the bytes of A's tile and not of B's. Its phase is complete when as many bytes have come, whichever
//! they are: either tile may be missing.

use crate::boxes::*;
use crate::*;
use kernel_common::barriers::{arrive_and_expect, sleep};
use kernel_common::tensor_maps::load;
use kernel_common::warpgroups::{Bf16x64, Product};

/// What is wrong here.
pub const MISTAKE: Mistake = Mistake {
    name: "boxes_too_few_bytes",
    right: "boxes_too_few_bytes_right",
    title: "a barrier expects the bytes of A's tile and gets those of B's as well",
    launch: Launch::Boxes,
    before: Before::Unwritten,
    factors: ElementType::Bf16,
    is_product: true,
    shows: Shows::Always,
    found: &[
        Found::between(Kind::ReadAfterWrite, "copy a", "multiply"),
        Found::between(Kind::ReadAfterWrite, "copy b", "multiply"),
        Found::at(Kind::CopyNeverAwaited, "copy a"),
        Found::at(Kind::CopyNeverAwaited, "copy b"),
    ],
};

entries_of_boxes!(boxes_too_few_bytes, boxes_too_few_bytes_right);

#[inline(always)]
unsafe fn work<const BROKEN: bool>(maps: Maps, c: *mut f32, m: usize, n: usize, k: usize) {
    let worker = Worker::new();
    let start = |step: u32| {
        let (stage, full, place) = (worker.stage(step), worker.full(step), step * SIDE as u32);
        arrive_and_expect(full, if BROKEN { BOX } else { STAGE });
        load(stage, maps.a, [place, worker.row, 0], full); // <- copy a
        load(stage + BOX, maps.b, [worker.column, place, 0], full); // <- copy b
    };
    let steps = k.div_ceil(SIDE) as u32;
    if worker.copies() {
        start(0);
    }
    let mut sums = Bf16x64::unset();
    let mut step = 0;
    loop {
        if worker.copies() && step + 1 < steps {
            start(step + 1);
        }
        sleep(worker.full(step), worker.parity(step));
        multiply!(&mut sums, worker.descriptors(step), step); // <- multiply
        Bf16x64::wait::<0>(&mut sums);
        thread::sync_threads();
        step += 1;
        if step == steps {
            break;
        }
    }
    for (at, sum) in sums.into_iter().enumerate() {
        let (row, column) = worker.place(at);
        if let Some(index) = worker.index((row, column + at as u32 % 2), m, n) {
            *c.add(index) = sum; // <- store
        }
    }
}
