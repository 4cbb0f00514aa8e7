//! Where in the program a row's calls were made: the `entry_point` and `call_stack_full` columns.

use std::sync::Arc;

use jarvis_trace::{EventId, EventKind, StrId, Trace, Tree, pyliteral};
use rapidhash::RapidHashMap;

use super::kernel_list::KernelList;

/// What the cells show if the place was not found.
const NOT_FOUND: &str = "Not found";

/// Beginnings of frames that only pass calls on.
const WRAPPER_STARTS: [&str; 3] = ["<built-in", "pybind11_builtins", "nn.Module:"];

/// Files whose frames only pass calls on.
const WRAPPER_FILES: [&str; 11] = [
    "torch/_ops.py",
    "torch/nn/modules/module.py",
    "torch/utils/_contextlib.py",
    "torch/utils/_device.py",
    "torch/_tensor.py",
    "torch/functional.py",
    "torch/overrides.py",
    "torch/_inductor/",
    "torch/_functorch/",
    "torch/distributed/c10d_logger.py",
    "triton/backends/",
];

/// Functions that only pass calls on.
const WRAPPER_FUNCTIONS: [&str; 10] = [
    "__torch_function__",
    "_call_impl",
    "_wrapped_call_impl",
    "decorate_context",
    "dispatch_wrapper",
    "handle_torch_function",
    "wrapper",
    "custom_wrapper",
    "wrapper_custom",
    "outer_wrapper",
];

/// The two cells of a row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StackCells {
    /// The frame that called the operation.
    pub entry_point: Arc<str>,
    /// All frames and operations down to the kernels, as a list literal.
    pub full: Arc<str>,
}

/// A line of a stack, with what is asked of it for every row.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Frame {
    text: Arc<str>,
    /// Whether it is one of Python code.
    is_python: bool,
    /// Whether it is one that does more than to pass calls on.
    is_caller: bool,
}

impl From<&str> for Frame {
    fn from(text: &str) -> Self {
        let is_python = text.contains(".py");
        Self { text: text.into(), is_python, is_caller: is_python && !is_wrapper(text) }
    }
}

/// Call stacks of rows; names are cleaned once.
#[derive(Debug)]
pub(crate) struct CallStacks<'a> {
    trace: &'a Trace,
    tree: &'a Tree,
    /// By name, and whether it is one of an operation; `None` if such an event says nothing.
    cleaned: RapidHashMap<(StrId, bool), Option<Frame>>,
    kernels: RapidHashMap<StrId, Frame>,
}

impl<'a> CallStacks<'a> {
    pub(crate) fn new(trace: &'a Trace, tree: &'a Tree) -> Self {
        Self { trace, tree, cleaned: RapidHashMap::default(), kernels: RapidHashMap::default() }
    }

    /// The cells of a row with these kernels.
    pub(crate) fn of_row(&mut self, kernels: &KernelList, op: &str) -> StackCells {
        let chains: Vec<Vec<Frame>> = kernels.kernels.iter().filter_map(|k| k.example).map(|k| self.chain(k)).collect();
        let Some((common, tails)) = fold(&chains) else {
            return StackCells { entry_point: NOT_FOUND.into(), full: NOT_FOUND.into() };
        };
        let flat: Vec<&Frame> = common.iter().chain(tails.iter().copied().flatten()).collect();
        let entry_point = entry_point(&flat, op).map_or_else(|| NOT_FOUND.into(), |frame| Arc::clone(&frame.text));
        StackCells { entry_point, full: list_text(common, &tails).into() }
    }

    /// Names from the outermost event that says something down to the kernel.
    fn chain(&mut self, kernel: EventId) -> Vec<Frame> {
        let mut chain: Vec<Frame> = self.tree.ancestors(kernel).filter_map(|e| self.cleaned(e)).collect();
        chain.reverse();
        let name = self.trace.name_id(kernel);
        chain.push(self.kernels.entry(name).or_insert_with(|| self.trace.text(name).into()).clone());
        chain
    }

    fn cleaned(&mut self, event: EventId) -> Option<Frame> {
        let (name, is_op) = (self.trace.name_id(event), self.trace.kind(event) == EventKind::CpuOp);
        let text = self.trace.text(name);
        let told = || is_op || ["nn.Module", "::", "/"].iter().any(|part| text.contains(part));
        self.cleaned
            .entry((name, is_op))
            .or_insert_with(|| told().then(|| without_numbers(text).as_str().into()))
            .clone()
    }
}

/// Takes every `_<digits>` out.
fn without_numbers(name: &str) -> String {
    let mut out = String::with_capacity(name.len());
    let mut rest = name;
    while let Some(at) = rest.find('_') {
        let after = &rest[at + 1..];
        let digits = after.len() - after.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        let end = if digits > 0 { at } else { at + 1 };
        out.push_str(&rest[..end]);
        rest = &after[digits..];
    }
    out.push_str(rest);
    out
}

