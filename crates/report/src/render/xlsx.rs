//! Tables as a workbook: one sheet a table, in the order given.
//!
//! Texts are stored as texts, so nothing a trace contains can become a formula. A missing number is a blank cell, an
//! infinite one the text `inf`. The same tables give the same bytes: the creation time is fixed.
//!
//! What a workbook can't hold is cut and counted in [`Cuts`]: the CSV files have it all.
//!
//! Sheets are written straight into the archive, row by row, and texts are shared with the tables: beside the finished
//! file a workbook takes next to no memory. A library that can do charts and formulas keeps every cell, or a file on
//! disk for every sheet, and was a fifth of all instructions of `analyze` on 100 MB.

mod parts;
mod sheet;
mod texts;

use std::io::{Cursor, Write};
use std::ops::AddAssign;

use jarvis_perf::tables::Table;
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, DateTime, ZipWriter};

use crate::render::names;
use texts::Texts;

/// Longest name of a sheet, in UTF-16 units.
const NAME_LIMIT: usize = 31;
/// Characters a sheet's name can't have; of the apostrophe only its first and last place are forbidden.
const NOT_IN_NAMES: &[char] = &['*', '?', ':', '[', ']', '\\', '/', '\''];
/// Deflate level: the quickest one. The next one takes a quarter more instructions for a file a fifth smaller.
const LEVEL: i64 = 1;
/// A part of fewer bytes is stored as it is: to set up the packing costs more than the packing.
const PACKED_FROM: usize = 4 << 10;

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
pub struct XlsxError(#[from] zip::result::ZipError);

impl From<std::io::Error> for XlsxError {
    fn from(error: std::io::Error) -> Self {
        Self(error.into())
    }
}

/// A workbook of these tables. Without tables it has one empty sheet, since a workbook must have one.
pub fn render(tables: &[Table]) -> Result<Rendered, XlsxError> {
    render_hiding(tables, &[])
}

/// The same with some columns hidden: for each table, whether each column is; what is not said is shown.
pub fn render_hiding(tables: &[Table], hidden: &[Vec<bool>]) -> Result<Rendered, XlsxError> {
    let empty = [Table { name: "empty".to_owned(), columns: Vec::new() }];
    let tables = if tables.is_empty() { &empty } else { tables };
    let names = names::unique(tables.iter().map(|t| t.name.as_str()), NAME_LIMIT, NOT_IN_NAMES);
    let mut archive = Archive::new();
    archive.part("[Content_Types].xml", &parts::content_types(tables.len()))?;
    archive.part("_rels/.rels", parts::RELATIONS)?;
    archive.part("docProps/app.xml", &parts::app(&names))?;
    archive.part("docProps/core.xml", parts::CORE)?;
    archive.part("xl/workbook.xml", &parts::workbook(&names, tables))?;
    archive.part("xl/_rels/workbook.xml.rels", &parts::workbook_relations(tables.len()))?;
    archive.part("xl/styles.xml", parts::STYLES)?;
    let mut texts = Texts::default();
    let mut cuts = Cuts::default();
    for (at, table) in tables.iter().enumerate() {
        archive.start(&format!("xl/worksheets/sheet{}.xml", at + 1))?;
        let hidden = hidden.get(at).map_or(&[][..], Vec::as_slice);
        cuts += sheet::write(&mut archive.0, table, hidden, at == 0, &mut texts)?;
    }
    archive.start("xl/sharedStrings.xml")?;
    texts.write(&mut archive.0)?;
    Ok(Rendered { bytes: archive.0.finish()?.into_inner(), cuts })
}

/// The file under construction.
struct Archive(ZipWriter<Cursor<Vec<u8>>>);

impl Archive {
    fn new() -> Self {
        Self(ZipWriter::new(Cursor::new(Vec::new())))
    }

    /// A part of unknown length begins.
    fn start(&mut self, name: &str) -> Result<(), XlsxError> {
        let packed = CompressionMethod::Deflated;
        Ok(self.0.start_file(name, Self::options().compression_method(packed).compression_level(Some(LEVEL)))?)
    }

    fn part(&mut self, name: &str, text: &str) -> Result<(), XlsxError> {
        if text.len() < PACKED_FROM {
            self.0.start_file(name, Self::options().compression_method(CompressionMethod::Stored))?;
        } else {
            self.start(name)?;
        }
        Ok(self.0.write_all(text.as_bytes())?)
    }

    fn options() -> SimpleFileOptions {
        SimpleFileOptions::default().last_modified_time(DateTime::default())
    }
}
