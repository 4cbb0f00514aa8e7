//! Tables as files: a workbook and a folder of CSV files, for every command that writes tables.

use std::io::Cursor;
use std::path::Path;

use jarvis_perf::tables::Sheet;
use jarvis_report::OutputFile;
use jarvis_report::render::{TextRow, csv, xlsx};

use super::{Failure, Session};
use crate::exit;
use crate::output::{Batch, is_one_place};

/// Tables and where they go; `None` for what is not written.
pub(crate) struct Sheets<'a> {
    pub(crate) all: &'a [Sheet<'a>],
    /// Columns that the workbook hides, sheet by sheet; may be shorter than the sheets.
    pub(crate) hidden: &'a [Vec<bool>],
    pub(crate) workbook: Option<&'a Path>,
    pub(crate) csv_folder: Option<&'a Path>,
    /// Exact texts are the reference's, and so are the names of sheets then.
    pub(crate) texts: csv::Texts,
}

/// Refuses two outputs at one path: one of them would be lost.
pub(crate) fn apart(outputs: &[(&str, Option<&Path>)]) -> Result<(), Failure> {
    let outputs: Vec<(&str, &Path)> = outputs.iter().filter_map(|(name, path)| Some((*name, (*path)?))).collect();
    for (at, (name, path)) in outputs.iter().enumerate() {
        if let Some((other, _)) = outputs[..at].iter().find(|(_, other)| is_one_place(other, path)) {
            return Err(Failure::usage(format!("{}: {other} and {name} would go to one path", path.display()))
                .help("name another path for one of them"));
        }
    }
    Ok(())
}

impl Sheets<'_> {
    /// Adds the files to what is to be written.
    pub(crate) fn add(&self, session: &Session, batch: &mut Batch) -> Result<(), Failure> {
        let failed = |error: xlsx::XlsxError| Failure::new(exit::OUTPUT, error.to_string());
        let long = match self.texts {
            csv::Texts::Exact => xlsx::LongNames::Cut,
            csv::Texts::Guarded => xlsx::LongNames::Initials,
        };
        let begin = || xlsx::Workbook::begin(Cursor::new(Vec::new()), self.all, long);
        let mut workbook = self.workbook.map(|path| (path, begin()));
        let paths = csv::paths(self.all.iter().map(|sheet| &*sheet.name), "");
        let mut files = Vec::new();
        for ((at, sheet), path) in self.all.iter().enumerate().zip(paths) {
            let mut csv = self.csv_folder.map(|folder| (folder, csv::Writer::begin(Vec::new(), sheet, self.texts)));
            let mut cells = |row: &TextRow| csv.as_mut().map_or(Ok(()), |(_, csv)| csv.row(row).map(drop));
            match &mut workbook {
                Some((_, workbook)) => {
                    let hidden = self.hidden.get(at).map_or(&[][..], Vec::as_slice);
                    workbook.add(sheet, hidden, cells).map_err(|error| failed(error.into()))?;
                }
                None => (0..sheet.rows()).try_for_each(|row| cells(&TextRow::of(sheet, row)))?,
            }
            if let Some((folder, csv)) = csv {
                files.push((folder, OutputFile::new(path, csv.finish()?)));
            }
        }
        if let Some((path, workbook)) = workbook {
            let (file, cuts) = workbook.finish().map_err(failed)?;
            warn_of_cuts(session, cuts);
            batch.add_at(path.to_path_buf(), file.into_inner())?;
        }
        for (folder, file) in files {
            batch.add(folder, file)?;
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
