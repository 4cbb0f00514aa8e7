//! `analysis.md` and what belongs to it: the one report of the newest form of the reference, for readers and programs
//! that expect that form. It is written only if it is asked for, from the same [`Run`] as the other reports.

mod document;
mod groups;
mod plan;
mod plot;
mod priority;
mod score;

use crate::data::json;
use crate::render::{markdown, png};
use crate::{OutputFile, Run};
pub(crate) use document::{COLUMNS, NO_OPERATIONS};
use plan::Plan;

/// The report.
pub(crate) const REPORT: &str = "analysis.md";
/// The numbers behind it.
pub(crate) const PRIORITY_DATA: &str = "priority_data.json";
/// What each recommendation brings, as a picture, and the same as text.
pub(crate) const PLOT: &str = "perf_improvement.png";
pub(crate) const PLOT_TEXT: &str = "perf_improvement_base64.txt";

/// All of them. Without recommendations there is nothing to draw.
pub fn files(run: &Run<'_>) -> Vec<OutputFile> {
    let plan = Plan::of(run);
    let mut files = vec![
        OutputFile::new(REPORT, markdown::render(&document::blocks(run, &plan))),
        OutputFile::new(PRIORITY_DATA, json(&priority::data(run, &plan))),
    ];
    if let Some(picture) = plot::picture(&plan.recommendations) {
        files.push(OutputFile::new(PLOT_TEXT, format!("{}\n", png::base64(&picture)).into_bytes()));
        files.push(OutputFile::new(PLOT, picture));
    }
    files
}
