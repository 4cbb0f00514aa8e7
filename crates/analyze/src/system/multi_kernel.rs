//! `multi_kernel_data.json` and `multi_kernel_metrics.json`: copies, communication and how much computation hides them.
//!
//! **What it finds.** Copies and collectives that nothing overlaps.
//! **Why it matters.** Time in which only they go on is lost for computation.
//! **How it is computed.** Interval arithmetic over all streams: exposed communication is what no computation covers,
//! exposed copies what neither covers. The numbers have to agree with `gpu_timeline` within 2 %.
//! **What to do.** See the findings `blocking_copies` and `exposed_communication`.
//! **Limits.** One rank does not show how long a collective waited for the others.

use jarvis_trace::{InOrder, Ns};

use super::System;
use super::communication::Communication;
use super::copies::DirectionCopies;
use super::direction::CopyDirection;
use super::multi_kernel_data::{MultiKernelData, TimeUnit};
use super::severity::{EXPOSED, Severity};
use crate::prepared::Utilization;
use crate::rounding::{Ms, Percent, Ratio, shown, shown_ms};

/// Copies between host and device in percent of the window: critical, high, medium.
const COPIES_PERCENT: [f64; 3] = [10.0, 5.0, 2.0];

/// Copies of one direction: medium above the first, low and flagged above the second.
const COPIES_COUNT: [usize; 2] = [50, 10];

/// Share of the window above which copies of one direction and exposed communication are flagged, in percent.
const FLAGGED_PERCENT: f64 = 5.0;

/// Share of communication that computation should hide: critical, high and medium below these.
const OVERLAP: [f64; 3] = [0.3, 0.5, 0.7];

/// With less communication than this its overlap says nothing.
const LEAST_COMMUNICATION: Ns = Ns(100_000);

/// How far the numbers may lie from `gpu_timeline`, in percent.
const TOLERANCE_PERCENT: f64 = 2.0;

/// `multi_kernel_metrics.json`.
#[derive(Debug, Clone, serde::Serialize)]
pub struct MultiKernelMetrics {
    /// `OK`, or `NO_DATA` without copies and communication.
    pub status: &'static str,
    /// From the first start to the last end of GPU work.
    pub total_time_ms: Ms,
    /// The three blocks of the data, in milliseconds.
    #[serde(flatten)]
    pub data: MultiKernelData,
    /// Copies between host and device.
    pub memcpy_assessment: MemcpyAssessment,
    /// Communication that nothing hides.
    pub nccl_blocking_assessment: BlockingAssessment,
    /// How much of it computation hides.
    pub overlap_assessment: OverlapAssessment,
    /// What of this is an issue.
    pub patterns_detected: Vec<MultiKernelPattern>,
    /// Whether the numbers agree with `gpu_timeline`.
    pub cross_validation: CrossValidation,
    /// Always empty.
    pub impact_estimates: [(); 0],
}

/// Copies between host and device.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub struct MemcpyAssessment {
    /// The worst of the issues.
    pub severity: Severity,
    /// Whether one direction takes more than 5 % or has more than ten copies.
    pub flagged: bool,
    /// Copies of all directions.
    pub total_count: usize,
    /// Time in which any of them went on.
    pub total_time_ms: Ms,
    /// Of the window.
    pub percent_of_total: Percent,
    /// By direction, the worst first.
    pub issues: Vec<CopyIssue>,
}

/// Copies of one direction that cost something.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub struct CopyIssue {
    /// `D2H` or `H2D`.
    pub direction: &'static str,
    /// Copies.
    pub count: usize,
    /// Time in which any of them went on.
    pub time_ms: Ms,
    /// Of the window.
    pub percent_of_total: Percent,
    /// Mean size.
    pub avg_bytes: i64,
    /// How bad.
    pub severity: Severity,
    /// In words.
    pub description: String,
}

/// Communication that nothing hides.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub struct BlockingAssessment {
    /// How bad.
    pub severity: Severity,
    /// Above 5 %.
    pub flagged: bool,
    /// Time in which nothing was computed.
    pub exposed_comm_time_ms: Ms,
    /// All of it.
    pub total_comm_time_ms: Ms,
    /// Of the window.
    pub exposed_percent_of_total: Percent,
    /// In words.
    pub description: String,
}

/// How much communication computation hides.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub struct OverlapAssessment {
    /// How bad.
    pub severity: Severity,
    /// Below 70 %.
    pub flagged: bool,
    /// Share that is hidden.
    pub overlap_ratio: Option<Ratio>,
    /// The same in percent.
    pub overlap_percent: Option<Percent>,
    /// What it should be.
    pub target_percent: u32,
    /// In words.
    pub description: String,
}

/// An issue.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub struct MultiKernelPattern {
    /// Stable name.
    pub pattern: &'static str,
    /// How bad.
    pub severity: Severity,
    /// In words.
    pub description: String,
}

