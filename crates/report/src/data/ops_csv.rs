//! `<category>_ops.csv`: the rows of `unified_perf_summary` that belong to a category, with what the analysis adds.
//!
//! They are written beside that sheet: a record of it begins one of these, and to make it twice took as long as all other
//! files of a category.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use jarvis_analyze::prepared::{BoundType, Category, Prepared, Row};
use jarvis_analyze::rounding::round;
use jarvis_perf::tables::{Cell, Sheet};

use super::{CATEGORY_DATA, Stems};
use crate::render::TextRow;
use crate::render::csv::{Field, Records, Texts};

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
#[derive(Debug, Clone, Copy)]
pub struct OpsCsv<'a> {
    prepared: &'a Prepared,
    stems: &'a Stems,
}

impl<'a> OpsCsv<'a> {
    /// The sheet they are written beside.
    pub const SHEET: &'static str = "unified_perf_summary";

    /// Of the categories of an analysis.
    pub fn of(prepared: &'a Prepared, stems: &'a Stems) -> Self {
        Self { prepared, stems }
    }

    /// Their paths.
    pub fn paths(self) -> impl Iterator<Item = PathBuf> + 'a {
        self.prepared.categories.iter().map(move |category| self.path(category))
    }

    fn path(self, category: &Category) -> PathBuf {
        format!("{CATEGORY_DATA}/{}_ops.csv", self.stems.get(&category.key)).into()
    }

    /// Begins all of them.
    pub fn begin<W: Write>(self, sheet: &Sheet<'_>, mut begin: impl FnMut(&Path) -> W) -> OpsFiles<'a, W> {
        let mut files = Vec::with_capacity(self.prepared.categories.len());
        let mut places = vec![None; self.prepared.rows.len()];
        for category in &self.prepared.categories {
            let mut records = Records::new(Texts::Guarded);
            let heads = sheet.heads().iter().map(|head| &*head.text);
            records.header(heads.chain(ADDED.map(|(header, _)| header)));
            for id in &category.rows {
                places[id.index()] = Some(files.len());
            }
            files.push(OpsFile { category, records, out: begin(&self.path(category)) });
        }
        OpsFiles { prepared: self.prepared, floats: sheet.shows_floats(), places, files, row: 0 }
    }
}

/// They are being written: each gets its rows in the order of the sheet, which is that of their times.
#[derive(Debug)]
pub struct OpsFiles<'a, W> {
    prepared: &'a Prepared,
    /// A category's whole numbers read as those of the whole sheet do.
    floats: Vec<bool>,
    /// For each row the file it belongs to.
    places: Vec<Option<usize>>,
    files: Vec<OpsFile<'a, W>>,
    /// The next one.
    row: usize,
}

#[derive(Debug)]
struct OpsFile<'a, W> {
    category: &'a Category,
    records: Records,
    out: W,
}

impl<W: Write> OpsFiles<'_, W> {
    /// The next row of the sheet, and as it is written there.
    pub fn row(&mut self, of_sheet: &TextRow, record: &str) -> io::Result<()> {
        let at = self.row;
        self.row += 1;
        let Some(place) = self.places.get(at).copied().flatten() else { return Ok(()) };
        let OpsFile { category, records, out } = &mut self.files[place];
        let row = &self.prepared.rows[at];
        let added = ADDED.iter().map(|(_, cell)| Field::of(cell(row, category), false));
        let cells = of_sheet.cells();
        if cells.iter().all(is_finite) {
            records.extended(record, added);
        } else {
            let known = cells.iter().zip(&self.floats);
            let known = known.map(|(cell, &floats)| Field::of(finite(cell.clone()), floats));
            records.record(known.chain(added));
        }
        records.pass_on(out)
    }

    /// All rows were written: the files.
    pub fn finish(self) -> io::Result<Vec<W>> {
        let finished = |mut file: OpsFile<'_, W>| {
            file.records.flush(&mut file.out)?;
            Ok(file.out)
        };
        self.files.into_iter().map(finished).collect()
    }
}

/// Nothing that is no number counts as one.
fn finite(cell: Cell) -> Cell {
    if is_finite(&cell) { cell } else { Cell::Missing }
}

fn is_finite(cell: &Cell) -> bool {
    !matches!(cell, Cell::Float(x) if !x.is_finite())
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
