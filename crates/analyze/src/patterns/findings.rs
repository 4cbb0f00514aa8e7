//! From patterns to findings: one for each change to make, whatever number of shapes it shows in. What is said of it stands
//! in [`said`].

mod said;

use std::collections::BTreeSet;
use std::sync::Arc;

use jarvis_perf::call::{Dims, InputLists};
use jarvis_trace::side_by_side::each;
use jarvis_trace::{Clock, InOrder};
use rapidhash::RapidHashMap;
use serde_json::Value as Json;

use super::candidates::is_fusion;
use super::fused::Change;
use super::scene::Scene;
use super::show::{ms, one};
use super::{Code, Confidence, Pattern, is_worth, least_saving_ms};
use super::{attention, attention_copies, moe, optimizer, weight_copies};
use crate::finding::{Evidence, Finding, FindingOperation, Impact, MOST_OPERATIONS, Mending, Priority, Range};
use crate::prepare::args::SEPARATOR;
use crate::prepare::place;
use crate::prepared::Row;
use crate::program::{Leaf, LeafId, RowId};
use crate::system::host_bound::{HostBound, Limit, Replaced, Replacement};
use crate::texts::counted;
use crate::thresholds::Threshold;

/// Most groups whose numbers the basis repeats.
const MOST_BASES: usize = 3;
/// Shares of the computation time in percent from which a pattern is critical or of high priority.
const CRITICAL_PERCENT: f64 = 15.0;
const HIGH_PERCENT: f64 = 10.0;
/// At least this share of its time must be gained for a critical pattern other than attention.
const CRITICAL_GAIN: f64 = 0.7;

/// Kernels that stay of each find: one fused one, or two where a gradient of the weights is a reduction of its own.
const LAUNCHES_LEFT: [usize; 2] = [1, 2];
/// A grouped expert layer launches as much as this many turns of the loop: sorting, counting, gathering and scattering
/// are kernels of their own. Eight measured pairs lay between 1.8 and 2.9, but such launches take the host longer than
/// those of the loop.
const EXPERTS_LEFT: [f64; 2] = [1.5, 3.7];
/// The same of its backward, where nothing is counted: gathering is undone as it is for one expert. In one measured pair
/// both together took 1.1.
const EXPERTS_BACKWARD_LEFT: [f64; 2] = [1.0, 3.7];
/// What batched calls launch, in turns of the loop they replace.
const TURNS_LEFT: [f64; 2] = [1.0, 2.5];
/// What calling a compiled function takes the host, in microseconds: guards are checked and its kernels launched.
/// Measured: 100 to 180 with one kernel.
const COMPILED_CALL_US: (f64, f64) = (50.0, 150.0);
/// What its backward takes the host on top. Measured without the profiler: 280 to 420 with one kernel each way.
const COMPILED_BACKWARD_US: (f64, f64) = (150.0, 400.0);
/// The same two where nothing else is called and no profiler slows it down: steps of one such call took 56 to 90 in eight
/// pairs, on a faster host less, with its backward 516, 565 and 642.
const CALLED_AHEAD_US: (f64, f64) = (45.0, 89.0);
/// And for each number that it makes of all elements, which takes a kernel more: losses with one took 52 in all on a fast
/// host and 89, one with two 135.
const NUMBER_US: (f64, f64) = (6.0, 25.0);
const BACKWARD_AHEAD_US: (f64, f64) = (250.0, 600.0);

/// What fused attention takes the host on top of the product that it replaces, to choose and prepare its kernel, and what
/// its backward does. In 34 and 21 recordings it took 2.5 and 3.5 times as long as a linear layer: 45 to 130 and 70 to 160
/// with the profiler, which slows the host down 1.5 times.
const ATTENTION_US: (f64, f64) = (15.0, 50.0);
const ATTENTION_BACKWARD_US: (f64, f64) = (30.0, 70.0);

/// What a fused optimizer step takes the host for each parameter on top, in microseconds, to sort them and to pass them
/// on. Measured: 27 of all it does with 120 and 150 of them; a pair with 144 gained less than 10 would leave it.
const FUSED_STEP_US: (f64, f64) = (3.0, 13.0);
/// The same of an operation on lists of tensors, which are not sorted: one on 192 of them took 1.7 in all.
const LISTED_US: (f64, f64) = (0.5, 2.0);

