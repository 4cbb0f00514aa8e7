//! Tests of the renderers against other programs' readers.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

mod data;
mod hostile;
mod markdown_rules;
mod office;
mod reports;
mod runs;
mod support;
mod workbook;
