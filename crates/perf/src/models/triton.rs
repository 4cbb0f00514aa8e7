//! Kernels that `torch.compile` generated with Triton: `triton_poi_*`, `triton_red_*`, `triton_per_*`.
//!
//! Such an operation lists its tensors and, as its last whole numbers, the extents of its iteration space; which
//! `ATen` operations were fused stands only in its name. From these three this module makes element count, traffic and
//! arithmetic. It refuses to guess at kernels whose name has another prefix; those made of templates for matrix products
//! are in `template.rs`.

mod template;
mod vocabulary;

#[cfg(test)]
mod tests;

use std::borrow::Cow;

use crate::args::{self, Args};
use crate::call::{InputLists, OpCall};
use crate::count::Count;
use crate::dtype;
use crate::models::{ComputeUnit, Cost, ModelError, Params, PerfModel};
use crate::parity::Quirks;
use crate::value::Value;

pub use template::product;
use vocabulary::WORDS;

/// How a kernel walks over its data: the second part of its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// `poi`: element by element.
    Pointwise,
    /// `red` or `per`: rows that are reduced, in a loop or held in registers.
    Reduction,
}

/// Kind and tail of a generated kernel's name.
fn split_name(name: &str) -> Option<(Kind, &str)> {
    let rest = name.strip_prefix("triton_")?;
    [("poi_", Kind::Pointwise), ("red_", Kind::Reduction), ("per_", Kind::Reduction)]
        .into_iter()
        .find_map(|(prefix, kind)| Some((kind, rest.strip_prefix(prefix)?)))
}

/// Whether `name` has one of the three prefixes.
pub fn is_compiled(name: &str) -> bool {
    split_name(name).is_some()
}

/// Whether the call says enough about itself to be modelled; without that it does not count as modelled at all.
///
/// The reference needs a whole number among the arguments. Where there is none, the largest tensor tells the element
/// count just as well.
pub fn can_model(call: &OpCall<'_>, quirks: &Quirks) -> bool {
    if !is_compiled(call.name) {
        return false;
    }
    let args = Args::of(call);
    let has_extents = !integers(call.inputs).is_empty() && !args.is_empty();
    if quirks.triton_last_integer_counts {
        return has_extents && args.type_count() > 0;
    }
    has_extents || tensors(call, quirks).map_or(true, |tensors| !tensors.is_empty())
}

/// One tensor argument.
#[derive(Debug, Clone, Copy)]
struct Tensor<'a> {
    shape: &'a [i64],
    dtype: &'a str,
    elements: Count,
    /// Those that memory holds: fewer if the tensor is expanded.
    stored: Count,
}

fn tensors<'a>(call: &OpCall<'a>, quirks: &Quirks) -> Result<Vec<Tensor<'a>>, ModelError> {
    let args = Args::of(call);
    let mut found = Vec::new();
    for i in 0..args.len().min(args.type_count()) {
        let (shape, dtype) = (args.shape(i)?, args.dtype(i)?);
        // One without dimensions is a tensor of one element; what is absent has no type.
        let is_single = shape.is_empty() && !dtype.is_empty() && !quirks.triton_single_elements_ignored;
        if (is_single || !shape.is_empty()) && dtype != "Scalar" {
            found.push(Tensor { shape, dtype, elements: Count::of(shape), stored: args.read_numel(i, quirks)? });
        }
    }
    Ok(found)
}

/// Every argument that is a whole number, in order.
fn integers(inputs: &InputLists) -> Vec<i64> {
    let args = Args::new(inputs);
    let concrete = inputs.concrete.as_deref().unwrap_or_default();
    concrete.iter().enumerate().filter_map(|(i, _)| args::int(args.concrete_or_empty(i))).collect()
}

/// The iteration space.
#[derive(Debug, Clone, Copy)]
struct Extents {
    /// Elements, or rows of a reduction.
    xnumel: i64,
    /// Length of a row; 1 for pointwise kernels.
    rnumel: i64,
    /// Whether the call has exactly the extents of its kind: a two-dimensional grid has one more, a reduction over a
    /// length fixed at compile time one less.
    plain: bool,
}

impl Extents {
    fn of(kind: Kind, integers: &[i64]) -> Option<Self> {
        Some(match (kind, integers) {
            (Kind::Reduction, [before @ .., xnumel, rnumel]) => {
                Self { xnumel: *xnumel, rnumel: *rnumel, plain: before.is_empty() }
            }
            (kind, [before @ .., xnumel]) => {
                Self { xnumel: *xnumel, rnumel: 1, plain: kind == Kind::Pointwise && before.is_empty() }
            }
            (_, []) => return None,
        })
    }

