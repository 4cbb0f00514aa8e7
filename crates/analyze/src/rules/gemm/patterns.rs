//! Patterns that the shape and the kernel of a product show.

use super::shape::{Heavy, Shape};
use super::{over_roofline, shown_factor};
use crate::finding::{Mending, PatternId, Range};
use crate::metrics::{CategoryMetrics, Promoted};
use crate::prepared::{BoundType, Prepared, Row};
use crate::rounding::{shown, shown_ms};
use crate::rules::cx::CategoryCx;
use crate::rules::judge::{Judged, Judgement, RowPattern, aggregate};
use crate::rules::priority::Weight;
use crate::rules::words::{Said, maybe, trains};
use crate::rules::{impact, precision};
use crate::texts::{TextId, listed, quoted};
use crate::thresholds::Threshold;

/// Codes of patterns.
pub(super) mod code {
    pub(in super::super) const TINY_BATCHED_GEMM: &str = "TINY_BATCHED_GEMM";
    pub(in super::super) const SKINNY_GEMM: &str = "SKINNY_GEMM";
    pub(in super::super) const FEW_TILES: &str = "FEW_TILES";
    pub(in super::super) const TILE_PADDING: &str = "TILE_PADDING";
    pub(in super::super) const UNALIGNED_SHAPE: &str = "UNALIGNED_SHAPE";
    pub(in super::super) const QUANTIZED_GEMM: &str = "QUANTIZED_GEMM";
    pub(in super::super) const COMPUTE_BOUND_LOW: &str = "COMPUTE_BOUND_LOW";
    pub(in super::super) const MEMORY_BOUND_LOW: &str = "MEMORY_BOUND_LOW";
    pub(in super::super) const HIGH_COUNT: &str = "HIGH_COUNT";
}

/// Words in names of operations and kernels that mean quantized operands.
const QUANTIZED_WORDS: &[&str] =
    &["w8a8", "a8w8", "int8", "fp8", "w4a16", "w4a4", "a4w4", "fp4", "mxfp4", "_scaled_mm", "_int_mm"];

/// Parts of type names that mean quantized operands.
const QUANTIZED_TYPES: &[&str] = &["float8", "float4", "signed char", "qint8", "quint8", "unsigned char"];

/// All patterns of a row.
pub(super) fn of(cx: &CategoryCx<'_>, row: &Row, shape: Option<&Shape>) -> Vec<RowPattern> {
    let mut out = Vec::new();
    if let Some(shape) = shape {
        out.extend(tiny(cx, row, shape));
        out.extend(skinny(cx, row, shape));
        out.extend(few_tiles(cx, row, shape));
        out.extend(padding(cx, row, shape));
        out.extend(unaligned(cx, row, shape));
    }
    out.extend(quantized(row));
    out.extend(low_rates(cx, row));
    out.extend(high_count(cx, row));
    out.extend(precision::pattern(cx, row));
    out
}

fn tiny(cx: &CategoryCx<'_>, row: &Row, s: &Shape) -> Option<RowPattern> {
    (s.is_tiny_batched(row, &cx.prepared.thresholds) || is_looped(cx.prepared, row)).then(|| {
        let mut evidence = vec![format!("{} matrices per call", s.batch), format!("M={} N={} K={}", s.m, s.n, s.k)];
        if is_looped(cx.prepared, row) {
            evidence.push(format!("{} calls one after another", row.back_to_back.calls));
        }
        evidence.extend(over_roofline(row).map(|f| format!("{}x the roofline time", shown(f, 1))));
        RowPattern::new(code::TINY_BATCHED_GEMM, evidence).high().kernel_work()
    })
}

/// Many calls in a row with nothing between them, each of which could be done before a kernel has started and ended: what
/// one call gives the next does not use, so they could be one.
pub(in crate::rules) fn is_looped(p: &Prepared, row: &Row) -> bool {
    let short = row.efficiency.roofline_time_us.is_some_and(|us| us < p.kernel_floor_us);
    row.back_to_back.calls as f64 >= p.thresholds.get(Threshold::GemmTinyLoop) && short
}

