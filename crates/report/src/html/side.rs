//! All that a page shows of one trace.

use std::collections::BTreeMap;

use jarvis_analyze::finding::Finding;
use jarvis_trace::{EventId, EventKind, GpuWork, StrId, Trace};
use serde::Serialize;

use super::family::Family;
use super::icicle::{self, Node};
use super::operations::Operations;
use super::roofline::Roofline;
use super::source::Source;
use super::strip::{self, Strip};
use super::texts::Texts;
use super::waterfall::Waterfall;

/// A part of the timeline.
#[derive(Debug, Clone)]
pub(crate) struct Share {
    /// Class of its colour, and its name in tests.
    pub(crate) key: &'static str,
    pub(crate) label: &'static str,
    pub(crate) meaning: &'static str,
    pub(crate) ms: f64,
    pub(crate) percent: f64,
}

/// One trace.
#[derive(Debug, Clone)]
pub(crate) struct Side<'a> {
    pub(crate) source: Source<'a>,
    pub(crate) total_ms: f64,
    pub(crate) shares: Vec<Share>,
    pub(crate) findings: &'a [Finding],
    pub(crate) waterfall: Waterfall,
    pub(crate) roofline: Option<Roofline>,
    pub(crate) data: SideData,
}

/// What the script of the page reads.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct SideData {
    pub(crate) texts: Texts,
    pub(crate) operations: Operations,
    pub(crate) icicle: Option<Node>,
    pub(crate) strip: Option<Strip>,
}

/// What is read off the trace.
#[derive(Debug)]
pub(crate) struct Drawing {
    roofline: Option<Roofline>,
    data: SideData,
}

impl Drawing {
    /// Reads it: the trace may go before the page is written.
    pub(crate) fn of(source: &Source<'_>, trace: &Trace) -> Self {
        let mut texts = Texts::default();
        let families = families(source, trace);
        let operations = Operations::of(source, trace, &mut texts);
        let roofline = Roofline::of(&operations, &texts, source.platform);
        let icicle = icicle::icicle(source, trace, &families, &mut texts);
        let strip = strip::strip(source, trace, &families, &mut texts);
        Self { roofline, data: SideData { texts, operations, icicle, strip } }
    }
}

impl<'a> Side<'a> {
    pub(crate) fn of(source: Source<'a>, trace: &Trace) -> Self {
        Self::new(source, Drawing::of(&source, trace))
    }

    /// With what was read off the trace before.
    pub(crate) fn new(source: Source<'a>, mut drawing: Drawing) -> Self {
        if let Some(run) = source.run {
            drawing.data.operations.name_findings(run.analysis);
        }
        let findings = source.run.map_or(&[][..], |run| &run.analysis.findings);
        let total_ms = source.report.rows.timeline.total.0 / 1e3;
        let kernels_ms = source.run.map_or(0.0, |run| run.analysis.prepared.utilization.computation_time_ms);
        Self {
            source,
            total_ms,
            shares: shares(&source),
            findings,
            waterfall: Waterfall::of(findings, total_ms, kernels_ms),
            roofline: drawing.roofline,
            data: drawing.data,
        }
    }
}

fn shares(source: &Source<'_>) -> Vec<Share> {
    let t = &source.report.rows.timeline;
    let ms = [t.computation.0, t.exposed_communication.0, t.exposed_memcpy.0, t.idle.0].map(|us| us / 1e3);
    parts_of(t.total.0 / 1e3, ms)
}

/// The parts of a timeline in their order: computing, communication alone, copies alone, idle.
pub(crate) fn parts_of(total_ms: f64, ms: [f64; 4]) -> Vec<Share> {
    const PARTS: [(&str, &str, &str); 4] = [
        ("compute", "Computing", "some kernel computes"),
        ("comm", "Communication alone", "only communication goes on"),
        ("copy", "Copies alone", "only copies go on"),
        ("idle", "Idle", "nothing goes on"),
    ];
    let percent = |ms: f64| if total_ms > 0.0 { 100.0 * ms / total_ms } else { 0.0 };
    let part = |((key, label, meaning), ms)| Share { key, label, meaning, ms, percent: percent(ms) };
    PARTS.into_iter().zip(ms).map(part).collect()
}

/// The family of each GPU event, by its position in the trace.
pub(crate) fn families(source: &Source<'_>, trace: &Trace) -> Vec<Family> {
    let unified = &source.report.rows.unified;
    let mut families = vec![Family::Other; trace.len()];
    for (i, row) in unified.rows.iter().enumerate() {
        let judged = source.prepared.and_then(|prepared| prepared.rows.get(i));
        let family = Family::of_category(judged.map_or(&row.identity.category, |r| &r.category));
        for kernel in unified.calls_of(row).flat_map(|c| &c.kernels) {
            families[kernel.index()] = family;
        }
    }
    // Names repeat and are long: each is looked at once for each kind of event.
    let mut known: BTreeMap<(StrId, bool), Option<Family>> = BTreeMap::new();
    for &e in source.report.tree.all_gpu_events() {
        let key = (trace.name_id(e), trace.kind(e) == EventKind::Kernel);
        if let Some(family) = *known.entry(key).or_insert_with(|| by_work(trace, e)) {
            families[e.index()] = family;
        }
    }
    families
}

/// Copies and communication are what they are, whoever launched them.
fn by_work(trace: &Trace, e: EventId) -> Option<Family> {
    match GpuWork::classify(trace.kind(e), trace.name(e)) {
        GpuWork::Computation => None,
        GpuWork::Communication => Some(Family::Communication),
        GpuWork::Memcpy => Some(Family::Copy),
    }
}
