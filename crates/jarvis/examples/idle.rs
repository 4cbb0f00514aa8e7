//! How much of its time the GPU idles.
//!
//! `cargo run --release --example idle -- trace.json.gz`

use std::error::Error;
use std::io::Write;
use std::path::Path;

use jarvis::trace::{Ns, Population, ReadOptions, Timeline, Trace, Tree, TreeOptions};

/// Does it; the text goes to `out`.
pub(crate) fn run(path: &Path, out: &mut impl Write) -> Result<(), Box<dyn Error>> {
    let trace = Trace::open(path, &ReadOptions::default())?;
    let tree = Tree::build(&trace, TreeOptions::default());
    let timeline = Timeline::<Ns>::of(&trace, &Population::All.of(&trace, &tree), None).ok_or("no GPU events")?;
    let percent = 100.0 * timeline.idle.0 as f64 / timeline.total.0 as f64;
    writeln!(out, "idle {percent:.1}% of {:.2} ms", timeline.total.as_ms())?;
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    let path = std::env::args_os().nth(1).ok_or("usage: idle TRACE")?;
    run(Path::new(&path), &mut std::io::stdout())
}
