//! Reads PyTorch profiler traces into columns and builds the call tree.
//!
//! The facts of a recording and nothing more: no operation and no GPU is known here.
//!
//! ```
//! use jarvis_trace::{Ns, Population, Timeline, Trace, Tree, TreeOptions};
//!
//! let text = br#"{"traceEvents": [
//!   {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 1, "tid": 1, "ts": 0, "dur": 20},
//!   {"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 1, "tid": 1, "ts": 5, "dur": 5, "args": {"correlation": 7}},
//!   {"ph": "X", "cat": "kernel", "name": "gemm", "pid": 0, "tid": 7, "ts": 12, "dur": 30, "args": {"correlation": 7}}
//! ]}"#;
//! let trace = Trace::parse(text)?;
//! let tree = Tree::build(&trace, TreeOptions::default());
//! let mm = trace.event(0).unwrap();
//! assert_eq!(tree.gpu_events(mm).len(), 1);
//! let timeline = Timeline::<Ns>::of(&trace, &Population::All.of(&trace, &tree), None).unwrap();
//! assert_eq!(timeline.computation, Ns(30_000));
//! # Ok::<(), jarvis_trace::ReadError>(())
//! ```

mod builder;
mod clock;
pub mod copies;
mod devices;
pub mod diagnostics;
mod few;
mod ingest;
pub mod interval;
mod model;
mod order;
pub mod overlap;
pub mod parity;
pub mod pyliteral;
mod shortened;
pub mod side_by_side;
mod spelled;
mod summary;
pub mod timeline;
pub mod tree;

pub use builder::{BuilderArg, EventBuilder, TraceBuilder};
pub use clock::{Clock, Us};
pub use copies::CopyLink;
pub use devices::Device;
pub use diagnostics::{At, DIAGNOSTICS, Defect, Diagnostic, Diagnostics, Severity};
pub use few::Few;
pub use ingest::{Limits, NOT_TRACES, NotATrace, ReadError, ReadOptions};
pub use interval::IntervalSet;
pub use model::{Arg, ClassId, EventId, EventKind, Facts, Id, Key, Ns, Place, StrId, Strings, Trace, Track, TrackId};
pub use order::InOrder;
pub use overlap::Overlaps;
pub use parity::{Fidelity, Nesting};
pub use shortened::shortened;
pub use spelled::{is_obeyed, spelled};
pub use summary::{Names, Step, Summary, TrackSummary, Vendor};
pub use timeline::{GpuWork, Population, Timeline};
pub use tree::{PythonFrames, Tree, TreeOptions, TreeView};
