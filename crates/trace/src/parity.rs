//! Everything this crate does differently when asked to agree with the reference: its faults, by the numbers they
//! have in the specification of the tree. Code asks [`Fidelity`] or [`Nesting`] where the two ways part. To drop the
//! mode, delete this module and what no longer compiles.
//!
//! | fault | [`Fidelity::Correct`] / [`Nesting::Exact`] | [`Fidelity::Reference`] / [`Nesting::Float`] |
//! |---|---|---|
//! | F1 | containment in whole nanoseconds | in float microseconds: a frame that ends with its caller may be lost to rounding |
//! | F2 | times of GPU work are measured in whole nanoseconds | in float microseconds of absolute times: lengths are rounded |
//! | F3 | of two events that start together the longer is outside; one of no length stays behind what it follows in the file | the one that stands first in the file is outside |
//! | F6 | GPU events whose launch call has no flow (ROCm fills) are linked by correlation | stay unlinked |
//! | –   | a window without launches, of copies alone, is linked by correlation | by `External id`, as old ROCm has it: nothing is linked |
//! | –   | what stands in the file twice counts once, and a GPU event that lasts longer than it can have is left out | both take part |
//! | –   | GPU events, and the calls that launched them, stand in order of their start | in file order, which is that of the profiler's buffers |
//! | F10 | every runtime call named `…GraphLaunch…` owns all its GPU events | only `cudaGraphLaunch` and `hipGraphLaunch` do |
//! | –   | a GPU event days away from all runtime calls is left out | takes part, and makes the window days long |
//! | F21 | a printed subtree is pruned below `[BWD]` too | the first level below `[BWD]` is printed whole |
//!
//! The same in both modes, as the reference has it: an event that bleeds out of its caller by a microsecond or more
//! has no place (F4), bleeding is forgiven once (F5), several GPU events of one plain launch leave the last one
//! linked (F11), forward and backward meet by sequence number (F12), the outermost annotation wins (F16).
//! Wrong in the reference and right in both modes: only GPU events are launched, and nothing else that carries their
//! number hides them (F8); a GPU event has one place even if two calls claim it (F9); nothing recurses (F22); no
//! result depends on the order of queries (F27).

/// Whether to be right or to agree.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Fidelity {
    /// Correct where the reference is not.
    #[default]
    Correct,
    /// Every number and quirk of the reference.
    Reference,
}

/// The arithmetic that decides which event lies in which.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Nesting {
    /// Whole nanoseconds.
    #[default]
    Exact,
    /// Float microseconds, to compare with the reference frame by frame.
    Float,
}

impl Fidelity {
    /// Whether a runtime call replays a graph and so owns all GPU events of its correlation (F10).
    pub(crate) fn is_graph_launch(self, name: &str) -> bool {
        match self {
            Self::Correct => name.contains("GraphLaunch"),
            Self::Reference => matches!(name, "cudaGraphLaunch" | "hipGraphLaunch"),
        }
    }

    /// Whether calls and GPU events that share a correlation are linked by it although no call is a launch.
    pub(crate) fn links_without_launch(self) -> bool {
        self == Self::Correct
    }

    /// Whether correlation alone links where the recording has no flow (F6).
    pub(crate) fn links_without_flow(self) -> bool {
        self == Self::Correct
    }

    /// Whether lengths are differences of float microseconds (F2).
    pub(crate) fn measures_in_floats(self) -> bool {
        self == Self::Reference
    }

    /// Whether GPU events with an impossible time are left out.
    pub(crate) fn leaves_strays_out(self) -> bool {
        self == Self::Correct
    }

    /// Whether events that can't be as they are written are looked for.
    pub(crate) fn tells_impossible(self) -> bool {
        self == Self::Correct
    }

    /// Whether events are taken up in order of their start, so that a file with the same events in another order says the
    /// same.
    pub(crate) fn orders_by_time(self) -> bool {
        self == Self::Correct
    }

    /// Whether the children of a backward event are pruned like any others (F21).
    pub(crate) fn prunes_below_backward(self) -> bool {
        self == Self::Correct
    }
}

impl Nesting {
    /// Whether length decides between events that start together (F3); file order does otherwise.
    pub(crate) fn longer_is_outside(self) -> bool {
        self == Self::Exact
    }
}
