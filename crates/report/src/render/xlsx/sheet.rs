//! One sheet, written row by row.

use std::fmt::Write as _;
use std::io;
use std::sync::Arc;

use jarvis_perf::tables::{Cell, Format, Head, Sheet};

use super::archive::{Archive, Target};
use super::texts::{Texts, push_escaped};
use super::{Cuts, parts};
use crate::render::{TextRow, names};

/// Longest text of a cell, in UTF-16 units.
const TEXT_LIMIT: usize = 32_767;
/// Stands at the end of a text that was cut.
const CUT_MARK: &str = "… [cut]";
/// Rows and columns of a sheet, header included.
const ROW_LIMIT: usize = 1_048_576;
const COLUMN_LIMIT: usize = 16_384;
/// Whole numbers beyond this are not exact as a cell's number and are stored as text.
const EXACT: u64 = 1 << 53;
/// Rows that decide a column's width.
const SAMPLE: usize = 200;
/// Column widths in characters.
const WIDTHS: std::ops::RangeInclusive<usize> = 8..=48;
/// A longer text stands in its cell and not among those that sheets share, where it would be kept to the end.
const SHARED: usize = 4 << 10;

/// The columns and rows that a sheet can hold.
fn held(sheet: &Sheet<'_>) -> (usize, usize) {
    (sheet.heads().len().min(COLUMN_LIMIT), sheet.rows().min(ROW_LIMIT - 1))
}

/// Column and row of the last cell, if there is one.
pub(super) fn last_cell(sheet: &Sheet<'_>) -> Option<(String, usize)> {
    let (columns, rows) = held(sheet);
    Some((letters(columns.checked_sub(1)?), rows + 1))
}

/// Writes a sheet. The first of a workbook is the one that is open. A cell tells its place only if it does not follow the
/// one before: to name them all would be a third of the sheet.
pub(super) fn write(
    out: &Archive<impl Target>,
    sheet: &Sheet<'_>,
    hidden: &[bool],
    is_first: bool,
    texts: &mut Texts,
    mut each: impl FnMut(&TextRow) -> io::Result<()>,
) -> io::Result<Cuts> {
    let (columns, rows) = held(sheet);
    let heads = &sheet.heads()[..columns];
    let mut cuts = Cuts { texts: 0, rows: sheet.rows() - rows, columns: sheet.heads().len() - columns };
    let mut xml = head(sheet, heads, hidden, is_first);
    let columns: Vec<String> = (0..columns).map(letters).collect();
    let (mut row_text, mut whole) = (itoa::Buffer::new(), itoa::Buffer::new());
    if !columns.is_empty() {
        xml.push_str("<row r=\"1\">");
        for head in heads {
            let number =
                texts.number(&fitting(&head.text, &mut cuts).map_or_else(|| Arc::from(&*head.text), Arc::from));
            xml.push_str("<c");
            content(&mut xml, parts::HEADER, whole.format(number));
        }
        xml.push_str("</row>");
    }
    let mut made = TextRow::default();
    for row in 0..sheet.rows() {
        made.fill(sheet, row);
        each(&made)?;
        if row >= rows {
            continue;
        }
        let row_text = row_text.format(row + 2);
        push(&mut xml, &["<row r=\"", row_text, "\">"]);
        let mut follows = true;
        for (((value, fraction), head), column) in made.texts().zip(heads).zip(&columns) {
            if is_blank(value) {
                follows = false;
                continue;
            }
            if std::mem::replace(&mut follows, true) {
                xml.push_str("<c");
            } else {
                push(&mut xml, &["<c r=\"", column, row_text, "\""]);
            }
            let mut text = |text: &Arc<str>| {
                if text.len() > SHARED {
                    long_text(&mut xml, text);
                } else {
                    content(&mut xml, parts::TEXT, whole.format(texts.number(text)));
                }
            };
            match value {
                Cell::Missing => {}
                Cell::Bool(b) => content(&mut xml, parts::BOOL, if *b { "1" } else { "0" }),
                // Whole numbers need no decimals, whatever the column's other numbers need.
                Cell::Int(i) if i.unsigned_abs() <= EXACT => content(&mut xml, parts::NUMBER, whole.format(*i)),
                Cell::Int(i) => text(&i.to_string().into()),
                Cell::Float(x) if x.is_infinite() => text(&Arc::from(if *x > 0.0 { "inf" } else { "-inf" })),
                // The shortest text that reads back as this number.
                Cell::Float(_) => content(&mut xml, parts::fraction(head.format), fraction),
                Cell::Text(long) => match fitting(long, &mut cuts) {
                    None => text(long),
                    Some(cut) => text(&cut.into()),
                },
            }
        }
        xml.push_str("</row>");
        out.pass_on(&mut xml);
    }
    xml.push_str("</sheetData>");
    if let Some((column, row)) = last_cell(sheet) {
        let _ = write!(xml, "<autoFilter ref=\"A1:{column}{row}\"/>");
    }
    xml.push_str("<pageMargins left=\"0.7\" right=\"0.7\" top=\"0.75\" bottom=\"0.75\" header=\"0.3\" footer=\"0.3\"/></worksheet>");
    out.text(xml);
    Ok(cuts)
}

