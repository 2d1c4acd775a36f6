//! The copies for the step after the next go into the stage at hand as soon as its product has been started. It reads shared memory
//! until it has been waited for.

use crate::boxes::*;
use crate::*;
use kernel_common::barriers::{arrive_and_expect, sleep};
use kernel_common::tensor_maps::load;
use kernel_common::warpgroups::{Bf16x64, Product};

/// What is wrong here.
pub const MISTAKE: Mistake = Mistake {
    name: "boxes_into_a_stage_still_read",
    right: "boxes_into_a_stage_still_read_right",
    title: "tiles are copied over those that a product still reads",
    launch: Launch::Boxes,
    before: Before::Unwritten,
    factors: ElementType::Bf16,
    is_product: true,
    shows: Shows::Always,
    found: &[
        Found::between(Kind::WriteAfterRead, "multiply", "copy a"),
        Found::between(Kind::WriteAfterRead, "multiply", "copy b"),
    ],
};

entries_of_boxes!(boxes_into_a_stage_still_read, boxes_into_a_stage_still_read_right);

#[inline(always)]
unsafe fn work<const BROKEN: bool>(maps: Maps, c: *mut f32, m: usize, n: usize, k: usize) {
    let worker = Worker::new();
    let start = |step: u32| {
        let (stage, full, place) = (worker.stage(step), worker.full(step), step * SIDE as u32);
        arrive_and_expect(full, STAGE);
        load(stage, maps.a, [place, worker.row, 0], full); // <- copy a
        load(stage + BOX, maps.b, [worker.column, place, 0], full); // <- copy b
    };
    let steps = k.div_ceil(SIDE) as u32;
    if worker.copies() {
        start(0);
        if steps > 1 {
            start(1);
        }
    }
    let mut sums = Bf16x64::unset();
    let mut step = 0;
    loop {
        sleep(worker.full(step), worker.parity(step));
        multiply!(&mut sums, worker.descriptors(step), step); // <- multiply
        if !BROKEN {
            Bf16x64::wait::<0>(&mut sums);
            thread::sync_threads();
        }
        if worker.copies() && step + 2 < steps {
            start(step + 2);
        }
        if BROKEN {
            Bf16x64::wait::<0>(&mut sums);
            thread::sync_threads();
        }
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
