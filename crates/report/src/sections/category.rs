//! A compute category: overview, operations, bottlenecks, patterns, notes. The findings file has all of it, the fair
//! report leaves out what its recommendations say.

use jarvis_analyze::analysis::Analysis;
use jarvis_analyze::metrics::{
    Bottleneck, CategoryMetrics, JudgedOperation, MetricsFile, PatternMetrics, SetAside, Status,
};
use jarvis_analyze::prepared::{Prepared, Row};
use jarvis_analyze::rounding::shown;
use jarvis_analyze::rules::CategoryOutcome;
use jarvis_trace::InOrder;

use super::bottleneck::bottleneck;
use super::copies;
use super::overview::overview;
use super::patterns;
use super::words::{bound, cell, counted, efficiency, ms, pct, sentence, shapes};
use crate::blocks::{Block, Line, Table};

/// Where a category is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    /// In its own file.
    File,
    /// Within the fair report, three levels down.
    Fair,
}

impl Place {
    /// Level of the headings of a category's parts.
    fn level(self) -> u8 {
        match self {
            Self::File => 2,
            Self::Fair => 4,
        }
    }

    /// Most operations of the table.
    fn operations(self) -> usize {
        match self {
            Self::File => 40,
            Self::Fair => 12,
        }
    }
}

/// `category_findings/<category>_findings.md`.
pub(crate) fn file(analysis: &Analysis, outcome: &CategoryOutcome) -> Vec<Block> {
    let title = Block::heading(1, format!("{} Analysis Summary", outcome.display));
    match &outcome.file {
        MetricsFile::Short(short) if short.status == Status::Error => {
            let error = short.error.as_deref().unwrap_or("no message");
            vec![
                title,
                Block::paragraph("Status: ERROR"),
                Block::paragraph(Line::prose("Error: ").and_code(error)),
                Block::paragraph("This category is excluded from the recommendations."),
            ]
        }
        MetricsFile::Short(short) => {
            vec![title, Block::paragraph(short.message.clone().unwrap_or_else(|| "No data.".to_owned()))]
        }
        MetricsFile::Full(metrics) => {
            let mut blocks = vec![title, Block::paragraph("Status: SUCCESS")];
            blocks.extend(body(analysis, metrics, Place::File));
            blocks
        }
    }
}

/// What is below the title.
pub(crate) fn body(analysis: &Analysis, metrics: &CategoryMetrics, place: Place) -> Vec<Block> {
    let mut blocks = Vec::new();
    if place == Place::File {
        blocks.push(Block::heading(place.level(), "Overview"));
    }
    blocks.extend(overview(analysis, metrics, place));
    if !metrics.operations.is_empty() {
        blocks.push(Block::heading(place.level(), "Operations Breakdown"));
        blocks.extend(operations(&analysis.prepared, metrics, place));
    }
    // The recommendations of the fair report tell of patterns.
    let told = if place == Place::File { patterns::told(analysis, metrics) } else { Vec::new() };
    if !metrics.operations.is_empty() || !told.is_empty() {
        if place == Place::File || !metrics.bottlenecks.is_empty() {
            blocks.push(Block::heading(place.level(), "Key Bottlenecks"));
        }
        let number = told.len() + 1;
        for (i, pattern) in told.into_iter().enumerate() {
            blocks.extend(pattern.blocks(i + 1));
        }
        if !metrics.operations.is_empty() {
            blocks.extend(bottlenecks(analysis, metrics, place, number));
        }
    }
    blocks.extend(patterns_table(metrics, place));
    blocks.extend(notes(&analysis.prepared, metrics, place));
    blocks
}

/// The bottlenecks, numbered from `first` on.
fn bottlenecks(analysis: &Analysis, metrics: &CategoryMetrics, place: Place, first: usize) -> Vec<Block> {
    if metrics.bottlenecks.is_empty() {
        let told = if first > 1 { "No single operation is a bottleneck" } else { "No bottlenecks" };
        let fusible = |o: &JudgedOperation| o.set_aside == Some(SetAside::FusibleSteps);
        let without = " once the steps are left out that could be fused (see the notes)";
        let but = if metrics.operations.iter().any(fusible) { without } else { "" };
        return vec![Block::paragraph(format!("{told} above the thresholds{but}."))];
    }
    // Of what has no model the fair report can say nothing but its time.
    let bare = |b: &Bottleneck| place == Place::Fair && b.efficiency_percent.is_none();
    let (timed, told): (Vec<&Bottleneck>, Vec<&Bottleneck>) = metrics.bottlenecks.iter().partition(|b| bare(b));
    let mut blocks = Vec::new();
    for (i, b) in told.iter().enumerate() {
        blocks.extend(bottleneck(analysis, metrics, b, first + i, place));
    }
    if !timed.is_empty() {
        blocks.push(Block::paragraph("Large, but without a performance model:"));
        let mut table = Table::new(&["Operation", ">Count", ">Time (ms)", ">% of Compute", "Priority"]);
        for b in timed {
            table.row([
                Line::code(&b.operation),
                cell(b.count.to_string()),
                cell(ms(b.time_ms.0)),
                cell(pct(b.percent_of_compute.0)),
                cell(b.priority.title()),
            ]);
        }
        blocks.push(Block::Table(table));
    }
    blocks
}

