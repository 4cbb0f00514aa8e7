//! `report.html`: one file that opens from disk in any browser, and the pictures beside the Markdown reports.
//!
//! Rust makes everything that can be read: bars, cards, the roofline. The script adds what needs a reader: hovering,
//! sorting, searching, zooming. It gets its data as JSON and writes it with `textContent` only; all other text of a
//! trace goes through `Markup`, which escapes. A policy in the head of the page forbids every request, and every script
//! but the one that is shipped.

mod cards;
mod family;
mod icicle;
mod island;
mod markup;
mod operations;
mod overview;
mod page;
mod pictures;
mod plot;
mod roofline;
mod sections;
mod side;
mod source;
mod strip;
mod texts;
mod versus;
mod waterfall;

pub use source::Source;

use crate::{OutputFile, Run, Versus};
use side::Side;

/// The page.
pub const PAGE: &str = "report.html";
/// What is left of the window after each fix, as a picture.
pub const IMPROVEMENT: &str = "improvement.svg";
/// The roofline, as a picture; a sentence where no operation has both arithmetic and traffic.
pub const ROOFLINE: &str = "roofline.svg";

/// The page of an analysis, and its pictures. `beside` are the other files of the output folder, for links.
pub fn files(run: &Run<'_>, beside: &[String]) -> Vec<OutputFile> {
    let side = Side::of(Source::of_run(run));
    let mut files = vec![OutputFile::new(PAGE, page::render(&side, beside))];
    files.push(OutputFile::new(IMPROVEMENT, pictures::improvement(&side.waterfall)));
    // Markdown links to it, so it is there even if it has nothing to show.
    files.push(OutputFile::new(ROOFLINE, pictures::roofline(&side)));
    files
}

/// The page alone, of a trace with or without an analysis.
pub fn page(source: Source<'_>, beside: &[String]) -> Vec<u8> {
    page::render(&Side::of(source), beside)
}

/// The page of a comparison. `beside` are the other files of the output folder, for links.
pub fn compared_page<'a>(versus: &'a Versus<'a>, beside: &[String]) -> OutputFile {
    OutputFile::new(PAGE, versus::render(versus, beside))
}
