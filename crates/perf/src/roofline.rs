//! From cost and time to rates, and from rates to a bound: how fast a call ran and how fast it could have run.
//!
//! The order of the floating point operations is part of the interface: tables are compared with those of the reference
//! to the last few bits.

use std::borrow::Cow;

use crate::models::Cost;
use crate::parity::Quirks;
use crate::platform::Platform;

const MICRO: f64 = 1e6;

/// Bytes in a MB, as all tables count them.
pub const MB: f64 = 1_048_576.0;

/// The metric columns of one call. `None` is a blank cell.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Metrics {
    /// FLOPs / 10⁹.
    pub gflops: Option<f64>,
    /// 10¹² FLOPs a second.
    pub tflops_per_s: Option<f64>,
    /// Bytes / 2²⁰.
    pub data_moved_mb: Option<f64>,
    /// Arithmetic intensity.
    pub flops_per_byte: Option<f64>,
    /// 10¹² bytes a second.
    pub tb_per_s: Option<f64>,
    /// Unit and precision, such as `matrix_bf16`: the key of the platform's rate.
    pub compute_spec: Option<Cow<'static, str>>,
}

/// How fast a call ran. `None` is a blank cell.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Rates {
    /// 10¹² FLOPs a second.
    pub tflops_per_s: Option<f64>,
    /// 10¹² bytes a second.
    pub tb_per_s: Option<f64>,
}

impl Rates {
    /// Rates of a call that kept the GPU busy for `time_us`; blank as in [`Metrics::new`].
    pub fn new(cost: &Cost, time_us: f64, quirks: &Quirks) -> Self {
        if time_us == 0.0 || quirks.metrics_blank_without_flops && cost.flops.is_none() {
            return Self::default();
        }
        Self {
            tflops_per_s: cost.flops.map(|f| (gflops(f) / 1e3) / (time_us / MICRO)),
            tb_per_s: cost.bytes.map(|b| (b / 1e12) / (time_us / MICRO)),
        }
    }
}

impl Metrics {
    /// Metrics of a call that kept the GPU busy for `time_us`. Under parity a call without FLOPs has no metrics at
    /// all; else it keeps those of its bytes.
    pub fn new(cost: &Cost, time_us: f64, quirks: &Quirks) -> Self {
        if quirks.metrics_blank_without_flops && cost.flops.is_none() {
            return Self::default();
        }
        let gflops = cost.flops.map(gflops);
        let rates = Rates::new(cost, time_us, quirks);
        Self {
            gflops,
            tflops_per_s: rates.tflops_per_s,
            data_moved_mb: cost.bytes.map(|b| b / MB),
            flops_per_byte: gflops.zip(cost.bytes.filter(|&b| b > 0.0)).map(|(g, b)| (g * 1e9) / b),
            tb_per_s: rates.tb_per_s,
            compute_spec: cost.spec(),
        }
    }
}

/// What a call waits for when it runs as fast as the platform allows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Bound {
    /// Arithmetic.
    Compute,
    /// Device memory.
    Memory,
    /// Device memory, as far as can be told: there is no arithmetic, or no rate for it.
    MemoryBytesOnly,
}

impl Bound {
    /// The cell text.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Compute => "COMPUTE_BOUND",
            Self::Memory => "MEMORY_BOUND",
            Self::MemoryBytesOnly => "MEMORY_BOUND (bytes only)",
        }
    }

    /// Whether the time of such a roofline is only the least that is known: matrix work without a rate counts its bytes
    /// alone, and its arithmetic may well take longer.
    pub fn is_least(self, flops: Option<f64>, compute_spec: Option<&str>) -> bool {
        self == Self::MemoryBytesOnly && is_matrix_work(flops, compute_spec)
    }
}

/// The best a platform could do with a call.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Roofline {
    /// The longer of the arithmetic's and the memory's time.
    pub time_us: f64,
    /// Which of the two it is.
    pub bound: Bound,
    /// `time_us` in percent of the time the call took; `None` if it took none.
    pub pct: Option<f64>,
}

