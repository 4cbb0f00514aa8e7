//! The appendix of a comparison: hardware, method, model, replay packages.

use jarvis_analyze::comparative::{DIFFERENCE_PERCENT, WORTH_PERCENT};
use jarvis_analyze::rounding::shown;
use jarvis_analyze::thresholds::Threshold;
use jarvis_perf::platform::{Platform, Source};

use crate::Versus;
use crate::blocks::{Block, Line, Table};
use crate::language::in_prose;
use crate::sections::fair::appendix::{packages, peaks};
use crate::sections::words::{cell, counted, figure};

/// The part.
pub(super) fn blocks(v: &Versus<'_>) -> Vec<Block> {
    let m = &v.target.analysis.prepared.model;
    let mut blocks = vec![
        Block::heading(2, "Appendix"),
        Block::heading(3, "Hardware Reference"),
        Block::paragraph("Peaks that the expected ratios are made of:"),
        Block::Table(hardware(v)),
    ];
    blocks.extend(other_scales(v).map(Block::paragraph));
    blocks.extend([
        Block::heading(3, "Methodology"),
        Block::list(method(v)),
        Block::heading(3, "Model"),
        Block::facts([
            ("Model", &*in_prose(v.target.labels.model_name.as_deref().unwrap_or(&m.model))),
            ("Architecture", &*m.architecture),
            ("Scale", &*m.scale),
            ("Precision", &*m.precision),
        ]),
        Block::heading(3, "Replay Artifacts"),
    ]);
    // What they take is recorded of the whole trace, which times here need not be of.
    blocks.extend(packages(&v.target, |_| String::new()));
    blocks
}

pub(super) fn hardware(v: &Versus<'_>) -> Table {
    let mut table = Table::new(&["", "Reference", "Target"]);
    let sides = [&v.reference, &v.target].map(|run| &run.analysis.prepared);
    let mut row = |name: &str, cells: [Line; 2]| {
        let [reference, target] = cells;
        table.row([cell(name), reference, target]);
    };
    row("Platform", sides.map(|p| cell(&*p.platform.name)));
    row("Peak HBM BW", sides.map(|p| cell(format!("{} TB/s", figure(p.peak_hbm_tbs())))));
    row("Peak MAF", sides.map(|p| cell(peaks(p))));
    row(
        "Memory",
        sides.map(|p| cell(p.platform.memory_gb.map_or("not known".to_owned(), |m| format!("{} GB", figure(m.value))))),
    );
    row(
        "Device of the trace",
        sides.map(|p| p.device_name.as_deref().map_or_else(|| cell("not recorded"), Line::code)),
    );
    table
}

/// Said where the matrix rates of the platforms are not of one kind, which figures of the user's own are not known to be.
pub(super) fn other_scales(v: &Versus<'_>) -> Option<String> {
    let sides = [&v.reference, &v.target].map(|run| &run.analysis.prepared.platform);
    let basis = |p: &Platform| p.basis.filter(|_| p.peak("matrix_bf16").is_some_and(|f| f.source != Source::Flag));
    let (reference, target) = (basis(sides[0])?, basis(sides[1])?);
    (reference != target).then(|| {
        format!(
            "The matrix rate of {} is {}, that of {} {}: these are different scales, so efficiencies of the sides do not \
             compare, and expected ratios of compute-bound work are only rough.",
            sides[0].name,
            reference.as_str(),
            sides[1].name,
            target.as_str()
        )
    })
}

fn method(v: &Versus<'_>) -> Vec<String> {
    let c = v.comparative;
    let limits = &v.target.analysis.prepared.thresholds;
    let tolerance = 100.0 * limits.get(Threshold::CompareTolerance);
    vec![
        format!("Times are {}: {}.", c.normalization.unit(), c.normalization.reason),
        "Operations are matched by name and arguments, then by name, shapes and types, then by what they do, then by \
         shapes alone; what is left is matched by its place in the module tree."
            .to_owned(),
        "The hardware suggests target over reference: the inverse ratio of bandwidths for memory-bound work, of \
         compute peaks for compute-bound work, both as an interval where the bound is not known; best time over best \
         time, each in the types of its side, where both are known."
            .to_owned(),
        format!(
            "A ratio within {}% of that counts as what the hardware suggests; more than {}% slower is a kernel issue. What the types of \
             the sides explain is a matter of precision.",
            shown(tolerance, 0),
            shown(limits.get(Threshold::CompareKernelIssue), 0)
        ),
        format!(
            "Differences of more than {}% in at least {}% of the compute time of either side are told.",
            shown(DIFFERENCE_PERCENT, 0),
            shown(WORTH_PERCENT, 0)
        ),
        format!(
            "Copies between host and device, or between devices, are left out of the matching: {} of the reference, {} of the target.",
            counted(c.host_copies.reference, "row"),
            c.host_copies.target
        ),
        match c.same_collectives {
            None => "Neither side communicates between GPUs.".to_owned(),
            Some(true) => {
                "The same collectives are used on both sides; one rank can't tell waiting from transfer.".to_owned()
            }
            Some(false) => "The collectives differ, so their times are not compared.".to_owned(),
        },
    ]
}
