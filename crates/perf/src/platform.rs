//! `Platform`: what a GPU can do at best. Nothing else in the program knows a GPU's speed.
//!
//! Each shipped platform is one file in `platforms/` and one line in `FILES`. The files have the form of the arch
//! files users bring (`--arch FILE`), plus the source of every figure. To add one, write the file and the line; the
//! list test checks the rest.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::RangeInclusive;
use std::sync::LazyLock;

use serde_json::{Map, Value};

use crate::nearest::nearest;
use crate::settings_text::without_mark;

/// The files shipped with the binary, in the order in which they are listed.
const FILES: &[&str] = &[
    include_str!("../platforms/mi300x.json"),
    include_str!("../platforms/mi325x.json"),
    include_str!("../platforms/mi355x.json"),
    include_str!("../platforms/mi400.json"),
    include_str!("../platforms/mi210.json"),
    include_str!("../platforms/a100.json"),
    include_str!("../platforms/h100.json"),
    include_str!("../platforms/h200.json"),
    include_str!("../platforms/b200.json"),
];

/// Compute Specs a platform may give a rate for, in the order in which they are shown.
pub const COMPUTE_SPECS: &[&str] = &[
    "matrix_bf16",
    "matrix_fp16",
    "matrix_fp8",
    "matrix_fp6",
    "matrix_fp4",
    "matrix_int8",
    "matrix_tf32",
    "matrix_fp32",
    "matrix_fp64",
    "vector_fp16",
    "vector_bf16",
    "vector_fp32",
    "vector_fp64",
];

/// Matrix rates as multiples of bf16, for platforms that publish nothing else (`derive_matrix`). fp32, fp64 and vector
/// rates follow no such rule and are never derived.
const DERIVED: &[(&str, f64)] = &[("matrix_fp16", 1.0), ("matrix_fp8", 2.0), ("matrix_int8", 2.0), ("matrix_fp4", 4.0)];

/// How far a device's memory may lie from the platform's nominal size: drivers keep one or two percent for themselves.
const MEMORY_TOLERANCE: f64 = 0.05;

/// What figures of a device may be, in GB/s, GB and TFLOPS: far beyond any on either side. Numbers outside are mistakes, and
/// what is computed from them is no number.
const PLAUSIBLE: RangeInclusive<f64> = 1e-6..=1e9;

/// Where a figure comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Source {
    /// The hardware list jarvis was specified with.
    Seed,
    /// Measured figures published with the reference tool.
    Reference,
    /// The vendor's datasheet: dense, no sparsity.
    Datasheet,
    /// The user's arch file.
    ArchFile,
    /// A command line option.
    Flag,
    /// Computed from the bf16 rate.
    Derived,
}

impl Source {
    /// The word used in data files and reports.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Seed => "seed",
            Self::Reference => "reference",
            Self::Datasheet => "datasheet",
            Self::ArchFile => "arch_file",
            Self::Flag => "flag",
            Self::Derived => "derived",
        }
    }

    /// The sources a shipped file may name.
    fn from_word(word: &str) -> Option<Self> {
        [Self::Seed, Self::Reference, Self::Datasheet].into_iter().find(|s| s.as_str() == word)
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A number and where it comes from.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Figure {
    /// The number, in the unit of the field that holds it.
    pub value: f64,
    /// Who says so.
    pub source: Source,
}

/// What a platform's bf16 rate means. Shares of an achievable and of a theoretical rate must not be compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Basis {
    /// Reached by the best known kernels.
    Achievable,
    /// Clock × units.
    Theoretical,
}

impl Basis {
    /// The word used in data files and reports.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Achievable => "achievable",
            Self::Theoretical => "theoretical",
        }
    }
}

