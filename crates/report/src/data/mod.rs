//! The machine-readable files of an analysis: tables and JSON. Field names and their order are stable; `schemas/` has
//! a JSON Schema of each kind of file.
//!
//! JSON is written straight from the values of the analysis: two spaces, keys in the order of the fields, numbers
//! rounded as they are written, no value that is not a number. Metrics, with thousands of operations in some traces, have a
//! line for each field of an operation and none for what it holds.

mod categories;
mod comparison;
mod findings;
mod lines;
mod manifest;
mod ops_csv;
mod stems;
mod system;

use std::io::{self, Write as _};

use serde::Serialize;
use serde_json::Serializer;

use lines::Lines;
pub use ops_csv::{OpsCsv, OpsFiles};
pub use stems::Stems;

use crate::{OutputFile, Pieces, Run, Taker, Versus, in_memory};

/// The folder of what is known about each category.
pub const CATEGORY_DATA: &str = "category_data";

/// The folder of what each analyzer was given.
pub(crate) const METADATA: &str = "metadata";

/// The manifest, at the root and again in [`CATEGORY_DATA`], where older readers look.
pub(crate) const MANIFEST: &str = "category_manifest.json";

/// The machine form of the findings.
pub(crate) const FINDINGS: &str = "findings.json";

/// Both sides of a comparison.
pub(crate) const COMPARISON: &str = "category_data/comparison_metrics.json";

/// What the model seems to be.
pub(crate) const MODEL_INFO: &str = "metadata/model_info.json";

/// All of them but [`OpsCsv`], which is written beside a sheet.
pub fn files(run: &Run<'_>) -> Vec<OutputFile> {
    let mut files = Vec::new();
    each_file(run, &mut files);
    files
}

/// The same, each as soon as it is made.
pub fn each_file(run: &Run<'_>, taker: &mut dyn Taker) {
    write(run, None, taker);
}

/// Likewise all of a comparison: those of the target, with what the reference adds.
pub fn compared_files(versus: &Versus<'_>) -> Vec<OutputFile> {
    let mut files = Vec::new();
    write(&versus.target, Some(versus), &mut files);
    files.push(OutputFile::new(COMPARISON, json(&comparison::metrics(versus))));
    files
}

fn write(run: &Run<'_>, versus: Option<&Versus<'_>>, taker: &mut dyn Taker) {
    let stems = Stems::of(run.analysis);
    let mut manifest = manifest::manifest(run, &stems);
    manifest.reference = versus.map(|v| comparison::manifest_reference(&v.reference));
    let manifest = json(&manifest);
    taker.put(OutputFile::new(MANIFEST, manifest.clone()));
    taker.put(OutputFile::new(format!("{CATEGORY_DATA}/{MANIFEST}"), manifest));
    for file in system::files(run) {
        taker.put(file);
    }
    categories::write(run, &stems, taker);
    taker.put(OutputFile::new(MODEL_INFO, json(&run.analysis.prepared.model)));
    taker.put(OutputFile::new(FINDINGS, json(&findings::document(run, versus))));
}

/// A value as the bytes of a JSON file.
pub(crate) fn json(value: &impl Serialize) -> Vec<u8> {
    in_memory(&|pieces| write_json(value, pieces))
}

/// Writes a value as a JSON file.
fn write_json(value: &impl Serialize, out: &mut Pieces<'_>) -> io::Result<()> {
    write_json_in(Lines::default(), value, out)
}

/// The same in this layout.
fn write_json_in(lines: Lines, value: &impl Serialize, out: &mut Pieces<'_>) -> io::Result<()> {
    // All keys are texts or whole numbers, so nothing but the writing can fail.
    value.serialize(&mut Serializer::with_formatter(&mut *out, lines))?;
    out.write_all(b"\n")
}

/// A value with the version of its file before it.
#[derive(Debug, Serialize)]
struct Versioned<T> {
    schema_version: u32,
    #[serde(flatten)]
    body: T,
}

impl<T> Versioned<T> {
    fn new(body: T) -> Self {
        Self { schema_version: jarvis_analyze::metrics::SCHEMA_VERSION, body }
    }
}