fn skinny(cx: &CategoryCx<'_>, row: &Row, s: &Shape) -> Option<RowPattern> {
    let memory = row.efficiency.bound_type == Some(BoundType::Memory);
    (s.is_skinny(cx) && memory).then(|| {
        let evidence = vec![format!("M={} N={} K={}", s.m, s.n, s.k), "bound by memory".to_owned()];
        RowPattern::new(code::SKINNY_GEMM, evidence).high()
    })
}

fn few_tiles(cx: &CategoryCx<'_>, row: &Row, s: &Shape) -> Option<RowPattern> {
    let units = cx.prepared.compute_units?;
    let fit = s.tiles(row).filter(|f| !f.at_least && f.tiles < units)?;
    let compute = row.efficiency.bound_type == Some(BoundType::Compute);
    let evidence = vec![format!("{} tiles < {units} compute units", fit.tiles)];
    compute.then(|| RowPattern::new(code::FEW_TILES, evidence).kernel_work())
}

fn padding(cx: &CategoryCx<'_>, row: &Row, s: &Shape) -> Option<RowPattern> {
    let waste = s.tiles(row)?.padding_percent;
    let slow = row.efficiency.judged().is_some_and(|e| e < cx.limit(Threshold::GemmUnaligned));
    let compute = row.efficiency.bound_type == Some(BoundType::Compute);
    (waste > cx.limit(Threshold::GemmPadding) && slow && compute)
        .then(|| RowPattern::new(code::TILE_PADDING, vec![format!("{}% of the tile area is padding", shown(waste, 1))]))
}

fn unaligned(cx: &CategoryCx<'_>, row: &Row, s: &Shape) -> Option<RowPattern> {
    let odd = s.unaligned();
    let slow = row.efficiency.judged().is_some_and(|e| e < cx.limit(Threshold::GemmUnaligned));
    (slow && !odd.is_empty()).then(|| {
        let told = |(dim, value, next): (&str, i64, i64)| {
            format!("rows of {dim}={value} {} values are no multiple of 16 bytes; {next} are", quoted(&s.dtype))
        };
        RowPattern::new(code::UNALIGNED_SHAPE, odd.into_iter().map(told).collect())
    })
}

fn quantized(row: &Row) -> Option<RowPattern> {
    let named = |text: &str| {
        let lower = text.to_lowercase();
        QUANTIZED_WORDS.iter().any(|w| lower.contains(w))
    };
    let types = || row.inputs.types.as_deref().unwrap_or_default().iter();
    let typed = types().find(|t| {
        let lower = t.to_lowercase();
        QUANTIZED_TYPES.iter().any(|q| lower.contains(q))
    });
    let found = named(&row.name) || row.kernels.iter().any(|k| named(&k.name));
    let evidence = match (typed, found) {
        (Some(kind), _) => format!("operands of type {kind}"),
        (None, true) => "named as quantized".to_owned(),
        (None, false) => return None,
    };
    Some(RowPattern::new(code::QUANTIZED_GEMM, vec![evidence]).high().fact())
}

/// Compute-bound by intensity and slow, or memory-bound by intensity and slow.
fn low_rates(cx: &CategoryCx<'_>, row: &Row) -> Option<RowPattern> {
    let e = &row.efficiency;
    let (fpb, _) = (e.flops_per_byte?, e.judged()?);
    let low = cx.limit(Threshold::BottleneckEfficiency) / 100.0;
    if fpb > cx.limit(Threshold::GemmIntensityCompute) {
        let (rate, peak) = (e.tflops_achieved?, e.resolved_peak_maf?);
        let evidence = vec![format!("FLOPS/Byte {}", shown(fpb, 1)), format!("{} of {peak} TFLOPS/s", shown(rate, 1))];
        return (rate < low * peak).then(|| RowPattern::new(code::COMPUTE_BOUND_LOW, evidence));
    }
    if fpb < cx.limit(Threshold::GemmIntensityMemory) {
        let rate = e.tb_s_achieved?;
        let evidence =
            vec![format!("FLOPS/Byte {}", shown(fpb, 1)), format!("{} of {} TB/s", shown(rate, 2), cx.peak_tbs())];
        return (rate < low * cx.peak_tbs()).then(|| RowPattern::new(code::MEMORY_BOUND_LOW, evidence));
    }
    None
}

