//! The machine-readable files of an analysis: tables and JSON, one file a function.

use crate::{OutputFile, Run};

/// All of them.
pub fn files(_run: &Run<'_>) -> Vec<OutputFile> {
    Vec::new()
}
