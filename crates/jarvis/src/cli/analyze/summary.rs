//! What `jarvis analyze` prints: one screen that a person can act on.

use std::fmt::Write as _;
use std::path::Path;

use jarvis_analyze::finding::{Finding, Mending, Priority};
use jarvis_analyze::prepare::warnings::several_gpus;
use jarvis_analyze::rank;
use jarvis_analyze::rounding::{shown, shown_ms};
use jarvis_analyze::texts::counted;
use jarvis_trace::spelled;

use crate::cli::info::thousands;
use crate::cli::layout::{WIDTH, cut, wrapped};
use crate::cli::platforms::number;
use crate::cli::style::Style;
use crate::pipeline::{AnalyzeOptions, Analyzed, no_such_operations};

/// Findings shown.
const SHOWN: usize = 5;
/// Warnings shown.
const WARNINGS: usize = 4;
/// What stands before the second and third line of a finding.
const INDENT: &str = "                ";

/// Everything the summary tells.
pub(super) struct View<'a> {
    pub(super) folder: &'a Path,
    pub(super) analyzed: &'a Analyzed,
    pub(super) options: &'a AnalyzeOptions,
}

impl View<'_> {
    pub(super) fn text(&self, style: Style) -> String {
        let mut out = String::new();
        self.head(&mut out, style);
        out.push('\n');
        self.findings(&mut out, style);
        self.warnings(&mut out, style);
        self.files(&mut out, style);
        out
    }

    fn head(&self, out: &mut String, style: Style) {
        let p = &self.options.platform;
        let events = counted(thousands(self.analyzed.summary.events()), "event");
        let steps = match self.analyzed.analysis.prepared.program.steps {
            0 => String::new(),
            steps => format!(", {}", counted(steps, "step")),
        };
        let _ = writeln!(out, "{}: {events}{steps}", style.strong(&spelled(&self.options.labels.trace_path)));
        let rate = p.peak("matrix_bf16").map_or(String::new(), |f| format!(", {} TFLOPS bf16", number(f.value)));
        let _ =
            writeln!(out, "measured against {}: {} TB/s{rate}", spelled(&p.name), number(p.mem_bw_gbps.value / 1e3));
        let u = &self.analyzed.analysis.prepared.utilization;
        let _ = write!(
            out,
            "{} ms on the GPU: {}% computing, {}% idle",
            shown_ms(u.total_time_ms),
            shown(u.computation_time_percent, 1),
            shown(u.idle_time_percent, 1)
        );
        for (percent, what) in
            [(u.exposed_comm_time_percent, "communication alone"), (u.exposed_memcpy_time_percent, "copies alone")]
        {
            if percent >= 0.05 {
                let _ = write!(out, ", {}% {what}", shown(percent, 1));
            }
        }
        out.push('\n');
        if let Some(told) = several_gpus(&self.analyzed.analysis.prepared.devices) {
            wrapped(out, "", "", &told);
        }
    }

    fn findings(&self, out: &mut String, style: Style) {
        let all = &self.analyzed.analysis.findings;
        let recommended: Vec<&Finding> = rank::recommended(all).collect();
        if recommended.is_empty() {
            wrapped(out, "", "", &self.analyzed.analysis.nothing_recommended());
            return;
        }
        let _ = writeln!(out, "{}", style.strong("What to change, in this order"));
        for finding in recommended.iter().take(SHOWN) {
            finding_lines(out, finding, self.analyzed.analysis.no_gain(finding), style);
        }
        if recommended.len() > SHOWN {
            let _ = writeln!(out, "{}", style.faint(&format!("    {} more in the reports", recommended.len() - SHOWN)));
        }
    }

    fn warnings(&self, out: &mut String, style: Style) {
        let analysis = &self.analyzed.analysis;
        // It stands beside the shares.
        let beside = several_gpus(&analysis.prepared.devices);
        // A warning of the command.
        let missed = no_such_operations(&self.analyzed.replay_missed);
        let told = [beside, missed];
        let is_told = |w: &String| told.iter().flatten().any(|t| t == w);
        let warnings: Vec<&String> = analysis.warnings.iter().filter(|w| !is_told(w)).collect();
        if warnings.is_empty() {
            return;
        }
        let _ = writeln!(out, "\n{}", style.strong("Mind"));
        for warning in warnings.iter().take(WARNINGS) {
            wrapped(out, "  - ", "    ", warning);
        }
        if warnings.len() > WARNINGS {
            let more = format!("    {} more in the reports", warnings.len() - WARNINGS);
            let _ = writeln!(out, "{}", style.faint(&more));
        }
    }

    fn files(&self, out: &mut String, style: Style) {
        let folder = self.folder;
        let _ = writeln!(out, "\n{}", style.strong("Written"));
        for (name, what) in [
            (jarvis_report::html::PAGE, "open it in a browser"),
            ("standalone_analysis_fair.md", "the report"),
            ("standalone_analysis_rough.md", "the working record"),
            ("findings.json", "for programs"),
            ("perf_report.xlsx", "every table"),
        ] {
            let path = folder.join(name).display().to_string();
            let _ = writeln!(out, "  {path}  {}", style.faint(what));
        }
    }
}

fn finding_lines(out: &mut String, f: &Finding, no_gain: Option<&str>, style: Style) {
    let level = style.priority(f.priority, &format!("{:<8}", f.priority.title()));
    let _ = writeln!(out, "{:>3}  {level}   {}", f.rank, cut(&f.title, WIDTH - INDENT.len()));
    let saved = &f.impact.saved_ms;
    let speedup = &f.impact.speedup;
    let _ = match (no_gain, f.mending.condition()) {
        (Some(no_gain), _) => writeln!(out, "{INDENT}saves: {no_gain}"),
        (None, Some(condition)) => writeln!(
            out,
            "{INDENT}saves up to {} ms of the window{condition}: up to {}x end to end",
            shown_ms(saved.high),
            shown(speedup.high, 2)
        ),
        (None, None) => writeln!(
            out,
            "{INDENT}saves {} to {} ms of the window: {}x to {}x end to end",
            shown_ms(saved.low),
            shown_ms(saved.high),
            shown(speedup.low, 2),
            shown(speedup.high, 2)
        ),
    };
    let paths = &f.paths;
    let (first, second) = match f.mending {
        Mending::KernelTeam => (&paths.kernel, &paths.algorithmic),
        _ => (&paths.algorithmic, &paths.kernel),
    };
    let path = first.first().or(second.first());
    if let Some(path) = path.filter(|_| f.priority < Priority::Low) {
        wrapped(out, INDENT, INDENT, path);
    }
}
