//! The head of a category: its share and average, and what only its analyzer has to say.

use jarvis_analyze::analysis::Analysis;
use jarvis_analyze::finding::PatternId;
use jarvis_analyze::metrics::{CategoryMetrics, Fact, Facts};
use jarvis_analyze::prepared::Row;
use serde_json::Value as Json;

use super::category::Place;
use super::rough::baseline::unmeasured;
use super::words::{counted, ms, pct};
use crate::blocks::Block;

/// The paragraph and the analyzer's own lines.
pub(crate) fn overview(analysis: &Analysis, metrics: &CategoryMetrics, place: Place) -> Vec<Block> {
    let (calls, time) = (counted(metrics.operation_count, "call"), ms(metrics.total_time_ms.0));
    let mut text = match place {
        _ if metrics.operations.is_empty() => {
            format!("No {} operation is in the trace; attention runs as separate operations.", metrics.display_name)
        }
        // The heading has the share.
        Place::Fair => format!("{calls}, {time} ms."),
        Place::File => {
            let share = pct(metrics.percent_of_compute.0);
            format!("{} operations account for {share}% of compute time ({calls}, {time} ms).", metrics.display_name)
        }
    };
    match metrics.average_efficiency_percent {
        Some(e) => text += &format!(" Average efficiency: {}%.", pct(e.0)),
        None if metrics.operations.is_empty() => {}
        None if no_model(analysis, metrics) => {
            text += " Average efficiency: not known, no operation here has a performance model.";
        }
        None => text += " Average efficiency: not known, no call could be rated.",
    }
    let modelled = metrics.modeled_time_percent.0;
    if metrics.average_efficiency_percent.is_some() && modelled < 99.95 {
        text += &format!(" {}% of the time has a performance model.", pct(modelled));
    }
    let mut blocks = vec![Block::paragraph(text)];
    let lines = own_lines(analysis, metrics, place);
    if !lines.is_empty() {
        blocks.push(Block::facts(lines));
    }
    blocks
}

/// Whether there are operations that need a model, and none has one.
fn no_model(analysis: &Analysis, metrics: &CategoryMetrics) -> bool {
    let mut rated = metrics.rows(&analysis.prepared).filter(|row| !row.is_link_copy).peekable();
    rated.peek().is_some() && rated.all(Row::lacks_model)
}

/// Lines by analyzer.
fn own_lines(analysis: &Analysis, metrics: &CategoryMetrics, place: Place) -> Vec<(&'static str, String)> {
    let facts = &metrics.category_specific;
    let analyzer = analysis.outcomes.iter().find(|o| o.category == metrics.category).map_or("", |o| o.analyzer);
    match analyzer {
        "gemm" => gemm(facts, place),
        "sdpa" => attention(analysis, metrics, place),
        "convolution" => convolution(facts),
        // The baseline is one fact of the whole trace: the fair report tells it where it belongs.
        "elementwise" => vec![baseline(analysis)],
        "batchnorm" | "norm" | "reduce" if place == Place::File => vec![baseline(analysis)],
        "triton" => triton(facts),
        _ => Vec::new(),
    }
}

fn gemm(facts: &Facts, place: Place) -> Vec<(&'static str, String)> {
    let mut lines: Vec<_> = shares(facts, "by_call_site", "site").map(|t| ("Called from", t)).into_iter().collect();
    if let (Place::File, Some(Fact::List(classes))) = (place, facts.get("by_assessment")) {
        let shown = classes.iter().filter_map(|class| {
            let (time, share) = (ms(number(class, "time_ms")?), pct(number(class, "percent")?));
            Some(format!("{} ({time} ms, {share}%): {}", text(class, "assessment")?, text(class, "action")?))
        });
        lines.extend(Some(("Efficiency classes", shown.collect::<Vec<_>>().join("; "))).filter(|l| !l.1.is_empty()));
    }
    lines
}

/// What simple operations reach.
fn baseline(analysis: &Analysis) -> (&'static str, String) {
    let b = &analysis.prepared.baseline;
    let text = if b.source == jarvis_analyze::prepared::Baseline::MEASURED {
        format!(
            "{} TB/s ({}% of peak), measured on {} of simple elementwise operations",
            jarvis_analyze::rounding::shown(b.bandwidth_tbs, 2),
            pct(b.efficiency_percent),
            counted(b.rows.len(), "row")
        )
    } else {
        format!("{}% of peak, the usual share; {}", pct(b.efficiency_percent), unmeasured(&analysis.prepared))
    };
    ("Elementwise baseline", text)
}

