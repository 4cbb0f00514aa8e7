//! Communication between GPUs, as far as one rank shows it: kinds, sizes, time, and how much of it nothing hides.

use std::collections::BTreeMap;
use std::sync::Arc;

use jarvis_perf::dtype;
use jarvis_perf::parity::Quirks;
use jarvis_trace::{Arg, EventId, EventKind, GpuWork, InOrder, IntervalSet, Key, Ns};

use super::copies::Works;
use super::recording::{GpuEvent, Recording};

/// What a collective is called whose name was not recorded; in tables its cell is empty.
pub const UNNAMED: &str = "unknown";

/// Parts of names of kernels and operations that mean collectives, in lower case.
pub(crate) const COLLECTIVES: [&str; 8] =
    ["allreduce", "all_reduce", "allgather", "all_gather", "reduce_scatter", "reducescatter", "alltoall", "all_to_all"];

/// Operations that stand around launches of communication kernels.
const OPERATIONS: [&str; 2] = ["record_param_comms", "c10d::"];

/// How many of the longest kernels are kept.
const LONGEST: usize = 10;

/// Collectives of one kind, group, type and size.
#[derive(Debug, Clone, PartialEq)]
pub struct Collective {
    /// `allreduce`, …; `unknown` where not recorded.
    pub name: Arc<str>,
    /// Ranks that take part.
    pub group_size: Option<i64>,
    /// Type of the elements.
    pub dtype: Option<Arc<str>>,
    /// Bytes that one rank puts in.
    pub message_bytes: Option<i64>,
    /// How many.
    pub count: usize,
    /// Their time.
    pub time: Ns,
    /// Time of them in which nothing was computed.
    pub exposed: Ns,
    /// UID of one.
    pub example: u32,
}

/// A communication kernel among the longest.
#[derive(Debug, Clone, PartialEq)]
pub struct LongKernel {
    /// Its name.
    pub name: Arc<str>,
    /// Its time.
    pub time: Ns,
    /// Its stream.
    pub stream: Option<i64>,
}

/// All communication of a trace.
#[derive(Debug, Clone, Default)]
pub struct Communication {
    /// Kernels.
    pub count: usize,
    /// Their time, summed.
    pub time: Ns,
    /// The longest.
    pub longest: Ns,
    /// The ten longest.
    pub top: Vec<LongKernel>,
    /// By kind, group, type and size, most time first.
    pub collectives: Vec<Collective>,
    /// Time in which communication went on, whatever else did.
    pub covered: Ns,
    /// Time in which nothing was computed meanwhile.
    pub exposed: Ns,
    /// Time in which something was computed.
    pub computation: Ns,
}

/// What tells collectives apart, in the order they are listed in when they take the same time.
type Kind = (Arc<str>, Option<i64>, Option<Arc<str>>, Option<i64>);

impl Communication {
    pub(crate) fn of(recording: &Recording<'_>, kernels: &[usize], works: &Works) -> Self {
        let trace = recording.trace;
        let mut all = Self {
            count: kernels.len(),
            covered: works.communication.measure(),
            exposed: works.communication.subtract(&works.computation).measure(),
            computation: works.computation.measure(),
            ..Self::default()
        };
        let mut kinds: BTreeMap<Kind, Vec<&GpuEvent>> = BTreeMap::new();
        for g in kernels.iter().map(|&i| &recording.gpu[i]) {
            let time = g.end - g.start;
            all.time = all.time + time;
            all.longest = all.longest.max(time);
            kinds.entry(kind(recording, g.event)).or_default().push(g);
        }
        for ((name, group_size, dtype, message_bytes), events) in kinds {
            let spans: IntervalSet<Ns> = events.iter().map(|g| (g.start, g.end)).collect();
            all.collectives.push(Collective {
                name,
                group_size,
                dtype,
                message_bytes,
                count: events.len(),
                time: events.iter().map(|g| g.end - g.start).sum(),
                exposed: spans.subtract(&works.computation).measure(),
                example: events[0].event.uid(),
            });
        }
        all.collectives.order_by_key(|c| std::cmp::Reverse(c.time));
        let mut order: Vec<&GpuEvent> = kernels.iter().map(|&i| &recording.gpu[i]).collect();
        order.order_by_key(|g| (std::cmp::Reverse(g.end - g.start), g.start, g.event));
        let long = |g: &GpuEvent| LongKernel {
            name: trace.name(g.event).into(),
            time: g.end - g.start,
            stream: trace.int(g.event, Key::Stream),
        };
        all.top = order.into_iter().take(LONGEST).map(long).collect();
        all
    }

