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

    pub fn into_list(self) -> Vec<Finding> {
        self.list
    }
}
