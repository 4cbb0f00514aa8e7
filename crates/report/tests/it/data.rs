//! The machine files of every trace at hand: what they are called, what is in them, what their schemas say.

use std::collections::BTreeMap;
use std::path::Path;

use jarvis_report::ReplayEntry;
use jarvis_report::check::schema::{SCHEMAS, schema_of, violations};
use jarvis_report::check::{Folder, Level, check};
use jsonschema::Validator;
use serde_json::{Value, json};

use crate::runs::{Analysed, each, fixture};

/// A schema that takes no key it does not name: readers ignore unknown keys, but we write none that is not documented.
fn closed(schema: &Value) -> Value {
    match schema {
        Value::Object(object) => {
            let mut closed: serde_json::Map<String, Value> =
                object.iter().map(|(k, v)| (k.clone(), closed(v))).collect();
            if object.get("properties").is_some_and(Value::is_object) && object.contains_key("type") {
                closed.entry("additionalProperties").or_insert(Value::Bool(false));
            }
            Value::Object(closed)
        }
        Value::Array(items) => items.iter().map(closed).collect(),
        other => other.clone(),
    }
}

pub(crate) struct Schemas {
    open: BTreeMap<&'static str, Validator>,
    closed: BTreeMap<&'static str, Validator>,
    parsed: BTreeMap<&'static str, Value>,
}

impl Schemas {
    pub(crate) fn all() -> Self {
        let mut all = Self { open: BTreeMap::new(), closed: BTreeMap::new(), parsed: BTreeMap::new() };
        for schema in SCHEMAS {
            let parsed: Value = serde_json::from_str(schema.text).unwrap();
            assert!(jsonschema::meta::is_valid(&parsed), "{}", schema.name);
            all.open.insert(schema.name, jsonschema::validator_for(&parsed).unwrap());
            all.closed.insert(schema.name, jsonschema::validator_for(&closed(&parsed)).unwrap());
            all.parsed.insert(schema.name, parsed);
        }
        all
    }

    pub(crate) fn assert_valid(&self, trace: &str, name: &str, document: &Value) {
        let schema = schema_of(name).unwrap_or_else(|| panic!("{name} has no schema")).name;
        let errors = |v: &Validator| {
            v.iter_errors(document).map(|e| format!("{}: {e}", e.instance_path())).take(3).collect::<Vec<_>>()
        };
        assert_eq!(errors(&self.open[schema]), [] as [&str; 0], "{trace}: {name}");
        assert_eq!(errors(&self.closed[schema]), [] as [&str; 0], "{trace}: {name} has keys that no schema tells of");
        assert_eq!(violations(&self.parsed[schema], document), [] as [&str; 0], "{trace}: {name}");
    }
}

/// Numbers that have more decimals than their unit allows.
pub(crate) fn unrounded(value: &Value, key: &str, found: &mut Vec<String>) {
    match value {
        Value::Object(object) => object.iter().for_each(|(k, v)| unrounded(v, k, found)),
        Value::Array(items) => items.iter().for_each(|v| unrounded(v, key, found)),
        Value::Number(n) if n.is_f64() => {
            let text = n.to_string();
            let decimals = text.split_once('.').map_or(0, |(_, d)| d.len());
            let most = match key {
                k if k.ends_with("_ms") => 3,
                k if k.ends_with("_us") || k.ends_with("_percent") => 2,
                _ => 4,
            };
            if decimals > most {
                found.push(format!("{key}: {text}"));
            }
        }
        _ => {}
    }
}

#[test]
fn every_trace_has_its_files_and_they_are_what_the_schemas_say() {
    let schemas = Schemas::all();
    each(|analysed| {
        let trace = &analysed.name;
        let files = analysed.data();
        assert_eq!(files, analysed.data(), "{trace}: two runs differ");
        assert_eq!(files["category_manifest.json"], files["category_data/category_manifest.json"]);
        for (name, bytes) in files.iter().filter(|(name, _)| is(name, "json")) {
            let document: Value = serde_json::from_slice(bytes).unwrap_or_else(|e| panic!("{trace}: {name}: {e}"));
            schemas.assert_valid(trace, name, &document);
            let mut found = Vec::new();
            unrounded(&document, "", &mut found);
            assert_eq!(found, [] as [&str; 0], "{trace}: {name}");
            let text = std::str::from_utf8(bytes).unwrap();
            assert!(text.ends_with("}\n"), "{trace}: {name}");
            let first = text.lines().nth(1).unwrap_or_default();
            let keyed = ["\"schema_version\": 1", "\"schema\": ", "\"model\": "].iter().any(|k| first.contains(k));
            assert!(keyed || name.ends_with("_tree_data.json"), "{trace}: {name} begins with {first}");
        }
        assert_eq!(problems(analysed, &files), [] as [&str; 0], "{trace}");
        let manifest: Value = serde_json::from_slice(&files["category_manifest.json"]).unwrap();
        for category in manifest["categories"].as_array().unwrap() {
            for key in ["csv_file", "metadata_file", "metrics_file", "tree_data_file", "data_file"] {
                if let Some(file) = category[key].as_str() {
                    assert!(files.contains_key(file), "{trace}: {file}");
                }
            }
        }
    });
}

