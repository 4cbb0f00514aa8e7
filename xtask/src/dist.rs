//! `cargo xtask dist`: the binary that is given away. It is linked statically, so that it runs on any Linux of its
//! architecture, and that is checked: no interpreter, no shared library, and a run in an empty root where that is
//! allowed.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};
use sha2::{Digest as _, Sha256};

use crate::workspace;

/// Fully static, and what releases are made with.
const MUSL: &str = "x86_64-unknown-linux-musl";
/// Static too, if the C library's archives are there.
const GNU: &str = "x86_64-unknown-linux-gnu";

/// Arguments of `cargo xtask dist`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Folder to put the binary and its checksum into.
    #[arg(long, short, value_name = "DIR")]
    output: Option<PathBuf>,
    /// Target to build for; the default is musl where it can be had, else the C library linked statically.
    #[arg(long, value_name = "TRIPLE")]
    target: Option<String>,
}

/// Builds, checks and tells.
pub(crate) fn run(args: &Args) -> Result<()> {
    let root = workspace::root()?;
    let target = args.target.clone().unwrap_or_else(choose);
    let built = build(&root, &target)?;
    let folder = args.output.clone().unwrap_or_else(|| workspace::target(&root).join("dist-out"));
    fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
    let name = format!("jarvis-{}-{target}", env!("CARGO_PKG_VERSION"));
    let binary = folder.join(&name);
    fs::copy(&built, &binary).with_context(|| format!("cannot copy {}", built.display()))?;
    let bytes = fs::read(&binary)?;
    linked_statically(&bytes)?;
    let sum = Sha256::digest(&bytes).iter().map(|b| format!("{b:02x}")).collect::<Vec<_>>().concat();
    fs::write(folder.join(format!("{name}.sha256")), format!("{sum}  {name}\n"))?;
    println!("{}", binary.display());
    println!("  size      {:.1} MB ({} bytes)", bytes.len() as f64 / 1e6, bytes.len());
    println!("  sha256    {sum}");
    println!("  version   {}", output(Command::new(&binary).arg("--version"))?.trim());
    println!("  linked    statically: no interpreter, no shared library");
    println!("  alone     {}", alone(&binary)?);
    Ok(())
}

/// musl where it is installed or can be; else the usual target, linked statically.
fn choose() -> String {
    if installed(MUSL) {
        return MUSL.to_owned();
    }
    let added = Command::new("rustup").args(["target", "add", MUSL]).status();
    if added.is_ok_and(|status| status.success()) && installed(MUSL) {
        return MUSL.to_owned();
    }
    eprintln!("{MUSL} is not installed and not to be had: linking glibc statically");
    GNU.to_owned()
}

/// Whether the toolchain in use has the standard library of a target.
fn installed(target: &str) -> bool {
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let folder = output(Command::new(rustc).args(["--print", "target-libdir", "--target", target]));
    folder.is_ok_and(|folder| Path::new(folder.trim()).is_dir())
}

fn build(root: &Path, target: &str) -> Result<PathBuf> {
    let mut cargo = Command::new(workspace::cargo());
    cargo.current_dir(root).args(["build", "--package", "jarvis", "--release", "--target", target]);
    // Paths of the machine it was built on are nobody's business, and would make two builds differ.
    let mut flags = std::env::var("RUSTFLAGS").unwrap_or_default();
    flags += " -C target-feature=+crt-static";
    let home = std::env::home_dir();
    for (path, name) in [(home.as_deref(), "home"), (Some(root), "jarvis")] {
        flags += &path.map_or(String::new(), |path| format!(" --remap-path-prefix={}={name}", path.display()));
    }
    cargo.env("RUSTFLAGS", flags.trim());
    let status = cargo.status().context("cannot run cargo")?;
    ensure!(status.success(), "the build for {target} ended with {status}");
    Ok(workspace::target(root).join(target).join("release/jarvis"))
}

