//! What `docs/requirements.md` says of the files of a run, recomputed from them for every trace at hand.

use std::collections::BTreeMap;
use std::io::{Cursor, Read as _};

use serde_json::Value;

use crate::traces::{Ran, beside, each, fixture, list, number, text};

/// How far a rounded number may lie from one computed of other rounded numbers.
fn near(a: f64, b: f64, slack: f64) -> bool {
    (a - b).abs() <= slack
}

fn column(row: &BTreeMap<String, String>, name: &str) -> f64 {
    row[name].parse().unwrap_or_else(|_| panic!("{name}: {}", row[name]))
}

#[test]
fn the_folder_holds_what_every_step_makes() {
    each(|ran| {
        let has = |name: &str| ran.files.contains_key(name);
        for name in [
            "perf_report.xlsx",
            "perf_report_csvs/gpu_timeline.csv",
            "category_manifest.json",
            "metadata/model_info.json",
            "category_data/cpu_idle_metrics.json",
            "system_findings/cpu_idle_findings.md",
            "standalone_analysis_rough.md",
            "standalone_analysis_fair.md",
            "findings.json",
        ] {
            assert!(has(name), "{}: no {name}", ran.name);
        }
        let manifest = ran.manifest();
        for c in list(&manifest["categories"]).filter(|c| c["tier"] == "compute_kernel") {
            let key = text(&c["name"]);
            assert!(has(&format!("category_findings/{key}_findings.md")), "{}: {key}", ran.name);
            assert!(has(&format!("category_data/{key}_metrics.json")), "{}: {key}", ran.name);
            assert!(has(&format!("metadata/{key}_metadata.json")), "{}: {key}", ran.name);
            let has_rows = c["ops_count"] != 0;
            assert_eq!(has(&format!("category_data/{key}_ops.csv")), has_rows, "{}: {key}", ran.name);
            assert_eq!(has(&format!("category_data/{key}_tree_data.json")), has_rows, "{}: {key}", ran.name);
        }
        for name in ran.files.keys().filter(|n| n.ends_with(".zip")) {
            let op = name.strip_prefix("replay_packages/").and_then(|n| n.strip_suffix("_replay_package.zip"));
            assert!(op.is_some_and(|op| !op.is_empty()), "{}: {name}", ran.name);
        }
    });
}

#[test]
fn utilization_is_that_of_the_timeline_and_decides_what_comes_first() {
    each(|ran| {
        let manifest = ran.manifest();
        let told = &manifest["gpu_utilization"];
        for row in ran.csv("perf_report_csvs/gpu_timeline.csv") {
            let ms = number(&told[format!("{}_ms", row["type"])]);
            assert!(near(ms, column(&row, "time ms"), 0.000_51), "{}: {}", ran.name, row["type"]);
        }
        let computing = number(&told["computation_time_percent"]);
        assert_eq!(manifest["utilization_ok"], computing >= 95.0, "{}", ran.name);
        assert_eq!(manifest["system_first"], computing < 95.0, "{}", ran.name);
        // Below 95 % what the GPU waits for stands before the categories.
        let fair = ran.fair();
        let details = &fair[fair.find("## Detailed Analysis").unwrap()..];
        let system = ["detail-cpu_idle", "detail-multi_kernel", "detail-kernel_fusion"];
        let first = |ids: &dyn Fn(&str) -> bool| {
            details.lines().filter(|l| l.starts_with("<a id=")).position(|l| ids(l.split('"').nth(1).unwrap()))
        };
        let (wait, compute) = (first(&|id| system.contains(&id)), first(&|id| !system.contains(&id)));
        if let (Some(wait), Some(compute)) = (wait, compute) {
            assert_eq!(wait < compute, computing < 95.0, "{}", ran.name);
        }
    });
}

