//! Reading real traces for tests.

use std::path::{Path, PathBuf};

use jarvis_analyze::finding::Finding;
use jarvis_analyze::patterns::{self, Pattern, Scene};
use jarvis_analyze::prepared::{Baseline, Utilization};
use jarvis_analyze::program::{Leaf, Program};
use jarvis_perf::call::Dims;
use jarvis_perf::dtype;
use jarvis_perf::parity::Quirks;
use jarvis_perf::platform::Platform;
use jarvis_perf::tables::{ReportOptions, build_report};
use jarvis_trace::{ReadOptions, Trace, Tree, TreeOptions};

/// The folder with real traces, where it is at hand.
pub(crate) fn traces() -> Option<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let found = root.ancestors().map(|up| up.join("shared/traces")).find(|folder| folder.is_dir());
    if found.is_none() {
        println!("skipped: there is no folder shared/traces");
    }
    found
}

/// All traces of a folder, sorted by name.
pub(crate) fn traces_in(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            found.extend(traces_in(&path));
        } else if path.to_string_lossy().ends_with(".json.gz") {
            found.push(path);
        }
    }
    found.sort();
    found
}

/// What a trace shows.
pub(crate) struct Analysis {
    pub(crate) program: Program,
    pub(crate) window_ms: f64,
    pub(crate) computation_ms: f64,
    pub(crate) patterns: Vec<Pattern>,
    pub(crate) findings: Vec<Finding>,
}

/// Analyses a trace; `None` if it is not there or has no GPU events.
pub(crate) fn analyse(path: &Path) -> Option<Analysis> {
    if !path.is_file() {
        println!("skipped: {} is absent", path.display());
        return None;
    }
    let trace = Trace::open(path, &ReadOptions::default()).unwrap();
    let report = build_report(&trace, &ReportOptions::default()).ok()?;
    let tree = Tree::build(&trace, TreeOptions::default().with_python());
    let program = Program::of(&trace, &tree, &report.rows.unified);
    let text = path.to_string_lossy();
    let name = if text.contains("mi300") {
        "MI300X"
    } else if text.contains("h100") {
        "H100"
    } else {
        "H200"
    };
    let platform = Platform::find(name).unwrap();
    let baseline = baseline(&program, platform);
    let timeline = &report.rows.timeline;
    let utilization = Utilization {
        total_time_ms: timeline.total.0 / 1e3,
        computation_time_ms: timeline.computation.0 / 1e3,
        ..Utilization::default()
    };
    let scene = Scene::new(&program, platform, &baseline, &utilization);
    let patterns = patterns::detect(&scene);
    let findings = patterns::findings(&scene, &patterns, &[], None);
    let (window_ms, computation_ms) = (utilization.total_time_ms, utilization.computation_time_ms);
    Some(Analysis { program, window_ms, computation_ms, patterns, findings })
}

/// What plain operations on large contiguous tensors reach, weighted by time.
fn baseline(program: &Program, platform: &Platform) -> Baseline {
    let peak = platform.mem_bw_gbps.value / 1e3;
    let (mut moved, mut us) = (0.0, 0.0);
    for leaf in &program.leaves {
        if let Some(bytes) = plain_bytes(leaf).filter(|b| *b >= 8e6 && b / leaf.us / 1e6 <= peak) {
            moved += bytes;
            us += leaf.us;
        }
    }
    let (bandwidth_tbs, source) = if us > 0.0 { (moved / us / 1e6, "measured") } else { (0.7 * peak, "default") };
    Baseline {
        bandwidth_tbs,
        efficiency_percent: 100.0 * bandwidth_tbs / peak,
        source,
        rows: Vec::new(),
        seed_bandwidth_tbs: None,
    }
}

/// Bytes of an addition, product or copy whose tensors all have the same shape and lie in order.
fn plain_bytes(leaf: &Leaf) -> Option<f64> {
    let plain = ["aten::add", "aten::add_", "aten::mul", "aten::mul_", "aten::copy_"].contains(&&*leaf.name);
    if !plain || leaf.kernels.iter().any(|k| k.is_copy) {
        return None;
    }
    let lists = &leaf.inputs;
    let (dims, types, strides) = (lists.dims.as_ref()?, lists.types.as_ref()?, lists.strides.as_ref()?);
    let mut shapes: Vec<&[i64]> = Vec::new();
    let mut bytes = 0.0;
    for ((dims, name), strides) in dims.iter().zip(types).zip(strides) {
        let shape = dims.shape()?;
        if shape.is_empty() {
            continue;
        }
        let mut step = 1;
        for (size, stride) in shape.iter().zip(strides.shape()?).rev() {
            if *size != 1 && *stride != step {
                return None;
            }
            step *= size;
        }
        shapes.push(shape);
        bytes += step as f64 * size_of(name);
    }
    let first = *shapes.first()?;
    let written = if leaf.name.ends_with("copy_") { 0.0 } else { size_of(types.first()?) };
    shapes.iter().all(|s| *s == first).then(|| bytes + written * first.iter().product::<i64>() as f64)
}

fn size_of(name: &str) -> f64 {
    dtype::size(name, &Quirks::NONE).map_or(4.0, |s| s as f64)
}

/// The shape of a leaf's first tensor, for messages.
pub(crate) fn first_shape(leaf: &Leaf) -> Option<&[i64]> {
    leaf.inputs.dims.as_ref()?.first().and_then(Dims::shape)
}
