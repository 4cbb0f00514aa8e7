//! Which GPU to measure against: options that several commands share.

use std::path::{Path, PathBuf};

use clap::Args;
use jarvis_perf::platform::{DeviceMatch, Overrides, Platform, PlatformError};
use jarvis_trace::Trace;

use super::Failure;
use super::values::figure;
use crate::exit;

#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Platform")]
pub(crate) struct PlatformArgs {
    /// GPU whose peak figures to use (`jarvis platforms` lists them)
    #[arg(long, value_name = "NAME", conflicts_with = "arch")]
    pub(crate) platform: Option<String>,
    /// File with the peak figures of any other GPU
    #[arg(long, value_name = "FILE")]
    pub(crate) arch: Option<PathBuf>,
    /// Memory bandwidth in TB/s, in place of the platform's
    #[arg(long, value_name = "X", value_parser = figure, allow_negative_numbers = true)]
    pub(crate) peak_hbm_tbs: Option<f64>,
    /// Matrix rate for bf16 and fp16 in TFLOPS, in place of the platform's
    #[arg(long, value_name = "X", value_parser = figure, allow_negative_numbers = true)]
    pub(crate) peak_maf_tflops: Option<f64>,
    /// Device memory in GB, in place of the platform's
    #[arg(long, value_name = "X", value_parser = figure, allow_negative_numbers = true)]
    pub(crate) memory_gb: Option<f64>,
}

/// The platform of a trace, and what may be wrong with it.
#[derive(Debug, Default)]
pub(crate) struct Chosen {
    pub(crate) platform: Option<Platform>,
    /// Why the figures may not fit, or why there are none.
    pub(crate) doubt: Option<String>,
}

impl Chosen {
    /// What the user named.
    pub(crate) fn named(platform: Option<Platform>) -> Self {
        let doubt = platform.as_ref().and_then(|platform| platform.doubt.clone());
        Self { platform, doubt }
    }
}

impl PlatformArgs {
    /// The figures that the user gives.
    pub(crate) fn overrides(&self) -> Overrides {
        Overrides { peak_hbm_tbs: self.peak_hbm_tbs, peak_maf_tflops: self.peak_maf_tflops, memory_gb: self.memory_gb }
    }

    /// The options that give them, whose names begin so, for reports to repeat.
    pub(crate) fn figures(&self, prefix: &str, add: &mut impl FnMut(&str, Option<String>)) {
        let figures = [
            ("peak-hbm-tbs", self.peak_hbm_tbs),
            ("peak-maf-tflops", self.peak_maf_tflops),
            ("memory-gb", self.memory_gb),
        ];
        for (name, figure) in figures {
            add(&format!("{prefix}{name}"), figure.map(|figure| figure.to_string()));
        }
    }

    /// The platform the user names, if one is named. Figures alone name one if they are all that a roofline needs.
    pub(crate) fn named(&self) -> Result<Option<Platform>, Failure> {
        let base = match (&self.platform, &self.arch) {
            (Some(name), _) => Some(Platform::find(name)?.clone()),
            (None, Some(path)) => Some(read_arch(path)?),
            (None, None) => None,
        };
        match base {
            Some(base) => Ok(Some(base.with_overrides(&self.overrides())?)),
            None => self.of_figures(),
        }
    }

    fn of_figures(&self) -> Result<Option<Platform>, Failure> {
        if self.peak_hbm_tbs.is_none() || self.peak_maf_tflops.is_none() {
            return Ok(None);
        }
        // Both figures of this file are replaced by the overrides, which also check them.
        let blank = r#"{"mem_bw_gbps": 1, "max_achievable_tflops": {"matrix_bf16": 1}}"#;
        Ok(Some(Platform::from_arch_json(blank)?.with_overrides(&self.overrides())?))
    }

    /// The platform named, for commands without a trace.
    pub(crate) fn without_trace(&self) -> Result<Option<Platform>, Failure> {
        match self.named()? {
            None if self.overrides() != Overrides::default() => {
                Err(Self::nothing_to_replace("no platform is named, so there is nothing to replace figures of"))
            }
            named => Ok(named),
        }
    }

    fn nothing_to_replace(what: &str) -> Failure {
        Failure::usage(what).help(format!("add --platform NAME ({}) or --arch FILE", known().join(", ")))
    }

    /// The platform named, else that of the trace's device, else none.
    pub(crate) fn choose(&self, trace: &Trace) -> Result<Chosen, Failure> {
        // A device that is known goes before lone figures: those then replace some of its own.
        if self.platform.is_some() || self.arch.is_some() {
            return Ok(Chosen::named(self.named()?));
        }
        if let Some(found) = of_device(trace) {
            let mut platform = found.platform.with_overrides(&self.overrides())?;
            platform.doubt.clone_from(&found.doubt);
            return Ok(Chosen { platform: Some(platform), doubt: found.doubt });
        }
        if let Some(platform) = self.named()? {
            return Ok(Chosen { platform: Some(platform), doubt: None });
        }
        if self.overrides() != Overrides::default() {
            return Err(Self::nothing_to_replace(
                "the trace does not tell its GPU, so there is nothing to replace figures of",
            ));
        }
        Ok(Chosen { platform: None, doubt: Some(unknown_device(trace, "the trace", "")) })
    }
}

fn of_device(trace: &Trace) -> Option<DeviceMatch> {
    let models = trace.models_at_work();
    let device = models.first()?;
    let units = device.multiprocessors.and_then(|n| u32::try_from(n).ok());
    let memory = device.memory.and_then(|bytes| u64::try_from(bytes).ok());
    Platform::from_device(&device.name, units, memory)
}

/// Why there is no roofline, and what to do. Of several traces the one is called so, and its options begin so.
pub(crate) fn unknown_device(trace: &Trace, called: &str, prefix: &str) -> String {
    let models = trace.models_at_work();
    let what = match models.first() {
        Some(device) if !device.name.is_empty() && prefix.is_empty() => {
            format!("`{}` is not a known platform", device.name)
        }
        Some(device) if !device.name.is_empty() => format!("`{}` of {called} is not a known platform", device.name),
        _ => format!("{called} does not tell its GPU"),
    };
    format!(
        "{what}, so no operation is compared with what it could reach; pass --{prefix}platform NAME ({}) or \
         --{prefix}arch FILE",
        known().join(", ")
    )
}

/// Names of all platforms.
fn known() -> Vec<&'static str> {
    Platform::all().iter().map(|p| p.name.as_str()).collect()
}

fn read_arch(path: &Path) -> Result<Platform, Failure> {
    let text = super::read_text(path)?;
    let platform = Platform::from_arch_json(&text)
        .map_err(|error| Failure::usage(format!("{}: {error}", path.display())).help(error.help()))?;
    if platform.name.trim().is_empty() {
        return Err(Failure::usage(format!("{}: `name` is empty", path.display()))
            .help("give the GPU a name, or leave the key out"));
    }
    Ok(platform)
}

impl From<PlatformError> for Failure {
    fn from(error: PlatformError) -> Self {
        Self::new(exit::USAGE, error.to_string()).help(error.help())
    }
}
