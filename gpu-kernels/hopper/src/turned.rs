//! Products of tf32 with a B that lies across k.
//!
//! From shared memory tensor cores take factors of 32 bits along k only, and a row-major B isn't. But their first factor may come from registers, in
//! whatever way it got there. So C is turned: its transpose is B's transpose by A's, the first factor is a part of B's columns, and the second one, A,
//! lies along k as it is.
//!
//! A tile of B is pieces of 32 steps along k by 32 columns, 128 bytes a row, whose chunks the copy has swizzled: chunk c of step k stands at c xor
//! k % 8. A lane wants, for rows g and g + 8 of its warp's 16 (g = lane / 4), the steps t and t + 4 (t = lane % 4) of eight. Which column of B is which row is
//! free, as long as the sums are stored accordingly. With
//!
//! ```text
//!   row g + 8 j of warp w    chunk 2 (w % 2) + j + 4 (g / 4), word g % 4, of piece w / 2
//! ```
//!
//! the 32 lanes of a load find 32 banks: chunks below 4 xor t are four others below 4, and beside them are those from 4 on.

use cuda_std::*;
use kernel_common::call::TensorCall;
use kernel_common::elements::F32;
use kernel_common::warpgroups::Product;
use kernel_common::{barriers, tensor_maps, vectors, warpgroups};

use crate::output::{copy_box, store_box, Place as Sums};
use crate::pipelined::{leave, Maps, Ring, Tiles, Turn};
use crate::shape::{Shape, BOX, WARPGROUP};

/// How often a warpgroup arrives at a stage's empty barrier: once a warp, for each has read the stage by itself.
pub(crate) const ARRIVALS: u32 = 4;

/// A lane's elements of B in a stage: four for each of its quarters.
type Fragments = [f32; 16];

/// Where a lane is among B's columns.
#[derive(Clone, Copy)]
struct Lane {
    /// Bytes to its elements of the first quarter of a stage: of row g and of g + 8 at step t, then of both at t + 4.
    places: [u32; 4],
    /// The chunk of row g in a piece's row, the one of g + 8 is the next.
    chunk: u32,
    /// Bytes in the chunk.
    within: u32,
    /// The step t.
    step: u32,
    /// The piece of the warpgroup's two.
    piece: u32,
}

impl Lane {
    #[inline(always)]
    fn new<S: Shape>(thread: u32, multiplier: u32) -> Lane {
        let (warp, lane) = (thread / 32, thread % 32);
        let (group, step) = (lane / 4, lane % 4);
        let (chunk, within, piece) = (2 * (warp % 2) + 4 * (group / 4), group % 4 * 4, warp / 2);
        let first = (2 * multiplier + piece) * S::PIECE as u32 + within;
        let place = |chunk: u32, step: u32| first + step * 128 + (chunk ^ step) * 16;
        let places = [place(chunk, step), place(chunk + 1, step), place(chunk, step + 4), place(chunk + 1, step + 4)];
        Lane { places, chunk, within, step, piece }
    }

    /// Its elements of a stage.
    #[inline(always)]
    unsafe fn load(&self, tile: u32) -> Fragments {
        let mut fragments = [0.0; 16];
        for quarter in 0..4 {
            for i in 0..4 {
                fragments[4 * quarter + i] =
                    vectors::load_shared_word(tile + self.places[i] + 8 * 128 * quarter as u32);
            }
        }
        fragments
    }
}

