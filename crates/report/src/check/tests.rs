//! A small output folder made by hand, and what the checks say when something in it is changed.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::*;

type Files = BTreeMap<String, String>;

fn utilization() -> Value {
    json!({
        "total_time_ms": 100.0, "computation_time_ms": 90.0, "computation_time_percent": 90.0,
        "exposed_comm_time_ms": 0.0, "exposed_comm_time_percent": 0.0, "exposed_memcpy_time_ms": 2.0,
        "exposed_memcpy_time_percent": 2.0, "idle_time_ms": 8.0, "idle_time_percent": 8.0, "busy_time_ms": 92.0,
        "total_comm_time_ms": 0.0, "total_memcpy_time_ms": 2.0
    })
}

fn category(name: &str, display: &str, tier: &str, ms: f64) -> Value {
    let compute = tier == "compute_kernel";
    let place = if compute { "category_findings" } else { "system_findings" };
    let path = |end: &str| compute.then(|| format!("category_data/{name}{end}"));
    json!({
        "name": name, "display_name": display, "skill": name, "tier": tier, "ops_count": 1, "operation_count": 12,
        "gpu_kernel_time_ms": ms, "percent_of_compute": ms / 0.9, "cpu_duration_ms": 1.0, "sync_time_ms": 0.0,
        "sync_ops_count": 0, "has_sync_bottleneck": false, "csv_file": path("_ops.csv"),
        "metadata_file": null, "metrics_file": format!("category_data/{name}_metrics.json"),
        "tree_data_file": path("_tree_data.json"), "findings_file": format!("{place}/{name}_findings.md"),
        "data_file": null, "status": "OK", "priority": null
    })
}

fn manifest() -> Value {
    json!({
        "schema_version": 1, "platform": "MI300X", "trace_path": "/data/t.json.gz", "output_dir": ".",
        "comparison_scope": "standalone",
        "run": {"cluster": null, "container": null, "model_name": "M", "python_stack": true, "record_shapes": true,
                "steps": 1, "device_count": 1},
        "gpu_utilization": utilization(), "utilization_ok": false, "cpu_idle_critical": false, "system_first": true,
        "top_operations": [{"rank": 1, "name": "aten::bmm", "category": "gemm", "time_ms": 90.0,
            "percent_of_compute": 100.0, "cumulative_percent": 100.0, "count": 12, "bound_type": "memory",
            "flops_per_byte": 3.76, "efficiency_percent": 1.36, "aliases": []}],
        "categories": [category("cpu_idle", "CPU/Idle Time", "system", 0.0),
                       category("gemm", "GEMM", "compute_kernel", 90.0)],
        "time_metric_note": "rank by gpu_kernel_time_ms",
        "peaks": {"peak_hbm_bw_tbs": 5.3, "peak_bf16_maf_tflops": 708.0,
                  "max_achievable_tflops": {"matrix_bf16": 708.0}, "peak_source": {"matrix_bf16": "seed"}}
    })
}

fn model() -> Value {
    let evidence = json!({"model": "m", "architecture": "a", "scale": "s", "precision": "p"});
    let unknown = "Cannot be inferred from trace";
    json!({"model": "Timesformer", "architecture": "Transformer", "scale": unknown, "precision": "BF16", "evidence": evidence})
}

