//! Replay packages: zips with which a slow operation can be run again on any machine that has PyTorch, without the
//! model and without jarvis. Nothing here decides which operations matter: who calls selects them.
//!
//! A package holds operation names, shapes, types, strides, numbers, kernel names and times. It holds no names of
//! modules, files, hosts or users, and no text arguments.

mod describe;
pub(crate) mod index;
mod inputs;
mod ir;
mod layout;
mod package;
mod readme;
mod rows;
mod schema;
mod select;
mod values;
mod words;

use jarvis_perf::platform::Platform;
use jarvis_trace::InOrder;

pub use index::{Listed, PackageInfo, Skipped};
pub use inputs::{Input, Sizes};
pub use package::Replayer;
pub use rows::{Kernel, Row, of_csv, of_report, of_report_where};
pub use select::{Matching, Selection, Tier, Wanted};
pub(crate) use words::in_report;

use crate::OutputFile;
use ir::{Rebuilt, rebuild};
use select::Chosen;

/// Folder of the packages in the output folder.
pub const FOLDER: &str = "replay_packages";

/// What the packages in it hold.
pub const INDEX: &str = "index.json";

/// Share of an operation's time that the entries of its package cover.
const COVERED: f64 = 0.95;

/// Where the times come from.
#[derive(Debug, Clone, Copy, Default)]
pub struct Origin<'a> {
    /// The peaks that efficiency was measured against.
    pub platform: Option<&'a Platform>,
    /// The device of the trace.
    pub device_name: Option<&'a str>,
}

/// The packages of a selection.
#[derive(Debug, Clone)]
pub struct Packages {
    /// The zips.
    pub files: Vec<OutputFile>,
    /// `index.json`.
    pub index: OutputFile,
    /// What the zips hold, in their order.
    pub packages: Vec<PackageInfo>,
    /// What was selected and is in none of them.
    pub skipped: Vec<Skipped>,
    /// Names that the user gave and no operation has; among what is skipped too.
    pub missed: Vec<String>,
}

impl Packages {
    /// `index.json` with what an earlier run listed and this one did not make again.
    pub fn index_with(&self, earlier: &Listed) -> Result<OutputFile, ReplayError> {
        let made = |name: &str| self.packages.iter().any(|p| p.package == name || p.op_name == name);
        let known = |s: &Skipped| self.skipped.iter().any(|own| own.op_name == s.op_name && own.args == s.args);
        let mut packages = self.packages.clone();
        packages.extend(earlier.packages.iter().filter(|p| !made(&p.package)).cloned());
        packages.order_by(|a, b| b.time_ms.total_cmp(&a.time_ms).then_with(|| a.op_name.cmp(&b.op_name)));
        let mut skipped = self.skipped.clone();
        skipped.extend(earlier.skipped.iter().filter(|s| !made(&s.op_name) && !known(s)).cloned());
        skipped.order_by(|a, b| b.time_ms.total_cmp(&a.time_ms).then_with(|| a.op_name.cmp(&b.op_name)));
        Ok(OutputFile::new(format!("{FOLDER}/{INDEX}"), index::render(&packages, &skipped)?))
    }
}

