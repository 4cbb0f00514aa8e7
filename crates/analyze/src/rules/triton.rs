//! The analyzer of compiled kernels; [`DOC`] is what `jarvis explain triton` prints.

use serde_json::json;

use super::AnalyzerInfo;
use super::cx::CategoryCx;
use super::drive::Rules;
use super::judge::{Group, Judged, Judgement, assess_bandwidth};
use super::words::Said;
use crate::finding::PatternId;
use crate::metrics::{CategoryMetrics, Classification, TritonClass};
use crate::prepare::kernel_names::is_generated;
use crate::prepared::{BoundType, Row};
use crate::rounding::{round, shown};
use crate::texts::TextId;
use crate::thresholds::Threshold;

const DOC: &str = "\
Kernels made by a compiler, or written by hand in Triton.

## What it finds
Compiled kernels far below the side of the roofline that binds them, and compile regions that are so narrow that they
end in many short kernels.

## Why it matters
Compiled code replaces many kernels by one; that only pays if the one runs close to the memory bandwidth.

## How it is computed
Efficiency is the roofline time over kernel time. A row is a bottleneck if it takes more than `triton.time_ms` or
`bottleneck.percent_of_category` and reaches less than `bottleneck.efficiency`.

## What to do
Of a kernel that the compiler wrote, let it try other block sizes, and widen the compile region; of one that was written
by hand, compare it with the equivalent framework operation before tuning it.

## Limits
The bytes of a compiled kernel are reckoned from its tensors and its name. It cannot be replayed as one operation.";

const INFO: AnalyzerInfo = AnalyzerInfo {
    id: "triton",
    title: "Compiled kernels below the roofline",
    doc: DOC,
    time: Threshold::TritonTimeMs,
    thresholds: &[Threshold::HighCountUs],
};

/// Above this many short kernels the compile region is narrow.
const MANY_KERNELS: usize = 200;

/// Prefixes of names and the kinds of kernel they mean.
const KINDS: &[(&str, &str)] = &[
    ("triton_poi_", "pointwise"),
    ("triton_red_", "reduction"),
    ("triton_per_", "persistent"),
    ("triton_tem_", "template"),
];

/// The analyzer of compiled kernels.
#[derive(Debug)]
pub(super) struct Triton;

fn kind(name: &str) -> &'static str {
    KINDS.iter().find(|(prefix, _)| name.starts_with(prefix)).map_or("other", |(_, kind)| kind)
}

/// What the kernel was fused of: what stands between the prefix and the trailing number.
fn fused(name: &str) -> &str {
    let rest = KINDS.iter().find_map(|(prefix, _)| name.strip_prefix(prefix)).unwrap_or(name);
    let rest = rest.strip_prefix("fused_").unwrap_or(rest);
    let stem = rest.trim_end_matches(|c: char| c.is_ascii_digit());
    stem.strip_suffix('_').unwrap_or(rest)
}

fn calls(cx: &CategoryCx<'_>) -> (usize, f64) {
    let calls: usize = cx.rows().map(|r| r.count).sum();
    let us = if calls > 0 { 1e3 * cx.category.time_ms / calls as f64 } else { 0.0 };
    (calls, us)
}

impl Rules for Triton {
    fn info(&self) -> &'static AnalyzerInfo {
        &INFO
    }

    fn judge(&self, cx: &CategoryCx<'_>, row: &Row) -> Judgement {
        let mut j = Judgement::usual(cx, row);
        j.finding = Some(PatternId::TRITON_BELOW_BAND);
        // What reaches so much at most may be slow, and is not called good.
        let known = |e: &f64| !row.efficiency.is_at_most() || *e < cx.limit(Threshold::EffAcceptable);
        j.assessment = row.efficiency.judged().filter(known).map(|e| assess_bandwidth(cx, e, "Needs investigation"));
        j
    }

    fn classify(&self, _: &CategoryCx<'_>, judged: &Judged<'_>) -> Classification {
        let row = judged.row;
        Classification::Triton(TritonClass {
            kernel_type: kind(&row.name),
            fused_ops: fused(&row.name).into(),
            bound_type: row.efficiency.bound_type,
        })
    }

    fn say(&self, cx: &CategoryCx<'_>, group: &Group<'_>) -> Said {
        let mut said = Said::default();
        said.bound(cx, group);
        let generated = is_generated(&group.row().name);
        said.model(if generated { TextId::A_GENERATED } else { TextId::A_TRITON_VALIDATE }, &[]);
        let (count, us) = calls(cx);
        if count > MANY_KERNELS && us < cx.limit(Threshold::HighCountUs) {
            said.model(TextId::A_COMPILE_SCOPE, &[("n", &count.to_string()), ("us", &shown(us, 1))]);
        }
        if group.row().efficiency.bound_type == Some(BoundType::Memory) {
            said.bandwidth(cx, group);
        }
        said.selection(group.row());
        said.replay();
        said
    }

    fn finish(&self, cx: &CategoryCx<'_>, _: &[Judged<'_>], metrics: &mut CategoryMetrics) {
        let of = |wanted: &str| cx.rows().filter(|r| kind(&r.name) == wanted).map(|r| r.count).sum::<usize>();
        let bound = |b: BoundType| cx.rows().filter(|r| r.efficiency.bound_type == Some(b)).count();
        metrics.category_specific.extend([
            ("pointwise_count", json!(of("pointwise"))),
            ("reduction_count", json!(of("reduction"))),
            ("persistent_count", json!(of("persistent"))),
            ("template_count", json!(of("template"))),
            ("other_count", json!(of("other"))),
            ("compute_bound_count", json!(bound(BoundType::Compute))),
            ("memory_bound_count", json!(bound(BoundType::Memory))),
            ("average_kernel_us", json!(round(calls(cx).1, 2))),
        ]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_tell_kind_and_operations() {
        assert_eq!(kind("triton_poi_fused_add_mul_3"), "pointwise");
        assert_eq!(fused("triton_poi_fused_add_mul_3"), "add_mul");
        assert_eq!(kind("triton_mm"), "other");
        assert_eq!(fused("my_kernel"), "my_kernel");
    }
}
