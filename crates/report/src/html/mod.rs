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
pub(crate) mod waterfall;

pub use source::Source;

use jarvis_analyze::analysis::Groundwork;
use jarvis_analyze::comparative::Both;
use jarvis_perf::tables::Report;
use jarvis_trace::{Summary, Trace};

use crate::{OutputFile, Run, Versus};
use side::Side;

/// The page.
pub const PAGE: &str = "report.html";
/// What is left of the window after each fix, as a picture.
pub const IMPROVEMENT: &str = "improvement.svg";
/// The roofline, as a picture; a sentence where no operation has both arithmetic and traffic.
pub const ROOFLINE: &str = "roofline.svg";

/// What the page of an analysis shows of the trace itself, which is not needed to write it.
#[derive(Debug)]
pub struct Drawing(side::Drawing);

impl Drawing {
    /// Reads it off the trace, beside the judgement.
    pub fn of(groundwork: &Groundwork, report: &Report, summary: &Summary, trace: &Trace) -> Self {
        Self(side::Drawing::of(&Source::of_groundwork(groundwork, report, summary), trace))
    }

    /// The page and its pictures. `beside` are the other files of the output folder, for links.
    pub fn files(self, run: &Run<'_>, beside: &[String]) -> Vec<OutputFile> {
        let side = Side::new(Source::of_run(run), self.0);
        vec![
            OutputFile::new(PAGE, page::render(&side, beside)),
            OutputFile::new(IMPROVEMENT, pictures::improvement(&side.waterfall)),
            // Markdown links to it, so it is there even if it has nothing to show.
            OutputFile::new(ROOFLINE, pictures::roofline(&side)),
        ]
    }
}

/// The page alone, of a trace with or without an analysis.
pub fn page(source: Source<'_>, trace: &Trace, beside: &[String]) -> Vec<u8> {
    page::render(&Side::of(source, trace), beside)
}

/// The page of a comparison. `beside` are the other files of the output folder, for links.
pub fn compared_page<'a>(versus: &'a Versus<'a>, traces: Both<&Trace>, beside: &[String]) -> OutputFile {
    OutputFile::new(PAGE, versus::render(versus, traces, beside))
}
