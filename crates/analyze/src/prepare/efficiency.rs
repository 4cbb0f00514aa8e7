//! How close a row comes to what the hardware can do.

use std::sync::Arc;

use jarvis_perf::ops::ModelSource;
use jarvis_perf::platform::Platform;
use jarvis_perf::roofline::MB;

use crate::prepared::{BoundType, Efficiency, EfficiencySource, Traffic};

const MICRO: f64 = 1e6;

/// Precision that a row of unknown precision is rated as.
const FALLBACK_SPEC: &str = "matrix_bf16";

/// Warning of rows above [`crate::thresholds::Threshold::EffAnomaly`].
const ANOMALY: &str = "[ANOMALY] exceeds peak - verify measurement";
const ABOVE_PEAK_WHOLE: &str = "[ANOMALY] exceeds peak if it moves its tensors whole - it may touch a part of them";
const ABOVE_PEAK: &str = "slightly above peak - within measurement error";

/// What is known of the calls of a row. Where they differ, numbers of one call are means.
#[derive(Debug, Clone, Default)]
pub(crate) struct Work {
    /// Operations of one call / 10⁹.
    pub(crate) gflops: Option<f64>,
    /// Bytes of one call / 2²⁰.
    pub(crate) data_moved_mb: Option<f64>,
    /// Best time of one call in microseconds, where calls differ: each may be bound by another side.
    pub(crate) best_us: Option<f64>,
    /// Unit and precision.
    pub(crate) compute_spec: Option<Arc<str>>,
    /// Calls.
    pub(crate) count: usize,
    /// Kernel time of all calls in microseconds.
    pub(crate) us: f64,
    /// Mean over calls of the best time in percent.
    pub(crate) mean_percent: Option<f64>,
    /// Whose numbers these are.
    pub(crate) source: Option<ModelSource>,
    /// What its bytes are of.
    pub(crate) tensors: Tensors,
    /// Which side rates the row if only one of arithmetic and traffic is known and the other is zero.
    pub(crate) prefer: Preferred,
}

/// How much of its tensors a model takes a kernel to move.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Tensors {
    /// What the operation is known to touch.
    #[default]
    Touched,
    /// All, since a compiler wrote the kernel and its name does not tell what it reads of them.
    Whole,
    /// All, and one has more elements than the kernel runs over.
    Larger,
}

impl Tensors {
    /// Of a kernel that a compiler wrote, with the elements of its largest tensor and of what it runs over.
    pub(crate) fn of_generated(largest: Option<i64>, runs_over: Option<i64>) -> Self {
        match (largest, runs_over) {
            (Some(tensor), Some(elements)) if tensor > elements && elements > 0 => Self::Larger,
            _ => Self::Whole,
        }
    }
}

/// Which side of the roofline a category is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Preferred {
    #[default]
    Either,
    Compute,
    Memory,
}

impl Preferred {
    /// Of a category key.
    pub(crate) fn of(category: &str) -> Self {
        match category {
            "sdpa_fwd" | "sdpa_bwd" | "inferenceattention" | "convolution" | "moe_fused" | "moe_unfused" => {
                Self::Compute
            }
            "gemm" | "triton" => Self::Either,
            _ => Self::Memory,
        }
    }
}

/// One side of the roofline.
struct Side {
    best_us: f64,
    bound: BoundType,
}

