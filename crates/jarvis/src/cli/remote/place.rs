//! Where an analysis is to run: the host, the container in it, and how to get there.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use clap::{ArgGroup, Args};

#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Where the trace lies")]
#[command(group = ArgGroup::new("place").multiple(true))]
pub(crate) struct PlaceArgs {
    /// Analyse on this host, over your own ssh: a name of your ssh configuration, `user@host` or `ssh://user@host:port`
    #[arg(long, value_name = "HOST", group = "place")]
    pub(crate) cluster: Option<Host>,
    /// Analyse in this running container (docker or podman), of that host or of this one
    #[arg(long, value_name = "NAME", group = "place")]
    pub(crate) container: Option<Container>,
    /// Leave the copy of jarvis there that was made for the run
    #[arg(long, requires = "place")]
    pub(crate) keep: bool,
    /// The jarvis to copy there, whatever is installed; for a host of another kind than this one
    #[arg(long, value_name = "FILE", requires = "place")]
    pub(crate) remote_binary: Option<PathBuf>,
    /// The ssh program and its options, as a line for `sh` [default: what `JARVIS_SSH` says, or `ssh`]
    #[arg(long, value_name = "COMMAND", requires = "cluster")]
    pub(crate) ssh: Option<String>,
}

impl PlaceArgs {
    /// Whether the analysis runs in this process.
    pub(crate) fn is_here(&self) -> bool {
        self.cluster.is_none() && self.container.is_none()
    }

    /// The ssh program and its options. The variable may be set for good, and asks for no host by itself.
    pub(super) fn ssh(&self) -> String {
        let said = self.ssh.clone().or_else(|| std::env::var("JARVIS_SSH").ok());
        said.map(|ssh| ssh.trim().to_owned()).filter(|ssh| !ssh.is_empty()).unwrap_or_else(|| "ssh".to_owned())
    }

    /// The place in words: `gpu1`, `container box of gpu1`.
    pub(super) fn name(&self) -> String {
        match (&self.cluster, &self.container) {
            (Some(host), None) => host.to_string(),
            (Some(host), Some(container)) => format!("container {container} of {host}"),
            (None, Some(container)) => format!("container {container}"),
            (None, None) => "this machine".to_owned(),
        }
    }
}

/// A destination that `ssh` can't take for an option.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Host(String);

impl Host {
    /// `HOST:PATH`, as `scp` takes it.
    pub(crate) fn with_path(text: &str) -> Option<(Self, PathBuf)> {
        let (host, path) = text.split_once(':')?;
        let is_plain = !host.contains(['/', '\\']) && !path.is_empty();
        Some((host.parse().ok().filter(|_| is_plain)?, PathBuf::from(path)))
    }
}

impl FromStr for Host {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let host = text.strip_prefix("ssh://").unwrap_or(text);
        let host = host.rsplit_once('@').map_or(host, |(_, host)| host);
        if host.is_empty() {
            return Err("no host is named");
        }
        if text.starts_with('-') || host.starts_with('-') {
            return Err("a host can't begin with a dash");
        }
        if text.chars().any(|c| c.is_whitespace() || c.is_control()) {
            return Err("a host has no spaces or control characters");
        }
        Ok(Self(text.to_owned()))
    }
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A name or number of a container, in the characters that docker and podman allow.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Container(String);

impl FromStr for Container {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-');
        if text.starts_with(|c: char| c.is_ascii_alphanumeric()) && text.chars().all(plain) {
            Ok(Self(text.to_owned()))
        } else {
            Err("the name of a container has letters, digits, `_`, `.` and `-`, and begins with a letter or digit")
        }
    }
}

impl fmt::Display for Container {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_that_ssh_would_take_for_options_are_refused() {
        for good in ["gpu1", "me@gpu1", "ssh://me@gpu1:2222", "::1", "a-b", "me@-x@gpu1"] {
            assert_eq!(good.parse::<Host>().map(|h| h.to_string()), Ok(good.to_owned()));
        }
        for bad in ["", "-oProxyCommand=x", "me@", "me@-oX", "ssh://-x", "a b", "a\nb", "a\u{1b}"] {
            assert!(bad.parse::<Host>().is_err(), "{bad:?}");
        }
    }

    #[test]
    fn a_host_goes_before_the_path() {
        let of = |text: &str| Host::with_path(text).map(|(host, path)| (host.to_string(), path));
        let there = |host: &str, path: &str| Some((host.to_owned(), PathBuf::from(path)));
        assert_eq!(of("gpu1:/data/t.json"), there("gpu1", "/data/t.json"));
        assert_eq!(of("me@gpu1:~/a:b.json"), there("me@gpu1", "~/a:b.json"));
        for none in ["t.json", "./a:b", "/x/a:b", "gpu1:", ":/x", "-oX:/x"] {
            assert_eq!(of(none), None, "{none}");
        }
    }

    #[test]
    fn containers_have_plain_names() {
        for good in ["box", "box_3", "7f3a", "a.b-c"] {
            assert!(good.parse::<Container>().is_ok(), "{good}");
        }
        for bad in ["", "-i", "a b", "a;b", "a/b", "$x", ".a", "é"] {
            assert!(bad.parse::<Container>().is_err(), "{bad:?}");
        }
    }
}
