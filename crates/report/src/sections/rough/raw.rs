//! Raw data: every operations table, the baseline, what became of each top operation, kernels by shape.

use jarvis_analyze::lowering::{Difference, LoweringDifference, lowering_differences};

use super::{baseline, capped, unified, with_rest};
use crate::Run;
use crate::blocks::{Block, Line, Table};
use crate::sections::category::operations_table;
use crate::sections::cross::Marks;
use crate::sections::data_file;
use crate::sections::idle::short;
use crate::sections::words::{cell, ms, pct, shapes, us};

/// Most rows of a category's table.
const MOST_ROWS: usize = 40;

/// Most differences of lowering.
const MOST_DIFFERENCES: usize = 15;

/// The part.
pub(crate) fn blocks(run: &Run<'_>) -> Vec<Block> {
    let mut blocks = vec![Block::heading(2, "Raw Data Exploration")];
    if !run.analysis.prepared.top_operations.is_empty() {
        blocks.push(Block::heading(3, "What Became of the Top Operations"));
        blocks.push(Block::Table(cross_reference(run)));
    }
    blocks.push(Block::heading(3, "Elementwise Baseline"));
    blocks.extend(baseline::blocks(run));
    let differences = lowering_differences(&run.analysis.prepared);
    if !differences.is_empty() {
        blocks.push(Block::heading(3, "Kernel Lowering Differences"));
        blocks.push(Block::paragraph("The same operation uses different kernels for these shapes."));
        blocks.extend(capped(lowering(run, &differences), 2 * MOST_DIFFERENCES, &unified(run)));
    }
    blocks.push(Block::heading(3, "Operations by Category"));
    let mut categories =
        run.analysis.outcomes.iter().filter_map(|o| o.metrics()).filter(|m| !m.operations.is_empty()).peekable();
    if categories.peek().is_none() {
        blocks.push(Block::paragraph("No operation of the trace is in a category."));
    }
    for m in categories {
        blocks.push(Block::heading(4, m.display_name.to_string()));
        let table = operations_table(m.rows(&run.analysis.prepared).take(MOST_ROWS));
        let more = m.operations.len().saturating_sub(MOST_ROWS);
        blocks.extend(with_rest(table, more, &data_file(run, &m.category, "ops.csv")));
    }
    blocks
}

fn cross_reference(run: &Run<'_>) -> Table {
    let mut table =
        Table::new(&["Rank", "Operation", "Also named (operation)", ">Time (ms)", ">% of Compute", "Finding"]);
    let marks = Marks::of(run);
    for t in &run.analysis.prepared.top_operations {
        let aliases: Vec<&str> = t.aliases.iter().map(|a| &**a).filter(|a| **a != *t.name).collect();
        let aliases = if aliases.is_empty() { cell("-") } else { Line::code(&aliases.join(", ")) };
        table.row([
            cell(t.rank.to_string()),
            Line::code(&t.name),
            aliases,
            cell(ms(t.time_ms)),
            cell(pct(t.percent_of_compute)),
            cell(marks.of_top(t)),
        ]);
    }
    table
}

fn lowering(run: &Run<'_>, differences: &[LoweringDifference]) -> Table {
    let mut table =
        Table::new(&["Operation", "Differs in", "Shapes", "Kernel", ">Kernels", ">us per Call", ">% of Peak"]);
    for d in differences {
        let what = match d.difference {
            Difference::Kernel => "kernel",
            Difference::KernelCount => "number of kernels",
        };
        for (i, r) in d.rows.iter().enumerate() {
            let row = run.analysis.prepared.row(r.row);
            table.row([
                Line::code(&d.op),
                cell(if i == 0 { what } else { "compared with" }),
                Line::code(&shapes(&row.args)),
                Line::code(&short(&r.kernel)),
                cell(r.kernels.to_string()),
                cell(us(r.mean_us)),
                cell(r.efficiency_percent.map_or_else(|| "-".to_owned(), pct)),
            ]);
        }
    }
    table
}
