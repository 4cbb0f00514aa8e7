//! What to report, and why there may be nothing to report.

use jarvis_trace::{Fidelity, Population};

use crate::extension::Extension;
use crate::parity::Quirks;
use crate::platform::Platform;

/// What to put into a report.
#[derive(Debug, Clone)]
#[expect(clippy::struct_excessive_bools, reason = "each is a switch of the command line")]
pub struct ReportOptions {
    /// Whether to be right or to agree with the reference.
    pub fidelity: Fidelity,
    /// The GPU, for the roofline columns; without one they are absent.
    pub platform: Option<Platform>,
    /// The user's own models and categories.
    pub extension: Option<Extension>,
    /// Whether the timeline counts all GPU events whose launch was not recorded, those outside of the window too.
    pub include_unlinked: bool,
    /// Gaps shorter than this count as micro idle time; `None` keeps one idle row.
    pub micro_idle_us: Option<f64>,
    /// Whether to write `coll_analysis`.
    pub coll_analysis: bool,
    /// Whether to write `kernel_summary`.
    pub kernel_summary: bool,
    /// Whether to write the two sheets of short kernels.
    pub short_kernel_study: bool,
    /// A kernel is short if it takes less than this.
    pub short_kernel_threshold_us: f64,
    /// Bins of the histogram of short kernels.
    pub short_kernel_bins: usize,
    /// Most rows of `short_kernels_summary`.
    pub topk_short_kernels: Option<usize>,
    /// Most rows of `ops_summary`, `ops_unique_args` and `unified_perf_summary`. The reference ignores it.
    pub topk_ops: Option<usize>,
    /// Most rows of each sheet of operations. The reference ignores it.
    pub topk_roofline_ops: Option<usize>,
    /// Whether calls that launch different numbers of kernels are kept apart.
    pub group_by_num_kernels: bool,
    /// Whether to write the sheets of overlapping kernels.
    pub include_overlap: bool,
    /// Whether to tell recomputed work apart.
    pub detect_recompute: bool,
    /// Whether to show when a call was first made.
    pub first_occurrence: bool,
    /// Whether to show where in the program a call was made.
    pub call_stack: bool,
    /// Whether Python frames stand in the tree even if no sheet needs them.
    pub frames: bool,
}

impl Default for ReportOptions {
    fn default() -> Self {
        Self {
            fidelity: Fidelity::Correct,
            platform: None,
            extension: None,
            include_unlinked: false,
            micro_idle_us: None,
            coll_analysis: true,
            kernel_summary: true,
            short_kernel_study: true,
            short_kernel_threshold_us: 10.0,
            short_kernel_bins: 100,
            topk_short_kernels: None,
            topk_ops: None,
            topk_roofline_ops: None,
            group_by_num_kernels: false,
            include_overlap: false,
            detect_recompute: false,
            first_occurrence: false,
            call_stack: false,
            frames: false,
        }
    }
}

impl ReportOptions {
    /// The defaults with every number of the reference.
    pub fn parity() -> Self {
        Self { fidelity: Fidelity::Reference, ..Self::default() }
    }

    /// Which faults of the reference to reproduce.
    pub fn quirks(&self) -> Quirks {
        match self.fidelity {
            Fidelity::Correct => Quirks::NONE,
            Fidelity::Reference => Quirks::REFERENCE,
        }
    }

    /// The GPU events that the timeline and what goes on side by side are made of.
    pub fn population(&self) -> Population {
        if self.include_unlinked {
            Population::All
        } else if self.quirks().timeline_of_linked_alone {
            Population::Linked
        } else {
            Population::Window
        }
    }

    /// Whether rows of `unified_perf_summary` are kept apart by number of kernels; the reference forgets to.
    pub(crate) fn splits_unified_by_kernels(&self) -> bool {
        self.group_by_num_kernels && !self.quirks().unified_ignores_num_kernels
    }

    /// Whether Python frames have to be nodes of the tree.
    pub(crate) fn needs_frames(&self) -> bool {
        self.detect_recompute || self.call_stack || self.frames
    }
}

/// Why there is no report.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReportError {
    /// The recording has no GPU event.
    #[error("the trace has no GPU events: no kernel, copy or fill was recorded")]
    NoGpuEvents,
    /// The recording has launches, and of what they launched nothing.
    #[error(
        "the trace has no GPU events, although {launches} calls in it launch GPU work: what the GPU did was not recorded"
    )]
    GpuNotRecorded {
        /// How many calls launch something.
        launches: usize,
    },
    /// The recording ends before its first GPU event.
    #[error("the trace is cut off at byte {byte} of its text, and none of the {count} events before that is GPU work")]
    Cut {
        /// How many events there are.
        count: usize,
        /// Where the document ends.
        byte: u64,
    },
    /// There is no event at all.
    #[error("the trace has no events")]
    NoEvents,
    /// The events are not those of the PyTorch profiler.
    #[error("the trace is not of the PyTorch profiler: none of its {count} events is an operation, a call or GPU work")]
    Foreign {
        /// How many there are.
        count: usize,
    },
    /// The events are those of a profiler of 2021.
    #[error(
        "the trace is of PyTorch of 2021: its {count} events have the categories of that time (Operator, Runtime, Kernel)"
    )]
    Old {
        /// How many there are.
        count: usize,
    },
    /// Only allocations were recorded.
    #[error("the trace tells of memory alone: none of its {count} events is an operation, a call or GPU work")]
    MemoryAlone {
        /// How many there are.
        count: usize,
    },
    /// There are GPU events, but the launch of none of them is known.
    #[error(
        "none of the {count} GPU events has a {} launch, so no operation can be charged for it",
        if *unread { "known" } else { "recorded" }
    )]
    AllUnlinked {
        /// How many there are.
        count: usize,
        /// The launches are there, as calls of a runtime that is not read.
        unread: bool,
    },
    /// There are GPU events, but none has a time.
    #[error("none of the {count} GPU events has a start time")]
    NoTimes {
        /// How many there are.
        count: usize,
    },
}

impl ReportError {
    /// Whether the recording tells of the host alone.
    pub fn is_host_alone(&self) -> bool {
        matches!(self, Self::NoGpuEvents | Self::GpuNotRecorded { .. })
    }

    /// What to do next.
    pub fn help(&self) -> &'static str {
        match self {
            Self::NoGpuEvents => {
                "record with ProfilerActivity.CUDA (also on ROCm) and let the profiler see the steps that use the GPU"
            }
            Self::GpuNotRecorded { .. } => {
                "as a rule one profiler at a time can listen to a GPU: end all others (Nsight, rocprof, a second torch.profiler), and record with ProfilerActivity.CUDA (also on ROCm) and a warm-up step"
            }
            Self::Cut { .. } => "copy the file again, after the profiler has written all of it; else record anew",
            Self::NoEvents => "the profiler may have stopped before the first step: capture anew",
            Self::Foreign { .. } => {
                "many programs write this format (browsers, rocprof, Perfetto); record with torch.profiler and export_chrome_trace"
            }
            Self::Old { .. } => "jarvis reads what PyTorch writes since 2022: record with a newer one",
            Self::MemoryAlone { .. } => {
                "record with activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA] (also on ROCm)"
            }
            Self::AllUnlinked { unread: true, .. } => {
                "pass --include-unlinked-kernels to count them anyway; launches are known of the CUDA and ROCm runtimes alone"
            }
            Self::AllUnlinked { .. } => {
                "pass --include-unlinked-kernels to count them anyway; recording with a warm-up step keeps their launches"
            }
            Self::NoTimes { .. } => "check the program that rewrote the trace",
        }
    }
}
