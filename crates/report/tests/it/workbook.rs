//! What another reader finds in the workbook.

use std::io::Cursor;

use calamine::{Data, Range, Reader, Xlsx};
use jarvis_perf::tables::{Cell, Format, Table};
use jarvis_report::render::xlsx::{self, Cuts};

use crate::support::{awkward, column, table, text};

fn read(bytes: &[u8]) -> Xlsx<Cursor<Vec<u8>>> {
    Xlsx::new(Cursor::new(bytes.to_vec())).unwrap()
}

fn sheet(bytes: &[u8], name: &str) -> Range<Data> {
    read(bytes).worksheet_range(name).unwrap()
}

/// What a cell must read back as.
fn expected(cell: &Cell) -> Data {
    match cell {
        Cell::Missing => Data::Empty,
        Cell::Bool(b) => Data::Bool(*b),
        Cell::Int(i) if i.unsigned_abs() > 1 << 53 => Data::String(i.to_string()),
        Cell::Int(i) => Data::Float(*i as f64),
        Cell::Float(x) if x.is_nan() => Data::Empty,
        Cell::Float(x) if x.is_infinite() => Data::String(if *x > 0.0 { "inf" } else { "-inf" }.to_owned()),
        Cell::Float(x) => Data::Float(*x),
        Cell::Text(t) => Data::String(t.to_string()),
    }
}

fn check(range: &Range<Data>, table: &Table) {
    for (c, column) in table.columns.iter().enumerate() {
        assert_eq!(range.get_value((0, c as u32)), Some(&Data::String(column.header.clone())));
        for (r, cell) in column.cells.iter().enumerate() {
            let found = range.get_value((r as u32 + 1, c as u32)).cloned().unwrap_or(Data::Empty);
            assert_eq!(found, expected(cell), "{} row {r}", column.header);
        }
    }
}

#[test]
fn every_cell_reads_back() {
    let tables = awkward();
    let rendered = xlsx::render(&tables).unwrap();
    assert!(rendered.cuts.is_empty());
    let names = read(&rendered.bytes).sheet_names();
    assert_eq!(names, ["gpu_timeline", "short_kernel_histogram", "no_columns"]);
    for table in &tables {
        check(&sheet(&rendered.bytes, &table.name), table);
    }
    let formulas = read(&rendered.bytes).worksheet_formula("gpu_timeline").unwrap();
    assert!(formulas.is_empty(), "no text became a formula");
}

/// A second's pause would show a clock in the file.
#[test]
fn the_same_tables_give_the_same_bytes() {
    let first = xlsx::render(&awkward()).unwrap();
    std::thread::sleep(std::time::Duration::from_millis(2100));
    assert_eq!(first, xlsx::render(&awkward()).unwrap());
}

#[test]
fn long_texts_are_cut_and_counted() {
    let exact = "x".repeat(32_767);
    let long = "x".repeat(32_768);
    // Three bytes and one unit each, so the cut falls between characters.
    let wide = "✓".repeat(40_000);
    let cells = [&exact, &long, &wide].map(|s| text(s)).to_vec();
    let rendered = xlsx::render(&[table("t", vec![column("kernel_details", Format::Plain, cells)])]).unwrap();
    assert_eq!(rendered.cuts, Cuts { texts: 2, rows: 0, columns: 0 });
    let range = sheet(&rendered.bytes, "t");
    let found = |row: u32| range.get_value((row, 0)).unwrap().to_string();
    assert_eq!(found(1), exact);
    for row in [2, 3] {
        assert_eq!(found(row).chars().count(), 32_767);
        assert!(found(row).ends_with("… [cut]"));
    }
}

#[test]
fn long_sheet_names_stay_apart() {
    let long = "unified_perf_summary_kl_overlap_with_more";
    let tables = [table(long, Vec::new()), table(&format!("{long}!"), Vec::new()), table("a/b", Vec::new())];
    let names = read(&xlsx::render(&tables).unwrap().bytes).sheet_names();
    assert_eq!(names, ["u_p_s_kl_overlap_with_more", "u_p_s_kl_overlap_with_more!", "a_b"]);
}

#[test]
fn no_tables_make_an_empty_workbook() {
    assert_eq!(read(&xlsx::render(&[]).unwrap().bytes).sheet_names(), ["empty"]);
}

/// Sheets too large for memory take another way; what is read back must not tell.
#[test]
fn large_sheets_read_back_too() {
    let rows = 50_001;
    let numbers = |k: usize| (0..rows).map(|i| Cell::Float((i * k) as f64 / 7.0)).collect();
    let mut columns: Vec<_> = (1..=10).map(|k| column(&format!("n{k}"), Format::Time, numbers(k))).collect();
    columns.push(column("name", Format::Plain, (0..rows).map(|i| text(&format!("kernel {}", i % 97))).collect()));
    let large = table("large", columns);
    let small = awkward().remove(0);
    let rendered = xlsx::render(&[small.clone(), large.clone()]).unwrap();
    check(&sheet(&rendered.bytes, "gpu_timeline"), &small);
    check(&sheet(&rendered.bytes, "large"), &large);
    assert_eq!(rendered, xlsx::render(&[small, large]).unwrap());
}

#[test]
fn the_header_is_frozen_and_has_a_filter() {
    let rendered = xlsx::render(&awkward()).unwrap();
    let part = |name: &str| part_of(&rendered.bytes, name);
    let xml = part("xl/worksheets/sheet1.xml");
    assert!(xml.contains("state=\"frozen\"") && xml.contains("ySplit=\"1\""), "{xml}");
    assert!(xml.contains("<autoFilter ref=\"A1:G9\""), "{xml}");
    assert!(xml.contains("<cols>"));
    let styles = part("xl/styles.xml");
    assert!(styles.contains("<b/>") && styles.contains("[&gt;=1000]#,##0;[&gt;=1]0.00;0.0000##"), "{styles}");
}

#[test]
fn only_a_cell_after_a_gap_tells_its_place() {
    let xml = part_of(&xlsx::render(&awkward()).unwrap().bytes, "xl/worksheets/sheet1.xml");
    // In the last row three numbers are missing, and the column after the last has none at all.
    let places: Vec<&str> = xml.split("<c r=\"").skip(1).filter_map(|cell| cell.split('"').next()).collect();
    assert_eq!(places, ["E9"]);
    assert_eq!(xml.matches("<row r=\"").count(), 9);
}

/// One file inside the workbook.
fn part_of(bytes: &[u8], name: &str) -> String {
    let mut archive = zip::ZipArchive::new(Cursor::new(bytes)).unwrap();
    std::io::read_to_string(archive.by_name(name).unwrap()).unwrap()
}
