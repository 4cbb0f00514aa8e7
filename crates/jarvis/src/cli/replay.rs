//! `jarvis replay`: packages with which single operations can be run again without the model.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;
use jarvis_analyze::prepare::warnings::without_rate;
use jarvis_analyze::texts::counted;
use jarvis_perf::nearest::nearest;
use jarvis_perf::platform::Platform;
use jarvis_perf::roofline::lacks_matrix_rate;
use jarvis_perf::tables::{ReportOptions, build_report};
use jarvis_report::replay::{
    self, Candidate, Listed, Matching, Origin, Packages, ReplayError, Replayer, Row, Selection, Tier,
};
use jarvis_report::{Checksum, OutputFile};
use jarvis_trace::{Diagnostics, Summary, spelled};
use serde_json::{Value as Json, json};

use super::analyze::{FINDINGS, RUN_LOG, file_entry};
use super::layout::cut;
use super::platform_args::PlatformArgs;
use super::report::{FOLDER, unreportable};
use super::values::from_one;
use super::{Failure, Session, Work};
use crate::exit;
use crate::output::{self, Batch};

/// Where a finished report has the table that is read.
const TABLES: [&str; 3] = [
    "perf_report_csvs/unified_perf_summary.csv",
    "target_perf_report_csvs/unified_perf_summary.csv",
    "unified_perf_summary.csv",
];
/// Most characters of a call's arguments in a list.
const ARGS_WIDTH: usize = 90;

#[derive(Debug, Args)]
#[command(after_help = "\
Writes one zip per operation to analysis_output/replay_packages/ beside the trace: shapes, types and arguments of its \
slowest calls, a script that needs nothing but PyTorch, and the times to beat. docs/replay.md shows the whole way.

Examples:
  jarvis replay trace.json.gz --list                      what could be packaged, most time lost first
  jarvis replay trace.json.gz --op aten::mm
  jarvis replay trace.json.gz --op 'aten::*_backward' --op aten::bmm -o out
  jarvis replay analysis_output --op aten::mm             from the CSV files of a finished report")]
pub(crate) struct ReplayArgs {
    /// Trace file, `-` for standard input, or the folder of a finished report
    #[arg(value_name = "TRACE_OR_DIR")]
    source: PathBuf,
    /// Operation to package; `*` stands for any text (repeatable, or a list with commas)
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    op: Vec<String>,
    /// Show what could be packaged, most time lost to the roof first, and write nothing
    #[arg(long)]
    list: bool,
    /// Compare names whole or take any name that contains the text, capitals or not
    #[arg(long = "match", value_name = "HOW", value_enum, default_value_t = How::Whole)]
    matching: How,
    /// Leave out kernel names, the device's name and counts
    #[arg(long)]
    anonymous: bool,
    /// Most packages
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = from_one, allow_negative_numbers = true)]
    max_packages: usize,
    /// Most calls in a package
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = from_one, allow_negative_numbers = true)]
    max_entries: usize,
    /// Output folder [default: `analysis_output` beside the trace, or the folder of the report]
    #[arg(long, short, value_name = "DIR")]
    output: Option<PathBuf>,
    #[command(flatten)]
    platform: PlatformArgs,
}

/// How names of operations are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum How {
    Whole,
    Contains,
}

/// What is packaged, and where it comes from.
struct Source {
    rows: Vec<Row>,
    platform: Option<Platform>,
    device: Option<String>,
    /// Events of the trace, where they are known.
    events: Option<u64>,
    diagnostics: Diagnostics,
}

pub(crate) fn run(session: &Session, args: &ReplayArgs) -> Result<(), Failure> {
    let names: Vec<&str> = args.op.iter().map(|name| name.trim()).filter(|name| !name.is_empty()).collect();
    // A list of nothing is no wish for everything.
    if names.is_empty() && (!args.list || !args.op.is_empty()) {
        let what = if args.op.is_empty() { "no operation is named" } else { "--op has no name between its commas" };
        return Err(Failure::usage(what).help("add --op NAME, or --list to see what could be packaged"));
    }
    let root = args.output.clone().unwrap_or_else(|| usual_folder(&args.source));
    if !args.list {
        output::probe(&root)?;
    }
    let source = read(session, args)?;
    let names = if names.is_empty() { vec!["*"] } else { names };
    let mut selection = Selection::of(names, Tier::Requested);
    selection.matching = if args.matching == How::Contains { Matching::Contains } else { Matching::Whole };
    selection.anonymous = args.anonymous;
    (selection.most_packages, selection.most_entries) = (args.max_packages, args.max_entries);
    if let Some(told) = unrated(&source, &selection) {
        session.warn(&told);
    }
    let text = if args.list {
        listed(session, &replay::candidates(&source.rows, &selection))
    } else {
        spare_analysis(&root, &source)?;
        packaged(session, args, &source, &selection, &root)?
    };
    if session.common.json {
        session.print(text.as_bytes())?;
    } else {
        session.print_text(&text)?;
    }
    session.report(&args.source, &source.diagnostics)
}

