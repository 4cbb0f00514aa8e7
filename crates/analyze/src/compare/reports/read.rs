//! Tables from the bytes of CSV files and workbooks. Types are those of a column: whole numbers if all cells are and
//! none is missing, numbers if all that are there are, truth values, else text.
//!
//! Bytes come from anywhere: whatever they hold gives a table or an error, and a sheet that claims more cells than
//! [`MOST_CELLS`] is refused before memory is taken for them.

use std::io::{self, Cursor, Read as _};
use std::sync::Arc;

use calamine::{DataRef, Reader, Xlsx};
use jarvis_perf::tables::{Cell, Column, Format, Table};

/// Most cells of a sheet.
pub const MOST_CELLS: usize = 50_000_000;

/// Most bytes that a workbook unpacks to. Reports of gigabytes of trace have a tenth of that.
pub const MOST_BYTES: u64 = 512 << 20;

/// Rows and columns that a sheet can have.
const PLACES: (usize, usize) = (1_048_576, 16_384);

/// Texts that stand for a missing value.
const MISSING: [&str; 19] = [
    "", "#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN", "<NA>", "N/A", "NA",
    "NULL", "NaN", "None", "n/a", "nan", "null",
];

/// Why bytes are no table.
#[derive(Debug, thiserror::Error)]
pub enum ReadTableError {
    /// A CSV file is damaged.
    #[error("{sheet}.csv: {reason}")]
    Csv {
        /// The sheet.
        sheet: String,
        /// What is wrong, and where.
        reason: String,
    },
    /// A workbook is damaged or none at all.
    #[error("not a readable workbook: {reason}")]
    Workbook {
        /// What is wrong.
        reason: String,
    },
    /// A sheet of a workbook is damaged.
    #[error("sheet {sheet}: {reason}")]
    Sheet {
        /// The sheet.
        sheet: String,
        /// What is wrong.
        reason: String,
    },
    /// A workbook unpacks to more than any report.
    #[error("unpacks to more than {} MiB", MOST_BYTES >> 20)]
    TooMuch,
    /// A sheet is larger than any report.
    #[error("sheet {sheet}: more than {MOST_CELLS} cells")]
    TooLarge {
        /// The sheet.
        sheet: String,
    },
}

impl ReadTableError {
    /// What to do next.
    pub fn help(&self) -> &'static str {
        match self {
            Self::Csv { .. } => "make the report again, or remove this file from the folder",
            Self::Workbook { .. } => "give an .xlsx report or a folder of CSV files, as `jarvis report` writes them",
            Self::Sheet { .. } => "make the report again, or compare the folders of CSV files",
            Self::TooMuch => "find out where this file comes from; if it is a report, compare the folders of CSV files",
            Self::TooLarge { .. } => "this is no sheet of a report: remove it",
        }
    }
}

/// A table from the bytes of a CSV file. No bytes, or only blank lines, give a table without columns.
pub fn csv(sheet: &str, bytes: &[u8]) -> Result<Table, ReadTableError> {
    let failed = |reason: String| ReadTableError::Csv { sheet: sheet.to_owned(), reason };
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    let mut reader = csv::ReaderBuilder::new().has_headers(false).flexible(true).from_reader(bytes);
    let mut headers: Option<Vec<String>> = None;
    let mut texts: Vec<Vec<Option<Arc<str>>>> = Vec::new();
    for record in reader.byte_records() {
        let record = record.map_err(|e| failed(e.to_string()))?;
        let line = record.position().map_or(0, csv::Position::line);
        let mut fields = Vec::with_capacity(record.len());
        for field in &record {
            let text = std::str::from_utf8(field).map_err(|_| failed(format!("line {line} is not UTF-8")))?;
            fields.push(text);
        }
        let Some(headers) = &headers else {
            let names = unique_headers(fields.iter().map(|f| unguarded(f).to_owned()).collect());
            texts.resize(names.len(), Vec::new());
            headers = Some(names);
            continue;
        };
        if fields.len() > headers.len() {
            return Err(failed(format!("line {line} has {} fields, the header {}", fields.len(), headers.len())));
        }
        for (at, column) in texts.iter_mut().enumerate() {
            column.push(fields.get(at).and_then(|text| present(text)));
        }
    }
    let columns = headers.unwrap_or_default().into_iter().zip(texts);
    let columns = columns.map(|(header, texts)| column(header, of_texts(texts))).collect();
    Ok(Table { name: sheet.to_owned(), columns })
}

