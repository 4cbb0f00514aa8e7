//! Comparison of traces: made-up pairs, and what holds for every pair.

use jarvis_analyze::compare::tree::tables::{self, RowTexts};
use jarvis_analyze::compare::tree::{
    DiffRows, LcaRow, LcaStatus, MergedTree, Presence, Totals, Which, lca_cells, lca_columns, lca_summary, merge,
};
use jarvis_perf::tables::{ReportOptions, build_report};
use jarvis_trace::{Fidelity, ReadOptions, Trace, TraceBuilder, Tree, TreeOptions};
use proptest::prelude::*;

use crate::support::trace;

/// A call: its name, shapes, and what it does.
#[derive(Debug, Clone)]
struct Call {
    name: String,
    dims: String,
    work: Work,
}

#[derive(Debug, Clone)]
enum Work {
    Kernels(Vec<(String, u32)>),
    Calls(Vec<Call>),
}

fn op(name: &str, dims: &str, kernels: &[(&str, u32)]) -> Call {
    let kernels = kernels.iter().map(|(k, us)| ((*k).to_owned(), *us)).collect();
    Call { name: name.to_owned(), dims: dims.to_owned(), work: Work::Kernels(kernels) }
}

fn wrap(name: &str, calls: Vec<Call>) -> Call {
    Call { name: name.to_owned(), dims: "[]".to_owned(), work: Work::Calls(calls) }
}

/// Writes calls one after the other, with the launch calls of a vendor.
struct Recorder {
    builder: TraceBuilder,
    launch: &'static str,
    now: f64,
    gpu: f64,
    correlation: i64,
}

impl Recorder {
    fn record(calls: &[Call], launch: &'static str) -> Trace {
        let mut recorder = Self { builder: TraceBuilder::new(), launch, now: 0.0, gpu: 1e6, correlation: 0 };
        for call in calls {
            recorder.call(call);
        }
        recorder.builder.build()
    }

    fn steps(call: &Call) -> f64 {
        match &call.work {
            Work::Kernels(kernels) => 2.0 + kernels.len() as f64,
            Work::Calls(calls) => 2.0 + calls.iter().map(Self::steps).sum::<f64>(),
        }
    }

    fn call(&mut self, call: &Call) {
        let length = Self::steps(call);
        self.builder.cpu_op(&call.name, self.now, length - 0.5).arg("Input Dims", call.dims.as_str());
        let end = self.now + length;
        self.now += 1.0;
        match &call.work {
            Work::Kernels(kernels) => {
                for (name, us) in kernels {
                    self.correlation += 1;
                    self.builder.launch(self.launch, self.now, 0.5, self.correlation);
                    self.builder.kernel(name, self.gpu, f64::from(*us), self.correlation);
                    self.now += 1.0;
                    self.gpu += f64::from(*us);
                }
            }
            Work::Calls(calls) => calls.iter().for_each(|c| self.call(c)),
        }
        self.now = end;
    }
}

/// A comparison with everything it was made of.
struct Compared {
    merged: MergedTree,
    rows: DiffRows,
    texts: Vec<RowTexts>,
    summary: Vec<LcaRow>,
    totals: Totals,
    same: bool,
}

fn compared(one: &Trace, two: &Trace, fidelity: Fidelity) -> Compared {
    let options = TreeOptions { fidelity, ..TreeOptions::default() };
    let trees = [Tree::build(one, options), Tree::build(two, options)];
    let (one, two) = (trees[0].view(one), trees[1].view(two));
    let merged = merge(one, two, fidelity);
    let rows = DiffRows::of(one, two, &merged, fidelity);
    let texts = tables::row_texts(one, two, &merged, &rows);
    let (summary, totals) = lca_summary(&texts, rows.identical);
    let same = rows.identical && merged.is_same(one, two);
    Compared { merged, rows, texts, summary, totals, same }
}

fn diff(one: &[Call], two: &[Call]) -> Compared {
    compared(&Recorder::record(one, "cudaLaunchKernel"), &Recorder::record(two, "cudaLaunchKernel"), Fidelity::Correct)
}

/// Calls of each trace that the other lacks, without launches and kernels.
fn alone(compared: &Compared) -> [usize; 2] {
    [Presence::One, Presence::Two].map(|p| {
        compared
            .summary
            .iter()
            .filter(|r| r.status.as_str().ends_with(if p == Presence::One { "1" } else { "2" }))
            .count()
    })
}

#[test]
fn an_extra_root_does_not_shift_the_others() {
    let calls = |n: usize| -> Vec<Call> { (0..n).map(|i| op(&format!("op{i}"), "[[8]]", &[("k", 5)])).collect() };
    let mut more = calls(6);
    more.insert(0, op("extra", "[[9]]", &[("k", 7)]));
    let result = diff(&calls(6), &more);
    assert_eq!(alone(&result), [0, 1]);
    let extra = result.summary.iter().find(|r| r.status == LcaStatus::OnlyTwo).unwrap();
    assert_eq!((&*extra.name, extra.us), ("extra", [0.0, 7.0]));
}

