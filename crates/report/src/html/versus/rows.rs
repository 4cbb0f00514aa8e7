//! What both sides do, as the table of the page has it: the operations of `comparison_metrics.json`.

use jarvis_analyze::comparative::{Compared, MatchLevel};
use jarvis_analyze::prepare::args::SEPARATOR;
use jarvis_analyze::rounding::{Ms, Ratio};
use serde::Serialize;

use super::words;
use crate::Versus;
use crate::html::family::Family;
use crate::html::texts::{TextId, Texts};

/// Most rows a page holds; the file has all.
const MOST_ROWS: usize = 1000;

/// A matched operation, or a group of them against another.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Row {
    name: TextId,
    /// Shapes and types; of groups, what stands on each side.
    args: TextId,
    category: TextId,
    family: u8,
    level: &'static str,
    /// UID of an example in the target.
    pub(super) uid: Option<u32>,
    reference_ms: Ms,
    target_ms: Ms,
    ratio: Option<Ratio>,
    expected: Option<Ratio>,
    expected_low: Option<Ratio>,
    expected_high: Option<Ratio>,
    excess: Option<Ratio>,
    /// What the target takes beyond what the hardware suggests.
    over_ms: Ms,
    bound: Option<&'static str>,
    verdict: &'static str,
    why: Option<TextId>,
    reference_calls: Ratio,
    target_calls: Ratio,
    reference_launched: Ratio,
    target_launched: Ratio,
    reference_kernel: Option<TextId>,
    target_kernel: Option<TextId>,
    /// Rank of the place to improve.
    gap: Option<usize>,
}

/// The rows of a page.
#[derive(Debug, Clone, Default, Serialize)]
pub(super) struct Rows {
    /// Most time first.
    pub(super) rows: Vec<Row>,
    /// Rows left out.
    pub(super) more_rows: usize,
}

impl Rows {
    pub(super) fn of(versus: &Versus<'_>, texts: &mut Texts) -> Self {
        let all = &versus.comparative.operations;
        let rows = all.iter().take(MOST_ROWS).enumerate().map(|(at, c)| row(versus, at, c, texts)).collect();
        Self { rows, more_rows: all.len().saturating_sub(MOST_ROWS) }
    }
}

/// What a category is called in reports.
pub(super) fn category<'a>(versus: &Versus<'a>, key: &'a str) -> &'a str {
    let of = |run: &crate::Run<'a>| run.analysis.prepared.category(key).map(|c| &*c.display);
    of(&versus.target).or_else(|| of(&versus.reference)).unwrap_or(key)
}

/// Whether a comparison is of groups of operations.
pub(super) fn is_group(c: &Compared) -> bool {
    c.level == Some(MatchLevel::Module)
}

/// Shapes and types; of a group, the operations of each side.
pub(super) fn arguments(c: &Compared) -> String {
    if is_group(c) {
        format!("{} → {}", c.operations.reference.join(", "), c.operations.target.join(", "))
    } else {
        c.args.replace(SEPARATOR, ", ")
    }
}

fn row(versus: &Versus<'_>, at: usize, c: &Compared, texts: &mut Texts) -> Row {
    let gap = versus.comparative.gaps.iter().find(|g| g.operations.contains(&at));
    Row {
        name: texts.add(&c.name),
        args: texts.add(&arguments(c)),
        category: texts.add(category(versus, &c.category)),
        family: Family::of_category(&c.category).number(),
        level: words::level(c.level),
        uid: c.uid,
        reference_ms: Ms(c.ms.reference),
        target_ms: Ms(c.ms.target),
        ratio: c.ms.ratio().map(Ratio),
        expected: c.expected.map(|e| Ratio(e.middle())),
        expected_low: c.expected.map(|e| Ratio(e.low)),
        expected_high: c.expected.map(|e| Ratio(e.high)),
        excess: c.excess().map(Ratio),
        over_ms: Ms(c.saved_ms),
        bound: words::bound(c.bound),
        verdict: words::key(c.verdict),
        why: c.explanation().map(|e| texts.add(e.text)),
        reference_calls: Ratio(c.calls.reference),
        target_calls: Ratio(c.calls.target),
        reference_launched: Ratio(c.launched.reference),
        target_launched: Ratio(c.launched.target),
        reference_kernel: c.kernels.reference.first().map(|k| texts.add(k)),
        target_kernel: c.kernels.target.first().map(|k| texts.add(k)),
        gap: gap.map(|g| g.rank),
    }
}
