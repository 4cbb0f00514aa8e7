//! Tables as a workbook: one sheet a table, in the order given.
//!
//! Texts are stored as texts, so nothing a trace contains can become a formula. A missing number is a blank cell, an
//! infinite one the text `inf`. The same tables give the same bytes: the creation time is fixed.
//!
//! What a workbook can't hold is cut and counted in [`Cuts`]: the CSV files have it all.

use std::ops::AddAssign;
use std::sync::Arc;

use jarvis_perf::tables::{Cell, Column, Format, Table};
use rust_xlsxwriter::{
    DocProperties, ExcelDateTime, Format as Style, FormatAlign, Workbook, Worksheet, XlsxError as WriterError,
};

use crate::render::names;

/// Longest text of a cell, in UTF-16 units.
const TEXT_LIMIT: usize = 32_767;
/// Stands at the end of a text that was cut.
const CUT_MARK: &str = "… [cut]";
/// Longest name of a sheet, in UTF-16 units.
const NAME_LIMIT: usize = 31;
/// Characters a sheet's name can't have; of the apostrophe only its first and last place are forbidden.
const NOT_IN_NAMES: &[char] = &['*', '?', ':', '[', ']', '\\', '/', '\''];
/// Rows and columns of a sheet, header included.
const ROW_LIMIT: usize = 1_048_576;
const COLUMN_LIMIT: usize = 16_384;
/// Whole numbers beyond this are not exact as a cell's number and are stored as text.
const EXACT: u64 = 1 << 53;
/// Deflate level: level 6 takes almost twice as long for a file 6 % smaller.
const LEVEL: u8 = 3;
/// Sheets of more cells than this are written through a temporary file as they come: 1.5 million cells take 2 MB
/// of memory instead of 270.
const CELLS_IN_MEMORY: usize = 2_000;
/// Rows that decide a column's width.
const SAMPLE: usize = 200;
/// Column widths in characters.
const WIDTHS: std::ops::RangeInclusive<usize> = 8..=48;

/// What did not fit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Cuts {
    /// Texts longer than a cell can be.
    pub texts: usize,
    /// Rows beyond the last a sheet can have.
    pub rows: usize,
    /// Columns beyond the last a sheet can have.
    pub columns: usize,
}

impl Cuts {
    /// Whether everything is there.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

impl AddAssign for Cuts {
    fn add_assign(&mut self, other: Self) {
        self.texts += other.texts;
        self.rows += other.rows;
        self.columns += other.columns;
    }
}

/// A finished workbook.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rendered {
    /// The file.
    pub bytes: Vec<u8>,
    /// What did not fit.
    pub cuts: Cuts,
}

/// The workbook could not be made.
#[derive(Debug, thiserror::Error)]
#[error("the workbook could not be made: {0}")]
pub struct XlsxError(#[from] WriterError);

/// A workbook of these tables. Without tables it has one empty sheet, since a workbook must have one.
pub fn render(tables: &[Table]) -> Result<Rendered, XlsxError> {
    render_hiding(tables, &[])
}

/// The same with some columns hidden: for each table, whether each column is; what is not said is shown.
pub fn render_hiding(tables: &[Table], hidden: &[Vec<bool>]) -> Result<Rendered, XlsxError> {
    let mut workbook = Workbook::new();
    workbook.set_zip_compression_level(LEVEL);
    let created = ExcelDateTime::from_ymd(2000, 1, 1)?;
    workbook.set_properties(&DocProperties::new().set_author("jarvis").set_creation_datetime(&created));
    let styles = Styles::new();
    let mut cuts = Cuts::default();
    let names = names::unique(tables.iter().map(|t| t.name.as_str()), NAME_LIMIT, NOT_IN_NAMES);
    for (at, (table, name)) in tables.iter().zip(&names).enumerate() {
        let sheet = new_sheet(&mut workbook, table)?;
        sheet.set_name(name)?;
        let hides = hidden.get(at).map_or(&[][..], Vec::as_slice);
        for (column, _) in (0_u16..).zip(hides.iter().take(COLUMN_LIMIT)).filter(|(_, hide)| **hide) {
            sheet.set_column_hidden(column)?;
        }
        cuts += write_sheet(sheet, table, &styles)?;
    }
    if tables.is_empty() {
        workbook.add_worksheet().set_name("empty")?;
    }
    Ok(Rendered { bytes: workbook.save_to_buffer()?, cuts })
}

fn new_sheet<'w>(workbook: &'w mut Workbook, table: &Table) -> Result<&'w mut Worksheet, XlsxError> {
    let large = table.rows().saturating_mul(table.columns.len()) > CELLS_IN_MEMORY;
    // Where no temporary file can be made, memory has to do: setting the folder is the writer's own test for that.
    if large && workbook.set_tempdir(std::env::temp_dir()).is_ok() {
        return Ok(workbook.add_worksheet_with_low_memory()?);
    }
    Ok(workbook.add_worksheet())
}

