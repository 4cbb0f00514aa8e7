//! Runs `op_cases.txt` and checks that no modelled operation lacks a case.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use jarvis_perf::call::{Dims, InputLists, OpCall, SIBLING_DTYPE};
use jarvis_perf::launch::Launch;
use jarvis_perf::models::{Evaluation, ModelError, evaluate};
use jarvis_perf::ops;
use jarvis_perf::parity::Quirks;
use jarvis_perf::value::Value;

const CASES: &str = include_str!("op_cases.txt");

/// One line of the table.
pub(super) struct Case {
    line: usize,
    pub(super) names: Vec<String>,
    pub(super) inputs: InputLists,
    pub(super) kernel: Option<String>,
    launch: Option<Launch>,
    sibling: Option<String>,
    sequence: Option<i64>,
    parity: String,
    default: String,
}

pub(super) fn cases() -> Vec<Case> {
    let lines = CASES.lines().enumerate().filter(|(_, line)| !line.is_empty() && !line.starts_with('#'));
    lines.map(|(at, line)| case(at + 1, line)).collect()
}

fn case(line: usize, text: &str) -> Case {
    let columns: Vec<&str> = text.split('|').map(str::trim).collect();
    let [names, tensors, types, arguments, parity, rest @ ..] = &columns[..] else { panic!("line {line}") };
    let (slots, dims) = tensors.split_once(':').unwrap_or_else(|| panic!("line {line}: no slot count"));
    let slots: usize = slots.trim().parse().unwrap();
    let mut dims: Vec<Dims> = dims.split(',').map(str::trim).filter(|d| !d.is_empty()).map(parse_dims).collect();
    dims.resize(slots.max(dims.len()), Dims::Shape(Vec::new()));
    let mut types: Vec<String> = types.split_whitespace().map(|t| full_type(t).to_owned()).collect();
    types.resize(slots.max(types.len()), String::new());
    let mut strides: Vec<Dims> = dims.iter().map(contiguous).collect();
    let mut concrete = vec![String::new(); slots];
    let (mut kernel, mut launch, mut sibling, mut sequence, mut with_strides) = (None, None, None, None, true);
    for argument in arguments.split(';').map(str::trim).filter(|a| !a.is_empty()) {
        let (key, value) = argument.split_once('=').unwrap_or((argument, ""));
        match key {
            "kernel" => kernel = Some(value.to_owned()),
            "launch" => launch = Some(parse_launch(value)),
            "sibling" => sibling = Some(value.to_owned()),
            "seq" => sequence = Some(value.parse().unwrap()),
            "nostrides" => with_strides = false,
            _ if key.starts_with('S') => {
                strides[slot(key)] = parse_strides(value);
            }
            _ => {
                let at = slot(key);
                concrete.resize(concrete.len().max(at + 1), String::new());
                value.clone_into(&mut concrete[at]);
            }
        }
    }
    let names =
        if names.contains(" (") { vec![(*names).to_owned()] } else { names.split(' ').map(str::to_owned).collect() };
    Case {
        line,
        names,
        inputs: InputLists {
            dims: Some(dims.into()),
            types: Some(types.into()),
            strides: with_strides.then_some(strides.into()),
            concrete: Some(concrete.into()),
        },
        kernel,
        launch,
        sibling,
        sequence,
        parity: (*parity).to_owned(),
        default: rest.join("|"),
    }
}

/// `320x1x1 512x1x1`: blocks, and threads of each.
fn parse_launch(text: &str) -> Launch {
    let (grid, block) = text.split_once(' ').unwrap_or_else(|| panic!("launch {text}"));
    let sizes = |text: &str| {
        let sizes: Vec<u32> = text.split('x').map(|n| n.parse().unwrap()).collect();
        sizes.try_into().unwrap()
    };
    Launch { grid: sizes(grid), block: sizes(block) }
}

fn slot(key: &str) -> usize {
    key[1..].parse().unwrap_or_else(|_| panic!("argument {key}"))
}

