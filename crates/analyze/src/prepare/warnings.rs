//! What a reader of the numbers should know before believing them, in a fixed order.

use std::collections::BTreeSet;
use std::sync::Arc;

use jarvis_perf::platform::{Platform, Source};
use jarvis_perf::tables::Report;
use jarvis_trace::{Defect, Diagnostic, Diagnostics, Severity};

use super::args;
use crate::prepared::{DeviceTime, Efficiency, Prepared, Row};
use crate::rounding::{shown, shown_ms};
use crate::texts::{counted, quoted};

/// Told where no Python frames were recorded.
pub const NO_STACK: &str = "No Python stack in the trace: module patterns are limited; record with `with_stack=True`.";

/// Told where no host operation was recorded: nothing else that could be recorded would help then.
pub const NO_OPERATIONS: &str = "No host operations in the trace: no shapes, no modules, no efficiency and no replay; \
                                 record with `activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]`.";

/// Told where shapes were asked for and no operation has any.
pub const LOST_SHAPES: &str = "No operation in the trace has shapes although `record_shapes` was on: no efficiency and \
                               no replay.";

/// Told where no shapes were recorded.
pub const NO_SHAPES: &str = "No shapes in the trace: no efficiency and no replay; record with `record_shapes=True`.";

/// Told where no profiler step was recorded.
pub const NO_STEP: &str = "No profiler step in the trace: times are of the whole window.";

/// Told where category times are far from the computation time; with these words the sentence begins.
pub const TIMES_APART: &str = "Category times add up to";

/// Told of GPU events without a launch, within a sentence after their verb.
pub const UNLAUNCHED: &str = "no recorded launch";

/// Told of GPU events whose launch is not known, within a sentence after their verb.
pub const UNOWNED: &str = "to no operation";

/// Category times may differ from the computation time by this much before it is told, in percent.
const TIME_SUM_TOLERANCE: f64 = 10.0;

/// GPU time without a recorded launch above this share of kernel time is told, in percent.
const UNLINKED_TOLERANCE: f64 = 5.0;

pub(crate) fn warnings(p: &Prepared, report: &Report) -> Vec<String> {
    // First what all other numbers are of.
    let mut out: Vec<String> = guessed_platform(p).into_iter().collect();
    out.extend(p.losses.iter().cloned());
    out.extend(several_gpus(&p.devices));
    out.extend(several_models(p));
    out.extend(unsure(&report.diagnostics));
    out.extend(other_device(p));
    let (parts, doubtful): (Vec<&Row>, Vec<&Row>) =
        p.rows.iter().filter(|r| r.efficiency.is_anomaly).partition(|r| r.efficiency.is_at_most());
    out.extend(doubtful.iter().map(|row| beyond_peak(&row.name, &row.args, &row.efficiency)));
    out.extend(touching_parts(&parts));
    out.extend(p.rows.iter().filter(|r| r.high_variance).map(varying));
    out.extend(time_sum(p));
    let in_graphs = report.rows.kernels.iter().any(|k| k.category.as_deref() == Some("graph"));
    out.extend(not_recorded(p, in_graphs).into_iter().map(str::to_owned));
    if p.program.steps == 0 {
        out.push(NO_STEP.to_owned());
    }
    out.extend(unlinked(p, report));
    out.extend(derived_peaks(p));
    out.extend(missing_rates(p));
    out
}

/// GPU events without a launch. What was still running when the recording began is no part of the window: nothing of the
/// window is missing then.
fn unlinked(p: &Prepared, report: &Report) -> Vec<String> {
    let ((all, all_us), (mut before, mut before_us)) = (report.rows.unlinked, report.rows.unlinked_before);
    if is_launch_recorded(&report.diagnostics) {
        (before, before_us) = (0, 0.0);
    }
    let kernel_us: f64 = p.rows.iter().map(|r| r.time_ms * 1e3).sum();
    let considerable = |us: f64| us > UNLINKED_TOLERANCE / 100.0 * kernel_us;
    let mut out = Vec::new();
    if considerable(all_us - before_us) {
        let told = unowned(all - before, &report.diagnostics, &shown_ms((all_us - before_us) / 1e3));
        out.push(told + &within(report));
    }
    if considerable(before_us) {
        let (events, time) = (counted(before, "GPU event"), shown_ms(before_us / 1e3));
        let (were, they_are, them) = if before == 1 { ("was", "it is", "it") } else { ("were", "they are", "them") };
        out.push(format!(
            "{events} ({time} ms) {were} launched before the recording began and ended before the window: {they_are} \
             left out. `torch.cuda.synchronize()` before the first recorded step keeps {them} out of the recording."
        ));
    }
    out
}

