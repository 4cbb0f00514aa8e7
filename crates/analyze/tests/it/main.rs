//! Integration tests of the analysis on real traces. Those of the project stand in `fixtures/`; others are read where
//! they are present and skipped with a word where not.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[cfg(test)]
mod comparative;
mod compare_reports;
#[cfg(test)]
mod compare_tree;
#[cfg(test)]
mod oracles;
#[cfg(test)]
mod pairs;
#[cfg(test)]
mod patterns;
#[cfg(test)]
mod soundness;
#[cfg(test)]
mod support;
#[cfg(test)]
mod system;
