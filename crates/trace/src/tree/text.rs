//! The tree as text: a subtree with its branches, or an event with everything around it.

use std::borrow::Cow;
use std::fmt::{self, Write};

use super::query::{CUT, ForwardLink, TreeView};
use crate::model::{EventId, EventKind};
use crate::{Fidelity, pyliteral, shortened, spelled};

/// Longest name in a line, in characters.
const LINE_NAME: usize = 64;

/// Levels that are indented. Those below stand under each other with their level in words: a hundred thousand levels of
/// indentation would be ten gigabytes of blanks.
pub const DEEPEST_INDENT: usize = 256;

/// What to print of a subtree.
#[derive(Debug, Clone, Copy)]
pub struct SubtreeText<'a> {
    /// Leave out what does not lead to GPU work (never the root).
    pub prune: bool,
    /// Arguments to show below operations.
    pub fields: &'a [&'a str],
    /// Show the backward work of each operation below it.
    pub backward: bool,
    /// Levels below the root to show; all of them if there is no limit.
    pub depth: Option<usize>,
}

impl Default for SubtreeText<'_> {
    fn default() -> Self {
        Self { prune: true, fields: &[], backward: false, depth: None }
    }
}

/// A line still to be printed. `indent` is the length of the prefix its parent gives it.
struct Pending {
    event: EventId,
    level: usize,
    indent: usize,
    shape: Shape,
}

#[derive(Clone, Copy, PartialEq)]
enum Shape {
    /// An ordinary node; `branch` tells whether it may show backward work.
    Node { last: bool, branch: bool },
    /// A backward event below its forward operation.
    Backward,
}

/// One more level, as long as levels are indented.
fn deepen(prefix: &mut String, level: usize, by: &str) {
    if level < DEEPEST_INDENT {
        prefix.push_str(by);
    }
}

impl TreeView<'_> {
    /// A subtree as text, one line a node.
    pub fn subtree_text(self, root: EventId, what: SubtreeText<'_>) -> String {
        let mut out = String::new();
        // Writing to a String does not fail.
        let _ = self.write_subtree(&mut out, root, what);
        out
    }

    /// Writes a subtree as text, one line a node.
    pub fn write_subtree(self, out: &mut impl Write, root: EventId, what: SubtreeText<'_>) -> fmt::Result {
        let mut prefix = String::new();
        let shape = Shape::Node { last: true, branch: what.backward };
        let mut pending = vec![Pending { event: root, level: 0, indent: 0, shape }];
        while let Some(Pending { event, level, indent, shape }) = pending.pop() {
            // What was printed since has only added to the parent's prefix.
            prefix.truncate(indent);
            let deep = if level > DEEPEST_INDENT { format!("[level {level}] ") } else { String::new() };
            let prune = match shape {
                Shape::Backward => {
                    writeln!(out, "{prefix}└── {deep}[BWD] {} (UID: {event})", self.shown(self.trace.name(event)))?;
                    deepen(&mut prefix, level, "    ");
                    what.prune && self.tree.options().fidelity.prunes_below_backward()
                }
                Shape::Node { last, .. } => {
                    let connector = if last { "└── " } else { "├── " };
                    writeln!(out, "{prefix}{connector}{deep}{}", self.line(event))?;
                    deepen(&mut prefix, level, if last { "    " } else { "│   " });
                    self.write_details(out, event, what.fields, &prefix)?;
                    what.prune
                }
            };
            if what.depth.is_none_or(|depth| level < depth) {
                let below = Pending { event, level: level + 1, indent: prefix.len(), shape };
                self.push_below(&mut pending, &below, prune);
            }
        }
        Ok(())
    }

    /// Puts what stands below an event on the stack, last first. `below` is the event with the level and the indent of
    /// what stands below it.
    fn push_below(self, pending: &mut Vec<Pending>, below: &Pending, prune: bool) {
        let Pending { event, level, indent, shape } = *below;
        let branch = matches!(shape, Shape::Node { branch: true, .. });
        if branch {
            let first = pending.len();
            let backward = self.tree.backward_of(event);
            pending.extend(backward.map(|event| Pending { event, level, indent, shape: Shape::Backward }));
            pending[first..].reverse();
        }
        let mut last = !(branch && self.tree.backward_of(event).len() > 0);
        let first = pending.len();
        let children = self.tree.children(event).filter(|&c| !prune || self.tree.is_gpu_path(c));
        let shape = Shape::Node { last: false, branch };
        pending.extend(children.map(|event| Pending { event, level, indent, shape }));
        pending[first..].reverse();
        for child in &mut pending[first..] {
            child.shape = Shape::Node { last, branch };
            last = false;
        }
    }

    /// A text of the trace in a line; the reference has it as it is.
    fn shown(self, text: &str) -> Cow<'_, str> {
        match self.tree.options().fidelity {
            Fidelity::Correct => spelled(text),
            Fidelity::Reference => Cow::Borrowed(text),
        }
    }

    fn line(self, e: EventId) -> String {
        let (trace, name) = (self.trace, shortened(self.trace.name(e), LINE_NAME, CUT));
        let line = format!("UID: {e}, Category: {}, Name: {}", self.shown(trace.category(e)), self.shown(&name));
        if trace.kind(e).is_gpu() {
            let dur = trace.dur(e).map_or_else(|| "None".to_owned(), |d| pyliteral::of_float(d.as_us()));
            return line + ", Duration: " + &dur;
        }
        line
    }

    /// The requested arguments of an operation that it has.
    fn details(self, e: EventId, fields: &[&str]) -> impl Iterator<Item = String> {
        let shown = if self.trace.kind(e) == EventKind::CpuOp { fields } else { &[] };
        let text = move |f: &&str| Some(format!("{f}: {}", pyliteral::of_arg(self.trace.arg(e, f)?)));
        shown.iter().filter_map(text).map(move |detail| self.shown(&detail).into_owned())
    }

    fn write_details(self, out: &mut impl Write, e: EventId, fields: &[&str], prefix: &str) -> fmt::Result {
        let mut any = false;
        for detail in self.details(e, fields) {
            writeln!(out, "{prefix}|   {detail}")?;
            any = true;
        }
        if any { writeln!(out, "{prefix}|   ") } else { Ok(()) }
    }

    /// An event and everything around it as text, innermost first.
    pub fn parent_chain_text(self, e: EventId, fields: &[&str], forward: ForwardLink) -> String {
        let mut out = String::new();
        // Writing to a String does not fail.
        let _ = self.write_parent_chain(&mut out, e, fields, forward);
        out
    }

    /// Writes an event and everything around it as text, innermost first.
    pub fn write_parent_chain(
        self,
        out: &mut impl Write,
        e: EventId,
        fields: &[&str],
        forward: ForwardLink,
    ) -> fmt::Result {
        for (i, start) in self.chain_starts(e, forward).into_iter().enumerate() {
            if i > 0 {
                let rule = "=".repeat(60);
                writeln!(out, "\n{rule}\nFollowing fwd_event link to forward call stack (UID: {start})\n{rule}")?;
            }
            for (up, event) in std::iter::once(start).chain(self.tree.ancestors(start)).enumerate() {
                match up {
                    0 => writeln!(out, "Node:")?,
                    up => writeln!(out, "{up}-up:")?,
                }
                writeln!(out, "  {}", self.line(event))?;
                for detail in self.details(event, fields) {
                    writeln!(out, "    {detail}")?;
                }
            }
        }
        Ok(())
    }
}
