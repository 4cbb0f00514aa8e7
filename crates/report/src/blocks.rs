//! What a report is made of, before a format is chosen: headings, paragraphs, tables, lists, trees. Text is data here;
//! renderers escape it, so nothing that a trace holds can become markup.

use std::cell::Cell;
use std::collections::BTreeMap;

/// A piece of a line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Span {
    /// Language.
    Text(String),
    /// A name as the trace has it, or a call to type.
    Code(String),
    /// Language that stands out.
    Strong(String),
    /// A link to an [`Block::Anchor`] of the same document.
    Link {
        /// What is shown.
        text: String,
        /// Name of the anchor.
        anchor: String,
    },
    /// A mark for programs, which no reader sees.
    Mark(String),
}

/// A line of text.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Line(pub Vec<Span>);

impl Line {
    /// Nothing.
    pub fn new() -> Self {
        Self::default()
    }

    /// Language in which names stand between backticks.
    pub fn prose(text: &str) -> Self {
        Self::new().and_prose(text)
    }

    /// A name as the trace has it.
    pub fn code(name: &str) -> Self {
        Self::new().and_code(name)
    }

    /// Language that stands out.
    pub fn strong(text: &str) -> Self {
        Self(vec![Span::Strong(text.to_owned())])
    }

    /// Adds language in which names stand between backticks. A backtick without a partner is just a character.
    #[must_use]
    pub fn and_prose(mut self, text: &str) -> Self {
        let mut parts = text.split('`').peekable();
        let mut between = false;
        while let Some(part) = parts.next() {
            if between && parts.peek().is_some() {
                self.0.push(Span::Code(part.to_owned()));
            } else {
                self.push_text(part);
            }
            between = !between;
        }
        self
    }

    /// Adds a name.
    #[must_use]
    pub fn and_code(mut self, name: &str) -> Self {
        self.0.push(Span::Code(name.to_owned()));
        self
    }

    /// Adds a link to an anchor.
    #[must_use]
    pub fn and_link(mut self, text: &str, anchor: &str) -> Self {
        self.0.push(Span::Link { text: text.to_owned(), anchor: anchor.to_owned() });
        self
    }

    /// Adds a mark for programs.
    #[must_use]
    pub fn and_mark(mut self, text: impl Into<String>) -> Self {
        self.0.push(Span::Mark(text.into()));
        self
    }

    /// Whether there is nothing to read.
    pub fn is_empty(&self) -> bool {
        self.0.iter().all(|s| matches!(s, Span::Text(t) if t.trim().is_empty()))
    }

    /// The text without marks, for comparison.
    pub fn plain(&self) -> String {
        let text = |s: &Span| match s {
            Span::Text(t) | Span::Code(t) | Span::Strong(t) | Span::Link { text: t, .. } => t.clone(),
            Span::Mark(_) => String::new(),
        };
        self.0.iter().map(text).collect()
    }

    /// Words of language; names are data.
    fn words(&self) -> usize {
        let words = |s: &Span| match s {
            Span::Code(_) | Span::Mark(_) => 0,
            Span::Text(t) | Span::Strong(t) | Span::Link { text: t, .. } => t.split_whitespace().count(),
        };
        self.0.iter().map(words).sum()
    }

    fn push_text(&mut self, text: &str) {
        match self.0.last_mut() {
            Some(Span::Text(known)) => known.push_str(text),
            _ if text.is_empty() => {}
            _ => self.0.push(Span::Text(text.to_owned())),
        }
    }

    /// The line cut into its sentences: a sentence ends with a full stop and a space outside of names.
    fn sentences(&self) -> Vec<Self> {
        let mut all = vec![Self::new()];
        let push = |all: &mut Vec<Self>, span: Span| {
            if let Some(last) = all.last_mut() {
                last.0.push(span);
            }
        };
        for span in &self.0 {
            let Span::Text(text) = span else {
                push(&mut all, span.clone());
                continue;
            };
            let mut parts = text.split_inclusive(". ").peekable();
            while let Some(part) = parts.next() {
                let ends = part.ends_with(". ");
                push(&mut all, Span::Text(part.to_owned()));
                if ends {
                    all.push(Self::new());
                }
                if parts.peek().is_none() {
                    break;
                }
            }
        }
        all.retain(|l| !l.0.is_empty());
        all
    }
}

