//! Experts that run one after another.
//!
//! # What it finds
//! At least four repeats of the same two to four matrix products (same weights' shapes, different numbers of rows) with
//! rows of one tensor picked, or added to, by index in between, or each on its part of rows that were sorted before, and no grouped product: a
//! loop over experts. Experts that have no tokens and are only looked for belong to it, and if one alone has some it is told
//! by the searches.
//!
//! # Why it matters
//! Each expert's products are too small to fill the GPU, and finding its tokens costs kernels and a wait of the host.
//!
//! # How it is computed
//! Matrix products repeat with a period in their weights' shapes, or the same search for tokens repeats with products
//! after some. A grouped product takes the roofline time of all experts together at 80% of it at best, at 40% at worst and
//! never longer than the products take now; the other operations move their bytes at the baseline, and gradients that are
//! summed up expert by expert are written once at best; finding each expert's tokens is replaced by one sort.
//!
//! # What to do
//! A grouped product (`torch._grouped_mm`) or a fused expert layer.
//!
//! # Limits
//! Loads that are the same for all experts are only recognised in a module that names them, or where tokens are looked for
//! before each and it has at most 256 rows or others have none. Turns that call one module again and again share its
//! weights and are no experts; nor are products that take no longer than a grouped one would.

use std::collections::BTreeMap;
use std::ops::{Range, RangeInclusive};

use super::claims::Claims;
use super::group::Instance;
use super::looped::is_stack;
use super::scene::{Operand, Scene, numel};
use super::show::one;
use super::{Code, Confidence, Fused};
use crate::program::LeafId;
use crate::program::kind::{Kind, operands_before_factors};

const HINTS: &[&str] = &["moe", "expert"];
/// Fewer repeats are no loop.
const LEAST_REPEATS: usize = 4;
/// Experts of as many rows each are told by this many at most: larger equal ones are calls of one function.
const FEW_ROWS: i64 = 256;
/// More experts are no layer.
const MOST_EXPERTS: usize = 1024;
/// Matrix products that one expert may have.
const PRODUCTS: RangeInclusive<usize> = 2..=4;
/// Leaves before the first and after the last product that may belong to the loop.
const REACH: usize = 6;
/// Leaves from the last search to where the last expert's rows are added.
const LONGEST_EXPERT: usize = 24;
/// The fact that says how many kernels a turn of a loop has: here, an expert with tokens.
pub(super) const KERNELS: &str = "kernels";
/// Operations that find an expert's tokens, or that there are none.
const SEARCHES: [&str; 7] = ["eq", "nonzero", "where", "any", "sum", "count_nonzero", "_local_scalar_dense"];
/// Shares of the roofline that grouped products reach.
const GROUPED: (f64, f64) = (0.4, 0.8);
/// What sorting the tokens takes, in microseconds.
const SORT_US: (f64, f64) = (20.0, 80.0);

/// A matrix product with a weight: rows, and the shape of the weight.
#[derive(Clone, Copy, PartialEq)]
struct Product {
    at: usize,
    rows: i64,
    weight: (i64, i64),
}

fn product(scene: &Scene<'_>, at: usize) -> Option<Product> {
    let look = scene.look(at);
    if !matches!(look.base, "mm" | "linear" | "matmul" | "addmm" | "_addmm_activation") {
        return None;
    }
    let skip = operands_before_factors(look.base);
    let [ref lead @ .., rows, _] = *look.operands.get(skip)?.dims else { return None };
    let &[k, n] = look.operands.get(skip + 1)?.dims else { return None };
    Some(Product { at, rows: numel(&[numel(lead), rows]), weight: (k, n) })
}

/// Finds loops in the sequence of matrix products.
pub(super) fn find(scene: &Scene<'_>, claims: &mut Claims) -> Vec<Instance> {
    let products: Vec<Product> = (0..scene.len()).filter_map(|i| product(scene, i)).collect();
    let periods: Vec<Period> = PRODUCTS.map(|period| Period::of(scene, &products, period)).collect();
    let mut found = Vec::new();
    let mut at = 0;
    while at < products.len() {
        let runs = periods.iter().filter_map(|period| period.repeats(scene, &products, at));
        let run = runs.max_by_key(|r| r.0);
        match run {
            Some((length, period)) => {
                found.extend(instance(scene, &products[at..at + length].chunks(period).collect::<Vec<_>>(), None));
                at += length;
            }
            None => at += 1,
        }
    }
    let mut found = claims.settle(scene, found);
    let searching = searching_loops(scene, claims, &products);
    let searching = searching.iter().filter_map(|(experts, all)| instance(scene, experts, Some(all))).collect();
    found.extend(claims.settle(scene, searching));
    let joined = joined_loops(scene, &products);
    let joined = joined.iter().filter_map(|experts| instance(scene, experts, None)).collect();
    found.extend(claims.settle(scene, joined));
    found
}

