//! Questions to the call tree: which operation launched each kernel, and in which module.
//!
//! `cargo run --release --example kernels_of_ops -- trace.json.gz`

use std::error::Error;
use std::io::Write;
use std::path::Path;

use jarvis::trace::{Ns, ReadOptions, Trace, Tree, TreeOptions};

/// Does it; the text goes to `out`.
pub(crate) fn run(path: &Path, out: &mut impl Write) -> Result<(), Box<dyn Error>> {
    let trace = Trace::open(path, &ReadOptions::default())?;
    let tree = Tree::build(&trace, TreeOptions::default().with_python());
    let view = tree.view(&trace);
    for kernel in tree.linked_gpu_events() {
        let operation = view.launcher_of(kernel).map_or("-", |e| trace.name(e));
        let module = view.module_of(kernel).map_or("-", |e| trace.name(e));
        let us = trace.dur(kernel).unwrap_or(Ns(0)).0 as f64 / 1e3;
        writeln!(out, "{us:10.1} µs  {operation}  in {module}: {}", trace.name(kernel))?;
    }
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    let path = std::env::args_os().nth(1).ok_or("usage: kernels_of_ops TRACE")?;
    run(Path::new(&path), &mut std::io::stdout())
}
