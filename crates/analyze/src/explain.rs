//! What `jarvis explain` says about patterns and analyzers. The texts stand where the rules stand: at the head of a
//! detector's file, or in an analyzer's own description; here is only the list of who explains what.

use crate::finding::{PATTERNS, PatternId, PatternInfo, Tier};
use crate::patterns::{Code, PATTERN_DETECTORS};
use crate::rules::{ANALYZERS, AnalyzerInfo, analyzer};
use crate::thresholds::Threshold;

/// Something that can be explained.
#[derive(Debug, Clone)]
pub struct Topic {
    /// Its stable name.
    pub name: &'static str,
    /// What it is.
    pub kind: TopicKind,
    /// One line.
    pub title: String,
    /// What it finds, why it matters, how it is computed, what to do, its limits.
    pub text: String,
    /// Limits it reads.
    pub thresholds: Vec<Threshold>,
}

/// What a topic is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TopicKind {
    /// A pattern of findings.
    Pattern(Tier),
    /// The analyzer of a category.
    Analyzer,
}

/// Who explains a pattern that detectors of several operations do not find, or not alone.
const EXPLAINED_BY: &[(PatternId, Source)] = &[
    (PatternId::LOW_EFFICIENCY_GEMM, Source::Analyzer("gemm")),
    (PatternId::FULL_PRECISION_GEMM, Source::Analyzer("gemm")),
    (PatternId::TINY_GEMMS, Source::Analyzer("gemm")),
    (PatternId::MISALIGNED_GEMM, Source::Analyzer("gemm")),
    (PatternId::MEMORY_BOUND_GEMM, Source::Analyzer("gemm")),
    (PatternId::QUANTIZED_GEMM, Source::Analyzer("gemm")),
    (PatternId::ATTENTION_BELOW_BAND, Source::Analyzer("sdpa")),
    (PatternId::LAYOUT_TRANSPOSES, Source::Analyzer("convolution")),
    (PatternId::CONVOLUTION_BELOW_BAND, Source::Analyzer("convolution")),
    (PatternId::DEPTHWISE_CONVOLUTION, Source::Analyzer("convolution")),
    (PatternId::NORM_BELOW_BASELINE, Source::Analyzer("norm")),
    (PatternId::LOW_BANDWIDTH_ELEMENTWISE, Source::Analyzer("elementwise")),
    (PatternId::LOW_BANDWIDTH_REDUCE, Source::Analyzer("reduce")),
    (PatternId::TRITON_BELOW_BAND, Source::Analyzer("triton")),
    (PatternId::MOE_BELOW_BAND, Source::Analyzer("moe")),
    (PatternId::LAUNCH_BOUND, Source::Text(include_str!("system/idle_findings.rs"))),
    (PatternId::HOST_SYNC, Source::Text(include_str!("system/idle_findings.rs"))),
    (PatternId::INPUT_STARVED, Source::Text(include_str!("system/idle_findings.rs"))),
    (PatternId::BLOCKING_COPIES, Source::Text(include_str!("system/copy_findings.rs"))),
    (PatternId::EXPOSED_COMMUNICATION, Source::Text(include_str!("system/copy_findings.rs"))),
    (PatternId::RECOMPUTATION, Source::Text(include_str!("system/recomputation.rs"))),
];

#[derive(Debug, Clone, Copy)]
enum Source {
    /// The analyzer of this name.
    Analyzer(&'static str),
    /// The head of this source text.
    Text(&'static str),
}

/// All topics: patterns in the order of their list, then analyzers.
pub fn topics() -> Vec<Topic> {
    let patterns = PATTERNS.iter().map(pattern);
    patterns.chain(ANALYZERS.iter().map(|a| analyzer_topic(a.info()))).collect()
}

/// One of the codes that files name patterns by: what its detector says. Capitals or not.
pub fn code_topic(name: &str) -> Option<Topic> {
    let code = Code::ALL.iter().find(|code| code.as_str().eq_ignore_ascii_case(name))?;
    let info = PATTERNS.iter().find(|info| info.id == code.id())?;
    let detector = PATTERN_DETECTORS.iter().find(|d| d.codes.contains(code))?;
    Some(Topic {
        name: code.as_str(),
        kind: TopicKind::Pattern(info.tier),
        title: format!("told as `{}`", info.id.as_str()),
        text: detector.explanation().trim_end().to_owned(),
        thresholds: Vec::new(),
    })
}

fn pattern(info: &PatternInfo) -> Topic {
    let known = EXPLAINED_BY.iter().find(|(id, _)| *id == info.id).map(|(_, source)| *source);
    let (text, thresholds) = match known {
        Some(Source::Analyzer(id)) => {
            let (doc, thresholds) =
                analyzer(id).map_or_else(Default::default, |a| (a.info().doc, a.info().all_thresholds()));
            let texts = [detectors(info.id), doc.to_owned()];
            (texts.into_iter().filter(|text| !text.is_empty()).collect::<Vec<_>>().join("\n\n"), thresholds)
        }
        Some(Source::Text(text)) => (head(text), Vec::new()),
        None => (detectors(info.id), Vec::new()),
    };
    Topic {
        name: info.id.as_str(),
        kind: TopicKind::Pattern(info.tier),
        title: info.holds.to_owned(),
        text,
        thresholds,
    }
}

/// What all detectors of a pattern say about themselves.
fn detectors(id: PatternId) -> String {
    let of_pattern = PATTERN_DETECTORS.iter().filter(|d| d.codes.iter().any(|c| c.id() == id));
    of_pattern.map(|d| d.explanation().trim_end().to_owned()).collect::<Vec<_>>().join("\n\n")
}

fn analyzer_topic(info: &'static AnalyzerInfo) -> Topic {
    Topic {
        name: info.id,
        kind: TopicKind::Analyzer,
        title: info.title.to_owned(),
        text: info.doc.to_owned(),
        thresholds: info.all_thresholds(),
    }
}

/// The comment at the head of a source text, without links that only the compiler understands.
fn head(text: &str) -> String {
    let lines = text.lines().map_while(|l| l.strip_prefix("//!"));
    let lines = lines.map(|l| l.strip_prefix(' ').unwrap_or(l)).collect::<Vec<_>>().join("\n");
    lines.replace("[`super::", "[`").replace("[`", "`").replace("`]", "`")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_explained_by_who_finds_them() {
        for code in Code::ALL {
            let topic = code_topic(&code.as_str().to_lowercase()).unwrap();
            assert_eq!(topic.name, code.as_str());
            assert!(topic.title.contains(code.id().as_str()) && topic.text.contains("What it finds"), "{}", topic.name);
        }
        assert!(code_topic("unfused").is_none());
    }

    #[test]
    fn every_topic_is_explained_under_all_headings() {
        let topics = topics();
        assert_eq!(topics.len(), PATTERNS.len() + ANALYZERS.len());
        for topic in topics {
            for heading in ["What it finds", "Why it matters", "How it is computed", "What to do", "Limits"] {
                assert!(topic.text.contains(heading), "{} does not say: {heading}", topic.name);
            }
            assert!(!topic.text.contains("super::"), "{} speaks of code", topic.name);
            // Whoever finds a pattern explains it.
            let finds = PATTERN_DETECTORS.iter().filter(|d| d.codes.iter().any(|c| c.id().as_str() == topic.name));
            for detector in finds.filter(|_| topic.name != PatternId::RECOMPUTATION.as_str()) {
                assert!(topic.text.contains(detector.explanation().trim_end()), "{}", topic.name);
            }
        }
    }
}
