//! What holds for every Markdown file: language, no placeholder left, no number that is none, links that lead
//! somewhere, no empty section.

use super::Facts;
use super::folder::{Folder, Problems};
use super::layout::is_relative;
use super::markdown::Document;
use super::suspicion::is_suspect;
use crate::language;

pub(super) fn check(folder: &Folder<'_>, name: &str, facts: &Facts<'_>, problems: &mut Problems) {
    let trace = facts.manifest["trace_path"].as_str().unwrap_or_default();
    let Some(text) = folder.text(name) else { return problems.fail("text", name, "no UTF-8 text") };
    let mut prose = language::prose(&text, is_suspect);
    leave_out(&mut prose, &facts.chosen_names());
    wording(&prose, name, trace, problems);
    let document = Document::of(&text);
    empty_sections(&document, name, problems);
    links(folder, &document, name, problems);
}

/// Takes names out of lines. A name may stand there with marks of Markdown escaped.
fn leave_out(prose: &mut [(usize, String)], names: &[String]) {
    if names.is_empty() {
        return;
    }
    let plain = |text: &str| text.replace('\\', "").replace("&lt;", "<").replace("&amp;", "&");
    let names: Vec<String> = names.iter().map(|name| plain(name).to_ascii_lowercase()).collect();
    for (_, text) in prose {
        let mut rest = plain(text);
        for name in &names {
            rest = without(&rest, name);
        }
        *text = rest;
    }
}

/// A text without a name in lower case, where that stands as a whole.
fn without(text: &str, name: &str) -> String {
    let lower = text.to_ascii_lowercase();
    let ends = |c: Option<char>, of_name: Option<char>| {
        let is_of_word = |c: char| c.is_alphanumeric() || c == '_';
        !(c.is_some_and(is_of_word) && of_name.is_some_and(is_of_word))
    };
    let mut out = String::with_capacity(text.len());
    let mut done = 0;
    for (at, _) in lower.match_indices(name) {
        let end = at + name.len();
        let begins = ends(lower[..at].chars().next_back(), name.chars().next());
        if begins && ends(lower[end..].chars().next(), name.chars().next_back()) {
            // What stands around it becomes no word.
            out.extend([&text[done..at], "`"]);
            done = end;
        }
    }
    out.push_str(&text[done..]);
    out
}

/// What lines that are language must not have in them.
fn wording(prose: &[(usize, String)], name: &str, trace: &str, problems: &mut Problems) {
    for v in language::violations_of(prose) {
        problems.fail_at("language", name, v.line, format!("`{}`; say: {}", v.phrase, v.instead));
    }
    for (line, text) in prose {
        let line = *line;
        if let Some(placeholder) = placeholder(text) {
            problems.fail_at("placeholder", name, line, format!("{placeholder} was not filled in"));
        }
        if let Some(word) = language::no_number(text) {
            problems.fail_at("nan", name, line, format!("`{word}` is no number"));
        }
        if let Some(path) = absolute_path(text, trace) {
            problems.fail_at("path", name, line, format!("{path} is an absolute path"));
        }
    }
}

/// `{name}` outside of code.
fn placeholder(text: &str) -> Option<&str> {
    text.match_indices('{').find_map(|(at, _)| {
        let end = text[at..].find('}')?;
        let inner = &text[at + 1..at + end];
        let named = inner.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
        (!inner.is_empty() && named).then(|| &text[at..=at + end])
    })
}

/// A path from the root of a file system, apart from the trace as the user named it.
fn absolute_path<'a>(text: &'a str, trace: &str) -> Option<&'a str> {
    let tokens = text.split(|c: char| c.is_whitespace() || matches!(c, '(' | ')' | '[' | ']' | ',' | '"' | '\''));
    tokens.map(|t| t.trim_end_matches(['.', ':', ';'])).find(|t| {
        let mut bytes = t.bytes();
        let unix = bytes.next() == Some(b'/')
            && bytes.next().is_some_and(|b| b.is_ascii_alphanumeric() || b == b'_')
            && t[1..].contains('/');
        let windows = t.get(1..3) == Some(":\\") && t.as_bytes()[0].is_ascii_alphabetic();
        (unix || windows) && (trace.is_empty() || *t != trace)
    })
}

