//! Atomic operations: lanes one after the other, lowest first.
//!
//! Kernels that use them on global memory run in ordered mode, one block at a time, and shared memory belongs to one
//! worker: a read followed by a write is atomic.

use half::{bf16, f16};

use super::access::{Request, lane_addresses, lanes};
use super::run::{Executor, Result};
use super::warp::Warp;
use crate::decode::program::*;
use crate::error::{AccessKind, LaunchErrorKind, MemorySpace};
use crate::memory::{load, store};
use crate::observe::Watch;

impl<W: Watch> Executor<'_, W> {
    pub fn atomic(&mut self, warp: &Warp, pc: u32, atomic: &Atomic, active: u32) -> Result<()> {
        let mut addresses = lane_addresses(warp.rows, &atomic.address);
        let bytes = u32::from(atomic.bytes);
        let request = Request { target: atomic.target, kind: AccessKind::Atomic, bytes, stored: None, quiet: false };
        let mut resolved = self.resolve(warp, pc, &mut addresses, active, request)?;
        for lane in lanes(resolved.local) {
            let kind = LaunchErrorKind::OutOfBounds {
                space: MemorySpace::Global,
                address: addresses[lane] + LOCAL_WINDOW,
                bytes: request.bytes,
                access: AccessKind::Atomic,
                nearest: self.launch.memory.nearest(addresses[lane] + LOCAL_WINDOW),
            };
            let fault = self.fault_of_lane(warp, lane as u32, pc, kind);
            self.report(fault)?;
            resolved.pointers[lane] = self.dropped(lane);
        }
        for lane in lanes(active) {
            let pointer = resolved.pointers[lane];
            // SAFETY: `resolve` found the bytes, aligned; the decoder allocated the rows, two for 8 bytes.
            unsafe {
                let read = |row: u32| match atomic.bytes {
                    8 => *warp.rows.add(row as usize).cast::<u64>().add(lane),
                    4 => u64::from((*warp.rows.add(row as usize)).0[lane]),
                    _ => u64::from((*warp.rows.add(row as usize)).0[lane] as u16),
                };
                let old = match atomic.bytes {
                    8 => load::<8>(pointer),
                    4 => load::<4>(pointer),
                    _ => load::<2>(pointer),
                };
                let operand = read(atomic.source);
                let new = if atomic.operation == AtomicOperation::CompareAndSwap {
                    if old == operand { read(atomic.source2) } else { old }
                } else {
                    combine(atomic.operation, atomic.kind, u32::from(atomic.bytes) * 8, old, operand)
                };
                match atomic.bytes {
                    8 => store::<8>(pointer, new),
                    4 => store::<4>(pointer, new),
                    _ => store::<2>(pointer, new),
                }
                if atomic.destination != NONE {
                    let row = warp.rows.add(atomic.destination as usize);
                    match atomic.bytes {
                        8 => *row.cast::<u64>().add(lane) = old,
                        _ => (*row).0[lane] = old as u32,
                    }
                }
            }
        }
        Ok(())
    }
}

/// The new value of an atomic operation, or one step of a reduction.
pub(super) fn combine(operation: AtomicOperation, kind: AtomicType, bits: u32, old: u64, operand: u64) -> u64 {
    use AtomicOperation::*;
    match operation {
        Add => add(kind, old, operand),
        Increment => u64::from(if old >= operand { 0 } else { old as u32 + 1 }),
        Decrement => {
            if old == 0 || old > operand {
                operand
            } else {
                old - 1
            }
        }
        Minimum | Maximum => {
            let less = match (kind, bits) {
                (AtomicType::Signed, 32) => (operand as i32) < old as i32,
                (AtomicType::Signed, _) => (operand as i64) < old as i64,
                _ => operand < old,
            };
            if less == (operation == Minimum) { operand } else { old }
        }
        And => old & operand,
        Or => old | operand,
        Xor => old ^ operand,
        Exchange | CompareAndSwap => operand,
    }
}

fn add(kind: AtomicType, old: u64, operand: u64) -> u64 {
    match kind {
        // The upper half of a 32-bit sum isn't stored.
        AtomicType::Unsigned | AtomicType::Signed => old.wrapping_add(operand),
        AtomicType::F32 => u64::from(add_f32(old as u32, operand as u32)),
        AtomicType::F64 => (f64::from_bits(old) + f64::from_bits(operand)).to_bits(),
        AtomicType::F16 => u64::from(add_f16(old as u16, operand as u16)),
        AtomicType::BF16 => u64::from(add_bf16(old as u16, operand as u16)),
        AtomicType::F16x2 => halves(old, operand, add_f16),
        AtomicType::BF16x2 => halves(old, operand, add_bf16),
    }
}

fn add_f32(left: u32, right: u32) -> u32 {
    let sum = f32::from_bits(left) + f32::from_bits(right);
    if sum.is_nan() { 0x7fff_ffff } else { sum.to_bits() }
}

/// The sum rounded to `f32` and then to the half type is the exact sum rounded once, because `f32` has more than twice
/// the bits of either half type and at least its exponents.
fn add_f16(left: u16, right: u16) -> u16 {
    let sum = f16::from_bits(left).to_f32() + f16::from_bits(right).to_f32();
    if sum.is_nan() { 0x7fff } else { f16::from_f32(sum).to_bits() }
}

/// As [`add_f16`].
fn add_bf16(left: u16, right: u16) -> u16 {
    let sum = bf16::from_bits(left).to_f32() + bf16::from_bits(right).to_f32();
    if sum.is_nan() { 0x7fff } else { bf16::from_f32(sum).to_bits() }
}

fn halves(old: u64, operand: u64, add: fn(u16, u16) -> u16) -> u64 {
    u64::from(add(old as u16, operand as u16)) | u64::from(add((old >> 16) as u16, (operand >> 16) as u16)) << 16
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn increments_and_decrements_wrap_at_their_operand() {
        let step = |operation, old, operand| combine(operation, AtomicType::Unsigned, 32, old, operand);
        assert_eq!(step(AtomicOperation::Increment, 3, 5), 4);
        assert_eq!(step(AtomicOperation::Increment, 5, 5), 0);
        assert_eq!(step(AtomicOperation::Increment, 9, 5), 0);
        assert_eq!(step(AtomicOperation::Decrement, 3, 5), 2);
        assert_eq!(step(AtomicOperation::Decrement, 0, 5), 5);
        assert_eq!(step(AtomicOperation::Decrement, 9, 5), 5);
    }

    #[test]
    fn minimum_and_maximum_know_signs() {
        let minus_one = u64::from(u32::MAX);
        let least = |kind| combine(AtomicOperation::Minimum, kind, 32, 1, minus_one);
        assert_eq!(least(AtomicType::Signed), minus_one);
        assert_eq!(least(AtomicType::Unsigned), 1);
    }
}
