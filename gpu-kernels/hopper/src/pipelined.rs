//! The body of every kernel: one warpgroup copies, two multiply, and blocks stay for several tiles.
//!
//! Shared memory is a ring of stages, and each stage has two barriers: *full*, when the copies of its tiles have come, and *empty*, when the
//! warpgroups that multiply are through with it. The one thread that copies runs ahead as far as there are empty stages, into the next tile of C
//! too; so copies go on while sums are stored.
//!
//! Blocks of a [cluster](Shape::CLUSTER) fill each other's stages, as the book's lesson `cluster` explains, or [share a tile](Shape::BLOCKS_ALONG_K).

use cuda_std::*;
use kernel_common::call::TensorCall;
use kernel_common::vectors::dynamic_shared_memory;
use kernel_common::warpgroups::{self, Product};
use kernel_common::{barriers, clusters, grids, tensor_maps, Call};

use crate::output::{self, Boxes};
use crate::parts;
use crate::shape::{Shape, BOX, MULTIPLIERS, MULTIPLYING, THREADS, VERDICT, WARPGROUP};
use crate::split::BLOCK;
use crate::turned;

/// Registers of a thread that copies.
const COPYING_REGISTERS: u32 = 40;
/// Registers of a thread that multiplies.
const MULTIPLYING_REGISTERS: u32 = 232;
// Whoever takes registers waits until the block has them, and for more than it began with that's for ever. It began with what a multiprocessor has,
// shared out in eights.
const _: () = {
    let at_first = 65_536 / THREADS as u32 / 8 * 8;
    let multiplying = MULTIPLIERS as u32 * MULTIPLYING_REGISTERS;
    assert!(COPYING_REGISTERS + multiplying <= (1 + MULTIPLIERS as u32) * at_first);
};

/// The addresses of a kernel's tensor maps.
#[derive(Clone, Copy)]
pub struct Maps {
    /// A's: boxes of 128 bytes and as many rows as a tile of A has (where they lie across k, as many as it has steps).
    pub a: u64,
    /// B's: the same for a tile of B, or for the share of it that a block of a cluster copies.
    pub b: u64,
    /// C's: boxes of 64 rows of 128 bytes.
    pub c: u64,
    /// The scales of A's rows, if they are in parts: as many as a tile of C has rows, for one block along k.
    pub a_scales: u64,
    /// The same for B's columns.
    pub b_scales: u64,
}

/// A tile of C, or of one split's.
#[derive(Clone, Copy)]
pub(crate) struct Place {
    pub(crate) row: u32,
    pub(crate) column: u32,
    /// The product whose factors are multiplied.
    pub(crate) product: u32,
    /// The matrix that the sums go to: with a C for every split, those of a product follow each other.
    pub(crate) output: u32,
    /// The steps along k.
    pub(crate) from: u32,
    pub(crate) to: u32,
}

/// The tiles of a batch of products, in the order in which they are computed: down a group of rows of tiles, column by column. With clusters, a row has
/// the tiles of as many rows as a cluster has blocks.
#[derive(Clone, Copy)]
pub(crate) struct Tiles {
    down: u32,
    across: u32,
    group: u32,
    pub(crate) number: u32,
}

impl Tiles {
    #[inline(always)]
    fn new<S: Shape>(call: &TensorCall) -> Tiles {
        let rows = (S::ROWS * S::CLUSTER) as u32;
        let (down, across) = (call.m.div_ceil(rows), call.n.div_ceil(S::COLUMNS as u32));
        let group = if S::CLUSTER == 1 { call.group } else { (call.group / S::CLUSTER as u32).max(1) };
        Tiles { down, across, group, number: down * across * call.batch * call.splits }
    }

    /// This block's first tile.
    #[inline(always)]
    pub(crate) fn first<S: Shape>() -> u32 {
        thread::block_idx_x() / (S::CLUSTER * S::BLOCKS_ALONG_K) as u32
    }

    /// From one of its tiles to the next.
    #[inline(always)]
    pub(crate) fn step<S: Shape>() -> u32 {
        thread::grid_dim_x() / (S::CLUSTER * S::BLOCKS_ALONG_K) as u32
    }

