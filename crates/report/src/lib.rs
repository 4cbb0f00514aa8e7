//! Turns values into the bytes of output files. Nothing here opens a file: who calls decides where the bytes go.

pub mod language;
mod output;
pub mod render;
pub mod replay;

pub use output::OutputFile;