fn findings() -> Value {
    let finding = json!({
        "rank": 1, "pattern": "tiny_gemms", "tier": "compute", "category": "gemm", "priority": "critical",
        "title": "t", "issue": "i", "operations": [], "time_ms": 90.0, "percent_of_total": 90.0,
        "paths": {"algorithmic": ["a"], "kernel": ["b"]},
        "impact": {"saved_ms": {"low": 20.0, "high": 50.0}, "speedup": {"low": 1.25, "high": 2.0}, "basis": "b"},
        "evidence": [{"table": "unified_perf_summary", "row": "aten::bmm (37632,8,64)", "uid": 5120, "fact": "f"},
                     {"table": "gpu_timeline", "row": "idle_time", "uid": null, "fact": "f"}],
        "replay_package": "replay_packages/aten_bmm_replay_package.zip", "replay_reason": null
    });
    let mut model = model();
    model["name"] = "Timesformer".into();
    json!({
        "schema": "jarvis.findings/1",
        "trace": {"path": "/data/t.json.gz", "file": "t.json.gz", "events": 9, "steps": 1, "device_count": 1,
                  "capture": {"shapes": true, "python_stack": true, "profiler_steps": true}},
        "platform": {"name": "MI300X", "device_name": null, "compute_units": null, "memory_gb": null,
                     "peak_hbm_bw_tbs": 5.3, "peak_bf16_maf_tflops": 708.0, "max_achievable_tflops": {}, "peak_source": {}},
        "gpu_timeline": utilization(), "model": model, "findings": [finding], "warnings": []
    })
}

fn metrics() -> Value {
    let bottleneck = json!({
        "id": "gemm-1", "operation": "aten::bmm", "tree_uids": [5120], "args": "", "member_count": 1, "count": 12,
        "time_ms": 90.0, "percent_of_category": 100.0, "percent_of_compute": 100.0, "percent_of_total": 90.0,
        "efficiency_percent": 1.36, "bound_type": "memory", "reasons": ["TIME_SHARE"], "patterns": [],
        "in_top_ops": true, "priority_category": "High", "priority": "Critical", "issue": "", "algorithmic": "",
        "kernel": "", "text_ids": [], "impact": {"targets": [], "saved_ms_low": 20.0, "saved_ms_high": 50.0, "basis": ""},
        "replay": {"recommended": true, "reason": "", "package": "aten_bmm_replay_package.zip"}
    });
    json!({
        "schema_version": 1, "category": "gemm", "display_name": "GEMM", "status": "OK",
        "comparison_scope": "standalone", "total_time_ms": 90.0, "percent_of_compute": 100.0, "percent_of_total": 90.0,
        "operation_count": 12, "unique_args_count": 1, "average_efficiency_percent": null,
        "mean_efficiency_percent_unweighted": null, "modeled_time_percent": 0.0, "operations": [],
        "bottlenecks": [bottleneck], "patterns": [], "category_specific": {}, "impact_estimates": [], "warnings": []
    })
}

const FAIR: &str = "# M - MI300X Standalone Analysis

## Executive Summary
M on MI300X: 100.00 ms of GPU time, 90.0% computing.

| Metric | Value |
|--------|-------|
| Total Compute Time | 90.00 ms |
| GPU Utilization | 90.0% |
| Idle Time | 8.0% |
| Exposed Communication | 0.0% |
| Top Bottleneck Category | GEMM (100.0%) |

### Top Operations
**These operations consume the most GPU time - prioritize optimizations here**

| Rank | Operation | Category | Time (ms) | % of Total Compute |
|------|-----------|----------|-----------|--------------------|
| 1 | aten::bmm | GEMM | 90.00 | 100.0 |

---

## Recommendations

