//! Integration tests of the trace crate: one binary, a module per subject.

mod damage;
mod reading;
mod support;
