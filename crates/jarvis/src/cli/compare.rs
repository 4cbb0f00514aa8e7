//! `jarvis compare`: finished reports side by side, as a workbook and CSV files, then a one-screen summary.

mod inputs;
mod summary;

use std::path::{Path, PathBuf};

use clap::Args;
use jarvis_analyze::compare::reports::{
    CompareError, CompareOptions, Comparison, NamedReport, SHEET_GROUPS, SheetGroup, compare_tables,
};
use jarvis_perf::tables::Sheet;
use jarvis_report::render::csv;
use jarvis_trace::Fidelity;

use super::sheets::{Sheets, apart};
use super::strangers::{is_sheet, warn_of_strangers};
use super::{Failure, Session};
use crate::exit;
use crate::output::{self, Batch, OutputError};

/// Names of the outputs.
const WORKBOOK: &str = "comparison.xlsx";
const CSV_FOLDER: &str = "comparison_csvs";
/// Takes all groups of sheets.
const ALL: &str = "all";

#[derive(Debug, Args)]
#[command(after_help = "\
Reports are workbooks or folders of CSV files, of `jarvis report` or of the reference tool. The first is the baseline: \
differences are variant minus baseline, percentages of the baseline. Writes comparison.xlsx and comparison_csvs/.

Examples:
  jarvis compare before/analysis_output after/analysis_output -o out
  jarvis compare h100.xlsx mi300_csvs --names h100 mi300 --sheets gpu_timeline ops_summary
  jarvis compare a.xlsx b.xlsx c.xlsx -o three.xlsx --json
  jarvis compare a_csvs b_csvs --parity                    every number as the reference tool has it")]
pub(crate) struct CompareArgs {
    /// Reports: .xlsx files or folders of CSV files, the baseline first
    #[arg(value_name = "REPORT", required = true, num_args = 2..)]
    reports: Vec<PathBuf>,
    /// Names of the reports in columns and sheets, one each [default: from the file names]
    #[arg(long, value_name = "NAME", num_args = 1..)]
    names: Vec<String>,
    /// Groups of sheets: `gpu_timeline`, `ops_summary`, `kernel_summary`, `ops_all`, `roofline`, `all`
    #[arg(long, value_name = "GROUP", num_args = 1.., default_value = ALL, value_parser = sheet_group, hide_default_value = true)]
    sheets: Vec<Groups>,
    /// Every number, blank and quirk of the reference tool
    #[arg(long)]
    parity: bool,
    /// Output folder, or path of the workbook if it ends in .xlsx [default: the working folder]
    #[arg(long, short, value_name = "OUT")]
    output: Option<PathBuf>,
    /// Folder of the CSV files [default: beside the workbook]
    #[arg(long, value_name = "DIR", conflicts_with = "no_csv")]
    csv_dir: Option<PathBuf>,
    /// Write no workbook
    #[arg(long)]
    no_xlsx: bool,
    /// Write no CSV files
    #[arg(long)]
    no_csv: bool,
}

/// One group, or all.
#[derive(Debug, Clone)]
struct Groups(Vec<SheetGroup>);

fn sheet_group(text: &str) -> Result<Groups, String> {
    let known = SHEET_GROUPS.iter().filter(|(name, _)| text == *name || text == ALL).map(|g| g.1);
    let groups: Vec<SheetGroup> = known.collect();
    if groups.is_empty() {
        let names: Vec<&str> = SHEET_GROUPS.iter().map(|g| g.0).collect();
        return Err(format!("groups are {} and {ALL}", names.join(", ")));
    }
    Ok(Groups(groups))
}

/// Where the files go; `None` for what is not written.
struct Places {
    workbook: Option<PathBuf>,
    csv_folder: Option<PathBuf>,
}

impl Places {
    fn of(args: &CompareArgs) -> Self {
        let out = args.output.clone().unwrap_or_default();
        let (workbook, csv_folder) = match out.extension() {
            Some(extension) if extension.eq_ignore_ascii_case("xlsx") => {
                let stem = out.file_stem().unwrap_or_default().to_string_lossy().into_owned();
                let folder = out.with_file_name(format!("{stem}_csvs"));
                (out, folder)
            }
            _ => (out.join(WORKBOOK), out.join(CSV_FOLDER)),
        };
        Self {
            workbook: (!args.no_xlsx).then_some(workbook),
            csv_folder: (!args.no_csv).then(|| args.csv_dir.clone().unwrap_or(csv_folder)),
        }
    }

    fn probe(&self) -> Result<(), OutputError> {
        if let Some(workbook) = &self.workbook {
            output::probe_file(workbook)?;
        }
        self.csv_folder.as_deref().map_or(Ok(()), output::probe)
    }
}

pub(crate) fn run(session: &Session, args: &CompareArgs) -> Result<(), Failure> {
    let places = Places::of(args);
    let workbook = ("the workbook (-o)", places.workbook.as_deref());
    apart(&[workbook, ("the folder of the CSV files (--csv-dir)", places.csv_folder.as_deref())])?;
    places.probe()?;
    let tags = inputs::tags(&args.reports, &args.names, args.parity)?;
    let read = || args.reports.iter().map(|path| inputs::read(path)).collect::<Result<Vec<_>, _>>();
    let reports = session.stage("reading reports", read)?;
    let named: Vec<NamedReport<'_>> =
        tags.iter().zip(&reports).map(|(tag, tables)| NamedReport { tag, tables }).collect();
    let options = CompareOptions {
        fidelity: if args.parity { Fidelity::Reference } else { Fidelity::Correct },
        groups: args.sheets.iter().flat_map(|g| g.0.iter().copied()).collect(),
    };
    let comparison = session.stage("comparison", || compare_tables(&named, &options))?;
    let files = session.stage("files", || write(session, &comparison, &args.reports, &places, args.parity))?;
    for note in &comparison.notes {
        session.note(note);
    }
    let view =
        summary::View { tags: &tags, paths: &args.reports, comparison: &comparison, places: &places, files: &files };
    if session.common.json {
        session.print(format!("{:#}\n", view.json()).as_bytes())?;
    } else {
        session.print_text(&view.text())?;
    }
    Ok(())
}

/// Renders and writes the files; returns their paths.
fn write(
    session: &Session,
    comparison: &Comparison,
    inputs: &[PathBuf],
    places: &Places,
    parity: bool,
) -> Result<Vec<PathBuf>, Failure> {
    let mut batch = Batch::default();
    batch.spares(inputs.iter().map(PathBuf::as_path));
    let sheets = Sheets {
        all: &Sheet::of(&comparison.tables),
        hidden: &comparison.hidden,
        workbook: places.workbook.as_deref(),
        csv_folder: places.csv_folder.as_deref(),
        texts: if parity { csv::Texts::Exact } else { csv::Texts::Guarded },
    };
    sheets.add(session, &mut batch)?;
    let paths: Vec<PathBuf> = batch.paths().map(Path::to_path_buf).collect();
    batch.write()?;
    if let Some(folder) = &places.csv_folder {
        warn_of_strangers(session, folder, &paths, is_sheet);
    }
    Ok(paths)
}

impl From<CompareError> for Failure {
    fn from(error: CompareError) -> Self {
        let status = match error {
            CompareError::TooFew(_) | CompareError::SameTag(_) | CompareError::BadTag(_) => exit::USAGE,
            _ => exit::INPUT,
        };
        Self::new(status, error.to_string()).help(error.help())
    }
}
