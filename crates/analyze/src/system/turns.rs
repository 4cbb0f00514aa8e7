//! A module that does the same again and again within one call, as a loop over time in Python does: where the GPU waits for
//! launches and most of them come from such a loop, it is named.

use std::collections::BTreeSet;

use super::texts::{counted, list, quoted};
use crate::finding::{Finding, PatternId};
use crate::patterns::turns::Turns;
use crate::patterns::{Pattern, Scene};
use crate::program::ModuleId;

/// Fewer turns are no loop, and longer ones are not looked for.
const LEAST_TURNS: usize = 16;
const LONGEST_TURN: usize = 32;

/// Loops have to hold this share of all operations, in percent.
const MOST: usize = 50;

/// Most names of a turn that are told.
const NAMED: usize = 5;

/// Says it where the GPU waits for launches, unless something else is said of loops.
pub(crate) fn tell_of_turns(findings: &mut [Finding], patterns: &[Pattern], scene: &Scene<'_>) {
    let Some(finding) = findings.iter_mut().find(|f| f.pattern == PatternId::LAUNCH_BOUND) else { return };
    if patterns.iter().any(|p| p.code.is_loop()) {
        return;
    }
    let loops = loops(scene);
    let inside: usize = loops.iter().map(|(_, turns)| turns.all().len()).sum();
    let Some((module, longest)) = loops.iter().max_by_key(|(_, turns)| turns.all().len()) else { return };
    let percent = 100 * inside / scene.len().max(1);
    if percent < MOST {
        return;
    }
    let names: BTreeSet<&str> = longest.first().map(|i| scene.look(i).base).collect();
    let text = format!(
        "{percent}% of the operations stand in loops, as in {}: {} ({}) {} times in a row in one call. Batch the turns where \
         none needs the result of the one before; else look for one kernel for the whole loop, such as a scan.",
        quoted(&scene.program.module(*module).base),
        counted(longest.length, "operation"),
        list(names, NAMED),
        longest.count,
    );
    finding.paths.algorithmic.insert(0, text);
}

/// All loops within one call of a module each: what modules of its own do one after another are layers.
fn loops(scene: &Scene<'_>) -> Vec<(ModuleId, Turns)> {
    let mut loops = Vec::new();
    let mut end = 0;
    for call in scene.program.leaves.chunk_by(|a, b| a.module == b.module) {
        let mut at = end;
        end += call.len();
        let Some(module) = call.first().and_then(|leaf| leaf.module) else { continue };
        while at < end {
            match Turns::repeated(scene, at..end, LONGEST_TURN, LEAST_TURNS) {
                Some(turns) => {
                    at = turns.all().end;
                    loops.push((module, turns));
                }
                None => at += 1,
            }
        }
    }
    loops
}
