//! Asynchronous copies: the wavefronts and sectors that `cp.async` takes.
//!
//! A copy moves bytes from one place to another, and both places count. How depends on the way that it takes.
//!
//! # Through L1 (`.ca`)
//! The warp is cut into parts as for a store: a whole warp of 4 bytes, half-warps of 8, quarter-warps of 16. In each
//! wavefront of a part, every bank is read once, in L1 where the source is, and every bank is written once, in shared
//! memory. Unlike in loads, lanes never share a word, on neither side. Each bank serves its lanes in order, and a lane goes
//! when it's the first in both of its banks. Lanes that read nothing wait for no bank of the source. Sectors are those
//! of the sources, as for a load.
//!
//! So rows that are copied into columns conflict as stores would, and one wavefront more is the price of two rows in
//! the same banks; 32 lanes with one source are 32 wavefronts.
//!
//! # Past L1 (`.cg`)
//! What comes from L2 goes straight into shared memory, by sectors. Of lanes with one destination only the last one
//! counts. A *transfer* takes a sector of the source to a sector of shared memory: both halves if both lie as in the
//! source or both exchanged, else one. Each transfer counts as a sector of global memory, also if another one takes the same
//! sector elsewhere. Transfers between the same two lines of 128 bytes share a wavefront if their addresses differ alike
//! in bits 4 and 5, and each sector is in one of them only.
//!
//! So 512 bytes side by side, as far from a line's start here as there, take 4 wavefronts and 16 sectors; 16 bytes
//! further here than there, 12 and 32; and scattered ones 32 and 32.
//!
//! A source size that is a number adds the wavefronts of a store of zeros by all lanes, whatever the sizes are, and lanes
//! that read nothing have their transfers as well (`LDGSTS.ZFILL`). Where a predicate says for each lane whether it reads
//! all or nothing, the lanes that read have their transfers and nothing else, and those that don't take the wavefronts of
//! their own store of zeros (`LDGSTS` with a predicate). NVIDIA's assembler makes the latter of a source that is ignored,
//! and of a size that the code selects from 0 and all; see [`SourceSize`].
//!
//! # Where this comes from
//! Measured on an H200 (compute capability 9.0): one warp, one copy, ncu's `memory_l1_wavefronts_shared` and
//! `memory_l2_theoretical_sectors_global` (without those of the kernel's other loads) for 308 patterns of addresses and
//! sizes, which are in `tests/costs/copies.txt`. Sectors are right for all of them. Wavefronts are right for all 201
//! patterns through L1 in which every lane copies everything, and for 23 of 30 with sizes; the others, off by 3 at most,
//! are random on both sides. Past L1 they are right for 62 of 77; the others, off by 5 at most, are random, but for one in
//! which pairs of lanes read the same 16 bytes, which takes twice as many. Other generations may differ.
//!
//! In these patterns sizes are numbers from memory. What copies cost whose lanes read all or nothing was measured in
//! kernels of the book, in which each warp's lanes all read or all don't (`measure/agreement`); for warps in which some do,
//! it follows from the rule and was not measured.

use super::banks;
use super::sectors::{self, SECTOR_BYTES};
use crate::execute::lanes;
use crate::observe::{Access, AsyncCopy, SourceSize};

/// Bytes of a line of L1, which is also a row of all banks.
const LINE: u64 = 128;
/// Bytes that a lane copies past L1.
const UNIT: u64 = 16;

/// The wavefronts that a copy takes.
pub fn wavefronts(copy: &AsyncCopy<'_>) -> u32 {
    if !copy.bypasses_l1 {
        return parts(copy).map(|part| through_l1(copy, part)).sum();
    }
    let (transferring, zeros) = past_l1(copy);
    let mut transfers: Vec<Transfer> = lanes(transferring).map(|lane| Transfer::of(copy, lane)).collect();
    transfers.sort_unstable_by_key(|transfer| (transfer.lines, transfer.shift, transfer.sectors));
    let groups = transfers.chunk_by(|one, other| (one.lines, one.shift) == (other.lines, other.shift));
    let most = |group: &[Transfer], side: usize| {
        let (mut counts, mut last) = ([0u32; (LINE / SECTOR_BYTES) as usize], None);
        for transfer in group {
            // Both halves of a sector go together.
            if last != Some(transfer.sectors) {
                counts[transfer.sectors[side] as usize] += 1;
            }
            last = Some(transfer.sectors);
        }
        counts.into_iter().max().unwrap_or(0)
    };
    banks::wavefronts(&zeros) + groups.map(|group| most(group, 0).max(most(group, 1))).sum::<u32>()
}