/// The tables of a workbook, in its order.
pub fn workbook(bytes: &[u8]) -> Result<Vec<Table>, ReadTableError> {
    check_size(bytes, MOST_BYTES)?;
    // The reader's own arithmetic trips over cells at places that do not exist.
    std::panic::catch_unwind(|| tables(bytes))
        .unwrap_or_else(|_| Err(ReadTableError::Workbook { reason: "it holds what no workbook can hold".to_owned() }))
}

/// Fails if a workbook unpacks to more than `most` bytes, found by unpacking: what a zip says about itself may be a lie.
/// What can't be unpacked is left to who reads it.
fn check_size(bytes: &[u8], most: u64) -> Result<(), ReadTableError> {
    let Ok(mut archive) = zip::ZipArchive::new(Cursor::new(bytes)) else { return Ok(()) };
    let mut left = most;
    for at in 0..archive.len() {
        let Ok(entry) = archive.by_index(at) else { continue };
        let mut unpacked = Counted(0);
        let _ = io::copy(&mut entry.take(left + 1), &mut unpacked);
        left = left.checked_sub(unpacked.0).ok_or(ReadTableError::TooMuch)?;
    }
    Ok(())
}

/// Counts what is written to it, also if the writing ends in an error.
struct Counted(u64);

impl io::Write for Counted {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 += bytes.len() as u64;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn tables(bytes: &[u8]) -> Result<Vec<Table>, ReadTableError> {
    let failed = |e: calamine::XlsxError| ReadTableError::Workbook { reason: e.to_string() };
    let mut book = Xlsx::new(Cursor::new(bytes)).map_err(failed)?;
    book.sheet_names().iter().map(|name| sheet(&mut book, name)).collect()
}

fn sheet(book: &mut Xlsx<Cursor<&[u8]>>, name: &str) -> Result<Table, ReadTableError> {
    let failed = |e: calamine::XlsxError| ReadTableError::Sheet { sheet: name.to_owned(), reason: e.to_string() };
    let mut cells = book.worksheet_cells_reader(name).map_err(failed)?;
    let mut headers: Vec<String> = Vec::new();
    let mut columns: Vec<Vec<Cell>> = Vec::new();
    let mut rows = 0;
    // The cells come one by one, so a sheet of two cells in far corners costs no more than the rows between them.
    while let Some(found) = cells.next_cell().map_err(failed)? {
        let ((row, at), cell) = (found.get_position(), of_cell(found.get_value()));
        let (row, at) = (row as usize, at as usize);
        if row >= PLACES.0 || at >= PLACES.1 {
            return Err(ReadTableError::TooLarge { sheet: name.to_owned() });
        }
        if matches!(cell, Cell::Missing) {
            continue;
        }
        if row == 0 {
            headers.resize(headers.len().max(at + 1), String::new());
            headers[at] = header_text(&cell);
            continue;
        }
        rows = rows.max(row);
        if at >= columns.len() {
            columns.resize(at + 1, Vec::new());
        }
        if rows.saturating_mul(columns.len().max(headers.len())) > MOST_CELLS {
            return Err(ReadTableError::TooLarge { sheet: name.to_owned() });
        }
        let column = &mut columns[at];
        column.resize(column.len().max(row), Cell::Missing);
        column[row - 1] = cell;
    }
    columns.resize(headers.len().max(columns.len()), Vec::new());
    headers.resize(columns.len(), String::new());
    let columns = unique_headers(headers).into_iter().zip(columns);
    let columns = columns.map(|(header, mut cells)| {
        cells.resize(rows, Cell::Missing);
        column(header, of_numbers(cells))
    });
    Ok(Table { name: name.to_owned(), columns: columns.collect() })
}

fn header_text(cell: &Cell) -> String {
    match cell {
        Cell::Text(text) => text.to_string(),
        Cell::Int(i) => i.to_string(),
        Cell::Float(x) => jarvis_trace::pyliteral::of_float(*x),
        Cell::Bool(b) => b.to_string(),
        Cell::Missing => String::new(),
    }
}

#[expect(clippy::float_cmp, reason = "asks whether the number is whole, exactly")]
fn of_cell(value: &DataRef<'_>) -> Cell {
    match value {
        DataRef::Int(i) => Cell::Int(*i),
        DataRef::Float(x) if x.trunc() == *x && x.abs() < 9e15 => Cell::Int(*x as i64),
        DataRef::Float(x) => Cell::float(*x),
        DataRef::Bool(b) => Cell::Bool(*b),
        DataRef::String(text) | DataRef::DateTimeIso(text) | DataRef::DurationIso(text) => of_text(text),
        DataRef::SharedString(text) => of_text(text),
        DataRef::DateTime(date) => Cell::float(date.as_f64()),
        DataRef::Error(_) | DataRef::Empty => Cell::Missing,
    }
}

fn of_text(text: &str) -> Cell {
    match text {
        // How jarvis stores what a cell can't hold as a number.
        "inf" => Cell::Float(f64::INFINITY),
        "-inf" => Cell::Float(f64::NEG_INFINITY),
        text => present(text).map_or(Cell::Missing, Cell::Text),
    }
}

/// A text that does not stand for a missing value.
fn present(text: &str) -> Option<Arc<str>> {
    (!MISSING.contains(&text)).then(|| Arc::from(unguarded(text)))
}

/// The text without the `'` that jarvis puts before what a spreadsheet would take for a formula.
fn unguarded(text: &str) -> &str {
    match text.strip_prefix('\'') {
        Some(rest) if rest.starts_with(['=', '+', '-', '@', '\t', '\r']) => rest,
        _ => text,
    }
}

/// Columns are found by their names, so names that occur again get a number.
fn unique_headers(names: Vec<String>) -> Vec<String> {
    let mut seen: rapidhash::RapidHashMap<String, usize> = rapidhash::RapidHashMap::default();
    let number = |name: String| {
        let count = seen.entry(name.clone()).or_insert(0);
        *count += 1;
        if *count == 1 { name } else { format!("{name}.{}", *count - 1) }
    };
    names.into_iter().map(number).collect()
}

/// Cells of a column of texts.
fn of_texts(texts: Vec<Option<Arc<str>>>) -> Vec<Cell> {
    let all = |test: &dyn Fn(&str) -> bool| texts.iter().flatten().all(|text| test(text));
    let each = |cell: &dyn Fn(&str) -> Cell| -> Vec<Cell> {
        texts.iter().map(|text| text.as_deref().map_or(Cell::Missing, cell)).collect()
    };
    if texts.iter().all(Option::is_some) && all(&|text| text.parse::<i64>().is_ok()) {
        return each(&|text| text.parse().map_or(Cell::Missing, Cell::Int));
    }
    if all(&|text| text.parse::<f64>().is_ok()) {
        return each(&|text| text.parse().map_or(Cell::Missing, Cell::float));
    }
    if all(&|text| matches!(text, "True" | "False")) {
        return each(&|text| Cell::Bool(text == "True"));
    }
    texts.into_iter().map(|text| text.map_or(Cell::Missing, Cell::Text)).collect()
}

/// Whole numbers beside others, or beside gaps, are numbers like those.
pub(crate) fn of_numbers(mut cells: Vec<Cell>) -> Vec<Cell> {
    let numeric = cells.iter().all(|c| matches!(c, Cell::Missing | Cell::Int(_) | Cell::Float(_)));
    if numeric && cells.iter().any(|c| !matches!(c, Cell::Int(_))) {
        for cell in &mut cells {
            if let Cell::Int(i) = *cell {
                *cell = Cell::Float(i as f64);
            }
        }
    }
    cells
}

fn column(header: String, cells: Vec<Cell>) -> Column {
    Column { format: format_of(&header), header, cells }
}

/// How a column of this name reads best.
fn format_of(header: &str) -> Format {
    if header.contains('%') {
        Format::Percent
    } else if header.contains("(µs)") || header.contains("_us") || header.contains("time") || header.ends_with(" ms") {
        Format::Time
    } else if ["TFLOPS", "TB/s", "FLOPS", "Data Moved"].iter().any(|word| header.contains(word)) {
        Format::Quantity
    } else {
        Format::Plain
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cells<'t>(table: &'t Table, header: &str) -> &'t [Cell] {
        &table.column(header).unwrap().cells
    }

