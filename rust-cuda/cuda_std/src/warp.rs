//! The 32 threads that run together, each in its *lane*, and what they can tell each other without memory.
//!
//! Beyond [`sync_warp`] and [`lane_id`] the published 0.2.2 has none of this; the names are those of later versions.
//!
//! `mask` has a bit for each lane that takes part, usually all: [`u32::MAX`].
use crate::gpu_only;
#[cfg(target_arch = "nvptx64")]
use crate::nvvm;

/// Waits for the lanes of `mask`. What each wrote to memory before, all of them see after.
///
/// # Safety
/// This thread's lane is in `mask`, and every other lane of `mask` comes here too.
#[gpu_only]
pub unsafe fn sync_warp(mask: u32) {
    // SAFETY: the caller's promise.
    unsafe { nvvm::warp_barrier(mask) }
}

/// This thread's lane, 0 to 31.
#[gpu_only]
pub fn lane_id() -> u32 {
    // SAFETY: reads a register that every thread has.
    let lane = unsafe { nvvm::lane() };
    // SAFETY: a warp has 32 lanes.
    unsafe { core::hint::assert_unchecked(lane < 32) };
    lane
}

/// The lanes that run this instruction with this thread just now; another time it may be others. Code may not rely on
/// it to say who took a branch.
#[gpu_only]
pub fn activemask() -> u32 {
    // SAFETY: reads the state of the warp.
    unsafe { nvvm::active_mask() }
}

/// Whether `predicate` holds in every lane of `mask`.
///
/// # Safety
/// This thread's lane is in `mask`, and every other lane of `mask` comes here too.
#[gpu_only]
pub unsafe fn warp_vote_all(mask: u32, predicate: bool) -> bool {
    // SAFETY: the caller's promise.
    unsafe { nvvm::vote_all(mask, predicate) }
}

/// Whether `predicate` holds in any lane of `mask`.
///
/// # Safety
/// This thread's lane is in `mask`, and every other lane of `mask` comes here too.
#[gpu_only]
pub unsafe fn warp_vote_any(mask: u32, predicate: bool) -> bool {
    // SAFETY: the caller's promise.
    unsafe { nvvm::vote_any(mask, predicate) }
}

/// A bit for each lane of `mask` in which `predicate` holds.
///
/// # Safety
/// This thread's lane is in `mask`, and every other lane of `mask` comes here too.
#[gpu_only]
pub unsafe fn warp_vote_ballot(mask: u32, predicate: bool) -> u32 {
    // SAFETY: the caller's promise.
    unsafe { nvvm::vote_ballot(mask, predicate) }
}

/// A bit for each lane of `mask` that came with the same bits as this thread's `value`. Needs compute capability 7.0.
///
/// # Safety
/// This thread's lane is in `mask`, and every other lane of `mask` comes here too.
pub unsafe fn warp_match_any<T: WarpMatchValue>(mask: u32, value: T) -> u32 {
    // SAFETY: the caller's promise.
    unsafe { T::match_any(mask, value) }
}

/// `Some(mask)` if all lanes of `mask` came with the same bits in `value`, else `None`. Needs compute capability 7.0.
///
/// # Safety
/// This thread's lane is in `mask`, and every other lane of `mask` comes here too.
pub unsafe fn warp_match_all<T: WarpMatchValue>(mask: u32, value: T) -> Option<u32> {
    // SAFETY: the caller's promise.
    unsafe { T::match_all(mask, value) }
}

/// A value that lanes can compare.
pub trait WarpMatchValue: Sized {
    /// See [`warp_match_any`].
    ///
    /// # Safety
    /// As there.
    unsafe fn match_any(mask: u32, value: Self) -> u32;

    /// See [`warp_match_all`].
    ///
    /// # Safety
    /// As there.
    unsafe fn match_all(mask: u32, value: Self) -> Option<u32> {
        // All lanes are equal exactly if one of them, and then each, matches all.
        // SAFETY: the caller's promise.
        (unsafe { Self::match_any(mask, value) } == mask).then_some(mask)
    }
}

macro_rules! match_values {
    ($($value:ty as $bits:ty: $intrinsic:ident, $to_bits:expr;)*) => { $(
        impl WarpMatchValue for $value {
            #[gpu_only]
            unsafe fn match_any(mask: u32, value: Self) -> u32 {
                let bits: $bits = $to_bits(value);
                // SAFETY: the caller's promise.
                unsafe { nvvm::$intrinsic(mask, bits) }
            }
        }
    )* };
}

match_values! {
    u32 as u32: match_any_32, core::convert::identity;
    i32 as u32: match_any_32, i32::cast_unsigned;
    f32 as u32: match_any_32, f32::to_bits;
    u64 as u64: match_any_64, core::convert::identity;
    i64 as u64: match_any_64, i64::cast_unsigned;
    f64 as u64: match_any_64, f64::to_bits;
}

