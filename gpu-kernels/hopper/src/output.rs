//! From a warpgroup's sums to C.

use cuda_std::*;
use kernel_common::call::TensorCall;
use kernel_common::elements::{Bf16, Element, Half, F16, F32};
use kernel_common::position::anew;
use kernel_common::{tensor_maps, vectors, warpgroups};

use crate::pipelined::{sync_multiplying, Ring};
use crate::shape::{Shape, BOX, MULTIPLIERS, WARPGROUP};

/// Elements of C that boxes can be filled with.
pub trait Output: Element {
    /// A thread's sums in a box: of 128 bytes of a row, in two of the 64 rows.
    const SUMS: usize = 16 * 4 / Self::BYTES as usize;

    /// Writes a thread's sums to its places in a box, which all threads of the warpgroup do together.
    ///
    /// # Safety
    ///
    /// `buffer` must be a box that nobody else uses.
    unsafe fn fill(buffer: u32, place: Place, sums: &[f32], alpha: f32);
}

/// Elements of 4 bytes: boxes of 32 columns.
impl Output for F32 {
    #[inline(always)]
    unsafe fn fill(buffer: u32, place: Place, sums: &[f32], alpha: f32) {
        let is_odd = !place.row.is_multiple_of(2);
        // Of two groups of 8 columns, lanes of odd rows begin with the second: so the four rows of half a warp use all 32 banks.
        for group in 0..2 {
            for half in 0..2 {
                let pair = |group: usize| [0, 1].map(|i| alpha * sums[4 * group + 2 * half + i]);
                let (even, odd) = (pair(group), pair(group + 2));
                // 8 bytes at column 8 group + 2 t of the row: chunk 2 group + t / 2.
                let row = place.row + 8 * half as u32;
                let first = (2 * group as u32 + if is_odd { 4 } else { 0 } + place.pair / 2) ^ (row % 8);
                let to = |chunk: u32| buffer + row * 128 + chunk * 16 + place.pair % 2 * 8;
                vectors::store_shared_pair(to(first), if is_odd { odd } else { even });
                vectors::store_shared_pair(to(first ^ 4), if is_odd { even } else { odd });
            }
        }
    }
}

/// Elements of 2 bytes: boxes of 64 columns.
#[inline(always)]
unsafe fn fill_with_halves<H: Half>(buffer: u32, place: Place, sums: &[f32], alpha: f32) {
    // Lane 8 j + i gives the address of row i of matrix j: the upper and the lower half of 8 columns, and then of the next 8.
    let lane = place.thread % 32;
    let row = place.row / 16 * 16 + lane % 16;
    for pair in 0..4 {
        let of = |group: usize, half: usize| {
            let at = 8 * pair + 4 * group + 2 * half;
            H::round(alpha * sums[at], alpha * sums[at + 1])
        };
        let chunk = (2 * pair as u32 + lane / 16) ^ (row % 8);
        store_matrices(buffer + row * 128 + chunk * 16, [of(0, 0), of(0, 1), of(1, 0), of(1, 1)]);
    }
}

impl Output for Bf16 {
    #[inline(always)]
    unsafe fn fill(buffer: u32, place: Place, sums: &[f32], alpha: f32) {
        fill_with_halves::<Bf16>(buffer, place, sums, alpha);
    }
}

impl Output for F16 {
    #[inline(always)]
    unsafe fn fill(buffer: u32, place: Place, sums: &[f32], alpha: f32) {
        fill_with_halves::<F16>(buffer, place, sums, alpha);
    }
}

/// Stores the sums of a warpgroup: 64 rows of C from element `column` of `row` of `product`.
///
/// Box by box they go to shared memory and from there to C: by a copy, or, where C has no map or what it holds is needed, by the threads, a row of a
/// box after the other; then boxes are of f32, so that a C of 16 bits is rounded to once.
///
/// # Safety
///
/// All threads of the warpgroup must come here together.
#[inline(always)]
pub unsafe fn store<S: Shape>(sums: &[f32], map: u64, call: &TensorCall, first: [u32; 3], boxes: Boxes) {
    let place = Place::new();
    let is_copied = call.c_is_mapped != 0 && call.beta == 0.0;
    // Only factors of 16 bits can have such a C.
    let is_half = S::Output::BYTES == 2 && call.c_is_half != 0;
    if !is_copied {
        store_by_threads::<S>(sums, call, place, first, boxes);
    } else if is_half {
        copy_boxes::<S, S::Output>(sums, map, call, place, first, boxes);
    } else {
        copy_boxes::<S, F32>(sums, map, call, place, first, boxes);
    }
}

