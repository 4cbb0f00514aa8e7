//! The families: keys, an example, the formula. Products, attention and convolutions use the models' own arithmetic
//! directly; the others write out the call that a trace would hold and ask the model of that operation.

use crate::calculator::keys::{Fallback, Family, Form, Given, Key};
use crate::calculator::norm::NORM;
use crate::calculator::written::Written;
use crate::calculator::{CalculatorError, Outcome, failed};
use crate::count::Count;
use crate::models::Cost;
use crate::models::attention::{self, Mask, Scores};
use crate::models::conv::{self, Gradients};
use crate::models::gemm::{OperandSizes, Product};
use crate::parity::Quirks;

pub(super) const DTYPE: Key = Key::optional("dtype", Form::DType, "bf16", "type of an element");
pub(super) const BWD: Key = Key::optional("bwd", Form::Flag, "no", "the backward pass instead").aliases(&["backward"]);
const QUIRKS: &Quirks = &Quirks::NONE;

/// Every family.
pub const FAMILIES: &[Family] = &[GEMM, SDPA, CONV, GROUPED_GEMM, NORM, SOFTMAX, ELEMENTWISE, REDUCE, MOE];

const GEMM: Family = Family {
    name: "gemm",
    about: "matrix product: (M x K) times (K x N), B of them",
    example: "gemm M=4096 N=4096 K=4096 dtype=bf16 --platform H200",
    keys: &[
        Key::required("M", Form::Int, "rows of the result"),
        Key::required("N", Form::Int, "columns of the result"),
        Key::required("K", Form::Int, "length of the sums"),
        Key::optional("B", Form::Int, "1", "number of products").aliases(&["batch"]),
        Key::optional("bias", Form::Flag, "no", "a vector of N is added"),
        DTYPE,
        Key::optional("dtype_b", Form::DType, "", "type of the second operand, if another")
            .fallback(Fallback::Key("dtype")),
        Key::required(
            "out_dtype",
            Form::DType,
            "type of the result; 32 bits for products of int8, 16 for others of 8 bits and less",
        )
        .fallback(Fallback::Absent),
    ],
    run: gemm,
};

fn gemm(given: &Given<'_>) -> Result<Outcome, CalculatorError> {
    let product = Product {
        batch: given.int("B")?,
        m: given.int("M")?,
        n: given.int("N")?,
        k: given.int("K")?,
        bias: given.flag("bias")?,
    };
    let (a, b) = (given.dtype("dtype")?, given.dtype("dtype_b")?);
    let out = match a.precision {
        _ if given.text("out_dtype").is_some() => given.dtype("out_dtype")?.bytes,
        // Whole numbers are added up in 32 bits.
        Some("int8") => 4.0,
        _ => a.bytes.max(2.0),
    };
    let sizes = OperandSizes { a: Some(a.bytes), b: Some(b.bytes), out: Some(out), bias: Some(out) };
    Ok(Outcome::new(Cost::matrix(product.flops().to_f64(), product.bytes(&sizes), a.precision)))
}

const SDPA: Family = Family {
    name: "sdpa",
    about: "attention: softmax(Q K') V",
    example: "sdpa B=8 N_Q=4096 H_Q=32 H_KV=8 d_h_qk=128 causal dtype=bf16 --platform MI300X",
    keys: &[
        Key::required("B", Form::Int, "sequences").aliases(&["batch"]),
        Key::required("N_Q", Form::Int, "queries a sequence"),
        Key::required("H_Q", Form::Int, "query heads"),
        Key::required("N_KV", Form::Int, "keys a sequence").fallback(Fallback::Key("N_Q")),
        Key::required("H_KV", Form::Int, "key and value heads").fallback(Fallback::Key("H_Q")),
        Key::required("d_h_qk", Form::Int, "width of a query head").aliases(&["d_qk", "d", "head_dim"]),
        Key::required("d_h_v", Form::Int, "width of a value head").fallback(Fallback::Key("d_h_qk")).aliases(&["d_v"]),
        Key::optional("causal", Form::Flag, "no", "a query sees no later key"),
        Key::optional("causal_from", Form::Word(&["start", "end"]), "start", "which ends meet where N_Q is not N_KV"),
        BWD,
        Key::optional("flash", Form::Flag, "yes", "the backward pass computes the scores once more"),
        DTYPE,
    ],
    run: sdpa,
};

