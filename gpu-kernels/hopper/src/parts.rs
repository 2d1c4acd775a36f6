//! Products of factors in two parts: as exact as f32's.
//!
//! For 64 numbers along k products are summed by the tensor cores, from zero; then the sums are added to others in f32. For
//! tensor cores cut off what doesn't fit, and in long sums that adds up.
//!
//! As long as the blocks along k have the same scales, a warp adds sums as they are, and scales the total at the end. From the first block with others on
//! each is scaled as it's added. Scales are powers of two, so that both come to the same; but two thirds of the instructions are saved, and with them
//! power, which is what large products are short of: a fifth of the time at 8192, with a tile of 128 x 192.
//!
//! Two warpgroups multiply. Each has half of a tile's rows, or, [by turns](Shape::BY_TURNS), every second 64 along k of the whole tile; then each
//! gives the other its sums of half of the columns. [Two blocks](Shape::BLOCKS_ALONG_K) can share a tile, each with half of K; they give each other half of
//! the columns, too, through the shared memory of their cluster.
//!
//! Warpgroups that have rows of their own have the [tensor cores in turn](Shape::ALTERNATES): at a named barrier one waits until two thirds of the other's
//! products are through. Left to themselves both would multiply, at half the speed each, and then both add up, while the tensor cores rest. Under load that's
//! 3 % of the time at 8192 and 10 % at 16384, with a tile of 128 x 192; with one of 128 x 128 it's at most 2 %.
//!
//! A warpgroup that has every second 64 waits for the copies of those between, too. A barrier only tells the phase that it's in from the one before, so
//! that whoever lets a phase pass doesn't know the next one; and the scales come with the first of two 64, but are for both. It does so before
//! it gives back its own stages: as long as it has them, the copies can't be a whole round ahead.
//!
//! What tensor cores cut off makes sums too small. The mean of it is given back at the end, but not to a sum whose last bits are zero: most likely nothing
//! was cut off there. So sums of whole numbers stay exact, below 2^21.

use cuda_std::*;
use kernel_common::call::TensorCall;
use kernel_common::position::anew;
use kernel_common::warpgroups::Product;
use kernel_common::{barriers, clusters, vectors, warpgroups, Call};

use crate::ieee;
use crate::output::{self, Boxes};
use crate::pipelined::{
    give_back_to_others, leave, part_of_k, rank_along_k, sync_multiplying, Maps, Place, Ring, StepIn, Tiles, Turn,
};
use crate::shape::{Shape, MULTIPLIERS, MULTIPLYING, WARPGROUP};
use crate::split::{warp_most, BLOCK};

/// The mean of what tensor cores have cut off a sum, by the sum: 0.75 (of numbers of both signs) to 1.5 units in the last place (of one sign) where
/// 64 along k are summed up, measured on an H200.
const CUT_OFF: f32 = f32::EPSILON;
/// The bits of a sum that tell whether something was cut off.
const LAST_BITS: u32 = 7;
/// The least inner dimension at which something is given back.
const LEAST_CUT_OFF: u32 = BLOCK / 4;

/// Warps that have a part in the verdict: those of the first warpgroup beside the one that copies.
pub(crate) const JUDGES: u32 = 3;

/// How often a warpgroup arrives at its own block's empty barrier of a stage: once a warp, since each only knows what it has read of the scales itself.
pub(crate) const ARRIVALS: u32 = WARPGROUP as u32 / 32;

/// Of blocks that share a tile, which of the gifts to the first warpgroup comes from its own block's second one. Those from the other block come before.
const OF_OWN_BLOCK: u32 = MULTIPLIERS as u32;

/// How often it's said that the other block's gifts are there, beside their bytes: by the thread that says how many these are.
pub(crate) const GIVERS: u32 = 1;

/// How often it's said that the other block's gifts were taken: by each warp of its first warpgroup.
pub(crate) const TAKERS: u32 = ARRIVALS;

/// Looks, while others multiply, whether something is suspect: at all `number` flags that the splitting has left.
///
/// # Safety
///
/// Threads 32 to 127 must come here; there must be so many `flags`, and a barrier of [`JUDGES`] arrivals at `verdict`, with words behind it.
#[inline(always)]
pub(crate) unsafe fn judge(verdict: u32, number: u32, flags: u64) {
    let thread = thread::thread_idx_x() - 32;
    let load = |at: u32| vectors::load_global_word(flags + 4 * at as u64).to_bits();
    let (step, mut at, mut raised) = (32 * JUDGES, thread, 0);
    // Four at a time, so that they are on their way together.
    while at + 3 * step < number {
        let four = [load(at), load(at + step), load(at + 2 * step), load(at + 3 * step)];
        raised |= four[0] | four[1] | four[2] | four[3];
        at += 4 * step;
    }
    while at < number {
        raised |= load(at);
        at += step;
    }
    let raised = warp_most(raised);
    if thread.is_multiple_of(32) {
        vectors::store_shared_word(verdict + 8 + 4 * (thread / 32), f32::from_bits(raised));
        barriers::arrive(verdict);
    }
}