/// Whether a file is of a kind.
fn is(file: &str, extension: &str) -> bool {
    Path::new(file).extension().is_some_and(|e| e == extension)
}

/// Files that others write.
fn is_foreign(file: &str) -> bool {
    is(file, "md") || is(file, "xlsx") || file.ends_with("_findings")
}

/// What the checks say of the files that are ours.
fn problems(analysed: &Analysed, data: &BTreeMap<String, Vec<u8>>) -> Vec<String> {
    let sheets = analysed.sheets();
    let mut folder = Folder::new();
    for (name, bytes) in data.iter().chain(&sheets) {
        folder.file(name.clone(), bytes);
    }
    let failed = check(&folder).into_iter().filter(|p| p.level == Level::Failed && !is_foreign(&p.file));
    failed.map(|p| p.to_string()).collect()
}

/// How a document is broken.
type Change = fn(&mut Value);

#[test]
fn broken_documents_are_refused_by_schema_and_by_our_own_validator() {
    let schemas = Schemas::all();
    let files = fixture("h200", "attn_unfused.json.gz").data();
    let breaks: [(&str, Change); 14] = [
        ("findings.json", |d| drop(d.as_object_mut().unwrap().remove("trace"))),
        ("findings.json", |d| d["schema"] = json!("jarvis.findings/2")),
        ("findings.json", |d| d["findings"][0]["pattern"] = json!("unheard_of")),
        ("findings.json", |d| d["findings"][0]["impact"]["saved_ms"]["low"] = json!(-1)),
        ("findings.json", |d| d["findings"][0]["impact"]["speedup"]["high"] = Value::Null),
        ("category_manifest.json", |d| d["categories"][0]["tier"] = json!("kernel")),
        ("category_manifest.json", |d| d["top_operations"][0]["rank"] = json!(1.5)),
        ("category_data/gemm_metrics.json", |d| d["status"] = json!("FINE")),
        ("category_data/gemm_metrics.json", |d| d["operations"][0]["efficiency"] = json!([])),
        ("category_data/cpu_idle_metrics.json", |d| d["impact_estimates"] = json!([1])),
        ("category_data/fusion_candidates.json", |d| d["candidates"][0]["confidence"] = json!("sure")),
        ("metadata/gemm_metadata.json", |d| d["thresholds"]["gemm.time_ms"] = json!("50")),
        ("metadata/model_info.json", |d| d["model"] = json!("")),
        ("category_data/gemm_tree_data.json", |d| d["1"] = json!({})),
    ];
    for (name, change) in breaks {
        let mut document: Value = serde_json::from_slice(&files[name]).unwrap();
        change(&mut document);
        let schema = schema_of(name).unwrap().name;
        assert!(!schemas.open[schema].is_valid(&document), "{name}");
        assert!(!violations(&schemas.parsed[schema], &document).is_empty(), "{name}");
    }
    let mut document: Value = serde_json::from_slice(&files["findings.json"]).unwrap();
    document["findings"][0]["news"] = json!(1);
    assert!(schemas.open["findings"].is_valid(&document), "readers ignore what they do not know");
    assert!(!schemas.closed["findings"].is_valid(&document), "but we write nothing undocumented");
}

