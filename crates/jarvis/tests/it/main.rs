//! The command line, run as a user runs it.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

mod inspect;
mod reference;
mod report;
mod support;
