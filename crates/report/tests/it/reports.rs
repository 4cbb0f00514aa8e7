//! The reports of every trace at hand: language, limits, links, nothing twice, the same bytes again.

use jarvis_analyze::finding::{Finding, Impact, Range};
use jarvis_analyze::metrics::{MetricsFile, ShortMetrics};
use jarvis_analyze::thresholds::Threshold;
use jarvis_report::ReplayEntry;
use jarvis_trace::TraceBuilder;

use crate::markdown_rules::{check_page, part, repeated};
use crate::runs::{Analysed, each, fixture};

#[test]
fn every_page_of_every_trace_keeps_the_rules() {
    each(|a| {
        let pages = a.pages();
        for page in &pages {
            check_page(&format!("{}: {}", a.name, page.path), &page.text);
            check_units(&format!("{}: {}", a.name, page.path), &page.text);
        }
        let again = a.pages();
        assert!(pages.iter().zip(&again).all(|(x, y)| x.path == y.path && x.text == y.text), "{}", a.name);
        check_files(a, &pages.iter().map(|p| p.path.as_str()).collect::<Vec<_>>());
        check_summary(a);
        check_recommendations(a);
        check_ranks(a);
        check_bottlenecks(a);
        check_projections(a);
        let twice = repeated(&a.fair());
        assert!(twice.is_empty(), "{}: said twice: {twice:#?}", a.name);
        check_rough(a);
        // On a host-bound trace shorter kernels save nothing, and the report says so.
        if let Some(note) = a.analysis.system.as_ref().and_then(|s| s.host.note()) {
            assert!(a.fair().contains(&note), "{}", a.name);
        }
    });
}

/// Tables hold MiB, as sentences do: their heads say so.
fn check_units(page: &str, text: &str) {
    let lines: Vec<&str> = text.lines().collect();
    for head in lines.windows(2).filter(|pair| pair[1].starts_with("| ---")).map(|pair| pair[0]) {
        let mut words = head.split(|c: char| !c.is_alphanumeric());
        assert!(words.all(|word| word != "MB"), "{page}: {head}");
    }
}

/// A recommendation is in the top list by its own time; by that of others of the same name it is a part of one.
fn check_ranks(a: &Analysed) {
    let p = &a.analysis.prepared;
    let least = p.thresholds.get(Threshold::TopOpsMinPercent) / 100.0 * p.utilization.computation_time_ms;
    let fair = a.fair();
    let operations = fair.lines().filter_map(|l| l.strip_prefix("**Operation**: "));
    let whole = |line: &str| line.contains(" in Top Operations)") && !line.contains("(part of #");
    for (line, f) in operations.zip(&a.analysis.findings).filter(|(l, _)| whole(l)) {
        let name = line.split('`').nth(1).unwrap();
        let ms: f64 = f.operations.iter().filter(|o| o.name == name).map(|o| o.time_ms).sum();
        assert!(ms >= least, "{}: R{}: {line} for {ms} ms", a.name, f.rank);
    }
}

/// While the GPU awaits launches, what faster kernels save is the most that the trace could.
fn check_projections(a: &Analysed) {
    let awaits = a.analysis.awaits_launches();
    let fair = a.fair();
    for row in fair.lines().filter(|line| line.contains("% faster for this op") && line.contains("% of the trace")) {
        assert_eq!(row.contains(", at most ") && row.contains("awaits launches)"), awaits, "{}: {row}", a.name);
    }
}

/// Every bottleneck says how urgent it is, and no page that knows of no model says that none is missing.
fn check_bottlenecks(a: &Analysed) {
    for o in a.analysis.outcomes.iter().filter(|o| o.metrics().is_some()) {
        let page = a.page(&format!("category_findings/{}_findings.md", o.category));
        let no_model = page.contains("no operation here has a performance model");
        assert!(!no_model || !page.contains("Missing perf models: 0"), "{}: {page}", a.name);
    }
    let fair = a.fair();
    for told in fair.split("\n##### ").skip(1).filter(|t| t.contains("**Shapes:**")) {
        let own = told.split("\n#").next().unwrap();
        assert!(own.contains("- **Priority:** "), "{}: {own}", a.name);
    }
}

