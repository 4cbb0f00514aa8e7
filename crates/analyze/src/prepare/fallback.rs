//! Traffic of operations that no model covers, by the plainest formula: each tensor once, norms as often as they must
//! pass over their input.

use jarvis_perf::call::InputLists;
use jarvis_perf::dtype;
use jarvis_perf::ops::ModelSource;
use jarvis_perf::parity::Quirks;
use jarvis_perf::roofline::MB;

use super::efficiency::Work;
use crate::program::Direction;

/// How often an operation passes over its first tensor, and its operations per element.
struct Passes {
    over_input: f64,
    flops: f64,
}

/// Fills in what a plain formula tells of an operation.
pub(crate) fn fill(work: &mut Work, name: &str, direction: Direction, inputs: &InputLists) {
    let Some(passes) = passes(name, direction) else { return };
    let Some((elements, size, kind)) = first_tensor(inputs) else { return };
    work.data_moved_mb = Some(passes.over_input * elements * size / MB);
    work.gflops = (passes.flops > 0.0).then_some(passes.flops * elements / 1e9);
    work.compute_spec = dtype::vector_precision(kind, &Quirks::NONE).map(|p| format!("vector_{p}").into());
    work.source = Some(ModelSource::Extended);
}

fn passes(name: &str, direction: Direction) -> Option<Passes> {
    let n = name.to_ascii_lowercase();
    let backward = direction == Direction::Backward || n.contains("backward");
    let norm = ["layer_norm", "layernorm", "group_norm", "instance_norm", "rms_norm", "rmsnorm"];
    let passes = |over_input, flops| Some(Passes { over_input, flops });
    match () {
        () if n.contains("softmax") => passes(if backward { 3.0 } else { 2.0 }, 5.0),
        () if n.contains("batch_norm") && backward => passes(5.0, 0.0),
        () if n.contains("batch_norm") => passes(3.0, 0.0),
        () if norm.iter().any(|w| n.contains(w)) => passes(if backward { 3.0 } else { 2.0 }, 0.0),
        () if ["aten::cat", "aten::clone", "aten::contiguous", "aten::copy_"].contains(&&*n) => passes(2.0, 0.0),
        () => None,
    }
}

/// Elements, bytes of one, and type of the first tensor.
fn first_tensor(inputs: &InputLists) -> Option<(f64, f64, &str)> {
    let dims = inputs.dims.as_ref()?;
    let types = inputs.types.as_ref()?;
    dims.iter().zip(types.iter()).find_map(|(dims, kind)| {
        let shape = dims.shape().filter(|s| !s.is_empty())?;
        let size = dtype::size(kind, &Quirks::NONE)?;
        Some((shape.iter().map(|&d| d as f64).product(), size as f64, kind.as_str()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use jarvis_perf::call::Dims;

    #[test]
    fn plain_formulas() {
        let inputs = InputLists {
            dims: Some([Dims::Shape(vec![1024, 1024])].into()),
            types: Some(["c10::BFloat16".to_owned()].into()),
            ..InputLists::default()
        };
        for (name, direction, mb) in [
            ("my::softmax", Direction::Forward, Some(4.0)),
            ("my::batch_norm", Direction::Forward, Some(6.0)),
            ("my::batch_norm", Direction::Backward, Some(10.0)),
            ("my::rms_norm", Direction::Forward, Some(4.0)),
            ("my::mystery", Direction::Forward, None),
        ] {
            let mut work = Work::default();
            fill(&mut work, name, direction, &inputs);
            assert_eq!(work.data_moved_mb, mb, "{name}");
        }
    }
}