fn operations(prepared: &Prepared, metrics: &CategoryMetrics, place: Place) -> Vec<Block> {
    let most = place.operations();
    // By the time that is shown: the footnote tells of copies.
    let mut rows: Vec<&Row> = metrics.rows(prepared).collect();
    rows.order_by(|a, b| b.compute_ms().total_cmp(&a.compute_ms()));
    let (listed, rest) = rows.split_at(most.min(rows.len()));
    let mut blocks = vec![Block::Table(operations_table(listed.iter().copied()))];
    if !rest.is_empty() {
        let count = rest.len();
        let time: f64 = rest.iter().map(|row| row.compute_ms()).sum();
        let time = if place == Place::File { format!(" ({} ms)", ms(time)) } else { String::new() };
        blocks.push(Block::paragraph(format!(
            "{}{time} in `category_data/{}_ops.csv`.",
            counted(count, "smaller row"),
            metrics.category
        )));
    }
    blocks.extend(copies::footnote(metrics.rows(prepared)));
    blocks
}

/// Operations with their times and efficiencies.
pub(crate) fn operations_table<'a>(rows: impl Iterator<Item = &'a Row>) -> Table {
    let mut table = Table::new(&[
        "Operation",
        ">Count",
        ">Time (ms)",
        ">% of Category",
        "Efficiency",
        ">FLOPS/Byte",
        "Type",
        "Shapes",
    ]);
    for row in rows {
        table.row([
            Line::code(&row.name),
            cell(row.count.to_string()),
            cell(ms(row.compute_ms())),
            cell(pct(row.percent_of_category)),
            cell(efficiency(&row.efficiency)),
            cell(row.efficiency.flops_per_byte.map_or_else(|| "-".to_owned(), |f| shown(f, 1))),
            cell(bound(row.efficiency.bound_type)),
            Line::code(&shapes(&row.args)),
        ]);
    }
    table
}

fn patterns_table(metrics: &CategoryMetrics, place: Place) -> Vec<Block> {
    // What spans operations is told in the fair report by a recommendation and what is behind it.
    let told = |p: &&PatternMetrics| place == Place::File || p.notable && p.spans.is_none();
    let told: Vec<&PatternMetrics> = metrics.patterns.iter().filter(told).collect();
    if told.is_empty() {
        return Vec::new();
    }
    let mut table =
        Table::new(&["Pattern", "Confidence", "Evidence", "Module", ">Calls", ">Time (ms)", ">% of Compute"]);
    for p in told {
        table.row([
            Line::code(p.pattern),
            cell(p.confidence),
            cell(p.evidence.join("; ")),
            p.module.as_deref().map_or_else(|| cell("-"), Line::code),
            cell(p.instances.to_string()),
            cell(ms(p.time_ms.0)),
            cell(pct(p.percent_of_compute.0)),
        ]);
    }
    vec![Block::heading(place.level(), "Patterns"), Block::Table(table)]
}

fn notes(prepared: &Prepared, metrics: &CategoryMetrics, place: Place) -> Vec<Block> {
    let specific =
        |key: &str| metrics.category_specific.get(key).and_then(|f| f.value()).and_then(serde_json::Value::as_u64);
    let unmodelled = metrics.rows(prepared).filter(|row| row.lacks_model()).count();
    let mut items: Vec<Line> = Vec::new();
    if place == Place::File || unmodelled > 0 {
        items.push(format!("Missing perf models: {unmodelled}").into());
    }
    if let Some(count) = specific("quantized_count").filter(|n| place == Place::File || *n > 0) {
        items.push(format!("Quantized GEMMs detected: {count}").into());
    }
    let remarks = metrics.notes.iter().chain(&metrics.warnings);
    items.extend(remarks.map(|n| Line::from(sentence(&shapes(n)))));
    if items.is_empty() {
        return Vec::new();
    }
    vec![Block::heading(place.level(), "Additional Notes"), Block::list(items)]
}
