//! Where things are.

use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

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
