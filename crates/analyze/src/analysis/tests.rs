use jarvis_perf::tables::{ReportOptions, build_report};

use super::*;
use crate::finding::Priority;
use crate::testing::{Call, Scene, analyzed, finding, metrics};

const X: &str = "[8, 2048, 4096]";
const ROW: &str = "[8, 2048, 1]";

#[test]
fn bottlenecks_without_a_model_are_told_where_nothing_is_recommended() {
    let told = |scene: &Scene| {
        let (outcomes, findings) = analyzed(&scene.prepared());
        nothing_recommended(&outcomes, &findings)
    };
    let mut fine = Scene::new();
    fine.mm(1, [8192, 8192, 8192], 1300.0);
    assert_eq!(told(&fine), "No bottleneck exceeds the thresholds.");
    let mut unknown = Scene::new();
    unknown.calls(3, &Call::new("custom::one", "[]", "[]", &[("k", 500.0)]));
    let one = "No performance model covers an operation or kernel that takes a notable part of the time, so no change can be put in numbers.";
    assert_eq!(told(&unknown), one);
    unknown.calls(1, &Call::new("custom::two", "[]", "[]", &[("k", 500.0)]));
    assert!(
        told(&unknown).starts_with("No performance model covers 2 operations or kernels that take"),
        "{}",
        told(&unknown)
    );
}

#[test]
fn what_is_urgent_without_a_known_gain_is_not_called_of_low_priority() {
    let mut scene = Scene::new();
    let types = r#"["float", "Scalar", "Scalar"]"#;
    scene.calls(4, &Call::new("aten::sort", "[[256, 128256], [], []]", types, &[("radix_sort", 2400.0)]));
    let (outcomes, findings) = analyzed(&scene.prepared());
    let told = nothing_recommended(&outcomes, &findings);
    assert_eq!(
        told,
        "`aten::sort` takes 100.0% of compute, but what a change to it would save can't be told from a trace."
    );
}

