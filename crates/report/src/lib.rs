//! Turns values into the bytes of output files. Nothing here opens a file: who calls decides where the bytes go.
//!
//! ```
//! use jarvis_perf::tables::{ReportOptions, build_report};
//! use jarvis_report::render::csv;
//! use jarvis_trace::TraceBuilder;
//!
//! let mut b = TraceBuilder::new();
//! b.cpu_op("aten::add", 0.0, 50.0);
//! b.launch("cudaLaunchKernel", 10.0, 5.0, 1);
//! b.kernel("add", 20.0, 100.0, 1);
//! let report = build_report(&b.build(), &ReportOptions::default())?;
//! let tables = report.tables();
//! let files: Vec<_> = csv::files(&tables, "csvs", csv::Texts::Guarded).collect();
//! assert_eq!(files[0].path.to_str(), Some("csvs/gpu_timeline.csv"));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub mod blocks;
pub mod check;
mod checksum;
pub mod data;
pub mod html;
pub mod language;
mod output;
pub mod render;
pub mod replay;
mod run;
pub mod sections;

pub use checksum::{Checksum, RunningChecksum};
pub use output::{OutputFile, Pieces, Taker, in_memory};
pub use run::{ReplayEntry, Run, RunLabels, Versus};
