//! The kernel's source, each line with what it costs.

use ptx_simulator::observe::costs::Traffic;

use super::text::Labels;
use crate::{
    explain::{
        lines::{Listing, SourceLine},
        roofline::SECTOR_BYTES,
    },
    report::table,
};

/// Columns for the source text where no width is given; longer lines go on below.
const SOURCE_WIDTH: usize = 76;

/// The fewest columns for the source text: in fewer, code is hard to read even where it would fit.
const LEAST_SOURCE_WIDTH: usize = 40;

/// All functions of all files as text, no wider than `width` columns if the source then has room, else as wide as it
/// takes.
pub fn text(listings: &[Listing], labels: &Labels, width: Option<usize>) -> String {
    let source_width = width.map_or(SOURCE_WIDTH, |width| {
        // What the numbers take, two columns being between them and the source.
        let numbers = table_of(listings, labels, None);
        let taken = numbers.lines().map(columns).max().unwrap_or(0) + 2;
        width.saturating_sub(taken).max(LEAST_SOURCE_WIDTH)
    });
    table_of(listings, labels, Some(source_width))
}

/// The columns that a line takes in a terminal: Chinese characters are two wide.
fn columns(line: &str) -> usize {
    line.chars().map(|character| if character > '\u{2e80}' { 2 } else { 1 }).sum()
}

/// The table with so many columns for the source text, or without it.
fn table_of(listings: &[Listing], labels: &Labels, source_width: Option<usize>) -> String {
    let lines = || listings.iter().flat_map(|listing| listing.functions.iter().flatten());
    let columns = Columns {
        mma: lines().any(|line| line.counts.warp_mma > 0),
        // Where tensor cores multiply there may be none.
        fma: lines().any(|line| line.counts.warp_fma > 0) || lines().all(|line| line.counts.warp_mma == 0),
        shared: lines().any(|line| line.counts.shared().requests > 0),
    };
    let mut rows = Vec::new();
    for listing in listings {
        let mut second = vec![labels.times, labels.issued];
        second.extend(columns.fma.then_some(labels.fma));
        second.extend(columns.mma.then_some(labels.mma));
        let mut first = vec![""; second.len()];
        if columns.shared {
            first.extend([labels.shared, "", ""]);
            second.extend([labels.wavefronts, labels.ideal, labels.degree]);
        }
        first.extend([labels.global, "", "", ""]);
        second.extend([labels.sectors, labels.ideal, labels.bytes, labels.line]);
        second.push(if source_width.is_some() { listing.file.as_str() } else { "" });
        first.push("");
        rows.push(first.into_iter().map(str::to_owned).collect::<Vec<_>>());
        rows.push(second.into_iter().map(str::to_owned).collect());
        for (index, function) in listing.functions.iter().enumerate() {
            if index > 0 {
                let mut gap = vec![String::new(); rows[0].len()];
                gap[rows[0].len() - 2] = "...".to_owned();
                rows.push(gap);
            }
            rows.extend(function.iter().flat_map(|line| line_rows(line, columns, source_width)));
        }
        rows.push(vec![String::new(); rows[0].len()]);
    }
    let text = rows[0].len() - 1;
    table::numbers(text, rows).trim_end().to_owned()
}

/// Which columns there are that some kernels have no numbers for.
#[derive(Clone, Copy)]
struct Columns {
    fma: bool,
    mma: bool,
    shared: bool,
}

/// A line of source: the first row has its costs, further rows the rest of its text.
fn line_rows(line: &SourceLine, columns: Columns, source_width: Option<usize>) -> Vec<Vec<String>> {
    let some = |value: u64| if value > 0 { table::count(value) } else { String::new() };
    let counts = &line.counts;
    let mut cells = vec![some(line.executions), some(counts.warp_instructions)];
    cells.extend(columns.fma.then(|| some(counts.warp_fma)));
    cells.extend(columns.mma.then(|| some(counts.warp_mma)));
    if columns.shared {
        let shared = counts.shared();
        cells.extend([some(shared.units), some(shared.ideal), ratio(&shared, shared.units, shared.ideal)]);
    }
    let global = counts.global();
    cells.extend([
        ratio(&global, global.units, global.requests),
        ratio(&global, global.ideal, global.requests),
        some(global.units * SECTOR_BYTES),
    ]);
    cells.push(line.number.to_string());
    let empty = vec![String::new(); cells.len()];
    let mut rows = Vec::new();
    let texts = source_width.map_or_else(|| vec![String::new()], |width| wrap(&line.text, width));
    for (index, text) in texts.into_iter().enumerate() {
        let mut row = if index == 0 { cells.clone() } else { empty.clone() };
        row.push(text);
        rows.push(row);
    }
    rows
}

/// One number by another, empty if there was no request: whole numbers without decimals.
fn ratio(traffic: &Traffic, of: u64, by: u64) -> String {
    match (traffic.requests, by) {
        (0, _) | (_, 0) => String::new(),
        _ if of.is_multiple_of(by) => (of / by).to_string(),
        _ => format!("{:.2}", of as f64 / by as f64),
    }
}

/// Breaks a line of code at spaces, what follows being indented further than its start.
fn wrap(text: &str, width: usize) -> Vec<String> {
    let length = |text: &str| text.chars().count();
    if length(text) <= width {
        return vec![text.to_owned()];
    }
    let code = text.trim_start();
    let indent = text.len() - code.len();
    let mut rows = vec![" ".repeat(indent)];
    for word in code.split(' ') {
        let row = rows.last_mut().expect("there is a row");
        let fresh = row.trim().is_empty();
        if fresh || length(row) + 1 + length(word) <= width {
            if !fresh {
                row.push(' ');
            }
            row.push_str(word);
        } else {
            rows.push(" ".repeat(indent + 8) + word);
        }
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_lines_go_on_below_and_lose_nothing() {
        let text = "        let sum = if row < m && column < n { first.add(row) } else { second };";
        let rows = wrap(text, 40);
        assert!(rows.len() > 1 && rows.iter().all(|row| row.len() <= 40), "{rows:?}");
        let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(words(&rows.join(" ")), words(text));
        assert_eq!(wrap("    short", 40), ["    short"]);
    }
}
