//! `cargo xtask test`: the one command that checks everything, here and in CI. It needs cargo's registry and nothing
//! else from the network; what it cannot do on a machine it skips, and says so.

mod command;
mod deny;
mod file_sizes;
mod steps;

pub(crate) use command::{Args, run};