/// Share of the window that a saving takes from which on the host may become the limit, and how many times as long what is
/// left must be then to be told.
const LARGE_PART: f64 = 0.4;
const NOTICED_LEFT: f64 = 1.1;

/// What [`Range::as_measured`] adds at both ends, in words.
fn measured() -> String {
    let most = one(100.0 * Range::MEASURED_TWICE);
    format!(" Both ends allow up to {most}% for the error of measuring it.")
}

/// Findings of the patterns that are worth a change, most saving first. `rows` are those of the performance report, to
/// tell whether the operations are among the top ones; without them shares of time decide alone. `host` says how much
/// of a saving arrives where the GPU waits for the host.
pub fn findings(scene: &Scene<'_>, patterns: &[Pattern], rows: &[Row], host: Option<&HostBound>) -> Vec<Finding> {
    let mut groups: Vec<Vec<&Pattern>> = Vec::new();
    // Repeated forward work is a matter of the schedule: the system tier tells it.
    // What gains nothing at best stays as it is, as attention over a handful of tokens beside that over thousands.
    let awaits_host = host.is_some_and(HostBound::is_limit);
    let is_told = |p: &Pattern| {
        let is_of_launches = awaits_host && p.code.spares_launches();
        let may_gain = p.saved_ms.is_some_and(|saved| saved.high > 0.0 || is_of_launches);
        p.confidence < Confidence::Low && may_gain && p.code != Code::Recomputation
    };
    // But a backward comes with its forward, whatever it brings.
    let comes_along = |p: &Pattern| {
        let is_its_forward = |f: &Pattern| {
            f.code == Code::UnfusedAttention && (&f.module, &f.anchor_dims) == (&p.module, &p.anchor_dims)
        };
        p.code == Code::UnfusedAttentionBackward && patterns.iter().any(|f| is_its_forward(f) && is_told(f))
    };
    for pattern in patterns.iter().filter(|p| is_told(p) || comes_along(p)) {
        match groups.iter_mut().find(|g| same_change(g[0], pattern)) {
            Some(group) => group.push(pattern),
            None => groups.push(vec![pattern]),
        }
    }
    let least_ms = least_saving_ms(scene.thresholds, scene.utilization.computation_time_ms);
    // What the GPU saves is sure, or the launches that go; where the host is the limit, one of them may be nothing.
    let worth = |m: &Maker<'_, '_>, f: &Finding| {
        let sure = scene.utilization.of_window(m.saved().low);
        is_worth(Range::new(sure.max(f.impact.saved_ms.low), f.impact.saved_ms.high), least_ms)
    };
    let heads = patterns.iter().filter(|p| p.code == Code::RepeatedKvHeads);
    let unfused = patterns.iter().filter(|p| p.code == Code::UnfusedAttention);
    let calls = unfused.flat_map(|p| p.leaves.iter().zip(&p.halo));
    let unread =
        |(own, halo): (&Vec<LeafId>, &Vec<LeafId>)| attention_copies::unread_ms(scene, &[&own[..], &halo[..]].concat());
    let unread_ms: f64 = calls.map(unread).sum();
    let heads_ms = unread_ms + heads.filter_map(|p| p.saved_ms).map(|s| s.high).sum::<f64>();
    let mut leaves_in_row = vec![0; rows.len()];
    for row in scene.program.leaves.iter().filter_map(|leaf| leaf.row) {
        if let Some(count) = leaves_in_row.get_mut(row.index()) {
            *count += 1;
        }
    }
    // To run the schedule again for each takes longer than all else here.
    let made = each(&groups, |g| {
        let maker = Maker { scene, rows, leaves_in_row: &leaves_in_row, patterns: g, host, heads_ms };
        Some(maker.finding()).filter(|f| worth(&maker, f))
    });
    let mut findings: Vec<Finding> = made.into_iter().flatten().collect();
    findings.order_by(|a, b| {
        let key = |f: &Finding| f.impact.saved_ms.high;
        key(b).total_cmp(&key(a)).then_with(|| (a.pattern, &a.title).cmp(&(b.pattern, &b.title)))
    });
    for (i, finding) in findings.iter_mut().enumerate() {
        finding.rank = i + 1;
    }
    findings
}

