//! `<category>_ops.csv`: the rows of `unified_perf_summary` that belong to a category, with what the analysis adds.

use std::sync::Arc;

use jarvis_analyze::prepared::{BoundType, Category, Prepared, Row};
use jarvis_analyze::program::RowId;
use jarvis_analyze::rounding::round;
use jarvis_perf::tables::{Cell, Column, Format, Table};

use crate::render::csv::{self, Texts};

/// The table of a category, most time first.
pub(crate) fn render(prepared: &Prepared, category: &Category, unified: Option<&Table>) -> Vec<u8> {
    let mut columns: Vec<Column> =
        unified.iter().flat_map(|t| &t.columns).map(|column| selected(column, &category.rows)).collect();
    columns.extend(added(prepared, category));
    csv::render(&Table { name: String::new(), columns }, Texts::Guarded)
}

/// Some cells of a column, as they read in the whole of it. Nothing that is no number counts as one.
fn selected(column: &Column, rows: &[RowId]) -> Column {
    let floats = column.shows_floats();
    let cell = |row: &RowId| match column.cells.get(row.index()) {
        Some(&Cell::Int(i)) if floats => Cell::Float(i as f64),
        Some(&Cell::Float(x)) if !x.is_finite() => Cell::Missing,
        Some(cell) => cell.clone(),
        // The report may have been cut to its first rows.
        None => Cell::Missing,
    };
    Column { header: column.header.clone(), format: column.format, cells: rows.iter().map(cell).collect() }
}

/// The columns that the analysis adds.
fn added(prepared: &Prepared, category: &Category) -> Vec<Column> {
    let column = |header: &str, cell: &dyn Fn(&Row) -> Cell| Column {
        header: header.to_owned(),
        format: Format::Plain,
        cells: category.rows.iter().map(|&id| cell(prepared.row(id))).collect(),
    };
    let text = |s: &str| Cell::Text(Arc::from(s));
    let percent = |x: f64| if x.is_finite() { Cell::Float(round(x, 2)) } else { Cell::Missing };
    let bound = |b: BoundType| match b {
        BoundType::Compute => text("compute"),
        BoundType::Memory => text("memory"),
    };
    vec![
        column("enhanced_category", &|_| Cell::Text(Arc::clone(&category.key))),
        column("display_name", &|_| Cell::Text(Arc::clone(&category.display))),
        column("direction", &|r| text(r.direction.as_str())),
        column("percent_of_category", &|r| percent(r.percent_of_category)),
        column("percent_of_compute", &|r| percent(r.percent_of_compute)),
        column("percent_of_total", &|r| percent(r.percent_of_total)),
        column("in_top_ops", &|r| Cell::Bool(r.in_top_ops)),
        column("efficiency_percent", &|r| r.efficiency.efficiency_percent.map_or(Cell::Missing, percent)),
        column("bound_type", &|r| r.efficiency.bound_type.map_or(Cell::Missing, bound)),
    ]
}
