//! From typed rows to a [`Sheet`]: it declares its columns once, as header, format and accessor, and makes a cell when
//! it is asked for. Cells take several times the memory of what they show, so nobody keeps them who need not.

use std::borrow::Cow;
use std::sync::Arc;

use super::stats::Stats;
use super::{Cell, Column, Format, Table, shows_floats};

/// A sheet whose cells are made when they are asked for.
pub struct Sheet<'a> {
    /// Name of the sheet and of its file.
    pub name: Cow<'a, str>,
    heads: Vec<Head<'a>>,
    rows: usize,
    cells: Box<dyn Cells + 'a>,
}

/// What stands at the top of a column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Head<'a> {
    /// Header, as users and other programs know it.
    pub text: Cow<'a, str>,
    /// How the column reads best.
    pub format: Format,
}

/// Where cells come from.
trait Cells: Send + Sync {
    fn cell(&self, row: usize, column: usize) -> Cell;

    /// Whether a column is known to hold no whole number.
    fn has_no_ints(&self, _column: usize) -> bool {
        false
    }
}

impl<'a> Sheet<'a> {
    /// The sheets of these tables.
    pub fn of(tables: &'a [Table]) -> Vec<Self> {
        tables.iter().map(Self::from).collect()
    }

    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// What stands at the top of each column.
    pub fn heads(&self) -> &[Head<'a>] {
        &self.heads
    }

    /// A cell; there is none beyond the last.
    pub fn cell(&self, row: usize, column: usize) -> Cell {
        if row < self.rows && column < self.heads.len() { self.cells.cell(row, column) } else { Cell::Missing }
    }

    /// The cells of a row.
    pub fn row(&self, row: usize) -> impl Iterator<Item = Cell> {
        (0..self.heads.len()).map(move |column| self.cell(row, column))
    }

    /// The cells of a column.
    pub fn column(&self, column: usize) -> impl Iterator<Item = Cell> {
        (0..self.rows).map(move |row| self.cell(row, column))
    }

    /// For each column, whether whole numbers are shown as `8.0`; see [`Column::shows_floats`]. Where there are none, no
    /// cell is made to find out.
    pub fn shows_floats(&self) -> Vec<bool> {
        let shows = |column| self.cells.has_no_ints(column) || shows_floats(self.column(column));
        (0..self.heads.len()).map(shows).collect()
    }

    /// All cells at once.
    pub fn table(&self) -> Table {
        let column = |(at, head): (usize, &Head<'_>)| Column {
            header: head.text.clone().into_owned(),
            format: head.format,
            cells: self.column(at).collect(),
        };
        Table { name: self.name.clone().into_owned(), columns: self.heads.iter().enumerate().map(column).collect() }
    }

    /// The first rows.
    pub(crate) fn capped(mut self, most: Option<usize>) -> Self {
        self.rows = self.rows.min(most.unwrap_or(usize::MAX));
        self
    }
}

impl std::fmt::Debug for Sheet<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { name, heads, rows, .. } = self;
        f.debug_struct("Sheet").field("name", name).field("heads", heads).field("rows", rows).finish_non_exhaustive()
    }
}

impl<'a> From<&'a Table> for Sheet<'a> {
    fn from(table: &'a Table) -> Self {
        let head = |c: &'a Column| Head { text: Cow::Borrowed(&c.header), format: c.format };
        Self {
            name: Cow::Borrowed(&table.name),
            heads: table.columns.iter().map(head).collect(),
            rows: table.rows(),
            cells: Box::new(table),
        }
    }
}

impl Cells for &Table {
    fn cell(&self, row: usize, column: usize) -> Cell {
        self.columns[column].cells.get(row).cloned().unwrap_or(Cell::Missing)
    }
}

/// Makes a cell of a row.
type Accessor<R> = Box<dyn Fn(&R) -> Cell + Send + Sync>;

/// Rows, and for each column its format and accessor.
struct OfRows<'a, R> {
    rows: &'a [R],
    columns: Vec<(Format, Accessor<R>)>,
}

impl<R: Sync> Cells for OfRows<'_, R> {
    fn cell(&self, row: usize, column: usize) -> Cell {
        let cell = self.columns[column].1(&self.rows[row]);
        debug_assert!(
            !(matches!(cell, Cell::Int(_)) && self.has_no_ints(column)),
            "{cell:?} among fractions: the column must be plain"
        );
        cell
    }

    /// Times, shares and quantities are never counted.
    fn has_no_ints(&self, column: usize) -> bool {
        self.columns[column].0 != Format::Plain
    }
}

/// A column of rows `R`.
struct Col<R> {
    header: Cow<'static, str>,
    format: Format,
    cell: Accessor<R>,
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
        cell: impl Fn(&R) -> Cell + Send + Sync + 'static,
    ) -> Self {
        self.0.push(Col { header: header.into(), format, cell: Box::new(cell) });
        self
    }

    /// A column of texts, whole numbers or truth values.
    pub(crate) fn plain(
        self,
        header: impl Into<Cow<'static, str>>,
        cell: impl Fn(&R) -> Cell + Send + Sync + 'static,
    ) -> Self {
        self.with(header, Format::Plain, cell)
    }

    /// A column of times.
    pub(crate) fn time(
        self,
        header: impl Into<Cow<'static, str>>,
        cell: impl Fn(&R) -> Cell + Send + Sync + 'static,
    ) -> Self {
        self.with(header, Format::Time, cell)
    }

    /// A column of shares in percent.
    pub(crate) fn percent(
        self,
        header: impl Into<Cow<'static, str>>,
        cell: impl Fn(&R) -> Cell + Send + Sync + 'static,
    ) -> Self {
        self.with(header, Format::Percent, cell)
    }

    /// A column of rates, sizes or ratios.
    pub(crate) fn quantity(
        self,
        header: impl Into<Cow<'static, str>>,
        cell: impl Fn(&R) -> Cell + Send + Sync + 'static,
    ) -> Self {
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
            cell: Box::new(move |row: &S| (c.cell)(get(row))) as Accessor<S>,
        };
        Columns(self.0.into_iter().map(lifted).collect())
    }

    /// The sheet of these rows.
    pub(crate) fn sheet<'a>(self, name: impl Into<Cow<'a, str>>, rows: &'a [R]) -> Sheet<'a>
    where
        R: Sync,
    {
        let mut heads = Vec::with_capacity(self.0.len());
        let mut columns = Vec::with_capacity(self.0.len());
        for Col { header, format, cell } in self.0 {
            heads.push(Head { text: header, format });
            columns.push((format, cell));
        }
        let shown = if heads.is_empty() { 0 } else { rows.len() };
        Sheet { name: name.into(), heads, rows: shown, cells: Box::new(OfRows { rows, columns }) }
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
            Self::Mean => stats.mean(),
            Self::Median => stats.median(),
            Self::Std => stats.std(),
            Self::Min => stats.min(),
            Self::Max => stats.max(),
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