#[test]
fn shapes_tell_repeated_names_apart() {
    let mm = |dims: &str, us: u32| op("aten::mm", dims, &[("gemm", us)]);
    let result = diff(&[mm("[[1]]", 1), mm("[[2]]", 2), mm("[[3]]", 3)], &[mm("[[2]]", 20), mm("[[3]]", 30)]);
    let times: Vec<[f64; 2]> = result.summary.iter().map(|r| r.us).collect();
    assert_eq!(times, [[3.0, 30.0], [2.0, 20.0], [1.0, 0.0]]);
}

#[test]
fn calls_that_changed_places_are_the_same_calls() {
    let list = |names: [&str; 3]| vec![wrap("top", names.iter().map(|n| op(n, "[[4]]", &[("k", 3)])).collect())];
    let result = diff(&list(["a", "b", "c"]), &list(["c", "a", "b"]));
    assert_eq!(alone(&result), [0, 0]);
    assert!(result.summary.iter().all(|r| r.status == LcaStatus::SameKernels));
}

#[test]
fn vendors_differ_in_kernels_not_in_calls() {
    let calls =
        |conv: &str, kernel: &str| vec![wrap("aten::conv2d", vec![op(conv, "[[1, 3]]", &[(kernel, 4), ("same", 1)])])];
    let one = Recorder::record(&calls("aten::cudnn_convolution", "sm90_conv"), "cudaLaunchKernel");
    let two = Recorder::record(&calls("aten::miopen_convolution", "igemm"), "hipExtModuleLaunchKernel");
    let result = compared(&one, &two, Fidelity::Correct);
    assert!(result.merged.nodes().iter().all(|n| n.presence() == Presence::Combined));
    let [row] = &result.summary[..] else { panic!("{:?}", result.summary) };
    assert_eq!(row.status, LcaStatus::OtherKernels);
    assert_eq!(&*row.lca_name, "aten::cudnn_convolution | aten::miopen_convolution");
    // The reference sees different launches.
    let reference = compared(&one, &two, Fidelity::Reference);
    assert!(reference.merged.nodes().iter().any(|n| n.presence() != Presence::Combined));
}

#[test]
fn wrappers_that_one_side_has_stay_in_the_tree() {
    let inner = || vec![op("a", "[[1]]", &[("k", 1)]), op("b", "[[2]]", &[("l", 2)])];
    let one = vec![wrap("top", vec![wrap("outer", vec![wrap("inner", inner())]), op("c", "[[3]]", &[("m", 3)])])];
    let mut flat = inner();
    flat.push(op("c", "[[3]]", &[("m", 3)]));
    let result = diff(&one, &[wrap("top", flat)]);
    assert!(result.summary.iter().all(|r| r.status == LcaStatus::SameKernels), "{:?}", result.summary);
    let alone: Vec<u32> =
        (0..).zip(result.merged.nodes()).filter(|(_, n)| n.presence() == Presence::One).map(|n| n.0).collect();
    assert_eq!(alone.len(), 2, "both wrappers");
    assert!(result.merged.node(alone[0]).children.contains(&alone[1]));
}

#[test]
fn different_operations_at_one_place_are_not_taken_for_each_other() {
    let list = |middle: Call| vec![op("a", "[[1]]", &[("k", 1)]), middle, op("b", "[[1]]", &[("k", 1)])];
    let other =
        diff(&list(op("aten::item", "[[]]", &[("copy", 2)])), &list(op("aten::add", "[[], []]", &[("add", 2)])));
    assert_eq!(alone(&other), [1, 1]);
    // With the same shapes it is another way to do the same.
    let renamed = diff(&list(op("flash", "[[4, 4]]", &[("f", 2)])), &list(op("efficient", "[[4, 4]]", &[("e", 2)])));
    assert_eq!(alone(&renamed), [0, 0]);
}

#[test]
fn one_root_on_one_side_and_none_on_the_other_is_no_fault() {
    let result = diff(&[op("a", "[[1]]", &[("k", 1)])], &[]);
    assert_eq!(alone(&result), [1, 0]);
    let empty = diff(&[], &[]);
    assert!(empty.same && empty.summary.is_empty());
}

#[test]
fn fixtures_compare_with_themselves_and_each_other() {
    let names = ["attn_unfused", "attn_fused", "decode_graphed", "tiny_bmm_window"];
    let traces: Vec<Trace> =
        names.iter().filter_map(|n| Some(Trace::open(&trace("h200", n)?, &ReadOptions::default()).unwrap())).collect();
    for (i, one) in traces.iter().enumerate() {
        for fidelity in [Fidelity::Correct, Fidelity::Reference] {
            assert!(compared(one, one, fidelity).same, "{} {fidelity:?}", names[i]);
        }
        for two in &traces[..i] {
            check_totals(one, two);
            check_mirror(one, two);
        }
    }
}

