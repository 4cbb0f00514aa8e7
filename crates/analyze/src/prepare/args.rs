//! Arguments in short form: `(8944,1024) bf16`.

use std::borrow::Cow;
use std::fmt::Write as _;

use jarvis_perf::call::{Dims, InputLists};
use jarvis_perf::dtype;
use jarvis_perf::parity::Quirks;
use serde_json::Value as Json;

/// Between the tensors of a call, in tables and in `args` fields.
pub const SEPARATOR: &str = "<br>";

/// Short name of a type: `bf16`, `fp32`, `i64`, …
pub fn short_type(name: &str) -> Cow<'static, str> {
    if let Some(label) = dtype::precision(name, &Quirks::NONE).filter(|_| name != "unsigned char") {
        return label.into();
    }
    let short = match name.to_ascii_lowercase().as_str() {
        "long int" | "long" => "i64",
        "int" => "i32",
        "short int" | "short" => "i16",
        "signed char" | "char" => "i8",
        "unsigned char" => "u8",
        "bool" => "bool",
        _ => return name.strip_prefix("c10::").unwrap_or(name).to_ascii_lowercase().into(),
    };
    short.into()
}

/// The tensors of a call in short form, one after another. Scalars and absent arguments are left out.
pub fn render(inputs: &InputLists) -> String {
    let Some(dims) = &inputs.dims else { return String::new() };
    let mut text = String::new();
    for (i, dims) in dims.iter().enumerate().filter(|(_, d)| !d.shape().is_some_and(<[i64]>::is_empty)) {
        if !text.is_empty() {
            text.push_str(SEPARATOR);
        }
        match dims {
            Dims::Shape(sizes) => {
                push_shape(&mut text, sizes);
                if let Some(name) = inputs.types.as_ref().and_then(|t| t.get(i)).filter(|name| !name.is_empty()) {
                    text.push(' ');
                    text.push_str(&short_type(name));
                }
            }
            Dims::List(list) => {
                let _ = write!(text, "{} tensors ", list.len());
                if let Some(first) = list.first() {
                    push_shape(&mut text, first);
                }
                text.push_str(if list.len() > 1 { " ..." } else { "" });
            }
        }
    }
    text
}

fn push_shape(text: &mut String, sizes: &[i64]) {
    let mut before = '(';
    for size in sizes {
        let _ = write!(text, "{before}{size}");
        before = ',';
    }
    text.push_str(if sizes.is_empty() { "()" } else { ")" });
}

/// Tensors in short form within a sentence; as data if an element type is none that is known, since it may be any text.
pub fn in_prose(args: &str) -> String {
    let text = args.replace(SEPARATOR, ", ");
    let known = |word: &str| word.chars().any(|c| c.is_ascii_digit()) || matches!(word, "" | "bool" | "tensors");
    let reads = text.chars().all(|c| c.is_ascii_alphanumeric() || "_(),.- ".contains(c));
    if reads && text.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).all(known) {
        text
    } else {
        format!("`{}`", text.replace('`', "'"))
    }
}

/// `Input Dims` or `Input Strides` as recorded.
pub fn dims_json(dims: Option<&[Dims]>) -> Json {
    let one = |d: &Dims| match d {
        Dims::Shape(sizes) => Json::from(sizes.clone()),
        Dims::List(list) => Json::from(list.clone()),
    };
    dims.map_or(Json::Null, |list| list.iter().map(one).collect())
}

/// `Input type` as recorded.
pub fn types_json(types: Option<&[String]>) -> Json {
    types.map_or(Json::Null, |list| list.iter().map(String::as_str).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn odd_element_types_are_data_within_a_sentence() {
        assert_eq!(in_prose("(2,3) bf16<br>(4) i64<br>2 tensors (1) ..."), "(2,3) bf16, (4) i64, 2 tensors (1) ...");
        assert_eq!(in_prose("(2,3) warp"), "`(2,3) warp`");
        assert_eq!(in_prose("(2) [a](#b)"), "`(2) [a](#b)`");
    }

    #[test]
    fn tensors_in_short_form() {
        let inputs = InputLists {
            dims: Some(
                [
                    Dims::Shape(vec![8944, 1024]),
                    Dims::Shape(vec![]),
                    Dims::Shape(vec![4]),
                    Dims::List(vec![vec![2, 3], vec![4]]),
                ]
                .into(),
            ),
            types: Some(["c10::BFloat16".into(), "Scalar".into(), "long int".into(), "TensorList".into()].into()),
            ..InputLists::default()
        };
        assert_eq!(render(&inputs), "(8944,1024) bf16<br>(4) i64<br>2 tensors (2,3) ...");
        assert_eq!(render(&InputLists::default()), "");
        assert_eq!(dims_json(inputs.dims.as_deref()).to_string(), "[[8944,1024],[],[4],[[2,3],[4]]]");
        assert_eq!(types_json(None), Json::Null);
    }

    #[test]
    fn types_are_short() {
        for (name, short) in
            [("float", "fp32"), ("unsigned char", "u8"), ("c10::Float8_e4m3fn", "fp8"), ("c10::Odd", "odd")]
        {
            assert_eq!(short_type(name), short);
        }
    }
}
