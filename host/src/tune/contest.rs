//! Which of several is the fastest, found in little time: those that fall behind drop out after each heat, and only the rest
//! is timed again.
//!
//! In a heat everybody has one turn, in another order each time, since a GPU changes its clock while it works. One turn is
//! enough to see who is far behind; the last heats are between those that are nearly equal.

/// What a contest's heats let go: after each, those whose time so far is longer than the best by this factor.
const DROPPED: [f64; 6] = [1.3, 1.15, 1.08, 1.05, 1.03, 1.03];

/// How much faster than the first somebody must be to win: less may be chance.
const MARGIN: f64 = 0.99;

/// How a contest ended.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Outcome {
    /// Who won.
    pub winner: usize,
    /// The winner's time.
    pub time: f64,
    /// The first one's time.
    pub first_time: f64,
}

/// Finds the fastest of `contenders`, the first of which wins unless somebody is faster beyond doubt. `time` times one turn
/// of a contender. `None` if there are no contenders.
///
/// # Errors
///
/// What `time` fails with.
pub fn fastest<E>(contenders: usize, mut time: impl FnMut(usize) -> Result<f64, E>) -> Result<Option<Outcome>, E> {
    let mut times: Vec<Vec<f64>> = vec![Vec::new(); contenders];
    let mut left: Vec<usize> = (0..contenders).collect();
    for (heat, factor) in DROPPED.into_iter().enumerate() {
        // The first stays to the end, so that its time is as good as the winner's.
        if left.len() < 2 && heat > 0 {
            break;
        }
        let mut order = left.clone();
        order.rotate_left(heat % left.len().max(1));
        if heat % 2 == 1 {
            order.reverse();
        }
        for contender in order {
            times[contender].push(time(contender)?);
        }
        let best = left.iter().map(|&contender| median(&times[contender])).fold(f64::INFINITY, f64::min);
        left.retain(|&contender| contender == 0 || median(&times[contender]) <= best * factor);
    }
    let Some(&fastest) = left.iter().min_by(|&&one, &&other| median(&times[one]).total_cmp(&median(&times[other])))
    else {
        return Ok(None);
    };
    let first_time = median(&times[0]);
    let winner = if median(&times[fastest]) < first_time * MARGIN { fastest } else { 0 };
    Ok(Some(Outcome { winner, time: median(&times[winner]), first_time }))
}

/// The middle of some times; infinite if there are none.
fn median(times: &[f64]) -> f64 {
    let mut sorted = times.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len() / 2).copied().unwrap_or(f64::INFINITY)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn contest(means: &[f64], noise: impl Fn(usize) -> f64) -> (Option<Outcome>, Vec<usize>) {
        let mut turns = vec![0; means.len()];
        let outcome = fastest(means.len(), |contender| {
            turns[contender] += 1;
            Ok::<_, ()>(means[contender] * noise(turns[contender]))
        });
        (outcome.unwrap(), turns)
    }

    #[test]
    fn the_fastest_wins_and_who_is_far_behind_is_timed_once() {
        let (outcome, turns) = contest(&[1.2, 1.0, 2.0, 1.01, 1.4], |_| 1.0);
        assert_eq!(outcome, Some(Outcome { winner: 1, time: 1.0, first_time: 1.2 }));
        assert_eq!(turns, [6, 6, 1, 6, 1]);
    }

    #[test]
    fn one_slow_turn_costs_nobody_the_contest() {
        let (outcome, _) = contest(&[1.1, 1.0], |turn| if turn == 2 { 1.07 } else { 1.0 });
        assert_eq!(outcome.unwrap().winner, 1);
    }

    #[test]
    fn the_first_wins_unless_somebody_is_faster_beyond_chance() {
        assert_eq!(contest(&[1.0, 0.995], |_| 1.0).0.unwrap().winner, 0);
        assert_eq!(contest(&[1.0, 0.98], |_| 1.0).0.unwrap().winner, 1);
    }

    #[test]
    fn alone_one_wins_after_one_turn_and_among_none_nobody_does() {
        let (outcome, turns) = contest(&[3.0], |_| 1.0);
        assert_eq!((outcome.unwrap().winner, turns), (0, vec![1]));
        assert_eq!(contest(&[], |_| 1.0).0, None);
    }

    #[test]
    fn what_the_timing_fails_with_ends_the_contest() {
        assert_eq!(fastest(2, |_| Err::<f64, _>("broken")), Err("broken"));
    }
}
