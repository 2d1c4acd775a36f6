//! A warp: its registers, and the groups of lanes that are at the same place of the program.
//!
//! Lanes have program counters of their own. All lanes of a [`Group`] share one; a branch that lanes take differently
//! splits their group, and groups that come to the same place with the same callers merge again. The group that is
//! deepest in calls, and among those the one whose [`Turn`] is first, runs first: that lets it catch up with the others
//! where control flow joins.

use std::collections::HashMap;

use crate::alu::Row;
use crate::decode::program::{BarrierKind, Turn};

/// All lanes of a warp.
pub(super) const ALL: u32 = u32::MAX;

/// The caller of nobody.
pub(super) const NO_FRAME: u32 = 0;

/// So many frames are looked through one by one, and kept even if nobody uses them any more.
const FEW_FRAMES: usize = 32;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    Runnable,
    /// At a barrier of the block; the instruction counter stands behind it already.
    AtBarrier {
        number: u32,
        kind: BarrierKind,
        destination: u32,
    },
    /// Before an instruction that needs lanes which aren't here yet.
    Gathering {
        members: u32,
    },
    /// At `bar.warp.sync`; the instruction counter stands behind it already.
    AtWarpBarrier {
        members: u32,
    },
    /// At `barrier.cluster.wait`; the instruction counter stands behind it already.
    AtClusterBarrier,
}

/// Which warp it is.
#[derive(Clone, Copy, Debug)]
pub(super) struct Name {
    /// Rank of its block in the cluster.
    pub rank: u32,
    /// In its block.
    pub index: u32,
    /// In the cluster.
    pub number: u32,
}

/// Lanes at the same place.
#[derive(Clone, Copy, Debug)]
pub(super) struct Group {
    pub pc: u32,
    pub mask: u32,
    /// Index into [`Warp::frames`].
    pub frame: u32,
    pub state: State,
    /// Until the warp has executed this many instructions, the group goes before all others.
    pub favoured_until: u64,
    /// The warp's instruction count when the group last used up its time.
    pub last_turn: u64,
}

/// A call: where it returns to, and its caller's own frame.
#[derive(Clone, Copy, Debug)]
struct Frame {
    parent: u32,
    return_to: u32,
    depth: u32,
}

pub(super) struct Warp {
    /// Rank of its block in the cluster.
    pub rank: u32,
    /// Index in its block.
    pub index: u32,
    /// Index in its cluster.
    pub number: u32,
    pub rows: *mut Row,
    pub predicates: *mut u32,
    /// Local memory: row `w` holds word `w` of every lane.
    pub local: *mut Row,
    pub groups: Vec<Group>,
    /// Lanes that exist and haven't exited.
    pub live: u32,
    /// Lanes that exist.
    pub existing: u32,
    pub executed: u64,
    /// Calls that lanes are in, and some that have ended; callers come before those whom they called.
    frames: Vec<Frame>,
    /// Frames by parent and return, while there are too many to look through.
    known: HashMap<(u32, u32), u32>,
    /// With so many frames, those that nobody uses any more are dropped.
    most_frames: usize,
}

impl Warp {
    pub fn new(name: Name, rows: *mut Row, predicates: *mut u32, local: *mut Row, existing: u32) -> Self {
        let Name { rank, index, number } = name;
        Warp {
            rank,
            index,
            number,
            rows,
            predicates,
            local,
            groups: Vec::new(),
            live: 0,
            existing,
            executed: 0,
            frames: Vec::new(),
            known: HashMap::new(),
            most_frames: FEW_FRAMES,
        }
    }

    /// Puts all lanes at the program's start.
    pub fn restart(&mut self) {
        self.live = self.existing;
        self.executed = 0;
        self.frames.clear();
        self.frames.push(Frame { parent: NO_FRAME, return_to: 0, depth: 0 });
        self.known.clear();
        self.most_frames = FEW_FRAMES;
        self.groups.clear();
        self.groups.push(Group {
            pc: 0,
            mask: self.existing,
            frame: NO_FRAME,
            state: State::Runnable,
            favoured_until: 0,
            last_turn: 0,
        });
    }

