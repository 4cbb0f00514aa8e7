//! Comparison, in two ways that do not need each other.
//!
//! - [`reports`] joins the tables of two or more finished reports on operation names and arguments.
//! - [`tree`] aligns the call trees of two traces and finds, for GPU work that differs, the lowest call that both have.
//!
//! Both are right by default; under [`jarvis_trace::Fidelity::Reference`] they agree with the reference's outputs. What
//! differs stands in [`parity`].

pub mod parity;
pub mod reports;
pub mod tree;
