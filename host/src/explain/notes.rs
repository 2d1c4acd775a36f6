//! What stands out in a launch: the access with the worst bank conflicts, the one that wastes most sectors, and a product
//! that takes fewer fused multiply-adds than it has terms.

use std::collections::BTreeMap;

use ptx_simulator::observe::costs::{Counts, InstructionCosts, Traffic};

use super::{
    lines::{Place, Source},
    roofline::SECTOR_BYTES,
};

/// Bank conflicts of a larger degree are pointed out.
const NOTEWORTHY_DEGREE: f64 = 1.25;

/// So are accesses that touch more than so many times the fewest sectors. Two rows of a block in a warp touch twice as
/// many as one would, which is no mistake.
const NOTEWORTHY_WASTE: f64 = 2.0;

/// Something that the reader should know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Note {
    /// The access to shared memory with the worst bank conflicts.
    BankConflict(Spot),
    /// The access to global memory that touches most sectors in vain.
    NotCoalesced(Spot),
    /// There are fewer fused multiply-adds than the product has terms: it isn't computed, or not with them.
    FewerMultiplyAdds {
        /// Those of all threads.
        found: u64,
        /// Those of the product, m * n * k.
        needed: u128,
    },
    /// The time is from another GPU than the one whose limits are applied.
    OtherGpu {
        /// The GPU that was timed, as its driver calls it.
        device: String,
    },
}

/// What one kind of access at one place of the source costs, all its copies together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spot {
    /// The file.
    pub file: String,
    /// The line, from 1.
    pub line: u32,
    /// The column, from 1, where it's known.
    pub column: Option<u32>,
    /// The instruction with its modifiers.
    pub mnemonic: String,
    /// Its accesses.
    pub traffic: Traffic,
}

impl Spot {
    /// Bytes of the sectors that the accesses touch beyond the fewest possible, for global memory.
    pub fn wasted_bytes(&self) -> u64 {
        excess(&self.traffic) * SECTOR_BYTES
    }
}

/// What stands out among `instructions`, whose source lines are `places` in files of `sources`.
pub fn notes(instructions: &[InstructionCosts], places: &[Option<Place>], sources: &[Source<'_>]) -> Vec<Note> {
    let accesses = accesses(instructions, places);
    let worst = |traffic: fn(&Counts) -> Traffic, from: f64| {
        let all = accesses.iter().map(|(at, counts)| (at, traffic(counts)));
        let noteworthy = all.filter(|(_, traffic)| traffic.units as f64 > from * traffic.ideal as f64);
        // The largest excess, not the largest ratio: a bad line that is executed once costs little.
        let ((place, mnemonic), traffic) = noteworthy.max_by_key(|(_, traffic)| excess(traffic))?;
        let file = sources.get(place.file).map_or("", |(name, _)| name).to_owned();
        let column = place.column.filter(|column| *column > 0);
        Some(Spot { file, line: place.line, column, mnemonic: (*mnemonic).to_owned(), traffic })
    };
    let conflict = worst(Counts::shared, NOTEWORTHY_DEGREE).map(Note::BankConflict);
    let waste = worst(Counts::global, NOTEWORTHY_WASTE).map(Note::NotCoalesced);
    conflict.into_iter().chain(waste).collect()
}

/// Whether a launch that costs `counts` has fewer multiply-adds, of threads and of tensor cores, than its m x k by k x n
/// product has terms.
pub fn fewer_multiply_adds(counts: &Counts, shape: [usize; 3]) -> Option<Note> {
    let needed = shape.into_iter().fold(1_u128, |product, size| product.saturating_mul(size as u128));
    let found = counts.thread_fma.saturating_add(counts.mma_multiply_adds);
    (u128::from(found) < needed).then_some(Note::FewerMultiplyAdds { found, needed })
}

/// Wavefronts or sectors beyond the fewest possible.
fn excess(traffic: &Traffic) -> u64 {
    traffic.units.saturating_sub(traffic.ideal)
}

/// The counts of a launch by place in the source and mnemonic.
fn accesses<'a>(instructions: &'a [InstructionCosts], places: &[Option<Place>]) -> BTreeMap<(Place, &'a str), Counts> {
    let mut accesses: BTreeMap<(Place, &str), Counts> = BTreeMap::new();
    for instruction in instructions {
        if let Some(Some(place)) = places.get(instruction.instruction as usize) {
            *accesses.entry((*place, &instruction.mnemonic)).or_default() += instruction.counts;
        }
    }
    accesses
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load(instruction: u32, units: u64, ideal: u64) -> InstructionCosts {
        let shared_loads = Traffic { requests: 1, units, ideal, bytes: 128 };
        let counts = Counts { shared_loads, ..Counts::default() };
        InstructionCosts { instruction, mnemonic: "ld.shared.f32".to_owned(), ptx_line: 0, source: None, counts }
    }

    #[test]
    fn the_access_that_costs_most_in_vain_stands_out_and_its_copies_count_together() {
        let place = |line| Some(Place { file: 0, line, column: Some(0) });
        // 31 in vain at line 7; twice 20 at line 8, of a smaller degree.
        let costs = [load(0, 32, 1), load(1, 40, 20), load(2, 40, 20)];
        let notes = notes(&costs, &[place(7), place(8), place(8)], &[("k.rs", "")]);
        let traffic = Traffic { requests: 2, units: 80, ideal: 40, bytes: 256 };
        let mnemonic = "ld.shared.f32".to_owned();
        let spot = Spot { file: "k.rs".to_owned(), line: 8, column: None, mnemonic, traffic };
        assert_eq!(notes, [Note::BankConflict(spot)]);
    }

    #[test]
    fn a_product_of_fewer_multiply_adds_than_it_has_terms_stands_out() {
        let counts = |thread_fma| Counts { thread_fma, ..Counts::default() };
        let note = fewer_multiply_adds(&counts(59), [3, 4, 5]);
        assert_eq!(note, Some(Note::FewerMultiplyAdds { found: 59, needed: 60 }));
        assert_eq!(fewer_multiply_adds(&counts(60), [3, 4, 5]), None);
        assert!(fewer_multiply_adds(&counts(u64::MAX), [usize::MAX; 3]).is_some());
    }

    #[test]
    fn what_costs_hardly_more_than_it_must_does_not_stand_out() {
        let place = Some(Place { file: 0, line: 7, column: None });
        assert_eq!(notes(&[load(0, 1000, 800)], &[place], &[("k.rs", "")]), []);
    }
}
