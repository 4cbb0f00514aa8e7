//! From typed rows to a [`Table`]: a sheet declares its columns once, as header, format and accessor.

use std::borrow::Cow;
use std::sync::Arc;

use super::stats::Stats;
use super::{Cell, Column, Format, Table};

/// A column of rows `R`.
struct Col<R> {
    header: Cow<'static, str>,
    format: Format,
    cell: Box<dyn Fn(&R) -> Cell>,
}

/// The columns of a sheet of rows `R`, in their order.
pub(crate) struct Columns<R>(Vec<Col<R>>);

impl<R: 'static> Columns<R> {
    pub(crate) fn new() -> Self {
        Self(Vec::new())
    }

    fn with(
        mut self,
        header: impl Into<Cow<'static, str>>,
        format: Format,
        cell: impl Fn(&R) -> Cell + 'static,
    ) -> Self {
        self.0.push(Col { header: header.into(), format, cell: Box::new(cell) });
        self
    }

    /// A column of texts, whole numbers or truth values.
    pub(crate) fn plain(self, header: impl Into<Cow<'static, str>>, cell: impl Fn(&R) -> Cell + 'static) -> Self {
        self.with(header, Format::Plain, cell)
    }

    /// A column of times.
    pub(crate) fn time(self, header: impl Into<Cow<'static, str>>, cell: impl Fn(&R) -> Cell + 'static) -> Self {
        self.with(header, Format::Time, cell)
    }

    /// A column of shares in percent.
    pub(crate) fn percent(self, header: impl Into<Cow<'static, str>>, cell: impl Fn(&R) -> Cell + 'static) -> Self {
        self.with(header, Format::Percent, cell)
    }

    /// A column of rates, sizes or ratios.
    pub(crate) fn quantity(self, header: impl Into<Cow<'static, str>>, cell: impl Fn(&R) -> Cell + 'static) -> Self {
        self.with(header, Format::Quantity, cell)
    }

    /// Columns `<name>_mean`, `<name>_std`, … of a number that rows hold the stats of.
    pub(crate) fn stats(self, name: &str, stats: &[Stat], format: Format, get: fn(&R) -> &Stats) -> Self {
        stats.iter().fold(self, |columns, &stat| {
            columns.with(format!("{name}_{}", stat.word()), format, move |row| stat.of(get(row)))
        })
    }

    /// More columns, if there is reason to show them.
    pub(crate) fn when(self, reason: bool, more: impl FnOnce(Self) -> Self) -> Self {
        if reason { more(self) } else { self }
    }

    /// These columns and others after them.
    pub(crate) fn and(mut self, others: Self) -> Self {
        self.0.extend(others.0);
        self
    }

    /// Moves the last column to a place.
    pub(crate) fn last_to(mut self, place: usize) -> Self {
        if let Some(last) = self.0.pop() {
            self.0.insert(place.min(self.0.len()), last);
        }
        self
    }

    /// The same columns for rows that hold such a row.
    pub(crate) fn lift<S: 'static>(self, get: fn(&S) -> &R) -> Columns<S> {
        let lifted = |c: Col<R>| Col {
            header: c.header,
            format: c.format,
            cell: Box::new(move |row: &S| (c.cell)(get(row))) as Box<dyn Fn(&S) -> Cell>,
        };
        Columns(self.0.into_iter().map(lifted).collect())
    }

    /// The sheet of these rows.
    pub(crate) fn table(self, name: impl Into<String>, rows: &[R]) -> Table {
        let column = |c: Col<R>| Column {
            header: c.header.into_owned(),
            format: c.format,
            cells: rows.iter().map(|row| (c.cell)(row)).collect(),
        };
        Table { name: name.into(), columns: self.0.into_iter().map(column).collect() }
    }
}

/// One of the numbers that [`Stats`] holds.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Stat {
    Mean,
    Median,
    Std,
    Min,
    Max,
    Sum,
}

impl Stat {
    /// The usual order.
    pub(crate) const SPREAD: [Self; 5] = [Self::Mean, Self::Median, Self::Std, Self::Min, Self::Max];

    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Mean => "mean",
            Self::Median => "median",
            Self::Std => "std",
            Self::Min => "min",
            Self::Max => "max",
            Self::Sum => "sum",
        }
    }

    pub(crate) fn of(self, stats: &Stats) -> Cell {
        let value = match self {
            Self::Mean => stats.mean,
            Self::Median => stats.median,
            Self::Std => stats.std,
            Self::Min => stats.min,
            Self::Max => stats.max,
            Self::Sum => Some(stats.sum),
        };
        number(value)
    }
}

/// A number that may be missing.
pub(crate) fn number(value: Option<f64>) -> Cell {
    value.map_or(Cell::Missing, Cell::float)
}

/// A count.
pub(crate) fn count(value: usize) -> Cell {
    Cell::Int(value as i64)
}

/// A shared text.
pub(crate) fn text(value: &Arc<str>) -> Cell {
    Cell::Text(Arc::clone(value))
}

/// A shared text that may be missing.
pub(crate) fn maybe_text(value: Option<&Arc<str>>) -> Cell {
    value.map_or(Cell::Missing, text)
}

/// A truth value that may be missing.
pub(crate) fn maybe_bool(value: Option<bool>) -> Cell {
    value.map_or(Cell::Missing, Cell::Bool)
}

/// Rows grouped by key in order of first appearance; each group lists its rows in order.
pub(crate) fn group_by<R, K: Eq + std::hash::Hash>(rows: &[R], mut key: impl FnMut(&R) -> K) -> Vec<Vec<usize>> {
    let mut index: rapidhash::RapidHashMap<K, usize> = rapidhash::RapidHashMap::default();
    let mut groups: Vec<Vec<usize>> = Vec::new();
    for (i, row) in rows.iter().enumerate() {
        let at = *index.entry(key(row)).or_insert_with(|| {
            groups.push(Vec::new());
            groups.len() - 1
        });
        groups[at].push(i);
    }
    groups
}
