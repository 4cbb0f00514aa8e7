//! `analysis.md` and what belongs to it, where it was asked for: headings, numbers, cards, marks, the picture, and that
//! the machine form says the same.

mod marks;
mod priorities;

use super::Facts;
use super::folder::{Folder, Problems};
use super::json::Json;
use super::list;
use super::markdown::{Document, Line, letters, tables};
use super::reports::{self, Report};
use super::text::targets;
use crate::render::markdown::code;
use crate::sections::analysis_md::{COLUMNS, PLOT, PLOT_TEXT, PRIORITY_DATA, REPORT};
use crate::sections::words::shapes;

/// Headings, in their order.
const HEADINGS: [&str; 9] = [
    "Executive Summary",
    "Top Operations",
    COMPUTE,
    FUSION,
    SYSTEM,
    "Detailed Analysis",
    "Appendix",
    "Model Architecture",
    "Hardware Reference",
];

const COMPUTE: &str = "Compute Kernel Optimizations";
const FUSION: &str = "Kernel Fusion Opportunities (Experimental)";
const SYSTEM: &str = "System-Level Optimizations";

/// Rows of the summary's table, and where their numbers come from.
const METRICS: [(&str, &str); 4] = [
    ("Total Time", "total_time_ms"),
    ("Compute %", "computation_time_percent"),
    ("Idle %", "idle_time_percent"),
    ("Exposed Communication %", "exposed_comm_time_percent"),
];

/// A tier: its part of the report, what its marks and anchors call it, what its cards must say.
struct Tier {
    part: &'static str,
    name: &'static str,
    anchor: &'static str,
    labels: &'static [&'static str],
}

const TIERS: [Tier; 3] = [
    Tier {
        part: COMPUTE,
        name: "compute",
        anchor: "detailed-analysis-compute-p",
        labels: &["Insight", "Action", "Impact"],
    },
    Tier {
        part: FUSION,
        name: "fusion",
        anchor: "detailed-analysis-fusion-P",
        labels: &["Insight", "Action", "Impact", "Confidence"],
    },
    Tier {
        part: SYSTEM,
        name: "system",
        anchor: "detailed-analysis-system-p",
        labels: &["Insight", "Action", "Impact"],
    },
];

/// What every block of details says.
const DETAILS: [&str; 5] = ["Identification", "Data", "Reasoning for Slowdown", "Resolution", "Impact estimate"];

/// What is said where no number can be.
const NOT_QUANTIFIABLE: &str = "not quantifiable from trace data";

/// Keys of the machine form, which are no language.
const KEYS: [&str; 8] = [
    "impact_score_low",
    "impact_score_high",
    "baseline_ms",
    "all_estimates",
    "percent_of_total",
    "bound_type",
    "efficiency_percent",
    "tree_uid",
];

pub(super) fn check(folder: &Folder<'_>, facts: &Facts<'_>, problems: &mut Problems) {
    let Some(text) = folder.text(REPORT) else {
        for name in [PRIORITY_DATA, PLOT, PLOT_TEXT].into_iter().filter(|name| folder.has(name)) {
            problems.fail("files", name, format!("there is no {REPORT} that it belongs to"));
        }
        return;
    };
    reports::gate(&text, REPORT, problems);
    let report = Report { name: REPORT, document: Document::of(&text) };
    reports::headings(&report, &HEADINGS, problems);
    summary(&report, facts, problems);
    for tier in &TIERS {
        cards(&report, tier, problems);
    }
    details(&report, problems);
    marks::check(&report, problems);
    reports::appendix(&report, facts, problems);
    rows_of_files(folder, &report, facts, problems);
    keys(&report, problems);
    let Some(bytes) = folder.bytes(PRIORITY_DATA) else {
        return problems.fail("files", PRIORITY_DATA, "missing");
    };
    // That it is JSON is checked where all of it is read.
    let data = Json::read(&bytes).unwrap_or_default();
    priorities::check(&report, &data, problems);
    picture(folder, &data, problems);
}

