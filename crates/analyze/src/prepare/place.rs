//! Where in the program a row's calls are made: pass, modules, call site.

use std::collections::BTreeMap;
use std::sync::Arc;

use jarvis_trace::{EventId, Trace, Tree};
use rapidhash::RapidHashMap;

use crate::program::{Direction, Leaf, MODULE_PREFIX, Program, RowId, base_name};

const HEAD: &str = "head";

/// Words of module names and the call sites they mean; looked for from the innermost module outwards.
const CALL_SITES: &[(&str, &[&str])] = &[
    ("attention", &["attn", "attention", "sdpa"]),
    ("mlp", &["mlp", "ffn", "feedforward", "dense", "gate_proj", "expert"]),
    ("norm", &["norm"]),
    ("embedding", &["embed"]),
    (HEAD, &["classifier", "score", "head", "heads"]),
    ("conv_block", &["conv", "bottleneck", "basicblock", "resblock", "downsample"]),
];

/// Where nothing tells.
const UNKNOWN: &str = "unknown";

/// Which call site a module path means.
pub fn call_site(modules: &[Arc<str>], direction: Direction) -> &'static str {
    for (depth, module) in modules.iter().enumerate().rev() {
        let lower = base_name(module).to_lowercase();
        // `GPT2LMHeadModel` has a head and is none, and nothing that holds the whole model is.
        let means = |site: &str, word: &str| match site {
            HEAD => depth > 0 && lower.ends_with(word),
            _ => lower.contains(word),
        };
        if let Some((site, _)) = CALL_SITES.iter().find(|(site, words)| words.iter().any(|w| means(site, w))) {
            return site;
        }
    }
    if direction == Direction::Optimizer { "optimizer" } else { UNKNOWN }
}

/// Leaves of every row, in program order.
pub(crate) fn leaves_by_row(program: &Program, rows: usize) -> Vec<Vec<usize>> {
    let mut out = vec![Vec::new(); rows];
    for (i, leaf) in program.leaves.iter().enumerate() {
        if let Some(of_row) = leaf.row.and_then(|row| out.get_mut(row.index())) {
            of_row.push(i);
        }
    }
    out
}

/// Stretches of leaves, given in program order, within one step and with no other leaf between them.
pub(crate) fn back_to_back<'a>(program: &Program, leaves: &'a [usize]) -> impl Iterator<Item = &'a [usize]> {
    let of = |i: usize| (program.leaves[i].thread, program.leaves[i].step);
    leaves.chunk_by(move |&a, &b| a + 1 == b && of(a) == of(b))
}

/// The leaf right after a stretch of others if it puts their results together.
pub(crate) fn collector(program: &Program, stretch: &[usize]) -> Option<usize> {
    let next = stretch.last()? + 1;
    let leaf = program.leaves.get(next)?;
    matches!(&*leaf.name, "aten::cat" | "aten::stack").then_some(next)
}

/// Whether an operation's name says that it belongs to the backward pass.
pub(crate) fn names_backward(name: &str) -> bool {
    let lower = name.to_ascii_lowercase();
    ["backward", "bwd"].iter().any(|word| lower.contains(word))
}

/// The pass that most of a row's time belongs to.
pub(crate) fn direction(name: &str, report_category: &str, leaves: &[&Leaf]) -> Direction {
    let named = report_category.ends_with("_bwd") || names_backward(name);
    let known = [Direction::Forward, Direction::Backward, Direction::Optimizer];
    let time = |d: Direction| leaves.iter().filter(|l| l.direction == d).map(|l| l.us).sum::<f64>();
    let most = known.into_iter().max_by(|a, b| time(*a).total_cmp(&time(*b)).then(b.cmp(a)));
    match most {
        _ if named => Direction::Backward,
        Some(direction) if leaves.iter().any(|l| l.is_op) => direction,
        _ => Direction::Unknown,
    }
}

/// Modules around the calls of a row, outermost first: those of its first leaf that has any, else of the forward call
/// that its backward work belongs to.
pub(crate) struct Modules<'a> {
    trace: &'a Trace,
    tree: &'a Tree,
    program: &'a Program,
    of_forward: RapidHashMap<EventId, Vec<Arc<str>>>,
}

