//! The kernels of a group of calls, position by position: the `kernel_details…` cells.

use std::cmp::Ordering;
use std::fmt::Write;
use std::sync::Arc;

use jarvis_trace::{EventId, Key, StrId, Trace, pyliteral};
use rapidhash::RapidHashMap;
use smallvec::smallvec;

use super::stats::{Numbers, median_of_sorted, pairwise_sum, population_std};
use super::texts::Texts;
use crate::parity::Quirks;

/// Longest kernel name in the short form, in characters.
const SHORT_NAME: usize = 64;

/// Bytes that the numbers of a kernel and their names take in the full and in the short form.
const FULL_NUMBERS: usize = 400;
const SHORT_NUMBERS: usize = 80;

/// Calls that launch more kernels than this list them by name and not one by one: a recurrent layer launches ten thousand,
/// and a cell of megabytes is of no use to anybody.
const LONGEST: usize = 200;

/// The kernel at one position of a group's kernel lists, or all kernels of a name where the lists are long.
#[derive(Debug, Clone, PartialEq)]
pub struct KernelStat {
    /// Name, from the first call.
    pub name: Arc<str>,
    /// The event of the first call; `None` where several events share an entry.
    pub example: Option<EventId>,
    /// Stream, from the first call.
    pub stream: Option<i64>,
    /// Share of the call's time in which the kernel overlaps it, for kernels that overlap.
    pub overlap: Option<f64>,
    /// Calls that have a kernel at this position, or kernels of this name.
    pub count: usize,
    /// Sum of durations.
    pub total_us: f64,
    /// Mean duration.
    pub mean_us: f64,
    /// Median duration.
    pub median_us: f64,
    /// Standard deviation of durations, over n (not n − 1).
    pub std_us: f64,
    /// Shortest duration.
    pub min_us: f64,
    /// Longest duration.
    pub max_us: f64,
}

impl KernelStat {
    /// Least time first, then by name.
    fn order(&self, other: &Self) -> Ordering {
        self.total_us.total_cmp(&other.total_us).then_with(|| self.name.cmp(&other.name))
    }
}

/// What a call contributes at one position.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Listed {
    pub(crate) name: StrId,
    pub(crate) event: Option<EventId>,
    pub(crate) us: f64,
    pub(crate) stream: Option<i64>,
    pub(crate) overlap: Option<f64>,
}

impl Listed {
    fn kernel(trace: &Trace, event: EventId) -> Self {
        Self {
            name: trace.name_id(event),
            event: Some(event),
            us: duration(trace, event),
            stream: trace.int(event, Key::Stream),
            overlap: None,
        }
    }
}

fn duration(trace: &Trace, event: EventId) -> f64 {
    trace.dur(event).unwrap_or_default().as_us()
}

/// The kernels of a group of calls; the one with most time is last.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct KernelList {
    /// One entry a position or, where there are very many, a name; in order of total time, then name.
    pub kernels: Arc<[KernelStat]>,
    /// Kernels that a call launches.
    pub per_call: usize,
    /// Whether some calls ran other kernels than the first: names are the first call's, times are everybody's.
    pub mixed: bool,
    /// Calls left out because they launched another number of kernels than the first.
    pub skipped: usize,
}

