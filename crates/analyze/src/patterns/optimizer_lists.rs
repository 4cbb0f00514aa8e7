//! Optimizer steps made of operations on lists of tensors, `foreach=True`, which is what optimizers do unless they are told
//! otherwise: each operation passes over all parameters, gradients or states once more, where a fused step does so once.
//!
//! Lists are recorded without their tensors, so what a fused step takes is told by the passes that it leaves of those that
//! there are: of Adam's eighteen, in tensors read and written, it leaves seven.

use super::Confidence;
use super::group::Instance;
use super::scene::Scene;
use super::{Code, Fused, optimizer};
use crate::program::kind::Kind;
use crate::program::{Leaf, LeafId};

/// What a fused step takes for each tensor that it reads or writes, as many times what operations on lists take, at best and
/// at worst. Of 36 measured steps with 39 and 201 million parameters of two and four bytes it was 0.94 to 1.23, and of twelve
/// with 3 million, whose kernels are short, 0.75 to 1.51.
const FASTER: f64 = 0.94;
const SLOWER: f64 = 1.25;
const SLOWER_IF_SHORT: f64 = 1.5;
/// Kernels are short below this average, in microseconds.
const SHORT_US: f64 = 10.0;
/// Tensors of a parameter that a fused step reads and writes: with two states, with momentum, and what the largest second
/// moment so far adds.
const ADAM: f64 = 7.0;
const MOMENTUM: f64 = 5.0;
const LARGEST: f64 = 2.0;

/// Finds steps that a fused one could replace.
pub(super) fn find(scene: &Scene<'_>, is_free: impl Fn(usize) -> bool) -> Vec<Instance> {
    let is_list = |at: usize| scene.look(at).kind == Kind::Multi && scene.look(at).base.starts_with("_foreach_");
    // The host may pause in the midst of a step, to read how far each parameter has come.
    let place = |at: usize| (scene.leaf(at).thread, scene.leaf(at).step);
    let steps = optimizer::annotated_steps(scene, |a, b| place(a) == place(b), |at| is_list(at) && is_free(at));
    steps.into_iter().filter_map(|step| instance(scene, step)).collect()
}

fn instance(scene: &Scene<'_>, leaves: Vec<LeafId>) -> Option<Instance> {
    let passes = Passes::of(scene, &leaves)?;
    let fused = passes.fused()?;
    let all = passes.all();
    let us = scene.us(&leaves);
    let kernels: usize = leaves.iter().map(|l| scene.program.leaf(*l).kernels.len()).sum();
    let slower = if us < SHORT_US * kernels as f64 { SLOWER_IF_SHORT } else { SLOWER };
    let left = fused / all;
    let (anchor, count) = (*leaves.first()?, leaves.len());
    let mut instance = Instance::new(scene, Code::UnfusedOptimizer, leaves, anchor, &["optimizer"], Confidence::High);
    instance.confidence = Confidence::High;
    instance.fused = Some(Fused { best_us: FASTER * left * us, worst_us: (slower * left).min(1.0) * us });
    instance.basis = format!(
        "a fused step reads or writes {fused} tensors for each parameter, these {all}, and takes {FASTER} to \
         {slower} times as long for each"
    );
    instance.evidence.push(format!("{count} operations on lists of tensors in one optimizer step"));
    instance.facts = vec![("n", count.to_string()), (optimizer::LISTS, "true".to_owned())];
    Some(instance)
}

/// What a step does for each parameter.
#[derive(Debug, Default)]
struct Passes {
    /// Operations by name, without `_foreach_`, and the tensors that they read and write together.
    of: Vec<(&'static str, f64, f64)>,
}

/// The operations of steps that have a fused variant.
const OPERATIONS: [&str; 8] = ["lerp", "mul", "addcmul", "sqrt", "div", "add", "addcdiv", "maximum"];

impl Passes {
    /// `None` if the step does what no fused one does.
    fn of(scene: &Scene<'_>, leaves: &[LeafId]) -> Option<Self> {
        let mut passes = Self::default();
        for l in leaves {
            let base = scene.look(l.index()).base.trim_start_matches("_foreach_");
            let name = OPERATIONS.into_iter().find(|name| *name == base)?;
            let tensors = tensors(name, scene.program.leaf(*l))?;
            match passes.of.iter_mut().find(|p| p.0 == name) {
                Some(known) => (known.1, known.2) = (known.1 + 1.0, known.2 + tensors),
                None => passes.of.push((name, 1.0, tensors)),
            }
        }
        Some(passes)
    }

    fn calls(&self, name: &str) -> f64 {
        self.of.iter().find(|p| p.0 == name).map_or(0.0, |p| p.1)
    }

    /// Tensors for each parameter. Parameters of several types or devices have calls of their own.
    fn all(&self) -> f64 {
        self.of.iter().map(|p| p.2).sum::<f64>() / self.groups()
    }

    /// How many groups of parameters there are: each has one update.
    fn groups(&self) -> f64 {
        let adam = self.calls("addcdiv");
        if adam > 0.0 { adam } else { self.calls("mul").max(1.0) }
    }

    /// The same of a fused step, if there is one.
    fn fused(&self) -> Option<f64> {
        let [adam, momentum] = [self.calls("addcdiv"), self.calls("mul")];
        let once = |name: &str| self.calls(name).total_cmp(&adam).is_eq();
        match () {
            () if adam > 0.0 && ["lerp", "addcmul", "sqrt"].into_iter().all(once) => {
                Some(ADAM + if self.calls("maximum") > 0.0 { LARGEST } else { 0.0 })
            }
            () if adam == 0.0 && self.of.iter().all(|p| matches!(p.0, "mul" | "add")) && momentum > 0.0 => {
                (self.calls("add") >= 2.0 * momentum).then_some(MOMENTUM)
            }
            () => None,
        }
    }
}

/// How many tensors an operation on lists reads and writes for each of its elements.
fn tensors(name: &str, leaf: &Leaf) -> Option<f64> {
    let types = leaf.inputs.types.as_ref()?;
    let lists = types.iter().filter(|t| *t == "TensorList").count();
    // The gradient is multiplied with itself.
    let read = if name == "addcmul" { lists.min(2) } else { lists };
    (lists > 0).then_some(read as f64 + 1.0)
}
