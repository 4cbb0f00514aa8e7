//! One entry of `replay_ir.json`: a call with everything that is needed to make it again.

use jarvis_perf::kernels;
use jarvis_perf::value::Value;
use jarvis_trace::timeline::is_communication_name;
use serde::Serialize;
use serde_json::{Value as Json, json};

use super::inputs::{Family, Given, Input, Sizes, dtype};
use super::rows::Row;
use super::schema::{self, Argument, Schema};
use super::values::{Fill, computes_nothing, fill};
use super::words;

/// An argument of the call.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct ArgumentIr {
    arg_name: &'static str,
    arg_type: String,
    kind: &'static str,
    value: Json,
    assumed: bool,
}

/// The arguments in call order.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub(crate) struct CallIr {
    list_pos_args: Vec<ArgumentIr>,
    list_kwargs: Vec<ArgumentIr>,
}

/// A call that can be made again.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Rebuilt {
    pub(crate) overload: Option<&'static str>,
    pub(crate) schema: Option<&'static str>,
    pub(crate) call: Option<CallIr>,
    pub(crate) assumptions: Vec<String>,
    pub(crate) imports: Vec<&'static str>,
    pub(crate) settings: Settings,
}

/// Switches of the framework that decide which kernel runs, as far as the kernels tell how they stood.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub(crate) struct Settings {
    /// Whether fp32 matrix products may compute in tf32.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) allow_tf32: Option<bool>,
    /// The same for convolutions and recurrent layers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) cudnn_allow_tf32: Option<bool>,
    /// Type of automatic mixed precision, if it was on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) autocast: Option<&'static str>,
}

/// Operations whose result's size depends on values.
const DATA_DEPENDENT: &[&str] = &["aten::masked_select", "aten::nonzero", "aten::unique"];

/// Namespaces of operations and the module that registers them.
#[rustfmt::skip]
const MODULES: &[(&str, &str)] = &[
    ("_C",           "vllm"),
    ("_C_cache_ops", "vllm"),
    ("_moe_C",       "vllm"),
    ("aiter",        "aiter"),
    ("bitsandbytes", "bitsandbytes"),
    ("fbgemm",       "fbgemm_gpu"),
    ("flash_attn",   "flash_attn"),
    ("flash_attn_3", "flash_attn"),
    ("sgl_kernel",   "sgl_kernel"),
    ("sglang",       "sgl_kernel"),
    ("torchvision",  "torchvision"),
    ("vllm",         "vllm"),
    ("xformers",     "xformers.ops"),
];

/// How to make a call again, or why it can't be made.
pub(crate) fn rebuild(op: &str, row: &Row, inputs: Option<&[Input]>) -> Result<Rebuilt, String> {
    refuse_by_name(op, row)?;
    let inputs = inputs.ok_or(words::NO_SHAPES)?;
    let found = schema::resolve(op, inputs);
    refuse_by_inputs(found, inputs)?;
    let space = op.split("::").next().unwrap_or_default();
    let mut rebuilt = Rebuilt {
        overload: None,
        schema: None,
        call: None,
        assumptions: Vec::new(),
        imports: MODULES.iter().filter(|(name, _)| *name == space).map(|(_, module)| *module).collect(),
        settings: Settings { autocast: autocast(op, row, inputs), ..tf32(row, inputs) },
    };
    if DATA_DEPENDENT.iter().any(|name| op.starts_with(name)) {
        rebuilt.assumptions.push(words::DATA_DEPENDENT.to_owned());
    }
    let Some(found) = found else {
        if !schema::is_known(op) {
            return Ok(rebuilt);
        }
        // An index list has no type of its own in the recording.
        let lists = ["aten::index", "aten::_index_put", "aten::_unsafe_index"];
        let listed = lists.iter().any(|start| op.starts_with(start)) && inputs.iter().any(|i| i.kind.is_empty());
        return Err(if listed { words::INDEX_LIST.to_owned() } else { words::no_overload(op) });
    };
    (rebuilt.overload, rebuilt.schema) = (Some(found.overload), Some(found.text));
    rebuilt.call = Some(arguments(found, inputs, row, &mut rebuilt.assumptions)?);
    Ok(rebuilt)
}