/// Whether one change mends both: forward and backward attention are one call.
fn same_change(a: &Pattern, b: &Pattern) -> bool {
    let of = |c: Code| if c == Code::UnfusedAttentionBackward { Code::UnfusedAttention } else { c };
    of(a.code) == of(b.code)
}

struct Maker<'a, 'p> {
    scene: &'a Scene<'a>,
    rows: &'a [Row],
    leaves_in_row: &'a [usize],
    patterns: &'p [&'p Pattern],
    host: Option<&'a HostBound>,
    /// What not repeating key/value heads saves at best.
    heads_ms: f64,
}

impl Maker<'_, '_> {
    fn finding(&self) -> Finding {
        let first = self.first();
        let time_ms = self.time_ms();
        let total = self.scene.utilization.total_time_ms;
        let gpu_saved = self.saved();
        let kernels_saved = self.scene.utilization.range_of_window(gpu_saved);
        let (saved_ms, limit) = self.within_host(kernels_saved);
        let (saved_ms, heads) = self.with_heads(saved_ms);
        let (saved_ms, lighter) = self.with_lighter(saved_ms);
        // What can't be measured exactly still saves no more than it takes.
        let window_ms = self.scene.utilization.of_window(time_ms);
        let most = if saved_ms.high <= window_ms { window_ms } else { f64::INFINITY };
        let saved_ms = saved_ms.as_measured(total);
        let saved_ms = Range::new(saved_ms.low.min(most), saved_ms.high.min(most));
        let (operations, operations_total, operations_left_out_ms) = self.operations();
        let largest = operations.first().map_or(0, |o| o.uid);
        Finding {
            rank: 0,
            pattern: first.id,
            tier: first.id.tier(),
            category: category(first).to_owned(),
            priority: self.priority(time_ms, gpu_saved),
            title: self.title(),
            issue: self.issue(),
            evidence: self.evidence(&operations),
            operations,
            operations_total,
            operations_left_out_ms,
            time_ms: window_ms,
            percent_of_total: self.scene.utilization.percent_of_total(time_ms),
            paths: self.paths(),
            impact: Impact::of(saved_ms, total, self.basis() + &limit + &heads + &lighter + &measured()),
            replay_package: None,
            replay_reason: Some(format!("several operations in a row; the largest, uid {largest}, can be replayed")),
            rows: self.row_shares(),
            kernels_saved_ms: self.with_lighter(self.with_heads(kernels_saved).0).0.as_measured(total),
            goes_with: None,
            mending: Mending::CountedOn,
        }
    }

    /// The group with most time that is not the backward of another.
    fn first(&self) -> &Pattern {
        let forward = self.patterns.iter().filter(|p| p.code != Code::UnfusedAttentionBackward);
        let most = forward.max_by(|a, b| a.total_ms().total_cmp(&b.total_ms()));
        most.unwrap_or(&self.patterns[0])
    }

    fn time_ms(&self) -> f64 {
        self.patterns.iter().map(|p| p.total_ms()).sum()
    }

    fn saved(&self) -> Range {
        let of = |p: &&Pattern| match p.code {
            Code::UnfusedAttentionBackward => Change::net(p),
            _ => p.saved_ms.map(|saved| (saved.low, saved.high)),
        };
        let (low, high) = self.patterns.iter().filter_map(of).fold((0.0, 0.0), |a, b| (a.0 + b.0, a.1 + b.1));
        Range::new(low, high)
    }

