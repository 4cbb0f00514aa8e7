//! The recommendations: one change each, at most ten lines.

use jarvis_analyze::finding::Finding;

use crate::Run;
use crate::blocks::{Block, Line};
use crate::html::IMPROVEMENT;
use crate::sections::cross::{leading, listed, recommendations};
use crate::sections::detail_name;
use crate::sections::words::{counted, icon, impact, in_top};

/// What waits of the GPU are about: no operation, so none of the list.
const WHOLE_TRACE: &str = "the whole trace";

/// The part.
pub(crate) fn blocks(run: &Run<'_>) -> Vec<Block> {
    let found = recommendations(run);
    let mut blocks = vec![Block::heading(2, "Recommendations")];
    if found.is_empty() {
        blocks.push(Block::paragraph(
            "No recommendation: no change is worth one, or its gain can't be told from this trace.",
        ));
        return blocks;
    }
    blocks.push(Block::Paragraph(Line::strong("Note:").and_prose(" Recommendations are prioritized based on:")));
    let reasons = [
        "Presence in Top Operations list (highest impact)",
        "Efficiency gap (how much improvement is possible)",
        "Category compute percentage",
        "Expected end-to-end gain, which raises or lowers the level and orders equal ones",
    ];
    let reasons = reasons.iter().map(|r| (None, Line::prose(r))).collect();
    blocks.push(Block::List { ordered: true, items: reasons });
    blocks.push(Block::Picture { shows: "Estimated time after each fix", file: IMPROVEMENT });
    for (i, f) in found.iter().enumerate() {
        blocks.extend(one(run, f, &found[..i]));
    }
    let more = jarvis_analyze::rank::recommended(&run.analysis.findings).count() - found.len();
    if more > 0 {
        blocks.push(Block::Paragraph(
            Line::prose(&format!("{} of lower rank: see ", counted(more, "more finding")))
                .and_link("Further Findings", "detail-further"),
        ));
    }
    blocks
}

fn one(run: &Run<'_>, f: &Finding, earlier: &[&Finding]) -> Vec<Block> {
    let heading = format!("{} {} Priority: {} (R{})", icon(f.priority), f.priority.title(), f.title, f.rank);
    let link = Line::prose("→ See ")
        .and_link(&format!("Detailed Analysis: {}", detail_name(run, &f.category)), &format!("detail-{}", f.category))
        .and_prose(" for details");
    vec![
        Block::heading(3, heading),
        Block::Labels(vec![
            ("Operation".to_owned(), operation(run, f)),
            ("Issue".to_owned(), f.issue.as_str().into()),
            ("Action".to_owned(), action(f, earlier)),
            ("Impact".to_owned(), impact(run.analysis, f).into()),
            (String::new(), link),
        ]),
    ]
}

fn operation(run: &Run<'_>, f: &Finding) -> Line {
    let (name, rank) = leading(&run.analysis.prepared, f);
    let Some(name) = name else { return Line::prose(WHOLE_TRACE) };
    let p = &run.analysis.prepared;
    let mut line =
        Line::code(name).and_prose(&format!(" ({})", in_top(rank, listed(p, name), p.most_top_operations())));
    let mut others: Vec<&str> = f.operations.iter().map(|o| o.name.as_str()).filter(|n| *n != name).collect();
    others.sort_unstable();
    others.dedup();
    if !others.is_empty() {
        line = line.and_prose(&format!(" and {}", counted(others.len(), "more operation")));
    }
    line
}

/// One sentence for each path; what an earlier recommendation says is not said again.
fn action(f: &Finding, earlier: &[&Finding]) -> Line {
    type Path = fn(&Finding) -> Option<&String>;
    let paths: [(&str, Path); 2] =
        [("Path A: ", |f| f.paths.algorithmic.first()), ("Path B: ", |f| f.paths.kernel.first())];
    let mut line = Line::new();
    for (label, path) in paths {
        let sentence = path(f);
        let said = sentence.and_then(|s| earlier.iter().find(|e| path(e) == Some(s) && s.split(' ').count() >= 8));
        let text = match (sentence, said) {
            (_, Some(e)) if !path(e).is_some_and(|s| is_free(s)) => format!("as in R{}.", e.rank),
            (Some(s), _) => s.clone(),
            (None, _) => "None.".to_owned(),
        };
        // In one span with what stands before: sentences end at a full stop and a space.
        let gap = if line.0.is_empty() { "" } else { " " };
        line = line.and_prose(gap).and_prose(label).and_prose(&text);
    }
    line
}

/// The one sentence that may stand with every recommendation.
fn is_free(sentence: &str) -> bool {
    sentence == jarvis_analyze::texts::TextId::B_REPLAY.template()
}