/// A package could not be made.
#[derive(Debug, thiserror::Error)]
pub enum ReplayError {
    /// The zip could not be made.
    #[error("the replay package could not be made: {0}")]
    Zip(#[from] zip::result::ZipError),
    /// A member of the zip could not be written.
    #[error("the replay package could not be made: {0}")]
    Write(#[from] std::io::Error),
    /// The data could not be written as JSON.
    #[error("the replay data could not be written: {0}")]
    Json(#[from] serde_json::Error),
}

/// A row that could be packaged, and how its call is made again.
#[derive(Debug, Clone)]
pub(crate) struct Entry<'r> {
    pub(crate) row: &'r Row,
    /// Operation that is called: the row's, or one around it.
    pub(crate) op: &'r str,
    pub(crate) inputs: &'r [Input],
    pub(crate) rebuilt: Rebuilt,
}

impl Entry<'_> {
    /// What the report's row is called, where another operation is called in its place.
    pub(crate) fn substituted_for(&self) -> Option<&str> {
        match &self.row.substituted_for {
            Some(name) => Some(name),
            None => (self.op != &*self.row.op).then_some(&*self.row.op),
        }
    }
}

/// How a row's call is made again: by itself, else by an operation around it with the same kernels. The error is that
/// of the row's own operation.
pub(crate) fn entry(row: &Row) -> Result<Entry<'_>, String> {
    let own = rebuild(&row.op, row, row.inputs.as_deref());
    let refusal = match (own, &row.inputs) {
        (Ok(rebuilt), Some(inputs)) => return Ok(Entry { row, op: &row.op, inputs, rebuilt }),
        (Ok(_), None) => words::NO_SHAPES.to_owned(),
        (Err(reason), _) => reason,
    };
    row.around
        .iter()
        .find_map(|(op, inputs)| {
            let inputs = inputs.as_deref()?;
            // An operation that jarvis does not know is no better than the one it stands for.
            let rebuilt = rebuild(op, row, Some(inputs)).ok().filter(|rebuilt| rebuilt.schema.is_some())?;
            Some(Entry { row, op, inputs, rebuilt })
        })
        .ok_or(refusal)
}

/// Why a row can't be replayed; of a generated kernel also where its source is, which may name who compiled it.
pub(crate) fn told(row: &Row, refusal: String, anonymous: bool) -> String {
    match &row.source {
        Some(source) if !anonymous && refusal == words::GENERATED => format!("{refusal} {source}"),
        _ => refusal,
    }
}

/// What could be packaged, for a list: every row with the reason why not, where it can't.
#[derive(Debug, Clone)]
pub struct Candidate<'r> {
    /// The row.
    pub row: &'r Row,
    /// Its arguments in one line.
    pub args: String,
    /// Why it can't be replayed.
    pub refusal: Option<String>,
}

/// All rows, those first that lose most time to the roof; rows without a roof follow by their time.
pub fn candidates<'r>(rows: &'r [Row], selection: &Selection) -> Vec<Candidate<'r>> {
    let selected = rows.iter().filter(|row| selection.tier_of(&row.op).is_some());
    let mut found: Vec<Candidate<'r>> = selected
        .map(|row| Candidate {
            row,
            args: describe::args(row.inputs.as_deref()),
            refusal: entry(row).err().map(|refusal| told(row, refusal, selection.anonymous)),
        })
        .collect();
    let key = |c: &Candidate<'_>| (c.row.lost_us().unwrap_or(-1.0), c.row.kernel_us.sum);
    found.order_by(|a, b| {
        let ((lost_a, sum_a), (lost_b, sum_b)) = (key(a), key(b));
        lost_b.total_cmp(&lost_a).then(sum_b.total_cmp(&sum_a))
    });
    found
}

/// The packages of the selected rows, most time first.
pub fn packages(
    rows: &[Row],
    selection: &Selection,
    origin: Origin<'_>,
    replayer: &Replayer,
) -> Result<Packages, ReplayError> {
    let chosen = Chosen::of(rows, selection);
    let mut names = package::Names::default();
    let (mut files, mut infos) = (Vec::new(), Vec::new());
    for op in &chosen.ops {
        let name = names.give(op.name);
        let bytes = package::zip(op, &name, origin, selection.anonymous, replayer)?;
        infos.push(index::info(op, &name, &bytes));
        files.push(OutputFile::new(format!("{FOLDER}/{name}"), bytes));
    }
    let index = OutputFile::new(format!("{FOLDER}/{INDEX}"), index::render(&infos, &chosen.skipped)?);
    Ok(Packages { files, index, packages: infos, skipped: chosen.skipped, missed: chosen.missed })
}

#[cfg(test)]
mod tests;
