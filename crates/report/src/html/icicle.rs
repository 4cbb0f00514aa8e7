//! Where the time goes: kernel time by module, operation and kernel. Calls of modules of one class in one place are
//! one node, so that forty layers read as one.

use jarvis_analyze::program::{Leaf, Program};
use serde::Serialize;
use std::collections::BTreeMap;

use jarvis_analyze::rounding::Ms;
use jarvis_trace::{InOrder, Trace};

use super::family::Family;
use super::source::Source;
use super::texts::{TextId, Texts};

/// Nodes with a smaller share of all time are told as one, "n others".
const SMALLEST: f64 = 0.001;
/// Most children of a node.
const MOST_CHILDREN: usize = 40;
/// Levels of modules that are kept apart; what is deeper counts as its place.
const DEEPEST: usize = 12;

/// What a node is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Kind {
    Root,
    Module,
    Op,
    Kernel,
    Others,
}

/// A node of the picture.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Node {
    pub(crate) name: TextId,
    pub(crate) kind: Kind,
    pub(crate) family: u8,
    pub(crate) ms: Ms,
    /// Calls.
    pub(crate) count: usize,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) children: Vec<Node>,
}

/// Sums while the leaves are read.
#[derive(Debug, Default)]
struct Sum<'a> {
    us: f64,
    count: usize,
    by_family: [f64; Family::ALL.len()],
    children: BTreeMap<(Kind, &'a str), Sum<'a>>,
}

impl<'a> Sum<'a> {
    fn add(&mut self, us: f64, family: u8) {
        self.us += us;
        self.by_family[usize::from(family)] += us;
    }

    fn child(&mut self, kind: Kind, name: &'a str) -> &mut Self {
        self.children.entry((kind, name)).or_default()
    }

    /// The family with most time.
    fn family(&self) -> u8 {
        let most = self.by_family.iter().enumerate().fold((0, 0.0), |m, (i, &us)| if us > m.1 { (i, us) } else { m });
        most.0 as u8
    }
}

/// The picture of a program; `None` if nothing ran.
pub(crate) fn icicle(source: &Source<'_>, trace: &Trace, families: &[Family], texts: &mut Texts) -> Option<Node> {
    let program = source.program;
    let mut root = Sum::default();
    let mut path = Vec::new();
    for leaf in &program.leaves {
        place(program, leaf, &mut path);
        add_leaf(&mut root, leaf, &path, families);
    }
    add_unlaunched(&mut root, source, trace, families);
    (root.us > 0.0).then(|| {
        let total = root.us;
        node(root, Kind::Root, "GPU work", total, texts)
    })
}

/// Where a leaf stands, outermost first, in place of the path before.
fn place<'a>(program: &'a Program, leaf: &'a Leaf, path: &mut Vec<(Kind, &'a str)>) {
    path.clear();
    // Backward work has no modules of its own: it stands under those of the forward work it belongs to.
    let forward = leaf.forward.filter(|_| leaf.module.is_none()).map(|f| program.leaf(f));
    if leaf.module.is_none() {
        path.push((Kind::Module, outside(leaf)));
    }
    let outermost = path.len();
    let modules = std::iter::successors(forward.unwrap_or(leaf).module, |&m| program.module(m).parent);
    path.extend(modules.map(|m| (Kind::Module, &*program.module(m).base)));
    path[outermost..].reverse();
    path.truncate(outermost + DEEPEST);
    path.push((Kind::Op, &leaf.name));
}

fn add_leaf<'a>(root: &mut Sum<'a>, leaf: &'a Leaf, path: &[(Kind, &'a str)], families: &[Family]) {
    let family = |uid: u32| families.get(uid as usize).copied().unwrap_or(Family::Other).number();
    let add = |sum: &mut Sum<'a>| leaf.kernels.iter().for_each(|k| sum.add(k.us, family(k.uid)));
    add(root);
    root.count += 1;
    let mut at = root;
    for &(kind, name) in path {
        at = at.child(kind, name);
        add(at);
        at.count += 1;
    }
    for kernel in &leaf.kernels {
        let node = at.child(Kind::Kernel, &kernel.name);
        node.add(kernel.us, family(kernel.uid));
        node.count += 1;
    }
}

/// What stands for the module of work that ran in none.
fn outside(leaf: &Leaf) -> &'static str {
    use jarvis_analyze::program::Direction;
    match leaf.direction {
        Direction::Forward | Direction::Unknown => "(outside of modules)",
        Direction::Backward => "(backward)",
        Direction::Optimizer => "(optimizer)",
    }
}

/// GPU work whose launch was not recorded, where the timeline counts it.
fn add_unlaunched<'a>(root: &mut Sum<'a>, source: &Source<'_>, trace: &'a Trace, families: &[Family]) {
    let tree = &source.report.tree;
    for e in source.population.of(trace, tree).into_iter().filter(|&e| !tree.is_linked(e)) {
        let us = trace.dur(e).unwrap_or_default().as_us();
        let family = families[e.index()].number();
        root.add(us, family);
        let place = root.child(Kind::Module, "(launch not recorded)");
        place.add(us, family);
        let kernel = place.child(Kind::Kernel, trace.name(e));
        kernel.add(us, family);
        kernel.count += 1;
    }
}

fn node(sum: Sum<'_>, kind: Kind, name: &str, total: f64, texts: &mut Texts) -> Node {
    let family = sum.family();
    // A module that holds nothing but one other module is told together with it.
    let mut name = name.to_owned();
    let mut sum = sum;
    while kind == Kind::Module && sum.children.len() == 1 {
        let Some(((Kind::Module, inner), _)) = sum.children.first_key_value() else { break };
        name = format!("{name} › {inner}");
        if let Some((_, only)) = sum.children.pop_first() {
            sum = only;
        }
    }
    let (us, count) = (sum.us, sum.count);
    let mut children: Vec<((Kind, &str), Sum<'_>)> = sum.children.into_iter().collect();
    children.order_by(|a, b| b.1.us.total_cmp(&a.1.us).then_with(|| a.0.cmp(&b.0)));
    let kept = children.iter().take(MOST_CHILDREN).take_while(|(_, s)| s.us >= SMALLEST * total).count();
    // One small node takes no more room than a node that stands for it.
    let kept = if children.len() - kept == 1 { children.len() } else { kept };
    let rest = children.split_off(kept);
    let mut nodes: Vec<Node> =
        children.into_iter().map(|((kind, name), sum)| node(sum, kind, name, total, texts)).collect();
    if !rest.is_empty() {
        nodes.push(Node {
            name: texts.add(&format!("{} others", rest.len())),
            kind: Kind::Others,
            family: Family::Other.number(),
            ms: Ms(rest.iter().map(|(_, s)| s.us).sum::<f64>() / 1e3),
            count: rest.iter().map(|(_, s)| s.count).sum(),
            children: Vec::new(),
        });
    }
    Node { name: texts.add(&name), kind, family, ms: Ms(us / 1e3), count, children: nodes }
}
