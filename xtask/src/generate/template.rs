//! One training step as a tree of events, without times: the structure that every step of a trace repeats.
//!
//! Nodes are stored in the order in which they start; `end` is the index after a node's last descendant. Ids are
//! ordinals within the step; the writer adds `step × (ids per step)`.

use super::layout::{Layout, ShapeId, ShapeSet};

/// Process id of the traced program.
pub(super) const PID: i64 = 400;
/// Thread id of the autograd engine.
pub(super) const AUTOGRAD_TID: i64 = 458;

/// The host thread an event belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Track {
    /// The Python thread.
    Main,
    /// The thread of the autograd engine.
    Autograd,
}

impl Track {
    /// Its thread id.
    pub(super) fn tid(self) -> i64 {
        match self {
            Self::Main => PID,
            Self::Autograd => AUTOGRAD_TID,
        }
    }
}

/// The stream a kernel or copy runs on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stream {
    /// Kernels of the model.
    Compute,
    /// Input batches.
    Copy,
    /// Collectives.
    Nccl,
}

impl Stream {
    /// All of them, in the order of their numbers.
    pub(super) const ALL: [Self; 3] = [Self::Compute, Self::Copy, Self::Nccl];

    /// Its number in the trace.
    pub(super) fn number(self) -> i64 {
        match self {
            Self::Compute => 7,
            Self::Copy => 24,
            Self::Nccl => 28,
        }
    }

    /// Its place in [`Stream::ALL`].
    pub(super) fn index(self) -> usize {
        self as usize
    }
}

/// What runs on the GPU after a launch.
#[derive(Clone, Copy, Debug)]
pub(super) struct Gpu {
    pub(super) shape: ShapeId,
    pub(super) stream: Stream,
    pub(super) nominal_ns: u32,
    pub(super) bytes: u64,
}

/// What a node is, with its ordinals.
#[derive(Clone, Copy, Debug)]
pub(super) enum Work {
    /// A Python frame. Parent 0 is the innermost frame around the whole loop.
    Frame { py: u32, parent: u32 },
    /// An op; `flow` is the end of a forward-to-backward arrow, if it has one.
    Op { ext: u32, seq: u32, flow: Option<u32> },
    /// A user annotation, with its twin on the GPU if it has one.
    Note { ext: u32, gpu: Option<ShapeId> },
    /// A runtime call that starts nothing on the GPU; `waits` means it returns when the GPU is idle.
    Call { ext: u32, corr: u32, waits: bool },
    /// A runtime call that starts a kernel, a copy or a memset.
    Launch { ext: u32, corr: u32, gpu: Gpu },
    /// A change of allocated memory.
    Memory,
}

/// One event of the step.
#[derive(Clone, Copy, Debug)]
pub(super) struct Node {
    pub(super) work: Work,
    pub(super) track: Track,
    pub(super) shape: ShapeId,
    /// Index after the last descendant.
    pub(super) end: u32,
    /// Nominal time since the previous event ended or the parent began.
    pub(super) before_ns: u32,
    /// Nominal time from the end of the last child (or the start, for a leaf) to the end.
    pub(super) after_ns: u32,
    /// Ordinal among the events of the step that share its run of `Ev Idx`.
    pub(super) ev: u32,
}

/// Runs of `Ev Idx`, in the order of the file: the profiler numbers events of one kind and thread together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Run {
    /// Ops and annotations of the autograd thread.
    Autograd,
    /// Ops and annotations of the Python thread.
    Main,
    /// Memory events.
    Memory,
    /// Python frames.
    Frames,
}

impl Run {
    /// All runs, in file order.
    pub(super) const ALL: [Self; 4] = [Self::Autograd, Self::Main, Self::Memory, Self::Frames];

    /// The run an event is numbered in; `None` for runtime calls, which have no `Ev Idx`.
    pub(super) fn of(work: &Work, track: Track) -> Option<Self> {
        match (work, track) {
            (Work::Frame { .. }, _) => Some(Self::Frames),
            (Work::Memory, _) => Some(Self::Memory),
            (Work::Op { .. } | Work::Note { .. }, Track::Main) => Some(Self::Main),
            (Work::Op { .. } | Work::Note { .. }, Track::Autograd) => Some(Self::Autograd),
            (Work::Call { .. } | Work::Launch { .. }, _) => None,
        }
    }
}

/// Ids that one step uses up.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Spans {
    pub(super) ev: [u32; Run::ALL.len()],
    pub(super) py: u32,
    pub(super) ext: u32,
    pub(super) seq: u32,
    pub(super) corr: u32,
    pub(super) flow: u32,
}

/// Shapes of the arrows, which are few.
#[derive(Clone, Copy, Debug)]
pub(super) struct FlowShapes {
    /// Launch side of `ac2g`, by track.
    pub(super) launch: [ShapeId; 2],
    /// End of `ac2g` on a call that launches nothing, by track.
    pub(super) call: [ShapeId; 2],
    /// GPU side of `ac2g`, by stream.
    pub(super) gpu: [ShapeId; 3],
    /// Start of `fwdbwd`, on the Python thread.
    pub(super) forward: ShapeId,
    /// End of `fwdbwd`, on the autograd thread.
    pub(super) backward: ShapeId,
}

/// The step.
#[derive(Debug)]
pub(super) struct Template {
    pub(super) layout: Layout,
    pub(super) nodes: Vec<Node>,
    pub(super) shapes: ShapeSet,
    pub(super) spans: Spans,
    pub(super) flows: FlowShapes,
    /// Profiler overhead, one a step.
    pub(super) overhead: ShapeId,
}