impl Roofline {
    /// Roofline of a call that kept the GPU busy for `time_us`. `None` without bytes; under parity also without FLOPs
    /// or without a rate listed for exactly the call's Compute Spec.
    pub fn new(cost: &Cost, time_us: f64, platform: &Platform, quirks: &Quirks) -> Option<Self> {
        let bytes = cost.bytes?;
        let peak = cost.spec().and_then(|s| {
            if quirks.roofline_blank_without_rate { platform.listed_peak(&s) } else { platform.peak(&s) }
        });
        let gflops = cost.flops.map(gflops).filter(|&g| g > 0.0);
        let memory_us = (bytes / (platform.mem_bw_gbps.value * 1e9)) * MICRO;
        let (best_us, bound) = match gflops.zip(peak) {
            Some((gflops, peak)) => {
                let compute_us = (gflops * 1e9 / (peak.value * 1e12)) * MICRO;
                (compute_us.max(memory_us), if compute_us >= memory_us { Bound::Compute } else { Bound::Memory })
            }
            None if quirks.roofline_blank_without_rate || bytes <= 0.0 => return None,
            None => (memory_us, Bound::MemoryBytesOnly),
        };
        let roofline = Self { time_us: best_us, bound, pct: None };
        Some(Self { pct: roofline.pct_of(time_us), ..roofline })
    }

    /// The best time in percent of the time a call took; `None` if it took none.
    pub fn pct_of(&self, time_us: f64) -> Option<f64> {
        (time_us != 0.0).then(|| self.time_us / time_us * 100.0)
    }
}

/// Whether this is matrix work whose peak rate the platform does not have, so that the best time is not known.
pub fn lacks_matrix_rate(flops: Option<f64>, compute_spec: Option<&str>, platform: &Platform) -> bool {
    is_matrix_work(flops, compute_spec) && compute_spec.is_some_and(|spec| platform.peak(spec).is_none())
}

fn is_matrix_work(flops: Option<f64>, compute_spec: Option<&str>) -> bool {
    flops.is_some_and(|flops| flops > 0.0) && compute_spec.is_some_and(|spec| spec.starts_with("matrix_"))
}

fn gflops(flops: f64) -> f64 {
    flops / 1e9
}

#[cfg(test)]
#[expect(clippy::unreadable_literal, reason = "cells of the reference's tables, copied as they stand")]
mod tests {
    use super::*;
    use crate::models::ComputeUnit;

    fn cost(flops: Option<f64>, bytes: Option<f64>, unit: ComputeUnit, precision: Option<&'static str>) -> Cost {
        Cost { flops, bytes, unit, precision: precision.map(Cow::Borrowed) }
    }

    fn matrix(flops: f64, bytes: f64, precision: &'static str) -> Cost {
        cost(Some(flops), Some(bytes), ComputeUnit::Matrix, Some(precision))
    }

