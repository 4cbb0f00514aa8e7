//! The recorded inputs of a call, one after the other.

use jarvis_perf::call::{Dims, InputLists};
use jarvis_perf::literal;
use jarvis_perf::tables::ArgTexts;
use jarvis_perf::value::Value;
use serde::Serialize;

/// Sizes or strides: of a tensor, or of each tensor of a list.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(untagged)]
pub enum Sizes {
    /// Of one tensor; empty for everything that is no tensor.
    One(Vec<i64>),
    /// Of the tensors of a list.
    Many(Vec<Vec<i64>>),
}

impl Sizes {
    /// Those of one tensor; empty for a list.
    pub fn one(&self) -> &[i64] {
        match self {
            Self::One(sizes) => sizes,
            Self::Many(_) => &[],
        }
    }
}

impl From<&Dims> for Sizes {
    fn from(dims: &Dims) -> Self {
        match dims {
            Dims::Shape(shape) => Self::One(shape.clone()),
            Dims::List(list) => Self::Many(list.clone()),
        }
    }
}

/// One recorded input.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
pub struct Input {
    /// Position among the arguments.
    pub index: usize,
    /// Element type of a tensor, `Scalar`, `ScalarList`, `TensorList`, or empty for what is not recorded.
    #[serde(rename = "type")]
    pub kind: String,
    /// Sizes.
    pub dims: Sizes,
    /// Strides.
    pub strides: Sizes,
    /// Number, truth value or list of them; empty for everything else.
    pub concrete: String,
}

/// What an input is.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Given {
    /// A tensor.
    Tensor,
    /// Tensors of known sizes.
    Tensors,
    /// Tensors of unknown sizes.
    UnknownTensors,
    /// A number or truth value.
    Scalar(Value),
    /// Numbers or truth values.
    List(Vec<Value>),
    /// Nothing, or something that profilers do not record.
    Nothing,
    /// A number that was not recorded.
    Unknown,
}

impl Input {
    /// What it is.
    pub(crate) fn given(&self) -> Given {
        if self.kind == "TensorList" {
            return match &self.dims {
                Sizes::Many(list) if !list.is_empty() => Given::Tensors,
                _ => Given::UnknownTensors,
            };
        }
        match (number(&self.concrete), self.kind.as_str()) {
            (Some(Value::List(items) | Value::Tuple(items)), _) => Given::List(items),
            (Some(value), _) => Given::Scalar(value),
            (None, "" | "None") => Given::Nothing,
            (None, "Scalar" | "ScalarList") => Given::Unknown,
            (None, _) => Given::Tensor,
        }
    }

    /// Whether two places of the tensor are the same memory, as far as an expanded dimension shows.
    pub(crate) fn overlaps(&self) -> bool {
        let dims = self.dims.one().iter();
        dims.zip(self.strides.one()).any(|(&size, &stride)| size > 1 && stride == 0)
    }
}

/// The number, truth value or list of them that a text spells. Everything else is dropped: a text could name anything.
fn number(text: &str) -> Option<Value> {
    let plain = |value: &Value| matches!(value, Value::Bool(_) | Value::Int(_) | Value::Float(_));
    match parsed(text)? {
        Value::List(items) | Value::Tuple(items) => items.iter().all(plain).then_some(Value::List(items)),
        value => plain(&value).then_some(value),
    }
}

fn parsed(text: &str) -> Option<Value> {
    match text {
        "inf" => Some(Value::Float(f64::INFINITY)),
        "-inf" => Some(Value::Float(f64::NEG_INFINITY)),
        "nan" => Some(Value::Float(f64::NAN)),
        _ => literal::parse(text),
    }
}

/// The inputs of a call; `None` if the trace was recorded without shapes.
pub(crate) fn of_lists(lists: &InputLists) -> Option<Vec<Input>> {
    let (dims, types) = (lists.dims.as_ref()?, lists.types.as_ref()?);
    let nothing = Sizes::One(Vec::new());
    let input = |index: usize| {
        let concrete = lists.concrete.as_ref().and_then(|list| list.get(index)).map_or("", String::as_str);
        Input {
            index,
            kind: types.get(index).cloned().unwrap_or_default(),
            dims: dims.get(index).map_or_else(|| nothing.clone(), Sizes::from),
            strides: lists
                .strides
                .as_ref()
                .and_then(|list| list.get(index))
                .map_or_else(|| nothing.clone(), Sizes::from),
            concrete: number(concrete).map_or_else(String::new, |_| concrete.to_owned()),
        }
    };
    Some((0..types.len().max(dims.len())).map(input).collect())
}

/// The inputs of a call from the texts of a table's cells.
pub(crate) fn of_texts(texts: &ArgTexts) -> Option<Vec<Input>> {
    let items = |text: &Option<std::sync::Arc<str>>| match literal::parse(text.as_deref()?)? {
        Value::List(items) | Value::Tuple(items) => Some(items),
        _ => None,
    };
    let sizes = |text| Some(items(text)?.iter().map(sizes_of).collect());
    let words = |text| Some(items(text)?.iter().map(word).collect());
    of_lists(&InputLists {
        dims: sizes(&texts.dims),
        types: words(&texts.types),
        strides: sizes(&texts.strides),
        concrete: words(&texts.concrete),
    })
}

