//! The looks of tables, in one place.

use comfy_table::{Table, presets};

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
