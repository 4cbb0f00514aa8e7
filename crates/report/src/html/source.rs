//! What a page is made from. `analyze` and `report` know different things of a trace; a page shows what there is.

use std::path::Path;

use jarvis_analyze::analysis::Groundwork;
use jarvis_analyze::prepared::Prepared;
use jarvis_analyze::program::Program;
use jarvis_analyze::system::gaps::Gaps;
use jarvis_perf::platform::Platform;
use jarvis_perf::tables::Report;
use jarvis_trace::{Population, Summary};

use crate::Run;

/// A trace with its performance report, and its analysis if there is one.
#[derive(Debug, Clone, Copy)]
pub struct Source<'a> {
    /// Its performance report.
    pub report: &'a Report,
    /// What is in the trace.
    pub summary: &'a Summary,
    /// The trace as the user typed it.
    pub trace_path: &'a str,
    /// Heading of the page; the name of the file if there is none.
    pub title: Option<&'a str>,
    /// What it is measured against; without it there is no roofline.
    pub platform: Option<&'a Platform>,
    /// Operations and modules in order.
    pub program: &'a Program,
    /// Waits of the GPU and why.
    pub gaps: Option<&'a Gaps>,
    /// GPU events that the timeline counts.
    pub population: Population,
    /// What an analysis sees of it, if one is made.
    pub prepared: Option<&'a Prepared>,
    /// The analysis, if one was made.
    pub run: Option<&'a Run<'a>>,
}

impl<'a> Source<'a> {
    /// Of a run of `analyze` whose judgement is not there yet.
    pub(crate) fn of_groundwork(groundwork: &'a Groundwork, report: &'a Report, summary: &'a Summary) -> Self {
        let prepared = groundwork.prepared();
        Self {
            report,
            summary,
            trace_path: "",
            title: None,
            platform: Some(&prepared.platform),
            program: &prepared.program,
            gaps: groundwork.gaps(),
            population: report.population(),
            prepared: Some(prepared),
            run: None,
        }
    }

    /// Of a run of `analyze`.
    pub fn of_run(run: &'a Run<'a>) -> Self {
        let prepared = &run.analysis.prepared;
        Self {
            report: run.report,
            summary: run.summary,
            trace_path: &run.labels.trace_path,
            title: Some(run.model_name()),
            platform: Some(&prepared.platform),
            program: &prepared.program,
            gaps: run.analysis.system.as_ref().map(|s| &s.gaps),
            population: run.report.population(),
            prepared: Some(prepared),
            run: Some(run),
        }
    }

    /// Name of the trace's file.
    pub(crate) fn file_name(&self) -> &'a str {
        Path::new(self.trace_path).file_name().and_then(|n| n.to_str()).unwrap_or(self.trace_path)
    }
}
