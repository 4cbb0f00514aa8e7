//! From tables to findings: what is slow, why it matters, what to change.
//!
//! ```
//! use jarvis_analyze::analysis::{Analysis, AnalysisOptions};
//! use jarvis_analyze::metrics::Scope;
//! use jarvis_perf::platform::Platform;
//! use jarvis_perf::tables::{ReportOptions, build_report};
//! use jarvis_trace::{Population, TraceBuilder};
//!
//! // The GPU waits for the host between two kernels.
//! let mut b = TraceBuilder::new();
//! for (i, at) in [0.0, 5_000.0].into_iter().enumerate() {
//!     b.cpu_op("aten::add", at, 50.0);
//!     b.launch("cudaLaunchKernel", at + 10.0, 5.0, i as i64 + 1);
//!     b.kernel("add", at + 20.0, 100.0, i as i64 + 1);
//! }
//! let (trace, platform) = (b.build(), Platform::find("H200")?.clone());
//! let report = build_report(&trace, &ReportOptions { platform: Some(platform.clone()), ..ReportOptions::default() })?;
//! let options =
//!     AnalysisOptions { thresholds: Default::default(), scope: Scope::Standalone, population: Population::Window };
//! let analysis = Analysis::of(&trace, &report, &platform, &options);
//! assert!(analysis.prepared.utilization.idle_time_percent > 90.0);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub mod analysis;
pub mod comparative;
pub mod compare;
pub mod explain;
pub mod finding;
pub mod lowering;
pub mod metrics;
pub mod pairs;
pub mod patterns;
pub mod prepare;
pub mod prepared;
pub mod program;
pub mod rank;
pub mod rounding;
pub mod rules;
pub mod system;
#[cfg(test)]
mod testing;
pub mod texts;
pub mod thresholds;
