//! Operations that could be one kernel: what they launch, what they take, what one kernel would take.

use jarvis_analyze::finding::Finding;
use jarvis_analyze::patterns::candidates::{FusionCandidate, FusionEstimate};
use jarvis_analyze::patterns::{Confidence, Pattern, least_saving_ms};

use super::category::Place;
use super::cross::is_recommendation;
use super::idle::short;
use super::words::{cell, counted, ms, pct, sentence, us};
use crate::Run;
use crate::blocks::{Block, Line, Table};

/// The file that findings of patterns name as their source.
const CANDIDATES: &str = "fusion_candidates.json";

/// Key of the category.
pub(crate) const KEY: &str = "kernel_fusion";

/// Most candidates told one by one in the file, and in the fair report.
const BLOCKS: [usize; 2] = [20, 6];

/// Most kernels of a candidate.
const MOST_KERNELS: usize = 16;

/// Whether there is any candidate.
pub(crate) fn is_present(run: &Run<'_>) -> bool {
    !run.analysis.fusion_candidates.is_empty()
}

/// Whether some estimate is worth a change.
pub(crate) fn is_actionable(run: &Run<'_>) -> bool {
    !worth(run).is_empty()
}

/// A candidate with its estimate.
pub(crate) type Found<'a> = (&'a FusionCandidate, &'a FusionEstimate);

fn all<'a>(run: &Run<'a>) -> impl Iterator<Item = Found<'a>> {
    run.analysis.fusion_candidates.iter().zip(&run.analysis.fusion.impact_estimates)
}

/// Candidates whose saving of kernel time is worth speaking of, or that a finding speaks of together with others, most
/// first.
pub(crate) fn worth<'a>(run: &Run<'a>) -> Vec<Found<'a>> {
    let p = &run.analysis.prepared;
    let floor = least_saving_ms(&p.thresholds, p.utilization.computation_time_ms);
    let worth = |(c, e): &Found<'_>| {
        let is_saved = e.confidence < Confidence::Low && e.savings_ms_low.is_some_and(|s| s > 0.0);
        is_saved && (e.savings_ms_high.is_some_and(|s| s >= floor) || finding(run, c).is_some())
    };
    all(run).filter(worth).collect()
}

/// `system_findings/kernel_fusion_findings.md`.
pub(crate) fn file(run: &Run<'_>) -> Vec<Block> {
    let mut blocks = vec![
        Block::heading(1, "Kernel Fusion Analysis Summary"),
        Block::paragraph("Status: SUCCESS"),
        Block::heading(2, "Overview"),
    ];
    blocks.extend(body(run, Place::File));
    blocks
}

/// What is below the title.
pub(crate) fn body(run: &Run<'_>, place: Place) -> Vec<Block> {
    let worth = worth(run);
    let m = &run.analysis.fusion;
    let mut text = format!(
        "{} of operations that could run as one kernel, {} ms in all; {} a saving of kernel time worth speaking of.",
        counted(m.candidate_count, "group"),
        ms(m.total_time_ms),
        match worth.len() {
            0 => "none brings".to_owned(),
            1 => "1 brings".to_owned(),
            n => format!("{n} bring"),
        }
    );
    if worth.is_empty() {
        text += " Nothing actionable was found.";
        return vec![Block::paragraph(text)];
    }
    let mut blocks = vec![Block::paragraph(text)];
    let (most, level) = if place == Place::File { (BLOCKS[0], 3) } else { (BLOCKS[1], 4) };
    if place == Place::Fair {
        blocks.push(Block::Table(overview(run, &worth, BLOCKS[0])));
        return blocks;
    }
    for (i, found) in worth.iter().take(most).enumerate() {
        blocks.extend(candidate(run, *found, i + 1, level));
    }
    if worth.len() > most {
        blocks.push(Block::paragraph(format!(
            "{} stand in `category_data/fusion_candidates.json`.",
            counted(worth.len() - most, "smaller group")
        )));
    }
    blocks
}

/// All candidates on one line each.
fn overview(run: &Run<'_>, found: &[Found<'_>], most: usize) -> Table {
    let mut table = Table::new(&[
        "Module",
        "Pattern",
        ">Calls",
        ">Kernels per Call",
        ">Time (ms)",
        ">Kernel Time Saved (ms)",
        "Confidence",
        "Told in",
    ]);
    for (c, e) in found.iter().take(most) {
        table.row([
            name(c),
            Line::code(c.pattern.as_str()),
            cell(c.instance_count.to_string()),
            cell(c.kernel_count.to_string()),
            cell(ms(e.time_ms)),
            cell(saving(e)),
            cell(word(e.confidence)),
            cell(told_in(run, c)),
        ]);
    }
    table
}

