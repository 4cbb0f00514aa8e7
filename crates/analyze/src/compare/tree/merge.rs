//! The merge as it should be: roots and children are aligned by name, arguments and the work below them; vendors' names
//! for one thing are one name; a wrapper that only one side has stays in the tree with the calls of both below it.
//!
//! Equal subtrees are recognised by hashes and laid over each other without a look inside. Nothing depends on which
//! trace comes first: the work is done in an order of its own and turned round in the end.

use jarvis_trace::{EventId, EventKind, Key, StrId, TreeView};
use rapidhash::{RapidHashMap, RapidHashSet, v3::rapidhash_v3};

use super::matching::{CallKey, pairs};
use super::merged::{MergedNode, MergedTree};
use super::names::neutral_name;

/// The sort of host calls that are no launches.
const CALL: u8 = 4;

/// Rounds in which wrappers are opened: deeper nests of wrappers stay closed.
const ROUNDS: usize = 8;

fn mixed(hash: u64, with: u64) -> u64 {
    let product = u128::from(hash ^ 0x9e37_79b9_7f4a_7c15) * u128::from(with ^ 0xd6e8_feb8_6659_fd93);
    (product as u64) ^ (product >> 64) as u64
}

/// A tree with what its calls are compared by.
struct Side<'a> {
    view: TreeView<'a>,
    /// By event.
    keys: Vec<CallKey>,
    /// Hash of the calls below, without the call itself; by event.
    below: Vec<u64>,
    roots: Vec<EventId>,
    hash: u64,
}

/// Hashes of texts, each worked out once.
#[derive(Default)]
struct TextHashes {
    names: RapidHashMap<(StrId, EventKind), u64>,
    texts: RapidHashMap<StrId, u64>,
}

impl<'a> Side<'a> {
    fn new(view: TreeView<'a>) -> Self {
        let roots = roots(view);
        let count = view.trace().len();
        let mut side = Self { view, keys: vec![CallKey::default(); count], below: vec![0; count], roots, hash: 0 };
        let mut hashes = TextHashes::default();
        let mut pending: Vec<(EventId, bool)> = side.roots.iter().rev().map(|&r| (r, false)).collect();
        while let Some((e, seen)) = pending.pop() {
            let children = side.children(e);
            if !seen && !children.is_empty() {
                pending.push((e, true));
                pending.extend(children.iter().rev().map(|&c| (c, false)));
                continue;
            }
            side.key(e, &children, &mut hashes);
        }
        let trace = view.trace();
        let durations = view.tree().linked_gpu_events().map(|e| trace.dur(e).map_or(0, |d| d.0 as u64));
        let trees = side.roots.iter().map(|&r| side.key_of(r).tree);
        side.hash = trees.chain(durations).fold(0, mixed);
        side
    }

    fn key(&mut self, e: EventId, children: &[EventId], hashes: &mut TextHashes) {
        let (trace, kind) = (self.view.trace(), self.view.trace().kind(e));
        let name_of = |name: StrId| rapidhash_v3(neutral_name(trace.text(name), kind).as_bytes());
        let id = trace.name_id(e);
        let name = *hashes.names.entry((id, kind)).or_insert_with(|| name_of(id));
        let mut text = |key: Key| {
            let id = trace.text_id(e, key)?;
            Some(*hashes.texts.entry(id).or_insert_with(|| rapidhash_v3(trace.text(id).as_bytes())))
        };
        let lists = [Key::InputDims, Key::InputType].map(|key| text(key).unwrap_or(0));
        let args = lists.into_iter().fold(name, mixed);
        let below = children.iter().map(|&c| self.key_of(c).tree).fold(children.len() as u64, mixed);
        self.below[e.index()] = below;
        self.keys[e.index()] = CallKey { name, args, tree: mixed(args, below) };
    }

    fn key_of(&self, e: EventId) -> CallKey {
        self.keys[e.index()]
    }

    /// Calls that lead to GPU work, in order of time.
    fn children(&self, e: EventId) -> Vec<EventId> {
        let mut children: Vec<EventId> =
            self.view.tree().children(e).filter(|&c| self.view.tree().is_gpu_path(c)).collect();
        let trace = self.view.trace();
        if !children.is_sorted_by_key(|&c| trace.ts(c)) {
            children.sort_by_key(|&c| trace.ts(c));
        }
        children
    }

    fn keys(&self, items: &[Item]) -> Vec<CallKey> {
        items.iter().map(|i| self.key_of(i.event)).collect()
    }

    /// A call of the host that is no launch: it may be a wrapper.
    fn may_wrap(&self, e: EventId) -> bool {
        let kind = self.view.trace().kind(e);
        !kind.is_gpu() && !kind.is_runtime()
    }

