//! Shared memory's banks: how many wavefronts an access takes.
//!
//! Shared memory has 32 banks of 4 bytes; word `w` lies in bank `w % 32`. A wavefront is one pass over all banks, in
//! which each of them gives or takes one word; any number of lanes may share that word. Lanes that need different words
//! of one bank need several wavefronts: a bank conflict.
//!
//! An access of 8 or 16 bytes per lane is more than the banks hold in one pass, so the warp is cut up first, and each
//! part takes its own wavefronts. Only loads may be joined again:
//!
//! | bytes per lane | loads | stores |
//! |---|---|---|
//! | 1, 2, 4 | whole warp | whole warp |
//! | 8 | two half-warps; one whole warp if *paired* | two half-warps |
//! | 16 | four quarter-warps; two half-warps if *paired* | four quarter-warps |
//!
//! *Paired*: throughout the warp, each active lane `i` reads the address of lane `i ^ 1`, or lane `i ^ 1` isn't active;
//! or the same throughout the warp for lane `i ^ 2`. One lane without its pair anywhere undoes it for the whole warp.
//! Parts without active lanes take nothing.
//!
//! # Where this comes from
//! Measured on an H200 (compute capability 9.0): one warp, one access, ncu's
//! `l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld` and `_op_st`, for 1223 patterns of addresses. The rule gives
//! every one of them; patterns and counts are in `tests/costs/wavefronts.txt`. The whole-warp rows were measured
//! for loads of 4 bytes and for stores of 1, 2 and 4; loads of 1 and 2 bytes are taken to be like those. Other
//! generations may differ.
//!
//! Atomics are not in that measurement. They are given the wavefronts of a load from the same addresses; what it costs
//! that lanes with one address wait for each other isn't in it.

use super::distinct;
use crate::error::AccessKind;
use crate::execute::lanes;
use crate::observe::Access;

const BANKS: u64 = 32;
const WORD: u64 = 4;
const ROW: u64 = BANKS * WORD;

/// The wavefronts that an access to shared memory takes.
pub fn wavefronts(access: &Access<'_>) -> u32 {
    let (element, slots) = element_of(access);
    parts(access, may_join(access.kind) && is_paired(access))
        .map(|part| {
            let elements = lanes(access.lanes & part).map(|lane| access.addresses[lane] / element);
            distinct::count(elements, slots).fullest
        })
        .sum()
}

/// The fewest wavefronts in which the same lanes could access as many different addresses as they do, wherever in
/// shared memory: what is left without bank conflicts. [`wavefronts`] divided by this is the degree of the conflict.
pub fn ideal(access: &Access<'_>) -> u32 {
    let used = |joined| parts(access, joined).filter(|part| access.lanes & part != 0).count() as u32;
    let apart = used(false);
    if apart <= 1 || !may_join(access.kind) {
        return apart;
    }
    // One address for each pair of lanes is as many as a paired warp can have.
    let (element, _) = element_of(access);
    let addresses = lanes(access.lanes).map(|lane| access.addresses[lane] / element);
    let pairs = |stride: u32| {
        let lower = lower_lanes(stride);
        (lower & (access.lanes | access.lanes >> stride)).count_ones()
    };
    if distinct::count(addresses, BANKS).total <= pairs(1).max(pairs(2)) { used(true) } else { apart }
}

/// What lanes may share, in bytes, and how many of them lie beside each other in all banks.
fn element_of(access: &Access<'_>) -> (u64, u64) {
    let element = u64::from(access.bytes).max(WORD);
    (element, (ROW / element).max(1))
}

/// The lanes that are served together, part by part.
fn parts(access: &Access<'_>, joined: bool) -> impl Iterator<Item = u32> + use<> {
    let apart = (access.bytes / WORD as u32).clamp(1, 32);
    let parts = if joined { (apart / 2).max(1) } else { apart };
    let size = 32 / parts;
    (0..parts).map(move |part| (u32::MAX >> (32 - size)) << (part * size))
}

fn may_join(kind: AccessKind) -> bool {
    kind != AccessKind::Write
}

/// The lanes whose partner `lane ^ stride` is above them.
fn lower_lanes(stride: u32) -> u32 {
    if stride == 1 { 0x5555_5555 } else { 0x3333_3333 }
}

fn is_paired(access: &Access<'_>) -> bool {
    let paired = |stride: u32| {
        let both = lower_lanes(stride) & access.lanes & (access.lanes >> stride);
        lanes(both).all(|lane| access.addresses[lane] == access.addresses[lane + stride as usize])
    };
    paired(1) || paired(2)
}
