//! Tables as a workbook: one sheet a table, in the order given.
//!
//! Texts are stored as texts, so nothing a trace contains can become a formula. A missing number is a blank cell, an
//! infinite one the text `inf`. The same tables give the same bytes: the creation time is fixed.
//!
//! What a workbook can't hold is cut and counted in [`Cuts`]: the CSV files have it all.
//!
//! Sheets are written straight into the file, row by row, and short texts are kept once: beside these a workbook takes
//! next to no memory. A library that can do charts and formulas keeps every cell, or a file on
//! disk for every sheet, and was a fifth of all instructions of `analyze` on 100 MB.

mod archive;
mod parts;
mod sheet;
mod texts;

use std::io::{self, Cursor};
use std::ops::AddAssign;

use jarvis_perf::tables::{Sheet, Table};
use zip::result::ZipError;

pub use super::names::LongNames;
use crate::render::{TextRow, names};
use archive::Archive;
pub use archive::Target;
use texts::Texts;

/// Longest name of a sheet, in UTF-16 units.
const NAME_LIMIT: usize = 31;
/// Characters a sheet's name can't have; of the apostrophe only its first and last place are forbidden.
const NOT_IN_NAMES: &[char] = &['*', '?', ':', '[', ']', '\\', '/', '\''];

/// What did not fit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Cuts {
    /// Texts longer than a cell can be.
    pub texts: usize,
    /// Rows beyond the last a sheet can have.
    pub rows: usize,
    /// Columns beyond the last a sheet can have.
    pub columns: usize,
}

impl Cuts {
    /// Whether everything is there.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

impl AddAssign for Cuts {
    fn add_assign(&mut self, other: Self) {
        self.texts += other.texts;
        self.rows += other.rows;
        self.columns += other.columns;
    }
}

/// A finished workbook.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rendered {
    /// The file.
    pub bytes: Vec<u8>,
    /// What did not fit.
    pub cuts: Cuts,
}

/// The workbook could not be made.
#[derive(Debug, thiserror::Error)]
#[error("the workbook could not be made: {0}")]
pub struct XlsxError(#[from] ZipError);

impl From<io::Error> for XlsxError {
    fn from(error: io::Error) -> Self {
        Self(error.into())
    }
}

impl XlsxError {
    /// What the system said, if it did.
    pub fn io(self) -> Result<io::Error, Self> {
        match self.0 {
            ZipError::Io(error) => Ok(error),
            other => Err(Self(other)),
        }
    }
}

/// A workbook of these tables. Without tables it has one empty sheet, since a workbook must have one.
pub fn render(tables: &[Table]) -> Result<Rendered, XlsxError> {
    render_hiding(tables, &[])
}

/// The same with some columns hidden: for each table, whether each column is; what is not said is shown.
pub fn render_hiding(tables: &[Table], hidden: &[Vec<bool>]) -> Result<Rendered, XlsxError> {
    let sheets = Sheet::of(tables);
    let mut workbook = Workbook::begin(Cursor::new(Vec::new()), &sheets, LongNames::default());
    for (at, sheet) in sheets.iter().enumerate() {
        workbook.add(sheet, hidden.get(at).map_or(&[], Vec::as_slice), |_| Ok(()))?;
    }
    let (file, cuts) = workbook.finish()?;
    Ok(Rendered { bytes: file.into_inner(), cuts })
}

/// A workbook on its way into a file.
#[derive(Debug)]
pub struct Workbook<W> {
    archive: Archive<W>,
    texts: Texts,
    cuts: Cuts,
    /// Sheets that were added.
    added: usize,
}

impl<W: Target> Workbook<W> {
    /// Begins a workbook of these sheets. Each is to be added, in this order.
    pub fn begin(out: W, sheets: &[Sheet<'_>], long: LongNames) -> Self {
        let all = sheets.iter().map(|sheet| &*sheet.name).chain(sheets.is_empty().then_some("empty"));
        let names = names::unique(all, NAME_LIMIT, NOT_IN_NAMES, long);
        let archive = Archive::begin(out);
        archive.part("[Content_Types].xml", parts::content_types(names.len()));
        archive.part("_rels/.rels", parts::RELATIONS.to_owned());
        archive.part("docProps/app.xml", parts::app(&names));
        archive.part("docProps/core.xml", parts::CORE.to_owned());
        archive.part("xl/workbook.xml", parts::workbook(&names, sheets));
        archive.part("xl/_rels/workbook.xml.rels", parts::workbook_relations(names.len()));
        archive.part("xl/styles.xml", parts::STYLES.to_owned());
        Self { archive, texts: Texts::default(), cuts: Cuts::default(), added: 0 }
    }

    /// Adds the next sheet with some columns hidden, as [`render_hiding`] does. Each row is shown to `each` too: who
    /// writes the same sheet elsewhere need not make it again.
    pub fn add(
        &mut self,
        sheet: &Sheet<'_>,
        hidden: &[bool],
        each: impl FnMut(&TextRow) -> io::Result<()>,
    ) -> io::Result<()> {
        self.added += 1;
        self.archive.start(&format!("xl/worksheets/sheet{}.xml", self.added));
        self.cuts += sheet::write(&self.archive, sheet, hidden, self.added == 1, &mut self.texts, each)?;
        Ok(())
    }

    /// All sheets were added: the file, and what it could not hold.
    pub fn finish(mut self) -> Result<(W, Cuts), XlsxError> {
        if self.added == 0 {
            let empty = Table { name: String::new(), columns: Vec::new() };
            self.add(&Sheet::from(&empty), &[], |_| Ok(()))?;
        }
        self.archive.start("xl/sharedStrings.xml");
        self.texts.write(&self.archive);
        Ok((self.archive.finish()?, self.cuts))
    }
}
