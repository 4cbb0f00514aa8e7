//! A real sshd on this machine, for one test: own keys, own port, own home, nothing of the user's.

use std::fs;
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::support::Run;

const SSHD: &str = "/usr/sbin/sshd";

/// The server, and the folders that the other side sees: `home`, `tmp`, and `bin` before all else on its PATH.
pub(super) struct Sshd {
    folder: TempDir,
    server: Child,
}

impl Sshd {
    /// Nothing where there is no sshd, or none that can be run.
    pub(super) fn start() -> Option<Self> {
        let started = Self::try_start();
        if started.is_none() {
            println!("skipped: there is no sshd here that can be run");
        }
        started
    }

    fn try_start() -> Option<Self> {
        if !Path::new(SSHD).exists() {
            return None;
        }
        // Where there is no service manager nobody has made it; only the superuser's sshd wants it.
        let _ = fs::create_dir("/run/sshd");
        let folder = tempfile::tempdir().ok()?;
        let at = |name: &str| folder.path().join(name);
        for name in ["home", "tmp", "bin"] {
            fs::create_dir(at(name)).ok()?;
        }
        for name in ["host_key", "key"] {
            let made = Command::new("ssh-keygen").args(["-q", "-t", "ed25519", "-N", "", "-f"]).arg(at(name)).status();
            made.ok().filter(std::process::ExitStatus::success)?;
        }
        let path = format!("{}:{}", at("bin").display(), std::env::var("PATH").ok()?);
        let key = fs::read_to_string(at("key.pub")).ok()?;
        let key = format!(
            "environment=\"HOME={}\",environment=\"TMPDIR={}\",environment=\"PATH={path}\",restrict {key}",
            at("home").display(),
            at("tmp").display()
        );
        fs::write(at("authorized_keys"), key).ok()?;
        // Another test may take the port between the look and the start.
        (0..5).find_map(|_| Self::listen(folder.path())).map(|server| Self { folder, server })
    }

    fn listen(folder: &Path) -> Option<Child> {
        let port = TcpListener::bind("127.0.0.1:0").ok()?.local_addr().ok()?.port();
        let at = |name: &str| folder.join(name).display().to_string();
        let config = format!(
            "Port {port}\nListenAddress 127.0.0.1\nHostKey {}\nAuthorizedKeysFile {}\nPidFile none\nStrictModes no\n\
             UsePAM no\nPasswordAuthentication no\nKbdInteractiveAuthentication no\nPermitRootLogin prohibit-password\n\
             PermitUserEnvironment yes\nLogLevel ERROR\n",
            at("host_key"),
            at("authorized_keys")
        );
        fs::write(at("sshd_config"), config).ok()?;
        let mut server = Command::new(SSHD)
            .args(["-D", "-e", "-f", &at("sshd_config")])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(fs::File::create(at("sshd.log")).ok()?)
            .spawn()
            .ok()?;
        let listens = wait_for(|| {
            TcpStream::connect(("127.0.0.1", port)).is_ok() || server.try_wait().is_ok_and(|ended| ended.is_some())
        });
        if !listens || server.try_wait().ok()?.is_some() {
            let _ = server.kill();
            let _ = server.wait();
            return None;
        }
        let host_key = fs::read_to_string(at("host_key.pub")).ok()?;
        fs::write(at("known_hosts"), format!("[127.0.0.1]:{port} {host_key}")).ok()?;
        fs::write(at("no_hosts"), "").ok()?;
        let common = format!(
            "HostName 127.0.0.1\nIdentityFile {}\nIdentitiesOnly yes\nIdentityAgent none\nStrictHostKeyChecking yes\n\
             BatchMode yes\nGlobalKnownHostsFile none\n",
            at("key")
        );
        let config = format!(
            "Host loop\nPort {port}\nUserKnownHostsFile {known}\nHost stranger\nPort {port}\nUserKnownHostsFile {none}\n\
             Host nobody\nPort 1\nUserKnownHostsFile {known}\nHost *\n{common}",
            known = at("known_hosts"),
            none = at("no_hosts"),
        );
        fs::write(at("ssh_config"), config).ok()?;
        Some(server)
    }

    /// A path below the folder of this server: `home/…`, `tmp/…`, `bin/…`.
    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// What `--ssh` has to be.
    pub(super) fn ssh(&self) -> String {
        format!("ssh -F '{}'", self.path("ssh_config").display())
    }

    /// Puts this build of jarvis on the PATH there.
    pub(super) fn install(&self) {
        symlink(env!("CARGO_BIN_EXE_jarvis"), self.path("bin/jarvis")).unwrap();
    }

    /// Puts a script on the PATH there.
    pub(super) fn program(&self, name: &str, script: &str) {
        let path = self.path("bin").join(name);
        fs::write(&path, script).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    }

    /// A jarvis to be copied: this build, without what only a debugger needs, so that it takes less time.
    pub(super) fn slim(&self) -> PathBuf {
        let (built, slim) = (Path::new(env!("CARGO_BIN_EXE_jarvis")), self.path("jarvis"));
        let stripped = Command::new("strip").arg("-o").arg(&slim).arg(built).status();
        if stripped.is_ok_and(|status| status.success()) { slim } else { built.to_path_buf() }
    }

    /// `jarvis analyze` with these arguments, ready to be run.
    pub(super) fn command(&self, args: &[&str]) -> Command {
        self.command_of(Path::new(env!("CARGO_BIN_EXE_jarvis")), args)
    }

    /// The same with another program.
    pub(super) fn command_of(&self, program: &Path, args: &[&str]) -> Command {
        let mut command = Command::new(program);
        command.arg("analyze").args(args).stdin(Stdio::null());
        command.env("JARVIS_SSH", self.ssh()).current_dir(self.path(""));
        command
    }

    pub(super) fn analyze(&self, args: &[&str]) -> Run {
        self.command(args).output().expect("jarvis runs").into()
    }

    /// What lies in the folder for temporary files there.
    pub(super) fn left_behind(&self) -> Vec<PathBuf> {
        fs::read_dir(self.path("tmp")).unwrap().map(|entry| entry.unwrap().path()).collect()
    }

    /// Whether a jarvis there has its request and works on it, which takes a second thread.
    pub(super) fn is_busy(&self) -> bool {
        let own = self.path("").display().to_string();
        let works = |process: PathBuf| {
            let line = fs::read(process.join("cmdline")).unwrap_or_default();
            let line = String::from_utf8_lossy(&line);
            let threads = || fs::read_dir(process.join("task")).map_or(0, Iterator::count);
            line.contains("remote-side") && line.contains(&own) && threads() > 1
        };
        fs::read_dir("/proc").unwrap().flatten().any(|entry| works(entry.path()))
    }
}

impl Drop for Sshd {
    fn drop(&mut self) {
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}

/// Whether something comes true before a test gives up.
pub(super) fn wait_for(mut is_true: impl FnMut() -> bool) -> bool {
    let until = Instant::now() + Duration::from_mins(1);
    while Instant::now() < until {
        if is_true() {
            return true;
        }
        sleep(Duration::from_millis(2));
    }
    false
}