#[test]
fn top_operations_are_the_ten_with_most_kernel_time() {
    each(|ran| {
        let manifest = ran.manifest();
        let told: Vec<&Value> = list(&manifest["top_operations"]).collect();
        if !ran.files.contains_key("perf_report_csvs/ops_summary.csv") {
            assert!(told.is_empty(), "{}", ran.name);
            return;
        }
        let mut rows = ran.csv("perf_report_csvs/ops_summary.csv");
        rows.retain(|r| column(r, "total_direct_kernel_time_ms") > 0.0);
        rows.sort_by(|a, b| {
            column(b, "total_direct_kernel_time_ms").total_cmp(&column(a, "total_direct_kernel_time_ms"))
        });
        assert!(told.len() <= 10 && told.len() <= rows.len(), "{}", ran.name);
        assert!(told.len() == 10 || told.len() == rows.len(), "{}: {} of {}", ran.name, told.len(), rows.len());
        for (rank, (t, row)) in told.iter().zip(&rows).enumerate() {
            assert_eq!(t["rank"], rank + 1, "{}", ran.name);
            assert!(near(number(&t["time_ms"]), column(row, "total_direct_kernel_time_ms"), 0.000_51), "{}", ran.name);
            let named = rows.iter().find(|r| r["name"] == text(&t["name"]));
            let own = column(named.unwrap_or_else(|| panic!("{}: {t}", ran.name)), "total_direct_kernel_time_ms");
            assert!(near(number(&t["time_ms"]), own, 0.000_51), "{}: {t} takes {own} ms", ran.name);
            // Bound and intensity are told where a model knows them.
            assert_eq!(t["bound_type"].is_null(), t["efficiency_percent"].is_null(), "{}: {t}", ran.name);
        }
        // The short report shows the first six, with their bold line.
        let fair = ran.fair();
        assert!(fair.contains("**These operations consume the most GPU time - prioritize optimizations here**"));
        let shown: Vec<Vec<&str>> = fair[fair.find("### Top Operations").unwrap()..]
            .lines()
            .skip_while(|line| !line.starts_with("| Rank |"))
            .take_while(|line| line.starts_with('|'))
            .skip(2)
            .map(|line| line.trim_matches('|').split(" | ").map(str::trim).collect())
            .collect();
        assert_eq!(shown.len(), told.len().min(6), "{}", ran.name);
        for (t, cells) in told.iter().zip(&shown) {
            assert_eq!(cells[0], t["rank"].to_string(), "{}", ran.name);
            assert_eq!(cells[1].trim_matches('`'), text(&t["name"]), "{}", ran.name);
            let [time, share] = [3, 4].map(|i| cells[i].split(' ').next().unwrap().parse::<f64>().unwrap());
            assert!(near(time, number(&t["time_ms"]), 0.0052), "{}: {cells:?} of {t}", ran.name);
            assert!(near(share, number(&t["percent_of_compute"]), 0.056), "{}: {cells:?} of {t}", ran.name);
        }
    });
}

#[test]
fn every_row_of_the_report_is_in_one_category() {
    const READ: [&str; 12] = [
        "name",
        "Input Dims",
        "Input type",
        "Input Strides",
        "Concrete Inputs",
        "ex_UID",
        "operation_count",
        "FLOPS/Byte",
        "TB/s_mean",
        "TFLOPS/s_mean",
        "Kernel Time (µs)_sum",
        "trunc_kernel_details",
    ];
    const ADDED: [&str; 5] =
        ["enhanced_category", "copy_time_ms", "percent_of_category", "percent_of_compute", "efficiency_percent"];
    let mut with_table = 0;
    each(|ran| {
        if !ran.files.contains_key("perf_report_csvs/unified_perf_summary.csv") {
            let manifest = ran.manifest();
            assert!(list(&manifest["categories"]).all(|c| c["ops_count"] == 0), "{}: rows of nothing", ran.name);
            return;
        }
        with_table += 1;
        let mut all: Vec<String> = Vec::new();
        for name in ran.files.keys().filter(|n| n.ends_with("_ops.csv")) {
            let rows = ran.csv(name);
            // Without any model the report has no columns for what models tell.
            let modelled = rows[0].contains_key("GFLOPS");
            let told = |key: &&&str| modelled || !["FLOPS/Byte", "TB/s_mean", "TFLOPS/s_mean"].contains(*key);
            for key in READ.iter().chain(&ADDED).chain(&["has_perf_model", "kernel_details_summary"]).filter(told) {
                assert!(rows[0].contains_key(*key), "{}: {name} has no {key}", ran.name);
            }
            let category = name.trim_start_matches("category_data/").trim_end_matches("_ops.csv");
            assert!(rows.iter().all(|r| r["enhanced_category"] == category), "{}: {name}", ran.name);
            let times: Vec<f64> = rows.iter().map(|r| column(r, "Kernel Time (µs)_sum")).collect();
            assert!(times.is_sorted_by(|a, b| a >= b), "{}: {name}", ran.name);
            all.extend(rows.iter().map(|r| r["ex_UID"].clone()));
        }
        let mut report: Vec<String> =
            ran.csv("perf_report_csvs/unified_perf_summary.csv").iter().map(|r| r["ex_UID"].clone()).collect();
        all.sort();
        report.sort();
        assert_eq!(all, report, "{}", ran.name);
    });
    assert!(with_table >= 10, "only {with_table} traces have the table");
}

