//! Tables to bytes, one format a file.

pub mod csv;
mod names;
mod number;
pub mod xlsx;