/// A heading with nothing below it but headings of its level or above.
fn empty_sections(document: &Document<'_>, name: &str, problems: &mut Problems) {
    let lines = &document.lines;
    for (i, line) in lines.iter().enumerate() {
        let Some((level, title)) = line.heading() else { continue };
        let next = lines[i + 1..].iter().find(|l| l.says() && !is_anchor(l.text));
        let empty = next.is_none_or(|l| l.heading().is_some_and(|(other, _)| other <= level));
        if empty {
            problems.fail_at("empty", name, line.number, format!("the section `{title}` is empty"));
        }
    }
}

fn is_anchor(text: &str) -> bool {
    text.starts_with("<a id=") && text.ends_with("</a>")
}

/// Links lead to anchors of the file or to files of the folder, and an anchor stands once.
fn links(folder: &Folder<'_>, document: &Document<'_>, name: &str, problems: &mut Problems) {
    let mut anchors: Vec<&str> = Vec::new();
    // To look for one character first is quicker than to split what has nothing to split.
    for line in document.lines.iter().filter(|l| !l.is_code && l.text.contains('<')) {
        for rest in line.text.split("<a id=\"").skip(1) {
            let anchor = rest.split('"').next().unwrap_or_default();
            if anchors.contains(&anchor) {
                problems.fail_at("anchor", name, line.number, format!("the anchor `{anchor}` stands twice"));
            }
            anchors.push(anchor);
        }
    }
    let place = name.rsplit_once('/').map_or("", |(folder, _)| folder);
    for line in document.lines.iter().filter(|l| !l.is_code && l.text.contains(']')) {
        for target in targets(line.text) {
            let known = match target.strip_prefix('#') {
                Some(anchor) => {
                    anchors.contains(&anchor) || document.headings().any(|(_, title, _)| slug(title) == anchor)
                }
                None if target.contains("://") || target.starts_with("mailto:") => true,
                None => {
                    let file = target.split('#').next().unwrap_or(target);
                    is_relative(file) && (folder.has(file) || folder.has(&format!("{place}/{file}")))
                }
            };
            if !known {
                problems.fail_at("link", name, line.number, format!("`{target}` leads nowhere"));
            }
        }
    }
}

/// The targets of the links of a line, those in code left out, and brackets that a backslash makes text.
pub(super) fn targets(text: &str) -> impl Iterator<Item = &str> {
    // Every second part stands between backticks.
    text.split('`').step_by(2).flat_map(|part| {
        let links = part.match_indices("](").filter(|(at, _)| {
            let opened = part[..*at].rfind('[');
            opened.is_none_or(|opened| !part[..opened].ends_with('\\'))
        });
        links.filter_map(|(at, _)| part[at + 2..].split(')').next())
    })
}