/// Products, expert by expert, of loops over parts of rows that were sorted before: what comes after the last expert
/// has the rows of all.
fn joined_loops<'p>(scene: &Scene<'_>, products: &'p [Product]) -> Vec<Vec<&'p [Product]>> {
    let mut loops = Vec::new();
    for (i, last) in products.iter().enumerate() {
        let next = products.get(i + 1).map_or(scene.len(), |p| p.at);
        let width = last.weight.1.max(1);
        let rows_of = |o: &Operand<'_>| (o.dims.last() == Some(&width)).then(|| o.numel() / width);
        let after = scene.after(last.at).take_while(|&at| at < next).take(REACH);
        let all = after.flat_map(|at| &scene.look(at).operands).filter_map(rows_of).find(|&rows| rows > last.rows);
        let experts = all.and_then(|rows| PRODUCTS.rev().find_map(|n| experts_of(scene, &products[..=i], n, rows)));
        loops.extend(experts);
    }
    loops
}

/// The last of these products by experts of so many each, where they have so many rows together.
fn experts_of<'p>(scene: &Scene<'_>, products: &'p [Product], each: usize, rows: i64) -> Option<Vec<&'p [Product]>> {
    let mut experts: Vec<&[Product]> = Vec::new();
    let mut left = rows;
    for expert in products.rchunks(each) {
        let own_rows = expert.iter().all(|p| p.rows == expert[0].rows);
        let alike = experts.last().is_none_or(|next| {
            expert.iter().zip(*next).all(|(a, b)| a.weight == b.weight)
                && scene.in_one_run(expert[0].at, next[0].at)
                && !(expert[0].at..next[0].at).any(|i| is_foreign(scene, i))
        });
        if expert.len() < each || expert[0].rows < 1 || !own_rows || !alike || experts.len() == MOST_EXPERTS {
            return None;
        }
        left -= expert[0].rows;
        experts.push(expert);
        if left <= 0 {
            break;
        }
    }
    experts.reverse();
    let differ = experts.iter().any(|e| e[0].rows != experts[0][0].rows);
    (left == 0 && experts.len() >= LEAST_REPEATS && differ).then_some(experts)
}

/// The products of a loop expert by expert, and where its searches begin and end.
type Searching<'p> = (Vec<&'p [Product]>, RangeInclusive<usize>);

/// Loops in which few experts have tokens: the same search again and again, and products here and there.
fn searching_loops<'p>(scene: &Scene<'_>, claims: &Claims, products: &'p [Product]) -> Vec<Searching<'p>> {
    let is_search = |i: &usize| scene.look(*i).base == "nonzero" && claims.is_free(*i);
    let is_part = |i: &usize| claims.is_free(*i) && !is_foreign(scene, *i);
    let searches: Vec<usize> = (0..scene.len()).filter(is_search).collect();
    let goes_on = |a: &usize, b: &usize| {
        scene.look(*a).operands == scene.look(*b).operands && scene.in_one_run(*a, *b) && (*a..*b).all(|i| is_part(&i))
    };
    let mut loops = Vec::new();
    for searches in searches.chunk_by(goes_on).filter(|s| s.len() >= LEAST_REPEATS) {
        let (first, last) = (searches[0], searches[searches.len() - 1]);
        // The last expert's rows are added by index.
        let rest = scene.after(last).take_while(is_part).take(LONGEST_EXPERT);
        let end = rest.filter(|&i| scene.look(i).kind == Kind::Index).last().unwrap_or(last);
        let run = &products[products.partition_point(|p| p.at < first)..products.partition_point(|p| p.at < end)];
        let of_one = |a: &Product, b: &Product| !(a.at..b.at).any(|i| searches.binary_search(&i).is_ok());
        let picked =
            |e: &&[Product]| scene.before(e[0].at).rev().take(REACH).any(|i| scene.look(i).kind == Kind::Index);
        let experts: Vec<&[Product]> = run.chunk_by(of_one).collect();
        // That others have no tokens tells experts from a function that is called with equal rows again and again, and
        // after which something is looked for each time.
        let others = experts.len() + 1 < searches.len();
        let few_rows = || experts.iter().any(|e| e[0].rows <= FEW_ROWS || e[0].rows != experts[0][0].rows);
        if !experts.is_empty() && experts.iter().all(picked) && (others || few_rows()) {
            loops.push((experts, first..=end));
        }
    }
    loops
}

