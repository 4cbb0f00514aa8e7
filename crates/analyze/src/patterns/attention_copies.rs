//! Copies that attention does not need.
//!
//! # What it finds
//! Key/value heads written out once per query head before attention (`[B, Hkv, r, N, d]` or `[B, N, Hkv, r, d]` with
//! stride 0 at `r`, as `expand` and `repeat_interleave` leave it), and Q, K, V or output copies around a fused attention
//! kernel (at least two, made by `contiguous` or `clone`).
//!
//! # Why it matters
//! The copies move r times the bytes of the heads and are read again at once; fused kernels read shared heads and
//! strided inputs in place.
//!
//! # How it is computed
//! Saved is what the copies take, and their backward; at least 65% of it. Where heads were repeated, attention that memory
//! bounds may also read them r times less often.
//!
//! # What to do
//! `enable_gqa=True`, or leave out `.contiguous()`.
//!
//! # Limits
//! Strides must be recorded to tell an expanded tensor from an ordinary one. A backend that accepts no strided input
//! copies inside the call, and then the copies only move.

use super::claims::Claims;
use super::group::Instance;
use super::scene::Scene;
use super::show::dims;
use super::{Code, Confidence, Fused};
use crate::program::LeafId;
use crate::program::kind::Kind;

pub(super) const HINTS: &[&str] = &["attn", "attention", "sdpa"];
/// Leaves between a copy and the attention it is for.
pub(super) const REACH: usize = 12;
/// Attention that reads slower than the peak by more than this is bound by something else too.
const SLOWEST_READING: f64 = 1.25;
/// Fewer copies around one attention call are no pattern.
const LEAST_COPIES: usize = 2;

/// Finds repeated heads, then plain copies around fused attention.
pub(super) fn find(scene: &Scene<'_>, claims: &mut Claims) -> Vec<Instance> {
    let heads = repeated_heads(scene, claims);
    let mut found = claims.settle(scene, heads);
    let attention = (0..scene.len()).filter(|&i| scene.look(i).kind == Kind::Attention);
    let copies = attention.filter_map(|i| copies_around(scene, claims, i)).collect();
    found.extend(claims.settle(scene, copies));
    found
}

/// How often a copy writes each head out.
fn repeats(scene: &Scene<'_>, at: usize) -> Option<i64> {
    let look = scene.look(at);
    let source = look.operands.last().filter(|_| look.kind == Kind::Copy)?;
    // Heads before tokens or after them.
    let r = match (source.dims, source.strides?) {
        ([_, _, r, _, _], [_, _, 0, _, _]) | ([_, _, _, r, _], [_, _, _, 0, _]) => *r,
        _ => return None,
    };
    (r > 1).then_some(r)
}

/// The attention, in one kernel or several, that follows soon.
pub(super) fn attention_after(scene: &Scene<'_>, at: usize) -> Option<usize> {
    let is_attention = |i: usize| {
        let look = scene.look(i);
        matches!(look.kind, Kind::Attention | Kind::Softmax) || matches!(look.base, "bmm" | "baddbmm")
    };
    scene.after(at).take(REACH).find(|&i| is_attention(i))
}

/// Whether memory bounds an operation, so that it gets faster with fewer bytes to read.
fn is_memory_bound(scene: &Scene<'_>, at: usize) -> bool {
    scene.sides_us(scene.look(at)).is_some_and(|(arithmetic, memory)| memory > arithmetic)
}

/// How many times as long as its bytes take at the peak bandwidth an operation does, as far as they alone may be why.
fn slower_than_peak(scene: &Scene<'_>, at: usize) -> f64 {
    let memory_us = scene.sides_us(scene.look(at)).map_or(f64::INFINITY, |(_, memory)| memory);
    (scene.leaf(at).us / memory_us).clamp(1.0, SLOWEST_READING)
}

/// What it takes to read what a copy repeats of heads; nothing of other leaves.
fn unread_us(scene: &Scene<'_>, at: usize) -> f64 {
    let unread = |r: i64| scene.look(at).result_bytes() * (r - 1) as f64 / r as f64;
    repeats(scene, at).map_or(0.0, unread) / scene.bytes_per_us()
}

