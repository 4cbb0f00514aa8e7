//! Whether the host holds the GPU up, and what that means for savings elsewhere.
//!
//! **The rule.** A shorter kernel shortens the window only as far as the next launch was already there: what follows
//! can't start before it is launched.
//!
//! ```text
//! host ahead    host  |r1||r2||r3|
//!               GPU     |-- k1 -----|-- k2 -----|-- k3 -----|
//!               k1 a third shorter: everything after it moves up, the window is a third of k1 shorter
//!                       |-- k1 -|-- k2 -----|-- k3 -----|
//!
//! GPU ahead     host  |r1|           |r2|           |r3|
//!               GPU     |-- k1 -----|  |-- k2 -----|  |-- k3 -----|
//!               k1 a third shorter: k2 still waits for its launch, the window stays as it is
//!                       |-- k1 -|      |-- k2 -----|  |-- k3 -----|
//! ```
//!
//! So savings are not multiplied with some share: the recorded schedule is run again with the kernels shortened
//! ([`HostBound::clip_range`]), not launched at all ([`HostBound::clip_removal`]) or replaced by fewer
//! ([`HostBound::clip_fusion`]), the last two giving back the host time of their launches too, and the difference of
//! the windows is the saving. What operations take the host at the start of a run, when they are called for the first time
//! with their arguments ([`super::first_calls`]), is no part of that schedule: no change is worth it. Idle time at the
//! edges of the capture stays as it is.
//!
//! **The profiler's share.** A profiled host is slower than a free one, the GPU is not. In some hundred recordings
//! whose step time was also measured without the profiler, hosts that held the GPU up ran 1.4 to 2.4 times slower under
//! it with Python frames and 1.3 to 2.2 times without. Compiled code is one more case: its launchers are many short
//! frames, and with these recorded it ran 2.7 to 7.1 times slower, without them as any other. A trace may thus look
//! host-bound only because it was recorded. Whatever depends on host speed is therefore computed at both ends of that
//! span (`slowdown_of`), and the range tells it. What the profiler does between steps is not there at all without it:
//! a twentieth of a millisecond or two, which is most of the time of the shortest steps. [`HostBound::unprofiled_ms`]
//! came within 10 % of the measured step in 419 of 454 recordings (within 5 % in 394), and of those with steps below
//! 0.3 ms in 39 of 49.

use std::sync::OnceLock;

use jarvis_trace::{Clock, Ns};

use super::gaps::{GapClass, Gaps};
use super::recording::Recording;
use super::rerun::{Fate, Scenario, Without};
use super::schedule::Schedule;
use crate::finding::Range;
use crate::rounding::round;

/// How many times slower the profiler makes a host that records Python frames: least and most.
const SLOWDOWN_WITH_FRAMES: (f64, f64) = (1.4, 2.5);

/// The same within compiled code.
const SLOWDOWN_COMPILED_WITH_FRAMES: (f64, f64) = (2.5, 7.0);

/// The same without frames, compiled or not.
const SLOWDOWN: (f64, f64) = (1.3, 2.3);

/// What is left of the host time between launches when the same program is compiled but launched one by one. Measured:
/// 0.55 on a small encoder.
const COMPILED_HOST: f64 = 0.55;

/// What is left of the host time between launches at the hopeful end when the host no longer waits in between, compiled or
/// not: it is then also faster by itself. In nine measured pairs a step took 0.48 to 0.99 of its time without the waits.
const UNINTERRUPTED_HOST: f64 = 0.46;

/// The same for what is left when the making of flags goes with the waits, which slowed it down most. In the one measured
/// pair it was 0.60.
const FLAGLESS_HOST: f64 = 0.52;

/// The same when the host no longer moves the bytes of copies itself, which pushes all else out of its caches. In two
/// measured pairs 0.6 and 0.83.
const RELIEVED_HOST: f64 = 0.6;

/// The host is the limit if issuing each step at once would shorten the window by more than this share.
const NOTICEABLE: f64 = 0.10;

/// Of the host time of launches that are replaced, what the call in their place takes at the cautious end beside that
/// of the launch that stays. A judgement, made in view of measured pairs of norms, attention and optimizers, most of
/// which left less.
const LEFT_BEHIND: f64 = 0.15;

