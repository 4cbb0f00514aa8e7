//! `index.json`: what the packages hold and what is in none of them.

use std::fmt::Write as _;

use serde::Serialize;
use sha2::{Digest, Sha256};

use super::describe::rounded;
use super::layout;
use super::select::{Op, Tier};

/// Form of the file.
const SCHEMA_VERSION: u32 = 1;

/// A package.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PackageInfo {
    /// File name.
    pub package: String,
    /// Operation.
    pub op_name: String,
    /// Why it was made.
    pub tier: Tier,
    /// Number of entries.
    pub entries: usize,
    /// Number of calls that the entries stand for.
    #[serde(skip)]
    pub calls: usize,
    /// Kernel time of all calls of the entries.
    pub time_ms: f64,
    /// Share of the time in which some kernel computes.
    pub percent_of_compute: f64,
    /// The best time in percent of the time taken, over the entries that have one.
    pub efficiency_percent: Option<f64>,
    /// Digest of the file.
    pub sha256: String,
    /// What had to be guessed, each once.
    pub assumptions: Vec<String>,
}

/// A row in no package.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Skipped {
    /// Operation.
    pub op_name: String,
    /// Arguments in one line.
    pub args: String,
    /// Kernel time of its calls.
    pub time_ms: f64,
    /// Why.
    pub reason: String,
}

#[derive(Serialize)]
struct Index<'a> {
    schema_version: u32,
    packages: &'a [PackageInfo],
    skipped: &'a [Skipped],
}

/// The bytes of the file.
pub(crate) fn render(packages: &[PackageInfo], skipped: &[Skipped]) -> Result<Vec<u8>, serde_json::Error> {
    Ok(layout::to_string(&Index { schema_version: SCHEMA_VERSION, packages, skipped })?.into_bytes())
}

/// What a package holds.
pub(crate) fn info(op: &Op<'_>, file: &str, bytes: &[u8]) -> PackageInfo {
    let with_roof =
        op.entries.iter().filter_map(|e| Some((e.row.roofline_us? * e.row.count as f64, e.row.kernel_us.sum)));
    let (roof, taken) = with_roof.fold((0.0, 0.0), |sum, (roof, us)| (sum.0 + roof, sum.1 + us));
    let mut assumptions: Vec<String> = Vec::new();
    for text in op.entries.iter().flat_map(|e| &e.rebuilt.assumptions) {
        if !assumptions.contains(text) {
            assumptions.push(text.clone());
        }
    }
    PackageInfo {
        package: file.to_owned(),
        op_name: op.name.to_owned(),
        tier: op.tier,
        entries: op.entries.len(),
        calls: op.entries.iter().map(|e| e.row.count).sum(),
        time_ms: rounded(op.us() / 1e3),
        percent_of_compute: rounded(op.entries.iter().map(|e| e.row.percent_of_compute).sum()),
        efficiency_percent: (taken > 0.0).then(|| rounded(100.0 * roof / taken)),
        sha256: hex(&Sha256::digest(bytes)),
        assumptions,
    }
}

/// Bytes as hexadecimal digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}
