//! `comparative_analysis_rough.md`: every step of a comparison with its numbers.

use jarvis_analyze::comparative::{Both, Compared, GapSource, MatchLevel, Mode, TotalOf, Verdict};
use jarvis_analyze::prepared::Prepared;
use jarvis_analyze::rounding::shown;

use super::detail::changes;
use super::{appendix, args, calls, delta, expected_delta, expected_ratio, share, summary, title};
use crate::Versus;
use crate::blocks::{Block, Line, Table};
use crate::sections::idle::short;
use crate::sections::rough::{capped, gaps, questions, raw, tree};
use crate::sections::words::{bound, cell, counted, ms, options, pct, shapes};

/// Most rows of a table.
const MOST_ROWS: usize = 60;

/// Where the rest stands.
const REST: &str = "category_data/comparison_metrics.json";

/// The report.
pub(crate) fn document(v: &Versus<'_>) -> Vec<Block> {
    let mut blocks = vec![Block::heading(1, title(v, " (Rough)")), Block::heading(2, "Analysis Process Summary")];
    blocks.extend(summary::losses(v));
    for part in [setup, reports, timing, operations, opportunities, explanations, priorities] {
        blocks.extend(part(v));
    }
    blocks.extend(raw_data(v));
    blocks.extend(tree_part(v));
    blocks.extend(gaps::blocks(&v.target));
    blocks.extend(questions::blocks(&v.target));
    blocks
}

fn setup(v: &Versus<'_>) -> Vec<Block> {
    let c = v.comparative;
    let mut blocks = vec![
        Block::heading(3, "Step 1: Identify Traces & Setup"),
        Block::facts([
            ("Reference trace", Line::code(&v.reference.labels.trace_path)),
            ("Target trace", Line::code(&v.target.labels.trace_path)),
            ("Options", options(&v.target.labels.flags)),
            ("Steps", cell(format!("{}times are {}: {}", steps(v), c.normalization.unit(), c.normalization.reason))),
            (
                "Matched kernel time",
                cell(format!(
                    "{}% of the reference, {}% of the target",
                    pct(c.coverage_percent.reference),
                    pct(c.coverage_percent.target)
                )),
            ),
            (
                "Left out",
                cell(format!(
                    "copies between host and device, or between devices: {} and {} rows",
                    c.host_copies.reference, c.host_copies.target
                )),
            ),
        ]),
        Block::Table(appendix::hardware(v)),
    ];
    blocks.extend(appendix::other_scales(v).map(Block::paragraph));
    blocks
}

/// How many steps the sides have; nothing where times are divided by one, which is no number of steps.
fn steps(v: &Versus<'_>) -> String {
    let normalization = &v.comparative.normalization;
    match normalization.mode {
        Mode::PerStep => format!("{} and {}; ", normalization.steps.reference, normalization.steps.target),
        Mode::Total | Mode::PerCall => String::new(),
    }
}

fn reports(v: &Versus<'_>) -> Vec<Block> {
    let mut table =
        Table::new(&["Side", "Workbook file", ">Sheets", ">Rows of unified_perf_summary", ">Modelled % of compute"]);
    for (side, run) in [("reference", &v.reference), ("target", &v.target)] {
        let p = &run.analysis.prepared;
        let modelled: f64 =
            p.rows.iter().filter(|r| r.efficiency.efficiency_percent.is_some()).map(|r| r.percent_of_compute).sum();
        table.row([
            cell(side),
            Line::code(&format!("{side}_perf_report.xlsx")),
            cell(run.sheets.len().to_string()),
            cell(p.rows.len().to_string()),
            cell(pct(modelled)),
        ]);
    }
    vec![Block::heading(3, "Step 2: Individual Reports"), Block::Table(table)]
}

fn timing(v: &Versus<'_>) -> Vec<Block> {
    let rows: [(&str, TotalOf); 8] = [
        ("Computation", |t| t.computation_ms),
        ("Exposed communication", |t| t.exposed_comm_ms),
        ("Exposed memory copies", |t| t.exposed_copy_ms),
        ("Busy", |t| t.busy_ms),
        ("Idle", |t| t.idle_ms),
        ("Total", |t| t.total_ms),
        ("All communication", |t| t.comm_ms),
        ("All memory copies", |t| t.copy_ms),
    ];
    let mut table = Table::new(&["GPU Time", ">Reference (ms)", ">Target (ms)", ">Difference (ms)", ">Δ"]);
    for (name, of) in rows {
        let time = Both::of(v.comparative.totals.as_ref(), of);
        table.row([
            cell(name),
            cell(ms(time.reference)),
            cell(ms(time.target)),
            cell(ms(time.delta())),
            cell(delta(time.delta_percent().filter(|_| v.comparative.uncomparable.is_none()))),
        ]);
    }
    let mut blocks = vec![Block::heading(3, "Step 3: Overall Timing"), Block::Table(table)];
    blocks.extend(v.comparative.sameness().map(Block::paragraph));
    blocks.push(Block::paragraph("The difference is made of:"));
    blocks.push(Block::Table(changes(v)));
    let ids = |ids: &[jarvis_analyze::finding::PatternId]| match ids {
        [] => cell("none"),
        ids => Line::code(&ids.iter().map(|id| id.as_str()).collect::<Vec<_>>().join(", ")),
    };
    blocks.push(Block::facts([
        ("Findings that only the reference has", ids(&v.comparative.gone)),
        ("Findings that only the target has", ids(&v.comparative.new)),
    ]));
    blocks
}

