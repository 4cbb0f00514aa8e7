//! Blocks to Markdown. Everything a trace may hold is escaped or cut here: names with backticks, pipes, line ends,
//! HTML, control characters and ten thousand letters leave tables, links and anchors whole.

use std::borrow::Cow;

use crate::blocks::{Align, Block, Line, Span, Table};

/// Longest name in a sentence or a table, in characters; the tables and JSON files have all of it.
const LONGEST_NAME: usize = 110;

/// Longest line of a tree, in characters.
const LONGEST_TREE_LINE: usize = 150;

/// The bytes of a document.
pub fn render(blocks: &[Block]) -> Vec<u8> {
    let mut out = String::new();
    for block in blocks {
        let before = out.len();
        let joined = matches!(block, Block::Heading(..)) && out.ends_with("</a>\n");
        if !out.is_empty() && !joined {
            out.push('\n');
        }
        let start = out.len();
        one(&mut out, block);
        // Nothing to say takes no line.
        if out.len() == start {
            out.truncate(before);
        }
    }
    out.into_bytes()
}

fn one(out: &mut String, block: &Block) {
    match block {
        Block::Heading(level, line) => {
            out.extend((0..usize::from(*level).clamp(1, 6)).map(|_| '#'));
            out.push(' ');
            inline(out, line, false);
            out.push('\n');
        }
        // The heading follows at once, so that both are one place.
        Block::Anchor(name) => out.extend(["<a id=\"", &anchor(name), "\"></a>\n"]),
        Block::Paragraph(line) => {
            own_line(out, line);
            out.push('\n');
        }
        Block::Labels(lines) => labels(out, lines),
        Block::List { ordered, items } => list(out, *ordered, items),
        Block::Table(t) => table(out, t),
        Block::Tree(lines) => tree(out, lines),
        Block::Picture { shows, file } => out.extend(["![", shows, "](", file, ")\n"]),
        Block::Rule => out.push_str("---\n"),
    }
}

/// The name of an anchor: letters, digits, hyphens and underscores.
pub(crate) fn anchor(name: &str) -> String {
    let keep = |c: char| if c.is_ascii_alphanumeric() || c == '-' || c == '_' { c } else { '-' };
    name.chars().map(keep).collect()
}

fn labels(out: &mut String, lines: &[(String, Line)]) {
    for (i, (label, line)) in lines.iter().enumerate() {
        if i > 0 {
            // Two spaces end a line within a paragraph.
            out.push_str("  \n");
        }
        if label.is_empty() {
            own_line(out, line);
        } else {
            out.push_str("**");
            escape(out, label);
            out.push_str("**: ");
            inline(out, line, false);
        }
    }
    out.push('\n');
}

fn list(out: &mut String, ordered: bool, items: &[(Option<String>, Line)]) {
    for (i, (label, line)) in items.iter().enumerate() {
        if ordered {
            out.push_str(&format!("{}. ", i + 1));
        } else {
            out.push_str("- ");
        }
        match label {
            Some(label) => {
                out.push_str("**");
                escape(out, label);
                out.push_str(":** ");
                inline(out, line, false);
            }
            None => own_line(out, line),
        }
        out.push('\n');
    }
}

fn table(out: &mut String, table: &Table) {
    let headers = table.columns.iter().map(|(header, _)| header);
    row(out, headers, |out, header| {
        let start = out.len();
        escape(out, header);
        escape_pipes(out, start);
    });
    let sides = table.columns.iter().map(|(_, align)| align);
    row(out, sides, |out, align| out.push_str(if *align == Align::Right { "---:" } else { "---" }));
    for cells in &table.rows {
        row(out, cells.iter(), |out, cell| inline(out, cell, true));
    }
}

fn row<C>(out: &mut String, cells: impl Iterator<Item = C>, push: impl Fn(&mut String, C)) {
    out.push_str("| ");
    for (i, cell) in cells.enumerate() {
        if i > 0 {
            out.push_str(" | ");
        }
        push(out, cell);
    }
    out.push_str(" |\n");
}

fn tree(out: &mut String, lines: &[(usize, String)]) {
    out.push_str("```text\n");
    for (depth, text) in lines {
        out.extend((0..(*depth).min(40)).map(|_| "  "));
        let text = clean(text);
        // A fence within would end the block.
        push_without_backticks(out, cut(&text, LONGEST_TREE_LINE).trim_end());
        out.push('\n');
    }
    out.push_str("```\n");
}

