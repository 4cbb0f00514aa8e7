//! `priority_data.json`: in order, sums that are sums, and the same numbers as the report.

use std::collections::BTreeMap;

use super::marks::{marks, value};
use super::{PRIORITY_DATA, REPORT, TIERS, blocks};
use crate::check::folder::Problems;
use crate::check::json::Json;
use crate::check::list;
use crate::check::reports::Report;

/// What rounding to four decimals leaves of a number.
const ROUNDED: f64 = 0.000_1;

/// The ends and the middle of a score.
const SCORES: [(&str, &str); 3] = [("impact_score_low", "low"), ("impact_score", "mid"), ("impact_score_high", "high")];

pub(super) fn check(report: &Report<'_>, data: &Json<'_>, problems: &mut Problems) {
    let score = |v: &Json<'_>| v["impact_score"].as_f64().unwrap_or_default();
    for key in ["priorities", "all_estimates"] {
        let scores: Vec<f64> = list(&data[key]).map(score).collect();
        if scores.windows(2).any(|pair| pair[0] < pair[1]) {
            problems.fail("order", PRIORITY_DATA, format!("`{key}` are not in order of their scores"));
        }
    }
    let ranks = list(&data["priorities"]).map(|p| p["rank"].as_u64());
    if !ranks.eq((1..=list(&data["priorities"]).count() as u64).map(Some)) {
        problems.fail("rank", PRIORITY_DATA, "ranks of `priorities` are not 1, 2, 3, ...");
    }
    sums(data, problems);
    for tier in &TIERS {
        let ranks = || list(&data["findings"]).filter(|f| f["tier"] == tier.name).map(|f| f["rank"].as_u64());
        let cards = report.document.titled(tier.part).map(|lines| blocks(lines, 3).len()).unwrap_or_default();
        if !ranks().eq((1..=cards as u64).map(Some)) {
            let text = format!("{REPORT} has {cards} cards of tier {}, this file others", tier.name);
            problems.fail("cards", PRIORITY_DATA, text);
        }
    }
    same_scores(report, data, problems);
}

/// The score of a category is the sum over its operations.
fn sums(data: &Json<'_>, problems: &mut Problems) {
    let mut sums: BTreeMap<&str, (f64, usize)> = BTreeMap::new();
    for estimate in list(&data["all_estimates"]) {
        let sum = sums.entry(estimate["category"].as_str().unwrap_or_default()).or_default();
        sum.0 += estimate["impact_score"].as_f64().unwrap_or_default();
        sum.1 += 1;
    }
    for priority in list(&data["priorities"]) {
        let category = priority["category"].as_str().unwrap_or_default();
        let (sum, count) = sums.get(category).copied().unwrap_or_default();
        let told = priority["impact_score"].as_f64().unwrap_or_default();
        // Each number is rounded by itself.
        if (sum - told).abs() > ROUNDED * (count + 1) as f64 {
            let text = format!("{category}: {told} is not the sum of its operations, {sum:.4}");
            problems.fail("sum", PRIORITY_DATA, text);
        }
    }
}

/// Marks of the compute cards have the numbers of this file.
fn same_scores(report: &Report<'_>, data: &Json<'_>, problems: &mut Problems) {
    let Some(lines) = report.document.titled(TIERS[0].part) else { return };
    for (number, card) in blocks(lines, 3) {
        let is_it = |f: &&Json<'_>| f["tier"] == TIERS[0].name && f["rank"].as_u64() == Some(number as u64);
        let Some(finding) = list(&data["findings"]).find(is_it) else { continue };
        let Some(mark) = card.iter().flat_map(marks).find(|m| value(m, "kind") == Some("p_item")) else { continue };
        for (key, name) in SCORES {
            let marked: Option<f64> = value(mark, name).and_then(|text| text.parse().ok());
            let same = marked.zip(finding[key].as_f64()).is_none_or(|(a, b)| (a - b).abs() <= ROUNDED);
            if !same {
                let line = card.first().map_or(1, |l| l.number);
                problems.fail_at("M2", REPORT, line, format!("P{number}: {name} differs from {PRIORITY_DATA}"));
            }
        }
    }
}
