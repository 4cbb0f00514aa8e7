//! What is in a trace: counted once, for `jarvis info` and for the head of every report.

use std::collections::{BTreeMap, BTreeSet};

use crate::model::{EventId, EventKind, Facts, Id, Ns, Trace, TrackId};

/// Names given to processes and threads by metadata events; the last one in the file wins.
#[derive(Debug, Clone, Default)]
pub struct Names {
    by_place: BTreeMap<(Id, Id), BTreeMap<String, String>>,
}

/// Metadata events that name something, with the argument that holds the name.
const NAMING_EVENTS: [(&str, &str); 3] =
    [("process_name", "name"), ("process_labels", "labels"), ("thread_name", "name")];

impl Names {
    /// Collects the names of a trace.
    pub fn of(trace: &Trace) -> Self {
        let mut names = Self::default();
        for e in trace.events().filter(|&e| trace.kind(e) == EventKind::Metadata) {
            let Some((kind, key)) = NAMING_EVENTS.iter().find(|(kind, _)| *kind == trace.name(e)) else { continue };
            let Some(text) = trace.arg(e, key).as_ref().and_then(|a| a.as_str().map(str::to_owned)) else { continue };
            let track = trace.track(trace.track_id(e));
            names.by_place.entry((track.pid, track.tid)).or_default().insert((*kind).to_owned(), text);
        }
        names
    }

    fn get(&self, pid: Id, tid: Id, kind: &str) -> Option<&str> {
        self.by_place.get(&(pid, tid))?.get(kind).map(String::as_str)
    }

    /// Name of a process. Writers put it at thread 0; some leave the thread out.
    pub fn process(&self, pid: Id) -> Option<&str> {
        self.get(pid, Id::Int(0), "process_name").or_else(|| self.get(pid, Id::Null, "process_name"))
    }

    /// Label of a process, such as `CPU` or `GPU 0`.
    pub fn label(&self, pid: Id) -> Option<&str> {
        self.get(pid, Id::Int(0), "process_labels").or_else(|| self.get(pid, Id::Null, "process_labels"))
    }

    /// Name of a thread.
    pub fn thread(&self, pid: Id, tid: Id) -> Option<&str> {
        self.get(pid, tid, "thread_name")
    }
}

/// Who made the GPUs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Vendor {
    /// CUDA versions are recorded.
    Nvidia,
    /// ROCm versions are recorded.
    Amd,
}

impl Facts {
    /// Vendor of the GPUs, from the runtime that was recorded.
    pub fn vendor(&self) -> Option<Vendor> {
        let has = |prefix: &str| self.entries().any(|(k, _)| k.starts_with(prefix));
        match (has("cuda_") || has("cupti_"), has("hip_") || has("roctracer_")) {
            (true, false) => Some(Vendor::Nvidia),
            (false, true) => Some(Vendor::Amd),
            _ => None,
        }
    }
}

/// Events of one line of the timeline.
#[derive(Debug, Clone, PartialEq)]
pub struct TrackSummary {
    /// Which one.
    pub track: TrackId,
    /// Events on it.
    pub events: u64,
    /// Time they cover, from the first start to the last end.
    pub span: Ns,
    /// Sum of their durations (GPU events only; host events nest).
    pub gpu_time: Ns,
}

/// A profiler step.
#[derive(Debug, Clone, PartialEq)]
pub struct Step {
    /// The annotation.
    pub event: EventId,
    /// Its number, from the name.
    pub number: Option<i64>,
    /// Its length on the host.
    pub dur: Ns,
}

/// What is in a trace.
#[derive(Debug, Clone)]
pub struct Summary {
    /// Events by phase and category, most frequent first.
    pub categories: Vec<(char, String, u64)>,
    /// Lines of host events, busiest first.
    pub threads: Vec<TrackSummary>,
    /// Lines of GPU events: device and stream, longest first.
    pub streams: Vec<TrackSummary>,
    /// Profiler steps in order of time.
    pub steps: Vec<Step>,
    /// From the first start to the last end of host and GPU events.
    pub span: Option<(Ns, Ns)>,
    /// Operations with shapes recorded, and all operations.
    pub shaped_ops: (u64, u64),
    /// Python frames.
    pub python_frames: u64,
    /// Names of processes and threads.
    pub names: Names,
}

