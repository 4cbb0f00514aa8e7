//! How much memory a trace may take: what the user says, else a share of what the machine or the container has.

use std::fs;
use std::path::{Path, PathBuf};

/// Percent of the memory that is there which a trace may take unless the user says otherwise.
const USUAL_PERCENT: f64 = 80.0;

/// Bytes that a command takes for each event once the trace is read: the call tree and what is worked out along it.
/// `analyze` took 44 on a generated trace of 3.5 million events.
pub(crate) const LATER_PER_EVENT: u64 = 64;

/// What a command does with a trace; tables take most memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Work {
    /// Looks at it.
    Look,
    /// Makes tables of it.
    Tables,
    /// Analyses it.
    Analysis,
}

impl Work {
    /// Bytes for each distinct text. Measured on traces in which all operations and all kernels have names of their own,
    /// two texts an operation: `report` took 9 KiB for each operation, `analyze` 23 KiB.
    pub(crate) fn per_text(self) -> u64 {
        match self {
            Self::Look => 0,
            Self::Tables => 5 << 10,
            Self::Analysis => 12 << 10,
        }
    }
}

/// An amount of memory as the user gives it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Amount {
    Bytes(u64),
    Percent(f64),
}

impl Amount {
    /// `8G`, `512MiB`, `1.5 GB`, `50%`. Units are powers of 1024, as the kernel counts.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let text = text.trim();
        let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
        let (number, unit) = text.split_at(digits);
        let wrong = || "give a size such as 8G, 512M or 50%".to_owned();
        let number: f64 = number.parse().map_err(|_| wrong())?;
        let unit = unit.trim().to_ascii_uppercase();
        if unit == "%" {
            return if number > 0.0 { Ok(Self::Percent(number)) } else { Err(wrong()) };
        }
        let power = match unit.trim_end_matches('B').trim_end_matches('I') {
            "" if !unit.contains('I') => 0,
            "K" => 1,
            "M" => 2,
            "G" => 3,
            "T" => 4,
            _ => return Err(wrong()),
        };
        let bytes = number * 1024_f64.powi(power);
        if bytes >= 1.0 { Ok(Self::Bytes(bytes as u64)) } else { Err(wrong()) }
    }
}

/// What a trace may take, in bytes; `None` if the user does not say and the system does not tell.
pub(crate) fn limit(wanted: Option<Amount>) -> Option<u64> {
    let share = |percent: f64| Some((available(Path::new("/"))? as f64 * percent / 100.0) as u64);
    match wanted {
        Some(Amount::Bytes(bytes)) => Some(bytes),
        Some(Amount::Percent(percent)) => share(percent),
        None => share(USUAL_PERCENT),
    }
}

/// Memory that this process can have, in bytes: that of the machine, or less if its control groups (of either version) or
/// its own limits (`ulimit -v`) say so. `root` is where `proc` and `sys` are.
fn available(root: &Path) -> Option<u64> {
    let read = |path: &str| fs::read_to_string(root.join(path)).ok();
    let machine = read("proc/meminfo").and_then(|text| {
        let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
        line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
    });
    let own = read("proc/self/limits").and_then(|text| {
        let line = text.lines().find_map(|line| line.strip_prefix("Max address space"))?;
        line.split_whitespace().next()?.parse::<u64>().ok()
    });
    let groups = read("proc/self/cgroup").unwrap_or_default();
    let groups = groups.lines().flat_map(limit_files).filter_map(|path| {
        // `max`, or a number near the largest there is, for none.
        fs::read_to_string(root.join(path)).ok()?.trim().parse::<u64>().ok()
    });
    groups.chain(machine).chain(own).min()
}

/// Files that may hold the limit of a group or of one around it, from a line of `/proc/self/cgroup`. In a container the
/// group's path is often that of the host while its files stand at the top.
fn limit_files(line: &str) -> Vec<PathBuf> {
    let mut fields = line.splitn(3, ':');
    let (Some(_), Some(controllers), Some(path)) = (fields.next(), fields.next(), fields.next()) else {
        return Vec::new();
    };
    let (top, file) = if controllers.is_empty() {
        ("sys/fs/cgroup", "memory.max")
    } else if controllers.split(',').any(|c| c == "memory") {
        ("sys/fs/cgroup/memory", "memory.limit_in_bytes")
    } else {
        return Vec::new();
    };
    let inside: Vec<&str> = path.split('/').filter(|part| !part.is_empty() && *part != "..").collect();
    (0..=inside.len())
        .map(|length| inside[..length].iter().fold(PathBuf::from(top), |at, part| at.join(part)).join(file))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_as_people_write_them() {
        for (text, bytes) in [
            ("8G", 8 << 30),
            ("512M", 512 << 20),
            ("512MiB", 512 << 20),
            ("1.5 gb", 3 << 29),
            ("100", 100),
            ("2T", 2 << 40),
        ] {
            assert_eq!(Amount::parse(text), Ok(Amount::Bytes(bytes)), "{text}");
        }
        assert_eq!(Amount::parse("50%"), Ok(Amount::Percent(50.0)));
        for text in ["", "G", "-1G", "8X", "8iB", "0", "0%", "8GG", "1e3"] {
            assert!(Amount::parse(text).is_err(), "{text}");
        }
    }

    /// A system with these files.
    fn system(files: &[(&str, &str)]) -> Option<u64> {
        let root = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        available(root.path())
    }

    #[test]
    fn the_smallest_limit_of_machine_groups_and_process_counts() {
        const MACHINE: (&str, &str) = ("proc/meminfo", "MemTotal:       16 kB\nMemFree:  1 kB\n");
        assert_eq!(system(&[]), None);
        assert_eq!(system(&[MACHINE]), Some(16 << 10));
        // Version 2, and no limit of its own below one that has.
        let two = ("proc/self/cgroup", "0::/a.slice/b\n");
        let open = ("sys/fs/cgroup/a.slice/b/memory.max", "max\n");
        assert_eq!(system(&[MACHINE, two, open]), Some(16 << 10));
        assert_eq!(system(&[MACHINE, two, open, ("sys/fs/cgroup/a.slice/memory.max", "4096\n")]), Some(4096));
        // In a container the files stand at the top, whatever the path says.
        assert_eq!(system(&[MACHINE, two, ("sys/fs/cgroup/memory.max", "8192\n")]), Some(8192));
        // Version 1, whose word for no limit is a huge number.
        let one = ("proc/self/cgroup", "5:cpu,cpuacct:/x\n4:memory:/docker/c\n0::/\n");
        let limit = "sys/fs/cgroup/memory/docker/c/memory.limit_in_bytes";
        assert_eq!(system(&[MACHINE, one, (limit, "2048\n")]), Some(2048));
        assert_eq!(system(&[MACHINE, one, (limit, "9223372036854771712\n")]), Some(16 << 10));
        let own = (
            "proc/self/limits",
            "Limit   Soft Limit   Hard Limit   Units\nMax address space   1000   unlimited  bytes\n",
        );
        assert_eq!(system(&[MACHINE, own]), Some(1000));
    }

    #[test]
    fn this_machine_has_a_limit() {
        if cfg!(target_os = "linux") {
            let usual = limit(None).unwrap();
            assert!(usual > 1 << 20 && limit(Some(Amount::Percent(40.0))).unwrap() < usual);
        }
        assert_eq!(limit(Some(Amount::Bytes(7))), Some(7));
    }
}