fn sdpa(given: &Given<'_>) -> Result<Outcome, CalculatorError> {
    let geometry = attention::Geometry {
        batch: given.int("B")?,
        n_q: given.int("N_Q")?,
        h_q: given.int("H_Q")?,
        n_kv: given.int("N_KV")?,
        h_kv: given.int("H_KV")?,
        d_qk: given.int("d_h_qk")?,
        d_v: given.int("d_h_v")?,
    };
    if geometry.h_q % geometry.h_kv != 0 {
        return Err(given.wrong("H_KV", format!("a number that divides H_Q ({})", geometry.h_q)));
    }
    let mask = match (given.flag("causal")?, given.word("causal_from")?) {
        (false, _) => Mask::Full,
        (true, "end") => Mask::CausalFromEnd,
        (true, _) => Mask::CausalFromStart,
    };
    let (dtype, bytes) = given.whole_dtype("dtype")?;
    let flash = given.flag("flash")?;
    let (flops, traffic, kept) = if given.flag("bwd")? {
        // Scores that were kept are not computed again: one product of the width of a key less.
        let recomputed = geometry.backward_flops(mask, Scores::Recomputed, QUIRKS);
        let again = attention::Geometry { d_v: 0, ..geometry }.flops(mask, QUIRKS);
        let flops = if flash { recomputed } else { recomputed.and_then(|all| Ok(all - again?)) };
        (flops, geometry.backward_elements(), geometry.kept_bytes(bytes))
    } else {
        (geometry.flops(mask, QUIRKS), geometry.elements(), Count::ZERO)
    };
    let flops = flops.map_err(|error| failed(given.model, &error))?;
    let moved = (traffic.total() - geometry.unseen_elements(mask)) * bytes + kept;
    let mut outcome = Outcome::new(Cost::matrix(flops, Some(moved.to_f64()), dtype.precision));
    if mask == Mask::CausalFromStart && geometry.n_q != geometry.n_kv {
        let note =
            "causal from the start, as PyTorch's is_causal; causal_from=end is the flash-attention libraries' way";
        outcome.notes.push(note.to_owned());
    }
    Ok(outcome)
}

const CONV: Family = Family {
    name: "conv",
    about: "convolution of one, two or three dimensions",
    example: "conv x=32,64,56,56 w=128,64,3,3 padding=1 dtype=fp16 --platform A100",
    keys: &[
        Key::required("x", Form::Shape, "shape of the input: batch, channels, space").aliases(&["input"]),
        Key::required("w", Form::Shape, "shape of the weights: channels out, channels in / groups, kernel")
            .aliases(&["weight"]),
        Key::optional("stride", Form::Steps, "1", "step"),
        Key::optional("padding", Form::Steps, "0", "padding on each side"),
        Key::optional("dilation", Form::Steps, "1", "distance of kernel elements"),
        Key::optional("groups", Form::Int, "1", "groups of channels"),
        Key::optional("transposed", Form::Flag, "no", "a transposed convolution"),
        Key::optional("output_padding", Form::Steps, "0", "extra output of a transposed one"),
        Key::optional("bias", Form::Flag, "no", "a bias is added"),
        Key::optional("channels_last", Form::Flag, "no", "channels lie next to each other in memory"),
        BWD,
        DTYPE,
    ],
    run: convolution,
};

