//! A real operation with the arguments as a trace records them.

use crate::calculator::keys::{Fallback, Family, Form, Given, Key, Type, sizes};
use crate::calculator::{CalculatorError, Outcome, failed, fitting};
use crate::call::{Dims, InputLists, OpCall, SIBLING_DTYPE};
use crate::literal;
use crate::models::{evaluate, evaluate_backward};
use crate::ops::ModelSource;
use crate::parity::Quirks;
use crate::value::Value;

/// The keys of every real operation.
pub(super) const FAMILY: Family = Family {
    name: "OPERATION",
    about: "any operation with a model, by its name and the arguments that a trace records",
    example: "aten::mm dims=4096x1024,1024x4096 types=bf16",
    keys: &[
        Key::required("dims", Form::List, "Input Dims: 4096x1024,1024x4096 or [[4096, 1024], [1024, 4096]]")
            .aliases(&["Input Dims"]),
        Key::required("types", Form::List, "Input type: one for all tensors, or a list")
            .aliases(&["Input type", "dtype"]),
        Key::required("concrete", Form::List, "Concrete Inputs: ['', '', '[1, 1]', 'False']")
            .fallback(Fallback::Absent)
            .aliases(&["Concrete Inputs"]),
        Key::required("strides", Form::List, "Input Strides, as dims")
            .fallback(Fallback::Absent)
            .aliases(&["Input Strides"]),
        Key::optional("bwd", Form::Flag, "no", "cost of its backward work instead").aliases(&["backward"]),
    ],
    run,
};

fn run(given: &Given<'_>) -> Result<Outcome, CalculatorError> {
    let dims = shapes(given, "dims")?.unwrap_or_default();
    let (types, of_lists) = types(given, &dims)?;
    let inputs = InputLists {
        types: Some(types.into()),
        strides: shapes(given, "strides")?.map(Into::into),
        concrete: Some(concrete(given, dims.len())?.into()),
        dims: Some(dims.into()),
    };
    fitting::check(given, &inputs)?;
    let extra: Vec<(&str, Value)> = of_lists.map(|name| (SIBLING_DTYPE, Value::Str(name))).into_iter().collect();
    let call = OpCall {
        name: given.model,
        inputs: &inputs,
        kernels: &[],
        launches: &[],
        sequence: None,
        annotation: None,
        extra: &extra,
        forward: None,
    };
    let quirks = &Quirks::NONE;
    let evaluation = if given.flag("bwd")? { evaluate_backward(&call, quirks) } else { evaluate(&call, quirks) };
    let cost = evaluation.cost.map_err(|error| failed(given.model, &error))?;
    let source = evaluation.source.unwrap_or(ModelSource::Generic);
    Ok(Outcome { source, torch_flops: evaluation.torch_flops, ..Outcome::new(cost) })
}

/// Sizes of every input. Without brackets commas part the inputs and `x` the sizes; nothing between two commas is an
/// input that is no tensor.
fn shapes(given: &Given<'_>, key: &'static str) -> Result<Option<Vec<Dims>>, CalculatorError> {
    let Some(text) = given.text(key) else { return Ok(None) };
    let wrong = || given.wrong(key, "sizes of every input: 4096x1024,1024x4096 or [[4096, 1024], [1024, 4096]]");
    if !text.starts_with('[') && !text.starts_with('(') {
        let parts = text.split(',').map(str::trim);
        let one = |part: &str| if part.is_empty() { Some(Vec::new()) } else { sizes(part) };
        let shapes: Option<Vec<Dims>> = parts.map(|part| one(part).map(Dims::Shape)).collect();
        return shapes.map(Some).ok_or_else(wrong);
    }
    let Some(Value::List(items) | Value::Tuple(items)) = literal::parse(text) else { return Err(wrong()) };
    items.iter().map(dims).collect::<Option<Vec<Dims>>>().map(Some).ok_or_else(wrong)
}

/// One input: a shape, or the shapes of a list of tensors.
fn dims(value: &Value) -> Option<Dims> {
    let (Value::List(items) | Value::Tuple(items)) = value else { return None };
    if items.iter().any(|item| matches!(item, Value::List(_) | Value::Tuple(_))) {
        return items.iter().map(Value::ints).collect::<Option<Vec<_>>>().map(Dims::List);
    }
    value.ints().map(Dims::Shape)
}

/// One type an input, as a trace has them; a lone one holds for all. And the type of the tensors in lists, for which a
/// trace has only a word.
fn types(given: &Given<'_>, dims: &[Dims]) -> Result<(Vec<String>, Option<String>), CalculatorError> {
    let text = given.text("types").unwrap_or_default();
    let wrong = || given.wrong("types", "a type, or one for every input: bf16,bf16 or ['float', 'int']");
    let mut words: Vec<String> = if text.starts_with(['[', '(']) {
        let Some(Value::List(items) | Value::Tuple(items)) = literal::parse(text) else { return Err(wrong()) };
        let word = |item: Value| if let Value::Str(word) = item { Some(word) } else { None };
        items.into_iter().map(word).collect::<Option<_>>().ok_or_else(wrong)?
    } else {
        text.split(',').map(|word| word.trim().to_owned()).collect()
    };
    if words.iter().all(String::is_empty) {
        return Err(wrong());
    }
    if let [word] = words.as_slice() {
        Type::read(word).ok_or_else(|| given.unknown_type("types", word))?;
        words = vec![word.clone(); dims.len()];
    }
    let mut of_lists = None;
    for (word, dims) in words.iter_mut().zip(dims) {
        let found = Type::read(word).map(|found| found.name);
        let is_list = matches!(dims, Dims::List(_));
        let has_type = matches!(dims, Dims::Shape(shape) if !shape.is_empty()) || is_list && word != TENSOR_LIST;
        if has_type && found.is_none() {
            return Err(given.unknown_type("types", word));
        }
        if is_list {
            of_lists = of_lists.or(found);
            TENSOR_LIST.clone_into(word);
        } else if let Some(name) = found {
            *word = name;
        }
    }
    Ok((words, of_lists))
}

/// What a trace has for the type of a list of tensors.
const TENSOR_LIST: &str = "TensorList";

/// One text an input, as a trace has it: empty for tensors.
fn concrete(given: &Given<'_>, inputs: usize) -> Result<Vec<String>, CalculatorError> {
    let Some(text) = given.text("concrete") else { return Ok(vec![String::new(); inputs]) };
    let Some(Value::List(items) | Value::Tuple(items)) = literal::parse(text) else {
        return Err(given.wrong("concrete", "a list with one entry for every input: ['', '', '[1, 1]', 'False']"));
    };
    let text = |item: Value| if let Value::Str(text) = item { text } else { item.to_string() };
    Ok(items.into_iter().map(text).collect())
}
