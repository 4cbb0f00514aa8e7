//! `analysis.md` of every trace at hand, and what the checks say when something in it is changed.

use std::collections::BTreeMap;

use jarvis_report::check::{Folder, Level, check};
use serde_json::Value;

use crate::data::{Schemas, unrounded};
use crate::markdown_rules::check_page;
use crate::runs::{Analysed, each, fixture};

const OURS: [&str; 4] = ["analysis.md", "priority_data.json", "perf_improvement.png", "perf_improvement_base64.txt"];

type Files = BTreeMap<String, Vec<u8>>;

fn text(files: &Files, name: &str) -> String {
    String::from_utf8(files[name].clone()).unwrap()
}

/// A page as a reader sees it: without the marks.
fn without_marks(page: &str) -> String {
    let shown = |paragraph: &str| {
        let mut parts = paragraph.split(" <!-- ");
        let first = parts.next().unwrap_or_default().to_owned();
        parts.fold(first, |text, part| text + part.split_once(" -->").unwrap().1)
    };
    let kept: Vec<String> = page.split("\n\n").filter(|p| !p.starts_with("<!--")).map(shown).collect();
    kept.join("\n\n").trim_end().to_owned() + "\n"
}

/// What the checks say of these files in a folder with the others.
fn problems(a: &Analysed, ours: &Files) -> Vec<String> {
    let mut all = a.data();
    all.extend(a.sheets());
    all.extend(a.pages().into_iter().map(|page| (page.path, page.text.into_bytes())));
    all.extend(ours.clone());
    // Whoever writes replay packages is not here.
    let mut folder = Folder::new();
    for (name, bytes) in &all {
        folder.file(name.clone(), bytes);
        folder.size(name.clone(), bytes.len() as u64);
    }
    let failed = check(&folder).into_iter().filter(|p| p.level == Level::Failed && OURS.contains(&&*p.file));
    failed.map(|p| p.to_string()).collect()
}

#[test]
fn every_trace_has_a_report_that_holds_and_is_the_same_again() {
    let schemas = Schemas::all();
    each(|a| {
        let files = a.analysis_md();
        assert_eq!(files, a.analysis_md(), "{}: two runs differ", a.name);
        check_page(&format!("{}: analysis.md", a.name), &without_marks(&text(&files, "analysis.md")));
        let data: Value = serde_json::from_slice(&files["priority_data.json"]).unwrap();
        schemas.assert_valid(&a.name, "priority_data.json", &data);
        let mut found = Vec::new();
        unrounded(&data, "", &mut found);
        assert_eq!(found, [] as [&str; 0], "{}", a.name);
        assert_eq!(problems(a, &files), [] as [&str; 0], "{}", a.name);
        let drawn = !data["recommendations"].as_array().unwrap().is_empty();
        assert_eq!((files.len(), files.contains_key("perf_improvement.png")), (if drawn { 4 } else { 2 }, drawn));
    });
}

#[test]
fn scores_are_what_the_rows_give() {
    let a = fixture("h200", "attn_unfused.json.gz");
    let data: Value = serde_json::from_slice(&a.analysis_md()["priority_data.json"]).unwrap();
    let softmax =
        data["all_estimates"].as_array().unwrap().iter().find(|e| e["operation"] == "aten::_softmax").unwrap();
    let row = a.analysis.prepared.rows.iter().find(|r| &*r.name == "aten::_softmax").unwrap();
    let gap = 1.0 - row.efficiency.efficiency_percent.unwrap() / 100.0;
    let share = 100.0 * row.time_ms / a.analysis.prepared.utilization.total_time_ms;
    for (key, part) in [("impact_score_low", 0.75), ("impact_score", 0.875), ("impact_score_high", 1.0)] {
        let score = softmax[key].as_f64().unwrap();
        assert!((score - part * gap * share).abs() < 1e-4, "{key}: {score}");
    }
    assert_eq!((&softmax["estimation"], &softmax["efficiency_band"]), (&"roofline".into(), &"30-60".into()));
}