impl KernelList {
    /// Of the kernels of each call. The first call that has any decides names, streams and how many there are.
    pub(crate) fn of_events<'k>(
        trace: &Trace,
        calls: impl Iterator<Item = &'k [EventId]>,
        texts: &mut Texts<'_>,
        quirks: &Quirks,
    ) -> Self {
        let mut positions = Positions::default();
        for call in calls {
            if positions.template.is_empty() {
                positions.begin(call.iter().map(|&e| Listed::kernel(trace, e)).collect());
            } else {
                positions.add(call.iter().map(|&e| (trace.name_id(e), duration(trace, e))));
            }
        }
        positions.finish(texts, quirks)
    }

    /// As [`KernelList::of_events`], with what each position contributes already known.
    pub(crate) fn of<'k>(calls: impl Iterator<Item = &'k [Listed]>, texts: &mut Texts<'_>, quirks: &Quirks) -> Self {
        let mut positions = Positions::default();
        for call in calls {
            if positions.template.is_empty() {
                positions.begin(call.to_vec());
            } else {
                positions.add(call.iter().map(|k| (k.name, k.us)));
            }
        }
        positions.finish(texts, quirks)
    }

    /// All kernels of some calls, one entry for each name, the one with most time last: also where calls launch another
    /// number of them than the first and the list leaves them out.
    pub fn of_all_calls<'k>(trace: &Trace, calls: impl Iterator<Item = &'k [EventId]>) -> Arc<[KernelStat]> {
        let mut all = Positions::default();
        for &event in calls.flatten() {
            all.template.push(Listed::kernel(trace, event));
            all.durations.push(smallvec![duration(trace, event)]);
        }
        let all = all.by_name();
        let named = all.template.iter().zip(all.durations);
        let mut kernels: Vec<KernelStat> =
            named.map(|(first, durations)| stat(first, trace.text(first.name).into(), durations)).collect();
        kernels.sort_by(KernelStat::order);
        kernels.into()
    }

    /// The full cell; `None` without kernels.
    pub(crate) fn text(&self) -> Option<String> {
        self.written(FULL_NUMBERS, |out, k| {
            out.push_str("{'name': ");
            pyliteral::push_str(out, &k.name);
            push_stream(out, k.stream);
            out.push_str(", ");
            if let Some(share) = k.overlap {
                out.push_str("'overlap_pct': ");
                pyliteral::push_float(out, share);
                out.push_str(", ");
            }
            let _ = write!(out, "'count': {}", k.count);
            for (key, us) in [
                ("total_duration_us", k.total_us),
                ("mean_duration_us", k.mean_us),
                ("median_duration_us", k.median_us),
                ("std_dev_duration_us", k.std_us),
                ("min_duration_us", k.min_us),
                ("max_duration_us", k.max_us),
            ] {
                out.extend([", '", key, "': np.float64("]);
                pyliteral::push_float(out, us);
                out.push(')');
            }
        })
    }

    /// The short cell: name, stream and mean; `None` without kernels.
    pub(crate) fn short_text(&self) -> Option<String> {
        self.written(SHORT_NUMBERS, |out, k| {
            out.push_str("{'name': ");
            match k.name.char_indices().nth(SHORT_NAME) {
                Some((at, _)) => {
                    pyliteral::push_str(out, &k.name[..at]);
                    let quote = out.pop();
                    out.push_str("...");
                    out.extend(quote);
                }
                None => pyliteral::push_str(out, &k.name),
            }
            push_stream(out, k.stream);
            if let Some(share) = k.overlap {
                out.push_str(", 'overlap_pct': ");
                pyliteral::push_float(out, share);
            }
            out.push_str(", 'mean_duration_us': np.float64(");
            pyliteral::push_float(out, round2(k.mean_us));
            out.push(')');
        })
    }

    /// What `one` writes of each kernel: its name, and so many bytes of numbers or a little more.
    fn written(&self, numbers: usize, one: impl Fn(&mut String, &KernelStat)) -> Option<String> {
        if self.kernels.is_empty() {
            return None;
        }
        let names: usize = self.kernels.iter().map(|k| k.name.len()).sum();
        let mut out = String::with_capacity(names + self.kernels.len() * numbers);
        out.push('[');
        for (i, kernel) in self.kernels.iter().enumerate() {
            out.push_str(if i > 0 { ", " } else { "" });
            one(&mut out, kernel);
            out.push('}');
        }
        out.push(']');
        Some(out)
    }
}

/// Durations by position in the list, as calls are added.
#[derive(Default)]
struct Positions {
    template: Vec<Listed>,
    durations: Vec<Numbers>,
    mixed: bool,
    skipped: usize,
}

