//! Reads PyTorch profiler traces into columns and builds the call tree.
//!
//! The facts of a recording and nothing more: no operation and no GPU is known here.

mod builder;
pub mod diagnostics;
mod ingest;
mod model;

pub use builder::{BuilderArg, EventBuilder, TraceBuilder};
pub use diagnostics::{At, DIAGNOSTICS, Defect, Diagnostic, Diagnostics, Severity};
pub use ingest::{NOT_TRACES, NotATrace, ReadError, ReadOptions};
pub use model::{Arg, ClassId, EventId, EventKind, Facts, Id, Key, Ns, Place, StrId, Strings, Trace, Track, TrackId};
