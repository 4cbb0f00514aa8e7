//! Made-up programs for the tests of analyzers.

use jarvis_perf::platform::Platform;
use jarvis_perf::tables::{ReportOptions, build_report};
use jarvis_trace::{EventBuilder, TraceBuilder};

use crate::finding::{Finding, Impact, Mending, Paths, PatternId, Priority, Range, Tier};
use crate::metrics::{CategoryMetrics, Scope};
use crate::prepare::PrepareOptions;
use crate::prepared::Prepared;
use crate::rules::{CategoryOutcome, Claims, analyze_categories, compute_findings};

/// A program, call by call: the host is quick, the GPU runs kernels back to back.
pub(crate) struct Scene {
    pub(crate) builder: TraceBuilder,
    /// What a launch takes the host.
    launch_us: f64,
    host_us: f64,
    gpu_us: f64,
    correlation: i64,
}

/// A call: name, `Input Dims`, `Input type`, and its kernels with their microseconds.
pub(crate) struct Call<'a> {
    pub(crate) name: &'a str,
    pub(crate) dims: &'a str,
    pub(crate) types: &'a str,
    pub(crate) strides: Option<&'a str>,
    pub(crate) concrete: Option<&'a str>,
    pub(crate) kernels: &'a [(&'a str, f64)],
    /// Blocks of each kernel.
    pub(crate) grid: Option<&'a str>,
}