/// Fills box after box and starts its copy.
#[inline(always)]
unsafe fn copy_boxes<S: Shape, O: Output>(
    sums: &[f32],
    map: u64,
    call: &TensorCall,
    place: Place,
    first: [u32; 3],
    boxes: Boxes,
) {
    for part in 0..sums.len() / O::SUMS {
        let buffer = boxes.begin::<S>(place, part as u32);
        fill::<O>(buffer, place, sums, part, call);
        tensor_maps::show_to_copies();
        boxes.sync();
        copy_box(map, buffer, first, 128 / O::BYTES * part as u32, place);
    }
}

/// Fills box after box and lets all threads store it.
#[inline(always)]
unsafe fn store_by_threads<S: Shape>(sums: &[f32], call: &TensorCall, place: Place, first: [u32; 3], boxes: Boxes) {
    let parts = sums.len() / F32::SUMS;
    // The compiler mustn't unroll this loop: instructions that are executed once a tile take as long to come as to execute.
    let mut part = anew(0);
    while part < parts as u32 {
        let buffer = boxes.begin::<S>(place, part);
        for this in 0..parts {
            if part == this as u32 {
                fill::<F32>(buffer, place, sums, this, call);
            }
        }
        boxes.sync();
        store_box::<S::Output>(buffer, call, first, 32 * part, place);
        part += 1;
    }
}

/// Fills a box with its part of the sums.
#[inline(always)]
unsafe fn fill<O: Output>(buffer: u32, place: Place, sums: &[f32], part: usize, call: &TensorCall) {
    // Each box multiplies for itself: all products at once would need as many registers again as the sums.
    let alpha = f32::from_bits(anew(call.alpha.to_bits()));
    O::fill(buffer, place, &sums[part * O::SUMS..(part + 1) * O::SUMS], alpha);
}

/// Where a thread's sums are among a warpgroup's 64 rows.
#[derive(Clone, Copy)]
pub struct Place {
    thread: u32,
    row: u32,
    pair: u32,
}

impl Place {
    #[inline(always)]
    pub(crate) fn new() -> Place {
        // What follows from it isn't kept in registers from the beginning of the kernel on, which the sums need.
        let thread = anew(thread::thread_idx_x() % WARPGROUP as u32);
        let lane = thread % 32;
        Place { thread, row: thread / 32 * 16 + lane / 4, pair: lane % 4 }
    }
}

/// A warpgroup's boxes.
#[derive(Clone, Copy)]
pub struct Boxes {
    first: u32,
    /// Whether each part of the sums has one of its own, so that none has to be waited for.
    are_all: bool,
    multiplier: u32,
}

impl Boxes {
    /// As many boxes as the shape says; for a block's last tile, the stages, which nothing is copied to any more: so a block's end doesn't wait for one
    /// store after the other.
    ///
    /// # Safety
    ///
    /// All threads that multiply come here, of which those of a warpgroup use the boxes; they are through with their copies and products. Where they
    /// [take turns](Shape::BY_TURNS) they have met since then.
    #[inline(always)]
    pub(crate) unsafe fn new<S: Shape>(ring: Ring, multiplier: u32, is_last_tile: bool) -> Boxes {
        const { assert!(MULTIPLIERS * S::COLUMNS / 32 * BOX <= S::STAGES * S::STAGE) };
        let mut first = ring.staging::<S>(multiplier);
        if is_last_tile {
            if !S::BY_TURNS {
                sync_multiplying();
            }
            first = ring.stages() + multiplier * (S::COLUMNS / 32 * BOX) as u32;
        }
        Boxes { first, are_all: is_last_tile, multiplier }
    }

