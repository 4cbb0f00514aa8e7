//! `jarvis diff`: two traces by their call trees. One screen, and files on request.

mod summary;

use std::path::{Path, PathBuf};

use clap::Args;
use jarvis_analyze::compare::tree::op_map::{self, Renames};
use jarvis_analyze::compare::tree::tables::{self, RowTexts, SummaryKeys};
use jarvis_analyze::compare::tree::{
    DiffRows, LcaGroup, LcaRow, MergedTree, Totals, Which, lca_groups, lca_summary, merge,
};
use jarvis_analyze::texts::counted;
use jarvis_perf::tables::{ReportError, ReportOptions, Table, tree_options};
use jarvis_report::OutputFile;
use jarvis_report::render::merged_tree::{self, Roots};
use jarvis_report::render::{csv, op_map as op_map_json};
use jarvis_trace::{EventId, EventKind, Fidelity, Ns, Step, Trace, Tree, TreeView};

use super::report::unreportable;
use super::strangers::warn_of_strangers;
use super::values::whole;
use super::{Failure, Session, Work};
use crate::exit;
use crate::output::{self, Batch};

#[derive(Debug, Args)]
#[command(after_help = "\
Calls of both traces are paired by name, arguments and the work below them; launch calls of both vendors count as the \
same. What differs is charged to the lowest call that both traces made. Times are of the GPU.

Examples:
  jarvis diff before.json.gz after.json.gz
  jarvis diff h100.json.gz mi300.json.gz -o out            merged tree, tables, kernels by operation
  jarvis diff a.json.gz b.json.gz --json
  jarvis diff a.json.gz b.json.gz -o out --parity          files as the reference tool writes them")]
pub(crate) struct DiffArgs {
    /// The baseline
    #[arg(value_name = "TRACE1")]
    one: PathBuf,
    /// The trace to compare with it; `-` for standard input
    #[arg(value_name = "TRACE2")]
    two: PathBuf,
    /// Write the merged tree and the tables into this folder
    #[arg(long, short, value_name = "DIR")]
    output: Option<PathBuf>,
    /// Python frames and modules are calls too (needs Python stacks in the traces)
    #[arg(long)]
    python: bool,
    /// Every number, blank and quirk of the reference tool
    #[arg(long)]
    parity: bool,
    /// Rows to show
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = whole, allow_negative_numbers = true)]
    limit: usize,
}

/// The comparison of two traces.
struct Diff<'a> {
    views: [TreeView<'a>; 2],
    merged: MergedTree,
    rows: DiffRows,
    texts: Vec<RowTexts>,
    summary: Vec<LcaRow>,
    totals: Totals,
    groups: Vec<LcaGroup>,
    unlinked: [Unlinked; 2],
}

/// GPU events of a trace without a recorded launch. They belong to no call, so they are not compared.
#[derive(Debug, Clone, Copy)]
struct Unlinked {
    events: usize,
    us: f64,
}

impl Unlinked {
    fn of(view: TreeView<'_>) -> Self {
        let (tree, trace) = (view.tree(), view.trace());
        let unlinked = || tree.all_gpu_events().iter().filter(|&&e| !tree.is_linked(e));
        let time: Ns = unlinked().filter_map(|&e| trace.dur(e)).sum();
        Self { events: unlinked().count(), us: time.as_us() }
    }
}