fn parse_dims(text: &str) -> Dims {
    let shape = |text: &str| text.split('x').map(|d| d.parse().unwrap()).collect::<Vec<i64>>();
    match text.strip_prefix('[') {
        Some(list) => Dims::List(list.trim_end_matches(']').split(' ').map(shape).collect()),
        None if text == "." => Dims::Shape(Vec::new()),
        None => Dims::Shape(shape(text)),
    }
}

fn parse_strides(text: &str) -> Dims {
    let steps = |text: &str| text.split(',').filter(|s| !s.is_empty()).map(|s| s.parse().unwrap()).collect();
    match text.strip_prefix('[') {
        Some(list) => Dims::List(list.trim_end_matches(']').split(' ').map(steps).collect()),
        None => Dims::Shape(steps(text)),
    }
}

fn contiguous(dims: &Dims) -> Dims {
    let of = |shape: &[i64]| {
        let mut stride = vec![1; shape.len()];
        for i in (1..shape.len()).rev() {
            stride[i - 1] = stride[i] * shape[i].max(1);
        }
        stride
    };
    match dims {
        Dims::Shape(shape) => Dims::Shape(of(shape)),
        Dims::List(shapes) => Dims::List(shapes.iter().map(|shape| of(shape)).collect()),
    }
}

fn full_type(short: &str) -> &str {
    match short {
        "bf16" => "c10::BFloat16",
        "f16" => "c10::Half",
        "f32" => "float",
        "f64" => "double",
        "f8z" => "c10::Float8_e4m3fnuz",
        "f8n" => "c10::Float8_e4m3fn",
        "f4x2" => "c10::Float4_e2m1fn_x2",
        "e8m0" => "c10::Float8_e8m0fnu",
        "u8" => "unsigned char",
        "i8" => "signed char",
        "i16" => "short int",
        "i32" => "int",
        "i64" => "long int",
        "u32" => "unsigned int",
        "c64" => "c10::complex<float>",
        "S" => "Scalar",
        "SL" => "ScalarList",
        "TL" => "TensorList",
        "-" => "",
        other => other,
    }
}

/// Value of a sum of products of numbers and bracketed sums.
fn arithmetic(text: &str) -> f64 {
    let mut rest = text;
    let value = sum(&mut rest);
    assert!(rest.trim().is_empty(), "{text}: {rest} left over");
    value
}

fn sum(rest: &mut &str) -> f64 {
    let mut value = product(rest);
    while let Some((sign, tail)) = operator(rest, ['+', '-']) {
        *rest = tail;
        let term = product(rest);
        value += if sign == '+' { term } else { -term };
    }
    value
}

fn product(rest: &mut &str) -> f64 {
    let mut value = factor(rest);
    while let Some((sign, tail)) = operator(rest, ['*', '/']) {
        *rest = tail;
        let next = factor(rest);
        value = if sign == '*' { value * next } else { value / next };
    }
    value
}

fn operator<'a>(rest: &&'a str, wanted: [char; 2]) -> Option<(char, &'a str)> {
    let text = rest.trim_start();
    let sign = text.chars().next().filter(|c| wanted.contains(c))?;
    Some((sign, &text[1..]))
}

fn factor(rest: &mut &str) -> f64 {
    let text = rest.trim_start();
    if let Some(inner) = text.strip_prefix('(') {
        *rest = inner;
        let value = sum(rest);
        *rest = rest.trim_start().strip_prefix(')').expect("closing bracket");
        return value;
    }
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    *rest = &text[end..];
    text[..end].parse().unwrap_or_else(|_| panic!("number in {text}"))
}