/// One findings file a category, in the folder of its tier.
fn check_files(a: &Analysed, paths: &[&str]) {
    for o in &a.analysis.outcomes {
        assert!(paths.contains(&format!("category_findings/{}_findings.md", o.category).as_str()), "{}", o.category);
    }
    let system = ["cpu_idle", "multi_kernel", "kernel_fusion"];
    for path in paths {
        let name = path.rsplit('/').next().unwrap().trim_end_matches("_findings.md");
        if path.contains('/') {
            assert_eq!(path.starts_with("system_findings/"), system.contains(&name), "{path}");
        }
    }
    assert!(paths.contains(&"system_findings/cpu_idle_findings.md"));
    let present = !a.analysis.fusion_candidates.is_empty();
    assert_eq!(paths.contains(&"system_findings/kernel_fusion_findings.md"), present);
}

fn check_summary(a: &Analysed) {
    let fair = a.fair();
    let summary = part(&fair, "## Executive Summary", "---");
    assert!(summary.len() <= 20, "{}: {} lines", a.name, summary.len());
    assert!(summary[0].split_whitespace().count() <= 60, "{}: {}", a.name, summary[0]);
    let wanted =
        ["Total Compute Time", "GPU Utilization", "Idle Time", "Exposed Communication", "Top Bottleneck Category"];
    for row in wanted {
        assert!(summary.iter().any(|l| l.starts_with(&format!("| {row} |"))), "{}: {row}", a.name);
    }
    let headings: Vec<&str> = fair.lines().filter(|l| l.starts_with("## ")).filter(|l| *l != "## Warnings").collect();
    assert_eq!(
        headings,
        ["## Executive Summary", "## Recommendations", "## Detailed Analysis", "## Appendix"],
        "{}",
        a.name
    );
}

fn check_recommendations(a: &Analysed) {
    let fair = a.fair();
    let text = part(&fair, "## Recommendations", "## ").join("\n");
    let all: Vec<&str> = text.split("\n### ").skip(1).collect();
    let expected = jarvis_analyze::rank::recommended(&a.analysis.findings).count().min(12);
    assert_eq!(all.len(), expected, "{}", a.name);
    for (r, f) in all.iter().zip(&a.analysis.findings) {
        let lines: Vec<&str> = r.lines().take_while(|l| *l != "---").collect();
        assert!(lines.len() <= 10, "{}: {r}", a.name);
        for label in ["**Operation**: ", "**Issue**: ", "**Action**: Path A: ", "**Impact**: "] {
            assert!(lines.iter().any(|l| l.starts_with(label)), "{}: no {label} in {r}", a.name);
        }
        assert!(r.contains(" Path B: "), "{}: {r}", a.name);
        let in_list = r.contains("Top Operations)") || r.contains("not in the top 10");
        assert!(in_list != r.contains("**Operation**: the whole trace"), "{}: {r}", a.name);
        for top in &a.analysis.prepared.top_operations {
            let missed = format!("**Operation**: `{}` (not in the top 10)", top.name);
            assert!(!r.contains(&missed), "{}: {r}", a.name);
        }
        assert!(r.contains(&format!("](#detail-{})", f.category)), "{}: {r}", a.name);
        let impact = lines.iter().find(|l| l.starts_with("**Impact**")).unwrap();
        match a.analysis.no_gain(f) {
            Some(no_gain) => assert!(impact.contains(no_gain), "{}: {impact}", a.name),
            None => assert!(impact.contains(" ms"), "{}: {impact}", a.name),
        }
    }
}

