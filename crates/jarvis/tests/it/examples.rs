//! The programs of `examples/`, run on a fixture: the library does its work without the command line.
#![allow(dead_code, reason = "their `main` is for the command line")]

use crate::support::fixture;

#[path = "../../examples/findings.rs"]
mod findings;
#[path = "../../examples/idle.rs"]
mod idle;
#[path = "../../examples/kernels_of_ops.rs"]
mod kernels_of_ops;
#[path = "../../examples/tables.rs"]
mod tables;

#[test]
fn every_example_says_what_is_in_the_trace() {
    let path = fixture("h200/attn_unfused.json.gz");
    let mut out = Vec::new();
    idle::run(&path, &mut out).unwrap();
    kernels_of_ops::run(&path, &mut out).unwrap();
    tables::run(&path, &mut out).unwrap();
    findings::run(&path, &mut out).unwrap();
    let text = String::from_utf8(out).unwrap();
    for part in [
        "idle ",
        "aten::bmm  in nn.Module",
        "% of the roofline  aten::",
        "unified_perf_summary: ",
        "1. Unfused attention in ",
    ] {
        assert!(text.contains(part), "{part} is missing in\n{text}");
    }
}
