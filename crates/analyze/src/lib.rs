//! From tables to findings: what is slow, why it matters, what to change.