impl Positions {
    /// Takes the first call that may have kernels.
    fn begin(&mut self, call: Vec<Listed>) {
        self.durations = call.iter().map(|k| smallvec![k.us]).collect();
        self.template = call;
    }

    fn add(&mut self, call: impl ExactSizeIterator<Item = (StrId, f64)>) {
        if call.len() != self.template.len() {
            self.skipped += usize::from(call.len() > 0);
            return;
        }
        for ((position, (name, us)), first) in self.durations.iter_mut().zip(call).zip(&self.template) {
            position.push(us);
            self.mixed |= name != first.name;
        }
    }

    fn finish(self, texts: &mut Texts<'_>, quirks: &Quirks) -> KernelList {
        let per_call = self.template.len();
        let long = per_call > LONGEST && !quirks.kernel_lists_however_long;
        let entries = if long { self.by_name() } else { self };
        let positions = entries.template.iter().zip(entries.durations);
        let mut kernels: Vec<KernelStat> =
            positions.map(|(first, durations)| stat(first, texts.shared(first.name), durations)).collect();
        kernels.sort_by(KernelStat::order);
        KernelList { kernels: kernels.into(), per_call, mixed: entries.mixed, skipped: entries.skipped }
    }

    /// The same with one entry for each name, in order of first appearance.
    fn by_name(self) -> Self {
        let mut merged = Self { mixed: self.mixed, skipped: self.skipped, ..Self::default() };
        let mut places: RapidHashMap<StrId, usize> = RapidHashMap::default();
        for (listed, durations) in self.template.into_iter().zip(self.durations) {
            let at = *places.entry(listed.name).or_insert(merged.template.len());
            let Some(first) = merged.template.get_mut(at) else {
                merged.template.push(listed);
                merged.durations.push(durations);
                continue;
            };
            first.event = None;
            first.overlap = None;
            first.stream = first.stream.filter(|&stream| listed.stream == Some(stream));
            merged.durations[at].extend(durations);
        }
        merged
    }
}

fn stat(first: &Listed, name: Arc<str>, mut durations: Numbers) -> KernelStat {
    let total_us = pairwise_sum(&durations);
    let mean_us = total_us / durations.len() as f64;
    let std_us = population_std(&durations, mean_us);
    durations.sort_unstable_by(f64::total_cmp);
    let edge = |value: Option<&f64>| value.copied().unwrap_or_default();
    KernelStat {
        name,
        example: first.event,
        stream: first.stream,
        overlap: first.overlap,
        count: durations.len(),
        total_us,
        mean_us,
        median_us: median_of_sorted(&durations).unwrap_or_default(),
        std_us,
        min_us: edge(durations.first()),
        max_us: edge(durations.last()),
    }
}

fn push_stream(out: &mut String, stream: Option<i64>) {
    // Writing to a String does not fail.
    let _ = match stream {
        Some(stream) => write!(out, ", 'stream': {stream}"),
        None => write!(out, ", 'stream': None"),
    };
}

/// Two decimals the way the reference rounds arrays: `x · 100` to the nearest even whole number, over 100.
pub(crate) fn round2(value: f64) -> f64 {
    (value * 100.0).round_ties_even() / 100.0
}

#[cfg(test)]
mod tests {
    use super::*;
    use jarvis_trace::TraceBuilder;

    #[test]
    fn rounding_is_that_of_arrays() {
        let rounded = [2.675, 0.828_125, 0.125].map(|x| round2(x).to_bits());
        assert_eq!(rounded, [2.68f64, 0.83, 0.12].map(f64::to_bits));
    }

