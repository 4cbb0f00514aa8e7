//! The system tier: the GPU waits. Idle time, copies, communication, and what the host has to do with it.
//!
//! [`System::of`] prepares everything once from a trace; analyzers read [`System`] and never the trace:
//! [`cpu_idle`] and [`multi_kernel`] make the files, [`findings`] the findings.

mod activity;
mod classify;
pub mod communication;
mod compiled;
pub mod copies;
mod copy_findings;
pub mod cpu_idle;
pub(crate) mod direction;
mod findings;
pub mod first_calls;
#[cfg(test)]
pub(crate) mod fixture;
mod flags;
pub mod gaps;
pub mod host_bound;
mod idle_findings;
pub mod kernels;
mod launch_actions;
pub mod multi_kernel;
pub mod multi_kernel_data;
mod prepare;
mod recomputation;
mod recording;
mod rerun;
mod schedule;
pub(crate) mod selections;
mod severity;
pub(crate) mod slices;
mod small_copies;
pub mod texts;
pub(crate) mod turns;

pub use direction::CopyDirection;
pub use findings::findings;
pub use prepare::System;
pub use severity::Severity;
