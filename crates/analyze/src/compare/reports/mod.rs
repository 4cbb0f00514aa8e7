//! Comparison of finished reports, sheet by sheet.
//!
//! Every sheet has key columns and metrics ([`sheets`]). Rows are joined on the keys ([`join`]), each metric gets its
//! difference and percentage, and sheets of operations are split into what both reports have and what only one has
//! ([`split`]). Tables come from memory, or from the bytes of CSV files and workbooks ([`read`]).

mod aggregate;
mod compare;
mod join;
pub mod read;
mod sheets;
mod split;

pub use compare::{CompareError, CompareOptions, Comparison, NamedReport, compare_tables};
pub use sheets::{SHEET_GROUPS, SheetGroup};