fn check_rough(a: &Analysed) {
    let rough = a.rough();
    for heading in [
        "## Analysis Process Summary",
        "### Step 1: Identify Traces & Setup",
        "### Step 2: Generate Reports",
        "### Step 3-5: Prepare Category Data",
        "### Step 6: Category Analyses",
        "### Step 7: Optimization Paths Determination",
        "## Raw Data Exploration",
        "## Tree Analysis",
        "## Analysis Gaps",
        "## Questions for Further Investigation",
    ] {
        assert!(rough.lines().any(|l| l == heading), "{}: no {heading}", a.name);
    }
    let marks = part(&rough, "### What Became of the Top Operations", "#");
    let tops = a.analysis.prepared.top_operations.len();
    assert_eq!(marks.len().saturating_sub(2), tops, "{}", a.name);
    assert!(rough.len() < 400_000, "{}: the rough report has {} bytes", a.name, rough.len());
    for line in rough.lines().filter(|l| l.ends_with("| within expected |")) {
        // `| … | 43.9% of 4.8 TB/s | 70-80% | … | within expected |`
        let number = |text: &str| text.trim_start_matches(['≥', ' ']).split(['%', '-']).next()?.parse::<f64>().ok();
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        let Some(reached) = cells.iter().position(|c| c.contains("% of ")) else { continue };
        let (reached, expected) = (number(cells[reached]), number(cells[reached + 1]));
        assert!(reached.zip(expected).is_none_or(|(r, e)| r >= e), "{}: {line}", a.name);
    }
}

