//! `<category>_ops.csv`: the rows of `unified_perf_summary` that belong to a category, with what the analysis adds.

use std::io::{self, Write as _};
use std::sync::Arc;

use jarvis_analyze::prepared::{BoundType, Category, Prepared, Row};
use jarvis_analyze::rounding::round;
use jarvis_perf::tables::{Cell, Sheet};

use crate::render::csv::{Field, Records, Texts};
use crate::{Pieces, Run};

/// A column that the analysis adds: its header and what it shows of a row.
type Added = (&'static str, fn(&Row, &Category) -> Cell);

/// The columns that the analysis adds, in their order.
const ADDED: [Added; 10] = [
    ("enhanced_category", |_, category| Cell::Text(Arc::clone(&category.key))),
    ("display_name", |_, category| Cell::Text(Arc::clone(&category.display))),
    ("direction", |row, _| text(row.direction.as_str())),
    ("percent_of_category", |row, _| percent(row.percent_of_category)),
    ("percent_of_compute", |row, _| percent(row.percent_of_compute)),
    ("percent_of_total", |row, _| percent(row.percent_of_total)),
    ("in_top_ops", |row, _| Cell::Bool(row.in_top_ops)),
    ("efficiency_percent", |row, _| row.efficiency.efficiency_percent.map_or(Cell::Missing, percent)),
    ("bound_type", |row, _| row.efficiency.bound_type.map_or(Cell::Missing, bound)),
    ("copy_time_ms", |row, _| finite(Cell::Float(round(row.copied_ms, 3)))),
];

/// Makes these files.
pub(crate) struct OpsCsv<'a> {
    prepared: &'a Prepared,
    unified: Option<&'a Sheet<'a>>,
    /// A category's whole numbers read as those of the whole sheet do.
    floats: Vec<bool>,
}

impl<'a> OpsCsv<'a> {
    pub(crate) fn of(run: &Run<'a>) -> Self {
        let unified = run.sheets.iter().find(|sheet| sheet.name == "unified_perf_summary");
        let floats = unified.map(Sheet::shows_floats).unwrap_or_default();
        Self { prepared: &run.analysis.prepared, unified, floats }
    }

    /// Writes the table of a category, most time first.
    pub(crate) fn write(&self, category: &Category, out: &mut Pieces<'_>) -> io::Result<()> {
        let mut records = Records::new(Texts::Guarded);
        let heads = self.unified.iter().flat_map(|sheet| sheet.heads()).map(|head| &*head.text);
        records.header(heads.chain(ADDED.map(|(header, _)| header)));
        for &id in &category.rows {
            // The report may have been cut to its first rows.
            let known = self.unified.iter().flat_map(|sheet| sheet.row(id.index()));
            let known = known.zip(&self.floats).map(|(cell, &floats)| Field { cell: finite(cell), floats });
            let row = self.prepared.row(id);
            let added = ADDED.iter().map(|(_, cell)| Field { cell: cell(row, category), floats: false });
            records.record(known.chain(added));
            out.write_all(records.out.as_bytes())?;
            records.out.clear();
        }
        out.write_all(records.out.as_bytes())
    }
}

/// Nothing that is no number counts as one.
fn finite(cell: Cell) -> Cell {
    if matches!(cell, Cell::Float(x) if !x.is_finite()) { Cell::Missing } else { cell }
}

fn text(text: &str) -> Cell {
    Cell::Text(Arc::from(text))
}

fn percent(share: f64) -> Cell {
    finite(Cell::Float(round(share, 2)))
}

fn bound(bound: BoundType) -> Cell {
    text(match bound {
        BoundType::Compute => "compute",
        BoundType::Memory => "memory",
    })
}