/// What is replaced may have been slowed down less by the profiler than what stays, and so be a larger part of the
/// program than it seems: by this much at the hopeful end.
const SLOWED_LESS: f64 = 0.1;

/// The same for equal calls in a loop. In five measured pairs what stayed was slowed down 1.09 to 1.44 times as much, in
/// three others 1.3 to 1.9 times: with less than this their gain passed the hopeful end.
const LOOP_SLOWED_LESS: f64 = 0.9;

/// The same for experts one after another, in whose loops the host also waits to learn how many rows each has. In four
/// measured pairs what stayed was slowed down up to 1.25 times as much.
const EXPERTS_SLOWED_LESS: f64 = 0.3;

/// The same for an optimizer's loop over parameters, which is Python for the larger part. In four measured pairs what
/// stayed was slowed down 1.2 to 1.7 times as much.
const PARAMETERS_SLOWED_LESS: f64 = 0.6;

/// The same for other loops over parameters, as of moving averages. In two measured pairs what stayed was slowed down 1.8
/// and 1.9 times as much.
const TENSORS_SLOWED_LESS: f64 = 0.95;

/// What a batched call takes the host at best, as a share of a turn of the loop it replaces: there is nothing to slice.
const BATCHED_TURN: f64 = 0.5;

/// What limits the speed of the recorded program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Limit {
    /// The GPU: the host is ahead.
    Gpu,
    /// The host under the profiler, the GPU without it.
    HostWhileProfiled,
    /// The host, with or without the profiler.
    Host,
}

/// What depends on the speed of the host.
#[derive(Debug, Clone)]
pub struct HostBound {
    schedule: Schedule,
    slowdown: (f64, f64),
    window: Ns,
    /// The window without any change if the profiler cost nothing, least, and most.
    recorded: [Ns; 3],
    /// The window once the host has come to be ahead of the GPU, if it does.
    settled: Option<Ns>,
    /// The window with each [`Fix`], if the profiler cost nothing, least, and most: several findings ask for the same.
    fixed: [OnceLock<[Ns; 3]>; Fix::COUNT],
    /// What limits the recorded program.
    pub limit: Limit,
    /// How long the window would be without the profiler, in milliseconds.
    pub unprofiled_ms: Range,
    /// Which part of the host's time passes in compiled code.
    pub compiled_share: f64,
    /// Whether most idle time is no matter of the host.
    pub awaits_device: bool,
}

impl HostBound {
    /// Of a recording, which goes before the schedule is run: both are as long as the trace.
    pub(crate) fn of(recording: Recording<'_>, gaps: &Gaps) -> Self {
        let compiled_share = recording.compiled_share();
        let slowdown = slowdown_of(recording.has_frames, compiled_share);
        let schedule = Schedule::of(&recording, gaps);
        drop(recording);
        let (least, most) = slowdown;
        let recorded = schedule.run(&Scenario::RECORDED, [1.0, least, most]);
        let [_, at_least, at_most] = recorded;
        let unprofiled_ms = Range::new(at_most.ms(), at_least.ms());
        // Savings are shares of the window without what is left out of the schedule.
        let window = gaps.window - gaps.first_calls.at_start();
        let (fixed, limit) = (Default::default(), Limit::Gpu);
        let settled = schedule.settled();
        let awaits_device = gaps.awaits_device();
        let mut host = Self {
            schedule,
            slowdown,
            window,
            recorded,
            settled,
            fixed,
            limit,
            unprofiled_ms,
            compiled_share,
            awaits_device,
        };
        // A share of the window without the edges of the capture.
        let inner = (gaps.window - gaps.class(GapClass::Edge).time).ms() / gaps.window.ms().max(f64::MIN_POSITIVE);
        let [as_recorded, _, at_most] = host.speedups(None, Fix::Graph).map(|speedup| (1.0 - 1.0 / speedup) / inner);
        host.limit = if settled.is_some() {
            Limit::Gpu
        } else if at_most > NOTICEABLE {
            Limit::Host
        } else if as_recorded > NOTICEABLE {
            Limit::HostWhileProfiled
        } else {
            Limit::Gpu
        };
        host
    }

