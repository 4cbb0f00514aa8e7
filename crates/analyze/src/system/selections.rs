//! Operations whose result is as large as the data say: the host waits to learn the size, and reads no value that it could
//! keep on the device.

use std::collections::BTreeSet;

use jarvis_trace::Ns;

use crate::finding::{Finding, PatternId};
use crate::patterns::Pattern;
use crate::program::{Leaf, Program};

/// As a program calls them, or as these call one another. `aten::where` has one argument where the host waits for it, an
/// index has a mask.
const SIZED_BY_DATA: [&str; 14] = [
    "aten::_index_put_impl_",
    "aten::_unique2",
    "aten::argwhere",
    "aten::bincount",
    "aten::coalesce",
    "aten::index",
    "aten::index_put_",
    "aten::masked_select",
    "aten::nonzero",
    "aten::nonzero_numpy",
    "aten::repeat_interleave",
    "aten::unique_consecutive",
    "aten::unique_dim",
    "aten::where",
];

/// Loops with this part of such calls within them take the calls along, in percent.
const MOST: usize = 50;

pub(super) fn is_sized_by_data(name: &str) -> bool {
    SIZED_BY_DATA.contains(&name)
}

/// What to do about these.
pub(super) fn advice(names: &str) -> String {
    format!(
        "The host waits to learn how large the results of {names} are. Keep sizes fixed: masks in the arithmetic or \
         `torch.where` with three arguments in place of a selection, a sort into buckets of a fixed size (as a capacity per \
         expert), and sizes given where a call takes them (`output_size=`, `size=`)."
    )
}

/// Says of waits within a loop over experts that they go with the loop, which another finding is about.
pub(crate) fn tell_of_loops(findings: &mut [Finding], patterns: &[Pattern], program: &Program) {
    let Some(title) = findings.iter().find(|f| f.pattern == PatternId::MOE_EXPERT_LOOP).map(|f| f.title.clone()) else {
        return;
    };
    let loops = patterns.iter().filter(|p| p.id == PatternId::MOE_EXPERT_LOOP);
    let spans: Vec<(u32, Ns, Ns)> = loops.flat_map(|p| &p.leaves).filter_map(|find| span(program, find)).collect();
    for finding in findings.iter_mut().filter(|f| f.pattern == PatternId::HOST_SYNC) {
        let names: BTreeSet<&str> = finding.operations.iter().map(|o| o.name.as_str()).collect();
        if !names.is_empty() && are_within(program, &names, &spans) {
            let gone =
                if names.iter().all(|n| is_sized_by_data(n)) { "nothing is selected" } else { "nothing is read" };
            let text = format!("Mend the loop first ({title}): without it {gone}, and these waits go too.");
            finding.paths.algorithmic.insert(0, text);
            finding.goes_with = Some(PatternId::MOE_EXPERT_LOOP);
        }
    }
}

/// Thread, begin and end of the calls of a find.
fn span(program: &Program, find: &[crate::program::LeafId]) -> Option<(u32, Ns, Ns)> {
    let leaves = || find.iter().map(|&l| program.leaf(l));
    Some((leaves().next()?.thread, leaves().map(|l| l.start).min()?, leaves().map(|l| l.end).max()?))
}

/// Whether most calls of these operations are made within the spans.
fn are_within(program: &Program, names: &BTreeSet<&str>, spans: &[(u32, Ns, Ns)]) -> bool {
    let is_one = |l: &&Leaf| names.contains(&*l.name) || program.ops_around(l).any(|around| names.contains(&**around));
    let within =
        |l: &Leaf| spans.iter().any(|&(thread, from, to)| l.thread == thread && from <= l.start && l.end <= to);
    let (mut all, mut inside) = (0, 0);
    for leaf in program.leaves.iter().filter(is_one) {
        all += 1;
        inside += usize::from(within(leaf));
    }
    all > 0 && 100 * inside >= MOST * all
}
