//! One package: its name, its members, the zip.

use std::io::{Cursor, Write as _};

use serde::Serialize;
use sha2::{Digest, Sha256};
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, DateTime, ZipArchive, ZipWriter};

use super::describe::rounded;
use super::index::hex;
use super::inputs::Input;
use super::ir::{CallIr, Settings};
use super::select::Op;
use crate::render::names::no_device;

use super::{Entry, Origin, ReplayError, layout, readme};

/// Form of an entry.
const IR_VERSION: u32 = 1;

/// Longest part of a file name that is made of an operation's name.
const LONGEST_NAME: usize = 80;

/// What follows it.
const SUFFIX: &str = "_replay_package.zip";

/// The replayer, in the order of the zip.
const REPLAYER: &[(&str, &str)] = &[
    ("batched_replay.py", include_str!("../../assets/replay/batched_replay.py")),
    ("utils.py", include_str!("../../assets/replay/utils.py")),
];

/// Its further parts, after the README.
const PARTS: &[(&str, &str)] = &[
    ("replay.py", include_str!("../../assets/replay/replay.py")),
    ("timing.py", include_str!("../../assets/replay/timing.py")),
    ("verify.py", include_str!("../../assets/replay/verify.py")),
];

/// File names given so far.
#[derive(Debug, Default)]
pub(crate) struct Names {
    given: Vec<String>,
}

impl Names {
    /// The file name of an operation's package; no two are the same, even where case does not count.
    pub(crate) fn give(&mut self, op: &str) -> String {
        let plain = op.replace("::", "_");
        let mut clean: String = plain
            .chars()
            .map(|c| if c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-') { c } else { '_' })
            .collect();
        clean = no_device(clean);
        let hash = || hex(&Sha256::digest(op.as_bytes())[..4]);
        if clean.len() > LONGEST_NAME {
            clean.truncate(LONGEST_NAME);
            clean = format!("{clean}_{}", hash());
        }
        if self.given.contains(&clean.to_lowercase()) {
            clean = format!("{clean}_{}", hash());
        }
        self.given.push(clean.to_lowercase());
        clean + SUFFIX
    }
}

#[derive(Serialize)]
struct EntryJson<'e> {
    ir_version: u32,
    id: String,
    op_name: &'e str,
    overload: Option<&'static str>,
    schema: Option<&'static str>,
    replay_ir: Option<&'e CallIr>,
    inputs: &'e [Input],
    count: Option<usize>,
    imports: &'e [&'static str],
    replayable: &'static str,
    assumptions: &'e [String],
    settings: &'e Settings,
    trace: TraceJson<'e>,
    #[serde(skip_serializing_if = "Option::is_none")]
    substituted_for: Option<&'e str>,
}

#[derive(Serialize)]
struct TraceJson<'e> {
    platform: Option<&'e str>,
    device_name: Option<&'e str>,
    kernel_time_us: Times,
    kernels: Vec<KernelJson<'e>>,
    percent_of_compute: f64,
    efficiency_percent: Option<f64>,
    bound_type: Option<&'static str>,
    roofline_time_us: Option<f64>,
    flops: Option<u64>,
    bytes: Option<u64>,
    compute_spec: Option<&'e str>,
    peak_hbm_tbs: Option<f64>,
    peak_maf_tflops: Option<f64>,
}

#[derive(Serialize)]
struct Times {
    mean: Option<f64>,
    median: Option<f64>,
    min: Option<f64>,
    max: Option<f64>,
    std: Option<f64>,
    sum: Option<f64>,
}

#[derive(Serialize)]
struct KernelJson<'e> {
    name: &'e str,
    count_per_call: f64,
    mean_us: f64,
}

/// Id of an entry.
pub(crate) fn id(op: &Op<'_>, at: usize) -> String {
    format!("{}#{at}", op.name)
}

fn entry_json<'e>(op: &'e Op<'_>, at: usize, origin: Origin<'e>, anonymous: bool) -> EntryJson<'e> {
    let entry = &op.entries[at];
    let rebuilt = &entry.rebuilt;
    EntryJson {
        ir_version: IR_VERSION,
        id: id(op, at),
        op_name: entry.op,
        overload: rebuilt.overload,
        schema: rebuilt.schema,
        replay_ir: rebuilt.call.as_ref(),
        inputs: entry.inputs,
        count: (!anonymous).then_some(entry.row.count),
        imports: &rebuilt.imports,
        replayable: if rebuilt.assumptions.is_empty() { "yes" } else { "assumed" },
        assumptions: &rebuilt.assumptions,
        settings: &rebuilt.settings,
        trace: trace_json(entry, origin, anonymous),
        substituted_for: entry.substituted_for(),
    }
}