    #[inline(always)]
    pub(crate) fn place<S: Shape>(&self, call: &TensorCall, tile: u32) -> Place {
        let of_product = self.down * self.across;
        // SAFETY: there is a tile, so neither is 0; a group isn't empty.
        unsafe { core::hint::assert_unchecked(of_product != 0 && self.group != 0 && self.across != 0) };
        let (output, tile) = (tile / of_product, tile % of_product);
        let of_group = self.group * self.across;
        unsafe { core::hint::assert_unchecked(of_group != 0) };
        let (group, within) = (tile / of_group, tile % of_group);
        let first = group * self.group;
        let rows = self.group.min(self.down - first);
        unsafe { core::hint::assert_unchecked(rows != 0) };
        let (row, column) = (first + within % rows, within / rows * S::COLUMNS as u32);
        let row = (row * S::CLUSTER as u32 + rank::<S>()) * S::ROWS as u32;
        if S::BLOCKS_ALONG_K > 1 {
            let [from, to] = part_of_k::<S>(call);
            return Place { row, column, product: output, output, from, to };
        }
        if call.splits == 1 {
            return Place { row, column, product: output, output, from: 0, to: call.k };
        }
        unsafe { core::hint::assert_unchecked(call.splits != 0) };
        let (product, split) = (output / call.splits, output % call.splits);
        let from = split * call.k_per_split;
        Place { row, column, product, output, from, to: call.k.min(from + call.k_per_split) }
    }
}

/// A place in the ring of stages, and the parity of the phases in which its barriers are.
#[derive(Clone, Copy)]
pub(crate) struct Turn {
    pub(crate) stage: u32,
    pub(crate) parity: u32,
}

impl Turn {
    pub(crate) const FIRST: Turn = Turn { stage: 0, parity: 0 };

    #[inline(always)]
    pub(crate) fn next<S: Shape>(self) -> Turn {
        let is_last = self.stage + 1 == S::STAGES as u32;
        Turn { stage: if is_last { 0 } else { self.stage + 1 }, parity: self.parity ^ is_last as u32 }
    }
}

/// A block's shared memory.
#[derive(Clone, Copy)]
pub(crate) struct Ring {
    first: u32,
    barriers: u32,
}

impl Ring {
    #[inline(always)]
    fn new<S: Shape>() -> Ring {
        let first = (dynamic_shared_memory() + 1023) & !1023;
        Ring { first, barriers: first + S::BEFORE_BARRIERS as u32 }
    }

    #[inline(always)]
    pub(crate) fn a<S: Shape>(&self, turn: Turn) -> u32 {
        self.first + turn.stage * S::STAGE as u32
    }

    #[inline(always)]
    pub(crate) fn b<S: Shape>(&self, turn: Turn) -> u32 {
        self.a::<S>(turn) + S::A_BYTES as u32
    }

    #[inline(always)]
    pub(crate) fn staging<S: Shape>(&self, multiplier: u32) -> u32 {
        self.first + (S::STAGES * S::STAGE) as u32 + multiplier * (S::BOXES * BOX) as u32
    }

    #[inline(always)]
    pub(crate) fn full(&self, stage: u32) -> u32 {
        self.barriers + 16 * stage
    }

    /// Waits for the copies of a stage and of the next one, whose turn it gives.
    ///
    /// # Safety
    ///
    /// As for [`sleep`](barriers::sleep), of both.
    #[inline(always)]
    pub(crate) unsafe fn wait_for_two<S: Shape>(&self, first: Turn) -> Turn {
        barriers::sleep(self.full(first.stage), first.parity);
        let second = first.next::<S>();
        barriers::sleep(self.full(second.stage), second.parity);
        second
    }

    #[inline(always)]
    pub(crate) fn empty(&self, stage: u32) -> u32 {
        self.barriers + 16 * stage + 8
    }

    #[inline(always)]
    pub(crate) fn verdict<S: Shape>(&self) -> u32 {
        self.barriers + 16 * S::STAGES as u32
    }

    /// Where blocks that share a tile say that this one has been given their sums.
    #[inline(always)]
    pub(crate) fn given<S: Shape>(&self) -> u32 {
        self.verdict::<S>() + VERDICT as u32
    }

    /// Where they say that they have taken this one's.
    #[inline(always)]
    pub(crate) fn taken<S: Shape>(&self) -> u32 {
        self.given::<S>() + 8
    }