#[test]
fn the_workbook_has_every_table_of_the_folder() {
    each(|ran| {
        let mut archive = zip::ZipArchive::new(Cursor::new(&ran.files["perf_report.xlsx"])).unwrap();
        let mut part = |name: &str| {
            let mut text = String::new();
            archive.by_name(name).unwrap().read_to_string(&mut text).unwrap();
            text
        };
        let book = part("xl/workbook.xml");
        let sheets: Vec<&str> =
            book.split("<sheet name=\"").skip(1).map(|rest| rest.split('"').next().unwrap()).collect();
        let tables = ran.files.keys().filter(|name| name.starts_with("perf_report_csvs/"));
        assert_eq!(sheets.len(), tables.count(), "{}: {sheets:?}", ran.name);
        for (i, sheet) in sheets.iter().enumerate() {
            let file = format!("perf_report_csvs/{sheet}.csv");
            // A table without columns has no head either.
            let rows = if ran.text(&file).trim().is_empty() { 0 } else { ran.csv(&file).len() + 1 };
            let shown = part(&format!("xl/worksheets/sheet{}.xml", i + 1)).matches("<row ").count();
            assert_eq!(shown, rows, "{}: {sheet}", ran.name);
        }
    });
}

#[test]
fn metadata_carry_platform_utilization_and_the_way_to_work() {
    each(|ran| {
        let manifest = ran.manifest();
        for name in ran.files.keys().filter(|n| n.ends_with("_metadata.json")) {
            let m = ran.json(name);
            assert_eq!(m["platform"], manifest["platform"], "{}: {name}", ran.name);
            assert_eq!(m["gpu_utilization"], manifest["gpu_utilization"], "{}: {name}", ran.name);
            for key in ["peak_hbm_bw_tbs", "peak_bf16_maf_tflops", "max_achievable_tflops", "peak_source"] {
                assert_eq!(m[key], manifest["peaks"][key], "{}: {name} {key}", ran.name);
            }
            assert!(m["memory_gb"].is_number(), "{}: {name}", ran.name);
            assert_eq!(m["output_dir"], ".", "{}: {name}", ran.name);
            assert_eq!(m["trace_loading_policy"], "DO_NOT_LOAD_TRACE_use_precomputed_tree_data");
        }
    });
}

#[test]
fn tree_data_have_parents_and_subtrees_of_what_weighs() {
    each(|ran| {
        let mut entries = 0;
        for (key, m) in ran.metrics() {
            let name = format!("category_data/{key}_tree_data.json");
            if !ran.files.contains_key(&name) {
                continue;
            }
            let tree = ran.json(&name);
            let known = |uid: &Value| tree.get(uid.to_string());
            for o in list(&m["operations"]).filter(|o| number(&o["percent_of_category"]) > 10.0) {
                assert!(known(&o["tree_uid"]).is_some(), "{}: {key} {}", ran.name, o["name"]);
            }
            for uid in list(&m["bottlenecks"]).flat_map(|b| list(&b["tree_uids"])).take(40) {
                assert!(known(uid).is_some(), "{}: {key} {uid}", ran.name);
            }
            for entry in tree.as_object().unwrap().values() {
                entries += 1;
                for key in ["parent_chain", "module_path", "subtree", "siblings", "notes"] {
                    assert!(entry[key].is_array(), "{}: {name}: no {key}", ran.name);
                }
                for node in list(&entry["subtree"]) {
                    assert!(node["name"].is_string() && node.get("input_dims").is_some(), "{}: {node}", ran.name);
                    assert!(node.get("input_type").is_some(), "{}: {node}", ran.name);
                }
                assert!(entry["call_site"].is_string() && entry["fusion_opportunity"].is_boolean());
            }
        }
        assert!(entries > 0, "{}", ran.name);
    });
}

#[test]
fn both_paths_stand_with_every_bottleneck() {
    each(|ran| {
        for (key, m) in ran.metrics() {
            for b in list(&m["bottlenecks"]) {
                for path in ["issue", "algorithmic", "kernel"] {
                    assert!(!text(&b[path]).is_empty(), "{}: {} has no {path}", ran.name, b["id"]);
                }
            }
            let page = ran.text(&format!("category_findings/{key}_findings.md"));
            // Rows, and patterns that stand before them.
            let told = page.lines().filter(|l| l.starts_with("### ")).count();
            let rows = list(&m["bottlenecks"]).count();
            assert!(told >= rows, "{}: {key}", ran.name);
            let count = |label: &str| page.lines().filter(|l| l.starts_with(&format!("- **{label}:** "))).count();
            for label in ["Time", "Issue", "Algorithmic", "Kernel", "Priority"] {
                assert_eq!(count(label), told, "{}: {key} {label}", ran.name);
            }
            for label in ["Shapes", "Efficiency"] {
                assert_eq!(count(label), rows, "{}: {key} {label}", ran.name);
            }
        }
    });
}