/// A GPU's best rates.
#[derive(Debug, Clone, PartialEq)]
pub struct Platform {
    /// Key, such as `MI300X`; an arch file's own name, `custom` if it has none.
    pub name: String,
    /// Maker; `None` for arch files.
    pub vendor: Option<String>,
    /// What the bf16 rate means; `None` for arch files.
    pub basis: Option<Basis>,
    /// Device memory bandwidth in GB/s (10⁹ bytes).
    pub mem_bw_gbps: Figure,
    /// Device memory in GB, informative.
    pub memory_gb: Option<Figure>,
    /// Compute units (AMD) or streaming multiprocessors (NVIDIA).
    pub num_cus: Option<u32>,
    /// TFLOPS by Compute Spec (`matrix_bf16`, `vector_fp32`, …).
    pub peaks: BTreeMap<String, Figure>,
    /// Whether missing low-precision matrix rates follow from bf16.
    pub derive_matrix: bool,
    /// What a reader of the figures should know.
    pub notes: Vec<String>,
    /// Why they may not be those of the traced GPU, where it was recognised by likeness; what of an arch file is no rate.
    pub doubt: Option<String>,
}

/// Figures given on the command line; they replace those of the platform.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Overrides {
    /// Device memory bandwidth in TB/s.
    pub peak_hbm_tbs: Option<f64>,
    /// Matrix rate for bf16 and fp16 in TFLOPS; other precisions keep theirs.
    pub peak_maf_tflops: Option<f64>,
    /// Device memory in GB.
    pub memory_gb: Option<f64>,
}

/// A platform guessed from a trace's device.
#[derive(Debug, Clone, PartialEq)]
pub struct DeviceMatch {
    /// The guess.
    pub platform: &'static Platform,
    /// Why the figures may not fit this device, if there is a reason.
    pub doubt: Option<String>,
}

/// Why there is no platform.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PlatformError {
    /// No platform of that name.
    #[error("unknown platform `{name}`; known are {}", known.join(", "))]
    Unknown {
        /// What was asked for.
        name: String,
        /// The known name nearest to it, if one is near.
        suggestion: Option<&'static str>,
        /// All known names.
        known: Vec<&'static str>,
    },
    /// The arch file is not JSON.
    #[error("the arch file is not valid JSON: {0}")]
    Json(String),
    /// A key of the arch file is missing or its value is unusable.
    #[error("arch file, key `{key}`: {problem}")]
    Key {
        /// The key, with the keys above it: `max_achievable_tflops.matrix_bf16`.
        key: String,
        /// What is wrong.
        problem: String,
    },
    /// A figure given on the command line is unusable.
    #[error("{option} must be a number above 0, not {value}")]
    Override {
        /// The option.
        option: &'static str,
        /// What was given.
        value: String,
    },
    /// A figure given on the command line is one that no device has.
    #[error("{option}: no device has {value} {unit}")]
    Implausible {
        /// The option.
        option: &'static str,
        /// What was given.
        value: String,
        /// What it is counted in.
        unit: &'static str,
    },
}

impl PlatformError {
    /// What to do next.
    pub fn help(&self) -> String {
        let add = "any other GPU: write its peaks to a file and pass --arch FILE, for example\n  \
                   {\"name\": \"MyGPU\", \"mem_bw_gbps\": 4800, \"memory_gb\": 141, \
                   \"max_achievable_tflops\": {\"matrix_bf16\": 990, \"vector_fp32\": 67}}";
        match self {
            Self::Unknown { suggestion: Some(name), .. } => format!("did you mean {name}?\n{add}"),
            Self::Unknown { suggestion: None, .. } => add.to_owned(),
            Self::Json(_) | Self::Key { .. } => "the form is {\"name\": …, \"mem_bw_gbps\": GB/s, \"memory_gb\": GB, \
                 \"max_achievable_tflops\": {\"matrix_bf16\": TFLOPS, …}}; docs/platforms.md has the keys"
                .to_owned(),
            Self::Override { .. } | Self::Implausible { .. } => {
                "leave the option out to use the platform's own figure".to_owned()
            }
        }
    }
}

