//! Tables and documents to bytes, one format a file.

pub mod csv;
pub mod markdown;
mod names;
mod number;
pub mod xlsx;
