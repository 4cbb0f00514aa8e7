//! GPU performance analyst for PyTorch profiler traces: the facade over the pipeline, and its command line.
//!
//! The stages are crates of their own and can be used one by one: [`trace`] reads and nests, [`perf`] says what the work
//! should have cost, [`analyze`] judges, [`report`] renders. [`pipeline`] is the whole way. `examples/` has a program
//! for each.
//!
//! ```
//! use jarvis::perf::platform::Platform;
//! use jarvis::pipeline::{AnalyzeOptions, ReplayChoice, analyze};
//! use jarvis::trace::{ReadOptions, Trace};
//!
//! # let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/h200/attn_unfused.json.gz");
//! let trace = Trace::open(path.as_ref(), &ReadOptions::default())?;
//! let analyzed = analyze(
//!     trace,
//!     &AnalyzeOptions {
//!         platform: Platform::find("H200")?.clone(),
//!         labels: Default::default(),
//!         extension: None,
//!         thresholds: Default::default(),
//!         replay: ReplayChoice::None,
//!         emit: Vec::new(),
//!     },
//! )?;
//! let first = &analyzed.analysis.findings[0];
//! assert_eq!(first.title, "Unfused attention in `Attention`");
//! assert!(first.impact.saved_ms.low <= first.impact.saved_ms.high);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub mod cli;
pub mod exit;
pub mod output;
pub mod pipeline;

pub use jarvis_analyze as analyze;
pub use jarvis_perf as perf;
pub use jarvis_report as report;
pub use jarvis_trace as trace;
