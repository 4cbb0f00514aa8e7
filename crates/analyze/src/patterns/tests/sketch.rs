//! Traces drawn with few strokes: one operation after the other, each with one kernel.

use jarvis_perf::platform::Platform;
use jarvis_perf::tables::{ReportOptions, build_report};
use jarvis_trace::{Summary, TraceBuilder, Tree, TreeOptions};

use crate::analysis::{Analysis, AnalysisOptions};
use crate::finding::Finding;
use crate::patterns::{Code, Pattern, Scene, detect, findings};
use crate::prepared::{Baseline, Utilization};
use crate::program::Program;
use crate::system::fixture::system;
use crate::system::host_bound::HostBound;
use crate::thresholds::{Threshold, Thresholds};

/// What an operation works on: shapes, in the order of its arguments. An empty shape is a number.
pub(super) type Dims<'a> = &'a [&'a [i64]];

/// Microseconds between the starts of two operations.
const STEP: f64 = 20.0;

#[derive(Default)]
pub(super) struct Sketch {
    builder: TraceBuilder,
    now: f64,
    gpu: f64,
    calls: i64,
    total_us: f64,
    dtype: Option<&'static str>,
    platform: Option<&'static str>,
    thread: i64,
    sequence: Option<i64>,
    thresholds: Thresholds,
}

impl Sketch {
    pub(super) fn new() -> Self {
        Self { thread: 1, ..Self::default() }
    }

    /// Sets a limit of the analysis.
    pub(super) fn limit(&mut self, threshold: Threshold, value: f64) -> &mut Self {
        self.thresholds.set(threshold, value);
        self
    }

    /// Sets the type of the tensors that follow.
    pub(super) fn dtype(&mut self, name: &'static str) -> &mut Self {
        self.dtype = Some(name);
        self
    }

    /// Sets the platform, which is an H200 else.
    pub(super) fn on(&mut self, platform: &'static str) -> &mut Self {
        self.platform = Some(platform);
        self
    }

    fn platform(&self) -> &'static Platform {
        Platform::find(self.platform.unwrap_or("H200")).unwrap()
    }

    /// An operation with one kernel of so many microseconds.
    pub(super) fn op(&mut self, name: &str, dims: Dims<'_>, us: f64) -> &mut Self {
        let dtype = self.dtype.unwrap_or("c10::BFloat16");
        let types: Vec<&str> = dims.iter().map(|d| if d.is_empty() { "Scalar" } else { dtype }).collect();
        self.typed(name, dims, &types, us)
    }

    /// The same with the types of its arguments.
    pub(super) fn typed(&mut self, name: &str, dims: Dims<'_>, types: &[&str], us: f64) -> &mut Self {
        let strides: Vec<Vec<i64>> = dims.iter().map(|d| contiguous(d)).collect();
        let strides: Vec<&[i64]> = strides.iter().map(Vec::as_slice).collect();
        self.strided(name, dims, types, &strides, us)
    }

    /// A reduction over the last dimension that keeps it.
    pub(super) fn reduce(&mut self, name: &str, dims: &[i64], us: f64) -> &mut Self {
        let dtype = self.dtype.unwrap_or("c10::BFloat16");
        self.typed(name, &[dims, &[], &[]], &[dtype, "ScalarList", "Scalar"], us)
    }

    /// A reduction over these dimensions that keeps them.
    pub(super) fn over(&mut self, name: &str, dims: &[i64], over: &str, us: f64) -> &mut Self {
        let dtype = self.dtype.unwrap_or("c10::BFloat16");
        self.launch(
            name,
            us,
            &[
                ("Input Dims", format!("[{dims:?}, [], []]")),
                ("Input type", format!("[\"{dtype}\", \"ScalarList\", \"Scalar\"]")),
                ("Concrete Inputs", format!("[\"\", \"{over}\", \"True\"]")),
            ],
        )
    }

    /// A reduction of all elements.
    pub(super) fn whole(&mut self, name: &str, dims: &[i64], us: f64) -> &mut Self {
        let dtype = self.dtype.unwrap_or("c10::BFloat16");
        self.launch(
            name,
            us,
            &[
                ("Input Dims", format!("[{dims:?}, [], [], [], []]")),
                ("Input type", format!("[\"{dtype}\", \"Scalar\", \"\", \"Scalar\", \"\"]")),
                ("Concrete Inputs", "[\"\", \"2\", \"\", \"False\", \"\"]".to_owned()),
            ],
        )
    }

    /// Takes a part out of a tensor, which launches nothing.
    pub(super) fn select(&mut self, whole: &[i64]) -> &mut Self {
        self.view("aten::select", whole)
    }

    /// The same with the values of all its arguments.
    pub(super) fn part(&mut self, name: &str, whole: &[i64], values: &str) -> &mut Self {
        let view = self.builder.cpu_op(name, self.now, 1.0).on(1, self.thread);
        view.arg("Input Dims", format!("[{whole:?}, [], [], [], []]")).arg("Concrete Inputs", values);
        self.now += 2.0;
        self
    }

    /// Another operation on a tensor that launches nothing.
    pub(super) fn view(&mut self, name: &str, whole: &[i64]) -> &mut Self {
        let view = self.builder.cpu_op(name, self.now, 1.0).on(1, self.thread);
        view.arg("Input Dims", format!("[{whole:?}, [], []]"));
        self.now += 2.0;
        self
    }

    /// Tensors put together.
    pub(super) fn cat(&mut self, dims: Dims<'_>, us: f64) -> &mut Self {
        self.launch(
            "aten::cat",
            us,
            &[("Input Dims", format!("[{dims:?}, []]")), ("Input type", "[\"TensorList\", \"Scalar\"]".to_owned())],
        )
    }

    /// An operation with strides.
    pub(super) fn strided(
        &mut self,
        name: &str,
        dims: Dims<'_>,
        types: &[&str],
        strides: Dims<'_>,
        us: f64,
    ) -> &mut Self {
        let is_reduction = types.get(1) == Some(&"ScalarList");
        let concrete = if is_reduction { "[\"\", \"[-1]\", \"True\"]" } else { "[]" };
        self.launch(
            name,
            us,
            &[
                ("Input Dims", format!("{dims:?}")),
                ("Input type", format!("{types:?}")),
                ("Input Strides", format!("{strides:?}")),
                ("Concrete Inputs", concrete.to_owned()),
            ],
        )
    }

    /// An operation without recorded shapes.
    pub(super) fn bare(&mut self, name: &str, us: f64) -> &mut Self {
        self.launch(name, us, &[])
    }

    /// Clears memory as a part of the operation that follows.
    pub(super) fn clearing(&mut self) -> &mut Self {
        self.calls += 1;
        let thread = self.thread;
        self.builder.launch("cudaMemsetAsync", self.now + 0.5, 1.0, self.calls).on(1, thread);
        self.gpu = self.gpu.max(self.now + 2.0);
        self.builder.gpu("gpu_memset", "Memset (Device)", self.gpu, 1.0, self.calls, 7);
        self.gpu += 2.0;
        self.total_us += 1.0;
        self
    }

    pub(super) fn launch(&mut self, name: &str, us: f64, args: &[(&str, String)]) -> &mut Self {
        self.calls += 1;
        let thread = self.thread;
        let op = self.builder.cpu_op(name, self.now, STEP * 0.8).on(1, thread);
        for (key, value) in args {
            op.arg(key, value.clone());
        }
        if let Some(number) = self.sequence.take() {
            op.arg("Sequence number", number);
        }
        self.builder.launch("cudaLaunchKernel", self.now + 2.0, 5.0, self.calls).on(1, thread);
        self.gpu = self.gpu.max(self.now + 5.0);
        self.builder.kernel(&format!("void at::native::kernel_of_{name}"), self.gpu, us, self.calls);
        self.gpu += us + 1.0;
        self.total_us += us;
        self.now += STEP;
        self
    }

    /// A module around what the closure draws.
    pub(super) fn module(&mut self, name: &str, draw: impl FnOnce(&mut Self)) -> &mut Self {
        self.around(draw, |b, from, to, thread| {
            b.python(&format!("nn.Module: {name}"), from, to).on(1, thread);
        })
    }

    /// An operation on a tensor around what the closure draws.
    pub(super) fn calling(&mut self, op: &str, dims: &[i64], draw: impl FnOnce(&mut Self)) -> &mut Self {
        self.around(draw, |b, from, to, thread| {
            let call = b.cpu_op(op, from, to).on(1, thread);
            call.arg("Input Dims", format!("[{dims:?}]")).arg("Input type", r#"["c10::BFloat16"]"#);
        })
    }

    /// An operation around what the closure draws.
    pub(super) fn within(&mut self, op: &str, draw: impl FnOnce(&mut Self)) -> &mut Self {
        self.around(draw, |b, from, to, thread| {
            b.cpu_op(op, from, to).on(1, thread);
        })
    }

    /// The backward of the operation with this sequence number, on another thread.
    pub(super) fn backward(&mut self, of: &str, sequence: i64, draw: impl FnOnce(&mut Self)) -> &mut Self {
        let home = std::mem::replace(&mut self.thread, 2);
        let name = format!("autograd::engine::evaluate_function: {of}");
        self.around(draw, move |b, from, to, thread| {
            b.cpu_op(&name, from, to).on(1, thread).arg("Sequence number", sequence);
        });
        self.thread = home;
        self
    }

    /// An operation that remembers its sequence number around one that launches.
    pub(super) fn sequenced(&mut self, name: &str, sequence: i64, draw: impl FnOnce(&mut Self)) -> &mut Self {
        let name = name.to_owned();
        self.around(draw, move |b, from, to, thread| {
            b.cpu_op(&name, from, to).on(1, thread).arg("Sequence number", sequence);
        })
    }

    /// Autograd records the next operation, with this sequence number.
    pub(super) fn recorded(&mut self, sequence: i64) -> &mut Self {
        self.sequence = Some(sequence);
        self
    }

    /// A span that the user marked around what the closure draws.
    pub(super) fn annotated(&mut self, name: &str, draw: impl FnOnce(&mut Self)) -> &mut Self {
        self.around(draw, |b, from, to, thread| {
            b.annotation(name, from, to).on(1, thread);
        })
    }

    fn around(
        &mut self,
        draw: impl FnOnce(&mut Self),
        add: impl FnOnce(&mut TraceBuilder, f64, f64, i64),
    ) -> &mut Self {
        let from = self.now;
        self.now += 1.0;
        draw(self);
        let (to, thread) = (self.now, self.thread);
        add(&mut self.builder, from, to - from, thread);
        self.now += 1.0;
        self
    }

    /// The host pauses, so that what follows belongs to something else.
    pub(super) fn pause(&mut self) -> &mut Self {
        self.now += 5_000.0;
        self
    }

    /// Hands what was found to a test.
    pub(super) fn look<T>(&self, test: impl FnOnce(&Scene<'_>, &[Pattern], &[Finding]) -> T) -> T {
        self.look_beside(None, 1.0, test)
    }

    /// The findings where so many streams do the same side by side.
    pub(super) fn on_streams(&self, streams: f64) -> Vec<Finding> {
        self.look_beside(None, streams, |_, _, findings| findings.to_vec())
    }

    /// The findings where it is known what the host does.
    pub(super) fn with_host(&self) -> Vec<Finding> {
        self.look_beside(Some(&system(&self.builder).host), 1.0, |_, _, findings| findings.to_vec())
    }

    fn look_beside<T>(
        &self,
        host: Option<&HostBound>,
        streams: f64,
        test: impl FnOnce(&Scene<'_>, &[Pattern], &[Finding]) -> T,
    ) -> T {
        let trace = self.builder.build();
        let tree = Tree::build(&trace, TreeOptions::default().with_python());
        let program = Program::of(&trace, &tree, &Summary::of(&trace), &jarvis_perf::tables::ArgLists::default());
        let platform = self.platform();
        let baseline = Baseline {
            bandwidth_tbs: 4.32,
            efficiency_percent: 90.0,
            source: "measured",
            rows: Vec::new(),
            seed_bandwidth_tbs: None,
        };
        let ms = self.total_us / 1e3 / streams;
        let (total_time_ms, computation_time_ms, kernel_time_ms) = (ms, ms, self.total_us / 1e3);
        let utilization = Utilization { total_time_ms, computation_time_ms, kernel_time_ms, ..Utilization::default() };
        let scene = Scene::new(&program, platform, &baseline, &utilization, &self.thresholds);
        let patterns = detect(&scene);
        let findings = findings(&scene, &patterns, &[], host);
        test(&scene, &patterns, &findings)
    }

    /// The whole analysis.
    pub(super) fn analysis(&self) -> Analysis {
        let (trace, platform) = (self.builder.build(), self.platform());
        let options = ReportOptions { platform: Some(platform.clone()), call_stack: true, ..ReportOptions::default() };
        let report = build_report(&trace, &options).unwrap();
        let thresholds = self.thresholds.clone();
        Analysis::of(&trace, &report, platform, &AnalysisOptions { thresholds, ..AnalysisOptions::default() })
    }

    /// The patterns with this code.
    pub(super) fn patterns(&self, code: Code) -> Vec<Pattern> {
        self.look(|_, patterns, _| patterns.iter().filter(|p| p.code == code).cloned().collect())
    }

    /// The one pattern with this code.
    pub(super) fn one(&self, code: Code) -> Pattern {
        let found = self.patterns(code);
        assert_eq!(found.len(), 1, "{} patterns {}", found.len(), code.as_str());
        found.into_iter().next().unwrap()
    }

    /// Asserts that nothing with this code is found.
    pub(super) fn none(&self, code: Code) {
        let found = self.patterns(code);
        assert!(found.is_empty(), "{} is found: {:?}", code.as_str(), found[0].ops);
    }
}

fn contiguous(dims: &[i64]) -> Vec<i64> {
    let mut strides = vec![1; dims.len()];
    for i in (1..dims.len()).rev() {
        strides[i - 1] = dims[i].saturating_mul(strides[i]);
    }
    strides
}