/// The anchor that renderers give a heading.
fn slug(title: &str) -> String {
    let kept = title.to_lowercase();
    kept.chars()
        .filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'))
        .map(|c| if c == ' ' { '-' } else { c })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn placeholders_and_words_that_are_no_numbers() {
        assert_eq!(placeholder("takes {ms} ms"), Some("{ms}"));
        assert_eq!(placeholder("a set {1, 2} and {}"), None);
        assert_eq!(language::no_number("at NaN% of peak"), Some("NaN"));
        assert_eq!(language::no_number("information about nano"), None);
    }

    #[test]
    fn absolute_paths() {
        assert_eq!(absolute_path("see /home/u/x.json.", ""), Some("/home/u/x.json"));
        assert_eq!(absolute_path("see C:\\x\\y", ""), Some("C:\\x\\y"));
        assert_eq!(absolute_path("12 TB/s and/or FLOPS/Byte / x", ""), None);
        assert_eq!(absolute_path("the trace /data/t.json.gz was read", "/data/t.json.gz"), None);
    }

    fn problems(text: &str) -> Vec<String> {
        problems_beside(text, "null")
    }

    fn problems_beside(text: &str, manifest: &str) -> Vec<String> {
        let mut folder = Folder::new();
        folder.file("a.md", text.as_bytes());
        folder.file("dir/x.csv", b"");
        let facts = Facts::of([manifest.as_bytes(), b"null", b"null"]);
        let mut found = Problems::default();
        check(&folder, "a.md", &facts, &mut found);
        found.into_list().into_iter().map(|p| format!("{} {}", p.check, p.line.unwrap_or_default())).collect()
    }

    #[test]
    fn sections_links_and_anchors() {
        assert!(problems("# T\n\n## A\ntext [x](#detail-a) [y](dir/x.csv) [z](https://e.org/)\n<a id=\"detail-a\"></a>\n### B\n`[q](#no)`\n").is_empty());
        assert_eq!(problems("# T\n## A\n---\n## B\ntext\n"), ["empty 2"]);
        assert_eq!(problems("# T\n[x](#no) [y](dir/y.csv) [z](../z)\n"), ["link 2", "link 2", "link 2"]);
        assert!(problems("# T\n\\[x](y) [`a`](#t)\n").is_empty());
        assert_eq!(problems("# T\n<a id=\"d\"></a>\nx\n<a id=\"d\"></a>\n"), ["anchor 4"]);
        assert_eq!(problems("# T\nSee [below](#the-end).\n## The end\nIt takes {x} ms.\n"), ["placeholder 4"]);
        assert_eq!(problems("# T\nUses cuBLAS.\n"), ["language 2"]);
    }

    #[test]
    fn names_that_a_user_chose_are_no_language() {
        let text = "# GPT on My\\_GPU! (nan)\nMy_GPU! has cudnn: Cudnn takes 3 ms.\n";
        let manifest = r#"{"platform": "My_GPU! (nan)", "categories": [{"name": "cudnn", "display_name": "cudnn"}, {"name": "gemm"}]}"#;
        assert_eq!(problems_beside(text, manifest), ["language 2"], "that is another name");
        assert!(problems_beside(&text.replace("My_GPU! has", "My_GPU! (nan) has"), manifest).is_empty());
        let others = "# T\nThe swarm of cudnns wins, and nan (nan) is no cudnn_name.\n";
        assert_eq!(problems_beside(others, manifest), ["language 2", "nan 2"]);
    }

    /// Whatever may be wrong, in whatever stands around it.
    fn doubtful_lines() -> Vec<String> {
        const AROUND: [(&str, &str); 22] = [
            ("", ""),
            ("x ", " y"),
            ("x", ""),
            ("", "x"),
            ("", "s."),
            ("_", ""),
            ("", "_"),
            ("-", "-"),
            ("é", ""),
            ("", "é"),
            ("\u{a0}", "\u{a0}"),
            ("(", ")"),
            ("'", "'"),
            ("`", "`"),
            ("`a`", "`b`"),
            ("`a` ", "`b"),
            ("", "`a b`/c"),
            ("![", "](x)"),
            ("| ", " | x |"),
            ("| x |", "|"),
            ("| `a` ", " | b\\|c |"),
            ("| a\\|", "| `b` |"),
        ];
        let rules = language::RULES.into_iter().flatten();
        let mut doubtful: Vec<String> = rules.map(|rule| rule.phrase.to_owned()).collect();
        doubtful.extend(doubtful.clone().iter().map(|phrase| phrase.to_uppercase()));
        doubtful.extend(language::NO_NUMBERS.map(str::to_owned));
        let others = ["!", "{", "{ms}", "{ms", "/home/u", "/home", "/_x/", "C:\\x", "/", ":", "plain"];
        doubtful.extend(others.map(str::to_owned));
        doubtful.iter().flat_map(|text| AROUND.map(|(before, after)| format!("{before}{text}{after}"))).collect()
    }

    #[test]
    fn a_line_above_suspicion_has_no_fault() {
        let found = |prose: &[(usize, String)]| {
            let mut problems = Problems::default();
            wording(prose, "a.md", "", &mut problems);
            problems.into_list()
        };
        let header = ["| Note | Kernel |", "|---|---|"].map(str::to_owned);
        let text = header.into_iter().chain(doubtful_lines()).collect::<Vec<_>>().join("\n");
        let all = found(&language::prose(&text, |_| true));
        assert!(all.len() > 1000 && all == found(&language::prose(&text, is_suspect)));
        assert!(!is_suspect("| `ampere_bf16` | 12.5 TB/s | the compute units wait: 3 of 4 in all |"));
    }
}
