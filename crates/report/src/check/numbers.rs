//! Numbers that must agree with each other: percentages, sums, ranks, speed-ups.

use jarvis_analyze::finding::{PATTERNS, Range};
use jarvis_analyze::prepare::warnings::{TIMES_APART, UNOWNED};

use super::folder::Problems;
use super::json::Json;
use super::{Facts, list};

/// How far category times may lie from the computation time, in percent.
const TIME_SUM_TOLERANCE: f64 = 10.0;

/// What rounding to two decimals leaves of a sum of four percentages.
const PERCENT_TOLERANCE: f64 = 0.1;

pub(super) fn check(facts: &Facts<'_>, problems: &mut Problems) {
    utilization(facts, problems);
    time_sum(facts, problems);
    top_operations(facts, problems);
    findings(&facts.findings, problems);
}

/// What a JSON file by itself has to agree with.
pub(super) fn document(name: &str, document: &Json<'_>, facts: &Facts<'_>, problems: &mut Problems) {
    if name.ends_with("_metadata.json") {
        same_utilization(name, &document["gpu_utilization"], facts, problems);
    }
    for category in facts.categories("compute_kernel").filter(|c| c["metrics_file"] == name) {
        metrics(document, category, name, problems);
    }
}

/// The parts of the GPU's time add up to 100 %, and all files tell the same.
fn utilization(facts: &Facts<'_>, problems: &mut Problems) {
    const PARTS: [&str; 4] =
        ["computation_time_percent", "exposed_comm_time_percent", "exposed_memcpy_time_percent", "idle_time_percent"];
    let all = &facts.manifest["gpu_utilization"];
    let sum: f64 = PARTS.iter().filter_map(|part| all[part].as_f64()).sum();
    if all["total_time_ms"].as_f64().is_some_and(|t| t > 0.0) && (sum - 100.0).abs() > PERCENT_TOLERANCE {
        problems.fail("percent", "category_manifest.json", format!("the GPU's time adds up to {sum:.2} %"));
    }
    same_utilization("findings.json", &facts.findings["gpu_timeline"], facts, problems);
}

fn same_utilization(name: &str, other: &Json<'_>, facts: &Facts<'_>, problems: &mut Problems) {
    let all = &facts.manifest["gpu_utilization"];
    // Findings also have the time of each GPU by itself.
    let differs = all.as_object().is_some_and(|all| all.iter().any(|(key, value)| other[key] != *value));
    if other.as_object().is_some() && differs {
        problems.fail("percent", name, "the GPU's time differs from that of the manifest");
    }
}

/// Category times add up to about the computation time. Where streams overlap or launches were not recorded they do
/// not, and the findings have to say so.
fn time_sum(facts: &Facts<'_>, problems: &mut Problems) {
    // Not `sum`: that of nothing is a negative zero.
    let times = facts.categories("compute_kernel").filter_map(|c| c["gpu_kernel_time_ms"].as_f64());
    let sum = times.fold(0.0, |sum, ms| sum + ms);
    let Some(compute) = facts.manifest["gpu_utilization"]["computation_time_ms"].as_f64() else { return };
    // Times are rounded to microseconds, and each category once.
    let slack = TIME_SUM_TOLERANCE / 100.0 * compute + 0.001 * facts.categories("compute_kernel").count() as f64;
    if compute <= 0.0 || (sum - compute).abs() <= slack {
        return;
    }
    let text = format!("category times add up to {sum:.3} ms, computation time is {compute:.3} ms");
    let told = list(&facts.findings["warnings"])
        .filter_map(Json::as_str)
        .any(|w| w.contains(TIMES_APART) || w.contains(UNOWNED));
    if told {
        problems.warn("time_sum", "category_manifest.json", text);
    } else {
        problems.fail("time_sum", "category_manifest.json", text + " and no warning says why");
    }
}

/// Shares of a category, its order, and its time as the manifest has it.
fn metrics(metrics: &Json<'_>, category: &Json<'_>, name: &str, problems: &mut Problems) {
    if metrics["status"] != category["status"] {
        problems.fail("status", name, format!("{}, the manifest says {}", metrics["status"], category["status"]));
    }
    if metrics["status"] != "OK" {
        return;
    }
    if metrics["total_time_ms"] != category["gpu_kernel_time_ms"] {
        problems.fail("time_sum", name, "its time differs from that of the manifest");
    }
    let share = |v: &Json<'_>| v["percent_of_category"].as_f64().unwrap_or_default();
    for bottleneck in list(&metrics["bottlenecks"]).filter(|b| share(b) > 100.0 + PERCENT_TOLERANCE) {
        problems.fail("percent", name, format!("{} has {:.1} % of its category", bottleneck["id"], share(bottleneck)));
    }
    for key in ["operations", "bottlenecks"] {
        let sum: f64 = list(&metrics[key]).map(share).sum();
        // Each share is rounded by itself.
        if sum > 100.0 + PERCENT_TOLERANCE + 0.005 * list(&metrics[key]).count() as f64 {
            problems.fail("percent", name, format!("shares of `{key}` add up to {sum:.2} %"));
        }
        let times: Vec<f64> = list(&metrics[key]).filter_map(|v| v["time_ms"].as_f64()).collect();
        if times.windows(2).any(|pair| pair[0] < pair[1]) {
            problems.fail("order", name, format!("`{key}` are not in order of time"));
        }
    }
}