fn refuse_by_name(op: &str, row: &Row) -> Result<(), String> {
    if op.starts_with("cudaGraph") || op.starts_with("hipGraph") {
        return Err(words::GRAPH.to_owned());
    }
    if let Some((parent, _)) = op.split_once("->") {
        return Err(if parent.contains("::") { words::synthetic(parent) } else { words::NOT_RECORDED.to_owned() });
    }
    let is_collective = ["c10d::", "nccl", "record_param_comms", "rccl"].iter().any(|start| op.starts_with(start))
        || op.contains("all_reduce")
        || op.contains("all_gather")
        || op.contains("reduce_scatter")
        || !row.kernels.is_empty() && row.kernels.iter().all(|k| is_communication_name(&k.name));
    if is_collective {
        return Err(words::COLLECTIVE.to_owned());
    }
    if &*row.category == "triton" || op.starts_with("triton_") {
        return Err(words::GENERATED.to_owned());
    }
    if !op.contains("::") {
        return Err(words::NO_OPERATION.to_owned());
    }
    let transfer =
        |name: &str| name.starts_with("Memcpy") && !name.contains("DtoD") && !name.contains("Device -> Device");
    if !row.kernels.is_empty() && row.kernels.iter().all(|k| transfer(&k.name)) {
        return Err(words::TRANSFER.to_owned());
    }
    Ok(())
}

fn refuse_by_inputs(found: Option<&Schema>, inputs: &[Input]) -> Result<(), String> {
    if inputs.iter().any(|input| input.given() == Given::UnknownTensors) {
        return Err(words::UNKNOWN_LIST.to_owned());
    }
    if computes_nothing(found, inputs) {
        return Err(words::NOTHING.to_owned());
    }
    match inputs.iter().find(|input| input.given() == Given::Tensor && dtype(&input.kind).is_none()) {
        Some(odd) => Err(words::unknown_type(&odd.kind)),
        None => Ok(()),
    }
}

/// Type of automatic mixed precision: on if the trace shows the casts, or if the call is not possible without.
fn autocast(op: &str, row: &Row, inputs: &[Input]) -> Option<&'static str> {
    let types: Vec<&'static str> = inputs.iter().filter_map(|i| Some(dtype(&i.kind)?.0)).collect();
    let narrow = types.iter().copied().find(|t| ["bfloat16", "float16"].contains(t));
    let is_mixed = op == "aten::layer_norm" && narrow.is_some() && types.contains(&"float32");
    (row.casts || is_mixed).then(|| narrow.unwrap_or("bfloat16"))
}

fn tf32(row: &Row, inputs: &[Input]) -> Settings {
    let is_fp32 = inputs.iter().any(|input| dtype(&input.kind).is_some_and(|d| d.0 == "float32"));
    if !is_fp32 || row.kernels.is_empty() {
        return Settings::default();
    }
    let names: Vec<&str> = row.kernels.iter().map(|k| &*k.name).collect();
    let tf32 = Some(kernels::uses_tf32(&names));
    match &*row.category {
        "GEMM" => Settings { allow_tf32: tf32, ..Settings::default() },
        category if category.starts_with("CONV") => Settings { cudnn_allow_tf32: tf32, ..Settings::default() },
        _ => Settings::default(),
    }
}

fn arguments(found: &Schema, inputs: &[Input], row: &Row, notes: &mut Vec<String>) -> Result<CallIr, String> {
    let mut call = CallIr::default();
    for (at, (arg, input)) in found.arguments.iter().zip(inputs).enumerate() {
        let given = input.given();
        if arg.written && given == Given::Tensor && input.overlaps() {
            return Err(words::overlapping(arg.name));
        }
        let (kind, value, assumed) = match given {
            Given::Tensor => tensor(found, at, inputs, notes)?,
            Given::Tensors => tensor_list(arg, input, inputs, row, notes),
            Given::Nothing if arg.kind().base == "str" => text(found, at, inputs, row, notes)?,
            Given::Nothing => nothing(arg)?,
            Given::Scalar(value) => scalar(arg, &value)?,
            Given::List(items) => list(arg, &items),
            Given::UnknownTensors | Given::Unknown => return Err(words::opaque(arg.name, &arg.text)),
        };
        let part = ArgumentIr { arg_name: arg.name, arg_type: arg.text.clone(), kind, value, assumed };
        if arg.keyword_only { call.list_kwargs.push(part) } else { call.list_pos_args.push(part) }
    }
    for arg in found.arguments.iter().skip(inputs.len()) {
        notes.push(format!("argument {} is not recorded; default used", arg.name));
    }
    Ok(call)
}