/// Names from the outermost to the innermost.
type Chain = [Frame];

/// What all chains begin with, and the distinct rests in order of appearance. `None` without chains.
fn fold(chains: &[Vec<Frame>]) -> Option<(&Chain, Vec<&Chain>)> {
    let (first, others) = chains.split_first()?;
    let mut common = first.len();
    for chain in others {
        common = first.iter().zip(chain).take(common).take_while(|(a, b)| a == b).count();
    }
    let mut tails: Vec<&Chain> = Vec::new();
    for tail in chains.iter().map(|c| &c[common..]).filter(|t| !t.is_empty()) {
        if !tails.contains(&tail) {
            tails.push(tail);
        }
    }
    Some((&first[..common], tails))
}

fn list_text(common: &Chain, tails: &[&Chain]) -> String {
    let frames = common.iter().chain(tails.iter().copied().flatten());
    let mut text = String::with_capacity(frames.map(|frame| frame.text.len() + 8).sum());
    text.push('[');
    push_words(&mut text, common);
    for (i, tail) in tails.iter().enumerate() {
        text.push_str(if i > 0 || !common.is_empty() { ", [" } else { "[" });
        push_words(&mut text, tail);
        text.push(']');
    }
    text.push(']');
    text
}

fn push_words(text: &mut String, list: &Chain) {
    for (i, frame) in list.iter().enumerate() {
        text.push_str(if i > 0 { ", " } else { "" });
        pyliteral::push_str(text, &frame.text);
    }
}

/// The frame that called `op`: one below the operation that has its name, else the innermost real one above it.
fn entry_point<'a>(stack: &[&'a Frame], op: &str) -> Option<&'a Frame> {
    let last = |name: &str| stack.iter().rposition(|frame| *frame.text == *name);
    let at = last(op).or_else(|| last(without_trailing_number(op)))?;
    let local = op.rsplit("::").next().unwrap_or(op).to_lowercase();
    let inward = stack[at + 1..].iter().find(|f| f.is_python && function(&f.text).to_lowercase().contains(&local));
    let outward = || stack[..at].iter().rev().find(|f| f.is_caller);
    inward.or_else(outward).copied()
}

fn without_trailing_number(name: &str) -> &str {
    let stem = name.trim_end_matches(|c: char| c.is_ascii_digit());
    if stem.len() < name.len() { stem.strip_suffix('_').unwrap_or(name) } else { name }
}

/// What stands after the file and line of a frame.
fn function(frame: &str) -> &str {
    frame.rsplit_once("): ").map_or(frame, |(_, function)| function)
}

fn is_wrapper(frame: &str) -> bool {
    WRAPPER_STARTS.iter().any(|s| frame.starts_with(s))
        || WRAPPER_FILES.iter().any(|f| frame.contains(f))
        || WRAPPER_FUNCTIONS.contains(&function(frame))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_go_wherever_they_stand() {
        assert_eq!(without_numbers("nn.Module: Linear_12"), "nn.Module: Linear");
        assert_eq!(without_numbers("a_1_b__2_c_x"), "a_b__c_x");
        assert_eq!(without_numbers("_call_impl"), "_call_impl");
    }

    #[test]
    fn entry_points() {
        let entry_point = |names: &[&str], op: &str| {
            let frames: Vec<Frame> = names.iter().map(|&name| name.into()).collect();
            entry_point(&frames.iter().collect::<Vec<_>>(), op).map(|frame| frame.text.to_string())
        };
        let stack = [
            "train.py(10): step",
            "torch/nn/modules/linear.py(124): forward",
            "torch/nn/modules/module.py(1743): _call_impl",
            "aten::linear",
            "aten::addmm",
            "void cutlass::Kernel2<>",
        ];
        assert_eq!(entry_point(&stack, "aten::addmm").unwrap(), "torch/nn/modules/linear.py(124): forward");
        assert_eq!(entry_point(&stack, "aten::nothing"), None);
        let inward = ["a.py(1): f", "my::op", "lib.py(5): run_OP_now", "kernel"];
        assert_eq!(entry_point(&inward, "my::op").unwrap(), "lib.py(5): run_OP_now");
        assert_eq!(entry_point(&["x", "my::op"], "my::op_7"), None);
    }

    #[test]
    fn stacks_fold_where_they_part() {
        let chain = |names: &[&str]| names.iter().map(|&n| n.into()).collect::<Vec<Frame>>();
        let chains = [chain(&["a", "b", "k1"]), chain(&["a", "b", "k2"]), chain(&["a", "b", "k1"])];
        let (common, tails) = fold(&chains).unwrap();
        assert_eq!(list_text(common, &tails), "['a', 'b', ['k1'], ['k2']]");
        let one = [chain(&["a", "k"])];
        let (common, tails) = fold(&one).unwrap();
        assert_eq!(list_text(common, &tails), "['a', 'k']");
        assert!(fold(&[]).is_none());
    }
}