impl<'a> Modules<'a> {
    pub(crate) fn new(trace: &'a Trace, tree: &'a Tree, program: &'a Program) -> Self {
        Self { trace, tree, program, of_forward: RapidHashMap::default() }
    }

    pub(crate) fn of_row(&mut self, leaves: &[&Leaf]) -> Vec<Arc<str>> {
        if !self.program.has_frames {
            return Vec::new();
        }
        let program = self.program;
        if let Some(leaf) = leaves.iter().find(|l| l.module.is_some()) {
            let chain = program.module_chain(leaf);
            return chain.into_iter().map(|m| Arc::clone(&program.module(m).name)).collect();
        }
        let forward = leaves.iter().find_map(|l| {
            let event = self.trace.event(l.uid)?;
            std::iter::once(event).chain(self.tree.ancestors(event)).find_map(|e| self.tree.forward_of(e))
        });
        forward.map(|e| self.of_event(e)).unwrap_or_default()
    }

    fn of_event(&mut self, event: EventId) -> Vec<Arc<str>> {
        let (trace, tree) = (self.trace, self.tree);
        let names = || {
            let frames = tree.ancestors(event).filter_map(|e| trace.name(e).strip_prefix(MODULE_PREFIX));
            let mut path: Vec<Arc<str>> = frames.map(Into::into).collect();
            path.reverse();
            path
        };
        self.of_forward.entry(event).or_insert_with(names).clone()
    }
}

/// Shares of leaves in a set of leaves, by row: how much of a row's time they stand for.
pub(crate) fn shares(program: &Program, leaves: impl Iterator<Item = usize>, row_us: &[f64]) -> Vec<(RowId, f64)> {
    // There may be as many sets as rows, and most are of a few.
    let mut us: BTreeMap<RowId, f64> = BTreeMap::new();
    for leaf in leaves.filter_map(|i| program.leaves.get(i)) {
        if let Some(row) = leaf.row {
            *us.entry(row).or_default() += leaf.us;
        }
    }
    let share = |(row, us): (RowId, f64)| {
        let all = row_us.get(row.index()).copied().filter(|all| us > 0.0 && *all > 0.0)?;
        Some((row, (us / all).min(1.0)))
    };
    us.into_iter().filter_map(share).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_tell_the_backward_pass() {
        for name in ["x::flash_attn_bwd", "aten::convolution_backward", "MmBackward0", "aiter::fmha_v3_bwd"] {
            assert_eq!(direction(name, "other", &[]), Direction::Backward, "{name}");
        }
        assert_eq!(direction("x::flash_attn_fwd", "SDPA_bwd", &[]), Direction::Backward, "its category says so");
        assert_eq!(direction("x::flash_attn_fwd", "other", &[]), Direction::Unknown);
    }

    #[test]
    fn the_innermost_telling_module_is_the_call_site() {
        let path = |names: &[&str]| names.iter().map(|&n| n.into()).collect::<Vec<Arc<str>>>();
        let site = |names: &[&str]| call_site(&path(names), Direction::Forward);
        assert_eq!(site(&["Qwen2Model_0", "Qwen2DecoderLayer_3", "Qwen2Attention_3", "Linear_4"]), "attention");
        assert_eq!(site(&["Qwen2Attention_3", "Qwen2RMSNorm_1"]), "norm");
        assert_eq!(site(&["ResNet_0", "Bottleneck_2"]), "conv_block");
        assert_eq!(site(&["Foo_0"]), "unknown");
        // A model with a head is no head, nor is what wraps it.
        assert_eq!(site(&["GPT2LMHeadModel_0", "GPT2Model_0", "GPT2Block_1", "Linear_2"]), "unknown");
        assert_eq!(site(&["Wrapped_0", "GPT2LMHeadModel_0", "GPT2Block_1", "GPT2MLP_2", "Linear_2"]), "mlp");
        assert_eq!(site(&["GPT2LMHeadModel_0", "LMHead_0", "Linear_9"]), "head");
        assert_eq!(site(&["ImageClassifier_0", "Linear_0"]), "unknown");
        assert_eq!(call_site(&[], Direction::Optimizer), "optimizer");
    }
}