/// A line; pipes within a table would end the cell.
fn inline(out: &mut String, line: &Line, in_table: bool) {
    let start = out.len();
    for span in &line.0 {
        let from = out.len();
        match span {
            Span::Text(text) => escape(out, &clean(text)),
            Span::Code(name) => push_code(out, name),
            Span::Strong(text) => {
                out.push_str("**");
                escape(out, &clean(text));
                out.push_str("**");
            }
            Span::Link { text, anchor: to } => {
                out.push('[');
                escape(out, &clean(text));
                out.extend(["](#", &anchor(to), ")"]);
            }
            Span::Mark(text) => push_mark(out, text),
        }
        if in_table {
            escape_pipes(out, from);
        }
    }
    let text = &out[start..];
    let (end, inner) = (text.trim_end().len(), text.trim_start().len());
    let spaces = text.len() - inner;
    out.truncate(start + end);
    if spaces > 0 {
        out.replace_range(start..start + spaces.min(end), "");
    }
}

/// A comment of names and numbers: nothing that ends it early, and nothing that a table or a program would stumble over.
fn push_mark(out: &mut String, text: &str) {
    let keep = |c: char| if c.is_ascii_alphanumeric() || " =._-".contains(c) { c } else { '_' };
    // After a text it stands apart.
    out.push_str(if out.is_empty() || out.ends_with(['\n', ' ']) { "<!-- " } else { " <!-- " });
    out.extend(text.chars().map(keep));
    out.push_str(" -->");
}

/// Escapes pipes from here on.
fn escape_pipes(out: &mut String, start: usize) {
    if out[start..].contains('|') {
        let escaped = out[start..].replace('|', "\\|");
        out.truncate(start);
        out.push_str(&escaped);
    }
}

/// A name between backticks, without any of its own.
pub(crate) fn code(name: &str) -> String {
    let mut out = String::new();
    push_code(&mut out, name);
    out
}

fn push_code(out: &mut String, name: &str) {
    let text = clean(name);
    let text = cut(text.trim(), LONGEST_NAME);
    out.push('`');
    push_without_backticks(out, if text.is_empty() { "-" } else { &text });
    out.push('`');
}

fn push_without_backticks(out: &mut String, text: &str) {
    for (i, part) in text.split('`').enumerate() {
        if i > 0 {
            out.push('\'');
        }
        out.push_str(part);
    }
}

/// One line of visible characters: line ends and control characters are spaces, and what turns the direction of
/// writing or hides between letters goes.
fn clean(text: &str) -> Cow<'_, str> {
    if text.bytes().all(|b| matches!(b, b' '..=b'~')) {
        return Cow::Borrowed(text);
    }
    let kept = text.chars().filter(
        |c| !matches!(c, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}'),
    );
    kept.map(|c| if c.is_control() || matches!(c, '\u{2028}' | '\u{2029}') { ' ' } else { c }).collect()
}

fn cut(text: &str, longest: usize) -> Cow<'_, str> {
    // A character takes a byte or more.
    if text.len() <= longest {
        return Cow::Borrowed(text);
    }
    match text.char_indices().nth(longest) {
        Some((at, _)) => Cow::Owned(format!("{}...", text[..at].trim_end())),
        None => Cow::Borrowed(text),
    }
}

/// Language with everything escaped that Markdown or HTML would read as a mark.
fn escape(out: &mut String, text: &str) {
    let mut done = 0;
    for (at, b) in text.bytes().enumerate() {
        if !matches!(b, b'<' | b'&' | b'\\' | b'*' | b'[' | b'~' | b'`' | b'_' | b'!') {
            continue;
        }
        let before = text[..at].chars().next_back().unwrap_or(' ');
        let after = text[at + 1..].chars().next().unwrap_or(' ');
        let (escaped, kept_from) = match b {
            // Before anything else it opens no tag.
            b'<' if after.is_ascii_alphabetic() || matches!(after, '/' | '!' | '?') => ("&lt;", at + 1),
            b'&' if after.is_alphanumeric() || after == '#' => ("&amp;", at + 1),
            b'\\' | b'*' | b'[' | b'~' | b'`' => ("\\", at),
            // Within a word an underscore is just a letter.
            b'_' if !(before.is_alphanumeric() && after.is_alphanumeric()) => ("\\", at),
            // A picture.
            b'!' if after == '[' => ("\\", at),
            _ => continue,
        };
        out.extend([&text[done..at], escaped]);
        done = kept_from;
    }
    out.push_str(&text[done..]);
}

