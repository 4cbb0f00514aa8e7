//! The command line, run as a user runs it.
#![allow(clippy::expect_used, clippy::unwrap_used, reason = "a test that can't run the binary has failed")]
#![allow(clippy::case_sensitive_file_extension_comparisons, reason = "the program writes the names itself")]
#![allow(clippy::print_stdout, reason = "what is skipped is said")]

mod analysis_md;
mod analyze;
mod check;
mod compare;
mod disorder;
mod edge_cases;
mod examples;
mod first_minutes;
mod forms;
mod inspect;
mod limits;
mod numbers;
mod page;
mod reference;
mod reliability;
#[cfg(target_os = "linux")]
mod remote;
mod replay;
mod report;
mod requirements;
mod requirements_cli;
mod requirements_pages;
mod requirements_rules;
mod requirements_run;
mod security;
mod self_check;
mod support;
mod traces;
mod truncation;
mod versus;
mod versus_matching;
mod versus_timeline;
mod versus_verdicts;
