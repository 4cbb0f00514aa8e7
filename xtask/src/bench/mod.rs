//! `cargo xtask bench`: how fast `jarvis` reads traces, as a ratio to what inflating them costs on the same machine in
//! the same minutes. Candidates take turns, so that a slow moment hits all of them.

mod candidates;
mod command;
pub(crate) mod gate;
pub(crate) mod inflate;
mod instructions;
mod measure;
pub(crate) mod memory;
mod table;
mod trace;

pub(crate) use command::{Args, run};
