//! Tests across analyzers: the list itself, memory-bound categories, claims, failures.

use std::collections::BTreeSet;

use super::outcome::outcome;
use super::*;
use crate::finding::{Mending, PatternId};
use crate::metrics::{CategoryFile, MetricsFile, Scope, SetAside, ShortMetrics, Status};
use crate::prepare::category::CATEGORIES;
use crate::program::LeafId;
use crate::rounding::shown_ms;
use crate::testing::{Call, Scene, analyzed, metrics, patterns, prepared_of};
use jarvis_trace::TraceBuilder;

const HEADINGS: [&str; 5] =
    ["## What it finds", "## Why it matters", "## How it is computed", "## What to do", "## Limits"];

#[test]
fn every_analyzer_is_documented_and_in_charge() {
    for (i, a) in ANALYZERS.iter().enumerate() {
        let info = a.info();
        assert!(ANALYZERS[..i].iter().all(|other| other.info().id != info.id), "{} stands twice", info.id);
        let mut at = 0;
        for heading in HEADINGS {
            let found = info.doc[at..].find(heading);
            at += found.unwrap_or_else(|| panic!("{}: `{heading}` is missing or out of order", info.id));
        }
        assert!(CATEGORIES.iter().any(|c| c.analyzer == info.id), "{} has no category", info.id);
        assert!(info.time.key().ends_with(".time_ms"));
        // Every limit that the text names is one that the analyzer says it reads.
        for key in info.doc.split('`').skip(1).step_by(2).filter(|k| k.contains('.') && !k.contains("torch")) {
            let read = info.all_thresholds();
            let stem = key.trim_end_matches('*');
            assert!(read.iter().any(|t| t.key().starts_with(stem)), "{}: `{key}` is not among its limits", info.id);
        }
    }
    assert!(CATEGORIES.iter().all(|c| analyzer(c.analyzer).is_some()));
}

const BF16: &str = r#"["c10::BFloat16"]"#;

/// A call of one bf16 tensor of 64 MiB that takes `us`.
fn one_tensor(scene: &mut Scene, name: &str, kernel: &str, us: f64) {
    scene.calls(10, &Call::new(name, "[[8192, 4096]]", BF16, &[(kernel, us)]));
}

/// Microseconds in which `mb` MiB move at `percent` of 4.8 TB/s.
fn at(mb: f64, percent: f64) -> f64 {
    mb * 1_048_576.0 / 4.8e6 * 100.0 / percent
}

#[test]
fn copies_within_the_device_are_judged_and_have_no_share_of_computing() {
    let mut scene = Scene::new();
    let two = r#"["c10::BFloat16", "c10::BFloat16"]"#;
    let copy = [("__amd_rocclr_copyBuffer", at(128.0, 20.0))];
    scene.calls(10, &Call::new("aten::copy_", "[[8192, 4096], [8192, 4096]]", two, &copy));
    one_tensor(&mut scene, "aten::relu", "relu_kernel", at(128.0, 80.0));
    let p = scene.prepared();
    let (outcomes, findings) = analyzed(&p);
    assert_eq!(patterns(&findings), [PatternId::LOW_BANDWIDTH_ELEMENTWISE]);
    let m = metrics(&outcomes, "elementwise");
    assert!((m.percent_of_compute.0 - 100.0).abs() < 0.1 && (m.modeled_time_percent.0 - 100.0).abs() < 0.1, "{m:?}");
    let [b] = &m.bottlenecks[..] else { panic!("{:?}", m.bottlenecks) };
    assert!(&*b.operation == "aten::copy_" && b.time_ms.0 > 1.0, "{b:?}");
    assert!((b.copy_time_ms.0 - b.time_ms.0).abs() < 1e-9, "{b:?}");
    assert_eq!((b.percent_of_compute.0, b.percent_of_category.0), (0.0, 0.0));
    // Rows come in the order of their kernel time.
    let names: Vec<&str> = m.rows(&p).map(|row| &*row.name).collect();
    assert_eq!(names, ["aten::copy_", "aten::relu"]);
}

#[test]
fn memory_bound_operations_below_two_fifths_of_the_bandwidth() {
    // Name, MiB that a call moves, category, finding.
    for (name, mb, category, pattern) in [
        ("aten::relu", 128.0, "elementwise", PatternId::LOW_BANDWIDTH_ELEMENTWISE),
        ("aten::_softmax", 128.0, "reduce", PatternId::LOW_BANDWIDTH_REDUCE),
    ] {
        for (percent, found) in [(39.0, true), (41.0, false)] {
            let mut scene = Scene::new();
            one_tensor(&mut scene, name, "void at::native::some_kernel", at(mb, percent));
            let prepared = scene.prepared();
            let (outcomes, findings) = analyzed(&prepared);
            let row = metrics(&outcomes, category).rows(&prepared).next().unwrap();
            let e = row.efficiency.efficiency_percent.unwrap();
            assert!((e - percent).abs() < 0.5, "{name}: {e}");
            let wanted = if found { vec![pattern] } else { vec![] };
            assert_eq!(patterns(&findings), wanted, "{name} at {percent}%");
            let b = &metrics(&outcomes, category).bottlenecks;
            assert!(b.iter().all(|b| !b.algorithmic.is_empty() && !b.kernel.is_empty()), "both paths, always");
        }
    }
}