/// How the names of annotations begin that mark a step of the profiler.
const STEP_PREFIX: &str = "ProfilerStep#";

impl Step {
    /// Whether an annotation of this name marks a step.
    pub fn is_mark(name: &str) -> bool {
        name.starts_with(STEP_PREFIX)
    }

    /// The steps that annotations mark, in order of time. Several threads or processes may mark the same one, which is
    /// then the first mark's.
    pub fn of_marks(trace: &Trace, marks: &[EventId]) -> Vec<Self> {
        let step = |&event: &EventId| Self {
            event,
            number: trace.name(event).strip_prefix(STEP_PREFIX).and_then(|number| number.parse().ok()),
            dur: trace.dur(event).unwrap_or_default(),
        };
        let mut steps: Vec<Self> = marks.iter().map(step).collect();
        // Marks without a time come last: no other stage sees them.
        steps.sort_by_key(|s| (trace.ts(s.event).is_none(), trace.ts(s.event)));
        let mut known = BTreeSet::new();
        steps.retain(|s| s.number.is_none_or(|number| known.insert(number)));
        steps
    }
}

impl Summary {
    /// How many events there are.
    pub fn events(&self) -> u64 {
        self.categories.iter().map(|(.., count)| count).sum()
    }

    /// Counts a trace.
    pub fn of(trace: &Trace) -> Self {
        let mut by_class = vec![0u64; trace.class_count()];
        let mut tracks: Vec<TrackSum> = vec![TrackSum::default(); trace.tracks().len()];
        let mut marks = Vec::new();
        let mut shaped_ops = (0, 0);
        let mut first_of_class = vec![None; trace.class_count()];
        for e in trace.events() {
            let class = trace.class_id(e).index();
            by_class[class] += 1;
            first_of_class[class].get_or_insert(e);
            let kind = trace.kind(e);
            let host = kind == EventKind::CpuOp || kind.is_runtime() || kind == EventKind::PythonFunction;
            if host || kind.is_gpu() {
                tracks[trace.track_id(e).index()].add(trace.ts(e), trace.dur(e), kind.is_gpu());
            }
            if kind == EventKind::CpuOp {
                shaped_ops.1 += 1;
                shaped_ops.0 += u64::from(trace.get(e, crate::Key::InputDims).is_some());
            } else if kind == EventKind::UserAnnotation && Step::is_mark(trace.name(e)) {
                marks.push(e);
            }
        }
        let mut categories: BTreeMap<(char, &str), u64> = BTreeMap::new();
        let mut python_frames = 0;
        for (class, &count) in by_class.iter().enumerate() {
            let Some(e) = first_of_class[class] else { continue };
            *categories.entry((trace.phase(e), trace.category(e))).or_default() += count;
            python_frames += if trace.kind(e) == EventKind::PythonFunction { count } else { 0 };
        }
        let mut categories: Vec<_> = categories.into_iter().map(|((p, c), n)| (p, c.to_owned(), n)).collect();
        categories.sort_by(|a, b| b.2.cmp(&a.2).then_with(|| (&a.1, a.0).cmp(&(&b.1, b.0))));
        let span = tracks.iter().filter_map(|t| t.span).reduce(|a, b| (a.0.min(b.0), a.1.max(b.1)));
        let lines = |gpu: bool| {
            let of = tracks.iter().zip(trace.tracks()).filter(|(t, _)| t.events > 0 && t.gpu == gpu);
            let mut lines: Vec<TrackSummary> = of.map(|(sum, (track, _))| sum.line(track)).collect();
            lines.sort_by(|a, b| {
                (b.gpu_time, b.events)
                    .cmp(&(a.gpu_time, a.events))
                    .then(trace.track(a.track).cmp(&trace.track(b.track)))
            });
            lines
        };
        Self {
            categories,
            threads: lines(false),
            streams: lines(true),
            steps: Step::of_marks(trace, &marks),
            span,
            shaped_ops,
            python_frames,
            names: Names::of(trace),
        }
    }
}