/// Whether the numbers agree with `gpu_timeline`.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub struct CrossValidation {
    /// `PASS` or `WARN`.
    pub status: &'static str,
    /// One by one.
    pub checks: Vec<Check>,
    /// What does not agree.
    pub warnings: Vec<String>,
}

/// One number of ours beside that of `gpu_timeline`.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub struct Check {
    /// Row of `gpu_timeline`.
    pub metric: &'static str,
    /// `PASS` or `WARN`.
    pub status: &'static str,
    /// Ours.
    pub mk_ms: Ms,
    /// That of `gpu_timeline`.
    pub tl_ms: Ms,
    /// How far apart.
    pub diff_ms: Ms,
    /// The same in percent of the second.
    pub diff_pct: Percent,
}

impl MultiKernelMetrics {
    /// The metrics of a trace.
    pub fn of(system: &System, utilization: &Utilization) -> Self {
        let memcpy = memcpy_assessment(system);
        let blocking = blocking_assessment(system);
        let overlap = overlap_assessment(&system.communication);
        let none = system.copies.count() == 0 && system.communication.count == 0;
        Self {
            status: if none { "NO_DATA" } else { "OK" },
            total_time_ms: Ms(system.gaps.window.as_ms()),
            data: MultiKernelData::in_unit(system, TimeUnit::Milliseconds),
            patterns_detected: patterns(&memcpy, &blocking, &overlap),
            memcpy_assessment: memcpy,
            nccl_blocking_assessment: blocking,
            overlap_assessment: overlap,
            cross_validation: cross_validation(system, utilization),
            impact_estimates: [],
        }
    }
}

fn memcpy_assessment(system: &System) -> MemcpyAssessment {
    let copies = &system.copies;
    let window = system.gaps.window;
    let mut issues: Vec<CopyIssue> = Vec::new();
    for direction in CopyDirection::ALL.into_iter().filter(|d| d.is_host_device()) {
        let sum = copies.direction(direction);
        // Copies at the same time take the window once.
        let percent = super::gaps::percent(sum.covered, window);
        let severity = copy_severity(percent, sum.count);
        if severity < Severity::Acceptable {
            issues.push(copy_issue(direction, sum, percent, severity));
        }
    }
    issues.order_by(|a, b| a.severity.cmp(&b.severity).then(b.time_ms.0.total_cmp(&a.time_ms.0)));
    MemcpyAssessment {
        severity: issues.first().map_or(Severity::Acceptable, |i| i.severity),
        flagged: issues.iter().any(|i| i.percent_of_total.0 > FLAGGED_PERCENT || i.count > COPIES_COUNT[1]),
        total_count: copies.count(),
        total_time_ms: Ms(copies.covered.as_ms()),
        percent_of_total: Percent(super::gaps::percent(copies.covered, window)),
        issues,
    }
}

fn copy_severity(percent: f64, count: usize) -> Severity {
    let [critical, high, medium] = COPIES_PERCENT;
    match (percent, count) {
        (p, _) if p > critical => Severity::Critical,
        (p, _) if p > high => Severity::High,
        (p, n) if p > medium || n > COPIES_COUNT[0] => Severity::Medium,
        (_, n) if n > COPIES_COUNT[1] => Severity::Low,
        _ => Severity::Acceptable,
    }
}

fn copy_issue(direction: CopyDirection, sum: &DirectionCopies, percent: f64, severity: Severity) -> CopyIssue {
    let way = if direction == CopyDirection::DeviceToHost { "device to host" } else { "host to device" };
    CopyIssue {
        direction: direction.as_str(),
        count: sum.count,
        time_ms: Ms(sum.covered.as_ms()),
        percent_of_total: Percent(percent),
        avg_bytes: sum.bytes / (sum.count as i64).max(1),
        severity,
        description: copies_told(way, sum),
    }
}

fn copies_told(way: &str, sum: &DirectionCopies) -> String {
    let (copies, take) = if sum.count == 1 { ("copy", "takes") } else { ("copies", "take") };
    let waited = match (sum.count, sum.waited_for) {
        (1, 0) => "the host does not wait for it".to_owned(),
        (1, _) => "the host waits for it".to_owned(),
        (_, waited) => format!("the host waits for {waited} of them"),
    };
    format!(
        "{} {copies} from {way} {take} {} ms, {} ms of it with nothing else going on; {waited}",
        sum.count,
        shown_ms(sum.time.as_ms()),
        shown_ms(sum.exposed.as_ms()),
    )
}

