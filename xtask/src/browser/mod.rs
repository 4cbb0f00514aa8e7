//! `report.html` in a real browser: Chromium, driven by `ChromeDriver` over its own protocol, the network shut off.

mod checks;
mod driver;
mod hostile;
mod numbers;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::workspace;
use driver::Driver;

/// Fixtures whose pages are opened: eager with modules, compiled training, full precision, many ranks on other hardware.
const FIXTURES: &[&str] = &[
    "h200/attn_unfused.json.gz",
    "h200/lm_compiled_train.json.gz",
    "h200/mlp_fp32.json.gz",
    "handmade/rocm_like.json",
];

/// Size of the generated trace whose page must stay small and quick.
const LARGE_BYTES: u64 = 48_000_000;
/// A page is never larger.
const LARGEST_PAGE: u64 = 3_000_000;

/// Runs all checks and sums them up in a line.
pub(crate) fn check(root: &Path) -> Result<String> {
    let target = workspace::target(root);
    let jarvis = Jarvis { binary: target.join("debug/jarvis") };
    let pictures = target.join("browser");
    fs::create_dir_all(&pictures)?;
    let work = tempfile::tempdir()?;
    let driver = Driver::start()?;
    for fixture in FIXTURES {
        let trace = root.join("fixtures").join(fixture);
        let name = fixture.rsplit('/').next().unwrap_or(fixture).split('.').next().unwrap_or(fixture);
        let folder = work.path().join(name);
        jarvis.run(&["analyze"], &trace, &folder)?;
        let page = driver.open(&folder.join("report.html"))?;
        checks::analysis(&page, &folder, &pictures, name).with_context(|| format!("report.html of {fixture}"))?;
    }
    let trace = root.join("fixtures").join(FIXTURES[0]);
    let folder = work.path().join("report_only");
    jarvis.run(&["report"], &trace, &folder)?;
    checks::report(&driver.open(&folder.join("report.html"))?).context("report.html of `jarvis report`")?;
    let weight = large(&driver, &jarvis, work.path())?;
    let injected = hostile::folder(&jarvis, work.path())?;
    checks::hostile(&driver.open(&injected.join("report.html"))?, &pictures)
        .context("report.html of a hostile trace")?;
    Ok(format!("{} fixtures, a report, a hostile trace, {weight}", FIXTURES.len()))
}

/// The page of a trace with many events stays small and quick.
fn large(driver: &Driver, jarvis: &Jarvis, work: &Path) -> Result<String> {
    let trace = work.join("large.json.gz");
    let options = crate::generate::Options { size: LARGE_BYTES, seed: 1, layout: crate::generate::Layout::Kineto };
    crate::generate::command::write_file(&options, true, &trace)?;
    let folder = work.join("large");
    jarvis.run(&["analyze"], &trace, &folder)?;
    let page = folder.join("report.html");
    let bytes = fs::metadata(&page)?.len();
    ensure!(bytes <= LARGEST_PAGE, "the page of a large trace has {bytes} bytes");
    let ms = checks::ready_ms(&driver.open(&page)?).context("report.html of a large trace")?;
    Ok(format!("and {} kB of a {} MB trace, ready in {ms:.0} ms", bytes / 1000, LARGE_BYTES / 1_000_000))
}

/// The program under test.
struct Jarvis {
    binary: PathBuf,
}

impl Jarvis {
    /// Runs it on a trace into a folder.
    fn run(&self, arguments: &[&str], trace: &Path, folder: &Path) -> Result<()> {
        let mut command = Command::new(&self.binary);
        command.args(arguments).arg(trace).args(["--platform", "H200", "--quiet", "-o"]).arg(folder);
        let output = command.output().with_context(|| format!("cannot run {}", self.binary.display()))?;
        ensure!(output.status.success(), "jarvis failed: {}", String::from_utf8_lossy(&output.stderr));
        Ok(())
    }
}
