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
#[derive(Debug)]
struct Frame {
    text: Arc<str>,
    /// Whether it is one of Python code.
    is_python: bool,
    /// Whether it is one that does more than to pass calls on.
    is_caller: bool,
}

impl Frame {
    fn of(text: Arc<str>) -> Self {
        let is_python = text.contains(".py");
        let is_caller = is_python && !is_wrapper(&text);
        Self { text, is_python, is_caller }
    }
}

/// Handle of a frame; equal if they read the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct FrameId(u32);

/// Every frame once.
#[derive(Debug, Default)]
struct Frames {
    list: Vec<Frame>,
    by_text: RapidHashMap<Arc<str>, FrameId>,
}

impl Frames {
    fn intern(&mut self, text: &str) -> FrameId {
        if let Some(&id) = self.by_text.get(text) {
            return id;
        }
        let (text, id): (Arc<str>, _) = (text.into(), FrameId(self.list.len() as u32));
        self.by_text.insert(Arc::clone(&text), id);
        self.list.push(Frame::of(text));
        id
    }

    fn get(&self, id: FrameId) -> &Frame {
        &self.list[id.0 as usize]
    }
}

/// Call stacks of rows; names are cleaned once, and rows with the same stack share its text.
#[derive(Debug)]
pub(crate) struct CallStacks<'a> {
    trace: &'a Trace,
    tree: &'a Tree,
    frames: Frames,
    /// By name, and whether it is one of an operation; `None` if such an event says nothing.
    cleaned: RapidHashMap<(StrId, bool), Option<FrameId>>,
    kernels: RapidHashMap<StrId, FrameId>,
    /// By what all kernels have in common and the rests.
    texts: RapidHashMap<Vec<Vec<FrameId>>, Arc<str>>,
    not_found: Arc<str>,
}

impl<'a> CallStacks<'a> {
    pub(crate) fn new(trace: &'a Trace, tree: &'a Tree) -> Self {
        Self {
            trace,
            tree,
            frames: Frames::default(),
            cleaned: RapidHashMap::default(),
            kernels: RapidHashMap::default(),
            texts: RapidHashMap::default(),
            not_found: NOT_FOUND.into(),
        }
    }

    /// The cells of a row with these kernels.
    pub(crate) fn of_row(&mut self, kernels: &KernelList, op: &str) -> StackCells {
        let chains: Vec<_> = kernels.kernels.iter().filter_map(|k| k.example).map(|k| self.chain(k)).collect();
        let Some(stack) = fold(chains) else {
            return StackCells { entry_point: Arc::clone(&self.not_found), full: Arc::clone(&self.not_found) };
        };
        let flat: Vec<&Frame> = stack.iter().flatten().map(|&frame| self.frames.get(frame)).collect();
        let entry_point = entry_point(&flat, op).map_or(&self.not_found, |frame| &frame.text);
        let entry_point = Arc::clone(entry_point);
        let frames = &self.frames;
        let full = self.texts.entry(stack).or_insert_with_key(|stack| list_text(frames, stack).into());
        StackCells { entry_point, full: Arc::clone(full) }
    }

    /// Names from the outermost event that says something down to the kernel.
    fn chain(&mut self, kernel: EventId) -> Vec<FrameId> {
        let mut chain: Vec<FrameId> = self.tree.ancestors(kernel).filter_map(|e| self.cleaned(e)).collect();
        chain.reverse();
        let name = self.trace.name_id(kernel);
        chain.push(*self.kernels.entry(name).or_insert_with(|| self.frames.intern(self.trace.text(name))));
        chain
    }

    fn cleaned(&mut self, event: EventId) -> Option<FrameId> {
        let (name, is_op) = (self.trace.name_id(event), self.trace.kind(event) == EventKind::CpuOp);
        *self.cleaned.entry((name, is_op)).or_insert_with(|| {
            let text = self.trace.text(name);
            let told = is_op || ["nn.Module", "::", "/"].iter().any(|part| text.contains(part));
            told.then(|| self.frames.intern(&without_numbers(text)))
        })
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

/// What all chains begin with, then the distinct rests in order of appearance. `None` without chains.
fn fold(chains: Vec<Vec<FrameId>>) -> Option<Vec<Vec<FrameId>>> {
    let (first, others) = chains.split_first()?;
    let mut common = first.len();
    for chain in others {
        common = first.iter().zip(chain).take(common).take_while(|(a, b)| a == b).count();
    }
    let mut stack = vec![first[..common].to_vec()];
    for mut chain in chains {
        chain.drain(..common);
        if !chain.is_empty() && !stack[1..].contains(&chain) {
            stack.push(chain);
        }
    }
    Some(stack)
}

fn list_text(frames: &Frames, stack: &[Vec<FrameId>]) -> String {
    let all = stack.iter().flatten().map(|&frame| &frames.get(frame).text);
    let mut text = String::with_capacity(all.map(|frame| frame.len() + 8).sum());
    let push_words = |text: &mut String, words: &[FrameId]| {
        for (i, &frame) in words.iter().enumerate() {
            text.push_str(if i > 0 { ", " } else { "" });
            pyliteral::push_str(text, &frames.get(frame).text);
        }
    };
    text.push('[');
    for (i, words) in stack.iter().enumerate() {
        if i == 0 {
            push_words(&mut text, words);
            continue;
        }
        text.push_str(if i > 1 || !stack[0].is_empty() { ", [" } else { "[" });
        push_words(&mut text, words);
        text.push(']');
    }
    text.push(']');
    text
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
            let frames: Vec<Frame> = names.iter().map(|&name| Frame::of(name.into())).collect();
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
        let mut frames = Frames::default();
        let mut text = |chains: &[&[&str]]| {
            let mut chain = |names: &&[&str]| names.iter().map(|name| frames.intern(name)).collect::<Vec<_>>();
            let stack = fold(chains.iter().map(&mut chain).collect());
            stack.map(|stack| list_text(&frames, &stack))
        };
        let parted = text(&[&["a", "b", "k1"], &["a", "b", "k2"], &["a", "b", "k1"]]);
        assert_eq!(parted.unwrap(), "['a', 'b', ['k1'], ['k2']]");
        assert_eq!(text(&[&["a", "k"]]).unwrap(), "['a', 'k']");
        assert_eq!(text(&[&["a"], &["b"]]).unwrap(), "[['a'], ['b']]");
        assert!(text(&[]).is_none());
    }
}
