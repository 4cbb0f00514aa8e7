//! Where things are.

use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

/// Root of the repository.
pub(crate) fn root() -> Result<PathBuf> {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR"));
    manifest.parent().map(Path::to_owned).context("the manifest of xtask has no folder around it")
}

/// Where cargo builds.
pub(crate) fn target(root: &Path) -> PathBuf {
    env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), |folder| root.join(folder))
}

/// The cargo that runs this task.
pub(crate) fn cargo() -> OsString {
    env::var_os("CARGO").unwrap_or_else(|| "cargo".into())
}

/// Where real traces lie: `shared/traces` in the repository, or beside one of the folders around it.
pub(crate) fn real_traces(root: &Path) -> Option<PathBuf> {
    root.ancestors().map(|folder| folder.join("shared/traces")).find(|folder| folder.is_dir())
}

/// The program that the tests run, built as they need it: building it by itself would choose other features for what
/// it depends on, and compile that again.
pub(crate) fn program_under_test(root: &Path) -> Result<PathBuf> {
    let arguments = ["test", "--quiet", "--workspace", "--lib", "--bins", "--tests", "--no-run"];
    let status = Command::new(cargo()).current_dir(root).args(arguments).status().context("cannot run cargo")?;
    ensure!(status.success(), "the program could not be built");
    Ok(target(root).join("debug/jarvis"))
}
