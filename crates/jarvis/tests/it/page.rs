//! `report.html`: what its data says. How it behaves is for the browser test of `cargo xtask test`.

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::support::{fixture, jarvis};

fn run(command: &str, trace: &str, out: &Path, more: &[&str]) {
    let (trace, out) = (fixture(trace), out.to_string_lossy().into_owned());
    let mut args = vec![command, trace.to_str().expect("UTF-8"), "-o", &out, "--quiet"];
    args.extend(more);
    let run = jarvis(&args);
    assert_eq!(run.status, 0, "{}", run.err);
}

/// The data of a page.
fn island(page: &str) -> Value {
    let (_, after) = page.split_once("<script type=\"application/json\" id=\"data\">").expect("an island");
    let (json, _) = after.split_once("</script>").expect("its end");
    serde_json::from_str(json).expect("JSON")
}

fn side(folder: &Path) -> Value {
    let page = fs::read_to_string(folder.join("report.html")).expect("a page");
    let mut data = island(&page);
    assert_eq!(data["schema"], "jarvis.page/1");
    assert_eq!(data["sides"].as_array().map(Vec::len), Some(1));
    data["sides"][0].take()
}

/// Times of the children never exceed that of the node, and where there are any they make it up.
fn check_node(node: &Value) {
    let Some(children) = node["children"].as_array() else { return };
    let sum: f64 = children.iter().map(|c| c["ms"].as_f64().expect("a time")).sum();
    let own = node["ms"].as_f64().expect("a time");
    assert!((sum - own).abs() <= 0.001 * (children.len() + 1) as f64, "{own} against {sum}");
    children.iter().for_each(check_node);
}

#[test]
fn parts_of_the_page_add_up() {
    for (trace, platform) in [
        ("h200/attn_unfused.json.gz", "H200"),
        ("h200/decode_graphed.json.gz", "H200"),
        ("h200/lm_compiled_train.json.gz", "H200"),
        ("handmade/rocm_like.json", "MI300X"),
        ("handmade/gpu_only.json", "MI300X"),
    ] {
        let out = tempfile::tempdir().expect("a folder");
        run("analyze", trace, out.path(), &["--platform", platform]);
        let side = side(out.path());
        check_node(&side["icicle"]);
        let strip = &side["strip"];
        let window = strip["window_us"].as_f64().expect("a window") * 1e3;
        let mut events = 0;
        for stream in strip["streams"].as_array().expect("streams") {
            let mut last = 0;
            for segment in stream["segments"].as_array().expect("segments") {
                let (start, length) = (segment[0].as_i64().expect("ns"), segment[1].as_i64().expect("ns"));
                assert!(start >= last && length > 0 && (start + length) as f64 <= window + 1.0, "{trace}: {segment}");
                last = start;
                events += segment[3].as_u64().expect("events");
            }
        }
        assert_eq!(Some(events), strip["events"].as_u64(), "{trace}: every event is in one segment");
        let gaps = strip["gaps"].as_array().expect("gaps");
        assert!(gaps.windows(2).all(|g| g[0][0].as_i64() < g[1][0].as_i64()), "{trace}: gaps in order");
        let page = fs::read_to_string(out.path().join("report.html")).expect("a page");
        assert!(!page.contains("NaN") && !page.contains("{{"), "{trace}");
    }
}

#[test]
fn pictures_stand_beside_the_reports() {
    let out = tempfile::tempdir().expect("a folder");
    run("analyze", "h200/attn_unfused.json.gz", out.path(), &[]);
    let read = |name: &str| fs::read_to_string(out.path().join(name)).expect(name);
    let (improvement, roofline) = (read("improvement.svg"), read("roofline.svg"));
    assert!(improvement.starts_with("<svg xmlns=") && improvement.ends_with("</svg>\n"));
    assert!(improvement.contains("1. Unfused attention in Attention"), "{improvement}");
    assert!(roofline.contains("matrix bf16: 990 TFLOPS") && roofline.contains("<title>aten::mm"), "{roofline}");
    let out = tempfile::tempdir().expect("a folder");
    run("analyze", "handmade/gpu_only.json", out.path(), &["--platform", "MI300X"]);
    let roofline = fs::read_to_string(out.path().join("roofline.svg")).expect("a picture");
    assert!(roofline.contains("No roofline:") && roofline.ends_with("</svg>\n"), "{roofline}");
}

#[test]
fn a_report_has_a_page_without_findings() {
    let out = tempfile::tempdir().expect("a folder");
    run("report", "h200/attn_unfused.json.gz", out.path(), &["--no-xlsx", "--no-csv"]);
    let side = side(out.path());
    assert!(!side["operations"]["rows"].as_array().expect("rows").is_empty());
    assert!(side["icicle"].to_string().contains("\"module\""), "modules are there though no sheet needs them");
    let page = fs::read_to_string(out.path().join("report.html")).expect("a page");
    assert!(page.contains("id=\"roofline\"") && !page.contains("id=\"findings\""));
}

#[test]
fn a_report_has_no_page_where_none_is_wanted() {
    for switch in ["--no-html", "--parity"] {
        let out = tempfile::tempdir().expect("a folder");
        run("report", "h200/attn_unfused.json.gz", out.path(), &["--no-xlsx", switch]);
        assert!(!out.path().join("report.html").exists(), "{switch}");
    }
}

#[test]
fn sheets_do_not_depend_on_the_page() {
    for trace in ["h200/attn_unfused.json.gz", "h200/mlp_fp32.json.gz"] {
        let (with, without) = (tempfile::tempdir().expect("a folder"), tempfile::tempdir().expect("a folder"));
        run("report", trace, with.path(), &["--no-xlsx"]);
        run("report", trace, without.path(), &["--no-xlsx", "--no-html"]);
        let mut files = crate::support::files(with.path());
        assert!(files.remove("report.html").is_some());
        assert_eq!(files, crate::support::files(without.path()), "{trace}");
    }
}

#[test]
fn a_comparison_has_a_page_of_both_sides() {
    let out = tempfile::tempdir().expect("a folder");
    let reference = fixture("h200/attn_unfused.json.gz");
    let reference = reference.to_str().expect("UTF-8");
    run("analyze", "h200/attn_fused.json.gz", out.path(), &["--reference", reference]);
    let page = fs::read_to_string(out.path().join("report.html")).expect("a page");
    assert!(!page.contains("NaN") && !page.contains("{{"));
    assert!(page.contains("replaced by <code>aten::_scaled_dot_product_cudnn_attention</code>"));
    let data = island(&page);
    assert_eq!(data["schema"], "jarvis.versus/1");
    assert_eq!(data["strips"].as_array().map(Vec::len), Some(2));
    let metrics = fs::read(out.path().join("category_data/comparison_metrics.json")).expect("metrics");
    let metrics: Value = serde_json::from_slice(&metrics).expect("JSON");
    let (rows, expected) = (data["operations"]["rows"].as_array(), metrics["operations"].as_array());
    let (rows, expected) = (rows.expect("rows"), expected.expect("operations"));
    assert_eq!(rows.len(), expected.len());
    for (row, metric) in rows.iter().zip(expected) {
        for (ours, theirs) in [("reference_ms", "reference_ms"), ("ratio", "ratio"), ("over_ms", "saved_ms")] {
            assert_eq!(row[ours], metric[theirs], "{} of {}", ours, metric["name"]);
        }
    }
}