    /// The descriptors of a stage's tiles, of A's 64 rows that are a warpgroup's.
    #[inline(always)]
    pub(crate) fn descriptors<S: Shape>(&self, turn: Turn, multiplier: u32) -> (u64, u64) {
        let (a, b) = (self.a::<S>(turn) + multiplier * BOX as u32, self.b::<S>(turn));
        let describe = |address, is_across| {
            if is_across {
                warpgroups::across_k(address, BOX as u32)
            } else {
                warpgroups::along_k(address)
            }
        };
        (describe(a, S::A_ACROSS), describe(b, S::B_ACROSS))
    }

    /// The scales of a block along k: of the tile's rows, then of its columns.
    #[inline(always)]
    pub(crate) fn scales<S: Shape>(&self, block: u32) -> u32 {
        let first = self.aside::<S>() + S::ASIDE as u32;
        first + block % S::SCALE_SLOTS as u32 * S::SCALES as u32
    }

    /// Where warpgroups that take turns give each other sums.
    #[inline(always)]
    pub(crate) fn exchange<S: Shape>(&self) -> u32 {
        self.first + (S::STAGES * S::STAGE + S::STAGING) as u32
    }

    /// Where totals are put aside.
    #[inline(always)]
    pub(crate) fn aside<S: Shape>(&self) -> u32 {
        self.exchange::<S>() + S::EXCHANGE as u32
    }

    /// Where the first stage begins; the others follow it.
    #[inline(always)]
    pub(crate) fn stages(&self) -> u32 {
        self.first
    }
}

/// The body of every kernel. Of factors in parts, `whole` describes the factors themselves, which are multiplied instead if one of the `flags` is raised;
/// for others there is neither.
///
/// # Safety
///
/// The maps and the call must describe matrices in memory that the GPU can reach, with the boxes that [`Maps`] says, and the launch must have
/// [`THREADS`](crate::shape::THREADS) threads a block, along x as blocks, and [`Shape::SHARED_BYTES`] of dynamic shared memory.
#[inline(always)]
pub unsafe fn product<S: Shape>(maps: Maps, call: &TensorCall, whole: Option<&Call>, flags: u64) {
    const {
        assert!(S::BLOCKS_ALONG_K == 1 || S::BLOCKS_ALONG_K == 2 && S::PARTS && S::BY_TURNS && S::CLUSTER == 1);
        // What each block copies of B is whole patterns of 8 rows.
        let has_whole_shares = S::COLUMNS.is_multiple_of(8 * S::CLUSTER) && S::DEPTH.is_multiple_of(8 * S::CLUSTER);
        let is_cluster = S::CLUSTER.is_power_of_two() && has_whole_shares && !S::BY_TURNS && !S::IS_TURNED;
        assert!(S::CLUSTER == 1 || is_cluster);
    };
    grids::let_the_next_grid_begin();
    let ring = Ring::new::<S>();
    let thread = thread::thread_idx_x();
    if thread == 0 {
        tensor_maps::prefetch(maps.a);
        tensor_maps::prefetch(maps.b);
        tensor_maps::prefetch(maps.c);
        if S::PARTS {
            tensor_maps::prefetch(maps.a_scales);
            tensor_maps::prefetch(maps.b_scales);
        }
        for stage in 0..S::STAGES as u32 {
            barriers::initialise(ring.full(stage), 1);
            barriers::initialise(
                ring.empty(stage),
                match (S::IS_TURNED, S::PARTS, S::BY_TURNS) {
                    (true, _, _) => turned::ARRIVALS * MULTIPLIERS as u32,
                    (_, true, true) => parts::ARRIVALS,
                    (_, true, false) => (parts::ARRIVALS + S::CLUSTER as u32 - 1) * MULTIPLIERS as u32,
                    _ => (MULTIPLIERS * S::CLUSTER) as u32,
                },
            );
        }
        if S::PARTS {
            barriers::initialise(ring.verdict::<S>(), parts::JUDGES);
        }
        if S::BLOCKS_ALONG_K > 1 {
            barriers::initialise(ring.given::<S>(), parts::GIVERS);
            barriers::initialise(ring.taken::<S>(), parts::TAKERS);
        }
        barriers::show_to_copies();
    }
    if S::CLUSTER > 1 || S::BLOCKS_ALONG_K > 1 {
        clusters::sync();
    } else {
        thread::sync_threads();
    }
    grids::wait_for_the_grid_before();
    let tiles = Tiles::new::<S>(call);
    // The same for all lanes of a warp, which the assembler can't know.
    let warpgroup = warp_uniform(thread / WARPGROUP as u32);
    if warpgroup == 0 {
        if !S::HAS_FEW_SUMS {
            warpgroups::release_registers::<COPYING_REGISTERS>();
        }
        if thread == 0 {
            copy::<S>(maps, call, tiles, ring);
        } else if S::PARTS && thread >= 32 {
            parts::judge(ring.verdict::<S>(), call.flags, flags);
        }
    } else {
        if !S::HAS_FEW_SUMS {
            warpgroups::take_registers::<MULTIPLYING_REGISTERS>();
        }
        if S::IS_TURNED {
            turned::multiply::<S>(maps, call, tiles, ring, warpgroup - 1);
        } else if let Some(whole) = whole {
            parts::product::<S>(maps, call, whole, tiles, ring, warpgroup - 1);
        } else {
            multiply::<S>(maps, call, tiles, ring, warpgroup - 1);
        }
    }
}