fn convolution(given: &Given<'_>) -> Result<Outcome, CalculatorError> {
    let (x, w) = (given.shape("x")?, given.shape("w")?);
    if !(3..=5).contains(&x.len()) {
        return Err(given.wrong("x", "batch, channels and one to three sizes: 32,64,56,56"));
    }
    if w.len() != x.len() {
        return Err(given.wrong("w", format!("{} sizes, as many as x has", x.len())));
    }
    let (transposed, groups) = (given.flag("transposed")?, given.int("groups")?);
    let channels = if transposed { w[0] } else { w[1].saturating_mul(groups) };
    if channels != x[1] {
        let slot = if transposed { "w[0]" } else { "w[1] times groups" };
        return Err(given.wrong("w", format!("{slot} to be the {} channels of x", x[1])));
    }
    let dims = x.len() - 2;
    let stride = given.steps("stride", dims)?;
    if stride.contains(&0) {
        return Err(given.wrong("stride", "a step above 0"));
    }
    let (dtype, bytes) = given.whole_dtype("dtype")?;
    let geometry = conv::Geometry {
        x_steps: byte_steps(&x, given.flag("channels_last")?, bytes),
        gradient_steps: Vec::new(),
        x,
        w,
        stride,
        padding: given.steps("padding", dims)?,
        dilation: given.steps("dilation", dims)?,
        output_padding: given.steps("output_padding", dims)?,
        transposed,
        groups,
    };
    let bias = given.flag("bias")?;
    let model = |error| failed(given.model, &error);
    let fits = geometry.output(QUIRKS).ok().filter(|output| output.iter().all(|&size| size > 0));
    let output = fits.ok_or_else(|| given.wrong("w", "a kernel that fits into the padded input"))?;
    let (flops, moved) = if given.flag("bwd")? {
        let wanted = Gradients { input: true, weight: true, bias };
        (geometry.backward_flops(wanted, QUIRKS), geometry.backward_bytes(wanted, bytes, QUIRKS))
    } else {
        (geometry.flops(bias, QUIRKS), geometry.elements(bias, QUIRKS).map(|elements| elements * bytes))
    };
    let (flops, moved) = (flops.map_err(model)?, moved.map_err(model)?);
    let mut outcome = Outcome::new(Cost::matrix(flops.to_f64(), Some(moved.to_f64()), dtype.precision));
    outcome.notes.push(format!("output {}", crate::value::Value::shape(&output)));
    Ok(outcome)
}

/// Bytes from one element to the next, for each dimension of a tensor without gaps.
fn byte_steps(shape: &[i64], channels_last: bool, bytes: i64) -> Vec<i64> {
    // Dimensions from the one whose elements lie next to each other to the one whose lie farthest apart.
    let mut order: Vec<usize> = (0..shape.len()).rev().collect();
    if channels_last {
        order.retain(|&i| i != 1);
        order.insert(0, 1);
    }
    let mut steps = vec![0; shape.len()];
    let mut step = bytes;
    for i in order {
        steps[i] = step;
        step = step.saturating_mul(shape[i]);
    }
    steps
}

const GROUPED_GEMM: Family = Family {
    name: "grouped_gemm",
    about: "products of G groups of rows, M rows in all, each group with weights (K x N) of its own",
    example: "grouped_gemm M=16384 K=4096 N=14336 G=8 dtype=bf16",
    keys: &[
        Key::required("M", Form::Int, "rows of all groups"),
        Key::required("K", Form::Int, "length of the sums"),
        Key::required("N", Form::Int, "columns of the result"),
        Key::required("G", Form::Int, "groups"),
        DTYPE,
    ],
    run: grouped_gemm,
};

fn grouped_gemm(given: &Given<'_>) -> Result<Outcome, CalculatorError> {
    let [m, k, n, g] = [given.int("M")?, given.int("K")?, given.int("N")?, given.int("G")?];
    let (dtype, _) = given.whole_dtype("dtype")?;
    Written::new("primus_turbo::grouped_gemm").tensor(&[m, k], &dtype.name).tensor(&[g, k, n], &dtype.name).ask(given)
}

const SOFTMAX: Family = Family {
    name: "softmax",
    about: "softmax of N elements",
    example: "softmax N=33554432 dtype=bf16",
    keys: &[Key::required("N", Form::Int, "elements"), BWD, DTYPE],
    run: softmax,
};

fn softmax(given: &Given<'_>) -> Result<Outcome, CalculatorError> {
    let n = given.int("N")?;
    let (dtype, _) = given.whole_dtype("dtype")?;
    let call = if given.flag("bwd")? {
        Written::new("aten::_softmax_backward_data").tensor(&[n], &dtype.name).tensor(&[n], &dtype.name).scalar("-1")
    } else {
        Written::new("aten::_softmax").tensor(&[n], &dtype.name).scalar("-1").scalar("False")
    };
    call.ask(given)
}

const ELEMENTWISE: Family = Family {
    name: "elementwise",
    about: "one operation an element, with one operand or two",
    example: "elementwise kind=binary a=4096,4096 b=4096 dtype=bf16",
    keys: &[
        Key::optional("kind", Form::Word(&["unary", "binary"]), "unary", "one operand or two"),
        Key::required("a", Form::Shape, "shape of the operand, or its number of elements").aliases(&["N", "x"]),
        Key::required("b", Form::Shape, "shape of the second operand").fallback(Fallback::Key("a")),
        DTYPE,
        Key::required("dtype_b", Form::DType, "type of the second operand").fallback(Fallback::Key("dtype")),
        Key::required("out_dtype", Form::DType, "type of the result, if another").fallback(Fallback::Absent),
    ],
    run: elementwise,
};

