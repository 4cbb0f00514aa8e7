//! Step 6: what each analyzer looked at, and why rows became bottlenecks or did not.

use jarvis_analyze::metrics::{CategoryMetrics, MetricsFile, Status};
use jarvis_analyze::prepared::Prepared;
use jarvis_analyze::rounding::round;

use super::capped;
use crate::Run;
use crate::blocks::{Block, Line, Table};
use crate::sections::cross::Marks;
use crate::sections::data_file;
use crate::sections::words::{cell, counted, efficiency, figure, ms, pct, shapes};

/// Most rows a category shows.
const MOST_ROWS: usize = 10;

/// Rows with less of their category than this are not shown, in percent.
const SHOWN_PERCENT: f64 = 1.0;

/// The part.
pub(crate) fn blocks(run: &Run<'_>) -> Vec<Block> {
    let p = &run.analysis.prepared;
    let mut blocks = vec![
        Block::heading(3, "Step 6: Category Analyses"),
        Block::paragraph(
            "A row is a bottleneck if its time or its share of the category is large, its efficiency is low or not \
             known, and it takes a noticeable share of compute. The verdict tells which condition decided.",
        ),
    ];
    let marks = Marks::of(run);
    for outcome in &run.analysis.outcomes {
        blocks.push(Block::heading(4, outcome.display.to_string()));
        match &outcome.file {
            MetricsFile::Full(m) => blocks.extend(category(run, m, p, &marks)),
            MetricsFile::Short(s) if s.status == Status::Error => {
                let error = s.error.as_deref().unwrap_or("no message");
                blocks.push(Block::Paragraph(Line::prose("Status: ERROR, ").and_code(error)));
            }
            MetricsFile::Short(s) => {
                blocks.push(Block::paragraph(s.message.clone().unwrap_or_else(|| "Status: NO_DATA".to_owned())));
            }
        }
    }
    blocks
}

fn category(run: &Run<'_>, m: &CategoryMetrics, p: &Prepared, marks: &Marks<'_, '_>) -> Vec<Block> {
    let mut blocks = vec![Block::paragraph(format!(
        "Status: OK. {}, {}, {}; {}.",
        counted(m.unique_args_count, "row"),
        counted(m.operation_count, "call"),
        format_args!("{} ms", ms(m.total_time_ms.0)),
        counted(m.bottlenecks.len(), "bottleneck"),
    ))];
    let mut table = Table::new(&[
        "Operation",
        "Shapes",
        ">Time (ms)",
        ">% of Category",
        "Efficiency",
        "Expected",
        ">% of Compute",
        "Verdict",
    ]);
    let rows = m.operations.iter().map(|o| (o, p.row(o.row)));
    for (o, row) in rows.filter(|(_, row)| row.percent_of_category >= SHOWN_PERCENT) {
        let expected = match o.expected {
            Some((low, high)) => format!("{}-{}%", figure(round(low, 1)), figure(round(high, 1))),
            None => "40% or more".to_owned(),
        };
        table.row([
            Line::code(&row.name),
            Line::code(&shapes(&row.args)),
            cell(ms(row.compute_ms())),
            cell(pct(row.percent_of_category)),
            cell(efficiency(&row.efficiency)),
            cell(expected),
            cell(pct(row.percent_of_compute)),
            cell(marks.of_row(row)),
        ]);
    }
    if !table.rows.is_empty() {
        blocks.extend(capped(table, MOST_ROWS, &data_file(run, &m.category, "metrics.json")));
    }
    if !m.patterns.is_empty() {
        let shown = m
            .patterns
            .iter()
            .map(|p| Line::code(p.pattern).and_prose(&format!(" ({}): {}", p.confidence, p.evidence.join("; "))));
        blocks.push(Block::list(shown));
    }
    blocks
}
