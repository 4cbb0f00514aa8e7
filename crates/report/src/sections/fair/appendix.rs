//! The appendix: hardware, model, replay packages.

use jarvis_analyze::metrics::Peaks;
use jarvis_analyze::prepared::Prepared;

use crate::ReplayEntry;
use crate::Run;
use crate::blocks::{Block, Line};
use crate::html::ROOFLINE;
use crate::language::in_prose;
use crate::sections::words::{counted, figure, ms};

/// The part.
pub(crate) fn blocks(run: &Run<'_>) -> Vec<Block> {
    let mut blocks = vec![
        Block::heading(2, "Appendix"),
        Block::heading(3, "Hardware Reference"),
        hardware(run),
        Block::Picture { shows: "Roofline: each operation against the peaks", file: ROOFLINE },
        Block::heading(3, "Model"),
        model(run),
        Block::heading(3, "Replay Artifacts"),
    ];
    blocks.extend(replay(run));
    blocks
}

/// The platform and its peaks.
pub(crate) fn hardware(run: &Run<'_>) -> Block {
    let p = &run.analysis.prepared;
    let mut hardware = vec![
        ("Platform", p.platform.name.clone()),
        ("Peak HBM BW", format!("{} TB/s", figure(p.peak_hbm_tbs()))),
        ("Peak MAF", peaks(p)),
    ];
    if let Some(memory) = p.platform.memory_gb {
        hardware.push(("Memory", format!("{} GB", figure(memory.value))));
    }
    if let Some(name) = &p.device_name {
        hardware.push(("Device of the trace", format!("`{}`", name.replace('`', "'"))));
    }
    Block::facts(hardware)
}

/// What the model seems to be.
pub(crate) fn model(run: &Run<'_>) -> Block {
    let m = &run.analysis.prepared.model;
    Block::facts([
        ("Model", &*in_prose(run.labels.model_name.as_deref().unwrap_or(&m.model))),
        ("Architecture", &*m.architecture),
        ("Scale", &*m.scale),
        ("Precision", &*m.precision),
    ])
}

/// `990 TFLOPS (BF16), 1980 TFLOPS (FP8)`: matrix rates that are known.
pub(crate) fn peaks(p: &Prepared) -> String {
    let peaks = Peaks::of(p);
    let known = jarvis_perf::platform::COMPUTE_SPECS.iter().filter_map(|spec| {
        let name = spec.strip_prefix("matrix_")?.to_uppercase();
        let value = peaks.max_achievable_tflops.get(*spec)?;
        Some(format!("{} TFLOPS ({name})", figure(*value)))
    });
    let known: Vec<String> = known.collect();
    if known.is_empty() { "not known".to_owned() } else { known.join(", ") }
}

/// The replay packages, with the recorded time of what they hold.
pub(crate) fn replay(run: &Run<'_>) -> Vec<Block> {
    packages(run, |r| format!(", {} ms", ms(r.time_ms)))
}

/// The replay packages, with what else is told of each.
pub(crate) fn packages(run: &Run<'_>, told: fn(&ReplayEntry) -> String) -> Vec<Block> {
    if run.replay.is_empty() {
        return vec![Block::paragraph("No replay package was written in this run.")];
    }
    let one = |r: &ReplayEntry| Line::code(&r.path).and_prose(&format!(" - {}{}", counted(r.shapes, "shape"), told(r)));
    let items = run.replay.iter().map(one);
    vec![
        Block::list(items),
        Block::paragraph(
            "The packages reproduce bottlenecks; what slows a kernel down is found by running them under hardware counters.",
        ),
    ]
}
