//! Different values among those of a warp's lanes, and how many lanes share one.

/// How many different values there are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Distinct {
    /// In all.
    pub total: u32,
    /// In the fullest slot.
    pub fullest: u32,
}

/// Counts the different ones among at most 32 values, each of which belongs into slot `value % slots`.
///
/// `slots` is at most 32 and not 0.
pub(super) fn count(values: impl Iterator<Item = u64>, slots: u64) -> Distinct {
    const NOBODY: u8 = u8::MAX;
    // The values of a slot form a list: `first` begins it, `next` leads on.
    let (mut first, mut next, mut lengths) = ([NOBODY; 32], [NOBODY; 32], [0u8; 32]);
    let mut known = [0; 32];
    let mut distinct = Distinct::default();
    for value in values {
        let slot = (value % slots) as usize;
        let mut at = first[slot];
        while at != NOBODY && known[usize::from(at)] != value {
            at = next[usize::from(at)];
        }
        if at == NOBODY {
            let new = distinct.total as usize;
            known[new] = value;
            next[new] = first[slot];
            first[slot] = new as u8;
            lengths[slot] += 1;
            distinct.total += 1;
            distinct.fullest = distinct.fullest.max(u32::from(lengths[slot]));
        }
    }
    distinct
}

/// How many of at most 32 values are in the fullest slot, equal ones counted each.
///
/// `slots` is at most 32 and not 0.
pub(super) fn most_in_slot(values: impl Iterator<Item = u64>, slots: u64) -> u32 {
    let mut counts = [0; 32];
    for value in values {
        counts[(value % slots) as usize] += 1;
    }
    counts.into_iter().max().unwrap_or(0)
}

/// The different ones among at most 32 values, and how often each is there.
#[derive(Clone, Copy, Debug)]
pub(super) struct Repeats {
    values: [(u64, u32); 32],
    total: usize,
}

impl Repeats {
    /// Counts equal values.
    pub(super) fn of(values: impl Iterator<Item = u64>) -> Repeats {
        let mut sorted = [0; 32];
        let mut all = 0;
        for (slot, value) in sorted.iter_mut().zip(values) {
            *slot = value;
            all += 1;
        }
        sorted[..all].sort_unstable();
        let mut repeats = Repeats { values: [(0, 0); 32], total: 0 };
        for equal in sorted[..all].chunk_by(|one, other| one == other) {
            repeats.values[repeats.total] = (equal[0], equal.len() as u32);
            repeats.total += 1;
        }
        repeats
    }

    /// Each value with how often it is there, in ascending order of the values.
    pub(super) fn by_value(&self) -> &[(u64, u32)] {
        &self.values[..self.total]
    }

    /// How often the most frequent value is there; 0 without values.
    pub(super) fn most(&self) -> u32 {
        self.by_value().iter().map(|(_, times)| *times).max().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_value_counts_once_in_its_slot() {
        let values = [5, 5, 37, 6, 5, 69, 37];
        assert_eq!(count(values.into_iter(), 32), Distinct { total: 4, fullest: 3 });
        assert_eq!(count(values.into_iter(), 1), Distinct { total: 4, fullest: 4 });
        assert_eq!(count([].into_iter(), 32), Distinct::default());
        assert_eq!(count(0..32, 32), Distinct { total: 32, fullest: 1 });
        assert_eq!(count((0..32).map(|lane| lane * 32), 32), Distinct { total: 32, fullest: 32 });
    }

    #[test]
    fn equal_values_count_each_where_lanes_do_not_share() {
        let values = [5, 5, 37, 6, 5, 69, 37];
        assert_eq!(most_in_slot(values.into_iter(), 32), 6);
        assert_eq!(most_in_slot([].into_iter(), 32), 0);
        let repeats = Repeats::of(values.into_iter());
        assert_eq!(repeats.by_value(), [(5, 3), (6, 1), (37, 2), (69, 1)]);
        assert_eq!(repeats.most(), 3);
        assert_eq!(Repeats::of([].into_iter()).most(), 0);
        assert_eq!(Repeats::of([u64::MAX; 32].into_iter()).by_value(), [(u64::MAX, 32)]);
    }
}