/// The number that stands in a text right after something.
fn number_after(text: &str, start: &str) -> Option<f64> {
    let rest = text.split_once(start)?.1;
    let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
    rest[..end].trim_end_matches('.').parse().ok()
}

/// A page lists the operations of its category with their numbers, most time without copies first, forty at most.
fn check_operations_table(ran: &Ran, key: &str, m: &Value, page: &str) {
    let header = "| Operation | Count | Time (ms) | % of Category | Efficiency | FLOPS/Byte | Type |";
    let table = page.split_once(header).unwrap_or_else(|| panic!("{}: {key} has no table", ran.name)).1;
    let rows: Vec<&str> = table.lines().skip(2).take_while(|l| l.starts_with("| ")).collect();
    assert_eq!(rows.len(), list(&m["operations"]).count().min(40), "{}: {key}", ran.name);
    let mut operations: Vec<&Value> = list(&m["operations"]).collect();
    let mut before = f64::INFINITY;
    for row in rows {
        let cells: Vec<&str> = row.split(" | ").collect();
        let of = |i: usize| cells[i].parse::<f64>().unwrap_or_else(|_| panic!("{}: {row}", ran.name));
        assert!(of(2) <= before, "{}: {key} most time first: {row}", ran.name);
        before = of(2);
        // Times in JSON are rounded, so equal ones may stand in another order there.
        let is_it = |o: &&Value| {
            let ms = number(&o["time_ms"]) - number(&o["copy_time_ms"]);
            let told = cells[4].trim_start_matches(|c: char| !c.is_ascii_digit());
            let told = told.split('%').next().and_then(|t| t.parse::<f64>().ok());
            let rated = o["efficiency"]["efficiency_percent"].as_f64();
            cells[0].contains(text(&o["name"]).split("->").next().unwrap_or_default())
                && near(of(1), number(&o["count"]), 0.1)
                && near(of(2), ms, 0.0066)
                && near(of(3), number(&o["percent_of_category"]), 0.056)
                && rated.is_none_or(|e| told.is_some_and(|t| near(t, e, 0.056)))
        };
        let at = operations.iter().position(is_it);
        operations.remove(at.unwrap_or_else(|| panic!("{}: {key} has no such operation: {row}", ran.name)));
    }
}

#[test]
fn findings_pages_have_the_form_of_their_category() {
    each(|ran| {
        for (key, m) in ran.metrics() {
            let page = ran.text(&format!("category_findings/{key}_findings.md"));
            let display = text(&m["display_name"]);
            assert!(page.starts_with(&format!("# {display} Analysis Summary\n\nStatus: SUCCESS\n\n## Overview\n")));
            if m["operation_count"] == 0 {
                continue;
            }
            let told = |start: &str| number_after(page, start).unwrap_or_else(|| panic!("{}: {key} {start}", ran.name));
            let share = told(&format!("{display} operations account for "));
            assert!(near(share, number(&m["percent_of_compute"]), 0.056), "{}: {key} {share}", ran.name);
            match m["average_efficiency_percent"].as_f64() {
                Some(e) => assert!(near(told("Average efficiency: "), e, 0.056), "{}: {key} {e}", ran.name),
                None => assert!(page.contains("Average efficiency: not known"), "{}: {key}", ran.name),
            }
            check_operations_table(ran, &key, &m, page);
            assert!(page.contains("\n## Key Bottlenecks\n"), "{}: {key}", ran.name);
            let unknown = |o: &&Value| matches!(text(&o["efficiency"]["source"]), "none" | "byte_estimate");
            let missing = told("- Missing perf models: ");
            // Copies over a link need no model.
            assert!(missing <= list(&m["operations"]).filter(unknown).count() as f64, "{}: {key} {missing}", ran.name);
            if key == "gemm" {
                assert!(
                    near(missing, number(&m["category_specific"]["missing_perf_model_count"]), 0.0),
                    "{}",
                    ran.name
                );
                let quantized = list(&m["operations"]).filter(|o| o["classification"]["is_quantized"] == true).count();
                assert!(near(told("- Quantized GEMMs detected: "), quantized as f64, 0.0), "{}", ran.name);
            }
            if key.starts_with("sdpa") {
                assert!(page.contains("- **Flash Attention:** "), "{}", ran.name);
            }
            if key == "convolution" {
                assert!(page.contains("- **Transpose overhead:** "), "{}", ran.name);
                assert!(page.contains("- **Input layouts by time:** "), "{}", ran.name);
            }
        }
    });
}