/// What [`warp_reduce`] makes of the lanes' values.
#[repr(u32)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum WarpReductionOp {
    Add,
    Min,
    Max,
    And,
    Or,
    Xor,
}

/// Adds, or otherwise combines, the `value`s of the lanes of `mask`; each of them gets the result. Needs compute
/// capability 8.0.
///
/// # Safety
/// This thread's lane is in `mask`, and every other lane of `mask` comes here too, with the same `mask`.
pub unsafe fn warp_reduce<T: WarpReduceValue>(mask: u32, value: T, op: WarpReductionOp) -> T {
    // SAFETY: the caller's promise.
    unsafe { T::reduce(mask, value, op) }
}

/// A value that [`warp_reduce`] can combine.
pub trait WarpReduceValue: Sized {
    /// See [`warp_reduce`].
    ///
    /// # Safety
    /// As there.
    unsafe fn reduce(mask: u32, value: Self, op: WarpReductionOp) -> Self;
}

macro_rules! reduce_values {
    ($($value:ty: $min:ident, $max:ident;)*) => { $(
        impl WarpReduceValue for $value {
            #[gpu_only]
            unsafe fn reduce(mask: u32, value: Self, op: WarpReductionOp) -> Self {
                let bits = value as u32;
                // SAFETY: the caller's promise.
                let reduced = unsafe {
                    match op {
                        WarpReductionOp::Add => nvvm::reduce_add(bits, mask),
                        WarpReductionOp::Min => nvvm::$min(bits, mask),
                        WarpReductionOp::Max => nvvm::$max(bits, mask),
                        WarpReductionOp::And => nvvm::reduce_and(bits, mask),
                        WarpReductionOp::Or => nvvm::reduce_or(bits, mask),
                        WarpReductionOp::Xor => nvvm::reduce_xor(bits, mask),
                    }
                };
                reduced as $value
            }
        }
    )* };
}

reduce_values! {
    u32: reduce_min_unsigned, reduce_max_unsigned;
    i32: reduce_min_signed, reduce_max_signed;
}

/// The `value` of the lane `delta` below this one, and whether there is such a lane in this part of the warp; if not,
/// this lane's own value.
///
/// `width` (1, 2, 4, 8, 16 or 32) cuts the warp into parts that shuffle by themselves. A value of more than 32 bits
/// takes one shuffle per 32 bits.
///
/// # Panics
/// If `width` is none of those.
///
/// # Safety
/// This thread's lane is in `mask`, and every other lane of `mask` comes here too. What a lane outside `mask` gives is
/// undefined.
pub unsafe fn warp_shuffle_up<T: WarpShuffleValue>(mask: u32, value: T, delta: u32, width: u32) -> (T, bool) {
    // SAFETY: the caller's promise.
    unsafe { T::shuffle(WarpShuffleMode::Up, mask, value, delta, width) }
}

/// The `value` of the lane `delta` above this one, and whether there is such a lane in this part of the warp; if not,
/// this lane's own value. See [`warp_shuffle_up`] for `width`.
///
/// # Panics
/// If `width` isn't a power of two up to 32.
///
/// # Safety
/// This thread's lane is in `mask`, and every other lane of `mask` comes here too. What a lane outside `mask` gives is
/// undefined.
pub unsafe fn warp_shuffle_down<T: WarpShuffleValue>(mask: u32, value: T, delta: u32, width: u32) -> (T, bool) {
    // SAFETY: the caller's promise.
    unsafe { T::shuffle(WarpShuffleMode::Down, mask, value, delta, width) }
}

/// The `value` of lane `idx` of this part of the warp, counted modulo `width`; the flag is always true. See
/// [`warp_shuffle_up`] for `width`.
///
/// # Panics
/// If `width` isn't a power of two up to 32.
///
/// # Safety
/// This thread's lane is in `mask`, and every other lane of `mask` comes here too. What a lane outside `mask` gives is
/// undefined.
pub unsafe fn warp_shuffle_idx<T: WarpShuffleValue>(mask: u32, value: T, idx: u32, width: u32) -> (T, bool) {
    // SAFETY: the caller's promise.
    unsafe { T::shuffle(WarpShuffleMode::Idx, mask, value, idx, width) }
}

/// The `value` of the lane whose number is this one's xor `lane_mask`, and whether it is in this part of the warp or
/// one below; if not, this lane's own value. See [`warp_shuffle_up`] for `width`.
///
/// # Panics
/// If `width` isn't a power of two up to 32.
///
/// # Safety
/// This thread's lane is in `mask`, and every other lane of `mask` comes here too. What a lane outside `mask` gives is
/// undefined.
pub unsafe fn warp_shuffle_xor<T: WarpShuffleValue>(mask: u32, value: T, lane_mask: u32, width: u32) -> (T, bool) {
    // SAFETY: the caller's promise.
    unsafe { T::shuffle(WarpShuffleMode::Xor, mask, value, lane_mask, width) }
}