/// The barrier at which the first warpgroup waits for its turn at the tensor cores; the second one's is the next. Those before are the block's, one of each
/// warpgroup and one of both. Threads of both come to it: those that wait and those that let them go on.
const FIRST_TURN: u32 = 2 + MULTIPLIERS as u32;

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

/// A warpgroup that multiplies: all tiles of the block, in parts; if something is suspect, then all of them once more [by multiply-adds](ieee).
///
/// # Safety
///
/// As for [`product`](crate::pipelined::product).
#[inline(always)]
pub(crate) unsafe fn product<S: Shape>(
    maps: Maps,
    call: &TensorCall,
    whole: &Call,
    tiles: Tiles,
    ring: Ring,
    multiplier: u32,
) {
    let thread = thread::thread_idx_x() % WARPGROUP as u32;
    let mut tile = Tiles::first::<S>();
    // Of blocks that share a short K one may have nothing of it, of any tile.
    let [from, to] = part_of_k::<S>(call);
    let has_steps = S::BLOCKS_ALONG_K == 1 || from < to;
    let mut work = Work::new::<S>(ring, multiplier, has_steps);
    while tile < tiles.number {
        let place = tiles.place::<S>(call, tile);
        let mut total = S::Product::zeros();
        let is_last = tile + Tiles::step::<S>() >= tiles.number;
        if has_steps {
            work.multiply::<S>(place, &mut total, tile == Tiles::first::<S>(), is_last);
        }
        if S::BLOCKS_ALONG_K > 1 {
            work.exchange_with_block::<S>(&mut total, is_last);
        } else if S::BY_TURNS {
            work.exchange::<S>(&mut total);
        }
        if work.stores::<S>() {
            let total = total.as_mut();
            let own = if S::BY_TURNS { S::GIVEN } else { total.len() };
            let own = &mut total[..own];
            if whole.k >= LEAST_CUT_OFF {
                for i in 0..own.len() {
                    let missing = if own[i].to_bits() & LAST_BITS == 0 { 0.0 } else { CUT_OFF };
                    own[i] = own[i].mul_add(missing, own[i]);
                }
            }
            let boxes = Boxes::new::<S>(ring, multiplier, is_last);
            if !is_suspect(ring.verdict::<S>()) {
                work.store::<S>(maps, call, place, own, boxes);
            }
        }
        tile += Tiles::step::<S>();
    }
    leave::<S>(thread);
    // There was a tile, so there is a verdict.
    if is_suspect(ring.verdict::<S>()) {
        // Blocks that have shared tiles take one each here.
        let blocks = S::CLUSTER as u32;
        let (mut tile, step) = (thread::block_idx_x() / blocks, thread::grid_dim_x() / blocks);
        while tile < tiles.number {
            ieee::compute_tile::<S>(whole, tiles.place::<S>(call, tile), ring.stages());
            tile += step;
        }
    }
}

/// Where a warpgroup is in its work.
struct Work {
    ring: Ring,
    multiplier: u32,
    thread: u32,
    /// Where this thread's scales are among a block's: of two rows, and of every 8 columns two.
    row_scale: u32,
    column_scale: u32,
    turn: Turn,
    /// The block along k, counted through all tiles.
    block: u32,
    /// Tiles whose sums were exchanged with the other block.
    exchanged: u32,
}

impl Work {
    #[inline(always)]
    unsafe fn new<S: Shape>(ring: Ring, multiplier: u32, has_steps: bool) -> Work {
        let thread = thread::thread_idx_x() % WARPGROUP as u32;
        let (warp, lane) = (thread / 32, thread % 32);
        let first = Turn::FIRST;
        if S::BY_TURNS {
            if multiplier > 0 && has_steps {
                ring.wait_for_two::<S>(first);
            }
            // Before the first warpgroup gives its first stages back: by then the second has seen that they were full.
            sync_multiplying();
        }
        Work {
            ring,
            multiplier,
            thread,
            row_scale: 4 * (64 * Work::rows_of::<S>(multiplier) + 16 * warp + lane / 4),
            column_scale: 4 * (S::ROWS as u32 + 2 * (lane % 4)),
            turn: if S::BY_TURNS && multiplier > 0 { first.next::<S>().next::<S>() } else { first },
            block: 0,
            exchanged: 0,
        }
    }

