//! From tables to findings: what is slow, why it matters, what to change.

pub mod analysis;
pub mod comparative;
pub mod compare;
pub mod explain;
pub mod finding;
pub mod lowering;
pub mod metrics;
pub mod pairs;
pub mod patterns;
pub mod prepare;
pub mod prepared;
pub mod program;
pub mod rank;
pub mod rounding;
pub mod rules;
pub mod system;
#[cfg(test)]
mod testing;
pub mod texts;
pub mod thresholds;
