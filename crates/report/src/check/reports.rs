//! The two reports for people: headings, the summary's numbers, the hardware and the model in the appendix, marks of
//! the top operations.

use super::folder::{Folder, Problems};
use super::json::Json;
use super::markdown::{Document, Line, letters, names, numbers, tables};
use super::{Facts, list, recommendations};
use crate::render::markdown::code;
use crate::run::NAMELESS;
use crate::sections::cross::PLAIN_MARKS;
use crate::sections::words::{PARAGRAPH_WORDS, count_words};

/// Most lines of the summary.
const SUMMARY_LINES: usize = 20;

/// How far shown percentages may lie from the timeline.
const PERCENT_TOLERANCE: f64 = 1.0;

/// Headings of the short report; the first that begins so counts.
const FAIR: [&str; 5] = ["Executive Summary", "Top Operations", "Recommendations", "Detailed Analysis", "Appendix"];

/// The same of a comparison.
const FAIR_COMPARED: [&str; 5] =
    ["Executive Summary", "Key Findings", "Recommendations", "Detailed Comparison", "Appendix"];

/// Rows of the summary's table, and where their numbers come from.
const METRICS: [(&str, &str); 4] = [
    ("Total Compute Time", "computation_time_ms"),
    ("GPU Utilization", "computation_time_percent"),
    ("Idle Time", "idle_time_percent"),
    ("Exposed Communication", "exposed_comm_time_percent"),
];

/// The last row of that table.
pub(super) const TOP_CATEGORY: &str = "Top Bottleneck Category";

/// Headings of the long report.
const ROUGH: [&str; 10] = [
    "Analysis Process Summary",
    "Step 1: Identify Traces & Setup",
    "Step 2: Generate Reports",
    "Step 3-5: Prepare Category Data",
    "Step 6: Category Analyses",
    "Step 7: Optimization Paths Determination",
    "Raw Data Exploration",
    "Tree Analysis",
    "Analysis Gaps",
    "Questions for Further Investigation",
];

/// The same of a comparison.
const ROUGH_COMPARED: [&str; 12] = [
    "Analysis Process Summary",
    "Step 1: Identify Traces & Setup",
    "Step 2: Individual Reports",
    "Step 3: Overall Timing",
    "Step 4: Per-Operation Comparison",
    "Step 5: Opportunities on Target",
    "Step 6: Explanations",
    "Step 7: Priorities",
    "Raw Data Exploration",
    "Tree Analysis",
    "Analysis Gaps",
    "Questions for Further Investigation",
];

/// A report and where its problems go.
pub(super) struct Report<'a> {
    pub(super) name: &'static str,
    pub(super) document: Document<'a>,
}

pub(super) fn check(folder: &Folder<'_>, facts: &Facts<'_>, problems: &mut Problems) {
    let compared = facts.is_comparative();
    let [fair, rough] = if compared {
        ["comparative_analysis_fair.md", "comparative_analysis_rough.md"]
    } else {
        ["standalone_analysis_fair.md", "standalone_analysis_rough.md"]
    };
    let mut cards = None;
    if let Some(text) = folder.text(fair) {
        gate(&text, fair, problems);
        let report = Report { name: fair, document: Document::of(&text) };
        headings(&report, if compared { &FAIR_COMPARED } else { &FAIR }, problems);
        summary(&report, problems);
        recommendations::duplicates(&report, problems);
        cards = Some(recommendations::check(&report, facts, problems));
        if !compared {
            metrics(&report, facts, problems);
            top_table(&report, problems);
            details(&report, facts, problems);
            appendix(&report, facts, problems);
        }
    }
    if let Some(text) = folder.text(rough) {
        gate(&text, rough, problems);
        let report = Report { name: rough, document: Document::of(&text) };
        headings(&report, if compared { &ROUGH_COMPARED } else { &ROUGH }, problems);
        if !compared {
            marks(&report, facts, cards, problems);
        }
    }
}

/// A report is a text of some length.
pub(super) fn gate(text: &str, name: &str, problems: &mut Problems) {
    let characters = text.chars().count();
    let is_foreign = || 2 * text.chars().filter(|c| !c.is_ascii()).count() > characters;
    // A foreign character has a byte more than one, if not several.
    let may_be_foreign = 2 * (text.len() - characters) > characters;
    if text.len() < 100 || text.trim_start().starts_with('{') || may_be_foreign && is_foreign() {
        problems.fail("gate", name, "this is no report");
    }
}