fn elementwise(given: &Given<'_>) -> Result<Outcome, CalculatorError> {
    let (a, (dtype, _)) = (given.shape("a")?, given.whole_dtype("dtype")?);
    let output = match given.text("out_dtype") {
        Some(_) => Some(given.whole_dtype("out_dtype")?.0),
        None => None,
    };
    let (written, shape) = if given.word("kind")? == "binary" {
        let (b, (dtype_b, _)) = (given.shape("b")?, given.whole_dtype("dtype_b")?);
        let shape = crate::models::elementwise::broadcast(&a, &b)
            .map_err(|_| given.wrong("b", "a shape that broadcasts with a"))?;
        (Written::new("aten::add").tensor(&a, &dtype.name).tensor(&b, &dtype_b.name), shape)
    } else {
        (Written::new("aten::neg").tensor(&a, &dtype.name), a)
    };
    match output {
        Some(output) => written.tensor(&shape, &output.name).ask(given),
        None => written.ask(given),
    }
}

const REDUCE: Family = Family {
    name: "reduce",
    about: "reduction of N_in elements to N_out",
    example: "reduce N_in=16777216 N_out=4096 dtype=fp32",
    keys: &[
        Key::required("N_in", Form::Int, "elements read").aliases(&["Nin"]),
        Key::optional("N_out", Form::Int, "1", "elements written").aliases(&["Nout"]),
        DTYPE,
    ],
    run: reduce,
};

fn reduce(given: &Given<'_>) -> Result<Outcome, CalculatorError> {
    let (inputs, outputs) = (given.int("N_in")?, given.int("N_out")?);
    if inputs % outputs != 0 {
        return Err(given.wrong("N_in", format!("a multiple of N_out ({outputs})")));
    }
    let (dtype, _) = given.whole_dtype("dtype")?;
    Written::new("aten::sum").tensor(&[outputs, inputs / outputs], &dtype.name).scalar("[1]").ask(given)
}

const MOE: Family = Family {
    name: "moe",
    about: "mixture of experts: every token through topk of the experts",
    example: "moe tokens=4096 hidden=4096 inter=14336 experts=8 topk=2 dtype=bf16",
    keys: &[
        Key::required("tokens", Form::Int, "tokens").aliases(&["num_tokens"]),
        Key::required("hidden", Form::Int, "width of a token").aliases(&["hidden_dim"]),
        Key::required("inter", Form::Int, "inner width of an expert").aliases(&["inter_dim"]),
        Key::required("experts", Form::Int, "experts").aliases(&["num_experts"]),
        Key::required("topk", Form::Int, "experts a token goes through"),
        Key::optional("gated", Form::Flag, "yes", "the up projection has a gate"),
        Key::optional("stage", Form::Word(&["fused", "up", "down"]), "fused", "the whole block or one projection"),
        DTYPE,
        Key::required("weight_dtype", Form::DType, "type of the weights").fallback(Fallback::Key("dtype")),
    ],
    run: moe,
};

fn moe(given: &Given<'_>) -> Result<Outcome, CalculatorError> {
    let [tokens, hidden, inner] = [given.int("tokens")?, given.int("hidden")?, given.int("inter")?];
    let (experts, topk) = (given.int("experts")?, given.int("topk")?);
    if topk > experts {
        return Err(given.wrong("topk", format!("at most the number of experts ({experts})")));
    }
    let ((dtype, _), weight) = (given.whole_dtype("dtype")?, given.dtype("weight_dtype")?);
    // Two packed numbers share a stored element.
    let packing = if weight.is_packed() { 2 } else { 1 };
    if hidden % packing != 0 || inner % packing != 0 {
        return Err(given.wrong("weight_dtype", "even widths for a packed type"));
    }
    let ups = if given.flag("gated")? { inner.saturating_mul(2) } else { inner };
    let op = match given.word("stage")? {
        "up" => "pseudo_op::moe_flydsl_stage1",
        "down" => "pseudo_op::moe_flydsl_stage2",
        _ => "pseudo_op::moe_aiter_fused_1stage",
    };
    Written::new(op)
        .tensor(&[tokens, hidden], &dtype.name)
        .tensor(&[experts, ups, hidden / packing], &weight.name)
        .tensor(&[experts, hidden, inner / packing], &weight.name)
        .tensor(&[tokens, topk], "int")
        .ask(given)
}