/// W8: the picture is there, as a file and as text, if there is something to draw.
fn picture(folder: &Folder<'_>, data: &Json<'_>, problems: &mut Problems) {
    let wanted = list(&data["recommendations"]).next().is_some();
    for name in [PLOT, PLOT_TEXT] {
        match (wanted, folder.has(name)) {
            (true, false) => problems.fail("W8", name, "missing, though there are recommendations"),
            (false, true) => problems.fail("W8", name, "there is no recommendation to draw"),
            _ => {}
        }
    }
    // Three bytes are four letters, and a line end follows.
    if let (Some(bytes), Some(letters)) = (folder.size_of(PLOT), folder.size_of(PLOT_TEXT))
        && bytes.div_ceil(3) * 4 + 1 != letters
    {
        problems.fail("W8", PLOT_TEXT, format!("{letters} letters are not the {bytes} bytes of {PLOT}"));
    }
}

/// W9 and W10: a table with the numbers of the timeline, and the category that leads the other table.
fn summary(report: &Report<'_>, facts: &Facts<'_>, problems: &mut Problems) {
    let Some(lines) = report.document.titled("Executive Summary") else { return };
    if !lines.iter().any(Line::is_table) {
        problems.fail("W9", REPORT, "the summary has no table");
    }
    let Some((line, named)) = reports::timeline(report, &METRICS, facts, problems) else { return };
    let all = tables(lines, &["Rank", "Category"]);
    let first = all.first().and_then(|t| t.rows.first()).and_then(|(_, cells)| cells.get(1));
    if first.is_some_and(|first| !letters(&named).starts_with(&letters(first))) {
        problems.fail_at("W10", REPORT, line, format!("`{named}` does not lead the table of categories"));
    }
}

/// The number of a card or of its details: `P3` in `### 🔴 P3: ...`.
fn number(title: &str) -> Option<usize> {
    let (before, _) = title.split_once(':')?;
    before.rsplit(' ').next()?.strip_prefix('P')?.parse().ok()
}

/// The blocks below headings of a level that have a number, with that number.
fn blocks<'l, 'a>(lines: &'l [Line<'a>], level: usize) -> Vec<(usize, &'l [Line<'a>])> {
    let starts = lines.iter().enumerate().filter_map(|(at, line)| {
        let (found, title) = line.heading()?;
        Some((at, number(title).filter(|_| found == level)?))
    });
    let is_end = |line: &Line<'_>| line.heading().is_some_and(|(other, _)| other <= level);
    starts
        .map(|(at, number)| {
            let end = lines[at + 1..].iter().position(is_end).map_or(lines.len(), |end| at + 1 + end);
            (number, &lines[at..end])
        })
        .collect()
}