    fn product(self) -> Count {
        Count::from(self.xnumel) * self.rnumel
    }
}

/// A parsed kernel call.
#[derive(Debug)]
struct Compiled {
    fused: Vec<&'static str>,
    extents: Extents,
    cost: Result<Cost, ModelError>,
}

impl PerfModel for Compiled {
    fn into_params(self: Box<Self>) -> Params {
        let fused: Vec<String> = self.fused.iter().map(|word| format!("aten.{word}")).collect();
        vec![
            ("fused_ops", Value::Str(fused.join(", "))),
            ("xnumel", self.extents.xnumel.into()),
            ("rnumel", self.extents.rnumel.into()),
        ]
    }

    fn forward(&self) -> Result<Cost, ModelError> {
        self.cost.clone()
    }
}

/// Reads a generated kernel's call.
pub(crate) fn compiled(call: &OpCall<'_>, quirks: &Quirks) -> Result<Box<dyn PerfModel>, ModelError> {
    let (kind, tail) =
        split_name(call.name).ok_or_else(|| ModelError::fail(format!("`{}` is no compiled kernel", call.name)))?;
    if !can_model(call, quirks) {
        return Err(ModelError::fail("neither extents nor tensors were recorded"));
    }
    let fused = fused_words(tail, quirks);
    let given = Extents::of(kind, &integers(call.inputs));
    let mut extents = given.unwrap_or(Extents { xnumel: 0, rnumel: 1, plain: false });
    let cost = tensors(call, quirks).map(|tensors| {
        let kernel = Kernel { kind, fused: &fused, tensors: &tensors };
        let elements = kernel.elements(given, quirks);
        if given.is_none() {
            extents.xnumel = elements.to_i64();
        }
        Cost {
            flops: Some((elements * weight_of(&fused, quirks)).to_f64()),
            bytes: kernel.bytes(elements, quirks).map(Count::to_f64),
            unit: ComputeUnit::Vector,
            precision: kernel.precision(elements, quirks),
        }
    });
    Ok(Box::new(Compiled { fused, extents, cost }))
}

/// Parts of the names of operations that pick elements by index.
const BY_INDEX: [&str; 5] = ["embedding", "index", "gather", "scatter", "nll_loss"];

fn is_lookup(word: &str) -> bool {
    BY_INDEX.iter().any(|part| word.contains(part))
}

/// Parts of the names of operations that take a part of a tensor.
const CUTTING: [&str; 7] = ["slice", "select", "split", "chunk", "narrow", "unbind", "diagonal"];

/// The part of their names that operations share which go over a window of their input for each element they make.
const WINDOWED: &str = "pool";

/// Longest reduction that the compiler writes out instead of looping over it: no element of a kernel reads more of one
/// tensor.
const WRITTEN_OUT: i64 = 8;

/// Whether its name tells that a kernel picks elements of a tensor by index.
pub fn looks_up(name: &str) -> bool {
    split_name(name).is_some_and(|(_, tail)| fused_words(tail, &Quirks::NONE).iter().any(|word| is_lookup(word)))
}

/// Elements that a kernel runs over, where its extents tell.
pub fn runs_over(name: &str, inputs: &InputLists) -> Option<i64> {
    let (kind, _) = split_name(name)?;
    let extents = Extents::of(kind, &integers(inputs)).filter(|e| e.plain)?;
    Some(extents.product().to_i64())
}

/// What name and tensor list say about a kernel.
struct Kernel<'a> {
    kind: Kind,
    fused: &'a [&'static str],
    tensors: &'a [Tensor<'a>],
}

