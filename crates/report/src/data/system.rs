//! Files of the system tier: idle time, copies and communication, fusion candidates.

use jarvis_analyze::metrics::{ManifestCategory, Metadata, ShortMetrics, Status};
use jarvis_analyze::prepared::Category;
use jarvis_analyze::system::System;
use jarvis_analyze::system::cpu_idle::CpuIdleMetrics;
use jarvis_analyze::system::multi_kernel::MultiKernelMetrics;
use jarvis_analyze::system::multi_kernel_data::MultiKernelData;
use jarvis_analyze::thresholds::Threshold;
use serde::Serialize;

use super::manifest::{SYSTEM_FINDINGS, empty};
use super::{CATEGORY_DATA, METADATA, Versioned, json};
use crate::{OutputFile, Run};

/// A category of the system tier. It owns no kernel time: the kernels it speaks of are those of compute categories.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SystemCategory {
    name: &'static str,
    display: &'static str,
    data: Option<&'static str>,
    thresholds: &'static [Threshold],
    status: Status,
    rows: usize,
    calls: usize,
}

impl SystemCategory {
    /// Its entry of the manifest.
    pub(crate) fn entry(self) -> ManifestCategory {
        let name = self.name;
        ManifestCategory {
            name: name.into(),
            display_name: self.display.into(),
            skill: name,
            tier: "system",
            ops_count: self.rows,
            operation_count: self.calls,
            metadata_file: Some(format!("{METADATA}/{name}_metadata.json")),
            metrics_file: Some(format!("{CATEGORY_DATA}/{name}_metrics.json")),
            findings_file: Some(format!("{SYSTEM_FINDINGS}/{name}_findings.md")),
            data_file: self.data.map(|file| format!("{CATEGORY_DATA}/{file}")),
            status: self.status,
            priority: (name == "cpu_idle").then_some(0),
            ..empty()
        }
    }

    fn metadata(self, run: &Run<'_>) -> OutputFile {
        let a = run.analysis;
        let category = Category::without_rows(self.name.into(), self.display.into(), self.name);
        let of = Metadata::of(&a.prepared, &category, &run.labels.trace_path, a.scope, self.thresholds);
        let metadata = Metadata { tier: "system", time_breakdown: None, ..of };
        OutputFile::new(format!("{METADATA}/{}_metadata.json", self.name), json(&metadata))
    }
}

/// The categories that this run has: idle time always, the others where there is something of the kind.
pub(crate) fn present(run: &Run<'_>) -> Vec<SystemCategory> {
    let a = run.analysis;
    let mut found = vec![SystemCategory {
        name: "cpu_idle",
        display: "CPU/Idle Time",
        data: None,
        thresholds: &[Threshold::UtilComputeOk, Threshold::UtilIdleCard],
        status: if a.system.is_some() { Status::Ok } else { Status::NoData },
        rows: a.system.as_ref().map_or(0, |s| s.gaps.gaps.len()),
        calls: a.system.as_ref().map_or(0, |s| s.kernels.count),
    }];
    if let Some(events) = a.system.as_ref().map(moved).filter(|&n| n > 0) {
        found.push(SystemCategory {
            name: "multi_kernel",
            display: "Multi-Kernel Issues",
            data: Some("multi_kernel_data.json"),
            thresholds: &[Threshold::UtilComputeOk],
            status: Status::Ok,
            rows: events,
            calls: events,
        });
    }
    if !a.fusion_candidates.is_empty() {
        found.push(SystemCategory {
            name: "kernel_fusion",
            display: "Kernel Fusion",
            data: Some("fusion_candidates.json"),
            thresholds: &[
                Threshold::FusionMaxKernels,
                Threshold::FusionMinPercent,
                Threshold::FusionModeledFew,
                Threshold::FusionModeledMany,
            ],
            status: Status::Ok,
            rows: a.fusion_candidates.len(),
            calls: a.fusion_candidates.iter().map(|c| c.instance_count).sum(),
        });
    }
    found
}

/// Copies and collectives.
fn moved(system: &System) -> usize {
    system.copies.count() + system.communication.count
}

/// `fusion_candidates.json`.
#[derive(Serialize)]
struct Candidates<'a> {
    candidates: &'a [jarvis_analyze::patterns::candidates::FusionCandidate],
}

/// The files of the categories that this run has.
pub(crate) fn files(run: &Run<'_>) -> Vec<OutputFile> {
    let a = run.analysis;
    let utilization = &a.prepared.utilization;
    let mut files = Vec::new();
    for category in present(run) {
        let metrics = match (category.name, &a.system) {
            ("cpu_idle", Some(system)) => json(&Versioned::new(CpuIdleMetrics::of(system, utilization))),
            ("multi_kernel", Some(system)) => json(&Versioned::new(MultiKernelMetrics::of(system, utilization))),
            ("kernel_fusion", _) => json(&Versioned::new(&a.fusion)),
            _ => json(&ShortMetrics {
                message: Some("No GPU event with a duration found in trace".to_owned()),
                ..ShortMetrics::no_data(category.name, category.display)
            }),
        };
        files.push(category.metadata(run));
        files.push(OutputFile::new(format!("{CATEGORY_DATA}/{}_metrics.json", category.name), metrics));
        let data = match (category.name, &a.system) {
            ("multi_kernel", Some(system)) => json(&Versioned::new(MultiKernelData::of(system))),
            ("kernel_fusion", _) => json(&Versioned::new(Candidates { candidates: &a.fusion_candidates })),
            _ => continue,
        };
        if let Some(file) = category.data {
            files.push(OutputFile::new(format!("{CATEGORY_DATA}/{file}"), data));
        }
    }
    files
}
