//! Tables as files: a workbook and a folder of CSV files, for every command that writes tables.

use std::path::Path;

use jarvis_perf::tables::Table;
use jarvis_report::render::{csv, xlsx};

use super::{Failure, Session};
use crate::exit;
use crate::output::Batch;

/// Tables and where they go; `None` for what is not written.
pub(crate) struct Sheets<'a> {
    pub(crate) tables: &'a [Table],
    /// Columns that the workbook hides, table by table; may be shorter than the tables.
    pub(crate) hidden: &'a [Vec<bool>],
    pub(crate) workbook: Option<&'a Path>,
    pub(crate) csv_folder: Option<&'a Path>,
    pub(crate) texts: csv::Texts,
}

impl Sheets<'_> {
    /// Adds the files to what is to be written.
    pub(crate) fn add(&self, session: &Session, batch: &mut Batch) -> Result<(), Failure> {
        if let Some(path) = self.workbook {
            let rendered = xlsx::render_hiding(self.tables, self.hidden)
                .map_err(|error| Failure::new(exit::OUTPUT, error.to_string()))?;
            warn_of_cuts(session, rendered.cuts);
            batch.add_at(path.to_path_buf(), rendered.bytes);
        }
        if let Some(folder) = self.csv_folder {
            for file in csv::files(self.tables, "", self.texts) {
                batch.add(folder, file)?;
            }
        }
        Ok(())
    }
}

/// Tells what a workbook could not hold.
pub(crate) fn warn_of_cuts(session: &Session, cuts: xlsx::Cuts) {
    if !cuts.is_empty() {
        let xlsx::Cuts { texts, rows, columns } = cuts;
        session.warn(&format!(
            "a workbook can't hold {texts} long texts, {rows} rows and {columns} columns in full: the CSV files do"
        ));
    }
}
