//! The list of targets: what each reads, what it begins with and how that is spoilt.

use crate::mutate::Form;
use crate::{analysis, corpus, files, ingest, tree};

/// Something that has to bear any input.
#[derive(Debug, Clone, Copy)]
pub struct Target {
    /// Name of the target, and of its binary in `libfuzzer/`.
    pub name: &'static str,
    /// Bears the input, or panics.
    pub run: fn(&[u8]),
    /// Inputs to begin with.
    pub seeds: fn() -> Vec<Vec<u8>>,
    /// How they are spoilt.
    pub form: Form,
    /// Inputs of the bounded run.
    pub smoke: u64,
}

/// All targets.
#[rustfmt::skip]
pub const TARGETS: &[Target] = &[
    Target { name: "ingest",    run: ingest::ingest,     seeds: corpus::containers,        form: Form::Json,  smoke: 2000 },
    Target { name: "split",     run: ingest::split,      seeds: corpus::events,            form: Form::Json,  smoke: 8 },
    Target { name: "tree",      run: tree::tree,         seeds: || corpus::traces().to_vec(), form: Form::Json, smoke: 1000 },
    Target { name: "tables",    run: analysis::tables,   seeds: || corpus::traces().to_vec(), form: Form::Json, smoke: 100 },
    Target { name: "analyze",   run: analysis::analyze,  seeds: || corpus::traces().to_vec(), form: Form::Json, smoke: 40 },
    Target { name: "versus",    run: analysis::versus,   seeds: || corpus::traces().to_vec(), form: Form::Json, smoke: 12 },
    Target { name: "extension", run: files::extension,   seeds: corpus::extensions,        form: Form::Lines, smoke: 2000 },
    Target { name: "settings",  run: files::settings,    seeds: corpus::settings,          form: Form::Lines, smoke: 2000 },
    Target { name: "reports",   run: files::reports,     seeds: corpus::reports,           form: Form::Named, smoke: 200 },
    Target { name: "folder",    run: files::folder,      seeds: corpus::outputs,           form: Form::Named, smoke: 100 },
];

impl Target {
    /// The target of this name.
    pub fn find(name: &str) -> Option<&'static Self> {
        TARGETS.iter().find(|t| t.name == name)
    }
}
