//! As much of Markdown as the reports use: headings, sections, tables, code blocks.

use crate::render::markdown::code;

/// A line outside or inside a code block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Line<'a> {
    /// From 1.
    pub(super) number: usize,
    /// Without spaces around it.
    pub(super) text: &'a str,
    /// Whether it belongs to a code block, fences included.
    pub(super) is_code: bool,
}

impl<'a> Line<'a> {
    /// Level and title, if it is a heading.
    pub(super) fn heading(&self) -> Option<(usize, &'a str)> {
        let level = self.text.bytes().take_while(|&b| b == b'#').count();
        let title = self.text[level..].strip_prefix(' ')?;
        (level > 0 && !self.is_code).then(|| (level, title.trim()))
    }

    /// Whether it says something: neither blank nor a rule.
    pub(super) fn says(&self) -> bool {
        !self.text.is_empty() && self.text != "---"
    }

    /// Whether it is an item of a list without numbers.
    pub(super) fn is_item(&self) -> bool {
        self.text.starts_with("- ") && !self.is_code
    }

    pub(super) fn is_table(&self) -> bool {
        self.text.starts_with('|') && !self.is_code
    }
}

/// A document.
#[derive(Debug, Clone)]
pub(super) struct Document<'a> {
    pub(super) lines: Vec<Line<'a>>,
}

/// A table: header and rows of cells, with line numbers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Table {
    pub(super) header: Vec<String>,
    pub(super) rows: Vec<(usize, Vec<String>)>,
}

impl Table {
    /// Where the column of this header stands.
    pub(super) fn column(&self, header: &str) -> Option<usize> {
        self.header.iter().position(|h| h == header)
    }
}

impl<'a> Document<'a> {
    pub(super) fn of(text: &'a str) -> Self {
        let mut is_code = false;
        let line = |(i, text): (usize, &'a str)| {
            let text = text.trim();
            let fence = text.starts_with("```");
            let line = Line { number: i + 1, text, is_code: is_code || fence };
            is_code ^= fence;
            line
        };
        Self { lines: text.lines().enumerate().map(line).collect() }
    }

    /// Level, title and line of each heading.
    pub(super) fn headings(&self) -> impl Iterator<Item = (usize, &'a str, usize)> {
        self.lines.iter().filter_map(|l| l.heading().map(|(level, title)| (level, title, l.number)))
    }

    /// The lines below the first heading that satisfies a condition, down to the next one of its level or above.
    pub(super) fn section(&self, wanted: impl Fn(usize, &str) -> bool) -> Option<&[Line<'a>]> {
        let at = self.lines.iter().position(|l| l.heading().is_some_and(|(level, title)| wanted(level, title)))?;
        let level = self.lines[at].heading().map_or(0, |(level, _)| level);
        let below = &self.lines[at + 1..];
        let end = below.iter().position(|l| l.heading().is_some_and(|(other, _)| other <= level));
        Some(&below[..end.unwrap_or(below.len())])
    }

    /// The lines below the heading of this title.
    pub(super) fn titled(&self, title: &str) -> Option<&[Line<'a>]> {
        self.section(|_, t| t == title)
    }
}

/// The tables among some lines that have these columns.
pub(super) fn tables(lines: &[Line<'_>], columns: &[&str]) -> Vec<Table> {
    let blocks = lines.chunk_by(|a, b| a.is_table() && b.is_table());
    let headed = blocks.filter_map(|block| {
        let (first, rows) = block.split_first().filter(|(first, _)| first.is_table())?;
        Some((cells(first.text), rows))
    });
    let wanted = headed.filter(|(header, _)| columns.iter().all(|column| header.iter().any(|cell| cell == column)));
    wanted
        .map(|(header, rows)| {
            let rows = rows.iter().map(|row| (row.number, cells(row.text)));
            Table { header, rows: rows.filter(|(_, cells)| !is_rule(cells)).collect() }
        })
        .collect()
}

/// Whether a row parts the header from the others.
fn is_rule(cells: &[String]) -> bool {
    cells.iter().all(|c| !c.is_empty() && c.bytes().all(|b| matches!(b, b'-' | b':')))
}

/// What a name is known by, whatever was escaped, cut short or left out of it for the page: its letters and digits.
pub(super) fn letters(shown: &str) -> String {
    let of = |text: &str| text.chars().filter(|c| c.is_alphanumeric()).collect();
    if shown.contains('&') { of(&shown.replace("&lt;", "<").replace("&amp;", "&")) } else { of(shown) }
}

/// Whether a line has a name in it.
pub(super) fn names(line: &str, name: &str) -> bool {
    letters(line).contains(&letters(&code(name)))
}

/// The cells of a line of a table; `\|` belongs to a cell.
fn cells(row: &str) -> Vec<String> {
    let inner = row.trim().trim_start_matches('|');
    let inner = inner.strip_suffix('|').filter(|i| !i.ends_with('\\')).unwrap_or(inner);
    let mut escaped = false;
    let cells = inner.split(|c| {
        let ends = c == '|' && !escaped;
        escaped = c == '\\';
        ends
    });
    let plain = |cell: &str| if cell.contains('\\') { cell.replace("\\|", "|") } else { cell.to_owned() };
    cells.map(|c| plain(c.trim())).collect()
}

/// The numbers in a text, commas between thousands left out.
pub(super) fn numbers(text: &str) -> Vec<f64> {
    let plain = text.replace(',', "");
    let parts = plain.split(|c: char| !(c.is_ascii_digit() || c == '.'));
    parts.filter_map(|p| p.trim_end_matches('.').parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sections_end_at_headings_of_their_level() {
        let doc = Document::of("# T\n## A\nx\n### A1\ny\n```\n# no heading\n```\n## B\nz\n");
        let texts = |title: &str| doc.titled(title).unwrap().iter().map(|l| l.text).collect::<Vec<_>>();
        assert_eq!(texts("A"), ["x", "### A1", "y", "```", "# no heading", "```"]);
        assert_eq!(texts("B"), ["z"]);
        assert!(doc.titled("C").is_none());
        assert_eq!(doc.headings().map(|h| h.1).collect::<Vec<_>>(), ["T", "A", "A1", "B"]);
    }

    #[test]
    fn tables_are_headers_and_rows() {
        let doc = Document::of("| A | B |\n|---|:-:|\n| 1 | `a\\|b` |\ntext\n| C |\n|---|\n");
        let found = tables(&doc.lines, &[]);
        assert_eq!(found.len(), 2);
        assert_eq!(found[0].header, ["A", "B"]);
        assert_eq!(found[0].rows, [(3, vec!["1".to_owned(), "`a|b`".to_owned()])]);
        assert!(found[1].rows.is_empty());
        assert_eq!(tables(&doc.lines, &["B", "A"]), found[..1]);
        assert!(tables(&doc.lines, &["A", "C"]).is_empty());
    }

    #[test]
    fn numbers_in_texts() {
        assert_eq!(numbers("5.3 TB/s, 1,273 TFLOPS (BF16)."), [5.3, 1273.0, 16.0]);
        assert_eq!(numbers("-23.4%"), [23.4]);
        assert!(numbers("none.").is_empty());
    }
}
