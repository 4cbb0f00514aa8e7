//! What `docs/requirements.md` says of the advice on the findings pages of a run, on traces that call for it.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::traces::{Ran, beside, each, fixture, list, number, text};

/// The bottleneck of a page whose title begins so: everything up to the next heading.
fn entry<'a>(ran: &'a Ran, category: &str, title: &str) -> &'a str {
    let page = ran.text(&format!("category_findings/{category}_findings.md"));
    let bottlenecks = &page[page.find("## Key Bottlenecks").unwrap_or_else(|| panic!("{}: {page}", ran.name))..];
    let is_it = |part: &&str| part.split_once(". ").is_some_and(|(_, rest)| rest.starts_with(title));
    let mut found = bottlenecks.split("\n### ").skip(1).filter(is_it);
    let first = found.next().unwrap_or_else(|| panic!("{}: no `{title}` in {page}", ran.name));
    assert!(found.next().is_none(), "{}: `{title}` stands twice", ran.name);
    first.split("\n## ").next().unwrap()
}

/// What a bottleneck says under a label.
fn said<'a>(entry: &'a str, label: &str) -> &'a str {
    let start = format!("- **{label}:** ");
    entry.lines().find_map(|l| l.strip_prefix(&start)).unwrap_or_else(|| panic!("no {label}: {entry}"))
}

fn patterns<'a>(metrics: &'a Value, code: &str) -> Vec<&'a Value> {
    list(&metrics["patterns"]).filter(|p| text(&p["pattern"]) == code).collect()
}

/// The only finding of a kind.
fn finding(ran: &Ran, pattern: &str) -> Value {
    let all = ran.json("findings.json");
    let mut found = list(&all["findings"]).filter(|f| f["pattern"] == pattern);
    let first = found.next().unwrap_or_else(|| panic!("{}: no {pattern}", ran.name)).clone();
    assert!(found.next().is_none(), "{}: {pattern} is told twice", ran.name);
    first
}

/// An entry has the words and the level of the finding, whose saving is counted once.
fn assert_told(entry: &str, finding: &Value) {
    assert_eq!(said(entry, "Issue"), text(&finding["issue"]));
    let paths = &finding["paths"];
    for (label, path) in [("Algorithmic", "algorithmic"), ("Kernel", "kernel")] {
        let told = said(entry, label);
        assert!(list(&paths[path]).all(|s| told.contains(text(s))), "{told}: {paths}");
    }
    assert_eq!(said(entry, "Priority").to_lowercase(), text(&finding["priority"]));
    let told = said(entry, "Impact").split(" ms of ").next().and_then(|t| t.rsplit(' ').next()).unwrap();
    let saved = number(&finding["impact"]["saved_ms"]["high"]);
    // The file rounds to a thousandth first.
    assert!((told.parse::<f64>().unwrap() - saved).abs() < 0.006, "{saved}: {entry}");
    assert!(said(entry, "Impact").ends_with(&format!("(finding {}).", finding["rank"])), "{entry}");
}

#[test]
fn attention_in_separate_operations_is_advised_on_its_page() {
    let mut runs = vec![fixture("h200/attn_unfused.json.gz")];
    runs.extend(beside("h200/hf_llama_eager_attn.json.gz", "H200"));
    for (folder, platform) in [("h100", "H100"), ("mi300", "MI300X")] {
        let name = format!("{folder}/facebook_timesformer-base-finetuned-k400__1016002.json.gz");
        runs.extend(beside(&name, platform));
    }
    for ran in &runs {
        let told = entry(ran, "sdpa_fwd", "Unfused attention");
        // Then what else there is: scaling and copies as a rule, and masks.
        assert!(said(told, "Issue").contains("separate operations (softmax, batched matmul"), "{told}");
        let first = said(told, "Algorithmic");
        assert!(first.starts_with("Use `torch.nn.functional.scaled_dot_product_attention` so that one"), "{told}");
        assert!(first.contains("(typically 3-10x on attention; here "), "{told}");
        let kernel = said(told, "Kernel");
        assert!(kernel.starts_with("Optimizing the separate kernels gives limited gains (maybe 10-30%)."), "{told}");
        assert_eq!(said(told, "Priority"), "Critical", "{}", ran.name);
        assert_told(told, &finding(ran, "unfused_attention"));
        let fair = ran.fair();
        let told = fair.lines().filter(|l| l.starts_with("### ") && l.contains(": Unfused attention")).count();
        assert_eq!(told, 1, "{}: one cause, one recommendation", ran.name);
    }
}

