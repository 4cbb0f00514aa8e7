//! The blocks of the framework's kernels are as many as their tensors ask for, in every trace that records both.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use jarvis_perf::call::{Dims, InputLists};
use jarvis_perf::count::Count;
use jarvis_perf::dtype;
use jarvis_perf::launch::{LIST_CHUNK, Launch, list_elements, picked};
use jarvis_perf::parity::Quirks;
use jarvis_perf::tables::ArgLists;
use jarvis_trace::{Arg, EventId, EventKind, Key, ReadOptions, Trace};

use crate::support::{fixtures, shared_traces};

fn traces(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            traces(&path, found);
        } else if path.to_str().is_some_and(|name| name.ends_with(".json.gz")) {
            found.push(path);
        }
    }
}

fn launch(trace: &Trace, kernel: EventId) -> Option<Launch> {
    let sizes = |key: &str| match trace.arg(kernel, key)? {
        Arg::Json(text) => serde_json::from_str(text).ok(),
        _ => None,
    };
    Some(Launch { grid: sizes("grid")?, block: sizes("block")? })
}

/// Kernels by the call that launched them.
fn calls(trace: &Trace) -> Vec<(EventId, Vec<EventId>)> {
    let of_kind = |kind| trace.events().filter(move |&e| trace.kind(e) == kind);
    let id = |e| trace.int(e, Key::ExternalId);
    let ops: BTreeMap<i64, EventId> = of_kind(EventKind::CpuOp).filter_map(|e| Some((id(e)?, e))).collect();
    let mut calls: BTreeMap<EventId, Vec<EventId>> = BTreeMap::new();
    for kernel in of_kind(EventKind::Kernel) {
        if let Some(&op) = id(kernel).and_then(|id| ops.get(&id)) {
            calls.entry(op).or_default().push(kernel);
        }
    }
    calls.into_iter().collect()
}

/// Sizes of the tensors of the first slot, if it is a recorded list.
fn list(inputs: &InputLists) -> Option<&[Vec<i64>]> {
    match inputs.dims.as_ref()?.first()? {
        Dims::List(shapes) if !shapes.is_empty() => Some(shapes),
        _ => None,
    }
}

/// Checks the calls of one trace; how many lists, gathers and placements it checked.
fn check(path: &Path) -> [usize; 3] {
    let trace = Trace::open(path, &ReadOptions::default()).unwrap();
    let (lists, mut checked) = (ArgLists::default(), [0; 3]);
    for (op, kernels) in calls(&trace) {
        let names: Vec<&str> = kernels.iter().map(|&k| trace.name(k)).collect();
        let launches: Vec<Option<Launch>> = kernels.iter().map(|&k| launch(&trace, k)).collect();
        let place = || format!("{}: {} {}", path.display(), trace.name(op), op.uid());
        let inputs = lists.of(&trace, op);
        if let (Some(found), Some(shapes)) = (list_elements(&names, &launches), list(&inputs)) {
            let full = shapes.iter().map(|shape| Count::of(shape).div_ceil(LIST_CHUNK).unwrap() * LIST_CHUNK).sum();
            let exact = shapes.iter().map(|shape| Count::of(shape)).sum();
            assert_eq!(found.most, full, "{}", place());
            assert!(found.least <= exact && exact <= found.most, "{}", place());
            checked[0] += 1;
        }
        // Rows of a table by an index of one dimension, which the trace has in full: table, dimension, index.
        if trace.name(op) == "aten::gather"
            && let Some([Dims::Shape(table), _, Dims::Shape(index), ..]) = inputs.dims.as_deref()
            && let Some(size) = dtype::size(&inputs.types.as_ref().unwrap()[0], &Quirks::NONE)
            && let Some(found) = picked(&names, &launches, Count::of(&table[1..]), size)
        {
            assert_eq!(found.elements, Count::of(index), "{}", place());
            assert_eq!(found.indices, Count::of(&index[..1]), "{}", place());
            // Without a hint of the row it is the row that the threads cover.
            let covered = picked(&names, &launches, Count::ZERO, size).unwrap();
            assert!(covered.elements >= found.elements, "{}", place());
            checked[1] += 1;
        }
        // Placing by index runs the same kernel as picking: a block for each 512 of the values, all of one row.
        if trace.name(op) == "aten::_index_put_impl_"
            && let Some([Dims::Shape(table), _, Dims::Shape(values), ..]) = inputs.dims.as_deref()
            && table.len() == 1
            && values.len() == 1
            && let Some(found) = picked(&names, &launches, Count::ONE, 1)
        {
            let blocks = Count::of(values).div_ceil(512_i64).unwrap();
            assert_eq!(found.elements, blocks * 512, "{}", place());
            checked[2] += 1;
        }
    }
    checked
}

#[test]
fn blocks_are_those_of_the_recorded_tensors() {
    let shared = shared_traces();
    if shared.is_none() {
        println!("only the traces of the repository: those of ../shared are absent");
    }
    let mut paths = Vec::new();
    traces(&shared.clone().unwrap_or_else(fixtures), &mut paths);
    let mut sum = [0; 3];
    for path in paths {
        let checked = check(&path);
        if checked != [0; 3] {
            println!("{}: {checked:?} lists, gathers and placements", path.display());
        }
        sum = std::array::from_fn(|i| sum[i] + checked[i]);
    }
    assert!(sum[0] >= 4, "only {} lists checked", sum[0]);
    assert!(shared.is_none() || sum[1] >= 20 && sum[2] >= 4, "only {sum:?} calls checked");
}
