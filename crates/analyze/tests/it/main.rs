//! Integration tests of the analysis on real traces. Those of the project stand in `fixtures/`; others are read where
//! they are present and skipped with a word where not.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(clippy::print_stdout, reason = "a test tells what it skips")]

mod comparative;
mod compare_reports;
mod compare_tree;
mod oracles;
mod pairs;
mod patterns;
mod soundness;
mod support;
mod system;