    /// What arrives end to end where the GPU waits for the host: the recorded schedule is run again with fewer kernels
    /// in the place of each find. The second value says so.
    fn within_host(&self, saved: Range) -> (Range, String) {
        let Some(host) = self.host else { return (saved, String::new()) };
        if host.limit == Limit::Gpu {
            let scaled = self.above_call(host, host.unprofiled(saved));
            let window = ms(host.unprofiled_window().ms());
            let text = if host.has_settled() {
                format!(
                    " The GPU waits until the host has come to be ahead; from then on the window is about {window} ms \
                     long, and the saving a larger part of it; the same part of the traced window is told."
                )
            } else {
                format!(
                    " Without the profiler the window is about {window} ms long, and the saving a larger part of it at \
                     the hopeful end; the same part of the traced window is told."
                )
            };
            if let Some(arrives) = self.then_within_host(host, scaled) {
                let text = format!(
                    " Of {} to {} ms so much is left where the GPU then waits for launches of a host without the profiler.",
                    ms(scaled.low),
                    ms(scaled.high)
                );
                return (arrives, text);
            }
            // A hundredth more or less is no news.
            let more = scaled.high > 1.01 * saved.high;
            return (scaled, if more { text } else { String::new() });
        }
        if self.patterns.iter().all(|p| is_made_once(p.code)) {
            let text = " The GPU waits for the host here, so the range is what the recorded schedule gives without these launches.";
            return (self.without(host), text.to_owned());
        }
        let replacements = self.all_replacements();
        let late = if host.awaits_device { "Some launches come late" } else { "The GPU waits for the host" };
        let text =
            format!(" {late} here, so the range is what the recorded schedule gives with these launches replaced.");
        (host.clip_fusion(&replacements), text)
    }

    /// What the recorded schedule saves without the launches of all finds.
    fn without(&self, host: &HostBound) -> Range {
        let leaves = self.patterns.iter().flat_map(|p| p.all_leaves()).map(|l| self.scene.program.leaf(l));
        let kernels: Vec<u32> = leaves.flat_map(|l| l.kernels.iter().map(|k| k.uid)).collect();
        host.clip_removal(&kernels)
    }

    /// What arrives of so large a saving that the host becomes the limit, if it does. For copies that nothing replaces:
    /// of compiled functions [`above_call`](Self::above_call) knows how long they take the host.
    fn then_within_host(&self, host: &HostBound, saved: Range) -> Option<Range> {
        let are_all = |goes: fn(Code) -> bool| self.patterns.iter().all(|p| goes(p.code));
        let made_once = are_all(is_made_once);
        let go = made_once || are_all(|code| matches!(code, Code::GrownCache | Code::SdpaCopyOverhead));
        if !go || saved.high < LARGE_PART * host.window().ms() {
            return None;
        }
        let arrives = if made_once { self.without(host) } else { host.clip_fusion(&self.all_replacements()) };
        let arrives = Range::new(arrives.low.min(saved.low), arrives.high.min(saved.high));
        let left = |saved: f64| host.window().ms() - saved;
        let is_less = |a: f64, b: f64| left(a) > NOTICED_LEFT * left(b);
        (is_less(arrives.low, saved.low) || is_less(arrives.high, saved.high)).then_some(arrives)
    }

    fn all_replacements(&self) -> Vec<Replacement> {
        self.patterns.iter().flat_map(|p| self.replacements(p)).collect()
    }

    /// What is saved where only compiled functions take the place of kernels: a step is no shorter than their call.
    fn above_call(&self, host: &HostBound, saved: Range) -> Range {
        if !self.patterns.iter().all(|p| needs_compiler(p.code)) {
            return saved;
        }
        let steps = self.patterns.iter().map(|p| self.steps(p)).max().unwrap_or(1) as f64;
        let trains = self.patterns.iter().any(|p| p.backward.iter().any(|b| !b.is_empty()));
        let backward_us = if trains { BACKWARD_AHEAD_US } else { (0.0, 0.0) };
        let is_number = |l: &LeafId| self.scene.look(l.index()).leaves_a_number;
        let numbers = self.patterns.iter().filter_map(|p| p.leaves.first()).flatten().filter(|l| is_number(l)).count();
        let most = |call: f64, number: f64| {
            let call_us = call + number * numbers as f64;
            let share = steps * call_us / 1e3 / host.unprofiled_window().ms().max(f64::MIN_POSITIVE);
            host.window().ms() * (1.0 - share).max(0.0)
        };
        let low = most(CALLED_AHEAD_US.1 + backward_us.1, NUMBER_US.1);
        let high = most(CALLED_AHEAD_US.0 + backward_us.0, NUMBER_US.0);
        Range::new(saved.low.min(low), saved.high.min(high))
    }