    /// Kernels are compared with kernels, launches with launches, calls with calls.
    fn sort_of(&self, e: EventId) -> u8 {
        match self.view.trace().kind(e) {
            EventKind::Kernel => 0,
            EventKind::GpuMemcpy => 1,
            EventKind::GpuMemset => 2,
            kind if kind.is_runtime() => 3,
            _ => CALL,
        }
    }
}

/// Outermost calls that lead to GPU work: thread by thread in order of each thread's first, because threads run freely
/// against each other.
fn roots(view: TreeView<'_>) -> Vec<EventId> {
    let (trace, tree) = (view.trace(), view.tree());
    let outermost = |events: &[EventId]| -> Vec<EventId> {
        events.iter().copied().filter(|&e| tree.parent(e).is_none() && tree.is_gpu_path(e)).collect()
    };
    let mut threads: Vec<Vec<EventId>> = tree.thread_events().map(|(_, events)| outermost(events)).collect();
    threads.retain(|t| !t.is_empty());
    threads.sort_by_key(|t| trace.ts(t[0]));
    let mut roots: Vec<EventId> = threads.concat();
    // Launches that have no place on their thread.
    let mut seen: RapidHashSet<EventId> = RapidHashSet::default();
    let launches = tree.linked_gpu_events().filter_map(|e| tree.parent(e)).filter(|&e| !tree.is_nested(e));
    roots.extend(launches.filter(|&e| seen.insert(e)));
    roots
}

/// A call in a list of children, with the wrapper it was taken out of.
#[derive(Clone, Copy)]
struct Item {
    event: EventId,
    wrapper: Option<EventId>,
}

/// What stands at one place of the merged list.
#[derive(Clone, Copy)]
struct Slot {
    items: [Option<Item>; 2],
}

/// A wrapper and what stands in it.
type Opened = (EventId, Vec<EventId>);

struct Task {
    parent: Option<u32>,
    events: [Option<EventId>; 2],
}

/// Merges two trees.
pub(crate) fn merge(one: TreeView<'_>, two: TreeView<'_>) -> MergedTree {
    let sides = [Side::new(one), Side::new(two)];
    if sides[0].hash <= sides[1].hash {
        return Merger { sides }.run();
    }
    let [first, second] = sides;
    Merger { sides: [second, first] }.run().mirrored()
}

struct Merger<'a> {
    sides: [Side<'a>; 2],
}