/// How GPU events without a launch are counted that ran between others.
fn within(report: &Report) -> String {
    let (count, us) = report.rows.unlinked_within;
    if count == 0 {
        return String::new();
    }
    let time = shown_ms(us / 1e3);
    format!(" Of that, {time} ms lie within the window and count as GPU work in the timeline, not as idle time.")
}

/// Whether launches of GPU events are there, and only whose they are is not known.
fn is_launch_recorded(diagnostics: &Diagnostics) -> bool {
    diagnostics.count(Defect::AmbiguousLaunch) + diagnostics.count(Defect::UnreadRuntime) > 0
}

/// Told where the platform was recognised by likeness alone.
pub fn guessed_platform(p: &Prepared) -> Option<String> {
    p.platform.doubt.as_ref().map(|doubt| format!("The peaks may not fit: {doubt}."))
}

/// GPUs that are listed one by one at most.
const LISTED_GPUS: usize = 8;

/// Told where several GPUs worked: shares of one timeline hide that one waits while another works.
pub fn several_gpus(devices: &[DeviceTime]) -> Option<String> {
    let busy = |d: &DeviceTime| format!("GPU {} is busy for {}%", d.device, shown(d.busy_time_percent, 1));
    let told = match devices {
        [] | [_] => return None,
        few if few.len() <= LISTED_GPUS => few.iter().map(busy).collect::<Vec<_>>().join(", "),
        many => {
            let mut order: Vec<&DeviceTime> = many.iter().collect();
            order.sort_by(|a, b| a.busy_time_percent.total_cmp(&b.busy_time_percent));
            let ends: Vec<String> = order.first().into_iter().chain(order.last()).map(|d| busy(d)).collect();
            ends.join(" and, at the other end, ")
        }
    };
    let count = devices.len();
    Some(format!(
        "{count} GPUs in one recording: the timeline tells when any of them works, and shares of operations are of the \
         kernel time of all of them. Of the whole window {told}; for the rest each is idle."
    ))
}

fn several_models(p: &Prepared) -> Option<String> {
    let names: Vec<String> = p.models_at_work.iter().map(|name| quoted(name)).collect();
    (names.len() > 1).then(|| {
        format!(
            "GPUs of several models worked ({}); the analysis uses the peaks of {}.",
            names.join(", "),
            p.platform.name
        )
    })
}

/// Defects that touch times or owners of GPU work.
const UNSURE: [Defect; 6] = [
    Defect::BadTime,
    Defect::NegativeDuration,
    Defect::MissingGpuTime,
    Defect::DuplicateEvent,
    Defect::ClockSkew,
    Defect::SharedCorrelation,
];

/// What makes times or owners of GPU work unsure, one sentence each.
fn unsure(diagnostics: &Diagnostics) -> impl Iterator<Item = String> {
    let seen = diagnostics.seen().filter(|(d, ..)| UNSURE.contains(&d.defect));
    seen.map(|(d, count, _)| format!("Some numbers are unsure: {}.", advised(d, count)))
}

/// Defects that only whoever records can mend, so that the sentence says how.
const ADVISED: [Defect; 4] =
    [Defect::ImpossibleDuration, Defect::DuplicateEvent, Defect::ClockSkew, Defect::LaunchWithoutKernel];

/// What was seen, how often, and what to do about it.
fn advised(d: &Diagnostic, count: u64) -> String {
    let advice = if ADVISED.contains(&d.defect) { format!("; {}", d.remedy) } else { String::new() };
    format!("{} ({count}x){advice}", d.meaning)
}

/// Of GPU events that belong to no operation: how many, why, and their time.
fn unowned(count: usize, diagnostics: &Diagnostics, ms: &str) -> String {
    let (have, belong) = if count == 1 { ("has", "belongs") } else { ("have", "belong") };
    let events = format!("{} ({ms} ms)", counted(count, "GPU event"));
    let shared = |count: usize| match count {
        1 => "shares its correlation with others, so which call launched it is not known",
        _ => "share their correlation with others, so which call launched them is not known",
    };
    if diagnostics.count(Defect::UnreadRuntime) > 0 {
        let why = "launched through a runtime whose calls are not read";
        return format!("{events} {belong} {UNOWNED}: {why}.");
    }
    match diagnostics.count(Defect::AmbiguousLaunch) as usize {
        0 => format!("{events} {have} {UNLAUNCHED} and {belong} {UNOWNED}."),
        ambiguous if ambiguous >= count => {
            let they = if count == 1 { "it" } else { "they" };
            format!("{events} {belong} {UNOWNED}: {they} {}.", shared(count))
        }
        ambiguous => {
            let others = if count - ambiguous == 1 { "the other has" } else { "the others have" };
            format!("{events} {belong} {UNOWNED}: {ambiguous} {}, {others} {UNLAUNCHED}.", shared(ambiguous))
        }
    }
}