/// Whether the row a bottleneck is about can be judged by time and efficiency as the sources say.
fn is_bottleneck(m: &Value, b: &Value, limit_ms: f64) -> bool {
    let uids: Vec<&Value> = list(&b["tree_uids"]).collect();
    list(&m["operations"]).filter(|o| uids.contains(&&o["tree_uid"])).all(|o| {
        let long = number(&o["time_ms"]) > limit_ms - 0.001 || number(&o["percent_of_category"]) > 4.99;
        let e = &o["efficiency"];
        let slow = match e["efficiency_percent"].as_f64() {
            None => true,
            Some(p) => p < 40.005 || e["expected_low"].as_f64().is_some_and(|low| p < low + 0.005),
        };
        long && slow && e["is_anomaly"] == false
    })
}

#[test]
fn bottlenecks_are_long_and_slow() {
    let limits = [
        ("gemm", 50.0),
        ("sdpa_fwd", 100.0),
        ("sdpa_bwd", 100.0),
        ("inferenceattention", 100.0),
        ("convolution", 50.0),
        ("moe_fused", 100.0),
        ("other", 100.0),
    ];
    let mut slow_ones = BTreeMap::new();
    each(|ran| {
        for (key, m) in ran.metrics() {
            let limit = limits.iter().find(|l| l.0 == key).map_or(10.0, |l| l.1);
            for b in list(&m["bottlenecks"]) {
                assert!(is_bottleneck(&m, b, limit), "{}: {}", ran.name, b["id"]);
                assert!(number(&b["percent_of_compute"]) >= 0.495, "{}: {}", ran.name, b["id"]);
            }
            // None is missed: long, slow by model, above the floor. What is told elsewhere is noted here.
            let page = ran.text(&format!("category_findings/{key}_findings.md"));
            for o in list(&m["operations"]).filter(|o| is_long(o, limit) && is_slow(&key, o)) {
                let told = list(&m["bottlenecks"]).any(|b| list(&b["tree_uids"]).any(|u| *u == o["tree_uid"]));
                let noted = page
                    .lines()
                    .any(|l| l.starts_with(&format!("- `{}` ", text(&o["name"]))) && l.contains("could be fused"));
                assert!(told || noted, "{}: {} {}", ran.name, o["name"], o["args"]);
                *slow_ones.entry(key.clone()).or_insert(0) += 1;
            }
        }
    });
    for key in ["gemm", "sdpa_fwd", "convolution"] {
        // The traces of the project have no convolutions.
        assert!(slow_ones.contains_key(key) || key == "convolution", "no slow row of {key} in {slow_ones:?}");
    }
}

/// Whether a row takes long enough to be a bottleneck, by whole steps of what is printed.
fn is_long(o: &Value, limit_ms: f64) -> bool {
    let long = number(&o["time_ms"]) > limit_ms || number(&o["percent_of_category"]) > 5.01;
    // What takes no longer than a kernel must is not slow.
    long && number(&o["percent_of_compute"]) > 0.51 && number(&o["mean_us"]) >= 15.0
}

/// Whether a row is below 40 % of peak, or below the band of its kind.
fn is_slow(key: &str, o: &Value) -> bool {
    let e = &o["efficiency"];
    let Some(percent) = e["efficiency_percent"].as_f64() else { return false };
    let limit = match key {
        "gemm" => 39.99,
        "convolution" => e["expected_low"].as_f64().unwrap_or(40.0) - 0.01,
        // Short sequences have a fifth of grace.
        "sdpa_fwd" | "sdpa_bwd" | "inferenceattention" => 0.79 * e["expected_low"].as_f64().unwrap_or(40.0),
        _ => return false,
    };
    percent < limit && e["is_anomaly"] == false && e["source"] != "byte_estimate" && e["warning"].is_null()
}

#[test]
fn one_thing_has_one_level() {
    let mut seen = 0;
    each(|ran| {
        let findings = ran.json("findings.json");
        for (key, m) in ran.metrics() {
            for b in list(&m["bottlenecks"]) {
                let urgent = b["priority"] == "Critical" || b["priority"] == "High";
                assert!(!urgent || b["replay"]["reason"] != "not urgent enough", "{}: {b}", ran.name);
                // What is left of a row may be told by itself, but its level is that of the finding with most of it.
                let of_row = |f: &Value| -> f64 {
                    let own = |o: &&Value| o["uid"] == b["tree_uids"][0];
                    list(&f["operations"]).filter(own).map(|o| number(&o["time_ms"])).sum()
                };
                let most = list(&findings["findings"]).max_by(|x, y| of_row(x).total_cmp(&of_row(y)));
                let is_own = |f: &&Value| f["tier"] == "compute" && f["category"] == key.as_str() && of_row(f) > 0.0;
                let Some(told) = most.filter(is_own) else { continue };
                let level = text(&b["priority"]).to_lowercase();
                assert_eq!(level, text(&told["priority"]), "{}: {} of {key}", ran.name, b["id"]);
                seen += 1;
            }
        }
    });
    assert!(seen > 20, "{seen}");
}