/// The thread that copies.
#[inline(always)]
unsafe fn copy<S: Shape>(maps: Maps, call: &TensorCall, tiles: Tiles, ring: Ring) {
    let mut turn = Turn::FIRST;
    let mut block = 0;
    let mut tile = Tiles::first::<S>();
    while tile < tiles.number {
        let place = tiles.place::<S>(call, tile);
        let mut k = place.from;
        while k < place.to {
            // The first time round, every stage is empty: of a barrier without a phase the one before counts as complete.
            barriers::sleep(ring.empty(turn.stage), turn.parity ^ 1);
            let full = ring.full(turn.stage);
            let has_scales = S::PARTS && k.is_multiple_of(2 * BLOCK);
            barriers::arrive_and_expect(full, (S::STAGE + if has_scales { S::SCALES } else { 0 }) as u32);
            let (a, b) = (ring.a::<S>(turn), ring.b::<S>(turn));
            if S::A_ACROSS {
                for piece in 0..(S::ROWS / S::DEPTH) as u32 {
                    let row = place.row + S::DEPTH as u32 * piece;
                    tensor_maps::load(a + piece * S::PIECE as u32, maps.a, [row, k, place.product], full);
                }
            } else {
                tensor_maps::load(a, maps.a, [k, place.row, place.product], full);
            }
            // The part of B's tile that this block copies, for all blocks of the cluster: of its columns, or, where they lie across k, of the steps of
            // each piece.
            let (columns, steps) = ((S::COLUMNS / S::CLUSTER) as u32, (S::DEPTH / S::CLUSTER) as u32);
            if S::B_ACROSS {
                for piece in 0..(S::COLUMNS / S::DEPTH) as u32 {
                    let from = [place.column + S::DEPTH as u32 * piece, k + steps * rank::<S>(), place.product];
                    let to = b + piece * S::PIECE as u32 + 128 * steps * rank::<S>();
                    load_for_cluster::<S>(to, maps.b, from, full);
                }
            } else {
                let from = [k, place.column + columns * rank::<S>(), place.product];
                load_for_cluster::<S>(b + 128 * columns * rank::<S>(), maps.b, from, full);
            }
            if has_scales {
                let (scales, along) = (ring.scales::<S>(block), k / (2 * BLOCK));
                tensor_maps::load(scales, maps.a_scales, [place.row, along, place.product], full);
                let of_b = scales + 4 * S::ROWS as u32;
                tensor_maps::load(of_b, maps.b_scales, [place.column, along, place.product], full);
                block += 1;
            }
            turn = turn.next::<S>();
            k += S::DEPTH as u32;
        }
        tile += Tiles::step::<S>();
    }
}

/// A warpgroup that multiplies: 64 rows of every tile.
#[inline(always)]
unsafe fn multiply<S: Shape>(maps: Maps, call: &TensorCall, tiles: Tiles, ring: Ring, multiplier: u32) {
    let thread = thread::thread_idx_x() % WARPGROUP as u32;
    let mut turn = Turn::FIRST;
    let mut tile = Tiles::first::<S>();
    while tile < tiles.number {
        let place = tiles.place::<S>(call, tile);
        let is_last = tile + Tiles::step::<S>() >= tiles.number;
        let mut sums = S::Product::unset();
        if S::MAY_KEEP_SUMS_SHORT && call.longest_sum == S::DEPTH as u32 {
            turn = sum_shortly::<S>(&mut sums, place, ring, turn, multiplier);
        } else if S::MAY_KEEP_SUMS_SHORT && call.longest_sum == S::DEPTH as u32 / 4 {
            turn = sum_by_quarters::<S>(&mut sums, place, ring, turn, multiplier);
        } else {
            turn = sum::<S>(&mut sums, place, ring, turn, multiplier);
        }
        let first = [place.column, place.row + 64 * multiplier, place.output];
        output::store::<S>(sums.as_ref(), maps.c, call, first, Boxes::new::<S>(ring, multiplier, is_last));
        tile += Tiles::step::<S>();
    }
    leave::<S>(thread);
}

