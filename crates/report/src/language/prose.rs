//! What of a Markdown text is language: no code, no names as the trace has them, no hardware as its makers call it.

/// The section that may name hardware as its makers do.
const HARDWARE_SECTION: &str = "Hardware Reference";

/// The lines that are language and as they stand there, data included, are worth a look; with their numbers and without
/// the data.
pub(crate) fn prose(markdown: &str, worth_a_look: impl Fn(&str) -> bool) -> Vec<(usize, String)> {
    let mut lines = Vec::new();
    let mut fenced = false;
    let mut in_hardware = false;
    let mut table: Option<Table<'_>> = None;
    for (i, line) in markdown.lines().enumerate() {
        let trimmed = line.trim();
        if trimmed.starts_with("```") {
            fenced = !fenced;
            continue;
        }
        if fenced {
            continue;
        }
        if trimmed.starts_with('#') {
            in_hardware = trimmed.contains(HARDWARE_SECTION);
        }
        // Nobody reads the name of an anchor, which is made of other names.
        if in_hardware || trimmed.starts_with("<a id=\"") && trimmed.ends_with("</a>") {
            continue;
        }
        if trimmed.starts_with('|') {
            let table = table.get_or_insert_with(|| Table::headed(trimmed));
            if worth_a_look(trimmed) {
                lines.push((i + 1, without_code(&table.language(trimmed))));
            }
        } else {
            table = None;
            if worth_a_look(trimmed) {
                lines.push((i + 1, without_code(trimmed)));
            }
        }
    }
    lines
}

/// A table, known by its first row.
struct Table<'a> {
    header: &'a str,
    /// Which columns are data; found out for the first row that is worth a look.
    data: Option<Vec<bool>>,
}

impl<'a> Table<'a> {
    fn headed(header: &'a str) -> Self {
        Self { header, data: None }
    }

    /// A row without the columns of data.
    fn language(&mut self, row: &str) -> String {
        let data = self.data.get_or_insert_with(|| cells(self.header).map(is_data_column).collect());
        let kept = cells(row).enumerate().filter(|(i, _)| !data.get(*i).copied().unwrap_or(false));
        kept.map(|(_, cell)| cell).collect::<Vec<_>>().join(" | ")
    }
}

/// The cells of a row; a pipe behind a backslash is part of its cell.
fn cells(row: &str) -> impl Iterator<Item = &str> {
    let mut escaped = false;
    let ends = move |c| {
        let ends = c == '|' && !escaped;
        escaped = c == '\\' && !escaped;
        ends
    };
    row.trim().trim_start_matches('|').trim_end_matches('|').split(ends).map(str::trim)
}

/// Columns that hold names as the trace has them.
fn is_data_column(header: &str) -> bool {
    const NAMES: [&str; 8] = ["kernel", "operation", "name", "module", "op", "file", "shapes", "args"];
    let header = header.to_lowercase();
    header.split(|c: char| !c.is_alphanumeric()).any(|part| NAMES.contains(&part.trim_end_matches('s')))
}

/// The text without what stands between backticks and without comments, which no reader sees.
fn without_code(text: &str) -> String {
    if !text.contains('`') {
        return without_comments(text);
    }
    without_comments(&text.split('`').step_by(2).collect::<Vec<_>>().join("`"))
}

fn without_comments(text: &str) -> String {
    let mut parts = text.split("<!--");
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        // One that does not end is no comment.
        match part.split_once("-->") {
            Some((_, after)) => out.push_str(after),
            None => out.extend(["<!--", part]),
        }
    }
    out
}
