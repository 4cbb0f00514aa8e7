//! Numbers and phrases as all reports write them.

use jarvis_analyze::analysis::Analysis;
use jarvis_analyze::finding::{Finding, Mending, PatternId, Priority, Range};
use jarvis_analyze::patterns::{FIRST_FEW, ONE_CONVOLUTION, WHAT_GOES};
use jarvis_analyze::prepare::args::SEPARATOR;
use jarvis_analyze::prepared::{BoundType, Efficiency, EfficiencySource};
use jarvis_analyze::rounding::{shown, shown_ms};
use jarvis_analyze::rules::{MADE_ONE, NOT_NEEDED, SHORTEST};
pub(crate) use jarvis_analyze::texts::counted;

use crate::blocks::Line;

/// Most words of the paragraph that a report begins with.
pub(crate) const PARAGRAPH_WORDS: usize = 60;

/// Words of a paragraph; a name is one, whatever it is made of.
pub(crate) fn count_words(text: &str) -> usize {
    let is_word = |word: &&str| word.chars().any(char::is_alphanumeric);
    let plain = |text: &str| text.split_whitespace().filter(is_word).count();
    text.split('`').enumerate().map(|(i, part)| if i % 2 == 0 { plain(part) } else { 1 }).sum()
}

/// Percent with one decimal and no sign: `45.6`.
pub(crate) fn pct(value: f64) -> String {
    shown(value, 1)
}

/// Milliseconds: `13.71`.
pub(crate) fn ms(value: f64) -> String {
    shown_ms(value)
}

/// Microseconds: `1142.5`.
pub(crate) fn us(value: f64) -> String {
    shown(value, 1)
}

/// `16.70 to 19.80 ms`, or one number where both ends are the same.
pub(crate) fn ms_range(range: Range) -> String {
    let (low, high) = (ms(range.low), ms(range.high));
    match () {
        () if low == high => format!("{high} ms"),
        () if range.low <= 0.0 || low == "0.000" => format!("up to {high} ms"),
        () => format!("{low} to {high} ms"),
    }
}

/// `1.72x to 1.98x`.
pub(crate) fn speedup(range: Range) -> String {
    let (low, high) = (shown(range.low, 2), shown(range.high, 2));
    if low == high { format!("{high}x") } else { format!("{low}x to {high}x") }
}

/// `#2 in Top Operations`, or that it is a small part of one that is there, or not there at all.
pub(crate) fn in_top(rank: Option<usize>, listed: Option<usize>, most: usize) -> String {
    match (rank, listed) {
        (Some(n), _) => format!("#{n} in Top Operations"),
        (None, Some(n)) => format!("part of #{n} in Top Operations"),
        (None, None) => format!("not in the top {most}"),
    }
}

/// The circle of a priority.
pub(crate) fn icon(priority: Priority) -> &'static str {
    match priority {
        Priority::Critical => "🔴",
        Priority::High => "🟡",
        Priority::Medium => "🟢",
        Priority::Low => "⚪",
    }
}

/// `memory-bound`, or a dash.
pub(crate) fn bound(bound: Option<BoundType>) -> &'static str {
    match bound {
        Some(BoundType::Compute) => "compute-bound",
        Some(BoundType::Memory) => "memory-bound",
        None => "-",
    }
}

/// `30.6% of 5.3 TB/s`; a bound is marked as one.
pub(crate) fn efficiency(e: &Efficiency) -> String {
    let Some(percent) = e.efficiency_percent else { return "-".to_owned() };
    let mark = match () {
        () if e.source == EfficiencySource::ByteEstimate => "≥ ",
        () if e.is_at_most() => "≤ ",
        () => "",
    };
    let peak = match (e.bound_type, e.resolved_peak_maf) {
        (Some(BoundType::Compute), Some(peak)) => format!("{} TFLOPS/s", figure(peak)),
        _ => format!("{} TB/s", figure(e.resolved_peak_hbm_bw)),
    };
    let doubt = match (e.is_anomaly, e.is_at_most()) {
        (true, true) => " (touches a part)",
        (true, false) => " (verify)",
        (false, _) => "",
    };
    format!("{mark}{}% of {peak}{doubt}", pct(percent))
}

/// A peak as it is listed: no more decimals than it has.
pub(crate) fn figure(value: f64) -> String {
    // A figure of less than a thousandth still has three digits.
    let zeros = if value > 0.0 { (-value.log10()).floor().clamp(0.0, 20.0) as usize } else { 0 };
    let text = shown(value, 4_usize.max(zeros + 3));
    let text = if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { &text };
    text.to_owned()
}