/// What the recording lacks, with the advice that would add it. Why kernels that a GPU graph launched have no operations
/// is told where graphs are told of.
fn not_recorded(p: &Prepared, in_graphs: bool) -> Vec<&'static str> {
    if !p.has_operations && !in_graphs {
        return vec![NO_OPERATIONS];
    }
    let stack = (!p.program.has_frames).then_some(NO_STACK);
    let shapes = match (p.has_shapes, p.record_shapes) {
        (true, _) => None,
        _ if in_graphs && !p.has_operations => None,
        (false, true) => Some(LOST_SHAPES).filter(|_| !in_graphs),
        (false, false) => Some(NO_SHAPES),
    };
    stack.into_iter().chain(shapes).collect()
}

/// What is known to be missing from the recording, one sentence each.
pub(crate) fn losses(diagnostics: &Diagnostics) -> Vec<String> {
    let lost: Vec<_> = diagnostics.seen().filter(|(d, ..)| d.severity == Severity::DataLoss).collect();
    let cuts = [Defect::GzipTruncated, Defect::GzipCorrupt, Defect::JsonTruncated];
    let (cut, rest): (Vec<_>, Vec<_>) = lost.into_iter().partition(|(d, ..)| cuts.contains(&d.defect));
    // A file that is cut shows it twice: as a container and as a document. The document knows where.
    let place = diagnostics.cut_at().map(|byte| format!(", at byte {byte} of its text"));
    let first = cut.first().map(|(d, ..)| {
        let why = match d.defect {
            Defect::GzipTruncated => "the gzip stream ends early",
            Defect::GzipCorrupt => "the gzip stream is damaged",
            _ => "the document ends early",
        };
        let place = place.unwrap_or_default();
        format!(
            "The recording is cut off: {why}{place}. Everything before the cut is analysed; what came after is lost."
        )
    });
    let told = rest.iter().map(|(d, count, _)| format!("Part of the recording is lost: {}.", advised(d, *count)));
    first.into_iter().chain(told).collect()
}

fn other_device(p: &Prepared) -> Option<String> {
    let name = p.device_name.as_deref()?;
    let memory = None;
    let found = Platform::from_device(name, p.compute_units.and_then(|n| u32::try_from(n).ok()), memory)?;
    (found.platform.name != p.platform.name)
        .then(|| format!("The trace is of {}; the analysis uses the peaks of {}.", quoted(name), p.platform.name))
}

fn time_sum(p: &Prepared) -> Option<String> {
    let sum: f64 = p.categories.iter().map(|c| c.time_ms).sum();
    let compute = p.utilization.computation_time_ms;
    let far = compute > 0.0 && (sum - compute).abs() > TIME_SUM_TOLERANCE / 100.0 * compute;
    far.then(|| {
        let why = match p.devices.len() {
            _ if sum < compute => "kernels belong to no operation",
            0 | 1 => "streams overlap",
            _ => "several GPUs work at the same time",
        };
        let (sum, compute) = (shown_ms(sum), shown_ms(compute));
        format!("{TIMES_APART} {sum} ms, computation time is {compute} ms: {why}.")
    })
}

fn derived_peaks(p: &Prepared) -> Option<String> {
    let mut specs: Vec<&str> = p
        .rows
        .iter()
        .filter_map(|r| r.efficiency.compute_spec.as_deref())
        .filter(|spec| p.platform.peak(spec).is_some_and(|f| f.source == Source::Derived))
        .collect();
    specs.sort_unstable();
    specs.dedup();
    (!specs.is_empty()).then(|| format!("Derived peaks are used for {}.", specs.join(", ")))
}

fn missing_rates(p: &Prepared) -> Option<String> {
    let rows = p.rows.iter().filter(|r| r.efficiency.lacks_rate);
    let spec = |r: &'_ Row| r.efficiency.compute_spec.clone().unwrap_or_else(|| "matrix_bf16".into());
    without_rate(&p.platform, rows.map(|r| (spec(r), r.time_ms)))
}

