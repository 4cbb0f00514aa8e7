//! The detailed analysis: one section a category, with what the recommendations rest on.

use jarvis_analyze::finding::{Evidence, Finding, PatternId, Tier};
use jarvis_analyze::prepared::Category;
use jarvis_analyze::thresholds::Threshold;
use jarvis_trace::InOrder;

use crate::Run;
use crate::blocks::{Block, Line, Table};
use crate::replay::in_report;
use crate::sections::category::{self, Place};
use crate::sections::cross::{is_recommendation, recommendations, spans_operations};
use crate::sections::kernels::{self, launched_without_operation};
use crate::sections::patterns::operations;
use crate::sections::words::{cell, counted, ms, pct, saves, sentence};
use crate::sections::{detail_name, fusion, idle, multi_kernel};

/// Most facts that a finding rests on.
const MOST_EVIDENCE: usize = 4;

/// A section in the making.
struct Section {
    anchor: String,
    title: String,
    body: Vec<Block>,
}

/// The part.
pub(crate) fn blocks(run: &Run<'_>) -> Vec<Block> {
    let p = &run.analysis.prepared;
    let system_first = p.utilization.computation_time_percent < p.thresholds.get(Threshold::UtilComputeOk);
    let (compute, small) = compute_sections(run);
    let system = system_sections(run);
    let mut sections = if system_first { system } else { Vec::new() };
    let later = if system_first { Vec::new() } else { system_sections(run) };
    sections.extend(compute);
    sections.extend(later);
    sections.extend(other_sections(run));
    sections.extend(kernel_section(run));
    sections.extend(further(run));
    sections.extend(remainder(run, &small));
    let mut blocks = vec![Block::heading(2, "Detailed Analysis")];
    if sections.is_empty() {
        blocks.push(Block::paragraph(
            "No GPU time of this trace belongs to an operation, so there is no detail to tell.",
        ));
    }
    for (i, s) in sections.into_iter().enumerate() {
        blocks.push(Block::Anchor(format!("detail-{}", s.anchor)));
        blocks.push(Block::heading(3, format!("{}. {}", i + 1, s.title)));
        blocks.extend(s.body);
    }
    blocks
}

/// Sections of the categories, most time first, and the keys of those too small for one.
fn compute_sections(run: &Run<'_>) -> (Vec<Section>, Vec<String>) {
    let floor = run.analysis.prepared.thresholds.get(Threshold::ReportMinPercent);
    let linked = |key: &str| recommendations(run).iter().any(|f| f.category == key);
    let without_operations = kernels::share(&launched_without_operation(run)).is_some();
    let (mut sections, mut small) = (Vec::new(), Vec::new());
    for outcome in &run.analysis.outcomes {
        let Some(m) = outcome.metrics() else { continue };
        // Copies are no computing, but may take the GPU as long.
        let copies = run.analysis.prepared.utilization.percent_of_total(m.copy_time_ms.0);
        if m.percent_of_compute.0.max(copies) < floor && !linked(&outcome.category) {
            small.push(outcome.category.to_string());
            continue;
        }
        let bare = m.operations.is_empty();
        let made_up = || m.rows(&run.analysis.prepared).all(|row| is_made_up(&row.name));
        let mut body = if !bare && without_operations && made_up() {
            let count: usize = m.rows(&run.analysis.prepared).map(|row| row.count).sum();
            // Short enough to stand with every category it holds for.
            let see = Line::prose(&format!("{}; see ", counted(count, "kernel")));
            vec![Block::Paragraph(see.and_link("Kernels Without Operations", "detail-kernels").and_prose("."))]
        } else {
            category::body(run.analysis, m, Place::Fair)
        };
        body.extend(behind(run, &outcome.category));
        let share = if bare { String::new() } else { format!(" ({}% of compute)", pct(m.percent_of_compute.0)) };
        let title = format!("{}{share}", outcome.display);
        // Attention without operations of its own counts with the time of those that make it up.
        let told = recommendations(run).into_iter().filter(|f| *f.category == *outcome.category).map(|f| f.time_ms);
        let time = if bare { told.sum() } else { m.total_time_ms.0 };
        sections.push((time, Section { anchor: outcome.category.to_string(), title, body }));
    }
    sections.order_by(|a, b| b.0.total_cmp(&a.0));
    (sections.into_iter().map(|(_, s)| s).collect(), small)
}

/// Whether the performance report made a row of a kernel that no operation launched.
pub(crate) fn is_made_up(operation: &str) -> bool {
    operation.ends_with("(Synthetic Op)")
}

