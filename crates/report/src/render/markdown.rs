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
        let text = one(block);
        if text.is_empty() {
            continue;
        }
        let joined = matches!(block, Block::Heading(..)) && out.ends_with("</a>\n");
        if !out.is_empty() && !joined {
            out.push('\n');
        }
        out += &text;
    }
    out.into_bytes()
}

fn one(block: &Block) -> String {
    match block {
        Block::Heading(level, line) => {
            format!("{} {}\n", "#".repeat(usize::from(*level).clamp(1, 6)), inline(line, false))
        }
        // The heading follows at once, so that both are one place.
        Block::Anchor(name) => format!("<a id=\"{}\"></a>\n", anchor(name)),
        Block::Paragraph(line) => at_start(&inline(line, false)) + "\n",
        Block::Labels(lines) => labels(lines),
        Block::List { ordered, items } => list(*ordered, items),
        Block::Table(t) => table(t),
        Block::Tree(lines) => tree(lines),
        Block::Picture { shows, file } => format!("![{shows}]({file})\n"),
        Block::Rule => "---\n".to_owned(),
    }
}

/// The name of an anchor: letters, digits, hyphens and underscores.
pub(crate) fn anchor(name: &str) -> String {
    let keep = |c: char| if c.is_ascii_alphanumeric() || c == '-' || c == '_' { c.to_ascii_lowercase() } else { '-' };
    name.chars().map(keep).collect()
}

fn labels(lines: &[(String, Line)]) -> String {
    let mut out: Vec<String> = Vec::with_capacity(lines.len());
    for (label, line) in lines {
        let text = inline(line, false);
        out.push(if label.is_empty() { at_start(&text) } else { format!("**{}**: {text}", escape(label)) });
    }
    // Two spaces end a line within a paragraph.
    out.join("  \n") + "\n"
}

fn list(ordered: bool, items: &[(Option<String>, Line)]) -> String {
    let mut out = String::new();
    for (i, (label, line)) in items.iter().enumerate() {
        let mark = if ordered { format!("{}. ", i + 1) } else { "- ".to_owned() };
        let text = inline(line, false);
        let text = match label {
            Some(label) => format!("**{}:** {text}", escape(label)),
            None => at_start(&text),
        };
        out += &format!("{mark}{text}\n");
    }
    out
}

fn table(table: &Table) -> String {
    let row = |cells: Vec<String>| format!("| {} |\n", cells.join(" | "));
    let mut out = row(table.columns.iter().map(|(h, _)| escape(h).replace('|', "\\|")).collect());
    out +=
        &row(table.columns.iter().map(|(_, a)| if *a == Align::Right { "---:" } else { "---" }.to_owned()).collect());
    for cells in &table.rows {
        out += &row(cells.iter().map(|c| inline(c, true)).collect());
    }
    out
}

fn tree(lines: &[(usize, String)]) -> String {
    let mut out = "```text\n".to_owned();
    for (depth, text) in lines {
        // A fence within would end the block.
        let text = cut(&clean(text), LONGEST_TREE_LINE).replace('`', "'");
        out += &format!("{}{}\n", "  ".repeat((*depth).min(40)), text.trim_end());
    }
    out + "```\n"
}

/// A line; pipes within a table would end the cell.
fn inline(line: &Line, in_table: bool) -> String {
    let mut out = String::new();
    for span in &line.0 {
        let from = out.len();
        match span {
            Span::Text(text) => out += &escape(&clean(text)),
            Span::Code(name) => out += &code(name),
            Span::Strong(text) => out.extend(["**", &escape(&clean(text)), "**"]),
            Span::Link { text, anchor: to } => {
                out.extend(["[", &escape(&clean(text)), "](#", &anchor(to), ")"]);
            }
        }
        if in_table && out[from..].contains('|') {
            let escaped = out[from..].replace('|', "\\|");
            out.truncate(from);
            out += &escaped;
        }
    }
    if out.trim().len() == out.len() { out } else { out.trim().to_owned() }
}

/// A name between backticks, without any of its own.
pub(crate) fn code(name: &str) -> String {
    let text = cut(clean(name).trim(), LONGEST_NAME).replace('`', "'");
    if text.is_empty() { "`-`".to_owned() } else { format!("`{text}`") }
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
    match text.char_indices().nth(longest) {
        Some((at, _)) => Cow::Owned(format!("{}...", text[..at].trim_end())),
        None => Cow::Borrowed(text),
    }
}

/// Language with everything escaped that Markdown or HTML would read as a mark.
fn escape(text: &str) -> Cow<'_, str> {
    if !text.bytes().any(|b| matches!(b, b'<' | b'&' | b'\\' | b'*' | b'[' | b'~' | b'`' | b'_' | b'!')) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len());
    let mut before = ' ';
    let mut rest = text.chars().peekable();
    while let Some(c) = rest.next() {
        let after = rest.peek().copied().unwrap_or(' ');
        match c {
            // Before anything else it opens no tag.
            '<' if after.is_ascii_alphabetic() || matches!(after, '/' | '!' | '?') => out += "&lt;",
            '&' if after.is_alphanumeric() || after == '#' => out += "&amp;",
            '\\' | '*' | '[' | '~' | '`' => {
                out.push('\\');
                out.push(c);
            }
            // Within a word an underscore is just a letter.
            '_' if !(before.is_alphanumeric() && after.is_alphanumeric()) => out += "\\_",
            // A picture.
            '!' if after == '[' => out += "\\!",
            _ => out.push(c),
        }
        before = c;
    }
    Cow::Owned(out)
}

/// The same at the start of a line, where more characters are marks.
fn at_start(text: &str) -> String {
    let first = text.split(' ').next().unwrap_or_default();
    let number = first.trim_end_matches(['.', ')']);
    let is_number = number.len() < first.len() && !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit());
    let is_mark = !first.is_empty() && first.chars().all(|c| matches!(c, '-' | '+' | '=' | '#' | '>'));
    match text.chars().next() {
        Some('>' | '#' | '|') => format!("\\{text}"),
        _ if is_mark => format!("\\{text}"),
        _ if is_number => format!("{number}\\{}", &text[number.len()..]),
        _ => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