/// Fails if the program asks for an interpreter or for shared libraries: these are segments of its header.
fn linked_statically(elf: &[u8]) -> Result<()> {
    const INTERPRETER: u32 = 3;
    const DYNAMIC: u32 = 2;
    const NEEDED: u64 = 1;
    ensure!(elf.starts_with(b"\x7fELF\x02\x01"), "the binary is no 64-bit ELF file");
    let (first, size, count) = (long(elf, 32)?, short(elf, 54)?, short(elf, 56)?);
    for i in 0..usize::from(count) {
        let at = usize::try_from(first)? + i * usize::from(size);
        let kind = u32::from_le_bytes(part(elf, at)?);
        ensure!(kind != INTERPRETER, "the binary asks for a dynamic loader");
        if kind == DYNAMIC {
            let (start, len) = (usize::try_from(long(elf, at + 8)?)?, usize::try_from(long(elf, at + 32)?)?);
            for entry in (start..start + len).step_by(16) {
                ensure!(long(elf, entry)? != NEEDED, "the binary needs a shared library");
            }
        }
    }
    Ok(())
}

fn part<const N: usize>(bytes: &[u8], at: usize) -> Result<[u8; N]> {
    let found = bytes.get(at..at + N).and_then(|found| found.try_into().ok());
    found.with_context(|| format!("the binary ends before byte {at}"))
}

fn long(bytes: &[u8], at: usize) -> Result<u64> {
    part(bytes, at).map(u64::from_le_bytes)
}

fn short(bytes: &[u8], at: usize) -> Result<u16> {
    part(bytes, at).map(u16::from_le_bytes)
}

/// Runs the binary where there is nothing but itself; changing the root takes rights that not everybody has.
fn alone(binary: &Path) -> Result<String> {
    let root = tempfile::tempdir()?;
    fs::copy(binary, root.path().join("jarvis"))?;
    let demo = Command::new("chroot").arg(root.path()).args(["/jarvis", "demo", "-o", "/out", "--quiet"]).output();
    let Ok(demo) = demo else { return Ok("not tried: there is no chroot here".to_owned()) };
    let said = String::from_utf8_lossy(&demo.stderr);
    if said.contains("cannot change root") {
        return Ok("not tried: changing the root needs more rights".to_owned());
    }
    if !demo.status.success() || !root.path().join("out/report.html").is_file() {
        bail!("in an empty root the binary ended with {}: {said}", demo.status);
    }
    let files = fs::read_dir(root.path().join("out"))?.count();
    Ok(format!("`jarvis demo` runs in an empty root and writes {files} files and folders"))
}

fn output(command: &mut Command) -> Result<String> {
    let output = command.output().with_context(|| format!("cannot run {command:?}"))?;
    ensure!(output.status.success(), "{command:?} ended with {}", output.status);
    Ok(String::from_utf8(output.stdout)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A header with one segment of this kind; a dynamic one begins at byte 120 with these entries.
    fn elf(kind: u32, entries: &[u64]) -> Vec<u8> {
        let mut elf = vec![0; 120];
        elf[..6].copy_from_slice(b"\x7fELF\x02\x01");
        elf[32] = 64;
        elf[54] = 56;
        elf[56] = 1;
        elf[64..68].copy_from_slice(&kind.to_le_bytes());
        elf[72] = 120;
        elf[96] = entries.len() as u8 * 16;
        for entry in entries {
            elf.extend_from_slice(&entry.to_le_bytes());
            elf.extend_from_slice(&[0; 8]);
        }
        elf
    }

    #[test]
    fn what_needs_a_loader_or_a_library_is_refused() {
        linked_statically(&elf(1, &[])).unwrap();
        linked_statically(&elf(2, &[5, 6])).unwrap();
        assert!(linked_statically(&elf(3, &[])).is_err());
        assert!(linked_statically(&elf(2, &[5, 1])).is_err());
        assert!(linked_statically(b"MZ").is_err());
        assert!(linked_statically(&elf(2, &[5, 6])[..130]).is_err());
        // Tests of this repository are linked to the C library as usual.
        if cfg!(all(target_os = "linux", target_env = "gnu", not(target_feature = "crt-static"))) {
            let own = std::fs::read(std::env::current_exe().unwrap()).unwrap();
            assert!(linked_statically(&own).is_err());
        }
    }
}
