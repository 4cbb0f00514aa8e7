//! Puts a page together.

use super::island;
use super::markup::{Markup, printable};
use super::sections;
use super::side::{Side, SideData};

use serde::Serialize;

const TEMPLATE: &str = include_str!("../../assets/html/page.html");
const STYLE: &str = include_str!("../../assets/html/style.css");

/// What pages of one kind have in common.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Kind {
    /// Added to the style of all pages.
    style: &'static str,
    script: &'static str,
    /// What the policy of the page knows the script by; a test keeps it right.
    hash: &'static str,
    /// What it was made from and where all numbers stand.
    foot: &'static str,
}

/// The page of one trace.
pub(crate) const REPORT: Kind = Kind {
    style: "",
    script: concat!(
        include_str!("../../assets/html/core.js"),
        include_str!("../../assets/html/strip.js"),
        include_str!("../../assets/html/app.js")
    ),
    hash: include_str!("../../assets/html/report.sha256"),
    foot: "from one profiler trace. Estimates are ranges; findings.json and perf_report_csvs/ beside this file hold every \
           number.",
};

/// The page of a comparison.
pub(crate) const VERSUS: Kind = Kind {
    style: include_str!("../../assets/html/versus.css"),
    script: concat!(
        include_str!("../../assets/html/core.js"),
        include_str!("../../assets/html/strip.js"),
        include_str!("../../assets/html/versus.js")
    ),
    hash: include_str!("../../assets/html/versus.sha256"),
    foot: "from two profiler traces. The reference shows what is achievable; the target is to be improved. \
           findings.json and category_data/comparison_metrics.json beside this file hold every number.",
};

/// What a page is made of.
pub(crate) struct Parts<'a> {
    pub(crate) kind: Kind,
    /// Title of the window.
    pub(crate) title: &'a str,
    pub(crate) head: Markup,
    pub(crate) nav: Markup,
    pub(crate) main: Markup,
    /// JSON that is safe in a page.
    pub(crate) data: String,
}

/// Words for what the data only numbers.
#[derive(Serialize)]
pub(crate) struct Words {
    schema: &'static str,
    families: Vec<&'static str>,
    gap_classes: Vec<(&'static str, &'static str, &'static str)>,
}

impl Words {
    pub(crate) fn new(schema: &'static str) -> Self {
        Self {
            schema,
            families: super::family::Family::ALL.iter().map(|(_, name)| *name).collect(),
            gap_classes: super::strip::CLASSES.iter().map(|(c, name, meaning)| (c.as_str(), *name, *meaning)).collect(),
        }
    }
}

/// Data of the page of one trace.
#[derive(Serialize)]
struct PageData<'a> {
    #[serde(flatten)]
    words: Words,
    sides: [&'a SideData; 1],
}

/// The page of one trace.
pub(crate) fn render(side: &Side<'_>, beside: &[String]) -> Vec<u8> {
    let mut head = Markup::default();
    sections::head(&mut head, side);
    let mut nav = Markup::default();
    sections::navigation(&mut nav, side);
    let mut main = Markup::default();
    sections::main(&mut main, side, beside);
    let title = side.source.title.unwrap_or(side.source.file_name());
    let data = island::json(&PageData { words: Words::new("jarvis.page/1"), sides: [&side.data] });
    put_together(&Parts { kind: REPORT, title, head, nav, main, data })
}

/// A page of its parts.
pub(crate) fn put_together(parts: &Parts<'_>) -> Vec<u8> {
    let mut title = Markup::default();
    title.text(printable(parts.title));
    fill(&[
        ("title", title.as_str()),
        ("hash", parts.kind.hash.trim()),
        ("style", STYLE),
        ("more-style", parts.kind.style),
        ("head", parts.head.as_str()),
        ("nav", parts.nav.as_str()),
        ("main", parts.main.as_str()),
        ("version", concat!("jarvis ", env!("CARGO_PKG_VERSION"))),
        ("foot", parts.kind.foot),
        ("data", &parts.data),
        ("script", parts.kind.script),
    ])
    .into_bytes()
}

/// The template with its marks replaced. It is read once from front to back, so nothing that is filled in is ever taken
/// for a mark.
fn fill(values: &[(&str, &str)]) -> String {
    let mut out = String::with_capacity(TEMPLATE.len() + values.iter().map(|(_, v)| v.len()).sum::<usize>());
    let mut rest = TEMPLATE;
    while let Some((before, after)) = rest.split_once("{{") {
        out.push_str(before);
        let (name, after) = after.split_once("}}").unwrap_or((after, ""));
        out.push_str(values.iter().find(|(n, _)| *n == name).map_or("", |(_, v)| v));
        rest = after;
    }
    out.push_str(rest);
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use sha2::{Digest, Sha256};

    use crate::render::png::base64;

    const KINDS: [(Kind, &str); 2] = [(REPORT, "report"), (VERSUS, "versus")];

    #[test]
    fn the_policy_knows_the_scripts() {
        for (kind, name) in KINDS {
            let hash = format!("sha256-{}", base64(&Sha256::digest(kind.script.replace("\r\n", "\n"))));
            if std::env::var_os("JARVIS_BLESS").is_some() {
                let path = format!("{}/assets/html/{name}.sha256", env!("CARGO_MANIFEST_DIR"));
                std::fs::write(path, format!("{hash}\n")).unwrap();
                continue;
            }
            assert_eq!(kind.hash.trim(), hash, "the script of {name} changed: JARVIS_BLESS=1 writes its hash anew");
        }
    }

    /// Between the script's tags stands the script and nothing else, or its hash is another.
    #[test]
    fn the_template_has_every_mark_once() {
        for mark in ["title", "hash", "style", "more-style", "head", "nav", "main", "version", "foot", "data"] {
            assert_eq!(TEMPLATE.matches(&format!("{{{{{mark}}}}}")).count(), 1, "{mark}");
        }
        assert_eq!(TEMPLATE.matches("<script>{{script}}</script>").count(), 1);
        for (kind, name) in KINDS {
            let script = kind.script;
            assert!(!script.contains("</script") && !script.contains("<!--"), "{name}: it would end the script early");
            assert!(
                !script.contains("innerHTML") && !script.contains("insertAdjacentHTML"),
                "{name}: text goes in as text"
            );
        }
    }
}
