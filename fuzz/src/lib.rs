//! Fuzzing: what is fed (`corpus`), how it is spoilt (`mutate`), who has to bear it (`targets`).
//!
//! Each target is one function from bytes to nothing: it panics if the program does, or if what must hold of every
//! result does not. Two runners share them. `tests/smoke.rs` is bounded, has fixed seeds and runs with all tests;
//! `libfuzzer/` is a workspace of its own, follows coverage and runs as long as somebody lets it. `docs/reliability.md`
//! has the commands and the figures.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a panic is how a target says that something is wrong")]
#![allow(clippy::missing_panics_doc, reason = "panics are what targets are for")]

mod analysis;
pub mod corpus;
mod dice;
mod files;
mod ingest;
pub mod mutate;
pub mod targets;
mod tree;

pub use dice::Dice;
pub use targets::{TARGETS, Target};