#[test]
fn patterns_of_attention_have_the_numbers_of_the_fusion_tier() {
    const FIELDS: [&str; 12] = [
        "id",
        "pattern",
        "confidence",
        "evidence",
        "tree_uids",
        "module",
        "instances",
        "time_ms",
        "percent_of_compute",
        "savings_ms_low",
        "savings_ms_high",
        "notable",
    ];
    let mut runs = vec![fixture("h200/attn_unfused.json.gz")];
    runs.extend(beside("h200/hf_llama_eager_attn.json.gz", "H200"));
    for ran in &runs {
        let metrics = ran.json("category_data/sdpa_fwd_metrics.json");
        let found = patterns(&metrics, "UNFUSED_ATTENTION");
        let fusion = ran.json("category_data/kernel_fusion_metrics.json");
        let rows: BTreeSet<String> =
            ran.csv("perf_report_csvs/unified_perf_summary.csv").iter().map(|r| r["ex_UID"].clone()).collect();
        for p in list(&metrics["patterns"]) {
            let fields: Vec<&String> = p.as_object().unwrap().keys().collect();
            assert!(FIELDS.iter().all(|f| fields.iter().any(|k| k == f)), "{}: {fields:?}", ran.name);
            assert!(list(&p["tree_uids"]).all(|uid| rows.contains(&uid.to_string())), "{}: {p}", ran.name);
            assert!(list(&p["tree_uids"]).next().is_some() && p["notable"] == true, "{}: {p}", ran.name);
        }
        for p in &found {
            let same = |e: &&Value| {
                let keys = ["pattern", "confidence", "savings_ms_low", "savings_ms_high", "time_ms"];
                keys.iter().all(|k| e[*k] == p[*k]) && e["instance_count"] == p["instances"]
            };
            assert_eq!(list(&fusion["impact_estimates"]).filter(same).count(), 1, "{}: {p} {fusion}", ran.name);
        }
        let sum: f64 = found.iter().map(|p| number(&p["time_ms"])).sum();
        let told = number(&metrics["category_specific"]["unfused_attention_time_ms"]);
        assert!(!found.is_empty() && (sum - told).abs() < 0.001 * found.len() as f64, "{}: {sum} {told}", ran.name);
    }
    if let Some(ran) = runs.iter().find(|r| r.name.contains("llama")) {
        let metrics = ran.json("category_data/sdpa_fwd_metrics.json");
        assert_eq!(patterns(&metrics, "REPEATED_KV_HEADS").len(), 1);
        let told = entry(ran, "sdpa_fwd", "Key/value heads repeated");
        assert!(said(told, "Algorithmic").contains("enable_gqa=True"), "{told}");
        assert_told(told, &finding(ran, "repeated_kv_heads"));
    }
}

