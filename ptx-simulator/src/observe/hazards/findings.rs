//! The list of what was found, each thing once.

use std::mem::{Discriminant, discriminant};

use super::quick::QuickMap;
use super::{Finding, FindingKind};
use crate::error::LaunchErrorKind;

/// More different findings than anybody reads.
const MOST: usize = 1000;

/// What makes two findings the same: the kind, and the lines.
type Key = (Discriminant<FindingKind>, Option<Discriminant<LaunchErrorKind>>, u32, u32);

#[derive(Debug, Default)]
pub struct Findings {
    list: Vec<Finding>,
    /// Whether each is shown by a telling example.
    telling: Vec<bool>,
    places: QuickMap<Key, usize>,
}

impl Findings {
    /// Adds a finding at two lines (numbers of [`super::table::Info::line`]), or counts it where it's known. The first
    /// occurrence is the one that's shown, unless it isn't `telling` and a later one is.
    pub fn add(
        &mut self,
        kind: FindingKind,
        lines: (u32, u32),
        count: u64,
        telling: bool,
        finding: impl FnOnce(FindingKind) -> Finding,
    ) {
        let fault = match &kind {
            FindingKind::Fault(fault) => Some(discriminant(fault)),
            _ => None,
        };
        let key = (discriminant(&kind), fault, lines.0, lines.1);
        if let Some(index) = self.places.get(&key) {
            let known = &mut self.list[*index];
            known.count += count;
            if telling && !self.telling[*index] {
                *known = Finding { count: known.count, ..finding(kind) };
                self.telling[*index] = true;
            }
        } else if self.list.len() < MOST {
            self.places.insert(key, self.list.len());
            self.list.push(Finding { count, ..finding(kind) });
            self.telling.push(telling);
        }
    }

    /// Adds what another run of the same launch found: a finding that both have counts as often as in the run that had
    /// more of it.
    pub fn unite(&mut self, other: Findings) {
        let mut keys: Vec<(Key, usize)> = other.places.into_iter().collect();
        keys.sort_unstable_by_key(|(_, index)| *index);
        for (((key, _), finding), telling) in keys.into_iter().zip(other.list).zip(other.telling) {
            let (kind, fault, first, second) = key;
            // Which barrier is named first is by who came first.
            let turned = matches!(finding.kind, FindingKind::DifferentBarriers).then_some((kind, fault, second, first));
            let known = self.places.get(&key).or_else(|| self.places.get(&turned?)).copied();
            match known {
                Some(index) => {
                    let known = &mut self.list[index];
                    let count = known.count.max(finding.count);
                    if telling && !self.telling[index] {
                        *known = finding;
                        self.telling[index] = true;
                    }
                    known.count = count;
                }
                None if self.list.len() < MOST => {
                    self.places.insert(key, self.list.len());
                    self.list.push(finding);
                    self.telling.push(telling);
                }
                None => {}
            }
        }
    }

    pub fn into_list(self) -> Vec<Finding> {
        self.list
    }
}