    fn h200() -> &'static Platform {
        Platform::find("H200").unwrap()
    }

    #[test]
    fn hand_worked_metrics() {
        // 2e12 FLOPs and 4e9 bytes in 4 ms.
        let m = Metrics::new(&matrix(2e12, 4e9, "bf16"), 4000.0, &Quirks::NONE);
        assert_eq!(m.gflops, Some(2000.0));
        assert_eq!(m.tflops_per_s, Some(500.0));
        assert_eq!(m.data_moved_mb, Some(3814.697265625)); // 4e9 / 1048576
        assert_eq!(m.flops_per_byte, Some(500.0));
        assert_eq!(m.tb_per_s, Some(1.0));
        assert_eq!(m.compute_spec.as_deref(), Some("matrix_bf16"));
    }

    #[test]
    fn blanks() {
        let untimed = Metrics::new(&matrix(2e12, 4e9, "bf16"), 0.0, &Quirks::REFERENCE);
        assert_eq!((untimed.tflops_per_s, untimed.tb_per_s), (None, None));
        assert_eq!(untimed.gflops, Some(2000.0));

        let no_bytes = Metrics::new(&cost(Some(1e12), None, ComputeUnit::Vector, None), 1e6, &Quirks::REFERENCE);
        assert_eq!((no_bytes.data_moved_mb, no_bytes.flops_per_byte, no_bytes.tb_per_s), (None, None, None));
        assert_eq!(no_bytes.compute_spec, None);
        assert_eq!(no_bytes.tflops_per_s, Some(1.0));

        let zero_bytes = Metrics::new(&matrix(1e9, 0.0, "bf16"), 1.0, &Quirks::REFERENCE);
        assert_eq!(
            (zero_bytes.data_moved_mb, zero_bytes.flops_per_byte, zero_bytes.tb_per_s),
            (Some(0.0), None, Some(0.0))
        );

        let bytes_only = cost(None, Some(1e6), ComputeUnit::Vector, Some("fp32"));
        assert_eq!(Metrics::new(&bytes_only, 1.0, &Quirks::REFERENCE), Metrics::default());
        assert_eq!(Metrics::new(&bytes_only, 1.0, &Quirks::NONE).data_moved_mb, Some(1e6 / 1_048_576.0));
    }

    #[test]
    fn hand_worked_rooflines() {
        // 990e12 FLOPs take 1 s of arithmetic, 480e9 bytes 0.1 s of memory.
        let r = Roofline::new(&matrix(990e12, 480e9, "bf16"), 4e6, h200(), &Quirks::NONE).unwrap();
        assert_eq!((r.time_us, r.bound, r.pct), (1e6, Bound::Compute, Some(25.0)));
        // A tie counts as arithmetic.
        let r = Roofline::new(&matrix(990e12, 4800e9, "bf16"), 0.0, h200(), &Quirks::NONE).unwrap();
        assert_eq!((r.time_us, r.bound, r.pct), (1e6, Bound::Compute, None));
        let r = Roofline::new(&matrix(99e12, 4800e9, "bf16"), 1e6, h200(), &Quirks::REFERENCE).unwrap();
        assert_eq!((r.time_us, r.bound, r.pct), (1e6, Bound::Memory, Some(100.0)));
    }

    #[test]
    fn without_arithmetic_or_rate_memory_alone_tells() {
        let vector = ComputeUnit::Vector;
        for cost in [
            cost(Some(0.0), Some(4.8e9), vector, Some("bf16")), // no arithmetic
            cost(None, Some(4.8e9), vector, Some("bf16")),      // not known
            cost(Some(1e9), Some(4.8e9), vector, None),         // no precision
            cost(Some(1e9), Some(4.8e9), vector, Some("fp4")),  // no rate for it
            cost(Some(1e9), Some(4.8e9), ComputeUnit::Unknown, Some("fp32")),
        ] {
            assert_eq!(Roofline::new(&cost, 2000.0, h200(), &Quirks::REFERENCE), None, "{cost:?}");
            let r = Roofline::new(&cost, 2000.0, h200(), &Quirks::NONE).unwrap();
            assert_eq!((r.time_us, r.bound.as_str(), r.pct), (1000.0, "MEMORY_BOUND (bytes only)", Some(50.0)));
        }
        assert_eq!(Roofline::new(&cost(Some(1e9), None, vector, Some("fp32")), 1.0, h200(), &Quirks::NONE), None);
        assert_eq!(Roofline::new(&cost(None, Some(0.0), vector, Some("fp32")), 1.0, h200(), &Quirks::NONE), None);
    }

    #[test]
    fn matrix_work_without_a_rate_is_known_as_such() {
        assert!(lacks_matrix_rate(Some(1e9), Some("matrix_fp4"), h200()));
        for (flops, spec) in [(1e9, "matrix_fp8"), (1e9, "vector_fp4"), (0.0, "matrix_fp4")] {
            assert!(!lacks_matrix_rate(Some(flops), Some(spec), h200()), "{flops} {spec}");
        }
        assert!(!lacks_matrix_rate(Some(1e9), None, h200()));
        // The roofline that it has is no time to hold it against.
        assert!(Bound::MemoryBytesOnly.is_least(Some(1e9), Some("matrix_fp4")));
        assert!(!Bound::MemoryBytesOnly.is_least(Some(1e9), Some("vector_int8")));
        assert!(!Bound::Memory.is_least(Some(1e9), Some("matrix_bf16")));
    }

    /// Rows of the reference's GEMM sheets for the H200 traces, at the fastest or the mean call as noted: FLOPs, bytes,
    /// time; GFLOPS, MB, FLOPS/Byte, TB/s, TFLOPS/s; roofline time, bound, percent.
    #[test]
    fn rows_of_the_reference() {
        struct Row {
            cost: Cost,
            time_us: f64,
            metrics: [f64; 5],
            roofline: (f64, Bound, f64),
        }
        let rows = [
            // mlp_bf16: aten::addmm 4096×4096×4096 with bias, fastest of 12 calls.
            Row {
                cost: matrix(137_455_730_688.0, 100_671_488.0, "bf16"),
                time_us: 166.8779296875,
                metrics: [137.455730688, 96.0078125, 1365.388884368134, 0.6032642434414189, 823.6902923316654],
                roofline: (138.8441724121212, Bound::Compute, 83.20103962946116),
            },
            // mlp_bf16: aten::mm 4096×4096×4096, slowest of 12 calls.
            Row {
                cost: matrix(137_438_953_472.0, 100_663_296.0, "bf16"),
                time_us: 172.18994140625,
                metrics: [137.438953472, 96.0, 1365.3333333333333, 0.5846061342369806, 798.1822419448907],
                roofline: (138.82722572929293, Bound::Compute, 80.6244688833223),
            },
            // hf_bert_infer: aten::addmm 4096×768×768 with bias, fastest of 96 calls.
            Row {
                cost: matrix(4_834_983_936.0, 13_764_096.0, "bf16"),
                time_us: 9.759765625,
                metrics: [4.834983936, 13.12646484375, 351.27508090614884, 1.4102896041624975, 495.39959480328207],
                roofline: (4.883822157575757, Bound::Compute, 50.04036311144262),
            },
        ];
        for Row { cost, time_us, metrics, roofline } in rows {
            let m = Metrics::new(&cost, time_us, &Quirks::REFERENCE);
            let ours = [m.gflops, m.data_moved_mb, m.flops_per_byte, m.tb_per_s, m.tflops_per_s];
            assert_eq!(ours, metrics.map(Some), "bit for bit");
            let r = Roofline::new(&cost, time_us, h200(), &Quirks::REFERENCE).unwrap();
            assert_eq!((r.time_us, r.bound, r.pct), (roofline.0, roofline.1, Some(roofline.2)));
            assert_eq!(Roofline::new(&cost, time_us, h200(), &Quirks::NONE), Some(r), "the modes agree here");
        }
    }

    #[test]
    fn memory_bound_rows_of_the_reference() {
        // tiny_bmm_window: aten::bmm of 37632 8×64×8; convnext_train: aten::addmm 64×1000×768. Roofline columns only,
        // because the sheet's times are means over calls.
        for (cost, time_us) in [
            (matrix(308_281_344.0, 81_887_232.0, "bf16"), 17.05984),
            (matrix(98_368_000.0, 1_764_304.0, "bf16"), 0.3675633333333333),
            (matrix(17_179_869_184.0, 335_544_320.0, "fp16"), 69.90506666666667),
            (matrix(131_072.0, 266_496.0, "fp32"), 0.05552),
        ] {
            let r = Roofline::new(&cost, 1.0, h200(), &Quirks::REFERENCE).unwrap();
            assert_eq!((r.time_us, r.bound.as_str()), (time_us, "MEMORY_BOUND"));
        }
    }
}
