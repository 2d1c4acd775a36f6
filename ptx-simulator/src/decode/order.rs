//! The order in which parts of a diverged warp go on, so that they meet again as early as they do on hardware.
//!
//! Lanes that took different ways join where the ways do. For that, of several groups of lanes the one must go first
//! that has the others still before it: every block of the code comes after all that lead to it, and all of a loop
//! before what follows the loop. The text's own order is often such an order, but compilers don't promise it; they like
//! to put the head of a loop at its end, for one.
//!
//! The order is that of F. Bourdoncle, *Efficient chaotic iteration strategies with widenings* (1993): strongly
//! connected components in topological order; within each, its head first and then the rest by the same rule.

use super::flow::Blocks;
use super::program::Turn;

/// Steps after which a program keeps the order of its text.
const MOST_STEPS: usize = 1 << 24;

/// The turn of each instruction.
pub(super) fn turns(blocks: &Blocks, entries: &[u32]) -> Vec<Turn> {
    let count = blocks.successors.len();
    let order = order(blocks, entries).unwrap_or_else(|| (0..count).collect());
    let mut turns = vec![Turn::default(); blocks.starts[count] as usize];
    let mut next = 0;
    for block in order {
        let (start, end) = (blocks.starts[block], blocks.starts[block + 1]);
        for instruction in start..end {
            turns[instruction as usize] = Turn { rank: next, block_end: end };
            next += 1;
        }
    }
    turns
}

/// All blocks in order, or `None` if that takes too many steps.
fn order(blocks: &Blocks, entries: &[u32]) -> Option<Vec<usize>> {
    let count = blocks.successors.len();
    // Code that nobody reaches is code all the same.
    let mut first = vec![false; count];
    let mut all: Vec<usize> = Vec::with_capacity(count);
    for block in entries.iter().filter_map(|entry| blocks.starts.binary_search(entry).ok()).chain(0..count) {
        if block < count && !std::mem::replace(&mut first[block], true) {
            all.push(block);
        }
    }
    let mut search = Search {
        blocks,
        scope: vec![0; count],
        scopes: 0,
        number: vec![0; count],
        lowest: vec![0; count],
        waiting: vec![false; count],
    };
    let mut order = Vec::with_capacity(count);
    let mut steps = 0;
    let mut rest = vec![all];
    while let Some(part) = rest.pop() {
        if let [block] = part[..] {
            order.push(block);
            continue;
        }
        steps += part.iter().map(|block| 1 + blocks.successors[*block].len()).sum::<usize>();
        if steps > MOST_STEPS {
            return None;
        }
        // Last first, since what is pushed last is taken first.
        for component in search.components(&part) {
            let (head, others) = (component[0], &component[1..]);
            if !others.is_empty() {
                rest.push(others.to_vec());
            }
            rest.push(vec![head]);
        }
    }
    Some(order)
}

/// R. Tarjan's search for strongly connected components, in a part of the blocks, without recursion.
struct Search<'a> {
    blocks: &'a Blocks,
    /// The part in which a block is at present.
    scope: Vec<usize>,
    scopes: usize,
    /// When the block was reached, from 1 on; 0 if it wasn't.
    number: Vec<usize>,
    lowest: Vec<usize>,
    /// Reached, and not yet in a component.
    waiting: Vec<bool>,
}