    /// Which 64 rows of a tile are a warpgroup's.
    #[inline(always)]
    fn rows_of<S: Shape>(multiplier: u32) -> u32 {
        if S::BY_TURNS {
            0
        } else {
            multiplier
        }
    }

    /// Multiplies what is this warpgroup's of a tile, which may be the block's last one.
    #[inline(always)]
    unsafe fn multiply<S: Shape>(
        &mut self,
        place: Place,
        total: &mut <S::Product as Product>::Sums,
        is_first_tile: bool,
        is_last_tile: bool,
    ) {
        let ring = self.ring;
        let mut k = place.from;
        // As long as all blocks have the same scales, the sums are added up as they are, and scaled at the end.
        let mut are_alike = anew(S::MAY_SCALE_LAST as u32);
        let mut aside = Aside::<S>::new(self);
        loop {
            let mut sums = S::Product::unset();
            let first = self.turn;
            let second = ring.wait_for_two::<S>(first);
            self.turn = second.next::<S>();
            if S::BY_TURNS {
                // The next two are the other's.
                self.turn = self.turn.next::<S>().next::<S>();
            }
            let rows = Work::rows_of::<S>(self.multiplier);
            let (a, b) = ring.descriptors::<S>(first, rows);
            let (c, d) = ring.descriptors::<S>(second, rows);
            let is_first = k == place.from && is_first_tile;
            // The first turn of all is nobody's to give.
            if S::ALTERNATES && !(self.multiplier == 0 && is_first) {
                warpgroups::sync_some(FIRST_TURN + self.multiplier, MULTIPLYING as u32);
            }
            S::Product::two_steps_of_parts_in::<S>(&mut sums, [a, c], [b, d]);
            let is_last = is_last_tile && k + (2 * S::DEPTH) as u32 >= place.to;
            if S::ALTERNATES && !(self.multiplier > 0 && is_last) {
                // When two thirds are through, so that the tensor cores have no pause. (For the last turn of all nobody waits.)
                S::Product::wait::<1>(&mut sums);
                warpgroups::arrive_at_some(FIRST_TURN + 1 - self.multiplier, MULTIPLYING as u32);
            }
            S::Product::wait::<0>(&mut sums);
            // The last one of all has no next one.
            if S::BY_TURNS && (self.multiplier == 0 || k + 2 * BLOCK < place.to || !is_last_tile) {
                ring.wait_for_two::<S>(second.next::<S>());
            }
            // Who arrives has read the scales of the step before.
            barriers::sync_warp();
            if self.thread.is_multiple_of(32) {
                barriers::arrive(ring.empty(first.stage));
                barriers::arrive(ring.empty(second.stage));
            }
            if S::CLUSTER > 1 && self.thread == 0 {
                // Once is enough there: who copies B into these stages too waits for products only, since scales are each block's own.
                give_back_to_others::<S>(ring.empty(first.stage));
                give_back_to_others::<S>(ring.empty(second.stage));
            }
            let (sums, total) = (sums.as_ref(), total.as_mut());
            let is_next_block = k > place.from && k.is_multiple_of(2 * BLOCK);
            if S::MAY_SCALE_LAST && are_alike != 0 && is_next_block && self.has_other_scales_than_the_one_before::<S>()
            {
                self.for_each_scale::<S>(self.block - 1, |i, scale| total[i] *= scale);
                are_alike = anew(0);
            }
            if S::MAY_SCALE_LAST && are_alike != 0 {
                for i in 0..sums.len() {
                    total[i] += sums[i];
                }
            } else {
                self.for_each_scale::<S>(self.block, |i, scale| total[i] = sums[i].mul_add(scale, total[i]));
            }
            if S::PUT_ASIDE.is_some_and(|blocks| (k / (2 * BLOCK) + 1).is_multiple_of(blocks)) {
                aside.put(total);
            }
            if S::BY_TURNS {
                // Each has one of the two 64 that a block has along k.
                k += 2 * BLOCK;
                self.block += 1;
                if k >= place.to {
                    break;
                }
            } else {
                k += (2 * S::DEPTH) as u32;
                let is_through = k >= place.to;
                self.block += (is_through || k.is_multiple_of(2 * BLOCK)) as u32;
                if is_through {
                    break;
                }
            }
        }
        if S::MAY_SCALE_LAST && are_alike != 0 {
            let total = total.as_mut();
            self.for_each_scale::<S>(self.block - 1, |i, scale| total[i] *= scale);
        }
        if S::PUT_ASIDE.is_some() {
            aside.add_to(total.as_mut());
        }
    }