    #[test]
    fn columns_have_one_type() {
        let text = "i,f,gap,b,t,n\n1,1.5,3,True,x,nan\n2,2,,False,7,1\n";
        let table = csv("s", text.as_bytes()).unwrap();
        assert_eq!(cells(&table, "i"), [Cell::Int(1), Cell::Int(2)]);
        assert_eq!(cells(&table, "f"), [Cell::Float(1.5), Cell::Float(2.0)]);
        assert_eq!(cells(&table, "gap"), [Cell::Float(3.0), Cell::Missing]);
        assert_eq!(cells(&table, "b"), [Cell::Bool(true), Cell::Bool(false)]);
        assert_eq!(cells(&table, "t"), [Cell::Text("x".into()), Cell::Text("7".into())]);
        assert_eq!(cells(&table, "n"), [Cell::Missing, Cell::Float(1.0)]);
    }

    #[test]
    fn a_workbook_that_unpacks_to_too_much_is_refused() {
        let mut zip = zip::ZipWriter::new(Cursor::new(Vec::new()));
        for name in ["xl/workbook.xml", "xl/sharedStrings.xml"] {
            zip.start_file(name, zip::write::SimpleFileOptions::default()).unwrap();
            io::Write::write_all(&mut zip, &vec![b' '; 1 << 20]).unwrap();
        }
        let bytes = zip.finish().unwrap().into_inner();
        assert!(bytes.len() < 10_000);
        assert!(check_size(&bytes, 2 << 20).is_ok());
        let error = check_size(&bytes, (2 << 20) - 1).unwrap_err();
        assert_eq!(error.to_string(), "unpacks to more than 512 MiB");
        assert!(!error.help().is_empty());
    }

