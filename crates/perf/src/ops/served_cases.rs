//! Runs every line of `served_cases.txt`: what inference attention, experts, collectives and fused operations cost
//! in both fidelities.

use crate::call::{Dims, InputLists, OpCall};
use crate::models::{ComputeUnit, Cost, ModelError, PerfModel};
use crate::ops::{OpEntry, fused, inference, moe};
use crate::parity::Quirks;
use crate::value::Value;

const CASES: &str = include_str!("served_cases.txt");

const GROUPS: [&[OpEntry]; 3] = [inference::OPS, moe::OPS, fused::OPS];

const ANNOTATION_A: &str =
    "execute_6147_context_2(sq6144sk7144sqsq20971520sqsk23019520)_generation_3(sq3sk6144sqsq3sqsk6144)";
const ANNOTATION_B: &str = "execute_64_context_0(sq0sk0sqsq0sqsk0)_generation_64(sq64sk131072sqsq64sqsk131072)";
const ANNOTATION_C: &str = "step[DECODE bs=64 g_sq=64 g_sqsq=64 g_sqsk=131072 g_sk=131072]";

#[derive(Debug, Default)]
struct Case {
    name: String,
    inputs: InputLists,
    kernels: Vec<String>,
    annotation: Option<&'static str>,
    extra: Vec<(String, Value)>,
    parity: String,
    default: String,
}

fn dtype(word: &str) -> &str {
    match word {
        "bf16" => "c10::BFloat16",
        "f16" => "c10::Half",
        "f32" => "float",
        "f8z" => "c10::Float8_e4m3fnuz",
        "f8n" => "c10::Float8_e4m3fn",
        "f4x2" => "c10::Float4_e2m1fn_x2",
        "i32" => "int",
        "i64" => "long int",
        "u8" => "unsigned char",
        "S" => "Scalar",
        "-" => "",
        other => panic!("unknown type {other}"),
    }
}

fn shape(word: &str) -> Vec<i64> {
    if word == "-" { Vec::new() } else { word.split('x').map(|d| d.parse().unwrap()).collect() }
}

/// Row-major strides.
fn strides(shape: &[i64]) -> Vec<i64> {
    (0..shape.len()).map(|i| shape[i + 1..].iter().product()).collect()
}

fn literal(text: &str) -> Value {
    crate::literal::parse(text).unwrap_or_else(|| text.into())
}

impl Case {
    fn parse(line: &str) -> Self {
        let columns: Vec<&str> = line.split('|').map(str::trim).collect();
        let [name, dims, types, arguments, parity, default] = columns[..] else { panic!("six columns: {line}") };
        let mut case = Self { name: name.to_owned(), ..Self::default() };
        case.parity = parity.to_owned();
        case.default = if default == "=" { parity } else { default }.to_owned();
        let mut shapes: Vec<Vec<i64>> = dims.split(", ").map(shape).collect();
        let mut types: Vec<String> = types.split_whitespace().map(|t| dtype(t).to_owned()).collect();
        let mut concrete = Vec::new();
        for argument in arguments.split_whitespace() {
            let (key, value) = argument.split_once('=').unwrap();
            match key {
                "n" => shapes.resize(value.parse().unwrap(), Vec::new()),
                "ann" => {
                    case.annotation = Some(match value {
                        "A" => ANNOTATION_A,
                        "B" => ANNOTATION_B,
                        "C" => ANNOTATION_C,
                        other => panic!("unknown annotation {other}"),
                    });
                }
                "kernel" => case.kernels.push(value.to_owned()),
                _ => match key.strip_prefix("C[").and_then(|k| k.strip_suffix(']')) {
                    Some(slot) => concrete.push((slot.parse::<usize>().unwrap(), value)),
                    // Arguments such as `MoE topk` have blanks in their names.
                    None if key.starts_with("MoE") => case.extra.push((key.replace('_', " "), literal(value))),
                    None => case.extra.push((key.to_owned(), literal(value))),
                },
            }
        }
        let slots = shapes.len();
        types.resize(slots, String::new());
        let mut texts = vec![String::new(); slots];
        for (slot, value) in concrete {
            value.clone_into(&mut texts[slot]);
        }
        case.inputs = InputLists {
            strides: Some(shapes.iter().map(|s| Dims::Shape(strides(s))).collect()),
            dims: Some(shapes.into_iter().map(Dims::Shape).collect()),
            types: Some(types.into()),
            concrete: Some(texts.into()),
        };
        case
    }