    #[test]
    fn the_dominant_kernel_is_last_and_other_lengths_are_skipped() {
        let mut b = TraceBuilder::new();
        for (name, dur) in [("gemm", 5.0), ("Memset (Device)", 1.0), ("gemm", 7.0), ("Memcpy", 2.0), ("gemm", 9.0)] {
            b.kernel(name, 0.0, dur, 1);
        }
        let trace = b.build();
        let k: Vec<EventId> = trace.events().filter(|&e| trace.kind(e).is_gpu()).collect();
        let calls: [&[EventId]; 4] = [&[], &[k[0], k[1]], &[k[2], k[3]], &[k[4]]];
        let list = KernelList::of_events(&trace, calls.into_iter(), &mut Texts::new(&trace), &Quirks::NONE);
        assert_eq!((list.mixed, list.skipped), (true, 1));
        assert_eq!(
            list.text().unwrap(),
            "[{'name': 'Memset (Device)', 'stream': 7, 'count': 2, 'total_duration_us': np.float64(3.0), \
             'mean_duration_us': np.float64(1.5), 'median_duration_us': np.float64(1.5), \
             'std_dev_duration_us': np.float64(0.5), 'min_duration_us': np.float64(1.0), \
             'max_duration_us': np.float64(2.0)}, {'name': 'gemm', 'stream': 7, 'count': 2, \
             'total_duration_us': np.float64(12.0), 'mean_duration_us': np.float64(6.0), \
             'median_duration_us': np.float64(6.0), 'std_dev_duration_us': np.float64(1.0), \
             'min_duration_us': np.float64(5.0), 'max_duration_us': np.float64(7.0)}]"
        );
        assert_eq!(
            list.short_text().unwrap(),
            "[{'name': 'Memset (Device)', 'stream': 7, 'mean_duration_us': np.float64(1.5)}, \
             {'name': 'gemm', 'stream': 7, 'mean_duration_us': np.float64(6.0)}]"
        );
        assert_eq!(KernelList::default().text(), None);
    }

    #[test]
    fn very_long_lists_are_by_name() {
        // Two calls of 300 kernels each: a clear of 1 us and 299 cells of 2 us, on two streams.
        let mut b = TraceBuilder::new();
        for i in 0..600 {
            let (name, us) = if i % 300 == 0 { ("Memset (Device)", 1.0) } else { ("cell", 2.0) };
            b.gpu("kernel", name, f64::from(i), us, 1, 7 + i64::from(i % 2));
        }
        let trace = b.build();
        let k: Vec<EventId> = trace.events().filter(|&e| trace.kind(e).is_gpu()).collect();
        let list = |quirks: &Quirks| {
            let calls: [&[EventId]; 2] = [&k[..300], &k[300..]];
            KernelList::of_events(&trace, calls.into_iter(), &mut Texts::new(&trace), quirks)
        };
        let long = list(&Quirks::REFERENCE);
        assert_eq!((long.kernels.len(), long.per_call, long.kernels[299].count), (300, 300, 2));
        let short = list(&Quirks::NONE);
        assert_eq!((short.kernels.len(), short.per_call), (2, 300));
        let [memset, cell] = &*short.kernels else { panic!("one entry a name") };
        assert_eq!((&*memset.name, memset.count, memset.stream), ("Memset (Device)", 2, Some(7)));
        assert_eq!((&*cell.name, cell.count, cell.stream, cell.example), ("cell", 598, None, None));
        // As many names as kernels are as many entries.
        let mut b = TraceBuilder::new();
        for i in 0..300 {
            b.kernel(&format!("kernel {i}"), f64::from(i), 1.0, 1);
        }
        let names = b.build();
        let k: Vec<EventId> = names.events().filter(|&e| names.kind(e).is_gpu()).collect();
        let list = KernelList::of_events(&names, [&*k].into_iter(), &mut Texts::new(&names), &Quirks::NONE);
        assert_eq!((list.kernels.len(), list.per_call), (300, 300));
        let sum = |list: &KernelList| list.kernels.iter().map(|k| k.total_us).sum::<f64>();
        assert!((sum(&short) - sum(&long)).abs() < 1e-9 && (cell.mean_us - 2.0).abs() < 1e-9);
    }
}