fn row(o: &Compared) -> Vec<Line> {
    vec![
        Line::code(&o.name),
        Line::code(&args(o)),
        cell(ms(o.ms.reference)),
        cell(ms(o.ms.target)),
        cell(o.ms.ratio().map_or("-".to_owned(), |r| shown(r, 3))),
        cell(expected_ratio(o.expected)),
        cell(o.excess().map_or("-".to_owned(), |e| shown(e, 2))),
        cell(o.verdict.map_or("-", Verdict::as_str).replace('_', " ")),
        cell(o.level.map_or("sum", MatchLevel::as_str)),
        cell(bound(o.bound)),
        cell(format!("{} / {}", calls(o.calls.reference), calls(o.calls.target))),
    ]
}

const COLUMNS: [&str; 11] = [
    "Operation",
    "Shapes",
    ">Reference (ms)",
    ">Target (ms)",
    ">Ratio",
    ">Expected",
    ">Excess",
    "Verdict",
    "Level",
    "Type",
    ">Calls",
];

fn table_of<'a>(rows: impl Iterator<Item = &'a Compared>) -> Table {
    let mut table = Table::new(&COLUMNS);
    for o in rows {
        table.row(row(o));
    }
    table
}

fn operations(v: &Versus<'_>) -> Vec<Block> {
    let c = v.comparative;
    let mut blocks = vec![Block::heading(3, "Step 4: Per-Operation Comparison")];
    if c.operations.is_empty() {
        blocks.push(Block::paragraph("No operation of the target has a counterpart."));
        return blocks;
    }
    blocks.extend(capped(table_of(c.operations.iter()), MOST_ROWS, REST));
    blocks.push(Block::paragraph("By name of the operation:"));
    blocks.extend(capped(table_of(c.by_name.iter()), MOST_ROWS, REST));
    blocks
}

fn opportunities(v: &Versus<'_>) -> Vec<Block> {
    let c = v.comparative;
    let compute = c.compute_ms.target;
    let slow = || c.operations.iter().filter(|o| o.verdict.is_some_and(Verdict::is_slow) && o.saved_ms > 0.0);
    let mut items: Vec<Line> = slow()
        .take(MOST_ROWS)
        .map(|o| {
            Line::code(&o.name).and_prose(" ").and_code(&args(o)).and_prose(&format!(
                ": {} - {} x {} = {} ms, {}% of target compute.",
                ms(o.ms.target),
                o.goal.map_or("-".to_owned(), |goal| shown(goal, 3)),
                ms(o.ms.reference),
                ms(o.saved_ms),
                pct(if compute > 0.0 { 100.0 * o.saved_ms / compute } else { 0.0 })
            ))
        })
        .collect();
    items.extend(more(slow().count()));
    let list = if items.is_empty() {
        Block::paragraph("None: no operation is slower on the target than its hardware explains.")
    } else {
        Block::list(items)
    };
    vec![Block::heading(3, "Step 5: Opportunities on Target"), list]
}

/// Where those of a list are that it does not show; nothing if it shows all.
fn more(all: usize) -> Option<Line> {
    let rest = all.saturating_sub(MOST_ROWS);
    (rest > 0).then(|| Line::prose(&format!("{rest} more in ")).and_code(REST).and_prose("."))
}

fn explanations(v: &Versus<'_>) -> Vec<Block> {
    let mut table = Table::new(&["Operation", "Shapes", ">Δ", ">From hardware", "Verdict", "Explanation"]);
    for o in &v.comparative.operations {
        table.row([
            Line::code(&o.name),
            Line::code(&args(o)),
            cell(delta(o.ms.delta_percent())),
            cell(expected_delta(o.expected)),
            cell(o.verdict.map_or("-", Verdict::as_str).replace('_', " ")),
            cell(o.explanation().map_or("-", |e| e.text)),
        ]);
    }
    let mut blocks = vec![Block::heading(3, "Step 6: Explanations")];
    if table.rows.is_empty() {
        blocks.push(Block::paragraph("There is nothing to explain."));
    } else {
        blocks.extend(capped(table, MOST_ROWS, REST));
    }
    blocks
}