/// Whether a leaf does what experts don't do.
fn is_foreign(scene: &Scene<'_>, at: usize) -> bool {
    let kind = scene.look(at).kind;
    matches!(kind, Kind::Attention | Kind::Softmax | Kind::Norm | Kind::Grouped | Kind::Convolution)
}

/// Where products repeat with a period. Each may begin a run, so what is asked of all is reckoned once.
struct Period {
    length: usize,
    /// For each product the end of the run from there on that repeats with the period, in one sequence.
    ends: Vec<usize>,
    /// For each product the first one whole periods later that has other rows.
    other_rows: Vec<usize>,
}

impl Period {
    fn of(scene: &Scene<'_>, products: &[Product], length: usize) -> Self {
        let mut ends = vec![products.len(); products.len()];
        let mut other_rows = vec![products.len(); products.len()];
        let mut end = products.len();
        for at in (0..products.len()).rev() {
            let product = &products[at];
            if let Some(next) = products.get(at + length) {
                // A product that is not like the one a period before ends all runs that hold both.
                if next.weight != product.weight || !scene.in_one_run(next.at, product.at) {
                    end = at + length;
                }
                other_rows[at] = if next.rows == product.rows { other_rows[at + length] } else { at + length };
            }
            ends[at] = end;
        }
        Self { length, ends, other_rows }
    }

    /// How many products from one on repeat as a whole, if they look like a loop over experts; with the period.
    fn repeats(&self, scene: &Scene<'_>, products: &[Product], at: usize) -> Option<(usize, usize)> {
        let (all, period) = (&products[at..self.ends[at]], self.length);
        let length = all.len() - all.len() % period;
        let run = all.get(..length).filter(|r| r.len() >= LEAST_REPEATS * period)?;
        // One expert's products all have the same rows; different experts different ones. Most runs are no loop and
        // are told by their first products, so what has to see all of them comes last.
        let differ = self.other_rows[at] < at + length;
        let hinted = || {
            let may_be = scene.hint(scene.leaf(run[0].at).module, HINTS).is_some();
            let leaves = || run.iter().map(|p| LeafId(p.at as u32)).collect::<Vec<_>>();
            may_be && scene.hint(scene.common_module(&leaves()), HINTS).is_some()
        };
        let small = || run[0].rows <= FEW_ROWS;
        let own_rows = || run.chunks(period).all(|c| c.iter().all(|p| p.rows == c[0].rows));
        let is_loop = differ || small() && searched(scene, run, period) || hinted();
        (is_loop && indexed(scene, run, period) && own_rows()).then_some((length, period))
    }
}

/// Positions from the first product of each expert to that of the next.
fn between(run: &[Product], period: usize) -> impl Iterator<Item = Range<usize>> {
    let starts = move || run.iter().step_by(period).map(|p| p.at);
    starts().zip(starts().skip(1)).map(|(start, next)| start..next)
}

/// Whether the tokens of each expert are looked for before it runs.
fn searched(scene: &Scene<'_>, run: &[Product], period: usize) -> bool {
    between(run, period).all(|mut between| between.any(|i| scene.look(i).base == "nonzero"))
}

/// Whether rows of one and the same tensor are picked, or added to, by index between any two experts, and nothing that
/// experts don't do is. Layers one after another, as of a network on a graph, pick from what the one before gave.
fn indexed(scene: &Scene<'_>, run: &[Product], period: usize) -> bool {
    let mut common: Option<Vec<[i64; 2]>> = None;
    for (between, expert) in between(run, period).zip(run.chunks(period)) {
        if between.clone().any(|i| is_foreign(scene, i)) {
            return false;
        }
        let tables = tables(scene, between, expert);
        let shared = match common {
            Some(mut common) => {
                common.retain(|table| tables.contains(table));
                common
            }
            None => tables,
        };
        if shared.is_empty() {
            return false;
        }
        common = Some(shared);
    }
    true
}

/// Rows and columns of tensors that are indexed and as wide as what goes into an expert or comes out of it.
fn tables(scene: &Scene<'_>, between: Range<usize>, expert: &[Product]) -> Vec<[i64; 2]> {
    let widths = |p: &Product| [p.weight.0, p.weight.1];
    let of = |o: &Operand<'_>| {
        let columns = o.dims.last().copied().filter(|&c| c > 0)?;
        let fits = o.dims.len() > 1 && expert.iter().any(|p| widths(p).contains(&columns));
        fits.then(|| [o.numel() / columns, columns])
    };
    let indexed = between.filter(|&i| scene.look(i).kind == Kind::Index);
    indexed.filter_map(|i| scene.look(i).operands.first().and_then(of)).collect()
}

