//! Schemas of operations, and which overload a recorded call fits.

use std::sync::{LazyLock, OnceLock};

use jarvis_perf::value::Value;

use super::inputs::{Given, Input};

/// All schemas that jarvis knows, one a line, sorted by name.
const TABLE: &str = include_str!("schemas.txt");

/// An argument.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Argument {
    pub(crate) name: &'static str,
    /// As the schema writes it, without marks of aliasing.
    pub(crate) text: String,
    pub(crate) default: Option<&'static str>,
    pub(crate) keyword_only: bool,
    /// Whether the operation writes to it.
    pub(crate) written: bool,
    pub(crate) is_out: bool,
}

/// A schema.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Schema {
    pub(crate) text: &'static str,
    pub(crate) name: &'static str,
    /// Empty for the overload without a name.
    pub(crate) overload: &'static str,
    pub(crate) arguments: Vec<Argument>,
}

/// The type of an argument, taken apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Type<'a> {
    /// `Tensor`, `int`, `Scalar`, …
    pub(crate) base: &'a str,
    pub(crate) is_list: bool,
    /// Whether items of the list may be missing.
    pub(crate) optional_items: bool,
    pub(crate) optional: bool,
}

/// A line of the table. A run looks at a few of them, so each is read when it is asked for.
struct Line {
    name: &'static str,
    text: &'static str,
    schema: OnceLock<Option<Schema>>,
}

impl Line {
    fn of(text: &'static str) -> Option<Self> {
        let name = &text[..text.bytes().position(|b| matches!(b, b'.' | b'('))?];
        (!text.starts_with('#')).then_some(Self { name, text, schema: OnceLock::new() })
    }

    fn schema(&self) -> Option<&Schema> {
        self.schema.get_or_init(|| Schema::parse(self.text)).as_ref()
    }
}

static SCHEMAS: LazyLock<Vec<Line>> = LazyLock::new(|| TABLE.lines().filter_map(Line::of).collect());

/// The lines of an operation.
fn lines_of(op: &str) -> &'static [Line] {
    let from = SCHEMAS.partition_point(|line| line.name < op);
    let count = SCHEMAS[from..].iter().take_while(|line| line.name == op).count();
    &SCHEMAS[from..from + count]
}

impl Argument {
    /// Its type.
    pub(crate) fn kind(&self) -> Type<'_> {
        let (text, optional) = self.text.strip_suffix('?').map_or((self.text.as_str(), false), |inner| (inner, true));
        let list = text.strip_suffix(']').and_then(|inner| inner.rsplit_once('['));
        let (item, is_list) = list.map_or((text, false), |(item, _)| (item, true));
        let (base, optional_items) = item.strip_suffix('?').map_or((item, false), |inner| (inner, true));
        Type { base: base.strip_prefix("Sym").map_or(base, symbolic), is_list, optional_items, optional }
    }

    fn parse(text: &'static str, keyword_only: bool) -> Option<Self> {
        let (typed, default) = text.split_once('=').map_or((text, None), |(typed, value)| (typed, Some(value)));
        let (kind, name) = typed.trim().rsplit_once(' ')?;
        let mut plain = kind.to_owned();
        while let Some((start, end)) = plain.find('(').zip(plain.find(')')) {
            plain.replace_range(start..=end, "");
        }
        let written = kind.contains('!');
        Some(Self { name, text: plain, default, keyword_only, written, is_out: keyword_only && written })
    }

    /// 2 exact, 1 convertible, `None` impossible.
    fn score(&self, given: &Given) -> Option<u32> {
        let kind = self.kind();
        match given {
            Given::Nothing if kind.optional => Some(2),
            Given::Nothing => {
                let not_recorded = matches!(kind.base, "str" | "Device" | "Generator");
                let undefined = kind.base == "Tensor" && !kind.is_list;
                (not_recorded || undefined || self.default.is_some()).then_some(1)
            }
            Given::Tensor => (kind.base == "Tensor" && !kind.is_list).then_some(2),
            Given::Tensors => (kind.base == "Tensor" && kind.is_list && !kind.optional_items).then_some(2),
            Given::UnknownTensors => (kind.base == "Tensor" && kind.is_list).then_some(2),
            Given::Scalar(value) if kind.is_list => {
                (kind.base == "int" && score_value(kind.base, value).is_some()).then_some(1)
            }
            Given::Scalar(value) => score_value(kind.base, value),
            Given::List(items) if kind.is_list => {
                items.iter().try_fold(2, |least, item| Some(score_value(kind.base, item)?.min(least)))
            }
            Given::List(_) | Given::Unknown => None,
        }
    }
}

/// `SymInt` is an `int` that a compiler may leave open.
fn symbolic(base: &str) -> &str {
    match base {
        "Int" => "int",
        "Float" => "float",
        "Bool" => "bool",
        other => other,
    }
}

fn score_value(base: &str, value: &Value) -> Option<u32> {
    match (base, value) {
        ("bool", Value::Bool(_))
        | ("int" | "ScalarType" | "Layout" | "MemoryFormat", Value::Int(_))
        | ("float", Value::Float(_))
        | ("Scalar", Value::Int(_) | Value::Float(_)) => Some(2),
        ("float", Value::Int(_)) | ("Scalar", Value::Bool(_)) => Some(1),
        _ => None,
    }
}

impl Schema {
    fn parse(text: &'static str) -> Option<Self> {
        let open = text.find('(')?;
        let (name, overload) = text[..open].split_once('.').unwrap_or((&text[..open], ""));
        let close = text.rfind(") ->")?;
        let mut arguments = Vec::new();
        let mut keyword_only = false;
        for part in parts(&text[open + 1..close]) {
            if part == "*" {
                keyword_only = true;
            } else {
                arguments.push(Argument::parse(part, keyword_only)?);
            }
        }
        Some(Self { text, name, overload, arguments })
    }

