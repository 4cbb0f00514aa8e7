//! Tells the binary which commit and target it was built from. Where there is no repository (a source archive), the
//! commit is `unknown`.

use std::env;
use std::path::Path;
use std::process::Command;

fn main() {
    let here = env::var("CARGO_MANIFEST_DIR").unwrap_or_default();
    let git = |args: &[&str]| -> Option<String> {
        let output = Command::new("git").arg("-C").arg(&here).args(args).output().ok()?;
        let text = String::from_utf8(output.stdout).ok()?;
        output.status.success().then(|| text.trim().to_owned())
    };
    // An archive may have been unpacked inside some other repository: its commits are not ours.
    let ours = git(&["ls-files", "--error-unmatch", "Cargo.toml"]).is_some();
    let commit = git(&["rev-parse", "--short=12", "HEAD"]).filter(|_| ours);
    println!("cargo::rustc-env=JARVIS_COMMIT={}", commit.as_deref().unwrap_or("unknown"));
    println!("cargo::rustc-env=JARVIS_TARGET={}", env::var("TARGET").unwrap_or_default());
    println!("cargo::rerun-if-changed=build.rs");
    // The log of HEAD grows with every commit and checkout; a file that is not there would build this anew each time.
    for file in ["HEAD", "logs/HEAD"] {
        let path = git(&["rev-parse", "--git-path", file]).map(|path| Path::new(&here).join(path));
        if let Some(path) = path.filter(|path| ours && path.exists()) {
            println!("cargo::rerun-if-changed={}", path.display());
        }
    }
}
