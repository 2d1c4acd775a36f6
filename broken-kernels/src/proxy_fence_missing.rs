//! Sums go to C through shared memory: every thread writes its own, a barrier, and one thread asks for the copies. But copies see
//! shared memory another way than threads do, and no fence between the two makes them see what has been written.

use crate::boxes::*;
use crate::*;
use kernel_common::barriers::{arrive_and_expect, sleep};
use kernel_common::tensor_maps::{commit_stores, load, show_to_copies, store, wait_for_reads};
use kernel_common::vectors::store_shared_pair;
use kernel_common::warpgroups::{Bf16x64, Product};

/// What is wrong here.
pub const MISTAKE: Mistake = Mistake {
    name: "proxy_fence_missing",
    right: "proxy_fence_missing_right",
    title: "a copy to C reads what threads wrote, without a fence between the proxies",
    launch: Launch::Boxes,
    before: Before::Unwritten,
    factors: ElementType::Bf16,
    is_product: true,
    shows: Shows::Always,
    found: &[Found::between(Kind::MissingProxyFence, "write", "store")],
};

entries_of_boxes!(proxy_fence_missing, proxy_fence_missing_right);

#[inline(always)]
unsafe fn work<const BROKEN: bool>(maps: Maps, _c: *mut f32, _m: usize, _n: usize, k: usize) {
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
    for (number, pair) in sums.chunks_exact(2).enumerate() {
        let to = worker.staged(worker.place(2 * number));
        store_shared_pair(to, [pair[0], pair[1]]); // <- write
    }
    if !BROKEN {
        show_to_copies();
    }
    thread::sync_threads();
    if worker.copies() {
        for number in 0..(SIDE / C_COLUMNS) as u32 {
            let column = worker.column + number * C_COLUMNS as u32;
            store(maps.c, [column, worker.row, 0], worker.staging(number)); // <- store
        }
        commit_stores();
        wait_for_reads::<0>();
    }
}