impl Platform {
    /// Every shipped platform.
    pub fn all() -> &'static [Self] {
        // A shipped file that does not parse would be left out here; the list test makes that impossible.
        static ALL: LazyLock<Vec<Platform>> =
            LazyLock::new(|| FILES.iter().filter_map(|text| parse(text, Origin::Shipped).ok()).collect());
        &ALL
    }

    /// The shipped platform of this name. Case and punctuation do not count, and a full device name will do:
    /// `h200`, `H100 SXM`, `AMD Instinct MI300X VF`.
    pub fn find(name: &str) -> Result<&'static Self, PlatformError> {
        by_name(name).ok_or_else(|| {
            let known: Vec<&'static str> = Self::all().iter().map(|p| p.name.as_str()).collect();
            let suggestion = nearest(&plain(name), known.iter().copied());
            PlatformError::Unknown { name: name.to_owned(), suggestion, known }
        })
    }

    /// Guesses the platform from a trace's device: by name, else by number of compute units and bytes of memory.
    pub fn from_device(name: &str, num_sms: Option<u32>, total_mem: Option<u64>) -> Option<DeviceMatch> {
        // Nominal sizes are closest to binary gigabytes: an H200 (141 GB) reports 139.8 · 2³⁰ bytes.
        let memory_gb = total_mem.map(|bytes| bytes as f64 / f64::from(1 << 30));
        let near = |p: &Platform| {
            let (nominal, seen) = (p.memory_gb?.value, memory_gb?);
            Some((seen - nominal).abs() <= nominal * MEMORY_TOLERANCE)
        };
        if let Some(platform) = by_name(name) {
            let other_memory = near(platform) == Some(false);
            let other_units = platform.num_cus.zip(num_sms).is_some_and(|(nominal, seen)| nominal != seen);
            let doubt = (other_memory || other_units).then(|| variant_doubt(name, platform, num_sms, memory_gb));
            return Some(DeviceMatch { platform, doubt });
        }
        let platform =
            Self::all().iter().find(|p| p.num_cus.is_some() && p.num_cus == num_sms && near(p) == Some(true))?;
        let shown = name.replace('`', "'");
        let doubt = (!name.is_empty())
            .then(|| format!("`{shown}` is not a known device; its size is that of the {}", platform.name));
        Some(DeviceMatch { platform, doubt })
    }

    /// Reads an arch file: `{"name", "mem_bw_gbps", "memory_gb", "max_achievable_tflops": {spec: TFLOPS}}`. Keys
    /// beyond these are ignored, and specs that there are not are named in `doubt`; the figures are taken as they stand.
    pub fn from_arch_json(text: &str) -> Result<Self, PlatformError> {
        parse(text, Origin::User)
    }

    /// The platform with the figures given on the command line.
    pub fn with_overrides(&self, overrides: &Overrides) -> Result<Self, PlatformError> {
        // `scale` turns the unit of the option into that of the platform.
        let flag = |option: &'static str, value: Option<f64>, unit: &'static str, scale: f64| match value {
            Some(v) if !(v.is_finite() && v > 0.0) => Err(PlatformError::Override { option, value: v.to_string() }),
            Some(v) if !PLAUSIBLE.contains(&(v * scale)) => {
                Err(PlatformError::Implausible { option, value: format!("{v:e}"), unit })
            }
            other => Ok(other.map(|value| Figure { value: value * scale, source: Source::Flag })),
        };
        let mut platform = self.clone();
        if let Some(bandwidth) = flag("--peak-hbm-tbs", overrides.peak_hbm_tbs, "TB/s", 1e3)? {
            platform.mem_bw_gbps = bandwidth;
        }
        if let Some(rate) = flag("--peak-maf-tflops", overrides.peak_maf_tflops, "TFLOPS", 1.0)? {
            platform.peaks.insert("matrix_bf16".to_owned(), rate);
            platform.peaks.insert("matrix_fp16".to_owned(), rate);
        }
        if let Some(memory) = flag("--memory-gb", overrides.memory_gb, "GB", 1.0)? {
            platform.memory_gb = Some(memory);
        }
        Ok(platform)
    }

    /// The rate in TFLOPS listed under exactly this Compute Spec.
    pub fn listed_peak(&self, compute_spec: &str) -> Option<Figure> {
        self.peaks.get(compute_spec).copied()
    }

    /// The rate in TFLOPS for a Compute Spec: listed, or derived from bf16 where the platform says so.
    pub fn peak(&self, compute_spec: &str) -> Option<Figure> {
        self.listed_peak(compute_spec).or_else(|| self.derived(compute_spec))
    }

    /// The rate in TFLOPS of the vector units on fp32, a multiply-add counted as two; where none is listed, that of fp32
    /// work on the matrix units.
    pub fn vector_peak(&self) -> Option<Figure> {
        ["vector_fp32", "matrix_fp32", "matrix_tf32"].iter().find_map(|spec| self.peak(spec))
    }

    /// FLOPs per byte at which arithmetic and memory take equally long.
    pub fn knee(&self, compute_spec: &str) -> Option<f64> {
        self.peak(compute_spec).map(|peak| peak.value * 1e12 / (self.mem_bw_gbps.value * 1e9))
    }

    fn derived(&self, spec: &str) -> Option<Figure> {
        if !self.derive_matrix {
            return None;
        }
        let (_, factor) = DERIVED.iter().find(|(name, _)| *name == spec)?;
        let bf16 = self.listed_peak("matrix_bf16")?;
        Some(Figure { value: bf16.value * factor, source: Source::Derived })
    }
}

