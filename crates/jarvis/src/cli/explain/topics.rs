//! Patterns, analyzers and limits, as `jarvis explain` tells of them.

use std::fmt::Write as _;

use jarvis_analyze::explain::{Topic, TopicKind, code_topic, topics};
use jarvis_analyze::finding::Tier;
use jarvis_analyze::thresholds::{THRESHOLDS, Threshold, ThresholdInfo};
use serde_json::{Value, json};

/// What is asked for.
pub(super) enum Answer {
    /// One pattern or analyzer.
    One(Box<Topic>),
    /// All of them.
    Patterns,
    /// All limits.
    Thresholds,
}

/// The answer for a name, if it is no operation's.
pub(super) fn of(name: &str) -> Option<Answer> {
    match name {
        "patterns" | "analyzers" => Some(Answer::Patterns),
        "thresholds" | "limits" => Some(Answer::Thresholds),
        _ => {
            let topic = topics().into_iter().find(|t| t.name == name).or_else(|| code_topic(name));
            topic.map(|t| Answer::One(Box::new(t)))
        }
    }
}

/// Names that can be asked for.
pub(super) fn names() -> impl Iterator<Item = &'static str> {
    topics().into_iter().map(|t| t.name).chain(["patterns", "analyzers", "thresholds", "limits"])
}

impl Answer {
    pub(super) fn text(&self) -> String {
        let mut out = String::new();
        match self {
            Self::One(topic) => {
                let _ = writeln!(
                    out,
                    "{} ({}): {}\n\n{}",
                    topic.name,
                    kind(topic.kind),
                    topic.title,
                    topic.text.trim_end()
                );
                if !topic.thresholds.is_empty() {
                    out.push_str("\nLimits it reads (`--thresholds FILE` of `jarvis analyze` changes them)\n");
                    for info in topic.thresholds.iter().map(|t: &Threshold| t.info()) {
                        threshold_line(&mut out, info);
                    }
                }
            }
            Self::Patterns => {
                for topic in topics() {
                    let _ = writeln!(out, "{:<27}{:<18}{}", topic.name, kind(topic.kind), topic.title);
                }
            }
            Self::Thresholds => THRESHOLDS.iter().for_each(|info| threshold_line(&mut out, info)),
        }
        out
    }

    pub(super) fn json(&self) -> Value {
        let one = |t: &Topic| {
            json!({
                "name": t.name, "kind": kind(t.kind), "title": t.title, "text": t.text,
                "thresholds": t.thresholds.iter().map(|t| t.key()).collect::<Vec<_>>(),
            })
        };
        let topics = match self {
            Self::One(topic) => vec![one(topic)],
            Self::Patterns => topics().iter().map(one).collect(),
            Self::Thresholds => {
                let limit =
                    |i: &ThresholdInfo| json!({"key": i.key, "value": i.default, "unit": i.unit, "meaning": i.doc});
                let limits: Vec<Value> = THRESHOLDS.iter().map(limit).collect();
                return json!({"schema": "jarvis.explain/1", "thresholds": limits});
            }
        };
        json!({"schema": "jarvis.explain/1", "topics": topics})
    }
}

fn threshold_line(out: &mut String, info: &ThresholdInfo) {
    let _ = writeln!(out, "  {:<34}{:>8} {:<6} {}", info.key, info.default, info.unit, info.doc);
}

fn kind(kind: TopicKind) -> &'static str {
    match kind {
        TopicKind::Pattern(Tier::Compute) => "compute pattern",
        TopicKind::Pattern(Tier::Fusion) => "fusion pattern",
        TopicKind::Pattern(Tier::System) => "system pattern",
        TopicKind::Analyzer => "analyzer",
    }
}
