//! A block ends when its sums are stored. The other block of the cluster may be slower, and arrive at the barriers of a block that
//! isn't there any more.

use crate::boxes::*;
use crate::*;
use kernel_common::barriers::{arrive, arrive_and_expect, initialise, show_to_copies, sleep};
use kernel_common::clusters;
use kernel_common::tensor_maps::{load, load_for_blocks};
use kernel_common::warpgroups::{Bf16x64, Product};

/// What is wrong here.
pub const MISTAKE: Mistake = Mistake {
    name: "block_ends_before_the_other",
    right: "block_ends_before_the_other_right",
    title: "a block ends, and the other one still arrives at its barriers",
    launch: Launch::Pairs,
    before: Before::Unwritten,
    factors: ElementType::Bf16,
    is_product: true,
    shows: Shows::Always,
    found: &[Found::at(Kind::BlockExitsEarly, "release")],
};

entries_of_pairs!(block_ends_before_the_other, block_ends_before_the_other_right);

#[inline(always)]
unsafe fn work<const BROKEN: bool>(maps: Maps, c: *mut f32, m: usize, n: usize, k: usize) {
    let worker = Worker::here();
    if worker.copies() {
        for stage in 0..STAGES {
            initialise(worker.full(stage), 1);
            initialise(worker.empty(stage), 2);
        }
        show_to_copies();
    }
    clusters::sync();
    let start = |step: u32| {
        let (stage, full, place) = (worker.stage(step), worker.full(step), step * SIDE as u32);
        sleep(worker.empty(step), worker.parity(step) ^ 1);
        arrive_and_expect(full, STAGE);
        if clusters::rank() == step % 2 {
            load_for_blocks(stage, maps.a, [place, worker.row, 0], full, 3);
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
        multiply!(&mut sums, worker.descriptors(step), step);
        Bf16x64::wait::<0>(&mut sums);
        if worker.copies() {
            arrive(worker.empty(step));
            let of_the_other = clusters::address_in(1 - clusters::rank(), worker.empty(step));
            clusters::arrive_at(of_the_other); // <- release
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
    if !BROKEN {
        clusters::sync();
    }
}
