//! Integration tests of the trace crate: one binary.

mod golden;
mod links;
mod nesting;
mod oracle;
mod queries;
mod scale;
mod support;
mod timelines;