#[test]
fn what_is_below_its_band_and_not_slow_says_so() {
    // A copy of 64 MiB that turns the tensor round, at 45 % of 4.8 TB/s.
    let us = 2.0 * 67_108_864.0 / 4.8e6 / 0.45;
    let mut b = TraceBuilder::new();
    for i in 0..10 {
        let at = 50.0 * f64::from(i);
        b.cpu_op("aten::copy_", at, 20.0)
            .arg("Input Dims", "[[4096, 8192], [4096, 8192], []]")
            .arg("Input type", r#"["c10::BFloat16", "c10::BFloat16", "Scalar"]"#)
            .arg("Input Strides", "[[8192, 1], [1, 4096], []]");
        b.launch("cudaLaunchKernel", at + 2.0, 2.0, i64::from(i) + 1);
        b.kernel("void at::native::elementwise_kernel<128, 4>", 1000.0 + us * f64::from(i), us, i64::from(i) + 1);
    }
    let a = Analysed::of("copies", &b.build(), "H200").unwrap();
    let rough = a.rough();
    assert!(rough.contains("| 70-80% | 100.0 | below its band, above what counts as slow |"), "{rough}");
    let fair = a.fair();
    assert!(fair.contains("could measure it (operands differ in shape or layout)"), "{fair}");
    check_rough(&a);
}

/// A call with one or two kernels, as `Input Dims`, `Input type`, `Input Strides` and `Concrete Inputs` say.
fn call(b: &mut TraceBuilder, number: i64, at_us: f64, name: &str, args: [&str; 4], kernels: &[(&str, f64)]) -> f64 {
    let host = 50.0 * number as f64;
    let mut op = b.cpu_op(name, host, 40.0);
    for (key, value) in ["Input Dims", "Input type", "Input Strides", "Concrete Inputs"].into_iter().zip(args) {
        op = op.arg(key, value);
    }
    let mut at = at_us;
    for (i, (kernel, us)) in kernels.iter().enumerate() {
        let correlation = 10 * number + i as i64;
        b.launch("cudaLaunchKernel", host + 5.0 + 5.0 * i as f64, 2.0, correlation);
        let category = if kernel.starts_with("Memcpy") { "gpu_memcpy" } else { "kernel" };
        b.gpu(category, kernel, at, *us, correlation, 7);
        at += us;
    }
    at
}

#[test]
fn a_layout_is_told_of_the_operation_that_turns_images() {
    let convolution = [
        "[[64, 256, 56, 56], [256, 256, 3, 3], [], [], [], [], [], [], []]",
        r#"["c10::Half", "c10::Half", "", "ScalarList", "ScalarList", "ScalarList", "Scalar", "ScalarList", "Scalar"]"#,
        "[[802816, 3136, 56, 1], [2304, 9, 3, 1], [], [], [], [], [], [], []]",
        r#"["", "", "", "[1, 1]", "[1, 1]", "[1, 1]", "False", "[0, 0]", "1"]"#,
    ];
    let norm = [
        "[[64, 256, 56, 56], [256], [256], [256], [256], [], [], [], []]",
        r#"["c10::Half", "float", "float", "float", "float", "Scalar", "Scalar", "Scalar", "Scalar"]"#,
        "[[802816, 3136, 56, 1], [1], [1], [1], [1], [], [], [], []]",
        r#"["", "", "", "", "", "True", "0.1", "1e-05", "True"]"#,
    ];
    let turned = [
        ("void cudnn::engines_precompiled::nchwToNhwcKernel<__half>", 400.0),
        ("sm90_xmma_fprop_implicit_gemm_f16f16_f16f32_f32_nhwckrsc_nhwc_tilesize128x128x64_x", 400.0),
    ];
    let mut b = TraceBuilder::new();
    let mut at = 2000.0;
    for i in 0..10 {
        at = call(&mut b, 2 * i, at, "aten::convolution", convolution, &turned);
        // It takes longer, and gains more.
        let kernel = [("void cudnn::bn_fw_tr_1C11_kernel_NCHW<__half>", 1000.0)];
        at = call(&mut b, 2 * i + 1, at, "aten::batch_norm", norm, &kernel);
    }
    let a = Analysed::of("layout", &b.build(), "H200").unwrap();
    let fair = a.fair();
    let told = fair.split("\n### ").find(|r| r.contains("Layout transposes around convolutions")).unwrap();
    assert!(told.contains("**Operation**: `aten::convolution` (#2 in Top Operations) and 1 more operation"), "{told}");
}

#[test]
fn operations_stand_in_the_order_of_the_time_that_is_shown() {
    let dims = "[[8192, 8192], [8192, 8192], []]";
    let args =
        [dims, r#"["c10::BFloat16", "c10::BFloat16", "Scalar"]"#, "[[8192, 1], [8192, 1], []]", r#"["", "", ""]"#];
    let mut b = TraceBuilder::new();
    let mut at = 2000.0;
    at = call(&mut b, 0, at, "aten::copy_", args, &[("Memcpy HtoD (Pinned -> Device)", 1000.0)]);
    at = call(&mut b, 1, at, "aten::add", args, &[("void at::native::add", 400.0)]);
    call(&mut b, 2, at, "aten::mul", args, &[("void at::native::mul", 700.0)]);
    let a = Analysed::of("copied", &b.build(), "H200").unwrap();
    let page = a.page("category_findings/elementwise_findings.md");
    let rows =
        page.lines().skip_while(|l| !l.starts_with("| Operation | Count |")).skip(2).take_while(|l| l.starts_with('|'));
    let shown: Vec<(&str, &str)> =
        rows.map(|l| (l.split('`').nth(1).unwrap(), l.split(" | ").nth(2).unwrap())).collect();
    assert_eq!(shown, [("aten::mul", "0.70"), ("aten::add", "0.40"), ("aten::copy_", "0.000")], "{page}");
}

#[test]
fn a_failed_analyzer_is_named_and_nothing_is_said_in_its_place() {
    let mut a = fixture("h200", "attn_unfused.json.gz");
    a.analysis.outcomes[0].file = MetricsFile::Short(ShortMetrics::error("gemm", "GEMM", "column `TB/s_mean` missing"));
    let page = a.page("category_findings/gemm_findings.md");
    let expected = "# GEMM Analysis Summary\n\nStatus: ERROR\n\nError: `column 'TB/s_mean' missing`\n\n\
                    This category is excluded from the recommendations.\n";
    assert_eq!(page, expected);
    let fair = a.fair();
    check_page("fair", &fair);
    assert!(fair.contains("| GEMM | `column 'TB/s_mean' missing` |"), "{fair}");
    assert!(fair.contains("These are excluded from the recommendations below."));
    assert!(fair.contains("GEMM: 16.37 ms (47.9%), analysis failed"), "{fair}");
    let rough = a.rough();
    let warning = "The analysis of GEMM failed and is excluded from the recommendations: `column 'TB/s_mean' missing`";
    assert!(rough.contains("### Warnings in Full") && rough.contains(warning), "{rough}");
    a.analysis.outcomes[0].file = MetricsFile::Short(ShortMetrics::no_data("gemm", "GEMM"));
    let page = a.page("category_findings/gemm_findings.md");
    assert_eq!(page, "# GEMM Analysis Summary\n\nNo GEMM operations found in trace\n");
    check_page("fair", &a.fair());
}

#[test]
fn twelve_recommendations_and_a_word_about_the_rest() {
    let mut a = fixture("h200", "attn_unfused.json.gz");
    let first = a.analysis.findings[0].clone();
    let with_rank = |rank: usize| {
        let saved = Range::new(8.0 - 0.1 * rank as f64, 9.0);
        Finding { rank, impact: Impact::of(saved, 40.03, first.impact.basis.clone()), ..first.clone() }
    };
    a.analysis.findings = (1..=15).map(with_rank).collect();
    let fair = a.fair();
    check_page("fair", &fair);
    assert_eq!(fair.matches("Critical Priority: ").count(), 12);
    assert!(fair.contains("3 more findings of lower rank: see [Further Findings](#detail-further)"), "{fair}");
    assert_eq!(repeated(&fair), [] as [&str; 0]);
}

#[test]
fn graph_replays_are_told_by_their_kernels() {
    let a = fixture("h200", "decode_graphed.json.gz");
    let fair = a.fair();
    assert!(fair.contains("GPU graph replay"), "{fair}");
    assert!(fair.contains("profile one step without GPU graphs"), "{fair}");
    assert!(fair.contains("Kernels Without Operations"), "{fair}");
    assert!(!fair.contains("(Synthetic Op)"), "rows that the report makes up are not operations of the program");
    assert!(fair.contains("| Flash Attention Usage | Yes, by the names of kernels without operations |"), "{fair}");
    assert!(fair.contains("No performance model covers 16 operations or kernels that take a notable part"), "{fair}");
    assert!(
        fair.contains("392 kernels; see [Kernels Without Operations]") && !fair.contains("No operations"),
        "{fair}"
    );
    assert!(fair.contains("; kernels of several categories are launched by `cudaGraphLaunch`"), "{fair}");
    assert!(fair.contains("| `cudaGraphLaunch` | Several |"), "{fair}");
    assert!(!fair.contains("led by `cudaGraphLaunch`"), "what launches all is larger than any category: {fair}");
    // What the compiler could do about kernels of unknown operations is not known.
    let mut advice = a
        .analysis
        .outcomes
        .iter()
        .filter_map(|o| o.metrics())
        .flat_map(|m| &m.bottlenecks)
        .flat_map(|b| &b.algorithmic);
    assert!(advice.all(|s| s.text.starts_with("Profile one step without GPU graphs")));
}

#[test]
fn attention_that_only_seems_to_be_there_is_told() {
    let mut a = fixture("h200", "attn_unfused.json.gz");
    // As without shapes: the pattern is too unsure for a category.
    a.analysis.outcomes.retain(|o| o.analyzer != "sdpa");
    assert!(a.fair().contains("| Flash Attention Usage | No, as far as the trace tells: attention seems to run"));
    a.analysis.patterns.clear();
    assert!(a.fair().contains("| Flash Attention Usage | N/A (no attention operations in the trace) |"));
}

#[test]
fn a_trace_without_operations_asks_for_them() {
    let a = fixture("handmade", "gpu_only.json");
    assert!(a.fair().contains("record the host too"));
    assert!(a.fair().contains("| Flash Attention Usage | Not known: no operations are recorded |"), "{}", a.fair());
    assert!(a.rough().contains("no host operations"));
}

#[test]
fn replay_packages_are_listed() {
    let a = fixture("h200", "tiny_bmm_window.json.gz");
    let entry = ReplayEntry {
        op: "aten::bmm".to_owned(),
        path: "replay_packages/aten_bmm_replay_package.zip".to_owned(),
        shapes: 3,
        time_ms: 13.714,
    };
    let pages = a.pages_with(&[entry]);
    let fair = pages.iter().find(|p| p.path == "standalone_analysis_fair.md").unwrap();
    assert!(fair.text.contains("- `replay_packages/aten_bmm_replay_package.zip` - 3 shapes, 13.71 ms\n"));
}

#[test]
fn fair_reports_read_as_they_did() {
    insta::assert_snapshot!("fair_attn_unfused", fixture("h200", "attn_unfused.json.gz").fair());
    insta::assert_snapshot!("fair_decode_graphed", fixture("h200", "decode_graphed.json.gz").fair());
}
