//! From single finds to groups: same module class, same operations, same shape.

use std::collections::BTreeMap;
use std::sync::Arc;

use rapidhash::RapidHashMap;

use super::fused;
use super::scene::Scene;
use super::show::ms;
use super::{Code, Confidence, Fused, Pattern, Source};
use crate::finding::{PatternId, Range};
use crate::program::kind::Kind;
use crate::program::{LeafId, ModuleId, ModuleKind};
use crate::texts::counted;

/// Of recomputed work, the least that checkpointing fewer layers saves.
const RECOMPUTED_LEAST: f64 = 0.3;

/// One find.
#[derive(Debug, Clone)]
pub struct Instance {
    /// What was found.
    pub(crate) code: Code,
    /// Its operations, in order.
    pub(crate) leaves: Vec<LeafId>,
    /// Copies around them that the change removes too.
    pub(crate) halo: Vec<LeafId>,
    /// Backward work they cause.
    pub(crate) backward: Vec<LeafId>,
    /// The operation it was recognised by.
    pub(crate) anchor: LeafId,
    /// The innermost module around it.
    pub(crate) module: Option<ModuleId>,
    /// Stretches of neighbours that the operations stand in.
    pub(crate) stretches: usize,
    /// What holds it together.
    pub(crate) source: Source,
    /// Name of what holds it together, where it is no module.
    pub(crate) holder: Option<Arc<str>>,
    /// How sure it is.
    pub(crate) confidence: Confidence,
    /// What the replacement would take; nothing where too little is known.
    pub(crate) fused: Option<Fused>,
    /// What the backward of the replacement would take, if there is backward work.
    pub(crate) backward_fused: Fused,
    /// How that was found.
    pub(crate) basis: String,
    /// What shows it, in words.
    pub(crate) evidence: Vec<String>,
    /// What the texts of the finding need.
    pub(crate) facts: Vec<(&'static str, String)>,
}

impl Instance {
    /// A find in the innermost module that holds its leaves. `hints` are parts of module names that speak for it; what
    /// its operations and shapes alone prove is `proven`.
    pub(crate) fn new(
        scene: &Scene<'_>,
        code: Code,
        leaves: Vec<LeafId>,
        anchor: LeafId,
        hints: &[&str],
        proven: Confidence,
    ) -> Self {
        let module = scene.common_module(&leaves);
        let op = scene.common_op(&leaves);
        let (source, holder) = match (module.map(|m| scene.program.module(m)), op) {
            (Some(m), _) if m.kind == ModuleKind::Module => (Source::Module, None),
            (Some(m), _) => (Source::Annotation, Some(Arc::clone(&m.name))),
            (None, Some(op)) => (Source::Op, Some(Arc::clone(op))),
            (None, None) => (Source::Window, None),
        };
        let hinted = scene.hint(module, hints);
        let confidence = match (hinted, source) {
            (Some(_), _) if proven < Confidence::Low => Confidence::High,
            (_, Source::Op | Source::Window) => proven.lower(),
            _ => proven,
        };
        let named =
            hinted.map(|m| format!("its module is named {}", crate::texts::quoted(&scene.program.module(m).base)));
        let evidence = named.into_iter().collect();
        Self {
            code,
            leaves,
            halo: Vec::new(),
            backward: Vec::new(),
            anchor,
            module,
            stretches: 1,
            source,
            holder,
            confidence,
            fused: None,
            backward_fused: Fused::NOTHING,
            basis: String::new(),
            evidence,
            facts: Vec::new(),
        }
    }
}

/// Puts finds together, in order of their first leaf.
pub(crate) fn group(scene: &Scene<'_>, instances: Vec<Instance>) -> Vec<Pattern> {
    let mut members: Vec<Vec<Instance>> = Vec::new();
    let mut known: RapidHashMap<Key, usize> = RapidHashMap::default();
    for instance in instances {
        let at = *known.entry(Key::of(scene, &instance)).or_insert(members.len());
        match members.get_mut(at) {
            Some(group) => group.push(instance),
            None => members.push(vec![instance]),
        }
    }
    let mut keys: Vec<(Key, usize)> = known.into_iter().collect();
    keys.sort_unstable_by_key(|(_, at)| *at);
    let groups: Vec<(Key, Vec<Instance>)> = keys.into_iter().map(|(key, _)| key).zip(members).collect();
    // Matrix work that stays is slowed once by all finds of a kind, and each has its part in that.
    let mut of_kinds: BTreeMap<PatternId, (f64, f64)> = BTreeMap::new();
    for (key, members) in &groups {
        let (us, matrix_ms) = of_kinds.entry(key.code.id()).or_default();
        *us += whole_us(scene, members);
        *matrix_ms += matrix_time(scene, members);
    }
    let pattern = |(key, members): (Key, Vec<Instance>)| {
        let (us, matrix_ms) = of_kinds.get(&key.code.id()).copied().unwrap_or_default();
        let part = whole_us(scene, &members) / us.max(f64::MIN_POSITIVE);
        pattern(scene, key, &members, part * (scene.matrix_ms - matrix_ms))
    };
    groups.into_iter().map(pattern).collect()
}

/// All that finds take.
fn whole_us(scene: &Scene<'_>, members: &[Instance]) -> f64 {
    members.iter().map(|m| scene.us(&m.leaves) + scene.us(&m.halo) + scene.us(&m.backward)).sum()
}

#[derive(PartialEq, Eq, Hash)]
struct Key {
    code: Code,
    module: Option<Arc<str>>,
    ops: Vec<Arc<str>>,
    dims: Vec<i64>,
}

impl Key {
    fn of(scene: &Scene<'_>, instance: &Instance) -> Self {
        let class = instance.module.map(|m| Arc::clone(&scene.program.module(m).base));
        let varies = instance.code.is_loop() || matches!(instance.code, Code::UnfusedOptimizer | Code::Recomputation);
        let ops = instance.leaves.iter().map(|l| Arc::clone(&scene.program.leaf(*l).name));
        let dims = &scene.look(instance.anchor.index()).full;
        Self {
            code: instance.code,
            module: instance.holder.clone().or(class),
            // Loops and whole steps differ in length from call to call and are still the same thing.
            ops: if varies { Vec::new() } else { ops.collect() },
            dims: if varies { Vec::new() } else { dims.clone() },
        }
    }
}

/// What they are together, where `matrix_ms` of matrix work is slowed by what goes.
fn pattern(scene: &Scene<'_>, key: Key, members: &[Instance], matrix_ms: f64) -> Pattern {
    let first = &members[0];
    let sum = |part: fn(&Instance) -> &[LeafId]| {
        members.iter().map(|m| scene.us(part(m))).fold(0.0, std::ops::Add::add) / 1e3
    };
    let (time_ms, halo_ms, backward_ms) = (sum(|m| &m.leaves), sum(|m| &m.halo), sum(|m| &m.backward));
    let of_one = |m: &Instance| if m.backward.is_empty() { m.fused } else { m.fused.map(|f| f.and(m.backward_fused)) };
    let fused: Option<Vec<Fused>> = members.iter().map(of_one).collect();
    let fused_ms = fused.map(|all| Range {
        low: all.iter().map(|f| f.best_us).sum::<f64>() / 1e3,
        high: all.iter().map(|f| f.worst_us).sum::<f64>() / 1e3,
    });
    let is_fused = first.code != Code::Recomputation && fused_ms.is_some();
    let pauses_ms = if is_fused { pauses_ms(scene, members) } else { 0.0 };
    let saved_ms = match first.code {
        // Fewer layers can be recomputed, seldom none.
        Code::Recomputation => Some(Range { low: RECOMPUTED_LEAST * time_ms, high: time_ms }),
        _ => fused_ms.map(|f| fused::saved(time_ms + backward_ms + pauses_ms, halo_ms, f, matrix_ms)),
    };
    let all = |part: fn(&Instance) -> &Vec<LeafId>| members.iter().map(|m| part(m).clone()).collect::<Vec<_>>();
    let anchor = scene.program.leaf(first.anchor);
    let path = std::iter::successors(first.module, |m| scene.program.module(*m).parent);
    let mut module_path: Vec<Arc<str>> = path.map(|m| Arc::clone(&scene.program.module(m).name)).collect();
    module_path.reverse();
    let mut pattern = Pattern {
        code: first.code,
        id: first.code.id(),
        confidence: members.iter().map(|m| m.confidence).max().unwrap_or(Confidence::Low),
        source: first.source,
        module: key.module,
        module_path,
        ops: first.leaves.iter().map(|l| Arc::clone(&scene.program.leaf(*l).name)).collect(),
        anchor: Arc::clone(&anchor.name),
        anchor_dims: scene.look(first.anchor.index()).full.clone(),
        instances: members.len(),
        time_ms,
        halo_ms,
        backward_ms,
        pauses_ms,
        fused_ms,
        saved_ms,
        basis: String::new(),
        evidence: first.evidence.clone(),
        facts: first.facts.clone(),
        stretches: first.stretches,
        leaves: all(|m| &m.leaves),
        halo: all(|m| &m.halo),
        backward: all(|m| &m.backward),
    };
    pattern.basis = basis(&pattern, &first.basis);
    pattern
}

/// Pauses that go with the kernels: one kernel of each stretch stays, and one for the backward.
fn pauses_ms(scene: &Scene<'_>, members: &[Instance]) -> f64 {
    let kernels = |leaves: &[LeafId]| leaves.iter().map(|l| scene.program.leaf(*l).kernels.len()).sum::<usize>();
    let gone = |m: &Instance| {
        (kernels(&m.leaves) + kernels(&m.halo)).saturating_sub(m.stretches) + kernels(&m.backward).saturating_sub(1)
    };
    members.iter().map(gone).sum::<usize>() as f64 * scene.pause_us / 1e3
}

fn matrix_time(scene: &Scene<'_>, members: &[Instance]) -> f64 {
    let all = members.iter().flat_map(|m| m.leaves.iter().chain(&m.backward));
    let matrix = all.filter(|l| scene.look(l.index()).kind == Kind::Matrix);
    matrix.map(|l| scene.program.leaf(*l).us).sum::<f64>() / 1e3
}

/// One sentence with the numbers that the range rests on.
fn basis(pattern: &Pattern, of_one: &str) -> String {
    // A loop has many calls of each operation.
    let what =
        if matches!(pattern.code, Code::MoeExpertLoop | Code::LoopedGemms | Code::LoopedRows | Code::LoopedLookups) {
            "loop"
        } else {
            "call"
        };
    let take = if pattern.instances == 1 { "takes" } else { "take" };
    let mut parts = vec![format!("{} {take} {} ms", counted(pattern.instances, what), ms(pattern.time_ms))];
    if pattern.halo_ms > 0.0 {
        let halo = if pattern.code == Code::ElementwiseChain { "softmax beside them" } else { "copies around them" };
        parts.push(format!("{halo} {} ms", ms(pattern.halo_ms)));
    }
    if pattern.backward_ms > 0.0 {
        parts.push(format!("their backward {} ms", ms(pattern.backward_ms)));
    }
    if pattern.pauses_ms >= fused::SHOWN_MS {
        let whose = if pattern.instances == 1 { "its" } else { "their" };
        parts.push(format!("pauses between {whose} kernels {} ms", ms(pattern.pauses_ms)));
    }
    match pattern.fused_ms {
        Some(f) if f.high > 0.0 => format!("{}; {of_one}: {}-{} ms in all.", parts.join(", "), ms(f.low), ms(f.high)),
        _ => format!("{}; {of_one}.", parts.join(", ")),
    }
}