/// The sums of a tile's 64 rows that are a warpgroup's, by tensor cores alone. Gives the turn that is next.
///
/// # Safety
///
/// As for [`product`], of all threads of a warpgroup that multiplies.
#[inline(always)]
unsafe fn sum<S: Shape>(
    sums: &mut <S::Product as Product>::Sums,
    place: Place,
    ring: Ring,
    mut turn: Turn,
    multiplier: u32,
) -> Turn {
    let thread = thread::thread_idx_x() % WARPGROUP as u32;
    let mut previous = turn;
    let mut k = place.from;
    // There is a first step: an inner dimension of 0 is no product, and the host's business.
    loop {
        barriers::sleep(ring.full(turn.stage), turn.parity);
        let (a, b) = ring.descriptors::<S>(turn, multiplier);
        S::Product::step_in::<S>(sums, a, b, k - place.from);
        S::Product::wait::<1>(sums);
        // The step before is through, and with it its stage.
        if k > place.from && thread == 0 {
            give_back::<S>(ring.empty(previous.stage));
        }
        previous = turn;
        turn = turn.next::<S>();
        k += S::DEPTH as u32;
        if k >= place.to {
            break;
        }
    }
    S::Product::wait::<0>(sums);
    if thread == 0 {
        give_back::<S>(ring.empty(previous.stage));
    }
    turn
}

/// The same, but that tensor cores sum up a step along k from zero, and while they are at the next one, it's added to the others in f32.
///
/// # Safety
///
/// As for [`sum`].
#[inline(always)]
unsafe fn sum_shortly<S: Shape>(
    total: &mut <S::Product as Product>::Sums,
    place: Place,
    ring: Ring,
    turn: Turn,
    multiplier: u32,
) -> Turn {
    *total = S::Product::zeros();
    let (mut even, mut odd) = (S::Product::unset(), S::Product::unset());
    let mut steps = Steps { ring, multiplier, turn, k: place.from, to: place.to };
    steps.start::<S>(&mut even);
    // The assembler only lets tensor cores go on if it sees, without any branch between, which sums they are at.
    while steps.are_left::<S>(2) {
        steps.start_and_add::<S>(&mut odd, &mut even, total.as_mut());
        steps.start_and_add::<S>(&mut even, &mut odd, total.as_mut());
    }
    if steps.are_left::<S>(1) {
        steps.start_and_add::<S>(&mut odd, &mut even, total.as_mut());
        steps.add_last::<S>(&mut odd, total.as_mut());
    } else {
        steps.add_last::<S>(&mut even, total.as_mut());
    }
    steps.turn
}

/// The same with a quarter of a step at a time. At a step's end tensor cores wait until all is added: where the host asks for this, K is two steps at most.
///
/// # Safety
///
/// As for [`sum`].
#[inline(always)]
unsafe fn sum_by_quarters<S: Shape>(
    total: &mut <S::Product as Product>::Sums,
    place: Place,
    ring: Ring,
    mut turn: Turn,
    multiplier: u32,
) -> Turn {
    *total = S::Product::zeros();
    let mut k = place.from;
    while k < place.to {
        let (mut even, mut odd) = (S::Product::unset(), S::Product::unset());
        barriers::sleep(ring.full(turn.stage), turn.parity);
        let (a, b) = ring.descriptors::<S>(turn, multiplier);
        S::Product::quarter_in::<S>(&mut even, a, b, 0);
        S::Product::quarter_in::<S>(&mut odd, a, b, 1);
        S::Product::wait::<1>(&mut even);
        add(even.as_ref(), total.as_mut());
        S::Product::quarter_in::<S>(&mut even, a, b, 2);
        S::Product::wait::<1>(&mut odd);
        add(odd.as_ref(), total.as_mut());
        S::Product::quarter_in::<S>(&mut odd, a, b, 3);
        S::Product::wait::<1>(&mut even);
        add(even.as_ref(), total.as_mut());
        S::Product::wait::<0>(&mut odd);
        give_back_and_add::<S>(ring.empty(turn.stage), odd.as_ref(), total.as_mut());
        turn = turn.next::<S>();
        k += S::DEPTH as u32;
    }
    turn
}

