//! Shared memory's banks: how many wavefronts an access takes.
//!
//! Shared memory has 32 banks of 4 bytes; word `w` lies in bank `w % 32`. A wavefront is one pass over all banks, in
//! which each of them gives or takes one word; in loads and stores, any number of lanes may share that word. Lanes that
//! need different words of one bank need several wavefronts: a bank conflict.
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
//! # Matrices
//! `ldmatrix` and `stmatrix` access 8 rows of 16 bytes for each matrix, and each matrix takes as many wavefronts as its
//! rows meet in one group of four banks; 1 if none do. This follows from the 128 bytes of a matrix and the quarter-warps
//! above; it was not measured.
//!
//! # Atomics
//! Lanes never share a word in an atomic, not even the same one. One of 4 bytes takes as many wavefronts as there are
//! lanes in the fullest bank: 32 if the whole warp adds to one word. One of 8 bytes is cut up into half-warps like a
//! store; each takes two wavefronts for each lane in its fullest pair of banks.
//!
//! # Where this comes from
//! Measured on an H200 (compute capability 9.0): one warp, one access, ncu's
//! `l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld`, `_op_st` and `_op_atom`, for 1653 patterns of addresses. The
//! rules give every one of them; patterns and counts are in `tests/costs/wavefronts.txt`. Every row of the table was
//! measured. Other generations may differ.
//!
//! The atomics among them, 110 patterns each, were `atom.add.u32` with a result (`ATOMS.ADD`) and `atom.cas.b64`
//! (`ATOMS.CAS.64`). What the assembler makes of others was looked at (CUDA 13.0, `sm_90`), but their wavefronts were
//! not measured:
//!
//! - Compare-and-swap, maximum and addition without a result, of integers of 4 bytes, are single instructions too
//!   (`ATOMS.CAS`, `ATOMS.MAX`, `ATOMS.ADD`). All of 4 bytes are taken to be like the one that was measured.
//! - `red.add.u32` of the constant 1 is an instruction of its own (`ATOMS.POPC.INC`). Whether it serves lanes with one
//!   address together is not known; here it counts like `ATOMS.ADD`.
//! - `red.add` of `f32` and of `u64` has no instruction: it becomes a loop of a load and a compare-and-swap
//!   (`ATOMS.CAST.SPIN`). Here it counts as one atomic of its width, without the loads and the repetitions.

use super::distinct::{self, Repeats};
use crate::error::AccessKind;
use crate::execute::lanes;
use crate::observe::{Access, MatrixAccess};

const BANKS: u64 = 32;
const WORD: u64 = 4;
/// Bytes of a row of all banks.
pub(super) const ROW: u64 = BANKS * WORD;

/// The wavefronts that an access to shared memory takes.
pub fn wavefronts(access: &Access<'_>) -> u32 {
    let (_, slots) = element_of(access);
    if access.kind == AccessKind::Atomic {
        let lanes = parts(access, false).map(|part| distinct::most_in_slot(elements(access, part), slots));
        return lanes.sum::<u32>() * wavefronts_of_atomic(access);
    }
    parts(access, may_join(access.kind) && is_paired(access))
        .map(|part| distinct::count(elements(access, part), slots).fullest)
        .sum()
}

/// The fewest wavefronts in which the same lanes could access as many different addresses as they do, wherever in
/// shared memory: what is left without bank conflicts. [`wavefronts`] divided by this is the degree of the conflict.
///
/// Lanes that share an address in an atomic would share it wherever it lies: they wait for each other, which is no
/// conflict of banks and stays in.
pub fn ideal(access: &Access<'_>) -> u32 {
    if access.kind == AccessKind::Atomic {
        let lanes = parts(access, false).map(|part| Repeats::of(elements(access, part)).most());
        return lanes.sum::<u32>() * wavefronts_of_atomic(access);
    }
    let used = |joined| parts(access, joined).filter(|part| access.lanes & part != 0).count() as u32;
    let apart = used(false);
    if apart <= 1 || !may_join(access.kind) {
        return apart;
    }
    // One address for each pair of lanes is as many as a paired warp can have.
    let pairs = |stride: u32| {
        let lower = lower_lanes(stride);
        (lower & (access.lanes | access.lanes >> stride)).count_ones()
    };
    if distinct::count(elements(access, u32::MAX), BANKS).total <= pairs(1).max(pairs(2)) { used(true) } else { apart }
}

/// The wavefronts in which matrices are loaded or stored: each matrix takes its own.
pub fn wavefronts_of_matrices(matrices: &MatrixAccess<'_>) -> u32 {
    let rows = matrices.by_rows();
    let (_, slots) = element_of(&rows);
    parts(&rows, false).map(|matrix| distinct::count(elements(&rows, matrix), slots).fullest).sum()
}

/// The fewest wavefronts in which so many matrices can be loaded or stored: one for each.
pub fn ideal_of_matrices(matrices: &MatrixAccess<'_>) -> u32 {
    let rows = matrices.by_rows();
    parts(&rows, false).filter(|matrix| rows.lanes & matrix != 0).count() as u32
}

/// What lanes may share, in bytes, and how many of them lie beside each other in all banks.
fn element_of(access: &Access<'_>) -> (u64, u64) {
    let element = u64::from(access.bytes).max(WORD);
    (element, (ROW / element).max(1))
}

/// What each active lane of a part of the warp accesses, numbered through shared memory.
fn elements<'a>(access: &'a Access<'_>, part: u32) -> impl Iterator<Item = u64> + use<'a> {
    let (element, _) = element_of(access);
    lanes(access.lanes & part).map(move |lane| access.addresses[lane] / element)
}

/// The wavefronts that an atomic takes for each lane of the fullest bank: one for each word.
fn wavefronts_of_atomic(access: &Access<'_>) -> u32 {
    access.bytes.div_ceil(WORD as u32).max(1)
}

/// The lanes that are served together, part by part.
fn parts(access: &Access<'_>, joined: bool) -> impl Iterator<Item = u32> + use<> {
    let apart = (access.bytes / WORD as u32).clamp(1, 32);
    let parts = if joined { (apart / 2).max(1) } else { apart };
    let size = 32 / parts;
    (0..parts).map(move |part| (u32::MAX >> (32 - size)) << (part * size))
}

fn may_join(kind: AccessKind) -> bool {
    kind == AccessKind::Read
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