    /// Lets go of the schedule, which is as long as the trace, once all findings are made. What is known of it stays.
    pub(crate) fn forget_schedule(&mut self) {
        self.schedule = Schedule::default();
    }

    /// The recorded window, without first calls at the start of a run.
    pub fn window(&self) -> Ns {
        self.window
    }

    /// Least and most the profiler may have slowed the host down.
    pub fn slowdown(&self) -> (f64, f64) {
        self.slowdown
    }

    /// The window with a change of the host's side, if the profiler cost nothing, least, and most.
    fn fixed(&self, fix: Fix) -> [Ns; 3] {
        let run = || self.schedule.run(&fix.scenario(), [1.0, self.slowdown.0, self.slowdown.1]);
        *self.fixed[fix as usize].get_or_init(run)
    }

    /// End-to-end speed-up of a change if the profiler cost nothing, least, and most, compared with the program as
    /// recorded or with another change made.
    fn speedups(&self, before: Option<Fix>, after: Fix) -> [f64; 3] {
        let before = before.map_or(self.recorded, |fix| self.fixed(fix));
        let after = self.fixed(after);
        std::array::from_fn(|n| speedup(before[n], after[n]))
    }

    /// The saving that makes the window as many times shorter, in milliseconds.
    fn saved_by(&self, speedup: f64) -> f64 {
        self.window.ms() * (1.0 - 1.0 / speedup)
    }

    /// The least and the most of two changes over what the profiler may have done, compared with the program as
    /// recorded or with another change made.
    pub(crate) fn saved(&self, before: Option<Fix>, fixes: [Fix; 2]) -> Range {
        let speedups = || fixes.into_iter().flat_map(|fix| self.speedups(before, fix).into_iter().skip(1));
        let (low, high) = (speedups().fold(f64::INFINITY, f64::min), speedups().fold(1.0, f64::max));
        Range::new(self.saved_by(low), self.saved_by(high))
    }

    /// The same for a host that no longer waits. Here the profiler may also have cost nothing: what the host does with
    /// the values it waited for is not what the profiler slows down. With all other host work as it is, or at the hopeful
    /// end as much faster as this part of what a host gains that never waits.
    pub(crate) fn saved_without_waits(&self, uninterrupted: f64) -> Range {
        let saved = self.saved(None, [Fix::NoWaits, Fix::NoReads]);
        let [recorded, ..] = self.speedups(None, Fix::NoReads);
        let host = faster(UNINTERRUPTED_HOST, uninterrupted);
        let most = self.most_saved(None, &Scenario { host, ..Fix::NoReads.scenario() });
        Range::new(saved.low, saved.high.max(self.saved_by(recorded)).max(most))
    }

    /// The most that a change of the host's side saves, compared with the program as recorded or with another change made,
    /// if these kernels also get as much shorter.
    pub(crate) fn most_saved_with(&self, before: Option<Fix>, fix: Fix, spared: &[(u32, Ns)]) -> f64 {
        let mut shorter = vec![0; self.schedule.len()];
        for &(uid, time) in spared {
            if let Some(p) = self.schedule.position(uid) {
                shorter[p] = time.0.min(self.schedule.length(p));
            }
        }
        self.most_saved(before, &Scenario { shorter: Some(&shorter), ..fix.scenario() })
    }

    /// How much less host time lies between launches at the hopeful end of it, in percent.
    pub(crate) fn less_host_percent(uninterrupted: f64) -> f64 {
        100.0 * (1.0 - faster(UNINTERRUPTED_HOST, uninterrupted))
    }

    /// The most that is saved if these kernels, which make flags for the host, go with the reads: with all other host work
    /// as it is, or as much faster as this part of what a host gains that never waits.
    pub(crate) fn most_without_flags(&self, kernels: &[u32], uninterrupted: f64) -> f64 {
        if kernels.is_empty() {
            return 0.0;
        }
        let mut fates = vec![Fate::Stays; self.schedule.len()];
        for p in self.positions(kernels) {
            fates[p] = Fate::Gone;
        }
        let host = faster(FLAGLESS_HOST, uninterrupted);
        self.most_saved(None, &Scenario { fates: Some(&fates), host, ..Fix::NoReads.scenario() })
    }

