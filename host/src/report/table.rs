//! The looks of tables, in one place.

use comfy_table::{CellAlignment, Table, presets};

/// Rows as text: columns without lines, two spaces apart. The first row may be the headers.
pub fn columns(rows: impl IntoIterator<Item = Vec<String>>) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    for row in rows {
        table.add_row(row);
    }
    for column in table.column_iter_mut() {
        column.set_padding((0, 2));
    }
    table.trim_fmt()
}

/// Rows of numbers, which stand at the right of their columns, with one column of text.
pub fn numbers(text: usize, rows: impl IntoIterator<Item = Vec<String>>) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    for row in rows {
        table.add_row(row);
    }
    for (index, column) in table.column_iter_mut().enumerate() {
        // The text stands apart, on whichever side numbers are.
        column.set_padding((0, if index == text || index + 1 == text { 2 } else { 1 }));
        if index != text {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table.trim_fmt()
}

/// Labels and their values as text.
pub fn facts(facts: impl IntoIterator<Item = (impl Into<String>, String)>) -> String {
    columns(facts.into_iter().map(|(label, value)| vec![label.into(), value]))
}

/// Sizes joined by " x ".
pub fn times<T: ToString>(sizes: &[T]) -> String {
    sizes.iter().map(T::to_string).collect::<Vec<_>>().join(" x ")
}

/// Bytes as GiB.
pub fn gibibytes(bytes: u64) -> String {
    format!("{:.1} GiB", bytes as f64 / (1u64 << 30) as f64)
}

/// A count in at most six characters: in full below a million, else as millions or more.
pub fn count(count: u64) -> String {
    const UNITS: [(f64, &str); 3] = [(1e6, "M"), (1e9, "G"), (1e12, "T")];
    if count < 1_000_000 {
        return count.to_string();
    }
    let (size, unit) = UNITS.into_iter().rev().find(|(size, _)| count as f64 >= *size).unwrap_or(UNITS[0]);
    let value = count as f64 / size;
    let decimals = if value < 10.0 { 2 } else { usize::from(value < 100.0) };
    format!("{value:.decimals$}{unit}")
}

/// Bytes in the largest fitting unit, such as 1.5 MiB.
pub fn binary_bytes(bytes: u64) -> String {
    const UNITS: [&str; 5] = ["KiB", "MiB", "GiB", "TiB", "PiB"];
    if bytes < 1024 {
        return format!("{bytes} B");
    }
    let (mut value, mut unit) = (bytes as f64 / 1024.0, 0);
    while value >= 1024.0 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    format!("{value:.1} {}", UNITS[unit])
}