fn high_count(cx: &CategoryCx<'_>, row: &Row) -> Option<RowPattern> {
    let many = cx.limit(Threshold::HighCount);
    let (calls, ms) = cx.category.calls_by_name.get(&row.name).copied().unwrap_or_default();
    let short = row.mean_us < cx.limit(Threshold::HighCountUs);
    let evidence = match () {
        () if row.count as f64 >= many => format!("{} calls of one shape", row.count),
        () if calls as f64 >= many && short => {
            format!("{calls} calls, {} us on average", shown(1e3 * ms / calls as f64, 1))
        }
        () => return None,
    };
    Some(RowPattern::new(code::HIGH_COUNT, vec![evidence]))
}

pub(super) fn say_tiny(cx: &CategoryCx<'_>, row: &Row, shape: Option<&Shape>, said: &mut Said) {
    let Some(s) = shape else { return };
    let factor = shown_factor(row);
    let size = |v: i64| v.to_string();
    said.issue(
        TextId::I_TINY,
        &[
            ("batch", &size(s.batch)),
            ("m", &size(s.m)),
            ("n", &size(s.n)),
            ("k", &size(s.k)),
            ("count", &row.count.to_string()),
            ("factor", &factor),
        ],
    );
    match is_looped(cx.prepared, row) {
        true if row.back_to_back.by_shapes => said.model(TextId::A_BATCH_IF, &[]),
        true => said.model(TextId::A_BATCH, &[]),
        // Calls with other work between them, of many products each.
        false if s.batch > 1 => said.model(TextId::A_BATCHED, &[("batch", &size(s.batch))]),
        // They may need each other.
        false => said.model(TextId::A_BATCH_IF, &[]),
    }
    if over_roofline(row).is_some_and(|f| f > cx.limit(Threshold::GemmTinyFactor)) {
        said.kernel(TextId::B_TINY, &[("factor", &factor)]);
    }
}

/// What binds a skinny product, and what helps. Where its bytes are no weight's, only its neighbours can spare them.
pub(super) fn say_skinny(cx: &CategoryCx<'_>, row: &Row, shape: Option<&Shape>, said: &mut Said) {
    let Some(s) = shape else { return };
    if let Some((heavy, share)) = s.heavy() {
        let values: &[(&str, &str)] = &[
            ("min", &s.short_side().to_string()),
            ("pct", &shown(100.0 * share, 0)),
            ("what", if heavy == Heavy::Weight { "weight" } else { "input" }),
            ("tbs", &maybe(row.efficiency.tb_s_achieved, 2)),
            ("peak", &shown(cx.peak_tbs(), 2)),
        ];
        said.issue(TextId::I_SKINNY, values);
    }
    if s.is_weight_bound() {
        if quantized(row).is_none() && !trains(cx.prepared) {
            said.model(TextId::A_QUANT, &[]);
        }
        said.model(TextId::A_BATCH_TOKENS, &[]);
    } else {
        said.fuse(cx, row);
    }
}

pub(super) fn say_padding(row: &Row, shape: Option<&Shape>, j: &Judgement, said: &mut Said) {
    let Some(s) = shape else { return };
    let odd = s.unaligned();
    if !odd.is_empty() && j.has(code::UNALIGNED_SHAPE) {
        let pads: Vec<String> = odd.iter().map(|(dim, v, next)| format!("{dim} from {v} to {next}")).collect();
        let mut rows: Vec<String> = odd.iter().map(|(_, v, _)| v.to_string()).collect();
        rows.dedup();
        let values = [("pads", &*listed(&pads)), ("rows", &listed(&rows)), ("dtype", &s.dtype)];
        said.model(TextId::A_PAD_ALIGN, &values);
    } else if let (Some(fit), Some(tile)) = (s.tiles(row), row.tile) {
        // The dimension that wastes more of its last tile.
        let part = |value: i64, tile: i64| value as f64 / super::shape::next_multiple(value, tile) as f64;
        let (dim, value, step) =
            if part(s.n, tile.m) <= part(s.m, tile.n) { ("N", s.n, tile.m) } else { ("M", s.m, tile.n) };
        let next = super::shape::next_multiple(value, step);
        let waste = shown(fit.padding_percent, 0);
        let values = [("dim", dim), ("v", &*value.to_string()), ("v2", &next.to_string()), ("waste", &waste)];
        said.model(TextId::A_PAD, &values);
    }
}

