//! `report.html` in a real browser: Chromium, driven by `ChromeDriver` over its own protocol, the network shut off.

mod checks;
mod driver;
mod hostile;
mod numbers;
mod versus;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::mpsc;

use anyhow::{Context, Result, ensure};

use crate::workspace;
use driver::{Browser, Page};

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

/// Pairs of fixtures that are compared, target and reference, and the platform of the reference: before and after a
/// fusion, and one trace as if it came from two kinds of GPU.
const PAIRS: &[(&str, &str, &str)] = &[
    ("h200/attn_fused.json.gz", "h200/attn_unfused.json.gz", "H200"),
    ("h200/mlp_fp32.json.gz", "h200/mlp_fp32.json.gz", "MI300X"),
];

/// What is checked of a page.
enum Subject {
    Analysis(String),
    Versus(String),
    Report,
    Hostile,
    HostileVersus,
    Large,
}

/// Makes a folder with a page.
type Make<'a> = Box<dyn FnOnce() -> Result<PathBuf> + Send + 'a>;

/// Runs all checks and sums them up in a line.
pub(crate) fn check(root: &Path) -> Result<String> {
    let target = workspace::target(root);
    let jarvis = Jarvis { binary: workspace::program_under_test(root)? };
    let pictures = target.join("browser");
    fs::create_dir_all(&pictures)?;
    let work = tempfile::tempdir()?;
    let list = subjects(&jarvis, root, work.path());
    std::thread::scope(|scope| {
        // While the browser looks at a page, the next ones are made.
        let (made, pages) = mpsc::channel();
        scope.spawn(move || {
            for (subject, make) in list {
                // Nobody takes it once a check has failed.
                if made.send((subject, make())).is_err() {
                    break;
                }
            }
        });
        let browser = Browser::start()?;
        let mut weight = String::new();
        for (subject, folder) in pages {
            let folder = folder?;
            let file = folder.join("report.html");
            let page = browser.open(&file)?;
            match subject {
                Subject::Analysis(name) => checks::analysis(&page, &folder, &pictures, &name).context(name)?,
                Subject::Versus(name) => versus::compared(&page, &folder, &pictures, &name).context(name)?,
                Subject::Report => checks::report(&page).context("report.html of `jarvis report`")?,
                Subject::Hostile => checks::hostile(&page, &pictures).context("report.html of a hostile trace")?,
                Subject::HostileVersus => {
                    versus::hostile(&page, &pictures).context("report.html of two hostile traces")?;
                }
                Subject::Large => weight = weigh(&page, &file).context("report.html of a large trace")?,
            }
        }
        let (fixtures, pairs) = (FIXTURES.len(), PAIRS.len());
        Ok(format!("{fixtures} fixtures, {pairs} pairs, a report, hostile traces, {weight}"))
    })
}

/// Everything to look at, with how it is made.
fn subjects<'a>(jarvis: &'a Jarvis, root: &'a Path, work: &'a Path) -> Vec<(Subject, Make<'a>)> {
    let fixture = |name: &str| root.join("fixtures").join(name);
    let stem = |name: &str| name.rsplit('/').next().unwrap_or(name).split('.').next().unwrap_or(name).to_owned();
    let mut list: Vec<(Subject, Make<'a>)> = Vec::new();
    for name in FIXTURES {
        let (trace, folder) = (fixture(name), work.join(stem(name)));
        list.push((
            Subject::Analysis(stem(name)),
            Box::new(move || jarvis.run(&["analyze"], &trace, &folder).map(|()| folder)),
        ));
    }
    for (target, reference, platform) in PAIRS {
        let name = format!("{}_versus_{}", stem(target), stem(reference));
        let (trace, reference, folder) = (fixture(target), fixture(reference), work.join(&name));
        list.push((
            Subject::Versus(name),
            Box::new(move || {
                let reference = reference.to_string_lossy();
                let arguments = ["analyze", "--reference", &*reference, "--reference-platform", platform];
                jarvis.run(&arguments, &trace, &folder).map(|()| folder)
            }),
        ));
    }
    let (trace, folder) = (fixture(FIXTURES[0]), work.join("report_only"));
    list.push((Subject::Report, Box::new(move || jarvis.run(&["report"], &trace, &folder).map(|()| folder))));
    list.push((Subject::Hostile, Box::new(move || hostile::folder(jarvis, work))));
    list.push((Subject::HostileVersus, Box::new(move || hostile::compared_folder(jarvis, work))));
    list.push((Subject::Large, Box::new(move || large(jarvis, work))));
    list
}

/// The page of a trace with many events.
fn large(jarvis: &Jarvis, work: &Path) -> Result<PathBuf> {
    let trace = work.join("large.json.gz");
    let options = crate::generate::Options { size: LARGE_BYTES, seed: 1, layout: crate::generate::Layout::Kineto };
    crate::generate::command::write_file(&options, true, &trace)?;
    let folder = work.join("large");
    jarvis.run(&["analyze"], &trace, &folder)?;
    Ok(folder)
}

/// It stays small and quick.
fn weigh(page: &Page<'_>, file: &Path) -> Result<String> {
    let bytes = fs::metadata(file)?.len();
    ensure!(bytes <= LARGEST_PAGE, "the page has {bytes} bytes");
    let ms = checks::ready_ms(page)?;
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