/// Arguments on one line.
pub(crate) fn shapes(args: &str) -> String {
    let mut line = String::with_capacity(args.len());
    let mut separator = "";
    let mut parts = args.split(SEPARATOR).peekable();
    while let Some(part) = parts.next() {
        let mut count = 1;
        while parts.next_if_eq(&part).is_some() {
            count += 1;
        }
        // Many equal ones in a row are easier to count than to read.
        let (times, shown) = if count > 2 { (format!("{count} x "), 1) } else { (String::new(), count) };
        for _ in 0..shown {
            line.extend([separator, &times, part]);
            separator = ", ";
        }
    }
    if line.is_empty() { "-".to_owned() } else { line }
}

/// How a finding's range was found, in a few words; the whole of it stands in the detailed section.
pub(crate) fn basis(finding: &Finding) -> &'static str {
    let whole = &finding.impact.basis;
    match finding.pattern {
        _ if finding.mending == Mending::Accuracy => "what such operations reach in the lower precision",
        _ if finding.mending.condition().is_some() => "what such operations reach elsewhere; nothing is counted on",
        _ if whole.contains("launches replaced") => "the recorded schedule run again with fewer launches",
        _ if whole.contains("without these launches") => "the recorded schedule run again without their launches",
        _ if whole.contains(ONE_CONVOLUTION) => "the same arithmetic in one convolution",
        _ if whole.contains(FIRST_FEW) => "what finding the first few was measured to take",
        _ if whole.contains("as part of the matrix product") => "the same work within the matrix products",
        _ if whole.contains("steps in time by one call") => "the same steps in one call of the library",
        _ if whole.contains(" passes move ") => "as few passes over the same data as such work needs",
        _ if whole.contains(MADE_ONE) || whole.contains(" turns they take ") => "the same products in fewer calls",
        PatternId::DEPTHWISE_CONVOLUTION if whole.contains("come into their band") => {
            "convolutions in their band, and what the other layout makes of the rest"
        }
        PatternId::LAYOUT_TRANSPOSES if !whole.contains("of batch norm") => "measured transposes",
        _ if WHAT_GOES.iter().chain([&NOT_NEEDED]).any(|words| whole.contains(words)) => "measured time of what goes",
        PatternId::UNFUSED_ATTENTION => "performance model of one fused attention kernel",
        PatternId::REPEATED_KV_HEADS => "measured time of the copies",
        PatternId::FULL_PRECISION_GEMM => "ratio of the two peaks",
        PatternId::LAYOUT_TRANSPOSES => "measured transposes, and norms at the usual bandwidth",
        PatternId::MOE_EXPERT_LOOP => "the same work in grouped calls",
        PatternId::UNFUSED_NORM
        | PatternId::ELEMENTWISE_CHAIN
        | PatternId::UNFUSED_MODULE
        | PatternId::UNFUSED_OPTIMIZER => "one pass over the same data",
        PatternId::LAUNCH_BOUND => "the recorded schedule run again with less host time",
        PatternId::HOST_SYNC | PatternId::INPUT_STARVED => "the recorded schedule run again without these waits",
        PatternId::RECOMPUTATION => "the recorded schedule run again without the repeated work",
        PatternId::BLOCKING_COPIES | PatternId::EXPOSED_COMMUNICATION => "time that nothing overlaps",
        _ if whole.contains(SHORTEST) => "projection to kernels that can't get any shorter",
        _ => "projection to an efficiency that such operations reach",
    }
}

/// What a finding saves.
pub(crate) fn saves(analysis: &Analysis, finding: &Finding) -> String {
    analysis.no_gain(finding).map_or_else(|| ms_range(finding.impact.saved_ms), str::to_owned)
}

/// The line that tells what a finding brings.
pub(crate) fn impact(analysis: &Analysis, finding: &Finding) -> String {
    if let Some(no_gain) = analysis.no_gain(finding) {
        return format!("{no_gain}.");
    }
    format!(
        "saves {} of {} ms ({} end to end){}; basis: {}.",
        ms_range(finding.impact.saved_ms),
        ms(analysis.prepared.utilization.total_time_ms),
        speedup(finding.impact.speedup),
        finding.mending.condition().unwrap_or_default(),
        basis(finding)
    )
}

