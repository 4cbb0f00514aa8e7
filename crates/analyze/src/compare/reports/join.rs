//! The outer join of tables on their key columns, and the differences of their metrics.

use std::cmp::Ordering;

use jarvis_perf::tables::{Cell, Column, Format, Table};
use rapidhash::RapidHashMap;

use super::compare::CompareError;
use super::read::of_numbers;
use super::sheets::SheetSpec;

/// Most rows of a joined sheet: rows of equal keys multiply where they are not put together.
const MOST_ROWS: usize = 4_000_000;

/// A number, if the cell is one.
pub(crate) fn number(cell: &Cell) -> Option<f64> {
    match cell {
        Cell::Int(i) => Some(*i as f64),
        Cell::Float(x) => Some(*x),
        _ => None,
    }
}

/// A key cell as a value that can be compared, ordered and hashed. `1` and `1.0` are the same.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum KeyValue {
    Bool(bool),
    /// The bits of the number.
    Number(u64),
    Text(std::sync::Arc<str>),
    /// Missing values equal each other, and come last.
    Missing,
}

impl KeyValue {
    fn of(cell: &Cell, by_type: bool) -> Self {
        match cell {
            Cell::Missing => Self::Missing,
            Cell::Bool(b) => Self::Bool(*b),
            Cell::Int(i) => Self::Number((*i as f64 + 0.0).to_bits()),
            Cell::Float(x) => Self::Number((*x + 0.0).to_bits()),
            Cell::Text(text) => match text.parse::<f64>() {
                Ok(x) if !by_type && x.is_finite() => Self::Number((x + 0.0).to_bits()),
                _ => Self::Text(std::sync::Arc::clone(text)),
            },
        }
    }

    fn rank(&self) -> u8 {
        match self {
            Self::Bool(_) => 0,
            Self::Number(_) => 1,
            Self::Text(_) => 2,
            Self::Missing => 3,
        }
    }
}

impl PartialOrd for KeyValue {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for KeyValue {
    fn cmp(&self, other: &Self) -> Ordering {
        match (self, other) {
            (Self::Bool(a), Self::Bool(b)) => a.cmp(b),
            (Self::Number(a), Self::Number(b)) => f64::from_bits(*a).total_cmp(&f64::from_bits(*b)),
            (Self::Text(a), Self::Text(b)) => a.cmp(b),
            _ => self.rank().cmp(&other.rank()),
        }
    }
}

/// The keys of a table's rows.
#[derive(Debug)]
pub(crate) struct Keys(Vec<Vec<KeyValue>>);

impl Keys {
    pub(crate) fn of(table: &Table, spec: &SheetSpec, by_type: bool) -> Self {
        let columns: Vec<Option<&Column>> = spec.keys.iter().map(|key| table.column(key)).collect();
        let key = |row: usize| {
            let cell = |c: Option<&Column>| {
                c.and_then(|c| c.cells.get(row)).map_or(KeyValue::Missing, |cell| KeyValue::of(cell, by_type))
            };
            columns.iter().copied().map(cell).collect()
        };
        Self((0..table.rows()).map(key).collect())
    }

