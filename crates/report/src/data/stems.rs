//! What files of a category are called. Keys of categories come from a trace or an extension and may be any text, so a
//! name is made of them that every file system takes and that leads nowhere else.

use std::collections::BTreeMap;
use std::sync::Arc;

use jarvis_analyze::analysis::Analysis;

use crate::render::names::no_device;

/// Longest beginning of a file name that a category gets.
const LONGEST: usize = 80;

/// Names that files of the system tier have.
pub(crate) const SYSTEM: [&str; 3] = ["cpu_idle", "multi_kernel", "kernel_fusion"];

/// Beginnings of file names, by category key. A key that is a safe name is its own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stems(BTreeMap<Arc<str>, String>);

impl Stems {
    /// Those of all categories of an analysis.
    pub fn of(analysis: &Analysis) -> Self {
        Self::of_keys(analysis.outcomes.iter().map(|o| &o.category))
    }

    fn of_keys<'a>(keys: impl Iterator<Item = &'a Arc<str>>) -> Self {
        let mut stems: BTreeMap<Arc<str>, String> = BTreeMap::new();
        let mut taken: Vec<String> = SYSTEM.map(str::to_owned).into();
        for key in keys {
            if stems.contains_key(key) {
                continue;
            }
            let clean = clean(key);
            let mut stem = clean.clone();
            let mut number = 2_u32;
            while taken.contains(&stem) {
                let suffix = format!("-{number}");
                stem = format!("{}{suffix}", &clean[..clean.len().min(LONGEST - suffix.len())]);
                number += 1;
            }
            taken.push(stem.clone());
            stems.insert(Arc::clone(key), stem);
        }
        Self(stems)
    }

    /// What files of this category begin with.
    pub fn get(&self, key: &str) -> &str {
        self.0.get(key).map_or("other", String::as_str)
    }
}

/// Lower-case letters, digits, `_`, `-` and inner dots; everything else becomes `_`.
fn clean(key: &str) -> String {
    let safe = |c: char| match c.to_ascii_lowercase() {
        c if c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '_' | '-' | '.') => c,
        _ => '_',
    };
    let name: String = key.chars().map(safe).take(LONGEST).collect();
    let inner = name.trim_start_matches(['.', '-']);
    if inner.is_empty() { "category".to_owned() } else { no_device(inner.to_owned()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn usual_keys_are_their_own_names_and_hostile_ones_stay_in_the_folder() {
        let long = "x".repeat(300);
        let keys =
            ["gemm", "sdpa_fwd", "../../etc", "a/b", "a\\b", "", "..", "cpu_idle", "GEMM", &long, "é\n", "Aux.x"];
        let keys: Vec<Arc<str>> = keys.iter().map(|k| Arc::from(*k)).collect();
        let stems = Stems::of_keys(keys.iter());
        let named: Vec<&str> = keys.iter().map(|k| stems.get(k)).collect();
        let cut = &long[..LONGEST];
        assert_eq!(
            named,
            [
                "gemm",
                "sdpa_fwd",
                "_.._etc",
                "a_b",
                "a_b-2",
                "category",
                "category-2",
                "cpu_idle-2",
                "gemm-2",
                cut,
                "__",
                "_aux.x"
            ]
        );
    }

    #[test]
    fn long_names_that_begin_alike_are_told_apart_within_the_limit() {
        let keys: Vec<Arc<str>> = (0..12).map(|i| Arc::from(format!("{}{i}", "k".repeat(100)))).collect();
        let stems = Stems::of_keys(keys.iter());
        let mut named: Vec<&str> = keys.iter().map(|k| stems.get(k)).collect();
        assert!(named.iter().all(|n| n.len() <= LONGEST));
        named.sort_unstable();
        named.dedup();
        assert_eq!(named.len(), keys.len());
    }
}
