//! Work done a second time by activation checkpointing.

use super::Tree;
use crate::model::{EventId, EventKind, StrId, Trace};

/// Which Python frames are taken as the start of recomputation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Recompute {
    /// The function that checkpointing calls to run the forward again.
    #[default]
    Function,
    /// Also the backward of reentrant checkpointing, which runs the forward again inside it.
    AndReentrant,
}

impl Recompute {
    fn starts_at(self, name: &str) -> bool {
        let in_checkpoint = name.contains("torch/utils/checkpoint.py") || name.contains("torch\\utils\\checkpoint.py");
        in_checkpoint && (name.contains("recompute_fn") || self == Self::AndReentrant && name.ends_with("): backward"))
    }
}

impl Tree {
    /// Finds the node ranges of recomputed work; needs Python frames among the host nodes.
    pub(crate) fn mark_recompute(&mut self, trace: &Trace) {
        let rule = self.options.recompute;
        // Nearly no trace has such a name, and then no event needs to be looked at.
        let mut starts: Vec<bool> = Vec::new();
        let checkpoint = memchr::memmem::Finder::new("checkpoint.py");
        for i in 0..trace.strings().len() {
            let text = trace.text(StrId(i as u32));
            if checkpoint.find(text.as_bytes()).is_some() && rule.starts_at(text) {
                starts.resize(trace.strings().len(), false);
                starts[i] = true;
            }
        }
        if starts.is_empty() {
            return;
        }
        for (node, &e) in self.event_of[..self.hosts() as usize].iter().enumerate() {
            let inside = self.recomputed.last().is_some_and(|r| r.end > node as u32);
            if !inside && starts[trace.name_id(e).index()] && trace.kind(e) == EventKind::PythonFunction {
                self.recomputed.push(node as u32..self.end[node]);
            }
        }
    }

    /// Whether an event lies in work that checkpointing does a second time. Never without Python frames.
    pub fn is_recompute(&self, e: EventId) -> bool {
        if self.recomputed.is_empty() {
            return false;
        }
        let Some(node) = self.node(e) else { return false };
        let host = if node < self.hosts() { node } else { self.parent[node as usize] };
        let after = self.recomputed.partition_point(|r| r.start <= host);
        after.checked_sub(1).is_some_and(|i| host < self.recomputed[i].end)
    }
}
