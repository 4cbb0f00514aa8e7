//! Gives a step its times: host events nested per thread, kernels in order per stream and after their launch.

use super::random::Random;
use super::template::{Stream, Template, Track, Work};

/// Where host and streams stand between steps.
#[derive(Clone, Copy, Debug)]
pub(super) struct Clock {
    /// The host, in nanoseconds of the trace.
    pub(super) host_ns: u64,
    streams_ns: [u64; Stream::ALL.len()],
}

impl Clock {
    /// All at one moment.
    pub(super) fn at(ns: u64) -> Self {
        Self { host_ns: ns, streams_ns: [ns; Stream::ALL.len()] }
    }
}

/// Start and duration of something.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Span {
    pub(super) start_ns: u64,
    pub(super) dur_ns: u64,
}

impl Span {
    /// The moment after it.
    pub(super) fn end_ns(self) -> u64 {
        self.start_ns + self.dur_ns
    }
}

/// Times of one step, by node index. Buffers are reused from step to step.
#[derive(Debug, Default)]
pub(super) struct Times {
    pub(super) host: Vec<Span>,
    /// Filled for launches only.
    pub(super) gpu: Vec<Span>,
    open: Vec<usize>,
}

/// From the call to the first moment its kernel can run.
const LAUNCH_LATENCY_NS: u32 = 2_600;
/// Between two kernels of a stream that wait for nothing else.
const KERNEL_GAP_NS: u32 = 900;
/// GPU timestamps come in ticks of this length on the H200 (durations in `h200/` are multiples of it, give or take 1).
const GPU_TICK_NS: u64 = 32;
/// The autograd thread wakes up this long after the Python thread hands over.
const THREAD_SWITCH_NS: u32 = 9_000;

impl Times {
    /// Plays step number `step` from `clock` on, and moves the clock to its end.
    pub(super) fn play(&mut self, template: &Template, seed: u64, step: u64, clock: &mut Clock) {
        let mut random = Random::new(seed, step + 1);
        let count = template.nodes.len();
        self.host.clear();
        self.host.resize(count, Span::default());
        self.gpu.clear();
        self.gpu.resize(count, Span::default());
        let mut track = Track::Main;
        for index in 0..count {
            self.close_until(template, index, &mut random, clock);
            let node = &template.nodes[index];
            if node.track != track {
                clock.host_ns += random.jitter(THREAD_SWITCH_NS);
                track = node.track;
            }
            clock.host_ns += random.jitter(node.before_ns);
            self.host[index].start_ns = clock.host_ns;
            match node.work {
                Work::Launch { gpu, .. } => {
                    let ready = clock.host_ns + random.jitter(LAUNCH_LATENCY_NS);
                    let last = &mut clock.streams_ns[gpu.stream.index()];
                    let start = ready.max(*last + random.jitter(KERNEL_GAP_NS));
                    let ticks = random.jitter(gpu.nominal_ns).div_ceil(GPU_TICK_NS);
                    let dur = ticks * GPU_TICK_NS + u64::from(random.below(4) == 0);
                    *last = start + dur;
                    self.gpu[index] = Span { start_ns: start, dur_ns: dur };
                }
                Work::Call { waits: true, .. } => {
                    clock.host_ns = clock.streams_ns.iter().fold(clock.host_ns, |latest, &ns| latest.max(ns));
                }
                _ => {}
            }
            self.open.push(index);
        }
        self.close_until(template, count, &mut random, clock);
    }

    fn close_until(&mut self, template: &Template, next: usize, random: &mut Random, clock: &mut Clock) {
        while let Some(&index) = self.open.last() {
            let node = &template.nodes[index];
            if node.end as usize > next {
                break;
            }
            self.open.pop();
            if matches!(node.work, Work::Memory) {
                continue;
            }
            clock.host_ns += random.jitter(node.after_ns);
            self.host[index].dur_ns = clock.host_ns - self.host[index].start_ns;
        }
    }

    /// First start to last end of the kernels on the compute stream under a node.
    pub(super) fn gpu_extent(&self, template: &Template, index: usize) -> Option<Span> {
        let range = index..template.nodes[index].end as usize;
        let mut extent: Option<Span> = None;
        for inner in range {
            let Work::Launch { gpu, .. } = template.nodes[inner].work else { continue };
            if gpu.stream != Stream::Compute {
                continue;
            }
            let span = self.gpu[inner];
            let start_ns = extent.map_or(span.start_ns, |e| e.start_ns.min(span.start_ns));
            let end_ns = extent.map_or(span.end_ns(), |e| e.end_ns().max(span.end_ns()));
            extent = Some(Span { start_ns, dur_ns: end_ns - start_ns });
        }
        extent
    }
}
