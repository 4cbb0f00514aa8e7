//! Puts the page together.

use serde::Serialize;

use super::island;
use super::markup::{Markup, printable};
use super::sections;
use super::side::{Side, SideData};

const TEMPLATE: &str = include_str!("../../assets/html/page.html");
const STYLE: &str = include_str!("../../assets/html/style.css");
const SCRIPT: &str = include_str!("../../assets/html/app.js");
/// What the policy of the page knows the script by; a test keeps it right.
const SCRIPT_HASH: &str = include_str!("../../assets/html/app.js.sha256");

/// Data of a page. Sides of a comparison will stand next to each other in the list.
#[derive(Serialize)]
struct PageData<'a> {
    schema: &'static str,
    families: Vec<&'static str>,
    gap_classes: Vec<(&'static str, &'static str, &'static str)>,
    sides: [&'a SideData; 1],
}

/// The page.
pub(crate) fn render(side: &Side<'_>, beside: &[String]) -> Vec<u8> {
    let mut head = Markup::default();
    sections::head(&mut head, side);
    let mut nav = Markup::default();
    sections::navigation(&mut nav, side);
    let mut main = Markup::default();
    sections::main(&mut main, side, beside);
    let mut title = Markup::default();
    title.text(printable(side.source.title.unwrap_or(side.source.file_name())));
    let data = island::json(&PageData {
        schema: "jarvis.page/1",
        families: super::family::Family::ALL.iter().map(|(_, name)| *name).collect(),
        gap_classes: super::strip::CLASSES.iter().map(|(c, name, meaning)| (c.as_str(), *name, *meaning)).collect(),
        sides: [&side.data],
    });
    let version = concat!("jarvis ", env!("CARGO_PKG_VERSION"));
    fill(&[
        ("title", title.as_str()),
        ("hash", SCRIPT_HASH.trim()),
        ("style", STYLE),
        ("head", head.as_str()),
        ("nav", nav.as_str()),
        ("main", main.as_str()),
        ("version", version),
        ("data", &data),
        ("script", SCRIPT),
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

    #[test]
    fn the_policy_knows_the_script() {
        let hash = format!("sha256-{}", base64(&Sha256::digest(SCRIPT.replace("\r\n", "\n"))));
        if std::env::var_os("JARVIS_BLESS").is_some() {
            let path = concat!(env!("CARGO_MANIFEST_DIR"), "/assets/html/app.js.sha256");
            std::fs::write(path, format!("{hash}\n")).unwrap();
            return;
        }
        assert_eq!(SCRIPT_HASH.trim(), hash, "app.js changed: JARVIS_BLESS=1 writes its hash anew");
    }

    /// Between the script's tags stands the script and nothing else, or its hash is another.
    #[test]
    fn the_template_has_every_mark_once() {
        for mark in ["title", "hash", "style", "head", "nav", "main", "version", "data"] {
            assert_eq!(TEMPLATE.matches(&format!("{{{{{mark}}}}}")).count(), 1, "{mark}");
        }
        assert_eq!(TEMPLATE.matches("<script>{{script}}</script>").count(), 1);
        assert!(!SCRIPT.contains("</script") && !SCRIPT.contains("<!--"), "it would end the script early");
        assert!(!SCRIPT.contains("innerHTML") && !SCRIPT.contains("insertAdjacentHTML"), "text goes in as text");
    }

    fn base64(bytes: &[u8]) -> String {
        const LETTERS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
        let mut out = String::new();
        for chunk in bytes.chunks(3) {
            let word = chunk.iter().fold(0u32, |w, &b| w << 8 | u32::from(b)) << (8 * (3 - chunk.len()));
            for i in 0..4 {
                let letter = LETTERS[(word >> (18 - 6 * i) & 63) as usize];
                out.push(if i <= chunk.len() { char::from(letter) } else { '=' });
            }
        }
        out
    }
}
