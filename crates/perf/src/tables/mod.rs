//! The sheets of the performance report, as values. Renderers (CSV, XLSX, HTML, JSON) stand in `jarvis-report`.

mod call_stack;
mod casts;
mod collectives;
mod context;
mod costs;
mod inputs;
mod kernel_list;
mod kernels;
mod launchers;
mod op_sheets;
mod options;
mod overlap;
mod report;
mod sheet;
mod stats;
mod texts;
mod timeline;
mod unified;

use std::borrow::{Borrow, Cow};
use std::sync::Arc;

use jarvis_trace::pyliteral;

pub use call_stack::StackCells;
pub use collectives::{CollectiveRow, Collectives};
pub use context::CallIdentity;
pub use inputs::{ArgLists, ArgTexts, ListIds, input_ids};
pub use kernel_list::{KernelList, KernelStat};
pub use kernels::{Bin, KernelRow, ShortKernelRow};
pub use launchers::{CategoryRow, LauncherRow, LauncherRows, OpRow, UniqueArgsRow};
pub use op_sheets::{OpSheet, OpSheetRow};
pub use options::{ReportError, ReportOptions};
pub use report::{ModelFailure, Report, ReportRows, build_report, build_report_around, require_gpu_work, tree_options};
pub use sheet::{Head, Sheet};
pub use stats::Stats;
pub use texts::tuple_text;
pub use unified::{RowModel, Unified, UnifiedCall, UnifiedRow};

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

impl Column {
    /// Whether whole numbers are shown as `8.0`: those of a number column with a gap or a fraction.
    pub fn shows_floats(&self) -> bool {
        shows_floats(self.cells.iter())
    }

    /// The cells as texts, in the notation of Python: what CSV files hold. Missing cells are empty; whole numbers of a
    /// number column with a gap or a fraction are shown as `8.0`.
    pub fn texts(&self) -> Vec<Cow<'_, str>> {
        let floats = self.shows_floats();
        let text = |cell| match cell {
            &Cell::Int(i) if floats => pyliteral::of_float(i as f64).into(),
            Cell::Int(i) => i.to_string().into(),
            Cell::Missing => "".into(),
            Cell::Bool(true) => "True".into(),
            Cell::Bool(false) => "False".into(),
            Cell::Float(x) => pyliteral::of_float(*x).into(),
            Cell::Text(t) => Cow::Borrowed(&**t),
        };
        self.cells.iter().map(text).collect()
    }
}

/// Whether these are the cells of a number column with a gap or a fraction.
fn shows_floats(cells: impl Iterator<Item = impl Borrow<Cell>>) -> bool {
    let mut any = false;
    for cell in cells {
        match cell.borrow() {
            Cell::Int(_) => {}
            Cell::Missing | Cell::Float(_) => any = true,
            Cell::Bool(_) | Cell::Text(_) => return false,
        }
    }
    any
}

/// A sheet with all its cells.
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
