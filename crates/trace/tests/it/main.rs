//! Integration tests of the trace crate: one binary, a module per subject.

mod reading;
mod support;