/// A warpgroup that multiplies: 64 columns of every tile.
///
/// # Safety
///
/// As for [`product`](crate::pipelined::product).
#[inline(always)]
pub(crate) unsafe fn multiply<S: Shape>(maps: Maps, call: &TensorCall, tiles: Tiles, ring: Ring, multiplier: u32) {
    let thread = thread::thread_idx_x() % WARPGROUP as u32;
    let lane = Lane::new::<S>(thread, multiplier);
    let staging = ring.staging::<S>(multiplier);
    // The stage of a turn: its elements of B, once they have come.
    let load = |turn: Turn| {
        barriers::sleep(ring.full(turn.stage), turn.parity);
        lane.load(ring.b::<S>(turn))
    };
    let give_back = |turn: Turn| {
        warp::sync_warp(!0);
        if thread.is_multiple_of(32) {
            barriers::arrive(ring.empty(turn.stage));
        }
    };
    let mut turn = Turn::FIRST;
    let mut tile = Tiles::first::<S>();
    while tile < tiles.number {
        let place = tiles.place::<S>(call, tile);
        let mut sums = S::Product::unset();
        let mut k = place.from;
        let mut before = turn;
        let mut x = load(turn);
        // Two steps at a time, so that the elements of one can come while those of the other are multiplied.
        loop {
            let first = turn;
            S::Product::step_from_registers(&mut sums, &x, warpgroups::along_k(ring.a::<S>(first)), k - place.from);
            S::Product::wait::<1>(&mut sums);
            if k > place.from {
                give_back(before);
            }
            k += S::DEPTH as u32;
            before = first;
            turn = first.next::<S>();
            if k >= place.to {
                break;
            }
            let second = turn;
            let y = load(second);
            S::Product::step_from_registers(&mut sums, &y, warpgroups::along_k(ring.a::<S>(second)), 1);
            S::Product::wait::<1>(&mut sums);
            give_back(first);
            k += S::DEPTH as u32;
            before = second;
            turn = second.next::<S>();
            if k >= place.to {
                break;
            }
            x = load(turn);
        }
        S::Product::wait::<0>(&mut sums);
        give_back(before);
        let first = [place.column + 64 * multiplier, place.row, place.output];
        store::<S>(sums.as_ref(), maps.c, call, first, staging, multiplier, lane);
        tile += Tiles::step::<S>();
    }
    leave::<S>(thread);
}

/// Stores the sums of a warpgroup: 64 columns of C from `column` on, of all rows of the tile. Of 64 rows each piece of 32 columns is a box.
#[inline(always)]
unsafe fn store<S: Shape>(
    sums: &[f32],
    map: u64,
    call: &TensorCall,
    [column, row, output]: [u32; 3],
    staging: u32,
    multiplier: u32,
    lane: Lane,
) {
    let place = Sums::new();
    let thread = thread::thread_idx_x() % WARPGROUP as u32;
    let is_copied = call.c_is_mapped != 0 && call.beta == 0.0;
    for part in 0..S::ROWS / 64 {
        if thread == 0 {
            tensor_maps::wait_for_reads::<0>();
        }
        warpgroups::sync_some(1 + multiplier, WARPGROUP as u32);
        let buffer = staging + lane.piece * BOX as u32;
        for group in 0..8 {
            for j in 0..2 {
                let at = 4 * (8 * part + group) + 2 * j;
                let pair = [call.alpha * sums[at], call.alpha * sums[at + 1]];
                // Of the two rows, lanes whose chunks are below 4 begin with the first and others with the second: so all 32 banks are used.
                for turn in 0..2 {
                    let second = (lane.chunk / 4) ^ turn;
                    let of_eight = 2 * lane.step + second;
                    let chunk = (lane.chunk + j as u32) ^ of_eight;
                    let to = buffer + (8 * group as u32 + of_eight) * 128 + chunk * 16 + lane.within;
                    vectors::store_shared_word(to, if second == 0 { pair[0] } else { pair[1] });
                }
            }
        }
        // The fence waits for stores to global memory too.
        if is_copied {
            tensor_maps::show_to_copies();
        }
        warpgroups::sync_some(1 + multiplier, WARPGROUP as u32);
        for piece in 0..2 {
            let buffer = staging + piece * BOX as u32;
            let first = [column + 32 * piece, row + 64 * part as u32, output];
            if is_copied {
                copy_box(map, buffer, first, 0, place);
            } else {
                store_box::<F32>(buffer, call, first, 0, place);
            }
        }
    }
}
