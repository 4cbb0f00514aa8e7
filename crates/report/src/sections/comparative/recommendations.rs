//! What to improve on the target, those that save most first.

use jarvis_analyze::comparative::{Gap, GapSource};

use super::{delta, expected_delta, platforms, share, slower, title_of};
use crate::Versus;
use crate::blocks::{Block, Line};
use crate::language::reads_as_one;
use crate::sections::words::ms;

/// Most recommendations.
pub(super) const MOST: usize = 10;

/// Operations of one cause that a recommendation names; the details name all.
const MOST_NAMED: usize = 3;

/// The part.
pub(super) fn blocks(v: &Versus<'_>) -> Vec<Block> {
    let [_, target] = platforms(v);
    let mut blocks = vec![Block::heading(2, format!("Recommendations for {target}"))];
    let gaps = &v.comparative.gaps;
    if gaps.is_empty() {
        blocks.push(Block::paragraph(format!("No recommendation from the comparison. {}", v.comparative.no_gap())));
    }
    for (i, gap) in gaps.iter().take(MOST).enumerate() {
        blocks.extend(one(v, gap, &gaps[..i]));
    }
    if gaps.len() > MOST {
        blocks.push(Block::paragraph(format!("{} more in `findings.json`.", gaps.len() - MOST)));
    }
    blocks.push(Block::paragraph(
        "What else the target could do in less time, whatever the reference does, stands in `category_findings/`, \
         `system_findings/` and `findings.json`.",
    ));
    blocks
}

/// The circle of a rank.
fn icon(rank: usize) -> &'static str {
    match rank {
        1 => "🔴",
        2 => "🟡",
        _ => "🟢",
    }
}

/// Where the details of a gap stand.
pub(super) fn anchor(gap: &Gap) -> String {
    match gap.source {
        GapSource::Unmatched => "cmp-unmatched".to_owned(),
        _ => format!("cmp-{}", gap.rank),
    }
}

/// Whether a name reads as one in the middle of a text. Names in a trace are anybody's: others stand in code.
pub(super) fn is_plain(name: &str) -> bool {
    reads_as_one(name, " _:.,-+/")
}

fn one(v: &Versus<'_>, gap: &Gap, earlier: &[Gap]) -> Vec<Block> {
    let priority = format!("Priority {}", gap.rank);
    let name = if is_plain(&gap.name) { &gap.name } else { &priority };
    let link =
        Line::prose("→ See ").and_link(&format!("Detailed Comparison: {name}"), &anchor(gap)).and_prose(" for details");
    let mut labels = vec![("Gap".to_owned(), Line::from(told(gap)))];
    if let GapSource::Cause(_) = gap.source {
        labels.push(("Operations".to_owned(), Line::prose(&operations(v, gap))));
    }
    labels.extend([
        ("Action".to_owned(), action(gap, earlier)),
        ("Impact".to_owned(), impact(gap).into()),
        (String::new(), link),
    ]);
    vec![Block::heading(3, format!("{} Priority {}: {}", icon(gap.rank), gap.rank, gap.title)), Block::Labels(labels)]
}

/// The operations of a gap that save most, with what each saves.
fn operations(v: &Versus<'_>, gap: &Gap) -> String {
    let named = gap.operations.iter().filter_map(|&at| v.comparative.operations.get(at));
    let first: Vec<String> =
        named.take(MOST_NAMED).map(|o| format!("{} ({} ms)", title_of(o), ms(o.saved_ms))).collect();
    let more = gap.operations.len().saturating_sub(MOST_NAMED);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!("{}{more}", first.join(", "))
}

fn told(gap: &Gap) -> String {
    let percent = gap.ms.delta_percent();
    let slower = slower(percent);
    match gap.source {
        GapSource::Operation(_) => match &gap.precision {
            Some(types) => format!(
                "Target computes in `{}`, reference in `{}`: {slower} on `{}` (~{} based on hardware for these types)",
                types.target,
                types.reference,
                gap.name,
                expected_delta(gap.expected)
            ),
            None => format!(
                "Target is {slower} on {} (unexpected - should be ~{} based on hardware)",
                gap.title,
                expected_delta(gap.expected)
            ),
        },
        GapSource::Cause(pattern) => format!(
            "Target is {slower} on these operations (unexpected - should be ~{} based on hardware); it shows `{}`, the \
             reference does not",
            expected_delta(gap.expected),
            pattern.as_str()
        ),
        GapSource::Idle => {
            format!("Target waits {} ms, reference {} ms ({})", ms(gap.ms.target), ms(gap.ms.reference), delta(percent))
        }
        GapSource::Copies => {
            format!("Target only copies for {} ms, reference for {} ms", ms(gap.ms.target), ms(gap.ms.reference))
        }
        GapSource::Communication => {
            format!("Target only communicates for {} ms, reference for {} ms", ms(gap.ms.target), ms(gap.ms.reference))
        }
        GapSource::Overlap => format!(
            "{} ms of kernels run beside others in the reference and one after the other on target",
            ms(gap.ms.target)
        ),
        GapSource::Unmatched if gap.ms.reference <= 0.0 => {
            format!("Target takes {} ms for operations that the reference does not run", ms(gap.ms.target))
        }
        GapSource::Unmatched => format!(
            "Target takes {} ms for operations that the reference does not run, which takes {} ms in other ones",
            ms(gap.ms.target),
            ms(gap.ms.reference)
        ),
    }
}

/// From this share on a saving counts as all that the target takes longer: the rest is rounding.
const WHOLE: f64 = 0.995;

fn impact(gap: &Gap) -> String {
    let reached = match gap.source {
        GapSource::Operation(_) if gap.precision.is_some() => "the precision of the reference is used",
        GapSource::Operation(_) | GapSource::Cause(_) => "the hardware-expected time is reached",
        GapSource::Idle | GapSource::Copies | GapSource::Communication if gap.saved_ms < WHOLE * gap.ms.delta() => {
            "it no longer makes the target slower: in the rest of that time the reference computes, or waits for something \
             else"
        }
        GapSource::Idle | GapSource::Unmatched | GapSource::Copies | GapSource::Communication => {
            "the time of the reference is reached"
        }
        GapSource::Overlap => "as much is overlapped as in the reference",
    };
    format!("{} ms ({}) if {reached}", ms(gap.saved_ms), share(gap))
}

/// One sentence for each path; what an earlier recommendation says is not said again.
fn action(gap: &Gap, earlier: &[Gap]) -> Line {
    type Path = fn(&Gap) -> Option<&String>;
    let paths: [(&str, Path); 2] =
        [("Path A: ", |g| g.paths.algorithmic.first()), ("Path B: ", |g| g.paths.kernel.first())];
    let told = paths.map(|(label, path)| match path(gap) {
        None => format!("{label}None."),
        Some(sentence) => match earlier.iter().find(|e| path(e) == Some(sentence)) {
            Some(e) => format!("{label}as in Priority {}.", e.rank),
            None => format!("{label}{sentence}"),
        },
    });
    Line::prose(&told.join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernels_and_vendors_stand_in_code() {
        assert!(is_plain("aten::cudnn_batch_norm_backward") && is_plain("aten::copy_, aten::fill_"));
        for name in ["cudaGraphLaunch->void flash<cutlass::bfloat16_t>(int)", "cutlass::gemm", "a[b](#c)", "a*b*"] {
            assert!(!is_plain(name), "{name}");
        }
    }
}