### 🔴 Critical Priority: GEMM: aten::bmm at 1.4% of peak (R1)
**Operation**: `aten::bmm` (#1 in Top Operations)
**Issue**: 37632 matrices of 8x8x64 per call.
**Action**: Path A: Batch the small products into one call. Path B: Replay artifact recommended for kernel team to investigate and optimize.
**Impact**: saves 20.00 to 50.00 ms of 100.00 ms (1.25x to 2.00x end to end); basis: b.
→ *See [Detailed Analysis: GEMM](#detail-gemm) for details*

---

## Detailed Analysis

<a id=\"detail-gemm\"></a>
### 1. GEMM (100.0% of compute)
Replay artifact recommended for kernel team to investigate and optimize.

---

## Appendix

### Hardware Reference
- **Platform**: MI300X
- **Peak HBM BW**: 5.3 TB/s
- **Peak MAF**: 708 TFLOPS (BF16)

### Model
- **Model**: Timesformer **Architecture**: Transformer **Precision**: BF16
";

const ROUGH: &str = "# M - MI300X Standalone Analysis (Rough)

## Analysis Process Summary
### Step 1: Identify Traces & Setup
The trace /data/t.json.gz was read.
### Step 2: Generate Reports
x
### Step 3-5: Prepare Category Data
x
### Step 6: Category Analyses
x
### Step 7: Optimization Paths Determination
x
## Raw Data Exploration

| Rank | Operation | Finding |
|------|-----------|---------|
| 1 | `aten::bmm` | recommendation R1 |

## Tree Analysis
x
## Analysis Gaps
x
## Questions for Further Investigation
x
";

fn good() -> Files {
    let manifest = manifest().to_string();
    let idle = json!({"schema_version": 1, "category": "cpu_idle", "status": "NO_DATA", "message": "none"});
    let files = [
        ("category_manifest.json", manifest.clone()),
        ("category_data/category_manifest.json", manifest),
        ("category_data/cpu_idle_metrics.json", idle.to_string()),
        ("category_data/gemm_metrics.json", metrics().to_string()),
        ("category_data/gemm_tree_data.json", "{}".to_owned()),
        (
            "category_data/gemm_ops.csv",
            "name,enhanced_category,percent_of_category,in_top_ops,efficiency_percent\naten::bmm,gemm,100.0,True,1.36\n"
                .to_owned(),
        ),
        ("metadata/model_info.json", model().to_string()),
        ("findings.json", findings().to_string()),
        ("category_findings/gemm_findings.md", "# GEMM Analysis Summary\n\nStatus: SUCCESS\n".to_owned()),
        ("system_findings/cpu_idle_findings.md", "# CPU/Idle Time Analysis Findings\n\nNothing.\n".to_owned()),
        ("perf_report.xlsx", String::new()),
        ("perf_report_csvs/unified_perf_summary.csv", "name,ex_UID\naten::bmm,5120\n".to_owned()),
        ("perf_report_csvs/gpu_timeline.csv", "type,time ms\nidle_time,8.0\n".to_owned()),
        ("replay_packages/aten_bmm_replay_package.zip", String::new()),
        ("standalone_analysis_fair.md", FAIR.to_owned()),
        ("standalone_analysis_rough.md", ROUGH.to_owned()),
    ];
    files.into_iter().map(|(name, text)| (name.to_owned(), text)).collect()
}

fn problems(files: &Files) -> Vec<String> {
    let mut folder = Folder::new();
    for (name, text) in files {
        folder.file(name.clone(), text.as_bytes());
    }
    check(&folder).iter().map(Problem::to_string).collect()
}

/// The checks that fail after a change, each once.
fn failing(change: impl FnOnce(&mut Files)) -> Vec<String> {
    let mut files = good();
    change(&mut files);
    let mut checks: Vec<String> =
        problems(&files).iter().filter_map(|p| p.split(' ').nth(1).map(str::to_owned)).collect();
    checks.dedup();
    checks
}

fn json_of(files: &Files, name: &str) -> Value {
    serde_json::from_str(&files[name]).unwrap()
}

fn edit(files: &mut Files, name: &str, change: impl FnOnce(&mut Value)) {
    let mut document = json_of(files, name);
    change(&mut document);
    let text = document.to_string();
    if name == "category_manifest.json" {
        files.insert(format!("category_data/{name}"), text.clone());
    }
    files.insert(name.to_owned(), text);
}

fn replace<'a>(name: &'a str, from: &'a str, to: &'a str) -> impl FnOnce(&mut Files) + 'a {
    move |files| {
        let text = &files[name];
        assert!(text.contains(from), "{from}");
        let text = text.replacen(from, to, 1);
        files.insert(name.to_owned(), text);
    }
}

#[test]
fn a_good_folder_has_no_problem() {
    // The metrics of idle time are the short form, which the manifest would call NO_DATA; the tier has no such check.
    assert_eq!(problems(&good()), [] as [&str; 0]);
}