    /// Steps in which a pattern is found.
    fn steps(&self, pattern: &Pattern) -> usize {
        let steps: BTreeSet<Option<u32>> = pattern.all_leaves().map(|l| self.scene.program.leaf(l).step).collect();
        steps.len().max(1)
    }

    /// Attention in one call can also take key/value heads that are not repeated: then that goes too. The second value
    /// says so.
    fn with_heads(&self, saved: Range) -> (Range, String) {
        if self.first().code != Code::UnfusedAttention || self.heads_ms <= 0.0 {
            return (saved, String::new());
        }
        let heads_ms = self.scene.utilization.of_window(self.heads_ms);
        let most = (saved.high + heads_ms).min(Range::MOST * self.scene.utilization.total_time_ms);
        let text = format!(" The hopeful end leaves out repeating the heads as well, {} ms.", ms(heads_ms));
        (Range::new(saved.low, most), text)
    }

    /// A model of the type that autocast chooses also has less to move between its products. The second value says so.
    fn with_lighter(&self, saved: Range) -> (Range, String) {
        let is_autocast = self.patterns.iter().any(|p| p.code == Code::WeightCopies && p.halo_ms > 0.0);
        if !is_autocast || self.host.is_some_and(HostBound::is_limit) {
            return (saved, String::new());
        }
        let mut copies = self.leaves();
        copies.sort_unstable();
        let lighter_ms = self.scene.utilization.of_window(weight_copies::lighter_ms(self.scene, &copies));
        if lighter_ms <= 0.0 {
            return (saved, String::new());
        }
        let most = (saved.high + lighter_ms).min(Range::MOST * self.scene.utilization.total_time_ms);
        let text = format!(
            " At the hopeful end elementwise work and norms between the products take {} ms less, with half the bytes.",
            ms(lighter_ms)
        );
        (Range::new(saved.low, most), text)
    }

    /// What takes the place of a pattern's kernels, find by find, forward and backward apart.
    fn replacements(&self, pattern: &Pattern) -> Vec<Replacement> {
        let none = Vec::new();
        let (Some(fused), Some(saved)) = (pattern.fused_ms, pattern.saved_ms) else { return Vec::new() };
        let whole = pattern.total_ms().max(f64::MIN_POSITIVE);
        let may_lose = pattern.code.spares_launches() || pattern.code == Code::UnfusedAttentionBackward;
        let most = if may_lose { f64::INFINITY } else { 1.0 };
        // The cautious end of the saving also knows what may be lost elsewhere.
        let left = Range::new(fused.low / whole, (fused.high / whole).max(1.0 - saved.low / whole).min(most));
        let mut all = Vec::with_capacity(2 * pattern.leaves.len());
        let fact = |name: &str| pattern.facts.iter().find(|f| f.0 == name).and_then(|f| f.1.parse::<f64>().ok());
        let of_turn = fact(moe::KERNELS);
        let of_lists = pattern.has(super::optimizer::LISTS);
        let turns_left = match pattern.code {
            Code::MoeExpertLoop => [EXPERTS_LEFT, EXPERTS_BACKWARD_LEFT],
            _ => [TURNS_LEFT; 2],
        };
        let calls_us = [self.call_us(pattern, COMPILED_CALL_US), self.call_us(pattern, COMPILED_BACKWARD_US)];
        for (i, leaves) in pattern.leaves.iter().enumerate() {
            let halo = pattern.halo.get(i).unwrap_or(&none);
            let backward = pattern.backward.get(i).unwrap_or(&none);
            let mut forward_kernels = None;
            let parts = [[leaves, halo], [backward, &none]].into_iter().zip(calls_us).zip(turns_left);
            for ((part, call_us), turns_left) in parts {
                let leaves = || part.iter().copied().flatten().map(|&l| self.scene.program.leaf(l));
                let mut kernels: Vec<(jarvis_trace::Ns, u32)> =
                    leaves().flat_map(|l| l.kernels.iter().map(|k| (k.start, k.uid))).collect();
                kernels.sort_unstable();
                let ms: f64 = leaves().map(|l| l.us / 1e3).sum();
                if kernels.is_empty() {
                    continue;
                }
                let forward = *forward_kernels.get_or_insert(kernels.len());
                let launches = match of_turn {
                    // A turn's backward has as many more kernels as that of all turns.
                    Some(of_turn) => turns_left.map(|n| (n * of_turn * kernels.len() as f64 / forward as f64) as usize),
                    // How much less the host does is a guess: most of it is Python, which the profiler slows down most.
                    None if of_lists => [LAUNCHES_LEFT[0], kernels.len()],
                    None => LAUNCHES_LEFT.map(|n| n * pattern.stretches),
                };
                all.push(Replacement {
                    kernels: kernels.into_iter().map(|k| k.1).collect(),
                    ms: Range::new(ms * left.low, ms * left.high),
                    launches: (launches[0], launches[1]),
                    call_us,
                    replaced: match pattern.code {
                        Code::MoeExpertLoop => Replaced::Experts,
                        Code::UnfusedRecurrence => Replaced::Steps,
                        Code::LoopedGemms | Code::LoopedRows | Code::LoopedLookups => Replaced::Loop,
                        Code::UnfusedOptimizer if pattern.has(optimizer::LOOP) => Replaced::Tensors,
                        Code::UnfusedOptimizer => Replaced::Parameters,
                        _ if fact(attention::TURNS).is_some() => Replaced::Heads,
                        _ => Replaced::Region,
                    },
                });
            }
        }
        all
    }