fn attention(analysis: &Analysis, metrics: &CategoryMetrics, place: Place) -> Vec<(&'static str, String)> {
    let facts = &metrics.category_specific;
    let mut lines = Vec::new();
    if let Some(usage) = text(facts, "flash_attention_usage") {
        let count = facts.get("memory_efficient_attention_count").and_then(Fact::value).and_then(Json::as_u64);
        let count = count.and_then(|n| usize::try_from(n).ok()).filter(|n| *n > 0);
        let other = count.map(|n| format!("; {} of memory-efficient attention", counted(n, "call")));
        lines.push(("Flash Attention", format!("{usage}{}", other.unwrap_or_default())));
    }
    let mut lengths: Vec<(u64, f64)> = Vec::new();
    for o in &metrics.operations {
        let Some(n) = o.classification.queries().and_then(|n| u64::try_from(n).ok()) else { continue };
        let time = analysis.prepared.row(o.row).time_ms;
        match lengths.iter_mut().find(|l| l.0 == n) {
            Some(known) => known.1 += time,
            None => lengths.push((n, time)),
        }
    }
    if !lengths.is_empty() {
        let shown: Vec<String> = lengths.iter().take(6).map(|(n, t)| format!("{n} ({} ms)", ms(*t))).collect();
        lines.push(("Sequence lengths", shown.join(", ")));
    }
    let unfused: Vec<_> = analysis.claims.of_pattern(PatternId::UNFUSED_ATTENTION).collect();
    let time: f64 = unfused.iter().map(|c| c.time_ms).sum();
    if place == Place::File && time > 0.0 {
        let calls: usize = unfused.iter().map(|c| c.instances).sum();
        let share = 100.0 * time / analysis.prepared.utilization.computation_time_ms.max(f64::MIN_POSITIVE);
        lines.push((
            "Attention in separate operations",
            format!("{} ms in {} ({}% of compute)", ms(time), counted(calls, "call"), pct(share)),
        ));
    }
    lines
}

fn convolution(facts: &Facts) -> Vec<(&'static str, String)> {
    let mut lines = Vec::new();
    if let Some(percent) = number(facts, "transpose_overhead_percent") {
        let level = text(facts, "transpose_level").unwrap_or("acceptable");
        lines.push(("Transpose overhead", format!("{}% ({level})", pct(percent))));
    }
    if let Some(layouts) = facts.get("layout_time").and_then(Fact::value).and_then(Json::as_object) {
        let shown = ["contiguous", "channels_last", "other", "unknown"].into_iter();
        let share = |k: &str| layouts.get(k).and_then(Json::as_f64);
        let shown: Vec<String> =
            shown.filter_map(|k| Some(format!("{} {}%", k.replace('_', "-"), pct(share(k)?)))).collect();
        if !shown.is_empty() {
            lines.push(("Input layouts by time", shown.join(", ")));
        }
    }
    if let Some(Fact::List(kinds)) = facts.get("by_type") {
        let one = |k: &Facts| {
            let e = number(k, "efficiency_percent").map_or_else(String::new, |e| format!(" at {}%", pct(e)));
            Some(format!("{} {} ms{e}", text(k, "type")?, ms(number(k, "time_ms")?)))
        };
        lines.push(("Kinds", kinds.iter().filter_map(one).collect::<Vec<_>>().join(", ")));
    }
    lines
}

fn triton(facts: &Facts) -> Vec<(&'static str, String)> {
    let kinds = ["pointwise", "reduction", "persistent", "template", "other"];
    let count = |k: &str| facts.get(&format!("{k}_count")).and_then(Fact::value).and_then(Json::as_u64);
    let shown: Vec<String> = kinds
        .into_iter()
        .filter_map(|k| Some(format!("{} {}", count(k).filter(|n| *n > 0)?, k.replace('_', " "))))
        .collect();
    if shown.is_empty() { Vec::new() } else { vec![("Kernel types", shown.join(", "))] }
}

/// `mlp 50.9%, attention 32.6%`.
fn shares(facts: &Facts, key: &str, name: &str) -> Option<String> {
    let Some(Fact::List(all)) = facts.get(key) else { return None };
    let one = |f: &Facts| Some(format!("{} {}%", text(f, name)?, pct(number(f, "percent")?)));
    let shown: Vec<String> = all.iter().filter_map(one).collect();
    let told = all.len() > 1 || all.first().and_then(|f| text(f, name)).is_some_and(|site| site != "unknown");
    told.then(|| shown.join(", ")).filter(|t| !t.is_empty())
}

fn number(facts: &Facts, key: &str) -> Option<f64> {
    facts.get(key).and_then(Fact::value).and_then(Json::as_f64)
}

fn text<'a>(facts: &'a Facts, key: &str) -> Option<&'a str> {
    facts.get(key).and_then(Fact::value).and_then(Json::as_str)
}
