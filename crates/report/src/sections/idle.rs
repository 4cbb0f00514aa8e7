//! Idle time: how much, in which gaps, what the host did meanwhile.

use jarvis_analyze::system::Severity;
use jarvis_analyze::system::cpu_idle::{CpuIdleMetrics, GapAnalysis};
use jarvis_analyze::system::texts::{DEVICE_WAIT_ACTION, VIEWER};
use jarvis_analyze::thresholds::Threshold;
use jarvis_trace::shortened;

use super::advice::advice;
use super::category::Place;
use super::cross::is_recommendation;
use super::words::{cell, counted, ms, pct, sentence, us};
use crate::Run;
use crate::blocks::{Block, Line, Table};

/// Key of the category.
pub(crate) const KEY: &str = "cpu_idle";

/// `system_findings/cpu_idle_findings.md`.
pub(crate) fn file(run: &Run<'_>) -> Vec<Block> {
    let mut blocks = vec![Block::heading(1, "CPU/Idle Time Analysis Findings"), Block::paragraph("Status: SUCCESS")];
    if is_actionable(run) {
        blocks.extend(body(run, Place::File));
    } else {
        blocks.extend([idle_line(run), Block::paragraph("Nothing actionable was found.")]);
    }
    blocks
}

/// Whether the GPU computes too little of the time, or a finding says so.
pub(crate) fn is_actionable(run: &Run<'_>) -> bool {
    let p = &run.analysis.prepared;
    p.utilization.computation_time_percent < p.thresholds.get(Threshold::UtilComputeOk)
        || run.analysis.findings.iter().any(|f| f.category == KEY)
}

/// What is below the title.
pub(crate) fn body(run: &Run<'_>, place: Place) -> Vec<Block> {
    let Some(system) = &run.analysis.system else {
        return vec![Block::paragraph("No GPU event of the trace has a time.")];
    };
    let m = CpuIdleMetrics::of(system, &run.analysis.prepared.utilization);
    let level = if place == Place::File { 2 } else { 4 };
    let mut blocks = vec![idle_line(run)];
    if place == Place::File {
        blocks.push(Block::heading(level, "Utilization Breakdown"));
        blocks.push(Block::Table(utilization(&m)));
    }
    let gaps = &m.gap_analysis;
    let told = place == Place::File || run.analysis.findings.iter().any(|f| f.category == KEY && is_recommendation(f));
    if !gaps.by_class.is_empty() {
        blocks.push(Block::heading(level, "Gap Classes"));
        blocks.push(Block::Table(classes(gaps)));
    }
    if place == Place::File {
        blocks.push(Block::heading(level, "Gap Lengths"));
        blocks.push(Block::Table(lengths(gaps)));
    }
    if told && !gaps.top_gaps.is_empty() {
        blocks.push(Block::heading(level, "Longest Gaps"));
        blocks.push(Block::Table(longest(gaps, if place == Place::File { 10 } else { 5 })));
        blocks.push(Block::paragraph(VIEWER));
    }
    if told && !gaps.by_host_activity.is_empty() {
        blocks.push(Block::heading(level, "Host Activity During Gaps"));
        blocks.push(Block::Table(activities(gaps, if place == Place::File { 10 } else { 5 })));
    }
    if told {
        blocks.extend(patterns(&m, level));
    }
    if place == Place::File {
        blocks.extend(recommendations(run, level));
    }
    blocks
}

fn idle_line(run: &Run<'_>) -> Block {
    let u = &run.analysis.prepared.utilization;
    let mut text = format!("Idle Time: {} ms, {}% of the trace.", ms(u.idle_time_ms), pct(u.idle_time_percent));
    if let Some(s) = &run.analysis.system {
        text += &format!(" Severity: {}.", severity(CpuIdleMetrics::of(s, u).severity));
        text += &format!(
            " {}; {}, {} us on average.",
            counted(s.gaps.gaps.len(), "gap"),
            counted(s.kernels.count, "kernel"),
            us(s.kernels.mean_us())
        );
        if let Some(edges) = s.edge_note() {
            text += &format!(" {}", sentence(&edges));
        }
    }
    Block::paragraph(text)
}