    fn entry(&self) -> &'static OpEntry {
        GROUPS.iter().copied().flatten().find(|entry| entry.name == self.name).unwrap()
    }

    fn read(&self, quirks: &Quirks) -> Result<Box<dyn PerfModel>, ModelError> {
        let kernels: Vec<&str> = self.kernels.iter().map(String::as_str).collect();
        let extra: Vec<(&str, Value)> = self.extra.iter().map(|(k, v)| (k.as_str(), v.clone())).collect();
        let call = OpCall {
            name: &self.name,
            inputs: &self.inputs,
            kernels: &kernels,
            launches: &[],
            sequence: None,
            annotation: self.annotation,
            extra: &extra,
            forward: None,
        };
        (self.entry().reader.unwrap())(&call, quirks)
    }

    fn run(&self, quirks: &Quirks) -> Result<Cost, ModelError> {
        let model = self.read(quirks)?;
        // A model has a backward formula exactly if the registry gives it a category.
        assert_eq!(model.backward().is_ok(), self.entry().backward_category.is_some(), "{}", self.name);
        let cost = model.forward();
        assert!(!model.into_params().is_empty());
        cost
    }
}

fn spec(cost: &Cost) -> String {
    let unit = match cost.unit {
        ComputeUnit::Matrix => "matrix",
        ComputeUnit::Vector => "vector",
        ComputeUnit::Unknown => return "-".to_owned(),
    };
    cost.precision.as_ref().map_or_else(|| "-".to_owned(), |precision| format!("{unit}_{precision}"))
}

fn check(case: &Case, expected: &str, quirks: &Quirks) {
    let context = format!("{} {}", case.name, if quirks.missing_strides_fail { "parity" } else { "default" });
    let cost = match case.run(quirks) {
        Err(ModelError::Drop) => return assert_eq!(expected, "drop", "{context}"),
        Err(ModelError::Fail(why)) => return assert_eq!(expected, "fail", "{context}: {why}"),
        Ok(cost) => cost,
    };
    let words: Vec<&str> = expected.split_whitespace().collect();
    let [flops, bytes, expected_spec] = words[..] else { panic!("{context}: three results in `{expected}`") };
    let number = |word: &str| if word == "-" { None } else { Some(word.parse::<f64>().unwrap()) };
    for (what, got, wanted) in [("flops", cost.flops, number(flops)), ("bytes", cost.bytes, number(bytes))] {
        let close = match (got, wanted) {
            // The cases give fractions to six places.
            (Some(got), Some(wanted)) => (got - wanted).abs() <= 1e-6 + 1e-15 * wanted.abs(),
            (got, wanted) => got == wanted,
        };
        assert!(close, "{context}: {what} are {got:?}, not {wanted:?}");
    }
    assert_eq!(spec(&cost), expected_spec, "{context}");
}

fn cases() -> Vec<Case> {
    CASES.lines().filter(|line| !line.is_empty() && !line.starts_with('#')).map(Case::parse).collect()
}

#[test]
fn every_case_costs_what_it_says() {
    for case in cases() {
        check(&case, &case.parity, &Quirks::REFERENCE);
        check(&case, &case.default, &Quirks::NONE);
    }
}

#[test]
fn every_operation_has_a_case() {
    let cases = cases();
    for entry in GROUPS.iter().copied().flatten() {
        assert!(cases.iter().any(|case| case.name == entry.name), "{} has no case", entry.name);
    }
}

#[test]
fn tables_are_sorted_and_unique() {
    for group in GROUPS.into_iter().chain([fused::PREFIXES]) {
        assert!(group.is_sorted_by(|a, b| a.name < b.name));
    }
}

/// No call, however broken, may bring a model down: here every shape of every case is bent in a few ways.
#[test]
fn hostile_shapes_do_not_panic() {
    let bends: [fn(&mut Vec<i64>); 6] = [
        |s| s.iter_mut().for_each(|d| *d = i64::MAX),
        |s| s.iter_mut().for_each(|d| *d = 0),
        |s| s.iter_mut().for_each(|d| *d = i64::MIN),
        |s| s.iter_mut().for_each(|d| *d = -1),
        |s| s.truncate(1),
        |s| s.push(3),
    ];
    for mut case in cases() {
        let original = case.inputs.dims.clone().unwrap();
        for bend in bends {
            for slot in 0..=original.len() {
                let mut dims = original.to_vec();
                for (i, shape) in dims.iter_mut().enumerate() {
                    if let Dims::Shape(shape) = shape
                        && (i == slot || slot == original.len())
                    {
                        bend(shape);
                    }
                }
                case.inputs.dims = Some(dims.into());
                for quirks in [Quirks::NONE, Quirks::REFERENCE] {
                    let _ = case.run(&quirks);
                }
            }
        }
        case.inputs.dims = Some(original.clone());
        for text in ["", "0", "-1", "9223372036854775807", "-9223372036854775808", "1e400", "[[["] {
            case.inputs.concrete = case.inputs.concrete.map(|c| vec![text.to_owned(); c.len()].into());
            for (_, value) in &mut case.extra {
                *value = literal(text);
            }
            for quirks in [Quirks::NONE, Quirks::REFERENCE] {
                let _ = case.run(&quirks);
            }
        }
        for lists in [InputLists::default(), InputLists { dims: Some(original), ..InputLists::default() }] {
            case.inputs = lists;
            for quirks in [Quirks::NONE, Quirks::REFERENCE] {
                let _ = case.run(&quirks);
            }
        }
    }
}
