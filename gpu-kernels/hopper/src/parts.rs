//! Products of factors in two parts: as exact as f32's.
//!
//! For 64 or 128 numbers along k ([`Shape::PAIRS`]) products are summed by the tensor cores, from zero; then the sums, scaled, are added to others in f32,
//! as a multiply-add rounds it. For tensor cores cut off what doesn't fit, and in long sums that adds up.

use cuda_std::*;
use kernel_common::call::TensorCall;
use kernel_common::warpgroups::Product;
use kernel_common::{barriers, tensor_maps, vectors};

use crate::output;
use crate::pipelined::{Maps, Ring, StepIn, Tiles, Turn};
use crate::shape::{Shape, WARPGROUP};
use crate::split::{warp_most, BLOCK, FLAGS};

/// Warps that have a part in the verdict: those of the first warpgroup beside the one that copies.
pub(crate) const JUDGES: u32 = 3;

/// Looks, while others multiply, whether something is suspect: all [flags](FLAGS) that the splitting has left.
///
/// # Safety
///
/// Threads 32 to 127 must come here; there must be so many flags behind `suspect`, and a barrier of [`JUDGES`] arrivals at `verdict`, with words behind it.
#[inline(always)]
pub(crate) unsafe fn judge(verdict: u32, flags: u32, suspect: u64) {
    let thread = thread::thread_idx_x() - 32;
    let load = |at: u32| vectors::load_global_word(suspect + FLAGS + 4 * at as u64).to_bits();
    let (step, mut at, mut raised) = (32 * JUDGES, thread, 0);
    // Four at a time, so that they are on their way together.
    while at + 3 * step < flags {
        let four = [load(at), load(at + step), load(at + 2 * step), load(at + 3 * step)];
        raised |= four[0] | four[1] | four[2] | four[3];
        at += 4 * step;
    }
    while at < flags {
        raised |= load(at);
        at += step;
    }
    let raised = warp_most(raised);
    if thread.is_multiple_of(32) {
        vectors::store_shared_word(verdict + 8 + 4 * (thread / 32), f32::from_bits(raised));
        barriers::arrive(verdict);
    }
}

/// Waits for the verdict; gives whether something is suspect.
#[inline(always)]
unsafe fn is_suspect(verdict: u32) -> bool {
    barriers::sleep(verdict, 0);
    let mut raised = 0;
    for judge in 0..JUDGES {
        raised |= vectors::load_shared_word(verdict + 8 + 4 * judge).to_bits();
    }
    raised != 0
}

/// A warpgroup that multiplies: 64 rows of every tile. If something is suspect it stores nothing. The first block leaves at `suspect` whether something is.
///
/// # Safety
///
/// As for [`product`](crate::pipelined::product).
#[inline(always)]
pub(crate) unsafe fn multiply<S: Shape>(
    maps: Maps,
    call: &TensorCall,
    tiles: Tiles,
    ring: Ring,
    multiplier: u32,
    suspect: u64,
) {
    let thread = thread::thread_idx_x() % WARPGROUP as u32;
    let (warp, lane) = (thread / 32, thread % 32);
    let staging = ring.staging::<S>(multiplier);
    // Where this thread's scales are among a block's: two rows, and of every 8 columns two.
    let row_scale = 4 * (64 * multiplier + 16 * warp + lane / 4);
    let column_scale = 4 * (S::ROWS as u32 + 2 * (lane % 4));
    let mut turn = Turn::FIRST;
    let mut block = 0;
    let mut tile = thread::block_idx_x();
    while tile < tiles.number {
        let place = tiles.place::<S>(call, tile);
        let mut total = S::Product::zeros();
        let mut k = place.from;
        loop {
            let mut sums = S::Product::unset();
            for pair in 0..S::PAIRS {
                let first = turn;
                barriers::sleep(ring.full(first.stage), first.parity);
                let second = first.next::<S>();
                barriers::sleep(ring.full(second.stage), second.parity);
                turn = second.next::<S>();
                let (a, b) = ring.descriptors::<S>(first, multiplier);
                let (c, d) = ring.descriptors::<S>(second, multiplier);
                S::Product::two_steps_of_parts_in::<S>(&mut sums, [a, c], [b, d], pair as u32);
                S::Product::wait::<0>(&mut sums);
                if thread == 0 {
                    barriers::arrive(ring.empty(first.stage));
                    barriers::arrive(ring.empty(second.stage));
                }
            }
            let scales = ring.scales::<S>(block);
            let rows = [row_scale, row_scale + 32].map(|at| vectors::load_shared_word(scales + at));
            let (sums, total) = (sums.as_ref(), total.as_mut());
            for group in 0..sums.len() / 4 {
                let columns = vectors::load_shared_pair(scales + column_scale + 32 * group as u32);
                for e in 0..4 {
                    let scale = rows[e / 2] * columns[e % 2];
                    let at = 4 * group + e;
                    total[at] = sums[at].mul_add(scale, total[at]);
                }
            }
            k += (2 * S::PAIRS * S::DEPTH) as u32;
            if k >= place.to {
                break;
            }
            block += k.is_multiple_of(2 * BLOCK) as u32;
        }
        block += 1;
        let first = [place.column, place.row + 64 * multiplier, place.output];
        let is_suspect = is_suspect(ring.verdict::<S>());
        // Every launch has the tile 0.
        if tile == 0 && multiplier == 0 && thread == 0 {
            vectors::store_global_word(suspect, f32::from_bits(is_suspect as u32));
        }
        if !is_suspect {
            output::store::<S>(total.as_ref(), maps.c, call, first, staging, multiplier);
        }
        tile += thread::grid_dim_x();
    }
    if thread == 0 {
        tensor_maps::wait_for_reads::<0>();
    }
}
