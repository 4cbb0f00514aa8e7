//! Files of the compute categories beside their rows: metadata, metrics, tree data.

use std::io::{self, Write as _};
use std::path::PathBuf;

use jarvis_analyze::metrics::{Bottleneck, CategoryFile, CategoryMetrics, Metadata, MetricsFile};
use jarvis_analyze::prepared::Category;
use jarvis_analyze::rules::{CategoryOutcome, analyzer, without_data};

use super::lines::Lines;
use super::{CATEGORY_DATA, METADATA, Stems, json, write_json, write_json_in};
use crate::{OutputFile, Pieces, Run, Taker};

/// Levels of metrics that have lines: the file, its lists, the fields of their entries.
const LEVELS: usize = 3;

/// All of them, most time first.
pub(crate) fn write(run: &Run<'_>, stems: &Stems, taker: &mut dyn Taker) {
    let a = run.analysis;
    for outcome in &a.outcomes {
        let stem = stems.get(&outcome.category);
        let path = |folder: &str, end: &str| PathBuf::from(format!("{folder}/{stem}{end}"));
        let category = a.prepared.category(&outcome.category);
        taker.write(&path(CATEGORY_DATA, "_metrics.json"), &|out| metrics(run, outcome, out));
        if category.is_some() {
            let known = a.tree_data.iter().find(|(key, _)| *key == outcome.category);
            let entries = known.map(|(_, entries)| entries);
            let write = |out: &mut Pieces<'_>| match entries {
                Some(entries) => write_json(entries, out),
                None => out.write_all(b"{}\n"),
            };
            taker.write(&path(CATEGORY_DATA, "_tree_data.json"), &write);
        }
        taker.put(OutputFile::new(path(METADATA, "_metadata.json"), metadata(run, outcome, category)));
    }
    for outcome in without_data(&a.outcomes) {
        let path = format!("{CATEGORY_DATA}/{}_metrics.json", outcome.category);
        taker.write(&PathBuf::from(path), &|out| metrics(run, &outcome, out));
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
    Category::without_rows(outcome.category.clone(), outcome.display.clone(), outcome.analyzer)
}

/// What the analyzer said, with the replay packages that were made since.
fn metrics(run: &Run<'_>, outcome: &CategoryOutcome, out: &mut Pieces<'_>) -> io::Result<()> {
    let full = match &outcome.file {
        MetricsFile::Full(full) => full,
        MetricsFile::Short(short) => return write_json(short, out),
    };
    let mut file = |metrics: &CategoryMetrics| {
        write_json_in(Lines::down_to(LEVELS), &CategoryFile { metrics, prepared: &run.analysis.prepared }, out)
    };
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
