//! From joined rows to result sheets: ordered, or split into what both reports have and what only one has.

use std::cmp::Ordering;

use jarvis_perf::tables::{Cell, Column, Table};
use jarvis_trace::InOrder;

use super::join::{Joined, number};
use super::sheets::{Shape, SheetSpec};

/// The sheets of a join, in their order.
pub(crate) fn sheets(joined: &Joined, spec: &SheetSpec, tags: &[&str], keys_may_vanish: bool) -> Vec<Table> {
    let sort_column = match spec.shape {
        Shape::ByKey => return vec![whole(joined, spec, &(0..joined.rows).collect::<Vec<_>>())],
        Shape::ByBaseline(column) => {
            let mut rows: Vec<usize> = (0..joined.rows).collect();
            sort(&mut rows, joined.sides.first().and_then(|s| s.column(column)));
            return vec![whole(joined, spec, &rows)];
        }
        Shape::Split(column) => column,
    };
    let metric = spec.metrics[0];
    let present = |report: usize, row: usize| {
        let column = joined.sides.get(report).and_then(|s| s.column(metric));
        column.is_some_and(|c| !matches!(c.cells[row], Cell::Missing))
    };
    let mut tables = Vec::new();
    for (variant, tag) in tags.iter().enumerate().skip(1) {
        let parts: [(&str, [bool; 2], &[usize]); 3] = [
            ("intersect", [true, true], &[0, variant]),
            ("only_baseline", [true, false], &[0]),
            ("only_variant", [false, true], &[variant]),
        ];
        for (word, wanted, reports) in parts {
            let mut rows: Vec<usize> =
                (0..joined.rows).filter(|&row| [present(0, row), present(variant, row)] == wanted).collect();
            if rows.is_empty() && !keys_may_vanish {
                continue;
            }
            sort(&mut rows, joined.sides[reports[0]].column(sort_column));
            let name = format!("{}_{word}_{tag}", spec.result);
            tables.push(part(joined, name, &rows, reports, keys_may_vanish));
        }
    }
    tables
}

/// Largest first, missing last; equal rows stay in their order.
fn sort(rows: &mut [usize], column: Option<&Column>) {
    let Some(column) = column else { return };
    rows.order_by(|&a, &b| match (number(&column.cells[a]), number(&column.cells[b])) {
        (Some(a), Some(b)) => b.total_cmp(&a),
        (Some(_), None) => Ordering::Less,
        (None, Some(_)) => Ordering::Greater,
        (None, None) => Ordering::Equal,
    });
}

fn picked(column: &Column, rows: &[usize]) -> Column {
    let cells = rows.iter().map(|&row| column.cells[row].clone()).collect();
    Column { header: column.header.clone(), format: column.format, cells }
}

fn whole(joined: &Joined, spec: &SheetSpec, rows: &[usize]) -> Table {
    let differences = joined.differences.iter().map(|(_, c)| c);
    let sides = joined.sides.iter().flat_map(|s| &s.columns);
    let columns = joined.keys.iter().chain(differences).chain(sides).map(|c| picked(c, rows)).collect();
    Table { name: spec.result.clone(), columns }
}

fn part(joined: &Joined, name: String, rows: &[usize], reports: &[usize], keys_may_vanish: bool) -> Table {
    let differences = joined.differences.iter().filter(|(of, _)| reports.contains(of) && reports.len() > 1);
    let sides = reports.iter().flat_map(|&r| &joined.sides[r].columns);
    let others = differences.map(|(_, c)| c).chain(sides);
    let filled = |c: &Column| c.cells.iter().any(|cell| !matches!(cell, Cell::Missing));
    let keys = joined.keys.iter().map(|c| picked(c, rows)).filter(|c| !keys_may_vanish || filled(c));
    let columns = keys.chain(others.map(|c| picked(c, rows)).filter(|c| filled(c))).collect();
    Table { name, columns }
}