#[test]
fn priorities_follow_the_framework() {
    each(|ran| {
        for (key, m) in ran.metrics() {
            // Categories without rules of their own are capped.
            if ["other"].contains(&key.as_str()) || !ran.manifest_knows(&key) {
                continue;
            }
            for b in list(&m["bottlenecks"]) {
                let e = b["efficiency_percent"].as_f64().unwrap_or(100.0);
                let (own, share) = (number(&b["percent_of_category"]), number(&b["percent_of_compute"]));
                let whole = number(&m["percent_of_compute"]);
                let top = b["in_top_ops"] == true;
                let close = |x: f64, limit: f64| (x - limit).abs() < 0.006;
                if [
                    (e, 30.0),
                    (e, 40.0),
                    (own, 15.0),
                    (own, 10.0),
                    (own, 5.0),
                    (share, 15.0),
                    (share, 10.0),
                    (share, 5.0),
                ]
                .iter()
                .any(|(x, limit)| close(*x, *limit))
                {
                    continue;
                }
                let of_it = |p: &Value| list(&b["patterns"]).any(|id| *id == p["id"]);
                let notable = list(&m["patterns"]).any(|p| of_it(p) && p["notable"] == true);
                let overall = text(&b["priority_by_share"]);
                match () {
                    () if top && e < 30.0 && own > 15.0 && whole > 15.0 => assert_eq!(overall, "Critical"),
                    () if top || (e < 40.0 && own > 10.0) => assert_eq!(overall, "High", "{}: {b}", ran.name),
                    () if own > 5.0 || notable => assert_eq!(overall, "Medium", "{}: {b}", ran.name),
                    () => assert_eq!(overall, "Low", "{}: {b}", ran.name),
                }
                let within = text(&b["priority_category"]);
                match () {
                    () if share > 15.0 && e < 30.0 => assert_eq!(within, "Critical"),
                    () if share > 10.0 || e < 40.0 => assert_eq!(within, "High", "{}: {b}", ran.name),
                    () if share > 5.0 || notable => assert_eq!(within, "Medium", "{}: {b}", ran.name),
                    () => assert_eq!(within, "Low", "{}: {b}", ran.name),
                }
            }
        }
    });
}

impl Ran {
    /// Whether a category has an analyzer of its own.
    fn manifest_knows(&self, key: &str) -> bool {
        list(&self.manifest()["categories"]).any(|c| c["name"] == key && c["skill"] != "generic")
    }
}

/// What a call of some of the shortest kernels takes at most.
const SHORTEST_US: f64 = 50.0;

#[test]
fn projections_follow_from_time_and_efficiency() {
    let mut seen = 0;
    each(|ran| {
        let total = ran.manifest()["gpu_utilization"].clone();
        for m in ran.metrics().values() {
            for b in list(&m["bottlenecks"]) {
                let (t, targets) = (number(&b["time_ms"]), &b["impact"]["targets"]);
                for target in list(targets) {
                    seen += 1;
                    let e = number(&b["efficiency_percent"]);
                    let at = t * e / number(&target["target_percent"]);
                    // Efficiencies are rounded to a hundredth.
                    let slack = 0.002 + at * (0.006 / e + 0.006 / number(&target["target_percent"]));
                    // Kernels get no shorter than the shortest there can be.
                    let time = number(&target["time_ms"]);
                    let at_floor = time > at && time * 1e3 <= SHORTEST_US * number(&b["count"]);
                    assert!(at_floor || near(time, at, slack), "{}: {target}", ran.name);
                    let saved = t - number(&target["time_ms"]);
                    assert!(near(number(&target["saved_ms"]), saved, 0.002), "{}: {target}", ran.name);
                    let share = |of: &str| 100.0 * saved / number(&total[of]);
                    let slack = |of: &str| 0.01 + 0.3 / number(&total[of]);
                    let (compute, all) = ("computation_time_ms", "total_time_ms");
                    assert!(near(number(&target["compute_percent"]), share(compute), slack(compute)), "{target}");
                    assert!(near(number(&target["e2e_percent"]), share(all), slack(all)), "{target}");
                }
                let (low, high) = (b["impact"]["saved_ms_low"].as_f64(), b["impact"]["saved_ms_high"].as_f64());
                assert!(low <= high, "{}: {}", ran.name, b["id"]);
            }
        }
    });
    assert!(seen > 50, "{seen} projections");
}

