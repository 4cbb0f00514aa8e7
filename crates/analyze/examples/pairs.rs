//! Estimates against what fixes really brought, as a table: `pairs DIR...`, where each folder has `facts.json` and the
//! traces it names. `cargo xtask pairs` runs it on the traces at hand.
#![allow(clippy::print_stdout, reason = "a program that prints a table")]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use jarvis_analyze::analysis::{Analysis, AnalysisOptions};
use jarvis_analyze::pairs::{Checked, Expected};
use jarvis_perf::platform::Platform;
use jarvis_perf::tables::{ReportOptions, build_report};
use jarvis_trace::{ReadOptions, Trace};
use serde_json::Value as Json;

/// One side of a pair.
struct Side {
    trace: PathBuf,
    step_ms: f64,
}

fn main() -> Result<()> {
    let dirs: Vec<PathBuf> = std::env::args_os().skip(1).map(PathBuf::from).collect();
    let mut lines: BTreeMap<String, Checked> = BTreeMap::new();
    for dir in &dirs {
        for (pair, [before, after]) in pairs(dir)? {
            let Some(expected) = Expected::of(&pair).filter(|_| !lines.contains_key(&pair)) else { continue };
            let step_ms = (before.step_ms, after.step_ms);
            let checked = Checked::of(expected, step_ms, &analysis(&before.trace)?, &analysis(&after.trace)?);
            lines.insert(pair, checked);
        }
    }
    println!(
        "{:<34} {:<20} {:>4} {:>8} {:>16} {:>6}  {:<7} {:<9} holds",
        "pair", "pattern", "rank", "measured", "estimated", "width", "inside", "after"
    );
    for (pair, checked) in &lines {
        print(pair, checked);
    }
    let count = |what: fn(&Checked) -> bool| lines.values().filter(|c| what(c)).count();
    println!(
        "{} pairs: {} first, {} inside, {} narrow enough, {} mended, {} hold",
        lines.len(),
        count(Checked::is_first),
        count(Checked::is_inside),
        count(Checked::is_narrow),
        count(Checked::is_mended),
        count(Checked::holds)
    );
    if lines.is_empty() {
        bail!("no pair whose two traces are there in {dirs:?}");
    }
    if !lines.values().all(Checked::holds) {
        bail!("{} of {} pairs do not hold", lines.len() - count(Checked::holds), lines.len());
    }
    Ok(())
}

fn print(pair: &str, c: &Checked) {
    let rank = c.rank.map_or_else(|| "-".to_owned(), |r| r.to_string());
    let range = c.range.map_or_else(|| "-".to_owned(), |r| format!("{:.2} to {:.2}", r.low, r.high));
    let width = c.width().map_or_else(|| "-".to_owned(), |w| format!("{w:.2}"));
    let yes = |holds: bool| if holds { "yes" } else { "NO" };
    println!(
        "{pair:<34} {:<20} {rank:>4} {:>8.2} {range:>16} {width:>6}  {:<7} {:<9} {}",
        c.expected.pattern.as_str(),
        c.measured,
        yes(c.is_inside()),
        c.after.map_or("gone", |p| p.title()),
        yes(c.holds())
    );
}

/// The pairs of a folder whose two traces are there, by name.
fn pairs(dir: &Path) -> Result<BTreeMap<String, [Side; 2]>> {
    let path = dir.join("facts.json");
    let text = std::fs::read_to_string(&path).with_context(|| format!("can't read {}", path.display()))?;
    let facts: Json = serde_json::from_str(&text).with_context(|| format!("{} is no JSON", path.display()))?;
    let workloads = facts.get("workloads").unwrap_or(&facts).as_object().context("no workloads in facts.json")?;
    let mut sides: BTreeMap<String, BTreeMap<&str, Side>> = BTreeMap::new();
    for (name, fact) in workloads {
        let text = |key: &str| fact.get(key).and_then(Json::as_str);
        let (Some(pair), Some(role)) = (text("pair"), text("role")) else { continue };
        let Some(step_ms) = fact.get("step_ms").and_then(Json::as_f64) else { continue };
        let trace = dir.join(format!("{name}.json.gz"));
        if trace.is_file() {
            sides.entry(pair.to_owned()).or_default().insert(role, Side { trace, step_ms });
        }
    }
    let both = |(pair, mut roles): (String, BTreeMap<&str, Side>)| {
        Some((pair, [roles.remove("before")?, roles.remove("after")?]))
    };
    Ok(sides.into_iter().filter_map(both).collect())
}

fn analysis(path: &Path) -> Result<Analysis> {
    let trace = Trace::open(path, &ReadOptions::default()).with_context(|| format!("can't read {}", path.display()))?;
    let device = trace.models_at_work().into_iter().next().map(|d| d.name).unwrap_or_default();
    let platform = Platform::find(&device).with_context(|| format!("{}: no platform", path.display()))?;
    let options = ReportOptions { call_stack: true, platform: Some(platform.clone()), ..ReportOptions::default() };
    let report = build_report(&trace, &options).with_context(|| format!("{}: no report", path.display()))?;
    Ok(Analysis::of(&trace, &report, platform, &AnalysisOptions::default()))
}
