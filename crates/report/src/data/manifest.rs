//! `category_manifest.json`: what was analysed and where the files about it stand.

use jarvis_analyze::metrics::{Manifest, ManifestCategory, ManifestInputs, Status};
use jarvis_analyze::rounding::{Ms, Percent};
use jarvis_analyze::rules::CategoryOutcome;

use super::{CATEGORY_DATA, METADATA, Stems, system};
use crate::Run;

/// The folder of the findings of compute categories.
pub(crate) const CATEGORY_FINDINGS: &str = "category_findings";

/// The folder of the findings of system categories.
pub(crate) const SYSTEM_FINDINGS: &str = "system_findings";

/// The manifest of a run.
pub(crate) fn manifest(run: &Run<'_>, stems: &Stems) -> Manifest {
    let a = run.analysis;
    let inputs = ManifestInputs {
        trace_path: run.labels.trace_path.clone(),
        scope: a.scope,
        cluster: run.labels.cluster.clone(),
        container: run.labels.container.clone(),
        model_name: Some(run.model_name().to_owned()),
        system: system::present(run).into_iter().map(system::SystemCategory::entry).collect(),
        compute: a.outcomes.iter().map(|o| compute(run, o, stems.get(&o.category))).collect(),
    };
    Manifest::of(&a.prepared, inputs)
}

/// A compute category. One without operations of its own, which a pattern named, has neither rows nor tree data.
fn compute(run: &Run<'_>, outcome: &CategoryOutcome, stem: &str) -> ManifestCategory {
    let paths = |entry: ManifestCategory, has_rows: bool| ManifestCategory {
        csv_file: has_rows.then(|| format!("{CATEGORY_DATA}/{stem}_ops.csv")),
        metadata_file: Some(format!("{METADATA}/{stem}_metadata.json")),
        metrics_file: Some(format!("{CATEGORY_DATA}/{stem}_metrics.json")),
        tree_data_file: has_rows.then(|| format!("{CATEGORY_DATA}/{stem}_tree_data.json")),
        findings_file: Some(format!("{CATEGORY_FINDINGS}/{stem}_findings.md")),
        ..entry
    };
    match run.analysis.prepared.category(&outcome.category) {
        Some(category) => paths(ManifestCategory::compute(category, outcome.status()), true),
        None => paths(without_rows(outcome), false),
    }
}

fn without_rows(outcome: &CategoryOutcome) -> ManifestCategory {
    ManifestCategory {
        name: outcome.category.clone(),
        display_name: outcome.display.clone(),
        skill: outcome.analyzer,
        tier: "compute_kernel",
        status: outcome.status(),
        ..empty()
    }
}

/// An entry that owns nothing.
pub(crate) fn empty() -> ManifestCategory {
    ManifestCategory {
        name: "".into(),
        display_name: "".into(),
        skill: "",
        tier: "",
        ops_count: 0,
        operation_count: 0,
        gpu_kernel_time_ms: Ms(0.0),
        copy_time_ms: Ms(0.0),
        percent_of_compute: Percent(0.0),
        cpu_duration_ms: Ms(0.0),
        sync_time_ms: Ms(0.0),
        sync_ops_count: 0,
        has_sync_bottleneck: false,
        csv_file: None,
        metadata_file: None,
        metrics_file: None,
        tree_data_file: None,
        findings_file: None,
        data_file: None,
        status: Status::Ok,
        priority: None,
    }
}