    /// The most a change saves over what the profiler may have done, compared with the program as recorded or with another
    /// change made.
    fn most_saved(&self, before: Option<Fix>, scenario: &Scenario<'_>) -> f64 {
        let [_, before @ ..] = before.map_or(self.recorded, |fix| self.fixed(fix));
        let after = self.schedule.run(scenario, [self.slowdown.0, self.slowdown.1]);
        let saved = std::array::from_fn::<f64, 2, _>(|n| self.saved_by(speedup(before[n], after[n])));
        saved.into_iter().fold(0.0, f64::max)
    }

    /// The least and the most that shorter copies bring, which the host waits for as it did.
    pub(crate) fn saved_by_shorter_copies(&self, shorter: &[i64]) -> Range {
        self.saved_by_copies(&Scenario { shorter: Some(shorter), ..Scenario::RECORDED })
    }

    /// The same for copies that the host does not wait for; `relieved` where it no longer moves their bytes itself.
    pub(crate) fn saved_by_hidden_copies(&self, shorter: &[i64], relieved: bool) -> Range {
        let host = if relieved { RELIEVED_HOST } else { 1.0 };
        self.saved_by_copies(&Scenario { without: Without::Copies, shorter: Some(shorter), host, ..Scenario::RECORDED })
    }

    fn saved_by_copies(&self, scenario: &Scenario<'_>) -> Range {
        let [_, before @ ..] = self.recorded;
        let after = self.schedule.run(scenario, [self.slowdown.0, self.slowdown.1]);
        let [a, b]: [f64; 2] = std::array::from_fn(|n| self.saved_by(speedup(before[n], after[n])));
        Range::new(a, b)
    }

    /// What it brings to have input when it is needed, in milliseconds of the window. A step that begins with fetching
    /// input is longer than what the window shows of it: the share that the input has of both, from the first step on,
    /// is what the window gets shorter by. Low as recorded without half of the input: the other half may be the first
    /// touch of data that has to be fetched in any case. High without the gaps that it takes or, where the host limits the
    /// rest of the step, with that rest as short as it may be without the profiler, which does not slow down those who
    /// wait for input; and without waits for copies to the device, which are made while the step before runs.
    pub(crate) fn saved_input(&self, gaps: Ns, before: Ns) -> Range {
        let run = |without: Without, profiler: [f64; 3]| {
            self.schedule.run(&Scenario { without, ..Scenario::RECORDED }, profiler)
        };
        let profiler = [1.0, self.slowdown.0, self.slowdown.1];
        let without = run(Without::Input, profiler);
        let ahead =
            if self.schedule.awaits_copies_to_device() { run(Without::InputAndCopies, profiler) } else { without };
        let saved = |recorded: Ns, without: Ns| self.saved_by(speedup(recorded + before, without));
        let gone = self.saved_by(speedup(self.window + before, self.window - gaps));
        let rerun = saved(self.recorded[0], without[0]);
        let most = self.recorded.into_iter().zip(ahead).map(|(recorded, ahead)| saved(recorded, ahead));
        Range::new(rerun.min(gone) / 2.0, most.fold(gone, f64::max))
    }

    /// What a saving of kernel time brings end to end, in milliseconds of the window: the low end with a host as slow as
    /// it may be (as recorded, where it is the limit), the high end with one as fast as it may be without the profiler.
    /// The kernels are GPU events by UID; each gets shorter in proportion to its time. A window that is shorter without
    /// the profiler gets shorter by as large a share of it.
    pub fn clip_range(&self, saved_ms: Range, kernels: &[u32]) -> Range {
        let positions = self.positions(kernels);
        let [low, high] = [saved_ms.low, saved_ms.high].map(|saved| self.clip_at(saved, &positions));
        Range::new(low.low, high.high)
    }

    fn clip_at(&self, saved_ms: f64, positions: &[usize]) -> Range {
        let all = positions.iter().map(|&p| Ns(self.schedule.length(p))).sum::<Ns>().0;
        if all <= 0 || saved_ms <= 0.0 {
            return Range::new(0.0, 0.0);
        }
        let share = (saved_ms * 1e6 / all as f64).min(1.0);
        let mut shorter = vec![0; self.schedule.len()];
        for &p in positions {
            shorter[p] = (self.schedule.length(p) as f64 * share).round() as i64;
        }
        self.shares(&Scenario { shorter: Some(&shorter), ..Scenario::RECORDED })
    }

