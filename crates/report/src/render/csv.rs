//! Tables as CSV: UTF-8, `\n` ends a line, a field is quoted only if it must be, a missing value is an empty field.
//!
//! Numbers are printed as Python prints them. A column of whole numbers with one missing or fractional value shows all
//! of them as `8.0`, because that is what its readers take the column for; a column that holds anything else is
//! no column of numbers and keeps its digits.
//!
//! **Formulas.** Spreadsheets take a field that begins with `=`, `+`, `-` or `@` for a formula, and names in a trace are
//! anybody's text. [`Texts::Guarded`] puts a `'` before such texts (and before those that begin with a tab or a
//! carriage return, which spreadsheets skip); numbers stay as they are, also those that stand in a text cell.
//! [`Texts::Exact`] leaves every text alone: for comparison with the tables of the reference.

use std::borrow::Borrow;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use jarvis_perf::tables::{Cell, Sheet, Table};
use jarvis_trace::pyliteral;

use crate::OutputFile;
use crate::render::{TextRow, names};

/// What becomes of texts that a spreadsheet would take for formulas.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Texts {
    /// They get a `'` before them.
    Guarded,
    /// They stay as they are.
    Exact,
}

/// Longest name of a file, without `.csv`: what common file systems take, with room for a temporary name.
const NAME_LIMIT: usize = 120;

/// Characters that some file system does not take.
const NOT_IN_NAMES: &[char] = &['/', '\\', ':', '*', '?', '"', '<', '>', '|'];

/// One file a table, `<folder>/<name>.csv`, each made when it is asked for.
pub fn files(tables: &[Table], folder: &str, texts: Texts) -> impl Iterator<Item = OutputFile> {
    let paths = paths(tables.iter().map(|t| t.name.as_str()), folder);
    tables.iter().zip(paths).map(move |(table, path)| OutputFile::new(path, render(table, texts)))
}

/// The paths of files of sheets with these names.
pub fn paths<'a>(names: impl Iterator<Item = &'a str>, folder: &str) -> impl Iterator<Item = PathBuf> {
    let names = names::unique(names, NAME_LIMIT, NOT_IN_NAMES, names::LongNames::Cut);
    names.into_iter().map(move |name| Path::new(folder).join(format!("{name}.csv")))
}

/// One table.
pub fn render(table: &Table, texts: Texts) -> Vec<u8> {
    // Writing into memory does not fail.
    write(Vec::new(), &Sheet::from(table), texts).unwrap_or_default()
}

/// Writes one sheet.
pub fn write<W: Write>(out: W, sheet: &Sheet<'_>, texts: Texts) -> io::Result<W> {
    let mut writer = Writer::begin(out, sheet, texts);
    let mut row = TextRow::default();
    for at in 0..sheet.rows() {
        row.fill(sheet, at);
        writer.row(&row)?;
    }
    writer.finish()
}

/// What is written at once, in bytes.
const BLOCK: usize = 1 << 16;

/// Writes a sheet whose cells somebody else makes, row by row.
#[derive(Debug)]
pub struct Writer<W> {
    out: W,
    records: Records,
    floats: Vec<bool>,
}

impl<W: Write> Writer<W> {
    /// Begins with the header.
    pub fn begin(out: W, sheet: &Sheet<'_>, texts: Texts) -> Self {
        let mut records = Records::new(texts);
        records.header(sheet.heads().iter().map(|head| &*head.text));
        Self { out, records, floats: sheet.shows_floats() }
    }

    /// Writes the cells of the next row. Returns the record, with the end of its line.
    pub fn row(&mut self, row: &TextRow) -> io::Result<&str> {
        self.records.pass_on(&mut self.out)?;
        let start = self.records.out.len();
        let fields = row.texts().zip(&self.floats);
        self.records.record(fields.map(|((cell, text), &floats)| Field { cell, floats, text: Some(text) }));
        Ok(&self.records.out[start..])
    }

    /// All rows were written.
    pub fn finish(mut self) -> io::Result<W> {
        self.records.flush(&mut self.out)?;
        Ok(self.out)
    }
}

/// A cell.
pub(crate) struct Field<'a, C> {
    pub(crate) cell: C,
    /// Whether it shows whole numbers as `8.0`.
    pub(crate) floats: bool,
    /// The text of a fraction, if somebody has made it.
    pub(crate) text: Option<&'a str>,
}

impl Field<'_, Cell> {
    /// A cell that nobody has looked at.
    pub(crate) fn of(cell: Cell, floats: bool) -> Self {
        Self { cell, floats, text: None }
    }
}

/// Records in the making.
#[derive(Debug)]
pub(crate) struct Records {
    out: String,
    texts: Texts,
}

impl Records {
    pub(crate) fn new(texts: Texts) -> Self {
        Self { out: String::new(), texts }
    }

