//! Turns values into the bytes of output files. Nothing here opens a file: who calls decides where the bytes go.

pub mod blocks;
pub mod check;
pub mod data;
pub mod html;
pub mod language;
mod output;
pub mod render;
pub mod replay;
mod run;
pub mod sections;

pub use output::OutputFile;
pub use run::{ReplayEntry, Run, RunLabels, Versus};