    #[test]
    fn odd_files_are_tables_or_errors() {
        for blank in ["", "\n", "\n\n"] {
            assert!(csv("s", blank.as_bytes()).unwrap().columns.is_empty(), "{blank:?}");
        }
        let header = csv("s", b"a,b,a\n").unwrap();
        assert_eq!(header.columns.iter().map(|c| c.header.as_str()).collect::<Vec<_>>(), ["a", "b", "a.1"]);
        let short = csv("s", b"a,b\n1\n").unwrap();
        assert_eq!(cells(&short, "b"), [Cell::Missing]);
        assert!(csv("s", b"a\n1,2\n").unwrap_err().to_string().contains("line 2 has 2 fields, the header 1"));
        assert!(csv("s", b"a\n\xff\n").unwrap_err().to_string().contains("not UTF-8"));
        for junk in [&b""[..], b"PK", b"PK\x03\x04garbage", b"not a workbook at all"] {
            assert!(workbook(junk).is_err());
        }
    }

    #[test]
    fn the_guard_against_formulas_comes_off() {
        let table = csv("s", b"name\n'=1+1\n'quoted'\n").unwrap();
        assert_eq!(cells(&table, "name"), [Cell::Text("=1+1".into()), Cell::Text("'quoted'".into())]);
    }
}
