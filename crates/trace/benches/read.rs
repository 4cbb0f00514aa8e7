//! Reading and tree building on recorded traces, on one thread: `cargo bench -p jarvis-trace`.

use std::io::Read;
use std::path::Path;

use divan::counter::BytesCount;
use divan::{Bencher, black_box};
use jarvis_trace::{Trace, Tree, TreeOptions};

/// Recordings of different make-up: operations with shapes, compiled code, a replayed graph.
const TRACES: [&str; 3] = ["attn_unfused", "lm_compiled_train", "decode_graphed"];

fn main() {
    divan::main();
}

fn packed(name: &str) -> Vec<u8> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/h200").join(format!("{name}.json.gz"));
    std::fs::read(path).unwrap_or_default()
}

fn text(name: &str) -> Vec<u8> {
    let mut text = Vec::new();
    // What can't be read is no trace, which the bench then says.
    let _ = flate2::read::GzDecoder::new(packed(name).as_slice()).read_to_end(&mut text);
    text
}

/// The JSON text: parsing alone.
#[divan::bench(args = TRACES)]
fn parse(bencher: Bencher, name: &str) {
    let text = text(name);
    bencher.counter(BytesCount::of_slice(&text)).bench_local(|| Trace::parse(black_box(&text)));
}

/// The compressed file: unpacking and parsing one after the other.
#[divan::bench(args = TRACES)]
fn unpack_and_parse(bencher: Bencher, name: &str) {
    let packed = packed(name);
    bencher.counter(BytesCount::of_slice(&text(name))).bench_local(|| Trace::parse(black_box(&packed)));
}

/// The call tree.
#[divan::bench(args = TRACES)]
fn tree(bencher: Bencher, name: &str) {
    let Ok(trace) = Trace::parse(&text(name)) else { return };
    bencher.bench_local(|| Tree::build(black_box(&trace), TreeOptions::default().with_python()));
}