fn trace_json<'e>(entry: &'e Entry<'_>, origin: Origin<'e>, anonymous: bool) -> TraceJson<'e> {
    let (row, stats) = (entry.row, &entry.row.kernel_us);
    let times = Times {
        mean: stats.mean().map(rounded),
        median: stats.median().map(rounded),
        min: stats.min().map(rounded),
        max: stats.max().map(rounded),
        std: stats.std().map(rounded),
        // With the mean it would tell the count.
        sum: (!anonymous).then_some(rounded(stats.sum)),
    };
    let kernel = |k: &'e super::Kernel| KernelJson {
        name: &k.name,
        count_per_call: rounded(k.count_per_call),
        mean_us: rounded(k.mean_us),
    };
    // The figures of a GPU are as good as its name.
    let platform = origin.platform.filter(|_| !anonymous);
    let whole = |x: f64| (x.is_finite() && x >= 0.0).then_some(x.round() as u64);
    let spec = row.compute_spec.as_deref();
    TraceJson {
        platform: platform.map(|p| p.name.as_str()),
        device_name: origin.device_name.filter(|_| !anonymous),
        kernel_time_us: times,
        kernels: if anonymous { Vec::new() } else { row.kernels.iter().map(kernel).collect() },
        percent_of_compute: rounded(row.percent_of_compute),
        efficiency_percent: row.efficiency_percent.map(rounded),
        bound_type: row.bound,
        roofline_time_us: row.roofline_us.map(rounded),
        flops: row.flops.and_then(whole),
        bytes: row.bytes.and_then(whole),
        compute_spec: spec,
        peak_hbm_tbs: platform.map(|p| p.mem_bw_gbps.value / 1e3),
        peak_maf_tflops: platform.zip(spec).and_then(|(p, s)| p.peak(s)).map(|peak| peak.value),
    }
}

/// Deflate level: the quickest one, for a package of 30 kB and not 19.
const LEVEL: i64 = 1;

/// A member of fewer bytes is stored as it is: to set up the packing costs more than the packing.
const PACKED_FROM: usize = 4 << 10;

/// The same input gives the same bytes: no time of day, no machine.
fn options(len: usize) -> SimpleFileOptions {
    let options = SimpleFileOptions::default().last_modified_time(DateTime::default()).unix_permissions(0o644);
    if len < PACKED_FROM {
        options.compression_method(CompressionMethod::Stored)
    } else {
        options.compression_method(CompressionMethod::Deflated).compression_level(Some(LEVEL))
    }
}

type Writer = ZipWriter<Cursor<Vec<u8>>>;

fn add(writer: &mut Writer, name: &str, text: &str) -> Result<(), ReplayError> {
    writer.start_file(name, options(text.len()))?;
    Ok(writer.write_all(text.as_bytes())?)
}

/// What all packages have in common, packed once.
#[derive(Debug)]
pub struct Replayer(Vec<u8>);

impl Replayer {
    /// Packs it.
    pub fn new() -> Result<Self, ReplayError> {
        let mut writer = Writer::new(Cursor::default());
        for (name, text) in REPLAYER.iter().chain(PARTS) {
            add(&mut writer, name, text)?;
        }
        Ok(Self(writer.finish()?.into_inner()))
    }
}

/// The bytes of a package.
pub(crate) fn zip(
    op: &Op<'_>,
    file: &str,
    origin: Origin<'_>,
    anonymous: bool,
    replayer: &Replayer,
) -> Result<Vec<u8>, ReplayError> {
    let entries: Vec<EntryJson<'_>> = (0..op.entries.len()).map(|at| entry_json(op, at, origin, anonymous)).collect();
    let ir = layout::to_string(&entries)?;
    let readme = readme::render(op, file, origin, anonymous);
    let mut replayer = ZipArchive::new(Cursor::new(&*replayer.0))?;
    let mut writer = Writer::new(Cursor::default());
    add(&mut writer, "replay_ir.json", &ir)?;
    for at in 0..REPLAYER.len() {
        writer.raw_copy_file(replayer.by_index_raw(at)?)?;
    }
    add(&mut writer, "README.md", &readme)?;
    for at in REPLAYER.len()..replayer.len() {
        writer.raw_copy_file(replayer.by_index_raw(at)?)?;
    }
    Ok(writer.finish()?.into_inner())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_names_are_safe_and_unique() {
        let mut names = Names::default();
        assert_eq!(names.give("aten::convolution_backward"), "aten_convolution_backward_replay_package.zip");
        assert_eq!(names.give("a b/c"), "a_b_c_replay_package.zip");
        assert_eq!(names.give("../x"), ".._x_replay_package.zip");
        let long = names.give(&format!("mine::{}", "x".repeat(100)));
        assert_eq!(long.len(), LONGEST_NAME + 9 + SUFFIX.len());
        assert_ne!(names.give("aten_convolution_backward"), "aten_convolution_backward_replay_package.zip");
        assert_eq!(names.give("con.x"), "_con.x_replay_package.zip", "a device of some systems");
        assert_eq!(names.give("a\0b\n"), "a_b__replay_package.zip");
        assert!(names.give("ATEN::Convolution_Backward").starts_with("ATEN_Convolution_Backward_"));
    }
}