#[test]
fn norms_are_measured_against_the_baseline() {
    let scene = |us: f64| {
        let mut scene = Scene::new();
        scene.add(10, 128, 4.0);
        let dims = "[[8192, 4096], [], [4096], [4096], []]";
        let types = r#"["c10::BFloat16", "ScalarList", "c10::BFloat16", "c10::BFloat16", "Scalar"]"#;
        let kernels = [("void at::native::vectorized_layer_norm_kernel", us)];
        let mut call = Call::new("aten::layer_norm", dims, types, &kernels);
        call.concrete = Some(r#"["", "[4096]", "", "", "1e-05"]"#);
        scene.calls(10, &call);
        scene
    };
    let (outcomes, findings) = analyzed(&scene(at(128.0, 20.0)).prepared());
    assert_eq!(patterns(&findings), [PatternId::NORM_BELOW_BASELINE]);
    assert!(findings[0].issue.contains("83.3%"), "{}", findings[0].issue);
    assert_eq!(metrics(&outcomes, "norm").patterns[0].pattern, "BN_BELOW_BASELINE");
    // Above three tenths of the baseline it is slow and no more.
    let (outcomes, _) = analyzed(&scene(at(128.0, 30.0)).prepared());
    assert!(metrics(&outcomes, "norm").patterns.is_empty() && !metrics(&outcomes, "norm").bottlenecks.is_empty());
    assert_eq!(patterns(&analyzed(&scene(at(128.0, 45.0)).prepared()).1), []);
}

#[test]
fn nothing_can_be_counted_on_where_elements_meet_in_one_place() {
    let range = |name: &'static str| {
        let dims = "[[100000, 128], [], [1000000], [1000000, 128], []]";
        let types = r#"["float", "Scalar", "long int", "float", "Scalar"]"#;
        let mut scene = Scene::new();
        scene.calls(4, &Call::new(name, dims, types, &[("indexFuncLargeIndex", 960.0)]));
        let (_, findings) = analyzed(&scene.prepared());
        assert_eq!(patterns(&findings), [PatternId::LOW_BANDWIDTH_ELEMENTWISE]);
        (findings[0].impact.saved_ms, findings[0].impact.basis.clone())
    };
    let (saved, basis) = range("aten::index_add_");
    assert!(saved.low == 0.0 && saved.high > 1.0 && basis.contains("one by one"), "{saved:?} {basis}");
    let (saved, _) = range("aten::index_copy_");
    assert!(saved.low > 0.5, "copies do not meet: {saved:?}");
}