#[test]
fn missing_files_and_strangers_are_noticed() {
    let without = |name: &'static str| failing(|files| drop(files.remove(name)));
    assert_eq!(without("category_data/gemm_tree_data.json"), ["W5"]);
    assert_eq!(without("category_findings/gemm_findings.md"), ["W1", "W6"]);
    assert_eq!(without("metadata/model_info.json"), ["W1", "W3"]);
    assert_eq!(without("perf_report_csvs/unified_perf_summary.csv"), ["W4", "evidence"]);
    assert_eq!(without("replay_packages/aten_bmm_replay_package.zip"), ["replay"]);
    assert_eq!(without("standalone_analysis_fair.md"), ["files"]);
    let stranger =
        |files: &mut Files| drop(files.insert("system_findings/gemm_findings.md".into(), "# G\n\nx\n".into()));
    assert_eq!(failing(stranger), ["W7"]);
    assert_eq!(failing(|f| drop(f.insert("findings.json".into(), "{\"a\": NaN}".into()))), ["json"]);
    assert_eq!(failing(replace("category_data/gemm_ops.csv", "1.36", "nan")), ["nan"]);
    let escape = |f: &mut Files| edit(f, "category_manifest.json", |m| m["categories"][1]["data_file"] = "../x".into());
    assert_eq!(failing(escape), ["path"]);
}

#[test]
fn the_manifest_and_its_copy_are_both_checked() {
    const COPY: &str = "category_data/category_manifest.json";
    let of = |files: &Files| problems(files).into_iter().filter(|p| p.contains(" schema ")).collect::<Vec<_>>();
    let mut files = good();
    edit(&mut files, "category_manifest.json", |m| m["platform"] = 1.into());
    let fault = "$.platform: expected \"string\", found 1";
    let manifest = format!("FAIL schema category_manifest.json: {fault}");
    let copy = format!("FAIL schema {COPY}: {fault}");
    assert_eq!(of(&files), [copy.clone(), manifest]);
    let broken = files[COPY].clone();
    let mut files = good();
    files.insert(COPY.to_owned(), broken);
    assert_eq!(of(&files), [copy], "a copy that differs is read by itself");
    assert_eq!(failing(|f| drop(f.insert(COPY.into(), "{".into()))), ["files", "json"]);
    let no_json = |f: &mut Files| ["category_manifest.json", COPY].map(|name| f.insert(name.into(), "{".into()));
    let told = |name: &str| {
        let mut files = good();
        no_json(&mut files);
        problems(&files).iter().filter(|p| p.starts_with(&format!("FAIL json {name}: no JSON: EOF"))).count()
    };
    assert_eq!((told("category_manifest.json"), told(COPY)), (1, 1));
}

#[test]
fn a_sheet_that_is_not_looked_into_may_hold_any_row() {
    const SHEET: &str = "perf_report_csvs/unified_perf_summary.csv";
    let mut files = good();
    files.insert(SHEET.to_owned(), "name,ex_UID\naten::bmm,1\n".to_owned());
    let told = |is_closed: bool| {
        let mut folder = Folder::new();
        for (name, text) in &files {
            if is_closed && name == SHEET {
                folder.closed_file(name.clone());
            } else {
                folder.file(name.clone(), text.as_bytes());
            }
        }
        check(&folder).len()
    };
    assert_eq!((told(false), told(true)), (1, 0));
}