    /// A saving of GPU time as milliseconds of the recorded window, where the host is ahead: what the profiler adds
    /// between steps, at least, is no part of the program at the hopeful end, and what the GPU waits for before the host
    /// has come to be ahead at neither.
    pub fn unprofiled(&self, saved_ms: Range) -> Range {
        let scale = |window: Ns| (self.window.ms() / window.ms().max(f64::MIN_POSITIVE)).max(1.0);
        let settled = self.settled.unwrap_or(self.window);
        Range::new(saved_ms.low * scale(settled), saved_ms.high * scale(self.unprofiled_window()))
    }

    /// Whether the host comes to be ahead of the GPU only after the recording has begun.
    pub fn has_settled(&self) -> bool {
        self.settled.is_some_and(|settled| settled < self.recorded[1])
    }

    /// The window if the profiler cost least, once the host has come to be ahead of the GPU if it does.
    pub fn unprofiled_window(&self) -> Ns {
        self.settled.map_or(self.recorded[1], |settled| settled.min(self.recorded[1]))
    }

    /// What it brings end to end not to launch these kernels at all, in milliseconds of the window: their GPU time
    /// where the host is ahead, the host time of their launches where it is not, whichever the profiler left it to be.
    pub fn clip_removal(&self, kernels: &[u32]) -> Range {
        let mut fates = vec![Fate::Stays; self.schedule.len()];
        for p in self.positions(kernels) {
            fates[p] = Fate::Gone;
        }
        self.shares(&Scenario { fates: Some(&fates), ..Scenario::RECORDED })
    }

    /// What it brings end to end to put fewer kernels in the place of several, in milliseconds of the window: the GPU
    /// time that goes and the launches that go. At the cautious end the replacements are as slow and as many as they
    /// may be, and what calls them still takes a part of the host time of what they replace.
    pub fn clip_fusion(&self, replacements: &[Replacement]) -> Range {
        let [low, high] = [End::Cautious, End::Hopeful].map(|end| self.fusion(replacements, end));
        let window = self.window.ms();
        let share = high.high / window.max(f64::MIN_POSITIVE);
        let are_all = |replaced: Replaced| replacements.iter().all(|r| r.replaced == replaced);
        // What takes the place of a loop is like one of its turns and no part of what stays.
        let (slowed_less, instead) = match () {
            () if are_all(Replaced::Loop) => (LOOP_SLOWED_LESS, BATCHED_TURN * share * turn(replacements)),
            () if are_all(Replaced::Experts) => (EXPERTS_SLOWED_LESS, 0.0),
            () if are_all(Replaced::Parameters) => (PARAMETERS_SLOWED_LESS, 0.0),
            () if are_all(Replaced::Tensors) => (TENSORS_SLOWED_LESS, 0.0),
            () => (SLOWED_LESS, 0.0),
        };
        let stays = (1.0 - share - instead).max(0.0);
        let allowance = if self.limit == Limit::Gpu { 0.0 } else { slowed_less * stays };
        Range::new(low.low, high.high * (1.0 + allowance))
    }

