//! With parity, every cell of every sheet is the reference's.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use jarvis_perf::platform::Platform;
use jarvis_perf::tables::{Report, ReportOptions, build_report};
use jarvis_trace::{ReadOptions, Trace};

use crate::support::{Agreement, Case, Texts, cases, compare, fixtures, shared_traces};

pub(crate) fn report(case: &Case, options: ReportOptions) -> (Trace, Report) {
    let arch = case.arch.as_ref().map(|file| Platform::from_arch_json(&fs::read_to_string(file).unwrap()).unwrap());
    let trace = Trace::open(&case.trace, &ReadOptions::default()).unwrap();
    let report = build_report(&trace, &ReportOptions { platform: arch, ..options }).unwrap();
    (trace, report)
}

fn agreement(case: &Case) -> Agreement {
    let tables = report(case, ReportOptions::parity()).1.tables();
    let mut all = Agreement::default();
    let mut names = BTreeSet::new();
    for entry in fs::read_dir(&case.tables).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        let reference = Texts::parse(&fs::read_to_string(&path).unwrap());
        match tables.iter().find(|t| t.name == name) {
            Some(table) => {
                let ours = Texts::of(table);
                if !reference.headers.is_empty() && ours.headers != reference.headers {
                    all.faults.push(format!("{name}: headers {:?}, not {:?}", ours.headers, reference.headers));
                }
                all.add(compare(&name, &ours, &reference));
            }
            None => all.faults.push(format!("{name}: missing")),
        }
        names.insert(name);
    }
    let extra = tables.iter().filter(|t| !names.contains(&t.name));
    all.faults.extend(extra.map(|t| format!("{}: the reference has no such sheet", t.name)));
    all
}

fn check(folder: &Path, at_least: usize) {
    let cases = cases(folder);
    assert!(cases.len() >= at_least, "only {} traces with tables in {}", cases.len(), folder.display());
    let mut faults = Vec::new();
    for case in &cases {
        let agreement = agreement(case);
        println!("{}: {agreement}", case.name);
        faults.extend(agreement.faults.iter().map(|fault| format!("{}: {fault}", case.name)));
    }
    assert!(faults.is_empty(), "{} cells differ:\n{}", faults.len(), faults[..faults.len().min(30)].join("\n"));
}

#[test]
fn every_cell_of_the_fixtures() {
    check(&fixtures(), 9);
}

#[test]
fn every_cell_of_every_trace_at_hand() {
    if let Some(folder) = shared_traces() {
        check(&folder, 30);
    }
}