/// Told of matrix work that the platform has no rate for. Tables of an earlier run may know more than the platform.
fn unrated(source: &Source, selection: &Selection) -> Option<String> {
    let platform = source.platform.as_ref()?;
    let is_meant = |row: &&Row| row.roofline_us.is_none() && selection.tier_of(&row.op).is_some();
    let work = source.rows.iter().filter(is_meant).filter_map(|row| {
        let spec = row.compute_spec.as_ref()?;
        lacks_matrix_rate(row.flops, Some(spec), platform).then(|| (Arc::clone(spec), row.kernel_us.sum / 1e3))
    });
    without_rate(platform, work)
}

fn usual_folder(source: &Path) -> PathBuf {
    if source.is_dir() {
        return source.to_path_buf();
    }
    let beside = if source == Path::new("-") { Path::new("") } else { source.parent().unwrap_or(Path::new("")) };
    beside.join(FOLDER)
}

fn read(session: &Session, args: &ReplayArgs) -> Result<Source, Failure> {
    if args.source.is_dir() {
        return read_folder(args);
    }
    let trace = session.open(&args.source, Work::Tables)?;
    let chosen = args.platform.choose(&trace)?;
    if let Some(doubt) = &chosen.doubt {
        session.warn(doubt);
    }
    let options = ReportOptions {
        platform: chosen.platform.clone(),
        kernel_summary: false,
        short_kernel_study: false,
        coll_analysis: false,
        ..ReportOptions::default()
    };
    let report = session.stage("tables", || build_report(&trace, &options));
    let report = report.map_err(|error| unreportable(&trace, error))?;
    Ok(Source {
        rows: replay::of_report(&trace, &report),
        platform: chosen.platform,
        device: trace.models_at_work().into_iter().map(|d| d.name).find(|name| !name.is_empty()),
        events: Some(Summary::of(&trace).events()),
        diagnostics: report.diagnostics,
    })
}

fn read_folder(args: &ReplayArgs) -> Result<Source, Failure> {
    let folder = &args.source;
    let table = TABLES.iter().map(|name| folder.join(name)).find(|path| path.is_file()).ok_or_else(|| {
        Failure::new(exit::INPUT, format!("{}: there is no unified_perf_summary.csv in this folder", folder.display()))
            .help("name a trace, or the output folder of `jarvis report`")
    })?;
    let failed = |error: &dyn std::fmt::Display| {
        Failure::new(exit::INPUT, format!("{}: {error}", table.display()))
            .help("make the report anew with `jarvis report`")
    };
    let bytes = std::fs::read(&table).map_err(|error| failed(&error))?;
    let timeline = std::fs::read(table.with_file_name("gpu_timeline.csv")).ok();
    let rows = replay::of_csv(&bytes, timeline.as_deref()).map_err(|error| failed(&error))?;
    let (recorded, device) = recorded(folder);
    let platform = match (args.platform.named()?, recorded) {
        (Some(named), _) => Some(named),
        (None, Some(recorded)) => Some(recorded.with_overrides(&args.platform.overrides())?),
        (None, None) => None,
    };
    Ok(Source { rows, platform, device, events: analysed_events(folder), diagnostics: Diagnostics::default() })
}

/// How many events the trace has that the analysis in a folder is of; none where there is no analysis.
fn analysed_events(folder: &Path) -> Option<u64> {
    let findings: Json = serde_json::from_slice(&std::fs::read(folder.join(FINDINGS)).ok()?).ok()?;
    findings["trace"]["events"].as_u64()
}

/// Refuses to put packages into an analysis of another trace: they would look like its own.
fn spare_analysis(root: &Path, source: &Source) -> Result<(), Failure> {
    match (analysed_events(root), source.events) {
        (Some(analysed), Some(events)) if analysed != events => Err(Failure::usage(format!(
            "{}: this folder holds an analysis of another trace",
            if root == Path::new("") { Path::new(".") } else { root }.display()
        ))
        .help("name another folder with -o DIR")),
        _ => Ok(()),
    }
}