/// Sections of the system tier that have something to say.
fn system_sections(run: &Run<'_>) -> Vec<Section> {
    type System = (&'static str, fn(&Run<'_>) -> bool, fn(&Run<'_>, Place) -> Vec<Block>);
    let all: [System; 3] = [
        (idle::KEY, idle::is_actionable, idle::body),
        (multi_kernel::KEY, multi_kernel::is_notable, multi_kernel::body),
        (fusion::KEY, fusion::is_actionable, fusion::body),
    ];
    let mut sections = Vec::new();
    for (key, is_actionable, body) in all {
        let findings = run.analysis.findings.iter().any(|f| f.category == key && is_recommendation(f));
        if is_actionable(run) || findings {
            let mut body = body(run, Place::Fair);
            body.extend(behind(run, key));
            sections.push(Section { anchor: key.to_owned(), title: detail_name(run, key), body });
        }
    }
    sections
}

/// Sections for findings whose category has no rows of its own.
fn other_sections(run: &Run<'_>) -> Vec<Section> {
    let system = [idle::KEY, multi_kernel::KEY, fusion::KEY];
    let mut sections: Vec<Section> = Vec::new();
    for f in recommendations(run) {
        let analysed = run.analysis.outcomes.iter().any(|o| *o.category == *f.category && o.metrics().is_some());
        let known =
            analysed || system.contains(&f.category.as_str()) || sections.iter().any(|s| s.anchor == f.category);
        if !known {
            let body = behind(run, &f.category);
            sections.push(Section { anchor: f.category.clone(), title: detail_name(run, &f.category), body });
        }
    }
    sections
}

/// What the recommendations of a category rest on.
fn behind(run: &Run<'_>, category: &str) -> Vec<Block> {
    let mut blocks = Vec::new();
    for f in recommendations(run).into_iter().filter(|f| f.category == category) {
        blocks.push(Block::heading(4, format!("Behind R{}", f.rank)));
        blocks.push(Block::List { ordered: false, items: rests_on(f) });
        if spans_operations(f) {
            blocks.extend(operations(f));
        }
    }
    blocks
}

fn rests_on(f: &Finding) -> Vec<(Option<String>, Line)> {
    let mut items = vec![(Some("Basis".to_owned()), Line::from(sentence(&f.impact.basis)))];
    // What the tables of the section show is not told again.
    let shown = |e: &&Evidence| match f.tier {
        Tier::System => f.pattern != PatternId::LAUNCH_BOUND && e.uid.is_some() && e.row.contains("by_"),
        _ => e.table != "unified_perf_summary",
    };
    let mut facts: Vec<&str> = Vec::new();
    for fact in f.evidence.iter().filter(shown).map(|e| e.fact.as_str()) {
        if !facts.contains(&fact) {
            facts.push(fact);
        }
    }
    let facts: Vec<&str> = match f.tier {
        // The tables of a category have what its rows show.
        Tier::Compute if !spans_operations(f) => Vec::new(),
        _ => facts.into_iter().take(MOST_EVIDENCE).collect(),
    };
    for (label, more) in [("Path A, further", &f.paths.algorithmic), ("Path B, further", &f.paths.kernel)] {
        let more: Vec<&str> = more.iter().skip(1).map(String::as_str).collect();
        if !more.is_empty() {
            items.push((Some(label.to_owned()), more.join(" ").into()));
        }
    }
    items.extend(facts.into_iter().map(|fact| (Some("Seen".to_owned()), Line::from(sentence(fact)))));
    match (&f.replay_package, &f.replay_reason) {
        (Some(path), _) => items.push((Some("Replay".to_owned()), Line::code(path))),
        (None, Some(reason)) if f.tier != Tier::System => {
            items.push((Some("Replay".to_owned()), sentence(&in_report(reason)).into()));
        }
        (None, _) => {}
    }
    items
}

/// Kernels that belong to no operation.
fn kernel_section(run: &Run<'_>) -> Option<Section> {
    let found = launched_without_operation(run);
    let share = kernels::share(&found)?;
    let title = format!("Kernels Without Operations ({}% of kernel time)", pct(share.min(100.0)));
    Some(Section { anchor: "kernels".to_owned(), title, body: kernels::table(&found) })
}

/// Findings that are no recommendations.
fn further(run: &Run<'_>) -> Option<Section> {
    let rest: Vec<&Finding> = run.analysis.findings.iter().filter(|f| !is_recommendation(f)).collect();
    if rest.is_empty() {
        return None;
    }
    let mut table = Table::new(&["Rank", "Finding", "Priority", ">Time (ms)", "Saves"]);
    for f in rest {
        table.row([
            cell(f.rank.to_string()),
            cell(&*f.title),
            cell(f.priority.title()),
            cell(ms(f.time_ms)),
            cell(saves(run.analysis, f)),
        ]);
    }
    Some(Section {
        anchor: "further".to_owned(),
        title: "Further Findings".to_owned(),
        body: vec![Block::Table(table)],
    })
}

/// Categories too small for a section, and those that failed.
fn remainder(run: &Run<'_>, small: &[String]) -> Option<Section> {
    let p = &run.analysis.prepared;
    let failed = |key: &str| run.analysis.failures().any(|o| *o.category == *key);
    // What takes no time is no remainder.
    let is_small = |c: &Category| c.time_ms > 0.0 && small.iter().any(|s| **s == *c.key);
    let rest: Vec<_> = p.categories.iter().filter(|c| is_small(c) || failed(&c.key)).collect();
    if rest.is_empty() {
        return None;
    }
    let share: f64 = rest.iter().map(|c| c.percent_of_compute).sum();
    let items = rest.iter().map(|c| {
        let note = if failed(&c.key) { ", analysis failed" } else { "" };
        format!("{}: {} ms ({}%){note}", c.display, ms(c.time_ms), pct(c.percent_of_compute))
    });
    let title = format!("Unanalysed remainder ({}% of compute)", pct(share));
    Some(Section { anchor: "remainder".to_owned(), title, body: vec![Block::list(items)] })
}
