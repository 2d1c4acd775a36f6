//! Instructions in which the lanes of a warp see each other's registers.

use super::access::lanes;
use super::atomic::combine;
use super::run::*;
use super::warp::Warp;
use crate::decode::program::*;
use crate::observe::Watch;

impl<W: Watch> Executor<'_, W> {
    /// Executes a vote, match, shuffle, reduction or election for `active`, which holds all members of its lanes' masks
    /// that are still alive.
    pub fn collective(&self, warp: &Warp, operation: &Operation, active: u32) {
        let (rows, predicates) = (warp.rows, warp.predicates);
        // Lanes without a member mask work with whoever is there.
        let members = |row: u32| match row {
            NONE => [active; 32],
            // SAFETY: the decoder allocated the row.
            _ => unsafe { read_row(rows, row) }.map(|members| members & active),
        };
        // SAFETY: the decoder allocated all rows and masks of the operation.
        unsafe {
            match *operation {
                Operation::Vote { kind, destination, predicate, members: row } => {
                    let members = members(row);
                    let truths = guard_mask(predicates, predicate);
                    if kind == VoteKind::Ballot {
                        write_lanes(rows, destination, active, |lane| truths & members[lane]);
                        return;
                    }
                    let result = lanes_where(active, |lane| {
                        let members = members[lane];
                        match kind {
                            VoteKind::All => truths & members == members,
                            VoteKind::Any => truths & members != 0,
                            _ => truths & members == members || truths & members == 0,
                        }
                    });
                    write_predicate(predicates, destination, active, result);
                }
                Operation::Match { all, wide, destination, predicate, source, members: row } => {
                    let members = members(row);
                    let values = if wide { read_wide_row(rows, source) } else { read_row(rows, source).map(u64::from) };
                    let mut result = [0; 32];
                    for lane in lanes(active) {
                        let same = lanes_where(members[lane], |other| values[other] == values[lane]);
                        result[lane] = if all && same != members[lane] { 0 } else { same };
                    }
                    write_lanes(rows, destination, active, |lane| result[lane]);
                    if predicate != NONE {
                        write_predicate(predicates, predicate, active, lanes_where(active, |lane| result[lane] != 0));
                    }
                }
                Operation::Shuffle { mode, destination, predicate, source, lane, clamp, members: row } => {
                    let members = members(row);
                    let (values, offsets, clamps) =
                        (read_row(rows, source), read_row(rows, lane), read_row(rows, clamp));
                    let mut result = values;
                    let mut inside = 0;
                    for lane in lanes(active) {
                        let (other, valid) = shuffle_source(mode, lane as u32, offsets[lane], clamps[lane]);
                        inside |= u32::from(valid) << lane;
                        // What a lane outside the members would give is undefined; the own value is as good as any.
                        if valid && members[lane] >> other & 1 != 0 {
                            result[lane] = values[other as usize];
                        }
                    }
                    write_lanes(rows, destination, active, |lane| result[lane]);
                    if predicate != NONE {
                        write_predicate(predicates, predicate, active, inside);
                    }
                }
                Operation::Reduce { operation, kind, destination, source, members: row } => {
                    let members = members(row);
                    let values = read_row(rows, source).map(u64::from);
                    let mut result = [0; 32];
                    for lane in lanes(active) {
                        let total = lanes(members[lane])
                            .map(|other| values[other])
                            .reduce(|left, right| combine(operation, kind, 32, left, right));
                        result[lane] = total.unwrap_or(0) as u32;
                    }
                    write_lanes(rows, destination, active, |lane| result[lane]);
                }
                Operation::Elect { destination, predicate, members: row } => {
                    let members = members(row);
                    let leader = |lane: usize| members[lane].trailing_zeros();
                    write_lanes(rows, destination, active, leader);
                    write_predicate(
                        predicates,
                        predicate,
                        active,
                        lanes_where(active, |lane| leader(lane) == lane as u32),
                    );
                }
                _ => {}
            }
        }
    }
}

/// The lane that a shuffle reads from, and whether it's inside the segment that the clamp operand describes.
fn shuffle_source(mode: ShuffleMode, lane: u32, offset: u32, clamp: u32) -> (u32, bool) {
    let offset = offset & 31;
    let bound = clamp & 31;
    let segment = clamp >> 8 & 31;
    let highest = lane & segment | bound & !segment;
    let lowest = lane & segment;
    let (source, inside) = match mode {
        ShuffleMode::Up => {
            let source = lane.wrapping_sub(offset);
            (source, source as i32 >= highest as i32)
        }
        ShuffleMode::Down => {
            let source = lane + offset;
            (source, source <= highest)
        }
        ShuffleMode::Butterfly => {
            let source = lane ^ offset;
            (source, source <= highest)
        }
        ShuffleMode::Index => {
            let source = lowest | offset & !segment;
            (source, source <= highest)
        }
    };
    (if inside { source & 31 } else { lane }, inside)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shuffles_stay_inside_their_segment() {
        // Segments of eight lanes, as `width = 8` gives: (32 - 8) << 8 | 31.
        let clamp = 24 << 8 | 31;
        assert_eq!(shuffle_source(ShuffleMode::Down, 6, 1, clamp), (7, true));
        assert_eq!(shuffle_source(ShuffleMode::Down, 7, 1, clamp), (7, false));
        assert_eq!(shuffle_source(ShuffleMode::Index, 13, 2, clamp), (10, true));
        assert_eq!(shuffle_source(ShuffleMode::Butterfly, 9, 4, clamp), (13, true));
        let up = 24 << 8;
        assert_eq!(shuffle_source(ShuffleMode::Up, 9, 1, up), (8, true));
        assert_eq!(shuffle_source(ShuffleMode::Up, 8, 1, up), (8, false));
    }
}
