//! Tables and documents to bytes, one format a file.

pub mod csv;
pub mod markdown;
pub mod merged_tree;
pub(crate) mod names;
pub mod op_map;
pub mod xlsx;
