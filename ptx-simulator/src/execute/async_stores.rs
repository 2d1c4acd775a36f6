//! Asynchronous stores to the shared memory of the cluster's blocks (`st.async`).
//!
//! What is stored is read from the registers when the instruction is executed, and addresses are checked then. The bytes
//! come as late as they may: with the bulk loads of the same mbarrier (see [`super::bulk`]), lane by lane, until its phase
//! is complete. So a reader who doesn't wait for the phase finds what was there before.

use super::access::{Request, lane_addresses, lanes};
use super::coordination::Coordination;
use super::run::{Executor, Result, list_range, read_row, read_wide_row};
use super::warp::Warp;
use crate::decode::program::*;
use crate::error::{AccessKind, MbarrierProblem, MemorySpace};
use crate::memory::store;
use crate::observe::{self, MbarrierEvent, Stored, Watch};

/// The most that a lane stores.
const MOST_BYTES: usize = 16;

/// One instruction's stores that the same mbarrier counts.
pub(super) struct AsyncStores {
    warp: u32,
    instruction: u32,
    /// Lanes whose stores haven't happened.
    pub lanes: u32,
    /// Bytes of a lane.
    bytes: u32,
    /// In shared memory of the cluster.
    addresses: [u64; 32],
    values: [[u8; MOST_BYTES]; 32],
}

impl AsyncStores {
    /// What an observer is shown of some lanes.
    fn observed(&self, lanes: u32) -> observe::Access<'_> {
        let (space, kind) = (MemorySpace::Shared, AccessKind::Write);
        observe::Access { space, kind, lanes, addresses: &self.addresses, bytes: self.bytes, stored: None }
    }
}

impl<W: Watch> Executor<'_, W> {
    /// Begins an asynchronous store of each lane.
    pub fn async_store(
        &mut self,
        warp: &Warp,
        pc: u32,
        what: &AsyncStore,
        active: u32,
        coordination: &mut Coordination,
    ) -> Result<()> {
        // Whatever isn't in the window of generic addresses is far outside.
        let window = if what.generic { SHARED_WINDOW } else { 0 };
        let place = |address: ShortAddress| {
            lane_addresses(warp.rows, &address.into()).map(|address| address.wrapping_sub(window))
        };
        let (mut addresses, mbarriers) = (place(what.address), place(what.mbarrier));
        let bytes = u32::from(what.bytes) * u32::from(what.count);
        let request = Request::quiet(Target::Cluster, AccessKind::Write, bytes);
        let resolved = self.resolve(warp, pc, &mut addresses, active, request)?;
        let active = active & !self.lost(&resolved.pointers, active);
        for lane in lanes(active) {
            let mbarrier = mbarriers[lane];
            self.check_mbarrier_address(warp, pc, lane, Target::Cluster, mbarrier, AccessKind::Atomic)?;
            if mbarrier / BLOCK_WINDOW != addresses[lane] / BLOCK_WINDOW {
                return Err(self.misuse(warp, pc, lane, mbarrier, MbarrierProblem::Elsewhere));
            }
            self.find(warp, pc, lane, mbarrier, coordination)?;
        }
        let program = self.launch.program;
        let elements = match what.count {
            1 => std::slice::from_ref(&what.data),
            count => &program.lists[list_range(what.data, count)],
        };
        let mut values = [[0; MOST_BYTES]; 32];
        for (element, row) in elements.iter().enumerate() {
            // SAFETY: the decoder allocated the rows, two for registers of 64 bits.
            let words = unsafe {
                match what.wide {
                    true => read_wide_row(warp.rows, *row),
                    false => read_row(warp.rows, *row).map(u64::from),
                }
            };
            let size = usize::from(what.bytes);
            for (value, word) in values.iter_mut().zip(words) {
                value[element * size..(element + 1) * size].copy_from_slice(&word.to_le_bytes()[..size]);
            }
        }
        let stores = AsyncStores { warp: warp.number, instruction: pc, lanes: active, bytes, addresses, values };
        if W::ACTIVE && active != 0 {
            // SAFETY: the warp has that many rows, and nothing writes to them meanwhile.
            let rows = unsafe { std::slice::from_raw_parts(warp.rows, program.rows as usize) };
            let stored = Some(Stored::new(rows, elements, what.bytes, what.wide));
            let place = self.place(warp, pc);
            let access = observe::Access { stored, ..stores.observed(active) };
            self.watch.observer().async_stores_begin(place, access);
        }
        lanes(active)
            .for_each(|lane| self.tell(warp.number, lane, pc, mbarriers[lane], MbarrierEvent::ArrivesAfterCopies));
        let mut rest = active;
        while rest != 0 {
            let mbarrier = mbarriers[rest.trailing_zeros() as usize];
            let same = lanes(rest).filter(|lane| mbarriers[*lane] == mbarrier).fold(0, |same, lane| same | 1 << lane);
            rest &= !same;
            coordination.bulk.expect_stores(AsyncStores { lanes: same, ..stores }, mbarrier);
        }
        coordination.events += 1;
        Ok(())
    }

    /// Lets the store of the first lane happen whose hasn't; gives warp, lane, instruction and bytes.
    pub fn land_store(&mut self, stores: &mut AsyncStores) -> (u32, usize, u32, u32) {
        let AsyncStores { warp, instruction, bytes, .. } = *stores;
        let lane = stores.lanes.trailing_zeros() as usize;
        stores.lanes &= stores.lanes - 1;
        let address = stores.addresses[lane];
        let place = self.shared_base(address).wrapping_add(address as usize);
        for (word, value) in stores.values[lane][..bytes as usize].chunks_exact(4).enumerate() {
            let value = u64::from(u32::from_le_bytes([value[0], value[1], value[2], value[3]]));
            // SAFETY: the lane's bytes were checked for the cluster's shared memory, which this worker alone uses, and are
            // whole words.
            unsafe { store::<4>(place.wrapping_add(4 * word), value) };
        }
        if W::ACTIVE {
            let place = self.place_of(warp, instruction);
            self.watch.observer().async_stores_complete(place, stores.observed(1 << lane));
        }
        (warp, lane, instruction, bytes)
    }

    /// Takes note of stores that nobody waited for.
    pub fn abandon_stores(&mut self, stores: &AsyncStores) {
        if W::ACTIVE {
            let place = self.place_of(stores.warp, stores.instruction);
            self.watch.observer().async_stores_abandoned(place, stores.observed(stores.lanes));
        }
    }
}