/// W9: the headings are there, in order.
pub(super) fn headings(report: &Report<'_>, wanted: &[&str], problems: &mut Problems) {
    let titles: Vec<&str> = report.document.headings().map(|(_, title, _)| title).collect();
    let mut from = 0;
    for heading in wanted {
        match titles[from..].iter().position(|t| t.starts_with(heading)) {
            Some(at) => from += at + 1,
            None if titles.iter().any(|t| t.starts_with(heading)) => {
                problems.fail("W9", report.name, format!("the heading `{heading}` stands in the wrong place"));
            }
            None => problems.fail("W9", report.name, format!("no heading `{heading}`")),
        }
    }
}

/// The summary is short: one paragraph of one line, a table, the top operations. A list of what the recordings lost may
/// stand before it, however long.
fn summary(report: &Report<'_>, problems: &mut Problems) {
    let Some(lines) = report.document.titled("Executive Summary") else { return };
    let begins = lines.iter().position(|l| l.says() && !l.is_item()).unwrap_or(lines.len());
    let lines = &lines[begins..];
    let said = lines.iter().filter(|l| l.says()).count();
    if said > SUMMARY_LINES {
        let text = format!("the summary has {said} lines, at most {SUMMARY_LINES} are allowed");
        problems.fail("limit", report.name, text);
    }
    if !lines.iter().any(Line::is_table) {
        problems.fail("W9", report.name, "the summary has no table");
    }
    let Some(first) = lines.iter().find(|l| l.says()) else { return };
    if first.is_table() || first.heading().is_some() {
        problems.fail_at("limit", report.name, first.number, "the summary does not begin with a paragraph");
        return;
    }
    let words = count_words(first.text);
    if words > PARAGRAPH_WORDS {
        let text = format!("the paragraph has {words} words, at most {PARAGRAPH_WORDS} are allowed");
        problems.fail_at("limit", report.name, first.number, text);
    }
    if lines.iter().any(|l| l.number == first.number + 1 && l.says() && !l.is_table()) {
        problems.fail_at("limit", report.name, first.number, "the paragraph is longer than one line");
    }
}

/// W10: the numbers of the summary are those of the timeline. Line and text of the category with most time, if it is
/// there.
pub(super) fn timeline(
    report: &Report<'_>,
    expected: &[(&str, &str)],
    facts: &Facts<'_>,
    problems: &mut Problems,
) -> Option<(usize, String)> {
    let lines = report.document.titled("Executive Summary")?;
    let all = tables(lines, &["Metric"]);
    let table = all.first()?;
    let time = &facts.manifest["gpu_utilization"];
    let row = |name: &str| table.rows.iter().find(|(_, cells)| cells.first().is_some_and(|c| c == name));
    for (name, key) in expected {
        let Some((line, cells)) = row(name) else {
            problems.fail("W10", report.name, format!("the summary has no row `{name}`"));
            continue;
        };
        let shown = cells.get(1).and_then(|c| numbers(c).first().copied());
        let Some(value) = time[*key].as_f64() else { continue };
        let tolerance = if key.ends_with("_ms") { 0.01 * value + 0.006 } else { PERCENT_TOLERANCE };
        if shown.is_none_or(|shown| (shown - value).abs() > tolerance) {
            let text = format!("`{name}` is {}, the timeline says {value}", cells.get(1).map_or("-", String::as_str));
            problems.fail_at("W10", report.name, *line, text);
        }
    }
    let Some((line, cells)) = row(TOP_CATEGORY) else {
        problems.fail("W10", report.name, format!("the summary has no row `{TOP_CATEGORY}`"));
        return None;
    };
    Some((*line, cells.get(1).cloned().unwrap_or_default()))
}

/// The same of the short report, and that the category has most time.
fn metrics(report: &Report<'_>, facts: &Facts<'_>, problems: &mut Problems) {
    let Some((line, named)) = timeline(report, &METRICS, facts, problems) else { return };
    let share = |c: &Json<'_>| c["percent_of_compute"].as_f64().unwrap_or_default();
    let largest = facts.categories("compute_kernel").map(share).fold(0.0, f64::max);
    let is = |c: &&Json<'_>| c["display_name"].as_str().is_some_and(|d| letters(&named).starts_with(&letters(d)));
    let top = facts.categories("compute_kernel").filter(is).map(share).fold(0.0, f64::max);
    if top + 0.01 < largest {
        problems.fail_at("W10", report.name, line, format!("`{named}` is not the category with most time"));
    }
}