/// What is wrong with an evaluation, if anything.
fn fault(evaluation: &Evaluation, expected: &str) -> Option<String> {
    match (expected, &evaluation.cost) {
        ("-", Err(_)) if evaluation.source.is_none() => None,
        ("fail", Err(ModelError::Fail(_))) if evaluation.source.is_some() => None,
        ("drop", Err(ModelError::Drop)) => None,
        ("-" | "fail" | "drop", other) => Some(format!("{other:?}, source {:?}", evaluation.source)),
        (_, Err(error)) => Some(format!("{error}")),
        (numbers, Ok(cost)) => {
            let parts: Vec<&str> = numbers.split(';').map(str::trim).collect();
            let [flops, bytes, spec] = parts[..] else { panic!("results `{numbers}`") };
            let differs = |ours: Option<f64>, text: &str| {
                let theirs = (text != "none").then(|| arithmetic(text));
                match (ours, theirs) {
                    (Some(a), Some(b)) => (a - b).abs() > 1e-9 * b.abs(),
                    (a, b) => a.is_some() || b.is_some(),
                }
            };
            let wrong =
                differs(cost.flops, flops) || differs(cost.bytes, bytes) || cost.spec().unwrap_or_default() != spec;
            wrong.then(|| format!("{cost:?}"))
        }
    }
}

#[test]
fn every_case_holds_in_both_fidelities() {
    let cases = cases();
    let forwards: BTreeMap<i64, &InputLists> =
        cases.iter().rev().filter_map(|case| Some((case.sequence?, &case.inputs))).collect();
    let mut faults = Vec::new();
    for case in &cases {
        let kernels: Vec<&str> = case.kernel.as_deref().into_iter().collect();
        let extra: Vec<(&str, Value)> =
            case.sibling.iter().map(|name| (SIBLING_DTYPE, Value::from(name.as_str()))).collect();
        for name in &case.names {
            let call = OpCall {
                name,
                inputs: &case.inputs,
                kernels: &kernels,
                launches: &[case.launch],
                sequence: case.sequence,
                annotation: None,
                extra: &extra,
                forward: case.sequence.and_then(|sequence| forwards.get(&sequence).copied()),
            };
            let default = if case.default == "=" { &case.parity } else { &case.default };
            for (quirks, expected) in [(Quirks::REFERENCE, &case.parity), (Quirks::NONE, default)] {
                if let Some(fault) = fault(&evaluate(&call, &quirks), expected) {
                    let mode = if quirks == Quirks::NONE { "default" } else { "parity" };
                    faults.push(format!("line {}, {name}, {mode}: {fault}, not {expected}", case.line));
                }
            }
        }
    }
    assert!(faults.is_empty(), "{} faults:\n{}", faults.len(), faults.join("\n"));
}

/// Names in the first column of every table of cases of this crate.
fn names_with_a_case(folder: &Path, names: &mut BTreeSet<String>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            names_with_a_case(&path, names);
        } else if path.to_str().is_some_and(|name| name.ends_with("cases.txt")) {
            let text = std::fs::read_to_string(&path).unwrap();
            let columns = text.lines().filter(|line| !line.starts_with('#')).filter_map(|line| line.split('|').next());
            names.extend(columns.flat_map(str::split_whitespace).map(str::to_owned));
        }
    }
}

#[test]
fn no_modelled_operation_lacks_a_case() {
    let mut names = BTreeSet::new();
    for folder in ["src", "tests"] {
        names_with_a_case(&Path::new(env!("CARGO_MANIFEST_DIR")).join(folder), &mut names);
    }
    let missing: Vec<&str> = ops::all()
        .iter()
        .filter(|entry| entry.reader.is_some() && !names.contains(entry.name))
        .map(|entry| entry.name)
        .collect();
    assert!(missing.is_empty(), "no case for {missing:#?}");
}

#[test]
fn the_arithmetic_of_the_table() {
    for (text, value) in [("7", 7.0), ("2*3 + 4", 10.0), ("2*(3 + 4) - 1", 13.0), ("8/4/2", 1.0), ("1.5*4", 6.0)] {
        assert!((arithmetic(text) - value).abs() < 1e-12, "{text}");
    }
}
