//! The result as a Markdown table.

use std::fmt::Write as _;
use std::time::Duration;

use super::candidates::{GNU_GZIP, INFLATE};
use super::measure::Samples;
use super::trace::{Container, Trace};

/// Runs of one candidate on one trace.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    pub(crate) trace: Trace,
    pub(crate) label: String,
    pub(crate) samples: Samples,
}

const HEADER: &str = "\
| trace | file | command | wall s | median s | cpu s | × inflate | × gzip -dc | MB/s | events/s | peak MiB | peak / JSON | growth | cpu growth |
|---|---|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|
";

/// Draws the rows. Ratios are to the yardsticks on the compressed file of the same trace.
pub(crate) fn markdown(rows: &[Row]) -> String {
    let mut text = HEADER.to_owned();
    for row in rows {
        let wall = row.samples.best();
        let to = |label: &str| ratio(wall, best(rows, &row.trace.name, label));
        let trace = &row.trace;
        let file = match trace.container {
            Container::Gzip => format!("gz {} MB", megabytes(trace.file_bytes)),
            Container::Plain => format!("text {} MB", megabytes(trace.file_bytes)),
        };
        let _ = writeln!(
            text,
            "| {} | {file} | {} | {} | {} | {} | {} | {} | {:.0} | {} | {:.1} | {:.3} | {} | {} |",
            trace.name,
            row.label,
            seconds(wall),
            seconds(row.samples.median()),
            seconds(row.samples.cpu()),
            to(INFLATE),
            to(GNU_GZIP),
            trace.json_bytes as f64 / 1e6 / wall.as_secs_f64(),
            thousands(trace.events as f64 / wall.as_secs_f64()),
            row.samples.peak_bytes() as f64 / f64::from(1 << 20),
            row.samples.peak_bytes() as f64 / trace.json_bytes as f64,
            growth(rows, row, Samples::best),
            growth(rows, row, Samples::cpu),
        );
    }
    text
}

fn best(rows: &[Row], trace: &str, label: &str) -> Option<Duration> {
    rows.iter().find(|row| row.trace.name == trace && row.label == label).map(|row| row.samples.best())
}

fn ratio(wall: Duration, base: Option<Duration>) -> String {
    base.map_or_else(String::new, |base| format!("{:.2}", wall.as_secs_f64() / base.as_secs_f64()))
}

/// The exponent with which time grew since the next smaller generated trace: 1 is linear.
fn growth(rows: &[Row], row: &Row, time: fn(&Samples) -> Duration) -> String {
    if !row.trace.name.starts_with("generated") {
        return String::new();
    }
    let smaller = rows
        .iter()
        .filter(|other| other.label == row.label && other.trace.container == row.trace.container)
        .filter(|other| other.trace.name.starts_with("generated") && other.trace.json_bytes < row.trace.json_bytes)
        .max_by_key(|other| other.trace.json_bytes);
    smaller.map_or_else(String::new, |other| {
        let times = time(&row.samples).as_secs_f64() / time(&other.samples).as_secs_f64();
        let bytes = row.trace.json_bytes as f64 / other.trace.json_bytes as f64;
        format!("{:.2}", times.ln() / bytes.ln())
    })
}

fn seconds(time: Duration) -> String {
    format!("{:.4}", time.as_secs_f64())
}

fn megabytes(bytes: u64) -> String {
    format!("{:.1}", bytes as f64 / 1e6)
}

/// A rate as `1.2 M` or `350 k`.
fn thousands(rate: f64) -> String {
    if rate >= 1e6 { format!("{:.2} M", rate / 1e6) } else { format!("{:.0} k", rate / 1e3) }
}

#[cfg(test)]
mod tests {
    use super::super::measure::Sample;
    use super::*;

    fn row(name: &str, json_bytes: u64, label: &str, ms: u64) -> Row {
        let trace = Trace {
            name: name.to_owned(),
            container: Container::Gzip,
            path: "t.json.gz".into(),
            json_bytes,
            file_bytes: json_bytes / 16,
            events: json_bytes / 250,
        };
        let mut samples = Samples::default();
        let wall = Duration::from_millis(ms);
        samples.push(Sample { wall, cpu: wall, peak_bytes: 4 << 20 });
        Row { trace, label: label.to_owned(), samples }
    }

    #[test]
    fn ratios_and_growth() {
        let rows = [
            row("generated 10MB", 10_000_000, INFLATE, 10),
            row("generated 10MB", 10_000_000, "jarvis info", 12),
            row("generated 100MB", 100_000_000, INFLATE, 100),
            row("generated 100MB", 100_000_000, GNU_GZIP, 400),
            row("generated 100MB", 100_000_000, "jarvis info", 240),
            row("real x", 50_000_000, "jarvis info", 60),
        ];
        let text = markdown(&rows);
        let lines: Vec<&str> = text.lines().skip(2).collect();
        assert_eq!(
            lines[1],
            "| generated 10MB | gz 0.6 MB | jarvis info | 0.0120 | 0.0120 | 0.0120 | 1.20 |  | 833 | 3.33 M | 4.0 | 0.419 |  |  |"
        );
        // 240 ms after 12 ms for ten times the bytes: ln 20 / ln 10.
        assert!(lines[4].contains("| 2.40 | 0.60 |") && lines[4].ends_with("| 1.30 | 1.30 |"), "{}", lines[4]);
        assert!(lines[5].ends_with("|  |  |"), "{}", lines[5]);
    }
}
