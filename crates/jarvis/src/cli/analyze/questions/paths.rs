//! Completion of paths: Tab goes as far as there is no doubt, and then through what there is.

use std::path::{MAIN_SEPARATOR, Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use dialoguer::Completion;

use crate::cli::wrong_file::looks_like_a_trace;

/// What is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wanted {
    /// Files called like traces, any others if there are none, and the folders on the way.
    Traces,
    /// Folders.
    Folders,
}

/// Completes paths.
pub(super) struct Paths {
    wanted: Wanted,
    /// What Tab went through last: the choices and where it stands.
    round: Mutex<Option<(Vec<String>, usize)>>,
}

impl Paths {
    pub(super) fn new(wanted: Wanted) -> Self {
        Self { wanted, round: Mutex::new(None) }
    }

    /// What begins so, sorted; folders end in a separator.
    fn choices(&self, typed: &str) -> Vec<String> {
        let (folder, start) = typed.rsplit_once(MAIN_SEPARATOR).map_or(("", typed), |(f, s)| (f, s));
        let before = typed.strip_suffix(start).unwrap_or_default();
        let place = match (before.is_empty(), folder.is_empty()) {
            (true, _) => PathBuf::from("."),
            (false, true) => PathBuf::from(before),
            (false, false) => expanded(folder),
        };
        let mut found: Vec<(String, bool)> = std::fs::read_dir(place)
            .into_iter()
            .flatten()
            .flatten()
            .map(|entry| (entry.file_name().to_string_lossy().into_owned(), entry.path().is_dir()))
            .filter(|(name, _)| name.starts_with(start) && (!name.starts_with('.') || start.starts_with('.')))
            .collect();
        let traces = found.iter().any(|(name, is_folder)| !is_folder && looks_like_a_trace(name));
        found.retain(|(name, is_folder)| match self.wanted {
            Wanted::Folders => *is_folder,
            Wanted::Traces => *is_folder || !traces || looks_like_a_trace(name),
        });
        found.sort_unstable();
        let end = |is_folder| if is_folder { String::from(MAIN_SEPARATOR) } else { String::new() };
        found.into_iter().map(|(name, is_folder)| format!("{before}{name}{}", end(is_folder))).collect()
    }
}

impl Completion for Paths {
    fn get(&self, typed: &str) -> Option<String> {
        let mut round = self.round.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((choices, at)) = round.as_mut().filter(|(choices, at)| choices[*at] == typed) {
            *at = (*at + 1) % choices.len();
            return Some(choices[*at].clone());
        }
        *round = None;
        let choices = self.choices(typed);
        let common = common_start(&choices)?;
        if common.len() > typed.len() {
            return Some(common);
        }
        let first = choices.first()?.clone();
        if choices.len() > 1 {
            *round = Some((choices, 0));
        }
        Some(first)
    }
}

/// How all of these begin.
fn common_start(choices: &[String]) -> Option<String> {
    let mut common = choices.first()?.clone();
    for choice in &choices[1..] {
        while !choice.starts_with(&common) {
            common.pop();
        }
    }
    Some(common)
}

/// A path as a shell would take it: `~` is the home folder.
pub(super) fn expanded(path: &str) -> PathBuf {
    let home = std::env::home_dir().filter(|home| !home.as_os_str().is_empty());
    match (path.strip_prefix('~'), home) {
        (Some(rest), Some(home)) if rest.is_empty() || rest.starts_with(MAIN_SEPARATOR) => {
            home.join(rest.trim_start_matches(MAIN_SEPARATOR))
        }
        _ => Path::new(path).to_path_buf(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tab_goes_as_far_as_it_can_and_then_around() {
        let root = tempfile::tempdir().unwrap();
        for name in ["rank0.json.gz", "rank1.json.gz", "notes.txt"] {
            std::fs::write(root.path().join(name), "").unwrap();
        }
        std::fs::create_dir_all(root.path().join("runs/today")).unwrap();
        let path = |rest: &str| format!("{}/{rest}", root.path().display());
        let traces = Paths::new(Wanted::Traces);
        assert_eq!(traces.get(&path("ra")), Some(path("rank")));
        assert_eq!(traces.get(&path("rank")), Some(path("rank0.json.gz")));
        assert_eq!(traces.get(&path("rank0.json.gz")), Some(path("rank1.json.gz")));
        assert_eq!(traces.get(&path("rank1.json.gz")), Some(path("rank0.json.gz")));
        assert_eq!(traces.get(&path("n")), Some(path("notes.txt")), "better than nothing");
        assert_eq!(traces.get(&path("ru")), Some(path("runs/")));
        assert_eq!(traces.get(&path("runs/")), Some(path("runs/today/")));
        assert_eq!(traces.get(&path("nothing")), None);
        let folders = Paths::new(Wanted::Folders);
        assert_eq!(folders.get(&path("r")), Some(path("runs/")));
        assert_eq!(folders.get(&path("rank")), None);
    }

    #[test]
    fn the_home_folder_is_known() {
        let home = std::env::home_dir().unwrap();
        assert_eq!(expanded("~/x"), home.join("x"));
        assert_eq!(expanded("~"), home);
        assert_eq!(expanded("~x/y"), PathBuf::from("~x/y"));
    }
}