impl Search<'_> {
    /// The components of a part, each before those that lead to it; their blocks in the order in which they were
    /// reached, so that the first is one where the component is entered.
    fn components(&mut self, part: &[usize]) -> Vec<Vec<usize>> {
        self.scopes += 1;
        for block in part {
            self.scope[*block] = self.scopes;
            self.number[*block] = 0;
        }
        let mut components = Vec::new();
        let mut reached = 0;
        let mut stack: Vec<usize> = Vec::new();
        // Blocks on the way, each with the number of its successors that have been looked at.
        let mut way: Vec<(usize, usize)> = Vec::new();
        for root in part {
            if self.number[*root] == 0 {
                self.reach(*root, &mut reached, &mut stack);
                way.push((*root, 0));
            }
            while let Some((block, seen)) = way.last_mut() {
                let block = *block;
                if let Some(next) = self.blocks.successors[block].get(*seen).copied() {
                    *seen += 1;
                    if self.scope[next] != self.scopes {
                        continue;
                    }
                    if self.number[next] == 0 {
                        self.reach(next, &mut reached, &mut stack);
                        way.push((next, 0));
                    } else if self.waiting[next] {
                        self.lowest[block] = self.lowest[block].min(self.number[next]);
                    }
                    continue;
                }
                way.pop();
                if let Some((before, _)) = way.last() {
                    self.lowest[*before] = self.lowest[*before].min(self.lowest[block]);
                }
                if self.lowest[block] == self.number[block] {
                    let start = stack.iter().rposition(|other| *other == block).unwrap_or(0);
                    let component = stack.split_off(start);
                    for member in &component {
                        self.waiting[*member] = false;
                    }
                    components.push(component);
                }
            }
        }
        components
    }

    fn reach(&mut self, block: usize, reached: &mut usize, stack: &mut Vec<usize>) {
        *reached += 1;
        self.number[block] = *reached;
        self.lowest[block] = *reached;
        self.waiting[block] = true;
        stack.push(block);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The order of blocks with these successors, entered at block 0.
    fn order_of(successors: &[&[usize]]) -> Vec<usize> {
        let starts = (0..=successors.len() as u32).collect();
        let successors = successors.iter().map(|next| next.to_vec()).collect();
        order(&Blocks { starts, successors }, &[0]).expect("few steps")
    }

    fn comes_before(order: &[usize], first: usize, second: usize) -> bool {
        let place = |block| order.iter().position(|other| *other == block);
        place(first) < place(second)
    }

    #[test]
    fn a_join_comes_after_both_ways_wherever_it_stands() {
        // 0 goes to 2 or 3, both go to 1.
        assert_eq!(order_of(&[&[2, 3], &[], &[1], &[1]]).last(), Some(&1));
    }

    #[test]
    fn all_of_a_loop_comes_before_what_follows_it() {
        // 0 -> 3 (head) -> 4 -> 2 (join of the body) -> 3 again or 1; 3 -> 2 too; 2 -> 1 ends.
        let order = order_of(&[&[3], &[], &[3, 1], &[4, 2], &[2]]);
        assert_eq!(order, [0, 3, 4, 2, 1]);
    }

    #[test]
    fn inner_loops_are_whole_within_outer_ones() {
        // 0 -> 4; 4 -> 5 (inner head) -> 6 -> 5 or 3; 3 -> 4 or 1; an early way out of the inner loop, 6 -> 2 -> 3.
        let order = order_of(&[&[4], &[], &[3], &[4, 1], &[5], &[6], &[2, 5, 3]]);
        assert_eq!(order, [0, 4, 5, 6, 2, 3, 1]);
    }

    #[test]
    fn loops_with_two_entries_and_unreachable_code_are_ordered_somehow() {
        let order = order_of(&[&[1, 2], &[2, 3], &[1, 3], &[], &[3, 4]]);
        assert!(comes_before(&order, 0, 1) && comes_before(&order, 1, 3) && comes_before(&order, 2, 3));
        let mut sorted = order.clone();
        sorted.sort_unstable();
        assert_eq!(sorted, [0, 1, 2, 3, 4]);
    }

    #[test]
    fn deep_nests_need_no_deep_stack() {
        // Each block leads to the next and back to the one before.
        let successors: Vec<Vec<usize>> =
            (0..2000usize).map(|block| vec![(block + 1).min(1999), block.saturating_sub(1)]).collect();
        let slices: Vec<&[usize]> = successors.iter().map(Vec::as_slice).collect();
        assert_eq!(order_of(&slices).len(), 2000);
    }
}
