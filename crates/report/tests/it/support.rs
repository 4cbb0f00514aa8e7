//! Tables for the tests.

use std::sync::Arc;

use jarvis_perf::tables::{Cell, Column, Format, Table};

pub(crate) fn text(s: &str) -> Cell {
    Cell::Text(Arc::from(s))
}

pub(crate) fn column(header: &str, format: Format, cells: Vec<Cell>) -> Column {
    Column { header: header.to_owned(), format, cells }
}

pub(crate) fn table(name: &str, columns: Vec<Column>) -> Table {
    Table { name: name.to_owned(), columns }
}

/// Two sheets with one cell of every kind that gives trouble.
pub(crate) fn awkward() -> Vec<Table> {
    let names = [
        "aten::mm",
        "=HYPERLINK(\"http://x\")",
        "+1",
        "-x",
        "@SUM(A1)",
        "a\nb",
        "µs ✓ 😀",
        "\u{1b}[0m _x0041_ \u{ffff}",
    ];
    let times = [31.903_115_234_375, 1e-7, 1.2e16, -0.5, 0.0, f64::INFINITY, f64::NEG_INFINITY, f64::NAN];
    let counts = [8, -1, 0, 1 << 40, (1 << 53) + 1, 7, 7, 7];
    vec![
        table(
            "gpu_timeline",
            vec![
                column("name", Format::Plain, names.map(text).to_vec()),
                column("time ms", Format::Time, times.map(Cell::Float).to_vec()),
                column("percent", Format::Percent, times.map(Cell::Float).to_vec()),
                column("TFLOPS/s", Format::Quantity, times.map(Cell::Float).to_vec()),
                column("Count", Format::Plain, counts.map(Cell::Int).to_vec()),
                column("is_recompute", Format::Plain, (0..8).map(|i| Cell::Bool(i % 2 == 0)).collect()),
                column("nothing", Format::Plain, vec![Cell::Missing; 8]),
            ],
        ),
        table("short_kernel_histogram", vec![column("bin_start", Format::Time, Vec::new())]),
        table("no_columns", Vec::new()),
    ]
}
