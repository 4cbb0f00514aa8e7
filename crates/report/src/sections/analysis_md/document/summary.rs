//! The executive summary: a paragraph, the numbers of the timeline, the picture, where the time goes by category.

use super::{end, ends, mark};
use crate::Run;
use crate::blocks::{Block, Line, Table};
use crate::sections::analysis_md::PLOT;
use crate::sections::analysis_md::groups::Rollup;
use crate::sections::analysis_md::plan::Plan;
use crate::sections::fair;
use crate::sections::words::{cell, ms, pct};

/// What is said where there is no table of categories.
pub(crate) const NO_OPERATIONS: &str = "No GPU time of this trace belongs to an operation.";

/// The part.
pub(crate) fn blocks(run: &Run<'_>, plan: &Plan<'_>) -> Vec<Block> {
    let mut blocks = vec![
        Block::heading(2, "Executive Summary"),
        Block::paragraph(fair::paragraph(run)),
        Block::Table(metrics(run, plan)),
    ];
    if !plan.recommendations.fixes.is_empty() {
        blocks.push(Block::Picture { shows: "What each recommendation saves", file: PLOT });
        blocks.push(Block::paragraph("R1, R2 and so on are the recommendations of `standalone_analysis_fair.md`."));
    }
    blocks.push(Block::heading(3, "Top Operations"));
    if plan.categories.is_empty() {
        blocks.push(Block::paragraph(NO_OPERATIONS));
    } else {
        blocks.extend([mark("impact-begin kind=top_ops"), Block::Table(top(plan)), end()]);
    }
    blocks
}

fn metrics(run: &Run<'_>, plan: &Plan<'_>) -> Table {
    let u = &run.analysis.prepared.utilization;
    let name = |r: &Rollup| format!("{} ({}% of computation time)", r.name.display, pct(r.percent_of_compute));
    let mut table = Table::new(&["Metric", "Value"]);
    for (label, value) in [
        ("Total Time", format!("{} ms", ms(u.total_time_ms))),
        ("Compute %", format!("{}%", pct(u.computation_time_percent))),
        ("Idle %", format!("{}%", pct(u.idle_time_percent))),
        ("Exposed Communication %", format!("{}%", pct(u.exposed_comm_time_percent))),
        ("Top Bottleneck Category", plan.categories.first().map_or("not known".to_owned(), |(r, _)| name(r))),
    ] {
        table.row([cell(label), cell(value)]);
    }
    table
}

/// Categories, most time first; programs read what improving each could bring.
fn top(plan: &Plan<'_>) -> Table {
    let mut table = Table::new(&["Rank", "Category", ">Time (ms)", ">% of Compute Time", ">Ops"]);
    for ((rollup, _), rank) in plan.categories.iter().zip(1_usize..) {
        let ops = Line::prose(&rollup.rows.to_string()).and_mark(format!("top-ops-row {}", ends(rollup.score)));
        table.row([
            cell(rank.to_string()),
            cell(&*rollup.name.display),
            cell(ms(rollup.time_ms)),
            cell(pct(rollup.percent_of_compute)),
            ops,
        ]);
    }
    table
}