/// Says how a device differs from the platform its name points at (a 40 GB A100, an H100 on a card).
fn variant_doubt(name: &str, platform: &Platform, num_sms: Option<u32>, memory_gb: Option<f64>) -> String {
    let side = |units: Option<u32>, memory: Option<f64>| {
        let parts: Vec<String> = [units.map(|n| format!("{n} compute units")), memory.map(|gb| format!("{gb:.0} GB"))]
            .into_iter()
            .flatten()
            .collect();
        parts.join(" and ")
    };
    let name = name.replace('`', "'");
    format!(
        "`{name}` has {}, the {} of the table {}: its peaks may differ",
        side(num_sms, memory_gb),
        platform.name,
        side(platform.num_cus, platform.memory_gb.map(|m| m.value)),
    )
}

/// Lower-case letters and digits only.
fn plain(name: &str) -> String {
    name.chars().filter(char::is_ascii_alphanumeric).map(|c| c.to_ascii_lowercase()).collect()
}

/// The platform whose key is the name or begins one of its words. Whole words only, because `GH200` is no H200 and an
/// `RTX A1000` no A100.
fn by_name(name: &str) -> Option<&'static Platform> {
    let whole = plain(name);
    if let Some(platform) = Platform::all().iter().find(|p| plain(&p.name) == whole) {
        return Some(platform);
    }
    let begins = |word: &str, key: &str| {
        word.strip_prefix(key).is_some_and(|rest| !rest.starts_with(|c: char| c.is_ascii_digit()))
    };
    let lower = name.to_ascii_lowercase();
    let words = || lower.split(|c: char| !c.is_ascii_alphanumeric());
    let mut found = Platform::all().iter().filter(|p| words().any(|word| begins(word, &plain(&p.name))));
    // A text that names two platforms names none.
    found.next().filter(|_| found.next().is_none())
}

/// Whose file is read: only shipped ones carry sources and the keys that users have no need of.
#[derive(Clone, Copy, PartialEq)]
enum Origin {
    Shipped,
    User,
}

fn parse(text: &str, origin: Origin) -> Result<Platform, PlatformError> {
    let value: Value = serde_json::from_str(without_mark(text)).map_err(|e| PlatformError::Json(e.to_string()))?;
    let Value::Object(root) = &value else {
        return Err(PlatformError::Json(format!("expected an object, found {}", kind(&value))));
    };
    let rates = match root.get("max_achievable_tflops") {
        Some(Value::Object(rates)) => rates,
        Some(other) => return Err(wrong("max_achievable_tflops", "an object of Compute Spec: TFLOPS", other)),
        None => return Err(missing("max_achievable_tflops")),
    };
    let mut peaks = BTreeMap::new();
    // A rate of null is one the user does not know.
    for (spec, rate) in rates.iter().filter(|(spec, rate)| is_compute_spec(spec) && !rate.is_null()) {
        let key = format!("max_achievable_tflops.{spec}");
        peaks.insert(spec.clone(), Figure { value: positive(&key, rate)?, source: source(root, &key, origin)? });
    }
    let figure = |key: &str| match root.get(key) {
        None | Some(Value::Null) => Ok(None),
        Some(v) => Ok(Some(Figure { value: positive(key, v)?, source: source(root, key, origin)? })),
    };
    let mem_bw_gbps = figure("mem_bw_gbps")?.ok_or_else(|| missing("mem_bw_gbps"))?;
    let memory_gb = figure("memory_gb")?;
    let name = match root.get("name") {
        Some(Value::String(name)) => name.clone(),
        None => "custom".to_owned(),
        Some(other) => return Err(wrong("name", "text", other)),
    };
    let mut platform = Platform {
        name,
        vendor: None,
        basis: None,
        mem_bw_gbps,
        memory_gb,
        num_cus: None,
        peaks,
        derive_matrix: false,
        notes: Vec::new(),
        doubt: unknown_specs(rates.keys().filter(|spec| !is_compute_spec(spec))),
    };
    if origin == Origin::Shipped {
        platform.num_cus = figure("num_cus")?.map(|f| f.value as u32);
        read_shipped(root, &mut platform);
    }
    Ok(platform)
}

