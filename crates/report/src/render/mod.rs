//! Tables and documents to bytes, one format a file.

pub mod csv;
pub(crate) mod glyphs;
pub mod markdown;
pub mod merged_tree;
pub(crate) mod names;
pub mod op_map;
pub(crate) mod png;
pub(crate) mod raster;
mod row;
pub mod xlsx;

pub use row::TextRow;