/// Options of a run, each by itself: all of them as one name would be cut.
pub(crate) fn options(flags: &[String]) -> Line {
    let told = |line: Line, flag: &String| {
        let between = if line.is_empty() { "" } else { ", " };
        line.and_prose(between).and_code(flag)
    };
    if flags.is_empty() { cell("none") } else { flags.iter().fold(Line::new(), told) }
}

/// A cell with a number.
pub(crate) fn cell(text: impl Into<Line>) -> Line {
    text.into()
}

/// A full stop at the end, and the first letter in upper case if it begins a word and not a name.
pub(crate) fn sentence(text: &str) -> String {
    let word = text.split(' ').next().unwrap_or_default().trim_end_matches([',', ':', ';']);
    let is_word = !word.is_empty() && word.chars().all(|c| c.is_ascii_alphabetic() || c == '-' || c == '/');
    let mut chars = text.chars();
    let first: String = chars.next().map(|c| if is_word { c.to_ascii_uppercase() } else { c }).into_iter().collect();
    let end = if text.ends_with(['.', ':', '?']) { "" } else { "." };
    format!("{first}{}{end}", chars.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_basis_is_that_of_its_finding() {
        let told = |pattern, whole: &str| {
            let mut f = crate::html::waterfall::tests::finding(1, "", 1.0, 2.0);
            (f.pattern, f.impact.basis) = (pattern, whole.to_owned());
            basis(&f)
        };
        let projection = "projection to an efficiency that such operations reach";
        for (pattern, whole, expected) in [
            (PatternId::TINY_GEMMS, "1 ms at 2% of peak would take 0.5 ms at 70%", projection),
            (PatternId::TINY_GEMMS, "batched over 8 turns they take 2-4 us a loop", "the same products in fewer calls"),
            (
                PatternId::TINY_GEMMS,
                "20% of peak, and no more than 8 calls made one",
                "the same products in fewer calls",
            ),
            (PatternId::UNFUSED_MODULE, "one pass moves 8 MiB and takes 2-3 us a call", "one pass over the same data"),
            (
                PatternId::UNFUSED_MODULE,
                "2 passes move 8 MiB and take 2-3 us a call",
                "as few passes over the same data as such work needs",
            ),
            (
                PatternId::UNFUSED_MODULE,
                "as part of the matrix product they take 0-2 us a call",
                "the same work within the matrix products",
            ),
            (PatternId::LAYOUT_TRANSPOSES, "1 ms of transposes go", "measured transposes"),
            (
                PatternId::LAYOUT_TRANSPOSES,
                "1 ms of transposes go; 2 ms of batch norm on channels-first inputs",
                "measured transposes, and norms at the usual bandwidth",
            ),
            (
                PatternId::NORM_BELOW_BASELINE,
                "1 ms would take 0.5 ms with kernels that can't get any shorter",
                "projection to kernels that can't get any shorter",
            ),
        ] {
            assert_eq!(told(pattern, whole), expected, "{whole}");
        }
    }

    #[test]
    fn a_name_is_one_word() {
        assert_eq!(count_words("GEMM takes 47.9% of compute, led by `void at::native (int, float)` (40.4%)."), 9);
        assert_eq!(count_words("one - two"), 2);
    }

    #[test]
    fn numbers_read_as_a_person_writes_them() {
        assert_eq!(ms_range(Range::new(1.0, 2.0)), "1.00 to 2.00 ms");
        assert_eq!(ms_range(Range::new(0.0, 2.0)), "up to 2.00 ms");
        assert_eq!(ms_range(Range::new(2.0, 2.001)), "2.00 ms");
        assert_eq!(speedup(Range::new(1.001, 1.004)), "1.00x");
        assert_eq!(figure(5.3), "5.3");
        assert_eq!(figure(990.0), "990");
        assert_eq!(counted(1, "call"), "1 call");
        assert_eq!(shapes("(8) f<br>(8) f<br>(4) i"), "(8) f, (8) f, (4) i");
        assert_eq!(shapes("(8) f<br>(4) i<br>(4) i<br>(4) i"), "(8) f, 3 x (4) i");
        assert_eq!(shapes(""), "-");
        assert_eq!(in_top(Some(3), Some(3), 10), "#3 in Top Operations");
        assert_eq!(in_top(None, Some(3), 10), "part of #3 in Top Operations");
        assert_eq!(in_top(None, None, 10), "not in the top 10");
        assert_eq!(in_top(None, None, 4), "not in the top 4");
        assert_eq!(sentence("no shapes"), "No shapes.");
        assert_eq!(sentence("`a` is"), "`a` is.");
        assert_eq!(sentence("aten::mm is"), "aten::mm is.");
    }
}
