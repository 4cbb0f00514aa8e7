//! The command line, run as a user runs it.
#![allow(clippy::expect_used, reason = "a test that can't run the binary has failed")]

mod analyze;
mod inspect;
mod page;
mod reference;
mod report;
mod support;