impl Merger<'_> {
    fn run(&self) -> MergedTree {
        let mut tree = MergedTree::default();
        let mut pending: Vec<Task> = Vec::new();
        let lists = [0, 1].map(|side| self.sides[side].roots.clone());
        self.place(&mut tree, None, self.slots(lists), &mut pending);
        while let Some(task) = pending.pop() {
            let id = add(&mut tree, task.parent, task.events);
            let lists = [0, 1].map(|side| task.events[side].map_or_else(Vec::new, |e| self.sides[side].children(e)));
            let same = match task.events {
                [Some(a), Some(b)] => self.sides[0].below[a.index()] == self.sides[1].below[b.index()],
                _ => true,
            };
            let slots = if same { side_by_side(&lists) } else { self.slots(lists) };
            self.place(&mut tree, Some(id), slots, &mut pending);
        }
        in_preorder(tree)
    }

    /// Puts the slots of a list below their node: wrappers now, calls when their turn comes.
    fn place(&self, tree: &mut MergedTree, parent: Option<u32>, slots: Vec<Slot>, pending: &mut Vec<Task>) {
        let mut wrappers: RapidHashMap<(usize, EventId), u32> = RapidHashMap::default();
        let first = pending.len();
        for Slot { items } in slots {
            // A call of both goes below the wrapper of the side that has one; of two wrappers the first counts.
            let wrapper = [0, 1].into_iter().find_map(|side| Some((side, items[side]?.wrapper?)));
            let parent = match wrapper {
                None => parent,
                Some(wrapper) => Some(self.wrapper_node(tree, parent, wrapper, &mut wrappers)),
            };
            pending.push(Task { parent, events: items.map(|item| item.map(|i| i.event)) });
        }
        pending[first..].reverse();
    }

    /// The node of an opened wrapper, with those around it up to `parent`.
    fn wrapper_node(
        &self,
        tree: &mut MergedTree,
        parent: Option<u32>,
        (side, wrapper): (usize, EventId),
        known: &mut RapidHashMap<(usize, EventId), u32>,
    ) -> u32 {
        let top = parent.and_then(|p| [tree.nodes[p as usize].one, tree.nodes[p as usize].two][side]);
        let around = std::iter::successors(Some(wrapper), |&e| self.sides[side].view.tree().parent(e));
        let mut chain: Vec<EventId> = around.take_while(|&e| Some(e) != top).collect();
        let (mut at, mut id) = (parent, 0);
        while let Some(e) = chain.pop() {
            id = *known.entry((side, e)).or_insert_with(|| {
                let mut events = [None, None];
                events[side] = Some(e);
                add(tree, at, events)
            });
            at = Some(id);
        }
        id
    }

    /// Pairs two lists of calls.
    fn slots(&self, lists: [Vec<EventId>; 2]) -> Vec<Slot> {
        let mut items =
            lists.map(|list| list.into_iter().map(|event| Item { event, wrapper: None }).collect::<Vec<_>>());
        let mut found = pairs(&self.sides[0].keys(&items[0]), &self.sides[1].keys(&items[1]));
        for _ in 0..ROUNDS {
            if !self.open_wrappers(&mut items, &mut found) {
                break;
            }
        }
        self.renamed(&items, &mut found);
        in_sequence(&items, &found)
    }

    /// Opens unpaired wrappers around calls that the other side has unpaired too. Tells whether there were any.
    fn open_wrappers(&self, items: &mut [Vec<Item>; 2], found: &mut Vec<(usize, usize)>) -> bool {
        let left = unpaired(items, found);
        if left.iter().any(Vec::is_empty) {
            return false;
        }
        let key = |side: usize, e: EventId| self.sides[side].key_of(e);
        let names = [0, 1].map(|side| -> RapidHashSet<u64> {
            left[side].iter().map(|&at| key(side, items[side][at].event).name).collect()
        });
        let mut any = false;
        for side in [0, 1] {
            let wanted = &names[1 - side];
            let mut opened: RapidHashMap<usize, Opened> = RapidHashMap::default();
            for &at in &left[side] {
                let event = items[side][at].event;
                if let Some(inside) = self.inside(side, event, wanted) {
                    opened.insert(at, inside);
                }
            }
            if !opened.is_empty() {
                any = true;
                open(side, items, found, &opened);
            }
        }
        if any {
            let left = unpaired(items, found);
            let keys = [0, 1].map(|side| -> Vec<CallKey> {
                left[side].iter().map(|&at| key(side, items[side][at].event)).collect()
            });
            found.extend(pairs(&keys[0], &keys[1]).into_iter().map(|(i, j)| (left[0][i], left[1][j])));
            found.sort_unstable();
        }
        any
    }

    /// What stands in a wrapper, or in the only wrapper in it, if a wanted call is among it.
    fn inside(&self, side: usize, event: EventId, wanted: &RapidHashSet<u64>) -> Option<Opened> {
        let side = &self.sides[side];
        let mut wrapper = event;
        while side.may_wrap(wrapper) {
            let children = side.children(wrapper);
            if children.iter().any(|&c| side.may_wrap(c) && wanted.contains(&side.key_of(c).name)) {
                return Some((wrapper, children));
            }
            let [only] = children[..] else { return None };
            wrapper = only;
        }
        None
    }

    /// Pairs calls of different names that stand at the same place: those with the same work below them, and those
    /// that are alone there on both sides.
    fn renamed(&self, items: &[Vec<Item>; 2], found: &mut Vec<(usize, usize)>) {
        let left = unpaired(items, found);
        if left.iter().any(Vec::is_empty) {
            return;
        }
        let gaps = gaps(items, found);
        let mut by_gap: RapidHashMap<Option<usize>, [Vec<usize>; 2]> = RapidHashMap::default();
        for side in [0, 1] {
            for &at in &left[side] {
                by_gap.entry(gaps[side][at]).or_default()[side].push(at);
            }
        }
        let mut places: Vec<[Vec<usize>; 2]> =
            by_gap.into_values().filter(|p| p.iter().all(|l| !l.is_empty())).collect();
        places.sort_unstable();
        for [mut a, mut b] in places {
            let event = |side: usize, at: usize| items[side][at].event;
            let work = |side: usize, at: usize| {
                let e = event(side, at);
                self.sides[side].may_wrap(e).then(|| self.sides[side].below[e.index()])
            };
            a.retain(|&i| {
                let same = b.iter().position(|&j| work(0, i).is_some() && work(0, i) == work(1, j));
                same.is_none_or(|at| {
                    found.push((i, b.remove(at)));
                    false
                })
            });
            if let ([i], [j]) = (&a[..], &b[..])
                && self.may_correspond(event(0, *i), event(1, *j))
            {
                found.push((*i, *j));
            }
        }
        found.sort_unstable();
    }
}

impl Merger<'_> {
    /// Whether calls of different names at one place can be the same thing: launches and kernels can; operations if
    /// they get the same shapes.
    fn may_correspond(&self, one: EventId, two: EventId) -> bool {
        let [a, b] = [self.sides[0].sort_of(one), self.sides[1].sort_of(two)];
        let dims = |side: usize, e: EventId| {
            let trace = self.sides[side].view.trace();
            trace.text_id(e, Key::InputDims).map(|id| trace.text(id))
        };
        a == b && (a != CALL || dims(0, one).is_some() && dims(0, one) == dims(1, two))
    }
}