#[test]
fn transposes_around_convolutions_are_advised_on_their_page() {
    let Some(ran) = beside("h200/resnet50_nchw.json.gz", "H200") else { return };
    let metrics = ran.json("category_data/convolution_metrics.json");
    let specific = &metrics["category_specific"];
    assert_eq!(specific["transpose_level"], "high");
    let share = format!("{:.1}%", number(&specific["transpose_overhead_percent"]));
    let told = entry(&ran, "convolution", "Layout transposes around convolutions");
    let issue = format!("{share} of convolution time is layout transposes ({} kernels, ", specific["transpose_count"]);
    assert!(said(told, "Issue").starts_with(&issue), "{told}");
    let advice = format!(
        "Convert the model with `model.to(memory_format=torch.channels_last)`: NHWC instead of NCHW removes the \
         transposes (typically 30-45% of convolution time; here {share})."
    );
    assert_eq!(said(told, "Algorithmic"), advice);
    assert!(said(told, "Kernel").contains("Replay artifact"), "{told}");
    assert_told(told, &finding(&ran, "layout_transposes"));
    let (_, recommendation) = ran.fair().split_once("Priority: Layout transposes around convolutions").unwrap();
    let operation = recommendation.lines().find(|line| line.starts_with("**Operation**: ")).unwrap();
    assert!(operation.contains("convolution"), "{operation}");
    assert_eq!(patterns(&metrics, "TRANSPOSE_OVERHEAD").len(), 1);
    // The bottlenecks themselves say it first.
    for b in list(&metrics["bottlenecks"]) {
        assert!(text(&b["algorithmic"]).starts_with(&advice), "{b}");
        assert!(text(&b["issue"]).contains(&issue), "{b}");
        assert!(list(&b["text_ids"]).any(|id| id == "A-CHANNELS-LAST"), "{b}");
    }
    assert!(list(&metrics["bottlenecks"]).next().is_some());
    // Images that lie the other way round already are not told so.
    let Some(ran) = beside("h200/resnet50_nhwc.json.gz", "H200") else { return };
    assert!(!ran.text("category_findings/convolution_findings.md").contains("memory_format"));
}

/// When a trace begins and when its GPU is busy, in nanoseconds: read without any of our own code.
fn recorded(name: &str) -> (f64, Vec<(f64, f64)>) {
    let file = std::fs::File::open(crate::support::fixture(name)).unwrap();
    let trace: Value = serde_json::from_reader(flate2::read::GzDecoder::new(file)).unwrap();
    let events = list(&trace["traceEvents"]).filter(|e| ["X", "i"].iter().any(|phase| e["ph"] == *phase));
    let (mut first, mut busy) = (f64::INFINITY, Vec::new());
    for e in events {
        let ts = number(&e["ts"]);
        first = first.min(ts);
        if ["kernel", "gpu_memcpy", "gpu_memset"].iter().any(|category| e["cat"] == *category) {
            busy.push((ts, ts + number(&e["dur"])));
        }
    }
    (first, busy)
}

#[test]
fn long_waits_are_where_a_trace_viewer_shows_them() {
    for name in ["h200/attn_unfused.json.gz", "h200/decode_graphed.json.gz", "h200/elementwise_eager.json.gz"] {
        let (first, busy) = recorded(name);
        let ran = fixture(name);
        let metrics = ran.json("category_data/cpu_idle_metrics.json");
        let page = ran.text("system_findings/cpu_idle_findings.md");
        let gaps: Vec<&Value> = list(&metrics["gap_analysis"]["top_gaps"]).collect();
        assert!(!gaps.is_empty(), "{name}");
        for gap in gaps {
            let from = first + 1e3 * number(&gap["start_ms"]);
            let to = from + number(&gap["duration_us"]);
            // Positions are told to the microsecond.
            let runs = busy.iter().find(|(start, end)| *start < to - 1.1 && *end > from + 1.1);
            assert!(runs.is_none(), "{name}: {runs:?} in {gap}");
            let begins = busy.iter().any(|(_, end)| (end - from).abs() < 1.1);
            assert!(begins, "{name}: nothing ends where {gap} begins");
        }
        if page.contains("## Longest Gaps") {
            assert!(page.contains("| Start (ms from the first event) | Length (us) |"), "{page}");
            assert!(page.contains("open the trace in the Perfetto UI at the positions above."), "{page}");
        }
    }
}

#[test]
fn full_precision_is_advised_on_the_page_of_products() {
    let ran = fixture("h200/mlp_fp32.json.gz");
    let told = entry(&ran, "gemm", "Matrix work in fp32");
    assert!(said(told, "Issue").contains("runs in fp32 (67 TFLOPS/s peak); the lower-precision peak is 990"), "{told}");
    assert!(said(told, "Algorithmic").contains("bf16 autocast"), "{told}");
    assert_told(told, &finding(&ran, "full_precision_gemm"));
}