impl<'a> Call<'a> {
    pub(crate) fn new(name: &'a str, dims: &'a str, types: &'a str, kernels: &'a [(&'a str, f64)]) -> Self {
        Self { name, dims, types, strides: None, concrete: None, kernels, grid: None }
    }
}

impl Scene {
    pub(crate) fn new() -> Self {
        let mut builder = TraceBuilder::new();
        builder.fact("deviceProperties", r#"[{"id": 0, "name": "NVIDIA H200", "numSms": 132}]"#);
        Self { builder, launch_us: 1.0, host_us: 0.0, gpu_us: 1000.0, correlation: 0 }
    }

    /// One whose launches take the host so long that the GPU waits for each.
    pub(crate) fn of_slow_launches(launch_us: f64) -> Self {
        Self { launch_us, gpu_us: 0.0, ..Self::new() }
    }

    /// Makes a call a number of times.
    pub(crate) fn calls(&mut self, count: usize, call: &Call<'_>) -> &mut Self {
        for _ in 0..count {
            self.call(call);
        }
        self
    }

    fn call(&mut self, call: &Call<'_>) {
        let length = self.launch_us * (1.0 + call.kernels.len() as f64);
        let event: &mut EventBuilder = self.builder.cpu_op(call.name, self.host_us, length);
        event.arg("Input Dims", call.dims).arg("Input type", call.types);
        if let Some(strides) = call.strides {
            event.arg("Input Strides", strides);
        }
        if let Some(concrete) = call.concrete {
            event.arg("Concrete Inputs", concrete);
        }
        for (i, (name, us)) in call.kernels.iter().enumerate() {
            self.correlation += 1;
            let launch_us = self.host_us + (0.5 + i as f64) * self.launch_us;
            self.builder.launch("cudaLaunchKernel", launch_us, 0.4 * self.launch_us, self.correlation);
            self.gpu_us = self.gpu_us.max(launch_us + 0.5 * self.launch_us);
            let kernel = self.builder.kernel(name, self.gpu_us, *us, self.correlation);
            if let Some(grid) = call.grid {
                kernel.arg("grid", grid);
            }
            self.gpu_us += us;
        }
        self.host_us += length + 0.1;
    }

    /// A matrix product of bf16 on a kernel of 128x128 tiles.
    pub(crate) fn mm(&mut self, count: usize, [m, k, n]: [i64; 3], us: f64) -> &mut Self {
        let dims = format!("[[{m}, {k}], [{k}, {n}]]");
        let types = r#"["c10::BFloat16", "c10::BFloat16"]"#;
        self.calls(count, &Call::new("aten::mm", &dims, types, &[(GEMM_KERNEL, us)]))
    }

    /// An addition of two contiguous bf16 tensors of `mb` MiB each, at `tbs` TB/s: the baseline.
    pub(crate) fn add(&mut self, count: usize, mb: i64, tbs: f64) -> &mut Self {
        let elements = mb * 524_288;
        let dims = format!("[[{elements}], [{elements}], []]");
        let types = r#"["c10::BFloat16", "c10::BFloat16", "Scalar"]"#;
        let us = 3.0 * mb as f64 * 1_048_576.0 / (tbs * 1e6);
        let kernels = [("void at::native::vectorized_elementwise_kernel<8>", us)];
        let mut call = Call::new("aten::add", &dims, types, &kernels);
        call.strides = Some("[[1], [1], []]");
        self.calls(count, &call)
    }

    pub(crate) fn prepared(&self) -> Prepared {
        self.prepared_on("H200")
    }

    pub(crate) fn prepared_on(&self, platform: &str) -> Prepared {
        prepared_of(&self.builder, platform)
    }
}

pub(crate) fn prepared_of(builder: &TraceBuilder, platform: &str) -> Prepared {
    let trace = builder.build();
    let platform = Platform::find(platform).unwrap();
    let options = ReportOptions { call_stack: true, platform: Some(platform.clone()), ..ReportOptions::default() };
    let report = build_report(&trace, &options).unwrap();
    Prepared::of(&trace, &report, platform, &PrepareOptions::default())
}

/// A kernel name that gives a tile of 128x128.
pub(crate) const GEMM_KERNEL: &str = "nvjet_sm90_tst_128x128_64x4_1x2_h_bz_TNT";

/// All of an analysis without claims.
pub(crate) fn analyzed(prepared: &Prepared) -> (Vec<CategoryOutcome>, Vec<Finding>) {
    let claims = Claims::none();
    let outcomes = analyze_categories(prepared, &claims, Scope::Standalone);
    let findings = compute_findings(prepared, &outcomes, &claims, None);
    (outcomes, findings)
}

pub(crate) fn metrics<'o>(outcomes: &'o [CategoryOutcome], category: &str) -> &'o CategoryMetrics {
    let found = outcomes.iter().find(|o| &*o.category == category).unwrap_or_else(|| panic!("no {category}"));
    found.metrics().unwrap_or_else(|| panic!("{category} failed"))
}

/// The finding is of a change that saves so much of the window, give or take the error of measuring it.
pub(crate) fn assert_saves(finding: &Finding, prepared: &Prepared, low_ms: f64, high_ms: f64) {
    let wanted = Range::new(low_ms, high_ms).as_measured(prepared.utilization.total_time_ms);
    let saved = finding.impact.saved_ms;
    // Kernels take whole nanoseconds.
    let near = |a: f64, b: f64| (a - b).abs() < 2e-5;
    assert!(near(saved.low, wanted.low) && near(saved.high, wanted.high), "{saved:?} instead of {wanted:?}");
}

pub(crate) fn patterns(findings: &[Finding]) -> Vec<PatternId> {
    findings.iter().map(|f| f.pattern).collect()
}

/// A finding that saves so much of a window of 100 ms.
pub(crate) fn finding(tier: Tier, priority: Priority, low: f64, high: f64) -> Finding {
    Finding {
        rank: 0,
        pattern: PatternId::LOW_EFFICIENCY_GEMM,
        tier,
        category: String::new(),
        priority,
        title: String::new(),
        issue: String::new(),
        operations: Vec::new(),
        operations_total: 0,
        operations_left_out_ms: 0.0,
        time_ms: 10.0,
        percent_of_total: 10.0,
        paths: Paths { algorithmic: Vec::new(), kernel: Vec::new() },
        impact: Impact::of(Range::new(low, high), 100.0, String::new()),
        evidence: Vec::new(),
        replay_package: None,
        replay_reason: None,
        rows: Vec::new(),
        kernels_saved_ms: Range::new(low, high),
        goes_with: None,
        mending: Mending::CountedOn,
    }
}