#[test]
fn numbers_that_contradict_each_other_are_noticed() {
    let findings = |change: fn(&mut Value)| failing(|f| edit(f, "findings.json", change));
    assert_eq!(findings(|d| d["findings"][0]["rank"] = 2.into()), ["rank"]);
    assert_eq!(findings(|d| d["findings"][0]["tier"] = "system".into()), ["tier"]);
    assert_eq!(findings(|d| d["findings"][0]["impact"]["speedup"]["high"] = 3.into()), ["impact"]);
    assert_eq!(findings(|d| d["findings"][0]["pattern"] = "new".into()), ["schema"]);
    assert_eq!(findings(|d| d["findings"][0]["replay_package"] = Value::Null), ["replay"]);
    assert_eq!(findings(|d| d["findings"][0]["evidence"][1]["row"] = "no_time".into()), ["evidence"]);
    assert_eq!(findings(|d| d["gpu_timeline"]["idle_time_ms"] = 9.into()), ["percent"]);
    let of_each = json!([{"device": "0", "computation_time_ms": 1, "exposed_comm_time_ms": 0, "exposed_memcpy_time_ms": 0,
                          "busy_time_ms": 1, "busy_time_percent": 1, "idle_time_ms": 99, "idle_time_percent": 99}]);
    let several = |f: &mut Files| edit(f, "findings.json", |d| d["gpu_timeline"]["devices"] = of_each.clone());
    assert_eq!(failing(several), [] as [&str; 0], "each GPU by itself stands in the findings alone");
    let mut none = good();
    edit(&mut none, "category_manifest.json", |m| m["categories"][1]["gpu_kernel_time_ms"] = Value::Null);
    let told = problems(&none).concat();
    assert!(told.contains("add up to 0.000 ms"), "{told}");
    let shares = |m: &mut Value| m["bottlenecks"][0]["percent_of_category"] = 130.into();
    assert_eq!(failing(|f| edit(f, "category_data/gemm_metrics.json", shares)), ["percent"]);
    let slower = |m: &mut Value| m["categories"][1]["gpu_kernel_time_ms"] = 50.into();
    assert_eq!(failing(|f| edit(f, "category_manifest.json", slower)), ["time_sum"]);
    let told = |f: &mut Files| {
        edit(f, "category_manifest.json", slower);
        edit(f, "category_data/gemm_metrics.json", |m| m["total_time_ms"] = 50.into());
        let warning = "Category times add up to 50.00 ms, computation time is 90.00 ms: streams overlap.";
        edit(f, "findings.json", |d| d["warnings"] = json!([warning]));
    };
    let mut files = good();
    told(&mut files);
    let found = problems(&files);
    assert!(found.len() == 1 && found[0].starts_with("WARN time_sum"), "{found:?}");
}

/// What the recommendation of [`FAIR`] brings.
const SAVES: &str = "saves 20.00 to 50.00 ms of 100.00 ms (1.25x to 2.00x end to end); basis: b.";

#[test]
fn recommendations_are_those_of_the_findings() {
    let fair = |from: &str, to: &str| failing(replace("standalone_analysis_fair.md", from, to));
    for (from, to) in [
        ("saves 20.00", "saves 30.00"),
        ("to 50.00 ms", "to 51.00 ms"),
        ("of 100.00 ms (", "of 110.00 ms ("),
        ("(1.25x", "(1.35x"),
        ("2.00x end", "9.00x end"),
        ("saves 20.00 to 50.00 ms", "saves up to 50.00 ms"),
        ("Critical Priority", "High Priority"),
        ("(R1)", "(R2)"),
    ] {
        assert_eq!(fair(from, to), ["impact"], "{from}");
    }
    assert_eq!(fair("saves 20.00 to 50.00", "saves 20.004 to 49.996"), [] as [&str; 0], "rounded otherwise");
    let findings = |change: fn(&mut Value)| failing(|f| edit(f, "findings.json", change));
    assert_eq!(findings(|d| d["findings"][0]["time_ms"] = 45.into()), ["percent"]);
    assert_eq!(findings(|d| d["findings"][0]["percent_of_total"] = 45.into()), ["percent"]);
    let saved = |d: &mut Value| {
        d["findings"][0]["impact"] =
            json!({"saved_ms": {"low": 0.0, "high": 50.0}, "speedup": {"low": 1.0, "high": 2.0}, "basis": "b"});
    };
    assert_eq!(findings(saved), ["impact"]);
    let both = |f: &mut Files| {
        edit(f, "findings.json", saved);
        let said = "saves up to 50.00 ms of 100.00 ms (1.00x to 2.00x end to end); basis: b.";
        replace("standalone_analysis_fair.md", SAVES, said)(f);
    };
    assert_eq!(failing(both), [] as [&str; 0]);
}

