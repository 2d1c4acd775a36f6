//! Who is timed when, and for how long.
//!
//! A GPU changes its clock while it works, and what ran just before leaves it warm. So the contenders are timed in
//! rounds, one batch of launches each, and every round has another order: who comes first, and who follows whom, is
//! shared out.
//!
//! A program that multiplies for minutes finds a warmer GPU than these short turns do: one whose clock fell to what its
//! power allows, and that depends on what runs. [`Schedule::Sustained`] measures that instead: each contender alone for a
//! while before its times count, and all of them once more in the opposite order, so that a GPU that gets warmer and
//! warmer is to nobody's advantage.

use serde::Serialize;

/// When contenders are timed.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(tag = "schedule", rename_all = "lowercase")]
pub enum Schedule {
    /// In rounds, in each of which everybody has a batch of launches.
    Rounds {
        /// How many rounds.
        rounds: usize,
    },
    /// Under load, one after the other in two [`PASSES`]: batches of launches back to back, which first aren't timed and
    /// then are.
    Sustained {
        /// How many seconds each of the two takes, and a batch more at most.
        #[serde(rename = "sustained_seconds")]
        seconds: f64,
    },
}

impl Schedule {
    /// Long enough that a GPU's clock has settled.
    pub const SUSTAINED: Schedule = Schedule::Sustained { seconds: 0.4 };

    /// What it is called.
    pub fn name(self) -> &'static str {
        match self {
            Schedule::Rounds { .. } => "rounds",
            Schedule::Sustained { .. } => "sustained",
        }
    }

    /// Rounds, or turns under load, that a number of contenders comes to: what there is to tell of its progress.
    pub fn steps(self, contenders: usize) -> usize {
        match self {
            Schedule::Rounds { rounds } => rounds,
            Schedule::Sustained { .. } => PASSES * contenders,
        }
    }
}

/// How often everybody has a turn under load: in one order and in the opposite one, which are the first two of [`order`].
pub const PASSES: usize = 2;

/// The order of round `round` of `contenders` contenders: one further along each time, and every second time backwards.
pub fn order(contenders: usize, round: usize) -> Vec<usize> {
    let mut order: Vec<usize> = (0..contenders).collect();
    order.rotate_left(if contenders == 0 { 0 } else { round / 2 % contenders });
    if round % 2 == 1 {
        order.reverse();
    }
    order
}

/// Whether a contender that takes part in `own` of `rounds` rounds has its turn in this one: they are spread over the
/// whole time.
pub fn takes_part(round: usize, own: usize, rounds: usize) -> bool {
    let due = |round: usize| round * own.min(rounds) / rounds.max(1);
    due(round + 1) > due(round)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everybody_has_a_turn_in_every_round_and_is_first_equally_often() {
        for contenders in 1..6 {
            let mut first = vec![0; contenders];
            for round in 0..2 * contenders {
                let order = order(contenders, round);
                let mut sorted = order.clone();
                sorted.sort_unstable();
                assert!(sorted.into_iter().eq(0..contenders));
                first[order[0]] += 1;
            }
            assert!(first.iter().all(|times| *times == 2), "{first:?}");
        }
        assert!(order(0, 3).is_empty());
    }

    #[test]
    fn under_load_the_second_pass_is_in_the_opposite_order() {
        let passes: Vec<Vec<usize>> = (0..PASSES).map(|pass| order(3, pass)).collect();
        assert_eq!(passes, [[0, 1, 2], [2, 1, 0]]);
        assert_eq!(Schedule::SUSTAINED.steps(3), 6);
        assert_eq!(Schedule::Rounds { rounds: 15 }.steps(3), 15);
    }

    #[test]
    fn nobody_always_follows_the_same_contender() {
        let before = |round: usize| {
            let order = order(3, round);
            order.iter().position(|index| *index == 1).and_then(|place| order[..place].last().copied())
        };
        let mut all: Vec<_> = (0..6).map(before).collect();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all, [None, Some(0), Some(2)]);
    }

    #[test]
    fn fewer_turns_are_spread_over_all_rounds() {
        let turns = |own, rounds| (0..rounds).filter(|round| takes_part(*round, own, rounds)).collect::<Vec<_>>();
        assert_eq!(turns(3, 15), [4, 9, 14]);
        assert_eq!(turns(15, 15).len(), 15);
        assert_eq!(turns(99, 4), [0, 1, 2, 3]);
        assert!(turns(0, 4).is_empty());
    }
}
