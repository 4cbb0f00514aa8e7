//! Numbers of a comparison that must agree: ratios with times, verdicts with ratios, changes with the difference of the
//! totals, and the summary of the report with all of them.

use super::folder::{Folder, Problems};
use super::json::Json;
use super::list;
use super::markdown::{Document, numbers, tables};

const METRICS: &str = "category_data/comparison_metrics.json";
const FAIR: &str = "comparative_analysis_fair.md";

/// Times are rounded to microseconds.
const ROUNDED_MS: f64 = 0.000_6;

/// The checks of a JSON file, if it is the one that compares.
pub(super) fn document(folder: &Folder<'_>, name: &str, metrics: &Json<'_>, problems: &mut Problems) {
    if name != METRICS {
        return;
    }
    for key in ["operations", "by_name", "categories"] {
        for entry in list(&metrics[key]) {
            one(entry, key, problems);
        }
    }
    let total = |side: &str| metrics[side]["total_time_ms"].as_f64();
    if let (Some(reference), Some(target)) = (total("reference"), total("target")) {
        let deltas = || list(&metrics["changes"]).filter_map(|c| c["delta_ms"].as_f64());
        let told: f64 = deltas().sum();
        // Times of centuries have no microseconds any more.
        let coarse = f64::EPSILON * (deltas().map(f64::abs).sum::<f64>() + reference + target);
        let slack = (ROUNDED_MS + coarse) * (2 + deltas().count()) as f64;
        if (told - (target - reference)).abs() > slack {
            let text = format!("changes add up to {told:.3} ms, the totals differ by {:.3} ms", target - reference);
            problems.fail("time_sum", METRICS, text);
        }
    }
    if let Some(text) = folder.text(FAIR) {
        summary(&Document::of(&text), metrics, problems);
    }
}

/// Ratio, excess and verdict follow from the times.
fn one(entry: &Json<'_>, key: &str, problems: &mut Problems) {
    let number = |name: &str| entry[name].as_f64();
    let mut fail = |text: String| {
        problems.fail("ratio", METRICS, format!("{key}: {}: {text}", entry["name"].as_str().unwrap_or_default()));
    };
    let (Some(reference), Some(target)) = (number("reference_ms"), number("target_ms")) else { return };
    if let Some(ratio) = number("ratio") {
        let least = (target - ROUNDED_MS) / (reference + ROUNDED_MS) - 1e-4;
        let most = (target + ROUNDED_MS) / (reference - ROUNDED_MS).max(f64::MIN_POSITIVE) + 1e-4;
        if ratio < least || ratio > most {
            fail(format!("{target} / {reference} is not {ratio}"));
        }
    }
    let slow = matches!(entry["verdict"].as_str(), Some("unexpected_slow" | "kernel_issue"));
    if slow && number("excess").is_some_and(|e| e <= 1.0) && number("ratio").is_some_and(|r| r <= 1.0) {
        fail("it is called slow and is not".to_owned());
    }
    if number("saved_ms").is_some_and(|saved| saved > target + ROUNDED_MS) {
        fail("more is saved than it takes".to_owned());
    }
}

/// W10 of a comparison: the table of the summary has the times of the metrics.
fn summary(document: &Document<'_>, metrics: &Json<'_>, problems: &mut Problems) {
    let Some(lines) = document.titled("Executive Summary") else { return };
    let all = tables(lines, &["Reference", "Target"]);
    let Some(table) = all.first() else {
        problems.fail("W10", FAIR, "the summary has no table of both sides");
        return;
    };
    for (name, key) in
        [("Total GPU Time", "total_time_ms"), ("Total Compute", "computation_time_ms"), ("Idle", "idle_time_ms")]
    {
        let Some((line, cells)) = table.rows.iter().find(|(_, cells)| cells.first().is_some_and(|c| c == name)) else {
            problems.fail("W10", FAIR, format!("the summary has no row `{name}`"));
            continue;
        };
        for (side, column) in [("reference", "Reference"), ("target", "Target")] {
            let shown = table.column(column).and_then(|at| cells.get(at)).and_then(|c| numbers(c).first().copied());
            let Some(value) = metrics[side][key].as_f64() else { continue };
            if shown.is_none_or(|shown| (shown - value).abs() > 0.01 * value + 0.006) {
                problems.fail_at("W10", FAIR, *line, format!("`{name}` of the {side} is not {value} ms"));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;
    use serde_json::{Value, json};

    use super::*;

    fn failures(metrics: &Value) -> usize {
        let mut problems = Problems::default();
        document(&Folder::new(), METRICS, &Json::deserialize(metrics).unwrap(), &mut problems);
        problems.into_list().len()
    }

    #[test]
    fn numbers_follow_from_each_other() {
        let entry = |ratio: f64, saved: f64, verdict: &str| {
            json!({"operations": [{"name": "a", "reference_ms": 1.0, "target_ms": 2.0, "ratio": ratio, "excess": ratio,
                                   "saved_ms": saved, "verdict": verdict}]})
        };
        assert_eq!(failures(&entry(2.0, 1.0, "unexpected_slow")), 0);
        assert_eq!(failures(&entry(2.1, 1.0, "unexpected_slow")), 1);
        assert_eq!(failures(&entry(2.0, 2.1, "unexpected_slow")), 1);
        assert_eq!(failures(&entry(0.9, 0.0, "kernel_issue")), 2);
        let changes = |delta: f64| json!({"reference": {"total_time_ms": 5.0}, "target": {"total_time_ms": 4.0}, "changes": [{"delta_ms": delta}]});
        assert_eq!((failures(&changes(-1.0)), failures(&changes(-0.9))), (0, 1));
        let centuries = json!({"reference": {"total_time_ms": 1.0}, "target": {"total_time_ms": 8_999_245_075_293.896},
                               "changes": [{"delta_ms": 8_999_245_075_292.9}, {"delta_ms": 0.0}]});
        assert_eq!(failures(&centuries), 0);
    }
}