type Part = (&'static str, Json, bool);

fn tensor(found: &Schema, at: usize, inputs: &[Input], notes: &mut Vec<String>) -> Result<Part, String> {
    let (input, name) = (&inputs[at], found.arguments[at].name);
    let filled = fill(found, at, inputs)?;
    let mut value = tensor_json(input.dims.one(), &input.kind, input.strides.one(), &filled);
    let no_strides = input.strides.one().len() != input.dims.one().len();
    if no_strides {
        value["strides"] = json!(contiguous(input.dims.one()));
        notes.push(format!("strides of {name} are not recorded; contiguous"));
    }
    if filled.assumed {
        notes.push(format!("values of {name} are not recorded; small whole numbers"));
    }
    Ok(("tensor", value, filled.assumed || no_strides))
}

fn tensor_json(shape: &[i64], kind: &str, strides: &[i64], fill: &Fill) -> Json {
    let device = if fill.on_host { "cpu" } else { "gpu" };
    let mut value = json!({"shape": shape, "dtype": kind, "strides": strides, "init": fill.init, "device": device});
    if let Some(range) = fill.range {
        value["range"] = json!(range);
    }
    value
}

fn contiguous(shape: &[i64]) -> Vec<i64> {
    let mut step = 1_i64;
    let mut strides = Vec::with_capacity(shape.len());
    for &size in shape.iter().rev() {
        strides.push(step);
        step = step.saturating_mul(size.max(1));
    }
    strides.reverse();
    strides
}

fn tensor_list(arg: &Argument, input: &Input, inputs: &[Input], row: &Row, notes: &mut Vec<String>) -> Part {
    let Sizes::Many(shapes) = &input.dims else { return ("none", Json::Null, true) };
    let kind = list_type(inputs, row);
    notes.push(format!("element type of the tensors in {} is not recorded: {kind}", arg.name));
    let init = match dtype(&kind).map(|d| d.1) {
        Some(Family::Int) => "uniform",
        Some(Family::Bool) => "bool",
        _ => "normal",
    };
    let strides = |at: usize| match &input.strides {
        Sizes::Many(list) => list.get(at).filter(|s| s.len() == shapes[at].len()).cloned(),
        Sizes::One(_) => None,
    };
    let item = |(at, shape): (usize, &Vec<i64>)| {
        let strides = strides(at).unwrap_or_else(|| contiguous(shape));
        json!({"shape": shape, "dtype": kind, "strides": strides, "init": init, "device": "gpu"})
    };
    let items: Vec<Json> = shapes.iter().enumerate().map(item).collect();
    ("tensor_list", json!({"items": items}), true)
}

/// Element type of a call's tensor lists: that of another tensor, else what the kernels' templates tell.
fn list_type(inputs: &[Input], row: &Row) -> String {
    if let Some(other) = inputs.iter().find(|input| input.given() == Given::Tensor) {
        return other.kind.clone();
    }
    let names: Vec<&str> = row.kernels.iter().map(|k| &*k.name).collect();
    let named = kernels::list_dtype(&names).or_else(|| kernels::concatenated_dtype(&names));
    if let Some(named) = named.filter(|name| dtype(name).is_some()) {
        return named.to_owned();
    }
    match kernels::list_element_size(&names) {
        Some(1) => "unsigned char",
        Some(2) => "c10::BFloat16",
        Some(8) => "long int",
        _ => "float",
    }
    .to_owned()
}

fn nothing(arg: &Argument) -> Result<Part, String> {
    let kind = arg.kind();
    match kind.base {
        "Device" => Ok(("device", json!("gpu"), false)),
        "Generator" => Ok(("generator", Json::Null, false)),
        // A list of tensors that may be missing is never recorded.
        "Tensor" if kind.is_list && kind.optional_items => Err(words::INDEX_LIST.to_owned()),
        // A tensor that is not defined is recorded like one that is missing.
        "Tensor" if !kind.is_list => Ok(("none", Json::Null, false)),
        _ if kind.optional || arg.default.is_some() => Ok(("none", Json::Null, false)),
        _ => Err(words::opaque(arg.name, &arg.text)),
    }
}

/// No text is recorded, so whatever is taken is told.
fn text(found: &Schema, at: usize, inputs: &[Input], row: &Row, notes: &mut Vec<String>) -> Result<Part, String> {
    let arg = &found.arguments[at];
    let (value, told) = if let Some((mode, why)) = rounding(found, arg, inputs, row) {
        (Some(mode), format!("{mode} used: {why}"))
    } else if arg.kind().optional {
        (None, "none used".to_owned())
    } else {
        let default = arg.default.ok_or_else(|| words::opaque(arg.name, &arg.text))?.trim_matches(['"', '\'']);
        (Some(default), format!("default {default} used"))
    };
    notes.push(format!("string argument {} is not recorded; {told}", arg.name));
    Ok((if value.is_some() { "str" } else { "none" }, json!(value), true))
}

/// How a division rounds, and what tells so: without rounding it is another operation.
fn rounding(found: &Schema, arg: &Argument, inputs: &[Input], row: &Row) -> Option<(&'static str, &'static str)> {
    if arg.name != "rounding_mode" {
        return None;
    }
    let is_named = |part: &str| row.kernels.iter().any(|kernel| kernel.name.contains(part));
    let writes_whole_numbers = found
        .arguments
        .iter()
        .zip(inputs)
        .any(|(arg, input)| arg.written && dtype(&input.kind).is_some_and(|d| d.1 == Family::Int));
    if is_named("div_floor_kernel") {
        Some(("floor", "the kernel is named so"))
    } else if is_named("div_trunc_kernel") {
        Some(("trunc", "the kernel is named so"))
    } else {
        writes_whole_numbers.then_some(("floor", "the result is whole numbers"))
    }
}

fn scalar(arg: &Argument, value: &Value) -> Result<Part, String> {
    let kind = arg.kind();
    let whole = |value: &Value| if let Value::Int(i) = value { Some(*i) } else { None };
    if kind.is_list {
        return Ok(("int_list", json!([number(value)]), false));
    }
    // Schemas of older versions call these `int`.
    let named = |end: &str| kind.base == "int" && arg.name.ends_with(end);
    let code = whole(value).unwrap_or(-1);
    if kind.base == "ScalarType" || named("dtype") {
        let name = DTYPE_CODES.iter().find(|(c, _)| *c == code).map(|(_, name)| *name);
        return name.map(|n| ("dtype", json!(n), false)).ok_or_else(|| words::unknown_type(&code.to_string()));
    }
    if kind.base == "Layout" || named("layout") {
        return if code == 0 { Ok(("layout", json!("strided"), false)) } else { Err(words::LAYOUT.to_owned()) };
    }
    if kind.base == "MemoryFormat" || named("memory_format") {
        let name = usize::try_from(code).ok().and_then(|c| MEMORY_FORMATS.get(c));
        return name.map(|n| ("memory_format", json!(n), false)).ok_or_else(|| words::LAYOUT.to_owned());
    }
    let word = match kind.base {
        "int" => "int",
        "float" => "float",
        "bool" => "bool",
        _ => "scalar",
    };
    Ok((word, number(value), false))
}

fn list(arg: &Argument, items: &[Value]) -> Part {
    let word = match arg.kind().base {
        "float" => "float_list",
        "bool" => "bool_list",
        _ => "int_list",
    };
    (word, Json::Array(items.iter().map(number).collect()), false)
}

/// A number as JSON; infinities and NaN as texts.
fn number(value: &Value) -> Json {
    match value {
        Value::Bool(b) => json!(b),
        Value::Int(i) => json!(i),
        Value::Float(x) if x.is_nan() => json!("nan"),
        Value::Float(x) if x.is_infinite() => json!(if *x > 0.0 { "inf" } else { "-inf" }),
        Value::Float(x) => json!(x),
        _ => Json::Null,
    }
}

/// Codes of element types in recorded arguments.
#[rustfmt::skip]
const DTYPE_CODES: &[(i64, &str)] = &[
    (0, "uint8"), (1, "int8"), (2, "int16"), (3, "int32"), (4, "int64"), (5, "float16"), (6, "float32"),
    (7, "float64"), (9, "complex64"), (10, "complex128"), (11, "bool"), (15, "bfloat16"), (23, "float8_e5m2"),
    (24, "float8_e4m3fn"), (25, "float8_e5m2fnuz"), (26, "float8_e4m3fnuz"), (27, "uint16"), (28, "uint32"),
    (29, "uint64"),
];

/// Memory formats by their code.
const MEMORY_FORMATS: &[&str] = &["contiguous", "preserve", "channels_last", "channels_last_3d"];
