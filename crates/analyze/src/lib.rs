//! From tables to findings: what is slow, why it matters, what to change.

pub mod finding;
pub mod prepared;
pub mod program;
pub mod rounding;
pub mod system;
