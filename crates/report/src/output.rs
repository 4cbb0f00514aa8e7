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
    pub fn new(path: impl Into<PathBuf>, mut bytes: Vec<u8>) -> Self {
        // It is kept until all are written, so it takes no more room than it must.
        bytes.shrink_to_fit();
        Self { path: path.into(), bytes }
    }
}
