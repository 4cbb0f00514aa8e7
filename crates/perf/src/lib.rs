//! What every operation should have cost: models, platforms and tables.
//!
//! ```
//! use jarvis_perf::platform::Platform;
//! use jarvis_perf::tables::{ReportOptions, build_report};
//! use jarvis_trace::TraceBuilder;
//!
//! let mut b = TraceBuilder::new();
//! b.cpu_op("aten::mm", 0.0, 50.0)
//!     .arg("Input Dims", "[[1024, 1024], [1024, 1024]]")
//!     .arg("Input type", r#"["c10::BFloat16", "c10::BFloat16"]"#);
//! b.launch("cudaLaunchKernel", 10.0, 5.0, 1);
//! b.kernel("gemm", 20.0, 12.5, 1);
//! let options = ReportOptions { platform: Some(Platform::find("H200")?.clone()), ..ReportOptions::default() };
//! let report = build_report(&b.build(), &options)?;
//! let model = report.rows.unified.rows[0].model.as_ref().unwrap();
//! // 2 · 1024³ floating-point operations.
//! assert_eq!(model.gflops, Some(2.147483648));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub mod args;
pub mod calculator;
pub mod call;
pub mod count;
pub mod dtype;
mod expr;
pub mod extension;
pub mod kernels;
pub mod launch;
pub mod literal;
pub mod models;
pub mod nearest;
pub mod ops;
pub mod parity;
pub mod platform;
pub mod roofline;
pub mod settings_text;
pub mod tables;
pub mod value;