fn utilization(m: &CpuIdleMetrics) -> Table {
    let u = &m.gpu_utilization;
    let mut table = Table::new(&["Part", ">% of Total"]);
    for (name, percent) in [
        ("Computation", u.computation_percent),
        ("Exposed communication", u.communication_percent),
        ("Exposed memory copies", u.memcpy_percent),
        ("Idle", u.idle_time_percent),
    ] {
        table.row([cell(name), cell(pct(percent.0))]);
    }
    table
}

fn classes(gaps: &GapAnalysis) -> Table {
    let mut table = Table::new(&["Class", "Meaning", ">Gaps", ">Time (ms)", ">% of Idle"]);
    for c in &gaps.by_class {
        table.row([
            Line::code(c.class.as_str()),
            cell(c.class.meaning()),
            cell(c.count.to_string()),
            cell(ms(c.time_ms.0)),
            cell(pct(c.percent_of_idle.0)),
        ]);
    }
    table
}

fn lengths(gaps: &GapAnalysis) -> Table {
    let mut table = Table::new(&["Length (us)", ">Gaps", ">Time (ms)"]);
    for b in &gaps.histogram {
        table.row([cell(b.bucket_us), cell(b.count.to_string()), cell(ms(b.time_ms.0))]);
    }
    table
}

fn longest(gaps: &GapAnalysis, most: usize) -> Table {
    let mut table =
        Table::new(&["Start (ms from the first event)", ">Length (us)", "Class", "Host operation", "Kernel after"]);
    for g in gaps.top_gaps.iter().take(most) {
        table.row([
            cell(jarvis_analyze::rounding::shown(g.start_ms.0, 3)),
            cell(us(g.duration_us.0)),
            Line::code(g.class.as_str()),
            g.host_activity.as_deref().filter(|_| g.is_doing).map_or_else(|| cell("-"), Line::code),
            Line::code(&short(&g.after_kernel)),
        ]);
    }
    table
}

/// A kernel name for a narrow column.
pub(crate) fn short(name: &str) -> String {
    shortened(name, 60, "...").into_owned()
}

fn activities(gaps: &GapAnalysis, most: usize) -> Table {
    let mut table = Table::new(&["Host operation", ">Gaps", ">Time (ms)", ">In it (ms)"]);
    for a in gaps.by_host_activity.iter().take(most) {
        table.row([Line::code(&a.name), cell(a.count.to_string()), cell(ms(a.time_ms.0)), cell(ms(a.covered_ms.0))]);
    }
    table
}

fn patterns(m: &CpuIdleMetrics, level: u8) -> Vec<Block> {
    if m.patterns_detected.is_empty() {
        return Vec::new();
    }
    let mut table = Table::new(&["Pattern", "Severity", "Evidence", "What to do"]);
    for p in &m.patterns_detected {
        table.row([
            Line::code(p.name),
            cell(severity(p.severity)),
            cell(&*p.evidence),
            cell(p.solution.as_deref().unwrap_or("-")),
        ]);
    }
    vec![Block::heading(level, "Detected Patterns"), Block::Table(table)]
}

/// A severity as a word.
pub(crate) fn severity(severity: Severity) -> &'static str {
    match severity {
        Severity::Critical => "critical",
        Severity::High => "high",
        Severity::Medium => "medium",
        Severity::Low => "low",
        Severity::Acceptable => "acceptable",
    }
}

/// The advice of this category's findings, and what a slow host means for the others.
fn recommendations(run: &Run<'_>, level: u8) -> Vec<Block> {
    let mut blocks = vec![Block::heading(level, "Recommendations")];
    let found: Vec<_> = run.analysis.findings.iter().filter(|f| f.category == KEY).collect();
    let system = run.analysis.system.as_ref();
    // No finding speaks of these waits, but something can be done about them.
    let of_device = system.and_then(|s| s.device_wait_note(&run.analysis.prepared.utilization));
    if let Some(note) = &of_device {
        blocks.push(Block::paragraph(format!("{} {}", sentence(note), DEVICE_WAIT_ACTION)));
    } else if found.is_empty() {
        blocks.push(Block::paragraph("No change is worth a recommendation."));
    }
    for f in found {
        blocks.extend(advice(run, f, level + 1));
    }
    if let Some(note) = system.and_then(|s| s.host.note()) {
        blocks.push(Block::paragraph(sentence(&note)));
    }
    blocks
}