    /// Whether a row or a column of this warp's has another scale in this block along k than in the one before.
    #[inline(always)]
    unsafe fn has_other_scales_than_the_one_before<S: Shape>(&self) -> bool {
        let (this, before) = (self.ring.scales::<S>(self.block), self.ring.scales::<S>(self.block - 1));
        let (warp, lane) = (self.thread / 32, self.thread % 32);
        let row = 4 * (64 * Work::rows_of::<S>(self.multiplier) + 16 * warp + lane % 16);
        let [x, y] = [this, before].map(|scales| vectors::load_shared_word(scales + row).to_bits());
        let mut differences = x ^ y;
        for i in 0..S::COLUMNS as u32 / 64 {
            let columns = 4 * (S::ROWS as u32 + 64 * i + 2 * lane);
            let [x, y] = [this, before].map(|scales| vectors::load_shared_pair(scales + columns).map(f32::to_bits));
            differences |= x[0] ^ y[0] | x[1] ^ y[1];
        }
        warp_most(differences) != 0
    }

    /// What the scales of a block along k make of each of this thread's sums.
    #[inline(always)]
    unsafe fn for_each_scale<S: Shape>(&self, block: u32, mut apply: impl FnMut(usize, f32)) {
        let scales = self.ring.scales::<S>(block);
        let rows = [self.row_scale, self.row_scale + 32].map(|at| vectors::load_shared_word(scales + at));
        for group in 0..S::COLUMNS / 8 {
            let columns = vectors::load_shared_pair(scales + self.column_scale + 32 * group as u32);
            for e in 0..4 {
                apply(4 * group + e, rows[e / 2] * columns[e % 2]);
            }
        }
    }

    /// Whether this warpgroup stores anything: of blocks that share a tile the first one adds up all.
    #[inline(always)]
    fn stores<S: Shape>(&self) -> bool {
        S::BLOCKS_ALONG_K == 1 || self.multiplier == 0
    }

    /// Gives the other block this one's sums of the columns that it stores, and, in the warpgroup that [stores](Work::stores), adds up all sums of this
    /// one's columns, which come first then.
    ///
    /// Each block waits for all that it's given, so that nobody writes to one that has ended; and who has taken the last tile's gifts keeps it to himself.
    ///
    /// # Safety
    ///
    /// All threads of both blocks that multiply must come here, once for each tile.
    #[inline(always)]
    unsafe fn exchange_with_block<S: Shape>(&mut self, total: &mut <S::Product as Product>::Sums, is_last_tile: bool) {
        let total = total.as_mut();
        let rank = rank_along_k::<S>();
        let (are_given, are_taken) = (self.ring.given::<S>(), self.ring.taken::<S>());
        let of_other = |address: u32| clusters::address_in(1 - rank, address);
        // Where four sums of a gift are; neighbouring threads are neighbours there.
        let place = |gift: u32, i: usize| {
            self.ring.exchange::<S>() + gift * S::GIFT as u32 + 16 * (i * WARPGROUP) as u32 + 16 * self.thread
        };
        let four = |total: &[f32], i: usize, is_second_half: bool| {
            let at = |j: usize| if is_second_half { total[S::GIVEN + 4 * i + j] } else { total[4 * i + j] };
            [at(0), at(1), at(2), at(3)]
        };
        if self.multiplier == 0 && self.thread == 0 {
            barriers::arrive_and_expect(are_given, (MULTIPLIERS * S::GIFT) as u32);
        }
        if self.exchanged > 0 {
            // The gifts of the tile before were taken: by the other block, and, as all of this one meet here, by its first warpgroup.
            clusters::sleep(are_taken, (self.exchanged - 1) % 2);
            sync_multiplying();
        }
        let (to, barrier) = (of_other(place(self.multiplier, 0)), of_other(are_given));
        for i in 0..S::GIVEN / 4 {
            clusters::store_and_report(to + 16 * (i * WARPGROUP) as u32, four(total, i, rank == 0), barrier);
        }
        if !self.stores::<S>() {
            for i in 0..S::GIVEN / 4 {
                vectors::store_shared(place(OF_OWN_BLOCK, i), four(total, i, rank != 0));
            }
        }
        sync_multiplying();
        // Asked anew: else the compiler joins this with the question above and makes two barriers of the one between, which synccheck takes for a mistake.
        if anew(self.multiplier) == 0 {
            clusters::sleep(are_given, self.exchanged % 2);
            for i in 0..S::GIVEN / 4 {
                let mut sums = four(total, i, rank != 0);
                let [first, second, own] = [0, 1, OF_OWN_BLOCK].map(|gift| vectors::load_shared(place(gift, i)));
                for j in 0..4 {
                    sums[j] = (sums[j] + own[j]) + (first[j] + second[j]);
                }
                total[4 * i..4 * i + 4].copy_from_slice(&sums);
            }
            // After the last tile the other block may be gone.
            if !is_last_tile {
                barriers::sync_warp();
                if self.thread.is_multiple_of(32) {
                    clusters::release_at(of_other(are_taken));
                }
            }
        }
        self.exchanged += 1;
    }