impl Kernel<'_> {
    /// Elements of the iteration space.
    ///
    /// The extents give it where they are complete; otherwise the largest tensor stands for it, or the last one (the
    /// output) where a table may be larger than what is read of it.
    fn elements(&self, given: Option<Extents>, quirks: &Quirks) -> Count {
        let product = given.map_or(Count::ZERO, Extents::product);
        if quirks.triton_last_integer_counts || given.is_some_and(|e| e.plain) {
            return product;
        }
        let widest = if self.looks_up() {
            self.tensors.last().map(|t| t.elements)
        } else {
            self.tensors.iter().map(|t| t.elements).max()
        };
        widest.unwrap_or(Count::ZERO).max(product)
    }

    /// Whether the kernel picks elements of a tensor by index, so that it need not touch all of it.
    fn looks_up(&self) -> bool {
        self.fused.iter().any(|word| is_lookup(word))
    }

    /// Elements of a tensor that the kernel touches: of a table no more than it has lookups (F36), of a tensor that it
    /// takes a part of no more than it runs over.
    fn touched(&self, tensor: &Tensor<'_>, elements: Count, quirks: &Quirks) -> Count {
        let in_part = !quirks.triton_tables_in_full && (self.looks_up() || self.cuts(tensor, elements));
        if in_part { tensor.stored.min(elements) } else { tensor.stored }
    }

    /// Whether the kernel reads but a part of a tensor that has more elements than it runs over.
    ///
    /// A name doesn't tell how many parts are taken. All of them may be where the tensor is a few times as large, as of
    /// the halves of a gated activation or of a short row that is added up; of a larger one there can be no more than one
    /// element for each that the kernel runs over.
    fn cuts(&self, tensor: &Tensor<'_>, elements: Count) -> bool {
        if tensor.stored <= elements || self.fused.iter().any(|word| word.contains(WINDOWED)) {
            return false;
        }
        if tensor.stored > WRITTEN_OUT * elements {
            return true;
        }
        let is_multiple = tensor.stored.div_floor(elements).is_some_and(|times| times * elements == tensor.stored);
        !is_multiple && self.fused.iter().any(|word| CUTTING.iter().any(|part| word.contains(part)))
    }

    /// Traffic: each tensor once, and the write of a tensor that is updated in place.
    fn bytes(&self, elements: Count, quirks: &Quirks) -> Option<Count> {
        let mut bytes = Count::ZERO;
        for tensor in self.tensors {
            bytes = bytes + self.touched(tensor, elements, quirks) * element_size(tensor.dtype, quirks)?;
        }
        if let Some(first) = self.tensors.first() {
            let written = if quirks.triton_pointwise_extra_write {
                self.kind == Kind::Pointwise
            } else {
                self.updates_first_tensor(elements, quirks)
            };
            bytes = bytes + (elements * element_size(first.dtype, quirks)?).when(written);
        } else if !quirks.triton_plain_types_weigh_nothing {
            return None;
        }
        Some(bytes)
    }

    /// Whether a pointwise kernel must be writing its result over its first tensor.
    ///
    /// Generated kernels list tensors that they update first and pure outputs last. So the first tensor is the result
    /// if no later one is as large as the iteration space, unless it stands alone and nothing is computed: then it is
    /// only filled. It is the result too if the last full-sized tensor is a matrix product not yet unfolded
    /// (`_unsafe_view` turns its two dimensions into three), for a result has the unfolded shape: seen in
    /// `triton_poi_fused__unsafe_view_mul_silu_2` with (8, 4096, 8192), (32768, 8192).
    fn updates_first_tensor(&self, elements: Count, quirks: &Quirks) -> bool {
        let [first, rest @ ..] = self.tensors else { return false };
        if self.kind != Kind::Pointwise || first.elements != elements {
            return false;
        }
        match rest.iter().rfind(|t| t.elements == elements) {
            None => !rest.is_empty() || weight_of(self.fused, quirks) > 0,
            Some(last) => self.fused.contains(&"_unsafe_view") && last.shape.len() == 2 && first.shape.len() > 2,
        }
    }

    /// Label of the arithmetic: that of the floating-point tensor of which most is touched.
    fn precision(&self, elements: Count, quirks: &Quirks) -> Option<Cow<'static, str>> {
        if quirks.triton_long_precision_names {
            let first = self.tensors.iter().find(|t| dtype::triton_size(t.dtype, quirks) != 0)?;
            return first.dtype.rsplit("::").next().map(|name| name.to_lowercase().into());
        }
        let mut widest: Option<(Count, &'static str)> = None;
        for tensor in self.tensors {
            let touched = self.touched(tensor, elements, quirks);
            if let Some(label) = dtype::vector_precision(tensor.dtype, quirks)
                && widest.is_none_or(|(most, _)| touched > most)
            {
                widest = Some((touched, label));
            }
        }
        widest.map(|(_, label)| label.into())
    }
}

/// Bytes of one element; the reference takes an unknown type for weightless, we don't know the traffic then.
fn element_size(name: &str, quirks: &Quirks) -> Option<i64> {
    let size = dtype::triton_size(name, quirks);
    (size != 0 || quirks.triton_plain_types_weigh_nothing).then_some(size)
}

/// The operations that `<prefix>fused_<words>_<number>` names, in the order of the name.
fn fused_words(tail: &str, quirks: &Quirks) -> Vec<&'static str> {
    let Some((words, number)) = tail.strip_prefix("fused_").and_then(|t| t.rsplit_once('_')) else {
        return Vec::new();
    };
    if words.is_empty() || number.is_empty() || !number.bytes().all(|b| b.is_ascii_digit()) {
        return Vec::new();
    }
    let text = Tokens::new(words);
    match text.segment() {
        Some(found) => found,
        None if quirks.triton_unknown_word_zeroes => Vec::new(),
        None => text.known_words(),
    }
}

