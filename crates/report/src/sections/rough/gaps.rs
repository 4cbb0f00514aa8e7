//! What the analysis could not see or compute in this run.

use std::collections::BTreeMap;

use jarvis_analyze::metrics::MetricsFile;
use jarvis_analyze::prepared::EfficiencySource;
use jarvis_trace::InOrder;

use super::{capped, unified};
use crate::Run;
use crate::blocks::{Block, Line, Table};
use crate::sections::capture;
use crate::sections::kernels::{self, launched_without_operation};
use crate::sections::words::{cell, counted, ms, pct, sentence, shapes};

/// Most operations without a model.
const MOST_OPERATIONS: usize = 25;

/// The part.
pub(crate) fn blocks(run: &Run<'_>) -> Vec<Block> {
    let mut blocks = vec![Block::heading(2, "Analysis Gaps")];
    let before = blocks.len();
    let notes = capture::notes(run);
    if !notes.is_empty() {
        blocks.push(Block::heading(3, "Left Out of the Recording"));
        blocks.push(Block::list(notes.iter().map(|n| format!("{} To add it: {}", n.detail, n.short))));
    }
    blocks.extend(unmodelled(run));
    let bare = launched_without_operation(run);
    if !bare.is_empty() {
        blocks.push(Block::heading(3, "Kernels Without an Operation"));
        blocks.extend(kernels::table(&bare));
    }
    blocks.extend(estimated(run));
    let failed = run.analysis.failures().map(|o| {
        let error = match &o.file {
            MetricsFile::Short(short) => short.error.as_deref().unwrap_or("no message"),
            MetricsFile::Full(_) => "no message",
        };
        let text = format!("The analysis of {} failed and is excluded from the recommendations: ", o.display);
        Line::prose(&text).and_code(error)
    });
    let told = run.analysis.warnings.iter().map(|w| Line::from(sentence(&shapes(w))));
    let warnings: Vec<Line> = failed.chain(told).collect();
    if !warnings.is_empty() {
        blocks.push(Block::heading(3, "Warnings in Full"));
        blocks.push(Block::list(warnings));
    }
    blocks.extend(recording(run));
    if blocks.len() == before {
        blocks.push(Block::paragraph("None: every operation has a performance model and the recording is complete."));
    }
    blocks
}

fn unmodelled(run: &Run<'_>) -> Vec<Block> {
    let mut by_name: BTreeMap<&str, (usize, f64, f64)> = BTreeMap::new();
    for r in run.analysis.prepared.rows.iter().filter(|r| r.efficiency.efficiency_percent.is_none()) {
        let sum = by_name.entry(&r.name).or_default();
        *sum = (sum.0 + r.count, sum.1 + r.compute_ms(), sum.2 + r.percent_of_compute);
    }
    if by_name.is_empty() {
        return Vec::new();
    }
    let mut rows: Vec<_> = by_name.into_iter().collect();
    rows.order_by(|a, b| b.1.1.total_cmp(&a.1.1).then(a.0.cmp(b.0)));
    let share: f64 = rows.iter().map(|r| r.1.2).sum();
    let mut table = Table::new(&["Operation", ">Calls", ">Time (ms)", ">% of Compute", "Why"]);
    for (name, (calls, time, percent)) in rows {
        let why = run.report.rows.model_failures.iter().find(|f| *f.op == *name).map_or("no model", |f| &*f.reason);
        table.row([Line::code(name), cell(calls.to_string()), cell(ms(time)), cell(pct(percent)), Line::code(why)]);
    }
    let mut blocks = vec![
        Block::heading(3, "Operations Without a Performance Model"),
        Block::paragraph(format!("Judged by time only, {}% of compute.", pct(share))),
    ];
    blocks.extend(capped(table, MOST_OPERATIONS, &unified(run)));
    blocks
}

/// Rows whose efficiency is less than a full roofline.
fn estimated(run: &Run<'_>) -> Vec<Block> {
    let of = |source: EfficiencySource| {
        let rows = run.analysis.prepared.rows.iter().filter(move |r| r.efficiency.source == source);
        rows.fold((0, 0.0), |(n, share), r| (n + 1, share + r.percent_of_compute))
    };
    let told = [
        (EfficiencySource::ComputeSpec, "only one side of the roofline is known"),
        (EfficiencySource::Bf16Fallback, "the precision is not recognised; rated as bf16"),
        (EfficiencySource::ByteEstimate, "only a lower bound of the bytes is known; marked ≥ and never called slow"),
    ];
    let items = told.into_iter().filter_map(|(source, what)| {
        let (rows, share) = of(source);
        (rows > 0).then(|| format!("{} ({}% of compute): {what}.", counted(rows, "row"), pct(share)))
    });
    let items: Vec<String> = items.collect();
    if items.is_empty() {
        return Vec::new();
    }
    vec![Block::heading(3, "Efficiencies of Less Certainty"), Block::list(items)]
}

/// What was odd about the recording.
fn recording(run: &Run<'_>) -> Vec<Block> {
    let items: Vec<String> = seen(run);
    if items.is_empty() {
        return Vec::new();
    }
    vec![Block::heading(3, "Oddities of the Recording"), Block::list(items)]
}

fn seen(run: &Run<'_>) -> Vec<String> {
    let told = run.report.diagnostics.seen();
    told.map(|(d, count, _)| format!("`{}` ({count}): {}", d.id, sentence(d.meaning))).collect()
}