/// Rates a row. `anomaly` is the percentage above which something must be wrong.
pub(crate) fn rate(work: &Work, platform: &Platform, anomaly: f64) -> Efficiency {
    let hbm = platform.mem_bw_gbps.value / 1e3;
    let mut out = Efficiency::unknown(hbm);
    out.compute_spec.clone_from(&work.compute_spec);
    let flops = work.gflops.map(|g| g * 1e9).filter(|f| f.is_finite());
    let bytes = work.data_moved_mb.map(|mb| mb * MB).filter(|b| b.is_finite());
    if work.us <= 0.0 || (flops.is_none() && bytes.is_none()) {
        return out;
    }
    let (peak, fallback) = peak(work, platform);
    out.resolved_peak_maf = peak;
    out.lacks_rate = peak.is_none() && flops.is_some_and(|f| f > 0.0) && needs_matrix_rate(work);
    let compute = flops
        .filter(|&f| f > 0.0)
        .zip(peak)
        .map(|(f, p)| Side { best_us: f / (p * 1e12) * MICRO, bound: BoundType::Compute });
    let memory =
        bytes.filter(|&b| b > 0.0).map(|b| Side { best_us: b / (hbm * 1e12) * MICRO, bound: BoundType::Memory });
    let n = work.count as f64;
    out.tflops_achieved = flops.map(|f| f * n / work.us / MICRO);
    out.tb_s_achieved = bytes.map(|b| b * n / work.us / MICRO);
    out.flops_per_byte = flops.zip(bytes.filter(|&b| b > 0.0)).map(|(f, b)| f / b);
    out.efficiency_percent_mean = work.mean_percent;
    if out.lacks_rate {
        // What its bytes alone would take says nothing of work that arithmetic may well bound.
        return out;
    }
    let both = flops.is_some() && bytes.is_some();
    let Some(side) = binding(compute, memory, work.prefer, both) else { return out };
    out.source = match work.source {
        Some(ModelSource::Generic) => EfficiencySource::ByteEstimate,
        _ if !both => EfficiencySource::ComputeSpec,
        _ if fallback && side.bound == BoundType::Compute => EfficiencySource::Bf16Fallback,
        _ => EfficiencySource::Roofline,
    };
    let best_us = work.best_us.filter(|_| !fallback).unwrap_or(side.best_us);
    let percent = 100.0 * best_us * n / work.us;
    // A lower bound does not tell what binds.
    out.bound_type = Some(side.bound).filter(|_| out.source != EfficiencySource::ByteEstimate);
    out.roofline_time_us = Some(best_us);
    out.efficiency_percent = Some(percent);
    // No error of measurement makes up for tensors that are not moved whole.
    let anomaly = if work.tensors == Tensors::Touched { anomaly } else { anomaly.min(100.0) };
    out.is_anomaly = percent > anomaly;
    let may_be_less = work.tensors == Tensors::Larger || out.is_anomaly && work.tensors == Tensors::Whole;
    if may_be_less && out.bound_type == Some(BoundType::Memory) {
        out.traffic = Traffic::AtMost;
    }
    out.warning = match () {
        () if out.is_anomaly && out.is_at_most() => Some(ABOVE_PEAK_WHOLE),
        () if out.is_anomaly => Some(ANOMALY),
        () if percent > 100.0 => Some(ABOVE_PEAK),
        () => None,
    };
    out
}

/// Whether the work is that of matrix units, which arithmetic may well bound. Vector work without a peak rate is rated by
/// bandwidth alone.
fn needs_matrix_rate(work: &Work) -> bool {
    work.compute_spec.as_deref().map_or(work.prefer != Preferred::Memory, |spec| spec.starts_with("matrix_"))
}

/// The peak for the row's precision and whether it is the one of another precision.
fn peak(work: &Work, platform: &Platform) -> (Option<f64>, bool) {
    match &work.compute_spec {
        Some(spec) => (platform.peak(spec).map(|f| f.value), false),
        None => (platform.peak(FALLBACK_SPEC).map(|f| f.value), true),
    }
}