impl<'a> Diff<'a> {
    fn of(views: [TreeView<'a>; 2], fidelity: Fidelity) -> Self {
        let [one, two] = views;
        let merged = merge(one, two, fidelity);
        let rows = DiffRows::of(one, two, &merged, fidelity);
        let texts = tables::row_texts(one, two, &merged, &rows);
        let (summary, totals) = lca_summary(&texts, rows.identical);
        let groups = lca_groups(&summary);
        Self { views, merged, rows, texts, summary, totals, groups, unlinked: views.map(Unlinked::of) }
    }

    /// Whether the traces do the same work in the same time.
    fn is_same(&self) -> bool {
        self.rows.identical && self.merged.is_same(self.views[0], self.views[1])
    }
}

pub(crate) fn run(session: &Session, args: &DiffArgs) -> Result<(), Failure> {
    if let Some(folder) = &args.output {
        output::probe(folder)?;
    }
    let stdin = Path::new("-");
    if args.one == stdin && args.two == stdin {
        return Err(Failure::usage("both traces can't be read from standard input").help("name one of them as a file"));
    }
    let fidelity = if args.parity { Fidelity::Reference } else { Fidelity::Correct };
    let mut options = tree_options(&ReportOptions { fidelity, ..ReportOptions::default() });
    if args.python {
        options = options.with_python();
    }
    let traces = [session.open_one_of_two(&args.one, Work::Tables)?, session.open_one_of_two(&args.two, Work::Tables)?];
    let trees = session.stage("call trees", || [0, 1].map(|side: usize| Tree::build(&traces[side], options)));
    for (path, (trace, tree)) in [&args.one, &args.two].into_iter().zip(traces.iter().zip(&trees)) {
        usable(path, trace, tree)?;
    }
    let views = [0, 1].map(|side: usize| trees[side].view(&traces[side]));
    let diff = session.stage("comparison", || Diff::of(views, fidelity));
    let files = match &args.output {
        Some(folder) => {
            let files = session.stage("files", || write(&diff, [&args.one, &args.two], folder, args.parity))?;
            // The folder may be the user's own: only names of ours are told.
            warn_of_strangers(session, folder, &files, |name| NOT_OF_PARITY.contains(&name));
            files
        }
        None => Vec::new(),
    };
    let steps = (!args.parity).then(|| [0, 1].map(|side: usize| steps(&traces[side])));
    let view = summary::View { paths: [&args.one, &args.two], diff: &diff, files: &files, limit: args.limit, steps };
    if session.common.json {
        session.print(format!("{:#}\n", view.json()).as_bytes())?;
    } else {
        session.print_text(&view.text())?;
    }
    for (path, (trace, tree)) in [&args.one, &args.two].into_iter().zip(traces.iter().zip(&trees)) {
        let mut defects = trace.diagnostics().clone();
        defects.extend(tree.diagnostics());
        session.report(path, &defects)?;
    }
    Ok(())
}

/// How many steps a trace marks.
fn steps(trace: &Trace) -> usize {
    let is_mark = |e: &EventId| trace.kind(*e) == EventKind::UserAnnotation && Step::is_mark(trace.name(*e));
    Step::of_marks(trace, &trace.events().filter(is_mark).collect::<Vec<_>>()).len()
}

/// Both traces need GPU work with recorded launches: there is nothing to compare else.
fn usable(path: &Path, trace: &Trace, tree: &Tree) -> Result<(), Failure> {
    if tree.linked_gpu_events().next().is_some() {
        return Ok(());
    }
    let is_empty = tree.all_gpu_events().is_empty();
    if let Some(byte) = trace.diagnostics().cut_at().filter(|_| is_empty) {
        let error = ReportError::Cut { count: trace.len(), byte };
        let mut failure = unreportable(trace, error);
        failure.what = format!("{}: {}", path.display(), failure.what);
        return Err(failure);
    }
    let what = if is_empty { "no GPU events" } else { "no GPU event with a recorded launch" };
    let what = format!("{}: {what} among {}", path.display(), counted(trace.len(), "event"));
    let help = "record with ProfilerActivity.CPU and ProfilerActivity.CUDA (also on ROCm), with a warm-up step";
    Err(Failure::new(exit::INPUT, what).help(help))
}

/// Files that `--parity` does not write.
const NOT_OF_PARITY: [&str; 2] = ["lca_summary.csv", "lca_by_operation.csv"];

/// Writes the merged tree, the tables and the maps; returns their paths.
fn write(diff: &Diff<'_>, inputs: [&Path; 2], folder: &Path, parity: bool) -> Result<Vec<PathBuf>, Failure> {
    let identical = diff.rows.identical;
    let (keys, renames, texts, roots) = if parity {
        (SummaryKeys::Everything, Renames::ByModule, csv::Texts::Exact, Roots::All)
    } else {
        (SummaryKeys::Readable, Renames::ByName, csv::Texts::Guarded, Roots::WithGpuWork)
    };
    let mut summary = tables::summary_rows(&diff.texts, keys);
    let names = op_map::common_names(&diff.texts, renames);
    if parity {
        op_map::rename_summary(&mut summary, &names);
    }
    let mut sheets: Vec<Table> =
        vec![tables::diff_stats(&diff.texts, identical), tables::summary_table(&summary, keys, identical)];
    if !parity {
        sheets.push(tables::lca_table(&diff.summary, diff.totals));
        sheets.push(tables::group_table(&diff.groups));
    }
    let mut files: Vec<OutputFile> = csv::files(&sheets, "", texts).collect();
    let [one, two] = diff.views;
    files.push(OutputFile::new("merged_tree_output.txt", merged_tree::render(one, two, &diff.merged, roots)));
    for which in Which::BOTH {
        // Rows of identical traces stand for both.
        let of = if identical { Which::One } else { which };
        let ops = op_map::op_kernels(&diff.texts, of);
        files.push(OutputFile::new(format!("cpu_op_map_{}.json", which.as_str()), op_map_json::of_trace(&ops)));
    }
    let both = op_map::op_map(&summary, &names);
    files.push(OutputFile::new("cpu_op_map.json", op_map_json::of_both(&both, identical)));
    let mut batch = Batch::default();
    batch.spares(inputs);
    for file in files {
        batch.add(folder, file)?;
    }
    let paths = batch.paths().map(Path::to_path_buf).collect();
    batch.write()?;
    Ok(paths)
}
