//! The columns that a comparison adds to `unified_perf_summary`: for each row of the report of the first trace, the
//! common calls its kernels stand under and how long their work takes in both traces.

use std::sync::Arc;

use jarvis_perf::tables::{Cell, Column, Format, Unified};
use rapidhash::RapidHashMap;

use super::lca::LcaRow;
use super::merged::Which;
use super::rows::DiffRows;

/// What a row of the report is told about the other trace.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct LcaCells {
    /// Common calls, in ascending order of their ids.
    pub lcas: Vec<(u32, Arc<str>)>,
    /// How many of them have kernels in the second trace.
    pub with_second: usize,
    /// Their microseconds in each trace.
    pub us: [f64; 2],
    /// What the second trace takes more than the row's own kernels.
    pub delta_us: f64,
}

impl LcaCells {
    /// Time of the second trace by that of the first: above 1 the second is slower.
    pub fn ratio(&self) -> Option<f64> {
        (self.us[0] > 0.0).then(|| self.us[1] / self.us[0])
    }
}

/// For each row of the report of the first trace, its common calls; `None` where it has none.
pub fn lca_cells(unified: &Unified, rows: &DiffRows, summary: &[LcaRow]) -> Vec<Option<LcaCells>> {
    let mut row_of: RapidHashMap<u32, usize> = RapidHashMap::default();
    for (at, row) in unified.rows.iter().enumerate() {
        for call in unified.calls_of(row) {
            row_of.extend(call.kernels.iter().map(|k| (k.uid(), at)));
        }
    }
    let by_id: RapidHashMap<u32, &LcaRow> = summary.iter().map(|row| (row.lca, row)).collect();
    let mut attached: Vec<(u32, usize)> = rows
        .rows
        .iter()
        .filter(|r| r.which == Which::One)
        .filter_map(|r| Some((r.lca?, *row_of.get(&r.kernel.uid())?)))
        .collect();
    attached.sort_unstable();
    attached.dedup();
    let mut cells: Vec<Option<LcaCells>> = vec![None; unified.rows.len()];
    for (lca, at) in attached {
        let Some(row) = by_id.get(&lca) else { continue };
        let cell = cells[at].get_or_insert_default();
        cell.lcas.push((lca, Arc::clone(&row.lca_name)));
        cell.with_second += usize::from(!row.kernels[1].is_empty());
        cell.us = [cell.us[0] + row.us[0], cell.us[1] + row.us[1]];
    }
    for (cell, row) in cells.iter_mut().zip(&unified.rows) {
        if let Some(cell) = cell {
            cell.delta_us = cell.us[1] - row.kernel_us.sum;
        }
    }
    cells
}

/// The same as the columns that follow `Kernel Time (µs)_sum` in the sheet.
pub fn lca_columns(cells: &[Option<LcaCells>]) -> Vec<Column> {
    let column = |header: &str, format: Format, cell: &dyn Fn(&LcaCells) -> Cell| Column {
        header: header.to_owned(),
        format,
        cells: cells.iter().map(|c| c.as_ref().map_or(Cell::Missing, cell)).collect(),
    };
    let joined = |texts: Vec<String>| Cell::Text(texts.join("; ").into());
    vec![
        column("speedup (trace2/trace1)", Format::Quantity, &|c| c.ratio().map_or(Cell::Missing, Cell::float)),
        column("delta_us (trace2 - trace1)", Format::Time, &|c| Cell::float(c.delta_us)),
        column("lca_count_trace2", Format::Plain, &|c| Cell::Float(c.with_second as f64)),
        column("lca_id", Format::Plain, &|c| joined(c.lcas.iter().map(|l| l.0.to_string()).collect())),
        column("lca_name", Format::Plain, &|c| joined(c.lcas.iter().map(|l| l.1.to_string()).collect())),
        column("lca_total_kernel_time_trace1_us", Format::Time, &|c| Cell::float(c.us[0])),
        column("lca_total_kernel_time_trace2_us", Format::Time, &|c| Cell::float(c.us[1])),
    ]
}