impl From<&str> for Line {
    fn from(text: &str) -> Self {
        Self::prose(text)
    }
}

impl From<String> for Line {
    fn from(text: String) -> Self {
        if text.is_empty() || text.contains('`') { Self::prose(&text) } else { Self(vec![Span::Text(text)]) }
    }
}

/// Which side a column is set to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Align {
    /// Texts.
    Left,
    /// Numbers.
    Right,
}

/// A table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Table {
    /// Headers and the side each column is set to.
    pub columns: Vec<(String, Align)>,
    /// Rows, each as long as the headers.
    pub rows: Vec<Vec<Line>>,
}

impl Table {
    /// A table with these headers; those that begin with `>` are columns of numbers.
    pub fn new(headers: &[&str]) -> Self {
        let column = |h: &&str| match h.strip_prefix('>') {
            Some(h) => (h.to_owned(), Align::Right),
            None => ((*h).to_owned(), Align::Left),
        };
        Self { columns: headers.iter().map(column).collect(), rows: Vec::new() }
    }

    /// Adds a row. What is missing is left empty, what is too much is dropped.
    pub fn row(&mut self, cells: impl IntoIterator<Item = Line>) -> &mut Self {
        let mut row: Vec<Line> = cells.into_iter().take(self.columns.len()).collect();
        row.resize(self.columns.len(), Line::new());
        self.rows.push(row);
        self
    }
}

/// A part of a document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Block {
    /// A heading; 1 is the title.
    Heading(u8, Line),
    /// A place to link to.
    Anchor(String),
    /// A paragraph.
    Paragraph(Line),
    /// Lines with a label each, one below the other; a line without a label stands alone.
    Labels(Vec<(String, Line)>),
    /// A list.
    List {
        /// Numbered or not.
        ordered: bool,
        /// Items; a label stands out in front.
        items: Vec<(Option<String>, Line)>,
    },
    /// A table.
    Table(Table),
    /// Lines of a tree with their depth, names as the trace has them.
    Tree(Vec<(usize, String)>),
    /// A picture that lies beside the document.
    Picture {
        /// What it shows, for who does not see it.
        shows: &'static str,
        /// File name.
        file: &'static str,
    },
    /// A line across.
    Rule,
}

impl Block {
    /// What a heading says.
    fn title(&self) -> Option<&Line> {
        match self {
            Self::Heading(_, line) => Some(line),
            _ => None,
        }
    }

    /// A heading.
    pub fn heading(level: u8, text: impl Into<Line>) -> Self {
        Self::Heading(level, text.into())
    }

    /// A paragraph.
    pub fn paragraph(text: impl Into<Line>) -> Self {
        Self::Paragraph(text.into())
    }

    /// A list of lines.
    pub fn list<L: Into<Line>>(items: impl IntoIterator<Item = L>) -> Self {
        Self::List { ordered: false, items: items.into_iter().map(|l| (None, l.into())).collect() }
    }

