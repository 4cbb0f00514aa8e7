//! Sentences about rows, from the text library.

use jarvis_perf::roofline::MB;

use super::cx::CategoryCx;
use super::impact;
use super::judge::Group;
use super::neighbours::Neighbours;
use crate::metrics::Sentence;
use crate::metrics::short_name;
use crate::prepare::args;
use crate::prepare::baseline::is_contiguous;
use crate::prepare::kernel_names::{has_steps, is_generated, main_kernel};
use crate::prepared::{BoundType, Prepared, Row};
use crate::program::Direction;
use crate::rounding::{of_peak, round, shown, shown_ms};
use crate::system::texts::bytes;
use crate::texts::TextId;

/// What is said of a bottleneck.
#[derive(Debug, Clone, Default)]
pub(crate) struct Said {
    pub(crate) issue: String,
    /// The same without shapes, where they are part of it.
    pub(crate) brief: Option<String>,
    pub(crate) algorithmic: Vec<Sentence>,
    pub(crate) kernel: Vec<Sentence>,
    pub(crate) ids: Vec<&'static str>,
}

impl Said {
    /// Tells what is wrong. The first telling counts; later ones would blur it.
    pub(crate) fn issue(&mut self, text: TextId, values: &[(&str, &str)]) {
        if self.issue.is_empty() {
            self.issue = text.fill(values);
            self.ids.push(text.id());
        }
    }

    /// Adds to what is wrong.
    pub(crate) fn also(&mut self, text: TextId, values: &[(&str, &str)]) {
        let sentence = text.fill(values);
        for told in std::iter::once(&mut self.issue).chain(&mut self.brief) {
            if !told.is_empty() {
                told.push(' ');
            }
            told.push_str(&sentence);
        }
        self.ids.push(text.id());
    }

    /// What to change in the model.
    pub(crate) fn model(&mut self, text: TextId, values: &[(&str, &str)]) {
        if !self.ids.contains(&text.id()) {
            self.algorithmic.push(Sentence { id: text.id(), text: text.fill(values) });
            self.ids.push(text.id());
        }
    }

    /// What a kernel team can do.
    pub(crate) fn kernel(&mut self, text: TextId, values: &[(&str, &str)]) {
        if !self.ids.contains(&text.id()) {
            self.kernel.push(Sentence { id: text.id(), text: text.fill(values) });
            self.ids.push(text.id());
        }
    }

    /// That kernel engineers get a reproducer.
    pub(crate) fn replay(&mut self) {
        self.kernel(TextId::B_REPLAY, &[]);
    }

    /// Of what has no recorded inputs no package can be made, and no shape can be spoken of.
    pub(crate) fn without_inputs(&mut self) {
        let needs = [TextId::B_REPLAY, TextId::B_QUANT_REPLAY, TextId::B_SELECT, TextId::B_GENERATED, TextId::B_STRIDE]
            .map(TextId::id);
        self.kernel.retain(|s| !needs.contains(&s.id));
        self.ids.retain(|id| !needs.contains(id));
        self.kernel(TextId::B_NO_INPUTS, &[]);
    }

    /// What to change about a kernel of a replayed graph depends on the operation behind it.
    pub(crate) fn in_graph(&mut self) {
        let gone: Vec<&str> = self.algorithmic.drain(..).map(|s| s.id).collect();
        self.ids.retain(|id| !gone.contains(id));
        self.model(TextId::A_CAPTURE, &[]);
    }

    /// No package is made of it, so none is spoken of. Something has to be said to a kernel team all the same.
    pub(crate) fn without_package(&mut self, row: &Row) {
        Self::without_replay(&mut self.kernel, &mut self.ids);
        if self.kernel.is_empty() {
            self.selection(row);
        }
    }

    /// That no package is made: then none is spoken of.
    pub(crate) fn without_replay(sentences: &mut Vec<Sentence>, ids: &mut Vec<&'static str>) {
        sentences.retain(|s| !speaks_of_package(s.id));
        ids.retain(|id| !speaks_of_package(id));
    }

    /// That none could be made, in the place of what was promised.
    pub(crate) fn refused(sentences: &mut Vec<Sentence>, ids: &mut Vec<&'static str>) {
        let known = sentences.len();
        Self::without_replay(sentences, ids);
        if sentences.len() < known {
            sentences.push(Sentence { id: TextId::B_NO_PACKAGE.id(), text: TextId::B_NO_PACKAGE.plain() });
            ids.push(TextId::B_NO_PACKAGE.id());
        }
    }