    /// Host time for each find beside that of its launches, best and worst. At best all finds of a step are in one
    /// compiled function, which takes so long, at worst each is one of its own.
    fn call_us(&self, pattern: &Pattern, compiled: (f64, f64)) -> (f64, f64) {
        if pattern.code == Code::UnfusedOptimizer {
            let fact = |name: &str| pattern.facts.iter().find(|f| f.0 == name);
            let parameters: f64 = fact("parameters").and_then(|f| f.1.parse().ok()).unwrap_or(0.0);
            let is_step = fact(super::optimizer::LOOP).is_none();
            let each = if is_step { FUSED_STEP_US } else { LISTED_US };
            return (each.0 * parameters, each.1 * parameters);
        }
        match pattern.code {
            Code::UnfusedAttention => return ATTENTION_US,
            Code::UnfusedAttentionBackward => return ATTENTION_BACKWARD_US,
            code if !needs_compiler(code) => return (0.0, 0.0),
            _ => {}
        }
        if pattern.has(super::module::WEIGHTS) {
            // What is done once has no call at all.
            return (0.0, compiled.1);
        }
        let per_step = (pattern.instances / self.steps(pattern)).max(1);
        (compiled.0 / per_step as f64, compiled.1)
    }

    fn leaves(&self) -> Vec<LeafId> {
        self.patterns.iter().flat_map(|p| p.all_leaves()).collect()
    }

    /// Rows with the share of their time that the operations stand for.
    fn row_shares(&self) -> Vec<(RowId, f64)> {
        if self.rows.is_empty() {
            return Vec::new();
        }
        let row_us: Vec<f64> = self.rows.iter().map(|r| r.time_ms * 1e3).collect();
        let leaves = self.leaves();
        place::shares(self.scene.program, leaves.iter().map(|l| l.index()), &row_us)
    }

    fn priority(&self, time_ms: f64, saved: Range) -> Priority {
        let percent = self.scene.utilization.percent_of_compute(time_ms);
        let top = |l: LeafId| {
            self.scene.program.leaf(l).row.and_then(|r| self.rows.get(r.index())).is_some_and(|r| r.in_top_ops)
        };
        let in_top: f64 = self.leaves().iter().filter(|l| top(**l)).map(|l| self.scene.program.leaf(*l).us / 1e3).sum();
        let in_top = in_top >= time_ms / 2.0;
        let attention = self.first().code == Code::UnfusedAttention;
        let gains = saved.high >= CRITICAL_GAIN * time_ms;
        if percent > CRITICAL_PERCENT && (attention || in_top && gains) {
            Priority::Critical
        } else if in_top || percent > HIGH_PERCENT {
            Priority::High
        } else {
            Priority::Medium
        }
    }

