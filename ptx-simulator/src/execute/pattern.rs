//! Addresses that follow a pattern.
//!
//! The 32 addresses of an access nearly always are one, two or four runs of equal steps: all the same, consecutive, or
//! a row of a tile for each half of the warp. Such runs are found once for a base register and used by every access
//! that adds its own constant to it, which then copies whole runs instead of going lane by lane.

use super::warp::{ALL, Warp};
use crate::decode::program::{Access, Address};
use crate::memory::{load, store};

/// Longest step of a run in bytes.
const MAX_STEP: u64 = 1 << 32;

/// How many runs the lanes fall into.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shape {
    Whole,
    Halves,
    Quarters,
    /// No pattern, or not all lanes.
    Scattered,
}

/// The pattern of a base register's 32 addresses.
#[derive(Clone, Copy, Debug)]
pub(super) struct AddressPattern {
    shape: Shape,
    /// First address of each run, and the step from lane to lane.
    runs: [(u64, u64); 4],
    low: u64,
    high: u64,
    /// All bits that are set in any address or step: what is zero here is zero in every address.
    bits: u64,
}

impl AddressPattern {
    pub const NONE: AddressPattern =
        AddressPattern { shape: Shape::Scattered, runs: [(0, 0); 4], low: 0, high: 0, bits: 0 };

    /// Finds the pattern of a base register, constants left out.
    ///
    /// It's written in place: a copy of the whole would wait for the stores of its parts.
    #[inline(always)]
    pub fn find(&mut self, warp: &Warp, address: &Address) {
        if address.wide {
            // SAFETY: the decoder allocated the base's two rows, which are 32 aligned doublewords.
            self.find_in(unsafe { &*warp.rows.add(address.base as usize).cast::<[u64; 32]>() });
        } else {
            // SAFETY: the decoder allocated the base's row.
            let narrow = unsafe { &(*warp.rows.add(address.base as usize)).0 };
            let mut lanes = [0; 32];
            for (wide, narrow) in lanes.iter_mut().zip(narrow) {
                *wide = u64::from(*narrow);
            }
            self.find_in(&lanes);
        }
    }

    #[inline(always)]
    fn find_in(&mut self, lanes: &[u64; 32]) {
        // Bit `i` says that lane `i` is as far from the one before it as from the one after it.
        let mut even = 0u32;
        for lane in 1..31 {
            let bend = lanes[lane + 1].wrapping_sub(lanes[lane]) ^ lanes[lane].wrapping_sub(lanes[lane - 1]);
            even |= u32::from(bend == 0) << lane;
        }
        // The ends of a run may bend; all between mustn't.
        let (shape, length) = if even == 0x7fff_fffe {
            (Shape::Whole, 32)
        } else if even & 0x7ffe_7ffe == 0x7ffe_7ffe {
            (Shape::Halves, 16)
        } else if even & 0x7e7e_7e7e == 0x7e7e_7e7e {
            (Shape::Quarters, 8)
        } else {
            self.shape = Shape::Scattered;
            return;
        };
        self.shape = shape;
        let (mut low, mut high, mut bits) = (u64::MAX, 0, 0);
        let mut longest = 0;
        for (run, first) in self.runs.iter_mut().zip((0..32).step_by(length)) {
            let (start, end) = (lanes[first], lanes[first + length - 1]);
            let step = lanes[first + 1].wrapping_sub(start);
            *run = (start, step);
            low = low.min(start).min(end);
            high = high.max(start).max(end);
            bits |= start | step;
            longest = longest.max((step as i64).unsigned_abs());
        }
        // The ends bound the lanes between them only if the steps don't lead around the address space.
        if longest > MAX_STEP {
            self.shape = Shape::Scattered;
        }
        (self.low, self.high, self.bits) = (low, high, bits);
    }

    /// Lowest and highest address of an access with the constant `offset`, if the pattern can serve it: it must be
    /// aligned to its `bytes`, and its addresses mustn't wrap.
    #[inline(always)]
    pub fn span(&self, offset: i64, bytes: u64, active: u32) -> Option<(u64, u64)> {
        let aligned = (self.bits | offset as u64) & (bytes - 1) == 0;
        if self.shape == Shape::Scattered || !aligned || active != ALL {
            return None;
        }
        let (low, high) = (self.low.wrapping_add(offset as u64), self.high.wrapping_add(offset as u64));
        (low <= high).then_some((low, high))
    }

