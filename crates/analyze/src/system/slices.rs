//! Modules that are called on one slice of a tensor after the other: one call on the whole tensor would do, with a part of
//! the launches. Whether a call needs the result of the one before, a trace does not tell.

use std::collections::BTreeMap;

use super::texts::quoted;
use crate::finding::{Finding, PatternId};
use crate::patterns::{Code, Pattern};
use crate::program::{Module, ModuleId, ModuleKind, Program};

/// Fewer calls are no loop.
const LEAST_CALLS: usize = 4;

/// Such calls have to hold this share of all operations, in percent.
const MOST: usize = 50;

/// Says it where the GPU waits for launches, unless what the calls do is known to pass a state on. Whether it was said.
pub(crate) fn tell_of_slices(findings: &mut [Finding], patterns: &[Pattern], program: &Program) -> bool {
    if patterns.iter().any(|p| p.code == Code::UnfusedRecurrence) {
        return false;
    }
    let Some(finding) = findings.iter_mut().find(|f| f.pattern == PatternId::LAUNCH_BOUND) else { return false };
    let Some(Calls { module, count, .. }) = on_slices(program) else { return false };
    let text = format!(
        "Call {} once where it is called {count} times in a row, each time on a slice of a tensor (`m(x)` for `m(x[i])`), \
         unless a call needs the result of the one before.",
        quoted(&module.base)
    );
    finding.paths.algorithmic.insert(0, text);
    true
}

/// Equal calls of one module right after each other.
struct Calls<'a> {
    /// The last one.
    module: &'a Module,
    count: usize,
}

/// The longest of the loops over slices, if they are most of a program.
fn on_slices(program: &Program) -> Option<Calls<'_>> {
    let mut last: BTreeMap<(Option<ModuleId>, &str), Calls<'_>> = BTreeMap::new();
    let mut loops: Vec<Calls<'_>> = Vec::new();
    for module in program.modules.iter().filter(|m| m.kind == ModuleKind::Module && takes_part(program, m)) {
        match last.get_mut(&(module.parent, &*module.name)) {
            Some(calls) if follows(program, calls.module, module) => {
                (calls.module, calls.count) = (module, calls.count + 1);
            }
            _ => {
                let calls = Calls { module, count: 1 };
                loops.extend(last.insert((module.parent, &*module.name), calls));
            }
        }
    }
    loops.extend(last.into_values());
    loops.retain(|l| l.count >= LEAST_CALLS);
    let longest = loops.iter().map(|l| l.module.leaves.len()).max()?;
    // Modules within others are not counted again.
    loops.retain(|l| l.module.leaves.len() == longest);
    let inside: usize = loops.iter().map(|l| l.count * longest).sum();
    (100 * inside >= MOST * program.leaves.len()).then(|| loops.into_iter().max_by_key(|l| l.count))?
}

/// Whether a module begins with a part of a larger tensor.
fn takes_part(program: &Program, module: &Module) -> bool {
    program.leaves.get(module.leaves.start).is_some_and(|leaf| (0..8).any(|input| leaf.takes_part(input)))
}

/// Whether a call does the same as the one right before it, in the same step.
fn follows(program: &Program, a: &Module, b: &Module) -> bool {
    let leaves = |m: &Module| &program.leaves[m.leaves.clone()];
    let are_alike = || leaves(a).iter().zip(leaves(b)).all(|(a, b)| a.name == b.name && a.inputs.dims == b.inputs.dims);
    let step = |m: &Module| leaves(m).first().map(|l| (l.thread, l.step));
    a.leaves.end == b.leaves.start && a.leaves.len() == b.leaves.len() && step(a) == step(b) && are_alike()
}
