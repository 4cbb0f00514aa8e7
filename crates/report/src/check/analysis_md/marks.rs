//! M1 to M4: marks that programs read stand where they should, in pairs, with numbers.

use super::{NOT_QUANTIFIABLE, REPORT, TIERS, blocks};
use crate::check::folder::Problems;
use crate::check::markdown::{Line, tables};
use crate::check::reports::Report;
use crate::sections::analysis_md::NO_OPERATIONS;

/// The marks of a line, without their brackets.
pub(super) fn marks<'a>(line: &Line<'a>) -> impl Iterator<Item = &'a str> {
    let parts = line.text.split("<!-- ").skip(1);
    parts.filter_map(|part| part.split_once(" -->")).map(|(mark, _)| mark)
}

/// What a mark says under a name: `1.5` of `x low=1.5` for `low`.
pub(super) fn value<'a>(mark: &'a str, name: &str) -> Option<&'a str> {
    mark.split(' ').find_map(|word| word.strip_prefix(name)?.strip_prefix('='))
}

/// Whether a mark has these numbers, none below the one before.
fn has_numbers(mark: &str, names: &[&str]) -> bool {
    let found: Vec<f64> = names.iter().filter_map(|name| value(mark, name)?.parse().ok()).collect();
    found.len() == names.len() && found.iter().all(|n| n.is_finite()) && found.is_sorted()
}

pub(super) fn check(report: &Report<'_>, problems: &mut Problems) {
    pairs(report, problems);
    top_operations(report, problems);
    let lines = &report.document.lines;
    let of_kind = |block: &[Line<'_>], kind: &str, names: &[&str]| {
        let begins = |mark: &str| mark.starts_with("impact-begin") && value(mark, "kind") == Some(kind);
        block.iter().flat_map(marks).any(|mark| begins(mark) && has_numbers(mark, names))
    };
    for (number, card) in report.document.titled(TIERS[0].part).map(|lines| blocks(lines, 3)).unwrap_or_default() {
        let has_category = card.iter().flat_map(marks).any(|mark| value(mark, "category").is_some());
        if !of_kind(card, "p_item", &["low", "mid", "high"]) || !has_category {
            let line = card.first().map_or(1, |l| l.number);
            problems.fail_at("M2", REPORT, line, format!("P{number}: no mark with category, low, mid and high"));
        }
    }
    let compute = report.document.section(|level, title| level == 3 && title == "Compute Kernels").unwrap_or_default();
    for (number, block) in blocks(compute, 4) {
        let said = block.iter().any(|l| l.text.contains(NOT_QUANTIFIABLE));
        if !said && !of_kind(block, "detail_estimate", &["low", "high"]) {
            let line = block.first().map_or(1, |l| l.number);
            problems.fail_at("M3", REPORT, line, format!("P{number}: neither a mark nor `{NOT_QUANTIFIABLE}`"));
        }
    }
    for tier in &TIERS {
        let candidate = |mark: &&str| mark.starts_with("reasoning-candidate") && value(mark, "tier") == Some(tier.name);
        let marked: Vec<Option<usize>> =
            lines.iter().flat_map(marks).filter(candidate).map(|mark| value(mark, "rank")?.parse().ok()).collect();
        let cards = report.document.titled(tier.part).map(|lines| blocks(lines, 3).len()).unwrap_or_default();
        if !marked.iter().copied().eq((1..=cards).map(Some)) {
            let text = format!("marks of tier {} are not 1 to {cards}: {marked:?}", tier.name);
            problems.fail("M4", REPORT, text);
        }
    }
}

/// What begins ends before the next begins.
fn pairs(report: &Report<'_>, problems: &mut Problems) {
    let mut open: Option<usize> = None;
    for line in &report.document.lines {
        for mark in marks(line) {
            let begins = mark.starts_with("impact-begin");
            if !begins && mark != "impact-end" {
                continue;
            }
            if begins == open.is_some() {
                problems.fail_at("M2", REPORT, line.number, format!("`{mark}` has no partner"));
            }
            open = begins.then_some(line.number);
        }
    }
    if let Some(line) = open {
        problems.fail_at("M2", REPORT, line, "a mark begins and does not end");
    }
}

/// The table of categories stands between marks, and each of its rows has one.
fn top_operations(report: &Report<'_>, problems: &mut Problems) {
    let Some(lines) = report.document.titled("Top Operations") else { return };
    if lines.iter().any(|l| l.text == NO_OPERATIONS) {
        return;
    }
    let at = |wanted: &str| lines.iter().position(|l| marks(l).any(|mark| mark == wanted));
    let (Some(begin), Some(end)) = (at("impact-begin kind=top_ops"), at("impact-end")) else {
        return problems.fail("M1", REPORT, "the table of top operations stands between no marks");
    };
    let all = tables(
        lines.get(begin..end).unwrap_or_default(),
        &["Rank", "Category", "Time (ms)", "% of Compute Time", "Ops"],
    );
    let Some(table) = all.first() else {
        return problems.fail("M1", REPORT, "there is no table between the marks of top operations");
    };
    for (line, _) in &table.rows {
        let marked = lines.iter().filter(|l| l.number == *line).flat_map(marks);
        if !marked.into_iter().any(|mark| mark.starts_with("top-ops-row ") && has_numbers(mark, &["low", "high"])) {
            problems.fail_at("M1", REPORT, *line, "a row without `top-ops-row low= high=`");
        }
    }
}