/// Told of matrix work whose peak rate the platform does not have: the Compute Spec and the milliseconds of each part.
pub fn without_rate(platform: &Platform, work: impl IntoIterator<Item = (Arc<str>, f64)>) -> Option<String> {
    let mut specs: BTreeSet<Arc<str>> = BTreeSet::new();
    let mut ms = 0.0;
    for (spec, part_ms) in work {
        specs.insert(spec);
        ms += part_ms;
    }
    (!specs.is_empty()).then(|| {
        format!(
            "{} has no peak rate for {}: how close {} ms of matrix work come to the hardware is not known. `--arch FILE` \
             can give the rate.",
            quoted(&platform.name),
            specs.iter().map(|spec| &**spec).collect::<Vec<_>>().join(", "),
            shown_ms(ms)
        )
    })
}

/// Told of what is faster than the hardware.
fn beyond_peak(name: &str, args: &str, e: &Efficiency) -> String {
    let percent = shown(e.efficiency_percent.unwrap_or_default(), 1);
    format!("{}{} reaches {percent}% of peak{}.", quoted(name), on(args), doubt(e))
}

/// Told of compiled kernels that would be faster than the hardware if they moved their tensors whole: of all at once, since
/// nothing is wrong with the recording.
fn touching_parts(rows: &[&Row]) -> Option<String> {
    let largest = rows.iter().copied().reduce(|a, b| if b.time_ms > a.time_ms { b } else { a })?;
    let told = beyond_peak(&largest.name, &largest.args, &largest.efficiency);
    let time_ms: f64 = rows.iter().map(|r| r.time_ms).sum();
    Some(match rows.len() {
        1 => told,
        n => format!("{told} Likewise {} more; {} ms in all.", n - 1, shown_ms(time_ms)),
    })
}

/// What is wrong about more than the peak.
pub(crate) fn doubt(e: &Efficiency) -> &'static str {
    if e.is_at_most() {
        " if it moves its tensors whole: a compiled kernel may touch a part of them, so its efficiency is not known"
    } else {
        ": verify the measurement"
    }
}

/// Calls alike are told apart from others of the same operation by their inputs, and by their number where none are known.
fn varying(row: &Row) -> String {
    format!(
        "The times of {}{} vary widely ({}): deviation {} of the mean, {} ms in all.",
        quoted(&row.name),
        on(&row.args),
        counted(row.count, "call"),
        shown(row.cov.unwrap_or_default(), 2),
        shown_ms(row.time_ms)
    )
}

