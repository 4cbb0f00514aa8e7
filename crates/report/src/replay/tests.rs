//! From made-up traces to what is packaged and what is refused.

use jarvis_perf::tables::{ReportOptions, build_report};
use jarvis_trace::TraceBuilder;

use super::{Candidate, Row, Selection, Skipped, Tier, candidates, entry, of_report, packages};

/// Draws operations one after the other, each with one kernel.
struct Sketch {
    trace: TraceBuilder,
    at: f64,
    correlation: i64,
}

/// Arguments of a call: dims, types, concrete inputs; strides are contiguous.
type Args = (&'static str, &'static str, &'static str);

const NCCL: &str = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)";

const MATRICES: Args = ("[[8, 4], [4, 2]]", r#"["float", "float"]"#, r#"["", ""]"#);

impl Sketch {
    fn new() -> Self {
        Self { trace: TraceBuilder::new(), at: 0.0, correlation: 0 }
    }

    fn call(&mut self, name: &str, args: Option<Args>, ts: f64, dur: f64) {
        let event = self.trace.cpu_op(name, ts, dur);
        if let Some((dims, types, concrete)) = args {
            event.arg("Input Dims", dims).arg("Input type", types).arg("Concrete Inputs", concrete);
            event.arg("Input Strides", strides(dims).as_str());
        }
    }

    fn kernel(&mut self, name: &str, ts: f64) {
        self.correlation += 1;
        self.trace.launch("cudaLaunchKernel", ts, 1.0, self.correlation);
        self.trace.kernel(name, 10_000.0 + ts, 5.0, self.correlation);
    }

    /// An operation with a kernel of its own.
    fn op(&mut self, name: &str, args: Args, kernel: &str) -> &mut Self {
        self.call(name, Some(args), self.at, 50.0);
        self.kernel(kernel, self.at + 10.0);
        self.at += 100.0;
        self
    }

    fn rows(&self) -> Vec<Row> {
        let trace = self.trace.build();
        let report = build_report(&trace, &ReportOptions::default()).unwrap();
        of_report(&trace, &report)
    }
}

/// Contiguous strides of every shape of a list.
fn strides(dims: &str) -> String {
    let shapes: Vec<serde_json::Value> = serde_json::from_str(dims).unwrap();
    let of = |shape: &serde_json::Value| {
        let mut step = 1;
        let mut out: Vec<i64> = Vec::new();
        for size in shape.as_array().unwrap().iter().rev() {
            out.push(step);
            step *= size.as_i64().unwrap_or(1).max(1);
        }
        out.reverse();
        out
    };
    serde_json::to_string(&shapes.iter().map(of).collect::<Vec<_>>()).unwrap()
}

/// Why the only row of a trace is refused.
fn refusal(name: &str, args: Args, kernel: &str) -> Option<String> {
    let rows = Sketch::new().op(name, args, kernel).rows();
    assert_eq!(rows.len(), 1, "{name}");
    entry(&rows[0]).err()
}

#[test]
fn what_cannot_be_replayed_says_why() {
    let one: Args = ("[[8, 4]]", r#"["float"]"#, r#"[""]"#);
    let index: Args = ("[[8, 4], []]", r#"["float", ""]"#, r#"["", ""]"#);
    let list: Args = ("[[], []]", r#"["TensorList", "Scalar"]"#, r#"["", "0.5"]"#);
    let copy: Args = ("[[8, 4], [8, 4], []]", r#"["float", "float", "Scalar"]"#, r#"["", "", "False"]"#);
    let sparse: Args = ("[[4], [], [], [], []]", r#"["float", "", "Scalar", "", ""]"#, r#"["", "", "1", "", ""]"#);
    let ids: Args = ("[[8, 4], [4]]", r#"["float", "long int"]"#, r#"["", ""]"#);
    let empty: Args = ("[[0, 4], [4, 0]]", r#"["float", "float"]"#, r#"["", ""]"#);
    let odd: Args = ("[[8, 4]]", r#"["c10::qint8"]"#, r#"[""]"#);
    for (name, args, kernel, reason) in [
        ("c10d::mine_", one, "k", "Collective communication needs several ranks; not packaged."),
        ("c10d::allreduce_", one, NCCL, "Collective communication needs several ranks; not packaged."),
        ("mine::exchange", one, NCCL, "Collective communication needs several ranks; not packaged."),
        ("triton_poi_fused_0", one, "triton_poi_fused_0", "Generated kernel; keep the compile cache."),
        ("MyFunction", one, "k", "Not a dispatcher operation, and no single operation below it has the same kernels."),
        ("aten::index", index, "k", "Index tensors are not recorded."),
        ("aten::_foreach_mul_", list, "k", "Tensor list without recorded shapes."),
        ("aten::copy_", copy, "Memcpy HtoD (Pageable -> Device)", "Host transfer, not a GPU kernel."),
        ("aten::empty_like", sparse, "k", "Tensor layout not recorded."),
        ("aten::bincount", ids, "k", ""),
        ("aten::_embedding_bag", ids, "k", "The recorded inputs fit no overload of aten::_embedding_bag."),
        ("aten::mm", empty, "k", "nothing to compute"),
        ("aten::neg", odd, "k", "unknown element type c10::qint8"),
        ("aten::mm", MATRICES, "k", ""),
    ] {
        assert_eq!(refusal(name, args, kernel).unwrap_or_default(), reason, "{name}");
    }
}

#[test]
fn a_list_has_the_type_that_its_kernel_names() {
    let list: Args = ("[[[8, 4], [8, 4]], []]", r#"["TensorList", "Scalar"]"#, r#"["", "0"]"#);
    for (kernel, kind) in [
        ("CatArrayBatchedCopy<c10::BFloat16, unsigned int, 2, 64, 64>(x)", "c10::BFloat16"),
        ("CatArrayBatchedCopy_contig<c10::Half, unsigned int, 2, 128, 1>(x)", "c10::Half"),
        ("CatArrayBatchedCopy<double, unsigned int, 2, 64, 64>(x)", "double"),
        ("CatArrayBatchedCopy<long, unsigned int, 2, 64, 64>(x)", "long"),
    ] {
        let mut sketch = Sketch::new();
        sketch
            .trace
            .cpu_op("aten::cat", 0.0, 50.0)
            .arg("Input Dims", list.0)
            .arg("Input type", list.1)
            .arg("Input Strides", "[[[4, 1], [4, 1]], []]")
            .arg("Concrete Inputs", list.2);
        sketch.kernel(kernel, 10.0);
        let rows = sketch.rows();
        let told = &entry(&rows[0]).unwrap().rebuilt.assumptions;
        assert_eq!(*told, [format!("element type of the tensors in tensors is not recorded: {kind}")]);
    }
}

/// The only argument of a kind that a call of the trace gets: its name, value and whether it is a guess; and the notes.
fn made(name: &str, args: Args, kernel: &str, argument: &str) -> (serde_json::Value, Vec<String>) {
    let rows = Sketch::new().op(name, args, kernel).rows();
    let rebuilt = entry(&rows[0]).unwrap().rebuilt;
    let call = serde_json::to_value(rebuilt.call.unwrap()).unwrap();
    let lists = ["list_pos_args", "list_kwargs"].map(|list| call[list].as_array().unwrap().clone());
    let part = lists.concat().into_iter().find(|part| part["arg_name"] == argument).unwrap();
    (serde_json::json!([part["kind"], part["value"], part["assumed"]]), rebuilt.assumptions)
}

#[test]
fn a_text_is_never_taken_without_a_word() {
    let divide: Args = ("[[8], [8], []]", r#"["float", "float", ""]"#, r#"["", "", ""]"#);
    let whole: Args = ("[[8], [8], []]", r#"["long int", "long int", ""]"#, r#"["", "", ""]"#);
    let floor = "void at::native::vectorized_elementwise_kernel<2, at::native::binary_internal::div_floor_kernel_cuda(";
    let trunc = "void at::native::vectorized_elementwise_kernel<2, at::native::binary_internal::div_trunc_kernel_cuda(";
    let plain = "void at::native::vectorized_elementwise_kernel<4, at::native::binary_internal::DivFunctor<float>";
    for (name, args, kernel, value, told) in [
        ("aten::div", divide, floor, Some("floor"), "floor used: the kernel is named so"),
        ("aten::div", divide, trunc, Some("trunc"), "trunc used: the kernel is named so"),
        ("aten::div", divide, plain, None, "none used"),
        ("aten::div_", whole, trunc, Some("trunc"), "trunc used: the kernel is named so"),
        ("aten::div_", whole, "k", Some("floor"), "floor used: the result is whole numbers"),
    ] {
        let (part, notes) = made(name, args, kernel, "rounding_mode");
        assert_eq!(part, serde_json::json!([if value.is_some() { "str" } else { "none" }, value, true]), "{name}");
        assert!(notes.contains(&format!("string argument rounding_mode is not recorded; {told}")), "{notes:?}");
    }
    let gelu: Args = ("[[8, 4], []]", r#"["float", ""]"#, r#"["", ""]"#);
    let (part, notes) = made("aten::gelu", gelu, "k", "approximate");
    assert_eq!(part, serde_json::json!(["str", "none", true]));
    assert_eq!(notes, ["string argument approximate is not recorded; default none used"]);
}

#[test]
fn a_range_is_made_though_its_result_is_empty_before() {
    let range: Args =
        ("[[], [], [], [0]]", r#"["Scalar", "Scalar", "Scalar", "long int"]"#, r#"["0", "4096", "1", ""]"#);
    let (part, _) = made("aten::arange", range, "elementwise_kernel_with_index", "out");
    assert_eq!((&part[0], &part[1]["init"], &part[1]["shape"]), (&"tensor".into(), &"empty".into(), &[0].into()));
}

#[test]
fn an_anonymous_package_does_not_tell_the_gpu() {
    use std::io::Read as _;

    let rows = Sketch::new().op("aten::mm", MATRICES, "k").rows();
    let platform = jarvis_perf::platform::Platform::find("H200").unwrap();
    let origin = super::Origin { platform: Some(platform), device_name: Some("NVIDIA H200") };
    let told = |anonymous: bool| {
        let selection = Selection { anonymous, ..Selection::of(["aten::mm"], Tier::Requested) };
        let made = packages(&rows, &selection, origin, &super::Replayer::new().unwrap()).unwrap();
        let mut zip = zip::ZipArchive::new(std::io::Cursor::new(&made.files[0].bytes)).unwrap();
        ["replay_ir.json", "README.md"].map(|name| {
            let mut text = String::new();
            zip.by_name(name).unwrap().read_to_string(&mut text).unwrap();
            text
        })
    };
    assert!(told(false).iter().all(|text| text.contains("H200") && text.contains("4.8")));
    assert!(told(true).iter().all(|text| !text.contains("H200") && !text.contains("4.8")), "{:?}", told(true));
}

#[test]
fn a_collective_is_found_by_its_name() {
    let one: Args = ("[[8, 4]]", r#"["float"]"#, r#"[""]"#);
    let mut sketch = Sketch::new();
    // What records the arguments stands inside.
    sketch.call("c10d::allreduce_", Some(one), 0.0, 50.0);
    sketch.call("record_param_comms", None, 5.0, 40.0);
    sketch.kernel(NCCL, 10.0);
    sketch.at = 100.0;
    let rows = sketch.op("aten::mm", MATRICES, "k").rows();
    let made = packages(
        &rows,
        &Selection::of(["c10d::allreduce_"], Tier::Requested),
        super::Origin::default(),
        &super::Replayer::new().unwrap(),
    )
    .unwrap();
    assert!(made.missed.is_empty() && made.packages.is_empty());
    let [skipped] = &*made.skipped else { panic!("{:?}", made.skipped) };
    assert_eq!(skipped.reason, "Collective communication needs several ranks; not packaged.");
    let all = candidates(&rows, &Selection::of(["*"], Tier::Requested));
    let refused: Vec<&str> = all.iter().filter(|c| c.refusal.is_some()).map(|c| &*c.row.op).collect();
    assert_eq!((all.len(), refused), (2, vec!["c10d::allreduce_"]));
}

#[test]
fn of_a_generated_kernel_the_source_is_told() {
    let mut sketch = Sketch::new();
    sketch
        .trace
        .cpu_op("triton_poi_fused_0", 0.0, 50.0)
        .arg("Input Dims", "[[8, 4]]")
        .arg("Input type", r#"["float"]"#)
        .arg("kernel_file", "/tmp/me/c1.py")
        .arg("kernel_hash", "c1x");
    sketch.kernel("triton_poi_fused_0", 10.0);
    let rows = sketch.rows();
    let mut selection = Selection::of(["*"], Tier::Requested);
    let reason = |selection: &Selection| candidates(&rows, selection)[0].refusal.clone().unwrap();
    assert_eq!(
        reason(&selection),
        "Generated kernel; keep the compile cache. Source `/tmp/me/c1.py`, hash `c1x` are recorded in the trace."
    );
    selection.anonymous = true;
    assert_eq!(reason(&selection), "Generated kernel; keep the compile cache.");
}

#[test]
fn written_arguments_that_overlap_are_refused() {
    let mut sketch = Sketch::new();
    sketch
        .trace
        .cpu_op("aten::add_", 0.0, 50.0)
        .arg("Input Dims", "[[8, 4], [8, 4], []]")
        .arg("Input type", r#"["float", "float", "Scalar"]"#)
        .arg("Input Strides", "[[0, 1], [4, 1], []]")
        .arg("Concrete Inputs", r#"["", "", "1"]"#);
    sketch.kernel("k", 10.0);
    let rows = sketch.rows();
    assert_eq!(entry(&rows[0]).err().as_deref(), Some("Argument self is written to and its elements overlap."));
}

#[test]
fn a_trace_without_shapes_says_so() {
    let mut sketch = Sketch::new();
    sketch.call("aten::mm", None, 0.0, 50.0);
    sketch.kernel("k", 10.0);
    let rows = sketch.rows();
    let reason = entry(&rows[0]).err().unwrap();
    assert_eq!(reason, "Trace was recorded without shapes; re-profile with record_shapes.");
}

#[test]
fn a_kernel_on_its_own_is_replaced_by_its_operation() {
    //  aten::_mine
    //  ├─ aten::copy_ ── copy kernel   (a row of its own)
    //  └─ sort kernel                  (a row that names the kernel)
    let sort: Args =
        ("[[8], [], [], []]", r#"["float", "Scalar", "Scalar", "Scalar"]"#, r#"["", "False", "-1", "False"]"#);
    let copy: Args = ("[[8], [8], []]", r#"["float", "float", "Scalar"]"#, r#"["", "", "False"]"#);
    let mut sketch = Sketch::new();
    sketch.call("aten::_mine", Some(sort), 0.0, 90.0);
    sketch.call("aten::copy_", Some(copy), 5.0, 20.0);
    sketch.kernel("copy", 10.0);
    sketch.kernel("sort", 50.0);
    let rows = sketch.rows();
    let found: Vec<(&str, usize, f64)> =
        rows.iter().map(|row| (&*row.op, row.kernels.len(), row.kernel_us.sum)).collect();
    assert_eq!(found, [("aten::_mine", 2, 10.0), ("aten::copy_", 1, 5.0)]);
    assert_eq!(entry(&rows[0]).unwrap().op, "aten::_mine");
}

#[test]
fn a_wrapper_is_replaced_by_the_operation_with_its_kernels() {
    // The forward pass, then: SiluBackward0 ── aten::silu_backward ── kernel
    let backward: Args = ("[[8, 4], [8, 4]]", r#"["float", "float"]"#, r#"["", ""]"#);
    let mut sketch = Sketch::new();
    sketch.call("SiluBackward0", Some(("[[8, 4]]", r#"["float"]"#, r#"[""]"#)), 0.0, 90.0);
    sketch.call("aten::silu_backward", Some(backward), 5.0, 50.0);
    sketch.kernel("k", 10.0);
    let trace = sketch.trace.build();
    let tree = jarvis_trace::Tree::build(&trace, jarvis_trace::TreeOptions::default());
    let wrapper = trace.events().next().unwrap();
    let inside = super::rows::stand_in(&trace, &tree, "SiluBackward0", wrapper).unwrap();
    assert_eq!(trace.name(inside), "aten::silu_backward");
}

#[test]
fn an_operation_around_stands_for_one_that_cannot_be_called() {
    //  aten::linear
    //  └─ mine without shapes ── kernel
    let mut sketch = Sketch::new();
    sketch.call("aten::matmul", Some(MATRICES), 0.0, 90.0);
    sketch.call("aten::_mine", None, 5.0, 50.0);
    sketch.kernel("k", 10.0);
    let rows = sketch.rows();
    assert_eq!(&*rows[0].op, "aten::_mine");
    let entry = entry(&rows[0]).unwrap();
    assert_eq!((entry.op, entry.substituted_for()), ("aten::matmul", Some("aten::_mine")));
}

#[test]
fn casts_inside_a_call_switch_mixed_precision_on() {
    let norm: Args = (
        "[[8, 4], [], [4], [4], [], []]",
        r#"["c10::Half", "ScalarList", "float", "float", "Scalar", "Scalar"]"#,
        r#"["", "[4]", "", "", "1e-05", "True"]"#,
    );
    let mut sketch = Sketch::new();
    sketch.call("aten::layer_norm", Some(norm), 0.0, 90.0);
    sketch.call("aten::to", None, 1.0, 10.0);
    sketch.call("aten::layer_norm", Some(norm), 20.0, 50.0);
    sketch.kernel("k", 30.0);
    let rows = sketch.rows();
    assert!(rows[0].casts);
    assert_eq!(entry(&rows[0]).unwrap().rebuilt.settings.autocast, Some("float16"));
}

#[test]
fn packages_are_capped_and_the_rest_is_named() {
    let mut sketch = Sketch::new();
    let one: Args = ("[[8, 4]]", r#"["float"]"#, r#"[""]"#);
    for name in ["aten::neg", "aten::exp", "aten::sin", "aten::mine_only"] {
        sketch.op(name, one, "k");
    }
    let rows = sketch.rows();
    let mut selection = Selection::of(["aten::*"], Tier::Recommended);
    selection.most_packages = 2;
    let made = packages(&rows, &selection, super::Origin::default(), &super::Replayer::new().unwrap()).unwrap();
    assert_eq!((made.files.len(), made.packages.len(), made.skipped.len()), (2, 2, 2));
    assert!(made.skipped.iter().all(|s| s.reason == "More than 2 packages were selected; name the operation."));
    assert!(!made.skipped.iter().any(Skipped::is_impossible));
    assert!(made.packages.iter().all(|p| p.tier == Tier::Recommended && p.percent_of_compute > 24.0));
    assert_eq!(made.index.path.to_string_lossy(), "replay_packages/index.json");
    let listed: Vec<Candidate<'_>> = candidates(&rows, &selection);
    assert_eq!(listed.len(), 4);
}

#[test]
fn the_index_rounds_like_every_file() {
    let mut sketch = Sketch::new();
    let one: Args = ("[[8, 4]]", r#"["float"]"#, r#"[""]"#);
    for name in ["aten::neg", "aten::exp", "aten::sin"] {
        sketch.call(name, Some(one), sketch.at, 50.0);
        sketch.trace.launch("cudaLaunchKernel", sketch.at + 10.0, 1.0, sketch.correlation);
        sketch.trace.kernel("k", 10_000.0 + sketch.at, 1234.567, sketch.correlation);
        (sketch.at, sketch.correlation) = (sketch.at + 2000.0, sketch.correlation + 1);
    }
    let rows = sketch.rows();
    let mut selection = Selection::of(["aten::*"], Tier::Recommended);
    selection.most_packages = 2;
    let made = packages(&rows, &selection, super::Origin::default(), &super::Replayer::new().unwrap()).unwrap();
    let text = String::from_utf8(made.index.bytes.clone()).unwrap();
    assert_eq!(text.matches("\"time_ms\": 1.235,").count(), 3, "{text}");
    assert_eq!(text.matches("\"percent_of_compute\": 33.33,").count(), 2, "{text}");
    assert!(made.packages.iter().all(|p| p.may_be_of(&rows, false)));
}

#[test]
fn calls_are_counted_and_not_shapes() {
    let mut sketch = Sketch::new();
    for _ in 0..4 {
        sketch.op("aten::mm", MATRICES, "k");
    }
    let selection = Selection::of(["aten::mm"], Tier::Requested);
    let made =
        packages(&sketch.rows(), &selection, super::Origin::default(), &super::Replayer::new().unwrap()).unwrap();
    assert_eq!((made.packages[0].entries, made.packages[0].calls), (1, 4));
}
