//! The command line, run as a user runs it.
#![allow(clippy::expect_used, reason = "a test that can't run the binary has failed")]
#![allow(clippy::print_stdout, reason = "what is skipped is said")]

mod analyze;
mod check;
mod compare;
mod inspect;
mod reference;
mod replay;
mod report;
mod support;
mod versus;
