//! Small traces and what tests ask of them.

use jarvis_trace::{Ns, Population, Timeline, Trace, TraceBuilder, Tree, TreeOptions, Us};

use super::System;
use crate::prepared::Utilization;

pub(crate) fn tree(trace: &Trace) -> Tree {
    Tree::build(trace, TreeOptions::default().with_python())
}

pub(crate) fn system(b: &TraceBuilder) -> System {
    let trace = b.build();
    System::of(&trace, &tree(&trace), Population::Linked).unwrap()
}

pub(crate) fn timeline(trace: &Trace, tree: &Tree, population: Population) -> Timeline<Ns> {
    Timeline::of(trace, &population.of(trace, tree), None).unwrap()
}

pub(crate) fn utilization(b: &TraceBuilder) -> Utilization {
    let trace = b.build();
    let timeline: Timeline<Us> = Timeline::of(&trace, &Population::Linked.of(&trace, &tree(&trace)), None).unwrap();
    let rows = timeline.rows();
    let row = |kind: &str| rows.iter().find(|r| r.kind == kind).map_or((0.0, 0.0), |r| (r.ms, r.percent));
    Utilization {
        total_time_ms: row("total_time").0,
        computation_time_ms: row("computation_time").0,
        computation_time_percent: row("computation_time").1,
        exposed_comm_time_ms: row("exposed_comm_time").0,
        exposed_comm_time_percent: row("exposed_comm_time").1,
        exposed_memcpy_time_ms: row("exposed_memcpy_time").0,
        exposed_memcpy_time_percent: row("exposed_memcpy_time").1,
        idle_time_ms: row("idle_time").0,
        idle_time_percent: row("idle_time").1,
        busy_time_ms: row("busy_time").0,
        total_comm_time_ms: row("total_comm_time").0,
        total_memcpy_time_ms: row("total_memcpy_time").0,
        kernel_time_ms: timeline.kernels.0 / 1e3,
    }
}

/// A program under construction: one thread, one stream, times in microseconds.
#[derive(Debug, Default)]
pub(crate) struct Host {
    pub(crate) b: TraceBuilder,
    /// Now, on the host.
    pub(crate) now: f64,
    /// When the GPU is free.
    pub(crate) gpu: f64,
    launches: i64,
}

impl Host {
    /// An operation that takes `host` microseconds and launches one kernel of `kernel` microseconds in its middle.
    pub(crate) fn op(&mut self, name: &str, host: f64, kernel: f64) {
        self.b.cpu_op(name, self.now, host);
        self.launch(self.now + host / 2.0, "kernel", "k", kernel);
        self.now += host;
    }

    /// The same with a tensor of these sizes.
    pub(crate) fn op_on(&mut self, name: &str, dims: &str, host: f64, kernel: f64) {
        self.b.cpu_op(name, self.now, host).arg("Input Dims", dims);
        self.launch(self.now + host / 2.0, "kernel", "k", kernel);
        self.now += host;
    }

    /// A launch at a time, the kernel 8 µs later or when the GPU is free.
    pub(crate) fn launch(&mut self, at: f64, category: &str, name: &str, gpu: f64) {
        self.launch_taking(4.0, at, category, name, gpu);
    }

    /// The same with a call that takes this long.
    pub(crate) fn launch_taking(&mut self, call: f64, at: f64, category: &str, name: &str, gpu: f64) {
        self.launches += 1;
        self.b.launch("cudaLaunchKernel", at, call, self.launches);
        let start = (at + 8.0).max(self.gpu + 1.0);
        self.b.gpu(category, name, start, gpu, self.launches, 7);
        self.gpu = start + gpu;
    }

    /// A read of one value: a small copy and a wait for it.
    pub(crate) fn item(&mut self) {
        self.waiting("aten::item");
    }

    /// An operation that copies a little to the host and waits for it.
    pub(crate) fn waiting(&mut self, name: &str) {
        let start = self.now;
        self.launch(start + 5.0, "gpu_memcpy", "Memcpy DtoH (Device -> Pinned)", 1.0);
        let back = self.gpu.max(start + 15.0) + 5.0;
        self.b.cpu_op(name, start, back + 5.0 - start);
        self.b.runtime("cudaStreamSynchronize", start + 15.0, back - start - 15.0);
        self.now = back + 5.0;
    }

    /// Ends a step that began at a time: waits for the GPU.
    pub(crate) fn end_step(&mut self, number: usize, start: f64) {
        let back = self.gpu.max(self.now) + 5.0;
        self.b.runtime("cudaDeviceSynchronize", self.now + 1.0, back - self.now - 1.0);
        self.b.annotation(&format!("ProfilerStep#{number}"), start, back + 2.0 - start);
        self.now = back + 10.0;
    }
}