/// Where a warpgroup is that [sums shortly](sum_shortly): at a step that tensor cores have begun with, whose sums nobody touches until they were waited for.
struct Steps {
    ring: Ring,
    multiplier: u32,
    /// The step's stage.
    turn: Turn,
    k: u32,
    to: u32,
}

impl Steps {
    /// Whether so many steps follow.
    #[inline(always)]
    fn are_left<S: Shape>(&self, steps: u32) -> bool {
        self.k + steps * (S::DEPTH as u32) < self.to
    }

    /// Starts the step.
    ///
    /// # Safety
    ///
    /// As for [`sum`]; nothing else is under way in `sums`.
    #[inline(always)]
    unsafe fn start<S: Shape>(&self, sums: &mut <S::Product as Product>::Sums) {
        barriers::sleep(self.ring.full(self.turn.stage), self.turn.parity);
        let (a, b) = self.ring.descriptors::<S>(self.turn, self.multiplier);
        S::Product::step_in::<S>(sums, a, b, 0);
    }

    /// Starts the next step, and adds the sums of this one, when they are there, to the total.
    ///
    /// # Safety
    ///
    /// As for [`sum`]; `this` are the sums of the step that was started, and there is a next one.
    #[inline(always)]
    unsafe fn start_and_add<S: Shape>(
        &mut self,
        next: &mut <S::Product as Product>::Sums,
        this: &mut <S::Product as Product>::Sums,
        total: &mut [f32],
    ) {
        let stage = self.turn.stage;
        self.turn = self.turn.next::<S>();
        self.k += S::DEPTH as u32;
        self.start::<S>(next);
        S::Product::wait::<1>(this);
        give_back_and_add::<S>(self.ring.empty(stage), this.as_ref(), total);
    }

    /// Adds the sums of the last step.
    ///
    /// # Safety
    ///
    /// As for [`sum`]; `this` are the sums of the step that was started.
    #[inline(always)]
    unsafe fn add_last<S: Shape>(&mut self, this: &mut <S::Product as Product>::Sums, total: &mut [f32]) {
        let stage = self.turn.stage;
        self.turn = self.turn.next::<S>();
        S::Product::wait::<0>(this);
        give_back_and_add::<S>(self.ring.empty(stage), this.as_ref(), total);
    }
}

/// Gives back the stage of a step, and adds its sums to the total.
///
/// # Safety
///
/// As for [`give_back`], of all threads of the warpgroup.
#[inline(always)]
unsafe fn give_back_and_add<S: Shape>(empty: u32, sums: &[f32], total: &mut [f32]) {
    if thread::thread_idx_x().is_multiple_of(WARPGROUP as u32) {
        give_back::<S>(empty);
    }
    add(sums, total);
}

/// Adds sums to the total.
#[inline(always)]
fn add(sums: &[f32], total: &mut [f32]) {
    for i in 0..sums.len() {
        total[i] += sums[i];
    }
}

/// This block's rank in its cluster.
#[inline(always)]
fn rank<S: Shape>() -> u32 {
    if S::CLUSTER > 1 {
        clusters::rank()
    } else {
        0
    }
}

/// Where this block's part of K begins and ends, of those that share a tile. If there is a single block of numbers along k, the first one has nothing.
#[inline(always)]
pub(crate) fn part_of_k<S: Shape>(call: &TensorCall) -> [u32; 2] {
    let blocks = call.k / (2 * BLOCK);
    let rank = rank_along_k::<S>();
    [rank, rank + 1].map(|rank| blocks * rank / S::BLOCKS_ALONG_K as u32 * 2 * BLOCK)
}

/// Which part of K is this block's, of those that share a tile.
#[inline(always)]
pub(crate) fn rank_along_k<S: Shape>() -> u32 {
    if S::BLOCKS_ALONG_K > 1 {
        clusters::rank()
    } else {
        0
    }
}

/// Starts a copy of a piece of B's tile, into shared memory of all blocks of the cluster.
///
/// # Safety
///
/// As for [`load`](tensor_maps::load), in each of them.
#[inline(always)]
unsafe fn load_for_cluster<S: Shape>(to: u32, map: u64, from: [u32; 3], full: u32) {
    if S::CLUSTER > 1 {
        tensor_maps::load_for_blocks(to, map, from, full, (1 << S::CLUSTER) - 1);
    } else {
        tensor_maps::load(to, map, from, full);
    }
}