    /// Waits until a box may be written that an earlier store may still read; gives its address.
    #[inline(always)]
    unsafe fn begin<S: Shape>(&self, place: Place, part: u32) -> u32 {
        if self.are_all {
            return self.first + part * BOX as u32;
        }
        if place.thread == 0 {
            if S::BOXES == 1 {
                tensor_maps::wait_for_reads::<0>();
            } else {
                tensor_maps::wait_for_reads::<1>();
            }
        }
        self.sync();
        self.first + part % S::BOXES as u32 * BOX as u32
    }

    /// Waits for all threads of the warpgroup.
    #[inline(always)]
    unsafe fn sync(&self) {
        warpgroups::sync_some(1 + self.multiplier, WARPGROUP as u32);
    }
}

/// Starts the copy of a box to C.
#[inline(always)]
pub(crate) unsafe fn copy_box(map: u64, buffer: u32, [column, row, product]: [u32; 3], within: u32, place: Place) {
    if place.thread == 0 {
        tensor_maps::store(map, [column + within, row, product], buffer);
        tensor_maps::commit_stores();
    }
}

/// Stores a box of f32 element by element, inside C only: each warp its 16 rows, one after the other, and each lane a column. C's elements are `E` or f32.
#[inline(always)]
pub(crate) unsafe fn store_box<E: Element>(
    buffer: u32,
    call: &TensorCall,
    [column, row, product]: [u32; 3],
    within: u32,
    place: Place,
) {
    // What the compiler doesn't see through it can't unroll.
    let thread = anew(place.thread);
    let lane = thread % 32;
    let column = column + within + lane;
    if column >= call.n {
        return;
    }
    let at = thread / 32 * 16;
    let end = (at + 16).min(call.m.saturating_sub(row));
    let element = product as u64 * call.c_batch + (row + at) as u64 * call.c_row + column as u64;
    let rows = Rows { buffer, lane, at, end };
    // Asked once, not for every row.
    match (E::BYTES == 2 && call.c_is_half != 0, call.beta == 0.0) {
        (false, true) => rows.store::<F32, false>(call, element),
        (false, false) => rows.store::<F32, true>(call, element),
        (true, true) => rows.store::<E, false>(call, element),
        (true, false) => rows.store::<E, true>(call, element),
    }
}

/// A lane's rows of a box of f32.
#[derive(Clone, Copy)]
struct Rows {
    buffer: u32,
    lane: u32,
    at: u32,
    end: u32,
}

impl Rows {
    /// Stores them, the first at an element of C, to which, with `ADDS`, beta times what is there is added.
    #[inline(always)]
    unsafe fn store<E: Element, const ADDS: bool>(self, call: &TensorCall, element: u64) {
        let Rows { buffer, lane, mut at, end } = self;
        let step = E::BYTES as u64 * call.c_row;
        let mut to = call.c + E::BYTES as u64 * element;
        while at < end {
            // Four rows at a time, so that their loads are on their way together.
            let mut values = [0.0f32; 4];
            for i in 0..4 {
                let row = at + i as u32;
                values[i] =
                    vectors::load_shared_word(buffer + row * 128 + ((lane / 4) ^ (row % 8)) * 16 + lane % 4 * 4);
            }
            for i in 0..4 {
                if at + (i as u32) < end {
                    let value = if ADDS { E::load_global(to).mul_add(call.beta, values[i]) } else { values[i] };
                    E::store_global(to, value);
                }
                to += step;
            }
            at += 4;
        }
    }
}

#[inline(always)]
unsafe fn store_matrices(row: u32, [x, y, z, w]: [u32; 4]) {
    #[cfg(target_arch = "nvptx64")]
    core::arch::asm!(
        "stmatrix.sync.aligned.m8n8.x4.shared.b16 [{}], {{ {}, {}, {}, {} }};",
        in(reg32) row, in(reg32) x, in(reg32) y, in(reg32) z, in(reg32) w, options(nostack)
    );
    #[cfg(not(target_arch = "nvptx64"))]
    let _ = (row, x, y, z, w);
}
