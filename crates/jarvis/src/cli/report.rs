//! `jarvis report`: the performance report as a workbook and CSV files, then a one-screen summary.

mod summary;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;
use jarvis_analyze::prepare::warnings::without_rate;
use jarvis_analyze::program::Program;
use jarvis_analyze::system::gaps::Gaps;
use jarvis_analyze::texts::counted;
use jarvis_perf::extension::Extension;
use jarvis_perf::platform::Platform;
use jarvis_perf::roofline::lacks_matrix_rate;
use jarvis_perf::tables::{Report, ReportError, ReportOptions, Sheet, UnifiedRow, build_report};
use jarvis_report::html;
use jarvis_report::render::csv;
use jarvis_trace::side_by_side::{self, Beside};
use jarvis_trace::{Defect, Fidelity, Summary, Trace};

use super::analyze::FINDINGS;
use super::info::thousands;
use super::layout::cut;
use super::platform_args::{Chosen, PlatformArgs};
use super::sheets::{Sheets, apart};
use super::strangers::{is_sheet, warn_of_strangers};
use super::values::{from_zero, whole};
use super::{Failure, Session, TraceArg, Work};
use crate::exit;
use crate::output::{self, Batch, OutputError};
use crate::pipeline::{CSV_FOLDER, WORKBOOK};

/// Folder of the outputs, beside the trace.
pub(crate) const FOLDER: &str = "analysis_output";
const PAGE: &str = jarvis_report::html::PAGE;
/// Extension file that is picked up beside a trace.
const EXTENSION: &str = "jarvis.toml";

#[derive(Debug, Args)]
#[command(after_help = "\
Writes analysis_output/report.html, perf_report.xlsx and perf_report_csvs/ beside the trace. Text cells of the CSV \
files that a spreadsheet would take for a formula get a ' before them; with --parity every cell is exact, and there is \
no page.

Examples:
  jarvis report trace.json.gz                                        platform taken from the trace
  jarvis report trace.json.gz --platform MI300X -o out
  jarvis report trace.json.gz --csv-dir csvs --no-xlsx --no-html     CSV files only
  jarvis report trace.json.gz --parity                               every number as the reference tool has it
  jarvis report trace.json.gz --extension my_ops.toml --include-call-stack --json")]
pub(crate) struct ReportArgs {
    #[command(flatten)]
    trace: TraceArg,
    /// Every number, blank and quirk of the reference tool
    #[arg(long)]
    parity: bool,
    /// File with models and categories of your own (jarvis.toml beside the trace is read by itself)
    #[arg(long, value_name = "FILE")]
    extension: Option<PathBuf>,
    #[command(flatten)]
    files: FileArgs,
    #[command(flatten)]
    platform: PlatformArgs,
    #[command(flatten)]
    sheets: SheetArgs,
    #[command(flatten)]
    columns: ColumnArgs,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Files")]
struct FileArgs {
    /// Output folder [default: `analysis_output` beside the trace]
    #[arg(long, short, value_name = "DIR")]
    output: Option<PathBuf>,
    /// Path of the workbook
    #[arg(long, value_name = "PATH", conflicts_with = "no_xlsx")]
    xlsx: Option<PathBuf>,
    /// Folder of the CSV files
    #[arg(long, value_name = "DIR", conflicts_with = "no_csv")]
    csv_dir: Option<PathBuf>,
    /// Write no workbook
    #[arg(long)]
    no_xlsx: bool,
    /// Write no CSV files
    #[arg(long)]
    no_csv: bool,
    /// Write no HTML page
    #[arg(long)]
    no_html: bool,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Sheets")]
#[expect(clippy::struct_excessive_bools, reason = "each is a switch of the command line")]
struct SheetArgs {
    /// The timeline also counts GPU work whose launch was not recorded
    #[arg(long)]
    include_unlinked_kernels: bool,
    /// Tell idle gaps shorter than this from the others
    #[arg(long, value_name = "N", value_parser = from_zero, allow_negative_numbers = true)]
    micro_idle_thresh_us: Option<f64>,
    /// No sheet of collectives
    #[arg(long)]
    disable_coll_analysis: bool,
    /// No sheet of kernels
    #[arg(long)]
    no_kernel_summary: bool,
    /// No sheets of short kernels
    #[arg(long)]
    no_short_kernel_study: bool,
    /// A kernel is short if it takes less than this
    #[arg(long, value_name = "N", default_value = "10", value_parser = from_zero, allow_negative_numbers = true)]
    short_kernel_threshold_us: f64,
    /// Bins of the histogram of short kernels
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=100_000), allow_negative_numbers = true)]
    short_kernel_histogram_bins: u32,
    /// Most rows of the sheet of short kernels
    #[arg(long, value_name = "N", value_parser = whole, allow_negative_numbers = true)]
    topk_short_kernels: Option<usize>,
    /// Most rows of `ops_summary`, `ops_unique_args` and `unified_perf_summary`
    #[arg(long, value_name = "N", value_parser = whole, allow_negative_numbers = true)]
    topk_ops: Option<usize>,
    /// Most rows of each sheet of one category
    #[arg(long, value_name = "N", value_parser = whole, allow_negative_numbers = true)]
    topk_roofline_ops: Option<usize>,
    /// Add the sheets of kernels that run at the same time as others
    #[arg(long)]
    include_overlap_info: bool,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Columns")]