    fn fusion(&self, replacements: &[Replacement], end: End) -> Range {
        let mut fates = vec![Fate::Stays; self.schedule.len()];
        let mut shorter = vec![0; self.schedule.len()];
        let mut added = vec![0; self.schedule.len()];
        let mut spared = vec![0; self.schedule.len()];
        let cautious = end == End::Cautious;
        let is_loop = |r: &Replacement| matches!(r.replaced, Replaced::Loop | Replaced::Heads);
        let has_loops = replacements.iter().any(is_loop);
        let before = if has_loops && !cautious { self.schedule.host_before() } else { Vec::new() };
        for r in replacements {
            let positions = self.positions(&r.kernels);
            let (launches, ms) = if cautious { (r.launches.1, r.ms.high) } else { (r.launches.0, r.ms.low) };
            // The first ones keep their launch; what the others did is done by then.
            let (stay, go) = positions.split_at(launches.clamp(1, positions.len().max(1)).min(positions.len()));
            let Some(&first) = stay.first() else { continue };
            let now = stay.iter().map(|&p| Ns(self.schedule.length(p))).sum::<Ns>().0;
            let share = ms.max(0.0) * 1e6 / now.max(1) as f64;
            for &p in stay {
                let length = self.schedule.length(p) as f64;
                shorter[p] = (length - length * share).round() as i64;
                fates[p] = Fate::Replaced;
            }
            added[first] = (if cautious { r.call_us.1 } else { r.call_us.0 } * 1e3).round() as i64;
            for &p in go {
                fates[p] = if r.replaced.is_region() { Fate::Merged } else { Fate::Gone };
            }
            if is_loop(r) && !cautious {
                // What comes before a loop is often the end of the one in the step before, which goes with it.
                let mut others: Vec<i64> = go.iter().map(|&p| before[p]).collect();
                others.sort_unstable();
                let usual = others.get(others.len() / 2).copied().unwrap_or(before[first]);
                spared[first] = (before[first] - usual).max(0);
            }
        }
        let left_behind = if cautious { LEFT_BEHIND } else { 0.0 };
        let changed = Scenario {
            fates: Some(&fates),
            shorter: Some(&shorter),
            added: Some(&added),
            spared: Some(&spared),
            left_behind,
            ..Scenario::RECORDED
        };
        let [_, recorded @ ..] = self.recorded;
        let [a, b] = self.shares_saved(&changed, [self.slowdown.0, self.slowdown.1], recorded);
        Range::new(a, b)
    }

    /// Whether the GPU waits for launches, at least while it is profiled.
    pub fn is_limit(&self) -> bool {
        self.limit != Limit::Gpu
    }

    /// What reports have to say beside savings of kernel time; nothing if the GPU is the limit.
    pub fn note(&self) -> Option<String> {
        let (least, most) = self.slowdown;
        let waits = if self.awaits_device {
            "For the smaller part of its idle time the GPU waits for late launches"
        } else {
            "The GPU waits for the host in this trace"
        };
        match self.limit {
            Limit::Gpu => None,
            Limit::HostWhileProfiled => Some(format!(
                "{waits}, but would not if the profiler slowed the host down by a \
                 factor of {most} ({least} to {most} is usual). Savings of kernel time are limited to what they bring \
                 in the recorded schedule at their low end.",
            )),
            Limit::Host => Some(format!(
                "{waits}: a shorter kernel saves nothing where the next launch comes \
                 later than its end. Savings of kernel time are limited to what they bring in the recorded schedule."
            )),
        }
    }

    fn positions(&self, kernels: &[u32]) -> Vec<usize> {
        let mut positions: Vec<usize> = kernels.iter().filter_map(|&uid| self.schedule.position(uid)).collect();
        positions.sort_unstable();
        positions.dedup();
        positions
    }

    /// Least and most of what a change saves, as the same share of the recorded window. Where the host is ahead even
    /// under the profiler, only a large change makes it the limit, and then it is the host without the profiler that is:
    /// in twelve measured pairs from fp32 to bf16 it issued a step 1.4 to 2.4 times as fast as recorded.
    fn shares(&self, changed: &Scenario<'_>) -> Range {
        let (least, most) = self.slowdown;
        let [nothing, at_least, at_most] = self.recorded;
        let (cautious, before) = if self.limit == Limit::Gpu { (least, at_least) } else { (1.0, nothing) };
        let all = self.shares_saved(changed, [cautious, least, most], [before, at_least, at_most]);
        Range::new(all.into_iter().fold(f64::INFINITY, f64::min), all.into_iter().fold(0.0, f64::max))
    }

    /// What a change saves for each guess at the profiler's cost, as a share of the unchanged window under the same
    /// guess, in milliseconds of the recorded one.
    fn shares_saved<const N: usize>(&self, changed: &Scenario<'_>, profiler: [f64; N], unchanged: [Ns; N]) -> [f64; N] {
        let windows = self.schedule.run(changed, profiler);
        std::array::from_fn(|n| self.window.ms() * (1.0 - windows[n].ms() / unchanged[n].ms().max(f64::MIN_POSITIVE)))
    }
}

