//! What a comparison prints: one screen that a person can act on.

use std::fmt::Write as _;
use std::path::Path;

use jarvis_analyze::comparative::{Both, Compared, Gap, GapSource, TotalOf, Verdict, WORTH_PERCENT};
use jarvis_analyze::prepare::args::SEPARATOR;
use jarvis_analyze::rounding::{shown, shown_ms};
use jarvis_analyze::texts::counted;
use jarvis_trace::spelled;

use super::side_by_side;
use crate::cli::layout::{cut, wrapped};
use crate::cli::platforms::number;
use crate::cli::style::Style;
use crate::pipeline::{AnalyzeOptions, ComparedTraces};

/// Differences and gaps shown.
const SHOWN: usize = 5;
/// Warnings shown.
const WARNINGS: usize = 3;
/// Characters of a line.
const WIDTH: usize = 110;
/// What stands before the second line of an entry.
const INDENT: &str = "       ";

/// What explains differences, and of which operations.
type Explained = (&'static str, fn(&Compared) -> bool);

/// Everything the summary tells.
pub(super) struct View<'a> {
    pub(super) paths: Both<&'a Path>,
    pub(super) folder: &'a Path,
    pub(super) made: &'a ComparedTraces,
    pub(super) options: Both<&'a AnalyzeOptions>,
}

/// How many operations take less time and how many take more.
fn less_and_more(faster: usize, slower: usize) -> String {
    let take = |count: usize| if count == 1 { "takes" } else { "take" };
    let operations = counted(faster, "operation");
    format!("{operations} that {} less and {slower} that {} more time", take(faster), take(slower))
}

