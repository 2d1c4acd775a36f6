//! Everybody waits at a stage's barrier with the wrong parity. That of the phase before the first counts as complete, and so does
//! the one before any other: tensor cores read tiles whose copies are under way, and thread 0
//! arrives for the next phase while this one still lacks bytes.

use crate::boxes::*;
use crate::*;
use kernel_common::barriers::{arrive_and_expect, sleep};
use kernel_common::tensor_maps::load;
use kernel_common::warpgroups::{Bf16x64, Product};

/// What is wrong here.
pub const MISTAKE: Mistake = Mistake {
    name: "boxes_wrong_phase",
    right: "boxes_wrong_phase_right",
    title: "threads wait at the barrier of a stage for the phase before",
    launch: Launch::Boxes,
    before: Before::Unwritten,
    factors: ElementType::Bf16,
    is_product: true,
    shows: Shows::Always,
    found: &[
        Found::between(Kind::ReadAfterWrite, "copy a", "multiply"),
        Found::between(Kind::ReadAfterWrite, "copy b", "multiply"),
        Found::at(Kind::TooManyArrivals, "arrive"),
    ],
};

entries_of_boxes!(boxes_wrong_phase, boxes_wrong_phase_right);

#[inline(always)]
unsafe fn work<const BROKEN: bool>(maps: Maps, c: *mut f32, m: usize, n: usize, k: usize) {
    let worker = Worker::new();
    let start = |step: u32| {
        let (stage, full, place) = (worker.stage(step), worker.full(step), step * SIDE as u32);
        arrive_and_expect(full, STAGE); // <- arrive
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
        let parity = worker.parity(step);
        sleep(worker.full(step), if BROKEN { parity ^ 1 } else { parity });
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
