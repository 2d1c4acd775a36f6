//! Different values among those of a warp's lanes.

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
}
