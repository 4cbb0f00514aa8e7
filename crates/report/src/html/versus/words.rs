//! Words of the comparison.

use jarvis_analyze::comparative::{ChangeKind, ExpectedRatio, MatchLevel, Verdict};
use jarvis_analyze::prepared::BoundType;
use jarvis_analyze::rounding::{shown, shown_ms};

/// Verdicts as files write them, the sign they are marked with, and what they are called.
pub(super) const VERDICTS: [(&str, &str, &str); 7] = [
    ("hardware_faster", "●", "as expected"),
    ("hardware_slower", "●", "as expected"),
    ("unexpected_slow", "▲", "slower than expected"),
    ("kernel_issue", "▲▲", "kernel issue"),
    ("precision", "▲", "other precision"),
    ("unexpected_fast", "▼", "faster than expected"),
    ("unmatched", "–", "no counterpart"),
];

/// A verdict as files write it.
pub(super) fn key(verdict: Option<Verdict>) -> &'static str {
    verdict.map_or("unmatched", Verdict::as_str)
}

/// Its sign and what it is called.
pub(super) fn verdict(verdict: Option<Verdict>) -> (&'static str, &'static str) {
    let key = key(verdict);
    VERDICTS.iter().find(|(k, ..)| *k == key).map_or(("", ""), |(_, sign, words)| (sign, words))
}

/// What bounds work.
pub(super) fn bound(bound: Option<BoundType>) -> Option<&'static str> {
    bound.map(|b| match b {
        BoundType::Compute => "compute",
        BoundType::Memory => "memory",
    })
}

/// How two things were found to be the same.
pub(super) fn level(level: Option<MatchLevel>) -> &'static str {
    level.map_or("", MatchLevel::as_str)
}

/// What kind of difference it is.
pub(super) fn kind(kind: ChangeKind) -> &'static str {
    match kind {
        ChangeKind::Replaced => "replaced",
        ChangeKind::Precision => "other types",
        ChangeKind::Kernels => "other kernels",
        ChangeKind::Time => "same kernels",
        ChangeKind::Unmatched => "no counterpart",
        ChangeKind::Idle => "idle",
        ChangeKind::Calls => "calls",
        ChangeKind::Copies => "copies",
        ChangeKind::Overlap => "overlap",
        ChangeKind::Unknown => "not known",
        ChangeKind::Communication => "communication",
    }
}

/// `1.55×`: two decimals, three below a tenth, one from ten on.
pub(super) fn times(ratio: f64) -> String {
    let decimals = match ratio {
        r if r < 0.1 => 3,
        r if r < 10.0 => 2,
        _ => 1,
    };
    format!("{}×", shown(ratio, decimals))
}

/// What the hardware suggests: one ratio, or from one to the other.
pub(super) fn expected(expected: ExpectedRatio) -> String {
    let (low, high) = (times(expected.low), times(expected.high));
    if low == high { low } else { format!("{low} to {high}") }
}

/// `+0.58 ms`, with three decimals below a tenth.
pub(super) fn signed_ms(ms: f64) -> String {
    let text = shown_ms(ms);
    let sign = if ms > 0.0 && text != "0.000" { "+" } else { "" };
    format!("{sign}{text}")
}

/// `+2697 %`, `-39.1 %`, `0.0 %`.
pub(super) fn percent(value: f64) -> String {
    let text = shown(value, usize::from(value.abs() < 100.0));
    let sign = if value > 0.0 && text != "0.0" { "+" } else { "" };
    format!("{sign}{text} %")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratios_and_percentages_read_well() {
        assert_eq!([times(27.968), times(1.5458), times(0.0412)], ["28.0×", "1.55×", "0.041×"]);
        assert_eq!(expected(ExpectedRatio::exactly(0.632)), "0.63×");
        assert_eq!(expected(ExpectedRatio { low: 0.632, high: 1.398 }), "0.63× to 1.40×");
        assert_eq!([percent(2696.8), percent(-39.14), percent(0.01)], ["+2697 %", "-39.1 %", "0.0 %"]);
        assert_eq!([signed_ms(0.576), signed_ms(0.0001), signed_ms(-3.0)], ["+0.58", "0.000", "-3.00"]);
    }

    #[test]
    fn every_verdict_has_a_sign_and_words() {
        use Verdict::{HardwareFaster, HardwareSlower, KernelIssue, Precision, UnexpectedFast, UnexpectedSlow};
        for v in [HardwareFaster, HardwareSlower, UnexpectedSlow, KernelIssue, Precision, UnexpectedFast] {
            assert!(!verdict(Some(v)).0.is_empty() && !verdict(Some(v)).1.is_empty());
            assert_eq!(v.is_expected(), verdict(Some(v)).1 == "as expected");
        }
        assert_eq!(verdict(None), ("–", "no counterpart"));
    }
}
