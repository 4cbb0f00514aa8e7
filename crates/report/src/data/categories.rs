//! Files of the compute categories: rows, metadata, metrics, tree data.

use jarvis_analyze::metrics::{Bottleneck, CategoryFile, CategoryMetrics, Metadata, MetricsFile};
use jarvis_analyze::prepared::{Category, TimeBreakdown};
use jarvis_analyze::rules::{CategoryOutcome, analyzer};

use super::ops_csv::OpsCsv;
use super::{CATEGORY_DATA, METADATA, Stems, json};
use crate::{OutputFile, Run};

/// All of them, most time first.
pub(crate) fn write(run: &Run<'_>, stems: &Stems, give: &mut dyn FnMut(OutputFile)) {
    let a = run.analysis;
    let ops = OpsCsv::of(run);
    for outcome in &a.outcomes {
        let stem = stems.get(&outcome.category);
        let mut add = |folder: &str, end: &str, bytes| give(OutputFile::new(format!("{folder}/{stem}{end}"), bytes));
        let category = a.prepared.category(&outcome.category);
        if let Some(category) = category {
            add(CATEGORY_DATA, "_ops.csv", ops.render(category));
        }
        add(CATEGORY_DATA, "_metrics.json", metrics(run, outcome));
        if category.is_some() {
            let known = a.tree_data.iter().find(|(key, _)| *key == outcome.category);
            let entries = known.map(|(_, entries)| entries);
            add(CATEGORY_DATA, "_tree_data.json", entries.map_or_else(|| b"{}\n".to_vec(), json));
        }
        add(METADATA, "_metadata.json", metadata(run, outcome, category));
    }
}

fn metadata(run: &Run<'_>, outcome: &CategoryOutcome, category: Option<&Category>) -> Vec<u8> {
    let a = run.analysis;
    let thresholds = analyzer(outcome.analyzer).map(|a| a.info().all_thresholds()).unwrap_or_default();
    let of = |category: &Category| Metadata::of(&a.prepared, category, &run.labels.trace_path, a.scope, &thresholds);
    json(&category.map_or_else(|| of(&without_rows(outcome)), of))
}

/// A category that only a pattern names.
fn without_rows(outcome: &CategoryOutcome) -> Category {
    Category {
        key: outcome.category.clone(),
        display: outcome.display.clone(),
        rows: Vec::new(),
        time_ms: 0.0,
        percent_of_compute: 0.0,
        percent_of_total: 0.0,
        analyzer: outcome.analyzer,
        operation_count: 0,
        time: TimeBreakdown::default(),
    }
}

/// What the analyzer said, with the replay packages that were made since.
fn metrics(run: &Run<'_>, outcome: &CategoryOutcome) -> Vec<u8> {
    let full = match &outcome.file {
        MetricsFile::Full(full) => full,
        MetricsFile::Short(short) => return json(short),
    };
    let file = |metrics: &CategoryMetrics| json(&CategoryFile { metrics, prepared: &run.analysis.prepared });
    let made = |b: &Bottleneck| {
        let entry = run.replay.iter().find(|r| b.replay.recommended && r.op == *b.operation)?;
        Some(entry.path.rsplit('/').next().unwrap_or(&entry.path))
    };
    // Most often the analysis was told already.
    let is_told = |b: &Bottleneck| made(b).is_none_or(|name| b.replay.package.as_deref() == Some(name));
    if full.bottlenecks.iter().all(is_told) {
        return file(full);
    }
    let mut full: CategoryMetrics = (**full).clone();
    for bottleneck in &mut full.bottlenecks {
        if let Some(name) = made(bottleneck) {
            bottleneck.replay.package = Some(name.to_owned());
        }
    }
    file(&full)
}