    /// A list of labelled lines.
    pub fn facts<L: Into<Line>>(items: impl IntoIterator<Item = (&'static str, L)>) -> Self {
        Self::List { ordered: false, items: items.into_iter().map(|(k, l)| (Some(k.to_owned()), l.into())).collect() }
    }
}

/// Sentences shorter than this may stand twice.
const LONG_SENTENCE: usize = 8;

/// How a recommendation begins what it says on a path.
const PATHS: [&str; 2] = ["Path A: ", "Path B: "];

/// Items of a list that have to be there even if all of it was said: both paths, always.
const PROMISED: [&str; 2] = ["Algorithmic", "Kernel"];

/// What a recommendation says of itself, even if another says the same: two fixes may bring as much, or be about the same
/// operation.
const ITS_OWN: [&str; 2] = ["Operation", "Impact"];

/// How the heading of what is behind a recommendation begins.
const BEHIND: &str = "Behind R";

/// Takes out sentences that were said before, and what is left empty by that. `free` sentences may stand again.
/// Recommendations and what stands before them are read first, so what is dropped stands in the less important place.
pub fn say_once(blocks: Vec<Block>, free: &[&str]) -> Vec<Block> {
    let mut said: BTreeMap<String, usize> = BTreeMap::new();
    // Headings, and how many of them were read: below which one a sentence stands.
    let headings: Vec<Line> = blocks.iter().filter_map(Block::title).cloned().collect();
    let read = Cell::new(0);
    // What is left of a line; where all of it was said, where.
    let mut fresh = |line: Line| {
        let (mut kept, mut again) = (Line::new(), None);
        for s in line.sentences() {
            let text = s.plain();
            let text = text.trim();
            // What a recommendation says on a path is the same sentence without the path.
            let text = PATHS.iter().find_map(|path| text.strip_prefix(path)).unwrap_or(text);
            let may_repeat = free.iter().any(|f| text.contains(f)) || s.words() < LONG_SENTENCE;
            if let Some(&below) = said.get(text).filter(|_| !may_repeat) {
                again = again.or(Some(below));
            } else {
                said.insert(text.to_owned(), read.get());
                kept.0.extend(s.0);
            }
        }
        let above = again.map_or_else(Line::new, |below| as_below(&headings, below, read.get()));
        (kept, above)
    };
    let mut out = Vec::with_capacity(blocks.len());
    for block in blocks {
        match block {
            Block::Heading(..) => {
                read.set(read.get() + 1);
                out.push(block);
            }
            Block::Paragraph(line) => out.extend(Some(fresh(line).0).filter(|l| !l.is_empty()).map(Block::Paragraph)),
            Block::Labels(lines) => {
                // A label promises a text.
                let told = |(l, above): (Line, Line)| if l.is_empty() { above } else { l };
                let mut once = |(label, line): (String, Line)| {
                    let line = if ITS_OWN.contains(&&*label) { line } else { told(fresh(line)) };
                    (label, line)
                };
                out.push(Block::Labels(lines.into_iter().map(&mut once).collect()));
            }
            Block::List { ordered, items } => {
                let promised = |label: &Option<String>| label.as_deref().is_some_and(|l| PROMISED.contains(&l));
                let items: Vec<_> = items.into_iter().map(|(label, line)| (label, fresh(line))).collect();
                let told = |(label, (line, above)): (Option<String>, (Line, Line))| {
                    let again = line.is_empty() && promised(&label);
                    (label, if again { above } else { line })
                };
                let items: Vec<_> = items.into_iter().map(told).collect();
                let items: Vec<_> = items.into_iter().filter(|(_, l)| !l.is_empty()).collect();
                if !items.is_empty() {
                    out.push(Block::List { ordered, items });
                }
            }
            other => out.push(other),
        }
    }
    without_empty_parts(out)
}

/// Where a sentence stands that is not said again: in a recommendation, or with what the heading names.
fn as_below(headings: &[Line], below: usize, here: usize) -> Line {
    let heading = below.checked_sub(1).filter(|_| below != here).and_then(|at| headings.get(at));
    let Some(heading) = heading else { return Line::prose("as above.") };
    let plain = heading.plain();
    if let Some((_, rank)) = plain.rsplit_once("(R").filter(|(_, rank)| rank.ends_with(')')) {
        return Line::prose(&format!("as in R{}.", rank.trim_end_matches(')')));
    }
    if let Some(rank) = plain.strip_prefix(BEHIND) {
        return Line::prose(&format!("as in R{rank}."));
    }
    if !heading.0.iter().any(|span| matches!(span, Span::Code(_))) {
        return Line::prose("as under ").and_prose(&plain).and_prose(".");
    }
    let name = plain.split_once(". ").filter(|(n, _)| n.parse::<usize>().is_ok()).map_or(&*plain, |(_, name)| name);
    Line::prose("as for ").and_code(name).and_prose(".")
}

/// Takes out headings that nothing stands below.
fn without_empty_parts(blocks: Vec<Block>) -> Vec<Block> {
    let mut out: Vec<Block> = Vec::with_capacity(blocks.len());
    // From the end: a heading is empty if nothing or a heading as high, a place or a line follows.
    let mut next: Option<u8> = Some(0);
    for block in blocks.into_iter().rev() {
        let keeps = match &block {
            Block::Heading(level, _) => next.is_none_or(|after| after > *level),
            _ => true,
        };
        if !keeps {
            continue;
        }
        next = match &block {
            Block::Heading(level, _) => Some(*level),
            // A place belongs to the heading after it.
            Block::Anchor(_) => next,
            Block::Rule => Some(0),
            _ => None,
        };
        out.push(block);
    }
    out.reverse();
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_stand_between_backticks() {
        let line = Line::prose("`aten::mm` is slow; a lone ` stays");
        assert_eq!(line.0.len(), 2);
        assert_eq!(line.0[0], Span::Code("aten::mm".to_owned()));
        assert_eq!(line.plain(), "aten::mm is slow; a lone ` stays".replace('`', ""), "the lone one is dropped");
    }

    #[test]
    fn long_sentences_are_said_once() {
        let twice = "One two three four five six seven eight. Short one.";
        let blocks = vec![Block::paragraph(twice), Block::list([twice, "Other."])];
        let once = say_once(blocks, &[]);
        assert_eq!(once.len(), 2);
        assert_eq!(once[1], Block::list(["Short one.", "Other."]));
        let free = say_once(vec![Block::paragraph(twice), Block::paragraph(twice)], &["three four"]);
        assert_eq!(free.len(), 2);
    }

    #[test]
    fn both_paths_stay_and_are_the_same_sentence_without_their_name() {
        let said = "One two three four five six seven eight.";
        let blocks = vec![
            Block::Labels(vec![("Action".to_owned(), format!("Path A: {said} Path B: none.").into())]),
            Block::facts([("Algorithmic", said), ("Seen", said), ("Kernel", "Short.")]),
        ];
        assert_eq!(say_once(blocks, &[])[1], Block::facts([("Algorithmic", "as above."), ("Kernel", "Short.")]));
    }

    #[test]
    fn what_is_not_said_again_is_said_where() {
        let said = "One two three four five six seven eight.";
        let other = "Another one two three four five six seven.";
        let behind = "A third one two three four five six seven.";
        let facts = |text: &str| Block::facts([("Algorithmic", text)]);
        let blocks = vec![
            Block::heading(3, "Medium Priority: Reductions (R8)"),
            Block::paragraph(said),
            Block::Heading(5, Line::prose("1. ").and_code("aten::sort")),
            facts(said),
            Block::Heading(5, Line::prose("2. ").and_code("aten::cat")),
            facts(other),
            Block::Heading(5, Line::prose("3. ").and_code("aten::topk")),
            facts(other),
            Block::heading(3, "Behind R5"),
            Block::paragraph(behind),
            Block::heading(3, "Elsewhere"),
            facts(behind),
        ];
        let once = say_once(blocks, &[]);
        assert_eq!(once[3], facts("as in R8."));
        let as_cat = Line::prose("as for ").and_code("aten::cat").and_prose(".");
        assert_eq!(once[7], Block::facts([("Algorithmic", as_cat)]));
        assert_eq!(once[11], facts("as in R5."));
    }

    #[test]
    fn two_fixes_that_bring_as_much_both_say_so() {
        let said = "One two three four five six seven eight.";
        let block = |issue: &str| {
            let lines = [("Operation", said), ("Issue", issue), ("Impact", said)];
            Block::Labels(lines.map(|(label, line)| (label.to_owned(), line.into())).to_vec())
        };
        let (labels, again) = (|| block(said), block("as above."));
        assert_eq!(say_once(vec![labels(), labels()], &[])[1], again);
    }

    #[test]
    fn a_heading_with_nothing_below_goes() {
        let blocks = vec![
            Block::heading(1, "Title"),
            Block::heading(2, "Part"),
            Block::heading(3, "Empty"),
            Block::heading(3, "Full"),
            Block::paragraph("Text."),
            Block::heading(3, "Last"),
        ];
        let headings: Vec<Block> =
            say_once(blocks, &[]).into_iter().filter(|b| matches!(b, Block::Heading(..))).collect();
        assert_eq!(headings, [Block::heading(1, "Title"), Block::heading(2, "Part"), Block::heading(3, "Full")]);
    }

    #[test]
    fn a_table_keeps_its_shape() {
        let mut table = Table::new(&["Name", ">ms"]);
        table.row([Line::code("a")]).row(["a", "b", "c"].map(Line::prose));
        assert!(table.rows.iter().all(|r| r.len() == 2));
        assert_eq!(table.columns[1], ("ms".to_owned(), Align::Right));
    }
}