fn top_operations(facts: &Facts<'_>, problems: &mut Problems) {
    let ranks: Vec<u64> = list(&facts.manifest["top_operations"]).filter_map(|t| t["rank"].as_u64()).collect();
    if !ranks.iter().copied().eq(1..=ranks.len() as u64) {
        problems.fail("order", "category_manifest.json", "ranks of top operations are not 1, 2, 3, ...");
    }
}

/// Ranks, tiers, ranges and speed-ups.
fn findings(document: &Json<'_>, problems: &mut Problems) {
    const FILE: &str = "findings.json";
    let window = document["gpu_timeline"]["total_time_ms"].as_f64().unwrap_or_default();
    for (finding, rank) in list(&document["findings"]).zip(1_u64..) {
        if finding["rank"].as_u64() != Some(rank) {
            problems.fail("rank", FILE, format!("finding {rank} has rank {}", finding["rank"]));
        }
        let known = PATTERNS.iter().find(|p| finding["pattern"] == p.id.as_str());
        let tier = known.and_then(|p| serde_json::to_value(p.tier).ok());
        if tier.is_some_and(|tier| tier.as_str() != finding["tier"].as_str()) {
            problems.fail("tier", FILE, format!("{} is not of tier {}", finding["pattern"], finding["tier"]));
        }
        if let (Some(ms), Some(percent)) = (finding["time_ms"].as_f64(), finding["percent_of_total"].as_f64())
            && !is_share(ms, window, percent)
        {
            let text = format!("finding {rank}: {ms} of {window} ms are not {percent} %");
            problems.fail("percent", FILE, text);
        }
        let impact = &finding["impact"];
        for range in [&impact["saved_ms"], &impact["speedup"]] {
            if range["low"].as_f64() > range["high"].as_f64() {
                problems.fail("impact", FILE, format!("finding {rank}: the low end lies above the high end"));
            }
        }
        for end in ["low", "high"] {
            let (saved, speedup) = (impact["saved_ms"][end].as_f64(), impact["speedup"][end].as_f64());
            if let (Some(saved), Some(speedup)) = (saved, speedup)
                && !is_speedup(window, saved, speedup)
            {
                let text = format!("finding {rank}: saving {saved} of {window} ms is not a speed-up of {speedup}");
                problems.fail("impact", FILE, text);
            }
        }
    }
}

/// Whether a percentage is that of a time in the window, as far as rounding lets one see.
fn is_share(ms: f64, window: f64, percent: f64) -> bool {
    const ROUNDED_MS: f64 = 0.000_6;
    const ROUNDED_PERCENT: f64 = 0.006;
    let of = |ms: f64, window: f64| 100.0 * ms / window;
    let exact = f64::EPSILON * 8.0 * percent.abs();
    window <= 2.0 * ROUNDED_MS
        || percent >= of(ms - ROUNDED_MS, window + ROUNDED_MS) - ROUNDED_PERCENT - exact
            && percent <= of(ms + ROUNDED_MS, window - ROUNDED_MS) + ROUNDED_PERCENT + exact
}

/// Whether a speed-up is window / (window − saved), as far as rounding lets one see. Never all of the window is saved.
fn is_speedup(window: f64, saved: f64, speedup: f64) -> bool {
    const ROUNDED: f64 = 0.000_6;
    let of = |window: f64, saved: f64| window / (window - saved.min(Range::MOST * window)).max(f64::MIN_POSITIVE);
    if window <= ROUNDED {
        return true;
    }
    let least = of(window + ROUNDED, (saved - ROUNDED).max(0.0));
    let most = of(window - ROUNDED, saved + ROUNDED);
    speedup >= least - 1e-4 && speedup <= most + 1e-4
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_speedup_follows_from_what_is_saved() {
        assert!(is_speedup(100.0, 50.0, 2.0));
        assert!(is_speedup(100.0, 0.0, 1.0));
        assert!(is_speedup(40.028, 10.5, 1.3556));
        assert!(is_speedup(0.011, 0.005, 1.8333), "rounded times of a short window");
        assert!(is_speedup(100.0, 1e6, 200.0), "never all of it");
        assert!(!is_speedup(100.0, 50.0, 2.1));
        assert!(is_share(6.633, 37.92, 17.49) && !is_share(13.266, 37.92, 17.49) && !is_share(6.633, 37.92, 99.0));
        assert!(is_share(0.001, 0.003, 33.33), "a short window");
        assert!(!is_speedup(100.0, 50.0, 1.0));
    }
}