/// Whether a block has a line with this label and something behind it.
fn says(block: &[Line<'_>], label: &str) -> bool {
    let with = format!("**{label}**:");
    block.iter().any(|line| line.text.strip_prefix(with.as_str()).is_some_and(|text| !text.trim().is_empty()))
}

/// W11: cards are numbered, complete and linked to their details; without any the report says so.
fn cards(report: &Report<'_>, tier: &Tier, problems: &mut Problems) {
    let Some(lines) = report.document.titled(tier.part) else { return };
    let cards = blocks(lines, 3);
    if cards.is_empty() && !lines.iter().any(|l| l.text.starts_with("No ") && l.text.contains(" was detected")) {
        problems.fail("W11", REPORT, format!("`{}` has no card, and no word that there is nothing", tier.part));
    }
    for ((number, card), place) in cards.iter().zip(1..) {
        let line = card.first().map_or(1, |l| l.number);
        let mut fail = |text: String| problems.fail_at("W11", REPORT, line, format!("{} P{number}: {text}", tier.name));
        if *number != place {
            fail(format!("it is card {place} of its part"));
        }
        for label in tier.labels.iter().filter(|label| !says(card, label)) {
            fail(format!("no line `**{label}**:`"));
        }
        let anchor = format!("#{}{number}", tier.anchor);
        if !card.iter().any(|l| targets(l.text).any(|t| t == anchor)) {
            fail(format!("no link to `{anchor}`"));
        }
    }
}

/// Blocks of details are those of the cards, with all that they must say.
fn details(report: &Report<'_>, problems: &mut Problems) {
    let Some(lines) = report.document.titled("Detailed Analysis") else { return };
    for tier in &TIERS {
        let cards = report.document.titled(tier.part).map(|lines| blocks(lines, 3).len()).unwrap_or_default();
        let anchors = lines.iter().filter(|l| l.text.contains(&format!("<a id=\"{}", tier.anchor))).count();
        if cards != anchors {
            let text = format!("{cards} cards of tier {} have {anchors} blocks of details", tier.name);
            problems.fail("anchor", REPORT, text);
        }
    }
    for (number, block) in blocks(lines, 4) {
        let line = block.first().map_or(1, |l| l.number);
        for label in DETAILS.iter().filter(|label| !says(block, label)) {
            problems.fail_at("details", REPORT, line, format!("P{number}: no line `**{label}**:`"));
        }
        if !block.iter().any(Line::is_table) {
            problems.fail_at("details", REPORT, line, format!("P{number}: no table of data"));
        }
    }
}

/// Arguments, paths and kernels of the compute tier are those that the files of the categories have.
fn rows_of_files(folder: &Folder<'_>, report: &Report<'_>, facts: &Facts<'_>, problems: &mut Problems) {
    let Some(lines) = report.document.section(|level, title| level == 3 && title == "Compute Kernels") else { return };
    let files: Vec<&str> = facts.categories("compute_kernel").filter_map(|c| c["metrics_file"].as_str()).collect();
    // What is not looked into can't be held against the report.
    if files.iter().any(|file| folder.is_closed(file)) {
        return;
    }
    let shown = |text: &str| letters(&code(text));
    let mut known: Vec<[String; 4]> = Vec::new();
    for bytes in files.iter().filter_map(|file| folder.bytes(file)) {
        let metrics = Json::read(&bytes).unwrap_or_default();
        for o in list(&metrics["operations"]) {
            let text = |value: &Json<'_>| value.as_str().unwrap_or_default().to_owned();
            let kernel = list(&o["kernels"]).next().map(|k| text(&k["name"])).unwrap_or_default();
            let cells = [text(&o["name"]), shapes(&text(&o["args"])), text(&o["launcher_path"]), kernel];
            known.push(cells.map(|cell| shown(&cell)));
        }
    }
    let columns: Vec<&str> = COLUMNS.iter().map(|c| c.trim_start_matches('>')).collect();
    for table in tables(lines, &[]) {
        if !columns.iter().eq(table.header.iter().take(columns.len()).map(String::as_str).collect::<Vec<_>>().iter()) {
            let line = table.rows.first().map_or(1, |(line, _)| *line);
            problems.fail_at("details", REPORT, line, "the table does not begin with the ten columns");
            continue;
        }
        for (line, cells) in &table.rows {
            let row: Vec<String> = cells.iter().take(4).map(|cell| letters(cell)).collect();
            if !known.iter().any(|known| known[..] == row[..]) {
                problems.fail_at("details", REPORT, *line, "no row of the metrics has these names");
            }
        }
    }
}

/// Keys of the machine form stand in code or not at all.
fn keys(report: &Report<'_>, problems: &mut Problems) {
    for line in report.document.lines.iter().filter(|l| !l.is_code && !l.text.starts_with("<!--")) {
        let mut language = line.text.split('`').step_by(2);
        if let Some(key) = language.find_map(|part| KEYS.iter().find(|key| part.contains(**key))) {
            problems.fail_at("keys", REPORT, line.number, format!("`{key}` is a name of a file and no language"));
        }
    }
}
