//! A module that does the same again and again within one call, as a loop over time in Python does: where the GPU waits for
//! launches and most of them come from such a loop, it is named.

use std::ops::Range;
use std::sync::Arc;

use super::texts::{list, quoted};
use crate::finding::{Finding, PatternId};
use crate::patterns::Pattern;
use crate::patterns::kind::base;
use crate::program::{Direction, Leaf, ModuleId, Program};

/// Fewer turns are no loop, and longer ones are not looked for.
const LEAST_TURNS: usize = 16;
const LONGEST_TURN: usize = 32;

/// Loops have to hold this share of all operations, in percent.
const MOST: usize = 50;

/// Most names of a turn that are told.
const NAMED: usize = 5;

/// Says it where the GPU waits for launches, unless something else is said of loops.
pub(crate) fn tell_of_turns(findings: &mut [Finding], patterns: &[Pattern], program: &Program) {
    let Some(finding) = findings.iter_mut().find(|f| f.pattern == PatternId::LAUNCH_BOUND) else { return };
    if patterns.iter().any(|p| p.code.is_loop()) {
        return;
    }
    let loops = loops(program);
    let inside: usize = loops.iter().map(|l| l.all().len()).sum();
    let Some(longest) = loops.iter().max_by_key(|l| l.all().len()) else { return };
    let percent = 100 * inside / program.leaves.len().max(1);
    if percent < MOST {
        return;
    }
    let mut names: Vec<&str> = program.leaves[longest.begin..longest.begin + longest.length].iter().map(name).collect();
    names.sort_unstable();
    names.dedup();
    let text = format!(
        "{percent}% of the operations stand in loops, as in {}: {} ({}) {} times in a row in one call. Batch the turns where \
         none needs the result of the one before; else look for one kernel for the whole loop, such as a scan.",
        quoted(&program.module(longest.module).base),
        crate::texts::counted(longest.length, "operation"),
        list(names.into_iter(), NAMED),
        longest.count,
    );
    finding.paths.algorithmic.insert(0, text);
}

/// Equal operations turn after turn in one call of a module.
struct Turns {
    module: ModuleId,
    begin: usize,
    length: usize,
    count: usize,
}

impl Turns {
    fn all(&self) -> Range<usize> {
        self.begin..self.begin + self.length * self.count
    }
}

fn name(leaf: &Leaf) -> &str {
    base(&leaf.name)
}

/// All loops, in order.
fn loops(program: &Program) -> Vec<Turns> {
    let mut loops = Vec::new();
    let mut at = 0;
    while at < program.leaves.len() {
        match turns_from(program, at) {
            Some(turns) => {
                at = turns.all().end;
                loops.push(turns);
            }
            None => at += 1,
        }
    }
    loops
}

/// The turns that begin here, if there are enough.
fn turns_from(program: &Program, begin: usize) -> Option<Turns> {
    let leaves = &program.leaves;
    let module = leaves[begin].module.filter(|_| leaves[begin].direction != Direction::Optimizer)?;
    // Within the call of the module: what its own modules do are layers.
    let of_call = |i: usize| leaves[i].module == Some(module);
    let is_alike = |a: usize, b: usize| {
        let (a, b) = (&leaves[a], &leaves[b]);
        a.name == b.name && (Arc::ptr_eq(&a.inputs, &b.inputs) || a.inputs.dims == b.inputs.dims)
    };
    let end = program.module(module).leaves.end.min(leaves.len());
    let longest = LONGEST_TURN.min((end - begin) / LEAST_TURNS);
    (1..=longest).filter(|&length| is_alike(begin, begin + length)).find_map(|length| {
        let goes_on = |&i: &usize| of_call(i) && of_call(i + length) && is_alike(i, i + length);
        let count = 1 + (begin..end - length).take_while(goes_on).count() / length;
        (count >= LEAST_TURNS).then_some(Turns { module, begin, length, count })
    })
}
