//! `gpu_timeline`: what the GPU did with its time.

use jarvis_trace::timeline::TimelineRow;
use jarvis_trace::tree::launch_calls;
use jarvis_trace::{Defect, EventId, EventKind, Id, Ns, Timeline, Trace, Tree, Us};

use super::context::RECOMPUTE;
use super::options::{ReportError, ReportOptions};
use super::sheet::Columns;
use super::{Cell, Table};

/// A row with the part of the work it is about; `None` where recomputation is not told apart.
struct Row {
    line: TimelineRow,
    part: Option<Part>,
}

/// Part of the GPU work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    /// Done for the first time.
    First,
    /// Done again by checkpointing.
    Recomputed,
    /// Both: the parts have spans of their own and do not add up.
    Whole,
}

impl Part {
    fn cell(self) -> Cell {
        match self {
            Self::First => Cell::Bool(false),
            Self::Recomputed => Cell::Bool(true),
            Self::Whole => Cell::Text("all".into()),
        }
    }
}

/// Categories as PyTorch of 2021 wrote them.
const OLD_CATEGORIES: [&str; 3] = ["Operator", "Runtime", "Kernel"];

/// Category of allocations.
const MEMORY_CATEGORY: &str = "cpu_instant_event";

/// Why a trace has no GPU event. The profiler writes those last, so a trace that is cut off may have had some.
fn without_gpu(trace: &Trace) -> ReportError {
    let of_pytorch = |e: EventId| !matches!(trace.kind(e), EventKind::Metadata | EventKind::Other | EventKind::Inert);
    let in_category = |names: &[&str]| trace.events().any(|e| names.contains(&trace.category(e)));
    if let Some(byte) = trace.diagnostics().cut_at() {
        return ReportError::Cut { count: trace.len(), byte };
    }
    match trace.len() {
        0 => ReportError::NoEvents,
        _ if trace.events().any(of_pytorch) => match launch_calls(trace) {
            0 => ReportError::NoGpuEvents,
            launches => ReportError::GpuNotRecorded { launches },
        },
        count if in_category(&OLD_CATEGORIES) => ReportError::Old { count },
        count if in_category(&[MEMORY_CATEGORY]) => ReportError::MemoryAlone { count },
        count => ReportError::Foreign { count },
    }
}

/// The GPU events that timeline and overlaps are made of, and the timeline of them all.
pub(crate) struct GpuTime {
    pub(crate) events: Vec<EventId>,
    pub(crate) timeline: Timeline<Us>,
}

impl GpuTime {
    pub(crate) fn of(trace: &Trace, tree: &Tree, options: &ReportOptions) -> Result<Self, ReportError> {
        let events = options.population().of(trace, tree);
        let count = tree.all_gpu_events().len();
        if count == 0 {
            return Err(without_gpu(trace));
        }
        if events.is_empty() {
            let unread = tree.diagnostics().count(Defect::UnreadRuntime) > 0;
            return Err(ReportError::AllUnlinked { count, unread });
        }
        let timeline = timeline(trace, &events, options).ok_or(ReportError::NoTimes { count })?;
        Ok(Self { events, timeline })
    }

    /// The time of each GPU, if several worked: the sheet has them as one.
    pub(crate) fn by_device(&self, trace: &Trace) -> Vec<(Id, Timeline<Ns>)> {
        let device = |e: EventId| trace.track(trace.track_id(e)).pid;
        if self.events.windows(2).all(|pair| device(pair[0]) == device(pair[1])) {
            return Vec::new();
        }
        Timeline::by_device(trace, &self.events, None)
    }

    /// The sheet.
    pub(crate) fn sheet(&self, trace: &Trace, tree: &Tree, options: &ReportOptions) -> Table {
        let mut rows = Vec::new();
        let mut add = |timeline: &Timeline<Us>, part| {
            rows.extend(timeline.rows().into_iter().map(|line| Row { line, part }));
        };
        if options.detect_recompute {
            for (part, marked) in [(Part::First, false), (Part::Recomputed, true)] {
                let events: Vec<EventId> =
                    self.events.iter().copied().filter(|&e| tree.is_recompute(e) == marked).collect();
                if let Some(timeline) = timeline(trace, &events, options) {
                    add(&timeline, Some(part));
                }
            }
            if !options.quirks().recompute_parts_alone {
                add(&self.timeline, Some(Part::Whole));
            }
        } else {
            add(&self.timeline, None);
        }
        columns(options).sheet("gpu_timeline", &rows).table()
    }
}

fn timeline(trace: &Trace, events: &[EventId], options: &ReportOptions) -> Option<Timeline<Us>> {
    Timeline::measured(trace, events, options.micro_idle_us.map(Us), options.fidelity)
}

fn columns(options: &ReportOptions) -> Columns<Row> {
    Columns::<Row>::new()
        .plain("type", |r| Cell::Text(r.line.kind.into()))
        .time("time ms", |r| Cell::float(r.line.ms))
        .percent("percent", |r| Cell::float(r.line.percent))
        .when(options.detect_recompute, |c| c.plain(RECOMPUTE, |r| r.part.map_or(Cell::Missing, Part::cell)))
}
