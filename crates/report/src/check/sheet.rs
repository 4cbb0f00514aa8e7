//! One column of a CSV file. To read every cell of the longest sheet took a tenth of the time in which a run checks
//! itself.

use std::str::Utf8Error;

use memchr::{memchr, memchr3};

/// The cells of the column of this header, if there is one. A record that is too short or no UTF-8 has none.
pub(super) fn column<'a>(bytes: &'a [u8], header: &str) -> Option<impl Iterator<Item = &'a str>> {
    let mut records = records(bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes));
    let place = cells(records.next()?.ok()?).position(|cell| cell == header)?;
    Some(records.flatten().filter_map(move |record| cells(record).nth(place)))
}

/// The records; one may have more than one line.
fn records(mut rest: &[u8]) -> impl Iterator<Item = Result<&str, Utf8Error>> {
    std::iter::from_fn(move || {
        // Lines with nothing in them are no records.
        let start = rest.iter().position(|byte| !matches!(byte, b'\r' | b'\n'))?;
        let (record, behind) = rest[start..].split_at(record_length(&rest[start..]));
        rest = behind;
        Some(std::str::from_utf8(record))
    })
}

/// How long the record is that begins here.
fn record_length(text: &[u8]) -> usize {
    let mut at = quoted_length(text);
    while let Some(next) = memchr3(b'"', b'\n', b'\r', &text[at..]) {
        at += next;
        if text[at] != b'"' {
            return at;
        }
        // Others than those that begin a cell are part of it.
        at += if text[at - 1] == b',' { quoted_length(&text[at..]) } else { 1 };
    }
    text.len()
}

/// The cells of a record, without the quotes around them.
fn cells(record: &str) -> impl Iterator<Item = &str> {
    let mut rest = Some(record);
    std::iter::from_fn(move || {
        let text = rest?;
        let quoted = quoted_length(text.as_bytes());
        let end = memchr(b',', &text.as_bytes()[quoted..]).map_or(text.len(), |comma| quoted + comma);
        rest = text.get(end + 1..);
        Some(unquoted(&text[..end]))
    })
}

/// How much of a text is in quotes, they included; a quote within them is doubled.
fn quoted_length(text: &[u8]) -> usize {
    if text.first() != Some(&b'"') {
        return 0;
    }
    let mut at = 1;
    while let Some(quote) = memchr(b'"', &text[at..]) {
        at += quote + 1;
        if text.get(at) != Some(&b'"') {
            return at;
        }
        at += 1;
    }
    text.len()
}

/// A cell without the quotes around it. Those within it stay doubled: no number and no header has any.
fn unquoted(cell: &str) -> &str {
    cell.strip_prefix('"').and_then(|cell| cell.strip_suffix('"')).unwrap_or(cell)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with_csv(text: &[u8], header: &str) -> Option<Vec<String>> {
        let mut reader = csv::ReaderBuilder::new().flexible(true).from_reader(text);
        let at = reader.headers().ok()?.iter().position(|h| h == header)?;
        Some(reader.records().flatten().filter_map(|record| record.get(at).map(str::to_owned)).collect())
    }

    #[test]
    fn a_column_is_what_a_csv_reader_finds() {
        let sheets: &[&[u8]] = &[
            b"",
            b"\n\n",
            b"a,id\n1,2\n3,4",
            b"a,id\r\n1,2\r\n\r\n3,4\r\n",
            b"id\n7\n\n8\n",
            b"\xef\xbb\xbfid,a\n7,x\n",
            b"a,\"id\",b\n\"x,\"\"y\"\"\n,z\",5,\n\"\",6\nshort\n,,\n\"open,7,8\n9,9,9",
            b"a,id\nx\"y,1\n\"q\",2\n'=\"x\"\"\",3\n1,",
            b"a,id,id\n1,2,3\n",
            b"a,id\n\xff,1\nx,2\n\xc3\xa9,3\n",
            b"\xff,id\n1,2\n",
            b"a,b\n1,2\n",
        ];
        for sheet in sheets {
            let found = column(sheet, "id").map(|cells| cells.map(str::to_owned).collect::<Vec<_>>());
            assert_eq!(found, with_csv(sheet, "id"), "{}", sheet.escape_ascii());
        }
    }
}
