//! What `jarvis diff` prints: the totals, how much of the work is the same, the calls that changed most.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use jarvis_analyze::compare::tree::{LcaGroup, LcaStatus, Presence};
use jarvis_analyze::texts::counted;
use serde_json::{Value, json};

use super::{Diff, Unlinked};
use crate::cli::info::thousands;
use crate::cli::layout::cut;

/// Characters of a call's name with its shapes.
const NAME_WIDTH: usize = 58;

/// Everything the summary tells.
pub(super) struct View<'a> {
    pub(super) paths: [&'a Path; 2],
    pub(super) diff: &'a Diff<'a>,
    pub(super) files: &'a [PathBuf],
    pub(super) limit: usize,
    /// Profiler steps of each trace; under parity nobody asks.
    pub(super) steps: Option<[usize; 2]>,
}

/// How much work stands in which state: calls and microseconds of each trace.
struct State {
    status: LcaStatus,
    calls: usize,
    us: [f64; 2],
}

impl View<'_> {
    fn states(&self) -> Vec<State> {
        let all = [LcaStatus::SameKernels, LcaStatus::OtherKernels, LcaStatus::OnlyOne, LcaStatus::OnlyTwo];
        let of = |status: LcaStatus| {
            let rows = || self.diff.summary.iter().filter(move |r| r.status == status);
            State { status, calls: rows().count(), us: [0, 1].map(|side| rows().map(|r| r.us[side]).sum()) }
        };
        all.into_iter().map(of).filter(|s| s.calls > 0).collect()
    }

    /// Calls of both traces, and those of each alone.
    fn calls(&self) -> [usize; 3] {
        let count = |presence: Presence| self.diff.merged.nodes().iter().filter(|n| n.presence() == presence).count();
        [Presence::Combined, Presence::One, Presence::Two].map(count)
    }

    fn shown(&self) -> &[LcaGroup] {
        let count = if self.limit == 0 { self.diff.groups.len() } else { self.diff.groups.len().min(self.limit) };
        &self.diff.groups[..count]
    }

    pub(super) fn text(&self) -> String {
        let mut out = String::new();
        let totals = &self.diff.totals;
        for (side, path) in self.paths.iter().enumerate() {
            let _ = writeln!(
                out,
                "trace {}: {}: {}, {:.3} ms{}",
                side + 1,
                path.display(),
                counted(thousands(totals.kernels[side] as u64), "GPU event"),
                totals.us[side] / 1e3,
                left_out(self.diff.unlinked[side])
            );
        }
        if self.diff.is_same() {
            out.push_str("\nno difference: the same calls, kernels and times\n");
            self.written(&mut out);
            return out;
        }
        if totals.us[0] > 0.0 {
            let _ = writeln!(out, "GPU work of trace 2 takes {}", how_long(totals.us[1] / totals.us[0]));
            out.push_str(&self.steps.map_or(String::new(), |steps| of_steps(steps, totals.us)));
        }
        let [both, one, two] = self.calls();
        let _ = writeln!(
            out,
            "calls: {} in both traces, {} only in 1, {} only in 2",
            thousands(both as u64),
            thousands(one as u64),
            thousands(two as u64)
        );
        let _ = writeln!(out, "\n{:<28}{:>8}{:>14}{:>14}{:>12}", "GPU work", "calls", "ms in 1", "ms in 2", "change");
        for State { status, calls, us } in self.states() {
            let word = match status {
                LcaStatus::SameKernels => "with the same kernels",
                LcaStatus::OtherKernels => "with other kernels",
                LcaStatus::OnlyOne => "only in 1",
                LcaStatus::OnlyTwo => "only in 2",
            };
            let (a, b) = (us[0] / 1e3, us[1] / 1e3);
            let calls = thousands(calls as u64);
            let _ = writeln!(out, "  {word:<26}{calls:>8}{a:>14.3}{b:>14.3}{:>+12.3}", b - a);
        }
        self.rows(&mut out);
        self.written(&mut out);
        out
    }

    fn rows(&self, out: &mut String) {
        let _ = writeln!(
            out,
            "\n{:<NAME_WIDTH$}{:>6}{:>11}{:>11}{:>11}{:>8}",
            "largest changes", "calls", "ms in 1", "ms in 2", "change", "ratio"
        );
        for group in self.shown() {
            let (a, b) = (group.us[0] / 1e3, group.us[1] / 1e3);
            let ratio = group.ratio().map_or("-".to_owned(), |r| format!("{r:.2}"));
            let name = cut(&label(group), NAME_WIDTH - 3);
            let count = thousands(group.count as u64);
            let _ = writeln!(
                out,
                "  {name:<width$}{count:>6}{a:>11.3}{b:>11.3}{:>+11.3}{ratio:>8}",
                b - a,
                width = NAME_WIDTH - 2
            );
        }
        let more = self.diff.groups.len() - self.shown().len();
        if more > 0 {
            let _ = writeln!(out, "  {more} more (--limit 0 shows all, -o DIR writes tables)");
        }
    }

    fn written(&self, out: &mut String) {
        if let Some(folder) = self.files.first().and_then(|f| f.parent()) {
            let _ = writeln!(out, "\nwritten\n  {}: {}", folder.join("").display(), counted(self.files.len(), "file"));
        }
    }

    pub(super) fn json(&self) -> Value {
        let (totals, [both, one, two]) = (&self.diff.totals, self.calls());
        let names = |g: &LcaGroup| -> [Vec<String>; 2] {
            [0, 1].map(|side| g.first.kernels[side].iter().map(ToString::to_string).collect())
        };
        let group = |g: &LcaGroup| {
            json!({
                "name": &*g.first.name, "common_call": &*g.first.lca_name, "lca_id": g.first.lca,
                "status": g.first.status.as_str(), "input_dims": &*g.first.args[0], "input_types": &*g.first.args[2],
                "calls": g.count, "us": g.us, "delta_us": g.delta_us(), "ratio": g.ratio(), "kernels": g.kernels,
                "example_uids": g.first.uids, "kernel_names": names(g),
            })
        };
        let state = |s: &State| json!({"status": s.status.as_str(), "calls": s.calls, "us": s.us});
        let mut whole = json!({
            "schema": "jarvis.diff/1",
            "traces": self.paths.map(|p| p.to_string_lossy().into_owned()),
            "identical": self.diff.is_same(),
            "gpu_events": totals.kernels,
            "gpu_us": totals.us,
            "unlinked_gpu_events": self.diff.unlinked.map(|u| u.events),
            "unlinked_gpu_us": self.diff.unlinked.map(|u| u.us),
            "calls": {"both": both, "only_trace1": one, "only_trace2": two},
            "work": self.states().iter().map(state).collect::<Vec<_>>(),
            "groups": self.diff.groups.len(),
            "largest_changes": self.shown().iter().map(group).collect::<Vec<_>>(),
            "files": self.files.iter().map(|p| p.to_string_lossy()).collect::<Vec<_>>(),
        });
        if let (Some(steps), Some(object)) = (self.steps, whole.as_object_mut()) {
            object.insert("steps".to_owned(), json!(steps));
        }
        whole
    }
}

