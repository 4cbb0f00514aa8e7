//! Words for groups of operations: what they are, where they stand, what can replace them.

use std::collections::{BTreeMap, BTreeSet};

use super::scene::Scene;
use super::show::ms;
use super::{Code, Pattern};
use crate::program::LeafId;
use crate::program::kind::{self, Kind};
use crate::texts::{TextId, counted, quoted};

/// Most places that a sentence names.
const MOST_PLACES: usize = 3;

/// What a decomposed operation is called, and what PyTorch has in its place.
const CALLS: &[(&str, &str)] = &[
    ("RMS norm", "torch.nn.RMSNorm"),
    ("layer norm", "torch.nn.LayerNorm"),
    ("instance norm", "torch.nn.InstanceNorm2d"),
    ("group norm", "torch.nn.GroupNorm"),
    ("batch norm", "torch.nn.BatchNorm2d"),
    ("GELU", "torch.nn.functional.gelu"),
];

/// Names of operations that scale.
const SCALING: &[&str] = &["mul", "div"];

/// That one kernel can take the place of a decomposed operation, and which call has it.
pub(super) fn fused_call(name: &str) -> String {
    match CALLS.iter().find(|(known, _)| name.starts_with(known)) {
        Some((_, call)) => TextId::A_FUSE_CALL.fill(&[("name", name), ("call", call)]),
        None => TextId::A_FUSE_NORM.fill(&[("name", name)]),
    }
}

/// The operations of a find as one short list: repeats counted.
pub(super) fn short_ops(pattern: &Pattern) -> String {
    let mut ops: Vec<(&str, usize)> = Vec::new();
    for op in &pattern.ops {
        let name = kind::base(op);
        match ops.iter_mut().find(|o| o.0 == name) {
            Some(known) => known.1 += 1,
            None => ops.push((name, 1)),
        }
    }
    let told = |(name, n): &(&str, usize)| if *n > 1 { format!("{n} {}", shown(name)) } else { shown(name) };
    ops.iter().map(told).collect::<Vec<_>>().join(", ")
}

/// What attention consists of where it runs in parts: no more than the trace has.
pub(super) fn attention_parts(scene: &Scene<'_>, leaves: &[LeafId]) -> String {
    // By their place in the sentence; what has no word is called by its name and stands last.
    let word = |leaf: &LeafId| {
        let look = scene.look(leaf.index());
        match look.kind {
            Kind::Softmax | Kind::SoftmaxBackward => (0, "softmax".to_owned()),
            Kind::Matrix => (1, "batched matmul".to_owned()),
            Kind::Elementwise if SCALING.contains(&kind::base(look.name)) => (2, "scaling".to_owned()),
            Kind::Copy => (3, "copies".to_owned()),
            _ => (4, shown(kind::base(look.name))),
        }
    };
    let said: BTreeSet<(u8, String)> = leaves.iter().map(word).collect();
    said.into_iter().map(|(_, word)| word).collect::<Vec<_>>().join(", ")
}

/// A name in a list. One that is not ours may be any text.
fn shown(name: &str) -> String {
    if kind::is_known(name) { name.to_owned() } else { quoted(name) }
}

/// Whether what is said of one group holds for the other: same place, and same operations where the sentence lists them.
pub(super) fn is_alike(a: &Pattern, b: &Pattern) -> bool {
    // A backward belongs to the forward work that it is found through.
    a.code != b.code || place(a) == place(b)
}

/// Where a group stands, and its operations where the sentence lists them.
fn place(pattern: &Pattern) -> (Option<&str>, Option<String>) {
    let code = pattern.code;
    let lists = !(code.is_loop() || matches!(code, Code::UnfusedOptimizer | Code::UnfusedAttention));
    (pattern.module.as_deref(), lists.then(|| short_ops(pattern)))
}

/// Where else a change is to be made, each place with its own numbers; nothing if there is no other.
pub(super) fn likewise(others: &[&Pattern]) -> Option<String> {
    let mut places: Vec<Vec<&Pattern>> = Vec::new();
    let mut known: BTreeMap<(Option<&str>, Option<String>), usize> = BTreeMap::new();
    for &other in others {
        // What is of another code is alike to the first, so all places are of one code.
        let is_of_first = places.first().is_some_and(|p| p[0].code != other.code);
        let at = if is_of_first { 0 } else { *known.entry(place(other)).or_insert(places.len()) };
        match places.get_mut(at) {
            Some(place) => place.push(other),
            None => places.push(vec![other]),
        }
    }
    let told = |place: &Vec<&Pattern>| {
        let calls = counted(place.iter().map(|p| p.instances).sum::<usize>(), "call");
        let time = ms(place.iter().map(|p| p.total_ms()).sum());
        let name = place[0].module.as_deref().map(|m| format!("{}: ", quoted(m))).unwrap_or_default();
        format!("{name}{} ({time} ms over {calls})", short_ops(place[0]))
    };
    let mut list: Vec<String> = places.iter().take(MOST_PLACES).map(told).collect();
    if places.len() > MOST_PLACES {
        list.push(format!("{} more", places.len() - MOST_PLACES));
    }
    let count = counted(places.len(), "more place");
    (!places.is_empty()).then(|| TextId::I_LIKEWISE.fill(&[("places", &count), ("list", &list.join("; "))]))
}