/// The fewest wavefronts in which the same lanes could copy as many bytes: those without bank conflicts.
pub fn ideal_wavefronts(copy: &AsyncCopy<'_>) -> u32 {
    let ideal = |lanes: u32| banks::ideal(&Access { lanes, ..copy.writes() });
    let ideal = if copy.bypasses_l1 {
        let (transferring, zeros) = past_l1(copy);
        ideal(transferring) + ideal(zeros.lanes)
    } else {
        ideal(copy.lanes)
    };
    // Past L1, lanes with one destination may be one.
    ideal.min(wavefronts(copy))
}

/// What a copy past L1 is made of: the lanes that have transfers, and a store of zeros.
fn past_l1<'a>(copy: &AsyncCopy<'a>) -> (u32, Access<'a>) {
    let (transferring, zeros) = match copy.size {
        SourceSize::Whole => (copy.lanes, 0),
        SourceSize::AllOrNothing => (copy.readable, copy.lanes & !copy.readable),
        SourceSize::Number => (copy.lanes, copy.lanes),
    };
    (last_writers(copy) & transferring, Access { lanes: zeros, ..copy.writes() })
}

/// The sectors of global memory that a copy asks for.
pub fn sectors(copy: &AsyncCopy<'_>) -> u32 {
    if !copy.bypasses_l1 {
        return sectors::sectors(&copy.reads());
    }
    // Sector of the source and of the destination, and the half of the source.
    let mut transfers: Vec<(u64, u64, bool)> = lanes(last_writers(copy) & copy.readable)
        .map(|lane| {
            let (source, destination) = (copy.sources[lane], copy.destinations[lane]);
            (source / SECTOR_BYTES, destination / SECTOR_BYTES, source % SECTOR_BYTES >= UNIT)
        })
        .collect();
    transfers.sort_unstable();
    let pairs = transfers.chunk_by(|one, other| (one.0, one.1) == (other.0, other.1));
    pairs
        .map(|pair| pair.chunk_by(|one, other| one.2 == other.2).map(|half| half.len() as u32).max().unwrap_or(0))
        .sum()
}

/// The lanes that are served together.
fn parts(copy: &AsyncCopy<'_>) -> impl Iterator<Item = u32> + use<> {
    let size = 128 / copy.bytes;
    (0..32 / size).map(move |part| (u32::MAX >> (32 - size)) << (part * size))
}

/// The wavefronts of a part of a warp.
fn through_l1(copy: &AsyncCopy<'_>, part: u32) -> u32 {
    // As many words side by side as a lane copies are one bank here.
    let bank = |address: u64| 1u32 << (address % LINE / u64::from(copy.bytes));
    let mut rest = copy.lanes & part;
    let mut wavefronts = 0;
    while rest != 0 {
        let (mut read, mut written) = (0, 0);
        for lane in lanes(rest) {
            let to = bank(copy.destinations[lane]);
            let from = if copy.readable >> lane & 1 != 0 { bank(copy.sources[lane]) } else { 0 };
            if read & from == 0 && written & to == 0 {
                rest &= !(1 << lane);
            }
            read |= from;
            written |= to;
        }
        wavefronts += 1;
    }
    wavefronts
}

/// The lanes without those whose destination a later one has, too.
fn last_writers(copy: &AsyncCopy<'_>) -> u32 {
    let again = |lane: usize, later: u32| lanes(later).any(|other| copy.destinations[other] == copy.destinations[lane]);
    lanes(copy.lanes)
        .filter(|lane| !again(*lane, copy.lanes & u32::MAX.checked_shl(*lane as u32 + 1).unwrap_or(0)))
        .fold(0, |all, lane| all | 1 << lane)
}

/// What one lane copies past L1.
#[derive(Clone, Copy)]
struct Transfer {
    /// Lines of source and destination.
    lines: (u64, u64),
    /// In which of the bits 4 and 5 the addresses differ.
    shift: u64,
    /// Sectors of source and destination within their lines.
    sectors: [u64; 2],
}

impl Transfer {
    fn of(copy: &AsyncCopy<'_>, lane: usize) -> Transfer {
        let (source, destination) = (copy.sources[lane], copy.destinations[lane]);
        Transfer {
            lines: (source / LINE, destination / LINE),
            shift: ((source ^ destination) / UNIT) & 3,
            sectors: [source, destination].map(|address| address % LINE / SECTOR_BYTES),
        }
    }
}
