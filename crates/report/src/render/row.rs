//! A row on its way to files.

use jarvis_perf::tables::{Cell, Sheet};
use jarvis_trace::pyliteral;

/// The cells of a row, and its fractions as texts: to make those takes longer than all else, and they are the same
/// wherever they are written.
#[derive(Debug, Default)]
pub struct TextRow {
    cells: Vec<Cell>,
    fractions: String,
    /// For each cell, where its text ends among `fractions`.
    ends: Vec<usize>,
}

impl TextRow {
    /// A row of a sheet.
    pub fn of(sheet: &Sheet<'_>, row: usize) -> Self {
        let mut made = Self::default();
        made.fill(sheet, row);
        made
    }

    /// Takes the cells of another row.
    pub(crate) fn fill(&mut self, sheet: &Sheet<'_>, row: usize) {
        self.cells.clear();
        self.fractions.clear();
        self.ends.clear();
        for cell in sheet.row(row) {
            if let Cell::Float(x) = cell {
                pyliteral::push_float(&mut self.fractions, x);
            }
            self.cells.push(cell);
            self.ends.push(self.fractions.len());
        }
    }

    /// The cells.
    pub(crate) fn cells(&self) -> &[Cell] {
        &self.cells
    }

    /// The cells, with the text of each that is a fraction.
    pub(crate) fn texts(&self) -> impl Iterator<Item = (&Cell, &str)> {
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        self.cells.iter().zip(starts.zip(&self.ends)).map(|(cell, (from, &to))| (cell, &self.fractions[from..to]))
    }
}