/// A zip file without parts.
const EMPTY_ZIP: &str = "PK\u{5}\u{6}\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0";

/// The good folder as it lies on disk.
fn good_on_disk() -> Files {
    let mut files = good();
    files.insert("perf_report.xlsx".to_owned(), EMPTY_ZIP.to_owned());
    files.insert("report.html".to_owned(), "<html>".to_owned());
    files
}

/// What the checks say of a folder on disk that has a log of these files, of a version that did not list all of them.
fn on_disk(log: &Value, change: impl FnOnce(&mut Files)) -> Vec<String> {
    on_disk_of(2, log, change)
}

fn on_disk_of(version: u32, log: &Value, change: impl FnOnce(&mut Files)) -> Vec<String> {
    let mut files = good_on_disk();
    let log = json!({"schema_version": version, "version": "1", "stages": [], "warnings": [], "self_check": [], "files": log});
    files.insert("run_log.json".to_owned(), log.to_string());
    change(&mut files);
    let mut folder = Folder::new();
    for (name, text) in &files {
        folder.file(name.clone(), text.as_bytes());
        folder.size(name.clone(), text.len() as u64);
    }
    check(&folder).iter().map(Problem::to_string).collect()
}

#[test]
fn what_a_run_wrote_must_still_be_there_whole() {
    let entry = |(name, text): (&String, &String)| json!({"path": name, "bytes": text.len(), "crc32": crate::Checksum::of(text.as_bytes()).to_string()});
    let log = || good_on_disk().iter().map(entry).collect::<Value>();
    assert_eq!(on_disk(&log(), |_| {}), [] as [&str; 0]);
    assert_eq!(on_disk_of(3, &log(), |_| {}), [] as [&str; 0]);
    let gone = |f: &mut Files| drop(f.remove("run_log.json"));
    let told = "FAIL written run_log.json: missing; it tells which files the run wrote, and their checksums";
    assert_eq!(on_disk(&log(), gone), [told]);
    let svg = || json!([{"path": "improvement.svg", "bytes": 10}]);
    assert_eq!(on_disk(&svg(), |_| {}), ["FAIL written improvement.svg: missing; run_log.json lists it"]);
    let cut = |f: &mut Files| drop(f.insert("improvement.svg".into(), "<svg/>".into()));
    assert_eq!(on_disk(&svg(), cut), ["FAIL written improvement.svg: 6 bytes, run_log.json says 10"]);
    // As long as before, and something else.
    let table = json!([{"path": "table.csv", "bytes": 9, "crc32": "cbf43926"}]);
    let as_it_was = |f: &mut Files| drop(f.insert("table.csv".into(), "123456789".into()));
    assert_eq!(on_disk(&table, as_it_was), [] as [&str; 0]);
    let damaged = |f: &mut Files| drop(f.insert("table.csv".into(), "123456780".into()));
    let told = "FAIL written table.csv: not what the run wrote: its CRC-32 is b2288182, run_log.json says cbf43926";
    assert_eq!(on_disk(&table, damaged), [told]);
    // A log without checksums or of names alone, as older versions wrote it.
    assert_eq!(on_disk(&json!([{"path": "table.csv", "bytes": 9}]), damaged), [] as [&str; 0]);
    assert_eq!(on_disk(&json!(["improvement.svg"]), |_| {}), [] as [&str; 0]);
    // What a person adds is no fault; what a killed run left is told.
    let added = |f: &mut Files| drop(f.insert("notes.txt".into(), "x".into()));
    assert_eq!(on_disk(&log(), added), [] as [&str; 0]);
    let left = |f: &mut Files| drop(f.insert("category_data/.jarvis-1-2.tmp".into(), "x".into()));
    let told =
        "WARN leftover category_data/.jarvis-1-2.tmp: a temporary file of a run that was killed; it can be removed";
    assert_eq!(on_disk(&log(), left), [told]);
    // What another run or a person left among the results looks like one of them. It is no fault of this run.
    for (name, text) in [
        ("perf_report_csvs/CONV_fwd.csv", "x"),
        ("category_findings/mine.md", "# Occupancy!\n[x](nowhere)\n"),
        ("category_data/x_metrics.json", "no JSON"),
        ("replay_packages/evil.py", "x"),
        ("roofline.svg", "x"),
        ("NOTES.md", "Low occupancy!\n"),
    ] {
        let other = |f: &mut Files| drop(f.insert(name.into(), text.into()));
        let told = format!("WARN stranger {name}: run_log.json does not list it: it may be of another trace");
        assert_eq!(on_disk_of(3, &log(), other), [told]);
    }
}