    /// How far the group is from the side of the roofline that binds it.
    pub(crate) fn bound(&mut self, cx: &CategoryCx<'_>, group: &Group<'_>) {
        let row = group.row();
        let e = &row.efficiency;
        let (Some(bound), Some(percent)) = (e.bound_type, e.judged()) else { return self.unmodeled(cx, group) };
        let op = short_name(&row.name);
        let eff = of_peak(percent);
        let fpb = e.flops_per_byte.map_or_else(|| "-".to_owned(), |x| shown(x, 1));
        let peak = match bound {
            BoundType::Compute => maybe(e.resolved_peak_maf, 0),
            BoundType::Memory => shown(cx.peak_tbs(), 2),
        };
        let (tflops, tbs) = (maybe(e.tflops_achieved, 1), maybe(e.tb_s_achieved, 2));
        let text = match bound {
            BoundType::Compute => TextId::I_COMPUTE,
            BoundType::Memory => TextId::I_MEMORY,
        };
        let knee = knee(cx, row);
        let said = |args: &str| {
            let rates = [("tflops", &*tflops), ("tbs", &tbs), ("peak", &peak), ("eff", &eff), ("fpb", &fpb)];
            text.fill(&[&rates[..], &[("knee", &knee), ("op", &op), ("args", args)]].concat())
        };
        if self.issue.is_empty() {
            self.issue = said(&plain_args(row));
            self.brief = Some(said(&which_shape(cx, group)));
            self.ids.push(text.id());
        }
    }

    fn unmodeled(&mut self, cx: &CategoryCx<'_>, group: &Group<'_>) {
        let compute_ms: f64 = group.members.iter().map(|m| m.row.compute_ms()).sum();
        let (time, share) = (shown_ms(group.time_ms), shown(cx.of_compute(compute_ms), 1));
        let op = short_name(&group.row().name);
        self.issue(TextId::I_UNMODELED, &[("op", &op), ("time", &time), ("pct", &share)]);
    }

    /// What closing the gap to the peak bandwidth would bring.
    pub(crate) fn bandwidth(&mut self, cx: &CategoryCx<'_>, group: &Group<'_>) {
        if group.efficiency.is_none() {
            return;
        }
        // No more than the impact hopes for: some operations can't come as close to the peak as others.
        let ceiling = impact::ceiling(group).min(cx.prepared.memory_ceiling());
        let saved = impact::group_saved(cx, group, ceiling).0.min(impact::hoped(cx, group));
        if saved > 0.0 {
            self.kernel(TextId::B_BW, &[("saved", &shown_ms(saved)), ("ceiling", &shown(ceiling, 0))]);
        }
    }

    /// Which kernel was chosen. What a compiler wrote for the work at hand was not chosen among others.
    pub(crate) fn selection(&mut self, row: &Row) {
        if let Some(kernel) = main_kernel(row) {
            let text = if is_generated(kernel) { TextId::B_GENERATED } else { TextId::B_SELECT };
            self.kernel(text, &[("kernel", &short_name(kernel))]);
        }
    }

    /// That inputs are not contiguous, if they are not. Never the first sentence: that one stands in a recommendation, where
    /// no shapes do.
    pub(crate) fn strides(&mut self, row: &Row) {
        if let Some(strides) = odd_strides(row) {
            self.kernel(TextId::B_STRIDE, &[("strides", &strides)]);
        }
    }

    /// That `torch.compile` could fuse the operations next to this one.
    pub(crate) fn compile(&mut self, cx: &CategoryCx<'_>, row: &Row) {
        if let Some(text) = compiled_already(cx, row) {
            return self.model(text, &[]);
        }
        // That names the compiler and the neighbours already.
        if self.ids.contains(&TextId::A_FUSE.id()) {
            return;
        }
        let neighbours = Neighbours::of(cx, row);
        if neighbours.names.is_empty() {
            self.model(TextId::A_COMPILE_BATCH, &[]);
        } else {
            self.model(TextId::A_COMPILE_WITH, &[("op", &row.name), ("list", &neighbours.names.join(", "))]);
        }
    }

    /// That `torch.compile` may batch or fuse calls, if it was not asked to.
    pub(crate) fn compile_batch(&mut self, cx: &CategoryCx<'_>, row: &Row) {
        self.model(compiled_already(cx, row).unwrap_or(TextId::A_COMPILE_BATCH), &[]);
    }

    /// That fusing with its neighbours removes the traffic between them, if there is any worth telling.
    pub(crate) fn fuse(&mut self, cx: &CategoryCx<'_>, row: &Row) {
        if let Some(text) = compiled_already(cx, row) {
            return self.model(text, &[]);
        }
        let neighbours = Neighbours::of(cx, row);
        if round(neighbours.bytes / MB, 1) > 0.0 {
            let size = bytes(neighbours.bytes as i64);
            self.model(TextId::A_FUSE, &[("list", &neighbours.names.join(", ")), ("size", &size)]);
        } else {
            self.model(TextId::A_COMPILE_BATCH, &[]);
        }
    }
}

/// Whether a sentence is about a replay package, and means nothing without one.
pub(crate) fn speaks_of_package(id: &str) -> bool {
    [TextId::B_REPLAY, TextId::B_QUANT_REPLAY, TextId::B_STRIDE].iter().any(|text| text.id() == id)
}