/// Whether the turns of a loop call one and the same module again and again: experts have weights of their own.
fn is_one_module(scene: &Scene<'_>, experts: &[&[Product]]) -> bool {
    let module = |expert: &&[Product]| scene.leaf(expert[0].at).module;
    let called_again = |pair: &[&[Product]]| match (module(&pair[0]), module(&pair[1])) {
        // Products of one call may have any weights.
        (Some(a), Some(b)) => a != b && scene.program.module(a).name == scene.program.module(b).name,
        _ => false,
    };
    experts.len() > 1 && experts.windows(2).all(called_again)
}

/// Whether experts' products take no longer than a grouped one at best: they fill the GPU by themselves.
fn fill_the_gpu(scene: &Scene<'_>, experts: &[&[Product]]) -> bool {
    let products = || experts.iter().copied().flatten().map(|p| p.at);
    let roofline: Option<f64> = products().map(|at| scene.roofline_us(scene.look(at))).sum();
    let now: f64 = products().map(|at| scene.leaf(at).us).sum();
    roofline.is_some_and(|roofline| now <= roofline / GROUPED.1)
}

/// A loop over experts by the products of those that have tokens and, where these tell too little, by all its searches.
fn instance(scene: &Scene<'_>, experts: &[&[Product]], searched: Option<&RangeInclusive<usize>>) -> Option<Instance> {
    if is_one_module(scene, experts) || fill_the_gpu(scene, experts) {
        return None;
    }
    let (first, last) = (experts.first()?.first()?.at, experts.last()?.last()?.at);
    let is_part = |i: &usize| {
        let look = scene.look(*i);
        look.kind.is_fusible() || matches!(look.kind, Kind::Index | Kind::Sort) || is_stack(look)
    };
    // The loop begins with finding or picking the first expert's rows and ends with adding the last one's.
    let begins =
        |i: &usize| matches!(scene.look(*i).kind, Kind::Index) || matches!(scene.look(*i).base, "nonzero" | "eq");
    let before = scene.before(first).rev().take(REACH).take_while(is_part).filter(begins).last().unwrap_or(first);
    let after = scene.after(last).take(REACH).take_while(is_part);
    let after = after.filter(|&i| scene.look(i).kind == Kind::Index).last().unwrap_or(last);
    // Experts without tokens are looked for as well: where one alone has some, nothing but them makes the loop.
    let (before, after) = searched.map_or((before, after), |all| (before.min(*all.start()), after.max(*all.end())));
    let searches = Searches::of(scene, before..=after);
    let before = scene.before(before).rev().take_while(|&i| searches.hold(scene, i)).last().unwrap_or(before);
    let after = scene.after(after).take_while(|&i| searches.hold(scene, i)).last().unwrap_or(after);
    let leaves: Vec<LeafId> = (before..=after).map(|i| LeafId(i as u32)).collect();
    let anchor = LeafId(first as u32);
    let mut instance = Instance::new(scene, Code::MoeExpertLoop, leaves, anchor, HINTS, Confidence::High);
    let time = grouped(scene, &instance.leaves)?;
    instance.backward = scene.backward_of(&instance.leaves);
    instance.fused = Some(time);
    instance.backward_fused = grouped_backward(scene, &instance.backward, experts.len()).unwrap_or(Fused::NOTHING);
    let range = format!("{}-{}", one(time.best_us), one(time.worst_us));
    instance.basis = format!("one grouped product per projection and one sort of the tokens take {range} us a loop");
    let rows = || experts.iter().map(|e| e[0].rows);
    let (least, most) = (rows().min().unwrap_or(0), rows().max().unwrap_or(0));
    let all = looked_for(scene, &instance.leaves).max(experts.len());
    // Evidence is that of the first of several loops.
    let loads = format!("{} matrix products each, {least} to {most} rows in the first loop", experts[0].len());
    instance.evidence.push(if all > experts.len() {
        format!("{} of {all} experts have tokens: {loads}", experts.len())
    } else {
        format!("{all} experts of {loads}")
    });
    let kernels = kernels_of_one(scene, &instance.leaves, experts.len(), all);
    instance.facts = vec![("n", all.to_string()), (KERNELS, kernels.to_string())];
    Some(instance)
}

/// How many experts are looked for: each is compared with the choice of all tokens, once, but what the comparison gave
/// may be turned into numbers more than once, as where it picks rows and writes them. Where all are compared in one call,
/// each is looked for by itself.
fn looked_for(scene: &Scene<'_>, leaves: &[LeafId]) -> usize {
    let count = |base: &str| leaves.iter().filter(|l| scene.look(l.index()).base == base).count();
    let compared = count("eq");
    if compared < LEAST_REPEATS { count("nonzero") } else { compared }
}