#[test]
fn a_log_lists_what_every_run_writes() {
    let entry = |(name, text): (&String, &String)| json!({"path": name, "bytes": text.len()});
    let without = |gone: &str| good_on_disk().iter().filter(|(name, _)| *name != gone).map(entry).collect::<Value>();
    for name in ["report.html", "perf_report.xlsx", "perf_report_csvs/gpu_timeline.csv", "category_data/gemm_ops.csv"] {
        let told = format!("FAIL written run_log.json: {name} is not listed, and every run like this writes it");
        let said = on_disk_of(3, &without(name), |_| {});
        assert!(said.contains(&told), "{said:#?}");
    }
    assert!(on_disk_of(3, &json!([]), |_| {}).iter().filter(|said| said.contains("is not listed")).count() > 10);
    let spoilt = |f: &mut Files| drop(f.insert("perf_report.xlsx".into(), EMPTY_ZIP.replace("PK", "KP")));
    let said = on_disk_of(3, &without(""), spoilt);
    assert_eq!(said.len(), 1, "{said:#?}");
    assert!(said[0].starts_with("FAIL workbook perf_report.xlsx: it can't be read: "), "{said:#?}");
}

#[test]
fn packages_must_be_those_of_the_index() {
    let index = |hash: &str| {
        let hash = hash.to_owned();
        move |f: &mut Files| {
            let package = json!({"package": "aten_bmm_replay_package.zip", "sha256": hash});
            f.insert("replay_packages/index.json".into(), json!({"packages": [package]}).to_string());
        }
    };
    let empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
    assert_eq!(on_disk(&json!([]), index(empty)), [] as [&str; 0]);
    let other = on_disk(&json!([]), index("00"));
    assert!(
        other.len() == 1 && other[0].starts_with("FAIL replay replay_packages/aten_bmm_replay_package.zip"),
        "{other:?}"
    );
    assert_eq!(failing(index("00")), [] as [&str; 0], "a run that is about to write them does not read them again");
}