/// How many times slower the profiler makes a host that spends this share of its recorded time in compiled code: least
/// and most. Times add up, so it is the harmonic mean; to a tenth, as it is told.
fn slowdown_of(has_frames: bool, compiled: f64) -> (f64, f64) {
    if !has_frames {
        return SLOWDOWN;
    }
    let mixed = |others: f64, in_compiled: f64| {
        let compiled = compiled.clamp(0.0, 1.0);
        round(1.0 / ((1.0 - compiled) / others + compiled / in_compiled), 1)
    };
    let (others, in_compiled) = (SLOWDOWN_WITH_FRAMES, SLOWDOWN_COMPILED_WITH_FRAMES);
    (mixed(others.0, in_compiled.0), mixed(others.1, in_compiled.1))
}

/// What stays of loops at best, as a share of what goes.
fn turn(replacements: &[Replacement]) -> f64 {
    let sum = |count: fn(&Replacement) -> usize| replacements.iter().map(count).sum::<usize>() as f64;
    let (all, stay) = (sum(|r| r.kernels.len()), sum(|r| r.launches.0));
    stay / (all - stay).max(1.0)
}

/// What is left of the host time if this part of what can go goes.
fn faster(left: f64, part: f64) -> f64 {
    1.0 - part * (1.0 - left)
}

fn speedup(before: Ns, after: Ns) -> f64 {
    if after.0 <= 0 { 1.0 } else { (before.0 as f64 / after.0 as f64).max(1.0) }
}

/// Kernels in the place of others.
#[derive(Debug, Clone, PartialEq)]
pub struct Replacement {
    /// UIDs of what is replaced.
    pub kernels: Vec<u32>,
    /// GPU time of what takes their place, in milliseconds: at best, at worst.
    pub ms: Range,
    /// Launches that stay: fewest, most.
    pub launches: (usize, usize),
    /// Host time that the call in their place takes on top, in microseconds: at best, at worst.
    pub call_us: (f64, f64),
    /// What they are.
    pub replaced: Replaced,
}

/// What kernels are replaced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Replaced {
    /// Operations in a row: the call in their place may also take a part of their host time.
    Region,
    /// The same of an optimizer, parameter by parameter.
    Parameters,
    /// The same of any loop over tensors.
    Tensors,
    /// Those of experts, one after another: the host time of all but the first goes.
    Experts,
    /// Those of steps in time: the same.
    Steps,
    /// Those of heads, one after another: as with a loop.
    Heads,
    /// Equal calls in a loop: one like them takes their place, and at best takes the host no longer than one of them.
    Loop,
}

impl Replaced {
    /// Whether the call in their place may take a part of their host time.
    fn is_region(self) -> bool {
        matches!(self, Self::Region | Self::Parameters | Self::Tensors)
    }
}

/// An end of a range.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    Cautious,
    Hopeful,
}

/// A change to the host's side.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Fix {
    /// Each step is issued at once.
    Graph,
    /// The host needs less time between launches.
    Compiled,
    /// The host no longer waits in the middle of a step, but still does all else.
    NoWaits,
    /// The same, and operations that only read a value are gone.
    NoReads,
    /// The same, and each step is issued at once.
    NoReadsGraph,
    /// No reads either, and what lies between the waits is compiled.
    NoReadsCompiled,
}

impl Fix {
    const COUNT: usize = Self::NoReadsCompiled as usize + 1;

    fn scenario(self) -> Scenario<'static> {
        let recorded = Scenario::RECORDED;
        let waitless = Scenario { without: Without::Reads, ..recorded };
        match self {
            Self::Graph => Scenario { graph: true, ..recorded },
            Self::Compiled => Scenario { host: COMPILED_HOST, ..recorded },
            Self::NoWaits => Scenario { without: Without::MidStepWaits, ..recorded },
            Self::NoReads => waitless,
            Self::NoReadsGraph => Scenario { graph: true, ..waitless },
            Self::NoReadsCompiled => Scenario { host: COMPILED_HOST, ..waitless },
        }
    }
}

#[cfg(test)]
mod tests;
