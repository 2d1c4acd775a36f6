//! What many times say: a middle, a spread, a mean of ratios.

use serde::Serialize;

/// The times of one launch, in seconds, over several batches.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Times {
    /// The middle one.
    pub median: f64,
    /// The fastest.
    pub fastest: f64,
    /// The slowest.
    pub slowest: f64,
    /// How far apart nine tenths of them are from one tenth, as a share of the middle one.
    pub spread: f64,
    /// How many: one for each round, or under load for each batch.
    pub rounds: usize,
}

impl Times {
    /// What `times` say; `None` if there are none.
    pub fn of(times: &[f64]) -> Option<Times> {
        let mut sorted = times.to_vec();
        sorted.sort_by(f64::total_cmp);
        let (fastest, slowest) = (*sorted.first()?, *sorted.last()?);
        let median = quantile(&sorted, 0.5);
        let spread = (quantile(&sorted, 0.9) - quantile(&sorted, 0.1)) / median.max(f64::MIN_POSITIVE);
        Some(Times { median, fastest, slowest, spread, rounds: sorted.len() })
    }
}

/// The number below which the share `share` of the numbers lies, between two of them in proportion.
///
/// # Panics
///
/// If there are no numbers.
pub fn quantile(sorted: &[f64], share: f64) -> f64 {
    let place = share.clamp(0.0, 1.0) * (sorted.len() - 1) as f64;
    let (below, above) = (sorted[place.floor() as usize], sorted[place.ceil() as usize]);
    below + (above - below) * place.fract()
}

/// The mean of ratios: that of their logarithms, so that twice as fast here and half as fast there is no change. `None` if
/// there are none.
pub fn geometric_mean(ratios: &[f64]) -> Option<f64> {
    let sum: f64 = ratios.iter().map(|ratio| ratio.ln()).sum();
    (!ratios.is_empty()).then(|| (sum / ratios.len() as f64).exp())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_doesnt_care_for_one_slow_round_and_the_spread_says_how_sure_it_is() {
        let times = Times::of(&[1.0, 1.2, 0.9, 1.1, 50.0]).unwrap();
        assert_eq!((times.median, times.fastest, times.slowest, times.rounds), (1.1, 0.9, 50.0, 5));
        let steady: Vec<f64> = (0..=10).map(|i| 1.0 + f64::from(i) / 100.0).collect();
        let times = Times::of(&steady).unwrap();
        assert!((times.median - 1.05).abs() < 1e-12 && (times.spread - 0.08 / 1.05).abs() < 1e-12);
        assert_eq!(Times::of(&[2.0]).unwrap().spread, 0.0);
        assert_eq!(Times::of(&[]), None);
    }

    #[test]
    fn between_two_numbers_a_quantile_is_in_proportion() {
        assert_eq!(quantile(&[1.0, 2.0], 0.5), 1.5);
        assert_eq!(quantile(&[1.0, 2.0, 4.0], 0.75), 3.0);
        assert_eq!(quantile(&[1.0, 2.0, 4.0], 1.0), 4.0);
    }

    #[test]
    fn twice_as_fast_and_half_as_fast_make_no_change() {
        assert!((geometric_mean(&[2.0, 0.5]).unwrap() - 1.0).abs() < 1e-12);
        assert!((geometric_mean(&[1.1, 1.1, 1.1]).unwrap() - 1.1).abs() < 1e-12);
        assert_eq!(geometric_mean(&[]), None);
    }
}