#[test]
fn the_short_report_keeps_its_limits() {
    let fair = |from: &str, to: &str| failing(replace("standalone_analysis_fair.md", from, to));
    assert_eq!(fair("## Appendix", "## Annex"), ["W9"]);
    assert_eq!(fair("| Idle Time | 8.0% |", "| Idle Time | 18.0% |"), ["W10"]);
    assert_eq!(fair("| Idle Time | 8.0% |\n", ""), ["W10"]);
    assert_eq!(fair("90.0% computing.", "90.0% computing.\n1\n2\n3\n4\n5\n6\n7"), ["limit"]);
    assert_eq!(fair("90.0% computing.", &"word ".repeat(61)), ["limit"]);
    assert_eq!(fair("**Issue**: 37632 matrices of 8x8x64 per call.\n", ""), ["W11"]);
    assert_eq!(fair("Path B: ", ""), ["paths"]);
    assert_eq!(fair(SAVES, "much."), ["impact"]);
    for no_gain in jarvis_analyze::finding::NO_GAIN {
        assert_eq!(fair(SAVES, &format!("{no_gain}.")), [] as [&str; 0]);
    }
    assert_eq!(fair("(#detail-gemm)", "(#detail-sdpa)"), ["link"]);
    assert_eq!(fair("of 8x8x64 per call.", "of (8,8,64) per call."), ["limit"]);
    assert_eq!(fair("per call.\n", "per call.\n1\n2\n3\n4\n5\n"), ["limit"]);
    assert_eq!(fair("### 1. GEMM", "### 2. GEMM"), ["order"]);
    assert_eq!(fair("5.3 TB/s", "3.35 TB/s"), ["W12"]);
    let vector_only = |f: &mut Files| {
        let rates = json!({"vector_fp32": 67.0});
        edit(f, "category_manifest.json", |d| d["peaks"]["max_achievable_tflops"] = rates);
        replace("standalone_analysis_fair.md", "708 TFLOPS (BF16)", "not known")(f);
    };
    assert!(!failing(vector_only).contains(&"W12".to_owned()), "no matrix rate is known, so none is shown");
    assert_eq!(fair("**Precision**: BF16", "**Precision**: FP8"), ["W13"]);
    let called =
        |name: &'static str| move |f: &mut Files| edit(f, "findings.json", |d| d["model"]["name"] = name.into());
    assert_eq!(failing(called("Workload")), [] as [&str; 0], "nobody has named it");
    assert_eq!(failing(called("Chat 7")), ["W13"], "what the user calls the model is told");
    let both = |f: &mut Files| {
        called("Chat 7")(f);
        replace("standalone_analysis_fair.md", "**Model**: Timesformer", "**Model**: Chat 7")(f);
    };
    assert_eq!(failing(both), [] as [&str; 0]);
    let twice = "Batch all of the small products into one single call.";
    assert_eq!(fair("Batch the small products into one call.", &format!("{twice} {twice}")), ["duplicate"]);
    let nothing = |f: &mut Files| edit(f, "findings.json", |d| d["findings"] = json!([]));
    assert_eq!(failing(nothing), ["impact"], "a recommendation of no finding");
}

#[test]
fn a_report_without_recommendations_says_so() {
    let (before, rest) = FAIR.split_once("### 🔴").unwrap();
    let (_, after) = rest.split_once("details*\n").unwrap();
    let fair = |said: &str, files: &mut Files| {
        edit(files, "findings.json", |d| d["findings"] = json!([]));
        files.insert("standalone_analysis_fair.md".to_owned(), format!("{before}{said}\n{after}"));
        let rough = files["standalone_analysis_rough.md"].replace("recommendation R1", "within expected");
        files.insert("standalone_analysis_rough.md".to_owned(), rough);
    };
    assert_eq!(failing(|f| fair("No bottleneck exceeds the thresholds.", f)), [] as [&str; 0]);
    assert_eq!(failing(|f| fair("No recommendation: no finding exceeds the thresholds.", f)), [] as [&str; 0]);
    assert_eq!(failing(|f| fair("Nothing.", f)), ["W11"]);
}

#[test]
fn the_long_report_accounts_for_every_top_operation() {
    let rough = |from: &str, to: &str| failing(replace("standalone_analysis_rough.md", from, to));
    assert_eq!(rough("recommendation R1", "recommendation R2"), ["top_ops"]);
    assert_eq!(rough("| 1 | `aten::bmm` | recommendation R1 |\n", ""), ["top_ops"]);
    assert_eq!(rough("## Analysis Gaps", "## Gaps"), ["W9"]);
    assert_eq!(rough("## Tree Analysis\nx", "## Tree Analysis"), ["empty"]);
    assert_eq!(rough("The trace", "The file /home/u/a.py of the trace"), ["path"]);
    assert_eq!(rough("was read", "was read in {ms} ms"), ["placeholder"]);
    assert_eq!(rough("was read", "obviously was read"), ["language"]);
}

#[test]
fn problems_read_as_one_line() {
    let problem =
        Problem { level: Level::Failed, check: "W10", file: "a.md".to_owned(), line: Some(3), text: "x".to_owned() };
    assert_eq!(problem.to_string(), "FAIL W10 a.md:3: x");
}