/// The table of top operations stands once.
fn top_table(report: &Report<'_>, problems: &mut Problems) {
    let count = tables(&report.document.lines, &["Rank", "Operation"]).len();
    if count != 1 {
        problems.fail("W9", report.name, format!("the table of top operations stands {count} times"));
    }
}

/// Detailed sections are numbered and in order of their share; every category of weight has one.
fn details(report: &Report<'_>, facts: &Facts<'_>, problems: &mut Problems) {
    // A share of just this much may have been rounded up.
    const WEIGHT: f64 = 0.5;
    let Some(lines) = report.document.titled("Detailed Analysis") else { return };
    let titles: Vec<(&str, usize)> =
        lines.iter().filter_map(|l| l.heading().filter(|(level, _)| *level == 3).map(|(_, t)| (t, l.number))).collect();
    let mut last = f64::INFINITY;
    for ((title, line), number) in titles.iter().zip(1..) {
        if !title.starts_with(&format!("{number}. ")) {
            problems.fail_at("order", report.name, *line, format!("section {number} is called `{title}`"));
        }
        let share = title.split_once("% of compute").and_then(|(before, _)| numbers(before).last().copied());
        if let Some(share) = share.filter(|_| !title.contains("Unanalysed remainder")) {
            if share > last {
                problems.fail_at("order", report.name, *line, "sections are not in order of their share of compute");
            }
            last = share;
        }
    }
    for category in facts.categories("compute_kernel") {
        let heavy = category["percent_of_compute"].as_f64().is_some_and(|p| p > WEIGHT);
        let Some(display) = category["display_name"].as_str().filter(|_| heavy) else { continue };
        // One that is small by the user's own threshold stands in a list.
        let name = letters(&code(display));
        let is_named = |title: &str| letters(title).contains(&name);
        if !titles.iter().any(|(title, _)| is_named(title)) && !lines.iter().any(|l| is_named(l.text)) {
            problems.fail("coverage", report.name, format!("no detailed section on `{display}`"));
        }
    }
}

/// W12 and W13: platform, peaks and model, with the values that were used.
pub(super) fn appendix(report: &Report<'_>, facts: &Facts<'_>, problems: &mut Problems) {
    let Some(appendix) = report.document.titled("Appendix") else { return };
    let model = report.document.section(|level, title| level == 3 && title.starts_with("Model")).unwrap_or(appendix);
    let hardware = report.document.titled("Hardware Reference").unwrap_or_default();
    let line = |lines: &[Line<'_>], label: &str| {
        lines.iter().find(|l| l.text.contains(label)).map(|l| l.text.split_once(label).map_or("", |p| p.1).to_owned())
    };
    let platform = facts.manifest["platform"].as_str().unwrap_or_default();
    if line(hardware, "Platform").is_none_or(|text| !names(&text, platform)) {
        problems.fail("W12", report.name, format!("the hardware reference does not name {platform}"));
    }
    let peaks = &facts.manifest["peaks"];
    let near = |shown: f64, value: &Json<'_>| value.as_f64().is_some_and(|v| (shown - v).abs() <= 0.005 * v);
    let shown = line(hardware, "Peak HBM BW").map(|t| numbers(&t)).unwrap_or_default();
    if !shown.iter().any(|&s| near(s, &peaks["peak_hbm_bw_tbs"])) {
        problems.fail("W12", report.name, format!("peak bandwidth is {} TB/s", peaks["peak_hbm_bw_tbs"]));
    }
    let rates = peaks["max_achievable_tflops"].as_object();
    let shown = line(hardware, "Peak MAF").map(|t| numbers(&t)).unwrap_or_default();
    let of_matrices = |(key, rate)| str::starts_with(key, "matrix_").then_some(rate);
    let rates: Vec<&Json<'_>> = rates.map(|r| r.iter().filter_map(of_matrices).collect()).unwrap_or_default();
    let known = |s: &f64| rates.iter().any(|v| near(*s, v));
    if !rates.is_empty() && !shown.iter().any(known) {
        problems.fail("W12", report.name, "no peak matrix rate that was used");
    }
    for key in ["model", "architecture", "scale", "precision"] {
        // What the user calls the model counts more than what its modules are called.
        let given = facts.findings["model"]["name"].as_str().filter(|name| key == "model" && *name != NAMELESS);
        let inferred = || facts.model[key].as_str().filter(|v| !v.starts_with("Cannot be inferred"));
        let Some(value) = given.or_else(inferred) else { continue };
        if !model.iter().any(|l| names(l.text, value)) {
            problems.fail("W13", report.name, format!("the appendix does not give the {key} `{value}`"));
        }
    }
}

