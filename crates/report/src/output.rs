//! `OutputFile`: what every renderer returns.

use std::path::PathBuf;

/// A file to be written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutputFile {
    /// Where, relative to the output folder; never absolute, never with `..`.
    pub path: PathBuf,
    /// All of it.
    pub bytes: Vec<u8>,
}

impl OutputFile {
    /// The file `path` with these bytes.
    pub fn new(path: impl Into<PathBuf>, bytes: Vec<u8>) -> Self {
        Self { path: path.into(), bytes }
    }
}