/// What attention in separate operations that memory bounds need not read of heads that its own copies repeat, at best, in
/// milliseconds.
pub(super) fn unread_ms(scene: &Scene<'_>, attention: &[LeafId]) -> f64 {
    let is_bound = |l: &LeafId| scene.look(l.index()).kind == Kind::Matrix && is_memory_bound(scene, l.index());
    let repeated = || attention.iter().map(|l| unread_us(scene, l.index())).sum::<f64>() / 1e3;
    if attention.iter().any(is_bound) { repeated() } else { 0.0 }
}

fn repeated_heads(scene: &Scene<'_>, claims: &Claims) -> Vec<Instance> {
    let mut found: Vec<Instance> = Vec::new();
    let mut at = 0;
    while at < scene.len() {
        let attention = attention_after(scene, at).filter(|_| claims.is_free(at));
        let Some((r, attention)) = repeats(scene, at).zip(attention) else {
            at += 1;
            continue;
        };
        // Keys and values of one call belong together.
        let same = |i: &usize| repeats(scene, *i) == Some(r) && scene.look(*i).full == scene.look(at).full;
        let partner = scene.after(at).take(REACH).take_while(|i| scene.look(*i).kind != Kind::Matrix).find(same);
        let leaves: Vec<LeafId> = [Some(at), partner].into_iter().flatten().map(|i| LeafId(i as u32)).collect();
        at = partner.unwrap_or(at) + 1;
        let mut instance =
            Instance::new(scene, Code::RepeatedKvHeads, leaves.clone(), leaves[0], HINTS, Confidence::High);
        instance.backward = scene.backward_of(&leaves);
        let source = &scene.look(leaves[0].index()).full;
        instance.evidence.push(format!("heads {} are expanded with stride 0 and then copied {r} times", dims(source)));
        instance.facts = vec![("r", r.to_string())];
        removed(&mut instance);
        if is_memory_bound(scene, attention) {
            // What attention need not read any more comes on top, at best.
            let peak_us: f64 = leaves.iter().map(|l| unread_us(scene, l.index())).sum();
            let slower = slower_than_peak(scene, attention);
            instance.fused = Some(Fused { best_us: -peak_us * slower, worst_us: 0.0 });
            instance.basis.push_str(", and attention, which memory bounds, at best reads that much less");
        }
        found.push(instance);
    }
    found
}

/// Copies of what goes into and comes out of an attention kernel.
fn copies_around(scene: &Scene<'_>, claims: &Claims, attention: usize) -> Option<Instance> {
    let look = scene.look(attention);
    let sizes: Vec<i64> =
        look.operands.iter().filter(|o| o.dims.len() >= 3).map(super::scene::Operand::numel).collect();
    let by_request = |i: usize| {
        let mut around = scene.program.ops_around(scene.leaf(i));
        around.any(|op| matches!(&**op, "aten::contiguous" | "aten::clone"))
    };
    let is_copy = |i: &usize| {
        let look = scene.look(*i);
        look.kind == Kind::Copy && sizes.contains(&look.numel()) && by_request(*i) && claims.is_free(*i)
    };
    let up_to_projection = |i: &usize| !matches!(scene.look(*i).kind, Kind::Matrix | Kind::Attention);
    let before = scene.before(attention).rev().take(REACH).take_while(up_to_projection).filter(is_copy);
    let after = scene.after(attention).take(REACH).take_while(up_to_projection).filter(is_copy).take(1);
    let mut copies: Vec<usize> = before.chain(after).collect();
    if copies.len() < LEAST_COPIES {
        return None;
    }
    copies.sort_unstable();
    let leaves: Vec<LeafId> = copies.into_iter().map(|i| LeafId(i as u32)).collect();
    let anchor = LeafId(attention as u32);
    let mut instance = Instance::new(scene, Code::SdpaCopyOverhead, leaves, anchor, HINTS, Confidence::High);
    instance.backward = scene.backward_of(&instance.leaves);
    let name = &scene.leaf(attention).name;
    instance
        .evidence
        .push(format!("{} copies of the size of Q, K, V or the output around `{name}`", instance.leaves.len()));
    removed(&mut instance);
    Some(instance)
}

/// Copies are not replaced by anything.
fn removed(instance: &mut Instance) {
    instance.fused = Some(Fused::NOTHING);
    "the copies are removed and nothing replaces them".clone_into(&mut instance.basis);
}