    /// Loads 32-bit elements, `host` being where address 0 would lie.
    ///
    /// # Safety
    /// The span for `offset` must have been found valid for reads at `host`; `rows` must be the warp's.
    /// With `SHARED` nobody else accesses the memory.
    #[inline(always)]
    pub unsafe fn load<const SHARED: bool>(&self, warp: &Warp, host: *mut u8, offset: i64, row: u32) {
        // SAFETY: passed on to the caller.
        unsafe {
            let row = warp.rows.add(row as usize).cast::<u32>();
            let at = |run: usize| host.wrapping_add(self.runs[run].0.wrapping_add(offset as u64) as usize);
            match self.shape {
                Shape::Whole => load_run::<32, SHARED>(at(0), self.runs[0].1, row),
                Shape::Halves => {
                    load_run::<16, SHARED>(at(0), self.runs[0].1, row);
                    load_run::<16, SHARED>(at(1), self.runs[1].1, row.add(16));
                }
                Shape::Quarters => {
                    for run in 0..4 {
                        load_run::<8, SHARED>(at(run), self.runs[run].1, row.add(run * 8));
                    }
                }
                Shape::Scattered => {}
            }
        }
    }

    /// Stores 32-bit elements, lanes in order.
    ///
    /// # Safety
    /// As [`AddressPattern::load`], for writes.
    #[inline(always)]
    pub unsafe fn store<const SHARED: bool>(&self, warp: &Warp, host: *mut u8, offset: i64, row: u32) {
        // SAFETY: passed on to the caller.
        unsafe {
            let row = warp.rows.add(row as usize).cast::<u32>();
            let at = |run: usize| host.wrapping_add(self.runs[run].0.wrapping_add(offset as u64) as usize);
            match self.shape {
                Shape::Whole => store_run::<32, SHARED>(at(0), self.runs[0].1, row),
                Shape::Halves => {
                    store_run::<16, SHARED>(at(0), self.runs[0].1, row);
                    store_run::<16, SHARED>(at(1), self.runs[1].1, row.add(16));
                }
                Shape::Quarters => {
                    for run in 0..4 {
                        store_run::<8, SHARED>(at(run), self.runs[run].1, row.add(run * 8));
                    }
                }
                Shape::Scattered => {}
            }
        }
    }
}

/// Bytes of all elements of an access.
#[inline(always)]
pub(super) fn total_bytes(access: &Access) -> u64 {
    u64::from(access.bytes) * u64::from(access.count)
}

/// # Safety
/// `LENGTH` words, `step` bytes apart from `from` on, must be readable and aligned, `to` writable.
#[inline(always)]
unsafe fn load_run<const LENGTH: usize, const SHARED: bool>(from: *mut u8, step: u64, to: *mut u32) {
    // SAFETY: passed on to the caller.
    unsafe {
        match (step, SHARED) {
            (4, true) => to.cast::<[u32; LENGTH]>().write(from.cast::<[u32; LENGTH]>().read()),
            (0, _) => to.cast::<[u32; LENGTH]>().write([load::<4>(from) as u32; LENGTH]),
            (4, false) => {
                for lane in 0..LENGTH {
                    *to.add(lane) = load::<4>(from.add(lane * 4)) as u32;
                }
            }
            _ => {
                let mut from = from;
                for lane in 0..LENGTH {
                    *to.add(lane) = load::<4>(from) as u32;
                    from = from.wrapping_add(step as usize);
                }
            }
        }
    }
}

/// # Safety
/// As [`load_run`], with the directions exchanged.
#[inline(always)]
unsafe fn store_run<const LENGTH: usize, const SHARED: bool>(to: *mut u8, step: u64, from: *const u32) {
    // SAFETY: passed on to the caller.
    unsafe {
        match (step, SHARED) {
            (4, true) => to.cast::<[u32; LENGTH]>().write(from.cast::<[u32; LENGTH]>().read()),
            (4, false) => {
                for lane in 0..LENGTH {
                    store::<4>(to.add(lane * 4), u64::from(*from.add(lane)));
                }
            }
            _ => {
                let mut to = to;
                for lane in 0..LENGTH {
                    store::<4>(to, u64::from(*from.add(lane)));
                    to = to.wrapping_add(step as usize);
                }
            }
        }
    }
}
