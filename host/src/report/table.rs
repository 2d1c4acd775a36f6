//! The looks of tables, in one place.

use comfy_table::{Table, presets};

/// A table with a header row.
pub fn columns(headers: &[&str]) -> Table {
    let mut table = Table::new();
    table.load_style(presets::UTF8_HORIZONTAL_ONLY).set_header(headers);
    table
}

/// Labels and their values, two columns without lines.
pub fn facts() -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table
}

/// Sizes joined by " x ".
pub fn times<T: ToString>(sizes: &[T]) -> String {
    sizes.iter().map(T::to_string).collect::<Vec<_>>().join(" x ")
}

/// Bytes as GiB.
pub fn gibibytes(bytes: u64) -> String {
    format!("{:.1} GiB", bytes as f64 / (1u64 << 30) as f64)
}
