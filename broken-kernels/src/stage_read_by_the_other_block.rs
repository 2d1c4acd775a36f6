//! A stage counts as empty when the block's own product is through. What goes into it goes into the other block's as well, which may
//! still be multiplying.

use crate::boxes::*;
use crate::*;
use kernel_common::barriers::{arrive, arrive_and_expect, initialise, show_to_copies, sleep};
use kernel_common::clusters;
use kernel_common::tensor_maps::{load, load_for_blocks};
use kernel_common::warpgroups::{Bf16x64, Product};

/// What is wrong here.
pub const MISTAKE: Mistake = Mistake {
    name: "stage_read_by_the_other_block",
    right: "stage_read_by_the_other_block_right",
    title: "tiles are copied over those that the other block's product still reads",
    launch: Launch::Pairs,
    before: Before::Unwritten,
    factors: ElementType::Bf16,
    is_product: true,
    shows: Shows::Always,
    found: &[Found::between(Kind::WriteAfterRead, "multiply", "copy a")],
};

entries_of_pairs!(stage_read_by_the_other_block, stage_read_by_the_other_block_right);

#[inline(always)]
unsafe fn work<const BROKEN: bool>(maps: Maps, c: *mut f32, m: usize, n: usize, k: usize) {
    let worker = Worker::here();
    if worker.copies() {
        for stage in 0..STAGES {
            initialise(worker.full(stage), 1);
            initialise(worker.empty(stage), if BROKEN { 1 } else { 2 });
        }
        show_to_copies();
    }
    clusters::sync();
    let start = |step: u32| {
        let (stage, full, place) = (worker.stage(step), worker.full(step), step * SIDE as u32);
        sleep(worker.empty(step), worker.parity(step) ^ 1);
        arrive_and_expect(full, STAGE);
        if clusters::rank() == step % 2 {
            load_for_blocks(stage, maps.a, [place, worker.row, 0], full, 3); // <- copy a
        }
        load(stage + BOX, maps.b, [worker.column, place, 0], full);
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
        Bf16x64::wait::<0>(&mut sums);
        if worker.copies() {
            arrive(worker.empty(step));
            if !BROKEN {
                clusters::arrive_at(clusters::address_in(1 - clusters::rank(), worker.empty(step)));
            }
            if step + 2 < steps {
                start(step + 2);
            }
        }
        step += 1;
        if step == steps {
            break;
        }
    }
    for (at, sum) in sums.into_iter().enumerate() {
        let (row, column) = worker.place(at);
        if let Some(index) = worker.index((row, column + at as u32 % 2), m, n) {
            *c.add(index) = sum;
        }
    }
    clusters::sync();
}