/// A line at the start of a line, where more characters are marks.
fn own_line(out: &mut String, line: &Line) {
    let start = out.len();
    inline(out, line, false);
    let first = out[start..].split(' ').next().unwrap_or_default();
    let number = first.trim_end_matches(['.', ')']);
    let is_number = number.len() < first.len() && !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit());
    let is_mark = !first.is_empty() && first.chars().all(|c| matches!(c, '-' | '+' | '=' | '#' | '>'));
    if is_mark || first.starts_with(['>', '#', '|']) {
        out.insert(start, '\\');
    } else if is_number {
        out.insert(start + number.len(), '\\');
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_are_comments_that_nothing_ends_early() {
        let mark = |text: &str| Block::Paragraph(Line::new().and_mark(text));
        assert_eq!(text(&[mark("impact-end")]), "<!-- impact-end -->\n");
        let mut table = Table::new(&["Ops"]);
        table.row([Line::prose("3").and_mark("x low=1.5 category=a|b-->c")]);
        assert!(text(&[Block::Table(table)]).ends_with("| 3 <!-- x low=1.5 category=a_b--_c --> |\n"));
    }

    fn text(blocks: &[Block]) -> String {
        String::from_utf8(render(blocks)).unwrap()
    }

    #[test]
    fn blocks_have_their_form() {
        let mut table = Table::new(&["Operation", ">Time (ms)"]);
        table.row([Line::code("aten::mm"), "1.25".into()]);
        let blocks = [
            Block::heading(1, "Title"),
            Block::Anchor("detail-gemm".to_owned()),
            Block::heading(2, "GEMM"),
            Block::Table(table),
            Block::facts([("Time", "1.25 ms")]),
            Block::Labels(vec![("Issue".to_owned(), "One.".into()), (String::new(), "Two.".into())]),
            Block::Tree(vec![(0, "a".to_owned()), (1, "b".to_owned())]),
            Block::Rule,
        ];
        let expected = "# Title\n\n<a id=\"detail-gemm\"></a>\n## GEMM\n\n| Operation | Time (ms) |\n| --- | ---: |\n\
                        | `aten::mm` | 1.25 |\n\n- **Time:** 1.25 ms\n\n**Issue**: One.  \nTwo.\n\n```text\na\n  b\n```\n\n---\n";
        assert_eq!(text(&blocks), expected);
    }

    #[test]
    fn hostile_names_stay_names() {
        let name = "a|b`c\n<script>alert(1)</script>\u{202e}x";
        let mut table = Table::new(&["Kernel"]);
        table.row([Line::code(name)]).row([Line(vec![Span::Text(name.to_owned())])]);
        let out = text(&[Block::Table(table)]);
        assert_eq!(out.lines().count(), 4);
        assert!(out.contains("`a\\|b'c <script>alert(1)</script>x`"), "{out}");
        assert!(out.lines().nth(3).is_some_and(|l| l.contains("&lt;script>") && !l.contains("<s")), "{out}");
        let long = "x".repeat(10_000);
        assert!(text(&[Block::paragraph(Line::code(&long))]).len() < 200);
        assert_eq!(text(&[Block::paragraph(Line::code("``"))]), "`''`\n");
        assert_eq!(text(&[Block::paragraph(Line::code("\u{202e}"))]), "`-`\n");
        let fenced = text(&[Block::Tree(vec![(0, "```\n# x".to_owned())])]);
        assert_eq!(fenced.matches("```").count(), 2);
    }

    #[test]
    fn language_is_not_read_as_marks() {
        let show = |s: &str| text(&[Block::Paragraph(Line(vec![Span::Text(s.to_owned())]))]);
        assert_eq!(show("2 * 3 [x](y) _a_ b_c"), "2 \\* 3 \\[x](y) \\_a\\_ b_c\n");
        assert_eq!(show("# no heading"), "\\# no heading\n");
        assert_eq!(show("1. no list"), "1\\. no list\n");
        assert_eq!(show("- no item"), "\\- no item\n");
        assert_eq!(show("1.25 ms & more, R&D"), "1.25 ms & more, R&amp;D\n");
        assert_eq!(show("a\n\nb"), "a  b\n");
        assert_eq!(show("1 < 2 <b> </b> <!-- x"), "1 < 2 &lt;b> &lt;/b> &lt;!-- x\n");
        assert_eq!(anchor("detail-a\"><b>"), "detail-a---b-");
    }
}