    /// Gives the other warpgroup this one's sums of the columns that it stores, and adds its sums of the others. What doesn't belong to this
    /// warpgroup's columns is nothing then.
    #[inline(always)]
    unsafe fn exchange<S: Shape>(&self, total: &mut <S::Product as Product>::Sums) {
        let total = total.as_mut();
        let half = total.len() / 2;
        // Neighbouring threads are neighbours here.
        let at = |multiplier: u32, i: usize| {
            self.ring.exchange::<S>() + 4 * ((multiplier * half as u32 + i as u32) * WARPGROUP as u32 + self.thread)
        };
        // Of the tile before everything has been read.
        sync_multiplying();
        for i in 0..half {
            let given = if self.multiplier == 0 { total[half + i] } else { total[i] };
            vectors::store_shared_word(at(self.multiplier, i), given);
        }
        sync_multiplying();
        for i in 0..half {
            let kept = if self.multiplier == 0 { total[i] } else { total[half + i] };
            let other = vectors::load_shared_word(at(1 - self.multiplier, i));
            total[i] = kept + other;
        }
    }

    /// Stores this warpgroup's part of a tile.
    #[inline(always)]
    unsafe fn store<S: Shape>(&self, maps: Maps, call: &TensorCall, place: Place, total: &[f32], boxes: Boxes) {
        let row = place.row + 64 * Work::rows_of::<S>(self.multiplier);
        // Which half of the columns.
        let half = match (S::BLOCKS_ALONG_K, S::BY_TURNS) {
            (1, false) => 0,
            (1, true) => self.multiplier,
            _ => rank_along_k::<S>(),
        };
        let first = [place.column + half * S::COLUMNS as u32 / 2, row, place.output];
        output::store::<S>(total, maps.c, call, first, boxes);
    }
}

/// What a thread has put aside of its totals: in registers, or, where there are too few, in shared memory.
struct Aside<S: Shape> {
    totals: <S::Product as Product>::Sums,
    /// Where its totals in shared memory begin; neighbouring threads are neighbours there.
    memory: u32,
    is_empty: bool,
}

impl<S: Shape> Aside<S> {
    #[inline(always)]
    fn new(work: &Work) -> Aside<S> {
        let first = work.multiplier * (S::COLUMNS * WARPGROUP / 2) as u32 + work.thread;
        Aside { totals: S::Product::zeros(), memory: work.ring.aside::<S>() + 4 * first, is_empty: true }
    }

    #[inline(always)]
    fn place(&self, i: usize) -> u32 {
        self.memory + 4 * (i * WARPGROUP) as u32
    }

    /// Puts a total aside, which is zero then.
    #[inline(always)]
    unsafe fn put(&mut self, total: &mut [f32]) {
        for i in 0..total.len() {
            if S::HAS_FEW_SUMS {
                let before = if self.is_empty { 0.0 } else { vectors::load_shared_word(self.place(i)) };
                vectors::store_shared_word(self.place(i), before + total[i]);
            } else {
                self.totals.as_mut()[i] += total[i];
            }
            total[i] = 0.0;
        }
        self.is_empty = false;
    }

    /// Adds what was put aside.
    #[inline(always)]
    unsafe fn add_to(&self, total: &mut [f32]) {
        if self.is_empty {
            return;
        }
        for i in 0..total.len() {
            total[i] +=
                if S::HAS_FEW_SUMS { vectors::load_shared_word(self.place(i)) } else { self.totals.as_ref()[i] };
        }
    }
}