#[test]
fn operations_without_a_model_are_told_by_the_rule_of_thumb() {
    let a = fixture("h200", "decode_graphed.json.gz");
    let files = a.analysis_md();
    let data: Value = serde_json::from_slice(&files["priority_data.json"]).unwrap();
    let first = &data["all_estimates"][0];
    assert_eq!(first["estimation"], "heuristic");
    let (share, score) = (first["percent_of_total"].as_f64().unwrap(), first["impact_score"].as_f64().unwrap());
    assert!((score - 0.3 * share).abs() < 0.003, "{score} of {share}");
    let page = text(&files, "analysis.md");
    assert!(page.contains("not quantifiable from trace data") && page.contains("rule of thumb"), "{page}");
    assert!(!files.contains_key("perf_improvement.png"), "nothing to draw");
}

/// How the report or its data are broken, and the check that notices.
type Break = (&'static str, &'static str, &'static str, &'static str);

const BREAKS: [Break; 22] = [
    ("W9", "analysis.md", "## Kernel Fusion Opportunities (Experimental)", "## Fusions"),
    ("W10", "analysis.md", "| Idle % |", "| Idle |"),
    ("W10", "analysis.md", "| Compute % | 85.4% |", "| Compute % | 12.3% |"),
    ("W10", "analysis.md", "| Top Bottleneck Category | GEMM", "| Top Bottleneck Category | Reduce"),
    ("W11", "analysis.md", "**Insight**: `aten::_softmax`", "**Note**: `aten::_softmax`"),
    ("W11", "analysis.md", "**Confidence**: high", "**Sure**: high"),
    ("W11", "analysis.md", "(#detailed-analysis-compute-p2)", "(#detailed-analysis-compute-p1)"),
    ("W12", "analysis.md", "4.8 TB/s\n- **Peak MAF", "5.8 TB/s\n- **Peak MAF"),
    ("W13", "analysis.md", "- **Precision:** BF16", "- **Precision:** FP8"),
    ("M1", "analysis.md", "<!-- top-ops-row low=", "<!-- top-row low="),
    ("M2", "analysis.md", "kind=p_item category=reduce", "kind=item category=reduce"),
    ("M2", "analysis.md", "<!-- impact-end -->", ""),
    ("M3", "analysis.md", "kind=detail_estimate low=", "kind=detail_estimate least="),
    ("M4", "analysis.md", "<!-- reasoning-candidate tier=fusion rank=2 -->", ""),
    ("anchor", "analysis.md", "<a id=\"detailed-analysis-fusion-P2\"></a>", ""),
    ("details", "analysis.md", "**Reasoning for Slowdown**: ", "**Reasoning**: "),
    ("details", "analysis.md", "| `aten::_softmax` | `(4,16", "| `aten::_softmax` | `(5,16"),
    ("language", "analysis.md", "No change is asked for", "No change is likely"),
    ("placeholder", "analysis.md", "No change is asked for", "No {change} is asked for"),
    ("keys", "analysis.md", "No change is asked for", "No change of bound_type is asked for"),
    ("sum", "priority_data.json", "\"impact_score\": 7.2177", "\"impact_score\": 9.9"),
    ("cards", "priority_data.json", "\"tier\": \"fusion\"", "\"tier\": \"system\""),
];

#[test]
fn what_is_changed_is_noticed() {
    let a = fixture("h200", "attn_unfused.json.gz");
    let files = a.analysis_md();
    assert_eq!(problems(&a, &files), [] as [&str; 0]);
    for (id, name, from, to) in BREAKS {
        let mut broken = files.clone();
        let whole = text(&files, name);
        assert!(whole.contains(from), "{name} has no {from}");
        broken.insert(name.to_owned(), whole.replacen(from, to, 1).into_bytes());
        let found = problems(&a, &broken);
        assert!(found.iter().any(|p| p.starts_with(&format!("FAIL {id} "))), "{from} -> {to}: {found:#?}");
    }
    let without = |name: &str| {
        let mut broken = files.clone();
        broken.remove(name);
        problems(&a, &broken)
    };
    for (name, id) in [
        ("perf_improvement.png", "FAIL W8 perf_improvement.png"),
        ("perf_improvement_base64.txt", "FAIL W8 perf_improvement_base64.txt"),
        ("priority_data.json", "FAIL files priority_data.json: missing"),
        ("analysis.md", "FAIL files priority_data.json: there is no analysis.md"),
    ] {
        assert!(without(name).iter().any(|p| p.starts_with(id)), "{name}: {:#?}", without(name));
    }
}
