//! GPU performance analyst for PyTorch profiler traces: the facade over the pipeline, and its command line.

pub mod cli;
pub mod exit;
pub mod output;
pub mod pipeline;

pub use jarvis_trace as trace;