fn blocking_assessment(system: &System) -> BlockingAssessment {
    let c = &system.communication;
    let percent = super::gaps::percent(c.exposed, system.gaps.window);
    BlockingAssessment {
        severity: Severity::above(percent, EXPOSED),
        flagged: percent > FLAGGED_PERCENT,
        exposed_comm_time_ms: Ms(c.exposed.as_ms()),
        total_comm_time_ms: Ms(c.covered.as_ms()),
        exposed_percent_of_total: Percent(percent),
        description: if c.count == 0 {
            "no collective communication in this trace".to_owned()
        } else {
            format!(
                "{} of {} ms of collective communication are hidden by no computation ({}% of the trace)",
                shown_ms(c.exposed.as_ms()),
                shown_ms(c.covered.as_ms()),
                shown(percent, 1)
            )
        },
    }
}

fn overlap_assessment(c: &Communication) -> OverlapAssessment {
    let ratio = (c.covered >= LEAST_COMMUNICATION).then(|| c.overlap_ratio());
    let levels = [Severity::Critical, Severity::High, Severity::Medium];
    let level = |r: f64| levels.into_iter().zip(OVERLAP).find(|&(_, least)| r < least).map(|(level, _)| level);
    let severity = ratio.and_then(level).unwrap_or(Severity::Acceptable);
    OverlapAssessment {
        severity,
        flagged: severity < Severity::Acceptable,
        overlap_ratio: ratio.map(Ratio),
        overlap_percent: ratio.map(|r| Percent(100.0 * r)),
        target_percent: 70,
        description: match ratio {
            Some(r) => format!("computation hides {}% of the communication, 70% is expected", shown(100.0 * r, 1)),
            None => "too little communication to speak of its overlap".to_owned(),
        },
    }
}

fn patterns(
    memcpy: &MemcpyAssessment,
    blocking: &BlockingAssessment,
    overlap: &OverlapAssessment,
) -> Vec<MultiKernelPattern> {
    let mut found: Vec<MultiKernelPattern> = Vec::new();
    for issue in &memcpy.issues {
        let pattern = if issue.direction == "D2H" { "device_to_host_copies" } else { "host_to_device_copies" };
        let (severity, description) = (issue.severity, issue.description.clone());
        found.push(MultiKernelPattern { pattern, severity, description });
    }
    for (pattern, severity, description) in [
        ("exposed_communication", blocking.severity, &blocking.description),
        ("low_overlap", overlap.severity, &overlap.description),
    ] {
        if severity < Severity::Acceptable {
            found.push(MultiKernelPattern { pattern, severity, description: description.clone() });
        }
    }
    found
}

fn cross_validation(system: &System, utilization: &Utilization) -> CrossValidation {
    let pairs = [
        ("total_time", system.gaps.window, utilization.total_time_ms),
        ("computation_time", system.communication.computation, utilization.computation_time_ms),
        ("exposed_comm_time", system.communication.exposed, utilization.exposed_comm_time_ms),
        ("exposed_memcpy_time", system.copies.exposed, utilization.exposed_memcpy_time_ms),
        ("total_comm_time", system.communication.covered, utilization.total_comm_time_ms),
        ("total_memcpy_time", system.copies.covered, utilization.total_memcpy_time_ms),
    ];
    let check = |(metric, ours, theirs): (&'static str, Ns, f64)| {
        let difference = (ours.as_ms() - theirs).abs();
        let percent = match theirs {
            t if t > 0.0 => 100.0 * difference / t,
            _ if difference > 0.0 => 100.0,
            _ => 0.0,
        };
        let status = if percent > TOLERANCE_PERCENT { "WARN" } else { "PASS" };
        let (mk_ms, tl_ms) = (Ms(ours.as_ms()), Ms(theirs));
        Check { metric, status, mk_ms, tl_ms, diff_ms: Ms(difference), diff_pct: Percent(percent) }
    };
    let checks: Vec<Check> = pairs.map(check).into();
    let warning = |c: &Check| {
        let (ours, theirs) = (shown_ms(c.mk_ms.0), shown_ms(c.tl_ms.0));
        format!("{}: {ours} ms by copies and communication, {theirs} ms by `gpu_timeline`", c.metric)
    };
    let warnings: Vec<String> = checks.iter().filter(|c| c.status == "WARN").map(warning).collect();
    CrossValidation { status: if warnings.is_empty() { "PASS" } else { "WARN" }, checks, warnings }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_copy_is_told_as_one() {
        let told = |count, waited_for| {
            copies_told("host to device", &DirectionCopies { count, waited_for, ..DirectionCopies::default() })
        };
        let middle = "0.000 ms, 0.000 ms of it with nothing else going on";
        assert_eq!(told(1, 1), format!("1 copy from host to device takes {middle}; the host waits for it"));
        assert_eq!(told(1, 0), format!("1 copy from host to device takes {middle}; the host does not wait for it"));
        assert_eq!(told(3, 2), format!("3 copies from host to device take {middle}; the host waits for 2 of them"));
    }
}