    /// Share of the communication that computation hides; one where there is none.
    pub fn overlap_ratio(&self) -> f64 {
        if self.covered.0 == 0 { 1.0 } else { 1.0 - self.exposed.0 as f64 / self.covered.0 as f64 }
    }

    /// Computation that hides no communication yet, so could hide some.
    pub fn free_computation(&self) -> Ns {
        (self.computation - (self.covered - self.exposed)).max(Ns(0))
    }
}

/// Splits GPU events into computation, communication and copies, and lists the communication kernels. Communication is
/// what the timeline takes for it, and what names and launching operations tell beside.
pub(crate) fn split(recording: &Recording<'_>) -> (Works, Vec<usize>) {
    let trace = recording.trace;
    let mut by_name: Vec<Option<bool>> = vec![None; trace.strings().len()];
    let mut spans: [Vec<(Ns, Ns)>; 3] = Default::default();
    let mut communication = Vec::new();
    for (i, g) in recording.gpu.iter().enumerate() {
        let mut work = g.work;
        if work == GpuWork::Computation && trace.kind(g.event) == EventKind::Kernel {
            let name = trace.name_id(g.event);
            let named = *by_name[name.index()].get_or_insert_with(|| is_communication_kernel(trace.text(name)));
            if named || launched_by_communication(recording, g) {
                work = GpuWork::Communication;
            }
        }
        if work == GpuWork::Communication {
            communication.push(i);
        }
        spans[work as usize].push((g.start, g.end));
    }
    let [computation, communicating, memcpy] = spans.map(IntervalSet::merge);
    (Works { computation, communication: communicating, memcpy }, communication)
}

fn is_communication_kernel(name: &str) -> bool {
    // A compiler's names tell all operations that are in the kernel or next to it.
    if name.starts_with("triton_") {
        return false;
    }
    let broadcast = name.find("broadcast").is_some_and(|at| name[at..].contains("Kernel"));
    let lower = name.to_lowercase();
    // Elementwise kernels broadcast their operands; those of libraries are no templates of the framework.
    COLLECTIVES.iter().any(|w| lower.contains(w)) || broadcast && !lower.contains("at::native")
}

fn launched_by_communication(recording: &Recording<'_>, g: &GpuEvent) -> bool {
    let Some(launch) = recording.launch(g) else { return false };
    let is = |e: EventId| OPERATIONS.iter().any(|o| recording.trace.name(e).starts_with(o));
    recording.tree.parent(launch.call).is_some_and(is)
}

fn kind(recording: &Recording<'_>, event: EventId) -> Kind {
    let trace = recording.trace;
    let text = |key: &str| trace.arg(event, key).as_ref().and_then(Arg::as_str).map(Arc::<str>::from);
    let number = |key: &str| trace.arg(event, key).and_then(Arg::as_int);
    let dtype = text("dtype");
    let size = dtype.as_deref().and_then(|d| dtype::communicated_size(d, &Quirks::NONE));
    let bytes = number("In msg nelems").zip(size).and_then(|(count, size)| count.checked_mul(size));
    (text("Collective name").unwrap_or_else(|| UNNAMED.into()), number("Group size"), dtype, bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn communication_is_told_from_elementwise_broadcasts() {
        for (name, is) in [
            ("void at::native::vectorized_elementwise_kernel<4, broadcast_Kernel>", false),
            ("ncclDevKernel_AllReduce_Sum_bf16", true),
            ("void vllm::cross_device_reduce_1stage_allreduce<half>", true),
            ("broadcastOneShotKernel", true),
            ("gemm_broadcast_bias", false),
            ("void broadcast_mul_kernel<float>(float*)", false),
            ("triton_poi_fused_add_all_reduce_wait_tensor_3", false),
        ] {
            assert_eq!(is_communication_kernel(name), is, "{name}");
        }
    }
}
