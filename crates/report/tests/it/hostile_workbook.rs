//! Workbooks that no program writes: reading them gives tables or an error, never a crash and never all the memory.

use std::io::{Cursor, Read, Write};

use jarvis_analyze::compare::reports::read;
use jarvis_perf::tables::{Cell, Column, Format, Table};
use jarvis_report::render::xlsx;
use zip::write::SimpleFileOptions;

fn workbook() -> Vec<u8> {
    let column = |header: &str, cells: Vec<Cell>| Column { header: header.to_owned(), format: Format::Plain, cells };
    let columns = vec![
        column("name", vec![Cell::Text("aten::mm".into()), Cell::Text("aten::add".into())]),
        column("Count", vec![Cell::Int(3), Cell::Missing]),
        column("time", vec![Cell::Float(1.5), Cell::Float(f64::INFINITY)]),
        column("flag", vec![Cell::Bool(true), Cell::Bool(false)]),
    ];
    xlsx::render(&[Table { name: "GEMM".to_owned(), columns }]).unwrap().bytes
}

/// The workbook with one of its parts rewritten.
fn with_part(book: &[u8], part: &str, change: impl Fn(&str) -> String) -> Vec<u8> {
    let mut archive = zip::ZipArchive::new(Cursor::new(book)).unwrap();
    let mut out = zip::ZipWriter::new(Cursor::new(Vec::new()));
    for i in 0..archive.len() {
        let mut file = archive.by_index(i).unwrap();
        let (name, mut text) = (file.name().unwrap().into_owned(), String::new());
        file.read_to_string(&mut text).unwrap();
        out.start_file(&name, SimpleFileOptions::default()).unwrap();
        let text = if name == part { change(&text) } else { text };
        out.write_all(text.as_bytes()).unwrap();
    }
    out.finish().unwrap().into_inner()
}

#[test]
fn what_was_written_is_read() {
    let tables = read::workbook(&workbook()).unwrap();
    let table = &tables[0];
    assert_eq!((table.name.as_str(), table.rows(), table.columns.len()), ("GEMM", 2, 4));
    assert_eq!(table.column("Count").unwrap().cells, [Cell::Float(3.0), Cell::Missing]);
    assert_eq!(table.column("time").unwrap().cells, [Cell::Float(1.5), Cell::Float(f64::INFINITY)]);
    assert_eq!(table.column("flag").unwrap().cells, [Cell::Bool(true), Cell::Bool(false)]);
}

#[test]
fn damaged_workbooks_do_no_harm() {
    let book = workbook();
    for at in (0..book.len()).step_by(7) {
        let mut damaged = book.clone();
        damaged[at] ^= 0x55;
        let _ = read::workbook(&damaged);
        let _ = read::workbook(&book[..at]);
    }
}

#[test]
fn odd_cells_do_no_harm() {
    let book = workbook();
    let sheet = "xl/worksheets/sheet1.xml";
    // One cell in the far corner, and one that is no place at all.
    for place in ["XFD1048576", "A1048576", "A0", "0", "", "ZZZZZZZZZZZZ9", "A99999999999999999999", "A-1", "é1"] {
        let moved = with_part(&book, sheet, |text| text.replace("\"B2\"", &format!("\"{place}\"")));
        match read::workbook(&moved) {
            Ok(tables) => assert!(tables.iter().all(|t| t.rows() <= 1_048_576)),
            Err(error) => assert!(!error.to_string().is_empty() && !error.help().is_empty()),
        }
    }
    for (from, to) in
        [("<v>0</v>", "<v>999999999</v>"), ("<v>0</v>", "<v>-1</v>"), ("<v>3</v>", "<v>x</v>"), ("</row>", "")]
    {
        let _ = read::workbook(&with_part(&book, sheet, |text| text.replace(from, to)));
    }
    let _ = read::workbook(&with_part(&book, "xl/workbook.xml", |text| text.replace("rId1", "rId9")));
    let _ = read::workbook(&with_part(&book, "xl/sharedStrings.xml", |_| String::new()));
}