#[expect(clippy::struct_excessive_bools, reason = "each is a switch of the command line")]
struct ColumnArgs {
    /// Keep calls apart that launch different numbers of kernels
    #[arg(long)]
    group_by_num_kernels: bool,
    /// Tell recomputed work apart (needs Python stacks in the trace)
    #[arg(long)]
    detect_recompute: bool,
    /// Show when each call was first made
    #[arg(long)]
    include_first_occurrence_time: bool,
    /// Show where in the program each call was made (needs Python stacks in the trace)
    #[arg(long)]
    include_call_stack: bool,
}

impl ReportArgs {
    /// Under parity nothing is written that the reference does not have.
    fn has_page(&self) -> bool {
        !self.files.no_html && !self.parity
    }

    fn options(&self, chosen: &Chosen, extension: Option<Extension>) -> ReportOptions {
        let (sheets, columns) = (&self.sheets, &self.columns);
        ReportOptions {
            fidelity: if self.parity { Fidelity::Reference } else { Fidelity::Correct },
            platform: chosen.platform.clone(),
            extension,
            include_unlinked: sheets.include_unlinked_kernels,
            micro_idle_us: sheets.micro_idle_thresh_us,
            coll_analysis: !sheets.disable_coll_analysis,
            kernel_summary: !sheets.no_kernel_summary,
            short_kernel_study: !sheets.no_short_kernel_study,
            short_kernel_threshold_us: sheets.short_kernel_threshold_us,
            short_kernel_bins: sheets.short_kernel_histogram_bins as usize,
            topk_short_kernels: sheets.topk_short_kernels,
            topk_ops: sheets.topk_ops,
            topk_roofline_ops: sheets.topk_roofline_ops,
            group_by_num_kernels: columns.group_by_num_kernels,
            include_overlap: sheets.include_overlap_info,
            detect_recompute: columns.detect_recompute,
            first_occurrence: columns.include_first_occurrence_time,
            call_stack: columns.include_call_stack,
            // The page shows modules.
            frames: self.has_page(),
        }
    }
}

/// Where the files go; `None` for what is not written.
struct Places {
    /// Where what has no name of its own goes.
    root: PathBuf,
    /// Files that results are made of, which must stay as they are.
    inputs: Vec<PathBuf>,
    page: Option<PathBuf>,
    workbook: Option<PathBuf>,
    csv_folder: Option<PathBuf>,
}

impl Places {
    fn of(args: &ReportArgs) -> Self {
        let (trace, files) = (&args.trace.trace, &args.files);
        let root = files.output.clone().unwrap_or_else(|| beside(trace).join(FOLDER));
        let place = |wanted: bool, named: &Option<PathBuf>, usual: &str| {
            wanted.then(|| named.clone().unwrap_or_else(|| root.join(usual)))
        };
        let inputs = std::iter::once(trace).chain(&args.extension).chain(&args.platform.arch).cloned();
        let page = place(args.has_page(), &None, PAGE);
        let workbook = place(!files.no_xlsx, &files.xlsx, WORKBOOK);
        let csv_folder = place(!files.no_csv, &files.csv_dir, CSV_FOLDER);
        Self { inputs: inputs.collect(), page, workbook, csv_folder, root }
    }

    /// Refuses to replace files of an analysis: they would be of other options, or of another trace. Files that the user
    /// gives names of their own are not among them.
    fn spare_analysis(&self) -> Result<(), Failure> {
        let is_owned = |place: &&PathBuf| [PAGE, WORKBOOK, CSV_FOLDER].iter().any(|name| place.ends_with(name));
        let places = self.page.iter().chain(&self.workbook).chain(&self.csv_folder).filter(is_owned);
        let mut folders = places.map(|place| place.parent().unwrap_or(Path::new("")));
        let Some(folder) = folders.find(|folder| folder.join(FINDINGS).is_file()) else { return Ok(()) };
        let folder = if folder == Path::new("") { Path::new(".") } else { folder };
        Err(Failure::usage(format!("{}: this folder holds an analysis, which a report would damage", folder.display()))
            .help("name another folder with -o DIR; the analysis has the same tables in perf_report_csvs/"))
    }

