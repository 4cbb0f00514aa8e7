//! Parity with the reference's own tables: every modelled row of every `unified_perf_summary.csv` that is at hand.
//!
//! The tables are not part of the repository; the test says so and passes where they are absent.

use std::borrow::Cow;
use std::path::{Path, PathBuf};

use jarvis_perf::call::{Dims, InputLists, OpCall};
use jarvis_perf::literal;
use jarvis_perf::models::{ModelError, evaluate, has_model};
use jarvis_perf::ops;
use jarvis_perf::parity::Quirks;
use jarvis_perf::value::Value;

/// Cells of a CSV text, quotes taken off.
fn parse_csv(text: &str) -> Vec<Vec<String>> {
    let (mut rows, mut row, mut cell, mut quoted) = (Vec::new(), Vec::new(), String::new(), false);
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '"' if quoted && chars.peek() == Some(&'"') => {
                chars.next();
                cell.push('"');
            }
            '"' => quoted = !quoted,
            ',' if !quoted => row.push(std::mem::take(&mut cell)),
            '\n' if !quoted => {
                row.push(std::mem::take(&mut cell));
                rows.push(std::mem::take(&mut row));
            }
            '\r' if !quoted => {}
            c => cell.push(c),
        }
    }
    rows
}

fn unified_tables(folder: &Path, found: &mut Vec<PathBuf>) {
    let mut entries: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    entries.sort();
    for path in entries {
        if path.is_dir() {
            unified_tables(&path, found);
        } else if path.file_name().is_some_and(|name| name == "unified_perf_summary.csv") {
            found.push(path);
        }
    }
}

fn dims(cell: &str) -> Option<Vec<Dims>> {
    let Value::Tuple(items) = literal::parse(cell)? else { return None };
    let of = |item: &Value| match item {
        Value::Tuple(parts) if matches!(parts.first(), Some(Value::Tuple(_))) => {
            Dims::List(parts.iter().map(|part| part.ints().unwrap_or_default()).collect())
        }
        other => Dims::Shape(other.ints().unwrap_or_default()),
    };
    Some(items.iter().map(of).collect())
}

fn texts(cell: &str) -> Option<Vec<String>> {
    let Value::Tuple(items) = literal::parse(cell)? else { return None };
    items.into_iter().map(|item| if let Value::Str(text) = item { Some(text) } else { None }).collect()
}

/// Kernel names of the details cell, which is no literal as a whole.
fn kernels(cell: &str) -> Vec<String> {
    let names = cell.split("{'name': ").skip(1).map(|rest| {
        let end = rest.find(", 'stream': ").unwrap_or(rest.len());
        match literal::parse(&rest[..end]) {
            Some(Value::Str(name)) => name,
            other => panic!("kernel name {other:?} in {rest}"),
        }
    });
    names.collect()
}

struct Row<'a> {
    header: &'a [String],
    cells: &'a [String],
}

impl Row<'_> {
    fn cell(&self, name: &str) -> &str {
        let at = self.header.iter().position(|title| title == name).unwrap_or_else(|| panic!("no column {name}"));
        &self.cells[at]
    }

    /// The number in a cell, `None` if it is blank.
    fn number(&self, name: &str) -> Option<f64> {
        let text = self.cell(name);
        (!text.is_empty()).then(|| text.parse().unwrap())
    }
}

fn same(ours: Option<f64>, theirs: Option<f64>) -> bool {
    match (ours, theirs) {
        (Some(a), Some(b)) => (a - b).abs() <= 1e-6 * b.abs() + 1e-12,
        (a, b) => a.is_none() && b.is_none(),
    }
}

/// What is wrong with our row, if anything. Counts the rows whose numbers were compared.
fn compare(row: &Row<'_>, compared: &mut usize) -> Result<(), String> {
    let name = row.cell("name");
    let inputs = InputLists {
        dims: dims(row.cell("Input Dims")).map(Into::into),
        types: texts(row.cell("Input type")).map(Into::into),
        strides: dims(row.cell("Input Strides")).map(Into::into),
        concrete: texts(row.cell("Concrete Inputs")).map(Into::into),
    };
    let kernels = kernels(row.cell("kernel_details_summary"));
    let kernels: Vec<&str> = kernels.iter().map(String::as_str).collect();
    let call = OpCall {
        name,
        inputs: &inputs,
        kernels: &kernels,
        launches: &[],
        sequence: None,
        annotation: None,
        extra: &[],
        forward: None,
    };
    let quirks = &Quirks::REFERENCE;
    if ops::find(name).is_some() {
        let category = ops::category(name, kernels.first().copied(), quirks);
        let theirs = row.cell("op category");
        // The cell lists kernels by name, not by start: the first need not be the one that decided.
        if category != theirs && kernels.len() == 1 {
            return Err(format!("category {category}, not {theirs}"));
        }
    }
    if !has_model(&call, quirks) {
        // Rows modelled through their forward call, and compiled kernels, are checked elsewhere.
        return Ok(());
    }
    if row.cell("has_perf_model") != "True" {
        return Err("modelled by us alone".to_owned());
    }
    *compared += 1;
    let evaluation = evaluate(&call, quirks);
    let (gflops, megabytes, spec) = match &evaluation.cost {
        Ok(cost) => {
            (cost.flops.map(|f| f / 1e9), cost.bytes.map(|b| b / 1024.0 / 1024.0), cost.spec().unwrap_or_default())
        }
        Err(ModelError::Fail(_)) => (None, None, Cow::default()),
        Err(ModelError::Drop) => return Err("dropped by us".to_owned()),
    };
    if !same(gflops, row.number("GFLOPS")) {
        return Err(format!("GFLOPS {gflops:?}: {:?}", evaluation.cost));
    }
    if !same(megabytes, row.number("Data Moved (MB)")) {
        return Err(format!("MB {megabytes:?}"));
    }
    if spec != row.cell("Compute Spec") {
        return Err(format!("spec {spec}"));
    }
    let entries: Vec<String> = evaluation.params.iter().map(|(key, value)| format!("'{key}': {value}")).collect();
    let params = if entries.is_empty() { String::new() } else { format!("{{{}}}", entries.join(", ")) };
    if params != row.cell("perf_params") {
        return Err(format!("params {params} not {}", row.cell("perf_params")));
    }
    Ok(())
}

#[test]
fn every_modelled_row_of_the_reference_tables() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let Some(folder) = root.ancestors().map(|up| up.join("shared/traces")).find(|folder| folder.is_dir()) else {
        println!("skipped: no folder shared/traces with the reference tables");
        return;
    };
    let mut tables = Vec::new();
    unified_tables(&folder, &mut tables);
    let (mut compared, mut faults) = (0, Vec::new());
    for table in &tables {
        let rows = parse_csv(&std::fs::read_to_string(table).unwrap());
        let Some((header, rows)) = rows.split_first().filter(|(header, _)| header.iter().any(|c| c == "perf_params"))
        else {
            continue;
        };
        for cells in rows {
            let row = Row { header, cells };
            if let Err(fault) = compare(&row, &mut compared) {
                faults.push(format!("{}: {}: {fault}", table.display(), row.cell("name")));
            }
        }
    }
    assert!(
        faults.is_empty(),
        "{} of {compared} rows differ:\n{}",
        faults.len(),
        faults[..faults.len().min(20)].join("\n")
    );
    println!("{compared} rows of {} tables agree", tables.len());
    assert!(compared > 900, "only {compared} rows compared");
}
