//! Integration tests of the trace crate: one binary, a module per subject.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "what tests share is not marked as test code"
)]

mod damage;
mod edge_cases;
mod golden;
mod impossible;
mod limits;
mod links;
mod nesting;
mod oracle;
mod queries;
mod reading;
mod scale;
mod support;
mod timelines;
mod truncation;
