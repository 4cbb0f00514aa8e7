//! "Did you mean …": the nearest of a few known names.

/// The candidate nearest to `word`, if it is near enough to be what was meant. Case does not count; the first of
/// equally near candidates wins.
pub fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let word = word.to_lowercase();
    // A third of the word may differ: `matix_bf16` is a slip, `xyz` for `min` is another word.
    let limit = (word.chars().count() / 3).max(1);
    let len = word.chars().count();
    candidates
        .into_iter()
        // Names that differ more in length than that need no closer look.
        .filter(|candidate| candidate.chars().count().abs_diff(len) <= limit)
        .map(|candidate| (distance(&word, &candidate.to_lowercase()), candidate))
        .filter(|&(d, _)| d <= limit)
        .min_by_key(|&(d, _)| d)
        .map(|(_, candidate)| candidate)
}

/// Levenshtein distance: letters to insert, delete or replace.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, ca) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, &cb) in b.iter().enumerate() {
            let replaced = diagonal + usize::from(ca != cb);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances() {
        for (a, b, d) in
            [("", "", 0), ("abc", "", 3), ("kitten", "sitting", 3), ("flaw", "lawn", 2), ("H200", "h20", 2)]
        {
            assert_eq!(distance(a, b), d, "{a} {b}");
        }
    }

    #[test]
    fn only_near_names_are_suggested() {
        let known = ["MI300X", "H100", "H200"];
        assert_eq!(nearest("mi300", known), Some("MI300X"));
        assert_eq!(nearest("h220", known), Some("H200"));
        assert_eq!(nearest("TPUv5", known), None);
    }
}