/// Says to whoever fills a stage that a warpgroup is through with it: to all blocks of the cluster, since each fills a part.
///
/// # Safety
///
/// One thread of the warpgroup comes here, once for every time that the stage was filled.
#[inline(always)]
unsafe fn give_back<S: Shape>(empty: u32) {
    if S::CLUSTER > 1 {
        for rank in 0..S::CLUSTER as u32 {
            clusters::arrive_at(clusters::address_in(rank, empty));
        }
    } else {
        barriers::arrive(empty);
    }
}

/// The same as [`give_back`], to the other blocks only.
///
/// # Safety
///
/// As for [`give_back`].
#[inline(always)]
pub(crate) unsafe fn give_back_to_others<S: Shape>(empty: u32) {
    for other in 1..S::CLUSTER as u32 {
        // Of as many blocks as a power of two these are all the others.
        clusters::arrive_at(clusters::address_in(clusters::rank() ^ other, empty));
    }
}

/// Waits until nobody reaches this block's shared memory any more: the last stores have read it, and so have the other blocks of the cluster, whose threads
/// that multiply have waited for all copies to it, and say last that they are through with a stage. (Who copies needn't come: a block stays until all its
/// threads have ended, and others only reach what those that multiply wait for.)
///
/// # Safety
///
/// All threads that multiply come here, each with its number in its warpgroup; the others end.
#[inline(always)]
pub(crate) unsafe fn leave<S: Shape>(thread: u32) {
    if thread == 0 {
        tensor_maps::wait_for_reads::<0>();
    }
    if S::CLUSTER > 1 {
        clusters::sync();
    }
}

/// Waits for all threads that multiply.
///
/// # Safety
///
/// All of them must come here.
#[inline(always)]
pub(crate) unsafe fn sync_multiplying() {
    warpgroups::sync_some(1 + MULTIPLIERS as u32, MULTIPLYING as u32);
}

/// A number that all lanes of a warp have, as one that the assembler knows to be the same for all.
#[inline(always)]
fn warp_uniform(number: u32) -> u32 {
    #[allow(unused_mut)]
    let mut same = number;
    // SAFETY: all lanes come here together, at a kernel's beginning.
    #[cfg(target_arch = "nvptx64")]
    unsafe {
        core::arch::asm!("shfl.sync.idx.b32 {}, {}, 0, 31, 0xffffffff;", out(reg32) same, in(reg32) number, options(nostack))
    };
    same
}

/// Steps with a kernel's layouts.
pub(crate) trait StepIn: Product {
    #[inline(always)]
    unsafe fn two_steps_of_parts_in<S: Shape>(sums: &mut Self::Sums, a: [u64; 2], b: [u64; 2]) {
        match (S::A_ACROSS, S::B_ACROSS) {
            (false, false) => Self::two_steps_of_parts::<false, false>(sums, a, b),
            (false, true) => Self::two_steps_of_parts::<false, true>(sums, a, b),
            (true, false) => Self::two_steps_of_parts::<true, false>(sums, a, b),
            (true, true) => Self::two_steps_of_parts::<true, true>(sums, a, b),
        }
    }

    #[inline(always)]
    unsafe fn quarter_in<S: Shape>(sums: &mut Self::Sums, a: u64, b: u64, quarter: u32) {
        match (S::A_ACROSS, S::B_ACROSS) {
            (false, false) => Self::quarter::<false, false>(sums, a, b, quarter),
            (false, true) => Self::quarter::<false, true>(sums, a, b, quarter),
            (true, false) => Self::quarter::<true, false>(sums, a, b, quarter),
            (true, true) => Self::quarter::<true, true>(sums, a, b, quarter),
        }
    }

    #[inline(always)]
    unsafe fn step_in<S: Shape>(sums: &mut Self::Sums, a: u64, b: u64, add: u32) {
        match (S::A_ACROSS, S::B_ACROSS) {
            (false, false) => Self::step::<false, false>(sums, a, b, add),
            (false, true) => Self::step::<false, true>(sums, a, b, add),
            (true, false) => Self::step::<true, false>(sums, a, b, add),
            (true, true) => Self::step::<true, true>(sums, a, b, add),
        }
    }
}

impl<P: Product> StepIn for P {}