#[test]
fn slow_and_heavy_operations_get_a_replay_package() {
    const SENTENCE: &str = "Replay artifact recommended for kernel team to investigate and optimize.";
    let (mut required, mut made) = (0, 0);
    each(|ran| {
        let index =
            ran.files.contains_key("replay_packages/index.json").then(|| ran.json("replay_packages/index.json"));
        for (key, m) in ran.metrics() {
            for b in list(&m["bottlenecks"]) {
                let replay = &b["replay"];
                let e = b["efficiency_percent"].as_f64();
                let heavy = number(&b["percent_of_compute"]) > 10.01 && e.is_some_and(|e| e < 29.99);
                assert!(!heavy || replay["recommended"] == true, "{}: {b}", ran.name);
                required += usize::from(heavy);
                if heavy && !text(&b["args"]).is_empty() {
                    let index = index.as_ref().unwrap_or_else(|| panic!("{}: no packages for {b}", ran.name));
                    let refused = list(&index["skipped"]).any(|s| s["op_name"] == b["operation"]);
                    assert!(replay["package"].is_string() || refused, "{}: {b}", ran.name);
                    made += usize::from(replay["package"].is_string());
                }
                // Further ones for what is urgent and slow, or below what is expected of its kind.
                let urgent = matches!(text(&b["priority_by_share"]), "Critical" | "High");
                let below = list(&b["reasons"]).any(|r| r == "BELOW_BAND");
                // Categories without rules of their own are capped.
                let wanted = ran.manifest_knows(&key)
                    && urgent
                    && (below || e.is_some_and(|e| e < 39.99))
                    && !text(&b["args"]).is_empty();
                assert!(!wanted || replay["recommended"] == true, "{}: {b}", ran.name);
                if let Some(package) = replay["package"].as_str() {
                    let name = format!("replay_packages/{package}");
                    assert!(ran.files.contains_key(&name), "{}: no {name}", ran.name);
                    assert!(ran.fair().contains(&name), "{}: {name} is not in the appendix", ran.name);
                } else if replay["recommended"] == true {
                    assert!(!text(&replay["reason"]).is_empty() && index.is_some(), "{}: {b}", ran.name);
                }
                let promised = text(&b["kernel"]).to_lowercase().contains("replay artifact recommended");
                assert!(!promised || replay["recommended"] == true, "{}: {b}", ran.name);
                let refused = replay["package"].is_null() && !text(&replay["reason"]).starts_with("More than");
                assert!(!promised || !refused, "{}: {b}", ran.name);
                let gap = text(&b["kernel"]).split_once("bandwidth gap: ").map(|(_, rest)| rest.to_owned());
                if let Some(saved) = gap.and_then(|rest| rest.split(' ').next()?.parse::<f64>().ok()) {
                    assert!(saved <= number(&b["impact"]["saved_ms_high"]) + 0.006, "{}: {b}", ran.name);
                }
                let recorded = !text(&b["args"]).is_empty();
                if !recorded {
                    assert!(replay["recommended"] == false && !text(&b["kernel"]).contains(SENTENCE), "{b}");
                    assert!(!text(&b["kernel"]).contains("this shape"), "no shape is known: {b}");
                }
            }
        }
        for f in list(&ran.json("findings.json")["findings"]) {
            let promised = list(&f["paths"]["kernel"]).any(|sentence| sentence == SENTENCE);
            assert!(!promised || f["replay_package"].is_string(), "{}: a package is spoken of: {f}", ran.name);
        }
    });
    assert!(required > 0 && made > 0, "{made} packages of {required}");
}

#[test]
fn unfused_attention_and_tiny_products_of_timesformer_are_named_on_both_platforms() {
    for (folder, platform) in [("h100", "H100"), ("mi300", "MI300X")] {
        let name = format!("{folder}/facebook_timesformer-base-finetuned-k400__1016002.json.gz");
        let Some(ran) = beside(&name, platform) else { return };
        let fair = ran.fair();
        assert!(fair.contains("### 🔴 Critical Priority: Unfused attention in `TimesformerSelfAttention`"), "{fair}");
        assert!(fair.contains("`torch.nn.functional.scaled_dot_product_attention`"));
        assert!(fair.contains("(typically 3-10x on attention; here "));
        assert!(fair.contains("Optimizing the separate kernels gives limited gains (maybe 10-30%)."));
        assert!(fair.contains("| Flash Attention Usage | No |"));
        assert!(fair.contains("| `TINY_BATCHED_GEMM` | high | 37632 matrices per call; "), "{fair}");
        let sdpa = ran.json("category_data/sdpa_fwd_metrics.json");
        assert_eq!(sdpa["category_specific"]["flash_attention_detected"], false);
        assert_eq!(sdpa["category_specific"]["unfused_attention_detected"], true);
        let gemm = ran.json("category_data/gemm_metrics.json");
        let tiny = list(&gemm["patterns"]).find(|p| p["pattern"] == "TINY_BATCHED_GEMM").unwrap();
        // Only on one of them it is slower than batching explains.
        let kernel = list(&gemm["bottlenecks"]).any(|b| text(&b["kernel"]).contains("kernel issue"));
        assert_eq!(kernel, platform == "MI300X", "{tiny}");
    }
}