/// Every top operation has its mark in the long report.
fn marks(report: &Report<'_>, facts: &Facts<'_>, cards: Option<usize>, problems: &mut Problems) {
    let all = tables(&report.document.lines, &["Operation", "Finding"]);
    let marked: Vec<(String, &str, usize)> = all
        .iter()
        .filter_map(|t| Some((t, t.column("Operation")?, t.column("Finding")?)))
        .flat_map(|(t, op, mark)| t.rows.iter().map(move |(line, cells)| (line, cells, op, mark)))
        .filter_map(|(line, cells, op, mark)| Some((letters(cells.get(op)?), cells.get(mark)?.as_str(), *line)))
        .collect();
    for operation in list(&facts.manifest["top_operations"]).filter_map(|t| t["name"].as_str()) {
        let name = letters(&code(operation));
        match marked.iter().find(|(marked, ..)| *marked == name) {
            None => problems.fail("top_ops", report.name, format!("no finding mark for `{operation}`")),
            Some((_, mark, line)) if !is_mark(mark, cards) => {
                problems.fail_at("top_ops", report.name, *line, format!("`{mark}` is no finding mark"));
            }
            Some(_) => {}
        }
    }
}

/// What may stand in the column `Finding`; recommendations have to be there.
fn is_mark(mark: &str, cards: Option<usize>) -> bool {
    // Judged and not recommended: of low rank, told with what it is part of, or without anything to save.
    if let Some(rank) = mark.strip_prefix("finding ") {
        return rank.starts_with(|c: char| c.is_ascii_digit()) && mark.ends_with(" priority");
    }
    let named = mark.strip_prefix("part of `").and_then(|name| name.strip_suffix('`'));
    let spent = mark.strip_prefix("bottleneck ").and_then(|id| id.strip_suffix(", no saving told"));
    if let Some(name) = named.or(spent) {
        return !name.is_empty();
    }
    let numbered = ["recommendation R", "covered by R"].iter().find_map(|p| mark.strip_prefix(p));
    let number: Option<usize> = numbered.and_then(|n| n.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok());
    match number {
        Some(n) => n >= 1 && cards.is_none_or(|cards| n <= cards),
        None => PLAIN_MARKS.iter().any(|f| mark.starts_with(f)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn losses_of_both_sides_may_stand_before_the_paragraph() {
        let failures = |paragraph: &str| {
            let losses = "- Of the target: cut.\n- Of the reference: cut.\n".repeat(SUMMARY_LINES);
            let text = format!("## Executive Summary\n\n{losses}\n{paragraph}\n\n| a |\n| --- |\n| 1 |\n");
            let mut problems = Problems::default();
            summary(&Report { name: "fair.md", document: Document::of(&text) }, &mut problems);
            problems.into_list().len()
        };
        assert_eq!((failures("One line."), failures("Two\nlines.")), (0, 1));
    }

    #[test]
    fn marks_are_those_of_the_contract() {
        assert!(is_mark("recommendation R3", Some(3)));
        assert!(is_mark("covered by R1", None));
        assert!(is_mark("within expected", Some(0)));
        assert!(!is_mark("recommendation R4", Some(3)));
        assert!(!is_mark("recommendation", Some(3)));
        assert!(is_mark("finding 4 of low priority", Some(3)));
        assert!(is_mark("part of `MixtralExperts`", Some(3)));
        assert!(is_mark("bottleneck other-1, no saving told", Some(3)));
        assert!(!is_mark("part of ``", None));
        assert!(!is_mark("bottleneck", None));
        assert!(!is_mark("", None));
    }
}