    /// How well recorded inputs fit: larger is better.
    fn rank(&self, given: &[Given]) -> Option<(bool, u32, i32, i32)> {
        let missing = self.arguments.get(given.len()..)?;
        if missing.iter().any(|arg| arg.default.is_none()) {
            return None;
        }
        let total = self.arguments.iter().zip(given).try_fold(0, |sum, (arg, got)| Some(sum + arg.score(got)?))?;
        let outs = self.arguments.iter().filter(|arg| arg.is_out).count();
        Some((missing.is_empty(), total, -(outs as i32), -(missing.len() as i32)))
    }
}

/// Parts between commas that stand in no brackets.
fn parts(text: &'static str) -> Vec<&'static str> {
    let (mut depth, mut start, mut found) = (0_i32, 0, Vec::new());
    for (at, c) in text.char_indices() {
        match c {
            '(' | '[' => depth += 1,
            ')' | ']' => depth -= 1,
            ',' if depth == 0 => {
                found.push(text[start..at].trim());
                start = at + 1;
            }
            _ => {}
        }
    }
    found.push(text[start..].trim());
    found.retain(|part| !part.is_empty());
    found
}

/// Whether jarvis knows schemas of an operation.
pub(crate) fn is_known(op: &str) -> bool {
    !lines_of(op).is_empty()
}

/// The overload that a call fits best; `None` if the operation is unknown or none fits.
pub(crate) fn resolve(op: &str, inputs: &[Input]) -> Option<&'static Schema> {
    let given: Vec<Given> = inputs.iter().map(Input::given).collect();
    let ranked = lines_of(op).iter().filter_map(Line::schema).filter_map(|s| Some((s.rank(&given)?, s)));
    // The first of equals: the table is sorted.
    ranked.reduce(|best, next| if next.0 > best.0 { next } else { best }).map(|(_, schema)| schema)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::replay::inputs::Sizes;

    fn input(kind: &str, dims: &[i64], concrete: &str) -> Input {
        Input {
            index: 0,
            kind: kind.to_owned(),
            dims: Sizes::One(dims.to_vec()),
            strides: Sizes::One(Vec::new()),
            concrete: concrete.to_owned(),
        }
    }

    fn overload(op: &str, inputs: &[Input]) -> Option<&'static str> {
        resolve(op, inputs).map(|schema| schema.overload)
    }

    #[test]
    fn every_line_of_the_table_is_read() {
        let lines: Vec<&str> = TABLE.lines().filter(|line| !line.starts_with('#')).collect();
        assert_eq!(lines.len(), SCHEMAS.len());
        let names: Vec<&str> = SCHEMAS.iter().map(|s| s.name).collect();
        assert!(names.is_sorted());
        assert!(SCHEMAS.iter().all(|line| line.schema().is_some_and(|schema| schema.name == line.name)));
    }

    #[test]
    fn types_are_taken_apart() {
        let schema =
            Schema::parse("aten::x.o(Tensor(a!) self, Tensor?[] i, SymInt[2]? k=[1, 1], *, Tensor(b!) out) -> ()");
        let schema = schema.unwrap();
        assert_eq!((schema.name, schema.overload), ("aten::x", "o"));
        let [first, list, sizes, out] = &schema.arguments[..] else { panic!("{schema:?}") };
        assert!(first.written && !first.is_out && first.text == "Tensor");
        assert!(list.kind().is_list && list.kind().optional_items);
        assert_eq!(sizes.kind(), Type { base: "int", is_list: true, optional_items: false, optional: true });
        assert_eq!(sizes.default, Some("[1, 1]"));
        assert!(out.is_out && out.name == "out");
    }

    #[test]
    fn overloads_are_chosen_by_what_was_recorded() {
        let x = || input("float", &[4, 4], "");
        let (number, wrapped) = (input("Scalar", &[], "2."), input("double", &[], ""));
        assert_eq!(overload("aten::div", &[x(), number.clone()]), Some("Scalar"));
        assert_eq!(overload("aten::div", &[x(), x()]), Some("Tensor"));
        assert_eq!(overload("aten::div", &[x(), wrapped]), Some("Tensor"));
        assert_eq!(overload("aten::add", &[x(), x(), number.clone()]), Some("Tensor"));
        let one = input("Scalar", &[], "1");
        let addmm = [x(), x(), x(), one.clone(), one.clone()];
        assert_eq!(overload("aten::addmm", &addmm), Some(""));
        assert_eq!(overload("aten::addmm", &[&addmm[..], &[x()]].concat()), Some("out"));
        let nothing = || input("", &[], "");
        let tail = [nothing(), nothing(), nothing(), nothing()];
        assert_eq!(overload("aten::arange", &[std::slice::from_ref(&one), &tail[..]].concat()), Some(""));
        assert_eq!(overload("aten::arange", &[&[one.clone(), one.clone()], &tail[..]].concat()), Some("start"));
        let dtype = input("Scalar", &[], "15");
        assert_eq!(
            overload("aten::arange", &[one.clone(), one.clone(), one, input("long int", &[0], "")]),
            Some("start_out")
        );
        let to_copy = [x(), dtype, nothing(), nothing(), nothing(), input("Scalar", &[], "False"), nothing()];
        assert_eq!(overload("aten::_to_copy", &to_copy), Some(""));
        assert_eq!(overload("aten::div", &[number]), None);
        assert_eq!(overload("mine::op", &[x()]), None);
        assert!(is_known("aten::mm") && !is_known("mine::op"));
    }
}