    /// Fails early, before the work is done, where nothing could be written.
    fn probe(&self) -> Result<(), OutputError> {
        for file in self.page.iter().chain(&self.workbook) {
            output::probe_file(file)?;
        }
        self.csv_folder.as_deref().map_or(Ok(()), output::probe)
    }
}

/// The folder of the trace; the working folder for standard input.
pub(crate) fn beside(trace: &Path) -> &Path {
    if trace == Path::new("-") { Path::new("") } else { trace.parent().unwrap_or(Path::new("")) }
}

pub(crate) fn run(session: &Session, args: &ReportArgs) -> Result<(), Failure> {
    let path = &args.trace.trace;
    let places = Places::of(args);
    apart(&[
        ("the page", places.page.as_deref()),
        ("the workbook (--xlsx)", places.workbook.as_deref()),
        ("the folder of the CSV files (--csv-dir)", places.csv_folder.as_deref()),
    ])?;
    places.spare_analysis()?;
    places.probe()?;
    let extension = extension(session, path, args.extension.as_deref(), args.parity)?;
    let named = args.platform.named()?;
    let trace = session.open(path, Work::Tables)?;
    // The reference has no roofline unless a platform is named.
    let chosen = if args.parity { Chosen::named(named) } else { args.platform.choose(&trace)? };
    if let Some(doubt) = &chosen.doubt {
        session.warn(doubt);
    }
    let report = session.stage("tables", || build_report(&trace, &args.options(&chosen, extension)));
    let report = report.map_err(|error| unreportable(&trace, error))?;
    let sheets = report.sheets();
    let files = std::thread::scope(|scope| {
        // The page and the sheets have nothing to do with each other.
        let made = || page(&trace, &report, chosen.platform.as_ref(), args);
        let page = places.page.as_ref().map(|_| side_by_side::beside(scope, made));
        let page = || page.map(Beside::joined);
        session.stage("files", || write(session, &sheets, &places, page, args.parity))
    })?;
    warn_of_gaps(session, &report);
    if !args.parity {
        warn_of_rates(session, &report);
        if let Some(told) = chosen.platform.as_ref().and_then(|platform| unrated(platform, &report)) {
            session.warn(&told);
        }
    }
    let view = summary::View {
        path,
        trace: &trace,
        report: &report,
        efficiency: if args.parity { |row| row.pct_roofline.mean() } else { UnifiedRow::efficiency_percent },
        // The reference tells of one timeline alone.
        gpus: if args.parity { &[] } else { &report.rows.devices },
        sheets: &sheets,
        platform: chosen.platform.as_ref(),
        places: &places,
        files: &files,
    };
    if session.common.json {
        session.print(format!("{:#}\n", view.json()).as_bytes())?;
    } else {
        session.print_text(&view.text())?;
    }
    session.report(path, &report.diagnostics)
}

/// The user's own models: those beside the trace, overlaid by those named. The file beside the trace would change the
/// reference's numbers unasked, so it does not count under parity.
pub(crate) fn extension(
    session: &Session,
    trace: &Path,
    named: Option<&Path>,
    parity: bool,
) -> Result<Option<Extension>, Failure> {
    let parse = |path: &Path, text: String| -> Result<Extension, Failure> {
        Extension::parse(&text, &path.display().to_string()).map_err(|error| {
            let help = error.help().unwrap_or("docs/extensions.md explains the file").to_owned();
            Failure::usage(error.to_string()).help(help)
        })
    };
    let found = beside(trace).join(EXTENSION);
    let mut extension = match found.is_file() {
        true if parity => {
            session.note(&format!("{} is left out under --parity; name it with --extension", found.display()));
            None
        }
        true => Some(parse(&found, super::read_file(&found)?)?),
        false => None,
    };
    if let Some(path) = named {
        extension.get_or_insert_default().overlay(parse(path, super::read_text(path)?)?);
    }
    Ok(extension)
}

