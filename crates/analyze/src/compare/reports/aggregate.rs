//! Rows of one key put together, so that a join meets every key once a report.

use std::sync::Arc;

use jarvis_perf::tables::{Cell, Column, Table};

use super::join::{Keys, number};
use super::sheets::SheetSpec;

/// What several cells of a column become.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Rule {
    Sum,
    Mean,
    Min,
    Max,
    /// Can't be told from the parts.
    Unknown,
    /// The value, if all have the same; distinct texts side by side.
    Same,
}

impl Rule {
    fn of(header: &str, spec: &SheetSpec) -> Self {
        let ends = |endings: &[&str]| endings.iter().any(|end| header.ends_with(end));
        let starts = |start: &str| header.starts_with(start);
        if header == spec.count || header == "time ms" {
            Self::Sum
        } else if starts("Cumulative") || ends(&["_median", "_std"]) || starts("Median ") || starts("Std ") {
            Self::Unknown
        } else if ends(&["_mean"]) || starts("Mean ") || starts("mean_") {
            Self::Mean
        } else if ends(&["_min"]) || starts("Min ") {
            Self::Min
        } else if ends(&["_max"]) || starts("Max ") {
            Self::Max
        } else if ends(&["_sum", "_ms", "_count"])
            || ["Percentage (%)", "Percent of", "Total ", "total_", "percent"].iter().any(|word| starts(word))
        {
            Self::Sum
        } else {
            Self::Same
        }
    }
}

/// The table with one row a key, in order of first appearance.
pub(crate) fn aggregated(table: &Table, spec: &SheetSpec, keys: &Keys) -> Table {
    let groups = keys.groups();
    let weights: Vec<f64> = (0..table.rows())
        .map(|row| table.column(spec.count).and_then(|c| number(c.cells.get(row)?)).unwrap_or(1.0))
        .collect();
    let column = |column: &Column| {
        let rule = if spec.keys.contains(&column.header) { Rule::Same } else { Rule::of(&column.header, spec) };
        let cell = |rows: &Vec<usize>| match rows[..] {
            [row] => column.cells.get(row).cloned().unwrap_or(Cell::Missing),
            _ => together(rule, &column.cells, rows, &weights),
        };
        Column { cells: groups.iter().map(cell).collect(), ..column.clone_header() }
    };
    Table { name: table.name.clone(), columns: table.columns.iter().map(column).collect() }
}

/// A column without its cells.
trait CloneHeader {
    fn clone_header(&self) -> Self;
}

impl CloneHeader for Column {
    fn clone_header(&self) -> Self {
        Self { header: self.header.clone(), format: self.format, cells: Vec::new() }
    }
}

fn together(rule: Rule, cells: &[Cell], rows: &[usize], weights: &[f64]) -> Cell {
    let present: Vec<(usize, &Cell)> =
        rows.iter().filter_map(|&r| Some((r, cells.get(r)?))).filter(|(_, c)| !matches!(c, Cell::Missing)).collect();
    let Some(&(_, first)) = present.first() else { return Cell::Missing };
    let numbers: Option<Vec<(usize, f64)>> = present.iter().map(|&(r, c)| Some((r, number(c)?))).collect();
    let Some(numbers) = numbers.filter(|_| rule != Rule::Same) else { return same(&present, first) };
    let values = || numbers.iter().map(|n| n.1);
    match rule {
        Rule::Sum => {
            let whole: Option<Vec<i64>> =
                present.iter().map(|(_, c)| if let Cell::Int(i) = c { Some(*i) } else { None }).collect();
            let exact = whole.and_then(|all| all.into_iter().try_fold(0_i64, i64::checked_add));
            exact.map_or_else(|| Cell::float(values().sum()), Cell::Int)
        }
        Rule::Min => Cell::float(values().fold(f64::INFINITY, f64::min)),
        Rule::Max => Cell::float(values().fold(f64::NEG_INFINITY, f64::max)),
        Rule::Mean => {
            let weight: f64 = numbers.iter().map(|(r, _)| weights[*r]).sum();
            Cell::float(numbers.iter().map(|(r, x)| x * weights[*r]).sum::<f64>() / weight)
        }
        Rule::Unknown | Rule::Same => Cell::Missing,
    }
}

/// The value all have; distinct texts side by side; nothing where numbers differ.
fn same(present: &[(usize, &Cell)], first: &Cell) -> Cell {
    if present.iter().all(|(_, c)| *c == first) {
        return first.clone();
    }
    let mut texts: Vec<&str> = Vec::new();
    for (_, cell) in present {
        let Cell::Text(text) = cell else { return Cell::Missing };
        if !texts.contains(&&**text) {
            texts.push(text);
        }
    }
    Cell::Text(Arc::from(texts.join("; ")))
}