/// Text cut at every underscore.
struct Tokens<'a> {
    text: &'a str,
    /// Start of each token, and one past the end of the text's closing separator.
    starts: Vec<usize>,
}

impl<'a> Tokens<'a> {
    fn new(text: &'a str) -> Self {
        let mut starts = vec![0];
        starts.extend(text.match_indices('_').map(|(at, _)| at + 1));
        starts.push(text.len() + 1);
        Self { text, starts }
    }

    fn len(&self) -> usize {
        self.starts.len() - 1
    }

    /// The word of the vocabulary that tokens `from..to` spell.
    fn word(&self, from: usize, to: usize) -> Option<&'static str> {
        let text = self.text.get(self.starts[from]..self.starts[to] - 1)?;
        WORDS.binary_search(&text).ok().map(|at| WORDS[at])
    }

    /// All tokens as words, the longest ones from the end; `None` if something is left over.
    fn segment(&self) -> Option<Vec<&'static str>> {
        let mut reachable = vec![true];
        for to in 1..=self.len() {
            let ends_word = |from: usize| reachable[from] && self.word(from, to).is_some();
            let reached = (to.saturating_sub(LONGEST)..to).any(ends_word);
            reachable.push(reached);
        }
        let (mut words, mut to) = (Vec::new(), self.len());
        while to > 0 {
            let from = (to.saturating_sub(LONGEST)..to).find(|&i| reachable[i] && self.word(i, to).is_some())?;
            words.extend(self.word(from, to));
            to = from;
        }
        words.reverse();
        Some(words)
    }

    /// The known words from the left, the longest first; whatever lies between is passed over.
    fn known_words(&self) -> Vec<&'static str> {
        let (mut words, mut from) = (Vec::new(), 0);
        while from < self.len() {
            let longest =
                (from + 1..=self.len().min(from + LONGEST)).rev().find_map(|to| Some((self.word(from, to)?, to)));
            from = longest.map_or(from + 1, |(_, to)| to);
            words.extend(longest.map(|(word, _)| word));
        }
        words
    }
}

/// No word of the vocabulary has more tokens.
const LONGEST: usize = 10;

/// Operations an element costs over the whole list.
fn weight_of(fused: &[&str], quirks: &Quirks) -> i64 {
    fused.iter().map(|word| weight(word, quirks)).sum()
}

/// Operations an element costs.
fn weight(word: &str, quirks: &Quirks) -> i64 {
    match word {
        "add" | "sub" | "mul" | "div" | "relu" | "abs" | "neg" | "mean" | "sum" | "ne" | "eq" | "lt" | "gt" => 1,
        "pow" | "sqrt" | "rsqrt" | "var" | "reciprocal" => 2,
        "exp" | "log" | "sigmoid" | "tanh" | "silu" => 4,
        "gelu" => 8,
        _ if quirks.triton_unknown_word_zeroes => 0,
        _ => weight_unknown_to_reference(word.strip_suffix('_').unwrap_or(word)),
    }
}

/// The weights that the reference lacks: those of the same operations outside compiled code, per element.
fn weight_unknown_to_reference(word: &str) -> i64 {
    match word {
        "add" | "sub" | "mul" | "div" | "relu" | "abs" | "neg" | "ne" | "eq" | "lt" | "gt" | "le" | "ge" | "rsub"
        | "maximum" | "minimum" | "max" | "min" | "amax" | "amin" | "clamp" | "clamp_min" | "clamp_max" | "prod"
        | "cumsum" | "cumprod" | "logsumexp" | "sigmoid_backward" | "threshold_backward" => 1,
        "pow" | "sqrt" | "rsqrt" | "reciprocal" | "native_dropout" | "linalg_vector_norm" => 2,
        "var_mean" | "addcmul" | "addcdiv" | "lerp" => 3,
        "exp"
        | "exp2"
        | "expm1"
        | "log"
        | "log1p"
        | "log2"
        | "sin"
        | "cos"
        | "sigmoid"
        | "tanh"
        | "silu"
        | "_softmax_backward_data"
        | "_log_softmax_backward_data" => 4,
        "native_layer_norm" | "_softmax" | "_log_softmax" | "_safe_softmax" => 5,
        "silu_backward" | "tanh_backward" => 6,
        "gelu" | "erf" => 8,
        "gelu_backward" => 10,
        _ => 0,
    }
}