    pub fn is_finished(&self) -> bool {
        self.groups.is_empty()
    }

    pub fn can_run(&self) -> bool {
        self.groups.iter().any(|group| group.state == State::Runnable)
    }

    /// The lanes that can run.
    pub fn runnable(&self) -> u32 {
        let runnable = self.groups.iter().filter(|group| group.state == State::Runnable);
        runnable.fold(0, |lanes, group| lanes | group.mask)
    }

    /// The instructions that called the function in which a lane is, innermost first.
    pub fn callers(&self, lane: u32) -> Vec<u32> {
        let frame = self.groups.iter().find(|group| group.mask >> lane & 1 == 1).map_or(NO_FRAME, |group| group.frame);
        let frames =
            std::iter::successors(Some(frame), |frame| self.frames.get(*frame as usize).map(|frame| frame.parent));
        frames.take_while(|frame| *frame != NO_FRAME).map(|frame| self.frames[frame as usize].return_to - 1).collect()
    }

    /// The frame of a call by a group, the same for the same call path. Frames of all groups may get other numbers.
    pub fn enter(&mut self, index: usize, return_to: u32) -> u32 {
        let parent = self.groups[index].frame;
        let known = if self.frames.len() <= FEW_FRAMES {
            let same = |known: &Frame| known.parent == parent && known.return_to == return_to;
            self.frames.iter().skip(1).position(same).map(|index| index as u32 + 1)
        } else {
            self.known.get(&(parent, return_to)).copied()
        };
        known.unwrap_or_else(|| self.add_frame(index, return_to))
    }

    #[cold]
    fn add_frame(&mut self, index: usize, return_to: u32) -> u32 {
        if self.frames.len() >= self.most_frames {
            self.drop_unused_frames();
        }
        let parent = self.groups[index].frame;
        let depth = self.frames[parent as usize].depth + 1;
        let added = self.frames.len() as u32;
        self.frames.push(Frame { parent, return_to, depth });
        if self.frames.len() > FEW_FRAMES {
            // Those before the first of many aren't in the map yet.
            let from = if self.known.is_empty() { 1 } else { added as usize };
            for (frame, number) in self.frames[from..].iter().zip(from as u32..) {
                self.known.insert((frame.parent, frame.return_to), number);
            }
        }
        added
    }

    /// Drops frames that no lane is in, and gives the others numbers without gaps.
    fn drop_unused_frames(&mut self) {
        let mut used = vec![false; self.frames.len()];
        used[NO_FRAME as usize] = true;
        for group in &self.groups {
            used[group.frame as usize] = true;
        }
        // Callers come first, so that going backwards sees all that they called before themselves.
        for index in (1..self.frames.len()).rev() {
            if used[index] {
                used[self.frames[index].parent as usize] = true;
            }
        }
        let mut numbers = vec![NO_FRAME; self.frames.len()];
        let mut kept = 0;
        for index in 0..self.frames.len() {
            if used[index] {
                let frame = self.frames[index];
                numbers[index] = kept as u32;
                self.frames[kept] = Frame { parent: numbers[frame.parent as usize], ..frame };
                kept += 1;
            }
        }
        self.frames.truncate(kept);
        for group in &mut self.groups {
            group.frame = numbers[group.frame as usize];
        }
        self.known.clear();
        // Dropping them must be rare among calls however many lanes are in.
        self.most_frames = FEW_FRAMES.max(2 * kept);
    }

    /// The caller's frame and the place to go on at.
    pub fn leave(&self, frame: u32) -> (u32, u32) {
        let frame = self.frames[frame as usize];
        (frame.parent, frame.return_to)
    }

    /// Splits `lanes` off a group into a new one at `pc`.
    pub fn split(&mut self, index: usize, lanes: u32, pc: u32, state: State) {
        let group = self.groups[index];
        self.groups[index].mask &= !lanes;
        self.groups.push(Group { pc, mask: lanes, state, ..group });
    }