    /// Without a column it is an empty line, and there are no others.
    pub(crate) fn header<'h>(&mut self, heads: impl Iterator<Item = &'h str>) {
        let mut any = false;
        for head in heads {
            if any {
                self.out.push(',');
            }
            push_text(&mut self.out, head, self.texts);
            any = true;
        }
        if any { end_record(&mut self.out, 0) } else { self.out.push('\n') }
    }

    /// Appends a record.
    pub(crate) fn record<'a, C: Borrow<Cell>>(&mut self, fields: impl Iterator<Item = Field<'a, C>>) {
        let start = self.out.len();
        self.fields(fields, start);
        end_record(&mut self.out, start);
    }

    /// Appends a record of which somebody has written the first fields.
    pub(crate) fn extended<'a, C: Borrow<Cell>>(&mut self, known: &str, more: impl Iterator<Item = Field<'a, C>>) {
        let start = self.out.len();
        self.out.push_str(known.strip_suffix('\n').unwrap_or(known));
        self.fields(more, start);
        end_record(&mut self.out, start);
    }

    /// Appends fields to the record that began at `start`.
    fn fields<'a, C: Borrow<Cell>>(&mut self, fields: impl Iterator<Item = Field<'a, C>>, start: usize) {
        let Self { out, texts } = self;
        let mut whole = itoa::Buffer::new();
        for (i, Field { cell, floats, text }) in fields.enumerate() {
            if i > 0 || out.len() > start {
                out.push(',');
            }
            match cell.borrow() {
                Cell::Missing => {}
                Cell::Bool(true) => out.push_str("True"),
                Cell::Bool(false) => out.push_str("False"),
                Cell::Int(i) if floats => pyliteral::push_float(out, *i as f64),
                Cell::Int(i) => out.push_str(whole.format(*i)),
                Cell::Float(x) if x.is_nan() => {}
                Cell::Float(x) => match text {
                    Some(text) => out.push_str(text),
                    None => pyliteral::push_float(out, *x),
                },
                Cell::Text(text) => push_text(out, text, *texts),
            }
        }
    }

    /// Writes what is there if it is worth it.
    pub(crate) fn pass_on(&mut self, out: &mut impl Write) -> io::Result<()> {
        if self.out.len() < BLOCK { Ok(()) } else { self.flush(out) }
    }

    /// Writes what is there.
    pub(crate) fn flush(&mut self, out: &mut impl Write) -> io::Result<()> {
        out.write_all(self.out.as_bytes())?;
        self.out.clear();
        Ok(())
    }
}

/// Ends the record that began at `start`. One without a byte is written as an empty field: readers skip empty lines.
fn end_record(out: &mut String, start: usize) {
    if out.len() == start {
        out.push_str("\"\"");
    }
    out.push('\n');
}

/// A text as a field: in quotes if it holds something that ends a field or a record, its own quotes doubled. (The writer
/// of the `csv` crate copies every field through a buffer of its own and takes half as many instructions again.)
fn push_text(out: &mut String, text: &str, texts: Texts) {
    let guard = if texts == Texts::Guarded && is_formula(text) { "'" } else { "" };
    let bytes = text.as_bytes();
    if memchr::memchr3(b',', b'"', b'\n', bytes).is_none() && memchr::memchr(b'\r', bytes).is_none() {
        out.push_str(guard);
        out.push_str(text);
        return;
    }
    out.push('"');
    out.push_str(guard);
    let mut written = 0;
    for quote in memchr::memchr_iter(b'"', bytes) {
        out.push_str(&text[written..=quote]);
        // The second one comes with what follows.
        written = quote;
    }
    out.push_str(&text[written..]);
    out.push('"');
}

