//! Tests of the renderers against other programs' readers.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

mod hostile_workbook;
mod office;
mod support;
mod workbook;