/// Checks `7.74 ms · 23.21 / 50 = 3.59 ms, 3.60 ms shape by shape; …` against a bottleneck and returns how many of it there are.
fn arithmetic(line: &str, b: &Value) -> usize {
    let steps: Vec<Vec<f64>> = line
        .split(": ")
        .last()
        .unwrap()
        .split("; ")
        .filter(|step| step.contains(" = "))
        .map(|step| step.split(' ').filter_map(|word| word.parse().ok()).collect())
        .collect();
    assert_eq!(steps.len(), list(&b["impact"]["targets"]).count(), "{line}: {b}");
    for (step, target) in steps.iter().zip(list(&b["impact"]["targets"])) {
        let [time, efficiency, percent, then, ..] = step[..] else { panic!("{step:?} of {line}") };
        assert!(near(time, number(&b["time_ms"]), 0.0052), "{line}: {b}");
        assert!(near(efficiency, number(&b["efficiency_percent"]), 0.0051), "{line}: {b}");
        assert!(near(then, time * efficiency / percent, 0.005 * then + 0.0052), "{line}");
        // The last number is what counts: shapes may not all get there.
        assert!(near(step[step.len() - 1], number(&target["time_ms"]), 0.0052), "{line}: {b}");
    }
    steps.len()
}

#[test]
fn the_working_record_shows_trees_gaps_and_arithmetic() {
    let mut steps = 0;
    each(|ran| {
        let rough = ran.rough();
        for m in ran.metrics().values() {
            for b in list(&m["bottlenecks"]).filter(|b| list(&b["impact"]["targets"]).next().is_some()).take(1) {
                let start = format!("- `{}` ", text(&b["id"]));
                let line = rough.lines().find(|line| line.starts_with(&start));
                let line = line.unwrap_or_else(|| panic!("{}: no arithmetic of {}", ran.name, b["id"]));
                steps += arithmetic(line, b);
            }
        }
        for heading in ["## Analysis Gaps", "## Questions for Further Investigation"] {
            let below =
                rough.split_once(&format!("\n{heading}\n")).unwrap_or_else(|| panic!("{}: {heading}", ran.name)).1;
            let first = below.lines().find(|line| !line.is_empty());
            assert!(first.is_some_and(|line| !line.starts_with("## ")), "{}: {heading} is empty", ran.name);
        }
    });
    assert!(steps > 20, "only {steps} steps of arithmetic were looked at");
    let ran = fixture("h200/attn_unfused.json.gz");
    let rough = ran.rough();
    let tree = &rough[rough.find("## Tree Analysis").unwrap()..rough.find("## Analysis Gaps").unwrap()];
    for step in ["Attention", "aten::bmm", "aten::masked_fill", "aten::_softmax"] {
        assert!(tree.contains(step), "{step} is not in the tree of the attention: {tree}");
    }
    if let Some(ran) = beside("mi300/Qwen_Qwen1.5-0.5B-Chat__1016005.json.gz", "MI300X") {
        let rough = ran.rough();
        let tree = &rough[rough.find("## Tree Analysis").unwrap()..rough.find("## Analysis Gaps").unwrap()];
        for step in ["Qwen2RMSNorm", "aten::pow", "aten::mean", "aten::rsqrt", "aten::mul"] {
            assert!(tree.contains(step), "{step} is not in the tree of the norm");
        }
        let candidates = ran.json("category_data/kernel_fusion_metrics.json");
        let norm = list(&candidates["impact_estimates"]).find(|e| e["pattern"] == "UNFUSED_RMSNORM").unwrap();
        // Eight kernels of 49 calls, 5.67 ms.
        assert_eq!((&norm["kernel_count"], &norm["instance_count"]), (&8.into(), &49.into()), "{norm}");
        assert!(near(number(&norm["time_ms"]), 5.67, 0.06), "{norm}");
    }
}
