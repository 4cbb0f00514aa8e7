//! Times the writers on 50,000 rows of 30 columns: 6 of text, 4 of whole numbers, 20 of floats.
//!
//! `cargo run --release -p jarvis-report --example render_time`

use std::hint::black_box;
use std::io::Write as _;
use std::sync::Arc;
use std::time::Instant;

use jarvis_perf::tables::{Cell, Column, Format, Table};
use jarvis_report::render::{csv, xlsx};

const ROWS: usize = 50_000;
const RUNS: usize = 5;

fn table() -> Table {
    let text =
        |k: usize, i: usize| Cell::Text(Arc::from(format!("aten::operation_{k}_{} (({i}, 4096), (4096, 64))", i % 97)));
    let whole = |k: usize, i: usize| Cell::Int((i * (k + 3)) as i64);
    let float = |k: usize, i: usize| Cell::Float(((i * 7919 + k) as f64).sqrt() * 1.000_1);
    let column = |header: String, format, cell: &dyn Fn(usize) -> Cell| Column {
        header,
        format,
        cells: (0..ROWS).map(cell).collect(),
    };
    let mut columns = Vec::new();
    columns.extend((0..6).map(|k| column(format!("text {k}"), Format::Plain, &|i| text(k, i))));
    columns.extend((0..4).map(|k| column(format!("whole {k}"), Format::Plain, &|i| whole(k, i))));
    columns.extend((0..20).map(|k| column(format!("float {k}"), Format::Time, &|i| float(k, i))));
    Table { name: "large".to_owned(), columns }
}

/// The best of a few runs, in seconds.
fn best(mut work: impl FnMut() -> usize) -> (f64, usize) {
    let mut size = 0;
    let times = (0..RUNS).map(|_| {
        let start = Instant::now();
        size = black_box(work());
        start.elapsed().as_secs_f64()
    });
    let time = times.fold(f64::INFINITY, f64::min);
    (time, size)
}

fn main() -> std::io::Result<()> {
    let table = table();
    let mut out = std::io::stdout().lock();
    let (time, size) = best(|| csv::render(&table, csv::Texts::Guarded).len());
    writeln!(out, "csv   {time:.3} s, {:.1} MB", size as f64 / 1e6)?;
    let tables = [table];
    let (time, size) = best(|| xlsx::render(&tables).map_or(0, |r| r.bytes.len()));
    writeln!(out, "xlsx  {time:.3} s, {:.1} MB", size as f64 / 1e6)
}