fn add(tree: &mut MergedTree, parent: Option<u32>, [one, two]: [Option<EventId>; 2]) -> u32 {
    let id = tree.nodes.len() as u32;
    tree.nodes.push(MergedNode { one, two, children: Vec::new() });
    match parent {
        Some(parent) => tree.nodes[parent as usize].children.push(id),
        None => tree.roots.push(id),
    }
    id
}

fn side_by_side(lists: &[Vec<EventId>; 2]) -> Vec<Slot> {
    let item = |side: usize, at: usize| lists[side].get(at).map(|&event| Item { event, wrapper: None });
    let count = lists[0].len().max(lists[1].len());
    (0..count).map(|at| Slot { items: [0, 1].map(|side| item(side, at)) }).collect()
}

/// Positions without a partner.
fn unpaired(items: &[Vec<Item>; 2], found: &[(usize, usize)]) -> [Vec<usize>; 2] {
    [0, 1].map(|side| {
        let mut used = vec![false; items[side].len()];
        for &(i, j) in found {
            used[[i, j][side]] = true;
        }
        (0..used.len()).filter(|&at| !used[at]).collect()
    })
}

/// Puts the children of opened wrappers in their place.
fn open(side: usize, items: &mut [Vec<Item>; 2], found: &mut [(usize, usize)], opened: &RapidHashMap<usize, Opened>) {
    let mut place = Vec::with_capacity(items[side].len());
    let mut list = Vec::new();
    for (at, item) in items[side].iter().enumerate() {
        place.push(list.len());
        match opened.get(&at) {
            None => list.push(*item),
            Some((wrapper, children)) => {
                list.extend(children.iter().map(|&event| Item { event, wrapper: Some(*wrapper) }));
            }
        }
    }
    items[side] = list;
    for pair in found {
        let at = if side == 0 { &mut pair.0 } else { &mut pair.1 };
        *at = place[*at];
    }
}

/// For each position, which pair stands before it: positions of both lists with the same answer are at one place.
fn gaps(items: &[Vec<Item>; 2], found: &[(usize, usize)]) -> [Vec<Option<usize>>; 2] {
    [0, 1].map(|side| {
        let mut pair_at = vec![None; items[side].len()];
        for (number, &(i, j)) in found.iter().enumerate() {
            pair_at[[i, j][side]] = Some(number);
        }
        let mut last = None;
        let before = |at: &Option<usize>| {
            last = at.or(last);
            last
        };
        pair_at.iter().map(before).collect()
    })
}

/// Pairs and what is left of both sides, in the order of the first list; what only the second has follows the pair
/// that it follows there.
fn in_sequence(items: &[Vec<Item>; 2], found: &[(usize, usize)]) -> Vec<Slot> {
    let partner: RapidHashMap<usize, usize> = found.iter().copied().collect();
    let gaps = gaps(items, found);
    let mut after: Vec<Vec<usize>> = vec![Vec::new(); found.len() + 1];
    let paired: RapidHashSet<usize> = found.iter().map(|p| p.1).collect();
    for j in (0..items[1].len()).filter(|j| !paired.contains(j)) {
        after[gaps[1][j].map_or(0, |number| number + 1)].push(j);
    }
    let second = |j: usize| Slot { items: [None, Some(items[1][j])] };
    let mut slots: Vec<Slot> = after[0].iter().map(|&j| second(j)).collect();
    let mut number = 0;
    for (i, item) in items[0].iter().enumerate() {
        let other = partner.get(&i).map(|&j| items[1][j]);
        slots.push(Slot { items: [Some(*item), other] });
        if other.is_some() {
            number += 1;
            slots.extend(after[number].iter().map(|&j| second(j)));
        }
    }
    slots
}

/// The same tree with ids in the order of a walk.
fn in_preorder(tree: MergedTree) -> MergedTree {
    let mut number = vec![0_u32; tree.nodes.len()];
    let mut order: Vec<u32> = Vec::with_capacity(tree.nodes.len());
    let mut pending: Vec<u32> = tree.roots.iter().rev().copied().collect();
    while let Some(id) = pending.pop() {
        number[id as usize] = order.len() as u32;
        order.push(id);
        pending.extend(tree.nodes[id as usize].children.iter().rev());
    }
    let mut nodes: Vec<Option<MergedNode>> = tree.nodes.into_iter().map(Some).collect();
    let renumbered = order.iter().filter_map(|&id| {
        let mut node = nodes[id as usize].take()?;
        for child in &mut node.children {
            *child = number[*child as usize];
        }
        Some(node)
    });
    let nodes = renumbered.collect();
    MergedTree { nodes, roots: tree.roots.iter().map(|&r| number[r as usize]).collect(), moved: tree.moved }
}