#[derive(Debug, Clone, Default)]
struct TrackSum {
    events: u64,
    span: Option<(Ns, Ns)>,
    gpu_time: Ns,
    gpu: bool,
}

impl TrackSum {
    fn add(&mut self, ts: Option<Ns>, dur: Option<Ns>, gpu: bool) {
        self.events += 1;
        self.gpu |= gpu;
        let Some(start) = ts else { return };
        let dur = dur.unwrap_or_default();
        let end = start + dur;
        self.span = Some(self.span.map_or((start, end), |(a, b)| (a.min(start), b.max(end))));
        if gpu {
            self.gpu_time = self.gpu_time + dur;
        }
    }

    fn line(&self, track: TrackId) -> TrackSummary {
        let span = self.span.map_or(Ns(0), |(a, b)| b - a);
        TrackSummary { track, events: self.events, span, gpu_time: self.gpu_time }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::TraceBuilder;

    #[test]
    fn counts_what_is_there() {
        let mut b = TraceBuilder::new();
        b.fact("deviceProperties", r#"[{"id": 0, "name": "NVIDIA H200", "numSms": 132, "totalGlobalMem": 7}]"#);
        b.fact("cuda_runtime_version", "13000");
        b.annotation("ProfilerStep#2", 0.0, 50.0);
        b.cpu_op("aten::mm", 10.0, 20.0).arg("Input Dims", "[[1]]");
        b.cpu_op("aten::add", 40.0, 5.0);
        b.launch("cudaLaunchKernel", 12.0, 3.0, 1);
        b.kernel("gemm", 30.0, 40.0, 1);
        b.event('M', "", "process_name", 0.0, 0.0).on(1, 0).arg("name", "old");
        b.event('M', "", "process_name", 0.0, 0.0).on(1, 0).arg("name", "python3");
        b.event('M', "", "thread_name", 0.0, 0.0).arg("name", "main");
        let trace = b.build();
        let s = Summary::of(&trace);
        assert_eq!(s.categories[0], ('M', String::new(), 3));
        assert_eq!(s.span, Some((Ns(10_000), Ns(70_000))));
        assert_eq!(s.shaped_ops, (1, 2));
        assert_eq!((s.threads.len(), s.threads[0].events), (1, 3));
        assert_eq!((s.streams.len(), s.streams[0].gpu_time), (1, Ns(40_000)));
        assert_eq!(s.steps[0].number, Some(2));
        assert_eq!(s.names.process(Id::Int(1)), Some("python3"), "the last name wins");
        assert_eq!(s.names.thread(Id::Int(1), Id::Int(1)), Some("main"));
        assert_eq!(trace.facts().vendor(), Some(Vendor::Nvidia));
        assert_eq!(trace.facts().devices()[0].multiprocessors, Some(132));
    }

    #[test]
    fn a_step_that_is_marked_twice_is_one_step() {
        let mut b = TraceBuilder::new();
        for (number, start) in [(3, 100.0), (2, 0.0)] {
            b.annotation(&format!("ProfilerStep#{number}"), start, 50.0);
            b.annotation(&format!("ProfilerStep#{number}"), start + 1.0, 48.0).on(2, 2);
        }
        b.annotation("ProfilerStep#x", 200.0, 1.0);
        b.annotation("ProfilerStep#x", 300.0, 1.0);
        let steps = Summary::of(&b.build()).steps;
        let told: Vec<_> = steps.iter().map(|s| (s.number, s.dur)).collect();
        let [two, three] = [2, 3].map(|n| (Some(n), Ns(50_000)));
        assert_eq!(told, [two, three, (None, Ns(1000)), (None, Ns(1000))], "without a number none is known");
    }
}
