//! `<category>_ops.csv`: the rows of `unified_perf_summary` that belong to a category, with what the analysis adds.

use std::sync::Arc;

use jarvis_analyze::prepared::{BoundType, Category, Prepared, Row};
use jarvis_analyze::rounding::round;
use jarvis_perf::tables::{Cell, Sheet};

use crate::Run;
use crate::render::csv::{Field, Records, Texts};

/// The columns that the analysis adds.
const ADDED: [&str; 9] = [
    "enhanced_category",
    "display_name",
    "direction",
    "percent_of_category",
    "percent_of_compute",
    "percent_of_total",
    "in_top_ops",
    "efficiency_percent",
    "bound_type",
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

    /// The table of a category, most time first.
    pub(crate) fn render(&self, category: &Category) -> Vec<u8> {
        let mut records = Records::new(Texts::Guarded);
        let heads = self.unified.iter().flat_map(|sheet| sheet.heads()).map(|head| &*head.text);
        records.header(heads.chain(ADDED));
        for &id in &category.rows {
            // The report may have been cut to its first rows.
            let known = self.unified.iter().flat_map(|sheet| sheet.row(id.index()));
            let known = known.zip(&self.floats).map(|(cell, &floats)| Field { cell: finite(cell), floats });
            let added = added(self.prepared.row(id), category).map(|cell| Field { cell, floats: false });
            records.record(known.chain(added));
        }
        records.out.into_bytes()
    }
}

/// Nothing that is no number counts as one.
fn finite(cell: Cell) -> Cell {
    if matches!(cell, Cell::Float(x) if !x.is_finite()) { Cell::Missing } else { cell }
}

/// The cells that the analysis adds to a row.
fn added(row: &Row, category: &Category) -> [Cell; ADDED.len()] {
    let text = |s: &str| Cell::Text(Arc::from(s));
    let percent = |x: f64| finite(Cell::Float(round(x, 2)));
    let bound = |b: BoundType| match b {
        BoundType::Compute => text("compute"),
        BoundType::Memory => text("memory"),
    };
    [
        Cell::Text(Arc::clone(&category.key)),
        Cell::Text(Arc::clone(&category.display)),
        text(row.direction.as_str()),
        percent(row.percent_of_category),
        percent(row.percent_of_compute),
        percent(row.percent_of_total),
        Cell::Bool(row.in_top_ops),
        row.efficiency.efficiency_percent.map_or(Cell::Missing, percent),
        row.efficiency.bound_type.map_or(Cell::Missing, bound),
    ]
}
