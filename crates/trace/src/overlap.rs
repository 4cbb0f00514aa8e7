//! GPU work that runs at the same time on different streams.

use std::collections::BTreeSet;

use crate::clock::Clock;
use crate::interval::IntervalSet;
use crate::model::{EventId, Key, Trace};

/// Two GPU events that run at the same time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Overlap<T> {
    /// The one that was running.
    pub running: EventId,
    /// The one that started meanwhile.
    pub started: EventId,
    /// When both run.
    pub span: (T, T),
}

/// All overlaps among GPU events: pairs on different streams that share at least a microsecond; shorter ones are clock
/// noise. Times are in the unit `T`: [`crate::Us`] computes as the reference does, [`crate::Ns`] exactly.
#[derive(Debug)]
pub struct Overlaps<T> {
    pairs: Vec<Overlap<T>>,
    /// Each pair from both sides, by (event, start of the partner, partner).
    partners: Vec<(EventId, T, EventId, (T, T))>,
}

/// One name among the kernels that overlap a launcher's.
#[derive(Debug, Clone, PartialEq)]
pub struct OverlappingKernel<'a> {
    /// Name of the kernel.
    pub name: &'a str,
    /// Mean duration in microseconds, two decimals.
    pub mean_us: f64,
    /// Stream of the first one.
    pub stream: Option<i64>,
    /// Mean share of the launcher's time in which it overlaps, two decimals.
    pub share: f64,
}

/// How the kernels of one launcher overlap others.
#[derive(Debug, Clone, PartialEq)]
pub struct LauncherOverlap<'a> {
    /// Names in the order they are met.
    pub kernels: Vec<OverlappingKernel<'a>>,
    /// Share of the launcher's time in which anything overlaps it, two decimals.
    pub share: f64,
}

impl<T: Clock> Overlaps<T> {
    /// Finds the overlaps among events. Pairs with the same `op_of` are left out; the reference means to do that but
    /// never does, so `|_| None` gives its pairs.
    pub fn find(trace: &Trace, events: &[EventId], op_of: impl Fn(EventId) -> Option<EventId>) -> Self {
        // Ends before starts at the same time, so events that touch do not meet.
        let mut points: Vec<(T, bool, EventId)> = Vec::with_capacity(events.len() * 2);
        for &e in events {
            if let Some((start, end)) = T::span_of(trace, e)
                && start < end
            {
                points.extend([(start, true, e), (end, false, e)]);
            }
        }
        points.sort_unstable();
        let stream = |e: EventId| trace.int(e, Key::Stream);
        let mut running: BTreeSet<EventId> = BTreeSet::new();
        let mut found = Self { pairs: Vec::new(), partners: Vec::new() };
        for (_, starts, e) in points {
            if !starts {
                running.remove(&e);
                continue;
            }
            for &other in &running {
                let same_stream = stream(e).is_some() && stream(e) == stream(other);
                let same_op = op_of(e).is_some() && op_of(e) == op_of(other);
                if let Some(span) = shared::<T>(trace, e, other)
                    && span.1 - span.0 >= T::MICROSECOND
                    && !same_stream
                    && !same_op
                {
                    found.pairs.push(Overlap { running: other, started: e, span });
                }
            }
            running.insert(e);
        }
        let start = |e: EventId| T::of(trace.ts(e).unwrap_or_default());
        for p in &found.pairs {
            found.partners.push((p.running, start(p.started), p.started, p.span));
            found.partners.push((p.started, start(p.running), p.running, p.span));
        }
        found.partners.sort_unstable();
        found
    }

    /// All pairs, in the order in which they begin.
    pub fn pairs(&self) -> &[Overlap<T>] {
        &self.pairs
    }