#[test]
fn efficiency_classes_of_products_say_what_follows() {
    let source = [
        ("Excellent", 80.0, f64::INFINITY, "focus on algorithmic improvements"),
        ("Good", 60.0, 80.0, "limited optimization potential"),
        ("Acceptable", 40.0, 60.0, "consider kernel optimization if the time is high"),
        ("Needs investigation", 0.0, 40.0, "priority for kernel optimization, generate a replay artifact"),
    ];
    let mut seen = BTreeSet::new();
    for name in ["mlp_fp32", "attn_fused", "fp8_gemms", "tiny_bmm_window", "lm_compiled_train"] {
        let ran = fixture(&format!("h200/{name}.json.gz"));
        let metrics = ran.json("category_data/gemm_metrics.json");
        let page = ran.text("category_findings/gemm_findings.md");
        for (word, low, high, action) in source {
            let rated = |o: &&Value| {
                let e = &o["efficiency"];
                e["assessment"] == word && e["efficiency_percent"].as_f64().is_some_and(|e| e >= low && e <= high)
            };
            let rows: Vec<&Value> = list(&metrics["operations"]).filter(rated).collect();
            let assessed = list(&metrics["operations"]).filter(|o| o["efficiency"]["assessment"] == word).count();
            assert_eq!(rows.len(), assessed, "{name}: {word}");
            let class_of =
                |w: &str| list(&metrics["category_specific"]["by_assessment"]).find(|c| c["assessment"] == w);
            // Of what needs investigation, what takes no longer than a kernel must is a class of its own.
            let floor = class_of("Kernel floor").filter(|_| word == "Needs investigation");
            let class = class_of(word);
            assert_eq!(class.or(floor).is_some(), !rows.is_empty(), "{name}: {word}");
            let both = |key: &str| class.iter().chain(&floor).map(|c| number(&c[key])).sum::<f64>();
            assert!((both("rows") - rows.len() as f64).abs() < 0.1, "{name}: {word}");
            let ms: f64 = rows.iter().map(|o| number(&o["time_ms"])).sum();
            assert!((ms - both("time_ms")).abs() < 0.001 * rows.len() as f64 + 0.001, "{name}: {word}");
            let Some(class) = class else { continue };
            seen.insert(word);
            assert_eq!(class["action"], action, "{name}");
            let line = page.lines().find(|l| l.starts_with("- **Efficiency classes:** ")).unwrap();
            let told = line.split("; ").find(|part| part.contains(&format!("{word} ("))).unwrap();
            assert!(told.ends_with(action), "{name}: {told}");
        }
    }
    assert!(seen.len() >= 3, "only {seen:?} were seen");
}

#[test]
fn categories_without_operations_say_so() {
    let mut seen = BTreeSet::new();
    each(|ran| {
        let manifest = ran.manifest();
        let asked_for =
            [("gemm", "gemm", "GEMM"), ("sdpa_fwd", "sdpa", "SDPA"), ("convolution", "convolution", "Convolution")];
        for (key, analyzer, name) in asked_for {
            let page = ran.files.get(&format!("category_findings/{key}_findings.md"));
            if list(&manifest["categories"]).any(|c| c["skill"] == analyzer) {
                assert!(page.is_none_or(|p| !String::from_utf8_lossy(p).contains("found in trace")), "{}", ran.name);
                continue;
            }
            seen.insert(key);
            let sentence = format!("No {name} operations found in trace");
            let told = format!("# {name} Analysis Summary\n\n{sentence}\n");
            assert_eq!(page.map(|p| &**p), Some(told.as_bytes()), "{}: {key}", ran.name);
            let metrics = ran.json(&format!("category_data/{key}_metrics.json"));
            assert_eq!(
                (&metrics["status"], &metrics["message"]),
                (&"NO_DATA".into(), &sentence.into()),
                "{}",
                ran.name
            );
        }
    });
    assert_eq!(seen.len(), 3, "only {seen:?} are ever missing");
}