/// Every linked GPU event of both traces is in exactly one row.
fn check_totals(one: &Trace, two: &Trace) {
    let result = compared(one, two, Fidelity::Correct);
    for (which, trace) in [(Which::One, one), (Which::Two, two)] {
        let tree = Tree::build(trace, TreeOptions::default());
        let mut kernels: Vec<_> = if result.rows.identical {
            result.rows.rows.iter().map(|r| r.kernel).collect()
        } else {
            result.rows.rows.iter().filter(|r| r.which == which).map(|r| r.kernel).collect()
        };
        kernels.sort_unstable();
        let linked: Vec<_> = tree.linked_gpu_events().collect();
        assert_eq!(kernels, linked, "{which:?}");
        assert_eq!(result.totals.kernels[which as usize], linked.len());
    }
}

/// The other way round everything is the same with the sides exchanged.
fn check_mirror(one: &Trace, two: &Trace) {
    let facts = |c: &Compared, flip: bool| {
        let side = usize::from(flip);
        let mut rows: Vec<_> = c
            .summary
            .iter()
            .map(|r| {
                (
                    r.lca,
                    r.us[side].to_bits(),
                    r.us[1 - side].to_bits(),
                    r.kernels[side].clone(),
                    r.kernels[1 - side].clone(),
                )
            })
            .collect();
        rows.sort_unstable();
        rows
    };
    let (there, back) = (compared(one, two, Fidelity::Correct), compared(two, one, Fidelity::Correct));
    assert_eq!(facts(&there, false), facts(&back, true));
    assert_eq!(there.merged.nodes().len(), back.merged.nodes().len());
    assert_eq!(there.same, back.same);
}

fn any_call() -> impl Strategy<Value = Call> {
    let names =
        prop::sample::select(vec!["aten::mm", "aten::add", "aten::cudnn_convolution", "aten::miopen_convolution"]);
    let kernel = (prop::sample::select(vec!["gemm", "add", "copy"]), 1u32..4);
    let leaf = (names.clone(), 0usize..3, prop::collection::vec(kernel, 0..3)).prop_map(|(name, dims, kernels)| {
        op(name, &format!("[[{dims}]]"), &kernels.iter().map(|(k, us)| (*k, *us)).collect::<Vec<_>>())
    });
    leaf.prop_recursive(3, 12, 4, move |inner| {
        (names.clone(), prop::collection::vec(inner, 1..4)).prop_map(|(name, calls)| wrap(name, calls))
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn any_pair_keeps_every_kernel_and_mirrors(
        one in prop::collection::vec(any_call(), 0..6),
        two in prop::collection::vec(any_call(), 0..6),
    ) {
        let (a, b) = (Recorder::record(&one, "cudaLaunchKernel"), Recorder::record(&two, "hipLaunchKernel"));
        check_totals(&a, &b);
        check_mirror(&a, &b);
        // The reference's way has no rule for such trees but not to fail.
        compared(&a, &b, Fidelity::Reference);
    }

    #[test]
    fn any_trace_is_the_same_as_itself(calls in prop::collection::vec(any_call(), 0..6)) {
        let (a, b) = (Recorder::record(&calls, "cudaLaunchKernel"), Recorder::record(&calls, "cudaLaunchKernel"));
        prop_assert!(compared(&a, &b, Fidelity::Correct).same);
        prop_assert!(compared(&a, &b, Fidelity::Reference).same);
    }
}

/// The numbers that the reference gives for the first row of this pair.
#[test]
fn the_columns_of_the_unified_sheet() {
    let name = "facebook_timesformer-base-finetuned-k400__1016002";
    let (Some(one), Some(two)) = (trace("mi300", name), trace("h100", name)) else { return };
    let (one, two) = (one, two);
    let open = |path: &std::path::Path| Trace::open(path, &ReadOptions::default()).unwrap();
    let (one, two) = (open(&one), open(&two));
    let report = build_report(&one, &ReportOptions::parity()).unwrap();
    let result = compared(&one, &two, Fidelity::Reference);
    let cells = lca_cells(&report.rows.unified, &result.rows, &result.summary);
    assert_eq!(cells.len(), 42);
    let first = cells[0].as_ref().unwrap();
    assert_eq!(
        (&*report.rows.unified.rows[0].identity.name, first.lcas.len(), first.with_second),
        ("aten::_softmax", 12, 12)
    );
    assert_eq!(first.lcas[..3].iter().map(|l| l.0).collect::<Vec<_>>(), [268, 544, 820]);
    let near = |x: f64, y: f64| assert!((x - y).abs() < 1e-6 * y.abs(), "{x} {y}");
    near(first.ratio().unwrap(), 1.646_313_945_771_025);
    near(first.delta_us, 26_965.948_242_187_5);
    near(first.us[0], 41_722.677);
    near(first.us[1], 68_688.625);
    let columns = lca_columns(&cells);
    assert_eq!(columns[3].header, "lca_id");
    assert!(columns[3].texts()[0].starts_with("268; 544; 820; "));
    // The summary holds every row of the texts that has a common call.
    let with_lca = result.texts.iter().filter(|t| t.lca.is_some()).count();
    assert_eq!(result.totals.kernels.iter().sum::<usize>(), with_lca);
}