    /// The operations with most time, each at least with one shape, how many there are, and the time of those left out.
    fn operations(&self) -> (Vec<FindingOperation>, usize, f64) {
        struct Sum {
            id: LeafId,
            count: usize,
            ms: f64,
            roofline_us: f64,
        }
        let mut found: Vec<Sum> = Vec::new();
        let mut known: RapidHashMap<(&str, *const InputLists), usize> = RapidHashMap::default();
        for id in self.leaves() {
            let leaf = self.scene.program.leaf(id);
            let roofline = self.roofline_us(id).unwrap_or(f64::NAN);
            // Equal calls share their inputs.
            let at = *known.entry((&leaf.name, Arc::as_ptr(&leaf.inputs))).or_insert_with(|| {
                found.push(Sum { id, count: 0, ms: 0.0, roofline_us: 0.0 });
                found.len() - 1
            });
            let sum = &mut found[at];
            sum.count += 1;
            sum.ms += leaf.us / 1e3;
            sum.roofline_us += roofline;
        }
        let key = |sum: &Sum| {
            let leaf = self.scene.program.leaf(sum.id);
            (&leaf.name, leaf.uid)
        };
        let longest_first = |a: &Sum, b: &Sum| b.ms.total_cmp(&a.ms).then_with(|| key(a).cmp(&key(b)));
        found.order_by(longest_first);
        let total = found.len();
        // Every operation with the shape that takes it most, so that none is missing behind shapes of the others.
        let mut seen: BTreeSet<&str> = BTreeSet::new();
        let (mut listed, mut rest): (Vec<Sum>, Vec<Sum>) =
            found.into_iter().partition(|sum| seen.insert(&self.scene.program.leaf(sum.id).name));
        rest.splice(0..0, listed.split_off(MOST_OPERATIONS.min(listed.len())));
        let room = MOST_OPERATIONS - listed.len();
        listed.extend(rest.drain(..room.min(rest.len())));
        listed.order_by(longest_first);
        // What exceeds the peak by so much is not right, as for rows; nor is what is no number.
        let anomaly = self.scene.thresholds.get(Threshold::EffAnomaly);
        let left_out_ms = rest.iter().map(|sum| sum.ms).sum();
        let shown = |sum: Sum| {
            let percent = 100.0 * sum.roofline_us / (sum.ms * 1e3);
            FindingOperation {
                count: sum.count,
                time_ms: sum.ms,
                efficiency_percent: Some(percent).filter(|&p| p <= anomaly),
                ..self.operation(sum.id, self.scene.program.leaf(sum.id))
            }
        };
        (listed.into_iter().map(shown).collect(), total, left_out_ms)
    }

    /// What a leaf would take at best: as its row is judged where that has nothing else, so that the same calls are not
    /// rated in two ways, else by its own cost.
    fn roofline_us(&self, id: LeafId) -> Option<f64> {
        let leaf = self.scene.program.leaf(id);
        let row =
            leaf.row.and_then(|r| self.rows.get(r.index())).filter(|r| self.leaves_in_row[r.id.index()] == r.count);
        match row.map(|r| &r.efficiency) {
            Some(e) if e.efficiency_percent.is_some() => e.judged().map(|percent| percent / 100.0 * leaf.us),
            _ => self.scene.roofline_us(self.scene.look(id.index())),
        }
    }

    fn operation(&self, id: LeafId, leaf: &Leaf) -> FindingOperation {
        let chain = self.scene.program.module_chain(leaf);
        let names = chain.iter().map(|m| &*self.scene.program.module(*m).name);
        let list = |d: &Dims| match d {
            Dims::Shape(s) => Json::from(s.clone()),
            Dims::List(l) => l.iter().cloned().map(Json::from).collect(),
        };
        let dims = leaf.inputs.dims.as_ref().map_or(Json::Null, |d| d.iter().map(list).collect());
        let types = leaf.inputs.types.as_ref().map_or(Json::Null, |t| t.iter().cloned().map(Json::from).collect());
        FindingOperation {
            name: leaf.name.to_string(),
            uid: leaf.uid,
            count: 0,
            input_dims: dims,
            input_types: types,
            time_ms: 0.0,
            efficiency_percent: None,
            bound: bound(self.scene, id),
            module: FindingOperation::module_of(names),
        }
    }