fn priorities(v: &Versus<'_>) -> Vec<Block> {
    let mut blocks = vec![
        Block::heading(3, "Step 7: Priorities"),
        Block::paragraph(
            "Saved is the target's time less the reference's times the expected ratio, never more than what is above \
             the roofline; where the types differ, the ratio and the roofline are those of the reference's types. Time \
             in which nothing computes is given as a share of the GPU time. Operations below 1% of target compute and savings below 0.5% are left out.",
        ),
    ];
    let mut table = Table::new(&["Rank", "Operation", "About", ">Saved (ms)", ">Share"]);
    for g in &v.comparative.gaps {
        let about = match g.source {
            GapSource::Operation(_) => "an operation or a group",
            GapSource::Cause(_) => "operations that one change explains",
            GapSource::Unmatched => "work without a counterpart",
            GapSource::Idle => "idle time",
            GapSource::Overlap => "overlap of kernels",
            GapSource::Copies => "copies that nothing overlaps",
            GapSource::Communication => "communication that nothing overlaps",
        };
        table.row([cell(g.rank.to_string()), Line::prose(&g.title), cell(about), cell(ms(g.saved_ms)), cell(share(g))]);
    }
    if table.rows.is_empty() {
        blocks.push(Block::paragraph("Nothing remains."));
    } else {
        blocks.push(Block::Table(table));
    }
    blocks
}

/// Kernels side by side, unmatched work and categories; then the raw data of the target.
fn raw_data(v: &Versus<'_>) -> Vec<Block> {
    let c = v.comparative;
    let mut blocks = vec![Block::heading(2, "Raw Data Exploration"), Block::heading(3, "Categories on Both Sides")];
    blocks.push(Block::Table(table_of(c.categories.iter())));
    let mut kernels = Table::new(&["Operation", "Shapes", "Kernel of the reference", "Kernel of the target"]);
    for o in &c.operations {
        let first = Both::of(o.kernels.as_ref(), |k| k.first().map_or_else(|| cell("-"), |k| Line::code(&short(k))));
        kernels.row([Line::code(&o.name), Line::code(&args(o)), first.reference, first.target]);
    }
    if !kernels.rows.is_empty() {
        blocks.push(Block::heading(3, "Kernels on Both Sides"));
        blocks.extend(capped(kernels, MOST_ROWS, REST));
    }
    blocks.extend(left("Only in the Reference", &v.reference.analysis.prepared, &c.left.reference));
    blocks.extend(left("Only in the Target", &v.target.analysis.prepared, &c.left.target));
    // The raw data of the target have the heading of this section.
    blocks.extend(raw::blocks(&v.target).into_iter().skip(1));
    blocks
}

fn left(title: &str, p: &Prepared, parts: &[jarvis_analyze::comparative::Part]) -> Vec<Block> {
    if parts.is_empty() {
        return Vec::new();
    }
    let mut table = Table::new(&["Operation", "Shapes", "Module", ">Calls", ">Time (ms)"]);
    for part in parts {
        table.row([
            Line::code(&short(&part.name)),
            Line::code(&part.row.map_or("-".to_owned(), |r| shapes(&p.row(r).args))),
            if part.place.modules.is_empty() { cell("-") } else { Line::code(&part.place.modules) },
            cell(calls(part.calls)),
            cell(ms(part.ms)),
        ]);
    }
    let mut blocks = vec![Block::heading(3, title)];
    blocks.extend(capped(table, MOST_ROWS, REST));
    blocks
}

/// Groups that were matched by their place, then the tree of the target.
fn tree_part(v: &Versus<'_>) -> Vec<Block> {
    let mut blocks = vec![Block::heading(2, "Tree Analysis")];
    let groups = || v.comparative.operations.iter().filter(|o| o.level == Some(MatchLevel::Module));
    let mut lines: Vec<(usize, String)> = Vec::new();
    for o in groups().take(MOST_ROWS) {
        let place = o.place.as_ref().map_or("", |p| &*p.modules);
        lines.push((0, format!("{place}  {} -> {} ms", ms(o.ms.reference), ms(o.ms.target))));
        for (side, names, kernels) in [
            ("reference", &o.operations.reference, o.launched.reference),
            ("target", &o.operations.target, o.launched.target),
        ] {
            lines.push((1, format!("{side}, {}: {}", counted(kernels.round() as usize, "kernel"), names.join(", "))));
        }
    }
    if !lines.is_empty() {
        blocks.push(Block::heading(3, "Other Operations in the Same Place"));
        blocks.push(Block::Tree(lines));
        blocks.extend(more(groups().count()).map(Block::Paragraph));
    }
    blocks.extend(tree::blocks(&v.target).into_iter().skip(1));
    blocks
}