/// The GPU and its figures as the metadata of a finished analysis has them; a report alone has none.
fn recorded(folder: &Path) -> (Option<Platform>, Option<String>) {
    let files = std::fs::read_dir(folder.join("metadata")).into_iter().flatten().flatten();
    let mut paths: Vec<PathBuf> = files.map(|file| file.path()).collect();
    paths.sort();
    let read = |path: &PathBuf| -> Option<Json> { serde_json::from_slice(&std::fs::read(path).ok()?).ok() };
    let Some(metadata) = paths.iter().filter_map(read).find(|json| json["platform"].is_string()) else {
        return (None, None);
    };
    let arch = json!({
        "name": metadata["platform"],
        "mem_bw_gbps": metadata["peak_hbm_bw_tbs"].as_f64().map(|tbs| tbs * 1e3),
        "max_achievable_tflops": metadata["max_achievable_tflops"],
    });
    (Platform::from_arch_json(&arch.to_string()).ok(), metadata["device_name"].as_str().map(str::to_owned))
}

fn packaged(
    session: &Session,
    args: &ReplayArgs,
    source: &Source,
    selection: &Selection,
    root: &Path,
) -> Result<String, Failure> {
    let origin = Origin { platform: source.platform.as_ref(), device_name: source.device.as_deref() };
    let made = replay::packages(&source.rows, selection, origin, &Replayer::new()?)?;
    if made.packages.is_empty() && made.skipped.len() == made.missed.len() {
        return Err(Failure::usage(format!(
            "{}: no operation is called {}",
            args.source.display(),
            args.op.join(" or ")
        ))
        .help(format!(
            "{}`jarvis replay TRACE --list` shows what there is; `*` stands for any text, --match contains for a part",
            meant(&args.op, &source.rows)
        )));
    }
    for name in &made.missed {
        let meant = meant(std::slice::from_ref(name), &source.rows);
        session
            .warn(&format!("no operation is called {name}: {meant}`jarvis replay TRACE --list` shows what there is"));
    }
    let index = made.index_with(&earlier(root, source, args.source.is_dir())?)?;
    let text = String::from_utf8_lossy(&index.bytes).into_owned();
    let files: Vec<OutputFile> = made.files.iter().cloned().chain([index]).collect();
    let mut batch = Batch::default();
    batch.spares([args.source.as_path()]);
    for file in relogged(root, &files).into_iter().chain(files) {
        batch.add(root, file)?;
    }
    batch.write()?;
    if session.common.json {
        return Ok(text);
    }
    Ok(summary(&made, &root.join(replay::FOLDER)))
}

/// What an earlier run packaged in the folder and is still there. Packages of another trace must not stand beside ours.
fn earlier(root: &Path, source: &Source, is_folder: bool) -> Result<Listed, Failure> {
    let folder = root.join(replay::FOLDER);
    let Ok(bytes) = std::fs::read(folder.join(replay::INDEX)) else { return Ok(Listed::default()) };
    let mut listed = Listed::read(&bytes).ok_or_else(|| {
        Failure::usage(format!("{}: not a list of packages", folder.join(replay::INDEX).display()))
            .help("name another folder with -o DIR, or remove this one")
    })?;
    listed.packages.retain(|p| Path::new(&p.package).file_name().is_some_and(|name| folder.join(name).is_file()));
    match listed.packages.iter().find(|p| !p.may_be_of(&source.rows, is_folder)) {
        Some(other) => Err(Failure::usage(format!(
            "{}: this is a package of another trace",
            folder.join(&other.package).display()
        ))
        .help("name another folder with -o DIR, or remove the packages that are there")),
        None => Ok(listed),
    }
}

/// The log of the analysis in the folder, if there is one, with these files as they are now.
fn relogged(root: &Path, files: &[OutputFile]) -> Option<OutputFile> {
    let mut log: Json = serde_json::from_slice(&std::fs::read(root.join(RUN_LOG)).ok()?).ok()?;
    let listed = log["files"].as_array_mut()?;
    for file in files {
        let path = file.path.to_string_lossy().replace('\\', "/");
        listed.retain(|known| known["path"] != *path);
        listed.push(file_entry(&path, file.bytes.len(), Checksum::of(&file.bytes)));
    }
    listed.sort_by(|a, b| a["path"].as_str().cmp(&b["path"].as_str()));
    Some(OutputFile::new(RUN_LOG, format!("{log:#}\n").into_bytes()))
}