/// Where the roofline bends for a row's precision: it differs from the fixed limits by which its class is told.
fn knee(cx: &CategoryCx<'_>, row: &Row) -> String {
    let e = &row.efficiency;
    let knee = e.flops_per_byte.and(e.resolved_peak_maf).map(|peak| shown(peak / cx.peak_tbs(), 1));
    knee.map_or_else(String::new, |knee| match e.bound_type {
        Some(BoundType::Compute) => format!(" (memory binds below {knee})"),
        _ => format!(" (compute binds above {knee})"),
    })
}

/// Which of its shapes the largest one of a group is: the operation may have others that are fast enough.
fn which_shape(cx: &CategoryCx<'_>, group: &Group<'_>) -> String {
    let row = group.row();
    let like = |other: &Row| other.name == row.name;
    let slow = group.members.iter().filter(|m| like(m.row)).count();
    match cx.rows().filter(|r| like(r)).count() {
        0 | 1 => "its only shape".to_owned(),
        all if slow == all => "its largest shape".to_owned(),
        all if slow == 1 => format!("one of its {all} shapes"),
        all => format!("the largest of {slow} of its {all} shapes"),
    }
}

/// What to say in the place of advice to compile, where that was done: the operation is a compiled kernel, whatever category
/// its name puts it in, or all of its calls lie in compiled regions.
pub(crate) fn compiled_already(cx: &CategoryCx<'_>, row: &Row) -> Option<TextId> {
    match () {
        () if is_generated(&row.name) => Some(TextId::A_GENERATED),
        () if row.name.starts_with("triton") => Some(TextId::A_TRITON_VALIDATE),
        () if !cx.prepared.program.is_compiled(row.id) => None,
        // The compiler has kernels of its own for products.
        () if has_steps(&row.category) => Some(TextId::A_AUTOTUNE),
        () => Some(TextId::A_COMPILED),
    }
}

/// Whether the operation is one of the backward pass: what is said of the forward one does not hold for it.
pub(crate) fn is_backward(row: &Row) -> bool {
    row.direction == Direction::Backward || row.name.contains("backward")
}

/// Whether anything goes backward: nobody trains a model anew to make it infer faster.
pub(crate) fn trains(p: &Prepared) -> bool {
    p.rows.iter().any(is_backward)
}

/// Arguments for a sentence.
pub(crate) fn plain_args(row: &Row) -> String {
    if row.args.is_empty() { "unknown shapes".to_owned() } else { args::in_prose(&row.args) }
}

pub(crate) fn maybe(value: Option<f64>, decimals: usize) -> String {
    value.map_or_else(|| "-".to_owned(), |v| shown(v, decimals))
}

/// Operations that make a contiguous tensor themselves, or fill one that is not.
const COPYING: [&str; 4] = ["aten::clone", "aten::contiguous", "aten::copy_", "aten::_to_copy"];

/// Strides of the first tensor that is not contiguous. Libraries take either operand of a product transposed, as the weight
/// of every linear layer is. A contiguous copy of what repeats the same elements would be larger.
pub(crate) fn odd_strides(row: &Row) -> Option<String> {
    if COPYING.contains(&&*row.name) {
        return None;
    }
    let (dims, strides) = (row.inputs.dims.as_ref()?, row.inputs.strides.as_ref()?);
    let is_product = &*row.category == "gemm";
    let odd = dims.iter().zip(strides.iter()).find_map(|(d, s)| {
        let (d, s) = (d.shape()?, s.shape()?);
        let told = !d.is_empty() && d.len() == s.len();
        let repeats = d.iter().zip(s).any(|(&d, &s)| d > 1 && s == 0);
        let is_usual = || is_contiguous(d, s) || is_product && is_transposed(d, s);
        (told && !repeats && !is_usual()).then_some(s)
    })?;
    let words: Vec<String> = odd.iter().map(i64::to_string).collect();
    Some(format!("({})", words.join(",")))
}

/// Whether a tensor is contiguous but for its last two dimensions, which are exchanged.
fn is_transposed(dims: &[i64], strides: &[i64]) -> bool {
    let exchanged = |list: &[i64]| {
        let mut list = list.to_vec();
        let last = list.len() - 1;
        list.swap(last - 1, last);
        list
    };
    dims.len() >= 2 && is_contiguous(&exchanged(dims), &exchanged(strides))
}

/// The kind of the first entry with a word that stands in a name: rules tell operations of one category apart by it.
pub(crate) fn kind_by_words(kinds: &[(&'static str, &[&str])], name: &str) -> Option<&'static str> {
    let lower = name.to_lowercase();
    kinds.iter().find(|(_, words)| words.iter().any(|w| lower.contains(w))).map(|(kind, _)| *kind)
}