/// The side that binds: the slower of the two, or the only one.
fn binding(compute: Option<Side>, memory: Option<Side>, prefer: Preferred, both_known: bool) -> Option<Side> {
    match (compute, memory) {
        (Some(c), Some(m)) => Some(if c.best_us >= m.best_us { c } else { m }),
        (Some(c), None) => (both_known || prefer != Preferred::Memory).then_some(c),
        (None, memory) => memory,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn h200() -> &'static Platform {
        Platform::find("H200").unwrap()
    }

    fn work(gflops: Option<f64>, mb: Option<f64>, spec: Option<&str>, us: f64) -> Work {
        Work {
            gflops,
            data_moved_mb: mb,
            compute_spec: spec.map(Into::into),
            count: 2,
            us,
            source: Some(ModelSource::Reference),
            ..Work::default()
        }
    }

    #[test]
    fn the_slower_side_binds() {
        // 990 GFLOPs take 1000 µs of arithmetic, 2400e6 bytes 500 µs of memory; two calls in 4000 µs.
        let e = rate(&work(Some(990.0), Some(2400e6 / MB), Some("matrix_bf16"), 4000.0), h200(), 110.0);
        assert_eq!((e.bound_type, e.source), (Some(BoundType::Compute), EfficiencySource::Roofline));
        assert!((e.efficiency_percent.unwrap() - 50.0).abs() < 1e-9);
        assert!((e.tflops_achieved.unwrap() - 495.0).abs() < 1e-9);
        assert!((e.tb_s_achieved.unwrap() - 1.2).abs() < 1e-9);
        assert_eq!(e.resolved_peak_maf, Some(990.0));
        let e = rate(&work(Some(99.0), Some(2400e6 / MB), Some("matrix_bf16"), 4000.0), h200(), 110.0);
        assert_eq!(e.bound_type, Some(BoundType::Memory));
        assert!((e.efficiency_percent.unwrap() - 25.0).abs() < 1e-9);
    }

    #[test]
    fn calls_that_other_sides_bind_have_their_own_best_times() {
        // One call of 990 GFLOPs, one of 4800e6 bytes: 1000 µs each, though the means of both sides are 500 µs.
        let unlike =
            Work { best_us: Some(1000.0), ..work(Some(495.0), Some(2400e6 / MB), Some("matrix_bf16"), 4000.0) };
        let e = rate(&unlike, h200(), 110.0);
        assert!((e.efficiency_percent.unwrap() - 50.0).abs() < 1e-9 && e.roofline_time_us == Some(1000.0));
        // Without a precision the table's best time is of the bytes alone.
        let e = rate(&Work { compute_spec: None, best_us: Some(400.0), ..unlike }, h200(), 110.0);
        assert!((e.efficiency_percent.unwrap() - 25.0).abs() < 1e-9);
    }

    #[test]
    fn what_is_not_known_is_not_rated() {
        let none = rate(&work(None, None, None, 10.0), h200(), 110.0);
        assert_eq!((none.source, none.efficiency_percent), (EfficiencySource::None, None));
        let bytes = rate(&work(None, Some(480e6 / MB), Some("vector_fp32"), 1000.0), h200(), 110.0);
        assert_eq!((bytes.source, bytes.bound_type), (EfficiencySource::ComputeSpec, Some(BoundType::Memory)));
        assert!((bytes.efficiency_percent.unwrap() - 20.0).abs() < 1e-9);
        // Vector work of a precision without a peak is rated by bandwidth alone; matrix work is not rated.
        let odd = |spec| rate(&work(Some(1e6), Some(480e6 / MB), Some(spec), 1000.0), h200(), 110.0);
        assert_eq!(odd("vector_int8").source, EfficiencySource::Roofline);
        assert_eq!((odd("vector_int8").bound_type, odd("vector_int8").lacks_rate), (Some(BoundType::Memory), false));
        let matrix = odd("matrix_fp4");
        assert_eq!((matrix.source, matrix.efficiency_percent), (EfficiencySource::None, None));
        assert_eq!((matrix.bound_type, matrix.roofline_time_us, matrix.lacks_rate), (None, None, true));
        // An unknown one as bf16.
        let fallback = rate(&work(Some(990.0), Some(1.0), None, 4000.0), h200(), 110.0);
        assert_eq!(fallback.source, EfficiencySource::Bf16Fallback);
        let mut generic = work(Some(0.0), Some(480e6 / MB), Some("vector_fp32"), 1000.0);
        generic.source = Some(ModelSource::Generic);
        let generic = rate(&generic, h200(), 110.0);
        assert_eq!((generic.source, generic.judged()), (EfficiencySource::ByteEstimate, None));
        assert_eq!(generic.bound_type, None, "a lower bound does not tell what binds");
    }

    #[test]
    fn tensors_that_may_not_be_moved_whole_rate_a_kernel_at_most() {
        assert_eq!(Tensors::of_generated(Some(8), Some(8)), Tensors::Whole);
        assert_eq!(Tensors::of_generated(Some(9), Some(8)), Tensors::Larger);
        assert_eq!(Tensors::of_generated(Some(9), None), Tensors::Whole, "what it runs over was not recorded");
        // 2400e6 bytes take 500 µs.
        let of = |tensors, us| {
            rate(&Work { tensors, ..work(Some(1.0), Some(2400e6 / MB), Some("vector_bf16"), us) }, h200(), 110.0)
        };
        let (half, beyond) = (2.0 * 1000.0, 2.0 * 475.0);
        let seen = |tensors, us| (of(tensors, us).is_at_most(), of(tensors, us).is_anomaly);
        assert_eq!([seen(Tensors::Touched, half), seen(Tensors::Touched, beyond)], [(false, false); 2]);
        assert_eq!([seen(Tensors::Whole, half), seen(Tensors::Whole, beyond)], [(false, false), (true, true)]);
        assert_eq!([seen(Tensors::Larger, half), seen(Tensors::Larger, beyond)], [(true, false), (true, true)]);
        assert!(of(Tensors::Whole, beyond).judged().is_none() && of(Tensors::Larger, half).judged().is_some());
    }

    #[test]
    fn more_than_the_peak_is_an_anomaly() {
        let e = rate(&work(Some(990.0), Some(1.0), Some("matrix_bf16"), 1000.0), h200(), 110.0);
        assert!(e.is_anomaly && e.judged().is_none() && e.warning == Some(ANOMALY));
        let e = rate(&work(Some(990.0), Some(1.0), Some("matrix_bf16"), 1900.0), h200(), 110.0);
        assert!(!e.is_anomaly && e.warning == Some(ABOVE_PEAK) && e.judged().is_some());
    }
}