/// An operation that may have been meant: one whose name contains what was asked for, or is near it.
fn meant(asked: &[String], rows: &[Row]) -> String {
    let names = || rows.iter().map(|row| &*row.op);
    let found = asked.iter().find_map(|asked| {
        let lower = asked.to_ascii_lowercase();
        let part = names().find(|name| !asked.is_empty() && name.to_ascii_lowercase().contains(&lower));
        part.or_else(|| nearest(asked, names()))
    });
    found.map_or(String::new(), |name| format!("did you mean {}? ", spelled(name)))
}

fn summary(made: &Packages, folder: &Path) -> String {
    let mut text = String::new();
    for package in &made.packages {
        let entries = format!("{} of {}", counted(package.calls, "call"), counted(package.entries, "shape"));
        let peak = package.efficiency_percent.map_or_else(String::new, |p| format!(", {p:.0} % of the roof"));
        let path = folder.join(&package.package);
        text.push_str(&format!("{}\n  {entries}, {:.2} ms{peak}\n", path.display(), package.time_ms));
    }
    if !made.skipped.is_empty() {
        text.push_str("not packaged:\n");
    }
    for skipped in &made.skipped {
        let args = cut(&skipped.args, ARGS_WIDTH);
        text.push_str(&format!(
            "  {:9.2} ms  {} ({args}): {}\n",
            skipped.time_ms,
            spelled(&skipped.op_name),
            spelled(&skipped.reason)
        ));
    }
    if !made.packages.is_empty() {
        text.push_str("Unpack one where PyTorch and the GPU are, and run `python3 replay.py` in it.\n");
    }
    text
}

fn listed(session: &Session, candidates: &[Candidate<'_>]) -> String {
    if session.common.json {
        let list: Vec<Json> = candidates.iter().map(candidate_json).collect();
        return format!("{:#}\n", Json::Array(list));
    }
    let mut text = format!("{:>9} {:>9} {:>7} {:>6}  operation\n", "lost ms", "time ms", "% roof", "calls");
    for candidate in candidates {
        let row = candidate.row;
        let lost = row.lost_us().map_or_else(|| "-".to_owned(), |us| format!("{:.3}", us / 1e3));
        let roof = row.efficiency_percent.map_or_else(|| "-".to_owned(), |p| format!("{p:.1}"));
        let what = candidate
            .refusal
            .as_ref()
            .map_or_else(|| cut(&candidate.args, ARGS_WIDTH), |reason| format!("no: {}", spelled(reason)));
        let op = cut(&row.op, ARGS_WIDTH);
        text.push_str(&format!(
            "{lost:>9} {:>9.3} {roof:>7} {:>6}  {op}  {what}\n",
            row.kernel_us.sum / 1e3,
            row.count
        ));
    }
    text
}

fn candidate_json(candidate: &Candidate<'_>) -> Json {
    let row = candidate.row;
    json!({
        "op_name": &*row.op,
        "args": candidate.args,
        "count": row.count,
        "time_ms": row.kernel_us.sum / 1e3,
        "lost_ms": row.lost_us().map(|us| us / 1e3),
        "efficiency_percent": row.efficiency_percent,
        "replayable": candidate.refusal.is_none(),
        "reason": candidate.refusal,
    })
}

impl From<ReplayError> for Failure {
    fn from(error: ReplayError) -> Self {
        Self::new(exit::OUTPUT, error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_finished_analysis_tells_its_gpu() {
        let folder = tempfile::tempdir().unwrap();
        let metadata = folder.path().join("metadata");
        std::fs::create_dir(&metadata).unwrap();
        assert_eq!(recorded(folder.path()).1, None);
        std::fs::write(metadata.join("a.json"), r#"{"model": "none"}"#).unwrap();
        let gemm = r#"{"platform": "H200", "device_name": "NVIDIA H200", "peak_hbm_bw_tbs": 4.8,
                       "max_achievable_tflops": {"matrix_bf16": 990.0}}"#;
        std::fs::write(metadata.join("gemm_metadata.json"), gemm).unwrap();
        let (platform, device) = recorded(folder.path());
        let platform = platform.unwrap();
        assert_eq!((&*platform.name, device.as_deref()), ("H200", Some("NVIDIA H200")));
        assert!((platform.mem_bw_gbps.value - 4800.0).abs() < 1e-9);
        assert!((platform.peak("matrix_bf16").unwrap().value - 990.0).abs() < 1e-9);
    }
}