/// Kernels of an expert that has tokens and is looked for once: what is sorted in place of the searches does not depend on
/// how often each loop makes them.
fn kernels_of_one(scene: &Scene<'_>, leaves: &[LeafId], active: usize, all: usize) -> usize {
    let kernels = |searches: bool| {
        let is = |l: &&LeafId| SEARCHES.contains(&scene.look(l.index()).base) == searches;
        leaves.iter().filter(is).map(|l| scene.program.leaf(*l).kernels.len()).sum::<usize>()
    };
    let searches = leaves.iter().filter(|l| scene.look(l.index()).base == "nonzero").count();
    kernels(false).div_ceil(active.max(1)) + kernels(true).div_ceil(searches.max(all).max(1))
}

/// The ways in which the tokens of experts are looked for.
struct Searches<'a>(Vec<(&'a str, &'a [Operand<'a>])>);

impl<'a> Searches<'a> {
    /// Those among the leaves of a loop.
    fn of(scene: &'a Scene<'a>, positions: RangeInclusive<usize>) -> Self {
        let mut all: Vec<_> = Vec::new();
        for look in positions.map(|i| scene.look(i)).filter(|look| SEARCHES.contains(&look.base)) {
            let search = (look.base, &*look.operands);
            if !all.contains(&search) {
                all.push(search);
            }
        }
        Self(all)
    }

    fn hold(&self, scene: &Scene<'_>, at: usize) -> bool {
        let look = scene.look(at);
        self.0.iter().any(|(base, operands)| *base == look.base && *operands == look.operands)
    }
}

/// The same of a backward pass. Where each expert's part of a gradient is put into one as large as that of all and added to
/// it, grouped products write it once.
fn grouped_backward(scene: &Scene<'_>, backward: &[LeafId], experts: usize) -> Option<Fused> {
    let time = grouped(scene, backward)?;
    let mut sums: BTreeMap<(&str, &[i64]), Vec<LeafId>> = BTreeMap::new();
    for &l in backward {
        let look = scene.look(l.index());
        let is_sum = look.base == "add" && look.full_operands().count() == 2;
        if is_sum || look.kind == Kind::Fill {
            sums.entry((look.base, &look.full)).or_default().push(l);
        }
    }
    let of_experts = sums.values().filter(|leaves| leaves.len() + 1 >= experts);
    let best_us = |leaf: &LeafId| grouped_beside(scene, *leaf).map_or(0.0, |fused| fused.best_us);
    let written_again = |leaves: &Vec<LeafId>| leaves.iter().skip(1).map(best_us).sum::<f64>();
    let less_us: f64 = of_experts.map(written_again).sum();
    Some(Fused { best_us: (time.best_us - less_us).max(0.0), ..time })
}

/// Time of the same work with grouped products.
fn grouped(scene: &Scene<'_>, leaves: &[LeafId]) -> Option<Fused> {
    let (mut roofline, mut products, mut rest) = (0.0, 0.0, Fused { best_us: SORT_US.0, worst_us: SORT_US.1 });
    for l in leaves {
        let (leaf, look) = (scene.program.leaf(*l), scene.look(l.index()));
        if look.kind == Kind::Matrix {
            roofline += scene.roofline_us(look)?;
            products += leaf.us;
        } else if let Some(time) = grouped_beside(scene, *l) {
            rest = rest.and(time);
        }
    }
    let [worst_us, best_us] = [GROUPED.0, GROUPED.1].map(|share| (roofline / share).min(products));
    Some(rest.and(Fused { best_us, worst_us }))
}

/// Time of what is done beside the products once it is done for all experts together; `None` if it goes.
fn grouped_beside(scene: &Scene<'_>, leaf: LeafId) -> Option<Fused> {
    let (us, look) = (scene.program.leaf(leaf).us, scene.look(leaf.index()));
    // Comparing the choice of every token with each expert is not needed any more.
    let compares = matches!(look.base, "eq" | "where") && look.operands.iter().all(|o| o.dtype.contains("long"));
    if look.kind == Kind::Sort || look.numel() == 0 || compares {
        return None;
    }
    // All experts' rows are handled at once, so only bytes count, and at best nothing is put together.
    let bytes = look.cost.as_ref().and_then(|c| c.bytes);
    let moved = bytes.map(|b| b / (scene.bytes_per_us() * scene.baseline_share()));
    let best_us = if is_stack(look) { 0.0 } else { moved.map_or(us, |moved| moved.min(us)) };
    Some(Fused { best_us, worst_us: us })
}
