//! What holds for every report: no kernel is lost or counted twice, tables are rectangular, nothing depends on chance.

use std::path::{Path, PathBuf};

use jarvis_perf::platform::Platform;
use jarvis_perf::tables::{ReportError, ReportOptions, build_report};
use jarvis_trace::timeline::is_communication_name;
use jarvis_trace::{EventId, Fidelity, ReadOptions, Trace};

use crate::support::{fixtures, shared_traces};

fn traces(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        let text = name.strip_suffix(".gz").unwrap_or(&name).strip_suffix(".json");
        if path.is_dir() && !name.ends_with("_csvs") {
            traces(&path, found);
        } else if text.is_some_and(|stem| stem != "H200_arch" && stem != "facts") {
            found.push(path);
        }
    }
}

/// Every trace at hand that can be read.
fn all_traces() -> Vec<(PathBuf, Trace)> {
    let mut paths = Vec::new();
    traces(&fixtures(), &mut paths);
    if let Some(folder) = shared_traces() {
        traces(&folder, &mut paths);
    }
    paths.sort();
    paths
        .into_iter()
        .filter_map(|path| Trace::open(&path, &ReadOptions::default()).ok().map(|trace| (path, trace)))
        .collect()
}

fn everything(fidelity: Fidelity) -> ReportOptions {
    ReportOptions {
        fidelity,
        platform: Some(Platform::find("H200").unwrap().clone()),
        micro_idle_us: Some(5.0),
        group_by_num_kernels: true,
        include_overlap: true,
        detect_recompute: true,
        first_occurrence: true,
        call_stack: true,
        ..ReportOptions::default()
    }
}

#[test]
fn every_kernel_stands_in_one_row() {
    for (path, trace) in all_traces() {
        for python in [false, true] {
            let options = ReportOptions { call_stack: python, ..ReportOptions::default() };
            let Ok(report) = build_report(&trace, &options) else { continue };
            let mut listed: Vec<EventId> =
                report.rows.unified.calls.iter().flat_map(|c| c.kernels.iter().copied()).collect();
            listed.sort_unstable();
            let ours = |&k: &EventId| !is_communication_name(trace.name(k));
            listed.retain(ours);
            let mut expected: Vec<EventId> = report.tree.linked_gpu_events().filter(ours).collect();
            expected.sort_unstable();
            assert_eq!(listed, expected, "{}", path.display());
            let rows = &report.rows.unified;
            let calls: usize = rows.rows.iter().map(|r| r.calls.len()).sum();
            assert_eq!(calls, rows.calls.len(), "{}", path.display());
        }
    }
}

#[test]
fn all_options_at_once_give_sound_tables() {
    for (path, trace) in all_traces() {
        for fidelity in [Fidelity::Correct, Fidelity::Reference] {
            let options = everything(fidelity);
            let report = match build_report(&trace, &options) {
                Ok(report) => report,
                Err(error) => {
                    assert!(matches!(error, ReportError::NoGpuEvents | ReportError::AllUnlinked { .. }), "{error}");
                    continue;
                }
            };
            for table in &report.tables() {
                let rows = table.rows();
                assert!(table.columns.iter().all(|c| c.cells.len() == rows), "{}: {}", path.display(), table.name);
                let mut headers: Vec<&str> = table.columns.iter().map(|c| c.header.as_str()).collect();
                headers.sort_unstable();
                assert!(headers.windows(2).all(|w| w[0] != w[1]), "{}: a header stands twice", table.name);
            }
            let again = build_report(&trace, &options).unwrap();
            assert!(again.tables() == report.tables(), "{}: two runs differ", path.display());
        }
    }
}