/// Whether operations may ask for this rate: also for vector rates that no shipped platform lists.
fn is_compute_spec(spec: &str) -> bool {
    let precision = spec.strip_prefix("matrix_").or_else(|| spec.strip_prefix("vector_"));
    let known = COMPUTE_SPECS.iter().filter_map(|spec| spec.strip_prefix("matrix_"));
    precision.is_some_and(|precision| known.into_iter().any(|known| known == precision))
}

/// Tells of rates whose keys are no Compute Specs, which no operation asks for.
fn unknown_specs<'k>(keys: impl Iterator<Item = &'k String>) -> Option<String> {
    let told: Vec<String> = keys
        .map(|key| {
            let whole = COMPUTE_SPECS.iter().find(|spec| spec.rsplit('_').next() == Some(key)).copied();
            let meant = whole.or_else(|| nearest(key, COMPUTE_SPECS.iter().copied()));
            let meant = meant.map_or_else(String::new, |spec| format!(" (did you mean `{spec}`?)"));
            format!("`{}`{meant}", key.replace('`', "'"))
        })
        .collect();
    let verb = if told.len() == 1 { "is no Compute Spec" } else { "are no Compute Specs" };
    (!told.is_empty()).then(|| format!("{} in max_achievable_tflops {verb} and not used", told.join(", ")))
}

/// The keys that only shipped files have.
fn read_shipped(root: &Map<String, Value>, platform: &mut Platform) {
    let text = |key: &str| root.get(key).and_then(Value::as_str);
    platform.vendor = text("vendor").map(str::to_owned);
    platform.basis = [Basis::Achievable, Basis::Theoretical].into_iter().find(|b| text("basis") == Some(b.as_str()));
    platform.derive_matrix = root.get("derive_matrix").and_then(Value::as_bool).unwrap_or(false);
    let notes = root.get("notes").and_then(Value::as_array);
    platform.notes = notes.into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect();
}

/// The source of the figure under `key` (`max_achievable_tflops.matrix_bf16`), which a shipped file must state.
fn source(root: &Map<String, Value>, key: &str, origin: Origin) -> Result<Source, PlatformError> {
    if origin == Origin::User {
        return Ok(Source::ArchFile);
    }
    let mut entry = root.get("source");
    for part in key.split('.') {
        entry = entry.and_then(|v| v.get(part));
    }
    entry.and_then(Value::as_str).and_then(Source::from_word).ok_or_else(|| PlatformError::Key {
        key: format!("source.{key}"),
        problem: "expected seed, reference or datasheet".to_owned(),
    })
}

fn positive(key: &str, value: &Value) -> Result<f64, PlatformError> {
    match value.as_f64() {
        Some(x) if PLAUSIBLE.contains(&x) => Ok(x),
        Some(x) if x > 0.0 => {
            Err(PlatformError::Key { key: key.to_owned(), problem: format!("no device has a figure of {x:e}") })
        }
        Some(x) => {
            Err(PlatformError::Key { key: key.to_owned(), problem: format!("expected a number above 0, found {x}") })
        }
        None => Err(wrong(key, "a number", value)),
    }
}

fn missing(key: &str) -> PlatformError {
    PlatformError::Key { key: key.to_owned(), problem: "missing".to_owned() }
}

fn wrong(key: &str, expected: &str, found: &Value) -> PlatformError {
    PlatformError::Key { key: key.to_owned(), problem: format!("expected {expected}, found {}", kind(found)) }
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "true or false",
        Value::Number(_) => "a number",
        Value::String(_) => "text",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

#[cfg(test)]
mod tests;
