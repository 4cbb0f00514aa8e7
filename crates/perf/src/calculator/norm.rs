//! The family of norms: five kinds, each with the operation that computes it.

use crate::calculator::families::{BWD, DTYPE};
use crate::calculator::keys::{Family, Form, Given, Key, Type};
use crate::calculator::written::Written;
use crate::calculator::{CalculatorError, Outcome};
use crate::count::Count;

pub(super) const NORM: Family = Family {
    name: "norm",
    about: "normalisation of N elements with C channels",
    example: "norm kind=layer N=8388608 C=4096 dtype=bf16",
    keys: &[
        Key::required("kind", Form::Word(&["batch", "layer", "group", "instance", "rms"]), "which"),
        Key::required("N", Form::Int, "elements"),
        Key::required("C", Form::Int, "channels: the length of the weight"),
        Key::optional("B", Form::Int, "1", "samples (group and instance norm)").aliases(&["batch"]),
        Key::optional("groups", Form::Int, "32", "groups of a group norm"),
        Key::optional("training", Form::Flag, "yes", "batch statistics are computed (batch and instance norm)"),
        Key::optional("affine", Form::Flag, "yes", "there is a weight"),
        Key::optional("bias", Form::Flag, "yes", "there is a bias (not for rms)"),
        BWD,
        DTYPE,
    ],
    run: norm,
};

/// The flags of a norm.
#[derive(Clone, Copy)]
struct NormFlags {
    training: bool,
    affine: bool,
    bias: bool,
}

fn norm(given: &Given<'_>) -> Result<Outcome, CalculatorError> {
    let (kind, n, c, b) = (given.word("kind")?, given.int("N")?, given.int("C")?, given.int("B")?);
    let over_rows = matches!(kind, "layer" | "rms");
    let rows_of = if over_rows { Count::from(c) } else { Count::from(b) * c };
    let rows = Count::from(n).div_floor(rows_of).unwrap_or_default();
    if rows * rows_of != Count::from(n) {
        let of = if over_rows { "C" } else { "B times C" };
        return Err(given.wrong("N", format!("a multiple of {of} ({})", rows_of.to_i64())));
    }
    let x = if over_rows { vec![rows.to_i64(), c] } else { vec![b, c, rows.to_i64()] };
    let groups = given.int("groups")?;
    if kind == "group" && c % groups != 0 {
        return Err(given.wrong("groups", format!("a number that divides C ({c})")));
    }
    let (dtype, _) = given.whole_dtype("dtype")?;
    let flags =
        NormFlags { training: given.flag("training")?, affine: given.flag("affine")?, bias: given.flag("bias")? };
    let call = if given.flag("bwd")? {
        norm_backward(kind, &x, groups, flags, &dtype)
    } else {
        Some(norm_forward(kind, &x, groups, flags, &dtype))
    };
    call.ok_or_else(|| given.wrong("bwd", "a kind with a backward formula: batch, layer, group or rms"))?.ask(given)
}

fn norm_forward(kind: &str, x: &[i64], groups: i64, flags: NormFlags, dtype: &Type) -> Written {
    let NormFlags { training, affine, bias } = flags;
    let c = x[1];
    let with_weights = |written: Written| written.tensor_if(affine, &[c], dtype).tensor_if(affine && bias, &[c], dtype);
    let statistics = |written: Written| written.tensor(&[c], "float").tensor(&[c], "float");
    match kind {
        "layer" => with_weights(Written::new("aten::native_layer_norm").tensor(x, &dtype.name).scalar(&list(&[c]))),
        "rms" => Written::new("aten::_fused_rms_norm").tensor(x, &dtype.name).scalar(&list(&[c])).tensor_if(
            affine,
            &[c],
            dtype,
        ),
        "group" => with_weights(Written::new("aten::native_group_norm").tensor(x, &dtype.name))
            .scalars(&[x[0], c, x[2], groups]),
        "instance" => statistics(with_weights(Written::new("aten::instance_norm").tensor(x, &dtype.name)))
            .scalar(literal(training)),
        _ => statistics(with_weights(Written::new("aten::native_batch_norm").tensor(x, &dtype.name)))
            .scalar(literal(training)),
    }
}

fn norm_backward(kind: &str, x: &[i64], groups: i64, flags: NormFlags, dtype: &Type) -> Option<Written> {
    let NormFlags { training, affine, bias } = flags;
    let c = x[1];
    let bias = affine && bias;
    let mask = format!("[True, {}, {}]", literal(affine), literal(bias));
    let grad_and_x = |op: &'static str| Written::new(op).tensor(x, &dtype.name).tensor(x, &dtype.name);
    Some(match kind {
        "layer" => grad_and_x("aten::native_layer_norm_backward")
            .scalar(&list(&[c]))
            .tensor(&[x[0]], "float")
            .tensor(&[x[0]], "float")
            .tensor_if(affine, &[c], dtype)
            .tensor_if(bias, &[c], dtype)
            .scalar(&mask),
        "rms" => grad_and_x("aten::_fused_rms_norm_backward")
            .scalar(&list(&[c]))
            .tensor(&[x[0]], "float")
            .tensor_if(affine, &[c], dtype)
            .scalar(&format!("[True, {}]", literal(affine))),
        "group" => grad_and_x("aten::native_group_norm_backward")
            .tensor(&[x[0], groups], "float")
            .tensor(&[x[0], groups], "float")
            .tensor_if(affine, &[c], dtype)
            .scalars(&[x[0], c, x[2], groups])
            .scalar(&mask),
        "batch" => grad_and_x("aten::native_batch_norm_backward")
            .tensor_if(affine, &[c], dtype)
            .tensor(&[c], "float")
            .tensor(&[c], "float")
            .tensor(&[c], "float")
            .tensor(&[c], "float")
            .scalar(literal(training))
            .scalar("1e-05")
            .scalar(&mask),
        _ => return None,
    })
}

fn literal(flag: bool) -> &'static str {
    if flag { "True" } else { "False" }
}

fn list(items: &[i64]) -> String {
    let items: Vec<String> = items.iter().map(i64::to_string).collect();
    format!("[{}]", items.join(", "))
}