#[test]
fn attention_without_attention_operations_has_metrics_and_no_rows() {
    let analysed = fixture("h200", "attn_unfused.json.gz");
    let files = analysed.data();
    let manifest: Value = serde_json::from_slice(&files["category_manifest.json"]).unwrap();
    let sdpa = manifest["categories"].as_array().unwrap().iter().find(|c| c["name"] == "sdpa_fwd").unwrap();
    assert_eq!((&sdpa["csv_file"], &sdpa["tree_data_file"]), (&Value::Null, &Value::Null));
    assert_eq!(sdpa["findings_file"], "category_findings/sdpa_fwd_findings.md");
    assert!(files.contains_key("category_data/sdpa_fwd_metrics.json"));
    assert!(!files.contains_key("category_data/sdpa_fwd_ops.csv"));
}

#[test]
fn rows_are_those_of_the_report_with_columns_added() {
    let analysed = fixture("h200", "attn_unfused.json.gz");
    let (files, sheets) = (analysed.data(), analysed.sheets());
    let rows = |bytes: &[u8]| -> Vec<csv_line::Record> { csv_line::read(bytes) };
    let unified = rows(&sheets["perf_report_csvs/unified_perf_summary.csv"]);
    let width = unified[0].len();
    let mut seen = 0;
    for (name, bytes) in files.iter().filter(|(name, _)| name.ends_with("_ops.csv")) {
        let category = rows(bytes);
        assert_eq!(category[0][..width], unified[0][..], "{name}");
        assert_eq!(
            category[0][width..],
            [
                "enhanced_category",
                "display_name",
                "direction",
                "percent_of_category",
                "percent_of_compute",
                "percent_of_total",
                "in_top_ops",
                "efficiency_percent",
                "bound_type",
                "copy_time_ms"
            ]
        );
        let time = unified[0].iter().position(|h| h == "Kernel Time (µs)_sum").unwrap();
        let times: Vec<f64> = category[1..].iter().map(|r| r[time].parse().unwrap()).collect();
        assert!(times.is_sorted_by(|a, b| a >= b), "{name}");
        for row in &category[1..] {
            assert!(unified[1..].iter().any(|u| u[..] == row[..width]), "{name}: {row:?}");
        }
        seen += category.len() - 1;
    }
    assert_eq!(seen, unified.len() - 1, "every row belongs to one category");
}

/// Enough of CSV to read back what was written.
mod csv_line {
    pub(super) type Record = Vec<String>;

    pub(super) fn read(bytes: &[u8]) -> Vec<Record> {
        let mut rows = vec![vec![String::new()]];
        let mut quoted = false;
        let text = std::str::from_utf8(bytes).unwrap();
        let mut chars = text.chars().peekable();
        while let Some(c) = chars.next() {
            let row = rows.last_mut().unwrap();
            match c {
                '"' if quoted && chars.peek() == Some(&'"') => row.last_mut().unwrap().push(chars.next().unwrap()),
                '"' => quoted = !quoted,
                ',' if !quoted => row.push(String::new()),
                '\n' if !quoted => rows.push(vec![String::new()]),
                c => row.last_mut().unwrap().push(c),
            }
        }
        rows.pop();
        rows
    }
}

#[test]
fn replay_packages_are_named_where_they_belong() {
    let mut analysed = fixture("h200", "lm_compiled_train.json.gz");
    let read = |a: &Analysed, name: &str| -> Value { serde_json::from_slice(&a.data()[name]).unwrap() };
    // Findings of several operations name no package.
    let of_attention = |a: &Analysed| {
        let findings = read(a, "findings.json")["findings"].as_array().unwrap().clone();
        findings.into_iter().find(|f| f["pattern"] == "attention_below_band").unwrap()
    };
    let without = of_attention(&analysed);
    assert_eq!(without["replay_package"], Value::Null);
    assert!(without["replay_reason"].is_string(), "{without}");
    let path = "replay_packages/attention_replay_package.zip";
    let op = without["operations"][0]["name"].as_str().unwrap().to_owned();
    analysed.replay.push(ReplayEntry { op: op.clone(), path: path.to_owned(), shapes: 1, time_ms: 1.0 });
    let with = of_attention(&analysed);
    assert_eq!((&with["replay_package"], &with["replay_reason"]), (&json!(path), &Value::Null));
    let metrics = read(&analysed, "category_data/sdpa_fwd_metrics.json");
    let bottleneck = metrics["bottlenecks"].as_array().unwrap().iter().find(|b| b["operation"] == op).unwrap();
    assert_eq!(bottleneck["replay"]["recommended"], true);
    assert_eq!(bottleneck["replay"]["package"], "attention_replay_package.zip");
}