#[test]
fn copies_over_links_are_not_judged() {
    for copy in ["Memcpy HtoD (Pageable -> Device)", "Memcpy PtoP (Device -> Device)"] {
        let mut scene = Scene::new();
        scene.mm(1, [4096, 4096, 4096], 180.0);
        for i in 0..4_i64 {
            let (at, number) = (100.0 + 50.0 * i as f64, 100 + i);
            let op = scene.builder.cpu_op("aten::copy_", at, 8.0);
            op.arg("Input Dims", "[[8192, 4096], [8192, 4096]]");
            op.arg("Input type", r#"["c10::BFloat16", "c10::BFloat16"]"#);
            scene.builder.launch("cudaMemcpyAsync", at + 1.0, 2.0, number);
            scene.builder.gpu("gpu_memcpy", copy, 9000.0 * number as f64, 9000.0, number, 7);
        }
        let (outcomes, findings) = analyzed(&scene.prepared());
        assert!(metrics(&outcomes, "elementwise").bottlenecks.is_empty(), "{copy}");
        assert_eq!(patterns(&findings), [], "{copy}");
    }
}

#[test]
fn host_time_is_told_with_the_calls_it_passes_in() {
    let told = |kernel: &str| {
        let mut b = TraceBuilder::new();
        b.fact("deviceProperties", r#"[{"id": 0, "name": "NVIDIA H200", "numSms": 132}]"#);
        for (i, (name, host_us, kernel)) in
            [("aten::add", 1000.0, "add"), ("aten::copy_", 20_000.0, kernel), ("aten::mul", 1000.0, "mul")]
                .into_iter()
                .enumerate()
        {
            let at = 30_000.0 * i as f64;
            b.cpu_op(name, at, host_us).arg("Input Dims", "[[1, 400], [1, 400]]");
            b.launch("cudaLaunchKernel", at + 10.0, 2.0, i as i64);
            b.kernel(kernel, at + 20.0, 10.0, i as i64);
        }
        let (outcomes, _) = analyzed(&prepared_of(&b, "H200"));
        metrics(&outcomes, "elementwise").warnings.concat()
    };
    let other = told("copy_kernel");
    assert!(
        other.contains("is 733.3x their GPU time (22.00 ms, 20.00 ms of it in `aten::copy_` on (1,400)"),
        "{other}"
    );
    assert!(!other.contains("all of it in"), "two more calls wait: {other}");
    assert!(other.contains("(1 call)); this is a framework matter") && !other.contains("aten::add"), "{other}");
    let copy = told("Memcpy DtoH (Device -> Pageable)");
    assert!(copy.contains("`aten::copy_`") && copy.contains("the host waits for work issued before."), "{copy}");
    assert!(!copy.contains("framework"), "{copy}");
}

#[test]
fn rows_below_the_floor_are_noted_and_not_promoted() {
    let mut slow = Scene::new();
    slow.mm(1000, [4096, 4096, 4096], 180.0);
    slow.calls(1, &Call::new("aten::relu", "[[8192, 4096]]", BF16, &[("k", 500.0)]));
    let (outcomes, findings) = analyzed(&slow.prepared());
    let elementwise = metrics(&outcomes, "elementwise");
    assert!(elementwise.bottlenecks.is_empty() && elementwise.notes[0].contains("below floor"));
    assert_eq!(patterns(&findings), []);
}

#[test]
fn rows_that_are_slow_and_no_bottleneck_say_why() {
    let aside = |scene: &Scene, category: &str| {
        let (outcomes, _) = analyzed(&scene.prepared());
        let metrics = metrics(&outcomes, category);
        assert!(metrics.bottlenecks.is_empty(), "{:?}", metrics.bottlenecks);
        let notes = metrics.notes.clone();
        (metrics.operations.iter().map(|o| o.set_aside).collect::<Vec<_>>(), notes)
    };
    // Kernels of 4 µs where those with nothing to do take 2 µs: half of it is just to run.
    let mut scene = Scene::new();
    scene.calls(500, &Call::new("aten::neg", "[[8]]", BF16, &[("n", 2.0)]));
    scene.calls(100, &Call::new("aten::_softmax", "[[8, 64]]", BF16, &[("s", 4.0)]));
    let (asides, notes) = aside(&scene, "reduce");
    assert_eq!(asides, [Some(SetAside::KernelFloor)]);
    let said = "in kernels of 4.0 us; kernels with next to nothing to do take 2.0 us in this trace";
    assert!(notes[0].contains(said), "{notes:?}");
    // A small part of its category.
    let mut scene = Scene::new();
    scene.mm(100, [8192, 8192, 8192], 1500.0);
    scene.mm(1, [512, 4096, 512], 60.0);
    assert_eq!(aside(&scene, "gemm").0, [None, Some(SetAside::SmallShare)]);
}

#[test]
fn small_products_that_take_long_are_bottlenecks() {
    // They are the only kernels with next to nothing to do: what they take is no floor.
    let mut scene = Scene::new();
    scene.mm(100, [64, 64, 64], 40.0);
    let (outcomes, _) = analyzed(&scene.prepared());
    assert_eq!(metrics(&outcomes, "gemm").bottlenecks.len(), 1);
}

#[test]
fn claimed_rows_are_told_elsewhere() {
    let mut scene = Scene::new();
    one_tensor(&mut scene, "aten::_softmax", "softmax", at(128.0, 20.0));
    one_tensor(&mut scene, "aten::relu", "relu", at(128.0, 20.0));
    let prepared = scene.prepared();
    let softmax = prepared.rows.iter().find(|r| r.name.contains("softmax")).unwrap().id;
    let mut claims = Claims::none();
    claims.add_rows("Attention", PatternId::UNFUSED_ATTENTION, &prepared, &BTreeSet::from([softmax]));
    let outcomes = analyze_categories(&prepared, &claims, Scope::Standalone);
    let findings = compute_findings(&prepared, &outcomes, &claims, None);
    assert_eq!(patterns(&findings), [PatternId::LOW_BANDWIDTH_ELEMENTWISE]);
    let reduce = metrics(&outcomes, "reduce");
    let file = serde_json::json!(CategoryFile { metrics: reduce, prepared: &prepared });
    assert_eq!(file["operations"][0]["fusion_flagged"], false, "nobody said that the claim is sure");
    assert_eq!(reduce.bottlenecks[0].covered_by.as_deref(), Some("Attention"));
    let sdpa = metrics(&outcomes, "sdpa_fwd");
    assert_eq!((sdpa.operation_count, sdpa.status), (0, Status::Ok), "attention without an attention operation");
    let said = |key: &str| sdpa.category_specific.get(key).unwrap().value().unwrap().clone();
    assert_eq!(said("flash_attention_usage"), "No");
}

#[test]
fn rows_inside_sure_candidates_are_flagged() {
    let mut scene = Scene::new();
    one_tensor(&mut scene, "aten::relu", "relu", at(128.0, 20.0));
    scene.mm(2, [512, 512, 512], 20.0);
    let prepared = scene.prepared();
    let of = |name: &str| prepared.rows.iter().find(|r| &*r.name == name).unwrap().id;
    let (relu, mm) = (of("aten::relu"), of("aten::mm"));
    let leaves = |row| -> Vec<LeafId> {
        let own = prepared.program.leaves.iter().enumerate().filter(|(_, l)| l.row == Some(row));
        own.map(|(i, _)| LeafId(i as u32)).collect()
    };
    let flagged = |replaces_matrix: bool, parts: &[&[LeafId]]| {
        let mut claims = Claims::none();
        claims.flag(&prepared, parts.iter().map(|p| ("Block", replaces_matrix, p.to_vec())));
        [relu, mm].map(|row| claims.flagged(row).map(ToString::to_string))
    };
    let (relus, mms) = (leaves(relu), leaves(mm));
    let block = Some("Block".to_owned());
    assert_eq!(flagged(false, &[&relus, &mms]), [block.clone(), None], "products stay what they are");
    assert_eq!(flagged(true, &[&relus, &mms]), [block.clone(), block.clone()]);
    assert_eq!(flagged(true, &[&relus[1..]]), [None, None], "one call is outside");
    assert_eq!(flagged(false, &[&relus[..1], &relus[1..]]), [block, None], "in one group or another");
    let mut claims = Claims::none();
    claims.flag(&prepared, std::iter::once(("Block", false, relus)));
    let outcomes = analyze_categories(&prepared, &claims, Scope::Standalone);
    let file = serde_json::json!(CategoryFile { metrics: metrics(&outcomes, "elementwise"), prepared: &prepared });
    assert_eq!(file["operations"][0]["fusion_flagged"], true, "it stays in its category's metrics");
    assert_eq!(file["operations"][0]["fusion_candidate_name"], "Block");
}

#[test]
fn half_claimed_rows_count_by_half() {
    let mut scene = Scene::new();
    one_tensor(&mut scene, "aten::relu", "relu", at(128.0, 20.0));
    let prepared = scene.prepared();
    let whole = analyzed(&prepared).1;
    let mut claims = Claims::none();
    let leaves = (0..5).map(crate::program::LeafId).collect();
    claims.add_leaves("Block", PatternId::ELEMENTWISE_CHAIN, false, 1, &prepared, &leaves);
    let outcomes = analyze_categories(&prepared, &claims, Scope::Standalone);
    let half = compute_findings(&prepared, &outcomes, &claims, None);
    assert!((half[0].time_ms - whole[0].time_ms / 2.0).abs() < 1e-9);
    assert!((half[0].impact.saved_ms.high - whole[0].impact.saved_ms.high / 2.0).abs() < 1e-6);
    let (ms, operation) = (half[0].time_ms, &half[0].operations[0]);
    assert_eq!((operation.count, operation.time_ms), (5, ms), "operations are the half that is meant");
    assert!(half[0].impact.basis.starts_with(&format!("{} ms at 20.0% ", shown_ms(ms))), "{}", half[0].impact.basis);
}

#[test]
fn findings_speak_only_of_the_shapes_that_are_left() {
    let mut scene = Scene::new();
    one_tensor(&mut scene, "aten::relu", "relu", at(128.0, 30.0));
    scene.calls(10, &Call::new("aten::relu", "[[4096, 4096]]", BF16, &[("relu", at(64.0, 10.0))]));
    let prepared = scene.prepared();
    let large = prepared.rows.iter().find(|r| r.args.contains("8192")).unwrap().id;
    let mut claims = Claims::none();
    claims.add_rows("Block", PatternId::ELEMENTWISE_CHAIN, &prepared, &BTreeSet::from([large]));
    let outcomes = analyze_categories(&prepared, &claims, Scope::Standalone);
    let elementwise = metrics(&outcomes, "elementwise");
    assert_eq!(elementwise.bottlenecks[0].member_count, 2, "its category has both shapes");
    let finding = &compute_findings(&prepared, &outcomes, &claims, None)[0];
    assert!(finding.title.ends_with("at 10.0% of peak"), "{}", finding.title);
    assert!(finding.issue.contains("(10.0% of peak) on one of its 2 shapes"), "{}", finding.issue);
    assert!(finding.impact.basis.starts_with(&format!("{} ms at 10.0% ", shown_ms(finding.time_ms))));
    let saved = |text: &str| text.split(' ').find_map(|word| word.parse::<f64>().ok());
    let told = finding.paths.kernel.iter().find(|s| s.contains("bandwidth gap")).and_then(|s| saved(s)).unwrap();
    assert!(told < finding.time_ms, "{told} ms saved of {}", finding.time_ms);
}

struct Broken;

impl Analyzer for Broken {
    fn info(&self) -> &'static AnalyzerInfo {
        ANALYZERS[0].info()
    }

    fn run(&self, cx: &CategoryCx<'_>) -> Result<CategoryMetrics, AnalyzerError> {
        panic!("row {} is odd", cx.category.rows.len())
    }

    fn part(&self, _: &CategoryCx<'_>, _: &Shares) -> Option<crate::metrics::Bottleneck> {
        None
    }
}

#[test]
fn a_panic_is_the_failure_of_one_category() {
    let mut scene = Scene::new();
    scene.mm(2, [4096, 4096, 4096], 900.0);
    let prepared = scene.prepared();
    let (claims, category) = (Claims::none(), &prepared.categories[0]);
    let cx = CategoryCx { prepared: &prepared, category, claims: &claims, scope: Scope::Standalone };
    let failed = outcome(&cx, Some(&Broken));
    assert_eq!(failed.status(), Status::Error);
    let MetricsFile::Short(short) = &failed.file else { panic!("{:?}", failed.file) };
    let text = serde_json::to_string(short).unwrap();
    assert_eq!(
        text,
        r#"{"schema_version":1,"category":"gemm","status":"ERROR","error":"the analyzer failed: row 1 is odd"}"#
    );
    assert_eq!(patterns(&compute_findings(&prepared, &[failed], &claims, None)), [], "nothing is said about it");
}

#[test]
fn a_category_without_rows_is_no_failure() {
    let text = serde_json::to_string(&ShortMetrics::no_data("gemm", "GEMM")).unwrap();
    assert!(text.contains(r#""status":"NO_DATA","message":"No GEMM operations found in trace""#), "{text}");
}

#[test]
fn moe_and_triton_have_their_analyzers() {
    let mut scene = Scene::new();
    scene.calls(10, &Call::new("vllm::fused_moe", "[]", "[]", &[("fused_moe_kernel", 900.0)]));
    let types = r#"["c10::BFloat16", "c10::BFloat16"]"#;
    let dims = "[[33554432], [33554432]]";
    let kernels = [("triton_poi_fused_add_mul_0", at(128.0, 20.0))];
    scene.calls(10, &Call::new("triton_poi_fused_add_mul_0", dims, types, &kernels));
    let (outcomes, findings) = analyzed(&scene.prepared());
    let moe = metrics(&outcomes, "moe_fused");
    assert!(moe.notes.iter().any(|n| n.starts_with("Expert load balance")));
    assert!(moe.bottlenecks[0].reasons.contains(&"UNMODELED_TIME"), "six fused experts have no model: by time alone");
    let triton = metrics(&outcomes, "triton");
    assert_eq!(triton.category_specific.get("pointwise_count").unwrap().value(), Some(&serde_json::json!(10)));
    assert!(patterns(&findings).contains(&PatternId::TRITON_BELOW_BAND), "{:?}", patterns(&findings));
}

#[test]
fn compiled_kernels_are_not_told_to_compile() {
    // By its name it is a norm, whoever made the kernel.
    let advice = |name: &'static str| {
        let mut scene = Scene::new();
        scene.add(10, 128, 4.0);
        let kernels = [(name, at(128.0, 20.0))];
        let types = r#"["c10::BFloat16", "c10::BFloat16"]"#;
        scene.calls(10, &Call::new(name, "[[33554432], [33554432]]", types, &kernels));
        let (outcomes, _) = analyzed(&scene.prepared());
        let b = &metrics(&outcomes, "norm").bottlenecks[0];
        b.algorithmic.iter().map(|s| s.text.as_str()).collect::<Vec<_>>().join(" ")
    };
    let compiled = advice("triton_per_fused_native_layer_norm_0");
    assert!(!compiled.contains("fuse") && compiled.contains("The compiler wrote this kernel"), "{compiled}");
    assert!(advice("triton_rms_norm_kernel").contains("Compare this custom kernel"), "written by hand");
    assert!(advice("mine::rms_norm").contains("torch.compile"));
}

#[test]
fn what_nobody_can_count_on_is_a_finding_of_its_own() {
    let types = r#"["c10::BFloat16", "c10::BFloat16"]"#;
    let mut scene = Scene::new();
    for name in ["triton_poi_fused_add_mul_0", "triton_my_kernel"] {
        scene.calls(10, &Call::new(name, "[[33554432], [33554432]]", types, &[(name, at(128.0, 20.0))]));
    }
    let mut prepared = scene.prepared();
    // Both have a model here.
    let known = prepared.rows.iter().find(|r| r.name.contains("poi")).unwrap().efficiency.clone();
    prepared.rows.iter_mut().for_each(|r| r.efficiency = known.clone());
    let (_, findings) = analyzed(&prepared);
    let of = |mending| findings.iter().find(|f| f.mending == mending).unwrap();
    let (sure, unsure) = (of(Mending::CountedOn), of(Mending::KernelTeam));
    assert_eq!([sure.operations_total, unsure.operations_total], [1, 1], "{findings:#?}");
    assert_eq!((&*sure.operations[0].name, sure.pattern), ("triton_my_kernel", unsure.pattern));
    let saved = [sure, unsure].map(|f| f.impact.saved_ms);
    assert!(saved[0].low > 0.0 && (saved[0].high - saved[1].high).abs() < 1e-9, "{saved:?}");
    assert_eq!((unsure.impact.saved_ms.low, unsure.expected_ms()), (0.0, 0.0));
    assert!(unsure.impact.basis.contains("assumes nothing, since a compiler wrote"), "{}", unsure.impact.basis);
}

#[test]
fn the_basis_of_several_operations_is_of_all_their_time() {
    let types = r#"["c10::BFloat16", "c10::BFloat16"]"#;
    let mut scene = Scene::new();
    for (name, reached) in [("triton_poi_fused_add_0", 20.0), ("triton_poi_fused_mul_1", 10.0)] {
        scene.calls(10, &Call::new(name, "[[33554432], [33554432]]", types, &[(name, at(128.0, reached))]));
    }
    let (_, findings) = analyzed(&scene.prepared());
    let f = &findings[0];
    let (time, left) = (shown_ms(f.time_ms), shown_ms(f.time_ms - f.impact.saved_ms.high));
    assert_eq!(f.operations_total, 2);
    assert!(
        f.impact.basis.starts_with(&format!("{time} ms at 13.3% of peak would take {left} ms")),
        "{}",
        f.impact.basis
    );
}

#[test]
fn only_operations_that_pass_a_tensor_on_are_to_be_fused() {
    let two = r#"["c10::BFloat16", "c10::BFloat16"]"#;
    let slow = [("k", at(128.0, 20.0))];
    let own = Call::new("aten::relu", "[[8192, 4096]]", BF16, &slow);
    let advice = |own: &Call<'_>, category: &str, next: &Call<'_>| {
        let mut scene = Scene::new();
        for _ in 0..10 {
            scene.calls(1, own).calls(1, next);
        }
        let (outcomes, _) = analyzed(&scene.prepared());
        let bottlenecks = &metrics(&outcomes, category).bottlenecks;
        let b = bottlenecks.iter().find(|b| &*b.operation == own.name).unwrap();
        b.algorithmic.iter().map(|s| s.text.clone()).collect::<Vec<_>>().join(" ")
    };
    // 64 MiB are neither written nor read any more.
    let shares =
        advice(&own, "elementwise", &Call::new("aten::mul", "[[8192, 4096], [8192, 4096]]", two, &[("m", 1.0)]));
    assert!(
        shares.contains("neighbouring operations (`aten::mul`) under `torch.compile` to remove 128.0 MiB"),
        "{shares}"
    );
    // An operation that reads something else, and one that reads another type.
    for (name, dims, types) in
        [("aten::div", "[[512, 4096], [512, 4096]]", two), ("aten::mul", "[[8192, 4096]]", r#"["float"]"#)]
    {
        let other = advice(&own, "elementwise", &Call::new(name, dims, types, &[("m", 1.0)]));
        assert!(!other.contains("neighbouring") && other.contains("`torch.compile`"), "{other}");
    }
    // A reduction hands on what is left of its operand: 16 numbers, 256 bytes written and read.
    let mut argmax = Call::new("aten::argmax", "[[16, 2097152]]", BF16, &slow);
    argmax.concrete = Some(r#"["", "1", "False"]"#);
    let next = Call::new("aten::eq", "[[16], [16]]", r#"["long int", "long int"]"#, &[("m", 1.0)]);
    let little = advice(&argmax, "reduce", &next);
    assert!(!little.contains("neighbouring"), "{little}");
    let mut sum = Call::new("aten::sum", "[[8388608, 4]]", BF16, &slow);
    sum.concrete = Some(r#"["", "[-1]", "False", ""]"#);
    let kept = advice(&sum, "reduce", &Call::new("aten::mul", "[[8388608]]", BF16, &[("m", 1.0)]));
    assert!(kept.contains("(`aten::mul`) under `torch.compile` to remove 32.0 MiB"), "{kept}");
}

#[test]
fn what_is_to_be_compiled_together_is_named() {
    let slow = [("k", at(128.0, 20.0))];
    let own = Call::new("mine::rms_norm", "[[8192, 4096]]", BF16, &slow);
    let advice = |next: &Call<'_>| {
        let mut scene = Scene::new();
        for _ in 0..10 {
            scene.calls(1, &own).calls(1, next);
        }
        let (outcomes, _) = analyzed(&scene.prepared());
        let texts = metrics(&outcomes, "norm").bottlenecks[0].algorithmic.iter();
        texts.map(|s| s.text.clone()).collect::<Vec<_>>().join(" ")
    };
    let named = advice(&Call::new("aten::silu", "[[8192, 4096]]", BF16, &[("m", 1.0)]));
    assert!(
        named.contains("Run `mine::rms_norm` and what stands next to it (`aten::silu`) under `torch.compile`"),
        "{named}"
    );
    let alone = advice(&Call::new("aten::silu", "[[512, 4096]]", BF16, &[("m", 1.0)]));
    assert!(!alone.contains("next to it") && alone.contains("`torch.compile`"), "{alone}");
}

#[test]
fn the_steps_of_a_call_are_not_to_be_fused_with_it() {
    let mut scene = Scene::new();
    let b = &mut scene.builder;
    for i in 0..10 {
        let (host, gpu) = (f64::from(i) * 100.0, 2000.0 + f64::from(i) * 400.0);
        let mut step = |name: &str, at: f64, us: f64| {
            let types = r#"["c10::BFloat16", "c10::BFloat16"]"#;
            let dims = "[[8192, 4096], [8192, 4096]]";
            b.cpu_op(name, host + at, us).arg("Input Dims", dims).arg("Input type", types);
        };
        step("aten::masked_fill", 0.0, 90.0);
        step("aten::copy_", 10.0, 20.0);
        step("aten::masked_fill_", 40.0, 20.0);
        // A product is nothing to fuse with either.
        step("aten::mm", 92.0, 6.0);
        for (kernel, at) in [("copy", 15.0), ("fill", 45.0), ("gemm", 94.0)] {
            let correlation = i64::from(i) * 100 + at as i64;
            b.launch("cudaLaunchKernel", host + at, 2.0, correlation);
            b.kernel(kernel, gpu + 3.0 * at, if at > 50.0 { 1.0 } else { 85.0 }, correlation);
        }
    }
    let (outcomes, _) = analyzed(&scene.prepared());
    let found = &metrics(&outcomes, "elementwise").bottlenecks[0];
    assert_eq!(&*found.operation, "aten::masked_fill");
    let told = found.algorithmic.iter().map(|s| s.text.as_str()).collect::<Vec<_>>().join(" ");
    assert!(!told.contains("neighbouring") && told.contains("`torch.compile`"), "{told}");
}

#[test]
fn what_does_more_than_to_move_data_has_no_projection() {
    let mut scene = Scene::new();
    scene.add(10, 512, 4.3);
    let call = |name| Call::new(name, "[[4096]]", r#"["long int"]"#, &[("sort", 2000.0)]);
    scene.calls(2, &call("aten::sort"));
    let (outcomes, _) = analyzed(&scene.prepared());
    let b = &metrics(&outcomes, "other").bottlenecks[0];
    assert!(b.efficiency_percent.is_some() && b.impact.targets.is_empty() && b.impact.range().is_none(), "{b:?}");
    assert!(!b.replay.recommended || b.replay.required, "{:?}", b.replay);
    assert!(b.kernel.iter().all(|s| s.id != "B-BW"), "{:?}", b.kernel);
}

#[test]
fn what_is_told_of_forward_operations_is_not_told_of_backward_ones() {
    let advised = |name: &str| {
        let mut scene = Scene::new();
        let types = r#"["c10::BFloat16", "c10::BFloat16"]"#;
        let dims = "[[8192, 4096], [8192, 4096]]";
        scene.calls(10, &Call::new("aten::add", dims, types, &[("add", at(192.0, 60.0))]));
        for _ in 0..10 {
            scene.calls(1, &Call::new("aten::add", dims, types, &[("add", at(192.0, 60.0))]));
            scene.calls(1, &Call::new(name, "[[8192, 4096]]", BF16, &[("norm", at(128.0, 20.0))]));
        }
        let (outcomes, _) = analyzed(&scene.prepared());
        metrics(&outcomes, "norm").bottlenecks[0].text_ids.contains(&"A-FUSE-RESIDUAL")
    };
    assert!(advised("aten::layer_norm"));
    assert!(!advised("aten::layer_norm_backward"));
}

#[test]
fn batch_norm_in_training_mode_without_a_backward_pass_is_told() {
    let told = |training: &str, mean: &str, backward: bool| {
        let dims = format!("[[64, 256, 56, 56], [256], [256], {mean}, {mean}, [], [], [], []]");
        let types = r#"["c10::Half", "float", "float", "float", "float", "Scalar", "Scalar", "Scalar", "Scalar"]"#;
        let concrete = format!(r#"["", "", "", "", "", "{training}", "0.1", "1e-05", "True"]"#);
        let mut call = Call::new("aten::batch_norm", &dims, types, &[("bn", 900.0)]);
        call.concrete = Some(&concrete);
        let mut scene = Scene::new();
        scene.calls(10, &call);
        if backward {
            scene.calls(1, &Call::new("aten::relu_backward", "[[64]]", BF16, &[("k", 3.0)]));
        }
        let (outcomes, _) = analyzed(&scene.prepared());
        let norm = metrics(&outcomes, "batchnorm");
        let advised = norm.bottlenecks.iter().all(|b| b.text_ids.contains(&"A-EVAL"));
        (norm.notes.iter().any(|n| n.contains("model.eval()")), !norm.bottlenecks.is_empty() && advised)
    };
    assert_eq!(told("True", "[256]", false), (true, true));
    assert_eq!(told("False", "[256]", false), (false, false));
    assert_eq!(told("True", "[]", false), (false, false), "it has no other statistics");
    assert_eq!(told("True", "[256]", true), (false, false));
}

#[test]
fn no_package_is_promised_that_is_not_made() {
    // Small beside the additions, so that its category caps its level.
    let mut scene = Scene::new();
    scene.add(100, 512, 4.3);
    let types = r#"["c10::BFloat16", "long int"]"#;
    scene.calls(10, &Call::new("aten::embedding", "[[32000, 1024], [4, 512]]", types, &[("gather", 34.0)]));
    let prepared = scene.prepared();
    let mut claims = Claims::none();
    for claimed in [0, 3] {
        let leaves = (100..100 + claimed).map(crate::program::LeafId).collect();
        claims.add_leaves("Block", PatternId::ELEMENTWISE_CHAIN, false, 1, &prepared, &leaves);
        let outcomes = analyze_categories(&prepared, &claims, Scope::Standalone);
        let replay = &metrics(&outcomes, "other").bottlenecks[0].replay;
        assert!(!replay.recommended, "{replay:?}");
        let findings = compute_findings(&prepared, &outcomes, &claims, None);
        let finding = findings.iter().find(|f| f.category == "other").unwrap();
        assert!(finding.paths.kernel.iter().all(|s| !s.contains("Replay artifact")), "{:?}", finding.paths.kernel);
        assert_eq!(finding.replay_reason.as_deref(), Some("not urgent enough"));
    }
}

#[test]
fn no_projection_is_shorter_than_kernels_are() {
    let mut scene = Scene::new();
    // Kernels with nothing to do take 2 us; 1 MiB at the ceiling would take less.
    scene.calls(200, &Call::new("aten::relu", "[[16]]", BF16, &[("k", 2.0)]));
    scene.calls(100, &Call::new("aten::relu", "[[262144]]", BF16, &[("relu", 8.0)]));
    let prepared = scene.prepared();
    let (outcomes, _) = analyzed(&prepared);
    let found = metrics(&outcomes, "elementwise").bottlenecks.iter().find(|b| b.count == 100).unwrap();
    let floor = 100.0 * prepared.kernel_floor_us / 1e3;
    let last = found.impact.targets.last().unwrap();
    assert!(floor > 0.0 && last.at_floor && (last.time_ms.0 - floor).abs() < 1e-9, "{floor} {last:?}");
    let saved = format!("{} ms of kernel time less", shown_ms(0.8 - floor));
    assert!(found.kernel.iter().any(|s| s.text.contains(&saved)), "{saved}: {:?}", found.kernel);
}

#[test]
fn inputs_that_are_not_contiguous_are_told() {
    let said = |strides: &'static str| {
        let kernels = [("k", at(128.0, 20.0))];
        let mut call = Call::new("aten::relu", "[[8192, 4096]]", BF16, &kernels);
        call.strides = Some(strides);
        let mut scene = Scene::new();
        scene.calls(10, &call);
        let (outcomes, _) = analyzed(&scene.prepared());
        let b = &metrics(&outcomes, "elementwise").bottlenecks[0];
        b.kernel.iter().map(|s| s.text.as_str()).collect::<Vec<_>>().join(" ")
    };
    assert!(said("[[1, 8192]]").contains("not contiguous (strides (1,8192))"));
    assert!(!said("[[4096, 1]]").contains("not contiguous"));
}

#[test]
fn efficiencies_have_their_words() {
    for (percent, word) in [(85.0, "Excellent"), (70.0, "Good"), (50.0, "Acceptable"), (20.0, "Needs investigation")] {
        let mut scene = Scene::new();
        // 2·4096³ FLOPs take 138.8 µs at 990 TFLOPS/s.
        scene.mm(10, [4096, 4096, 4096], 138.8 * 100.0 / percent);
        let (outcomes, _) = analyzed(&scene.prepared());
        assert_eq!(metrics(&outcomes, "gemm").operations[0].assessment, Some(word), "{percent}");
    }
}

#[test]
fn what_has_no_recorded_inputs_promises_no_package() {
    let mut scene = Scene::new();
    scene.calls(4, &Call::new("aten::mm", "[]", "[]", &[("gemm", 900.0)]));
    scene.calls(4, &Call::new("aten::relu", "[[8192, 4096]]", BF16, &[("k", 900.0)]));
    let (outcomes, _) = analyzed(&scene.prepared());
    let kernel = |category: &str| {
        let b = metrics(&outcomes, category).bottlenecks[0].clone();
        (b.replay.recommended, b.kernel.iter().map(|s| s.id).collect::<Vec<_>>())
    };
    let (recommended, ids) = kernel("gemm");
    assert!(!recommended && ids.contains(&"B-NO-INPUTS"), "{ids:?}");
    assert!(!ids.contains(&"B-REPLAY") && !ids.contains(&"B-SELECT"), "{ids:?}");
    assert!(kernel("elementwise").1.contains(&"B-REPLAY"));
}

#[test]
fn strides_are_no_first_sentence_and_none_without_a_package() {
    for name in ["custom::rms_norm", "mylib::layer_norm_custom", "mylib::my_softmax"] {
        for others in [0, 40] {
            let mut scene = Scene::new();
            let mut call = Call::new(name, "[[32, 256, 128]]", BF16, &[("some_kernel", 400.0)]);
            call.strides = Some("[[32768, 1, 256]]");
            scene.calls(10, &call).add(others, 128, 4.0);
            let (outcomes, _) = analyzed(&scene.prepared());
            let bottlenecks = outcomes.iter().filter_map(CategoryOutcome::metrics).flat_map(|m| &m.bottlenecks);
            let of_name: Vec<_> = bottlenecks.filter(|b| *b.operation == *name).collect();
            let [b] = of_name[..] else { panic!("{name}: {of_name:?}") };
            let ids: Vec<&str> = b.kernel.iter().map(|s| s.id).collect();
            assert!(!ids.is_empty() && ids[0] != "B-STRIDE", "{name}: {ids:?}");
            assert_eq!(ids.contains(&"B-STRIDE"), b.replay.recommended, "{name}: {ids:?}");
        }
    }
}

#[test]
fn matrix_work_without_a_peak_rate_is_not_judged() {
    let fp32 = r#"["float", "float"]"#;
    let of = |platform: &str| {
        let mut scene = Scene::new();
        scene.calls(10, &Call::new("aten::mm", "[[4096, 4096], [4096, 4096]]", fp32, &[("sgemm", 9000.0)]));
        let p = scene.prepared_on(platform);
        let (outcomes, findings) = analyzed(&p);
        let m = metrics(&outcomes, "gemm");
        assert_eq!(m.category_specific.get("missing_perf_model_count").unwrap().value().unwrap(), 0);
        let told = p.warnings.iter().find(|w| w.contains("peak rate")).cloned();
        (findings.len(), m.bottlenecks.len(), m.average_efficiency_percent.is_some(), told)
    };
    assert_eq!(of("H200"), (1, 1, true, None));
    let told = "`MI400` has no peak rate for matrix_fp32: how close 90.00 ms of matrix work come to the hardware is not \
                known. `--arch FILE` can give the rate.";
    assert_eq!(of("MI400"), (0, 0, false, Some(told.to_owned())));
}

#[test]
fn words_for_efficiencies_follow_the_limits() {
    let word = |good: f64| {
        let mut scene = Scene::new();
        one_tensor(&mut scene, "aten::_softmax", "softmax_kernel", at(128.0, 65.0));
        let mut p = scene.prepared();
        p.thresholds.set(Threshold::EffGood, good);
        metrics(&analyzed(&p).0, "reduce").operations[0].assessment
    };
    assert_eq!((word(60.0), word(70.0)), (Some("Good"), Some("Acceptable")));
}

#[test]
fn the_reduced_dimension_stands_where_the_operation_has_it() {
    let of = |name: &str, concrete: &'static str| {
        let mut scene = Scene::new();
        let mut call = Call::new(name, "[[64, 512, 32], [], [], [], []]", BF16, &[("reduce_kernel", 50.0)]);
        call.concrete = Some(concrete);
        scene.calls(10, &call);
        let p = scene.prepared();
        let class = serde_json::json!(metrics(&analyzed(&p).0, "reduce").operations[0].classification);
        ["reduced_dim", "outer", "inner"].map(|key| class[key].as_i64())
    };
    let middle = [Some(1), Some(64), Some(16384)];
    assert_eq!(of("aten::sum", r#"["", "[1]", "False", "", ""]"#), middle);
    assert_eq!(of("aten::linalg_vector_norm", r#"["", "2", "[-2]", "False", ""]"#), middle, "the order comes first");
    assert_eq!(of("aten::sum", r#"["", "[0, 1]", "False", "", ""]"#), [None; 3]);
}

#[test]
fn fills_beside_kernels_do_not_make_them_short() {
    let of = |kernels: &[(&str, f64)]| {
        let mut scene = Scene::new();
        // What takes 1.4 us has next to nothing to do.
        scene.calls(200, &Call::new("aten::relu", "[[16]]", r#"["float"]"#, &[("relu_kernel", 1.4)]));
        let mut call = Call::new("aten::sum", "[[256, 1024], [], [], []]", r#"["float", "", "", ""]"#, kernels);
        call.concrete = Some(r#"["", "[1]", "False", ""]"#);
        scene.calls(200, &call);
        let p = scene.prepared();
        let (outcomes, _) = analyzed(&p);
        let m = metrics(&outcomes, "reduce");
        let note = m.notes.iter().find(|n| n.contains("next to nothing to do")).cloned();
        (m.bottlenecks.len(), note.unwrap_or_default())
    };
    assert_eq!(of(&[("Memset (Device)", 0.7), ("reduce_kernel", 4.8)]), (1, String::new()));
    let (slow, note) = of(&[("Memset (Device)", 0.7), ("reduce_kernel", 2.0)]);
    assert!(slow == 0 && note.contains("0.40 ms in kernels of 2.0 us; "), "{note}");
}

#[test]
fn what_need_not_be_done_is_told_so() {
    let of = |call: &Call<'_>| {
        let mut scene = Scene::new();
        scene.add(4, 512, 4.3).calls(10, call);
        let (outcomes, findings) = analyzed(&scene.prepared());
        let all = outcomes.iter().filter_map(CategoryOutcome::metrics).flat_map(|m| &m.bottlenecks);
        let advice = all.flat_map(|b| &b.algorithmic).map(|s| s.id).collect::<Vec<_>>();
        (advice, findings)
    };
    let mut repeat = Call::new(
        "aten::repeat",
        "[[64, 1, 4096], []]",
        r#"["float", "ScalarList"]"#,
        &[("void at::native::elementwise_kernel<128, 2>", 640.0)],
    );
    repeat.concrete = Some(r#"["", "[1, 1024, 1]"]"#);
    let (advice, findings) = of(&repeat);
    assert_eq!(advice, ["A-BROADCAST"]);
    let f = findings.iter().find(|f| f.pattern == PatternId::LOW_BANDWIDTH_ELEMENTWISE).unwrap();
    // All of it goes at best.
    assert!((f.impact.saved_ms.high - 6.4).abs() < 1e-6 && f.impact.saved_ms.low < 6.4, "{:?}", f.impact);
    assert!(f.impact.basis.contains("would take 0.000 ms where it is not needed"), "{}", f.impact.basis);
    let sort =
        Call::new("aten::sort", "[[64, 128000], [], []]", r#"["float", "Scalar", "Scalar"]"#, &[("radix_sort", 600.0)]);
    assert_eq!(of(&sort).0, ["A-SORT"]);
    let gradient = |rows: &str| {
        let concrete = format!(r#"["", "", "{rows}", "-1", "False"]"#);
        let types = r#"["float", "long int", "Scalar", "Scalar", "Scalar"]"#;
        let dims = "[[4096, 26, 64], [4096, 26], [], [], []]";
        let mut call = Call::new("aten::embedding_dense_backward", dims, types, &[("fill_and_add", 1000.0)]);
        call.concrete = Some(&concrete);
        of(&call).0
    };
    assert_eq!(gradient("2000000"), ["A-SPARSE-TABLE"]);
    assert!(!gradient("200000").contains(&"A-SPARSE-TABLE"));
    let unfold = Call::new(
        "aten::im2col",
        "[[32, 128, 56, 56], [], [], [], []]",
        r#"["float", "ScalarList", "ScalarList", "ScalarList", "ScalarList"]"#,
        &[("im2col_kernel", 400.0)],
    );
    assert_eq!(of(&unfold).0, ["A-UNFOLD"]);
}