    /// The events that run together with one, by their start, with the time they share.
    pub fn partners(&self, e: EventId) -> impl Iterator<Item = (EventId, (T, T))> + '_ {
        let from = self.partners.partition_point(|p| p.0 < e);
        self.partners[from..].iter().take_while(move |p| p.0 == e).map(|p| (p.2, p.3))
    }

    /// How a launcher's kernels overlap others; `None` if they do not.
    pub fn of_launcher<'a>(&self, trace: &'a Trace, kernels: &[EventId]) -> Option<LauncherOverlap<'a>> {
        let own = crate::tree::busy::<T>(trace, kernels).us();
        let mut names: Vec<(crate::model::StrId, Vec<(EventId, f64)>)> = Vec::new();
        let mut covered = 0.0;
        for &k in kernels {
            let mut spans = Vec::new();
            for (partner, span) in self.partners(k) {
                spans.push(span);
                let met = (partner, (span.1 - span.0).us());
                let name = trace.name_id(partner);
                match names.iter_mut().find(|n| n.0 == name) {
                    Some((_, list)) => list.push(met),
                    None => names.push((name, vec![met])),
                }
            }
            covered += IntervalSet::merge(spans).measure().us();
        }
        if names.is_empty() {
            return None;
        }
        let mean = |values: &mut dyn ExactSizeIterator<Item = f64>| {
            let count = values.len() as f64;
            round2(values.sum::<f64>() / count)
        };
        let kernels = names.iter().map(|(name, met)| OverlappingKernel {
            name: trace.text(*name),
            mean_us: mean(&mut met.iter().map(|m| trace.dur(m.0).unwrap_or_default().as_us())),
            stream: trace.int(met[0].0, Key::Stream),
            share: mean(&mut met.iter().map(|m| round2(m.1 / own))),
        });
        Some(LauncherOverlap { kernels: kernels.collect(), share: round2(covered / own) })
    }
}

fn shared<T: Clock>(trace: &Trace, a: EventId, b: EventId) -> Option<(T, T)> {
    let (a, b) = (T::span_of(trace, a)?, T::span_of(trace, b)?);
    Some((a.0.max(b.0), a.1.min(b.1)))
}

/// Two decimals, the exact binary value rounded half to even.
fn round2(value: f64) -> f64 {
    format!("{value:.2}").parse().unwrap_or(value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Ns, TraceBuilder, Tree, TreeOptions, Us};

    #[test]
    fn an_overlap_is_a_share_of_each_side() {
        // stream 7   |-- mm 1000..1100 --|
        // stream 8            |-- add 1050..1200 -----------|
        // stream 8            (touches nothing)              |z 1200..1210|
        // stream 7                    |same stream 1060..1070|
        let mut b = TraceBuilder::new();
        b.gpu("kernel", "mm", 1000.0, 100.0, 1, 7);
        b.gpu("kernel", "add", 1050.0, 150.0, 2, 8);
        b.gpu("kernel", "z", 1200.0, 10.0, 3, 9);
        b.gpu("kernel", "short", 1199.5, 10.0, 4, 10);
        b.gpu("kernel", "empty", 1060.0, 0.0, 5, 11);
        let trace = b.build();
        let gpu: Vec<EventId> = trace.events().filter(|&e| trace.kind(e).is_gpu()).collect();
        let overlaps = Overlaps::<Us>::find(&trace, &gpu[..3], |_| None);
        assert_eq!(overlaps.pairs().len(), 1);
        let of = |i: usize| overlaps.of_launcher(&trace, &gpu[i..=i]).unwrap();
        assert_eq!((of(0).share, of(1).share), (0.5, 0.33));
        assert_eq!(of(0).kernels, [OverlappingKernel { name: "add", mean_us: 150.0, stream: Some(8), share: 0.5 }]);
        assert_eq!(overlaps.of_launcher(&trace, &gpu[2..3]), None);
        // `short` shares half a microsecond with `add` and 9.5 with `z`.
        let all = Overlaps::<Us>::find(&trace, &gpu, |_| None);
        let names: Vec<_> = all.pairs().iter().map(|p| (trace.name(p.running), trace.name(p.started))).collect();
        assert_eq!(names, [("mm", "add"), ("short", "z")]);
    }

    #[test]
    fn pairs_of_one_operation_are_left_out_on_request() {
        // thread 1   |-- op --------|
        //              |l1| |l2|
        // stream 7        |-- a ----|
        // stream 8             |-- b ---|
        let mut b = TraceBuilder::new();
        b.cpu_op("op", 0.0, 100.0);
        b.launch("cudaLaunchKernel", 10.0, 5.0, 1);
        b.launch("cudaLaunchKernel", 20.0, 5.0, 2);
        b.gpu("kernel", "a", 30.0, 50.0, 1, 7);
        b.gpu("kernel", "b", 40.0, 60.0, 2, 8);
        let trace = b.build();
        let tree = Tree::build(&trace, TreeOptions::default());
        let view = tree.view(&trace);
        let gpu = tree.all_gpu_events();
        assert_eq!(Overlaps::<Ns>::find(&trace, gpu, |_| None).pairs().len(), 1);
        assert_eq!(Overlaps::<Ns>::find(&trace, gpu, |k| view.launcher_of(k)).pairs().len(), 0);
    }
}
