//! Reads PyTorch profiler traces into columns and builds the call tree.
//!
//! The facts of a recording and nothing more: no operation and no GPU is known here.

mod builder;
mod clock;
pub mod diagnostics;
mod ingest;
pub mod interval;
mod model;
pub mod overlap;
pub mod parity;
pub mod pyliteral;
mod summary;
pub mod timeline;
pub mod tree;

pub use builder::{BuilderArg, EventBuilder, TraceBuilder};
pub use clock::{Clock, Us};
pub use diagnostics::{At, DIAGNOSTICS, Defect, Diagnostic, Diagnostics, Severity};
pub use ingest::{Limits, NOT_TRACES, NotATrace, ReadError, ReadOptions};
pub use interval::IntervalSet;
pub use model::{Arg, ClassId, EventId, EventKind, Facts, Id, Key, Ns, Place, StrId, Strings, Trace, Track, TrackId};
pub use overlap::Overlaps;
pub use parity::{Fidelity, Nesting};
pub use summary::{Device, Names, Step, Summary, TrackSummary, Vendor};
pub use timeline::{GpuWork, Population, Timeline};
pub use tree::{PythonFrames, Tree, TreeOptions, TreeView};