fn name(c: &FusionCandidate) -> Line {
    c.base_name.as_deref().map_or_else(|| cell("-"), Line::code)
}

/// What a candidate saves, in milliseconds.
pub(crate) fn saving(e: &FusionEstimate) -> String {
    match (e.savings_ms_low, e.savings_ms_high) {
        (Some(low), Some(high)) => format!("{} to {}", ms(low), ms(high)),
        _ => "not estimated".to_owned(),
    }
}

/// A confidence as a word.
pub(crate) fn word(c: Confidence) -> &'static str {
    match c {
        Confidence::High => "high",
        Confidence::Medium => "medium",
        Confidence::Low => "low",
    }
}

/// The finding that speaks of a candidate: the one that rests on candidates of its kind.
pub(crate) fn finding<'a>(run: &Run<'a>, c: &FusionCandidate) -> Option<&'a Finding> {
    let code = c.pattern.as_str().trim_end_matches("_BWD");
    let of_kind = |row: &str| row.split(' ').next().is_some_and(|kind| kind.trim_end_matches("_BWD") == code);
    let same = |f: &&Finding| f.evidence.iter().any(|e| e.table == CANDIDATES && of_kind(&e.row));
    run.analysis.findings.iter().find(same)
}

fn told_in(run: &Run<'_>, c: &FusionCandidate) -> String {
    match finding(run, c) {
        Some(f) if is_recommendation(f) => format!("recommendation R{}", f.rank),
        Some(f) => format!("finding {}", f.rank),
        None => "-".to_owned(),
    }
}

fn candidate(run: &Run<'_>, (c, e): Found<'_>, number: usize, level: u8) -> Vec<Block> {
    let heading = Line::prose(&format!("{number}. ")).and_code(c.base_name.as_deref().unwrap_or(c.pattern.as_str()));
    let mut blocks = vec![Block::Heading(level, heading)];
    let fused = e.fused_time_ms.map_or_else(|| "not estimated".to_owned(), |t| format!("{} ms at best", ms(t)));
    let total = run.analysis.prepared.utilization.computation_time_ms;
    let share = if total > 0.0 { pct(100.0 * e.time_ms / total) } else { "-".to_owned() };
    blocks.push(Block::facts([
        ("Pattern", Line::code(c.pattern.as_str())),
        ("Called from", Line::prose(if c.call_site == "unknown" { "not known" } else { c.call_site })),
        (
            "Simple opportunity",
            format!("{}, {} ms together ({share}% of compute)", counted(c.instance_count, "call"), ms(e.time_ms))
                .into(),
        ),
        ("Fused estimate", format!("{fused}; {} ms of kernel time saved", saving(e)).into()),
        ("Confidence", confidence(run, c, e).into()),
        ("Finding", told_in(run, c).into()),
    ]));
    let mut table = Table::new(&["Kernel", "Operation", "Type", ">us", "Modelled"]);
    for k in c.kernels.iter().take(MOST_KERNELS) {
        table.row([
            Line::code(&short(&k.name)),
            Line::code(&k.op),
            cell(k.kind.replace('_', " ")),
            cell(us(k.dur_us_mean)),
            cell(if k.has_perf_data { "yes" } else { "no" }),
        ]);
    }
    blocks.push(Block::Table(table));
    if c.kernels.len() > MOST_KERNELS {
        blocks.push(Block::paragraph(format!("{} per call.", counted(c.kernels.len() - MOST_KERNELS, "more kernel"))));
    }
    if let Some(f) = finding(run, c) {
        let path = |p: &[String]| if p.is_empty() { "None.".to_owned() } else { p.join(" ") };
        blocks.push(Block::facts([("Path A", path(&f.paths.algorithmic)), ("Path B", path(&f.paths.kernel))]));
    }
    blocks
}

/// The confidence with its reason: what the pattern rests on.
pub(crate) fn confidence(run: &Run<'_>, c: &FusionCandidate, e: &FusionEstimate) -> String {
    let pattern = |p: &&Pattern| p.code == c.pattern && p.module == c.base_name && p.anchor_dims == c.input_dims;
    let found = run.analysis.patterns.iter().find(pattern);
    let reason = found.map(|p| p.evidence.join("; ")).filter(|t| !t.is_empty());
    let models =
        format!("{} of {} have a performance model", e.modeled_kernel_count, counted(e.kernel_count, "kernel"));
    match reason {
        Some(reason) => sentence(&format!("{}: {reason}; {models}", word(e.confidence))),
        None => sentence(&format!("{}: {models}", word(e.confidence))),
    }
}
