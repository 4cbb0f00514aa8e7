//! The command line, run as a user runs it.
#![allow(clippy::expect_used, clippy::unwrap_used, reason = "a test that can't run the binary has failed")]
#![allow(clippy::case_sensitive_file_extension_comparisons, reason = "the program writes the names itself")]
#![allow(clippy::print_stdout, reason = "what is skipped is said")]

mod analyze;
mod check;
mod compare;
mod examples;
mod first_minutes;
mod inspect;
mod numbers;
mod page;
mod reference;
mod replay;
mod report;
mod requirements;
mod requirements_cli;
mod requirements_rules;
mod requirements_run;
mod self_check;
mod support;
mod traces;
mod versus;
