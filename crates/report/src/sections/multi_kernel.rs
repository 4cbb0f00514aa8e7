//! Memory copies, collective communication, and how much computation hides them.

use jarvis_analyze::system::System;
use jarvis_analyze::system::multi_kernel::MultiKernelMetrics;
use jarvis_analyze::system::texts::SINGLE_RANK;
use jarvis_analyze::system::{CopyDirection, Severity};
use jarvis_analyze::thresholds::Threshold;
use jarvis_perf::roofline::MB;

use super::advice::advice;
use super::category::Place;
use super::idle::{severity, short};
use super::words::{cell, ms, pct, sentence, us};
use crate::Run;
use crate::blocks::{Block, Line, Table};

/// Key of the category.
pub(crate) const KEY: &str = "multi_kernel";

/// Most rows of a table in the fair report, and in the file.
const ROWS: [usize; 2] = [6, 20];

/// Whether there is anything to speak of.
pub(crate) fn is_present(run: &Run<'_>) -> bool {
    run.analysis.system.as_ref().is_some_and(|s| s.copies.count() > 0 || s.communication.count > 0)
}

/// Whether something is worth looking at.
pub(crate) fn is_actionable(run: &Run<'_>) -> bool {
    let p = &run.analysis.prepared;
    let Some(system) = &run.analysis.system else { return false };
    let m = MultiKernelMetrics::of(system, &p.utilization);
    let flagged = m.memcpy_assessment.flagged || m.nccl_blocking_assessment.flagged || m.overlap_assessment.flagged;
    let low = p.utilization.computation_time_percent < p.thresholds.get(Threshold::UtilComputeOk);
    is_present(run) && (flagged || low) || run.analysis.findings.iter().any(|f| f.category == KEY)
}

/// Whether the fair report should speak of it.
pub(crate) fn is_notable(run: &Run<'_>) -> bool {
    let Some(system) = &run.analysis.system else { return false };
    let m = MultiKernelMetrics::of(system, &run.analysis.prepared.utilization);
    let worst = [m.memcpy_assessment.severity, m.nccl_blocking_assessment.severity, m.overlap_assessment.severity];
    is_present(run) && worst.iter().any(|s| *s < Severity::Low)
        || run.analysis.findings.iter().any(|f| f.category == KEY)
}

/// `system_findings/multi_kernel_findings.md`.
pub(crate) fn file(run: &Run<'_>) -> Vec<Block> {
    let mut blocks =
        vec![Block::heading(1, "Multi-Kernel Issue Analysis Findings"), Block::paragraph("Status: SUCCESS")];
    if is_actionable(run) {
        blocks.extend(body(run, Place::File));
    } else {
        blocks.push(Block::paragraph("Nothing actionable was found."));
    }
    blocks
}

/// What is below the title.
pub(crate) fn body(run: &Run<'_>, place: Place) -> Vec<Block> {
    let Some(system) = &run.analysis.system else { return Vec::new() };
    let m = MultiKernelMetrics::of(system, &run.analysis.prepared.utilization);
    let (level, rows) = if place == Place::File { (2, ROWS[1]) } else { (4, ROWS[0]) };
    let mut blocks = Vec::new();
    if place == Place::File {
        blocks.push(Block::heading(level, "Summary"));
    }
    blocks.push(Block::Table(summary(&m)));
    if place == Place::File || system.copies.count() > 0 {
        blocks.push(Block::heading(level, "Memory Copy Analysis"));
        blocks.extend(copies(system, rows));
    }
    if place == Place::File || system.communication.count > 0 {
        blocks.push(Block::heading(level, "Communication"));
        blocks.extend(communication(system, rows));
    }
    if system.communication.count > 0 {
        blocks.push(Block::heading(level, "Overlap"));
        blocks.push(Block::paragraph(sentence(&m.overlap_assessment.description)));
    }
    if !m.patterns_detected.is_empty() {
        blocks.push(Block::heading(level, "Detected Patterns"));
        let mut table = Table::new(&["Pattern", "Severity", "Description"]);
        for p in &m.patterns_detected {
            table.row([Line::code(p.pattern), cell(severity(p.severity)), cell(&*p.description)]);
        }
        blocks.push(Block::Table(table));
    }
    if place == Place::File {
        blocks.push(Block::heading(level, "Recommendations"));
        let found: Vec<_> = run.analysis.findings.iter().filter(|f| f.category == KEY).collect();
        if found.is_empty() {
            blocks.push(Block::paragraph("No change is worth a recommendation."));
        }
        for f in found {
            blocks.extend(advice(run, f, level + 1));
        }
        blocks.extend(m.cross_validation.warnings.iter().map(|w| Block::paragraph(sentence(w))));
    }
    blocks
}