pub(super) fn say_tiles(cx: &CategoryCx<'_>, row: &Row, shape: Option<&Shape>, said: &mut Said) {
    let Some((s, tile)) = shape.zip(row.tile) else { return };
    let Some((fit, units)) = s.tiles(row).filter(|f| !f.at_least).zip(cx.prepared.compute_units) else { return };
    let size = |v: i64| v.to_string();
    said.kernel(
        TextId::B_TILE,
        &[
            ("m", &size(s.m)),
            ("n", &size(s.n)),
            ("k", &size(s.k)),
            ("tile", &format!("{}x{}", tile.m, tile.n)),
            ("tiles", &size(fit.tiles)),
            ("cus", &size(units)),
        ],
    );
}

/// Skinny products that run well for what they are: only fewer bytes of their weights or more tokens help. Where the bytes
/// are others, nothing is to be said of them.
pub(super) fn promote_skinny(cx: &CategoryCx<'_>, judged: &[Judged<'_>], metrics: &mut CategoryMetrics) {
    let runs_well = |j: &&Judged<'_>| j.judgement.has(code::SKINNY_GEMM) && !j.is_bottleneck();
    let by_weight = |j: &&Judged<'_>| Shape::of(j.row).is_some_and(|s| s.is_weight_bound());
    let rows: Vec<&Judged<'_>> = judged.iter().filter(runs_well).filter(by_weight).collect();
    let time_ms: f64 = rows.iter().map(|j| j.row.time_ms).sum();
    let weighty = cx.of_compute(time_ms) > cx.limit(Threshold::PriorityMediumShare);
    let Some(largest) = rows.first().filter(|_| weighty) else { return };
    let high: f64 = rows.iter().filter_map(|j| impact::row_range(cx, j.row, &j.judgement)).map(|r| r.high).sum();
    let mut said = Said::default();
    say_skinny(cx, largest.row, Shape::of(largest.row).as_ref(), &mut said);
    said.replay();
    let weight = Weight {
        in_top_ops: false,
        efficiency: aggregate(rows.iter().map(|j| j.row)),
        percent_of_category: cx.of_category(time_ms),
        percent_of_compute: cx.of_compute(time_ms),
        category_percent_of_compute: cx.category.percent_of_compute,
        notable: true,
    };
    let ids: Vec<_> = rows.iter().map(|j| j.row.id).collect();
    let pattern = metrics.patterns.iter_mut().find(|p| p.pattern == code::SKINNY_GEMM && p.rows.contains(&ids[0]));
    let Some(pattern) = pattern else { return };
    let shared = "fewer weight bytes or more tokens per call shorten this further, by an amount a trace does not tell";
    pattern.promoted = Some(Promoted {
        pattern: PatternId::MEMORY_BOUND_GEMM,
        title: format!("Skinny GEMMs bound by weight bytes: {} ms", shown_ms(time_ms)),
        issue: said.issue,
        algorithmic: said.algorithmic,
        kernel: said.kernel,
        basis: format!("0 to the gap to {}% of peak bandwidth; {shared}", shown(cx.prepared.memory_ceiling(), 0)),
        explains: ids,
        also: Vec::new(),
        time_ms,
        saved: Range::new(0.0, high),
        priority: weight.overall(cx),
        facts: Vec::new(),
        mending: Mending::CountedOn,
    });
}