    fn evidence(&self, operations: &[FindingOperation]) -> Vec<Evidence> {
        let mut all: Vec<Evidence> = Vec::new();
        for pattern in self.patterns.iter().take(MOST_BASES) {
            let first = pattern.leaves.first().and_then(|l| l.first()).copied();
            // What is no fusion is in no list of candidates: its rows are all there is to see.
            let source = match first {
                Some(leaf) if !is_fusion(pattern.code) => self.source(self.scene.program.leaf(leaf)),
                _ => Evidence {
                    table: "fusion_candidates.json".to_owned(),
                    row: format!("{} {}", pattern.code.as_str(), super::show::dims(&pattern.anchor_dims)),
                    uid: first.map(|l| self.scene.program.leaf(l).uid),
                    fact: String::new(),
                },
            };
            all.extend(pattern.evidence.iter().map(|fact| Evidence { fact: fact.clone(), ..source.clone() }));
        }
        let leaves = self.leaves();
        for operation in operations.iter().take(MOST_BASES) {
            let leaf = leaves.iter().map(|&l| self.scene.program.leaf(l)).find(|l| l.uid == operation.uid);
            let fact =
                format!("`{}`: {}, {} ms", operation.name, counted(operation.count, "call"), ms(operation.time_ms));
            all.extend(leaf.map(|leaf| Evidence { fact, ..self.source(leaf) }));
        }
        all
    }

    /// The row of the performance report that has the time of a leaf: the modelled call around it, else the launcher.
    fn source(&self, leaf: &Leaf) -> Evidence {
        let row = leaf.row.and_then(|r| self.rows.get(r.index()));
        let (table, name, uid) = match row {
            Some(row) => {
                ("unified_perf_summary", format!("{} {}", row.name, row.args.replace(SEPARATOR, ", ")), row.uid)
            }
            None => ("ops_summary", leaf.name.to_string(), leaf.uid),
        };
        Evidence { table: table.to_owned(), row: name.trim_end().to_owned(), uid: Some(uid), fact: String::new() }
    }
}

fn bound(scene: &Scene<'_>, id: LeafId) -> Option<&'static str> {
    scene.sides_us(scene.look(id.index())).map(|(c, m)| if c >= m { "compute" } else { "memory" })
}

/// Whether the operations are done once, or not at all, and so not launched again either.
fn is_made_once(code: Code) -> bool {
    matches!(code, Code::WeightCopies | Code::Adapters)
}

/// Whether no call of the library takes the place of the operations, so that they must be compiled.
fn needs_compiler(code: Code) -> bool {
    matches!(
        code,
        Code::ElementwiseChain
            | Code::UnfusedLoss
            | Code::UnfusedModule
            | Code::GemmEpilogue
            | Code::UnfusedRope
            | Code::UnfusedSwiglu
    )
}

/// The category whose readers the finding is for.
pub(super) fn category(pattern: &Pattern) -> &'static str {
    match pattern.code {
        Code::UnfusedAttention
        | Code::UnfusedAttentionBackward
        | Code::RepeatedKvHeads
        | Code::GrownCache
        | Code::SdpaCopyOverhead => "sdpa_fwd",
        Code::MoeExpertLoop => "moe_unfused",
        Code::LoopedGemms
        | Code::LoopedRows
        | Code::UnfusedRecurrence
        | Code::Adapters
        | Code::UnfoldedConvolution
        | Code::UnusedRows => "gemm",
        Code::GemmEpilogue | Code::LoopedLookups | Code::UnfusedLoss | Code::UnfusedModule => "kernel_fusion",
        Code::Recomputation => "recomputation",
        Code::SortedForFew => "other",
        Code::UnfusedOptimizer if pattern.has(super::optimizer::LISTS) => "multi_tensor_apply",
        _ => "elementwise",
    }
}