fn summary(m: &MultiKernelMetrics) -> Table {
    let mut table = Table::new(&["Metric", ">Value", "Severity"]);
    let copies = &m.memcpy_assessment;
    let blocking = &m.nccl_blocking_assessment;
    let overlap = m.overlap_assessment.overlap_percent.map_or_else(|| "-".to_owned(), |p| format!("{}%", pct(p.0)));
    table
        .row([
            cell("Memory copies"),
            cell(format!(
                "{} ({} ms, {}%)",
                copies.total_count,
                ms(copies.total_time_ms.0),
                pct(copies.percent_of_total.0)
            )),
            cell(severity(copies.severity)),
        ])
        .row([
            cell("Exposed communication"),
            cell(format!("{} ms ({}%)", ms(blocking.exposed_comm_time_ms.0), pct(blocking.exposed_percent_of_total.0))),
            cell(severity(blocking.severity)),
        ])
        .row([
            cell("Communication overlapped by computation"),
            cell(overlap),
            cell(severity(m.overlap_assessment.severity)),
        ]);
    table
}

fn copies(system: &System, rows: usize) -> Vec<Block> {
    if system.copies.count() == 0 {
        return vec![Block::paragraph("No memory copies in the trace.")];
    }
    let mut table =
        Table::new(&["Direction", ">Count", ">Time (ms)", ">Longest (us)", ">Exposed (ms)", ">MiB", ">Waited for"]);
    for d in CopyDirection::ALL {
        let c = system.copies.direction(d);
        if c.count > 0 {
            table.row([
                cell(direction(d)),
                cell(c.count.to_string()),
                cell(ms(c.time.as_ms())),
                cell(us(c.longest.as_us())),
                cell(ms(c.exposed.as_ms())),
                cell(jarvis_analyze::rounding::shown(c.bytes as f64 / MB, 2)),
                cell(c.waited_for.to_string()),
            ]);
        }
    }
    let mut blocks = vec![Block::Table(table)];
    if !system.copies.operations.is_empty() {
        let mut by = Table::new(&["Operation", "Direction", ">Copies", ">Time (ms)", "Called from (file)"]);
        for o in system.copies.operations.iter().take(rows) {
            by.row([
                Line::code(&o.name),
                cell(direction(o.direction)),
                cell(o.count.to_string()),
                cell(ms(o.time.as_ms())),
                o.caller.as_deref().map_or_else(|| cell("-"), Line::code),
            ]);
        }
        blocks.push(Block::Table(by));
    }
    blocks
}

fn direction(d: CopyDirection) -> &'static str {
    match d {
        CopyDirection::DeviceToHost => "device to host",
        CopyDirection::HostToDevice => "host to device",
        CopyDirection::DeviceToDevice => "device to device",
        CopyDirection::Other => "not recorded",
    }
}

fn communication(system: &System, rows: usize) -> Vec<Block> {
    let c = &system.communication;
    if c.count == 0 {
        return vec![Block::paragraph("No collective communication in the trace.")];
    }
    let mut table =
        Table::new(&["Collective name", ">Ranks", "Type", ">Message (MiB)", ">Count", ">Time (ms)", ">Exposed (ms)"]);
    let or_dash = |n: Option<String>| n.unwrap_or_else(|| "-".to_owned());
    for k in c.collectives.iter().take(rows) {
        table.row([
            Line::code(&k.name),
            cell(or_dash(k.group_size.map(|n| n.to_string()))),
            k.dtype.as_deref().map_or_else(|| cell("-"), Line::code),
            cell(or_dash(k.message_bytes.map(|b| jarvis_analyze::rounding::shown(b as f64 / MB, 2)))),
            cell(k.count.to_string()),
            cell(ms(k.time.as_ms())),
            cell(ms(k.exposed.as_ms())),
        ]);
    }
    let mut blocks = vec![Block::Table(table)];
    if let Some(k) = c.top.first() {
        let text = Line::prose("Longest kernel: ")
            .and_code(&short(&k.name))
            .and_prose(&format!(", {} us.", us(k.time.as_us())));
        blocks.push(Block::Paragraph(text));
    }
    blocks.push(Block::paragraph(format!("{SINGLE_RANK} Check topology and configuration.")));
    blocks
}