/// How a shuffle finds the lane to read from.
#[doc(hidden)]
#[repr(u32)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WarpShuffleMode {
    Up,
    Down,
    Idx,
    Xor,
}

/// A value that lanes can hand each other.
pub trait WarpShuffleValue: Sized {
    /// See [`warp_shuffle_up`] and its neighbours.
    ///
    /// # Safety
    /// As there.
    unsafe fn shuffle(mode: WarpShuffleMode, mask: u32, value: Self, b: u32, width: u32) -> (Self, bool);
}

macro_rules! shuffle_values {
    ($($value:ty: $bits:expr, $back:expr;)*) => { $(
        impl WarpShuffleValue for $value {
            unsafe fn shuffle(mode: WarpShuffleMode, mask: u32, value: Self, b: u32, width: u32) -> (Self, bool) {
                // SAFETY: the caller's promise.
                let (bits, in_range) = unsafe { shuffle_bits(mode, mask, $bits(value), b, width) };
                ($back(bits), in_range)
            }
        }
    )* };
}

shuffle_values! {
    u8: |value| [value as u32], |[bits]: [u32; 1]| bits as u8;
    i8: |value| [value as u32], |[bits]: [u32; 1]| bits as i8;
    u16: |value| [value as u32], |[bits]: [u32; 1]| bits as u16;
    i16: |value| [value as u32], |[bits]: [u32; 1]| bits as i16;
    u32: |value| [value], |[bits]: [u32; 1]| bits;
    i32: |value| [value as u32], |[bits]: [u32; 1]| bits as i32;
    f32: |value: f32| [value.to_bits()], |[bits]: [u32; 1]| f32::from_bits(bits);
    u64: split_64, join_64;
    i64: |value| split_64(value as u64), |bits| join_64(bits) as i64;
    f64: |value: f64| split_64(value.to_bits()), |bits| f64::from_bits(join_64(bits));
    u128: split_128, join_128;
    i128: |value| split_128(value as u128), |bits| join_128(bits) as i128;
}

fn split_64(value: u64) -> [u32; 2] {
    [value as u32, (value >> 32) as u32]
}

fn join_64([low, high]: [u32; 2]) -> u64 {
    low as u64 | (high as u64) << 32
}

fn split_128(value: u128) -> [u32; 4] {
    [value as u32, (value >> 32) as u32, (value >> 64) as u32, (value >> 96) as u32]
}

fn join_128([a, b, c, d]: [u32; 4]) -> u128 {
    join_64([a, b]) as u128 | (join_64([c, d]) as u128) << 64
}

/// Shuffles a value of `N` 32-bit words.
///
/// # Safety
/// As for [`warp_shuffle_up`].
#[gpu_only]
unsafe fn shuffle_bits<const N: usize>(
    mode: WarpShuffleMode,
    mask: u32,
    words: [u32; N],
    b: u32,
    width: u32,
) -> ([u32; N], bool) {
    assert!(width.is_power_of_two() && width <= 32, "the width of a shuffle is a power of two up to 32");
    // The instruction's last operand: which bits of the lane's number say its part of the warp, and the last lane of a
    // part (the first one, for `up`).
    let part_bits = 32 - width;
    let last = if let WarpShuffleMode::Up = mode { 0 } else { 31 };
    let clamp = part_bits << 8 | last;
    let shuffled = words.map(|word| {
        // SAFETY: the caller's promise.
        unsafe {
            match mode {
                WarpShuffleMode::Up => nvvm::shuffle_up(mask, word, b, clamp),
                WarpShuffleMode::Down => nvvm::shuffle_down(mask, word, b, clamp),
                WarpShuffleMode::Idx => nvvm::shuffle_index(mask, word, b, clamp),
                WarpShuffleMode::Xor => nvvm::shuffle_xor(mask, word, b, clamp),
            }
        }
    });
    // The instruction can say this too, in a predicate that its LLVM intrinsic returns in a form Rust has no type for.
    let lane = lane_id();
    let first = lane & part_bits;
    let last = first | (width - 1);
    // The instruction looks at five bits of its operand.
    let b = b & 31;
    let in_range = match mode {
        WarpShuffleMode::Up => lane >= first + b,
        WarpShuffleMode::Down => lane + b <= last,
        WarpShuffleMode::Idx => true,
        WarpShuffleMode::Xor => (lane ^ b) <= last,
    };
    (shuffled, in_range)
}