    /// Rows of each distinct key, in order of first appearance.
    pub(crate) fn groups(&self) -> Vec<Vec<usize>> {
        let mut index: RapidHashMap<&[KeyValue], usize> = RapidHashMap::default();
        let mut groups: Vec<Vec<usize>> = Vec::new();
        for (row, key) in self.0.iter().enumerate() {
            let at = *index.entry(key).or_insert_with(|| {
                groups.push(Vec::new());
                groups.len() - 1
            });
            groups[at].push(row);
        }
        groups
    }
}

/// Tables of several reports, joined.
#[derive(Debug)]
pub(crate) struct Joined {
    pub(crate) keys: Vec<Column>,
    /// Differences and percentages, metric by metric, with the number of the report they are of.
    pub(crate) differences: Vec<(usize, Column)>,
    /// The columns of each report.
    pub(crate) sides: Vec<Side>,
    pub(crate) rows: usize,
}

/// The columns of one report in a join.
#[derive(Debug)]
pub(crate) struct Side {
    pub(crate) columns: Vec<Column>,
    /// Names without the tag, beside `columns`.
    pub(crate) plain: Vec<String>,
}

impl Side {
    pub(crate) fn column(&self, plain: &str) -> Option<&Column> {
        self.plain.iter().position(|p| p == plain).map(|at| &self.columns[at])
    }
}

/// Rows of each report that stand side by side.
fn lines(keys: &[Keys], sheet: &str) -> Result<Vec<Vec<Option<usize>>>, CompareError> {
    let mut all: RapidHashMap<&[KeyValue], Vec<Vec<usize>>> = RapidHashMap::default();
    for (report, rows) in keys.iter().enumerate() {
        for (row, key) in rows.0.iter().enumerate() {
            all.entry(key).or_insert_with(|| vec![Vec::new(); keys.len()])[report].push(row);
        }
    }
    let mut sorted: Vec<_> = all.into_iter().collect();
    sorted.sort_unstable_by(|a, b| a.0.cmp(b.0));
    let mut lines: Vec<Vec<Option<usize>>> = Vec::new();
    for (_, reports) in sorted {
        let mut some = vec![Vec::new()];
        for rows in reports {
            let choices: Vec<Option<usize>> =
                if rows.is_empty() { vec![None] } else { rows.into_iter().map(Some).collect() };
            if lines.len() + some.len().saturating_mul(choices.len()) > MOST_ROWS {
                return Err(CompareError::TooManyRows { sheet: sheet.to_owned(), most: MOST_ROWS });
            }
            let extended = |line: &Vec<Option<usize>>| -> Vec<Vec<Option<usize>>> {
                choices.iter().map(|&choice| line.iter().copied().chain([choice]).collect()).collect()
            };
            some = some.iter().flat_map(extended).collect();
        }
        lines.append(&mut some);
    }
    Ok(lines)
}

/// Joins the tables of all reports.
pub(crate) fn join(spec: &SheetSpec, tags: &[&str], tables: &[Table], by_type: bool) -> Result<Joined, CompareError> {
    let keys: Vec<Keys> = tables.iter().map(|table| Keys::of(table, spec, by_type)).collect();
    let lines = lines(&keys, &spec.source)?;
    let picked = |column: Option<&Column>, report: usize| -> Vec<Cell> {
        let cell = |line: &Vec<Option<usize>>| {
            line[report].and_then(|row| column?.cells.get(row)).cloned().unwrap_or(Cell::Missing)
        };
        lines.iter().map(cell).collect()
    };
    let key_column = |key: &String| {
        let cell = |line: &Vec<Option<usize>>| {
            let found =
                line.iter().enumerate().find_map(|(report, row)| tables[report].column(key)?.cells.get((*row)?));
            found.cloned().unwrap_or(Cell::Missing)
        };
        Column { header: key.clone(), format: Format::Plain, cells: of_numbers(lines.iter().map(cell).collect()) }
    };
    let side = |report: usize| {
        let dropped = |h: &str| spec.dropped.contains(&h) || report > 0 && spec.dropped_in_variants.contains(&h);
        let kept = tables[report].columns.iter().filter(|c| !spec.keys.contains(&c.header) && !dropped(&c.header));
        let mut side = Side { columns: Vec::new(), plain: Vec::new() };
        for column in kept {
            side.plain.push(column.header.clone());
            let header = format!("{}::{}", tags[report], column.header);
            side.columns.push(Column {
                header,
                format: column.format,
                cells: of_numbers(picked(Some(column), report)),
            });
        }
        // A report that lacks a metric, or the whole sheet, has a column without values.
        for &metric in spec.metrics.iter().filter(|m| tables[report].column(m).is_none()) {
            side.plain.push(metric.to_owned());
            let header = format!("{}::{metric}", tags[report]);
            side.columns.push(Column { header, format: Format::Plain, cells: picked(None, report) });
        }
        side
    };
    let sides: Vec<Side> = (0..tables.len()).map(side).collect();
    let differences = differences(spec, tags, &sides);
    Ok(Joined { keys: spec.keys.iter().map(key_column).collect(), differences, sides, rows: lines.len() })
}

fn differences(spec: &SheetSpec, tags: &[&str], sides: &[Side]) -> Vec<(usize, Column)> {
    let mut columns = Vec::new();
    for &metric in spec.metrics {
        let Some(base) = sides.first().and_then(|s| s.column(metric)) else { continue };
        for (report, side) in sides.iter().enumerate().skip(1) {
            let Some(variant) = side.column(metric) else { continue };
            let pairs = || base.cells.iter().zip(&variant.cells);
            let diff = of_numbers(pairs().map(|(b, v)| difference(b, v)).collect());
            let percent = pairs().map(|(b, v)| percent(b, v)).collect();
            let header = |what: &str| format!("{metric}__{}_{what}", tags[report]);
            columns.push((report, Column { header: header("diff"), format: base.format, cells: diff }));
            columns.push((report, Column { header: header("pct"), format: Format::Percent, cells: percent }));
        }
    }
    columns
}

fn difference(base: &Cell, variant: &Cell) -> Cell {
    match (base, variant) {
        (Cell::Int(b), Cell::Int(v)) => v.checked_sub(*b).map_or(Cell::Missing, Cell::Int),
        _ => match (number(base), number(variant)) {
            (Some(b), Some(v)) => Cell::float(v - b),
            _ => Cell::Missing,
        },
    }
}

fn percent(base: &Cell, variant: &Cell) -> Cell {
    match (number(base), number(variant)) {
        (Some(b), Some(v)) if b != 0.0 => Cell::float(100.0 * ((v - b) / b)),
        _ => Cell::Missing,
    }
}
