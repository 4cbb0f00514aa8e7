//! Traffic of operations that no model covers, by the plainest formula: each tensor once, norms as often as they must
//! pass over their input.

use jarvis_perf::call::InputLists;
use jarvis_perf::dtype;
use jarvis_perf::ops::ModelSource;
use jarvis_perf::parity::Quirks;
use jarvis_perf::roofline::MB;

use super::efficiency::Work;
use super::place::names_backward;
use crate::program::Direction;

/// How often an operation passes over its first tensor, and its operations per element.
struct Passes {
    over_input: f64,
    flops: f64,
    /// How many tensors as large as the first it reads at most.
    inputs: usize,
}

/// A tensor among the inputs.
struct Tensor<'a> {
    elements: f64,
    bytes: f64,
    kind: &'a str,
}

/// Weights and statistics have so many times fewer elements than what they belong to.
const FAR_SMALLER: f64 = 64.0;

/// Fills in what a plain formula tells of an operation. One that reads other tensors than its name lets expect does more
/// than that: what is known of it stays.
pub(crate) fn fill(work: &mut Work, name: &str, direction: Direction, inputs: &InputLists) {
    let Some(passes) = passes(name, direction) else { return };
    let tensors = tensors(inputs);
    let Some((first, others)) = tensors.split_first() else { return };
    let (small, large): (Vec<&Tensor<'_>>, Vec<&Tensor<'_>>) =
        others.iter().partition(|t| FAR_SMALLER * t.elements <= first.elements);
    let alike = large.iter().all(|t| t.elements.to_bits() == first.elements.to_bits());
    if !alike || large.len() >= passes.inputs {
        return;
    }
    let weights: f64 = small.iter().map(|t| t.bytes).sum();
    work.data_moved_mb = Some((passes.over_input * first.bytes + weights) / MB);
    // Those of the table are of the bytes that are known without the formula.
    (work.mean_percent, work.best_us) = (None, None);
    work.gflops = (passes.flops > 0.0).then_some(passes.flops * first.elements / 1e9);
    work.compute_spec = dtype::vector_precision(first.kind, &Quirks::NONE).map(|p| format!("vector_{p}").into());
    work.source = Some(ModelSource::Extended);
}

/// Norms over rows or groups, as they appear in front of `norm` or `_norm`.
const NORMS: [&str; 4] = ["layer", "group", "instance", "rms"];

fn passes(name: &str, direction: Direction) -> Option<Passes> {
    let n = name.to_ascii_lowercase();
    let backward = direction == Direction::Backward || names_backward(name);
    let is_norm = |kind: &str| n.contains(&format!("{kind}norm")) || n.contains(&format!("{kind}_norm"));
    let passes = |over_input, flops| Some(Passes { over_input, flops, inputs: if backward { 2 } else { 1 } });
    match () {
        () if n.contains("softmax") => passes(if backward { 3.0 } else { 2.0 }, 5.0),
        () if is_norm("batch") && backward => passes(5.0, 0.0),
        () if is_norm("batch") && n.contains("infer") => passes(2.0, 0.0),
        () if is_norm("batch") => passes(3.0, 0.0),
        () if NORMS.into_iter().any(is_norm) => passes(if backward { 3.0 } else { 2.0 }, 0.0),
        () if ["aten::clone", "aten::contiguous"].contains(&&*n) => passes(2.0, 0.0),
        // It names its target as well.
        () if n == "aten::copy_" => Some(Passes { over_input: 2.0, flops: 0.0, inputs: 2 }),
        () => None,
    }
}

/// The tensors among the inputs, where sizes and types are known.
fn tensors(inputs: &InputLists) -> Vec<Tensor<'_>> {
    let (dims, types) = (inputs.dims.as_deref().unwrap_or_default(), inputs.types.as_deref().unwrap_or_default());
    let known = dims.iter().zip(types).filter_map(|(dims, kind)| {
        let shape = dims.shape().filter(|s| !s.is_empty())?;
        let size = dtype::size(kind, &Quirks::NONE)?;
        let elements: f64 = shape.iter().map(|&d| d as f64).product();
        Some(Tensor { elements, bytes: elements * size as f64, kind })
    });
    known.collect()
}

#[cfg(test)]
mod tests {
    use jarvis_perf::call::Dims;

    use super::*;
    use crate::prepared::EfficiencySource;
    use crate::testing::{Call, Scene};

    fn inputs(shapes: &[&[i64]]) -> InputLists {
        InputLists {
            dims: Some(shapes.iter().map(|s| Dims::Shape(s.to_vec())).collect()),
            types: Some(shapes.iter().map(|_| "c10::BFloat16".to_owned()).collect()),
            ..InputLists::default()
        }
    }

    fn filled(name: &str, direction: Direction, shapes: &[&[i64]]) -> Option<f64> {
        let mut work = Work::default();
        fill(&mut work, name, direction, &inputs(shapes));
        work.data_moved_mb
    }

    /// Two MiB in bf16.
    const X: &[i64] = &[1024, 1024];

    #[test]
    fn plain_formulas() {
        let both: &[&[i64]] = &[X, X];
        for (name, direction, shapes, mb) in [
            ("my::softmax", Direction::Forward, &[X][..], Some(4.0)),
            ("my::log_softmax_bwd", Direction::Unknown, both, Some(6.0)),
            ("my::batch_norm", Direction::Forward, &[X], Some(6.0)),
            ("my::batchnorm_infer", Direction::Forward, &[X], Some(4.0)),
            ("my::batch_norm", Direction::Backward, both, Some(10.0)),
            ("my::rms_norm", Direction::Forward, &[X], Some(4.0)),
            ("my::groupnorm", Direction::Forward, &[X], Some(4.0)),
            ("aten::copy_", Direction::Forward, both, Some(4.0)),
            ("my::mystery", Direction::Forward, &[X], None),
        ] {
            assert_eq!(filled(name, direction, shapes), mb, "{name}");
        }
    }

    #[test]
    fn a_formula_comes_before_a_lower_bound() {
        let types = r#"["c10::BFloat16", "c10::BFloat16", "Scalar"]"#;
        let mut scene = Scene::new();
        scene.calls(4, &Call::new("mine::rms_norm", "[[16384, 4096], [4096], []]", types, &[("k", 400.0)]));
        scene.calls(4, &Call::new("mine::mystery", "[[16384, 4096], [4096], []]", types, &[("k", 400.0)]));
        let prepared = scene.prepared();
        let of = |name: &str| prepared.rows.iter().find(|r| &*r.name == name).unwrap().efficiency.clone();
        // 134 MB read and as many written in 400 us, of 4.8 TB/s.
        let norm = of("mine::rms_norm").judged().unwrap();
        assert!((norm - 13.98).abs() < 0.01, "{norm}");
        assert_eq!(of("mine::mystery").source, EfficiencySource::ByteEstimate);
    }

    #[test]
    fn what_does_more_than_its_name_says_stays_unknown() {
        let weights = filled("my::rms_norm", Direction::Forward, &[X, &[1024]]);
        assert_eq!(weights, Some(4.0 + 2048.0 / MB), "a weight is read once");
        let residual = filled("my::fused_add_rms_norm", Direction::Forward, &[X, X, &[1024]]);
        assert_eq!(residual, None, "it may write the sum as well");
        let product = filled("my::rms_norm_linear", Direction::Forward, &[X, &[1024], &[1024, 512]]);
        assert_eq!(product, None, "a weight of two dimensions is that of a product");
    }
}
