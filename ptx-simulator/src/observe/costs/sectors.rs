//! Global memory's sectors: how many an access touches.
//!
//! Global memory travels in sectors of 32 bytes. A request, that is, a warp's instruction, asks for each sector that
//! any of its lanes touches once, whatever the width of the access and whether it loads or stores. An atomic sends a
//! sector again for each further lane with the same address: it counts as often as there are lanes at the address in it
//! that most of them share. 32 lanes that add to one word make 32 sectors, 32 that add to words side by side make 4.
//!
//! # Where this comes from
//! Measured on an H200 (compute capability 9.0): one warp, one access, ncu's
//! `l1tex__t_sectors_pipe_lsu_mem_global_op_ld` and `_op_st` for 890 patterns of addresses of 1 to 16 bytes per lane,
//! with all lanes or some, and `_op_red` and `_op_atom` for 180. The rules give every one of them. Half of the former
//! and all of the latter are in `tests/costs/sectors.txt`. Other generations may differ.
//!
//! The atomics were additions of integers: of 4 and 8 bytes without a result (`red`), of 4 bytes with one (`atom`).
//! Other operations are taken to be like them.

use super::distinct::{self, Repeats};
use crate::error::AccessKind;
use crate::execute::lanes;
use crate::observe::Access;

/// Bytes of a sector, the piece in which global memory is moved.
pub const SECTOR_BYTES: u64 = 32;
/// Only the totals matter; many slots find them fast.
const SLOTS: u64 = 32;

/// The sectors that an access to global memory touches; those of an atomic, as often as it sends them.
pub fn sectors(access: &Access<'_>) -> u32 {
    let width = u64::from(access.bytes);
    // No access is wider than a sector, and all are aligned to their width: each lies inside one.
    debug_assert!(width <= SECTOR_BYTES);
    let addresses = lanes(access.lanes).map(|lane| access.addresses[lane]);
    if access.kind == AccessKind::Atomic {
        let repeats = Repeats::of(addresses);
        let sectors = repeats.by_value().chunk_by(|(one, _), (other, _)| one / SECTOR_BYTES == other / SECTOR_BYTES);
        return sectors.map(|sector| sector.iter().map(|(_, times)| *times).max().unwrap_or(0)).sum();
    }
    distinct::count(addresses.map(|address| address / SECTOR_BYTES), SLOTS).total
}

/// The fewest sectors that could hold as many different bytes as the lanes ask for. [`sectors`] divided by this is how
/// many times as much is moved as is needed.
///
/// Lanes that share an address in an atomic would share it wherever it lies; that sectors are sent again for them stays
/// in.
pub fn ideal(access: &Access<'_>) -> u32 {
    let width = u64::from(access.bytes).max(1);
    let elements = lanes(access.lanes).map(|lane| access.addresses[lane] / width);
    if access.kind == AccessKind::Atomic {
        // Sectors are sent least often if elements that equally many lanes share lie together.
        let repeats = Repeats::of(elements);
        let mut times = [0; 32];
        for (slot, (_, shared)) in times.iter_mut().zip(repeats.by_value()) {
            *slot = *shared;
        }
        times.sort_unstable_by(|one, other| other.cmp(one));
        return times.iter().step_by((SECTOR_BYTES / width).max(1) as usize).sum();
    }
    (u64::from(distinct::count(elements, SLOTS).total) * width).div_ceil(SECTOR_BYTES) as u32
}