impl View<'_> {
    pub(super) fn text(&self, style: Style) -> String {
        let mut out = String::new();
        self.head(&mut out, style);
        self.changes(&mut out, style);
        self.gaps(&mut out, style);
        self.warnings(&mut out, style);
        self.files(&mut out, style);
        out
    }

    fn head(&self, out: &mut String, style: Style) {
        for (side, path, options) in [
            ("reference", self.paths.reference, self.options.reference),
            ("target", self.paths.target, self.options.target),
        ] {
            let p = &options.platform;
            let rate = p.peak("matrix_bf16").map_or(String::new(), |f| format!(", {} TFLOPS bf16", number(f.value)));
            let path = style.strong(&spelled(&path.display().to_string()));
            let _ = writeln!(
                out,
                "{side:<10} {path}  {}: {} TB/s{rate}",
                spelled(&p.name),
                number(p.mem_bw_gbps.value / 1e3)
            );
        }
        let c = &self.made.comparative;
        for loss in &c.losses {
            wrapped(out, "  ", "  ", loss);
        }
        let rows: [(&str, TotalOf); 3] =
            [("GPU time", |t| t.total_ms), ("computing", |t| t.computation_ms), ("idle", |t| t.idle_ms)];
        let _ = writeln!(out, "times {}", c.normalization.unit());
        for (name, of) in rows {
            let ms = Both::of(c.totals.as_ref(), of);
            let text = match &c.uncomparable {
                None => side_by_side(ms),
                Some(_) => format!("{} and {} ms, not comparable", shown_ms(ms.reference), shown_ms(ms.target)),
            };
            let _ = writeln!(out, "  {name:<10} {text}");
        }
        let matched = Both::of(c.coverage_percent, |p| shown(p, 1));
        let _ =
            writeln!(out, "  matched    {}% of the reference, {}% of the target", matched.reference, matched.target);
    }

    fn changes(&self, out: &mut String, style: Style) {
        let c = &self.made.comparative;
        if let Some(said) = c.sameness() {
            out.push('\n');
            wrapped(out, "", "", &said.replace('`', ""));
            return;
        }
        let _ = writeln!(out, "\n{}", style.strong("What differs"));
        if c.large_changes().next().is_none() {
            let what = if c.uncomparable.is_some() { "nothing that can be compared, " } else { "nothing " };
            let _ = writeln!(out, "  {what}by more than {WORTH_PERCENT}% of the reference's time");
        }
        for change in c.large_changes().take(SHOWN) {
            let difference = change.ms.delta();
            let sign = if difference > 0.0 { "+" } else { "" };
            let _ = writeln!(out, "  {sign}{} ms  {}", shown_ms(difference), side_by_side(change.ms));
            wrapped(out, INDENT, INDENT, &change.what.replace('`', ""));
        }
        let more = c.large_changes().count().saturating_sub(SHOWN);
        if more > 0 {
            let _ = writeln!(out, "{}", style.faint(&format!("    {more} more in the reports")));
        }
        let kinds: [Explained; 3] = [
            ("hardware explains", |o| o.precision.is_none() && !o.is_within_tolerance()),
            ("other types explain", |o| o.precision.is_some()),
            ("within the tolerance of what the hardware suggests are", Compared::is_within_tolerance),
        ];
        for (what, is_own) in kinds {
            let explained = c.notable().filter(|o| o.verdict.is_some_and(Verdict::is_expected) && is_own(o));
            let (faster, slower): (Vec<_>, Vec<_>) = explained.partition(|o| o.ms.delta() < 0.0);
            if !faster.is_empty() || !slower.is_empty() {
                wrapped(out, "  ", "    ", &format!("{what} {}", less_and_more(faster.len(), slower.len())));
            }
        }
    }

    fn gaps(&self, out: &mut String, style: Style) {
        let gaps = &self.made.comparative.gaps;
        if gaps.is_empty() {
            if !self.made.comparative.is_same() {
                out.push('\n');
                wrapped(out, "", "", &self.made.comparative.no_gap().replace('`', ""));
            }
            return;
        }
        let _ = writeln!(out, "\n{}", style.strong("What to improve on the target, in this order"));
        for gap in gaps.iter().take(SHOWN) {
            self.gap(out, gap);
        }
        if gaps.len() > SHOWN {
            let _ = writeln!(out, "{}", style.faint(&format!("    {} more in the reports", gaps.len() - SHOWN)));
        }
    }

    fn gap(&self, out: &mut String, gap: &Gap) {
        let verdict = match gap.source {
            GapSource::Operation(at) => {
                self.made.comparative.operations.get(at).and_then(|o| o.verdict).map_or("", |v| v.as_str())
            }
            _ => "",
        };
        let expected = gap.expected.map_or(String::new(), |e| {
            let of_types = if gap.precision.is_some() { " for the types of each side" } else { "" };
            let verdict = if verdict.is_empty() { String::new() } else { format!(": {}", verdict.replace('_', " ")) };
            format!(", hardware suggests {}x{of_types}{verdict}", shown(e.middle(), 2))
        });
        let first = gap.paths.algorithmic.first();
        let _ = writeln!(out, "{:>3}  {}", gap.rank, cut(&gap.title.replace('`', ""), WIDTH - INDENT.len()));
        let _ = writeln!(out, "{INDENT}{}{expected}; saves {} ms", side_by_side(gap.ms), shown_ms(gap.saved_ms));
        let said = self.made.comparative.gaps[..gap.rank - 1].iter().any(|g| g.paths.algorithmic.first() == first);
        match first {
            Some(_) if said => {
                let _ = writeln!(out, "{INDENT}same as above");
            }
            Some(path) => wrapped(out, INDENT, INDENT, path),
            None => {}
        }
        if let GapSource::Cause(_) = gap.source {
            self.members(out, gap);
        }
    }

    /// The operations that one change explains.
    fn members(&self, out: &mut String, gap: &Gap) {
        let all = &gap.operations;
        for o in all.iter().take(SHOWN).filter_map(|&at| self.made.comparative.operations.get(at)) {
            let args = o.args.split(SEPARATOR).next().unwrap_or_default();
            let line = format!("{} {args}  {}, saves {} ms", o.name, side_by_side(o.ms), shown_ms(o.saved_ms));
            let _ = writeln!(out, "{INDENT}  {}", cut(&line, WIDTH - INDENT.len() - 2));
        }
        if all.len() > SHOWN {
            let _ = writeln!(out, "{INDENT}  {} more in the reports", all.len() - SHOWN);
        }
    }

    fn warnings(&self, out: &mut String, style: Style) {
        // Losses stand before the numbers.
        let comparative = &self.made.comparative;
        let mut warnings = comparative.warnings.iter().filter(|w| !comparative.losses.contains(w)).peekable();
        if warnings.peek().is_none() {
            return;
        }
        let _ = writeln!(out, "\n{}", style.strong("Mind"));
        for warning in warnings.by_ref().take(WARNINGS) {
            wrapped(out, "  - ", "    ", warning);
        }
        let more = warnings.count();
        if more > 0 {
            let _ = writeln!(out, "{}", style.faint(&format!("    {more} more in the reports")));
        }
    }

    fn files(&self, out: &mut String, style: Style) {
        let _ = writeln!(out, "\n{}", style.strong("Written"));
        for (name, what) in [
            (jarvis_report::html::PAGE, "open it in a browser"),
            ("comparative_analysis_fair.md", "the report"),
            ("comparative_analysis_rough.md", "the working record"),
            ("findings.json", "for programs"),
            ("comparison.xlsx", "both reports side by side"),
        ] {
            let _ = writeln!(out, "  {}  {}", self.folder.join(name).display(), style.faint(what));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_operation_takes_and_several_take() {
        assert_eq!(less_and_more(1, 2), "1 operation that takes less and 2 that take more time");
        assert_eq!(less_and_more(0, 1), "0 operations that take less and 1 that takes more time");
    }
}
