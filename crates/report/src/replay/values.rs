//! What the tensors of a replayed call hold. Values are not recorded, and most operations do not care; those that
//! follow an index or take a root must get values that are safe.

use serde::Serialize;

use super::inputs::{Family, Given, Input, Sizes, dtype};
use super::schema::{Argument, Schema};
use super::words;

/// How a tensor is filled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Init {
    Normal,
    Uniform,
    Positive,
    Index,
    Offsets,
    Bool,
    Ones,
    Empty,
}

/// How one tensor argument is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Fill {
    pub(crate) init: Init,
    /// First value, and the one after the last; first and last of offsets.
    pub(crate) range: Option<[i64; 2]>,
    /// Whether it is made on the host: a Python number that was wrapped.
    pub(crate) on_host: bool,
    /// Whether the values are a guess that may matter.
    pub(crate) assumed: bool,
}

impl Fill {
    const fn of(init: Init) -> Self {
        Self { init, range: None, on_host: false, assumed: false }
    }

    const fn within(init: Init, low: i64, high: i64) -> Self {
        Self { init, range: Some([low, high]), on_host: false, assumed: false }
    }
}

/// Where the limit of an index comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Limit {
    /// Size of the first dimension of an argument.
    Rows(&'static str),
    /// Size of the dimension that the argument `dim` names, in `self`.
    Dim,
    /// Size of the class dimension of `self`: the second, or the only one.
    Classes,
    /// Elements of the last dimensions of an argument, as many as given.
    Plane(&'static str, usize),
    /// All elements of `self`.
    Elements,
    /// The number in an argument.
    Number(&'static str),
    /// Offsets from 0 to the first size of an argument.
    Tokens(&'static str),
    /// Ends of the groups of a grouped product.
    Groups,
}

/// Index arguments: operation (a trailing `*` for all that begin so), argument, limit.
#[rustfmt::skip]
const INDICES: &[(&str, &str, Limit)] = &[
    ("aten::_efficient_attention_*",           "cu_seqlens_q", Limit::Tokens("query")),
    ("aten::_efficient_attention_*",           "cu_seqlens_k", Limit::Tokens("key")),
    ("aten::_embedding_bag*",                  "indices",      Limit::Rows("weight")),
    ("aten::_embedding_bag*",                  "offsets",      Limit::Tokens("indices")),
    ("aten::_flash_attention_*",               "cum_seq_q",    Limit::Tokens("query")),
    ("aten::_flash_attention_*",               "cum_seq_k",    Limit::Tokens("key")),
    ("aten::_grouped_mm",                      "offs",         Limit::Groups),
    ("aten::_scaled_grouped_mm",               "offs",         Limit::Groups),
    ("aten::cross_entropy*",                   "target",       Limit::Classes),
    ("aten::embedding",                        "indices",      Limit::Rows("weight")),
    ("aten::embedding_bag",                    "indices",      Limit::Rows("weight")),
    ("aten::embedding_bag",                    "offsets",      Limit::Tokens("indices")),
    ("aten::embedding_dense_backward",         "indices",      Limit::Number("num_weights")),
    ("aten::gather",                           "index",        Limit::Dim),
    ("aten::gather_backward",                  "index",        Limit::Dim),
    ("aten::index_add*",                       "index",        Limit::Dim),
    ("aten::index_copy*",                      "index",        Limit::Dim),
    ("aten::index_fill*",                      "index",        Limit::Dim),
    ("aten::index_reduce*",                    "index",        Limit::Dim),
    ("aten::index_select",                     "index",        Limit::Dim),
    ("aten::max_pool2d_with_indices_backward", "indices",      Limit::Plane("self", 2)),
    ("aten::max_pool3d_with_indices_backward", "indices",      Limit::Plane("self", 3)),
    ("aten::nll_loss*",                        "target",       Limit::Classes),
    ("aten::put_",                             "index",        Limit::Elements),
    ("aten::scatter*",                         "index",        Limit::Dim),
    ("aten::take",                             "index",        Limit::Elements),
    ("aten::take_along_dim",                   "indices",      Limit::Dim),
];

/// Names of arguments whose whole numbers address memory.
#[rustfmt::skip]
const ADDRESSES: &[&str] = &[
    "block_table", "cu_seqlens", "cum_seq", "index", "indices", "input_lengths", "lengths", "offs", "offsets",
    "seqlen", "seqused", "target", "targets", "target_lengths",
];

/// Operations that overwrite their first argument without reading it.
#[rustfmt::skip]
const OVERWRITING: &[&str] = &[
    "aten::bernoulli_", "aten::copy_", "aten::exponential_", "aten::fill_", "aten::normal_", "aten::random_",
    "aten::uniform_", "aten::zero_",
];

/// Operations whose floats must be positive, by the beginning of their name.
#[rustfmt::skip]
const POSITIVE_OPS: &[&str] = &[
    "aten::bernoulli", "aten::binary_cross_entropy", "aten::log10", "aten::log1p", "aten::log2", "aten::log_",
    "aten::multinomial", "aten::poisson", "aten::pow", "aten::rsqrt", "aten::sqrt",
];

/// Floats that are spreads, scales or normalisers, and so positive in any real call.
#[rustfmt::skip]
const POSITIVE_ARGUMENTS: &[&str] = &[
    "invstd", "logsumexp", "rstd", "running_var", "save_invstd", "save_var", "scale", "scale_a", "scale_b",
    "scale_result", "total_weight", "var",
];

/// How a tensor argument of a call is filled, or why no safe values are known.
pub(crate) fn fill(schema: &Schema, at: usize, inputs: &[Input]) -> Result<Fill, String> {
    let (arg, input) = (&schema.arguments[at], &inputs[at]);
    let (_, family) = dtype(&input.kind).ok_or_else(|| words::unknown_type(&input.kind))?;
    if arg.is_out || (at == 0 && OVERWRITING.contains(&schema.name)) {
        return Ok(Fill::of(Init::Empty));
    }
    if is_wrapped_number(schema, arg, input, inputs) {
        return Ok(Fill { on_host: true, ..Fill::of(Init::Ones) });
    }
    match family {
        Family::Bool => Ok(Fill::of(Init::Bool)),
        Family::Float => Ok(Fill::of(if is_positive(schema, arg) { Init::Positive } else { Init::Normal })),
        Family::Int => whole_numbers(schema, at, inputs),
    }
}

fn is_positive(schema: &Schema, arg: &Argument) -> bool {
    let op = schema.name;
    POSITIVE_ARGUMENTS.contains(&arg.name)
        || op == "aten::log"
        || POSITIVE_OPS.iter().any(|start| op.starts_with(start))
        || (op == "aten::_softmax_backward_data" && arg.name == "output")
}

/// A tensor without dimensions of Python's own types beside a tensor that is not: a number of the program.
fn is_wrapped_number(schema: &Schema, arg: &Argument, input: &Input, inputs: &[Input]) -> bool {
    let is_number = |input: &Input| {
        input.dims.one().is_empty() && dtype(&input.kind).is_some_and(|d| ["float64", "int64"].contains(&d.0))
    };
    takes_number(schema, arg)
        && is_number(input)
        && inputs.iter().any(|other| other.given() == Given::Tensor && !is_number(other))
}

/// Whether PyTorch makes a tensor of a Python number that is given for an argument. Everything else lies on the device:
/// an index, a state, a sum, the source of a copy, and what is written to.
fn takes_number(schema: &Schema, arg: &Argument) -> bool {
    let is_operand = |name: &str| ["exponent", "other"].contains(&name);
    let is_left_operand = arg.name == "self" && schema.arguments.iter().any(|other| is_operand(other.name));
    !arg.written && (is_left_operand || is_operand(arg.name) || arg.name == "value")
}

fn whole_numbers(schema: &Schema, at: usize, inputs: &[Input]) -> Result<Fill, String> {
    let arg = &schema.arguments[at];
    let rule = INDICES.iter().find(|(op, name, _)| *name == arg.name && matches(op, schema.name));
    if let Some((_, _, limit)) = rule {
        let fill = limited(*limit, schema, inputs, &inputs[at]);
        return fill.ok_or_else(|| words::unsafe_index(arg.name));
    }
    if ADDRESSES.iter().any(|name| arg.name == *name || arg.name.starts_with(&format!("{name}_"))) {
        return Err(words::unsafe_index(arg.name));
    }
    // A divisor must not be zero.
    let low = i64::from(arg.name == "other");
    let assumed = arg.kind().base == "Tensor" && !matches!(arg.name, "reserve" | "reserveSpace");
    Ok(Fill { assumed, ..Fill::within(Init::Uniform, low, 8) })
}

fn matches(pattern: &str, op: &str) -> bool {
    pattern.strip_suffix('*').map_or(pattern == op, |start| op.starts_with(start))
}

fn limited(limit: Limit, schema: &Schema, inputs: &[Input], index: &Input) -> Option<Fill> {
    let of = |name: &str| inputs.get(schema.arguments.iter().position(|arg| arg.name == name)?);
    let dims = |name: &str| of(name).map(|input| input.dims.one());
    let below = |size: i64| (size > 0).then_some(Fill::within(Init::Index, 0, size));
    let elements = |sizes: &[i64]| sizes.iter().try_fold(1_i64, |n, &size| n.checked_mul(size));
    match limit {
        Limit::Rows(name) => below(*dims(name)?.first()?),
        Limit::Dim => {
            let (sizes, dim) = (dims("self")?, number(of("dim")?)?);
            let at = if dim < 0 { dim + sizes.len() as i64 } else { dim };
            // A tensor without dimensions has one place.
            if sizes.is_empty() { below(1) } else { below(*sizes.get(usize::try_from(at).ok()?)?) }
        }
        Limit::Classes => {
            let sizes = dims("self")?;
            below(*sizes.get(1).or(sizes.first())?)
        }
        Limit::Plane(name, rank) => {
            let sizes = dims(name)?;
            below(elements(sizes.get(sizes.len().checked_sub(rank)?..)?)?)
        }
        Limit::Elements => below(elements(dims("self")?)?),
        Limit::Number(name) => below(number(of(name)?)?),
        Limit::Tokens(name) => Some(Fill::within(Init::Offsets, 0, *dims(name)?.first()?)),
        Limit::Groups => {
            let (a, b) = (of_any(schema, inputs, &["self", "mat_a"])?, of_any(schema, inputs, &["mat2", "mat_b"])?);
            // The dimension that both lack a group index for: rows of a, columns of b, or the one they share.
            let total = match (a.dims.one(), b.dims.one()) {
                ([rows, _], [_, _, _]) => *rows,
                ([_, _, _], [_, columns]) => *columns,
                ([_, shared], [_, _]) => *shared,
                _ => return None,
            };
            let groups = *index.dims.one().first()?;
            (groups > 0).then(|| Fill::within(Init::Offsets, total / groups, total))
        }
    }
}

fn of_any<'i>(schema: &Schema, inputs: &'i [Input], names: &[&str]) -> Option<&'i Input> {
    inputs.get(schema.arguments.iter().position(|arg| names.contains(&arg.name))?)
}

fn number(input: &Input) -> Option<i64> {
    match input.given() {
        Given::Scalar(jarvis_perf::value::Value::Int(i)) => Some(i),
        _ => None,
    }
}

/// Whether every tensor that a call starts from is empty. Results are made larger as needed.
pub(crate) fn computes_nothing(schema: Option<&Schema>, inputs: &[Input]) -> bool {
    let is_out = |at: usize| schema.and_then(|s| s.arguments.get(at)).is_some_and(|arg| arg.is_out);
    let given = inputs.iter().enumerate().filter(|(at, input)| input.given() == Given::Tensor && !is_out(*at));
    let is_empty = |(_, input): (usize, &Input)| match &input.dims {
        Sizes::One(sizes) => sizes.contains(&0),
        Sizes::Many(_) => false,
    };
    let mut tensors = given.peekable();
    tensors.peek().is_some() && tensors.all(is_empty)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::replay::schema::resolve;

    fn tensor(kind: &str, dims: &[i64]) -> Input {
        let (dims, strides) = (Sizes::One(dims.to_vec()), Sizes::One(Vec::new()));
        Input { index: 0, kind: kind.to_owned(), dims, strides, concrete: String::new() }
    }

    fn number(text: &str) -> Input {
        Input { concrete: text.to_owned(), ..tensor("Scalar", &[]) }
    }

    fn of(op: &str, at: usize, inputs: &[Input]) -> Result<Fill, String> {
        fill(resolve(op, inputs).unwrap(), at, inputs)
    }

    #[test]
    fn indices_stay_within_what_they_address() {
        let index = tensor("long int", &[6]);
        let gather = [tensor("float", &[9, 5]), number("-1"), tensor("long int", &[9, 2]), number("False")];
        assert_eq!(of("aten::gather", 2, &gather), Ok(Fill::within(Init::Index, 0, 5)));
        let select = [tensor("float", &[9, 5]), number("0"), index.clone()];
        assert_eq!(of("aten::index_select", 2, &select), Ok(Fill::within(Init::Index, 0, 9)));
        let rows = [tensor("c10::Half", &[50, 8]), index.clone(), number("-1"), number("False"), number("False")];
        assert_eq!(of("aten::embedding", 1, &rows), Ok(Fill::within(Init::Index, 0, 50)));
        let back = [tensor("float", &[6, 8]), index.clone(), number("50"), number("-1"), number("False")];
        assert_eq!(of("aten::embedding_dense_backward", 1, &back), Ok(Fill::within(Init::Index, 0, 50)));
        let loss = [tensor("float", &[6, 10]), index, tensor("", &[]), number("1"), number("-100")];
        assert_eq!(of("aten::nll_loss_forward", 1, &loss), Ok(Fill::within(Init::Index, 0, 10)));
    }

    #[test]
    fn values_fit_what_the_operation_takes() {
        let x = tensor("float", &[8, 8]);
        assert_eq!(of("aten::rsqrt", 0, std::slice::from_ref(&x)), Ok(Fill::of(Init::Positive)));
        assert_eq!(of("aten::neg", 0, std::slice::from_ref(&x)), Ok(Fill::of(Init::Normal)));
        assert_eq!(of("aten::fill_", 0, &[x.clone(), number("1")]), Ok(Fill::of(Init::Empty)));
        let wrapped = of("aten::mul", 1, &[x.clone(), tensor("double", &[])]).unwrap();
        assert!(wrapped.on_host && wrapped.init == Init::Ones);
        let beside = of("aten::mul", 1, &[tensor("float", &[]), tensor("double", &[])]).unwrap();
        assert!(beside.on_host);
        let alone = of("aten::neg", 0, &[tensor("double", &[])]).unwrap();
        assert!(!alone.on_host);
        let whole = of("aten::mul", 1, &[x.clone(), tensor("int", &[8])]).unwrap();
        assert!(whole.assumed && whole.range == Some([1, 8]));
        assert_eq!(
            of("aten::mm", 0, &[tensor("c10::qint8", &[2, 2]), x]),
            Err("unknown element type c10::qint8".to_owned())
        );
    }

    #[test]
    fn only_an_operand_can_be_a_number_of_the_program() {
        let (whole, double, x) = (tensor("long int", &[]), tensor("double", &[]), tensor("float", &[1, 64]));
        let flags = [number("-1"), number("False"), number("False")];
        let with = |tensors: &[&Input], rest: &[Input]| {
            let tensors: Vec<Input> = tensors.iter().map(|&input| input.clone()).collect();
            [tensors, rest.to_vec()].concat()
        };
        // An index stays within what it addresses.
        let select = [x.clone(), number("0"), whole.clone()];
        assert_eq!(of("aten::index_select", 2, &select), Ok(Fill::within(Init::Index, 0, 1)));
        assert_eq!(of("aten::embedding", 1, &with(&[&x, &whole], &flags)), Ok(Fill::within(Init::Index, 0, 1)));
        let loss = with(&[&tensor("double", &[10]), &whole, &tensor("", &[])], &[number("1"), number("-100")]);
        assert_eq!(of("aten::nll_loss_forward", 1, &loss), Ok(Fill::within(Init::Index, 0, 10)));
        // What is written to, and the gradient of a sum.
        let add = with(&[&double, &tensor("float", &[])], &[number("1")]);
        assert_eq!(of("aten::add_", 0, &add), Ok(Fill::of(Init::Normal)));
        let back = with(&[&double, &tensor("double", &[8]), &tensor("double", &[8])], &[number("1")]);
        assert_eq!(of("aten::mse_loss_backward", 0, &back), Ok(Fill::of(Init::Normal)));
        // A number of the program would be a copy from the host.
        let copied = of("aten::copy_", 1, &with(&[&tensor("float", &[]), &whole], &[number("False")])).unwrap();
        assert!(!copied.on_host && copied.assumed);
        for (op, at, inputs) in [
            ("aten::sub", 0, with(&[&double, &x], &[number("1")])),
            ("aten::add_", 1, with(&[&x, &double], &[number("1")])),
            ("aten::pow", 1, with(&[&x, &double], &[])),
            ("aten::masked_fill", 2, with(&[&x, &tensor("bool", &[1, 64]), &double], &[])),
            ("aten::where", 2, with(&[&tensor("bool", &[1, 64]), &x, &double], &[])),
        ] {
            assert!(of(op, at, &inputs).unwrap().on_host, "{op}");
        }
    }

    #[test]
    fn nothing_to_compute_is_seen() {
        assert!(computes_nothing(None, &[tensor("float", &[0, 3]), number("1")]));
        assert!(!computes_nothing(None, &[tensor("float", &[0]), tensor("float", &[1])]));
        assert!(!computes_nothing(None, &[number("1")]));
        // The result of a range is empty until the call makes it as long as it has to be.
        let range = [number("0"), number("4096"), number("1"), tensor("long int", &[0])];
        assert!(!computes_nothing(resolve("aten::arange", &range), &range));
        let product = [tensor("float", &[0, 3]), tensor("float", &[3, 0]), tensor("float", &[0])];
        assert!(computes_nothing(resolve("aten::mm", &product), &product));
    }
}
