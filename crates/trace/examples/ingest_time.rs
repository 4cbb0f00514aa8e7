//! Times reading alone: `cargo run --release --example ingest_time FILE [RUNS]`.
#![allow(clippy::print_stdout, reason = "an example prints")]
use std::time::Instant;

use jarvis_trace::{ReadOptions, Trace};

fn main() -> Result<(), jarvis_trace::ReadError> {
    let args: Vec<String> = std::env::args().collect();
    let runs = args.get(2).and_then(|n| n.parse().ok()).unwrap_or(5);
    let threads = args.get(3).and_then(|n| n.parse().ok()).unwrap_or(2);
    for _ in 0..runs {
        let start = Instant::now();
        let trace = Trace::open(args[1].as_ref(), &ReadOptions { threads })?;
        let took = start.elapsed();
        println!("{} events, {:.1} ms", trace.len(), took.as_secs_f64() * 1e3);
    }
    Ok(())
}
