//! Two call trees laid over each other, as text: one line a call.
//!
//! `name` for calls of both traces, `combined: a | b` where their names differ, `>> trace1: name` and `<< trace2: name`
//! for calls of one. Below a call, those of both come first, then those of each trace. Very deep calls are not indented
//! any further but say their level.

use jarvis_analyze::compare::tree::{MergedTree, Presence, Which};
use jarvis_trace::TreeView;
use jarvis_trace::tree::DEEPEST_INDENT;

/// Which roots to show.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Roots {
    /// All of them.
    All,
    /// Those that lead to GPU work in either trace.
    WithGpuWork,
}

/// A line still to be written; `indent` is the length of the prefix its parent gives it.
struct Pending {
    id: u32,
    level: usize,
    indent: usize,
    last: bool,
}

/// The tree as text.
pub fn render(one: TreeView<'_>, two: TreeView<'_>, merged: &MergedTree, roots: Roots) -> Vec<u8> {
    let leads = |id: u32| {
        let node = merged.node(id);
        node.one.is_some_and(|e| one.tree().is_gpu_path(e)) || node.two.is_some_and(|e| two.tree().is_gpu_path(e))
    };
    let shown: Vec<u32> = merged.roots().iter().copied().filter(|&id| roots == Roots::All || leads(id)).collect();
    let mut out = String::new();
    let mut prefix = String::new();
    let mut pending: Vec<Pending> = Vec::new();
    push(&mut pending, &shown, 0, 0);
    while let Some(Pending { id, level, indent, last }) = pending.pop() {
        // What was written since has only added to the parent's prefix.
        prefix.truncate(indent);
        out.push_str(&prefix);
        out.push_str(if last { "└── " } else { "├── " });
        if level > DEEPEST_INDENT {
            out.push_str(&format!("[level {level}] "));
        }
        line(one, two, merged, id, &mut out);
        out.push('\n');
        if level < DEEPEST_INDENT {
            prefix.push_str(if last { "    " } else { "│   " });
        }
        push(&mut pending, &merged.shown_children(id), level + 1, prefix.len());
    }
    out.into_bytes()
}

fn push(pending: &mut Vec<Pending>, ids: &[u32], level: usize, indent: usize) {
    let last = ids.len().saturating_sub(1);
    pending.extend(ids.iter().enumerate().rev().map(|(at, &id)| Pending { id, level, indent, last: at == last }));
}

fn line(one: TreeView<'_>, two: TreeView<'_>, merged: &MergedTree, id: u32, out: &mut String) {
    let node = merged.node(id);
    let name = |which: Which| {
        let view = if which == Which::One { one } else { two };
        node.of(which).map_or("", |e| view.trace().name(e))
    };
    let (a, b) = (name(Which::One), name(Which::Two));
    match node.presence() {
        Presence::Combined if a == b => out.push_str(a),
        Presence::Combined => out.extend(["combined: ", a, " | ", b]),
        Presence::One => out.extend([">> trace1: ", a]),
        Presence::Two => out.extend(["<< trace2: ", b]),
    }
}
