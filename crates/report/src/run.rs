//! What an analysis is rendered from: the analysis, the performance report, and what the user said about the run.

use jarvis_analyze::analysis::Analysis;
use jarvis_analyze::comparative::Comparative;
use jarvis_analyze::metrics::Scope;
use jarvis_perf::tables::{Report, Sheet};
use jarvis_trace::Summary;

/// What titles call a model that nobody has named.
pub(crate) const NAMELESS: &str = "Workload";

/// What the user said about the run.
#[derive(Debug, Clone, Default)]
pub struct RunLabels {
    /// The trace as the user typed it.
    pub trace_path: String,
    /// A label.
    pub cluster: Option<String>,
    /// A label.
    pub container: Option<String>,
    /// What the model is called in reports; inferred if not given.
    pub model_name: Option<String>,
    /// Options of the command that change results, as the user gave them.
    pub flags: Vec<String>,
}

/// A replay package that the run wrote.
#[derive(Debug, Clone, PartialEq)]
pub struct ReplayEntry {
    /// Operation.
    pub op: String,
    /// Path relative to the output folder.
    pub path: String,
    /// Shapes in it.
    pub shapes: usize,
    /// Kernel time in the trace of those shapes.
    pub time_ms: f64,
}

/// Everything that outputs are made of. Renderers read it and nothing else.
#[derive(Debug, Clone, Copy)]
pub struct Run<'a> {
    /// The analysis.
    pub analysis: &'a Analysis,
    /// The performance report it was made from.
    pub report: &'a Report,
    /// Its sheets.
    pub sheets: &'a [Sheet<'a>],
    /// What is in the trace.
    pub summary: &'a Summary,
    /// What the user said about the run.
    pub labels: &'a RunLabels,
    /// Replay packages, in order of time.
    pub replay: &'a [ReplayEntry],
}

/// A comparison: the target, what it is compared with, and what came of it.
#[derive(Debug, Clone, Copy)]
pub struct Versus<'a> {
    /// Shows what is achievable.
    pub reference: Run<'a>,
    /// Is to be improved.
    pub target: Run<'a>,
    /// What differs.
    pub comparative: &'a Comparative,
}

impl Run<'_> {
    /// The folder of the performance report's CSV files.
    pub fn csv_folder(&self) -> &'static str {
        match self.analysis.scope {
            Scope::Standalone => "perf_report_csvs",
            Scope::Comparative => "target_perf_report_csvs",
        }
    }

    /// The name that titles use: what the user said, else what the modules say, else [`NAMELESS`].
    pub fn model_name(&self) -> &str {
        let inferred = &self.analysis.prepared.model.model;
        match &self.labels.model_name {
            Some(name) => name,
            None if inferred.is_empty() || inferred == jarvis_analyze::prepared::ModelInfo::UNKNOWN => NAMELESS,
            None => inferred,
        }
    }
}