/// A norm written out, three times.
fn norms() -> Analysis {
    let mut scene = Scene::new();
    scene.builder.python("nn.Module: RMSNorm_0", 0.0, 900.0);
    let one = r#"["c10::BFloat16", "Scalar", "Scalar"]"#;
    let two = r#"["c10::BFloat16", "c10::BFloat16"]"#;
    for _ in 0..3 {
        let mut op = |name: &str, dims: &str, types: &str, us: f64| {
            let (dims, kernels) = (format!("[{dims}]"), [("void at::native::kernel", us)]);
            let mut call = Call::new(name, &dims, types, &kernels);
            call.concrete = (name == "aten::mean").then_some(r#"["", "[-1]", "True"]"#);
            scene.calls(1, &call);
        };
        op("aten::pow", &format!("{X}, []"), one, 400.0);
        op("aten::mean", &format!("{X}, [], []"), r#"["c10::BFloat16", "ScalarList", "Scalar"]"#, 40.0);
        op("aten::add", &format!("{ROW}, [], []"), one, 1.0);
        op("aten::rsqrt", ROW, r#"["c10::BFloat16"]"#, 1.0);
        op("aten::mul", &format!("{X}, {ROW}"), two, 100.0);
        op("aten::mul", &format!("[4096], {X}"), two, 100.0);
    }
    let trace = scene.builder.build();
    let platform = Platform::find("H200").unwrap();
    let options = ReportOptions { call_stack: true, platform: Some(platform.clone()), ..ReportOptions::default() };
    let report = build_report(&trace, &options).unwrap();
    Analysis::of(&trace, &report, platform, &AnalysisOptions::default())
}

#[test]
fn patterns_stand_with_the_category_they_are_for() {
    let analysis = norms();
    let elementwise = metrics(&analysis.outcomes, "elementwise");
    let found = elementwise.patterns.iter().find(|p| p.pattern == "UNFUSED_RMSNORM").unwrap();
    assert!(found.id.starts_with("elementwise-p") && found.confidence == "high", "{found:?}");
    let mean = analysis.prepared.rows.iter().find(|r| &*r.name == "aten::mean").unwrap();
    assert!(found.tree_uids.contains(&mean.uid), "rows of other categories too");
    assert!(analysis.findings_of(found).next().is_some());
    let pow = elementwise.bottlenecks.iter().find(|b| &*b.operation == "aten::pow").unwrap();
    assert_eq!(pow.patterns, [found.id.as_str()], "it says what explains a bottleneck");
    let reduce = metrics(&analysis.outcomes, "reduce");
    assert!(reduce.patterns.iter().all(|p| p.pattern != "UNFUSED_RMSNORM"), "it is told in one place");
}

fn about(tier: Tier, rows: &[(u32, f64)]) -> Finding {
    let rows = rows.iter().map(|&(row, share)| (RowId(row), share)).collect();
    Finding { rows, ..finding(tier, Priority::Medium, 0.0, 1.0) }
}

#[test]
fn a_bottleneck_is_told_by_what_speaks_of_most_of_it() {
    let told_of = |kind: Option<PatternId>, ms: f64, fused: f64, rows: &[u32]| {
        let all = [about(Tier::Fusion, &[(0, fused)]), about(Tier::Compute, &[(0, 0.2), (1, 1.0)])];
        let rows: Vec<RowId> = rows.iter().map(|&r| RowId(r)).collect();
        telling(&all, &ToldRows::of(&all), (kind, ms), &rows).map(|f| f.tier)
    };
    let told = |fused: f64, rows: &[u32]| told_of(None, 1.0, fused, rows);
    assert_eq!(told(0.8, &[0]), Some(Tier::Fusion), "advice and level are those of one finding");
    assert_eq!(told(0.4, &[0]), Some(Tier::Compute), "its own, though of a part");
    assert_eq!(told(0.0, &[2, 1]), Some(Tier::Compute), "that of the next row");
    assert_eq!(told(0.8, &[2]), None);
    let Finding { pattern, time_ms, .. } = about(Tier::Compute, &[]);
    let own = |ms: f64, row: u32| told_of(Some(pattern), ms, 0.8, &[row]);
    assert_eq!(own(1.9 * time_ms, 0), Some(Tier::Compute), "what is left of it is told by its own");
    assert_eq!(own(2.1 * time_ms, 0), Some(Tier::Fusion), "unless that tells of less than the half");
    assert_eq!(own(time_ms, 2), None);
    let others = told_of(Some(PatternId::TINY_GEMMS), time_ms, 0.8, &[0]);
    assert_eq!(others, Some(Tier::Fusion), "it has none of its own");
}

#[test]
fn what_another_finding_makes_urgent_is_not_called_not_urgent() {
    // Small beside the additions, so that its category caps its level.
    let mut scene = Scene::new();
    scene.add(100, 512, 4.3);
    let types = r#"["c10::BFloat16", "long int"]"#;
    scene.calls(10, &Call::new("aten::embedding", "[[32000, 1024], [4, 512]]", types, &[("gather", 34.0)]));
    let (mut outcomes, _) = analyzed(&scene.prepared());
    let bottleneck = metrics(&outcomes, "other").bottlenecks[0].clone();
    assert_eq!((bottleneck.priority, bottleneck.replay.reason.as_str()), (Priority::Medium, "not urgent enough"));
    let rows = bottleneck.rows.iter().map(|&row| (row, 1.0)).collect();
    let mut about = |priority: Priority| {
        let told = Finding {
            rows: Vec::clone(&rows),
            pattern: PatternId::UNFUSED_ATTENTION,
            ..finding(Tier::Fusion, priority, 0.0, 1.0)
        };
        settle_priorities(&mut outcomes, &[told]);
        let b = &metrics(&outcomes, "other").bottlenecks[0];
        (b.priority, b.replay.recommended, b.replay.reason.clone())
    };
    assert_eq!(about(Priority::Medium), (Priority::Medium, false, "not urgent enough".to_owned()));
    let why = "Medium by its own share; `unfused_attention` makes it urgent and tells what to do";
    assert_eq!(about(Priority::Critical), (Priority::Critical, false, why.to_owned()));
}

#[test]
fn what_streams_make_of_kernel_times_is_told() {
    let mut findings = norms().findings;
    let before = findings.clone();
    let mut utilization = Utilization { computation_time_ms: 4.0, kernel_time_ms: 4.0, ..Utilization::default() };
    tell_of_streams(&mut findings, &utilization);
    assert_eq!(findings, before, "one after another");
    utilization.kernel_time_ms = 6.0;
    tell_of_streams(&mut findings, &utilization);
    let told = "Kernels run side by side, 6.00 ms of them in 4.00 ms: kernel times count 66.7% in the window.";
    for (finding, before) in findings.iter().zip(&before) {
        let basis = before.impact.basis.trim_end_matches('.');
        assert_eq!(finding.impact.basis, format!("{basis}. {told}"));
    }
}
