//! `index.json`: what the packages hold and what is in none of them.

use std::fmt::Write as _;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use jarvis_analyze::rounding;
use jarvis_trace::InOrder;

use super::rows::Row;
use super::select::{Op, Tier};
use super::{entry, layout};

/// Form of the file.
const SCHEMA_VERSION: u32 = 1;

/// By how much equal times differ once they are written: in the index to three decimals, in tables to some more.
const ROUNDED_MS: f64 = 6e-4;

/// A package.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
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
    #[serde(serialize_with = "rounding::as_ms")]
    pub time_ms: f64,
    /// Share of the time in which some kernel computes.
    #[serde(serialize_with = "rounding::as_percent")]
    pub percent_of_compute: f64,
    /// The best time in percent of the time taken, over the entries that have one.
    #[serde(serialize_with = "rounding::as_some_percent")]
    pub efficiency_percent: Option<f64>,
    /// Digest of the file.
    pub sha256: String,
    /// What had to be guessed, each once.
    pub assumptions: Vec<String>,
}

/// A row in no package.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Skipped {
    /// Operation.
    pub op_name: String,
    /// Arguments in one line.
    pub args: String,
    /// Kernel time of its calls.
    #[serde(serialize_with = "rounding::as_ms")]
    pub time_ms: f64,
    /// Why.
    pub reason: String,
    /// Whether it could be. Not told in the file, where the reason says it.
    #[serde(skip)]
    pub(crate) cause: Cause,
}

/// Why a row is in no package.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Cause {
    /// None can be made of it.
    #[default]
    Impossible,
    /// Others come first, and there are as many as are wanted.
    NotSelected,
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

/// What an earlier `index.json` lists.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
pub struct Listed {
    /// Packages.
    pub packages: Vec<PackageInfo>,
    /// Rows in none of them.
    #[serde(default)]
    pub skipped: Vec<Skipped>,
}

impl Listed {
    /// Reads the file; `None` if it is none.
    pub fn read(index: &[u8]) -> Option<Self> {
        serde_json::from_slice(index).ok()
    }
}

impl PackageInfo {
    /// Whether it may be a package of these rows: its calls take the time that the largest of them do. Tables know no
    /// operations around their rows, so one that they do not have may still be of their trace.
    pub fn may_be_of(&self, rows: &[Row], are_of_tables: bool) -> bool {
        let own: Vec<(&str, f64)> = rows
            .iter()
            .filter_map(|row| entry(row).ok())
            .filter(|e| e.op == self.op_name)
            .map(|e| (&*e.row.op, e.row.kernel_us.sum))
            .collect();
        // An operation may also stand for others, and then be packaged for one of them alone.
        let fits = |of: Option<&str>| {
            let mut us: Vec<f64> = own.iter().filter(|(op, _)| of.is_none_or(|of| of == *op)).map(|o| o.1).collect();
            us.order_by(|a, b| b.total_cmp(a));
            let ms: f64 = us.iter().take(self.entries).sum::<f64>() / 1e3;
            !us.is_empty() && us.len() >= self.entries && (ms - self.time_ms).abs() <= ROUNDED_MS
        };
        own.is_empty() && are_of_tables || fits(None) || own.iter().any(|(op, _)| fits(Some(op)))
    }
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
        time_ms: op.us() / 1e3,
        percent_of_compute: op.entries.iter().map(|e| e.row.percent_of_compute).sum(),
        efficiency_percent: (taken > 0.0).then(|| 100.0 * roof / taken),
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