/// What an operation works on. Lists of tensors have no shape to tell.
fn on(args: &str) -> String {
    if args.is_empty() { String::new() } else { format!(" on {}", args::in_prose(args)) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::prepared::Traffic;
    use crate::testing::prepared_of;
    use jarvis_trace::TraceBuilder;

    /// A kernel, launched by a call, with an operation or without, and shapes as the header says.
    fn told(header: Option<&str>, operation: bool, call: &str) -> (bool, Vec<String>) {
        let mut b = TraceBuilder::new();
        if let Some(value) = header {
            b.fact("record_shapes", value);
        }
        if operation {
            b.cpu_op("aten::mm", 0.0, 10.0);
        }
        b.launch(call, 2.0, 2.0, 1);
        b.kernel("k", 10.0, 5.0, 1);
        let p = prepared_of(&b, "H200");
        (p.record_shapes, p.warnings.into_iter().filter(|w| w != NO_STEP && !w.starts_with(TIMES_APART)).collect())
    }

    #[test]
    fn only_what_would_help_is_advised() {
        let (launch, graph) = ("cudaLaunchKernel", "cudaGraphLaunch");
        assert_eq!(told(None, true, launch), (false, vec![NO_STACK.into(), NO_SHAPES.into()]));
        assert_eq!(told(Some("1"), true, launch), (true, vec![NO_STACK.into(), LOST_SHAPES.into()]));
        // Shapes and frames belong to operations.
        for (header, asked) in [(Some("1"), true), (None, false)] {
            assert_eq!(told(header, false, launch), (asked, vec![NO_OPERATIONS.into()]));
            assert_eq!(told(header, false, graph), (asked, vec![NO_STACK.into()]));
        }
    }

    /// Kernels of these devices, one after the other, 10 µs each.
    fn on_devices(devices: &[i64]) -> TraceBuilder {
        let mut b = TraceBuilder::new();
        for (i, &device) in devices.iter().enumerate() {
            let at = 10.0 * i as f64;
            b.cpu_op("aten::mm", at, 8.0);
            b.launch("cudaLaunchKernel", at + 1.0, 2.0, i as i64);
            b.gpu("kernel", "k", 100.0 + at, 10.0, i as i64, 7).on(device, 7);
            b.flow('f', "ac2g", 100.0 + at, i as i64).on(device, 7);
        }
        b
    }

    #[test]
    fn gpus_that_take_turns_are_told_to_wait() {
        let p = prepared_of(&on_devices(&[0, 1, 0, 1, 0]), "H200");
        assert!((p.utilization.idle_time_percent, p.devices.len()) == (0.0, 2));
        let of = |d: &DeviceTime| (d.device.clone(), shown(d.busy_time_percent, 1), shown(d.idle_time_percent, 1));
        assert_eq!(of(&p.devices[0]), ("0".into(), "60.0".into(), "40.0".into()));
        let told = "Of the whole window GPU 0 is busy for 60.0%, GPU 1 is busy for 40.0%; for the rest each is idle.";
        assert!(
            p.warnings[0].starts_with("2 GPUs in one recording") && p.warnings[0].ends_with(told),
            "{:?}",
            p.warnings
        );
        let one = prepared_of(&on_devices(&[1, 1]), "H200");
        assert!(one.devices.is_empty() && !one.warnings.iter().any(|w| w.contains("GPUs")), "{:?}", one.warnings);
        let many: Vec<i64> = (0..9).chain([8]).collect();
        let many = &prepared_of(&on_devices(&many), "H200").warnings[0];
        assert!(many.contains("GPU 0 is busy for 10.0% and, at the other end, GPU 8 is busy for 20.0%"), "{many}");
    }

    #[test]
    fn a_guess_and_a_mixture_of_gpus_are_told() {
        let mut b = on_devices(&[0, 1, 1]);
        b.fact("deviceProperties", r#"[{"id": 0, "name": "NVIDIA A100-SXM4-80GB"}, {"id": 1, "name": "NVIDIA H200"}]"#);
        let p = prepared_of(&b, "H200");
        let told = "GPUs of several models worked (`NVIDIA H200`, `NVIDIA A100-SXM4-80GB`); the analysis uses the peaks of H200.";
        assert_eq!((p.device_name.as_deref(), &*p.warnings[1]), (Some("NVIDIA H200"), told));
        let mut p = p;
        p.platform.doubt = Some("`X` is not a known device; its size is that of the H200".into());
        let told = "The peaks may not fit: `X` is not a known device; its size is that of the H200.";
        assert_eq!(guessed_platform(&p).as_deref(), Some(told));
    }

    #[test]
    fn unsure_times_and_launches_are_told_for_what_they_are() {
        let mut seen = Diagnostics::default();
        for defect in [Defect::NegativeDuration, Defect::ByteOrderMark, Defect::UnlinkedGpuEvent] {
            seen.add(defect, jarvis_trace::At::Event(3));
        }
        let told: Vec<String> = unsure(&seen).collect();
        assert_eq!(told, ["Some numbers are unsure: a duration is negative and counts as zero (1x)."]);
        let mut seen = Diagnostics::default();
        for defect in [Defect::DuplicateEvent, Defect::DuplicateEvent, Defect::ImpossibleDuration] {
            seen.add(defect, jarvis_trace::At::Event(3));
        }
        let told: Vec<String> = unsure(&seen).chain(losses(&seen)).collect();
        let twice = "Some numbers are unsure: an event stands in the file more than once and counts once (2x); check the \
                     program that put the trace together.";
        assert_eq!((told.len(), &*told[0]), (2, twice));
        assert!(told[1].starts_with("Part of the recording is lost: a GPU event outlasts"), "{told:?}");
        assert!(told[1].ends_with("(1x); capture anew; a newer driver or PyTorch may mend it."), "{told:?}");
        // Two of one number: the call is there, but it is not known whose it is.
        let mut b = on_devices(&[0, 0]);
        b.gpu("kernel", "k", 80.0, 10.0, 0, 7);
        b.flow('f', "ac2g", 100.0, 0).on(0, 7);
        let told = prepared_of(&b, "H200").warnings;
        assert!(told.iter().any(|w| w.contains(UNOWNED) && w.contains("shares its correlation")), "{told:?}");
        assert!(!told.iter().any(|w| w.contains(UNLAUNCHED)), "{told:?}");
        b.gpu("kernel", "early", 50.0, 10.0, 99, 7);
        let told = prepared_of(&b, "H200").warnings;
        let both = |w: &String| w.contains("1 shares its") && w.contains("the other has no recorded launch");
        assert!(told.iter().any(both), "{told:?}");
    }

    #[test]
    fn what_ran_before_the_window_is_told_apart() {
        // stream 7  |lost 100| |mm 50| |lost| |mm 50| |lost|  with the launches of the products alone
        let prepared = |before_us: f64, within_us: f64, after_us: f64| {
            let mut b = TraceBuilder::new();
            b.gpu("kernel", "lost", 0.0, before_us, 98, 7);
            for (number, at) in [(1, 200.0), (2, 400.0)] {
                b.cpu_op("aten::mm", at - 50.0, 10.0);
                b.launch("cudaLaunchKernel", at - 48.0, 2.0, number);
                b.kernel("k", at, 50.0, number);
            }
            for (correlation, at, length) in [(99, 300.0, within_us), (97, 500.0, after_us)] {
                if length > 0.0 {
                    b.gpu("kernel", "lost", at, length, correlation, 7);
                }
            }
            prepared_of(&b, "H200")
        };
        let told =
            |p: &Prepared| -> Vec<String> { p.warnings.iter().filter(|w| w.contains("GPU event")).cloned().collect() };
        let p = prepared(100.0, 0.0, 20.0);
        let [after, before] = &told(&p)[..] else { panic!("both are told") };
        assert_eq!(after, "1 GPU event (0.020 ms) has no recorded launch and belongs to no operation.");
        assert!(before.starts_with("1 GPU event (0.10 ms) was launched before the recording began"), "{before}");
        assert!(before.contains("torch.cuda.synchronize()"), "{before}");
        assert_eq!(told(&prepared(100.0, 0.0, 1.0)).len(), 1, "a share of the window that can be neglected");
        let time = |p: &Prepared| (p.utilization.busy_time_ms, p.utilization.total_time_ms);
        assert_eq!(time(&p), (0.1, 0.25), "what runs outside of the window is no part of it");
        // What runs between the others keeps the GPU busy.
        let p = prepared(100.0, 80.0, 20.0);
        assert_eq!(time(&p), (0.18, 0.25));
        let counted =
            "Of that, 0.080 ms lie within the window and count as GPU work in the timeline, not as idle time.";
        assert!(told(&p)[0].starts_with("2 GPU events (0.10 ms) have") && told(&p)[0].ends_with(counted), "{p:?}");
    }

    #[test]
    fn what_has_no_shape_is_told_without() {
        let e = Efficiency { efficiency_percent: Some(114.84), ..Efficiency::unknown(4.8) };
        let told = |args| beyond_peak("aten::add", args, &e);
        assert_eq!(told("(2,3) fp32"), "`aten::add` on (2,3) fp32 reaches 114.8% of peak: verify the measurement.");
        assert_eq!(told(""), "`aten::add` reaches 114.8% of peak: verify the measurement.");
        assert_eq!(touching_parts(&[]), None);
        let part = beyond_peak("triton_poi_fused_slice_0", "", &Efficiency { traffic: Traffic::AtMost, ..e.clone() });
        assert!(part.contains("114.8% of peak if it moves its tensors whole") && !part.contains("verify"), "{part}");
    }

    #[test]
    fn gpus_at_the_same_time_are_no_streams() {
        let mut p = crate::testing::Scene::new().mm(4, [512, 512, 512], 100.0).prepared();
        p.utilization.computation_time_ms = 0.2;
        let why = |p: &Prepared| time_sum(p).unwrap().rsplit(": ").next().unwrap().to_owned();
        assert_eq!(why(&p), "streams overlap.");
        let device = |number: &str| DeviceTime {
            device: number.to_owned(),
            computation_time_ms: 0.2,
            exposed_comm_time_ms: 0.0,
            exposed_memcpy_time_ms: 0.0,
            busy_time_ms: 0.2,
            busy_time_percent: 100.0,
            idle_time_ms: 0.0,
            idle_time_percent: 0.0,
        };
        p.devices = vec![device("0"), device("1")];
        assert_eq!(why(&p), "several GPUs work at the same time.");
        let told = several_gpus(&p.devices).unwrap();
        assert!(told.contains("shares of operations are of the kernel time of all of them."), "{told}");
    }
}
