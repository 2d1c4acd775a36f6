//! Global memory's sectors: how many an access touches.
//!
//! Global memory travels in sectors of 32 bytes. A request, that is, a warp's instruction, asks for each sector that
//! any of its lanes touches once, whatever the width of the access and whether it loads or stores. On an H200, ncu's
//! `l1tex__t_sectors_pipe_lsu_mem_global_op_ld` and `_op_st` said so for each of 890 patterns of addresses of 1 to 16
//! bytes per lane, with all lanes or some; half of them are in `tests/costs/sectors.txt`.
//!
//! Atomics are not in that measurement; the sectors that they touch are counted in the same way.

use super::distinct;
use crate::execute::lanes;
use crate::observe::Access;

const SECTOR: u64 = 32;
/// Only the totals matter; many slots find them fast.
const SLOTS: u64 = 32;

/// The sectors that an access to global memory touches.
pub fn sectors(access: &Access<'_>) -> u32 {
    let width = u64::from(access.bytes);
    // No access is wider than a sector, and all are aligned to their width: each lies inside one.
    debug_assert!(width <= SECTOR);
    distinct::count(lanes(access.lanes).map(|lane| access.addresses[lane] / SECTOR), SLOTS).total
}

/// The fewest sectors that could hold as many different bytes as the lanes ask for. [`sectors`] divided by this is how
/// many times as much is moved as is needed.
pub fn ideal(access: &Access<'_>) -> u32 {
    let width = u64::from(access.bytes).max(1);
    let elements = distinct::count(lanes(access.lanes).map(|lane| access.addresses[lane] / width), SLOTS).total;
    (u64::from(elements) * width).div_ceil(SECTOR) as u32
}