    /// Takes exited lanes out of the world; those who gather lanes look again, warp barriers have to be.
    pub fn exit(&mut self, index: usize, lanes: u32) {
        self.live &= !lanes;
        self.groups[index].mask &= !lanes;
        for group in &mut self.groups {
            if matches!(group.state, State::Gathering { .. }) {
                group.state = State::Runnable;
            }
        }
        if self.groups[index].mask == 0 {
            self.groups.swap_remove(index);
        }
    }

    /// Lets the groups at a warp barrier go on whose members are all there: gives their lanes, and where they go on.
    pub fn release_warp_barrier(&mut self) -> Option<(u32, u32)> {
        for index in 0..self.groups.len() {
            let State::AtWarpBarrier { members } = self.groups[index].state else { continue };
            let waits = |group: &Group| group.state == State::AtWarpBarrier { members };
            let there = self.groups.iter().filter(|group| waits(group)).fold(0, |there, group| there | group.mask);
            if members & self.live & !there == 0 {
                let pc = self.groups[index].pc;
                for group in self.groups.iter_mut().filter(|group| waits(group)) {
                    group.state = State::Runnable;
                }
                return Some((there, pc));
            }
        }
        None
    }

    /// Merges what can be merged and picks the group to run next, with the place at which it must stop since others
    /// wait there.
    ///
    /// `turns` has the turn of every instruction.
    pub fn schedule(&mut self, turns: &[Turn]) -> Option<(usize, u32)> {
        if let [group] = &self.groups[..] {
            return (group.state == State::Runnable).then_some((0, u32::MAX));
        }
        self.merge();
        let mut best: Option<(usize, (bool, u32, u32))> = None;
        for (index, group) in self.groups.iter().enumerate() {
            if group.state != State::Runnable {
                continue;
            }
            // Smaller is better: favoured ones, then deep ones, then those whose turn it is.
            let rank = (
                group.favoured_until <= self.executed,
                !self.frames[group.frame as usize].depth,
                turns[group.pc as usize].rank,
            );
            if best.is_none_or(|(_, best)| rank < best) {
                best = Some((index, rank));
            }
        }
        let (index, _) = best?;
        let chosen = self.groups[index];
        let stop = self
            .groups
            .iter()
            .filter(|group| {
                group.frame == chosen.frame
                    && group.pc > chosen.pc
                    && matches!(group.state, State::Runnable | State::Gathering { .. })
            })
            .map(|group| group.pc)
            .min();
        // Any other group makes the chosen one come back at branches and ends of blocks, after which it may be another's
        // turn; only this one makes it stop on its way.
        let block_end = turns[chosen.pc as usize].block_end;
        Some((index, stop.map_or(block_end, |stop| stop.min(block_end))))
    }

    fn merge(&mut self) {
        let mergeable = |group: &Group| matches!(group.state, State::Runnable | State::Gathering { .. });
        let mut first = 0;
        while first < self.groups.len() {
            let mut second = first + 1;
            while second < self.groups.len() {
                let (left, right) = (self.groups[first], self.groups[second]);
                if left.pc == right.pc && left.frame == right.frame && mergeable(&left) && mergeable(&right) {
                    let group = &mut self.groups[first];
                    group.mask |= right.mask;
                    group.state = State::Runnable;
                    group.favoured_until = left.favoured_until.max(right.favoured_until);
                    group.last_turn = left.last_turn.min(right.last_turn);
                    self.groups.swap_remove(second);
                } else {
                    second += 1;
                }
            }
            first += 1;
        }
    }

    /// Ends the turn of a group that has run long while others could have: the one that has waited longest is favoured
    /// for `slice` instructions.
    pub fn rotate(&mut self, index: usize, slice: u64) {
        let executed = self.executed;
        if let Some(group) = self.groups.get_mut(index) {
            group.last_turn = executed;
            group.favoured_until = 0;
        }
        let next =
            self.groups.iter_mut().filter(|group| group.state == State::Runnable).min_by_key(|group| group.last_turn);
        if let Some(group) = next {
            group.favoured_until = executed + slice;
        }
    }
}