/// How much of a trace is not compared; nothing where all of it is.
fn left_out(unlinked: Unlinked) -> String {
    if unlinked.events == 0 {
        return String::new();
    }
    let events = thousands(unlinked.events as u64);
    format!(" (not compared: {events} without a recorded launch, {:.3} ms)", unlinked.us / 1e3)
}

/// Operation, the call it is compared under where that is another, and its shapes.
fn label(group: &LcaGroup) -> String {
    let (name, lca) = (&group.first.name, &group.first.lca_name);
    let place = if name == lca { name.to_string() } else { format!("{lca} ({name})") };
    format!("{place} {}", group.first.args[0])
}

/// What traces of other numbers of steps come to; nothing where they have as many.
fn of_steps(steps: [usize; 2], us: [f64; 2]) -> String {
    let [one, two] = steps;
    if one == two {
        return String::new();
    }
    let ratio = (us[1] / two as f64) / (us[0] / one as f64);
    let of_one = if one > 0 && two > 0 { format!("; of one step it takes {}", how_long(ratio)) } else { String::new() };
    format!("profiler steps: {one} in trace 1, {two} in trace 2, so times are of different amounts of work{of_one}\n")
}

/// A ratio of times in words; what rounds to no difference is none.
fn how_long(ratio: f64) -> String {
    let times = if ratio >= 1.0 { ratio } else { 1.0 / ratio };
    match format!("{times:.2}").as_str() {
        _ if format!("{ratio:.3}") == "1.000" => "as long as that of trace 1".to_owned(),
        "1.00" => format!("{ratio:.3} times that of trace 1"),
        times => {
            let word = if ratio > 1.0 { "slower" } else { "faster" };
            format!("{ratio:.3} times that of trace 1: {times}x {word}")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_numbers_of_steps_are_told() {
        assert_eq!(of_steps([2, 2], [1.0, 3.0]), "");
        let said = of_steps([1, 2], [1.0, 2.0]);
        assert!(said.contains("1 in trace 1, 2 in trace 2") && said.contains("as long as that of trace 1"), "{said}");
        assert!(!of_steps([0, 2], [1.0, 2.0]).contains("of one step"));
    }

    #[test]
    fn equal_times_are_neither_slower_nor_faster() {
        for (ratio, words) in [
            (1.0, "as long as that of trace 1"),
            (0.9999, "as long as that of trace 1"),
            (1.003, "1.003 times that of trace 1"),
            (0.5, "0.500 times that of trace 1: 2.00x faster"),
            (1.25, "1.250 times that of trace 1: 1.25x slower"),
        ] {
            assert_eq!(how_long(ratio), words);
        }
    }
}