fn sizes_of(value: &Value) -> Dims {
    let (Value::List(items) | Value::Tuple(items)) = value else { return Dims::Shape(Vec::new()) };
    match value.ints() {
        Some(shape) => Dims::Shape(shape),
        None => Dims::List(items.iter().map(|item| item.ints().unwrap_or_default()).collect()),
    }
}

fn word(value: &Value) -> String {
    match value {
        Value::Str(text) => text.clone(),
        other => other.to_string(),
    }
}

/// Element types as PyTorch spells them, without namespace and in lower case, and their names in torch.
#[rustfmt::skip]
const DTYPES: &[(&str, &str, Family)] = &[
    ("bfloat16",         "bfloat16",         Family::Float),
    ("bool",             "bool",             Family::Bool),
    ("byte",             "uint8",            Family::Int),
    ("char",             "int8",             Family::Int),
    ("complex<double>",  "complex128",       Family::Float),
    ("complex<float>",   "complex64",        Family::Float),
    ("complex<half>",    "complex32",        Family::Float),
    ("double",           "float64",          Family::Float),
    ("float",            "float32",          Family::Float),
    ("float4_e2m1fn_x2", "float4_e2m1fn_x2", Family::Float),
    ("float8_e4m3fn",    "float8_e4m3fn",    Family::Float),
    ("float8_e4m3fnuz",  "float8_e4m3fnuz",  Family::Float),
    ("float8_e5m2",      "float8_e5m2",      Family::Float),
    ("float8_e5m2fnuz",  "float8_e5m2fnuz",  Family::Float),
    ("float8_e8m0fnu",   "float8_e8m0fnu",   Family::Float),
    ("half",             "float16",          Family::Float),
    ("int",              "int32",            Family::Int),
    ("long",             "int64",            Family::Int),
    ("long int",         "int64",            Family::Int),
    ("short",            "int16",            Family::Int),
    ("short int",        "int16",            Family::Int),
    ("signed char",      "int8",             Family::Int),
    ("unsigned char",    "uint8",            Family::Int),
    ("unsigned int",     "uint32",           Family::Int),
    ("unsigned long",    "uint64",           Family::Int),
    ("unsigned short",   "uint16",           Family::Int),
];

/// What values of a type are like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Family {
    /// Real or complex.
    Float,
    /// Whole.
    Int,
    /// Truth values.
    Bool,
}

/// Name in torch and family of a recorded element type.
pub(crate) fn dtype(recorded: &str) -> Option<(&'static str, Family)> {
    let plain = recorded.replace("c10::", "").replace("at::", "").to_lowercase();
    DTYPES.iter().find(|(name, ..)| *name == plain.trim()).map(|&(_, torch, family)| (torch, family))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(dims: &str, types: &str, strides: &str, concrete: &str) -> ArgTexts {
        let text = |t: &str| Some(t.into());
        ArgTexts { dims: text(dims), types: text(types), strides: text(strides), concrete: text(concrete) }
    }

    #[test]
    fn cells_of_a_table_become_inputs() {
        let inputs = of_texts(&texts(
            "((8, 4), ((2,), (3, 1)), (), (), ())",
            "('c10::BFloat16', 'TensorList', 'ScalarList', 'Scalar', '')",
            "((1, 8), ((1,), (1, 1)), (), (), ())",
            "('', '', '[1, 1]', '-inf', '')",
        ))
        .unwrap();
        assert_eq!(inputs[0].dims, Sizes::One(vec![8, 4]));
        assert_eq!(inputs[1].dims, Sizes::Many(vec![vec![2], vec![3, 1]]));
        let given: Vec<Given> = inputs.iter().map(Input::given).collect();
        assert_eq!(given[..2], [Given::Tensor, Given::Tensors]);
        assert_eq!(given[2], Given::List(vec![Value::Int(1), Value::Int(1)]));
        assert_eq!(given[3], Given::Scalar(Value::Float(f64::NEG_INFINITY)));
        assert_eq!(given[4], Given::Nothing);
    }

    #[test]
    fn texts_that_are_no_numbers_are_dropped() {
        let inputs = of_texts(&texts("((), ())", "('', '')", "((), ())", "('model.layers.3', \"['a']\")")).unwrap();
        assert!(inputs.iter().all(|input| input.concrete.is_empty() && input.given() == Given::Nothing));
        assert_eq!(of_texts(&ArgTexts::default()), None);
    }

    #[test]
    fn types_are_sorted_and_found_in_any_spelling() {
        assert!(DTYPES.is_sorted_by_key(|(name, ..)| *name));
        for (recorded, torch) in
            [("c10::BFloat16", "bfloat16"), ("BFloat16", "bfloat16"), ("Float", "float32"), ("long int", "int64")]
        {
            assert_eq!(dtype(recorded).map(|d| d.0), Some(torch), "{recorded}");
        }
        assert_eq!(dtype("c10::qint8"), None);
    }
}