/// The page of a report.
fn page(trace: &Trace, report: &Report, platform: Option<&Platform>, args: &ReportArgs) -> Vec<u8> {
    let population = report.population();
    let summary = Summary::of(trace);
    let program = Program::of(trace, &report.tree, &summary, &report.arg_lists).with_rows(&report.rows.unified);
    let gaps = Gaps::of_trace(trace, &report.tree, population);
    let source = html::Source {
        report,
        summary: &summary,
        trace_path: &args.trace.trace.to_string_lossy(),
        title: None,
        platform,
        program: &program,
        gaps: gaps.as_ref(),
        population,
        prepared: None,
        run: None,
    };
    html::page(source, trace, &[])
}

/// Renders and writes the files; returns their paths.
fn write(
    session: &Session,
    sheets: &[Sheet<'_>],
    places: &Places,
    page: impl FnOnce() -> Option<Vec<u8>>,
    parity: bool,
) -> Result<Vec<PathBuf>, Failure> {
    let mut batch = Batch::default();
    batch.spares(places.inputs.iter().map(PathBuf::as_path));
    let sheets = Sheets {
        all: sheets,
        hidden: &[],
        workbook: places.workbook.as_deref(),
        csv_folder: places.csv_folder.as_deref(),
        texts: if parity { csv::Texts::Exact } else { csv::Texts::Guarded },
    };
    sheets.add(session, &mut batch)?;
    if let Some((path, page)) = places.page.as_ref().zip(page()) {
        batch.add_at(path.clone(), page)?;
    }
    let paths: Vec<PathBuf> = batch.paths().map(Path::to_path_buf).collect();
    batch.write()?;
    if let Some(folder) = &places.csv_folder {
        warn_of_strangers(session, folder, &paths, is_sheet);
    }
    warn_of_strangers(session, &places.root, &paths, |name| [PAGE, WORKBOOK].contains(&name));
    Ok(paths)
}

/// Tells what the sheets leave out.
fn warn_of_gaps(session: &Session, report: &Report) {
    let (count, us) = report.rows.unlinked;
    if count > 0 {
        let events = counted(thousands(count as u64), "GPU event");
        let recorded = report.diagnostics.count(Defect::UnlinkedGpuEvent) == count as u64;
        let launch = if recorded { "recorded" } else { "known" };
        session.note(&format!(
            "{events} ({:.2} ms) without a {launch} launch: in the sheets of kernels, not in those of operations",
            us / 1e3
        ));
    }
}

/// Characters of a name in a note.
const NOTED: usize = 60;

/// Tells of efficiencies that no hardware can have.
fn warn_of_rates(session: &Session, report: &Report) {
    let rated = report.rows.unified.rows.iter().filter_map(|row| Some((row, row.efficiency_percent()?)));
    let above: Vec<_> = rated.filter(|(_, percent)| *percent > 100.0).collect();
    let Some((row, percent)) = above.iter().max_by(|a, b| a.1.total_cmp(&b.1)) else { return };
    let others = match above.len() - 1 {
        0 => String::new(),
        1 => ", and one more row is above 100%".to_owned(),
        n => format!(", and {n} more rows are above 100%"),
    };
    session.note(&format!(
        "{} (UID {}) reaches {percent:.1}% of peak{others}: verify the measurement",
        cut(&row.identity.name, NOTED),
        row.ex_uid
    ));
}

/// Told of matrix work that the platform has no rate for.
fn unrated(platform: &Platform, report: &Report) -> Option<String> {
    let work = report.rows.unified.rows.iter().filter_map(|row| {
        let model = row.model.as_ref()?;
        let spec = model.compute_spec.as_ref()?;
        lacks_matrix_rate(model.gflops, Some(spec), platform).then(|| (Arc::clone(spec), row.kernel_us.sum / 1e3))
    });
    without_rate(platform, work)
}

/// Why there is nothing to report of a trace. One that can't be unpacked to its end is not merely cut off.
pub(crate) fn unreportable(trace: &Trace, error: ReportError) -> Failure {
    let is_damaged = matches!(error, ReportError::Cut { .. }) && trace.diagnostics().count(Defect::GzipCorrupt) > 0;
    let mut failure = Failure::from(error);
    if is_damaged {
        failure.cause = Some("the gzip stream is damaged there, and what follows can't be unpacked".to_owned());
        failure = failure.help("copy the file again and compare checksums; else record anew");
    }
    failure
}

impl From<ReportError> for Failure {
    fn from(error: ReportError) -> Self {
        Self::new(exit::INPUT, error.to_string()).help(error.help())
    }
}

impl From<OutputError> for Failure {
    fn from(error: OutputError) -> Self {
        let status = if matches!(error, OutputError::Twice { .. }) { exit::USAGE } else { exit::OUTPUT };
        Self::new(status, error.to_string()).help(error.help())
    }
}
