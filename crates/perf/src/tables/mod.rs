//! The sheets of the performance report, as values. Renderers (CSV, XLSX, HTML, JSON) stand in `jarvis-report`.

use std::sync::Arc;

/// One cell.
#[derive(Debug, Clone, PartialEq)]
pub enum Cell {
    /// Nothing: an empty field, never a NaN or an empty text in its place.
    Missing,
    /// `True` or `False`.
    Bool(bool),
    /// A whole number. A column with one missing or fractional value shows all its whole numbers as `8.0`.
    Int(i64),
    /// A number.
    Float(f64),
    /// Text, as it is shown. Long texts repeat, so they are shared.
    Text(Arc<str>),
}

impl Cell {
    /// A number, or nothing for NaN.
    pub fn float(value: f64) -> Self {
        if value.is_nan() { Self::Missing } else { Self::Float(value) }
    }
}

/// How a column reads best.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// Text, whole numbers, booleans.
    Plain,
    /// Microseconds or milliseconds: two decimals.
    Time,
    /// Percent (0 to 100): one decimal.
    Percent,
    /// Rates, sizes, ratios: significant digits.
    Quantity,
}

/// A column: its header, its cells, how to show it.
#[derive(Debug, Clone, PartialEq)]
pub struct Column {
    /// Header, as users and other programs know it.
    pub header: String,
    /// How it reads best.
    pub format: Format,
    /// One cell a row.
    pub cells: Vec<Cell>,
}

/// A sheet.
#[derive(Debug, Clone, PartialEq)]
pub struct Table {
    /// Name of the sheet and of its file.
    pub name: String,
    /// Columns, all of one length.
    pub columns: Vec<Column>,
}

impl Table {
    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.columns.first().map_or(0, |c| c.cells.len())
    }

    /// The column with this header.
    pub fn column(&self, header: &str) -> Option<&Column> {
        self.columns.iter().find(|c| c.header == header)
    }
}
