//! Tests of the renderers against other programs' readers, and of the machine files against their schemas.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

mod data;
mod office;
mod runs;
mod support;
mod workbook;
