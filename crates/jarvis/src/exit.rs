//! Exit statuses: part of the interface, so scripts can tell what happened.

/// Done. A category that failed is named under Warnings.
pub const OK: u8 = 0;
/// A gate the user asked for did not hold (`--fail-on`, or data loss under `--strict`).
pub const GATE: u8 = 1;
/// Wrong usage. (The argument parser uses the same number.)
pub const USAGE: u8 = 2;
/// The input is no usable trace.
pub const INPUT: u8 = 3;
/// The output could not be written.
pub const OUTPUT: u8 = 4;
/// The machine or container that was to run the analysis could not be reached or used.
pub const REMOTE: u8 = 5;
/// A fault of jarvis itself.
pub const FAULT: u8 = 70;
