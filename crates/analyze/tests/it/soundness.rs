//! What must hold for every trace.

use std::collections::BTreeMap;

use jarvis_analyze::finding::{PatternId, Tier};
use jarvis_analyze::metrics::{CategoryFile, Status};
use jarvis_analyze::program::{RowId, base_name};

use crate::support::{all_traces, analyse};

/// Words that a trace cannot back, or that name a vendor's software, outside backticks.
const FORBIDDEN: &[&str] = &[
    "bank conflict",
    "coalesc",
    "occupancy",
    "cache hit",
    "cache miss",
    "register pressure",
    "root cause",
    "cuda",
    "cudnn",
    "cublas",
    "cutlass",
    "nccl",
    "hipblas",
    "rocblas",
    "miopen",
    "tensor core",
    "warp",
    "wavefront",
    "definitely",
    "obviously",
    "guaranteed",
    "probably",
    "likely",
];

/// A sentence without what stands in backticks.
fn prose(text: &str) -> String {
    text.split('`').step_by(2).collect::<String>().to_lowercase()
}

fn check_words(text: &str, trace: &str) {
    let prose = prose(text);
    assert!(!prose.contains(['{', '}']), "{trace}: placeholder left in {text}");
    assert!(!prose.contains("nan") && !prose.contains("inf "), "{trace}: {text}");
    for word in FORBIDDEN {
        assert!(!prose.contains(word), "{trace}: `{word}` in {text}");
    }
}

/// Patterns whose change also saves launches, or time of rows that other findings tell.
const BEYOND_ROWS: [PatternId; 6] = [
    PatternId::FULL_PRECISION_GEMM,
    PatternId::TINY_GEMMS,
    PatternId::UNFUSED_ATTENTION,
    PatternId::MOE_EXPERT_LOOP,
    PatternId::REPEATED_KV_HEADS,
    PatternId::LAYOUT_TRANSPOSES,
];

#[test]
fn findings_are_sound() {
    for (path, platform) in all_traces() {
        let name = path.display().to_string();
        let Some(a) = analyse(&path, platform) else { continue };
        let window = a.prepared.utilization.total_time_ms;
        for (a, b) in a.findings.iter().zip(a.findings.iter().skip(1)) {
            assert!(a.priority <= b.priority, "{name}: {} before {}", a.title, b.title);
            // Faster launching helps in general: what names a cause goes before it.
            let is_launching = [a, b].iter().any(|f| f.pattern == PatternId::LAUNCH_BOUND);
            let in_order = a.priority < b.priority || a.expected_ms() >= b.expected_ms() - 1e-9;
            assert!(is_launching || in_order, "{name}: {} before {}", a.title, b.title);
        }
        for (i, f) in a.findings.iter().enumerate() {
            assert_eq!(f.rank, i + 1, "{name}");
            let (saved, speedup) = (f.impact.saved_ms, f.impact.speedup);
            assert!(0.0 <= saved.low && saved.low <= saved.high && saved.high.is_finite(), "{name}: {saved:?}");
            assert!(1.0 <= speedup.low && speedup.low <= speedup.high, "{name}: {speedup:?}");
            assert!((speedup.high - saved.speedup(window).high).abs() < 1e-3 * speedup.high, "{name}: {}", f.title);
            // Faster kernels save no more than they take.
            let rows: f64 = f.rows.iter().map(|&(row, share)| share * a.prepared.row(row).time_ms).sum();
            let by_kernels = f.tier == Tier::Compute && !BEYOND_ROWS.contains(&f.pattern);
            assert!(!by_kernels || saved.high <= rows * 1.001 + 1e-6, "{name}: {} {saved:?} of {rows}", f.title);
            assert!(!f.paths.algorithmic.is_empty() && !f.paths.kernel.is_empty(), "{name}: {}", f.title);
            assert!(!f.evidence.is_empty() && !f.impact.basis.is_empty(), "{name}: {}", f.title);
            assert!(f.tier == Tier::System || !f.operations.is_empty(), "{name}: {}", f.title);
            // One form in the whole file, whatever found it.
            let mut modules = f.operations.iter().filter_map(|o| o.module.as_deref()).flat_map(|m| m.split(" > "));
            assert!(modules.all(|m| base_name(m) == m && !m.contains('/')), "{name}: {:?}", f.operations);
            let texts = f.paths.algorithmic.iter().chain(&f.paths.kernel).chain([&f.title, &f.issue, &f.impact.basis]);
            for text in texts.filter(|_| f.tier == Tier::Compute) {
                check_words(text, &name);
            }
        }
    }
}

#[test]
fn no_time_is_counted_twice_in_a_tier() {
    for (path, platform) in all_traces() {
        let Some(a) = analyse(&path, platform) else { continue };
        let mut shares: BTreeMap<(Tier, RowId), f64> = BTreeMap::new();
        for f in &a.findings {
            for &(row, share) in &f.rows {
                assert!(share >= 0.0, "{}: {}", path.display(), f.title);
                *shares.entry((f.tier, row)).or_default() += share;
            }
        }
        for ((tier, row), share) in shares {
            let row = a.prepared.row(row);
            assert!(share <= 1.0 + 1e-6, "{}: {share} of {} {} in {tier:?}", path.display(), row.name, row.args);
        }
    }
}

#[test]
fn metrics_are_sound() {
    for (path, platform) in all_traces() {
        let name = path.display().to_string();
        let Some(a) = analyse(&path, platform) else { continue };
        let u = &a.prepared.utilization;
        let percents = u.computation_time_percent
            + u.exposed_comm_time_percent
            + u.exposed_memcpy_time_percent
            + u.idle_time_percent;
        assert!((percents - 100.0).abs() < 0.1, "{name}: {percents}");
        for o in &a.outcomes {
            assert_eq!(o.status(), Status::Ok, "{name}: {}", o.category);
            let m = o.metrics().unwrap();
            let shares: f64 = m.rows(&a.prepared).map(|row| row.percent_of_category).sum();
            assert!(m.operations.is_empty() || (shares - 100.0).abs() < 1e-6, "{name}: {} {shares}", o.category);
            for b in &m.bottlenecks {
                assert!(!b.algorithmic.is_empty() && !b.kernel.is_empty() && !b.issue.is_empty(), "{name}: {}", b.id);
                check_words(&b.issue, &name);
                let texts = b.algorithmic.iter().chain(&b.kernel);
                texts.for_each(|s| check_words(&s.text, &name));
            }
            m.notes.iter().chain(&m.warnings).for_each(|text| check_words(text, &name));
            let json = serde_json::to_string(&CategoryFile { metrics: m, prepared: &a.prepared }).unwrap();
            assert!(!json.contains("NaN") && !json.contains("null,null"), "{name}");
        }
    }
}

#[test]
fn the_same_trace_gives_the_same_bytes() {
    let Some((path, platform)) = all_traces().into_iter().next() else { return };
    let bytes = || {
        let a = analyse(&path, platform).unwrap();
        let metrics = a.outcomes.iter().filter_map(|o| o.metrics());
        let files: Vec<_> = metrics.map(|metrics| CategoryFile { metrics, prepared: &a.prepared }).collect();
        format!("{}{}", serde_json::to_string(&files).unwrap(), serde_json::to_string(&a.findings).unwrap())
    };
    assert_eq!(bytes(), bytes());
}