/// All that stands before the rows: a header that stays, and the widths of the columns.
fn head(sheet: &Sheet<'_>, heads: &[Head<'_>], hidden: &[bool], is_first: bool) -> String {
    let mut xml = "<?xml version=\"1.0\" encoding=\"UTF-8\" standalone=\"yes\"?>\n\
                   <worksheet xmlns=\"http://schemas.openxmlformats.org/spreadsheetml/2006/main\">"
        .to_owned();
    let last = last_cell(sheet).map_or("A1".to_owned(), |(column, row)| format!("A1:{column}{row}"));
    let selected = if is_first { " tabSelected=\"1\"" } else { "" };
    let _ = write!(xml, "<dimension ref=\"{last}\"/><sheetViews><sheetView{selected} workbookViewId=\"0\">");
    if !heads.is_empty() {
        xml.push_str(
            "<pane ySplit=\"1\" topLeftCell=\"A2\" activePane=\"bottomLeft\" state=\"frozen\"/><selection pane=\"bottomLeft\"/>",
        );
    }
    xml.push_str("</sheetView></sheetViews><sheetFormatPr defaultRowHeight=\"15\"/>");
    if !heads.is_empty() {
        xml.push_str("<cols>");
        for (at, head) in heads.iter().enumerate() {
            let hide = if hidden.get(at) == Some(&true) { " hidden=\"1\"" } else { "" };
            let _ = write!(
                xml,
                "<col min=\"{0}\" max=\"{0}\" width=\"{1}\"{hide} customWidth=\"1\"/>",
                at + 1,
                width(head, sheet.column(at))
            );
        }
        xml.push_str("</cols>");
    }
    xml.push_str("<sheetData>");
    xml
}

/// Whether there is nothing to show.
fn is_blank(cell: &Cell) -> bool {
    match cell {
        Cell::Missing => true,
        Cell::Float(x) => x.is_nan(),
        _ => false,
    }
}

/// The rest of a cell. It is put together from what is text already: there are so many that formatting was a third of all
/// work.
fn content(xml: &mut String, style: &str, value: &str) {
    push(xml, &[style, value, "</v></c>"]);
}

fn long_text(xml: &mut String, text: &str) {
    xml.push_str(parts::LONG_TEXT);
    push_escaped(xml, text);
    xml.push_str("</t></is></c>");
}

/// Appends all pieces, with room for them made once.
fn push(xml: &mut String, pieces: &[&str]) {
    xml.reserve(pieces.iter().map(|piece| piece.len()).sum());
    for piece in pieces {
        xml.push_str(piece);
    }
}

/// The name of a column: A to Z, AA to ZZ, AAA and so on.
fn letters(column: usize) -> String {
    let (before, last) = (column / 26, (b'A' + (column % 26) as u8) as char);
    if before == 0 { last.to_string() } else { format!("{}{last}", letters(before - 1)) }
}

/// What a text that is longer than a cell can be is cut to.
fn fitting(text: &str, cuts: &mut Cuts) -> Option<String> {
    if names::shorten(text, TEXT_LIMIT).len() == text.len() {
        return None;
    }
    cuts.texts += 1;
    let room = TEXT_LIMIT - CUT_MARK.encode_utf16().count();
    Some(format!("{}{CUT_MARK}", names::shorten(text, room)))
}

/// Characters that show the header and a sample of the cells.
fn width(head: &Head<'_>, cells: impl Iterator<Item = Cell>) -> usize {
    // Two more for the filter's arrow.
    let mut widest = head.text.chars().count() + 2;
    let mut cells = cells.take(SAMPLE);
    // What is as wide as can be need not be measured on.
    while widest < *WIDTHS.end()
        && let Some(cell) = cells.next()
    {
        widest = widest.max(shown(&cell, head.format) + 1);
    }
    widest.clamp(*WIDTHS.start(), *WIDTHS.end())
}

/// About how many characters a cell shows.
fn shown(cell: &Cell, format: Format) -> usize {
    match cell {
        Cell::Missing => 0,
        Cell::Bool(_) => 5,
        Cell::Int(i) => itoa::Buffer::new().format(*i).len(),
        Cell::Float(x) => {
            let whole = digits(*x);
            match format {
                // A sign for every three digits, a point, two decimals.
                Format::Time | Format::Quantity => whole + whole / 3 + 3,
                Format::Percent => whole + 2,
                Format::Plain => 11,
            }
        }
        Cell::Text(text) => text.chars().take(*WIDTHS.end()).count(),
    }
}

/// Characters of a number without its decimals.
fn digits(x: f64) -> usize {
    let sign = usize::from(x.is_sign_negative() && !x.is_nan());
    match x.abs() {
        // Exact as whole numbers.
        size if size < EXACT as f64 => sign + 1 + (size as u64).checked_ilog10().unwrap_or(0) as usize,
        _ => format!("{:.0}", x.trunc()).len(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_are_counted_as_they_would_be_written() {
        let numbers = [0.0, -0.0, 0.9, -0.9, 1.0, 9.99, 10.0, -10.5, 999.999, 1e3, 123_456.7, 4e15, 1e16, -1e17, 1e300];
        for x in numbers.into_iter().chain([f64::NAN, f64::INFINITY, f64::NEG_INFINITY]) {
            assert_eq!(digits(x), format!("{:.0}", x.trunc()).len(), "{x}");
        }
    }

    #[test]
    fn columns_are_named_as_spreadsheets_name_them() {
        let named =
            [(0, "A"), (25, "Z"), (26, "AA"), (51, "AZ"), (52, "BA"), (701, "ZZ"), (702, "AAA"), (16_383, "XFD")];
        for (column, name) in named {
            assert_eq!(letters(column), name);
        }
    }
}
