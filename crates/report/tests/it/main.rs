//! Tests of the renderers against other programs' readers.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]
#![allow(clippy::print_stdout, reason = "a test tells what it skips")]

mod analysis_md;
mod data;
mod hostile;
mod hostile_workbook;
mod markdown_rules;
mod office;
mod patterns;
mod reports;
mod runs;
mod support;
mod workbook;