/// Cell styles, one object each: the writer numbers them by identity.
struct Styles {
    header: Style,
    plain: Style,
    time: Style,
    percent: Style,
    quantity: Style,
}

impl Styles {
    fn new() -> Self {
        let number = |format: &str| Style::new().set_num_format(format);
        Self {
            header: Style::new().set_bold().set_align(FormatAlign::Left),
            plain: Style::new(),
            time: number("#,##0.00"),
            percent: number("0.0"),
            // Whole numbers from a thousand on, decimals below, more of them below one.
            quantity: number("[>=1000]#,##0;[>=1]0.00;0.0000##"),
        }
    }

    fn of(&self, format: Format) -> &Style {
        match format {
            Format::Plain => &self.plain,
            Format::Time => &self.time,
            Format::Percent => &self.percent,
            Format::Quantity => &self.quantity,
        }
    }
}

fn write_sheet(sheet: &mut Worksheet, table: &Table, styles: &Styles) -> Result<Cuts, XlsxError> {
    let columns = &table.columns[..table.columns.len().min(COLUMN_LIMIT)];
    let rows = table.rows().min(ROW_LIMIT - 1);
    let mut cuts = Cuts { texts: 0, rows: table.rows() - rows, columns: table.columns.len() - columns.len() };
    let Some(last) = (columns.len() as u16).checked_sub(1) else { return Ok(cuts) };
    // Large sheets are written as they come, so all that stands before the rows is set first, and rows go in order.
    for (at, column) in (0_u16..).zip(columns) {
        sheet.set_column_width(at, width(column) as f64)?;
    }
    sheet.set_freeze_panes(1, 0)?;
    sheet.autofilter(0, 0, rows as u32, last)?;
    for (at, column) in (0_u16..).zip(columns) {
        let header = fitting(&column.header, &mut cuts);
        sheet.write_string_with_format(0, at, header.as_ref(), &styles.header)?;
    }
    for row in 0..rows {
        for (at, column) in (0_u16..).zip(columns) {
            let cell = column.cells.get(row).unwrap_or(&Cell::Missing);
            write_cell(sheet, (row as u32 + 1, at), cell, styles.of(column.format), &mut cuts)?;
        }
    }
    Ok(cuts)
}

fn write_cell(
    sheet: &mut Worksheet,
    (row, column): (u32, u16),
    cell: &Cell,
    style: &Style,
    cuts: &mut Cuts,
) -> Result<(), XlsxError> {
    match cell {
        Cell::Missing => {}
        Cell::Bool(b) => {
            sheet.write_boolean(row, column, *b)?;
        }
        // Whole numbers need no decimals, whatever the column's other numbers need.
        Cell::Int(i) if i.unsigned_abs() <= EXACT => {
            sheet.write_number(row, column, *i as f64)?;
        }
        Cell::Int(i) => {
            sheet.write_string(row, column, i.to_string())?;
        }
        Cell::Float(x) if x.is_nan() => {}
        Cell::Float(x) if x.is_infinite() => {
            sheet.write_string(row, column, if *x > 0.0 { "inf" } else { "-inf" })?;
        }
        Cell::Float(x) => {
            sheet.write_number_with_format(row, column, *x, style)?;
        }
        Cell::Text(text) => {
            sheet.write_string(row, column, fitting(text, cuts).as_ref())?;
        }
    }
    Ok(())
}

/// The text, cut where it is longer than a cell can be.
fn fitting(text: &str, cuts: &mut Cuts) -> Arc<str> {
    let kept = names::shorten(text, TEXT_LIMIT);
    if kept.len() == text.len() {
        return Arc::from(text);
    }
    cuts.texts += 1;
    let room = TEXT_LIMIT - CUT_MARK.encode_utf16().count();
    Arc::from(format!("{}{CUT_MARK}", names::shorten(text, room)))
}

/// Characters that show the header and a sample of the cells.
fn width(column: &Column) -> usize {
    // Two more for the filter's arrow.
    let header = column.header.chars().count() + 2;
    let cells = column.cells.iter().take(SAMPLE).map(|cell| shown(cell, column.format)).max().unwrap_or(0);
    header.max(cells + 1).clamp(*WIDTHS.start(), *WIDTHS.end())
}

/// About how many characters a cell shows.
fn shown(cell: &Cell, format: Format) -> usize {
    match cell {
        Cell::Missing => 0,
        Cell::Bool(_) => 5,
        Cell::Int(i) => i.to_string().len(),
        Cell::Float(x) => {
            let whole = format!("{:.0}", x.trunc()).len();
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