/// Whether a spreadsheet would take a text for a formula; numbers are none.
fn is_formula(text: &str) -> bool {
    matches!(text.as_bytes().first(), Some(b'=' | b'+' | b'-' | b'@' | b'\t' | b'\r'))
        && !text.parse::<f64>().is_ok_and(f64::is_finite)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use jarvis_perf::tables::{Column, Format};

    use super::*;

    fn column(header: &str, cells: Vec<Cell>) -> Column {
        Column { header: header.to_owned(), format: Format::Plain, cells }
    }

    fn text(s: &str) -> Cell {
        Cell::Text(Arc::from(s))
    }

    fn csv(columns: Vec<Column>, texts: Texts) -> String {
        let table = Table { name: "t".to_owned(), columns };
        String::from_utf8(render(&table, texts)).unwrap()
    }

    #[test]
    fn whole_numbers_follow_their_column() {
        let columns = vec![
            column("whole", vec![Cell::Int(8), Cell::Int(-3)]),
            column("gap", vec![Cell::Int(8), Cell::Missing]),
            column("mixed", vec![Cell::Int(8), Cell::Float(0.5)]),
            column("none", vec![Cell::Int(8), Cell::Float(f64::NAN)]),
            column("bools", vec![Cell::Bool(true), Cell::Missing]),
            column("words", vec![Cell::Int(8), text("auto")]),
            column("flags", vec![Cell::Int(8), Cell::Bool(false)]),
        ];
        assert_eq!(
            csv(columns, Texts::Exact),
            "whole,gap,mixed,none,bools,words,flags\n8,8.0,8.0,8.0,True,8,8\n-3,,0.5,,,auto,False\n"
        );
    }

    #[test]
    fn floats_as_python_prints_them() {
        let cells = [31.903_115_234_375, 100.0, 1e-5, 1.2e16, f64::INFINITY, f64::NEG_INFINITY, -0.0, 1e-4];
        let got = csv(vec![column("x", cells.map(Cell::Float).to_vec())], Texts::Guarded);
        assert_eq!(got, "x\n31.903115234375\n100.0\n1e-05\n1.2e+16\ninf\n-inf\n-0.0\n0.0001\n");
    }

    #[test]
    fn fields_are_quoted_only_where_they_must_be() {
        let cells = ["(1, 2)", "[1]", "say \"hi\"", "a\nb", "a\rb", "it's", " padded ", "µs"].map(text).to_vec();
        assert_eq!(
            csv(vec![column("Kernel Time (µs)", cells)], Texts::Exact),
            "Kernel Time (µs)\n\"(1, 2)\"\n[1]\n\"say \"\"hi\"\"\"\n\"a\nb\"\n\"a\rb\"\nit's\n padded \nµs\n"
        );
    }

    /// Each look at what is left of the field took as long as the field is.
    #[test]
    fn a_field_of_a_hundred_megabytes_takes_no_longer_than_its_length() {
        let long = format!("{},\"", "x".repeat(100 << 20));
        let began = std::time::Instant::now();
        let written = csv(vec![column("x", vec![text(&long)])], Texts::Guarded);
        assert_eq!(written.len(), "x\n".len() + long.len() + 3 + "\n".len());
        assert!(began.elapsed().as_secs() < 20, "{:?}", began.elapsed());
    }

    #[test]
    fn a_table_without_rows_is_its_header_and_one_without_columns_a_line_end() {
        let header = ["bin_start", "bin_end", "count"].map(|h| column(h, Vec::new()));
        assert_eq!(csv(header.to_vec(), Texts::Exact), "bin_start,bin_end,count\n");
        assert_eq!(csv(Vec::new(), Texts::Exact), "\n");
    }

    #[test]
    fn formulas_are_disarmed_unless_the_text_must_be_exact() {
        let cells = ["=1+1", "@x", "+cmd", "-x", "\t=1", "-1.5", "+3", "-inf", "aten::mm", "(-1,)"];
        let columns = || vec![column("=h", cells.map(text).to_vec()), column("n", vec![Cell::Int(-1); cells.len()])];
        let exact = csv(columns(), Texts::Exact);
        assert!(exact.starts_with("=h,n\n=1+1,-1\n@x,-1\n"), "{exact}");
        assert_eq!(
            csv(columns(), Texts::Guarded),
            "'=h,n\n'=1+1,-1\n'@x,-1\n'+cmd,-1\n'-x,-1\n'\t=1,-1\n-1.5,-1\n+3,-1\n'-inf,-1\naten::mm,-1\n\"(-1,)\",-1\n"
        );
    }

    #[test]
    fn each_table_has_a_file() {
        let table = |name: &str| Table { name: name.to_owned(), columns: Vec::new() };
        let tables = [table("gpu_timeline"), table("a/../b"), table("GPU_timeline")];
        let made = files(&tables, "csvs", Texts::Exact);
        let paths: Vec<String> = made.map(|f| f.path.to_string_lossy().replace('\\', "/")).collect();
        assert_eq!(paths, ["csvs/gpu_timeline.csv", "csvs/a_.._b.csv", "csvs/GPU_timeline~2.csv"]);
    }

    #[test]
    fn fields_are_quoted_as_the_csv_crate_quotes_them() {
        let texts = ["plain", "", "a,b", "say \"x\"", "\"", "line\nend", "cr\rhere", "é, ü", " space ", "'", "a;b\tc"];
        let cells = || texts.iter().map(|t| text(t)).collect::<Vec<_>>();
        let got = csv(vec![column("first", cells()), column("a,\"b\"", cells())], Texts::Exact);
        let mut writer = ::csv::WriterBuilder::new().from_writer(Vec::new());
        writer.write_record(["first", "a,\"b\""]).unwrap();
        for text in texts {
            writer.write_record([text, text]).unwrap();
        }
        assert_eq!(got, String::from_utf8(writer.into_inner().unwrap()).unwrap());
    }
}
